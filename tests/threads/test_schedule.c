/* test_schedule.c: event managers, tasks and schedules, by one thread and without any collective.
 */
#include "core/log.h"
#include "threads/threads.h"

#include <criterion/criterion.h>
#include <heddle/schedule.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int n_errors;

static void count_errors(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    (void)line;
    n_errors += level == HD_LOG_ERROR;
}

static void init(void) {
    hd_clock_init();
    hd_park_init();
    hd_log_capture(count_errors, NULL);
}

TestSuite(schedule, .init = init, .timeout = 60);

/* A task that counts what it hears, and does one thing about it. */
typedef struct counted {
    ucc_coll_task_t super;
    int heard[UCC_EVENT_LAST];
    int ends_after; /* PROGRESS heard in progress until it ends; 0: never */
    ucc_status_t ends_with;
    int began_at; /* how many had ended before it was first seen in progress; -1: not seen */
    void (*act)(struct counted *self);
    void *arg;
    int seen; /* PROGRESS heard while in progress */
} counted_t;

static int ended;

static counted_t *self_of(ucc_coll_task_t *task) {
    return (counted_t *)task;
}

static void on_progress(ucc_coll_task_t *task) {
    counted_t *self = self_of(task);
    self->heard[UCC_EVENT_PROGRESS]++;
    if (task->state != UCC_TASK_STATE_INPROGRESS) {
        return;
    }
    if (self->seen++ == 0) {
        self->began_at = ended;
    }
    if (self->act) {
        self->act(self);
        return;
    }
    if (self->ends_after && self->seen >= self->ends_after) {
        ended++;
        cr_assert_eq(heddle_coll_task_end(task, self->ends_with), UCC_OK);
    }
}

static void on_completed(ucc_coll_task_t *task) {
    self_of(task)->heard[UCC_EVENT_COMPLETED]++;
}

static void on_fragment(ucc_coll_task_t *task) {
    self_of(task)->heard[UCC_EVENT_FRAGMENT_COMPLETED]++;
}

static void on_canceled(ucc_coll_task_t *task) {
    self_of(task)->heard[UCC_EVENT_CANCELED]++;
}

static void prepare(counted_t *c, int ends_after) {
    memset(c, 0, sizeof(*c));
    cr_assert_eq(ucc_coll_task_init(&c->super), UCC_OK);
    c->super.handlers[UCC_EVENT_PROGRESS] = on_progress;
    c->ends_after = ends_after;
    c->began_at = -1;
}

/* Only a listener. */
static void prepare_ear(counted_t *c) {
    prepare(c, 0);
    c->super.handlers[UCC_EVENT_PROGRESS] = NULL;
    c->super.handlers[UCC_EVENT_COMPLETED] = on_completed;
    c->super.handlers[UCC_EVENT_FRAGMENT_COMPLETED] = on_fragment;
    c->super.handlers[UCC_EVENT_CANCELED] = on_canceled;
}

static void after(counted_t *first, counted_t *second) {
    cr_assert_eq(ucc_event_manager_subscribe(&first->super.em, UCC_EVENT_COMPLETED, &second->super),
                 UCC_OK);
}

static ucc_status_t run(ucc_schedule_t *s) {
    ucc_status_t status;
    cr_assert_eq(ucc_schedule_start(s), UCC_OK);
    while ((status = ucc_schedule_progress(s)) == UCC_INPROGRESS) {
    }
    return status;
}

/* --- event managers --------------------------------------------------------------------------- */

Test(schedule, listeners_hear_of_the_events_that_they_subscribed_to) {
    ucc_event_manager_t em;
    counted_t a, b;
    prepare_ear(&a);
    prepare_ear(&b);
    ucc_event_manager_init(&em);
    ucc_event_manager_subscribe(&em, UCC_EVENT_COMPLETED, &a.super);
    ucc_event_manager_subscribe(&em, UCC_EVENT_FRAGMENT_COMPLETED, &b.super);
    cr_assert_eq(ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED), UCC_OK);
    cr_assert_eq(ucc_event_manager_notify(&em, UCC_EVENT_FRAGMENT_COMPLETED), UCC_OK);
    cr_assert_eq(ucc_event_manager_notify(&em, UCC_EVENT_FRAGMENT_COMPLETED), UCC_OK);
    cr_assert_eq(a.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(a.heard[UCC_EVENT_FRAGMENT_COMPLETED], 0);
    cr_assert_eq(b.heard[UCC_EVENT_FRAGMENT_COMPLETED], 2);
}

