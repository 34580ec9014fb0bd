/* stage.c: stages: how one is ended and hears of others' ends, by whoever is inside its schedule
 * and by all others. See schedule.h; schedule.c plays the rounds. Raising an event calls its
 * listeners (hd_events_tell), and a stage that ends raises one: so one end may bring about others,
 * stage by stage, within one call of hd_stage_end.
 */
#include "threads/schedule.h"

#include "core/log.h"
#include "threads/delay.h"
#include "threads/schedule_internal.h"

#include <string.h>

/* --- who is inside ---------------------------------------------------------------------------- */

/* A thread is known by the address of its own one. */
static _Thread_local char here;

bool hd_schedule_is_callers(hd_schedule_t *root) {
    /* relaxed: only the caller itself stores its own address */
    return atomic_load_explicit(&root->inside, memory_order_relaxed) == &here;
}

hd_schedule_t *hd_stage_root(hd_stage_t *stage) {
    hd_schedule_t *root = stage->schedule;
    while (root && root->super.schedule) {
        root = root->super.schedule;
    }
    return root;
}

bool hd_schedule_enter(hd_schedule_t *s) {
    const void *nobody = NULL;
    /* acquire: pairs with hd_schedule_leave, for all that the last one inside has written */
    return atomic_compare_exchange_strong_explicit(&s->inside, &nobody, &here, memory_order_acquire,
                                                   memory_order_relaxed);
}

void hd_schedule_leave(hd_schedule_t *s) {
    atomic_store_explicit(&s->inside, NULL, memory_order_release); /* see hd_schedule_enter */
}

/* Something came from outside: whoever sleeps until this schedule is done looks again. The
 * runner was read before that could be seen, for the schedule may be gone by now. */
void hd_schedule_wake(hd_runner_t *runner) {
    if (runner) {
        hd_bell_ring(&runner->bell);
    }
}

const char *hd_schedule_name(const hd_schedule_t *s) {
    return s->name ? s->name : "schedule";
}

hd_schedule_t *hd_stage_inner(hd_stage_t *stage) {
    return stage->class && stage->class->is_schedule ? (hd_schedule_t *)stage : NULL;
}

/* --- stages ----------------------------------------------------------------------------------- */

void hd_stage_init(hd_stage_t *stage, const hd_stage_class_t *class) {
    memset(stage, 0, sizeof(*stage));
    hd_events_init(&stage->events, stage);
    atomic_init(&stage->epoch, 1); /* listeners begin with 0 */
    stage->class = class;
}

/* It, and all in it. */
void hd_stage_hold(hd_stage_t *stage, bool holds) {
    hd_schedule_t *inner = hd_stage_inner(stage);
    for (hd_stage_t *i = inner ? inner->first : NULL; i; i = i->next) {
        hd_stage_hold(i, holds);
    }
    if (stage->held != holds && stage->class && stage->class->hold) {
        stage->held = holds;
        stage->class->hold(stage, holds);
    }
}

void hd_stage_unlink(hd_schedule_t *s, hd_stage_t *stage) {
    hd_stage_hold(stage, false);
    if (s->next == stage) {
        s->next = stage->next;
    }
    if (s->current == stage) {
        s->current = NULL;
    }
    *stage->at = stage->next;
    if (stage->next) {
        stage->next->at = stage->at;
    } else {
        s->last = stage->at;
    }
    s->n_stages--;
    s->n_completed -= stage->over;
    s->changes++;
    stage->schedule = NULL;
}

bool hd_stage_ends_itself(const hd_stage_t *stage) {
    return stage->started && stage->class && stage->class->is_busy;
}

static bool is_busy(hd_stage_t *stage) {
    return hd_stage_ends_itself(stage) && !stage->over && stage->class->is_busy(stage);
}

/* Another thread may be inside its schedule, now or soon. */
static bool is_anothers(hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(stage);
    return root && hd_schedule_result(root) == UCC_INPROGRESS && !hd_schedule_is_callers(root);
}

void hd_stage_end_for_good(hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(stage);
    bool in_use = root && hd_schedule_result(root) == UCC_INPROGRESS;
    if (stage->schedule) {
        hd_stage_unlink(stage->schedule, stage);
    }
    hd_events_destroy(&stage->events, in_use);
}

