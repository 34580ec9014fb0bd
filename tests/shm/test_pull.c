/* test_pull.c: what the kernel reads of another mapping's process, which is this one here
 * (DEBUG_MAPPINGS=far), and when it does.
 */
#include "shm/far.h"
#include "shm/small_group.h"
#include "team/team.h"

#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(pull, .timeout = 120);

enum { N = 3, COUNT = 100000 };

typedef struct run {
    void (*of_first)(hd_group_t *group); /* by endpoint 0, beside all others */
    bool wrong[N];
} run_t;

static void set_up(const char *least) {
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    setenv("HEDDLE_PULL_MIN", least, 1);
}

static void in_a_team(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    heddle_barrier(ep); /* all have tried */
    if (heddle_ep_index(ep) == 0) {
        run->of_first(heddle_ep_team(ep)->group);
    }
    heddle_barrier(ep);
}

static void run_in_a_team(void (*of_first)(hd_group_t *group), ucc_status_t outcome) {
    run_t run = {.of_first = of_first};
    cr_assert_eq(heddle_run(N, in_a_team, &run), outcome);
}

static hd_op_t op_of(hd_group_t *group) {
    return (hd_op_t){.group = group, .call = {.type = HD_SCATTER}};
}

/* What people are told of how that mapping gets far data. */
static void expect_told(const hd_group_t *group, uint32_t mapping, const char *what) {
    hd_text_t text = {0};
    hd_pull_say(group, mapping, &text);
    cr_expect_not_null(strstr(text.line, what), "%s", text.line);
}

static void reads(hd_group_t *group) {
    uint64_t from[4] = {1, 2, 3, 4}, to[4] = {0};
    hd_op_t op = op_of(group);
    for (uint32_t mapping = 0; mapping < N; mapping++) {
        cr_expect(hd_pull_reads(group, group->home_of[mapping]));
    }
    expect_told(group, group->home_of[1], "far: kernel from 1 bytes on");
    cr_expect_eq(hd_pull(&op, group->home_of[1], to, (uintptr_t)from, sizeof(to)), UCC_OK);
    cr_expect_arr_eq(to, from, sizeof(to));
}

Test(pull, what_is_there_is_read) {
    set_up("1");
    run_in_a_team(reads, UCC_OK);
}

static char said[1024];

static void keep(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    strncat(said, line, sizeof(said) - strlen(said) - 1);
}

/* Two pages, of which the second one is gone: what is before it is read, and that is an error; or
 * what is before it is written. The line says whose mistake it is. */
static void fails(hd_group_t *group) {
    uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t other[8192] = {0};
    hd_op_t op = op_of(group);
    cr_assert_neq((void *)page, MAP_FAILED);
    munmap(page + 4096, 4096);
    hd_log_capture(keep, NULL);
    cr_expect_eq(hd_pull(&op, group->home_of[1], other, (uintptr_t)page, sizeof(other)),
                 UCC_ERR_IO_ERROR);
    cr_expect_not_null(strstr(said, "its buffer can't be read there"), "%s", said);
    said[0] = '\0';
    cr_expect_eq(hd_pull(&op, group->home_of[1], page, (uintptr_t)other, sizeof(other)),
                 UCC_ERR_IO_ERROR);
    cr_expect_not_null(strstr(said, "this endpoint's own buffer"), "%s", said);
    hd_log_capture(NULL, NULL);
    munmap(page, 4096);
}

Test(pull, what_is_not_there_is_an_error) {
    set_up("1");
    run_in_a_team(fails, UCC_OK);
}

/* Whose buffer it is may have taken it back. */
static void comes_too_late(hd_group_t *group) {
    uint64_t from = 1, to = 0;
    hd_op_t op = op_of(group);
    hd_group_poison(group, UCC_ERR_TIMED_OUT);
    cr_expect_eq(hd_pull(&op, group->home_of[1], &to, (uintptr_t)&from, sizeof(to)),
                 UCC_ERR_TIMED_OUT);
}

Test(pull, nothing_is_read_for_a_team_that_has_failed) {
    set_up("1");
    run_in_a_team(comes_too_late, UCC_ERR_TIMED_OUT);
}

/* Who writes to a process that may be gone would harm whoever has its number now. */
static void is_kept_back(hd_group_t *group) {
    uint64_t from = 1, to = 0;
    hd_op_t op = op_of(group);
    hd_group_poison(group, UCC_ERR_TIMED_OUT);
    cr_expect_eq(hd_push(&op, group->home_of[1], (uintptr_t)&to, &from, sizeof(to)),
                 UCC_ERR_TIMED_OUT);
    cr_expect_eq(to, 0);
}

Test(pull, nothing_is_written_for_a_team_that_has_failed) {
    set_up("1");
    run_in_a_team(is_kept_back, UCC_ERR_TIMED_OUT);
}

