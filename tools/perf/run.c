/* run.c: workers, the list of cases, and the verification of each.
 *
 * Every worker walks the same list of cases and takes the same decisions, because each decision is
 * made by worker 0 and read by the others after a meeting:
 *
 *     meet | worker 0 lays out the case | meet | verify | estimate | meet | worker 0 chooses
 *     iterations | meet | warm up, measure | meet | worker 0 reports
 *
 * With several processes, worker 0 of each does so, and tells the others' (world.h); the first one
 * reports. A call that fails ends the process (perf_fatal): the peers may be inside the same
 * collective.
 */
#include "device.h"
#include "run.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 4096 };

void perf_fatal(const char *what, ucc_status_t status) {
    fprintf(stderr, "heddle_perf: %s: %s\n", what, ucc_status_string(status));
    fflush(NULL);
    _Exit(1); /* not exit(): other threads are still inside the library */
}

void perf_require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        perf_fatal(what, status);
    }
}

void *perf_allocate(size_t bytes) {
    void *memory = NULL;
    size_t rounded = bytes == 0 ? ALIGNMENT : bytes;
    if (posix_memalign(&memory, ALIGNMENT, rounded) != 0) {
        perf_fatal("buffers", UCC_ERR_NO_MEMORY);
    }
    return memory;
}

void perf_meet(perf_run_t *run) {
    (void)pthread_barrier_wait(&run->meeting);
}

bool perf_is_rooted(const perf_run_t *run) {
    return (run->now.coll->traits & PERF_ROOTED) != 0;
}

bool perf_is_one_way(const perf_run_t *run) {
    return (run->now.coll->traits & (PERF_ROOTED | PERF_PREFIX)) != 0;
}

/* ------------------------------------------------------------------------------------------------
 * Laying out a case
 * ---------------------------------------------------------------------------------------------- */

static uint64_t set_bytes(const perf_case_t *c) {
    return perf_set_stride(perf_source_bytes(c)) + perf_set_stride(perf_destination_bytes(c));
}

/* Device memory is used beyond the cache: in as many sets as fill it twice. Persistent requests
 * keep their buffers. */
static uint64_t choose_sets(const perf_case_t *c) {
    enum { MOST_SETS = 1024 };
    const perf_options_t *o = c->options;
    uint64_t one = set_bytes(c);
    if (o->memory == UCC_MEMORY_TYPE_HOST || o->persistent || one == 0) {
        return 1;
    }
    uint64_t sets = 2 * perf_device_summary()->l2_bytes / (perf_device_most(o) * one) + 1;
    return sets < MOST_SETS ? sets : MOST_SETS;
}

static const char *reason_to_skip(const perf_run_t *run) {
    const perf_case_t *c = &run->now;
    const perf_options_t *o = c->options;
    if ((c->coll->traits & PERF_REDUCES) != 0 && !perf_reducible(o->datatype, o->operation->op)) {
        return "no such operation on this datatype";
    }
    if ((c->coll->traits & PERF_PREFIX) != 0 && o->operation->op == UCC_OP_AVG) {
        return "no average of a prefix";
    }
    if (o->memory != UCC_MEMORY_TYPE_HOST) {
        uint64_t all = perf_device_most(o) * set_bytes(c) + 2 * run->plan.bytes;
        return all > perf_device_summary()->bytes / 2
                   ? "the buffers would take more than half of a device's memory"
                   : NULL;
    }
    uint64_t per_endpoint = perf_source_bytes(c) + perf_destination_bytes(c);
    per_endpoint += 2 * run->plan.allocated * o->workers / o->local;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (per_endpoint > memory / 2 / o->endpoints) { /* as if all processes were on this host */
        return "the buffers would take more than half of the memory";
    }
    return NULL;
}

/* Worker 0, between two meetings. */
static void lay_out(perf_run_t *run, const perf_coll_t *coll, uint64_t bytes) {
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
    c->sets = choose_sets(c);
    perf_limits_plan(run);
    const char *mine = reason_to_skip(run);
    uint8_t skips = mine != NULL, *all = perf_allocate(run->options->processes);
    perf_world_gather(&skips, sizeof(skips), all);
    run->skip = mine;
    for (uint32_t p = 0; p < run->options->processes && run->skip == NULL; p++) {
        run->skip = all[p] ? "another process can't" : NULL;
    }
    free(all);
}

