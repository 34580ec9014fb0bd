/* test_wire.c: headers are written and parsed alike, and what no peer of ours could have written is refused. */
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
