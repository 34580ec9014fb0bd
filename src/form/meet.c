/* meet.c: however a team forms, its endpoints of one process meet in the process's table of
 * meetings (threads/meet.h): by an id, by the list of members over contexts that know each other,
 * as endpoints of a parent team, or by the records of an exchange. An hd_form_start_* function
 * enters the meeting; hd_form_meet waits for it and finds the group, which the first to come makes.
 * form.c and oob.c call these for new teams, derive.c, shrink.c and split.c for teams from a
 * parent.
 *
 * An endpoint that gives up fails the meeting. If it gives up before it came there, its notice says
 * so, or is gone.
 */
#include "form/internal.h"

#include "core/hash.h"

/* --- endpoints that give up ------------------------------------------------------------------- */

/* Returns why the endpoint of a record will not come (logged); UCC_OK: not as far as is known.
 * Another process's notices aren't here; its failure comes by the network. */
static ucc_status_t look_at(const ucc_team_h team, const hd_record_t *r) {
    if (!hd_record_same_process(r, &team->forming->roll.mine)) {
        return UCC_OK;
    }
    ucc_status_t why = hd_notice_read(r->serial);
    /* An endpoint may take its notice down once all have joined. If it has done so, this endpoint
     * sees that all have joined, too, as it looks now. */
    if (why >= 0 || (team->group && hd_group_all_joined(team->group))) {
        return UCC_OK;
    }
    hd_error("team of %u: endpoint %u %s before all had joined: %s", team->n, r->number,
             why == UCC_ERR_NOT_FOUND ? "went" : "failed", ucc_status_string(why));
    return why;
}

/* Looks at the notices of all endpoints of this process, if the team forms by an exchange. Returns
 * why one of them will not come (logged); UCC_OK: all are at work. */
static ucc_status_t look_around(const ucc_team_h team) {
    const hd_record_t *all = team->forming->roll.all;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; all && i < team->n && status == UCC_OK; i++) {
        status = look_at(team, &all[i]);
    }
    return status;
}

ucc_status_t hd_form_meeting_status(ucc_team_h team) {
    ucc_status_t failed = hd_meeting_failed(team->forming->meeting);
    if (failed != UCC_OK && look_around(team) == UCC_OK) { /* that could not say who */
        hd_error("endpoint %u: another endpoint has failed to form the team: %s", team->ep,
                 ucc_status_string(failed));
    }
    const hd_group_t *parent = team->forming->parent;
    if (failed == UCC_OK && parent && hd_group_crossing(parent)) {
        failed = hd_group_poisoned(parent);
    }
    return failed;
}

ucc_status_t hd_form_watch(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t failed = hd_form_meeting_status(team);
    if (failed != UCC_OK || !f->roll.all || ++f->looks % HD_WATCH_EVERY != 0) {
        return failed;
    }
    const hd_record_t *r = &f->roll.all[f->watched];
    f->watched = f->watched + 1 < team->n ? f->watched + 1 : 0;
    return look_at(team, r);
}

/* --- the meeting ------------------------------------------------------------------------------ */

static ucc_status_t try_to_make(ucc_team_h team, hd_group_t **out) {
    if (team->forming->process) {
        return hd_form_make_crossing(team, team->forming->roll.all, out);
    }
    hd_group_config_t config = hd_team_group_config(team->lib, team->sync_type);
    *out = hd_group_create(team->n, &config);
    return *out ? UCC_OK : UCC_ERR_NO_MEMORY;
}

/* Makes this process's group, for the meeting, which the first endpoint to come does. NULL: the
 * other processes, and the meeting, have been told. */
static void *make_group(void *arg) {
    ucc_team_h team = arg;
    hd_forming_t *f = team->forming;
    hd_group_t *group = NULL;
    /* An endpoint that had gone before this one came to the meeting may have left another meeting,
     * with a group of its own. */
    f->refused = look_around(team);
    f->refused = f->refused == UCC_OK ? try_to_make(team, &group) : f->refused;
    if (!group) {
        if (f->process) {
            hd_error("a team of %u in several processes can't be made here: %s", team->n,
                     ucc_status_string(f->refused));
            hd_form_refuse(team, f->refused);
        }
        hd_meeting_fail(f->meeting, f->refused); /* the others of this process learn why */
    }
    return group;
}

