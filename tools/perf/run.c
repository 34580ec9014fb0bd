/* run.c: workers, and the verification and timing of one case.
 *
 * Every worker walks the same list of cases and takes the same decisions, because each decision is
 * made by worker 0 and read by the others after a meeting:
 *
 *     meet | worker 0 lays out the case | meet | verify | meet | estimate | meet | worker 0 chooses
 *     iterations | meet | warm up, measure | meet | worker 0 reports
 *
 * A call that fails ends the process (perf_fatal): the peers may be inside the same collective.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run run_t;

typedef struct worker {
    run_t *run;
    uint32_t index;
    pthread_t thread;
    perf_endpoint_t *endpoints; /**< n_endpoints of them, consecutive numbers */
    uint32_t n_endpoints;
    uint64_t *samples; /**< ticks, one per batch; read by worker 0 after a meeting */
    size_t capacity;
    uint64_t elapsed; /**< ticks of the whole measured loop */
    uint64_t wrong;
} worker_t;

struct run {
    const perf_options_t *options;
    heddle_group_t *group;
    pthread_barrier_t meeting;
    perf_case_t now; /**< the case under way; written by worker 0 only */
    const char *skip;
    perf_expectation_t expectation;
    worker_t *workers;
    uint64_t wrong; /**< of all cases; written by worker 0 */
};

enum { ALIGNMENT = 4096, MAX_SAMPLES = 100000, MAX_SAMPLES_IN_ALL = 1 << 23, BATCH = 16 };

void perf_fatal(const char *what, ucc_status_t status) {
    fprintf(stderr, "heddle_perf: %s: %s\n", what, ucc_status_string(status));
    fflush(NULL);
    _Exit(1); /* not exit(): other threads are still inside the library */
}

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        perf_fatal(what, status);
    }
}

static void *allocate(size_t bytes) {
    void *memory = NULL;
    size_t rounded = bytes == 0 ? ALIGNMENT : bytes;
    if (posix_memalign(&memory, ALIGNMENT, rounded) != 0) {
        perf_fatal("buffers", UCC_ERR_NO_MEMORY);
    }
    return memory;
}

static void meet(run_t *run) {
    (void)pthread_barrier_wait(&run->meeting);
}

/* ------------------------------------------------------------------------------------------------
 * One call on all endpoints of a worker
 * ---------------------------------------------------------------------------------------------- */

/* What an unmodified UCC program does: test, and progress while it is not complete. */
static void complete(worker_t *w, ucc_coll_req_h request, ucc_context_h context) {
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    require(status, w->run->now.coll->name);
}

static void call_ucc(worker_t *w) {
    bool persistent = w->run->options->persistent;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        if (!persistent) {
            require(ucc_collective_init(&e->args, &e->request, e->team), "ucc_collective_init");
        }
        require(ucc_collective_post(e->request), "ucc_collective_post");
    }
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        complete(w, e->request, e->context);
        if (!persistent) {
            require(ucc_collective_finalize(e->request), "ucc_collective_finalize");
        }
    }
}

static void call(worker_t *w) {
    if (w->run->options->api == PERF_API_UCC) {
        call_ucc(w);
    } else {
        require(perf_call_blocking(&w->run->now, &w->endpoints[0]), w->run->now.coll->name);
    }
}

/* The untimed barrier before each iteration of a rooted collective. */
static void align(worker_t *w) {
    if (w->run->options->api == PERF_API_HEDDLE) {
        require(heddle_barrier(w->endpoints[0].handle), "heddle_barrier");
        return;
    }
    ucc_coll_args_t args;
    args.mask = 0;
    args.coll_type = UCC_COLL_TYPE_BARRIER;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        require(ucc_collective_init(&args, &e->align, e->team), "ucc_collective_init");
        require(ucc_collective_post(e->align), "ucc_collective_post");
    }
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        complete(w, e->align, e->context);
        require(ucc_collective_finalize(e->align), "ucc_collective_finalize");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Laying out a case
 * ---------------------------------------------------------------------------------------------- */

