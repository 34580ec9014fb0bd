/* handle.c: team handles as memory: made, attached to a group, and freed, with all that is kept
 * with them, and with the state of an endpoint that forms a team (team->forming), from its
 * beginning to its end; and what the child of a fork does to those that it inherits. The files that
 * form teams call these functions, and api/endpoints.c, whose groups are there before their
 * endpoints.
 */
#include "device/device.h"
#include "form/internal.h"
#include "request/algorithm.h"
#include "span/span.h"

#include <stddef.h>
#include <string.h>

/* How a request goes on that is in progress in the child of a fork, and in no context's list
 * there. */
typedef enum waiting {
    NOBODY,       /* nothing waits for it: it only has to end */
    FOR_ITS_STEP, /* it is at the head of a queue, which goes on only when it is stepped */
    FOR_ANOTHER   /* it stands in a queue, and its predecessor's step hands it on */
} waiting_t;

/* Looks for r in its member's queue (shm/queue.c), and among the early operations of the handle. */
static waiting_t waits_in_a_queue(ucc_team_h team, const hd_request_t *r) {
    if (r->run) {
        return NOBODY;
    }
    const hd_op_t *op = &r->op,
                  *first = op->numbered && op->place.member ? op->place.member->queue : NULL;
    for (const hd_op_t *o = first; o; o = o->queue_next) {
        if (o == op) {
            return o == first ? FOR_ITS_STEP : FOR_ANOTHER;
        }
    }
    for (const hd_op_t *e = team->early; e; e = e->queue_next) {
        if (e == op) {
            return FOR_ITS_STEP;
        }
    }
    return NOBODY;
}

/* Called in the child of a fork. Requests that another thread had in hand there would come back to
 * no list: puts these into their contexts' lists. */
static void inherited(hd_fork_hook_t *self) {
    ucc_team_h team = (ucc_team_h)(void *)((char *)self - offsetof(struct ucc_team, fork_hook));
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
        if (r->run) { /* the request is where its schedule is */
            r->op.task.fruitless = hd_algorithm_carrier(r)->fruitless;
        }
        if (r->op.task.magic == HD_TASK_HOOKED && hd_trigger_carrier(r->trigger)->fruitless) {
            /* the request waits where its trigger does */
            r->op.task.fruitless = hd_trigger_carrier(r->trigger)->fruitless;
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
    team->call_cache = &hd_no_cached_calls;
    team->n_contexts = n_contexts;
    team->lib = contexts[0]->lib;
    team->thread_mode = team->lib->params.thread_mode;
    /* DEBUG_ORDER: a mistake of the client is to be logged, not to crash before that */
    team->locked = team->thread_mode == UCC_THREAD_MULTIPLE || team->lib->debug_order;
    team->debug_order = team->lib->debug_order;
    for (uint32_t i = 0; i < n_contexts; i++) {
        /* relaxed: a count for context_destroy, which the client orders after this */
        atomic_fetch_add_explicit(&contexts[i]->teams, 1, memory_order_relaxed);
    }
    hd_fork_watch(&team->fork_hook, inherited);
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
    hd_assert(ep < group->team_n && member < group->n);
    ucc_status_t status = hd_group_join(group, member, where);
    if (status == UCC_OK) {
        team->member = group->board->member[member];
    }
    return status;
}

ucc_status_t hd_form_begin(ucc_team_h team) {
    team->forming = hd_alloc(HD_LINE, sizeof(*team->forming));
    if (!team->forming) {
        hd_error("no memory to form a team");
        return UCC_ERR_NO_MEMORY;
    }
    team->forming->forks = hd_forks();
    team->forming->uncounted = true;
    return UCC_OK;
}

void hd_form_drop(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f) {
        return;
    }
    if (team->refuses) { /* such a handle has nothing else, and this is part of its own memory */
        team->forming = NULL;
        return;
    }
    hd_notice_take_down(&f->notice);
    if (f->meeting) {
        hd_meeting_release(f->meeting, f->excluded);
    }
    if (f->parent) {
        hd_home_unpin(&f->parent->home);
    }
    if (f->owns_memory) {
        hd_free_part(f->memory, f->bytes);
    }
    if (f->forks != hd_forks()) {
        f->roll.net = NULL; /* a forked child does not share its parent's references */
    }
    hd_roll_end(&f->roll);
    hd_free(f->process);
    hd_free(f->origin.endpoint);
    hd_free(f);
    team->forming = NULL;
}

void hd_team_free(ucc_team_h team) {
    hd_assert_eq(team->n_held, 0);
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
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        atomic_fetch_sub_explicit(&team->contexts[i]->teams, 1, memory_order_relaxed); /* a count */
    }
    if (team->member) {
        hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    }
    if (team->group) {
        hd_home_unpin(&team->group->home);
    }
    hd_team_clear_call_cache(team);
    free_memory(team);
}
