/* pairs.cu: see list.h. */
#include "gpu/kernel/device.h"

HD_LIST_PAIRS(HD_REDUCE_KERNEL)
HD_LIST_PAIRS(HD_SCAN_KERNEL)
