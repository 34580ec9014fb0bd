/* conversions.cu: see conversions.h. */
#include "conversions.h"

extern "C" __global__ void narrow(const conversions_args_t a) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.count) {
        const float x = float_with(a.first + i);
        ((uint16_t *)a.out[0])[i] = narrow_f16(x);
        ((uint16_t *)a.out[1])[i] = narrow_bf16(x);
    }
}

extern "C" __global__ void widen(const conversions_args_t a) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.count) {
        ((uint32_t *)a.out[0])[i] = bits_f32(widen_f16((uint16_t)(a.first + i)));
        ((uint32_t *)a.out[1])[i] = bits_f32(widen_bf16((uint16_t)(a.first + i)));
    }
}
