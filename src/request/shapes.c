/* shapes.c: the buffers of each collective: which are significant at this endpoint, how large they
 * must be relative to each other, and what the operation gets of them (src, dst, bytes, total,
 * vectors). hd_prepare has one function for each type; args.c calls it at init, and for v types
 * again before each launch.
 *
 * Only significant fields are looked at. Nothing is allocated but the displacements of densely
 * packed vectors (and the counts of uneven blocks), in memory that the request keeps.
 */
#include "device/device.h"
#include "request/internal.h"

#include <limits.h>

ucc_status_t hd_args_bad(const hd_intake_t *c, const char *field, const char *what) {
    hd_error("%s at endpoint %u: %s %s", hd_type_name(c->op->call.type), c->team->ep, field, what);
    return UCC_ERR_INVALID_PARAM;
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* Checks a buffer of which so many bytes are significant. UCC_INPROGRESS: see hd_device_look. */
static inline ucc_status_t check_memory(const hd_intake_t *c, const char *field,
                                        ucc_memory_type_t type, const void *buffer, size_t bytes) {
    if (__builtin_expect(type == UCC_MEMORY_TYPE_HOST, 1)) {
        return UCC_OK;
    }
    ucc_status_t status = hd_device_look(c->op, field, type, buffer, bytes);
    return status == UCC_OK ? hd_device_fits(c->op, field, buffer, bytes) : status;
}

static ucc_status_t check_datatype(const hd_intake_t *c, const char *field, ucc_datatype_t dt) {
    if (!hd_dt_valid(dt)) {
        return hd_args_bad(c, field, "is not a datatype");
    }
    if (!hd_dt_is_contiguous(dt)) {
        hd_error("%s at endpoint %u: %s: a datatype packed by the user is not supported here",
                 hd_type_name(c->op->call.type), c->team->ep, field);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return UCC_OK;
}

/* Says the bytes of a plain buffer; checks its datatype, memory type, size and address. */
static ucc_status_t take_buffer(const hd_intake_t *c, const char *field,
                                const ucc_coll_buffer_info_t *info, size_t *bytes) {
    ucc_status_t status = check_datatype(c, field, info->datatype);
    if (status != UCC_OK) {
        return status;
    }
    if (__builtin_mul_overflow(info->count, hd_dt_size(info->datatype), bytes) ||
        *bytes > SSIZE_MAX) {
        return hd_args_bad(c, field, "has a count beyond the address space");
    }
    if (*bytes && !hd_is_address(info->buffer)) {
        return hd_args_bad(c, field,
                           info->buffer ? "must not be HEDDLE_IN_PLACE" : "has a NULL buffer");
    }
    return check_memory(c, field, info->mem_type, info->buffer, *bytes);
}

/* Returns room for two numbers per member, which the request keeps. NULL: no memory (logged). */
static uint64_t *take_prefix(const hd_intake_t *c) {
    hd_request_t *r = c->r;
    if (r->prefix_entries < 2 * (size_t)c->n) {
        hd_free(r->prefix);
        r->prefix = hd_alloc(HD_LINE, 2 * (size_t)c->n * sizeof(uint64_t));
        r->prefix_entries = r->prefix ? 2 * (size_t)c->n : 0;
        if (!r->prefix) {
            hd_error("%s: no memory for displacements", hd_type_name(c->op->call.type));
        }
    }
    return r->prefix;
}

/* Works out the displacements of a densely packed vector. which: 0 is the vector that is sent, 1
 * the one that is received. */
static ucc_status_t make_dense(const hd_intake_t *c, hd_vector_t *v, int which) {
    uint64_t *prefix = take_prefix(c);
    if (!prefix) {
        return UCC_ERR_NO_MEMORY;
    }
    uint64_t *at = prefix + (which ? c->n : 0), sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        at[i] = sum;
        sum += hd_vector_count(v, i);
    }
    v->displacements = at;
    v->wide_displacements = true;
    return UCC_OK;
}

const void *hd_args_first_block(const ucc_coll_buffer_info_v_t *info, uint64_t flags, uint32_t n) {
    hd_vector_t v = {.counts = info->counts,
                     .displacements = info->displacements,
                     .wide_counts = (flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT) != 0,
                     .wide_displacements = (flags & UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT) != 0};
    for (uint32_t i = 0; v.counts && v.displacements && i < n; i++) {
        if (hd_vector_count(&v, i)) {
            uint64_t offset = hd_vector_displacement(&v, i) * hd_dt_size(info->datatype);
            return hd_at(info->buffer, offset);
        }
    }
    return info->buffer;
}

/* Checks the memory of a vector's buffer that is not the host's, of which so many bytes are
 * significant. */
static __attribute__((noinline, cold)) ucc_status_t
check_vector_memory(const hd_intake_t *c, const char *field, const ucc_coll_buffer_info_v_t *info,
                    const hd_vector_t *v, size_t bytes) {
    const void *at = v->displacements ? hd_args_first_block(info, c->flags, c->n) : info->buffer;
    ucc_status_t status = hd_device_look(c->op, field, info->mem_type, at, bytes);
    if (status != UCC_OK) {
        return status;
    }
    return v->displacements
               ? hd_device_blocks_fit(c->op, field, v, info->buffer, hd_dt_size(info->datatype))
               : hd_device_fits(c->op, field, info->buffer, bytes);
}

/* Checks the buffer of a vector of `sum` bytes, if it is no address, or not the host's. */
static __attribute__((noinline, cold)) ucc_status_t
check_vector_buffer(const hd_intake_t *c, const char *field, const ucc_coll_buffer_info_v_t *info,
                    const hd_vector_t *v, bool dense, size_t sum) {
    /* dense: it is a reduce_scatterv, whose buffer holds one block unless it is in place */
    bool one = dense && !c->op->call.in_place;
    size_t held = one ? hd_vector_count(v, c->me) * hd_dt_size(info->datatype) : sum;
    /* with displacements, NULL is a base for absolute addresses */
    if (held && !hd_is_address(info->buffer) && (info->buffer || !v->displacements)) {
        return hd_args_bad(c, field,
                           info->buffer ? "must not be HEDDLE_IN_PLACE" : "has a NULL buffer");
    }
    return info->mem_type == UCC_MEMORY_TYPE_HOST ? UCC_OK
                                                  : check_vector_memory(c, field, info, v, held);
}

/* Takes a vector into the call, and checks it. dense: displacements are not significant
 * (reduce_scatterv). total: the sum of all blocks in bytes. */
static ucc_status_t take_vector(const hd_intake_t *c, const char *field,
                                const ucc_coll_buffer_info_v_t *info, int which, bool dense,
                                size_t *total) {
    hd_vector_t *v = which ? &c->op->call.receive : &c->op->call.send;
    ucc_status_t status = check_datatype(c, field, info->datatype);
    if (status != UCC_OK) {
        return status;
    }
    if (!info->counts) {
        return hd_args_bad(c, field, "has NULL counts");
    }
    v->counts = info->counts;
    v->wide_counts = (c->flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT) != 0;
    v->displacements = dense ? NULL : info->displacements;
    v->wide_displacements = (c->flags & UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT) != 0;
    size_t element = hd_dt_size(info->datatype), bytes, sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (__builtin_mul_overflow(hd_vector_count(v, i), element, &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum)) {
            return hd_args_bad(c, field, "has counts beyond the address space");
        }
    }
    if (sum > SSIZE_MAX) {
        return hd_args_bad(c, field, "has counts beyond the address space");
    }
    *total = sum;
    if (__builtin_expect(!hd_is_address(info->buffer) || info->mem_type != UCC_MEMORY_TYPE_HOST,
                         0)) {
        status = check_vector_buffer(c, field, info, v, dense, sum);
        if (status != UCC_OK) {
            return status;
        }
    }
    return v->displacements ? UCC_OK : make_dense(c, v, which);
}

