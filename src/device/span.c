/* span.c: collectives on memory of devices in teams that span processes. Neither the network nor
 * another process knows it: pinned memory stands in for each device buffer, and the operation is
 * one of the host's on the stand-ins: a flight, a swap, or, where processes share memory, what they
 * do of the host's there.
 *
 *     COPY_IN    enter takes the stand-ins, and has what is sent copied into them. The operation
 *                has its number, and with it all that decides which call of the others it meets;
 *                but it has published nothing.
 *     ARRIVE     (and what comes after) The copies are done: the operation begins as any other
 *                does, with a call that names the stand-ins.
 *     COPY_OUT   finish lets the call name the user's buffers again, and has what has come copied
 *                to them (await.c waits).
 *
 * Nobody waits inside the driver: both waits are for tickets of lines (internal.h), by the steps of
 * the operation.
 *
 * WHY OPERATIONS MAY BEGIN LATE. A member may have published number k + 1 while k is filling. Lanes
 * and slots are each number's own. What others conclude from a lane, or from a part or leg of
 * another process, is how far its sender has consumed, and the window has settled that at the
 * launch, before anything is filled. An operation that fills waits for nobody but its device, so
 * each number is published in the end, or the group fails.
 *
 * IN THE ORDER OF A STREAM (order.c) the line waits for `ready` before each copy. If nothing is
 * copied before the operation begins, but the host is going to read or write pinned memory of the
 * user's, or if there is no data at all, the line waits for `ready` alone, and the operation begins
 * when the host has seen the line come so far. What a member only receives does not hold up its
 * beginning. In the end the stream comes after what is copied back. What is over by then, the host
 * has seen, and so has whoever enqueues anything later. The request may be over while its line
 * still reads a stand-in: that is put back later.
 *
 * Memory of the host, pinned or not, is used where it is. Active sets inside one process go the
 * same way: the memory of their exchanges is that of sets that cross.
 */
#include "device/internal.h"
#include "shm/phases.h"

#include "span/span.h"

/* --- which buffers --------------------------------------------------------------------------- */

/* How much of a region is copied. */
typedef enum share { SHARE_NONE, SHARE_OWN, SHARE_WHOLE } share_t;

/* A buffer of the call: in place, and of a bcast, there is one. */
typedef struct region {
    hd_device_extent_t whole;
    hd_device_side_t *side; /* says whose memory it is */
    share_t fills, drains;
    /* This endpoint's block of it, if that is all that is filled (then it is call.src) or drained
     * (then it is call.dst). */
    uint8_t *own;
    bool sends, receives; /* call.src, call.dst point into it */
} region_t;

static bool is_device(const hd_device_side_t *side) {
    return side->memory.kind == HD_GPU_DEVICE || side->memory.kind == HD_GPU_MANAGED;
}

/* Finds the only buffer of a call. */
static region_t find_region(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_device_side_t *side = hd_device_part_of(op)->side;
    region_t r = {.fills = SHARE_WHOLE, .sends = true, .receives = true};
    if (coll->bcast) {
        r.whole = hd_device_source_of(op);
        r.fills = call->is_root ? SHARE_WHOLE : SHARE_NONE;
        r.drains = call->is_root ? SHARE_NONE : SHARE_WHOLE;
    } else if (coll->flow == HD_FROM_ROOT || (coll->reducing && coll->source == HD_BLOCKS)) {
        /* Data goes from blocks of the buffer, and comes back into none but the own one. */
        r.whole = hd_device_source_of(op);
        r.drains = coll->reducing ? SHARE_OWN : SHARE_NONE;
        r.own = call->dst;
    } else {
        r.whole = hd_device_result_of(op);
        r.drains = hd_holds(coll->result_at, call->is_root, op->me) ? SHARE_WHOLE : SHARE_NONE;
        r.sends = coll->source == HD_BLOCK;
        if (r.sends) {
            r.fills = SHARE_OWN;
            r.own = (uint8_t *)(uintptr_t)call->src;
        }
    }
    /* the side that was looked at */
    r.side = &side[r.sends && is_device(&side[HD_SIDE_SRC]) ? HD_SIDE_SRC : HD_SIDE_DST];
    return r;
}

