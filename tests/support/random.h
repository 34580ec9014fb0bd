/* random.h: seeded random numbers (splitmix64), the same on every machine. */
#ifndef TESTS_RANDOM_H_
#define TESTS_RANDOM_H_

#include <stddef.h>
#include <stdint.h>

/* state is a uint64_t; void * so that it fits reference_random_element(). */
static inline uint64_t random_next(void *state) {
    uint64_t z = (*(uint64_t *)state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* 0 <= result < limit */
static inline uint64_t random_below(uint64_t *state, uint64_t limit) {
    return limit == 0 ? 0 : random_next(state) % limit;
}

/* Whole words; n is a multiple of 8 and bytes is aligned to 8. */
static inline void random_fill(uint64_t *state, void *bytes, size_t n) {
    for (size_t i = 0; i < n / sizeof(uint64_t); i++) {
        ((uint64_t *)bytes)[i] = random_next(state);
    }
}

#endif