Test(schedule, a_manager_has_as_many_listeners_as_there_are) {
    enum { MANY = 1000 };
    ucc_event_manager_t em;
    counted_t *ear = calloc(MANY, sizeof(*ear));
    ucc_event_manager_init(&em);
    for (int i = 0; i < MANY; i++) {
        prepare_ear(&ear[i]);
        cr_assert_eq(ucc_event_manager_subscribe(&em, UCC_EVENT_COMPLETED, &ear[i].super), UCC_OK);
    }
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(ear[i].heard[UCC_EVENT_COMPLETED], 1);
    }
    heddle_event_manager_destroy(&em);
    free(ear);
}

Test(schedule, who_unsubscribes_hears_no_more) {
    ucc_event_manager_t em;
    counted_t a, b;
    prepare_ear(&a);
    prepare_ear(&b);
    ucc_event_manager_init(&em);
    ucc_event_manager_subscribe(&em, UCC_EVENT_COMPLETED, &a.super);
    ucc_event_manager_subscribe(&em, UCC_EVENT_COMPLETED, &b.super);
    cr_assert_eq(heddle_event_manager_unsubscribe(&em, UCC_EVENT_COMPLETED, &a.super), UCC_OK);
    cr_assert_eq(heddle_event_manager_unsubscribe(&em, UCC_EVENT_COMPLETED, &a.super),
                 UCC_ERR_NOT_FOUND);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(a.heard[UCC_EVENT_COMPLETED], 0);
    cr_assert_eq(b.heard[UCC_EVENT_COMPLETED], 1);
}

/* Handlers that change the list while it is walked. */
typedef struct fickle {
    counted_t ear;
    ucc_event_manager_t *em;
    struct fickle *other;
    bool frees;
} fickle_t;

static void unsubscribe_both(ucc_coll_task_t *task) {
    fickle_t *f = (fickle_t *)task;
    on_completed(task);
    heddle_event_manager_unsubscribe(f->em, UCC_EVENT_COMPLETED, task);
    heddle_event_manager_unsubscribe(f->em, UCC_EVENT_COMPLETED, &f->other->ear.super);
}

static void subscribe_other(ucc_coll_task_t *task) {
    fickle_t *f = (fickle_t *)task;
    on_completed(task);
    cr_assert_eq(ucc_event_manager_subscribe(f->em, UCC_EVENT_COMPLETED, &f->other->ear.super),
                 UCC_OK);
}

static void destroy_manager(ucc_coll_task_t *task) {
    fickle_t *f = (fickle_t *)task;
    on_completed(task);
    heddle_event_manager_destroy(f->em);
    if (f->frees) {
        free(f->em);
    }
}

static void raise_again(ucc_coll_task_t *task) {
    fickle_t *f = (fickle_t *)task;
    on_completed(task);
    if (f->ear.heard[UCC_EVENT_COMPLETED] < 3) {
        ucc_event_manager_notify(f->em, UCC_EVENT_COMPLETED);
    }
}

static void prepare_fickle(fickle_t *f, ucc_event_manager_t *em, fickle_t *other,
                           ucc_task_event_handler_p handler) {
    prepare_ear(&f->ear);
    f->ear.super.handlers[UCC_EVENT_COMPLETED] = handler;
    f->em = em;
    f->other = other;
    f->frees = false;
    ucc_event_manager_subscribe(em, UCC_EVENT_COMPLETED, &f->ear.super);
}

