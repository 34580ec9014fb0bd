/* fuzz.h: what fuzz targets share: reading an input, and a network without UCX (fake_ucx.c).
 *
 * fake_ucx.c stands in for src/net/ucx.c: a message that a target puts in comes to the lane at its next progress; what
 * the lane sends, or receives of a rendezvous, ends when and how the target says. Whatever the library does
 * wrong with it ends the program: a rendezvous that is ended twice, or never, a receive that has not the bytes of its
 * message.
 */
#ifndef TESTS_FUZZ_H_
#define TESTS_FUZZ_H_

#include "net/ucx.h"

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

/* --- fake_ucx.c --- */

/* Comes at the next progress. data: of a message that is not a rendezvous; a copy is taken of all. */
void fake_ucx_put(const void *header, size_t header_bytes, const void *data, size_t bytes,
                  bool rendezvous);
/* What becomes of sends and receives: a status, or UCC_INPROGRESS: until fake_ucx_end. */
void fake_ucx_decide(ucc_status_t status);
/* Ends one request that is under way, if there is any: the i-th, modulo their number. False: there is none. */
bool fake_ucx_end(uint32_t i, ucc_status_t status);
/* Rendezvous that the library has kept, and has neither received nor released. */
uint32_t fake_ucx_kept(void);

#endif
