/* cost.c: follows a collective through trees; see model.h. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

uint32_t path_length(const path_t *path) {
    uint32_t length = 0;
    for (int d = 0; d < N_DISTANCES; d++) {
        length += path->hops[d];
    }
    return length;
}

static void keep_longer(path_t *longest, const path_t *path) {
    if (path->ns > longest->ns) {
        *longest = *path;
    }
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

/* `reader` reads what `writer` wrote at the end of `path`, with `more` other lines: the path to
 * having it. */
static path_t read_line(const hd_group_t *group, cost_t *cost, uint32_t *across, path_t path,
                        const line_t *line, uint32_t writer, uint32_t reader, uint32_t more) {
    distance_t d = distance(group, writer, reader);
    path.hops[d]++;
    path.ns += transfer_ns(line, d, more);
    cost->transfers++;
    *across += d == ACROSS;
    cost->readers = line->readers > cost->readers ? line->readers : cost->readers;
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
    return tree->order[level > 0 ? tree->level[level - 1].start[item] : item];
}

/* --- up --------------------------------------------------------------------------------------- */

/* The path to the top block's being combined. */
static path_t arrive(const hd_group_t *group, const hd_tree_t *tree, cost_t *cost) {
    path_t *path = zeroed(tree->n_endpoints, sizeof(*path)); /* by item of the level */
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];
        for (uint32_t b = 0; b < level->n_blocks; b++) {
            uint32_t first = level->first[b], end = level->first[b + 1];
            uint32_t combiner = first_endpoint(tree, l, first);
            path_t longest = path[first];
            for (uint32_t i = first + 1; i < end; i++) {
                uint32_t writer = first_endpoint(tree, l, i);
                line_t line = {0};
                add_reader(&line, distance(group, writer, combiner));
                path_t one = read_line(group, cost, &cost->up, path[i], &line, writer, combiner,
                                       end - first - 2);
                keep_longer(&longest, &one);
            }
            path[b] = longest; /* b <= first: not needed any more */
        }
    }
    path_t top = path[0];
    free(path);
    return top;
}

/* --- butterfly -------------------------------------------------------------------------------- */

typedef void (*visit_fn)(void *context, uint32_t reader, uint32_t source, uint32_t more);

/* All reads of one level. holder: by position, the item of this level that it lies in. */
static void visit_level(const hd_tree_t *tree, uint32_t level, const uint32_t *holder,
                        visit_fn visit, void *context) {
    const hd_tree_level_t *at = &tree->level[level];
    for (uint32_t b = 0; b < at->n_blocks; b++) {
        uint32_t first = at->first[b], end = at->first[b + 1];
        for (uint32_t p = at->start[b]; p < at->start[b + 1]; p++) {
            for (uint32_t item = first; item < end; item++) {
                if (item != holder[p]) {
                    visit(context, tree->order[p], hd_tree_source(tree, level, p, holder[p], item),
                          end - first - 2);
                }
            }
        }
    }
}

typedef struct climb {
    const hd_group_t *group;
    cost_t *cost;
    line_t *line;        /* by endpoint: its record of the level below */
    path_t *path, *next; /* by endpoint: to having combined that, and this level */
} climb_t;

static void count_reader(void *context, uint32_t reader, uint32_t source, uint32_t more) {
    climb_t *c = context;
    (void)more;
    add_reader(&c->line[source], distance(c->group, source, reader));
}

static void follow(void *context, uint32_t reader, uint32_t source, uint32_t more) {
    climb_t *c = context;
    uint32_t *across = reader < source ? &c->cost->up : &c->cost->down;
    path_t one = read_line(c->group, c->cost, across, c->path[source], &c->line[source], source,
                           reader, more);
    keep_longer(&c->next[reader], &one);
}

