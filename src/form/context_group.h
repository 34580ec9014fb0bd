/* context_group.h: what a process knows of the contexts of one out-of-band exchange over several
 * processes. It is found out once, and shared by all contexts of that exchange in this process
 * (context_group.c). Only meet.c, besides, reads it.
 */
#ifndef HD_FORM_CONTEXT_GROUP_H
#define HD_FORM_CONTEXT_GROUP_H

#include "form/roll.h"

/* Nothing changes after it was made, but `refs` and `next`, which context_group.c guards. */
typedef struct hd_context_group {
    uint64_t serial; /* context->peers.serial */
    /* which contexts live in which process; contexts are numbered by rank */
    hd_span_t *span;
    hd_net_t *net;             /* a reference; NULL: there is no network */
    hd_net_process_t *process; /* by the span's numbers; NULL: there is no network */
    /* hd_forks() when made: the contexts of a forked child don't find a copy of their parent's */
    uint32_t refs, forks;
    struct hd_context_group *next;
} hd_context_group_t;

#endif
