/* plan_rows.h: calls and the plans that they get: a table of (type, members, bytes) and of what a
 * group and a call may be. test_plan.c looks whether the plan is what the table says,
 * test_plan_runs.c whether that is what runs.
 */
#ifndef TESTS_SHM_PLAN_ROWS_H
#define TESTS_SHM_PLAN_ROWS_H

#include "core/config.h"
#include "small_group.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINES_MAX = SMALL_LINES_MAX,
    STAGED_MAX = SMALL_STAGED_MAX,
    DEDICATED_MAX = 2048, /* staged up to here where every endpoint has a processor */
    PLAIN_MOST = 1 << 17, /* half of a core's own cache */
    STRING_END = 4 * PLAIN_MOST,
    STREAMING_MIN = 1 << 20,
    IN_SET = 24, /* endpoints of the team whose active set a row may mean */
    MOST = 65,
    SMALL_BLOCK = 8 /* of the others, where one block is larger than all others */
};

/* The plan is that of member 1.
 *
 * how: 2  two-sided                          r  member 1 is the root, else member 0
 *      s  static arrival                     p  in place
 *      d  endpoints held on processors       x  the user's reduction
 *         of their own, in two packages      o  into symmetric memory
 *      a  an active set of a team of IN_SET  e  without data, for the sake of CHECK
 *                                            u  a v type: member 0's block has so many bytes,
 *                                               others SMALL_BLOCK
 */
typedef struct row {
    uint8_t type;
    uint32_t n;
    size_t bytes; /* of one block, or of all where there is one */
    const char *how;
    const char *name;
    hd_regime_t regime;
    uint8_t lines;
    bool express;
    bool all_wait;
    hd_arrival_t arrival;
    /* of the engine's work; slices is 0 where it has no part */
    uint32_t slices;
    size_t window;
    hd_stores_t stores;
} row_t;

#define NONE      HD_REGIME_NONE
#define INLINE    HD_REGIME_INLINE
#define LINES     HD_REGIME_LINES
#define STAGED    HD_REGIME_STAGED
#define DIRECT    HD_REGIME_DIRECT
#define FLAT      HD_ARRIVAL_FLAT
#define COUNTER   HD_ARRIVAL_COUNTER
#define STATIC    HD_ARRIVAL_STATIC
#define BUTTERFLY HD_ARRIVAL_BUTTERFLY
#define PLAIN     HD_STORES_PLAIN
#define STRING    HD_STORES_STRING
#define STREAMING HD_STORES_STREAMING
#define NO_WORK   0, 0, PLAIN

