/* cuda.c: the driver's functions and the devices themselves, below all files that use them: cuda.h
 * says what they are, who fills them and when. Which devices there are, and whether one is lost,
 * any thread may ask.
 */
#include "gpu/cuda/cuda.h"

hd_cuda_functions_t hd_cu;
hd_cuda_t hd_cuda;

bool hd_cuda_is_number(int device) {
    return device >= 0 && (uint32_t)device < hd_cuda.devices;
}

bool hd_cuda_lost(int device) {
    if (!hd_cuda_is_number(device)) {
        return false;
    }
    /* relaxed: a fact, with which nothing is published */
    return atomic_load_explicit(&hd_cuda.device[device].lost, memory_order_relaxed);
}
