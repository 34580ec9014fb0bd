/* main.c: bench_model prints what barrier, bcast and allreduce of up to 48 bytes cost on machines
 * that nobody needs to own; see model.h for what is counted.
 *
 * usage: bench_model [--json] [--check | --check-growth] [--one-line] [--trees] [--endpoints N]
 *                    [TOPOLOGY ...]
 *   TOPOLOGY       hwloc synthetic descriptions; without, a set that grows to 512 hardware threads
 *   --endpoints N  this count only; without, powers of two and some between
 *   --trees        as with HEDDLE_ARRIVAL=static: up a tree and down again, no butterfly
 *   --one-line     as with HEDDLE_TREE=number: trees by number, one line of release for all
 *   --check        exit status 1 if a path grows faster than the bound, if its predicted time is
 *                  more than 1.3 times that of the best way that the model knows of, or if anything
 *                  crosses the borders between packages more often than it must
 *   --check-growth the same, but with a logarithmic bound for the way up of an allreduce by a tree
 *
 * The bound. A domain of c parts takes ceil(log8 c) <= 1 + log2(c) / 3 transfers each way; four
 * kinds of domains lie in each other (machine, package, NUMA node, cache), and their sizes multiply
 * to n:
 *
 *     transfers on the path <= 8 + 2/3 log2 n          readers of a line <= 64 + 8 log2 n
 *
 * Across packages, of which P are used, by trees: barrier P - 1 up and P - 1 down, bcast P - 1
 * down, allreduce P - 1 down. Up, an allreduce must bring the operands together in the canonical
 * order, which no machine shapes: P - 1 where every package holds exactly one operand of each block
 * that spans packages (64 endpoints each, say); elsewhere one transfer for each operand, of an
 * endpoint or of a block, that its combiner finds in another package. --check demands P - 1 there,
 * too: it is what is wanted. --check-growth demands what follows from numbers along the machine: a
 * border lies within at most one block of each level, which has at most 7 operands behind it, so at
 * most 7 (P - 1) per level. In a butterfly every endpoint looks at another package itself, and
 * nobody at all of it: the times tell that this is worth it.
 */
#include "model.h"

#include "core/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options {
    bool json, check, growth, one_line, trees;
    uint32_t endpoints; /* 0: a series */
} options_t;

static const char *const collective_name[N_COLLECTIVES] = {"barrier", "bcast", "allreduce"};
static const char *const machines[] = {
    "pack:1 l3:1 core:8 pu:1",         "pack:1 l3:2 core:8 pu:1",
    "pack:1 l3:8 core:8 pu:1",         "pack:1 l3:1 core:64 pu:2",
    "pack:2 l3:1 core:4 pu:1",         "pack:2 l3:1 core:8 pu:2",
    "pack:2 l3:1 core:12 pu:1",        "pack:2 numa:2 l3:2 core:8 pu:2",
    "pack:2 numa:1 l3:12 core:8 pu:2", "pack:4 numa:1 l3:1 core:16 pu:2",
    "pack:8 numa:1 l3:1 core:32 pu:2", "pack:4 numa:2 l3:4 core:8 pu:2",
};
static const uint32_t series[] = {2,  3,  4,  6,   8,   9,   12,  16,  24,  32,  48, 57,
                                  64, 65, 96, 128, 129, 192, 256, 257, 384, 449, 512};
enum {
    N_MACHINES = sizeof(machines) / sizeof(machines[0]),
    N_SERIES = sizeof(series) / sizeof(series[0])
};

/* --- what must hold --------------------------------------------------------------------------- */

static bool complain(const char *machine, uint32_t n, collective_t c, const char *what) {
    fprintf(stderr, "FAILED: '%s', %" PRIu32 " endpoints, %s: %s\n", machine, n, collective_name[c],
            what);
    return false;
}

static uint32_t most_up(const hd_group_t *group, collective_t c, bool growth) {
    uint32_t borders = packages_used(group) - 1;
    if (c == BCAST) {
        return 0;
    }
    return growth && c == ALLREDUCE && group->canonical ? 7 * borders * group->canonical->n_levels
                                                        : borders;
}

/* A row, and what it is compared with. */
typedef struct row {
    way_t way, best_way;
    cost_t cost, best;
} row_t;

static row_t row_of(const hd_group_t *group, collective_t c) {
    row_t row = {.way = chosen_way(group, c)};
    row.cost = cost_of_way(group, c, &row.way);
    row.best = best_cost(group, c, &row.best_way);
    return row;
}

