/* args.c: from ucc_coll_args_t to what an operation needs.
 *
 * Only the fields that are significant for the collective at this endpoint are looked at: all others
 * may be garbage (ucc-contract: an in-place source, a non-root destination, anything outside the
 * mask). What is wrong is logged by the name of its field. No heap but for densely packed vectors,
 * whose displacements are worked out here once.
 *
 * What an operation gets: bytes = one block (bcast, reduce, allreduce: everything); total = all that
 * this member gives; src, dst as the family's file says.
 */
#include "core/dtype.h"
#include "team/team.h"

#include <limits.h>

enum { MAX_TIMEOUT_S = 1000000000 };

typedef struct call {
    ucc_team_h team;
    const ucc_coll_args_t *args;
    hd_request_t *r;
    hd_op_t *op;
    uint64_t flags;
    uint32_t n, me; /* members of this collective, and my number among them */
} call_t;

static ucc_status_t bad(const call_t *c, const char *field, const char *what) {
    hd_error("%s at endpoint %u: %s %s", hd_type_name(c->op->type), c->team->ep, field, what);
    return UCC_ERR_INVALID_PARAM;
}

static bool is_rooted(uint8_t type) {
    switch (type) {
    case HD_BCAST:
    case HD_MCAST:
    case HD_FANIN:
    case HD_FANOUT:
    case HD_GATHER:
    case HD_GATHERV:
    case HD_REDUCE:
    case HD_SCATTER:
    case HD_SCATTERV:
        return true;
    default:
        return false;
    }
}

static bool is_reducing(uint8_t type) {
    return type == HD_REDUCE || type == HD_ALLREDUCE || type == HD_REDUCE_SCATTER ||
           type == HD_REDUCE_SCATTERV;
}

/* --- buffers ------------------------------------------------------------------------------------ */

static ucc_status_t check_memory(const call_t *c, const char *field, ucc_memory_type_t type) {
    if (type == UCC_MEMORY_TYPE_HOST || type == UCC_MEMORY_TYPE_UNKNOWN) {
        return UCC_OK;
    }
    if ((unsigned)type > (unsigned)UCC_MEMORY_TYPE_UNKNOWN) {
        return bad(c, field, "has a memory type that does not exist");
    }
    hd_error("%s at endpoint %u: %s.mem_type: device memory is not supported by this build",
             hd_type_name(c->op->type), c->team->ep, field);
    return UCC_ERR_NOT_SUPPORTED;
}

