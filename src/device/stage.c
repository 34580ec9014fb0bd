/* stage.c: pinned memory that stands in for a member's buffers, which the call names instead of the
 * user's until its exchange is over; and the end of relays (pipeline.c).
 *
 * Among the endpoints of one process it stands in for memory of the host: what an endpoint sends is
 * copied there before it publishes, what it receives from there after the call is complete, both by
 * its owner. (Among processes it stands in for memory of devices: span.c.) Blocks of v types lie
 * densely in a stand-in, whatever lies between them in the user's buffer.
 */
#include "device/internal.h"

#include "core/copy.h"
#include "span/span.h"

/* --- which bytes ----------------------------------------------------------------------------- */

/* Returns a side whose blocks, or one block of whose size, the call describes. */
static hd_device_extent_t extent_of(const hd_op_t *op, const void *at, uint8_t extent,
                                    const hd_vector_t *vector, size_t element) {
    size_t bytes = op->call.bytes;
    if (extent != HD_VECTOR) {
        return (hd_device_extent_t){.at = (uint8_t *)(uintptr_t)at,
                                    .bytes = extent == HD_BLOCKS ? bytes * op->n : bytes,
                                    .blocks = 1};
    }
    uint64_t count = 0;
    for (uint32_t i = 0; i < op->n; i++) {
        count += hd_vector_count(vector, i);
    }
    return (hd_device_extent_t){.at = (uint8_t *)(uintptr_t)at,
                                .bytes = (size_t)count * element,
                                .blocks = op->n,
                                .vector = vector,
                                .element = element};
}

hd_device_extent_t hd_device_source_of(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_device_extent_t side = extent_of(op, call->src, coll->source, &call->send,
                                        coll->pairwise ? call->send_element : call->element);
    if (coll->reducing && coll->vector) {
        side.bytes = call->total;
    }
    return side;
}

hd_device_extent_t hd_device_result_of(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint8_t extent = coll->reducing && coll->vector ? HD_BLOCK : coll->result;
    return extent_of(op, call->dst, extent, &call->receive, call->element);
}

hd_data_t hd_device_block(const hd_device_extent_t *side, uint32_t i) {
    return side->vector ? hd_vector_block(side->at, side->vector, side->element, i)
                        : (hd_data_t){side->at, side->bytes};
}

/* Finds the sides of a call that are significant at this endpoint; the others have no bytes.
 * Returns whether both are: else the only buffer is a device's, or else this were no call on
 * devices. */
static bool find_sides(const hd_op_t *op, hd_device_extent_t side[HD_SIDES]) {
    bool sends, receives;
    hd_coll_buffers(&hd_coll[op->call.type], op->call.is_root, op->me, op->call.in_place, &sends,
                    &receives);
    side[HD_SIDE_SRC] = sends ? hd_device_source_of(op) : (hd_device_extent_t){0};
    side[HD_SIDE_DST] = receives ? hd_device_result_of(op) : (hd_device_extent_t){0};
    return sends && receives;
}

bool hd_device_moves_nothing(const hd_op_t *op) {
    hd_device_extent_t side[HD_SIDES];
    if (!hd_coll[op->call.type].moves_data || op->call.empty) {
        return true;
    }
    find_sides(op, side);
    return side[HD_SIDE_SRC].bytes == 0 && side[HD_SIDE_DST].bytes == 0;
}

/* --- what the call names, and how it ends ---------------------------------------------------- */

void hd_device_restore_users(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    if (part->renamed) {
        op->call = part->users;
        part->renamed = false;
    }
}

void hd_device_span_fail(hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_group_poison(op->group, why); /* whoever shares its memory has learned of it */
    if (crossing) {
        hd_crossing_abort(crossing, why);
        (void)hd_net_pump(crossing->net);
        hd_span_drain();
    }
}

