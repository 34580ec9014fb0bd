/*
 * Trees: every endpoint once, no avoidable border crossed, depth as the machine says.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/topo.h"
#include "core/tree.h"

static void ignore(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)line;
    (void)arg;
}

/* xorshift: the same numbers in every run. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static hd_locality_t *place_all(const hd_topo_t *topo, uint32_t n) {
    hd_locality_t *loc = calloc(n, sizeof(*loc));

    for (uint32_t i = 0; i < n; i++) {
        hd_topo_place(topo, i, n, &loc[i]);
    }
    return loc;
}

static void shuffle(hd_locality_t *loc, uint32_t n, uint64_t seed) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)(next_random(&seed) % i);
        hd_locality_t swapped = loc[i - 1];
        loc[i - 1] = loc[j];
        loc[j] = swapped;
    }
}

static void assert_fan_in(const hd_tree_t *tree, uint32_t fan_in) {
    for (uint32_t l = 0; l < tree->n_levels; l++) {
        for (uint32_t b = 0; b < tree->level[l].n_blocks; b++) {
            cr_assert_leq(tree->level[l].first[b + 1] - tree->level[l].first[b], fan_in);
        }
    }
}

Test(tree, by_number_cuts_blocks_of_eight_recursively) {
    static const struct {
        uint32_t n, levels, slots;
    } cases[] = {{1, 1, 1},      {2, 1, 1},
                 {8, 1, 1},      {9, 2, 3},
                 {64, 2, 9},     {65, 3, 12},
                 {512, 3, 73},   {513, 4, 65 + 9 + 2 + 1},
                 {4096, 4, 585}, {30000, 5, 3750 + 469 + 59 + 8 + 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hd_tree_t *tree;

        cr_assert_eq(hd_tree_by_number(cases[i].n, &tree), UCC_OK);
        cr_assert_eq(hd_tree_check(tree, NULL), UCC_OK);
        cr_assert_eq(tree->n_levels, cases[i].levels, "n = %u", cases[i].n);
        cr_assert_eq(tree->n_slots, cases[i].slots, "n = %u: %u", cases[i].n, tree->n_slots);
        for (uint32_t e = 0; e < cases[i].n; e++) {
            cr_assert_eq(tree->order[e], e);
            cr_assert_eq(tree->leaf[e], e / HD_TREE_FANIN);
        }
        for (uint32_t l = 0; l < tree->n_levels; l++) {
            for (uint32_t b = 0; b < tree->level[l].n_blocks; b++) {
                cr_assert_eq(tree->level[l].first[b], b * HD_TREE_FANIN);
            }
        }
        hd_tree_destroy(tree);
    }
}

Test(tree, by_topology_follows_the_machine) {
    static const struct {
        const char *description;
        uint32_t n, fan_in, levels, leaves;
    } cases[] = {
        {"core:1 pu:1", 1, 8, 1, 1},
        {"core:1 pu:1", 20, 8, 2, 3},
        {"numa:2 core:4 pu:1", 8, 8, 2, 2},
        {"numa:2 core:4 pu:1", 4, 8, 1, 1}, /* compact placement: all on one node */
        {"numa:2 core:4 pu:1", 5, 8, 2, 2},
        {"pack:1 l3:8 core:8 pu:1", 64, 8, 2, 8},
        {"pack:1 l3:8 core:8 pu:1", 64, 4, 4, 16},
        /* 32 threads on a node: 4 leaves, 1; 4 nodes, 1; 2 packages, 1 */
        {"pack:2 numa:4 core:16 pu:2", 256, 8, 4, 32},
        {"pack:2 numa:4 core:16 pu:2", 128, 8, 4, 16},
        {"pack:2 numa:4 core:16 pu:2", 256, 4, 5, 64},
        {"pack:2 numa:4 core:16 pu:2", 2048, 8, 5, 256},
        {"pack:4 core:1 pu:1", 4, 8, 1, 1}, /* one each: nothing to stay below */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hd_topo_t *topo;
        hd_tree_t *tree;

        cr_assert_eq(hd_topo_create(cases[i].description, &topo), UCC_OK);
        hd_locality_t *loc = place_all(topo, cases[i].n);
        for (uint64_t seed = 0; seed < 3; seed++) { /* also with numbers strewn over the machine */
            if (seed > 0) {
                shuffle(loc, cases[i].n, seed);
            }
            cr_assert_eq(hd_tree_by_topology(cases[i].n, loc, cases[i].fan_in, &tree), UCC_OK);
            cr_assert_eq(hd_tree_check(tree, loc), UCC_OK, "case %zu", i);
            assert_fan_in(tree, cases[i].fan_in);
            cr_assert_eq(tree->n_levels, cases[i].levels, "case %zu: %u levels", i, tree->n_levels);
            cr_assert_eq(tree->level[0].n_blocks, cases[i].leaves, "case %zu: %u leaves", i,
                         tree->level[0].n_blocks);
            hd_tree_destroy(tree);
        }
        free(loc);
        hd_topo_destroy(topo);
    }
}

