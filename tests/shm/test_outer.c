/* test_outer.c: exchanges that go on outside their group, over a network in plain memory between
 * two groups (support/outer_net.h), driven by one thread. */
#include "../support/deadline.h"
#include "../support/outer_net.h"
#include "core/config.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, DEPTH = 8, SEGMENT = 100000 };

static void init(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    hd_clock_init();
    hd_park_init();
}

TestSuite(outer, .init = init, .timeout = 60);

static net_t *net;
static point_t *point; /* of both sides, side 0 first */
static uint32_t total;
static double *value[MOST];

static void open_net(uint32_t n, int arrival) {
    net = net_create(n, arrival, DEPTH, SEGMENT, n + 1);
    total = NET_SIDES * n;
    point = calloc(total, sizeof(*point));
    for (uint32_t i = 0; i < total; i++) {
        point_init(&point[i], net, i / n, i % n);
    }
}

static void close_net(void) {
    cr_assert_eq(atomic_load(&net->accepted), 0, "an act that came late or twice was accepted");
    net_destroy(net);
    free(point);
    for (uint32_t i = 0; i < MOST; i++) {
        free(value[i]);
        value[i] = NULL;
    }
}

/* In place; endpoint i gives i + j at index j. */
static void prepare_allreduce(size_t count) {
    for (uint32_t i = 0; i < total; i++) {
        value[i] = realloc(value[i], count * sizeof(double));
        for (size_t j = 0; j < count; j++) {
            value[i][j] = (double)i + (double)j;
        }
        point_allreduce(&point[i], NULL, value[i], count);
    }
}

static void check_allreduce(size_t count) {
    for (uint32_t i = 0; i < total; i++) {
        cr_assert_eq(point[i].status, UCC_OK, "endpoint %u: %d", i, point[i].status);
        for (size_t j = 0; j < count; j++) {
            double expected = (double)total * ((double)(total - 1) / 2 + (double)j);
            cr_assert(value[i][j] == expected, "endpoint %u, index %zu: %f", i, j, value[i][j]);
        }
    }
}

/* Steps all until they are over. */
static void run(const char *what) {
    deadline_t deadline = deadline_start(what);
    for (uint32_t left = 1; left;) {
        left = 0;
        for (uint32_t i = 0; i < total; i++) {
            left += !point_step(&point[i]);
        }
        deadline_poll(&deadline);
    }
}

/* Steps all for a while; how many are over? */
static uint32_t run_some(void) {
    uint32_t over = 0;
    for (uint32_t sweep = 0; sweep < 300; sweep++) {
        over = 0;
        for (uint32_t i = 0; i < total; i++) {
            over += point_step(&point[i]);
        }
    }
    return over;
}

static void all_end_with(ucc_status_t status) {
    run("failing");
    for (uint32_t i = 0; i < total; i++) {
        cr_assert_eq(point[i].status, status, "endpoint %u: %d", i, point[i].status);
    }
}

/* No request of a slice of outer requests is under way on either side. */
static void nothing_is_under_way(void) {
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        hd_board_t *board = net->side[s].group->board;
        hd_work_t *work = atomic_load(&board->slot[1].work);
        for (uint32_t i = 0; work && i < hd_board_slices(board); i++) {
            cr_assert_eq((uint32_t)atomic_load(&work->slice[i].under_way), 0, "side %u, slice %u",
                         s, i);
        }
    }
}

/* --- what succeeds ---------------------------------------------------------------------------- */

static void small_allreduces(uint32_t n, int arrival) {
    open_net(n, arrival);
    net->twice = true;
    for (uint32_t round = 0; round < 3 * DEPTH; round++) {
        prepare_allreduce(1 + round % 6);
        run("small allreduce");
        check_allreduce(1 + round % 6);
    }
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        cr_assert_eq(atomic_load(&net->side[s].arrived), 3 * DEPTH);
        cr_assert_eq(atomic_load(&net->side[s].closed), 0);
    }
    cr_assert_gt(atomic_load(&net->refused), 3 * DEPTH);
    close_net();
}

Test(outer, the_last_arriver_calls_the_stage_and_whoever_pumps_releases) {
    small_allreduces(3, HD_CFG_ARRIVAL_COUNTER);
    small_allreduces(20, HD_CFG_ARRIVAL_COUNTER);
}

Test(outer, a_fixed_combiner_calls_the_stage_and_whoever_pumps_releases) {
    small_allreduces(3, HD_CFG_ARRIVAL_STATIC);
    small_allreduces(20, HD_CFG_ARRIVAL_STATIC);
}

Test(outer, groups_of_one_have_a_tree_and_a_last_arriver_as_well) {
    small_allreduces(1, HD_CFG_ARRIVAL_AUTO);
    small_allreduces(1, HD_CFG_ARRIVAL_FLAT);
}

