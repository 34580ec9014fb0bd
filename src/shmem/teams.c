/* teams.c: teams and contexts. All that the library needs of a team is three numbers and an
 * endpoint: a split is arithmetic and heddle_subset(), without an exchange. A context is the
 * numbers of its team, since all operations are complete when they return.
 */
#include "pe.h"

#include <stdlib.h>

/* It is the same at all PEs. */
struct shmem_context shmem_handle_default = {0, 1, 0, SHMEM_TEAM_WORLD, NULL};
struct shmem_context shmem_handle_invalid = {0, 1, 0, SHMEM_TEAM_INVALID, NULL}; /* of no PE */

void team_form(struct shmem_team *team, const struct shmem_team *parent, int start, int stride,
               int size) {
    uint32_t *list = malloc((size_t)size * sizeof(*list));
    if (!list) {
        fail("shmem_team_split_strided", "no memory");
    }
    for (int i = 0; i < size; i++) {
        list[i] = (uint32_t)(start + i * stride);
    }
    must(heddle_subset(parent->endpoint, list, (uint32_t)size, &team->endpoint),
         "shmem_team_split_strided");
    free(list);
    team->start = parent->start + start * parent->stride;
    team->stride = stride * parent->stride;
    team->size = size;
    team->my_pe = (int)heddle_ep_index(team->endpoint);
}

void teams_begin(pe_t *pe) {
    pe->world.stride = 1;
    pe->world.size = the_world.size;
    pe->world.my_pe = pe->number;
    team_form(&pe->shared, &pe->world, 0, 1, the_world.size);
}

void teams_end(pe_t *pe) {
    while (pe->teams) {
        shmem_team_destroy(pe->teams);
    }
    while (pe->contexts) {
        shmem_ctx_destroy(pe->contexts);
    }
    must(heddle_leave(pe->shared.endpoint), "shmem_finalize");
    pe->shared.endpoint = NULL;
}

int shmem_team_my_pe(shmem_team_t team) {
    return team == SHMEM_TEAM_INVALID ? -1 : own_team(team)->my_pe;
}

int shmem_team_n_pes(shmem_team_t team) {
    return team == SHMEM_TEAM_INVALID ? -1 : own_team(team)->size;
}

int shmem_team_get_config(shmem_team_t team, long mask, shmem_team_config_t *config) {
    if (team == SHMEM_TEAM_INVALID) {
        return -1;
    }
    if (mask & SHMEM_TEAM_NUM_CONTEXTS) {
        config->num_contexts = own_team(team)->config.num_contexts;
    }
    return 0;
}

/* The number of a PE of the world in a team, or -1. */
static int number_in(const struct shmem_team *team, int world_pe) {
    int distance = world_pe - team->start, stride = team->stride ? team->stride : 1;
    int number = distance / stride;
    return distance % stride == 0 && number >= 0 && number < team->size ? number : -1;
}

int shmem_team_translate_pe(shmem_team_t from, int pe, shmem_team_t to) {
    if (from == SHMEM_TEAM_INVALID || to == SHMEM_TEAM_INVALID) {
        return -1;
    }
    const struct shmem_team *team = own_team(from);
    return pe < 0 || pe >= team->size ? -1
                                      : number_in(own_team(to), team->start + pe * team->stride);
}

/* A new team of which this PE is a member. */
static shmem_team_t create(const struct shmem_team *parent, int start, int stride, int size,
                           const shmem_team_config_t *config, long mask) {
    pe_t *pe = this_pe;
    struct shmem_team *team = calloc(1, sizeof(*team));
    if (!team) {
        fail("shmem_team_split_strided", "no memory");
    }
    team_form(team, parent, start, stride, size);
    if (config && (mask & SHMEM_TEAM_NUM_CONTEXTS)) {
        team->config.num_contexts = config->num_contexts;
    }
    pthread_mutex_lock(&pe->lock);
    team->next = pe->teams;
    pe->teams = team;
    pthread_mutex_unlock(&pe->lock);
    return team;
}