static ucc_status_t check_datatype(const call_t *c, const char *field, ucc_datatype_t dt) {
    if (!hd_dt_valid(dt)) {
        return bad(c, field, "is not a datatype");
    }
    if (!hd_dt_is_contiguous(dt)) {
        hd_error("%s at endpoint %u: %s: a datatype packed by the user is not supported here",
                 hd_type_name(c->op->type), c->team->ep, field);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return UCC_OK;
}

/* Bytes of a plain buffer; checks its datatype, memory type, size and address. */
static ucc_status_t take_buffer(const call_t *c, const char *field,
                                const ucc_coll_buffer_info_t *info, size_t *bytes) {
    ucc_status_t status = check_datatype(c, field, info->datatype);
    if (status == UCC_OK) {
        status = check_memory(c, field, info->mem_type);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (__builtin_mul_overflow(info->count, hd_dt_size(info->datatype), bytes) ||
        *bytes > SSIZE_MAX) {
        return bad(c, field, "has a count beyond the address space");
    }
    if (*bytes && !info->buffer) {
        return bad(c, field, "has a NULL buffer");
    }
    return UCC_OK;
}

/* Displacements of a densely packed vector, kept with the request. which: 0 send, 1 receive. */
static ucc_status_t make_dense(const call_t *c, hd_vector_t *v, int which) {
    hd_request_t *r = c->r;
    if (r->prefix_entries < 2 * (size_t)c->n) {
        hd_free(r->prefix);
        r->prefix = hd_alloc(HD_LINE, 2 * (size_t)c->n * sizeof(uint64_t));
        r->prefix_entries = r->prefix ? 2 * (size_t)c->n : 0;
        if (!r->prefix) {
            hd_error("%s: no memory for displacements", hd_type_name(c->op->type));
            return UCC_ERR_NO_MEMORY;
        }
    }
    uint64_t *at = r->prefix + (which ? c->n : 0), sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        at[i] = sum;
        sum += hd_vector_count(v, i);
    }
    v->displacements = at;
    v->wide_displacements = true;
    return UCC_OK;
}

/* dense: displacements are not significant (reduce_scatterv). total: sum of all blocks in bytes. */
static ucc_status_t take_vector(const call_t *c, const char *field,
                                const ucc_coll_buffer_info_v_t *info, int which, bool dense,
                                size_t *total) {
    hd_vector_t *v = which ? &c->op->receive : &c->op->send;
    ucc_status_t status = check_datatype(c, field, info->datatype);
    if (status == UCC_OK) {
        status = check_memory(c, field, info->mem_type);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (!info->counts) {
        return bad(c, field, "has NULL counts");
    }
    v->counts = info->counts;
    v->wide_counts = (c->flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT) != 0;
    v->displacements = dense ? NULL : info->displacements;
    v->wide_displacements = (c->flags & UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT) != 0;
    size_t element = hd_dt_size(info->datatype), bytes;
    *total = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (__builtin_mul_overflow(hd_vector_count(v, i), element, &bytes) ||
            __builtin_add_overflow(*total, bytes, total) || *total > SSIZE_MAX) {
            return bad(c, field, "has counts beyond the address space");
        }
    }
    /* dense: only reduce_scatterv, whose buffer holds one block unless it is in place */
    size_t held = dense && !c->op->in_place ? hd_vector_count(v, c->me) * element : *total;
    if (held && !info->buffer) {
        return bad(c, field, "has a NULL buffer");
    }
    return v->displacements ? UCC_OK : make_dense(c, v, which);
}

static uint8_t *block_at(const hd_vector_t *v, void *buffer, uint32_t i, size_t element) {
    return (uint8_t *)buffer + hd_vector_displacement(v, i) * element;
}

/* --- one function per shape of collective -------------------------------------------------------- */

static ucc_status_t prepare_bcast(call_t *c) {
    hd_op_t *op = c->op;
    ucc_status_t status = take_buffer(c, "src", &c->args->src.info, &op->bytes);
    op->total = op->bytes;
    op->src = c->args->src.info.buffer;
    op->dst = c->args->src.info.buffer;
    return status;
}

static ucc_status_t prepare_reduce(call_t *c) {
    hd_op_t *op = c->op;
    bool wants = op->type == HD_ALLREDUCE || op->is_root;
    op->in_place = op->in_place && wants;
    const ucc_coll_args_t *a = c->args;
    size_t bytes = 0;
    ucc_status_t status = UCC_OK;
    if (wants) {
        status = take_buffer(c, "dst", &a->dst.info, &bytes);
        op->dst = a->dst.info.buffer;
        op->bytes = bytes;
        op->element = hd_dt_size(a->dst.info.datatype);
    }
    if (status == UCC_OK && !op->in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->bytes);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && wants && op->bytes != bytes) {
            return bad(c, "dst.count", "differs from src.count");
        }
        if (status == UCC_OK && wants && a->src.info.datatype != a->dst.info.datatype) {
            return bad(c, "dst.datatype", "differs from src.datatype");
        }
    }
    op->total = op->bytes;
    return status;
}

static ucc_status_t prepare_reduce_scatter(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t dst_bytes;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &dst_bytes);
    if (status != UCC_OK) {
        return status;
    }
    if (op->in_place) {
        if (a->dst.info.count % c->n) {
            return bad(c, "dst.count", "is not a multiple of the team's size");
        }
        op->total = dst_bytes;
        op->bytes = dst_bytes / c->n;
        op->src = a->dst.info.buffer;
        op->dst = (uint8_t *)a->dst.info.buffer + c->me * op->bytes;
        return UCC_OK;
    }
    status = take_buffer(c, "src", &a->src.info, &op->total);
    if (status == UCC_OK && a->src.info.datatype != a->dst.info.datatype) {
        return bad(c, "dst.datatype", "differs from src.datatype");
    }
    if (status == UCC_OK && (op->total % c->n || op->total / c->n != dst_bytes)) {
        return bad(c, "src.count", "is not dst.count times the team's size");
    }
    op->bytes = dst_bytes;
    op->src = a->src.info.buffer;
    op->dst = a->dst.info.buffer;
    return status;
}

