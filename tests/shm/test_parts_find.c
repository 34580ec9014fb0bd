/* test_parts_find.c: parts of the team's memory, as another process finds them: here another
 * mapping, of this process.
 */
#include "shm/parts.h"
#include "shm/reach.h"
#include "small_group.h"

static void init(void) {
    hd_park_init();
}

TestSuite(parts_find, .init = init, .timeout = 20);

enum { N = 2, BYTES = 4096 };

/* Endpoint 0 has a part, in a heap. */
static small_pair_t open_two(void) {
    small_pair_t two = small_pair_open(N);
    hd_group_t *owner = two.group[0];
    owner->region[0] = (struct hd_region){hd_part_alloc(owner, BYTES), BYTES, true};
    hd_part_show(owner, 0);
    return two;
}

Test(parts_find, are_found_when_their_heap_is_mapped) {
    small_pair_t two = open_two();
    void *at;
    size_t bytes;
    hd_reach_slot_t slot;
    hd_node_segment_t heap;
    cr_expect_eq(hd_part_find(two.group[1], 1, &at, &bytes), UCC_ERR_NOT_FOUND);
    cr_assert_eq(hd_part_find(two.group[1], 0, &at, &bytes), UCC_INPROGRESS);
    cr_assert(hd_reach_take(two.group[1]->reach, &slot));
    cr_assert(hd_heap_segment(slot.name, &heap));
    hd_reach_give(two.group[1]->reach, slot.slot, hd_heap_view_map(slot.name, &heap));
    cr_assert_eq(hd_part_find(two.group[1], 0, &at, &bytes), UCC_OK);
    cr_expect_eq(bytes, BYTES);
    *(char *)at = 7;
    cr_expect_eq(*(char *)two.group[0]->region[0].address, 7);
    small_pair_close(two);
}

Test(parts_find, whose_heap_can_not_be_mapped_are_not_waited_for) {
    small_pair_t two = open_two();
    void *at;
    size_t bytes;
    hd_reach_slot_t slot;
    cr_assert_eq(hd_part_find(two.group[1], 0, &at, &bytes), UCC_INPROGRESS);
    cr_assert(hd_reach_take(two.group[1]->reach, &slot));
    hd_reach_give(two.group[1]->reach, slot.slot, NULL);
    cr_expect_eq(hd_part_find(two.group[1], 0, &at, &bytes), UCC_ERR_NO_RESOURCE);
    small_pair_close(two);
}
