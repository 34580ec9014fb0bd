/* handle.c: team handles: made, attached to a group, freed. Whoever forms a team calls these. */
#include "team/algorithm.h"
#include "team/device.h"
#include "team/form.h"
#include "team/flight.h"

#include <stddef.h>
#include <string.h>

hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type) {
    const hd_config_t *c = lib->config;
    return (hd_group_config_t){
        .depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_RING),
        .persistent_depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_PERSISTENT_RING),
        .flat_max = (uint32_t)hd_config_uint(c, HD_CFG_LIB_FLAT_MAX),
        .lines_max = hd_config_size(c, HD_CFG_LIB_LINES_MAX),
        .staged_max = hd_config_size(c, HD_CFG_LIB_STAGED_MAX),
        .direct_above = hd_config_size(c, HD_CFG_LIB_DIRECT_ABOVE),
        .chunk = hd_config_size(c, HD_CFG_LIB_CHUNK),
        .streaming_min = hd_config_size(c, HD_CFG_LIB_NONTEMPORAL_MIN),
        .copy_min = hd_config_size(c, HD_CFG_LIB_GPU_COPY_MIN),
        .partial_min = hd_config_size(c, HD_CFG_LIB_GPU_PARTIAL_MIN),
        .two_sided = sync_type == UCC_SYNC_COLLECTIVES || lib->check,
        .check = lib->check,
        .arrival = hd_config_choice(c, HD_CFG_LIB_ARRIVAL),
        .tree = hd_config_choice(c, HD_CFG_LIB_TREE),
        .stall = lib->stall,
        .timeout = lib->timeout,
    };
}

hd_group_config_t hd_team_span_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type) {
    enum {
        DEPTH = HD_SWAP_SLOTS,
        SLICES = 128
    }; /* so much must be under way at once, for a round trip takes long */
    hd_group_config_t config = hd_team_group_config(lib, sync_type);
    config.spanning = true;
    config.depth = DEPTH; /* swaps have as many places (net/swap.c) */
    config.slices = SLICES;
    config.staging_min = HD_SWAP_LONG; /* what a member gives to a swap */
    return config;
}

/* In the child of a fork: r is in no list. Does something there wait for it? Then a step must end that. */
typedef enum waiting { NOBODY, FOR_ITS_STEP, FOR_ANOTHER } waiting_t;

static waiting_t waits_in_a_queue(ucc_team_h team, const hd_request_t *r) {
    if (r->run) {
        return NOBODY;
    }
    const hd_op_t *op = &r->op,
                  *first = op->numbered && op->place.member ? op->place.member->queue : NULL;
    for (const hd_op_t *o = first; o; o = o->queue_next) {
        if (o == op) {
            return o == first ? FOR_ITS_STEP : FOR_ANOTHER; /* its predecessor's step, that is */
        }
    }
    for (const hd_request_t *e = team->early; e; e = e->next_early) {
        if (e == r) {
            return FOR_ITS_STEP;
        }
    }
    return NOBODY;
}

/* In the child of a fork. What another thread had in hand would come back to no list. */
static void inherited(hd_heirloom_t *self) {
    ucc_team_h team = (ucc_team_h)(void *)((char *)self - offsetof(struct ucc_team, heirloom));
    hd_lock_forget(&team->lock);
    for (hd_request_t *r = team->all; r; r = r->all) {
        r->op.task.fruitless = 0;
        if (r->run) {
            hd_algorithm_carrier(r)->fruitless = 0;
        }
        if (r->trigger) {
            hd_trigger_carrier(r->trigger)->fruitless = 0;
        }
    }
    for (uint32_t i = 0; team->all && i < team->n_contexts; i++) {
        hd_runner_mark_listed(&team->contexts[i]->runner);
    }
    for (hd_request_t *r = team->all; r; r = r->all) {
        if (r->run) { /* it is where that is */
            r->op.task.fruitless = hd_algorithm_carrier(r)->fruitless;
        }
        if (r->op.task.magic == HD_TASK_HOOKED && hd_trigger_carrier(r->trigger)->fruitless) {
            r->op.task.fruitless = hd_trigger_carrier(r->trigger)->fruitless; /* and waits there */
        }
        waiting_t waits = hd_task_is_lost(&r->op.task) ? waits_in_a_queue(team, r) : FOR_ANOTHER;
        if (waits != FOR_ANOTHER) {
            hd_runner_adopt(&r->op.task.context->runner, &r->op.task, waits == FOR_ITS_STEP);
        }
    }
}

static void free_memory(ucc_team_h team) {
    if (team->refuses) {
        hd_roll_end_room(team);
        return;
    }
    if (team->contexts != &team->context) {
        hd_free(team->contexts);
    }
    hd_free(team);
}

ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts) {
    ucc_team_h team = hd_alloc(HD_LINE_PAIR, sizeof(*team));
    if (!team) {
        hd_error("no memory for a team handle");
        return NULL;
    }
    team->contexts = &team->context;
    if (n_contexts > 1) {
        team->contexts = hd_alloc(HD_LINE, n_contexts * sizeof(*contexts));
    }
    if (!team->contexts) {
        hd_free(team);
        hd_error("no memory for a team handle");
        return NULL;
    }
    if (hd_algorithms_inherit(team, contexts[0]) != UCC_OK) {
        free_memory(team);
        return NULL;
    }
    hd_team_init(team, contexts, n_contexts);
    return team;
}

