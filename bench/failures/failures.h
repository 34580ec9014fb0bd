/* failures.h: bench_failures runs what processes tell each other of failures (src/net/news.c,
 * cuts.c, gossip.c, watch.c, peer.c, as they are) among a thousand processes on many hosts, which
 * are all in this one: time is made up, and so are sockets.
 *
 *   WORLD     time, the events to come, hosts and the links between them, and sockets: what the
 *             kernels of the hosts do (world.c). watch.c's calls of the system come here by the
 *             linker (--wrap)
 *   PROCESS   a net with its watch and its peers, and what drives it, as lane 0 would: it looks
 *             when something has come, and every 50 ms, unless it computes (process.c)
 *   CASE      what happens in a run, and whether it ended as it should (main.c)
 *
 * A kernel answers for its processes, whatever these do. Of a line whose link is broken it says so
 * 4 seconds after the last sign of the other end, or after the first byte that was not acknowledged
 * (hd_watch_tune); so lines that break at once are given up within a second of each other.
 */
#ifndef HD_BENCH_FAILURES_H
#define HD_BENCH_FAILURES_H

#include "net/internal.h"

enum { MOST_HOSTS = 256 };

typedef struct sim_process {
    hd_net_t *net;
    uint32_t number, host;
    bool dead, computes;
    bool wakes; /* an event that will wake it is on its way */
    hd_watch_record_t record;
    uint64_t words_sent;
    uint32_t first_fd; /* of its sockets; 0: none */
    uint32_t listener[2];
} sim_process_t;

/* --- world.c ---------------------------------------------------------------------------------- */

extern uint64_t sim_now;        /* ns */
extern sim_process_t *sim_self; /* whose code is running */
extern uint64_t sim_last_loss;  /* ns: when a process last lost another one */

uint64_t sim_random(void);
/* Below `end`. */
uint64_t sim_below(uint64_t end);
void sim_reset(uint64_t seed);
/* Calls `what` then. */
void sim_at(uint64_t ns, void (*what)(void *arg, uint64_t number), void *arg, uint64_t number);
/* Runs all events up to then. */
void sim_run_until(uint64_t ns);
bool sim_is_up(uint32_t host, uint32_t other);
void sim_set_link(uint32_t host, uint32_t other, bool up);
/* Ends the process: its kernel closes its sockets; silently, if the host is gone with it. */
void sim_kill(sim_process_t *process, bool silently);

/* --- process.c -------------------------------------------------------------------------------- */

extern sim_process_t *sim_process;
extern uint32_t sim_n, sim_hosts;
extern bool sim_talks;

void sim_open(uint32_t processes, uint32_t hosts);
void sim_close(void);
/* Something has come for it. */
void sim_wake(sim_process_t *process);
void sim_compute(sim_process_t *process, bool computes);
void sim_token(uint32_t number, uint64_t token[2]);
bool sim_given_up(const sim_process_t *process);
bool sim_takes_for_dead(const sim_process_t *process, uint32_t other);
/* A way of UCX's to the other one breaks. */
void sim_break_way(sim_process_t *process, uint32_t other);

#endif
