/* strangers.c: a yield hands the processor to whom the scheduler likes, and a stranger who only
 * computes keeps it for a slice of milliseconds; a thread that is woken gets it back at once. So
 * beside strangers nobody yields who can sleep instead. They are told from our own threads, among
 * which a yield is right, by when one of ours last gave up that processor: if it came back to us
 * long after, somebody else had it. That is known by processor, and tried again now and then.
 *
 * Threads of other processes that we wait for are ours as well: all processes of a team that share
 * memory note their yields there, so that `table` below is there. The table of the first such team
 * serves for all that descend from it. A process that also has others keeps to the one it has, and
 * says in theirs that it can't be told from strangers there. Where processes that lack processors
 * can't be told from strangers, or share no memory, nobody is taken for one, and everybody yields.
 */
#define _GNU_SOURCE
#include "threads/strangers.h"

#include "core/fork.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSORS = 256 }; /* those with the same number modulo this count as one */

/* Relaxed throughout: whoever loses an update yields once more, or once less. */
typedef struct processor {
    alignas(64) _Atomic uint64_t given_up; /* when one of our threads last gave it up */
    _Atomic uint64_t until;                /* strangers are taken to be there; 0: none are */
    _Atomic uint64_t hold;  /* times what the last yield to them cost: how long that is taken for
                             * granted */
    _Atomic uint64_t cheap; /* yields since strangers last had it for long, as far as it matters */
    _Atomic uint64_t back;  /* when it came back then */
} processor_t;

typedef struct table {
    processor_t processor[PROCESSORS];
    _Atomic uint64_t clock;  /* which one the times are of (clock_of); 0: nobody has come yet */
    _Atomic bool is_partial; /* some of us note their yields elsewhere; for good */
} table_t;

static table_t own;
static table_t *_Atomic table = &own;
/* Teams whose processes lack processors: without a table that we use; with it. */
static _Atomic uint32_t untold, crowded;

/* Of the shared table. Its place is the same for ever, so that who still looks there when it is
 * taken away finds other memory, but finds some. */
static struct {
    pthread_mutex_t lock; /* guarded over forks */
    hd_fork_hook_t hook;
    void *place; /* NULL: none was needed yet */
    uint64_t name;
    uint32_t users; /* teams; 0: `place` has no table */
} joint = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* relaxed throughout: see processor_t */
static uint64_t get(const _Atomic uint64_t *field) {
    return atomic_load_explicit(field, memory_order_relaxed);
}

static void set(_Atomic uint64_t *field, uint64_t value) {
    atomic_store_explicit(field, value, memory_order_relaxed);
}

/* --- whose yields are known ------------------------------------------------------------------- */

size_t hd_processors_bytes(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (sizeof(table_t) + page - 1) / page * page;
}

/* Memory of no use that any number of processes may share, at `place` or, if that is NULL,
 * anywhere; flags: MAP_FIXED or MAP_FIXED_NOREPLACE. NULL: there is none; with MAP_FIXED, what was
 * there is still there. This and remap are the system's calls: others look at the place meanwhile,
 * which ThreadSanitizer's mmap takes for a race, and UCX's mremap knows no fixed address. */