static void writes(hd_group_t *group) {
    uint64_t from[4] = {1, 2, 3, 4}, to[4] = {0};
    hd_op_t op = op_of(group);
    cr_expect_eq(hd_push(&op, group->home_of[1], (uintptr_t)to, from, sizeof(to)), UCC_OK);
    cr_expect_arr_eq(to, from, sizeof(to));
}

Test(pull, what_is_there_is_written) {
    set_up("1");
    run_in_a_team(writes, UCC_OK);
}

/* Its endpoints may have left, and other things lie there. */
Test(pull, who_tries_to_write_changes_nothing_of_the_other_s_group) {
    hd_park_init();
    small_pair_t pair = small_pair_open(2);
    hd_group_t before;
    size_t own = offsetof(hd_group_t, serial); /* what is before it others write to, too */
    cr_assert_eq(hd_group_join(pair.group[0], 0, NULL), UCC_OK);
    memcpy(&before, pair.group[0], sizeof(before));
    cr_assert_eq(hd_group_join(pair.group[1], 1, NULL), UCC_OK); /* the last one tries */
    cr_expect(hd_pull_reads(pair.group[1], 1) && hd_pull_writes(pair.group[1], 1));
    cr_expect_arr_eq((uint8_t *)&before + own, (uint8_t *)pair.group[0] + own,
                     sizeof(before) - own);
    small_pair_close(pair);
}

/* Endpoint 1's process is another one than it has said, so endpoint 0's can't read all. */
static void is_another(heddle_ep_t *ep, void *arg) {
    hd_group_t *group = heddle_ep_team(ep)->group;
    uint32_t me = heddle_ep_index(ep);
    (void)arg;
    heddle_barrier(ep); /* all have tried */
    group->token[0] += me == 1;
    heddle_barrier(ep);
    if (me == 0) {
        hd_pull_try(group);
        cr_expect_not(hd_pull_reads(group, group->mapping.number));
        expect_told(group, group->mapping.number, "far: windows (not by the kernel: memory of ");
        expect_told(group, group->mapping.number, ": it has another pid here)");
    }
    heddle_barrier(ep);
    group->token[0] -= me == 1;
}

static void does_not_read(hd_group_t *group) {
    cr_expect_not(hd_pull_reads(group, group->mapping.number));
    expect_told(group, group->mapping.number,
                "far: windows (not by the kernel: PULL_MIN is inf, or by the profile)");
}

Test(pull, a_process_is_known_by_what_is_in_its_memory) {
    set_up("1");
    cr_expect_eq(heddle_run(N, is_another, NULL), UCC_OK);
}

Test(pull, nobody_reads_if_that_is_never_worth_it) {
    set_up("inf");
    run_in_a_team(does_not_read, UCC_OK);
}

/* --- the right data, whoever reads ------------------------------------------------------------ */

static float value(uint32_t from, uint32_t to, uint32_t i) {
    return (float)(from * 7 + to * 3 + i % 1000);
}

static void exchange(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    float *src = malloc(N * COUNT * sizeof(*src)), *dst = calloc(N * COUNT, sizeof(*dst));
    for (uint32_t i = 0; i < N * COUNT; i++) {
        src[i] = value(me, i / COUNT, i);
    }
    bool right = heddle_alltoall(ep, src, dst, COUNT, UCC_DT_FLOAT32) == UCC_OK;
    for (uint32_t i = 0; i < N * COUNT; i++) {
        right = right && dst[i] == value(i / COUNT, me, me * COUNT + i % COUNT);
    }
    right = right && heddle_bcast(ep, src, N * COUNT, UCC_DT_FLOAT32, 1) == UCC_OK;
    for (uint32_t i = 0; i < N * COUNT; i++) {
        right = right && src[i] == value(1, i / COUNT, i);
    }
    run->wrong[me] = !right;
    free(src);
    free(dst);
}

/* One of the endpoints finds that it can't read the others, so it is fed. */
static void is_refused(heddle_ep_t *ep, void *arg) {
    hd_group_t *group = heddle_ep_team(ep)->group;
    if (heddle_ep_index(ep) == 1) {
        group->pull_min = SIZE_MAX;
        hd_pull_try(group);
        group->pull_min = 1;
        cr_expect_not(hd_pull_reads(group, group->mapping.number));
    }
    heddle_barrier(ep);
    exchange(ep, arg);
}

static void check(const char *least, void (*body)(heddle_ep_t *ep, void *arg)) {
    run_t run = {0};
    set_up(least);
    cr_assert_eq(heddle_run(N, body, &run), UCC_OK);
    for (uint32_t e = 0; e < N; e++) {
        cr_expect_not(run.wrong[e], "endpoint %u, from %s bytes", e, least);
    }
}

Test(pull, data_are_the_same_by_the_kernel_and_by_windows) {
    check("1", exchange);
    check("128k", exchange);
    check("inf", exchange);
}

Test(pull, who_cannot_read_is_fed) {
    check("1", is_refused);
}
