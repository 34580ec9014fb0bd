/* world.h: the processes that measure together.
 *
 * Every process runs the whole tool with the same command line, and all take the same decisions:
 * what one of them decides, it tells the others (perf_world_share), and what each has measured, all
 * get (perf_world_gather). That goes through the processes' out-of-band exchange, never through
 * what is measured. One thread of each process, its worker 0, speaks for it. With one process
 * nothing is exchanged.
 */
#ifndef HEDDLE_PERF_WORLD_H_
#define HEDDLE_PERF_WORLD_H_

#include "perf.h"

/** Finds the other processes, if there are any: starts them (--processes), or takes rank and size
 *  from the launcher or from the command line. Then o->endpoints is the number of all processes'
 *  endpoints, and the fields below it in perf_options_t are set. Returns true in each process that
 *  is to measure; false: leave with *exit_status (the process that has started the others, when
 *  they have ended; or an error, told). Called before the library is used, while there is one
 *  thread. */
bool perf_world_open(perf_options_t *o, int *exit_status);
void perf_world_close(void);

/** The exchange for heddle_group_create; NULL: one process. */
const ucc_oob_coll_t *perf_world_oob(void);

/** Every process gives so many bytes; `all` gets those of all, in their order. Sleeps while it
 * waits. */
void perf_world_gather(const void *mine, size_t bytes, void *all);
/** What process 0 has in `data`, all have afterwards. */
void perf_world_share(void *data, size_t bytes);
/** All processes have come here. */
void perf_world_meet(void);

/* ping.c: the limit of collectives among processes */

/** Opens UCX, beside the library's own use of it, in the two processes that measure: the first and
 *  the last. False: not possible, *why says so. Every process calls it. */
bool perf_ping_open(const char **why);
void perf_ping_close(void);
/** Half of the time in which a message of so many bytes goes there and comes back, in seconds: one
 *  sample, the mean over a few. Called by every process; those that do not measure wait. */
double perf_ping_half(uint64_t bytes);

#endif
