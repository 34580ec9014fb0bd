/* Threads that share two emulated devices: blocks, events, words and streams go from hand to hand,
 * devices come into use at the same moment, and chains run from one stream to the next thread's.
 * For ThreadSanitizer, and the emulator's eyes.
 */
#include "emucuda/calls.h"
#include "gpu/gpu.h"
#include "heddle_emucuda.h"
#include "stress.h"

enum { THREADS = 4, BYTES = 8192, MANY = 1 << 20 };

static int rounds;

static const hd_gpu_driver_t *gpu;
static pthread_barrier_t barrier;

/* What thread i publishes in a round. */
static struct {
    hd_gpu_block_t *block;
    hd_gpu_event_t *event;
    _Atomic int round;
} given[THREADS];

static void need(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "%s: %d\n", what, (int)status);
        abort();
    }
}
#define NEED(_call) need((_call), #_call)

static void await_word(hd_gpu_flag_t *word, uint64_t value, hd_gpu_event_t *event) {
    while (!hd_gpu_word_reached(word, value)) {
        (void)gpu->event_query(event, HD_GPU_SITE_NONE); /* the emulator works when it is called */
    }
}

/* Fills a block by its own stream, publishes it, and copies the neighbour's, on another device,
 * behind the neighbour's event. */
static void play(int me, int round, hd_gpu_stream_t stream, hd_gpu_flag_t *word) {
    int mine = me % 2, next = (me + 1) % THREADS, theirs = next % 2;
    hd_gpu_block_t *copy, *pinned;
    hd_gpu_event_t *done;
    hd_gpu_memory_t memory;
    bool yes;
    NEED(gpu->take(mine, HD_GPU_DEVICE, BYTES, &given[me].block));
    NEED(gpu->take(mine, HD_GPU_DEVICE, BYTES, &copy));
    NEED(gpu->take(mine, HD_GPU_PINNED, BYTES, &pinned));
    NEED(gpu->event_take(mine, &given[me].event));
    NEED(gpu->event_take(mine, &done));
    NEED(gpu->memory_of(copy->memory, &memory));
    NEED(gpu->reachable(mine, copy->memory, &yes));
    hd_gpu_touched(pinned->memory, sizeof(int), true);
    *(int *)pinned->memory = me * MANY + round;
    NEED(gpu->copy(stream, given[me].block->memory, mine, pinned->memory, -1, BYTES));
    NEED(gpu->record(stream, given[me].event));
    hd_gpu_handed_over(&given[me].round);
    atomic_store_explicit(&given[me].round, round + 1, memory_order_release);
    while (atomic_load_explicit(&given[next].round, memory_order_acquire) <= round) {
    }
    hd_gpu_taken_over(&given[next].round);
    NEED(gpu->wait(stream, given[next].event, HD_GPU_SITE_NONE));
    NEED(gpu->copy(stream, copy->memory, mine, given[next].block->memory, theirs, BYTES));
    NEED(gpu->copy(stream, pinned->memory, -1, copy->memory, mine, BYTES));
    NEED(gpu->record(stream, done));
    NEED(gpu->signal(stream, word, (uint64_t)round + 1));
    await_word(word, (uint64_t)round + 1, done);
    hd_gpu_touched(pinned->memory, sizeof(int), false);
    if (*(int *)pinned->memory != next * MANY + round) {
        fprintf(stderr, "thread %d, round %d: %d\n", me, round, *(int *)pinned->memory);
        abort();
    }
    hd_gpu_handed_over(&barrier);
    pthread_barrier_wait(&barrier);
    hd_gpu_taken_over(&barrier);
    gpu->put(given[me].block);
    gpu->put(copy);
    gpu->put(pinned);
    gpu->event_put(given[me].event);
    gpu->event_put(done);
}

static void *run(void *arg) {
    int me = (int)(intptr_t)arg;
    hd_gpu_stream_t stream;
    hd_gpu_flag_t *word;
    pthread_barrier_wait(&barrier);
    NEED(gpu->stream(me % 2, (uint32_t)me / 2, &stream)); /* brings the device into use */
    NEED(gpu->word_take(me % 2, &word));
    for (int round = 0; round < rounds; round++) {
        play(me, round, stream, word);
    }
    gpu->word_put(me % 2, word);
    return NULL;
}

static void session(const char *mode) {
    stress_phase(mode, 120);
    pthread_t thread[THREADS];
    heddle_emucuda_report_t report;
    NEED(hd_gpu_configure(mode, ""));
    NEED(hd_gpu_open(&gpu));
    for (int i = 0; i < THREADS; i++) {
        given[i].round = 0;
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, run, (void *)(intptr_t)i) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    hd_gpu_close();
    hd_gpu_unconfigure();
    heddle_emucuda_report(&report, sizeof(report));
    if (report.races + report.faults + report.deadlocks + report.leaks + report.contexts +
            report.device_allocations + report.host_allocations + report.events !=
        0) {
        fprintf(stderr, "%s: something was found, or is left\n", mode);
        abort();
    }
    heddle_emucuda_reset();
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    rounds = (int)stress_scaled(150);
    pthread_barrier_init(&barrier, NULL, THREADS);
    session("emulated:2,seed=1");
    session("emulated:2,seed=2,host=threads");
    session("emulated:2,seed=3,channels=1,nopeer");
    session("emulated:2,seed=4,policy=newest,host=threads");
    return stress_end();
}