/* clang-format off */
static const row_t plan_rows[] = {
    /* type, n, bytes, how, name, regime, lines, express, all_wait, arrival, slices, window, stores
     */
    {HD_BARRIER, 2, 0, "", "flat", NONE, 0, true, true, FLAT, NO_WORK},
    {HD_BARRIER, 16, 0, "", "tree", NONE, 0, false, true, COUNTER, NO_WORK},
    {HD_BARRIER, 16, 0, "s", "tree", NONE, 0, false, true, STATIC, NO_WORK},
    {HD_BARRIER, 16, 0, "d", "tree", NONE, 0, false, true, BUTTERFLY, NO_WORK},
    {HD_BARRIER, 2, 0, "2", "flat", NONE, 0, false, true, FLAT, NO_WORK},
    {HD_BARRIER, 2, 0, "a", "flat", NONE, 0, true, true, FLAT, NO_WORK},
    {HD_BARRIER, 16, 0, "a", "tree", NONE, 0, false, true, COUNTER, NO_WORK},
    {HD_FANIN, 2, 0, "", "flat", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_FANIN, 16, 0, "", "tree", NONE, 0, false, false, COUNTER, NO_WORK},
    {HD_FANIN, 16, 0, "s", "flat", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_FANIN, 16, 0, "s2", "tree", NONE, 0, false, true, STATIC, NO_WORK},
    {HD_FANOUT, 16, 0, "", "flat", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_FANOUT, 16, 0, "2", "tree", NONE, 0, false, true, COUNTER, NO_WORK},
    /* one operand each */
    {HD_ALLREDUCE, 2, HD_INLINE_MAX, "", "inline", INLINE, 0, true, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, HD_INLINE_MAX + 1, "", "lines", LINES, 1, true, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, LINES_MAX / 2, "", "lines", LINES, 10, true, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, LINES_MAX / 2 + 1, "", "staged", STAGED, 0, false, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, STAGED_MAX, "", "staged", STAGED, 0, false, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, STAGED_MAX + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 8192, PLAIN},
    {HD_ALLREDUCE, 2, 65536, "", "direct", DIRECT, 0, false, true, FLAT, 2, 32768, PLAIN},
    {HD_ALLREDUCE, 2, 65664, "", "direct", DIRECT, 0, false, true, FLAT, 2, 16448, PLAIN},
    {HD_ALLREDUCE, 2, STREAMING_MIN - 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 262144, PLAIN},
    {HD_ALLREDUCE, 2, STREAMING_MIN, "", "direct", DIRECT, 0, false, true, FLAT, 2, 262144, STREAMING},
    {HD_ALLREDUCE, 2, DEDICATED_MAX, "d", "staged", STAGED, 0, false, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 2, DEDICATED_MAX + 1, "d", "direct", DIRECT, 0, false, true, FLAT, 2, 1024, PLAIN},
    {HD_ALLREDUCE, 2, 8, "2", "direct", DIRECT, 0, false, true, FLAT, 2, 64, PLAIN},
    {HD_ALLREDUCE, 2, 8, "x", "direct", DIRECT, 0, false, true, FLAT, 1, 64, PLAIN},
    {HD_ALLREDUCE, 8, 8, "", "inline", INLINE, 0, true, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 16, 8, "", "inline tree", INLINE, 0, false, true, COUNTER, NO_WORK},
    {HD_ALLREDUCE, 16, 8, "d", "inline tree", INLINE, 0, false, true, BUTTERFLY, NO_WORK},
    {HD_ALLREDUCE, 16, HD_INLINE_MAX + 1, "", "direct", DIRECT, 0, false, true, COUNTER, 16, 64, PLAIN},
    {HD_ALLREDUCE, 4, 8, "a", "inline", INLINE, 0, true, true, FLAT, NO_WORK},
    {HD_ALLREDUCE, 16, 4096, "a", "direct", DIRECT, 0, false, true, COUNTER, 16, 256, PLAIN},
    {HD_REDUCE, 16, 8, "d", "inline tree", INLINE, 0, false, false, STATIC, NO_WORK},
    {HD_REDUCE, 2, 8, "", "inline", INLINE, 0, false, false, FLAT, NO_WORK},
    {HD_REDUCE, 16, 8, "r", "inline tree", INLINE, 0, false, false, COUNTER, NO_WORK},
    {HD_REDUCE, 65, 65 * 100, "", "direct", DIRECT, 0, false, true, COUNTER, 64, 128, PLAIN},
    {HD_SCAN, 16, 8, "", "inline", INLINE, 0, false, false, FLAT, NO_WORK},
    {HD_SCAN, 2, 100, "", "lines", LINES, 2, false, false, FLAT, NO_WORK},
    {HD_SCAN, 65, 8, "", "direct", DIRECT, 0, false, true, COUNTER, 64, 64, PLAIN},
    {HD_EXSCAN, 2, STAGED_MAX + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 8192, PLAIN},
    /* from the root */
    {HD_BCAST, 2, LINES_MAX, "r", "lines", LINES, 0, true, false, FLAT, NO_WORK},
    {HD_BCAST, 2, LINES_MAX, "", "lines", NONE, 19, true, false, FLAT, NO_WORK},
    {HD_BCAST, 2, LINES_MAX + 1, "r", "staged", STAGED, 0, false, false, FLAT, NO_WORK},
    {HD_BCAST, 2, 2 * PLAIN_MOST + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 65536, PLAIN},
    {HD_BCAST, 2, 2 * PLAIN_MOST + 2, "", "direct", DIRECT, 0, false, true, FLAT, 2, 65536, STRING},
    {HD_BCAST, 2, 2 * STREAMING_MIN, "", "direct", DIRECT, 0, false, true, FLAT, 2, 349504, PLAIN},
    {HD_BCAST, 2, 2 * STREAMING_MIN + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 349504, STREAMING},
    {HD_BCAST, 16, 8, "", "inline", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_BCAST, 16, 8, "d", "inline tree", NONE, 0, false, false, STATIC, NO_WORK},
    {HD_BCAST, 16, 100, "d", "lines tree", NONE, 2, false, false, STATIC, NO_WORK},
    {HD_BCAST, 16, DEDICATED_MAX, "dr", "staged tree", STAGED, 0, false, false, STATIC, NO_WORK},
    {HD_BCAST, 16, 1000000, "d", "direct", DIRECT, 0, false, true, BUTTERFLY, 16, 31296, PLAIN},
    {HD_MCAST, 2, 8, "r", "inline", INLINE, 0, true, false, FLAT, NO_WORK},
    {HD_BCAST, 2, 1000, "o", "put", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_BCAST, 2, 0, "2e", "flat", NONE, 0, false, true, FLAT, NO_WORK},
    {HD_SCATTER, 2, 100, "", "lines", NONE, 4, true, false, FLAT, NO_WORK},
    {HD_SCATTER, 2, 20000, "", "direct", DIRECT, 0, false, true, FLAT, 2, 10048, PLAIN},
    {HD_SCATTER, 2, 100000, "r", "direct", DIRECT, 0, false, true, FLAT, 2, 25024, PLAIN},
    /* blocks */
    {HD_GATHER, 2, 8, "r", "inline", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_GATHER, 2, 8, "", "inline", INLINE, 0, false, false, FLAT, NO_WORK},
    {HD_GATHER, 2, PLAIN_MOST, "", "direct", DIRECT, 0, false, true, FLAT, 2, 65536, PLAIN},
    {HD_GATHER, 2, PLAIN_MOST + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 65536, STRING},
    {HD_GATHER, 2, STREAMING_MIN / 2, "", "direct", DIRECT, 0, false, true, FLAT, 2, 262144, STREAMING},
    {HD_ALLGATHER, 2, 100, "", "lines", LINES, 2, false, true, FLAT, NO_WORK},
    {HD_ALLGATHER, 16, 1000, "a", "staged", STAGED, 0, false, true, FLAT, NO_WORK},
    {HD_ALLGATHER, 16, 0, "2e", "tree", NONE, 0, false, true, COUNTER, NO_WORK},
    {HD_ALLGATHER, 2, 1000, "o", "put", NONE, 0, false, false, FLAT, NO_WORK},
    {HD_ALLTOALL, 2, 100, "", "lines", LINES, 4, false, true, FLAT, NO_WORK},
    {HD_ALLTOALL, 2, PLAIN_MOST / 2 + 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 32768, STRING},
    {HD_ALLTOALL, 2, 2 * PLAIN_MOST - 1, "", "direct", DIRECT, 0, false, true, FLAT, 2, 131072, STRING},
    {HD_ALLTOALL, 2, 2 * PLAIN_MOST, "", "direct", DIRECT, 0, false, true, FLAT, 2, 131072, PLAIN},
    {HD_ALLTOALL, 4, 20000, "", "direct", DIRECT, 0, false, true, FLAT, 4, 20032, PLAIN},
    {HD_REDUCE_SCATTER, 2, 8, "", "inline", INLINE, 0, false, true, FLAT, NO_WORK},
    {HD_REDUCE_SCATTER, 16, 1, "", "direct", DIRECT, 0, false, true, COUNTER, 16, 64, PLAIN},
    {HD_REDUCE_SCATTER, 2, 8, "x", "direct", DIRECT, 0, false, true, FLAT, 1, 64, PLAIN},
    /* blocks of any size */
    {HD_ALLGATHERV, 2, 8, "", "inline", INLINE, 0, false, true, FLAT, NO_WORK},
    {HD_ALLGATHERV, 2, 4096, "u", "staged", INLINE, 0, false, true, FLAT, NO_WORK},
    {HD_ALLGATHERV, 2, STAGED_MAX + 1, "u", "direct", DIRECT, 0, false, true, FLAT, 2, 349504, PLAIN},
    {HD_ALLGATHERV, 4, STREAMING_MIN / 4, "", "direct", DIRECT, 0, false, true, FLAT, 4, 209664, STREAMING},
    {HD_REDUCE_SCATTERV, 2, 100, "u", "lines", LINES, 2, false, true, FLAT, NO_WORK},
    {HD_REDUCE_SCATTERV, 2, STAGED_MAX, "u", "direct", DIRECT, 0, false, true, FLAT, 2, 349504, PLAIN},
    {HD_REDUCE_SCATTERV, 16, 8, "", "direct", DIRECT, 0, false, true, COUNTER, 16, 61632, PLAIN},
    {HD_ALLTOALLV, 2, 8, "", "inline", INLINE, 0, false, false, FLAT, 2, 524288, PLAIN},
    {HD_ALLTOALLV, 2, 8, "p", "direct", DIRECT, 0, false, true, FLAT, 2, 524288, PLAIN},
    {HD_ALLTOALLV, 2, STAGED_MAX, "", "direct", DIRECT, 0, false, false, FLAT, 2, 524288, PLAIN},
    {HD_ALLTOALLV, 2, STREAMING_MIN / 2, "", "direct", DIRECT, 0, false, false, FLAT, 2, 524288, STREAMING},
    {HD_ALLTOALLV, 16, 8, "", "lines", LINES, 0, false, false, COUNTER, 16, 524288, PLAIN},
    {HD_SCATTERV, 2, 8, "r", "inline", INLINE, 0, false, false, FLAT, 2, 524288, PLAIN},
    {HD_SCATTERV, 2, 8, "", "by source", NONE, 0, false, false, FLAT, 2, 524288, PLAIN},
    {HD_SCATTERV, 16, 8000, "dr", "direct", DIRECT, 0, false, false, STATIC, 16, 524288, PLAIN},
    {HD_GATHERV, 2, 8, "2", "direct", DIRECT, 0, false, true, FLAT, 2, 524288, PLAIN},
    {HD_GATHERV, 2, STAGED_MAX + 1, "u", "inline", INLINE, 0, false, false, FLAT, 2, 524288, PLAIN},
    {HD_GATHERV, 3, STAGED_MAX + 1, "ur", "by source", NONE, 0, false, false, FLAT, 3, 524288, PLAIN},
    {HD_GATHERV, 16, STAGED_MAX + 1, "", "direct", DIRECT, 0, false, false, COUNTER, 16, 524288, PLAIN},
};
/* clang-format on */

