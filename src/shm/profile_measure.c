/* profile_measure.c: measures a profile with two threads, each on a core of its own: see profile.h.
 *
 * Both repeat a collective's copies: each rewrites its source, both meet, copy, meet, and read
 * their result; the time is that from meeting to having read, of whoever takes longer, and the
 * least of all repetitions counts, as a thread may be interrupted in most of them. The ways of one
 * comparison alternate, so that what changes meanwhile changes all. All repetitions together have
 * the seconds that the caller gives. By windows, each side fills a ring of its own and empties the
 * other's, as far.c does.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "core/copy.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/topo.h"
#include "shm/profile.h"
#include "threads/clock.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    THREADS = 2,
    LARGEST = 32768 << 2 * (HD_PROFILE_SIZES - 1),
    WINDOWS = 4,            /* of a ring, and */
    LEAST_PIECE = 8 * 1024, /* bytes in one of them: as in far.c */
    LEAST = 2,              /* times that each is repeated, however long it takes */
    PATIENCE = 1000,        /* looks at the other before the processor is given away */
};

/* Rows that are compared with each other. */
static const struct {
    hd_profile_row_t first, last;
} comparison[] = {
    {HD_EACH_PUSHED, HD_EACH_PULLED},
    {HD_SAME_PUSHED, HD_SAME_PULLED},
    {HD_FAR_BY_SHORT, HD_FAR_BY_KERNEL},
    {HD_COPIED_PLAINLY, HD_COPIED_BY_PAGES},
};

enum { COMPARISONS = sizeof(comparison) / sizeof(comparison[0]) };

typedef struct side {
    hd_locality_t where;
    uint8_t *src;                          /* one block */
    uint8_t *dst;                          /* one or two */
    uint8_t *ring;                         /* my windows */
    uint64_t took;                         /* by this thread, until both have met again */
    uint64_t sum;                          /* of what was read, so that it is */
    bool refused;                          /* the kernel does not copy */
    alignas(HD_LINE) _Atomic uint32_t met; /* how often it has come */
    /* windows that this side has filled, and that it has emptied of the other's, since the
     * beginning */
    alignas(HD_LINE) _Atomic uint32_t filled;
    alignas(HD_LINE) _Atomic uint32_t emptied;
} side_t;

typedef struct bench {
    side_t side[THREADS];
    hd_profile_t *out;
    double seconds;    /* for each size of a comparison */
    _Atomic bool stop; /* by side 0, before a meeting */
    bool bound[THREADS];
} bench_t;

typedef struct thread {
    bench_t *bench;
    uint32_t me;
} thread_t;

static void relax(uint32_t *looks) {
    if (++*looks < PATIENCE) {
        hd_relax();
    } else {
        sched_yield();
    }
}

static void meet(bench_t *bench, uint32_t me) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    /* relaxed: only this thread writes it */
    uint32_t number = atomic_load_explicit(&mine->met, memory_order_relaxed) + 1;
    /* release: what was written before the meeting */
    atomic_store_explicit(&mine->met, number, memory_order_release);
    /* acquire: what the other wrote before it; signed: counts differ by one at most */
    for (uint32_t looks = 0;
         (int32_t)(atomic_load_explicit(&other->met, memory_order_acquire) - number) < 0;) {
        relax(&looks);
    }
}

static void push(bench_t *bench, uint32_t me, bool to_both, size_t bytes) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    if (to_both) {
        void *const dst[THREADS] = {mine->dst, other->dst};
        hd_copy_to_many(THREADS, dst, me * bytes, mine->src, bytes, HD_STORES_PLAIN);
    } else {
        hd_copy(other->dst, mine->src, bytes, HD_STORES_PLAIN);
    }
}

static void pull(bench_t *bench, uint32_t me, bool to_both, size_t bytes) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    if (to_both) {
        hd_copy(mine->dst + me * bytes, mine->src, bytes, HD_STORES_PLAIN);
    }
    hd_copy(mine->dst + (to_both ? (1 - me) * bytes : 0), other->src, bytes, HD_STORES_PLAIN);
}

_Static_assert(HD_COPIED_BY_PAGES - HD_COPIED_PLAINLY == HD_STORES_PAGES - HD_STORES_PLAIN &&
                   HD_COPIED_BY_STRING - HD_COPIED_PLAINLY == HD_STORES_STRING - HD_STORES_PLAIN,
               "rows stand in the order of hd_stores_t");

static void copy(bench_t *bench, uint32_t me, hd_stores_t stores, size_t bytes) {
    hd_copy(bench->side[me].dst, bench->side[1 - me].src, bytes, stores);
    hd_copy_fence();
}

/* Mine into my windows, the other's out of its windows, as soon as each may. */
static void pass(bench_t *bench, uint32_t me, size_t most, size_t bytes) {
    side_t *mine = &bench->side[me], *other = &bench->side[1 - me];
    size_t share = bytes / 4, piece = share < LEAST_PIECE ? LEAST_PIECE
                                      : share < most      ? share
                                                          : most;
    uint32_t all = (uint32_t)(bytes / piece), fed = 0, drained = 0, looks = 0;
    /* relaxed: only this thread writes them; both sides' are the same between repetitions */
    uint32_t before = atomic_load_explicit(&mine->filled, memory_order_relaxed);
    while (fed < all || drained < all) {
        /* acquire: it has read what was there */
        uint32_t used = atomic_load_explicit(&other->emptied, memory_order_acquire) - before;
        /* acquire: what it has written there */
        uint32_t there = atomic_load_explicit(&other->filled, memory_order_acquire) - before;
        if (there > drained) {
            hd_copy(mine->dst + drained * piece, other->ring + drained % WINDOWS * most, piece,
                    HD_STORES_PLAIN);
            /* release: my reads */
            atomic_store_explicit(&mine->emptied, before + ++drained, memory_order_release);
        } else if (fed < all && fed - used < WINDOWS) {
            hd_copy(mine->ring + fed % WINDOWS * most, mine->src + fed * piece, piece,
                    HD_STORES_PLAIN);
            /* release: the data */
            atomic_store_explicit(&mine->filled, before + ++fed, memory_order_release);
        } else {
            relax(&looks);
        }
    }
}

