/* span.c: collectives on memory of devices in teams that span processes. The network knows no
 * device: pinned memory stands in for each device buffer, and the operation is one of the host's, a
 * flight or a swap, on the stand-ins.
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
    share_t fills, drains;
    /* This endpoint's block of it, if that is all that is filled (then it is call.src) or drained
     * (then it is call.dst). */
    uint8_t *own;
    bool sends, receives; /* call.src, call.dst point into it */
} region_t;

static bool is_device(const hd_device_side_t *side) {
    return side->memory.kind == HD_GPU_DEVICE || side->memory.kind == HD_GPU_MANAGED;
}

static uint32_t me(const hd_op_t *op) {
    return op->me;
}

/* Returns whether, in place, data goes from blocks of the buffer and not back into them, but for
 * the own one. */
static bool takes_from_source(const hd_coll_t *coll) {
    return coll->flow == HD_FROM_ROOT || (coll->reducing && coll->source == HD_BLOCKS);
}

static region_t region_in_place(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    if (takes_from_source(coll)) {
        return (region_t){.whole = hd_device_source_of(op),
                          .fills = SHARE_WHOLE,
                          .drains = coll->reducing ? SHARE_OWN : SHARE_NONE,
                          .own = call->dst,
                          .sends = true,
                          .receives = true};
    }
    bool gathers = coll->source == HD_BLOCK;
    bool receives = hd_holds(coll->result_at, call->is_root, me(op));
    return (region_t){.whole = hd_device_result_of(op),
                      .fills = gathers ? SHARE_OWN : SHARE_WHOLE,
                      .drains = receives ? SHARE_WHOLE : SHARE_NONE,
                      .own = gathers ? (uint8_t *)(uintptr_t)call->src : NULL,
                      .sends = gathers,
                      .receives = true};
}

/* Finds the call's regions, and returns how many there are. */
static uint32_t find_regions(const hd_op_t *op, region_t region[HD_SIDES]) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    bool sends, receives;
    uint32_t n = 0;
    if (coll->bcast) {
        region[0] = (region_t){.whole = hd_device_source_of(op),
                               .fills = call->is_root ? SHARE_WHOLE : SHARE_NONE,
                               .drains = call->is_root ? SHARE_NONE : SHARE_WHOLE,
                               .sends = true,
                               .receives = true};
        return 1;
    }
    if (call->in_place) {
        region[0] = region_in_place(op);
        return 1;
    }
    hd_coll_buffers(coll, call->is_root, me(op), false, &sends, &receives);
    if (sends) {
        region[n++] =
            (region_t){.whole = hd_device_source_of(op), .fills = SHARE_WHOLE, .sends = true};
    }
    if (receives) {
        region[n++] =
            (region_t){.whole = hd_device_result_of(op), .drains = SHARE_WHOLE, .receives = true};
    }
    return n;
}

/* Returns the side of the part that says whose memory the region is. Of a single buffer, that is
 * the side that was looked at. */
static hd_device_side_t *side_of(hd_device_part_t *part, const region_t *r) {
    hd_device_side_t *side = part->side;
    if (r->sends && r->receives) {
        return is_device(&side[HD_SIDE_SRC]) ? &side[HD_SIDE_SRC] : &side[HD_SIDE_DST];
    }
    if (r->sends) {
        return &side[HD_SIDE_SRC];
    }
    return &side[HD_SIDE_DST];
}

/* --- copying --------------------------------------------------------------------------------- */

/* Copies that are being enqueued on a line. */
typedef struct copying {
    uint8_t *stand_in;
    bool in; /* into the stand-in */
    hd_device_rows_t rows;
} copying_t;

static void add_row(copying_t *c, uint8_t *user, size_t offset, size_t bytes) {
    uint8_t *stand_in = c->stand_in + offset;
    hd_device_add_row(&c->rows, (hd_gpu_row_t){.src = c->in ? user : stand_in,
                                               .dst = c->in ? stand_in : user,
                                               .bytes = bytes});
}

