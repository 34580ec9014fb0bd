/* heddle_emucuda.h: the CUDA driver interface emulated on the host, for tests of host code without
 * a GPU.
 *
 * libheddle_emucuda.so has the functions of libcuda.so.1 (those of CUDA 12.2 that move data, order
 * work and capture it), and so has <libdir>/heddle/emucuda/libcuda.so.1, which lets a program run
 * on it unchanged. Nothing of this header is needed for that, except to bring kernels: GPU code
 * can't run here, so a module is a table of functions of the host. What it can't do, it refuses
 * with CUDA_ERROR_NOT_SUPPORTED.
 *
 * What it does with the program's work is what a device might do: streams advance in an order drawn
 * from a seed, each kernel in pieces between those of others, and only as far as the program waits
 * for. What it checks:
 *
 *   - memory: device memory can't be touched by the host (SIGSEGV); operations may touch only what
 *     is allocated and may be reached from their device. Else the context fails with
 *     CUDA_ERROR_ILLEGAL_ADDRESS, as on a device.
 *   - order: two operations that touch the same bytes, one of them writing, must be ordered by
 *     streams, events or the host. This is checked as they are enqueued, with vector clocks, so
 *     that a missing wait is found in whatever order they run.
 *   - progress: when nothing can run and somebody waits, the waits are printed and the waiter
 *     fails.
 *
 * Each finding is one line on stderr, and counted. All functions may be called from any thread.
 */
#ifndef HEDDLE_EMUCUDA_H_
#define HEDDLE_EMUCUDA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_EMUCUDA_API __attribute__((visibility("default")))

/* Kernels ----------------------------------------------------------------------------------------
 *
 * cuModuleLoadData and its like take the address of a heddle_emucuda_module_t, which must live
 * until the module is unloaded. A module needs not be linked with the emulator: what it calls, it
 * is given.
 */

typedef struct heddle_emucuda_dim {
    uint32_t x, y, z;
} heddle_emucuda_dim_t;

/* A launch, as its ranges depend on it. */
typedef struct heddle_emucuda_launch {
    heddle_emucuda_dim_t grid;  /* blocks */
    heddle_emucuda_dim_t block; /* threads of a block */
    uint32_t shared_bytes;      /* dynamic shared memory of a block */
    int device;                 /* its ordinal */
} heddle_emucuda_launch_t;

/* A block of a launch. Blocks of a launch run one after the other, in any order, and between two of
 * them other operations may run: a kernel whose blocks wait for each other, or for anybody else,
 * hangs. */
typedef struct heddle_emucuda_block {
    const heddle_emucuda_launch_t *launch;
    heddle_emucuda_dim_t index; /* of the block in the grid */
    void *shared;               /* launch->shared_bytes, with any content; 16-byte aligned */
    /* Where the host finds what the device has at pointer: heddle_emucuda_memory. */
    void *(*memory)(const void *pointer);
} heddle_emucuda_block_t;

/* Takes what a launch will touch. Ranges of zero bytes are ignored, so are null pointers of zero
 * bytes; ranges may overlap. Declaring more than is touched may report races that are none,
 * declaring less hides them. */
typedef struct heddle_emucuda_ranges heddle_emucuda_ranges_t;
struct heddle_emucuda_ranges {
    void (*read)(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes);
    void (*write)(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes);
    /* A word that is written, or changed, atomically, to tell somebody something: no race with
     * others that signal it, nor with waits for its value. Whoever sees the value
     * (cuStreamWaitValue*, or heddle_emucuda_host_acquire(pointer) after the host saw it) comes
     * after the kernel. */
    void (*signal)(heddle_emucuda_ranges_t *ranges, const void *pointer, size_t bytes);
};

typedef struct heddle_emucuda_kernel {
    const char *name; /* as cuModuleGetFunction looks for it */
    uint32_t params;  /* number of parameters */
    const uint32_t
        *param_bytes; /* the size of each, which are copied at the launch; at most 4096 together */
    uint32_t max_threads;   /* of a block; 0: 1024 */
    uint32_t static_shared; /* bytes of shared memory beside the dynamic; for attributes only */
    uint32_t registers;     /* of a thread; 0: 32; for attributes only */
    uint32_t reserved;      /* 0 */
    /* Executes one block, all its threads. params[i] points to a copy of parameter i, aligned to 16
     * bytes. Device pointers in there, and in what they point to, lead nowhere before
     * block->memory. Calls no driver function. */
    void (*run)(const heddle_emucuda_block_t *block, void **params);
    /* Declares what all blocks together touch. Called within the launch; touches no device memory.
     * NULL: nothing. */
    void (*ranges)(const heddle_emucuda_launch_t *launch, void **params,
                   heddle_emucuda_ranges_t *ranges);
} heddle_emucuda_kernel_t;

