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
 * Between the steps events order the streams: a step waits for those that have recorded theirs
 * before, in the same slot: each wait is for what has been enqueued above it. Fills and drains of
 * both slots overlap. While the line's lock is held, nobody else uses its bounce memory; what the
 * last collective still does there is waited for by the first fills (FREE). In the end the line's
 * stream waits for all others (END), so that its ticket is everybody's.
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

static uint8_t *slot_at(const hd_trip_t *t, size_t offset) {
    return (uint8_t *)t->bounce->block->memory + t->slot * (size_t)SLOT_BYTES + offset;
}

/* --- streams and events ---------------------------------------------------------------------- */

/* Before the device writes to this slot: lets its line wait for all that has used the slot. */
static void await_free(hd_trip_t *t, hd_line_t *line) {
    for (int d = 0; d < (int)t->driver->devices; d++) {
        hd_mark_t *marks[] = {&t->bounce->filled[t->slot][d], &t->bounce->drained[t->slot][d]};
        for (int i = 0; i < 2; i++) {
            if (t->status == UCC_OK && marks[i]->recorded && d != line->stream.device) {
                hd_trip_note(t, t->driver->wait(line->stream, marks[i]->event, HD_GPU_SITE_FREE));
            }
        }
    }
}

/* Before the device reads this slot: lets its line wait for those that have filled it in this
 * window. */
static void await_filled(hd_trip_t *t, hd_line_t *line, uint64_t by) {
    for (int d = 0; d < (int)t->driver->devices; d++) {
        if (t->status == UCC_OK && by >> d & 1 && d != line->stream.device) {
            hd_trip_note(t, t->driver->wait(line->stream, t->bounce->filled[t->slot][d].event,
                                            HD_GPU_SITE_FILLED));
        }
    }
}

/* --- rows of one device, in launches that need no table -------------------------------------- */

static void launch_run(hd_trip_t *t, hd_device_rows_t *run) {
    run->status = t->status;
    hd_device_launch_rows(t->driver, run);
    if (run->launches) {
        t->used |= UINT64_C(1) << run->line->stream.device;
    }
    hd_trip_note(t, run->status);
}

static void add_row(hd_trip_t *t, hd_device_rows_t *run, const void *src, void *dst, size_t bytes,
                    bool swap) {
    if (run->n == HD_DEVICE_ROWS) {
        launch_run(t, run);
    }
    run->row[run->n++] = (hd_gpu_row_t){.src = src, .dst = dst, .bytes = bytes, .swap = swap};
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

enum { PIECES = 256 };

/* A part of a block in the slot. Others of the same source follow it without being filled again. */
typedef struct piece {
    const uint8_t *src;
    uint8_t *dst;
    size_t bytes, at, back; /* back: of a swap, where the destination's bytes are in the slot */
    int from, to;           /* devices */
    bool fills, swap;
} piece_t;

typedef struct packing {
    hd_trip_t *t;
    hd_device_move_t last; /* the last one that was packed: its source is in the slot */
    bool has_last;
    size_t used; /* bytes of the slot */
    uint32_t n;
    piece_t piece[PIECES];
} packing_t;

static void fill_device(packing_t *p, hd_line_t *line) {
    hd_trip_t *t = p->t;
    int d = line->stream.device;
    hd_device_rows_t run = {.line = line};
    await_free(t, line);
    for (uint32_t i = 0; i < p->n; i++) {
        const piece_t *piece = &p->piece[i];
        if (piece->fills && piece->from == d) {
            add_row(t, &run, piece->src, slot_at(t, piece->at), piece->bytes, false);
        }
        if (piece->swap && piece->to == d) {
            add_row(t, &run, piece->dst, slot_at(t, piece->back), piece->bytes, false);
        }
    }
    launch_run(t, &run);
    hd_trip_mark(t, &t->bounce->filled[t->slot][d], line);
}

static void drain_device(packing_t *p, hd_line_t *line) {
    hd_trip_t *t = p->t;
    int d = line->stream.device;
    hd_device_rows_t run = {.line = line};
    await_filled(t, line, t->fills);
    for (uint32_t i = 0; i < p->n; i++) {
        const piece_t *piece = &p->piece[i];
        if (piece->to == d) {
            add_row(t, &run, slot_at(t, piece->at), piece->dst, piece->bytes, false);
        }
        if (piece->swap && piece->from == d) {
            void *src = (void *)(uintptr_t)piece->src;
            add_row(t, &run, slot_at(t, piece->back), src, piece->bytes, false);
        }
    }
    launch_run(t, &run);
    hd_trip_mark(t, &t->bounce->drained[t->slot][d], line);
}

static void each_device(packing_t *p, uint64_t devices,
                        void (*does)(packing_t *p, hd_line_t *line)) {
    for (int d = 0; d < (int)p->t->driver->devices; d++) {
        hd_line_t *line = devices >> d & 1 ? hd_trip_line(p->t, d) : NULL;
        if (line && p->t->status == UCC_OK) {
            does(p, line);
        }
    }
}

/* Enqueues a window: the slot is full, or there is no more to pack. */
static void flush(packing_t *p) {
    hd_trip_t *t = p->t;
    t->fills = t->drains = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const piece_t *piece = &p->piece[i];
        t->fills |= piece->fills || piece->swap ? UINT64_C(1) << piece->from : 0;
        t->fills |= piece->swap ? UINT64_C(1) << piece->to : 0;
        t->drains |= UINT64_C(1) << piece->to;
        t->drains |= piece->swap ? UINT64_C(1) << piece->from : 0;
    }
    if (p->n) {
        each_device(p, t->fills, fill_device);
        each_device(p, t->drains, drain_device);
        t->slot = (t->slot + 1) % SLOTS;
    }
    p->n = 0;
    p->used = 0;
    p->has_last = false;
}

