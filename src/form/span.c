/* span.c: who lives where, in a team whose endpoints live in several processes, and the group of
 * such a team: one in each process, with its crossing (span/crossing.c). From the making of the
 * group on, a process that fails says so through the network.
 */
#include "form/internal.h"

#include "core/hash.h"

/* --- members of a list ------------------------------------------------------------------------ */

/* Makes the span of a list's members. NULL: no memory (logged). */
static hd_span_t *make_span(const hd_span_t *of, const hd_list_t *list, uint32_t me) {
    uint32_t *process_of = hd_alloc(HD_LINE, list->n * sizeof(*process_of));
    for (uint32_t i = 0; process_of && i < list->n; i++) {
        process_of[i] = of->process_of[list->at(list->entries, i)];
    }
    hd_span_t *span = process_of ? hd_span_create(list->n, process_of, me) : NULL;
    hd_free(process_of);
    if (!span) {
        hd_error("no memory for a list of %u members", list->n);
    }
    return span;
}

hd_reach_t hd_form_reach_of(const hd_group_t *group) {
    const hd_crossing_t *crossing = hd_group_crossing(group);
    if (crossing) {
        bool has_node = crossing->nodes && group->kin;
        return (hd_reach_t){.span = crossing->span,
                            .process = crossing->process,
                            .kin = has_node ? hd_kin_processes(group) : NULL,
                            .scope = has_node ? (hd_group_t *)(uintptr_t)group : NULL,
                            .obstacle = crossing->obstacle,
                            .nodes = crossing->nodes};
    }
    bool shared = hd_kin_span(group);
    return (hd_reach_t){.span = hd_kin_span(group),
                        .kin = shared ? hd_kin_processes(group) : NULL,
                        .scope = shared ? (hd_group_t *)(uintptr_t)group : NULL};
}

/* The number, among the set's processes, of process p of the span of a list's members. */
static uint32_t process_at(const hd_span_t *of, const hd_list_t *list, const hd_span_t *span,
                           uint32_t p) {
    return of->process_of[list->at(list->entries, hd_span_endpoint(span, p, 0))];
}

static ucc_status_t no_memory(const hd_span_t *span) {
    hd_error("no memory for a team in %u processes", span->processes);
    return UCC_ERR_NO_MEMORY;
}

/* The number of the set's process in its scope. */
static uint32_t in_scope(const hd_reach_t *of, uint32_t process) {
    const hd_nodes_t *nodes = of->nodes;
    uint32_t first = nodes ? nodes->first[nodes->span->mine] : 0, i = 0;
    while (nodes && nodes->process[first + i] != process) {
        i++;
    }
    return nodes ? i : process;
}

/* Names what the processes of a node share, which is known by the lowest of them. */
static uint64_t name_of_node(uint64_t wire, uint32_t nodes, uint32_t lowest) {
    return nodes > 1 ? hd_hash_mix(wire, lowest) : wire;
}

/* Those of the team's processes that share memory, as far as is known: all, or a node's. */
static ucc_status_t take_kin(ucc_team_h team, const hd_reach_t *of, const hd_list_t *list) {
    hd_forming_t *f = team->forming;
    const hd_span_t *span = f->roll.span;
    const uint32_t *node_of = f->roll.node_of;
    uint32_t n = 0;
    f->kin_process = hd_alloc(HD_LINE, span->processes * sizeof(*f->kin_process));
    if (!f->kin_process) {
        return no_memory(span);
    }
    for (uint32_t p = 0; p < span->processes; p++) {
        if (!node_of || node_of[p] == node_of[span->mine]) {
            f->kin_process[n] = of->kin[in_scope(of, process_at(of->span, list, span, p))];
            f->kin_process[n++].number = p;
        }
    }
    f->group_config = hd_team_group_config(team->lib, team->sync_type, team->n);
    f->scope = of->scope;
    hd_home_pin(&f->scope->home);
    return UCC_OK;
}

/* Of members of a team with nodes: finds out which of their processes share one, and what this
 * process shares with those of its own. All of them see the same nodes. */
static ucc_status_t take_nodes(ucc_team_h team, const hd_reach_t *of, const hd_list_t *list) {
    hd_forming_t *f = team->forming;
    hd_roll_t *roll = &f->roll;
    const hd_span_t *span = roll->span;
    uint32_t *node_of = roll->place_of = hd_alloc(HD_LINE, span->processes * sizeof(*node_of));
    if (!node_of) {
        return no_memory(span);
    }
    for (uint32_t p = 0; p < span->processes; p++) { /* its lowest process stands for a node */
        const uint32_t *node = of->nodes->span->process_of;
        uint64_t member = list->at(list->entries, hd_span_endpoint(span, p, 0));
        uint32_t q = 0;
        while (node[list->at(list->entries, hd_span_endpoint(span, q, 0))] != node[member]) {
            q++;
        }
        node_of[p] = q;
        roll->nodes += q == p;
    }
    if (roll->nodes == span->processes) {
        return UCC_OK;
    }
    roll->node_of = node_of;
    if (!hd_roll_has_node(roll)) {
        return UCC_OK;
    }
    f->node_wire = name_of_node(f->wire, roll->nodes, node_of[span->mine]);
    if (roll->nodes > 1) {
        f->node_span = hd_roll_node_span(roll, span);
    }
    return roll->nodes > 1 && !f->node_span ? UCC_ERR_NO_MEMORY : take_kin(team, of, list);
}

