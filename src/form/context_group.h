/* context_group.h: what the contexts of one out-of-band exchange over several processes know, once per
 * process (context_group.c). */
#ifndef HD_FORM_CONTEXT_GROUP_H
#define HD_FORM_CONTEXT_GROUP_H

#include "form/roll.h"

/* Immutable, but for `refs` and `next`, which context_group.c guards. */
typedef struct hd_context_group {
    uint64_t serial;           /* context->peers.serial */
    hd_span_t *span;           /* of contexts, by rank */
    hd_net_t *net;             /* a reference; NULL: there is no network */
    hd_net_process_t *process; /* by the span's number; NULL: likewise */
    uint32_t refs, forks;      /* forks: a child's copy is not found by the child's contexts */
    struct hd_context_group *next;
} hd_context_group_t;

#endif
