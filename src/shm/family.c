/* family.c: which family carries out which collective, and from when on its plan is known.
 *
 * A collective that gets an algorithm for few bytes among few members has it here under `express`;
 * what its plan says (plan.c) decides which calls take it.
 */
#include "shm/internal.h"
#include "shm/leaning.h"

const hd_family_t hd_family[HD_N_TYPES] = {
    [HD_ALLGATHER] = {.start = hd_allgather_start},
    [HD_ALLGATHERV] = {.start = hd_allgatherv_start},
    [HD_ALLREDUCE] = {.start = hd_allreduce_start,
                      .express = hd_express_allreduce,
                      .wait = hd_allreduce_wait},
    [HD_ALLTOALL] = {.start = hd_alltoall_start, .start_staged = hd_alltoall_start_staged},
    [HD_ALLTOALLV] = {.start = hd_alltoallv_start},
    [HD_BARRIER] = {.start = hd_barrier_start, .express = hd_express_barrier, .wait = hd_arrived},
    [HD_BCAST] = {.start = hd_bcast_start, .express = hd_express_bcast, .wait = hd_bcast_wait},
    [HD_FANIN] = {.start = hd_fanin_start},
    [HD_FANOUT] = {.start = hd_fanout_start},
    [HD_GATHER] = {.start = hd_gather_start},
    [HD_GATHERV] = {.start = hd_gatherv_start},
    [HD_REDUCE] = {.start = hd_reduce_start},
    [HD_REDUCE_SCATTER] = {.start = hd_reduce_scatter_start,
                           .start_staged = hd_reduce_scatter_start_staged},
    [HD_REDUCE_SCATTERV] = {.start = hd_reduce_scatter_start},
    [HD_SCATTER] = {.start = hd_scatter_start,
                    .express = hd_express_scatter,
                    .wait = hd_scatter_wait,
                    .start_staged = hd_scatter_start_staged},
    [HD_SCATTERV] = {.start = hd_scatterv_start},
    [HD_MCAST] = {.start = hd_bcast_start, .express = hd_express_bcast, .wait = hd_bcast_wait},
    [HD_SCAN] = {.start = hd_scan_start},
    [HD_EXSCAN] = {.start = hd_scan_start},
};

/* Of a member without data: it waits for all to see that none has. */
static ucc_status_t (*start_of(const hd_op_t *op))(hd_op_t *op) {
    const hd_family_t *family = &hd_family[op->call.type];
    return op->call.one_sided                                            ? hd_put_start
           : op->call.empty                                              ? hd_barrier_start
           : op->plan.regime == HD_REGIME_STAGED && family->start_staged ? family->start_staged
                                                                         : family->start;
}

/* At each post of a v type: its counts are this post's. */
static ucc_status_t start_allgatherv(hd_op_t *op) {
    hd_plan_post_allgatherv(op->group, &op->call, &op->place, &op->plan);
    return hd_allgatherv_start(op);
}

static ucc_status_t start_reduce_scatterv(hd_op_t *op) {
    hd_plan_post_reduce_scatterv(op->group, &op->call, &op->place, &op->plan);
    return hd_reduce_scatter_start(op);
}

static ucc_status_t start_alltoallv(hd_op_t *op) {
    hd_plan_post_alltoallv(op->group, &op->call, &op->place, &op->plan);
    return hd_alltoallv_start(op);
}

static ucc_status_t start_alltoallv_pulled(hd_op_t *op) {
    hd_plan_post_mixed(op->group, &op->call, &op->place, &op->plan);
    return hd_alltoallv_start_pulled(op);
}

static ucc_status_t start_gatherv(hd_op_t *op) {
    hd_plan_post_gatherv(op->group, &op->call, &op->place, &op->plan);
    return hd_gatherv_start(op);
}

static ucc_status_t start_scatterv(hd_op_t *op) {
    hd_plan_post_scatterv(op->group, &op->call, &op->place, &op->plan);
    return hd_scatterv_start(op);
}

/* Of a v type that always takes the engine where others are on the path MIXED. */
static ucc_status_t start_directly(hd_op_t *op) {
    hd_plan_post_directly(op->group, &op->call, &op->place, &op->plan);
    return hd_family[op->call.type].start(op);
}

/* Where members don't reach each other's buffers: of a v type, whether that matters depends on a
 * post's counts. */
static ucc_status_t start_far(hd_op_t *op) {
    return hd_far_start(op, hd_family[HD_BARRIER].wait);
}

/* A post decides anew how data goes; whether stand-ins of devices' buffers take part, the
 * preparation has decided. */
static void replan(hd_op_t *op, hd_plan_t plan) {
    plan.where = op->plan.where;
    op->plan = plan;
}

/* What is staged, unless the buffers of collectives that are over were in reach of all. */
static ucc_status_t start_leaning(hd_op_t *op) {
    bool direct = hd_leaning_is_near(op);
    if (direct && op->plan.path != HD_PATH_FAR) {
        replan(op, hd_plan_direct(op->group, &op->call, &op->place));
    } else if (!direct && op->plan.path == HD_PATH_FAR) {
        replan(op, hd_plan_here(op->group, &op->call, &op->place));
    }
    return direct ? start_far(op) : start_of(op)(op);
}

static ucc_status_t start_apart(hd_op_t *op) {
    static ucc_status_t (*const mixed[HD_N_TYPES])(hd_op_t * op) = {
        [HD_ALLTOALLV] = hd_alltoallv_start_apart,
        [HD_GATHERV] = hd_gatherv_start_apart,
        [HD_SCATTERV] = hd_scatterv_start_apart,
    };
    replan(op, hd_plan_here(op->group, &op->call, &op->place));
    if (hd_plan_leans(op->group, &op->call, &op->place, &op->plan) && hd_leaning_is_near(op)) {
        replan(op, hd_plan_direct(op->group, &op->call, &op->place));
    } else if (op->plan.path == HD_PATH_MIXED &&
               hd_plan_leans_alone(op->group, &op->call, &op->plan) &&
               hd_leaning_is_near_here(op)) {
        op->plan.regime = HD_REGIME_DIRECT;
    }
    switch ((hd_path_t)op->plan.path) {
    case HD_PATH_FAR:
        return start_far(op);
    case HD_PATH_MIXED:
        return mixed[op->call.type](op);
    default:
        return start_of(op)(op);
    }
}

ucc_status_t (*hd_plan_start(const hd_op_t *op))(hd_op_t *op) {
    static ucc_status_t (*const start[HD_N_TYPES])(hd_op_t * op) = {
        [HD_ALLGATHERV] = start_allgatherv, [HD_ALLTOALLV] = start_alltoallv,
        [HD_GATHERV] = start_gatherv,       [HD_REDUCE_SCATTERV] = start_reduce_scatterv,
        [HD_SCATTERV] = start_scatterv,
    };
    uint8_t type = op->call.type;
    hd_assert(!op->plan.express || hd_family[type].express);
    if (!hd_coll[type].vector && hd_plan_leans(op->group, &op->call, &op->place, &op->plan)) {
        return start_leaning;
    }
    if (op->plan.path == HD_PATH_FAR || (hd_coll[type].vector && op->group->apart)) {
        return hd_coll[type].vector ? start_apart : start_far;
    }
    if (!hd_coll[type].vector) {
        return start_of(op);
    }
    if (hd_plan_is_mixed(type) && op->plan.path == HD_PATH_ENGINE) {
        return start_directly;
    }
    return op->plan.path == HD_PATH_MIXED && op->plan.row->by_destination ? start_alltoallv_pulled
                                                                          : start[type];
}
