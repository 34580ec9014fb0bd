/* form.c: how endpoints become a team. All ways end in the same: a group that every endpoint has
 * joined (shm/group.c).
 *
 *   OOB      one allgather of a record per endpoint; the record of number 0 points to a SEED, in which
 *            number 0 leaves the group for the others to find
 *   EP_MAP   contexts that were created by one exchange meet by the list of members
 *   ID       no exchange at all: endpoints meet by the team's id and size
 *
 * create_post never blocks; create_test drives. One OOB call is outstanding at a time.
 */
#include "team/team.h"
#include "threads/meet.h"

#include <stdlib.h>
#include <string.h>

/* Left by number 0 for the others; each endpoint holds one of its n references. */
typedef struct seed {
    _Atomic(hd_group_t *) group; /* holds a reference to it */
    _Atomic int32_t status;
    _Atomic uint32_t refs;
} seed_t;

typedef struct record {
    uint64_t process[2];
    uint64_t number; /* endpoint number */
    uint64_t label;
    uint64_t seed;
    uint32_t sync_type;
    uint32_t reserved;
    hd_locality_t locality;
} record_t;

typedef enum step { STEP_GATHER, STEP_SEED, STEP_MEET, STEP_JOIN, STEP_COMPLETE } step_t;

struct hd_forming {
    step_t step;
    ucc_oob_coll_t oob;
    void *request;
    record_t mine, *all;
    uint64_t *seen; /* a bit per number, for check_records */
    seed_t *seed;
    hd_meeting_t *meeting;
    bool excluded;     /* takes no part in the team that a split makes */
    bool sort_labels;  /* numbers are the ranks of the labels */
    hd_group_t *group; /* found; referenced */
    hd_locality_t locality;
    void *memory;
    size_t bytes;
    bool owns_memory;
};

hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type) {
    const hd_config_t *c = lib->config;
    return (hd_group_config_t){
        .depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_RING),
        .persistent_depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_PERSISTENT_RING),
        .flat_max = (uint32_t)hd_config_uint(c, HD_CFG_LIB_FLAT_MAX),
        .lines_max = hd_config_size(c, HD_CFG_LIB_LINES_MAX),
        .staged_max = hd_config_size(c, HD_CFG_LIB_STAGED_MAX),
        .chunk = hd_config_size(c, HD_CFG_LIB_CHUNK),
        .two_sided = sync_type == UCC_SYNC_COLLECTIVES || lib->check,
        .arrival = hd_config_choice(c, HD_CFG_LIB_ARRIVAL),
        .tree = hd_config_choice(c, HD_CFG_LIB_TREE),
    };
}

/* --- handles ------------------------------------------------------------------------------------ */

ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts) {
    ucc_team_h team = hd_alloc(HD_LINE_PAIR, sizeof(*team));
    if (!team) {
        hd_error("no memory for a team handle");
        return NULL;
    }
    team->contexts = hd_alloc(HD_LINE, n_contexts * sizeof(*contexts));
    if (!team->contexts) {
        hd_free(team);
        hd_error("no memory for a team handle");
        return NULL;
    }
    memcpy(team->contexts, contexts, n_contexts * sizeof(*contexts));
    team->magic = HD_TEAM_MAGIC;
    team->n_contexts = n_contexts;
    team->lib = contexts[0]->lib;
    team->thread_mode = team->lib->params.thread_mode;
    team->locked = team->thread_mode == UCC_THREAD_MULTIPLE;
    team->debug_order = team->lib->debug_order;
    for (uint32_t i = 0; i < n_contexts; i++) {
        /* relaxed: a count for context_destroy, which the client orders after this */
        atomic_fetch_add_explicit(&contexts[i]->teams, 1, memory_order_relaxed);
    }
    return team;
}

ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where) {
    hd_home_pin(&group->home);
    team->group = group;
    team->ep = ep;
    team->n = group->n;
    ucc_status_t status = hd_group_join(group, ep, where);
    if (status == UCC_OK) {
        team->member = group->board->member[ep];
    }
    return status;
}

static void drop_forming(ucc_team_h team);

