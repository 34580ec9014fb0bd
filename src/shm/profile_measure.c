/* profile_measure.c: measures a profile with two threads, each on a core of its own: see profile.h.
 *
 * Both repeat a collective's copies: each rewrites its source, both meet, copy, meet, and read
 * their result; the time is that from meeting to having read, of whoever takes longer, and the
 * least of all repetitions counts, as a thread may be interrupted in most of them. Directions
 * alternate, so that what changes meanwhile changes both. All repetitions together have 40 ms.
 */
#include "core/copy.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/topo.h"
#include "shm/profile.h"
#include "threads/clock.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum {
    THREADS = 2,
    LARGEST = 4096 << 2 * (HD_PROFILE_SIZES - 1),
    LEAST = 2,         /* times that each is repeated, however long it takes */
    PATIENCE = 1000,   /* looks at the other before the processor is given away */
    BUDGET_US = 40000, /* of all */
};

typedef struct side {
    hd_locality_t where;
    uint8_t *src;         /* one block */
    uint8_t *dst;         /* two */
    uint64_t took;        /* by this thread, until both have met again */
    _Atomic uint32_t met; /* how often it has come */
    uint64_t sum;         /* of what was read, so that it is */
} side_t;

typedef struct bench {
    side_t side[THREADS];
    hd_profile_t *out;
    _Atomic bool stop; /* by side 0, before a meeting */
    bool bound[THREADS];
} bench_t;

typedef struct thread {
    bench_t *bench;
    uint32_t me;
} thread_t;

static void meet(bench_t *bench, uint32_t me) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    /* relaxed: only this thread writes it */
    uint32_t number = atomic_load_explicit(&mine->met, memory_order_relaxed) + 1;
    /* release: what was written before the meeting */
    atomic_store_explicit(&mine->met, number, memory_order_release);
    /* acquire: what the other wrote before it; signed: counts differ by one at most */
    for (uint32_t looks = 0;
         (int32_t)(atomic_load_explicit(&other->met, memory_order_acquire) - number) < 0;) {
        if (++looks < PATIENCE) {
            hd_relax();
        } else {
            sched_yield();
        }
    }
}

static void move(bench_t *bench, uint32_t me, hd_pattern_t pattern, hd_direction_t direction,
                 size_t bytes) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    size_t at = pattern == HD_PATTERN_SAME ? me * bytes : 0;
    if (direction == HD_PUSHED) {
        void *const dst[THREADS] = {mine->dst, other->dst};
        if (pattern == HD_PATTERN_SAME) {
            hd_copy_to_many(THREADS, dst, at, mine->src, bytes, HD_STORES_PLAIN);
        } else {
            hd_copy(other->dst, mine->src, bytes, HD_STORES_PLAIN);
        }
        return;
    }
    if (pattern == HD_PATTERN_SAME) {
        hd_copy(mine->dst + at, mine->src, bytes, HD_STORES_PLAIN);
        at = (1 - me) * bytes;
    }
    hd_copy(mine->dst + at, other->src, bytes, HD_STORES_PLAIN);
}

static uint64_t read_all(const uint8_t *data, size_t bytes) {
    uint64_t sum = 0, word;
    for (size_t at = 0; at < bytes; at += HD_COPY_LINE) {
        memcpy(&word, data + at, sizeof(word));
        sum += word;
    }
    return sum;
}

/* One repetition. Returns its ticks. */
static uint64_t repeat(bench_t *bench, uint32_t me, hd_pattern_t pattern, hd_direction_t direction,
                       size_t bytes) {
    side_t *mine = &bench->side[me];
    memset(mine->src, (int)(mine->sum & 0x7f), bytes);
    meet(bench, me);
    uint64_t began = hd_ticks();
    move(bench, me, pattern, direction, bytes);
    meet(bench, me);
    mine->sum += read_all(mine->dst, pattern == HD_PATTERN_SAME ? THREADS * bytes : bytes);
    mine->took = hd_ticks() - began;
    meet(bench, me);
    uint64_t other = bench->side[1 - me].took;
    return mine->took > other ? mine->took : other;
}