void hd_team_init(ucc_team_h team, ucc_context_h *contexts, uint32_t n_contexts) {
    memcpy(team->contexts, contexts, n_contexts * sizeof(*contexts));
    team->magic = HD_TEAM_MAGIC;
    team->lessons = &hd_no_lessons;
    team->n_contexts = n_contexts;
    team->lib = contexts[0]->lib;
    team->thread_mode = team->lib->params.thread_mode;
    /* DEBUG_ORDER: a mistake should be told, not crash before */
    team->locked = team->thread_mode == UCC_THREAD_MULTIPLE || team->lib->debug_order;
    team->debug_order = team->lib->debug_order;
    for (uint32_t i = 0; i < n_contexts; i++) {
        /* relaxed: a count for context_destroy, which the client orders after this */
        atomic_fetch_add_explicit(&contexts[i]->teams, 1, memory_order_relaxed);
    }
    hd_fork_watch(&team->heirloom, inherited);
}

ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where) {
    hd_home_pin(&group->home);
    team->group = group;
    team->ep = ep;
    team->n = group->team_n;
    team->crossing = hd_group_crossing(group);
    for (uint32_t i = 0; team->crossing && i < team->n_contexts; i++) {
        hd_runner_glance(&team->contexts[i]->runner, hd_crossing_glance);
    }
    uint32_t member = hd_group_member(group, ep);
    ucc_status_t status = hd_group_join(group, member, where);
    if (status == UCC_OK) {
        team->member = group->board->member[member];
    }
    return status;
}

void hd_team_free(ucc_team_h team) {
    hd_fork_forget(&team->heirloom);
    hd_form_drop(team);
    team->magic = HD_DEAD_MAGIC;
    while (team->all) {
        hd_request_t *r = team->all;
        team->all = r->all;
        hd_request_release(r);
        hd_trigger_settle(r->trigger);
        hd_free(r->trigger);
        hd_free(r->prefix);
        hd_device_forget(r);
        hd_free(r);
    }
    hd_team_leave_engines(team);
    hd_devices_close(team->devices);
    hd_algorithms_end(team->offers);
    hd_ordinals_end(&team->lists);
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        atomic_fetch_sub_explicit(&team->contexts[i]->teams, 1, memory_order_relaxed); /* a count */
    }
    if (team->member) {
        hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    }
    if (team->group) {
        hd_home_unpin(&team->group->home);
    }
    hd_team_forget_lessons(team);
    free_memory(team);
}

bool hd_team_is_needed(ucc_team_h team) {
    hd_lock(&team->lock);
    uint32_t engines = team->n_engines, tasks = team->n_held;
    hd_unlock(&team->lock);
    if (engines) {
        hd_error("team destroyed before %u of its execution engines at endpoint %u", engines,
                 team->ep);
    }
    if (tasks) {
        hd_error("team destroyed before %u collectives of schedules, or triggered posts, that run "
                 "at endpoint %u",
                 tasks, team->ep);
    }
    return engines != 0 || tasks != 0;
}

void hd_team_hold(ucc_team_h team, bool holds) {
    hd_lock(&team->lock);
    team->n_held += holds ? 1 : UINT32_MAX; /* minus one */
    hd_unlock(&team->lock);
}

ucc_status_t hd_team_destroy(ucc_team_h team) {
    if (team->forming && team->forming->request) {
        hd_error("team destroyed while its oob allgather is outstanding at endpoint %u",
                 team->forming->oob.oob_ep);
        return UCC_ERR_INVALID_PARAM;
    }
    for (hd_request_t *r = team->all; r; r = r->all) {
        if (r->op.task.magic != HD_TASK_FREE && hd_task_status(&r->op.task) == UCC_INPROGRESS) {
            hd_error("team destroyed while %s is in progress at endpoint %u",
                     hd_op_type_name(&r->op), team->ep);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    if (hd_team_is_needed(team)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (team->state == HD_TEAM_FORMING && team->forming->parent) {
        if (hd_form_split_lingers(team)) {
            return UCC_INPROGRESS;
        }
        team->state = team->forming->excluded ? HD_TEAM_EXCLUDED : HD_TEAM_FORMING;
    }
    if (team->state == HD_TEAM_FORMING) {
        if (!team->group || hd_group_abandon(team->group, UCC_ERR_NOT_FOUND)) {
            hd_warn("team destroyed at endpoint %u before it was formed: the others will fail",
                    team->ep);
            hd_form_give_up(team, UCC_ERR_NOT_FOUND);
        }
        team->state = HD_TEAM_FAILED; /* said once, also if this is called again */
        team->failure = UCC_ERR_NOT_FOUND;
    }
    if (team->member) {
        hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    }
    hd_form_settle();
    if (team->crossing && hd_crossing_lingers(team->crossing)) {
        return UCC_INPROGRESS;
    }
    if (team->group && hd_put_lingers(team->group)) {
        return UCC_INPROGRESS; /* the user may free my part of the team's memory after this */
    }
    bool crosses = team->crossing != NULL;
    hd_team_free(team);
    if (crosses) {
        hd_flight_settle(); /* the end of its network may have moved legs of others */
    }
    return UCC_OK;
}
