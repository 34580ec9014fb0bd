/* relay.c: what both ways among processes need (pipeline.c, span.c): failing before an operation is
 * in an exchange, and relays, which are pinned memory that the endpoints of a process have in common
 * with the network. A relay is taken for one exchange, each member drops it when it has no work on the device
 * any more, and the last one gives it back.
 */
#include "device/internal.h"

#include "span/span.h"

void hd_device_span_fail(hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_group_poison(op->group, why);
    hd_crossing_abort(crossing, why);
    (void)hd_net_pump(crossing->net);
    hd_span_drain();
}

_Static_assert(offsetof(hd_device_relay_t, late) == 0, "what is put back later is freed by that");

/* The relay needs no reference: the members' handles keep the devices. */
ucc_status_t hd_device_take_relay(const hd_device_relay_need_t *need, hd_device_relay_t **out) {
    hd_device_relay_t *relay =
        hd_alloc(HD_LINE, sizeof(*relay) + need->segments * sizeof(relay->filled[0]));
    hd_devices_t *devices = relay ? hd_devices_open() : NULL;
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (devices) {
        relay->devices = devices;
        relay->line = hd_devices_line(devices, 0, need->group);
        status = relay->line
                     ? devices->driver->take(0, HD_GPU_PINNED, need->bytes, &relay->late.block)
                     : UCC_ERR_IO_ERROR;
        hd_devices_close(devices);
    } else {
        hd_error("%s: no memory for what devices give to other processes", need->name);
    }
    if (status != UCC_OK) {
        hd_free(relay);
        return status;
    }
    hd_gpu_taken_over(relay->late.block->memory);
    atomic_init(&relay->users, need->users);
    *out = relay;
    return UCC_OK;
}

void hd_device_drop_relay(hd_device_relay_t *relay) {
    if (!relay->lost) {
        hd_gpu_handed_over(relay->late.block->memory);
    }
    /* acq_rel: the last one takes in that the others are done */
    uint32_t users = atomic_fetch_sub_explicit(&relay->users, 1, memory_order_acq_rel);
    hd_assert_lt(0, users);
    if (users != 1) {
        return;
    }
    /* Members that are told by their streams have waited for nothing. */
    if (!relay->lost && relay->late.ticket) {
        hd_line_put_later(relay->devices, relay->line, &relay->late);
        return;
    }
    if (!relay->lost) {
        relay->devices->driver->put(relay->late.block);
    }
    hd_free(relay);
}
