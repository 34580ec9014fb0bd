/* filling.c: an operation among processes that has been posted, and is in no exchange yet
 * (HD_OP_EARLY). It has its number, and the others count on it; but it has published nothing,
 * because a device copies what it is going to send, or because its stream has not come to the post
 * (span.c, pipeline.c).
 */
#include "device/internal.h"

#include "span/span.h"

ucc_status_t hd_device_ready(hd_op_t *op) {
    hd_gpu_event_t *ready = hd_device_part_of(op)->order.ready;
    return op->team->devices->driver->event_query(ready, HD_GPU_SITE_HELD);
}

void hd_device_span_fail(hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_group_poison(op->group, why);
    hd_crossing_abort(crossing, why);
    (void)hd_net_pump(crossing->net);
    hd_span_drain();
}

void hd_device_fill_by(hd_op_t *op, ucc_status_t (*wait)(hd_op_t *op)) {
    op->state = HD_OP_EARLY;
    op->needs = HD_DEVICE_NEEDS;
    op->wait = wait;
    op->task.impatient = HD_UNANNOUNCED;
    hd_gpu_handed_over(hd_device_part_of(op));
}

static ucc_status_t wait_held(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    if (hd_group_poisoned(op->group) != UCC_OK) { /* the operation's step sees that, too */
        return UCC_INPROGRESS;
    }
    hd_gpu_taken_over(part);
    ucc_status_t status = hd_device_ready(op);
    return status == UCC_OK ? part->come(op) : status;
}

void hd_device_span_hold(hd_op_t *op, ucc_status_t (*come)(hd_op_t *op)) {
    hd_device_part_of(op)->come = come;
    hd_device_fill_by(op, wait_held);
}
