/*
 * Trees over the endpoints of a group: see tree.h.
 *
 * A builder collects, level by level, where each block begins; how it cuts a level is all that the
 * two kinds of trees differ in. The finished levels are then packed into one allocation.
 *
 * By topology, the endpoints are first sorted by (package, NUMA node, L3, core, hardware thread),
 * so that every domain is a contiguous run at every level. A level is then cut by descending from
 * the machine into its domains: where all children of a domain hold a single item, these items are
 * joined; elsewhere each child is cut on its own, and a child with a single item passes it through.
 * That is exactly the rule that no block crosses a border which it could have stayed below.
 */
#include "core/tree.h"
#include "core/debug.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"

/* Domains that blocks respect, from the outside in. Cores only sort and shape the cuts. */
static const hd_topo_level_t stages[] = {HD_TOPO_PACKAGE, HD_TOPO_NUMA, HD_TOPO_L3};
enum {
    N_STAGES = sizeof(stages) / sizeof(stages[0]),
    FEW_READERS = 16 /* of one line */
};

/* The levels built so far, as one array: level after level, the first item of each block. */
typedef struct builder {
    uint32_t *begin;
    size_t used, capacity;
    uint32_t n_levels;
    size_t level_begin[HD_TREE_MAX_LEVELS + 1]; /* index into begin, per level and one past */
} builder_t;

static ucc_status_t builder_push(builder_t *builder, uint32_t item) {
    if (builder->used == builder->capacity) {
        size_t capacity = builder->capacity == 0 ? 64 : 2 * builder->capacity;
        uint32_t *grown = hd_alloc(HD_LINE, capacity * sizeof(*grown));

        if (grown == NULL) {
            hd_error("no memory for a tree of %zu blocks", capacity);
            return UCC_ERR_NO_MEMORY;
        }
        if (builder->used > 0) {
            memcpy(grown, builder->begin, builder->used * sizeof(*grown));
        }
        hd_free(builder->begin);
        builder->begin = grown;
        builder->capacity = capacity;
    }
    builder->begin[builder->used++] = item;
    return UCC_OK;
}

static ucc_status_t builder_next_level(builder_t *builder) {
    if (builder->n_levels == HD_TREE_MAX_LEVELS) {
        hd_error("a tree of more than %d levels", HD_TREE_MAX_LEVELS);
        return UCC_ERR_NOT_SUPPORTED;
    }
    builder->level_begin[builder->n_levels] = builder->used;
    return UCC_OK;
}

static uint32_t builder_end_level(builder_t *builder) {
    size_t n_blocks = builder->used - builder->level_begin[builder->n_levels];

    builder->n_levels++;
    builder->level_begin[builder->n_levels] = builder->used;
    return (uint32_t)n_blocks;
}

/* Fills one level's arrays at `storage`; returns what follows them. */
static uint32_t *pack_level(hd_tree_level_t *level, const uint32_t *begin, uint32_t n_items,
                            uint32_t *storage) {
    level->first = storage;
    level->start = level->first + level->n_blocks + 1;
    level->parent = level->start + level->n_blocks + 1;
    memcpy(level->first, begin, level->n_blocks * sizeof(*begin));
    level->first[level->n_blocks] = n_items;
    level->line = level->parent + level->n_blocks; /* zeroed: none */
    return level->line + level->n_blocks;
}

/* below: the starts of its items; NULL: they are endpoints. */
static void fill_starts(const hd_tree_level_t *level, const uint32_t *below) {
    for (uint32_t b = 0; b <= level->n_blocks; b++) {
        level->start[b] = below ? below[level->first[b]] : level->first[b];
    }
}

/* Which block of `level` holds each of its items. */
static void fill_holders(const hd_tree_level_t *level, uint32_t *holder) {
    for (uint32_t b = 0; b < level->n_blocks; b++) {
        for (uint32_t i = level->first[b]; i < level->first[b + 1]; i++) {
            holder[i] = b;
        }
    }
}

