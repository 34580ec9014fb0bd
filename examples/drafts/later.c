/* later.c: a sample sort, written to the later of the two drafts from which UCC came.
 *
 * Each thread is an endpoint. It sorts its own keys and contributes samples of them; by the samples
 * of all, the range of keys is split among the threads; each sends every other one the keys that
 * are for it. The draft's way to begin: a library, a context per thread, and a team for which the
 * program lends an allgather ("out of band"), here a table under a lock.
 *
 * Checked here: every thread's keys are in order and in its range, and all keys are there.
 *
 * usage: later [threads [keys of each]]      (default 4 and 20000)
 */
#define HEDDLE_DRAFT 2
#include <heddle/drafts.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "later: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

static void *memory(size_t n, size_t bytes) {
    void *p = calloc(n + 1, bytes);
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
    return seat->result == NULL ? UCC_OK : UCC_INPROGRESS;
}

static ucc_status_t table_free(void *request) {
    (void)request; /* the seat stays */
    return UCC_OK;
}

/* ------------------------------------------------------------------------------------------------
 * A thread
 * ---------------------------------------------------------------------------------------------- */

typedef struct worker {
    ucc_lib_h lib;
    table_t *table;
    uint32_t number, n;
    size_t keys;
    pthread_t thread;
    uint64_t wrong;
    ucc_context_h context;
    ucc_team_h team;
} worker_t;

static void begin(worker_t *w, seat_t *seat) {
    ucc_context_params_t context = {.mask = UCC_CONTEXT_TYPE | UCC_COLL_SYNC_TYPE,
                                    .ctx_type = UCC_CONTEXT_SHARED,
                                    .sync_type = UCC_NO_SYNC_COLLECTIVES};
    check(ucc_context_create(w->lib, &context, NULL, &w->context), "ucc_context_create");

    ucc_team_params_t team = {.ordering = UCC_COLLECTIVE_POST_ORDERED,
                              .outstanding_colls = 4,
                              .ep = w->number,
                              .sync_type = UCC_NO_SYNC_COLLECTIVES,
                              .oob_collective = {.allgather = table_allgather,
                                                 .reg_test = table_test,
                                                 .req_free = table_free,
                                                 .participants = w->n,
                                                 .coll_info = seat}};
    ucc_status_t status;
    check(ucc_team_create_post(&w->context, 1, team, &w->team), "ucc_team_create_post");
    while ((status = ucc_team_create_test(w->team)) == UCC_INPROGRESS) {
        check(ucc_context_progress(w->context), "ucc_context_progress");
    }
    check(status, "ucc_team_create_test");

    ucc_team_attrib_t attributes;
    uint32_t size;
    uint64_t ep;
    check(ucc_team_get_attribs(w->team, &attributes), "ucc_team_get_attribs");
    check(ucc_team_get_size(w->team, &size), "ucc_team_get_size");
    check(ucc_team_get_my_ep(w->team, &ep), "ucc_team_get_my_ep");
    w->wrong += size != w->n || ep != w->number || attributes.ep != ep;
}

static void end(worker_t *w) {
    check(ucc_team_destroy(w->team), "ucc_team_destroy");
    check(ucc_context_destroy(w->context), "ucc_context_destroy");
}

static void run(worker_t *w, ucc_coll_op_args_t *args, const char *what) {
    ucc_coll_req_h request;
    ucc_status_t status;
    check(ucc_collective_init(args, &request, w->team), what);
    check(ucc_collective_post(request), what);
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        check(ucc_context_progress(w->context), what);
    }
    check(status, what);
    check(ucc_collective_finalize(request), what);
}

/* size: bytes from each to each. */
static void exchange(worker_t *w, ucc_coll_type_t type, void *src, void *dst, size_t size,
                     const char *what) {
    ucc_coll_op_args_t args = {.coll_type = type,
                               .ext_args.buffer_info = {.src_buffer = src,
                                                        .dst_buffer = dst,
                                                        .size = size,
                                                        .src_datatype = UCC_DT_UINT32,
                                                        .dst_datatype = UCC_DT_UINT32}};
    run(w, &args, what);
}

