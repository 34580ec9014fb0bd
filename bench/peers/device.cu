/* device.cu: peers whose buffers are in memory of devices. What to measure is the --variant:
 *
 *     limit    collective copy: a plain copy within the memory of each participant's device
 *     naive    what one writes first: k - 1 additions, k copies; for a bcast k - 1 copies
 *     fused    the honest opponent: one kernel that reads k sources and writes k destinations, 16 bytes at a time
 *     events   the same kernel in the order of each participant's stream: events, and a wait for one's own stream
 *     nccl     where there is nccl.h, and each participant has a device of its own: NCCL refuses two on one
 *     heddle   init, post, test, finalize
 *     heddle_on  heddle_collective_on each participant's stream, and a wait for that
 *
 * naive, fused and events work for participants on one device. They meet on the host; participant 0 enqueues (and waits, but for
 * events); all are told.
 * Every call takes other buffers than the one before, so that no cache keeps them (prepare). Tight loops only: what
 * the loops' buffers on the host hold is copied for verification.
 *
 * Participants take devices in turn; DEVICE_ONE=1 in the environment puts all on the first.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <heddle/heddle.h>
#include <pthread.h>
#if defined(HAVE_NCCL)
#include <nccl.h>
#endif

#define _Noreturn [[noreturn]] /* which is C's */
extern "C" {
#include "loop.h"
}

static const uint32_t MOST = 64;       /* participants */
static const uint64_t MOST_SETS = 256; /* of buffers */

enum variant_t { LIMIT, NAIVE, FUSED, EVENTS, NCCL, HEDDLE, HEDDLE_ON, VARIANTS };
static const char *const variants[VARIANTS] = {"limit", "naive",  "fused",    "events",
                                               "nccl",  "heddle", "heddle_on"};

/* A participant: written by itself alone; the buffers are read by participant 0 after all have come. */
struct alignas(256) self_t {
    std::atomic<uint64_t> come; /* calls that it has entered */
    uint32_t rank;
    uint32_t device;
    cudaStream_t stream;
    cudaEvent_t event; /* EVENTS: what comes before my call; participant 0's: the end of all */
    unsigned char *source, *destination; /* all sets */
    uint64_t source_bytes, destination_bytes, sets;
    uint64_t calls;
    heddle_ep_t *ep;
#if defined(HAVE_NCCL)
    ncclComm_t communicator;
#endif
};

static self_t selves[MOST];
static struct alignas(256) {
    std::atomic<uint64_t> calls; /* that participant 0 has completed */
} done;
static variant_t variant;
static uint64_t devices, l2_bytes;
static heddle_group_t *group;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `group`, and NCCL's id */

static void require(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        bench_fail(what, cudaGetErrorString(error));
    }
}

static void require_heddle(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        bench_fail(what, ucc_status_string(status));
    }
}

/* ------------------------------------------------------------------------------------------------
 * Kernels
 * ---------------------------------------------------------------------------------------------- */

struct buffers_t {
    float *source[MOST], *destination[MOST];
};

__global__ void add(float *to, const float *a, const float *b, uint64_t count) {
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = a[i] + b[i];
    }
}

__device__ static float4 sum(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* All sources are asked for before the first is needed; nothing is going to be read again, so nothing need stay in a cache. K: 0
 * is any number. */
template <int K>
__global__ void __launch_bounds__(512)
    fused_sum(const __grid_constant__ buffers_t b, uint32_t k, uint64_t vectors) {
    const uint64_t stride = gridDim.x * (uint64_t)blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < vectors; i += stride) {
        float4 total;
        if (K > 0) {
            float4 v[K > 0 ? K : 1];
#pragma unroll
            for (int s = 0; s < K; s++) {
                v[s] = __ldcs((const float4 *)b.source[s] + i);
            }
            total = v[0];
#pragma unroll
            for (int s = 1; s < K; s++) {
                total = sum(total, v[s]);
            }
#pragma unroll
            for (int d = 0; d < K; d++) {
                __stcs((float4 *)b.destination[d] + i, total);
            }
        } else {
            total = __ldcs((const float4 *)b.source[0] + i);
#pragma unroll 4
            for (uint32_t s = 1; s < k; s++) {
                total = sum(total, __ldcs((const float4 *)b.source[s] + i));
            }
#pragma unroll 4
            for (uint32_t d = 0; d < k; d++) {
                __stcs((float4 *)b.destination[d] + i, total);
            }
        }
    }
}

