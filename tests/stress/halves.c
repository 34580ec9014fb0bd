/* halves.c: every float is rounded to float16 and to bfloat16 as the reference does it: all 2^32 of
 * them.
 *
 * By the scalar functions, which the vector units fall back to and the kernels of emulated devices
 * use. Less than the whole amount takes one float of so many, at an odd distance.
 */
#include "stress.h"

#include "../reference_half.h"
#include "core/reduce_scalar.h"

static uint16_t float16_expected(float x) {
    return float16_from_float(x);
}

/* A NaN becomes the one that results have. */
static uint16_t bfloat16_expected(float x) {
    return x == x ? bfloat16_from_float(x) : 0x7fc0;
}

static void check(uint32_t bits) {
    float x = float_of_bits(bits);
    if (narrow_f16(x) != float16_expected(x)) {
        stress_error("float %08x becomes float16 %04x instead of %04x", bits, narrow_f16(x),
                     float16_expected(x));
    }
    if (narrow_bf16(x) != bfloat16_expected(x)) {
        stress_error("float %08x becomes bfloat16 %04x instead of %04x", bits, narrow_bf16(x),
                     bfloat16_expected(x));
    }
}

static void check_wide(uint16_t half) {
    float x = widen_f16(half), y = float_from_float16(half);
    if (x == x ? bits_f32(x) != bits_f32(y) : y == y) {
        stress_error("float16 %04x becomes float %08x instead of %08x", half, bits_f32(x),
                     bits_f32(y));
    }
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    uint64_t all = UINT64_C(1) << 32, step = 10000 / stress_scaled(10000) | 1;
    stress_phase("all float16", 60);
    for (uint32_t half = 0; half < 1 << 16; half++) {
        check_wide((uint16_t)half);
    }
    stress_phase("all floats", 300);
    for (uint64_t bits = 0; bits < all; bits += step) {
        check((uint32_t)bits);
    }
    return stress_end();
}