/* What keeps the set's processes from sharing memory keeps the team's. */
static void take_obstacles(hd_forming_t *f, const hd_reach_t *of, const hd_list_t *list) {
    const hd_span_t *span = f->roll.span;
    f->obstacle = of->obstacle ? hd_alloc(HD_LINE, span->processes * sizeof(*f->obstacle)) : NULL;
    for (uint32_t p = 0; f->obstacle && p < span->processes; p++) {
        f->obstacle[p] = of->obstacle[process_at(of->span, list, span, p)];
        if (f->obstacle[p].kind == HD_OBSTACLE_NONE) {
            f->obstacle[p].kind = HD_OBSTACLE_PARENT;
        }
    }
}

ucc_status_t hd_form_take_list(ucc_team_h team, const hd_reach_t *of, const hd_list_t *list,
                               uint32_t me) {
    hd_forming_t *f = team->forming;
    const hd_net_process_t *process = of->process;
    team->n = list->n;
    team->ep = me;
    f->roll.mine.label = me;
    hd_span_t *span = f->roll.span = of->span ? make_span(of->span, list, me) : NULL;
    if (!span) {
        return of->span ? UCC_ERR_NO_MEMORY : UCC_OK;
    }
    if (span->processes == 1) {
        hd_free(span);
        f->roll.span = NULL;
        return UCC_OK;
    }
    if (of->scope && !of->nodes) {
        f->node_wire = f->wire;
        return take_kin(team, of, list);
    }
    if (!process) {
        hd_error("ep_map: members live in several processes, and there is no network");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = hd_net_open(team->lib->config, false, &f->roll.net);
    /* UCC_INPROGRESS can't be: the parent, or the contexts, have the network open */
    if (status != UCC_OK) {
        hd_error("the network can't be had for a team in %u processes", span->processes);
        return status < 0 ? status : UCC_ERR_NO_RESOURCE;
    }
    f->process = hd_alloc(HD_LINE, span->processes * sizeof(*f->process));
    if (!f->process) {
        return no_memory(span);
    }
    for (uint32_t p = 0; p < span->processes; p++) {
        f->process[p] = process[process_at(of->span, list, span, p)];
    }
    take_obstacles(f, of, list);
    return of->nodes ? take_nodes(team, of, list) : UCC_OK;
}

/* There is no memory for a span of theirs. */
void hd_form_find_sharers(const hd_reach_t *of, const hd_list_t *list, uint64_t wire,
                          hd_refusal_t *refusal) {
    const hd_span_t *span = of->span, *node = of->nodes ? of->nodes->span : NULL;
    uint32_t processes = 0, lowest = 0, others = 0;
    for (uint32_t i = 0; span && i < list->n; i++) { /* they are numbered by their first members */
        uint64_t member = list->at(list->entries, i);
        uint32_t p = span->process_of[member], j = 0;
        while (span->process_of[list->at(list->entries, j)] != p) {
            j++;
        }
        bool here = !node || node->process_of[member] == node->mine;
        others += !here;
        if (j == i && here) {
            lowest = refusal->processes == 0 ? processes : lowest;
            refusal->mine = p == span->mine ? refusal->processes : refusal->mine;
            refusal->processes++;
        }
        processes += j == i;
    }
    refusal->wire = name_of_node(wire, others ? 2 : 1, lowest);
}

void hd_form_refuse_sharing(const hd_refusal_t *refusal) {
    uint64_t name[2];
    if (refusal->processes < 2) {
        return; /* there is nobody to tell */
    }
    hd_kin_name(refusal->wire, name);
    hd_birth_t *birth = hd_birth_come(refusal->scope, name, refusal->processes);
    if (birth) {
        hd_birth_say(refusal->scope, birth, refusal->mine, refusal->why, false);
        hd_birth_leave(refusal->scope, birth, refusal->mine);
    }
}

/* --- the group -------------------------------------------------------------------------------- */

void hd_form_fail_parent(const ucc_team_h team, ucc_status_t why) {
    hd_group_t *parent = team->forming->parent;
    if (hd_group_poisoned(parent) == UCC_OK) {
        hd_error("a team can't be split as its other processes expect: %s; so it fails",
                 ucc_status_string(why));
        hd_group_poison(parent, why);                /* and tells the other processes */
        hd_net_pump(hd_group_crossing(parent)->net); /* the caller may not look again */
    }
}

/* hd_form_refuse: the other processes wait for a greeting that won't come, so a network team that
 * nobody uses tells them. Its own failure is of no interest. If there is no memory for it, a split
 * tells them by its parent. */
static void ignore(void *arg, ucc_status_t why) {
    (void)arg;
    (void)why;
}

void hd_form_refuse(const ucc_team_h team, ucc_status_t why) {
    const hd_forming_t *f = team->forming;
    hd_net_team_params_t params = {.wire = f->wire,
                                   .n = f->roll.span->processes,
                                   .me = f->roll.span->mine,
                                   .process = f->process,
                                   .despite_losses = true,
                                   .failed = ignore};
    hd_net_team_t *refused;
    if (hd_net_has_team(f->roll.net, f->wire)) {
        return; /* that of an endpoint beside, which has told them, or does */
    }
    ucc_status_t status = hd_net_team_create(f->roll.net, &params, &refused);
    if (status == UCC_OK) {
        hd_net_team_abort(refused, why);
        hd_net_pump(f->roll.net);
        hd_net_team_destroy(refused);
    } else if (status == UCC_ERR_NO_MEMORY) {
        hd_net_refuse(f->roll.net, f->wire, why);
        if (f->parent && hd_group_crossing(f->parent)) {
            hd_form_fail_parent(team, why);
        }
    }
}

/* The processes of this one's node share memory, or have tried in vain. */
static void say_obstacles(hd_forming_t *f, bool shared) {
    const hd_span_t *span = f->roll.span;
    hd_obstacle_t why = {.kind = HD_OBSTACLE_NONE};
    if (!shared) {
        why = f->not_shared;
        why.by = span->mine;
    }
    for (uint32_t p = 0; f->obstacle && p < span->processes; p++) {
        if (p != span->mine && f->roll.node_of[p] == f->roll.node_of[span->mine]) {
            f->obstacle[p] = why;
        }
    }
}

/* Returns the names of all endpoints. NULL: no memory. */
static uint64_t *labels_of(const ucc_team_h team, const hd_record_t *names) {
    uint64_t *labels = hd_alloc(HD_LINE, team->n * sizeof(*labels));
    for (uint32_t i = 0; labels && i < team->n; i++) {
        labels[names ? names[i].number : i] = names ? names[i].label : i;
    }
    return labels;
}

ucc_status_t hd_form_make_crossing(ucc_team_h team, const hd_record_t *names, hd_group_t **out) {
    hd_forming_t *f = team->forming;
    hd_group_config_t config = hd_team_span_config(team->lib, team->sync_type);
    bool mixed = hd_roll_is_mixed(&f->roll), shared = hd_roll_has_node(&f->roll) && f->roll.kin;
    const hd_node_claim_t nodes = {.node_of = mixed ? f->roll.node_of : NULL,
                                   .agreed = f->roll.all,
                                   .has = shared,
                                   .vetoes = hd_form_goes_ahead(f)};
    if (f->roll.node_of && !nodes.agreed) {
        say_obstacles(f, shared);
    }
    hd_group_t *group =
        shared ? hd_kin_found(f->roll.kin)
               : hd_group_create(hd_span_count(f->roll.span, f->roll.span->mine), &config);
    uint64_t *labels = labels_of(team, names);
    uint64_t *in_origin = f->origin ? hd_alloc(HD_LINE, team->n * sizeof(*in_origin)) : NULL;
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (in_origin) {
        memcpy(in_origin, f->in_origin, team->n * sizeof(*in_origin));
    }
    if (group && labels && (in_origin || !f->origin)) {
        uint32_t terms = hd_record_terms(team->lib->config, group->two_sided, team->n);
        const hd_origin_ref_t from = {f->origin, in_origin, f->over};
        status = hd_crossing_create(group, f->roll.span, &nodes, f->roll.net, f->wire, f->process,
                                    labels, terms, &from, team->lib->config);
    }
    if (status != UCC_OK) {
        if (group) { /* nobody has joined it here, nor has any other process greeted it */
            if (shared) {
                hd_group_poison(group, status);
            }
            hd_home_unpin(&group->home);
        }
        hd_free(labels);
        hd_free(in_origin);
        return status;
    }
    hd_group_crossing(group)->obstacle = f->obstacle;
    f->obstacle = NULL;
    hd_group_crossing(group)->ahead = f->ahead;
    hd_assert(hd_group_crossing(group)->net == f->roll.net);
    f->roll.net = NULL; /* they are the crossing's now, as the labels are */
    f->roll.span = NULL;
    *out = group;
    return UCC_OK;
}
