/* world.h: a team of endpoints, formed in any of the ways the library knows: all in this process,
 * or in several (processes.h), which then all create the same world, each with its own endpoints.
 *
 *     world_t *world = world_create(&(world_params_t){.size = 5, .form = WORLD_OOB});
 *     ... world->teams[i], world_context(world, i) ...
 *     world_destroy(world);
 *
 * Everything that is not the subject of a test aborts on failure: a world that is returned works.
 */
#ifndef TESTS_WORLD_H_
#define TESTS_WORLD_H_

#include "oob.h"
#include "processes.h"

#include <heddle/heddle.h>
#include <stdbool.h>

typedef enum world_form {
    WORLD_OOB,    /* OOB on the team; contexts without */
    WORLD_EP_MAP, /* contexts created with OOB, team from an ep_map over them */
    WORLD_ID,     /* no OOB at all: TEAM_SIZE, EP, ID */
    WORLD_GROUP,  /* heddle_group; across processes its endpoints are numbered consecutively */
    WORLD_PARENT, /* all endpoints of a team of WORLD_OOB, by ucc_team_create_from_parent */
    WORLD_EPS,    /* the same, last endpoint first, by ucc_create_team_from_eps */
    WORLD_FORMS
} world_form_t;

typedef struct world_params {
    uint32_t size;
    world_form_t form;
    ucc_coll_sync_type_t sync;
    ucc_post_ordering_t ordering;
    /* One context for all endpoints, fit to be used by several threads at once (not with
     * WORLD_EP_MAP, whose map names contexts). Otherwise every endpoint has its own lib and
     * context. */
    bool shared_context;
    /* NULL: all endpoints are in this process. Else `size` is that of the shape; not with WORLD_ID,
     * which nobody outside the process can find. */
    const process_t *process;
    uint32_t board; /* of the processes, for the exchange that forms it */
} world_params_t;

typedef struct world {
    world_params_t params;
    uint32_t size;   /* endpoints of the team */
    uint32_t n_mine; /* how many of them are in this process, if `mine` is there; else all are */
    uint32_t *mine;  /* [n_mine] their numbers, ascending; NULL: one process */
    uint32_t
        *process_of; /* [size] in which process of the shape an endpoint is; NULL: one process */
    uint32_t n_contexts;     /* 1, or one for each endpoint of mine */
    ucc_lib_h *libs;         /* [n_contexts]; NULL with WORLD_GROUP */
    ucc_context_h *contexts; /* [n_contexts] */
    ucc_team_h *teams;       /* [size]; NULL: in another process */
    ucc_team_h *parents;     /* [size], of which the teams were made; NULL: none */
    oob_board_t *board;      /* NULL where no OOB is used */
    heddle_group_t *group;   /* WORLD_GROUP only */
    heddle_ep_t **endpoints; /* [size], WORLD_GROUP only; NULL: in another process */
} world_t;

const char *world_form_name(world_form_t form);
world_t *world_create(const world_params_t *params);
void world_destroy(world_t *world);
/* Without the UCC objects: for tests that have destroyed those themselves. */
void world_free(world_t *world);
/* Of an endpoint of mine. */
ucc_context_h world_context(const world_t *world, uint32_t endpoint);
/* How many endpoints this process has, and the k-th of them. */
uint32_t world_count(const world_t *world);
uint32_t world_endpoint(const world_t *world, uint32_t k);

/* --- the steps, for tests that form teams themselves --- */

/* A lib handle with default configuration. */
ucc_lib_h world_lib(ucc_thread_mode_t mode);

/* A context; oob may be NULL. With an oob it may block until all n_oob_eps have called. */
ucc_context_h world_new_context(ucc_lib_h lib, ucc_context_type_t type, const ucc_oob_coll_t *oob);

/* `size` contexts on `libs`, each created with its OOB by a thread of its own. */
void world_contexts_with_oob(uint32_t size, ucc_lib_h *libs, const ucc_oob_coll_t *oobs,
                             ucc_context_h *contexts);

/* Drives ucc_team_create_test() round robin until all of them say UCC_OK; NULL entries are skipped.
 */
void world_finish_teams(uint32_t size, ucc_team_h *teams);

/* As clients do it: loops while UCC_INPROGRESS, without progress. */
void world_destroy_team(ucc_team_h team);

#endif