static ucc_status_t prepare_reduce_scatterv(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, true, &op->total);
    if (status != UCC_OK) {
        return status;
    }
    size_t element = hd_dt_size(a->dst.info_v.datatype), src_bytes;
    op->bytes = hd_vector_count(&op->receive, c->me) * element;
    op->dst = a->dst.info_v.buffer;
    if (op->in_place) {
        op->src = a->dst.info_v.buffer;
        op->dst = block_at(&op->receive, a->dst.info_v.buffer, c->me, element);
        return UCC_OK;
    }
    status = take_buffer(c, "src", &a->src.info, &src_bytes);
    op->src = a->src.info.buffer;
    if (status == UCC_OK && a->src.info.datatype != a->dst.info_v.datatype) {
        return bad(c, "dst.datatype", "differs from src.datatype");
    }
    if (status == UCC_OK && src_bytes != op->total) {
        return bad(c, "src.count", "is not the sum of dst.counts");
    }
    return status;
}

static ucc_status_t prepare_allgather(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &all);
    if (status != UCC_OK) {
        return status;
    }
    if (all % c->n) {
        return bad(c, "dst.count", "is not a multiple of the team's size");
    }
    op->dst = a->dst.info.buffer;
    op->bytes = all / c->n;
    op->src = op->dst + c->me * op->bytes;
    if (!op->in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->total);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && op->total != op->bytes) {
            return bad(c, "dst.count", "is not src.count times the team's size");
        }
    }
    op->total = op->bytes;
    return status;
}

static ucc_status_t prepare_allgatherv(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, false, &all);
    if (status != UCC_OK) {
        return status;
    }
    size_t element = hd_dt_size(a->dst.info_v.datatype);
    op->element = element;
    op->dst = a->dst.info_v.buffer;
    op->src = block_at(&op->receive, op->dst, c->me, element);
    op->bytes = hd_vector_count(&op->receive, c->me) * element;
    if (!op->in_place) {
        size_t own = op->bytes;
        status = take_buffer(c, "src", &a->src.info, &op->bytes);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && own != op->bytes) {
            return bad(c, "src.count", "differs from dst.counts at the own endpoint");
        }
    }
    op->total = op->bytes;
    return status;
}

static ucc_status_t prepare_gather(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all = 0;
    ucc_status_t status = UCC_OK;
    op->in_place = op->in_place && op->is_root;
    if (op->is_root) {
        status = take_buffer(c, "dst", &a->dst.info, &all);
        if (status != UCC_OK) {
            return status;
        }
        if (all % c->n) {
            return bad(c, "dst.count", "is not a multiple of the team's size");
        }
        op->dst = a->dst.info.buffer;
        op->bytes = all / c->n;
        op->src = op->dst ? op->dst + c->me * op->bytes : NULL;
    }
    if (status == UCC_OK && !op->in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->bytes);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && op->is_root && op->bytes != all / c->n) {
            return bad(c, "dst.count", "is not src.count times the team's size");
        }
    }
    op->total = op->bytes;
    return status;
}

static ucc_status_t prepare_gatherv(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all, own = 0;
    ucc_status_t status = UCC_OK;
    op->in_place = op->in_place && op->is_root;
    if (op->is_root) {
        status = take_vector(c, "dst", &a->dst.info_v, 1, false, &all);
        if (status != UCC_OK) {
            return status;
        }
        op->element = hd_dt_size(a->dst.info_v.datatype);
        op->dst = a->dst.info_v.buffer;
        op->src = block_at(&op->receive, op->dst, c->me, op->element);
        own = hd_vector_count(&op->receive, c->me) * op->element;
        op->bytes = own;
    }
    if (!op->in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->bytes);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && op->is_root && own != op->bytes) {
            return bad(c, "src.count", "differs from dst.counts at the root");
        }
    }
    op->total = op->bytes;
    return status;
}

static ucc_status_t prepare_scatter(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = UCC_OK;
    op->in_place = op->in_place && op->is_root;
    if (op->is_root) {
        status = take_buffer(c, "src", &a->src.info, &op->total);
        if (status != UCC_OK) {
            return status;
        }
        if (op->total % c->n) {
            return bad(c, "src.count", "is not a multiple of the team's size");
        }
        op->bytes = op->total / c->n;
        op->src = a->src.info.buffer;
        op->dst = (uint8_t *)a->src.info.buffer + c->me * op->bytes;
    }
    if (status == UCC_OK && !op->in_place) {
        size_t own;
        status = take_buffer(c, "dst", &a->dst.info, &own);
        op->dst = a->dst.info.buffer;
        if (status == UCC_OK && op->is_root && own != op->bytes) {
            return bad(c, "src.count", "is not dst.count times the team's size");
        }
        op->bytes = own;
    }
    return status;
}

