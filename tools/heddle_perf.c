/* heddle_perf.c: measures and verifies all collectives among the endpoints of one process, or of
 * several.
 *
 * See heddle_perf --help for what is measured, and perf/perf.h for how the parts fit.
 */
#include "perf/device.h"
#include "perf/world.h"

/* What a small collective is compared with; negative: nothing. */
static double reference_of(perf_options_t *o) {
    const char *why;
    if (o->processes == 1) {
        return o->reference ? perf_exchange_limit() : -1.0;
    }
    if (!o->reference && !o->limits) {
        return -1.0;
    }
    if (!perf_ping_open(&why)) {
        if (o->limits && o->process == 0) {
            fprintf(stderr, "heddle_perf: no --limits: %s\n", why);
        }
        o->limits = false;
        return -1.0;
    }
    double best = -1.0;
    for (int i = 0; o->reference && i < 5; i++) {
        double half = perf_ping_half(8);
        best = best < 0.0 || half < best ? half : best;
    }
    return best;
}

int main(int argc, char **argv) {
    perf_options_t options;
    int exit_status = 2;
    if (!perf_options_parse(argc, argv, &options, &exit_status)) {
        return exit_status;
    }
    if (options.tune) {
        return perf_tune(&options);
    }
    if (!perf_world_open(&options, &exit_status)) {
        return exit_status;
    }
    if (!perf_options_fit(&options)) {
        return 2;
    }
    perf_clock_start();
    if (!perf_device_open(&options)) {
        return 1;
    }
    if (!perf_report_open(&options, reference_of(&options))) {
        return 1;
    }
    uint64_t wrong = perf_run(&options);
    bool written = perf_report_close();
    perf_device_close();
    if (options.processes > 1) {
        perf_ping_close();
        perf_world_close();
    }
    if (wrong != 0 && options.process == 0) {
        printf("\n# %llu WRONG ELEMENTS\n", (unsigned long long)wrong);
    }
    return wrong == 0 && written ? 0 : 1;
}
