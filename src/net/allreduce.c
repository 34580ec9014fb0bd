/* allreduce.c: everybody's operands are combined into everybody's result. */
#include "net/internal.h"

static size_t bytes_of(const hd_net_call_t *call) {
    return call->count * call->element;
}

/* The combination may go where my operand is, which must have been sent by then. */
static bool may_combine(const hd_leg_t *leg) {
    return !leg->receiving && (!leg->under_way || leg->call.operand != leg->call.result);
}

/* Everybody sends to everybody, and combines for itself. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_operands_t o = hd_net_operands(leg, 0, call->n, bytes_of(call));
    switch (leg->phase) {
    case 0:
        leg->phase = 1;
        for (uint32_t i = 1; i < call->n; i++) {
            uint32_t from = (call->me + call->n - i) % call->n;
            hd_leg_receive_bytes(leg, 0, from, hd_net_place(&o, from), bytes_of(call));
            hd_leg_send_bytes(leg, 0, (call->me + i) % call->n, call->operand, bytes_of(call));
        }
        for (uint32_t r = 0; r < call->n; r++) {
            o.pointer[r] = r == call->me ? call->operand : hd_net_place(&o, r);
        }
        /* fall through */
    default:
        if (leg->failure != UCC_OK || !may_combine(leg)) {
            return UCC_INPROGRESS;
        }
        return hd_net_fold(leg, o.pointer, call->n, call->operand, call->result, 0, call->count,
                           true);
    }
}

ucc_status_t hd_net_allreduce(hd_leg_t *leg) {
    return direct(leg);
}
