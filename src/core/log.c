/*
 * Log lines: see log.h.
 *
 * The destination is a file descriptor that never changes its number once a log file was opened: a
 * new file is moved onto it (dup3), so a thread that is just writing can't hit a closed descriptor.
 */
#define _GNU_SOURCE
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/fork.h"

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[HD_LOG_N_LEVELS] = {"FATAL", "ERROR", "WARN",
                                                         "INFO",  "DEBUG", "TRACE"};
_Static_assert(HD_LOG_FATAL == 0 && HD_LOG_TRACE == 5 && HD_LOG_N_LEVELS == 6,
               "names of levels stand in the order of hd_log_level_t");

atomic_int hd_log_threshold = -1;

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static int file_fd = -1;                     /* under file_lock; -1 until a file was opened */
static int default_fd = STDERR_FILENO;       /* under file_lock; or STDOUT_FILENO */
static atomic_int output_fd = STDERR_FILENO; /* STDOUT_FILENO, STDERR_FILENO or file_fd */
enum { KEPT_BYTES = 400 };
static _Thread_local char kept[KEPT_BYTES]; /* the last error's line */
/* ... if it is to be told. initial-exec: one store, for those who forget at each call */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool is_kept;

static _Atomic(hd_log_capture_fn) capture_fn;
static _Atomic(void *) capture_arg;

int hd_log_level_parse(const char *name) {
    static const struct {
        const char *name;
        hd_log_level_t level;
    } others[] = {{"warning", HD_LOG_WARN}, {"diag", HD_LOG_WARN},   {"req", HD_LOG_TRACE},
                  {"data", HD_LOG_TRACE},   {"async", HD_LOG_TRACE}, {"func", HD_LOG_TRACE},
                  {"poll", HD_LOG_TRACE},   {"print", HD_LOG_TRACE}};

    if (name == NULL) {
        return -1;
    }
    for (int i = 0; i < HD_LOG_N_LEVELS; i++) {
        if (strcasecmp(name, level_names[i]) == 0) {
            return i;
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcasecmp(name, others[i].name) == 0) {
            return (int)others[i].level;
        }
    }
    return -1;
}

/* A program with more rights than its caller writes no file that the caller names. */
static const char *environment(const char *heddle_name, const char *ucc_name) {
    const char *value = secure_getenv(heddle_name);
    return value != NULL ? value : secure_getenv(ucc_name);
}

static void init_once(void) {
    const char *name = environment("HEDDLE_LOG_LEVEL", "UCC_LOG_LEVEL");
    const char *file = environment("HEDDLE_LOG_FILE", "UCC_LOG_FILE");
    int level = hd_log_level_parse(name);
    int unset = -1;
    /* Not over a level that hd_log_set_level has chosen meanwhile. relaxed: see hd_log_enabled */
    atomic_compare_exchange_strong_explicit(&hd_log_threshold, &unset,
                                            level >= 0 ? level : HD_LOG_WARN, memory_order_relaxed,
                                            memory_order_relaxed);
    if (file != NULL && file[0] != '\0') {
        hd_log_set_file(file);
    }
    if (name != NULL && level < 0) {
        hd_log_line(HD_LOG_WARN, __func__, "LOG_LEVEL=%s is no log level: using warn", name);
    }
}

int hd_log_init(void) {
    pthread_once(&log_once, init_once);
    return atomic_load_explicit(&hd_log_threshold, memory_order_relaxed); /* set by init_once */
}

void hd_log_set_level(hd_log_level_t level) {
    /* relaxed: a thread that still sees the old level prints one line more or less */
    atomic_store_explicit(&hd_log_threshold, (int)level, memory_order_relaxed);
}

/* Replaces %p and %h. False if the result does not fit. */
static int expand_file_name(const char *pattern, char *out, size_t size) {
    size_t used = 0;

    while (*pattern != '\0') {
        char piece[256] = {0};

        if (pattern[0] == '%' && pattern[1] == 'p') {
            snprintf(piece, sizeof(piece), "%ld", (long)getpid());
            pattern += 2;
        } else if (pattern[0] == '%' && pattern[1] == 'h') {
            if (gethostname(piece, sizeof(piece) - 1) != 0) {
                snprintf(piece, sizeof(piece), "localhost");
            }
            pattern += 2;
        } else {
            piece[0] = *pattern++;
        }
        size_t length = strlen(piece);
        if (used + length >= size) {
            return 0;
        }
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return 1;
}

/* Opens the file and moves it onto file_fd. Called under file_lock. Returns 0 or an errno. A link
 * that somebody else has laid in a common folder is not followed; /dev/stderr and its like are
 * links of the system's. */
static int open_file(const char *path) {
    int follow = strncmp(path, "/dev/", 5) == 0 ? 0 : O_NOFOLLOW;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | follow, 0644);

    if (fd < 0) {
        return errno;
    }
    if (file_fd < 0) {
        file_fd = fd;
        return 0;
    }
    int error = dup3(fd, file_fd, O_CLOEXEC) < 0 ? errno : 0;
    close(fd);
    return error;
}

