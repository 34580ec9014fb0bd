/* move.h: many moves by one launch.
 *
 *   spread  block s of every destination gets source s, which is read once: allgather; gather, with
 *           one destination; bcast, with one source
 *   pairs   block s of destination d gets block d of source s: alltoall; scatter, with one source
 *   swaps   block d of buffer s and block s of buffer d change places: an alltoall in place
 *   rows    each row says from where, to where and how much, or what to exchange: the v types
 *
 * A move whose source is its destination is left out. Otherwise nothing that is written may overlap
 * with anything else that is read or written, so no order of threads matters.
 *
 * Blocks are cut into chunks. A team of threads takes one chunk after the other, `teams` apart:
 * teams are small where blocks are, so that a block of threads moves many blocks of bytes at once.
 */
#ifndef HD_GPU_KERNEL_MOVE_H
#define HD_GPU_KERNEL_MOVE_H

#include "gpu/kernel/access.h"

/* A thread in its team, and the team among all. */
typedef struct hd_team {
    uint64_t number, teams;
    uint32_t rank, size;
} hd_team_t;

HD_BODY hd_team_t hd_team_of(const hd_gpu_place_t *at, uint32_t size) {
    const uint32_t per_block = at->threads / size;
    hd_team_t team = {(uint64_t)at->block * per_block + at->thread / size,
                      (uint64_t)at->blocks * per_block, at->thread % size, size};
    return team;
}

/* From where to where: the m destinations are words of the list, from `dst` on, plus dst_at; or
 * `to`, without a list. */
typedef struct hd_transfer {
    const hd_list_t *list;
    uint64_t from, to, dst_at, bytes;
    uint32_t dst, m;
    bool swap; /* what lies there comes back */
    bool streaming;
} hd_transfer_t;

HD_BODY uint64_t hd_transfer_to(const hd_gpu_place_t *at, const hd_transfer_t *t, uint32_t j) {
    return t->list ? hd_list_word(at, t->list, t->dst + j) + t->dst_at : t->to;
}

/* Units of `unit` bytes: 16 are a vector. */
HD_BODY hd_words_t hd_move_read(const hd_gpu_place_t *at, uint64_t address, const uint32_t unit,
                                bool wanted, const bool streaming) {
    hd_words_t v = {{0}};
    if (unit == HD_GPU_VECTOR) {
        return hd_read_vector(at, address, wanted, streaming);
    }
    uint64_t value = hd_read_unit(at, address, unit, wanted);
    v.w[0] = (uint32_t)value;
    v.w[1] = (uint32_t)(value >> 32);
    return v;
}

HD_BODY void hd_move_write(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                           const uint32_t unit, bool streaming) {
    if (unit == HD_GPU_VECTOR) {
        hd_write_vector(at, address, v, streaming);
    } else {
        hd_write_unit(at, address, v.w[0] | (uint64_t)v.w[1] << 32, unit);
    }
}

/* What was read at `offset` goes to all destinations, except one that is the source. */
HD_BODY void hd_transfer_store(const hd_gpu_place_t *at, const hd_transfer_t *t, uint64_t offset,
                               hd_words_t v, const uint32_t unit) {
    for (uint32_t j = 0; j < t->m; j++) {
        uint64_t to = hd_transfer_to(at, t, j);
        if (to != t->from) {
            hd_move_write(at, to + offset, v, unit, t->streaming);
        }
    }
}

enum { HD_MOVE_TURN = 4 /* units of a thread that are under way at once */ };

