/* moves.c: what a device does where data is only moved: one launch for its share, unless large
 * blocks are copied between devices (copies.c).
 *
 * Where all blocks are of one size, the addresses of the members' buffers are all that a kernel
 * needs, and a share is the same range of bytes of every block: each device reads it from all and
 * writes it to all. Blocks of v types are rows of a table, and each belongs to the device of the
 * member that sends it, or of the one that gets it where one root sends all.
 *
 * Blocks of v types whose sizes don't agree are found here, as by the engine: see shm/work.c.
 */
#include "device/internal.h"

enum { GRAIN = 256 }; /* bytes: shares begin at lines of memory, if blocks do */

/* --- blocks of one size ---------------------------------------------------------------------- */

static hd_gpu_blocks_t blocks_of(const hd_device_view_t *v) {
    const hd_call_t *call = &v->op->call;
    size_t at = hd_device_cut(call->bytes, GRAIN, v->share, v->shares);
    return (hd_gpu_blocks_t){.k = v->op->place.n,
                             .m = v->op->place.n,
                             .src = v->work->src,
                             .dst = v->work->dst,
                             .block = call->bytes,
                             .at = at,
                             .bytes =
                                 hd_device_cut(call->bytes, GRAIN, v->share + 1, v->shares) - at};
}

/* The root's own buffer has the data already, and is left out. */
static ucc_status_t bcast(const hd_device_view_t *v, hd_device_job_t *job) {
    const hd_call_t *call = &v->op->call;
    hd_gpu_blocks_t what = blocks_of(v);
    uint32_t n = v->op->place.n;
    void **dst = hd_device_scratch(v, n * sizeof(*dst));
    if (!dst) {
        return UCC_ERR_NO_MEMORY;
    }
    what.k = 1;
    what.m = n - 1;
    what.src = &v->work->src[call->root];
    what.dst = dst;
    for (uint32_t i = 0; i < n; i++) {
        if (i != call->root) {
            *dst++ = v->work->dst[i];
        }
    }
    return hd_gpu_spread(&job->launch, &what, job->width, &job->table);
}

/* --- block by block -------------------------------------------------------------------------- */

typedef struct walk {
    const hd_device_view_t *v;
    hd_device_each_fn *each;
    void *arg;
    ucc_status_t status;
} walk_t;

typedef struct block {
    void *at;
    size_t bytes;
} block_t;

static block_t block_of(const void *buffer, const hd_vector_t *v, uint32_t i, size_t element) {
    return (block_t){hd_at(buffer, hd_vector_displacement(v, i) * element),
                     hd_vector_count(v, i) * element};
}

/* Visits what a member sends to another one, and where that one expects it. */
static void visit(walk_t *w, uint32_t from, uint32_t to, block_t src, block_t dst, bool swap) {
    if (src.bytes != dst.bytes) {
        if (w->status == UCC_OK && w->v->share == 0) { /* one share logs it */
            hd_op_say_sizes(w->v->op, from, to, src.bytes, dst.bytes);
        }
        w->status = UCC_ERR_INVALID_PARAM;
    } else if (src.bytes && src.at != dst.at) {
        hd_device_move_t move = {from, to, src.at, dst.at, src.bytes, swap};
        w->each(w->arg, &move);
    }
}

/* Returns block i of a buffer where all are of one size. */
static block_t even_block(const walk_t *w, const void *buffer, uint32_t i) {
    size_t bytes = w->v->op->call.bytes;
    return (block_t){hd_at(buffer, i * (uint64_t)bytes), bytes};
}

static void visit_gathered(walk_t *w, uint32_t s, uint32_t d) {
    const hd_work_t *work = w->v->work;
    const hd_call_t *to = work->call[d], *from = work->call[s];
    block_t src = {(void *)(uintptr_t)work->src[s], from->bytes}, dst;
    if (hd_coll[to->type].vector) {
        dst = block_of(work->dst[d], &hd_device_part(w->v, d)->receive, s, to->element);
        /* The root's own block is there, or is copied, by its own count. */
        if (s == d && to->is_root) {
            src.bytes = dst.bytes;
        }
    } else {
        dst = even_block(w, work->dst[d], s);
    }
    visit(w, s, d, src, dst, false);
}

static void visit_scattered(walk_t *w, uint32_t root, uint32_t d) {
    const hd_work_t *work = w->v->work;
    const hd_call_t *from = work->call[root];
    block_t src =
        hd_coll[from->type].vector
            ? block_of(work->src[root], &hd_device_part(w->v, root)->send, d, from->element)
            : even_block(w, work->src[root], d);
    visit(w, root, d, src, (block_t){work->dst[d], work->call[d]->bytes}, false);
}