static ucc_status_t prepare_scatterv(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = UCC_OK;
    op->in_place = op->in_place && op->is_root;
    if (op->is_root) {
        status = take_vector(c, "src", &a->src.info_v, 0, false, &op->total);
        if (status != UCC_OK) {
            return status;
        }
        op->element = hd_dt_size(a->src.info_v.datatype);
        op->src = a->src.info_v.buffer;
        op->dst = block_at(&op->send, a->src.info_v.buffer, c->me, op->element);
        op->bytes = hd_vector_count(&op->send, c->me) * op->element;
    }
    if (!op->in_place) {
        status = take_buffer(c, "dst", &a->dst.info, &op->bytes);
        op->dst = a->dst.info.buffer;
        if (status == UCC_OK && op->is_root &&
            op->bytes != hd_vector_count(&op->send, c->me) * op->element) {
            return bad(c, "dst.count", "differs from src.counts at the root");
        }
    }
    return status;
}

static ucc_status_t prepare_alltoall(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &op->total);
    size_t src_bytes;
    if (status == UCC_OK && op->total % c->n) {
        return bad(c, "dst.count", "is not a multiple of the team's size");
    }
    op->dst = a->dst.info.buffer;
    op->bytes = op->total / c->n;
    if (status == UCC_OK && !op->in_place) {
        status = take_buffer(c, "src", &a->src.info, &src_bytes);
        op->src = a->src.info.buffer;
        if (status == UCC_OK && src_bytes != op->total) {
            return bad(c, "src.count", "and dst.count differ");
        }
    }
    return status;
}

static ucc_status_t prepare_alltoallv(call_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t received;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, false, &received);
    if (status != UCC_OK) {
        return status;
    }
    op->dst = a->dst.info_v.buffer;
    op->element = hd_dt_size(a->dst.info_v.datatype);
    op->total = received;
    if (!op->in_place) {
        status = take_vector(c, "src", &a->src.info_v, 0, false, &op->total);
        op->src = a->src.info_v.buffer;
        op->send_element = hd_dt_size(a->src.info_v.datatype);
    }
    return status;
}

static ucc_status_t prepare_nothing(call_t *c) {
    (void)c;
    return UCC_OK;
}

typedef struct kind {
    ucc_status_t (*prepare)(call_t *c);
    ucc_status_t (*start)(hd_op_t *op);
    bool vector;
} kind_t;

static const kind_t kind[HD_N_TYPES] = {
    [HD_ALLGATHER] = {prepare_allgather, hd_allgather_start, false},
    [HD_ALLGATHERV] = {prepare_allgatherv, hd_allgather_start, true},
    [HD_ALLREDUCE] = {prepare_reduce, hd_allreduce_start, false},
    [HD_ALLTOALL] = {prepare_alltoall, hd_alltoall_start, false},
    [HD_ALLTOALLV] = {prepare_alltoallv, hd_alltoall_start, true},
    [HD_BARRIER] = {prepare_nothing, hd_barrier_start, false},
    [HD_BCAST] = {prepare_bcast, hd_bcast_start, false},
    [HD_FANIN] = {prepare_nothing, hd_fanin_start, false},
    [HD_FANOUT] = {prepare_nothing, hd_fanout_start, false},
    [HD_GATHER] = {prepare_gather, hd_gather_start, false},
    [HD_GATHERV] = {prepare_gatherv, hd_gather_start, true},
    [HD_REDUCE] = {prepare_reduce, hd_reduce_start, false},
    [HD_REDUCE_SCATTER] = {prepare_reduce_scatter, hd_reduce_scatter_start, false},
    [HD_REDUCE_SCATTERV] = {prepare_reduce_scatterv, hd_reduce_scatter_start, true},
    [HD_SCATTER] = {prepare_scatter, hd_scatter_start, false},
    [HD_SCATTERV] = {prepare_scatterv, hd_scatter_start, true},
    [HD_MCAST] = {prepare_bcast, hd_bcast_start, false},
};

/* --- what is common ------------------------------------------------------------------------------ */

/* Zero bytes: these complete inside post, before any other check, without taking part. */
static bool is_empty(const call_t *c) {
    const ucc_coll_args_t *a = c->args;
    switch (c->op->type) {
    case HD_ALLREDUCE:
    case HD_ALLGATHER:
    case HD_ALLTOALL:
        return a->dst.info.count == 0;
    case HD_BCAST:
    case HD_MCAST:
        return a->src.info.count == 0;
    case HD_GATHER:
    case HD_REDUCE:
        return c->op->is_root ? a->dst.info.count == 0 : a->src.info.count == 0;
    case HD_SCATTER:
        return c->op->is_root ? a->src.info.count == 0 : a->dst.info.count == 0;
    default:
        return false;
    }
}

