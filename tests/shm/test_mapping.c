/* test_mapping.c: groups whose memory is mapped several times, as it is among processes: here by
 * one, once for each endpoint (DEBUG_MAPPINGS).
 */
#include "../support/resident.h"
#include "shm/small_group.h"
#include "team/team.h"

#include <heddle/heddle.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void init(void) {
    hd_park_init();
}

TestSuite(mapping, .init = init, .timeout = 120);

static hd_group_t *mapped_group(uint32_t n) {
    hd_group_config_t config = small_config();
    config.mappings = n;
    hd_group_t *group = hd_group_create(n, &config);
    cr_assert(group);
    return group;
}

/* --- memory ----------------------------------------------------------------------------------- */

Test(mapping, mappings_share_what_is_before_and_in_the_first_line_of_a_group) {
    hd_group_t *first = mapped_group(2), *a = hd_group_again(first, 1);
    hd_group_t *b = hd_group_again(first, 2);
    cr_assert(a && b && a != b && a != first);
    hd_group_poison(a, UCC_ERR_TIMED_OUT);
    cr_assert_eq(hd_group_poisoned(b), UCC_ERR_TIMED_OUT);
    cr_assert_eq(hd_group_poisoned(first), UCC_ERR_TIMED_OUT);
    atomic_store(&a->home.bell.sleepers, 4 * HD_BELL_SLEEPER);
    cr_assert_eq(atomic_load(&b->home.bell.sleepers), 4 * HD_BELL_SLEEPER);
    atomic_store(&a->home.bell.sleepers, 0);
    cr_assert_eq(atomic_load(&a->home.refs), 1);
    hd_home_pin(&a->home);
    cr_assert_eq(atomic_load(&b->home.refs), 1);
    hd_home_unpin(&a->home);
    hd_home_unpin(&a->home);
    hd_home_unpin(&b->home);
    hd_home_unpin(&first->home);
}

Test(mapping, of_a_program_that_locks_its_memory_only_what_is_used_is_there) {
    enum { MUCH = 64 << 20 };
    if (mlockall(MCL_FUTURE) != 0) {
        cr_skip_test("no memory can be locked");
    }
    size_t before = resident_bytes();
    hd_group_t *first = mapped_group(2), *group = hd_group_again(first, 1);
    cr_assert(group);
    cr_expect_gt(group->mapping.bytes, MUCH);
    cr_expect_lt(resident_bytes() - before, MUCH);
    munlockall();
    hd_home_unpin(&group->home);
    hd_home_unpin(&first->home);
}

Test(mapping, every_part_of_a_board_lies_as_far_from_the_base_in_each_mapping) {
    enum { N = 11 }; /* with a tree */
    hd_group_t *first = mapped_group(N), *a = hd_group_again(first, 1);
    hd_group_t *b = hd_group_again(first, 2);
    hd_board_t *x = a->board, *y = b->board;
    ptrdiff_t between = b->mapping.base - a->mapping.base;
    cr_assert_eq((uint8_t *)y->head - (uint8_t *)x->head, between);
    cr_assert_eq((uint8_t *)y->exchange - (uint8_t *)x->exchange, between);
    cr_assert_eq((uint8_t *)y->slot[3].block[0] - (uint8_t *)x->slot[3].block[0], between);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq((uint8_t *)y->shared[i] - (uint8_t *)x->shared[i], between);
    }
    hd_work_t *one = hd_board_create_work(x, 5), *other = hd_board_create_work(y, 5);
    cr_assert_eq((uint8_t *)other->slice - (uint8_t *)one->slice, between);
    cr_assert_eq((uint8_t *)other->call - (uint8_t *)one->call, between);
    hd_work_free(one);
    hd_work_free(other);
    hd_home_unpin(&a->home);
    hd_home_unpin(&b->home);
    hd_home_unpin(&first->home);
}

/* However large its windows are, boards that are found by matching have memory. */
Test(mapping, of_many_processes_there_is_memory_left_for_what_is_made_later) {
    static const uint32_t many[] = {2, 40, 64, 128, 256};
    for (uint32_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        hd_group_config_t config = small_config();
        config.processes = many[i];
        config.apart = true;
        hd_group_t *group = hd_group_create(many[i], &config);
        cr_assert(group);
        cr_expect(hd_mapping_give(group, (size_t)256 << 20), "%u processes", many[i]);
        hd_home_unpin(&group->home);
    }
}

