/* tables.c: timed runs by some models, as tables in Markdown. */
#include "tables.h"

#include <stdio.h>
#include <string.h>

#define SHARED_MEMORY                                                                              \
    { .L = 250, .o = 200, .O = 0.1, .g = 100, .G = 0.05 }
#define TCP                                                                                        \
    { .L = 12000, .o = 3000, .O = 0.2, .g = 500, .G = 0.32 }
#define INFINIBAND                                                                                 \
    { .L = 1000, .o = 250, .O = 0, .g = 100, .G = 0.04 }

enum { KIB = 1024, MIB = 1024 * 1024 };

static const sim_model_t models[] = {
    {"shared memory", SHARED_MEMORY, SHARED_MEMORY, UINT32_MAX, 0, 16 * KIB, 0.1, 0.1},
    {"TCP", SHARED_MEMORY, TCP, 1, 0, 64 * KIB, 0.1, 0.1},
    {"TCP, 4 a host", SHARED_MEMORY, TCP, 4, 0, 64 * KIB, 0.1, 0.1},
    {"InfiniBand", SHARED_MEMORY, INFINIBAND, 1, 0, 16 * KIB, 0.1, 0.1},
    {"InfiniBand, 4 a host", SHARED_MEMORY, INFINIBAND, 4, 0, 16 * KIB, 0.1, 0.1}};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

/* --- plans ------------------------------------------------------------------------------------ */

static const uint8_t planned[] = {HD_BARRIER,   HD_FANIN,      HD_FANOUT,   HD_BCAST,
                                  HD_ALLGATHER, HD_ALLGATHERV, HD_ALLTOALL, HD_GATHER,
                                  HD_SCATTER,   HD_ALLREDUCE,  HD_REDUCE};

/* Among very many, only what needs few messages of each: the others take too long here, and there.
 */
static bool is_short(const sim_call_t *call, uint8_t algorithm) {
    bool each_to_each = algorithm == HD_NET_RING || algorithm == HD_NET_PAIRWISE ||
                        algorithm == HD_NET_SCATTER_ALLGATHER ||
                        algorithm == HD_NET_REDUCE_ALLGATHER ||
                        (algorithm == HD_NET_DIRECT && !hd_coll[call->type].rooted);
    return call->n <= (each_to_each ? 128 : 1024);
}

/* One line: the plan's time by the best one's, for each model, and which that is. */
static double compare(sim_call_t call) {
    double least = 1e9;
    hd_net_plan_t plan = sim_plan(&call);
    printf("%-10s %2u x %7zu %5u  %-17s", hd_type_name(call.type),
           call.segments ? call.segments : 1, call.bytes, call.n,
           sim_algorithm_name(plan.algorithm));
    for (uint32_t m = 0; m < N_MODELS; m++) {
        double mine = sim_time(&call, &models[m]).ns, best = mine;
        uint8_t which = plan.algorithm;
        uint32_t radix = 0;
        for (const uint8_t *a = sim_algorithms(call.type); *a; a++) {
            if (!is_short(&call, *a)) {
                continue;
            }
            static const uint32_t radixes[] = {0, 2, 4, 8, 16};
            sim_call_t other = call;
            other.choice = *a;
            bool has_radix = *a == HD_NET_TREE || *a == HD_NET_DISSEMINATION;
            has_radix = has_radix && !hd_coll[call.type].reducing; /* the bits are of radix 8 */
            for (uint32_t r = 0; r < (has_radix ? 5 : 1); r++) {
                other.radix = radixes[r];
                double ns = sim_time(&other, &models[m]).ns;
                if (ns < best) {
                    best = ns;
                    which = *a;
                    radix = radixes[r];
                }
            }
        }
        printf(" | %5.2f %s", mine / best, best < mine ? sim_algorithm_name(which) : "");
        if (radix && best < mine) {
            printf("/%u", radix);
        }
        least = mine / best < least ? mine / best : least;
    }
    printf("%s\n", least > 1.3 ? "  <== wrong everywhere" : "");
    fflush(stdout);
    return least;
}

/* Large bcasts come in segments: so many of half a MiB. */
static void compare_segments(void) {
    static const uint32_t n[] = {3, 4, 6, 8, 9, 12, 16, 32};
    static const uint32_t segments[] = {1, 2, 3, 4, 6, 8, 12, 16};
    for (uint32_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
        for (uint32_t s = 0; s < sizeof(segments) / sizeof(segments[0]); s++) {
            compare((sim_call_t){
                .type = HD_BCAST, .n = n[i], .bytes = 512 * KIB, .segments = segments[s]});
        }
    }
}

int table_of_plans(void) {
    static const uint32_t n[] = {2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 64, 128, 256, 1024};
    static const size_t bytes[] = {8,         64,        512,      2 * KIB,  4 * KIB,
                                   8 * KIB,   16 * KIB,  32 * KIB, 64 * KIB, 128 * KIB,
                                   256 * KIB, 512 * KIB, MIB};
    printf("%-10s      %7s %5s  %-17s", "", "bytes", "n", "plan");
    for (uint32_t m = 0; m < N_MODELS; m++) {
        printf(" | %s", models[m].name);
    }
    printf("\n");
    compare_segments();
    for (uint32_t t = 0; t < sizeof(planned); t++) {
        for (uint32_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
            for (uint32_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++) {
                sim_call_t call = {.type = planned[t], .n = n[i]};
                call.bytes = hd_coll[planned[t]].moves_data ? bytes[b] : 0;
                bool blocks =
                    planned[t] != HD_BCAST && planned[t] != HD_ALLREDUCE && planned[t] != HD_REDUCE;
                if (is_short(&call, sim_plan(&call).algorithm) &&
                    (!blocks || call.bytes <= 64 * KIB) && (call.bytes || !b)) {
                    compare(call);
                }
            }
        }
    }
    return 0;
}

