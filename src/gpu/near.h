/* near.h: which GPU an endpoint should use (near.c).
 *
 * One of those that are nearest to where it runs. If several are equally near, those endpoints for which they are share
 * them out, in the order of their numbers, and in as many runs as there are GPUs: endpoints of one GPU are neighbours
 * by number as far as their places allow, so that the canonical blocks of a reduction, which are neighbours, lie on one
 * device. Where nothing is known, of endpoints or of GPUs, all are equally near.
 */
#ifndef HD_GPU_NEAR_H
#define HD_GPU_NEAR_H

#include "core/topo.h"
#include "gpu/device.h"

#include <stdio.h>

/* Where the GPUs are. */
typedef struct hd_gpu_places {
    const hd_topo_t *topo;
    uint32_t n;
    hd_locality_t where[HD_GPU_DEVICES];
} hd_gpu_places_t;

ucc_status_t hd_gpu_locate(const hd_gpu_driver_t *driver, hd_gpu_places_t *gpus);

/* device[i]: that of the endpoint that runs at where[i], of n; there is a GPU. before: so many endpoints have been given
 * theirs by other processes of this host. Then few endpoints do not all begin with the first. */
void hd_gpu_share_out(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                      uint32_t before, uint8_t *device);

/* A line for each run of endpoints that are at one NUMA node and have one GPU. */
void hd_gpu_print_shares(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                         const uint8_t *device, FILE *out);

#endif