ucc_status_t hd_device_make_dense(hd_op_t *op, const hd_device_extent_t *side) {
    bool receives = side->vector == &op->call.receive;
    hd_vector_t *vector = receives ? &op->call.receive : &op->call.send;
    hd_device_side_t *kept = &hd_device_part_of(op)->side[receives ? HD_SIDE_DST : HD_SIDE_SRC];
    uint64_t before = 0;
    if (!side->vector) {
        return UCC_OK;
    }
    hd_free(kept->dense);
    kept->dense = hd_alloc(HD_LINE, op->n * sizeof(*kept->dense));
    if (!kept->dense) {
        hd_error("%s: no memory for displacements", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < op->n; i++) {
        kept->dense[i] = before;
        before += hd_vector_count(vector, i);
    }
    vector->displacements = kept->dense;
    vector->wide_displacements = true;
    return UCC_OK;
}

/* --- taking stand-ins ------------------------------------------------------------------------ */

/* Returns whether all of these bytes are pinned: what lies behind the allocation may be
 * pageable. */
static bool is_pinned(const hd_op_t *op, hd_data_t block, hd_gpu_memory_t *memory) {
    return hd_gpu_memory_of(block.at, memory) == UCC_OK && memory->kind != HD_GPU_HOST &&
           hd_device_holds(memory, block.at, block.bytes) &&
           (memory->kind != HD_GPU_PINNED ||
            hd_devices_have_pinned(op->team->devices, memory, block.at));
}

/* Returns whether memory that is said to be the host's is pinned, all of it: then devices reach it
 * as it is. *at is what was looked at last. */
static bool find_pinned(const hd_op_t *op, const hd_device_extent_t *side, hd_gpu_memory_t *memory,
                        const void **at) {
    bool pinned = true;
    *at = side->at;
    for (uint32_t i = 0; i < side->blocks && pinned; i++) {
        hd_data_t block = hd_device_block(side, i);
        if (block.bytes) {
            *at = block.at;
            pinned = is_pinned(op, block, memory);
        }
    }
    return pinned;
}

bool hd_device_stages(const hd_op_t *op) {
    hd_device_extent_t side[HD_SIDES];
    bool any = false;
    find_sides(op, side);
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

ucc_status_t hd_device_take_stand_in(hd_op_t *op, hd_device_side_t *side, int device,
                                     size_t bytes) {
    hd_assert(!side->stand_in);
    side->bytes = bytes;
    ucc_status_t status =
        op->team->devices->driver->take(device, HD_GPU_PINNED, bytes, &side->stand_in);
    if (status == UCC_OK) {
        hd_gpu_taken_over(side->stand_in->memory);
    }
    return status;
}

/* Takes a stand-in for a side if it needs one. */
static ucc_status_t take(hd_op_t *op, hd_device_side_t *kept, const hd_device_extent_t *side) {
    const hd_device_part_t *part = hd_device_part_of(op);
    hd_gpu_memory_t pinned;
    const void *at;
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
    if (part->order.is) { /* counts have changed since the post was begun */
        return hd_op_refuse(
            op, UCC_ERR_NOT_SUPPORTED,
            "memory of the host that is not pinned has no place in the order of a stream");
    }
    int device = part->device < 0 ? 0 : part->device; /* pinned memory is any device's */
    return hd_device_take_stand_in(op, kept, device, side->bytes);
}

/* Copies all of a side into its stand-in, or from there. */
static void copy(const hd_device_side_t *kept, const hd_device_extent_t *side, bool in) {
    uint8_t *stand_in = kept->stand_in->memory;
    hd_gpu_touched(stand_in, kept->bytes, in);
    for (uint32_t i = 0; i < side->blocks; i++) {
        hd_data_t block = hd_device_block(side, i);
        if (block.bytes) {
            hd_copy(in ? stand_in : block.at, in ? block.at : stand_in, block.bytes,
                    HD_STORES_PLAIN);
        }
        stand_in += block.bytes;
    }
}

ucc_status_t hd_device_stand_in(hd_op_t *op) {
    hd_device_side_t *kept = hd_device_part_of(op)->side;
    hd_device_extent_t side[HD_SIDES];
    ucc_status_t status = UCC_OK;
    if (!find_sides(op, side)) {
        return UCC_OK;
    }
    for (int i = 0; i < HD_SIDES && status == UCC_OK; i++) {
        status = take(op, &kept[i], &side[i]);
        if (status != UCC_OK || !kept[i].stand_in) {
            continue;
        }
        if (i == HD_SIDE_SRC) {
            copy(&kept[i], &side[i], true);
            op->call.src = kept[i].stand_in->memory;
        } else {
            op->call.dst = kept[i].stand_in->memory;
        }
        status = hd_device_make_dense(op, &side[i]);
    }
    return status;
}

void hd_device_copy_out(hd_op_t *op) {
    const hd_device_side_t *kept = &hd_device_part_of(op)->side[HD_SIDE_DST];
    if (kept->stand_in && kept->memory.kind == HD_GPU_HOST) {
        hd_device_extent_t result = hd_device_result_of(op);
        hd_assert_eq(result.bytes, kept->bytes);
        copy(kept, &result, false);
    }
}

/* --- giving them back ------------------------------------------------------------------------ */

_Static_assert(offsetof(hd_device_relay_t, late) == 0, "what is put back later is freed by that");

/* A member has no work on the device any more, and does not look at the relay from now on. The last
 * one gives it back. */
static void drop_relay(hd_device_relay_t *relay) {
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

void hd_device_put_stand_ins(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    for (int i = 0; i < HD_SIDES; i++) {
        if (part->side[i].stand_in) {
            hd_gpu_handed_over(part->side[i].stand_in->memory); /* to whoever gets it next */
            op->team->devices->driver->put(part->side[i].stand_in);
            part->side[i].stand_in = NULL;
        }
    }
    if (part->relay) {
        drop_relay(part->relay);
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
