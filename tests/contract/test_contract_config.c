/* test_contract_config.c: configuration names that clients read, print or modify. */
#include "../support/deadline.h"
#include "../support/world.h"

#include "core/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_config, .timeout = 60);

typedef struct setting {
    const char *component; /* context settings only; NULL: core */
    const char *name, *value;
} setting_t;

static ucc_lib_config_h lib_config(const char *prefix) {
    ucc_lib_config_h config;
    must(ucc_lib_config_read(prefix, NULL, &config), "ucc_lib_config_read");
    return config;
}

static ucc_lib_h lib_of(ucc_lib_config_h config) {
    ucc_lib_params_t params = {.mask = 0};
    ucc_lib_h lib;
    must(ucc_init(&params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    return lib;
}

static ucc_context_config_h context_config(ucc_lib_h lib) {
    ucc_context_config_h config;
    must(ucc_context_config_read(lib, NULL, &config), "ucc_context_config_read");
    return config;
}

/* Everything that printing gives; the caller frees it. */
static char *printed_lib(ucc_lib_config_h config, ucc_config_print_flags_t flags) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ucc_lib_config_print(config, file, "MY TITLE", flags);
    fclose(file);
    return text;
}

static char *printed_context(ucc_context_config_h config, ucc_config_print_flags_t flags) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ucc_context_config_print(config, file, "MY TITLE", flags);
    fclose(file);
    return text;
}

static const ucc_config_print_flags_t everything = UCC_CONFIG_PRINT_CONFIG |
                                                   UCC_CONFIG_PRINT_HEADER | UCC_CONFIG_PRINT_DOC |
                                                   UCC_CONFIG_PRINT_HIDDEN;

/* --- names --- */

Test(contract_config, lib_names_cls_and_tls_can_be_set) {
    static const setting_t settings[] = {
        {NULL, "CLS", "basic"}, {NULL, "TLS", "ucp"}, {NULL, "TLS", "all"}, {NULL, "CLS", "all"}};
    ucc_lib_config_h config = lib_config(NULL);
    for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++) {
        cr_assert_eq(ucc_lib_config_modify(config, settings[k].name, settings[k].value), UCC_OK,
                     "%s", settings[k].name);
    }
    cr_assert_eq(ucc_finalize(lib_of(config)), UCC_OK);
}

Test(contract_config, cls_has_the_value_basic) {
    unsetenv("UCC_CLS");
    ucc_lib_config_h config = lib_config(NULL);
    char *text = printed_lib(config, UCC_CONFIG_PRINT_CONFIG);
    cr_assert_neq((void *)strstr(text, "CLS=basic\n"), NULL, "%s", text);
    free(text);
    ucc_lib_config_release(config);
}

Test(contract_config, context_names_can_be_set) {
    static const setting_t settings[] = {
        {NULL, "ESTIMATED_NUM_EPS", "64"}, {NULL, "ESTIMATED_NUM_PPN", "16"},
        {NULL, "NODE_LOCAL_ID", "3"},      {NULL, "TEAM_IDS_POOL_SIZE", "128"},
        {NULL, "INTERNAL_OOB", "0"},       {NULL, "LOCK_FREE_PROGRESS_Q", "1"},
        {NULL, "THROTTLE_PROGRESS", "10"}, {NULL, "NET_DEVICES", "all"},
        {"tl/ucp", "NPOLLS", "5"},         {"tl/ucp", "TUNE", "allreduce:0-inf:inf"},
    };
    ucc_lib_h lib = lib_of(lib_config(NULL));
    ucc_context_config_h config = context_config(lib);
    for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++) {
        const setting_t *s = &settings[k];
        cr_assert_eq(ucc_context_config_modify(config, s->component, s->name, s->value), UCC_OK,
                     "%s", s->name);
    }
    ucc_context_params_t params = {.mask = 0};
    ucc_context_h context;
    cr_assert_eq(ucc_context_create(lib, &params, config, &context), UCC_OK);
    ucc_context_config_release(config);
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* "failure to set it disables UCC in Open MPI" */
Test(contract_config, node_local_id_can_be_set) {
    ucc_lib_h lib = lib_of(lib_config(NULL));
    ucc_context_config_h config = context_config(lib);
    cr_assert_eq(ucc_context_config_modify(config, NULL, "NODE_LOCAL_ID", "0"), UCC_OK);
    cr_assert_eq(ucc_context_config_modify(config, NULL, "NODE_LOCAL_ID", "127"), UCC_OK);
    ucc_context_config_release(config);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* --- unknown names --- */

static int lines_logged;

static void count_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)line, (void)arg;
    lines_logged++;
}

