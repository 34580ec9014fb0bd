/*
 * Log lines: levels, one line per call, destinations.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

typedef struct captured {
    int n;
    hd_log_level_t level;
    char line[4096];
} captured_t;

static void capture(hd_log_level_t level, const char *line, void *arg) {
    captured_t *captured = arg;

    captured->n++;
    captured->level = level;
    snprintf(captured->line, sizeof(captured->line), "%s", line);
}

static captured_t seen;

static void start(void) {
    hd_log_capture(capture, &seen);
    hd_log_set_level(HD_LOG_WARN);
}

TestSuite(log, .init = start);

Test(log, a_line_names_its_level_and_no_internal_function) {
    hd_error("count %d is %s", 3, "odd");
    cr_assert_eq(seen.n, 1);
    cr_assert_eq(seen.level, HD_LOG_ERROR);
    cr_assert_str_eq(seen.line, "[heddle ERROR] count 3 is odd");
}

Test(log, a_line_names_a_function_of_the_interface_once) {
    hd_log_line(HD_LOG_ERROR, "ucc_init", "count %d", 3);
    cr_assert_str_eq(seen.line, "[heddle ERROR] ucc_init: count 3");
    hd_log_line(HD_LOG_ERROR, "heddle_run", "%s: work is NULL", "heddle_run");
    cr_assert_str_eq(seen.line, "[heddle ERROR] heddle_run: work is NULL");
    hd_log_line(HD_LOG_ERROR, "ucc_init", "ucc_init: no memory");
    cr_assert_str_eq(seen.line, "[heddle ERROR] ucc_init: no memory");
}

static void *log_cancelled(void *arg) {
    pthread_cancel(pthread_self());
    hd_error("a line");
    return arg;
}

Test(log, a_cancelled_thread_does_not_end_in_the_middle_of_a_line) {
    pthread_t thread;
    int something;
    void *returned = NULL;
    hd_log_capture(NULL, NULL);
    hd_log_set_file("/dev/null");
    cr_assert_eq(pthread_create(&thread, NULL, log_cancelled, &something), 0);
    pthread_join(thread, &returned);
    cr_assert_eq(returned, &something);
}

Test(log, lines_more_detailed_than_the_level_are_not_formatted) {
    int formatted = 0;

    hd_info("%d", ++formatted);
    cr_assert_eq(seen.n, 0);
    cr_assert_eq(formatted, 0);
    hd_log_set_level(HD_LOG_INFO);
    hd_info("%d", ++formatted);
    cr_assert_eq(seen.n, 1);
}

Test(log, a_line_that_is_too_long_is_cut_visibly) {
    char text[3000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    hd_warn("%s", text);
    cr_assert_lt(strlen(seen.line), 2048);
    cr_assert_str_eq(seen.line + strlen(seen.line) - 4, "x...");
}

Test(log, errno_survives) {
    errno = EBUSY;
    hd_warn("something");
    cr_assert_eq(errno, EBUSY);
}

Test(log, level_names_are_those_of_the_released_library) {
    cr_assert_eq(hd_log_level_parse("warn"), HD_LOG_WARN);
    cr_assert_eq(hd_log_level_parse("DEBUG"), HD_LOG_DEBUG);
    cr_assert_eq(hd_log_level_parse("poll"), HD_LOG_TRACE);
    cr_assert_eq(hd_log_level_parse("loud"), -1);
    cr_assert_eq(hd_log_level_parse(NULL), -1);
}

/* Tests run in processes of their own, so the environment is read afresh in each. */
Test(log_environment, heddle_wins_over_ucc) {
    setenv("HEDDLE_LOG_LEVEL", "debug", 1);
    setenv("UCC_LOG_LEVEL", "error", 1);
    cr_assert(hd_log_enabled(HD_LOG_DEBUG));
    cr_assert_not(hd_log_enabled(HD_LOG_TRACE));
}

Test(log_environment, the_default_is_warn) {
    unsetenv("HEDDLE_LOG_LEVEL");
    unsetenv("UCC_LOG_LEVEL");
    cr_assert(hd_log_enabled(HD_LOG_WARN));
    cr_assert_not(hd_log_enabled(HD_LOG_INFO));
}

enum { N_THREADS = 4, N_LINES = 200 };

static void *log_many(void *arg) {
    for (int i = 0; i < N_LINES; i++) {
        hd_warn("thread %d says %d", *(int *)arg, i);
    }
    return NULL;
}

