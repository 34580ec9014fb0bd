/* test_plans.c: what heddle_info says of calls on devices, beside what they take: the emulator
 * counts. */
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(plans, .timeout = 300);

/* What a cell says. */
typedef struct cell {
    char way[16];
    uint64_t devices;
    bool own;
} cell_t;

static char text[1 << 16];

static void show(uint32_t endpoints) {
    FILE *out = fmemopen(text, sizeof(text), "w");
    cr_assert_eq(heddle_info_print(out, HEDDLE_INFO_GPUS, endpoints), UCC_OK);
    fclose(out);
}

/* False: there are no bytes. */
static bool find_cell(const char *type, unsigned column, cell_t *cell) {
    enum { NAME = 16, CELL = 16 };
    char row[32], number[CELL + 1], mark;
    snprintf(row, sizeof(row), "\n%-16s", type);
    const char *at = strstr(text, row);
    cr_assert_not_null(at, "%s in %s", type, text);
    snprintf(number, sizeof(number), "%.*s", CELL - 1, at + 1 + NAME + column * CELL);
    mark = at[1 + NAME + (column + 1) * CELL - 1];
    *cell = (cell_t){.own = mark == '*'};
    unsigned long devices;
    if (sscanf(number, "%15s %lu", cell->way, &devices) < 2) {
        cr_assert_eq(strcmp(cell->way, "-"), 0, "%s", number);
        return false;
    }
    cell->devices = devices;
    return true;
}

static heddle_emucuda_report_t report(void) {
    heddle_emucuda_report_t r;
    heddle_emucuda_report(&r, sizeof(r));
    return r;
}

static const size_t column_bytes[] = {8, 4096, 65536, 262144, 1048576, 16777216};

static const struct {
    const char *name;
    ucc_coll_type_t type;
    bool divides; /* what an endpoint gives is a block for each */
    bool reduces; /* numbers of 4 bytes; else bytes are moved */
} types[] = {{"allgather", UCC_COLL_TYPE_ALLGATHER, false, false},
             {"allgatherv", UCC_COLL_TYPE_ALLGATHERV, false, false},
             {"allreduce", UCC_COLL_TYPE_ALLREDUCE, false, true},
             {"alltoall", UCC_COLL_TYPE_ALLTOALL, true, false},
             {"alltoallv", UCC_COLL_TYPE_ALLTOALLV, true, false},
             {"bcast", UCC_COLL_TYPE_BCAST, false, false},
             {"gather", UCC_COLL_TYPE_GATHER, false, false},
             {"gatherv", UCC_COLL_TYPE_GATHERV, false, false},
             {"reduce", UCC_COLL_TYPE_REDUCE, false, true},
             {"reduce_scatter", UCC_COLL_TYPE_REDUCE_SCATTER, true, true},
             {"scatter", UCC_COLL_TYPE_SCATTER, true, false},
             {"scatterv", UCC_COLL_TYPE_SCATTERV, true, false},
             {"scan", UCC_COLL_TYPE_SCAN, false, true},
             {"exscan", UCC_COLL_TYPE_EXSCAN, false, true}};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* Does a call that goes this way take so many launches, and copies between devices? A launch for
 * each device that works; copies only where they are the way, and a device may have nothing else to
 * do; partials take a launch to make them and one to combine them, and windows a launch for each.
 */
static bool is_way(const cell_t *cell, uint32_t size, uint64_t launches, uint64_t copies) {
    if (strcmp(cell->way, "copies") == 0) {
        return cell->devices > 1 && copies > 0 && launches <= cell->devices;
    }
    if (strcmp(cell->way, "partials") == 0) {
        return cell->devices > 1 && copies == 0 && launches >= 2 * cell->devices;
    }
    if (strcmp(cell->way, "windows") == 0) {
        return copies == 0 && launches > 0;
    }
    bool nothing = size == 1 && launches == 0; /* alone, some collectives move nothing */
    return copies == 0 && (nothing || launches == cell->devices) &&
           strcmp(cell->way, cell->devices > 1 ? "shares" : "one") == 0;
}

