/* report.c: the table on standard output, and the same numbers as JSON.
 *
 * The JSON file holds one result per line, so that line tools can read it, too. Written by one
 * thread at a time: main, then worker 0.
 */
#include "perf.h"

#include <string.h>

static const perf_options_t *options;
static double limit; /* seconds; negative: not measured */
static FILE *json;
static bool first_result;

static void print_header(void) {
    const perf_options_t *o = options;
    printf(
        "# heddle_perf: %u endpoints on %u threads, %u processors, %s calls%s%s, %s %s, clock %s\n",
        o->endpoints, o->workers, perf_processors(), o->api == PERF_API_UCC ? "UCC" : "blocking",
        o->persistent ? ", persistent" : "", o->in_place ? ", in place" : "", o->datatype->name,
        o->operation->name, perf_clock_name());
    if (limit > 0.0) {
        printf("# two threads exchange two flags in %.3f us: no synchronization of two threads is "
               "faster\n",
               limit * 1e6);
    }
    fflush(stdout);
}

bool perf_report_open(const perf_options_t *o, double exchange_limit) {
    options = o;
    limit = exchange_limit;
    first_result = true;
    print_header();
    if (o->json == NULL) {
        return true;
    }
    json = fopen(o->json, "w");
    if (json == NULL) {
        fprintf(stderr, "heddle_perf: cannot write '%s'\n", o->json);
        return false;
    }
    fprintf(json,
            "{\"endpoints\": %u, \"threads\": %u, \"processors\": %u, \"api\": \"%s\", "
            "\"persistent\": %s, \"in_place\": %s, \"datatype\": \"%s\", \"op\": \"%s\", "
            "\"clock\": \"%s\", \"exchange_us\": ",
            o->endpoints, o->workers, perf_processors(), o->api == PERF_API_UCC ? "ucc" : "heddle",
            o->persistent ? "true" : "false", o->in_place ? "true" : "false", o->datatype->name,
            o->operation->name, perf_clock_name());
    fprintf(json, limit > 0.0 ? "%.4f" : "null", limit * 1e6);
    fprintf(json, ",\n\"results\": [\n");
    return true;
}

void perf_report_collective(const perf_coll_t *coll) {
    printf("\n# %s\n#%11s %12s %12s %12s %10s %8s %8s\n", coll->name, "bytes", "min us",
           "median us", "p99 us", "GB/s", "limit", "wrong");
    fflush(stdout);
}

/* The two-store exchange bounds what synchronizes everybody and fits beside its flag. */
static bool has_limit(const perf_result_t *r) {
    bool small = r->coll->type == UCC_COLL_TYPE_BARRIER ||
                 (r->coll->type == UCC_COLL_TYPE_ALLREDUCE && r->bytes <= 8);
    return limit > 0.0 && small;
}

static void print_row(const perf_result_t *r) {
    char bandwidth[32] = "-", ratio[32] = "-", wrong[32] = "-";
    if (r->data_bytes != 0 && r->median > 0.0) {
        snprintf(bandwidth, sizeof(bandwidth), "%.3f", (double)r->data_bytes / r->median * 1e-9);
    }
    if (has_limit(r)) {
        snprintf(ratio, sizeof(ratio), "%.2f x", r->median / limit);
    }
    if (r->verified && r->coll->source != PERF_SHAPE_NONE) {
        snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)r->wrong);
    }
    printf("%12llu %12.3f %12.3f %12.3f %10s %8s %8s\n", (unsigned long long)r->bytes, r->min * 1e6,
           r->median * 1e6, r->p99 * 1e6, bandwidth, ratio, wrong);
    fflush(stdout);
}

void perf_report_result(const perf_result_t *r) {
    print_row(r);
    if (json == NULL) {
        return;
    }
    fprintf(json,
            "%s{\"collective\": \"%s\", \"bytes\": %llu, \"iterations\": %llu, \"batch\": %llu, "
            "\"min_us\": %.4f, \"median_us\": %.4f, \"p99_us\": %.4f, \"mean_us\": %.4f, "
            "\"gbps\": %.4f, \"verified\": %s, \"wrong\": %llu}",
            first_result ? "" : ",\n", r->coll->name, (unsigned long long)r->bytes,
            (unsigned long long)r->iterations, (unsigned long long)r->batch, r->min * 1e6,
            r->median * 1e6, r->p99 * 1e6, r->mean * 1e6,
            r->median > 0.0 ? (double)r->data_bytes / r->median * 1e-9 : 0.0,
            r->verified ? "true" : "false", (unsigned long long)r->wrong);
    first_result = false;
}

void perf_report_skip(uint64_t bytes, const char *why) {
    printf("%12llu  skipped: %s\n", (unsigned long long)bytes, why);
    fflush(stdout);
}

bool perf_report_close(void) {
    if (json == NULL) {
        return true;
    }
    fprintf(json, "\n]}\n");
    bool failed = ferror(json) != 0;
    failed = fclose(json) != 0 || failed;
    json = NULL;
    if (failed) {
        fprintf(stderr, "heddle_perf: '%s' could not be written in full\n", options->json);
    }
    return !failed;
}