void perf_grow(unsigned char **buffer, size_t *capacity, uint64_t bytes) {
    if (bytes > *capacity || *buffer == NULL) {
        free(*buffer);
        *buffer = perf_allocate(bytes);
        *capacity = bytes;
    }
}

static void take_buffers(const perf_case_t *c, perf_endpoint_t *e) {
    const perf_options_t *o = c->options;
    if (o->memory == UCC_MEMORY_TYPE_HOST) {
        perf_grow(&e->sources, &e->source_bytes, perf_source_bytes(c));
        perf_grow(&e->destinations, &e->destination_bytes, perf_destination_bytes(c));
    } else {
        uint64_t source = c->sets * perf_set_stride(perf_source_bytes(c));
        uint64_t destination = c->sets * perf_set_stride(perf_destination_bytes(c));
        perf_device_grow(o, e->index, &e->sources, &e->source_bytes, source);
        perf_device_grow(o, e->index, &e->destinations, &e->destination_bytes, destination);
        perf_device_clear(e->index, e->sources, source);
        perf_device_clear(e->index, e->destinations, destination);
    }
    e->source = e->sources;
    e->destination = e->destinations;
}

/* The endpoint as if its buffers were in the host's memory. */
static perf_endpoint_t shadow(const perf_case_t *c, const perf_endpoint_t *e) {
    perf_endpoint_t host = *e;
    host.source = perf_allocate(perf_source_bytes(c));
    host.destination = perf_allocate(perf_destination_bytes(c));
    return host;
}

static void fill(const perf_case_t *c, perf_endpoint_t *e) {
    if (c->options->memory == UCC_MEMORY_TYPE_HOST) {
        perf_pattern_fill(c, e); /* also touches every page from the thread that will use it */
        return;
    }
    perf_endpoint_t host = shadow(c, e);
    perf_pattern_fill(c, &host);
    perf_device_to(e->index, e->source, host.source, perf_source_bytes(c));
    perf_device_to(e->index, e->destination, host.destination, perf_destination_bytes(c));
    free(host.source);
    free(host.destination);
}

static uint64_t check(const perf_case_t *c, const perf_endpoint_t *e,
                      const perf_expectation_t *expectation) {
    if (c->options->memory == UCC_MEMORY_TYPE_HOST) {
        return perf_pattern_check(c, e, expectation);
    }
    perf_endpoint_t host = shadow(c, e);
    perf_device_from(e->index, host.source, e->source, perf_source_bytes(c));
    perf_device_from(e->index, host.destination, e->destination, perf_destination_bytes(c));
    uint64_t wrong = perf_pattern_check(c, &host, expectation);
    free(host.source);
    free(host.destination);
    return wrong;
}

static void prepare_endpoint(const perf_case_t *c, perf_endpoint_t *e) {
    uint32_t n = c->options->endpoints;
    take_buffers(c, e);
    if (c->coll->type == UCC_COLL_TYPE_ALLTOALLV) {
        if (e->pair_displacements == NULL) {
            e->pair_displacements = perf_allocate(n * sizeof(uint64_t));
        }
        uint64_t at = 0;
        for (uint32_t i = 0; i < n; i++) {
            e->pair_displacements[i] = at;
            at += c->counts[e->index + i];
        }
    }
    e->root = c->options->root;
    fill(c, e);
    perf_args_fill(c, e);
    if (c->options->persistent) {
        perf_require(ucc_collective_init(&e->args, &e->request, e->team), "ucc_collective_init");
    }
}

/* ------------------------------------------------------------------------------------------------
 * A case, a worker, a run
 * ---------------------------------------------------------------------------------------------- */

static void verify(perf_worker_t *w) {
    const perf_case_t *c = &w->run->now;
    perf_call(w);
    perf_settle(w);
    for (uint32_t i = 0; i < w->n_endpoints && c->options->verify; i++) {
        w->wrong += check(c, &w->endpoints[i], &w->run->expectation);
    }
    perf_meet(w->run);
}

/* With a changing root the last endpoint's turn is verified, too. */
static void verify_last_root(perf_worker_t *w) {
    const perf_case_t *c = &w->run->now;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_root_set(c, &w->endpoints[i], c->options->endpoints - 1);
        fill(c, &w->endpoints[i]);
    }
    verify(w);
}

