/* plug.h: where libheddle and libheddle_cuda meet. The former loads the latter (gpu.c), which is
 * linked with the C library alone and is given all it needs.
 */
#ifndef HD_GPU_PLUG_H
#define HD_GPU_PLUG_H

#include "gpu/device.h"

#define HD_GPU_PLUG_NAME "heddle_cuda_open" /* an hd_gpu_plug_fn */

typedef struct hd_gpu_plug {
    size_t
        bytes; /* of hd_gpu_driver_t, which differs where the two libraries are not of one build */
    const char *version; /* of libheddle */
    /* The driver's own cuGetProcAddress, of the kind that came with CUDA 12. */
    void *get_proc_address;
    /* A line for libheddle's log; level is an hd_log_level_t. */
    void (*log)(int level, const char *function, const char *line);
    /* The operating system's number of the NUMA node that a device on the PCI bus is nearest to;
     * -1: unknown. */
    int (*node_of)(const char *bus);
} hd_gpu_plug_t;

/* UCC_ERR_NOT_SUPPORTED and a line: not with this driver, or this libheddle. */
typedef ucc_status_t (*hd_gpu_plug_fn)(const hd_gpu_plug_t *plug, const hd_gpu_driver_t **driver);

#endif
