/* engine.c: execution engines: events, and collectives that an event starts. api/event.c calls this
 * for clients, stream.c for posts on a stream.
 *
 * On an engine of a device's stream, a triggered post (stream.c) posts at once, and queues
 * COLLECTIVE_POST; the rest is the order's (device/order.c). Clients destroy teams before such
 * engines, so the engine outlives its team.
 *
 * An engine of a processor thread: a triggered post arms the request's trigger:
 *
 *     WAITING --an event of the client's is taken--> STARTED --the operation is over--> IDLE
 *        |     (COLLECTIVE_POST is queued)             (COLLECTIVE_COMPLETE is queued)    ^
 *        +------ the team failed, or its time is up --------------------------------------+
 *
 * While it waits, the trigger itself is a task of the team's first context. Whoever progresses that
 * context looks for an event, and posts the operation like any other. Each event starts one
 * operation, the one that has waited longest; an event that nobody waits for yet is kept. An engine
 * has one start under way at a time, so that operations get their numbers in the order of their
 * triggered posts.
 *
 * The request's status is UCC_INPROGRESS from the triggered post on. Its callback is the trigger's
 * until the trigger is idle again. In that time the request's magic number is HD_TASK_HOOKED, which
 * sends the next call on it through hd_request_unhook: other requests pay nothing for this.
 *
 * This file is compiled with -fexceptions: a start ends also when the client's callback throws, or
 * ends its thread.
 *
 * Lifetimes. A trigger belongs to its request and is freed with it. It is idle, and its engine no
 * longer knows it, before the client's callback runs; whoever would free the engine or the handle
 * waits for that.
 */
#include "device/device.h"
#include "request/engine.h"
#include "request/internal.h"

#include <sched.h>
#include <stddef.h>

enum { EE_MAGIC = 0xee0c9017u, MOST_EVENTS = 4096, NAP_US = 100 };

/* What a request has once it was posted with a trigger. */
struct hd_trigger {
    hd_request_t carrier; /* must stay first: a task that contexts can look at like any other */
    hd_request_t *r;
    ucc_ee_h ee;
    ucc_coll_callback_t callback; /* the client's, which r has again afterwards */
    _Atomic bool busy;            /* the trigger is armed, that is, not idle */
    uint64_t number;              /* among those of its engine, in the order of their posts */
    hd_trigger_t *next;
};

_Static_assert(offsetof(hd_trigger_t, carrier) == 0, "a trigger is a request, and so a task");

/* --- engines ---------------------------------------------------------------------------------- */

/* Called in the child of a fork. */
static void inherited(hd_fork_hook_t *self) {
    ucc_ee_h ee = (ucc_ee_h)(void *)((char *)self - offsetof(struct ucc_ee, fork_hook));
    hd_lock_forget(&ee->lock);
}

/* Makes an engine of this stream of the devices, or, if devices is NULL, of a thread. */
static ucc_status_t make(ucc_team_h team, hd_devices_t *devices, const hd_gpu_stream_t *stream,
                         ucc_ee_h *out) {
    ucc_ee_h ee = hd_alloc(HD_LINE, sizeof(*ee));
    if (!ee) {
        hd_error("no memory for an execution engine");
        return UCC_ERR_NO_MEMORY;
    }
    ee->magic = EE_MAGIC;
    ee->team = team;
    ee->refs = 1;
    ee->overflow.ev.ev_type = UCC_EVENT_OVERFLOW;
    if (devices) {
        ee->devices = hd_devices_open(); /* a reference to the team's */
        ee->stream = *stream;
    }
    hd_fork_watch(&ee->fork_hook, inherited);
    hd_lock(&team->lock);
    ee->next = team->engines;
    team->engines = ee;
    team->n_engines += devices == NULL;
    hd_unlock(&team->lock);
    *out = ee;
    return UCC_OK;
}

ucc_status_t hd_ee_create(ucc_team_h team, ucc_ee_h *out) {
    return make(team, NULL, NULL, out);
}