static cost_t cost_of_butterfly(const hd_group_t *group, const hd_tree_t *tree) {
    uint32_t n = group->n;
    cost_t cost = {.sound = true};
    climb_t c = {group, &cost, zeroed(n, sizeof(line_t)), zeroed(n, sizeof(path_t)),
                 zeroed(n, sizeof(path_t))};
    uint32_t *holder = zeroed(n, sizeof(*holder));
    for (uint32_t p = 0; p < n; p++) {
        holder[p] = p;
    }
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        memset(c.line, 0, n * sizeof(*c.line));
        memcpy(c.next, c.path, n * sizeof(*c.path));
        visit_level(tree, l, holder, count_reader, &c);
        visit_level(tree, l, holder, follow, &c);
        memcpy(c.path, c.next, n * sizeof(*c.path));
        for (uint32_t b = 0; b < tree->level[l].n_blocks; b++) {
            for (uint32_t p = tree->level[l].start[b]; p < tree->level[l].start[b + 1]; p++) {
                holder[p] = b;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        keep_longer(&cost.path, &c.path[i]);
    }
    free(c.line);
    free(c.path);
    free(c.next);
    free(holder);
    return cost;
}

/* --- down ------------------------------------------------------------------------------------- */

typedef struct release {
    const hd_group_t *group;
    const hd_tree_t *tree;
    uint32_t origin;
    path_t start; /* to the origin's knowing */
    line_t *line; /* by slot; one past: the origin's */
    cost_t *cost;
} release_t;

/* Who writes the line of that slot; checks that it does. */
static uint32_t writer_of(const release_t *r, uint32_t slot) {
    uint32_t l = 0;
    if (slot == r->tree->n_slots) {
        return r->origin;
    }
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

/* The slot of the line that `me` reads. */
static uint32_t slot_of(const release_t *r, uint32_t me) {
    hd_tree_release_t part = hd_tree_release(r->tree, me, r->origin);
    return part.from == HD_TREE_ORIGIN ? r->tree->n_slots : part.from;
}

/* The path to `me` being released. Counts its last transfer if `count`. */
static path_t released(const release_t *r, uint32_t me, bool count) {
    if (me == r->origin) {
        return r->start;
    }
    cost_t ignored = {.sound = true};
    cost_t *cost = count ? r->cost : &ignored;
    uint32_t slot = slot_of(r, me), writer = writer_of(r, slot);
    if (writer == me || !r->cost->sound) {
        r->cost->sound = false;
        return r->start;
    }
    path_t above = writer == r->origin ? r->start : released(r, writer, false);
    return read_line(r->group, cost, &cost->down, above, &r->line[slot], writer, me, 0);
}

static void release_all(const hd_group_t *group, const hd_tree_t *tree, uint32_t origin,
                        path_t start, cost_t *cost) {
    release_t r = {group, tree, origin, start, zeroed(tree->n_slots + 1, sizeof(line_t)), cost};
    cost->path = start;
    for (uint32_t i = 0; i < group->n; i++) {
        if (i != origin) {
            uint32_t slot = slot_of(&r, i);
            add_reader(&r.line[slot], distance(group, writer_of(&r, slot), i));
        }
    }
    for (uint32_t i = 0; i < group->n; i++) {
        path_t path = released(&r, i, true);
        keep_longer(&cost->path, &path);
    }
    free(r.line);
}

/* --- collectives ------------------------------------------------------------------------------ */

/* Everybody reads everybody (root == n), or the root. */
static cost_t cost_of_flat(const hd_group_t *group, uint32_t root) {
    cost_t cost = {.sound = true};
    for (uint32_t writer = 0; writer < group->n; writer++) {
        line_t line = {0};
        for (uint32_t reader = 0; reader < group->n; reader++) {
            if (writer != reader) {
                add_reader(&line, distance(group, writer, reader));
            }
        }
        for (uint32_t reader = 0; reader < group->n; reader++) {
            if (writer != reader && (root == group->n || writer == root)) {
                bool up = root == group->n && reader < writer;
                path_t path = read_line(group, &cost, up ? &cost.up : &cost.down, (path_t){{0}, 0},
                                        &line, writer, reader, root == group->n ? root - 2 : 0);
                keep_longer(&cost.path, &path);
            }
        }
    }
    return cost;
}

/* For all roots: the longest path, the most of everything. */
static cost_t cost_of_bcast(const hd_group_t *group, const hd_tree_t *down) {
    cost_t worst = {.sound = true};
    for (uint32_t root = 0; root < group->n; root++) {
        cost_t cost = {.sound = true};
        if (down) {
            release_all(group, down, root, (path_t){{0}, 0}, &cost);
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

cost_t cost_of_way(const hd_group_t *group, collective_t collective, const way_t *way) {
    if (collective == BCAST) {
        return cost_of_bcast(group, way->down);
    }
    if (!way->up) {
        return cost_of_flat(group, group->n);
    }
    if (!way->down) {
        return cost_of_butterfly(group, way->up);
    }
    cost_t cost = {.sound = true};
    path_t top = arrive(group, way->up, &cost);
    release_all(group, way->down, way->up->order[0], top, &cost);
    return cost;
}

way_t chosen_way(const hd_group_t *group, collective_t collective) {
    const hd_board_t *board = group->board;
    way_t way = {.name = "flat"};
    if (!board->tree[0]) {
        return way;
    }
    if (collective == BCAST) {
        way.down = board->tree[1];
        snprintf(way.name, sizeof(way.name), way.down->n_lines ? "lines" : "one line");
    } else if (group->arrives_by[1][collective == ALLREDUCE] == HD_ARRIVAL_BUTTERFLY) {
        if (!board->at_once) {
            way.up = board->tree[collective == BARRIER ? board->steps_by : 0];
            snprintf(way.name, sizeof(way.name), "butterfly");
        }
    } else {
        /* synchronization arrives by topology, a reduction by the canonical tree */
        way.up = board->tree[collective == BARRIER];
        way.down = board->tree[1];
        snprintf(way.name, sizeof(way.name), "tree");
    }
    return way;
}
