/* Devices, memory, streams: what device.h says of each function, on emulated devices. */
#include "gpu/kernel.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const hd_gpu_driver_t *gpu;

static hd_gpu_memory_t memory_of(const void *pointer) {
    hd_gpu_memory_t memory;
    cr_assert_eq(hd_gpu_memory_of(pointer, &memory), UCC_OK);
    return memory;
}

static bool reaches(int device, const void *pointer) {
    bool yes = false;
    cr_assert_eq(gpu->reachable(device, pointer, &yes), UCC_OK);
    return yes;
}

/* ---- devices ---- */

Test(device, there_are_as_many_as_were_asked_for_and_each_is_described) {
    gpu = rig_open("4");
    cr_assert_eq(gpu->devices, 4);
    cr_assert(gpu->emulated);
    for (int d = 0; d < 4; d++) {
        hd_gpu_info_t info;
        cr_assert_eq(gpu->info(d, &info), UCC_OK);
        cr_assert_neq(info.name[0], '\0');
        cr_assert_eq(strlen(info.bus), strlen("0000:65:00.0"));
        cr_assert_geq(info.major, 8);
        cr_assert_gt(info.bytes, 0);
        cr_assert_gt(info.l2_bytes, 0);
        cr_assert_gt(info.multiprocessors, 0);
        cr_assert_geq(info.width, info.multiprocessors);
        cr_assert_eq(info.peers, 15u & ~(1u << d));
        cr_assert(info.words);
        cr_assert(!gpu->lost(d));
    }
    rig_close();
}

Test(device, without_peer_access_no_device_has_a_peer) {
    hd_gpu_info_t info;
    gpu = rig_open("4,nopeer");
    for (int d = 0; d < 4; d++) {
        cr_assert_eq(gpu->info(d, &info), UCC_OK);
        cr_assert_eq(info.peers, 0);
    }
    rig_close();
}