Test(mapping, members_join_by_a_mapping_each_and_the_others_find_out) {
    enum { N = 3 };
    hd_group_t *first = mapped_group(N), *group[N];
    for (uint32_t i = 0; i < N; i++) {
        group[i] = hd_group_again(first, i + 1);
        cr_assert_not(hd_group_is_complete(group[0]));
        cr_assert_eq(hd_group_join(group[i], i, NULL), UCC_OK);
        cr_assert(hd_board_peer(group[0]->board, i));
        cr_assert(i + 1 == N || !hd_board_peer(group[0]->board, i + 1));
    }
    for (uint32_t i = 0; i < N; i++) {
        cr_assert(hd_group_is_complete(group[i]));
        hd_group_check(group[i]);
        hd_home_unpin(&group[i]->home);
    }
    hd_home_unpin(&first->home);
}

Test(mapping, a_board_found_by_matching_is_found_in_each_mapping) {
    enum { N = 2, USES = 5 };
    hd_group_t *first = mapped_group(N), *group[N];
    for (uint32_t i = 0; i < N; i++) {
        group[i] = hd_group_again(first, i + 1);
        cr_assert_eq(hd_group_join(group[i], i, NULL), UCC_OK);
    }
    cr_assert(hd_group_is_complete(group[0]) && hd_group_is_complete(group[1]));
    for (uint32_t use = 1; use <= USES; use++) {
        hd_board_t *board[N];
        for (uint32_t i = 0; i < N; i++) {
            board[i] = hd_match_join(group[i], NULL, HD_MATCH_TAG, 7, i);
            cr_assert(board[i]);
            cr_assert_eq(board[i]->group, group[i]);
        }
        cr_assert_neq(board[0]->head, board[1]->head);
        cr_assert_eq(board[0]->id, board[1]->id);
        cr_assert_eq(board[0]->head->use, use);
        cr_assert_eq(board[1]->head->use, use);
        hd_match_leave(board[1]);
        hd_match_leave(board[0]);
    }
    hd_home_unpin(&group[0]->home);
    hd_home_unpin(&group[1]->home);
    hd_home_unpin(&first->home);
}

Test(mapping, what_is_given_away_is_new_and_ends_with_the_memory) {
    hd_group_t *first = mapped_group(2);
    uint8_t *one = hd_mapping_give(first, 100), *next = hd_mapping_give(first, 1);
    cr_assert(one && next);
    cr_assert_eq((uintptr_t)one % HD_LINE_PAIR, 0);
    cr_assert_eq(next - one, HD_LINE_PAIR);
    cr_assert_null(hd_mapping_give(first, first->mapping.bytes));
    size_t left = (size_t)(first->mapping.base + first->mapping.bytes - next) - 4 * HD_LINE_PAIR;
    uint8_t *most = hd_mapping_give(first, left);
    cr_assert(most && most + left <= (uint8_t *)hd_common(first));
    cr_assert_null(hd_mapping_give(first, 4 * HD_LINE_PAIR));
    hd_home_unpin(&first->home);
}

Test(mapping, boards_may_be_short_of_memory_and_the_exchange_fails) {
    hd_group_t *first = mapped_group(1 + 1), *a = hd_group_again(first, 1);
    cr_assert_eq(hd_group_join(a, 0, NULL), UCC_OK);
    while (hd_mapping_give(a, 1 << 20)) {
    }
    while (hd_mapping_give(a, HD_LINE_PAIR)) {
    }
    cr_assert_null(hd_match_join(a, NULL, HD_MATCH_TAG, 1, 0));
    hd_home_unpin(&a->home);
    hd_home_unpin(&first->home);
}

/* --- all of it, by the interface -------------------------------------------------------------- */

enum { N = 4, LARGE = 1 << 20 };

static hd_group_t *group_of[N];

static ucc_status_t tagged(heddle_ep_t *ep, uint64_t *x, uint16_t tag) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_TAG | UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .tag = tag,
                            .op = UCC_OP_SUM,
                            .dst.info = {x, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST}};
    ucc_coll_req_h request;
    ucc_status_t status = ucc_collective_init(&args, &request, heddle_ep_team(ep));
    status = status == UCC_OK ? ucc_collective_post(request) : status;
    status = status == UCC_OK ? heddle_wait(request, -1) : status;
    ucc_status_t end = ucc_collective_finalize(request);
    return status == UCC_OK ? end : status;
}