/* The datatype whose values are reduced, at this endpoint. */
static ucc_datatype_t reduced_datatype(const call_t *c) {
    const ucc_coll_args_t *a = c->args;
    if (c->op->type == HD_REDUCE_SCATTERV) {
        return a->dst.info_v.datatype;
    }
    bool from_dst = c->op->type != HD_REDUCE || c->op->is_root;
    return from_dst ? a->dst.info.datatype : a->src.info.datatype;
}

static ucc_status_t prepare_operation(call_t *c) {
    hd_op_t *op = c->op;
    ucc_datatype_t dt = reduced_datatype(c);
    ucc_status_t status = hd_reducer_init(&op->reducer, dt, c->args->op, c->n);
    if (status == UCC_OK) {
        op->element = op->reducer.element_size;
        op->exclusive = hd_reducer_is_user(&op->reducer);
    }
    return status;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 0x9e3779b97f4a7c15u ^ hash >> 29;
}

/* What must agree across endpoints: the type exactly, the rest hashed. Block bytes for movements
 * (never for v types, where only a pair must agree); datatype, op and count for reductions; the
 * root; in place where it changes what peers do. */
static uint32_t signature_of(const call_t *c, bool one_sided) {
    const hd_op_t *op = c->op;
    uint64_t hash = mix(0x51ed270b, is_rooted(op->type) ? op->root + 1 : 0);
    if (is_reducing(op->type)) {
        hash = mix(hash, op->exclusive ? op->element : op->reducer.dt);
        hash = mix(hash, op->exclusive ? 99 : (uint64_t)op->reducer.op);
    }
    if (op->type == HD_REDUCE_SCATTERV) { /* whoever reduces a block goes by its own counts */
        for (uint32_t i = 0; i < c->n; i++) {
            hash = mix(hash, hd_vector_count(&op->receive, i) * op->element);
        }
    } else if (!kind[op->type].vector) {
        hash = mix(hash, op->bytes);
    }
    if (op->type == HD_ALLTOALL || op->type == HD_ALLTOALLV) {
        hash = mix(hash, op->in_place);
    }
    hash = mix(hash, one_sided ? 11 : 7);
    return (uint32_t)op->type << 27 | (uint32_t)(hash >> 37);
}

static ucc_status_t take_type(call_t *c) {
    uint64_t type = (uint64_t)c->args->coll_type;
    if (type == 0 || (type & (type - 1)) || type > (uint64_t)UCC_COLL_TYPE_MCAST) {
        hd_error("coll_type %llu is not a collective", (unsigned long long)type);
        return UCC_ERR_INVALID_PARAM;
    }
    c->op->type = (uint8_t)__builtin_ctzll(type);
    return UCC_OK;
}

/* Sets n and me: of the active set if there is one, else of the team. */
static ucc_status_t take_members(call_t *c, uint64_t *root) {
    hd_request_t *r = c->r;
    c->n = c->team->n;
    c->me = c->team->ep;
    r->subset = NULL;
    if (!(c->args->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET)) {
        return UCC_OK;
    }
    uint64_t start = c->args->active_set.start, size = c->args->active_set.size;
    int64_t stride = c->args->active_set.stride;
    __int128 last = (__int128)start + (__int128)stride * (__int128)(size - 1);
    if (size == 0 || size > c->team->n || start >= c->team->n || last < 0 || last >= c->team->n ||
        (stride == 0 && size > 1)) {
        return bad(c, "active_set", "has members outside the team");
    }
    if (size == 1) {
        stride = 1; /* means nothing; one cached subset will do for all */
    }
    int64_t offset = (int64_t)c->team->ep - (int64_t)start;
    if (offset % stride || offset / stride < 0 || (uint64_t)(offset / stride) >= size) {
        return bad(c, "active_set", "does not contain the caller");
    }
    bool root_fits = *root < c->team->n; /* a garbage root must not overflow below */
    offset = root_fits ? (int64_t)*root - (int64_t)start : 0;
    root_fits = root_fits && offset % stride == 0 && offset / stride >= 0 &&
                (uint64_t)(offset / stride) < size;
    if (is_rooted(c->op->type) && !root_fits) {
        return bad(c, "root", "is not a member of the active set");
    }
    /* the root is named by its number in the team */
    *root = is_rooted(c->op->type) ? (uint64_t)(offset / stride) : 0;
    c->me = (uint32_t)(((int64_t)c->team->ep - (int64_t)start) / stride);
    c->n = (uint32_t)size;
    r->subset = hd_match_subset(c->team->group, start, stride, c->n);
    return r->subset ? UCC_OK : UCC_ERR_NO_MEMORY;
}

