/* test_chains.c: work of the user's and collectives, one after the other, without more waiting than
 * each needs: whatever is not ordered, the emulator reports. Nothing is looked at before the end.
 *
 * In a chain of plain posts, a kernel of the user's produces the source; the host waits for that
 * kernel's event alone; then the collective; once it is complete, a kernel of the user's consumes
 * the result, and another one overwrites the source.
 *
 * In a chain on streams, the host waits for no device: producer, collective, consumer and what
 * overwrites both are enqueued one behind the other. Each tag has a stream of its own at each
 * endpoint.
 */
#include "emucuda/calls.h"
#include "gpu/site.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/random.h"
#include "support/small.h"
#include "support/sweeps.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(chains, .timeout = 240);

enum { MOST = 16, TAGS = 2, LINKS = 4, SEEDS = 100, COUNT = 300, BYTES = COUNT * sizeof(int32_t) };

static void must_cuda(CUresult result, const char *call) {
    must(result == CUDA_SUCCESS ? UCC_OK : UCC_ERR_LAST, call);
}

#define CUDA(_call) must_cuda((_call), #_call)

/* --- the user's streams, and what is done on them --------------------------------------------- */

/* One endpoint's part of one chain: all of its collectives have the same tag. */
typedef struct part {
    CUcontext context;
    CUstream stream;
    CUevent produced;
    int32_t *src, *dst, *out; /* out: LINKS results */
    ucc_coll_req_h request;
} part_t;

/* How an endpoint comes to its collective. */
typedef enum way {
    WAY_PLAIN,    /* once the source is produced */
    WAY_TOO_SOON, /* without waiting for that: wrong */
    WAY_STREAM    /* in the order of the part's stream */
} way_t;

typedef struct chains {
    world_t *world;
    uint32_t size;
    part_t part[TAGS][MOST];
} chains_t;

static CUdeviceptr address(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void enter(const part_t *part) {
    CUDA(cuCtxPushCurrent_v2(part->context));
}

static void leave(void) {
    CUcontext popped;
    CUDA(cuCtxPopCurrent_v2(&popped));
}

static void open_part(part_t *part, int device) {
    CUDA(cuDevicePrimaryCtxRetain(&part->context, device));
    enter(part);
    CUDA(cuStreamCreate(&part->stream, CU_STREAM_NON_BLOCKING));
    CUDA(cuEventCreate(&part->produced, CU_EVENT_DISABLE_TIMING));
    leave();
    part->src = device_take(device, BYTES);
    part->dst = device_take(device, BYTES);
    part->out = device_take(device, LINKS * BYTES);
}

static void close_part(part_t *part, int device) {
    enter(part);
    CUDA(cuStreamDestroy_v2(part->stream));
    CUDA(cuEventDestroy_v2(part->produced));
    leave();
    device_put(part->src);
    device_put(part->dst);
    device_put(part->out);
    CUDA(cuDevicePrimaryCtxRelease_v2(device));
}

static uint32_t value_of(uint32_t tag, uint32_t link, uint32_t i) {
    return 1000 * (link + 1) + 100 * tag + i;
}

static void produce(part_t *part, uint32_t value) {
    enter(part);
    CUDA(cuMemsetD32Async(address(part->src), value, COUNT, part->stream));
    CUDA(cuEventRecord(part->produced, part->stream));
    leave();
}

static void await_source(part_t *part) {
    enter(part);
    CUDA(cuEventSynchronize(part->produced));
    leave();
}

/* Nobody waits for any of this before the end. */
static void consume(part_t *part, uint32_t link) {
    enter(part);
    CUDA(cuMemcpyDtoDAsync_v2(address(part->out + (size_t)link * COUNT), address(part->dst), BYTES,
                              part->stream));
    CUDA(cuMemsetD32Async(address(part->src), 0xdeadbeef, COUNT, part->stream));
    CUDA(cuMemsetD32Async(address(part->dst), 0xdeadbeef, COUNT, part->stream));
    leave();
}

/* --- chains ----------------------------------------------------------------------------------- */

static void open_chains(chains_t *c, uint32_t size, int devices) {
    world_params_t params = {
        .size = size, .form = WORLD_OOB, .ordering = UCC_COLLECTIVE_POST_UNORDERED};
    c->size = size;
    c->world = world_create(&params);
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        for (uint32_t i = 0; i < size; i++) {
            open_part(&c->part[tag][i], (int)i % devices);
        }
    }
}

