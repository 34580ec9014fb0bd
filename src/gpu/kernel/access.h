/* access.h: how a kernel reads and writes memory; and where it runs.
 *
 * A kernel is a function of its arguments and of a place: a thread of a block of the grid. nvcc
 * makes it a function of the device, the host's compiler one that the emulated device calls for one
 * thread after the other. Threads share nothing: no kernel waits for another thread.
 *
 * On the device, loads and stores are written as instructions: addresses come as numbers, so the
 * compiler would not know that they are global; and it must neither move a load behind a store,
 * since a destination may be a source, nor take the path of read-only data.
 */
#ifndef HD_GPU_KERNEL_ACCESS_H
#define HD_GPU_KERNEL_ACCESS_H

#include "core/reduce_scalar.h"
#include "gpu/kernel/args.h"

#include <stdbool.h>

/* A device's compiler makes one function of a kernel, in which what it calls is known: constants,
 * and lanes. On the host all kernels share theirs, and lanes are called by pointers: that takes
 * longer to run, and much less to compile. */
#if defined(__CUDACC__)
#define HD_BODY        HD_INLINE
#define HD_UNROLL      _Pragma("unroll")
#define HD_DONT_UNROLL _Pragma("unroll 1")
#else
#define HD_BODY static inline __attribute__((unused))
#define HD_UNROLL
#define HD_DONT_UNROLL
#endif

typedef struct hd_gpu_place {
    uint32_t thread, threads; /* of the block */
    uint32_t block, blocks;   /* x of the grid */
    uint32_t part;            /* y of the grid */
#if !defined(__CUDACC__)
    void *(*memory)(const void *pointer); /* where the host finds it; NULL: there */
#endif
} hd_gpu_place_t;

/* A vector: HD_GPU_VECTOR bytes, of which an element may fill the first only. */
typedef struct hd_words {
    uint32_t w[HD_GPU_VECTOR / 4];
} hd_words_t;

#if defined(__CUDACC__)

/* wanted: else nothing is read, and the result is zero. A predicate, because branches around loads
 * would let them start one after the other. */
HD_BODY hd_words_t hd_read_vector(const hd_gpu_place_t *at, uint64_t address, bool wanted,
                                  const bool streaming) {
    hd_words_t v = {{0}};
    (void)at;
    if (streaming) {
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
                     "@p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                     : "+r"(v.w[0]), "+r"(v.w[1]), "+r"(v.w[2]), "+r"(v.w[3])
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
    } else {
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
                     "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                     : "+r"(v.w[0]), "+r"(v.w[1]), "+r"(v.w[2]), "+r"(v.w[3])
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
    }
    return v;
}

/* Either way by a predicate: a copy of what is around stores would be more code. */
HD_BODY void hd_write_vector(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                             bool streaming) {
    (void)at;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
                 "@!p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n\t"
                 "@p st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};\n\t}" ::"l"(address),
                 "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]), "r"((uint32_t)streaming)
                 : "memory");
}

/* Up to 8 bytes, at their natural alignment. */
HD_BODY uint64_t hd_read_unit(const hd_gpu_place_t *at, uint64_t address, uint32_t unit,
                              bool wanted) {
    uint64_t wide = 0;
    uint32_t word = 0;
    uint16_t half = 0;
    (void)at;
    switch (unit) {
    case 8:
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t"
                     "@p ld.global.u64 %0, [%1];\n\t}"
                     : "+l"(wide)
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
        return wide;
    case 4:
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t"
                     "@p ld.global.u32 %0, [%1];\n\t}"
                     : "+r"(word)
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
        return word;
    case 2:
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t"
                     "@p ld.global.u16 %0, [%1];\n\t}"
                     : "+h"(half)
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
        return half;
    default:
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t"
                     "@p ld.global.u8 %0, [%1];\n\t}"
                     : "+r"(word)
                     : "l"(address), "r"((uint32_t)wanted)
                     : "memory");
        return word;
    }
}