static ucc_status_t take_timeout(call_t *c) {
    c->r->timeout = 0;
    if (c->flags & UCC_COLL_ARGS_FLAG_TIMEOUT) {
        if (!(c->args->timeout >= 0)) {
            return bad(c, "timeout", "is negative or not a number");
        }
        c->r->timeout = c->args->timeout > 1e-6 ? c->args->timeout : 1e-6;
        if (c->r->timeout > MAX_TIMEOUT_S) {
            c->r->timeout = MAX_TIMEOUT_S; /* so that ticks fit 64 bits */
        }
    }
    return UCC_OK;
}

/* Both flags of the drafts on symmetric memory: the one-sided variant, for the collectives that have
 * one. Only flags that all endpoints give alike: they are part of the signature. */
static ucc_status_t choose_one_sided(call_t *c, bool *one_sided) {
    const uint64_t both = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY;
    hd_op_t *op = c->op;
    *one_sided = (c->flags & both) == both && !op->in_place && !op->prepare && !c->r->subset &&
                 !c->team->group->two_sided &&
                 (op->type == HD_BCAST || op->type == HD_MCAST || op->type == HD_ALLGATHER ||
                  op->type == HD_ALLTOALL);
    if (!*one_sided) {
        return UCC_OK;
    }
    bool is_bcast = op->type == HD_BCAST || op->type == HD_MCAST;
    return hd_put_fits(op, op->dst, is_bcast ? op->bytes : op->bytes * c->n)
               ? UCC_OK
               : bad(c, is_bcast ? "src" : "dst", "does not lie in the team's symmetric memory");
}

ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r) {
    hd_op_t *op = &r->op;
    uint64_t root = 0;
    call_t c = {.team = team, .args = args, .r = r, .op = op};
    c.flags = args->mask & UCC_COLL_ARGS_FIELD_FLAGS ? args->flags : 0;
    ucc_status_t status = take_type(&c);
    if (status != UCC_OK) {
        return status;
    }
    if (is_rooted(op->type)) {
        root = args->root;
    }
    op->start = NULL;
    op->prepare = op->finish = NULL;
    op->task.callback = args->mask & UCC_COLL_ARGS_FIELD_CB ? args->cb : (ucc_coll_callback_t){0};
    op->is_root = is_rooted(op->type) && root == team->ep;
    if (is_empty(&c)) {
        r->subset = NULL;
        return UCC_OK; /* start stays NULL: nothing to do, and nothing more to check */
    }
    status = take_members(&c, &root);
    if (status != UCC_OK) {
        return status;
    }
    op->root = root < c.n ? (uint32_t)root : UINT32_MAX;
    op->me = c.me;
    op->n = c.n;
    op->is_root = is_rooted(op->type) && op->root == c.me;
    op->in_place = (c.flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    op->persistent = (c.flags & UCC_COLL_ARGS_FLAG_PERSISTENT) != 0;
    op->exclusive = false;
    /* the arguments of a barrier may be garbage but for type and mask */
    op->global_errors =
        kind[op->type].prepare != prepare_nothing && args->error_type == UCC_ERR_TYPE_GLOBAL;
    op->element = op->send_element = 1;
    op->bytes = op->total = 0;
    op->src = NULL;
    op->dst = NULL;
    if (root >= c.n) {
        return bad(&c, "root", "is not an endpoint of the team");
    }
    status = take_timeout(&c);
    if (status != UCC_OK) {
        return status;
    }
    if (is_reducing(op->type)) {
        status = prepare_operation(&c);
    } else {
        status = hd_pack_setup(team, args, r);
    }
    if (status == UCC_OK && !op->prepare) {
        status = kind[op->type].prepare(&c);
    }
    bool one_sided = false;
    if (status == UCC_OK) {
        status = choose_one_sided(&c, &one_sided);
    }
    op->start = one_sided ? hd_put_start : kind[op->type].start;
    op->signature = status == UCC_OK ? signature_of(&c, one_sided) : 0;
    return status;
}
