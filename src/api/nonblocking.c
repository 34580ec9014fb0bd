/* nonblocking.c: the nonblocking collectives of heddle.h: the arguments of the blocking call
 * (calls.h), initialised and posted. A request that could not be started is not given out.
 */
#include "api/calls.h"

static ucc_status_t start(heddle_ep_t *ep, ucc_coll_args_t *args, ucc_coll_req_h *request,
                          const char *caller) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", caller);
        if (request) {
            *request = NULL;
        }
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_api_start(args, ep->team, request, caller);
}

ucc_status_t heddle_ibarrier(heddle_ep_t *ep, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_call_of(&args, UCC_COLL_TYPE_BARRIER, NULL);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ifanin(heddle_ep_t *ep, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANIN, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ifanout(heddle_ep_t *ep, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANOUT, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ibcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                           uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_BCAST, buffer, count, dt, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_imcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                           uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_MCAST, buffer, count, dt, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ireduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t root,
                            ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_REDUCE, src, dst, count, dt, op);
    args.root = root;
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iallreduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                               ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_ALLREDUCE, src, dst, count, dt, op);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                          ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_SCAN, src, dst, count, dt, op);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iexscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_EXSCAN, src, dst, count, dt, op);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ireduce_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                    ucc_datatype_t dt, ucc_reduction_op_t op,
                                    ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_scatter_call(&args, ep, src, dst, count, dt, op);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ireduce_scatterv(heddle_ep_t *ep, const void *src, void *dst,
                                     const uint64_t *counts, ucc_datatype_t dt,
                                     ucc_reduction_op_t op, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_reduce_scatterv_call(&args, ep, src, dst, counts, dt, op);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iallgather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                               ucc_datatype_t dt, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_ALLGATHER, ep, src, dst, count, dt);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iallgatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                                const uint64_t *counts, const uint64_t *displacements,
                                ucc_datatype_t dt, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_ALLGATHERV, src, count, dst, counts, displacements, dt);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_igather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_GATHER, ep, src, dst, count, dt);
    args.root = root;
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_igatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                             const uint64_t *counts, const uint64_t *displacements,
                             ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_GATHERV, src, count, dst, counts, displacements, dt);
    args.root = root;
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iscatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                             ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_scatter_call(&args, ep, src, dst, count, dt, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_iscatterv(heddle_ep_t *ep, const void *src, const uint64_t *counts,
                              const uint64_t *displacements, void *dst, uint64_t count,
                              ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_scatterv_call(&args, src, counts, displacements, dst, count, dt, root);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ialltoall(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_alltoall_call(&args, ep, src, dst, count, dt);
    return start(ep, &args, request, __func__);
}

ucc_status_t heddle_ialltoallv(heddle_ep_t *ep, const void *src, const uint64_t *src_counts,
                               const uint64_t *src_displacements, void *dst,
                               const uint64_t *dst_counts, const uint64_t *dst_displacements,
                               ucc_datatype_t dt, ucc_coll_req_h *request) {
    ucc_coll_args_t args;
    hd_alltoallv_call(&args, src, src_counts, src_displacements, dst, dst_counts, dst_displacements,
                      dt);
    return start(ep, &args, request, __func__);
}
