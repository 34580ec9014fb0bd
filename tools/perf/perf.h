/* perf.h: the parts of heddle_perf and what they share.
 *
 * A run is a list of cases (one collective at one size). Workers are OS threads; each drives one
 * endpoint, or with --tasks a contiguous range of endpoints that share a context. All workers walk
 * the same list of cases in step; between the steps of a case they meet at an ordinary pthread
 * barrier, so nothing that a step prepares is written while another worker reads it.
 *
 *     heddle_perf.c   main, the list of cases
 *     options.c       command line
 *     collectives.c   what each collective needs and how it is called, both APIs
 *     pattern.c       sources, and the naive expectation that results are compared with
 *     run.c           workers, verification and timing of one case
 *     timer.c         the clock, and the two-store exchange that bounds small collectives
 *     report.c        table and JSON
 *
 * "Bytes" of a case is what one endpoint sends to, or receives from, one peer, like `count` in
 * heddle.h. Bandwidth is algorithm bandwidth: the bytes of the largest buffer of one endpoint (so n
 * blocks for alltoall, one for allreduce) over the median time.
 */
#ifndef HEDDLE_PERF_H_
#define HEDDLE_PERF_H_

#include <heddle/heddle.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ------------------------------------------------------------------------------------------------
 * Datatypes and collectives
 * ---------------------------------------------------------------------------------------------- */

typedef enum {
    PERF_KIND_SIGNED,
    PERF_KIND_UNSIGNED,
    PERF_KIND_FLOAT,
    PERF_KIND_COMPLEX
} perf_kind_t;

typedef struct perf_datatype {
    const char *name;
    ucc_datatype_t dt;
    uint32_t bytes;
    perf_kind_t kind;
} perf_datatype_t;

typedef struct perf_operation {
    const char *name;
    ucc_reduction_op_t op;
} perf_operation_t;

/** How the buffers of a collective look; source and destination apart. A plain block is `count`
 *  elements; "blocks" are one per endpoint. */
typedef enum { PERF_SHAPE_NONE, PERF_SHAPE_BLOCK, PERF_SHAPE_BLOCKS } perf_shape_t;

enum perf_coll_traits {
    PERF_ROOTED = 1U << 0,   /**< has a root */
    PERF_REDUCES = 1U << 1,  /**< needs an operation and a numeric datatype */
    PERF_VECTOR = 1U << 2,   /**< takes counts and displacements */
    PERF_IN_PLACE = 1U << 3, /**< in place means something */
    PERF_PAIRWISE = 1U << 4  /**< the block depends on both source and destination */
};

typedef struct perf_coll {
    const char *name;
    ucc_coll_type_t type;
    unsigned traits; /**< perf_coll_traits */
    perf_shape_t source;
    perf_shape_t destination;
} perf_coll_t;

extern const perf_coll_t perf_colls[];
extern const size_t perf_n_colls;

/** Returns NULL for an unknown name. */
const perf_coll_t *perf_coll_find(const char *name);
const perf_datatype_t *perf_datatype_find(const char *name);
const perf_operation_t *perf_operation_find(const char *name);
void perf_datatypes_print(FILE *stream);
void perf_operations_print(FILE *stream);

/** Whether this tool (and UCC) can reduce the datatype with the operation. */
bool perf_reducible(const perf_datatype_t *datatype, ucc_reduction_op_t op);

/* ------------------------------------------------------------------------------------------------
 * Options
 * ---------------------------------------------------------------------------------------------- */

typedef enum { PERF_API_HEDDLE, PERF_API_UCC } perf_api_t;
typedef enum { PERF_BIND_AUTO, PERF_BIND_NONE, PERF_BIND_COMPACT, PERF_BIND_SPREAD } perf_bind_t;

enum { PERF_MAX_CHOSEN = 32 };

typedef struct perf_options {
    uint32_t endpoints;
    uint32_t workers; /**< equals endpoints unless `tasks` */
    bool tasks;
    uint64_t bytes_min, bytes_max, factor;
    const perf_datatype_t *datatype;
    const perf_operation_t *operation;
    const perf_coll_t *chosen[PERF_MAX_CHOSEN];
    size_t n_chosen;
    bool in_place, persistent, verify, uneven, quick, reference;
    uint32_t root;
    perf_api_t api;
    perf_bind_t bind;
    uint64_t warmup;     /**< iterations */
    uint64_t iterations; /**< 0: by size */
    double seconds;      /**< aim per case when iterations == 0 */
    const char *json;    /**< NULL: none */
} perf_options_t;

/** Parses argv. Returns true to go on; else *exit_status says how to leave (0 after --help). */
bool perf_options_parse(int argc, char **argv, perf_options_t *options, int *exit_status);

/** Processors that this process may use. */
uint32_t perf_processors(void);

/* ------------------------------------------------------------------------------------------------
 * One case and its endpoints
 * ---------------------------------------------------------------------------------------------- */