static size_t rounded(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void add_piece(packing_t *p, const hd_device_move_t *move, int from, int to) {
    for (size_t done = 0; done < move->bytes && p->t->status == UCC_OK;) {
        bool again = p->has_last && p->last.src == move->src && p->last.bytes == move->bytes &&
                     move->bytes <= SLOT_BYTES / 2 && !move->swap;
        size_t copies = move->swap ? 2 : 1;
        size_t room = (SLOT_BYTES - p->used) / copies / ALIGN * ALIGN;
        if (p->n == PIECES || (!again && (room == 0 || (done == 0 && room < move->bytes &&
                                                        p->used > SLOT_BYTES / 2)))) {
            flush(p);
            continue;
        }
        size_t left = move->bytes - done, bytes = again || left < room ? left : room;
        piece_t *piece = &p->piece[p->n++];
        *piece = (piece_t){.src = (const uint8_t *)move->src + done,
                           .dst = (uint8_t *)move->dst + done,
                           .bytes = bytes,
                           .at = again ? p->piece[p->n - 2].at : p->used,
                           .from = from,
                           .to = to,
                           .fills = !again,
                           .swap = move->swap};
        piece->back = piece->at + rounded(bytes);
        p->used += again ? 0 : rounded(bytes) * copies;
        hd_assert_le(p->used, SLOT_BYTES);
        done += bytes;
        p->has_last = bytes == move->bytes && !move->swap;
        p->last = *move;
    }
}

/* Moves a block straight to its place, by a device that reaches both. */
static void move_directly(hd_trip_t *t, const hd_device_move_t *move, int device) {
    hd_line_t *line = hd_trip_line(t, device);
    if (line) {
        hd_device_rows_t run = {.line = line};
        add_row(t, &run, move->src, move->dst, move->bytes, move->swap);
        launch_run(t, &run);
    }
}

static void take_move(void *arg, const hd_device_move_t *move) {
    packing_t *p = arg;
    hd_trip_t *t = p->t;
    const hd_device_side_t *src = hd_device_side_of(t->v, move->from, HD_SIDE_SRC);
    const hd_device_side_t *dst = hd_device_side_of(t->v, move->to, HD_SIDE_DST);
    if (move->swap) { /* a swap is of two results */
        src = hd_device_side_of(t->v, move->from, HD_SIDE_DST);
    }
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
        add_piece(p, move, from, to);
    }
}

static void move_in_windows(hd_trip_t *t) {
    packing_t p = {.t = t};
    ucc_status_t status = hd_device_each_move(t->v, take_move, &p);
    hd_trip_note(t, status);
    flush(&p);
}

/* --- reductions: windows of elements --------------------------------------------------------- */

/* Operands and results of a reduction, and where they are in a slot: region r begins at r * region
 * bytes. */
typedef struct pointers {
    hd_trip_t *t;
    const hd_op_t *op;
    uint32_t k, m;
    const void **src;                  /* k: where the kernel reads them in a window */
    void **dst;                        /* m */
    uint32_t *src_region, *dst_region; /* k, m; UINT32_MAX: reached where it is */
    const uint32_t *to;                /* m: whose results these are */
    uint32_t regions, shared;          /* shared: one region for all results; UINT32_MAX: none */
    size_t region;                     /* bytes */
} pointers_t;

static const uint8_t *source_at(const pointers_t *p, uint32_t i, size_t at) {
    return (const uint8_t *)p->t->v->work->src[i] + at;
}

