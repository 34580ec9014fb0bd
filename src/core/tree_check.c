/*
 * Showing and verifying trees: see tree.h.
 *
 * The check shares no code with the builder: it looks at endpoints and localities only, and would
 * accept any other construction that keeps the rules.
 */
#include "core/tree.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/log.h"
#include "core/mem.h"

/* Domains whose borders count, from the outside in. */
static const hd_topo_level_t stages[] = {HD_TOPO_PACKAGE, HD_TOPO_NUMA, HD_TOPO_L3};
enum { N_STAGES = sizeof(stages) / sizeof(stages[0]) };

static void print_items(const hd_tree_t *tree, uint32_t level, uint32_t block,
                        const hd_locality_t *loc, FILE *out) {
    const hd_tree_level_t *here = &tree->level[level];

    for (uint32_t i = here->first[block]; i < here->first[block + 1]; i++) {
        fprintf(out, " %" PRIu32, level == 0 ? tree->order[i] : i);
        if (level == 0 && loc != NULL) {
            const hd_locality_t *where = &loc[tree->order[i]];
            fprintf(out, "(%d.%d.%d.%d)", where->package, where->numa, where->l3, where->core);
        }
    }
}

void hd_tree_print(const hd_tree_t *tree, const hd_locality_t *loc, FILE *out) {
    fprintf(out, "tree: %" PRIu32 " endpoints, %" PRIu32 " levels, %" PRIu32 " blocks%s\n",
            tree->n_endpoints, tree->n_levels, tree->n_slots,
            loc != NULL ? "; endpoint(package.numa.l3.core)" : "");
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        for (uint32_t b = 0; b < tree->level[l].n_blocks; b++) {
            fprintf(out, "  level %" PRIu32 " block %" PRIu32 ": %s", l, b,
                    l == 0 ? "endpoints" : "blocks");
            print_items(tree, l, b, loc, out);
            fprintf(out, "\n");
        }
    }
}

/* The levels tile each other, and parents, slots and the top agree with that. */
static ucc_status_t check_levels(const hd_tree_t *tree) {
    uint32_t n_items = tree->n_endpoints, slots = 0;

    for (uint32_t l = 0; l < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];
        bool fits = level->n_blocks > 0 && level->first_slot == slots && level->first[0] == 0 &&
                    level->first[level->n_blocks] == n_items;

        for (uint32_t b = 0; b < level->n_blocks && fits; b++) {
            fits = level->first[b] < level->first[b + 1];
            for (uint32_t i = level->first[b]; l > 0 && fits && i < level->first[b + 1]; i++) {
                fits = tree->level[l - 1].parent[i] == b;
            }
        }
        if (!fits) {
            hd_error("level %" PRIu32 " does not tile the %" PRIu32 " items below", l, n_items);
            return UCC_ERR_INVALID_PARAM;
        }
        n_items = level->n_blocks;
        slots += level->n_blocks;
    }
    if (n_items != 1 || slots != tree->n_slots) {
        hd_error("%" PRIu32 " blocks at the top, %" PRIu32 " slots for %" PRIu32 " blocks", n_items,
                 tree->n_slots, slots);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* Every endpoint once, in the leaf that it is said to be in. */
static ucc_status_t check_endpoints(const hd_tree_t *tree) {
    const hd_tree_level_t *leaves = &tree->level[0];
    uint8_t *seen = hd_alloc(HD_LINE, tree->n_endpoints);
    ucc_status_t status = seen == NULL ? UCC_ERR_NO_MEMORY : UCC_OK;

    for (uint32_t b = 0; b < leaves->n_blocks && status == UCC_OK; b++) {
        for (uint32_t i = leaves->first[b]; i < leaves->first[b + 1]; i++) {
            uint32_t endpoint = tree->order[i];
            if (endpoint >= tree->n_endpoints || seen[endpoint] || tree->leaf[endpoint] != b) {
                hd_error("endpoint %" PRIu32 " is out of range, twice in the tree, or not in leaf "
                         "%" PRIu32,
                         endpoint, b);
                status = UCC_ERR_INVALID_PARAM;
                break;
            }
            seen[endpoint] = 1;
        }
    }
    hd_free(seen);
    return status;
}

/* Number of outermost stages in which both lie in the same domain. */
static int common_stages(const hd_locality_t *a, const hd_locality_t *b) {
    int stage = 0;

    while (stage < N_STAGES &&
           hd_locality_domain(a, stages[stage]) == hd_locality_domain(b, stages[stage])) {
        stage++;
    }
    return stage;
}

/* A contiguous run of positions in the order, and how deep the domain is that holds it all. */
typedef struct run {
    uint32_t begin, end;
    int depth;
} run_t;

static run_t make_run(const hd_tree_t *tree, const hd_locality_t *loc, uint32_t begin,
                      uint32_t end) {
    run_t run = {begin, end, N_STAGES};

    for (uint32_t i = begin + 1; i < end; i++) {
        int depth = common_stages(&loc[tree->order[begin]], &loc[tree->order[i]]);
        run.depth = depth < run.depth ? depth : run.depth;
    }
    return run;
}

/* First position below item `item` of `level`; with item = number of items, one past the last. */
static uint32_t first_position(const hd_tree_t *tree, uint32_t level, uint32_t item) {
    while (level > 0) {
        level--;
        item = tree->level[level].first[item];
    }
    return item;
}

/* An item may leave its domain only as all of that domain's endpoints. */
static ucc_status_t check_item(const hd_tree_t *tree, const hd_locality_t *loc, uint32_t level,
                               uint32_t block, run_t item, int block_depth) {
    const hd_locality_t *where = &loc[tree->order[item.begin]];
    uint32_t in_domain = 0;

    if (item.depth <= block_depth) {
        return UCC_OK; /* stays where it was */
    }
    for (uint32_t e = 0; e < tree->n_endpoints; e++) {
        in_domain += common_stages(where, &loc[e]) > block_depth;
    }
    if (in_domain != item.end - item.begin) {
        hd_error("block %" PRIu32 " of level %" PRIu32 " takes %" PRIu32 " of a domain's %" PRIu32
                 " endpoints across its border",
                 block, level, item.end - item.begin, in_domain);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t check_borders(const hd_tree_t *tree, const hd_locality_t *loc) {
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        const hd_tree_level_t *level = &tree->level[l];

        for (uint32_t b = 0; b < level->n_blocks; b++) {
            run_t block = make_run(tree, loc, first_position(tree, l, level->first[b]),
                                   first_position(tree, l, level->first[b + 1]));

            for (uint32_t i = level->first[b]; i < level->first[b + 1]; i++) {
                run_t item =
                    make_run(tree, loc, first_position(tree, l, i), first_position(tree, l, i + 1));
                ucc_status_t status = check_item(tree, loc, l, b, item, block.depth);
                if (status != UCC_OK) {
                    return status;
                }
            }
        }
    }
    return UCC_OK;
}

ucc_status_t hd_tree_check(const hd_tree_t *tree, const hd_locality_t *loc) {
    ucc_status_t status = check_levels(tree);

    if (status == UCC_OK) {
        status = check_endpoints(tree);
    }
    if (status == UCC_OK && loc != NULL) {
        status = check_borders(tree, loc);
    }
    return status;
}
