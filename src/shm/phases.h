/* phases.h: how a call runs, from its beginning to its end, as a value that people are shown: by
 * the call log, the timeline and heddle_info. Nothing else prints a plan.
 *
 * Each wing lists its own phases, by the functions that it runs by: shm by the operation's plan
 * (plan.h), an outer stage by hd_outer_t.phases, devices by hd_device_phases. So what is printed is
 * what runs.
 */
#ifndef HD_SHM_PHASES_H
#define HD_SHM_PHASES_H

#include "shm/types.h"
#include "threads/stall.h"

typedef struct hd_phase {
    uint8_t kind;          /* hd_phase_kind_t */
    const char *algorithm; /* a constant */
    /* LOCAL: bytes of a unit, 0: not known; and by which stores results are written */
    size_t unit;
    const char *stores;
    /* NETWORK: what crosses (NULL: one message for each), among so many processes, by trees of this
       radix (0: none); and in how many segments of so many bytes */
    const char *type;
    uint32_t processes, radix, segments;
    size_t segment;
} hd_phase_t;

typedef struct hd_phases {
    uint32_t n; /* 0: nothing to do, or not decided yet */
    hd_phase_t phase[HD_PHASE_KINDS];
} hd_phases_t;

static inline void hd_phases_add(hd_phases_t *phases, hd_phase_t phase) {
    hd_assert(phases->n < HD_PHASE_KINDS);
    phases->phase[phases->n++] = phase;
}

/* Of a prepared operation: what this plan says, which is op->plan, or what that would be now; n is
 * 0 while the group is not complete. */
hd_phases_t hd_op_phases(const hd_op_t *op, const hd_plan_t *plan);
/* "inline, arrival flat", "lines tree, arrival static, allreduce among 2 processes by exchange/8",
 * ... */
void hd_phases_print(const hd_phases_t *phases, hd_text_t *text);
/* The same of op's plan, for the timeline; and tells it, by whoever knows only now how op runs. */
const char *hd_op_plan_to_trace(const hd_op_t *op);
void hd_op_trace_decided(const hd_op_t *op);

#endif
