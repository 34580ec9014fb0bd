/* heddle.c: Heddle's blocking calls, one thread per endpoint. */
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdio.h>

#include "heddle_calls.h"

static heddle_group_t *group;
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        bench_fail(what, ucc_status_string(status));
    }
}

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "Heddle, UCC interface %s", ucc_get_version_string());
}

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && c->coll->id <= BENCH_ALLTOALLV;
}

/* The group is made by whoever comes first and dies with the process. */
static void *join(const bench_options_t *o, uint32_t rank) {
    heddle_ep_t *ep;
    pthread_mutex_lock(&group_lock);
    if (group == NULL) {
        require(heddle_group_create(&(heddle_group_params_t){.endpoints = o->participants}, &group),
                "heddle_group_create");
    }
    pthread_mutex_unlock(&group_lock);
    require(heddle_join(group, rank, &ep), "heddle_join");
    return ep;
}

static void leave(void *self) {
    require(heddle_leave(self), "heddle_leave");
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    require(bench_heddle_call(self, c, root), c->coll->name);
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = "heddle",
                                      .version = version,
                                      .supports = supports,
                                      .join = join,
                                      .leave = leave,
                                      .call = call};
    return bench_main(&peer, argc, argv);
}