static void choose_regions(pointers_t *p, bool scans) {
    hd_trip_t *t = p->t;
    for (uint32_t i = 0; i < p->k; i++) {
        bool there = reaches(t, t->v->device, hd_device_side_of(t->v, i, HD_SIDE_SRC));
        p->src_region[i] = there ? UINT32_MAX : p->regions++;
    }
    p->shared = UINT32_MAX;
    for (uint32_t j = 0; j < p->m; j++) {
        /* the first member of an exscan has no result */
        bool none = scans && !hd_holds(hd_coll[p->op->call.type].result_at, false, p->to[j]);
        bool there =
            none || reaches(t, t->v->device, hd_device_side_of(t->v, p->to[j], HD_SIDE_DST));
        if (there) {
            p->dst_region[j] = UINT32_MAX;
        } else if (scans || p->shared == UINT32_MAX) {
            p->dst_region[j] = p->shared = p->regions++;
        } else {
            p->dst_region[j] = p->shared;
        }
    }
    p->region = SLOT_BYTES / (p->regions ? p->regions : 1) / ALIGN * ALIGN;
}

static void fill_sources(pointers_t *p, int device, size_t at, size_t bytes) {
    hd_trip_t *t = p->t;
    hd_line_t *line = NULL;
    hd_device_rows_t run = {.n = 0};
    for (uint32_t i = 0; i < p->k; i++) {
        if (p->src_region[i] == UINT32_MAX ||
            home_of(hd_device_side_of(t->v, i, HD_SIDE_SRC)) != device) {
            continue;
        }
        if (!line) {
            run.line = line = hd_trip_line(t, device);
            if (!line) {
                return;
            }
            await_free(t, line);
        }
        add_row(t, &run, source_at(p, i, at), slot_at(t, p->src_region[i] * p->region), bytes,
                false);
    }
    if (line) {
        launch_run(t, &run);
        hd_trip_mark(t, &t->bounce->filled[t->slot][device], line);
        t->fills |= UINT64_C(1) << device;
    }
}

/* Drains results to where members have them, `to_at` bytes from the beginning. */
static void drain_results(pointers_t *p, int device, size_t to_at, size_t bytes) {
    hd_trip_t *t = p->t;
    hd_line_t *line = NULL;
    hd_device_rows_t run = {.n = 0};
    for (uint32_t j = 0; j < p->m; j++) {
        if (p->dst_region[j] == UINT32_MAX ||
            home_of(hd_device_side_of(t->v, p->to[j], HD_SIDE_DST)) != device) {
            continue;
        }
        if (!line) {
            run.line = line = hd_trip_line(t, device);
            if (!line) {
                return;
            }
            await_filled(t, line, UINT64_C(1) << t->v->device);
        }
        add_row(t, &run, slot_at(t, p->dst_region[j] * p->region),
                (uint8_t *)t->v->work->dst[p->to[j]] + to_at, bytes, false);
    }
    if (line) {
        launch_run(t, &run);
        hd_trip_mark(t, &t->bounce->drained[t->slot][device], line);
    }
}

/* Lists where the kernel reads operands in this window, and where it writes results: returns how
 * many of these there are. *stored: some of them go to the slot. */
static uint32_t list_pointers(pointers_t *p, size_t at, size_t to_at, bool scans, bool *stored) {
    hd_trip_t *t = p->t;
    uint32_t distinct = 0;
    *stored = false;
    for (uint32_t i = 0; i < p->k; i++) {
        p->src[i] = p->src_region[i] == UINT32_MAX ? source_at(p, i, at)
                                                   : slot_at(t, p->src_region[i] * p->region);
    }
    for (uint32_t j = 0; j < p->m; j++) {
        bool away = p->dst_region[j] != UINT32_MAX;
        if (away && !scans && *stored) {
            continue; /* one result is there for all that don't reach theirs */
        }
        *stored = *stored || away;
        p->dst[distinct++] = away ? (void *)slot_at(t, p->dst_region[j] * p->region)
                                  : (uint8_t *)t->v->work->dst[p->to[j]] + to_at;
    }
    return distinct;
}

/* Reduces the bytes of all operands from `at` on, to results `to_at` bytes from their beginning. */
static void reduce_window(pointers_t *p, size_t at, size_t to_at, size_t bytes, bool scans) {
    hd_trip_t *t = p->t;
    const hd_call_t *call = &p->op->call;
    bool stored;
    hd_assert_le(p->regions * p->region, SLOT_BYTES);
    hd_assert_le(bytes, p->region);
    t->fills = 0;
    for (int d = 0; d < (int)t->driver->devices && t->status == UCC_OK; d++) {
        fill_sources(p, d, at, bytes);
    }
    hd_gpu_reduction_t what = {.dt = call->reducer.dt,
                               .op = call->reducer.op,
                               .n = p->k,
                               .k = p->k,
                               .m = list_pointers(p, at, to_at, scans, &stored),
                               .form = HD_GPU_TO_ALL,
                               .src = p->src,
                               .dst = p->dst,
                               .count = bytes / call->element};
    await_filled(t, t->line, t->fills);
    if (stored) {
        await_free(t, t->line);
    }
    hd_trip_reduce(t, t->line, &what, (hd_gpu_width_t){.blocks = t->line->info.width});
    if (p->regions) {
        hd_trip_mark(t, &t->bounce->filled[t->slot][t->v->device], t->line);
    }
    for (int d = 0; d < (int)t->driver->devices && t->status == UCC_OK; d++) {
        drain_results(p, d, to_at, bytes);
    }
    t->slot = (t->slot + 1) % SLOTS;
}

