/* queue.c: queues of operations, and the scheduler, which draws what runs next.
 *
 * A queue is ready if its head can run. Its head can't while it waits for a record (then it is in
 * the record's list), for a value (then the queue is polled), or runs in the thread for callbacks
 * (then the queue is busy).
 */
#include "emu.h"

#include <stdlib.h>
#include <time.h>

enum { STARVED_STEPS = 64 };

static emu_queue_t *queue_new(int device) {
    emu_queue_t *queue = emu_alloc(1, sizeof(*queue));
    *queue = (emu_queue_t){.device = device, .ready = -1, .number = ++emu.queues};
    return queue;
}

/* The streams of a device take its channels in turn. */
emu_queue_t *emu_queue_for(int device) {
    emu_device_t *d = &emu.device[device];
    emu_queue_t *queue;
    if (emu.config.channels == 0) {
        queue = queue_new(device);
    } else {
        if (!d->channel) {
            d->channel = emu_alloc(emu.config.channels, sizeof(*d->channel));
        }
        uint32_t i = d->next_channel++ % emu.config.channels;
        d->channel[i] = d->channel[i] ? d->channel[i] : queue_new(device);
        queue = d->channel[i];
    }
    queue->users++;
    return queue;
}

void emu_queue_leave(emu_queue_t *queue) {
    if (--queue->users == 0 && emu.config.channels == 0) {
        free(queue);
    }
}

static void set_ready(emu_queue_t *queue) {
    if (queue->ready < 0) {
        emu.ready =
            emu_grow(emu.ready, &emu.ready_capacity, emu.ready_count + 1, sizeof(*emu.ready));
        queue->ready = (int)emu.ready_count;
        emu.ready[emu.ready_count++] = queue;
    }
}

static void unset_ready(emu_queue_t *queue) {
    if (queue->ready >= 0) {
        emu_queue_t *last = emu.ready[--emu.ready_count];
        emu.ready[queue->ready] = last;
        last->ready = queue->ready;
        queue->ready = -1;
    }
}

static void poll_for(emu_queue_t *queue) {
    if (!queue->polled) {
        emu.polled =
            emu_grow(emu.polled, &emu.polled_capacity, emu.polled_count + 1, sizeof(*emu.polled));
        emu.polled[emu.polled_count++] = queue;
        queue->polled = true;
    }
}

/* Its head has changed, or what its head waits for has. */
static void look(emu_queue_t *queue) {
    emu_op_t *op = queue->head;
    bool ready = op && !queue->busy;
    if (ready && op->kind == EMU_OP_WAIT && !op->record->done) {
        ready = false;
        if (!op->waiting) {
            op->waiting = true;
            op->next_waiting = op->record->waiting;
            op->record->waiting = op;
        }
    } else if (ready && op->kind == EMU_OP_WAIT_VALUE && !emu_word_satisfied(op)) {
        ready = false;
        poll_for(queue);
    }
    if (ready) {
        set_ready(queue);
    } else {
        unset_ready(queue);
    }
}

static void poll_values(void) {
    for (uint32_t i = emu.polled_count; i-- > 0;) {
        emu_queue_t *queue = emu.polled[i];
        if (emu_word_satisfied(queue->head)) {
            emu.polled[i] = emu.polled[--emu.polled_count];
            queue->polled = false;
            set_ready(queue);
        }
    }
}

void emu_queue_push(emu_queue_t *queue, emu_op_t *op) {
    op->next = NULL;
    if (queue->tail) {
        queue->tail->next = op;
    } else {
        queue->head = op;
    }
    queue->tail = op;
    emu.pending++;
    if (queue->head == op) {
        look(queue);
    }
}

void emu_record_reached(emu_record_t *record) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    record->nanoseconds = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    record->done = true;
    record->queue = NULL;
    emu_op_t *op = record->waiting;
    record->waiting = NULL;
    while (op) {
        emu_op_t *next = op->next_waiting;
        op->waiting = false;
        look(op->stream->queue);
        op = next;
    }
}

static void count_operation(int device) {
    emu_device_t *d = &emu.device[device];
    emu.report.operations++;
    if (d->doomed && !d->lost && --d->left == 0) {
        emu_device_lose(device);
    }
}

void emu_queue_finish(emu_queue_t *queue) {
    emu_op_t *op = queue->head;
    CUstream stream = op->stream;
    queue->head = op->next;
    queue->tail = queue->head ? queue->tail : NULL;
    stream->last = stream->last == op ? NULL : stream->last;
    stream->pending--;
    emu.pending--;
    count_operation(queue->device);
    emu_op_free(op);
    look(queue);
    if (stream->destroyed && stream->pending == 0) {
        emu_stream_gone(stream);
    }
}

