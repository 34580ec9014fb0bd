/* schedule_internal.h: between events.c, stage.c and schedule.c, of which each calls those
 * before it. */
#ifndef HD_THREADS_SCHEDULE_INTERNAL_H
#define HD_THREADS_SCHEDULE_INTERNAL_H

#include "threads/schedule.h"

/* --- events.c --------------------------------------------------------------------------------- */

/* On the stack of whoever is raising an event. */
struct hd_walk {
    hd_walk_t *next;
    bool gone; /* the manager has ended meanwhile; by the same thread */
};

bool hd_events_have(hd_events_t *events, hd_stage_event_t event);
/* Who is about to tell all that have subscribed so far: until the end of the walk, the list is
 * not closed up. Returns the serial number before which a listener has to have subscribed. */
uint32_t hd_events_begin_walk(hd_events_t *events, hd_walk_t *walk);
/* Under no lock: the next that hears of `event`, from *at on, which then lies behind it; NULL:
 * no more. *again: of COMPLETED not for the first time in its run. Stages of other schedules
 * that wait in vain for COMPLETED hear of CANCELED instead: *vain. */
hd_stage_t *hd_events_next_listener(hd_events_t *events, uint32_t *at, uint32_t before,
                                    hd_stage_event_t event, bool *again, bool *vain);
void hd_events_end_walk(hd_events_t *events, const hd_walk_t *walk);

/* --- stage.c: who is inside ------------------------------------------------------------------- */

/* Is the calling thread inside this schedule, which is part of no other? */
bool hd_schedule_is_callers(hd_schedule_t *root);
/* False: another thread is inside. */
bool hd_schedule_enter(hd_schedule_t *s);
void hd_schedule_leave(hd_schedule_t *s);
/* See stage.c. runner: the schedule's; NULL: nobody sleeps for it. */
void hd_schedule_wake(hd_runner_t *runner);
/* For messages. */
const char *hd_schedule_name(const hd_schedule_t *s);
/* The schedule that this stage is, or NULL. */
hd_schedule_t *hd_stage_inner(hd_stage_t *stage);

/* --- stage.c: stages -------------------------------------------------------------------------- */

/* Tells all who have subscribed so far. When it returns, the manager may be gone. */
void hd_events_tell(hd_events_t *events, hd_stage_event_t event);
void hd_stage_hold(hd_stage_t *stage, bool holds);
void hd_stage_unlink(hd_schedule_t *s, hd_stage_t *stage);
/* By a step, in which what has been told from outside is taken up. */
bool hd_stage_ends_itself(const hd_stage_t *stage);
/* False, and a line that names it `what`: it is at work, or another thread may be. */
bool hd_stage_may_destroy(hd_stage_t *stage, const char *what);
void hd_stage_end_for_good(hd_stage_t *stage);
/* A run begins. */
void hd_stage_reset(hd_stage_t *stage);
/* What it has met so far does not count any more: a run of it is over, or it begins anew. */
void hd_stage_forget_met(hd_stage_t *stage);
/* By whoever is inside: it is over, and all who listen are told. The stage may be gone when this
 * returns. */
void hd_stage_finish(hd_stage_t *stage, ucc_status_t status);
/* By whoever is inside, as hd_stage_end. */
ucc_status_t hd_stage_end_inside(hd_stage_t *stage, ucc_status_t status);
/* A busy one is to end so: its schedule need not wait with canceling the others. */
void hd_stage_note_failure(hd_stage_t *stage, ucc_status_t status);
/* By whoever is inside: calls the stage's handler. The stage may be gone when this returns. */
void hd_stage_hear(hd_stage_t *stage, hd_stage_event_t event, bool again);

#endif
