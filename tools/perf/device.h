/* device.h: buffers in memory of devices (--mem), and what devices take at least (--limits).
 *
 * The tool has contexts, memory and streams of its own, as a program that uses CUDA has: through
 * the driver that the library uses, libcuda.so.1, or with HEDDLE_GPU=emulated:N the emulated one.
 * It is loaded, not linked with, so that this program starts where there is none. A call of the
 * driver that fails ends the process.
 */
#ifndef HEDDLE_PERF_DEVICE_H_
#define HEDDLE_PERF_DEVICE_H_

#include "perf.h"

/** Finds the driver and its devices, and measures what perf_device_summary tells. False: told.
 * Nothing with --mem host. */
bool perf_device_open(const perf_options_t *options);
void perf_device_close(void);

typedef struct perf_device_summary {
    uint32_t devices;       /**< that endpoints are on */
    char name[64];          /**< of the first of them ... */
    size_t l2_bytes, bytes; /**< ... its cache, and its memory */
    double launch;          /**< seconds from an empty launch to having seen its event */
    double copy_rate; /**< bytes read and written per second, by a plain copy beyond the cache */
} perf_device_summary_t;

/** What perf_device_open found; devices is 0 with --mem host. */
const perf_device_summary_t *perf_device_summary(void);

/** A line that says which endpoint is on which device. */
void perf_device_print_places(FILE *to, uint32_t endpoints);
/** Endpoints on the device that has most of them. */
uint32_t perf_device_most(const perf_options_t *options);

/** Makes *memory, on the device of endpoint e, hold at least `bytes`; the content is lost, and
 * undefined. */
void perf_device_grow(const perf_options_t *options, uint32_t e, unsigned char **memory,
                      size_t *capacity, uint64_t bytes);
void perf_device_free(unsigned char *memory);
void perf_device_to(uint32_t e, void *memory, const void *from, uint64_t bytes);
void perf_device_from(uint32_t e, void *to, const void *memory, uint64_t bytes);
/** Zeros: numbers that no operation turns into anything slow. */
void perf_device_clear(uint32_t e, void *memory, uint64_t bytes);

/** Seconds from an empty launch on the first device to having seen that its event has completed: of
 *  a batch of launches, behind which there is one event, divided by their number. */
double perf_device_launch(uint64_t batch);
/** Seconds in which every device copies so many bytes within its memory, from the first call to
 *  having seen all events; likewise. Beyond the caches: each copy has memory that has not been used
 *  for long. */
double perf_device_copy(uint64_t bytes, uint64_t batch);

/** A stream on the device of endpoint e. */
void *perf_device_stream(uint32_t e);
void perf_device_stream_end(uint32_t e, void *stream);
/** Waits for all that was enqueued there. */
void perf_device_stream_await(uint32_t e, void *stream);

#endif
