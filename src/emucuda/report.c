/* report.c: findings, counts, and the functions by which tests plant faults. */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 100, LINE = 1024 };

void emu_find(heddle_emucuda_finding_t kind, const char *format, ...) {
    static const char *const name[] = {"race", "deadlock", "fault", "leak"};
    uint64_t *count[] = {&emu.report.races, &emu.report.deadlocks, &emu.report.faults,
                         &emu.report.leaks};
    char line[LINE];
    int length = snprintf(line, sizeof(line), "%s: ", name[kind]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
    va_end(args);
    (*count[kind])++;
    if (emu.found) {
        emu.found(kind, line, emu.found_arg);
    } else if (emu.lines < MOST_LINES) {
        fprintf(stderr, "emucuda: %s\n", line);
        if (++emu.lines == MOST_LINES) {
            fprintf(stderr, "emucuda: what else is found will only be counted\n");
        }
    }
}

size_t emu_name_timeline(uint32_t timeline, char *text, size_t bytes) {
    const emu_timeline_t *line = &emu.timeline[timeline];
    CUstream stream = line->stream;
    int length = line->ended ? snprintf(text, bytes, "a stream or thread that is no more")
                 : !stream   ? snprintf(text, bytes, "the host")
                             : snprintf(text, bytes, "%s %llu of device %d",
                                      stream->legacy ? "NULL stream" : "stream",
                                        (unsigned long long)stream->id, stream->context->device);
    return length > 0 ? (size_t)length : 0;
}

static void count_objects(heddle_emucuda_report_t *report) {
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        report->streams += !((CUstream)o)->internal && !((CUstream)o)->destroyed;
    }
    for (emu_object_t *o = emu_object_first(EMU_POOL); o; o = o->behind) {
        report->pools += !((CUmemoryPool)o)->standard;
    }
    for (emu_object_t *o = emu_object_first(EMU_MODULE); o; o = o->behind) {
        report->modules += !((CUmodule)o)->library;
    }
    for (emu_object_t *o = emu_object_first(EMU_EXEC); o; o = o->behind) {
        report->graph_execs += !((CUgraphExec)o)->destroyed;
    }
    for (emu_object_t *o = emu_object_first(EMU_GRAPH); o; o = o->behind) {
        report->graphs += !((CUgraph)o)->captured;
    }
    for (emu_object_t *o = emu_object_first(EMU_CONTEXT); o; o = o->behind) {
        report->contexts += !((CUcontext)o)->primary || ((CUcontext)o)->references > 0;
    }
    report->modules += emu_object_count(EMU_LIBRARY);
    report->events = emu_object_count(EMU_EVENT);
    report->user_objects = emu_object_count(EMU_USER_OBJECT);
    for (uint32_t i = 0; i < emu.allocations; i++) {
        const emu_allocation_t *a = emu.allocation[i];
        bool host = a->kind == EMU_HOST_MEMORY || a->kind == EMU_REGISTERED_MEMORY;
        report->host_allocations += host;
        report->device_allocations += !host && !a->module;
        report->device_bytes += host || a->module ? 0 : a->bytes;
    }
}

void heddle_emucuda_report(heddle_emucuda_report_t *report, size_t bytes) {
    pthread_mutex_lock(&emu.lock);
    heddle_emucuda_report_t all = emu.report;
    all.pending = emu.pending;
    count_objects(&all);
    pthread_mutex_unlock(&emu.lock);
    memcpy(report, &all, bytes < sizeof(all) ? bytes : sizeof(all));
}

void heddle_emucuda_on_finding(void (*found)(heddle_emucuda_finding_t, const char *, void *),
                               void *arg) {
    pthread_mutex_lock(&emu.lock);
    emu.found = found;
    emu.found_arg = arg;
    pthread_mutex_unlock(&emu.lock);
}

void heddle_emucuda_site(uint32_t n) {
    if (emu_forbidden) {
        return;
    }
    pthread_mutex_lock(&emu.lock);
    if (emu.initialized) {
        emu_self()->site = n;
    }
    pthread_mutex_unlock(&emu.lock);
}

void heddle_emucuda_drop_site(uint32_t n) {
    pthread_mutex_lock(&emu.lock);
    emu.drop_site = n;
    pthread_mutex_unlock(&emu.lock);
}

uint64_t heddle_emucuda_site_count(uint32_t n) {
    pthread_mutex_lock(&emu.lock);
    uint64_t count = n < emu.sites ? emu.site[n] : 0;
    pthread_mutex_unlock(&emu.lock);
    return count;
}

void heddle_emucuda_fail_call(uint64_t n, int error) {
    pthread_mutex_lock(&emu.lock);
    emu.fail_call = n;
    emu.fail_error = error;
    pthread_mutex_unlock(&emu.lock);
}

void heddle_emucuda_lose_device(int device, uint64_t operations) {
    pthread_mutex_lock(&emu.lock);
    if (emu.initialized && emu_device_valid(device)) {
        emu.device[device].doomed = true;
        emu.device[device].left = operations;
        if (operations == 0) {
            emu_device_lose(device);
        }
    }
    pthread_mutex_unlock(&emu.lock);
}

uint64_t heddle_emucuda_run(uint64_t n) {
    uint64_t ran = 0;
    pthread_mutex_lock(&emu.lock);
    while (emu.initialized && ran < n && emu_step()) {
        ran++;
    }
    pthread_mutex_unlock(&emu.lock);
    return ran;
}
