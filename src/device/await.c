/* await.c: how all operations on devices, whoever enqueues their work, wait from "enqueued" until
 * they are complete, or have failed and their devices are done.
 */
#include "device/internal.h"

/* --- until it is complete -------------------------------------------------------------------- */

/* Returns whether all tickets are reached, and forgets those that are. If several threads progress
 * the context, another one may have seen what was reached before. */
static bool is_complete(hd_device_part_t *part) {
    hd_gpu_taken_over(part->wait);
    while (part->waits && hd_line_reached(&part->wait[part->waits - 1])) {
        part->waits--;
        hd_gpu_handed_over(part->wait);
    }
    return part->waits == 0;
}

static ucc_status_t complete(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert_eq(part->waits, 0);
    if (part->outcome == UCC_OK) { /* in a group that has failed, its memory may be gone */
        part->outcome = hd_group_poisoned(op->group);
    }
    if (part->outcome == UCC_OK) {
        hd_device_copy_out(op);
    }
    hd_device_put_stand_ins(op);
    hd_device_drop(op);
    hd_gpu_handed_over(op); /* to whichever thread sees that the request has ended */
    return part->outcome;
}

static void fail(hd_op_t *op, ucc_status_t why) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert(why != UCC_OK && part->drained_by == 0); /* an operation fails once */
    part->outcome = why;
    part->drained_by = hd_ticks() + hd_seconds_to_ticks(HD_DEVICE_DRAIN_SECONDS);
}

/* Ends an operation whose memory devices may use for ever. */
static ucc_status_t abandon(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_device_lose_stand_ins(part);
    part->relay = NULL;
    /* relaxed: read when all users are gone */
    atomic_store_explicit(&op->team->devices->abandoned, true, memory_order_relaxed);
    part->waits = 0;
    hd_device_drop(op);
    return part->outcome;
}

/* The device of a line that the operation waits for has failed. If it is lost, it does nothing any
 * more; of other failures nobody knows. */
static ucc_status_t lose(hd_op_t *op, hd_line_t *line) {
    hd_device_part_t *part = hd_device_part_of(op);
    struct hd_device_wait *last = &part->wait[part->waits - 1];
    if (last->line != line) { /* the line has come to the ticket after all */
        return UCC_INPROGRESS;
    }
    hd_op_refuse(op, UCC_ERR_IO_ERROR, "device %d has failed before it was complete",
                 line->stream.device);
    hd_group_poison(op->group, UCC_ERR_IO_ERROR);
    if (part->outcome == UCC_OK) {
        fail(op, UCC_ERR_IO_ERROR);
    }
    bool lost = op->team->devices->driver->lost(line->stream.device);
    if (lost && last->others) { /* the lost one would have told of their work */
        hd_devices_drain_others(op->team->devices, op->group, line);
    }
    if (last->others || !lost) {
        return abandon(op);
    }
    part->waits--;
    return is_complete(part) ? complete(op) : UCC_INPROGRESS;
}

/* Finds out whether anything else ends an operation that its devices let wait. */
static ucc_status_t look_closer(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert_lt(0, part->waits);
    hd_line_t *line = part->wait[part->waits - 1].line;
    if (hd_line_has_failed(op->team->devices, line) && !is_complete(part)) {
        return lose(op, line);
    }
    if (part->outcome == UCC_OK) {
        ucc_status_t status = hd_group_poisoned(op->group);
        if (status == UCC_OK && op->task.deadline && hd_ticks() > op->task.deadline) {
            hd_op_log_timeout(op);
            status = UCC_ERR_TIMED_OUT;
            hd_group_poison(op->group, status);
        }
        if (status != UCC_OK) {
            fail(op, status);
        }
    } else if (hd_ticks() > part->drained_by) {
        hd_op_refuse(op, part->outcome,
                     "not complete %d s after it has failed: device %d may still use its buffers",
                     HD_DEVICE_DRAIN_SECONDS, line->stream.device);
        return abandon(op);
    }
    return UCC_INPROGRESS;
}

ucc_status_t hd_device_complete(hd_op_t *op) {
    ucc_status_t status = UCC_INPROGRESS;
    hd_checked(hd_device_check_part(op));
    if (hd_group_is_inherited(op->group)) { /* the devices are the parent's */
        hd_group_say_inherited(op->group);
        status = hd_group_poisoned(op->group); /* a gate is the parent's to open, too */
    } else if (is_complete(hd_device_part_of(op))) {
        status = complete(op);
    } else if (++op->task.fruitless % HD_WATCH_EVERY == 0 || op->team->devices->driver->emulated) {
        status = look_closer(op);
    }
    return status;
}

ucc_status_t hd_device_await(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert_le(part->waits, HD_GPU_DEVICES);
    part->outcome = status;
    hd_checked(hd_device_check_part(op));
    if (is_complete(part)) {
        return complete(op);
    }
    if (status != UCC_OK) {
        fail(op, status);
    }
    hd_op_leave(op);
    return UCC_INPROGRESS;
}
