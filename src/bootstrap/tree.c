/* tree.c: which processes have connections, after forming: a tree with rank 0 at its root. Every
 * process's subtree are ranks that follow each other, its own first: so what comes from a child is
 * one piece of an allgather's result. The rest of them is divided evenly among its children.
 */
#include "bootstrap/bootstrap.h"

/* Ranks below a process, divided. */
static uint32_t part_begin(const hd_tree_t *tree, uint32_t i) {
    uint64_t below = tree->own.n - 1;
    return tree->own.first + 1 + (uint32_t)(below * i / tree->children);
}

hd_range_t hd_tree_child(const hd_tree_t *tree, uint32_t i) {
    uint32_t begin = part_begin(tree, i);
    return (hd_range_t){begin, part_begin(tree, i + 1) - begin};
}

/* The last part that does not begin after it. */
uint32_t hd_tree_towards(const hd_tree_t *tree, uint32_t rank) {
    uint64_t up_to = rank - tree->own.first; /* ranks below the process, this one included */
    return (uint32_t)((up_to * tree->children - 1) / (tree->own.n - 1));
}

static void divide(hd_tree_t *tree, uint32_t fanout) {
    tree->children = tree->own.n - 1 < fanout ? tree->own.n - 1 : fanout;
}

hd_tree_t hd_tree_place(uint32_t rank, uint32_t size, uint32_t fanout) {
    hd_tree_t tree = {.own = {0, size}};
    divide(&tree, fanout);
    while (tree.own.first != rank) {
        tree.depth++;
        tree.parent = tree.own.first;
        tree.own = hd_tree_child(&tree, hd_tree_towards(&tree, rank));
        divide(&tree, fanout);
    }
    return tree;
}
