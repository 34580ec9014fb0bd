/* swap.h: what crosses processes in a swap (swap_parts.c), for swap.c.
 *
 * A member's CONTRIBUTION is what it would publish inside one process: its operand, its block, or
 * all the blocks that it sends; nobody's but the root's where data comes from a root. A process's
 * PARTS are made of the contributions of its members; its RESULTS of the other processes' parts,
 * and of those contributions. All of these are at most hd_net_swap_most bytes, but for the results,
 * which are at most as much for each process.
 */
#ifndef HD_SPAN_SWAP_H
#define HD_SPAN_SWAP_H

#include "span/span.h"

enum { HD_SWAP_MEMBERS = 64 }; /* most endpoints of one process */

/* One exchange, of this process. */
typedef struct hd_swap {
    hd_net_team_t *team;
    const hd_span_t *span;
    const hd_call_t *call;
    hd_net_swap_t *net;      /* the net's */
    const void *const *data; /* by member: its contribution; NULL where it has none */
} hd_swap_t;

/* Are all of these at most so large? The same in all processes. */
bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most);
/* A member's contribution, and its size. */
const void *hd_swap_source(const hd_call_t *call);
size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call);
/* Does a member wait for what the exchange brings? */
bool hd_swap_waits(const hd_call_t *call);
/* What this process does in exchange k. */
void hd_swap_set(hd_net_swap_t *net, const hd_span_t *span, const hd_call_t *call, uint64_t k);
/* This process's parts, from the contributions; or from a partial result. */
ucc_status_t hd_swap_write(const hd_swap_t *swap);
void hd_swap_write_partial(const hd_swap_t *swap, const void *partial);
/* All parts are there that are needed. A process whose part is of another call; span->processes:
 * none. */
uint32_t hd_swap_odd(const hd_swap_t *swap);
/* All results. reducer: of all operands. Of a process of one member, they are what that member
 * receives. */
void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results);
/* Of a collective from a root: the process that data comes from, and how many bytes this one gets
 * from another. */
size_t hd_swap_comes(const hd_span_t *span, const hd_call_t *call, uint32_t *process);
/* Where in the results those of a local member begin, and their size. */
size_t hd_swap_takes(const hd_span_t *span, const hd_call_t *call, uint32_t member, size_t *bytes);

#endif
