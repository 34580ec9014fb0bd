/* test_streams_span.c: collectives in the order of streams, in teams of several processes: what is
 * before and after a collective is on the stream, and the host waits for nothing else in between,
 * so that the race detector of each process sees each order that is missing. (Every type and any
 * memory, without that: test_collectives_span.c.)
 */
#include "core/log.h"
#include "emucuda/calls.h"
#include "gpu/gpu.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/probe.h"
#include "support/small.h"
#include "support/unleaked.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(streams_span, .timeout = 240);

enum { SECONDS = 120, MOST = 4, FOUND = 0, MET = 1, SPOILT = 0xdead };

/* Elements of a block: few go by stand-ins, many, of what has a relay, by that, in several
 * segments. */
enum { FEW = 500, MANY = 300000 };

static char line[4096];
static _Atomic uint64_t found;

static void keep(hd_log_level_t level, const char *text, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s\n", text);
    }
}

static void count_finding(heddle_emucuda_finding_t kind, const char *text, void *arg) {
    (void)kind, (void)text, (void)arg;
    found++;
}

/* In a process: what does not hold ends it. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not %s\n%s", __FILE__, __LINE__, #condition, line);            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void must_cu(CUresult result, const char *call) {
    must(result == CUDA_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE, call);
}

/* --- a team, and for each endpoint of this process a stream and buffers ----------------------- */

typedef enum memory { DEVICE, MANAGED, PINNED } memory_t;

typedef struct seat {
    uint32_t ep;
    int device; /* of the stream */
    void *stream;
    ucc_ee_h ee; /* NULL: calls are heddle_*_on */
    uint32_t *src, *dst, *kept;
} seat_t;

typedef struct scene {
    const process_t *process;
    world_t *world;
    uint32_t n, count, rounds;
    memory_t src, dst;
    bool away;
    seat_t seat[MOST];
    uint64_t counts[SHAPE_MOST_PROCESSES * MOST], displacements[SHAPE_MOST_PROCESSES * MOST];
} scene_t;

static scene_t scene;

static uint32_t *take(memory_t what, int device, size_t words) {
    CUdeviceptr at = 0;
    void *pinned = NULL;
    size_t bytes = words * sizeof(uint32_t);
    device_enter(device);
    must_cu(what == DEVICE    ? cuMemAlloc_v2(&at, bytes)
            : what == MANAGED ? cuMemAllocManaged(&at, bytes, CU_MEM_ATTACH_GLOBAL)
                              : cuMemAllocHost_v2(&pinned, bytes),
            "memory");
    device_leave();
    return what == PINNED ? pinned : (uint32_t *)(uintptr_t)at; // NOLINT
}

