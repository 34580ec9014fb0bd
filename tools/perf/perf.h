/* perf.h: the parts of heddle_perf and what they share.
 *
 * A run is a list of cases (one collective at one size). Workers are OS threads; each drives one
 * endpoint, or with --tasks a contiguous range of endpoints that share a context. All workers walk
 * the same list of cases in step; between the steps of a case they meet at an ordinary pthread
 * barrier, so nothing that a step prepares is written while another worker reads it.
 *
 *     heddle_perf.c   main
 *     options.c       command line; help.c what it says about itself
 *     collectives.c   what each collective needs and how it is called, both APIs
 *     datatypes.c     datatypes, operations, and small whole numbers in each of them
 *     pattern.c       sources, and the naive expectation that results are compared with
 *     run.h, run.c    workers, the list of cases, verification
 *     calls.c         one call on all endpoints of a worker
 *     measure.c       timing of one case; touch.c the form in which memory is used meanwhile
 *     device.h, device.c  buffers in memory of devices, and what devices take at least
 *     limits.c        the machine's limits, by the same threads in turn with the collective
 *     traffic.c       what each collective must at least read and write
 *     world.h, world.c  several processes; ping.c a message between two of them
 *     wire.c          what goes between processes, counted, and the least that can
 *     overlap.c       how much of a nonblocking collective hides behind computation
 *     tune.h, tune.c  good values of the variables that choose regimes; tune_file.c writes them
 *     timer.c         the clock, places for threads, the two-store exchange
 *     kernels.h       copying, reading and writing as the limits mean them
 *     report.c        table; export.c JSON and CSV
 *
 * "Bytes" of a case is what one endpoint sends to, or receives from, one peer, like `count` in
 * heddle.h. Bandwidth is algorithm bandwidth: the bytes of the largest buffer of one endpoint (so n
 * blocks for alltoall, one for allreduce) over the median time. Bus bandwidth is that times the
 * factor by which nccl-tests makes collectives comparable.
 */
#ifndef HEDDLE_PERF_H_
#define HEDDLE_PERF_H_

#include <heddle/heddle.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
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
    PERF_KIND_COMPLEX,
    PERF_KIND_PAIR /**< a value and an index */
} perf_kind_t;

typedef struct perf_datatype {
    const char *name;
    ucc_datatype_t dt;
    uint32_t bytes;
    perf_kind_t kind;
    /* pairs only */
    ucc_datatype_t value;
    uint32_t index_offset, index_bytes;
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
    PERF_PAIRWISE = 1U << 4, /**< the block depends on both source and destination */
    PERF_PREFIX = 1U << 5    /**< reduces what came before: nobody waits for those behind it */
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

enum { PERF_ELEMENT_MAX = 32 }; /* bytes of the largest element */

/** Writes a small non-negative whole number, with its imaginary part or index, as one element. */
void perf_encode(const perf_datatype_t *datatype, double first, double second, void *element);
/** The opposite: value[0] the number, value[1] its imaginary part or index (0 if none). */
void perf_decode(const perf_datatype_t *datatype, const void *element, double value[2]);

/* ------------------------------------------------------------------------------------------------
 * Options
 * ---------------------------------------------------------------------------------------------- */

typedef enum { PERF_API_HEDDLE, PERF_API_UCC } perf_api_t; /* --stream: the arguments are UCC's */
typedef enum { PERF_BIND_AUTO, PERF_BIND_NONE, PERF_BIND_COMPACT, PERF_BIND_SPREAD } perf_bind_t;

enum { PERF_MAX_CHOSEN = 32 };

typedef struct perf_options {
    uint32_t endpoints; /**< of all processes */
    uint32_t workers;   /**< of this process: equals `local` unless `tasks` */
    bool tasks;
    /* world.c sets those of this group which the command line does not */
    uint32_t processes;  /**< until then: to be started, or with `ranked` there are; 0: not said */
    uint32_t process;    /**< my number */
    uint32_t local;      /**< endpoints of this process ... */
    uint32_t first;      /**< ... the first one's number ... */
    uint32_t most_local; /**< ... and of the process that has most */
    uint32_t host_workers,
        host_first; /**< threads that share its processors, and the first one's number */
    bool ranked;    /**< the command line says which of them it is: `rank` */
    uint32_t rank;
    const char *address, *key_file; /**< NULL: as the environment says */
    uint64_t bytes_min, bytes_max, factor;
    const perf_datatype_t *datatype;
    const perf_operation_t *operation;
    const perf_coll_t *chosen[PERF_MAX_CHOSEN];
    size_t n_chosen;
    bool in_place, persistent, verify, uneven, quick, reference;
    bool touch, limits, overlap, back_to_back;
    bool messages;            /**< count what goes between processes */
    ucc_memory_type_t memory; /**< of the buffers */
    int device;  /**< of all of them; negative: each has the one that the library proposes */
    bool stream; /**< calls are enqueued, a batch at a time */
    uint32_t root;
    bool alternate;  /**< the root changes with every iteration */
    double interval; /**< seconds between progress calls with `overlap`; 0: a tenth of the work */
    perf_api_t api;
    perf_bind_t bind;
    uint64_t warmup;     /**< iterations */
    uint64_t iterations; /**< 0: by size */
    double seconds;      /**< aim per case when iterations == 0 */
    const char *json;    /**< NULL: none */
    const char *csv;     /**< NULL: none */
    bool tune;
    const char *tune_file; /**< NULL: standard output */
    const char *variables; /**< NULL: all that can be tuned; else names, separated by commas */
    double tune_seconds;   /**< aim per point; 0: each variable's own */
} perf_options_t;

/** Parses argv. Returns true to go on; else *exit_status says how to leave (0 after --help). */
bool perf_options_parse(int argc, char **argv, perf_options_t *options, int *exit_status);

/** What depends on all processes' endpoints: false: told, by the first process. */
bool perf_options_fit(const perf_options_t *options);

/** A number of bytes as the command line and the library's configuration write it: digits, then
 *  perhaps k, m or g. */
bool perf_parse_bytes(const char *text, uint64_t *bytes);

void perf_help(void);

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
    uint64_t sets;  /**< of buffers that calls use in turn; 1 in the host's memory */
} perf_case_t;

