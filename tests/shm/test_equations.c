/* test_equations.c: the walks over boards, groups and task lists find what must not be. Each test
 * breaks one equation of types.h or threads.h, in a child, and looks at what the walk says. */
#include "small_group.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 3 };

static hd_group_t *group;
static hd_board_t *board;

static void setup(void) {
    group = small_group(N);
    board = group->board;
}

static void teardown(void) {
    hd_home_unpin(&group->home);
}

TestSuite(equations, .init = setup, .fini = teardown);

/* What is written before the end of a child that runs this. */
static const char *said_by(void (*run)(void)) {
    static char text[1024];
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    waitpid(child, NULL, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void check_all(void) {
    for (uint32_t i = 0; i < N; i++) {
        hd_board_check(board, i);
        hd_board_check_slot(board, board->member[i]->taken + 1);
    }
    hd_group_check(group);
}

static bool finds(const char *equation) {
    const char *text = said_by(check_all);
    bool found = equation ? strstr(text, equation) != NULL : !text[0];
    if (!found) {
        cr_log_error("instead of %s: %s", equation ? equation : "nothing", text);
    }
    return found;
}

/* Everybody has taken, published and consumed numbers up to `last`. */
static void pass(uint64_t last) {
    for (uint64_t k = 1; k <= last; k++) {
        for (uint32_t i = 0; i < N; i++) {
            hd_member_t *m = board->member[i];
            m->taken = k;
            hd_lane_fill(hd_board_lane(board, i, k), k, 1, HD_REGIME_NONE, 0);
        }
        for (uint32_t i = 0; i < N; i++) {
            hd_board_consume(board, board->member[i], k, true);
        }
    }
}

Test(equations, hold_at_first_and_after_some_rounds_of_the_ring) {
    cr_assert(finds(NULL));
    pass(3 * SMALL_DEPTH + 1);
    cr_assert(finds(NULL));
}

Test(equations, nobody_consumes_what_it_has_not_taken) {
    pass(5);
    atomic_store(&board->shared[1]->consumed, 6);
    cr_assert(finds("consumed <= m->taken"));
}

Test(equations, a_lane_carries_numbers_of_its_slot) {
    pass(5);
    atomic_store(&board->shared[2]->lane[3].seq, 4);
    cr_assert(finds("fits_slot(board, slot, seq)"));
}

Test(equations, no_floor_is_above_what_somebody_has_consumed) {
    pass(5);
    board->member[0]->floor = 5;
    atomic_store(&board->shared[1]->consumed, 4);
    cr_assert(finds("floor <= load(&peer->consumed)"));
}

Test(equations, a_slot_is_not_used_before_all_have_consumed_its_last_number) {
    pass(SMALL_DEPTH);
    atomic_store(&board->shared[2]->consumed, 0);
    board->member[2]->floor = board->member[1]->floor = board->member[0]->floor = 0;
    atomic_store(&board->head->floor, 0);
    for (uint32_t slot = 0; slot < SMALL_DEPTH; slot++) { /* nor has it published anything */
        atomic_store(&board->shared[2]->lane[slot].seq, 0);
    }
    cr_assert(finds("k - board->depth <= load(&peer->consumed)"));
}

Test(equations, what_is_over_but_not_consumed_lies_behind_a_gap) {
    pass(5);
    board->member[0]->over = 1;
    cr_assert(finds("m->over & 1"));
}

Test(equations, the_end_of_a_queue_is_where_its_tail_points) {
    hd_op_t *lost;
    board->member[1]->queue_tail = &lost;
    cr_assert(finds("m->queue_tail == tail"));
}

Test(equations, who_is_counted_as_joined_has_a_member) {
    atomic_store(&hd_common(group)->joined, N + 1);
    cr_assert(finds("there"));
    atomic_store(&hd_common(group)->joined, N);
}

static hd_runner_t runner;
static hd_task_t task[2];

static ucc_status_t never(hd_task_t *t) {
    (void)t;
    return UCC_INPROGRESS;
}

static void make_list(void) {
    hd_runner_init(&runner, true, 1, 1);
    for (int i = 0; i < 2; i++) {
        task[i] = (hd_task_t){.magic = HD_TASK_LIVE, .step = never, .home = &group->home};
        task[i].req.status = UCC_INPROGRESS;
        task[i].context = (hd_context_t *)(void *)&runner; /* whose first member it would be */
        *runner.active_tail = &task[i];
        runner.active_tail = &task[i].next;
    }
}

static void check_list(void) {
    hd_runner_check(&runner);
}

Test(equations, of_a_list_of_tasks_hold) {
    make_list();
    cr_assert_str_empty(said_by(check_list));
}

Test(equations, a_task_that_is_over_is_in_no_list) {
    make_list();
    task[1].req.status = UCC_OK;
    cr_assert(strstr(said_by(check_list), "task->req.status == UCC_INPROGRESS"));
}

Test(equations, a_task_is_in_a_list_once) {
    make_list();
    task[1].next = &task[0];
    cr_assert(strstr(said_by(check_list), "n++ < LONGEST"));
}

Test(equations, a_finalized_request_is_in_no_list) {
    make_list();
    task[0].magic = HD_TASK_FREE;
    cr_assert(strstr(said_by(check_list), "hd_task_is_live(task)"));
}
