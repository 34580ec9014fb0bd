/* oob.c: see oob.h. One mutex guards everything: clarity before speed.
 *
 * A round is one allgather of all endpoints. Endpoints enter rounds in order, one at a time, but
 * one may be a round ahead of a peer that has not yet fetched its result, so rounds form a list; a
 * round is released when all have freed their request for it.
 */
#include "oob.h"
#include "deadline.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRA_TESTS = 2 }; /* "in progress" answers given although the result is there */

typedef struct oob_round {
    struct oob_round *next;
    size_t bytes; /* per endpoint */
    uint32_t entered;
    uint32_t left;
    const void **sources;  /* [size], valid until gathered */
    unsigned char *result; /* NULL until gathered */
} oob_round_t;

typedef struct oob_seat {
    oob_board_t *board;
    uint32_t index;
    bool busy;
    oob_round_t *last; /* the round this endpoint entered last, NULL at the start */
} oob_seat_t;

typedef struct oob_request {
    oob_seat_t *seat;
    oob_round_t *round;
    void *destination;
    uint32_t tests;
    bool complete;
} oob_request_t;

struct oob_board {
    pthread_mutex_t lock;
    uint32_t size;
    oob_seat_t *seats;
    oob_round_t *first; /* oldest round; kept to the end so that `last` pointers stay valid */
    oob_counts_t counts;
};

static oob_round_t *round_create(uint32_t size, size_t bytes) {
    oob_round_t *round = must_alloc(1, sizeof(*round));
    round->bytes = bytes;
    round->sources = must_alloc(size, sizeof(*round->sources));
    return round;
}

/* The round that follows the one this seat entered last. */
static oob_round_t *round_enter(oob_seat_t *seat, size_t bytes) {
    oob_board_t *board = seat->board;
    oob_round_t **link = seat->last != NULL ? &seat->last->next : &board->first;
    if (*link == NULL) {
        *link = round_create(board->size, bytes);
    }
    seat->last = *link;
    return *link;
}

static ucc_status_t oob_allgather(void *src, void *recv, size_t size, void *info, void **request) {
    oob_seat_t *seat = info;
    oob_board_t *board = seat->board;
    oob_request_t *r = must_alloc(1, sizeof(*r));
    pthread_mutex_lock(&board->lock);
    oob_round_t *round = round_enter(seat, size);
    board->counts.calls++;
    board->counts.overlapping += seat->busy ? 1 : 0;
    board->counts.size_changes += round->bytes != size ? 1 : 0;
    seat->busy = true;
    round->sources[seat->index] = src;
    round->entered++;
    *r = (oob_request_t){.seat = seat, .round = round, .destination = recv};
    *request = r;
    pthread_mutex_unlock(&board->lock);
    return UCC_OK;
}

static void round_gather(oob_round_t *round, uint32_t size) {
    round->result = must_alloc(size, round->bytes);
    for (uint32_t i = 0; i < size; i++) {
        memcpy(round->result + i * round->bytes, round->sources[i], round->bytes);
    }
}

static ucc_status_t oob_test(void *request) {
    oob_request_t *r = request;
    oob_board_t *board = r->seat->board;
    oob_round_t *round = r->round;
    ucc_status_t st = UCC_INPROGRESS;
    pthread_mutex_lock(&board->lock);
    if (round->entered == board->size && round->result == NULL) {
        round_gather(round, board->size);
    }
    if (r->complete) {
        st = UCC_OK;
    } else if (round->result != NULL && r->tests++ >= EXTRA_TESTS) {
        memcpy(r->destination, round->result, board->size * round->bytes);
        r->complete = true;
        st = UCC_OK;
    }
    pthread_mutex_unlock(&board->lock);
    return st;
}

static ucc_status_t oob_free(void *request) {
    oob_request_t *r = request;
    oob_board_t *board = r->seat->board;
    pthread_mutex_lock(&board->lock);
    board->counts.freed++;
    board->counts.freed_early += r->complete ? 0 : 1;
    r->seat->busy = false;
    if (++r->round->left == board->size) {
        free(r->round->result);
        free(r->round->sources);
        r->round->result = NULL;
        r->round->sources = NULL;
    }
    pthread_mutex_unlock(&board->lock);
    free(r);
    return UCC_OK;
}

oob_board_t *oob_board_create(uint32_t size) {
    oob_board_t *board = must_alloc(1, sizeof(*board));
    pthread_mutex_init(&board->lock, NULL);
    board->size = size;
    board->seats = must_alloc(size, sizeof(*board->seats));
    for (uint32_t i = 0; i < size; i++) {
        board->seats[i] = (oob_seat_t){.board = board, .index = i};
    }
    return board;
}

void oob_board_destroy(oob_board_t *board) {
    while (board->first != NULL) {
        oob_round_t *next = board->first->next;
        free(board->first->result);
        free(board->first->sources);
        free(board->first);
        board->first = next;
    }
    pthread_mutex_destroy(&board->lock);
    free(board->seats);
    free(board);
}

ucc_oob_coll_t oob_endpoint(oob_board_t *board, uint32_t index) {
    return (ucc_oob_coll_t){.allgather = oob_allgather,
                            .req_test = oob_test,
                            .req_free = oob_free,
                            .coll_info = &board->seats[index],
                            .n_oob_eps = board->size,
                            .oob_ep = index};
}

oob_counts_t oob_board_counts(oob_board_t *board) {
    pthread_mutex_lock(&board->lock);
    oob_counts_t counts = board->counts;
    pthread_mutex_unlock(&board->lock);
    return counts;
}
