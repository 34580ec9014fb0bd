/* shapes.c: the buffers of a call: which are significant at this endpoint, how large they must be
 * relative to each other, and what the operation gets of them (src, dst, bytes, total, elements,
 * vectors). hd_coll says what each collective needs of this. Only significant fields are looked at.
 * Nothing is allocated but the displacements of densely packed vectors (and the counts of uneven
 * blocks), in memory that the request keeps.
 */
#include "device/device.h"
#include "request/internal.h"

#include <limits.h>

/* Compiled into hd_prepare, for each type that it names without what does not concern that. */
#define KNOWN_TYPE inline __attribute__((always_inline))

ucc_status_t hd_args_bad(const hd_request_t *r, const char *field, const char *what) {
    hd_error("%s at endpoint %u: %s %s", hd_type_name(r->op.call.type), r->op.team_ep, field, what);
    return UCC_ERR_INVALID_PARAM;
}

/* One buffer of a call: src or dst. */
typedef struct side {
    bool counts; /* has a meaning at this endpoint; if not, all else is 0 */
    uint8_t *at;
    ucc_datatype_t dt;
    size_t element; /* of a vector: bytes per element */
    size_t bytes;   /* all that is significant */
    size_t block;   /* this member's part of it; alltoallv: 0, since none is its own */
} side_t;

/* --- buffers ---------------------------------------------------------------------------------- */

/* Checks a buffer of which so many bytes are significant. UCC_INPROGRESS: see hd_device_look. */
static inline ucc_status_t check_memory(hd_request_t *r, const char *field, ucc_memory_type_t type,
                                        const void *buffer, size_t bytes) {
    return __builtin_expect(type == UCC_MEMORY_TYPE_HOST, 1)
               ? UCC_OK
               : hd_device_look(&r->op, field, type, buffer, bytes);
}

static __attribute__((noinline, cold)) ucc_status_t
refuse_datatype(hd_request_t *r, const char *field, ucc_datatype_t dt) {
    return hd_dt_valid(dt)
               ? hd_op_refuse(&r->op, UCC_ERR_NOT_SUPPORTED,
                              "%s: a datatype packed by the user is not supported here", field)
               : hd_args_bad(r, field, "is not a datatype");
}

/* Says the bytes of its elements. */
static inline ucc_status_t take_datatype(hd_request_t *r, const char *field, ucc_datatype_t dt,
                                         size_t *element) {
    *element = hd_dt_size(dt);
    return __builtin_expect(*element != 0, 1) ? UCC_OK : refuse_datatype(r, field, dt);
}

static ucc_status_t bad_address(hd_request_t *r, const char *field, const void *buffer) {
    return hd_args_bad(r, field, buffer ? "must not be HEDDLE_IN_PLACE" : "has a NULL buffer");
}

/* Says the bytes of a plain buffer, and of its elements; checks its datatype, memory type, size and
 * address. */
static ucc_status_t take_buffer(hd_request_t *r, const char *field,
                                const ucc_coll_buffer_info_t *info, size_t *element,
                                size_t *bytes) {
    ucc_status_t status = take_datatype(r, field, info->datatype, element);
    if (status != UCC_OK) {
        return status;
    }
    if (__builtin_mul_overflow(info->count, *element, bytes) || *bytes > SSIZE_MAX) {
        return hd_args_bad(r, field, "has a count beyond the address space");
    }
    if (*bytes && !hd_is_address(info->buffer)) {
        return bad_address(r, field, info->buffer);
    }
    return check_memory(r, field, info->mem_type, info->buffer, *bytes);
}

/* Returns room for two numbers per member, which the request keeps. NULL: no memory (logged). */
static uint64_t *take_prefix(hd_request_t *r) {
    if (!r->prefix) { /* it is large enough for all sets of members */
        r->prefix = hd_alloc(HD_LINE, 2 * (size_t)r->op.team->n * sizeof(uint64_t));
    }
    if (!r->prefix) {
        hd_error("%s: no memory for displacements", hd_type_name(r->op.call.type));
    }
    return r->prefix;
}

/* Works out the displacements of a densely packed vector of the call. */
static ucc_status_t make_dense(hd_request_t *r, hd_vector_t *v) {
    uint64_t *at = take_prefix(r), sum = 0;
    if (!at) {
        return UCC_ERR_NO_MEMORY;
    }
    at += v == &r->op.call.receive ? r->op.n : 0;
    for (uint32_t i = 0; i < r->op.n; i++) {
        at[i] = sum;
        sum += hd_vector_count(v, i);
    }
    v->displacements = at;
    v->wide_displacements = true;
    return UCC_OK;
}

