/* meet.c: however a team forms, its endpoints of one process meet in the process's table of
 * meetings (threads/meet.h): by an id, by the list of members over contexts that know each other,
 * as endpoints of a parent team, or by the records of an exchange. An hd_form_start_* function
 * enters the meeting; hd_form_meet waits for it and finds the group, which the first to come makes.
 *
 * An endpoint that gives up fails the meeting. If it gives up before it came there, its notice says
 * so, or is gone.
 */
#include "form/internal.h"
#include "shm/parts.h"

#include "core/hash.h"

/* --- endpoints that give up ------------------------------------------------------------------- */

/* Looks at the notices of all endpoints of this process, if the team forms by an exchange. Returns
 * why one of them will not come (logged); UCC_OK: all are at work. */
static ucc_status_t look_around(const ucc_team_h team) {
    const hd_roll_t *roll = &team->forming->roll;
    for (uint32_t i = 0; roll->all && i < team->n; i++) {
        const hd_record_t *r = &roll->all[i];
        /* The notices of another process aren't here; its failure comes by the network. */
        bool here = hd_record_same_process(r, &roll->mine);
        ucc_status_t why = here ? hd_notice_read(r->serial) : UCC_INPROGRESS;
        /* An endpoint may take its notice down once all have joined. If it has done so, this
         * endpoint sees that all have joined, too, as it looks now. */
        if (why < 0 && !(team->group && hd_group_all_joined(team->group))) {
            hd_error("team of %u: endpoint %u %s before all had joined: %s", team->n, r->number,
                     why == UCC_ERR_NOT_FOUND ? "went" : "failed", ucc_status_string(why));
            return why;
        }
    }
    return UCC_OK;
}

ucc_status_t hd_form_meeting_status(ucc_team_h team) {
    ucc_status_t failed = hd_meeting_failed(team->forming->meeting);
    if (failed != UCC_OK && look_around(team) == UCC_OK) { /* that could not say who */
        hd_error("endpoint %u: another endpoint has failed to form the team: %s", team->ep,
                 ucc_status_string(failed));
    }
    const hd_group_t *parent = team->forming->parent;
    bool crosses = parent && (hd_group_crossing(parent) || hd_kin_span(parent));
    return failed == UCC_OK && crosses ? hd_group_poisoned(parent) : failed;
}

ucc_status_t hd_form_watch(ucc_team_h team) {
    ucc_status_t failed = hd_form_meeting_status(team);
    bool now = ++team->forming->looks % ((uint64_t)team->n * HD_WATCH_EVERY) == 0;
    return failed == UCC_OK && now ? look_around(team) : failed;
}

/* --- the meeting ------------------------------------------------------------------------------ */

/* The group whose memory the team's processes share. NULL: no memory. */
static hd_group_t *find_kin(hd_forming_t *f) {
    uint64_t *in_origin = NULL;
    if (f->origin) {
        uint32_t n = f->roll.span->n;
        in_origin = hd_alloc(HD_LINE, n * sizeof(*in_origin));
        if (!in_origin) {
            return NULL;
        }
        memcpy(in_origin, f->in_origin, n * sizeof(*in_origin));
    }
    hd_group_t *group = hd_kin_found(f->roll.kin);
    if (in_origin) {
        hd_origin_keep(f->origin);
        hd_kin_descend(group, f->origin, in_origin);
    }
    return group;
}

/* Makes this process's group, for the meeting, which the first endpoint to come does. NULL: the
 * meeting has been told. */
