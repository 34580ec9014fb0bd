/* swap.h: what crosses processes in a swap, as bytes. swap_parts.c defines these functions, which
 * neither wait nor know of lanes and stages; only swap.c calls them.
 *
 * A member's CONTRIBUTION is what it would publish inside one process: its operand, its block, or
 * all the blocks that it sends. Where data comes from a root, only the root has one. A process's
 * PARTS are made of the contributions of its members; its RESULTS are made of the other processes'
 * parts and of those contributions. A contribution and a part are at most hd_net_swap_most bytes,
 * and the results at most as much for each process.
 */
#ifndef HD_SPAN_SWAP_H
#define HD_SPAN_SWAP_H

#include "span/span.h"

enum { HD_SWAP_MEMBERS = 64 }; /* most endpoints of one process in a swap */

/* A swap, as this process sees it. */
typedef struct hd_swap {
    hd_net_team_t *team;
    const hd_span_t *span;
    const hd_call_t *call;
    hd_net_swap_t *net; /* what the net knows of it; the net's memory */
    /* by member: its contribution, NULL where it has none; `data` is NULL until they are known */
    const void *const *data;
} hd_swap_t;

/* Are all contributions and parts of this call at most `most` bytes? All processes get the same
 * answer. */
bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most);
/* hd_swap_source returns a member's contribution, hd_swap_gives its size. */
const void *hd_swap_source(const hd_call_t *call);
size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call);
/* Does the member with this call wait for what the exchange brings? */
bool hd_swap_waits(const hd_call_t *call);
/* Fills in what this process does in exchange k. */
void hd_swap_set(hd_net_swap_t *net, const hd_span_t *span, const hd_call_t *call, uint64_t k);
/* hd_swap_write writes this process's parts, from the contributions, to where the net sends them
 * from; an error is that of a reduction among several members. hd_swap_write_partial writes a
 * partial result that has been combined already. */
ucc_status_t hd_swap_write(const hd_swap_t *swap);
void hd_swap_write_partial(const hd_swap_t *swap, const void *partial);
/* Called when all parts are there that are needed. Returns a process whose part belongs to another
 * call; span->processes: there is none. */
uint32_t hd_swap_odd(const hd_swap_t *swap);
/* Makes all results of this process. reducer: combines all operands of the team to a final result.
 * If the process has one member, the results are what that member receives. */
void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results);
/* For a collective from a root: sets *process to the root's process, and returns how many bytes its
 * part for this process has. */
size_t hd_swap_comes(const hd_span_t *span, const hd_call_t *call, uint32_t *process);
/* Returns where in the results those of a local member begin, and sets *bytes to their size. */
size_t hd_swap_takes(const hd_span_t *span, const hd_call_t *call, uint32_t member, size_t *bytes);

#endif