static CUdeviceptr at(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void fill(const seat_t *s, void *memory, uint32_t value, size_t words) {
    device_enter(s->device);
    must_cu(cuMemsetD32Async(at(memory), value, words, s->stream), "cuMemsetD32Async");
    device_leave();
}

static void copy(const seat_t *s, void *to, const void *from, size_t words) {
    device_enter(s->device);
    must_cu(cuMemcpyAsync(at(to), at(from), words * sizeof(uint32_t), s->stream), "cuMemcpyAsync");
    device_leave();
}

static void await(const seat_t *s) {
    device_enter(s->device);
    must_cu(cuStreamSynchronize(s->stream), "cuStreamSynchronize");
    device_leave();
}

static void make_engine(seat_t *s) {
    ucc_ee_params_t params = {
        .ee_type = UCC_EE_CUDA_STREAM, .ee_context = s->stream, .ee_context_size = sizeof(void *)};
    must(ucc_ee_create(scene.world->teams[s->ep], &params, &s->ee), "ucc_ee_create");
}

/* scene.src, .dst, .count, .rounds are set. */
static void open_scene(const process_t *process, const char *config, uint64_t seed, bool engines) {
    char with_seed[128];
    int devices;
    snprintf(with_seed, sizeof(with_seed), "%s,seed=%llu", config,
             (unsigned long long)(16 * seed + process->me));
    hd_log_capture(keep, NULL);
    device_cases_begin(with_seed, DEVICE_CASES_PLAIN);
    case_memory = NULL;
    must_cu(cuDeviceGetCount(&devices), "cuDeviceGetCount");
    scene.process = process;
    scene.n = process->size;
    scene.world =
        world_create(&(world_params_t){.size = scene.n, .form = WORLD_GROUP, .process = process});
    size_t words = (size_t)scene.n * scene.count;
    for (uint32_t i = 0; i < process->n; i++) {
        seat_t *s = &scene.seat[i];
        int home = (int)i % devices;
        *s = (seat_t){.ep = process->endpoint[i],
                      .device = scene.away ? (home + 1) % devices : home};
        s->stream = device_stream(s->device);
        s->src = take(scene.src, home, words);
        s->dst = take(scene.dst, home, words);
        s->kept = take(DEVICE, s->device, words * scene.rounds);
        if (engines) {
            make_engine(s);
        }
    }
    for (uint32_t e = 0; e < scene.n; e++) {
        scene.counts[e] = scene.count;
        scene.displacements[e] = (uint64_t)e * scene.count;
    }
}

static void close_scene(void) {
    world_destroy(scene.world);
    for (uint32_t i = 0; i < scene.process->n; i++) {
        seat_t *s = &scene.seat[i];
        if (s->ee) {
            must(ucc_ee_destroy(s->ee), "ucc_ee_destroy");
        }
        device_stream_end(s->stream);
        device_put(s->src);
        device_put(s->dst);
        device_put(s->kept);
    }
    device_cases_end();
    heddle_emucuda_reset();
}

/* a chain: each endpoint produces, takes part, keeps the result, and spoils both buffers, on its
 * stream */

typedef enum what {
    ALLREDUCE,
    BCAST,
    ALLGATHER,
    ALLTOALL,
    SCAN,
    REDUCE_SCATTER,
    ALLGATHERV,
    ALLTOALLV,
    REDUCE_SCATTERV,
    REDUCE,
    GATHER,
    SCATTER,
    GATHERV,
    SCATTERV,
    EXSCAN,
    MCAST,
    BARRIER,
    FANIN,
    FANOUT,
    WHATS
} what_t;

static uint32_t value_of(uint32_t ep, uint32_t round) {
    return 1000 * round + ep + 1;
}

/* Before those of `end`. */
static uint32_t sum_of(uint32_t end, uint32_t round) {
    uint32_t sum = 0;
    for (uint32_t e = 0; e < end; e++) {
        sum += value_of(e, round);
    }
    return sum;
}

/* Of pinned memory the call is one of devices by the other buffer. */
static uint32_t *buffer_of(const seat_t *s) {
    return scene.src == PINNED ? s->dst : s->src;
}

/* Blocks of its result. */
static uint32_t blocks_of(what_t what, uint32_t ep, uint32_t root) {
    switch (what) {
    case ALLGATHER:
    case ALLGATHERV:
    case ALLTOALL:
    case ALLTOALLV:
        return scene.n;
    case GATHER:
    case GATHERV:
        return ep == root ? scene.n : 0;
    case REDUCE:
        return ep == root;
    case EXSCAN:
        return ep > 0;
    case BARRIER:
    case FANIN:
    case FANOUT:
        return 0;
    default:
        return 1;
    }
}

static uint32_t wanted(what_t what, uint32_t ep, uint32_t root, uint32_t round, uint32_t block) {
    switch (what) {
    case BCAST:
    case MCAST:
    case SCATTER:
    case SCATTERV:
        return value_of(root, round);
    case SCAN:
        return sum_of(ep + 1, round);
    case EXSCAN:
        return sum_of(ep, round);
    case ALLREDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
    case REDUCE_SCATTERV:
        return sum_of(scene.n, round);
    default:
        return value_of(block, round);
    }
}

static ucc_status_t call(const seat_t *s, what_t what, uint32_t root) {
    const ucc_datatype_t dt = UCC_DT_UINT32;
    const ucc_reduction_op_t op = UCC_OP_SUM;
    const uint64_t *counts = scene.counts, *at = scene.displacements;
    heddle_ep_t *ep = scene.world->endpoints[s->ep];
    uint64_t count = scene.count;
    void *stream = s->stream, *src = s->src, *dst = s->dst, *one = buffer_of(s);
    switch (what) {
    case ALLREDUCE:
        return heddle_allreduce_on(ep, stream, src, dst, count, dt, op);
    case BCAST:
        return heddle_bcast_on(ep, stream, one, count, dt, root);
    case MCAST:
        return heddle_mcast_on(ep, stream, one, count, dt, root);
    case ALLGATHER:
        return heddle_allgather_on(ep, stream, src, dst, count, dt);
    case ALLTOALL:
        return heddle_alltoall_on(ep, stream, src, dst, count, dt);
    case SCAN:
        return heddle_scan_on(ep, stream, src, dst, count, dt, op);
    case EXSCAN:
        return heddle_exscan_on(ep, stream, src, dst, count, dt, op);
    case REDUCE_SCATTER:
        return heddle_reduce_scatter_on(ep, stream, src, dst, count, dt, op);
    case REDUCE_SCATTERV:
        return heddle_reduce_scatterv_on(ep, stream, src, dst, counts, dt, op);
    case ALLGATHERV:
        return heddle_allgatherv_on(ep, stream, src, count, dst, counts, at, dt);
    case ALLTOALLV:
        return heddle_alltoallv_on(ep, stream, src, counts, at, dst, counts, at, dt);
    case REDUCE:
        return heddle_reduce_on(ep, stream, src, dst, count, dt, op, root);
    case GATHER:
        return heddle_gather_on(ep, stream, src, dst, count, dt, root);
    case SCATTER:
        return heddle_scatter_on(ep, stream, src, dst, count, dt, root);
    case GATHERV:
        return heddle_gatherv_on(ep, stream, src, count, dst, counts, at, dt, root);
    case SCATTERV:
        return heddle_scatterv_on(ep, stream, src, counts, at, dst, count, dt, root);
    case FANIN:
        return heddle_fanin_on(ep, stream, root);
    case FANOUT:
        return heddle_fanout_on(ep, stream, root);
    default:
        return heddle_barrier_on(ep, stream);
    }
}

typedef struct chain_case {
    char config[2][64]; /* of processes with even and with odd numbers */
    uint32_t processes, endpoints[3];
    memory_t src, dst;
    uint32_t count;
    what_t first, end; /* types */
    uint32_t times, seeds;
    bool by_thread, away; /* away: streams are on other devices than buffers */
    int dropped;          /* site; 0: none */
} chain_case_t;

static const chain_case_t *running;

static what_t what_of(uint32_t round) {
    return running->first + round % (running->end - running->first);
}

static void chain(void *arg, uint32_t i) {
    seat_t *s = &scene.seat[i];
    void *own = s->stream;
    size_t words = (size_t)scene.n * scene.count;
    (void)arg;
    device_enter(s->device);
    s->stream = running->by_thread ? CU_STREAM_PER_THREAD : own;
    fill(s, s->dst, SPOILT, words);
    for (uint32_t round = 0; round < scene.rounds; round++) {
        what_t what = what_of(round);
        uint32_t root = round % scene.n, blocks = blocks_of(what, s->ep, root);
        bool one = what == BCAST || what == MCAST;
        fill(s, one ? buffer_of(s) : s->src, value_of(s->ep, round), words);
        must(call(s, what, root), "a collective on a stream");
        if (blocks) {
            copy(s, s->kept + round * words, one ? buffer_of(s) : s->dst,
                 (size_t)blocks * scene.count);
        }
        fill(s, s->src, SPOILT, words);
        fill(s, s->dst, SPOILT, words);
    }
    await(s);
    s->stream = own;
    device_leave();
}

static void check_round(const seat_t *s, uint32_t round, uint32_t *seen) {
    size_t words = (size_t)scene.n * scene.count;
    what_t what = what_of(round);
    uint32_t root = round % scene.n, blocks = blocks_of(what, s->ep, root);
    device_from(seen, s->kept + round * words, words * sizeof(*seen));
    for (size_t k = 0; k < (size_t)blocks * scene.count; k++) {
        uint32_t right = wanted(what, s->ep, root, round, (uint32_t)(k / scene.count));
        if (seen[k] != right) {
            fprintf(stderr, "endpoint %u, round %u, type %d, word %zu: %u, not %u\n", s->ep, round,
                    (int)what, k, seen[k], right);
            _exit(1);
        }
    }
}

static void check_chain(void) {
    uint32_t *seen = must_alloc((size_t)scene.n * scene.count, sizeof(*seen));
    for (uint32_t i = 0; i < scene.process->n; i++) {
        for (uint32_t round = 0; round < scene.rounds; round++) {
            check_round(&scene.seat[i], round, seen);
        }
    }
    free(seen);
}

static int run_chain(const process_t *process, void *arg) {
    const chain_case_t *c = running = arg;
    scene = (scene_t){.src = c->src,
                      .dst = c->dst,
                      .away = c->away,
                      .count = c->count,
                      .rounds = c->times * (uint32_t)(c->end - c->first)};
    for (uint64_t seed = 1; seed <= c->seeds; seed++) {
        open_scene(process, c->config[process->me % 2], seed, false);
        if (c->dropped) {
            heddle_emucuda_on_finding(count_finding, NULL);
            heddle_emucuda_drop_site((uint32_t)c->dropped);
        }
        driver_threads(process->n, chain, NULL);
        process_barrier(process);
        if (c->dropped) {
            process_set(process, FOUND, found);
            return 0;
        }
        check_chain();
        close_scene();
    }
    return 0;
}

static outcome_t run_processes(uint32_t processes, const uint32_t *endpoints,
                               int (*work)(const process_t *process, void *arg), void *arg) {
    if (!probe_network()) {
        cr_skip_test("this build has no network");
    }
    shape_t shape = {.processes = processes};
    for (uint32_t p = 0; p < processes; p++) {
        shape.endpoints[p] = endpoints[p];
    }
    return processes_run(&shape, SECONDS, work, arg);
}

#define TYPES(_first, _end) .first = (_first), .end = (_end), .times = 1
#define CASES(...)                                                                                 \
    static chain_case_t cases[] = {__VA_ARGS__};                                                   \
    return cr_make_param_array(chain_case_t, cases, sizeof(cases) / sizeof(*cases))

ParameterizedTestParameters(streams_span, what_is_before_and_after_is_in_order) {
    CASES({{"1", "1"}, 2, {1, 1}, DEVICE, DEVICE, FEW, TYPES(0, WHATS), .seeds = 6},
          {{"1,policy=lazy,channels=1", "2,policy=newest,nopeer"},
           2,
           {2, 3},
           DEVICE,
           DEVICE,
           FEW,
           TYPES(0, WHATS),
           .seeds = 4},
          {{"1,host=threads", "2,host=threads"},
           3,
           {2, 1, 3},
           MANAGED,
           MANAGED,
           FEW,
           TYPES(0, WHATS),
           .seeds = 3},
          {{"1", "2,policy=starve"}, 2, {2, 2}, PINNED, DEVICE, FEW, TYPES(0, REDUCE), .seeds = 4},
          {{"2,host=threads", "1"}, 2, {2, 2}, DEVICE, PINNED, FEW, TYPES(0, SCATTER), .seeds = 4},
          {{"1", "1,policy=lazy"},
           2,
           {2, 1},
           DEVICE,
           DEVICE,
           MANY,
           .first = ALLREDUCE,
           .end = ALLGATHER,
           .times = 3,
           .seeds = 6},
          {{"1,host=threads,channels=1", "2,nopeer"},
           2,
           {3, 2},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(REDUCE, SCATTER),
           .seeds = 3},
          {{"1", "1"}, 2, {1, 2}, DEVICE, PINNED, MANY, TYPES(0, ALLTOALL), .seeds = 3},
          {{"1", "2,host=threads"},
           2,
           {2, 2},
           DEVICE,
           DEVICE,
           FEW,
           TYPES(0, WHATS),
           .seeds = 3,
           .by_thread = true},
          {{"1", "1"},
           2,
           {2, 1},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(0, ALLGATHER),
           .seeds = 2,
           .by_thread = true});
}

ParameterizedTest(chain_case_t *c, streams_span, what_is_before_and_after_is_in_order) {
    cr_assert(run_processes(c->processes, c->endpoints, run_chain, c).ok, "%s, count %u",
              c->config[0], c->count);
}

/* In each process. */
ParameterizedTestParameters(streams_span, what_does_not_wait_is_found) {
    CASES({{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           FEW,
           TYPES(ALLREDUCE, BCAST),
           .dropped = HD_GPU_SITE_READY},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           FEW,
           TYPES(BCAST, ALLGATHER),
           .dropped = HD_GPU_SITE_READY},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           PINNED,
           DEVICE,
           FEW,
           TYPES(ALLREDUCE, BCAST),
           .dropped = HD_GPU_SITE_READY},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(ALLREDUCE, BCAST),
           .dropped = HD_GPU_SITE_READY},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {2, 2},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(BCAST, ALLGATHER),
           .dropped = HD_GPU_SITE_READY},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           FEW,
           TYPES(ALLREDUCE, BCAST),
           .dropped = HD_GPU_SITE_DONE},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(ALLREDUCE, BCAST),
           .dropped = HD_GPU_SITE_DONE},
          {{"2,policy=lazy", "2,policy=lazy"},
           2,
           {2, 2},
           MANAGED,
           MANAGED,
           FEW,
           TYPES(ALLREDUCE, BCAST),
           .by_thread = true,
           .away = true,
           .dropped = HD_GPU_SITE_LATE},
          {{"1,policy=lazy", "1,policy=lazy"},
           2,
           {1, 1},
           DEVICE,
           DEVICE,
           MANY,
           TYPES(ALLREDUCE, BCAST),
           .by_thread = true,
           .dropped = HD_GPU_SITE_BY_THREAD});
}

