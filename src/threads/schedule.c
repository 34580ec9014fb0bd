/* schedule.c: stages and schedules: what a round does, how a run begins and ends. See schedule.h.
 */
#include "threads/schedule.h"

#include "core/log.h"
#include "threads/delay.h"
#include "threads/schedule_internal.h"

#include <stddef.h>
#include <string.h>

/* --- who is inside ------------------------------------------------------------------------------ */

/* A thread is known by the address of its own one. */
static _Thread_local char here;

_Thread_local uint8_t hd_schedule_depth;

static bool is_root_of_caller(hd_schedule_t *root) {
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

static bool enter(hd_schedule_t *s) {
    const void *nobody = NULL;
    /* acquire: pairs with `leave`, for all that the last one inside has written */
    return atomic_compare_exchange_strong_explicit(&s->inside, &nobody, &here, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void leave(hd_schedule_t *s) {
    atomic_store_explicit(&s->inside, NULL, memory_order_release); /* see enter */
}

/* Something came from outside: whoever sleeps until this schedule is done looks again. The runner was read
 * before that could be seen, for the schedule may be gone by now. */
static void wake(hd_runner_t *runner) {
    if (runner) {
        hd_bell_ring(&runner->bell);
    }
}

static const char *name_of(const hd_schedule_t *s) {
    return s->name ? s->name : "schedule";
}

static const hd_stage_class_t schedule_class;

static hd_schedule_t *inner_of(hd_stage_t *stage) {
    return stage->class == &schedule_class ? (hd_schedule_t *)stage : NULL;
}

/* --- stages ------------------------------------------------------------------------------------- */

void hd_stage_init(hd_stage_t *stage, const hd_stage_class_t *class) {
    memset(stage, 0, sizeof(*stage));
    hd_events_init(&stage->events, stage);
    atomic_init(&stage->epoch, 1); /* listeners begin with 0 */
    stage->class = class;
}

/* It, and all in it. */
static void hold(hd_stage_t *stage, bool holds) {
    hd_schedule_t *inner = inner_of(stage);
    for (hd_stage_t *i = inner ? inner->first : NULL; i; i = i->next) {
        hold(i, holds);
    }
    if (stage->held != holds && stage->class && stage->class->hold) {
        stage->held = holds;
        stage->class->hold(stage, holds);
    }
}

static void unlink_stage(hd_schedule_t *s, hd_stage_t *stage) {
    hold(stage, false);
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

/* By a step, in which what has been told from outside is taken up. */
static bool ends_itself(const hd_stage_t *stage) {
    return stage->started && stage->class && stage->class->is_busy;
}

static bool is_busy(hd_stage_t *stage) {
    return ends_itself(stage) && !stage->over && stage->class->is_busy(stage);
}

/* Another thread may be inside its schedule, now or soon. */
static bool is_anothers(hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(stage);
    return root && hd_schedule_result(root) == UCC_INPROGRESS && !is_root_of_caller(root);
}

static void end_for_good(hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(stage);
    bool in_use = root && hd_schedule_result(root) == UCC_INPROGRESS;
    if (stage->schedule) {
        unlink_stage(stage->schedule, stage);
    }
    hd_events_destroy(&stage->events, in_use);
}

static bool may_destroy(hd_stage_t *stage, const char *what) {
    hd_schedule_t *inner = inner_of(stage);
    if (inner &&
        (hd_schedule_result(inner) == UCC_INPROGRESS || inner->phase != HD_SCHEDULE_IDLE)) {
        hd_error("%s: destroyed while it runs", name_of(inner));
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
    if (!may_destroy(stage, "a task")) {
        return UCC_ERR_INVALID_PARAM;
    }
    end_for_good(stage);
    return UCC_OK;
}

static void reset_stage(hd_stage_t *stage) {
    stage->state = HD_STAGE_NOT_READY;
    stage->status = UCC_OK;
    stage->started = stage->over = stage->asked = false;
    /* relaxed: nobody outside may end it before the run has begun */
    atomic_store_explicit(&stage->letter, 0, memory_order_relaxed);
}

/* By whoever is inside. */
static void end_stage(hd_stage_t *stage, ucc_status_t status) {
    hd_schedule_t *s = stage->schedule;
    stage->over = true;
    stage->state = HD_STAGE_COMPLETED;
    stage->status = status;
    hold(stage, false);
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

/* A busy one is to end so: its schedule need not wait with canceling the others. */
static void note_failure(hd_stage_t *stage, ucc_status_t status) {
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
    /* release: what the caller did for it happens before its end; pairs with take_letter */
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
    wake(runner);
    return UCC_OK;
}

/* By whoever is inside. */
static ucc_status_t end_inside(hd_stage_t *stage, ucc_status_t status) {
    int32_t letter = 0;
    if (stage->over) {
        return refuse_end("twice");
    }
    if (is_busy(stage)) {
        stage->state = HD_STAGE_INPROGRESS;
        if (!put_letter(stage, status)) {
            return refuse_end("twice");
        }
        note_failure(stage, status);
        return UCC_OK;
    }
    if (ends_itself(stage)) { /* it may have been told before how to end */
        letter = atomic_load_explicit(&stage->letter, memory_order_acquire); /* see take_letter */
    }
    end_stage(stage, letter < 0 ? (ucc_status_t)letter : status);
    return UCC_OK;
}

ucc_status_t hd_stage_end(hd_stage_t *stage, ucc_status_t status) {
    hd_schedule_t *root = hd_stage_root(stage);
    status = status > 0 ? UCC_ERR_INVALID_PARAM : status;
    if (!root) {
        if (stage->over) {
            return refuse_end("twice");
        }
        end_stage(stage, status);
        return UCC_OK;
    }
    return is_root_of_caller(root) ? end_inside(stage, status) : post_letter(stage, root, status);
}

void hd_stage_give_up(hd_stage_t *stage, ucc_status_t why) {
    hd_schedule_t *root = hd_stage_root(stage);
    if (is_root_of_caller(root)) {
        if (!stage->over) {
            (void)end_inside(stage, why);
        }
    } else if (hd_schedule_result(root) == UCC_INPROGRESS) {
        hd_runner_t *runner = root->runner;
        (void)put_letter(stage, why); /* one that is ended already stays so */
        wake(runner);
    }
}

/* What it has met so far does not count any more: a run of it is over, or it begins anew. */
static void forget_met(hd_stage_t *stage) {
    /* relaxed, both: see epoch_of */
    atomic_store_explicit(&stage->met, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&stage->epoch, 1, memory_order_relaxed);
}

static void hear(hd_stage_t *stage, hd_stage_event_t event, bool again) {
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

void hd_stage_tell(hd_stage_t *stage, hd_stage_event_t event, bool again) {
    hd_schedule_t *root = hd_stage_root(stage);
    if (!root || is_root_of_caller(root)) {
        hear(stage, event, again);
        return;
    }
    hd_runner_t *runner = root->runner;
    hd_delay_point();
    if (again) {
        /* relaxed: the addition below publishes it */
        atomic_fetch_add_explicit(&stage->heard_again, 1, memory_order_relaxed);
    }
    /* release: what happened before the event happens before its handler; pairs with take_mail */
    atomic_fetch_add_explicit(&stage->heard[event], 1, memory_order_release);
    wake(runner);
}

ucc_status_t hd_events_raise(hd_events_t *events, hd_stage_event_t event) {
    hd_stage_t *stage = events->stage;
    hd_schedule_t *root = stage ? hd_stage_root(stage) : NULL;
    if (root && (event == HD_ON_COMPLETED || event == HD_ON_CANCELED)) {
        return hd_stage_end(stage, event == HD_ON_COMPLETED ? UCC_OK : HD_STAGE_CANCELED);
    }
    if (root && event == HD_ON_FRAGMENT_COMPLETED && !is_root_of_caller(root)) {
        hd_runner_t *runner = root->runner;
        hd_delay_point();
        atomic_fetch_add_explicit(&stage->fragments, 1, memory_order_release); /* as in tell */
        wake(runner);
        return UCC_OK;
    }
    hd_events_tell(events, event);
    return UCC_OK;
}

/* --- a round ------------------------------------------------------------------------------------ */

/* Is everything there that it waits for? */
static bool is_ready(hd_stage_t *stage) {
    /* acquire: pairs with await_no_more */
    uint32_t awaits = atomic_load_explicit(&stage->awaits, memory_order_acquire);
    uint32_t met = atomic_load_explicit(&stage->met, memory_order_relaxed); /* see there */
    if (stage->state != HD_STAGE_NOT_READY) {
        return stage->state == HD_STAGE_INPROGRESS; /* its handler says so */
    }
    if (stage->handler[HD_ON_COMPLETED]) {
        return awaits == 0 && !stage->asked; /* else that handler says so */
    }
    return (int32_t)(met - awaits) >= 0;
}

static void start_stage(hd_schedule_t *s, hd_stage_t *stage) {
    stage->started = true;
    stage->state = HD_STAGE_INPROGRESS;
    s->changes++;
    if (stage->class && stage->class->start) {
        stage->class->start(stage);
    }
}

static bool has_mail(hd_stage_t *stage) {
    bool any = false;
    /* relaxed, all: a look; taking it is ordered */
    for (int event = 0; event < HD_ON_LAST; event++) {
        any |= atomic_load_explicit(&stage->heard[event], memory_order_relaxed) != 0;
    }
    return any || atomic_load_explicit(&stage->fragments, memory_order_relaxed) != 0;
}

/* current == stage, throughout a visit: it has not been destroyed. */
static bool is_there(const hd_schedule_t *s, const hd_stage_t *stage) {
    return s->current == stage;
}

static void take_mail(hd_schedule_t *s, hd_stage_t *stage) {
    for (int event = 0; event < HD_ON_LAST && is_there(s, stage); event++) {
        /* acquire: pairs with hd_stage_tell */
        uint32_t n = atomic_exchange_explicit(&stage->heard[event], 0, memory_order_acquire);
        uint32_t again = 0;
        if (n > 0 && event == HD_ON_COMPLETED) {
            /* relaxed, both: the exchange above has acquired what belongs to it; what is more belongs to an
               addition still to come */
            again = atomic_load_explicit(&stage->heard_again, memory_order_relaxed);
            again = again < n ? again : n;
            atomic_fetch_sub_explicit(&stage->heard_again, again, memory_order_relaxed);
        }
        for (; n > 0 && is_there(s, stage); n--) {
            hear(stage, (hd_stage_event_t)event, n <= again);
        }
    }
    if (is_there(s, stage)) {
        /* acquire: pairs with hd_events_raise */
        uint32_t n = atomic_exchange_explicit(&stage->fragments, 0, memory_order_acquire);
        for (; n > 0 && is_there(s, stage); n--) {
            hd_events_tell(&stage->events, HD_ON_FRAGMENT_COMPLETED);
        }
    }
}

/* One that says that all is well waits for its stage's turn. */
static bool is_for_now(const hd_stage_t *stage, int32_t letter) {
    return letter < 0 || (letter > 0 && stage->started);
}

static void take_letter(hd_stage_t *stage) {
    /* acquire: pairs with post_letter */
    int32_t letter = atomic_load_explicit(&stage->letter, memory_order_acquire);
    if (is_for_now(stage, letter) && ends_itself(stage)) {
        note_failure(stage, letter == HD_LETTER_OK ? UCC_OK : (ucc_status_t)letter);
    } else if (is_for_now(stage, letter)) {
        end_stage(stage, letter == HD_LETTER_OK ? UCC_OK : (ucc_status_t)letter);
    }
}

/* What can be done for one stage now. */
static void visit(hd_schedule_t *s, hd_stage_t *stage) {
    s->current = stage;
    if (has_mail(stage)) {
        take_mail(s, stage);
    }
    if (is_there(s, stage) && !stage->over) {
        take_letter(stage);
    }
    if (is_there(s, stage) && !stage->over && !stage->started) {
        if (s->phase == HD_SCHEDULE_CANCELING) { /* it was added since */
            end_stage(stage, s->why);
        } else if (is_ready(stage)) {
            start_stage(s, stage);
        }
    }
    if (is_there(s, stage) && !stage->over && stage->started && stage->class &&
        stage->class->step) {
        stage->class->step(stage);
    }
    if (is_there(s, stage) && !stage->over && stage->handler[HD_ON_PROGRESS]) {
        stage->handler[HD_ON_PROGRESS](stage);
    }
    if (is_there(s, stage) && !stage->over && stage->state == HD_STAGE_COMPLETED) {
        hd_error("%s: a handler put its task's state to COMPLETED, but the event was never raised",
                 s->name ? s->name : "a schedule");
        (void)end_inside(stage, UCC_ERR_INVALID_PARAM);
    }
}

static void visit_all(hd_schedule_t *s) {
    for (s->next = s->first; s->next;) {
        hd_stage_t *stage = s->next;
        s->next = stage->next;
        visit(s, stage);
    }
    s->current = NULL;
}

/* Tells a stage that nobody wants it any more. What has not begun ends now; what has, and knows how to be
 * canceled, when it says so. */
static void cancel_stage(hd_schedule_t *s, hd_stage_t *stage) {
    bool told = stage->handler[HD_ON_CANCELED] != NULL;
    s->current = stage;
    if (stage->started && stage->class && stage->class->cancel) {
        told = true;
        stage->class->cancel(stage, s->why);
    }
    if (is_there(s, stage) && !stage->over && stage->handler[HD_ON_CANCELED]) {
        stage->handler[HD_ON_CANCELED](stage);
    }
    if (is_there(s, stage) && !stage->over && !(stage->started && told)) {
        end_stage(stage, s->why);
    }
}

static void cancel_all(hd_schedule_t *s) {
    s->phase = HD_SCHEDULE_CANCELING;
    for (s->next = s->first; s->next;) {
        hd_stage_t *stage = s->next;
        s->next = stage->next;
        if (!stage->over) {
            cancel_stage(s, stage);
        }
    }
    s->current = NULL;
}

static void look_for_cause(hd_schedule_t *s) {
    /* acquire: pairs with hd_schedule_cancel */
    int32_t asked = atomic_load_explicit(&s->asked, memory_order_acquire);
    if (s->why == UCC_OK && asked) {
        s->why = (ucc_status_t)asked;
    }
    if (s->why == UCC_OK && s->watch) {
        s->why = s->watch(s->arg);
    }
    if (s->why != UCC_OK && s->phase == HD_SCHEDULE_RUNNING) {
        cancel_all(s);
    }
}

static bool is_finished(const hd_schedule_t *s) {
    return (uint32_t)s->n_completed >= s->n_stages;
}

/* A round of this schedule and those in it; true if anything was started or ended. */
static bool play(hd_schedule_t *s) {
    enum {
        MOST_WALKS = 8
    }; /* what ends lets others start: at once, but others wait for this thread, too */
    uint32_t began = s->changes, before;
    int walks = 0;
    look_for_cause(s);
    do {
        before = s->changes;
        visit_all(s);
        look_for_cause(s);
    } while (s->changes != before && !is_finished(s) && ++walks < MOST_WALKS);
    if (s->phase == HD_SCHEDULE_RUNNING && hd_events_have(&s->super.events, HD_ON_PROGRESS)) {
        hd_events_tell(&s->super.events, HD_ON_PROGRESS);
        look_for_cause(s);
    }
    return s->changes != began;
}

static bool is_due(hd_schedule_t *s);

static bool is_stage_due(const hd_schedule_t *s, hd_stage_t *stage) {
    /* relaxed: a look */
    int32_t letter = atomic_load_explicit(&stage->letter, memory_order_relaxed);
    if (has_mail(stage)) {
        return true;
    }
    if (stage->over) {
        return false;
    }
    /* of one that ends itself, a failure is taken up once: see note_failure */
    bool is_news =
        !ends_itself(stage) || (letter < 0 && s->why == UCC_OK && s->phase == HD_SCHEDULE_RUNNING);
    if ((is_for_now(stage, letter) && is_news) || stage->handler[HD_ON_PROGRESS]) {
        return true;
    }
    if (!stage->started) {
        return s->phase == HD_SCHEDULE_RUNNING && is_ready(stage);
    }
    return stage->class && (!stage->class->is_due || stage->class->is_due(stage));
}

/* Under the context's lock: is there any use in a round? */
static bool is_due(hd_schedule_t *s) {
    /* relaxed: a look */
    if (is_finished(s) ||
        (s->phase == HD_SCHEDULE_RUNNING &&
         (s->why != UCC_OK || atomic_load_explicit(&s->asked, memory_order_relaxed) != 0 ||
          (s->watch && s->watch(s->arg) != UCC_OK)))) {
        return true;
    }
    bool any = hd_events_have(&s->super.events, HD_ON_PROGRESS);
    for (hd_stage_t *stage = s->first; stage && !any; stage = stage->next) {
        any = is_stage_due(s, stage);
    }
    return any;
}

/* --- a run: beginning and end ------------------------------------------------------------------- */

/* All stages, those of inner schedules included: they may hear of events before their schedule's turn. */
static void reset(hd_schedule_t *s) {
    for (hd_stage_t *stage = s->first; stage; stage = stage->next) {
        reset_stage(stage);
        if (inner_of(stage)) {
            reset(inner_of(stage));
        }
    }
    s->n_completed = 0;
    s->why = UCC_OK;
    s->again = false;
    s->phase = HD_SCHEDULE_IDLE;
    s->stall = (hd_stall_t){0};
    s->changes++;
    /* relaxed: nobody may ask before the run has begun */
    atomic_store_explicit(&s->asked, 0, memory_order_relaxed);
}

static void begin_run(hd_schedule_t *s) {
    s->super.state = HD_STAGE_INPROGRESS;
    s->super.status = UCC_OK;
    s->phase = HD_SCHEDULE_RUNNING;
}

/* Whom stages have met in this run is of no use to the next one; nor is, after a failure, what they have heard and
 * not taken up. */
static void forget_run(hd_schedule_t *s, bool failed) {
    for (hd_stage_t *stage = s->first; stage; stage = stage->next) {
        forget_met(stage);
        if (inner_of(stage)) {
            forget_run(inner_of(stage), failed);
        }
        if (!failed) {
            continue;
        }
        for (int event = 0; event < HD_ON_LAST; event++) {
            atomic_store_explicit(&stage->heard[event], 0,
                                  memory_order_relaxed); /* taken or lost */
        }
        atomic_store_explicit(&stage->heard_again, 0, memory_order_relaxed); /* likewise */
        atomic_store_explicit(&stage->fragments, 0, memory_order_relaxed);   /* likewise */
    }
}

/* All stages are over, and the schedule is nobody else's: tells its listeners. False: one of them has started it
 * anew. */
static bool wind_up(hd_schedule_t *s) {
    s->phase = HD_SCHEDULE_ENDING;
    s->super.state = HD_STAGE_COMPLETED;
    s->super.status = s->why;
    forget_run(s, s->why != UCC_OK);
    hd_events_tell(&s->super.events, s->why == UCC_OK ? HD_ON_COMPLETED : HD_ON_CANCELED);
    if (s->again) {
        reset(s);
        hold(&s->super, true);
        begin_run(s);
        return false;
    }
    hold(&s->super, false); /* of what a listener has just added */
    s->phase = HD_SCHEDULE_IDLE;
    return true;
}

/* Last of all: after this the schedule is its owner's. */
static void publish(hd_schedule_t *s) {
    void (*done)(void *, ucc_status_t) = s->done;
    void *arg = s->arg;
    ucc_status_t result = s->why;
    if (s->runner) {
        /* relaxed: a count for context_destroy, which the client orders after the result */
        atomic_fetch_sub_explicit(&s->runner->schedules, 1, memory_order_relaxed);
    }
    leave(s);
    hd_delay_point();
    /* release: all that the run did happens before whoever sees its result; pairs with hd_schedule_result */
    atomic_store_explicit(&s->result, (int32_t)result, memory_order_release);
    if (done) {
        done(arg, result);
    }
}

/* --- driven by a context ------------------------------------------------------------------------ */

static hd_schedule_t *schedule_of(hd_task_t *carrier) {
    return (hd_schedule_t *)(void *)((char *)carrier - offsetof(hd_schedule_t, carrier));
}

/* "task 2 (in progress) and task 3 (not ready)" */
static void say_stalled(const hd_schedule_t *s, uint64_t now) {
    enum { MOST = 8 };
    static const char *const state[] = {"not ready", "in progress", "completed"};
    hd_text_t text = {0};
    uint32_t number = 0, said = 0;
    for (const hd_stage_t *stage = s->first; stage; stage = stage->next, number++) {
        if (stage->over) {
            continue;
        }
        if (said++ == MOST) {
            hd_text_add(&text, ", ...");
            break;
        }
        hd_text_add(&text, "%stask %u (%s)", said == 1 ? "" : ", ", number,
                    state[stage->state <= HD_STAGE_COMPLETED ? stage->state : 0]);
    }
    hd_stall_line("%s: has waited %.1f s for %s of %u", name_of(s),
                  hd_stall_seconds(&s->stall, now), said ? text.line : "none", s->n_stages);
}

/* A look in vain: says what is awaited, if that has lasted. */
static void note_wait(hd_schedule_t *s, uint64_t now) {
    if (hd_stall_is_due(&s->stall, now, s->patience)) {
        say_stalled(s, now);
    }
}

/* A handler looks for the end of its own schedule, which waits for the handler. */
static void note_own_wait(hd_schedule_t *s) {
    uint64_t now = hd_ticks();
    if (hd_stall_is_due(&s->own_wait, now, s->patience)) {
        hd_stall_line("%s: has waited %.1f s for one of its own handlers, which waits for it",
                      name_of(s), hd_stall_seconds(&s->own_wait, now));
    }
}

uint64_t hd_schedule_look_after(hd_task_t *carrier, uint64_t now) {
    hd_schedule_t *s = schedule_of(carrier);
    note_wait(s, now);
    return s->patience ? s->stall.since + s->stall.after : UINT64_MAX;
}

/* By whoever is inside, after a round. */
static void note_round(hd_schedule_t *s, uint64_t began, bool any) {
    if (any) {
        s->stall = (hd_stall_t){0};
        hd_idle_reset(&s->idle);
        return;
    }
    note_wait(s, began);
    /* one yield for all schedules that this progress call plays: only the last of them has no next */
    if (!s->runner || !s->carrier.next) {
        (void)hd_idle_note(&s->idle, began, s->yield_max, NULL);
    }
}

/* Under the context's lock. What it says is taken for an end, and play_listed called. */
static ucc_status_t step_listed(hd_task_t *carrier) {
    return is_due(schedule_of(carrier)) ? UCC_OK : UCC_INPROGRESS;
}

static void push(hd_schedule_t *s) {
    hd_task_t *carrier = &s->carrier;
    carrier->step = step_listed; /* hd_runner_abandon may have put its own there */
    carrier->req.status = UCC_INPROGRESS;
    hd_runner_push(s->runner, carrier);
}

/* Inside. False: the run is over, and the schedule its owner's. */
static bool play_round(hd_schedule_t *s) {
    uint64_t began = hd_ticks();
    uint8_t depth = hd_schedule_depth;
    hd_schedule_depth = s->depth;
    s->own_wait = (hd_stall_t){0};
    bool any = play(s), over = false;
    if (is_finished(s)) {
        over = wind_up(s);
        any = true;
    }
    hd_schedule_depth = depth;
    if (over) {
        publish(s);
        return false;
    }
    note_round(s, began, any);
    return true;
}

/* The carrier's completion: it is in no list, so that nobody else plays a round. */
static void play_listed(void *arg, ucc_status_t status) {
    hd_schedule_t *s = arg;
    (void)status;
    while (!enter(s)) { /* somebody who tries to start it finds in a moment that it runs */
        hd_relax();
    }
    if (play_round(s)) {
        leave(s);
        push(s);
    }
}

/* --- schedules ---------------------------------------------------------------------------------- */

static void start_inner(hd_stage_t *stage) {
    begin_run((hd_schedule_t *)stage);
}

static void step_inner(hd_stage_t *stage) {
    hd_schedule_t *s = (hd_schedule_t *)stage;
    play(s);
    if (is_finished(s)) {
        s->phase = HD_SCHEDULE_IDLE;
        end_stage(stage, s->why);
    }
}

static void cancel_inner(hd_stage_t *stage, ucc_status_t why) {
    hd_schedule_t *s = (hd_schedule_t *)stage;
    if (s->why == UCC_OK) {
        s->why = why;
    }
    if (s->phase == HD_SCHEDULE_RUNNING) {
        cancel_all(s); /* its next step finds whether it is finished */
    }
}

static bool is_inner_due(hd_stage_t *stage) {
    return is_due((hd_schedule_t *)stage);
}

static const hd_stage_class_t schedule_class = {
    .start = start_inner, .step = step_inner, .cancel = cancel_inner, .is_due = is_inner_due};

enum { DEFAULT_YIELD_US = 200, DEFAULT_PATIENCE_S = 10 };

void hd_schedule_init(hd_schedule_t *schedule) {
    memset(schedule, 0, sizeof(*schedule));
    hd_stage_init(&schedule->super, &schedule_class);
    schedule->last = &schedule->first;
    schedule->yield_max = DEFAULT_YIELD_US * hd_ticks_per_us;
    schedule->patience = hd_stall_ticks(DEFAULT_PATIENCE_S);
    hd_idle_init(&schedule->idle);
    atomic_init(&schedule->result, UCC_OPERATION_INITIALIZED);
    schedule->carrier.magic = HD_TASK_SCHEDULE;
    schedule->carrier.callback = (ucc_coll_callback_t){.cb = play_listed, .data = schedule};
}

bool hd_schedule_is_in_place(const hd_schedule_t *schedule) {
    return schedule->super.class == &schedule_class && hd_stage_is_in_place(&schedule->super);
}

ucc_status_t hd_schedule_destroy(hd_schedule_t *schedule) {
    if (!may_destroy(&schedule->super, name_of(schedule))) {
        return UCC_ERR_INVALID_PARAM;
    }
    while (schedule->first) {
        unlink_stage(schedule, schedule->first);
    }
    end_for_good(&schedule->super);
    return UCC_OK;
}

ucc_status_t hd_schedule_add(hd_schedule_t *schedule, hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(&schedule->super);
    root = root ? root : schedule;
    if (stage->schedule || stage == &root->super) {
        hd_error("%s: a task is added that is part of a schedule already", name_of(schedule));
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_schedule_result(root) == UCC_INPROGRESS && !is_root_of_caller(root)) {
        hd_error("%s: a task is added by a thread that does not drive it", name_of(schedule));
        return UCC_ERR_INVALID_PARAM;
    }
    reset_stage(stage);
    forget_met(stage);
    if (inner_of(stage)) {
        reset(inner_of(stage));
    }
    if (hd_schedule_result(root) == UCC_INPROGRESS) {
        hold(stage, true);
    }
    stage->schedule = schedule;
    stage->next = NULL;
    stage->at = schedule->last;
    *schedule->last = stage;
    schedule->last = &stage->next;
    schedule->n_stages++;
    schedule->changes++;
    return UCC_OK;
}

void hd_schedule_attach(hd_schedule_t *schedule, hd_runner_t *runner, hd_home_t *home) {
    schedule->runner = runner;
    schedule->yield_max = runner->yield_max;
    schedule->carrier.context = (hd_context_t *)(void *)runner; /* whose first member it is */
    schedule->carrier.home = home;
}

static ucc_status_t refuse_start(const hd_schedule_t *s, const char *why) {
    hd_error("%s: started %s", name_of(s), why);
    return UCC_ERR_INVALID_PARAM;
}

ucc_status_t hd_schedule_start(hd_schedule_t *s) {
    if (s->super.schedule) {
        return refuse_start(s, "though it is part of another, which starts it");
    }
    if (is_root_of_caller(s)) {
        if (s->phase != HD_SCHEDULE_ENDING || s->again) {
            return refuse_start(s, "by a task of its own");
        }
        s->again = true;
        return UCC_OK;
    }
    bool entered = false; /* another thread that finds it idle, too, is out again at once */
    while (hd_schedule_result(s) != UCC_INPROGRESS && !(entered = enter(s))) {
        hd_relax();
    }
    if (entered && hd_schedule_result(s) == UCC_INPROGRESS) { /* that one has started it */
        leave(s);
        entered = false;
    }
    if (!entered) {
        return refuse_start(s, "while it runs");
    }
    reset(s);
    hold(&s->super, true);
    begin_run(s);
    s->depth = (uint8_t)(hd_schedule_depth + (s->done != NULL));
    if (s->runner) {
        /* relaxed: a count for context_destroy, which the client orders after the run */
        atomic_fetch_add_explicit(&s->runner->schedules, 1, memory_order_relaxed);
    }
    /* release: the run's fields, for whoever sees that it has begun */
    atomic_store_explicit(&s->result, UCC_INPROGRESS, memory_order_release);
    hd_runner_t *runner = s->runner;
    leave(s);
    if (runner) { /* nobody can end it before */
        push(s);
    }
    return UCC_OK;
}

ucc_status_t hd_schedule_progress(hd_schedule_t *s) {
    ucc_status_t result = hd_schedule_result(s);
    if (result != UCC_INPROGRESS) {
        return result;
    }
    if (is_root_of_caller(s)) {
        note_own_wait(s);
    }
    if (s->runner) {
        (void)hd_runner_progress(s->runner, NULL);
        return hd_schedule_result(s);
    }
    if (is_root_of_caller(s) || !enter(s)) {
        return UCC_INPROGRESS; /* somebody is at it, perhaps the caller's caller */
    }
    if (s->phase == HD_SCHEDULE_IDLE) { /* it has ended meanwhile */
        leave(s);
        return hd_schedule_result(s);
    }
    if (play_round(s)) {
        leave(s);
        return UCC_INPROGRESS;
    }
    return hd_schedule_result(s);
}

bool hd_schedule_cancel(hd_schedule_t *s, ucc_status_t why) {
    hd_runner_t *runner = s->runner;
    int32_t none = 0;
    if (hd_schedule_result(s) != UCC_INPROGRESS) {
        return false;
    }
    hd_delay_point();
    /* release: pairs with look_for_cause; the first cause wins */
    (void)atomic_compare_exchange_strong_explicit(&s->asked, &none, (int32_t)why,
                                                  memory_order_release, memory_order_relaxed);
    wake(runner);
    return true;
}
