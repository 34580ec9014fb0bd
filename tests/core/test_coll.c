/* test_coll.c: the table of facts, against what UCC's header and its words say of each collective.
 */
#include "core/coll.h"

#include <criterion/criterion.h>
#include <string.h>

/* As ucc.h has them, and what its comments say: which buffers, at whom, and how long they are.
 * Letters, for the root and for the others: s src, d dst, - neither; then those of a call in place;
 * then the letter of the buffer that says how much there is. */
static const struct row {
    ucc_coll_type_t bit;
    const char *name, *source, *result;
    const char *root, *other, *root_in_place, *other_in_place;
    char root_goes_by, other_goes_by, in_place_goes_by;
} rows[] = {
    {UCC_COLL_TYPE_ALLGATHER, "allgather", "block", "blocks", "sd", "sd", "d", "d", 'd', 'd', 'd'},
    {UCC_COLL_TYPE_ALLGATHERV, "allgatherv", "block", "vector", "sd", "sd", "d", "d", 'd', 'd',
     'd'},
    {UCC_COLL_TYPE_ALLREDUCE, "allreduce", "whole", "whole", "sd", "sd", "d", "d", 'd', 'd', 'd'},
    {UCC_COLL_TYPE_ALLTOALL, "alltoall", "blocks", "blocks", "sd", "sd", "d", "d", 'd', 'd', 'd'},
    {UCC_COLL_TYPE_ALLTOALLV, "alltoallv", "vector", "vector", "sd", "sd", "d", "d", 'd', 'd', 'd'},
    {UCC_COLL_TYPE_BARRIER, "barrier", "nothing", "nothing", "", "", "", "", 'd', 'd', 'd'},
    {UCC_COLL_TYPE_BCAST, "bcast", "whole", "whole", "s", "s", "s", "s", 's', 's', 's'},
    {UCC_COLL_TYPE_FANIN, "fanin", "nothing", "nothing", "", "", "", "", 'd', 's', 's'},
    {UCC_COLL_TYPE_FANOUT, "fanout", "nothing", "nothing", "", "", "", "", 's', 'd', 'd'},
    {UCC_COLL_TYPE_GATHER, "gather", "block", "blocks", "sd", "s", "d", "s", 'd', 's', 's'},
    {UCC_COLL_TYPE_GATHERV, "gatherv", "block", "vector", "sd", "s", "d", "s", 'd', 's', 's'},
    {UCC_COLL_TYPE_REDUCE, "reduce", "whole", "whole", "sd", "s", "d", "s", 'd', 's', 's'},
    {UCC_COLL_TYPE_REDUCE_SCATTER, "reduce_scatter", "blocks", "block", "sd", "sd", "d", "d", 'd',
     'd', 'd'},
    {UCC_COLL_TYPE_REDUCE_SCATTERV, "reduce_scatterv", "blocks", "vector", "sd", "sd", "d", "d",
     'd', 'd', 'd'},
    {UCC_COLL_TYPE_SCATTER, "scatter", "blocks", "block", "sd", "d", "s", "d", 's', 'd', 'd'},
    {UCC_COLL_TYPE_SCATTERV, "scatterv", "vector", "block", "sd", "d", "s", "d", 's', 'd', 'd'},
    {UCC_COLL_TYPE_MCAST, "mcast", "whole", "whole", "s", "s", "s", "s", 's', 's', 's'},
    {UCC_COLL_TYPE_SCAN, "scan", "whole", "whole", "sd", "sd", "d", "d", 's', 's', 'd'},
    {UCC_COLL_TYPE_EXSCAN, "exscan", "whole", "whole", "s", "sd", "d", "d", 's', 's', 'd'},
};

static const char *const extent_name[] = {"nothing", "whole", "block", "blocks", "vector"};

static const char *buffers(const hd_coll_t *coll, bool is_root, bool in_place) {
    static const char *const text[] = {"", "s", "d", "sd"};
    bool src, dst;
    /* the root, and whoever else has a part of its own, is member 0 here */
    hd_coll_buffers(coll, is_root && coll->rooted, is_root ? 0 : 1, in_place, &src, &dst);
    return text[src + 2 * dst];
}

static char goes_by(const hd_coll_t *coll, bool is_root, bool in_place) {
    return hd_coll_goes_by_src(coll, is_root && coll->rooted, in_place) ? 's' : 'd';
}

Test(coll, has_every_type_at_the_place_of_its_bit) {
    cr_assert_eq(sizeof(rows) / sizeof(rows[0]), HD_N_TYPES);
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        cr_assert_eq(rows[type].bit, (ucc_coll_type_t)(1u << type));
        cr_assert_eq(hd_coll[type].bit, rows[type].bit, "%s", rows[type].name);
        cr_assert_str_eq(hd_coll[type].name, rows[type].name);
        cr_assert_eq(hd_type_of((uint64_t)rows[type].bit), type);
    }
}