enum { ROWS = sizeof(plan_rows) / sizeof(plan_rows[0]) };

static inline bool is(const row_t *row, char how) {
    return strchr(row->how, how) != NULL;
}

static inline uint32_t root_of(const row_t *row) {
    return hd_coll[row->type].rooted && is(row, 'r') ? 1 : 0;
}

/* Two packages of eight processors: before anything asks for the topology. */
static inline void describe_machine(void) {
    setenv("HEDDLE_TOPOLOGY", "pack:2 numa:1 core:8 pu:1", 1);
}

/* Nobody has joined. */
static inline hd_group_t *empty_group_of(const row_t *row) {
    hd_group_config_t config = small_config();
    config.direct_above = DEDICATED_MAX;
    config.streaming_min = STREAMING_MIN;
    config.crossovers.string = PLAIN_MOST + 1; /* whatever this machine has */
    config.crossovers.string_end = STRING_END;
    config.crossovers.in_order = true;
    config.two_sided = is(row, '2');
    config.check = is(row, 'e');
    config.arrival = is(row, 's') ? HD_CFG_ARRIVAL_STATIC : HD_CFG_ARRIVAL_AUTO;
    return hd_group_create(is(row, 'a') ? IN_SET : row->n, &config);
}

/* All up to endpoint `end` have. */
static inline void join_up_to(const row_t *row, hd_group_t *group, uint32_t end) {
    for (uint32_t i = atomic_load(&hd_common(group)->joined); i < end; i++) {
        hd_locality_t where = hd_locality_unknown();
        if (is(row, 'd')) {
            hd_topo_place(hd_topo_get(), i, group->n, &where);
        }
        cr_assert_eq(hd_group_join(group, i, &where), UCC_OK);
    }
}

