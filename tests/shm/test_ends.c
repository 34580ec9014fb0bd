/* test_ends.c: parts of an exchange that the reader reads and the source writes. */
#include "../support/deadline.h"
#include "../support/forbidden.h"
#include "../support/processes.h"
#include "shm/far.h"
#include "support/random.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

TestSuite(ends, .timeout = 120);

#define EPOCH (UINT64_C(7) << 32)

static hd_far_t far_of(uint64_t epoch) {
    return (hd_far_t){.epoch = epoch};
}

Test(ends, each_part_is_taken_once) {
    hd_far_t far = far_of(EPOCH);
    hd_window_t window = {.taken = EPOCH - 1, .written = EPOCH - 1}; /* of the set's last use */
    uint32_t part;
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_not(hd_ends_are_done(&far, &window, 3));
        cr_assert(hd_ends_take(&far, &window, 3, i == 1, &part));
        cr_assert_eq(part, i);
    }
    cr_assert_not(hd_ends_take(&far, &window, 3, false, &part));
    cr_assert_not(hd_ends_are_done(&far, &window, 3), "the source has not written its part");
    hd_ends_wrote(&far, &window);
    cr_assert(hd_ends_are_done(&far, &window, 3));
}

Test(ends, as_many_as_can_be_may_all_be_the_source_s) {
    hd_far_t far = far_of(EPOCH);
    hd_window_t window = {0};
    uint32_t part = 0, n = 0;
    while (hd_ends_take(&far, &window, HD_ENDS_MOST, true, &part)) {
        cr_assert_eq(part, n++);
        hd_ends_wrote(&far, &window);
    }
    cr_assert_eq(n, HD_ENDS_MOST);
    cr_assert(hd_ends_are_done(&far, &window, HD_ENDS_MOST));
    cr_assert(hd_ends_close(&far, &window));
    cr_assert(hd_ends_are_done(&far, &window, HD_ENDS_MOST));
}

Test(ends, who_closes_waits_for_what_the_source_has_taken) {
    hd_far_t far = far_of(EPOCH);
    hd_window_t window = {0};
    uint32_t part;
    cr_assert(hd_ends_take(&far, &window, 8, false, &part));
    cr_assert(hd_ends_take(&far, &window, 8, true, &part));
    cr_assert(hd_ends_take(&far, &window, 8, true, &part));
    cr_assert_not(hd_ends_close(&far, &window));
    cr_assert_not(hd_ends_take(&far, &window, 8, true, &part), "it is closed");
    cr_assert_not(hd_ends_take(&far, &window, 8, false, &part), "it is closed");
    hd_ends_wrote(&far, &window);
    cr_assert_not(hd_ends_close(&far, &window));
    hd_ends_wrote(&far, &window);
    cr_assert(hd_ends_close(&far, &window));
}

/* However many exchanges ago its windows had such data. */
Test(ends, what_nobody_has_begun_is_closed_too) {
    static const uint64_t before[] = {1, UINT64_C(1) << 31, (UINT64_C(1) << 31) + 5, UINT32_MAX};
    for (uint32_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        hd_far_t far = far_of(EPOCH);
        uint64_t last = EPOCH - (before[i] << 32);
        hd_window_t window = {.taken = last | 3 << 15 | 2, .written = last | 2};
        uint32_t part;
        hd_ends_open(&far, &window);
        cr_assert(hd_ends_close(&far, &window));
        cr_assert_not(hd_ends_take(&far, &window, 8, true, &part), "%u", i);
    }
}

/* The windows may belong to another exchange by then, whose numbers may have wrapped. */
Test(ends, who_closes_late_does_not_disturb_the_next) {
    static const uint64_t last[] = {EPOCH, UINT64_C(0xffffffff) << 32};
    for (uint32_t i = 0; i < 2; i++) {
        hd_far_t far = far_of(last[i]), next = far_of(last[i] + (UINT64_C(1) << 32));
        hd_window_t window = {0};
        uint32_t part;
        cr_assert(hd_ends_take(&next, &window, 8, true, &part));
        cr_assert(hd_ends_close(&far, &window));
        cr_assert(hd_ends_take(&next, &window, 8, true, &part));
        cr_assert_eq(part, 1);
    }
}

