/* small_group.h: a group of n endpoints with the default thresholds, for tests of what lies inside.
 */
#ifndef TESTS_SHM_SMALL_GROUP_H
#define TESTS_SHM_SMALL_GROUP_H

#include "shm/internal.h"

#include <criterion/criterion.h>

enum { SMALL_DEPTH = 8, SMALL_LINES_MAX = 1024, SMALL_STAGED_MAX = 16384 };

static inline hd_group_config_t small_config(void) {
    return (hd_group_config_t){.depth = SMALL_DEPTH,
                               .persistent_depth = 4,
                               .flat_max = 8,
                               .lines_max = SMALL_LINES_MAX,
                               .staged_max = SMALL_STAGED_MAX,
                               .chunk = 1 << 20};
}

static inline hd_group_t *small_group(uint32_t n) {
    hd_group_config_t config = small_config();
    hd_group_t *group = hd_group_create(n, &config);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(hd_group_join(group, i, NULL), UCC_OK);
    }
    return group;
}

/* A group in the memory that two processes share, as each of them has it mapped; both are this one.
 */
typedef struct small_pair {
    hd_group_t *group[2];
    hd_node_segment_t segment;
} small_pair_t;

static inline small_pair_t small_pair_open(uint32_t n) {
    hd_group_config_t config = small_config();
    config.processes = 2;
    config.apart = true;
    small_pair_t pair = {.group[0] = hd_group_create(n, &config)};
    cr_assert(pair.group[0]);
    pair.segment = hd_group_take_segment(pair.group[0]);
    config.process = 1;
    pair.group[1] = hd_group_of(&pair.segment, n, &config);
    cr_assert(pair.group[1]);
    return pair;
}

static inline void small_pair_close(small_pair_t pair) {
    hd_segment_close(&pair.segment);
    hd_home_unpin(&pair.group[1]->home);
    hd_home_unpin(&pair.group[0]->home);
}

#endif
