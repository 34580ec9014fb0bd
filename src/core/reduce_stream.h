/*
 * Sums that go from registers to all their destinations by streaming stores, compiled once per
 * vector unit for the types that most sums are made of. Everything else streams through a scratch
 * window (reduce_tree.c), which takes 2 to 20 % longer: there, reading and writing alternate.
 *
 * The including file defines HD_TARGET, HD_VECTOR_BYTES, HD_STREAM(to, vector), and
 * HD_STREAM_KERNELS, the table to define. A turn is some lines of each source, added from left to
 * right as everywhere, then written to one destination after the other. All sources of a turn are
 * read before any destination is written, so a destination may be a source.
 */
#include "core/copy.h"
#include "core/reduce_kernels.h"

enum { HD_TURN_VECTORS = HD_REDUCE_TURN / HD_VECTOR_BYTES };

/* Vectors as they lie in users' buffers, and the masks that comparing two of them gives. */
#define HD_VECTOR __attribute__((vector_size(HD_VECTOR_BYTES), may_alias, aligned(1)))

typedef float hd_vf32 HD_VECTOR;
typedef double hd_vf64 HD_VECTOR;
typedef uint32_t hd_vu32 HD_VECTOR;
typedef uint64_t hd_vu64 HD_VECTOR;

/* nan_f32() and nan_f64() of reduce_scalar.h. */
HD_TARGET HD_INLINE hd_vf32 nan_vf32(hd_vf32 a) {
    hd_vu32 number = (hd_vu32)(a == a);

    return (hd_vf32)(((hd_vu32)a & number) | (~number & 0x7fc00000));
}

HD_TARGET HD_INLINE hd_vf64 nan_vf64(hd_vf64 a) {
    hd_vu64 number = (hd_vu64)(a == a);

    return (hd_vf64)(((hd_vu64)a & number) | (~number & 0x7ff8000000000000));
}

#define HD_STREAM_KERNEL(_name, _vector, _finish)                                                  \
    HD_TARGET static void _name(uint32_t k, const void *const *src, uint32_t m, void *const *dst,  \
                                size_t bytes, uint32_t n) {                                        \
        (void)n;                                                                                   \
        for (size_t at = 0; at < bytes; at += HD_REDUCE_TURN) {                                    \
            const _vector *s = (const _vector *)((const char *)src[0] + at);                       \
            _vector a[HD_TURN_VECTORS];                                                            \
            for (int i = 0; i < HD_TURN_VECTORS; i++) {                                            \
                a[i] = s[i];                                                                       \
            }                                                                                      \
            for (uint32_t j = 1; j < k; j++) {                                                     \
                s = (const _vector *)((const char *)src[j] + at);                                  \
                for (int i = 0; i < HD_TURN_VECTORS; i++) {                                        \
                    a[i] += s[i];                                                                  \
                }                                                                                  \
            }                                                                                      \
            for (int i = 0; i < HD_TURN_VECTORS; i++) {                                            \
                a[i] = _finish(a[i], n);                                                           \
            }                                                                                      \
            for (uint32_t j = 0; j < m; j++) {                                                     \
                char *d = (char *)dst[j] + at;                                                     \
                for (int i = 0; i < HD_TURN_VECTORS; i++) {                                        \
                    HD_STREAM(d + i * HD_VECTOR_BYTES, a[i]);                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define HD_VECTOR_SAME(x, _n)    (x)
#define HD_VECTOR_NAN_F32(x, _n) nan_vf32(x)
#define HD_VECTOR_NAN_F64(x, _n) nan_vf64(x)
#define HD_VECTOR_AVG_F32(x, _n) nan_vf32((x) / (float)(_n))
#define HD_VECTOR_AVG_F64(x, _n) nan_vf64((x) / (double)(_n))

HD_STREAM_KERNEL(stream_sum_u32, hd_vu32, HD_VECTOR_SAME)
HD_STREAM_KERNEL(stream_sum_u64, hd_vu64, HD_VECTOR_SAME)
HD_STREAM_KERNEL(stream_sum_f32, hd_vf32, HD_VECTOR_NAN_F32)
HD_STREAM_KERNEL(stream_sum_f64, hd_vf64, HD_VECTOR_NAN_F64)
HD_STREAM_KERNEL(stream_avg_f32, hd_vf32, HD_VECTOR_AVG_F32)
HD_STREAM_KERNEL(stream_avg_f64, hd_vf64, HD_VECTOR_AVG_F64)

const hd_stream_table_t HD_STREAM_KERNELS = {
    [HD_NUMBER(UCC_DT_UINT32)] = {[UCC_OP_SUM] = stream_sum_u32},
    [HD_NUMBER(UCC_DT_UINT64)] = {[UCC_OP_SUM] = stream_sum_u64},
    [HD_NUMBER(UCC_DT_FLOAT32)] = {[UCC_OP_SUM] = stream_sum_f32, [UCC_OP_AVG] = stream_avg_f32},
    [HD_NUMBER(UCC_DT_FLOAT64)] = {[UCC_OP_SUM] = stream_sum_f64, [UCC_OP_AVG] = stream_avg_f64},
};
