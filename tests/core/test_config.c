/*
 * Configuration: sources and their order, values, modification, printing, and the public calls.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucc/api/ucc.h>
#include <unistd.h>

#include "core/config.h"
#include "core/config_parse.h"
#include "core/log.h"
#include "core/mem.h"

static int n_lines;
static char last_line[1024];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    n_lines++;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static void start(void) {
    hd_log_capture(capture, NULL);
}

TestSuite(config, .init = start);

static hd_config_t *read_config(hd_cfg_scope_t scope, const char *prefix, const char *file) {
    hd_config_t *cfg = NULL;

    cr_assert_eq(hd_config_read(scope, prefix, file, &cfg), UCC_OK);
    return cfg;
}

static hd_config_t *read_lib(void) {
    return read_config(HD_CFG_SCOPE_LIB, NULL, NULL);
}

static hd_config_t *read_context(void) {
    return read_config(HD_CFG_SCOPE_CONTEXT, NULL, NULL);
}

/* What hd_config_print writes, in a buffer of the test. */
static const char *printed(const hd_config_t *cfg, const char *title, unsigned flags) {
    static char text[64 * 1024];
    FILE *stream = fmemopen(text, sizeof(text), "w");

    hd_config_print(cfg, stream, title, (ucc_config_print_flags_t)flags);
    fclose(stream);
    return text;
}

static void write_file(char *path, const char *content) {
    int fd = mkstemp(path);
    FILE *stream = fdopen(fd, "w");

    cr_assert_not_null(stream);
    fputs(content, stream);
    fclose(stream);
}

Test(config, every_row_of_the_table_is_complete_and_its_default_is_well_formed) {
    for (size_t i = 0; i < hd_config_count(); i++) {
        const hd_config_variable_t *variable = hd_config_variable(i);
        hd_config_parsed_t parsed;

        cr_assert_not_null(variable->name, "row %zu", i);
        cr_assert_not_null(variable->meaning, "%s", variable->name);
        cr_assert_eq(variable->type == HD_CFG_CHOICE, variable->words != NULL, "%s",
                     variable->name);
        cr_assert(hd_config_parse(variable, variable->value, &parsed), "%s", variable->name);
    }
    cr_assert_null(hd_config_variable(hd_config_count()));
}

Test(config, defaults_are_read_as_their_types) {
    hd_config_t *cfg = read_lib();

    cr_assert_str_eq(hd_config_string(cfg, HD_CFG_LIB_CLS), "basic");
    cr_assert_eq(hd_config_size(cfg, HD_CFG_LIB_LINES_MAX), 512);
    cr_assert_eq(hd_config_size(cfg, HD_CFG_LIB_CHUNK), 1 << 20);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 8);
    cr_assert_eq(hd_config_bool(cfg, HD_CFG_LIB_PARK), true);
    cr_assert_eq(hd_config_bool(cfg, HD_CFG_LIB_CHECK), false);
    cr_assert_eq(hd_config_choice(cfg, HD_CFG_LIB_ARRIVAL), HD_CFG_ARRIVAL_AUTO);
    hd_config_release(cfg);

    cfg = read_context();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_CTX_NODE_LOCAL_ID), HD_CFG_AUTO);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_CTX_TL_UCP_NPOLLS), 10);
    hd_config_release(cfg);
}

Test(config, choices_follow_their_enums) {
    static const struct {
        hd_cfg_id_t id;
        const char *word;
        int value;
    } cases[] = {{HD_CFG_LIB_ARRIVAL, "flat", HD_CFG_ARRIVAL_FLAT},
                 {HD_CFG_LIB_ARRIVAL, "STATIC", HD_CFG_ARRIVAL_STATIC},
                 {HD_CFG_LIB_ARRIVAL, "counter", HD_CFG_ARRIVAL_COUNTER},
                 {HD_CFG_LIB_TREE, "number", HD_CFG_TREE_NUMBER},
                 {HD_CFG_LIB_TREE, "topology", HD_CFG_TREE_TOPOLOGY}};
    hd_config_t *cfg = read_lib();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(
            hd_config_modify(cfg, NULL, hd_config_variable(cases[i].id)->name, cases[i].word),
            UCC_OK);
        cr_assert_eq(hd_config_choice(cfg, cases[i].id), cases[i].value);
    }
    hd_config_release(cfg);
}

