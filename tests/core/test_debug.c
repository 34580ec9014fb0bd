/* test_debug.c: what a failed check says, and what a check costs where there are none. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#undef HD_DEBUG
#define HD_DEBUG 1
#include "core/debug.h"

/* Runs it in a child; what that wrote before it was aborted. */
static const char *last_words(void (*run)(void)) {
    static char text[1024];
    int ends[2], status = 0;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static uint64_t finished = 5, units = 4;

static void finish_too_much(void) {
    hd_assert_le(finished, units);
}

static void be_nobody(void) {
    const int *somebody = NULL;
    hd_assert(somebody);
}

Test(debug, a_failed_comparison_tells_place_expression_and_values) {
    const char *text = last_words(finish_too_much);
    cr_assert(strstr(text, "test_debug.c:"), "%s", text);
    cr_assert(strstr(text, "finished <= units: 5 (0x5) and 4 (0x4)\n"), "%s", text);
}

Test(debug, a_failed_condition_tells_place_and_expression) {
    const char *text = last_words(be_nobody);
    cr_assert(strstr(text, "test_debug.c:"), "%s", text);
    cr_assert(strstr(text, "not somebody\n"), "%s", text);
}

static int evaluated;

static int evaluate(void) {
    return ++evaluated;
}

Test(debug, each_value_is_evaluated_once) {
    hd_assert_lt(0, evaluate());
    hd_assert(evaluate() == 2);
    cr_assert_eq(evaluated, 2);
}

#undef HD_DEBUG
#define HD_DEBUG 0
#undef HD_CORE_DEBUG_H
#undef hd_always
#undef hd_always_lt
#undef hd_always_le
#undef hd_always_eq
#undef hd_compare_
#undef hd_assert
#undef hd_assert_lt
#undef hd_assert_le
#undef hd_assert_eq
#undef hd_checked
#include "core/debug.h"

Test(debug, nothing_is_evaluated_without_checks) {
    evaluated = 0;
    hd_assert(evaluate() == 7);
    hd_assert_eq(evaluate(), 8);
    hd_checked(evaluate());
    cr_assert_eq(evaluated, 0);
}
