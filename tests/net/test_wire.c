/* test_wire.c: headers are written and parsed alike, and what no peer of ours could have written is
 * refused. */
#include "../support/random.h"
#include "net/wire.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static hd_wire_t example(void) {
    return (hd_wire_t){.kind = HD_WIRE_DATA,
                       .class = HD_NET_TAG,
                       .flags = HD_WIRE_FORCED | HD_WIRE_WANTED,
                       .step = 513,
                       .source = 0x01020304,
                       .segment = 77,
                       .signature = 0xfedcba98,
                       .taken = 99,
                       .team = 0x1122334455667788,
                       .number = 1000000007,
                       .ordinal = 12,
                       .subset = 0xffffffffffffffff,
                       .bytes = 4096,
                       .floor = 1000000000,
                       .wanted = 1000000001};
}

Test(net_wire, what_was_written_is_read) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t in = example(), out;
    memset(&out, 0x55, sizeof(out));
    hd_wire_write(&in, header);
    cr_assert_null(hd_wire_parse(header, sizeof(header), 4096, &out));
    cr_assert(in.kind == out.kind && in.class == out.class && in.flags == out.flags);
    cr_assert(in.step == out.step && in.source == out.source && in.segment == out.segment);
    cr_assert(in.signature == out.signature && in.taken == out.taken && in.team == out.team);
    cr_assert(in.number == out.number && in.ordinal == out.ordinal && in.subset == out.subset);
    cr_assert(in.bytes == out.bytes && in.floor == out.floor && in.wanted == out.wanted);
}

Test(net_wire, a_wanted_floor_may_lie_above_the_number) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t in = example(), out;
    in.wanted = in.number + 300;
    hd_wire_write(&in, header);
    cr_assert_null(hd_wire_parse(header, sizeof(header), 4096, &out));
    cr_assert_eq(out.wanted, in.number + 300);
}

Test(net_wire, an_abort_carries_its_error) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t in = {.kind = HD_WIRE_ABORT, .status = UCC_ERR_TIMED_OUT}, out;
    hd_wire_write(&in, header);
    cr_assert_null(hd_wire_parse(header, sizeof(header), 0, &out));
    cr_assert_eq(out.status, UCC_ERR_TIMED_OUT);
    in.status = UCC_OK;
    hd_wire_write(&in, header);
    cr_assert_not_null(hd_wire_parse(header, sizeof(header), 0, &out));
}

/* Each of a length of its own, so that a sanitizer sees a byte that is read beyond. */
Test(net_wire, every_truncated_header_is_refused) {
    uint8_t header[HD_WIRE_BYTES + 1];
    hd_wire_t in = example(), out;
    hd_wire_write(&in, header);
    for (size_t n = 0; n <= HD_WIRE_BYTES + 1; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, header, n < HD_WIRE_BYTES ? n : HD_WIRE_BYTES);
        cr_assert_eq(hd_wire_parse(copy, n, 4096, &out) == NULL, n == HD_WIRE_BYTES, "%zu bytes",
                     n);
        free(copy);
    }
}

Test(net_wire, fields_out_of_range_are_refused) {
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 0},
                 {0, HD_WIRE_VERSION + 1},
                 {1, 0},
                 {1, HD_WIRE_END},
                 {1, HD_WIRE_CREDIT}, /* has no data */
                 {1, HD_WIRE_ABORT},
                 {2, HD_NET_N_CLASSES},
                 {2, 255},
                 {3, 4},
                 {3, 128},
                 {3, HD_WIRE_FORCED}, /* a floor is named that is not wanted */
                 {56, 1},
                 {63, 255}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t header[HD_WIRE_BYTES];
        hd_wire_t in = example(), out;
        hd_wire_write(&in, header);
        header[wrong[i].at] = wrong[i].value;
        cr_assert_not_null(hd_wire_parse(header, sizeof(header), 4096, &out), "byte %zu is %u",
                           wrong[i].at, wrong[i].value);
    }
}

/* Whatever is accepted is written again as it was. */
Test(net_wire, garbage_is_refused_or_means_what_it_says) {
    uint64_t random = 7;
    uint32_t accepted = 0;
    for (int i = 0; i < 200000; i++) {
        uint8_t header[HD_WIRE_BYTES], again[HD_WIRE_BYTES];
        hd_wire_t wire = example();
        hd_wire_write(&wire, header);
        for (uint64_t k = 1 + random_below(&random, i % 2 ? 3 : 72); k > 0; k--) {
            header[random_below(&random, sizeof(header))] = (uint8_t)random_next(&random);
        }
        if (!hd_wire_parse(header, sizeof(header), 4096, &wire)) {
            accepted++;
            hd_wire_write(&wire, again);
            cr_assert(memcmp(header, again, sizeof(header)) == 0);
        }
    }
    cr_assert_gt(accepted, 0);
}

/* --- swaps --- */

static hd_wire_swap_t example_swap(void) {
    return (hd_wire_swap_t){.team = 0x1122334455667788,
                            .number = 0xabcde,
                            .source = HD_SWAP_PROCESSES - 1,
                            .signature = 0xfedcba98,
                            .bytes = HD_SWAP_BYTES};
}