void hd_team_free(ucc_team_h team) {
    drop_forming(team);
    team->magic = HD_DEAD_MAGIC;
    while (team->all) {
        hd_request_t *r = team->all;
        team->all = r->all;
        hd_pack_release(r);
        hd_free(r->prefix);
        hd_free(r);
    }
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        atomic_fetch_sub_explicit(&team->contexts[i]->teams, 1, memory_order_relaxed); /* a count */
    }
    if (team->group) {
        hd_home_unpin(&team->group->home);
    }
    hd_free(team->contexts);
    hd_free(team);
}

ucc_status_t hd_team_destroy(ucc_team_h team) {
    if (team->forming && team->forming->request) {
        hd_error("team destroyed while its oob allgather is outstanding at endpoint %u",
                 team->forming->oob.oob_ep);
        return UCC_ERR_INVALID_PARAM;
    }
    for (hd_request_t *r = team->all; r; r = r->all) {
        if (r->op.task.magic == HD_TASK_LIVE && hd_task_status(&r->op.task) == UCC_INPROGRESS) {
            hd_error("team destroyed while %s is in progress at endpoint %u",
                     hd_type_name(r->op.type), team->ep);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    hd_team_free(team);
    return UCC_OK;
}

/* --- the seed ------------------------------------------------------------------------------------ */

static void release_seed(seed_t *seed) {
    /* acq_rel: all have read it before it goes */
    if (atomic_fetch_sub_explicit(&seed->refs, 1, memory_order_acq_rel) == 1) {
        /* relaxed: the last reference */
        hd_group_t *group = atomic_load_explicit(&seed->group, memory_order_relaxed);
        if (group) {
            hd_home_unpin(&group->home);
        }
        hd_free(seed);
    }
}

static void drop_forming(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f) {
        return;
    }
    if (f->seed) {
        release_seed(f->seed);
    }
    if (f->meeting) {
        hd_meeting_release(f->meeting, f->excluded);
    }
    if (f->owns_memory) {
        hd_free(f->memory);
    }
    hd_free(f->all);
    hd_free(f->seen);
    hd_free(f);
    team->forming = NULL;
}

/* --- out of band --------------------------------------------------------------------------------- */

static ucc_status_t start_oob(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool contiguous = (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                      params->ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG;
    f->oob = params->oob;
    team->n = f->oob.n_oob_eps;
    f->mine.number = has_ep && contiguous ? params->ep : f->oob.oob_ep;
    f->mine.label = has_ep ? params->ep : f->oob.oob_ep;
    f->mine.sync_type = (uint32_t)team->sync_type;
    f->mine.locality = f->locality;
    hd_process_identity(f->mine.process);
    if (f->mine.number >= team->n) {
        hd_error("ep %llu is not below the team's size %u", (unsigned long long)f->mine.number,
                 team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    if (f->mine.number == 0) {
        f->seed = hd_alloc(HD_LINE, sizeof(*f->seed));
        if (!f->seed) {
            return UCC_ERR_NO_MEMORY;
        }
        atomic_store_explicit(&f->seed->refs, team->n, memory_order_relaxed); /* not shared yet */
        f->mine.seed = (uint64_t)(uintptr_t)f->seed;
    }
    f->all = hd_alloc(HD_LINE, team->n * sizeof(record_t));
    f->seen = hd_alloc(HD_LINE, (team->n + 63) / 64 * sizeof(*f->seen));
    if (!f->all || !f->seen) {
        hd_error("no memory for an exchange among %u endpoints", team->n);
        return UCC_ERR_NO_MEMORY;
    }
    f->step = STEP_GATHER;
    if (team->n == 1) {
        f->all[0] = f->mine; /* no exchange with oneself */
        f->step = STEP_SEED;
        return UCC_OK;
    }
    ucc_status_t status =
        f->oob.allgather(&f->mine, f->all, sizeof(f->mine), f->oob.coll_info, &f->request);
    if (status < 0) {
        hd_error("oob.allgather failed: %s", ucc_status_string(status));
    }
    return status < 0 ? status : UCC_OK;
}

/* All records are here: one process? every number once? the same kind of team? */
static ucc_status_t check_records(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    uint64_t *seen = f->seen;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        const record_t *r = &f->all[i];
        if (memcmp(r->process, f->mine.process, sizeof(r->process)) != 0) {
            hd_error("team of several processes: this build joins threads of one process");
            status = UCC_ERR_NOT_SUPPORTED;
        } else if (r->number >= team->n || seen[r->number / 64] >> (r->number % 64) & 1) {
            hd_error("ep %llu is out of range or taken twice", (unsigned long long)r->number);
            status = UCC_ERR_INVALID_PARAM;
        } else if (r->sync_type != f->mine.sync_type) {
            hd_error("sync_type differs between endpoints");
            status = UCC_ERR_INVALID_PARAM;
        } else {
            seen[r->number / 64] |= (uint64_t)1 << (r->number % 64);
        }
    }
    return status;
}

/* No team will come of these records (all endpoints find the same): nobody will take a seed up, so
 * everybody lets go of all of them; of its own one in drop_forming. */
static void release_other_seeds(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    for (uint32_t i = 0; i < team->n; i++) {
        seed_t *seed = (seed_t *)(uintptr_t)f->all[i].seed;
        if (seed && seed != f->seed &&
            memcmp(f->all[i].process, f->mine.process, sizeof(f->mine.process)) == 0) {
            release_seed(seed);
        }
    }
}

static ucc_status_t step_gather(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = f->oob.req_test(f->request);
    if (status == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    ucc_status_t freed = f->oob.req_free(f->request);
    f->request = NULL;
    if (status < 0 || freed < 0) {
        hd_error("oob allgather of the team failed");
        return status < 0 ? status : freed;
    }
    f->step = STEP_SEED;
    return UCC_OK;
}

/* Number 0 makes the group; all take it from the seed. */
static ucc_status_t step_seed(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f->group) {
        ucc_status_t status = f->seed && f->mine.number != 0 ? UCC_OK : check_records(team);
        if (status != UCC_OK) {
            release_other_seeds(team);
        }
        if (f->mine.number == 0) {
            hd_group_config_t config = hd_team_group_config(team->lib, team->sync_type);
            hd_group_t *group = status == UCC_OK ? hd_group_create(team->n, &config) : NULL;
            for (uint32_t i = 0; group && i < team->n; i++) {
                group->labels[f->all[i].number] = f->all[i].label;
            }
            status = status == UCC_OK && !group ? UCC_ERR_NO_MEMORY : status;
            /* relaxed: the release below publishes it */
            atomic_store_explicit(&f->seed->status, (int32_t)status, memory_order_relaxed);
            /* release: the group; pairs with the acquire below */
            atomic_store_explicit(&f->seed->group, group, memory_order_release);
        }
        if (status != UCC_OK) {
            return status;
        }
        for (uint32_t i = 0; !f->seed && i < team->n; i++) {
            if (f->all[i].number == 0) {
                f->seed = (seed_t *)(uintptr_t)f->all[i].seed;
            }
        }
        /* acquire: pairs with number 0's release */
        f->group = atomic_load_explicit(&f->seed->group, memory_order_acquire);
        if (!f->group) {
            return atomic_load_explicit(&f->seed->status, memory_order_relaxed) < 0
                       ? UCC_ERR_NO_RESOURCE /* number 0 has logged why */
                       : UCC_INPROGRESS;
        }
    }
    team->ep = (uint32_t)f->mine.number;
    f->step = STEP_JOIN;
    return UCC_OK;
}

/* --- meeting without an exchange ------------------------------------------------------------------- */

typedef struct making {
    ucc_team_h team;
    uint32_t n;
} making_t;

static void *make_group(void *arg) {
    making_t *making = arg;
    hd_group_config_t config = hd_team_group_config(making->team->lib, making->team->sync_type);
    return hd_group_create(making->n, &config);
}

static void drop_group(void *object) {
    hd_home_unpin(&((hd_group_t *)object)->home);
}

/* My number among those whose labels I have to be sorted with; duplicates are an error. */
static ucc_status_t sort_label(ucc_team_h team, uint32_t me) {
    hd_meeting_t *m = team->forming->meeting;
    uint64_t mine = hd_meeting_label(m, me);
    uint32_t below = 0;
    for (uint32_t i = 0; i < team->n; i++) {
        uint64_t other = hd_meeting_label(m, i);
        if (i != me && other == mine) {
            hd_error("ep %llu is taken twice", (unsigned long long)mine);
            return UCC_ERR_INVALID_PARAM;
        }
        below += other < mine;
    }
    team->ep = below;
    return UCC_OK;
}

/* Split: my number among the included. Says how many there are. */
static uint32_t count_included(ucc_team_h team, uint32_t parent_n) {
    uint32_t n = 0;
    hd_meeting_t *m = team->forming->meeting;
    for (uint32_t i = 0; i < parent_n; i++) {
        if (i == team->forming->mine.number) {
            team->ep = n;
        }
        n += hd_meeting_included(m, i);
    }
    return n;
}

static ucc_status_t step_meet(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    bool split = f->mine.reserved != 0; /* participants of a split; 0: not one */
    if ((split || f->sort_labels) && !hd_meeting_is_complete(f->meeting)) {
        return UCC_INPROGRESS;
    }
    if (split) {
        team->n = count_included(team, f->mine.reserved);
    } else if (f->sort_labels) {
        ucc_status_t status = sort_label(team, (uint32_t)f->mine.number);
        if (status != UCC_OK) {
            return status;
        }
    }
    making_t making = {team, team->n};
    hd_group_t *group = hd_meeting_object(f->meeting, make_group, &making, drop_group);
    if (!group) {
        return UCC_ERR_NO_MEMORY;
    }
    f->group = group;
    if (group->two_sided != (team->sync_type == UCC_SYNC_COLLECTIVES || team->lib->check)) {
        hd_error("sync_type differs between endpoints");
        return UCC_ERR_INVALID_PARAM;
    }
    group->labels[team->ep] = split ? team->ep : f->mine.label;
    f->step = STEP_JOIN;
    return UCC_OK;
}

static ucc_status_t start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                  uint32_t me, bool included) {
    hd_forming_t *f = team->forming;
    f->meeting = hd_meet(key, size, &me, f->mine.label, included);
    if (!f->meeting) {
        hd_error("no memory for a meeting of %u endpoints", size);
        return UCC_ERR_NO_MEMORY;
    }
    f->mine.number = me;
    team->ep = me;
    f->step = STEP_MEET;
    return UCC_OK;
}

static ucc_status_t start_by_id(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    uint64_t need = UCC_TEAM_PARAM_FIELD_TEAM_SIZE | UCC_TEAM_PARAM_FIELD_ID;
    if ((params->mask & need) != need) {
        hd_error("a team without oob and ep_map needs team_size and id: without an id, two teams "
                 "formed at once can't be told apart");
        return UCC_ERR_INVALID_PARAM;
    }
    if (params->team_size == 0 || params->team_size > UINT32_MAX / 2) {
        hd_error("team_size %llu is not possible", (unsigned long long)params->team_size);
        return UCC_ERR_INVALID_PARAM;
    }
    team->n = (uint32_t)params->team_size;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool sorted = has_ep && (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                  params->ep_range == UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
    if (has_ep && !sorted && params->ep >= team->n) {
        hd_error("ep %llu is not below team_size %u, and ep_range is not NONCONTIG",
                 (unsigned long long)params->ep, team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    f->sort_labels = sorted;
    f->mine.label = params->ep;
    uint32_t me = has_ep && !sorted ? (uint32_t)params->ep : HD_MEET_ANY;
    hd_meet_key_t key = {.kind = HD_MEET_ID, .id = params->id};
    ucc_status_t status = start_meeting(team, &key, team->n, me, true);
    if (!has_ep) {
        f->mine.label = team->ep;
    }
    return status;
}

/* --- maps over contexts -------------------------------------------------------------------------- */

/* Every entry below limit, and none twice: else somebody would be waited for in vain. */
static ucc_status_t check_list(const uint64_t *list, uint64_t n, uint64_t limit) {
    uint64_t *seen = hd_alloc(HD_LINE, (limit + 63) / 64 * sizeof(*seen));
    ucc_status_t status = seen ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < n && status == UCC_OK; i++) {
        uint64_t bit = (uint64_t)1 << (list[i] % 64);
        if (list[i] >= limit || seen[list[i] / 64] & bit) {
            hd_error("member %llu of the list is %llu, which is %s", (unsigned long long)i,
                     (unsigned long long)list[i],
                     list[i] >= limit ? "out of range" : "there twice");
            status = UCC_ERR_INVALID_PARAM;
        } else {
            seen[list[i] / 64] |= bit;
        }
    }
    hd_free(seen);
    return status;
}

static ucc_status_t map_at(const ucc_ep_map_t *map, uint64_t i, uint64_t *rank) {
    switch (map->type) {
    case UCC_EP_MAP_FULL:
        *rank = i;
        return UCC_OK;
    case UCC_EP_MAP_STRIDED:
        *rank = map->strided.start + i * (uint64_t)map->strided.stride;
        return UCC_OK;
    case UCC_EP_MAP_ARRAY:
        if (!map->array.map || (map->array.elem_size != 4 && map->array.elem_size != 8)) {
            break;
        }
        *rank = map->array.elem_size == 4 ? ((const uint32_t *)map->array.map)[i]
                                          : ((const uint64_t *)map->array.map)[i];
        return UCC_OK;
    case UCC_EP_MAP_CB:
        if (!map->cb.cb) {
            break;
        }
        *rank = map->cb.cb(i, map->cb.cb_ctx);
        return UCC_OK;
    }
    hd_error("ep_map is not valid");
    return UCC_ERR_INVALID_PARAM;
}

/* ep_list is an older way to say the same: the context ranks of team_size members. */
static ucc_ep_map_t map_of(const ucc_team_params_t *params) {
    if (params->mask & UCC_TEAM_PARAM_FIELD_EP_MAP) {
        return params->ep_map;
    }
    uint64_t n = params->mask & UCC_TEAM_PARAM_FIELD_TEAM_SIZE ? params->team_size : 0;
    return (ucc_ep_map_t){
        .type = UCC_EP_MAP_ARRAY, .ep_num = n, .array = {params->ep_list, sizeof(uint64_t)}};
}

static ucc_status_t start_by_map(ucc_team_h team, const ucc_team_params_t *params) {
    ucc_context_h context = team->contexts[0];
    const ucc_ep_map_t given = map_of(params), *map = &given;
    uint32_t world = hd_context_world(context);
    if (!world) {
        hd_error("ep_map needs contexts created with an oob");
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_context_spans_processes(context)) {
        hd_error("team of several processes: this build joins threads of one process");
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (map->ep_num == 0 || map->ep_num > world) {
        hd_error("ep_map.ep_num %llu, with %u contexts", (unsigned long long)map->ep_num, world);
        return UCC_ERR_INVALID_PARAM;
    }
    team->n = (uint32_t)map->ep_num;
    uint64_t *list = hd_alloc(HD_LINE, team->n * sizeof(*list));
    uint32_t me = HD_MEET_ANY;
    ucc_status_t status = list ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        status = map_at(map, i, &list[i]);
        if (status == UCC_OK && list[i] == context->rank) {
            me = i;
        }
    }
    if (status == UCC_OK) {
        status = check_list(list, team->n, world);
    }
    if (status == UCC_OK && me == HD_MEET_ANY) {
        hd_error("ep_map does not contain the caller's context %u", context->rank);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status == UCC_OK) {
        team->forming->mine.label = params->mask & UCC_TEAM_PARAM_FIELD_EP ? params->ep : me;
        hd_meet_key_t key = {.kind = HD_MEET_LIST,
                             .scope = hd_context_serial(context),
                             .list = list,
                             .n_list = team->n};
        status = start_meeting(team, &key, team->n, me, true);
    }
    hd_free(list);
    return status;
}

/* --- the team's memory ----------------------------------------------------------------------------- */

static ucc_status_t take_memory(ucc_team_h team, const heddle_team_params_t *extra) {
    hd_forming_t *f = team->forming;
    size_t align = HD_LINE_PAIR;
    uint64_t wants = extra->memory.constraints;
    size_t asked = wants & UCC_MEM_ALIGN128  ? 128
                   : wants & UCC_MEM_ALIGN64 ? 64
                   : wants & UCC_MEM_ALIGN32 ? 32
                                             : 1;
    f->memory = extra->memory.address;
    f->bytes = extra->memory.bytes;
    if (f->memory && (uintptr_t)f->memory % asked) {
        hd_error("memory.address is not a multiple of the %zu bytes that its constraints ask for",
                 asked);
        return UCC_ERR_INVALID_PARAM;
    }
    if (!f->memory && f->bytes) {
        f->memory = hd_alloc(align, f->bytes);
        f->owns_memory = true;
        return f->memory ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

/* --- create ---------------------------------------------------------------------------------------- */

static ucc_status_t take_params(ucc_team_h team, const ucc_team_params_t *p) {
    uint64_t mask = p->mask;
    team->ordering = mask & UCC_TEAM_PARAM_FIELD_ORDERING ? p->ordering : 0;
    team->sync_type = mask & UCC_TEAM_PARAM_FIELD_SYNC_TYPE ? p->sync_type : 0;
    team->ep_range = mask & UCC_TEAM_PARAM_FIELD_EP_RANGE ? p->ep_range : 0;
    team->id = mask & UCC_TEAM_PARAM_FIELD_ID ? p->id : 0;
    team->outstanding_colls =
        mask & UCC_TEAM_PARAM_FIELD_OUTSTANDING_COLLS ? p->outstanding_colls : 0;
    if (mask & UCC_TEAM_PARAM_FIELD_MEM_PARAMS) {
        team->mem_params = p->mem_params;
    }
    if ((unsigned)team->ordering > UCC_COLLECTIVE_INIT_AND_POST_UNORDERED) {
        hd_error("ordering %d does not exist", (int)team->ordering);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((unsigned)team->sync_type > UCC_SYNC_COLLECTIVES ||
        (unsigned)team->ep_range > UCC_COLLECTIVE_EP_RANGE_NONCONTIG) {
        hd_error("sync_type or ep_range does not exist");
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t take_extra(ucc_team_h team, const heddle_team_params_t *extra) {
    if (extra->mask & HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE) {
        if ((unsigned)extra->thread_mode > UCC_THREAD_MULTIPLE ||
            extra->thread_mode > team->lib->params.thread_mode) {
            hd_error("thread_mode of the team is more than the library was initialised with");
            return UCC_ERR_INVALID_PARAM;
        }
        /* The handle keeps its locks: the promise is about calls on this endpoint, and other threads
           may still progress the context it shares. */
        team->thread_mode = extra->thread_mode;
    }
    if (extra->mask & HEDDLE_TEAM_PARAM_FIELD_LOCALITY) {
        team->forming->locality = (hd_locality_t){.package = extra->locality.package,
                                                  .numa = extra->locality.numa,
                                                  .l3 = extra->locality.l3,
                                                  .core = extra->locality.core,
                                                  .pu = -1,
                                                  .trusted = true};
    }
    return extra->mask & HEDDLE_TEAM_PARAM_FIELD_MEMORY ? take_memory(team, extra) : UCC_OK;
}

static ucc_status_t begin_forming(ucc_team_h team) {
    team->forming = hd_alloc(HD_LINE, sizeof(*team->forming));
    if (!team->forming) {
        hd_error("no memory to form a team");
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

static ucc_status_t check_oob(const ucc_oob_coll_t *oob, const ucc_team_params_t *p) {
    if (!oob->allgather || !oob->req_test || !oob->req_free) {
        if (oob->n_oob_eps != 1) {
            hd_error("oob has a NULL function");
            return UCC_ERR_INVALID_PARAM;
        }
    }
    if (oob->n_oob_eps == 0 || oob->oob_ep >= oob->n_oob_eps) {
        hd_error("oob.oob_ep %u of oob.n_oob_eps %u", oob->oob_ep, oob->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((p->mask & UCC_TEAM_PARAM_FIELD_TEAM_SIZE) && p->team_size != oob->n_oob_eps) {
        hd_error("team_size %llu differs from oob.n_oob_eps %u", (unsigned long long)p->team_size,
                 oob->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            ucc_team_h *out) {
    ucc_team_h team = hd_team_alloc(contexts, n_contexts);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = begin_forming(team);
    if (status == UCC_OK) {
        team->forming->locality = contexts[0]->locality;
        if (!team->forming->locality.trusted) {
            hd_topo_locate_thread(hd_topo_get(), &team->forming->locality);
        }
        status = take_params(team, params);
    }
    if (status == UCC_OK && extra) {
        status = take_extra(team, extra);
    }
    if (status == UCC_OK && (params->mask & UCC_TEAM_PARAM_FIELD_OOB)) {
        status = check_oob(&params->oob, params);
        status = status == UCC_OK ? start_oob(team, params) : status;
    } else if (status == UCC_OK &&
               (params->mask & (UCC_TEAM_PARAM_FIELD_EP_MAP | UCC_TEAM_PARAM_FIELD_EP_LIST))) {
        status = start_by_map(team, params);
    } else if (status == UCC_OK) {
        status = start_by_id(team, params);
    }
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}

/* --- driving --------------------------------------------------------------------------------------- */

static ucc_status_t step_join(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (f->bytes) {
        f->group->region[team->ep].address = f->memory;
        f->group->region[team->ep].bytes = f->bytes;
        f->group->region[team->ep].owned = f->owns_memory;
        f->owns_memory = false;
    }
    f->step = STEP_COMPLETE;
    return hd_team_attach(team, f->group, team->ep, &f->locality);
}

static ucc_status_t step_complete(ucc_team_h team) {
    ucc_status_t failed = hd_group_poisoned(team->group);
    if (failed != UCC_OK) {
        return failed;
    }
    if (!hd_group_is_complete(team->group)) {
        return UCC_INPROGRESS;
    }
    drop_forming(team);
    team->state = HD_TEAM_ACTIVE;
    return UCC_OK;
}

static ucc_status_t step(ucc_team_h team) {
    switch (team->forming->step) {
    case STEP_GATHER:
        return step_gather(team);
    case STEP_SEED:
        return step_seed(team);
    case STEP_MEET:
        return step_meet(team);
    case STEP_JOIN:
        return step_join(team);
    case STEP_COMPLETE:
        break;
    }
    return step_complete(team);
}

/* The team can't become complete without me: those who join it, or have, must not wait for that. */
static void give_up(ucc_team_h team, ucc_status_t why) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = team->group;
    if (!group && f) {
        making_t making = {team, team->n};
        group = f->group;
        if (!group && f->meeting) {
            group = hd_meeting_object(f->meeting, make_group, &making, drop_group);
        }
    }
    if (group) {
        hd_group_poison(group, why);
    }
}

ucc_status_t hd_team_create_test(ucc_team_h team) {
    while (team->state == HD_TEAM_FORMING) {
        ucc_status_t status = team->forming ? step(team) : step_complete(team);
        if (status == UCC_INPROGRESS) {
            return UCC_INPROGRESS;
        }
        if (status < 0) {
            give_up(team, status);
            team->state = HD_TEAM_FAILED;
        }
    }
    return team->state == HD_TEAM_FAILED ? UCC_ERR_NO_RESOURCE : UCC_OK;
}

/* --- teams from teams ------------------------------------------------------------------------------- */

static ucc_team_h heir(ucc_team_h parent) {
    ucc_team_h team = hd_team_alloc(parent->contexts, parent->n_contexts);
    if (!team || begin_forming(team) != UCC_OK) {
        if (team) {
            hd_team_free(team);
        }
        return NULL;
    }
    team->ordering = parent->ordering;
    team->sync_type = parent->sync_type;
    team->outstanding_colls = parent->outstanding_colls;
    team->thread_mode = parent->thread_mode;
    team->locked = parent->locked;
    team->mem_params = parent->mem_params;
    team->forming->locality = parent->group->locality[parent->ep];
    return team;
}

ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out) {
    ucc_team_h team = heir(parent);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_lock(&parent->lock);
    uint64_t number = ++parent->splits;
    hd_unlock(&parent->lock);
    hd_meet_key_t key = {.kind = HD_MEET_SPLIT, .scope = parent->group->serial, .id = number};
    ucc_status_t status = start_meeting(team, &key, parent->n, parent->ep, included);
    team->forming->mine.reserved = parent->n;
    if (status == UCC_OK && !included) {
        team->forming->excluded = true;
        drop_forming(team); /* has been counted; takes no further part */
        team->state = HD_TEAM_EXCLUDED;
    }
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}

ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n,
                               ucc_team_h *out) {
    uint32_t me = HD_MEET_ANY;
    if (n > parent->n) {
        hd_error("num_eps %llu is more than the parent's %u", (unsigned long long)n, parent->n);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = check_list(eps, n, parent->n);
    if (status != UCC_OK) {
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (eps[i] == parent->ep) {
            me = i;
        }
    }
    if (me == HD_MEET_ANY) {
        hd_error("the list of endpoints does not contain the caller's %u", parent->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_team_h team = heir(parent);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    team->n = (uint32_t)n;
    hd_meet_key_t key = {
        .kind = HD_MEET_LIST, .scope = parent->group->serial, .list = eps, .n_list = (uint32_t)n};
    status = start_meeting(team, &key, team->n, me, true);
    team->forming->mine.label = team->ep;
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}
