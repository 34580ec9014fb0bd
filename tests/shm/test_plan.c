/* test_plan.c: which plan a call gets: a table of (type, members, bytes) and of what a group may be, and that
 * lanes say what the plan says. */
#include "small_group.h"

#include <string.h>

enum { LINES_MAX = SMALL_LINES_MAX, STAGED_MAX = SMALL_STAGED_MAX };

/* How the group is: flat or with a tree by its size; else as the letter says. */
typedef struct row {
    uint8_t type;
    uint32_t n;
    size_t bytes; /* of one block, or of all where there is one */
    const char
        *how; /* 2 two-sided, s static arrival, x the user's reduction, r at the root, p in place */
    const char *name;
    hd_regime_t regime;
    uint8_t lines;
    bool express;
} row_t;

static const row_t rows[] = {
    {HD_BARRIER, 2, 0, "", "flat", HD_REGIME_NONE, 0, true},
    {HD_BARRIER, 16, 0, "", "tree", HD_REGIME_NONE, 0, false},
    {HD_BARRIER, 2, 0, "2", "flat", HD_REGIME_NONE, 0, false},
    {HD_FANIN, 16, 0, "", "tree", HD_REGIME_NONE, 0, false},
    {HD_FANIN, 16, 0, "s", "flat", HD_REGIME_NONE, 0, false},
    {HD_FANIN, 16, 0, "s2", "tree", HD_REGIME_NONE, 0, false},
    {HD_FANOUT, 16, 0, "", "flat", HD_REGIME_NONE, 0, false},
    {HD_ALLREDUCE, 2, HD_INLINE_MAX, "", "inline", HD_REGIME_INLINE, 0, true},
    {HD_ALLREDUCE, 2, HD_INLINE_MAX + 1, "", "lines", HD_REGIME_LINES, 1, true},
    {HD_ALLREDUCE, 2, LINES_MAX / 2, "", "lines", HD_REGIME_LINES, 10, true},
    {HD_ALLREDUCE, 2, LINES_MAX / 2 + 1, "", "staged", HD_REGIME_STAGED, 0, false},
    {HD_ALLREDUCE, 2, STAGED_MAX, "", "staged", HD_REGIME_STAGED, 0, false},
    {HD_ALLREDUCE, 2, STAGED_MAX + 1, "", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_ALLREDUCE, 2, 8, "2", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_ALLREDUCE, 2, 8, "x", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_ALLREDUCE, 16, 8, "", "inline tree", HD_REGIME_INLINE, 0, false},
    {HD_ALLREDUCE, 16, HD_INLINE_MAX + 1, "", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_REDUCE_SCATTER, 2, 8, "", "inline", HD_REGIME_INLINE, 0, false},
    {HD_REDUCE_SCATTER, 16, 1, "", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_BCAST, 2, LINES_MAX, "r", "lines", HD_REGIME_LINES, 0, true},
    {HD_BCAST, 2, LINES_MAX, "", "lines", HD_REGIME_NONE, 19, true},
    {HD_BCAST, 2, LINES_MAX + 1, "r", "staged", HD_REGIME_STAGED, 0, false},
    {HD_GATHER, 2, 8, "r", "inline", HD_REGIME_NONE, 0, false},
    {HD_GATHER, 2, 8, "", "inline", HD_REGIME_INLINE, 0, false},
    {HD_SCATTER, 2, 100, "", "lines", HD_REGIME_NONE, 4, true},
    {HD_SCAN, 16, 8, "", "inline", HD_REGIME_INLINE, 0, false},
    {HD_SCAN, 65, 8, "", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_ALLTOALLV, 2, 8, "", "inline", HD_REGIME_INLINE, 0, false},
    {HD_ALLTOALLV, 2, 8, "p", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_ALLTOALLV, 2, STAGED_MAX, "", "direct", HD_REGIME_DIRECT, 0, false},
    {HD_SCATTERV, 2, 8, "r", "inline", HD_REGIME_INLINE, 0, false},
    {HD_SCATTERV, 2, 8, "", "by source", HD_REGIME_NONE, 0, false},
    {HD_GATHERV, 2, 8, "2", "direct", HD_REGIME_DIRECT, 0, false},
};

static hd_plan_t plan_of(const row_t *row, hd_group_t *group) {
    uint32_t counts[128];
    const hd_coll_t *coll = &hd_coll[row->type];
    for (uint32_t i = 0; i < row->n; i++) {
        counts[i] = 1;
    }
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    hd_call_t call = {.type = row->type,
                      .in_place = strchr(row->how, 'p') != NULL,
                      .is_root = strchr(row->how, 'r') != NULL,
                      .exclusive = strchr(row->how, 'x') != NULL,
                      .element = row->bytes,
                      .send_element = row->bytes,
                      .bytes = row->bytes,
                      .total = divided ? row->bytes * row->n : row->bytes,
                      .send = {.counts = counts},
                      .receive = {.counts = counts}};
    hd_place_t place = {.me = 1, .n = row->n};
    group->two_sided = strchr(row->how, '2') != NULL;
    group->static_arrival = strchr(row->how, 's') != NULL;
    return hd_plan_of(group, &call, &place);
}

Test(plan, is_what_the_table_says) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row_t *row = &rows[i];
        hd_group_t *group = small_group(row->n);
        hd_plan_t plan = plan_of(row, group);
        const char *type = hd_type_name(row->type);
        cr_expect_str_eq(hd_plan_name(&plan), row->name, "row %zu, %s: %s", i, type,
                         hd_plan_name(&plan));
        cr_expect_eq(plan.regime, row->regime, "row %zu, %s", i, type);
        cr_expect_eq(plan.lines, row->lines, "row %zu, %s: %u lines", i, type, plan.lines);
        cr_expect_eq(plan.express, row->express, "row %zu, %s", i, type);
        hd_home_unpin(&group->home);
    }
}

Test(plan, of_a_few_blocks_goes_by_what_peers_read_while_there_is_room_for_all) {
    row_t row = {HD_ALLTOALL, 2, STAGED_MAX / 4, "", "", 0, 0, false};
    hd_group_t *group = small_group(2);
    group->staged_max = STAGED_MAX / 4;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_STAGED);
    row.bytes = STAGED_MAX / 4 + 1;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_DIRECT);
    group->staged_max = 2 * STAGED_MAX;
    row.bytes = STAGED_MAX / 2 + 1;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_DIRECT);
    hd_home_unpin(&group->home);
}