Test(config, numbers_and_sizes) {
    static const hd_config_variable_t uint_row = {.type = HD_CFG_UINT};
    static const hd_config_variable_t size_row = {.type = HD_CFG_SIZE};
    static const hd_config_variable_t real_row = {.type = HD_CFG_DOUBLE};
    static const struct {
        const hd_config_variable_t *row;
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        {&uint_row, "0", true, 0},
        {&uint_row, "123", true, 123},
        {&uint_row, "inf", true, HD_CFG_INF},
        {&uint_row, "auto", true, HD_CFG_AUTO},
        {&uint_row, "4k", false, 0},
        {&uint_row, "-1", false, 0},
        {&uint_row, "", false, 0},
        {&uint_row, " 1", false, 0},
        {&uint_row, "1x", false, 0},
        {&uint_row, "99999999999999999999", false, 0},
        {&size_row, "4096", true, 4096},
        {&size_row, "4k", true, 4096},
        {&size_row, "4KB", true, 4096},
        {&size_row, "1m", true, 1 << 20},
        {&size_row, "3g", true, 3ull << 30},
        {&size_row, "64b", true, 64},
        {&size_row, "inf", true, HD_CFG_INF},
        {&size_row, "k", false, 0},
        {&size_row, "1q", false, 0},
        {&size_row, "1kk", false, 0},
        {&size_row, "99999999999t", false, 0},
        {&real_row, "1.5", true, 0},
        {&real_row, "1.5x", false, 0},
        {&real_row, "", false, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hd_config_parsed_t parsed;

        cr_assert_eq(hd_config_parse(cases[i].row, cases[i].text, &parsed), cases[i].good, "%s",
                     cases[i].text);
        if (cases[i].good) {
            cr_assert_eq(parsed.number, cases[i].value, "%s", cases[i].text);
        }
    }
}

Test(config, bounds_and_powers_of_two_are_kept) {
    hd_config_t *cfg = read_lib();

    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "16"), UCC_OK);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "12"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "2"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "128"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "inf"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 16);
    hd_config_release(cfg);
}

Test(config, sources_rank_prefix_heddle_ucc_file_default) {
    char path[] = "/tmp/heddle-config-XXXXXX";
    hd_config_t *cfg;

    write_file(path, "FLAT_MAX = 2\n");
    cfg = read_config(HD_CFG_SCOPE_LIB, "OMPI_UCC_", path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 2);
    hd_config_release(cfg);

    setenv("UCC_FLAT_MAX", "3", 1);
    cfg = read_config(HD_CFG_SCOPE_LIB, "OMPI_UCC_", path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 3);
    hd_config_release(cfg);

    setenv("HEDDLE_FLAT_MAX", "4", 1);
    cfg = read_config(HD_CFG_SCOPE_LIB, "OMPI_UCC_", path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 4);
    hd_config_release(cfg);

    setenv("OMPI_UCC_FLAT_MAX", "5", 1);
    cfg = read_config(HD_CFG_SCOPE_LIB, "OMPI_UCC_", path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 5);
    hd_config_release(cfg);
    cfg = read_config(HD_CFG_SCOPE_LIB, NULL, path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 4);
    hd_config_release(cfg);
    unlink(path);
}

Test(config, components_stand_in_environment_names) {
    setenv("UCC_TL_UCP_NPOLLS", "77", 1);
    setenv("UCC_NPOLLS", "66", 1);
    hd_config_t *cfg = read_context();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_CTX_TL_UCP_NPOLLS), 77);
    hd_config_release(cfg);
}

Test(config, a_malformed_environment_value_is_reported_once_and_skipped) {
    setenv("HEDDLE_RING", "seven", 1);
    setenv("UCC_RING", "16", 1);
    hd_config_t *cfg = read_lib();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 16);
    cr_assert_eq(n_lines, 1);
    cr_assert_not_null(strstr(last_line, "HEDDLE_RING=seven"));
    hd_config_release(cfg);
    hd_config_release(read_lib());
    cr_assert_eq(n_lines, 1);
}