/** One collective at one size. Written by worker 0 between two meetings, read by all. */
typedef struct perf_case {
    const perf_options_t *options;
    const perf_coll_t *coll;
    uint64_t bytes; /**< of a block, a multiple of the datatype's */
    uint64_t count; /**< elements of a block */
    /** Block sizes and positions of the vector collectives, in elements; shared by all endpoints.
     *  `counts` has 2 * endpoints entries (repeated), so that counts + e is the row of endpoint e
     *  of the symmetric matrix that alltoallv uses. */
    uint64_t *counts, *displacements;
    uint64_t total; /**< sum of one round of counts */
    uint64_t warmup, iterations;
    uint64_t batch; /**< calls per sample */
} perf_case_t;

/** One endpoint as this tool sees it; touched by its worker only. */
typedef struct perf_endpoint {
    uint32_t index;
    heddle_ep_t *handle;
    ucc_team_h team;
    ucc_context_h context;
    unsigned char *source, *destination;
    size_t source_bytes, destination_bytes; /**< capacities */
    uint64_t *pair_displacements;           /**< alltoallv, else NULL */
    ucc_coll_args_t args;
    ucc_coll_req_h request; /**< of the case; kept over all its iterations if persistent */
    ucc_coll_req_h align;   /**< of the untimed barrier between iterations */
} perf_endpoint_t;

/** Elements of endpoint e's block number b in a buffer with blocks, and its position. */
uint64_t perf_block_count(const perf_case_t *c, uint32_t e, uint32_t b);
uint64_t perf_block_position(const perf_case_t *c, const perf_endpoint_t *e, uint32_t b);

/** Bytes of the two buffers of endpoint e. */
uint64_t perf_source_bytes(const perf_case_t *c);
uint64_t perf_destination_bytes(const perf_case_t *c);

/** Whether endpoint e reads its input where the in-place rule says (and not from its source). */
bool perf_is_in_place(const perf_case_t *c, uint32_t e);

/** Fills e->args for ucc_collective_init(). */
void perf_args_fill(const perf_case_t *c, perf_endpoint_t *e);

/** The blocking call of heddle.h that does the same. */
ucc_status_t perf_call_blocking(const perf_case_t *c, perf_endpoint_t *e);

/* ------------------------------------------------------------------------------------------------
 * Verification
 * ---------------------------------------------------------------------------------------------- */

enum { PERF_PERIOD = 251 }; /* prime, so that no block or chunk boundary falls on a repetition */

/** Results of reducing PERF_PERIOD elements over all endpoints; computed once per run. */
typedef struct perf_expectation {
    double real[PERF_PERIOD];
    double imaginary[PERF_PERIOD];
} perf_expectation_t;

void perf_expectation_compute(const perf_options_t *options, perf_expectation_t *expectation);

/** Writes endpoint e's input, and poison everywhere else. */
void perf_pattern_fill(const perf_case_t *c, perf_endpoint_t *e);

/** Counts elements of endpoint e's result that differ from the expectation. */
uint64_t perf_pattern_check(const perf_case_t *c, const perf_endpoint_t *e,
                            const perf_expectation_t *expectation);

/* ------------------------------------------------------------------------------------------------
 * Clock
 * ---------------------------------------------------------------------------------------------- */

/** Picks the clock (the time stamp counter where it is invariant) and calibrates it. */
void perf_clock_start(void);
uint64_t perf_clock_ticks(void);
/** Seconds that `ticks` take. */
double perf_clock_seconds(uint64_t ticks);
const char *perf_clock_name(void);

/** The two-store exchange: two threads each store a flag on a line of their own and wait for the
 *  other's. Nothing that synchronizes two threads is faster. Returns the median in seconds, or a
 *  negative number when there are not two processors. */
double perf_exchange_limit(void);

/** Pins the calling thread to the index-th of `n` places, as `bind` says. */
void perf_bind(perf_bind_t bind, uint32_t index, uint32_t n);

/* ------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------- */

typedef struct perf_result {
    const perf_coll_t *coll;
    uint64_t bytes, iterations, batch;
    uint64_t data_bytes;           /**< what bandwidth is computed from */
    double min, median, p99, mean; /**< seconds */
    bool verified;
    uint64_t wrong;
} perf_result_t;

/** Opens the report (a JSON file that can't be written is an error, logged). */
bool perf_report_open(const perf_options_t *options, double exchange_limit);
void perf_report_collective(const perf_coll_t *coll);
void perf_report_result(const perf_result_t *result);
void perf_report_skip(uint64_t bytes, const char *why);
/** Closes the JSON file; false when it could not be written in full. */
bool perf_report_close(void);

/* ------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------- */

/** Runs all cases and returns the number of wrong elements; a call that fails ends the process. */
uint64_t perf_run(const perf_options_t *options);

/** Says what failed and ends the process. Used where another worker may sit inside a collective that
 *  can't complete any more, so that no orderly way out exists. */
_Noreturn void perf_fatal(const char *what, ucc_status_t status);

#endif
