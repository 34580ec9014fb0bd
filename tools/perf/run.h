/* run.h: workers, and what they share while a run goes on. */
#ifndef HEDDLE_PERF_RUN_H_
#define HEDDLE_PERF_RUN_H_

#include "perf.h"

typedef struct perf_run perf_run_t;

enum { PERF_SLICES = 8, PERF_LARGE = 16 << 20, PERF_SMALL = 4096 };

/** The kinds of limits that are sampled. */
typedef enum {
    PERF_LIMIT_EXCHANGE,
    PERF_LIMIT_RING,
    PERF_LIMIT_COPY,      /**< memcpy */
    PERF_LIMIT_STREAMING, /**< perf_copy_streaming */
    PERF_LIMIT_READ,
    PERF_LIMIT_MESSAGE, /**< between processes: the only one there */
    PERF_LIMIT_LAUNCH,  /**< with --mem: these two, by worker 0 alone */
    PERF_LIMIT_DEVICE,
    PERF_LIMIT_KINDS
} perf_limit_kind_t;

/** Samples of one kind of limit, of one worker. `count` is equal at all workers that measure it. */
typedef struct perf_samples {
    double *seconds;
    size_t count, capacity;
} perf_samples_t;

/** One thread. Touched by it alone, but for what the comments say others read after a meeting. */
typedef struct perf_worker {
    perf_run_t *run;
    uint32_t index;
    pthread_t thread;
    perf_endpoint_t *endpoints; /**< n_endpoints of them, consecutive numbers */
    uint32_t n_endpoints;
    uint64_t turns;    /**< calls that have been prepared by perf_next_turn; equal at all workers */
    uint64_t meetings; /**< at the spin barrier */
    uint64_t *samples; /**< ticks, one per batch; read by worker 0 */
    size_t capacity;
    uint64_t elapsed[PERF_SLICES]; /**< ticks of each slice's loop; read by worker 0 */
    uint64_t wrong;                /**< read by worker 0 */
    /* --limits; `limits` is read by worker 0, `copy_source` by its reader */
    unsigned char *copy_source, *copy_destination;
    size_t copy_source_bytes, copy_destination_bytes;
    perf_samples_t limits[PERF_LIMIT_KINDS];
    uint64_t exchanges;   /**< rounds of the exchange so far */
    double compute_rate;  /**< --overlap: rounds of the dummy computation per second; 0: unknown */
    double compute_state; /**< of that computation */
    uint64_t sink;        /**< what reading gave, so that it is not optimized away */
} perf_worker_t;

/** What --limits measures for the present case. */
typedef struct perf_limit_plan {
    bool kinds[PERF_LIMIT_KINDS];
    uint64_t bytes;     /**< T: per thread, or device, for copying and reading */
    uint64_t allocated; /**< T rounded up to what the kernels take */
    bool between_flags; /**< copying stands between two exchanges, as with --touch */
    size_t samples;     /**< copies and reads per slice */
} perf_limit_plan_t;

struct perf_run {
    const perf_options_t *options;
    heddle_group_t *group;
    pthread_barrier_t meeting;
    bool crowded; /**< more workers than processors */
    /* written by worker 0 between two meetings, read by all */
    perf_case_t now; /**< the case under way */
    const char *skip;
    uint64_t slices; /**< parts that the measurement is cut into; limits are measured in between */
    perf_limit_plan_t plan;
    double estimate; /**< seconds per iteration */
    perf_expectation_t expectation;
    perf_worker_t *workers;
    uint64_t wrong; /**< of all cases; written by worker 0 */
    /* the tool's own flags: of the spin barrier, one per worker, and of the exchange */
    perf_flag_t *barrier;
    perf_flag_t exchange[2];
    perf_flag_t token; /**< of the ring */
};

void perf_require(ucc_status_t status, const char *what);
void *perf_allocate(size_t bytes);
/** Makes *buffer hold at least `bytes`; the content is lost. */
void perf_grow(unsigned char **buffer, size_t *capacity, uint64_t bytes);
/** Waits, asleep, for all workers. */
void perf_meet(perf_run_t *run);
/** Waits, spinning, for all workers, at the tool's own flat barrier: with two workers a two-store
 *  exchange. Yields now and then, often where there are more workers than processors. */
void perf_spin(perf_worker_t *w);
bool perf_is_rooted(const perf_run_t *run);
/** Rooted, or a prefix: some endpoint may be over before all have come. */
bool perf_is_one_way(const perf_run_t *run);

/* calls.c: on all endpoints of a worker */

/** Chooses the root and the buffers of the next call; needed before each. */
void perf_next_turn(perf_worker_t *w);
/** UCC calls: init and post; then test and progress until complete, and finalize. */
void perf_start(perf_worker_t *w);
void perf_finish(perf_worker_t *w);
/** The collective, with the calls that were asked for. */
void perf_call(perf_worker_t *w);
/** What the calls so far have enqueued (--stream) is done. */
void perf_settle(perf_worker_t *w);
/** A barrier of the library's. */
void perf_align(perf_worker_t *w);

/* measure.c, overlap.c: all workers, once the case is prepared and verified */

void perf_measure(perf_worker_t *w);
void perf_overlap(perf_worker_t *w);
/** wire.c: the same, counting. */
void perf_messages(perf_worker_t *w);

/** Worker 0, after a meeting: wrong elements of all workers of all processes. */
uint64_t perf_wrong_in_all(const perf_run_t *run);
/** Worker 0: of each of n samples the slowest process's. */
void perf_slowest(uint64_t *ticks, size_t n);

/** Seconds per iteration over so many of them, as worker 0 saw it, for all. */
double perf_estimate(perf_worker_t *w, uint64_t iterations);
void perf_samples_reserve(perf_worker_t *w, size_t samples);
int perf_compare_ticks(const void *a, const void *b);

/* touch.c */

/** One iteration as an application has it; returns ticks. See --help. */
uint64_t perf_touch_iteration(perf_worker_t *w);

/* limits.c */

/** Worker 0: what is to be measured for the present case. */
void perf_limits_plan(perf_run_t *run);
/** All workers, between two slices of the collective. */
void perf_limits_slice(perf_worker_t *w);
/** Worker 0, after a meeting. */
perf_limits_t perf_limits_result(const perf_run_t *run);

#endif