/* Something of each regime, of matched boards, and of the engine. */
static void use_all(heddle_ep_t *ep, void *arg) {
    uint32_t me = heddle_ep_index(ep);
    uint64_t *large = calloc(LARGE, sizeof(*large)), *failures = arg, some[200];
    group_of[me] = heddle_ep_team(ep)->group;
    for (uint64_t round = 1; round <= 20; round++) {
        uint64_t x = me + round;
        bool ok = heddle_barrier(ep) == UCC_OK;
        ok =
            ok && heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_UINT64, UCC_OP_SUM) == UCC_OK;
        ok = ok && x == N * round + 6;
        for (uint32_t i = 0; i < 200; i++) {
            some[i] = me == round % N ? i * round : 0;
        }
        for (uint32_t count = 1; count <= 200; count += 66) { /* inline, lines, staged */
            ok = ok && heddle_bcast(ep, some, count, UCC_DT_UINT64, (uint32_t)round % N) == UCC_OK;
            ok = ok && some[count - 1] == (count - 1) * round;
        }
        large[LARGE - 1] = round;
        ok = ok && heddle_allreduce(ep, HEDDLE_IN_PLACE, large, LARGE, UCC_DT_UINT64, UCC_OP_SUM) ==
                       UCC_OK;
        ok = ok && large[LARGE - 1] == N * round;
        large[LARGE - 1] = 0;
        x = me;
        ok = ok && tagged(ep, &x, (uint16_t)round) == UCC_OK && x == 6;
        __atomic_fetch_add(failures, !ok, __ATOMIC_RELAXED);
    }
    free(large);
}

static bool in_a_mapping(uint64_t value) {
    for (uint32_t i = 0; i < N; i++) {
        const hd_mapping_t *m = &group_of[i]->mapping;
        if (value - (uintptr_t)m->base < m->bytes + sizeof(hd_group_t)) {
            return true;
        }
    }
    return false;
}

/* Of what is in memory, so many words are addresses of a mapping. */
static uint64_t addresses_in(const uint8_t *base, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t found = 0;
    unsigned char there[256];
    for (size_t at = 0; at < bytes; at += page * sizeof(there)) {
        size_t some = bytes - at < page * sizeof(there) ? bytes - at : page * sizeof(there);
        cr_assert_eq(mincore((void *)(uintptr_t)(base + at), some, there), 0);
        for (size_t p = 0; p < some / page; p++) {
            const uint64_t *word = (const uint64_t *)(const void *)(base + at + p * page);
            for (size_t i = 0; (there[p] & 1) && i < page / sizeof(*word); i++) {
                found += in_a_mapping(word[i]);
            }
        }
    }
    return found;
}

/* Any endpoint's: the others have done all they do. */
static void use_and_search(heddle_ep_t *ep, void *arg) {
    uint64_t *failures = arg;
    use_all(ep, arg);
    heddle_barrier(ep);
    if (heddle_ep_index(ep) == 1) {
        const hd_mapping_t *m = &group_of[1]->mapping;
        /* relaxed: nobody takes any more */
        size_t given =
            atomic_load_explicit(&hd_common(group_of[1])->given_away, memory_order_relaxed);
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        cr_assert(m->n == N + 1 && m->number == 2);
        *failures += addresses_in(m->base, (given + page - 1) / page * page);
        *failures += addresses_in(m->base + m->bytes - page, page);
        hd_shared_t *mine = group_of[1]->board->shared[1];
        memcpy(mine->lane[0].payload, &m->base, sizeof(m->base)); /* is it found? */
        cr_assert_eq(addresses_in(m->base, (given + page - 1) / page * page), 1);
    }
    heddle_barrier(ep);
}

Test(mapping, nothing_that_is_shared_is_an_address_of_it) {
    uint64_t failures = 0;
    setenv("HEDDLE_DEBUG_MAPPINGS", "near", 1);
    cr_assert_eq(heddle_run(N, use_and_search, &failures), UCC_OK);
    cr_assert_eq(failures, 0);
}

/* --- forks ------------------------------------------------------------------------------------ */

static _Atomic bool forked;

/* What a child does in its copy of a team, its parent does not see: with an operation in progress,
 * and after many others. */
