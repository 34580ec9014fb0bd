/* look.c: finds out at init whose memory a buffer is, and whether there is as much of it as the
 * call says. A device that reads or writes beyond an allocation is lost, with all that the process
 * has there.
 */
#include "device/internal.h"

#include "core/dtype.h"

#include <stdio.h>

static const hd_gpu_memory_t nothing = {.kind = HD_GPU_HOST, .device = -1};

bool hd_device_finds_host(const void *buffer) {
    hd_gpu_memory_t memory;
    return hd_gpu_memory_of(buffer, &memory) == UCC_OK &&
           (memory.kind == HD_GPU_HOST || memory.kind == HD_GPU_PINNED);
}

static ucc_status_t refuse(const hd_op_t *op, const char *field, const char *why) {
    return hd_op_refuse(op, UCC_ERR_NOT_SUPPORTED, "%s.mem_type: %s", field, why);
}

ucc_status_t hd_device_become(hd_op_t *op) {
    if (!hd_team_devices(op->team)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!op->device) {
        op->device = hd_alloc(HD_LINE_PAIR, sizeof(*op->device));
    }
    if (!op->device) {
        hd_error("%s: no memory for what devices have to know", hd_type_name(op->call.type));
        return UCC_ERR_NO_MEMORY;
    }
    if (!op->call.device) {
        for (int i = 0; i < HD_SIDES; i++) { /* what an earlier call of the request has left */
            op->device->side[i].memory = nothing;
            op->device->side[i].found = false;
        }
    }
    op->call.device = true;
    return UCC_OK;
}

static hd_device_side_t *side_of(const hd_op_t *op, const char *field) {
    return &op->device->side[field[0] == 'd' ? HD_SIDE_DST : HD_SIDE_SRC];
}

/* This is all that is known: the driver says the same of a pointer to the host's memory, and of one
 * that leads nowhere. */
#define NO_MEMORY                                                                                  \
    "has a device's memory type, but there is no device memory: is it the host's, freed, or "      \
    "outside of an allocation?"

/* hd_device_look, but for how much there is. */
static ucc_status_t look(hd_op_t *op, const char *field, ucc_memory_type_t type, const void *buffer,
                         size_t bytes) {
    hd_gpu_memory_t memory = nothing;
    bool told = type == UCC_MEMORY_TYPE_CUDA || type == UCC_MEMORY_TYPE_CUDA_MANAGED;
    if ((unsigned)type > (unsigned)UCC_MEMORY_TYPE_UNKNOWN) {
        return hd_op_refuse(op, UCC_ERR_INVALID_PARAM, "%s has a memory type that does not exist",
                            field);
    }
    if (type != UCC_MEMORY_TYPE_UNKNOWN && !told) {
        return refuse(op, field, "device memory of this kind is not supported");
    }
    if (told && hd_gpu_inherited()) {
        return refuse(op, field, "the child of a fork has no memory of devices");
    }
    if (op->start && !op->call.device) { /* counts of a call on the host's memory are taken anew */
        bool posted = hd_task_status(&op->task) == UCC_INPROGRESS;
        return posted || (!told && hd_device_finds_host(buffer)) ? UCC_OK : UCC_INPROGRESS;
    }
    ucc_status_t status = told ? hd_device_become(op) : UCC_OK; /* may load the driver */
    if (status == UCC_ERR_NOT_SUPPORTED) {
        return refuse(op, field, "device memory is not supported without a driver");
    }
    if (status == UCC_OK && buffer) {
        status = hd_gpu_memory_of(buffer, &memory);
    }
    bool host = memory.kind == HD_GPU_HOST || memory.kind == HD_GPU_PINNED;
    if (status == UCC_OK && told && bytes && memory.kind == HD_GPU_HOST) {
        return hd_op_refuse(op, UCC_ERR_INVALID_PARAM, "%s " NO_MEMORY, field);
    }
    if (status == UCC_OK && !told && !host) {
        status = hd_device_become(op);
    }
    if (status == UCC_OK && told && memory.kind == HD_GPU_PINNED &&
        !hd_devices_have_pinned(op->team->devices, &memory, buffer)) {
        return refuse(op, field, "its device has this memory of the host at another address");
    }
    if (status == UCC_OK && op->call.device) {
        hd_device_side_t *side = side_of(op, field);
        side->memory = told || !host ? memory : nothing; /* the host's is looked at in the post */
        side->at = buffer;
        side->found = false;
    }
    return status;
}

/* --- how much there is ----------------------------------------------------------------------- */

