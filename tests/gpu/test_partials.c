/* test_partials.c: reductions over several devices of which each first reduces the blocks of 8
 * endpoints that it has: which do, and that the bits are those of the reference. The emulator
 * counts launches, and looks after the order.
 */
#include "emucuda/calls.h"
#include "support/batch.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(partials, .timeout = 240);

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Elements of 4 bytes, so that endpoints have more than 64 KiB; and of more than an emulated
 * device's partials are given. */
enum { LARGE = 20000, PIECES = 300000 };

static heddle_emucuda_report_t report(void) {
    heddle_emucuda_report_t r;
    heddle_emucuda_report(&r, sizeof(r));
    return r;
}

static void begin(const char *config, device_cases_t kind, uint32_t run, const char *least) {
    setenv("HEDDLE_GPU_PARTIAL_MIN", least, 1);
    device_cases_begin(config, kind);
    device_cases_in_runs(run);
}

/* --- which do --------------------------------------------------------------------------------- */

typedef struct way_case {
    char config[16], least[16];
    uint32_t size, run; /* so many endpoints in a row are on one device */
    ucc_coll_type_t type;
    uint64_t count;
    in_place_t in_place;
    uint64_t launches;
} way_case_t;

static coll_case_t case_of(ucc_coll_type_t type, uint32_t size, uint64_t count, in_place_t in) {
    bool blocks = coll_has_blocks(type);
    return (coll_case_t){.type = type,
                         .size = size,
                         .root = size - 1,
                         .count = blocks ? (count + size - 1) / size : count,
                         .dt = reference_datatype(UCC_DT_FLOAT32),
                         .op = UCC_OP_SUM,
                         .in_place = in,
                         .seed = 3};
}

static void run_way(const way_case_t *w) {
    coll_case_t c = case_of(w->type, w->size, w->count, w->in_place);
    trial_t t;
    begin(w->config, DEVICE_CASES_PLAIN, w->run, w->least);
    (void)case_memory->takes(&c);
    trial_open(&t, &c, 0);
    uint64_t before = report().launches;
    cr_assert(trial_run(&t), "%s", t.prepared->name);
    uint64_t launches = report().launches - before;
    cr_expect_eq(launches, w->launches, "%s, runs of %u: %llu launches, not %llu", t.prepared->name,
                 w->run, (unsigned long long)launches, (unsigned long long)w->launches);
    cr_expect(trial_check(&t), "%s", t.prepared->name);
    trial_close(&t);
    device_cases_end();
}

#define ALLREDUCE      UCC_COLL_TYPE_ALLREDUCE
#define REDUCE         UCC_COLL_TYPE_REDUCE
#define REDUCE_SCATTER UCC_COLL_TYPE_REDUCE_SCATTER
#define WAYS(...)                                                                                  \
    static way_case_t cases[] = {__VA_ARGS__};                                                     \
    return cr_make_param_array(way_case_t, cases, LENGTH(cases))