static const char *reason_to_skip(const perf_case_t *c) {
    const perf_options_t *o = c->options;
    if ((c->coll->traits & PERF_REDUCES) != 0 && !perf_reducible(o->datatype, o->operation->op)) {
        return "no such operation on this datatype";
    }
    uint64_t per_endpoint = perf_source_bytes(c) + perf_destination_bytes(c);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (per_endpoint > memory / 2 / o->endpoints) {
        return "the buffers would take more than half of the memory";
    }
    return NULL;
}

/* Worker 0, between two meetings. */
static void lay_out(run_t *run, const perf_coll_t *coll, uint64_t bytes) {
    perf_case_t *c = &run->now;
    uint32_t n = run->options->endpoints, width = run->options->datatype->bytes;
    c->coll = coll;
    c->count = coll->source == PERF_SHAPE_NONE ? 0 : (bytes + width - 1) / width;
    c->bytes = c->count * width;
    bool uneven = run->options->uneven && (coll->traits & PERF_VECTOR) != 0;
    c->total = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t half = uneven ? c->count / 2 : 0;
        c->counts[i] = i % 2 == 0 ? c->count - half : c->count + half;
        c->displacements[i] = c->total;
        c->total += c->counts[i];
    }
    memcpy(c->counts + n, c->counts, n * sizeof(c->counts[0]));
    run->skip = reason_to_skip(c);
}

static void grow(unsigned char **buffer, size_t *capacity, uint64_t bytes) {
    if (bytes > *capacity || *buffer == NULL) {
        free(*buffer);
        *buffer = allocate(bytes);
        *capacity = bytes;
    }
}

