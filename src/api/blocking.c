/* blocking.c: the blocking collectives of heddle.h. Each fills in a ucc_coll_args_t on the stack and
 * runs it; no heap, and the calling thread works on chunks while it waits.
 */
#include "api/api.h"

/* Vectors are 64 bits wide throughout heddle.h. */
enum { WIDE = UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT };

/* published: see hd_api_run. */
static __attribute__((noinline)) ucc_status_t go_on(heddle_ep_t *ep, ucc_coll_args_t *args,
                                                    bool in_place, uint64_t published) {
    ucc_team_h team = heddle_ep_team(ep);
    if (!team) {
        hd_error("not an endpoint");
        return UCC_ERR_INVALID_PARAM;
    }
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags |= in_place ? (uint64_t)UCC_COLL_ARGS_FLAG_IN_PLACE : 0;
    return hd_api_run(args, team, published);
}

static ucc_status_t run(heddle_ep_t *ep, ucc_coll_args_t *args, bool in_place) {
    return go_on(ep, args, in_place, 0);
}

static ucc_coll_buffer_info_t plain(const void *buffer, uint64_t count, ucc_datatype_t dt) {
    return (ucc_coll_buffer_info_t){(void *)(uintptr_t)buffer, count, dt, UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_v_t vector(const void *buffer, const uint64_t *counts,
                                       const uint64_t *displacements, ucc_datatype_t dt) {
    return (ucc_coll_buffer_info_v_t){(void *)(uintptr_t)buffer, (uint64_t *)(uintptr_t)counts,
                                      (uint64_t *)(uintptr_t)displacements, dt,
                                      UCC_MEMORY_TYPE_HOST};
}

/* count elements from or to each of the team's endpoints; saturates, so that the check of sizes
 * beyond the address space catches it. */
static uint64_t all_of(const heddle_ep_t *ep, uint64_t count) {
    uint64_t all;
    return __builtin_mul_overflow(count, heddle_ep_size(ep), &all) ? UINT64_MAX : all;
}

/* Barrier, bcast and allreduce first try the express: small ones are over there. */

static __attribute__((noinline)) ucc_status_t barrier(heddle_ep_t *ep, uint64_t published) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    return go_on(ep, &args, false, published);
}

ucc_status_t heddle_barrier(heddle_ep_t *ep) {
    uint64_t k = 0;
    if (hd_api_is_ep(ep) && hd_team_barrier(ep->team, &k) == UCC_OK) {
        return UCC_OK;
    }
    return barrier(ep, k);
}

ucc_status_t heddle_fanin(heddle_ep_t *ep, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_FANIN, .root = root};
    return run(ep, &args, false);
}

ucc_status_t heddle_fanout(heddle_ep_t *ep, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_FANOUT, .root = root};
    return run(ep, &args, false);
}

static __attribute__((noinline)) ucc_status_t bcast(heddle_ep_t *ep, void *buffer, uint64_t count,
                                                    ucc_datatype_t dt, uint32_t root,
                                                    uint64_t published) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST, .root = root};
    args.src.info = plain(buffer, count, dt);
    return go_on(ep, &args, false, published);
}

ucc_status_t heddle_bcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root) {
    uint64_t k = 0;
    if (hd_api_is_ep(ep) && hd_team_bcast(ep->team, buffer, count, dt, root, &k) == UCC_OK) {
        return UCC_OK;
    }
    return bcast(ep, buffer, count, dt, root, k);
}

ucc_status_t heddle_mcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_MCAST, .root = root};
    args.src.info = plain(buffer, count, dt);
    return run(ep, &args, false);
}

ucc_status_t heddle_reduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_REDUCE, .op = op, .root = root};
    args.src.info = plain(src, count, dt);
    args.dst.info = plain(dst, count, dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

static __attribute__((noinline)) ucc_status_t allreduce(heddle_ep_t *ep, const void *src, void *dst,
                                                        uint64_t count, ucc_datatype_t dt,
                                                        ucc_reduction_op_t op, uint64_t published) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = op};
    args.src.info = plain(src, count, dt);
    args.dst.info = plain(dst, count, dt);
    return go_on(ep, &args, src == HEDDLE_IN_PLACE, published);
}

ucc_status_t heddle_allreduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt, ucc_reduction_op_t op) {
    uint64_t k = 0;
    if (hd_api_is_ep(ep) && hd_team_allreduce(ep->team, src, dst, count, dt, op, &k) == UCC_OK) {
        return UCC_OK;
    }
    return allreduce(ep, src, dst, count, dt, op, k);
}

ucc_status_t heddle_reduce_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                   ucc_datatype_t dt, ucc_reduction_op_t op) {
    bool in_place = src == HEDDLE_IN_PLACE;
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER, .op = op};
    args.src.info = plain(src, all_of(ep, count), dt);
    args.dst.info = plain(dst, in_place ? all_of(ep, count) : count, dt);
    return run(ep, &args, in_place);
}

ucc_status_t heddle_reduce_scatterv(heddle_ep_t *ep, const void *src, void *dst,
                                    const uint64_t *counts, ucc_datatype_t dt,
                                    ucc_reduction_op_t op) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_REDUCE_SCATTERV, .op = op, .flags = WIDE};
    uint64_t total = 0;
    for (uint32_t i = 0; counts && i < heddle_ep_size(ep); i++) {
        total += counts[i];
    }
    args.src.info = plain(src, total, dt);
    args.dst.info_v = vector(dst, counts, NULL, dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_allgather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLGATHER};
    args.src.info = plain(src, count, dt);
    args.dst.info = plain(dst, all_of(ep, count), dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_allgatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                               const uint64_t *counts, const uint64_t *displacements,
                               ucc_datatype_t dt) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLGATHERV, .flags = WIDE};
    args.src.info = plain(src, count, dt);
    args.dst.info_v = vector(dst, counts, displacements, dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_gather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_GATHER, .root = root};
    args.src.info = plain(src, count, dt);
    args.dst.info = plain(dst, all_of(ep, count), dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_gatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                            const uint64_t *counts, const uint64_t *displacements,
                            ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_GATHERV, .root = root, .flags = WIDE};
    args.src.info = plain(src, count, dt);
    args.dst.info_v = vector(dst, counts, displacements, dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_SCATTER, .root = root};
    args.src.info = plain(src, all_of(ep, count), dt);
    args.dst.info = plain(dst, count, dt);
    return run(ep, &args, dst == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_scatterv(heddle_ep_t *ep, const void *src, const uint64_t *counts,
                             const uint64_t *displacements, void *dst, uint64_t count,
                             ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_SCATTERV, .root = root, .flags = WIDE};
    args.src.info_v = vector(src, counts, displacements, dt);
    args.dst.info = plain(dst, count, dt);
    return run(ep, &args, dst == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_alltoall(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                             ucc_datatype_t dt) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLTOALL};
    args.src.info = plain(src, all_of(ep, count), dt);
    args.dst.info = plain(dst, all_of(ep, count), dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}

ucc_status_t heddle_alltoallv(heddle_ep_t *ep, const void *src, const uint64_t *src_counts,
                              const uint64_t *src_displacements, void *dst,
                              const uint64_t *dst_counts, const uint64_t *dst_displacements,
                              ucc_datatype_t dt) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLTOALLV, .flags = WIDE};
    args.src.info_v = vector(src, src_counts, src_displacements, dt);
    args.dst.info_v = vector(dst, dst_counts, dst_displacements, dt);
    return run(ep, &args, src == HEDDLE_IN_PLACE);
}