bool hd_stage_may_destroy(hd_stage_t *stage, const char *what) {
    hd_schedule_t *inner = hd_stage_inner(stage);
    if (inner &&
        (hd_schedule_result(inner) == UCC_INPROGRESS || inner->phase != HD_SCHEDULE_IDLE)) {
        hd_error("%s: destroyed while it runs", hd_schedule_name(inner));
        return false;
    }
    if (stage->schedule && is_busy(stage)) {
        hd_error("%s: destroyed while its request is in progress", what);
        return false;
    }
    if (is_anothers(stage)) {
        hd_error("%s: destroyed by a thread that does not drive its schedule, which runs", what);
        return false;
    }
    return true;
}

ucc_status_t hd_stage_destroy(hd_stage_t *stage) {
    if (!hd_stage_may_destroy(stage, "a task")) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_stage_end_for_good(stage);
    return UCC_OK;
}

void hd_stage_reset(hd_stage_t *stage) {
    stage->state = HD_STAGE_NOT_READY;
    stage->status = UCC_OK;
    stage->started = stage->over = stage->asked = false;
    /* relaxed: nobody outside may end it before the run has begun */
    atomic_store_explicit(&stage->letter, 0, memory_order_relaxed);
}

void hd_stage_finish(hd_stage_t *stage, ucc_status_t status) {
    hd_schedule_t *s = stage->schedule;
    stage->over = true;
    stage->state = HD_STAGE_COMPLETED;
    stage->status = status;
    hd_stage_hold(stage, false);
    if (s) {
        s->n_completed++;
        s->changes++;
        if (status != UCC_OK && s->why == UCC_OK) {
            s->why = status;
        }
    }
    /* last: a listener may free the stage */
    hd_events_tell(&stage->events, status == UCC_OK ? HD_ON_COMPLETED : HD_ON_CANCELED);
}

void hd_stage_note_failure(hd_stage_t *stage, ucc_status_t status) {
    hd_schedule_t *s = stage->schedule;
    if (s && status != UCC_OK && s->why == UCC_OK) {
        s->why = status;
        s->changes++;
    }
}

static ucc_status_t refuse_end(const char *why) {
    hd_error("a task of a schedule is ended %s", why);
    return UCC_ERR_INVALID_PARAM;
}

/* False: it has been told before how to end. */
static bool put_letter(hd_stage_t *stage, ucc_status_t status) {
    int32_t none = 0, letter = status == UCC_OK ? HD_LETTER_OK : (int32_t)status;
    hd_delay_point();
    /* release: what the caller did for it happens before its end; pairs with take_letter of
     * schedule.c */
    return atomic_compare_exchange_strong_explicit(&stage->letter, &none, letter,
                                                   memory_order_release, memory_order_relaxed);
}

/* Its schedule is another thread's, or nobody's, at the moment. */
static ucc_status_t post_letter(hd_stage_t *stage, hd_schedule_t *root, ucc_status_t status) {
    hd_runner_t *runner = root->runner;
    if (hd_schedule_result(root) != UCC_INPROGRESS) {
        return refuse_end("while its schedule does not run");
    }
    if (!put_letter(stage, status)) {
        return refuse_end("twice");
    }
    hd_schedule_wake(runner);
    return UCC_OK;
}

ucc_status_t hd_stage_end_inside(hd_stage_t *stage, ucc_status_t status) {
    int32_t letter = 0;
    if (stage->over) {
        return refuse_end("twice");
    }
    if (is_busy(stage)) {
        stage->state = HD_STAGE_INPROGRESS;
        if (!put_letter(stage, status)) {
            return refuse_end("twice");
        }
        hd_stage_note_failure(stage, status);
        return UCC_OK;
    }
    if (hd_stage_ends_itself(stage)) { /* it may have been told before how to end */
        letter = atomic_load_explicit(&stage->letter, memory_order_acquire); /* see put_letter */
    }
    hd_stage_finish(stage, letter < 0 ? (ucc_status_t)letter : status);
    return UCC_OK;
}

