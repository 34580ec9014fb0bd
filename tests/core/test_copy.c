/* test_copy.c: copies move exactly the bytes they were given, whatever the alignment, the size, the
 * stores and the vector unit. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/copy.h"
#include "core/isa.h"

enum { GUARD = 0xa5, MOST = 140 * 1024, ROOM = 256, MANY = 5 };

static _Alignas(64) unsigned char source[MOST + ROOM], wanted[MOST + ROOM];
static _Alignas(64) unsigned char target[MANY][MOST + ROOM];

static void setup(void) {
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = (unsigned char)(i * 31 + i / 251);
    }
}

TestSuite(copy, .init = setup, .timeout = 200);

/* All of `got` is guard but for bytes [at, at + bytes), which are those of the source. */
static bool is_copied(const unsigned char *got, size_t at, const unsigned char *src, size_t bytes,
                      size_t room) {
    memset(wanted, GUARD, room);
    memcpy(wanted + at, src, bytes);
    return memcmp(got, wanted, room) == 0;
}

static void one_copy(size_t dst_at, size_t src_at, size_t bytes, hd_stores_t stores) {
    size_t room = dst_at + bytes + 80;

    memset(target[0], GUARD, room);
    hd_copy(target[0] + dst_at, source + src_at, bytes, stores);
    hd_copy_fence();
    cr_assert(is_copied(target[0], dst_at, source + src_at, bytes, room),
              "%zu bytes from %zu to %zu, stores %d, %s", bytes, src_at, dst_at, (int)stores,
              hd_isa_name());
}

Test(copy, every_size_from_and_to_every_alignment) {
    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        for (size_t at = 0; at <= 130 && hd_isa_force((hd_isa_t)isa); at++) {
            const size_t sources[] = {0, 1, at, 130 - at};

            for (size_t s = 0; s < 4; s++) {
                for (size_t bytes = 0; bytes <= 1000; bytes += 1 + (at + s) % 3) {
                    one_copy(at, sources[s], bytes, HD_STORES_STREAMING);
                    one_copy(at, sources[s], bytes, HD_STORES_PAGES);
                }
            }
        }
    }
    for (size_t bytes = 0; bytes <= 1000; bytes++) {
        one_copy(bytes % 131, bytes % 67, bytes, HD_STORES_PLAIN);
        one_copy(bytes % 131, bytes % 67, bytes, HD_STORES_STRING);
    }
}

/* Their beginnings and ends overlap with whole lines by any number of bytes. */
Test(copy, every_size_of_plain_copies_by_vectors_from_and_to_every_alignment) {
    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        for (size_t at = 0; at <= 64 && hd_isa_force((hd_isa_t)isa); at++) {
            for (size_t bytes = HD_COPY_LONG - 1; bytes <= HD_COPY_LONG + 260;
                 bytes += 1 + at % 3) {
                one_copy(at, 64 - at, bytes, HD_STORES_PLAIN);
                one_copy(at, 2048 + at / 2, bytes, HD_STORES_PLAIN);
            }
        }
    }
}

static const size_t large[] = {
    2047,          2048,         2049,          4096,       8192 + 5,
    16383,         16384,        16384 + 63,    16384 + 64, 3 * 16384 + 4097,
    64 * 1024 - 1, 131072 + 200, 8 * 16384 - 64};
enum { N_LARGE = sizeof(large) / sizeof(large[0]) };

Test(copy, long_copies_of_several_walks_and_their_rest) {
    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        for (size_t i = 0; i < N_LARGE && hd_isa_force((hd_isa_t)isa); i++) {
            for (size_t at = 0; at < 128; at += 21) {
                one_copy(at, 0, large[i], HD_STORES_STREAMING);
                one_copy(at, 0, large[i], HD_STORES_PAGES);
                one_copy(at, 127 - at, large[i], HD_STORES_STREAMING);
                one_copy(at, 127 - at, large[i], HD_STORES_PAGES);
                one_copy(at, at, large[i], HD_STORES_PLAIN);
                one_copy(127 - at, at, large[i], HD_STORES_PLAIN);
                one_copy(at, 2100, large[i], HD_STORES_PLAIN);
                one_copy(2100, at, large[i], HD_STORES_PLAIN);
                one_copy(at, 127 - at, large[i], HD_STORES_STRING);
                one_copy(at + 1 + at % 31, at, large[i], HD_STORES_STRING);
            }
        }
    }
}

