/* stream.c: collectives in the order of a stream (heddle.h): the arguments of the blocking calls
 * (calls.h), whose memory is looked at, posted on the stream.
 */
#include "api/calls.h"
#include "threads/callback.h"

static bool is_vector(uint8_t extent) {
    return extent == HD_VECTOR;
}

/* calls.h says that memory is the host's. */
static void look_at_memory(ucc_coll_args_t *args) {
    const hd_coll_t *coll = &hd_coll[hd_type_of((uint64_t)args->coll_type)];
    if (is_vector(coll->source)) {
        args->src.info_v.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
    } else {
        args->src.info.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
    }
    if (is_vector(coll->result)) {
        args->dst.info_v.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
    } else {
        args->dst.info.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
    }
}

static ucc_status_t run_posted(hd_request_t *r, void *stream) {
    ucc_status_t status = hd_request_post_on(r, NULL, stream, HD_ON_WAITS);
    if (status != UCC_OK) {
        return status;
    }
    status = heddle_wait(&r->op.task.req, -1);
    ucc_status_t joined = hd_device_join_thread(&r->op);
    return status == UCC_OK ? joined : status;
}

ucc_status_t heddle_collective_on(ucc_coll_args_t *args, ucc_team_h team, void *stream) {
    ucc_coll_req_h request;
    ucc_status_t status = hd_callback_refuses(__func__) ? UCC_ERR_INVALID_PARAM
                                                        : ucc_collective_init(args, &request, team);
    if (status == UCC_OK) {
        status = run_posted((hd_request_t *)(void *)request, stream);
        ucc_collective_finalize(request);
    }
    if (status != UCC_OK) {
        hd_api_remember_failure(team, status);
    }
    return status;
}

ucc_status_t heddle_post_on(ucc_coll_req_h request, void *stream) {
    hd_request_t *r = hd_api_request(request, __func__);
    return r ? hd_request_post_on(r, NULL, stream, HD_ON_POSTED) : UCC_ERR_INVALID_PARAM;
}

static ucc_status_t run(heddle_ep_t *ep, void *stream, ucc_coll_args_t *args, const char *caller) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", caller);
        return UCC_ERR_INVALID_PARAM;
    }
    look_at_memory(args);
    return heddle_collective_on(args, ep->team, stream);
}

ucc_status_t heddle_barrier_on(heddle_ep_t *ep, void *stream) {
    ucc_coll_args_t args;
    hd_call_of(&args, UCC_COLL_TYPE_BARRIER, NULL);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_fanin_on(heddle_ep_t *ep, void *stream, uint32_t root) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANIN, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_fanout_on(heddle_ep_t *ep, void *stream, uint32_t root) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANOUT, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_bcast_on(heddle_ep_t *ep, void *stream, void *buffer, uint64_t count,
                             ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_BCAST, buffer, count, dt, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_mcast_on(heddle_ep_t *ep, void *stream, void *buffer, uint64_t count,
                             ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_MCAST, buffer, count, dt, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_reduce_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op,
                              uint32_t root) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_REDUCE, src, dst, count, dt, op);
    args.root = root;
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_allreduce_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                 uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_ALLREDUCE, src, dst, count, dt, op);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_scan_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                            uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_SCAN, src, dst, count, dt, op);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_exscan_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_EXSCAN, src, dst, count, dt, op);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_reduce_scatter_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                      uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_scatter_call(&args, ep, src, dst, count, dt, op);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_reduce_scatterv_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                       const uint64_t *counts, ucc_datatype_t dt,
                                       ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_scatterv_call(&args, ep, src, dst, counts, dt, op);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_allgather_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                 uint64_t count, ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_ALLGATHER, ep, src, dst, count, dt);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_allgatherv_on(heddle_ep_t *ep, void *stream, const void *src, uint64_t count,
                                  void *dst, const uint64_t *counts, const uint64_t *displacements,
                                  ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_ALLGATHERV, src, count, dst, counts, displacements, dt);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_gather_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_GATHER, ep, src, dst, count, dt);
    args.root = root;
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_gatherv_on(heddle_ep_t *ep, void *stream, const void *src, uint64_t count,
                               void *dst, const uint64_t *counts, const uint64_t *displacements,
                               ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_GATHERV, src, count, dst, counts, displacements, dt);
    args.root = root;
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_scatter_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                               uint64_t count, ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_scatter_call(&args, ep, src, dst, count, dt, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_scatterv_on(heddle_ep_t *ep, void *stream, const void *src,
                                const uint64_t *counts, const uint64_t *displacements, void *dst,
                                uint64_t count, ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_scatterv_call(&args, src, counts, displacements, dst, count, dt, root);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_alltoall_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                uint64_t count, ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_alltoall_call(&args, ep, src, dst, count, dt);
    return run(ep, stream, &args, __func__);
}

ucc_status_t heddle_alltoallv_on(heddle_ep_t *ep, void *stream, const void *src,
                                 const uint64_t *src_counts, const uint64_t *src_displacements,
                                 void *dst, const uint64_t *dst_counts,
                                 const uint64_t *dst_displacements, ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_alltoallv_call(&args, src, src_counts, src_displacements, dst, dst_counts, dst_displacements,
                      dt);
    return run(ep, stream, &args, __func__);
}