static void *make_group(void *arg) {
    ucc_team_h team = arg;
    hd_forming_t *f = team->forming;
    hd_group_t *group = NULL;
    /* An endpoint that had gone before this one came to the meeting may have left another meeting,
     * with a group of its own. */
    ucc_status_t status = look_around(team);
    if (status == UCC_OK && f->roll.together) {
        group = find_kin(f);
        status = group ? UCC_OK : UCC_ERR_NO_MEMORY;
    } else if (status == UCC_OK && f->process) {
        status = hd_form_make_crossing(team, f->roll.all, &group);
    } else if (status == UCC_OK) {
        hd_group_config_t config = hd_team_group_config(team->lib, team->sync_type, team->n);
        group = hd_group_create(team->n, &config);
        status = group ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    if (!group && f->roll.kin && (f->roll.together || (f->process && hd_roll_has_node(&f->roll)))) {
        hd_kin_fail(f->roll.kin, status); /* the other processes have theirs */
    }
    if (!group) {
        if (f->process) {
            hd_error("a team of %u in several processes can't be made here: %s", team->n,
                     ucc_status_string(status));
        }
        hd_meeting_fail(f->meeting, status); /* the others of this process learn why */
    }
    return group;
}

/* Gives back a meeting's reference to its group. */
static void drop_group(void *group) {
    hd_home_unpin(&((hd_group_t *)group)->home);
}

hd_group_t *hd_form_made_group(hd_meeting_t *meeting) {
    return hd_meeting_object(meeting, NULL, NULL, drop_group);
}

/* Sets this endpoint's number to the rank of its label among all; duplicates are an error. */
static ucc_status_t sort_label(ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    uint64_t mine = f->roll.mine.label;
    team->ep = 0;
    for (uint32_t i = 0; i < team->n; i++) {
        uint64_t other = hd_meeting_label(f->meeting, i);
        if (i != f->participant && other == mine) {
            hd_error("ep %llu is taken twice", (unsigned long long)mine);
            return UCC_ERR_INVALID_PARAM;
        }
        team->ep += other < mine;
    }
    return UCC_OK;
}

/* Sets this endpoint's number among those that take part in a split, and how many there are. */
static void count_included(ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->meets; i++) {
        team->ep = i == f->participant ? n : team->ep;
        n += hd_meeting_included(f->meeting, i);
    }
    team->n = n;
    team->forming->roll.mine.label = team->ep;
}

static bool has_not_come(const void *meeting, uint32_t i) {
    return !hd_meeting_has_come(meeting, i);
}

void hd_form_name_missing(const ucc_team_h team, hd_text_t *text) {
    const hd_forming_t *f = team->forming;
    uint32_t absent = 0;
    for (uint32_t i = 0; i < f->meets; i++) {
        absent += has_not_come(f->meeting, i);
    }
    /* the others live in other processes, and the meeting's numbers are those of this process */
    if (f->meets < team->n) {
        hd_text_add(text, absent ? "%u more endpoints of its process" : "other processes", absent);
    } else if (f->sort_labels) { /* labels give no numbers before all have come */
        hd_text_add(text, "%u more endpoints", absent);
    } else if (hd_text_numbers(text, team->n, has_not_come, f->meeting) == 0) {
        hd_text_add(text, "the last one");
    }
    hd_text_add(text, " to come");
}

/* Hands the memory to the group, and joins it. */
static ucc_status_t join(ucc_team_h team, hd_group_t *group) {
    hd_forming_t *f = team->forming;
    if (f->bytes) {
        struct hd_region *region = &group->region[hd_group_member(group, team->ep)];
        region->address = f->memory;
        region->bytes = f->bytes;
        region->owned = f->owns_memory;
        f->owns_memory = false;
        hd_part_show(group, hd_group_member(group, team->ep));
    }
    f->step = STEP_COMPLETE;
    return hd_team_attach(team, group, team->ep, &f->locality);
}

