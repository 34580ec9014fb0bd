/* device_cases.h: cases (support/cases.h) whose buffers are in memory of emulated devices.
 *
 *     device_cases_begin("2,seed=3", DEVICE_CASES_PLAIN);    // before any library handle: sets
 *                                                            HEDDLE_GPU
 *     ... batches, worlds ...
 *     device_cases_end();                                    // aborts if the emulator has found
 *                                                            anything
 *
 * With HEDDLE_TEST_GPU=cuda in the environment they are in memory of the real devices that there
 * are, whatever config says, and nobody looks for findings. The program has to be started with
 * LD_PRELOAD=libcuda.so.1, so that it calls that driver.
 *
 * HEDDLE_STRESS_SCALE is how many percent of the cases are run with DEVICE_CASES_ANY; by default 2,
 * others for each configuration.
 */
#ifndef TESTS_GPU_DEVICE_CASES_H_
#define TESTS_GPU_DEVICE_CASES_H_

#include "support/cases.h"

#include <heddle_emucuda.h>

typedef enum device_cases {
    /* endpoint i's are on device i modulo their number, declared or to be found out */
    DEVICE_CASES_PLAIN,
    /* an endpoint with two buffers may have one of them in the host's memory; any is on any device
     */
    DEVICE_CASES_MIXED,
    DEVICE_CASES_MANAGED,
    DEVICE_CASES_PINNED, /* the host's, but declared to be a device's */
    DEVICE_CASES_ANY     /* one of these, drawn anew for each case */
} device_cases_t;

void device_cases_begin(const char *config, device_cases_t kind);
void device_cases_end(void);

/* From now on, with DEVICE_CASES_PLAIN and its like, so many endpoints in a row are on the same
 * device. */
void device_cases_in_runs(uint32_t run);
/* Where endpoint i's buffers are then. */
int device_cases_device(uint32_t endpoint);

/* From now on each endpoint posts on a stream of its own, on the device of its buffers if they are
 * as with DEVICE_CASES_PLAIN. Not with DRIVER_DEEP, which would post what comes later before that
 * stream is in order. */
void device_cases_on_streams(void);

/* The device is lost when it has executed that many more operations. What such a device answers to
 * the test's own calls is no error from then on. */
void device_lose(int device, uint64_t operations);

/* Memory for tests with cases of their own. */
void *device_take(int device, size_t bytes);
void device_put(void *memory);
void device_to(void *memory, const void *from, size_t bytes);
/* A stream there that does not wait for the NULL stream. */
void *device_stream(int device);
void device_stream_end(void *stream);
/* The device's context is current in between. */
void device_enter(int device);
void device_leave(void);
void device_from(void *to, const void *memory, size_t bytes);

#endif
