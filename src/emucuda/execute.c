/* execute.c: what an operation does when its turn comes. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

static const char *access_name(emu_access_t access) {
    return access == EMU_READ ? "reads" : access == EMU_WRITE ? "writes" : "signals";
}

static void fault(const emu_op_t *op, uint64_t address, emu_access_t access, const char *why) {
    char where[64];
    emu_name_timeline(op->stream->timeline, where, sizeof(where));
    emu_find(HEDDLE_EMUCUDA_FAULT, "%s (operation %llu, %s) %s 0x%llx: %s", op->what,
             (unsigned long long)op->serial, where, access_name(access),
             (unsigned long long)address, why);
    emu_context_fail(op->stream->context, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static const char *why_fault(const emu_op_t *op, uint64_t address) {
    const emu_range_t *range = op->range;
    while (range->begin != address) {
        range++;
    }
    const emu_allocation_t *allocation = range->allocation;
    if (!allocation) {
        return "no memory of a device, nor pinned";
    }
    if (range->bytes > allocation->bytes - (address - allocation->base)) {
        return "more than its allocation has";
    }
    return "memory of another device, to which access is not enabled";
}

/* False: the context has failed. */
static bool check_memory(const emu_op_t *op) {
    if (op->fault) {
        fault(op, op->fault, op->fault_access, why_fault(op, op->fault));
        return false;
    }
    for (uint32_t i = 0; i < op->ranges; i++) {
        const emu_allocation_t *allocation = op->range[i].allocation;
        if (allocation && !allocation->alive && op->kind != EMU_OP_ALLOC &&
            op->kind != EMU_OP_FREE) {
            fault(op, op->range[i].begin, op->range[i].access, "memory that was freed");
            return false;
        }
    }
    return true;
}

/* Kernels -----------------------------------------------------------------------------------------
 */

static int by_begin(const void *a, const void *b) {
    const emu_span_t *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* What the kernel has declared, as spans that neither overlap nor touch, ascending: kernels ask for
 * each access. */
static void declare(const emu_op_t *op) {
    emu.declared = 0;
    emu.declared_span =
        emu_grow(emu.declared_span, &emu.declared_capacity, op->ranges, sizeof(*emu.declared_span));
    emu_span_t *span = emu.declared_span;
    for (uint32_t i = 0; i < op->ranges; i++) {
        const emu_range_t *range = &op->range[i];
        span[i] = (emu_span_t){range->begin, range->begin + range->bytes};
    }
    if (op->ranges > 0) {
        qsort(span, op->ranges, sizeof(*span), by_begin);
    }
    for (uint32_t i = 0; i < op->ranges; i++) {
        emu_span_t *last = emu.declared > 0 ? &span[emu.declared - 1] : NULL;
        if (last && span[i].begin <= last->end) {
            last->end = span[i].end > last->end ? span[i].end : last->end;
        } else {
            span[emu.declared++] = span[i];
        }
    }
}

/* Also what ends there. */
static bool is_declared(uint64_t address) {
    uint32_t low = 0, high = emu.declared;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (emu.declared_span[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address <= emu.declared_span[low - 1].end;
}

void *heddle_emucuda_memory(const void *pointer) {
    emu_op_t *op = emu.current_op; /* of the thread that has the lock: it runs this kernel */
    uint64_t address = (uintptr_t)pointer;
    if (!op || !pointer) {
        return (void *)(uintptr_t)address;
    }
    if (is_declared(address)) {
        return emu_bytes_at(address);
    }
    if (!op->kernel.blamed) {
        op->kernel.blamed = true;
        fault(op, address, EMU_READ, "what it did not declare");
    }
    return emu_bytes_at(address);
}

static void run_block(emu_op_t *op, void **params, uint64_t number, void *shared) {
    const heddle_emucuda_dim_t *grid = &op->kernel.launch.grid;
    heddle_emucuda_block_t block = {
        .launch = &op->kernel.launch, .shared = shared, .memory = heddle_emucuda_memory};
    block.index.x = (uint32_t)(number % grid->x);
    block.index.y = (uint32_t)(number / grid->x % grid->y);
    block.index.z = (uint32_t)(number / grid->x / grid->y);
    op->kernel.function->kernel->run(&block, params);
}

static bool run_window(emu_op_t *op) {
    emu_launch_t *kernel = &op->kernel;
    void *params[EMU_PARAMS];
    void *shared = kernel->launch.shared_bytes > 0 ? malloc(kernel->launch.shared_bytes) : NULL;
    emu_launch_params(kernel, params);
    declare(op);
    emu.current_op = op;
    emu_forbidden = true;
    for (uint32_t i = 0; i < emu.config.window && kernel->next < kernel->blocks;
         i++, kernel->next++) {
        run_block(op, params, (kernel->first + kernel->next * kernel->stride) % kernel->blocks,
                  shared);
    }
    emu_forbidden = false;
    emu.current_op = NULL;
    free(shared);
    return kernel->next == kernel->blocks;
}

/* Memory ------------------------------------------------------------------------------------------
 */

static void run_copy(const emu_copy_t *copy) {
    char *target = emu_bytes_at(copy->target);
    const char *source = copy->staged ? copy->staged : emu_bytes_at(copy->source);
    uint64_t source_pitch = copy->staged ? copy->width : copy->source_pitch;
    for (uint64_t row = 0; row < copy->height && copy->width > 0; row++) {
        memmove(target + row * copy->target_pitch, source + row * source_pitch, copy->width);
    }
}

static void run_fill(const emu_fill_t *fill) {
    void *target = emu_bytes_at(fill->target); /* aligned to its elements */
    uint16_t *halves = target;
    uint32_t *words = target;
    switch (fill->bytes) {
    case 1:
        memset(target, (int)fill->value, fill->count);
        break;
    case 2:
        for (uint64_t i = 0; i < fill->count; i++) {
            halves[i] = (uint16_t)fill->value;
        }
        break;
    default:
        for (uint64_t i = 0; i < fill->count; i++) {
            words[i] = fill->value;
        }
    }
}

static void run_write_value(const emu_word_t *word) {
    void *at = emu_bytes_at(word->address);
    /* Releases what earlier work wrote; pairs with whoever waits for the word. */
    if (word->bytes == 4) {
        __atomic_store_n((uint32_t *)at, (uint32_t)word->value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n((uint64_t *)at, word->value, __ATOMIC_RELEASE);
    }
}

static void run_free(emu_allocation_t *allocation) {
    if (allocation->kind == EMU_POOL_MEMORY && allocation->alive) {
        emu_pool_used(allocation, false);
    }
    emu_allocation_end(allocation);
}

bool emu_execute(emu_op_t *op) {
    if (op->kind == EMU_OP_RECORD) {
        emu_record_reached(op->record);
        return true;
    }
    if (op->kind == EMU_OP_FREE) {
        run_free(op->memory);
        return true;
    }
    if (op->stream->context->error != CUDA_SUCCESS || !check_memory(op)) {
        return true;
    }
    switch (op->kind) {
    case EMU_OP_KERNEL:
        return run_window(op);
    case EMU_OP_COPY:
        run_copy(&op->copy);
        break;
    case EMU_OP_FILL:
        run_fill(&op->fill);
        break;
    case EMU_OP_WRITE_VALUE:
        run_write_value(&op->word);
        break;
    default:
        break;
    }
    return true;
}
