/* report.c: the table on standard output. Written by one thread at a time: main, then worker 0. */
#include "device.h"

#include <string.h>

static const perf_options_t *options;
static double limit; /* seconds; negative: not measured */

static void print_devices(void) {
    const perf_device_summary_t *s = perf_device_summary();
    if (s->devices == 0) {
        return;
    }
    printf(
        "# buffers in %s memory of %u x %s, in turn beyond %.1f MiB of cache\n"
        "# an empty launch and its event take %.3f us; a plain copy reads and writes %.1f GB/s%s\n",
        options->memory == UCC_MEMORY_TYPE_CUDA_MANAGED ? "managed" : "device", s->devices, s->name,
        (double)s->l2_bytes / 1048576.0, s->launch * 1e6, s->copy_rate * 1e-9,
        s->devices > 1 ? " in all" : "");
    perf_device_print_places(stdout, options->endpoints);
}

static void print_header(void) {
    const perf_options_t *o = options;
    printf("# heddle_perf: %u endpoints on %u threads", o->endpoints, o->workers);
    if (o->processes > 1) {
        printf(" of each of %u processes", o->processes);
    }
    printf(", %u processors, %s calls%s%s%s, %s %s, clock %s\n", perf_processors(),
           o->stream                ? "stream"
           : o->api == PERF_API_UCC ? "UCC"
                                    : "blocking",
           o->persistent ? ", persistent" : "", o->in_place ? ", in place" : "",
           o->touch ? ", memory touched" : "", o->datatype->name, o->operation->name,
           perf_clock_name());
    print_devices();
    if (limit > 0.0 && o->processes > 1) {
        printf("# a message of 8 bytes between two processes takes %.3f us through UCX alone, half "
               "the way there "
               "and back\n",
               limit * 1e6);
    } else if (limit > 0.0) {
        printf("# two threads exchange two flags in %.3f us: no synchronization of two threads is "
               "faster\n",
               limit * 1e6);
    }
    if (o->messages) {
        puts("# Messages and bytes that a process sends in one call: the mean over all processes, "
             "of the one that "
             "sends\n# most, and the least mean with which it can be done. Bytes are data, without "
             "headers; credits "
             "are\n# messages beside those that tell how far a process has come.");
    }
    if (o->overlap) {
        puts(
            "# An endpoint's share of the work is done in its own calls, by the processor that "
            "also\n"
            "# computes, and does not hide: 0 % is what endpoints get that come together and "
            "share\n"
            "# large data. Waiting hides (for a late peer, a root, a thread without a processor),\n"
            "# and so does what somebody else takes over: whoever waits or progresses on a "
            "processor\n"
            "# of its own, as a thread that only calls progress does.");
    }
    fflush(stdout);
}

bool perf_report_open(const perf_options_t *o, double reference) {
    options = o;
    limit = reference;
    if (o->process != 0) {
        return true;
    }
    print_header();
    return perf_export_open(o, reference);
}

void perf_report_collective(const perf_coll_t *coll) {
    if (options->process != 0) {
        return;
    }
    printf("\n# %s\n#%11s ", coll->name, "bytes");
    if (options->messages) {
        printf("%12s %12s %12s %14s %14s %14s %12s %8s\n", "messages", "of the most", "at least",
               "bytes", "of the most", "at least", "credits", "wrong");
    } else if (options->overlap) {
        printf("%12s %12s %12s %10s %8s\n", "pure us", "compute us", "total us", "overlap %",
               "wrong");
    } else if (options->limits) {
        printf("%12s %12s %12s %9s %9s %12s %7s %7s  %s\n", "min us", "median us", "p99 us", "GB/s",
               "bus GB/s", "limit us", "ratio", "wrong", "limit");
    } else {
        printf("%12s %12s %12s %9s %9s %8s %8s\n", "min us", "median us", "p99 us", "GB/s",
               "bus GB/s", "limit", "wrong");
    }
    fflush(stdout);
}

