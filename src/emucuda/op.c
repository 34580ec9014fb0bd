/* op.c: operations and records, made, copied and given back; and what an operation touches. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

emu_op_t *emu_op_new(emu_kind_t kind, const char *what) {
    emu_op_t *op = emu.free_op;
    if (op) {
        emu.free_op = op->next;
        memset(op, 0, sizeof(*op));
    } else {
        op = emu_alloc(1, sizeof(*op));
    }
    op->kind = kind;
    op->what = what;
    op->range = op->few;
    op->range_capacity = sizeof(op->few) / sizeof(*op->few);
    return op;
}

emu_op_t *emu_op_copy(const emu_op_t *from) {
    emu_op_t *op = emu_op_new(from->kind, from->what);
    op->event = from->event;
    switch (from->kind) {
    case EMU_OP_KERNEL:
        op->kernel = from->kernel;
        op->kernel.param = emu_alloc(1, from->kernel.param_bytes);
        memcpy(op->kernel.param, from->kernel.param, from->kernel.param_bytes);
        break;
    case EMU_OP_COPY:
        op->copy = from->copy;
        break;
    case EMU_OP_FILL:
        op->fill = from->fill;
        break;
    case EMU_OP_WRITE_VALUE:
    case EMU_OP_WAIT_VALUE:
        op->word = from->word;
        break;
    case EMU_OP_HOST:
        op->callback = from->callback;
        break;
    default:
        break;
    }
    return op;
}

static void drop_ranges(emu_op_t *op) {
    for (uint32_t i = 0; i < op->ranges; i++) {
        if (op->range[i].allocation) {
            emu_allocation_drop(op->range[i].allocation);
        }
    }
    op->ranges = 0;
}

void emu_op_free(emu_op_t *op) {
    drop_ranges(op);
    if (op->range != op->few) {
        free(op->range);
    }
    if (op->kind == EMU_OP_KERNEL) {
        free(op->kernel.param);
    } else if (op->kind == EMU_OP_COPY) {
        free(op->copy.staged);
    }
    if (op->record) {
        emu_record_drop(op->record);
    }
    emu_vector_free(&op->host_clock);
    emu_vector_free(&op->clock);
    if (op->exec) {
        emu_exec_drop(op->exec);
    }
    op->next = emu.free_op;
    emu.free_op = op;
}

void emu_ops_free(void) {
    while (emu.free_op) {
        emu_op_t *next = emu.free_op->next;
        free(emu.free_op);
        emu.free_op = next;
    }
    while (emu.free_record) {
        emu_record_t *next = emu.free_record->next_free;
        emu_vector_free(&emu.free_record->clock);
        free(emu.free_record);
        emu.free_record = next;
    }
    free(emu.declared_span);
    emu.declared_span = NULL;
    emu.declared = emu.declared_capacity = 0;
}

/* Records keep the room of their clocks. */
emu_record_t *emu_record_new(void) {
    emu_record_t *record = emu.free_record;
    if (record) {
        emu_vector_t clock = record->clock;
        emu.free_record = record->next_free;
        *record = (emu_record_t){.clock = clock};
        record->clock.count = 0;
    } else {
        record = emu_alloc(1, sizeof(*record));
    }
    record->references = 1;
    return record;
}

void emu_record_hold(emu_record_t *record) {
    record->references++;
}

void emu_record_drop(emu_record_t *record) {
    if (--record->references == 0) {
        record->next_free = emu.free_record;
        emu.free_record = record;
    }
}

/* Ranges ------------------------------------------------------------------------------------------
 */

void emu_op_range(emu_op_t *op, uint64_t begin, uint64_t bytes, emu_access_t access) {
    if (bytes == 0) {
        return;
    }
    if (op->ranges == op->range_capacity) {
        if (op->range == op->few) {
            op->range = emu_alloc(4 * op->range_capacity, sizeof(*op->range));
            memcpy(op->range, op->few, sizeof(op->few));
            op->range_capacity *= 4;
        } else {
            op->range =
                emu_grow(op->range, &op->range_capacity, op->ranges + 1, sizeof(*op->range));
        }
    }
    emu_allocation_t *allocation = emu_allocation_at(begin);
    if (allocation) {
        allocation->pending++;
    }
    op->range[op->ranges++] =
        (emu_range_t){.begin = begin, .bytes = bytes, .allocation = allocation, .access = access};
}