/* Makes the tree of the builder's levels; its order is the identity. */
static ucc_status_t builder_pack(const builder_t *builder, uint32_t n, hd_tree_t **out) {
    size_t words = 2 * (size_t)n + 4 * builder->used + 2 * (size_t)builder->n_levels;
    hd_tree_t *tree = hd_alloc(HD_LINE, sizeof(*tree) + words * sizeof(uint32_t));

    if (tree == NULL) {
        hd_error("no memory for a tree over %" PRIu32 " endpoints", n);
        return UCC_ERR_NO_MEMORY;
    }
    tree->n_endpoints = n;
    tree->n_levels = builder->n_levels;
    tree->n_slots = (uint32_t)builder->used;
    tree->order = (uint32_t *)(tree + 1);
    tree->leaf = tree->order + n;

    uint32_t *storage = tree->leaf + n;
    uint32_t n_items = n;
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        hd_tree_level_t *level = &tree->level[l];
        size_t begin = builder->level_begin[l];

        level->n_blocks = (uint32_t)(builder->level_begin[l + 1] - begin);
        level->first_slot = (uint32_t)begin;
        storage = pack_level(level, builder->begin + begin, n_items, storage);
        n_items = level->n_blocks;
        fill_starts(level, l > 0 ? tree->level[l - 1].start : NULL);
        if (l > 0) {
            fill_holders(level, tree->level[l - 1].parent);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        tree->order[i] = i;
    }
    fill_holders(&tree->level[0], tree->leaf);
    *out = tree;
    return UCC_OK;
}

ucc_status_t hd_tree_by_number(uint32_t n, hd_tree_t **out) {
    builder_t builder = {0};
    ucc_status_t status;
    uint32_t items = n;

    if (n == 0) {
        hd_error("a tree over no endpoints");
        return UCC_ERR_INVALID_PARAM;
    }
    do {
        status = builder_next_level(&builder);
        /* 64 bits: the last step may pass the end of 32 */
        for (uint64_t i = 0; i < items && status == UCC_OK; i += HD_TREE_FANIN) {
            status = builder_push(&builder, (uint32_t)i);
        }
        if (status != UCC_OK) {
            goto done;
        }
        items = builder_end_level(&builder);
    } while (items > 1);
    status = builder_pack(&builder, n, out);
done:
    hd_free(builder.begin);
    return status;
}

/* What cutting a level by topology looks at. */
typedef struct cutter {
    builder_t *builder;
    const hd_locality_t *loc;
    const uint32_t *order; /* position -> endpoint */
    const uint32_t *head;  /* item of the current level -> position of its first endpoint */
    uint32_t fan_in;
    bool keep_cores; /* cut between cores where possible: pays at the leaves only */
} cutter_t;

static const hd_locality_t *item_locality(const cutter_t *cutter, uint32_t item) {
    return &cutter->loc[cutter->order[cutter->head[item]]];
}

static bool same_core(const cutter_t *cutter, uint32_t a, uint32_t b) {
    int32_t core = item_locality(cutter, a)->core;
    return core >= 0 && core == item_locality(cutter, b)->core;
}

/* Moves a cut out of the middle of a core if a neighbouring border gives a block of legal size. */
static uint32_t cut_between_cores(const cutter_t *cutter, uint32_t low, uint32_t cut,
                                  uint32_t high) {
    uint32_t up = cut, down = cut;
    uint32_t limit = high - low < cutter->fan_in ? high : low + cutter->fan_in;

    while (up < limit && same_core(cutter, up - 1, up)) {
        up++;
    }
    if (up == high || !same_core(cutter, up - 1, up)) {
        return up;
    }
    while (down > low && same_core(cutter, down - 1, down)) {
        down--;
    }
    return down > low ? down : cut;
}