static inline hd_group_t *group_of(const row_t *row) {
    hd_group_t *group = empty_group_of(row);
    join_up_to(row, group, group->n);
    cr_assert_eq(group->dedicated, is(row, 'd'));
    return group;
}

/* Bytes of member i's block in an uneven v type. */
static inline uint32_t block_of(const row_t *row, uint32_t i) {
    return is(row, 'u') && i > 0 ? SMALL_BLOCK : (uint32_t)row->bytes;
}

/* As request/shapes.c prepares it, of elements of one byte; counts has room for n, and stays.
 * Without buffers. */
static inline hd_call_t call_of(const row_t *row, uint32_t me, uint32_t *counts) {
    const hd_coll_t *coll = &hd_coll[row->type];
    size_t all = 0;
    for (uint32_t i = 0; i < row->n; i++) {
        counts[i] = block_of(row, i);
        all += counts[i];
    }
    hd_call_t call = {.type = row->type,
                      .in_place = is(row, 'p'),
                      .is_root = coll->rooted && root_of(row) == me,
                      .exclusive = is(row, 'x'),
                      .one_sided = is(row, 'o'),
                      .empty = is(row, 'e'),
                      .root = root_of(row),
                      .signature = (uint32_t)row->type << 27 | 1,
                      .element = 1,
                      .send_element = 1,
                      .send = {.counts = counts},
                      .receive = {.counts = counts}};
    if (!call.empty && coll->moves_data) {
        call.bytes = call.count = coll->vector ? counts[me] : row->bytes;
        call.total = coll->source == HD_BLOCKS || coll->source == HD_VECTOR ? all : call.bytes;
    }
    if (coll->reducing) {
        cr_assert_eq(hd_reducer_init(&call.reducer, UCC_DT_UINT8, UCC_OP_BOR, row->n), UCC_OK);
    }
    return call;
}

/* On the main board, or of the set; the rest is not known yet. */
static inline hd_place_t place_of(const row_t *row, uint32_t me) {
    return (hd_place_t){.me = me, .n = row->n, .of_set = is(row, 'a')};
}

#endif
