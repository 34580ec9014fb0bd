/* clock.c: what comes before what, by vector clocks.
 *
 * Streams and host threads are timelines. An operation comes after what its stream did before, what
 * the host knew when it was enqueued, and what the waits before it in the stream waited for. All
 * this is known when it is enqueued, since events are recorded before they are waited for; so the
 * clock pass goes over operations in the order of calls, and what it finds does not depend on the
 * order in which they run.
 *
 * Only a wait for a value may be enqueued before the write that ends it. Its stream is blocked for
 * the clock pass, and its operations from there on are kept in stream->unknown, until a
 * cuStreamWriteValue with such a value is enqueued; or at last until the wait is over, when the
 * word's token says who released or signalled it. An event recorded in a blocked stream blocks the
 * streams that wait for it, likewise.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { FREE_TIMELINES = 1024 };

/* Vectors -----------------------------------------------------------------------------------------
 */

static void reserve(emu_vector_t *vector, uint32_t count) {
    if (count > vector->count) {
        vector->at = emu_grow(vector->at, &vector->capacity, count, sizeof(*vector->at));
        memset(vector->at + vector->count, 0, (count - vector->count) * sizeof(*vector->at));
        vector->count = count;
    }
}

void emu_vector_join(emu_vector_t *into, const emu_vector_t *from) {
    reserve(into, from->count);
    for (uint32_t t = 0; t < from->count; t++) {
        into->at[t] = into->at[t] > from->at[t] ? into->at[t] : from->at[t];
    }
}

void emu_vector_copy(emu_vector_t *into, const emu_vector_t *from) {
    into->count = 0;
    reserve(into, from->count);
    if (from->count > 0) {
        memcpy(into->at, from->at, from->count * sizeof(*into->at));
    }
}

void emu_vector_free(emu_vector_t *vector) {
    free(vector->at);
    *vector = (emu_vector_t){.count = 0};
}

/* Timelines ---------------------------------------------------------------------------------------
 */

/* The clock of a timeline goes on where its last owner left it, which then counts as done before:
 * so numbers are used again only when there are many. */
uint32_t emu_timeline_new(CUstream stream) {
    uint32_t timeline;
    if (emu.free_count >= FREE_TIMELINES) {
        timeline = emu.free_timeline[0];
        memmove(emu.free_timeline, emu.free_timeline + 1,
                --emu.free_count * sizeof(*emu.free_timeline));
    } else {
        timeline = emu.timelines++;
        emu.timeline =
            emu_grow(emu.timeline, &emu.timeline_capacity, emu.timelines, sizeof(*emu.timeline));
        emu.timeline[timeline] = (emu_timeline_t){.clock = 1};
    }
    emu.timeline[timeline].stream = stream;
    emu.timeline[timeline].ended = false;
    return timeline;
}

void emu_timeline_begin(uint32_t timeline, emu_vector_t *clock) {
    reserve(clock, timeline + 1);
    clock->at[timeline] = emu.timeline[timeline].clock;
}

void emu_timeline_end(uint32_t timeline, const emu_vector_t *clock) {
    emu.timeline[timeline] = (emu_timeline_t){.clock = clock->at[timeline] + 1, .ended = true};
    emu.free_timeline = emu_grow(emu.free_timeline, &emu.free_capacity, emu.free_count + 1,
                                 sizeof(*emu.free_timeline));
    emu.free_timeline[emu.free_count++] = timeline;
}

/* Tokens ------------------------------------------------------------------------------------------
 */

static emu_token_t *token_at(uint64_t address) {
    emu_token_t **list = &emu.token[(address >> 2) % (sizeof(emu.token) / sizeof(*emu.token))];
    for (emu_token_t *token = *list; token; token = token->next) {
        if (token->address == address) {
            return token;
        }
    }
    emu_token_t *token = emu_alloc(1, sizeof(*token));
    token->address = address;
    token->next = *list;
    return *list = token;
}

void emu_tokens_free(void) {
    for (size_t i = 0; i < sizeof(emu.token) / sizeof(*emu.token); i++) {
        while (emu.token[i]) {
            emu_token_t *token = emu.token[i];
            emu.token[i] = token->next;
            emu_vector_free(&token->clock);
            emu_vector_free(&token->write_clock);
            free(token);
        }
    }
}

