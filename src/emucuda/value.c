/* value.c: streams that write words, and wait for words. */
#include "emu.h"

static CUresult enter_word(CUstream handle, CUstream *stream) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS) {
        status = emu_stream(handle, context, stream);
        if (status != CUDA_SUCCESS) {
            emu_leave(status);
        }
    }
    return status;
}

static bool valid(const emu_word_t *word, emu_kind_t kind) {
    const emu_allocation_t *allocation = emu_allocation_at(word->address);
    if (!allocation || word->address % word->bytes != 0 ||
        word->bytes > allocation->bytes - (word->address - allocation->base)) {
        return false;
    }
    return kind == EMU_OP_WAIT_VALUE ? word->flags <= CU_STREAM_WAIT_VALUE_NOR : word->flags <= 1;
}

static CUresult submit(CUstream stream, emu_kind_t kind, emu_word_t word) {
    if (!valid(&word, kind)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (kind == EMU_OP_WAIT_VALUE && emu_site_dropped()) {
        return CUDA_SUCCESS;
    }
    emu_op_t *op =
        emu_op_new(kind, kind == EMU_OP_WAIT_VALUE ? "a wait for a value" : "a write of a value");
    op->word = word;
    return emu_submit(stream, op);
}

static CUresult one(CUstream handle, emu_kind_t kind, emu_word_t word) {
    CUstream stream;
    CUresult status = enter_word(handle, &stream);
    return status == CUDA_SUCCESS ? emu_leave(submit(stream, kind, word)) : status;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                unsigned int flags) {
    return one(stream, EMU_OP_WAIT_VALUE,
               (emu_word_t){.address = word, .value = value, .flags = flags, .bytes = 4});
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                unsigned int flags) {
    return one(stream, EMU_OP_WAIT_VALUE,
               (emu_word_t){.address = word, .value = value, .flags = flags, .bytes = 8});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                 unsigned int flags) {
    return one(stream, EMU_OP_WRITE_VALUE,
               (emu_word_t){.address = word, .value = value, .flags = flags, .bytes = 4});
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                 unsigned int flags) {
    return one(stream, EMU_OP_WRITE_VALUE,
               (emu_word_t){.address = word, .value = value, .flags = flags, .bytes = 8});
}

/* One of a batch, as an operation of its own. */
static CUresult take(CUstream stream, const CUstreamBatchMemOpParams *from) {
    emu_word_t word = {.address = from->waitValue.address,
                       .value = from->waitValue.value64,
                       .flags = from->waitValue.flags};
    switch (from->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        word.bytes = 4;
        word.value = from->waitValue.value;
        break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        word.bytes = 8;
        break;
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS; /* operations are in order here anyway */
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    bool wait = from->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                from->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return submit(stream, wait ? EMU_OP_WAIT_VALUE : EMU_OP_WRITE_VALUE, word);
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned int count,
                               CUstreamBatchMemOpParams *operations, unsigned int flags) {
    CUstream stream;
    CUresult status = enter_word(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (count > 256 || !operations || flags != 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    for (unsigned int i = 0; i < count && status == CUDA_SUCCESS; i++) {
        status = take(stream, &operations[i]);
    }
    return emu_leave(status);
}
