/* stall.c: when a line about a long wait is due, and what such lines are made of. See stall.h. */
#define _GNU_SOURCE
#include "threads/stall.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool hd_stall_is_due(hd_stall_t *stall, uint64_t now, uint64_t first) {
    if (stall->since == 0) {
        *stall = (hd_stall_t){.since = now, .after = first};
    }
    if (first == 0 || now - stall->since < stall->after) {
        return false;
    }
    stall->after = 2 * (now - stall->since);
    return true;
}

uint64_t hd_stall_ticks(double seconds) {
    enum { LONGEST_S = 1000000000 }; /* so that doubling stays within 64 bits */
    if (!(seconds > 0) || seconds > LONGEST_S) {
        return 0;
    }
    uint64_t ticks = hd_seconds_to_ticks(seconds);
    return ticks ? ticks : 1;
}

void hd_stall_line(const char *format, ...) {
    char line[2048];
    va_list args;
    if (!hd_log_enabled(HD_LOG_WARN)) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    hd_log_line(HD_LOG_WARN, __func__, "stall: %s", line);
}

/* --- text that grows -------------------------------------------------------------------------- */

void hd_text_add(hd_text_t *text, const char *format, ...) {
    size_t room = sizeof(text->line) - text->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text->line + text->used, room, format, args);
    va_end(args);
    if (length > 0) {
        text->used += (size_t)length < room ? (size_t)length : room - 1;
    }
}

enum { FEW = 4, MOST_RUNS = 12 };

/* Few: "1, 3 and 4". */
static void add_few(hd_text_t *text, uint32_t n, uint32_t count,
                    bool (*in)(const void *arg, uint32_t i), const void *arg) {
    uint32_t said = 0;
    hd_text_add(text, count == 1 ? "endpoint " : "endpoints ");
    for (uint32_t i = 0; i < n && said < count; i++) {
        if (in(arg, i)) {
            const char *before = said == 0 ? "" : said + 1 == count ? " and " : ", ";
            hd_text_add(text, "%s%u", before, i);
            said++;
        }
    }
}

uint32_t hd_text_numbers(hd_text_t *text, uint32_t n, bool (*in)(const void *arg, uint32_t i),
                         const void *arg) {
    uint32_t count = 0, runs = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += in(arg, i);
    }
    if (count <= FEW) {
        add_few(text, n, count, in, arg);
        return count;
    }
    hd_text_add(text, "%u of %u endpoints:", count, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i;
        while (i < n && in(arg, i)) {
            i++;
        }
        if (i == first) {
            continue;
        }
        if (runs++ == MOST_RUNS) {
            hd_text_add(text, ", ...");
            break;
        }
        hd_text_add(text, "%s %u", runs == 1 ? "" : ",", first);
        if (i - first > 1) {
            hd_text_add(text, "-%u", i - 1);
        }
    }
    return count;
}

/* --- threads ---------------------------------------------------------------------------------- */

int32_t hd_thread_number(void) {
    static _Thread_local int32_t number; /* a cache: a thread keeps its number, but over a fork */
    static _Thread_local int32_t process;
    int32_t now = (int32_t)getpid();
    if (process != now) {
        process = now;
        number = (int32_t)syscall(SYS_gettid);
    }
    return number;
}

static _Thread_local bool helping;

void hd_stall_help(bool helps) {
    helping = helps;
}

bool hd_stall_is_helping(void) {
    return helping;
}

/* What /proc says in this file of a thread or a process. */
static const char *state_in(const char *path) {
    char stat[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        /* without a /proc nothing is known, not even that the thread has ended */
        return errno == ENOENT && access("/proc/self/task", F_OK) == 0 ? "has ended" : NULL;
    }
    ssize_t length = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    if (length <= 0) {
        return NULL;
    }
    stat[length] = '\0';
    const char *end = strrchr(stat, ')'); /* of the name, which may contain anything */
    switch (end && end[1] ? end[2] : '?') {
    case 'R':
        return "runs";
    case 'S':
    case 'D':
        return "sleeps";
    case 'T':
    case 't':
        return "is stopped";
    case 'Z':
    case 'X':
        return "has ended";
    default:
        return NULL;
    }
}

const char *hd_thread_state(int32_t thread) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    return state_in(path);
}

const char *hd_thread_state_in(int32_t process, int32_t thread) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)process, (int)thread);
    return state_in(path);
}

const char *hd_process_state(int32_t process) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    return state_in(path);
}