Test(device, a_number_that_there_is_not_is_an_error_with_a_line) {
    hd_gpu_info_t info;
    hd_gpu_event_t *event;
    gpu = rig_open("2");
    cr_assert_eq(gpu->info(2, &info), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(gpu->use(-1), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(gpu->event_take(2, &event), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(rig_lines(), 3);
    for (int number = -1; number <= 2; number += 3) {
        hd_gpu_stream_t stream = {.device = number, .handle = NULL};
        hd_gpu_capture_t capture;
        hd_gpu_launch_t launch;
        hd_gpu_block_t *block;
        hd_gpu_flag_t *word;
        bool yes;
        rig_forget();
        cr_assert_eq(gpu->event_take(0, &event), UCC_OK);
        cr_assert_eq(gpu->word_take(0, &word), UCC_OK);
        hd_gpu_write_word(&launch, (uint64_t *)(uintptr_t)word, 1);
        cr_assert_eq(gpu->record(stream, event), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->wait(stream, event, HD_GPU_SITE_NONE), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->signal(stream, word, 1), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->gate(stream, word, 1, HD_GPU_SITE_NONE), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->launch(stream, &launch), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->copy(stream, word, -1, word, -1, 8), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->capture(stream, &capture), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->keep(stream, NULL, NULL), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->stream(number, 0, &stream), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->reachable(number, word, &yes), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->word_take(number, &word), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(gpu->take(number, HD_GPU_DEVICE, 8, &block), UCC_ERR_INVALID_PARAM);
        cr_assert(!gpu->lost(number));
        cr_assert_eq(rig_lines(), 12);
        gpu->event_put(event);
        gpu->word_put(0, word);
    }
    rig_forget();
    rig_close();
}

Test(device, looking_makes_no_context_and_use_makes_one_of_that_device_alone) {
    heddle_emucuda_report_t report;
    hd_gpu_info_t info;
    gpu = rig_open("4");
    cr_assert_eq(gpu->info(1, &info), UCC_OK);
    (void)memory_of(&info);
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.contexts, 0);
    cr_assert_eq(gpu->use(2), UCC_OK);
    cr_assert_eq(gpu->use(2), UCC_OK);
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.contexts, 1);
    rig_close();
}

Test(device, it_can_be_opened_again_after_it_was_closed) {
    for (int i = 0; i < 3; i++) {
        gpu = rig_open("2");
        cr_assert_eq(gpu->use(i % 2), UCC_OK);
        rig_close();
    }
}

/* ---- the current context ---- */

static void call_everything(int device, hd_gpu_stream_t stream, void *user) {
    hd_gpu_event_t *event;
    hd_gpu_block_t *block, *pinned;
    hd_gpu_flag_t *word;
    hd_gpu_stream_t internal, own;
    hd_gpu_capture_t capture;
    hd_gpu_memory_t memory;
    hd_gpu_launch_t launch;
    bool yes;
    cr_assert_eq(gpu->use(device), UCC_OK);
    cr_assert_eq(gpu->memory_of(user, &memory), UCC_OK);
    cr_assert_eq(gpu->reachable(device, user, &yes), UCC_OK);
    cr_assert_eq(gpu->take(device, HD_GPU_DEVICE, 100, &block), UCC_OK);
    cr_assert_eq(gpu->take(device, HD_GPU_PINNED, 100, &pinned), UCC_OK);
    cr_assert_eq(gpu->stream(device, 0, &internal), UCC_OK);
    cr_assert_eq(gpu->stream_of(stream.handle, &own), UCC_OK);
    cr_assert_eq(own.device, device);
    cr_assert_eq(gpu->event_take(device, &event), UCC_OK);
    cr_assert_eq(gpu->word_take(device, &word), UCC_OK);
    cr_assert_eq(gpu->copy(stream, block->memory, device, user, device, 64), UCC_OK);
    cr_assert_eq(gpu->record(stream, event), UCC_OK);
    cr_assert_eq(gpu->wait(internal, event, HD_GPU_SITE_NONE), UCC_OK);
    hd_gpu_write_word(&launch, (uint64_t *)(uintptr_t)word, 1);
    cr_assert_eq(gpu->launch(internal, &launch), UCC_OK);
    cr_assert_eq(gpu->signal(internal, word, 2), UCC_OK);
    hd_gpu_word_open(word, 2);
    cr_assert_eq(gpu->gate(internal, word, 2, HD_GPU_SITE_NONE), UCC_OK);
    cr_assert_eq(gpu->capture(stream, &capture), UCC_OK);
    cr_assert(!capture.active);
    cr_assert_eq(gpu->record(internal, event), UCC_OK);
    while (gpu->event_query(event, HD_GPU_SITE_NONE) == UCC_INPROGRESS) {
    }
    cr_assert_eq(gpu->event_await(event, HD_GPU_SITE_NONE), UCC_OK);
    gpu->word_put(device, word);
    gpu->event_put(event);
    gpu->put(pinned);
    gpu->put(block);
}

Test(device, no_function_changes_which_context_is_current) {
    gpu = rig_open("2");
    void *memory = rig_alloc(1, 64);
    hd_gpu_stream_t stream = rig_stream(1);
    CUcontext mine[] = {NULL, rig_context(0), rig_context(1)}, current;
    for (size_t i = 0; i < sizeof(mine) / sizeof(*mine); i++) {
        rig_must(cuCtxSetCurrent(mine[i]));
        call_everything(1, stream, memory);
        rig_must(cuCtxGetCurrent(&current));
        cr_assert_eq(current, mine[i], "case %zu", i);
    }
    rig_must(cuCtxSetCurrent(NULL));
    rig_stream_end(stream);
    rig_free(1, memory);
    rig_close();
}

/* ---- memory ---- */

Test(device, the_kinds_of_memory_are_told_apart) {
    int on_stack = 0, *on_heap = malloc(sizeof(int));
    void *pinned, *registered = NULL;
    CUdeviceptr managed;
    gpu = rig_open("2");
    char *plain = rig_alloc(1, 1000);
    rig_must(cuCtxSetCurrent(rig_context(1)));
    rig_must(cuMemAllocHost_v2(&pinned, 100));
    rig_must(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    cr_assert_eq(posix_memalign(&registered, 4096, 4096), 0);
    rig_must(cuMemHostRegister_v2(registered, 4096, 0));
    rig_must(cuCtxSetCurrent(NULL));

    cr_assert_eq(memory_of(&on_stack).kind, HD_GPU_HOST);
    cr_assert_eq(memory_of(on_heap).kind, HD_GPU_HOST);
    cr_assert_eq(memory_of(on_heap).device, -1);
    cr_assert_eq(memory_of(on_heap).id, 0);
    cr_assert_eq(memory_of(NULL).kind, HD_GPU_HOST);
    cr_assert_eq(memory_of(pinned).kind, HD_GPU_PINNED);
    cr_assert_eq(memory_of(registered).kind, HD_GPU_PINNED);
    cr_assert_eq(memory_of((void *)(uintptr_t)managed).kind, HD_GPU_MANAGED);
    cr_assert_eq(memory_of(plain).kind, HD_GPU_DEVICE);
    cr_assert_eq(memory_of(plain).device, 1);
    cr_assert_eq(memory_of(plain).base, (uintptr_t)plain);
    cr_assert_eq(memory_of(plain + 999).base, (uintptr_t)plain);
    cr_assert_eq(memory_of(plain + 999).bytes, 1000);
    cr_assert_eq(memory_of(plain + 999).id, memory_of(plain).id);

    rig_must(cuCtxSetCurrent(rig_context(1)));
    rig_must(cuMemHostUnregister(registered));
    rig_must(cuMemFreeHost(pinned));
    rig_must(cuMemFree_v2(managed));
    rig_must(cuCtxSetCurrent(NULL));
    rig_free(1, plain);
    free(registered);
    free(on_heap);
    rig_close();
}

Test(device, freed_memory_is_known_by_its_id) {
    gpu = rig_open("1");
    void *first = rig_alloc(0, 4096);
    uint64_t id = memory_of(first).id;
    rig_free(0, first);
    for (int i = 0; i < 10; i++) {
        void *again = rig_alloc(0, 4096);
        cr_assert_neq(memory_of(again).id, id);
        rig_free(0, again);
    }
    cr_assert_eq(memory_of(first).kind, HD_GPU_HOST);
    rig_close();
}

Test(device, plain_memory_of_a_peer_is_reached_where_devices_can) {
    gpu = rig_open("2");
    void *memory = rig_alloc(1, 64);
    cr_assert(reaches(1, memory));
    cr_assert(reaches(0, memory));
    cr_assert(reaches(0, memory));
    rig_free(1, memory);
    rig_close();
}

Test(device, no_memory_of_a_peer_is_reached_where_devices_cannot) {
    gpu = rig_open("2,nopeer");
    void *memory = rig_alloc(1, 64);
    cr_assert(reaches(1, memory));
    cr_assert(!reaches(0, memory));
    rig_free(1, memory);
    rig_close();
}

Test(device, memory_of_the_host_is_reached_if_it_is_pinned) {
    hd_gpu_block_t *block;
    int on_stack;
    gpu = rig_open("2");
    cr_assert_eq(gpu->take(1, HD_GPU_PINNED, 64, &block), UCC_OK);
    cr_assert(reaches(0, block->memory));
    cr_assert(reaches(1, block->memory));
    cr_assert(!reaches(0, &on_stack));
    gpu->put(block);
    rig_close();
}

/* Peer access of contexts says nothing of a pool's memory. */
Test(device, memory_of_a_pool_is_reached_once_its_owner_allows_it) {
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    gpu = rig_open("2");
    hd_gpu_stream_t stream = rig_stream(1);
    rig_must(cuCtxSetCurrent(rig_context(1)));
    rig_must(cuMemPoolCreate(&pool, &properties));
    rig_must(cuMemAllocFromPoolAsync(&memory, 64, pool, stream.handle));
    rig_must(cuStreamSynchronize(stream.handle));
    cr_assert_eq(memory_of((void *)(uintptr_t)memory).kind, HD_GPU_DEVICE);
    cr_assert(reaches(1, (void *)(uintptr_t)memory));
    cr_assert(!reaches(0, (void *)(uintptr_t)memory));
    rig_must(cuMemPoolSetAccess(pool, &access, 1));
    cr_assert(reaches(0, (void *)(uintptr_t)memory));
    rig_must(cuMemFreeAsync(memory, stream.handle));
    rig_must(cuStreamSynchronize(stream.handle));
    rig_must(cuMemPoolDestroy(pool));
    rig_must(cuCtxSetCurrent(NULL));
    rig_stream_end(stream);
    rig_close();
}

/* ---- blocks and words ---- */

Test(device, blocks_are_large_enough_and_come_back) {
    static const size_t sizes[] = {1, 4096, 4097, 100000, 1 << 20};
    heddle_emucuda_report_t before, after;
    gpu = rig_open("1");
    for (int round = 0; round < 2; round++) {
        heddle_emucuda_report(&before, sizeof(before));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            hd_gpu_block_t *block[2], *pinned;
            for (int j = 0; j < 2; j++) {
                cr_assert_eq(gpu->take(0, HD_GPU_DEVICE, sizes[i], &block[j]), UCC_OK);
                cr_assert_geq(block[j]->bytes, sizes[i]);
                cr_assert_eq((uintptr_t)block[j]->memory % 256, 0);
                cr_assert_eq(memory_of(block[j]->memory).kind, HD_GPU_DEVICE);
            }
            cr_assert_neq(block[0]->memory, block[1]->memory);
            cr_assert_eq(gpu->take(0, HD_GPU_PINNED, sizes[i], &pinned), UCC_OK);
            cr_assert_eq((uintptr_t)pinned->memory % 256, 0);
            memset(pinned->memory, 1, sizes[i]);
            gpu->put(block[1]);
            gpu->put(pinned);
            gpu->put(block[0]);
        }
    }
    heddle_emucuda_report(&after, sizeof(after));
    cr_assert_eq(after.device_allocations, before.device_allocations);
    cr_assert_eq(after.host_allocations, before.host_allocations);
    rig_close();
}

Test(device, a_block_that_is_too_large_is_an_error_with_a_line) {
    hd_gpu_block_t *block;
    gpu = rig_open("1,memory=1M");
    cr_assert_eq(gpu->take(0, HD_GPU_DEVICE, 2 << 20, &block), UCC_ERR_NO_MEMORY);
    cr_assert_eq(rig_lines(), 1);
    cr_assert_eq(gpu->take(0, HD_GPU_DEVICE, SIZE_MAX, &block), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(gpu->take(0, HD_GPU_HOST, 1, &block), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(rig_lines(), 3);
    cr_assert(!gpu->lost(0));
    rig_forget();
    rig_close();
}

Test(device, words_have_lines_of_their_own_and_begin_as_zero) {
    enum { WORDS = 200 };
    hd_gpu_flag_t *word[WORDS];
    gpu = rig_open("1");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < WORDS; i++) {
            cr_assert_eq(gpu->word_take(0, &word[i]), UCC_OK);
            cr_assert_eq((uintptr_t)word[i] % 64, 0);
            cr_assert_eq(atomic_load(word[i]), 0);
            atomic_store(word[i], (uint64_t)i + 1);
        }
        for (int i = 0; i < WORDS; i++) {
            cr_assert_eq(atomic_load(word[i]), (uint64_t)i + 1);
            gpu->word_put(0, word[i]);
        }
    }
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.host_allocations, (WORDS * 64 + 4095) / 4096);
    rig_close();
}

/* ---- streams ---- */

Test(device, internal_streams_are_a_few_that_do_not_wait_for_the_null_stream) {
    hd_gpu_stream_t first[HD_GPU_STREAMS], again;
    unsigned int flags;
    gpu = rig_open("2");
    for (uint32_t i = 0; i < HD_GPU_STREAMS; i++) {
        cr_assert_eq(gpu->stream(1, i, &first[i]), UCC_OK);
        cr_assert_eq(first[i].device, 1);
        cr_assert_not_null(first[i].handle);
        for (uint32_t j = 0; j < i; j++) {
            cr_assert_neq(first[i].handle, first[j].handle);
        }
        rig_must(cuCtxSetCurrent(rig_context(1)));
        rig_must(cuStreamGetFlags(first[i].handle, &flags));
        rig_must(cuCtxSetCurrent(NULL));
        cr_assert_eq(flags, CU_STREAM_NON_BLOCKING);
    }
    for (uint32_t i = 0; i < 2 * HD_GPU_STREAMS; i++) {
        cr_assert_eq(gpu->stream(1, i, &again), UCC_OK);
        cr_assert_eq(again.handle, first[i % HD_GPU_STREAMS].handle);
    }
    rig_close();
}

Test(device, a_callers_stream_is_known_by_its_device) {
    hd_gpu_stream_t known;
    gpu = rig_open("3");
    for (int d = 2; d >= 0; d--) {
        hd_gpu_stream_t stream = rig_stream(d);
        for (int i = 0; i < 2; i++) { /* before and after the device is in use here */
            cr_assert_eq(gpu->stream_of(stream.handle, &known), UCC_OK);
            cr_assert_eq(known.device, d);
            cr_assert_eq(known.handle, stream.handle);
        }
        rig_stream_end(stream);
    }
    rig_close();
}

Test(device, special_streams_are_the_current_contexts) {
    void *const special[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    hd_gpu_stream_t known;
    gpu = rig_open("2");
    for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++) {
        rig_must(cuCtxSetCurrent(rig_context(1)));
        cr_assert_eq(gpu->stream_of(special[i], &known), UCC_OK);
        cr_assert_eq(known.device, 1);
        cr_assert_eq(known.handle, special[i]);
        rig_must(cuCtxSetCurrent(NULL));
        cr_assert_eq(gpu->stream_of(special[i], &known), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(rig_lines(), 1);
        rig_forget();
    }
    rig_close();
}

Test(device, a_stream_of_another_context_is_refused_with_a_line) {
    CUcontext context, current;
    CUstream stream;
    hd_gpu_stream_t known;
    gpu = rig_open("2");
    rig_must(cuCtxCreate_v2(&context, 0, 1));
    rig_must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    rig_must(cuCtxSetCurrent(NULL));
    cr_assert_eq(gpu->stream_of(stream, &known), UCC_ERR_NOT_SUPPORTED);
    cr_assert_not_null(strstr(rig_line(), "primary"), "%s", rig_line());
    rig_must(cuCtxGetCurrent(&current));
    cr_assert_null(current);
    rig_must(cuStreamDestroy_v2(stream));
    rig_must(cuCtxDestroy_v2(context));
    rig_forget();
    rig_close();
}

/* ---- copies and kernels ---- */

static void copies_arrive(const char *config) {
    enum { BYTES = 10000 };
    hd_gpu_block_t *from, *to;
    gpu = rig_open(config);
    cr_assert_eq(gpu->take(0, HD_GPU_PINNED, BYTES, &from), UCC_OK);
    cr_assert_eq(gpu->take(1, HD_GPU_PINNED, BYTES, &to), UCC_OK);
    uint8_t *source = from->memory, *target = to->memory;
    for (int i = 0; i < BYTES; i++) {
        source[i] = (uint8_t)(i * 7);
        target[i] = 0;
    }
    void *a = rig_alloc(0, BYTES), *b = rig_alloc(0, BYTES), *c = rig_alloc(1, BYTES);
    hd_gpu_stream_t stream = rig_stream(0);
    hd_gpu_event_t *event;
    cr_assert_eq(gpu->event_take(0, &event), UCC_OK);
    cr_assert_eq(gpu->copy(stream, a, 0, source, -1, BYTES), UCC_OK); /* to a device */
    cr_assert_eq(gpu->copy(stream, b, 0, a, 0, BYTES), UCC_OK);       /* within it */
    cr_assert_eq(gpu->copy(stream, c, 1, b, 0, BYTES), UCC_OK);       /* to another */
    cr_assert_eq(gpu->copy(stream, a, 0, c, 1, BYTES), UCC_OK);       /* and back */
    cr_assert_eq(gpu->copy(stream, target, -1, a, 0, BYTES), UCC_OK); /* to the host */
    cr_assert_eq(gpu->copy(stream, target, -1, NULL, 0, 0), UCC_OK);  /* nothing */
    cr_assert_eq(gpu->record(stream, event), UCC_OK);
    cr_assert_eq(gpu->event_await(event, HD_GPU_SITE_NONE), UCC_OK);
    cr_assert_arr_eq(source, target, BYTES);
    gpu->event_put(event);
    gpu->put(from);
    gpu->put(to);
    rig_stream_end(stream);
    rig_free(0, a);
    rig_free(0, b);
    rig_free(1, c);
    rig_close();
}

Test(device, copies_arrive) {
    copies_arrive("2");
}

Test(device, copies_arrive_also_among_devices_that_do_not_reach_each_other) {
    copies_arrive("2,nopeer");
}

Test(device, a_kernel_runs_as_it_was_described) {
    enum { COUNT = 1000 };
    float value[COUNT];
    gpu = rig_open("1");
    float *a = rig_alloc(0, sizeof(value)), *b = rig_alloc(0, sizeof(value)),
          *sum = rig_alloc(0, sizeof(value));
    for (int i = 0; i < COUNT; i++) {
        value[i] = (float)i;
    }
    rig_must(cuCtxSetCurrent(rig_context(0)));
    rig_must(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)a, value, sizeof(value)));
    rig_must(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)b, value, sizeof(value)));
    rig_must(cuCtxSynchronize()); /* for memory that is not pinned, that goes by way of a buffer */
    rig_must(cuCtxSetCurrent(NULL));
    hd_gpu_stream_t stream = rig_stream(0);
    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = {.dt = UCC_DT_FLOAT32,
                               .op = UCC_OP_SUM,
                               .n = 2,
                               .k = 2,
                               .m = 1,
                               .form = HD_GPU_TO_ALL,
                               .src = (const void *[]){a, b},
                               .dst = (void *[]){sum},
                               .count = COUNT};
    hd_gpu_info_t info;
    cr_assert_eq(gpu->info(0, &info), UCC_OK);
    cr_assert_eq(hd_gpu_reduce(&launch, &what, (hd_gpu_width_t){.blocks = info.width}, NULL),
                 UCC_OK);
    cr_assert_eq(gpu->launch(stream, &launch), UCC_OK);
    rig_read(0, value, sum, sizeof(value));
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(value[i], 2 * (float)i);
    }
    rig_stream_end(stream);
    rig_free(0, a);
    rig_free(0, b);
    rig_free(0, sum);
    rig_close();
}

Test(device, a_launch_of_nothing_is_nothing) {
    hd_gpu_launch_t launch = {.blocks = 0};
    gpu = rig_open("1");
    hd_gpu_stream_t stream = rig_stream(0);
    cr_assert_eq(gpu->launch(stream, &launch), UCC_OK);
    rig_stream_end(stream);
    rig_close();
}

/* ---- what is said of them ---- */

Test(device, what_there_is_can_be_printed) {
    char text[8192];
    gpu = rig_open("3,nopeer");
    FILE *out = fmemopen(text, sizeof(text), "w");
    cr_assert_eq(hd_gpu_print(out, 4), UCC_OK);
    fclose(out);
    cr_assert_not_null(strstr(text, "GPUs: 3, emulated"), "%s", text);
    cr_assert_not_null(strstr(text, "GPU 2 "), "%s", text);
    cr_assert_not_null(strstr(text, "  n  n  ."), "%s", text);
    rig_close();
    out = fmemopen(text, sizeof(text), "w");
    cr_assert_eq(hd_gpu_print(out, 4), UCC_OK);
    fclose(out);
    cr_assert_not_null(strstr(text, "GPUs: none in use"), "%s", text);
    rig_forget();
}
