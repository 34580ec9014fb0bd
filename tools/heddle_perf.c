/* heddle_perf.c: measures and verifies all collectives among the endpoints of one process.
 *
 * See heddle_perf --help for what is measured, and perf/perf.h for how the parts fit.
 */
#include "perf/perf.h"

int main(int argc, char **argv) {
    perf_options_t options;
    int exit_status = 2;
    if (!perf_options_parse(argc, argv, &options, &exit_status)) {
        return exit_status;
    }
    if (options.tune) {
        return perf_tune(&options);
    }
    perf_clock_start();
    double limit = options.reference ? perf_exchange_limit() : -1.0;
    if (!perf_report_open(&options, limit)) {
        return 1;
    }
    uint64_t wrong = perf_run(&options);
    bool written = perf_report_close();
    if (wrong != 0) {
        printf("\n# %llu WRONG ELEMENTS\n", (unsigned long long)wrong);
    }
    return wrong == 0 && written ? 0 : 1;
}
