/* scan.h: prefixes over the sources: destination i gets sources 0 to i, or, exclusively, 0 to i -
 * 1, and the first destination nothing.
 *
 * Strictly from the left, each step rounded in the datatype, as on the host (shm/scan.c). A thread
 * takes a vector, or an element, through all sources: eight of them are read before the
 * destinations that belong to them are written, so destination i may be exactly source i.
 */
#ifndef HD_GPU_KERNEL_SCAN_H
#define HD_GPU_KERNEL_SCAN_H

#include "gpu/kernel/reduce.h"

/* One step of a scan: the prefix goes through source i, and destination i is written. */
HD_BODY hd_words_t hd_scan_step(const hd_gpu_place_t *at, const hd_run_t *run, uint32_t i,
                                uint64_t offset, hd_words_t prefix, hd_words_t operand,
                                const hd_lanes_t *lanes, hd_access_t access) {
    hd_words_t through = operand;
    if (i > 0) {
        through = lanes->close(lanes->fold(lanes->open(prefix), operand), 0);
    }
    if (i > 0 || !run->exclusive) {
        uint64_t dst = hd_list_word(at, &run->list, run->dst + i);
        hd_write(at, dst + run->dst_at + offset, run->exclusive ? prefix : through, lanes, access);
    }
    return through;
}

/* The last source of an exclusive scan is not needed. */
HD_BODY uint32_t hd_scan_sources(const hd_run_t *run) {
    return run->exclusive ? run->k - 1 : run->k;
}

/* Of elements at any address: one at a time. */
HD_BODY void hd_scan_bytes(const hd_gpu_place_t *at, const hd_run_t *run, uint64_t offset,
                           const hd_lanes_t *lanes, hd_access_t access) {
    hd_words_t prefix = {{0}}, operand = {{0}};
    HD_DONT_UNROLL
    for (uint32_t i = 0; i < run->k; i++) {
        if (i < hd_scan_sources(run)) {
            uint64_t src = hd_list_word(at, &run->list, i);
            operand = hd_read_bytes(at, src + run->src_at + offset, lanes->size);
        }
        prefix = hd_scan_step(at, run, i, offset, prefix, operand, lanes, access);
    }
}

HD_BODY void hd_scan_visit(const hd_gpu_place_t *at, const hd_run_t *run, uint64_t offset,
                           const hd_lanes_t *lanes, hd_access_t access) {
    hd_words_t prefix = {{0}}, operand[HD_GPU_BLOCK];
    if (access.piece == HD_BYTES) {
        hd_scan_bytes(at, run, offset, lanes, access);
        return;
    }
    HD_DONT_UNROLL
    for (uint32_t first = 0; first < run->k; first += HD_GPU_BLOCK) {
        hd_read_block(at, &run->list, first, hd_scan_sources(run), run->src_at + offset, lanes,
                      access, operand);
        HD_UNROLL
        for (uint32_t i = 0; i < HD_GPU_BLOCK; i++) {
            if (first + i < run->k) {
                prefix =
                    hd_scan_step(at, run, first + i, offset, prefix, operand[i], lanes, access);
            }
        }
    }
}

/* k >= 1, exclusively k >= 2. */
HD_BODY void hd_body_scan(const hd_gpu_place_t *at, const hd_gpu_reduce_args_t *args,
                          const hd_lanes_t *lanes) {
    const hd_list_t list = {args->word, args->head.table};
    hd_run_t run = hd_run_of(at, &args->head, list, lanes);
    hd_run_all(at, &run, lanes, hd_scan_visit, false);
}

#endif
