/* load.h: the libraries that GPUs need (load.c); for gpu.c, under its lock. What was loaded stays.
 */
#ifndef HD_GPU_LOAD_H
#define HD_GPU_LOAD_H

#include "gpu/device.h"

/* NULL, and a line: it can't be loaded. */
void *hd_gpu_load_cuda(void);
/* With that configuration, or NULL: with whatever it has. */
void *hd_gpu_load_emulator(const char *config);
/* Loads libheddle_cuda (library: its file; "": where it belongs), and opens the driver, which one
 * of the above returned. */
ucc_status_t hd_gpu_load_driver(void *driver, const char *library, const hd_gpu_driver_t **table);

/* A function of a library. */
bool hd_gpu_look_up(void *library, const char *name, void *pointer);

/* libcuda, if the program has loaded it by itself; loads nothing. */
void *hd_gpu_loaded_cuda(void);

#endif
