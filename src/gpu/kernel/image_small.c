/* image_small.c: see list.h, and small.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_SMALL(HD_HOST_REDUCE)
HD_LIST_SMALL_AVG(HD_HOST_REDUCE)
HD_LIST_SMALL(HD_HOST_SCAN)
