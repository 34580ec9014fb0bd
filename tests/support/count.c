/* count.c: see count.h. */
#include "count.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic uint64_t checked;

void count_checked(uint64_t collectives) {
    atomic_fetch_add_explicit(&checked, collectives, memory_order_relaxed); // a plain counter
    const char *path = getenv("HEDDLE_TEST_COUNT_FILE");
    FILE *file = path != NULL ? fopen(path, "a") : NULL; // short appended lines do not mix
    if (file != NULL) {
        fprintf(file, "%" PRIu64 "\n", collectives);
        fclose(file);
    }
}

uint64_t count_of_process(void) {
    return atomic_load_explicit(&checked, memory_order_relaxed); // read after the threads ended
}

uint64_t count_of_file(const char *path) {
    uint64_t sum = 0, one = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fscanf(file, "%" SCNu64, &one) == 1) {
        sum += one;
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}