/* One launch for each node and each device. */
ParameterizedTestParameters(partials, blocks_on_one_device_are_reduced_there) {
    WAYS({"2", "0", 16, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "0", 16, 8, ALLREDUCE, LARGE, IN_PLACE_EVERYWHERE, 2 + 2},
         {"2", "0", 16, 8, REDUCE, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "0", 16, 8, REDUCE, LARGE, IN_PLACE_WHERE_MEANT, 2 + 2},
         {"2", "0", 16, 8, REDUCE_SCATTER, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "0", 16, 8, REDUCE_SCATTER, LARGE, IN_PLACE_EVERYWHERE, 2 + 2},
         {"2", "0", 16, 8, UCC_COLL_TYPE_REDUCE_SCATTERV, LARGE, IN_PLACE_NO, 2 + 2},
         /* device 0 has two blocks; the last one may be smaller, and one endpoint is none */
         {"2", "0", 24, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 3 + 2},
         {"2", "0", 20, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 3 + 2},
         {"2", "0", 17, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "0", 17, 8, REDUCE_SCATTER, LARGE, IN_PLACE_EVERYWHERE, 2 + 2},
         /* devices share a block that lies on both */
         {"2", "0", 24, 12, ALLREDUCE, LARGE, IN_PLACE_EVERYWHERE, 2 + 2 + 2},
         {"2", "0", 12, 6, ALLREDUCE, LARGE, IN_PLACE_EVERYWHERE, 1 + 2 + 2},
         /* three of four devices have endpoints; all four */
         {"4", "0", 24, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 3 + 3},
         {"4", "0", 32, 8, REDUCE, LARGE, IN_PLACE_NO, 4 + 4},
         /* 64 in a row are a node, too; and more words than a launch has */
         {"2", "0", 128, 64, ALLREDUCE, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "0", 130, 64, ALLREDUCE, LARGE, IN_PLACE_EVERYWHERE, 3 + 2},
         {"2", "0", 66, 8, UCC_COLL_TYPE_REDUCE_SCATTERV, LARGE, IN_PLACE_NO, 9 + 2},
         /* by pieces of what one partial, and two, have in the end */
         {"2", "0", 16, 8, ALLREDUCE, PIECES, IN_PLACE_EVERYWHERE, 2 * 4},
         {"2", "0", 24, 8, ALLREDUCE, PIECES, IN_PLACE_EVERYWHERE, 3 * 5},
         {"2", "0", 24, 12, REDUCE_SCATTER, PIECES, IN_PLACE_EVERYWHERE, 3 * 6},
         /* from so many bytes on */
         {"2", "80000", 16, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "80000", 16, 8, REDUCE_SCATTER, LARGE, IN_PLACE_NO, 2 + 2},
         {"2", "1m", 16, 8, ALLREDUCE, 1024 * 1024 / 4, IN_PLACE_NO, 2 + 2});
}

ParameterizedTest(way_case_t *w, partials, blocks_on_one_device_are_reduced_there) {
    run_way(w);
}

ParameterizedTestParameters(partials, all_else_is_one_launch_of_each_device) {
    WAYS({"2", "80001", 16, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 2},
         {"2", "80001", 16, 8, REDUCE_SCATTER, LARGE, IN_PLACE_NO, 2},
         {"2", "inf", 16, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 2},
         {"2", "1m", 16, 8, ALLREDUCE, 1024 * 1024 / 4 - 1, IN_PLACE_NO, 2},
         /* one device does all */
         {"2", "0", 16, 8, ALLREDUCE, 16 * 1024, IN_PLACE_NO, 1},
         {"1", "0", 16, 8, ALLREDUCE, LARGE, IN_PLACE_NO, 1},
         /* no block is on one device; a block of one endpoint is no reason */
         {"4", "0", 16, 4, ALLREDUCE, LARGE, IN_PLACE_NO, 4},
         {"2", "0", 9, 5, ALLREDUCE, LARGE, IN_PLACE_NO, 2},
         /* from left to right */
         {"2", "0", 16, 8, UCC_COLL_TYPE_SCAN, LARGE, IN_PLACE_NO, 2},
         {"2", "0", 16, 8, UCC_COLL_TYPE_ALLGATHER, LARGE, IN_PLACE_NO, 2});
}

ParameterizedTest(way_case_t *w, partials, all_else_is_one_launch_of_each_device) {
    run_way(w);
}

/* --- the bits --------------------------------------------------------------------------------- */

typedef struct team_case {
    char config[40];
    device_cases_t kind;
    uint32_t size, run;
    driver_t driver;
    bool on_streams;
} team_case_t;

#define TEAMS(...)                                                                                 \
    static team_case_t cases[] = {__VA_ARGS__};                                                    \
    return cr_make_param_array(team_case_t, cases, LENGTH(cases))

static batch_t *open_batch(const team_case_t *c, uint32_t times) {
    batch_params_t params = {
        .world = {.size = c->size, .form = WORLD_OOB}, .driver = c->driver, .times = times};
    begin(c->config, c->kind, c->run, "0");
    if (c->on_streams) {
        device_cases_on_streams();
    }
    batch_percent = 100 / dose_step(6, 16);
    return batch_open(&params);
}

