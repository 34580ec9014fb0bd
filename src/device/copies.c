/* copies.c: large blocks go from one device to another by the driver's copies: these are done by
 * the copy engines, so that the multiprocessors are left to others. What stays on a device, and
 * small blocks, are its kernel's all the same.
 *
 * A block belongs to the device that gets it; to the one that sends it, where all go to one root:
 * so several are on their way to it at once. A block that several endpoints of a device get comes
 * there once, and is copied on from there by the kernel, which comes after the copies on the same
 * stream. Each device begins with what lies behind its own endpoints, so that not all of them read
 * from the same one at first.
 *
 * All claimers of an exchange must come to the same decision, so it looks at nothing but the
 * members' parts and the group.
 */
#include "device/internal.h"

enum {
    /* Of a device; above that, all is one launch: a copy costs its enqueuer some microseconds. */
    MOST_COPIES = 64
};

/* Goes over all blocks: counts copies and rows, and takes down those of its share if there is
 * memory for them. */
typedef struct sorter {
    const hd_device_view_t *v;
    const void *src; /* the source that was copied last */
    size_t bytes;
    uint64_t is_there;                 /* the owners that have it, by bit */
    const void *there[HD_GPU_DEVICES]; /* by owner: where */
    uint32_t copied[HD_GPU_DEVICES];   /* by owner */
    uint32_t copies, rows;             /* of this share */
    hd_device_copy_t *copy;
    hd_gpu_row_t *row;
} sorter_t;

static int owner_of(const sorter_t *s, const hd_device_move_t *move) {
    bool to_root = hd_coll[s->v->op->call.type].flow == HD_TO_ROOT;
    return hd_device_part(s->v, to_root ? move->from : move->to)->device;
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
    if (move->bytes < hd_device_settings(s->v)->gpu_copy_min) {
        return false;
    }
    *from = device_at(hd_device_side_of(s->v, move->from, HD_SIDE_SRC), move->src, move->bytes);
    *to = device_at(hd_device_side_of(s->v, move->to, HD_SIDE_DST), move->dst, move->bytes);
    return *from >= 0 && *to >= 0 && *from != *to;
}

/* Returns whether the owner has the block already: moves come by sender, and the same block for
 * several members in a row. */
static bool has_come(const sorter_t *s, const hd_device_move_t *move, int owner) {
    return s->src == move->src && s->bytes == move->bytes && (s->is_there >> owner & 1);
}

static void note_copied(sorter_t *s, const hd_device_move_t *move, int owner) {
    if (s->src != move->src || s->bytes != move->bytes) {
        s->src = move->src;
        s->bytes = move->bytes;
        s->is_there = 0;
    }
    s->is_there |= UINT64_C(1) << owner;
    s->there[owner] = move->dst;
    s->copied[owner]++;
}

static void take_copy(sorter_t *s, const hd_device_move_t *move, int from, int to) {
    if (s->copy) {
        hd_assert_lt(s->copies, MOST_COPIES);
        s->copy[s->copies] = (hd_device_copy_t){.to = move->dst,
                                                .from = move->src,
                                                .bytes = move->bytes,
                                                .to_device = to,
                                                .from_device = from,
                                                .sender = move->from};
    }
    s->copies++;
}

static void take_row(sorter_t *s, const void *src, const hd_device_move_t *move) {
    if (s->row) {
        hd_assert_lt(s->rows, s->v->rows);
        s->row[s->rows] = (hd_gpu_row_t){src, move->dst, move->bytes, false};
    }
    s->rows++;
}

static void sort(void *arg, const hd_device_move_t *move) {
    sorter_t *s = arg;
    int owner = owner_of(s, move), from, to;
    bool mine = hd_device_is_mine(s->v, owner), peers = is_copy(s, move, &from, &to);
    if (peers && !has_come(s, move, owner)) {
        note_copied(s, move, owner);
        if (mine) {
            take_copy(s, move, from, to);
        }
    } else if (mine) {
        take_row(s, peers ? s->there[owner] : move->src, move);
    }
}

/* Returns whether some device has something to copy, and none too much. */
static bool is_worth_it(const sorter_t *s) {
    uint32_t most = 0;
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        most = s->copied[d] > most ? s->copied[d] : most;
    }
    return most > 0 && most <= MOST_COPIES;
}

ucc_status_t hd_device_find_copies(const hd_device_view_t *v, bool *yes, uint32_t *rows) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    bool swaps = coll->pairwise && call->in_place;
    sorter_t s = {.v = v};
    *yes = false;
    if (v->shares < 2 || coll->reducing || swaps ||
        (!coll->vector && call->bytes < hd_device_settings(v)->gpu_copy_min)) {
        return UCC_OK;
    }
    ucc_status_t status = hd_device_each_move(v, sort, &s);
    *yes = is_worth_it(&s);
    *rows = s.rows;
    return status;
}

/* Returns the first copy of what lies behind this device's endpoints. */
static uint32_t first_copy(const sorter_t *s) {
    uint32_t own = 0, first = 0;
    while (!hd_device_is_mine(s->v, hd_device_part(s->v, own)->device)) {
        own++;
    }
    while (first < s->copies && s->copy[first].sender < own) {
        first++;
    }
    return first < s->copies ? first : 0;
}

ucc_status_t hd_device_copies(const hd_device_view_t *v, hd_device_job_t *job) {
    sorter_t s = {.v = v};
    size_t copy_bytes = MOST_COPIES * sizeof(*s.copy);
    uint8_t *scratch = hd_device_scratch(v, copy_bytes + v->rows * sizeof(*s.row));
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
    job->first_copy = first_copy(&s);
    return hd_gpu_rows(&job->launch, s.row, s.rows, job->width, &job->table);
}