/* The descriptor of a destination that is no file, or -1. Called under file_lock. */
static int standard_stream(const char *pattern) {
    if (pattern == NULL || pattern[0] == '\0') {
        return default_fd;
    }
    if (strcmp(pattern, "stdout") == 0) {
        return STDOUT_FILENO;
    }
    return strcmp(pattern, "stderr") == 0 ? STDERR_FILENO : -1;
}

void hd_log_set_default(int fd) {
    pthread_mutex_lock(&file_lock);
    /* relaxed, here and below: a descriptor's number carries no data */
    if (atomic_load_explicit(&output_fd, memory_order_relaxed) == default_fd) {
        atomic_store_explicit(&output_fd, fd, memory_order_relaxed);
    }
    default_fd = fd;
    pthread_mutex_unlock(&file_lock);
}

void hd_log_set_file(const char *pattern) {
    char path[PATH_MAX];
    int error = 0, cancelling;

    hd_fork_guard(&file_lock);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling); /* open may end the thread */
    pthread_mutex_lock(&file_lock);
    int fd = standard_stream(pattern);
    if (fd < 0) {
        const char *name = strncmp(pattern, "file:", 5) == 0 ? pattern + 5 : pattern;
        error = expand_file_name(name, path, sizeof(path)) ? open_file(path) : ENAMETOOLONG;
        fd = file_fd;
    }
    if (error == 0) {
        atomic_store_explicit(&output_fd, fd, memory_order_relaxed);
    }
    pthread_mutex_unlock(&file_lock);
    pthread_setcancelstate(cancelling, NULL);
    if (error != 0) {
        hd_log_line(HD_LOG_WARN, __func__, "can't open the log file %s: %s", pattern,
                    strerror(error));
    }
}

void hd_log_capture(hd_log_capture_fn fn, void *arg) {
    /* arg first: whoever acquires fn sees its arg */
    atomic_store_explicit(&capture_arg, arg, memory_order_relaxed);
    atomic_store_explicit(&capture_fn, fn, memory_order_release);
}

/* Lines are also written under locks: a cancelled thread must not end here. */
static void write_all(int fd, const char *text, size_t length) {
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break; /* nowhere left to report it */
        }
        text += n;
        length -= (size_t)n;
    }
    pthread_setcancelstate(cancelling, NULL);
}

/* Names that the user called; all others say nothing to a user. */
static int is_public(const char *function) {
    return strncmp(function, "ucc_", 4) == 0 || strncmp(function, "heddle_", 7) == 0;
}

const char *hd_log_last_error(void) {
    return is_kept ? kept : "";
}

void hd_log_forget_error(void) {
    is_kept = false;
}

void hd_log_line(hd_log_level_t level, const char *function, const char *format, ...) {
    char line[LINE_MAX_BYTES];
    int saved_errno = errno;        /* callers log between a failing call and its errno */
    size_t room = sizeof(line) - 1; /* one byte stays for the newline */
    va_list args;

    /* most lines of the interface begin with the function's name already */
    int named = !is_public(function) || strncmp(format, "%s: ", 4) == 0 ||
                strncmp(format, function, strlen(function)) == 0;
    int used = named ? snprintf(line, room, "[heddle %s] ", level_names[level])
                     : snprintf(line, room, "[heddle %s] %s: ", level_names[level], function);
    if (used < 0) {
        return;
    }
    size_t length = (size_t)used < room ? (size_t)used : room - 1;
    va_start(args, format);
    used = vsnprintf(line + length, room - length, format, args);
    va_end(args);
    if (used > 0 && (size_t)used < room - length) {
        length += (size_t)used;
    } else if (used > 0) {
        length = room - 1;
        memcpy(line + length - 3, "...", 3); /* the line was cut */
    }
    line[length] = '\0';
    if (level == HD_LOG_ERROR) {
        size_t begin = strlen("[heddle ") + strlen(level_names[level]) + strlen("] ");
        snprintf(kept, sizeof(kept), "%.*s", KEPT_BYTES - 1, line + begin);
        is_kept = true;
    }

    /* acquire: pairs with hd_log_capture, makes the arg of this fn visible */
    hd_log_capture_fn capture = atomic_load_explicit(&capture_fn, memory_order_acquire);
    if (capture != NULL) {
        capture(level, line, atomic_load_explicit(&capture_arg, memory_order_relaxed));
    } else {
        line[length] = '\n';
        write_all(atomic_load_explicit(&output_fd, memory_order_relaxed), line, length + 1);
    }
    errno = saved_errno;
}
