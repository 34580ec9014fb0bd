/* far_memory.c: windows, and what a process keeps of an exchange that uses them (far.h): where they
 * lie in a mapping, and who has which.
 */
#include "shm/far.h"

/* --- windows ---------------------------------------------------------------------------------- */

enum { SETS = 4 };

/* Shared: bit s: set s is in use. */
typedef struct pool {
    alignas(HD_LINE) _Atomic uint32_t used;
} pool_t;

typedef struct layout {
    size_t pool, words, in, out, pair, set, bytes; /* of set 0; they stand `set` from each other */
    uint32_t rings;                                /* of a set */
} layout_t;

/* For n members by so many mappings. */
static layout_t lay_out(uint32_t n, uint32_t mappings) {
    size_t at = 0, pairs = (size_t)mappings * mappings;
    layout_t l = {.rings = (uint32_t)(n + mappings + pairs)};
    l.pool = hd_mapping_place(&at, sizeof(pool_t), HD_LINE_PAIR);
    size_t begins = hd_mapping_place(&at, 0, 4096);
    l.words =
        hd_mapping_place(&at, (size_t)l.rings * HD_FAR_WINDOWS * sizeof(hd_window_t), HD_LINE_PAIR);
    l.in = hd_mapping_place(&at, (size_t)n * HD_FAR_WINDOWS * HD_FAR_LARGEST, 4096);
    l.out = hd_mapping_place(&at, (size_t)mappings * HD_FAR_WINDOWS * HD_FAR_LARGEST, 4096);
    l.pair = hd_mapping_place(&at, pairs * HD_FAR_WINDOWS * HD_FAR_PIECE, 4096);
    l.set = hd_mapping_place(&at, 0, 4096) - begins;
    l.bytes = begins + SETS * l.set;
    return l;
}

size_t hd_far_bytes(uint32_t n, uint32_t mappings) {
    return mappings <= HD_FAR_MOST ? lay_out(n, mappings).bytes : 0;
}

/* --- an exchange, as one process sees it ------------------------------------------------------ */

static hd_far_t *create(uint32_t n) {
    hd_far_t *far = hd_alloc(HD_LINE_PAIR, sizeof(*far));
    uint32_t *numbers = hd_alloc(HD_LINE, 9 * (size_t)n * sizeof(*numbers));
    void **pointers = hd_alloc(HD_LINE, (3 + 2 * HD_FAR_WINDOWS) * (size_t)n * sizeof(*pointers));
    if (!far || !numbers || !pointers) {
        hd_free(far);
        hd_free(numbers);
        hd_free(pointers);
        return NULL;
    }
    uint32_t **const list[] = {&far->process,  &far->mapping, &far->member,
                               &far->executor, &far->rank,    &far->own,
                               &far->other,    &far->share,   &far->number};
    for (uint32_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        *list[i] = numbers + i * (size_t)n;
    }
    far->work = (hd_work_t){.src = (const void **)pointers,
                            .dst = pointers + n,
                            .call = (const hd_call_t **)(void *)(pointers + 2 * (size_t)n)};
    far->source = (const void **)pointers + 3 * (size_t)n;
    far->target = pointers + (3 + HD_FAR_WINDOWS) * (size_t)n;
    far->n = n;
    return far;
}

void hd_far_free(hd_far_t *far) {
    if (far) {
        hd_free(far->process);
        hd_free(far->feeds);
        hd_free((void *)far->work.src);
        hd_free(far);
    }
}

void hd_far_reset(hd_far_t *far) {
    if (far) {
        far->closed = 0;
        /* relaxed: nobody is in an exchange of the board */
        atomic_store_explicit(&far->prepared, 0, memory_order_relaxed);
    }
}

hd_far_t *hd_far_of(const hd_op_t *op) {
    /* acquire: pairs with the CAS below */
    return atomic_load_explicit(&op->slot->far, memory_order_acquire);
}

