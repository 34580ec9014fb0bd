/* test_strangers.c: who is taken for a stranger beside whom one does not yield. */
#define _GNU_SOURCE
#include "threads/strangers.h"

#include "../support/late.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* As what UCX puts in front of it, which knows no fixed address: must not be what is called. */
void *mremap(void *from, size_t before, size_t after, int flags, ...) {
    (void)from, (void)before, (void)after, (void)flags;
    return MAP_FAILED;
}

TestSuite(strangers, .init = hd_clock_init, .timeout = 120);

static uint64_t ticks_of_ms(uint64_t ms) {
    return ms * 1000 * hd_ticks_per_us;
}

static long switches(void) {
    struct rusage use;
    cr_assert_eq(getrusage(RUSAGE_THREAD, &use), 0);
    return use.ru_nvcsw + use.ru_nivcsw;
}

static long naps(void) {
    struct rusage use;
    getrusage(RUSAGE_THREAD, &use);
    return use.ru_nvcsw; /* a yield is none */
}

static void hold_on_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

static pid_t start_stranger(void) {
    pid_t parent = getpid(), child = fork();
    while (child == 0 && getppid() == parent) {
    }
    if (child == 0) {
        _exit(0);
    }
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* A caller with a yield due, which may sleep instead. */
static uint64_t note_one(void) {
    hd_runner_t runner = {.may_doze = true};
    runner.idle = (hd_idle_t){.spent = ticks_of_ms(1), .last = hd_ticks()};
    return hd_idle_note(&runner.idle, runner.idle.last, UINT64_MAX, &runner);
}

/* The first yields only find out. */
static bool is_told_to_sleep(uint64_t seconds) {
    uint64_t began = hd_ticks();
    bool sleep = false;
    while (!sleep && hd_ticks() - began < ticks_of_ms(1000 * seconds)) {
        sleep = note_one() == HD_IDLE_SLEEP;
    }
    return sleep;
}

Test(strangers, beside_a_stranger_one_sleeps_and_does_not_yield) {
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(30));
    cr_assert(hd_processor_has_strangers(hd_ticks()));
    long before = switches();
    for (int i = 0; i < 100 && note_one() == HD_IDLE_SLEEP; i++) {
    }
    cr_assert_lt(switches() - before, 50, "it yields");
    end(stranger);
}

Test(strangers, who_may_not_sleep_yields_beside_strangers_too) {
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(30));
    for (int i = 0; i < 10; i++) {
        hd_idle_t idle = {.spent = ticks_of_ms(1), .last = hd_ticks()};
        cr_assert_neq(hd_idle_note(&idle, idle.last, UINT64_MAX, NULL), HD_IDLE_SLEEP);
        cr_assert_eq(idle.spent, 0);
    }
    end(stranger);
}

static ucc_status_t never(hd_task_t *task) {
    (void)task;
    return UCC_INPROGRESS;
}

/* heddle_test() in a loop: whoever is waited for may need this processor. */
Test(strangers, a_look_without_time_gives_way_beside_strangers) {
    enum { LOOKS = 200000 };
    hd_home_t home = {.refs = 1};
    hd_runner_t runner;
    hd_task_t task;
    hd_runner_init(&runner, true, 64, 1000000); /* no yield, from which it might learn */
    runner.may_doze = true;
    task = (hd_task_t){.magic = HD_TASK_LIVE, .step = never, .home = &home};
    task.req.status = UCC_INPROGRESS;
    task.context = (hd_context_t *)(void *)&runner;
    hd_runner_push(&runner, &task);
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(30));
    long before = naps();
    for (int i = 0; i < LOOKS && naps() == before; i++) {
        cr_assert_eq(hd_runner_wait(&runner, &task, 0, true, 50), UCC_INPROGRESS);
    }
    cr_assert_gt(naps(), before);
    end(stranger);
}

Test(strangers, stranger_that_has_gone_is_forgotten) {
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(30));
    end(stranger);
    uint64_t began = hd_ticks();
    while (hd_processor_has_strangers(hd_ticks()) && hd_ticks() - began < ticks_of_ms(50000)) {
        note_one();
    }
    cr_assert_not(hd_processor_has_strangers(hd_ticks()));
}

/* --- other processes that we wait for --------------------------------------------------------- */