static void close_chains(chains_t *c, int devices) {
    world_destroy(c->world);
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        for (uint32_t i = 0; i < c->size; i++) {
            close_part(&c->part[tag][i], (int)i % devices);
        }
    }
}

static ucc_coll_args_t args_of(const part_t *part, uint32_t tag) {
    ucc_coll_args_t args = small_allreduce(part->src, part->dst, COUNT);
    args.src.info.mem_type = args.dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    args.mask |= UCC_COLL_ARGS_FIELD_TAG;
    args.tag = (uint16_t)tag;
    return args;
}

static void post(chains_t *c, uint32_t tag, uint32_t i, way_t way) {
    part_t *part = &c->part[tag][i];
    ucc_coll_args_t args = args_of(part, tag);
    if (way == WAY_PLAIN) {
        await_source(part);
    }
    must(ucc_collective_init(&args, &part->request, c->world->teams[i]), "init");
    must(way == WAY_STREAM ? heddle_post_on(part->request, part->stream)
                           : ucc_collective_post(part->request),
         "post");
}

/* Of the whole process, by one thread. */
static void finish(chains_t *c, uint32_t tag, uint32_t link) {
    deadline_t deadline = deadline_start("a chain");
    for (uint32_t i = 0; i < c->size; i++) {
        part_t *part = &c->part[tag][i];
        while (ucc_collective_test(part->request) == UCC_INPROGRESS) {
            for (uint32_t k = 0; k < c->world->n_contexts; k++) {
                ucc_context_progress(c->world->contexts[k]);
            }
            deadline_poll(&deadline);
        }
        must(ucc_collective_test(part->request), "the collective");
        must(ucc_collective_finalize(part->request), "finalize");
        consume(part, link);
    }
}

/* Endpoints and tags in an order of their own each time. */
static void run_link(chains_t *c, uint32_t link, uint64_t *random, way_t way) {
    uint32_t from = (uint32_t)random_below(random, c->size),
             first = random_below(random, TAGS) != 0;
    for (uint32_t t = 0; t < TAGS; t++) {
        for (uint32_t i = 0; i < c->size; i++) {
            produce(&c->part[t][i], value_of(t, link, i));
        }
    }
    for (uint32_t k = 0; k < TAGS * c->size; k++) {
        uint32_t i = (from + k / TAGS) % c->size;
        post(c, (first + k + i) % TAGS, i, way);
    }
    for (uint32_t t = 0; t < TAGS; t++) {
        finish(c, (first + t) % TAGS, link);
    }
}

static void check(const chains_t *c) {
    int32_t mine[LINKS * COUNT];
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        for (uint32_t i = 0; i < c->size; i++) {
            const part_t *part = &c->part[tag][i];
            enter(part);
            CUDA(cuStreamSynchronize(part->stream));
            leave();
            device_from(mine, part->out, sizeof(mine));
            for (uint32_t k = 0; k < LINKS * COUNT; k++) {
                uint32_t wanted = 0;
                for (uint32_t j = 0; j < c->size; j++) {
                    wanted += value_of(tag, k / COUNT, j);
                }
                cr_assert_eq((uint32_t)mine[k], wanted, "tag %u, endpoint %u, element %u", tag, i,
                             k);
            }
        }
    }
}

typedef struct config_case {
    char config[48];
    uint32_t size;
    int devices;
} config_case_t;

static void begin_seed(const config_case_t *of, uint64_t seed) {
    char with_seed[128];
    snprintf(with_seed, sizeof(with_seed), "%s,seed=%llu", of->config, (unsigned long long)seed);
    device_cases_begin(with_seed, DEVICE_CASES_PLAIN);
}

/* Aborts if something was found. */
static void end_seed(void) {
    device_cases_end();
    heddle_emucuda_reset();
}

static void run_links(chains_t *c, uint64_t seed, way_t way) {
    for (uint32_t link = 0; link < LINKS; link++) {
        run_link(c, link, &seed, way);
    }
}

static void run_seeds(const config_case_t *of, way_t way) {
    static chains_t c;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin_seed(of, seed);
        open_chains(&c, of->size, of->devices);
        run_links(&c, seed, way);
        check(&c);
        close_chains(&c, of->devices);
        end_seed();
    }
}

