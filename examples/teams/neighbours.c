/* neighbours.c: point to point between the endpoints of a team.
 *
 * Heddle has collectives and no send or receive. What an exchange at the edges of a grid needs is a
 * collective of two: a bcast over an active set (UCC_COLL_ARGS_FIELD_ACTIVE_SET) of the pair, whose
 * root is the sender. Each pair is a set of its own, and operations on one set match in the order
 * of their posts: so both ends of a pair post first what the lower sends, then what the upper
 * sends.
 *
 * Here: heat spreads along a rod, of which each thread owns a piece. Checked: the rod has the same
 * bits as one that a single thread computed.
 *
 * usage: neighbours [threads [cells [steps]]]      (default 4, 200 and 300)
 */
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "neighbours: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* `from` sends one number to `to`; both call. Numbers in the team, in either order. */
static void start_send(heddle_ep_t *ep, uint32_t from, uint32_t to, double *value,
                       ucc_coll_req_h *request) {
    uint32_t lower = from < to ? from : to, upper = from < to ? to : from;
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET, .coll_type = UCC_COLL_TYPE_BCAST, .root = from};
    args.active_set.start = lower;
    args.active_set.stride = upper - lower;
    args.active_set.size = 2;
    args.src.info = (ucc_coll_buffer_info_t){
        .buffer = value, .count = 1, .datatype = UCC_DT_FLOAT64, .mem_type = UCC_MEMORY_TYPE_HOST};
    check(ucc_collective_init_and_post(&args, request, heddle_ep_team(ep)), "bcast of two");
}

/* cell[0] and cell[cells + 1] are copies of the neighbours' nearest. */
static void exchange(heddle_ep_t *ep, double *cell, uint32_t cells) {
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    ucc_coll_req_h request[4] = {NULL, NULL, NULL, NULL}; /* at the ends of the rod some stay so */
    if (me > 0) {
        start_send(ep, me - 1, me, &cell[0], &request[0]);
        start_send(ep, me, me - 1, &cell[1], &request[1]);
    }
    if (me + 1 < n) {
        start_send(ep, me, me + 1, &cell[cells], &request[2]);
        start_send(ep, me + 1, me, &cell[cells + 1], &request[3]);
    }
    check(heddle_wait_all(request, 4, -1), "heddle_wait_all");
    for (int i = 0; i < 4; i++) {
        check(heddle_request_free(&request[i]), "heddle_request_free");
    }
}

static void step(double *cell, double *next, uint32_t cells) {
    for (uint32_t i = 1; i <= cells; i++) {
        next[i] = cell[i] + 0.25 * (cell[i - 1] - 2.0 * cell[i] + cell[i + 1]);
    }
    memcpy(cell + 1, next + 1, cells * sizeof(*cell));
}

static double initial(uint64_t position) {
    return (double)(position * 7919 % 1000);
}

typedef struct rod {
    uint32_t threads, cells, steps; /* cells of one thread */
    double *result;
} rod_t;

static double *make_cells(uint64_t n) {
    double *cell = calloc(n + 2, sizeof(*cell));
    if (cell == NULL) {
        check(UCC_ERR_NO_MEMORY, "memory for cells");
    }
    return cell;
}

static void work(heddle_ep_t *ep, void *arg) {
    const rod_t *rod = arg;
    uint32_t cells = rod->cells;
    double *cell = make_cells(cells), *next = make_cells(cells);
    for (uint32_t i = 1; i <= cells; i++) {
        cell[i] = initial((uint64_t)heddle_ep_index(ep) * cells + i);
    }
    for (uint32_t s = 0; s < rod->steps; s++) {
        exchange(ep, cell, cells);
        step(cell, next, cells);
    }
    check(heddle_gather(ep, cell + 1, rod->result, cells, UCC_DT_FLOAT64, 0), "heddle_gather");
    free(cell);
    free(next);
}

static bool is_right(const rod_t *rod) {
    uint32_t cells = rod->threads * rod->cells;
    double *cell = make_cells(cells), *next = make_cells(cells);
    for (uint32_t i = 1; i <= cells; i++) {
        cell[i] = initial(i);
    }
    for (uint32_t s = 0; s < rod->steps; s++) {
        step(cell, next, cells);
    }
    bool same = memcmp(cell + 1, rod->result, cells * sizeof(*cell)) == 0;
    free(cell);
    free(next);
    return same;
}

static uint32_t argument(int argc, char **argv, int at, uint32_t standard, uint32_t most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : (long)standard;
    if (value < 1 || value > (long)most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: neighbours [threads [cells [steps]]]\n");
        exit(2);
    }
    return (uint32_t)value;
}

int main(int argc, char **argv) {
    rod_t rod = {.threads = argument(argc, argv, 1, 4, 256),
                 .cells = argument(argc, argv, 2, 200, 100000),
                 .steps = argument(argc, argv, 3, 300, 1000000)};
    rod.result = make_cells((uint64_t)rod.threads * rod.cells);
    check(heddle_run(rod.threads, work, &rod), "heddle_run");
    bool right = is_right(&rod);
    printf("%u threads, %u cells each, %u steps: %s\n", rod.threads, rod.cells, rod.steps,
           right ? "verified" : "WRONG");
    free(rod.result);
    return right ? 0 : 1;
}
