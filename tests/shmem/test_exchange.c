/* test_exchange.c: processes of a job come to shmem_init, where they wait for each other. */
#include "shell.h"

TestSuite(exchange, .timeout = 60);

Test(exchange, a_process_that_comes_late_is_waited_for) {
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 3 -p 3 $PROCESSES comes-late 1 2>&1", "through"),
                 0);
}

Test(exchange, a_long_wait_speaks) {
    setenv("HEDDLE_STALL", "0.1", 1);
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 2 -p 2 $PROCESSES comes-late 10 2>&1 | "
                       "grep -m1 'PE 0 in shmem_init'",
                       "s for PEs of the 1 other process"),
                 0);
}

Test(exchange, a_wait_is_timed_out) {
    setenv("HEDDLE_TIMEOUT", "0.5", 1);
    cr_expect_eq(shell("timeout 20 $SHMEMRUN -n 2 -p 2 $PROCESSES comes-late 30 2>&1",
                       "time-out: PE 0 in shmem_init has waited in vain"),
                 1);
}

Test(exchange, many_processes_meet) {
    cr_expect_eq(shell("timeout 50 $SHMEMRUN -n 65 -p 65 $PROCESSES heap 2>&1", "through"), 0);
}