static void close_batch(const team_case_t *c, batch_t *batch) {
    cr_assert_eq(batch_close(batch), 0, "%s, size %u, runs of %u", c->config, c->size, c->run);
    device_cases_end();
}

static const ucc_coll_type_t types[] = {ALLREDUCE, REDUCE, REDUCE_SCATTER,
                                        UCC_COLL_TYPE_REDUCE_SCATTERV};

ParameterizedTestParameters(partials, every_type_and_operation) {
    TEAMS({"2", DEVICE_CASES_PLAIN, 16, 8, DRIVER_ONE, false},
          {"2", DEVICE_CASES_PLAIN, 23, 11, DRIVER_ONE, false},
          {"4", DEVICE_CASES_PLAIN, 24, 8, DRIVER_ONE, false});
}

ParameterizedTest(team_case_t *team, partials, every_type_and_operation) {
    batch_t *batch = open_batch(team, 0);
    uint32_t turn = 0;
    for (uint32_t d = 0; d < reference_n_datatypes; d++) {
        const reference_dt_t *dt = &reference_datatypes[d];
        for (ucc_reduction_op_t op = UCC_OP_SUM; op < UCC_OP_LAST; op++) {
            if (reference_op_valid(dt, op)) {
                ucc_coll_type_t type = types[turn++ % LENGTH(types)];
                coll_case_t c =
                    case_of(type, team->size, 70001 / dt->extent, (in_place_t)(turn % 2));
                c.dt = dt;
                c.op = op;
                c.seed = 0;
                batch_add(batch, &c);
            }
        }
    }
    close_batch(team, batch);
}

/* --- the order -------------------------------------------------------------------------------- */

static coll_case_t one_of_some(uint32_t size, uint32_t i) {
    static const uint64_t counts[] = {LARGE, 16500, 70000, 33333};
    ucc_coll_type_t type = types[i % LENGTH(types)];
    coll_case_t c = case_of(type, size, counts[i % 5 % LENGTH(counts)], (in_place_t)(i % 3));
    c.root = i * 5 % size;
    c.layout = i % 2 ? LAYOUT_RANDOM : LAYOUT_EQUAL;
    c.dt = reference_datatype(i % 3 ? UCC_DT_FLOAT32 : UCC_DT_BFLOAT16);
    c.count *= i % 3 ? 1 : 2;
    c.seed = i + 1;
    return c;
}

static void add_some(batch_t *batch, uint32_t size) {
    for (uint32_t i = 0; i < 12; i++) {
        coll_case_t c = one_of_some(size, i);
        batch_add(batch, &c);
    }
}

/* Each way of driving them; one after the other without waiting in between, so that memory of
 * partials is used again while it is in use. */
ParameterizedTestParameters(partials, many_in_a_row) {
    TEAMS({"2,seed=1", DEVICE_CASES_PLAIN, 16, 8, DRIVER_DEEP, false},
          {"2,seed=2,channels=1", DEVICE_CASES_PLAIN, 20, 8, DRIVER_DEEP, false},
          {"4,seed=3,policy=lazy", DEVICE_CASES_PLAIN, 24, 8, DRIVER_DEEP, false},
          {"2,seed=4,policy=newest", DEVICE_CASES_PLAIN, 24, 12, DRIVER_DEEP, false},
          {"2,seed=5,policy=starve", DEVICE_CASES_MIXED, 17, 8, DRIVER_DEEP, false},
          {"2,seed=6,host=threads", DEVICE_CASES_PLAIN, 16, 8, DRIVER_THREADS, false},
          {"4,seed=7,host=threads", DEVICE_CASES_PLAIN, 20, 8, DRIVER_SHARED, false},
          {"2,seed=8", DEVICE_CASES_MANAGED, 16, 8, DRIVER_ONE, false},
          {"2,seed=9,nopeer", DEVICE_CASES_PLAIN, 16, 8, DRIVER_DEEP, false},
          {"2,seed=10,host=threads", DEVICE_CASES_PLAIN, 16, 8, DRIVER_THREADS, true},
          {"4,seed=11,channels=1", DEVICE_CASES_PLAIN, 24, 8, DRIVER_ONE, true},
          {"4,seed=12,policy=newest", DEVICE_CASES_PLAIN, 20, 6, DRIVER_ONE, true});
}