ucc_status_t hd_form_meet(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    bool splits_here = f->parent && !hd_group_crossing(f->parent) && !hd_kin_span(f->parent);
    ucc_status_t failed = hd_form_meeting_status(team);
    if (failed != UCC_OK) {
        return failed;
    }
    if ((splits_here || f->sort_labels) && !hd_meeting_is_complete(f->meeting)) {
        return UCC_INPROGRESS;
    }
    if (splits_here) {
        count_included(team);
    } else if (f->sort_labels && (failed = sort_label(team)) != UCC_OK) {
        return failed;
    }
    hd_group_t *group = hd_meeting_object(f->meeting, make_group, team, drop_group);
    if (!group) {
        return hd_meeting_failed(f->meeting); /* whoever makes none has failed it */
    }
    if (!f->roll.all && /* of records, sync_type has been checked */
        group->two_sided != (team->sync_type == UCC_SYNC_COLLECTIVES || team->lib->check)) {
        hd_error(
            "sync_type: endpoint %u has %d (or another HEDDLE_CHECK) than the others of the team",
            team->ep, (int)team->sync_type);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_assert_lt(team->ep, group->team_n);
    group->labels[team->ep] = f->roll.mine.label;
    return join(team, group);
}

/* --- entering a meeting ----------------------------------------------------------------------- */

ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included) {
    hd_forming_t *f = team->forming;
    hd_meeting_t *meeting;
    ucc_status_t status = hd_meet(key, size, &me, f->roll.mine.label, included, &meeting);
    f->counted = meeting;
    if (status == UCC_OK) {
        hd_assert_lt(me, size);
        f->meeting = meeting;
        f->participant = me;
        f->meets = size;
        f->step = STEP_MEET;
    }
    return status;
}

/* For the memory of a meeting that has none: so this process tells the others once. */
static void *tell_others(void *refusal) {
    hd_form_refuse_sharing(refusal);
    return NULL;
}

void hd_form_tell_refusal(hd_meeting_t *meeting, const hd_refusal_t *refusal) {
    hd_kin_t *kin =
        hd_meeting_memory(meeting, tell_others, (void *)(uintptr_t)refusal, hd_kin_drop);
    if (kin) {
        hd_kin_fail(kin, refusal->why);
    }
}

bool hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me,
                            const hd_refusal_t *refusal, ucc_status_t why) {
    hd_meeting_t *meeting;
    if (hd_meet(key, n, &me, me, true, &meeting) != UCC_OK) {
        if (!meeting && refusal) {
            hd_form_refuse_sharing(refusal);
        }
        return meeting; /* the others know already, or there is no memory even for this */
    }
    hd_meeting_fail(meeting, why);
    if (refusal) {
        hd_form_tell_refusal(meeting, refusal);
    }
    hd_group_t *group = hd_form_made_group(meeting);
    if (group) { /* the group that those have who came before */
        hd_group_poison(group, why);
    }
    hd_meeting_release(meeting, true);
    return true;
}

/* --- by an id --------------------------------------------------------------------------------- */

ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params) {
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
    f->roll.mine.label = params->ep;
    uint32_t me = has_ep && !sorted ? (uint32_t)params->ep : HD_MEET_ANY;
    hd_meet_key_t key = {.kind = sorted ? HD_MEET_LABELS : HD_MEET_ID, .id = params->id};
    ucc_status_t status = hd_form_start_meeting(team, &key, team->n, me, true);
    team->ep = f->participant;
    f->roll.mine.label = has_ep ? params->ep : team->ep;
    return status;
}

/* --- by a list -------------------------------------------------------------------------------- */

static uint64_t wide_at(const void *entries, uint32_t i) {
    return ((const uint64_t *)entries)[i];
}

hd_list_t hd_list_of(const uint64_t *entries, uint32_t n) {
    return (hd_list_t){wide_at, entries, n};
}

