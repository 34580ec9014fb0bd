/* time.c: how long a transfer takes; see model.h. */
#include "model.h"

#include <math.h>

distance_t distance(const hd_group_t *group, uint32_t a, uint32_t b) {
    const hd_locality_t *x = &group->locality[a], *y = &group->locality[b];
    if (x->package != y->package) {
        return ACROSS;
    }
    if (x->numa != y->numa) {
        return SAME_PACKAGE;
    }
    return x->l3 != y->l3 ? SAME_NODE : SAME_CACHE;
}

/* Published figures of cores' latencies lie around these: 25 to 60 ns within a cache, 80 to 120
 * within a package, 130 to 250 between packages. */
static const double latency[N_DISTANCES] = {50, 100, 150, 250};
/* Parts of a latency. A core has ten to sixteen misses under way; readers of one line take 0.15 of
 * it each in the paper that model.h names. */
static const double for_a_line = 0.1, for_a_reader = 0.15;

void add_reader(line_t *line, distance_t d) {
    line->farthest = d > line->farthest ? d : line->farthest;
    line->readers++;
    line->served_ns += latency[d] * for_a_reader;
}

double transfer_ns(const line_t *line, distance_t d, uint32_t more) {
    double others = line->served_ns - latency[d] * for_a_reader;
    return latency[line->farthest] + latency[d] + fmax(more * latency[d] * for_a_line, others);
}
