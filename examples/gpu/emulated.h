/* emulated.h: the same kernels for the emulated driver: a module, which is a table of functions.
 * For each kernel there are two: what runs a block of it, and what says which memory the whole
 * launch touches, with which the emulator finds what is not ordered.
 */
#ifndef EMULATED_H_
#define EMULATED_H_

#include "kernels.h"

#include <heddle_emucuda.h>

/* Pointers of the device lead nowhere on the host before they are translated. */
static void *on_host(const heddle_emucuda_block_t *block, const void *pointer) {
    return pointer ? block->memory(pointer) : NULL;
}

static void run_block(const heddle_emucuda_block_t *block, void **params,
                      void (*body)(const train_args_t *, uint32_t)) {
    train_args_t a = *(const train_args_t *)params[0];
    uint32_t threads = block->launch->block.x;
    a.inputs = on_host(block, a.inputs);
    a.targets = on_host(block, a.targets);
    a.weights = on_host(block, a.weights);
    a.hidden = on_host(block, a.hidden);
    a.error = on_host(block, a.error);
    a.gradient = on_host(block, a.gradient);
    for (uint32_t t = 0; t < threads; t++) {
        body(&a, block->index.x * threads + t);
    }
}

static void forward_ranges(const heddle_emucuda_launch_t *launch, void **params,
                           heddle_emucuda_ranges_t *r) {
    const train_args_t *a = params[0];
    (void)launch;
    r->read(r, a->inputs, a->samples * INPUTS * sizeof(float));
    r->read(r, a->targets, a->samples * sizeof(float));
    r->read(r, a->weights, WEIGHTS * sizeof(float));
    r->write(r, a->hidden, a->samples * HIDDEN * sizeof(float));
    r->write(r, a->error, a->samples * sizeof(float));
}

static void backward_ranges(const heddle_emucuda_launch_t *launch, void **params,
                            heddle_emucuda_ranges_t *r) {
    const train_args_t *a = params[0];
    (void)launch;
    r->read(r, a->inputs, a->samples * INPUTS * sizeof(float));
    r->read(r, a->weights, WEIGHTS * sizeof(float));
    r->read(r, a->hidden, a->samples * HIDDEN * sizeof(float));
    r->read(r, a->error, a->samples * sizeof(float));
    r->write(r, a->gradient, WEIGHTS * sizeof(float));
}

static void update_ranges(const heddle_emucuda_launch_t *launch, void **params,
                          heddle_emucuda_ranges_t *r) {
    const train_args_t *a = params[0];
    (void)launch;
    r->read(r, a->gradient, WEIGHTS * sizeof(float));
    r->write(r, a->weights, WEIGHTS * sizeof(float));
}

static const uint32_t param_bytes[] = {sizeof(train_args_t)};

#define KERNEL(_name)                                                                              \
    static void run_##_name(const heddle_emucuda_block_t *block, void **params) {                  \
        run_block(block, params, _name);                                                           \
    }
KERNEL(forward)
KERNEL(backward)
KERNEL(update)

#define TABLE(_name)                                                                               \
    {                                                                                              \
        .name = "train_" #_name, .params = 1, .param_bytes = param_bytes, .run = run_##_name,      \
        .ranges = _name##_ranges                                                                   \
    }
static const heddle_emucuda_kernel_t emulated_kernels[] = {TABLE(forward), TABLE(backward),
                                                           TABLE(update)};

static const heddle_emucuda_module_t emulated_module = {
    .magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
    .version = HEDDLE_EMUCUDA_VERSION,
    .kernels = sizeof(emulated_kernels) / sizeof(emulated_kernels[0]),
    .kernel = emulated_kernels};

#endif