/* Finds the call's regions, and returns how many there are. */
static uint32_t find_regions(const hd_op_t *op, region_t region[HD_SIDES]) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_device_side_t *side = hd_device_part_of(op)->side;
    uint32_t n = 0;
    if (coll->bcast || call->in_place) {
        region[0] = find_region(op);
        return 1;
    }
    if (hd_holds(coll->source_at, call->is_root, op->me)) {
        region[n++] = (region_t){.whole = hd_device_source_of(op),
                                 .side = &side[HD_SIDE_SRC],
                                 .fills = SHARE_WHOLE,
                                 .sends = true};
    }
    if (hd_holds(coll->result_at, call->is_root, op->me)) {
        region[n++] = (region_t){.whole = hd_device_result_of(op),
                                 .side = &side[HD_SIDE_DST],
                                 .drains = SHARE_WHOLE,
                                 .receives = true};
    }
    return n;
}

/* --- copying --------------------------------------------------------------------------------- */

/* Returns where this endpoint's block of the region begins in a stand-in. */
static size_t own_offset(const hd_op_t *op, const region_t *r) {
    size_t before = 0;
    if (!r->own) {
        return 0;
    }
    for (uint32_t i = 0; r->whole.vector && i < op->me; i++) {
        before += hd_device_block(&r->whole, i).bytes;
    }
    return r->whole.vector ? before : (size_t)(r->own - r->whole.at);
}

/* Adds the copy of a block into the stand-in, or out of it. */
static void add_block(hd_device_rows_t *rows, hd_data_t block, uint8_t *stand_in, bool in) {
    hd_device_add_row(rows, (hd_gpu_row_t){.src = in ? block.at : stand_in,
                                           .dst = in ? stand_in : block.at,
                                           .bytes = block.bytes});
}

/* Enqueues the copy of what a region fills or drains. */
static ucc_status_t copy(const hd_op_t *op, const region_t *r, const hd_line_t *line, bool in) {
    const hd_gpu_driver_t *driver = op->team->devices->driver;
    hd_device_rows_t rows = {.driver = driver, .line = line};
    uint8_t *stand_in = r->side->stand_in->memory;
    int device = line->stream.device;
    if ((in ? r->fills : r->drains) == SHARE_OWN) {
        hd_data_t own = {r->own, op->call.bytes};
        add_block(&rows, own, stand_in + own_offset(op, r), in);
    } else {
        for (uint32_t i = 0; i < r->whole.blocks; i++) {
            hd_data_t block = hd_device_block(&r->whole, i);
            if (block.bytes) {
                add_block(&rows, block, stand_in, in);
            }
            stand_in += block.bytes;
        }
    }
    if (rows.n == 1 && rows.launches == 0) { /* devices have engines for that */
        const hd_gpu_row_t *row = rows.row;
        return driver->copy(line->stream, row->dst, in ? -1 : device, row->src, in ? device : -1,
                            row->bytes);
    }
    hd_device_launch_rows(&rows);
    return rows.status;
}

/* Enqueues the copy of a region on the line that the group uses of a device, or, if r is NULL,
 * nothing but a ticket behind the stream. On an error, too, the part has a ticket if anything was
 * enqueued that must be waited for. */
static ucc_status_t enqueue(hd_op_t *op, int device, const region_t *r, bool in) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_devices_t *devices = op->team->devices;
    hd_line_t *line;
    hd_assert_lt(part->waits, HD_SIDES); /* one for each buffer, or for the stream's coming */
    ucc_status_t status = hd_devices_lock_line(devices, device, op->group, 0, &line);
    if (status != UCC_OK) {
        return status;
    }
    status = hd_device_await_own(op, line->stream);
    if (status == UCC_OK && r) {
        status = copy(op, r, line, in);
    }
    if (status == UCC_OK && part->order.is && !in) {
        status = hd_device_record(op, &part->own, line->stream);
    }
    ucc_status_t signalled = hd_line_signal(devices, line);
    if (signalled == UCC_OK) {
        part->wait[part->waits++] = (struct hd_device_wait){.line = line, .ticket = line->ticket};
    } else {
        hd_device_lose_stand_ins(part);
        status = status == UCC_OK ? signalled : status;
    }
    hd_line_unlock(line);
    return status;
}

/* Returns whether the host itself uses this memory of the user's, in the order of a stream. */
static bool is_used_here(const hd_op_t *op, const region_t *r) {
    return hd_device_part_of(op)->order.is && r->whole.bytes && !r->side->stand_in;
}

