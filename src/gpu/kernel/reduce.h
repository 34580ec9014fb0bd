/* reduce.h: reductions of many sources to many destinations, in one pass, without scratch memory.
 *
 * A thread takes a vector of elements (or one element, where vectors are not possible) of all
 * sources through the whole canonical tree (core/reduce.h), depth first: blocks of 8 operands as
 * they come, and for each level above one accumulator, into which a node's children are folded as
 * they are complete. Then it writes the result to every destination.
 *
 * A thread has read all operands of what it writes before it writes, and no other thread reads or
 * writes those bytes, so a destination may be exactly a source. Nothing depends on the grid, nor on
 * the order of threads.
 */
#ifndef HD_GPU_KERNEL_REDUCE_H
#define HD_GPU_KERNEL_REDUCE_H

#include "gpu/kernel/lanes.h"

/* What a visit reads and writes at once. */
typedef enum hd_piece {
    HD_VECTORS,
    HD_ELEMENTS, /* aligned as their type wants it */
    HD_BYTES     /* elements at any address */
} hd_piece_t;

typedef struct hd_access {
    hd_piece_t piece;
    bool streaming; /* of vectors */
} hd_access_t;

HD_BODY void hd_write(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                      const hd_lanes_t *lanes, hd_access_t access) {
    if (access.piece == HD_VECTORS) {
        hd_write_vector(at, address, v, access.streaming);
    } else if (access.piece == HD_ELEMENTS) {
        hd_write_element(at, address, v, lanes->size, lanes->unit);
    } else {
        hd_write_bytes(at, address, v, lanes->size);
    }
}

/* The first k of 8 vectors; zero for the others. */
HD_BODY void hd_read_vectors(const hd_gpu_place_t *at, const uint64_t *address, uint32_t k,
                             bool streaming, hd_words_t *v) {
    if (streaming) {
        HD_UNROLL
        for (uint32_t i = 0; i < HD_GPU_BLOCK; i++) {
            v[i] = hd_read_vector(at, address[i], i < k, true);
        }
    } else {
        HD_UNROLL
        for (uint32_t i = 0; i < HD_GPU_BLOCK; i++) {
            v[i] = hd_read_vector(at, address[i], i < k, false);
        }
    }
}

/* Of up to 8 sources from `first` on, of which there are k, what lies at `offset`; zero beyond
 * them. All are asked for before the first has come. */
HD_BODY void hd_read_block(const hd_gpu_place_t *at, const hd_list_t *list, uint32_t first,
                           uint32_t k, uint64_t offset, const hd_lanes_t *lanes, hd_access_t access,
                           hd_words_t *operand) {
    uint64_t address[HD_GPU_BLOCK];
    HD_UNROLL
    for (uint32_t i = 0; i < HD_GPU_BLOCK; i++) {
        address[i] = hd_list_word(at, list, first + i < k ? first + i : k - 1) + offset;
    }
    if (access.piece == HD_VECTORS) {
        hd_read_vectors(at, address, first < k ? k - first : 0, access.streaming, operand);
        return;
    }
    HD_UNROLL
    for (uint32_t i = 0; i < HD_GPU_BLOCK; i++) {
        operand[i] = hd_read_element(at, address[i], lanes->size, lanes->unit, first + i < k);
    }
}

/* ---- the tree ---- */

/* One canonical block. A block of one operand is that operand. */
HD_BODY hd_words_t hd_fold_block(const hd_words_t *operand, uint32_t k, const hd_lanes_t *lanes,
                                 uint32_t n) {
    if (k == 1) {
        return operand[0];
    }
    hd_accumulators_t a = lanes->open(operand[0]);
    HD_UNROLL
    for (uint32_t i = 1; i < HD_GPU_BLOCK; i++) {
        if (i < k) {
            a = lanes->fold(a, operand[i]);
        }
    }
    return lanes->close(a, n);
}

/* Of elements at any address: one operand at a time. */
HD_BODY hd_words_t hd_fold_bytes(const hd_gpu_place_t *at, const hd_list_t *list, uint32_t first,
                                 uint32_t k, uint64_t offset, const hd_lanes_t *lanes, uint32_t n) {
    hd_words_t v = hd_read_bytes(at, hd_list_word(at, list, first) + offset, lanes->size);
    if (k == 1) {
        return v;
    }
    hd_accumulators_t a = lanes->open(v);
    HD_DONT_UNROLL
    for (uint32_t i = 1; i < k; i++) {
        uint64_t address = hd_list_word(at, list, first + i) + offset;
        a = lanes->fold(a, hd_read_bytes(at, address, lanes->size));
    }
    return lanes->close(a, n);
}

/* The nodes that are not complete, one of each level above the first. */
typedef struct hd_open_nodes {
    hd_accumulators_t level[HD_GPU_UPPER];
} hd_open_nodes_t;

/* Child number `index` of its level has the value v, one of `children` there. Folds it into its
 * node, and, if that is now complete, the node into its own. A node of one child is that child.
 * Returns the root's value after the last. */