/* A variable in device memory, for cuModuleGetGlobal. */
typedef struct heddle_emucuda_global {
    const char *name;
    size_t bytes;
    const void *initial; /* what it holds when the module is loaded; NULL: zeros */
} heddle_emucuda_global_t;

#define HEDDLE_EMUCUDA_MAGIC   "HdEmCuMd" /* 8 bytes, without a terminator */
#define HEDDLE_EMUCUDA_VERSION 1

typedef struct heddle_emucuda_module {
    char magic[8];    /* HEDDLE_EMUCUDA_MAGIC */
    uint32_t version; /* HEDDLE_EMUCUDA_VERSION */
    uint32_t kernels; /* entries of kernel */
    uint32_t globals; /* entries of global */
    uint32_t reserved;
    const heddle_emucuda_kernel_t *kernel;
    const heddle_emucuda_global_t *global;
} heddle_emucuda_module_t;

/* Where the host finds what the device of the running kernel has at pointer: within run only.
 * Memory that the kernel did not declare is a fault of its context, said once per launch. Pointers
 * to host and managed memory are returned as they are. One translation serves the whole
 * allocation. */
HEDDLE_EMUCUDA_API void *heddle_emucuda_memory(const void *pointer);

/* Configuration ----------------------------------------------------------------------------------
 *
 * Before cuInit, by the variable HEDDLE_EMUCUDA or by heddle_emucuda_configure, which prevails:
 *
 *   N                    number of devices (the first word; default 1, at most 64)
 *   nopeer               no device reaches another's memory (default: any may, once access is
 *                        enabled)
 *   seed=S               of all that is drawn at random (default 1)
 *   channels=C           the streams of a device share C hardware queues, in which operations wait
 *                        for those before them, whatever stream those belong to (default 0: each
 *                        stream has its own)
 *   policy=random        each call runs a few operations of streams drawn at random (default)
 *   policy=lazy          operations run only when somebody waits, and only those that the wait
 *                        needs
 *   policy=starve        one stream at a time runs only when no other can
 *   policy=newest        what was enqueued last runs first
 *   window=BLOCKS        blocks of a kernel that run in one piece (default 16)
 *   memory=BYTES         of each device, with suffix K, M or G (default 4G)
 *   host=one             what one host thread did comes before what any thread does in later calls
 *                        (default)
 *   host=threads         each thread has its own order: heddle_emucuda_host_release and _acquire
 *                        say what else is known
 *   patience=MS          how long a wait with nothing to run lasts until it is a deadlock, if
 *                        another thread of the host might still end it (default 2000)
 *   idle=MS              after this long without a call, work goes on in the background, for
 *                        programs that wait for memory to change without asking the driver (default
 *                        5; 0: never)
 *
 * For example "4,nopeer,seed=17,channels=8,policy=lazy".
 */

/* 0; -1 with a line on stderr: an unknown word, or cuInit was called before. */
HEDDLE_EMUCUDA_API int heddle_emucuda_configure(const char *config);

/* Back to before cuInit: frees every device, context, stream and allocation, forgets findings,
 * faults and configuration. Nobody may be in a call, and handles from before are invalid. */
HEDDLE_EMUCUDA_API void heddle_emucuda_reset(void);

/* Findings ---------------------------------------------------------------------------------------
 */

typedef enum heddle_emucuda_finding {
    HEDDLE_EMUCUDA_RACE = 0,     /* two operations, or one and the host, are not ordered */
    HEDDLE_EMUCUDA_DEADLOCK = 1, /* nothing could run, and somebody waited */
    HEDDLE_EMUCUDA_FAULT = 2,    /* an operation touched what it must not */
    HEDDLE_EMUCUDA_LEAK = 3      /* something lived when its context was destroyed */
} heddle_emucuda_finding_t;

