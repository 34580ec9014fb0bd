/* test_xpmem.c: large collectives among processes that attach each other's memory, by a stand-in
 * for XPMEM (support/xpmem/stand_in.c), on buffers that lie in no heap.
 */
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/heaps.h"
#include "../support/sweeps.h"
#include "../support/xpmem/stand_in.h"
#include "node/xpmem.h"
#include "shm/near.h"
#include "shm/reach.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <heddle/heddle.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(xpmem, .timeout = 240);

enum { SECONDS = 100, COUNT = 100000, ROUNDS = 20 };
enum { WRONG, NEAR }; /* values of a process */

typedef struct way {
    bool without_device[2], refuses[2]; /* by process: it has none; it attaches nothing */
    bool heaps[2];                      /* its buffers lie in heaps */
    const char *xpmem[2];               /* its setting; NULL: auto */
} way_t;

static void set_out(const process_t *process, const way_t *way) {
    uint32_t p = process->me % 2;
    hd_xpmem_library = STAND_IN;
    hd_xpmem_device = way && way->without_device[p] ? "/nonexistent" : "/dev/null";
    setenv("TEST_HEAPS", way && way->heaps[p] ? "all" : "shared", 1);
    if (way && way->refuses[p]) {
        setenv("STAND_IN", "attach", 1);
    }
    setenv("HEDDLE_XPMEM", way && way->xpmem[p] ? way->xpmem[p] : "auto", 1);
}

static uint64_t near_so_far(void) {
    return atomic_load(&hd_near_found);
}

/* --- conformance ------------------------------------------------------------------------------ */

static int run_cases(const process_t *process, void *arg) {
    enum { CASES = 300 };
    set_out(process, arg);
    batch_params_t params = {
        .world = {.size = process->size, .form = WORLD_OOB, .process = process},
        .driver = DRIVER_THREADS};
    process_add(process, WRONG, sweep_reduced(&params));
    process_add(process, WRONG, sweep_random(&params, CASES, 11));
    process_set(process, NEAR, near_so_far());
    return 0;
}

/* How many exchanges were near in process 0. */
static uint64_t conforms(shape_t shape, way_t way) {
    outcome_t outcome = processes_run(&shape, SECONDS, run_cases, &way);
    cr_expect(outcome.ok, "%s", shape_name(&shape));
    for (uint32_t p = 0; p < shape.processes; p++) {
        cr_expect_eq(outcome.value[p][WRONG], 0, "%s, process %u", shape_name(&shape), p);
    }
    return outcome.value[0][NEAR];
}

Test(xpmem, collectives_of_two_processes_are_right_by_it) {
    cr_expect_gt(conforms(shape_even(2, 1), (way_t){0}), 0);
}

Test(xpmem, so_are_those_of_four) {
    cr_expect_gt(conforms(shape_even(4, 1), (way_t){0}), 0);
}

Test(xpmem, so_are_those_of_two_with_several_endpoints) {
    cr_expect_gt(conforms(shape_even(2, 3), (way_t){0}), 0);
}

Test(xpmem, so_are_those_of_one_with_heaps_and_one_without) {
    cr_expect_gt(conforms(shape_even(2, 1), (way_t){.heaps = {true, false}}), 0);
}

Test(xpmem, a_process_without_the_device_keeps_all_far) {
    cr_expect_eq(conforms(shape_even(2, 1), (way_t){.without_device = {false, true}}), 0);
}

Test(xpmem, so_does_one_that_can_attach_nothing) {
    cr_expect_eq(conforms(shape_even(2, 1), (way_t){.refuses = {false, true}}), 0);
}

Test(xpmem, so_does_one_that_does_not_want_to) {
    cr_expect_eq(conforms(shape_even(2, 1), (way_t){.xpmem = {"y", "n"}}), 0);
}

