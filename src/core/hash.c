/* hash.c: SipHash-2-4 with 128 bits, a keyed hash by Aumasson and Bernstein. It was made for short
 * messages, and nobody can guess its value who has not the key. libsodium has others, but a process
 * without it must be able to show that it knows a key, too.
 */
#include "core/hash.h"

static inline uint64_t rotate(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

static void mix(uint64_t v[4], unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void take_in(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

/* Of up to 8 bytes, the first one lowest. */
static uint64_t word_of(const uint8_t *bytes, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) {
        word |= (uint64_t)bytes[i] << 8 * i;
    }
    return word;
}

void hd_keyed_hash(const uint64_t key[2], const void *bytes, size_t n, uint64_t hash[2]) {
    const uint8_t *at = bytes;
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575),
                     key[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    for (size_t i = 0; i < n / 8; i++, at += 8) {
        take_in(v, word_of(at, 8));
    }
    take_in(v, word_of(at, n % 8) | (uint64_t)n << 56);
    v[2] ^= 0xee;
    mix(v, 4);
    hash[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    mix(v, 4);
    hash[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
}
