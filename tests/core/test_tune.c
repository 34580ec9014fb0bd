/* test_tune.c: TUNE is taken apart as UCC takes it apart. */
#include "core/tune.h"

#include <criterion/criterion.h>
#include <string.h>
#include <ucc/api/ucc.h>

static hd_tune_t first(const char *text, uint32_t team_size) {
    hd_tune_t tune;
    cr_assert(hd_tune_next(&text, team_size, &tune), "%s", text);
    return tune;
}

static bool is_wrong(const char *text, const char *qualifier) {
    hd_tune_t tune = first(text, 4);
    return hd_piece_is(tune.wrong, qualifier);
}

Test(tune, entries_stand_between_hashes) {
    const char *at = "##alltoall:@onesided#bcast:0-4k:100###";
    hd_tune_t tune;
    cr_assert(hd_tune_next(&at, 2, &tune));
    cr_assert(hd_piece_is(tune.text, "alltoall:@onesided"));
    cr_assert(hd_piece_is(tune.algorithm, "onesided"));
    cr_assert(hd_tune_next(&at, 2, &tune));
    cr_assert(hd_piece_is(tune.text, "bcast:0-4k:100"));
    cr_assert_eq(tune.algorithm.length, 0);
    cr_assert(!hd_tune_next(&at, 2, &tune));
    cr_assert(!hd_tune_next(&at, 2, &tune));
}

Test(tune, qualifiers_are_lists_and_come_in_any_order) {
    hd_tune_t tune = first("@2:host,CUDAmanaged:Alltoallv,reduce_scatterv,BARRIER:inf", 9);
    cr_assert_eq(tune.wrong.length, 0);
    cr_assert_eq(tune.coll_types,
                 UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_REDUCE_SCATTERV | UCC_COLL_TYPE_BARRIER);
    cr_assert_eq(tune.mem_types, 1u << UCC_MEMORY_TYPE_HOST | 1u << UCC_MEMORY_TYPE_CUDA_MANAGED);
    cr_assert(hd_piece_is(tune.algorithm, "2"));
    cr_assert(tune.takes_size && tune.takes_team && !tune.disables);
}

Test(tune, what_an_entry_does_not_name_it_means_all_of) {
    hd_tune_t tune = first("17", 3);
    cr_assert_eq(tune.coll_types, 0);
    cr_assert_eq(tune.mem_types, 0);
    cr_assert(tune.takes_size && tune.takes_team);
}

Test(tune, sizes_of_teams_are_numbers_and_ranges) {
    static const struct {
        const char *text;
        uint32_t from, to; /* of 1 to 9, those that are taken */
    } cases[] = {{"[4]:1", 4, 4}, {"[3-5]:1", 3, 5}, {"[6-inf]:1", 6, 9}, {"[2,3,4-7]:1", 2, 7}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t n = 1; n < 10; n++) {
            cr_assert_eq(first(cases[i].text, n).takes_team, n >= cases[i].from && n <= cases[i].to,
                         "%s, %u", cases[i].text, n);
        }
    }
}

Test(tune, ranges_of_bytes_take_a_message_of_no_size_if_they_begin_with_none) {
    cr_assert(first("0-inf:1", 2).takes_size);
    cr_assert(first("4k-8k,0-1:1", 2).takes_size);
    cr_assert(first("0k-2MB:1", 2).takes_size);
    cr_assert(!first("1-inf:1", 2).takes_size);
    cr_assert(!first("0-0:1", 2).takes_size);
    cr_assert(!first("4k-8k,1m-inf:1", 2).takes_size);
}

Test(tune, score_0_disables) {
    cr_assert(first("alltoallv:@onesided:0", 2).disables);
    cr_assert(!first("alltoallv:@onesided:10", 2).disables);
    cr_assert(!first("alltoallv:@onesided:inf", 2).disables);
}

Test(tune, a_qualifier_that_is_none_is_named) {
    cr_assert(is_wrong("alltoallv:onesided", "onesided"));
    cr_assert(is_wrong("alltoallw:@onesided", "alltoallw"));
    cr_assert(is_wrong("alltoallv:0-1-2:@onesided", "0-1-2"));
    cr_assert(is_wrong("alltoallv:4x-8x:@onesided", "4x-8x"));
    cr_assert(is_wrong("alltoallv:[5-3]:@onesided", "[5-3]"));
    cr_assert(is_wrong("alltoallv:[2-8:@onesided", "[2-8"));
    cr_assert(is_wrong("alltoallv:[a]:@onesided", "[a]"));
    cr_assert(is_wrong("alltoallv:hostt:@onesided", "hostt"));
    cr_assert(is_wrong("alltoallv:@onesided:@onesided", "@onesided"), "the second of a kind");
    cr_assert(is_wrong("alltoallv:10:20:@onesided", "20"));
}