Test(schedule, handlers_unsubscribe_themselves_and_others_while_the_event_is_raised) {
    ucc_event_manager_t em;
    fickle_t a, b;
    ucc_event_manager_init(&em);
    prepare_fickle(&a, &em, &b, unsubscribe_both);
    prepare_fickle(&b, &em, &a, on_completed);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(a.ear.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(b.ear.heard[UCC_EVENT_COMPLETED], 0);
}

Test(schedule, who_subscribes_while_an_event_is_raised_hears_of_the_next) {
    ucc_event_manager_t em;
    fickle_t a, b, c[6];
    ucc_event_manager_init(&em);
    prepare_fickle(&a, &em, &b, subscribe_other);
    prepare_ear(&b.ear);
    for (int i = 0; i < 6; i++) { /* the list moves to the heap while it is walked */
        prepare_fickle(&c[i], &em, &b, on_completed);
    }
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(b.ear.heard[UCC_EVENT_COMPLETED], 0);
    cr_assert_eq(c[5].ear.heard[UCC_EVENT_COMPLETED], 1);
    a.ear.super.handlers[UCC_EVENT_COMPLETED] = on_completed;
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(b.ear.heard[UCC_EVENT_COMPLETED], 1);
    heddle_event_manager_destroy(&em);
}

Test(schedule, a_manager_may_be_destroyed_and_freed_while_it_raises_an_event) {
    ucc_event_manager_t *em = malloc(sizeof(*em));
    fickle_t a, b;
    ucc_event_manager_init(em);
    prepare_fickle(&a, em, &b, destroy_manager);
    a.frees = true;
    prepare_fickle(&b, em, &a, on_completed);
    ucc_event_manager_notify(em, UCC_EVENT_COMPLETED);
    cr_assert_eq(a.ear.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(b.ear.heard[UCC_EVENT_COMPLETED], 0);
}

Test(schedule, handlers_raise_the_event_that_they_hear_of) {
    ucc_event_manager_t em;
    fickle_t a, b;
    ucc_event_manager_init(&em);
    prepare_fickle(&a, &em, &b, raise_again);
    prepare_fickle(&b, &em, &a, on_completed);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(a.ear.heard[UCC_EVENT_COMPLETED], 3);
    cr_assert_eq(b.ear.heard[UCC_EVENT_COMPLETED], 3);
}

/* --- schedules -------------------------------------------------------------------------------- */

Test(schedule, an_empty_one_is_complete_at_once) {
    ucc_schedule_t s;
    ucc_schedule_init(&s);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(s.super.state, UCC_TASK_STATE_COMPLETED);
}

Test(schedule, one_that_was_never_started_has_no_progress) {
    ucc_schedule_t s;
    ucc_schedule_init(&s);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_ERR_INVALID_PARAM);
}

Test(schedule, a_task_begins_when_all_that_it_waits_for_have_completed) {
    enum { N = 5 };
    ucc_schedule_t s;
    counted_t t[N];
    ucc_schedule_init(&s);
    for (int i = 0; i < N; i++) {
        prepare(&t[i], 1 + i % 3);
        ucc_schedule_add_task(&s, &t[i].super);
    }
    ended = 0;
    after(&t[4], &t[1]); /* 4, then 1 and 0, then 2 and 3 */
    after(&t[4], &t[0]);
    after(&t[0], &t[2]);
    after(&t[1], &t[2]);
    after(&t[0], &t[3]);
    after(&t[1], &t[3]);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(t[4].began_at, 0);
    cr_assert_geq(t[0].began_at, 1);
    cr_assert_geq(t[1].began_at, 1);
    cr_assert_geq(t[2].began_at, 3);
    cr_assert_geq(t[3].began_at, 3);
    cr_assert_eq(s.n_completed_tasks, N);
}

/* As in the document: the handler of COMPLETED decides, and the task says that it is over by its
 * event. */
static void begin(ucc_coll_task_t *task) {
    on_completed(task);
    task->state = UCC_TASK_STATE_INPROGRESS;
}

static void complete_by_event(counted_t *self) {
    cr_assert_eq(ucc_event_manager_notify(&self->super.em, UCC_EVENT_COMPLETED), UCC_OK);
    self->super.state = UCC_TASK_STATE_COMPLETED;
}

Test(schedule, tasks_written_as_in_the_document_run_one_after_the_other) {
    enum { N = 6 };
    ucc_schedule_t s;
    counted_t t[N];
    ucc_schedule_init(&s);
    for (int i = 0; i < N; i++) {
        prepare(&t[i], 0);
        t[i].super.handlers[UCC_EVENT_COMPLETED] = begin;
        t[i].act = complete_by_event;
        if (i > 0) {
            after(&t[i - 1], &t[i]);
        }
        ucc_schedule_add_task(&s, &t[i].super);
    }
    cr_assert_eq(run(&s), UCC_OK);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(t[i].seen, 1);
        cr_assert_eq(t[i].heard[UCC_EVENT_COMPLETED], i > 0);
    }
}

Test(schedule, it_runs_again_and_all_tasks_with_it) {
    ucc_schedule_t s;
    counted_t a, b;
    ucc_schedule_init(&s);
    prepare(&a, 2);
    prepare(&b, 1);
    after(&a, &b);
    ucc_schedule_add_task(&s, &a.super);
    ucc_schedule_add_task(&s, &b.super);
    for (int i = 1; i <= 3; i++) {
        a.seen = b.seen = 0;
        cr_assert_eq(run(&s), UCC_OK);
        cr_assert_eq(a.seen, 2);
        cr_assert_eq(b.seen, 1);
    }
}

static void start_own(counted_t *self) {
    n_errors = 0;
    cr_assert_eq(ucc_schedule_start(self->arg), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 1);
    cr_assert_eq(ucc_schedule_progress(self->arg), UCC_INPROGRESS);
    heddle_coll_task_end(&self->super, UCC_OK);
}

