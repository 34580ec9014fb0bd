/* ranges.c: what a launch reads and writes, from its arguments alone. See gpu/kernel.h.
 *
 * Written from what the kernels are for, not from how they do it: the emulated device checks one
 * against the other.
 */
#include "gpu/kernel.h"

/* Who is told, and a range that is not told yet, because the next one may begin at its end. */
typedef struct sink {
    hd_gpu_touch_fn touch;
    void *arg;
    uint64_t begin, end;
    bool written;
} sink_t;

static void flush(sink_t *sink) {
    if (sink->end > sink->begin) {
        sink->touch(sink->arg, (const void *)(uintptr_t)sink->begin, sink->end - sink->begin,
                    sink->written);
    }
    sink->begin = sink->end = 0;
}

static void add(sink_t *sink, uint64_t address, uint64_t bytes, bool written) {
    if (address != sink->end || written != sink->written) {
        flush(sink);
        sink->begin = address;
        sink->written = written;
    }
    sink->end = address + bytes;
}

/* The words, and that a table is read. */
static const uint64_t *words_of(sink_t *sink, uint64_t table, uint64_t host_table,
                                const uint64_t *word, uint64_t words) {
    if (!table) {
        return word;
    }
    add(sink, table, words * sizeof(*word), false);
    return (const uint64_t *)(uintptr_t)host_table;
}

/* ---- reductions and scans ---- */

static void reduce_to_all(sink_t *sink, const hd_gpu_reduce_t *r, const uint64_t *word,
                          uint64_t size) {
    for (uint32_t i = 0; i < r->k; i++) {
        add(sink, word[i] + r->first * size, r->count * size, false);
    }
    for (uint32_t j = 0; j < r->m; j++) {
        add(sink, word[r->k + j] + r->first * size, r->count * size, true);
    }
}

static void reduce_to_parts(sink_t *sink, const hd_gpu_reduce_t *r, const uint64_t *word,
                            uint64_t size) {
    const uint64_t *dst = word + r->k;
    bool rows = r->form == HD_GPU_PARTS;
    for (uint32_t i = 0; i < r->k; i++) {
        for (uint32_t p = 0; p < r->m; p++) {
            const uint64_t *part = dst + HD_GPU_PART_WORDS * p;
            uint64_t first = rows ? part[1] : p * r->block + r->first;
            add(sink, word[i] + first * size, (rows ? part[2] : r->count) * size, false);
        }
    }
    for (uint32_t p = 0; p < r->m; p++) {
        const uint64_t *part = dst + HD_GPU_PART_WORDS * p;
        add(sink, rows ? part[0] : dst[p] + r->first * size, (rows ? part[2] : r->count) * size,
            true);
    }
}

static void scan(sink_t *sink, const hd_gpu_reduce_t *r, const uint64_t *word, uint64_t size) {
    uint32_t exclusive = (r->flags & HD_GPU_EXCLUSIVE) != 0;
    for (uint32_t i = 0; i < r->k - exclusive; i++) {
        add(sink, word[i] + r->first * size, r->count * size, false);
    }
    for (uint32_t i = exclusive; i < r->k; i++) {
        add(sink, word[r->k + i] + r->first * size, r->count * size, true);
    }
}

static void reduce(sink_t *sink, uint32_t kernel, const hd_gpu_reduce_args_t *args) {
    const hd_gpu_reduce_t *r = &args->head;
    uint64_t each = r->form == HD_GPU_PARTS ? HD_GPU_PART_WORDS : 1;
    const uint64_t *word = words_of(sink, r->table, r->host_table, args->word, r->k + each * r->m);
    uint64_t size = hd_gpu_kernel[kernel].size;
    if (kernel >= HD_GPU_FIRST_SCAN) {
        scan(sink, r, word, size);
    } else if (r->form == HD_GPU_TO_ALL) {
        reduce_to_all(sink, r, word, size);
    } else {
        reduce_to_parts(sink, r, word, size);
    }
}

/* ---- moves ---- */

static void spread(sink_t *sink, const hd_gpu_move_t *m, const uint64_t *word) {
    for (uint32_t s = 0; s < m->k; s++) {
        add(sink, word[s], m->bytes, false);
    }
    for (uint32_t d = 0; d < m->m; d++) {
        for (uint32_t s = 0; s < m->k; s++) {
            uint64_t to = word[m->k + d] + s * m->dst_step;
            add(sink, to, to == word[s] ? 0 : m->bytes, true);
        }
    }
}

static void pairs(sink_t *sink, const hd_gpu_move_t *m, const uint64_t *word) {
    for (int written = 0; written < 2; written++) {
        uint32_t outer = written ? m->m : m->k, inner = written ? m->k : m->m;
        for (uint32_t i = 0; i < outer; i++) {
            for (uint32_t j = 0; j < inner; j++) {
                uint32_t s = written ? j : i, d = written ? i : j;
                uint64_t from = word[s] + d * m->src_step, to = word[m->k + d] + s * m->dst_step;
                add(sink, written ? to : from, written && from == to ? 0 : m->bytes, written);
            }
        }
    }
}

static void swaps(sink_t *sink, const hd_gpu_move_t *m, const uint64_t *word) {
    for (int written = 0; written < 2; written++) {
        for (uint32_t s = 0; s < m->k; s++) {
            for (uint32_t d = 0; d < m->k; d++) {
                add(sink, word[s] + d * m->src_step, s == d ? 0 : m->bytes, written);
            }
        }
    }
}

static void rows(sink_t *sink, const hd_gpu_move_t *m, const uint64_t *word) {
    for (const uint64_t *row = word; row < word + (uint64_t)m->k * HD_GPU_ROW_WORDS;
         row += HD_GPU_ROW_WORDS) {
        uint64_t bytes = row[HD_GPU_ROW_BYTES] & ~HD_GPU_ROW_SWAP;
        bool swap = row[HD_GPU_ROW_BYTES] & HD_GPU_ROW_SWAP;
        add(sink, row[HD_GPU_ROW_SRC], bytes, false);
        add(sink, row[HD_GPU_ROW_DST], bytes, true);
        add(sink, row[HD_GPU_ROW_DST], swap ? bytes : 0, false);
        add(sink, row[HD_GPU_ROW_SRC], swap ? bytes : 0, true);
    }
}

static void move(sink_t *sink, uint32_t kernel, const hd_gpu_move_args_t *args) {
    const hd_gpu_move_t *m = &args->head;
    uint64_t words = kernel == HD_GPU_MOVE_rows    ? (uint64_t)m->k * HD_GPU_ROW_WORDS
                     : kernel == HD_GPU_MOVE_swaps ? m->k
                                                   : (uint64_t)m->k + m->m;
    const uint64_t *word = words_of(sink, m->table, m->host_table, args->word, words);
    switch (kernel) {
    case HD_GPU_MOVE_spread:
        spread(sink, m, word);
        break;
    case HD_GPU_MOVE_pairs:
        pairs(sink, m, word);
        break;
    case HD_GPU_MOVE_swaps:
        swaps(sink, m, word);
        break;
    default:
        rows(sink, m, word);
        break;
    }
}

void hd_gpu_ranges(uint32_t kernel, const void *args, hd_gpu_touch_fn touch, void *arg) {
    sink_t sink = {touch, arg, 0, 0, false};
    if (kernel == HD_GPU_WORD) {
        add(&sink, ((const hd_gpu_word_t *)args)->address, sizeof(uint64_t), true);
    } else if (kernel >= HD_GPU_FIRST_MOVE) {
        move(&sink, kernel, args);
    } else {
        reduce(&sink, kernel, args);
    }
    flush(&sink);
}