static void *make_nothing(void *arg) {
    (void)arg;
    return NULL;
}

/* Gives back a meeting's reference to its group. */
static void drop_group(void *group) {
    hd_home_unpin(&((hd_group_t *)group)->home);
}

hd_group_t *hd_form_made_group(hd_meeting_t *meeting) {
    return hd_meeting_object(meeting, make_nothing, NULL, drop_group);
}

/* Returns why no group was made, to an endpoint that has asked for one in vain. */
static ucc_status_t why_no_group(const hd_forming_t *f) {
    ucc_status_t why = f->refused == UCC_OK ? hd_meeting_failed(f->meeting) : f->refused;
    return why == UCC_OK ? UCC_ERR_NO_MEMORY : why;
}

/* Sets this endpoint's number to the rank of its label among all; duplicates are an error. */
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

/* Sets this endpoint's number among the endpoints that take part in a split. Returns how many there
 * are. */
static uint32_t count_included(ucc_team_h team, uint32_t parent_n) {
    uint32_t n = 0;
    hd_meeting_t *m = team->forming->meeting;
    for (uint32_t i = 0; i < parent_n; i++) {
        if (i == team->forming->participant) {
            team->ep = n;
        }
        n += hd_meeting_included(m, i);
    }
    return n;
}

static bool has_not_come(const void *meeting, uint32_t i) {
    return !hd_meeting_has_come(meeting, i);
}

void hd_form_stalled_meeting(ucc_team_h team, uint64_t now) {
    const hd_forming_t *f = team->forming;
    uint32_t n = f->split_of ? f->split_of : team->n;
    hd_text_t text = {0};
    uint32_t absent = 0;
    for (uint32_t i = 0; i < f->meets; i++) {
        absent += has_not_come(f->meeting, i);
    }
    /* the others live in other processes, and the meeting's numbers are those of this process */
    if (f->meets < n) {
        hd_text_add(&text, absent ? "%u more endpoints of its process" : "other processes", absent);
    } else if (f->sort_labels) { /* labels give no numbers before all have come */
        hd_text_add(&text, "%u more endpoints", absent);
    } else if (hd_text_numbers(&text, n, has_not_come, f->meeting) == 0) {
        hd_text_add(&text, "the last one");
    }
    hd_stall_line("%s of %u: endpoint %llu has waited %.1f s for %s to come",
                  f->split_of ? "team from a parent" : "team", n,
                  (unsigned long long)(f->sort_labels          ? f->roll.mine.label
                                       : f->step == STEP_SPLIT ? f->parent_ep
                                                               : team->ep),
                  hd_stall_seconds(&f->stall, now), text.line);
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
    }
    f->step = STEP_COMPLETE;
    return hd_team_attach(team, group, team->ep, &f->locality);
}

ucc_status_t hd_form_meet(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    bool split = f->split_of != 0;
    ucc_status_t failed = hd_form_meeting_status(team);
    if (failed != UCC_OK) {
        return failed;
    }
    if ((split || f->sort_labels) && !hd_meeting_is_complete(f->meeting)) {
        return UCC_INPROGRESS;
    }
    if (split) {
        team->n = count_included(team, f->split_of);
    } else if (f->sort_labels) {
        ucc_status_t status = sort_label(team, f->participant);
        if (status != UCC_OK) {
            return status;
        }
    }
    if (f->origin.endpoint && !hd_meeting_is_made(f->meeting) &&
        hd_net_has_team(f->roll.net, f->wire)) {
        /* an endpoint of this process still has the team of the same wire id that was made
         * before */
        return UCC_INPROGRESS;
    }
    hd_group_t *group = hd_meeting_object(f->meeting, make_group, team, drop_group);
    if (!group) {
        return why_no_group(f);
    }
    if (!f->roll.all && /* of records, sync_type has been checked */
        group->two_sided != (team->sync_type == UCC_SYNC_COLLECTIVES || team->lib->check)) {
        hd_error(
            "sync_type: endpoint %u has %d (or another HEDDLE_CHECK) than the others of the team",
            team->ep, (int)team->sync_type);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_assert_lt(team->ep, group->team_n);
    group->labels[team->ep] = split ? team->ep : f->roll.mine.label;
    return join(team, group);
}

/* --- entering a meeting ----------------------------------------------------------------------- */

ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included) {
    hd_forming_t *f = team->forming;
    hd_meeting_t *meeting;
    ucc_status_t status = hd_meet(key, size, &me, f->roll.mine.label, included, &meeting);
    f->uncounted = !meeting;
    if (status != UCC_OK) {
        return status;
    }
    hd_assert_lt(me, size);
    f->meeting = meeting;
    f->participant = me;
    f->meets = size;
    team->ep = me;
    f->step = STEP_MEET;
    return UCC_OK;
}