static bool value_satisfies(const emu_word_t *word, uint64_t value) {
    uint64_t mask = word->bytes == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t wanted = word->value & mask;
    value &= mask;
    switch (word->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return word->bytes == 4 ? (int32_t)((uint32_t)value - (uint32_t)wanted) >= 0
                                : (int64_t)(value - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (value & wanted) != 0;
    default:
        return (~(value | wanted) & mask) != 0;
    }
}

bool emu_word_satisfied(const emu_op_t *op) {
    if (op->fault || op->stream->context->error != CUDA_SUCCESS) {
        return true; /* nothing waits in a context that has failed */
    }
    void *at = emu_bytes_at(op->word.address);
    /* Acquires what the host wrote before the word; pairs with the release of its store. */
    uint64_t value = op->word.bytes == 4 ? __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE)
                                         : __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE);
    return value_satisfies(&op->word, value);
}

static void unblock(CUstream *list, CUstream stream) {
    while (*list && *list != stream) {
        list = &(*list)->next_blocked;
    }
    if (*list) {
        *list = stream->next_blocked;
        stream->next_blocked = NULL;
    }
}

/* The pass ----------------------------------------------------------------------------------------
 */

static void resume(CUstream stream);

/* Joins who ended the wait, if that can be said already. */
static bool join_value(CUstream stream, const emu_op_t *op) {
    emu_token_t *token = token_at(op->word.address);
    if (emu_word_satisfied(op)) {
        emu_vector_join(&stream->clock, &token->clock);
        return true;
    }
    if (token->written && value_satisfies(&op->word, token->value)) {
        emu_vector_join(&stream->clock, &token->write_clock);
        return true;
    }
    stream->next_blocked = token->blocked;
    token->blocked = stream;
    return false;
}

static bool join_wait(CUstream stream, const emu_op_t *op) {
    if (op->kind == EMU_OP_WAIT_VALUE) {
        return join_value(stream, op);
    }
    if (op->kind == EMU_OP_WAIT && !op->record->known) {
        stream->next_blocked = op->record->blocked;
        op->record->blocked = stream;
        return false;
    }
    if (op->kind == EMU_OP_WAIT) {
        emu_vector_join(&stream->clock, &op->record->clock);
    }
    return true;
}

static void resume_all(CUstream list) {
    while (list) {
        CUstream next = list->next_blocked;
        list->next_blocked = NULL;
        resume(list);
        list = next;
    }
}

static void publish_write(CUstream stream, const emu_op_t *op) {
    emu_token_t *token = token_at(op->word.address);
    token->written = true;
    token->value = op->word.value;
    emu_vector_copy(&token->write_clock, &stream->clock);
    CUstream list = token->blocked;
    token->blocked = NULL;
    resume_all(list); /* those for whom this value is none block again */
}

static void check_ranges(CUstream stream, emu_op_t *op) {
    bool signals = false;
    emu_epoch_t epoch = {.timeline = stream->timeline,
                         .clock = ++stream->clock.at[stream->timeline],
                         .serial = op->serial,
                         .what = op->what};
    for (uint32_t i = 0; i < op->ranges; i++) {
        const emu_range_t *range = &op->range[i];
        signals = signals || range->access == EMU_SIGNAL;
        if (range->allocation && range->access != EMU_SIGNAL && !op->fault) {
            emu_check(range->allocation, range->begin, range->bytes, range->access, &epoch,
                      &stream->clock);
        }
    }
    if (signals && op->kind != EMU_OP_WAIT_VALUE) {
        emu_vector_copy(&op->clock, &stream->clock);
    }
}

/* The operation's waits are over, as far as clocks go. */
static void pass(CUstream stream, emu_op_t *op) {
    op->known = true;
    if (op->ranges > 0) {
        check_ranges(stream, op);
    }
    if (op->kind == EMU_OP_HOST) {
        emu_vector_copy(&op->clock, &stream->clock);
    } else if (op->kind == EMU_OP_RECORD) {
        emu_record_t *record = op->record;
        emu_vector_copy(&record->clock, &stream->clock);
        record->known = true;
        CUstream list = record->blocked;
        record->blocked = NULL;
        resume_all(list);
    } else if (op->kind == EMU_OP_WRITE_VALUE) {
        publish_write(stream, op);
    }
}

static void forget_first(CUstream stream) {
    emu_op_t *op = stream->unknown;
    stream->unknown = op->next_unknown;
    op->next_unknown = NULL;
    if (!stream->unknown) {
        stream->unknown_last = NULL;
    }
}

static void resume(CUstream stream) {
    while (stream->unknown) {
        emu_op_t *op = stream->unknown;
        emu_vector_join(&stream->clock, &op->host_clock);
        if (!join_wait(stream, op)) {
            return;
        }
        forget_first(stream);
        pass(stream, op);
    }
}

