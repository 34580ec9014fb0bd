/* test_copies.c: which blocks go from one device to another by the driver's copies, and which by a
 * kernel: the emulator counts both. Each result is compared with the reference's.
 */
#include "support/device_cases.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(copies, .timeout = 120);

enum { LARGE = 40 * 1024 /* elements of 4 bytes, so that endpoints have more than 64 KiB */ };

typedef struct copy_case {
    char config[32], least[16]; /* HEDDLE_GPU_COPY_MIN; empty: its default */
    ucc_coll_type_t type;
    uint32_t size;
    uint64_t count;
    in_place_t in_place;
    layout_t layout;
    uint64_t peer_copies, launches;
} copy_case_t;

static heddle_emucuda_report_t report(void) {
    heddle_emucuda_report_t r;
    heddle_emucuda_report(&r, sizeof(r));
    return r;
}

static void run(const copy_case_t *c) {
    coll_case_t coll = {.type = c->type,
                        .size = c->size,
                        .root = c->size - 1,
                        .count = c->count,
                        .dt = reference_datatype(UCC_DT_INT32),
                        .op = UCC_OP_SUM,
                        .in_place = c->in_place,
                        .layout = c->layout,
                        .seed = 5};
    trial_t t;
    if (c->least[0]) {
        setenv("HEDDLE_GPU_COPY_MIN", c->least, 1);
    }
    device_cases_begin(c->config, DEVICE_CASES_PLAIN);
    (void)case_memory->takes(&coll);
    trial_open(&t, &coll, 0);
    heddle_emucuda_report_t before = report();
    cr_assert(trial_run(&t), "%s", t.prepared->name);
    heddle_emucuda_report_t after = report();
    cr_expect_eq(after.peer_copies - before.peer_copies, c->peer_copies,
                 "%s, %u endpoints, %s: %llu peer copies", t.prepared->name, c->size, c->config,
                 (unsigned long long)(after.peer_copies - before.peer_copies));
    cr_expect_eq(after.launches - before.launches, c->launches,
                 "%s, %u endpoints, %s: %llu launches", t.prepared->name, c->size, c->config,
                 (unsigned long long)(after.launches - before.launches));
    cr_expect(trial_check(&t), "%s", t.prepared->name);
    trial_close(&t);
    device_cases_end();
}

#define CASES(...)                                                                                 \
    static copy_case_t cases[] = {__VA_ARGS__};                                                    \
    return cr_make_param_array(copy_case_t, cases, sizeof(cases) / sizeof(*cases))

/* Endpoint i's buffers are on device i modulo their number. */
ParameterizedTestParameters(copies, large_blocks_are_copied_between_devices) {
    CASES(
        /* the root is on device 0; one endpoint of device 1 gets the block, which goes on from
         * there to the other one */
        {"2", "64k", UCC_COLL_TYPE_BCAST, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 1, 2},
        {"4", "64k", UCC_COLL_TYPE_BCAST, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 3, 0},
        /* each block goes once to the other device */
        {"2", "64k", UCC_COLL_TYPE_ALLGATHER, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 5, 2},
        {"4", "64k", UCC_COLL_TYPE_ALLGATHER, 4, LARGE, IN_PLACE_WHERE_MEANT, LAYOUT_EQUAL, 12, 0},
        {"2", "64k", UCC_COLL_TYPE_ALLGATHERV, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 5, 2},
        {"2", "64k", UCC_COLL_TYPE_ALLTOALL, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 8, 2},
        {"2", "64k", UCC_COLL_TYPE_ALLTOALLV, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 8, 2},
        /* device 0 has three endpoints, one of them the root */
        {"2", "64k", UCC_COLL_TYPE_GATHER, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 2, 1},
        {"2", "64k", UCC_COLL_TYPE_GATHERV, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 2, 1},
        {"2", "64k", UCC_COLL_TYPE_SCATTER, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 2, 1},
        {"2", "64k", UCC_COLL_TYPE_SCATTERV, 5, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 2, 1},
        /* some are larger than this and some are not, and others zero */
        {"2", "200k", UCC_COLL_TYPE_ALLTOALLV, 4, LARGE, IN_PLACE_NO, LAYOUT_RANDOM, 4, 2},
        /* by default from 1 MiB on */
        {"2", "", UCC_COLL_TYPE_ALLGATHER, 2, 1024 * 1024 / 4, IN_PLACE_NO, LAYOUT_EQUAL, 2, 2});
}

ParameterizedTest(copy_case_t *c, copies, large_blocks_are_copied_between_devices) {
    run(c);
}

ParameterizedTestParameters(copies, all_else_is_one_launch_of_each_device) {
    CASES(
        /* on one device, whatever the size */
        {"1", "0", UCC_COLL_TYPE_ALLGATHER, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 0, 1},
        {"1", "0", UCC_COLL_TYPE_ALLTOALLV, 4, LARGE, IN_PLACE_NO, LAYOUT_RANDOM, 0, 1},
        /* below what it takes */
        {"2", "", UCC_COLL_TYPE_ALLGATHER, 2, 1024 * 1024 / 4 - 1, IN_PLACE_NO, LAYOUT_EQUAL, 0, 2},
        {"2", "inf", UCC_COLL_TYPE_BCAST, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 0, 2},
        {"2", "inf", UCC_COLL_TYPE_ALLTOALLV, 4, LARGE, IN_PLACE_NO, LAYOUT_RANDOM, 0, 2},
        /* one device does it all */
        {"2", "0", UCC_COLL_TYPE_BCAST, 4, 100, IN_PLACE_NO, LAYOUT_EQUAL, 0, 1},
        /* 72 copies of each device */
        {"2", "0", UCC_COLL_TYPE_ALLTOALLV, 17, 100, IN_PLACE_NO, LAYOUT_EQUAL, 0, 2},
        /* blocks that change places */
        {"2", "0", UCC_COLL_TYPE_ALLTOALL, 4, LARGE, IN_PLACE_WHERE_MEANT, LAYOUT_EQUAL, 0, 2},
        {"2", "0", UCC_COLL_TYPE_ALLTOALLV, 4, LARGE, IN_PLACE_WHERE_MEANT, LAYOUT_EQUAL, 0, 2},
        {"2", "0", UCC_COLL_TYPE_ALLREDUCE, 4, LARGE, IN_PLACE_NO, LAYOUT_EQUAL, 0, 2});
}

ParameterizedTest(copy_case_t *c, copies, all_else_is_one_launch_of_each_device) {
    run(c);
}