static void *map_nothing(void *place, int flags) {
    void *at = (void *)syscall(SYS_mmap, place, hd_processors_bytes(), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void *remap(void *from, size_t before, int flags, void *to) {
    return (void *)syscall(SYS_mremap, from, before, hd_processors_bytes(), MREMAP_MAYMOVE | flags,
                           to);
}

/* A second mapping of the memory at `from`, which is shared, at the place. In two steps: before
 * Linux 6.17 a call that fails may leave nothing where it was to map, and the first step is the one
 * that fails. */
static bool map_again(void *from) {
    void *copy = remap(from, 0, 0, NULL); /* an old size of 0: once more */
    if (copy == MAP_FAILED) {
        return false;
    }
    if (remap(copy, hd_processors_bytes(), MREMAP_FIXED, joint.place) == joint.place) {
        return true;
    }
    munmap(copy, hd_processors_bytes());
    (void)map_nothing(joint.place, MAP_FIXED_NOREPLACE); /* unless something is there */
    return false;
}

/* A child has no team with its parent's peers, and only itself to tell from strangers. */
static void begin_anew(hd_fork_hook_t *hook) {
    (void)hook;
    /* relaxed, all: one thread is there */
    atomic_store_explicit(&table, &own, memory_order_relaxed);
    atomic_store_explicit(&untold, 0, memory_order_relaxed);
    atomic_store_explicit(&crowded, 0, memory_order_relaxed);
    joint.users = 0;
    (void)map_nothing(joint.place, MAP_FIXED); /* where it fails, nobody looks there */
}

/* Not under the lock, which a fork takes after others. */
static void prepare(void) {
    joint.place = map_nothing(NULL, 0);
    if (joint.place) {
        hd_fork_guard(&joint.lock);
        hd_fork_watch(&joint.hook, begin_anew);
    }
}

/* Cycles are the same for all processes of a machine, what the system counts for those of a time
 * namespace. */
static uint64_t clock_of(void) {
    struct stat space;
    if (hd_clock_counts_cycles) {
        return 1;
    }
    return 2 + (stat("/proc/thread-self/ns/time", &space) == 0 ? (uint64_t)space.st_ino : 0);
}

static bool has_my_clock(table_t *theirs) {
    uint64_t clock = 0, mine = clock_of();
    /* relaxed: nothing else is read on its account */
    return atomic_compare_exchange_strong_explicit(&theirs->clock, &clock, mine,
                                                   memory_order_relaxed, memory_order_relaxed) ||
           clock == mine;
}

/* Under the lock: moves to the table at `memory`. */
static bool move_to(void *memory, uint64_t name) {
    if (!joint.place || !has_my_clock(memory) || !map_again(memory)) {
        return false;
    }
    joint.name = name;
    /* release: the memory is there */
    atomic_store_explicit(&table, (table_t *)joint.place, memory_order_release);
    return true;
}

static void count(_Atomic uint32_t *teams, uint32_t change) {
    /* relaxed: who sees it late sleeps or yields once more */
    atomic_fetch_add_explicit(teams, change, memory_order_relaxed);
}

hd_processors_use_t hd_processors_share(void *memory, uint64_t name, bool lacks) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    hd_processors_use_t use = {.forks = hd_forks(), .lacks = lacks};
    pthread_once(&once, prepare);
    pthread_mutex_lock(&joint.lock);
    use.by_table = name && (joint.users ? joint.name == name : memory && move_to(memory, name));
    joint.users += use.by_table;
    pthread_mutex_unlock(&joint.lock);
    if (!use.by_table && memory) {
        /* relaxed: see count */
        atomic_store_explicit(&((table_t *)memory)->is_partial, true, memory_order_relaxed);
    }
    count(use.by_table ? &crowded : &untold, lacks);
    return use;
}

void hd_processors_part(const hd_processors_use_t *use) {
    if (use->forks != hd_forks()) {
        return; /* the parent's */
    }
    if (use->lacks) {
        count(use->by_table ? &crowded : &untold, UINT32_MAX);
    }
    if (!use->by_table) {
        return;
    }
    pthread_mutex_lock(&joint.lock);
    if (joint.users == 1) {
        atomic_store_explicit(&table, &own, memory_order_relaxed); /* both are there */
        /* where that fails, the memory stays until the next table comes */
        (void)map_nothing(joint.place, MAP_FIXED);
    }
    joint.users--;
    pthread_mutex_unlock(&joint.lock);
}

/* --- what yields show ------------------------------------------------------------------------- */

static table_t *the_table(void) {
    return atomic_load_explicit(&table, memory_order_acquire); /* pairs with move_to */
}

static processor_t *this_of(table_t *all) {
    int number = sched_getcpu();
    return &all->processor[number < 0 ? 0 : number % PROCESSORS];
}

static bool are_told(const table_t *all) {
    /* relaxed, all: see count */
    return atomic_load_explicit(&untold, memory_order_relaxed) == 0 &&
           (!atomic_load_explicit(&all->is_partial, memory_order_relaxed) ||
            atomic_load_explicit(&crowded, memory_order_relaxed) == 0);
}

bool hd_processor_has_strangers(uint64_t now) {
    table_t *all = the_table();
    return get(&this_of(all)->until) > now && are_told(all);
}

void hd_processor_yields(uint64_t now) {
    set(&this_of(the_table())->given_up, now);
}

/* Where strangers have a share of the processor that has nothing to do with our yields (they are in
 * another control group), they take it when we have had ours for a slice, and what a yield loses
 * then would have been lost without it. So what counts is whether the processor was taken from us
 * soon after it had come back. Each try costs a slice, so the next one comes after many times as
 * long; but a few that were cheap say little, as siblings may have been first. */
void hd_processor_came_back(uint64_t began, uint64_t now) {
    /* no scheduler's slice is shorter, and none of ours looks as long between two yields */
    enum { SLICE_US = 500, MOST_US = 20000, FIRST_HOLD = 32, LONGEST_HOLD = 1024 };
    enum { CALM = 16, AGAIN_US = 50 };
    table_t *all = the_table();
    processor_t *at = this_of(all); /* maybe another one than before */
    uint64_t given_up = get(&at->given_up), since = given_up > began ? given_up : began;
    uint64_t lost = now > since ? now - since : 0, cheap = get(&at->cheap);
    bool held = get(&at->until) != 0;
    if (!are_told(all)) {
        return;
    }
    if (lost <= SLICE_US * hd_ticks_per_us) {
        if (cheap <= CALM) {
            set(&at->cheap, cheap + 1);
        }
        if (held) {
            set(&at->until, cheap < CALM ? now + AGAIN_US * hd_ticks_per_us : 0);
        }
        return;
    }
    bool soon = since - get(&at->back) < SLICE_US * hd_ticks_per_us;
    set(&at->cheap, 0);
    set(&at->back, now);
    if (soon || (held && cheap == 0)) {
        uint64_t hold = held ? 2 * get(&at->hold) : FIRST_HOLD;
        hold = hold < LONGEST_HOLD ? hold : LONGEST_HOLD;
        uint64_t most = MOST_US * hd_ticks_per_us; /* beyond, the whole process was stopped */
        set(&at->hold, hold);
        set(&at->until, now + hold * (lost < most ? lost : most));
    }
}
