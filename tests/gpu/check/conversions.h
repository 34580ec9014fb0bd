/* conversions.h: floats to 16 bits and back, by the functions that the kernels use, as bodies of
 * two kernels. */
#ifndef TESTS_GPU_CHECK_CONVERSIONS_H_
#define TESTS_GPU_CHECK_CONVERSIONS_H_

#include "core/reduce_scalar.h"

#include <stdint.h>

/* Addresses; `first` is the first bit pattern, and so many follow. */
typedef struct conversions_args {
    uint64_t
        out[2]; /* half and bfloat16: uint16_t of floats, or uint32_t, a float's bits, of those */
    uint32_t first, count;
} conversions_args_t;

enum { CONVERSIONS_THREADS = 256 };

HD_INLINE float float_with(uint32_t bits) {
    return float_of_bits(bits);
}

#endif
