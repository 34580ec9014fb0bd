/* windows.c: collectives on devices that don't reach each other's memory: by way of pinned memory,
 * which all of them reach, window by window.
 *
 * One claimer enqueues all of it, on the lines' streams of all devices that have a buffer. The
 * bounce memory has two slots; a window goes through one of them:
 *
 *     fill     each device copies what its buffers have to give that others don't reach into the
 *              slot
 *     combine  (reductions) the working device reduces: what it reaches from where it is, the rest
 *              from the slot; results go straight to where it reaches, and to the slot for others
 *     drain    each device copies from the slot what its buffers are to get
 *
 * Between the steps, events order the streams: a step waits for those that have recorded theirs in
 * the same slot before, which is all enqueued by then. Fills and drains of both slots overlap. What
 * the line's last collective still does in its bounce memory, the first fills wait for (FREE). In
 * the end the line's stream waits for all others (END), so that its ticket is everybody's.
 *
 * Launches here have as many words as their arguments hold, but for reductions of many operands:
 * each of them gets its ticket at once, so that its table can be used again in the same collective.
 */
#include "device/internal.h"

enum { SLOTS = 2, SLOT_BYTES = 4 * 1024 * 1024, ALIGN = 256 };

typedef struct hd_bounce {
    hd_line_memory_t memory; /* must stay first */
    hd_gpu_block_t *block;
    /* By slot and device: tells when it has last filled or combined, or drained, there. */
    hd_mark_t filled[SLOTS][HD_GPU_DEVICES], drained[SLOTS][HD_GPU_DEVICES];
    hd_mark_t end[HD_GPU_DEVICES];
} hd_bounce_t;

_Static_assert(offsetof(hd_bounce_t, memory) == 0, "a line knows it by that, and frees it");

/* Bytes that a device copies from a buffer into the slot (fills), or from there to a buffer. */
typedef struct hop {
    void *buffer;
    size_t at, bytes; /* at: in the slot */
    int device;
    bool fills;
} hop_t;

enum { HOPS = 512 /* of a window of moves; one of a reduction has as many as it needs */ };

/* A collective that goes by windows, and what is known of the one that is being described. */
typedef struct windows {
    hd_trip_t trip;
    hd_bounce_t *bounce;
    uint32_t slot;
    hop_t *hop; /* in the slice's scratch */
    uint32_t n;
    uint64_t fills, drains; /* devices that do so, by bit */
    /* of moves */
    size_t used;           /* bytes of the slot */
    hd_device_move_t last; /* its source is in the slot, at last_at; no bytes: none is */
    size_t last_at;
} windows_t;

/* --- a window -------------------------------------------------------------------------------- */

static void *slot_at(const windows_t *w, size_t at) {
    return (uint8_t *)w->bounce->block->memory + w->slot * (size_t)SLOT_BYTES + at;
}

static void begin_window(windows_t *w) {
    w->n = 0;
    w->fills = w->drains = 0;
}

/* Adds a hop, and returns its place in the slot. */
static void *add_hop(windows_t *w, hop_t hop) {
    *(hop.fills ? &w->fills : &w->drains) |= UINT64_C(1) << hop.device;
    w->hop[w->n++] = hop;
    return slot_at(w, hop.at);
}

/* Before the device writes to this slot: lets its line wait for all that has used the slot. */
static void await_free(windows_t *w, const hd_line_t *line) {
    const hd_mark_t *marks[] = {w->bounce->filled[w->slot], w->bounce->drained[w->slot]};
    for (int i = 0; i < 2; i++) {
        hd_trip_await(&w->trip, line, marks[i], UINT64_MAX, HD_GPU_SITE_FREE);
    }
}

/* Before the device reads this slot: lets its line wait for those that have filled it in this
 * window. */
static void await_filled(windows_t *w, const hd_line_t *line) {
    hd_trip_await(&w->trip, line, w->bounce->filled[w->slot], w->fills, HD_GPU_SITE_FILLED);
}

static hd_device_rows_t rows_on(const hd_trip_t *t, const hd_line_t *line) {
    return (hd_device_rows_t){.driver = t->driver, .line = line, .status = t->status};
}

static void launch_rows(hd_trip_t *t, hd_device_rows_t *rows) {
    hd_device_launch_rows(rows);
    t->used |= (uint64_t)(rows->launches > 0) << rows->line->stream.device;
    hd_trip_note(t, rows->status);
}