/* Checks the buffer of a vector, of which so many bytes are significant, if it is no address, or
 * not the host's. */
static __attribute__((noinline, cold)) ucc_status_t
check_vector_buffer(hd_request_t *r, const char *field, const ucc_coll_buffer_info_v_t *info,
                    const hd_vector_t *v, size_t bytes) {
    /* with displacements, NULL is a base for absolute addresses */
    if (bytes && !hd_is_address(info->buffer) && (info->buffer || !v->displacements)) {
        return bad_address(r, field, info->buffer);
    }
    if (info->mem_type == UCC_MEMORY_TYPE_HOST) {
        return UCC_OK;
    }
    return v->displacements ? hd_device_look_at_blocks(&r->op, field, info, v, bytes)
                            : hd_device_look(&r->op, field, info->mem_type, info->buffer, bytes);
}

/* Takes a vector into the call, and checks it. */
static KNOWN_TYPE ucc_status_t take_vector(hd_request_t *r, const hd_coll_t *coll, bool source,
                                           side_t *side) {
    const char *field = source ? "src" : "dst";
    const ucc_coll_buffer_info_v_t *info = source ? &r->args.src.info_v : &r->args.dst.info_v;
    hd_vector_t *v = source ? &r->op.call.send : &r->op.call.receive;
    bool dense = coll->reducing; /* displacements are not significant */
    size_t element, bytes, sum = 0;
    ucc_status_t status = take_datatype(r, field, info->datatype, &element);
    if (status != UCC_OK) {
        return status;
    }
    if (!info->counts) {
        return hd_args_bad(r, field, "has NULL counts");
    }
    v->counts = info->counts;
    v->wide_counts = (r->args.flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT) != 0;
    v->displacements = dense ? NULL : info->displacements;
    v->wide_displacements = (r->args.flags & UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT) != 0;
    bool beyond = false;
    for (uint32_t i = 0; i < r->op.n && !beyond; i++) {
        beyond = __builtin_mul_overflow(hd_vector_count(v, i), element, &bytes) ||
                 __builtin_add_overflow(sum, bytes, &sum);
    }
    if (beyond || sum > SSIZE_MAX) {
        return hd_args_bad(r, field, "has counts beyond the address space");
    }
    side->at = info->buffer;
    side->dt = info->datatype;
    side->element = element;
    side->bytes = sum;
    side->block = coll->pairwise ? 0 : hd_vector_count(v, r->op.me) * element;
    if (__builtin_expect(!hd_is_address(info->buffer) || info->mem_type != UCC_MEMORY_TYPE_HOST,
                         0)) {
        /* a reduce_scatterv's buffer holds one block unless it is in place */
        bool one = dense && !r->op.call.in_place;
        status = check_vector_buffer(r, field, info, v, one ? side->block : sum);
        if (status != UCC_OK) {
            return status;
        }
    }
    return v->displacements ? UCC_OK : make_dense(r, v);
}

/* Divides a buffer that holds a block for each member, all of the same size. */
static ucc_status_t divide(hd_request_t *r, const hd_coll_t *coll, bool source, uint64_t count,
                           size_t element, side_t *side) {
    bool all_given = source && !coll->pairwise;
    if (all_given && coll->flow == HD_FROM_ROOT && side->bytes % r->op.n) {
        return hd_args_bad(r, "src.count", "is not a multiple of the team's size");
    }
    side->block = all_given ? side->bytes / r->op.n : count / r->op.n * element;
    if (!all_given) { /* what is left over belongs to nobody, as in released UCC */
        side->bytes = side->block * r->op.n;
    }
    return UCC_OK;
}

