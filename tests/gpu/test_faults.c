/* What goes wrong: every driver call once, devices that are lost, forks, and drivers that won't do.
 * Always a status and a line, never a leak, and nothing hangs.
 */
#include "gpu/kernel.h"
#include "gpu/plug.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

static const hd_gpu_driver_t *gpu;

/* ---- every driver call ---- */

/* Of the user's, made before anything fails. */
static struct {
    hd_gpu_stream_t stream;
    void *memory, *other;
} user;

#define TRY(_call)                                                                                 \
    if (status == UCC_OK) {                                                                        \
        status = (_call);                                                                          \
    }

static ucc_status_t work(void) {
    hd_gpu_event_t *ready = NULL, *done = NULL;
    hd_gpu_block_t *pinned = NULL, *block = NULL;
    hd_gpu_flag_t *word = NULL;
    hd_gpu_stream_t own, known;
    hd_gpu_capture_t capture;
    hd_gpu_memory_t memory;
    hd_gpu_launch_t launch;
    bool reached = false;
    ucc_status_t status = gpu->use(0);
    TRY(gpu->memory_of(user.other, &memory));
    TRY(gpu->reachable(0, user.other, &reached));
    TRY(gpu->stream_of(user.stream.handle, &known));
    TRY(gpu->stream(0, 0, &own));
    TRY(gpu->event_take(0, &ready));
    TRY(gpu->event_take(1, &done));
    TRY(gpu->take(0, HD_GPU_PINNED, BYTES, &pinned));
    TRY(gpu->take(0, HD_GPU_DEVICE, BYTES, &block));
    TRY(gpu->word_take(0, &word));
    TRY(gpu->capture(known, &capture));
    TRY(gpu->record(known, ready));
    TRY(gpu->wait(own, ready, HD_GPU_SITE_NONE));
    TRY(gpu->copy(own, block->memory, 0, user.memory, 0, BYTES));
    TRY(gpu->copy(own, block->memory, 0, user.other, 1, BYTES));
    if (word) {
        hd_gpu_word_open(word, 1);
        TRY(gpu->gate(own, word, 1, HD_GPU_SITE_NONE));
        hd_gpu_write_word(&launch, (uint64_t *)(uintptr_t)word, 2);
        TRY(gpu->launch(own, &launch));
        TRY(gpu->signal(own, word, 3));
    }
    TRY(gpu->record(own, ready));
    TRY(gpu->event_query(ready, HD_GPU_SITE_NONE));
    status = status == UCC_INPROGRESS ? UCC_OK : status;
    TRY(gpu->event_await(ready, HD_GPU_SITE_NONE));
    /* The caller's to do if something failed on the way: blocks are put back when nothing uses
     * them. */
    CUresult waited = cuCtxPushCurrent_v2(rig_context(0));
    if (waited == CUDA_SUCCESS) {
        CUcontext popped;
        (void)cuCtxSynchronize();
        (void)cuCtxPopCurrent_v2(&popped);
    }
    if (word) {
        gpu->word_put(0, word);
    }
    if (block) {
        gpu->put(block);
    }
    if (pinned) {
        gpu->put(pinned);
    }
    if (done) {
        gpu->event_put(done);
    }
    if (ready) {
        gpu->event_put(ready);
    }
    return status;
}

static void begin_capture(void) {
    CUcontext popped;
    rig_must(cuCtxPushCurrent_v2(rig_context(0)));
    rig_must(cuStreamBeginCapture_v2(user.stream.handle, CU_STREAM_CAPTURE_MODE_GLOBAL));
    rig_must(cuCtxPopCurrent_v2(&popped));
}

static void end_capture(void) {
    CUgraph graph = NULL;
    CUcontext popped;
    rig_must(cuCtxPushCurrent_v2(rig_context(0)));
    (void)cuStreamEndCapture(user.stream.handle, &graph);
    if (graph) {
        rig_must(cuGraphDestroy(graph));
    }
    rig_must(cuCtxPopCurrent_v2(&popped));
}

static void prepare(void) {
    user.stream = rig_stream(0);
    user.memory = rig_alloc(0, BYTES);
    user.other = rig_alloc(1, BYTES);
}

static void clear(void) {
    rig_stream_end(user.stream);
    rig_free(0, user.memory);
    rig_free(1, user.other);
}

static bool nobodys_context_is_current(void) {
    CUcontext current;
    rig_must(cuCtxGetCurrent(&current));
    return current == NULL;
}

