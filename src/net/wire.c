/* wire.c: see wire.h. Whatever a peer sends goes through hd_wire_parse, which believes nothing. */
#include "net/wire.h"

#include <string.h>

/* Where the fields stand. */
enum {
    AT_VERSION = 0,
    AT_KIND = 1,
    AT_CLASS = 2,
    AT_FLAGS = 3,
    AT_STEP = 4,
    AT_EXTRA = 6, /* ABORT: the status; else how far below `number` the wanted floor is */
    AT_SOURCE = 8,
    AT_SEGMENT = 12,
    AT_SIGNATURE = 16,
    AT_TAKEN = 20,
    AT_TEAM = 24,
    AT_NUMBER = 32,
    AT_ORDINAL = 40,
    AT_SUBSET = 48,
    AT_BYTES = 56,
    AT_FLOOR = 64
};
_Static_assert(AT_FLOOR + 8 == HD_WIRE_BYTES, "the floor is the last field");

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLE16(_x) (_x)
#define LITTLE32(_x) (_x)
#define LITTLE64(_x) (_x)
#else
#define LITTLE16(_x) __builtin_bswap16(_x)
#define LITTLE32(_x) __builtin_bswap32(_x)
#define LITTLE64(_x) __builtin_bswap64(_x)
#endif

static void put16(uint8_t *at, uint16_t x) {
    x = LITTLE16(x);
    memcpy(at, &x, sizeof(x));
}
static void put32(uint8_t *at, uint32_t x) {
    x = LITTLE32(x);
    memcpy(at, &x, sizeof(x));
}
static void put64(uint8_t *at, uint64_t x) {
    x = LITTLE64(x);
    memcpy(at, &x, sizeof(x));
}
static uint16_t get16(const uint8_t *at) {
    uint16_t x;
    memcpy(&x, at, sizeof(x));
    return LITTLE16(x);
}
static uint32_t get32(const uint8_t *at) {
    uint32_t x;
    memcpy(&x, at, sizeof(x));
    return LITTLE32(x);
}
static uint64_t get64(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, sizeof(x));
    return LITTLE64(x);
}

/* The two things that are 16 bits with a sign. */
static uint16_t extra_of(const hd_wire_t *wire) {
    if (wire->kind == HD_WIRE_ABORT) {
        return (uint16_t)(int16_t)wire->status;
    }
    return wire->flags & HD_WIRE_WANTED ? (uint16_t)(wire->number - wire->wanted) : 0;
}

void hd_wire_write(const hd_wire_t *wire, uint8_t header[HD_WIRE_BYTES]) {
    header[AT_VERSION] = HD_WIRE_VERSION;
    header[AT_KIND] = wire->kind;
    header[AT_CLASS] = wire->class;
    header[AT_FLAGS] = wire->flags;
    put16(header + AT_STEP, wire->step);
    put16(header + AT_EXTRA, extra_of(wire));
    put32(header + AT_SOURCE, wire->source);
    put32(header + AT_SEGMENT, wire->segment);
    put32(header + AT_SIGNATURE, wire->signature);
    put32(header + AT_TAKEN, wire->taken);
    put64(header + AT_TEAM, wire->team);
    put64(header + AT_NUMBER, wire->number);
    put64(header + AT_ORDINAL, wire->ordinal);
    put64(header + AT_SUBSET, wire->subset);
    put64(header + AT_BYTES, wire->bytes);
    put64(header + AT_FLOOR, wire->floor);
}