/* The kernel may copy less at once than it was asked for, and that is no way then, either. */
static void ask_kernel(bench_t *bench, uint32_t me, size_t bytes) {
    side_t *mine = &bench->side[me];
    struct iovec to = {mine->dst, bytes}, from = {bench->side[1 - me].src, bytes};
    mine->refused |= process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes;
}

static void move(bench_t *bench, uint32_t me, hd_profile_row_t row, size_t bytes) {
    switch (row) {
    case HD_EACH_PUSHED:
    case HD_SAME_PUSHED:
        push(bench, me, row == HD_SAME_PUSHED, bytes);
        break;
    case HD_EACH_PULLED:
    case HD_SAME_PULLED:
        pull(bench, me, row == HD_SAME_PULLED, bytes);
        break;
    case HD_FAR_BY_SHORT:
    case HD_FAR_BY_LONG:
        pass(bench, me, row == HD_FAR_BY_LONG ? HD_FAR_LONG : HD_FAR_SHORT, bytes);
        break;
    case HD_COPIED_PLAINLY:
    case HD_COPIED_BY_STRING:
    case HD_COPIED_BY_STREAMING:
    case HD_COPIED_BY_PAGES:
        copy(bench, me, HD_STORES_PLAIN + (hd_stores_t)(row - HD_COPIED_PLAINLY), bytes);
        break;
    default:
        ask_kernel(bench, me, bytes);
    }
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
static uint64_t repeat(bench_t *bench, uint32_t me, hd_profile_row_t row, size_t bytes) {
    side_t *mine = &bench->side[me];
    bool both = row == HD_SAME_PUSHED || row == HD_SAME_PULLED;
    memset(mine->src, (int)(mine->sum & 0x7f), bytes);
    meet(bench, me);
    uint64_t began = hd_ticks();
    move(bench, me, row, bytes);
    meet(bench, me);
    mine->sum += read_all(mine->dst, both ? THREADS * bytes : bytes);
    mine->took = hd_ticks() - began;
    meet(bench, me);
    uint64_t other = bench->side[1 - me].took;
    return mine->took > other ? mine->took : other;
}

static uint32_t ns_of(const bench_t *bench, hd_profile_row_t row, uint64_t ticks) {
    double ns = hd_ticks_to_seconds(ticks) * 1e9;
    bool refused = bench->side[0].refused || bench->side[1].refused;
    return row == HD_FAR_BY_KERNEL && refused ? UINT32_MAX
           : ns < 1                           ? 1
           : ns > UINT32_MAX                  ? UINT32_MAX
                                              : (uint32_t)ns;
}

/* All rows of a comparison at one size, as often as there is time. */
static void measure_point(bench_t *bench, uint32_t me, uint32_t which, uint32_t size) {
    hd_profile_row_t first = comparison[which].first, last = comparison[which].last;
    uint64_t least[HD_PROFILE_ROWS], began = hd_ticks(), most = hd_seconds_to_ticks(bench->seconds);
    memset(least, 0xff, sizeof(least));
    /* relaxed, here and below: ordered by the meetings */
    for (uint32_t i = 0; !atomic_load_explicit(&bench->stop, memory_order_relaxed); i++) {
        for (hd_profile_row_t row = first; row <= last; row++) {
            uint64_t ticks = repeat(bench, me, row, hd_profile_size(row, size));
            least[row] = ticks < least[row] ? ticks : least[row];
        }
        if (me == 0 && i + 1 >= LEAST && hd_ticks() - began > most) {
            atomic_store_explicit(&bench->stop, true, memory_order_relaxed);
        }
        meet(bench, me);
    }
    meet(bench, me); /* both have seen it */
    for (hd_profile_row_t row = first; me == 0 && row <= last; row++) {
        bench->out->ns[row][size] = ns_of(bench, row, least[row]);
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
    memset(mine->dst, 1, LARGEST);
    memset(mine->ring, 1, (size_t)WINDOWS * HD_FAR_LONG);
    meet(bench, thread->me);
    for (uint32_t which = 0; bench->bound[0] && bench->bound[1] && which < COMPARISONS; which++) {
        for (uint32_t size = 0; size < HD_PROFILE_SIZES; size++) {
            measure_point(bench, thread->me, which, size);
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
        bench->side[i].dst = hd_alloc(HD_LINE, LARGEST);
        bench->side[i].ring = hd_alloc(HD_LINE, (size_t)WINDOWS * HD_FAR_LONG);
        all = all && bench->side[i].src && bench->side[i].dst && bench->side[i].ring;
    }
    return all;
}

/* In two threads, of which none is the caller's, whose affinity is its own. */
static bool run_both(bench_t *bench) {
    thread_t thread[THREADS] = {{bench, 0}, {bench, 1}};
    pthread_t id[THREADS];
    sigset_t all, before;
    uint32_t n = 0;
    int cancelling; /* they use what lies on this stack */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
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
    pthread_setcancelstate(cancelling, NULL);
    return bench->bound[0] && bench->bound[1];
}

bool hd_profile_measure(hd_profile_t *out, double seconds) {
    bench_t bench = {.out = out, .seconds = seconds / (COMPARISONS * HD_PROFILE_SIZES)};
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
        hd_free(bench.side[i].ring);
    }
    out->origin = "measured";
    return measured;
}
