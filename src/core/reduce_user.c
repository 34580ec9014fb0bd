/*
 * Reduction of generic datatypes by their own callback.
 *
 * The callback is always given one further vector (n_vectors 1): it then works in place on dst or
 * out of place, which every callback must be able to do, and no stride comes into play. The
 * canonical order asks for ((s0 + s1) + s2) + ...; if dst is one of the later operands, writing
 * partial results to it would destroy that operand, so they go through a scratch window.
 */
#include "core/reduce_user.h"

#include <string.h>

#include "core/dtype.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/sanitizer.h"

enum { USER_SCRATCH = 4096 };

/* dst = a + b */
static ucc_status_t call_user(const hd_reducer_t *r, const void *a, const void *b, void *dst,
                              size_t count) {
    ucc_reduce_cb_params_t params = {
        .mask = 0,
        .src1 = (void *)(uintptr_t)a, /* the interface has no const; the callback only reads them */
        .src2 = (void *)(uintptr_t)b,
        .dst = dst,
        .n_vectors = 1,
        .count = count,
        .stride = count * r->element_size,
        .dt = r->user,
        .cb_ctx = r->user->ops.reduce.cb_ctx,
    };
    hd_sanitizer_enter_callback();
    ucc_status_t status = r->user->ops.reduce.cb(&params);
    hd_sanitizer_leave_callback();

    if (status != UCC_OK) {
        hd_error("the reduction callback of datatype 0x%llx returned %d", (unsigned long long)r->dt,
                 (int)status);
    }
    return status > 0 ? UCC_ERR_NO_MESSAGE : status; /* "in progress" is no end */
}

/* Partial results go to out, which is src[0] or none of the operands. */
static ucc_status_t fold(const hd_reducer_t *r, uint32_t k, const void *const *src, size_t offset,
                         void *out, size_t count) {
    ucc_status_t status =
        call_user(r, (const char *)src[0] + offset, (const char *)src[1] + offset, out, count);

    for (uint32_t j = 2; j < k && status == UCC_OK; j++) {
        status = call_user(r, out, (const char *)src[j] + offset, out, count);
    }
    return status;
}

static ucc_status_t fold_through(const hd_reducer_t *r, uint32_t k, const void *const *src,
                                 void *dst, size_t count, void *scratch, size_t scratch_bytes) {
    size_t window = scratch_bytes / r->element_size;

    for (size_t done = 0; done < count; done += window) {
        size_t part = count - done < window ? count - done : window;
        size_t offset = done * r->element_size;
        ucc_status_t status = fold(r, k, src, offset, scratch, part);

        if (status != UCC_OK) {
            return status;
        }
        memcpy((char *)dst + offset, scratch, part * r->element_size);
    }
    return UCC_OK;
}

ucc_status_t hd_reduce_user(const hd_reducer_t *r, uint32_t k, const void *const *src, void *dst,
                            size_t count) {
    _Alignas(64) char scratch[USER_SCRATCH];
    bool in_the_way = false;
    ucc_status_t status;
    void *block;

    if (count == 0) {
        return UCC_OK;
    }
    for (uint32_t j = 1; j < k; j++) {
        in_the_way |= src[j] == dst;
    }
    if (!in_the_way) {
        return fold(r, k, src, 0, dst, count);
    }
    if (r->element_size <= sizeof(scratch)) {
        return fold_through(r, k, src, dst, count, scratch, sizeof(scratch));
    }
    block = hd_alloc(64, r->element_size);
    if (block == NULL) {
        hd_error("no memory for a partial result of %zu bytes", r->element_size);
        return UCC_ERR_NO_MEMORY;
    }
    status = fold_through(r, k, src, dst, count, block, r->element_size);
    hd_free(block);
    return status;
}