ucc_status_t hd_form_meet_members(ucc_team_h team, const hd_meet_key_t *key) {
    const hd_span_t *span = team->forming->roll.span;
    uint32_t me = team->ep;
    ucc_status_t status = span ? hd_form_start_meeting(team, key, hd_span_count(span, span->mine),
                                                       span->local_of[me], true)
                               : hd_form_start_meeting(team, key, team->n, me, true);
    team->ep = me;
    return status;
}

uint64_t hd_wide_entry(const void *list, uint32_t i) {
    return ((const uint64_t *)list)[i];
}

/* The members of a list that live in this process: how many there are, and which of them the me-th
 * of the list is. */
typedef struct members {
    uint32_t n, me;
} members_t;

static members_t members_here(const hd_span_t *of, hd_entry_fn *at, const void *list, uint32_t n,
                              uint32_t me) {
    members_t here = {0, 0};
    for (uint32_t i = 0; i < n; i++) {
        here.me = i == me ? here.n : here.me;
        here.n += !of || of->process_of[at(list, i)] == of->mine;
    }
    return here;
}

void hd_form_refuse_list(const hd_known_t *known, const hd_meet_key_t *key, hd_entry_fn *at,
                         const void *list, uint32_t n, uint32_t me) {
    members_t here = members_here(known->span, at, list, n, me);
    hd_meet_key_t mine = *key;
    if (here.n < n && !mine.id) {
        mine.id = hd_form_count_list(known, key->list);
        if (!mine.id) {
            return; /* nobody can be told */
        }
    }
    hd_form_refuse_meeting(&mine, here.n, here.me, UCC_ERR_NO_MEMORY);
}

bool hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me, ucc_status_t why) {
    hd_meeting_t *meeting;
    if (hd_meet(key, n, &me, me, true, &meeting) != UCC_OK) {
        return meeting; /* the others know already, or there is no memory even for this */
    }
    hd_meeting_fail(meeting, why);
    hd_group_t *group = hd_form_made_group(meeting);
    if (group) { /* the group that those have who came before */
        hd_group_poison(group, why);
    }
    hd_meeting_release(meeting, true);
    return true;
}

uint64_t hd_form_count_list(const hd_known_t *known, hd_fingerprint_t list) {
    hd_match_label_t label = {.key = list.word[0], .subset = {.start = list.word[1], .n = 1}};
    hd_lock(known->lock);
    uint64_t ordinal = hd_ordinals_next(known->lists, &label);
    hd_unlock(known->lock);
    return ordinal;
}

ucc_status_t hd_form_start_by_list(ucc_team_h team, const hd_known_t *known,
                                   const hd_meet_key_t *key, const uint64_t *list, uint32_t n,
                                   uint32_t me) {
    hd_forming_t *f = team->forming;
    hd_meet_key_t mine = *key;
    ucc_status_t status = hd_form_take_list(team, known->span, list, n, me);
    if (status == UCC_OK && f->roll.span) {
        /* the list is counted whatever follows, or this endpoint's count would differ from others'
         */
        mine.id = hd_form_count_list(known, key->list);
        if (!mine.id) {
            return UCC_ERR_NO_MEMORY;
        }
        if (!known->process && !known->identity) {
            hd_error("ep_map: members live in several processes, and there is no network");
            return UCC_ERR_NOT_SUPPORTED;
        }
        f->wire = hd_hash_mix(hd_hash_mix(known->origin, key->list.word[0]), key->list.word[1]);
        f->wire = hd_hash_mix(f->wire, mine.id);
        status = hd_form_cross(team, known->span, list, known->process, known->identity);
    }
    status = status == UCC_OK ? hd_form_meet_members(team, &mine) : status;
    if (status == UCC_ERR_NO_MEMORY && f->uncounted) {
        hd_form_refuse_list(known, &mine, hd_wide_entry, list, n, me);
    }
    return status;
}

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
    if (!has_ep) {
        f->roll.mine.label = team->ep;
    }
    return status;
}

