/* callback.c: the emulator's two threads, each started when it is first needed. One runs the
 * program's host functions and destructors, which may wait for anything but may make no driver
 * call. The other runs work while the program makes no calls and yet uses the processor, or for
 * long: it may wait for memory to change.
 */
#include "emu.h"

#include <stdlib.h>
#include <time.h>

enum { IDLE_STEPS = 64, IDLE_WALL_MS = 200 };

typedef struct job {
    struct job *next;
    emu_queue_t *queue; /* whose head is a host function; else a destructor */
    CUhostFn function;
    void *arg;
} job_t;

static job_t *first, *last; /* guarded by the lock, as all here */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static pthread_t callback_thread, idle_thread;
static bool callbacks_run, idle_runs, idle_sleeps, stop;

static void until(struct timespec *end, uint64_t ms) {
    clock_gettime(CLOCK_REALTIME, end);
    end->tv_sec += (time_t)(ms / 1000);
    end->tv_nsec += (long)(ms % 1000) * 1000000;
    end->tv_sec += end->tv_nsec / 1000000000;
    end->tv_nsec %= 1000000000;
}

/* Without the lock. */
static void call(const emu_callback_t *callback, CUresult status) {
    if (callback->function) {
        callback->function(callback->arg);
    } else if (callback->callback) {
        callback->callback(callback->handle, status, callback->arg);
    }
}

static void run_job(job_t *job) {
    emu_queue_t *queue = job->queue;
    emu_callback_op = queue ? queue->head : NULL;
    emu_callback_t callback = {.function = job->function, .arg = job->arg};
    CUresult status = CUDA_SUCCESS;
    if (queue) {
        callback = queue->head->callback;
        status = queue->head->stream->context->error;
    }
    pthread_mutex_unlock(&emu.lock);
    call(&callback, status);
    pthread_mutex_lock(&emu.lock);
    emu_callback_op = NULL;
    if (queue) {
        queue->busy = false;
        emu.running--;
        emu_queue_finish(queue);
    }
    pthread_cond_broadcast(&emu.changed);
    free(job);
}

static void *run_callbacks(void *arg) {
    emu_forbidden = true;
    pthread_mutex_lock(&emu.lock);
    while (first || !stop) {
        job_t *job = first;
        if (!job) {
            pthread_cond_wait(&work, &emu.lock);
            continue;
        }
        first = job->next;
        last = first ? last : NULL;
        run_job(job);
    }
    pthread_mutex_unlock(&emu.lock);
    return arg;
}

static void push(job_t job) {
    job_t *kept = emu_alloc(1, sizeof(*kept));
    *kept = job;
    if (last) {
        last->next = kept;
    } else {
        first = kept;
    }
    last = kept;
    if (!callbacks_run) {
        callbacks_run = pthread_create(&callback_thread, NULL, run_callbacks, NULL) == 0;
    }
    pthread_cond_signal(&work);
}

/* Waits for it, so that the order of what follows does not depend on threads; but not forever, for
 * it may wait for what the waiting thread would do next. */
void emu_callback_run(emu_queue_t *queue) {
    struct timespec end;
    until(&end, emu.config.patience);
    emu.running++;
    emu_record_t *over = emu_record_new(); /* held by the operation until it is freed */
    queue->head->record = over;
    emu_record_hold(over);
    push((job_t){.queue = queue});
    while (over->references > 1 && pthread_cond_timedwait(&emu.changed, &emu.lock, &end) == 0) {
    }
    emu_record_drop(over);
}

void emu_destroy_later(CUhostFn function, void *pointer) {
    push((job_t){.function = function, .arg = pointer});
}

static uint64_t milliseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Time that the process did not run does not count as idle, unless it lasts: schedules would depend
 * on the machine's load. */
static void *run_idle(void *arg) {
    uint64_t calls = 0, cpu = 0, wall = 0;
    pthread_mutex_lock(&emu.lock);
    while (!stop) {
        struct timespec end;
        if (emu.pending == 0) {
            idle_sleeps = true;
            pthread_cond_wait(&idle, &emu.lock);
            idle_sleeps = false;
            continue;
        }
        until(&end, emu.config.idle);
        pthread_cond_timedwait(&idle, &emu.lock, &end);
        if (emu.report.calls != calls) {
            calls = emu.report.calls;
            cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
            wall = milliseconds(CLOCK_MONOTONIC);
        } else if (milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu >= emu.config.idle ||
                   milliseconds(CLOCK_MONOTONIC) - wall >= IDLE_WALL_MS) {
            for (int i = 0; i < IDLE_STEPS && !stop && emu_step(); i++) {
            }
        }
    }
    pthread_mutex_unlock(&emu.lock);
    return arg;
}

void emu_background(void) {
    if (emu.config.idle == 0) {
        return;
    }
    if (!idle_runs) {
        idle_runs = pthread_create(&idle_thread, NULL, run_idle, NULL) == 0;
    } else if (idle_sleeps) {
        pthread_cond_signal(&idle);
    }
}

void emu_callbacks_stop(void) {
    pthread_mutex_lock(&emu.lock);
    bool callbacks = callbacks_run, idles = idle_runs;
    stop = true;
    pthread_cond_broadcast(&work);
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&emu.lock);
    if (callbacks) {
        pthread_join(callback_thread, NULL);
    }
    if (idles) {
        pthread_join(idle_thread, NULL);
    }
    stop = callbacks_run = idle_runs = false;
}
