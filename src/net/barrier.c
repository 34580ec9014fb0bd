/* barrier.c: barrier, fanin and fanout: messages without bytes. */
#include "net/internal.h"

static void say(hd_leg_t *leg, uint32_t step, uint32_t to) {
    hd_leg_send_bytes(leg, step, to, NULL, 0);
}
static void hear(hd_leg_t *leg, uint32_t step, uint32_t from) {
    hd_leg_receive_bytes(leg, step, from, NULL, 0);
}

/* Everybody to everybody; or to the root, or from it. */
static void start_direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    bool is_root = call->me == call->root, barrier = call->type == HD_BARRIER;
    bool says = barrier || is_root == (call->type == HD_FANOUT);
    bool hears = barrier || is_root == (call->type == HD_FANIN);
    for (uint32_t r = 0; r < call->n; r++) {
        bool other = r != call->me && (barrier || is_root || r == call->root);
        if (other && hears) {
            hear(leg, 0, r);
        }
        if (other && says) {
            say(leg, 0, r);
        }
    }
}

ucc_status_t hd_net_barrier(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
