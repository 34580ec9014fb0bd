/* test_stall.c: when a line about a long wait is due, and the text that names who is waited for. */
#include "threads/stall.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { FIRST = 1000 };

Test(stall, a_line_is_due_after_the_first_time_and_when_that_has_doubled) {
    hd_stall_t stall = {0};
    cr_assert_not(hd_stall_is_due(&stall, 5000, FIRST));
    cr_assert_not(hd_stall_is_due(&stall, 5999, FIRST));
    cr_assert(hd_stall_is_due(&stall, 6000, FIRST));
    cr_assert_not(hd_stall_is_due(&stall, 6999, FIRST));
    cr_assert(hd_stall_is_due(&stall, 7000, FIRST));
    cr_assert_not(hd_stall_is_due(&stall, 8999, FIRST));
    cr_assert(hd_stall_is_due(&stall, 9000, FIRST));
}

Test(stall, none_is_due_when_lines_are_off) {
    hd_stall_t stall = {0};
    cr_assert_not(hd_stall_is_due(&stall, 1, 0));
    cr_assert_not(hd_stall_is_due(&stall, UINT64_MAX, 0));
}

Test(stall, no_time_and_for_ever_mean_never) {
    hd_clock_init();
    cr_assert_eq(hd_stall_ticks(0), 0);
    cr_assert_eq(hd_stall_ticks(-1), 0);
    cr_assert_eq(hd_stall_ticks(1e300), 0);
    cr_assert_eq(hd_stall_ticks(1e-6), hd_ticks_per_us);
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool is_marked(const void *arg, uint32_t i) {
    return ((const char *)arg)[i] == 'x';
}

static void names(const char *marks, const char *wanted) {
    hd_text_t text = {0};
    hd_text_numbers(&text, (uint32_t)strlen(marks), is_marked, marks);
    cr_assert_str_eq(text.line, wanted);
}

Test(stall, few_endpoints_are_named_one_by_one) {
    names("..x.", "endpoint 2");
    names("x.x.", "endpoints 0 and 2");
    names("xxx.x", "endpoints 0, 1, 2 and 4");
}

Test(stall, many_endpoints_are_named_in_runs) {
    names("...x.xxxxx..xx", "8 of 14 endpoints: 3, 5-9, 12-13");
}

Test(stall, a_list_that_is_too_long_ends_in_dots) {
    char marks[101] = {0};
    for (int i = 0; i < 100; i++) {
        marks[i] = i % 2 ? 'x' : '.';
    }
    names(marks, "50 of 100 endpoints: 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, ...");
}

Test(stall, a_text_that_is_full_stays_a_text) {
    hd_text_t text = {0};
    for (int i = 0; i < 1000; i++) {
        hd_text_add(&text, "%s", "twelve bytes");
    }
    cr_assert_eq(strlen(text.line), sizeof(text.line) - 1);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *tell_number(void *arg) {
    *(int32_t *)arg = hd_thread_number();
    return NULL;
}

Test(stall, a_thread_that_is_gone_has_ended) {
    pthread_t thread;
    int32_t number = 0;
    cr_assert_eq(pthread_create(&thread, NULL, tell_number, &number), 0);
    pthread_join(thread, NULL);
    const char *state;
    do { /* joined a moment before the system forgets it */
        state = hd_thread_state(number);
        cr_assert_not_null(state);
    } while (strcmp(state, "has ended") != 0);
    cr_assert_str_eq(hd_thread_state(hd_thread_number()), "runs");
}