static config_case_t configs[] = {{"1", 3, 1},
                                  {"1,channels=1", 4, 1},
                                  {"1,policy=lazy", 16, 1},
                                  {"4", 5, 4},
                                  {"4,channels=8", 4, 4},
                                  {"4,nopeer", 5, 4},
                                  {"8,policy=newest", 8, 8},
                                  {"4,nopeer,channels=1", 4, 4}};

enum { CONFIGS = sizeof(configs) / sizeof(*configs) };

ParameterizedTestParameters(chains, of_plain_posts) {
    return cr_make_param_array(config_case_t, configs, CONFIGS);
}

ParameterizedTest(config_case_t *c, chains, of_plain_posts) {
    run_seeds(c, WAY_PLAIN);
}

ParameterizedTestParameters(chains, of_posts_on_streams) {
    return cr_make_param_array(config_case_t, configs, CONFIGS);
}

ParameterizedTest(config_case_t *c, chains, of_posts_on_streams) {
    run_seeds(c, WAY_STREAM);
}

static uint64_t found;

static void count_finding(heddle_emucuda_finding_t kind, const char *text, void *arg) {
    (void)kind, (void)text, (void)arg;
    found++;
}

static void run_to_find(way_t way, uint32_t dropped) {
    static const config_case_t of = {"2", 3, 2};
    static chains_t c;
    begin_seed(&of, 1);
    heddle_emucuda_on_finding(count_finding, NULL);
    heddle_emucuda_drop_site(dropped);
    open_chains(&c, of.size, of.devices);
    run_links(&c, 1, way);
    close_chains(&c, of.devices);
    cr_assert_gt(found, 0);
}

/* The same without the host's wait: the post says that data is ready, and it is not. */
Test(chains, a_post_before_its_data_is_ready_is_found) {
    run_to_find(WAY_TOO_SOON, 0);
}

Test(chains, a_collective_that_does_not_wait_for_streams_is_found) {
    run_to_find(WAY_STREAM, HD_GPU_SITE_READY);
}

Test(chains, a_stream_that_does_not_wait_for_its_collective_is_found) {
    run_to_find(WAY_STREAM, HD_GPU_SITE_DONE);
}

/* --- a thread for each endpoint, on streams --------------------------------------------------- */

enum { THREADS = 16 };

typedef struct threaded {
    chains_t chains;
    uint64_t seed;
} threaded_t;

/* Calls that return when all is enqueued: tags in the same order everywhere. */
static void call_on_streams(chains_t *c, uint32_t i, uint32_t first) {
    for (uint32_t t = 0; t < TAGS; t++) {
        uint32_t tag = (first + t) % TAGS;
        part_t *part = &c->part[tag][i];
        ucc_coll_args_t args = args_of(part, tag);
        must(heddle_collective_on(&args, c->world->teams[i], part->stream), "heddle_collective_on");
    }
}

/* Requests: tags in an order of the thread's own. */
static void post_on_streams(chains_t *c, uint32_t i, uint32_t first) {
    for (uint32_t t = 0; t < TAGS; t++) {
        post(c, (first + t) % TAGS, i, WAY_STREAM);
    }
    for (uint32_t t = 0; t < TAGS; t++) {
        must(heddle_wait(c->part[t][i].request, 60), "heddle_wait");
        must(ucc_collective_finalize(c->part[t][i].request), "finalize");
    }
}

static void chain_by_thread(void *arg, uint32_t i) {
    threaded_t *all = arg;
    chains_t *c = &all->chains;
    uint64_t common = all->seed, own = all->seed * THREADS + i + 1;
    for (uint32_t link = 0; link < LINKS; link++) {
        for (uint32_t t = 0; t < TAGS; t++) {
            produce(&c->part[t][i], value_of(t, link, i));
        }
        if (random_below(&common, 2) != 0) {
            call_on_streams(c, i, (uint32_t)random_below(&common, TAGS));
        } else {
            post_on_streams(c, i, (uint32_t)random_below(&own, TAGS));
        }
        for (uint32_t t = 0; t < TAGS; t++) {
            consume(&c->part[t][i], link);
        }
    }
}

