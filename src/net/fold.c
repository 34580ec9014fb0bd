/* fold.c: what the reductions have in common.
 *
 * Combining operands of several processes is the starter's (call.combine): all that are there in
 * one call, in the order of core/reduce.h, so the same bits whatever the algorithm.
 *
 * Collecting: every rank has a block of the elements, whose operands all others send to it. That
 * evaluates the same tree with the fewest bytes there can be; a ring of partial results would not.
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

/* --- several operands of a rank: its places lie together, without gaps ------------------------ */

static uint32_t first_of(const hd_net_call_t *call, uint32_t rank) {
    return call->several ? call->several->first[rank] : rank;
}

static uint32_t count_of(const hd_net_call_t *call, uint32_t rank) {
    return call->several ? first_of(call, rank + 1) - first_of(call, rank) : 1;
}

static uint32_t order_of(const hd_net_call_t *call, uint32_t i) {
    return call->several ? call->several->place[i] : i;
}

uint32_t hd_net_operands_in_all(const hd_net_call_t *call) {
    return call->several ? call->several->n : call->n;
}

static size_t own_pieces(const hd_net_call_t *call) {
    return call->several ? (size_t)call->n * count_of(call, call->me) : 0;
}

size_t hd_net_collected_bytes(const hd_net_call_t *call, size_t bytes) {
    uint32_t k = hd_net_operands_in_all(call);
    return hd_net_operands_bytes(k, k, bytes) + padded(own_pieces(call) * sizeof(hd_net_piece_t));
}

hd_operands_t hd_net_collected(const hd_leg_t *leg, size_t bytes) {
    return hd_net_operands(leg, 0, hd_net_operands_in_all(&leg->call), bytes);
}

void *hd_net_own_place(const hd_net_call_t *call, const hd_operands_t *o) {
    return hd_net_place(o, first_of(call, call->me));
}

/* A block, as it lies in my operand i. */
static void *in_operand(const hd_net_call_t *call, uint32_t i, hd_net_piece_t block) {
    if (!call->several || !block.bytes) {
        return block.at;
    }
    size_t offset = (size_t)((const char *)block.at - (const char *)call->operand);
    return (char *)(uintptr_t)call->several->mine[i] + call->several->at + offset;
}

static void send_block(hd_leg_t *leg, const hd_operands_t *o, uint32_t to, hd_net_piece_t block) {
    const hd_net_call_t *call = &leg->call;
    uint32_t mine = count_of(call, call->me);
    if (!call->several) {
        hd_leg_send_bytes(leg, 0, to, block.at, block.bytes);
        return;
    }
    char *pieces = hd_net_place(o, hd_net_operands_in_all(call));
    hd_net_piece_t *piece = (hd_net_piece_t *)(void *)pieces + (size_t)to * mine;
    for (uint32_t i = 0; i < mine; i++) {
        piece[i] = (hd_net_piece_t){in_operand(call, i, block), block.bytes};
    }
    hd_net_data_t data = {piece, mine, mine * block.bytes};
    hd_leg_send(leg, 0, to, &data);
}

bool hd_net_collect(hd_leg_t *leg, const hd_operands_t *o, hd_net_block_fn block, uint32_t window) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me;
    hd_net_piece_t mine = block(call, me);
    while (leg->round + 1 < n && leg->receiving < window && leg->under_way < 2 * window) {
        uint32_t i = ++leg->round, from = (me + n - i) % n, to = (me + i) % n;
        uint32_t first = first_of(call, from), count = count_of(call, from);
        hd_net_piece_t out = block(call, to);
        if (mine.bytes) {
            hd_leg_receive_bytes(leg, 0, from, hd_net_place(o, first), count * mine.bytes);
        }
        if (out.bytes) {
            send_block(leg, o, to, out);
        }
        for (uint32_t j = 0; j < count; j++) {
            o->pointer[order_of(call, first + j)] = (char *)hd_net_place(o, first) + j * mine.bytes;
        }
    }
    for (uint32_t j = 0; j < count_of(call, me); j++) {
        o->pointer[order_of(call, first_of(call, me) + j)] = in_operand(call, j, mine);
    }
    return leg->failure == UCC_OK && leg->round + 1 >= n && !leg->receiving;
}
