/* fold.c: what the reductions have in common.
 *
 * Combining operands of several processes is the starter's (call.combine): all that are there in one call, in the order
 * of core/reduce.h, so the same bits whatever the algorithm.
 *
 * Collecting: every rank has a block of the elements, whose operands all others send to it. That evaluates the same tree
 * with the fewest bytes there can be; a ring of partial results would not.
 */
#include "net/internal.h"

static size_t padded(size_t bytes) {
    return (bytes + HD_LINE - 1) / HD_LINE * HD_LINE;
}

size_t hd_net_operands_bytes(uint32_t pointers, uint32_t places, size_t bytes) {
    return padded(pointers * sizeof(void *)) + places * padded(bytes);
}

hd_operands_t hd_net_operands(const hd_leg_t *leg, size_t at, uint32_t pointers, size_t bytes) {
    char *table = (char *)leg->call.scratch + at;
    return (hd_operands_t){(const void **)(void *)table, table + padded(pointers * sizeof(void *)),
                           padded(bytes)};
}

hd_net_piece_t hd_net_part_of_operand(const hd_net_call_t *call, uint32_t rank) {
    const char *operand = call->operand;
    return (hd_net_piece_t){(void *)(uintptr_t)(operand + hd_net_first(call, rank) * call->element),
                            hd_net_count(call, rank) * call->element};
}

bool hd_net_collect(hd_leg_t *leg, const hd_operands_t *o, hd_net_block_fn block, uint32_t window) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me;
    hd_net_piece_t mine = block(call, me);
    while (leg->round + 1 < n && leg->receiving < window && leg->under_way < 2 * window) {
        uint32_t i = ++leg->round, from = (me + n - i) % n, to = (me + i) % n;
        hd_net_piece_t out = block(call, to);
        if (mine.bytes) {
            hd_leg_receive_bytes(leg, 0, from, hd_net_place(o, from), mine.bytes);
        }
        if (out.bytes) {
            hd_leg_send_bytes(leg, 0, to, out.at, out.bytes);
        }
        o->pointer[from] = hd_net_place(o, from);
    }
    o->pointer[me] = mine.at;
    return leg->failure == UCC_OK && leg->round + 1 >= n && !leg->receiving;
}
