/* What makes one thing come after another: events, words, gates, and what the host hands over. The
 * emulator finds what is not ordered whatever happens to run first, so each test does its chain,
 * and once more with each wait left out: then something must be found.
 */
#include "gpu/kernel.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 4096 };
#define FIRST HD_GPU_SITE_TEST

static const hd_gpu_driver_t *gpu;

static void ok(ucc_status_t status) {
    cr_assert_eq(status, UCC_OK, "%s", rig_line());
}

static hd_gpu_event_t *event_of(int device) {
    hd_gpu_event_t *event;
    ok(gpu->event_take(device, &event));
    return event;
}

static void copy(hd_gpu_stream_t stream, void *to, int to_device, void *from, int from_device) {
    ok(gpu->copy(stream, to, to_device, from, from_device, BYTES));
}

/* Runs the chain as it is, and without the waits of each of `sites` sites from FIRST on. */
static void each_wait_is_needed(const char *config, void (*chain)(void), unsigned sites) {
    for (unsigned i = 0; i <= sites; i++) {
        gpu = rig_open(config);
        heddle_emucuda_drop_site(i ? FIRST + i - 1 : 0);
        chain();
        cr_assert_eq(rig_found() > 0, i > 0, "%s, without site %u: %u findings, %s", config, i,
                     rig_found(), rig_find());
        for (unsigned j = 0; j < sites; j++) {
            cr_assert_gt(heddle_emucuda_site_count(FIRST + j), 0, "site %u", j);
        }
        if (i > 0) {
            rig_forget();
        }
        rig_close();
        heddle_emucuda_reset();
    }
}

static const char *const configs[] = {"2,seed=1", "2,seed=7,policy=lazy", "2,seed=3,policy=newest",
                                      "2,nopeer,channels=1", "2,channels=8,policy=starve"};

static void in_all_configurations(void (*chain)(void), unsigned sites) {
    for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
        each_wait_is_needed(configs[i], chain, sites);
    }
}

/* ---- events ---- */

/* A member's stream, ours, and back: on one device, and on another. */
static void there_and_back(void) {
    for (int other = 0; other < 2; other++) {
        void *memory = rig_alloc(0, BYTES), *result = rig_alloc(other, BYTES),
             *next = rig_alloc(0, BYTES);
        hd_gpu_stream_t user = rig_stream(0), own;
        hd_gpu_event_t *ready = event_of(0), *done = event_of(other);
        ok(gpu->stream(other, 0, &own));
        copy(user, memory, 0, next, 0); /* the producer */
        ok(gpu->record(user, ready));
        ok(gpu->wait(own, ready, FIRST));
        copy(own, result, other, memory, 0);
        ok(gpu->record(own, done));
        ok(gpu->wait(user, done, (hd_gpu_site_t)(FIRST + 1)));
        copy(user, next, 0, result, other); /* the consumer */
        copy(user, memory, 0, next, 0);     /* and the source is overwritten */
        gpu->event_put(ready);
        gpu->event_put(done);
        rig_stream_end(user);
        rig_free(0, memory);
        rig_free(other, result);
        rig_free(0, next);
    }
}

Test(order, events_order_streams_and_each_wait_is_needed) {
    in_all_configurations(there_and_back, 2);
}

/* An event is of what was recorded last before the wait was made, whatever is recorded later. */
static void record_again(void) {
    void *a = rig_alloc(0, BYTES), *b = rig_alloc(0, BYTES), *from = rig_alloc(0, BYTES);
    hd_gpu_stream_t user = rig_stream(0), own;
    hd_gpu_event_t *event = event_of(0);
    ok(gpu->stream(0, 1, &own));
    copy(user, a, 0, from, 0);
    ok(gpu->record(user, event));
    ok(gpu->wait(own, event, FIRST));
    copy(user, b, 0, from, 0);
    ok(gpu->record(user, event));
    copy(own, from, 0, a, 0); /* but b's copy reads from: the second record is needed, too */
    gpu->event_put(event);
    rig_stream_end(user);
    rig_free(0, a);
    rig_free(0, b);
    rig_free(0, from);
}