static void keep_unknown(CUstream stream, emu_op_t *op) {
    if (stream->unknown_last) {
        stream->unknown_last->next_unknown = op;
    } else {
        stream->unknown = op;
    }
    stream->unknown_last = op;
}

void emu_clock_pass(CUstream stream, emu_op_t *op) {
    emu_host_t *host = emu_self()->host;
    if (stream->unknown) {
        emu_vector_copy(&op->host_clock, &host->clock);
        keep_unknown(stream, op);
        host->handed_on = true;
        return;
    }
    if (stream->seen_version != host->version) {
        emu_vector_join(&stream->clock, &host->clock);
        stream->seen_version = host->version;
    }
    host->handed_on = true;
    if (join_wait(stream, op)) {
        pass(stream, op);
    } else {
        keep_unknown(stream, op);
    }
}

void emu_clock_force(emu_op_t *op) {
    CUstream stream = op->stream;
    if (op->known) {
        return;
    }
    if (op->kind == EMU_OP_WAIT_VALUE) {
        emu_token_t *token = token_at(op->word.address);
        unblock(&token->blocked, stream);
        emu_vector_join(&stream->clock, &token->clock);
    } else if (op->kind == EMU_OP_WAIT) {
        unblock(&op->record->blocked, stream);
    }
    emu_vector_join(&stream->clock, &op->host_clock);
    forget_first(stream);
    pass(stream, op);
    resume(stream);
}

void emu_clock_executed(emu_op_t *op) {
    if (op->clock.count == 0) {
        return;
    }
    for (uint32_t i = 0; i < op->ranges; i++) {
        if (op->range[i].access == EMU_SIGNAL) {
            emu_vector_join(&token_at(op->range[i].begin)->clock, &op->clock);
        }
    }
}

/* The host ----------------------------------------------------------------------------------------
 */

void emu_host_join(const emu_vector_t *clock) {
    emu_host_t *host = emu_self()->host;
    emu_vector_join(&host->clock, clock);
    host->version = ++emu.versions;
}

/* What the host does from now on does not come before those to whom its clock was handed. */
static void host_advance(emu_host_t *host) {
    if (host->handed_on) {
        host->clock.at[host->timeline]++;
        host->version = ++emu.versions;
        host->handed_on = false;
    }
}

void emu_host_access(uint64_t address, uint64_t bytes, emu_access_t access, const char *what) {
    emu_host_t *host = emu_self()->host;
    host_advance(host);
    emu_epoch_t epoch = {
        .timeline = host->timeline, .clock = host->clock.at[host->timeline], .what = what};
    emu_allocation_t *allocation = emu_allocation_at(address);
    if (allocation && bytes > 0) {
        emu_check(allocation, address, bytes, access, &epoch, &host->clock);
    }
}

static void declare(const void *pointer, size_t bytes, emu_access_t access, const char *what) {
    if (emu_forbidden) {
        return;
    }
    pthread_mutex_lock(&emu.lock);
    if (emu.initialized) {
        emu_host_access((uintptr_t)pointer, bytes, access, what);
    }
    pthread_mutex_unlock(&emu.lock);
}

void heddle_emucuda_host_read(const void *pointer, size_t bytes) {
    declare(pointer, bytes, EMU_READ, "the host");
}

void heddle_emucuda_host_write(const void *pointer, size_t bytes) {
    declare(pointer, bytes, EMU_WRITE, "the host");
}

/* A host function hands on what comes before it in its stream. */
void heddle_emucuda_host_release(const void *token) {
    if (emu_forbidden && !emu_callback_op) {
        return;
    }
    pthread_mutex_lock(&emu.lock);
    if (emu_callback_op) {
        emu_vector_join(&token_at((uintptr_t)token)->clock, &emu_callback_op->clock);
    } else if (emu.initialized) {
        emu_host_t *host = emu_self()->host;
        emu_vector_join(&token_at((uintptr_t)token)->clock, &host->clock);
        host->handed_on = true;
    }
    pthread_mutex_unlock(&emu.lock);
}

void heddle_emucuda_host_acquire(const void *token) {
    if (emu_forbidden) {
        return;
    }
    pthread_mutex_lock(&emu.lock);
    if (emu.initialized) {
        emu_host_join(&token_at((uintptr_t)token)->clock);
    }
    pthread_mutex_unlock(&emu.lock);
}