Test(config, a_file_may_use_any_spelling_comments_and_sections) {
    char path[] = "/tmp/heddle-config-XXXXXX";

    write_file(path, "# a comment\n\n  UCC_CLS = all \nHEDDLE_RING=16\nFLAT_MAX\t=\t3\n"
                     "MY_UCC_LINES_MAX = 2k\nTL_UCP_NPOLLS = 5\nno equals sign\n"
                     "NO_SUCH_THING = 1\nTRACE = a = b\n[team_size=2]\nUCC_CLS = other\n");
    hd_config_t *cfg = read_config(HD_CFG_SCOPE_LIB, "MY_UCC_", path);
    cr_assert_str_eq(hd_config_string(cfg, HD_CFG_LIB_CLS), "all");
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 16);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 3);
    cr_assert_eq(hd_config_size(cfg, HD_CFG_LIB_LINES_MAX), 2048);
    cr_assert_str_eq(hd_config_string(cfg, HD_CFG_LIB_TRACE), "a = b");
    cr_assert_not_null(strstr(last_line, "NO_SUCH_THING"));
    cr_assert_eq(n_lines, 2);
    hd_config_release(cfg);

    cfg = read_config(HD_CFG_SCOPE_CONTEXT, "MY_UCC_", path);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_CTX_TL_UCP_NPOLLS), 5);
    cr_assert_null(strstr(last_line, "NO_SUCH_THING")); /* unknown variables are told once */
    hd_config_release(cfg);
    unlink(path);
}

Test(config, the_file_may_be_named_in_the_environment) {
    char path[] = "/tmp/heddle-config-XXXXXX";

    write_file(path, "RING = 32\n");
    setenv("UCC_CONFIG_FILE", path, 1);
    hd_config_t *cfg = read_lib();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 32);
    hd_config_release(cfg);
    setenv("HEDDLE_CONFIG_FILE", "/nonexistent", 1); /* wins, and is no error */
    cfg = read_lib();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 8);
    cr_assert_eq(n_lines, 1); /* it is told, once */
    cr_assert_not_null(strstr(last_line, "/nonexistent"));
    hd_config_release(cfg);
    hd_config_release(read_context());
    cr_assert_eq(n_lines, 1);
    unlink(path);
}

Test(config, auto_is_no_missing_file) {
    setenv("UCC_CONFIG_FILE", "auto", 1);
    hd_config_release(read_lib());
    cr_assert_eq(n_lines, 0);
}

Test(config, a_value_out_of_bounds_is_told_with_the_bounds) {
    setenv("HEDDLE_FLAT_MAX", "1000", 1);
    hd_config_t *cfg = read_lib();
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_FLAT_MAX), 8);
    cr_assert_eq(n_lines, 1);
    cr_assert_not_null(strstr(last_line, "HEDDLE_FLAT_MAX=1000"), "%s", last_line);
    cr_assert_not_null(strstr(last_line, "from 1 to 64"), "%s", last_line);
    hd_config_release(cfg);
}

Test(config, a_value_in_a_file_is_refused_with_the_files_name) {
    char path[] = "/tmp/heddle-config-XXXXXX";

    write_file(path, "RING = 5\n");
    hd_config_release(read_config(HD_CFG_SCOPE_LIB, NULL, path));
    cr_assert_eq(n_lines, 1);
    cr_assert_not_null(strstr(last_line, path), "%s", last_line);
    unlink(path);
}