ParameterizedTest(chain_case_t *c, streams_span, what_does_not_wait_is_found) {
    c->seeds = 1;
    outcome_t outcome = run_processes(c->processes, c->endpoints, run_chain, c);
    cr_assert(outcome.ok);
    for (uint32_t p = 0; p < c->processes; p++) {
        cr_assert_gt(outcome.value[p][FOUND], 0, "process %u, site %d, count %u", p, c->dropped,
                     c->count);
    }
}

/* --- one endpoint each, in two processes ------------------------------------------------------ */

static void progress(void) {
    for (uint32_t c = 0; c < scene.world->n_contexts; c++) {
        ucc_context_progress(scene.world->contexts[c]);
    }
}

static ucc_status_t finish(ucc_coll_req_h request) {
    deadline_t deadline = deadline_start("a collective on a stream");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        progress();
        deadline_poll(&deadline);
    }
    ucc_status_t status = ucc_collective_test(request);
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    return status;
}

static bool goes_on(ucc_coll_req_h request) {
    for (int k = 0; k < 1000; k++) {
        progress();
    }
    return ucc_collective_test(request) == UCC_INPROGRESS;
}

static ucc_coll_args_t sum_args(const seat_t *s) {
    ucc_coll_args_t args =
        small_allreduce((int32_t *)s->src, (int32_t *)s->dst, scene.count); // NOLINT
    args.src.info.mem_type = args.dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    return args;
}

