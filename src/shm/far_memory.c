/* far_memory.c: windows, and what a process keeps of an exchange that uses them (far.h): where they
 * lie in a mapping, and who has which.
 */
#include "shm/far.h"

/* --- windows ---------------------------------------------------------------------------------- */

/* Of a group: so many from the beginning, and more if so many exchanges are under way at once. */
enum { SETS = 4, MOST_SETS = 64 };

/* Shared. */
typedef struct pool {
    alignas(HD_LINE) _Atomic uint64_t used; /* bit s: set s is in use */
    /* By set, whose user alone touches it: how far from the mapping's base it lies, 0: nowhere yet;
     * and how often it was taken, which tells whose counts its windows have. */
    struct {
        uint64_t at;
        uint32_t epoch;
    } set[MOST_SETS];
} pool_t;

/* For n members by so many mappings. */
typedef struct layout {
    size_t in, out, pair, set; /* in a set, and how large that is */
    size_t first, bytes;       /* behind the pool: the first set; all that there is */
} layout_t;

static layout_t lay_out(uint32_t n, uint32_t mappings) {
    size_t at = 0, pairs = (size_t)mappings * mappings, all = sizeof(pool_t);
    size_t rings = n + mappings + pairs;
    layout_t l;
    hd_mapping_place(&at, rings * HD_FAR_WINDOWS * sizeof(hd_window_t), HD_LINE_PAIR);
    l.in = hd_mapping_place(&at, (size_t)n * HD_FAR_WINDOWS * HD_FAR_LARGEST, 4096);
    l.out = hd_mapping_place(&at, (size_t)mappings * HD_FAR_WINDOWS * HD_FAR_LARGEST, 4096);
    l.pair = hd_mapping_place(&at, pairs * HD_FAR_WINDOWS * hd_far_pair_bytes(mappings), 4096);
    l.set = hd_mapping_place(&at, 0, 4096);
    l.first = hd_mapping_place(&all, SETS * l.set, 4096);
    l.bytes = all;
    return l;
}

size_t hd_far_bytes(uint32_t n, uint32_t mappings) {
    return mappings <= HD_FAR_MOST ? lay_out(n, mappings).bytes : 0;
}

/* --- an exchange, as one process sees it ------------------------------------------------------ */

static hd_far_t *create(uint32_t n) {
    hd_far_t *far = hd_alloc(HD_LINE_PAIR, sizeof(*far));
    uint32_t *numbers = hd_alloc(HD_LINE, 12 * (size_t)n * sizeof(*numbers));
    void **pointers = hd_alloc(HD_LINE, 4 * (size_t)n * sizeof(*pointers));
    uint64_t *vectors = hd_alloc(HD_LINE, n * sizeof(*vectors));
    if (!far || !numbers || !pointers || !vectors) {
        hd_free(vectors);
        hd_free(far);
        hd_free(numbers);
        hd_free(pointers);
        return NULL;
    }
    uint32_t **const list[] = {&far->process, &far->mapping, &far->member, &far->executor,
                               &far->rank,    &far->own,     &far->other,  &far->share,
                               &far->number,  &far->direct,  &far->pulled, &far->pulling};
    for (uint32_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        *list[i] = numbers + i * (size_t)n;
    }
    far->work = (hd_work_t){.src = (const void **)pointers,
                            .dst = pointers + n,
                            .call = (const hd_call_t **)(void *)(pointers + 2 * (size_t)n)};
    far->scratch = (void ***)(void *)(pointers + 3 * (size_t)n);
    far->vectors = vectors;
    far->n = n;
    return far;
}

void hd_far_free(hd_far_t *far) {
    if (far) {
        for (uint32_t i = 0; i < far->n; i++) {
            hd_free((void *)far->scratch[i]);
        }
        hd_free(far->process);
        hd_free(far->pairs);
        hd_free(far->shown);
        hd_free(far->vectors);
        hd_free((void *)far->work.src);
        hd_free(far);
    }
}

hd_far_t *hd_far_of(const hd_op_t *op) {
    /* acquire: pairs with the CAS below */
    return atomic_load_explicit(&op->slot->far, memory_order_acquire);
}

