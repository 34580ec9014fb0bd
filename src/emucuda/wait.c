/* wait.c: threads of the host that wait, and what is said when nothing can run. */
#include "emu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SLICE_MS = 1, LINE = 900, CALLBACK_PATIENCE = 30 };

static size_t add(char *text, size_t at, const char *format, const char *what, unsigned long long a,
                  unsigned long long b) __attribute__((format(printf, 3, 0)));

static size_t add(char *text, size_t at, const char *format, const char *what, unsigned long long a,
                  unsigned long long b) {
    int length = snprintf(text + at, LINE - at, format, what, a, b);
    at += length > 0 ? (size_t)length : 0;
    return at < LINE ? at : LINE - 1;
}

/* What a queue's head waits for. */
static size_t describe(char *text, size_t at, const emu_op_t *op) {
    char where[64];
    emu_name_timeline(op->stream->timeline, where, sizeof(where));
    at = add(text, at, "; %s at operation %llu", where, op->serial, 0);
    if (op->kind == EMU_OP_WAIT) {
        emu_name_timeline(op->record->timeline, where, sizeof(where));
        return add(text, at, " waits for a record in %s", where, 0, 0);
    }
    if (op->kind == EMU_OP_WAIT_VALUE) {
        return add(text, at, " waits for a value%s (%llu, at 0x%llx)", "", op->word.value,
                   op->word.address);
    }
    return add(text, at, " runs %s", op->what, 0, 0);
}

static void tell_deadlock(void) {
    char text[LINE] = "";
    size_t at = 0;
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        CUstream stream = (CUstream)o;
        if (stream->pending == 0) {
            continue;
        }
        const emu_op_t *head = stream->queue->head;
        if (head->stream == stream) {
            at = describe(text, at, head);
        } else {
            char where[64], first[64];
            emu_name_timeline(stream->timeline, where, sizeof(where));
            emu_name_timeline(head->stream->timeline, first, sizeof(first));
            at = add(text, at, "; %s is in a channel", where, 0, 0);
            at = add(text, at, " behind %s", first, 0, 0);
        }
    }
    emu_find(HEDDLE_EMUCUDA_DEADLOCK, "a thread waits, and nothing can run%s", text);
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Nothing can run. Others may change that: callbacks, threads that store a value, and threads that
 * enqueue the write of one. False: it has lasted too long since *since. */
static bool wait_for_others(uint64_t *since) {
    struct timespec end;
    if (*since == 0) {
        *since = now_ms();
    }
    uint64_t patience =
        emu.running > 0 ? (uint64_t)emu.config.patience * CALLBACK_PATIENCE : emu.config.patience;
    if ((emu.running == 0 && emu.callers <= 1) || now_ms() - *since > patience) {
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += SLICE_MS * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&emu.changed, &emu.lock, &end);
    return true;
}

CUresult emu_wait(emu_record_t *record, CUcontext context) {
    uint64_t since = 0;
    emu_record_hold(record);
    CUresult status = context->error;
    while (!record->done && status == CUDA_SUCCESS) {
        if (emu_step_towards(record)) {
            since = 0;
        } else if (!wait_for_others(&since)) {
            tell_deadlock();
            status = CUDA_ERROR_TIMEOUT;
        }
        status = status == CUDA_SUCCESS ? context->error : status;
    }
    if (record->done) {
        emu_host_join(&record->clock);
    }
    emu_record_drop(record);
    return status;
}

CUresult emu_wait_stream(CUstream stream) {
    CUcontext context = stream->context;
    emu_record_t *tail = emu_stream_tail(stream);
    if (!tail) {
        emu_host_join(&stream->clock);
        return context->error;
    }
    CUresult status = emu_wait(tail, context);
    emu_record_drop(tail);
    return status;
}

/* What was enqueued before, in all its streams; not what others enqueue meanwhile. */
CUresult emu_wait_context(CUcontext context) {
    emu_record_t **tail = emu_alloc(emu_object_count(EMU_STREAM), sizeof(emu_record_t *));
    size_t tails = 0;
    CUresult status = context->error;
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        CUstream stream = (CUstream)o;
        if (stream->context == context && stream->pending > 0) {
            tail[tails++] = emu_stream_tail(stream);
        } else if (stream->context == context) {
            emu_host_join(&stream->clock);
        }
    }
    for (size_t i = 0; i < tails; i++) {
        status = status == CUDA_SUCCESS ? emu_wait(tail[i], context) : status;
        emu_record_drop(tail[i]);
    }
    free(tail);
    return status;
}

CUresult emu_wait_allocation(emu_allocation_t *allocation) {
    uint64_t since = 0;
    allocation->pending++;
    CUresult status = CUDA_SUCCESS;
    while (allocation->pending > 1 && status == CUDA_SUCCESS) {
        if (emu_step()) {
            since = 0;
        } else if (!wait_for_others(&since)) {
            tell_deadlock();
            status = CUDA_ERROR_TIMEOUT;
        }
    }
    emu_allocation_drop(allocation);
    return status;
}
