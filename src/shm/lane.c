/* lane.c: publishing a payload under one of the regimes, waiting for the others', and reading it.
 *
 * Who may call: publish by the lane's owner, once per number, when the board's flow control allows
 * it; read and view by any member that has seen the lane's seq and has not consumed the number.
 */
#include "shm/internal.h"

#include "core/copy.h"

#include <string.h>

static void publish(hd_op_t *op, size_t bytes) {
    hd_lane_fill(op->lane, op->place.k, op->call.signature, (hd_regime_t)op->plan.regime, bytes);
}

static size_t slot_of(const hd_op_t *op) {
    return (size_t)(op->place.k & op->place.board->mask);
}

/* Both rings are installed by whoever needs them first: two operations of one endpoint may be
 * launched by two threads at once (a post, and a progress call that drains the queue). */
static hd_data_line_t *own_lines(hd_op_t *op) {
    hd_shared_t *shared = op->place.member->shared;
    size_t run = op->group->lines_per_slot;
    /* acquire: pairs with the release below, for the zeroed memory */
    ptrdiff_t lines = atomic_load_explicit(&shared->lines, memory_order_acquire);
    if (!lines) {
        hd_data_line_t *mine =
            hd_alloc(HD_LINE_PAIR, op->place.board->depth * run * sizeof(hd_data_line_t));
        ptrdiff_t offset = (ptrdiff_t)((uintptr_t)mine - (uintptr_t)shared);
        if (!mine) {
            return NULL;
        }
        /* acq_rel: publishes the zeroes, or takes the winner's */
        if (atomic_compare_exchange_strong_explicit(&shared->lines, &lines, offset,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            lines = offset;
            op->place.member->lines = mine;
        } else {
            hd_free(mine);
        }
    }
    return hd_lines_at(shared, lines) + slot_of(op) * run;
}

static uint8_t *own_staging(hd_op_t *op) {
    hd_member_t *m = op->place.member;
    /* acquire: pairs with the release below */
    uint8_t *staging = atomic_load_explicit(&m->staging, memory_order_acquire);
    if (!staging) {
        int node = hd_topo_node_os(hd_topo_get(), op->group->locality[hd_op_own_member(op)].numa);
        uint8_t *mine = hd_alloc_local(op->place.board->depth * op->group->staging_slot, node);
        /* acq_rel: publishes the memory, or takes the winner's */
        if (!mine || atomic_compare_exchange_strong_explicit(
                         &m->staging, &staging, mine, memory_order_acq_rel, memory_order_acquire)) {
            staging = mine;
        } else {
            hd_free_local(mine);
        }
    }
    return staging ? staging + slot_of(op) * op->group->staging_slot : NULL;
}

/* The lane goes out first, so that readers' misses on the lines overlap with our writing them. */
void hd_lane_fill_lines(hd_lane_t *lane, uint64_t k, uint32_t signature, hd_data_line_t *line,
                        const uint8_t *data, size_t bytes) {
    hd_lane_point(lane, line);
    hd_lane_fill(lane, k, signature, HD_REGIME_LINES, bytes);
    for (size_t at = 0; at < bytes; at += HD_LINE_DATA, line++) {
        size_t left = bytes - at;
        if (left >= HD_LINE_DATA) {
            memcpy(line->data, data + at, HD_LINE_DATA);
        } else {
            memcpy(line->data, data + at, left);
        }
        hd_assert_lt(line->seq, k); /* mine, as the lane is */
        hd_delay_point();
        /* release: publishes this line's data; pairs with the acquire in read_lines */
        atomic_store_explicit(&line->seq, k, memory_order_release);
    }
}

static ucc_status_t publish_lines(hd_op_t *op, const uint8_t *data, size_t bytes) {
    hd_data_line_t *line = own_lines(op);
    if (!line) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_lane_fill_lines(op->lane, op->place.k, op->call.signature, line, data, bytes);
    return UCC_OK;
}

static inline void announce(hd_op_t *op) {
    hd_assert(op->plan.regime == HD_REGIME_NONE);
    hd_lane_fill(op->lane, op->place.k, op->call.signature, HD_REGIME_NONE, 0);
}

static inline void expose(hd_op_t *op) {
    hd_assert(op->plan.regime == HD_REGIME_DIRECT);
    op->lane->direct = op->expose;
    hd_lane_fill(op->lane, op->place.k, op->call.signature, HD_REGIME_DIRECT, 0);
}

ucc_status_t hd_lane_announce(hd_op_t *op) {
    announce(op);
    hd_bell_ring(&op->group->home.bell);
    return UCC_OK;
}

ucc_status_t hd_lane_expose(hd_op_t *op) {
    expose(op);
    hd_bell_ring(&op->group->home.bell);
    return UCC_OK;
}

/* Apart: what is short pays nothing for it. */
static __attribute__((noinline)) ucc_status_t publish_copy(hd_op_t *op, const uint8_t *data,
                                                           size_t bytes) {
    uint8_t *staging = own_staging(op);
    if (!staging) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_copy(staging, data, bytes, HD_STORES_PLAIN);
    hd_lane_point(op->lane, staging);
    publish(op, bytes);
    return UCC_OK;
}

static inline __attribute__((always_inline)) ucc_status_t put(hd_op_t *op, const void *data,
                                                              size_t bytes) {
    ucc_status_t status = UCC_OK;
    switch ((hd_regime_t)op->plan.regime) {
    case HD_REGIME_DIRECT:
        expose(op);
        break;
    case HD_REGIME_NONE:
        announce(op);
        break;
    case HD_REGIME_INLINE:
        if (bytes) {
            memcpy(op->lane->payload, data, bytes);
        }
        publish(op, bytes);
        break;
    case HD_REGIME_LINES:
        status = publish_lines(op, data, bytes);
        break;
    case HD_REGIME_STAGED:
        status = publish_copy(op, data, bytes);
        break;
    }
    if (status != UCC_OK) {
        hd_error("%s: no memory for a staging ring", hd_op_type_name(op));
    }
    return status;
}

ucc_status_t hd_lane_put(hd_op_t *op, const void *data, size_t bytes) {
    return put(op, data, bytes);
}

ucc_status_t hd_lane_publish(hd_op_t *op, const void *data, size_t bytes) {
    ucc_status_t status = put(op, data, bytes);
    if (status == UCC_OK) {
        hd_bell_ring(&op->group->home.bell);
    }
    return status;
}

/* What lies in my staging slot travels in lines or in the lane if that is the plan. */
static ucc_status_t publish_staged(hd_op_t *op, const uint8_t *staging, size_t bytes) {
    if (op->plan.regime != HD_REGIME_STAGED) {
        return hd_lane_publish(op, staging, bytes);
    }
    hd_lane_point(op->lane, staging);
    publish(op, bytes);
    hd_bell_ring(&op->group->home.bell);
    return UCC_OK;
}

ucc_status_t hd_lane_stage_others(hd_op_t *op, const uint8_t *data, size_t bytes, size_t own,
                                  size_t own_bytes) {
    uint8_t *staging = own_staging(op);
    if (!staging) {
        hd_error("%s: no memory for a staging ring", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    size_t behind = own + own_bytes;
    hd_copy(staging, data, own, HD_STORES_PLAIN);
    hd_copy(staging + behind, data + behind, bytes - behind, HD_STORES_PLAIN);
    return publish_staged(op, staging, bytes);
}

void *hd_lane_staging(hd_op_t *op) {
    return own_staging(op);
}

static bool read_lines(const hd_lane_t *lane, uint64_t k, size_t offset, size_t bytes,
                       uint8_t *dst) {
    hd_assert_le(offset + bytes, hd_lane_bytes(lane));
    const hd_data_line_t *line = (const hd_data_line_t *)(const void *)hd_lane_data(lane);
    size_t last = (offset + bytes + HD_LINE_DATA - 1) / HD_LINE_DATA;
    for (size_t i = offset / HD_LINE_DATA; i < last; i++) {
        /* acquire: pairs with the release in publish_lines */
        if (atomic_load_explicit(&line[i].seq, memory_order_acquire) != k) {
            return false;
        }
        size_t from = i * HD_LINE_DATA, skip = offset > from ? offset - from : 0;
        size_t part = HD_LINE_DATA - skip;
        size_t want = offset + bytes - (from + skip);
        if (part == HD_LINE_DATA && want >= HD_LINE_DATA) {
            memcpy(dst + (from - offset), line[i].data, HD_LINE_DATA);
            continue;
        }
        part = part < want ? part : want;
        memcpy(dst + (from + skip - offset), line[i].data + skip, part);
    }
    return true;
}

static __attribute__((noinline)) bool read_copy(const uint8_t *from, size_t bytes, void *dst) {
    hd_copy(dst, from, bytes, HD_STORES_PLAIN);
    return true;
}

bool hd_lane_read(const hd_lane_t *lane, uint64_t k, size_t offset, size_t bytes, void *dst) {
    if (!bytes) {
        return true;
    }
    switch (hd_lane_regime(lane)) {
    case HD_REGIME_INLINE:
        memcpy(dst, lane->payload + offset, bytes);
        return true;
    case HD_REGIME_LINES:
        return read_lines(lane, k, offset, bytes, dst);
    case HD_REGIME_STAGED:
        return read_copy(hd_lane_data(lane) + offset, bytes, dst);
    case HD_REGIME_NONE:
    case HD_REGIME_DIRECT:
        break;
    }
    return true;
}

const void *hd_lane_view_outside(const hd_lane_t *lane, uint64_t k, void *scratch) {
    switch (hd_lane_regime(lane)) {
    case HD_REGIME_STAGED:
        return hd_lane_data(lane);
    case HD_REGIME_LINES:
        return read_lines(lane, k, 0, hd_lane_bytes(lane), scratch) ? scratch : NULL;
    case HD_REGIME_INLINE: /* hd_lane_view's */
    case HD_REGIME_NONE:
    case HD_REGIME_DIRECT:
        break;
    }
    return NULL;
}

/* --- blocks ----------------------------------------------------------------------------------- */

ucc_status_t hd_lane_take(hd_op_t *op, uint32_t from, const hd_lane_t *lane, size_t expected,
                          void *dst) {
    /* were our sizes the same, a peer's exchange would not be DIRECT where mine is not */
    if (hd_lane_regime(lane) == HD_REGIME_DIRECT || hd_lane_bytes(lane) != expected) {
        return hd_op_sizes_differ(op, from, hd_lane_bytes(lane), expected);
    }
    return hd_lane_read(lane, op->place.k, 0, expected, dst) ? UCC_OK : UCC_INPROGRESS;
}

ucc_status_t hd_lane_publish_blocks(hd_op_t *op, size_t element, uint32_t but) {
    const hd_vector_t *v = &op->call.send;
    size_t header = hd_plan_table_bytes(op->place.n);
    uint8_t *staging = own_staging(op);
    uint32_t *table = (uint32_t *)(void *)staging, at = 0;
    if (!staging) {
        hd_error("%s: no memory for a staging ring", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        size_t bytes = i == but ? 0 : hd_vector_count(v, i) * element;
        table[i] = at;
        if (bytes) {
            memcpy(staging + header + at,
                   hd_at(op->call.src, hd_vector_displacement(v, i) * element), bytes);
        }
        at += (uint32_t)bytes;
    }
    table[op->place.n] = at;
    return publish_staged(op, staging, header + at);
}

ucc_status_t hd_lane_take_own(hd_op_t *op, uint32_t from, const hd_lane_t *lane, size_t expected,
                              void *dst) {
    uint32_t span[2];
    hd_lane_prefetch(lane);
    if (!hd_lane_read(lane, op->place.k, op->place.me * sizeof(span[0]), sizeof(span), span)) {
        return UCC_INPROGRESS;
    }
    if (span[1] - span[0] != expected) {
        return hd_op_sizes_differ(op, from, span[1] - span[0], expected);
    }
    return hd_lane_read(lane, op->place.k, hd_plan_table_bytes(op->place.n) + span[0], expected,
                        dst)
               ? UCC_OK
               : UCC_INPROGRESS;
}

/* --- looking at the others' ------------------------------------------------------------------- */

ucc_status_t hd_op_lane(hd_op_t *op, uint32_t i, const hd_lane_t **out) {
    const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
    if (!hd_lane_is_there(lane, op->place.k)) {
        hd_op_await(op, &lane->seq);
        if (op->plan.lines) {
            op->task.along = (const char *)hd_lines_of(op->place.board, i, op->place.k);
            op->task.n_along = op->task.along ? op->plan.lines : 0;
        }
        return UCC_INPROGRESS;
    }
    *out = lane;
    return lane->signature == op->call.signature ? UCC_OK : hd_op_mismatch(op, i);
}

ucc_status_t hd_op_all_lanes(hd_op_t *op) {
    const hd_lane_t *lane;
    for (; op->cursor < op->place.n; op->cursor++) {
        if (op->cursor == op->place.me) {
            continue;
        }
        ucc_status_t status = hd_op_lane(op, op->cursor, &lane);
        if (status != UCC_OK) {
            return status;
        }
    }
    op->saw_all = true;
    return UCC_OK;
}
