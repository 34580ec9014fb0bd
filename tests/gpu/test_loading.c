/* What is loaded for GPUs, and when: nothing that nobody needs. Machines on which tests run may
 * have a CUDA driver or not; none of these calls it. */
#include "core/log.h"
#include "gpu/gpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucc/api/ucc.h>

static int lines;
static char last[1024];

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    lines++;
    snprintf(last, sizeof(last), "%s", line);
}

static void start(void) {
    lines = 0;
    hd_log_capture(keep_line, NULL);
}

TestSuite(loading, .init = start);

/* Whether any file of that kind is mapped into this process. */
static bool is_mapped(const char *part) {
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        found = found || strstr(line, part);
    }
    fclose(maps);
    return found;
}

static void endpoint(heddle_ep_t *ep, void *arg) {
    double one = 1, sum = 0;
    (void)arg;
    cr_assert_eq(heddle_allreduce(ep, &one, &sum, 1, UCC_DT_FLOAT64, UCC_OP_SUM), UCC_OK);
    cr_assert_eq(sum, 2);
}

Test(loading, collectives_on_host_memory_load_nothing_of_cuda) {
    cr_assert_eq(heddle_run(2, endpoint, NULL), UCC_OK);
    cr_assert(!is_mapped("libcuda"));
    cr_assert(!is_mapped("libheddle_cuda"));
}

Test(loading, without_cuda_in_the_process_all_memory_is_the_hosts_and_nothing_is_loaded) {
    int on_stack;
    hd_gpu_memory_t memory;
    cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
    const void *pointers[] = {&on_stack, NULL, &memory, (void *)0x7f0000000000};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        cr_assert_eq(hd_gpu_memory_of(pointers[i], &memory), UCC_OK);
        cr_assert_eq(memory.kind, HD_GPU_HOST);
        cr_assert_eq(memory.device, -1);
    }
    hd_gpu_unconfigure();
    cr_assert(!is_mapped("libcuda"));
    cr_assert(!is_mapped("libheddle_cuda"));
    cr_assert_eq(lines, 0, "%s", last);
}

Test(loading, nobody_has_opened_what_is_peeked_at) {
    const hd_gpu_driver_t *driver;
    cr_assert_eq(hd_gpu_peek(&driver), UCC_ERR_NOT_FOUND);
    cr_assert_null(driver);
    cr_assert(!is_mapped("libcuda"));
    cr_assert_eq(lines, 0, "%s", last);
}

Test(loading, gpu_n_refuses_devices_with_a_line) {
    const hd_gpu_driver_t *driver;
    cr_assert_eq(hd_gpu_configure("n", ""), UCC_OK);
    cr_assert_eq(hd_gpu_open(&driver), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(last, "GPU=n"), "%s", last);
    cr_assert_eq(lines, 1);
    cr_assert(!is_mapped("libcuda"));
    hd_gpu_unconfigure();
}

Test(loading, an_unknown_word_is_said_and_taken_for_auto) {
    cr_assert_eq(hd_gpu_configure("emulate", ""), UCC_OK);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(last, "'emulate'"), "%s", last);
    cr_assert(!is_mapped("libcuda"));
    hd_gpu_unconfigure();
}

Test(loading, the_first_handle_of_the_library_decides) {
    const hd_gpu_driver_t *driver;
    cr_assert_eq(hd_gpu_configure("n", ""), UCC_OK);
    cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
    hd_gpu_unconfigure();
    cr_assert_eq(hd_gpu_open(&driver), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(last, "GPU=n"), "%s", last);
    hd_gpu_unconfigure();
}

