/* test_plan.c: the plan of a call over all wings: a table of calls pins it, in one process and in
 * several, and each call is run and compared with what its plan has said.
 */
#include "../support/small.h"
#include "../support/world.h"

#include "request/request.h"
#include "shm/phases.h"
#include "span/internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(request_plan, .init = processes_use_network, .timeout = 120);

enum { SECONDS = 60, MOST = 8, ROOM = 4 << 20 };

/* How a call finds its exchange, and what it is asked for besides. */
typedef enum kind { NUMBERED, TAGGED } kind_t;

typedef struct row {
    uint32_t processes, endpoints; /* of each process */
    ucc_coll_type_t type;
    size_t bytes; /* of the whole, or of an endpoint's block */
    kind_t kind;
    const char *plan; /* of endpoint 0, as people are told */
} row_t;

typedef struct setting {
    ucc_coll_sync_type_t sync;
    const row_t *row;
    uint32_t rows;
} setting_t;

/* --- one call --------------------------------------------------------------------------------- */

static ucc_coll_args_t args_of(const row_t *row, uint32_t size, uint8_t *src, uint8_t *dst,
                               uint32_t *counts) {
    uint64_t n = row->bytes / sizeof(int32_t);
    int32_t *from = (int32_t *)(void *)src, *to = (int32_t *)(void *)dst;
    ucc_coll_args_t args = small_args(row->type);
    uint8_t type = hd_type_of((uint64_t)row->type);
    const hd_coll_t *coll = &hd_coll[type];
    args.root = 0;
    args.op = UCC_OP_SUM;
    if (coll->moves_data) {
        args.src.info = small_info(from, coll->source == HD_BLOCKS ? n * size : n);
        args.dst.info = small_info(to, coll->result == HD_BLOCKS ? n * size : n);
    }
    for (uint32_t i = 0; coll->vector && i < size; i++) {
        counts[i] = (uint32_t)n;
        counts[size + i] = i * (uint32_t)n;
    }
    if (coll->source == HD_VECTOR) {
        args.src.info_v = small_info_v(from, counts, counts + size);
    }
    if (coll->result == HD_VECTOR) {
        args.dst.info_v = small_info_v(to, counts, counts + size);
    }
    if (row->kind == TAGGED) {
        args.mask |= UCC_COLL_ARGS_FIELD_TAG;
        args.tag = 7;
    }
    return args;
}

static bool same_plan(const hd_plan_t *a, const hd_plan_t *b) {
    return a->path == b->path && a->arrival == b->arrival && a->all_wait == b->all_wait &&
           a->regime == b->regime && a->data == b->data && a->lines == b->lines &&
           a->naming == b->naming && a->stores == b->stores && a->network == b->network &&
           a->leg == b->leg && a->apart == b->apart && a->parallel == b->parallel &&
           a->segments == b->segments && a->where == b->where && a->slices == b->slices &&
           a->window == b->window && a->segment == b->segment && a->row == b->row;
}

/* Did the legs run as the text says? The flight of the exchange is as its last step has left it. */
static bool legs_ran(const hd_op_t *op, const char *text) {
    const hd_flight_t *f = hd_flight_of(op);
    bool ok = f && f->plan.segments == op->plan.segments && f->plan.leg == op->plan.leg;
    for (uint32_t j = 0; ok && j < f->plan.segments; j++) {
        char by[64];
        const hd_net_plan_t *plan = &f->segment[j].leg.plan;
        snprintf(by, sizeof(by), "%s among %u processes by %s",
                 hd_type_name(f->segment[j].leg.call.type), f->segment[j].leg.call.n,
                 hd_net_plan_name(plan));
        ok = strstr(text, by) != NULL;
    }
    return ok;
}

/* What the processes said to each other, and by what: as planned? */
static bool ran(const hd_op_t *op, const row_t *row, const char *text, uint64_t messages) {
    switch ((hd_network_t)op->plan.network) {
    case HD_NETWORK_NONE:
        return messages == 0 && !op->outer;
    case HD_NETWORK_SWAP:
        return hd_coll[op->call.type].flow != HD_AMONG_ALL || messages == row->processes - 1;
    case HD_NETWORK_LEGS:
        return op->outer == &hd_flight_stage && legs_ran(op, text);
    }
    return false;
}

static hd_text_t text_of(const hd_request_t *r, const hd_plan_t *plan) {
    hd_text_t text = {0};
    hd_phases_t phases = hd_op_phases(&r->op, plan);
    hd_phases_print(&phases, &text);
    return text;
}

