/* park.c: bells: where sleepers enlist, and how who rings finds and wakes them.
 *
 * Usage by a sleeper:   enlist on every bell that may ring; hd_park_fence(), or if all of them are
 *                       watched a fence; look once more; nothing -> until rung: seen = load(word);
 *                       if still not rung, hd_park_until(word, seen); delist from all.
 * Usage by a ringer:    release store of whatever was awaited; hd_bell_ring(bell).
 *
 * No wake-up is lost: the ringer's load of `sleepers` comes after its store. If it reads zero, the
 * sleeper's increment comes later in the line's order, so the sleeper's fence (membarrier: every
 * running thread passes a full barrier) comes after the ringer's store too, and the sleeper's last
 * look sees it. If it reads non-zero, the ringer marks the sleeper and bumps the word under the
 * bell's lock; the sleeper either reads the bumped value, and sees the mark, or does not fall
 * asleep on the old one, or is woken.
 *
 * A watched bell spares the sleeper the membarrier, which takes 10 us where processors must be
 * interrupted: `sleepers` is not zero, so every ringer passes a full fence between its store and
 * its second look at `sleepers`. Only ringers that came before the watch began did not; their
 * stores are everywhere once the membarrier of the sleeper that began it is over, and then that
 * sleeper sets FENCED. A sleeper that finds FENCED in the operation that counts it needs no
 * membarrier: until it leaves, the count alone keeps ringers fencing. Only both bits together,
 * without sleepers, are taken back.
 *
 * A ringer passes by a sleeper whose wait is not over as far as it sees (hd_awaited_t). Of several
 * that publish parts of what is awaited, each fences before it looks at the others' parts, or was
 * seen by the sleeper's last look: one sees all.
 *
 * FAR BELLS. Of memory that several processes map, each process has a bell, and all of them count
 * their sleepers in the same word: so a ringer finds out by the same load. Its own process's
 * sleepers it finds in its list; for each other process in which somebody is asleep it bumps that
 * one's word, and counts a ring there, unless what is awaited there has not come: that is written
 * there before the enlisting, so what is said above holds for it, too. A ringer that finds it half
 * written has come before the sleeper's fence is over, and the sleeper's last look sees what the
 * ringer has published. The membarrier is the one that reaches all processes. Such bells are not
 * watched.
 *
 * tests/model/park_model.c explores all of this, and far_bell_model.c what far bells have.
 */
#include "threads/threads.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

bool hd_park_has_membarrier = false;
static bool reaches_far = false; /* other processes' barriers reach this one */

static long commands_of(void) {
    return syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
}

static void init_far_once(void) {
    long commands = commands_of();
    reaches_far = commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) &&
                  syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool hd_park_init_far(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_far_once);
    return reaches_far && hd_park_has_membarrier;
}

static void park_init_once(void) {
    long commands = commands_of();
    hd_park_has_membarrier =
        commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
        syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void hd_park_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, park_init_once);
}

void hd_park_fence(bool far) {
    if (hd_park_has_membarrier) {
        int command = far ? MEMBARRIER_CMD_GLOBAL_EXPEDITED : MEMBARRIER_CMD_PRIVATE_EXPEDITED;
        syscall(__NR_membarrier, command, 0, 0);
    }
    /* else: hd_bell_enlist's increment and the ringer's read-modify-write are both seq_cst on one
       word, so one of them comes first and the later one sees the other's past */
}

/* One that nobody else has, if there is any: those who share one wake together. Under the bell's
 * lock. */
static uint32_t free_mask(const hd_bell_t *bell) {
    enum { BITS = 32 };
    uint32_t unused = ~bell->masks;
    /* relaxed: any number will do */
    uint32_t sleepers = atomic_load_explicit(&bell->sleepers, memory_order_relaxed);
    return unused ? unused & -unused : UINT32_C(1) << sleepers / HD_BELL_SLEEPER % BITS;
}

