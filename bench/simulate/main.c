/* main.c: bench_simulate runs the library's algorithms among thousands of processes that do not
 * exist; see simulate.h.
 *
 * usage: bench_simulate --check [--brief] every algorithm of every collective, with data, among 1
 *            to 1,000 processes: exit status 1 if anything is wrong
 *        bench_simulate --plans
 *            where the plan's algorithm takes longer than the best one, by each of some models
 *        bench_simulate --scaling
 *            the tables of docs/scaling.md
 *        bench_simulate --fit FILE
 *            a model of this machine, of what bench_measure_legs has printed, and what it predicts
 *        bench_simulate --time L,o,O,g,G,RENDEZVOUS COLLECTIVE BYTES PROCESSES [ALGORITHM [RADIX]]
 *            nanoseconds by a model of one path
 */
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- checking --------------------------------------------------------------------------------- */

static const uint8_t types[] = {
    HD_BARRIER,    HD_FANIN,     HD_FANOUT,    HD_BCAST,          HD_MCAST,          HD_ALLGATHER,
    HD_ALLGATHERV, HD_ALLTOALL,  HD_ALLTOALLV, HD_GATHER,         HD_GATHERV,        HD_SCATTER,
    HD_SCATTERV,   HD_ALLREDUCE, HD_REDUCE,    HD_REDUCE_SCATTER, HD_REDUCE_SCATTERV};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static uint64_t runs, failures;

static void check_one(const sim_call_t *call) {
    runs++;
    failures += !sim_check(call);
}

/* With what the configuration could name, and with what the plan thinks best. */
static void check_algorithms(sim_call_t call) {
    uint32_t seen = 0;
    const uint8_t *algorithm = sim_algorithms(call.type);
    call.choice = HD_NET_NOTHING;
    for (;;) {
        hd_net_plan_t plan = sim_plan(&call);
        bool too_large = plan.algorithm == HD_NET_DIRECT && call.n * call.bytes > 64 * 1024 &&
                         hd_coll[call.type].reducing && call.n > 40; /* n times as much for each */
        if (!(seen >> plan.algorithm & 1) && !too_large) {
            seen |= 1u << plan.algorithm;
            check_one(&call);
        }
        if (*algorithm == HD_NET_NOTHING) {
            return;
        }
        call.choice = *algorithm++;
    }
}

static bool has_root(uint8_t type) {
    return hd_coll[type].rooted;
}

static void check_type(uint8_t type, uint32_t n, size_t bytes, uint64_t random) {
    bool reduces = hd_coll[type].reducing;
    sim_call_t call = {.type = type, .n = n, .bytes = reduces ? bytes / 8 * 8 : bytes};
    for (uint32_t way = 0; way < (reduces ? 4 : 2); way++) {
        call.random = random * 8 + way;
        call.root = has_root(type) ? (uint32_t)((random * 7919 + way * (n - 1)) % n) : 0;
        call.in_place = reduces && way & 1;
        call.parallel = reduces && way & 2;
        call.scattered = way & 1;
        check_algorithms(call);
    }
}

/* Few processes: sizes around every edge, and more than once, since what happens first is drawn. */
static void check_few(uint32_t n, uint32_t times) {
    const size_t sizes[] = {0, 8, 8 * (size_t)n - 8, 8 * (size_t)n + 8, 200};
    for (uint32_t t = 0; t < N_TYPES; t++) {
        for (uint32_t s = 0; s < (hd_coll[types[t]].moves_data ? 5 : 1); s++) {
            for (uint32_t i = 0; i < times; i++) {
                check_type(types[t], n, sizes[s], n * 100 + s * 10 + i);
            }
        }
    }
}

/* Where plans change: with data as large as they ask for, so only where that is not too much of it.
 */
static void check_edges(uint32_t n) {
    static const size_t sizes[] = {2048, 8192, 16384, 65536, 262144, 262152};
    for (uint32_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (uint32_t more = 0; more < 2; more++) {
            check_type(HD_BCAST, n, sizes[s] + more, s);
            check_type(HD_ALLREDUCE, n, sizes[s] + 8 * more, s);
            check_type(HD_REDUCE, n, sizes[s] + 8 * more, s);
        }
    }
}

