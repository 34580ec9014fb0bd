/* births.c: what the processes of a group tell each other about teams that its endpoints form: in a
 * few words for each of these (its BIRTH), in the memory that they share. This is no path of
 * collectives: there is a lock, which may be left by a process that dies.
 *
 * A birth has a name, and a number of participants who all know it: endpoints, or processes. Each
 * of them comes, says whether it takes part, or why it can't, reads what the others say, and
 * leaves: what it does once more does not count. The first to come takes one that is free, the last
 * to leave gives it back: so whoever comes late finds what was said, also if the others have failed
 * and are gone. Nothing is cleared by who dies; then the group has failed, and its memory is all
 * that it costs.
 *
 * Whoever finds no memory for one is REFUSED: it leaves the name in a short list, without memory of
 * its own, and who finds some later begins a birth that has failed.
 *
 * Births are in one of two lists, active and free, known by how far from the mapping's base they
 * lie. A process that dies under the lock has changed a list or not (one store), and may have one
 * birth in neither: so the lock can be had again.
 */
#include "shm/internal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Shared, all of these. */
struct hd_birth {
    alignas(HD_LINE) uint64_t name[2];
    uint32_t expected;           /* participants */
    _Atomic uint32_t came, left; /* participants, each counted once */
    _Atomic int32_t failed;      /* UCC_OK, or the first reason for which one of them can't */
    _Atomic uint32_t culprit;    /* 1 + that one, soon after; 0: not told yet */
    _Atomic uint32_t leader;     /* 1 + the participant that leads; 0: none yet */
    _Atomic uint64_t next;       /* in its list; 0: the last */
    /* a bit per participant that has said something; then one per participant that takes part; then
     * one per participant that has left */
    _Atomic uint64_t said[];
};

/* So many of one birth's participants could not come. */
typedef struct refused {
    uint64_t name[2];
    uint32_t count; /* 0: none */
} refused_t;

struct hd_births {
    alignas(HD_LINE_PAIR) pthread_mutex_t mutex;
    _Atomic uint64_t active, free;
    _Atomic uint64_t over[HD_OVER], n_over; /* the last names, and how many there were */
    refused_t refused[HD_OVER];             /* the last ones; under the mutex */
    uint32_t n_refused;
    _Atomic uint64_t
        agreed[HD_AGREEMENTS]; /* by number, as they come in turn: the decision's name */
};

size_t hd_births_bytes(void) {
    return sizeof(hd_births_t);
}

size_t hd_birth_bytes(void) {
    return sizeof(hd_birth_t);
}

void hd_births_init(hd_births_t *births) {
    hd_mapping_init_mutex(&births->mutex);
}

/* --- lists: under the mutex, so relaxed, but for who dies there ------------------------------- */

static uint64_t load(const _Atomic uint64_t *place) {
    return atomic_load_explicit(place, memory_order_relaxed);
}

/* release: what was written before is there if this is, should the process die */
static void store(_Atomic uint64_t *place, uint64_t value) {
    atomic_store_explicit(place, value, memory_order_release);
}

static hd_birth_t *at(const hd_group_t *group, uint64_t offset) {
    return (hd_birth_t *)(void *)(group->mapping.base + offset);
}

static bool enter(hd_births_t *births) {
    int error = pthread_mutex_lock(&births->mutex);
    if (error == EOWNERDEAD) {
        error = pthread_mutex_consistent(&births->mutex);
    }
    return error == 0;
}

static void leave(hd_births_t *births) {
    pthread_mutex_unlock(&births->mutex);
}

static size_t words_of(const hd_group_t *group) {
    return (group->n + 63) / 64;
}

static size_t bytes_of(const hd_group_t *group) {
    return sizeof(hd_birth_t) + 3 * words_of(group) * sizeof(uint64_t);
}

static uint64_t find(const hd_group_t *group, const uint64_t name[2]) {
    uint64_t offset = load(&group->births->active);
    while (offset && memcmp(at(group, offset)->name, name, sizeof(at(group, offset)->name)) != 0) {
        offset = load(&at(group, offset)->next);
    }
    return offset;
}

