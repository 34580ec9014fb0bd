/* train.c: data-parallel training on GPUs, by a few threads of one process.
 *
 * Each thread has a device (or a share of one: Heddle proposes which), a stream, a copy of the
 * network's weights, and some of the samples. In a step it computes the gradient of its samples;
 * Heddle adds up all threads' gradients, in the devices' memory; each thread changes its weights by
 * the sum. So all copies stay the same, bit by bit.
 *
 * Then one thread does the same on the host: the samples of each, one after the other. Heddle adds
 * in an order that depends on the number of endpoints alone: up to eight one after the other. So
 * the bits must be those of the devices.
 *
 * usage: train [threads [steps]]      (default 4 and 200; at most 8 threads)
 *
 * Without a GPU it runs on an emulated one; HEDDLE_GPU=emulated:4 says on how many.
 */
#include "driver.h"
#include "emulated.h"
#include "kernels.h"

#include <heddle/heddle.h>
#include <pthread.h>

enum { SAMPLES = 64 /* of each thread */, MOST_THREADS = 8, BLOCK = 64 };

static const float rate = 0.2f;

/* Kernels for devices, where nvcc was. */
#ifdef TRAIN_FATBIN
extern const char train_fatbin[];
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "train_fatbin:\n"
        ".incbin \"" TRAIN_FATBIN "\"\n"
        ".popsection\n");
static const void *const device_module = train_fatbin;
#else
static const void *const device_module = NULL;
#endif

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "train: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Samples, and weights to begin with
 * ---------------------------------------------------------------------------------------------- */

typedef struct samples {
    float inputs[SAMPLES][INPUTS];
    float targets[SAMPLES];
} samples_t;

/* Between -1 and 1. */
static float draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

static void make_samples(uint32_t thread, samples_t *s) {
    uint32_t seed = 17 + thread;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        for (uint32_t k = 0; k < INPUTS; k++) {
            s->inputs[i][k] = draw(&seed);
        }
        s->targets[i] = s->inputs[i][0] * s->inputs[i][1] + 0.5f * s->inputs[i][2];
    }
}

static void make_weights(float weights[WEIGHTS]) {
    uint32_t seed = 4711;
    for (uint32_t p = 0; p < WEIGHTS; p++) {
        weights[p] = 0.3f * draw(&seed);
    }
}

/* ------------------------------------------------------------------------------------------------
 * One thread and its device
 * ---------------------------------------------------------------------------------------------- */

typedef struct trainer {
    heddle_group_t *group;
    heddle_ep_t *ep;
    pthread_t thread;
    uint32_t number, threads, steps;
    int device;
    void *context, *stream, *module, *forward, *backward, *update;
    train_args_t memory;    /* on the device */
    float weights[WEIGHTS]; /* what has come out */
} trainer_t;

static float *device_array(size_t count, const void *content) {
    uint64_t memory;
    CU(MemAlloc_v2(&memory, count * sizeof(float)));
    if (content) {
        CU(MemcpyHtoD_v2(memory, content, count * sizeof(float)));
    }
    return (float *)(uintptr_t)memory;
}

static void device_free(const float *array) {
    CU(MemFree_v2((uint64_t)(uintptr_t)array));
}

static void begin(trainer_t *t, const void *module) {
    samples_t samples;
    make_samples(t->number, &samples);
    make_weights(t->weights);
    CU(DevicePrimaryCtxRetain(&t->context, t->device));
    CU(CtxSetCurrent(t->context));
    CU(ModuleLoadData(&t->module, module));
    CU(ModuleGetFunction(&t->forward, t->module, "train_forward"));
    CU(ModuleGetFunction(&t->backward, t->module, "train_backward"));
    CU(ModuleGetFunction(&t->update, t->module, "train_update"));
    CU(StreamCreate(&t->stream, 1 /* not ordered with the NULL stream */));
    t->memory = (train_args_t){.inputs = device_array(SAMPLES * INPUTS, samples.inputs),
                               .targets = device_array(SAMPLES, samples.targets),
                               .weights = device_array(WEIGHTS, t->weights),
                               .hidden = device_array(SAMPLES * HIDDEN, NULL),
                               .error = device_array(SAMPLES, NULL),
                               .gradient = device_array(WEIGHTS, NULL),
                               .samples = SAMPLES,
                               .rate = rate / (float)(SAMPLES * t->threads)};
    CU(StreamSynchronize(NULL)); /* the copies above */
}