Test(tree, hyperthreads_of_a_core_share_a_leaf_where_they_fit) {
    hd_topo_t *topo;
    hd_tree_t *tree;

    cr_assert_eq(hd_topo_create("core:10 pu:2", &topo), UCC_OK);
    hd_locality_t *loc = place_all(topo, 20);
    for (uint32_t fan_in = 2; fan_in <= 8; fan_in++) {
        cr_assert_eq(hd_tree_by_topology(20, loc, fan_in, &tree), UCC_OK);
        for (uint32_t e = 0; e < 20; e += 2) {
            cr_assert_eq(tree->leaf[e], tree->leaf[e + 1], "fan-in %u", fan_in);
        }
        hd_tree_destroy(tree);
    }
    free(loc);
    hd_topo_destroy(topo);
}

/* Endpoints spread without any order, some confined less closely than others. */
static void random_locality(hd_locality_t *loc, uint32_t n, uint64_t *state) {
    for (uint32_t i = 0; i < n; i++) {
        int32_t package = (int32_t)(next_random(state) % 3);
        int32_t numa = package * 3 + (int32_t)(next_random(state) % 3);
        int32_t l3 = numa * 2 + (int32_t)(next_random(state) % 2);
        int32_t core = l3 * 4 + (int32_t)(next_random(state) % 4);
        uint64_t confined = next_random(state) % 8;

        loc[i] = (hd_locality_t){confined > 0 ? package : -1,
                                 confined > 1 ? numa : -1,
                                 confined > 2 ? l3 : -1,
                                 confined > 3 ? core : -1,
                                 -1,
                                 true};
    }
}

Test(tree, any_mixture_of_localities_gives_a_sound_and_repeatable_tree) {
    uint64_t state = 88172645463325252u;

    for (uint32_t round = 0; round < 300; round++) {
        uint32_t n = 1 + (uint32_t)(next_random(&state) % 120);
        uint32_t fan_in = 2 + (uint32_t)(next_random(&state) % 7);
        hd_locality_t loc[120];
        hd_tree_t *tree, *again;

        random_locality(loc, n, &state);
        cr_assert_eq(hd_tree_by_topology(n, loc, fan_in, &tree), UCC_OK);
        cr_assert_eq(hd_tree_check(tree, loc), UCC_OK, "n %u fan-in %u", n, fan_in);
        assert_fan_in(tree, fan_in);
        cr_assert_eq(hd_tree_by_topology(n, loc, fan_in, &again), UCC_OK);
        cr_assert_eq(tree->n_slots, again->n_slots);
        cr_assert_eq(memcmp(tree->order, again->order, n * sizeof(uint32_t)), 0);
        cr_assert_eq(memcmp(tree->leaf, again->leaf, n * sizeof(uint32_t)), 0);
        hd_tree_destroy(tree);
        hd_tree_destroy(again);
    }
}

Test(tree, unknown_locality_gives_even_blocks_in_the_order_of_numbers) {
    hd_locality_t loc[10];
    hd_tree_t *tree;

    for (int i = 0; i < 10; i++) {
        loc[i] = hd_locality_unknown();
    }
    cr_assert_eq(hd_tree_by_topology(10, loc, 8, &tree), UCC_OK);
    cr_assert_eq(hd_tree_check(tree, loc), UCC_OK);
    cr_assert_eq(tree->level[0].n_blocks, 2);
    cr_assert_eq(tree->level[0].first[1], 5);
    cr_assert_eq(tree->order[7], 7);
    hd_tree_destroy(tree);
}