Test(contract_config, unknown_names_fail_with_not_found_and_a_log_line) {
    ucc_lib_config_h lib_settings = lib_config(NULL);
    ucc_lib_h lib = lib_of(lib_config(NULL));
    ucc_context_config_h settings = context_config(lib);
    hd_log_capture(count_line, NULL);
    cr_assert_eq(ucc_lib_config_modify(lib_settings, "NO_SUCH_NAME", "1"), UCC_ERR_NOT_FOUND);
    cr_assert_eq(lines_logged, 1);
    cr_assert_eq(ucc_context_config_modify(settings, NULL, "NO_SUCH_NAME", "1"), UCC_ERR_NOT_FOUND);
    cr_assert_eq(lines_logged, 2);
    cr_assert_eq(ucc_context_config_modify(settings, "tl/ucp", "NO_SUCH_NAME", "1"),
                 UCC_ERR_NOT_FOUND);
    cr_assert_eq(lines_logged, 3);
    cr_assert_eq(ucc_context_config_modify(settings, "tl/none", "NPOLLS", "1"), UCC_ERR_NOT_FOUND);
    cr_assert_eq(lines_logged, 4);
    hd_log_capture(NULL, NULL);
    ucc_lib_config_release(lib_settings);
    ucc_context_config_release(settings);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* --- prefix --- */

static void expect_tls(const char *prefix, const char *value) {
    ucc_lib_config_h config = lib_config(prefix);
    char *text = printed_lib(config, everything);
    char line[64];
    snprintf(line, sizeof(line), "TLS=%s\n", value);
    cr_assert_neq((void *)strstr(text, line), NULL, "%s not in: %s", line, text);
    free(text);
    ucc_lib_config_release(config);
}

/* "An env_prefix "OMPI" means OMPI_UCC_* over UCC_*." */
Test(contract_config, env_prefix_means_prefix_ucc_over_ucc) {
    setenv("UCC_TLS", "plain", 1);
    expect_tls(NULL, "plain");
    expect_tls("OMPI", "plain");
    setenv("OMPI_UCC_TLS", "prefixed", 1);
    expect_tls(NULL, "plain");
    expect_tls("OMPI", "prefixed");
}

Test(contract_config, a_prefix_that_begins_with_ucc_is_one_like_any_other) {
    setenv("UCC_DEMO_TLS", "a draft's spelling", 1);
    setenv("UCC_TLS", "plain", 1);
    expect_tls("UCC_DEMO", "plain");
    setenv("UCC_DEMO_UCC_TLS", "prefixed", 1);
    expect_tls("UCC_DEMO", "prefixed");
}

Test(contract_config, env_prefix_holds_for_contexts_too) {
    setenv("UCC_ESTIMATED_NUM_EPS", "11", 1);
    setenv("OMPI_UCC_ESTIMATED_NUM_EPS", "22", 1);
    ucc_lib_h lib = lib_of(lib_config("OMPI"));
    ucc_context_config_h config = context_config(lib);
    char *text = printed_context(config, everything);
    cr_assert_neq((void *)strstr(text, "ESTIMATED_NUM_EPS=22\n"), NULL, "%s", text);
    free(text);
    ucc_context_config_release(config);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* --- printing --- */

/* Printing gives a "# TITLE" line and sections. */
Test(contract_config, printing_gives_a_title_line) {
    ucc_lib_config_h config = lib_config(NULL);
    char *text = printed_lib(config, UCC_CONFIG_PRINT_HEADER | UCC_CONFIG_PRINT_CONFIG);
    cr_assert_neq((void *)strstr(text, "# MY TITLE\n"), NULL, "%s", text);
    free(text);
    ucc_lib_h lib = lib_of(config);
    ucc_context_config_h settings = context_config(lib);
    text = printed_context(settings, UCC_CONFIG_PRINT_HEADER | UCC_CONFIG_PRINT_CONFIG);
    cr_assert_neq((void *)strstr(text, "# MY TITLE\n"), NULL, "%s", text);
    free(text);
    ucc_context_config_release(settings);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(contract_config, printing_gives_a_section_per_component) {
    ucc_lib_h lib = lib_of(lib_config(NULL));
    ucc_context_config_h config = context_config(lib);
    char *text = printed_context(config, everything);
    char *core = strstr(text, "ESTIMATED_NUM_EPS=");
    char *ucp = strstr(text, "UCC_TL_UCP_NPOLLS=");
    cr_assert_neq((void *)core, NULL, "%s", text);
    cr_assert_neq((void *)ucp, NULL, "%s", text);
    cr_assert_lt(core, ucp);
    int headings = 0; /* comment lines framed by "#" lines */
    for (char *at = text; (at = strstr(at, "#\n# ")) != NULL; at++) {
        headings++;
    }
    cr_assert_geq(headings, 2, "%s", text);
    free(text);
    ucc_context_config_release(config);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}
