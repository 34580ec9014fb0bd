/* near.h: which GPU an endpoint should use (near.c).
 *
 * One of those that are nearest to where it runs. If several are equally near, those endpoints for
 * which they are share them out, in the order of their numbers, and in as many runs as there are
 * GPUs: endpoints of one GPU are neighbours by number as far as their places allow, so that the
 * canonical blocks of a reduction, which are neighbours, lie on one device. Where nothing is known,
 * of endpoints or of GPUs, all are equally near.
 *
 * But no GPU gets more than its share of all endpoints: who comes late gets the nearest that has
 * room. An idle GPU costs more than the way from a thread, which only enqueues, to one that is
 * farther off; and threads are often placed close to each other, all of them beside the same few
 * GPUs.
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

/* Endpoints of this host, in several processes: in all, and before those of this one. Processes
 * that have few endpoints don't all begin with the first GPU, nor leave their own for want of
 * endpoints. */
typedef struct hd_gpu_crowd {
    uint32_t all, before; /* 0: there are no others */
} hd_gpu_crowd_t;

/* device[i]: that of the endpoint that runs at where[i], of n; there is a GPU. UCC_ERR_NO_MEMORY:
 * logged. */
ucc_status_t hd_gpu_share_out(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                              hd_gpu_crowd_t crowd, uint8_t *device);

/* A line for each run of endpoints that are at one NUMA node and have one GPU. */
void hd_gpu_print_shares(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                         const uint8_t *device, FILE *out);

#endif
