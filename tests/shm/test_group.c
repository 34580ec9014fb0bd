/* test_group.c: what a group makes of where its endpoints run. The machine is a described one: two NUMA
 * nodes of two cores each.
 */
#include "shm/shm.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void describe(void) {
    setenv("HEDDLE_TOPOLOGY", "pack:1 numa:2 core:2 pu:1", 1);
}

TestSuite(group, .init = describe, .timeout = 60);

static bool is_dedicated(const int32_t *node, uint32_t n) {
    hd_group_config_t config = {.depth = 8,
                                .persistent_depth = 4,
                                .flat_max = 8,
                                .lines_max = 512,
                                .staged_max = 16384,
                                .chunk = 1 << 20};
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
