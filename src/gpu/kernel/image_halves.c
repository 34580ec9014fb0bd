/* image_halves.c: see list.h, and halves.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_HALVES(HD_HOST_REDUCE)
HD_LIST_HALVES_AVG(HD_HOST_REDUCE)
HD_LIST_HALVES_FEW(HD_HOST_FEWS)
HD_LIST_HALVES(HD_HOST_SCAN)
