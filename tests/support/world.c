/* world.c: see world.h. One function per way of forming a team. */
#include "world.h"
#include "deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *world_form_name(world_form_t form) {
    static const char *const names[WORLD_FORMS] = {"oob", "ep_map", "id", "group", "parent", "eps"};
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

void world_contexts_with_oob(uint32_t size, ucc_lib_h *libs, const ucc_oob_coll_t *oobs,
                             ucc_context_h *contexts) {
    context_job_t *jobs = must_alloc(size, sizeof(*jobs));
    pthread_t *threads = must_alloc(size, sizeof(*threads));
    for (uint32_t i = 0; i < size; i++) {
        jobs[i] = (context_job_t){.lib = libs[i], .oob = oobs[i]};
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
    uint32_t left = 0;
    bool *done = must_alloc(size, sizeof(*done));
    for (uint32_t i = 0; i < size; i++) {
        done[i] = teams[i] == NULL;
        left += !done[i];
    }
    while (left > 0) {
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
            left--;
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

uint32_t world_count(const world_t *world) {
    return world->mine != NULL ? world->n_mine : world->size;
}

uint32_t world_endpoint(const world_t *world, uint32_t k) {
    return world->mine != NULL ? world->mine[k] : k;
}

/* Which of mine the endpoint is. */
static uint32_t place_of(const world_t *world, uint32_t endpoint) {
    uint32_t k = world->mine != NULL ? 0 : endpoint;
    while (world_endpoint(world, k) != endpoint) {
        k++;
    }
    return k;
}

ucc_context_h world_context(const world_t *world, uint32_t endpoint) {
    return world->contexts[world->n_contexts == 1 ? 0 : place_of(world, endpoint)];
}

static ucc_oob_coll_t oob_of(const world_t *world, uint32_t endpoint) {
    return world->params.process != NULL
               ? process_oob(world->params.process, world->params.board, endpoint)
               : oob_endpoint(world->board, endpoint);
}

static void make_libs_and_contexts(world_t *world) {
    bool shared = world->params.shared_context;
    ucc_thread_mode_t mode = shared ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE;
    ucc_context_type_t type = shared ? UCC_CONTEXT_SHARED : UCC_CONTEXT_EXCLUSIVE;
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        world->libs[i] = world_lib(mode);
    }
    if (world->params.form == WORLD_EP_MAP) {
        ucc_oob_coll_t *oobs = must_alloc(world->n_contexts, sizeof(*oobs));
        for (uint32_t k = 0; k < world->n_contexts; k++) {
            oobs[k] = oob_of(world, world_endpoint(world, k));
        }
        world_contexts_with_oob(world->n_contexts, world->libs, oobs, world->contexts);
        free(oobs);
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
    world_form_t form = world->params.form;
    if (form == WORLD_OOB || form == WORLD_PARENT || form == WORLD_EPS) {
        params.mask |= UCC_TEAM_PARAM_FIELD_OOB;
        params.oob = oob_of(world, i);
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
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint32_t i = world_endpoint(world, k);
        ucc_team_params_t params = team_params(world, i, id);
        ucc_context_h context = world_context(world, i);
        must(ucc_team_create_post(&context, 1, &params, &world->teams[i]), "ucc_team_create_post");
    }
    world_finish_teams(world->size, world->teams);
}

static void reverse(void *array, uint32_t n, size_t bytes) {
    char *at = array, last[64];
    for (uint32_t i = 0; i < n / 2; i++) {
        memcpy(last, at + i * bytes, bytes);
        memcpy(at + i * bytes, at + (n - 1 - i) * bytes, bytes);
        memcpy(at + (n - 1 - i) * bytes, last, bytes);
    }
}

/* Endpoint i becomes endpoint size - 1 - i. */
static void turn_round(world_t *world) {
    uint32_t n = world->size;
    reverse(world->teams, n, sizeof(*world->teams));
    reverse(world->parents, n, sizeof(*world->parents));
    if (world->n_contexts > 1) {
        reverse(world->contexts, world->n_contexts, sizeof(*world->contexts));
        reverse(world->libs, world->n_contexts, sizeof(*world->libs));
    }
    if (world->mine != NULL) {
        reverse(world->process_of, n, sizeof(*world->process_of));
        reverse(world->mine, world->n_mine, sizeof(*world->mine));
        for (uint32_t k = 0; k < world->n_mine; k++) {
            world->mine[k] = n - 1 - world->mine[k];
        }
    }
}

/* A second team from the first, which lives on beside it. */
static void form_from_team(world_t *world) {
    uint32_t n = world->size;
    uint64_t *list = must_alloc(n, sizeof(*list));
    form_by_ucc(world);
    world->parents = world->teams;
    world->teams = must_alloc(n, sizeof(*world->teams));
    for (uint32_t i = 0; i < n; i++) {
        list[i] = n - 1 - i;
    }
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint32_t i = world_endpoint(world, k);
        must(world->params.form == WORLD_EPS
                 ? ucc_create_team_from_eps(world->parents[i], &list, n, &world->teams[i])
                 : ucc_team_create_from_parent(i, 1, world->parents[i], &world->teams[i]),
             "a team from a team");
    }
    world_finish_teams(n, world->teams);
    if (world->params.form == WORLD_EPS) {
        turn_round(world);
    }
    free(list);
}

static void form_by_group(world_t *world) {
    ucc_oob_coll_t oob;
    heddle_group_params_t params = {
        .endpoints = world_count(world),
        .contexts = world->params.shared_context ? 1 : 0,
        .thread_mode = world->params.shared_context ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE,
        .ordering = world->params.ordering,
        .sync_type = world->params.sync,
    };
    if (world->params.process != NULL) {
        oob = process_group_oob(world->params.process, world->params.board);
        params.oob = &oob;
    }
    world->endpoints = must_alloc(world->size, sizeof(heddle_ep_t *));
    must(heddle_group_create(&params, &world->group), "heddle_group_create");
    for (uint32_t k = 0; k < world_count(world); k++) {
        heddle_ep_t *ep;
        uint32_t i = world_endpoint(world, k);
        must(heddle_join(world->group, k, &ep), "heddle_join");
        must(heddle_ep_index(ep) == i ? UCC_OK : UCC_ERR_LAST, "heddle_ep_index");
        world->endpoints[i] = ep;
        world->teams[i] = heddle_ep_team(ep);
        if (k < world->n_contexts) {
            world->contexts[k] = heddle_ep_context(ep);
        }
    }
    must(heddle_group_destroy(world->group), "heddle_group_destroy");
    world->group = NULL;
}

static void take_process(world_t *world, const process_t *process) {
    must(world->size == process->size ? UCC_OK : UCC_ERR_LAST, "the world's size");
    world->n_mine = process->n;
    world->mine = must_alloc(process->n, sizeof(*world->mine));
    memcpy(world->mine, process->endpoint, process->n * sizeof(*world->mine));
    world->process_of = must_alloc(process->size, sizeof(*world->process_of));
    memcpy(world->process_of, process->process_of, process->size * sizeof(*world->process_of));
}

world_t *world_create(const world_params_t *params) {
    world_t *world = must_alloc(1, sizeof(*world));
    world->params = *params;
    world->size = params->size;
    if (params->process != NULL) {
        take_process(world, params->process);
    } else {
        world->board = oob_board_create(world->size);
    }
    world->n_contexts = params->shared_context ? 1 : world_count(world);
    world->libs = must_alloc(world->n_contexts, sizeof(*world->libs));
    world->contexts = must_alloc(world->n_contexts, sizeof(*world->contexts));
    world->teams = must_alloc(world->size, sizeof(*world->teams));
    if (params->form == WORLD_GROUP) {
        form_by_group(world);
    } else if (params->form == WORLD_PARENT || params->form == WORLD_EPS) {
        form_from_team(world);
    } else {
        form_by_ucc(world);
    }
    return world;
}

static void destroy_ucc_objects(world_t *world) {
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint32_t i = world_endpoint(world, k);
        if (world->parents != NULL) {
            world_destroy_team(world->parents[i]);
        }
        if (world->teams[i]) { /* the test has not */
            world_destroy_team(world->teams[i]);
        }
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
    free(world->mine);
    free(world->process_of);
    free(world->parents);
    free(world->endpoints);
    free(world->libs);
    free(world->contexts);
    free(world->teams);
    free(world);
}

void world_destroy(world_t *world) {
    for (uint32_t k = 0; world->endpoints != NULL && k < world_count(world); k++) {
        must(heddle_leave(world->endpoints[world_endpoint(world, k)]), "heddle_leave");
    }
    if (world->endpoints == NULL) {
        destroy_ucc_objects(world);
    }
    world_free(world);
}
