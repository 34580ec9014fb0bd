/* stage.c: memory of the host in a call on devices: pinned memory stands in for it.
 *
 * What an endpoint sends is copied there before it publishes, what it receives from there after the
 * call is complete, both by its owner. Blocks of v types lie densely in a stand-in, whatever lies
 * between them in the user's buffer.
 */
#include "device/internal.h"

#include "core/copy.h"

static const hd_devices_t *devices_of(const hd_op_t *op) {
    return op->team->devices;
}

/* --- which bytes ----------------------------------------------------------------------------- */

static size_t sum(const hd_vector_t *v, uint32_t n, size_t element) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += hd_vector_count(v, i);
    }
    return (size_t)count * element;
}

/* Returns the number of the collective's members in all processes. */
static uint32_t members_of(const hd_op_t *op) {
    return op->n;
}

static size_t plain_bytes(const hd_op_t *op, uint8_t extent) {
    return extent == HD_BLOCKS ? op->call.bytes * members_of(op) : op->call.bytes;
}

hd_device_extent_t hd_device_source_of(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_device_extent_t side = {.at = (uint8_t *)(uintptr_t)call->src};
    if (coll->source != HD_VECTOR) {
        side.bytes = call->type == HD_REDUCE_SCATTERV ? call->total : plain_bytes(op, coll->source);
        return side;
    }
    side.vector = &call->send;
    side.element = call->type == HD_ALLTOALLV ? call->send_element : call->element;
    side.bytes = sum(side.vector, members_of(op), side.element);
    return side;
}

hd_device_extent_t hd_device_result_of(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_device_extent_t side = {.at = call->dst};
    if (coll->result != HD_VECTOR || coll->reducing) {
        side.bytes = plain_bytes(op, coll->result == HD_VECTOR ? HD_BLOCK : coll->result);
        return side;
    }
    side.vector = &call->receive;
    side.element = call->element;
    side.bytes = sum(side.vector, members_of(op), side.element);
    return side;
}

/* --- copying --------------------------------------------------------------------------------- */

static void copy_in(const hd_op_t *op, const hd_device_extent_t *side, uint8_t *to) {
    if (!side->vector) {
        hd_copy(to, side->at, side->bytes, HD_STORES_PLAIN);
        return;
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        size_t bytes = hd_vector_count(side->vector, i) * side->element;
        uint64_t offset = hd_vector_displacement(side->vector, i) * side->element;
        if (bytes) {
            hd_copy(to, hd_at(side->at, offset), bytes, HD_STORES_PLAIN);
        }
        to += bytes;
    }
}

static void copy_out(const hd_op_t *op, const hd_device_extent_t *side, const uint8_t *from) {
    if (!side->vector) {
        hd_copy(side->at, from, side->bytes, HD_STORES_PLAIN);
        return;
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        size_t bytes = hd_vector_count(side->vector, i) * side->element;
        uint64_t offset = hd_vector_displacement(side->vector, i) * side->element;
        if (bytes) {
            hd_copy(hd_at(side->at, offset), from, bytes, HD_STORES_PLAIN);
        }
        from += bytes;
    }
}

/* --- stand-ins ------------------------------------------------------------------------------- */

/* Returns whether all of these bytes are pinned: what lies behind the allocation may be
 * pageable. */
static bool is_pinned(const hd_op_t *op, const void *at, size_t bytes, hd_gpu_memory_t *memory) {
    return hd_gpu_memory_of(at, memory) == UCC_OK && memory->kind != HD_GPU_HOST &&
           hd_device_holds(memory, at, bytes) &&
           (memory->kind != HD_GPU_PINNED || hd_devices_have_pinned(op->team->devices, memory, at));
}

/* Returns whether memory that is said to be the host's is pinned, all of it: then devices reach it
 * as it is. *at is what was looked at last. */
static bool find_pinned(const hd_op_t *op, const hd_device_extent_t *side, hd_gpu_memory_t *memory,
                        const void **at) {
    *at = side->at;
    if (!side->vector) {
        return is_pinned(op, *at, side->bytes, memory);
    }
    bool pinned = true;
    for (uint32_t i = 0; i < members_of(op) && pinned; i++) {
        uint64_t offset = hd_vector_displacement(side->vector, i) * side->element;
        size_t bytes = hd_vector_count(side->vector, i) * side->element;
        if (bytes) {
            *at = hd_at(side->at, offset);
            pinned = is_pinned(op, *at, bytes, memory);
        }
    }
    return pinned;
}

static ucc_status_t take(hd_op_t *op, hd_device_side_t *kept, const hd_device_extent_t *side) {
    hd_gpu_memory_t pinned;
    const void *at;
    hd_assert(!kept->stand_in);
    if (kept->found) { /* the memory may have been unregistered since */
        kept->memory = (hd_gpu_memory_t){.kind = HD_GPU_HOST, .device = -1};
        kept->found = false;
    }
    if (!side->bytes || kept->memory.kind != HD_GPU_HOST) {
        return UCC_OK;
    }
    if (find_pinned(op, side, &pinned, &at)) {
        kept->memory = pinned;
        kept->at = at;
        kept->found = true;
        return UCC_OK;
    }
    if (hd_device_part_of(op)->order.is) { /* counts have changed since the post was begun */
        hd_error(
            "%s at endpoint %u: memory of the host that is not pinned has no place in the order "
            "of a stream",
            hd_op_type_name(op), op->team_ep);
        return UCC_ERR_NOT_SUPPORTED;
    }
    kept->bytes = side->bytes;
    int device = hd_device_part_of(op)->device;
    device = device < 0 ? 0 : device; /* pinned memory is any device's */
    ucc_status_t status =
        devices_of(op)->driver->take(device, HD_GPU_PINNED, side->bytes, &kept->stand_in);
    if (status == UCC_OK) {
        hd_gpu_taken_over(kept->stand_in->memory);
    }
    return status;
}