Test(loading, a_library_starts_where_the_gpus_that_were_asked_for_cannot_be_had) {
    ucc_lib_h lib;
    ucc_lib_params_t params = {0};
    setenv("HEDDLE_GPU", "emulated:1", 1);
    setenv("HEDDLE_GPU_LIBRARY", "/nowhere/libheddle_cuda.so", 1);
    cr_assert_eq(ucc_init(&params, NULL, &lib), UCC_OK);
    cr_assert_eq(lines, 1, "%s", last);
    cr_assert_not_null(strstr(last, "/nowhere/libheddle_cuda.so"), "%s", last);
    const hd_gpu_driver_t *none;
    cr_assert_eq(hd_gpu_open(&none), UCC_ERR_NOT_SUPPORTED);
    cr_assert_eq(hd_gpu_peek(&none), UCC_ERR_NOT_FOUND);
    cr_assert_eq(lines, 1, "once more: %s", last);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* ---- a program that has loaded the driver by itself: the emulated one, under the real one's name
 * ---- */

static void *driver;

static int call(const char *name, unsigned long long a, unsigned long long b) {
    int (*function)(unsigned long long, unsigned long long);
    void *found = dlsym(driver, name);
    cr_assert_not_null(found, "%s", name);
    memcpy(&function, &found, sizeof(function));
    return function(a, b);
}

static void load_driver(void) {
    driver = dlopen(EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(driver, "%s", dlerror());
}

static void *device_memory(void) {
    void *context = NULL, *memory = NULL;
    cr_assert_eq(call("cuInit", 0, 0), 0);
    cr_assert_eq(call("cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0), 0);
    cr_assert_eq(call("cuCtxSetCurrent", (uintptr_t)context, 0), 0);
    cr_assert_eq(call("cuMemAlloc_v2", (uintptr_t)&memory, 4096), 0);
    return memory;
}

static hd_gpu_memory_t memory_of(const void *pointer) {
    hd_gpu_memory_t memory;
    cr_assert_eq(hd_gpu_memory_of(pointer, &memory), UCC_OK);
    return memory;
}

Test(loading, a_driver_that_the_program_has_not_initialized_is_left_alone) {
    int on_stack, devices;
    cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
    load_driver();
    cr_assert_eq(memory_of(&on_stack).kind, HD_GPU_HOST);
    cr_assert_eq(call("cuDeviceGetCount", (uintptr_t)&devices, 0), 3); /* not initialized */
    cr_assert(!is_mapped("libheddle_cuda"));
    hd_gpu_unconfigure();
    cr_assert_eq(lines, 0, "%s", last);
}

Test(loading, what_speaks_to_the_driver_is_loaded_for_the_first_pointer_that_the_driver_knows) {
    int on_stack;
    cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
    load_driver();
    void *memory = device_memory();
    cr_assert_eq(memory_of(&on_stack).kind, HD_GPU_HOST);
    cr_assert(!is_mapped("libheddle_cuda"));
    cr_assert_eq(memory_of(memory).kind, HD_GPU_DEVICE);
    cr_assert_eq(memory_of(memory).device, 0);
    cr_assert(is_mapped("libheddle_cuda"));
    cr_assert_eq(memory_of(&on_stack).kind, HD_GPU_HOST);
    hd_gpu_unconfigure();
    cr_assert_eq(lines, 0, "%s", last);
}

Test(loading, gpu_n_takes_all_memory_for_the_hosts) {
    cr_assert_eq(hd_gpu_configure("n", ""), UCC_OK);
    load_driver();
    cr_assert_eq(memory_of(device_memory()).kind, HD_GPU_HOST);
    cr_assert(!is_mapped("libheddle_cuda"));
    hd_gpu_unconfigure();
}

Test(loading, gpu_cuda_runs_on_whatever_has_the_drivers_name) {
    const hd_gpu_driver_t *table;
    load_driver();
    cr_assert_eq(hd_gpu_configure("cuda", ""), UCC_OK);
    cr_assert_eq(hd_gpu_open(&table), UCC_OK);
    cr_assert_eq(table->devices, 1);
    cr_assert(table->emulated);
    cr_assert_eq(table->use(0), UCC_OK);
    hd_gpu_close();
    hd_gpu_unconfigure();
    cr_assert_eq(lines, 0, "%s", last);
}

Test(loading, gpu_cuda_without_a_driver_is_a_line_and_no_error) {
    const hd_gpu_driver_t *table;
    void *real = dlopen("libcuda.so.1", RTLD_NOW);
    if (real) {
        return; /* here is one */
    }
    cr_assert_eq(hd_gpu_configure("cuda", ""), UCC_OK);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(last, "libcuda.so.1"), "%s", last);
    cr_assert_eq(hd_gpu_open(&table), UCC_ERR_NOT_SUPPORTED);
    cr_assert_eq(lines, 2);
    hd_gpu_unconfigure();
}

Test(loading, an_emulator_that_runs_otherwise_is_a_line) {
    const hd_gpu_driver_t *table;
    cr_assert_eq(hd_gpu_configure("emulated:2", ""), UCC_OK);
    hd_gpu_unconfigure();
    cr_assert_eq(hd_gpu_configure("emulated:2", ""), UCC_OK); /* the same: it may go on */
    cr_assert_eq(hd_gpu_open(&table), UCC_OK);
    cr_assert_eq(table->devices, 2);
    hd_gpu_close();
    hd_gpu_unconfigure();
    cr_assert_eq(lines, 0, "%s", last);
    cr_assert_eq(hd_gpu_configure("emulated:3", ""), UCC_OK);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(last, "emulated:3"), "%s", last);
    hd_gpu_unconfigure();
    cr_assert_eq(hd_gpu_configure("emulated:nonsense", ""), UCC_OK);
    cr_assert_eq(lines, 2);
    hd_gpu_unconfigure();
}

Test(loading, an_emulator_that_the_program_runs_is_joined_for_as_many_devices) {
    const hd_gpu_driver_t *table;
    load_driver();
    void *memory = device_memory(); /* it has one device, unless told otherwise */
    cr_assert_eq(hd_gpu_configure("emulated:1", ""), UCC_OK);
    cr_assert_eq(lines, 0, "%s", last);
    cr_assert_eq(hd_gpu_open(&table), UCC_OK);
    cr_assert_eq(table->devices, 1);
    cr_assert_eq(memory_of(memory).kind, HD_GPU_DEVICE);
    hd_gpu_close();
    hd_gpu_unconfigure();
    cr_assert_eq(hd_gpu_configure("emulated:2", ""), UCC_OK);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(last, "with 1 device, configured by others"), "%s", last);
    hd_gpu_unconfigure();
}

/* ---- the library as it ships ---- */

#if defined(HEDDLE_PERF) && defined(HEDDLE_LIBRARY)

/* What the loader says that it looks for and maps. */
static bool output_has(const char *command, const char *part) {
    char line[1024];
    bool found = false;
    FILE *output = popen(command, "r");
    cr_assert_not_null(output);
    while (fgets(line, sizeof(line), output)) {
        found = found || strstr(line, part);
    }
    cr_assert_eq(pclose(output), 0, "%s", command);
    return found;
}

Test(loading, a_program_on_the_shared_library_looks_for_no_file_of_cuda) {
    cr_assert(!output_has("ldd " HEDDLE_LIBRARY, "libcuda"));
    static const char command[] =
        "LD_DEBUG=files,libs " HEDDLE_PERF " -n 2 -b 8 -e 64K allreduce 2>&1";
    cr_assert(output_has(command, "libheddle.so"));
    cr_assert(!output_has(command, "libcuda"));
    cr_assert(!output_has(command, "heddle_cuda"));
    cr_assert(!output_has(command, "emucuda"));
}

#endif