Test(tree, tens_of_thousands_of_endpoints_are_quick) {
    uint32_t n = 50000;
    hd_topo_t *topo;
    hd_tree_t *tree;

    cr_assert_eq(hd_topo_create("pack:2 numa:4 l3:2 core:8 pu:2", &topo), UCC_OK);
    hd_locality_t *loc = place_all(topo, n);
    shuffle(loc, n, 7);
    cr_assert_eq(hd_tree_by_topology(n, loc, 8, &tree), UCC_OK);
    cr_assert_lt(tree->n_slots, n / 2);
    hd_tree_destroy(tree);
    free(loc);
    hd_topo_destroy(topo);
}

Test(tree, the_check_finds_faults) {
    hd_locality_t loc[12];
    hd_tree_t *tree;

    hd_log_capture(ignore, NULL);
    for (int i = 0; i < 12; i++) {
        loc[i] = (hd_locality_t){0, i / 6, i / 6, i, i, true};
    }
    /* by number, blocks of 8 cross the border after 6 although they need not */
    cr_assert_eq(hd_tree_by_number(12, &tree), UCC_OK);
    cr_assert_eq(hd_tree_check(tree, NULL), UCC_OK);
    cr_assert_eq(hd_tree_check(tree, loc), UCC_ERR_INVALID_PARAM);
    tree->order[3] = 4; /* one endpoint twice */
    cr_assert_eq(hd_tree_check(tree, NULL), UCC_ERR_INVALID_PARAM);
    tree->order[3] = 3;
    tree->leaf[3] = 1;
    cr_assert_eq(hd_tree_check(tree, NULL), UCC_ERR_INVALID_PARAM);
    tree->leaf[3] = 0;
    tree->level[0].parent[1] = 1;
    cr_assert_eq(hd_tree_check(tree, NULL), UCC_ERR_INVALID_PARAM);
    tree->level[0].parent[1] = 0;
    tree->level[0].first[1] = 0;
    cr_assert_eq(hd_tree_check(tree, NULL), UCC_ERR_INVALID_PARAM);
    hd_tree_destroy(tree);
}

Test(tree, bad_arguments_and_lack_of_memory_are_errors) {
    hd_locality_t loc[100];
    hd_tree_t *tree = NULL;
    ucc_status_t status = UCC_ERR_NO_MEMORY;

    hd_log_capture(ignore, NULL);
    for (int i = 0; i < 100; i++) {
        loc[i] = hd_locality_unknown();
    }
    cr_assert_eq(hd_tree_by_number(0, &tree), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_tree_by_topology(0, loc, 8, &tree), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_tree_by_topology(2, loc, 1, &tree), UCC_ERR_INVALID_PARAM);
    for (long n = 0; status != UCC_OK; n++) {
        hd_alloc_fail_after(n);
        status = hd_tree_by_topology(100, loc, 2, &tree);
        hd_alloc_fail_after(-1);
        cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY);
    }
    hd_tree_destroy(tree);
    hd_alloc_fail_after(0);
    cr_assert_eq(hd_tree_by_number(100, &tree), UCC_ERR_NO_MEMORY);
    hd_alloc_fail_after(-1);
    hd_tree_destroy(NULL);
}

/* --- release ---------------------------------------------------------------------------------- */

/* Follows the lines from `me` to the origin: how many lie between, or UINT32_MAX if they go in a
 * circle, or if who writes one is not told to. */
static uint32_t lines_to_origin(const hd_tree_t *tree, uint32_t me, uint32_t origin) {
    for (uint32_t lines = 0; lines <= tree->n_lines; lines++) {
        hd_tree_release_t part = hd_tree_release(tree, me, origin);
        if (part.from == HD_TREE_ORIGIN) {
            return lines;
        }
        uint32_t level = 0;
        while (level + 1 < tree->n_levels && part.from >= tree->level[level + 1].first_slot) {
            level++;
        }
        uint32_t b = part.from - tree->level[level].first_slot, writer = b;
        for (uint32_t l = level; l > 0; l--) {
            writer = tree->level[l].first[writer];
        }
        writer = tree->order[tree->level[0].first[writer]];
        if (!tree->level[level].line[b] || writer == me ||
            hd_tree_release(tree, writer, origin).relays <= level) {
            return UINT32_MAX;
        }
        me = writer;
    }
    return UINT32_MAX;
}

static void assert_released(const hd_tree_t *tree, uint32_t origin) {
    for (uint32_t i = 0; i < tree->n_endpoints; i++) {
        cr_assert_leq(lines_to_origin(tree, i, origin), tree->n_levels, "endpoint %u from %u", i,
                      origin);
    }
    hd_tree_release_t own = hd_tree_release(tree, origin, origin);
    cr_assert_eq(own.from, HD_TREE_ORIGIN);
    cr_assert_eq(own.relays, 0, "the origin's line stands for those of its blocks");
}

