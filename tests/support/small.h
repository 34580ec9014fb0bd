/* small.h: short collectives on int32 for tests that are about calls rather than data.
 *
 * Arguments start as garbage with an empty mask; only what the type needs is set. One thread drives
 * all endpoints of a world.
 */
#ifndef TESTS_SMALL_H_
#define TESTS_SMALL_H_

#include "../reference.h"
#include "driver.h"

/* A world of n endpoints with contexts of their own, formed by team OOB. */
world_t *small_world(uint32_t n);

ucc_coll_args_t small_args(ucc_coll_type_t type);
ucc_coll_buffer_info_t small_info(void *buffer, uint64_t count);
/* counts and displacements are arrays of uint32_t here. */
ucc_coll_buffer_info_v_t small_info_v(void *buffer, uint32_t *counts, uint32_t *displacements);

/* The common ones; sums where something is reduced. */
ucc_coll_args_t small_barrier(void);
ucc_coll_args_t small_allreduce(int32_t *src, int32_t *dst, uint64_t count);
ucc_coll_args_t small_bcast(int32_t *buffer, uint64_t count, uint64_t root);
ucc_coll_args_t small_allgather(int32_t *src, int32_t *dst, uint64_t count, uint32_t n);

/* init; init and post. Both abort on failure. */
ucc_coll_req_h small_init(world_t *world, uint32_t i, ucc_coll_args_t *args);
ucc_coll_req_h small_start(world_t *world, uint32_t i, ucc_coll_args_t *args);

/* Progresses all contexts until none of the n requests is in progress. NULL entries are skipped. */
void small_wait(world_t *world, ucc_coll_req_h *requests, uint32_t n);

/* The same, then finalizes those that are not NULL; aborts unless all ended with UCC_OK. */
void small_finish(world_t *world, ucc_coll_req_h *requests, uint32_t n);

/* Runs one collective, args[i] at endpoint i. */
void small_run(world_t *world, ucc_coll_args_t *args, const char *name);

/* Progresses everything a little: time for what must not happen to happen. */
void small_idle(world_t *world);

/* An allreduce and a bcast give what they must: nobody is out of step. */
bool small_team_works(world_t *world);

/* The same for a set of teams on contexts of any world. */
bool small_teams_work(ucc_team_h *teams, ucc_context_h *contexts, uint32_t n);

#endif
