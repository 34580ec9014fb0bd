/* image_floats.c: see list.h, and floats.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_FLOATS(HD_HOST_REDUCE)
HD_LIST_FLOATS_AVG(HD_HOST_REDUCE)
HD_LIST_FLOATS_FEW(HD_HOST_FEWS)
HD_LIST_FLOATS(HD_HOST_SCAN)