/* Enqueues what is left. A single run is a copy, for which devices have engines of their own. */
static ucc_status_t end_rows(copying_t *c) {
    hd_device_rows_t *rows = &c->rows;
    const hd_gpu_row_t *row = rows->row;
    int device = rows->line->stream.device;
    if (rows->n == 1 && rows->launches == 0) {
        return rows->driver->copy(rows->line->stream, row->dst, c->in ? -1 : device, row->src,
                                  c->in ? device : -1, row->bytes);
    }
    if (rows->n) {
        hd_device_launch_rows(rows);
    }
    return rows->status;
}

/* Returns where this endpoint's block of the region begins in a stand-in. */
static size_t own_offset(const hd_op_t *op, const region_t *r) {
    const hd_vector_t *vector = r->whole.vector;
    uint64_t before = 0;
    for (uint32_t i = 0; vector && i < me(op); i++) {
        before += hd_vector_count(vector, i);
    }
    return vector ? (size_t)before * r->whole.element : (size_t)(r->own - r->whole.at);
}

static void add_region(copying_t *c, const hd_op_t *op, const region_t *r, share_t share) {
    const hd_device_extent_t *whole = &r->whole;
    size_t offset = 0;
    if (share == SHARE_OWN) {
        add_row(c, r->own, own_offset(op, r), op->call.bytes);
        return;
    }
    if (!whole->vector) {
        add_row(c, whole->at, 0, whole->bytes);
        return;
    }
    for (uint32_t i = 0; i < op->n; i++) {
        size_t bytes = hd_vector_count(whole->vector, i) * whole->element;
        uint64_t at = hd_vector_displacement(whole->vector, i) * whole->element;
        if (bytes) {
            add_row(c, hd_at(whole->at, at), offset, bytes);
        }
        offset += bytes;
    }
}

static ucc_status_t copy(hd_op_t *op, const region_t *r, const hd_line_t *line, bool in) {
    copying_t c = {.stand_in = side_of(hd_device_part_of(op), r)->stand_in->memory,
                   .in = in,
                   .rows = {.driver = op->team->devices->driver, .line = line}};
    add_region(&c, op, r, in ? r->fills : r->drains);
    return end_rows(&c);
}

/* Enqueues the copy of a region, or, if r is NULL, nothing but a ticket behind the stream. The
 * caller holds the line's lock. On an error, too, the part has a ticket if anything was enqueued
 * that must be waited for. */
static ucc_status_t enqueue(hd_op_t *op, const region_t *r, hd_line_t *line, bool in) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert(hd_line_is_locked(line));
    hd_assert_lt(part->waits, HD_SIDES); /* one for each buffer, or for the stream's coming */
    if (hd_line_is_broken(line)) {
        return UCC_ERR_IO_ERROR;
    }
    ucc_status_t status = hd_device_await_own(op, line->stream);
    if (status == UCC_OK && r) {
        status = copy(op, r, line, in);
    }
    if (status == UCC_OK && part->order.is && !in) {
        status = hd_device_record_own(op, line->stream);
    }
    ucc_status_t signalled = hd_line_signal(op->team->devices, line);
    if (signalled != UCC_OK) {
        hd_device_lose_stand_ins(part);
        return status == UCC_OK ? signalled : status;
    }
    part->wait[part->waits++] = (struct hd_device_wait){.line = line, .ticket = line->ticket};
    return status;
}

/* Enqueues it on the line that the group uses of a device. */
static ucc_status_t enqueue_at(hd_op_t *op, int device, const region_t *r, bool in) {
    hd_line_t *line = hd_devices_line(op->team->devices, device, op->group);
    if (!line) {
        return UCC_ERR_IO_ERROR;
    }
    hd_line_lock(line);
    ucc_status_t status = enqueue(op, r, line, in);
    hd_line_unlock(line);
    return status;
}

/* Copies the region into its stand-in, or out of it, if it has one. */
static ucc_status_t copy_region(hd_op_t *op, const region_t *r, bool in) {
    hd_device_part_t *part = hd_device_part_of(op);
    const hd_device_side_t *side = side_of(part, r);
    if (!side->stand_in || (in ? r->fills : r->drains) == SHARE_NONE) {
        return UCC_OK;
    }
    if (!in) {
        hd_gpu_touched(side->stand_in->memory, side->bytes, true);
    }
    return enqueue_at(op, side->memory.device, r, in);
}