/* --- maps over contexts ----------------------------------------------------------------------- */

/* An entry that breaks this would let somebody be waited for in vain. */
ucc_status_t hd_form_check_list(const uint64_t *list, uint64_t n, uint64_t limit, uint64_t own,
                                uint32_t *me) {
    *me = HD_MEET_ANY;
    for (uint64_t i = 0; i < n; i++) {
        *me = list[i] == own ? (uint32_t)i : *me;
    }
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

/* Says the context rank of member i. UCC_ERR_INVALID_PARAM: the map is bad (logged). */
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
    hd_error("ep_map of type %d: %s", (int)map->type,
             map->type == UCC_EP_MAP_ARRAY ? "array.map is NULL, or array.elem_size neither 4 nor 8"
             : map->type == UCC_EP_MAP_CB  ? "cb.cb is NULL"
                                           : "there is none");
    return UCC_ERR_INVALID_PARAM;
}

/* Returns the map of context ranks. ep_list is an older way to give one, for team_size members. */
static ucc_ep_map_t map_of(const ucc_team_params_t *params) {
    if (params->mask & UCC_TEAM_PARAM_FIELD_EP_MAP) {
        return params->ep_map;
    }
    uint64_t n = params->mask & UCC_TEAM_PARAM_FIELD_TEAM_SIZE ? params->team_size : 0;
    return (ucc_ep_map_t){
        .type = UCC_EP_MAP_ARRAY, .ep_num = n, .array = {params->ep_list, sizeof(uint64_t)}};
}

/* Returns what teams of this list meet by. If one thread waits for each team before it makes the
 * next, the order is the same in all processes, and the list is enough. If several threads make
 * teams, or teams form at once, each process may see another order, and the id has to tell the
 * teams apart. */
static hd_fingerprint_t name_of(const ucc_team_h team, const uint64_t *list, bool has_id) {
    hd_fingerprint_t name = hd_fingerprint(list, team->n);
    if (has_id && team->contexts[0]->peers.by_id) {
        hd_fingerprint_add(&name, team->id);
    }
    return name;
}

/* Starts a team over contexts. The list has team->n ranks, of which the caller's is the me-th. */
static ucc_status_t start_over_contexts(ucc_team_h team, const uint64_t *list, uint32_t me,
                                        bool has_id) {
    ucc_context_h context = team->contexts[0];
    const hd_context_group_t *group = context->peers.group;
    hd_known_t known = {.span = group ? group->span : NULL,
                        .process = group ? group->process : NULL,
                        .origin = context->peers.serial,
                        .lock = &context->offers_lock,
                        .lists = &context->peers.lists};
    hd_meet_key_t key = {
        .kind = HD_MEET_LIST, .scope = context->peers.serial, .list = name_of(team, list, has_id)};
    /* Clients that form one team at a time, in any of their threads, may form teams in different
     * orders in two processes. If each process waited for the other's, both would wait for ever. */
    team->forming->ahead = has_id && context->peers.by_id;
    return hd_form_start_by_list(team, &known, &key, list, team->n, me);
}

ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params) {
    ucc_context_h context = team->contexts[0];
    const ucc_ep_map_t given = map_of(params), *map = &given;
    uint32_t world = context->peers.n;
    if (!world) {
        hd_error("ep_map needs contexts created with an oob");
        return UCC_ERR_INVALID_PARAM;
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
    }
    if (status == UCC_OK) {
        status = hd_form_check_list(list, team->n, world, context->rank, &me);
    }
    if (status == UCC_OK && me == HD_MEET_ANY) {
        hd_error("ep_map does not contain the caller's context %u", context->rank);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status == UCC_OK) {
        team->forming->roll.mine.label = params->mask & UCC_TEAM_PARAM_FIELD_EP ? params->ep : me;
        status = start_over_contexts(team, list, me, (params->mask & UCC_TEAM_PARAM_FIELD_ID) != 0);
    }
    hd_free(list);
    return status;
}