/* Takes a buffer that is no vector. */
static KNOWN_TYPE ucc_status_t take_plain(hd_request_t *r, const hd_coll_t *coll, bool source,
                                          side_t *side) {
    const hd_call_t *call = &r->op.call;
    ucc_coll_buffer_info_t info = source ? r->args.src.info : r->args.dst.info;
    uint8_t extent = source ? coll->source : coll->result;
    if (source && extent == HD_WHOLE && !hd_coll_goes_by_src(coll, call->is_root, call->in_place)) {
        info.count = r->args.dst.info.count; /* as in released UCC, dst says how much there is */
    }
    size_t element;
    ucc_status_t status = take_buffer(r, source ? "src" : "dst", &info, &element, &side->bytes);
    side->at = info.buffer;
    side->dt = info.datatype;
    side->block = side->bytes;
    /* in place, what becomes one member's block holds all of them before */
    bool blocks = extent == HD_BLOCKS || (extent == HD_BLOCK && !source && call->in_place);
    return status == UCC_OK && blocks && !coll->vector
               ? divide(r, coll, source, info.count, element, side)
               : status;
}

static KNOWN_TYPE ucc_status_t take_side(hd_request_t *r, const hd_coll_t *coll, bool source,
                                         side_t *side) {
    if (!side->counts) {
        return UCC_OK;
    }
    return (source ? coll->source : coll->result) == HD_VECTOR ? take_vector(r, coll, source, side)
                                                               : take_plain(r, coll, source, side);
}

/* --- both buffers ----------------------------------------------------------------------------- */

/* What is logged of a src and a dst that don't fit each other. An alltoallv has no such pair: what
 * must agree there is what two members say. */
static const struct {
    const char *field, *what;
} misfit[HD_N_TYPES] = {
    [HD_ALLGATHER] = {"dst.count", "is not src.count times the team's size"},
    [HD_ALLGATHERV] = {"src.count", "differs from dst.counts at the own endpoint"},
    [HD_ALLREDUCE] = {"dst.datatype", "differs in size from src.datatype"},
    [HD_ALLTOALL] = {"src.count", "and dst.count differ"},
    [HD_GATHER] = {"dst.count", "is not src.count times the team's size"},
    [HD_GATHERV] = {"src.count", "differs from dst.counts at the root"},
    [HD_REDUCE] = {"dst.datatype", "differs in size from src.datatype"},
    [HD_REDUCE_SCATTER] = {"src.count", "is not dst.count times the team's size"},
    [HD_REDUCE_SCATTERV] = {"src.count", "is not the sum of dst.counts"},
    [HD_SCATTER] = {"src.count", "is not dst.count times the team's size"},
    [HD_SCATTERV] = {"dst.count", "differs from src.counts at the root"},
    [HD_SCAN] = {"dst.count", "differs from src.count"},
    [HD_EXSCAN] = {"dst.count", "differs from src.count"},
};

static KNOWN_TYPE bool sizes_fit(hd_request_t *r, const hd_coll_t *coll, const side_t *src,
                                 const side_t *dst) {
    if (coll->reducing && coll->source == HD_BLOCKS) { /* nothing of src may be left over */
        return coll->vector ? src->bytes == dst->bytes
                            : src->bytes % r->op.n == 0 && src->block == dst->block;
    }
    return src->block == dst->block;
}

/* Compares both buffers of a call that has two. */
static KNOWN_TYPE ucc_status_t compare(hd_request_t *r, const hd_coll_t *coll, const side_t *src,
                                       const side_t *dst) {
    bool fit = sizes_fit(r, coll, src, dst);
    /* reduce and allreduce take the bits of src for what dst says, if sizes allow it */
    bool typed = coll->reducing && (coll->source != HD_WHOLE || coll->prefix);
    if (typed && src->dt != dst->dt && (fit || !coll->prefix)) {
        return hd_args_bad(r, "dst.datatype", "differs from src.datatype");
    }
    if (!fit) {
        return hd_args_bad(r, misfit[r->op.call.type].field, misfit[r->op.call.type].what);
    }
    uint64_t count = r->args.dst.info.count; /* 0: elements are packed to nothing */
    if (coll->result == HD_BLOCKS && count && count < r->op.n) {
        /* the caller seems to have given a count per endpoint */
        return hd_args_bad(r, "dst.count", "is less than an element for each endpoint");
    }
    return UCC_OK;
}

/* Lets the operation of a call in place find what it reads and writes in the one buffer. */
static KNOWN_TYPE void lay_in_place(hd_request_t *r, const hd_coll_t *coll, const side_t *kept) {
    hd_call_t *call = &r->op.call;
    const hd_vector_t *v = coll->flow == HD_FROM_ROOT ? &call->send : &call->receive;
    size_t at =
        coll->vector ? hd_vector_displacement(v, r->op.me) * kept->element : r->op.me * kept->block;
    if (coll->source == HD_BLOCK) {
        call->src = hd_at(kept->at, at);
    } else {
        call->src = kept->at;
        call->dst = hd_at(kept->at, at);
    }
}

