/* ucc.c: any library with the UCC interface, used as an unmodified UCC program would: every thread,
 * or by --variant processes every process, has a library and a context of its own, and the team is
 * formed with an allgather among them. Nonblocking: init, post, test and progress until complete,
 * finalize. Persistent: post, test.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucc/api/ucc.h>
#include <unistd.h>

#include "loop.h"

/* ------------------------------------------------------------------------------------------------
 * The allgather, in memory that processes inherit
 * ---------------------------------------------------------------------------------------------- */

/* A participant's contribution to rounds k and k + 1. It writes round k + 2 only after everybody
 * has published k + 1, that is, has finished reading k. */
enum { ROOM = 1 << 20 };

typedef struct slot {
    alignas(64) atomic_uint_fast64_t published;
    unsigned char data[2][ROOM]; /* touched as far as it is used */
} slot_t;

typedef struct meeting {
    uint32_t participants;
    slot_t slots[];
} meeting_t;

/* One allgather under way; belongs to one participant. */
typedef struct gathering {
    meeting_t *meeting;
    uint64_t round;
    size_t bytes;
    unsigned char *result;
} gathering_t;

typedef struct oob {
    meeting_t *meeting;
    uint32_t rank;
    uint64_t round;
} oob_t;

static ucc_status_t oob_allgather(void *src, void *dst, size_t bytes, void *info, void **request) {
    oob_t *oob = info;
    slot_t *slot = &oob->meeting->slots[oob->rank];
    gathering_t *gathering = malloc(sizeof(*gathering));
    uint64_t round = ++oob->round;
    if (gathering == NULL || bytes > ROOM) {
        bench_fail("allgather", "out of memory");
    }
    memcpy(slot->data[round % 2], src, bytes);
    /* release: publishes the data; pairs with the acquire in oob_test() */
    atomic_store_explicit(&slot->published, round, memory_order_release);
    *gathering = (gathering_t){oob->meeting, round, bytes, dst};
    *request = gathering;
    return UCC_OK;
}

static ucc_status_t oob_test(void *request) {
    gathering_t *g = request;
    for (uint32_t i = 0; i < g->meeting->participants; i++) {
        /* acquire: the data is read below; pairs with the release in oob_allgather() */
        if (atomic_load_explicit(&g->meeting->slots[i].published, memory_order_acquire) <
            g->round) {
            return UCC_INPROGRESS;
        }
    }
    for (uint32_t i = 0; i < g->meeting->participants && g->bytes != 0; i++) {
        memcpy(g->result + i * g->bytes, g->meeting->slots[i].data[g->round % 2], g->bytes);
    }
    g->bytes = 0; /* tested again: copied already */
    return UCC_OK;
}

static ucc_status_t oob_free(void *request) {
    free(request);
    return UCC_OK;
}

/* ------------------------------------------------------------------------------------------------
 * A participant
 * ---------------------------------------------------------------------------------------------- */

typedef struct endpoint {
    ucc_lib_h lib;
    ucc_context_h context;
    ucc_team_h team;
    oob_t context_oob, team_oob;
    ucc_coll_args_t args;
    ucc_coll_req_h *requests; /* persistent: one for each root */
} endpoint_t;

static meeting_t *meetings[2]; /* of contexts, of teams */

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        bench_fail(what, ucc_status_string(status));
    }
}

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "UCC interface %s", ucc_get_version_string());
}

static bool supports(const bench_case_t *c) {
    return c->form != BENCH_BLOCKING && c->coll->id <= BENCH_ALLTOALLV;
}

static ucc_oob_coll_t oob_open(oob_t *oob, size_t which, uint32_t participants, uint32_t rank) {
    *oob = (oob_t){.meeting = meetings[which], .rank = rank};
    return (ucc_oob_coll_t){.allgather = oob_allgather,
                            .req_test = oob_test,
                            .req_free = oob_free,
                            .coll_info = oob,
                            .n_oob_eps = participants,
                            .oob_ep = rank};
}

