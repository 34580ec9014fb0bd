/* oob.h: an allgather among the endpoints of one process, for ucc_oob_coll_t.
 *
 * It is as nasty as the contract allows: nothing is copied when allgather() is called; the sources
 * are read once everybody has called and somebody tests, so a library that changes or frees its
 * source early sends garbage. req_test() also says "in progress" a few times more than needed. One
 * thread may drive all endpoints. Misuse (two calls outstanding at one endpoint, a request freed
 * before it was complete, or never freed) is counted and asked for by the contract tests.
 */
#ifndef TESTS_OOB_H_
#define TESTS_OOB_H_

#include <stdint.h>
#include <ucc/api/ucc.h>

typedef struct oob_board oob_board_t;

/* What went over the board so far. */
typedef struct oob_counts {
    uint64_t calls;        /* allgathers called, all endpoints together */
    uint64_t freed;        /* requests freed */
    uint64_t overlapping;  /* calls while this endpoint's last request was not yet freed */
    uint64_t freed_early;  /* requests freed before req_test said UCC_OK */
    uint64_t size_changes; /* calls whose size differs from the peers' in the same round */
} oob_counts_t;

oob_board_t *oob_board_create(uint32_t size);
void oob_board_destroy(oob_board_t *board);
ucc_oob_coll_t oob_endpoint(oob_board_t *board, uint32_t index);
oob_counts_t oob_board_counts(oob_board_t *board);

#endif