/* Reduces so many elements from `first` on, for these members. */
static void reduce_range(pointers_t *p, size_t first, size_t count, const uint32_t *to,
                         uint32_t m) {
    hd_trip_t *t = p->t;
    size_t element = p->op->call.element;
    bool scans = hd_coll[p->op->call.type].prefix;
    p->to = to;
    p->m = m;
    p->regions = 0;
    choose_regions(p, scans);
    size_t step = p->region / element;
    if (step == 0) {
        hd_error("%s: too many endpoints for devices that don't reach each other's memory",
                 hd_op_type_name(p->op));
        hd_trip_note(t, UCC_ERR_NOT_SUPPORTED);
    }
    for (size_t done = 0; done < count && t->status == UCC_OK; done += step) {
        size_t part = count - done < step ? count - done : step;
        reduce_window(p, (first + done) * element, done * element, part * element, scans);
    }
}

static void reduce_blocks(pointers_t *p) {
    const hd_call_t *call = &p->op->call;
    for (uint32_t d = 0; d < p->k; d++) {
        bool vector = hd_coll[call->type].vector;
        size_t block = call->bytes / call->element;
        size_t first = vector ? hd_vector_displacement(&call->receive, d) : d * block;
        reduce_range(p, first, vector ? hd_vector_count(&call->receive, d) : block, &d, 1);
    }
}

static void reduce_in_windows(hd_trip_t *t) {
    const hd_op_t *op = t->v->op;
    const hd_call_t *call = &op->call;
    uint32_t n = op->place.n;
    pointers_t p = {.t = t, .op = op, .k = n};
    uint8_t *scratch = hd_device_scratch(t->v, n * (2 * sizeof(void *) + 3 * sizeof(uint32_t)));
    if (!scratch) {
        hd_trip_note(t, UCC_ERR_NO_MEMORY);
        return;
    }
    p.src = (const void **)(void *)scratch;
    p.dst = (void **)(void *)(scratch + n * sizeof(void *));
    p.src_region = (uint32_t *)(void *)(scratch + 2 * n * sizeof(void *));
    p.dst_region = p.src_region + n;
    uint32_t *all = p.dst_region + n;
    for (uint32_t i = 0; i < n; i++) {
        all[i] = i;
    }
    size_t count = call->bytes / call->element;
    if (hd_coll[call->type].rooted) {
        reduce_range(&p, 0, count, &call->root, 1);
    } else if (hd_coll[call->type].source == HD_BLOCKS) {
        reduce_blocks(&p);
    } else {
        reduce_range(&p, 0, count, all, n);
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

/* Finds the line's bounce memory, which is made when it is first needed. On an error it may be
 * there without a block, which the next caller tries to take. */
static ucc_status_t find_bounce(const hd_device_view_t *v, hd_line_t *line, hd_bounce_t **out) {
    hd_bounce_t *bounce = (hd_bounce_t *)(void *)line->memory[HD_LINE_BOUNCE];
    if (!bounce) {
        bounce = hd_alloc(HD_LINE, sizeof(*bounce));
        if (!bounce) {
            hd_error("%s: no memory to pass data on between devices", hd_op_type_name(v->op));
            return UCC_ERR_NO_MEMORY;
        }
        bounce->memory.put = put_bounce;
        line->memory[HD_LINE_BOUNCE] = &bounce->memory;
    }
    *out = bounce;
    return bounce->block ? UCC_OK
                         : v->devices->driver->take(v->device, HD_GPU_PINNED,
                                                    SLOTS * (size_t)SLOT_BYTES, &bounce->block);
}

ucc_status_t hd_device_enqueue_windows(const hd_device_view_t *v, hd_line_t *line) {
    hd_bounce_t *bounce;
    ucc_status_t status = find_bounce(v, line, &bounce);
    if (status != UCC_OK) {
        return status;
    }
    hd_trip_t t = hd_trip_begin(v, line, bounce->end);
    t.bounce = bounce;
    for (int s = 0; s < SLOTS; s++) {
        t.left[s] = bounce->drained[s];
    }
    if (hd_coll[v->op->call.type].reducing) {
        reduce_in_windows(&t);
    } else {
        move_in_windows(&t);
    }
    return hd_trip_join(&t);
}
