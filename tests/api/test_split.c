/* test_split.c: endpoints of sub-teams: who is in which, in what order, and how long they live. */
#include "../support/deadline.h"
#include "core/log.h"
#include "core/mem.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <string.h>

TestSuite(split, .timeout = 60);

enum { N = 10 };

/* --- split, by a thread per endpoint ---------------------------------------------------------- */

typedef struct seen {
    heddle_ep_t *sub;
    ucc_status_t status;
    uint32_t index, size;
    int64_t members; /* decimal digits: numbers in the first team, in the order of the new ones */
} seen_t;

typedef struct choices {
    int64_t color[N], key[N];
    seen_t seen[N];
} choices_t;

/* The members of the sub-team tell each other their numbers in the first one. */
static void look(heddle_ep_t *sub, uint32_t me, seen_t *seen) {
    int64_t mine = me, all[N];
    seen->index = heddle_ep_index(sub);
    seen->size = heddle_ep_size(sub);
    must(heddle_allgather(sub, &mine, all, 1, UCC_DT_INT64), "heddle_allgather");
    for (uint32_t i = 0; i < seen->size; i++) {
        seen->members = 10 * seen->members + all[i];
    }
}

static void split_once(heddle_ep_t *ep, void *arg) {
    choices_t *c = arg;
    uint32_t me = heddle_ep_index(ep);
    seen_t *seen = &c->seen[me];
    seen->sub = ep; /* to be overwritten */
    seen->status = heddle_split(ep, c->color[me], c->key[me], &seen->sub);
    if (seen->sub) {
        look(seen->sub, me, seen);
        must(heddle_leave(seen->sub), "heddle_leave");
    }
}

static void expect(const choices_t *c, uint32_t i, uint32_t index, uint32_t size, int64_t members) {
    const seen_t *seen = &c->seen[i];
    cr_assert_eq(seen->status, UCC_OK);
    cr_assert_eq(seen->index, index, "endpoint %u is %u", i, seen->index);
    cr_assert_eq(seen->size, size, "endpoint %u: size %u", i, seen->size);
    cr_assert_eq(seen->members, members, "endpoint %u: %lld", i, (long long)seen->members);
}

Test(split, equal_colors_form_a_team_in_the_order_of_keys_then_numbers) {
    choices_t c = {.color = {5, 0, 5, 0, 5, 0, 5, 0, 5, 0},
                   .key = {0, 0, -1, 0, 7, 0, 7, 0, INT64_MIN, 0}};
    must(heddle_run(N, split_once, &c), "heddle_run");
    expect(&c, 8, 0, 5, 82046);
    expect(&c, 6, 4, 5, 82046);
    expect(&c, 1, 0, 5, 13579);
    expect(&c, 9, 4, 5, 13579);
}

Test(split, a_negative_color_takes_no_part) {
    choices_t c = {.color = {-1, 3, -1, INT64_MAX, 3, -7, -1, 3, INT64_MIN, 3}};
    must(heddle_run(N, split_once, &c), "heddle_run");
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(c.seen[i].status, UCC_OK);
        cr_assert_eq(c.seen[i].sub == NULL, c.color[i] < 0);
    }
    expect(&c, 4, 1, 4, 1479);
    expect(&c, 3, 0, 1, 3);
}

/* Rows and columns of a grid, split anew in each round, and once more from the rows. */
static void split_often(heddle_ep_t *ep, void *arg) {
    uint32_t me = heddle_ep_index(ep), rows = 3;
    uint64_t *wrong = arg;
    for (uint32_t round = 0; round < 20; round++) {
        heddle_ep_t *row, *column, *single;
        uint64_t one = 1, in_row = 0, in_column = 0, alone = 0;
        must(heddle_split(ep, me % rows, me, &row), "row");
        must(heddle_split(ep, me / rows, -(int64_t)me, &column), "column");
        must(heddle_split(row, heddle_ep_index(row), 0, &single), "single");
        must(heddle_allreduce(row, &one, &in_row, 1, UCC_DT_UINT64, UCC_OP_SUM), "allreduce");
        must(heddle_allreduce(column, &one, &in_column, 1, UCC_DT_UINT64, UCC_OP_SUM), "allreduce");
        must(heddle_allreduce(single, &one, &alone, 1, UCC_DT_UINT64, UCC_OP_SUM), "allreduce");
        bool right = in_row == heddle_ep_size(row) && in_column == heddle_ep_size(column) &&
                     alone == 1 &&
                     heddle_ep_index(column) == heddle_ep_size(column) - 1 - me % rows;
        __atomic_fetch_add(wrong, !right, __ATOMIC_RELAXED);
        must(heddle_leave(round % 2 ? row : column), "heddle_leave");
        must(heddle_leave(round % 2 ? column : row), "heddle_leave");
        must(heddle_leave(single), "heddle_leave");
    }
}

Test(split, splits_follow_each_other_and_nest) {
    uint64_t wrong = 0;
    must(heddle_run(9, split_often, &wrong), "heddle_run");
    cr_assert_eq(wrong, 0);
}