/* They can't be left in the middle, where memory vanishes. */
static int reduce_by_callbacks(const process_t *process, void *arg) {
    enum { MANY = 20000 };
    set_out(process, arg);
    reference_dt_t dt = generic_contiguous();
    batch_params_t params = {
        .world = {.size = process->size, .form = WORLD_OOB, .process = process},
        .driver = DRIVER_THREADS};
    batch_t *batch = batch_open(&params);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        coll_case_t c = {.type = UCC_COLL_TYPE_ALLREDUCE,
                         .size = process->size,
                         .count = MANY,
                         .dt = &dt,
                         .times = 2};
        batch_add(batch, &c);
    }
    process_set(process, WRONG, batch_close(batch));
    process_set(process, NEAR, near_so_far());
    generic_destroy(&dt);
    return 0;
}

Test(xpmem, reductions_of_a_program_go_through_windows) {
    shape_t shape = shape_even(2, 1);
    outcome_t outcome = processes_run(&shape, SECONDS, reduce_by_callbacks, NULL);
    cr_expect(outcome.ok);
    cr_expect_eq(outcome.value[0][WRONG] + outcome.value[1][WRONG], 0);
    cr_expect_eq(outcome.value[0][NEAR], 0);
}

/* --- one team, one call after the other ------------------------------------------------------- */

typedef struct team {
    world_t *world;
    heddle_ep_t *ep;
} team_t;

static team_t form(const process_t *process) {
    world_params_t params = {.size = process->size, .form = WORLD_GROUP, .process = process};
    world_t *world = world_create(&params);
    return (team_t){world, world->endpoints[process->me]};
}

static uint64_t value(uint32_t from, uint64_t at) {
    return from * 1000003u + at;
}

/* Each gives COUNT numbers to all; returns what that said, or UCC_ERR_LAST if results are wrong. */
static ucc_status_t gather(const process_t *process, team_t team, uint64_t *src, uint64_t *dst,
                           uint32_t round) {
    for (uint64_t i = 0; i < COUNT; i++) {
        src[i] = value(process->me + round, i);
    }
    memset(dst, 0xa5, process->size * COUNT * sizeof(*dst));
    ucc_status_t status = heddle_allgather(team.ep, src, dst, COUNT, UCC_DT_UINT64);
    for (uint64_t i = 0; status == UCC_OK && i < process->size * COUNT; i++) {
        if (dst[i] != value((uint32_t)(i / COUNT) + round, i % COUNT)) {
            return UCC_ERR_LAST;
        }
    }
    return status;
}

/* Until an exchange is near: blocks are attached meanwhile. */
static bool becomes_near(const process_t *process, team_t team, uint64_t *src, uint64_t *dst) {
    deadline_t deadline = deadline_start("an exchange to be near");
    uint64_t before = near_so_far(), near = 0;
    for (uint32_t round = 0; near == 0; round++) {
        if (gather(process, team, src, dst, round) != UCC_OK) {
            return false;
        }
        near = near_so_far() > before;
        deadline_poll(&deadline);
    }
    return true;
}