/* A library with this environment prefix, for a moment. */
static void init_library(const char *env_prefix) {
    ucc_lib_params_t params = {0};
    ucc_lib_config_h config;
    ucc_lib_h lib;

    cr_assert_eq(ucc_lib_config_read(env_prefix, NULL, &config), UCC_OK);
    cr_assert_eq(ucc_init(&params, config, &lib), UCC_OK);
    ucc_lib_config_release(config);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(config, a_misspelt_variable_is_told_once_with_the_name_that_was_meant) {
    static const char *const cases[][2] = {
        {"HEDDLE_RNIG", "HEDDLE_RING?"},
        {"HEDDLE_STAGED", "HEDDLE_STAGED_MAX?"},
        {"UCC_LOG_LEVL", "UCC_LOG_LEVEL?"},
        {"UCC_ESTIMATED_NUM_EP", "UCC_ESTIMATED_NUM_EPS?"},
        {"HEDDLE_WHATEVER_THIS_IS", "heddle_info"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) { /* what is told once a process needs a process each */
            setenv(cases[i][0], "1", 1);
            init_library(NULL);
            bool told = n_lines == 1 && strstr(last_line, cases[i][0]) != NULL &&
                        strstr(last_line, cases[i][1]) != NULL;
            init_library(NULL);
            _exit(told && n_lines == 1 ? 0 : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "%s", cases[i][0]);
    }
}

Test(config, a_misspelt_variable_under_the_programs_prefix_is_told) {
    setenv("OMPI_UCC_RINGS", "16", 1);
    init_library("OMPI");
    cr_assert_eq(n_lines, 1);
    cr_assert_not_null(strstr(last_line, "OMPI_UCC_RING?"), "%s", last_line);
}

Test(config, variables_of_the_released_library_and_of_scripts_are_no_mistakes) {
    static const char *const names[] = {
        "UCC_TL_CUDA_TUNE",   "UCC_CL_HIER_TLS",   "UCC_EC_CUDA_STREAM_TASK_MODE",
        "UCC_MC_CPU_REG_MT",  "UCC_TLS",           "UCC_CLS",
        "UCC_MODULES",        "UCC_PROFILE_MODE",  "UCC_PROFILE_LOG_SIZE",
        "UCC_LOG_FILE_SIZE",  "UCC_LOG_DATA_SIZE", "UCC_HOME",
        "UCC_INSTALL_PREFIX", "HEDDLE_DIR",        "HEDDLE_RING",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv(names[i], "8", 1);
    }
    init_library(NULL);
    cr_assert_eq(n_lines, 0, "%s", last_line);
}

/* Where `text` says that the variable's value comes from: the line above NAME=value. */
static const char *line_above(const char *text, const char *setting) {
    static char line[256];
    const char *at = strstr(text, setting);

    cr_assert_not_null(at, "%s not in %s", setting, text);
    const char *start = at - 1;
    while (start > text && start[-1] != '\n') {
        start--;
    }
    snprintf(line, sizeof(line), "%.*s", (int)(at - start - 1), start);
    return line;
}

Test(config, info_shows_the_values_in_force_and_where_they_come_from) {
    char path[] = "/tmp/heddle-config-XXXXXX", expected[128], *text = NULL;
    size_t size;

    write_file(path, "CHUNK = 2m\nTL_UCP_NPOLLS = 3\n");
    setenv("HEDDLE_CONFIG_FILE", path, 1);
    setenv("UCC_RING", "16", 1);
    setenv("HEDDLE_FLAT_MAX", "4", 1);
    setenv("HEDDLE_GPU_PARTIAL_MIN", "inf", 1);
    FILE *stream = open_memstream(&text, &size);
    cr_assert_eq(heddle_info_print(stream, HEDDLE_INFO_CONFIG, 2), UCC_OK);
    fclose(stream);
    unlink(path);

    cr_assert_str_eq(line_above(text, "HEDDLE_RING=16\n"),
                     "# default: 8; value from: environment UCC_RING");
    cr_assert_str_eq(line_above(text, "HEDDLE_FLAT_MAX=4\n"),
                     "# default: 8; value from: environment HEDDLE_FLAT_MAX");
    cr_assert_str_eq(line_above(text, "HEDDLE_GPU_PARTIAL_MIN=inf\n"),
                     "# default: 1m; value from: environment HEDDLE_GPU_PARTIAL_MIN");
    snprintf(expected, sizeof(expected), "# default: 1m; value from: file %s", path);
    cr_assert_str_eq(line_above(text, "HEDDLE_CHUNK=2m\n"), expected);
    snprintf(expected, sizeof(expected), "# default: 10; value from: file %s", path);
    cr_assert_str_eq(line_above(text, "HEDDLE_TL_UCP_NPOLLS=3\n"), expected);
    cr_assert_str_eq(line_above(text, "HEDDLE_PARK=y\n"), "# default: y; value from: default");
    free(text);
}

Test(config, modify_tells_unknown_names_from_malformed_values) {
    hd_config_t *lib = read_lib(), *context = read_context();
    static const struct {
        bool lib;
        const char *component, *name, *value;
        ucc_status_t status;
    } cases[] = {
        {true, NULL, "CLS", "basic", UCC_OK},
        {true, NULL, "UCC_CLS", "all", UCC_OK},
        {true, NULL, "HEDDLE_CHECK", "yes", UCC_OK},
        {true, NULL, "CHECK", "perhaps", UCC_ERR_INVALID_PARAM},
        {true, NULL, "_UNKNOWN_FIELD", "_unknown_value", UCC_ERR_NOT_FOUND},
        {true, NULL, "ESTIMATED_NUM_EPS", "1", UCC_ERR_NOT_FOUND},
        {false, NULL, "ESTIMATED_NUM_EPS", "12345", UCC_OK},
        {false, NULL, "NODE_LOCAL_ID", "3", UCC_OK},
        {false, NULL, "NPOLLS", "3", UCC_ERR_NOT_FOUND},
        {false, "tl/ucp", "NPOLLS", "123", UCC_OK},
        {false, "tl/ucp", "TUNE", "123", UCC_OK},
        {false, "tl/ucp,cl/basic", "TUNE", "inf", UCC_OK},
        {false, "all", "TUNE", "x", UCC_OK},
        {false, "all", "NO_SUCH", "x", UCC_ERR_NOT_FOUND},
        {false, "tl/ucp", "NPOLLS", "many", UCC_ERR_INVALID_PARAM},
        {false, "cl/basic", "_UNKNOWN_FIELD", "_unknown_value", UCC_ERR_NOT_FOUND},
        {false, "_unknown_cl", "_UNKNOWN_FIELD", "_unknown_value", UCC_ERR_NOT_FOUND},
        {false, "tl/uc", "NPOLLS", "1", UCC_ERR_NOT_FOUND},
        {false, "", "NPOLLS", "1", UCC_ERR_NOT_FOUND},
        {false, "tl/ucp,", "NPOLLS", "1", UCC_ERR_NOT_FOUND},
        {false, "tl/ucp,cl/basic", "NPOLLS", "1", UCC_ERR_NOT_FOUND},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        n_lines = 0;
        cr_assert_eq(hd_config_modify(cases[i].lib ? lib : context, cases[i].component,
                                      cases[i].name, cases[i].value),
                     cases[i].status, "case %zu", i);
        cr_assert_eq(n_lines, cases[i].status != UCC_OK, "case %zu logs %d lines", i, n_lines);
        cr_assert(n_lines == 0 || strstr(last_line, "failed to modify") != NULL);
    }
    cr_assert_str_eq(hd_config_string(lib, HD_CFG_LIB_CLS), "all");
    cr_assert_eq(hd_config_uint(context, HD_CFG_CTX_TL_UCP_NPOLLS), 123);
    cr_assert_eq(hd_config_uint(context, HD_CFG_CTX_NODE_LOCAL_ID), 3);
    cr_assert_str_eq(hd_config_string(context, HD_CFG_CTX_CL_BASIC_TUNE), "x");
    hd_config_release(lib);
    hd_config_release(context);
}

Test(config, a_copy_is_independent) {
    hd_config_t *cfg = read_config(HD_CFG_SCOPE_LIB, "MINE_UCC_", NULL);

    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "16"), UCC_OK);
    hd_config_t *copy = hd_config_copy(cfg);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "32"), UCC_OK);
    hd_config_release(cfg);
    cr_assert_eq(hd_config_uint(copy, HD_CFG_LIB_RING), 16);
    cr_assert_str_eq(hd_config_own_prefix(copy), "MINE_UCC_");
    hd_config_release(copy);
}

