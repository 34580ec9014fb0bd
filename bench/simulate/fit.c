/* fit.c: a model of this machine, of what bench_measure_legs has measured, and what it predicts of
 * the rest.
 *
 * Between two processes, a stream of small messages takes o each, a message from one to the other L
 * + 2 o, and bytes O each in a stream and 2 O + G each way. What is left is predicted.
 */
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct line {
    char way[32], what[32];
    uint32_t n;
    size_t bytes;
    double ns;
} line_t;

enum { MOST_LINES = 256, SMALL = 8, LARGE = 4096 };

static line_t lines[MOST_LINES];
static uint32_t n_lines;

static double measured(const char *way, const char *what, size_t bytes) {
    for (uint32_t i = 0; i < n_lines; i++) {
        const line_t *l = &lines[i];
        if (l->n == 2 && l->bytes == bytes && !strcmp(l->way, way) && !strcmp(l->what, what)) {
            return l->ns;
        }
    }
    fprintf(stderr, "bench_simulate: no line says %s 2 %s %zu\n", way, what, bytes);
    exit(2);
}

static double not_negative(double x) {
    return x > 0 ? x : 0;
}

static sim_model_t fit(const char *way) {
    double alone = measured(way, "stream", SMALL), message = measured(way, "pingpong", SMALL);
    double stream = (measured(way, "stream", LARGE) - alone) / (LARGE - SMALL);
    double there = (measured(way, "pingpong", LARGE) - message) / (LARGE - SMALL);
    sim_path_t path = {.o = alone < message / 2 ? alone : message / 2};
    path.L = not_negative(message - 2 * path.o);
    path.O = not_negative(stream < there / 2 ? stream : there / 2);
    path.G = not_negative(there - 2 * path.O);
    printf("\n%s: L = %.0f ns, o = %.0f ns, O = %.3f ns/B, G = %.3f ns/B\n\n", way, path.L, path.o,
           path.O, path.G);
    return (sim_model_t){.inside = path,
                         .between = path,
                         .per_host = UINT32_MAX,
                         .processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                         .rendezvous = 64 * 1024,
                         .combine = 0.1,
                         .copy = 0.1};
}

static void predict(const line_t *l, const sim_model_t *model) {
    sim_call_t call = {.n = l->n, .bytes = l->bytes, .type = HD_N_TYPES};
    for (uint8_t t = 0; t < HD_N_TYPES; t++) {
        call.type = strcmp(hd_coll[t].name, l->what) == 0 ? t : call.type;
    }
    if (call.type < HD_N_TYPES) {
        hd_net_plan_t plan = sim_plan(&call);
        double ns = sim_time(&call, model).ns;
        printf("| %s | %u | %s | %zu | %s | %.1f | %.1f | %.2f |\n", l->way, l->n, l->what,
               l->bytes, sim_algorithm_name(plan.algorithm), l->ns / 1000, ns / 1000, ns / l->ns);
    }
}

int table_of_fit(const char *file) {
    FILE *in = fopen(file, "r");
    if (!in) {
        perror(file);
        return 2;
    }
    line_t *l = lines;
    while (n_lines < MOST_LINES &&
           fscanf(in, "%31s %u %31s %zu %lf", l->way, &l->n, l->what, &l->bytes, &l->ns) == 5) {
        l = &lines[++n_lines];
    }
    fclose(in);
    for (uint32_t i = 0; i < n_lines; i++) {
        if (i > 0 && strcmp(lines[i].way, lines[i - 1].way) == 0) {
            continue;
        }
        sim_model_t model = fit(lines[i].way);
        printf("| way | processes | collective | bytes | algorithm | measured us | predicted us | "
               "ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for (uint32_t j = i; j < n_lines && !strcmp(lines[j].way, lines[i].way); j++) {
            predict(&lines[j], &model);
        }
    }
    return 0;
}
