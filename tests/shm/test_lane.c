/* Lanes: every byte comes back from any part of a payload, whatever the regime. */
#include "small_group.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = SMALL_LINES_MAX, STAGED_MAX = SMALL_STAGED_MAX };

static hd_group_t *group;
static hd_op_t op;

static void setup(void) {
    group = small_group(2);
    memset(&op, 0, sizeof(op));
    op.group = group;
    op.place.board = group->board;
    op.place.member = group->board->member[0];
    op.place.n = 2;
    op.call.signature = 77;
}

static void teardown(void) {
    hd_home_unpin(&group->home);
}

TestSuite(lane, .init = setup, .fini = teardown);

static hd_regime_t regime_of(size_t bytes) {
    op.call.type = HD_ALLREDUCE;
    op.call.bytes = bytes;
    return (hd_regime_t)hd_plan_here(group, &op.call, &op.place).regime;
}

static const hd_lane_t *publish(uint64_t k, const uint8_t *data, size_t bytes) {
    op.place.k = k;
    op.lane = hd_board_lane(op.place.board, 0, k);
    op.plan.regime = (uint8_t)regime_of(bytes);
    cr_assert_eq(hd_lane_publish(&op, data, bytes), UCC_OK);
    return op.lane;
}

Test(lane, is_there_only_for_its_own_number) {
    const uint8_t byte = 5;
    const hd_lane_t *lane = publish(3, &byte, 1);
    cr_assert(hd_lane_is_there(lane, 3));
    cr_assert_not(hd_lane_is_there(lane, 3 + 8));
    cr_assert_eq(lane->signature, 77);
    cr_assert_eq(hd_lane_bytes(lane), 1);
}

Test(lane, gives_back_every_part_of_a_payload) {
    static const size_t size[] = {1, 8, 47, 48, 49, 56, 57, 112, 113, 1023, 1024, 1025, 16384};
    uint8_t data[STAGED_MAX], got[STAGED_MAX], scratch[LINES_MAX + HD_LINE_DATA];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t s = 0; s < sizeof(size) / sizeof(size[0]); s++) {
        const hd_lane_t *lane = publish(s + 1, data, size[s]);
        for (size_t at = 0; at < size[s]; at += 1 + size[s] / 7) {
            for (size_t bytes = 1; bytes <= size[s] - at; bytes += 1 + size[s] / 5) {
                memset(got, 0xee, sizeof(got));
                cr_assert(hd_lane_read(lane, s + 1, at, bytes, got));
                cr_assert_arr_eq(got, data + at, bytes, "%zu bytes at %zu of %zu", bytes, at,
                                 size[s]);
                cr_assert(bytes == sizeof(got) || got[bytes] == 0xee);
            }
        }
        cr_assert_arr_eq(hd_lane_view(lane, s + 1, scratch), data, size[s]);
    }
}

Test(lane, refuses_lines_that_are_not_written_yet) {
    uint8_t data[500] = {1}, got[500];
    const hd_lane_t *lane = publish(1, data, sizeof(data));
    hd_data_line_t *line = (hd_data_line_t *)(uintptr_t)hd_lane_data(lane);
    atomic_store(&line[3].seq, 0);
    cr_assert(hd_lane_read(lane, 1, 0, 3 * HD_LINE_DATA, got));
    cr_assert_not(hd_lane_read(lane, 1, 0, 3 * HD_LINE_DATA + 1, got));
    cr_assert_null(hd_lane_view(lane, 1, got));
}

Test(lane, keeps_lines_and_staging_apart) {
    /* staged bytes that look like a sequence number must not make a line look written */
    uint8_t data[STAGED_MAX], got[HD_LINE_DATA];
    for (size_t i = 0; i < sizeof(data); i += sizeof(uint64_t)) {
        memcpy(data + i, &(uint64_t){9}, sizeof(uint64_t));
    }
    publish(1, data, sizeof(data));
    const hd_lane_t *lane = publish(9, data, 100); /* same slot */
    hd_data_line_t *line = (hd_data_line_t *)(uintptr_t)hd_lane_data(lane);
    atomic_store(&line[0].seq, 1);
    cr_assert_not(hd_lane_read(lane, 9, 0, 1, got));
}
