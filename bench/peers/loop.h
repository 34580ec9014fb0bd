/* loop.h: the loops that every peer is measured in.
 *
 * A peer program is loop.c (with options.c and contents.c) plus one adapter: a bench_peer_t, and a
 * main() that starts participants and lets each call bench_participate(). Participants are threads
 * or processes; what they share (a spin barrier, decisions, samples) lies in one mapping that works
 * for both. A participant walks through collectives and sizes in step with the others:
 *
 *     allocate, fill, verify one call   ->   choose repetitions   ->   measure   ->   print
 *
 * Kinds of measurement:
 *
 *     tight   k calls back to back, their time divided by k. Many such batches; a batch takes as
 *             long as it takes the slowest participant.
 *     touch   each call as in an application: rewrite the source, meet, [call, meet], read the
 *             result; what is in brackets is timed, and the slowest participant counts. The meeting
 *             is the loops' own and the same for all peers; so it is part of the machine's limits
 *             when these are measured as if they were collectives (limits.c).
 *
 * Bytes: barrier, fanin, fanout move none; bcast, reduce, allreduce: the whole buffer; all others:
 * the buffer that holds a block for each participant, so a block has bytes / participants.
 */
#ifndef BENCH_LOOP_H_
#define BENCH_LOOP_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_MAX_POINTS = 64 };

typedef enum {
    BENCH_BARRIER,
    BENCH_FANIN,
    BENCH_FANOUT,
    BENCH_BCAST,
    BENCH_REDUCE,
    BENCH_ALLREDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_REDUCE_SCATTERV,
    BENCH_ALLGATHER,
    BENCH_ALLGATHERV,
    BENCH_GATHER,
    BENCH_GATHERV,
    BENCH_SCATTER,
    BENCH_SCATTERV,
    BENCH_ALLTOALL,
    BENCH_ALLTOALLV,
    /* the machine's limits, measured as if they were collectives */
    BENCH_EXCHANGE, /* everybody stores one flag and sees everybody's, each on a line of its own */
    BENCH_LINE,     /* the same with up to 8 flags in one line */
    BENCH_RING,     /* a token goes round; whoever waits for it only yields */
    BENCH_YIELD,    /* everybody yields: until all others of this processor have had their turn */
    BENCH_COPY,     /* everybody copies its source to its destination with memcpy */
    BENCH_STREAM,   /* the same with stores that bypass the caches */
    BENCH_READ      /* everybody reads the source that its neighbour has written */
} bench_id_t;

typedef enum { BENCH_BLOCKING, BENCH_NONBLOCKING, BENCH_PERSISTENT } bench_form_t;

/** What a buffer holds: nothing, the one block that this participant sends or receives, or a block
 *  for each participant. */
typedef enum { BENCH_NOTHING, BENCH_BLOCK, BENCH_BLOCKS } bench_shape_t;

enum bench_traits {
    BENCH_ROOTED = 1U << 0,
    BENCH_SUMS = 1U << 1,
    BENCH_WHOLE = 1U << 2,  /* a block has all the bytes asked for, not a participant's share */
    BENCH_UNEVEN = 1U << 3, /* blocks of half and of one and a half times the share */
    BENCH_ROOT_SENDS = 1U << 4,
    BENCH_ROOT_RECEIVES = 1U << 5
};

typedef struct bench_coll {
    const char *name;
    bench_id_t id;
    unsigned traits;
    bench_shape_t source, destination;
} bench_coll_t;

/** One collective at one size, as one participant sees it. Constant while it is measured. */
typedef struct bench_case {
    const bench_coll_t *coll;
    bench_form_t form;
    uint32_t participants, rank;
    /** Roots are 0 .. roots - 1, in turn: 1 is a fixed root. */
    uint32_t roots;
    uint64_t bytes;
    /** Bytes of an element: 4 (float32), or 8 (float64) where the peer asks for that. */
    size_t width;
    /** Elements of a block; of the mean block if they are uneven. */
    uint64_t count;
    /** Elements of the block that a participant contributes or receives, and where it begins in a
     *  buffer of blocks. alltoallv: participant r and its block b mean counts[r + b]. */
    uint64_t *counts;
    uint64_t *displacements;
    /** alltoallv: where this participant's blocks begin; else equal to displacements. */
    uint64_t *own_displacements;
    /** Elements of all blocks. */
    uint64_t total;
    /** bcast works in the source at everybody. */
    unsigned char *source, *destination;
} bench_case_t;

/** Options, the same for all peers: see options.c. */
typedef struct bench_options {
    const bench_coll_t *colls[BENCH_MAX_POINTS];
    size_t n_colls;
    uint64_t bytes[BENCH_MAX_POINTS];
    size_t n_bytes;
    uint32_t participants;
    bench_form_t form;
    bool touch, alternating, verify, unbound;
    double seconds;
    unsigned time_limit;
    const char *variant;
} bench_options_t;

typedef struct bench_peer {
    const char *name;
    /** Elements are float64 instead of float32: for peers that sum single values of 8 bytes. */
    bool float64;
    /** Writes the version of what is measured; called once, by participant 0. */
    void (*version)(char *text, size_t bytes);
    /** Whether it has the collective in that form and of that size. */
    bool (*supports)(const bench_case_t *c);
    /** Before and after all cases, called by each participant; NULL: nothing to do. */
    void *(*join)(const bench_options_t *o, uint32_t rank);
    void (*leave)(void *self);
    /** Memory for buffers, at a multiple of a page, and what gives it back; NULL: the C library's. */
    void *(*allocate)(size_t bytes);
    void (*deallocate)(void *memory);
    /** Before and after the calls of one case; NULL: nothing to do. */
    void (*prepare)(void *self, const bench_case_t *c);
    void (*release)(void *self, const bench_case_t *c);
    /** Peers with buffers of their own, around a call that is verified: the source has been
     *  rewritten; the result is to be copied to where the loops look for it. NULL: nothing to
     *  do. */
    void (*give)(void *self, const bench_case_t *c);
    void (*take)(void *self, bench_case_t *c);
    /** The collective, complete when it returns. */
    void (*call)(void *self, const bench_case_t *c, uint32_t root);
} bench_peer_t;

typedef struct bench_shared bench_shared_t;

/** A run, as one process sees it. */
typedef struct bench {
    const bench_peer_t *peer;
    bench_options_t options;
    bench_shared_t *shared;
} bench_t;

/** Reads the options; prints what is wrong and exits with 2. Processes pass their number as
 *  `participants`, threads 0: --threads decides. Starts the clock and the time limit. */
void bench_open(bench_t *b, const bench_peer_t *peer, int argc, char **argv, uint32_t participants);

/** The mapping that participants share. NULL: threads. Else the name of a shared memory object,
 *  which one process creates before the others attach. */
void bench_map(bench_t *b, const char *name, bool create);

/** All cases, as participant `rank`. Returns when all participants are done. */
void bench_participate(const bench_t *b, uint32_t rank);

/** main() of a peer whose participants are plain threads. */
int bench_main(const bench_peer_t *peer, int argc, char **argv);

/** Ends the process with a line that says what failed. */
_Noreturn void bench_fail(const char *what, const char *why);

/** Elements of all blocks that this participant sends, or receives, in a buffer of that shape. */
uint64_t bench_elements(const bench_case_t *c, bench_shape_t shape);

/** What a waiting loop does per turn: it yields after many turns, sooner with more participants
 *  than processors. It never pauses: a pause takes as long as a line takes between two
 *  processors. */
void bench_relax(uint32_t *turns);

#endif