Test(strangers, nobody_is_one_where_other_processes_that_lack_processors_cannot_tell) {
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(30));
    hd_processors_use_t use = hd_processors_share(NULL, 0, true);
    cr_assert_not(use.by_table);
    cr_assert_not(hd_processor_has_strangers(hd_ticks()));
    cr_assert_not(is_told_to_sleep(1));
    hd_processors_part(&use);
    cr_assert(is_told_to_sleep(30));
    end(stranger);
}

Test(strangers, where_they_have_processors_it_does_not_matter_that_they_cannot_tell) {
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    hd_processors_use_t use = hd_processors_share(NULL, 0, false);
    cr_assert(is_told_to_sleep(30));
    hd_processors_part(&use);
    cr_assert(is_told_to_sleep(30));
    end(stranger);
}

static void *shared_memory(void) {
    int fd = memfd_create("of_strangers", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, (off_t)hd_processors_bytes()), 0);
    void *memory = mmap(NULL, hd_processors_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(memory, MAP_FAILED);
    close(fd);
    return memory;
}

static int mappings_of_it(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int n = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        n += strstr(line, "of_strangers") != NULL;
    }
    cr_assert(maps && fclose(maps) == 0);
    return n;
}

/* True: by the table. The use lasts until the process ends. */
static bool share(void *memory, uint64_t name) {
    return hd_processors_share(memory, name, true).by_table;
}

static uint64_t words_noted(const void *memory, uint64_t value) {
    const uint64_t *word = memory;
    uint64_t n = 0;
    for (size_t i = 0; i < hd_processors_bytes() / sizeof(*word); i++) {
        n += word[i] == value;
    }
    return n;
}

/* A child that ends with 0 if all is well. */
static void expect_well(pid_t child) {
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

/* A process of ours that works for long between two yields, and does not say so. */
static pid_t start_worker(void) {
    pid_t parent = getpid(), child = fork();
    if (child != 0) {
        return child;
    }
    while (getppid() == parent) {
        for (uint64_t began = hd_ticks(); hd_ticks() - began < ticks_of_ms(1);) {
        }
        uint64_t began = hd_ticks();
        hd_processor_yields(began);
        sched_yield();
        hd_processor_came_back(began, hd_ticks());
    }
    _exit(0);
}

Test(strangers, who_works_elsewhere_and_does_not_say_so_is_one) {
    hold_on_one_processor();
    pid_t worker = start_worker();
    cr_assert(is_told_to_sleep(30));
    end(worker);
}

static bool is_one_found(void) {
    late_return();
    return hd_processor_has_strangers(hd_ticks());
}

Test(strangers, other_process_that_shares_its_yields_is_none) {
    void *memory = shared_memory();
    hold_on_one_processor();
    cr_assert(share(memory, 7), "each process has names of its own");
    pid_t child = fork();
    if (child == 0) {
        bool shares = share(memory, 1);
        hd_processor_yields(hd_ticks() + ticks_of_ms(1000000)); /* it had it until then */
        _exit(shares ? 0 : 1);
    }
    expect_well(child);
    cr_assert_not(is_one_found());
    hd_processor_yields(hd_ticks() - ticks_of_ms(1000));
    cr_assert(is_one_found(), "and who says nothing is");
}

/* One of them tries; the other only asks. */
Test(strangers, what_one_process_finds_all_know) {
    void *memory = shared_memory();
    hold_on_one_processor();
    cr_assert(share(memory, 7));
    pid_t parent = getpid(), child = fork();
    bool shares = child != 0 || share(memory, 1);
    while (child == 0 && shares && getppid() == parent && !hd_processor_has_strangers(hd_ticks())) {
        usleep(1000);
    }
    if (child == 0) {
        _exit(shares ? 0 : 1);
    }
    pid_t stranger = start_stranger();
    cr_assert(is_told_to_sleep(60));
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        note_one(); /* it may not have looked in time */
    }
    cr_assert_eq(status, 0);
    end(stranger);
}