/* Both directions of one point, as often as the budget has it. */
static void measure_point(bench_t *bench, uint32_t me, hd_pattern_t pattern, uint32_t size) {
    static const double share = (double)BUDGET_US / 1e6 / (HD_PATTERNS * HD_PROFILE_SIZES);
    uint64_t least[HD_DIRECTIONS] = {UINT64_MAX, UINT64_MAX}, began = hd_ticks(),
             most = hd_seconds_to_ticks(share);
    /* relaxed, here and below: ordered by the meetings */
    for (uint32_t i = 0; !atomic_load_explicit(&bench->stop, memory_order_relaxed); i++) {
        for (uint32_t d = 0; d < HD_DIRECTIONS; d++) {
            uint64_t ticks = repeat(bench, me, pattern, (hd_direction_t)d, hd_profile_size(size));
            least[d] = ticks < least[d] ? ticks : least[d];
        }
        if (me == 0 && i + 1 >= LEAST && hd_ticks() - began > most) {
            atomic_store_explicit(&bench->stop, true, memory_order_relaxed);
        }
        meet(bench, me);
    }
    meet(bench, me); /* both have seen it */
    for (uint32_t d = 0; me == 0 && d < HD_DIRECTIONS; d++) {
        double ns = hd_ticks_to_seconds(least[d]) * 1e9;
        bench->out->ns[pattern][d][size] = ns < 1 ? 1 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
        atomic_store_explicit(&bench->stop, false, memory_order_relaxed);
    }
    meet(bench, me);
}

static void *run(void *arg) {
    const thread_t *thread = arg;
    bench_t *bench = thread->bench;
    side_t *mine = &bench->side[thread->me];
    bench->bound[thread->me] = hd_topo_bind_thread(hd_topo_get(), &mine->where) == UCC_OK;
    memset(mine->src, 1, LARGEST);
    memset(mine->dst, 1, (size_t)THREADS * LARGEST);
    meet(bench, thread->me);
    for (uint32_t p = 0; bench->bound[0] && bench->bound[1] && p < HD_PATTERNS; p++) {
        for (uint32_t size = 0; size < HD_PROFILE_SIZES; size++) {
            measure_point(bench, thread->me, (hd_pattern_t)p, size);
        }
    }
    return NULL;
}

/* Where there are two cores, each thread has one. */
static bool place(bench_t *bench) {
    const hd_topo_t *topo = hd_topo_get();
    if (!hd_topo_is_this_machine(topo) || hd_topo_n_domains(topo, HD_TOPO_CORE) < THREADS) {
        hd_debug("no profile is measured: there are no two cores");
        return false;
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        hd_topo_place(topo, i, THREADS, &bench->side[i].where);
    }
    return true;
}

static bool furnish(bench_t *bench) {
    bool all = true;
    for (uint32_t i = 0; i < THREADS; i++) {
        bench->side[i].src = hd_alloc(HD_LINE, LARGEST);
        bench->side[i].dst = hd_alloc(HD_LINE, (size_t)THREADS * LARGEST);
        all = all && bench->side[i].src && bench->side[i].dst;
    }
    return all;
}

/* In two threads, of which none is the caller's, whose affinity is its own. */
static bool run_both(bench_t *bench) {
    thread_t thread[THREADS] = {{bench, 0}, {bench, 1}};
    pthread_t id[THREADS];
    sigset_t all, before;
    uint32_t n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for them */
    while (n < THREADS && pthread_create(&id[n], NULL, run, &thread[n]) == 0) {
        n++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (n < THREADS) { /* if there is one, it waits for the other */
        /* release: see meet */
        atomic_store_explicit(&bench->side[1].met, 1, memory_order_release);
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
    }
    return bench->bound[0] && bench->bound[1];
}

bool hd_profile_measure(hd_profile_t *out) {
    bench_t bench = {.out = out};
    hd_clock_init();
    bool measured = place(&bench);
    if (measured) {
        measured = furnish(&bench) && run_both(&bench);
        if (!measured) {
            hd_debug(
                "no profile is measured: no memory, no threads, or they can't be held on cores");
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        hd_free(bench.side[i].src);
        hd_free(bench.side[i].dst);
    }
    out->origin = "measured";
    return measured;
}
