/* ranks.h: ranks with an execution engine of a stream each, on emulated devices, that do what
 * PyTorch's process group does.
 *
 * A rank posts on one thread, takes and acknowledges COLLECTIVE_POST, and goes on with its stream;
 * another thread progresses, and the request's status is read as it stands. Time-outs are set
 * everywhere, v types have no buffer but absolute addresses for displacements, the barrier is on
 * the engine, too, sends are broadcasts over an active set of two with a tag, and teams end before
 * engines. What is wrong aborts.
 */
#ifndef TESTS_GPU_RANKS_H_
#define TESTS_GPU_RANKS_H_

#include "support/world.h"

enum { RANKS_MOST = 8, RANKS_COUNT = 500 };

typedef struct rank {
    void *stream;
    ucc_ee_h ee;
    int32_t *src, *dst, *kept; /* RANKS_MOST * RANKS_COUNT each */
} rank_t;

extern world_t *ranks_world;
extern rank_t rank[RANKS_MOST];

/* All of it: n ranks, spread over the devices. */
void ranks_run(const char *config, uint32_t n, int devices);

/* --- its parts --- */

void ranks_open(const char *config, uint32_t n, int devices);
void ranks_close(void);
/* Where device_cases_begin has been called, and without device_cases_end. */
void ranks_form(uint32_t n, int devices);
void ranks_part(void);
/* Teams and engines end, and there are new ones. */
void ranks_renew(void);
/* Engines have ended, and there are new ones. */
void ranks_renew_engines(void);

/* On the rank's stream. */
void rank_fill(uint32_t i, void *memory, int32_t value, size_t count);
void rank_keep(uint32_t i, const int32_t *from, size_t offset, size_t count);
void rank_await(uint32_t i);
/* What it has kept. */
void rank_check(uint32_t i, size_t offset, size_t count, int32_t value);

ucc_coll_buffer_info_t rank_info(void *buffer, uint64_t count);
/* Posts, and takes the event of that. */
ucc_coll_req_h rank_trigger(uint32_t i, ucc_coll_args_t *args);
/* RANKS_COUNT elements of src to dst. */
ucc_coll_req_h rank_allreduce(uint32_t i);

#endif
