/* hash.h: mixing values into one: by which things are named on the wire, and looked up. The same in
 * all processes. */
#ifndef HD_CORE_HASH_H
#define HD_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* `hash` with one more value: of equal hashes, different values give different ones. */
static inline uint64_t hd_hash_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Of any bytes, under a key: SipHash-2-4 of 128 bits, key and hash as their bytes are read there,
 * the lowest first. */
void hd_keyed_hash(const uint64_t key[2], const void *bytes, size_t n, uint64_t hash[2]);

#endif