Test(order, a_wait_is_for_what_was_recorded_before_it) {
    gpu = rig_open("1");
    record_again();
    cr_assert_gt(rig_found(), 0);
    rig_forget();
    rig_close();
}

/* The host waits, and then frees and reads. */
static void for_the_host(void) {
    hd_gpu_block_t *block;
    ok(gpu->take(0, HD_GPU_PINNED, BYTES, &block));
    void *memory = rig_alloc(0, BYTES);
    hd_gpu_stream_t user = rig_stream(0);
    hd_gpu_event_t *first = event_of(0), *second = event_of(0);
    copy(user, block->memory, -1, memory, 0);
    ok(gpu->record(user, first));
    ok(gpu->event_await(first, FIRST));
    hd_gpu_touched(block->memory, BYTES, true);
    copy(user, memory, 0, block->memory, -1);
    ok(gpu->record(user, second));
    ucc_status_t status = UCC_INPROGRESS;
    while (status == UCC_INPROGRESS) {
        status = gpu->event_query(second, (hd_gpu_site_t)(FIRST + 1));
    }
    ok(status);
    hd_gpu_touched(block->memory, BYTES, true);
    gpu->event_put(first);
    gpu->event_put(second);
    gpu->put(block);
    rig_stream_end(user);
    rig_free(0, memory);
}

Test(order, the_host_waits_and_looks_and_each_is_needed) {
    in_all_configurations(for_the_host, 2);
}

Test(order, an_event_is_over_only_when_the_work_is) {
    gpu = rig_open("1,policy=lazy,idle=0");
    void *a = rig_alloc(0, BYTES), *b = rig_alloc(0, BYTES);
    hd_gpu_stream_t user = rig_stream(0);
    hd_gpu_event_t *event = event_of(0);
    ok(gpu->event_query(event, HD_GPU_SITE_NONE)); /* nothing was recorded */
    for (int i = 0; i < 50; i++) {
        copy(user, a, 0, b, 0);
    }
    ok(gpu->record(user, event));
    cr_assert_eq(gpu->event_query(event, HD_GPU_SITE_NONE), UCC_INPROGRESS);
    ok(gpu->event_await(event, HD_GPU_SITE_NONE));
    ok(gpu->event_query(event, HD_GPU_SITE_NONE));
    gpu->event_put(event);
    rig_stream_end(user);
    rig_free(0, a);
    rig_free(0, b);
    rig_close();
}

Test(order, events_come_back) {
    heddle_emucuda_report_t report;
    gpu = rig_open("1");
    for (int i = 0; i < 100; i++) {
        hd_gpu_event_t *a = event_of(0), *b = event_of(0);
        cr_assert_neq(a, b);
        gpu->event_put(a);
        gpu->event_put(b);
    }
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.events, 2);
    rig_close();
}

/* ---- words ---- */

static void await_word(hd_gpu_flag_t *word, uint64_t value, bool listen) {
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
        (void)heddle_emucuda_run(1);
    }
    if (listen) {
        cr_assert(hd_gpu_word_reached(word, value));
    }
}

static void by_word(bool kernel, bool listen) {
    hd_gpu_block_t *block;
    hd_gpu_flag_t *word;
    hd_gpu_launch_t launch;
    ok(gpu->take(0, HD_GPU_PINNED, BYTES, &block));
    ok(gpu->word_take(0, &word));
    void *memory = rig_alloc(0, BYTES);
    hd_gpu_stream_t user = rig_stream(0);
    for (uint64_t i = 1; i <= 3; i++) {
        copy(user, block->memory, -1, memory, 0);
        if (kernel) { /* as where streams can't write words by themselves */
            hd_gpu_write_word(&launch, (uint64_t *)(uintptr_t)word, i);
            ok(gpu->launch(user, &launch));
        } else {
            ok(gpu->signal(user, word, i));
        }
        cr_assert(!hd_gpu_word_reached(word, i + 1));
        await_word(word, i, listen);
        hd_gpu_touched(block->memory, BYTES, true);
    }
    gpu->word_put(0, word);
    gpu->put(block);
    rig_stream_end(user);
    rig_free(0, memory);
}