typedef struct collector {
    heddle_emucuda_ranges_t functions; /* first: what kernels see */
    emu_op_t *op;
} collector_t;

static void collect(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes,
                    emu_access_t access) {
    emu_op_range(((collector_t *)ranges)->op, (uintptr_t)pointer, bytes, access);
}

static void collect_read(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes) {
    collect(ranges, pointer, bytes, EMU_READ);
}

static void collect_write(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes) {
    collect(ranges, pointer, bytes, EMU_WRITE);
}

static void collect_signal(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes) {
    collect(ranges, pointer, bytes, EMU_SIGNAL);
}

static void declare_kernel(emu_op_t *op) {
    const heddle_emucuda_kernel_t *kernel = op->kernel.function->kernel;
    void *params[EMU_PARAMS];
    emu_launch_params(&op->kernel, params);
    collector_t collector = {
        .functions = {.read = collect_read, .write = collect_write, .signal = collect_signal},
        .op = op};
    if (kernel->ranges) {
        emu_forbidden = true;
        kernel->ranges(&op->kernel.launch, params, &collector.functions);
        emu_forbidden = false;
    }
}

/* Rows that touch each other are one range; others are ranges of their own. */
static void declare_rows(emu_op_t *op, uint64_t begin, uint64_t pitch, emu_access_t access) {
    const emu_copy_t *copy = &op->copy;
    if (copy->height <= 1 || pitch == copy->width) {
        emu_op_range(op, begin, copy->width * copy->height, access);
        return;
    }
    for (uint64_t row = 0; row < copy->height; row++) {
        emu_op_range(op, begin + row * pitch, copy->width, access);
    }
}

/* Memory that is nobody's is the host's, which copies may touch and kernels may not. */
static bool is_fault(const emu_op_t *op, const emu_range_t *range, CUcontext context) {
    const emu_allocation_t *allocation = range->allocation;
    if (!allocation) {
        return op->kind != EMU_OP_COPY ||
               emu_bytes_at(range->begin) != (void *)(uintptr_t)range->begin;
    }
    if (range->bytes > allocation->bytes - (range->begin - allocation->base)) {
        return true;
    }
    return op->kind != EMU_OP_COPY && !emu_reaches(context, allocation);
}

void emu_op_declare(emu_op_t *op, CUcontext context) {
    switch (op->kind) {
    case EMU_OP_KERNEL:
        declare_kernel(op);
        break;
    case EMU_OP_COPY:
        if (!op->copy.staged) {
            declare_rows(op, op->copy.source, op->copy.source_pitch, EMU_READ);
        }
        declare_rows(op, op->copy.target, op->copy.target_pitch, EMU_WRITE);
        break;
    case EMU_OP_FILL:
        emu_op_range(op, op->fill.target, op->fill.count * op->fill.bytes, EMU_WRITE);
        break;
    case EMU_OP_WRITE_VALUE:
    case EMU_OP_WAIT_VALUE:
        emu_op_range(op, op->word.address, op->word.bytes, EMU_SIGNAL);
        break;
    case EMU_OP_ALLOC:
    case EMU_OP_FREE:
        op->range[0] = (emu_range_t){.begin = op->memory->base,
                                     .bytes = op->memory->bytes,
                                     .allocation = op->memory,
                                     .access = EMU_WRITE};
        op->memory->pending++;
        op->ranges = 1;
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < op->ranges && !op->fault; i++) {
        if (is_fault(op, &op->range[i], context)) {
            op->fault = op->range[i].begin;
            op->fault_access = op->range[i].access;
        }
    }
}
