/* test_info.c: what heddle_info_print says of plans. */
#include "core/coll.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8 };

static char *plans_of(uint32_t endpoints) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    cr_assert_eq(heddle_info_print(stream, HEDDLE_INFO_PLANS, endpoints), UCC_OK);
    fclose(stream);
    return text;
}

/* The row of a collective, of the first table; its end is where the line ends. */
static const char *row_of(const char *text, uint8_t type, size_t *length) {
    char name[32];
    snprintf(name, sizeof(name), "\n%-16s", hd_type_name(type));
    const char *row = strstr(text, name);
    cr_assert_not_null(row, "no %s in: %s", name, text);
    *length = strcspn(row + 1, "\n");
    return row + 1;
}

/* Also where a block of few bytes among many is none. */
Test(info, shows_a_plan_of_every_collective_in_columns) {
    static const uint32_t endpoints[] = {1, 2, 3, 7, 16, 100};
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        char *text = plans_of(endpoints[i]);
        for (uint8_t type = 0; type < HD_N_TYPES; type++) {
            size_t length;
            const char *row = row_of(text, type, &length);
            cr_assert_eq(length, 16 + 13 * COLUMNS, "%.*s", (int)length, row);
        }
        free(text);
    }
}

static uint32_t count(const char *row, size_t length, const char *word) {
    uint32_t found = 0;
    for (const char *at = row; (at = strstr(at, word)) && at < row + length; at++) {
        found++;
    }
    return found;
}

Test(info, shows_where_results_go_past_the_caches_and_how_work_is_cut) {
    size_t length;
    setenv("HEDDLE_NONTEMPORAL_MIN", "65536", 1);
    char *text = plans_of(2);
    const char *row = row_of(text, HD_BCAST, &length);
    cr_assert_eq(count(row, length, ">"), 1, "1 MiB, as it has one buffer: %.*s", (int)length, row);
    cr_assert_not_null(strstr(row, "direct 256K>"), "%.*s", (int)length, row);
    row = row_of(text, HD_SCAN, &length);
    cr_assert_eq(count(row, length, ">"), 2, "64 KiB and 1 MiB: %.*s", (int)length, row);
    row = row_of(text, HD_BARRIER, &length);
    cr_assert_eq(count(row, length, "*"), COLUMNS, "%.*s", (int)length, row);
    free(text);
}