static uint64_t reduce_all(worker_t *w, uint64_t value, ucc_reduction_op_t op) {
    uint64_t result = 0;
    ucc_coll_op_args_t args = {
        .coll_type = UCC_ALLREDUCE,
        .ext_args = {.buffer_info = {.src_buffer = &value, .dst_buffer = &result},
                     .reduction_info = {.dt = UCC_DT_UINT64, .op = op, .count = 1}}};
    run(w, &args, "UCC_ALLREDUCE");
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * The sort
 * ---------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* The keys of thread t are below splitter[t], and not below the one before. */
static void split(worker_t *w, uint64_t *key, uint64_t *splitter) {
    uint64_t *sample = memory(w->n, sizeof(*sample));
    uint64_t *all = memory((size_t)w->n * w->n, sizeof(*all));
    for (size_t i = 0; i < w->n; i++) {
        sample[i] = key[i * w->keys / w->n];
    }
    exchange(w, UCC_ALLGATHER, sample, all, w->n * sizeof(*sample), "UCC_ALLGATHER of samples");
    qsort(all, (size_t)w->n * w->n, sizeof(*all), compare);
    for (size_t t = 0; t + 1 < w->n; t++) {
        splitter[t] = all[(t + 1) * w->n];
    }
    splitter[w->n - 1] = UINT64_MAX;
    free(sample);
    free(all);
}

/* Returns how many keys have come for this thread. */
static size_t distribute(worker_t *w, uint64_t *key, const uint64_t *splitter, uint64_t **mine) {
    uint32_t *to = memory(w->n, sizeof(*to)), *from = memory(w->n, sizeof(*from));
    size_t total = 0;
    for (size_t i = 0, t = 0; i < w->keys; i++) {
        while (key[i] >= splitter[t]) {
            t++;
        }
        to[t]++;
    }
    exchange(w, UCC_ALLTOALL, to, from, sizeof(*to), "UCC_ALLTOALL of counts");
    for (uint32_t t = 0; t < w->n; t++) {
        total += from[t];
    }
    *mine = memory(total, sizeof(**mine));
    ucc_coll_op_args_t args = {.coll_type = UCC_ALLTOALL,
                               .ext_args.buffer_info = {.src_buffer = key,
                                                        .scounts = to,
                                                        .dst_buffer = *mine,
                                                        .dst_counts = from,
                                                        .src_datatype = UCC_DT_UINT64,
                                                        .dst_datatype = UCC_DT_UINT64}};
    run(w, &args, "UCC_ALLTOALL of keys");
    free(to);
    free(from);
    return total;
}

static void *work(void *arg) {
    worker_t *w = arg;
    seat_t seat = {.table = w->table, .number = w->number};
    begin(w, &seat);

    uint64_t *key = memory(w->keys, sizeof(*key)), *splitter = memory(w->n, sizeof(*splitter));
    uint64_t state = 88172645463325252u + w->number, before = 0, after = 0, *mine;
    for (size_t i = 0; i < w->keys; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        key[i] = state % UINT64_MAX; /* below the last splitter */
        before ^= key[i] * 0x9e3779b97f4a7c15u;
    }
    qsort(key, w->keys, sizeof(*key), compare);
    split(w, key, splitter);
    size_t n = distribute(w, key, splitter, &mine);
    qsort(mine, n, sizeof(*mine), compare);

    for (size_t i = 0; i < n; i++) {
        w->wrong += mine[i] >= splitter[w->number];
        w->wrong += w->number > 0 && mine[i] < splitter[w->number - 1];
        after ^= mine[i] * 0x9e3779b97f4a7c15u;
    }
    w->wrong += reduce_all(w, n, UCC_OP_SUM) != w->n * w->keys;
    w->wrong += reduce_all(w, before ^ after, UCC_OP_XOR) != 0;
    free(key);
    free(splitter);
    free(mine);
    end(w);
    return NULL;
}

static unsigned long argument(int argc, char **argv, int at, unsigned long standard,
                              unsigned long most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : (long)standard;
    if (value < 1 || value > (long)most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: later [threads [keys of each]]\n");
        exit(2);
    }
    return (unsigned long)value;
}

int main(int argc, char **argv) {
    uint32_t n = (uint32_t)argument(argc, argv, 1, 4, 256);
    size_t keys = argument(argc, argv, 2, 20000, 100000000);

    ucc_lib_config_h *config;
    ucc_lib_h lib;
    ucc_lib_attribs_t attributes;
    ucc_coll_type_t types = UCC_ALLREDUCE | UCC_ALLGATHER | UCC_ALLTOALL;
    ucc_lib_params_t params = {.mask = UCC_THREAD_MODE | UCC_COLL_TYPES | UCC_REDUCTION_TYPES,
                               .thread_mode = UCC_LIB_THREAD_MULTIPLE,
                               .coll_types = types,
                               .reduction_op_types = UCC_OP_SUM | UCC_OP_XOR};
    check(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    check(ucc_init(&params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    check(ucc_lib_get_attribs(lib, &attributes), "ucc_lib_get_attribs");
    uint64_t wrong = attributes.thread_mode != UCC_LIB_THREAD_MULTIPLE ||
                     (attributes.provided_coll_types & types) != types;

    table_t table = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = n};
    worker_t *workers = memory(n, sizeof(*workers));
    for (uint32_t i = 0; i < n; i++) {
        workers[i] = (worker_t){.lib = lib, .table = &table, .number = i, .n = n, .keys = keys};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            check(UCC_ERR_NO_RESOURCE, "pthread_create");
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    check(ucc_finalize(lib), "ucc_finalize");
    free(workers);
    printf("%u threads sorted %zu keys: %s\n", n, n * keys, wrong == 0 ? "verified" : "WRONG");
    return wrong == 0 ? 0 : 1;
}