Test(coll, knows_no_type_of_no_bit_two_bits_or_another_bit) {
    cr_assert_eq(hd_type_of(0), HD_N_TYPES);
    cr_assert_eq(hd_type_of(UCC_COLL_TYPE_BCAST | UCC_COLL_TYPE_REDUCE), HD_N_TYPES);
    cr_assert_eq(hd_type_of(UINT64_C(1) << HD_N_TYPES), HD_N_TYPES);
    cr_assert_eq(hd_type_of(UINT64_C(1) << 63), HD_N_TYPES);
    cr_assert_str_eq(hd_type_name(HD_N_TYPES), "unknown collective");
}

Test(coll, says_which_buffers_each_member_has_and_how_far_they_reach) {
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        const hd_coll_t *coll = &hd_coll[type];
        const struct row *row = &rows[type];
        cr_assert_str_eq(extent_name[coll->source], row->source, "%s", row->name);
        cr_assert_str_eq(extent_name[coll->result], row->result, "%s", row->name);
        cr_assert_str_eq(buffers(coll, true, false), row->root, "%s", row->name);
        cr_assert_str_eq(buffers(coll, false, false), row->other, "%s", row->name);
        cr_assert_str_eq(buffers(coll, true, true), row->root_in_place, "%s", row->name);
        cr_assert_str_eq(buffers(coll, false, true), row->other_in_place, "%s", row->name);
    }
}

Test(coll, says_which_buffer_tells_how_much_there_is) {
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        const hd_coll_t *coll = &hd_coll[type];
        const struct row *row = &rows[type];
        cr_assert_eq(goes_by(coll, true, false), row->root_goes_by, "%s", row->name);
        cr_assert_eq(goes_by(coll, false, false), row->other_goes_by, "%s", row->name);
        cr_assert_eq(goes_by(coll, false, true), row->in_place_goes_by, "%s", row->name);
    }
}

Test(coll, has_facts_that_agree_with_each_other) {
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        const hd_coll_t *coll = &hd_coll[type];
        const char *name = coll->name;
        size_t length = strlen(name);
        bool vector = coll->source == HD_VECTOR || coll->result == HD_VECTOR;
        cr_assert_eq(coll->rooted, coll->flow != HD_AMONG_ALL, "%s", name);
        cr_assert_eq(coll->moves_data, coll->source != HD_NOTHING, "%s", name);
        cr_assert_eq(coll->moves_data, coll->result_at != HD_NOBODY, "%s", name);
        cr_assert_eq(coll->vector, vector, "%s", name);
        cr_assert_eq(coll->vector, name[length - 1] == 'v', "%s", name);
        cr_assert_eq(coll->reducing, strstr(name, "reduce") || strstr(name, "scan"), "%s", name);
        cr_assert_eq(coll->prefix, strstr(name, "scan") != NULL, "%s", name);
        cr_assert_eq(coll->bcast, strstr(name, "cast") != NULL, "%s", name);
        cr_assert_eq(coll->pairwise, strstr(name, "alltoall") != NULL, "%s", name);
        cr_assert_eq(coll->all_wait, !coll->rooted && !coll->prefix, "%s", name);
        cr_assert(!coll->one_sided || (coll->moves_data && !coll->reducing && !coll->vector));
        cr_assert(!coll->empty_is_over || (coll->moves_data && !coll->vector));
    }
}

/* The types whose members have one block each, or one for each: all that have a name with a v. */
Test(coll, of_equal_blocks_has_a_vector_type_that_is_like_it_in_all_else) {
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        const hd_coll_t *coll = &hd_coll[type];
        bool blocks = coll->source == HD_BLOCKS || coll->result == HD_BLOCKS;
        if (blocks && !coll->vector) {
            const hd_coll_t *v = &hd_coll[coll->vector_type];
            cr_assert_eq(strncmp(v->name, coll->name, strlen(coll->name)), 0, "%s", coll->name);
            cr_assert_eq(strlen(v->name), strlen(coll->name) + 1, "%s", coll->name);
            cr_assert(v->vector);
            cr_assert(v->flow == coll->flow && v->source_at == coll->source_at &&
                      v->result_at == coll->result_at && v->reducing == coll->reducing &&
                      v->pairwise == coll->pairwise && v->all_wait == coll->all_wait);
        }
    }
}

Test(coll, remembers_that_a_reduce_scatter_was_asked_for) {
    hd_call_t call = {.type = HD_REDUCE_SCATTERV};
    cr_assert_eq(hd_call_asked(&call), HD_REDUCE_SCATTERV);
    call.uneven = true;
    cr_assert_eq(hd_call_asked(&call), HD_REDUCE_SCATTER);
}