/** One endpoint as this tool sees it; touched by its worker only. */
typedef struct perf_endpoint {
    uint32_t index;
    uint32_t root; /**< of the present iteration */
    heddle_ep_t *handle;
    void *stream; /**< with --stream */
    ucc_team_h team;
    ucc_context_h context;
    unsigned char *source, *destination;    /**< of the present call */
    unsigned char *sources, *destinations;  /**< all sets, one behind the other */
    size_t source_bytes, destination_bytes; /**< capacities of these */
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
bool perf_is_in_place(const perf_case_t *c, const perf_endpoint_t *e);
/** scatter and scatterv, whose in-place form keeps the root's block in the source */
bool perf_scatters(const perf_coll_t *coll);

/** Fills e->args for ucc_collective_init(), with e->root. */
void perf_args_fill(const perf_case_t *c, perf_endpoint_t *e);
/** From one set of buffers to the next: see perf_case_t.sets. */
uint64_t perf_set_stride(uint64_t bytes);
/** The buffers of the next call; changes the arguments, too. */
void perf_set_choose(const perf_case_t *c, perf_endpoint_t *e, uint64_t set);
/** The root of the next call; changes the arguments where they depend on it. */
void perf_root_set(const perf_case_t *c, perf_endpoint_t *e, uint32_t root);

/** The blocking call of heddle.h that does the same. */
ucc_status_t perf_call_blocking(const perf_case_t *c, perf_endpoint_t *e);

/* ------------------------------------------------------------------------------------------------
 * Verification
 * ---------------------------------------------------------------------------------------------- */

enum { PERF_PERIOD = 251 }; /* prime, so that no block or chunk boundary falls on a repetition */

/** Results of reducing PERF_PERIOD elements over all endpoints; computed once per run. */
typedef struct perf_expectation {
    double first[PERF_PERIOD];  /**< the number, or its real part, or a pair's value */
    double second[PERF_PERIOD]; /**< the imaginary part, or a pair's index */
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
/** The opposite. */
uint64_t perf_clock_ticks_of(double seconds);
const char *perf_clock_name(void);

/** The two-store exchange: two threads each store a flag on a line of their own and wait for the
 *  other's. Nothing that synchronizes two threads is faster. Returns the median in seconds, or a
 *  negative number when there are not two processors. */
double perf_exchange_limit(void);

/** One side's flag, on lines far enough apart that no prefetcher couples them. */
typedef struct perf_flag {
    alignas(256) _Atomic uint64_t value;
} perf_flag_t;

/** One round of the exchange: stores `round` to my flag and waits until theirs has it, too. */
void perf_exchange_round(perf_flag_t *mine, const perf_flag_t *theirs, uint64_t round);

/** Pins the calling thread to the index-th of `n` places, as `bind` says. */
void perf_bind(perf_bind_t bind, uint32_t index, uint32_t n);

/* ------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------- */

/** What the machine allows; all in seconds, negative where it was not measured. */
typedef struct perf_limits {
    uint64_t bytes;  /**< T: bytes per thread that copy and read were measured with */
    double exchange; /**< X: two threads exchange two flags */
    double ring;     /**< a token goes round all threads, which only yield */
    double copy;     /**< M(T): all threads copy, the faster of two ways */
    double read;     /**< R(T): all threads read what another has just written */
    double launch;   /**< L: an empty launch on a device, and its event seen by the host */
    /** < C(T): devices copy within their memory, seen by the host; with --stream both a batch at a
     * time */
    double device;
    double message; /**< H(T): half of a message's way there and back, between two processes */
    double limit;   /**< what follows for the collective */
    const char *formula;
} perf_limits_t;

/** What one call makes go between processes; of --messages. */
typedef struct perf_wire {
    double messages, bytes;             /**< sent by a process, the mean over all */
    double most_messages, most_bytes;   /**< by the process that sends most */
    double credits;                     /**< messages beside those, the mean over all */
    double least_messages, least_bytes; /**< see wire.c; the mean over all, too */
} perf_wire_t;

typedef struct perf_result {
    const perf_coll_t *coll;
    uint64_t bytes, iterations, batch;
    uint64_t data_bytes;           /**< what bandwidth is computed from */
    double bus_factor;             /**< bus bandwidth over algorithm bandwidth */
    double min, median, p99, mean; /**< seconds */
    perf_limits_t limits;
    double ratio; /**< time over limit; 0: no limit measured */
    perf_wire_t wire;
    bool verified;
    uint64_t wrong;
} perf_result_t;

/** Of --overlap: medians in seconds. */
typedef struct perf_overlap {
    const perf_coll_t *coll;
    uint64_t bytes, iterations;
    double pure, compute, total;
    double percent;
    bool verified;
    uint64_t wrong;
} perf_overlap_t;

/** reference: the two-store exchange, or with several processes half of a message's way there and
 *  back; seconds; negative: not measured. Opens the report (a file that can't be written is an
 *  error, logged). */
bool perf_report_open(const perf_options_t *options, double reference);
/** Of the processes, the first reports. */
void perf_report_collective(const perf_coll_t *coll);
void perf_report_result(const perf_result_t *result);
void perf_report_overlap(const perf_overlap_t *result);
void perf_report_wire(const perf_result_t *result);
void perf_report_skip(uint64_t bytes, const char *why);
/** Closes the files; false when one could not be written in full. */
bool perf_report_close(void);

/** The files behind the report. */
bool perf_export_open(const perf_options_t *options, double exchange_limit);
void perf_export_result(const perf_result_t *result);
void perf_export_overlap(const perf_overlap_t *result);
void perf_export_wire(const perf_result_t *result);
bool perf_export_close(void);

/* ------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------- */

/** Bytes that a collective reads and writes, over all endpoints; see the table in traffic.c. */
uint64_t perf_traffic(const perf_coll_t *coll, uint64_t endpoints, uint64_t bytes);
double perf_bus_factor(const perf_coll_t *coll, uint64_t endpoints);

/** The least that P processes with so many endpoints each send to each other, in all: see wire.c.
 */
void perf_wire_least(const perf_case_t *c, double *messages, double *bytes);

/** Runs all cases and returns the number of wrong elements; a call that fails ends the process. */
uint64_t perf_run(const perf_options_t *options);

/** --tune; returns the exit status. */
int perf_tune(const perf_options_t *options);

/** Says what failed and ends the process. Used where another worker may sit inside a collective
 *  that can't complete any more, so that no orderly way out exists. */
_Noreturn void perf_fatal(const char *what, ucc_status_t status);

#endif