static ucc_coll_req_h start(const seat_t *s, ucc_coll_args_t args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, scene.world->teams[s->ep]), "ucc_collective_init");
    return request;
}

static ucc_coll_req_h post_on(const seat_t *s, ucc_coll_args_t args) {
    ucc_coll_req_h request = start(s, args);
    must(heddle_post_on(request, s->stream), "heddle_post_on");
    return request;
}

static int in_two(int (*work)(const process_t *process, void *arg)) {
    static const uint32_t endpoints[] = {1, 1};
    int wrong = 0;
    for (int many = 0; many < 2; many++) {
        scene = (scene_t){.count = many ? MANY : FEW, .rounds = 4};
        wrong += !run_processes(2, endpoints, work, NULL).ok;
    }
    return wrong;
}

static void check_kept(const seat_t *s, uint32_t round, uint32_t value) {
    size_t words = (size_t)scene.n * scene.count;
    uint32_t *seen = must_alloc(scene.count, sizeof(*seen));
    await(s);
    device_from(seen, s->kept + round * words, scene.count * sizeof(*seen));
    if (seen[0] != value || seen[scene.count - 1] != value) {
        fprintf(stderr, "endpoint %u, round %u: %u .. %u, not %u\n", s->ep, round, seen[0],
                seen[scene.count - 1], value);
        _exit(1);
    }
    free(seen);
}

