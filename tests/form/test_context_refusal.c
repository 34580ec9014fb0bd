/* test_context_refusal.c: a context that can't be created enters its exchange all the same, and
 * says so there: its peers get an error, and do not wait.
 */
#include "../support/world.h"
#include "core/log.h"
#include "core/mem.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

static _Atomic int named;

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    named += level == HD_LOG_ERROR && strstr(line, "context 1 of 3 can't take part") != NULL;
}

static void listen(void) {
    hd_log_capture(hear, NULL);
}

TestSuite(context_refusal, .init = listen, .timeout = 30);

enum { N = 3, ERRS = 1 };

typedef struct creator {
    ucc_lib_h lib;
    ucc_oob_coll_t oob;
    void (*err)(ucc_context_params_t *params); /* NULL: makes no mistake */
    ucc_context_config_h config;
    ucc_status_t status;
    ucc_context_h context;
} creator_t;

static void *create(void *arg) {
    creator_t *c = arg;
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = c->oob};
    if (c->err) {
        c->err(&params);
    }
    c->status = ucc_context_create(c->lib, &params, c->config, &c->context);
    return NULL;
}

/* Of three, one errs; the others are in the exchange by then, or come later. */
static void two_hear_of_it(void (*err)(ucc_context_params_t *), ucc_context_config_h config,
                           ucc_status_t expected) {
    oob_board_t *board = oob_board_create(N);
    creator_t creator[N] = {0};
    pthread_t thread[N];
    named = 0;
    for (uint32_t i = 0; i < N; i++) {
        ucc_lib_params_t params = {.mask = 0};
        cr_assert_eq(ucc_init(&params, NULL, &creator[i].lib), UCC_OK);
        creator[i].oob = oob_endpoint(board, i);
    }
    creator[ERRS].err = err;
    creator[ERRS].config = config;
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, create, &creator[i]), 0);
    }
    for (uint32_t i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        cr_expect_eq(creator[i].status, expected, "context %u: %s", i,
                     ucc_status_string(creator[i].status));
    }
    cr_expect_eq(named, N - 1, "%d lines name the culprit", named);
    for (uint32_t i = 0; i < N; i++) {
        cr_expect_eq(ucc_finalize(creator[i].lib), UCC_OK);
    }
    oob_board_destroy(board);
}

static void no_such_type(ucc_context_params_t *params) {
    params->mask |= UCC_CONTEXT_PARAM_FIELD_TYPE;
    params->type = (ucc_context_type_t)9;
}

Test(context_refusal, a_wrong_type_is_told_to_the_others) {
    two_hear_of_it(no_such_type, NULL, UCC_ERR_INVALID_PARAM);
}

static void no_segments(ucc_context_params_t *params) {
    params->mask |= UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS;
    params->mem_params = (ucc_mem_map_params_t){.n_segments = 3};
}

Test(context_refusal, wrong_segments_are_told_to_the_others) {
    two_hear_of_it(no_segments, NULL, UCC_ERR_INVALID_PARAM);
}

Test(context_refusal, a_wrong_configuration_is_told_to_the_others) {
    ucc_lib_config_h config;
    cr_assert_eq(ucc_lib_config_read(NULL, NULL, &config), UCC_OK);
    two_hear_of_it(NULL, (ucc_context_config_h)config, UCC_ERR_INVALID_PARAM);
    ucc_lib_config_release(config);
}

/* --- no memory -------------------------------------------------------------------------------- */

static ucc_status_t found;
static _Atomic uint32_t entered;
static ucc_oob_coll_t real;

/* Memory is back when the exchange begins: the peers live in the same process here. */
static ucc_status_t count_entries(void *src, void *dst, size_t bytes, void *info, void **request) {
    hd_alloc_fail_after(-1);
    entered++;
    return real.allgather(src, dst, bytes, info, request);
}

static void *create_peer(void *arg) {
    create(arg);
    return NULL;
}

/* The n-th allocation fails, and all after it. False: so many are not needed. */
static bool lacks_memory_after(long n) {
    static const char tune[] = "alltoallv:0-inf:@onesided"; /* needs memory, too */
    oob_board_t *board = oob_board_create(2);
    creator_t mine = {.oob = oob_endpoint(board, 0)}, peer = {.oob = oob_endpoint(board, 1)};
    pthread_t thread;
    ucc_lib_params_t params = {.mask = 0};
    cr_assert_eq(ucc_init(&params, NULL, &mine.lib), UCC_OK);
    cr_assert_eq(ucc_init(&params, NULL, &peer.lib), UCC_OK);
    cr_assert_eq(ucc_context_config_read(mine.lib, NULL, &mine.config), UCC_OK);
    cr_assert_eq(ucc_context_config_modify(mine.config, "tl/ucp", "TUNE", tune), UCC_OK);
    real = mine.oob;
    mine.oob.allgather = count_entries;
    entered = 0;
    hd_alloc_fail_after(n);
    cr_assert_eq(pthread_create(&thread, NULL, create_peer, &mine), 0);
    while (entered == 0) {
        sched_yield();
    }
    create(&peer);
    pthread_join(thread, NULL);
    hd_alloc_fail_after(-1);
    found = mine.status;
    cr_assert_eq(peer.status, mine.status, "after %ld: %s and %s", n,
                 ucc_status_string(mine.status), ucc_status_string(peer.status));
    for (creator_t *c = &mine; mine.status == UCC_OK && c; c = c == &mine ? &peer : NULL) {
        cr_assert_eq(ucc_context_destroy(c->context), UCC_OK);
    }
    ucc_context_config_release(mine.config);
    cr_assert_eq(ucc_finalize(mine.lib), UCC_OK);
    cr_assert_eq(ucc_finalize(peer.lib), UCC_OK);
    oob_board_destroy(board);
    return mine.status != UCC_OK;
}

Test(context_refusal, who_lacks_memory_tells_the_others) {
    long n = 0;
    while (lacks_memory_after(n)) {
        cr_assert_eq(found, UCC_ERR_NO_MEMORY);
        n++;
    }
    cr_assert_geq(n, 3, "the context, its algorithm, and the records");
}