/* --- subsets, by one thread ------------------------------------------------------------------- */

static heddle_group_t *group;
static heddle_ep_t *ep[N], *sub[N];
static ucc_coll_req_h request[N];

static void open_group(uint32_t contexts) {
    heddle_group_params_t params = {.endpoints = N, .contexts = contexts};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
    }
}

static void open_one_context(void) {
    open_group(1);
}

static void open_own_contexts(void) {
    open_group(0);
}

static void leave_all(heddle_ep_t **all) {
    for (uint32_t i = 0; i < N; i++) {
        if (all[i]) {
            must(heddle_leave(all[i]), "heddle_leave");
            all[i] = NULL;
        }
    }
}

static void close_group(void) {
    leave_all(sub);
    leave_all(ep);
    must(heddle_group_destroy(group), "heddle_group_destroy");
    hd_log_capture(NULL, NULL);
}

static const uint32_t list[] = {7, 2, 5};

/* One thread can do it, as no call waits for another. */
static void make_subset(void) {
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(heddle_subset(ep[list[i]], list, 3, &sub[i]), UCC_OK);
        cr_assert_eq(heddle_ep_index(sub[i]), i);
        cr_assert_eq(heddle_ep_size(sub[i]), 3);
    }
}

static void check_subset(void) {
    int64_t sum[3];
    for (uint32_t i = 0; i < 3; i++) {
        sum[i] = list[i];
        must(heddle_iallreduce(sub[i], HEDDLE_IN_PLACE, &sum[i], 1, UCC_DT_INT64, UCC_OP_SUM,
                               &request[i]),
             "heddle_iallreduce");
    }
    cr_assert_eq(heddle_wait_all(request, 3, 30), UCC_OK);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(sum[i], 14);
        must(heddle_request_free(&request[i]), "heddle_request_free");
    }
}

Test(split, a_subset_is_numbered_as_listed_and_one_thread_can_form_it, .init = open_one_context,
     .fini = close_group) {
    make_subset();
    check_subset();
    leave_all(sub);
    make_subset();
    check_subset();
}

Test(split, operations_wait_until_all_members_have_come, .init = open_own_contexts,
     .fini = close_group) {
    must(heddle_subset(ep[7], list, 3, &sub[0]), "heddle_subset");
    must(heddle_ibarrier(sub[0], &request[0]), "heddle_ibarrier");
    cr_assert_eq(heddle_wait(request[0], 0.001), UCC_INPROGRESS);
    for (uint32_t i = 1; i < 3; i++) {
        must(heddle_subset(ep[list[i]], list, 3, &sub[i]), "heddle_subset");
        must(heddle_ibarrier(sub[i], &request[i]), "heddle_ibarrier");
    }
    cr_assert_eq(heddle_wait_all(request, 3, 30), UCC_OK);
}

Test(split, a_sub_team_outlives_the_endpoints_that_it_was_made_from, .init = open_own_contexts,
     .fini = close_group) {
    make_subset();
    leave_all(ep);
    check_subset();
}

Test(split, an_aborted_team_leaves_the_other_alone, .init = open_one_context, .fini = close_group) {
    make_subset();
    must(heddle_team_abort(heddle_ep_team(ep[0])), "heddle_team_abort");
    check_subset();
}

Test(split, a_sub_team_that_was_aborted_at_once_is_formed_all_the_same, .init = open_one_context,
     .fini = close_group) {
    must(heddle_subset(ep[7], list, 3, &sub[0]), "heddle_subset");
    must(heddle_team_abort(heddle_ep_team(sub[0])), "heddle_team_abort");
    for (uint32_t i = 1; i < 3; i++) {
        cr_assert_eq(heddle_subset(ep[list[i]], list, 3, &sub[i]), UCC_OK);
        cr_assert_eq(heddle_barrier(sub[i]), HEDDLE_ERR_ABORTED);
    }
}

/* A member that forms the team by UCC's calls goes before it has come: who is active already must
 * hear of it. */
Test(split, who_has_gone_ahead_hears_of_a_member_that_goes, .init = open_one_context,
     .fini = close_group) {
    uint64_t numbers[] = {7, 2, 5}, *eps = numbers;
    ucc_team_h team;
    must(heddle_subset(ep[7], list, 3, &sub[0]), "heddle_subset");
    must(heddle_ibarrier(sub[0], &request[0]), "heddle_ibarrier");
    must(ucc_create_team_from_eps(heddle_ep_team(ep[2]), &eps, 3, &team), "from_eps");
    must(ucc_team_destroy(team), "ucc_team_destroy");
    cr_assert_eq(heddle_wait(request[0], 30), UCC_ERR_NOT_FOUND);
    must(heddle_request_free(&request[0]), "heddle_request_free");
    must(heddle_leave(sub[0]), "heddle_leave");
    sub[0] = NULL;
}

static char last_line[512];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