/* What one block of a call needs. */
typedef struct need {
    const char *field;
    int64_t block; /* its number in a vector; -1: it is the whole buffer */
    const uint8_t *at;
    size_t bytes;
} need_t;

/* Returns the bytes from there on to the end of the allocation. SIZE_MAX: the driver can't tell. */
static size_t left(const hd_gpu_memory_t *memory, const uint8_t *at) {
    uint64_t offset = (uintptr_t)at - memory->base;
    return memory->base == 0 || memory->bytes == 0 ? SIZE_MAX
           : offset > memory->bytes                ? 0
                                                   : memory->bytes - offset;
}

/* Returns whether the memory goes on behind its range. What is mapped by the page may have several
 * ranges in a row: whole units, of which the last one is asked for. Two allocations of so many
 * bytes may lie like that as well; what goes from one into the other loses no device. */
static bool goes_on(const hd_gpu_memory_t *memory, const uint8_t *at, size_t bytes) {
    enum { UNIT = 2 * 1024 * 1024 };
    hd_gpu_memory_t last;
    return memory->kind == HD_GPU_DEVICE && (memory->base | memory->bytes) % UNIT == 0 &&
           hd_gpu_memory_of(at + bytes - 1, &last) == UCC_OK && last.kind == HD_GPU_DEVICE &&
           (last.base | last.bytes) % UNIT == 0;
}

bool hd_device_holds(const hd_gpu_memory_t *memory, const void *at, size_t bytes) {
    return bytes <= left(memory, at) || goes_on(memory, at, bytes);
}

static ucc_status_t check_fits(const hd_op_t *op, const hd_gpu_memory_t *memory,
                               const need_t *need) {
    char block[32] = "";
    if (hd_device_holds(memory, need->at, need->bytes)) {
        return UCC_OK;
    }
    if (need->block >= 0) {
        snprintf(block, sizeof(block), ", block %lld", (long long)need->block);
    }
    return hd_op_refuse(op, UCC_ERR_INVALID_PARAM,
                        "%s%s: %zu bytes are needed at %p, but its allocation ends after %zu",
                        need->field, block, need->bytes, (const void *)need->at,
                        left(memory, need->at));
}

/* Returns the memory of a side that devices are given as it is; else NULL. */
static const hd_gpu_memory_t *given(const hd_op_t *op, const char *field) {
    const hd_gpu_memory_t *memory = op->call.device ? &side_of(op, field)->memory : NULL;
    return memory && memory->kind != HD_GPU_HOST ? memory : NULL;
}

ucc_status_t hd_device_look(hd_op_t *op, const char *field, ucc_memory_type_t type,
                            const void *buffer, size_t bytes) {
    ucc_status_t status = look(op, field, type, buffer, bytes);
    const hd_gpu_memory_t *memory = status == UCC_OK && bytes ? given(op, field) : NULL;
    const need_t need = {field, -1, buffer, bytes};
    return memory ? check_fits(op, memory, &need) : status;
}

/* Checks a block. *memory is that of the block before, and then of this one. */
static ucc_status_t check_block(const hd_op_t *op, hd_gpu_memory_t *memory, const need_t *need) {
    if ((uintptr_t)need->at - memory->base >= memory->bytes) {
        ucc_status_t status = hd_gpu_memory_of(need->at, memory);
        if (status != UCC_OK) {
            return status;
        }
    }
    if (memory->kind == HD_GPU_HOST) {
        return hd_op_refuse(op, UCC_ERR_INVALID_PARAM, "%s, block %lld " NO_MEMORY, need->field,
                            (long long)need->block);
    }
    return check_fits(op, memory, need);
}

ucc_status_t hd_device_look_at_blocks(hd_op_t *op, const char *field,
                                      const ucc_coll_buffer_info_v_t *info, const hd_vector_t *v,
                                      size_t bytes) {
    size_t element = hd_dt_size(info->datatype);
    uint32_t first = 0; /* the first block that is not empty */
    while (bytes && hd_vector_count(v, first) == 0) {
        first++;
    }
    const void *at =
        bytes ? hd_vector_block(info->buffer, v, element, first).at : (uint8_t *)info->buffer;
    ucc_status_t status = look(op, field, info->mem_type, at, bytes);
    if (status != UCC_OK || !given(op, field)) {
        return status;
    }
    hd_gpu_memory_t memory = *given(op, field);
    for (uint32_t i = 0; i < op->n && status == UCC_OK; i++) {
        hd_data_t block = hd_vector_block(info->buffer, v, element, i);
        need_t need = {field, i, block.at, block.bytes};
        status = need.bytes ? check_block(op, &memory, &need) : UCC_OK;
    }
    return status;
}