/* Runs body with the n-th driver call failing, for every n until none fails any more. */
static unsigned fail_each(ucc_status_t (*body)(void), void (*before)(void), void (*after)(void),
                          CUresult error) {
    unsigned n = 0;
    for (bool failed = true; failed; n++) {
        gpu = rig_open("2");
        prepare();
        if (before) {
            before();
        }
        heddle_emucuda_fail_call(n + 1, (int)error);
        ucc_status_t status = body();
        heddle_emucuda_fail_call(0, 0); /* if it is still to come, it was not one of the body's */
        cr_assert(nobodys_context_is_current(), "call %u", n + 1);
        failed = rig_lines() > 0;
        cr_assert(status == UCC_OK || failed, "call %u: %d without a line", n + 1, (int)status);
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        rig_must(cuThreadExchangeStreamCaptureMode(&mode));
        cr_assert_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL, "call %u", n + 1);
        if (after) {
            after();
        }
        rig_forget();
        clear();
        rig_close();
        heddle_emucuda_reset();
    }
    return n;
}

Test(faults, every_driver_call_may_fail, .timeout = 300) {
    unsigned calls = fail_each(work, NULL, NULL, CUDA_ERROR_UNKNOWN);
    cr_assert_gt(calls, 60);
}

Test(faults, every_driver_call_may_run_out_of_memory, .timeout = 300) {
    unsigned calls = fail_each(work, NULL, NULL, CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_gt(calls, 60);
}

static int releases;

static void count_release(void *arg) {
    (void)arg;
    __atomic_fetch_add(&releases, 1, __ATOMIC_RELAXED);
}

static ucc_status_t keep_something(void) {
    return gpu->keep(user.stream, count_release, NULL);
}

static void check_release(void) {
    bool kept = rig_lines() == 0;
    end_capture();
    /* The driver calls it when it pleases: but never if keep has failed. */
    for (int i = 0; i < 1000 && kept && __atomic_load_n(&releases, __ATOMIC_RELAXED) == 0; i++) {
        usleep(1000);
        heddle_emucuda_run(1);
    }
    usleep(kept ? 0 : 5000);
    /* What was kept before a later call failed (restoring the thread's mode, say) is kept. */
    cr_assert(__atomic_load_n(&releases, __ATOMIC_RELAXED) == kept ||
              __atomic_load_n(&releases, __ATOMIC_RELAXED) == 1);
    releases = 0;
}

Test(faults, every_driver_call_may_fail_while_a_graph_is_given_something, .timeout = 300) {
    unsigned calls = fail_each(keep_something, begin_capture, check_release, CUDA_ERROR_UNKNOWN);
    cr_assert_gt(calls, 4);
}

/* Opening, and closing. */
Test(faults, every_driver_call_may_fail_as_it_is_opened_and_closed, .timeout = 300) {
    unsigned n = 1;
    bool failed = true;
    rig_watch();
    for (; failed; n++) {
        const hd_gpu_driver_t *driver = NULL;
        cr_assert_eq(heddle_emucuda_configure("2"), 0);
        cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
        hd_gpu_unconfigure();
        heddle_emucuda_fail_call(n, CUDA_ERROR_UNKNOWN);
        cr_assert_eq(hd_gpu_configure("emulated", ""), UCC_OK);
        ucc_status_t status = hd_gpu_open(&driver);
        if (status == UCC_OK) {
            hd_gpu_event_t *event;
            if (driver->event_take(1, &event) == UCC_OK) {
                driver->event_put(event);
            }
            hd_gpu_close();
        }
        hd_gpu_unconfigure();
        failed = rig_lines() > 0;
        cr_assert(status == UCC_OK || failed);
        cr_assert(rig_nothing_left(), "call %u", n);
        rig_forget();
        heddle_emucuda_reset();
    }
    cr_assert_gt(n, 100);
}

/* ---- lost devices ---- */

Test(faults, a_lost_device_is_said_once_and_the_others_go_on) {
    hd_gpu_event_t *event, *other;
    hd_gpu_stream_t stream;
    hd_gpu_block_t *block;
    gpu = rig_open("2");
    cr_assert_eq(gpu->event_take(0, &event), UCC_OK);
    cr_assert_eq(gpu->event_take(1, &other), UCC_OK);
    cr_assert_eq(gpu->stream(0, 0, &stream), UCC_OK);
    cr_assert_eq(gpu->take(0, HD_GPU_DEVICE, BYTES, &block), UCC_OK);
    hd_gpu_stream_t users = rig_stream(0), known;
    heddle_emucuda_lose_device(0, 0);
    cr_assert_eq(gpu->record(stream, event), UCC_ERR_IO_ERROR);
    cr_assert(gpu->lost(0));
    cr_assert(!gpu->lost(1));
    cr_assert_eq(rig_lines(), 1);
    cr_assert_not_null(strstr(rig_line(), "lost"), "%s", rig_line());
    cr_assert_eq(gpu->record(stream, event), UCC_ERR_IO_ERROR);
    cr_assert_eq(gpu->event_await(event, HD_GPU_SITE_NONE), UCC_ERR_IO_ERROR);
    cr_assert_eq(gpu->event_query(event, HD_GPU_SITE_NONE), UCC_ERR_IO_ERROR);
    cr_assert_eq(gpu->copy(stream, block->memory, 0, block->memory, 0, 1), UCC_ERR_IO_ERROR);
    for (int times = 0; times < 2; times++) {
        cr_assert_eq(gpu->stream_of(users.handle, &known), UCC_ERR_IO_ERROR);
    }
    gpu->event_put(event);
    gpu->put(block);
    cr_assert_eq(gpu->event_take(0, &event), UCC_ERR_IO_ERROR);
    cr_assert_eq(gpu->take(0, HD_GPU_DEVICE, BYTES, &block), UCC_ERR_IO_ERROR);
    cr_assert_eq(rig_lines(), 1);
    cr_assert_eq(gpu->stream(1, 0, &stream), UCC_OK);
    cr_assert_eq(gpu->record(stream, other), UCC_OK);
    cr_assert_eq(gpu->event_await(other, HD_GPU_SITE_NONE), UCC_OK);
    gpu->event_put(other);
    (void)cuStreamDestroy_v2(users.handle); /* in error, as all calls there */
    rig_forget();
    rig_close();
}

/* ---- who is to blame ---- */

/* Streams of device 0, an event and memory of device 1. */
static struct {
    hd_gpu_stream_t stream[2];
    hd_gpu_event_t *event;
    hd_gpu_block_t *block[2];
} two;

static void open_two(void) {
    gpu = rig_open("2");
    cr_assert_eq(gpu->event_take(1, &two.event), UCC_OK);
    for (int d = 0; d < 2; d++) {
        cr_assert_eq(gpu->stream(d, 0, &two.stream[d]), UCC_OK);
        cr_assert_eq(gpu->take(d, HD_GPU_DEVICE, BYTES, &two.block[d]), UCC_OK);
    }
    cr_assert_eq(gpu->record(two.stream[1], two.event), UCC_OK);
    cr_assert_eq(gpu->event_await(two.event, HD_GPU_SITE_NONE), UCC_OK);
}

static ucc_status_t wait_for_the_other(void) {
    return gpu->wait(two.stream[0], two.event, HD_GPU_SITE_NONE);
}

static ucc_status_t copy_from_the_other(void) {
    return gpu->copy(two.stream[0], two.block[0]->memory, 0, two.block[1]->memory, 1, BYTES);
}

static ucc_status_t copy_to_the_other(void) {
    return gpu->copy(two.stream[0], two.block[1]->memory, 1, two.block[0]->memory, 0, BYTES);
}

static void close_two(void) {
    gpu->event_put(two.event);
    gpu->put(two.block[0]);
    gpu->put(two.block[1]);
    rig_forget();
    rig_close();
    heddle_emucuda_reset();
}

static ucc_status_t (*const of_two[])(void) = {wait_for_the_other, copy_from_the_other,
                                               copy_to_the_other};

Test(faults, what_has_to_do_with_a_lost_device_is_refused_and_loses_no_other) {
    for (size_t i = 0; i < sizeof(of_two) / sizeof(*of_two); i++) {
        open_two();
        heddle_emucuda_lose_device(1, 0);
        cr_assert_eq(gpu->record(two.stream[1], two.event), UCC_ERR_IO_ERROR);
        cr_assert(gpu->lost(1));
        cr_assert_eq(of_two[i](), UCC_ERR_IO_ERROR, "case %zu", i);
        cr_assert(!gpu->lost(0), "case %zu", i);
        cr_assert_eq(rig_lines(), 1, "%s", rig_line());
        close_two();
    }
}

/* The call that notices it is of the other device's stream: after two, that make its context
 * current. */
Test(faults, a_device_is_not_lost_because_another_one_is) {
    enum { NOTICED = 3 };
    for (size_t i = 0; i < sizeof(of_two) / sizeof(*of_two); i++) {
        open_two();
        heddle_emucuda_lose_device(1, 0);
        heddle_emucuda_fail_call(NOTICED, CUDA_ERROR_ECC_UNCORRECTABLE);
        cr_assert_eq(of_two[i](), UCC_ERR_IO_ERROR, "case %zu", i);
        cr_assert(gpu->lost(1), "case %zu", i);
        cr_assert(!gpu->lost(0), "case %zu", i);
        cr_assert_eq(rig_lines(), 1, "%s", rig_line());
        cr_assert(nobodys_context_is_current());
        close_two();
    }
}

Test(faults, a_device_is_lost_if_it_is_not_the_other) {
    enum { NOTICED = 3 };
    for (size_t i = 0; i < sizeof(of_two) / sizeof(*of_two); i++) {
        open_two();
        heddle_emucuda_fail_call(NOTICED, CUDA_ERROR_ECC_UNCORRECTABLE);
        cr_assert_eq(of_two[i](), UCC_ERR_IO_ERROR, "case %zu", i);
        cr_assert(gpu->lost(0), "case %zu", i);
        cr_assert(!gpu->lost(1), "case %zu", i);
        cr_assert_eq(rig_lines(), 1, "%s", rig_line());
        close_two();
    }
}

Test(faults, words_that_were_kept_of_a_lost_device_are_not_used_again) {
    hd_gpu_flag_t *word;
    hd_gpu_event_t *event;
    hd_gpu_stream_t stream;
    gpu = rig_open("1");
    cr_assert_eq(gpu->stream(0, 0, &stream), UCC_OK);
    cr_assert_eq(gpu->event_take(0, &event), UCC_OK);
    cr_assert_eq(gpu->word_take(0, &word), UCC_OK);
    gpu->word_put(0, word);
    heddle_emucuda_lose_device(0, 0);
    cr_assert_eq(gpu->record(stream, event), UCC_ERR_IO_ERROR);
    cr_assert_eq(gpu->word_take(0, &word), UCC_ERR_IO_ERROR);
    gpu->event_put(event);
    rig_forget();
    rig_close();
}

/* Lost after each number of operations, while the scenario runs. */
Test(faults, a_device_may_be_lost_at_every_step, .timeout = 300) {
    bool lost = true;
    for (unsigned n = 0; lost && n < 200; n++) {
        gpu = rig_open("2");
        prepare();
        heddle_emucuda_lose_device(0, n);
        ucc_status_t status = work();
        lost = gpu->lost(0);
        cr_assert_eq(status, lost ? UCC_ERR_IO_ERROR : UCC_OK, "%u: %s", n, rig_line());
        cr_assert_leq(rig_lines(), 1);
        (void)cuStreamDestroy_v2(user.stream.handle);
        (void)cuCtxSetCurrent(rig_context(0));
        (void)cuMemFree_v2((CUdeviceptr)(uintptr_t)user.memory);
        (void)cuCtxSetCurrent(NULL);
        rig_free(1, user.other);
        rig_forget();
        rig_close();
        heddle_emucuda_reset();
    }
    cr_assert(!lost);
}

Test(faults, a_kernels_fault_loses_its_device) {
    hd_gpu_launch_t launch;
    hd_gpu_event_t *event;
    hd_gpu_stream_t stream;
    gpu = rig_open("1");
    cr_assert_eq(gpu->stream(0, 0, &stream), UCC_OK);
    cr_assert_eq(gpu->event_take(0, &event), UCC_OK);
    hd_gpu_write_word(&launch, (uint64_t *)64, 1); /* nobody's memory */
    (void)gpu->launch(stream, &launch);
    (void)gpu->record(stream, event);
    cr_assert_eq(gpu->event_await(event, HD_GPU_SITE_NONE), UCC_ERR_IO_ERROR);
    cr_assert(gpu->lost(0));
    cr_assert_eq(rig_lines(), 1, "%s", rig_line());
    cr_assert_gt(rig_found(), 0);
    gpu->event_put(event);
    rig_forget();
    rig_close();
}

/* ---- forks ---- */

static int in_child(void (*body)(void)) {
    int status = -1;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

#define EXPECT(_that)                                                                              \
    if (!(_that)) {                                                                                \
        fprintf(stderr, "in the child: " #_that ": %s\n", rig_line());                             \
        _exit(1);                                                                                  \
    }

static hd_gpu_event_t *inherited_event;

static void after_a_fork(void) {
    const hd_gpu_driver_t *driver;
    hd_gpu_memory_t memory;
    hd_gpu_event_t *event;
    hd_gpu_stream_t stream;
    rig_forget();
    EXPECT(hd_gpu_memory_of(&memory, &memory) == UCC_OK && memory.kind == HD_GPU_HOST)
    EXPECT(rig_lines() == 0)
    EXPECT(gpu->event_take(0, &event) == UCC_ERR_NOT_SUPPORTED)
    EXPECT(gpu->stream(0, 0, &stream) == UCC_ERR_NOT_SUPPORTED)
    EXPECT(gpu->event_await(inherited_event, HD_GPU_SITE_NONE) == UCC_ERR_NOT_SUPPORTED)
    EXPECT(rig_lines() == 1)
    gpu->event_put(inherited_event);
    EXPECT(hd_gpu_open(&driver) == UCC_ERR_NOT_SUPPORTED)
    EXPECT(strstr(rig_line(), "fork"))
    EXPECT(rig_lines() == 2)
    hd_gpu_close(); /* the parent's */
    hd_gpu_unconfigure();
}

Test(faults, in_the_child_of_a_fork_there_are_no_devices) {
    gpu = rig_open("1");
    cr_assert_eq(gpu->event_take(0, &inherited_event), UCC_OK);
    cr_assert_eq(in_child(after_a_fork), 0);
    cr_assert_eq(gpu->event_query(inherited_event, HD_GPU_SITE_NONE), UCC_OK);
    gpu->event_put(inherited_event);
    rig_close();
}

static void opens_its_own(void) {
    const hd_gpu_driver_t *driver;
    hd_gpu_event_t *event;
    EXPECT(hd_gpu_configure("emulated:1", "") == UCC_OK)
    EXPECT(hd_gpu_open(&driver) == UCC_OK)
    EXPECT(driver->event_take(0, &event) == UCC_OK)
    driver->event_put(event);
    hd_gpu_close();
    hd_gpu_unconfigure();
}

Test(faults, a_child_has_devices_if_its_parent_had_none) {
    rig_watch();
    cr_assert_eq(hd_gpu_configure("auto", ""), UCC_OK);
    hd_gpu_memory_t memory;
    cr_assert_eq(hd_gpu_memory_of(&memory, &memory), UCC_OK);
    hd_gpu_unconfigure();
    cr_assert_eq(in_child(opens_its_own), 0);
}

/* ---- drivers that won't do ---- */

static int version;
static const char *missing;

static CUresult old_version(int *out) {
    *out = version;
    return CUDA_SUCCESS;
}

/* The emulator's, but of another version, and without a function. */
static CUresult find(const char *symbol, void **function, int of, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *result) {
    if (missing && strcmp(symbol, missing) == 0) {
        *function = NULL;
        *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_SUCCESS;
    }
    CUresult status = cuGetProcAddress_v2(symbol, function, of, flags, result);
    if (strcmp(symbol, "cuDriverGetVersion") == 0) {
        CUresult (*mine)(int *) = old_version;
        memcpy(function, &mine, sizeof(*function));
    }
    return status;
}

static int no_node(const char *bus) {
    (void)bus;
    return -1;
}

static char said[1024];

static void say(int level, const char *function, const char *line) {
    (void)level, (void)function;
    snprintf(said, sizeof(said), "%s", line);
}

static ucc_status_t plug_in(size_t bytes, const char *of) {
    hd_gpu_plug_t plug = {.bytes = bytes, .version = of, .log = say, .node_of = no_node};
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        find;
    const hd_gpu_driver_t *driver;
    hd_gpu_plug_fn open;
    void *library = dlopen(HEDDLE_CUDA, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    void *symbol = dlsym(library, HD_GPU_PLUG_NAME);
    memcpy(&open, &symbol, sizeof(open));
    memcpy(&plug.get_proc_address, &get, sizeof(get));
    said[0] = '\0';
    ucc_status_t status = open(&plug, &driver);
    if (status == UCC_OK) {
        driver->close();
    }
    return status;
}

Test(faults, a_driver_that_is_too_old_is_refused_with_its_version) {
    version = 12010;
    missing = NULL;
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t), heddle_version_string()), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(said, "12.1"), "%s", said);
    version = 12020;
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t), heddle_version_string()), UCC_OK, "%s", said);
    version = 13000;
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t), heddle_version_string()), UCC_OK, "%s", said);
}

Test(faults, a_driver_that_lacks_a_function_is_refused_with_its_name) {
    version = 12020;
    missing = "cuStreamWriteValue64";
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t), heddle_version_string()), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(said, missing), "%s", said);
}

Test(faults, libraries_of_two_builds_are_told_apart) {
    version = 12020;
    missing = NULL;
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t) + 8, heddle_version_string()),
                 UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(said, "another build"), "%s", said);
    cr_assert_eq(plug_in(sizeof(hd_gpu_driver_t), "9.9.9"), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(said, "9.9.9"), "%s", said);
}
