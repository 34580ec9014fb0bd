/* blocking.c: the blocking collectives of heddle.h. heddle_collective takes a ucc_coll_args_t, each
 * of the others fills one in on the stack; both run it. No heap, and the calling thread works on
 * chunks while it waits. One thread at a time for each endpoint.
 */
#include "api/calls.h"

/* A call that is over without a wait has progressed nothing. Who only makes blocking calls (and
 * tests for completion) must still see the rest of what it has outstanding end. */
static void progress_others(ucc_team_h team) {
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        if (!hd_runner_is_empty(&team->contexts[i]->runner)) {
            hd_api_look_at(team->contexts[i]);
        }
    }
}

ucc_status_t hd_api_run(ucc_coll_args_t *args, ucc_team_h team, uint64_t published) {
    ucc_coll_req_h request;
    /* an endpoint's own team and arguments are in order: bad ones come from here only */
    ucc_status_t status = hd_api_init(args, NULL, &request, team, "heddle_collective");
    if (status != UCC_OK) {
        if (published) {
            hd_group_poison(team->group, status); /* the others have seen me come */
        }
        hd_api_remember_failure(team, status);
        return status;
    }
    hd_request_t *r = (hd_request_t *)(void *)request;
    if (__builtin_expect(published != 0, 0)) {
        hd_request_resume(r, published);
    } else {
        status = hd_request_post(r);
    }
    if (status == UCC_OK && hd_task_status(&r->op.task) != UCC_INPROGRESS) {
        progress_others(team);
        status = hd_api_seen(r);
    } else if (status == UCC_OK) {
        status = heddle_wait(request, -1);
    }
    if (status != UCC_OK) {
        hd_api_remember_failure(team, status);
    } else if (!published && r->express) {
        hd_team_cache_call(r);
    }
    hd_request_finalize(r);
    return status;
}

ucc_status_t heddle_collective(ucc_coll_args_t *args, ucc_team_h team) {
    return hd_api_run(args, team, 0);
}

/* Apart: the way of all calls stays short. */
static __attribute__((noinline, cold)) ucc_status_t no_endpoint(const ucc_coll_args_t *args) {
    hd_error("heddle_%s: not an endpoint",
             hd_type_name((uint8_t)__builtin_ctzll((uint64_t)args->coll_type)));
    return UCC_ERR_INVALID_PARAM;
}

/* Not an endpoint, or one of a team of several processes, some of whose small collectives are
 * over here. */
static __attribute__((noinline)) ucc_status_t cross(heddle_ep_t *ep, ucc_coll_args_t *args) {
    ucc_team_h team = heddle_ep_team(ep);
    if (!team) {
        return no_endpoint(args);
    }
    uint64_t k = hd_team_swap(team, args);
    return k == HD_EXPRESS_OVER ? UCC_OK : hd_api_run(args, team, k);
}

/* published: see hd_api_run. */
static __attribute__((noinline)) ucc_status_t go_on(heddle_ep_t *ep, ucc_coll_args_t *args,
                                                    uint64_t published) {
    return hd_api_is_local_ep(ep) ? hd_api_run(args, ep->team, published) : cross(ep, args);
}

static ucc_status_t run(heddle_ep_t *ep, ucc_coll_args_t *args) {
    return go_on(ep, args, 0);
}

/* A v type. Algorithms of the program's see its arguments as UCC has them. */
static ucc_status_t run_v(heddle_ep_t *ep, ucc_coll_args_t *args) {
    if (hd_api_is_local_ep(ep) && !ep->team->offers) {
        args->flags |= HD_ARGS_COUNTS_STAY;
    }
    return go_on(ep, args, 0);
}

/* Barrier, bcast, allreduce and scatter first try the express: small ones are over there. */

static __attribute__((noinline)) ucc_status_t barrier(heddle_ep_t *ep, uint64_t published) {
    ucc_coll_args_t args;
    hd_call_of(&args, UCC_COLL_TYPE_BARRIER, NULL);
    return go_on(ep, &args, published);
}

ucc_status_t heddle_barrier(heddle_ep_t *ep) {
    uint64_t k = hd_api_is_local_ep(ep) ? hd_team_barrier(ep->team) : 0;
    return k == HD_EXPRESS_OVER ? UCC_OK : barrier(ep, k);
}

ucc_status_t heddle_fanin(heddle_ep_t *ep, uint32_t root) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANIN, root);
    return run(ep, &args);
}

ucc_status_t heddle_fanout(heddle_ep_t *ep, uint32_t root) {
    ucc_coll_args_t args;
    hd_rooted_call(&args, UCC_COLL_TYPE_FANOUT, root);
    return run(ep, &args);
}

