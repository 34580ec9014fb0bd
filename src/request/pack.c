/* pack.c: datatypes that only their user can pack. A contiguous copy stands in for the user's
 * buffer. It is packed just before the operation is published (op->prepare), and unpacked just
 * after the operation has succeeded (its frame). Both are done by the endpoint that owns the
 * buffer, so a user's callbacks never run concurrently for one buffer.
 *
 * This is for collectives of data that is only moved. The v types would need the extent of an
 * element to find a block, which the interface does not give: they are not supported (shapes.c says
 * so).
 */
#include "core/sanitizer.h"
#include "request/internal.h"
#include "threads/callback.h"

static bool needs_packing(const ucc_coll_buffer_info_t *info) {
    return hd_dt_is_generic(info->datatype) && hd_dt_valid(info->datatype) &&
           !hd_dt_is_contiguous(info->datatype);
}

static ucc_status_t pack(const hd_pack_t *p) {
    ucc_dt_generic_t *dt = hd_dt_generic(p->user.datatype);
    void *state = dt->ops.start_pack(dt->context, p->user.buffer, p->user.count);
    size_t at = 0;
    hd_sanitizer_enter_callback();
    while (at < p->bytes) {
        size_t part = dt->ops.pack(state, at, p->copy + at, p->bytes - at);
        if (part == 0 || part > p->bytes - at) {
            break;
        }
        at += part;
    }
    hd_sanitizer_leave_callback();
    dt->ops.finish(state);
    if (at != p->bytes) {
        hd_error("pack callback gave %zu of %zu bytes", at, p->bytes);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* What hd_callback_run passes to the two functions below. */
typedef struct packing {
    hd_request_t *r;
    ucc_status_t status;
} packing_t;

/* Returns what this endpoint receives: dst, or the only buffer of a bcast. */
static const hd_pack_t *received(const hd_request_t *r) {
    bool is_src = hd_coll[r->op.call.type].bcast && !r->op.call.is_root;
    return is_src ? &r->pack_src : &r->pack_dst;
}

static void pack_sources(void *arg) {
    packing_t *packing = arg;
    const hd_request_t *r = packing->r;
    if (r->pack_src.copy && received(r) != &r->pack_src) {
        packing->status = pack(&r->pack_src);
    }
    /* in place, dst holds data to send */
    if (packing->status == UCC_OK && r->pack_dst.copy && r->op.call.in_place) {
        packing->status = pack(&r->pack_dst);
    }
}

static void unpack_result(void *arg) {
    packing_t *packing = arg;
    const hd_pack_t *p = received(packing->r);
    ucc_dt_generic_t *dt = hd_dt_generic(p->user.datatype);
    void *state = dt->ops.start_unpack(dt->context, p->user.buffer, p->user.count);
    hd_sanitizer_enter_callback();
    ucc_status_t status = dt->ops.unpack(state, 0, p->copy, p->bytes);
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
    packing_t packing = {.r = (hd_request_t *)op, .status = UCC_OK};
    hd_op_calls_user(op);
    hd_callback_run(&op->task, pack_sources, &packing, hd_op_abandon);
    return packing.status;
}

/* The frame's `finish`: unpacks the result. */
static ucc_status_t finish(hd_op_t *op, ucc_status_t status) {
    packing_t packing = {.r = (hd_request_t *)op, .status = status};
    if (status == UCC_OK && received(packing.r)->copy) {
        hd_callback_run(&op->task, unpack_result, &packing, hd_op_abandon);
    }
    return packing.status;
}

static const hd_frame_t frame = {.finish = finish};

void hd_pack_release(hd_request_t *r) {
    hd_free(r->pack_src.copy);
    hd_free(r->pack_dst.copy);
    r->pack_src.copy = r->pack_dst.copy = NULL;
}

/* Checks one buffer, and makes it one of bytes: if it has to be packed, a copy stands in for it.
 * among: the members among which it is divided. */
static ucc_status_t stand_in(hd_request_t *r, const char *field, ucc_coll_buffer_info_t *info,
                             hd_pack_t *p, uint32_t among) {
    size_t bytes;
    if (!hd_dt_valid(info->datatype) || (info->count && !info->buffer)) {
        return hd_args_bad(r, field,
                           hd_dt_valid(info->datatype) ? "has a NULL buffer" : "is not a datatype");
    }
    if (info->buffer && !hd_is_host(info->mem_type, info->buffer)) {
        hd_error("%s.mem_type: device memory is not supported for datatypes that users pack",
                 field);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (needs_packing(info)) {
        ucc_dt_generic_t *dt = hd_dt_generic(info->datatype);
        void *state = dt->ops.start_pack(dt->context, info->buffer, info->count);
        bytes = dt->ops.packed_size(state);
        dt->ops.finish(state);
        *p = (hd_pack_t){.user = *info, .bytes = bytes};
        p->copy = bytes ? hd_alloc(HD_LINE, bytes) : NULL;
        if (bytes && !p->copy) {
            hd_error("%s: no memory to pack %zu bytes", field, bytes);
            return UCC_ERR_NO_MEMORY;
        }
        info->buffer = p->copy;
    } else if (__builtin_mul_overflow(info->count, hd_dt_size(info->datatype), &bytes)) {
        return hd_args_bad(r, field, "has a count beyond the address space");
    }
    info->count = bytes;
    info->datatype = UCC_DT_UINT8;
    return bytes % among ? hd_args_bad(r, field, "has a size that does not fit the team's size")
                         : UCC_OK;
}

ucc_status_t hd_pack_setup(hd_request_t *r) {
    hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    ucc_coll_buffer_info_t *src = &r->args.src.info, *dst = &r->args.dst.info;
    ucc_status_t status = UCC_OK;
    bool use_src, use_dst;
    hd_coll_buffers(coll, op->call.is_root, op->me, op->call.in_place, &use_src, &use_dst);
    if (coll->vector || !((use_src && needs_packing(src)) || (use_dst && needs_packing(dst)))) {
        return UCC_OK;
    }
    op->prepare = prepare;
    op->frame = &frame;
    if (use_src) {
        status = stand_in(r, "src", src, &r->pack_src, coll->source == HD_BLOCKS ? op->n : 1);
    }
    if (use_dst && status == UCC_OK) {
        status = stand_in(r, "dst", dst, &r->pack_dst, coll->result == HD_BLOCKS ? op->n : 1);
    }
    return status;
}