typedef struct heddle_emucuda_report {
    uint64_t races, deadlocks, faults, leaks; /* findings since cuInit */
    uint64_t calls;                           /* driver calls since cuInit */
    uint64_t operations;                      /* that have run */
    uint64_t pending;                         /* that are enqueued and have not run */
    uint64_t
        order; /* a hash of the order in which pieces ran: the same for the same seed and calls */
    /* what there is now */
    uint64_t device_allocations, device_bytes; /* pools and managed memory included */
    uint64_t host_allocations;                 /* pinned or registered */
    uint64_t streams, events, modules, pools;  /* that the program created */
    uint64_t graphs, graph_execs, user_objects;
    uint64_t contexts; /* primary ones that are retained, and others */
    /* what calls have enqueued since cuInit, or captured; a graph's repetitions are not counted */
    uint64_t launches;
    uint64_t copies,
        peer_copies; /* peer_copies: from one device's memory to another's, also in copies */
} heddle_emucuda_report_t;

/* Fills the first `bytes` of *report: sizeof(heddle_emucuda_report_t). */
HEDDLE_EMUCUDA_API void heddle_emucuda_report(heddle_emucuda_report_t *report, size_t bytes);

/* Every finding is given to found instead of stderr; NULL: stderr again. It calls no driver
 * function. */
HEDDLE_EMUCUDA_API void heddle_emucuda_on_finding(void (*found)(heddle_emucuda_finding_t kind,
                                                                const char *line, void *arg),
                                                  void *arg);

/* What the host does -----------------------------------------------------------------------------
 *
 * Operations declare what they touch; the host does so by these, for pinned, registered and managed
 * memory. Copies from and to memory that is not pinned, and synchronous ones, declare theirs.
 */
HEDDLE_EMUCUDA_API void heddle_emucuda_host_read(const void *pointer, size_t bytes);
HEDDLE_EMUCUDA_API void heddle_emucuda_host_write(const void *pointer, size_t bytes);

/* What this thread, and what it waited for, did so far comes before what follows acquire of the
 * same token: a word in memory with which threads of the host hand something on (host=threads),
 * which the host sets for cuStreamWaitValue*, or which an operation has set (cuStreamWriteValue*, a
 * kernel's signal) and the host has seen. Release before the store, acquire after the load. A host
 * function (cuLaunchHostFunc) may release, which hands on what comes before it in its stream;
 * otherwise these functions, and the two above, do nothing there, nor in kernels. */
HEDDLE_EMUCUDA_API void heddle_emucuda_host_release(const void *token);
HEDDLE_EMUCUDA_API void heddle_emucuda_host_acquire(const void *token);

/* Sites of waits ---------------------------------------------------------------------------------
 *
 * A library gives each wait in its source a number, and says it before the call (the address of
 * heddle_emucuda_site is found by cuGetProcAddress, too). A test drops each in turn, and must see a
 * finding: else nobody tests that wait, or nobody needs it.
 */

/* The next wait that this thread calls is site n, above 0: cuStreamWaitEvent, cuStreamWaitValue*,
 * cuEventSynchronize, cuEventQuery, cuStreamSynchronize, cuStreamQuery, cuCtxSynchronize. */
HEDDLE_EMUCUDA_API void heddle_emucuda_site(uint32_t n);
/* From now on, waits of site n return CUDA_SUCCESS and do nothing; 0: none is dropped. */
HEDDLE_EMUCUDA_API void heddle_emucuda_drop_site(uint32_t n);
/* How many waits had site n, since heddle_emucuda_reset. */
HEDDLE_EMUCUDA_API uint64_t heddle_emucuda_site_count(uint32_t n);

/* Faults -----------------------------------------------------------------------------------------
 */

/* The n-th driver call from now (1: the next) fails with error, a CUresult, and does nothing;
 * except those that free or destroy, which do their work and return it, as a driver does with
 * errors of earlier work. 0: none does. cuGetErrorName, cuGetErrorString and cuGetProcAddress are
 * not counted. */
HEDDLE_EMUCUDA_API void heddle_emucuda_fail_call(uint64_t n, int error);

/* The device is lost when it has executed that many more operations: what is enqueued there never
 * runs, and every call in its contexts returns CUDA_ERROR_ECC_UNCORRECTABLE. */
HEDDLE_EMUCUDA_API void heddle_emucuda_lose_device(int device, uint64_t operations);

/* Runs up to n operations, of any device, by the policy of the configuration; returns how many ran.
 */
HEDDLE_EMUCUDA_API uint64_t heddle_emucuda_run(uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
