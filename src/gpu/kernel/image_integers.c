/* image_integers.c: see list.h, and integers.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_INTEGERS(HD_HOST_REDUCE)
HD_LIST_INTEGERS_AVG(HD_HOST_REDUCE)
HD_LIST_INTEGERS_FEW(HD_HOST_FEWS)
HD_LIST_INTEGERS(HD_HOST_SCAN)
