/* bound.c: what no algorithm can be faster than by the model: the largest of what follows from each
 * of these alone.
 *
 *   news      somebody must hear of somebody at the farthest: by the fastest tree there is by L, o
 *             and g (who has heard tells others, one after the other), where all are alike; else
 *             one message from host to host
 *   bytes     what a process, or a host, must send, or receive, through its port
 *   handling  what a processor must do for those bytes
 */
#include "simulate.h"

#include <stdlib.h>

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* How long it takes until n know what one does. */
static double tree(const sim_path_t *path, uint32_t n) {
    double *next = malloc(n * sizeof(*next)), gap = larger(path->g, path->o), last = 0;
    uint32_t known = 1;
    if (!next) {
        return 0;
    }
    next[0] = 0; /* when each of those that know can begin to tell another one */
    while (known < n) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < known; i++) {
            first = next[i] < next[first] ? i : first;
        }
        last = next[first] + 2 * path->o + path->L;
        next[known++] = last;
        next[first] += gap;
    }
    free(next);
    return last;
}

static double news(const sim_call_t *call, const sim_model_t *m) {
    bool alike = m->per_host == 1 || m->per_host >= call->n;
    const sim_path_t *path = m->per_host >= call->n ? &m->inside : &m->between;
    return alike && call->n <= 2048 ? tree(path, call->n) : 2 * path->o + path->L;
}

/* What the process that has most to do must send or receive: b is the call's bytes. */
static double bytes_of(const sim_call_t *call) {
    double n = call->n, b = (double)call->bytes;
    switch ((enum hd_type)call->type) {
    case HD_BCAST:
    case HD_MCAST:
        return b;
    case HD_ALLREDUCE: /* all others' operands of my part, and the results of the others' parts */
        return 2 * b * (n - 1) / n;
    case HD_REDUCE:
        return b;
    case HD_BARRIER:
    case HD_FANIN:
    case HD_FANOUT:
        return 0;
    default:
        return b * (n - 1);
    }
}

double sim_bound(const sim_call_t *call, const sim_model_t *m) {
    const sim_path_t *path = m->per_host >= call->n ? &m->inside : &m->between;
    double share = 1;
    if (m->per_host > 1 &&
        m->per_host < call->n) { /* only what goes between hosts; the host's port is for all */
        bool pairs = call->type == HD_ALLTOALL || call->type == HD_ALLTOALLV;
        share = pairs ? m->per_host * (double)(call->n - m->per_host) / (call->n - 1)
                      : (double)(call->n - m->per_host) / (call->n - 1);
    }
    double port = path->G * bytes_of(call) * share;
    double handling = m->per_host > 1 && m->per_host < call->n ? 0 : path->O * bytes_of(call);
    return larger(news(call, m), larger(port, handling));
}