HD_BODY hd_words_t hd_nodes_add(hd_open_nodes_t *open, hd_words_t v, uint32_t index,
                                uint32_t children, const hd_lanes_t *lanes, uint32_t n) {
    bool complete = true;
    HD_UNROLL
    for (uint32_t level = 0; level < HD_GPU_UPPER; level++) {
        if (complete) {
            bool first = index % HD_GPU_BLOCK == 0;
            bool last = index % HD_GPU_BLOCK == HD_GPU_BLOCK - 1 || index + 1 == children;
            if (!first) {
                open->level[level] = lanes->fold(open->level[level], v);
            } else if (!last) {
                open->level[level] = lanes->open(v);
            }
            if (last && !first) {
                v = lanes->close(open->level[level], children <= HD_GPU_BLOCK ? n : 0);
            }
            complete = last;
            index /= HD_GPU_BLOCK;
            children = (children + HD_GPU_BLOCK - 1) / HD_GPU_BLOCK;
        }
    }
    return v;
}

/* The whole tree over what lies at `offset` in k sources. */
HD_BODY hd_words_t hd_fold_tree(const hd_gpu_place_t *at, const hd_list_t *list, uint32_t k,
                                uint64_t offset, const hd_lanes_t *lanes, hd_access_t access,
                                uint32_t n) {
    const uint32_t blocks = (k + HD_GPU_BLOCK - 1) / HD_GPU_BLOCK;
    hd_open_nodes_t open = {{{{0}}}};
    hd_words_t operand[HD_GPU_BLOCK], v = {{0}};
    HD_DONT_UNROLL
    for (uint32_t b = 0; b < blocks; b++) {
        const uint32_t first = b * HD_GPU_BLOCK, root_n = blocks == 1 ? n : 0;
        const uint32_t left = k - first < HD_GPU_BLOCK ? k - first : HD_GPU_BLOCK;
        if (access.piece == HD_BYTES) {
            v = hd_fold_bytes(at, list, first, left, offset, lanes, root_n);
        } else {
            hd_read_block(at, list, first, k, offset, lanes, access, operand);
            v = hd_fold_block(operand, left, lanes, root_n);
        }
        v = hd_nodes_add(&open, v, b, blocks, lanes, n);
    }
    return v;
}

/* ---- one part of the grid ---- */

/* A run of elements, and where its results go. It is `before` elements, then vectors, then elements
 * again. */
typedef struct hd_run {
    hd_list_t list;          /* k sources, and, from word dst on, m destinations */
    uint64_t src_at, dst_at; /* how many bytes from those the run begins */
    uint64_t count;          /* elements */
    uint64_t before, vectors;
    uint32_t k, m, n, dst;
    bool natural; /* elements are aligned as their type wants it */
    bool streaming, exclusive;
} hd_run_t;

/* Does what is to be done with what lies `offset` bytes from the beginning of the run. */
typedef void (*hd_visit_fn)(const hd_gpu_place_t *at, const hd_run_t *run, uint64_t offset,
                            const hd_lanes_t *lanes, hd_access_t access);

/* Vectors, unless they are done; then elements. These are two copies of visit, which so has no more
 * to ask than it must. */
HD_BODY void hd_run_all(const hd_gpu_place_t *at, const hd_run_t *run, const hd_lanes_t *lanes,
                        hd_visit_fn visit, const bool vectors_done) {
    const hd_access_t vectors = {HD_VECTORS, run->streaming};
    const hd_access_t elements = {run->natural ? HD_ELEMENTS : HD_BYTES, false};
    uint64_t head = run->before * lanes->size;
    uint64_t between = run->vectors * (HD_GPU_VECTOR / lanes->size);
    for (uint64_t i = hd_thread(at); !vectors_done && i < run->vectors; i += hd_all_threads(at)) {
        visit(at, run, head + i * HD_GPU_VECTOR, lanes, vectors);
    }
    HD_DONT_UNROLL
    for (uint64_t i = hd_thread(at); i < run->count - between; i += hd_all_threads(at)) {
        visit(at, run, (i < run->before ? i : i + between) * lanes->size, lanes, elements);
    }
}