/* --- a reader that gives up ------------------------------------------------------------------- */

enum { BYTES = 4 << 20, GRAIN = 64 << 10, ROUNDS = 100 };

typedef struct run {
    useconds_t after; /* the reader gives up */
    bool is_spoilt;
} run_t;

/* The last bytes of all that could be parts: these are written last. */
static void look(const uint8_t *buffer, uint8_t *seen) {
    for (size_t i = 0; i < BYTES / GRAIN; i++) {
        seen[i] = ((const volatile uint8_t *)buffer)[(i + 1) * GRAIN - 1];
    }
}

/* Endpoint 1 gives up a bcast of which the kernel may be writing a part to it. */
static void give_up(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    bool reads = heddle_ep_index(ep) == 1;
    uint8_t *buffer = malloc(BYTES), before[BYTES / GRAIN], after[BYTES / GRAIN];
    ucc_coll_req_h request;
    memset(buffer, reads ? 1 : 2, BYTES);
    heddle_barrier(ep);
    if (heddle_ibcast(ep, buffer, BYTES, UCC_DT_UINT8, 0, &request) != UCC_OK) {
        cr_assert_not(reads); /* who has given up before the source came */
        free(buffer);
        return;
    }
    if (reads) {
        heddle_wait(request, run->after * 1e-6);
        heddle_team_abort(heddle_ep_team(ep));
        heddle_wait(request, -1);
        look(buffer, before);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        look(buffer, after);
        run->is_spoilt = memcmp(before, after, sizeof(before)) != 0;
    } else {
        heddle_wait(request, -1);
    }
    heddle_request_free(&request);
    free(buffer);
}

Test(ends, nothing_is_written_to_a_reader_that_has_given_up) {
    uint64_t random = 24;
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        run_t run = {.after = (useconds_t)random_below(&random, 500)};
        heddle_run(2, give_up, &run);
        cr_assert_not(run.is_spoilt, "round %u, after %u us", i, (unsigned)run.after);
    }
}

/* --- the right data, whoever copies them ------------------------------------------------------ */

enum { N = 4, LONGEST = 700001 }; /* the longest block: more than two parts of the largest size */

typedef struct exchange {
    size_t block; /* bytes; v types: of endpoint i's block, i times 1000 fewer */
    bool refused; /* the source may not write */
    bool wrong[N];
} exchange_t;

static uint8_t value(uint32_t from, uint32_t to, size_t i) {
    return (uint8_t)(from * 5 + to * 3 + i % 251 + i / 65536);
}

static void fill(uint8_t *at, uint32_t from, uint32_t to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = value(from, to, i);
    }
}

static bool is_right(const uint8_t *at, uint32_t from, uint32_t to, size_t bytes) {
    bool right = true;
    for (size_t i = 0; i < bytes; i++) {
        right = right && at[i] == value(from, to, i);
    }
    return right;
}

/* Each rooted collective, from and to each root. */
static void all_rooted(heddle_ep_t *ep, void *arg) {
    exchange_t *x = arg;
    uint32_t n = heddle_ep_size(ep), me = heddle_ep_index(ep);
    hd_group_t *group = heddle_ep_team(ep)->group;
    uint8_t *all = malloc(n * x->block), *own = malloc(x->block);
    uint64_t counts[N], at[N];
    bool right = all && own;
    heddle_barrier(ep);
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = x->block - i * 1000;
        at[i] = i * x->block;
        cr_assert_eq(hd_pull_writes(group, group->home_of[i]), !x->refused);
    }
    for (uint32_t root = 0; root < n; root++) {
        fill(own, root, 0, x->block);
        if (me != root) {
            memset(own, 0, x->block);
        }
        right &= heddle_bcast(ep, own, x->block, UCC_DT_UINT8, root) == UCC_OK &&
                 is_right(own, root, 0, x->block);
        for (uint32_t v = 0; v < 2; v++) {
            uint64_t count = v ? counts[me] : x->block;
            fill(own, me, root, count);
            memset(all, 0, n * x->block);
            right &= (v ? heddle_gatherv(ep, own, count, all, counts, at, UCC_DT_UINT8, root)
                        : heddle_gather(ep, own, all, count, UCC_DT_UINT8, root)) == UCC_OK;
            for (uint32_t i = 0; me == root && i < n; i++) {
                right &= is_right(all + at[i], i, root, v ? counts[i] : x->block);
            }
            for (uint32_t i = 0; i < n; i++) {
                fill(all + at[i], root, i, x->block);
            }
            memset(own, 0, x->block);
            right &= (v ? heddle_scatterv(ep, all, counts, at, own, count, UCC_DT_UINT8, root)
                        : heddle_scatter(ep, all, own, count, UCC_DT_UINT8, root)) == UCC_OK &&
                     is_right(own, root, me, count);
        }
    }
    x->wrong[me] = !right;
    free(all);
    free(own);
}

