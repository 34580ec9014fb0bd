/* test_memory.c: what is allocated, by whom it can be touched, and what happens else. */
#include "rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000 };

TestSuite(memory, .timeout = 60);

Test(memory, fresh_memory_holds_no_zeros) {
    rig_t rig = rig_open("1");
    uint32_t word = 0;
    CUdeviceptr x = rig_alloc(COUNT);
    must(cuMemcpyDtoH_v2(&word, x, 4));
    cr_expect_neq(word, 0);
    must(cuMemFree_v2(x));
    rig_close(&rig);
}

/* In a child, whose end and words are looked at: sanitizers end it in their own way. */
Test(memory, a_host_that_touches_device_memory_dies_and_is_told_what_it_touched) {
    char said[4096] = "";
    size_t length = 0;
    int ends[2], status = 0;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        rig_open("1");
        *(volatile uint32_t *)(uintptr_t)(rig_alloc_filled(COUNT, 1) + 8) = 1;
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    waitpid(child, &status, 0);
    close(ends[0]);
    cr_expect(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    cr_expect(strstr(said, "8 bytes into an allocation of 4000 on device 0"), "%s", said);
}

/* Runs the launch, which must fail in the end, in a way that the context remembers. */
static void expect_fault(rig_t *rig, CUstream stream, CUfunction function, void **params,
                         const char *why) {
    must(rig_launch(function, stream, COUNT, params));
    cr_expect_eq(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect_eq(rig_report().faults, 1);
    cr_expect(strstr(rig_line(0), why), "%s", rig_line(0));
    CUdeviceptr more;
    cr_expect_eq(cuMemAlloc_v2(&more, 4), CUDA_ERROR_ILLEGAL_ADDRESS, "it is sticky");
    cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_close(rig);
}

Test(memory, an_access_beyond_the_end_is_a_fault) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT - 1, 1);
    uint32_t factor = 1, count = COUNT;
    void *params[] = {&x, &factor, &count};
    expect_fault(&rig, rig_stream(), rig.scale, params, "more than its allocation has");
}

Test(memory, an_access_to_freed_memory_is_a_fault) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    uint32_t factor = 1, count = COUNT;
    void *params[] = {&x, &factor, &count};
    must(cuMemFree_v2(x));
    expect_fault(&rig, rig_stream(), rig.scale, params, "no memory of a device");
}

Test(memory, an_access_to_memory_of_the_host_that_is_not_pinned_is_a_fault) {
    rig_t rig = rig_open("1");
    static uint32_t pageable[COUNT];
    void *x = pageable;
    uint32_t factor = 1, count = COUNT;
    void *params[] = {&x, &factor, &count};
    expect_fault(&rig, rig_stream(), rig.scale, params, "nor pinned");
}

Test(memory, an_access_that_was_not_declared_is_a_fault) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1), y = rig_alloc_filled(COUNT, 1);
    uint32_t count = COUNT;
    void *params[] = {&x, &y, &count};
    expect_fault(&rig, rig_stream(), rig.hide, params, "did not declare");
}

/* What device 1 does to memory of device 0. */
static CUresult scale_from_peer(rig_t *rig, CUdeviceptr x, bool enable) {
    CUcontext peer;
    rig_t there;
    must(cuDevicePrimaryCtxRetain(&peer, 1));
    must(cuCtxSetCurrent(peer));
    rig_load(&there);
    CUresult enabled = enable ? cuCtxEnablePeerAccess(rig->context, 0) : CUDA_SUCCESS;
    if (enabled != CUDA_SUCCESS) {
        return enabled;
    }
    CUstream stream = rig_stream();
    rig_scale(&there, stream, x, 2, COUNT);
    return cuStreamSynchronize(stream);
}

