/* plan.c: how a call runs: the one place where an operation's plan is made and followed. request.c
 * asks at the end of a preparation, when the call's route is known. If not all endpoints have
 * joined by then, the first post decides; and each post of a v type that crosses processes decides
 * anew, by its counts.
 *
 * hd_plan_of is a pure function of what the operation has been told, and asks one function of each
 * wing. Whoever wants to know how a call runs, or would run, asks it, or looks at op->plan.
 */
#include "device/device.h"
#include "request/internal.h"
#include "span/span.h"

static bool crosses(const hd_op_t *op) {
    return op->span && op->span->processes > 1;
}

hd_plan_t hd_plan_of(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    hd_plan_t plan = crosses(op) ? hd_span_plan(op, r->route == HD_ROUTE_NUMBER)
                                 : hd_plan_here(op->group, &op->call, &op->place);
    if (__builtin_expect(op->call.device, 0)) {
        hd_device_plan(op, &plan);
    }
    return plan;
}

/* Makes the plan, and sets all that carries the operation out by it. */
static ucc_status_t follow(hd_request_t *r) {
    hd_op_t *op = &r->op;
    ucc_status_t status = UCC_OK;
    op->plan = hd_plan_of(r);
    if (crosses(op)) {
        status = hd_span_follow(op);
    } else {
        op->outer = NULL;
        op->start = hd_plan_start(op);
    }
    if (__builtin_expect(op->call.device, 0)) {
        hd_device_follow(op);
    }
    return status;
}

/* --- at the first post, if not all had joined at init ----------------------------------------- */

ucc_status_t hd_request_start_late(hd_op_t *op) {
    ucc_status_t status = follow((hd_request_t *)op);
    return status == UCC_OK ? op->start(op) : status;
}

/* The `enter` of an operation on devices: its own frame takes the place of this one. */
static ucc_status_t enter_late(hd_op_t *op) {
    ucc_status_t status = follow((hd_request_t *)op);
    return status == UCC_OK ? op->frame->enter(op) : status;
}

static const hd_frame_t late = {.enter = enter_late, .drop = hd_device_drop};

/* Nothing that decides may be looked at yet: it is being worked out when the last endpoint joins.
 */
static void decide_late(hd_op_t *op) {
    op->plan = (hd_plan_t){.path = HD_PATH_NOTHING};
    op->start = hd_request_start_late;
    op->outer = crosses(op) ? &hd_flight_stage : NULL;
    if (op->call.device) {
        op->frame = &late;
    }
}

/* --- at init, and at posts -------------------------------------------------------------------- */

void hd_request_replan(hd_op_t *op) {
    if (crosses(op) && op->start != hd_request_start_late) {
        (void)follow((hd_request_t *)op); /* v types are no swaps, which alone may lack memory */
    }
}

ucc_status_t hd_request_decide(hd_request_t *r) {
    hd_op_t *op = &r->op;
    ucc_status_t status = UCC_OK;
    r->express = NULL;
    if (op->start && hd_group_is_complete(op->group)) {
        status = follow(r);
        hd_request_plan_express(r);
    } else if (op->start) {
        decide_late(op);
    }
    return status;
}
