/* test_mistakes.c: libheddle_shmem tells its programs' mistakes, instead of crashing or waiting for
 * ever. They run as everywhere, by shmemrun, in one process and in several.
 */
#include "shell.h"

TestSuite(mistakes, .timeout = 60);

enum { MOST = 3 }; /* processes */

/* Of three PEs in so many processes. */
static int run_in(int processes, const char *mistake, const char *words) {
    char line[128];
    snprintf(line, sizeof(line), "timeout 20 $SHMEMRUN -n 3 -p %d $MISTAKES %s 2>&1", processes,
             mistake);
    return shell(line, words);
}

/* In one process, in two, and with one for each PE. */
static int run(const char *mistake, const char *words) {
    int status = run_in(1, mistake, words);
    for (int p = 2; p <= MOST; p++) {
        cr_expect_eq(run_in(p, mistake, words), status, "%s in %d processes", mistake, p);
    }
    return status;
}

Test(mistakes, a_pe_that_fails_before_shmem_init_ends_all) {
    cr_expect_eq(run("fails-before-init", ""), 3);
}

Test(mistakes, nobody_waits_for_a_pe_that_has_ended_without_shmem_init) {
    cr_expect_eq(run("returns-before-init", "ended without it"), 1);
}

Test(mistakes, calls_before_shmem_init_and_after_shmem_finalize_are_told) {
    const char *words = "shmem_barrier_all: shmem_init has not been called, or shmem_finalize has";
    cr_expect_eq(run("barrier-before-init", words), 1);
    cr_expect_eq(run("barrier-after-finalize", words), 1);
    cr_expect_eq(run("init-after-finalize", "shmem_init: shmem_finalize has been called"), 1);
}

Test(mistakes, shmem_finalize_may_be_called_at_exit) {
    cr_expect_eq(run("finalize-at-exit", "through"), 0);
}

Test(mistakes, handles_that_are_invalid_are_told) {
    cr_expect_eq(run("no-context", "shmem_ctx_long_p: the context is SHMEM_CTX_INVALID"), 1);
    cr_expect_eq(run("not-in-the-team", "shmem_long_sum_reduce: the team is SHMEM_TEAM_INVALID"),
                 1);
}

Test(mistakes, a_lock_that_nobody_holds_is_not_cleared) {
    cr_expect_eq(run("clears-a-free-lock", "shmem_clear_lock: nobody holds the lock"), 1);
}

Test(mistakes, what_no_other_pe_can_change_is_not_waited_for) {
    cr_expect_eq(run("waits-for-its-own", "shmem_long_wait_until_all: "), 1);
}

/* A tenth of a second for what is 10 seconds otherwise. Reads until the line comes; writing the one
 * after that, the program ends. */
static int stalls(const char *mistake, const char *words) {
    char line[256];
    int status = 0;
    setenv("HEDDLE_STALL", "0.1", 1);
    for (int p = 1; p <= MOST; p++) {
        snprintf(line, sizeof(line),
                 "timeout 20 $SHMEMRUN -n 3 -p %d $MISTAKES %s 2>&1 | grep -m1 '%s'", p, mistake,
                 words);
        status |= shell(line, words);
    }
    return status;
}

Test(mistakes, a_wait_that_never_ends_speaks) {
    cr_expect_eq(stalls("waits-for-ever", "stall: PE 1 in shmem_long_wait_until has waited "), 0);
    cr_expect_eq(stalls("waits-for-ever", "s for the variable at byte 0x"), 0);
    cr_expect_eq(
        stalls("waits-for-all-for-ever", "stall: PE 2 in shmem_long_wait_until_all has waited"), 0);
    cr_expect_eq(
        stalls("waits-for-a-signal-for-ever", "stall: PE 0 in shmem_signal_wait_until has waited"),
        0);
    cr_expect_eq(stalls("waits-for-a-lock-for-ever", "stall: PE 2 in shmem_set_lock has waited"),
                 0);
}

Test(mistakes, a_wait_that_never_ends_is_timed_out) {
    setenv("HEDDLE_TIMEOUT", "3", 1); /* which shmem_init must not need */
    cr_expect_eq(
        run("waits-for-ever", "time-out: PE 1 in shmem_long_wait_until has waited in vain"), 1);
}

Test(mistakes, a_full_heap_is_told_once) {
    const char *line =
        "timeout 20 $SHMEMRUN -n 3 $MISTAKES fills-the-heap 2>&1 | grep -c 'no room'";
    const char *apart =
        "timeout 20 $SHMEMRUN -n 3 -p 3 $MISTAKES fills-the-heap 2>&1 | grep -c 'no room'";
    cr_expect_eq(run("fills-the-heap", "SHMEM_SYMMETRIC_SIZE enlarges it"), 0);
    cr_expect_eq(run("fills-the-heap", "no room for 1099511627776 bytes in a symmetric heap of "),
                 0);
    cr_expect_eq(shell(line, "1\n"), 0);
    cr_expect_eq(shell(apart, "1\n"), 0);
}

Test(mistakes, a_global_exit_does_not_wait_for_a_pe_that_reads) {
    cr_expect_eq(run("exits-while-another-reads", "printed"), 4);
}

/* Millions of barriers, which take many times as long on a busy machine. */
Test(mistakes, several_threads_of_a_pe_use_active_sets_at_a_time, .timeout = 200) {
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(run_in(1, "active-sets-of-threads", "through"), 0);
    }
    cr_expect_eq(run_in(2, "active-sets-of-threads", "through"), 0);
}

Test(mistakes, a_pe_that_ends_by_itself_finalizes) {
    cr_expect_eq(run("ends-by-exit", "through"), 0);
    cr_expect_eq(run("ends-by-pthread_exit", "through"), 0);
}

Test(mistakes, exit_destroys_nothing_of_a_program_in_cxx) {
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 3 $EXITS abc 2>&1", "abcabc"), 0);
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 3 -p 2 $EXITS abc 2>&1", "abcabc"), 0);
}

Test(mistakes, a_size_of_the_heap_that_is_none_is_refused) {
    for (int i = 0; i < 4; i++) {
        static const char *const sizes[] = {"abc", "64X", "1 M", "1KB"};
        setenv("SHMEM_SYMMETRIC_SIZE", sizes[i], 1);
        cr_expect_eq(run("", "SHMEM_SYMMETRIC_SIZE"), 2);
    }
    setenv("SHMEM_SYMMETRIC_SIZE", "1.5k", 1);
    cr_expect_eq(run("", "through"), 0);
}

Test(mistakes, a_programs_path_may_be_long) {
    cr_expect_eq(
        shell("d=$(mktemp -d); p=$d; for i in 1 2 3 4 5 6 7 8; do p=$p/$(printf %040d $i); done; "
              "mkdir -p $p && cp $MISTAKES $p/m.so && timeout 20 $SHMEMRUN -n 2 $p/m.so 2>&1; "
              "s=$?; rm -r $d; exit $s",
              "through"),
        0);
}
