/* test_parts_find.c: parts of the team's memory, as another process finds them: here another mapping, of
 * this process.
 */
#include "shm/parts.h"
#include "shm/reach.h"
#include "small_group.h"

static void init(void) {
    hd_park_init();
}

TestSuite(parts_find, .init = init, .timeout = 20);

enum { N = 2, BYTES = 4096 };

typedef struct two {
    hd_group_t *owner, *other;
    hd_node_segment_t segment;
} two_t;

/* Endpoint 0 has a part, in a heap. */
static two_t open_two(void) {
    hd_group_config_t config = small_config();
    config.processes = 2;
    config.apart = true;
    two_t two = {.owner = hd_group_create(N, &config)};
    cr_assert(two.owner);
    two.segment = hd_group_take_segment(two.owner);
    config.process = 1;
    two.other = hd_group_of(&two.segment, N, &config);
    cr_assert(two.other);
    two.owner->region[0] = (struct hd_region){hd_part_alloc(two.owner, BYTES), BYTES, true};
    hd_part_show(two.owner, 0);
    return two;
}

static void close_two(two_t two) {
    hd_segment_close(&two.segment);
    hd_home_unpin(&two.other->home);
    hd_home_unpin(&two.owner->home);
}

Test(parts_find, are_found_when_their_heap_is_mapped) {
    two_t two = open_two();
    void *at;
    size_t bytes;
    hd_reach_slot_t slot;
    hd_node_segment_t heap;
    cr_expect_eq(hd_part_find(two.other, 1, &at, &bytes), UCC_ERR_NOT_FOUND);
    cr_assert_eq(hd_part_find(two.other, 0, &at, &bytes), UCC_INPROGRESS);
    cr_assert(hd_reach_take(two.other->reach, &slot));
    cr_assert(hd_heap_segment(slot.name, &heap));
    hd_reach_give(two.other->reach, slot.slot, hd_heap_view_map(slot.name, &heap));
    cr_assert_eq(hd_part_find(two.other, 0, &at, &bytes), UCC_OK);
    cr_expect_eq(bytes, BYTES);
    *(char *)at = 7;
    cr_expect_eq(*(char *)two.owner->region[0].address, 7);
    close_two(two);
}

Test(parts_find, whose_heap_can_not_be_mapped_are_not_waited_for) {
    two_t two = open_two();
    void *at;
    size_t bytes;
    hd_reach_slot_t slot;
    cr_assert_eq(hd_part_find(two.other, 0, &at, &bytes), UCC_INPROGRESS);
    cr_assert(hd_reach_take(two.other->reach, &slot));
    hd_reach_give(two.other->reach, slot.slot, NULL);
    cr_expect_eq(hd_part_find(two.other, 0, &at, &bytes), UCC_ERR_NO_RESOURCE);
    close_two(two);
}