static void copy_hops_on(windows_t *w, const hd_line_t *line, bool fills) {
    hd_device_rows_t rows = rows_on(&w->trip, line);
    for (uint32_t i = 0; i < w->n; i++) {
        const hop_t *hop = &w->hop[i];
        void *slot = slot_at(w, hop->at);
        if (hop->device == line->stream.device && hop->fills == fills) {
            hd_device_add_row(&rows, (hd_gpu_row_t){.src = fills ? hop->buffer : slot,
                                                    .dst = fills ? slot : hop->buffer,
                                                    .bytes = hop->bytes});
        }
    }
    launch_rows(&w->trip, &rows);
}

/* Enqueues the hops of each device into the slot, or those out of it. */
static void copy_hops(windows_t *w, bool fills) {
    hd_trip_t *t = &w->trip;
    uint64_t devices = fills ? w->fills : w->drains;
    hd_mark_t *mark = fills ? w->bounce->filled[w->slot] : w->bounce->drained[w->slot];
    for (int d = 0; d < (int)t->driver->devices && t->status == UCC_OK; d++) {
        hd_line_t *line = devices >> d & 1 ? hd_trip_line(t, d) : NULL;
        if (line) {
            (fills ? await_free : await_filled)(w, line);
            copy_hops_on(w, line, fills);
            hd_trip_mark(t, &mark[d], line);
        }
    }
}

/* --- where buffers are ----------------------------------------------------------------------- */

/* Returns a device that surely reaches the memory (for pinned memory, see hd_devices_have_pinned).
 * -1: all do. */
static int home_of(const hd_device_side_t *side) {
    return side->stand_in ? -1 : side->memory.device;
}

static bool reaches(hd_trip_t *t, int device, const hd_device_side_t *side) {
    bool yes = true;
    if (home_of(side) >= 0) {
        hd_trip_note(t, hd_devices_reach(t->v->devices, device, &side->memory, side->at, &yes));
    }
    return yes;
}

/* --- moves: blocks are packed into windows --------------------------------------------------- */

/* Enqueues a window: the slot is full, or there is no more to pack. */
static void flush(windows_t *w) {
    if (w->n) {
        copy_hops(w, true);
        copy_hops(w, false);
        w->slot = (w->slot + 1) % SLOTS;
    }
    begin_window(w);
    w->used = w->last.bytes = 0;
}