ucc_status_t hd_device_make_dense(const hd_op_t *op, hd_vector_t *vector, int which) {
    hd_device_part_t *part = hd_device_part_of(op);
    uint32_t n = members_of(op);
    if (part->dense_entries < 2 * n) {
        hd_free(part->dense);
        part->dense = hd_alloc(HD_LINE, 2 * (size_t)n * sizeof(*part->dense));
        part->dense_entries = part->dense ? 2 * n : 0;
    }
    if (!part->dense) {
        hd_error("%s: no memory for displacements", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    uint64_t *at = part->dense + (which == HD_SIDE_DST ? n : 0), before = 0;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = before;
        before += hd_vector_count(vector, i);
    }
    vector->displacements = at;
    vector->wide_displacements = true;
    return UCC_OK;
}

ucc_status_t hd_device_stand_in(hd_op_t *op, const void **src, void **dst) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_device_side_t *from = &part->side[HD_SIDE_SRC], *to = &part->side[HD_SIDE_DST];
    bool sends, receives;
    hd_coll_buffers(&hd_coll[op->call.type], op->call.is_root, op->place.me, op->call.in_place,
                    &sends, &receives);
    /* Without both, the only buffer is a device's, or else this were no call on devices. */
    if (!sends || !receives) {
        return UCC_OK;
    }
    hd_device_extent_t source = hd_device_source_of(op), result = hd_device_result_of(op);
    ucc_status_t status = take(op, from, &source);
    if (status == UCC_OK && from->stand_in) {
        hd_gpu_touched(from->stand_in->memory, from->bytes, true);
        copy_in(op, &source, from->stand_in->memory);
        *src = from->stand_in->memory;
        status = source.vector ? hd_device_make_dense(op, &part->send, HD_SIDE_SRC) : UCC_OK;
    }
    if (status == UCC_OK) {
        status = take(op, to, &result);
    }
    if (status == UCC_OK && to->stand_in) {
        *dst = to->stand_in->memory;
        status = result.vector ? hd_device_make_dense(op, &part->receive, HD_SIDE_DST) : UCC_OK;
    }
    return status;
}

/* Finds the sides of a call that are significant at this endpoint; the others have no bytes. */
static void sides_of(const hd_op_t *op, hd_device_extent_t side[HD_SIDES]) {
    bool sends, receives;
    hd_coll_buffers(&hd_coll[op->call.type], op->call.is_root, op->me, op->call.in_place, &sends,
                    &receives);
    side[HD_SIDE_SRC] = sends ? hd_device_source_of(op) : (hd_device_extent_t){0};
    side[HD_SIDE_DST] = receives ? hd_device_result_of(op) : (hd_device_extent_t){0};
}

bool hd_device_moves_nothing(const hd_op_t *op) {
    hd_device_extent_t side[HD_SIDES];
    if (!hd_coll[op->call.type].moves_data || op->call.empty) {
        return true;
    }
    sides_of(op, side);
    return side[HD_SIDE_SRC].bytes == 0 && side[HD_SIDE_DST].bytes == 0;
}

bool hd_device_stages(const hd_op_t *op) {
    hd_device_extent_t side[HD_SIDES];
    bool any = false;
    sides_of(op, side);
    for (int i = 0; i < HD_SIDES; i++) {
        bool both = side[0].bytes && side[1].bytes; /* else the only buffer is a device's */
        const hd_device_side_t *kept = &hd_device_part_of(op)->side[i];
        bool host = kept->found || kept->memory.kind == HD_GPU_HOST;
        hd_gpu_memory_t memory;
        const void *at;
        any = any || (both && host && !find_pinned(op, &side[i], &memory, &at));
    }
    return any;
}

void hd_device_copy_out(hd_op_t *op) {
    const hd_device_side_t *kept = &hd_device_part_of(op)->side[HD_SIDE_DST];
    if (kept->stand_in && kept->memory.kind == HD_GPU_HOST) {
        hd_device_extent_t result = hd_device_result_of(op);
        hd_assert_eq(result.bytes, kept->bytes);
        hd_gpu_touched(kept->stand_in->memory, kept->bytes, false);
        copy_out(op, &result, kept->stand_in->memory);
    }
}

void hd_device_put_stand_ins(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    for (int i = 0; i < HD_SIDES; i++) {
        if (part->side[i].stand_in) {
            hd_gpu_handed_over(part->side[i].stand_in->memory); /* to whoever gets it next */
            devices_of(op)->driver->put(part->side[i].stand_in);
            part->side[i].stand_in = NULL;
        }
    }
    if (part->relay) {
        hd_device_drop_relay(part->relay);
        part->relay = NULL;
    }
}

void hd_device_lose_stand_ins(hd_device_part_t *part) {
    for (int i = 0; i < HD_SIDES; i++) {
        part->side[i].stand_in = NULL;
    }
}

bool hd_device_leave_stand_ins(hd_op_t *op, const struct hd_device_wait *until) {
    hd_device_part_t *part = hd_device_part_of(op);
    for (int i = 0; i < HD_SIDES; i++) {
        hd_device_late_t *late = part->side[i].stand_in ? hd_alloc(HD_LINE, sizeof(*late)) : NULL;
        if (part->side[i].stand_in && !late) {
            return false; /* then the owner waits for the device */
        }
        if (late) {
            *late = (hd_device_late_t){.block = part->side[i].stand_in, .ticket = until->ticket};
            part->side[i].stand_in = NULL;
            hd_line_put_later(op->team->devices, until->line, late);
        }
    }
    return true;
}
