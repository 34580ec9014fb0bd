/* schedule_internal.h: between events.c and schedule.c. */
#ifndef HD_THREADS_SCHEDULE_INTERNAL_H
#define HD_THREADS_SCHEDULE_INTERNAL_H

#include "threads/schedule.h"

/* Tells all who have subscribed so far. When it returns, the manager may be gone. */
void hd_events_tell(hd_events_t *events, hd_stage_event_t event);
bool hd_events_have(hd_events_t *events, hd_stage_event_t event);
/* This stage hears of an event: now, if the caller is inside its schedule, or it is in none; else in its
 * schedule's next round. again: of COMPLETED of one that it has met already. */
void hd_stage_tell(hd_stage_t *stage, hd_stage_event_t event, bool again);
/* What this stage waits for will not come: it fails, unless it is over. */
void hd_stage_give_up(hd_stage_t *stage, ucc_status_t why);

#endif