static double ratio_of(const row_t *row) {
    return row->best.path.ns > 0 ? row->cost.path.ns / row->best.path.ns : 1;
}

static bool check(const char *machine, const hd_group_t *group, collective_t c, const row_t *row,
                  const options_t *options) {
    static const double most = 1.3;
    const cost_t *cost = &row->cost;
    uint32_t n = group->n, borders = packages_used(group) - 1;
    bool good = true, by_tree = row->way.down != NULL;
    if (!options->one_line && !options->trees && ratio_of(row) > most) {
        good = complain(machine, n, c, "another way takes less than 1 / 1.3 of the time");
    }
    if (!cost->sound) {
        good = complain(machine, n, c, "an endpoint is never released");
    }
    if (path_length(&cost->path) > 8 + 2 * log2(n) / 3) {
        good = complain(machine, n, c, "the path is longer than 8 + 2/3 log2 n");
    }
    if (cost->readers > 64 + 8 * log2(n)) {
        good = complain(machine, n, c, "a line has more than 64 + 8 log2 n readers");
    }
    if (by_tree &&
        (cost->up > most_up(group, c, options->growth) || (c != BCAST && cost->up < borders))) {
        good = complain(machine, n, c, "transfers across packages on the way up");
    }
    if (by_tree && cost->down != borders) {
        good = complain(machine, n, c, "transfers across packages on the way down");
    }
    return good;
}

/* --- output ----------------------------------------------------------------------------------- */

static void print_head(const char *machine, const options_t *options, bool first) {
    if (options->json) {
        printf("%s  {\"topology\": \"%s\", \"costs\": [\n", first ? "" : ",\n", machine);
        return;
    }
    printf("%s\n  %5s %4s %-9s %-9s | %5s %5s %5s %5s %5s | %9s %5s %5s %7s | %5s %5s  %s\n",
           machine, "ends", "pack", "", "way", "path", "L3", "node", "pack", "cross", "transfers",
           "up", "down", "readers", "ns", "/best", "best");
}

static void print_row(const options_t *options, const hd_group_t *group, collective_t c,
                      const row_t *row, bool first) {
    const cost_t *cost = &row->cost;
    const uint32_t *hops = cost->path.hops;
    const char *way = row->way.name;
    uint32_t packages = packages_used(group), length = path_length(&cost->path);
    if (options->json) {
        printf("%s    {\"endpoints\": %" PRIu32 ", \"packages\": %" PRIu32
               ", \"collective\": \"%s\", \"way\": \"%s\", \"path\": {\"transfers\": %" PRIu32
               ", \"same_l3\": %" PRIu32 ", \"same_node\": %" PRIu32 ", \"same_package\": %" PRIu32
               ", \"across\": %" PRIu32 "}, \"transfers\": %" PRIu32 ", \"across_up\": %" PRIu32
               ", \"across_down\": %" PRIu32 ", \"readers\": %" PRIu32
               ", \"ns\": %.0f, \"best_ns\": %.0f, \"best\": \"%s\"}",
               first ? "" : ",\n", group->n, packages, collective_name[c], way, length,
               hops[SAME_CACHE], hops[SAME_NODE], hops[SAME_PACKAGE], hops[ACROSS], cost->transfers,
               cost->up, cost->down, cost->readers, cost->path.ns, row->best.path.ns,
               row->best_way.name);
        return;
    }
    printf("  %5" PRIu32 " %4" PRIu32 " %-9s %-9s | %5" PRIu32 " %5" PRIu32 " %5" PRIu32
           " %5" PRIu32 " %5" PRIu32 " | %9" PRIu32 " %5" PRIu32 " %5" PRIu32 " %7" PRIu32
           " | %5.0f %5.2f  %s\n",
           group->n, packages, collective_name[c], way, length, hops[SAME_CACHE], hops[SAME_NODE],
           hops[SAME_PACKAGE], hops[ACROSS], cost->transfers, cost->up, cost->down, cost->readers,
           cost->path.ns, ratio_of(row), row->best_way.name);
}

/* --- machines --------------------------------------------------------------------------------- */

/* The group that n endpoints form which are held where heddle_run would put them. Thresholds: the
 * library's defaults. */