/* One that nobody uses, in no list; 0: there is no memory. */
static uint64_t take(hd_group_t *group) {
    uint64_t offset = load(&group->births->free);
    if (offset) {
        store(&group->births->free, load(&at(group, offset)->next));
        return offset;
    }
    uint8_t *memory = hd_mapping_give(group, bytes_of(group));
    return memory ? (uint64_t)(memory - group->mapping.base) : 0;
}

/* NULL: nobody of that name. */
static refused_t *find_refused(hd_births_t *births, const uint64_t name[2]) {
    for (uint32_t i = 0; i < HD_OVER; i++) {
        refused_t *r = &births->refused[i];
        if (r->count && memcmp(r->name, name, sizeof(r->name)) == 0) {
            return r;
        }
    }
    return NULL;
}

static void note_refused(hd_births_t *births, const uint64_t name[2], uint32_t expected) {
    refused_t *r = find_refused(births, name);
    if (!r) {
        r = &births->refused[births->n_refused++ % HD_OVER];
        memcpy(r->name, name, sizeof(r->name));
        r->count = 0;
    }
    r->count++;
    r->count = r->count < expected ? r->count : 0; /* all know */
}

static void begin(const hd_group_t *group, uint64_t offset, const uint64_t name[2],
                  uint32_t expected) {
    hd_birth_t *birth = at(group, offset);
    refused_t *refused = find_refused(group->births, name);
    memset((void *)birth, 0, bytes_of(group));
    memcpy(birth->name, name, sizeof(birth->name));
    birth->expected = expected;
    if (refused) { /* they won't leave. relaxed, both: not in the list yet */
        atomic_store_explicit(&birth->failed, UCC_ERR_NO_MEMORY, memory_order_relaxed);
        atomic_store_explicit(&birth->left, refused->count, memory_order_relaxed);
        refused->count = 0;
    }
    store(&birth->next, load(&group->births->active));
    store(&group->births->active, offset);
}

static void give_back(const hd_group_t *group, hd_birth_t *birth) {
    _Atomic uint64_t *place = &group->births->active;
    while (load(place) && at(group, load(place)) != birth) {
        place = &at(group, load(place))->next;
    }
    uint64_t offset = load(place);
    if (offset) {
        store(place, load(&birth->next));
        store(&birth->next, load(&group->births->free));
        store(&group->births->free, offset);
    }
}

/* --- births ----------------------------------------------------------------------------------- */

hd_birth_t *hd_birth_come(hd_group_t *group, const uint64_t name[2], uint32_t expected) {
    hd_assert(hd_group_is_mapped(group) && expected <= group->n && expected > 0);
    uint64_t offset = 0;
    if (enter(group->births)) {
        offset = find(group, name);
        if (!offset && (offset = take(group)) != 0) {
            begin(group, offset, name, expected);
        } else if (!offset) {
            note_refused(group->births, name, expected);
        }
        leave(group->births);
    }
    if (!offset) {
        hd_error("no room in the memory of a team of %u for one more team of its endpoints",
                 group->team_n);
    }
    return offset ? at(group, offset) : NULL;
}

bool hd_birth_fail(hd_birth_t *birth, uint32_t me, ucc_status_t why) {
    int32_t none = UCC_OK;
    /* seq_cst, both: either I see the last one that has said something, or whoever has seen that
     * one sees the failure */
    bool first = atomic_compare_exchange_strong_explicit(
        &birth->failed, &none, (int32_t)why, memory_order_seq_cst, memory_order_seq_cst);
    if (first) {
        /* relaxed: for people */
        atomic_store_explicit(&birth->culprit, me + 1, memory_order_relaxed);
    }
    return !first || atomic_load_explicit(&birth->came, memory_order_seq_cst) < birth->expected;
}

uint32_t hd_birth_culprit(const hd_birth_t *birth) {
    /* relaxed: for people */
    return atomic_load_explicit(&birth->culprit, memory_order_relaxed) - 1;
}

uint32_t hd_birth_leader(hd_birth_t *birth, uint32_t me) {
    uint32_t leader = 0;
    /* relaxed, both: only the number matters */
    bool mine = atomic_compare_exchange_strong_explicit(&birth->leader, &leader, me + 1,
                                                        memory_order_relaxed, memory_order_relaxed);
    return mine ? me : leader - 1;
}