ucc_status_t hd_ee_create_of_stream(ucc_team_h team, void *stream, ucc_ee_h *out) {
    hd_gpu_stream_t known;
    hd_devices_t *devices = hd_team_devices(team);
    if (!devices) { /* logged */
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = hd_device_stream_of(devices, stream, &known);
    return status == UCC_OK ? make(team, devices, &known, out) : status;
}

static void unlist(ucc_ee_h ee) {
    ucc_team_h team = ee->team;
    hd_lock(&team->lock);
    ucc_ee_h *at = &team->engines;
    while (*at != ee) {
        at = &(*at)->next;
    }
    *at = ee->next;
    team->n_engines -= ee->devices == NULL;
    hd_unlock(&team->lock);
}

bool hd_ee_is_live(ucc_ee_h ee) {
    return ee && ee->magic == EE_MAGIC;
}

static void free_events(hd_event_t *event) {
    while (event) {
        hd_event_t *next = event->next;
        hd_free(event);
        event = next;
    }
}

void hd_ee_keep(ucc_ee_h ee) {
    hd_lock(&ee->lock);
    ee->refs++;
    hd_unlock(&ee->lock);
}

void hd_ee_let_go(ucc_ee_h ee) {
    hd_lock(&ee->lock);
    hd_assert_lt(0, ee->refs);
    uint32_t left = --ee->refs;
    hd_unlock(&ee->lock);
    if (left == 0) {
        hd_fork_forget(&ee->fork_hook);
        hd_devices_close(ee->devices);
        free_events(ee->first);
        free_events(ee->taken);
        hd_free(ee);
    }
}

void hd_ee_begin(ucc_ee_h ee) {
    hd_lock(&ee->lock);
    ee->refs++;
    ee->posted++;
    hd_unlock(&ee->lock);
}

void hd_ee_end(ucc_ee_h ee) {
    hd_lock(&ee->lock);
    hd_assert_lt(0, ee->posted);
    ee->posted--;
    hd_unlock(&ee->lock);
    hd_ee_let_go(ee);
}

/* Returns how many triggered operations are in progress. *leaving: some triggers are not idle. */
static uint32_t count_outstanding(ucc_ee_h ee, bool *leaving) {
    hd_lock(&ee->lock);
    /* in the child of a fork, nothing ends what its parent has posted on a stream: there is none */
    bool progresses = ee->team && !hd_group_is_inherited(ee->team->group);
    uint32_t outstanding = progresses ? ee->posted : 0;
    *leaving = ee->armed != NULL;
    for (hd_trigger_t *t = ee->armed; t; t = t->next) {
        outstanding += hd_task_status(&t->r->op.task) == UCC_INPROGRESS;
    }
    hd_unlock(&ee->lock);
    return outstanding;
}

ucc_status_t hd_ee_destroy(ucc_ee_h ee) {
    bool leaving;
    uint32_t outstanding;
    while ((outstanding = count_outstanding(ee, &leaving)) == 0 && leaving) {
        sched_yield(); /* another thread is between publishing a status and the callback */
    }
    if (outstanding) {
        hd_error("execution engine destroyed while %u triggered operations are outstanding at "
                 "endpoint %u",
                 outstanding, ee->team->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    ee->magic = HD_DEAD_MAGIC;
    if (ee->team) {
        unlist(ee);
    }
    hd_ee_let_go(ee);
    return UCC_OK;
}

void hd_team_leave_engines(ucc_team_h team) {
    while (team->engines) {
        ucc_ee_h ee = team->engines;
        unlist(ee);
        ee->team = NULL;
        ee->refs -= ee->posted; /* only in the child of a fork are there some left */
        ee->posted = 0;
    }
}

/* --- events ----------------------------------------------------------------------------------- */

void hd_ee_put_event(ucc_ee_h ee, ucc_event_type_t type, ucc_coll_req_h req) {
    hd_event_t *event = hd_alloc(HD_LINE, sizeof(*event));
    hd_lock(&ee->lock);
    bool fits = event && ee->queued < MOST_EVENTS;
    if (fits) {
        event->ev.ev_type = type;
        event->ev.req = req;
        if (ee->first) {
            ee->last->next = event;
        } else {
            ee->first = event;
        }
        ee->last = event;
        ee->queued++;
    }
    bool first_lost = !fits && !ee->lost;
    ee->lost = ee->lost || !fits;
    hd_unlock(&ee->lock);
    if (!fits) {
        hd_free(event);
    }
    if (first_lost) {
        hd_warn("execution engine of endpoint %u: an event was lost: nobody takes them",
                ee->team->ep);
    }
}

ucc_status_t hd_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev) {
    ucc_status_t status = UCC_OK;
    hd_lock(&ee->lock);
    hd_event_t *event = ee->first;
    if (event) {
        ee->first = event->next;
        ee->queued--;
        event->next = ee->taken;
        ee->taken = event;
        *ev = &event->ev;
    } else if (ee->lost && !ee->told) {
        ee->lost = false;
        ee->told = true;
        *ev = &ee->overflow.ev;
    } else {
        status = UCC_ERR_NOT_FOUND;
    }
    hd_unlock(&ee->lock);
    return status;
}

ucc_status_t hd_ee_ack_event(ucc_ee_h ee, const ucc_ev_t *ev) {
    hd_lock(&ee->lock);
    hd_event_t **at = &ee->taken;
    while (*at && &(*at)->ev != ev) {
        at = &(*at)->next;
    }
    hd_event_t *found = *at;
    bool known = found || (ev == &ee->overflow.ev && ee->told);
    if (found) {
        *at = found->next;
    } else if (known) {
        ee->told = false;
    }
    hd_unlock(&ee->lock);
    hd_free(found);
    return known ? UCC_OK : UCC_ERR_INVALID_PARAM;
}

/* Wakes all who may sleep while a trigger waits: each has enlisted with one of these bells. */
static void ring(ucc_ee_h ee) {
    hd_bell_ring(&ee->team->group->home.bell);
    hd_bell_ring(&ee->team->contexts[0]->runner.bell);
}

void hd_ee_set_event(ucc_ee_h ee) {
    if (ee->devices) { /* the stream itself says when it has come so far */
        return;
    }
    hd_lock(&ee->lock);
    ee->ready++;
    hd_unlock(&ee->lock);
    ring(ee);
}

void hd_team_wait(ucc_team_h team, hd_team_waiting_t *w) {
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        if (hd_runner_progress(&team->contexts[i]->runner, &w->vain)) {
            w->vain = 0;
        }
    }
    uint64_t now = hd_ticks();
    if (hd_stall_is_due(&w->stall, now, team->lib->stall)) {
        hd_stall_line("%s at endpoint %u has waited %.1f s for %s", w->what, team->ep,
                      hd_stall_seconds(&w->stall, now), w->awaited);
    }
    if (team->lib->may_park && w->vain >= team->lib->park_after_us * hd_ticks_per_us) {
        _Atomic uint32_t word = 0; /* no bell rings for this, so this is only a nap */
        hd_park_sleep(&word, 0, NAP_US * 1000u);
    }
}

ucc_status_t hd_ee_wait(ucc_ee_h ee, ucc_ev_t *out) {
    hd_team_waiting_t waiting = {.what = "ucc_ee_wait", .awaited = "an event"};
    ucc_ev_t *ev;
    while (hd_ee_get_event(ee, &ev) != UCC_OK) {
        if (!ee->team) { /* the team has ended: nobody queues events any more */
            return UCC_ERR_NOT_FOUND;
        }
        hd_team_wait(ee->team, &waiting);
    }
    *out = *ev;
    return hd_ee_ack_event(ee, ev);
}

/* --- triggers --------------------------------------------------------------------------------- */

/* Takes an event for a trigger that waits, and begins its start. False: there is no event, an older
 * trigger waits for it, or another start is under way. */
static bool take_ready(const hd_trigger_t *t) {
    ucc_ee_h ee = t->ee;
    hd_lock(&ee->lock);
    bool go = ee->ready > 0 && ee->oldest == t->number && !ee->starting;
    if (go) {
        hd_assert_lt(0, ee->waiting);
        ee->ready--;
        ee->waiting--;
        ee->oldest++;
        ee->starting = true;
        ee->refs++;
    }
    hd_unlock(&ee->lock);
    return go;
}

/* The step of a waiting trigger's task: UCC_OK when it has taken an event. */
static ucc_status_t step_trigger(hd_op_t *op) {
    hd_task_t *task = &op->task;
    hd_trigger_t *t = (hd_trigger_t *)(void *)op;
    ucc_team_h team = t->r->op.team;
    ucc_status_t status = hd_group_poisoned(team->group);
    if (status == UCC_OK && task->deadline && hd_ticks() > task->deadline) {
        hd_error("time-out: %s at endpoint %u has waited in vain for its event",
                 hd_op_type_name(&t->r->op), team->ep);
        status = UCC_ERR_TIMED_OUT; /* the other endpoints will wait for this operation in vain */
        hd_group_poison(team->group, status);
    }
    if (status != UCC_OK) { /* the team has failed, and with it all triggers behind this one */
        hd_lock(&t->ee->lock);
        hd_assert_lt(0, t->ee->waiting);
        t->ee->waiting--;
        hd_unlock(&t->ee->lock);
        return status;
    }
    return take_ready(t) ? UCC_OK : UCC_INPROGRESS;
}

/* Ends the start that take_ready has begun, also when the stack is unwound. */
static void end_start(const ucc_ee_h *started) {
    ucc_ee_h ee = *started;
    hd_lock(&ee->lock);
    hd_assert(ee->starting);
    ee->starting = false;
    /* the thread of the trigger that waits may have gone to sleep meanwhile */
    if (ee->ready > 0 && ee->waiting > 0) {
        ring(ee); /* under the lock: the team stays as long as somebody waits */
    }
    hd_unlock(&ee->lock);
    hd_ee_let_go(ee);
}

/* The callback of the trigger's task, which is over: its event has come (UCC_OK), or never will. */
__attribute__((noinline)) static void fire(void *data, ucc_status_t status) {
    hd_trigger_t *t = data;
    hd_request_t *r = t->r;
    if (status != UCC_OK) {
        hd_task_complete(&r->op.task, status);
        return;
    }
    /* take_ready took a reference, since the client may destroy the engine in a callback, which may
     * also throw */
    __attribute__((cleanup(end_start))) ucc_ee_h ee = t->ee;
    hd_ee_put_event(ee, UCC_EVENT_COLLECTIVE_POST, &r->op.task.req);
    hd_request_start(r); /* after this, trigger and request may be gone */
}

/* The callback of a triggered request, whose status is published. */
static void over(void *data, ucc_status_t status) {
    hd_trigger_t *t = data;
    ucc_ee_h ee = t->ee;
    ucc_coll_callback_t callback = t->callback;
    hd_ee_put_event(ee, UCC_EVENT_COLLECTIVE_COMPLETE, &t->r->op.task.req);
    hd_lock(&ee->lock);
    hd_trigger_t **at = &ee->armed;
    while (*at && *at != t) {
        at = &(*at)->next;
    }
    if (*at) { /* t is not there if a fork came while it was being posted */
        *at = t->next;
    }
    /* release: this is the last access to the trigger; pairs with hd_trigger_settle */
    atomic_store_explicit(&t->busy, false, memory_order_release);
    hd_unlock(&ee->lock);
    if (callback.cb) {
        callback.cb(callback.data, status);
    }
}

hd_task_t *hd_trigger_carrier(hd_trigger_t *t) {
    return &t->carrier.op.task;
}

void hd_trigger_settle(hd_trigger_t *t) {
    /* acquire: pairs with `over` */
    while (t && atomic_load_explicit(&t->busy, memory_order_acquire)) {
        sched_yield();
    }
}

void hd_request_unhook(hd_request_t *r) {
    hd_trigger_settle(r->trigger);
    r->op.task.callback = r->trigger->callback;
    r->op.task.magic = HD_TASK_LIVE;
}

/* Makes a task of the trigger, and hooks the request. What is copied into the carrier's operation
 * is for those that tell what a context waits for. */
static void arm(hd_trigger_t *t, hd_request_t *r, ucc_ee_h ee) {
    hd_op_t *op = &t->carrier.op;
    hd_task_t *task = &op->task;
    /* relaxed: the caller is the request's only user */
    hd_assert(!atomic_load_explicit(&t->busy, memory_order_relaxed));
    op->team = r->op.team;
    op->team_ep = r->op.team_ep;
    op->group = r->op.group;
    op->call.type = r->op.call.type;
    op->call.uneven = r->op.call.uneven;
    op->place.me = r->op.place.me;
    op->place.n = r->op.place.n;
    op->phase = HD_PHASE_MATCH; /* it has no start: it stands for the request */
    op->apart = true;
    op->match = step_trigger;
    t->carrier.waits = (hd_op_waits_t){0};
    task->magic = HD_TASK_LIVE;
    task->context = r->op.team->contexts[0];
    task->home = &r->op.group->home;
    task->step = hd_op_step;
    task->awaited = NULL;
    task->deadline = hd_request_deadline(r);
    task->callback = (ucc_coll_callback_t){.cb = fire, .data = t};
    task->req.status = UCC_INPROGRESS;
    t->r = r;
    t->ee = ee;
    t->callback = r->op.task.callback;
    r->op.task.callback = (ucc_coll_callback_t){.cb = over, .data = t};
    r->op.task.magic = HD_TASK_HOOKED;
    r->op.task.context = task->context;
    /* relaxed, both: nobody else knows of this post yet; the list and the push publish them */
    atomic_store_explicit(&t->busy, true, memory_order_relaxed);
    __atomic_store_n(&r->op.task.req.status, UCC_INPROGRESS, __ATOMIC_RELAXED);
}

ucc_status_t hd_trigger_post(hd_request_t *r, ucc_ee_h ee) {
    hd_trigger_t *t = r->trigger ? r->trigger : hd_alloc(HD_LINE_PAIR, sizeof(*t));
    if (!t) {
        hd_error("%s: no memory for a triggered post", hd_op_type_name(&r->op));
        return UCC_ERR_NO_MEMORY;
    }
    r->trigger = t;
    arm(t, r, ee);
    hd_lock(&ee->lock);
    t->next = ee->armed;
    ee->armed = t;
    t->number = ee->oldest + ee->waiting++;
    hd_unlock(&ee->lock);
    if (take_ready(t)) { /* the event has come already */
        fire(t, UCC_OK);
    } else {
        hd_runner_push(&t->carrier.op.task.context->runner, &t->carrier.op.task);
    }
    return UCC_OK;
}