static void keep_and_spoil(const seat_t *s, uint32_t round) {
    size_t words = (size_t)scene.n * scene.count;
    copy(s, s->kept + round * words, s->dst, scene.count);
    fill(s, s->src, SPOILT, words);
    fill(s, s->dst, SPOILT, words);
}

/* --- a stream that stands still --------------------------------------------------------------- */

typedef struct gate {
    const hd_gpu_driver_t *gpu;
    hd_gpu_flag_t *word;
} gate_t;

static gate_t shut(const seat_t *s) {
    gate_t gate;
    hd_gpu_stream_t stream;
    must(hd_gpu_open(&gate.gpu), "hd_gpu_open");
    must(gate.gpu->word_take(s->device, &gate.word), "word_take");
    must(gate.gpu->stream_of(s->stream, &stream), "stream_of");
    must(gate.gpu->gate(stream, gate.word, 1, HD_GPU_SITE_NONE), "gate");
    return gate;
}

static void leave_gate(const seat_t *s, const gate_t *gate) {
    await(s);
    gate->gpu->word_put(s->device, gate->word);
    hd_gpu_close();
}

static int wait_for_stream(const process_t *process, void *arg) {
    const seat_t *s = &scene.seat[0];
    gate_t gate = {NULL, NULL};
    (void)arg;
    open_scene(process, "1", 1, false);
    ucc_coll_args_t args[] = {small_barrier(), sum_args(s)};
    for (int k = 0; k < 2; k++) {
        fill(s, s->src, 1, scene.count);
        if (process->me == 0) {
            gate = shut(s);
        }
        ucc_coll_req_h request = post_on(s, args[k]);
        CHECK(goes_on(request));
        process_barrier(process);
        if (process->me == 0) {
            hd_gpu_word_open(gate.word, 1);
        }
        CHECK(finish(request) == UCC_OK);
        keep_and_spoil(s, (uint32_t)k);
        if (process->me == 0) {
            leave_gate(s, &gate);
        }
    }
    check_kept(s, 1, 2);
    close_scene();
    return 0;
}

