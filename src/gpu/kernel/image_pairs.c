/* image_pairs.c: see list.h, and pairs.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_PAIRS(HD_HOST_REDUCE)
HD_LIST_PAIRS(HD_HOST_SCAN)