/* Tells the emulator what the host reads of a region, or what it has written. */
static void touch(const hd_op_t *op, const region_t *r, bool written) {
    if ((written ? r->drains : r->fills) == SHARE_NONE) {
        return;
    }
    if (r->side->stand_in) {
        hd_gpu_touched(r->side->stand_in->memory, r->side->bytes, written);
    } else if (is_used_here(op, r) && !r->whole.vector) {
        hd_gpu_touched(r->whole.at, r->whole.bytes, written);
    }
}

/* Copies the region into its stand-in, or out of it, if it has one. */
static ucc_status_t copy_region(hd_op_t *op, const region_t *r, bool in) {
    bool copies = r->side->stand_in && (in ? r->fills : r->drains) != SHARE_NONE;
    return copies ? enqueue(op, r->side->memory.device, r, in) : UCC_OK;
}

/* Returns whether the host must know that the stream has come to the post before the operation
 * begins. */
static bool has_to_come(const hd_op_t *op, const region_t region[HD_SIDES], uint32_t n) {
    const hd_device_order_t *order = &hd_device_part_of(op)->order;
    bool used = false, data = false;
    for (uint32_t i = 0; i < n; i++) {
        data = data || region[i].whole.bytes;
        used = used || is_used_here(op, &region[i]);
    }
    return order->is && !order->held && (used || !data);
}

/* --- a member -------------------------------------------------------------------------------- */

/* Lets the call name the region's stand-in, if it has one. */
static ucc_status_t name_stand_in(hd_op_t *op, const region_t *r) {
    hd_call_t *call = &op->call;
    if (!r->side->stand_in) {
        return UCC_OK;
    }
    uint8_t *at = r->side->stand_in->memory, *own = at + own_offset(op, r);
    if (r->sends) {
        call->src = r->fills == SHARE_OWN ? own : at;
    }
    if (r->receives) {
        call->dst = r->fills == SHARE_WHOLE ? own : at;
    }
    return hd_device_make_dense(op, &r->whole);
}

/* Has what is sent copied into the stand-ins, which the call names from then on; or takes a ticket
 * for the stream's coming. */
static ucc_status_t fill(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    uint32_t n = find_regions(op, region);
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = copy_region(op, &region[i], true);
    }
    if (status == UCC_OK && part->waits == 0 && has_to_come(op, region, n)) {
        status = enqueue(op, part->order.stream.device, NULL, true);
    }
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = name_stand_in(op, &region[i]);
    }
    return status;
}

/* Returns UCC_OK when what is sent is there, and the stream has come: the operation may publish. */
static ucc_status_t look_filled(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    if (part->waits && !hd_line_reached(&part->wait[0])) {
        return UCC_INPROGRESS;
    }
    part->waits = 0;
    hd_checked(hd_device_check_part(op));
    for (uint32_t i = 0, n = find_regions(op, region); i < n; i++) {
        touch(op, &region[i], false);
    }
    return UCC_OK;
}

/* Waits for the device that fills the stand-ins. */
static ucc_status_t wait_filled(hd_op_t *op) {
    const struct hd_device_wait *wait = &hd_device_part_of(op)->wait[0];
    hd_devices_t *devices = op->team->devices;
    ucc_status_t status = look_filled(op);
    bool looks = op->task.fruitless % HD_WATCH_EVERY == 0 || devices->driver->emulated;
    if (status == UCC_INPROGRESS && looks && hd_line_has_failed(devices, wait->line) &&
        !hd_line_reached(wait)) {
        hd_group_poison(op->group, UCC_ERR_IO_ERROR);
    }
    return status;
}

/* First the stream of a member that is held comes to its post, then the stand-ins are filled. */
static ucc_status_t copy_in_stand_ins(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_gpu_taken_over(part);
    ucc_status_t status = part->held ? hd_device_ready(op) : UCC_OK;
    if (status == UCC_OK && part->held) {
        part->held = false;
        status = fill(op);
    }
    if (status == UCC_OK) {
        status = wait_filled(op);
    }
    hd_gpu_handed_over(part);
    return status;
}