/* Up to HD_MOVE_TURN units, `stride` units apart, as far as they are among the first `left`. */
HD_BODY void hd_transfer_turn(const hd_gpu_place_t *at, const hd_transfer_t *t, uint64_t offset,
                              uint64_t stride, uint64_t left, const uint32_t unit,
                              const bool streaming) {
    const uint64_t step = stride * unit;
    hd_words_t there[HD_MOVE_TURN], back[HD_MOVE_TURN];
    HD_UNROLL
    for (uint32_t u = 0; u < HD_MOVE_TURN; u++) {
        there[u] =
            hd_move_read(at, t->from + offset + u * step, unit, u * stride < left, streaming);
    }
    if (t->swap) {
        HD_UNROLL
        for (uint32_t u = 0; u < HD_MOVE_TURN; u++) {
            back[u] =
                hd_move_read(at, t->to + offset + u * step, unit, u * stride < left, streaming);
        }
        HD_UNROLL
        for (uint32_t u = 0; u < HD_MOVE_TURN; u++) {
            if (u * stride < left) {
                hd_move_write(at, t->from + offset + u * step, back[u], unit, streaming);
            }
        }
    }
    HD_UNROLL
    for (uint32_t u = 0; u < HD_MOVE_TURN; u++) {
        if (u * stride < left) {
            hd_transfer_store(at, t, offset + u * step, there[u], unit);
        }
    }
}

/* The units that begin `head` bytes after the transfer does. */
HD_BODY void hd_transfer_units(const hd_gpu_place_t *at, const hd_team_t *team,
                               const hd_transfer_t *t, uint64_t head, uint64_t units,
                               const uint32_t unit, const bool streaming) {
    const uint64_t turn = (uint64_t)HD_MOVE_TURN * team->size;
    HD_DONT_UNROLL
    for (uint64_t i = team->rank; i < units; i += turn) {
        hd_transfer_turn(at, t, head + i * unit, team->size, units - i, unit, streaming);
    }
}

/* Units, and, byte by byte, what lies before and behind them. */
HD_BODY void hd_transfer_by(const hd_gpu_place_t *at, const hd_team_t *team, const hd_transfer_t *t,
                            const uint32_t unit) {
    uint64_t gap = (0 - t->from) % unit, head = gap < t->bytes ? gap : t->bytes;
    uint64_t units = (t->bytes - head) / unit;
    if (unit == HD_GPU_VECTOR && t->streaming) {
        hd_transfer_units(at, team, t, head, units, unit, true);
    } else {
        hd_transfer_units(at, team, t, head, units, unit, false);
    }
    HD_DONT_UNROLL
    for (uint64_t i = team->rank; i < t->bytes - units * unit; i += team->size) {
        hd_transfer_turn(at, t, i < head ? i : i + units * unit, 1, 1, 1, false);
    }
}

HD_BODY void hd_transfer(const hd_gpu_place_t *at, const hd_team_t *team, const hd_transfer_t *t,
                         uint32_t unit) {
    switch (unit) {
    case 16:
        hd_transfer_by(at, team, t, 16);
        break;
    case 8:
        hd_transfer_by(at, team, t, 8);
        break;
    case 4:
        hd_transfer_by(at, team, t, 4);
        break;
    case 2:
        hd_transfer_by(at, team, t, 2);
        break;
    default:
        hd_transfer_by(at, team, t, 1);
        break;
    }
}

/* Of chunk number `chunk` of `all` bytes: where it begins, and its bytes. */
HD_BODY uint64_t hd_chunk_at(const hd_gpu_move_t *m, uint64_t chunk, uint64_t all,
                             uint64_t *bytes) {
    uint64_t begin = chunk * m->chunk;
    *bytes = all - begin < m->chunk ? all - begin : m->chunk;
    return begin;
}

/* ---- the kernels ---- */

HD_BODY void hd_body_spread(const hd_gpu_place_t *at, const hd_gpu_move_args_t *args) {
    const hd_gpu_move_t *m = &args->head;
    const hd_list_t list = {args->word, m->table};
    const hd_team_t team = hd_team_of(at, m->team);
    for (uint64_t item = team.number; item < m->items; item += team.teams) {
        uint64_t s = item / m->chunks, bytes;
        uint64_t begin = hd_chunk_at(m, item % m->chunks, m->bytes, &bytes);
        hd_transfer_t t = {&list,
                           hd_list_word(at, &list, s) + begin,
                           0,
                           s * m->dst_step + begin,
                           bytes,
                           m->k,
                           m->m,
                           false,
                           (m->flags & HD_GPU_STREAMING) != 0};
        hd_transfer(at, &team, &t, m->unit);
    }
}