Test(memory, memory_of_a_peer_needs_access) {
    rig_t rig = rig_open("2");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    cr_expect_eq(scale_from_peer(&rig, x, false), CUDA_ERROR_ILLEGAL_ADDRESS);
    must(cuCtxSetCurrent(rig.context));
    must(cuCtxSynchronize());
    cr_expect(rig_all(x, COUNT, 1), "the owner's context is well");
    rig_close(&rig);

    rig = rig_open("2");
    x = rig_alloc_filled(COUNT, 1);
    cr_expect_eq(scale_from_peer(&rig, x, true), CUDA_SUCCESS);
    cr_expect_eq(cuCtxEnablePeerAccess(rig.context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    must(cuCtxDisablePeerAccess(rig.context));
    cr_expect_eq(cuCtxDisablePeerAccess(rig.context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    must(cuCtxSetCurrent(rig.context));
    cr_expect(rig_all(x, COUNT, 2));
    rig_close(&rig);

    rig = rig_open("2,nopeer");
    x = rig_alloc_filled(COUNT, 1);
    int can = 1;
    must(cuDeviceCanAccessPeer(&can, 0, 1));
    cr_expect_eq(can, 0);
    cr_expect_eq(scale_from_peer(&rig, x, true), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    rig_close(&rig);
}

Test(memory, copies_between_devices_need_no_access) {
    rig_t rig = rig_open("2,nopeer");
    CUcontext peer;
    CUdeviceptr x = rig_alloc_filled(COUNT, 7);
    must(cuDevicePrimaryCtxRetain(&peer, 1));
    must(cuCtxSetCurrent(peer));
    CUdeviceptr y = rig_alloc_filled(COUNT, 1);
    must(cuMemcpyPeerAsync(y, peer, x, rig.context, COUNT * 4, rig_stream()));
    cr_expect(rig_all(y, COUNT, 7));
    cr_expect_eq(rig_report().faults, 0);
    rig_close(&rig);
}

Test(memory, pools_have_rights_of_their_own) {
    for (int granted = 0; granted <= 1; granted++) {
        rig_t rig = rig_open("2");
        CUstream stream = rig_stream();
        CUmemoryPool pool;
        CUdeviceptr x;
        must(cuDeviceGetDefaultMemPool(&pool, 0));
        if (granted) {
            CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                                      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            must(cuMemPoolSetAccess(pool, &access, 1));
        }
        must(cuMemAllocAsync(&x, COUNT * 4, stream));
        must(cuMemsetD32Async(x, 1, COUNT, stream));
        must(cuStreamSynchronize(stream));
        cr_expect_eq(scale_from_peer(&rig, x, true),
                     granted ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                     "peer access of contexts is not for pools");
        rig_close(&rig);
    }
}

Test(memory, memory_in_stream_order_lives_between_its_turns) {
    rig_t rig = rig_open("1");
    CUstream stream = rig_stream(), other = rig_stream();
    CUdeviceptr x, y;
    must(cuMemAllocAsync(&x, COUNT * 4, stream));
    must(cuMemsetD32Async(x, 1, COUNT, stream));
    must(cuMemFreeAsync(x, stream));
    cr_expect_eq(cuMemsetD32Async(x, 1, COUNT, stream), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    must(cuMemAllocAsync(&y, COUNT * 4, stream));
    must(cuMemsetD32Async(y, 1, COUNT, other));
    cr_expect_eq(rig_report().races, 1, "another stream must wait for the allocation");
    must(cuMemFreeAsync(y, stream));
    cr_expect_eq(rig_report().races, 2, "and be waited for by the free");
    must(cuCtxSynchronize());
    cr_expect_eq(rig_report().device_allocations, 0);
    rig_close(&rig);
}

Test(memory, work_that_comes_after_a_free_by_chance_is_a_fault) {
    rig_t rig = rig_open("1,policy=lazy,idle=0");
    CUstream stream = rig_stream(), late = rig_stream();
    CUdeviceptr x;
    must(cuMemAllocAsync(&x, COUNT * 4, stream));
    must(cuStreamSynchronize(stream));
    rig_scale(&rig, late, x, 2, COUNT);
    must(cuMemFreeAsync(x, stream));
    cr_expect_eq(rig_report().races, 1);
    must(cuStreamSynchronize(stream));
    cr_expect_eq(cuStreamSynchronize(late), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect(strstr(rig_line(1), "memory that was freed"), "%s", rig_line(1));
    rig_close(&rig);
}

Test(memory, what_is_freed_in_stream_order_can_be_allocated_again) {
    rig_t rig = rig_open("1,memory=1M,policy=lazy");
    CUstream stream = rig_stream();
    for (int i = 0; i < 50; i++) {
        CUdeviceptr x;
        must(cuMemAllocAsync(&x, 700 << 10, stream));
        must(cuMemsetD8Async(x, 1, 700 << 10, stream));
        must(cuMemFreeAsync(x, stream));
    }
    CUdeviceptr x;
    cr_expect_eq(cuMemAlloc_v2(&x, 2 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    rig_close(&rig);
}

Test(memory, a_free_waits_for_work_that_uses_it) {
    rig_t rig = rig_open("1,policy=lazy,idle=0");
    CUstream stream = rig_stream();
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    uint64_t before = rig_report().operations;
    rig_scale(&rig, stream, x, 2, COUNT);
    cr_expect_eq(rig_report().operations, before);
    must(cuMemFree_v2(x));
    cr_expect_gt(rig_report().operations, before);
    must(cuStreamSynchronize(stream));
    cr_expect_eq(rig_report().faults, 0, "%s", rig_line(0));
    rig_close(&rig);
}

static unsigned int type_of(CUdeviceptr pointer) {
    unsigned int type = 99;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *value = &type;
    must(cuPointerGetAttributes(1, &attribute, &value, pointer));
    return type;
}

Test(memory, pointers_are_known_by_their_kind) {
    rig_t rig = rig_open("2");
    static uint32_t plain[COUNT], registered[COUNT];
    CUdeviceptr x = rig_alloc(COUNT), managed, base;
    uint32_t *pinned = rig_pinned(COUNT);
    size_t bytes;
    unsigned int is_managed = 0;
    must(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    must(cuMemHostRegister_v2(registered, sizeof(registered), 0));
    cr_expect_eq(cuMemHostRegister_v2(registered + 1, 8, 0),
                 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    cr_expect_eq(type_of(x + 100), CU_MEMORYTYPE_DEVICE);
    cr_expect_eq(type_of(managed), CU_MEMORYTYPE_DEVICE);
    cr_expect_eq(type_of((uintptr_t)pinned), CU_MEMORYTYPE_HOST);
    cr_expect_eq(type_of((uintptr_t)registered), CU_MEMORYTYPE_HOST);
    cr_expect_eq(type_of((uintptr_t)plain), 0);
    must(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    cr_expect_eq(is_managed, 1);
    must(cuMemGetAddressRange_v2(&base, &bytes, x + 100));
    cr_expect(base == x && bytes == COUNT * 4);
    *(uint32_t *)(uintptr_t)managed = 3; /* the host may */
    must(cuMemHostUnregister(registered));
    cr_expect_eq(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    cr_expect_eq(cuMemFreeHost(plain), CUDA_ERROR_INVALID_VALUE);
    rig_close(&rig);
}

Test(memory, rows_are_copied_by_their_pitches) {
    rig_t rig = rig_open("1");
    uint32_t rows[4][8], back[4][3];
    CUdeviceptr x;
    size_t pitch;
    for (int r = 0; r < 4; r++) {
        for (int c = 0; c < 8; c++) {
            rows[r][c] = (uint32_t)(r * 8 + c);
        }
    }
    must(cuMemAllocPitch_v2(&x, &pitch, 32, 4, 4));
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = rows,
                          .srcPitch = 32,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = x,
                          .dstPitch = pitch,
                          .WidthInBytes = 32,
                          .Height = 4};
    must(cuMemcpy2D_v2(&copy));
    copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = x,
                           .srcPitch = pitch,
                           .srcXInBytes = 8,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = back,
                           .dstPitch = 12,
                           .WidthInBytes = 12,
                           .Height = 4};
    must(cuMemcpy2D_v2(&copy));
    for (int r = 0; r < 4; r++) {
        cr_expect_arr_eq(back[r], &rows[r][2], 12);
    }
    rig_close(&rig);
}

Test(memory, variables_of_modules_are_there) {
    rig_t rig = rig_open("1");
    CUdeviceptr table;
    size_t bytes;
    uint32_t copy[4];
    must(cuModuleGetGlobal_v2(&table, &bytes, rig.module, "table"));
    cr_assert_eq(bytes, sizeof(copy));
    must(cuMemcpyDtoH_v2(copy, table, bytes));
    cr_expect_eq(copy[2], 5);
    cr_expect_eq(cuModuleGetGlobal_v2(&table, &bytes, rig.module, "chair"), CUDA_ERROR_NOT_FOUND);
    must(cuModuleUnload(rig.module));
    rig_close(&rig);
}
