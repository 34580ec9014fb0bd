/* collectives.c: what each collective needs and how it is called.
 *
 * One table describes all of them; the two switches below (UCC arguments, blocking calls) are the
 * only places that know a collective by name. Counts follow the UCC 1.x rules: totals where the
 * buffer has one block per endpoint, the block's own count elsewhere. Displacements are in
 * elements.
 */
#include "perf.h"

#include <string.h>

const perf_coll_t perf_colls[] = {
    {"barrier", UCC_COLL_TYPE_BARRIER, 0, PERF_SHAPE_NONE, PERF_SHAPE_NONE},
    {"fanin", UCC_COLL_TYPE_FANIN, PERF_ROOTED, PERF_SHAPE_NONE, PERF_SHAPE_NONE},
    {"fanout", UCC_COLL_TYPE_FANOUT, PERF_ROOTED, PERF_SHAPE_NONE, PERF_SHAPE_NONE},
    {"bcast", UCC_COLL_TYPE_BCAST, PERF_ROOTED, PERF_SHAPE_BLOCK, PERF_SHAPE_NONE},
    {"mcast", UCC_COLL_TYPE_MCAST, PERF_ROOTED, PERF_SHAPE_BLOCK, PERF_SHAPE_NONE},
    {"reduce", UCC_COLL_TYPE_REDUCE, PERF_ROOTED | PERF_REDUCES | PERF_IN_PLACE, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCK},
    {"allreduce", UCC_COLL_TYPE_ALLREDUCE, PERF_REDUCES | PERF_IN_PLACE, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCK},
    {"scan", UCC_COLL_TYPE_SCAN, PERF_REDUCES | PERF_PREFIX | PERF_IN_PLACE, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCK},
    {"exscan", UCC_COLL_TYPE_EXSCAN, PERF_REDUCES | PERF_PREFIX | PERF_IN_PLACE, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCK},
    {"reduce_scatter", UCC_COLL_TYPE_REDUCE_SCATTER, PERF_REDUCES | PERF_IN_PLACE,
     PERF_SHAPE_BLOCKS, PERF_SHAPE_BLOCK},
    {"reduce_scatterv", UCC_COLL_TYPE_REDUCE_SCATTERV, PERF_REDUCES | PERF_IN_PLACE | PERF_VECTOR,
     PERF_SHAPE_BLOCKS, PERF_SHAPE_BLOCK},
    {"allgather", UCC_COLL_TYPE_ALLGATHER, PERF_IN_PLACE, PERF_SHAPE_BLOCK, PERF_SHAPE_BLOCKS},
    {"allgatherv", UCC_COLL_TYPE_ALLGATHERV, PERF_IN_PLACE | PERF_VECTOR, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCKS},
    {"gather", UCC_COLL_TYPE_GATHER, PERF_ROOTED | PERF_IN_PLACE, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCKS},
    {"gatherv", UCC_COLL_TYPE_GATHERV, PERF_ROOTED | PERF_IN_PLACE | PERF_VECTOR, PERF_SHAPE_BLOCK,
     PERF_SHAPE_BLOCKS},
    {"scatter", UCC_COLL_TYPE_SCATTER, PERF_ROOTED | PERF_IN_PLACE, PERF_SHAPE_BLOCKS,
     PERF_SHAPE_BLOCK},
    {"scatterv", UCC_COLL_TYPE_SCATTERV, PERF_ROOTED | PERF_IN_PLACE | PERF_VECTOR,
     PERF_SHAPE_BLOCKS, PERF_SHAPE_BLOCK},
    {"alltoall", UCC_COLL_TYPE_ALLTOALL, PERF_IN_PLACE | PERF_PAIRWISE, PERF_SHAPE_BLOCKS,
     PERF_SHAPE_BLOCKS},
    {"alltoallv", UCC_COLL_TYPE_ALLTOALLV, PERF_IN_PLACE | PERF_PAIRWISE | PERF_VECTOR,
     PERF_SHAPE_BLOCKS, PERF_SHAPE_BLOCKS},
};
const size_t perf_n_colls = sizeof(perf_colls) / sizeof(perf_colls[0]);

