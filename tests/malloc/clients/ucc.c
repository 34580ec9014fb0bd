/* ucc.c: a client of UCC in two processes, whose buffers are malloc's. It prints how many of its
 * collectives were near in one of them (shm/near.h), and the least time of one in microseconds; it
 * ends with 1 if a sum was wrong. `early`: the buffers are there before the processes fork.
 *
 *     ucc [early] [BYTES [ROUNDS]]
 */
#include "../../support/processes.h"
#include "shm/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucc/api/ucc.h>

typedef struct buffers {
    double *src, *dst;
    size_t count;
    int rounds;
} buffers_t;

static void must(ucc_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, ucc_status_string(status));
        exit(1);
    }
}

static void allocate(buffers_t *buffers) {
    buffers->src = malloc(buffers->count * sizeof(double));
    buffers->dst = malloc(buffers->count * sizeof(double));
    if (!buffers->src || !buffers->dst) {
        exit(1);
    }
    memset(buffers->src, 0, buffers->count * sizeof(double));
    memset(buffers->dst, 0, buffers->count * sizeof(double));
}

static ucc_context_h make_context(ucc_lib_h *lib, const process_t *process) {
    ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                               .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t context_params = {
        .mask = UCC_CONTEXT_PARAM_FIELD_OOB,
        .oob = process_oob(process, 0, process->endpoint[0]),
    };
    ucc_lib_config_h config;
    ucc_context_config_h context_config;
    ucc_context_h context;
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    must(ucc_init(&params, config, lib), "ucc_init");
    ucc_lib_config_release(config);
    must(ucc_context_config_read(*lib, NULL, &context_config), "ucc_context_config_read");
    must(ucc_context_create(*lib, &context_params, context_config, &context), "ucc_context_create");
    ucc_context_config_release(context_config);
    return context;
}

static ucc_team_h make_team(ucc_context_h context, const process_t *process) {
    ucc_team_params_t params = {
        .mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
        .oob = process_oob(process, 1, process->endpoint[0]),
        .ep = process->endpoint[0],
        .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
    };
    ucc_team_h team;
    ucc_status_t status;
    must(ucc_team_create_post(&context, 1, &params, &team), "ucc_team_create_post");
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
    }
    must(status, "ucc_team_create_test");
    return team;
}

static void add(ucc_context_h context, ucc_team_h team, buffers_t *buffers) {
    ucc_coll_args_t args = {
        .coll_type = UCC_COLL_TYPE_ALLREDUCE,
        .src.info = {.buffer = buffers->src,
                     .count = buffers->count,
                     .datatype = UCC_DT_FLOAT64,
                     .mem_type = UCC_MEMORY_TYPE_HOST},
        .dst.info = {.buffer = buffers->dst,
                     .count = buffers->count,
                     .datatype = UCC_DT_FLOAT64,
                     .mem_type = UCC_MEMORY_TYPE_HOST},
        .op = UCC_OP_SUM,
    };
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, team), "ucc_collective_init");
    must(ucc_collective_post(request), "ucc_collective_post");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int work(const process_t *process, void *arg) {
    buffers_t *buffers = arg;
    ucc_lib_h lib;
    ucc_context_h context = make_context(&lib, process);
    ucc_team_h team = make_team(context, process);
    double least = 1e18;
    bool wrong = false;
    if (!buffers->src) {
        allocate(buffers);
    }
    for (int round = 0; round < buffers->rounds; round++) {
        for (size_t i = 0; i < buffers->count; i++) {
            buffers->src[i] = (double)(process->endpoint[0] + (unsigned)round) + (double)(i % 100);
        }
        double begin = now();
        add(context, team, buffers);
        double took = now() - begin;
        least = took < least ? took : least;
        for (size_t i = 0; i < buffers->count; i++) {
            wrong = wrong || buffers->dst[i] != 1 + 2 * (round + (double)(i % 100));
        }
    }
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
    }
    must(ucc_context_destroy(context), "ucc_context_destroy");
    must(ucc_finalize(lib), "ucc_finalize");
    free(buffers->src);
    free(buffers->dst);
    if (process->me == 0) {
        printf("%llu %.1f\n", (unsigned long long)atomic_load(&hd_near_found), least);
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv) {
    bool early = argc > 1 && strcmp(argv[1], "early") == 0;
    int next = early ? 2 : 1;
    buffers_t buffers = {.count = 1 << 17, .rounds = 50};
    if (next < argc) {
        buffers.count = strtoul(argv[next], NULL, 10) / sizeof(double);
    }
    if (next + 1 < argc) {
        buffers.rounds = atoi(argv[next + 1]);
    }
    if (early) {
        allocate(&buffers);
    }
    shape_t shape = shape_even(2, 1);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_NET", "n", 1);
    return processes_run(&shape, 60, work, &buffers).ok ? 0 : 1;
}
