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
    bool forms;                      /* it is none yet: these processes have not come, as bits */
    uint64_t late[HD_FAR_MOST / 64];
} hd_told_team_t;

/* "process 1 (host node7, pid 4711), which is there": who it is, and in what state. who: NULL: it
 * has not come. */
void hd_told_say_process(hd_text_t *text, uint32_t number, const hd_who_t *who,
                         hd_node_state_t state);

void hd_told_answer(hd_askers_t *askers, hd_asker_t *asker, const hd_told_team_t *team, uint32_t n);

#endif
