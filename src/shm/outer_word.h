/* outer_word.h: the word of an exchange that says who may act for it from outside; outer.h has its
 * protocol. */
#ifndef HD_SHM_OUTER_WORD_H
#define HD_SHM_OUTER_WORD_H

#include "shm/outer.h"

#define HD_OUTER_CLOSED    ((uint64_t)1)
#define HD_OUTER_RELEASED  ((uint64_t)2)
#define HD_OUTER_INSIDE    ((uint64_t)4)
#define HD_OUTER_KEY_SHIFT 16

_Static_assert((uint64_t)1 << HD_OUTER_KEY_SHIFT == HD_OUTER_INSIDE << 14,
               "the counter lies below the key");

static inline bool hd_outer_has_key(uint64_t word, uint64_t key) {
    return word >> HD_OUTER_KEY_SHIFT == key;
}

static inline uint32_t hd_outer_count_inside(uint64_t word) {
    return (uint32_t)((word & (((uint64_t)1 << HD_OUTER_KEY_SHIFT) - 1)) / HD_OUTER_INSIDE);
}

#endif