/* A call as the cell means it, and what it took. */
static void compare(const char *config, unsigned t, uint32_t size, unsigned column) {
    cell_t said;
    trial_t trial;
    if (!find_cell(types[t].name, column, &said)) {
        return;
    }
    size_t bytes = types[t].divides ? column_bytes[column] / size : column_bytes[column];
    coll_case_t coll = {.type = types[t].type,
                        .size = size,
                        .count = types[t].reduces ? bytes / 4 : bytes,
                        .dt = reference_datatype(types[t].reduces ? UCC_DT_INT32 : UCC_DT_INT8),
                        .op = UCC_OP_SUM,
                        .layout = LAYOUT_EQUAL,
                        .seed = 7};
    (void)case_memory->takes(&coll);
    trial_open(&trial, &coll, 0);
    heddle_emucuda_report_t before = report();
    cr_assert(trial_run(&trial), "%s", trial.prepared->name);
    heddle_emucuda_report_t after = report();
    cr_expect(is_way(&said, size, after.launches - before.launches,
                     after.peer_copies - before.peer_copies),
              "%s, %s, %u endpoints, %zu bytes: %llu launches, %llu copies between devices, by %s "
              "%llu",
              config, types[t].name, size, column_bytes[column],
              (unsigned long long)(after.launches - before.launches),
              (unsigned long long)(after.peer_copies - before.peer_copies), said.way,
              (unsigned long long)said.devices);
    trial_close(&trial);
}

typedef struct machine {
    char config[32];
    uint32_t size, run; /* so many endpoints in a row are on one device */
} machine_t;

/* Where endpoints of these tests have their buffers on the devices where heddle_info has them. */
ParameterizedTestParameters(plans, calls_take_what_heddle_info_says) {
    static machine_t machines[] = {{"1", 1, 1}, {"1", 9, 1},        {"1", 70, 1}, {"2", 2, 1},
                                   {"3", 3, 1}, {"3,nopeer", 3, 1}, {"2", 16, 8}, {"2", 18, 9}};
    return cr_make_param_array(machine_t, machines, sizeof(machines) / sizeof(*machines));
}

ParameterizedTest(machine_t *m, plans, calls_take_what_heddle_info_says) {
    device_cases_begin(m->config, DEVICE_CASES_PLAIN);
    device_cases_in_runs(m->run);
    show(m->size);
    for (unsigned t = 0; t < TYPES; t++) {
        for (unsigned column = 0; column < 5; column++) {
            bool large = m->size > 8 && column > 2; /* which take long */
            if ((m->size < 20 || column < 2) && (!large || (t + column) % dose_step(6, 14) == 0)) {
                compare(m->config, t, m->size, column);
            }
        }
    }
    device_cases_end();
}

static cell_t cell_of(const char *type, unsigned column) {
    cell_t cell;
    cr_assert(find_cell(type, column, &cell));
    return cell;
}

Test(plans, a_cell_names_the_way_and_whose_streams_it_is_on) {
    device_cases_begin("2", DEVICE_CASES_PLAIN);
    setenv("HEDDLE_GPU_COPY_MIN", "200k", 1);
    show(8);
    cr_expect_str_eq(cell_of("allreduce", 0).way, "one");
    cr_expect_str_eq(cell_of("allreduce", 2).way, "one");
    cr_expect_str_eq(cell_of("allreduce", 3).way, "shares");
    cr_expect(cell_of("allreduce", 3).own);
    cr_expect_str_eq(cell_of("bcast", 2).way, "one");
    cr_expect_str_eq(cell_of("bcast", 3).way, "copies");
    cr_expect_not(cell_of("allgatherv", 0).own, "there may be a table");
    cr_expect_str_eq(cell_of("allreduce", 4).way, "shares");
    show(16);
    cr_expect_str_eq(cell_of("allreduce", 3).way, "shares");
    cr_expect_str_eq(cell_of("allreduce", 4).way, "partials");
    cr_expect_eq(cell_of("allreduce", 4).devices, 2);
    cr_expect_not(cell_of("allreduce", 4).own);
    cr_expect_str_eq(cell_of("scan", 4).way, "shares");
    show(100);
    cr_expect_not(cell_of("allreduce", 3).own, "there may be a table");
    device_cases_end();
}

Test(plans, devices_that_do_not_reach_each_other_go_by_windows) {
    device_cases_begin("2,nopeer", DEVICE_CASES_PLAIN);
    show(4);
    cr_expect_str_eq(cell_of("alltoall", 1).way, "windows");
    cr_expect_not(cell_of("alltoall", 1).own);
    cr_expect_not_null(strstr(text, "in a process that sees several GPUs"), "%s", text);
    device_cases_end();
}

Test(plans, what_goes_by_segments_among_processes_is_said) {
    device_cases_begin("1", DEVICE_CASES_PLAIN);
    show(4);
    cr_expect_not_null(strstr(text, "large allreduce, bcast, reduce, mcast by segments"), "%s",
                       text);
    device_cases_end();
}
