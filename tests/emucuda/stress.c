/* stress.c: threads that use the emulator all at once, each with streams and memory of its own,
 * handing results on; for ThreadSanitizer, too. The first argument is the number of rounds in
 * percent.
 */
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 6, COUNT = 256, ROUNDS = 1000, DEVICES = 2 };

/* A ring: each thread reads what the one before made in the last round, in stream order. */
typedef struct place {
    CUcontext context;
    rig_t rig;
    CUstream stream;
    CUevent made, read; /* by the next */
    CUdeviceptr value;
    uint32_t *pinned;
} place_t;

static place_t place[THREADS];
static pthread_barrier_t barrier;
static atomic_uint called;
static int rounds;

static void count_call(void *arg) {
    (void)arg;
    called++;
}

static void set_up(unsigned t) {
    place_t *p = &place[t];
    must(cuDevicePrimaryCtxRetain(&p->context, (int)t % DEVICES));
    must(cuCtxSetCurrent(p->context));
    rig_load(&p->rig);
    p->stream = rig_stream();
    p->made = rig_event();
    p->read = rig_event();
    p->value = rig_alloc_filled(COUNT, t + 1);
    p->pinned = rig_pinned(COUNT);
}

static void tear_down(unsigned t) {
    place_t *p = &place[t];
    must(cuStreamSynchronize(p->stream));
    must(cuStreamDestroy_v2(p->stream));
    must(cuEventDestroy_v2(p->made));
    must(cuEventDestroy_v2(p->read));
    must(cuMemFree_v2(p->value));
    must(cuMemFreeHost(p->pinned));
    must(cuModuleUnload(p->rig.module));
}

static void round_of(unsigned t, int round) {
    place_t *p = &place[t], *before = &place[(t + THREADS - 1) % THREADS];
    CUdeviceptr scratch;
    must(cuMemAllocAsync(&scratch, COUNT * 4, p->stream));
    must(cuEventRecord(p->made, p->stream));
    pthread_barrier_wait(&barrier);
    must(cuStreamWaitEvent(p->stream, before->made, 0));
    must(cuMemcpyAsync(scratch, before->value, COUNT * 4, p->stream));
    must(cuEventRecord(p->read, p->stream));
    pthread_barrier_wait(&barrier);
    must(cuStreamWaitEvent(p->stream, place[(t + 1) % THREADS].read, 0));
    rig_add(&p->rig, p->stream, p->value, p->value, scratch, COUNT);
    must(cuMemFreeAsync(scratch, p->stream));
    must(cuLaunchHostFunc(p->stream, count_call, NULL));
    if (round % 8 == (int)t) {
        must(cuMemcpyDtoHAsync_v2(p->pinned, p->value, COUNT * 4, p->stream));
        must(cuStreamSynchronize(p->stream));
        for (int i = 1; i < COUNT; i++) {
            if (p->pinned[i] != p->pinned[0]) {
                fprintf(stderr, "stress: round %d of thread %u: word %d differs\n", round, t, i);
                exit(1);
            }
        }
    } else if (round % 8 == 7) {
        while (cuEventQuery(p->made) == CUDA_ERROR_NOT_READY) {
        }
    }
}

static void *run(void *arg) {
    unsigned t = (unsigned)(uintptr_t)arg;
    set_up(t);
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < rounds; round++) {
        round_of(t, round);
    }
    pthread_barrier_wait(&barrier);
    tear_down(t);
    return NULL;
}

/* What the threads compute, one after the other. */
static uint32_t expected(unsigned t) {
    uint32_t value[THREADS], next[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        value[i] = i + 1;
    }
    for (int round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < THREADS; i++) {
            next[i] = value[i] + value[(i + THREADS - 1) % THREADS];
        }
        memcpy(value, next, sizeof(value));
    }
    return value[t];
}

static int run_with(const char *config) {
    pthread_t thread[THREADS];
    rig_t rig = rig_open(config);
    called = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t t = 0; t < THREADS; t++) {
        if (pthread_create(&thread[t], NULL, run, (void *)t) != 0) {
            return 1;
        }
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    pthread_barrier_destroy(&barrier);
    heddle_emucuda_report_t r = rig_report();
    bool clean = r.races + r.deadlocks + r.faults == 0 &&
                 r.streams + r.events + r.device_allocations == 0 &&
                 called == (unsigned)(THREADS * rounds);
    if (!clean) {
        fprintf(stderr, "stress: %s: %d races, %d deadlocks, %d faults, %u calls: %s\n", config,
                (int)r.races, (int)r.deadlocks, (int)r.faults, called, rig_line(0));
    }
    rig_close(&rig);
    return clean ? 0 : 1;
}

/* The sums themselves, by one thread: they wrap around. */
static int check_sums(void) {
    rig_t rig = rig_open("1");
    CUstream stream = rig_stream();
    CUdeviceptr value[THREADS], next[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        value[t] = rig_alloc_filled(COUNT, t + 1);
        next[t] = rig_alloc(COUNT);
    }
    for (int round = 0; round < rounds; round++) {
        for (unsigned t = 0; t < THREADS; t++) {
            rig_add(&rig, stream, next[t], value[t], value[(t + THREADS - 1) % THREADS], COUNT);
        }
        for (unsigned t = 0; t < THREADS; t++) {
            must(cuMemcpyDtoDAsync_v2(value[t], next[t], COUNT * 4, stream));
        }
    }
    int wrong = 0;
    for (unsigned t = 0; t < THREADS; t++) {
        wrong += !rig_all(value[t], COUNT, expected(t));
    }
    rig_close(&rig);
    return wrong;
}

int main(int argc, char **argv) {
    static const char *const configs[] = {
        "2,seed=1", "2,seed=2,policy=lazy", "2,seed=3,policy=starve,channels=2",
        "2,seed=4,policy=newest,window=1", "2,seed=5,host=threads"};
    int percent = argc > 1                        ? atoi(argv[1])
                  : getenv("HEDDLE_STRESS_SCALE") ? atoi(getenv("HEDDLE_STRESS_SCALE"))
                                                  : 100;
    int wrong = 0;
    alarm(280);
    rounds = ROUNDS * percent / 100 > 10 ? ROUNDS * percent / 100 : 10;
    for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
        wrong += run_with(configs[i]);
    }
    wrong += check_sums();
    printf("%d rounds of %d threads, %zu configurations: %d wrong\n", rounds, THREADS,
           sizeof(configs) / sizeof(*configs), wrong);
    return wrong ? 1 : 0;
}
