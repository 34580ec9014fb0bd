/* clock.c: calibrates the tick counter against CLOCK_MONOTONIC, once per process. */
#include "threads/clock.h"

#include <pthread.h>

uint64_t hd_ticks_per_us = 1000;

#if defined(__x86_64__)
static uint64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 300 us of counting are right within a few per mille: enough for time-outs and back-off. */
static void calibrate(void) {
    uint64_t ns0 = monotonic_ns(), ticks0 = hd_ticks(), ns1;
    do {
        ns1 = monotonic_ns();
    } while (ns1 - ns0 < 300000u);
    uint64_t rate = (hd_ticks() - ticks0) * 1000u / (ns1 - ns0);
    hd_ticks_per_us = rate ? rate : 1;
}
#else
static void calibrate(void) {
}
#endif

void hd_clock_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, calibrate);
}
