/* gpu_streams.c: ranks of a process group (gpu/support/ranks.h) with streams of emulated devices,
 * with more threads than processors, many times. Any data race, deadlock or wrong result ends the
 * program.
 */
#include "gpu/support/ranks.h"
#include "support/deadline.h"

#include <heddle_emucuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static const struct {
        const char *config;
        uint32_t n;
        int devices;
    } cases[] = {
        {"1,seed=%u", 2, 1}, {"1,seed=%u,channels=1,policy=newest", 4, 1},
        {"2,seed=%u", 2, 2}, {"4,seed=%u,policy=lazy", 4, 4},
        {"2,seed=%u", 5, 2}, {"3,seed=%u,nopeer", 3, 3},
    };
    double end = test_now() + (argc > 1 ? atof(argv[1]) : 4);
    unsigned k = 0;
    do {
        for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            char config[64];
            snprintf(config, sizeof(config), cases[c].config, 100 * c + k + 1);
            bool gates = cases[c].n == (uint32_t)cases[c].devices && k % 2 == 0;
            setenv("HEDDLE_GPU_GATE", gates ? "memop" : "auto", 1);
            ranks_run(config, cases[c].n, cases[c].devices);
        }
        k++;
    } while (test_now() < end);
    printf("%u rounds of a process group on %zu kinds of machines\n", k,
           sizeof(cases) / sizeof(cases[0]));
    return 0;
}