ParameterizedTest(team_case_t *team, partials, many_in_a_row) {
    batch_t *batch = open_batch(team, 0);
    add_some(batch, team->size);
    close_batch(team, batch);
}

ParameterizedTestParameters(partials, persistent_requests) {
    TEAMS({"2,seed=1", DEVICE_CASES_PLAIN, 16, 8, DRIVER_DEEP, false},
          {"4,seed=2,host=threads", DEVICE_CASES_PLAIN, 24, 8, DRIVER_THREADS, false});
}

ParameterizedTest(team_case_t *team, partials, persistent_requests) {
    batch_t *batch = open_batch(team, 3);
    add_some(batch, team->size);
    close_batch(team, batch);
}

/* Threads of several teams on the same devices. */
static void drive_team(void *arg, uint32_t i) {
    enum { JOBS = 4 };
    bool *right = arg;
    uint32_t size = 16 + i;
    world_t *world = world_create(&(world_params_t){.size = size, .form = WORLD_OOB});
    prepared_t *prepared[JOBS];
    job_t jobs[JOBS];
    for (uint32_t k = 0; k < JOBS; k++) {
        coll_case_t c = one_of_some(size, k);
        prepared[k] = case_prepare(&c);
        jobs[k] = case_job(prepared[k]);
    }
    driver_run(world, DRIVER_DEEP, jobs, JOBS);
    right[i] = true;
    for (uint32_t k = 0; k < JOBS; k++) {
        right[i] = case_check(prepared[k]) && right[i];
        case_free(prepared[k]);
    }
    world_destroy(world);
}

Test(partials, several_teams_at_once) {
    enum { TEAMS_AT_ONCE = 5 }; /* one more than a device has lines: two have the same */
    bool right[TEAMS_AT_ONCE];
    begin("2,seed=5,host=threads", DEVICE_CASES_PLAIN, 8, "0");
    driver_threads(TEAMS_AT_ONCE, drive_team, right);
    for (uint32_t i = 0; i < TEAMS_AT_ONCE; i++) {
        cr_expect(right[i], "team %u", i);
    }
    device_cases_end();
}

/* Active sets, whose lowest devices are different ones. */
Test(partials, sets_that_begin_at_other_devices) {
    team_case_t team = {"4,seed=6", DEVICE_CASES_PLAIN, 32, 8, DRIVER_DEEP, false};
    batch_t *batch = open_batch(&team, 0);
    for (uint32_t i = 0; i < 8; i++) {
        coll_case_t c = case_of(ALLREDUCE, 16, LARGE, IN_PLACE_NO);
        c.set = (job_set_t){.start = i % 3 * 8, .stride = 1, .n = 16};
        c.tagged = true;
        c.tag = (uint16_t)i;
        c.seed = i + 1;
        batch_add(batch, &c);
    }
    close_batch(&team, batch);
}

/* --- operands on one device, results on others ------------------------------------------------ */

static void fill_host(float *memory, float value) {
    for (uint32_t k = 0; k < LARGE; k++) {
        memory[k] = value;
    }
}

