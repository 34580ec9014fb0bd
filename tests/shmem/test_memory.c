/* test_memory.c: heaps and globals of PEs that live in several processes. */
#include "shell.h"

TestSuite(memory, .timeout = 60);

static int run(int n, int processes, const char *what, const char *words) {
    char line[128];
    snprintf(line, sizeof(line), "timeout 20 $SHMEMRUN -n %d -p %d $PROCESSES %s 2>&1", n,
             processes, what);
    return shell(line, words);
}

Test(memory, globals_are_symmetric_across_processes) {
    cr_expect_eq(run(5, 1, "globals", "processes: 1\n"), 0);
    cr_expect_eq(run(2, 2, "globals", "processes: 2\n"), 0);
    cr_expect_eq(run(4, 2, "globals", "processes: 2\n"), 0);
    cr_expect_eq(run(7, 3, "globals", "processes: 3\n"), 0);
    cr_expect_eq(run(4, 16, "globals", "processes: 4\n"), 0);
}

Test(memory, heaps_are_symmetric_across_processes) {
    cr_expect_eq(run(4, 1, "heap", "through"), 0);
    cr_expect_eq(run(4, 2, "heap", "through"), 0);
    cr_expect_eq(run(4, 4, "heap", "through"), 0);
}

/* So Heddle's large collectives find them. */
Test(memory, heaps_of_several_processes_are_told_to_heddle) {
    static const char heaps[] = "timeout 20 env HEDDLE_LOG_LEVEL=info $SHMEMRUN -n 3 -p %d "
                                "$PROCESSES heap 2>&1 | grep -c \"or libheddle_shmem's, of\"";
    for (int p = 1; p <= 3; p++) {
        char line[256], words[8];
        snprintf(line, sizeof(line), heaps, p);
        snprintf(words, sizeof(words), "%d\n", p > 1 ? p : 0);
        cr_expect_eq(shell(line, words), p > 1 ? 0 : 1);
    }
}

Test(memory, what_can_not_be_had_is_told) {
    cr_expect_eq(shell("ulimit -f 1000; timeout 20 $SHMEMRUN -n 2 -p 2 $PROCESSES heap 2>&1",
                       "symmetric memory: more than the limit of a file's size"),
                 2);
    cr_expect_eq(shell("SHMEM_SYMMETRIC_SIZE=64T timeout 20 $SHMEMRUN -n 16 -p 2 $PROCESSES 2>&1",
                       "shmemrun: symmetric memory: "),
                 2);
    cr_expect_eq(
        shell("timeout 20 $SHMEMRUN -n 2 -p 2 /etc/hostname 2>&1", "is no program for shmemrun"),
        2);
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 2 -p 2 /no/such/file 2>&1", "can't be read"), 2);
}
