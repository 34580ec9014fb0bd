/* test_park.c: legs that are over are remembered by names of their own. */
#include "net/internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(net_park, .timeout = 60);

/* A leg of this key has ended, and its name is remembered. */
static void close_one(hd_net_team_t *team, const hd_net_key_t *key) {
    hd_leg_t leg = {.team = team, .key = *key, .opened = true};
    team->lane[0].open[hd_park_bucket(key, 0)] = &leg;
    hd_park_close(&leg);
}

static const struct {
    hd_net_class_t class;
    uint64_t ordinal;
} kinds[] = {{HD_NET_TAG, 1}, {HD_NET_INIT, 1}, {HD_NET_PERSISTENT, 1}, {HD_NET_TAG, 2}};

/* What a numbered exchange, a tag and an init are called by are small numbers in all three. */
Test(net_park, the_end_of_one_is_not_taken_for_that_of_another_of_like_numbers) {
    enum { NUMBERS = 5000, AROUND = 16 };
    hd_net_team_t *team = calloc(1, sizeof(*team) + sizeof(*team->lane));
    hd_net_team_lane_t *tl = &team->lane[0];
    tl->team = team;
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        for (uint64_t number = AROUND; number < NUMBERS; number++) {
            const hd_net_key_t key = {.class = (uint8_t)kinds[kind].class,
                                      .number = number,
                                      .ordinal = kinds[kind].ordinal};
            close_one(team, &key);
            cr_assert(hd_park_was_closed(tl, &key, 0));
            for (uint64_t k = number - AROUND; k < number + AROUND; k++) {
                cr_assert_not(hd_park_has_leg(tl, k), "class %d, %lu: exchange %lu", key.class,
                              (unsigned long)number, (unsigned long)k);
            }
        }
    }
    free(team);
}