static void large_allreduces(uint32_t n, size_t count) {
    open_net(n, HD_CFG_ARRIVAL_AUTO);
    net->twice = true;
    for (uint32_t round = 0; round < 3; round++) {
        prepare_allreduce(count);
        run("large allreduce");
        check_allreduce(count);
        nothing_is_under_way();
    }
    cr_assert_gt(point[0].op.plan.slices, n);
    close_net();
}

Test(outer, units_become_ready_when_their_data_has_come_and_slices_may_be_more_than_members) {
    large_allreduces(1, 100000);
    large_allreduces(2, 7);
    large_allreduces(3, 200001);
}

Test(outer, an_allreduce_of_64_mib_over_two_groups_is_right) {
    open_net(1, HD_CFG_ARRIVAL_AUTO);
    net->segment = (size_t)4 << 20;
    prepare_allreduce((size_t)8 << 20);
    run("64 MiB");
    check_allreduce((size_t)8 << 20);
    close_net();
}

static void prepare_reduce(void) {
    for (uint32_t i = 0; i < total; i++) {
        value[i] = realloc(value[i], sizeof(double));
        *value[i] = i;
        point_reduce(&point[i], value[i], value[i], 1);
    }
}

static void members_go(int arrival) {
    enum { N = 10 };
    open_net(N, arrival);
    net->mute = true;
    prepare_reduce();
    cr_assert_eq(run_some(), total - 3, "all but the root and the two that have called the stage");
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        uint32_t completers = 0;
        for (uint32_t i = s * N; i < (s + 1) * N; i++) {
            completers += point[i].op.completer && (!point[i].over || point[i].op.call.is_root);
        }
        cr_assert_eq(completers, 1, "side %u", s);
    }
    net->mute = false;
    run("reduce");
    cr_assert_eq(*value[0], total * (total - 1) / 2.0);
    close_net();
}

Test(outer, members_that_wait_for_nobody_go_and_the_last_arriver_stays_until_the_release) {
    members_go(HD_CFG_ARRIVAL_COUNTER);
}

Test(outer, a_release_may_bring_a_pointer) {
    enum { BYTES = 3000 };
    uint8_t buffer[6][BYTES];
    open_net(3, HD_CFG_ARRIVAL_AUTO);
    for (uint32_t round = 1; round < 30; round++) {
        for (uint32_t i = 0; i < total; i++) {
            memset(buffer[i], i == 0 ? (int)round : 0, BYTES);
            point_bcast(&point[i], buffer[i], BYTES);
        }
        run("bcast");
        for (uint32_t i = 0; i < total; i++) {
            cr_assert_eq(buffer[i][0], round);
            cr_assert_eq(buffer[i][BYTES - 1], round);
        }
    }
    close_net();
}

/* The board of a persistent call, as long as the pool gives it to each next one. */
Test(outer, a_board_in_use_again_may_have_the_keys_of_65536_uses_before) {
    open_net(2, HD_CFG_ARRIVAL_AUTO);
    for (uint32_t use = 0; use < 2; use++) {
        prepare_allreduce(1);
        run("small allreduce");
        check_allreduce(1);
        for (uint32_t s = 0; s < NET_SIDES; s++) {
            hd_board_t *board = net->side[s].group->board;
            hd_board_reset(board);
            board->head->use += 1 << 16;
        }
    }
    close_net();
}

/* --- what fails ------------------------------------------------------------------------------- */

Test(outer, a_failure_outside_ends_a_small_operation_everywhere) {
    open_net(3, HD_CFG_ARRIVAL_AUTO);
    net->fail_status = UCC_ERR_NO_RESOURCE;
    net->twice = true;
    prepare_allreduce(1);
    all_end_with(UCC_ERR_NO_RESOURCE);
    close_net();
}

Test(outer, a_request_that_fails_ends_a_large_operation_everywhere) {
    for (uint32_t which = 1; which <= 8; which += 3) {
        open_net(2, HD_CFG_ARRIVAL_AUTO);
        net->fail_requests_with = UCC_ERR_NO_RESOURCE;
        net->fail_request = which;
        net->twice = true;
        prepare_allreduce(50000);
        all_end_with(UCC_ERR_NO_RESOURCE);
        nothing_is_under_way();
        close_net();
    }
}

Test(outer, a_time_out_ends_what_is_under_way_before_it_is_reported) {
    open_net(2, HD_CFG_ARRIVAL_AUTO);
    net->mute = true;
    prepare_allreduce(50000);
    run_some();
    cr_assert_gt(net_waiting(net), 0, "requests are under way");
    for (uint32_t i = 0; i < total; i++) {
        point[i].op.task.deadline = 1;
    }
    all_end_with(UCC_ERR_TIMED_OUT);
    nothing_is_under_way();
    net->mute = false;
    cr_assert_gt(atomic_load(&net->side[0].closed), 0);
    cr_assert_gt(atomic_load(&net->side[1].closed), 0);
    close_net();
}