static hd_group_t *form(uint32_t n, const options_t *options) {
    hd_group_config_t config = {.depth = 8,
                                .persistent_depth = 4,
                                .flat_max = 8,
                                .lines_max = 1024,
                                .staged_max = 16384,
                                .chunk = 1 << 18,
                                .arrival =
                                    options->trees ? HD_CFG_ARRIVAL_STATIC : HD_CFG_ARRIVAL_AUTO,
                                .tree = options->one_line ? HD_CFG_TREE_NUMBER : HD_CFG_TREE_AUTO};
    hd_group_t *group = hd_group_create(n, &config);
    for (uint32_t i = 0; group && i < n; i++) {
        hd_locality_t where;
        hd_topo_place(hd_topo_get(), i, n, &where);
        where.trusted = true;
        if (hd_group_join(group, i, &where) != UCC_OK) {
            group = NULL;
        }
    }
    return group;
}

static bool one_group(const char *machine, uint32_t n, const options_t *options, bool first) {
    hd_group_t *group = form(n, options);
    bool good = true;
    if (!group || !group->static_arrival) {
        fprintf(stderr, "%s: no group of %" PRIu32 " endpoints with fixed combiners\n", machine, n);
        exit(2);
    }
    for (collective_t c = BARRIER; c < N_COLLECTIVES; c++) {
        row_t row = row_of(group, c);
        print_row(options, group, c, &row, first && c == BARRIER);
        good = (!options->check || check(machine, group, c, &row, options)) && good;
    }
    hd_home_unpin(&group->home);
    return good;
}

/* In a child of its own: the library understands one machine per process. */
static bool one_machine(const char *machine, const options_t *options) {
    hd_topo_t *topo;
    if (hd_topo_create(machine, &topo) != UCC_OK) { /* which has said why */
        exit(2);
    }
    hd_topo_destroy(topo);
    setenv("HEDDLE_TOPOLOGY", machine, 1);
    uint32_t pus = hd_topo_n_pus(hd_topo_get());
    if (options->endpoints > pus) {
        fprintf(stderr, "%s: %" PRIu32 " hardware threads, too few for %" PRIu32 " endpoints\n",
                machine, pus, options->endpoints);
        exit(2);
    }
    if (options->endpoints) {
        return one_group(machine, options->endpoints, options, true);
    }
    bool good = true;
    uint32_t last = 0;
    for (uint32_t i = 0; i < N_SERIES && series[i] <= pus; i++) {
        last = series[i];
        good = one_group(machine, last, options, i == 0) && good;
    }
    if (last < pus) {
        good = one_group(machine, pus, options, last == 0) && good;
    }
    return good;
}

static bool run_child(const char *machine, const options_t *options, bool first) {
    print_head(machine, options, first);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool good = one_machine(machine, options);
        fflush(NULL);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("bench_model");
        exit(2);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        exit(2);
    }
    fputs(options->json ? "\n  ]}" : "\n", stdout);
    return WEXITSTATUS(status) == 0;
}

static void usage(FILE *out) {
    fputs("usage: bench_model [--json] [--check | --check-growth] [--one-line] [--trees] "
          "[--endpoints N] [TOPOLOGY ...]\n"
          "TOPOLOGY: an hwloc synthetic description, e.g. 'pack:2 numa:2 l3:2 core:8 pu:2'\n",
          out);
}

static uint32_t count_of(const char *text) {
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (n < 2 || n > 1 << 16 || *end) {
        fprintf(stderr, "bench_model: --endpoints takes a number from 2 to 65536\n");
        exit(2);
    }
    return (uint32_t)n;
}

int main(int argc, char **argv) {
    options_t options = {0};
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "--json")) {
            options.json = true;
        } else if (!strcmp(argv[at], "--check")) {
            options.check = true;
        } else if (!strcmp(argv[at], "--check-growth")) {
            options.check = options.growth = true;
        } else if (!strcmp(argv[at], "--one-line")) {
            options.one_line = true;
        } else if (!strcmp(argv[at], "--trees")) {
            options.trees = true;
        } else if (!strcmp(argv[at], "--endpoints")) {
            options.endpoints = count_of(argv[++at]);
        } else if (!strcmp(argv[at], "--help")) {
            usage(stdout);
            return 0;
        } else {
            usage(stderr);
            return 2;
        }
    }
    bool good = true;
    fputs(options.json ? "[\n" : "", stdout);
    for (int i = at; i < argc; i++) {
        good = run_child(argv[i], &options, i == at) && good;
    }
    for (int i = 0; at == argc && i < N_MACHINES; i++) {
        good = run_child(machines[i], &options, i == 0) && good;
    }
    fputs(options.json ? "\n]\n" : "", stdout);
    return good ? 0 : 1;
}
