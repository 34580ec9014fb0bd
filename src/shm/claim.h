/* claim.h: the words by which units of work are claimed and finished; engine.c says what they mean.
 */
#ifndef HD_SHM_CLAIM_H
#define HD_SHM_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#define HD_CLAIM_CLOSED ((uint64_t)1 << 31) /* in a claim word: no unit is claimed any more */

#define HD_CLAIM_NEXT (HD_CLAIM_CLOSED - 1) /* below it: the next unit */

/* What words carry of an exchange's number, in their upper halves. */
static inline uint64_t hd_generation(uint64_t k) {
    return k << 32;
}

static inline bool hd_is_generation(uint64_t word, uint64_t generation) {
    return (word & ~(uint64_t)UINT32_MAX) == generation;
}

#endif
