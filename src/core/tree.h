/*
 * Trees over the endpoints of a group.
 *
 * A tree is an order of the endpoints plus, per level, a partition into contiguous runs ("blocks"):
 *
 *   level 0   block b holds the endpoints order[first[b]] .. order[first[b + 1] - 1]
 *   level l   block b holds the blocks    first[b] .. first[b + 1] - 1 of level l - 1
 *   top       has exactly one block
 *
 * Every block of every level has a slot number, slot(l, b) = level[l].first_slot + b, where
 * first_slot counts the blocks of all lower levels; so an array of n_slots entries holds one record
 * per block. All blocks of a level tile the level below: first[0] = 0, first[n_blocks] = number of
 * items below, strictly increasing. A group of one endpoint has one level of one block.
 *
 * Two ways to build one. By number: blocks of 8 consecutive endpoints, recursively; it depends on n
 * alone, so it is the canonical association of reductions. By topology: blocks never join
 * endpoints of different domains while they could be joined inside one; it shapes arrival and
 * release only. Both are pure functions of their arguments: every process and thread that asks
 * with the same input gets the same tree.
 *
 * Release runs the other way. One endpoint, the origin, knows (it combined the top block, or has
 * the data of a bcast) and writes a line. A tree by topology gives further lines to some blocks,
 * namely to those whose parent joins another domain, and to those without which the line above
 * would have more than sixteen readers. The first endpoint of such a block (who combines it, too)
 * reads the line above and writes the block's; the others in the block read that. So what goes down
 * crosses a border once per domain behind it, and no line has more than a few dozen readers,
 * however large the machine.
 * The origin's line stands for the lines of all blocks that contain the origin. Trees by number
 * have no lines, nor have those of up to sixteen endpoints within one NUMA node: all read the
 * origin's line.
 *
 * Trees are immutable, O(n) in memory, one allocation each; any thread may read one.
 */
#ifndef HD_CORE_TREE_H
#define HD_CORE_TREE_H

#include <stdint.h>
#include <stdio.h>
#include <ucc/api/ucc_status.h>

#include "core/topo.h"

enum {
    HD_TREE_FANIN = 8,
    /* By number, 11 levels reach 2^32 endpoints. By topology each of the four stages (L3, NUMA
     * node, package, machine) may need that many, if its domains are all fed through one narrow
     * path. */
    HD_TREE_MAX_LEVELS = 44
};

typedef struct hd_tree_level {
    uint32_t n_blocks;
    uint32_t first_slot;
    uint32_t *first;  /* n_blocks + 1 entries */
    uint32_t *start;  /* n_blocks + 1 entries: position of the first endpoint below a block */
    uint32_t *parent; /* n_blocks entries: block of the level above; 0 at the top level */
    uint32_t *line;   /* n_blocks entries: 1 if the block has a line of release, else 0 */
} hd_tree_level_t;

typedef struct hd_tree {
    uint32_t n_endpoints;
    uint32_t n_levels;
    uint32_t n_slots;
    uint32_t n_lines; /* blocks that have a line of release */
    uint32_t *order;  /* position -> endpoint */
    uint32_t *leaf;   /* endpoint -> block of level 0 */
    hd_tree_level_t level[HD_TREE_MAX_LEVELS];
} hd_tree_t;

/* n >= 1. */
ucc_status_t hd_tree_by_number(uint32_t n, hd_tree_t **out);

/* loc has n entries; fan_in >= 2 bounds every block. Endpoints with equal locality keep the order
 * of their numbers. An item whose domain is already combined while its neighbours still combine
 * theirs passes through blocks of one. UCC_ERR_NOT_SUPPORTED: more than HD_TREE_MAX_LEVELS levels,
 * which takes a fan-in below 8 and a machine that does not exist. */
ucc_status_t hd_tree_by_topology(uint32_t n, const hd_locality_t *loc, uint32_t fan_in,
                                 hd_tree_t **out);

/* How long it takes, in no unit, until each endpoint has read one of every item of its block, level
 * by level: of two trees of the same endpoints, the one of less is climbed sooner. */
uint32_t hd_tree_climb(const hd_tree_t *tree, const hd_locality_t *loc);
/* How many then read the same endpoint, at most: more where an item is smaller than those beside
 * it. By number: the same for n endpoints, without the tree. */
uint32_t hd_tree_readers(const hd_tree_t *tree);
uint32_t hd_tree_readers_by_number(uint32_t n);

void hd_tree_destroy(hd_tree_t *tree);

/* loc may be NULL. */
void hd_tree_print(const hd_tree_t *tree, const hd_locality_t *loc, FILE *out);

/* For tests and tools: every endpoint stands in the tree exactly once, the levels fit together,
 * and (loc given) no block joins two domains although one of its members could still have been
 * joined inside its own. Logs the first fault and returns UCC_ERR_INVALID_PARAM. */
ucc_status_t hd_tree_check(const hd_tree_t *tree, const hd_locality_t *loc);

#define HD_TREE_ORIGIN UINT32_MAX /* too large for an enum */

/* One endpoint's part in a release. */
typedef struct hd_tree_release {
    uint32_t from;   /* slot of the block whose line I read, or HD_TREE_ORIGIN */
    uint32_t relays; /* then I write the lines of my blocks on the levels below this one */
} hd_tree_release_t;

/* The part of endpoint `me` when `origin` releases. Both < n_endpoints. */
hd_tree_release_t hd_tree_release(const hd_tree_t *tree, uint32_t me, uint32_t origin);

/* Where each endpoint combines all blocks above it itself: whose part of an item of a level an
 * endpoint reads that stands at `position` in the tree's order, and lies in item `own` of the same
 * block: of the endpoints of that item the one that stands where it stands in its own. */
static inline uint32_t hd_tree_source(const hd_tree_t *tree, uint32_t level, uint32_t position,
                                      uint32_t own, uint32_t item) {
    if (level == 0) {
        return tree->order[item];
    }
    const uint32_t *start = tree->level[level - 1].start;
    return tree->order[start[item] + (position - start[own]) % (start[item + 1] - start[item])];
}

static inline uint32_t hd_tree_slot(const hd_tree_t *tree, uint32_t level, uint32_t block) {
    return tree->level[level].first_slot + block;
}

#endif
