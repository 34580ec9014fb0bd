/* test_dtype.c: datatypes have the documented sizes, names and classes, garbage is no datatype, and
 * a generic datatype is what its mask and flags say. */
#include <criterion/criterion.h>
#include <stdalign.h>
#include <string.h>

#include "core/dtype.h"
#include "core/log.h"
#include "core/mem.h"

static int n_logged;

static void count_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)line;
    (void)arg;
    n_logged++;
}

static void setup(void) {
    n_logged = 0;
    hd_log_set_level(HD_LOG_ERROR);
    hd_log_capture(count_line, NULL);
}

static void teardown(void) {
    hd_log_capture(NULL, NULL);
}

TestSuite(dtype, .init = setup, .fini = teardown, .timeout = 20);

static void *start_pack(void *context, const void *buffer, size_t count) {
    (void)buffer;
    (void)count;
    return context;
}

static void *start_unpack(void *context, void *buffer, size_t count) {
    (void)buffer;
    (void)count;
    return context;
}

static size_t packed_size(void *state) {
    (void)state;
    return 0;
}

static size_t pack(void *state, size_t offset, void *dest, size_t max_length) {
    (void)state;
    (void)offset;
    (void)dest;
    return max_length;
}

static ucc_status_t unpack(void *state, size_t offset, const void *src, size_t length) {
    (void)state;
    (void)offset;
    (void)src;
    (void)length;
    return UCC_OK;
}

static void finish(void *state) {
    (void)state;
}

static ucc_status_t reduce(const ucc_reduce_cb_params_t *params) {
    (void)params;
    return UCC_OK;
}

static const ucc_generic_dt_ops_t full_ops = {
    .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
    .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
    .contig_size = 24,
    .start_pack = start_pack,
    .start_unpack = start_unpack,
    .packed_size = packed_size,
    .pack = pack,
    .unpack = unpack,
    .finish = finish,
    .reduce = {.cb = reduce, .cb_ctx = &n_logged},
};

Test(dtype, every_predefined_and_pair_type_has_its_size_and_name) {
    static const struct {
        ucc_datatype_t dt;
        size_t size;
        const char *name;
    } cases[] = {
        {UCC_DT_INT8, 1, "int8"},
        {UCC_DT_INT16, 2, "int16"},
        {UCC_DT_INT32, 4, "int32"},
        {UCC_DT_INT64, 8, "int64"},
        {UCC_DT_INT128, 16, "int128"},
        {UCC_DT_UINT8, 1, "uint8"},
        {UCC_DT_UINT16, 2, "uint16"},
        {UCC_DT_UINT32, 4, "uint32"},
        {UCC_DT_UINT64, 8, "uint64"},
        {UCC_DT_UINT128, 16, "uint128"},
        {UCC_DT_FLOAT16, 2, "float16"},
        {UCC_DT_FLOAT32, 4, "float32"},
        {UCC_DT_FLOAT64, 8, "float64"},
        {UCC_DT_BFLOAT16, 2, "bfloat16"},
        {UCC_DT_FLOAT128, 16, "float128"},
        {UCC_DT_FLOAT32_COMPLEX, 8, "float32_complex"},
        {UCC_DT_FLOAT64_COMPLEX, 16, "float64_complex"},
        {UCC_DT_FLOAT128_COMPLEX, 32, "float128_complex"},
        {HEDDLE_DT_FLOAT32_INT32, 8, "float32_int32"},
        {HEDDLE_DT_FLOAT64_INT32, sizeof(heddle_float64_int32_t), "float64_int32"},
        {HEDDLE_DT_INT16_INT32, 8, "int16_int32"},
        {HEDDLE_DT_INT32_INT32, 8, "int32_int32"},
        {HEDDLE_DT_INT64_INT32, sizeof(heddle_int64_int32_t), "int64_int32"},
        {HEDDLE_DT_FLOAT32_INT64, sizeof(heddle_float32_int64_t), "float32_int64"},
        {HEDDLE_DT_FLOAT64_INT64, 16, "float64_int64"},
        {HEDDLE_DT_INT64_INT64, 16, "int64_int64"},
        {HEDDLE_DT_FLOAT128_INT32, sizeof(heddle_float128_int32_t), "float128_int32"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert(hd_dt_valid(cases[i].dt), "%s", cases[i].name);
        cr_assert(hd_dt_is_contiguous(cases[i].dt), "%s", cases[i].name);
        cr_assert(!hd_dt_is_generic(cases[i].dt), "%s", cases[i].name);
        cr_assert_eq(hd_dt_size(cases[i].dt), cases[i].size, "%s", cases[i].name);
        cr_assert_str_eq(hd_dt_name(cases[i].dt), cases[i].name);
    }
}

Test(dtype, garbage_is_no_datatype) {
    static const ucc_datatype_t garbage[] = {
        UINT64_MAX,
        UCC_PREDEFINED_DT(UCC_DT_PREDEFINED_LAST),
        UCC_PREDEFINED_DT(63),
        UCC_PREDEFINED_DT(HEDDLE_DT_PAIR_LAST),
        UCC_DATATYPE_GENERIC, /* generic, address NULL */
        2,                    /* classes that don't exist */
        7,
        0x40 | UCC_DATATYPE_GENERIC,               /* in the first page */
        0xdeadbeefdeadbe80 | UCC_DATATYPE_GENERIC, /* not a user address */
        0x12345678 | UCC_DATATYPE_GENERIC,         /* not aligned */
    };

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        cr_assert(!hd_dt_valid(garbage[i]), "case %zu", i);
        cr_assert(!hd_dt_is_contiguous(garbage[i]), "case %zu", i);
        cr_assert_eq(hd_dt_size(garbage[i]), 0, "case %zu", i);
        cr_assert_str_eq(hd_dt_name(garbage[i]), "invalid");
    }
}