/* The two-store exchange bounds what synchronizes everybody and fits beside its flag, where every
 * endpoint is a thread that runs: it says nothing about tasks, nor about threads that take
 * turns. */
static bool has_reference(const perf_result_t *r) {
    if (options->local != options->workers || options->host_workers > perf_processors()) {
        return false;
    }
    bool small = r->coll->type == UCC_COLL_TYPE_BARRIER ||
                 (r->coll->type == UCC_COLL_TYPE_ALLREDUCE && r->bytes <= 8) ||
                 (r->coll->type == UCC_COLL_TYPE_BCAST && r->bytes <= 8 && options->processes > 1);
    return limit > 0.0 && small;
}

typedef char perf_text_t[32];

static void print_wrong(const perf_coll_t *coll, bool verified, uint64_t wrong, perf_text_t text) {
    snprintf(text, sizeof(perf_text_t), "-");
    if (verified && coll->source != PERF_SHAPE_NONE) {
        snprintf(text, sizeof(perf_text_t), "%llu", (unsigned long long)wrong);
    }
}

static void print_limits(const perf_result_t *r, const char *wrong) {
    const perf_limits_t *l = &r->limits;
    printf("%12.3f %7.2f %7s  %s", l->limit * 1e6, r->ratio, wrong, l->formula);
    if (l->bytes != 0) {
        printf(", T = %llu", (unsigned long long)l->bytes);
    }
    printf("\n");
}

void perf_report_result(const perf_result_t *r) {
    if (options->process != 0) {
        return;
    }
    perf_text_t bandwidth = "-", bus = "-", ratio = "-", wrong;
    if (r->data_bytes != 0 && r->median > 0.0) {
        double rate = (double)r->data_bytes / r->median * 1e-9;
        snprintf(bandwidth, sizeof(bandwidth), "%.3f", rate);
        snprintf(bus, sizeof(bus), "%.3f", rate * r->bus_factor);
    }
    print_wrong(r->coll, r->verified, r->wrong, wrong);
    printf("%12llu %12.3f %12.3f %12.3f %9s %9s ", (unsigned long long)r->bytes, r->min * 1e6,
           r->median * 1e6, r->p99 * 1e6, bandwidth, bus);
    if (options->limits) {
        print_limits(r, wrong);
    } else {
        if (has_reference(r)) {
            snprintf(ratio, sizeof(ratio), "%.2f x", r->median / limit);
        }
        printf("%8s %8s\n", ratio, wrong);
    }
    fflush(stdout);
    perf_export_result(r);
}

void perf_report_overlap(const perf_overlap_t *r) {
    if (options->process != 0) {
        return;
    }
    perf_text_t wrong;
    print_wrong(r->coll, r->verified, r->wrong, wrong);
    printf("%12llu %12.3f %12.3f %12.3f %10.1f %8s\n", (unsigned long long)r->bytes, r->pure * 1e6,
           r->compute * 1e6, r->total * 1e6, r->percent, wrong);
    fflush(stdout);
    perf_export_overlap(r);
}

void perf_report_wire(const perf_result_t *r) {
    if (options->process != 0) {
        return;
    }
    const perf_wire_t *w = &r->wire;
    perf_text_t wrong;
    print_wrong(r->coll, r->verified, r->wrong, wrong);
    printf("%12llu %12.3f %12.3f %12.3f %14.1f %14.1f %14.1f %12.3f %8s\n",
           (unsigned long long)r->bytes, w->messages, w->most_messages, w->least_messages, w->bytes,
           w->most_bytes, w->least_bytes, w->credits, wrong);
    fflush(stdout);
    perf_export_wire(r);
}

void perf_report_skip(uint64_t bytes, const char *why) {
    if (options->process != 0) {
        return;
    }
    printf("%12llu  skipped: %s\n", (unsigned long long)bytes, why);
    fflush(stdout);
}

bool perf_report_close(void) {
    return options->process != 0 || perf_export_close();
}
