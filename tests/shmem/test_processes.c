/* test_processes.c: how a job of several processes ends: all of it, and with the right status. */
#include "shell.h"

TestSuite(processes, .timeout = 60);

static const char *const doings[] = {"wait", "compute", "barrier"};

Test(processes, a_process_that_is_killed_ends_all) {
    for (size_t i = 0; i < sizeof(doings) / sizeof(doings[0]); i++) {
        for (int p = 2; p <= 4; p++) {
            char line[128];
            snprintf(line, sizeof(line),
                     "timeout 20 $SHMEMRUN -n 4 -p %d $PROCESSES killed %s 2>&1", p, doings[i]);
            cr_expect_eq(shell(line, p == 4 ? "the process of PE 1 was ended by signal 9 (Killed)"
                                            : "was ended by signal 9 (Killed): all end"),
                         128 + 9, "%s", line);
        }
    }
}

/* What they have printed is not lost, and nobody says that one has died. */
Test(processes, a_global_exit_ends_all) {
    for (size_t i = 0; i < sizeof(doings) / sizeof(doings[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES ends-all %s 2>&1",
                 doings[i]);
        for (int pe = 0; pe < 3; pe++) {
            char words[32];
            snprintf(words, sizeof(words), "PE %d has printed\n", pe);
            cr_expect_eq(shell(line, words), 4, "%s", line);
        }
        snprintf(line, sizeof(line),
                 "timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES ends-all %s 2>&1 | grep -vc printed",
                 doings[i]);
        cr_expect_eq(shell(line, "0\n"), 1);
    }
}

Test(processes, a_process_that_is_stopped_is_ended_with_the_others) {
    cr_expect_eq(
        shell("timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES stopped barrier 2>&1", "printed\n"), 6);
}

Test(processes, a_process_that_ends_without_a_word_ends_all) {
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES without-a-word 2>&1", ""), 9);
}

/* The pipe ends when the last process has. */
Test(processes, processes_end_when_shmemrun_is_gone) {
    cr_expect_eq(
        shell("(timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES kills-shmemrun; echo $?) 2>&1 | cat",
              "137"),
        0);
}

Test(processes, the_first_status_that_is_not_0_is_the_jobs_and_ends_nobody) {
    for (int p = 1; p <= 4; p++) {
        char line[128];
        snprintf(line, sizeof(line), "timeout 20 $SHMEMRUN -n 4 -p %d $PROCESSES status 2>&1", p);
        cr_expect_eq(shell(line, "PE 3 ends"), 1, "%s", line);
    }
}

Test(processes, a_child_of_a_pe_ends_itself_alone) {
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 3 -p 2 $PROCESSES child 2>&1", "through"), 0);
    cr_expect_eq(shell("ALONE=1 timeout 20 $SHMEMRUN -n 1 $PROCESSES child 2>&1", "through"), 0);
}

Test(processes, several_counts_run_one_after_the_other) {
    const char *line = "timeout 20 $SHMEMRUN -n 1,2,5 -p 2 $PROCESSES globals 2>&1 | tr '\n' ' '";
    cr_expect_eq(shell(line, "processes: 1 through processes: 2 through processes: 2 through"), 0);
}

Test(processes, numbers_that_make_no_sense_are_refused) {
    cr_expect_eq(shell("$SHMEMRUN -p 0 $PROCESSES 2>&1", "-p: 0"), 2);
    cr_expect_eq(shell("$SHMEMRUN -n 4 -p 2,4 $PROCESSES 2>&1", "-p: 2,4"), 2);
    cr_expect_eq(shell("$SHMEMRUN -n 300 -p 300 $PROCESSES 2>&1", "more processes than"), 2);
    cr_expect_eq(shell("$SHMEMRUN -p 2 2>&1", "usage"), 2);
}