/* Of up to 8 endpoints there is one node, which is the root. */
static void run_one_node(ucc_coll_type_t type, ucc_reduction_op_t op, uint32_t n, float expected) {
    static float values[LARGE];
    float *src[8], *dst[8];
    ucc_coll_req_h request[8];
    begin("2", DEVICE_CASES_PLAIN, 8, "0");
    world_t *world = world_create(&(world_params_t){.size = n, .form = WORLD_OOB});
    uint64_t before = report().launches;
    for (uint32_t i = 0; i < n; i++) {
        src[i] = device_take(0, sizeof(values));
        dst[i] = device_take(i % 2, sizeof(values));
        fill_host(values, (float)(i + 1));
        device_to(src[i], values, sizeof(values));
        ucc_coll_args_t args = {.coll_type = type, .op = op, .root = 1};
        args.src.info = args.dst.info = (ucc_coll_buffer_info_t){
            .count = LARGE, .datatype = UCC_DT_FLOAT32, .mem_type = UCC_MEMORY_TYPE_CUDA};
        args.src.info.buffer = src[i];
        args.dst.info.buffer = dst[i];
        must(ucc_collective_init(&args, &request[i], world->teams[i]), "ucc_collective_init");
        must(ucc_collective_post(request[i]), "ucc_collective_post");
    }
    for (uint32_t i = 0; i < n; i++) {
        must(heddle_wait(request[i], 30), "heddle_wait");
        must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
    }
    cr_expect_eq(report().launches - before, 1 + 2);
    for (uint32_t i = 0; i < n; i++) {
        device_from(values, dst[i], sizeof(values));
        bool has = type == ALLREDUCE || i == 1;
        cr_expect(!has || (values[0] == expected && values[LARGE - 1] == expected),
                  "%u of %u: %g, not %g", i, n, (double)values[0], (double)expected);
        device_put(src[i]);
        device_put(dst[i]);
    }
    world_destroy(world);
    device_cases_end();
    heddle_emucuda_reset();
}

Test(partials, one_node_is_the_whole) {
    run_one_node(ALLREDUCE, UCC_OP_SUM, 4, 10);
    run_one_node(ALLREDUCE, UCC_OP_AVG, 4, 2.5F);
    run_one_node(ALLREDUCE, UCC_OP_AVG, 8, 4.5F);
    run_one_node(REDUCE, UCC_OP_AVG, 2, 1.5F);
    run_one_node(REDUCE, UCC_OP_AVG, 8, 4.5F);
}

/* --- chains on streams ------------------------------------------------------------------------ */

enum { N = 16, LINKS = 3 };

static struct {
    void *stream;
    float *src, *dst, *out;
} part[N];

static void must_cu(CUresult result, const char *call) {
    must(result == CUDA_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE, call);
}

static CUdeviceptr at(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

static uint32_t bits_of(float x) {
    union {
        float x;
        uint32_t bits;
    } u = {.x = x};
    return u.bits;
}

static void fill(uint32_t i, float *memory, float value) {
    device_enter(device_cases_device(i));
    must_cu(cuMemsetD32Async(at(memory), bits_of(value), LARGE, part[i].stream), "cuMemsetD32");
    device_leave();
}

static void open_parts(void) {
    for (uint32_t i = 0; i < N; i++) {
        int device = device_cases_device(i);
        part[i].stream = device_stream(device);
        part[i].src = device_take(device, LARGE * sizeof(float));
        part[i].dst = device_take(device, LARGE * sizeof(float));
        part[i].out = device_take(device, LINKS * LARGE * sizeof(float));
    }
}

static void close_parts(void) {
    for (uint32_t i = 0; i < N; i++) {
        device_stream_end(part[i].stream);
        device_put(part[i].src);
        device_put(part[i].dst);
        device_put(part[i].out);
    }
}

static void sum_on_streams(world_t *world) {
    ucc_coll_req_h request[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = {.coll_type = ALLREDUCE, .op = UCC_OP_SUM};
        args.src.info = args.dst.info = (ucc_coll_buffer_info_t){
            .count = LARGE, .datatype = UCC_DT_FLOAT32, .mem_type = UCC_MEMORY_TYPE_CUDA};
        args.src.info.buffer = part[i].src;
        args.dst.info.buffer = part[i].dst;
        must(ucc_collective_init(&args, &request[i], world->teams[i]), "ucc_collective_init");
        must(heddle_post_on(request[i], part[i].stream), "heddle_post_on");
    }
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_wait(request[i], 30), "heddle_wait");
        must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
    }
}

/* What is summed, kept, and overwritten, with nobody waiting for a device. */
static void chain(world_t *world) {
    for (uint32_t link = 0; link < LINKS; link++) {
        for (uint32_t i = 0; i < N; i++) {
            fill(i, part[i].src, (float)(link + i));
        }
        sum_on_streams(world);
        for (uint32_t i = 0; i < N; i++) {
            device_enter(device_cases_device(i));
            must_cu(cuMemcpyDtoDAsync_v2(at(part[i].out + (size_t)link * LARGE), at(part[i].dst),
                                         LARGE * sizeof(float), part[i].stream),
                    "cuMemcpyDtoDAsync");
            device_leave();
            fill(i, part[i].src, 7);
            fill(i, part[i].dst, 7);
        }
    }
}