/* Runs the row at all endpoints of this process. */
static bool run_row(world_t *world, const process_t *process, const row_t *row) {
    static uint8_t src[MOST][ROOM], dst[MOST][ROOM];
    static uint32_t counts[MOST][2 * MOST];
    ucc_coll_req_h request[MOST] = {NULL};
    hd_plan_t plan[MOST];
    hd_text_t text[MOST];
    bool ok = true;
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint32_t e = world_endpoint(world, k);
        ucc_coll_args_t args = args_of(row, world->size, src[e], dst[e], counts[e]);
        request[e] = small_init(world, e, &args);
        plan[e] = hd_plan_of((hd_request_t *)request[e]);
        text[e] = text_of((hd_request_t *)request[e], &plan[e]);
    }
    if (world_endpoint(world, 0) == 0 && strcmp(text[0].line, row->plan) != 0) {
        fprintf(stderr, "%u processes of %u, %s of %zu bytes:\n  \"%s\", not\n  \"%s\"\n",
                row->processes, row->endpoints, hd_type_name(hd_type_of((uint64_t)row->type)),
                row->bytes, text[0].line, row->plan);
        ok = false;
    }
    if (process) {
        process_barrier(process);
    }
    uint64_t before = hd_net_traffic().messages_sent;
    for (uint32_t k = 0; k < world_count(world); k++) {
        cr_assert_eq(ucc_collective_post(request[world_endpoint(world, k)]), UCC_OK);
    }
    small_wait(world, request, world->size);
    uint64_t messages = hd_net_traffic().messages_sent - before;
    if (process) {
        process_barrier(process);
    }
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint32_t e = world_endpoint(world, k);
        const hd_op_t *op = &((hd_request_t *)request[e])->op;
        if (!same_plan(&op->plan, &plan[e]) || !ran(op, row, text[e].line, messages)) {
            fprintf(stderr,
                    "endpoint %u, %s of %zu bytes: \"%s\" is not what ran (%llu messages)\n", e,
                    hd_type_name(op->call.type), row->bytes, text[e].line,
                    (unsigned long long)messages);
            ok = false;
        }
    }
    small_finish(world, request, world->size);
    return ok;
}

/* --- the table -------------------------------------------------------------------------------- */

/* Plans are known when all endpoints are there. */
static void meet(world_t *world) {
    for (uint32_t round = 0; round < 2; round++) {
        ucc_coll_req_h request[MOST] = {NULL};
        for (uint32_t k = 0; k < world_count(world); k++) {
            ucc_coll_args_t args = small_barrier();
            request[world_endpoint(world, k)] = small_start(world, world_endpoint(world, k), &args);
        }
        small_finish(world, request, world->size);
    }
}

static int run_rows(const process_t *process, void *arg) {
    const setting_t *s = arg;
    bool ok = true;
    uint32_t processes = process ? process->size / process->n : 1,
             endpoints = process ? process->n : 0;
    world_t *world = NULL;
    for (uint32_t i = 0; i < s->rows; i++) {
        const row_t *row = &s->row[i];
        if (row->processes != processes || (process && row->endpoints != endpoints)) {
            continue;
        }
        if (world && world->size != row->processes * row->endpoints) {
            world_destroy(world);
            world = NULL;
        }
        if (!world) {
            world = world_create(&(world_params_t){
                .size = row->processes * row->endpoints, .sync = s->sync, .process = process});
            meet(world);
        }
        ok = run_row(world, process, row) && ok;
    }
    if (world) {
        world_destroy(world);
    }
    return !ok;
}

static void check(const setting_t *setting) {
    static const uint32_t shapes[][2] = {{1, 0}, {2, 1}, {2, 2}, {3, 1}};
    setting_t s = *setting;
    for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        shape_t shape = shape_even(shapes[i][0], shapes[i][1]);
        if (shapes[i][0] > 1) { /* a process forks before it uses the library */
            cr_expect(processes_run(&shape, SECONDS, run_rows, &s).ok);
        }
    }
    cr_expect_eq(run_rows(NULL, &s), 0);
}

