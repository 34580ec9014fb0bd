/* train.cu: see kernels.h. */
#include "kernels.h"

#define KERNEL(_name)                                                                              \
    extern "C" __global__ void train_##_name(const train_args_t args) {                            \
        _name(&args, blockIdx.x *blockDim.x + threadIdx.x);                                        \
    }

KERNEL(forward)
KERNEL(backward)
KERNEL(update)
