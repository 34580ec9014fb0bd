/* fold.c: what the reductions have in common.
 *
 * Combining operands of several processes: blocks of 8 consecutive ones from left to right, then blocks of these, as
 * core/reduce.h has it: the same bits whatever the algorithm. The combination itself is the starter's (call.combine),
 * and may take several calls.
 *
 * Collecting: every rank has a block of the elements, whose operands all others send to it. That evaluates the same tree
 * with the fewest bytes there can be; a ring of partial results would not.
 */
#include "net/internal.h"

#include "core/reduce.h"

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

/* Where the result of a block that is not the last goes: over one of its operands, but not over the user's. */
static void *place(uint32_t k, const void *const *operand, const void *mine) {
    uint32_t i = 0;
    while (i + 1 < k && operand[i] == mine) {
        i++;
    }
    return (void *)(uintptr_t)operand[i];
}

ucc_status_t hd_net_fold(hd_leg_t *leg, const void **operand, uint32_t m, const void *mine,
                         void *dst, size_t first, size_t count, bool last) {
    if (leg->left == 0) {
        leg->left = m;
        leg->block = 0;
    }
    while (leg->left > HD_REDUCE_BLOCK) {
        uint32_t blocks = (leg->left + HD_REDUCE_BLOCK - 1) / HD_REDUCE_BLOCK;
        for (; leg->block < blocks; leg->block++) {
            const void **at = operand + leg->block * HD_REDUCE_BLOCK;
            uint32_t rest = leg->left - leg->block * HD_REDUCE_BLOCK;
            uint32_t k = rest < HD_REDUCE_BLOCK ? rest : HD_REDUCE_BLOCK;
            const void *result = at[0];
            if (k > 1) {
                void *to = place(k, at, mine);
                ucc_status_t status = leg->call.combine(leg, k, at, to, first, count, false);
                if (status != UCC_OK) {
                    return status;
                }
                result = to;
            }
            operand[leg->block] =
                result; /* operands of this block or an earlier one: they are used up */
        }
        leg->left = blocks;
        leg->block = 0;
    }
    ucc_status_t status = leg->call.combine(leg, leg->left, operand, dst, first, count, last);
    if (status != UCC_INPROGRESS) {
        leg->left = 0;
    }
    return status;
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