/* Types that are others with data of their own: the same functions. */
static bool is_alike(uint8_t type) {
    return type == HD_MCAST || type == HD_ALLGATHERV || type == HD_ALLTOALL ||
           type == HD_REDUCE_SCATTER;
}

/* Many: one of each. */
static void check_many(uint32_t n) {
    for (uint32_t t = 0; t < N_TYPES; t++) {
        sim_call_t call = {.type = types[t], .n = n, .bytes = 8, .random = n + t};
        call.root = has_root(types[t]) ? n * 2 / 3 : 0;
        if (types[t] == HD_ALLREDUCE || types[t] == HD_REDUCE) {
            for (uint32_t way = 0; way < 2; way++) { /* fewer elements than processes, and more */
                call.bytes = way ? 8 * (size_t)n + 8 : 24;
                call.in_place = call.parallel = way;
                check_algorithms(call);
            }
        } else if (n < 500 || !is_alike(types[t])) {
            check_algorithms(call);
        }
    }
}

static int check(bool brief) {
    static const uint32_t many[] = {64, 100, 257, 1000};
    for (uint32_t n = 1; n <= (brief ? 18 : 40); n++) {
        check_few(n, 1);
    }
    check_edges(2);
    check_edges(9);
    for (uint32_t i = 0; i < (brief ? 2 : 4); i++) {
        check_many(many[i]);
    }
    printf("%llu collectives, %llu wrong\n", (unsigned long long)runs,
           (unsigned long long)failures);
    return failures > 0;
}

/* --- one time --------------------------------------------------------------------------------- */

static uint8_t type_named(const char *name) {
    for (uint32_t t = 0; t < HD_N_TYPES; t++) {
        if (strcmp(hd_coll[t].name, name) == 0) {
            return (uint8_t)t;
        }
    }
    fprintf(stderr, "bench_simulate: no collective is called %s\n", name);
    exit(2);
}

static uint8_t algorithm_named(const char *name) {
    for (uint8_t a = 0; a <= HD_NET_REDUCE_ALLGATHER; a++) {
        if (strcmp(sim_algorithm_name(a), name) == 0) {
            return a;
        }
    }
    return strcmp(name, "auto") == 0 ? HD_NET_NOTHING : type_named(name);
}

static int time_one(int argc, char **argv) {
    sim_path_t path;
    unsigned long rendezvous;
    if (argc < 4 || sscanf(argv[0], "%lf,%lf,%lf,%lf,%lf,%lu", &path.L, &path.o, &path.O, &path.g,
                           &path.G, &rendezvous) != 6) {
        return 2;
    }
    sim_call_t call = {.type = type_named(argv[1]),
                       .bytes = strtoul(argv[2], NULL, 10),
                       .n = (uint32_t)strtoul(argv[3], NULL, 10),
                       .choice = argc > 4 ? algorithm_named(argv[4]) : HD_NET_NOTHING,
                       .radix = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0};
    if (call.n < 1 || call.n > 1 << 20) {
        return 2;
    }
    sim_model_t model = {.inside = path,
                         .between = path,
                         .per_host = UINT32_MAX,
                         .rendezvous = rendezvous,
                         .combine = 0.1,
                         .copy = 0.1};
    sim_result_t result = sim_time(&call, &model);
    hd_net_plan_t plan = sim_plan(&call);
    printf("%.0f ns, %s, %llu messages, %llu bytes\n", result.ns,
           sim_algorithm_name(plan.algorithm), (unsigned long long)result.messages,
           (unsigned long long)result.bytes);
    return !result.right;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int status = 2;
    if (strcmp(what, "--check") == 0) {
        return check(argc > 2 && strcmp(argv[2], "--brief") == 0);
    }
    if (strcmp(what, "--plans") == 0) {
        return table_of_plans();
    }
    if (strcmp(what, "--scaling") == 0) {
        return tables_of_scaling();
    }
    if (strcmp(what, "--fit") == 0 && argc > 2) {
        return table_of_fit(argv[2]);
    }
    if (strcmp(what, "--time") == 0) {
        status = time_one(argc - 2, argv + 2);
    }
    if (status == 2) {
        fputs("usage: bench_simulate --check [--brief] | --plans | --scaling | --fit FILE |\n"
              "       --time L,o,O,g,G,RENDEZVOUS COLLECTIVE BYTES PROCESSES [ALGORITHM [RADIX]]\n",
              stderr);
    }
    return status;
}
