/* test_context_stall.c: a context that is created by an exchange blocks, and says so. */
#include "../support/deadline.h"
#include "../support/world.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *wanted;
static atomic_bool said;

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, wanted)) {
        atomic_store(&said, true);
    }
}

static void listen(void) {
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.02", 1);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0); /* 20 s: a hang is found soon */
    hd_log_capture(hear, NULL);
}

TestSuite(context_stall, .init = listen, .timeout = 60);

static void *create_context(void *arg) {
    ucc_lib_params_t params = {.mask = 0};
    ucc_lib_h lib;
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    ucc_context_params_t p = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = *(ucc_oob_coll_t *)arg};
    ucc_context_h context;
    must(ucc_context_create(lib, &p, NULL, &context), "ucc_context_create");
    return NULL;
}

Test(context_stall, a_context_s_exchange_that_not_all_call_is_named) {
    oob_board_t *board = oob_board_create(2);
    ucc_oob_coll_t oob[2] = {oob_endpoint(board, 0), oob_endpoint(board, 1)};
    pthread_t thread[2];
    wanted = "context 0 of 2 has waited";
    pthread_create(&thread[0], NULL, create_context, &oob[0]);
    deadline_t deadline = deadline_start("a line");
    while (!atomic_load(&said)) {
        cr_assert_lt(test_now(), deadline.end);
        sched_yield();
    }
    pthread_create(&thread[1], NULL, create_context, &oob[1]);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
}