Test(streams_span, a_collective_waits_for_the_streams_of_other_processes) {
    cr_assert_eq(in_two(wait_for_stream), 0);
}

static int receive_late(const process_t *process, void *arg) {
    const seat_t *s = &scene.seat[0];
    gate_t gate = {NULL, NULL};
    (void)arg;
    open_scene(process, "1", 1, false);
    fill(s, s->dst, process->me ? 7 : SPOILT, scene.count);
    if (process->me == 0) {
        gate = shut(s);
    }
    ucc_coll_args_t args = small_bcast((int32_t *)s->dst, scene.count, 1);
    args.src.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    CHECK(finish(post_on(s, args)) == UCC_OK); /* the host has what it needs */
    process_barrier(process);
    keep_and_spoil(s, 0);
    if (process->me == 0) {
        hd_gpu_word_open(gate.word, 1);
        leave_gate(s, &gate);
    }
    check_kept(s, 0, 7);
    close_scene();
    return 0;
}

Test(streams_span, who_only_receives_holds_up_nobody) {
    cr_assert_eq(in_two(receive_late), 0);
}

/* --- triggered posts -------------------------------------------------------------------------- */

static ucc_coll_req_h trigger(const seat_t *s, ucc_coll_args_t args) {
    ucc_ev_t compute = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE}, *posted;
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 60;
    ucc_coll_req_h request = compute.req = start(s, args);
    must(ucc_collective_triggered_post(s->ee, &compute), "ucc_collective_triggered_post");
    must(ucc_ee_get_event(s->ee, &posted), "ucc_ee_get_event");
    CHECK(posted->ev_type == UCC_EVENT_COLLECTIVE_POST && posted->req == request);
    must(ucc_ee_ack_event(s->ee, posted), "ucc_ee_ack_event");
    CHECK(ucc_ee_get_event(s->ee, &posted) == UCC_ERR_NOT_FOUND);
    return request;
}

