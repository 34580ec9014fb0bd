/* ordinals.h: how often something has been done under a label: exchanges that were opened
 * (match.c), teams that were made of a list (form/meet.c). The processes of a team agree on these
 * counts without asking each other.
 */
#ifndef HD_SHM_ORDINALS_H
#define HD_SHM_ORDINALS_H

#include "shm/shm.h"

/* What an exchange is found by. */
typedef struct hd_match_label {
    hd_match_class_t class;
    uint64_t key;
    hd_subset_t subset; /* n is 0: all endpoints */
} hd_match_label_t;

static inline bool hd_match_same(const hd_match_label_t *a, const hd_match_label_t *b) {
    return a->class == b->class && a->key == b->key && a->subset.n == b->subset.n &&
           a->subset.start == b->subset.start && a->subset.stride == b->subset.stride;
}

static inline uint64_t hd_match_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static inline uint64_t hd_match_hash(const hd_match_label_t *label) {
    uint64_t hash = hd_match_mix(label->key, (uint64_t)label->class);
    if (label->subset.n) {
        hash = hd_match_mix(hash, label->subset.start);
        hash = hd_match_mix(hash, (uint64_t)label->subset.stride);
    }
    return hash;
}

/* Its user's lock guards it; all zero: nothing counted yet. */
typedef struct hd_ordinals {
    struct hd_ordinal *slot; /* a power of two of them, of which half are used at most */
    uint32_t n_slots, used;
} hd_ordinals_t;

/* Counts this label once more: how often that is now; 0: no memory (logged). */
uint64_t hd_ordinals_next(hd_ordinals_t *ordinals, const hd_match_label_t *label);
void hd_ordinals_end(hd_ordinals_t *ordinals);

#endif