static size_t rounded(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Packs a block, in pieces if it is large. A source that others get as well is filled once. */
static void pack(windows_t *w, const hd_device_move_t *move, int from, int to) {
    size_t copies = move->swap ? 2 : 1, bytes;
    for (size_t done = 0; done < move->bytes && w->trip.status == UCC_OK; done += bytes) {
        size_t left = move->bytes - done, room = (SLOT_BYTES - w->used) / copies / ALIGN * ALIGN;
        bool again = w->last.src == move->src && w->last.bytes == move->bytes && !move->swap;
        bool later = done == 0 && room < left && w->used > SLOT_BYTES / 2;
        bytes = 0;
        if (w->n + 2 * copies > HOPS || (!again && (room == 0 || later))) {
            flush(w);
            continue;
        }
        bytes = again || left < room ? left : room;
        uint8_t *src = (uint8_t *)(uintptr_t)move->src + done, *dst = (uint8_t *)move->dst + done;
        size_t at = again ? w->last_at : w->used, back = at + rounded(bytes);
        if (!again) {
            add_hop(w, (hop_t){src, at, bytes, from, true});
            w->used += rounded(bytes) * copies;
        }
        add_hop(w, (hop_t){dst, at, bytes, to, false});
        if (move->swap) {
            add_hop(w, (hop_t){dst, back, bytes, to, true});
            add_hop(w, (hop_t){src, back, bytes, from, false});
        }
        hd_assert_le(w->used, SLOT_BYTES);
        w->last = *move;
        w->last.bytes = bytes == move->bytes && !move->swap ? bytes : 0;
        w->last_at = at;
    }
}

/* Moves a block straight to its place, by a device that reaches both. */
static void move_directly(hd_trip_t *t, const hd_device_move_t *move, int device) {
    hd_line_t *line = hd_trip_line(t, device);
    if (line) {
        hd_device_rows_t rows = rows_on(t, line);
        hd_device_add_row(&rows, (hd_gpu_row_t){move->src, move->dst, move->bytes, move->swap});
        launch_rows(t, &rows);
    }
}

static void take_move(void *arg, const hd_device_move_t *move) {
    windows_t *w = arg;
    hd_trip_t *t = &w->trip;
    /* a swap is of two results */
    const hd_device_side_t *src =
        hd_device_side_of(t->v, move->from, move->swap ? HD_SIDE_DST : HD_SIDE_SRC);
    const hd_device_side_t *dst = hd_device_side_of(t->v, move->to, HD_SIDE_DST);
    int from = home_of(src), to = home_of(dst);
    from = from < 0 ? (to < 0 ? t->v->device : to) : from;
    to = to < 0 ? from : to;
    if (t->status != UCC_OK) {
        return;
    }
    if (from == to || reaches(t, to, src)) {
        move_directly(t, move, to);
    } else if (reaches(t, from, dst)) {
        move_directly(t, move, from);
    } else {
        pack(w, move, from, to);
    }
}

static void move_in_windows(windows_t *w) {
    w->hop = hd_device_scratch(w->trip.v, HOPS * sizeof(*w->hop));
    hd_trip_note(&w->trip,
                 w->hop ? hd_device_each_move(w->trip.v, take_move, w) : UCC_ERR_NO_MEMORY);
    flush(w);
}

/* --- reductions: windows of elements --------------------------------------------------------- */

/* A reduction of all operands for some of the members. What the working device does not reach has a
 * region of the slot: each operand, and each result of a scan; all others are one. */
typedef struct reduction {
    windows_t *w;
    const hd_op_t *op;
    uint32_t n, to, m; /* operands; the first member that gets a result; so many do */
    bool scans;
    uint32_t regions;
    size_t region;    /* bytes */
    const void **src; /* n: where the kernel reads them in a window */
    void **dst;       /* where it writes */
} reduction_t;

/* Lists where the kernel reads operands in this window, and where it writes results, with hops for
 * what it does not reach. Returns how many results it writes. */
static uint32_t list_window(reduction_t *r, size_t at, size_t to_at, size_t bytes) {
    hd_trip_t *t = &r->w->trip;
    const hd_work_t *work = t->v->work;
    uint32_t results = 0, shared = UINT32_MAX;
    begin_window(r->w);
    r->regions = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const hd_device_side_t *side = hd_device_side_of(t->v, i, HD_SIDE_SRC);
        uint8_t *src = (uint8_t *)(uintptr_t)work->src[i] + at;
        r->src[i] = src;
        if (!reaches(t, t->v->device, side)) {
            size_t region = r->regions++ * r->region;
            r->src[i] = add_hop(r->w, (hop_t){src, region, bytes, home_of(side), true});
        }
    }
    for (uint32_t i = r->to; i < r->to + r->m; i++) {
        const hd_device_side_t *side = hd_device_side_of(t->v, i, HD_SIDE_DST);
        uint8_t *dst = (uint8_t *)work->dst[i] + to_at;
        /* the first member of an exscan has no result */
        bool has = !r->scans || hd_holds(hd_coll[r->op->call.type].result_at, false, i);
        if (!has || reaches(t, t->v->device, side)) {
            r->dst[results++] = dst;
            continue;
        }
        if (r->scans || shared == UINT32_MAX) {
            shared = r->regions++;
            r->dst[results++] = slot_at(r->w, shared * r->region);
        }
        add_hop(r->w, (hop_t){dst, shared * r->region, bytes, home_of(side), false});
    }
    return results;
}

/* Reduces the bytes of all operands from `at` on, to results `to_at` bytes from their beginning. */
static void reduce_window(reduction_t *r, size_t at, size_t to_at, size_t bytes) {
    windows_t *w = r->w;
    hd_trip_t *t = &w->trip;
    const hd_call_t *call = &r->op->call;
    hd_assert_le(bytes, r->region);
    hd_gpu_reduction_t what = hd_device_reduction(call, 0, bytes / call->element);
    what.n = what.k = r->n;
    what.m = list_window(r, at, to_at, bytes);
    if (t->status != UCC_OK) {
        return;
    }
    what.src = r->src;
    what.dst = r->dst;
    hd_assert_le(r->regions * r->region, SLOT_BYTES);
    copy_hops(w, true);
    await_filled(w, t->line);
    if (w->drains) {
        await_free(w, t->line);
    }
    hd_trip_reduce(t, t->line, &what, (hd_gpu_width_t){.blocks = t->line->info.width});
    if (r->regions) {
        hd_trip_mark(t, &w->bounce->filled[w->slot][t->v->device], t->line);
    }
    w->fills = UINT64_C(1) << t->v->device;
    copy_hops(w, false);
    w->slot = (w->slot + 1) % SLOTS;
}