static void trigger_in_turn(void *arg, uint32_t i) {
    const seat_t *s = &scene.seat[i];
    (void)arg;
    for (uint32_t round = 0; round < scene.rounds; round++) {
        fill(s, s->src, value_of(s->ep, round), scene.count);
        ucc_coll_req_h request = trigger(s, round % 4 == 3 ? small_barrier() : sum_args(s));
        keep_and_spoil(s, round);
        must(heddle_wait(request, 60), "a triggered collective");
        must(ucc_collective_finalize(request), "ucc_collective_finalize");
    }
    await(s);
}

static int be_clients(const process_t *process, void *arg) {
    static const char *const configs[] = {"1,host=threads", "2,policy=lazy,channels=1"};
    scene.count = *(const uint32_t *)arg;
    scene.rounds = 5;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        open_scene(process, configs[process->me % 2], seed, true);
        driver_threads(process->n, trigger_in_turn, NULL);
        for (uint32_t i = 0; i < process->n; i++) {
            for (uint32_t round = 0; round < scene.rounds; round++) {
                uint32_t right = round % 4 == 3 ? SPOILT : sum_of(scene.n, round);
                check_kept(&scene.seat[i], round, right);
            }
        }
        close_scene();
    }
    return 0;
}

Test(streams_span, the_event_of_a_triggered_post_is_there_and_its_stream_in_order) {
    static const uint32_t endpoints[] = {2, 1, 2};
    uint32_t counts[] = {FEW, MANY};
    for (int k = 0; k < 2; k++) {
        scene = (scene_t){.src = DEVICE};
        cr_assert(run_processes(3, endpoints, be_clients, &counts[k]).ok, "count %u", counts[k]);
    }
}

/* The other process posts when this one's stream has a gate; then this one posts once more, behind
 * that. */
static int come_late(const process_t *process, void *arg) {
    int dropped = *(const int *)arg;
    ucc_coll_req_h request[2];
    setenv("HEDDLE_GPU_GATE", process->me == 0 ? "memop" : "auto", 1);
    open_scene(process, "1,policy=lazy", 1, true);
    if (dropped) {
        heddle_emucuda_on_finding(count_finding, NULL);
        heddle_emucuda_drop_site((uint32_t)dropped);
    }
    const seat_t *s = &scene.seat[0];
    if (process->me == 1) {
        process_barrier(process);
    }
    for (uint32_t k = 0; k < 2; k++) {
        fill(s, s->src, value_of(s->ep, k), scene.count);
        request[k] = trigger(s, sum_args(s));
        keep_and_spoil(s, k);
    }
    if (process->me == 0) {
        process_barrier(process);
    }
    CHECK(finish(request[0]) == UCC_OK && finish(request[1]) == UCC_OK);
    await(s); /* what is behind a gate is looked at when it is open */
    process_set(process, MET, heddle_emucuda_site_count(HD_GPU_SITE_GATE) > 0);
    process_set(process, FOUND, found);
    process_barrier(process);
    if (dropped) {
        return 0;
    }
    check_kept(s, 0, sum_of(2, 0));
    check_kept(s, 1, sum_of(2, 1));
    close_scene();
    return 0;
}