/* relaxed, all of it here and below: see FAR BELLS */
static uint32_t get(const _Atomic uint32_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void set(_Atomic uint32_t *word, uint32_t value) {
    atomic_store_explicit(word, value, memory_order_relaxed);
}

void hd_bell_is_far(hd_bell_t *bell, hd_far_bell_t *fars, uint32_t n, uint32_t number,
                    size_t reach) {
    hd_assert_lt(number, n);
    bell->reach = reach;
    bell->fars = fars;
    bell->n_far = n;
    bell->far = number;
}

/* Under the lock of the bell: tells the other mappings that one more is asleep in this one, and
 * what for, unless another one is. */
static void enlist_far(hd_bell_t *bell, const hd_awaited_t *awaited) {
    hd_far_bell_t *far = &bell->fars[bell->far];
    uint32_t asleep = get(&far->asleep);
    set(&far->n_words, 0);
    if (asleep == 0 && awaited->n_words) {
        ptrdiff_t first = (ptrdiff_t)((uintptr_t)awaited->first - (uintptr_t)bell);
        set(&far->alarms, get(&bell->alarms));
        atomic_store_explicit(&far->first, first, memory_order_relaxed);
        atomic_store_explicit(&far->stride, awaited->stride, memory_order_relaxed);
        atomic_store_explicit(&far->value, awaited->value, memory_order_relaxed);
        set(&far->n_words, awaited->n_words);
    }
    set(&far->asleep, asleep + 1);
}

/* Has come what those wait for who are asleep in that mapping? */
static bool far_is_due(const hd_bell_t *bell, const hd_far_bell_t *far) {
    uint32_t n = get(&far->n_words);
    uintptr_t first =
        (uintptr_t)bell + (uintptr_t)atomic_load_explicit(&far->first, memory_order_relaxed);
    ptrdiff_t stride = atomic_load_explicit(&far->stride, memory_order_relaxed);
    uint64_t value = atomic_load_explicit(&far->value, memory_order_relaxed);
    if (get(&far->alarms) != get(&bell->alarms)) {
        return true;
    }
    /* What is half written may lead anywhere: then the ring is one too many. */
    for (uint32_t i = 0; i < n; i++, first += (uintptr_t)stride) {
        if (first % sizeof(uint64_t) || (uintptr_t)bell - first - 1 >= bell->reach) {
            return true;
        }
        const _Atomic uint64_t *word = (const void *)first;
        if (atomic_load_explicit(word, memory_order_relaxed) != value) {
            return false;
        }
    }
    return true;
}

static void bump(_Atomic uint32_t *word) {
    /* seq_cst: what was published before the ring is visible to who sees the new value; and
     * fd_waiter.h */
    atomic_fetch_add_explicit(word, 1, memory_order_seq_cst);
}

/* Not inlined: who rings for one process alone has nothing to do with it. Under no lock: what is
 * rung is counted, and the memory is there as long as the caller's mapping. */
static __attribute__((noinline)) void wake_far(hd_bell_t *bell) {
    for (uint32_t i = 0; i < bell->n_far; i++) {
        hd_far_bell_t *far = &bell->fars[i];
        if (i != bell->far && get(&far->asleep) && far_is_due(bell, far)) {
            atomic_fetch_add_explicit(&far->rings, 1, memory_order_relaxed); /* the bump tells */
            bump(&far->word);
            hd_park_wake(&far->word, UINT32_MAX, true);
        }
    }
}

/* How long a bell is watched after the last one fell asleep there. */
static uint64_t watch_ticks(void) {
    enum { US = 20000 };
    return US * hd_ticks_per_us;
}

bool hd_bell_enlist(hd_bell_t *bell, hd_sleeper_t *sleeper, bool often) {
    uint32_t added = HD_BELL_SLEEPER;
    sleeper->bell = bell;
    /* relaxed: nobody else knows the sleeper yet */
    atomic_store_explicit(&sleeper->rung, false, memory_order_relaxed);
    hd_lock(&bell->lock);
    if (bell->fars) {
        enlist_far(bell, &sleeper->awaited);
        often = false;
    }
    if (sleeper->word == hd_bell_word(bell)) {
        sleeper->mask = free_mask(bell);
        bell->masks |= sleeper->mask;
    }
    sleeper->next = bell->list;
    bell->list = sleeper;
    if (often) {
        /* relaxed: whoever finds the watch over may find it out of date, and ends it early */
        atomic_store_explicit(&bell->watched_until, hd_ticks() + watch_ticks(),
                              memory_order_relaxed);
        /* relaxed: begun under the lock only; if it ends now, this sleeper begins none */
        bool watched =
            atomic_load_explicit(&bell->sleepers, memory_order_relaxed) & HD_BELL_WATCHED;
        added += watched ? 0 : HD_BELL_WATCHED;
    }
    sleeper->begins = added & HD_BELL_WATCHED;
    /* seq_cst: see hd_park_fence; and if fenced, the ringer's fence, and what the first sleeper's
       membarrier has made visible. By one operation: the watch may end now */
    uint32_t before = atomic_fetch_add_explicit(&bell->sleepers, added, memory_order_seq_cst);
    hd_assert(!(before & HD_BELL_WATCHED) || !sleeper->begins);
    hd_unlock(&bell->lock);
    return before & HD_BELL_FENCED;
}

void hd_bell_begin_watch(const hd_sleeper_t *sleeper) {
    if (sleeper->begins) {
        /* seq_cst: hands on that the membarrier is over; pairs with the counting in hd_bell_enlist
         */
        uint32_t before = atomic_fetch_or_explicit(&sleeper->bell->sleepers, HD_BELL_FENCED,
                                                   memory_order_seq_cst);
        hd_assert_eq(before & (HD_BELL_WATCHED | HD_BELL_FENCED), HD_BELL_WATCHED);
        (void)before;
    }
}

/* By a ringer that finds nobody asleep. */
static void end_watch(hd_bell_t *bell) {
    uint32_t over = HD_BELL_WATCHED | HD_BELL_FENCED;
    /* relaxed, all: whoever enlists after this is not told that the bell is watched. If somebody
       has enlisted meanwhile, or the first sleeper's fence is still under way, it stays */
    if (hd_ticks() >= atomic_load_explicit(&bell->watched_until, memory_order_relaxed)) {
        atomic_compare_exchange_strong_explicit(&bell->sleepers, &over, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

/* Under the lock. */
static void count_out(hd_bell_t *bell) {
    uint32_t before =
        /* relaxed: only fewer rings follow */
        atomic_fetch_sub_explicit(&bell->sleepers, HD_BELL_SLEEPER, memory_order_relaxed);
    hd_assert_le(HD_BELL_SLEEPER, before);
    (void)before;
}

void hd_bell_delist(hd_sleeper_t *sleeper) {
    hd_bell_t *bell = sleeper->bell;
    hd_lock(&bell->lock);
    hd_sleeper_t **at = &bell->list;
    while (*at != sleeper) {
        hd_assert(*at);
        at = &(*at)->next;
    }
    *at = sleeper->next;
    if (bell->fars) {
        _Atomic uint32_t *asleep = &bell->fars[bell->far].asleep;
        hd_assert_lt(0, get(asleep));
        set(asleep, get(asleep) - 1);
    }
    if (sleeper->word == hd_bell_word(bell)) {
        bell->masks &=
            ~sleeper->mask; /* that another has it, too, is forgotten: then a third may */
    }
    if (!hd_sleeper_is_rung(sleeper)) {
        count_out(bell);
    }
    hd_unlock(&bell->lock);
}

/* Under the lock of the bell. */
static void mark(hd_bell_t *bell, hd_sleeper_t *s) {
    /* relaxed: the bump of the word that follows releases it */
    atomic_store_explicit(&s->rung, true, memory_order_relaxed);
    count_out(bell);
}

/* Who sleeps on a word of its own, or on another bell's. */
static void wake(const hd_sleeper_t *s) {
    bump(s->word);
    int event = s->event ? atomic_load_explicit(s->event, memory_order_seq_cst) : -1;
    if (event < 0) {
        hd_park_wake(s->word, s->mask, s->by_far);
    } else {
        hd_park_signal(event);
    }
}

/* What sleepers wait for is most often the same: looked at once for all of them that stand in a
 * row. */
typedef struct answer {
    const hd_awaited_t *asked;
    bool has_come;
} answer_t;

static bool is_same(const hd_awaited_t *a, const hd_awaited_t *b) {
    return a->has_come == b->has_come && a->home == b->home && a->where == b->where &&
           a->value == b->value && a->losses == b->losses;
}

static bool is_due(const hd_sleeper_t *s, answer_t *last) {
    const hd_awaited_t *awaited = &s->awaited;
    if (hd_sleeper_is_rung(s) || !awaited->has_come) {
        return !hd_sleeper_is_rung(s);
    }
    if (!last->asked || !is_same(last->asked, awaited)) {
        *last = (answer_t){.asked = awaited, .has_come = awaited->has_come(awaited)};
    }
    return last->has_come;
}

/* Not inlined, here and below: those who ring, and wake nobody, would pay for it. The system call
 * that wakes those on the bell's word comes after the lock: the first one woken may take the
 * ringer's processor, and wants the lock. */
__attribute__((noinline, cold)) void hd_bell_wake(hd_bell_t *bell) {
    uint32_t mask = 0;
    /* seq_cst: my publication comes before I look at others'; see the head */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: the fence orders it */
    if (atomic_load_explicit(&bell->sleepers, memory_order_relaxed) < HD_BELL_SLEEPER) {
        end_watch(bell);
        return;
    }
    answer_t last = {0};
    _Atomic uint32_t *word = hd_bell_word(bell);
    bool far = bell->fars;
    if (far) {
        wake_far(bell);
    }
    hd_lock(&bell->lock);
    for (hd_sleeper_t *s = bell->list; s; s = s->next) {
        if (!is_due(s, &last)) {
            continue;
        }
        mark(bell, s);
        if (s->word == word) {
            mask |= s->mask;
        } else {
            wake(s);
        }
    }
    if (mask) {
        bump(word);
    }
    hd_unlock(&bell->lock);
    if (mask) { /* the bell may be gone: then there is nobody on this address, and no harm */
        hd_park_wake(word, mask, far);
    }
}

__attribute__((noinline, cold)) void hd_bell_wake_one(hd_bell_t *bell) {
    answer_t last = {0};
    hd_lock(&bell->lock);
    for (hd_sleeper_t *s = bell->list; s; s = s->next) {
        if (is_due(s, &last)) {
            mark(bell, s);
            wake(s);
            break;
        }
    }
    hd_unlock(&bell->lock);
}

void hd_bell_forget(hd_bell_t *bell) {
    /* relaxed: the caller is alone */
    atomic_store_explicit(&bell->sleepers, 0, memory_order_relaxed);
    bell->list = NULL;
    bell->masks = 0;
    bell->fars = NULL;
    hd_lock_forget(&bell->lock);
}
