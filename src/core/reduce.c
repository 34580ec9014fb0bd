/*
 * Reducers: which kernel serves which datatype and operation, and the reduction of one block.
 *
 * See reduce.h for the rules that all kernels follow, reduce_tree.c for what is built from blocks.
 */
#include "core/reduce.h"
#include "core/debug.h"

#include "core/log.h"
#include "core/reduce_kernels.h"
#include "core/reduce_user.h"

/* Kernels by vector unit. */
static const hd_kernel_table_t *const kernels[HD_ISA_LAST] = {
    [HD_ISA_BASE] = &hd_kernels_base,
#if defined(__x86_64__)
    [HD_ISA_AVX2] = &hd_kernels_avx2,
    [HD_ISA_AVX512] = &hd_kernels_avx512,
#endif
};

static const hd_stream_table_t *const streams[HD_ISA_LAST] = {
#if defined(__x86_64__)
    [HD_ISA_AVX2] = &hd_streams_avx2,
    [HD_ISA_AVX512] = &hd_streams_avx512,
#endif
};

/* ---- datatype and operation ---- */

static bool is_integer(uint64_t number) {
    return number <= HD_NUMBER(UCC_DT_UINT128);
}

/* Averages of integers are those of released UCC, which has none of 128 bits. */
static bool has_average(uint64_t number) {
    return number != HD_NUMBER(UCC_DT_INT128) && number != HD_NUMBER(UCC_DT_UINT128);
}

static bool is_signed(uint64_t number) {
    return number <= HD_NUMBER(UCC_DT_INT128);
}

static bool is_complex(uint64_t number) {
    return number >= HD_NUMBER(UCC_DT_FLOAT32_COMPLEX);
}

static bool has_meaning(ucc_datatype_t dt, ucc_reduction_op_t op) {
    bool is_loc = op == UCC_OP_MAXLOC || op == UCC_OP_MINLOC;
    uint64_t number = hd_dt_number(dt);

    if (is_loc || hd_dt_is_pair(dt)) {
        return is_loc && hd_dt_is_pair(dt);
    }
    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_PROD:
        return true;
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return !is_complex(number);
    case UCC_OP_AVG:
        return has_average(number);
    case UCC_OP_LAND:
    case UCC_OP_LOR:
    case UCC_OP_LXOR:
    case UCC_OP_BAND:
    case UCC_OP_BOR:
    case UCC_OP_BXOR:
        return is_integer(number);
    default:
        return false;
    }
}

/* Replaces the type by the one whose kernel does the same on its scalars; returns the scalars per
 * element. Bits are bytes; only the order and the quotient of integers know a sign; complex numbers
 * add by parts.
 */
static uint32_t kernel_type(uint64_t *number, ucc_reduction_op_t op, size_t element_size) {
    if (op == UCC_OP_BAND || op == UCC_OP_BOR || op == UCC_OP_BXOR) {
        *number = HD_NUMBER(UCC_DT_UINT8);
        return (uint32_t)element_size;
    }
    if (is_signed(*number) && op != UCC_OP_MAX && op != UCC_OP_MIN && op != UCC_OP_AVG) {
        *number += HD_NUMBER(UCC_DT_UINT8) - HD_NUMBER(UCC_DT_INT8);
        return 1;
    }
    if (!is_complex(*number) || op == UCC_OP_PROD) {
        return 1;
    }
    switch (*number) {
    case HD_NUMBER(UCC_DT_FLOAT32_COMPLEX):
        *number = HD_NUMBER(UCC_DT_FLOAT32);
        break;
    case HD_NUMBER(UCC_DT_FLOAT64_COMPLEX):
        *number = HD_NUMBER(UCC_DT_FLOAT64);
        break;
    default:
        *number = HD_NUMBER(UCC_DT_FLOAT128);
        break;
    }
    return 2;
}

static hd_kernel_fn kernel_find(uint64_t number, ucc_reduction_op_t op) {
    hd_kernel_fn kernel = (*kernels[hd_isa()])[number][op];

    return kernel != NULL ? kernel : hd_kernels_wide[number][op];
}

static hd_stream_fn stream_find(uint64_t number, ucc_reduction_op_t op) {
    const hd_stream_table_t *table = streams[hd_isa()];

    return table != NULL ? (*table)[number][op] : NULL;
}

/* place: what the line begins with. */
static void explain(ucc_datatype_t dt, ucc_reduction_op_t op, const char *place) {
    if (!hd_dt_valid(dt)) {
        hd_error("%sdatatype 0x%llx is not valid", place, (unsigned long long)dt);
    } else if (hd_dt_is_generic(dt) && hd_dt_generic(dt)->ops.reduce.cb == NULL) {
        hd_error("%sgeneric datatype 0x%llx was created without a reduction", place,
                 (unsigned long long)dt);
    } else if (hd_dt_is_generic(dt)) {
        hd_error("%sgeneric datatype 0x%llx is not contiguous: reductions of such types are not "
                 "supported",
                 place, (unsigned long long)dt);
    } else if (!has_meaning(dt, op)) {
        hd_error("%soperation %s (%d) has no meaning on datatype %s", place, hd_reduction_name(op),
                 (int)op, hd_dt_name(dt));
    } else {
        hd_error("%sdatatype %s is not supported on this machine", place, hd_dt_name(dt));
    }
}