/* Reduces so many elements from `first` on, for m members from `to` on. */
static void reduce_range(reduction_t *r, uint32_t to, uint32_t m, size_t first, size_t count) {
    hd_trip_t *t = &r->w->trip;
    size_t element = r->op->call.element;
    r->to = to;
    r->m = m;
    r->region = 0;
    list_window(r, 0, 0, 0); /* this counts the regions */
    r->region = SLOT_BYTES / (r->regions ? r->regions : 1) / ALIGN * ALIGN;
    size_t step = r->region / element;
    if (step == 0) {
        hd_error("%s: too many endpoints for devices that don't reach each other's memory",
                 hd_op_type_name(r->op));
        hd_trip_note(t, UCC_ERR_NOT_SUPPORTED);
    }
    for (size_t done = 0; done < count && t->status == UCC_OK; done += step) {
        size_t part = count - done < step ? count - done : step;
        reduce_window(r, (first + done) * element, done * element, part * element);
    }
}

static void reduce_in_windows(windows_t *w) {
    const hd_op_t *op = w->trip.v->op;
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint32_t n = op->place.n;
    reduction_t r = {.w = w, .op = op, .n = n, .scans = coll->prefix};
    w->hop = hd_device_scratch(w->trip.v, n * 2 * (sizeof(*w->hop) + sizeof(void *)));
    if (!w->hop) {
        hd_trip_note(&w->trip, UCC_ERR_NO_MEMORY);
        return;
    }
    r.src = (const void **)(void *)(w->hop + 2 * n);
    r.dst = (void **)(void *)(r.src + n);
    size_t count = call->bytes / call->element;
    if (coll->source != HD_BLOCKS) {
        reduce_range(&r, coll->rooted ? call->root : 0, coll->rooted ? 1 : n, 0, count);
        return;
    }
    for (uint32_t d = 0; d < n; d++) {
        const hd_vector_t *blocks = coll->vector ? &call->receive : NULL;
        reduce_range(&r, d, 1, blocks ? hd_vector_displacement(blocks, d) : d * count,
                     blocks ? hd_vector_count(blocks, d) : count);
    }
}

/* --- the whole ------------------------------------------------------------------------------- */

static void put_bounce(hd_devices_t *devices, hd_line_memory_t *memory) {
    hd_bounce_t *bounce = (hd_bounce_t *)(void *)memory;
    hd_marks_put(devices->driver, &bounce->filled[0][0],
                 (sizeof(*bounce) - offsetof(hd_bounce_t, filled)) / sizeof(hd_mark_t));
    if (bounce->block) {
        devices->driver->put(bounce->block);
    }
    hd_free(bounce);
}

ucc_status_t hd_device_enqueue_windows(const hd_device_view_t *v, hd_line_t *line) {
    hd_bounce_t *bounce = hd_line_memory(v->op, line, HD_LINE_BOUNCE, sizeof(*bounce), put_bounce);
    ucc_status_t status = bounce ? UCC_OK : UCC_ERR_NO_MEMORY;
    if (bounce && !bounce->block) {
        status = v->devices->driver->take(v->device, HD_GPU_PINNED, SLOTS * (size_t)SLOT_BYTES,
                                          &bounce->block);
    }
    if (status != UCC_OK) {
        return status;
    }
    windows_t w = {.bounce = bounce, .trip = hd_trip_begin(v, line, bounce->end)};
    for (int s = 0; s < SLOTS; s++) {
        w.trip.left[s] = bounce->drained[s];
    }
    if (hd_coll[v->op->call.type].reducing) {
        reduce_in_windows(&w);
    } else {
        move_in_windows(&w);
    }
    return hd_trip_join(&w.trip);
}
