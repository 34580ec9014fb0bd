/* strangers.c: a yield hands the processor to whom the scheduler likes, and a stranger who only
 * computes keeps it for a slice of milliseconds; a thread that is woken gets it back at once. So
 * beside strangers nobody yields who can sleep instead. They are told from our own threads, among
 * which a yield is right, by when one of ours last gave up that processor: if it came back to us
 * long after, somebody else had it. That is known by processor, and tried again now and then.
 *
 * Threads of other processes that we wait for are ours as well. Where they lack processors, they
 * note their yields in memory that they share: `table` below is moved there. The table of the first
 * team that needs one serves for all teams that descend from it. A process that also has others
 * keeps to the one it has, and says in theirs that it can't be told from strangers there: then
 * nobody is taken for one, and everybody yields. So it is as well where no memory is shared.
 */
#define _GNU_SOURCE
#include "threads/strangers.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSORS = 256 }; /* those with the same number modulo this count as one */

/* Relaxed throughout: whoever loses an update yields once more, or once less. */
typedef struct processor {
    alignas(64) _Atomic uint64_t given_up; /* when one of our threads last yielded it */
    _Atomic uint64_t until;                /* strangers are taken to be there; 0: none are */
    _Atomic uint64_t hold;  /* times what the last yield to them cost: how long that is taken for
                             * granted */
    _Atomic uint64_t cheap; /* yields since strangers last had it for long, as far as it matters */
    _Atomic uint64_t back;  /* when it came back then */
} processor_t;

typedef struct table {
    processor_t processor[PROCESSORS];
    alignas(4096) _Atomic bool is_partial; /* some of us note their yields elsewhere; for good */
} table_t;

static table_t own;
static table_t *_Atomic table = &own;
/* Groups of processes that lack processors and have no table that we use. */
static _Atomic uint32_t untold;

/* Of the shared table. Its place is the same for ever, so that who still looks there when it is
 * taken away finds other memory, but finds some. */
static struct {
    pthread_mutex_t lock;
    void *place; /* NULL: none was needed yet */
    uint64_t name;
    uint32_t users; /* groups; 0: `place` has no table */
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
    return sizeof(table_t);
}

/* Memory of no use that any number of processes may share, at `place` or, if that is NULL,
 * anywhere. NULL: there is none, and what was there is still there. */
static void *map_nothing(void *place) {
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | (place ? MAP_FIXED : 0);
    void *at = mmap(place, sizeof(table_t), PROT_READ | PROT_WRITE, flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* A second mapping of the memory at `from`, which is shared, instead of what is at `to`. */
static bool map_again(void *from, void *to) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((uintptr_t)from | (uintptr_t)to | sizeof(table_t)) % page == 0 &&
           mremap(from, 0, sizeof(table_t), MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

/* Under the lock: moves to the table at `memory`. */
static bool move_to(void *memory, uint64_t name) {
    joint.place = joint.place ? joint.place : map_nothing(NULL);
    if (!joint.place || !map_again(memory, joint.place)) {
        return false;
    }
    joint.name = name;
    /* release: the memory is there */
    atomic_store_explicit(&table, (table_t *)joint.place, memory_order_release);
    return true;
}

bool hd_processors_share(void *memory, uint64_t name) {
    pthread_mutex_lock(&joint.lock);
    bool joins = name && (joint.users ? joint.name == name : memory && move_to(memory, name));
    joint.users += joins;
    pthread_mutex_unlock(&joint.lock);
    if (joins) {
        return true;
    }
    /* relaxed: who sees it late sleeps or yields once more */
    atomic_fetch_add_explicit(&untold, 1, memory_order_relaxed);
    if (memory) {
        atomic_store_explicit(&((table_t *)memory)->is_partial, true, memory_order_relaxed);
    }
    return false;
}

void hd_processors_part(bool by_table) {
    if (!by_table) {
        atomic_fetch_sub_explicit(&untold, 1, memory_order_relaxed); /* as above */
        return;
    }
    pthread_mutex_lock(&joint.lock);
    if (joint.users == 1) {
        atomic_store_explicit(&table, &own, memory_order_relaxed); /* both are there */
        /* where that fails, the memory stays until the next table comes */
        (void)map_nothing(joint.place);
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
    /* relaxed: see hd_processors_share */
    return atomic_load_explicit(&untold, memory_order_relaxed) == 0 &&
           !atomic_load_explicit(&all->is_partial, memory_order_relaxed);
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
