/* op.c: an operation on devices among the endpoints of one process, as its member sees it, from
 * init to the tickets of what claimers (enqueue.c) have done. internal.h says how it all goes
 * together.
 */
#include "device/internal.h"

/* --- the slot's memory ----------------------------------------------------------------------- */

static hd_device_slot_t *flight_of(const hd_op_t *op) {
    _Atomic(hd_outer_memory_t *) *flight = hd_op_flight(op);
    /* acquire: pairs with the CAS of install_flight */
    hd_outer_memory_t *memory = flight ? atomic_load_explicit(flight, memory_order_acquire) : NULL;
    return (hd_device_slot_t *)(void *)memory;
}

static void free_flight(hd_outer_memory_t *memory) {
    hd_device_slot_t *f = (hd_device_slot_t *)(void *)memory;
    for (uint32_t s = 0; s < f->slices; s++) {
        const struct hd_device_done *done = &f->done[s];
        if (done->event && done->recorded && done->own) {
            hd_devices_leave(f->devices, done->event_of, done->event);
        } else if (done->event) {
            f->devices->driver->event_put(done->event);
        }
        hd_free(f->done[s].scratch);
    }
    hd_devices_close(f->devices);
    hd_free(f);
}

/* Every member makes sure of the slot's memory before it publishes: whoever claims finds it. */
static ucc_status_t install_flight(hd_op_t *op, uint32_t slices) {
    const hd_device_slot_t *there = flight_of(op);
    hd_assert(!there || (there->slices == slices && there->devices == op->team->devices));
    if (there) {
        return UCC_OK;
    }
    _Atomic(hd_outer_memory_t *) *flight = hd_op_flight(op);
    hd_device_slot_t *f =
        flight ? hd_alloc(HD_LINE_PAIR, sizeof(*f) + slices * sizeof(f->done[0])) : NULL;
    if (!f) {
        hd_error("%s: no memory for what is enqueued on devices", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    f->memory.release = free_flight;
    f->devices = hd_devices_open();
    f->slices = slices;
    hd_outer_memory_t *none = NULL;
    /* acq_rel: publishes the flight */
    if (!atomic_compare_exchange_strong_explicit(flight, &none, &f->memory, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        free_flight(&f->memory);
    }
    return UCC_OK;
}

/* --- the row --------------------------------------------------------------------------------- */

static uint32_t count_slices(const hd_op_t *op) {
    uint32_t devices = op->team->devices->driver->devices;
    return op->place.n < devices ? op->place.n : devices;
}

static void lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    (void)op;
    (void)s;
    hd_slice_set(slice, 1, 1, 1);
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    (void)unit;
    hd_assert_lt(s, flight_of(op)->slices);
    hd_device_view_t v = {.op = op,
                          .work = work,
                          .done = &flight_of(op)->done[s],
                          .devices = op->team->devices,
                          .share = s};
    return hd_device_run(&v);
}

static const hd_work_row_t device_row = {.layout = lay_out, .run = run, .slices = count_slices};

/* --- a member -------------------------------------------------------------------------------- */

void hd_device_buffers_of(const hd_op_t *op, const void **src, void **dst) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    *src = call->src;
    *dst = call->dst;
    if (coll->bcast) {
        *dst = call->is_root ? (void *)(uintptr_t)call->src : call->dst;
    } else if ((coll->reducing && coll->source == HD_WHOLE) || coll->pairwise) {
        *src = call->in_place ? call->dst : call->src;
    }
}

/* Returns the device of a member's buffers. Pinned memory that is said to be a device's is of the
 * device for which it was allocated, if there is nothing else. A member without a buffer works on
 * its stream's device. */
static int device_of(const hd_device_part_t *part) {
    int device = -1, pinned = -1;
    for (int side = HD_SIDES; side-- > 0 && device < 0;) {
        const hd_gpu_memory_t *memory = &part->side[side].memory;
        if (memory->kind == HD_GPU_DEVICE || memory->kind == HD_GPU_MANAGED) {
            device = memory->device;
        } else if (memory->kind == HD_GPU_PINNED) {
            pinned = memory->device >= 0 ? memory->device : 0;
        }
    }
    device = device >= 0 ? device : pinned;
    return device < 0 && part->order.is ? part->order.stream.device : device;
}

ucc_status_t hd_device_publish(hd_op_t *op) {
    const void *src;
    void *dst;
    hd_checked(hd_device_check_part(op));
    hd_gpu_handed_over(&op->call); /* claimers find the part by its address */
    hd_device_buffers_of(op, &src, &dst);
    return op->plan.where == HD_ON_BOTH ? hd_outer_start_work(op, src, dst)
                                        : hd_engine_start(op, src, dst);
}

/* Takes stand-ins for memory of the host. A member that is held (hd_device_order.held) publishes
 * when its stream has come to the post. */
ucc_status_t hd_device_enter(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    bool here = op->plan.where == HD_ON_DEVICES;
    hd_device_begin_part(op);
    part->device = device_of(part);
    ucc_status_t status = here ? install_flight(op, count_slices(op)) : UCC_OK;
    if (status == UCC_OK) {
        status = hd_device_stand_in(op);
        part->device = device_of(part);
    }
    return status == UCC_OK ? hd_device_hold(op) : status;
}

/* Everything is enqueued, or nothing more will be. */
ucc_status_t hd_device_finish_here(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    const hd_device_slot_t *f = flight_of(op);
    for (uint32_t s = 0; s < f->slices; s++) {
        hd_gpu_taken_over(&f->done[s]);
    }
    if (part->order.is) {
        ucc_status_t joined = hd_device_join(op, f->done, f->slices);
        status = status == UCC_OK ? joined : status;
    }
    /* A member in the order of a stream is told by that, unless something has failed. */
    bool waits = !hd_device_is_told_by_stream(part) || status != UCC_OK;
    for (uint32_t s = 0; s < f->slices; s++) {
        if (waits && f->done[s].key == hd_outer_key(op) && f->done[s].wait.line) {
            hd_assert_lt(part->waits, HD_GPU_DEVICES);
            part->wait[part->waits++] = f->done[s].wait;
        }
    }
    return status;
}

void hd_device_plan_here(const hd_op_t *op, hd_plan_t *plan) {
    *plan = hd_plan_of_device(op, &device_row);
    plan->where = HD_ON_DEVICES;
}

/* --- at init --------------------------------------------------------------------------------- */

ucc_status_t hd_device_settle(hd_op_t *op) {
    if (op->call.exclusive) {
        return hd_op_refuse(op, UCC_ERR_NOT_SUPPORTED,
                            "a user's reduction is not supported on devices");
    }
    return hd_coll[op->call.type].reducing ? hd_device_can_reduce(&op->call) : UCC_OK;
}

void hd_device_forget(hd_op_t *op) {
    hd_device_part_t *part = op->device;
    if (part) {
        hd_gpu_event_t *event[] = {part->order.ready, part->order.joined, part->own.event};
        for (int i = 0; i < 3; i++) {
            if (event[i]) {
                op->team->devices->driver->event_put(event[i]);
            }
        }
        hd_free(part->side[HD_SIDE_SRC].dense);
        hd_free(part->side[HD_SIDE_DST].dense);
        hd_free(part);
    }
}