/* Counts the file's lines, all of which must be whole. */
static int count_whole_lines(const char *path) {
    char line[256];
    int n = 0;
    FILE *stream = fopen(path, "r");

    cr_assert_not_null(stream);
    while (fgets(line, sizeof(line), stream) != NULL) {
        int thread, i;
        cr_assert_eq(sscanf(line, "[heddle WARN] thread %d says %d\n", &thread, &i), 2);
        n++;
    }
    fclose(stream);
    return n;
}

Test(log_file, lines_of_concurrent_threads_do_not_mix) {
    char pattern[] = "/tmp/heddle-log-test-%p", path[64];
    pthread_t threads[N_THREADS];
    int numbers[N_THREADS];

    snprintf(path, sizeof(path), "/tmp/heddle-log-test-%ld", (long)getpid());
    hd_log_set_file(pattern);
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    hd_log_set_file(pattern); /* a change of destination in between loses nothing */
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    hd_log_set_file(NULL);
    int n = count_whole_lines(path);
    unlink(path);
    cr_assert_eq(n, N_THREADS * N_LINES);
}

/* What the next log line writes to this descriptor, which is given back afterwards. */
static const char *line_on(int fd, const char *destination) {
    static char line[256];
    int pipe_fds[2], saved = dup(fd);

    cr_assert_eq(pipe(pipe_fds), 0);
    fflush(NULL);
    dup2(pipe_fds[1], fd);
    hd_log_set_file(destination);
    hd_warn("here");
    dup2(saved, fd);
    close(saved);
    close(pipe_fds[1]); /* the last writer: reading ends where nothing was written */
    ssize_t n = read(pipe_fds[0], line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    close(pipe_fds[0]);
    return line;
}

static const char here[] = "[heddle WARN] here\n";

Test(log_file, stdout_and_stderr_are_no_files) {
    cr_assert_str_eq(line_on(STDOUT_FILENO, "stdout"), here);
    cr_assert_str_eq(line_on(STDERR_FILENO, "stderr"), here);
    cr_assert_neq(access("stdout", F_OK), 0);
    cr_assert_neq(access("stderr", F_OK), 0);
}

Test(log_file, a_name_may_stand_behind_file) {
    char pattern[] = "file:/tmp/heddle-log-test-%p", path[64], line[256] = "";

    snprintf(path, sizeof(path), "/tmp/heddle-log-test-%ld", (long)getpid());
    hd_log_set_file(pattern);
    hd_warn("one");
    hd_log_set_file(NULL);
    FILE *stream = fopen(path, "r");
    cr_assert_not_null(stream);
    cr_assert_not_null(fgets(line, sizeof(line), stream));
    cr_assert_not_null(strstr(line, "] one\n"));
    fclose(stream);
    unlink(path);
}

Test(log_file, the_default_is_stderr_until_another_is_chosen) {
    cr_assert_str_eq(line_on(STDERR_FILENO, ""), here);
    hd_log_set_default(STDOUT_FILENO);
    cr_assert_str_eq(line_on(STDOUT_FILENO, ""), here);
    cr_assert_str_eq(line_on(STDERR_FILENO, "stderr"), here);
}

Test(log_file, a_link_is_not_followed_but_for_those_of_the_system) {
    char folder[] = "/tmp/heddle_log_XXXXXX", link[64], target[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(link, sizeof(link), "%s/link", folder);
    snprintf(target, sizeof(target), "%s/target", folder);
    cr_assert_eq(symlink(target, link), 0);
    hd_log_set_file(link);
    hd_log_line(HD_LOG_ERROR, __func__, "to stderr");
    cr_expect_neq(access(target, F_OK), 0, "a line was written where the link points");
    hd_log_set_file("/dev/null");
    hd_log_line(HD_LOG_ERROR, __func__, "to /dev/null");
    hd_log_set_file("/dev/stderr");
    hd_log_line(HD_LOG_ERROR, __func__, "to stderr");
    hd_log_set_file("stderr");
    unlink(link);
    unlink(target);
    rmdir(folder);
}

Test(log_file, a_file_that_cannot_be_opened_is_reported) {
    hd_log_capture(capture, &seen);
    hd_log_set_file("/nonexistent/folder/log");
    cr_assert_eq(seen.n, 1);
    cr_assert_not_null(strstr(seen.line, "/nonexistent/folder/log"));
}
