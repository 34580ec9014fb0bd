/* earlier.c: how a bar cools, written to the earlier of the two drafts from which UCC came.
 *
 * Each thread is an endpoint and has a piece of the bar. In every step it shows its two outermost
 * cells to the others and computes the mean of neighbours; now and then all learn by how much the
 * bar has changed, and stop when that is little. Endpoint 0 says how, and collects the pieces. In
 * the end, the threads with even endpoints make a team of their own, and find how hot their pieces
 * are together. Endpoints form the team by an allgather that the program lends to the library ("out
 * of band"), here a table under a lock.
 *
 * Checked here: every cell, against the same bar computed by one thread.
 *
 * usage: earlier [threads [cells of each]]      (default 4 and 20)
 */
#define HEDDLE_DRAFT 1
#include <heddle/drafts.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_BETWEEN_LOOKS = 20 };

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_SUCCESS) {
        fprintf(stderr, "earlier: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

static void *memory(size_t n, size_t bytes) {
    void *p = calloc(n, bytes);
    if (p == NULL) {
        check(UCC_ERR_NO_MEMORY, "memory");
    }
    return p;
}

/* ------------------------------------------------------------------------------------------------
 * The allgather that the program lends to the library
 * ---------------------------------------------------------------------------------------------- */

/* Nobody is more than one round ahead of another, so there are two at most. */
typedef struct table {
    pthread_mutex_t lock;
    uint32_t n;
    struct {
        char *data;
        uint32_t come, gone;
    } round[2];
} table_t;

typedef struct seat {
    table_t *table;
    uint32_t number;
    uint32_t calls;
    size_t size;
    void *result; /* NULL when it has been fetched */
} seat_t;

static int table_allgather(void *src_buf, void *recv_buf, size_t size, void *info, void **request) {
    seat_t *seat = info;
    table_t *table = seat->table;
    uint32_t slot = seat->calls++ % 2;
    pthread_mutex_lock(&table->lock);
    if (table->round[slot].come++ == 0) {
        table->round[slot].data = memory(table->n, size);
    }
    memcpy(table->round[slot].data + seat->number * size, src_buf, size);
    pthread_mutex_unlock(&table->lock);
    seat->size = size;
    seat->result = recv_buf;
    *request = seat;
    return 0;
}

static ucc_status_t table_test(void *request) {
    seat_t *seat = request;
    table_t *table = seat->table;
    uint32_t slot = (seat->calls - 1) % 2;
    pthread_mutex_lock(&table->lock);
    if (seat->result != NULL && table->round[slot].come == table->n) {
        memcpy(seat->result, table->round[slot].data, table->n * seat->size);
        seat->result = NULL;
        if (++table->round[slot].gone == table->n) {
            free(table->round[slot].data);
            table->round[slot].come = table->round[slot].gone = 0;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return seat->result == NULL ? UCC_SUCCESS : UCC_INPROGRESS;
}

static ucc_status_t table_free(void *request) {
    (void)request; /* the seat stays */
    return UCC_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------
 * A thread
 * ---------------------------------------------------------------------------------------------- */

/* What endpoint 0 tells the others. */
typedef struct task {
    double left, right; /* temperatures of the ends */
    double enough;      /* change at which the bar is at rest */
    uint64_t steps;     /* at most */
} task_t;

typedef struct worker {
    ucc_lib_h lib;
    table_t *table;
    uint32_t number, n;
    size_t cells;
    pthread_t thread;
    uint64_t wrong, steps;
    ucc_context_h context;
} worker_t;

static ucc_team_handle_h wait_for(worker_t *w, ucc_team_handle_h team) {
    ucc_status_t status;
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        check(ucc_context_progress(w->context), "ucc_context_progress");
    }
    check(status, "ucc_team_create_test");
    return team;
}

/* The library gives the endpoints their numbers. */
static ucc_team_handle_h make_team(worker_t *w, seat_t *seat) {
    ucc_oob_team_coll_t oob = {.allgather = table_allgather,
                               .req_test = table_test,
                               .req_free = table_free,
                               .participants = w->n,
                               .coll_info = seat};
    ucc_team_params_t params = {.thread_model = UCC_TEAM_THREAD_SINGLE,
                                .ordering = UCC_COLLECTIVE_POST_ORDERED,
                                .sync_type = UCC_NO_SYNC_COLLECTIVES,
                                .oob_collectives = oob};
    ucc_team_handle_h team;
    check(ucc_team_create_post(&w->context, 1, params, &team), "ucc_team_create_post");
    return wait_for(w, team);
}

static void run(worker_t *w, ucc_team_handle_h team, ucc_coll_op_args_t *args, const char *what) {
    ucc_coll_req_h request;
    ucc_status_t status;
    check(ucc_collective_init_and_post(args, &request, team), what);
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        check(ucc_context_progress(w->context), what);
    }
    check(status, what);
    check(ucc_collective_finalize(request), what);
}

/* size: bytes from each to each, or all there are. Endpoint 0 is the root. */
static void move(worker_t *w, ucc_team_handle_h team, ucc_coll_type_t type, void *src, void *dst,
                 size_t size, const char *what) {
    ucc_coll_buffer_info_t buffers = {.src_buffer = src,
                                      .dst_buffer = dst,
                                      .size = size,
                                      .src_datatype = UCC_DT_FLOAT64,
                                      .dst_datatype = UCC_DT_FLOAT64};
    ucc_coll_op_args_t args = {.coll_type = type, .ext_args = {.buffer_info = buffers, .root = 0}};
    run(w, team, &args, what);
}

static double reduce_all(worker_t *w, ucc_team_handle_h team, double value, ucc_op_t op) {
    double result = 0.0;
    ucc_reduction_info_t reduction = {.dt = UCC_DT_FLOAT64, .op = op, .count = 1};
    ucc_coll_op_args_t args = {.coll_type = UCC_ALLREDUCE};
    args.ext_args.buffer_info.src_buffer = &value;
    args.ext_args.buffer_info.dst_buffer = &result;
    args.ext_args.reduction_info = reduction;
    run(w, team, &args, "UCC_ALLREDUCE");
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * The bar
 * ---------------------------------------------------------------------------------------------- */

/* One step for cells between two that are not theirs; returns the largest change. */
static double step(const double *now, double *next, size_t cells) {
    double change = 0.0;
    for (size_t i = 1; i <= cells; i++) {
        next[i] = 0.5 * (now[i - 1] + now[i + 1]);
        change = fmax(change, fabs(next[i] - now[i]));
    }
    return change;
}

static double cool(worker_t *w, ucc_team_handle_h team, const task_t *task, double **piece,
                   double **spare) {
    double *borders = memory(w->n, 2 * sizeof(double)), change = INFINITY;
    for (w->steps = 0; w->steps < task->steps && change > task->enough; w->steps++) {
        double own[2] = {(*piece)[1], (*piece)[w->cells]};
        move(w, team, UCC_ALLGATHER, own, borders, sizeof(own), "UCC_ALLGATHER of borders");
        (*piece)[0] = w->number == 0 ? task->left : borders[2 * w->number - 1];
        (*piece)[w->cells + 1] = w->number + 1 == w->n ? task->right : borders[2 * w->number + 2];
        double mine = step(*piece, *spare, w->cells), *other = *piece;
        *piece = *spare;
        *spare = other;
        if (w->steps % STEPS_BETWEEN_LOOKS == 0) {
            change = reduce_all(w, team, mine, UCC_OP_MAX);
        }
    }
    free(borders);
    return change;
}

/* At endpoint 0: all pieces, beside one bar that one thread has cooled for as many steps. */
static uint64_t compare(const worker_t *w, const task_t *task, const double *cells) {
    size_t n = w->n * w->cells;
    double *now = memory(n + 2, sizeof(double)), *next = memory(n + 2, sizeof(double));
    uint64_t wrong = 0;
    now[0] = next[0] = task->left;
    now[n + 1] = next[n + 1] = task->right;
    for (uint64_t i = 0; i < w->steps; i++) {
        step(now, next, n);
        double *other = now;
        now = next;
        next = other;
    }
    for (size_t i = 0; i < n; i++) {
        wrong += cells[i] != now[i + 1];
    }
    free(now);
    free(next);
    return wrong;
}

/* The even endpoints' own team: the sum of their cells. The others say no, and have no team. */
static double warmth_of_even(worker_t *w, ucc_team_handle_h team, const double *piece) {
    ucc_team_handle_h even;
    double sum = 0.0;
    bool included = w->number % 2 == 0;
    check(ucc_team_create_from_parent(w->number, included, team, &even),
          "ucc_team_create_from_parent");
    if (included) {
        uint32_t size;
        check(ucc_get_team_size(wait_for(w, even), &size), "ucc_get_team_size");
        w->wrong += size != (w->n + 1) / 2;
        for (size_t i = 1; i <= w->cells; i++) {
            sum += piece[i];
        }
        sum = reduce_all(w, even, sum, UCC_OP_SUM);
    }
    check(ucc_team_destroy(even), "ucc_team_destroy");
    return sum;
}

static void *work(void *arg) {
    worker_t *w = arg;
    seat_t seat = {.table = w->table, .number = w->number};
    ucc_context_params_t params = {.mask = UCC_CONTEXT_TYPE, .ctx_type = UCC_CONTEXT_EXCLUSIVE};
    check(ucc_context_create(w->lib, &params, NULL, &w->context), "ucc_context_create");
    ucc_team_handle_h team = make_team(w, &seat);
    uint64_t ep, n_eps, *eps;
    check(ucc_get_team_my_ep(team, &ep), "ucc_get_team_my_ep");
    check(ucc_get_team_all_eps(team, &eps, &n_eps), "ucc_get_team_all_eps");
    w->wrong += ep != w->number || n_eps != w->n || eps[ep] != ep;

    task_t task = {0}, given = {.left = 100.0, .right = 20.0, .enough = 0.05, .steps = 300};
    move(w, team, UCC_BROADCAST, &given, ep == 0 ? NULL : &task, sizeof(task), "UCC_BROADCAST");
    task = ep == 0 ? given : task;

    double *piece = memory(w->cells + 2, sizeof(double));
    double *spare = memory(w->cells + 2, sizeof(double));
    double *all = ep == 0 ? memory(w->n * w->cells, sizeof(double)) : NULL;
    cool(w, team, &task, &piece, &spare);
    move(w, team, UCC_GATHER, piece + 1, all, w->cells * sizeof(double), "UCC_GATHER of pieces");
    double warmth = warmth_of_even(w, team, piece);
    if (ep == 0) {
        for (uint32_t t = 0; t < w->n; t += 2) {
            for (size_t i = 0; i < w->cells; i++) {
                warmth -= all[t * w->cells + i];
            }
        }
        w->wrong += compare(w, &task, all) + (fabs(warmth) > 1e-6);
    }
    ucc_coll_op_args_t barrier = {.coll_type = UCC_BARRIER};
    run(w, team, &barrier, "UCC_BARRIER");
    free(piece);
    free(spare);
    free(all);
    check(ucc_team_destroy(team), "ucc_team_destroy");
    check(ucc_context_destroy(w->context), "ucc_context_destroy");
    return NULL;
}

static unsigned long argument(int argc, char **argv, int at, unsigned long standard,
                              unsigned long most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : (long)standard;
    if (value < 1 || value > (long)most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: earlier [threads [cells of each]]\n");
        exit(2);
    }
    return (unsigned long)value;
}

int main(int argc, char **argv) {
    uint32_t n = (uint32_t)argument(argc, argv, 1, 4, 256);
    size_t cells = argument(argc, argv, 2, 20, 1000000);

    ucc_lib_h lib;
    ucc_lib_attribs_t attributes;
    ucc_lib_params_t params = {.mask = UCC_THREAD_MODE | UCC_SYNC_TYPE,
                               .thread_mode = UCC_LIB_THREAD_MULTIPLE,
                               .requested_sync_type = UCC_NO_SYNC_COLLECTIVES};
    check(ucc_init(&params, NULL, &lib), "ucc_init");
    check(ucc_lib_get_attribs(lib, &attributes), "ucc_lib_get_attribs");
    uint64_t wrong = attributes.provided_sync_type != UCC_NO_SYNC_COLLECTIVES;

    table_t table = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = n};
    worker_t *workers = memory(n, sizeof(*workers));
    for (uint32_t i = 0; i < n; i++) {
        workers[i] = (worker_t){.lib = lib, .table = &table, .number = i, .n = n, .cells = cells};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            check(UCC_ERR_NO_RESOURCE, "pthread_create");
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    printf("%u threads, %zu cells, %llu steps: %s\n", n, n * cells,
           (unsigned long long)workers[0].steps, wrong == 0 ? "verified" : "WRONG");
    check(ucc_finalize(lib), "ucc_finalize");
    free(workers);
    return wrong == 0 ? 0 : 1;
}