static void run_case(perf_worker_t *w, const perf_coll_t *coll, uint64_t bytes) {
    perf_run_t *run = w->run;
    perf_meet(run);
    if (w->index == 0) {
        lay_out(run, coll, bytes);
        if (run->skip != NULL) {
            perf_report_skip(run->now.bytes, run->skip);
        }
    }
    perf_meet(run);
    if (run->skip != NULL) {
        return;
    }
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        prepare_endpoint(&run->now, &w->endpoints[i]);
    }
    w->wrong = 0;
    verify(w);
    if (run->options->alternate && perf_is_rooted(run)) {
        verify_last_root(w);
    }
    if (run->options->messages) {
        perf_messages(w);
    } else if (run->options->overlap) {
        perf_overlap(w);
    } else {
        perf_measure(w);
    }
    for (uint32_t i = 0; i < w->n_endpoints && run->options->persistent; i++) {
        perf_require(ucc_collective_finalize(w->endpoints[i].request), "ucc_collective_finalize");
    }
}

static void walk(perf_worker_t *w) {
    const perf_options_t *o = w->run->options;
    for (size_t i = 0; i < o->n_chosen; i++) {
        const perf_coll_t *coll = o->chosen[i];
        perf_meet(w->run); /* the table's title waits for the last row */
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

static void join(perf_worker_t *w) {
    const perf_options_t *o = w->run->options;
    uint64_t n = o->local;
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
        endpoint->index = o->first + e;
        perf_require(heddle_join(w->run->group, e, &endpoint->handle), "heddle_join");
        endpoint->team = heddle_ep_team(endpoint->handle);
        endpoint->context = heddle_ep_context(endpoint->handle);
        endpoint->stream = o->stream ? perf_device_stream(endpoint->index) : NULL;
    }
}

static void *worker_main(void *arg) {
    perf_worker_t *w = arg;
    const perf_options_t *o = w->run->options;
    perf_bind(o->bind, o->host_first + w->index, o->host_workers);
    join(w);
    walk(w);
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        perf_require(heddle_leave(e->handle), "heddle_leave");
        if (o->stream) {
            perf_device_stream_end(e->index, e->stream);
        }
        if (o->memory == UCC_MEMORY_TYPE_HOST) {
            free(e->sources);
            free(e->destinations);
        } else {
            perf_device_free(e->sources);
            perf_device_free(e->destinations);
        }
        free(e->pair_displacements);
    }
    perf_meet(w->run); /* the others' samples are read until here */
    for (unsigned kind = 0; kind < PERF_LIMIT_KINDS; kind++) {
        free(w->limits[kind].seconds);
    }
    free(w->copy_source);
    free(w->copy_destination);
    free(w->samples);
    free(w->endpoints);
    return NULL;
}

static void start_workers(perf_run_t *run) {
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
    perf_run_t run = {.options = o, .now = {.options = o}};
    run.crowded = o->host_workers > perf_processors();
    heddle_group_params_t params = {
        .endpoints = o->local, .contexts = o->tasks ? o->workers : 0, .oob = perf_world_oob()};
    run.now.counts = perf_allocate(2 * (size_t)o->endpoints * sizeof(uint64_t));
    run.now.displacements = perf_allocate((size_t)o->endpoints * sizeof(uint64_t));
    run.barrier = perf_allocate(o->workers * sizeof(run.barrier[0]));
    memset(run.barrier, 0, o->workers * sizeof(run.barrier[0]));
    run.workers = calloc(o->workers, sizeof(run.workers[0]));
    if (run.workers == NULL || pthread_barrier_init(&run.meeting, NULL, o->workers) != 0) {
        perf_fatal("workers", UCC_ERR_NO_MEMORY);
    }
    perf_expectation_compute(o, &run.expectation);
    perf_require(heddle_group_create(&params, &run.group), "heddle_group_create");
    start_workers(&run);
    perf_require(heddle_group_destroy(run.group), "heddle_group_destroy");
    pthread_barrier_destroy(&run.meeting);
    free(run.workers);
    free(run.barrier);
    free(run.now.counts);
    free(run.now.displacements);
    return run.wrong;
}