static ucc_status_t copy_regions(hd_op_t *op, const region_t region[HD_SIDES], uint32_t n,
                                 bool in) {
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = copy_region(op, &region[i], in);
    }
    return status;
}

/* Returns whether the host itself uses this memory of the user's, in the order of a stream. */
static bool is_used_here(const hd_op_t *op, const region_t *r) {
    return hd_device_part_of(op)->order.is && r->whole.bytes &&
           !side_of(hd_device_part_of(op), r)->stand_in;
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

/* Tells the emulator of memory that the host uses itself. */
static void touch_used(const hd_op_t *op, bool written) {
    region_t region[HD_SIDES];
    uint32_t n = find_regions(op, region);
    for (uint32_t i = 0; i < n; i++) {
        const region_t *r = &region[i];
        if (is_used_here(op, r) && !r->whole.vector && (written ? r->drains : r->fills)) {
            hd_gpu_touched(r->whole.at, r->whole.bytes, written);
        }
    }
}

/* --- the call names stand-ins, or the user's buffers ----------------------------------------- */

static ucc_status_t take_stand_in(hd_op_t *op, const region_t *r) {
    hd_device_side_t *side = side_of(hd_device_part_of(op), r);
    hd_assert(!side->stand_in);
    if (!is_device(side) || r->whole.bytes == 0) {
        return UCC_OK;
    }
    side->bytes = r->whole.bytes;
    ucc_status_t status = op->team->devices->driver->take(side->memory.device, HD_GPU_PINNED,
                                                          side->bytes, &side->stand_in);
    if (status == UCC_OK) {
        hd_gpu_taken_over(side->stand_in->memory);
    }
    return status;
}

static void keep_users(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    hd_assert(!hd_device_part_of(op)->users.kept); /* else the call names stand-ins */
    hd_device_part_of(op)->users = (struct hd_device_users){.kept = true,
                                                            .src = call->src,
                                                            .dst = call->dst,
                                                            .send = call->send,
                                                            .receive = call->receive};
}

static void restore_users(hd_op_t *op) {
    struct hd_device_users *users = &hd_device_part_of(op)->users;
    if (users->kept) {
        op->call.src = users->src;
        op->call.dst = users->dst;
        op->call.send = users->send;
        op->call.receive = users->receive;
        users->kept = false;
    }
}

static ucc_status_t name_stand_in(hd_op_t *op, const region_t *r) {
    hd_call_t *call = &op->call;
    const hd_device_side_t *side = side_of(hd_device_part_of(op), r);
    if (!side->stand_in) {
        return UCC_OK;
    }
    uint8_t *at = side->stand_in->memory, *own = r->own ? at + own_offset(op, r) : at;
    if (r->sends) {
        call->src = r->fills == SHARE_OWN ? own : at;
    }
    if (r->receives) {
        call->dst = r->own && r->fills == SHARE_WHOLE ? own : at;
    }
    if (r->whole.vector == &call->send) {
        return hd_device_make_dense(op, &call->send, HD_SIDE_SRC);
    }
    return r->whole.vector ? hd_device_make_dense(op, &call->receive, HD_SIDE_DST) : UCC_OK;
}

/* --- a member -------------------------------------------------------------------------------- */

static void touch_filled(const hd_device_part_t *part) {
    for (int i = 0; i < HD_SIDES; i++) {
        const hd_device_side_t *side = &part->side[i];
        if (side->stand_in) {
            hd_gpu_touched(side->stand_in->memory, side->bytes, false);
        }
    }
}

/* What is sent is there, and the stream has come: the operation may publish. */
static ucc_status_t filled(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_assert_eq(part->waits, 0);
    hd_checked(hd_device_check_part(op));
    touch_filled(part);
    touch_used(op, false);
    return UCC_OK;
}

/* Has what is sent copied into the stand-ins, which the call names from then on; or takes a ticket
 * for the stream's coming. */
static ucc_status_t fill(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    uint32_t n = find_regions(op, region);
    ucc_status_t status = copy_regions(op, region, n, true);
    if (status == UCC_OK && part->waits == 0 && has_to_come(op, region, n)) {
        status = enqueue_at(op, part->order.stream.device, NULL, true);
    }
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = name_stand_in(op, &region[i]);
    }
    return status;
}