Test(schedule, a_task_can_neither_start_nor_drive_the_schedule_that_runs_it) {
    ucc_schedule_t s;
    counted_t t;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    t.act = start_own;
    t.arg = &s;
    ucc_schedule_add_task(&s, &t.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(t.seen, 1);
}

static int restarts;

static void start_again(ucc_coll_task_t *task) {
    on_completed(task);
    if (restarts-- > 0) {
        cr_assert_eq(ucc_schedule_start(self_of(task)->arg), UCC_OK);
    }
}

Test(schedule, a_listener_to_its_end_starts_it_again) {
    ucc_schedule_t s;
    counted_t t, ear;
    ucc_schedule_init(&s);
    prepare(&t, 1);
    prepare_ear(&ear);
    ear.super.handlers[UCC_EVENT_COMPLETED] = start_again;
    ear.arg = &s;
    restarts = 3;
    ucc_schedule_add_task(&s, &t.super);
    ucc_event_manager_subscribe(&s.super.em, UCC_EVENT_COMPLETED, &ear.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(ear.heard[UCC_EVENT_COMPLETED], 4);
    cr_assert_eq(t.seen, 4);
}

static void end_twice(counted_t *self) {
    cr_assert_eq(heddle_coll_task_end(&self->super, UCC_OK), UCC_OK);
    n_errors = 0;
    cr_assert_eq(heddle_coll_task_end(&self->super, UCC_OK), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_event_manager_notify(&self->super.em, UCC_EVENT_COMPLETED),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 2);
}

Test(schedule, a_task_completes_once) {
    ucc_schedule_t s;
    counted_t t, ear, slow;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    prepare(&slow, 5);
    prepare_ear(&ear);
    t.act = end_twice;
    ucc_event_manager_subscribe(&t.super.em, UCC_EVENT_COMPLETED, &ear.super);
    ucc_schedule_add_task(&s, &t.super);
    ucc_schedule_add_task(&s, &slow.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(ear.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(s.n_completed_tasks, 2);
}

static void lie(counted_t *self) {
    self->super.state = UCC_TASK_STATE_COMPLETED;
}

Test(schedule, a_state_that_was_only_written_fails_instead_of_never_ending) {
    ucc_schedule_t s;
    counted_t t;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    t.act = lie;
    ucc_schedule_add_task(&s, &t.super);
    n_errors = 0;
    cr_assert_eq(run(&s), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 1);
}

Test(schedule, a_failure_cancels_what_has_not_begun_and_is_the_result) {
    ucc_schedule_t s;
    counted_t bad, waits, ear;
    ucc_schedule_init(&s);
    prepare(&bad, 2);
    bad.ends_with = UCC_ERR_IO_ERROR;
    prepare(&waits, 1);
    after(&bad, &waits);
    prepare_ear(&ear);
    ucc_event_manager_subscribe(&bad.super.em, UCC_EVENT_CANCELED, &ear.super);
    ucc_event_manager_subscribe(&s.super.em, UCC_EVENT_CANCELED, &ear.super);
    ucc_event_manager_subscribe(&s.super.em, UCC_EVENT_COMPLETED, &ear.super);
    ucc_schedule_add_task(&s, &bad.super);
    ucc_schedule_add_task(&s, &waits.super);
    cr_assert_eq(run(&s), UCC_ERR_IO_ERROR);
    cr_assert_eq(waits.seen, 0);
    cr_assert_eq(waits.super.status, UCC_ERR_IO_ERROR);
    cr_assert_eq(ear.heard[UCC_EVENT_CANCELED], 2);
    cr_assert_eq(ear.heard[UCC_EVENT_COMPLETED], 0);
    bad.ends_with = UCC_OK; /* it may run again all the same */
    cr_assert_eq(run(&s), UCC_OK);
}

static void cancel_own(counted_t *self) {
    cr_assert_eq(heddle_schedule_cancel(self->arg), UCC_OK);
}

Test(schedule, a_task_cancels_its_own_schedule) {
    ucc_schedule_t s;
    counted_t t, waits;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    t.act = cancel_own;
    t.arg = &s;
    prepare(&waits, 1);
    after(&t, &waits);
    ucc_schedule_add_task(&s, &t.super);
    ucc_schedule_add_task(&s, &waits.super);
    cr_assert_eq(run(&s), HEDDLE_ERR_CANCELED);
    cr_assert_eq(heddle_schedule_cancel(&s), UCC_ERR_INVALID_PARAM);
}

/* Needs two more rounds after it was canceled. */
static void wind_down(counted_t *self) {
    if (self->heard[UCC_EVENT_CANCELED] && self->heard[UCC_EVENT_CANCELED]++ == 3) {
        heddle_coll_task_end(&self->super, HEDDLE_ERR_CANCELED);
    }
}

Test(schedule, a_task_that_hears_of_canceling_ends_when_it_says_so) {
    ucc_schedule_t s;
    counted_t t, other;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    prepare(&other, 0);
    t.act = wind_down;
    t.super.handlers[UCC_EVENT_CANCELED] = on_canceled;
    ucc_schedule_add_task(&s, &t.super);
    ucc_schedule_add_task(&s, &other.super);
    ucc_schedule_start(&s);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
    cr_assert_eq(heddle_schedule_cancel(&s), UCC_OK);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
    cr_assert_eq(other.super.state, UCC_TASK_STATE_COMPLETED);
    ucc_status_t status;
    while ((status = ucc_schedule_progress(&s)) == UCC_INPROGRESS) {
    }
    cr_assert_eq(status, HEDDLE_ERR_CANCELED);
    cr_assert_eq(t.heard[UCC_EVENT_CANCELED], 4);
}

Test(schedule, one_inside_another_is_a_task_of_it) {
    ucc_schedule_t outer, inner;
    counted_t first, last, a, b;
    ucc_schedule_init(&outer);
    ucc_schedule_init(&inner);
    prepare(&first, 2);
    prepare(&last, 1);
    prepare(&a, 1);
    prepare(&b, 2);
    after(&a, &b);
    after(&first, &b); /* heard before the inner one has begun */
    ended = 0;
    ucc_schedule_add_task(&inner, &a.super);
    ucc_schedule_add_task(&inner, &b.super);
    ucc_schedule_add_task(&outer, &first.super);
    ucc_schedule_add_task(&outer, &inner.super);
    ucc_schedule_add_task(&outer, &last.super);
    ucc_event_manager_subscribe(&first.super.em, UCC_EVENT_COMPLETED, &inner.super);
    ucc_event_manager_subscribe(&inner.super.em, UCC_EVENT_COMPLETED, &last.super);
    for (int i = 0; i < 2; i++) {
        ended = first.seen = last.seen = a.seen = b.seen = 0;
        cr_assert_eq(run(&outer), UCC_OK);
        cr_assert_eq(a.began_at, 1);
        cr_assert_eq(b.began_at, 2);
        cr_assert_eq(last.began_at, 3);
    }
    cr_assert_eq(ucc_schedule_start(&inner), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&inner, &outer.super), UCC_ERR_INVALID_PARAM);
}

Test(schedule, canceling_reaches_the_inner_ones) {
    ucc_schedule_t outer, inner;
    counted_t a;
    ucc_schedule_init(&outer);
    ucc_schedule_init(&inner);
    prepare(&a, 0);
    ucc_schedule_add_task(&inner, &a.super);
    ucc_schedule_add_task(&outer, &inner.super);
    ucc_schedule_start(&outer);
    cr_assert_eq(ucc_schedule_progress(&outer), UCC_INPROGRESS);
    heddle_schedule_cancel(&outer);
    cr_assert_eq(ucc_schedule_progress(&outer), HEDDLE_ERR_CANCELED);
    cr_assert_eq(a.super.status, HEDDLE_ERR_CANCELED);
    cr_assert_eq(inner.super.status, HEDDLE_ERR_CANCELED);
}

static void destroy_self(counted_t *self) {
    cr_assert_eq(heddle_coll_task_destroy(&self->super), UCC_OK);
    memset(self, 0xA5, sizeof(*self));
    free(self);
}

Test(schedule, a_task_destroys_itself_and_the_schedule_goes_on_without_it) {
    ucc_schedule_t s;
    counted_t *gone = malloc(sizeof(*gone)), stays;
    ucc_schedule_init(&s);
    prepare(gone, 0);
    gone->act = destroy_self;
    prepare(&stays, 3);
    ucc_schedule_add_task(&s, &gone->super);
    ucc_schedule_add_task(&s, &stays.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(s.n_completed_tasks, 1);
}

static void destroy_arg(ucc_coll_task_t *task) {
    counted_t *other = self_of(task)->arg;
    on_completed(task);
    heddle_coll_task_destroy(&other->super);
    memset(other, 0xA5, sizeof(*other));
    free(other);
}

Test(schedule, a_listener_destroys_the_task_whose_end_it_hears_of) {
    ucc_schedule_t s;
    counted_t *gone = malloc(sizeof(*gone)), next, last;
    ucc_schedule_init(&s);
    prepare(gone, 1);
    prepare(&next, 1);
    prepare(&last, 1);
    next.super.handlers[UCC_EVENT_COMPLETED] = destroy_arg;
    next.arg = gone;
    after(gone, &next);
    after(gone,
          &last); /* is not told any more, and waits for it: a subscription without an event */
    heddle_event_manager_unsubscribe(&gone->super.em, UCC_EVENT_COMPLETED, &last.super);
    ucc_schedule_add_task(&s, &gone->super);
    ucc_schedule_add_task(&s, &next.super);
    ucc_schedule_add_task(&s, &last.super);
    ucc_schedule_start(&s);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
    cr_assert_eq(next.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(heddle_coll_task_end(&next.super, UCC_OK), UCC_OK); /* from outside of handlers */
    cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS, "its turn has not come");
    heddle_schedule_cancel(&s);
    cr_assert_eq(ucc_schedule_progress(&s), HEDDLE_ERR_CANCELED);
}

static void add_another(counted_t *self) {
    cr_assert_eq(ucc_schedule_add_task(self->arg, &((counted_t *)self)[1].super), UCC_OK);
    heddle_coll_task_end(&self->super, UCC_OK);
}

Test(schedule, handlers_add_tasks) {
    ucc_schedule_t s;
    counted_t t[2];
    ucc_schedule_init(&s);
    prepare(&t[0], 0);
    prepare(&t[1], 2);
    t[0].act = add_another;
    t[0].arg = &s;
    ucc_schedule_add_task(&s, &t[0].super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(t[1].seen, 2);
}

Test(schedule, one_that_runs_can_not_be_destroyed) {
    ucc_schedule_t s;
    counted_t t;
    ucc_schedule_init(&s);
    prepare(&t, 1);
    ucc_schedule_add_task(&s, &t.super);
    ucc_schedule_start(&s);
    cr_assert_eq(heddle_schedule_destroy(&s), UCC_ERR_INVALID_PARAM);
    while (ucc_schedule_progress(&s) == UCC_INPROGRESS) {
    }
    cr_assert_eq(heddle_schedule_destroy(&s), UCC_OK);
    ucc_schedule_init(&s);
    cr_assert_eq(ucc_schedule_add_task(&s, &t.super), UCC_OK, "the task is free again");
}

Test(schedule, a_task_is_in_one_schedule) {
    ucc_schedule_t s, other;
    counted_t t;
    ucc_schedule_init(&s);
    ucc_schedule_init(&other);
    prepare(&t, 1);
    cr_assert_eq(ucc_schedule_add_task(&s, &t.super), UCC_OK);
    cr_assert_eq(ucc_schedule_add_task(&other, &t.super), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&s, &s.super), UCC_ERR_INVALID_PARAM);
}

static void raise_fragments(counted_t *self) {
    if (self->seen <= 3) {
        ucc_event_manager_notify(&self->super.em, UCC_EVENT_FRAGMENT_COMPLETED);
    } else {
        heddle_coll_task_end(&self->super, UCC_OK);
    }
}

Test(schedule, fragments_are_heard_before_their_task_is_over) {
    ucc_schedule_t s;
    counted_t t, ear;
    ucc_schedule_init(&s);
    prepare(&t, 0);
    t.act = raise_fragments;
    prepare_ear(&ear);
    ucc_event_manager_subscribe(&t.super.em, UCC_EVENT_FRAGMENT_COMPLETED, &ear.super);
    ucc_schedule_add_task(&s, &t.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(ear.heard[UCC_EVENT_FRAGMENT_COMPLETED], 3);
}

Test(schedule, a_failure_is_heard_by_who_waits_in_another_schedule) {
    ucc_schedule_t s, other;
    counted_t bad, waits;
    ucc_schedule_init(&s);
    ucc_schedule_init(&other);
    prepare(&bad, 1);
    bad.ends_with = UCC_ERR_IO_ERROR;
    prepare(&waits, 1);
    after(&bad, &waits);
    ucc_schedule_add_task(&s, &bad.super);
    ucc_schedule_add_task(&other, &waits.super);
    ucc_schedule_start(&other);
    cr_assert_eq(ucc_schedule_progress(&other), UCC_INPROGRESS);
    cr_assert_eq(run(&s), UCC_ERR_IO_ERROR);
    cr_assert_eq(ucc_schedule_progress(&other), UCC_ERR_IO_ERROR);
}

Test(schedule, who_waits_in_another_schedule_is_told_in_that_ones_next_round) {
    ucc_schedule_t s, other;
    counted_t a, b;
    ucc_schedule_init(&s);
    ucc_schedule_init(&other);
    prepare(&a, 1);
    prepare(&b, 1);
    after(&a, &b);
    ucc_schedule_add_task(&s, &a.super);
    ucc_schedule_add_task(&other, &b.super);
    cr_assert_eq(run(&s), UCC_OK); /* before the other has begun */
    cr_assert_eq(run(&other), UCC_OK);
    ucc_schedule_start(&other);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(ucc_schedule_progress(&other), UCC_INPROGRESS);
    }
    cr_assert_eq(run(&s), UCC_OK);
    while (ucc_schedule_progress(&other) == UCC_INPROGRESS) {
    }
    cr_assert_eq(b.super.status, UCC_OK);
}

static void *end_from_outside(void *arg) {
    counted_t *t = arg;
    ucc_event_manager_notify(&t[0].super.em, UCC_EVENT_FRAGMENT_COMPLETED);
    cr_assert_eq(heddle_coll_task_end(&t[1].super, UCC_OK), UCC_OK); /* early: it waits for [0] */
    cr_assert_eq(ucc_event_manager_notify(&t[0].super.em, UCC_EVENT_COMPLETED), UCC_OK);
    return NULL;
}

Test(schedule, other_threads_end_tasks) {
    ucc_schedule_t s;
    counted_t t[2], ear;
    pthread_t thread;
    ucc_status_t status;
    ucc_schedule_init(&s);
    prepare(&t[0], 0);
    prepare(&t[1], 0);
    prepare_ear(&ear);
    after(&t[0], &t[1]);
    ucc_event_manager_subscribe(&t[0].super.em, UCC_EVENT_FRAGMENT_COMPLETED, &ear.super);
    ucc_schedule_add_task(&s, &t[0].super);
    ucc_schedule_add_task(&s, &t[1].super);
    cr_assert_eq(heddle_coll_task_end(&t[0].super, UCC_OK), UCC_ERR_INVALID_PARAM, "not running");
    ucc_schedule_start(&s);
    pthread_create(&thread, NULL, end_from_outside, t);
    while ((status = ucc_schedule_progress(&s)) == UCC_INPROGRESS) {
    }
    pthread_join(thread, NULL);
    cr_assert_eq(status, UCC_OK);
    cr_assert_eq(ear.heard[UCC_EVENT_FRAGMENT_COMPLETED], 1);
}

static void unsubscribe_other(counted_t *self) {
    counted_t **other = self->arg; /* the one that has completed, and the one that waits for both */
    if (self->seen == 2) {
        cr_assert_eq(heddle_event_manager_unsubscribe(&other[0]->super.em, UCC_EVENT_COMPLETED,
                                                      &other[1]->super),
                     UCC_OK);
    } else if (self->seen == 5) {
        cr_assert_eq(other[1]->seen, 0, "this one has not completed");
        ended++;
        heddle_coll_task_end(&self->super, UCC_OK);
    }
}

Test(schedule, who_unsubscribes_from_one_that_has_completed_waits_for_the_others) {
    ucc_schedule_t s;
    counted_t first, second, last, *other[2] = {&first, &last};
    ucc_schedule_init(&s);
    prepare(&first, 1);
    prepare(&second, 0);
    prepare(&last, 1);
    second.act = unsubscribe_other;
    second.arg = other;
    after(&first, &last);
    after(&second, &last);
    ucc_schedule_add_task(&s, &first.super);
    ucc_schedule_add_task(&s, &second.super);
    ucc_schedule_add_task(&s, &last.super);
    cr_assert_eq(run(&s), UCC_OK);
    cr_assert_eq(last.began_at, 2);
}

Test(schedule, who_completes_twice_is_waited_for_once) {
    ucc_schedule_t s;
    ucc_event_manager_t em[2];
    counted_t t;
    ucc_schedule_init(&s);
    prepare(&t, 1);
    for (int i = 0; i < 2; i++) {
        ucc_event_manager_init(&em[i]);
        ucc_event_manager_subscribe(&em[i], UCC_EVENT_COMPLETED, &t.super);
    }
    ucc_schedule_add_task(&s, &t.super);
    for (int round = 0; round < 3; round++) {
        t.seen = 0;
        ucc_schedule_start(&s);
        for (int i = 0; i < 3; i++) {
            ucc_event_manager_notify(&em[0], UCC_EVENT_COMPLETED);
            cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
        }
        cr_assert_eq(t.seen, 0, "the other one has not completed");
        ucc_event_manager_notify(&em[1], UCC_EVENT_COMPLETED);
        cr_assert_eq(ucc_schedule_progress(&s), UCC_OK);
        cr_assert_eq(t.seen, 1);
    }
}

static void destroy_in_place(ucc_coll_task_t *task) {
    counted_t *self = self_of(task);
    cr_assert_eq(heddle_coll_task_destroy(self->arg), UCC_OK);
}

Test(schedule, who_was_destroyed_is_not_waited_for) {
    ucc_schedule_t s;
    counted_t first, last, ear;
    ucc_schedule_init(&s);
    prepare(&first, 1);
    prepare(&last, 1);
    prepare_ear(&ear);
    ear.super.handlers[UCC_EVENT_COMPLETED] = destroy_in_place;
    ear.arg = &first.super;
    after(&first, &last);
    after(&first, &ear);
    ucc_schedule_add_task(&s, &first.super);
    ucc_schedule_add_task(&s, &last.super);
    cr_assert_eq(run(&s), UCC_OK);
    last.seen = 0;
    ucc_schedule_start(&s);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_OK);
    cr_assert_eq(last.seen, 1);
}

Test(schedule, at_the_end_of_everything_listeners_are_not_touched_any_more) {
    ucc_schedule_t s;
    ucc_event_manager_t em;
    counted_t first, last, gone;
    ucc_schedule_init(&s);
    ucc_event_manager_init(&em);
    prepare(&first, 1);
    prepare(&last, 1);
    after(&first, &last);
    ucc_event_manager_subscribe(&em, UCC_EVENT_COMPLETED, &last.super);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    ucc_schedule_add_task(&s, &first.super);
    ucc_schedule_add_task(&s, &last.super);
    ucc_schedule_start(&s);
    ucc_event_manager_notify(&em, UCC_EVENT_COMPLETED);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_OK);
    heddle_schedule_destroy(&s);
    heddle_coll_task_destroy(&last.super);
    memset(&last, 0xA5, sizeof(last)); /* as if it were freed, and used for something else */
    memcpy(&gone, &last, sizeof(last));
    heddle_coll_task_destroy(&first.super);
    heddle_event_manager_destroy(&em);
    cr_assert_arr_eq((char *)&last, (char *)&gone, sizeof(last));
}

static void hear_once(ucc_coll_task_t *task) {
    counted_t *self = self_of(task);
    on_completed(task);
    heddle_event_manager_unsubscribe(self->arg, UCC_EVENT_COMPLETED, task);
}

Test(schedule, a_handler_that_unsubscribes_says_itself_when_its_task_begins) {
    ucc_schedule_t s;
    counted_t first, last;
    ucc_schedule_init(&s);
    prepare(&first, 1);
    prepare(&last, 1);
    last.super.handlers[UCC_EVENT_COMPLETED] = hear_once;
    last.arg = &first.super.em;
    after(&first, &last);
    ucc_schedule_add_task(&s, &first.super);
    ucc_schedule_add_task(&s, &last.super);
    ucc_schedule_start(&s);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
    }
    cr_assert_eq(last.heard[UCC_EVENT_COMPLETED], 1);
    cr_assert_eq(last.seen, 0);
    last.super.state = UCC_TASK_STATE_INPROGRESS;
    cr_assert_eq(ucc_schedule_progress(&s), UCC_OK);
}

static void *destroy_from_outside(void *task) {
    cr_assert_eq(heddle_coll_task_destroy(task), UCC_ERR_INVALID_PARAM);
    return NULL;
}

Test(schedule, what_runs_is_not_destroyed_as_a_task_or_by_another_thread) {
    ucc_schedule_t s, inner;
    counted_t t;
    pthread_t thread;
    ucc_schedule_init(&s);
    ucc_schedule_init(&inner);
    prepare(&t, 50);
    ucc_schedule_add_task(&inner, &t.super);
    ucc_schedule_add_task(&s, &inner.super);
    ucc_schedule_start(&s);
    cr_assert_eq(ucc_schedule_progress(&s), UCC_INPROGRESS);
    n_errors = 0;
    cr_assert_eq(heddle_coll_task_destroy(&s.super), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_coll_task_destroy(&inner.super), UCC_ERR_INVALID_PARAM);
    pthread_create(&thread, NULL, destroy_from_outside, &t.super);
    pthread_join(thread, NULL);
    cr_assert_eq(n_errors, 3);
    while (ucc_schedule_progress(&s) == UCC_INPROGRESS) {
    }
    cr_assert_eq(t.seen, 50);
    cr_assert_eq(heddle_coll_task_destroy(&inner.super), UCC_OK);
}

Test(schedule, zeros_and_what_has_moved_are_named) {
    ucc_schedule_t s, no_schedule, moved_schedule;
    ucc_event_manager_t no_manager, moved_manager;
    counted_t t, no_task, moved_task;
    ucc_schedule_init(&s);
    prepare(&t, 1);
    memset(&no_schedule, 0, sizeof(no_schedule));
    memset(&no_manager, 0, sizeof(no_manager));
    memset(&no_task, 0, sizeof(no_task));
    memcpy(&moved_schedule, &s, sizeof(s));
    memcpy(&moved_task, &t, sizeof(t));
    memcpy(&moved_manager, &t.super.em, sizeof(moved_manager));
    n_errors = 0;
    cr_assert_eq(ucc_event_manager_subscribe(&no_manager, UCC_EVENT_COMPLETED, &t.super),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_event_manager_notify(&moved_manager, UCC_EVENT_COMPLETED),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_event_manager_subscribe(&t.super.em, UCC_EVENT_COMPLETED, &no_task.super),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&s, &moved_task.super), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_coll_task_end(&no_task.super, UCC_OK), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&no_schedule, &t.super), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&moved_schedule, &t.super), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_start(&no_schedule), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 8);
}

Test(schedule, what_is_not_there_is_named) {
    ucc_schedule_t s;
    counted_t t;
    ucc_schedule_init(&s);
    prepare(&t, 1);
    n_errors = 0;
    cr_assert_eq(ucc_event_manager_init(NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_coll_task_init(NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_init(NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_schedule_add_task(&s, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_event_manager_subscribe(&s.super.em, UCC_EVENT_LAST, &t.super),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_event_manager_notify(&s.super.em, (ucc_event_t)99), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_coll_task_end(&t.super, UCC_INPROGRESS), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_schedule_attach(&s, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 8);
}
