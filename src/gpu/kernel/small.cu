/* small.cu: see list.h. */
#include "gpu/kernel/device.h"

HD_LIST_SMALL(HD_REDUCE_KERNEL)
HD_LIST_SMALL_AVG(HD_REDUCE_KERNEL)
HD_LIST_SMALL(HD_SCAN_KERNEL)
