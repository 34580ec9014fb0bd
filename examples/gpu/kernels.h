/* kernels.h: a small network's arithmetic, as functions of one thread of a kernel each. nvcc makes
 * kernels of them (train.cu); the host's compiler makes functions, which the emulated driver runs,
 * and with which train.c computes what must come out.
 *
 * The network: INPUTS numbers, HIDDEN rectified sums of them, one output. Its weights lie in one
 * array, and its gradient in another of the same shape. No thread adds up what others have
 * computed, and no multiplication and addition become one instruction, so that the same bits come
 * out everywhere.
 */
#ifndef KERNELS_H_
#define KERNELS_H_

#include <stdint.h>

#if defined(__CUDACC__)
#define KERNEL_BODY static __device__ void
#else
#define KERNEL_BODY static inline void
#endif

enum {
    INPUTS = 8,
    HIDDEN = 32,
    FIRST = 0,                      /* HIDDEN rows of INPUTS weights */
    BIAS = FIRST + HIDDEN * INPUTS, /* HIDDEN */
    SECOND = BIAS + HIDDEN,         /* HIDDEN weights of the output */
    LAST = SECOND + HIDDEN,         /* 1: the output's bias */
    WEIGHTS = LAST + 1
};

/* What a kernel does not use is NULL. */
typedef struct train_args {
    const float *inputs;  /* [samples][INPUTS] */
    const float *targets; /* [samples] */
    float *weights;       /* [WEIGHTS] */
    float *hidden;        /* [samples][HIDDEN] */
    float *error;         /* [samples]: the output less the target */
    float *gradient;      /* [WEIGHTS] */
    uint32_t samples;
    float rate;
} train_args_t;

/* Thread i is sample i. */
KERNEL_BODY forward(const train_args_t *a, uint32_t i) {
    if (i >= a->samples) {
        return;
    }
    const float *x = a->inputs + i * INPUTS, *w = a->weights;
    float output = w[LAST];
    for (uint32_t h = 0; h < HIDDEN; h++) {
        float sum = w[BIAS + h];
        for (uint32_t k = 0; k < INPUTS; k++) {
            sum += w[FIRST + h * INPUTS + k] * x[k];
        }
        sum = sum > 0.0f ? sum : 0.0f;
        a->hidden[i * HIDDEN + h] = sum;
        output += w[SECOND + h] * sum;
    }
    a->error[i] = output - a->targets[i];
}

/* Thread p is weight p: its gradient, summed over the samples in their order. */
KERNEL_BODY backward(const train_args_t *a, uint32_t p) {
    if (p >= WEIGHTS) {
        return;
    }
    float sum = 0.0f;
    for (uint32_t i = 0; i < a->samples; i++) {
        float slope = a->error[i];
        if (p < SECOND) { /* through a hidden sum, if it is not cut off */
            uint32_t h = p < BIAS ? p / INPUTS : p - BIAS;
            slope = a->hidden[i * HIDDEN + h] > 0.0f ? slope * a->weights[SECOND + h] : 0.0f;
            slope = p < BIAS ? slope * a->inputs[i * INPUTS + p % INPUTS] : slope;
        } else if (p < LAST) {
            slope *= a->hidden[i * HIDDEN + (p - SECOND)];
        }
        sum += slope;
    }
    a->gradient[p] = sum;
}

/* Thread p is weight p. */
KERNEL_BODY update(const train_args_t *a, uint32_t p) {
    if (p < WEIGHTS) {
        a->weights[p] -= a->rate * a->gradient[p];
    }
}

#endif