Test(tree, what_is_released_reaches_everybody_from_any_origin) {
    static const char *const machines[] = {"package:4 numa:1 l3:2 core:8 pu:2",
                                           "package:2 core:64 pu:1", "package:8 numa:2 core:4 pu:1",
                                           "core:200 pu:1"};
    for (uint32_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        hd_topo_t *topo;
        hd_tree_t *tree;
        uint32_t n = 100 + 17 * m;
        cr_assert_eq(hd_topo_create(machines[m], &topo), UCC_OK);
        hd_locality_t *loc = place_all(topo, n);
        shuffle(loc, n, m + 1);
        cr_assert_eq(hd_tree_by_topology(n, loc, HD_TREE_FANIN, &tree), UCC_OK);
        cr_assert_gt(tree->n_lines, 0);
        for (uint32_t origin = 0; origin < n; origin += 7) {
            assert_released(tree, origin);
        }
        hd_tree_destroy(tree);
        hd_topo_destroy(topo);
        free(loc);
    }
}

Test(tree, a_release_crosses_a_border_once_per_domain_behind_it) {
    hd_topo_t *topo;
    hd_tree_t *tree;
    enum { N_ALL = 64, PACKAGES = 4 };
    cr_assert_eq(hd_topo_create("package:4 l3:2 core:8 pu:1", &topo), UCC_OK);
    hd_locality_t *loc = place_all(topo, N_ALL);
    cr_assert_eq(hd_tree_by_topology(N_ALL, loc, HD_TREE_FANIN, &tree), UCC_OK);
    uint32_t across = 0, origin = 5;
    for (uint32_t i = 0; i < N_ALL; i++) {
        bool reads_origin = hd_tree_release(tree, i, origin).from == HD_TREE_ORIGIN;
        across += reads_origin && loc[i].package != loc[origin].package;
    }
    cr_assert_eq(across, PACKAGES - 1);
    hd_tree_destroy(tree);
    hd_topo_destroy(topo);
    free(loc);
}

Test(tree, readers_of_a_step_are_counted_with_and_without_the_tree) {
    hd_tree_t *tree;
    for (uint32_t n = 1; n < 1200; n++) {
        cr_assert_eq(hd_tree_by_number(n, &tree), UCC_OK);
        cr_assert_eq(hd_tree_readers(tree), hd_tree_readers_by_number(n), "%u", n);
        hd_tree_destroy(tree);
    }
    cr_assert_eq(hd_tree_readers_by_number(8), 7);
    cr_assert_eq(hd_tree_readers_by_number(64), 7);
    cr_assert_eq(hd_tree_readers_by_number(65), 64, "all others read the last one");
    cr_assert_eq(hd_tree_readers_by_number(449), 448);
}

/* Of 65, the blocks of the tree that follows the machine are about equal. */
Test(tree, the_tree_of_fewer_readers_is_climbed_sooner) {
    hd_topo_t *topo;
    hd_tree_t *even, *by_number;
    enum { N_ALL = 65 };
    cr_assert_eq(hd_topo_create("core:80 pu:1", &topo), UCC_OK);
    hd_locality_t *loc = place_all(topo, N_ALL);
    cr_assert_eq(hd_tree_by_topology(N_ALL, loc, HD_TREE_FANIN, &even), UCC_OK);
    cr_assert_eq(hd_tree_by_number(N_ALL, &by_number), UCC_OK);
    cr_assert_leq(hd_tree_readers(even), 8);
    cr_assert_lt(hd_tree_climb(even, loc), hd_tree_climb(by_number, loc));
    hd_tree_destroy(even);
    hd_tree_destroy(by_number);
    hd_topo_destroy(topo);
    free(loc);
}

Test(tree, trees_by_number_have_one_line_for_all) {
    hd_tree_t *tree;
    cr_assert_eq(hd_tree_by_number(300, &tree), UCC_OK);
    for (uint32_t i = 0; i < 300; i++) {
        hd_tree_release_t part = hd_tree_release(tree, i, 299 - i);
        cr_assert(part.from == HD_TREE_ORIGIN && part.relays == 0);
    }
    hd_tree_destroy(tree);
}