static void forget_waiting(emu_op_t *op) {
    emu_op_t **at = &op->record->waiting;
    while (*at && *at != op) {
        at = &(*at)->next_waiting;
    }
    if (*at) {
        *at = op->next_waiting;
    }
    op->waiting = false;
}

static void forget_polled(emu_queue_t *queue) {
    for (uint32_t i = 0; queue->polled && i < emu.polled_count; i++) {
        if (emu.polled[i] == queue) {
            emu.polled[i] = emu.polled[--emu.polled_count];
            queue->polled = false;
        }
    }
}

/* Nothing is done for it, but telling those who wait for it. */
static void discard(emu_op_t *op) {
    emu_clock_force(op);
    if (op->waiting) {
        forget_waiting(op);
    }
    if (op->kind == EMU_OP_RECORD || op->kind == EMU_OP_FREE) {
        emu_execute(op);
    }
    op->stream->pending--;
    emu.pending--;
    emu_op_free(op);
}

void emu_stream_purge(CUstream stream) {
    emu_queue_t *queue = stream->queue;
    if (queue->head && queue->head->stream == stream) {
        forget_polled(queue);
    }
    emu_op_t **at = &queue->head, *kept = NULL;
    while (*at) {
        emu_op_t *op = *at;
        if (op->stream == stream) {
            *at = op->next;
            queue->tail = queue->tail == op ? kept : queue->tail;
            discard(op);
        } else {
            kept = op;
            at = &op->next;
        }
    }
    stream->last = NULL;
    look(queue);
}

/* What differs between two schedules of the same calls. */
static void note_order(const emu_op_t *op) {
    uint64_t piece = op->kind == EMU_OP_KERNEL ? op->kernel.next : 0;
    uint64_t hash = (emu.report.order ^ op->serial) * 0x100000001b3U;
    emu.report.order = (hash ^ piece) * 0x100000001b3U;
}

static void run(emu_queue_t *queue) {
    emu_op_t *op = queue->head;
    note_order(op);
    op->started = true;
    emu_clock_force(op);
    /* After an error, callbacks are told of it, and host functions are not called. */
    if (op->kind == EMU_OP_HOST &&
        (!op->callback.function || op->stream->context->error == CUDA_SUCCESS)) {
        queue->busy = true;
        unset_ready(queue);
        emu_callback_run(queue);
    } else if (emu_execute(op)) {
        emu_clock_executed(op);
        emu_queue_finish(queue);
    }
}

static emu_queue_t *draw(void) {
    return emu.ready[emu_draw(emu.ready_count)];
}

static emu_queue_t *draw_starving(void) {
    if (emu.steps >= emu.starved_until) {
        emu.starved = draw()->number;
        emu.starved_until = emu.steps + STARVED_STEPS + emu_draw(STARVED_STEPS);
    }
    emu_queue_t *queue = draw();
    if (queue->number == emu.starved) {
        queue = emu.ready[((uint32_t)queue->ready + 1) % emu.ready_count];
    }
    return queue;
}

static emu_queue_t *newest(void) {
    emu_queue_t *queue = emu.ready[0];
    for (uint32_t i = 1; i < emu.ready_count; i++) {
        queue = emu.ready[i]->tail->serial > queue->tail->serial ? emu.ready[i] : queue;
    }
    return queue;
}

bool emu_step(void) {
    poll_values();
    if (emu.ready_count == 0) {
        return false;
    }
    emu.steps++;
    switch (emu.config.policy) {
    case EMU_STARVE:
        run(draw_starving());
        break;
    case EMU_NEWEST:
        run(newest());
        break;
    default:
        run(draw());
    }
    return true;
}

/* Follows the waits from the record's queue to one that can run. A wait for a value may be ended by
 * anybody. */
static emu_queue_t *needed(const emu_record_t *record) {
    emu_queue_t *queue = record->queue;
    for (uint64_t hops = 0; queue && hops <= emu.pending; hops++) {
        emu_op_t *op = queue->head;
        if (queue->ready >= 0) {
            return queue;
        }
        if (!op || queue->busy || op->kind != EMU_OP_WAIT || op->record->done) {
            return NULL;
        }
        queue = op->record->queue;
    }
    return NULL;
}

bool emu_step_towards(const emu_record_t *record) {
    poll_values();
    emu_queue_t *queue = emu.config.policy == EMU_LAZY ? needed(record) : NULL;
    if (!queue) {
        return emu_step();
    }
    emu.steps++;
    run(queue);
    return true;
}

void emu_drive(void) {
    if (emu.pending == 0) {
        return;
    }
    for (uint64_t n = emu.config.policy == EMU_LAZY ? 0 : emu_draw(4); n > 0 && emu_step(); n--) {
    }
    while (emu.pending > EMU_PENDING && emu_step()) {
    }
}
