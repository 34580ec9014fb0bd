/* fuzz.h: what fuzz targets share: checking, and reading an input. */
#ifndef TESTS_FUZZ_H_
#define TESTS_FUZZ_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *at;
    size_t left;
} input_t;

/* 0 after the end. */
static inline uint8_t next_byte(input_t *in) {
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

static inline uint64_t next_number(input_t *in, uint32_t bytes) {
    uint64_t x = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        x |= (uint64_t)next_byte(in) << (8 * i);
    }
    return x;
}

/* The bytes that are left, at most n, and zeros. */
static inline void next_bytes(input_t *in, void *to, size_t n) {
    size_t some = in->left < n ? in->left : n;
    if (n > 0) {
        memset(to, 0, n);
        memcpy(to, in->at, some);
    }
    in->at += some;
    in->left -= some;
}

/* Where these stand in a process's address (src/net/address.c). */
enum { AT_ADDRESS_CHECK = 12, AT_ADDRESS_TOKEN = 56 };

/* Puts an address's checksum right: over all, with 0 for itself. */
static inline void fuzz_check_address(uint8_t *address, size_t bytes) {
    uint32_t x = 2166136261u;
    if (bytes < AT_ADDRESS_CHECK + sizeof(x)) {
        return;
    }
    memset(address + AT_ADDRESS_CHECK, 0, sizeof(x));
    for (size_t i = 0; i < bytes; i++) {
        x = (x ^ address[i]) * 16777619u;
    }
    memcpy(address + AT_ADDRESS_CHECK, &x, sizeof(x));
}

#endif