/* An entry that breaks this would let somebody be waited for in vain. */
ucc_status_t hd_form_check_list(const hd_list_t *list, uint32_t limit, uint32_t own, uint32_t *me) {
    uint64_t *seen = hd_alloc(HD_LINE, (limit + 63) / 64 * sizeof(*seen));
    ucc_status_t status = seen ? UCC_OK : UCC_ERR_NO_MEMORY;
    *me = HD_MEET_ANY;
    if (!seen) {
        hd_error("no memory to check a list of %u members", list->n);
    }
    for (uint32_t i = 0; i < list->n && status != UCC_ERR_INVALID_PARAM; i++) {
        uint64_t entry = list->at(list->entries, i), bit = (uint64_t)1 << (entry % 64);
        *me = entry == own ? i : *me;
        if (entry >= limit || (seen && seen[entry / 64] & bit)) {
            hd_error("member %u of the list is %llu, which is %s", i, (unsigned long long)entry,
                     entry >= limit ? "out of range" : "there twice");
            status = UCC_ERR_INVALID_PARAM;
        } else if (seen) {
            seen[entry / 64] |= bit;
        }
    }
    hd_free(seen);
    if (*me == HD_MEET_ANY && status != UCC_ERR_INVALID_PARAM) {
        hd_error("the list does not contain the caller's own number %u", own);
        status = UCC_ERR_INVALID_PARAM;
    }
    return status;
}

ucc_status_t hd_form_start_by_list(ucc_team_h team, const hd_known_t *known, const hd_list_t *list,
                                   uint32_t me) {
    const hd_span_t *span = known->reach.span;
    hd_fingerprint_t name = hd_fingerprint_begin(list->n);
    uint32_t here = 0, local = 0; /* members in this process, and which of them the caller is */
    for (uint32_t i = 0; i < list->n; i++) {
        uint64_t member = list->at(list->entries, i);
        hd_fingerprint_add(&name, member);
        local = i == me ? here : local;
        here += !span || span->process_of[member] == span->mine;
    }
    if (known->id) {
        hd_fingerprint_add(&name, *known->id);
    }
    hd_meet_key_t key = {.kind = HD_MEET_LIST, .scope = known->scope, .list = name};
    if (here < list->n) {
        /* How often it is there, with this time. It is counted whatever follows, or this endpoint's
         * count would differ from others'. */
        hd_match_label_t label = {.key = name.word[0], .subset = {.start = name.word[1], .n = 1}};
        hd_lock(known->lock);
        key.id = hd_ordinals_next(known->lists, &label);
        hd_unlock(known->lock);
        if (!key.id) {
            return UCC_ERR_NO_MEMORY; /* logged; nobody can be told */
        }
    }
    uint64_t wire = hd_hash_mix(hd_hash_mix(known->origin, name.word[0]), name.word[1]);
    wire = hd_hash_mix(wire, key.id);
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (team) {
        team->forming->wire = wire;
        status = hd_form_take_list(team, &known->reach, list, me);
        status = status == UCC_OK ? hd_form_start_meeting(team, &key, here, local, true) : status;
        if (status == UCC_OK && team->forming->scope) {
            team->forming->step = STEP_SHARE;
        }
    }
    if (status == UCC_ERR_NO_MEMORY && (!team || !team->forming->counted)) {
        bool shared = here < list->n && known->reach.scope;
        hd_refusal_t refusal = {.scope = known->reach.scope, .why = status};
        hd_form_find_sharers(&known->reach, list, wire, &refusal);
        (void)hd_form_refuse_meeting(&key, here, local, shared ? &refusal : NULL, status);
        if (here < list->n && known->net) { /* those who have come may be none of this process */
            hd_net_refuse(known->net, wire, status);
        }
    }
    return status;
}

/* --- maps over contexts ----------------------------------------------------------------------- */

/* Returns the map of context ranks. ep_list is an older way to give one, for team_size members. */
static ucc_ep_map_t map_of(const ucc_team_params_t *params) {
    if (params->mask & UCC_TEAM_PARAM_FIELD_EP_MAP) {
        return params->ep_map;
    }
    uint64_t n = params->mask & UCC_TEAM_PARAM_FIELD_TEAM_SIZE ? params->team_size : 0;
    return (ucc_ep_map_t){
        .type = UCC_EP_MAP_ARRAY, .ep_num = n, .array = {params->ep_list, sizeof(uint64_t)}};
}