__global__ void __launch_bounds__(512)
    fused_bcast(const __grid_constant__ buffers_t b, uint32_t k, uint32_t root, uint64_t vectors) {
    const uint64_t stride = gridDim.x * (uint64_t)blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < vectors; i += stride) {
        float4 v = __ldcs((const float4 *)b.source[root] + i);
        for (uint32_t d = 0; d < k; d++) {
            if (d != root) {
                __stcs((float4 *)b.source[d] + i, v);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Calls
 * ---------------------------------------------------------------------------------------------- */

/* The buffers of a participant's present call. */
static float *source_of(const self_t *s) {
    return (float *)(s->source + s->calls % s->sets * s->source_bytes);
}

static float *destination_of(const self_t *s) {
    return (float *)(s->destination + s->calls % s->sets * s->destination_bytes);
}

static void naive(const self_t *zero, const bench_case_t *c, uint32_t root) {
    const uint64_t bytes = c->count * sizeof(float);
    const uint32_t threads = 256, blocks = (uint32_t)((c->count + threads - 1) / threads);
    float *result = c->coll->id == BENCH_BCAST ? source_of(&selves[root]) : destination_of(zero);
    const float *so_far = source_of(zero);
    for (uint32_t s = 1; s < c->participants && c->coll->id == BENCH_ALLREDUCE; s++) {
        add<<<blocks, threads, 0, zero->stream>>>(result, so_far, source_of(&selves[s]), c->count);
        so_far = result;
    }
    if (so_far != result && c->coll->id == BENCH_ALLREDUCE) { /* alone */
        require(cudaMemcpyAsync(result, so_far, bytes, cudaMemcpyDeviceToDevice, zero->stream),
                "copy");
    }
    for (uint32_t d = 0; d < c->participants; d++) {
        const self_t *s = &selves[d];
        float *to = c->coll->id == BENCH_BCAST ? source_of(s) : destination_of(s);
        if (to != result) {
            require(cudaMemcpyAsync(to, result, bytes, cudaMemcpyDeviceToDevice, zero->stream),
                    "copy");
        }
    }
}

static void fused(const self_t *zero, const bench_case_t *c, uint32_t root) {
    static uint32_t most;                        /* blocks that fill the device */
    const uint64_t vectors = (c->count + 3) / 4; /* sets are padded */
    const uint32_t threads = 512, k = c->participants;
    buffers_t b;
    if (most == 0) {
        int count = 0;
        require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, (int)zero->device),
                "device");
        most = (uint32_t)count * (2048 / threads);
    }
    uint64_t needed = (vectors + threads - 1) / threads;
    const uint32_t blocks = needed < most ? (uint32_t)needed : most;
    for (uint32_t i = 0; i < k; i++) {
        b.source[i] = source_of(&selves[i]);
        b.destination[i] = destination_of(&selves[i]);
    }
    if (c->coll->id == BENCH_BCAST) {
        fused_bcast<<<blocks, threads, 0, zero->stream>>>(b, k, root, vectors);
    } else if (k == 2) {
        fused_sum<2><<<blocks, threads, 0, zero->stream>>>(b, k, vectors);
    } else if (k == 4) {
        fused_sum<4><<<blocks, threads, 0, zero->stream>>>(b, k, vectors);
    } else if (k == 8) {
        fused_sum<8><<<blocks, threads, 0, zero->stream>>>(b, k, vectors);
    } else {
        fused_sum<0><<<blocks, threads, 0, zero->stream>>>(b, k, vectors);
    }
}

/* All come; participant 0 has it done. */
static void together(self_t *s, const bench_case_t *c, uint32_t root) {
    uint64_t call = s->calls + 1;
    uint32_t turns = 0;
    if (s->rank != 0) {
        s->come.store(
            call, std::memory_order_release); /* my buffers are ready; pairs with the loop below */
        while (done.calls.load(std::memory_order_acquire) < call) { /* pairs with the store below */
            bench_relax(&turns);
        }
        return;
    }
    for (uint32_t i = 1; i < c->participants; i++) {
        while (selves[i].come.load(std::memory_order_acquire) < call) {
            bench_relax(&turns);
        }
    }
    variant == NAIVE ? naive(s, c, root) : fused(s, c, root);
    require(cudaGetLastError(), "launch");
    require(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
    done.calls.store(call, std::memory_order_release);
}

/* Likewise, but nobody waits for the device before all is enqueued. */
static void by_events(self_t *s, const bench_case_t *c, uint32_t root) {
    uint64_t call = s->calls + 1;
    uint32_t turns = 0;
    if (s->rank != 0) {
        require(cudaEventRecord(s->event, s->stream), "cudaEventRecord");
        s->come.store(call, std::memory_order_release); /* likewise, and my event */
        while (done.calls.load(std::memory_order_acquire) < call) {
            bench_relax(&turns);
        }
        require(cudaStreamWaitEvent(s->stream, selves[0].event, 0), "cudaStreamWaitEvent");
    } else {
        for (uint32_t i = 1; i < c->participants; i++) {
            while (selves[i].come.load(std::memory_order_acquire) < call) {
                bench_relax(&turns);
            }
            require(cudaStreamWaitEvent(s->stream, selves[i].event, 0), "cudaStreamWaitEvent");
        }
        fused(s, c, root);
        require(cudaGetLastError(), "launch");
        require(cudaEventRecord(s->event, s->stream), "cudaEventRecord");
        done.calls.store(call, std::memory_order_release);
    }
    require(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
}

static void by_heddle(self_t *s, const bench_case_t *c, uint32_t root) {
    const ucc_memory_type_t cuda = UCC_MEMORY_TYPE_CUDA;
    ucc_coll_args_t args;
    ucc_coll_req_h request;
    ucc_status_t status;
    memset(&args, 0, sizeof(args));
    args.coll_type = c->coll->id == BENCH_BCAST ? UCC_COLL_TYPE_BCAST : UCC_COLL_TYPE_ALLREDUCE;
    args.op = UCC_OP_SUM;
    args.root = root;
    args.src.info = {source_of(s), c->count, UCC_DT_FLOAT32, cuda};
    args.dst.info = {destination_of(s), c->count, UCC_DT_FLOAT32, cuda};
    if (variant == HEDDLE_ON) {
        require_heddle(heddle_collective_on(&args, heddle_ep_team(s->ep), s->stream),
                       c->coll->name);
        require(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
        return;
    }
    require_heddle(ucc_collective_init(&args, &request, heddle_ep_team(s->ep)), "init");
    require_heddle(ucc_collective_post(request), "post");
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(heddle_ep_context(s->ep));
    }
    require_heddle(status, c->coll->name);
    require_heddle(ucc_collective_finalize(request), "finalize");
}

static void by_nccl(self_t *s, const bench_case_t *c, uint32_t root) {
#if defined(HAVE_NCCL)
    float *from = source_of(s);
    ncclResult_t result =
        c->coll->id == BENCH_BCAST
            ? ncclBroadcast(from, from, c->count, ncclFloat, (int)root, s->communicator, s->stream)
            : ncclAllReduce(from, destination_of(s), c->count, ncclFloat, ncclSum, s->communicator,
                            s->stream);
    if (result != ncclSuccess) {
        bench_fail("NCCL", ncclGetErrorString(result));
    }
    require(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
#else
    (void)s, (void)c, (void)root;
#endif
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    self_t *s = (self_t *)self;
    switch (variant) {
    case LIMIT:
        require(cudaMemcpyAsync(destination_of(s), source_of(s), c->count * sizeof(float),
                                cudaMemcpyDeviceToDevice, s->stream),
                "cudaMemcpyAsync");
        require(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
        break;
    case EVENTS:
        by_events(s, c, root);
        break;
    case NCCL:
        by_nccl(s, c, root);
        break;
    case HEDDLE:
    case HEDDLE_ON:
        by_heddle(s, c, root);
        break;
    default:
        together(s, c, root);
        break;
    }
    s->calls++;
}

/* ------------------------------------------------------------------------------------------------
 * Cases
 * ---------------------------------------------------------------------------------------------- */

static bool supports(const bench_case_t *c) {
    bool reduces = c->coll->id == BENCH_ALLREDUCE || c->coll->id == BENCH_BCAST;
    return c->form == BENCH_BLOCKING && (variant == LIMIT ? c->coll->id == BENCH_COPY : reduces);
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static void prepare(void *self, const bench_case_t *c) {
    self_t *s = (self_t *)self;
    s->source_bytes = s->destination_bytes = padded(c->count * sizeof(float));
    uint64_t here = devices == 1 ? c->participants : (c->participants + devices - 1) / devices;
    s->sets = 2 * l2_bytes / (2 * s->source_bytes * here) + 1;
    s->sets = s->sets < MOST_SETS ? s->sets : MOST_SETS;
    s->calls = 0;
    require(cudaMalloc((void **)&s->source, s->sets * s->source_bytes), "cudaMalloc");
    require(cudaMalloc((void **)&s->destination, s->sets * s->destination_bytes), "cudaMalloc");
    require(cudaMemset(s->source, 0, s->sets * s->source_bytes), "cudaMemset");
    require(cudaMemset(s->destination, 0, s->sets * s->destination_bytes), "cudaMemset");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    s->come.store(0, std::memory_order_relaxed); /* relaxed: the loops meet before the first call */
    if (s->rank == 0) {
        done.calls.store(0, std::memory_order_relaxed);
    }
}

static void release(void *self, const bench_case_t *c) {
    self_t *s = (self_t *)self;
    (void)c;
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    require(cudaFree(s->source), "cudaFree");
    require(cudaFree(s->destination), "cudaFree");
}

/* For verification: what the next call shall read, and what the last one has written. */
static void give(void *self, const bench_case_t *c) {
    const self_t *s = (const self_t *)self;
    require(cudaMemcpy(source_of(s), c->source, c->count * sizeof(float), cudaMemcpyHostToDevice),
            "give");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

static void take(void *self, bench_case_t *c) {
    self_t last = {};
    const self_t *s = (const self_t *)self;
    last.source = s->source, last.destination = s->destination;
    last.source_bytes = s->source_bytes, last.destination_bytes = s->destination_bytes;
    last.sets = s->sets, last.calls = s->calls - 1;
    bool bcast = c->coll->id == BENCH_BCAST;
    require(cudaMemcpy(bcast ? c->source : c->destination,
                       bcast ? source_of(&last) : destination_of(&last), c->count * sizeof(float),
                       cudaMemcpyDeviceToHost),
            "take");
}

/* ------------------------------------------------------------------------------------------------
 * Participants
 * ---------------------------------------------------------------------------------------------- */

static void join_nccl(self_t *s, uint32_t participants) {
#if defined(HAVE_NCCL)
    static ncclUniqueId id;
    static bool named;
    pthread_mutex_lock(&lock);
    ncclResult_t result = named ? ncclSuccess : ncclGetUniqueId(&id);
    named = true;
    pthread_mutex_unlock(&lock);
    if (participants > devices || result != ncclSuccess ||
        ncclCommInitRank(&s->communicator, (int)participants, id, (int)s->rank) != ncclSuccess) {
        bench_fail("NCCL", participants > devices ? "there are fewer devices" : "no communicator");
    }
#else
    (void)s, (void)participants;
    bench_fail("--variant nccl", "built without nccl.h");
#endif
}

static void *join(const bench_options_t *o, uint32_t rank) {
    if (o->touch || o->participants > MOST) {
        bench_fail("device", o->touch ? "tight loops only" : "too many participants");
    }
    self_t *s = &selves[rank];
    s->rank = rank;
    s->device = (uint32_t)(rank % devices);
    require(cudaSetDevice((int)s->device), "cudaSetDevice");
    require(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    require(cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming), "cudaEventCreate");
    if (variant >= HEDDLE) {
        heddle_group_params_t params = {};
        params.endpoints = o->participants;
        pthread_mutex_lock(&lock);
        if (group == NULL) {
            require_heddle(heddle_group_create(&params, &group), "heddle_group_create");
        }
        pthread_mutex_unlock(&lock);
        require_heddle(heddle_join(group, rank, &s->ep), "heddle_join");
    } else if (variant == NCCL) {
        join_nccl(s, o->participants);
    }
    return s;
}

static void leave(void *self) {
    self_t *s = (self_t *)self;
    if (variant >= HEDDLE) {
        require_heddle(heddle_leave(s->ep), "heddle_leave");
    }
    require(cudaEventDestroy(s->event), "cudaEventDestroy");
    require(cudaStreamDestroy(s->stream), "cudaStreamDestroy");
}

static void version(char *text, size_t bytes) {
    cudaDeviceProp properties;
    int driver = 0;
    require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    snprintf(text, bytes, "%s, driver %d, CUDA %d", properties.name, driver, CUDART_VERSION);
}

static void find_devices(void) {
    const char *one = getenv("DEVICE_ONE");
    int count = 0, l2 = 0;
    require(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    require(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0), "cudaDeviceGetAttribute");
    bool single = (variant >= NAIVE && variant <= EVENTS) || (one != NULL && one[0] == '1');
    devices = single ? 1 : (uint64_t)count;
    l2_bytes = (uint64_t)l2;
}

/* The loops read the command line only after this has to be known. */
static variant_t find_variant(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++) {
        for (int v = 0; v < VARIANTS && strcmp(argv[i], "--variant") == 0; v++) {
            if (strcmp(variants[v], argv[i + 1]) == 0) {
                return (variant_t)v;
            }
        }
    }
    bench_fail("--variant", "limit, naive, fused, events, nccl, heddle, or heddle_on");
}

int main(int argc, char **argv) {
    static bench_peer_t peer;
    peer.name = "device";
    peer.version = version;
    peer.supports = supports;
    peer.join = join;
    peer.leave = leave;
    peer.prepare = prepare;
    peer.release = release;
    peer.give = give;
    peer.take = take;
    peer.call = call;
    variant = find_variant(argc, argv);
    find_devices();
    return bench_main(&peer, argc, argv);
}
