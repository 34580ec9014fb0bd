/* world.c: see world.h.
 *
 * Of the ways to find the other processes, the first that is asked for counts:
 *
 *     --processes N --rank R   this process is R of N, started by hand; --address, --key-file or
 *                              the variables
 *     --processes N            this process starts N others, which meet at a loopback address with
 *                              a key drawn for them, and waits for their ends
 *     a key in the environment rank and size as the launcher says (heddle_bootstrap_env)
 */
#include "run.h"
#include "world.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint32_t processes, me;
    ucc_oob_coll_t oob;
} world = {.processes = 1};

static bool alone(perf_options_t *o) {
    o->host_workers = o->workers;
    o->local = o->endpoints;
    o->most_local = o->endpoints;
    o->processes = 1;
    return true;
}

const ucc_oob_coll_t *perf_world_oob(void) {
    return world.processes > 1 ? &world.oob : NULL;
}

void perf_world_gather(const void *mine, size_t bytes, void *all) {
    if (world.processes == 1) {
        if (bytes != 0) {
            memcpy(all, mine, bytes);
        }
        return;
    }
    void *request = NULL;
    perf_require(
        world.oob.allgather((void *)(uintptr_t)mine, all, bytes, world.oob.coll_info, &request),
        "the processes' exchange");
    ucc_status_t status;
    while ((status = world.oob.req_test(request)) == UCC_INPROGRESS) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* the processors may be needed */
    }
    perf_require(status, "the processes' exchange");
    perf_require(world.oob.req_free(request), "the processes' exchange");
}

void perf_world_share(void *data, size_t bytes) {
    if (world.processes == 1) {
        return;
    }
    unsigned char *all = perf_allocate(world.processes * bytes);
    perf_world_gather(data, bytes, all);
    memcpy(data, all, bytes);
    free(all);
}

void perf_world_meet(void) {
    char mine = 0, *all = perf_allocate(world.processes);
    perf_world_gather(&mine, sizeof(mine), all);
    free(all);
}

#ifdef TOOL_HAVE_BOOTSTRAP

#include "common/launch.h"

static heddle_bootstrap_t *bootstrap;

void perf_world_close(void) {
    (void)heddle_bootstrap_end(bootstrap);
    bootstrap = NULL;
    world.processes = 1;
}

/* What each process tells the others of itself. */
typedef struct card {
    char host[64];   /* its name, and when its system started */
    uint64_t places; /* processors that it may use, hashed */
    uint32_t endpoints, workers;
    uint64_t asked; /* what is measured, hashed: must be the same */
} card_t;

static uint64_t hash(uint64_t x, const void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        x = (x ^ ((const unsigned char *)at)[i]) * UINT64_C(1099511628211);
    }
    return x;
}

static uint64_t hash_asked(const perf_options_t *o) {
    const uint64_t facts[] = {o->bytes_min,
                              o->bytes_max,
                              o->factor,
                              (uint64_t)o->datatype->dt,
                              (uint64_t)o->operation->op,
                              o->in_place,
                              o->persistent,
                              o->verify,
                              o->uneven,
                              o->touch,
                              o->limits,
                              o->overlap,
                              o->back_to_back,
                              o->root,
                              o->alternate,
                              o->messages,
                              o->reference,
                              (uint64_t)o->api,
                              o->warmup,
                              o->iterations};
    uint64_t x = hash(UINT64_C(14695981039346656037), facts, sizeof(facts));
    x = hash(x, &o->seconds, sizeof(o->seconds));
    for (size_t i = 0; i < o->n_chosen; i++) {
        x = hash(x, o->chosen[i]->name, strlen(o->chosen[i]->name));
    }
    return x;
}

static card_t my_card(const perf_options_t *o) {
    card_t card = {.endpoints = o->endpoints, .workers = o->workers, .asked = hash_asked(o)};
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t used = 0;
    if (boot != NULL) {
        used = fread(card.host, 1, 36, boot);
        fclose(boot);
    }
    (void)gethostname(card.host + used, sizeof(card.host) - used - 1);
    cpu_set_t places;
    CPU_ZERO(&places);
    (void)sched_getaffinity(0, sizeof(places), &places);
    card.places = hash(UINT64_C(14695981039346656037), &places, sizeof(places));
    return card;
}

/* The numbers of this process's endpoints, and its threads' among those that share its processors.
 */
static bool take_places(perf_options_t *o) {
    card_t *all = perf_allocate(world.processes * sizeof(*all)), mine = my_card(o);
    perf_world_gather(&mine, sizeof(mine), all);
    bool same = true;
    o->local = o->endpoints;
    o->processes = world.processes;
    o->process = world.me;
    o->endpoints = 0;
    o->most_local = 0;
    for (uint32_t p = 0; p < world.processes; p++) {
        o->first = p == world.me ? o->endpoints : o->first;
        o->endpoints += all[p].endpoints;
        o->most_local = all[p].endpoints > o->most_local ? all[p].endpoints : o->most_local;
        same = same && all[p].asked == mine.asked;
        if (memcmp(all[p].host, mine.host, sizeof(mine.host)) == 0 &&
            all[p].places == mine.places) {
            o->host_first = p == world.me ? o->host_workers : o->host_first;
            o->host_workers += all[p].workers;
        }
    }
    free(all);
    if (!same) {
        fprintf(stderr, "heddle_perf: the processes have been asked for different things\n");
    }
    return same;
}

static bool join(perf_options_t *o, const heddle_bootstrap_params_t *params, bool launched) {
    ucc_status_t status = launched ? heddle_bootstrap_env(params, &bootstrap)
                                   : heddle_bootstrap_tcp(params, &bootstrap);
    if (status != UCC_OK) {
        fprintf(stderr, "heddle_perf: the processes can't meet: %s\n", ucc_status_string(status));
        return false;
    }
    world.processes = heddle_bootstrap_size(bootstrap);
    world.me = heddle_bootstrap_rank(bootstrap);
    heddle_bootstrap_oob(bootstrap, &world.oob);
    return world.processes == 1 ? alone(o) : take_places(o);
}

/* In a process that the tool has started, or in the one that has. */
static bool start(perf_options_t *o, int *exit_status) {
    heddle_bootstrap_params_t params;
    return launch_processes("heddle_perf", o->processes, &params, exit_status) &&
           join(o, &params, false);
}

bool perf_world_open(perf_options_t *o, int *exit_status) {
    *exit_status = 1;
    heddle_bootstrap_params_t params = {
        .rank = o->rank, .size = o->processes, .address = o->address, .key_file = o->key_file};
    if (o->ranked) {
        return join(o, &params, false);
    }
    if (o->processes > 1) {
        return start(o, exit_status);
    }
    if (o->processes == 0 && (o->key_file != NULL || getenv("HEDDLE_BOOTSTRAP_KEY") != NULL ||
                              getenv("HEDDLE_BOOTSTRAP_KEY_FILE") != NULL)) {
        return join(o, &params, true);
    }
    return alone(o);
}

#else /* no libsodium, so no libheddle_bootstrap */

void perf_world_close(void) {
}

bool perf_world_open(perf_options_t *o, int *exit_status) {
    *exit_status = 2;
    if (o->processes > 1 || o->ranked || o->key_file != NULL) {
        fprintf(stderr, "heddle_perf: built without libheddle_bootstrap, which several processes "
                        "need to meet\n");
        return false;
    }
    return alone(o);
}

#endif