const perf_coll_t *perf_coll_find(const char *name) {
    for (size_t i = 0; i < perf_n_colls; i++) {
        if (strcmp(perf_colls[i].name, name) == 0) {
            return &perf_colls[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Sizes
 * ---------------------------------------------------------------------------------------------- */

uint64_t perf_block_count(const perf_case_t *c, uint32_t e, uint32_t b) {
    return (c->coll->traits & PERF_PAIRWISE) != 0 ? c->counts[e + b] : c->counts[b];
}

uint64_t perf_block_position(const perf_case_t *c, const perf_endpoint_t *e, uint32_t b) {
    bool own_row = c->coll->type == UCC_COLL_TYPE_ALLTOALLV;
    return own_row ? e->pair_displacements[b] : c->displacements[b];
}

/* A single block may be any endpoint's, so its buffer takes the largest of them. */
static uint64_t shape_elements(const perf_case_t *c, perf_shape_t shape) {
    switch (shape) {
    case PERF_SHAPE_BLOCK:
        return (c->coll->traits & PERF_VECTOR) != 0 ? c->count + c->count / 2 : c->count;
    case PERF_SHAPE_BLOCKS:
        return c->total;
    case PERF_SHAPE_NONE:
        break;
    }
    return 0;
}

uint64_t perf_source_bytes(const perf_case_t *c) {
    return shape_elements(c, c->coll->source) * c->options->datatype->bytes;
}

uint64_t perf_destination_bytes(const perf_case_t *c) {
    perf_shape_t shape = c->coll->destination;
    bool scatters = c->coll->type == UCC_COLL_TYPE_REDUCE_SCATTER ||
                    c->coll->type == UCC_COLL_TYPE_REDUCE_SCATTERV;
    /* reduce_scatter in place: the destination holds the whole input */
    if (scatters && c->options->in_place) {
        shape = PERF_SHAPE_BLOCKS;
    }
    return shape_elements(c, shape) * c->options->datatype->bytes;
}

bool perf_is_in_place(const perf_case_t *c, const perf_endpoint_t *e) {
    if (!c->options->in_place || (c->coll->traits & PERF_IN_PLACE) == 0) {
        return false;
    }
    return (c->coll->traits & PERF_ROOTED) == 0 || e->index == e->root;
}

bool perf_scatters(const perf_coll_t *coll) {
    return coll->type == UCC_COLL_TYPE_SCATTER || coll->type == UCC_COLL_TYPE_SCATTERV;
}

/* ------------------------------------------------------------------------------------------------
 * UCC arguments
 * ---------------------------------------------------------------------------------------------- */

static void set_info(ucc_coll_buffer_info_t *info, void *buffer, uint64_t count,
                     const perf_case_t *c) {
    info->buffer = buffer;
    info->count = count;
    info->datatype = c->options->datatype->dt;
    info->mem_type = c->options->memory;
}

static void set_vector(ucc_coll_buffer_info_v_t *info, void *buffer, uint64_t *counts,
                       uint64_t *displacements, const perf_case_t *c) {
    info->buffer = buffer;
    info->counts = (ucc_count_t *)counts;
    info->displacements = (ucc_aint_t *)displacements;
    info->datatype = c->options->datatype->dt;
    info->mem_type = c->options->memory;
}

static void fill_buffers(const perf_case_t *c, perf_endpoint_t *e) {
    ucc_coll_args_t *args = &e->args;
    uint64_t mine = c->counts[e->index];
    switch (c->coll->type) {
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
        set_info(&args->src.info, e->source, c->total, c);
        set_vector(&args->dst.info_v, e->destination, c->counts, NULL, c);
        break;
    case UCC_COLL_TYPE_ALLGATHERV:
    case UCC_COLL_TYPE_GATHERV:
        set_info(&args->src.info, e->source, mine, c);
        set_vector(&args->dst.info_v, e->destination, c->counts, c->displacements, c);
        break;
    case UCC_COLL_TYPE_SCATTERV:
        set_vector(&args->src.info_v, e->source, c->counts, c->displacements, c);
        set_info(&args->dst.info, e->destination, mine, c);
        break;
    case UCC_COLL_TYPE_ALLTOALLV:
        set_vector(&args->src.info_v, e->source, c->counts + e->index, e->pair_displacements, c);
        set_vector(&args->dst.info_v, e->destination, c->counts + e->index, e->pair_displacements,
                   c);
        break;
    default:
        set_info(&args->src.info, e->source, shape_elements(c, c->coll->source), c);
        set_info(&args->dst.info, e->destination,
                 perf_destination_bytes(c) / c->options->datatype->bytes, c);
        break;
    }
}

void perf_args_fill(const perf_case_t *c, perf_endpoint_t *e) {
    memset(&e->args, 0, sizeof(e->args));
    e->args.coll_type = c->coll->type;
    e->args.op = c->options->operation->op;
    fill_buffers(c, e);
    if ((c->coll->traits & PERF_VECTOR) != 0) {
        e->args.flags |= UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
    }
    if (c->options->persistent) {
        e->args.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    perf_root_set(c, e, e->root);
}

uint64_t perf_set_stride(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

void perf_set_choose(const perf_case_t *c, perf_endpoint_t *e, uint64_t set) {
    e->source = e->sources + set * perf_set_stride(perf_source_bytes(c));
    e->destination = e->destinations + set * perf_set_stride(perf_destination_bytes(c));
    fill_buffers(c, e);
}

void perf_root_set(const perf_case_t *c, perf_endpoint_t *e, uint32_t root) {
    e->root = root;
    e->args.root = root;
    e->args.flags &= ~(uint64_t)UCC_COLL_ARGS_FLAG_IN_PLACE;
    if (perf_is_in_place(c, e)) {
        e->args.flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
    e->args.mask = e->args.flags != 0 ? UCC_COLL_ARGS_FIELD_FLAGS : 0;
}

/* ------------------------------------------------------------------------------------------------
 * Blocking calls
 * ---------------------------------------------------------------------------------------------- */

static ucc_status_t call_reduction(const perf_case_t *c, perf_endpoint_t *e, const void *source) {
    const perf_options_t *o = c->options;
    ucc_datatype_t dt = o->datatype->dt;
    ucc_reduction_op_t op = o->operation->op;
    switch ((uint64_t)c->coll->type) { /* scans are no members of the enumeration */
    case UCC_COLL_TYPE_REDUCE:
        return heddle_reduce(e->handle, source, e->destination, c->count, dt, op, e->root);
    case UCC_COLL_TYPE_ALLREDUCE:
        return heddle_allreduce(e->handle, source, e->destination, c->count, dt, op);
    case UCC_COLL_TYPE_SCAN:
        return heddle_scan(e->handle, source, e->destination, c->count, dt, op);
    case UCC_COLL_TYPE_EXSCAN:
        return heddle_exscan(e->handle, source, e->destination, c->count, dt, op);
    case UCC_COLL_TYPE_REDUCE_SCATTER:
        return heddle_reduce_scatter(e->handle, source, e->destination, c->count, dt, op);
    default:
        return heddle_reduce_scatterv(e->handle, source, e->destination, c->counts, dt, op);
    }
}

static ucc_status_t call_movement(const perf_case_t *c, perf_endpoint_t *e, const void *source,
                                  void *destination) {
    heddle_ep_t *handle = e->handle;
    ucc_datatype_t dt = c->options->datatype->dt;
    uint32_t root = e->root;
    uint64_t mine = c->counts[e->index];
    switch (c->coll->type) {
    case UCC_COLL_TYPE_ALLGATHER:
        return heddle_allgather(handle, source, destination, c->count, dt);
    case UCC_COLL_TYPE_ALLGATHERV:
        return heddle_allgatherv(handle, source, mine, destination, c->counts, c->displacements,
                                 dt);
    case UCC_COLL_TYPE_GATHER:
        return heddle_gather(handle, source, destination, c->count, dt, root);
    case UCC_COLL_TYPE_GATHERV:
        return heddle_gatherv(handle, source, mine, destination, c->counts, c->displacements, dt,
                              root);
    case UCC_COLL_TYPE_SCATTER:
        return heddle_scatter(handle, source, destination, c->count, dt, root);
    case UCC_COLL_TYPE_SCATTERV:
        return heddle_scatterv(handle, source, c->counts, c->displacements, destination, mine, dt,
                               root);
    case UCC_COLL_TYPE_ALLTOALL:
        return heddle_alltoall(handle, source, destination, c->count, dt);
    default:
        return heddle_alltoallv(handle, source, c->counts + e->index, e->pair_displacements,
                                destination, c->counts + e->index, e->pair_displacements, dt);
    }
}

ucc_status_t perf_call_blocking(const perf_case_t *c, perf_endpoint_t *e) {
    const perf_options_t *o = c->options;
    switch ((uint64_t)c->coll->type) { /* multicast is no member of the enumeration */
    case UCC_COLL_TYPE_BARRIER:
        return heddle_barrier(e->handle);
    case UCC_COLL_TYPE_FANIN:
        return heddle_fanin(e->handle, e->root);
    case UCC_COLL_TYPE_FANOUT:
        return heddle_fanout(e->handle, e->root);
    case UCC_COLL_TYPE_BCAST:
        return heddle_bcast(e->handle, e->source, c->count, o->datatype->dt, e->root);
    case UCC_COLL_TYPE_MCAST:
        return heddle_mcast(e->handle, e->source, c->count, o->datatype->dt, e->root);
    default:
        break;
    }
    bool in_place = perf_is_in_place(c, e), scatters = perf_scatters(c->coll);
    const void *source = in_place && !scatters ? HEDDLE_IN_PLACE : e->source;
    void *destination = in_place && scatters ? HEDDLE_IN_PLACE : e->destination;
    if ((c->coll->traits & PERF_REDUCES) != 0) {
        return call_reduction(c, e, source);
    }
    return call_movement(c, e, source, destination);
}
