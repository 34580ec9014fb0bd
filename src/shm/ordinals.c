/* ordinals.c: see ordinals.h. Of exchanges: how many of each tag and active set a process has
 * opened. The processes of a team tell exchanges with one name apart by that. A count stays as long
 * as its group: whether a peer is done with the exchanges that were counted, nobody knows here. So
 * a team of several processes has 40 bytes, and up to as many again, for each tag and each active
 * set that was ever used on it.
 *
 * A hash table with open addressing. Who may call: the holder of the lock that guards it.
 */
#include "shm/ordinals.h"

#include "core/log.h"

enum { FIRST_SLOTS = 16 };

typedef struct hd_ordinal {
    uint64_t key, start;
    int64_t stride;
    uint32_t n;     /* of the active set; 0: all endpoints */
    uint32_t class; /* hd_match_class_t */
    uint64_t count; /* 0: the slot is free */
} ordinal_t;

static hd_match_label_t label_of(const ordinal_t *o) {
    return (hd_match_label_t){.class = (hd_match_class_t)o->class,
                              .key = o->key,
                              .subset = {.start = o->start, .stride = o->stride, .n = o->n}};
}

/* The label's slot, or the free one where it belongs. */
static ordinal_t *find(const hd_ordinals_t *ordinals, const hd_match_label_t *label) {
    uint32_t mask = ordinals->n_slots - 1;
    /* not the bits by which match.c has chosen a shard */
    uint32_t i = (uint32_t)(hd_match_hash(label) >> 32) & mask;
    for (; ordinals->slot[i].count; i = (i + 1) & mask) {
        hd_match_label_t other = label_of(&ordinals->slot[i]);
        if (hd_match_same(&other, label)) {
            break;
        }
    }
    return &ordinals->slot[i];
}

static bool make_room(hd_ordinals_t *ordinals) {
    if ((ordinals->used + 1) * 2 <= ordinals->n_slots) {
        return true;
    }
    hd_ordinals_t wider = {.n_slots = ordinals->n_slots ? ordinals->n_slots * 2 : FIRST_SLOTS,
                           .used = ordinals->used};
    wider.slot = hd_alloc(HD_LINE, wider.n_slots * sizeof(*wider.slot));
    if (!wider.slot) {
        hd_error("no memory to count %u tags, active sets or lists", ordinals->used + 1);
        return false;
    }
    for (uint32_t i = 0; i < ordinals->n_slots; i++) {
        if (ordinals->slot[i].count) {
            hd_match_label_t label = label_of(&ordinals->slot[i]);
            *find(&wider, &label) = ordinals->slot[i];
        }
    }
    hd_free(ordinals->slot);
    *ordinals = wider;
    return true;
}

uint64_t hd_ordinals_next(hd_ordinals_t *ordinals, const hd_match_label_t *label) {
    if (!make_room(ordinals)) {
        return 0;
    }
    ordinal_t *o = find(ordinals, label);
    if (!o->count) {
        ordinals->used++;
        *o = (ordinal_t){.key = label->key,
                         .start = label->subset.start,
                         .stride = label->subset.stride,
                         .n = label->subset.n,
                         .class = (uint32_t)label->class};
    }
    return ++o->count;
}

void hd_ordinals_end(hd_ordinals_t *ordinals) {
    hd_free(ordinals->slot);
    *ordinals = (hd_ordinals_t){0};
}