static outcome_t run_late(uint32_t count, int dropped) {
    static const uint32_t endpoints[] = {1, 1};
    scene = (scene_t){.count = count, .rounds = 2};
    outcome_t outcome = run_processes(2, endpoints, come_late, &dropped);
    cr_assert(outcome.ok, "count %u, site %d", count, dropped);
    cr_assert(outcome.value[0][MET], "there was no gate");
    return outcome;
}

Test(streams_span, a_gate_takes_the_place_of_a_process_that_is_late) {
    run_late(FEW, 0);
    run_late(MANY, 0);
}

Test(streams_span, without_the_gate_the_order_is_missing) {
    cr_assert_gt(run_late(FEW, HD_GPU_SITE_GATE).value[0][FOUND], 0);
    cr_assert_gt(run_late(MANY, HD_GPU_SITE_GATE).value[0][FOUND], 0);
}

Test(streams_span, what_stands_behind_a_gate_is_held) {
    cr_assert_gt(run_late(FEW, HD_GPU_SITE_HELD).value[0][FOUND], 0);
    cr_assert_gt(run_late(MANY, HD_GPU_SITE_HELD).value[0][FOUND], 0);
}

/* --- captures --------------------------------------------------------------------------------- */

static ucc_status_t run_on(const seat_t *s, ucc_coll_args_t args) {
    return heddle_collective_on(&args, scene.world->teams[s->ep], s->stream);
}

static int capture(const process_t *process, void *arg) {
    const seat_t *s = &scene.seat[0];
    bool all = *(const bool *)arg;
    bool captures = all || process->me == 0;
    CUgraph graph;
    open_scene(process, "1", 1, false);
    CHECK(run_on(s, sum_args(s)) == UCC_OK);
    process_barrier(process);
    device_enter(s->device);
    if (captures) {
        must_cu(cuStreamBeginCapture_v2(s->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    }
    CHECK(run_on(s, sum_args(s)) == UCC_ERR_NOT_SUPPORTED);
    CHECK(!captures || strstr(line, "it is being captured"));
    if (captures) {
        must_cu(cuStreamEndCapture(s->stream, &graph), "it has not been broken");
        must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    }
    device_leave();
    process_barrier(process);
    close_scene();
    return 0;
}

Test(streams_span, a_capture_is_refused_at_every_endpoint) {
    static const uint32_t endpoints[] = {1, 1};
    for (int all = 0; all < 2; all++) {
        bool each = all;
        scene = (scene_t){.count = FEW, .rounds = 1};
        cr_assert(run_processes(2, endpoints, capture, &each).ok, "%d", all);
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static int refuse(const process_t *process, void *arg) {
    static uint32_t host[2 * FEW];
    seat_t *s = &scene.seat[0];
    (void)arg;
    open_scene(process, "1", 1, false);
    seat_t other = *s;
    other.src = host;
    ucc_coll_args_t args = sum_args(&other);
    args.src.info.mem_type = UCC_MEMORY_TYPE_HOST;
    CHECK(run_on(s, args) == UCC_ERR_NOT_SUPPORTED);
    CHECK(strstr(line, "not pinned"));
    args.dst.info = small_info(host + FEW, FEW);
    args.dst.info.mem_type = UCC_MEMORY_TYPE_HOST;
    CHECK(run_on(s, args) == UCC_ERR_NOT_SUPPORTED);
    CHECK(strstr(line, "no buffer is in memory of a device"));
    CHECK(run_on(s, sum_args(s)) == UCC_OK); /* the team goes on */
    await(s);
    close_scene();
    return 0;
}

Test(streams_span, memory_of_the_host_has_no_place_in_one) {
    static const uint32_t endpoints[] = {1, 1};
    scene = (scene_t){.count = FEW, .rounds = 1};
    cr_assert(run_processes(2, endpoints, refuse, NULL).ok);
}
