/* placed.h: a world whose endpoints say where they run, as if placed on the machine that
 * HEDDLE_TOPOLOGY describes; and forked children, one per description, because a process reads it
 * once.
 */
#ifndef TESTS_REPRO_PLACED_H_
#define TESTS_REPRO_PLACED_H_

#include "../support/deadline.h"
#include "../support/world.h"
#include "core/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum placing {
    PLACING_NONE,      /* no hints */
    PLACING_COMPACT,   /* neighbours in number are neighbours in the machine */
    PLACING_SCATTERED, /* they are not: the tree by topology has another order than the numbers */
    PLACINGS
} placing_t;

/* Place of endpoint i. n is not a multiple of 5. */
static inline heddle_locality_t placed_at(placing_t placing, uint32_t i, uint32_t n) {
    heddle_locality_t hint = HEDDLE_LOCALITY_NONE;
    if (placing != PLACING_NONE) {
        hd_locality_t where;
        hd_topo_place(hd_topo_get(), placing == PLACING_SCATTERED ? 5 * i % n : i, n, &where);
        hint = (heddle_locality_t){where.package, where.numa, where.l3, where.core};
    }
    return hint;
}

/* By heddle_group; to be destroyed by world_destroy(). */
static inline world_t *placed_world(const world_params_t *params, placing_t placing) {
    world_t *world = must_alloc(1, sizeof(*world));
    world->params = *params;
    world->params.form = WORLD_GROUP;
    world->size = params->size;
    world->n_contexts = params->shared_context ? 1 : params->size;
    world->contexts = must_alloc(world->n_contexts, sizeof(*world->contexts));
    world->teams = must_alloc(world->size, sizeof(*world->teams));
    world->endpoints = must_alloc(world->size, sizeof(heddle_ep_t *));
    heddle_group_params_t group = {
        .endpoints = world->size,
        .contexts = params->shared_context ? 1 : 0,
        .thread_mode = params->shared_context ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE,
        .sync_type = params->sync,
    };
    must(heddle_group_create(&group, &world->group), "heddle_group_create");
    for (uint32_t i = 0; i < world->size; i++) {
        heddle_locality_t where = placed_at(placing, i, world->size);
        must(heddle_join_at(world->group, i, placing == PLACING_NONE ? NULL : &where,
                            &world->endpoints[i]),
             "heddle_join_at");
        world->teams[i] = heddle_ep_team(world->endpoints[i]);
        if (i < world->n_contexts) {
            world->contexts[i] = heddle_ep_context(world->endpoints[i]);
        }
    }
    must(heddle_group_destroy(world->group), "heddle_group_destroy");
    world->group = NULL;
    return world;
}

/* Runs work(index) in a child for which the machine is `description` (empty: the real one). No
 * thread may be running. True if it returned true. */
static inline bool placed_run(const char *description, bool (*work)(uint32_t index),
                              uint32_t index) {
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        abort();
    }
    if (child == 0) {
        setenv("HEDDLE_TOPOLOGY", description, 1);
        bool good = work(index);
        fflush(NULL);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        perror("waitpid");
        abort();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "FAILED: machine '%s': child ended with status %#x\n", description,
                (unsigned)status);
        return false;
    }
    return true;
}

#endif
