/* simulate.h: collectives among thousands of processes in one program: the library's plan
 * (net/plan.c) and its algorithms (net/barrier.c, bcast.c, ...), as they are, on a network that is
 * made up (fabric.c).
 *
 * fabric.c stands for net/leg.c: it has the functions by which algorithms send and receive, keeps
 * the messages in a queue of events, and goes on with a process's leg whenever something has
 * happened to it. It has two ways to say when that is:
 *
 *   TIMED     by a LogGP model (sim_model_t). Data is not moved; what a collective takes is the
 *             time when its last process has ended
 *   CHAOTIC   at random, in any order, with data: processes begin late, messages overtake each
 *             other, are read from their sender's memory when they are sent, or when the receiver
 *             is there, or later still; sends end as they like
 *
 * It also says what no algorithm may do: two messages of one pair at one step, a message that
 * nobody receives, one of another size than is expected, one to oneself.
 *
 * call.c makes the calls of all processes with their data, and knows what must come of them.
 */
#ifndef HD_BENCH_SIMULATE_H
#define HD_BENCH_SIMULATE_H

#include "net/internal.h"

/* --- the model -------------------------------------------------------------------------------- */

/* Times in ns. A message of b bytes keeps its sender's processor for o + O b, then a port for
 * max(g, G b), is L on its way, keeps the receiver's port for as long as the sender's, and its
 * processor for o + O b. */
typedef struct sim_path {
    double L, o, O, g, G;
} sim_path_t;

typedef struct sim_model {
    const char *name;
    sim_path_t inside,
        between; /* processes of one host; of two. Hosts have one port for what goes between */
    uint32_t per_host;   /* processes */
    uint32_t processors; /* that the processes of a host share; 0: each has its own */
    size_t rendezvous;   /* larger messages wait at their sender until the receiver asks for them */
    double combine;      /* ns per byte of each operand */
    double copy;         /* ns per byte that an algorithm packs, or unpacks */
} sim_model_t;

/* --- a run ------------------------------------------------------------------------------------ */

typedef struct sim_message sim_message_t;

/* What the legs of a process share. */
typedef struct sim_seat {
    double cpu;     /* when its processor is free */
    double out, in; /* when its ports are, for what stays inside the host */
} sim_seat_t;

/* A process, as far as one leg goes. */
typedef struct sim_process {
    hd_leg_t leg;   /* first */
    uint32_t place; /* its number in the team */
    sim_seat_t *seat;
    bool begun, over, begins_late;
    bool waking; /* an event is to wake it */
    double began, ended;
    sim_message_t *waiting, **last; /* messages that something has happened to, for it to look at */
    /* what it has sent, and received */
    uint64_t messages, bytes, received;
    uint32_t parked, most_parked; /* messages that were there before they were expected */
    uint32_t not_yet;             /* combinations that are still to say so */
    uint32_t combined;
    uint8_t
        *heard; /* of whom it knows that they have begun: a byte each; NULL: it keeps no account */
} sim_process_t;

typedef struct sim {
    const sim_model_t *model; /* NULL: chaotic */
    uint64_t random;
    uint32_t n, places; /* processes, and numbers in the team, of which these are some */
    uint32_t
        segments; /* legs of each that go on at the same time, none of which knows of the others */
    sim_process_t *process; /* segment by segment */
    sim_seat_t *seat;
    uint32_t *rank_of; /* by place; UINT32_MAX: not among them */
    double *host_out, *host_in;
    uint64_t events;
    const char *wrong; /* the first thing that was; NULL: nothing */
    uint32_t wrong_at, wrong_with, wrong_step;
    struct sim_queue *queue;
} sim_t;

typedef struct sim_result {
    double ns; /* until the last process has ended */
    uint64_t messages, bytes;
    uint64_t most_messages, most_bytes; /* that one process sends */
    uint64_t most_received;             /* messages */
    uint32_t most_parked;
    bool right;
} sim_result_t;

/* Makes a run of n processes. place_of: their numbers in a team of so many `places`; NULL: 0, 1,
 * ... */
sim_t *sim_create(const sim_model_t *model, uint64_t random, uint32_t n, const uint32_t *place_of,
                  uint32_t places, uint32_t segments);
void sim_destroy(sim_t *sim);
/* All processes' calls and plans are set: until nothing happens any more. */
sim_result_t sim_run(sim_t *sim);
/* The first complaint counts. */
void sim_complain(sim_t *sim, const char *what, uint32_t at, uint32_t with, uint32_t step);
uint64_t sim_random(sim_t *sim);
/* In a chaotic run: its leg goes on some time later, if nothing else happens. */
void sim_wake(sim_t *sim, sim_process_t *p);
static inline sim_process_t *sim_process_of(const hd_leg_t *leg) {
    return (sim_process_t *)(uintptr_t)leg;
}
/* The run that is under way, and whose turn it is: algorithms know their leg only, and their
 * packing not even that. */
extern sim_t *sim_now;
extern sim_process_t *sim_turn;

/* --- calls ------------------------------------------------------------------------------------ */

typedef struct sim_call {
    uint8_t type; /* enum hd_type */
    uint32_t n, root;
    size_t bytes;      /* of the whole for a bcast or a reduction, of a block else */
    uint8_t choice;    /* hd_net_algorithm_t that the configuration names; HD_NET_NOTHING: none */
    uint32_t radix;    /* 0: the plan's */
    uint32_t segments; /* of `bytes` each, if there are more than 1: timed runs only */
    bool in_place, parallel;
    bool scattered;  /* a team's numbers in any order, with others between */
    uint64_t random; /* chaotic runs: of sizes, pieces, times */
} sim_call_t;

/* A plan for it, as process 0 has it. */
hd_net_plan_t sim_plan(const sim_call_t *call);
/* With data, in a chaotic run: were all results right? If not, a line says what was wrong. */
bool sim_check(const sim_call_t *call);
/* By the model. */
sim_result_t sim_time(const sim_call_t *call, const sim_model_t *model);
/* No algorithm can be faster by that model, nearly: see bound.c. */
double sim_bound(const sim_call_t *call, const sim_model_t *model);

/* The algorithms of a type, as the configuration names them; HD_NET_NOTHING ends them. */
const uint8_t *sim_algorithms(uint8_t type);
const char *sim_algorithm_name(uint8_t algorithm);

#endif