/* From now on the system lets this process read others, and not write to them. */
static void forbid_writing(void) {
    cr_assert(forbid_call(SYS_process_vm_writev, EPERM));
}

static void expect_right(uint32_t n, const char *mapped, size_t block, bool is_refused) {
    exchange_t x = {.block = block, .refused = is_refused};
    setenv("HEDDLE_DEBUG_MAPPINGS", mapped, 1);
    setenv("HEDDLE_PULL_MIN", "1", 1);
    cr_assert_eq(heddle_run(n, all_rooted, &x), UCC_OK);
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_not(x.wrong[i], "endpoint %u of %u, %s, %zu bytes", i, n, mapped, block);
    }
}

Test(ends, two_processes_copy_the_right_data) {
    static const size_t blocks[] = {20001, 65536, 65537, 300000, LONGEST};
    for (uint32_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        expect_right(2, "far", blocks[i], false);
        expect_right(4, "pairs", blocks[i], false);
    }
}

Test(ends, so_does_the_reader_alone_where_the_other_may_not_write) {
    forbid_writing();
    expect_right(2, "far", LONGEST, true);
    expect_right(4, "pairs", LONGEST, true);
}

/* --- memory that only its own process reaches ------------------------------------------------- */

/* Endpoint 1 receives in secret memory, if the system has it. */
static void receive_in_secret(heddle_ep_t *ep, void *arg) {
    enum { TIMES = 20 };
    bool reads = heddle_ep_index(ep) == 1, *wrong = (bool *)arg + reads;
    int fd = -1;
#ifdef SYS_memfd_secret
    fd = reads ? (int)syscall(SYS_memfd_secret, 0) : -1;
#endif
    uint8_t *secret = MAP_FAILED, *buffer = malloc(BYTES);
    if (fd >= 0 && ftruncate(fd, BYTES) == 0) {
        secret = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    uint8_t *at = secret == MAP_FAILED ? buffer : secret;
    for (uint32_t i = 0; i < TIMES; i++) {
        fill(at, reads ? 9 : i, 0, BYTES);
        *wrong |=
            heddle_bcast(ep, at, BYTES, UCC_DT_UINT8, 0) != UCC_OK || !is_right(at, i, 0, BYTES);
    }
    if (secret != MAP_FAILED) {
        munmap(secret, BYTES);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(buffer);
}

Test(ends, the_reader_alone_copies_to_memory_that_nobody_else_reaches) {
    bool wrong[2] = {false, false};
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    cr_assert_eq(heddle_run(2, receive_in_secret, wrong), UCC_OK);
    cr_assert(!wrong[0] && !wrong[1]);
}

/* --- two of several processes ----------------------------------------------------------------- */

enum { SMALL = 8 };

/* In a gatherv of three processes one source's few bytes go with its lane, and one has much. */
static int two_of_three(const process_t *process, void *arg) {
    const size_t block = *(const size_t *)arg;
    uint32_t n = process->size;
    heddle_group_t *group;
    heddle_ep_t *ep;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    uint8_t *all = malloc(n * block), *own = malloc(block);
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    uint32_t me = heddle_ep_index(ep);
    for (uint32_t root = 0; root < n; root++) {
        for (uint32_t much = (root + 1) % n; much != root; much = (much + 1) % n) {
            uint64_t counts[N], at[N];
            for (uint32_t i = 0; i < n; i++) {
                counts[i] = i == much ? block : SMALL;
                at[i] = i * block;
            }
            fill(own, me, root, counts[me]);
            memset(all, 0, n * block);
            must(heddle_gatherv(ep, own, counts[me], all, counts, at, UCC_DT_UINT8, root),
                 "heddle_gatherv");
            for (uint32_t i = 0; me == root && i < n; i++) {
                process_expect(is_right(all + at[i], i, root, counts[i]), "%u to %u", i, root);
            }
        }
    }
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    free(all);
    free(own);
    return 0;
}

Test(ends, two_of_three_processes_copy_the_right_data) {
    static const size_t blocks[] = {65537, 300000, LONGEST, BYTES};
    shape_t shape = shape_even(3, 1);
    for (uint32_t i = 0; i < 4 * sizeof(blocks) / sizeof(blocks[0]); i++) {
        size_t block = blocks[i / 4]; /* who copies what is different each time */
        cr_assert(processes_run(&shape, 100, two_of_three, &block).ok, "%zu bytes", block);
    }
}

/* --- sizes that differ ------------------------------------------------------------------------ */

/* Endpoints of two processes: the root alone, and those it sends blocks to. The root has more for
 * ODD than that expects; so much that the two ends cut all data into parts of different sizes, and
 * parts of ODD's data have other numbers here than there. */
enum { MEMBERS = 9, ODD = 3, SENT = 2 << 20, EXPECTED = 64 << 10, BLOCK = (1 << 20) - 1 };

typedef struct member {
    heddle_group_t *group;
    uint32_t local;
    uint64_t busy; /* bytes that the root copies itself, before it writes to others */
    ucc_status_t status;
    pthread_t thread;
} member_t;

static void *scatter_unlike(void *arg) {
    member_t *member = arg;
    heddle_ep_t *ep;
    must(heddle_join(member->group, member->local, &ep), "heddle_join");
    uint32_t me = heddle_ep_index(ep);
    uint64_t counts[MEMBERS], at[MEMBERS];
    uint8_t *all = calloc(MEMBERS, SENT), *own = calloc(1, SENT);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        counts[i] = i == 0 ? member->busy : i == ODD ? SENT : BLOCK;
        at[i] = (uint64_t)i * SENT;
    }
    member->status = heddle_scatterv(ep, all, counts, at, own, me == ODD ? EXPECTED : counts[me],
                                     UCC_DT_UINT8, 0);
    must(heddle_leave(ep), "heddle_leave");
    free(all);
    free(own);
    return NULL;
}

static int send_too_much(const process_t *process, void *arg) {
    uint32_t rounds = *(const uint32_t *)arg, missed = 0;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (uint32_t round = 0; round < rounds; round++) {
        heddle_group_t *group;
        ucc_oob_coll_t oob = process_group_oob(process, 0);
        heddle_group_params_t params = {.endpoints = process->n, .oob = &oob};
        member_t member[MEMBERS];
        must(heddle_group_create(&params, &group), "heddle_group_create");
        for (uint32_t i = 0; i < process->n; i++) {
            member[i] =
                (member_t){.group = group, .local = i, .busy = (uint64_t)(round % 16) * SENT / 16};
            pthread_create(&member[i].thread, NULL, scatter_unlike, &member[i]);
        }
        for (uint32_t i = 0; i < process->n; i++) {
            pthread_join(member[i].thread, NULL);
            missed += member[i].status == UCC_OK;
        }
        must(heddle_group_destroy(group), "heddle_group_destroy");
        process_barrier(process);
    }
    process_expect(missed == 0, "%u calls returned without an error", missed);
    return 0;
}

Test(ends, a_block_of_another_size_is_an_error_whoever_takes_its_parts) {
    uint32_t rounds = 96;
    shape_t shape = {.processes = 2, .endpoints = {1, MEMBERS - 1}};
    cr_assert(processes_run(&shape, 100, send_too_much, &rounds).ok);
}