Test(request_plan, is_what_the_table_says_and_what_runs) {
    static const row_t rows[] = {
        {1, 2, UCC_COLL_TYPE_BARRIER, 0, NUMBERED, "flat, arrival flat"},
        {1, 2, UCC_COLL_TYPE_ALLREDUCE, 8, NUMBERED, "inline, arrival flat"},
        {1, 2, UCC_COLL_TYPE_ALLREDUCE, 200, NUMBERED, "lines, arrival flat"},
        {1, 2, UCC_COLL_TYPE_ALLREDUCE, 65536, NUMBERED,
         "direct in windows of 32768 bytes by plain stores, arrival flat"},
        {1, 2, UCC_COLL_TYPE_ALLTOALLV, 64, NUMBERED, "lines, arrival flat"},
        {1, 2, UCC_COLL_TYPE_BCAST, 4096, TAGGED, "staged, arrival flat"},
        {2, 1, UCC_COLL_TYPE_BARRIER, 0, NUMBERED, "one message each way among 2 processes"},
        {2, 1, UCC_COLL_TYPE_ALLREDUCE, 8, NUMBERED, "one message each way among 2 processes"},
        {2, 1, UCC_COLL_TYPE_ALLREDUCE, 8, TAGGED, "allreduce among 2 processes by exchange/8"},
        {2, 1, UCC_COLL_TYPE_ALLREDUCE, 4096, NUMBERED, "one message each way among 2 processes"},
        {2, 1, UCC_COLL_TYPE_ALLREDUCE, 8192, NUMBERED,
         "allreduce among 2 processes by exchange/8"},
        {2, 1, UCC_COLL_TYPE_ALLREDUCE, 4 << 20, NUMBERED,
         "8 segments of 524288 bytes, each allreduce among 2 processes by reduce+allgather"},
        {2, 1, UCC_COLL_TYPE_ALLGATHER, 4096, NUMBERED, "one message each way among 2 processes"},
        {2, 1, UCC_COLL_TYPE_ALLGATHER, 65536, NUMBERED, "allgather among 2 processes by direct"},
        {2, 1, UCC_COLL_TYPE_ALLTOALLV, 64, NUMBERED, "alltoallv among 2 processes by pairwise"},
        {2, 1, UCC_COLL_TYPE_REDUCE_SCATTERV, 64, NUMBERED,
         "reduce_scatterv among 2 processes by direct"},
        {2, 1, UCC_COLL_TYPE_SCAN, 8, NUMBERED, "allgather among 2 processes by direct"},
        {2, 2, UCC_COLL_TYPE_BARRIER, 0, NUMBERED,
         "tree, arrival by counter, one message each way among 2 processes"},
        {2, 2, UCC_COLL_TYPE_ALLREDUCE, 8, NUMBERED,
         "inline tree, arrival by counter, one message each way among 2 processes"},
        {2, 2, UCC_COLL_TYPE_ALLREDUCE, 8, TAGGED,
         "inline tree, arrival by counter, allreduce among 2 processes by exchange/8"},
        {2, 2, UCC_COLL_TYPE_ALLREDUCE, 1024, NUMBERED,
         "staged tree, arrival by counter, one message each way among 2 processes"},
        {2, 2, UCC_COLL_TYPE_ALLREDUCE, 65536, NUMBERED,
         "direct in windows of 65536 bytes by plain stores, arrival by counter, allreduce among 2 "
         "processes by exchange/8"},
        {2, 2, UCC_COLL_TYPE_BCAST, 4 << 20, NUMBERED,
         "direct in windows of 65536 bytes by plain stores, arrival by counter, 8 segments of "
         "524288 bytes, each bcast among 2 processes by tree/2"},
        {2, 2, UCC_COLL_TYPE_ALLTOALL, 8, NUMBERED,
         "staged tree, arrival by counter, one message each way among 2 processes"},
        {2, 2, UCC_COLL_TYPE_ALLTOALL, 65536, NUMBERED,
         "direct in windows of 65536 bytes by plain stores, arrival by counter, alltoall among 2 "
         "processes by pairwise"},
        {2, 2, UCC_COLL_TYPE_GATHER, 64, NUMBERED,
         "staged tree, arrival by counter, one message each way among 2 processes"},
        {3, 1, UCC_COLL_TYPE_ALLREDUCE, 8, NUMBERED, "one message each way among 3 processes"},
        {3, 1, UCC_COLL_TYPE_ALLGATHERV, 64, NUMBERED, "allgatherv among 3 processes by direct"},
        {3, 1, UCC_COLL_TYPE_ALLREDUCE, 1 << 20, NUMBERED,
         "allreduce among 3 processes by reduce+allgather"},
    };
    check(&(setting_t){.row = rows, .rows = sizeof(rows) / sizeof(rows[0])});
}

Test(request_plan, of_two_sided_teams_is_what_the_table_says_and_what_runs) {
    static const row_t rows[] = {
        {1, 2, UCC_COLL_TYPE_ALLREDUCE, 8, NUMBERED,
         "direct in windows of 64 bytes by plain stores, arrival flat"},
        {2, 2, UCC_COLL_TYPE_BARRIER, 0, NUMBERED,
         "tree, arrival by counter, barrier among 2 processes by direct"},
        {2, 2, UCC_COLL_TYPE_REDUCE, 8, NUMBERED,
         "inline tree, arrival by counter, allreduce among 2 processes by exchange/8"},
        {2, 2, UCC_COLL_TYPE_BCAST, 8, NUMBERED,
         "direct in windows of 65536 bytes by plain stores, arrival by counter, bcast among 2 "
         "processes by tree/8"},
    };
    check(&(setting_t){
        .sync = UCC_SYNC_COLLECTIVES, .row = rows, .rows = sizeof(rows) / sizeof(rows[0])});
}
