/* one_sided.h: alltoall and alltoallv as UCC's own test program (ucc_test_mpi) asks for them
 * one-sidedly: with UCC_TL_UCP_TUNE, memory that is mapped, a global work buffer, and, in
 * alltoallv, displacements in the peers' memory.
 *
 *     one_sided_t *w = one_sided_open(&(one_sided_params_t){.size = 3, .tune = ONE_SIDED_TUNE});
 *     wrong += one_sided_sweep(w);
 *     one_sided_close(w);
 *
 * One thread drives all endpoints of a process, or, with a `board`, one endpoint of several that
 * threads drive.
 */
#ifndef TESTS_ONE_SIDED_H_
#define TESTS_ONE_SIDED_H_

#include "oob.h"
#include "processes.h"

#include <stdbool.h>
#include <stddef.h>

/* What ucc_test_mpi sets. */
#define ONE_SIDED_TUNE "alltoall:0-inf:@onesided#alltoallv:0-inf:@onesided"

/* By what the memory is known. */
typedef enum one_sided_memory {
    MAPPED_BY_CONTEXT,     /* mem_params of ucc_context_create */
    MAPPED_BY_ALL_HANDLES, /* ucc_mem_map: dst_memh.global_memh, those of all endpoints */
    MAPPED_BY_OWN_HANDLE,  /* dst_memh.local_memh */
    MAPPED_BY_NOBODY
} one_sided_memory_t;

enum { ONE_SIDED_BYTES = 1 << 20, ONE_SIDED_WORK = 64, ONE_SIDED_MOST = 32 };

/* An endpoint of this process. */
typedef struct one_sided_end {
    uint32_t index; /* in the team */
    ucc_lib_h lib;
    ucc_context_h context;
    ucc_team_h team;
    unsigned char *src, *dst; /* ONE_SIDED_BYTES each */
    void *work;
    ucc_mem_map_mem_h own;
    ucc_mem_map_mem_h *all; /* [size] */
} one_sided_end_t;

typedef struct one_sided_params {
    uint32_t size;
    const process_t *process; /* NULL: all endpoints are in this process */
    const char *tune;         /* NULL: what the environment says */
    one_sided_memory_t memory;
    oob_board_t
        *board; /* NULL, or what those meet on who each have one endpoint of this process: */
    uint32_t endpoint;
} one_sided_params_t;

typedef struct one_sided {
    one_sided_params_t params;
    uint32_t size, n; /* endpoints; those of this process */
    one_sided_end_t end[ONE_SIDED_MOST];
    oob_board_t *board;
} one_sided_t;

/* One collective: blocks[i][j] elements from endpoint i to j are drawn from the seed. */
typedef struct one_sided_case {
    bool vector; /* alltoallv */
    bool wide_counts, wide_displacements;
    bool gaps;      /* between the blocks of a destination; and dst begins inside its memory */
    bool no_counts; /* dst.counts are garbage: nobody needs them */
    uint32_t posts; /* more than one: of a persistent request, with new displacements each time */
    size_t element;
    ucc_datatype_t datatype;
    uint64_t most; /* elements of a block */
    uint64_t seed;
} one_sided_case_t;

one_sided_t *one_sided_open(const one_sided_params_t *params);
void one_sided_close(one_sided_t *w);

/* How many endpoints have something wrong in dst, what no block is meant for included. Statuses
 * other than UCC_OK abort. */
uint64_t one_sided_run(one_sided_t *w, const one_sided_case_t *c);
/* All that ucc_test_mpi varies, and more. *checked counts collectives; it may be NULL. */
uint64_t one_sided_sweep(one_sided_t *w, uint64_t *checked);

/* The arguments of an alltoallv of `count` int32 from everybody to everybody at endpoint k of mine;
 * block p goes to displacement[p] in p's dst. counts: so many, for each. */
ucc_coll_args_t one_sided_args(one_sided_t *w, uint32_t k, uint32_t *counts,
                               uint32_t *src_displacements, uint32_t *dst_displacements);
/* Posts at all endpoints of mine, and progresses until all are over; status: by endpoint of mine.
 * Those that init or post refuse are over. */
void one_sided_statuses(one_sided_t *w, ucc_coll_args_t *args, ucc_status_t *status);

#endif