/* Gives the operation what was taken. */
static KNOWN_TYPE void lay_out(hd_request_t *r, const hd_coll_t *coll, const side_t *src,
                               const side_t *dst) {
    hd_call_t *call = &r->op.call;
    bool by_src = hd_coll_goes_by_src(coll, call->is_root, call->in_place);
    const side_t *kept = coll->flow == HD_FROM_ROOT ? src : dst; /* by a call in place */
    call->bytes = by_src ? src->block : dst->block;
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    call->total = !divided ? call->bytes : call->in_place ? kept->bytes : src->bytes;
    call->src = src->at;
    call->dst = coll->bcast ? src->at : dst->at;
    if (call->in_place && !coll->pairwise && coll->source != HD_WHOLE) {
        lay_in_place(r, coll, kept);
    }
    if (src->element) {
        *(coll->pairwise ? &call->send_element : &call->element) = src->element;
    }
    if (dst->element) {
        call->element = dst->element;
    }
}

/* Prepares a reduce_scatter in place whose count is no multiple of n: the first count % n members
 * get one element more, as in released UCC. The call becomes a reduce_scatterv whose counts nobody
 * has written down. */
static ucc_status_t split_unevenly(hd_request_t *r) {
    hd_call_t *call = &r->op.call;
    const ucc_coll_buffer_info_t *dst = &r->args.dst.info;
    uint64_t *counts = take_prefix(r);
    if (!counts) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < r->op.n; i++) {
        counts[i] = dst->count / r->op.n + (i < dst->count % r->op.n);
    }
    call->type = hd_coll[call->type].vector_type;
    call->uneven = true;
    call->receive.counts = counts;
    call->receive.wide_counts = true;
    ucc_status_t status = make_dense(r, &call->receive);
    if (status == UCC_OK) {
        side_t src = {0}, whole = {.at = dst->buffer,
                                   .element = call->element,
                                   .bytes = dst->count * call->element,
                                   .block = counts[r->op.me] * call->element};
        lay_out(r, &hd_coll[call->type], &src, &whole);
    }
    return status;
}

/* hd_prepare; type is the call's, see KNOWN_TYPE. */
static KNOWN_TYPE ucc_status_t prepare(hd_request_t *r, uint8_t type) {
    hd_call_t *call = &r->op.call;
    const hd_coll_t *coll = &hd_coll[type];
    side_t src = {0}, dst = {0};
    hd_coll_buffers(coll, call->is_root, r->op.me, call->in_place, &src.counts, &dst.counts);
    /* A bcast has no place: all members that set the flag keep it, so that they decide alike. */
    call->in_place = call->in_place && (call->is_root || !coll->rooted || coll->bcast);
    bool src_first = coll->flow == HD_FROM_ROOT;
    ucc_status_t status = take_side(r, coll, src_first, src_first ? &src : &dst);
    if (status == UCC_OK) {
        status = take_side(r, coll, !src_first, src_first ? &dst : &src);
    }
    if (status == UCC_OK && src.counts && dst.counts) {
        status = compare(r, coll, &src, &dst);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (call->in_place && coll->result == HD_BLOCK && dst.counts &&
        r->args.dst.info.count % r->op.n) {
        return split_unevenly(r);
    }
    lay_out(r, coll, &src, &dst);
    return UCC_OK;
}

ucc_status_t hd_prepare(hd_request_t *r) {
    /* Types have code of their own that come here before each launch; and the two most frequent. */
    switch (r->op.call.type) {
    case HD_ALLGATHERV:
        return prepare(r, HD_ALLGATHERV);
    case HD_ALLREDUCE:
        return prepare(r, HD_ALLREDUCE);
    case HD_ALLTOALLV:
        return prepare(r, HD_ALLTOALLV);
    case HD_BCAST:
        return prepare(r, HD_BCAST);
    case HD_GATHERV:
        return prepare(r, HD_GATHERV);
    case HD_REDUCE_SCATTERV:
        return prepare(r, HD_REDUCE_SCATTERV);
    case HD_SCATTERV:
        return prepare(r, HD_SCATTERV);
    default:
        return prepare(r, r->op.call.type);
    }
}
