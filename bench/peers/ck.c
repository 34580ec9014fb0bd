/* ck.c: Concurrency Kit's barriers; --variant says which. They spin and never yield. */
#include <ck_barrier.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

enum { GROUP = 2 }; /* participants that share a leaf of the combining tree */

typedef enum { CENTRALIZED, COMBINING, DISSEMINATION, TOURNAMENT, MCS } variant_t;

static const char *const variants[] = {"centralized", "combining", "dissemination", "tournament",
                                       "mcs"};

static variant_t variant;
static ck_barrier_centralized_t centralized = CK_BARRIER_CENTRALIZED_INITIALIZER;
static ck_barrier_combining_t combining;
static ck_barrier_combining_group_t combining_root, *combining_groups;
static ck_barrier_dissemination_t *dissemination;
static ck_barrier_tournament_t tournament;
static ck_barrier_mcs_t *mcs;

static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static bool made;

/* A participant's own part, on lines of its own. */
typedef struct self {
    alignas(128) ck_barrier_centralized_state_t centralized;
    ck_barrier_combining_state_t combining;
    ck_barrier_dissemination_state_t dissemination;
    ck_barrier_tournament_state_t tournament;
    ck_barrier_mcs_state_t mcs;
} self_t;

static void *zeroed(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 128, bytes) != 0) {
        bench_fail("barrier", "out of memory");
    }
    return memset(memory, 0, bytes);
}

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "%s", BENCH_VERSION);
}

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && c->coll->id == BENCH_BARRIER;
}

static void make_combining(uint32_t n) {
    uint32_t groups = (n + GROUP - 1) / GROUP;
    combining_groups = zeroed(groups * sizeof(*combining_groups));
    ck_barrier_combining_init(&combining, &combining_root);
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t members = n - i * GROUP < GROUP ? n - i * GROUP : GROUP;
        ck_barrier_combining_group_init(&combining, &combining_groups[i], members);
    }
}

static void make_dissemination(uint32_t n) {
    ck_barrier_dissemination_flag_t **flags = zeroed(n * sizeof(*flags));
    dissemination = zeroed(n * sizeof(*dissemination));
    for (uint32_t i = 0; i < n; i++) {
        flags[i] = zeroed(ck_barrier_dissemination_size(n) * sizeof(**flags));
    }
    ck_barrier_dissemination_init(dissemination, flags, n);
    free(flags);
}

static void make_tournament(uint32_t n) {
    ck_barrier_tournament_round_t **rounds = zeroed(n * sizeof(*rounds));
    for (uint32_t i = 0; i < n; i++) {
        rounds[i] = zeroed(ck_barrier_tournament_size(n) * sizeof(**rounds));
    }
    ck_barrier_tournament_init(&tournament, rounds, n);
}

/* By whoever comes first; the barrier dies with the process. */
static void make(const bench_options_t *o) {
    while (strcmp(variants[variant], o->variant) != 0) {
        if (variant == MCS) {
            bench_fail("no such barrier", o->variant);
        }
        variant++;
    }
    switch (variant) {
    case CENTRALIZED:
        break;
    case COMBINING:
        make_combining(o->participants);
        break;
    case DISSEMINATION:
        make_dissemination(o->participants);
        break;
    case TOURNAMENT:
        make_tournament(o->participants);
        break;
    case MCS:
        mcs = zeroed(o->participants * sizeof(*mcs));
        ck_barrier_mcs_init(mcs, o->participants);
        break;
    }
}

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)rank;
    self_t *self = zeroed(sizeof(*self));
    self->combining = (ck_barrier_combining_state_t){~0U}; /* its initializer, unsigned */
    pthread_mutex_lock(&made_lock);
    if (!made) {
        make(o);
        made = true;
    }
    if (variant == DISSEMINATION) {
        ck_barrier_dissemination_subscribe(dissemination, &self->dissemination);
    } else if (variant == TOURNAMENT) {
        ck_barrier_tournament_subscribe(&tournament, &self->tournament);
    } else if (variant == MCS) {
        ck_barrier_mcs_subscribe(mcs, &self->mcs);
    }
    pthread_mutex_unlock(&made_lock);
    return self;
}

static void call(void *opaque, const bench_case_t *c, uint32_t root) {
    self_t *self = opaque;
    (void)root;
    switch (variant) {
    case CENTRALIZED:
        ck_barrier_centralized(&centralized, &self->centralized, c->participants);
        break;
    case COMBINING:
        ck_barrier_combining(&combining, &combining_groups[c->rank / GROUP], &self->combining);
        break;
    case DISSEMINATION:
        ck_barrier_dissemination(dissemination, &self->dissemination);
        break;
    case TOURNAMENT:
        ck_barrier_tournament(&tournament, &self->tournament);
        break;
    case MCS:
        ck_barrier_mcs(mcs, &self->mcs);
        break;
    }
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {
        .name = "ck", .version = version, .supports = supports, .join = join, .call = call};
    return bench_main(&peer, argc, argv);
}
