/* schedule.c: schedules: what a round does, how a run begins and ends. See schedule.h; stage.c has
 * the stages.
 */
#include "threads/schedule.h"

#include "core/log.h"
#include "threads/delay.h"
#include "threads/schedule_internal.h"

#include <stddef.h>
#include <string.h>

_Thread_local uint8_t hd_schedule_depth;

/* --- a round ---------------------------------------------------------------------------------- */

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
        /* acquire: pairs with tell of stage.c */
        uint32_t n = atomic_exchange_explicit(&stage->heard[event], 0, memory_order_acquire);
        uint32_t again = 0;
        if (n > 0 && event == HD_ON_COMPLETED) {
            /* relaxed, both: the exchange above has acquired what belongs to it; what is more
               belongs to an addition still to come */
            again = atomic_load_explicit(&stage->heard_again, memory_order_relaxed);
            again = again < n ? again : n;
            atomic_fetch_sub_explicit(&stage->heard_again, again, memory_order_relaxed);
        }
        for (; n > 0 && is_there(s, stage); n--) {
            hd_stage_hear(stage, (hd_stage_event_t)event, n <= again);
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
    /* acquire: pairs with put_letter of stage.c */
    int32_t letter = atomic_load_explicit(&stage->letter, memory_order_acquire);
    if (is_for_now(stage, letter) && hd_stage_ends_itself(stage)) {
        hd_stage_note_failure(stage, letter == HD_LETTER_OK ? UCC_OK : (ucc_status_t)letter);
    } else if (is_for_now(stage, letter)) {
        hd_stage_finish(stage, letter == HD_LETTER_OK ? UCC_OK : (ucc_status_t)letter);
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
            hd_stage_finish(stage, s->why);
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
        (void)hd_stage_end_inside(stage, UCC_ERR_INVALID_PARAM);
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

/* Tells a stage that nobody wants it any more. What has not begun ends now; what has, and knows
 * how to be canceled, when it says so. */
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
        hd_stage_finish(stage, s->why);
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
    /* of one that ends itself, a failure is taken up once: see hd_stage_note_failure */
    bool is_news = !hd_stage_ends_itself(stage) ||
                   (letter < 0 && s->why == UCC_OK && s->phase == HD_SCHEDULE_RUNNING);
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

/* --- a run: beginning and end ----------------------------------------------------------------- */

/* All stages, those of inner schedules included: they may hear of events before their schedule's
 * turn. */
static void reset(hd_schedule_t *s) {
    for (hd_stage_t *stage = s->first; stage; stage = stage->next) {
        hd_stage_reset(stage);
        if (hd_stage_inner(stage)) {
            reset(hd_stage_inner(stage));
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

/* Whom stages have met in this run is of no use to the next one; nor is, after a failure, what
 * they have heard and not taken up. */
static void forget_run(hd_schedule_t *s, bool failed) {
    for (hd_stage_t *stage = s->first; stage; stage = stage->next) {
        hd_stage_forget_met(stage);
        if (hd_stage_inner(stage)) {
            forget_run(hd_stage_inner(stage), failed);
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

/* All stages are over, and the schedule is nobody else's: tells its listeners. False: one of
 * them has started it anew. */
static bool wind_up(hd_schedule_t *s) {
    s->phase = HD_SCHEDULE_ENDING;
    s->super.state = HD_STAGE_COMPLETED;
    s->super.status = s->why;
    forget_run(s, s->why != UCC_OK);
    hd_events_tell(&s->super.events, s->why == UCC_OK ? HD_ON_COMPLETED : HD_ON_CANCELED);
    if (s->again) {
        reset(s);
        hd_stage_hold(&s->super, true);
        begin_run(s);
        return false;
    }
    hd_stage_hold(&s->super, false); /* of what a listener has just added */
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
    hd_schedule_leave(s);
    hd_delay_point();
    /* release: all that the run did happens before whoever sees its result; pairs with
     * hd_schedule_result */
    atomic_store_explicit(&s->result, (int32_t)result, memory_order_release);
    if (done) {
        done(arg, result);
    }
}

/* --- driven by a context ---------------------------------------------------------------------- */

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
    hd_stall_line("%s: has waited %.1f s for %s of %u", hd_schedule_name(s),
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
                      hd_schedule_name(s), hd_stall_seconds(&s->own_wait, now));
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
    /* one yield for all schedules that this progress call plays: only the last of them has no
     * next */
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
    carrier->step = step_listed;
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
    while (
        !hd_schedule_enter(s)) { /* somebody who tries to start it finds in a moment that it runs */
        hd_relax();
    }
    if (play_round(s)) {
        hd_schedule_leave(s);
        push(s);
    }
}

/* --- schedules -------------------------------------------------------------------------------- */

static void start_inner(hd_stage_t *stage) {
    begin_run((hd_schedule_t *)stage);
}

static void step_inner(hd_stage_t *stage) {
    hd_schedule_t *s = (hd_schedule_t *)stage;
    play(s);
    if (is_finished(s)) {
        s->phase = HD_SCHEDULE_IDLE;
        hd_stage_finish(stage, s->why);
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

static const hd_stage_class_t schedule_class = {.start = start_inner,
                                                .step = step_inner,
                                                .cancel = cancel_inner,
                                                .is_due = is_inner_due,
                                                .is_schedule = true};

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
    if (!hd_stage_may_destroy(&schedule->super, hd_schedule_name(schedule))) {
        return UCC_ERR_INVALID_PARAM;
    }
    while (schedule->first) {
        hd_stage_unlink(schedule, schedule->first);
    }
    hd_stage_end_for_good(&schedule->super);
    return UCC_OK;
}

ucc_status_t hd_schedule_add(hd_schedule_t *schedule, hd_stage_t *stage) {
    hd_schedule_t *root = hd_stage_root(&schedule->super);
    root = root ? root : schedule;
    if (stage->schedule || stage == &root->super) {
        hd_error("%s: a task is added that is part of a schedule already",
                 hd_schedule_name(schedule));
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_schedule_result(root) == UCC_INPROGRESS && !hd_schedule_is_callers(root)) {
        hd_error("%s: a task is added by a thread that does not drive it",
                 hd_schedule_name(schedule));
        return UCC_ERR_INVALID_PARAM;
    }
    hd_stage_reset(stage);
    hd_stage_forget_met(stage);
    if (hd_stage_inner(stage)) {
        reset(hd_stage_inner(stage));
    }
    if (hd_schedule_result(root) == UCC_INPROGRESS) {
        hd_stage_hold(stage, true);
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
    hd_error("%s: started %s", hd_schedule_name(s), why);
    return UCC_ERR_INVALID_PARAM;
}

ucc_status_t hd_schedule_start(hd_schedule_t *s) {
    if (s->super.schedule) {
        return refuse_start(s, "though it is part of another, which starts it");
    }
    if (hd_schedule_is_callers(s)) {
        if (s->phase != HD_SCHEDULE_ENDING || s->again) {
            return refuse_start(s, "by a task of its own");
        }
        s->again = true;
        return UCC_OK;
    }
    bool entered = false; /* another thread that finds it idle, too, is out again at once */
    while (hd_schedule_result(s) != UCC_INPROGRESS && !(entered = hd_schedule_enter(s))) {
        hd_relax();
    }
    if (entered && hd_schedule_result(s) == UCC_INPROGRESS) { /* that one has started it */
        hd_schedule_leave(s);
        entered = false;
    }
    if (!entered) {
        return refuse_start(s, "while it runs");
    }
    reset(s);
    hd_stage_hold(&s->super, true);
    begin_run(s);
    s->depth = (uint8_t)(hd_schedule_depth + (s->done != NULL));
    if (s->runner) {
        /* relaxed: a count for context_destroy, which the client orders after the run */
        atomic_fetch_add_explicit(&s->runner->schedules, 1, memory_order_relaxed);
    }
    /* release: the run's fields, for whoever sees that it has begun */
    atomic_store_explicit(&s->result, UCC_INPROGRESS, memory_order_release);
    hd_runner_t *runner = s->runner;
    hd_schedule_leave(s);
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
    if (hd_schedule_is_callers(s)) {
        note_own_wait(s);
    }
    if (s->runner) {
        (void)hd_runner_progress(s->runner, NULL);
        return hd_schedule_result(s);
    }
    if (hd_schedule_is_callers(s) || !hd_schedule_enter(s)) {
        return UCC_INPROGRESS; /* somebody is at it, perhaps the caller's caller */
    }
    if (s->phase == HD_SCHEDULE_IDLE) { /* it has ended meanwhile */
        hd_schedule_leave(s);
        return hd_schedule_result(s);
    }
    if (play_round(s)) {
        hd_schedule_leave(s);
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
    hd_schedule_wake(runner);
    return true;
}
