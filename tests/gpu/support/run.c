#include "run.h"

#include "gpu/gpu.h"
#include "gpu/kernel/host.h"
#include "support/deadline.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a device, if one is asked for ---- */

enum { BLOCKS = 16 };

static const hd_gpu_driver_t *gpu;
static hd_gpu_block_t *pinned[BLOCKS];
static hd_gpu_stream_t stream;
static hd_gpu_flag_t *word;
static hd_gpu_event_t *event;
static uint64_t ticket;

static bool on_device(void) {
    const char *mode = getenv("HEDDLE_TEST_GPU");
    if (mode && !gpu) {
        must(hd_gpu_configure(mode, ""), "hd_gpu_configure");
        must(hd_gpu_open(&gpu), "hd_gpu_open");
        must(gpu->stream(0, 0, &stream), "stream");
        must(gpu->word_take(0, &word), "word_take");
        must(gpu->event_take(0, &event), "event_take");
    }
    return mode != NULL;
}

void *run_memory(size_t bytes) {
    for (int i = 0; on_device() && i < BLOCKS; i++) {
        if (!pinned[i]) {
            must(gpu->take(0, HD_GPU_PINNED, bytes, &pinned[i]), "pinned memory");
            return pinned[i]->memory;
        }
    }
    return must_alloc((bytes + 63) / 64, 64);
}

void run_memory_free(void *memory) {
    for (int i = 0; i < BLOCKS && on_device(); i++) {
        if (pinned[i] && pinned[i]->memory == memory) {
            gpu->put(pinned[i]);
            pinned[i] = NULL;
            return;
        }
    }
    free(memory);
}

static void launch_there(const hd_gpu_launch_t *launch, run_grid_t grid) {
    hd_gpu_launch_t other = *launch;
    deadline_t deadline = deadline_start("a launch");
    other.blocks = grid.blocks ? grid.blocks : launch->blocks;
    other.threads = grid.threads ? grid.threads : launch->threads;
    must(gpu->launch(stream, &other), "launch");
    must(gpu->record(stream, event), "record");
    must(gpu->signal(stream, word, ++ticket), "signal");
    while (!hd_gpu_word_reached(word, ticket)) {
        ucc_status_t status = gpu->event_query(event, HD_GPU_SITE_NONE);
        must(status == UCC_INPROGRESS ? UCC_OK : status, "the device");
        deadline_poll(&deadline);
    }
}

/* ---- what a launch says that it touches ---- */

/* One flag for each byte of a stretch of memory; what lies elsewhere (tables) is in a list. */
enum { MAX_ELSEWHERE = 16 };

static struct {
    uintptr_t base;
    size_t bytes;
    uint8_t *touched;
    uintptr_t begin[MAX_ELSEWHERE], end[MAX_ELSEWHERE];
    uint32_t elsewhere;
} watch;

void run_watch(const void *base, size_t bytes) {
    free(watch.touched);
    watch.base = (uintptr_t)base;
    watch.bytes = bytes;
    watch.touched = must_alloc(bytes, 1);
}

static void mark(const void *pointer, size_t bytes, uint8_t flag) {
    uintptr_t begin = (uintptr_t)pointer;
    if (watch.touched && begin >= watch.base && begin + bytes <= watch.base + watch.bytes) {
        memset(watch.touched + (begin - watch.base), flag, bytes);
    } else if (watch.elsewhere < MAX_ELSEWHERE) {
        watch.begin[watch.elsewhere] = begin;
        watch.end[watch.elsewhere++] = begin + bytes;
    } else {
        fprintf(stderr, "run.c: too many ranges outside of what is watched\n");
        abort();
    }
}

static void note(void *arg, const void *pointer, size_t bytes, bool written) {
    (void)arg;
    (void)written;
    mark(pointer, bytes, 1);
}

static void forget(void *arg, const void *pointer, size_t bytes, bool written) {
    (void)arg;
    (void)written;
    mark(pointer, bytes, 0);
}

static void watch_begin(const hd_gpu_launch_t *launch) {
    watch.elsewhere = 0;
    hd_gpu_ranges(launch->kernel, &launch->args, note, NULL);
}

static void watch_end(const hd_gpu_launch_t *launch) {
    watch.elsewhere = 0;
    hd_gpu_ranges(launch->kernel, &launch->args, forget, NULL);
}

static void *reach(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    if (address - watch.base < watch.bytes && watch.touched[address - watch.base]) {
        return (void *)address;
    }
    for (uint32_t i = 0; i < watch.elsewhere; i++) {
        if (watch.begin[i] <= address && address < watch.end[i]) {
            return (void *)address;
        }
    }
    fprintf(stderr, "run.c: a kernel reaches %p, which hd_gpu_ranges() does not tell\n", pointer);
    abort();
}

/* ---- threads ---- */

typedef struct thread_id {
    uint32_t part, block, thread;
} thread_id_t;

static thread_id_t *shuffled(uint32_t parts, run_grid_t grid, uint64_t *seed) {
    size_t n = (size_t)parts * grid.blocks * grid.threads;
    thread_id_t *id = must_alloc(n, sizeof(*id));
    for (size_t i = 0; i < n; i++) {
        id[i] =
            (thread_id_t){(uint32_t)(i / grid.threads / grid.blocks),
                          (uint32_t)(i / grid.threads % grid.blocks), (uint32_t)(i % grid.threads)};
    }
    for (size_t i = n; i-- > 1;) {
        size_t j = random_below(seed, i + 1);
        thread_id_t other = id[j];
        id[j] = id[i];
        id[i] = other;
    }
    return id;
}

void run_launch(const hd_gpu_launch_t *launch, run_grid_t grid, uint64_t *seed) {
    if (launch->blocks == 0) {
        return;
    }
    if (on_device()) {
        launch_there(launch, grid);
        return;
    }
    grid.blocks = grid.blocks ? grid.blocks : launch->blocks;
    grid.threads = grid.threads ? grid.threads : launch->threads;
    watch_begin(launch);
    size_t n = (size_t)launch->parts * grid.blocks * grid.threads;
    thread_id_t *id = shuffled(launch->parts, grid, seed);
    for (size_t i = 0; i < n; i++) {
        hd_gpu_place_t at = {.thread = id[i].thread,
                             .threads = grid.threads,
                             .block = id[i].block,
                             .blocks = grid.blocks,
                             .part = id[i].part,
                             .memory = reach};
        hd_gpu_thread[launch->kernel](&at, &launch->args);
    }
    free(id);
    watch_end(launch);
}

void run_module(const hd_gpu_launch_t *launch) {
    heddle_emucuda_launch_t how = {.grid = {launch->blocks, launch->parts, 1},
                                   .block = {launch->threads, 1, 1}};
    void *params[] = {(void *)(uintptr_t)&launch->args};
    watch_begin(launch);
    for (uint32_t i = 0; i < launch->blocks * launch->parts; i++) {
        heddle_emucuda_block_t block = {
            .launch = &how, .index = {i % launch->blocks, i / launch->blocks, 0}, .memory = reach};
        hd_gpu_host_module.kernel[launch->kernel].run(&block, params);
    }
    watch_end(launch);
}
