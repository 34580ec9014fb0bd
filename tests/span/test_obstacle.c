/* test_obstacle.c: what people are told of processes that share no memory. */
#include "span/obstacle.h"

#include <criterion/criterion.h>

static void expect(hd_obstacle_t obstacle, const char *text) {
    hd_text_t said = {0};
    hd_obstacle_say(&obstacle, &said);
    cr_expect_str_eq(said.line, text);
}

Test(obstacle, a_process_that_could_not_get_the_memory_is_told_with_what_it_found) {
    expect(
        (hd_obstacle_t){.kind = HD_OBSTACLE_MEMORY, .state = HD_NODE_FOREIGN, .by = 2, .whom = 3},
        "process 2 could not get the memory: process 3 is another user's");
    expect((hd_obstacle_t){.kind = HD_OBSTACLE_MEMORY, .state = HD_NODE_PENDING, .by = 1},
           "process 1 could not get the memory: process 0 did not answer");
    expect((hd_obstacle_t){.kind = HD_OBSTACLE_MEMORY, .state = HD_NODE_NO_MEMORY, .by = 1},
           "process 1 could not get the memory: there was none");
}

Test(obstacle, each_kind_has_its_words) {
    for (int kind = HD_OBSTACLE_NONE; kind <= HD_OBSTACLE_PARENT; kind++) {
        hd_text_t said = {0};
        hd_obstacle_say(&(hd_obstacle_t){.kind = (uint8_t)kind}, &said);
        cr_expect_gt(said.used, 10, "kind %d", kind);
    }
}
