/* host.c: how a block of a kernel runs on the host, and what it reaches: called by the functions
 * that host.h makes of each kernel, on the emulated driver's threads. image.c lists them.
 */
#include "gpu/kernel/host.h"

#include "core/log.h"

#include <stdlib.h>

void hd_gpu_misaligned(uint64_t address, uint32_t unit) {
    hd_fatal("a kernel reaches %u bytes at 0x%llx, which is no multiple of that", unit,
             (unsigned long long)address);
    abort();
}

void hd_run_block(const heddle_emucuda_block_t *block, const void *args, hd_thread_fn thread) {
    hd_gpu_place_t at = {.threads = block->launch->block.x,
                         .block = block->index.x,
                         .blocks = block->launch->grid.x,
                         .part = block->index.y,
                         .memory = block->memory};
    for (at.thread = 0; at.thread < at.threads; at.thread++) {
        thread(&at, args);
    }
}

static void touch(void *arg, const void *pointer, size_t bytes, bool written) {
    heddle_emucuda_ranges_t *ranges = arg;
    (written ? ranges->write : ranges->read)(ranges, pointer, bytes);
}

void hd_declare_ranges(uint32_t kernel, const void *args, heddle_emucuda_ranges_t *ranges) {
    if (kernel == HD_GPU_WORD) { /* somebody awaits it */
        const hd_gpu_word_t *word = args;
        ranges->signal(ranges, (const void *)(uintptr_t)word->address, sizeof(word->value));
        return;
    }
    hd_gpu_ranges(kernel, args, touch, ranges);
}