/* The second of three runs out of memory after so many allocations. True if it did not. */
static bool form_with_memory_for(long allocations) {
    must(heddle_subset(ep[list[0]], list, 3, &sub[0]), "heddle_subset");
    must(heddle_ibarrier(sub[0], &request[0]), "heddle_ibarrier");
    hd_alloc_fail_after(allocations);
    ucc_status_t status = heddle_subset(ep[list[1]], list, 3, &sub[1]);
    hd_alloc_fail_after(-1);
    if (status == UCC_OK) {
        must(heddle_subset(ep[list[2]], list, 3, &sub[2]), "heddle_subset");
        must(heddle_ibarrier(sub[1], &request[1]), "heddle_ibarrier");
        must(heddle_ibarrier(sub[2], &request[2]), "heddle_ibarrier");
        cr_assert_eq(heddle_wait_all(request, 3, 30), UCC_OK);
        for (uint32_t i = 0; i < 3; i++) {
            must(heddle_request_free(&request[i]), "heddle_request_free");
        }
        return true;
    }
    cr_assert_eq(status, UCC_ERR_NO_MEMORY);
    cr_assert_eq(heddle_wait(request[0], 30), UCC_ERR_NO_MEMORY, "who came before is told (%ld)",
                 allocations);
    must(heddle_request_free(&request[0]), "heddle_request_free");
    status = heddle_subset(ep[list[2]], list, 3, &sub[2]);
    if (status == UCC_OK) { /* it ran out after it had come */
        status = heddle_barrier(sub[2]);
        must(heddle_leave(sub[2]), "heddle_leave");
        sub[2] = NULL;
    }
    cr_assert_eq(status, UCC_ERR_NO_MEMORY, "so is who comes after (%ld)", allocations);
    must(heddle_leave(sub[0]), "heddle_leave");
    sub[0] = NULL;
    return false;
}

Test(split, nobody_waits_for_a_member_that_ran_out_of_memory, .init = open_one_context,
     .fini = close_group) {
    long allocations = 0;
    while (!form_with_memory_for(allocations)) {
        allocations++;
    }
    cr_assert_gt(allocations, 4);
}

/* As above, but the one that runs out is the first to come: those who come later are told, if there
 * was memory for the meeting. */
static bool form_with_memory_for_the_first(long allocations, uint32_t *told) {
    hd_log_capture(capture, NULL);
    last_line[0] = '\0';
    hd_alloc_fail_after(allocations);
    ucc_status_t status = heddle_subset(ep[list[0]], list, 3, &sub[0]);
    hd_alloc_fail_after(-1);
    if (status == UCC_OK) {
        for (uint32_t i = 1; i < 3; i++) {
            must(heddle_subset(ep[list[i]], list, 3, &sub[i]), "heddle_subset");
        }
        check_subset();
        leave_all(sub);
        return true;
    }
    cr_assert_eq(status, UCC_ERR_NO_MEMORY);
    cr_assert(strstr(last_line, "memory"), "%ld: no line", allocations);
    if (!strstr(last_line, "no memory for a meeting")) {
        for (uint32_t i = 1; i < 3; i++) {
            status = heddle_subset(ep[list[i]], list, 3, &sub[i]);
            if (status == UCC_OK) { /* it ran out after it had come */
                status = heddle_barrier(sub[i]);
            }
            cr_assert_eq(status, UCC_ERR_NO_MEMORY, "%ld", allocations);
        }
        leave_all(sub);
        ++*told;
    }
    return false;
}

Test(split, nobody_waits_for_the_first_member_that_ran_out_of_memory, .init = open_one_context,
     .fini = close_group) {
    long allocations = 0;
    uint32_t told = 0;
    while (!form_with_memory_for_the_first(allocations, &told)) {
        allocations++;
    }
    cr_assert_gt(told, 2);
}

static void refused(ucc_status_t status, const char *words) {
    cr_assert_eq(status, UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, words), "'%s' lacks '%s'", last_line, words);
}

Test(split, mistakes_have_a_status_and_a_line, .init = open_one_context, .fini = close_group) {
    uint32_t twice[] = {1, 2, 1}, outside[] = {0, N};
    hd_log_capture(capture, NULL);
    refused(heddle_subset(NULL, list, 3, &sub[0]), "not an endpoint");
    refused(heddle_subset(ep[2], NULL, 3, &sub[0]), "list");
    refused(heddle_subset(ep[2], list, 3, NULL), "sub");
    refused(heddle_subset(ep[2], list, 0, &sub[0]), "n is 0");
    refused(heddle_subset(ep[1], list, 3, &sub[0]), "does not contain the caller");
    refused(heddle_subset(ep[1], twice, 3, &sub[0]), "there twice");
    refused(heddle_subset(ep[0], outside, 2, &sub[0]), "out of range");
    refused(heddle_split(NULL, 0, 0, &sub[0]), "not an endpoint");
    refused(heddle_split(ep[0], 0, 0, NULL), "sub");
    cr_assert_null(sub[0]);
}