int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size,
                             const shmem_team_config_t *config, long mask, shmem_team_t *team) {
    *team = SHMEM_TEAM_INVALID;
    if (parent == SHMEM_TEAM_INVALID) {
        return -1;
    }
    const struct shmem_team *old = own_team(parent);
    int64_t last = start + (int64_t)stride * ((int64_t)size - 1);
    if (size < 1 || start < 0 || start >= old->size || last < 0 || last >= old->size ||
        (stride == 0 && size != 1)) {
        return -1;
    }
    /* The stride of one PE is nobody's; 1 keeps arithmetic away from 0. */
    const struct shmem_team slice = {.start = start, .stride = size > 1 ? stride : 1, .size = size};
    if (number_in(&slice, old->my_pe) >= 0) {
        *team = create(old, start, slice.stride, size, config, mask);
    }
    return 0;
}

int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t *x_config,
                        long x_mask, shmem_team_t *x_team, const shmem_team_config_t *y_config,
                        long y_mask, shmem_team_t *y_team) {
    *x_team = *y_team = SHMEM_TEAM_INVALID;
    if (parent == SHMEM_TEAM_INVALID || xrange < 1) {
        return -1;
    }
    const struct shmem_team *old = own_team(parent);
    int width = xrange < old->size ? xrange : old->size;
    int x = old->my_pe % width, first = old->my_pe - x;
    int row = old->size - first < width ? old->size - first : width;
    *x_team = create(old, first, 1, row, x_config, x_mask);
    *y_team = create(old, x, width, (old->size - x + width - 1) / width, y_config, y_mask);
    return 0;
}

/* Takes the first context out of the list that is this one, or of that team; NULL when there is
 * none. */
static shmem_ctx_t unlink_context(shmem_ctx_t ctx, shmem_team_t team) {
    pthread_mutex_lock(&this_pe->lock);
    shmem_ctx_t *link = &this_pe->contexts;
    while (*link && *link != ctx && (!team || (*link)->team != team)) {
        link = &(*link)->next;
    }
    shmem_ctx_t found = *link;
    if (found) {
        *link = found->next;
    }
    pthread_mutex_unlock(&this_pe->lock);
    return found;
}

void shmem_team_destroy(shmem_team_t team) {
    if (team == SHMEM_TEAM_INVALID) {
        return;
    }
    if (team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED) {
        fail(__func__, "a predefined team is not to be destroyed");
    }
    for (shmem_ctx_t ctx; (ctx = unlink_context(NULL, team)) != NULL;) {
        free(ctx);
    }
    pthread_mutex_lock(&this_pe->lock);
    struct shmem_team **link = &this_pe->teams;
    while (*link && *link != team) {
        link = &(*link)->next;
    }
    if (!*link) {
        fail(__func__, "%p is no team", (void *)team);
    }
    *link = team->next;
    pthread_mutex_unlock(&this_pe->lock);
    must(heddle_leave(team->endpoint), __func__);
    free(team);
}

int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx) {
    (void)options; /* any thread may use any context */
    *ctx = SHMEM_CTX_INVALID;
    if (team == SHMEM_TEAM_INVALID) {
        return -1;
    }
    const struct shmem_team *own = own_team(team);
    struct shmem_context *made = malloc(sizeof(*made));
    if (!made) {
        return -1;
    }
    pthread_mutex_lock(&this_pe->lock);
    *made = (struct shmem_context){own->start, own->stride, own->size, team, this_pe->contexts};
    this_pe->contexts = made;
    pthread_mutex_unlock(&this_pe->lock);
    *ctx = made;
    return 0;
}

int shmem_ctx_create(long options, shmem_ctx_t *ctx) {
    return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team) {
    *team = ctx == SHMEM_CTX_INVALID ? SHMEM_TEAM_INVALID : ctx->team;
    return ctx == SHMEM_CTX_INVALID ? -1 : 0;
}

void shmem_ctx_destroy(shmem_ctx_t ctx) {
    if (ctx != SHMEM_CTX_INVALID && ctx != SHMEM_CTX_DEFAULT) {
        free(unlink_context(ctx, NULL));
    }
}
