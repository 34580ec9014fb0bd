/* test_tune.c: one line says what of TUNE has no effect. */
#include "core/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucc/api/ucc.h>

static int n_lines;
static char last_line[1024];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_WARN) {
        n_lines++;
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

/* Two contexts of one library: lines about TUNE, at the level that nobody has to ask for. */
static void make_contexts(const char *tune, const char *of_layer) {
    ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t params = {0};
    ucc_lib_config_h lib_config;
    ucc_lib_h lib;
    setenv("UCC_TL_UCP_TUNE", tune, 1);
    setenv("UCC_CL_BASIC_TUNE", of_layer, 1);
    cr_assert_eq(ucc_lib_config_read(NULL, NULL, &lib_config), UCC_OK);
    cr_assert_eq(ucc_init(&lib_params, lib_config, &lib), UCC_OK);
    ucc_lib_config_release(lib_config);
    hd_log_capture(capture, NULL);
    n_lines = 0;
    for (int i = 0; i < 2; i++) {
        ucc_context_config_h config;
        ucc_context_h context;
        cr_assert_eq(ucc_context_config_read(lib, NULL, &config), UCC_OK);
        cr_assert_eq(ucc_context_create(lib, &params, config, &context), UCC_OK);
        ucc_context_config_release(config);
        cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    }
    hd_log_capture(NULL, NULL);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(api_tune, a_line_names_the_entries_that_have_no_effect_and_no_others) {
    make_contexts("alltoall:0-inf:@onesided#allreduce:@ring#alltoallv:0-inf:@onesided#bcast:7", "");
    cr_assert_eq(n_lines, 1, "%d: %s", n_lines, last_line);
    cr_assert_not_null(strstr(last_line, "\"allreduce:@ring#bcast:7\""), "%s", last_line);
    cr_assert_not_null(strstr(last_line, "environment UCC_TL_UCP_TUNE"), "%s", last_line);
    make_contexts("", "inf");
    cr_assert_eq(n_lines, 1, "%d: %s", n_lines, last_line);
    cr_assert_not_null(strstr(last_line, "environment UCC_CL_BASIC_TUNE"), "%s", last_line);
}

Test(api_tune, a_line_that_is_too_long_shows_that_it_was_cut) {
    char tune[1000] = "bcast:1";
    while (strlen(tune) < 900) {
        strcat(tune, "#bcast:1");
    }
    make_contexts(tune, "");
    cr_assert_eq(n_lines, 1, "%d: %s", n_lines, last_line);
    cr_assert_not_null(strstr(last_line, "...\" has no effect"), "%s", last_line);
}

/* Of alltoallv, whose size nobody knows alone, UCC takes 0 bytes. */
Test(api_tune, entries_that_apply_to_no_call_are_named) {
    make_contexts("alltoallv:4k-inf:@onesided#alltoall:4k-inf:@onesided#alltoallv:@onesided:0", "");
    cr_assert_eq(n_lines, 1, "%d: %s", n_lines, last_line);
    cr_assert_not_null(
        strstr(last_line, "\"alltoallv:4k-inf:@onesided#alltoallv:@onesided:0\" has no effect"),
        "%s", last_line);
}

Test(api_tune, nothing_is_said_where_all_of_it_counts) {
    make_contexts("alltoall:0-inf:@onesided#alltoallv:0-inf:@onesided", "");
    cr_assert_eq(n_lines, 0, "%s", last_line);
    make_contexts("", "");
    cr_assert_eq(n_lines, 0, "%s", last_line);
}

Test(api_tune, a_mistake_is_told_and_its_entry_ignored) {
    make_contexts("alltoallv:0-inf:onesided", "");
    cr_assert_eq(n_lines, 1, "%d: %s", n_lines, last_line);
    cr_assert_not_null(strstr(last_line, "\"onesided\" is not understood"), "%s", last_line);
}
