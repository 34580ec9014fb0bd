/* shapes.c: the buffers of a call: which are significant at this endpoint, how large they must be
 * relative to each other, and what the operation gets of them (src, dst, bytes, total, elements,
 * vectors). hd_coll says what each collective needs of this; args.c calls hd_prepare at init, and
 * for v types again before each launch.
 *
 * Only significant fields are looked at. Nothing is allocated but the displacements of densely
 * packed vectors (and the counts of uneven blocks), in memory that the request keeps.
 */
#include "device/device.h"
#include "request/internal.h"

#include <limits.h>

/* Compiled into hd_prepare: for the types that it names, without what does not concern them. */
#define KNOWN_TYPE inline __attribute__((always_inline))

ucc_status_t hd_args_bad(const hd_intake_t *c, const char *field, const char *what) {
    hd_error("%s at endpoint %u: %s %s", hd_type_name(c->op->call.type), c->team->ep, field, what);
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

/* Takes a vector into the call, and checks it. */
static KNOWN_TYPE ucc_status_t take_vector(const hd_intake_t *c, const hd_coll_t *coll, bool source,
                                           side_t *side) {
    const char *field = source ? "src" : "dst";
    const ucc_coll_buffer_info_v_t *info = source ? &c->args->src.info_v : &c->args->dst.info_v;
    hd_vector_t *v = source ? &c->op->call.send : &c->op->call.receive;
    bool dense = coll->reducing; /* displacements are not significant */
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
    side->at = info->buffer;
    side->dt = info->datatype;
    side->element = element;
    side->bytes = sum;
    side->block = coll->pairwise ? 0 : hd_vector_count(v, c->me) * element;
    if (__builtin_expect(!hd_is_address(info->buffer) || info->mem_type != UCC_MEMORY_TYPE_HOST,
                         0)) {
        status = check_vector_buffer(c, field, info, v, dense, sum);
        if (status != UCC_OK) {
            return status;
        }
    }
    return v->displacements ? UCC_OK : make_dense(c, v, source ? 0 : 1);
}

/* Divides a buffer that holds a block for each member, all of the same size. */
static ucc_status_t divide(const hd_intake_t *c, const hd_coll_t *coll, bool source, uint64_t count,
                           side_t *side) {
    if (source && !coll->pairwise) { /* all of it is given away */
        if (coll->flow == HD_FROM_ROOT && side->bytes % c->n) {
            return hd_args_bad(c, "src.count", "is not a multiple of the team's size");
        }
        side->block = side->bytes / c->n;
        return UCC_OK;
    }
    /* what is left over belongs to nobody, as in released UCC */
    side->block = count / c->n * hd_dt_size(side->dt);
    side->bytes = side->block * c->n;
    return UCC_OK;
}

/* Takes a buffer that is no vector. */
static KNOWN_TYPE ucc_status_t take_plain(const hd_intake_t *c, const hd_coll_t *coll, bool source,
                                          side_t *side) {
    const hd_call_t *call = &c->op->call;
    const ucc_coll_buffer_info_t *info = source ? &c->args->src.info : &c->args->dst.info;
    ucc_coll_buffer_info_t by_dst;
    uint8_t extent = source ? coll->source : coll->result;
    if (source && extent == HD_WHOLE && !hd_coll_goes_by_src(coll, call->is_root, call->in_place)) {
        /* as in released UCC, dst says how much there is, and of what */
        by_dst = *info;
        by_dst.count = c->args->dst.info.count;
        info = &by_dst;
    }
    ucc_status_t status = take_buffer(c, source ? "src" : "dst", info, &side->bytes);
    side->at = info->buffer;
    side->dt = info->datatype;
    side->block = side->bytes;
    /* in place, what becomes one member's block holds all of them before */
    bool blocks = extent == HD_BLOCKS || (extent == HD_BLOCK && !source && call->in_place);
    return status == UCC_OK && blocks && !coll->vector ? divide(c, coll, source, info->count, side)
                                                       : status;
}

static KNOWN_TYPE ucc_status_t take_side(const hd_intake_t *c, const hd_coll_t *coll, bool source,
                                         side_t *side) {
    if (!side->counts) {
        return UCC_OK;
    }
    return (source ? coll->source : coll->result) == HD_VECTOR ? take_vector(c, coll, source, side)
                                                               : take_plain(c, coll, source, side);
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

static KNOWN_TYPE bool sizes_fit(const hd_intake_t *c, const hd_coll_t *coll, const side_t *src,
                                 const side_t *dst) {
    if (coll->reducing && coll->source == HD_BLOCKS) { /* nothing of src may be left over */
        return coll->vector ? src->bytes == dst->bytes
                            : src->bytes % c->n == 0 && src->block == dst->block;
    }
    return src->block == dst->block;
}

/* Compares both buffers of a call that has two. */
static KNOWN_TYPE ucc_status_t compare(const hd_intake_t *c, const hd_coll_t *coll,
                                       const side_t *src, const side_t *dst) {
    bool fit = sizes_fit(c, coll, src, dst);
    /* reduce and allreduce take the bits of src for what dst says, if sizes allow it */
    bool typed = coll->reducing && (coll->source != HD_WHOLE || coll->prefix);
    if (typed && src->dt != dst->dt && (fit || !coll->prefix)) {
        return hd_args_bad(c, "dst.datatype", "differs from src.datatype");
    }
    if (!fit) {
        return hd_args_bad(c, misfit[c->op->call.type].field, misfit[c->op->call.type].what);
    }
    if (coll->result == HD_BLOCKS && c->args->dst.info.count < c->n) {
        /* the caller seems to have given a count per endpoint */
        return hd_args_bad(c, "dst.count", "is less than an element for each endpoint");
    }
    return UCC_OK;
}

/* Lets the operation of a call in place find what it reads and writes in the one buffer. */
static KNOWN_TYPE void lay_in_place(const hd_intake_t *c, const hd_coll_t *coll,
                                    const side_t *kept) {
    hd_call_t *call = &c->op->call;
    const hd_vector_t *v = coll->flow == HD_FROM_ROOT ? &call->send : &call->receive;
    size_t at =
        coll->vector ? hd_vector_displacement(v, c->me) * kept->element : c->me * kept->block;
    if (coll->source == HD_BLOCK) {
        call->src = hd_at(kept->at, at);
    } else {
        call->src = kept->at;
        call->dst = hd_at(kept->at, at);
    }
}

/* Gives the operation what was taken. */
static KNOWN_TYPE void lay_out(const hd_intake_t *c, const hd_coll_t *coll, const side_t *src,
                               const side_t *dst) {
    hd_call_t *call = &c->op->call;
    bool by_src = hd_coll_goes_by_src(coll, call->is_root, call->in_place);
    const side_t *kept = coll->flow == HD_FROM_ROOT ? src : dst; /* by a call in place */
    call->bytes = by_src ? src->block : dst->block;
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    call->total = !divided ? call->bytes : call->in_place ? kept->bytes : src->bytes;
    call->src = src->at;
    call->dst = coll->bcast ? src->at : dst->at;
    if (call->in_place && !coll->pairwise && coll->source != HD_WHOLE) {
        lay_in_place(c, coll, kept);
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
static ucc_status_t split_unevenly(hd_intake_t *c) {
    hd_call_t *call = &c->op->call;
    const ucc_coll_buffer_info_t *dst = &c->args->dst.info;
    uint64_t *counts = take_prefix(c);
    if (!counts) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        counts[i] = dst->count / c->n + (i < dst->count % c->n);
    }
    call->type = hd_coll[call->type].vector_type;
    call->uneven = true;
    call->receive.counts = counts;
    call->receive.wide_counts = true;
    ucc_status_t status = make_dense(c, &call->receive, 1);
    if (status == UCC_OK) {
        side_t src = {0}, whole = {.at = dst->buffer,
                                   .element = call->element,
                                   .bytes = dst->count * call->element,
                                   .block = counts[c->me] * call->element};
        lay_out(c, &hd_coll[call->type], &src, &whole);
    }
    return status;
}

/* hd_prepare; type is the call's, see KNOWN_TYPE. */
static KNOWN_TYPE ucc_status_t prepare(hd_intake_t *c, uint8_t type) {
    hd_call_t *call = &c->op->call;
    const hd_coll_t *coll = &hd_coll[type];
    side_t src = {0}, dst = {0};
    hd_coll_buffers(coll, call->is_root, c->me, call->in_place, &src.counts, &dst.counts);
    /* A bcast has no place: all members that set the flag keep it, so that they decide alike. */
    call->in_place = call->in_place && (call->is_root || !coll->rooted || coll->bcast);
    bool src_first = coll->flow == HD_FROM_ROOT;
    ucc_status_t status = take_side(c, coll, src_first, src_first ? &src : &dst);
    if (status == UCC_OK) {
        status = take_side(c, coll, !src_first, src_first ? &dst : &src);
    }
    if (status == UCC_OK && src.counts && dst.counts) {
        status = compare(c, coll, &src, &dst);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (call->in_place && coll->result == HD_BLOCK && dst.counts &&
        c->args->dst.info.count % c->n) {
        return split_unevenly(c);
    }
    lay_out(c, coll, &src, &dst);
    return UCC_OK;
}

ucc_status_t hd_prepare(hd_intake_t *c) {
    /* Types have code of their own that come here before each launch; and the two most frequent. */
    switch (c->op->call.type) {
    case HD_ALLGATHERV:
        return prepare(c, HD_ALLGATHERV);
    case HD_ALLREDUCE:
        return prepare(c, HD_ALLREDUCE);
    case HD_ALLTOALLV:
        return prepare(c, HD_ALLTOALLV);
    case HD_BCAST:
        return prepare(c, HD_BCAST);
    case HD_GATHERV:
        return prepare(c, HD_GATHERV);
    case HD_REDUCE_SCATTERV:
        return prepare(c, HD_REDUCE_SCATTERV);
    case HD_SCATTERV:
        return prepare(c, HD_SCATTERV);
    default:
        return prepare(c, c->op->call.type);
    }
}