Test(outer, a_release_that_never_comes_is_timed_out) {
    open_net(3, HD_CFG_ARRIVAL_AUTO);
    net->mute = true;
    prepare_allreduce(1);
    run_some();
    point[1].op.task.deadline = 1; /* one is enough for its group */
    point[4].op.task.deadline = 1;
    all_end_with(UCC_ERR_TIMED_OUT);
    close_net();
}

Test(outer, an_abort_of_one_side_ends_both) {
    for (uint32_t sweeps = 1; sweeps < 40; sweeps += 4) {
        open_net(2, HD_CFG_ARRIVAL_AUTO);
        prepare_allreduce(50000);
        for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
            for (uint32_t i = 0; i < total; i++) {
                point_step(&point[i]);
            }
        }
        hd_group_poison(net->side[0].group, UCC_ERR_NOT_FOUND);
        run("abort");
        for (uint32_t i = 0; i < total; i++) {
            cr_assert(point[i].status == UCC_ERR_NOT_FOUND || point[i].status == UCC_OK);
        }
        nothing_is_under_way();
        close_net();
    }
}

Test(outer, a_mismatch_below_is_told_to_the_stage_and_ends_both_sides) {
    open_net(3, HD_CFG_ARRIVAL_AUTO);
    prepare_allreduce(1);
    point_barrier(&point[1]);
    all_end_with(UCC_ERR_INVALID_PARAM);
    cr_assert_eq(atomic_load(&net->side[0].arrived), 1);
    close_net();
}

Test(outer, an_exchange_that_is_cancelled_before_all_have_arrived_never_calls_the_stage) {
    open_net(2, HD_CFG_ARRIVAL_AUTO);
    net->mute = true;
    prepare_allreduce(50000);
    cr_assert_not(point_step(&point[0]));
    point[0].op.task.deadline = 1;
    cr_assert(point_step(&point[0]));
    cr_assert_eq(point[0].status, UCC_ERR_TIMED_OUT);
    /* as if it had looked for poison just before */
    point_t *late = &point[1];
    atomic_store(&hd_common(net->side[0].group)->poison, 0);
    cr_assert_not(late->posted);
    cr_assert_not(point_step(late));
    cr_assert_eq(atomic_load(&net->side[0].arrived), 0);
    hd_group_poison(net->side[0].group, UCC_ERR_TIMED_OUT);
    cr_assert(point_step(late));
    cr_assert_eq(late->status, UCC_ERR_TIMED_OUT);
    close_net();
}

/* Acts with the ref of an exchange whose slot is in use again are tried by `twice`; here: after
 * closing. */
Test(outer, acts_after_an_abort_are_refused) {
    open_net(1, HD_CFG_ARRIVAL_AUTO);
    net->mute = true;
    prepare_allreduce(50000);
    run_some();
    hd_board_t *board = net->side[0].group->board;
    hd_exchange_ref_t ref = {board, &board->exchange[1],        &board->slot[1],
                             1,     hd_outer_key(&point[0].op), point[0].op.plan.slices};
    hd_group_poison(net->side[0].group, UCC_ERR_NOT_FOUND);
    hd_group_poison(net->side[1].group, UCC_ERR_NOT_FOUND);
    all_end_with(UCC_ERR_NOT_FOUND);
    uint32_t unit, slice = ref.slices / 3;
    cr_assert_not(hd_outer_release(&ref, UCC_OK, NULL, 0));
    cr_assert_not(hd_outer_ready(&ref, 0, 1));
    cr_assert_not(hd_outer_claim(&ref, slice, &unit));
    cr_assert_not(hd_outer_finish(&ref, slice, 0, UCC_OK));
    close_net();
}

Test(outer, acts_after_the_end_are_refused_before_the_slot_is_used_again) {
    open_net(2, HD_CFG_ARRIVAL_AUTO);
    prepare_allreduce(50000);
    run("large allreduce");
    hd_board_t *board = net->side[0].group->board;
    hd_exchange_ref_t ref = {board, &board->exchange[1],        &board->slot[1],
                             1,     hd_outer_key(&point[0].op), point[0].op.plan.slices};
    uint32_t unit;
    cr_assert_not(hd_outer_release(&ref, UCC_OK, NULL, 0));
    cr_assert_not(hd_outer_ready(&ref, 0, 1));
    cr_assert_not(hd_outer_claim(&ref, ref.slices / 3, &unit));
    cr_assert_not(hd_outer_finish(&ref, ref.slices / 3, 0, UCC_OK));
    close_net();
}
