/* wire.c: fuzz target of the header that every message among processes begins with, and of swaps
 * (src/net/wire.c).
 *
 * An input's first two bytes say how many bytes of data are said to have come with the header,
 * which is the rest. What is taken for a header or a swap must be one that could have been written,
 * and every one that is written must be taken.
 */
#include "fuzz.h"

#include "net/wire.h"

static void write_and_read(const hd_wire_t *wire, const uint8_t *expected) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t again;
    hd_wire_write(wire, header);
    CHECK(!expected || memcmp(header, expected, sizeof(header)) == 0);
    CHECK(!hd_wire_parse(header, sizeof(header), wire->bytes, &again));
    CHECK(again.kind == wire->kind && again.source == wire->source && again.team == wire->team &&
          again.number == wire->number && again.bytes == wire->bytes &&
          again.floor == wire->floor && again.status == wire->status &&
          again.wanted == wire->wanted && again.step == wire->step);
}

/* Of the input's bytes, but such as a process would write. */
static void compose(input_t in) {
    hd_wire_t wire = {.kind = (uint8_t)(HD_WIRE_DATA + next_byte(&in) % 3),
                      .class = next_byte(&in) % HD_NET_N_CLASSES,
                      .step = (uint16_t)next_number(&in, 2),
                      .source = (uint32_t)next_number(&in, 4),
                      .segment = (uint32_t)next_number(&in, 4),
                      .signature = (uint32_t)next_number(&in, 4),
                      .taken = (uint32_t)next_number(&in, 4),
                      .team = next_number(&in, 8),
                      .number = next_number(&in, 8),
                      .ordinal = next_number(&in, 8),
                      .subset = next_number(&in, 8),
                      .floor = next_number(&in, 8)};
    if (wire.kind == HD_WIRE_DATA) {
        wire.bytes = next_number(&in, 8);
    }
    if (wire.kind == HD_WIRE_ABORT) {
        wire.status = (ucc_status_t)(-1 - next_byte(&in) % (-UCC_ERR_LAST - 1));
    } else if (next_byte(&in) & 1) {
        wire.flags = HD_WIRE_WANTED;
        wire.wanted = wire.number - (uint64_t)(int64_t)(int16_t)next_number(&in, 2);
    }
    write_and_read(&wire, NULL);
}

/* --- swaps --- */

static void write_and_read_swap(const hd_wire_swap_t *swap, const uint8_t *data,
                                const uint8_t *expected) {
    uint8_t message[HD_WIRE_SWAP_BYTES];
    hd_wire_swap_t again;
    size_t n = hd_wire_write_swap(swap, data, message);
    size_t behind = swap->bytes > HD_SWAP_BYTES ? swap->bytes : 0;
    CHECK(n == HD_WIRE_SWAP_HEAD + swap->bytes - behind && n <= sizeof(message));
    CHECK(!expected || memcmp(message, expected, n) == 0);
    CHECK(memcmp(message + HD_WIRE_SWAP_HEAD, data, n - HD_WIRE_SWAP_HEAD) == 0);
    CHECK(!hd_wire_parse_swap(message, n, behind, &again));
    CHECK(again.team == swap->team && again.source == swap->source && again.bytes == swap->bytes &&
          again.signature == swap->signature &&
          again.number == (swap->number & ((UINT64_C(1) << HD_WIRE_SWAP_BITS) - 1)));
    CHECK(hd_wire_parse_swap(message, n, 1, &again));
    CHECK(hd_wire_parse_swap(message, n, HD_SWAP_LONG + 1, &again));
}

static void parse_swap(const uint8_t *message, size_t n, size_t data) {
    hd_wire_swap_t swap;
    if (!hd_wire_parse_swap(message, n, data, &swap)) {
        CHECK(n + data == HD_WIRE_SWAP_HEAD + swap.bytes && swap.bytes <= HD_SWAP_LONG);
        CHECK(n == HD_WIRE_SWAP_HEAD ? !data || data > HD_SWAP_BYTES : !data);
        CHECK(swap.number >> HD_WIRE_SWAP_BITS == 0);
        write_and_read_swap(&swap, message + HD_WIRE_SWAP_HEAD, message);
    }
}

static void compose_swap(input_t in) {
    uint8_t data[HD_SWAP_LONG];
    hd_wire_swap_t swap = {.bytes = (uint32_t)next_number(&in, 2) % (HD_SWAP_LONG + 1),
                           .source = next_byte(&in) % HD_SWAP_PROCESSES,
                           .signature = (uint32_t)next_number(&in, 4),
                           .team = next_number(&in, 8),
                           .number = next_number(&in, 8)};
    next_bytes(&in, data, sizeof(data));
    write_and_read_swap(&swap, data, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    hd_wire_t wire;
    size_t bytes = next_number(&in, 2);
    const char *wrong = hd_wire_parse(in.at, in.left, bytes, &wire);
    CHECK(wrong || in.left == HD_WIRE_BYTES);
    if (!wrong) {
        CHECK(wire.bytes == bytes && wire.class < HD_NET_N_CLASSES);
        CHECK(wire.kind != HD_WIRE_ABORT || (wire.status < 0 && wire.status > UCC_ERR_LAST) ||
              wire.status == UCC_ERR_LAST);
        write_and_read(&wire, in.at);
    }
    compose(in);
    parse_swap(in.at, in.left, bytes);
    compose_swap(in);
    return 0;
}