/* --- scaling ---------------------------------------------------------------------------------- */

enum { THREADS = 64, LINE_NS = 60, LINES = 3 };
static const double memory =
    0.1; /* ns per byte that is copied inside a process by all its threads: 10 GB/s */

static const char *text_of(size_t bytes) {
    static char text[4][24];
    static uint32_t next;
    char *to = text[next++ % 4];
    if (bytes >= MIB && bytes % MIB == 0) {
        snprintf(to, sizeof(text[0]), "%zu MiB", bytes / MIB);
    } else if (bytes >= KIB && bytes % KIB == 0) {
        snprintf(to, sizeof(text[0]), "%zu KiB", bytes / KIB);
    } else {
        snprintf(to, sizeof(text[0]), "%zu B", bytes);
    }
    return to;
}

static void begin_row(uint8_t type, size_t bytes) {
    printf("| %s", hd_type_name(type));
    if (bytes > 0) {
        printf(" %s", text_of(bytes));
    }
}

static void scaling_row(sim_call_t call) {
    static const uint32_t shown[] = {1, 3, 4};
    hd_net_plan_t plan = sim_plan(&call);
    sim_result_t result[3];
    for (uint32_t m = 0; m < 3; m++) {
        result[m] = sim_time(&call, &models[shown[m]]);
    }
    begin_row(call.type, call.bytes);
    printf(" | %u | %s | %llu | %s | %u |", call.n, sim_algorithm_name(plan.algorithm),
           (unsigned long long)result[0].most_messages, text_of(result[0].most_bytes),
           result[0].most_parked);
    for (uint32_t m = 0; m < 2; m++) {
        printf(" %.1f (%.1f) |", result[m].ns / 1000,
               result[m].ns / sim_bound(&call, &models[shown[m]]));
    }
    printf(" %.1f |", result[2].ns / 1000);
    printf("\n");
    fflush(stdout);
}

/* What happens inside a process of 64 threads: arriving and being released, each a path of lines;
 * and copying. */
static double local_ns(size_t copied) {
    return 2 * LINES * LINE_NS + memory * (double)copied;
}

/* Processes of 64 threads beside one process for each thread, 64 on a host. */
static void threads_row(uint8_t type, size_t bytes, uint32_t n, const sim_model_t *between) {
    bool pairs = type == HD_ALLTOALL;
    size_t across = pairs ? bytes * THREADS * THREADS : bytes;
    size_t inside = pairs ? bytes * THREADS * THREADS * n : bytes;
    sim_call_t call = {.type = type, .n = n, .bytes = across};
    sim_call_t flat = {.type = type, .n = n * THREADS, .bytes = bytes};
    sim_model_t one = *between, many = *between;
    one.per_host = 1;
    many.per_host = THREADS;
    sim_result_t ours = sim_time(&call, &one);
    begin_row(type, bytes);
    printf(" | %u | %llu | %s | %.1f |", n, (unsigned long long)ours.messages, text_of(ours.bytes),
           (ours.ns + local_ns(inside)) / 1000);
    if (pairs && flat.n > 1024) {
        uint64_t all = (uint64_t)flat.n * (flat.n - 1);
        printf(" %llu | %s | |\n", (unsigned long long)all, text_of(all * bytes));
        return;
    }
    sim_result_t theirs = sim_time(&flat, &many);
    printf(" %llu | %s | %.1f |\n", (unsigned long long)theirs.messages, text_of(theirs.bytes),
           theirs.ns / 1000);
    fflush(stdout);
}

int tables_of_scaling(void) {
    static const struct {
        uint8_t type;
        size_t bytes;
    } rows[] = {{HD_BARRIER, 0},        {HD_ALLREDUCE, 8},   {HD_ALLREDUCE, 64 * KIB},
                {HD_ALLREDUCE, MIB},    {HD_BCAST, 8},       {HD_BCAST, MIB},
                {HD_ALLGATHER, 8},      {HD_ALLGATHER, KIB}, {HD_ALLTOALL, 8},
                {HD_ALLTOALL, 4 * KIB}, {HD_GATHER, 8}};
    static const uint32_t n[] = {8, 64, 1024};
    static const uint32_t processes[] = {2, 16, 128, 1024};
    static const struct {
        uint8_t type;
        size_t bytes;
    } threads[] = {{HD_BARRIER, 0}, {HD_ALLREDUCE, 8}, {HD_BCAST, 8}, {HD_ALLTOALL, 8}};
    printf("| collective | processes | algorithm | messages | bytes | parked | TCP | InfiniBand | "
           "InfiniBand, 4 a host |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        for (uint32_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
            scaling_row((sim_call_t){.type = rows[r].type, .bytes = rows[r].bytes, .n = n[i]});
        }
    }
    printf("\n| collective | hosts | messages | bytes | us | flat: messages | bytes | us |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t r = 0; r < sizeof(threads) / sizeof(threads[0]); r++) {
        for (uint32_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
            threads_row(threads[r].type, threads[r].bytes, processes[i], &models[3]);
        }
    }
    return 0;
}
