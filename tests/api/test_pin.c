/* test_pin.c: where heddle_run puts its threads: HEDDLE_PIN, and processors that others use. */
#define _GNU_SOURCE
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pin, .timeout = 60);

/* How many threads were bound to one processor, and to that which HEDDLE_PIN named. */
static _Atomic int bound, bound_to_named;
static size_t named;

static void look(heddle_ep_t *ep, void *arg) {
    cpu_set_t set;
    (void)arg;
    sched_getaffinity(0, sizeof(set), &set);
    bound += CPU_COUNT(&set) == 1;
    bound_to_named += CPU_COUNT(&set) == 1 && CPU_ISSET(named, &set);
    (void)heddle_barrier(ep);
}

/* Runs n threads with HEDDLE_PIN = text. */
static ucc_status_t run(const char *text, uint32_t n) {
    setenv("HEDDLE_PIN", text, 1);
    bound = bound_to_named = 0;
    return heddle_run(n, look, NULL);
}

static int processors(cpu_set_t *set) {
    cr_assert_eq(sched_getaffinity(0, sizeof(*set), set), 0);
    return CPU_COUNT(set);
}

static bool some_to_choose_from(void) {
    cpu_set_t set;
    return processors(&set) > 1; /* of one, being bound does not show */
}

Test(pin, always_binds_each_thread) {
    cr_assert_eq(run("always", 2), UCC_OK);
    cr_assert_eq(bound, 2);
    cr_assert_eq(run("always", 5), UCC_OK); /* and where there are more than processors, too */
    cr_assert_eq(bound, 5);
}

Test(pin, none_leaves_threads_where_the_caller_may_run) {
    cr_assert_eq(run("none", 2), UCC_OK);
    cr_assert(bound == 0 || !some_to_choose_from());
}

Test(pin, list_names_the_processors) {
    cpu_set_t set;
    char text[80];
    processors(&set);
    for (named = 0; !CPU_ISSET(named, &set);) {
        named++;
    }
    snprintf(text, sizeof(text), "%zu,%zu-%zu", named, named, named);
    cr_assert_eq(run(text, 3), UCC_OK);
    cr_assert_eq(bound_to_named, 3);
}

static _Atomic int told;

static void listen(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    told += level == HD_LOG_ERROR && strstr(line, "PIN") != NULL;
}

Test(pin, nonsense_is_an_error_that_names_the_variable) {
    static const char *const nonsense[] = {"sometimes", "1;2", "3-1", "-1", "60000", "0-", "0,x"};
    hd_log_capture(listen, NULL);
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        told = 0;
        cr_assert_eq(run(nonsense[i], 2), UCC_ERR_INVALID_PARAM, "%s", nonsense[i]);
        cr_assert_eq(told, 1, "%s", nonsense[i]);
    }
}

/* --- somebody else is there ------------------------------------------------------------------- */

static _Atomic bool over;
static _Atomic int present;

/* As another program's thread that waits, pinned by the same rule. */
static void *occupy(void *arg) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)arg, &set);
    sched_setaffinity(0, sizeof(set), &set);
    present++;
    while (!over) {
        for (int i = 0; i < 1000; i++) {
            atomic_signal_fence(memory_order_seq_cst);
        }
    }
    return NULL;
}

Test(pin, threads_are_not_bound_where_others_run) {
    cpu_set_t set;
    pthread_t thread[4096];
    int n = 0;
    if (!some_to_choose_from()) {
        return;
    }
    processors(&set);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) { /* two of them: even one that yields leaves it busy */
            for (int i = 0; i < 2; i++) {
                n += pthread_create(&thread[n], NULL, occupy, (void *)cpu) == 0;
            }
        }
    }
    while (present < n) {
        sched_yield();
    }
    ucc_status_t status = run("auto", 2);
    over = true;
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
    }
    cr_assert_eq(status, UCC_OK);
    cr_assert_lt(bound, 2);
}