void hd_reducer_explain(ucc_datatype_t dt, ucc_reduction_op_t op, const char *call, uint32_t ep) {
    char place[64];
    snprintf(place, sizeof(place), "%s at endpoint %u: ", call, ep);
    explain(dt, op, place);
}

static ucc_status_t take_user(hd_reducer_t *r, ucc_datatype_t dt) {
    ucc_dt_generic_t *user = hd_dt_generic(dt);

    if (user->ops.reduce.cb == NULL || user->ops.contig_size == 0) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    r->user = user;
    r->element_size = user->ops.contig_size;
    return UCC_OK;
}

ucc_status_t hd_reducer_take(hd_reducer_t *r, ucc_datatype_t dt, ucc_reduction_op_t op,
                             uint32_t n) {
    uint64_t number = hd_dt_number(dt);

    if (!hd_dt_valid(dt)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *r = (hd_reducer_t){.dt = dt, .op = op, .n = n, .scalars = 1};
    if (hd_dt_is_generic(dt)) {
        return take_user(r, dt);
    }
    if (!has_meaning(dt, op)) {
        /* clients fall back to a reduction of their own on NOT_SUPPORTED only */
        return (unsigned)op < UCC_OP_LAST ? UCC_ERR_NOT_SUPPORTED : UCC_ERR_INVALID_PARAM;
    }
    r->element_size = hd_dt_size(dt);
    if (hd_dt_is_pair(dt)) {
        r->root = r->inner = hd_kernels_pair[number - HEDDLE_DT_PAIR_FIRST][op == UCC_OP_MINLOC];
        return UCC_OK;
    }
    r->scalars = kernel_type(&number, op, r->element_size);
    r->root = kernel_find(number, op);
    r->stream = stream_find(number, op);
    r->inner = r->root;
    if (op == UCC_OP_AVG) { /* divided once, at the root */
        (void)kernel_type(&number, UCC_OP_SUM, r->element_size);
        r->inner = kernel_find(number, UCC_OP_SUM);
    }
    return r->root == NULL ? UCC_ERR_NOT_SUPPORTED : UCC_OK;
}

ucc_status_t hd_reducer_init(hd_reducer_t *r, ucc_datatype_t dt, ucc_reduction_op_t op,
                             uint32_t n) {
    ucc_status_t status = hd_reducer_take(r, dt, op, n);
    if (status != UCC_OK) {
        explain(dt, op, "");
    }
    return status;
}

/* ---- one block ---- */

enum { ALIGN_BYTES = 4096 /* from here on, aligning the destination pays for a second call */ };

/* Scalars before the first whole line of dst, 0 if aligning it is impossible or not worth while. A
 * store across the end of a line costs two: a tenth of the time of a large block, whose vectors are
 * lines. Sources that lie across lines cost less than half of that. */
static size_t scalars_to_line(const hd_reducer_t *r, const void *dst, size_t scalars) {
    size_t bytes = hd_copy_gap(dst);
    size_t scalar_bytes = r->element_size / r->scalars;

    return scalars * scalar_bytes >= ALIGN_BYTES && bytes % scalar_bytes == 0 ? bytes / scalar_bytes
                                                                              : 0;
}

static void run_kernel(const hd_reducer_t *r, uint32_t k, const void *const src[], void *dst,
                       size_t scalars, bool last) {
    hd_kernel_fn kernel = last ? r->root : r->inner;
    size_t head = scalars_to_line(r, dst, scalars);
    size_t head_bytes = head * (r->element_size / r->scalars);
    const void *rest[HD_REDUCE_BLOCK];

    if (head == 0) {
        kernel(k, src, dst, scalars, r->n);
        return;
    }
    for (uint32_t i = 0; i < k; i++) {
        rest[i] = (const char *)src[i] + head_bytes;
    }
    kernel(k, src, dst, head, r->n);
    kernel(k, rest, (char *)dst + head_bytes, scalars - head, r->n);
}

ucc_status_t hd_reduce_block(const hd_reducer_t *r, uint32_t k, const void *const src[], void *dst,
                             size_t count, bool last) {
    hd_assert(k > 0 && k <= HD_REDUCE_BLOCK);
    if (k == 1) { /* also AVG's root: it has one operand only if n is 1 */
        hd_copy(dst, src[0], count * r->element_size, HD_STORES_PLAIN);
        return UCC_OK;
    }
    if (r->user != NULL) {
        return hd_reduce_user(r, k, src, dst, count);
    }
    run_kernel(r, k, src, dst, count * r->scalars, last);
    return UCC_OK;
}