ParameterizedTestParameters(chains, on_streams_by_sixteen_threads) {
    static config_case_t cases[] = {{"1,host=threads", THREADS, 1},
                                    {"1,host=threads,channels=1,policy=starve", THREADS, 1},
                                    {"1,channels=8,policy=lazy", THREADS, 1}};
    return cr_make_param_array(config_case_t, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(config_case_t *of, chains, on_streams_by_sixteen_threads) {
    static threaded_t all;
    for (all.seed = 1; all.seed <= SEEDS; all.seed++) {
        begin_seed(of, all.seed);
        open_chains(&all.chains, of->size, of->devices);
        driver_threads(of->size, chain_by_thread, &all);
        check(&all.chains);
        close_chains(&all.chains, of->devices);
        end_seed();
    }
}

/* --- many threads, in any order --------------------------------------------------------------- */

enum { BUNCH = 50, BUNCHES = 20 }; /* 1000 collectives */

typedef struct bunch {
    world_t *world;
    prepared_t *prepared[BUNCH];
    _Atomic uint32_t wrong;
    uint64_t seed;
} bunch_t;

static void shuffle(uint32_t *order, uint64_t *random) {
    for (uint32_t k = 0; k < BUNCH; k++) {
        order[k] = k;
    }
    for (uint32_t k = BUNCH; k-- > 1;) {
        uint32_t other = (uint32_t)random_below(random, k + 1), kept = order[k];
        order[k] = order[other];
        order[other] = kept;
    }
}

/* Posts all in an order of its own, and looks at each as it ends. */
static void post_all(void *arg, uint32_t i) {
    bunch_t *b = arg;
    ucc_coll_req_h request[BUNCH];
    uint32_t order[BUNCH], left = BUNCH;
    uint64_t random = b->seed * THREADS + i + 1;
    deadline_t deadline = deadline_start("collectives in any order");
    shuffle(order, &random);
    for (uint32_t k = 0; k < BUNCH; k++) {
        ucc_coll_args_t *args = &b->prepared[order[k]]->args[i];
        must(ucc_collective_init(args, &request[order[k]], b->world->teams[i]), "init");
        must(ucc_collective_post(request[order[k]]), "post");
    }
    while (left > 0) {
        ucc_context_progress(b->world->contexts[i]);
        for (uint32_t k = 0; k < BUNCH; k++) {
            if (request[k] && ucc_collective_test(request[k]) != UCC_INPROGRESS) {
                b->prepared[k]->statuses[i] = ucc_collective_test(request[k]);
                must(ucc_collective_finalize(request[k]), "finalize");
                request[k] = NULL;
                left--;
                b->wrong += !case_check_member(b->prepared[k], i);
            }
        }
        deadline_poll(&deadline);
    }
}

ParameterizedTestParameters(chains, a_thousand_by_sixteen_threads_in_any_order) {
    static config_case_t cases[] = {{"1,host=threads", THREADS, 1},
                                    {"1,host=threads,channels=1,policy=newest", THREADS, 1},
                                    {"4,host=threads,nopeer", THREADS, 4}};
    return cr_make_param_array(config_case_t, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(config_case_t *c, chains, a_thousand_by_sixteen_threads_in_any_order) {
    world_params_t params = {
        .size = THREADS, .form = WORLD_OOB, .ordering = UCC_COLLECTIVE_POST_UNORDERED};
    device_cases_begin(c->config, DEVICE_CASES_PLAIN);
    bunch_t b = {.world = world_create(&params), .seed = 1};
    for (; b.seed <= BUNCHES; b.seed++) {
        uint64_t random = b.seed;
        for (uint32_t k = 0; k < BUNCH; k++) {
            coll_case_t one = sweep_random_case(&random, &params);
            while (!case_memory->takes(&one) || one.count > 4096) {
                one = sweep_random_case(&random, &params);
            }
            one.size = THREADS;
            one.tagged = true;
            one.tag = (uint16_t)(k + 1);
            b.prepared[k] = case_prepare(&one);
        }
        driver_threads(THREADS, post_all, &b);
        for (uint32_t k = 0; k < BUNCH; k++) {
            case_free(b.prepared[k]);
        }
    }
    world_destroy(b.world);
    cr_assert_eq(b.wrong, 0);
    device_cases_end();
}