hd_far_t *hd_far_install(const hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op)) {
    hd_far_t *far = hd_far_of(op), *mine = far ? NULL : create(op->place.n);
    if (!mine) {
        return far;
    }
    mine->arrived = arrived;
    /* acq_rel: publishes the arrays, or takes the winner's */
    if (atomic_compare_exchange_strong_explicit(&op->slot->far, &far, mine, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return mine;
    }
    hd_far_free(mine);
    return far;
}

/* Window `use` of a ring whose data lie there in the set. */
static hd_window_place_t window_at(const hd_far_t *far, size_t ring, size_t data, size_t bytes,
                                   uint32_t use) {
    uint32_t w = use % HD_FAR_WINDOWS;
    hd_window_t *word = (hd_window_t *)(void *)far->base;
    return (hd_window_place_t){word + ring * HD_FAR_WINDOWS + w, far->base + data + w * bytes};
}

hd_window_place_t hd_far_in_window(const hd_far_t *far, uint32_t m, uint32_t use) {
    size_t member = far->number[m], bytes = HD_FAR_LARGEST;
    return window_at(far, member, far->in + member * HD_FAR_WINDOWS * bytes, bytes, use);
}

hd_window_place_t hd_far_out_window(const hd_op_t *op, const hd_far_t *far, uint32_t p,
                                    uint32_t use) {
    size_t mapping = far->mapping[p], bytes = HD_FAR_LARGEST;
    return window_at(far, op->group->n + mapping, far->out + mapping * HD_FAR_WINDOWS * bytes,
                     bytes, use);
}

hd_window_place_t hd_far_pair_window(const hd_op_t *op, const hd_far_t *far, uint32_t p, uint32_t q,
                                     uint32_t use) {
    uint32_t mappings = op->group->mapping.n;
    size_t bytes = hd_far_pair_bytes(mappings);
    size_t pair = (size_t)far->mapping[p] * mappings + far->mapping[q];
    return window_at(far, op->group->n + mappings + pair, far->pair + pair * HD_FAR_WINDOWS * bytes,
                     bytes, use);
}

/* --- sets ------------------------------------------------------------------------------------- */

/* Where a set lies, which is mine, from the mapping's base; 0: there is no memory for it. */
static uint64_t place_of(hd_group_t *group, const layout_t *l, uint32_t set) {
    pool_t *pool = (pool_t *)(void *)group->far;
    uint64_t *at = &pool->set[set].at;
    if (!*at) {
        /* those that there are do: what is left is for boards, too, which nothing replaces */
        uint8_t *base = set < SETS                         ? group->far + l->first + set * l->set
                        : hd_mapping_spares(group, l->set) ? hd_mapping_give(group, l->set)
                                                           : NULL;
        *at = base ? (uint64_t)(base - group->mapping.base) : 0;
    }
    return *at;
}

static void give_back(hd_group_t *group, uint32_t set) {
    pool_t *pool = (pool_t *)(void *)group->far;
    /* release: what was done there, by all who finished a slice; pairs with grab */
    atomic_fetch_and_explicit(&pool->used, ~(UINT64_C(1) << set), memory_order_release);
}

/* A set that nobody has, now mine, for what has not been in it yet. HD_FAR_NONE: there is none. */
static uint32_t grab(hd_group_t *group, const layout_t *l) {
    pool_t *pool = (pool_t *)(void *)group->far;
    uint64_t before = atomic_load_explicit(&pool->used, memory_order_relaxed); /* a guess */
    uint32_t set;
    do {
        if (before == UINT64_MAX) {
            return HD_FAR_NONE;
        }
        set = (uint32_t)__builtin_ctzll(~before);
        /* acquire: those who had it have done all they do there; pairs with give_back */
    } while (!atomic_compare_exchange_weak_explicit(&pool->used, &before,
                                                    before | UINT64_C(1) << set,
                                                    memory_order_acquire, memory_order_relaxed));
    if (!place_of(group, l, set)) {
        give_back(group, set);
        return HD_FAR_NONE;
    }
    pool->set[set].epoch++;
    return set;
}

/* exchange->far is (epoch:32 | set + 1). */
static uint64_t word_of(hd_group_t *group, uint32_t set) {
    const pool_t *pool = (const pool_t *)(const void *)group->far;
    return (uint64_t)pool->set[set].epoch << 32 | (set + 1);
}

bool hd_far_take_set(const hd_op_t *op, hd_far_t *far) {
    hd_group_t *group = op->group;
    layout_t l = lay_out(group->n, group->mapping.n);
    /* acquire: pairs with the CAS below */
    uint64_t word = atomic_load_explicit(&op->exchange->far, memory_order_acquire);
    uint32_t mine = word ? HD_FAR_NONE : grab(group, &l);
    if (mine != HD_FAR_NONE) {
        uint64_t new = word_of(group, mine);
        /* acq_rel: where it lies, or what who was first has */
        if (atomic_compare_exchange_strong_explicit(&op->exchange->far, &word, new,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            word = new;
        } else {
            give_back(group, mine);
            hd_bell_ring(&group->home.bell); /* somebody may wait for a set */
        }
    }
    if (!word) {
        return false;
    }
    far->set = (uint32_t)word - 1;
    far->epoch = word >> 32 << 32;
    far->base = group->mapping.base + place_of(group, &l, far->set);
    far->in = l.in;
    far->out = l.out;
    far->pair = l.pair;
    return true;
}

void hd_far_give_set(const hd_op_t *op, const hd_far_t *far) {
    /* relaxed: whoever uses the slot next has seen the end line */
    atomic_store_explicit(&op->exchange->far, 0, memory_order_relaxed);
    give_back(op->group, far->set);
}
