/* reference_half.h: float16 and bfloat16 to and from float, rounding to nearest even. For the
 * reference only; it shares no code with the library's kernels. */
#ifndef TESTS_REFERENCE_HALF_H_
#define TESTS_REFERENCE_HALF_H_

#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static inline float float_from_bfloat16(uint16_t b) {
    return float_from_bits((uint32_t)b << 16);
}

/* Round to nearest even, in the integer picture of the float. */
static inline uint16_t bfloat16_from_float(float f) {
    uint32_t bits = bits_of_float(f);
    if (f != f) {
        return (uint16_t)((bits >> 16) | 0x40);
    }
    return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static inline float float_from_float16(uint16_t h) {
    int exponent = (h >> 10) & 0x1F;
    int fraction = h & 0x3FF;
    float magnitude;
    if (exponent == 0x1F) {
        magnitude = fraction != 0 ? float_from_bits(0x7FC00000) : float_from_bits(0x7F800000);
    } else if (exponent == 0) {
        magnitude = (float)fraction * 0x1p-24F;
    } else {
        magnitude = (float)(fraction + 0x400) * float_from_bits((uint32_t)(exponent + 102) << 23);
    }
    return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

/* value is not negative: its integer nearest to value * 2^24 / 2^k, where k makes it fit the
 * format. */
static inline uint16_t float16_magnitude(float value) {
    if (value >= 65520.0F) {
        return 0x7C00;
    }
    if (value < 0x1p-14F) { /* subnormal: units of 2^-24; a carry gives the smallest normal */
        float units = value * 0x1p24F;
        uint16_t whole = (uint16_t)units;
        float rest = units - (float)whole;
        return (uint16_t)(whole + (rest > 0.5F || (rest == 0.5F && (whole & 1)) ? 1 : 0));
    }
    uint32_t bits = bits_of_float(value);
    bits += 0xFFF + ((bits >> 13) & 1);
    return (uint16_t)((bits >> 13) - ((127 - 15) << 10));
}

static inline uint16_t float16_from_float(float f) {
    if (f != f) {
        return 0x7E00;
    }
    uint16_t sign = (uint16_t)((bits_of_float(f) >> 16) & 0x8000);
    return (uint16_t)(sign | float16_magnitude(f < 0 ? -f : f));
}

#endif