/* The run that this part of the grid does. */
HD_BODY hd_run_t hd_run_of(const hd_gpu_place_t *at, const hd_gpu_reduce_t *r, hd_list_t list,
                           const hd_lanes_t *lanes) {
    uint64_t src_first = r->first, dst_first = r->first;
    hd_run_t run;
    run.list = list;
    run.dst = r->k;
    run.count = r->count;
    run.k = r->k;
    run.m = r->form == HD_GPU_TO_ALL ? r->m : 1;
    run.n = r->n;
    run.streaming = r->flags & HD_GPU_STREAMING;
    run.exclusive = r->flags & HD_GPU_EXCLUSIVE;
    if (r->form == HD_GPU_BLOCKS) {
        run.dst += at->part;
        src_first += at->part * r->block;
    } else if (r->form == HD_GPU_PARTS) {
        run.dst += at->part * HD_GPU_PART_WORDS;
        src_first = hd_list_word(at, &list, run.dst + 1);
        run.count = hd_list_word(at, &list, run.dst + 2);
        dst_first = 0;
    }
    run.src_at = src_first * lanes->size;
    run.dst_at = dst_first * lanes->size;
    uint64_t from = hd_list_word(at, &list, 0) + run.src_at;
    uint64_t to = hd_list_word(at, &list, run.dst) + run.dst_at;
    run.natural = r->natural && to % lanes->unit == 0;
    run.before = run.count;
    run.vectors = 0;
    if (r->agree && (from ^ to) % HD_GPU_VECTOR == 0 && from % lanes->size == 0) {
        uint64_t gap = (0 - from) % HD_GPU_VECTOR / lanes->size;
        run.before = gap < run.count ? gap : run.count;
        run.vectors = (run.count - run.before) * lanes->size / HD_GPU_VECTOR;
    }
    return run;
}

/* ---- reductions ---- */

HD_BODY void hd_reduce_store(const hd_gpu_place_t *at, const hd_run_t *run, uint64_t offset,
                             hd_words_t v, const hd_lanes_t *lanes, hd_access_t access) {
    for (uint32_t j = 0; j < run->m; j++) {
        uint64_t dst = hd_list_word(at, &run->list, run->dst + j);
        hd_write(at, dst + run->dst_at + offset, v, lanes, access);
    }
}

HD_BODY void hd_reduce_visit(const hd_gpu_place_t *at, const hd_run_t *run, uint64_t offset,
                             const hd_lanes_t *lanes, hd_access_t access) {
    hd_words_t v =
        hd_fold_tree(at, &run->list, run->k, run->src_at + offset, lanes, access, run->n);
    hd_reduce_store(at, run, offset, v, lanes, access);
}

/* `turn` vectors, `all` apart, of `few` sources. */
HD_BODY void hd_reduce_turn(const hd_gpu_place_t *at, const hd_run_t *run, const uint64_t *src,
                            uint64_t offset, const hd_lanes_t *lanes, const uint32_t few,
                            const uint32_t turn) {
    const hd_access_t access = {HD_VECTORS, run->streaming};
    const uint64_t step = hd_all_threads(at) * HD_GPU_VECTOR;
    uint64_t address[HD_GPU_BLOCK];
    hd_words_t operand[HD_GPU_BLOCK];
    HD_UNROLL
    for (uint32_t j = 0; j < HD_GPU_BLOCK; j++) {
        address[j] = src[j % few] + offset + j / few * step;
    }
    hd_read_vectors(at, address, few * turn, run->streaming, operand);
    HD_UNROLL
    for (uint32_t t = 0; t < turn; t++) {
        hd_words_t v = hd_fold_block(operand + t * few, few, lanes, run->n);
        hd_reduce_store(at, run, offset + t * step, v, lanes, access);
    }
}

/* The vectors of a run of 2, 4 or 8 sources: as many at once as make eight loads. */
HD_BODY void hd_reduce_few(const hd_gpu_place_t *at, const hd_run_t *run, const hd_lanes_t *lanes,
                           const uint32_t few) {
    const uint32_t turn = HD_GPU_BLOCK / few;
    const uint64_t all = hd_all_threads(at), head = run->before * lanes->size;
    uint64_t src[HD_GPU_BLOCK], i = hd_thread(at);
    HD_UNROLL
    for (uint32_t j = 0; j < few; j++) {
        src[j] = hd_list_word(at, &run->list, j) + run->src_at;
    }
    for (; i + (turn - 1) * all < run->vectors; i += turn * all) {
        hd_reduce_turn(at, run, src, head + i * HD_GPU_VECTOR, lanes, few, turn);
    }
    for (; turn > 1 && i < run->vectors; i += all) {
        hd_reduce_turn(at, run, src, head + i * HD_GPU_VECTOR, lanes, few, 1);
    }
}

HD_BODY void hd_body_reduce(const hd_gpu_place_t *at, const hd_gpu_reduce_args_t *args,
                            const hd_lanes_t *lanes) {
    const hd_list_t list = {args->word, args->head.table};
    hd_run_t run = hd_run_of(at, &args->head, list, lanes);
    hd_run_all(at, &run, lanes, hd_reduce_visit, false);
}

/* Of 2, 4 or 8 sources, a constant. */
HD_BODY void hd_body_few(const hd_gpu_place_t *at, const hd_gpu_reduce_few_t *args,
                         const hd_lanes_t *lanes, const uint32_t few) {
    const hd_list_t list = {args->word, 0};
    hd_run_t run = hd_run_of(at, &args->head, list, lanes);
    run.k = few;
    hd_reduce_few(at, &run, lanes, few);
    hd_run_all(at, &run, lanes, hd_reduce_visit, true);
}

#endif