Test(config, printing_shows_what_the_flags_ask_for) {
    hd_config_t *cfg = read_lib();
    unsigned all = UCC_CONFIG_PRINT_CONFIG | UCC_CONFIG_PRINT_HEADER | UCC_CONFIG_PRINT_DOC |
                   UCC_CONFIG_PRINT_HIDDEN;
    const char *text = printed(cfg, "TEST_TITLE", all);

    cr_assert_not_null(strstr(text, "# TEST_TITLE\n"));
    cr_assert_not_null(strstr(text, "\nUCC_CLS=basic\n"));
    cr_assert_not_null(strstr(text, "# Collective layers"));
    cr_assert_not_null(strstr(text, "UCC_TLS="));
    text = printed(cfg, "TEST_TITLE", UCC_CONFIG_PRINT_CONFIG);
    cr_assert_null(strchr(text, '#'));
    cr_assert_null(strstr(text, "UCC_TLS="));
    cr_assert_eq(strncmp(text, "UCC_CLS=basic\n", 14), 0);
    hd_config_release(cfg);
}

Test(config, a_context_prints_a_section_per_component_under_the_programs_prefix) {
    hd_config_t *cfg = read_config(HD_CFG_SCOPE_CONTEXT, "OMPI_UCC_", NULL);
    const char *text = printed(cfg, "TITLE", UCC_CONFIG_PRINT_CONFIG | UCC_CONFIG_PRINT_HEADER);

    cr_assert_not_null(strstr(text, "# TITLE\n"));
    cr_assert_not_null(strstr(text, "# CORE\n"));
    cr_assert_not_null(strstr(text, "# CL_BASIC\n"));
    cr_assert_not_null(strstr(text, "# TL_UCP\n"));
    cr_assert_not_null(strstr(text, "\nOMPI_UCC_ESTIMATED_NUM_EPS=0\n"));
    cr_assert_not_null(strstr(text, "\nOMPI_UCC_TL_UCP_NPOLLS=10\n"));
    hd_config_release(cfg);
}

