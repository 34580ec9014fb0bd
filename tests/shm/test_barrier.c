/* test_barrier.c: who waits for whom in barrier, fanin and fanout. */
#include "../support/deadline.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>

TestSuite(barrier, .timeout = 60);

enum { N = 20 };

static heddle_group_t *group;
static heddle_ep_t *ep[N];

static void open_group(const char *arrival) {
    setenv("HEDDLE_ARRIVAL", arrival, 1);
    heddle_group_params_t params = {.endpoints = N, .contexts = 1};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
    }
}

static void close_group(void) {
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_leave(ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

static ucc_coll_req_h post_fanin(uint32_t i, uint32_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_FANIN, .root = root};
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, heddle_ep_team(ep[i])), "init");
    must(ucc_collective_post(request), "post");
    return request;
}

/* Each root in turn; the others come in the order of their numbers, so the first of a block before
 * the rest of it. */
static void others_leave_at_once(const char *arrival) {
    open_group(arrival);
    for (uint32_t root = 0; root < N; root++) {
        ucc_coll_req_h of_root = post_fanin(root, root);
        for (uint32_t i = 0; i < N; i++) {
            if (i == root) {
                continue;
            }
            must(ucc_context_progress(heddle_ep_context(ep[0])), "progress");
            cr_assert_eq(ucc_collective_test(of_root), UCC_INPROGRESS, "root %u", root);
            ucc_coll_req_h request = post_fanin(i, root);
            cr_assert_eq(ucc_collective_test(request), UCC_OK, "%s: endpoint %u, root %u", arrival,
                         i, root);
            must(ucc_collective_finalize(request), "finalize");
        }
        cr_assert_eq(heddle_wait(of_root, 30), UCC_OK);
        must(ucc_collective_finalize(of_root), "finalize");
    }
    close_group();
}

Test(barrier, a_fanin_lets_the_others_go_at_once_where_members_combine_for_each_other) {
    others_leave_at_once("static");
}

Test(barrier, a_fanin_lets_the_others_go_at_once_where_barriers_are_butterflies) {
    others_leave_at_once("butterfly");
}

Test(barrier, a_fanin_lets_the_others_go_at_once_where_the_last_arriver_combines) {
    others_leave_at_once("counter");
}

Test(barrier, a_fanin_lets_the_others_go_at_once_where_everybody_looks_at_everybody) {
    others_leave_at_once("flat");
}
