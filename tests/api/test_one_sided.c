/* test_one_sided.c: alltoallv with displacements in the peers' memory, where that lies in heaps.
 * What is written where, tests/contract and tests/stress look at.
 */
#include "../support/one_sided.h"
#include "shm/near.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(one_sided, .timeout = 60);

enum { N = 3, POSTS = 8, COUNT = 60000 };

enum { BLOCK = COUNT / N };

/* How often an endpoint found that it reaches all buffers, of alltoallvs whose dst begins behind
 * the memory's first block. */
static uint64_t found(const char *heaps) {
    uint32_t counts[N] = {BLOCK, BLOCK, BLOCK};
    uint64_t from[N] = {0, BLOCK, 2 * BLOCK}, to[N][N];
    ucc_coll_args_t args[N];
    ucc_status_t status[N];
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    setenv("TEST_HEAPS", heaps, 1);
    one_sided_t *w = one_sided_open(
        &(one_sided_params_t){.size = N, .tune = ONE_SIDED_TUNE, .memory = MAPPED_BY_CONTEXT});
    uint64_t before = atomic_load(&hd_near_found);
    for (uint32_t post = 0; post < POSTS; post++) {
        for (uint32_t k = 0; k < N; k++) {
            for (uint32_t p = 0; p < N; p++) {
                to[k][p] = (uint64_t)BLOCK * k - BLOCK; /* may be negative, as displacements are */
                memset(w->end[k].src + p * BLOCK * sizeof(int32_t), (int)(post + 10 * k + p),
                       BLOCK * sizeof(int32_t));
            }
            args[k] =
                one_sided_args(w, k, counts, (uint32_t *)(void *)from, (uint32_t *)(void *)to[k]);
            args[k].flags |= UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
            args[k].dst.info_v.buffer = w->end[k].dst + BLOCK * sizeof(int32_t);
        }
        one_sided_statuses(w, args, status);
        for (uint32_t k = 0; k < N; k++) {
            cr_assert_eq(status[k], UCC_OK);
            for (uint32_t p = 0; p < N; p++) {
                cr_assert_eq(w->end[k].dst[p * BLOCK * sizeof(int32_t)], post + 10 * p + k);
            }
        }
    }
    uint64_t times = atomic_load(&hd_near_found) - before;
    one_sided_close(w);
    return times;
}

Test(one_sided, blocks_on_both_sides_of_dst_go_directly_where_all_reach_them) {
    cr_expect_gt(found("all"), 0);
}

Test(one_sided, they_come_where_not_all_do) {
    cr_expect_eq(found("some"), 0);
}