static const uint8_t swap_data[HD_SWAP_LONG] = {1, 2, 3, 250, 251, 252};

Test(net_wire, a_swap_of_any_size_is_read_as_it_was_written) {
    for (uint32_t bytes = 0; bytes <= HD_SWAP_BYTES; bytes++) {
        uint8_t message[HD_WIRE_SWAP_BYTES];
        hd_wire_swap_t in = example_swap(), out;
        memset(&out, 0x55, sizeof(out));
        in.bytes = bytes;
        cr_assert_eq(hd_wire_write_swap(&in, swap_data, message), HD_WIRE_SWAP_HEAD + bytes);
        cr_assert_null(hd_wire_parse_swap(message, HD_WIRE_SWAP_HEAD + bytes, 0, &out));
        cr_assert(out.team == in.team && out.number == in.number && out.source == in.source);
        cr_assert(out.signature == in.signature && out.bytes == bytes);
        cr_assert(memcmp(message + HD_WIRE_SWAP_HEAD, swap_data, bytes) == 0);
    }
}

Test(net_wire, more_data_of_a_swap_comes_behind_its_header) {
    for (uint32_t bytes = HD_SWAP_BYTES + 1; bytes <= HD_SWAP_LONG; bytes++) {
        uint8_t message[HD_WIRE_SWAP_BYTES];
        hd_wire_swap_t in = example_swap(), out;
        in.bytes = bytes;
        cr_assert_eq(hd_wire_write_swap(&in, swap_data, message), HD_WIRE_SWAP_HEAD);
        cr_assert_null(hd_wire_parse_swap(message, HD_WIRE_SWAP_HEAD, bytes, &out));
        cr_assert_eq(out.bytes, bytes);
    }
}

Test(net_wire, a_swap_whose_data_is_in_the_wrong_place_is_refused) {
    static const struct {
        size_t header, data;
    } wrong[] = {{HD_WIRE_SWAP_HEAD, 1},
                 {HD_WIRE_SWAP_HEAD, HD_SWAP_BYTES},
                 {HD_WIRE_SWAP_HEAD, HD_SWAP_LONG + 1},
                 {HD_WIRE_SWAP_HEAD, SIZE_MAX},
                 {HD_WIRE_SWAP_HEAD + 8, HD_SWAP_BYTES + 8}};
    uint8_t message[HD_WIRE_SWAP_BYTES];
    hd_wire_swap_t in = example_swap(), out;
    (void)hd_wire_write_swap(&in, swap_data, message);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_not_null(hd_wire_parse_swap(message, wrong[i].header, wrong[i].data, &out),
                           "%zu and %zu bytes", wrong[i].header, wrong[i].data);
    }
}

Test(net_wire, of_a_swaps_number_the_lowest_bits_travel) {
    uint8_t message[HD_WIRE_SWAP_BYTES];
    hd_wire_swap_t in = example_swap(), out;
    in.number = UINT64_C(0xfedcba9876543210);
    in.source = 0;
    size_t n = hd_wire_write_swap(&in, swap_data, message);
    cr_assert_null(hd_wire_parse_swap(message, n, 0, &out));
    cr_assert_eq(out.number, 0x43210);
    cr_assert_eq(out.source, 0);
}

/* Each of a length of its own, so that a sanitizer sees a byte that is read beyond. */
Test(net_wire, a_swap_that_is_too_short_or_too_long_is_refused) {
    uint8_t message[HD_WIRE_BYTES] = {0};
    hd_wire_swap_t in = example_swap(), out;
    hd_wire_write_swap(&in, swap_data, message);
    for (size_t n = 0; n <= sizeof(message); n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, message, n);
        cr_assert_eq(hd_wire_parse_swap(copy, n, 0, &out) == NULL,
                     n >= HD_WIRE_SWAP_HEAD && n <= HD_WIRE_SWAP_BYTES, "%zu bytes", n);
        free(copy);
    }
}

Test(net_wire, a_swap_of_another_version_or_with_data_beside_it_is_refused) {
    uint8_t message[HD_WIRE_SWAP_BYTES];
    hd_wire_swap_t in = example_swap(), out;
    size_t n = hd_wire_write_swap(&in, swap_data, message);
    cr_assert_not_null(hd_wire_parse_swap(message, n, 1, &out));
    for (uint32_t bit = 0; bit < 8; bit++) {
        message[0] ^= (uint8_t)(1u << bit);
        cr_assert_not_null(hd_wire_parse_swap(message, n, 0, &out), "bit %u", bit);
        message[0] ^= (uint8_t)(1u << bit);
    }
    cr_assert_null(hd_wire_parse_swap(message, n, 0, &out));
}

Test(net_wire, a_header_is_no_swap_and_a_swap_no_header) {
    uint8_t header[HD_WIRE_BYTES], message[HD_WIRE_SWAP_BYTES];
    hd_wire_t wire = example();
    hd_wire_swap_t swap = example_swap();
    hd_wire_write(&wire, header);
    cr_assert_not_null(hd_wire_parse_swap(header, HD_WIRE_SWAP_BYTES, 0, &swap));
    swap = example_swap();
    size_t n = hd_wire_write_swap(&swap, swap_data, message);
    cr_assert_not_null(hd_wire_parse(message, n, 0, &wire));
}
