/* moves.c: what a device does where data is only moved: one launch for its share, and, where large
 * blocks go from one device to another, the driver's copies before it. These are done by the copy
 * engines, so that the multiprocessors are left to others.
 *
 * Where all blocks are of one size, the addresses of the members' buffers are all that a kernel
 * needs, and a share is the same range of bytes of every block: each device reads it from all and
 * writes it to all. Blocks of v types, and those that copies leave to the kernel, are rows of a
 * table. Each belongs to the device of the member that gets it, if one root sends all; of the one
 * that sends it, if all go to one root. Among all, the sender has it; the receiver where there are
 * copies, so that several are on their way to each at once.
 *
 * A block that several endpoints of a device get is copied there once, and from there on by the
 * kernel, which comes after the copies on the same stream. Each device begins with what lies behind
 * its own endpoints, so that not all of them read from the same one at first.
 *
 * Blocks of v types whose sizes don't agree are found here, as by the engine: see shm/work.c.
 */
#include "device/internal.h"

/* Of a device; above that, all is one launch: a copy costs its enqueuer some microseconds. */
enum { MOST_COPIES = 64 };

/* --- block by block -------------------------------------------------------------------------- */

/* Finds what member s sends to member d. False: sizes don't agree (logged by one share). */
static bool find_move(const hd_device_view_t *v, uint32_t s, uint32_t d, hd_device_move_t *move) {
    const hd_coll_t *coll = &hd_coll[v->op->call.type];
    bool swap = coll->pairwise && v->op->call.in_place;
    hd_data_t src = hd_work_given(v->work, s, d), dst = hd_work_taken(v->work, d, s);
    /* A root's own block is there, or is copied, by the count of what it gets. */
    if (coll->flow == HD_TO_ROOT && s == d) {
        src.bytes = dst.bytes;
    }
    *move = (hd_device_move_t){s, d, src.at, dst.at, dst.bytes, swap};
    if (src.bytes != dst.bytes && v->share == 0) {
        hd_op_say_sizes(v->op, s, d, src.bytes, dst.bytes);
    }
    return src.bytes == dst.bytes;
}

ucc_status_t hd_device_each_move(const hd_device_view_t *v, hd_device_each_fn *each, void *arg) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint32_t n = v->op->place.n, own = 0;
    bool swaps = coll->pairwise && call->in_place; /* a pair once, with the lower as the sender */
    while (own + 1 < n && !hd_device_is_mine(v, hd_device_part(v, own)->device)) {
        own++;
    }
    for (uint64_t i = 0; i < (uint64_t)n * n; i++) {
        uint32_t s = (uint32_t)((own + i / n) % n), d = (uint32_t)(i % n);
        hd_device_move_t move;
        if ((coll->flow == HD_FROM_ROOT && s != call->root) ||
            (coll->flow == HD_TO_ROOT && d != call->root) || (swaps && d <= s)) {
            continue;
        }
        if (!find_move(v, s, d, &move)) {
            return UCC_ERR_INVALID_PARAM;
        }
        if (move.bytes && move.src != move.dst) {
            each(arg, &move);
        }
    }
    return UCC_OK;
}

/* --- rows and copies ------------------------------------------------------------------------- */

/* Returns the most rows that this device may have. */
static uint32_t most_rows(const hd_device_view_t *v) {
    uint32_t n = v->op->place.n;
    return v->way == HD_DEVICE_COPIES                       ? v->rows
           : hd_coll[v->op->call.type].flow == HD_AMONG_ALL ? n * n
                                                            : n;
}

/* Goes over all blocks: counts copies and rows, and takes down those of its share if there is
 * memory for them. */
typedef struct sorter {
    const hd_device_view_t *v;
    bool copying;    /* else all blocks are rows */
    uint32_t sender; /* of the block that was copied last, which begins at src */
    const void *src;
    size_t bytes;
    uint64_t is_there;                 /* the owners that have it, by bit */
    const void *there[HD_GPU_DEVICES]; /* by owner: where */
    uint32_t copied[HD_GPU_DEVICES];   /* by owner */
    uint32_t copies, rows;             /* of this share */
    hd_device_copy_t *copy;
    hd_gpu_row_t *row;
} sorter_t;

static int owner_of(const sorter_t *s, const hd_device_move_t *move) {
    uint8_t flow = hd_coll[s->v->op->call.type].flow;
    bool by_sender = flow == HD_TO_ROOT || (flow == HD_AMONG_ALL && !s->copying);
    return hd_device_part(s->v, by_sender ? move->from : move->to)->device;
}

/* Returns the device in whose memory the bytes are. -1: that is not known; blocks of a v type may
 * be anywhere. */
static int device_at(const hd_device_side_t *side, const void *at, size_t bytes) {
    const hd_gpu_memory_t *memory = &side->memory;
    uint64_t offset = (uintptr_t)at - memory->base;
    bool inside =
        memory->kind == HD_GPU_DEVICE && offset <= memory->bytes && bytes <= memory->bytes - offset;
    return inside ? memory->device : -1;
}

/* Returns whether the block goes from one device to another, and is worth a copy. */
static bool is_copy(const sorter_t *s, const hd_device_move_t *move, int *from, int *to) {
    if (!s->copying || move->bytes < hd_device_settings(s->v)->gpu_copy_min) {
        return false;
    }
    *from = device_at(hd_device_side_of(s->v, move->from, HD_SIDE_SRC), move->src, move->bytes);
    *to = device_at(hd_device_side_of(s->v, move->to, HD_SIDE_DST), move->dst, move->bytes);
    return *from >= 0 && *to >= 0 && *from != *to;
}

