/* pack.c: datatypes that only their user can pack. A contiguous copy stands in for the user's
 * buffer. It is packed just before the operation is published (op->prepare), and unpacked just
 * after the operation has succeeded (its frame). Both are done by the endpoint that owns the
 * buffer, so a user's callbacks never run concurrently for one buffer. args.c calls hd_pack_setup
 * at init.
 *
 * This is for collectives of data that is only moved. The v types would need the extent of an
 * element to find a block, which the interface does not give: they are not supported (shapes.c says
 * so).
 */
#include "core/dtype.h"
#include "core/sanitizer.h"
#include "request/internal.h"
#include "threads/callback.h"

#include <string.h>

/* One buffer of the call, as bytes: the user's own if it is contiguous, else its stand-in. */
typedef struct side {
    const ucc_coll_buffer_info_t *info;
    bool packed;
    size_t bytes;
    uint8_t *at;
} side_t;

static bool needs_packing(const ucc_coll_buffer_info_t *info) {
    return hd_dt_valid(info->datatype) && !hd_dt_is_contiguous(info->datatype);
}

/* Checks and measures one buffer; allocates the stand-in, if it has one. */
static ucc_status_t measure(const hd_op_t *op, const char *field,
                            const ucc_coll_buffer_info_t *info, side_t *side) {
    side->info = info;
    side->packed = needs_packing(info);
    /* NULL until it is allocated: hd_pack_release frees it */
    side->at = side->packed ? NULL : info->buffer;
    if (!hd_dt_valid(info->datatype) || (info->count && !info->buffer)) {
        hd_error("%s at endpoint %u: %s: %s", hd_op_type_name(op), op->team_ep, field,
                 hd_dt_valid(info->datatype) ? "buffer is NULL" : "datatype is not valid");
        return UCC_ERR_INVALID_PARAM;
    }
    if (info->buffer && !hd_is_host(info->mem_type, info->buffer)) {
        hd_error("%s.mem_type: device memory is not supported for datatypes that users pack",
                 field);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!side->packed) {
        if (__builtin_mul_overflow(info->count, hd_dt_size(info->datatype), &side->bytes)) {
            hd_error("%s: count beyond the address space", field);
            return UCC_ERR_INVALID_PARAM;
        }
        return UCC_OK;
    }
    ucc_dt_generic_t *dt = hd_dt_generic(info->datatype);
    void *state = dt->ops.start_pack(dt->context, info->buffer, info->count);
    side->bytes = dt->ops.packed_size(state);
    dt->ops.finish(state);
    side->at = side->bytes ? hd_alloc(HD_LINE, side->bytes) : NULL;
    if (side->bytes && !side->at) {
        hd_error("%s: no memory to pack %zu bytes", field, side->bytes);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

static ucc_status_t pack(ucc_datatype_t type, const void *buffer, uint64_t count, uint8_t *to,
                         size_t bytes) {
    ucc_dt_generic_t *dt = hd_dt_generic(type);
    void *state = dt->ops.start_pack(dt->context, buffer, count);
    size_t at = 0;
    hd_sanitizer_enter_callback();
    while (at < bytes) {
        size_t part = dt->ops.pack(state, at, to + at, bytes - at);
        if (part == 0 || part > bytes - at) {
            break;
        }
        at += part;
    }
    hd_sanitizer_leave_callback();
    dt->ops.finish(state);
    if (at != bytes) {
        hd_error("pack callback gave %zu of %zu bytes", at, bytes);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* What hd_callback_run passes to the two functions below. */
typedef struct packing {
    hd_op_t *op;
    ucc_status_t status;
} packing_t;

static void pack_sources(void *arg) {
    packing_t *packing = arg;
    struct hd_pack *p = &((hd_request_t *)packing->op)->pack;
    ucc_status_t status = UCC_OK;
    if (p->src_packed) {
        status = pack(p->src_dt, p->src_user, p->src_count, p->src_packed, p->src_bytes);
    }
    if (status == UCC_OK && p->dst_packed && p->fill_dst) {
        status = pack(p->dst_dt, p->dst_user, p->dst_count, p->dst_packed, p->dst_bytes);
    }
    packing->status = status;
}

static void unpack_result(void *arg) {
    packing_t *packing = arg;
    struct hd_pack *p = &((hd_request_t *)packing->op)->pack;
    ucc_dt_generic_t *dt = hd_dt_generic(p->dst_dt);
    void *state = dt->ops.start_unpack(dt->context, p->dst_user, p->dst_count);
    hd_sanitizer_enter_callback();
    ucc_status_t status = dt->ops.unpack(state, 0, p->dst_packed, p->dst_bytes);
    hd_sanitizer_leave_callback();
    dt->ops.finish(state);
    if (status != UCC_OK) {
        hd_error("unpack callback failed: %s", ucc_status_string(status));
    }
    /* a callback must not end with "in progress" */
    packing->status = status > 0 ? UCC_ERR_NO_MESSAGE : status;
}

/* op->prepare: packs what this endpoint sends. */
static ucc_status_t prepare(hd_op_t *op) {
    packing_t packing = {.op = op};
    hd_op_calls_user(op);
    hd_callback_run(&op->task, pack_sources, &packing, hd_op_abandon);
    return packing.status;
}

/* The frame's `finish`: unpacks the result. */
static ucc_status_t finish(hd_op_t *op, ucc_status_t status) {
    packing_t packing = {.op = op, .status = status};
    if (status == UCC_OK && ((hd_request_t *)op)->pack.dst_packed) {
        hd_callback_run(&op->task, unpack_result, &packing, hd_op_abandon);
    }
    return packing.status;
}

static const hd_frame_t frame = {.finish = finish};

void hd_pack_release(hd_request_t *r) {
    hd_free(r->pack.src_packed);
    hd_free(r->pack.dst_packed);
    memset(&r->pack, 0, sizeof(r->pack));
}

/* Sets the call's bytes and pointers from the sizes of the buffers that matter here.
 * UCC_ERR_INVALID_PARAM: the sizes do not fit. */
static ucc_status_t lay_out(hd_op_t *op, const side_t *src, const side_t *dst) {
    const hd_coll_t *coll = &hd_coll[op->call.type];
    const hd_request_t *r = (const hd_request_t *)op;
    uint32_t n = r->op.n;
    size_t all = 0;
    op->call.src = src->at;
    op->call.dst = dst->at;
    if (coll->bcast) {
        op->call.bytes = op->call.total = src->bytes;
        op->call.dst = src->at;
        return UCC_OK;
    }
    switch ((hd_flow_t)coll->flow) {
    case HD_FROM_ROOT:
        all = op->call.is_root ? src->bytes : dst->bytes * n;
        op->call.bytes = all / n;
        op->call.total = all;
        if (op->call.in_place) {
            op->call.dst = src->at + r->op.me * op->call.bytes;
        }
        return all % n || (op->call.is_root && !op->call.in_place && dst->bytes != op->call.bytes)
                   ? UCC_ERR_INVALID_PARAM
                   : UCC_OK;
    case HD_TO_ROOT:
        all = op->call.is_root ? dst->bytes : src->bytes * n;
        op->call.bytes = op->call.total = all / n;
        break;
    case HD_AMONG_ALL:
        all = dst->bytes;
        op->call.bytes = all / n;
        op->call.total = coll->pairwise ? all : op->call.bytes;
        break;
    }
    if (op->call.in_place) {
        op->call.src = coll->pairwise ? NULL : dst->at + r->op.me * op->call.bytes;
        return all % n ? UCC_ERR_INVALID_PARAM : UCC_OK;
    }
    return all % n || src->bytes != op->call.total ? UCC_ERR_INVALID_PARAM : UCC_OK;
}

ucc_status_t hd_pack_setup(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r) {
    hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool use_src, use_dst;
    (void)team;
    if (coll->vector) {
        return UCC_OK;
    }
    hd_coll_buffers(coll, op->call.is_root, r->op.me, op->call.in_place, &use_src, &use_dst);
    if (!(use_src && needs_packing(&args->src.info)) &&
        !(use_dst && needs_packing(&args->dst.info))) {
        return UCC_OK;
    }
    op->call.in_place = op->call.in_place && (op->call.is_root || !coll->rooted);
    side_t src = {0}, dst = {0};
    ucc_status_t status = use_src ? measure(op, "src", &args->src.info, &src) : UCC_OK;
    if (status == UCC_OK && use_dst) {
        status = measure(op, "dst", &args->dst.info, &dst);
    }
    struct hd_pack *p = &r->pack;
    side_t *received = coll->bcast ? &src : &dst;
    bool receives = coll->bcast ? !op->call.is_root : use_dst;
    if (src.packed && !(coll->bcast && receives)) {
        p->src_packed = src.at;
        p->src_user = src.info->buffer;
        p->src_count = src.info->count;
        p->src_dt = src.info->datatype;
        p->src_bytes = src.bytes;
    }
    if (received->packed && receives) {
        p->dst_packed = received->at;
        p->dst_user = received->info->buffer;
        p->dst_count = received->info->count;
        p->dst_dt = received->info->datatype;
        p->dst_bytes = received->bytes;
        p->fill_dst = op->call.in_place;
    }
    if (status == UCC_OK) {
        status = lay_out(op, &src, &dst);
        if (status != UCC_OK) {
            hd_error("%s: packed sizes of src and dst do not fit the team's size",
                     hd_type_name(op->call.type));
        }
    }
    if (status != UCC_OK) {
        hd_pack_release(r);
        return status;
    }
    op->prepare = prepare;
    op->frame = &frame;
    return UCC_OK;
}
