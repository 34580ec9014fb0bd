/* deadline.c: see deadline.h. */
#include "deadline.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { POLLS_PER_CLOCK_READ = 256 };

double test_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double limit_seconds(void) {
    const char *slowdown = getenv("HEDDLE_TEST_SLOWDOWN");
    double factor = slowdown != NULL ? atof(slowdown) : 1.0;
    return 60.0 * (factor > 0.0 ? factor : 1.0);
}

deadline_t deadline_start(const char *what) {
    return (deadline_t){.what = what, .end = test_now() + limit_seconds(), .polls = 0};
}

void deadline_poll(deadline_t *deadline) {
    if (++deadline->polls % POLLS_PER_CLOCK_READ != 0 || test_now() < deadline->end) {
        return;
    }
    fprintf(stderr, "HANG: %s did not end in %.0f s\n", deadline->what, limit_seconds());
    abort();
}

void must(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "FATAL: %s returned %d\n", what, (int)status);
        abort();
    }
}

void *must_alloc(size_t n, size_t bytes) {
    void *memory = calloc(n > 0 ? n : 1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "FATAL: out of memory (%zu x %zu bytes)\n", n, bytes);
        abort();
    }
    return memory;
}