HD_BODY void hd_write_unit(const hd_gpu_place_t *at, uint64_t address, uint64_t value,
                           uint32_t unit) {
    (void)at;
    switch (unit) {
    case 8:
        asm volatile("st.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
        break;
    case 4:
        asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"((uint32_t)value) : "memory");
        break;
    case 2:
        asm volatile("st.global.u16 [%0], %1;" ::"l"(address), "h"((uint16_t)value) : "memory");
        break;
    default:
        asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"((uint32_t)value) : "memory");
        break;
    }
}

/* 64 bits for somebody outside of this device, after all that was written before. */
HD_BODY void hd_write_word(const hd_gpu_place_t *at, uint64_t address, uint64_t value) {
    (void)at;
    asm volatile("fence.acq_rel.sys;\n\tst.release.sys.global.u64 [%0], %1;" ::"l"(address),
                 "l"(value)
                 : "memory");
}

#else

/* Ends the process with a line: a device would end the kernel. */
void hd_gpu_misaligned(uint64_t address, uint32_t unit) __attribute__((noreturn, cold));

HD_BODY void *hd_reach(const hd_gpu_place_t *at, uint64_t address, uint32_t unit) {
    void *pointer = (void *)(uintptr_t)address;
    if (address % unit) {
        hd_gpu_misaligned(address, unit);
    }
    return at->memory ? at->memory(pointer) : pointer;
}

HD_BODY hd_words_t hd_read_vector(const hd_gpu_place_t *at, uint64_t address, bool wanted,
                                  const bool streaming) {
    hd_words_t v = {{0}};
    (void)streaming;
    if (wanted) {
        memcpy(&v, hd_reach(at, address, sizeof(v)), sizeof(v));
    }
    return v;
}

HD_BODY void hd_write_vector(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                             bool streaming) {
    (void)streaming;
    memcpy(hd_reach(at, address, sizeof(v)), &v, sizeof(v));
}

HD_BODY uint64_t hd_read_unit(const hd_gpu_place_t *at, uint64_t address, uint32_t unit,
                              bool wanted) {
    uint64_t value = 0;
    if (wanted) {
        memcpy(&value, hd_reach(at, address, unit), unit); /* little-endian, as devices are */
    }
    return value;
}

HD_BODY void hd_write_unit(const hd_gpu_place_t *at, uint64_t address, uint64_t value,
                           uint32_t unit) {
    memcpy(hd_reach(at, address, unit), &value, unit);
}

/* Pairs with the acquire of whoever awaits the word. */
HD_BODY void hd_write_word(const hd_gpu_place_t *at, uint64_t address, uint64_t value) {
    __atomic_store_n((uint64_t *)hd_reach(at, address, sizeof(value)), value, __ATOMIC_RELEASE);
}

#endif

/* An element of `size` bytes, in units of its natural alignment: constants. The rest of the vector
 * is zero. */
HD_BODY hd_words_t hd_read_element(const hd_gpu_place_t *at, uint64_t address, uint32_t size,
                                   uint32_t unit, bool wanted) {
    uint64_t lo = 0, hi = 0;
    hd_words_t v;
    for (uint32_t byte = 0; byte < size; byte += unit) {
        uint64_t piece = hd_read_unit(at, address + byte, unit, wanted) << (byte % 8 * 8);
        lo |= byte < 8 ? piece : 0;
        hi |= byte < 8 ? 0 : piece;
    }
    v.w[0] = (uint32_t)lo;
    v.w[1] = (uint32_t)(lo >> 32);
    v.w[2] = (uint32_t)hi;
    v.w[3] = (uint32_t)(hi >> 32);
    return v;
}

HD_BODY void hd_write_element(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                              uint32_t size, uint32_t unit) {
    uint64_t lo = v.w[0] | (uint64_t)v.w[1] << 32, hi = v.w[2] | (uint64_t)v.w[3] << 32;
    for (uint32_t byte = 0; byte < size; byte += unit) {
        hd_write_unit(at, address + byte, (byte < 8 ? lo : hi) >> (byte % 8 * 8), unit);
    }
}

/* The same at any address. */
HD_BODY hd_words_t hd_read_bytes(const hd_gpu_place_t *at, uint64_t address, uint32_t size) {
    uint64_t lo = 0, hi = 0;
    hd_words_t v;
    HD_DONT_UNROLL
    for (uint32_t byte = 0; byte < size; byte++) {
        uint64_t piece = hd_read_unit(at, address + byte, 1, true) << (byte % 8 * 8);
        lo |= byte < 8 ? piece : 0;
        hi |= byte < 8 ? 0 : piece;
    }
    v.w[0] = (uint32_t)lo;
    v.w[1] = (uint32_t)(lo >> 32);
    v.w[2] = (uint32_t)hi;
    v.w[3] = (uint32_t)(hi >> 32);
    return v;
}

HD_BODY void hd_write_bytes(const hd_gpu_place_t *at, uint64_t address, hd_words_t v,
                            uint32_t size) {
    uint64_t lo = v.w[0] | (uint64_t)v.w[1] << 32, hi = v.w[2] | (uint64_t)v.w[3] << 32;
    HD_DONT_UNROLL
    for (uint32_t byte = 0; byte < size; byte++) {
        hd_write_unit(at, address + byte, (byte < 8 ? lo : hi) >> (byte % 8 * 8), 1);
    }
}

/* The words of a launch: arguments, or a table. */
typedef struct hd_list {
    const uint64_t *word;
    uint64_t table; /* 0: word */
} hd_list_t;

HD_BODY uint64_t hd_list_word(const hd_gpu_place_t *at, const hd_list_t *list, uint64_t i) {
    return list->table
               ? hd_read_unit(at, list->table + i * sizeof(uint64_t), sizeof(uint64_t), true)
               : list->word[i];
}

/* This thread's number among all of its part. */
HD_BODY uint64_t hd_thread(const hd_gpu_place_t *at) {
    return (uint64_t)at->block * at->threads + at->thread;
}

HD_BODY uint64_t hd_all_threads(const hd_gpu_place_t *at) {
    return (uint64_t)at->blocks * at->threads;
}

#endif
