/* Memory, with a driver that answers otherwise than the emulated one: which pointers devices reach,
 * and where pinned memory lies. It is the emulated one all the same, behind functions of this file.
 */
#define _GNU_SOURCE
#include "gpu/plug.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/mempolicy.h. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_INTERLEAVE = 3 };
enum { NODES = 1024, LONG_BITS = 8 * sizeof(unsigned long), BYTES = 4096 };

static const hd_gpu_driver_t *gpu;

/* ---- the driver in between ---- */

static bool no_flags, elsewhere;
static int near_node; /* of all devices */

/* Access flags are documented for memory of devices only; and the device's address of registered
 * memory may be another. */
static CUresult pointer_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    CUresult result = cuPointerGetAttribute(value, attribute, pointer);
    if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS && no_flags) {
        *(unsigned int *)value = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && elsewhere) {
        *(CUdeviceptr *)value += BYTES;
    }
    return result;
}

static int policy_of_thread(unsigned long *nodes) {
    int policy = -1;
    long status = syscall(SYS_get_mempolicy, &policy, nodes, (unsigned long)NODES, NULL, 0);
    return status == 0 ? policy : -1;
}

static int policy_within; /* cuMemHostAlloc */
static unsigned long nodes_within[NODES / LONG_BITS];

static CUresult host_alloc(void **pointer, size_t bytes, unsigned int flags) {
    policy_within = policy_of_thread(nodes_within);
    return cuMemHostAlloc(pointer, bytes, flags);
}

static CUresult find(const char *symbol, void **function, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *result) {
    CUresult status = cuGetProcAddress_v2(symbol, function, version, flags, result);
    if (strcmp(symbol, "cuPointerGetAttribute") == 0) {
        CUresult (*mine)(void *, CUpointer_attribute, CUdeviceptr) = pointer_attribute;
        memcpy(function, &mine, sizeof(*function));
    } else if (strcmp(symbol, "cuMemHostAlloc") == 0) {
        CUresult (*mine)(void **, size_t, unsigned int) = host_alloc;
        memcpy(function, &mine, sizeof(*function));
    }
    return status;
}

static int node_of(const char *bus) {
    cr_assert_eq(strlen(bus), strlen("0000:65:00.0"));
    return near_node;
}

static void say(int level, const char *function, const char *line) {
    (void)level;
    cr_assert_fail("%s: %s", function, line);
}

static void open_with(const char *config, int node) {
    hd_gpu_plug_t plug = {.bytes = sizeof(hd_gpu_driver_t),
                          .version = heddle_version_string(),
                          .log = say,
                          .node_of = node_of};
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        find;
    hd_gpu_plug_fn open;
    cr_assert_eq(heddle_emucuda_configure(config), 0);
    void *library = dlopen(HEDDLE_CUDA, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    void *symbol = dlsym(library, HD_GPU_PLUG_NAME);
    memcpy(&open, &symbol, sizeof(open));
    memcpy(&plug.get_proc_address, &get, sizeof(get));
    near_node = node;
    cr_assert_eq(open(&plug, &gpu), UCC_OK);
}

static void close_all(void) {
    gpu->close();
    for (int d = 0; d < 2; d++) {
        rig_release(d);
    }
    cr_assert(rig_nothing_left());
}

static bool reaches(int device, const void *pointer) {
    bool yes = false;
    cr_assert_eq(gpu->reachable(device, pointer, &yes), UCC_OK);
    return yes;
}

/* ---- who reaches what ---- */

Test(memory, managed_and_pinned_memory_are_reached_whatever_access_flags_say) {
    CUdeviceptr managed;
    void *pinned;
    open_with("2", -1);
    rig_must(cuCtxSetCurrent(rig_context(1)));
    (void)rig_context(0);
    rig_must(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    rig_must(cuMemAllocHost_v2(&pinned, BYTES));
    char *plain = rig_alloc(1, BYTES);
    no_flags = true;
    for (int d = 0; d < 2; d++) {
        cr_assert(reaches(d, (void *)(uintptr_t)managed), "managed, device %d", d);
        cr_assert(reaches(d, pinned), "pinned, device %d", d);
        cr_assert(!reaches(d, plain), "plain, device %d", d); /* of this, they do speak */
    }
    rig_free(1, plain);
    rig_must(cuMemFreeHost(pinned));
    rig_must(cuMemFree_v2(managed));
    rig_must(cuCtxSetCurrent(NULL));
    close_all();
}

Test(memory, pinned_memory_that_devices_have_elsewhere_is_not_reached) {
    void *pinned;
    open_with("2", -1);
    rig_must(cuCtxSetCurrent(rig_context(1)));
    (void)rig_context(0);
    rig_must(cuMemAllocHost_v2(&pinned, BYTES));
    cr_assert(reaches(0, pinned));
    elsewhere = true;
    cr_assert(!reaches(0, pinned));
    rig_must(cuMemFreeHost(pinned));
    rig_must(cuCtxSetCurrent(NULL));
    close_all();
}

/* ---- where pinned memory lies ---- */

static void take_pinned(void) {
    hd_gpu_block_t *block;
    memset(nodes_within, 0, sizeof(nodes_within));
    policy_within = -1;
    cr_assert_eq(gpu->take(0, HD_GPU_PINNED, BYTES, &block), UCC_OK);
    gpu->put(block);
}

static bool may_have_policies(void) {
    unsigned long nodes[NODES / LONG_BITS] = {1};
    bool may = policy_of_thread(nodes) == POLICY_DEFAULT;
    nodes[0] = 1;
    may = may && syscall(SYS_set_mempolicy, POLICY_PREFERRED, nodes, (unsigned long)NODES) == 0;
    return may && syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0ul) == 0;
}

Test(memory, pinned_memory_is_taken_near_its_device) {
    unsigned long nodes[NODES / LONG_BITS] = {0};
    if (!may_have_policies()) {
        cr_skip_test("memory policies are forbidden here");
    }
    open_with("2", 0);
    (void)rig_context(0), (void)rig_context(1);
    take_pinned();
    cr_assert_eq(policy_within, POLICY_PREFERRED);
    cr_assert_eq(nodes_within[0], 1);
    cr_assert_eq(policy_of_thread(nodes), POLICY_DEFAULT);
    close_all();
}

Test(memory, nothing_is_asked_for_where_no_node_is_known_or_there_is_none_such) {
    static const int nodes[] = {-1, NODES - 2, NODES, 1 << 30};
    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
        unsigned long mask[NODES / LONG_BITS];
        open_with("2", nodes[i]);
        (void)rig_context(0), (void)rig_context(1);
        int before = policy_of_thread(mask);
        take_pinned();
        cr_assert_eq(policy_within, before, "node %d", nodes[i]);
        close_all();
        heddle_emucuda_reset();
    }
}

Test(memory, who_has_chosen_where_memory_lies_is_obeyed) {
    unsigned long nodes[NODES / LONG_BITS] = {1};
    if (!may_have_policies()) {
        cr_skip_test("memory policies are forbidden here");
    }
    open_with("2", 0);
    (void)rig_context(0), (void)rig_context(1);
    cr_assert_eq(syscall(SYS_set_mempolicy, POLICY_INTERLEAVE, nodes, (unsigned long)NODES), 0);
    take_pinned();
    cr_assert_eq(policy_within, POLICY_INTERLEAVE);
    cr_assert_eq(policy_of_thread(nodes), POLICY_INTERLEAVE);
    close_all();
}