static void *map_shared(void *at, size_t bytes) {
    int fd = memfd_create("shared", MFD_CLOEXEC);
    void *memory = fd < 0 || ftruncate(fd, (off_t)bytes) != 0
                       ? MAP_FAILED
                       : mmap(at, bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    process_expect(memory != MAP_FAILED, "shared memory");
    return memory;
}

static uint32_t forget(bool vanishes) {
    stand_in_forget_fn *forget;
    void *library = dlopen(STAND_IN, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&forget = library ? dlsym(library, "stand_in_forget") : NULL;
    return forget ? forget(vanishes) : 0;
}

/* --- what moves ------------------------------------------------------------------------------- */

static int work_on_what_moves(const process_t *process, void *arg) {
    size_t bytes = COUNT * sizeof(uint64_t);
    set_out(process, arg);
    team_t team = form(process);
    uint64_t *src = map_shared(NULL, bytes), *dst = heaps_alloc(process->size * bytes, true);
    process_expect(becomes_near(process, team, src, dst), "the first buffers");
    for (uint32_t round = 0; round < 3; round++) { /* other memory, at the same address */
        munmap(src, bytes);
        map_shared(src, bytes);
        process_barrier(process);
        process_expect(forget(false) > 0, "nothing was attached");
        process_barrier(process);
        uint64_t before = near_so_far();
        process_expect(gather(process, team, src, dst, round) == UCC_OK, "results");
        process_add(process, NEAR, near_so_far() - before);
    }
    world_destroy(team.world);
    return 0;
}

Test(xpmem, what_is_mapped_anew_at_an_address_is_what_counts_there) {
    shape_t shape = shape_even(2, 1);
    outcome_t outcome = processes_run(&shape, SECONDS, work_on_what_moves, NULL);
    cr_expect(outcome.ok);
    cr_expect_eq(outcome.value[0][NEAR], 3);
}

/* --- what vanishes ---------------------------------------------------------------------------- */

enum { SURVIVED = 2, DOOMED = 1 };

/* Process 1 comes to a collective, and is gone when process 0 does; its end is not known yet. */
static int lose_a_process(const process_t *process, void *arg) {
    size_t bytes = COUNT * sizeof(uint64_t);
    set_out(process, arg);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    team_t team = form(process);
    uint64_t *src = map_shared(NULL, bytes), *dst = map_shared(NULL, process->size * bytes);
    process_expect(becomes_near(process, team, src, dst), "the first buffers");
    process_barrier(process);
    if (process->me == DOOMED) {
        ucc_team_h handle = heddle_ep_team(team.ep);
        ucc_coll_args_t args = {
            .coll_type = UCC_COLL_TYPE_ALLGATHER,
            .src.info = {src, COUNT, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
            .dst.info = {dst, process->size * COUNT, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST}};
        ucc_coll_req_h request;
        process_expect(ucc_collective_init(&args, &request, handle) == UCC_OK, "init");
        process_expect(ucc_collective_post(request) == UCC_OK, "post");
        process_set(process, SURVIVED, 1); /* it has come */
        raise(SIGSTOP);
        return 0;
    }
    deadline_t deadline = deadline_start("the other process to come");
    while (process_get(process, DOOMED, SURVIVED) == 0) {
        deadline_poll(&deadline);
    }
    process_expect(forget(true) > 0, "nothing was attached");
    uint64_t before = near_so_far();
    ucc_status_t status = heddle_allgather(team.ep, src, dst, COUNT, UCC_DT_UINT64);
    process_expect(near_so_far() > before, "the exchange was not near");
    process_expect(status == UCC_ERR_IO_ERROR, "it ended with %s", ucc_status_string(status));
    process_set(process, SURVIVED, 1);
    kill((pid_t)process_get(process, DOOMED, NEAR), SIGKILL);
    world_destroy(team.world);
    return 0;
}

static int lose_a_process_known_by_pid(const process_t *process, void *arg) {
    process_set(process, NEAR, (uint64_t)getpid());
    return lose_a_process(process, arg);
}

Test(xpmem, memory_of_a_process_that_ends_costs_the_others_the_collective_alone) {
    shape_t shape = shape_even(2, 1);
    shape.doomed = 1 << DOOMED;
    outcome_t outcome = processes_run(&shape, SECONDS, lose_a_process_known_by_pid, NULL);
    cr_expect(outcome.ok);
    cr_expect_eq(outcome.value[0][SURVIVED], 1);
}

/* A program takes the signal for itself: nothing is near any more, and all else is as it was. */
static int take_the_signal(const process_t *process, void *arg) {
    size_t bytes = COUNT * sizeof(uint64_t);
    set_out(process, arg);
    team_t team = form(process);
    uint64_t *src = map_shared(NULL, bytes), *dst = map_shared(NULL, process->size * bytes);
    process_expect(becomes_near(process, team, src, dst), "the first buffers");
    signal(SIGBUS, process->me == 0 ? SIG_DFL : SIG_IGN);
    process_barrier(process);
    uint64_t before = near_so_far();
    for (uint32_t round = 0; round < 3; round++) {
        process_expect(gather(process, team, src, dst, round) == UCC_OK, "results");
    }
    process_set(process, NEAR, near_so_far() - before);
    world_destroy(team.world);
    return 0;
}

Test(xpmem, a_program_that_takes_the_signal_has_windows_again) {
    shape_t shape = shape_even(2, 1);
    outcome_t outcome = processes_run(&shape, SECONDS, take_the_signal, NULL);
    cr_expect(outcome.ok);
    cr_expect_eq(outcome.value[0][NEAR], 0);
}

/* --- what others can't have ------------------------------------------------------------------- */

static void *map_secret(size_t bytes) {
#ifdef SYS_memfd_secret
    int fd = (int)syscall(SYS_memfd_secret, 0);
    void *memory = fd < 0 || ftruncate(fd, (off_t)bytes) != 0
                       ? MAP_FAILED
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
#else
    (void)bytes;
    return NULL;
#endif
}

static int work_on_secrets(const process_t *process, void *arg) {
    size_t bytes = COUNT * sizeof(uint64_t);
    set_out(process, arg);
    setenv("HEDDLE_PULL_MIN", "inf", 1); /* which can't have it, either */
    team_t team = form(process);
    uint64_t *src = map_secret(bytes), *dst = map_shared(NULL, process->size * bytes);
    if (!src) {
        return PROCESS_SKIPS;
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        process_expect(gather(process, team, src, dst, round) == UCC_OK, "results");
    }
    process_set(process, NEAR, near_so_far());
    world_destroy(team.world);
    return 0;
}

Test(xpmem, memory_that_the_kernel_lets_nobody_have_goes_through_windows) {
    shape_t shape = shape_even(2, 1);
    outcome_t outcome = processes_run(&shape, SECONDS, work_on_secrets, NULL);
    cr_expect(outcome.ok || WEXITSTATUS(outcome.status[0]) == PROCESS_SKIPS);
    cr_expect_eq(outcome.value[0][NEAR], 0);
}

/* --- what is told of it ----------------------------------------------------------------------- */

static void expect_way(const process_t *process, team_t team, const char *way) {
    hd_text_t text = {0};
    (void)hd_group_way(heddle_ep_team(team.ep)->group, !process->me, &text);
    process_expect(strstr(text.line, way) != NULL, "%s, not %s", text.line, way);
    process_barrier(process);
}

static int look(const process_t *process, void *arg) {
    const way_t *way = arg;
    size_t bytes = COUNT * sizeof(uint64_t);
    set_out(process, way);
    team_t team = form(process);
    uint64_t *src = map_shared(NULL, bytes), *dst = map_shared(NULL, process->size * bytes);
    heddle_barrier(team.ep); /* each has tried, then */
    expect_way(process, team,
               way->xpmem[0] ? "; not by xpmem: XPMEM=n"
                             : "near: xpmem (none of its memory so far); near where all");
    if (way->refuses[0] || way->xpmem[0]) {
        for (uint32_t round = 0; round < ROUNDS; round++) {
            process_expect(gather(process, team, src, dst, round) == UCC_OK, "results");
        }
    } else {
        process_expect(becomes_near(process, team, src, dst), "the first buffers");
    }
    expect_way(process, team,
               way->xpmem[0] ? "; not by xpmem: XPMEM=n"
               : way->refuses[0]
                   ? "not by xpmem: it can't be attached; near where all"
                   : "blocks of its memory attached); near where"); /* of one, or two */
    world_destroy(team.world);
    return 0;
}

Test(xpmem, who_asks_by_which_way_data_go_hears_of_it) {
    shape_t shape = shape_even(2, 1);
    way_t both = {0}, refused = {.refuses = {true, true}}, unwanted = {.xpmem = {"n", "n"}};
    cr_expect(processes_run(&shape, SECONDS, look, &both).ok);
    cr_expect(processes_run(&shape, SECONDS, look, &refused).ok);
    cr_expect(processes_run(&shape, SECONDS, look, &unwanted).ok);
}