/* Blocks of nearly equal size over the items low..high-1, of which none is preferred. */
static ucc_status_t cut_evenly(const cutter_t *cutter, uint32_t low, uint32_t high) {
    while (low < high) {
        uint32_t left = high - low;
        uint32_t n_blocks = left / cutter->fan_in + (left % cutter->fan_in != 0);
        uint32_t size = left / n_blocks + (left % n_blocks != 0);
        ucc_status_t status = builder_push(cutter->builder, low);

        if (status != UCC_OK) {
            return status;
        }
        low = size < left && cutter->keep_cores ? cut_between_cores(cutter, low, low + size, high)
                                                : low + size;
    }
    return UCC_OK;
}

/* Do two neighbouring items, which lie in one domain of the stage above, lie in one of this? */
static bool same_domain(const cutter_t *cutter, uint32_t a, uint32_t b, int stage) {
    return hd_locality_domain(item_locality(cutter, a), stages[stage]) ==
           hd_locality_domain(item_locality(cutter, b), stages[stage]);
}

static bool all_different(const cutter_t *cutter, uint32_t low, uint32_t high, int stage) {
    for (uint32_t i = low + 1; i < high; i++) {
        if (same_domain(cutter, i - 1, i, stage)) {
            return false;
        }
    }
    return true;
}

/* Cuts the items of one domain; `stage` is the kind of its children, N_STAGES if it has none. */
static ucc_status_t cut_domain(const cutter_t *cutter, uint32_t low, uint32_t high, int stage) {
    ucc_status_t status = UCC_OK;

    if (stage == N_STAGES || all_different(cutter, low, high, stage)) {
        return cut_evenly(cutter, low, high);
    }
    while (low < high && status == UCC_OK) {
        uint32_t end = low + 1;

        while (end < high && same_domain(cutter, low, end, stage)) {
            end++;
        }
        status = cut_domain(cutter, low, end, stage + 1);
        low = end;
    }
    return status;
}

typedef struct sort_entry {
    hd_locality_t loc;
    uint32_t endpoint;
} sort_entry_t;

static int compare_entries(const void *left, const void *right) {
    const sort_entry_t *a = left, *b = right;

    for (int level = HD_TOPO_PACKAGE; level <= HD_TOPO_PU; level++) {
        int32_t x = hd_locality_domain(&a->loc, (hd_topo_level_t)level);
        int32_t y = hd_locality_domain(&b->loc, (hd_topo_level_t)level);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return a->endpoint < b->endpoint ? -1 : a->endpoint > b->endpoint;
}

static ucc_status_t sort_by_locality(uint32_t n, const hd_locality_t *loc, uint32_t *order) {
    sort_entry_t *entries = hd_alloc(HD_LINE, n * sizeof(*entries));

    if (entries == NULL) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        entries[i] = (sort_entry_t){.loc = loc[i], .endpoint = i};
    }
    qsort(entries, n, sizeof(*entries), compare_entries);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = entries[i].endpoint;
    }
    hd_free(entries);
    return UCC_OK;
}

/* Cuts all levels. head is scratch of n entries, shrunk in place from level to level. */
static ucc_status_t cut_levels(cutter_t *cutter, uint32_t n, uint32_t *head) {
    builder_t *builder = cutter->builder;
    uint32_t items = n;

    do {
        ucc_status_t status = builder_next_level(builder);
        if (status == UCC_OK) {
            cutter->keep_cores = builder->n_levels == 0;
            status = cut_domain(cutter, 0, items, 0);
        }
        if (status != UCC_OK) {
            return status;
        }
        const uint32_t *begin = builder->begin + builder->level_begin[builder->n_levels];
        items = builder_end_level(builder);
        for (uint32_t b = 0; b < items; b++) {
            head[b] = head[begin[b]]; /* begin[b] >= b: never overwrites what is still to be read */
        }
    } while (items > 1);
    return UCC_OK;
}

/* Turns the tree of the identity order into that of `order`. */
static void apply_order(hd_tree_t *tree, const uint32_t *order, uint32_t *scratch) {
    for (uint32_t i = 0; i < tree->n_endpoints; i++) {
        tree->order[i] = order[i];
        scratch[order[i]] = tree->leaf[i];
    }
    memcpy(tree->leaf, scratch, tree->n_endpoints * sizeof(*scratch));
}