/* Returns what is wrong with a map; NULL: nothing. */
static const char *fault_of(const ucc_ep_map_t *map) {
    size_t size = map->array.elem_size;
    switch (map->type) {
    case UCC_EP_MAP_FULL:
    case UCC_EP_MAP_STRIDED:
        return NULL;
    case UCC_EP_MAP_ARRAY:
        return map->array.map && (size == 4 || size == 8)
                   ? NULL
                   : "array.map is NULL, or array.elem_size neither 4 nor 8";
    case UCC_EP_MAP_CB:
        return map->cb.cb ? NULL : "cb.cb is NULL";
    }
    return "there is none";
}

typedef struct ranks {
    ucc_ep_map_t map;
    uint64_t limit; /* what is not below that becomes 0: a client's function may change its mind */
} ranks_t;

/* The context rank of member i. */
static uint64_t rank_at(const void *entries, uint32_t i) {
    const ranks_t *ranks = entries;
    const ucc_ep_map_t *map = &ranks->map;
    uint64_t rank =
        map->type == UCC_EP_MAP_FULL      ? i
        : map->type == UCC_EP_MAP_STRIDED ? map->strided.start + i * (uint64_t)map->strided.stride
        : map->type == UCC_EP_MAP_CB      ? map->cb.cb(i, map->cb.cb_ctx)
        : map->array.elem_size == sizeof(uint32_t) ? ((const uint32_t *)map->array.map)[i]
                                                   : ((const uint64_t *)map->array.map)[i];
    return rank < ranks->limit ? rank : 0;
}

ucc_status_t hd_form_start_by_map(ucc_team_h team, ucc_context_h context,
                                  const ucc_team_params_t *params) {
    const hd_context_group_t *group = context->peers.group;
    ranks_t ranks = {map_of(params), UINT64_MAX};
    const hd_list_t list = {rank_at, &ranks, (uint32_t)ranks.map.ep_num};
    const char *fault = fault_of(&ranks.map);
    uint32_t world = context->peers.n, me;
    if (!world) {
        hd_error("ep_map needs contexts created with an oob");
        return UCC_ERR_INVALID_PARAM;
    }
    if (fault || ranks.map.ep_num == 0 || ranks.map.ep_num > world) {
        hd_error("ep_map of type %d, ep_num %llu, with %u contexts: %s", (int)ranks.map.type,
                 (unsigned long long)ranks.map.ep_num, world, fault ? fault : "too many, or none");
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_form_check_list(&list, world, context->rank, &me);
    if (status == UCC_ERR_INVALID_PARAM) {
        return status;
    }
    ranks.limit = world;
    /* If one thread waits for each team before it makes the next, the order is the same in all
     * processes, and teams meet by their lists. If several threads make teams, or teams form at
     * once, each process may see another order: the id has to tell the teams apart, and none
     * waits for other processes. */
    bool by_id = (params->mask & UCC_TEAM_PARAM_FIELD_ID) && context->peers.by_id;
    bool shared = group && group->scope;
    hd_known_t known = {.reach = {.span = group ? group->span : NULL,
                                  .process = group ? group->process : NULL,
                                  .obstacle = group ? group->obstacle : NULL,
                                  .kin = shared ? hd_kin_processes(group->scope) : NULL,
                                  .scope = shared ? group->scope : NULL},
                        .net = group ? group->net : NULL,
                        .scope = context->peers.serial,
                        .origin = context->peers.serial,
                        .id = by_id ? &params->id : NULL,
                        .lock = &context->offers_lock,
                        .lists = &context->peers.lists};
    team = status == UCC_OK ? team : NULL;
    if (team) {
        team->forming->ahead = by_id;
    }
    status = hd_form_start_by_list(team, &known, &list, me);
    if (status == UCC_OK && params->mask & UCC_TEAM_PARAM_FIELD_EP) {
        team->forming->roll.mine.label = params->ep;
    }
    return status;
}
