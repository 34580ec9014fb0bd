/* cost.c: follows a collective through a group's trees; see model.h. */
#include "model.h"

#include <stdlib.h>

uint32_t distance_weight[N_DISTANCES] = {1, 2, 3, 5};

uint32_t path_length(const path_t *path) {
    uint32_t length = 0;
    for (int d = 0; d < N_DISTANCES; d++) {
        length += path->hops[d];
    }
    return length;
}

static uint32_t weight(const path_t *path) {
    uint32_t sum = 0;
    for (int d = 0; d < N_DISTANCES; d++) {
        sum += path->hops[d] * distance_weight[d];
    }
    return sum;
}

static void keep_longer(path_t *longest, const path_t *path) {
    if (weight(path) > weight(longest)) {
        *longest = *path;
    }
}

static distance_t distance(const hd_group_t *group, uint32_t a, uint32_t b) {
    const hd_locality_t *x = &group->locality[a], *y = &group->locality[b];
    if (x->package != y->package) {
        return ACROSS;
    }
    if (x->numa != y->numa) {
        return SAME_PACKAGE;
    }
    return x->l3 != y->l3 ? SAME_NODE : SAME_CACHE;
}

uint32_t packages_used(const hd_group_t *group) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < group->n; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i && first; j++) {
            first = group->locality[j].package != group->locality[i].package;
        }
        used += first;
    }
    return used;
}

/* `reader` reads what `writer` wrote at the end of `path`: the path to having it. */
static path_t read_line(const hd_group_t *group, cost_t *cost, uint32_t *across, path_t path,
                        uint32_t writer, uint32_t reader) {
    distance_t d = distance(group, writer, reader);
    path.hops[d]++;
    cost->transfers++;
    *across += d == ACROSS;
    return path;
}

static void *zeroed(size_t n, size_t bytes) {
    void *block = calloc(n, bytes);
    if (!block) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    return block;
}

/* First endpoint of item `item` of a level: of an endpoint's position, itself. */
static uint32_t first_endpoint(const hd_tree_t *tree, uint32_t level, uint32_t item) {
    while (level > 0) {
        item = tree->level[--level].first[item];
    }
    return tree->order[item];
}

/* --- up --------------------------------------------------------------------------------------- */

/* Static arrival: the path to the top block's being combined. */
static path_t arrive(const hd_group_t *group, const hd_tree_t *tree, cost_t *cost) {
    path_t *path = zeroed(tree->n_endpoints, sizeof(*path)); /* by item of the level */
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];
        for (uint32_t b = 0; b < level->n_blocks; b++) {
            uint32_t first = level->first[b], combiner = first_endpoint(tree, l, first);
            path_t longest = path[first];
            for (uint32_t i = first + 1; i < level->first[b + 1]; i++) {
                path_t one = read_line(group, cost, &cost->up, path[i], first_endpoint(tree, l, i),
                                       combiner);
                keep_longer(&longest, &one);
            }
            path[b] = longest; /* b <= first: not needed any more */
        }
    }
    path_t top = path[0];
    free(path);
    return top;
}

/* --- down ------------------------------------------------------------------------------------- */

typedef struct release {
    const hd_group_t *group;
    const hd_tree_t *tree;
    uint32_t origin;
    path_t start;      /* to the origin's knowing */
    uint32_t *readers; /* by slot; one past: of the origin's line */
    cost_t *cost;
} release_t;

/* Who writes the line of that slot; checks that it does. */
static uint32_t writer_of(const release_t *r, uint32_t slot) {
    uint32_t l = 0;
    while (l + 1 < r->tree->n_levels && r->tree->level[l + 1].first_slot <= slot) {
        l++;
    }
    uint32_t block = slot - r->tree->level[l].first_slot;
    uint32_t writer = first_endpoint(r->tree, l + 1, block);
    if (!r->tree->level[l].line[block] || hd_tree_release(r->tree, writer, r->origin).relays <= l) {
        r->cost->sound = false;
    }
    return writer;
}

/* The path to `me` being released. Counts its last transfer if `count`. */
static path_t released(const release_t *r, uint32_t me, bool count) {
    if (me == r->origin) {
        return r->start;
    }
    cost_t ignored = {.sound = true};
    cost_t *cost = count ? r->cost : &ignored;
    hd_tree_release_t part = hd_tree_release(r->tree, me, r->origin);
    bool direct = part.from == HD_TREE_ORIGIN;
    r->readers[direct ? r->tree->n_slots : part.from] += count;
    uint32_t writer = direct ? r->origin : writer_of(r, part.from);
    if (writer == me || !r->cost->sound) {
        r->cost->sound = false;
        return r->start;
    }
    path_t above = direct ? r->start : released(r, writer, false);
    return read_line(r->group, cost, &cost->down, above, writer, me);
}

static void release_all(const hd_group_t *group, uint32_t origin, path_t start, cost_t *cost) {
    const hd_tree_t *tree = group->board->tree[1];
    release_t r = {group, tree, origin, start, zeroed(tree->n_slots + 1, sizeof(uint32_t)), cost};
    cost->path = start;
    for (uint32_t i = 0; i < group->n; i++) {
        path_t path = released(&r, i, true);
        keep_longer(&cost->path, &path);
    }
    for (uint32_t slot = 0; slot <= tree->n_slots; slot++) {
        cost->readers = r.readers[slot] > cost->readers ? r.readers[slot] : cost->readers;
    }
    free(r.readers);
}

/* --- collectives ------------------------------------------------------------------------------ */

/* Everybody reads everybody (root == n), or the root. */
static cost_t cost_of_flat(const hd_group_t *group, uint32_t root) {
    cost_t cost = {.sound = true, .readers = group->n - 1};
    for (uint32_t writer = 0; writer < group->n; writer++) {
        for (uint32_t reader = 0; reader < group->n; reader++) {
            if (writer != reader && (root == group->n || writer == root)) {
                bool up = root == group->n && reader < writer;
                path_t path = read_line(group, &cost, up ? &cost.up : &cost.down, (path_t){{0}},
                                        writer, reader);
                keep_longer(&cost.path, &path);
            }
        }
    }
    return cost;
}

/* For all roots: the longest path, the most of everything. */
static cost_t cost_of_bcast(const hd_group_t *group) {
    cost_t worst = {.sound = true};
    for (uint32_t root = 0; root < group->n; root++) {
        cost_t cost = {.sound = true};
        if (group->board->tree[1]) {
            release_all(group, root, (path_t){{0}}, &cost);
        } else {
            cost = cost_of_flat(group, root);
        }
        keep_longer(&worst.path, &cost.path);
        worst.transfers = cost.transfers > worst.transfers ? cost.transfers : worst.transfers;
        worst.down = cost.down > worst.down ? cost.down : worst.down;
        worst.readers = cost.readers > worst.readers ? cost.readers : worst.readers;
        worst.sound = worst.sound && cost.sound;
    }
    return worst;
}

cost_t cost_of(const hd_group_t *group, collective_t collective) {
    if (collective == BCAST) {
        return cost_of_bcast(group);
    }
    /* synchronization arrives by topology, a reduction by the canonical tree */
    const hd_tree_t *tree = group->board->tree[collective == BARRIER];
    if (!tree) {
        return cost_of_flat(group, group->n);
    }
    cost_t cost = {.sound = true};
    path_t top = arrive(group, tree, &cost);
    release_all(group, tree->order[0], top, &cost);
    return cost;
}