ucc_status_t hd_stage_end(hd_stage_t *stage, ucc_status_t status) {
    hd_schedule_t *root = hd_stage_root(stage);
    status = status > 0 ? UCC_ERR_INVALID_PARAM : status;
    if (!root) {
        if (stage->over) {
            return refuse_end("twice");
        }
        hd_stage_finish(stage, status);
        return UCC_OK;
    }
    return hd_schedule_is_callers(root) ? hd_stage_end_inside(stage, status)
                                        : post_letter(stage, root, status);
}

/* What this stage waits for will not come: it fails, unless it is over. */
static void give_up(hd_stage_t *stage, ucc_status_t why) {
    hd_schedule_t *root = hd_stage_root(stage);
    if (hd_schedule_is_callers(root)) {
        if (!stage->over) {
            (void)hd_stage_end_inside(stage, why);
        }
    } else if (hd_schedule_result(root) == UCC_INPROGRESS) {
        hd_runner_t *runner = root->runner;
        (void)put_letter(stage, why); /* one that is ended already stays so */
        hd_schedule_wake(runner);
    }
}

void hd_stage_forget_met(hd_stage_t *stage) {
    /* relaxed, both: see epoch_of */
    atomic_store_explicit(&stage->met, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&stage->epoch, 1, memory_order_relaxed);
}

void hd_stage_hear(hd_stage_t *stage, hd_stage_event_t event, bool again) {
    if (stage->over && stage->schedule) {
        return;
    }
    stage->asked |= event == HD_ON_COMPLETED;
    if (event == HD_ON_COMPLETED && !again) {
        atomic_fetch_add_explicit(&stage->met, 1, memory_order_relaxed); /* the caller reads it */
    }
    if (stage->handler[event]) {
        stage->handler[event](stage); /* the stage may be gone now */
    }
}

/* This stage hears of an event: now, if the caller is inside its schedule, or it is in none;
 * else in its schedule's next round. again: of COMPLETED of one that it has met already. */
static void tell(hd_stage_t *stage, hd_stage_event_t event, bool again) {
    hd_schedule_t *root = hd_stage_root(stage);
    if (!root || hd_schedule_is_callers(root)) {
        hd_stage_hear(stage, event, again);
        return;
    }
    hd_runner_t *runner = root->runner;
    hd_delay_point();
    if (again) {
        /* relaxed: the addition below publishes it */
        atomic_fetch_add_explicit(&stage->heard_again, 1, memory_order_relaxed);
    }
    /* release: what happened before the event happens before its handler; pairs with take_mail
     * of schedule.c */
    atomic_fetch_add_explicit(&stage->heard[event], 1, memory_order_release);
    hd_schedule_wake(runner);
}

void hd_events_tell(hd_events_t *events, hd_stage_event_t event) {
    hd_walk_t walk = {.gone = false};
    uint32_t at = 0;
    bool vain, again = false;
    hd_schedule_t *own = events->stage ? events->stage->schedule : NULL;
    ucc_status_t status = events->stage ? events->stage->status : HD_STAGE_CANCELED;
    uint32_t before = hd_events_begin_walk(events, &walk);
    for (hd_stage_t *l; (l = hd_events_next_listener(events, &at, before, event, &again, &vain));) {
        if (!vain) {
            tell(l, event, again);
        } else if (l->schedule && l->schedule != own) {
            give_up(l, status);
        }
        if (walk.gone) {
            return; /* and so is its memory */
        }
    }
    hd_events_end_walk(events, &walk);
}

ucc_status_t hd_events_raise(hd_events_t *events, hd_stage_event_t event) {
    hd_stage_t *stage = events->stage;
    hd_schedule_t *root = stage ? hd_stage_root(stage) : NULL;
    if (root && (event == HD_ON_COMPLETED || event == HD_ON_CANCELED)) {
        return hd_stage_end(stage, event == HD_ON_COMPLETED ? UCC_OK : HD_STAGE_CANCELED);
    }
    if (root && event == HD_ON_FRAGMENT_COMPLETED && !hd_schedule_is_callers(root)) {
        hd_runner_t *runner = root->runner;
        hd_delay_point();
        atomic_fetch_add_explicit(&stage->fragments, 1, memory_order_release); /* as in tell */
        hd_schedule_wake(runner);
        return UCC_OK;
    }
    hd_events_tell(events, event);
    return UCC_OK;
}