static void *join(const bench_options_t *o, uint32_t rank) {
    endpoint_t *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        bench_fail("endpoint", "out of memory");
    }
    ucc_lib_config_h lib_config;
    ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCC_THREAD_SINGLE};
    require(ucc_lib_config_read(NULL, NULL, &lib_config), "ucc_lib_config_read");
    require(ucc_init(&lib_params, lib_config, &e->lib), "ucc_init");
    ucc_lib_config_release(lib_config);

    ucc_context_config_h context_config;
    ucc_context_params_t context_params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB,
                                           .oob =
                                               oob_open(&e->context_oob, 0, o->participants, rank)};
    require(ucc_context_config_read(e->lib, NULL, &context_config), "ucc_context_config_read");
    require(ucc_context_create(e->lib, &context_params, context_config, &e->context),
            "ucc_context_create");
    ucc_context_config_release(context_config);

    ucc_team_params_t team_params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP |
                                             UCC_TEAM_PARAM_FIELD_EP_RANGE,
                                     .oob = oob_open(&e->team_oob, 1, o->participants, rank),
                                     .ep = rank,
                                     .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
    ucc_status_t status = ucc_team_create_post(&e->context, 1, &team_params, &e->team);
    require(status, "ucc_team_create_post");
    while ((status = ucc_team_create_test(e->team)) == UCC_INPROGRESS) {
        ucc_context_progress(e->context);
    }
    require(status, "ucc_team_create_test");
    return e;
}

static void leave(void *self) {
    endpoint_t *e = self;
    ucc_status_t status;
    while ((status = ucc_team_destroy(e->team)) == UCC_INPROGRESS) {
        ucc_context_progress(e->context);
    }
    require(status, "ucc_team_destroy");
    require(ucc_context_destroy(e->context), "ucc_context_destroy");
    require(ucc_finalize(e->lib), "ucc_finalize");
    free(e);
}

/* ------------------------------------------------------------------------------------------------
 * Arguments
 * ---------------------------------------------------------------------------------------------- */

static ucc_coll_type_t type_of(bench_id_t id) {
    switch (id) {
    case BENCH_FANIN:
        return UCC_COLL_TYPE_FANIN;
    case BENCH_FANOUT:
        return UCC_COLL_TYPE_FANOUT;
    case BENCH_BCAST:
        return UCC_COLL_TYPE_BCAST;
    case BENCH_REDUCE:
        return UCC_COLL_TYPE_REDUCE;
    case BENCH_ALLREDUCE:
        return UCC_COLL_TYPE_ALLREDUCE;
    case BENCH_REDUCE_SCATTER:
        return UCC_COLL_TYPE_REDUCE_SCATTER;
    case BENCH_REDUCE_SCATTERV:
        return UCC_COLL_TYPE_REDUCE_SCATTERV;
    case BENCH_ALLGATHER:
        return UCC_COLL_TYPE_ALLGATHER;
    case BENCH_ALLGATHERV:
        return UCC_COLL_TYPE_ALLGATHERV;
    case BENCH_GATHER:
        return UCC_COLL_TYPE_GATHER;
    case BENCH_GATHERV:
        return UCC_COLL_TYPE_GATHERV;
    case BENCH_SCATTER:
        return UCC_COLL_TYPE_SCATTER;
    case BENCH_SCATTERV:
        return UCC_COLL_TYPE_SCATTERV;
    case BENCH_ALLTOALL:
        return UCC_COLL_TYPE_ALLTOALL;
    case BENCH_ALLTOALLV:
        return UCC_COLL_TYPE_ALLTOALLV;
    default:
        return UCC_COLL_TYPE_BARRIER;
    }
}