/* Around the size from which the C library's copy is taken again. */
Test(copy, of_a_megabyte_and_its_neighbours) {
    enum { MIB = 1 << 20 };
    unsigned char *from = malloc(MIB + 64), *to = malloc(MIB + 64);

    for (size_t i = 0; i < MIB + 64; i++) {
        from[i] = (unsigned char)(i * 31 + i / 251);
    }
    for (size_t bytes = MIB - 1; bytes <= MIB + 1; bytes++) {
        memset(to, GUARD, MIB + 64);
        hd_copy(to + 7, from + 3, bytes, HD_STORES_PLAIN);
        cr_assert_eq(memcmp(to + 7, from + 3, bytes), 0, "%zu bytes", bytes);
        cr_assert(to[6] == GUARD && to[7 + bytes] == GUARD, "%zu bytes", bytes);
    }
    free(from);
    free(to);
}

Test(copy, nothing_and_onto_itself) {
    unsigned char byte = 7;

    hd_copy(NULL, NULL, 0, HD_STORES_PLAIN);
    hd_copy(NULL, NULL, 0, HD_STORES_STRING);
    hd_copy(NULL, NULL, 0, HD_STORES_STREAMING);
    hd_copy(&byte, &byte, 1, HD_STORES_STREAMING);
    hd_copy_to_many(3, NULL, 0, NULL, 0, HD_STORES_STREAMING);
    hd_copy_to_many(0, NULL, 0, &byte, 1, HD_STORES_PLAIN);
    cr_assert_eq(byte, 7);
}

/* Destination j begins at at[j]; the one numbered `self` is the source. */
static void one_to_many(uint32_t m, const size_t *at, uint32_t self, size_t bytes,
                        hd_stores_t stores) {
    enum { OFFSET = 24 };
    void *dst[MANY] = {NULL};

    for (uint32_t j = 0; j < m; j++) {
        memset(target[j], GUARD, bytes + ROOM);
        dst[j] = j == self ? source + 64 : target[j] + at[j];
    }
    hd_copy_to_many(m, dst, OFFSET, source + 64 + OFFSET, bytes, stores);
    hd_copy_fence();
    for (uint32_t j = 0; j < m; j++) {
        size_t place = at[j] + OFFSET;
        bool copied =
            is_copied(target[j], place, source + 64 + OFFSET, j == self ? 0 : bytes, bytes + ROOM);

        cr_assert(copied, "%zu bytes, destination %u of %u, stores %d, %s", bytes, j, m,
                  (int)stores, hd_isa_name());
    }
}

Test(copy, one_source_to_several_destinations) {
    static const size_t same[MANY] = {40, 40, 40, 40, 40}, mixed[MANY] = {40, 0, 1, 63, 104};
    static const uint32_t none = MANY;

    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        for (int stores = 0; stores <= HD_STORES_PAGES && hd_isa_force((hd_isa_t)isa); stores++) {
            for (uint32_t m = 1; m <= MANY; m++) {
                for (size_t bytes = 1; bytes < 5000; bytes += 97) {
                    one_to_many(m, mixed, (uint32_t)bytes % (m + 1), bytes, (hd_stores_t)stores);
                }
                for (size_t i = 0; i < N_LARGE; i++) {
                    one_to_many(m, same, none, large[i], (hd_stores_t)stores);
                    one_to_many(m, mixed, none, large[i], (hd_stores_t)stores);
                    one_to_many(m, mixed, m / 2, large[i], (hd_stores_t)stores);
                }
            }
        }
    }
}

Test(copy, a_vector_unit_that_is_not_there_is_refused) {
    const char *before = hd_isa_name();

    cr_assert(hd_isa() < HD_ISA_LAST);
    cr_assert(!hd_isa_force(HD_ISA_LAST));
    cr_assert_str_eq(hd_isa_name(), before);
    cr_assert(hd_isa_force(HD_ISA_BASE));
    cr_assert_str_eq(hd_isa_name(), "base");
}
