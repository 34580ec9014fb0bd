/* test_plan.c: which plan a call gets: what the table says, what the machine's endpoints are, and
 * that nothing else is compared with a threshold.
 */
#include "plan_rows.h"

TestSuite(plan, .init = describe_machine);

static hd_plan_t plan_of(const row_t *row, const hd_group_t *group) {
    uint32_t counts[MOST];
    hd_call_t call = call_of(row, 1, counts);
    hd_place_t place = place_of(row, 1);
    return hd_plan_here(group, &call, &place);
}

static void check_row(const row_t *row, const hd_plan_t *plan, const char *what) {
    cr_expect_str_eq(hd_plan_name(plan), row->name, "%s: %s", what, hd_plan_name(plan));
    cr_expect_eq(plan->regime, row->regime, "%s: %s", what,
                 hd_regime_name((hd_regime_t)plan->regime));
    cr_expect_eq(plan->lines, row->lines, "%s: %u lines", what, plan->lines);
    cr_expect_eq(plan->express, row->express, "%s", what);
    cr_expect_eq(plan->all_wait, row->all_wait, "%s: all_wait is %d", what, plan->all_wait);
    cr_expect_eq(plan->arrival, row->arrival, "%s: arrival %u", what, plan->arrival);
    cr_expect_eq(plan->slices, row->slices, "%s: %u slices", what, plan->slices);
    cr_expect_eq(plan->window, row->window, "%s: windows of %zu", what, plan->window);
    cr_expect_eq(plan->stores, row->stores, "%s: %s stores", what, hd_stores_name(plan->stores));
}

Test(plan, is_what_the_table_says) {
    for (size_t i = 0; i < ROWS; i++) {
        const row_t *row = &plan_rows[i];
        char what[80];
        snprintf(what, sizeof(what), "row %zu, %s among %u, %zu bytes, \"%s\"", i,
                 hd_type_name(row->type), row->n, row->bytes, row->how);
        hd_group_t *group = group_of(row);
        hd_plan_t plan = plan_of(row, group);
        check_row(row, &plan, what);
        hd_home_unpin(&group->home);
    }
}

Test(plan, of_a_few_blocks_goes_by_what_peers_read_while_there_is_room_for_all) {
    row_t row = {HD_ALLTOALL, 2, STAGED_MAX / 4, "", "", 0, 0, 0, 0, 0, 0, 0, 0};
    hd_group_t *group = group_of(&row);
    group->staged_max = STAGED_MAX / 4;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_STAGED);
    row.bytes = STAGED_MAX / 4 + 1;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_DIRECT);
    group->staged_max = 2 * STAGED_MAX;
    row.bytes = STAGED_MAX / 2 + 1;
    cr_assert_eq(plan_of(&row, group).regime, HD_REGIME_DIRECT);
    hd_home_unpin(&group->home);
}

Test(plan, of_an_operation_with_an_outer_stage_has_a_tree_among_few_as_well) {
    row_t row = {HD_ALLREDUCE, 2, HD_RESULT_MAX, "", "", 0, 0, 0, 0, 0, 0, 0, 0};
    hd_group_config_t config = small_config();
    config.spanning = true;
    uint32_t counts[MOST];
    hd_op_t op = {.group = hd_group_create(row.n, &config), .place = place_of(&row, 1)};
    join_up_to(&row, op.group, row.n);
    op.call = call_of(&row, 1, counts);
    hd_plan_t plan = hd_plan_of_outer(&op, true, true, true);
    cr_assert_str_eq(hd_plan_name(&plan), "inline tree");
    cr_assert(plan.regime == HD_REGIME_INLINE && plan.arrival == HD_ARRIVAL_COUNTER &&
              plan.all_wait);
    op.call.bytes++; /* of a bcast: there is nothing to be combined */
    plan = hd_plan_of_outer(&op, false, true, false);
    cr_assert_str_eq(hd_plan_name(&plan), "staged tree");
    cr_assert(plan.regime == HD_REGIME_NONE && !plan.all_wait);
    hd_home_unpin(&op.group->home);
}

static uint32_t seven(const hd_op_t *op) {
    (void)op;
    return 7;
}

/* Whatever the collective is: two streams a member, and no regard to what a member's share is. */
Test(plan, of_an_outer_stages_work_goes_by_its_own_row) {
    row_t row = {HD_ALLREDUCE, 2, 16 << 20, "", "", 0, 0, 0, 0, 0, 0, 0, 0};
    const hd_work_row_t work = {.slices = seven, .streams_each = 2, .vector = true};
    hd_group_config_t config = small_config();
    config.spanning = true;
    config.streaming_min = SIZE_MAX;
    uint32_t counts[MOST];
    hd_op_t op = {.group = hd_group_create(row.n, &config), .place = place_of(&row, 1)};
    join_up_to(&row, op.group, row.n);
    op.call = call_of(&row, 1, counts);
    hd_plan_t plan = hd_plan_of_outer_work(&op, &work);
    cr_assert_eq(plan.path, HD_PATH_ENGINE);
    cr_assert_eq(plan.row, &work);
    cr_assert_eq(plan.slices, 7);
    cr_assert_eq(plan.window, (1 << 20) / 4);
    cr_assert_eq(plan.naming, HD_NAMED_IN_ARRAYS, "among few as well, since there is a tree");
    cr_assert_eq(plan.stores, HD_STORES_PLAIN);
    hd_home_unpin(&op.group->home);
}