static uint8_t *block_at(const hd_vector_t *v, void *buffer, uint32_t i, size_t element) {
    return hd_at(buffer, hd_vector_displacement(v, i) * element);
}

/* Returns the bytes of one member's block, if the buffer's count is divided among all. What is left
 * over belongs to nobody, as in released UCC. */
static size_t block_bytes(const hd_intake_t *c, const ucc_coll_buffer_info_t *info) {
    return info->count / c->n * hd_dt_size(info->datatype);
}

/* --- one function per shape of collective ----------------------------------------------------- */

static ucc_status_t prepare_bcast(hd_intake_t *c) {
    hd_op_t *op = c->op;
    ucc_status_t status = take_buffer(c, "src", &c->args->src.info, &op->call.bytes);
    op->call.total = op->call.bytes;
    op->call.src = c->args->src.info.buffer;
    op->call.dst = c->args->src.info.buffer;
    return status;
}

static ucc_status_t prepare_reduce(hd_intake_t *c) {
    hd_op_t *op = c->op;
    bool wants = hd_holds(hd_coll[op->call.type].result_at, op->call.is_root, c->me);
    op->call.in_place = op->call.in_place && wants;
    const ucc_coll_args_t *a = c->args;
    size_t bytes = 0;
    ucc_status_t status = UCC_OK;
    if (wants) {
        status = take_buffer(c, "dst", &a->dst.info, &bytes);
        op->call.dst = a->dst.info.buffer;
        op->call.bytes = bytes;
        op->call.element = hd_dt_size(a->dst.info.datatype);
    }
    if (status == UCC_OK && !op->call.in_place) {
        ucc_coll_buffer_info_t src = a->src.info;
        if (wants) { /* as in released UCC, dst says how much there is, and of what */
            src.count = a->dst.info.count;
        }
        status = take_buffer(c, "src", &src, &op->call.bytes);
        op->call.src = src.buffer;
        if (status == UCC_OK && wants && op->call.bytes != bytes) {
            return hd_args_bad(c, "dst.datatype", "differs in size from src.datatype");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

/* The first member of an exscan has no result: there, dst has a meaning only in place. */
static ucc_status_t prepare_scan(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    bool wants = hd_holds(hd_coll[op->call.type].result_at, false, c->me);
    size_t bytes = 0;
    ucc_status_t status = UCC_OK;
    if (wants || op->call.in_place) {
        status = take_buffer(c, "dst", &a->dst.info, &bytes);
        op->call.dst = a->dst.info.buffer;
        op->call.bytes = bytes;
    }
    if (status == UCC_OK && !op->call.in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->call.bytes);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && wants && op->call.bytes != bytes) {
            return hd_args_bad(c, "dst.count", "differs from src.count");
        }
        if (status == UCC_OK && wants && a->src.info.datatype != a->dst.info.datatype) {
            return hd_args_bad(c, "dst.datatype", "differs from src.datatype");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

/* Prepares a reduce_scatter in place whose count is no multiple of n: the first count % n members
 * get one element more, as in released UCC. The call becomes a reduce_scatterv whose counts nobody
 * has written down. */
static ucc_status_t split_unevenly(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_buffer_info_t *dst = &c->args->dst.info;
    uint64_t *counts = take_prefix(c);
    if (!counts) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        counts[i] = dst->count / c->n + (i < dst->count % c->n);
    }
    op->call.type = hd_coll[op->call.type].vector_type;
    op->call.uneven = true;
    op->call.receive.counts = counts;
    op->call.receive.wide_counts = true;
    ucc_status_t status = make_dense(c, &op->call.receive, 1);
    if (status == UCC_OK) {
        op->call.total = dst->count * op->call.element;
        op->call.bytes = counts[c->me] * op->call.element;
        op->call.src = dst->buffer;
        op->call.dst = block_at(&op->call.receive, dst->buffer, c->me, op->call.element);
    }
    return status;
}

static ucc_status_t prepare_reduce_scatter(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t dst_bytes;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &dst_bytes);
    if (status != UCC_OK) {
        return status;
    }
    if (op->call.in_place) {
        if (a->dst.info.count % c->n) {
            return split_unevenly(c);
        }
        op->call.total = dst_bytes;
        op->call.bytes = dst_bytes / c->n;
        op->call.src = a->dst.info.buffer;
        op->call.dst = (uint8_t *)a->dst.info.buffer + c->me * op->call.bytes;
        return UCC_OK;
    }
    status = take_buffer(c, "src", &a->src.info, &op->call.total);
    if (status == UCC_OK && a->src.info.datatype != a->dst.info.datatype) {
        return hd_args_bad(c, "dst.datatype", "differs from src.datatype");
    }
    if (status == UCC_OK && (op->call.total % c->n || op->call.total / c->n != dst_bytes)) {
        return hd_args_bad(c, "src.count", "is not dst.count times the team's size");
    }
    op->call.bytes = dst_bytes;
    op->call.src = a->src.info.buffer;
    op->call.dst = a->dst.info.buffer;
    return status;
}

static ucc_status_t prepare_reduce_scatterv(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, true, &op->call.total);
    if (status != UCC_OK) {
        return status;
    }
    size_t element = hd_dt_size(a->dst.info_v.datatype), src_bytes;
    op->call.bytes = hd_vector_count(&op->call.receive, c->me) * element;
    op->call.dst = a->dst.info_v.buffer;
    if (op->call.in_place) {
        op->call.src = a->dst.info_v.buffer;
        op->call.dst = block_at(&op->call.receive, a->dst.info_v.buffer, c->me, element);
        return UCC_OK;
    }
    status = take_buffer(c, "src", &a->src.info, &src_bytes);
    op->call.src = a->src.info.buffer;
    if (status == UCC_OK && a->src.info.datatype != a->dst.info_v.datatype) {
        return hd_args_bad(c, "dst.datatype", "differs from src.datatype");
    }
    if (status == UCC_OK && src_bytes != op->call.total) {
        return hd_args_bad(c, "src.count", "is not the sum of dst.counts");
    }
    return status;
}

static ucc_status_t prepare_allgather(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &all);
    if (status != UCC_OK) {
        return status;
    }
    op->call.dst = a->dst.info.buffer;
    op->call.bytes = block_bytes(c, &a->dst.info);
    op->call.src = op->call.dst + c->me * op->call.bytes;
    if (!op->call.in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->call.total);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && op->call.total != op->call.bytes) {
            return hd_args_bad(c, "dst.count", "is not src.count times the team's size");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

static ucc_status_t prepare_allgatherv(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, false, &all);
    if (status != UCC_OK) {
        return status;
    }
    size_t element = hd_dt_size(a->dst.info_v.datatype);
    op->call.element = element;
    op->call.dst = a->dst.info_v.buffer;
    op->call.src = block_at(&op->call.receive, op->call.dst, c->me, element);
    op->call.bytes = hd_vector_count(&op->call.receive, c->me) * element;
    if (!op->call.in_place) {
        size_t own = op->call.bytes;
        status = take_buffer(c, "src", &a->src.info, &op->call.bytes);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && own != op->call.bytes) {
            return hd_args_bad(c, "src.count", "differs from dst.counts at the own endpoint");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

static ucc_status_t prepare_gather(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all = 0;
    ucc_status_t status = UCC_OK;
    op->call.in_place = op->call.in_place && op->call.is_root;
    if (op->call.is_root) {
        status = take_buffer(c, "dst", &a->dst.info, &all);
        if (status != UCC_OK) {
            return status;
        }
        op->call.dst = a->dst.info.buffer;
        op->call.bytes = all = block_bytes(c, &a->dst.info);
        op->call.src = op->call.dst ? op->call.dst + c->me * op->call.bytes : NULL;
    }
    if (status == UCC_OK && !op->call.in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->call.bytes);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && op->call.is_root && op->call.bytes != all) {
            return hd_args_bad(c, "dst.count", "is not src.count times the team's size");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

static ucc_status_t prepare_gatherv(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t all, own = 0;
    ucc_status_t status = UCC_OK;
    op->call.in_place = op->call.in_place && op->call.is_root;
    if (op->call.is_root) {
        status = take_vector(c, "dst", &a->dst.info_v, 1, false, &all);
        if (status != UCC_OK) {
            return status;
        }
        op->call.element = hd_dt_size(a->dst.info_v.datatype);
        op->call.dst = a->dst.info_v.buffer;
        op->call.src = block_at(&op->call.receive, op->call.dst, c->me, op->call.element);
        own = hd_vector_count(&op->call.receive, c->me) * op->call.element;
        op->call.bytes = own;
    }
    if (!op->call.in_place) {
        status = take_buffer(c, "src", &a->src.info, &op->call.bytes);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && op->call.is_root && own != op->call.bytes) {
            return hd_args_bad(c, "src.count", "differs from dst.counts at the root");
        }
    }
    op->call.total = op->call.bytes;
    return status;
}

static ucc_status_t prepare_scatter(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = UCC_OK;
    op->call.in_place = op->call.in_place && op->call.is_root;
    if (op->call.is_root) {
        status = take_buffer(c, "src", &a->src.info, &op->call.total);
        if (status != UCC_OK) {
            return status;
        }
        if (op->call.total % c->n) {
            return hd_args_bad(c, "src.count", "is not a multiple of the team's size");
        }
        op->call.bytes = op->call.total / c->n;
        op->call.src = a->src.info.buffer;
        op->call.dst = (uint8_t *)a->src.info.buffer + c->me * op->call.bytes;
    }
    if (status == UCC_OK && !op->call.in_place) {
        size_t own;
        status = take_buffer(c, "dst", &a->dst.info, &own);
        op->call.dst = a->dst.info.buffer;
        if (status == UCC_OK && op->call.is_root && own != op->call.bytes) {
            return hd_args_bad(c, "src.count", "is not dst.count times the team's size");
        }
        op->call.bytes = own;
    }
    return status;
}

static ucc_status_t prepare_scatterv(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    ucc_status_t status = UCC_OK;
    op->call.in_place = op->call.in_place && op->call.is_root;
    if (op->call.is_root) {
        status = take_vector(c, "src", &a->src.info_v, 0, false, &op->call.total);
        if (status != UCC_OK) {
            return status;
        }
        op->call.element = hd_dt_size(a->src.info_v.datatype);
        op->call.src = a->src.info_v.buffer;
        op->call.dst = block_at(&op->call.send, a->src.info_v.buffer, c->me, op->call.element);
        op->call.bytes = hd_vector_count(&op->call.send, c->me) * op->call.element;
    }
    if (!op->call.in_place) {
        status = take_buffer(c, "dst", &a->dst.info, &op->call.bytes);
        op->call.dst = a->dst.info.buffer;
        if (status == UCC_OK && op->call.is_root &&
            op->call.bytes != hd_vector_count(&op->call.send, c->me) * op->call.element) {
            return hd_args_bad(c, "dst.count", "differs from src.counts at the root");
        }
    }
    return status;
}

static ucc_status_t prepare_alltoall(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t unused;
    ucc_status_t status = take_buffer(c, "dst", &a->dst.info, &unused);
    if (status != UCC_OK) {
        return status;
    }
    op->call.dst = a->dst.info.buffer;
    op->call.bytes = block_bytes(c, &a->dst.info);
    op->call.total = op->call.bytes * c->n;
    if (!op->call.in_place) {
        status = take_buffer(c, "src", &a->src.info, &unused);
        op->call.src = a->src.info.buffer;
        if (status == UCC_OK && block_bytes(c, &a->src.info) != op->call.bytes) {
            return hd_args_bad(c, "src.count", "and dst.count differ");
        }
        /* the caller seems to have given a count per endpoint */
        if (status == UCC_OK && a->dst.info.count < c->n) {
            return hd_args_bad(c, "dst.count", "is less than an element for each endpoint");
        }
    }
    return status;
}

static ucc_status_t prepare_alltoallv(hd_intake_t *c) {
    hd_op_t *op = c->op;
    const ucc_coll_args_t *a = c->args;
    size_t received;
    ucc_status_t status = take_vector(c, "dst", &a->dst.info_v, 1, false, &received);
    if (status != UCC_OK) {
        return status;
    }
    op->call.dst = a->dst.info_v.buffer;
    op->call.element = hd_dt_size(a->dst.info_v.datatype);
    op->call.total = received;
    if (!op->call.in_place) {
        status = take_vector(c, "src", &a->src.info_v, 0, false, &op->call.total);
        op->call.src = a->src.info_v.buffer;
        op->call.send_element = hd_dt_size(a->src.info_v.datatype);
    }
    return status;
}

/* --- the table -------------------------------------------------------------------------------- */

ucc_status_t (*const hd_prepare[HD_N_TYPES])(hd_intake_t *c) = {
    [HD_ALLGATHER] = prepare_allgather,
    [HD_ALLGATHERV] = prepare_allgatherv,
    [HD_ALLREDUCE] = prepare_reduce,
    [HD_ALLTOALL] = prepare_alltoall,
    [HD_ALLTOALLV] = prepare_alltoallv,
    [HD_BARRIER] = NULL,
    [HD_BCAST] = prepare_bcast,
    [HD_FANIN] = NULL,
    [HD_FANOUT] = NULL,
    [HD_GATHER] = prepare_gather,
    [HD_GATHERV] = prepare_gatherv,
    [HD_REDUCE] = prepare_reduce,
    [HD_REDUCE_SCATTER] = prepare_reduce_scatter,
    [HD_REDUCE_SCATTERV] = prepare_reduce_scatterv,
    [HD_SCATTER] = prepare_scatter,
    [HD_SCATTERV] = prepare_scatterv,
    [HD_MCAST] = prepare_bcast,
    [HD_SCAN] = prepare_scan,
    [HD_EXSCAN] = prepare_scan,
};