/* Positions of the endpoints below a block, and how many of the outermost stages they share. */
typedef struct span {
    uint32_t begin, end, shared;
} span_t;

static span_t span_of(const hd_tree_t *tree, const hd_locality_t *loc, uint32_t level, uint32_t b) {
    span_t span = {tree->level[level].start[b], tree->level[level].start[b + 1], 0};

    /* the order is sorted by domains: what first and last share, all share */
    const hd_locality_t *first = &loc[tree->order[span.begin]];
    const hd_locality_t *last = &loc[tree->order[span.end - 1]];
    while (span.shared < N_STAGES && hd_locality_domain(first, stages[span.shared]) ==
                                         hd_locality_domain(last, stages[span.shared])) {
        span.shared++;
    }
    return span;
}

/* Of block b: how many read one endpoint of its smallest item, which all others share. */
static uint32_t readers_in(const hd_tree_t *tree, uint32_t l, uint32_t b) {
    const hd_tree_level_t *level = &tree->level[l];
    uint32_t all = level->start[b + 1] - level->start[b], least = all;

    for (uint32_t i = level->first[b]; i < level->first[b + 1]; i++) {
        const uint32_t *start = l > 0 ? tree->level[l - 1].start : NULL;
        uint32_t size = start ? start[i + 1] - start[i] : 1;

        least = size < least ? size : least;
    }
    return (all - 1) / least;
}

uint32_t hd_tree_readers(const hd_tree_t *tree) {
    uint32_t most = 0;

    for (uint32_t l = 0; l < tree->n_levels; l++) {
        for (uint32_t b = 0; b < tree->level[l].n_blocks; b++) {
            uint32_t readers = readers_in(tree, l, b);

            most = readers > most ? readers : most;
        }
    }
    return most;
}

uint32_t hd_tree_readers_by_number(uint32_t n) {
    uint32_t most = n < HD_TREE_FANIN ? n - 1 : HD_TREE_FANIN - 1;

    /* 64 bits: the last step may pass the end of 32 */
    for (uint64_t size = HD_TREE_FANIN; size < n; size *= HD_TREE_FANIN) {
        /* of the last block, and of its last item */
        uint64_t block = (n - 1) % (size * HD_TREE_FANIN) + 1, item = (n - 1) % size + 1;
        uint32_t readers = (uint32_t)((block - 1) / item);

        most = block > size && readers > most ? readers : most;
    }
    return most;
}

uint32_t hd_tree_climb(const hd_tree_t *tree, const hd_locality_t *loc) {
    /* Of a line, by how many of the outermost stages reader and writer share: bench/model has the
     * times. A step reads one, which its writer first took from its readers: in twentieths; each
     * further one that is read with it takes two, and each further reader of it three. */
    static const uint32_t distance[N_STAGES + 1] = {5, 3, 2, 1};
    enum { A_STEP = 40, A_LINE = 2, A_READER = 3 };
    uint32_t sum = 0;

    for (uint32_t l = 0; l < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];
        uint32_t most = 0;

        for (uint32_t b = 0; b < level->n_blocks; b++) {
            uint32_t items = level->first[b + 1] - level->first[b];

            if (items > 1) {
                uint32_t lines = A_LINE * (items - 2), readers = A_READER * readers_in(tree, l, b);
                uint32_t takes = distance[span_of(tree, loc, l, b).shared] *
                                 (A_STEP + (lines > readers ? lines : readers));

                most = takes > most ? takes : most;
            }
        }
        sum += most;
    }
    return sum;
}

/* Decides which of the blocks below block b of level l + 1 have lines. Until then, their `line` is
 * how many read the line above where they have none, as this block's is from then on. */