Test(order, whoever_sees_a_word_sees_what_came_before_it) {
    for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
        for (int kernel = 0; kernel < 2; kernel++) {
            gpu = rig_open(configs[i]);
            by_word(kernel, true);
            cr_assert_eq(rig_found(), 0, "%s: %s", configs[i], rig_find());
            rig_close();
            heddle_emucuda_reset();
        }
    }
}

Test(order, a_word_that_nobody_looks_at_orders_nothing) {
    gpu = rig_open("1");
    by_word(false, false);
    cr_assert_gt(rig_found(), 0);
    rig_forget();
    rig_close();
}

static void by_gate(void) {
    hd_gpu_block_t *block;
    hd_gpu_flag_t *word;
    ok(gpu->take(0, HD_GPU_PINNED, BYTES, &block));
    ok(gpu->word_take(0, &word));
    void *memory = rig_alloc(0, BYTES);
    hd_gpu_stream_t user = rig_stream(0);
    hd_gpu_event_t *event = event_of(0);
    ok(gpu->gate(user, word, 5, FIRST));
    copy(user, memory, 0, block->memory, -1);
    ok(gpu->record(user, event));
    hd_gpu_touched(block->memory, BYTES, true);
    hd_gpu_word_open(word, 6);
    ok(gpu->event_await(event, HD_GPU_SITE_NONE));
    gpu->event_put(event);
    gpu->word_put(0, word);
    gpu->put(block);
    rig_stream_end(user);
    rig_free(0, memory);
}

Test(order, a_gate_keeps_later_work_until_the_host_opens_it) {
    in_all_configurations(by_gate, 1);
}

/* ---- threads of the host ---- */

static struct {
    hd_gpu_block_t *block;
    _Atomic int step;
} shared;

/* Writes pinned memory, and lets another thread enqueue what reads it. */
static void *writer(void *said) {
    hd_gpu_touched(shared.block->memory, BYTES, true);
    if (said) {
        hd_gpu_handed_over(&shared.step);
    }
    atomic_store_explicit(&shared.step, 1, memory_order_release);
    return NULL;
}

static void across_threads(bool said) {
    pthread_t thread;
    gpu = rig_open("1,host=threads");
    ok(gpu->take(0, HD_GPU_PINNED, BYTES, &shared.block));
    void *memory = rig_alloc(0, BYTES);
    hd_gpu_stream_t stream = rig_stream(0);
    hd_gpu_event_t *event = event_of(0);
    shared.step = 0;
    cr_assert_eq(pthread_create(&thread, NULL, writer, said ? &shared : NULL), 0);
    while (atomic_load_explicit(&shared.step, memory_order_acquire) == 0) {
    }
    hd_gpu_taken_over(&shared.step);
    copy(stream, memory, 0, shared.block->memory, -1);
    ok(gpu->record(stream, event));
    ok(gpu->event_await(event, HD_GPU_SITE_NONE));
    pthread_join(thread, NULL);
    gpu->event_put(event);
    gpu->put(shared.block);
    rig_stream_end(stream);
    rig_free(0, memory);
}

Test(order, what_threads_hand_over_is_ordered) {
    across_threads(true);
    cr_assert_eq(rig_found(), 0, "%s", rig_find());
    rig_close();
}

Test(order, what_is_handed_over_without_a_word_is_not) {
    across_threads(false);
    cr_assert_gt(rig_found(), 0);
    rig_forget();
    rig_close();
}

Test(order, with_a_real_driver_nobody_is_told) {
    cr_assert(!atomic_load(&hd_gpu_told));
    hd_gpu_handed_over(&shared);
    hd_gpu_taken_over(&shared);
    hd_gpu_touched(&shared, sizeof(shared), true);
    gpu = rig_open("1");
    cr_assert(atomic_load(&hd_gpu_told));
    rig_close();
    cr_assert(!atomic_load(&hd_gpu_told));
}
