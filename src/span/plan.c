/* plan.c: which way a call crosses processes: by a swap, or by a flight. request/plan.c asks when it
 * makes the operation's plan, and lets the operation follow that. How a flight is cut stands in
 * flight_plan.c, what suits a swap in swap.c, how a leg runs in net/plan.c.
 */
#include "span/internal.h"

hd_plan_t hd_span_plan(const hd_op_t *op, bool numbered) {
    hd_plan_t plan = hd_flight_plan(op, hd_flight_row(op->call.type));
    if (numbered && hd_swap_is(op)) {
        hd_swap_plan(op, &plan);
    }
    return plan;
}

bool hd_span_follow(hd_op_t *op) {
    if (op->plan.network == HD_NETWORK_SWAP) {
        return hd_swap_follow(op);
    }
    hd_flight_follow(op);
    return true;
}