static void mark_below(hd_tree_t *tree, const hd_locality_t *loc, uint32_t l, uint32_t b) {
    hd_tree_level_t *level = &tree->level[l], *up = &tree->level[l + 1];
    span_t above = span_of(tree, loc, l + 1, b);
    uint32_t all = 0, readers = 0;

    for (uint32_t i = up->first[b]; i < up->first[b + 1]; i++) {
        all += level->line[i];
    }
    for (uint32_t i = up->first[b]; i < up->first[b + 1]; i++) {
        span_t mine = span_of(tree, loc, l, i);
        uint32_t endpoints = mine.end - mine.begin;
        bool has = endpoints > 1 && endpoints < above.end - above.begin &&
                   (mine.shared > above.shared || all > FEW_READERS);

        readers += has ? 1 : level->line[i];
        level->line[i] = has;
        tree->n_lines += has;
    }
    up->line[b] = readers;
}

/* Gives lines of release to the blocks that need one: see tree.h. */
static void mark_lines(hd_tree_t *tree, const hd_locality_t *loc) {
    uint32_t top = tree->n_levels - 1;

    if (span_of(tree, loc, top, 0).shared >= N_STAGES - 1 && tree->n_endpoints <= FEW_READERS) {
        return; /* within one NUMA node, so few may as well read one line */
    }
    for (uint32_t b = 0; b < tree->level[0].n_blocks; b++) {
        tree->level[0].line[b] = tree->level[0].first[b + 1] - tree->level[0].first[b];
    }
    for (uint32_t l = 0; l < top; l++) {
        for (uint32_t b = 0; b < tree->level[l + 1].n_blocks; b++) {
            mark_below(tree, loc, l, b);
        }
    }
    tree->level[top].line[0] = 0;
}

hd_tree_release_t hd_tree_release(const hd_tree_t *tree, uint32_t me, uint32_t origin) {
    hd_assert_lt(me, tree->n_endpoints);
    hd_assert_lt(origin, tree->n_endpoints);
    hd_tree_release_t part = {HD_TREE_ORIGIN, 0};
    uint32_t b = tree->leaf[me], with_origin = tree->leaf[origin];
    bool leads = tree->order[tree->level[0].first[b]] == me; /* am I the first of the block? */

    if (tree->n_lines == 0) {
        return part;
    }
    for (uint32_t l = 0; b != with_origin; l++) {
        const hd_tree_level_t *level = &tree->level[l];

        if (level->line[b] && !leads) {
            part.from = hd_tree_slot(tree, l, b);
            return part;
        }
        if (level->line[b]) {
            part.relays = l + 1;
        }
        leads = leads && tree->level[l + 1].first[level->parent[b]] == b;
        b = level->parent[b];
        with_origin = level->parent[with_origin];
    }
    return part;
}

ucc_status_t hd_tree_by_topology(uint32_t n, const hd_locality_t *loc, uint32_t fan_in,
                                 hd_tree_t **out) {
    if (n == 0 || fan_in < 2) {
        hd_error("a tree over %" PRIu32 " endpoints with fan-in %" PRIu32, n, fan_in);
        return UCC_ERR_INVALID_PARAM;
    }
    uint32_t *order = hd_alloc(HD_LINE, 2 * (size_t)n * sizeof(*order));
    if (order == NULL) {
        hd_error("no memory to sort %" PRIu32 " endpoints", n);
        return UCC_ERR_NO_MEMORY;
    }
    builder_t builder = {0};
    uint32_t *head = order + n;
    cutter_t cutter = {
        .builder = &builder, .loc = loc, .order = order, .head = head, .fan_in = fan_in};

    ucc_status_t status = sort_by_locality(n, loc, order);
    for (uint32_t i = 0; i < n; i++) {
        head[i] = i;
    }
    if (status == UCC_OK) {
        status = cut_levels(&cutter, n, head);
    }
    if (status == UCC_OK) {
        status = builder_pack(&builder, n, out);
    }
    if (status == UCC_OK) {
        apply_order(*out, order, head); /* the heads have served: n entries of scratch */
        mark_lines(*out, loc);
    }
    hd_free(builder.begin);
    hd_free(order);
    return status;
}

void hd_tree_destroy(hd_tree_t *tree) {
    hd_free(tree);
}