/* Notes that the owner copies the block. False: it has the block already; moves come by sender, and
 * the same block for several members in a row. */
static bool note_copied(sorter_t *s, const hd_device_move_t *move, int owner) {
    if (s->sender != move->from || s->src != move->src || s->bytes != move->bytes) {
        s->sender = move->from; /* else the number of copies depended on where the walk begins */
        s->src = move->src;
        s->bytes = move->bytes;
        s->is_there = 0;
    }
    if (s->is_there >> owner & 1) {
        return false;
    }
    s->is_there |= UINT64_C(1) << owner;
    s->there[owner] = move->dst;
    s->copied[owner]++;
    return true;
}

static void sort(void *arg, const hd_device_move_t *move) {
    sorter_t *s = arg;
    int owner = owner_of(s, move), from = owner, to = owner;
    bool peers = is_copy(s, move, &from, &to), copies = peers && note_copied(s, move, owner);
    if (!hd_device_is_mine(s->v, owner)) {
        return;
    }
    if (copies && s->copy) {
        hd_assert_lt(s->copies, MOST_COPIES);
        s->copy[s->copies] = (hd_device_copy_t){move->dst, move->src, move->bytes, to, from};
    } else if (!copies && s->row) {
        hd_assert_lt(s->rows, most_rows(s->v));
        s->row[s->rows] =
            (hd_gpu_row_t){peers ? s->there[owner] : move->src, move->dst, move->bytes, move->swap};
    }
    s->copies += copies;
    s->rows += !copies;
}

ucc_status_t hd_device_find_copies(const hd_device_view_t *v, bool *yes, uint32_t *rows) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    bool swaps = coll->pairwise && call->in_place;
    sorter_t s = {.v = v, .copying = true};
    *yes = false;
    if (v->shares < 2 || coll->reducing || swaps ||
        (!coll->vector && call->bytes < hd_device_settings(v)->gpu_copy_min)) {
        return UCC_OK;
    }
    ucc_status_t status = hd_device_each_move(v, sort, &s);
    uint32_t most = 0;
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        most = s.copied[d] > most ? s.copied[d] : most;
    }
    *yes = most > 0 && most <= MOST_COPIES;
    *rows = s.rows;
    return status;
}

static ucc_status_t sort_blocks(const hd_device_view_t *v, hd_device_job_t *job) {
    sorter_t s = {.v = v, .copying = v->way == HD_DEVICE_COPIES};
    size_t copy_bytes = MOST_COPIES * sizeof(*s.copy);
    uint8_t *scratch = hd_device_scratch(v, copy_bytes + most_rows(v) * sizeof(*s.row));
    if (!scratch) {
        return UCC_ERR_NO_MEMORY;
    }
    s.copy = (hd_device_copy_t *)(void *)scratch;
    s.row = (hd_gpu_row_t *)(void *)(scratch + copy_bytes);
    ucc_status_t status = hd_device_each_move(v, sort, &s);
    if (status != UCC_OK) {
        return status;
    }
    job->copy = s.copy;
    job->copies = s.copies;
    return hd_gpu_rows(&job->launch, s.row, s.rows, job->width, &job->table);
}

/* --- blocks of one size ---------------------------------------------------------------------- */

/* The root's own buffer has the data already, and is left out. */
static ucc_status_t bcast(const hd_device_view_t *v, hd_device_job_t *job, hd_gpu_blocks_t what) {
    uint32_t n = v->op->place.n, root = v->op->call.root;
    void **dst = hd_device_scratch(v, n * sizeof(*dst));
    if (!dst) {
        return UCC_ERR_NO_MEMORY;
    }
    what.m = 0;
    what.dst = dst;
    for (uint32_t i = 0; i < n; i++) {
        if (i != root) {
            dst[what.m++] = v->work->dst[i];
        }
    }
    return hd_gpu_spread(&job->launch, &what, job->width, &job->table);
}

static bool is_sorted(const hd_device_view_t *v) {
    return v->way == HD_DEVICE_COPIES || hd_coll[v->op->call.type].vector;
}

uint32_t hd_device_move_words(const hd_device_view_t *v) {
    return is_sorted(v) ? most_rows(v) * HD_GPU_ROW_WORDS : 2 * v->op->place.n;
}

ucc_status_t hd_device_move(const hd_device_view_t *v, hd_device_job_t *job) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint32_t n = v->op->place.n;
    hd_device_range_t range = hd_device_range(call->bytes, 1, v->share, v->shares);
    bool from_root = coll->flow == HD_FROM_ROOT, to_root = coll->flow == HD_TO_ROOT;
    hd_gpu_blocks_t what = {.k = from_root ? 1 : n,
                            .m = to_root ? 1 : n,
                            .src = v->work->src + (from_root ? call->root : 0),
                            .dst = v->work->dst + (to_root ? call->root : 0),
                            .block = call->bytes,
                            .at = range.first,
                            .bytes = range.count};
    if (is_sorted(v)) {
        return sort_blocks(v, job);
    }
    if (coll->bcast) {
        return bcast(v, job, what);
    }
    if (coll->source == HD_BLOCK) {
        return hd_gpu_spread(&job->launch, &what, job->width, &job->table);
    }
    return call->in_place && coll->pairwise
               ? hd_gpu_swaps(&job->launch, &what, job->width, &job->table)
               : hd_gpu_pairs(&job->launch, &what, job->width, &job->table);
}
