/* ways.c: the ways to run a collective that the model knows of; see model.h. */
#include "model.h"

#include <stdlib.h>

/* All trees of a group that are tried; a reduction's order is the canonical one. */
enum { N_WIDTHS = 6 };
static const uint32_t width[N_WIDTHS] = {2, 4, 8, 16, 32, 64};

typedef struct search {
    const hd_group_t *group;
    collective_t collective;
    cost_t best;
    way_t way;
    bool found;
} search_t;

static void try_way(search_t *search, const way_t *way) {
    cost_t cost = cost_of_way(search->group, search->collective, way);
    if (!search->found || cost.path.ns < search->best.path.ns) {
        search->best = cost;
        search->way = *way;
        search->found = true;
    }
}

static hd_tree_t *tree_of(const hd_group_t *group, uint32_t fan_in) {
    hd_tree_t *tree = NULL;
    if (hd_tree_by_topology(group->n, group->locality, fan_in, &tree) != UCC_OK) {
        return NULL; /* so narrow a tree has too many levels */
    }
    return tree;
}

/* Every block of several endpoints has a line, or none has. */
static void set_lines(hd_tree_t *tree, bool all) {
    tree->n_lines = 0;
    for (uint32_t l = 0; l + 1 < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];
        for (uint32_t b = 0; b < level->n_blocks; b++) {
            uint32_t above = tree->level[l].parent[b], mine = level->start[b + 1] - level->start[b];
            const uint32_t *start = tree->level[l + 1].start;
            level->line[b] = all && mine > 1 && mine < start[above + 1] - start[above];
            tree->n_lines += level->line[b];
        }
    }
}

/* Up a tree, if there is one, and down by all others. */
static void try_releases(search_t *search, const char *name, const hd_tree_t *up) {
    for (int i = 0; i < N_WIDTHS; i++) {
        hd_tree_t *down = tree_of(search->group, width[i]);
        way_t way = {.up = up, .down = down};
        for (int all = 0; down && all < 2; all++) {
            if (all || i == 0) {
                set_lines(down, all);
                snprintf(way.name, sizeof(way.name), all ? "%s, lines by %u" : "%s, one line", name,
                         width[i]);
                try_way(search, &way);
            }
        }
        if (down) {
            hd_tree_destroy(down);
        }
    }
}

static void try_tree(search_t *search, const char *name, const hd_tree_t *tree) {
    way_t way = {.up = tree};
    snprintf(way.name, sizeof(way.name), "butterfly, %s", name);
    try_way(search, &way);
    try_releases(search, name, tree);
}

cost_t best_cost(const hd_group_t *group, collective_t collective, way_t *way) {
    search_t search = {.group = group, .collective = collective};
    way_t flat = {.name = "flat"};
    try_way(&search, &flat);
    if (collective == BCAST) {
        try_releases(&search, "from the root", NULL);
    } else {
        hd_tree_t *canonical = NULL;
        if (hd_tree_by_number(group->n, &canonical) != UCC_OK) {
            exit(2);
        }
        try_tree(&search, "canonical", canonical);
        hd_tree_destroy(canonical);
    }
    for (int i = 0; collective == BARRIER && i < N_WIDTHS; i++) {
        hd_tree_t *tree = tree_of(group, width[i]);
        char name[32];
        snprintf(name, sizeof(name), "topology by %u", width[i]);
        if (tree) {
            try_tree(&search, name, tree);
            hd_tree_destroy(tree);
        }
    }
    *way = search.way;
    way->up = way->down = NULL; /* they are gone */
    return search.best;
}