Test(strangers, teams_of_one_name_use_one_memory_until_the_last_has_gone) {
    void *memory = shared_memory();
    hd_processors_use_t first = hd_processors_share(memory, 7, true);
    hd_processors_use_t second = hd_processors_share(NULL, 7, false);
    cr_assert(first.by_table && second.by_table);
    hd_processors_part(&first);
    hd_processor_yields(12345);
    cr_assert_eq(words_noted(memory, 12345), 1, "it is the memory that was passed");
    munmap(memory, hd_processors_bytes()); /* the team's: there is a mapping of its own */
    cr_assert_eq(mappings_of_it(), 1);
    hd_processors_part(&second);
    cr_assert_eq(mappings_of_it(), 0);
    hd_processor_yields(hd_ticks());
}

Test(strangers, who_has_parted_notes_yields_at_home_and_may_share_others) {
    void *memory = shared_memory();
    hd_processors_use_t use = hd_processors_share(memory, 7, true);
    cr_assert(use.by_table);
    hd_processors_part(&use);
    hd_processor_yields(12345);
    cr_assert_eq(words_noted(memory, 12345), 0);
    cr_assert(share(memory, 8));
}

/* One of them notes its yields elsewhere: for the others it would be a stranger. */
Test(strangers, nobody_is_one_in_memory_that_not_all_can_use) {
    void *first = shared_memory(), *second = shared_memory();
    pid_t child = fork();
    if (child == 0) {
        _exit(share(first, 1) && !share(second, 2) ? 0 : 1);
    }
    expect_well(child);
    hold_on_one_processor();
    pid_t stranger = start_stranger();
    hd_processors_use_t use = hd_processors_share(second, 2, true);
    cr_assert(use.by_table);
    cr_assert_not(is_told_to_sleep(1));
    hd_processors_part(&use);
    use = hd_processors_share(second, 2, false);
    cr_assert(is_told_to_sleep(30), "who has processors");
    hd_processors_part(&use);
    cr_assert(share(first, 1));
    cr_assert(is_told_to_sleep(30), "there all can");
    end(stranger);
}

Test(strangers, memory_that_cannot_be_mapped_again_is_not_used) {
    void *private = mmap(NULL, hd_processors_bytes(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(private, MAP_FAILED);
    cr_assert_not(share(private, 7));
    hd_processor_yields(hd_ticks());
    cr_assert(share(shared_memory(), 8), "and other memory is");
}

Test(strangers, times_of_another_clock_are_not_shared) {
    void *memory = shared_memory();
    pid_t child = fork();
    if (child == 0) {
        hd_clock_counts_cycles = !hd_clock_counts_cycles;
        _exit(share(memory, 1) ? 0 : 1);
    }
    expect_well(child);
    cr_assert_not(share(memory, 1));
}

/* They see as little of each other as threads of two programs. */
Test(strangers, child_of_a_fork_is_not_of_its_parents_teams) {
    void *memory = shared_memory();
    hd_processors_use_t use = hd_processors_share(memory, 7, true);
    cr_assert(use.by_table);
    pid_t child = fork();
    if (child == 0) {
        munmap(memory, hd_processors_bytes());
        bool lets_go = mappings_of_it() == 0;
        hd_processor_yields(12345);
        hd_processors_part(&use); /* of an inherited team */
        void *mine = shared_memory();
        bool begins = share(mine, 1);
        hd_processor_yields(54321);
        hd_processors_part(&use);
        _exit(lets_go && begins && words_noted(mine, 54321) == 1 ? 0 : 1);
    }
    expect_well(child);
    cr_assert_eq(words_noted(memory, 12345) + words_noted(memory, 54321), 0);
    hd_processor_yields(777);
    cr_assert_eq(words_noted(memory, 777), 1);
}

/* It may have worked for long, and what it does not say would be taken for a stranger's. */
Test(strangers, who_goes_to_sleep_says_so) {
    void *memory = shared_memory(), *zeros = shared_memory();
    hd_home_t home = {.refs = 1};
    hd_runner_t runner;
    hd_task_t task = {.magic = HD_TASK_LIVE, .step = never, .home = &home};
    hd_runner_init(&runner, true, 64, 1000000); /* no yield */
    task.req.status = UCC_INPROGRESS;
    task.context = (hd_context_t *)(void *)&runner;
    hd_runner_push(&runner, &task);
    cr_assert(share(memory, 7));
    memset(memory, 0, hd_processors_bytes());
    cr_assert_eq(hd_runner_wait(&runner, &task, 1e-3, true, 0), UCC_INPROGRESS);
    cr_assert_neq(memcmp(memory, zeros, hd_processors_bytes()), 0);
}