hd_far_t *hd_far_install(const hd_op_t *op) {
    hd_far_t *far = hd_far_of(op), *mine = far ? NULL : create(op->place.n);
    if (!mine) {
        return far;
    }
    /* acq_rel: publishes the arrays, or takes the winner's */
    if (atomic_compare_exchange_strong_explicit(&op->slot->far, &far, mine, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return mine;
    }
    hd_far_free(mine);
    return far;
}

static layout_t layout_of(const hd_op_t *op) {
    return lay_out(op->group->n, op->group->mapping.n);
}

static hd_window_place_t window_at(const hd_op_t *op, const hd_far_t *far, uint32_t ring,
                                   size_t data, size_t bytes, uint32_t use) {
    layout_t l = layout_of(op);
    uint8_t *base = op->group->far + far->set * l.set;
    uint32_t w = use % HD_FAR_WINDOWS;
    return (hd_window_place_t){(hd_window_t *)(void *)(base + l.words) +
                                   (size_t)ring * HD_FAR_WINDOWS + w,
                               base + data + w * bytes};
}

hd_window_place_t hd_far_in_window(const hd_op_t *op, const hd_far_t *far, uint32_t m,
                                   uint32_t use) {
    uint32_t member = far->number[m];
    size_t data = layout_of(op).in + (size_t)member * HD_FAR_WINDOWS * HD_FAR_LARGEST;
    return window_at(op, far, member, data, HD_FAR_LARGEST, use);
}

hd_window_place_t hd_far_out_window(const hd_op_t *op, const hd_far_t *far, uint32_t p,
                                    uint32_t use) {
    uint32_t mapping = far->mapping[p];
    size_t data = layout_of(op).out + (size_t)mapping * HD_FAR_WINDOWS * HD_FAR_LARGEST;
    return window_at(op, far, op->group->n + mapping, data, HD_FAR_LARGEST, use);
}

/* From process p to process q. */
hd_window_place_t hd_far_pair_window(const hd_op_t *op, const hd_far_t *far, uint32_t p, uint32_t q,
                                     uint32_t use) {
    uint32_t mappings = op->group->mapping.n, pair = far->mapping[p] * mappings + far->mapping[q];
    size_t data = layout_of(op).pair + (size_t)pair * HD_FAR_WINDOWS * HD_FAR_PIECE;
    return window_at(op, far, op->group->n + mappings + pair, data, HD_FAR_PIECE, use);
}

/* --- sets ------------------------------------------------------------------------------------- */

static pool_t *pool_of(const hd_op_t *op) {
    return (pool_t *)(void *)(op->group->far + layout_of(op).pool);
}

/* A set that nobody has, now mine; its counts are 0. HD_FAR_NONE: there is none. */
static uint32_t grab(const hd_op_t *op) {
    layout_t l = layout_of(op);
    _Atomic uint32_t *used = &pool_of(op)->used;
    uint32_t before = atomic_load_explicit(used, memory_order_relaxed), set; /* a guess */
    do {
        set = (uint32_t)__builtin_ctz(~before);
        if (set >= SETS) {
            return HD_FAR_NONE;
        }
        /* acquire: those who had it have done all they do there; pairs with give_back */
    } while (!atomic_compare_exchange_weak_explicit(used, &before, before | UINT32_C(1) << set,
                                                    memory_order_acquire, memory_order_relaxed));
    hd_window_t *word = (hd_window_t *)(void *)(op->group->far + set * l.set + l.words);
    for (size_t i = 0; i < (size_t)l.rings * HD_FAR_WINDOWS; i++) {
        /* relaxed, both: published with exchange->far. Most were never used: they are only read */
        if (atomic_load_explicit(&word[i].filled, memory_order_relaxed)) {
            atomic_store_explicit(&word[i].filled, 0, memory_order_relaxed);
            atomic_store_explicit(&word[i].emptied, 0, memory_order_relaxed);
        }
    }
    return set;
}

void hd_far_give_back(const hd_op_t *op, uint32_t set) {
    /* release: what was done there, by all who finished a slice; pairs with grab */
    atomic_fetch_and_explicit(&pool_of(op)->used, ~(UINT32_C(1) << set), memory_order_release);
}

/* The exchange's set; HD_FAR_NONE: it has none, and none is free. */
uint32_t hd_far_set_of(const hd_op_t *op) {
    /* acquire: pairs with the CAS below */
    uint64_t set = atomic_load_explicit(&op->exchange->far, memory_order_acquire);
    if (set) {
        return (uint32_t)set - 1;
    }
    uint32_t mine = grab(op);
    /* acq_rel: the counts, or those of who was first */
    if (mine != HD_FAR_NONE &&
        !atomic_compare_exchange_strong_explicit(&op->exchange->far, &set, (uint64_t)mine + 1,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        hd_far_give_back(op, mine);
        mine = (uint32_t)set - 1;
    }
    return mine;
}