static void check_chain(void) {
    static float seen[LINKS * LARGE];
    for (uint32_t i = 0; i < N; i++) {
        device_enter(device_cases_device(i));
        must_cu(cuStreamSynchronize(part[i].stream), "cuStreamSynchronize");
        device_leave();
        device_from(seen, part[i].out, sizeof(seen));
        for (uint32_t link = 0; link < LINKS; link++) {
            float sum = (float)(link * N + N * (N - 1) / 2);
            cr_assert_eq(seen[link * LARGE], sum, "endpoint %u", i);
            cr_assert_eq(seen[(link + 1) * LARGE - 1], sum, "endpoint %u", i);
        }
    }
}

Test(partials, chains_on_streams) {
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char config[32];
        snprintf(config, sizeof(config), "%d,seed=%u,channels=%u", seed % 3 ? 2 : 4, seed,
                 1 + seed % 8);
        begin(config, DEVICE_CASES_PLAIN, 8, "0");
        open_parts();
        world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_OOB});
        uint64_t before = report().launches;
        chain(world);
        cr_assert_eq(report().launches - before, LINKS * 4);
        check_chain();
        world_destroy(world);
        close_parts();
        device_cases_end();
        heddle_emucuda_reset();
    }
}

/* Streams of device 0's endpoints and of device 1's become part of one capture, or are joined
 * again. */
static void fork_streams(bool out) {
    for (uint32_t i = 1; i < N; i++) {
        uint32_t from = out ? 0 : i, to = out ? i : 0;
        CUevent event;
        device_enter(device_cases_device(from));
        must_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        must_cu(cuEventRecord(event, part[from].stream), "cuEventRecord");
        device_leave();
        device_enter(device_cases_device(to));
        must_cu(cuStreamWaitEvent(part[to].stream, event, 0), "cuStreamWaitEvent");
        must_cu(cuEventDestroy_v2(event), "cuEventDestroy");
        device_leave();
    }
}

/* A graph has no memory for partials. */
Test(partials, a_capture_does_without) {
    CUgraph graph;
    CUgraphExec exec;
    begin("2", DEVICE_CASES_PLAIN, 8, "0");
    open_parts();
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_OOB});
    uint64_t before = report().launches;
    device_enter(0);
    must_cu(cuStreamBeginCapture_v2(part[0].stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    fork_streams(true);
    chain(world);
    fork_streams(false);
    must_cu(cuStreamEndCapture(part[0].stream, &graph), "cuStreamEndCapture");
    must_cu(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    must_cu(cuGraphLaunch(exec, part[0].stream), "cuGraphLaunch");
    check_chain();
    cr_assert_eq(report().launches - before, LINKS * 2, "%llu launches",
                 (unsigned long long)(report().launches - before));
    must_cu(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    device_leave();
    world_destroy(world);
    close_parts();
    deadline_t deadline = deadline_start("what graphs keep to be given back");
    while (report().modules != 0) {
        must(ucc_finalize(world_lib(UCC_THREAD_SINGLE)), "ucc_finalize");
        deadline_poll(&deadline);
    }
    device_cases_end();
}

/* --- no memory -------------------------------------------------------------------------------- */

/* 16 endpoints have 20 MB on each device; partials would take another MiB. */
Test(partials, without_memory_each_device_does_a_share_of_all) {
    coll_case_t c = case_of(ALLREDUCE, 16, PIECES, IN_PLACE_NO);
    trial_t t;
    begin("2,memory=19300K", DEVICE_CASES_PLAIN, 8, "0");
    (void)case_memory->takes(&c);
    trial_open(&t, &c, 0);
    uint64_t before = report().launches;
    cr_assert(trial_run(&t));
    cr_expect_eq(report().launches - before, 2);
    cr_expect(trial_check(&t));
    trial_close(&t);
    device_cases_end();
}
