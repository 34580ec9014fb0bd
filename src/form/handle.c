/* handle.c: team handles as memory: made, attached to a group, and freed, with all that is kept
 * with them, and with the state of an endpoint that forms a team (team->forming); and what the
 * child of a fork does to those that it inherits. api/endpoints.c also calls these functions: its
 * groups are there before their endpoints.
 */
#include "device/device.h"
#include "form/internal.h"
#include "request/algorithm.h"
#include "span/span.h"

#include <stddef.h>
#include <string.h>

static bool has(const hd_op_t *list, const hd_op_t *op) {
    while (list && list != op) {
        list = list->queue_next;
    }
    return list;
}

/* Lets a request go on that is in progress, and in no context's list. It only has to end, unless it
 * waits in a queue: what is at the head of one goes on when it is stepped. */
static void adopt(ucc_team_h team, hd_request_t *r) {
    hd_op_t *op = &r->op;
    bool waits = !r->run;
    const hd_op_t *queue =
        waits && op->numbered && op->place.member ? op->place.member->queue : NULL;
    if (op == queue || !has(queue, op)) { /* else its predecessor's step hands it on */
        hd_runner_adopt(&op->task.context->runner, &op->task,
                        op == queue || (waits && has(team->early, op)));
    }
}

/* Called in the child of a fork. Requests that another thread had in hand there would come back to
 * no list: puts these into their contexts' lists. */
static void inherited(hd_fork_hook_t *self) {
    ucc_team_h team = (ucc_team_h)(void *)((char *)self - offsetof(struct ucc_team, fork_hook));
    hd_lock_forget(&team->lock);
    for (hd_request_t *r = team->all; r; r = r->all) {
        hd_op_inherited(&r->op);
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
        if (r->run) { /* the request is where its schedule is */
            r->op.task.fruitless = hd_algorithm_carrier(r)->fruitless;
        }
        if (r->op.task.magic == HD_TASK_HOOKED && hd_trigger_carrier(r->trigger)->fruitless) {
            /* the request waits where its trigger does */
            r->op.task.fruitless = hd_trigger_carrier(r->trigger)->fruitless;
        }
        if (hd_task_is_lost(&r->op.task)) {
            adopt(team, r);
        }
    }
}

ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts, int32_t *trouble) {
    ucc_team_h team = hd_roll_room(sizeof(*team), trouble);
    ucc_context_h *several =
        n_contexts > 1 ? hd_alloc(HD_LINE, n_contexts * sizeof(*several)) : NULL;
    bool lacks =
        !team || (n_contexts > 1 && !several) || hd_algorithms_inherit(team, contexts[0]) != UCC_OK;
    if (lacks) {
        hd_error("no memory for a team handle");
        if (!team || !trouble) {
            hd_free(several);
            hd_roll_end_room(team);
            return NULL;
        }
        *trouble = UCC_ERR_NO_MEMORY;
    }
    team->contexts = several ? several : &team->context;
    team->n_contexts = several ? n_contexts : 1;
    memcpy(team->contexts, contexts, team->n_contexts * sizeof(*contexts));
    team->magic = HD_TEAM_MAGIC;
    team->call_cache = &hd_no_cached_calls;
    team->lib = contexts[0]->lib;
    team->thread_mode = team->lib->params.thread_mode;
    /* DEBUG_ORDER: a mistake of the client is to be logged, not to crash before that */
    team->locked = team->thread_mode == UCC_THREAD_MULTIPLE || team->lib->debug_order;
    team->debug_order = team->lib->debug_order;
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        hd_context_keep(contexts[i]);
    }
    hd_fork_watch(&team->fork_hook, inherited);
    return team;
}

ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where) {
    uint32_t member = hd_group_member(group, ep);
    hd_assert(ep < group->team_n && member < group->n);
    bool again = group->config.mappings != 0; /* for tests: one process, several mappings */
    hd_group_t *other = again ? hd_group_again_for(group, member) : NULL;
    bool unmapped = again && !other;
    if (other) {
        group = other;
    } else {
        hd_home_pin(&group->home);
    }
    team->group = group;
    team->ep = ep;
    team->n = group->team_n;
    team->crossing = hd_group_crossing(group);
    for (uint32_t i = 0; team->crossing && i < team->n_contexts; i++) {
        hd_runner_glance(&team->contexts[i]->runner, hd_crossing_glance);
    }
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (unmapped) {
        hd_group_poison(group, status);
    } else {
        status = hd_group_join(group, member, where);
    }
    if (status == UCC_OK) {
        team->member = group->board->member[member];
    }
    return status;
}