static void fork_child(heddle_ep_t *ep, void *arg) {
    uint64_t *failures = arg, n_labels;
    const uint64_t *labels;
    bool ok = true;
    for (int i = 0; i < 101; i++) {
        ok = ok && heddle_barrier(ep) == UCC_OK;
    }
    if (heddle_ep_index(ep) == 0) {
        setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
        ucc_coll_req_h request;
        pid_t child = heddle_ibarrier(ep, &request) == UCC_OK ? fork() : -1;
        if (child == 0) {
            labels = heddle_ep_team(ep)->group->labels;
            n_labels = heddle_ep_team(ep)->n;
            bool copied = labels[n_labels - 1] == n_labels - 1;
            _exit(!copied || heddle_wait(request, -1) == UCC_OK || heddle_barrier(ep) == UCC_OK);
        }
        int status = 1;
        atomic_store(&forked, true);
        ok = ok && waitpid(child, &status, 0) == child && status == 0;
        ok = ok && heddle_wait(request, -1) == UCC_OK && ucc_collective_finalize(request) == UCC_OK;
    } else {
        while (!atomic_load(&forked)) {
            sched_yield();
        }
        ok = ok && heddle_barrier(ep) == UCC_OK;
    }
    ok = ok && heddle_barrier(ep) == UCC_OK;
    __atomic_fetch_add(failures, !ok, __ATOMIC_RELAXED);
}

Test(mapping, a_child_has_a_copy_that_is_poisoned_and_not_the_team) {
    static const char *const how[] = {"near", "far"};
    for (int i = 0; i < 2; i++) {
        uint64_t failures = 0;
        atomic_store(&forked, false);
        setenv("HEDDLE_DEBUG_MAPPINGS", how[i], 1);
        cr_assert_eq(heddle_run(2, fork_child, &failures), UCC_OK);
        cr_assert_eq(failures, 0);
    }
}

/* --- shortages -------------------------------------------------------------------------------- */

/* Memory is asked for as if there were plenty, and less is good enough. */
static void with_limit(int what, rlim_t bytes, bool good) {
#if defined(__SANITIZE_ADDRESS__)
    if (what == RLIMIT_AS) {
        cr_skip("the sanitizer has more address space than that");
    }
#endif
    uint64_t failures = 0;
    struct rlimit limit = {bytes, bytes};
    setenv("HEDDLE_DEBUG_MAPPINGS", "near", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert_eq(setrlimit((__rlimit_resource_t)what, &limit), 0);
    cr_assert_eq(heddle_run(N, use_all, &failures) == UCC_OK, good);
    cr_assert_eq(failures, 0);
}

Test(mapping, a_limit_of_files_is_kept) {
    with_limit(RLIMIT_FSIZE, (rlim_t)1 << 30, true);
}

Test(mapping, a_limit_of_files_that_is_too_low_is_an_error) {
    with_limit(RLIMIT_FSIZE, (rlim_t)1 << 16, false);
}

Test(mapping, a_limit_of_address_space_is_shared_by_all_mappings) {
    with_limit(RLIMIT_AS, (rlim_t)40 << 30, true);
}

static _Atomic bool matching_ends;

static void *match_again_and_again(void *arg) {
    while (!atomic_load(&matching_ends)) {
        hd_match_leave(hd_match_join(arg, NULL, HD_MATCH_TAG, 2, 0));
    }
    return NULL;
}

/* The child gives back what was joined before, whoever was inside the table at the fork. */
Test(mapping, a_child_waits_for_no_lock_that_another_thread_of_its_parent_held) {
    enum { FORKS = 200, SECONDS = 10 };
    hd_group_t *first = mapped_group(1), *group = hd_group_again(first, 1);
    cr_assert_eq(hd_group_join(group, 0, NULL), UCC_OK);
    pthread_t thread;
    uint32_t failures = 0;
    hd_board_t *board = hd_match_join(group, NULL, HD_MATCH_TAG, 1, 0);
    cr_assert_eq(pthread_create(&thread, NULL, match_again_and_again, group), 0);
    for (uint32_t i = 0; i < FORKS && !failures; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS);
            hd_match_leave(board);
            _exit(0);
        }
        failures += waitpid(child, &status, 0) != child || status != 0;
    }
    atomic_store(&matching_ends, true);
    pthread_join(thread, NULL);
    cr_expect_eq(failures, 0);
    hd_match_leave(board);
    hd_home_unpin(&group->home);
    hd_home_unpin(&first->home);
}
