/* calls.h: the collectives of heddle.h as UCC arguments: what a blocking call and its nonblocking
 * variant have in common. Vectors are 64 bits wide throughout heddle.h.
 */
#ifndef HD_API_CALLS_H
#define HD_API_CALLS_H

#include "api/api.h"

static inline ucc_coll_buffer_info_t hd_plain(const void *buffer, uint64_t count,
                                              ucc_datatype_t dt) {
    return (ucc_coll_buffer_info_t){(void *)(uintptr_t)buffer, count, dt, UCC_MEMORY_TYPE_HOST};
}

static inline ucc_coll_buffer_info_v_t hd_vector_of(const void *buffer, const uint64_t *counts,
                                                    const uint64_t *displacements,
                                                    ucc_datatype_t dt) {
    return (ucc_coll_buffer_info_v_t){(void *)(uintptr_t)buffer, (uint64_t *)(uintptr_t)counts,
                                      (uint64_t *)(uintptr_t)displacements, dt,
                                      UCC_MEMORY_TYPE_HOST};
}

/* count elements from or to each of the team's endpoints; saturates, so that the check of sizes
 * beyond the address space catches it. */
static inline uint64_t hd_all_of(const heddle_ep_t *ep, uint64_t count) {
    uint64_t all;
    return __builtin_mul_overflow(count, heddle_ep_size(ep), &all) ? UINT64_MAX : all;
}

/* A call without a vector; marked is the buffer that HEDDLE_IN_PLACE may stand for. */
static inline void hd_call_of(ucc_coll_args_t *args, ucc_coll_type_t type, const void *marked) {
    *args = (ucc_coll_args_t){.mask = UCC_COLL_ARGS_FIELD_FLAGS, .coll_type = type};
    args->flags = marked == HEDDLE_IN_PLACE ? (uint64_t)UCC_COLL_ARGS_FLAG_IN_PLACE : 0;
}

static inline void hd_vector_call_of(ucc_coll_args_t *args, ucc_coll_type_t type,
                                     const void *marked) {
    hd_call_of(args, type, marked);
    args->flags |= UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
}

static inline void hd_rooted_call(ucc_coll_args_t *args, ucc_coll_type_t type, uint32_t root) {
    hd_call_of(args, type, NULL);
    args->root = root;
}

/* bcast, mcast */
static inline void hd_bcast_call(ucc_coll_args_t *args, ucc_coll_type_t type, void *buffer,
                                 uint64_t count, ucc_datatype_t dt, uint32_t root) {
    hd_rooted_call(args, type, root);
    args->src.info = hd_plain(buffer, count, dt);
}

/* reduce (its root to be set), allreduce, scan, exscan */
static inline void hd_reduce_call(ucc_coll_args_t *args, ucc_coll_type_t type, const void *src,
                                  void *dst, uint64_t count, ucc_datatype_t dt,
                                  ucc_reduction_op_t op) {
    hd_call_of(args, type, src);
    args->op = op;
    args->src.info = hd_plain(src, count, dt);
    args->dst.info = hd_plain(dst, count, dt);
}

static inline void hd_reduce_scatter_call(ucc_coll_args_t *args, const heddle_ep_t *ep,
                                          const void *src, void *dst, uint64_t count,
                                          ucc_datatype_t dt, ucc_reduction_op_t op) {
    hd_call_of(args, UCC_COLL_TYPE_REDUCE_SCATTER, src);
    args->op = op;
    args->src.info = hd_plain(src, hd_all_of(ep, count), dt);
    args->dst.info = hd_plain(dst, src == HEDDLE_IN_PLACE ? hd_all_of(ep, count) : count, dt);
}

static inline void hd_reduce_scatterv_call(ucc_coll_args_t *args, const heddle_ep_t *ep,
                                           const void *src, void *dst, const uint64_t *counts,
                                           ucc_datatype_t dt, ucc_reduction_op_t op) {
    hd_vector_call_of(args, UCC_COLL_TYPE_REDUCE_SCATTERV, src);
    uint64_t total = 0;
    for (uint32_t i = 0; counts && i < heddle_ep_size(ep); i++) {
        total += counts[i];
    }
    args->op = op;
    args->src.info = hd_plain(src, total, dt);
    args->dst.info_v = hd_vector_of(dst, counts, NULL, dt);
}

/* allgather, gather (its root to be set) */
static inline void hd_gather_call(ucc_coll_args_t *args, ucc_coll_type_t type,
                                  const heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                  ucc_datatype_t dt) {
    hd_call_of(args, type, src);
    args->src.info = hd_plain(src, count, dt);
    args->dst.info = hd_plain(dst, hd_all_of(ep, count), dt);
}

/* allgatherv, gatherv (its root to be set) */
static inline void hd_gatherv_call(ucc_coll_args_t *args, ucc_coll_type_t type, const void *src,
                                   uint64_t count, void *dst, const uint64_t *counts,
                                   const uint64_t *displacements, ucc_datatype_t dt) {
    hd_vector_call_of(args, type, src);
    args->src.info = hd_plain(src, count, dt);
    args->dst.info_v = hd_vector_of(dst, counts, displacements, dt);
}

static inline void hd_scatter_call(ucc_coll_args_t *args, const heddle_ep_t *ep, const void *src,
                                   void *dst, uint64_t count, ucc_datatype_t dt, uint32_t root) {
    hd_call_of(args, UCC_COLL_TYPE_SCATTER, dst);
    args->root = root;
    args->src.info = hd_plain(src, hd_all_of(ep, count), dt);
    args->dst.info = hd_plain(dst, count, dt);
}

static inline void hd_scatterv_call(ucc_coll_args_t *args, const void *src, const uint64_t *counts,
                                    const uint64_t *displacements, void *dst, uint64_t count,
                                    ucc_datatype_t dt, uint32_t root) {
    hd_vector_call_of(args, UCC_COLL_TYPE_SCATTERV, dst);
    args->root = root;
    args->src.info_v = hd_vector_of(src, counts, displacements, dt);
    args->dst.info = hd_plain(dst, count, dt);
}

static inline void hd_alltoall_call(ucc_coll_args_t *args, const heddle_ep_t *ep, const void *src,
                                    void *dst, uint64_t count, ucc_datatype_t dt) {
    hd_call_of(args, UCC_COLL_TYPE_ALLTOALL, src);
    args->src.info = hd_plain(src, hd_all_of(ep, count), dt);
    args->dst.info = hd_plain(dst, hd_all_of(ep, count), dt);
}

static inline void hd_alltoallv_call(ucc_coll_args_t *args, const void *src,
                                     const uint64_t *src_counts, const uint64_t *src_displacements,
                                     void *dst, const uint64_t *dst_counts,
                                     const uint64_t *dst_displacements, ucc_datatype_t dt) {
    hd_vector_call_of(args, UCC_COLL_TYPE_ALLTOALLV, src);
    args->src.info_v = hd_vector_of(src, src_counts, src_displacements, dt);
    args->dst.info_v = hd_vector_of(dst, dst_counts, dst_displacements, dt);
}

#endif