HD_BODY void hd_body_pairs(const hd_gpu_place_t *at, const hd_gpu_move_args_t *args) {
    const hd_gpu_move_t *m = &args->head;
    const hd_list_t list = {args->word, m->table};
    const hd_team_t team = hd_team_of(at, m->team);
    for (uint64_t item = team.number; item < m->items; item += team.teams) {
        uint64_t pair = item / m->chunks, s = pair / m->m, d = pair % m->m, bytes;
        uint64_t begin = hd_chunk_at(m, item % m->chunks, m->bytes, &bytes);
        hd_transfer_t t = {NULL,
                           hd_list_word(at, &list, s) + d * m->src_step + begin,
                           hd_list_word(at, &list, m->k + d) + s * m->dst_step + begin,
                           0,
                           bytes,
                           0,
                           1,
                           false,
                           (m->flags & HD_GPU_STREAMING) != 0};
        hd_transfer(at, &team, &t, m->unit);
    }
}

HD_BODY void hd_body_swaps(const hd_gpu_place_t *at, const hd_gpu_move_args_t *args) {
    const hd_gpu_move_t *m = &args->head;
    const hd_list_t list = {args->word, m->table};
    const hd_team_t team = hd_team_of(at, m->team);
    for (uint64_t item = team.number; item < m->items; item += team.teams) {
        uint64_t pair = item / m->chunks, s = pair / m->k, d = pair % m->k, bytes;
        uint64_t begin = hd_chunk_at(m, item % m->chunks, m->bytes, &bytes);
        hd_transfer_t t = {NULL,
                           hd_list_word(at, &list, s) + d * m->src_step + begin,
                           hd_list_word(at, &list, d) + s * m->src_step + begin,
                           0,
                           bytes,
                           0,
                           1,
                           true,
                           (m->flags & HD_GPU_STREAMING) != 0};
        if (s < d) {
            hd_transfer(at, &team, &t, m->unit);
        }
    }
}

/* The last row that begins at this chunk or before, which has bytes, as those without share the
 * next one's. */
HD_BODY uint64_t hd_row_of(const hd_gpu_place_t *at, const hd_list_t *list, uint32_t rows,
                           uint64_t chunk) {
    uint64_t low = 0, high = rows;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (hd_list_word(at, list, middle * HD_GPU_ROW_WORDS + HD_GPU_ROW_CHUNK) <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low * HD_GPU_ROW_WORDS;
}

HD_BODY void hd_body_rows(const hd_gpu_place_t *at, const hd_gpu_move_args_t *args) {
    const hd_gpu_move_t *m = &args->head;
    const hd_list_t list = {args->word, m->table};
    const hd_team_t team = hd_team_of(at, m->team);
    for (uint64_t item = team.number; item < m->items; item += team.teams) {
        uint64_t row = hd_row_of(at, &list, m->k, item);
        uint64_t length = hd_list_word(at, &list, row + HD_GPU_ROW_BYTES), bytes;
        uint64_t begin = hd_chunk_at(m, item - hd_list_word(at, &list, row + HD_GPU_ROW_CHUNK),
                                     length & ~HD_GPU_ROW_SWAP, &bytes);
        uint64_t from = hd_list_word(at, &list, row + HD_GPU_ROW_SRC) + begin;
        uint64_t to = hd_list_word(at, &list, row + HD_GPU_ROW_DST) + begin;
        uint64_t apart = (from ^ to) % HD_GPU_VECTOR;
        hd_transfer_t t = {NULL,
                           from,
                           to,
                           0,
                           bytes,
                           0,
                           1,
                           (length & HD_GPU_ROW_SWAP) != 0,
                           (m->flags & HD_GPU_STREAMING) != 0};
        hd_transfer(at, &team, &t, apart ? (uint32_t)(apart & (0 - apart)) : HD_GPU_VECTOR);
    }
}

/* Whoever sees the value in memory of the host sees what all work before this kernel has written.
 */
HD_BODY void hd_body_word(const hd_gpu_place_t *at, const hd_gpu_word_t *args) {
    if (at->block == 0 && at->thread == 0) {
        hd_write_word(at, args->address, args->value);
    }
}

#endif
