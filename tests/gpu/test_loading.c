/* What is loaded for GPUs, and when: nothing that nobody needs. Machines on which tests run may have a CUDA driver or not;
 * none of these calls it. */
#include "core/log.h"
#include "gpu/gpu.h"

#include <criterion/criterion.h>
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
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}