void hd_birth_say(const hd_group_t *group, hd_birth_t *birth, uint32_t me, ucc_status_t status,
                  bool in) {
    _Atomic uint64_t *takes_part = &birth->said[words_of(group)];
    if (status != UCC_OK) {
        (void)hd_birth_fail(birth, me, status);
    }
    /* relaxed, both: handed on by the count */
    atomic_fetch_or_explicit(&takes_part[me / 64], (uint64_t)in << (me % 64), memory_order_relaxed);
    uint64_t bit = (uint64_t)1 << (me % 64);
    if (!(atomic_fetch_or_explicit(&birth->said[me / 64], bit, memory_order_relaxed) & bit)) {
        /* release, in seq_cst: pairs with hd_birth_status; seq_cst: see hd_birth_fail */
        atomic_fetch_add_explicit(&birth->came, 1, memory_order_seq_cst);
    }
}

ucc_status_t hd_birth_status(const hd_birth_t *birth) {
    /* seq_cst, both: see hd_birth_fail; acquire, in that: what all of them have said */
    uint32_t came = atomic_load_explicit(&birth->came, memory_order_seq_cst);
    ucc_status_t failed = (ucc_status_t)atomic_load_explicit(&birth->failed, memory_order_seq_cst);
    return failed != UCC_OK ? failed : came < birth->expected ? UCC_INPROGRESS : UCC_OK;
}

/* relaxed, in both: known since hd_birth_status; or for people */
bool hd_birth_has(const hd_group_t *group, const hd_birth_t *birth, uint32_t i) {
    const _Atomic uint64_t *takes_part = &birth->said[words_of(group)];
    return atomic_load_explicit(&takes_part[i / 64], memory_order_relaxed) >> (i % 64) & 1;
}

bool hd_birth_hears(const hd_birth_t *birth, uint32_t i) {
    return atomic_load_explicit(&birth->said[i / 64], memory_order_relaxed) >> (i % 64) & 1;
}

void hd_birth_leave(hd_group_t *group, hd_birth_t *birth, uint32_t me) {
    _Atomic uint64_t *has_left = &birth->said[2 * words_of(group)];
    uint32_t expected = birth->expected;
    uint64_t bit = (uint64_t)1 << (me % 64);
    /* relaxed: the count below orders it */
    if (atomic_fetch_or_explicit(&has_left[me / 64], bit, memory_order_relaxed) & bit) {
        return;
    }
    /* acq_rel: all have read what there is when the last one gives it back */
    uint32_t left = atomic_fetch_add_explicit(&birth->left, 1, memory_order_acq_rel) + 1;
    if (left == expected && enter(group->births)) {
        give_back(group, birth);
        leave(group->births);
    }
}

/* --- agreements ------------------------------------------------------------------------------- */

void hd_group_tell_agreed(hd_group_t *group, uint64_t number, uint64_t name) {
    /* release: whoever sees it may go on from there */
    atomic_store_explicit(&group->births->agreed[number % HD_AGREEMENTS], name,
                          memory_order_release);
}

bool hd_group_is_agreed(const hd_group_t *group, uint64_t number, uint64_t name) {
    /* acquire: pairs with the above */
    return name != 0 && atomic_load_explicit(&group->births->agreed[number % HD_AGREEMENTS],
                                             memory_order_acquire) == name;
}

/* --- what is over ----------------------------------------------------------------------------- */

bool hd_group_is_over(const hd_group_t *group, uint64_t name) {
    bool over = false;
    for (uint32_t i = 0; i < HD_OVER && !over; i++) {
        /* acquire: pairs with the store in hd_group_tell_over; what was seen before that is seen */
        over = atomic_load_explicit(&group->births->over[i], memory_order_acquire) == name;
    }
    return over;
}

void hd_group_tell_over(hd_group_t *group, uint64_t name) {
    if (!hd_group_is_over(group, name) && enter(group->births)) {
        uint64_t n = load(&group->births->n_over);
        store(&group->births->over[n % HD_OVER], name);
        store(&group->births->n_over, n + 1);
        leave(group->births);
    }
}
