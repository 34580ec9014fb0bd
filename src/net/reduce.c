/* reduce.c: everybody's operands are combined into the root's result. */
#include "net/internal.h"

static size_t bytes_of(const hd_net_call_t *call) {
    return call->count * call->element;
}

/* Everybody sends to the root, which combines all. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_operands_t o = hd_net_operands(leg, 0, call->n, bytes_of(call));
    bool is_root = call->me == call->root;
    if (leg->phase == 0) {
        leg->phase = 1;
        if (!is_root) {
            hd_leg_send_bytes(leg, 0, call->root, call->operand, bytes_of(call));
        }
        for (uint32_t r = 0; is_root && r < call->n; r++) {
            o.pointer[r] = call->operand;
            if (r != call->me) {
                o.pointer[r] = hd_net_place(&o, r);
                hd_leg_receive_bytes(leg, 0, r, hd_net_place(&o, r), bytes_of(call));
            }
        }
    }
    if (!is_root) {
        return UCC_OK;
    }
    if (leg->failure != UCC_OK || leg->receiving) {
        return UCC_INPROGRESS;
    }
    return hd_net_fold(leg, o.pointer, call->n, call->operand, call->result, 0, call->count, true);
}

ucc_status_t hd_net_reduce(hd_leg_t *leg) {
    return direct(leg);
}