static bool is_filled(hd_device_part_t *part) {
    bool is = part->waits == 0 || hd_line_reached(&part->wait[0]);
    part->waits = is ? 0 : part->waits;
    return is;
}

/* Waits for the device that fills the stand-ins. */
static ucc_status_t wait_filled(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_devices_t *devices = op->team->devices;
    if (is_filled(part)) {
        return filled(op);
    }
    bool looks = op->task.fruitless % HD_WATCH_EVERY == 0 || devices->driver->emulated;
    if (looks && hd_line_has_failed(devices, part->wait[0].line) &&
        !hd_line_reached(&part->wait[0])) {
        hd_group_poison(op->group, UCC_ERR_IO_ERROR);
    }
    return UCC_INPROGRESS;
}

/* The frame's `copy_in`: first the stream of a member that is held comes to its post, then the
 * stand-ins are filled. */
static ucc_status_t copy_in(hd_op_t *op) {
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

static ucc_status_t take_stand_ins(hd_op_t *op) {
    region_t region[HD_SIDES];
    uint32_t n = find_regions(op, region);
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = take_stand_in(op, &region[i]);
    }
    return status;
}

static ucc_status_t enter(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_device_begin_part(op);
    keep_users(op);
    ucc_status_t status = take_stand_ins(op);
    part->held = status == UCC_OK && hd_device_hold(op) == UCC_INPROGRESS;
    if (status == UCC_OK && !part->held) {
        status = fill(op);
    }
    if (status < 0) {
        hd_device_span_fail(op, status);
    }
    if (part->held ||
        (status < 0 && part->waits)) { /* the operation ends when the device is done */
        status = UCC_INPROGRESS;
    } else if (status == UCC_OK) {
        status = is_filled(part) ? filled(op) : UCC_INPROGRESS;
    }
    hd_gpu_handed_over(part);
    return status;
}

static void undo(hd_op_t *op) {
    restore_users(op);
    hd_device_undo(op);
}

/* Has what has come copied to where it belongs, and lets the stream come after that. */
static ucc_status_t drain(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    region_t region[HD_SIDES];
    part->own.recorded = false;
    touch_used(op, true);
    ucc_status_t status = copy_regions(op, region, find_regions(op, region), false);
    if (status == UCC_OK && part->order.is) {
        status = hd_device_join(op, &part->own, 1);
    }
    if (status == UCC_OK && part->waits && hd_device_is_told_by_stream(part) &&
        hd_device_leave_stand_ins(op, &part->wait[0])) {
        part->waits = 0;
    }
    return status;
}

/* Ends the operation: outside its own device, nobody uses the stand-ins any more. */
static ucc_status_t finish(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    bool filling = op->phase == HD_PHASE_COPY_IN;
    restore_users(op);
    if (hd_group_is_inherited(op->group)) { /* what is enqueued is the parent's */
        return status == UCC_OK ? hd_group_poisoned(op->group) : status;
    }
    hd_gpu_taken_over(part);
    bool over = status == UCC_OK;
    if (over) {
        status = drain(op);
    }
    if (status != UCC_OK && (over || filling)) {
        hd_device_span_fail(op, status);
    }
    return hd_device_await(op, status);
}

static const hd_frame_t frame = {.needs = HD_DEVICE_NEEDS,
                                 .enter = enter,
                                 .copy_in = copy_in,
                                 .undo = undo,
                                 .finish = finish,
                                 .copy_out = hd_device_complete,
                                 .drop = hd_device_drop};

/* --- which way ------------------------------------------------------------------------------- */

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
    if (!op->team->crossing) {
        hd_device_plan_here(op, plan);
    } else if (hd_device_is_pipelined(op, plan)) {
        hd_device_pipeline_plan(op, plan);
    } else {
        plan->where = HD_BY_STAND_INS;
        plan->express = false;
    }
}

void hd_device_follow(hd_op_t *op) {
    if (op->plan.where == HD_ON_DEVICES) {
        hd_device_follow_here(op);
    } else if (op->plan.where == HD_ON_BOTH) {
        op->start = hd_device_pipeline_start;
        op->frame = &hd_device_pipeline_frame;
    } else {
        op->frame = &frame;
    }
}
