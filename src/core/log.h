/*
 * Log lines.
 *
 * A line is formatted into a buffer on the caller's stack and leaves in one write, so lines of
 * concurrent threads never mix and logging allocates nothing. The level is one process-wide word:
 * a line that is switched off costs a relaxed load and a branch. Any thread may log at any time,
 * also before anything else of the library was called: the first use reads HEDDLE_LOG_LEVEL,
 * UCC_LOG_LEVEL, HEDDLE_LOG_FILE and UCC_LOG_FILE from the environment.
 *
 * Lines read "[heddle ERROR] text", the text led by the function's name where that is one of the
 * interface: internal names mean nothing to those who read the log. They go to stderr, or to where
 * LOG_FILE says: stdout, stderr, NAME or file:NAME, where %p stands for the process id and %h for
 * the host. In a program that found this library under the name libucc.so.1 they go to stdout by
 * default, as the released library's do.
 */
#ifndef HD_CORE_LOG_H
#define HD_CORE_LOG_H

#include <stdatomic.h>

typedef enum hd_log_level {
    HD_LOG_FATAL,
    HD_LOG_ERROR,
    HD_LOG_WARN,
    HD_LOG_INFO,
    HD_LOG_DEBUG,
    HD_LOG_TRACE,
    HD_LOG_N_LEVELS
} hd_log_level_t;

/* Receives each line, without its newline, instead of the log's destination. Called by the thread
 * that logs, with no lock held. */
typedef void (*hd_log_capture_fn)(hd_log_level_t level, const char *line, void *arg);

/* The most detailed level that is printed; -1 until the environment was read. */
extern atomic_int hd_log_threshold;

/* Reads the environment on the first call; returns the threshold. */
int hd_log_init(void);

void hd_log_set_level(hd_log_level_t level);

/* Level of that name ("warn"), or -1. The names of the released library's three most detailed
 * levels (data, func, poll) mean trace. */
int hd_log_level_parse(const char *name);

/* Sends lines to this file, or to "stdout" or "stderr" (NULL or "": the default). Meant for
 * start-up: a line that is being written while the destination changes may go to either. */
void hd_log_set_file(const char *pattern);

/* Where lines go when no file is named: STDERR_FILENO, or STDOUT_FILENO from now on. */
void hd_log_set_default(int fd);

/* The calling thread's last line of level ERROR, without what all lines begin with; "": none. */
const char *hd_log_last_error(void);
void hd_log_forget_error(void);

/* For tests: hands lines to fn until the next call; fn NULL ends it. Lines being logged by other
 * threads during the call may still reach the previous fn. */
void hd_log_capture(hd_log_capture_fn fn, void *arg);

void hd_log_line(hd_log_level_t level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

static inline int hd_log_enabled(hd_log_level_t level) {
    /* relaxed: the threshold guards nothing but itself */
    int threshold = atomic_load_explicit(&hd_log_threshold, memory_order_relaxed);

    if (__builtin_expect(threshold < 0, 0)) {
        threshold = hd_log_init();
    }
    return (int)level <= threshold;
}

#define hd_log(_level, ...)                                                                        \
    (__builtin_expect(hd_log_enabled(_level), 0) ? hd_log_line((_level), __func__, __VA_ARGS__)    \
                                                 : (void)0)

#define hd_fatal(...) hd_log(HD_LOG_FATAL, __VA_ARGS__)
#define hd_error(...) hd_log(HD_LOG_ERROR, __VA_ARGS__)
#define hd_warn(...)  hd_log(HD_LOG_WARN, __VA_ARGS__)
#define hd_info(...)  hd_log(HD_LOG_INFO, __VA_ARGS__)
#define hd_debug(...) hd_log(HD_LOG_DEBUG, __VA_ARGS__)
#define hd_trace(...) hd_log(HD_LOG_TRACE, __VA_ARGS__)

#endif
