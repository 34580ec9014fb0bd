/* dose.h: how much of a long test every run of all tests does. HEDDLE_STRESS_SCALE=100 is for
 * before a release. */
#ifndef TESTS_DOSE_H_
#define TESTS_DOSE_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
enum { DOSE_SANITIZED = 1 };
#else
enum { DOSE_SANITIZED = 0 };
#endif

#if defined(__SANITIZE_THREAD__)
enum { DOSE_FINDS_RACES = 1 };
#else
enum { DOSE_FINDS_RACES = 0 };
#endif

static inline bool dose_is_full(void) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    return text != NULL && atoi(text) >= 100;
}

/* Whether cases run that differ from others in their data and places, but take the same steps:
 * ThreadSanitizer, which is slow, would find no race in them that it does not find in the others. */
static inline bool dose_has_variants(void) {
    return !DOSE_FINDS_RACES || dose_is_full();
}

/* Of what is numbered, each so manieth is tested, beginning at a number that other cases do not
 * begin at. Usually `usual`, and `sanitized` where a sanitizer makes it slow; with
 * HEDDLE_STRESS_SCALE=100: 1. */
static inline uint32_t dose_step(uint32_t usual, uint32_t sanitized) {
    return dose_is_full() ? 1 : DOSE_SANITIZED ? sanitized : usual;
}

#endif
