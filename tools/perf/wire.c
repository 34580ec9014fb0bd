/* wire.c: what a collective makes go between processes (--messages): counted by the library, beside
 * the least that any algorithm could do with.
 *
 * The least number of bytes is that of data which lives in other processes than those that need it,
 * where a process combines its endpoints' operands before, and gets only once what several of its
 * endpoints need. With P processes of l endpoints each, n = P l, and blocks of b bytes, in all:
 *
 *     bcast, reduce, scan      (P - 1) b        each process but one gets it, or gives its partial
 *                              result
 *     allreduce              2 (P - 1) b        the same, twice
 *     gather, scatter          (P - 1) l b      the blocks of all but the root's process
 *     allgather, reduce_scatter  (P - 1) n b    each block, or a partial result of it, for each
 *                                other process
 *     alltoall                 (P - 1) n l b    each pair of endpoints in different processes
 *
 * The least number of messages is one for each process that has to hear or to be heard (P - 1),
 * both for those that synchronize all (2 (P - 1)), and one per pair of processes where each pair
 * has data of its own (P (P - 1)).
 */
#include "run.h"
#include "world.h"

#include <stdlib.h>

enum { CALLS = 8 };

void perf_wire_least(const perf_case_t *c, double *messages, double *bytes) {
    const perf_options_t *o = c->options;
    double p = o->processes, n = o->endpoints, l = n / p, b = (double)c->bytes;
    *messages = p - 1.0;
    *bytes = 0.0;
    switch ((uint64_t)c->coll->type) {
    case UCC_COLL_TYPE_BARRIER:
        *messages = 2.0 * (p - 1.0);
        break;
    case UCC_COLL_TYPE_BCAST:
    case UCC_COLL_TYPE_MCAST:
    case UCC_COLL_TYPE_REDUCE:
    case UCC_COLL_TYPE_SCAN:
    case UCC_COLL_TYPE_EXSCAN:
        *bytes = (p - 1.0) * b;
        break;
    case UCC_COLL_TYPE_ALLREDUCE:
        *messages = 2.0 * (p - 1.0);
        *bytes = 2.0 * (p - 1.0) * b;
        break;
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        *bytes = (p - 1.0) * l * b;
        break;
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_ALLGATHERV:
        *messages = 2.0 * (p - 1.0);
        *bytes = (p - 1.0) * n * b;
        break;
    case UCC_COLL_TYPE_REDUCE_SCATTER:
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
        *messages = p * (p - 1.0);
        *bytes = (p - 1.0) * n * b;
        break;
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        *messages = p * (p - 1.0);
        *bytes = (p - 1.0) * n * l * b;
        break;
    default: /* fanin, fanout */
        break;
    }
}

/* Worker 0: what this process has sent so far. Nobody calls anything meanwhile, anywhere. */
static heddle_net_traffic_t sent_so_far(void) {
    heddle_net_traffic_t traffic;
    perf_world_meet();
    perf_require(heddle_net_traffic(&traffic), "heddle_net_traffic");
    perf_world_meet();
    return traffic;
}

/* Messages, bytes and credits of so many calls and a barrier, by this process. */
static void count(perf_worker_t *w, uint32_t calls, double sent[3]) {
    heddle_net_traffic_t before = {0}, after = {0};
    perf_meet(w->run);
    if (w->index == 0) {
        before = sent_so_far();
    }
    perf_meet(w->run);
    for (uint32_t i = 0; i < calls; i++) {
        perf_call(w);
    }
    perf_align(w); /* what the calls have still to send is sent when this ends */
    perf_meet(w->run);
    if (w->index == 0) {
        after = sent_so_far();
        sent[0] = (double)(after.messages_sent - before.messages_sent);
        sent[1] = (double)(after.bytes_sent - before.bytes_sent);
        sent[2] = (double)(after.credits_sent - before.credits_sent);
    }
    perf_meet(w->run);
}

static void report(perf_run_t *run, const double mine[3]) {
    const perf_options_t *o = run->options;
    perf_result_t result = {.coll = run->now.coll,
                            .bytes = run->now.bytes,
                            .iterations = CALLS,
                            .verified = o->verify,
                            .wrong = perf_wrong_in_all(run)};
    perf_wire_t *wire = &result.wire;
    double *all = perf_allocate(3 * o->processes * sizeof(*all));
    perf_world_gather(mine, 3 * sizeof(*mine), all);
    for (uint32_t p = 0; p < o->processes; p++) {
        wire->messages += all[3 * p] / o->processes;
        wire->bytes += all[3 * p + 1] / o->processes;
        wire->credits += all[3 * p + 2] / o->processes;
        wire->most_messages = all[3 * p] > wire->most_messages ? all[3 * p] : wire->most_messages;
        wire->most_bytes = all[3 * p + 1] > wire->most_bytes ? all[3 * p + 1] : wire->most_bytes;
    }
    free(all);
    perf_wire_least(&run->now, &wire->least_messages, &wire->least_bytes);
    wire->least_messages /= o->processes;
    wire->least_bytes /= o->processes;
    perf_report_wire(&result);
    run->wrong += result.wrong;
}

void perf_messages(perf_worker_t *w) {
    double barrier[3], calls[3];
    count(w, 0, barrier);
    count(w, CALLS, calls);
    if (w->index == 0) {
        for (uint32_t i = 0; i < 3; i++) {
            calls[i] = (calls[i] - barrier[i]) / CALLS;
            calls[i] = calls[i] < 0.0 ? 0.0 : calls[i]; /* credits come when they come */
        }
        report(w->run, calls);
    }
}