Test(config, the_public_calls_check_their_handles) {
    ucc_lib_config_h lib = NULL;
    hd_config_t *context = read_context();

    cr_assert_eq(ucc_lib_config_read(NULL, NULL, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_lib_config_read(NULL, NULL, &lib), UCC_OK);
    cr_assert_eq(ucc_lib_config_modify(lib, "CLS", "basic"), UCC_OK);
    cr_assert_eq(ucc_lib_config_modify(lib, NULL, "basic"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_lib_config_modify(lib, "CLS", NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_lib_config_modify(NULL, "CLS", "basic"), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_lib_config_modify((ucc_lib_config_h)context, "CLS", "basic"),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_context_config_modify((ucc_context_config_h)lib, NULL, "CLS", "basic"),
                 UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_context_config_modify((ucc_context_config_h)context, "tl/ucp", "NPOLLS", "1"),
                 UCC_OK);
    cr_assert_eq(ucc_context_config_read(NULL, NULL, NULL), UCC_ERR_INVALID_PARAM);
    ucc_lib_config_print(NULL, stdout, "", UCC_CONFIG_PRINT_CONFIG);
    ucc_context_config_print(NULL, stdout, "", UCC_CONFIG_PRINT_CONFIG);
    ucc_lib_config_release(NULL);
    ucc_context_config_release(NULL);
    ucc_lib_config_release(lib);
    ucc_context_config_release((ucc_context_config_h)context);
}

Test(config, running_out_of_memory_is_an_error_wherever_it_happens) {
    char path[] = "/tmp/heddle-config-XXXXXX";
    hd_config_t *cfg = NULL;
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    long n = 0;

    write_file(path, "RING = 32\n");
    for (; status != UCC_OK; n++) {
        hd_alloc_fail_after(n);
        status = hd_config_read(HD_CFG_SCOPE_LIB, "X_UCC_", path, &cfg);
        hd_alloc_fail_after(-1);
        cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY);
        cr_assert_lt(n, 1000);
    }
    cr_assert_gt(n, 20);
    for (long i = 0; i < n - 2; i++) {
        hd_alloc_fail_after(i);
        hd_config_t *copy = hd_config_copy(cfg);
        hd_alloc_fail_after(-1);
        hd_config_release(copy);
    }
    hd_alloc_fail_after(0);
    cr_assert_eq(hd_config_modify(cfg, NULL, "RING", "16"), UCC_ERR_NO_MEMORY);
    hd_alloc_fail_after(-1);
    cr_assert_eq(hd_config_uint(cfg, HD_CFG_LIB_RING), 32);
    hd_config_release(cfg);
    unlink(path);
}