const char *hd_wire_parse(const void *header, size_t n, size_t data, hd_wire_t *wire) {
    const uint8_t *at = header;
    if (n != HD_WIRE_BYTES) {
        return n < HD_WIRE_BYTES ? "the header is too short" : "the header is too long";
    }
    if (at[AT_VERSION] != HD_WIRE_VERSION) {
        return "another version of the protocol";
    }
    *wire = (hd_wire_t){.kind = at[AT_KIND],
                        .class = at[AT_CLASS],
                        .flags = at[AT_FLAGS],
                        .step = get16(at + AT_STEP),
                        .source = get32(at + AT_SOURCE),
                        .segment = get32(at + AT_SEGMENT),
                        .signature = get32(at + AT_SIGNATURE),
                        .taken = get32(at + AT_TAKEN),
                        .team = get64(at + AT_TEAM),
                        .number = get64(at + AT_NUMBER),
                        .ordinal = get64(at + AT_ORDINAL),
                        .subset = get64(at + AT_SUBSET),
                        .bytes = get64(at + AT_BYTES),
                        .floor = get64(at + AT_FLOOR)};
    int16_t extra = (int16_t)get16(at + AT_EXTRA);
    if (wire->kind < HD_WIRE_DATA || wire->kind >= HD_WIRE_END) {
        return "no such kind of message";
    }
    if (wire->class >= HD_NET_N_CLASSES) {
        return "no such class";
    }
    if (wire->flags & ~HD_WIRE_FLAGS) {
        return "unknown flags";
    }
    if (wire->bytes != data) {
        return "the bytes are not those that came";
    }
    if (wire->kind != HD_WIRE_DATA && data > 0) {
        return "data with a message that has none";
    }
    if (wire->kind == HD_WIRE_ABORT) {
        wire->status = (ucc_status_t)extra;
        if (extra >= 0 || extra < UCC_ERR_LAST) {
            return "an abort without an error";
        }
    } else if (wire->flags & HD_WIRE_WANTED) {
        wire->wanted = wire->number - (uint64_t)(int64_t)extra;
    } else if (extra) {
        return "a floor is named, but not wanted";
    }
    return NULL;
}

/* --- swaps ------------------------------------------------------------------------------------ */

/* Where the fields of a swap stand. MIXED: the number's lowest bits, above them the source. */
enum { SWAP_VERSION = 0 /* its lowest byte */, SWAP_MIXED = 0, SWAP_SIGNATURE = 4, SWAP_TEAM = 8 };
enum { SWAP_SOURCE_SHIFT = 8 + HD_WIRE_SWAP_BITS, SWAP_MARK = 0xA0 | HD_WIRE_VERSION };
_Static_assert((HD_SWAP_PROCESSES - 1) >> (32 - SWAP_SOURCE_SHIFT) == 0, "a source has 4 bits");

static const uint32_t swap_numbers = (1u << HD_WIRE_SWAP_BITS) - 1;

size_t hd_wire_write_swap(const hd_wire_swap_t *swap, const void *data,
                          uint8_t header[HD_WIRE_SWAP_BYTES]) {
    put32(header + SWAP_MIXED, SWAP_MARK | ((uint32_t)swap->number & swap_numbers) << 8 |
                                   swap->source << SWAP_SOURCE_SHIFT);
    put32(header + SWAP_SIGNATURE, swap->signature);
    put64(header + SWAP_TEAM, swap->team);
    if (swap->bytes > HD_SWAP_BYTES) {
        return HD_WIRE_SWAP_HEAD;
    }
    if (swap->bytes) {
        memcpy(header + HD_WIRE_SWAP_HEAD, data, swap->bytes);
    }
    return HD_WIRE_SWAP_HEAD + swap->bytes;
}

const char *hd_wire_parse_swap(const void *header, size_t n, size_t data, hd_wire_swap_t *swap) {
    const uint8_t *at = header;
    if (n < HD_WIRE_SWAP_HEAD || n > HD_WIRE_SWAP_BYTES) {
        return n < HD_WIRE_SWAP_HEAD ? "the header is too short" : "a swap is too long";
    }
    if (at[SWAP_VERSION] != SWAP_MARK) {
        return "the header is too short, or another version of the protocol";
    }
    if (data > 0 && (n != HD_WIRE_SWAP_HEAD || data <= HD_SWAP_BYTES || data > HD_SWAP_LONG)) {
        return "a swap's data is in two places, or in the wrong one, or too long";
    }
    uint32_t mixed = get32(at + SWAP_MIXED);
    *swap = (hd_wire_swap_t){.team = get64(at + SWAP_TEAM),
                             .number = mixed >> 8 & swap_numbers,
                             .source = mixed >> SWAP_SOURCE_SHIFT,
                             .signature = get32(at + SWAP_SIGNATURE),
                             .bytes = (uint32_t)(n - HD_WIRE_SWAP_HEAD + data)};
    return NULL;
}
