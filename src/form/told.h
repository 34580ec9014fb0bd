/* told.h: what this process answers who asks it (threads/asker.h) about its teams that share memory
 * with others of its machine. The thread that keeps watch over them calls it (kin.c), so a process
 * answers whatever its other threads do, unless it is stopped.
 */
#ifndef HD_FORM_TOLD_H
#define HD_FORM_TOLD_H

#include "form/kin.h"
#include "threads/asker.h"

enum { HD_TOLD_TEAMS = 64 }; /* most that are told */

/* A team, as its kin knows it; there during the answer. */
typedef struct hd_told_team {
    const hd_group_t *group;
    const hd_span_t *span;
    const hd_kin_process_t *process; /* by the span's numbers, as peer is */
    hd_node_peer_t *const *peer;     /* NULL: this process */
    bool of_node;                    /* it is one machine's part of a team */
    bool is_scope;                   /* it is none, but its processes know each other */
} hd_told_team_t;

void hd_told_answer(hd_askers_t *askers, hd_asker_t *asker, const hd_told_team_t *team, uint32_t n);

#endif
