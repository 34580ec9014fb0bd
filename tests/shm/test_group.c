/* test_group.c: what a group makes of where its endpoints run. The machine is a described one: two
 * NUMA nodes of two cores each.
 */
#include "core/mem.h"
#include "shm/internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void describe(void) {
    setenv("HEDDLE_TOPOLOGY", "pack:1 numa:2 core:2 pu:1", 1);
}

TestSuite(group, .init = describe, .timeout = 60);

static const hd_group_config_t config = {.depth = 8,
                                         .persistent_depth = 4,
                                         .flat_max = 8,
                                         .lines_max = 512,
                                         .staged_max = 16384,
                                         .chunk = 1 << 20};

static bool is_dedicated(const int32_t *node, uint32_t n) {
    hd_group_t *group = hd_group_create(n, &config);
    for (uint32_t i = 0; i < n; i++) {
        hd_locality_t where = hd_locality_unknown();
        where.numa = node[i];
        where.trusted = true;
        cr_assert_eq(hd_group_join(group, i, &where), UCC_OK);
    }
    bool dedicated = group->dedicated;
    hd_home_unpin(&group->home);
    return dedicated;
}

Test(group, endpoints_bound_to_nodes_with_room_have_processors_of_their_own) {
    cr_assert(is_dedicated((int32_t[]){0, 0, 1, 1}, 4));
    cr_assert(is_dedicated((int32_t[]){1, 0}, 2));
}

Test(group, more_endpoints_than_processors_in_a_node_are_crowded) {
    cr_assert_not(is_dedicated((int32_t[]){0, 0, 0, 1}, 4));
    cr_assert_not(is_dedicated((int32_t[]){1, 1, 1}, 3));
}

/* Twelve endpoints of two packages: the last one to join makes the tree that follows them, and
 * records of steps, with memory for so much of that. */
static bool is_made_with(long allocations) {
    enum { N = 12 };
    hd_group_t *group = hd_group_create(N, &config);
    for (uint32_t i = 0; i < N; i++) {
        hd_locality_t where = hd_locality_unknown();
        where.package = where.numa = (int32_t)i / 6;
        where.core = (int32_t)i;
        where.trusted = true;
        hd_alloc_fail_after(i + 1 == N ? allocations : -1);
        (void)hd_group_join(group, i, &where);
    }
    hd_alloc_fail_after(-1);
    bool made = hd_group_poisoned(group) == UCC_OK;
    cr_assert(!made || (group->by_topology != group->canonical && group->board->steps));
    hd_group_check(group);
    for (uint32_t slot = 0; slot < group->depth; slot++) {
        const hd_slot_t *own = &group->board->slot[slot];
        for (int tree = 0; tree < 2; tree++) {
            cr_assert_eq(!own->block[tree], !group->board->tree[tree], "after %ld", allocations);
        }
        cr_assert_eq(!own->record, !group->board->steps, "after %ld", allocations);
    }
    hd_home_unpin(&group->home);
    return made;
}

Test(group, equations_hold_where_memory_ran_out_before_trees_and_records_were_whole) {
    setenv("HEDDLE_TOPOLOGY", "pack:2 numa:1 core:6 pu:1", 1);
    long allocations = 0;
    while (!is_made_with(allocations)) {
        allocations++;
    }
    cr_assert_gt(allocations, 12);
}

Test(group, few_endpoints_of_several_packages_look_at_each_other) {
    setenv("HEDDLE_TOPOLOGY", "pack:2 numa:1 core:2 pu:1", 1);
    hd_group_t *group = hd_group_create(4, &config);
    for (uint32_t i = 0; i < 4; i++) {
        hd_locality_t where = hd_locality_unknown();
        where.package = where.numa = (int32_t)i / 2;
        where.core = (int32_t)i;
        where.trusted = true;
        cr_assert_eq(hd_group_join(group, i, &where), UCC_OK);
    }
    cr_assert(group->dedicated && !group->canonical && !group->board->tree[0]);
    hd_home_unpin(&group->home);
}

Test(group, endpoints_that_go_when_all_have_joined_fail_nobody) {
    hd_group_t *group = hd_group_create(3, &config);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(hd_group_join(group, i, NULL), UCC_OK);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_not(hd_group_abandon(group, UCC_ERR_NOT_FOUND));
        cr_assert_eq(hd_group_poisoned(group), UCC_OK);
    }
    hd_home_unpin(&group->home);
}