static void prepare_endpoint(const perf_case_t *c, perf_endpoint_t *e) {
    uint32_t n = c->options->endpoints;
    grow(&e->source, &e->source_bytes, perf_source_bytes(c));
    grow(&e->destination, &e->destination_bytes, perf_destination_bytes(c));
    if (c->coll->type == UCC_COLL_TYPE_ALLTOALLV) {
        if (e->pair_displacements == NULL) {
            e->pair_displacements = allocate(n * sizeof(uint64_t));
        }
        uint64_t at = 0;
        for (uint32_t i = 0; i < n; i++) {
            e->pair_displacements[i] = at;
            at += c->counts[e->index + i];
        }
    }
    perf_pattern_fill(c, e); /* also touches every page from the thread that will use it */
    perf_args_fill(c, e);
    if (c->options->persistent) {
        require(ucc_collective_init(&e->args, &e->request, e->team), "ucc_collective_init");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Timing
 * ---------------------------------------------------------------------------------------------- */

static bool is_rooted(const run_t *run) {
    return (run->now.coll->traits & PERF_ROOTED) != 0;
}

/* Seconds per iteration, measured by worker 0 and known to all after the meeting. */
static double estimate(worker_t *w, uint64_t iterations, double *shared) {
    uint64_t begin = perf_clock_ticks();
    for (uint64_t i = 0; i < iterations; i++) {
        if (is_rooted(w->run)) {
            align(w);
        }
        call(w);
    }
    if (w->index == 0) {
        *shared = perf_clock_seconds(perf_clock_ticks() - begin) / (double)iterations;
    }
    meet(w->run);
    double seconds = *shared;
    meet(w->run); /* nobody overwrites it before all have read it */
    return seconds;
}

static void choose_iterations(run_t *run, double seconds) {
    const perf_options_t *o = run->options;
    perf_case_t *c = &run->now;
    uint64_t most = MAX_SAMPLES_IN_ALL / o->workers;
    if (most > MAX_SAMPLES) {
        most = MAX_SAMPLES;
    }
    c->batch = !is_rooted(run) && seconds < 2e-6 ? BATCH : 1;
    double fit = o->seconds / (seconds > 1e-9 ? seconds : 1e-9);
    uint64_t want = o->iterations != 0 ? o->iterations : fit > 1e9 ? 1000000000 : (uint64_t)fit;
    uint64_t samples = want / c->batch;
    samples = samples < 5 && o->iterations == 0 ? 5 : samples;
    samples = samples < 1 ? 1 : samples > most ? most : samples;
    c->iterations = samples * c->batch;
    c->warmup = o->warmup;
    if (o->iterations == 0 && (double)c->warmup * seconds > o->seconds / 2) {
        c->warmup = 1;
    }
}

static void measure(worker_t *w) {
    const perf_case_t *c = &w->run->now;
    bool rooted = is_rooted(w->run);
    size_t samples = c->iterations / c->batch;
    for (uint64_t i = 0; i < c->warmup; i++) {
        call(w);
    }
    meet(w->run);
    align(w);
    uint64_t first = perf_clock_ticks(), last = first;
    for (size_t s = 0; s < samples; s++) {
        if (rooted) {
            align(w);
            last = perf_clock_ticks();
        }
        for (uint64_t k = 0; k < c->batch; k++) {
            call(w);
        }
        uint64_t now = perf_clock_ticks();
        w->samples[s] = now - last;
        last = now;
    }
    w->elapsed = last - first;
}

static int compare_ticks(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Worker 0, after the meeting: the slowest endpoint counts in every sample. */
static void report(run_t *run) {
    const perf_case_t *c = &run->now;
    size_t samples = c->iterations / c->batch;
    uint64_t *slowest = run->workers[0].samples, elapsed = 0, sum = 0, wrong = 0;
    for (uint32_t w = 0; w < run->options->workers; w++) {
        const worker_t *other = &run->workers[w];
        for (size_t s = 0; s < samples; s++) {
            slowest[s] = other->samples[s] > slowest[s] ? other->samples[s] : slowest[s];
        }
        elapsed = other->elapsed > elapsed ? other->elapsed : elapsed;
        wrong += other->wrong;
    }
    for (size_t s = 0; s < samples; s++) {
        sum += slowest[s];
    }
    qsort(slowest, samples, sizeof(slowest[0]), compare_ticks);
    double batch = (double)c->batch;
    uint64_t source = perf_source_bytes(c), destination = perf_destination_bytes(c);
    perf_result_t result = {
        .coll = c->coll,
        .bytes = c->bytes,
        .iterations = c->iterations,
        .batch = c->batch,
        .data_bytes = source > destination ? source : destination,
        .min = perf_clock_seconds(slowest[0]) / batch,
        .median = perf_clock_seconds(slowest[samples / 2]) / batch,
        .p99 = perf_clock_seconds(slowest[samples - 1 - samples / 100]) / batch,
        /* back to back: the loop's own time, since per-sample maxima overlap when threads share
         * processors */
        .mean = perf_clock_seconds(is_rooted(run) ? sum : elapsed) / (double)c->iterations,
        .verified = run->options->verify,
        .wrong = wrong,
    };
    perf_report_result(&result);
    run->wrong += wrong;
}

/* ------------------------------------------------------------------------------------------------
 * A case, a worker, a run
 * ---------------------------------------------------------------------------------------------- */

static void verify(worker_t *w) {
    const perf_case_t *c = &w->run->now;
    call(w);
    w->wrong = 0;
    for (uint32_t i = 0; i < w->n_endpoints && c->options->verify; i++) {
        w->wrong += perf_pattern_check(c, &w->endpoints[i], &w->run->expectation);
    }
    meet(w->run);
}

static void run_case(worker_t *w, const perf_coll_t *coll, uint64_t bytes) {
    static double shared_estimate; /* written by worker 0 between meetings */
    run_t *run = w->run;
    meet(run);
    if (w->index == 0) {
        lay_out(run, coll, bytes);
        if (run->skip != NULL) {
            perf_report_skip(run->now.bytes, run->skip);
        }
    }
    meet(run);
    if (run->skip != NULL) {
        return;
    }
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        prepare_endpoint(&run->now, &w->endpoints[i]);
    }
    verify(w);
    double seconds = estimate(w, 1, &shared_estimate);
    if (seconds < 5e-3) {
        seconds = estimate(w, 20, &shared_estimate);
    }
    if (w->index == 0) {
        choose_iterations(run, seconds);
    }
    meet(run);
    size_t samples = run->now.iterations / run->now.batch;
    if (samples > w->capacity) {
        free(w->samples);
        w->samples = allocate(samples * sizeof(w->samples[0]));
        w->capacity = samples;
    }
    measure(w);
    meet(run);
    if (w->index == 0) {
        report(run);
    }
    for (uint32_t i = 0; i < w->n_endpoints && run->options->persistent; i++) {
        require(ucc_collective_finalize(w->endpoints[i].request), "ucc_collective_finalize");
    }
}

static void walk(worker_t *w) {
    const perf_options_t *o = w->run->options;
    for (size_t i = 0; i < o->n_chosen; i++) {
        const perf_coll_t *coll = o->chosen[i];
        meet(w->run); /* the table's title waits for the last row */
        if (w->index == 0) {
            perf_report_collective(coll);
        }
        if (coll->source == PERF_SHAPE_NONE) {
            run_case(w, coll, 0);
            continue;
        }
        for (uint64_t bytes = o->bytes_min; bytes <= o->bytes_max; bytes *= o->factor) {
            run_case(w, coll, bytes);
        }
    }
}

static void join(worker_t *w) {
    const perf_options_t *o = w->run->options;
    uint64_t n = o->endpoints;
    w->endpoints = calloc(n / o->workers + 1, sizeof(w->endpoints[0]));
    if (w->endpoints == NULL) {
        perf_fatal("endpoints", UCC_ERR_NO_MEMORY);
    }
    for (uint32_t e = 0; e < n; e++) {
        /* the rule by which heddle_group shares contexts */
        if ((uint64_t)e * o->workers / n != w->index) {
            continue;
        }
        perf_endpoint_t *endpoint = &w->endpoints[w->n_endpoints++];
        endpoint->index = e;
        require(heddle_join(w->run->group, e, &endpoint->handle), "heddle_join");
        endpoint->team = heddle_ep_team(endpoint->handle);
        endpoint->context = heddle_ep_context(endpoint->handle);
    }
}

static void *worker_main(void *arg) {
    worker_t *w = arg;
    perf_bind(w->run->options->bind, w->index, w->run->options->workers);
    join(w);
    walk(w);
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        require(heddle_leave(e->handle), "heddle_leave");
        free(e->source);
        free(e->destination);
        free(e->pair_displacements);
    }
    meet(w->run); /* the others' samples are read until here */
    free(w->samples);
    free(w->endpoints);
    return NULL;
}

static void start_workers(run_t *run) {
    const perf_options_t *o = run->options;
    for (uint32_t i = 0; i < o->workers; i++) {
        run->workers[i].run = run;
        run->workers[i].index = i;
        if (pthread_create(&run->workers[i].thread, NULL, worker_main, &run->workers[i]) != 0) {
            perf_fatal("cannot start a thread", UCC_ERR_NO_RESOURCE);
        }
    }
    for (uint32_t i = 0; i < o->workers; i++) {
        pthread_join(run->workers[i].thread, NULL);
    }
}

uint64_t perf_run(const perf_options_t *o) {
    run_t run = {.options = o, .now = {.options = o}};
    heddle_group_params_t params = {.endpoints = o->endpoints,
                                    .contexts = o->tasks ? o->workers : 0};
    run.now.counts = allocate(2 * (size_t)o->endpoints * sizeof(uint64_t));
    run.now.displacements = allocate((size_t)o->endpoints * sizeof(uint64_t));
    run.workers = calloc(o->workers, sizeof(run.workers[0]));
    if (run.workers == NULL || pthread_barrier_init(&run.meeting, NULL, o->workers) != 0) {
        perf_fatal("workers", UCC_ERR_NO_MEMORY);
    }
    perf_expectation_compute(o, &run.expectation);
    require(heddle_group_create(&params, &run.group), "heddle_group_create");
    start_workers(&run);
    require(heddle_group_destroy(run.group), "heddle_group_destroy");
    pthread_barrier_destroy(&run.meeting);
    free(run.workers);
    free(run.now.counts);
    free(run.now.displacements);
    return run.wrong;
}