static void end(trainer_t *t) {
    const train_args_t *m = &t->memory;
    CU(StreamSynchronize(t->stream));
    CU(MemcpyDtoH_v2(t->weights, (uint64_t)(uintptr_t)m->weights, sizeof(t->weights)));
    const float *all[] = {m->inputs, m->targets, m->weights, m->hidden, m->error, m->gradient};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        device_free(all[i]);
    }
    CU(StreamDestroy_v2(t->stream));
    CU(ModuleUnload(t->module));
    CU(CtxSetCurrent(NULL));
}

static void launch(const trainer_t *t, void *kernel, train_args_t args, uint32_t threads) {
    void *params[] = {&args};
    CU(LaunchKernel(kernel, (threads + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, t->stream, params,
                    NULL));
}

/* The sum of all threads' gradients, in each thread's array on its device: after the kernels
 * before, and before those that follow. Threads meet until it is enqueued; nobody waits for a
 * device. */
static void sum_gradients(const trainer_t *t) {
    check(heddle_allreduce_on(t->ep, t->stream, HEDDLE_IN_PLACE, t->memory.gradient, WEIGHTS,
                              UCC_DT_FLOAT32, UCC_OP_SUM),
          "allreduce");
}

static void step(const trainer_t *t) {
    train_args_t forward = t->memory, backward = t->memory, update = t->memory;
    forward.gradient = NULL; /* what a kernel does not use */
    backward.targets = NULL;
    update.inputs = update.targets = update.hidden = update.error = NULL;
    launch(t, t->forward, forward, SAMPLES);
    launch(t, t->backward, backward, WEIGHTS);
    sum_gradients(t);
    launch(t, t->update, update, WEIGHTS);
}

static int emulated;

static void *train(void *arg) {
    trainer_t *t = arg;
    check(heddle_join(t->group, t->number, &t->ep), "heddle_join");
    check(heddle_barrier(t->ep), "heddle_barrier"); /* all have joined */
    check(heddle_team_gpu(heddle_ep_team(t->ep), t->number, &t->device), "heddle_team_gpu");
    begin(t, emulated ? (const void *)&emulated_module : device_module);
    for (uint32_t i = 0; i < t->steps; i++) {
        step(t);
    }
    end(t);
    check(heddle_leave(t->ep), "heddle_leave");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * The same by one thread of the host
 * ---------------------------------------------------------------------------------------------- */

typedef struct network {
    float weights[WEIGHTS], hidden[SAMPLES][HIDDEN], error[SAMPLES], gradient[WEIGHTS];
} network_t;

/* What thread s computes of its samples; returns the sum of squared errors. */
static double share(network_t *n, uint32_t s, train_args_t *args) {
    static samples_t samples; /* there is one thread */
    double loss = 0.0;
    make_samples(s, &samples);
    *args = (train_args_t){samples.inputs[0], samples.targets, n->weights, n->hidden[0],
                           n->error,          n->gradient,     SAMPLES,    args->rate};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        forward(args, i);
        loss += (double)n->error[i] * n->error[i];
    }
    for (uint32_t p = 0; p < WEIGHTS; p++) {
        backward(args, p);
    }
    return loss;
}

/* Weights in n; losses before the first step and before the last. */
static void train_alone(network_t *n, uint32_t threads, uint32_t steps, double losses[2]) {
    train_args_t args = {.rate = rate / (float)(SAMPLES * threads)};
    float sum[WEIGHTS];
    make_weights(n->weights);
    for (uint32_t i = 0; i < steps; i++) {
        losses[1] = share(n, 0, &args);
        memcpy(sum, n->gradient, sizeof(sum));
        for (uint32_t s = 1; s < threads; s++) {
            losses[1] += share(n, s, &args);
            for (uint32_t p = 0; p < WEIGHTS; p++) {
                sum[p] += n->gradient[p];
            }
        }
        losses[0] = i == 0 ? losses[1] : losses[0];
        memcpy(n->gradient, sum, sizeof(sum));
        for (uint32_t p = 0; p < WEIGHTS; p++) {
            update(&args, p);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * All together
 * ---------------------------------------------------------------------------------------------- */

static uint32_t number(int argc, char **argv, int index, uint32_t otherwise, uint32_t most) {
    unsigned long value = argc > index ? strtoul(argv[index], NULL, 10) : otherwise;
    if (value < 1 || value > most) {
        fprintf(stderr, "usage: train [threads [steps]], at most %d threads\n", MOST_THREADS);
        exit(2);
    }
    return (uint32_t)value;
}

/* Where there is no driver, and nobody said anything, an emulated device serves. */
static void choose_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!getenv("HEDDLE_GPU") && (!driver || !device_module)) {
        setenv("HEDDLE_GPU", "emulated:1", 1);
    }
    const char *mode = getenv("HEDDLE_GPU");
    emulated = mode && strncmp(mode, "emulated", 8) == 0;
    if (!emulated && !device_module) {
        puts("skipped: the build had no nvcc, so that there are no kernels for devices");
        exit(77);
    }
}

static void say_devices(void) {
    char name[128];
    int count = 0;
    cu_load(emulated);
    if (cu.Init(0) == 0) {
        CU(DeviceGetCount(&count));
    }
    if (count == 0) {
        puts("skipped: there is no GPU");
        exit(77);
    }
    CU(DeviceGetName(name, sizeof(name), 0));
    printf("%d x %s\n", count, name);
}

int main(int argc, char **argv) {
    static trainer_t trainers[MOST_THREADS];
    static network_t alone;
    double losses[2] = {0, 0};
    uint32_t threads = number(argc, argv, 1, 4, MOST_THREADS), wrong = 0;
    uint32_t steps = number(argc, argv, 2, 200, 1000000);
    heddle_group_t *group;
    choose_driver();
    heddle_group_params_t params = {.endpoints = threads};
    check(heddle_group_create(&params, &group), "heddle_group_create");
    say_devices();
    for (uint32_t i = 0; i < threads; i++) {
        trainers[i] = (trainer_t){.group = group, .number = i, .threads = threads, .steps = steps};
        if (pthread_create(&trainers[i].thread, NULL, train, &trainers[i]) != 0) {
            check(UCC_ERR_NO_RESOURCE, "pthread_create");
        }
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(trainers[i].thread, NULL);
    }
    check(heddle_group_destroy(group), "heddle_group_destroy");
    for (uint32_t i = 0; i < threads; i++) {
        CU(DevicePrimaryCtxRelease_v2(trainers[i].device));
    }
    if (emulated) {
        wrong += cu_findings() != 0;
    }
    train_alone(&alone, threads, steps, losses);
    for (uint32_t i = 0; i < threads; i++) {
        wrong += memcmp(trainers[i].weights, alone.weights, sizeof(alone.weights)) != 0;
    }
    printf(
        "%u threads, %u steps: mean squared error %.4f, then %.4f; %u of %u copies of the weights "
        "differ from one thread's\n",
        threads, steps, losses[0] / (SAMPLES * threads), losses[1] / (SAMPLES * threads), wrong,
        threads);
    return wrong != 0 || losses[1] > losses[0] / 2;
}