Test(dtype, a_pointer_to_other_memory_is_no_datatype) {
    static alignas(HD_DT_GENERIC_ALIGN) char memory[256];

    cr_assert(!hd_dt_valid((ucc_datatype_t)(uintptr_t)memory | UCC_DATATYPE_GENERIC));
}

Test(dtype, operations_have_names) {
    cr_assert_str_eq(hd_reduction_name(UCC_OP_SUM), "sum");
    cr_assert_str_eq(hd_reduction_name(UCC_OP_AVG), "avg");
    cr_assert_str_eq(hd_reduction_name(HEDDLE_OP_AND), "band");
    cr_assert_str_eq(hd_reduction_name(UCC_OP_LAST), "invalid");
    cr_assert_str_eq(hd_reduction_name((ucc_reduction_op_t)-1), "invalid");
}

Test(dtype, a_contiguous_generic_type_keeps_what_it_was_created_with) {
    ucc_datatype_t dt;
    int context;

    cr_assert_eq(ucc_dt_create_generic(&full_ops, &context, &dt), UCC_OK);
    cr_assert(hd_dt_valid(dt) && hd_dt_is_generic(dt) && hd_dt_is_contiguous(dt));
    cr_assert_eq(hd_dt_size(dt), 24);
    cr_assert_str_eq(hd_dt_name(dt), "generic");
    cr_assert_eq(hd_dt_generic(dt)->context, &context);
    cr_assert_eq(hd_dt_generic(dt)->ops.reduce.cb, reduce);
    cr_assert_eq(hd_dt_generic(dt)->ops.reduce.cb_ctx, &n_logged);
    ucc_dt_destroy(dt);
    cr_assert_eq(n_logged, 0);
}

Test(dtype, fields_without_their_flag_are_not_read) {
    ucc_generic_dt_ops_t ops = full_ops;
    ucc_datatype_t dt;

    ops.flags = 0; /* contig_size and reduce are garbage now */
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    cr_assert(hd_dt_valid(dt) && !hd_dt_is_contiguous(dt));
    cr_assert_eq(hd_dt_size(dt), 0);
    cr_assert_null(hd_dt_generic(dt)->ops.reduce.cb);
    ucc_dt_destroy(dt);
}

Test(dtype, flags_outside_the_mask_are_not_read) {
    ucc_generic_dt_ops_t ops = full_ops;
    ucc_datatype_t dt;

    ops.mask = 0;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    cr_assert(!hd_dt_is_contiguous(dt));
    ucc_dt_destroy(dt);
    ops.pack = NULL; /* needed, for the type is not contiguous */
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_logged, 1);
}

Test(dtype, a_contiguous_type_needs_no_packing_callbacks) {
    ucc_generic_dt_ops_t ops;
    ucc_datatype_t dt;

    memset(&ops, 0, sizeof(ops));
    ops.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS;
    ops.flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG;
    ops.contig_size = 3;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    cr_assert_eq(hd_dt_size(dt), 3);
    ucc_dt_destroy(dt);
}

Test(dtype, a_type_that_is_not_contiguous_needs_every_packing_callback) {
    for (int missing = 0; missing < 6; missing++) {
        ucc_generic_dt_ops_t ops = full_ops;
        ucc_datatype_t dt = 0;

        ops.flags = 0;
        ops.start_pack = missing == 0 ? NULL : start_pack;
        ops.start_unpack = missing == 1 ? NULL : start_unpack;
        ops.packed_size = missing == 2 ? NULL : packed_size;
        ops.pack = missing == 3 ? NULL : pack;
        ops.unpack = missing == 4 ? NULL : unpack;
        ops.finish = missing == 5 ? NULL : finish;
        cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(n_logged, missing + 1);
        cr_assert_eq(dt, 0);
    }
}

Test(dtype, wrong_arguments_are_refused_with_one_log_line) {
    ucc_generic_dt_ops_t ops = full_ops;
    ucc_datatype_t dt;

    cr_assert_eq(ucc_dt_create_generic(NULL, NULL, &dt), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, NULL), UCC_ERR_INVALID_PARAM);
    ops.reduce.cb = NULL;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_ERR_INVALID_PARAM);
    ops = full_ops;
    ops.contig_size = 0;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_logged, 4);
}

Test(dtype, destroying_a_predefined_type_does_nothing_and_garbage_is_logged) {
    ucc_dt_destroy(UCC_DT_INT32);
    cr_assert_eq(n_logged, 0);
    ucc_dt_destroy(UINT64_MAX);
    cr_assert_eq(n_logged, 1);
}

#ifdef HD_TEST
Test(dtype, running_out_of_memory_is_an_error_return) {
    ucc_datatype_t dt;

    hd_alloc_fail_after(0);
    cr_assert_eq(ucc_dt_create_generic(&full_ops, NULL, &dt), UCC_ERR_NO_MEMORY);
    hd_alloc_fail_after(-1);
    cr_assert_eq(n_logged, 1);
}
#endif