ucc_team_h hd_form_begin(ucc_context_h *contexts, uint32_t n_contexts, bool tells) {
    int32_t trouble = UCC_OK;
    ucc_team_h team = hd_team_alloc(contexts, n_contexts, tells ? &trouble : NULL);
    hd_forming_t *f = team ? hd_roll_room(sizeof(*f), tells ? &trouble : NULL) : NULL;
    if (!f) {
        hd_error("no memory to form a team");
        hd_team_free(team);
        return NULL;
    }
    f->forks = hd_forks();
    f->roll.mine.trouble = trouble;
    team->forming = f;
    return team;
}

void hd_form_drop(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    team->forming = NULL;
    if (!f) {
        return;
    }
    hd_notice_take_down(&f->notice);
    if (f->meeting) {
        hd_meeting_release(f->meeting, f->excluded);
    }
    if (f->parent) {
        hd_home_unpin(&f->parent->home);
    }
    if (f->scope) {
        hd_home_unpin(&f->scope->home);
    }
    hd_free(f->kin_process);
    hd_free(f->node_span);
    if (f->owns_memory) {
        hd_free_part(f->memory, f->bytes);
    }
    if (f->forks != hd_forks()) {
        f->roll.net = NULL; /* a forked child does not share its parent's references */
    }
    hd_roll_end(&f->roll);
    hd_free(f->obstacle);
    hd_free(f->process);
    hd_origin_drop(f->origin);
    hd_roll_end_room(f);
}

ucc_status_t hd_form_give_out(ucc_team_h team, ucc_status_t status, ucc_team_h *out) {
    if (status == UCC_OK) {
        *out = team;
    } else {
        hd_team_free(team);
    }
    return status;
}

void hd_form_leave(ucc_team_h team) {
    if (!team->member) {
        return;
    }
    uint64_t last = hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    if (team->crossing) {
        hd_crossing_leave(team->crossing, last);
    } else if (hd_kin_span(team->group) && hd_kin_lacks_all(team->group)) {
        /* A meeting that still waits for one of them would keep the group. */
        hd_meetings_end(team->group->serial);
    }
}

void hd_team_see_off(ucc_team_h team) {
    hd_form_leave(team);
    if (team->crossing) {
        hd_crossing_see_off(team->crossing);
    }
    while (team->group && hd_put_lingers(team->group)) {
        hd_give_way(); /* a peer writes into this endpoint's part of the memory, which ends */
    }
}

void hd_team_free(ucc_team_h team) {
    if (!team) {
        return;
    }
    hd_assert_eq(team->n_held, 0);
    bool crosses = team->crossing && !hd_group_is_inherited(team->group);
    if (crosses) {
        hd_net_pump(team->crossing->net); /* a greeting that has failed ends here */
    }
    hd_fork_forget(&team->fork_hook);
    hd_form_drop(team);
    team->magic = HD_DEAD_MAGIC;
    while (team->all) {
        hd_request_t *r = team->all;
        team->all = r->all;
        hd_request_release(r);
        hd_trigger_settle(r->trigger);
        hd_free(r->trigger);
        hd_free(r->prefix);
        hd_device_forget(&r->op);
        hd_free(r);
    }
    hd_team_leave_engines(team);
    hd_devices_close(team->devices);
    hd_algorithms_end(team->offers);
    hd_ordinals_end(&team->lists);
    hd_form_leave(team);
    if (team->group) {
        hd_home_unpin(&team->group->home);
    }
    hd_team_clear_call_cache(team);
    ucc_context_h one = team->context, *contexts = team->contexts;
    uint32_t n = team->n_contexts;
    bool several = contexts != &team->context;
    hd_roll_end_room(team);
    if (crosses) {
        hd_span_drain(); /* as its network team ended, legs of other teams may have ended, too */
    }
    /* at last: with the context, its library may go */
    for (uint32_t i = 0; i < n; i++) {
        hd_context_let_go(several ? contexts[i] : one);
    }
    if (several) {
        hd_free(contexts);
    }
}