static ucc_coll_buffer_info_t plain(void *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){.buffer = buffer,
                                    .count = count,
                                    .datatype = UCC_DT_FLOAT32,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_v_t blocks(void *buffer, uint64_t *counts, uint64_t *displacements) {
    return (ucc_coll_buffer_info_v_t){.buffer = buffer,
                                      .counts = (ucc_count_t *)counts,
                                      .displacements = (ucc_aint_t *)displacements,
                                      .datatype = UCC_DT_FLOAT32,
                                      .mem_type = UCC_MEMORY_TYPE_HOST};
}

static void fill_buffers(ucc_coll_args_t *args, const bench_case_t *c) {
    args->src.info = plain(c->source, bench_elements(c, c->coll->source));
    args->dst.info = plain(c->destination, bench_elements(c, c->coll->destination));
    switch (c->coll->id) {
    case BENCH_REDUCE_SCATTERV:
    case BENCH_ALLGATHERV:
    case BENCH_GATHERV:
        args->dst.info_v = blocks(c->destination, c->counts, c->displacements);
        break;
    case BENCH_SCATTERV:
        args->src.info_v = blocks(c->source, c->counts, c->displacements);
        break;
    case BENCH_ALLTOALLV:
        args->src.info_v = blocks(c->source, c->counts + c->rank, c->own_displacements);
        args->dst.info_v = blocks(c->destination, c->counts + c->rank, c->own_displacements);
        break;
    default:
        break;
    }
}

static void prepare(void *self, const bench_case_t *c) {
    endpoint_t *e = self;
    memset(&e->args, 0, sizeof(e->args));
    e->args.coll_type = type_of(c->coll->id);
    e->args.op = UCC_OP_SUM;
    if (c->coll->source != BENCH_NOTHING) {
        fill_buffers(&e->args, c);
    }
    if ((c->coll->traits & BENCH_UNEVEN) != 0) {
        e->args.flags |= UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
    }
    if (c->form == BENCH_PERSISTENT) {
        e->args.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    e->args.mask = e->args.flags != 0 ? UCC_COLL_ARGS_FIELD_FLAGS : 0;
    if (c->form != BENCH_PERSISTENT) {
        return;
    }
    e->requests = calloc(c->roots, sizeof(ucc_coll_req_h));
    if (e->requests == NULL) {
        bench_fail("requests", "out of memory");
    }
    for (uint32_t root = 0; root < c->roots; root++) {
        e->args.root = root;
        require(ucc_collective_init(&e->args, &e->requests[root], e->team), "ucc_collective_init");
    }
}

static void release(void *self, const bench_case_t *c) {
    endpoint_t *e = self;
    if (c->form != BENCH_PERSISTENT) {
        return;
    }
    for (uint32_t root = 0; root < c->roots; root++) {
        require(ucc_collective_finalize(e->requests[root]), "ucc_collective_finalize");
    }
    free(e->requests);
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    endpoint_t *e = self;
    ucc_coll_req_h request;
    if (c->form == BENCH_PERSISTENT) {
        request = e->requests[root];
    } else {
        e->args.root = root;
        require(ucc_collective_init(&e->args, &request, e->team), "ucc_collective_init");
    }
    require(ucc_collective_post(request), "ucc_collective_post");
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(e->context);
    }
    require(status, c->coll->name);
    if (c->form != BENCH_PERSISTENT) {
        require(ucc_collective_finalize(request), "ucc_collective_finalize");
    }
}

static void open_meetings(uint32_t participants) {
    for (size_t i = 0; i < 2; i++) {
        size_t bytes = sizeof(meeting_t) + participants * sizeof(slot_t);
        meetings[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (meetings[i] == MAP_FAILED) {
            bench_fail("allgather", "out of memory");
        }
        meetings[i]->participants = participants;
    }
}

static int run_processes(const bench_t *b) {
    int status, failed = 0;
    for (uint32_t i = 0; i < b->options.participants; i++) {
        pid_t child = fork();
        if (child == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            bench_participate(b, i);
            exit(0);
        }
        if (child < 0) {
            bench_fail("fork", "no process");
        }
    }
    while (wait(&status) > 0) {
        failed = failed != 0 || status != 0;
    }
    return failed;
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = BENCH_NAME,
                                      .version = version,
                                      .supports = supports,
                                      .join = join,
                                      .leave = leave,
                                      .prepare = prepare,
                                      .release = release,
                                      .call = call};
    bench_t b;
    bench_open(&b, &peer, argc, argv, 0);
    open_meetings(b.options.participants);
    if (strcmp(b.options.variant, "processes") == 0) {
        bench_map(&b, NULL, true);
        return run_processes(&b);
    }
    return bench_main(&peer, argc, argv);
}