/* In place, a pair is visited once, with the lower of the two as the sender. */
static void visit_pair(walk_t *w, uint32_t s, uint32_t d) {
    const hd_work_t *work = w->v->work;
    const hd_call_t *to = work->call[d], *from = work->call[s];
    bool in_place = w->v->op->call.in_place;
    const void *sent = in_place ? work->dst[s] : work->src[s];
    if (in_place && d <= s) {
        return;
    }
    if (!hd_coll[to->type].vector) {
        visit(w, s, d, even_block(w, sent, d), even_block(w, work->dst[d], s), in_place);
        return;
    }
    const hd_device_part_t *sender = hd_device_part(w->v, s);
    block_t src = in_place ? block_of(sent, &sender->receive, d, from->element)
                           : block_of(sent, &sender->send, d, from->send_element);
    block_t dst = block_of(work->dst[d], &hd_device_part(w->v, d)->receive, s, to->element);
    visit(w, s, d, src, dst, in_place);
}

static void visit_from(walk_t *w, uint32_t s, uint32_t d) {
    const hd_op_t *op = w->v->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    if (coll->bcast) {
        block_t src = {(void *)(uintptr_t)w->v->work->src[s], op->call.bytes};
        visit(w, s, d, src, (block_t){w->v->work->dst[d], op->call.bytes}, false);
    } else if (coll->flow == HD_FROM_ROOT) {
        visit_scattered(w, s, d);
    } else if (coll->pairwise) {
        visit_pair(w, s, d);
    } else {
        visit_gathered(w, s, d);
    }
}

ucc_status_t hd_device_each_move(const hd_device_view_t *v, hd_device_each_fn *each, void *arg) {
    const hd_op_t *op = v->op;
    hd_flow_t flow = (hd_flow_t)hd_coll[op->call.type].flow;
    walk_t walk = {v, each, arg, UCC_OK};
    for (uint32_t s = 0; s < op->place.n; s++) {
        for (uint32_t d = 0; d < op->place.n; d++) {
            if ((flow != HD_FROM_ROOT || s == op->call.root) &&
                (flow != HD_TO_ROOT || d == op->call.root)) {
                visit_from(&walk, s, d);
            }
        }
    }
    return walk.status;
}

/* --- rows ------------------------------------------------------------------------------------ */

typedef struct rows {
    const hd_device_view_t *v;
    hd_gpu_row_t *row;
    uint32_t n;
} rows_t;

/* Returns the most rows that a device may have. */
static size_t most_rows(const hd_device_view_t *v) {
    size_t n = v->op->place.n;
    return hd_coll[v->op->call.type].flow == HD_AMONG_ALL ? n * n : n;
}

static void add_row(void *arg, const hd_device_move_t *move) {
    rows_t *rows = arg;
    bool from_root = hd_coll[rows->v->op->call.type].flow == HD_FROM_ROOT;
    uint32_t owner = from_root ? move->to : move->from;
    if (hd_device_is_mine(rows->v, hd_device_part(rows->v, owner)->device)) {
        hd_assert_lt(rows->n, most_rows(rows->v));
        rows->row[rows->n++] = (hd_gpu_row_t){move->src, move->dst, move->bytes, move->swap};
    }
}

static ucc_status_t move_rows(const hd_device_view_t *v, hd_device_job_t *job) {
    rows_t rows = {.v = v};
    rows.row = hd_device_scratch(v, most_rows(v) * sizeof(*rows.row));
    if (!rows.row) {
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = hd_device_each_move(v, add_row, &rows);
    return status == UCC_OK ? hd_gpu_rows(&job->launch, rows.row, rows.n, job->width, &job->table)
                            : status;
}

/* --- all of them ----------------------------------------------------------------------------- */

uint32_t hd_device_move_words(const hd_device_view_t *v) {
    return hd_coll[v->op->call.type].vector ? (uint32_t)most_rows(v) * HD_GPU_ROW_WORDS
                                            : 2 * v->op->place.n;
}

ucc_status_t hd_device_move(const hd_device_view_t *v, hd_device_job_t *job) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    hd_gpu_blocks_t what = blocks_of(v);
    if (coll->vector) {
        return move_rows(v, job);
    }
    if (coll->bcast) {
        return bcast(v, job);
    }
    if (coll->source == HD_BLOCK) { /* allgather, gather */
        if (coll->rooted) {
            what.m = 1;
            what.dst = &v->work->dst[call->root];
        }
        return hd_gpu_spread(&job->launch, &what, job->width, &job->table);
    }
    if (coll->rooted) { /* scatter; else alltoall */
        what.k = 1;
        what.src = &v->work->src[call->root];
    }
    return call->in_place && coll->pairwise
               ? hd_gpu_swaps(&job->launch, &what, job->width, &job->table)
               : hd_gpu_pairs(&job->launch, &what, job->width, &job->table);
}
