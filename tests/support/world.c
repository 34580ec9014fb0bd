/* world.c: see world.h. One function per way of forming a team. */
#include "world.h"
#include "deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *world_form_name(world_form_t form) {
    static const char *const names[WORLD_FORMS] = {"oob", "ep_map", "id", "group"};
    return form < WORLD_FORMS ? names[form] : "?";
}

ucc_lib_h world_lib(ucc_thread_mode_t mode) {
    ucc_lib_config_h config;
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
    ucc_lib_h lib;
    must(ucc_init(&params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    return lib;
}

ucc_context_h world_new_context(ucc_lib_h lib, ucc_context_type_t type, const ucc_oob_coll_t *oob) {
    ucc_context_config_h config;
    must(ucc_context_config_read(lib, NULL, &config), "ucc_context_config_read");
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE, .type = type};
    if (oob != NULL) {
        params.mask |= UCC_CONTEXT_PARAM_FIELD_OOB;
        params.oob = *oob;
    }
    ucc_context_h context;
    must(ucc_context_create(lib, &params, config, &context), "ucc_context_create");
    ucc_context_config_release(config);
    return context;
}

typedef struct context_job {
    ucc_lib_h lib;
    ucc_oob_coll_t oob;
    ucc_context_h context;
} context_job_t;

static void *context_thread(void *arg) {
    context_job_t *job = arg;
    job->context = world_new_context(job->lib, UCC_CONTEXT_EXCLUSIVE, &job->oob);
    return NULL;
}

void world_contexts_with_oob(uint32_t size, ucc_lib_h *libs, oob_board_t *board,
                             ucc_context_h *contexts) {
    context_job_t *jobs = must_alloc(size, sizeof(*jobs));
    pthread_t *threads = must_alloc(size, sizeof(*threads));
    for (uint32_t i = 0; i < size; i++) {
        jobs[i] = (context_job_t){.lib = libs[i], .oob = oob_endpoint(board, i)};
        pthread_create(&threads[i], NULL, context_thread, &jobs[i]);
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(threads[i], NULL);
        contexts[i] = jobs[i].context;
    }
    free(threads);
    free(jobs);
}

void world_finish_teams(uint32_t size, ucc_team_h *teams) {
    deadline_t deadline = deadline_start("team creation");
    uint32_t ready = 0;
    bool *done = must_alloc(size, sizeof(*done));
    while (ready < size) {
        for (uint32_t i = 0; i < size; i++) {
            if (done[i]) {
                continue;
            }
            ucc_status_t st = ucc_team_create_test(teams[i]);
            if (st == UCC_INPROGRESS) {
                continue;
            }
            must(st, "ucc_team_create_test");
            done[i] = true;
            ready++;
        }
        deadline_poll(&deadline);
    }
    free(done);
}

void world_destroy_team(ucc_team_h team) {
    deadline_t deadline = deadline_start("ucc_team_destroy");
    ucc_status_t st;
    while ((st = ucc_team_destroy(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    must(st, "ucc_team_destroy");
}

ucc_context_h world_context(const world_t *world, uint32_t endpoint) {
    return world->contexts[world->n_contexts == 1 ? 0 : endpoint];
}

static void make_libs_and_contexts(world_t *world) {
    bool shared = world->params.shared_context;
    ucc_thread_mode_t mode = shared ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE;
    ucc_context_type_t type = shared ? UCC_CONTEXT_SHARED : UCC_CONTEXT_EXCLUSIVE;
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        world->libs[i] = world_lib(mode);
    }
    if (world->params.form == WORLD_EP_MAP) {
        world_contexts_with_oob(world->n_contexts, world->libs, world->board, world->contexts);
        return;
    }
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        world->contexts[i] = world_new_context(world->libs[i], type, NULL);
    }
}

static ucc_team_params_t team_params(const world_t *world, uint32_t i, uint64_t id) {
    ucc_team_params_t params;
    memset(&params, 0xA5, sizeof(params)); /* fields outside the mask are garbage */
    params.mask = UCC_TEAM_PARAM_FIELD_SYNC_TYPE | UCC_TEAM_PARAM_FIELD_ORDERING |
                  UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE |
                  UCC_TEAM_PARAM_FIELD_TEAM_SIZE;
    params.sync_type = world->params.sync;
    params.ordering = world->params.ordering;
    params.ep = i;
    params.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    params.team_size = world->size;
    if (world->params.form == WORLD_OOB) {
        params.mask |= UCC_TEAM_PARAM_FIELD_OOB;
        params.oob = oob_endpoint(world->board, i);
    } else if (world->params.form == WORLD_EP_MAP) {
        params.mask |= UCC_TEAM_PARAM_FIELD_EP_MAP;
        params.ep_map = (ucc_ep_map_t){.type = UCC_EP_MAP_FULL, .ep_num = world->size};
    } else {
        params.mask |= UCC_TEAM_PARAM_FIELD_ID;
        params.id = id;
    }
    return params;
}

static void form_by_ucc(world_t *world) {
    static _Atomic uint64_t next_id = 1;
    uint64_t id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed); // only unique
    make_libs_and_contexts(world);
    for (uint32_t i = 0; i < world->size; i++) {
        ucc_team_params_t params = team_params(world, i, id);
        ucc_context_h context = world_context(world, i);
        must(ucc_team_create_post(&context, 1, &params, &world->teams[i]), "ucc_team_create_post");
    }
    world_finish_teams(world->size, world->teams);
}

static void form_by_group(world_t *world) {
    heddle_group_params_t params = {
        .endpoints = world->size,
        .contexts = world->params.shared_context ? 1 : 0,
        .thread_mode = world->params.shared_context ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE,
        .ordering = world->params.ordering,
        .sync_type = world->params.sync,
    };
    world->endpoints = must_alloc(world->size, sizeof(heddle_ep_t *));
    must(heddle_group_create(&params, &world->group), "heddle_group_create");
    for (uint32_t i = 0; i < world->size; i++) {
        must(heddle_join(world->group, i, &world->endpoints[i]), "heddle_join");
        world->teams[i] = heddle_ep_team(world->endpoints[i]);
        if (i < world->n_contexts) {
            world->contexts[i] = heddle_ep_context(world->endpoints[i]);
        }
    }
    must(heddle_group_destroy(world->group), "heddle_group_destroy");
    world->group = NULL;
}

world_t *world_create(const world_params_t *params) {
    world_t *world = must_alloc(1, sizeof(*world));
    world->params = *params;
    world->size = params->size;
    world->n_contexts = params->shared_context ? 1 : params->size;
    world->libs = must_alloc(world->n_contexts, sizeof(*world->libs));
    world->contexts = must_alloc(world->n_contexts, sizeof(*world->contexts));
    world->teams = must_alloc(world->size, sizeof(*world->teams));
    if (params->form == WORLD_OOB || params->form == WORLD_EP_MAP) {
        world->board = oob_board_create(world->size);
    }
    if (params->form == WORLD_GROUP) {
        form_by_group(world);
    } else {
        form_by_ucc(world);
    }
    return world;
}

static void destroy_ucc_objects(world_t *world) {
    for (uint32_t i = 0; i < world->size; i++) {
        world_destroy_team(world->teams[i]);
    }
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        must(ucc_context_destroy(world->contexts[i]), "ucc_context_destroy");
        must(ucc_finalize(world->libs[i]), "ucc_finalize");
    }
}

void world_free(world_t *world) {
    if (world->board != NULL) {
        oob_board_destroy(world->board);
    }
    free(world->endpoints);
    free(world->libs);
    free(world->contexts);
    free(world->teams);
    free(world);
}

void world_destroy(world_t *world) {
    for (uint32_t i = 0; world->endpoints != NULL && i < world->size; i++) {
        must(heddle_leave(world->endpoints[i]), "heddle_leave");
    }
    if (world->endpoints == NULL) {
        destroy_ucc_objects(world);
    }
    world_free(world);
}