static __attribute__((noinline)) ucc_status_t bcast(heddle_ep_t *ep, void *buffer, uint64_t count,
                                                    ucc_datatype_t dt, uint32_t root,
                                                    uint64_t published) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_BCAST, buffer, count, dt, root);
    return go_on(ep, &args, published);
}

ucc_status_t heddle_bcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root) {
    uint64_t k = hd_api_is_local_ep(ep) ? hd_team_bcast(ep->team, buffer, count, dt, root) : 0;
    return k == HD_EXPRESS_OVER ? UCC_OK : bcast(ep, buffer, count, dt, root, k);
}

ucc_status_t heddle_mcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root) {
    ucc_coll_args_t args;
    hd_bcast_call(&args, UCC_COLL_TYPE_MCAST, buffer, count, dt, root);
    return run(ep, &args);
}

ucc_status_t heddle_reduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t root) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_REDUCE, src, dst, count, dt, op);
    args.root = root;
    return run(ep, &args);
}

static __attribute__((noinline)) ucc_status_t allreduce(heddle_ep_t *ep, const void *src, void *dst,
                                                        uint64_t count, ucc_datatype_t dt,
                                                        ucc_reduction_op_t op, uint64_t published) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_ALLREDUCE, src, dst, count, dt, op);
    return go_on(ep, &args, published);
}

ucc_status_t heddle_allreduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt, ucc_reduction_op_t op) {
    uint64_t k = hd_api_is_local_ep(ep) ? hd_team_allreduce(ep->team, src, dst, count, dt, op) : 0;
    return k == HD_EXPRESS_OVER ? UCC_OK : allreduce(ep, src, dst, count, dt, op, k);
}

ucc_status_t heddle_scan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                         ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_SCAN, src, dst, count, dt, op);
    return run(ep, &args);
}

ucc_status_t heddle_exscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_EXSCAN, src, dst, count, dt, op);
    return run(ep, &args);
}

ucc_status_t heddle_reduce_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                   ucc_datatype_t dt, ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_scatter_call(&args, ep, src, dst, count, dt, op);
    return run(ep, &args);
}

ucc_status_t heddle_reduce_scatterv(heddle_ep_t *ep, const void *src, void *dst,
                                    const uint64_t *counts, ucc_datatype_t dt,
                                    ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_scatterv_call(&args, ep, src, dst, counts, dt, op);
    return run(ep, &args);
}

ucc_status_t heddle_allgather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_ALLGATHER, ep, src, dst, count, dt);
    return run(ep, &args);
}

ucc_status_t heddle_allgatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                               const uint64_t *counts, const uint64_t *displacements,
                               ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_ALLGATHERV, src, count, dst, counts, displacements, dt);
    return run_v(ep, &args);
}

ucc_status_t heddle_gather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_gather_call(&args, UCC_COLL_TYPE_GATHER, ep, src, dst, count, dt);
    args.root = root;
    return run(ep, &args);
}

ucc_status_t heddle_gatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                            const uint64_t *counts, const uint64_t *displacements,
                            ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_gatherv_call(&args, UCC_COLL_TYPE_GATHERV, src, count, dst, counts, displacements, dt);
    args.root = root;
    return run_v(ep, &args);
}

static __attribute__((noinline)) ucc_status_t scatter(heddle_ep_t *ep, const void *src, void *dst,
                                                      uint64_t count, ucc_datatype_t dt,
                                                      uint32_t root, uint64_t published) {
    ucc_coll_args_t args;
    hd_scatter_call(&args, ep, src, dst, count, dt, root);
    return go_on(ep, &args, published);
}

ucc_status_t heddle_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, uint32_t root) {
    uint64_t k = hd_api_is_local_ep(ep) ? hd_team_scatter(ep->team, src, dst, count, dt, root) : 0;
    return k == HD_EXPRESS_OVER ? UCC_OK : scatter(ep, src, dst, count, dt, root, k);
}

ucc_status_t heddle_scatterv(heddle_ep_t *ep, const void *src, const uint64_t *counts,
                             const uint64_t *displacements, void *dst, uint64_t count,
                             ucc_datatype_t dt, uint32_t root) {
    ucc_coll_args_t args;
    hd_scatterv_call(&args, src, counts, displacements, dst, count, dt, root);
    return run_v(ep, &args);
}

ucc_status_t heddle_alltoall(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                             ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_alltoall_call(&args, ep, src, dst, count, dt);
    return run(ep, &args);
}

ucc_status_t heddle_alltoallv(heddle_ep_t *ep, const void *src, const uint64_t *src_counts,
                              const uint64_t *src_displacements, void *dst,
                              const uint64_t *dst_counts, const uint64_t *dst_displacements,
                              ucc_datatype_t dt) {
    ucc_coll_args_t args;
    hd_alltoallv_call(&args, src, src_counts, src_displacements, dst, dst_counts, dst_displacements,
                      dt);
    return run_v(ep, &args);
}