static ucc_status_t enter_stand_ins(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    ucc_status_t status = UCC_OK;
    hd_device_begin_part(op);
    for (uint32_t i = 0, n = find_regions(op, region); i < n && status == UCC_OK; i++) {
        hd_device_side_t *side = region[i].side;
        if (is_device(side) && region[i].whole.bytes) {
            status = hd_device_take_stand_in(op, side, side->memory.device, region[i].whole.bytes);
        }
    }
    part->held = status == UCC_OK && hd_device_hold(op) == UCC_INPROGRESS;
    if (status == UCC_OK && !part->held) {
        status = fill(op);
    }
    if (status < 0) {
        hd_device_span_fail(op, status);
    }
    if (part->held || (status < 0 && part->waits)) { /* it ends when the device is done */
        status = UCC_INPROGRESS;
    } else if (status == UCC_OK) {
        status = look_filled(op);
    }
    hd_gpu_handed_over(part);
    return status;
}

/* Has what has come copied to where it belongs, and lets the stream come after that. */
static ucc_status_t drain(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    ucc_status_t status = UCC_OK;
    part->own.recorded = false;
    for (uint32_t i = 0, n = find_regions(op, region); i < n && status == UCC_OK; i++) {
        touch(op, &region[i], true);
        status = copy_region(op, &region[i], false);
    }
    if (status == UCC_OK && part->order.is) {
        status = hd_device_join(op, &part->own, 1);
    }
    if (status == UCC_OK && part->waits && hd_device_is_told_by_stream(part) &&
        hd_device_leave_stand_ins(op, &part->wait[0])) {
        part->waits = 0;
    }
    return status;
}

/* Outside its own device, nobody uses the stand-ins any more. */
static ucc_status_t finish_stand_ins(hd_op_t *op, ucc_status_t status) {
    hd_gpu_taken_over(hd_device_part_of(op));
    if (status == UCC_OK && (status = drain(op)) != UCC_OK) {
        hd_device_span_fail(op, status);
    }
    return status;
}

/* --- which way ------------------------------------------------------------------------------- */

static ucc_status_t enter(hd_op_t *op) {
    return op->plan.where == HD_BY_STAND_INS ? enter_stand_ins(op) : hd_device_enter(op);
}

static ucc_status_t copy_in(hd_op_t *op) {
    return op->plan.where == HD_BY_STAND_INS ? copy_in_stand_ins(op) : hd_device_ready(op);
}

static void undo(hd_op_t *op) {
    hd_device_restore_users(op);
    hd_device_put_stand_ins(op);
    hd_device_drop(op);
}

/* Takes the tickets for what is enqueued, and waits for them. */
static ucc_status_t finish(hd_op_t *op, ucc_status_t status) {
    hd_device_restore_users(op);
    if (hd_group_is_inherited(op->group)) { /* what is enqueued is the parent's */
        return status == UCC_OK ? hd_group_poisoned(op->group) : status;
    }
    if (op->phase == HD_PHASE_COPY_IN && hd_device_crosses(op)) { /* it has been in no exchange */
        hd_device_span_fail(op, status);
    }
    status = op->plan.where == HD_ON_DEVICES ? hd_device_finish_here(op, status)
             : op->plan.where == HD_ON_BOTH  ? hd_device_finish_pipeline(op, status)
                                             : finish_stand_ins(op, status);
    return hd_device_await(op, status);
}

static const hd_frame_t frame = {.needs = HD_DEVICE_NEEDS,
                                 .enter = enter,
                                 .copy_in = copy_in,
                                 .undo = undo,
                                 .finish = finish,
                                 .copy_out = hd_device_complete,
                                 .drop = hd_device_drop};

void hd_device_phases(const hd_plan_t *plan, hd_phases_t *phases) {
    if (plan->where == HD_ON_DEVICES) {
        return; /* shm has said that devices do all of it */
    }
    hd_phases_t host = *phases;
    phases->n = 0;
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_COPY_IN,
                                       .algorithm = plan->where == HD_ON_BOTH
                                                        ? "combined by the device to pinned memory"
                                                        : "copied to pinned memory"});
    for (uint32_t i = 0; i < host.n; i++) {
        hd_phases_add(phases, host.phase[i]);
    }
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_COPY_OUT, .algorithm = "copied back"});
}

void hd_device_plan(const hd_op_t *op, hd_plan_t *plan) {
    if (!hd_device_crosses(op)) {
        hd_device_plan_here(op, plan);
    } else if (!hd_device_plan_pipeline(op, plan)) {
        plan->where = HD_BY_STAND_INS;
        plan->express = false;
    }
}

void hd_device_follow(hd_op_t *op) {
    op->frame = &frame;
    if (op->plan.where != HD_BY_STAND_INS) {
        op->start = hd_device_publish;
    }
}
