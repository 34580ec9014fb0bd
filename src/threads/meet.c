/* meet.c: the table of meetings (meet.h), under one mutex, which is held for a few lines of code:
 * lists are compared by their fingerprints, and what a meeting is about is made under the meeting's
 * own lock.
 */
#include "threads/meet.h"

#include "core/log.h"
#include "core/mem.h"
#include "core/fork.h"

/* What a meeting is about, its prelude, or the memory that goes with it. */
typedef struct subject {
    bool made; /* object is what make returned */
    void *object;
    void (*drop)(void *object);
} subject_t;

enum { OBJECT, PRELUDE, MEMORY, SUBJECTS };

struct hd_meeting {
    hd_meet_key_t key;
    uint32_t size, refs;
    uint32_t gone;  /* references of participants that did not wait for the rest */
    uint32_t forks; /* hd_forks() when it was made: a child does not meet its parent's threads */
    _Atomic uint32_t arrived; /* written under table_lock */
    _Atomic int32_t failed;   /* UCC_OK, or the first cause */
    uint64_t *label;
    uint8_t *state; /* per participant: 0 absent, 1 excluded, 2 included */
    hd_meeting_t *next;
    pthread_mutex_t object_lock; /* guards the rest */
    subject_t subject[SUBJECTS];
};

enum { N_BUCKETS = 256 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static hd_meeting_t
    *table[N_BUCKETS]; /* oldest first; under table_lock, like every meeting in it */

/* --- keys ------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t value) {
    h = (h ^ value) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

hd_fingerprint_t hd_fingerprint_begin(uint32_t n) {
    return (hd_fingerprint_t){{n, ~(uint64_t)n}};
}

void hd_fingerprint_add(hd_fingerprint_t *f, uint64_t entry) {
    f->word[0] = mix(f->word[0], entry);
    f->word[1] = mix(f->word[1], entry + 0xbf58476d1ce4e5b9u);
}

hd_fingerprint_t hd_fingerprint(const uint64_t *list, uint32_t n) {
    hd_fingerprint_t f = hd_fingerprint_begin(n);
    for (uint32_t i = 0; i < n; i++) {
        hd_fingerprint_add(&f, list[i]);
    }
    return f;
}

static bool is_by_id(const hd_meet_key_t *key) {
    return key->kind == HD_MEET_ID || key->kind == HD_MEET_LABELS;
}

/* Those that contradict each other by their kinds are in one bucket. */
static hd_meeting_t **bucket_of(const hd_meet_key_t *key) {
    uint64_t h = mix(is_by_id(key) ? 0 : (uint64_t)key->kind, key->scope);
    h = mix(mix(h, key->id), key->list.word[0]);
    return &table[h % N_BUCKETS];
}

/* Do the two mean the same team? */
static bool same(const hd_meet_key_t *a, const hd_meet_key_t *b) {
    bool same_kind = a->kind == b->kind || (is_by_id(a) && is_by_id(b));
    return same_kind && a->scope == b->scope && a->id == b->id &&
           a->list.word[0] == b->list.word[0] && a->list.word[1] == b->list.word[1];
}

/* --- made and freed --------------------------------------------------------------------------- */

static void drop(subject_t *s) {
    if (s->object && s->drop) {
        s->drop(s->object);
    }
}

static void drop_all(subject_t *subject) {
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        drop(&subject[i]);
    }
}

static void free_meeting(hd_meeting_t *m) {
    drop_all(m->subject);
    pthread_mutex_destroy(&m->object_lock);
    hd_free(m->label);
    hd_free(m->state);
    hd_free(m);
}

static hd_meeting_t *make_meeting(const hd_meet_key_t *key, uint32_t size) {
    hd_meeting_t *m = hd_alloc(64, sizeof(*m));
    if (!m) {
        return NULL;
    }
    pthread_mutex_init(&m->object_lock, NULL);
    m->key = *key;
    m->size = size;
    m->forks = hd_forks();
    m->label = hd_alloc(64, size * sizeof(*m->label));
    m->state = hd_alloc(64, size);
    if (!m->label || !m->state) {
        free_meeting(m);
        return NULL;
    }
    return m;
}

/* --- meeting ---------------------------------------------------------------------------------- */

ucc_status_t hd_meeting_failed(const hd_meeting_t *m) {
    /* acquire: pairs with hd_meeting_fail, though only the value matters */
    return (ucc_status_t)atomic_load_explicit(&m->failed, memory_order_acquire);
}

void hd_meeting_fail(hd_meeting_t *m, ucc_status_t why) {
    int32_t clean = UCC_OK;
    /* acq_rel: the first cause wins */
    atomic_compare_exchange_strong_explicit(&m->failed, &clean, (int32_t)why, memory_order_acq_rel,
                                            memory_order_relaxed);
}

static uint32_t arrived(const hd_meeting_t *m) {
    /* acquire: pairs with enter; the others' labels and states are readable when all are there */
    return atomic_load_explicit(&m->arrived, memory_order_acquire);
}

/* Has this participant been counted in m? Under the lock, like the next ones. */
static bool has_joined(const hd_meeting_t *m, uint32_t size, uint32_t me) {
    return m->size == size && me != HD_MEET_ANY && m->state[me];
}

/* Says what is wrong with coming to m like that. */
static ucc_status_t contradiction(hd_meeting_t *m, const hd_meet_key_t *key, uint32_t size,
                                  uint32_t me) {
    unsigned long long id = (unsigned long long)key->id;
    ucc_status_t failed = hd_meeting_failed(m);
    if (m->size == size && me != HD_MEET_ANY && !m->state[me]) {
        m->state[me] =
            1; /* it learns of the failure here: when it comes again, it is for the next one */
    }
    if (failed != UCC_OK) {
        hd_error("the team has failed to form at another endpoint: %s", ucc_status_string(failed));
        return failed;
    }
    if (m->size != size) {
        hd_error("team_size is %u, but %u at another endpoint of the team with id %llu", size,
                 m->size, id);
    } else if (m->key.kind != key->kind) {
        hd_error("ep_range differs between endpoints of the team with id %llu", id);
    } else {
        hd_error("ep %u of the team with id %llu is taken twice", me, id);
    }
    hd_meeting_fail(m, UCC_ERR_INVALID_PARAM);
    return UCC_ERR_INVALID_PARAM;
}

/* The meeting to join: the place where it is linked, or will be. UCC_OK, or a contradiction. */
static ucc_status_t find(const hd_meet_key_t *key, uint32_t size, uint32_t me,
                         hd_meeting_t ***out) {
    for (*out = bucket_of(key); **out; *out = &(**out)->next) {
        hd_meeting_t *m = **out;
        if (!same(&m->key, key) || m->forks != hd_forks()) {
            continue;
        }
        bool failed = hd_meeting_failed(m) != UCC_OK, joined = has_joined(m, size, me);
        if (joined && (failed || !is_by_id(key))) {
            continue; /* it comes for the next one */
        }
        if (failed || m->size != size || m->key.kind != key->kind || joined) {
            return contradiction(m, key, size, me);
        }
        break;
    }
    return UCC_OK;
}

static void enter(hd_meeting_t **at, uint32_t *me, uint64_t label, bool included) {
    hd_meeting_t *m = *at;
    uint32_t before = atomic_load_explicit(&m->arrived, memory_order_relaxed); /* under the lock */
    if (*me == HD_MEET_ANY) { /* the order of arrival, unless others chose their numbers */
        for (*me = before; m->state[*me]; *me = *me + 1 < m->size ? *me + 1 : 0) {
        }
    }
    m->label[*me] = label;
    m->state[*me] = included ? 2 : 1;
    m->refs++;
    if (before + 1 == m->size) {
        *at = m->next;
        m->refs -= m->gone; /* at least the caller's is left */
        m->gone = 0;
    }
    /* release: labels and states; pairs with the acquire in arrived */
    atomic_store_explicit(&m->arrived, before + 1, memory_order_release);
}

ucc_status_t hd_meet(const hd_meet_key_t *key, uint32_t size, uint32_t *me, uint64_t label,
                     bool included, hd_meeting_t **out) {
    hd_meeting_t **at = NULL;
    hd_fork_guard(&table_lock);
    pthread_mutex_lock(&table_lock);
    ucc_status_t status = find(key, size, *me, &at);
    if (status == UCC_OK && !*at) {
        *at = make_meeting(key, size);
    }
    *out = *at;
    if (status == UCC_OK && *out) {
        enter(at, me, label, included);
    }
    pthread_mutex_unlock(&table_lock);
    if (status == UCC_OK && !*out) {
        hd_error("no memory for a meeting of %u endpoints", size);
        return UCC_ERR_NO_MEMORY;
    }
    return status;
}

bool hd_meeting_is_complete(const hd_meeting_t *m) {
    return arrived(m) == m->size;
}

uint64_t hd_meeting_label(const hd_meeting_t *m, uint32_t i) {
    return m->label[i];
}

bool hd_meeting_included(const hd_meeting_t *m, uint32_t i) {
    return m->state[i] == 2;
}

bool hd_meeting_has_come(const hd_meeting_t *m, uint32_t i) {
    pthread_mutex_lock(&table_lock);
    bool has_come = m->state[i] != 0;
    pthread_mutex_unlock(&table_lock);
    return has_come;
}

static void *object_of(hd_meeting_t *m, subject_t *s, void *(*make)(void *arg), void *arg,
                       void (*end)(void *object)) {
    pthread_mutex_lock(&m->object_lock);
    if (!s->made) { /* once only: if it can't be made, all participants learn that */
        s->made = true;
        s->object = make ? make(arg) : NULL;
        s->drop = end;
    }
    void *object = s->object;
    pthread_mutex_unlock(&m->object_lock);
    return object;
}

void *hd_meeting_object(hd_meeting_t *m, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object)) {
    return object_of(m, &m->subject[OBJECT], make, arg, drop);
}

void *hd_meeting_prelude(hd_meeting_t *m, void *(*make)(void *arg), void *arg,
                         void (*drop)(void *object)) {
    return object_of(m, &m->subject[PRELUDE], make, arg, drop);
}

void *hd_meeting_memory(hd_meeting_t *m, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object)) {
    return object_of(m, &m->subject[MEMORY], make, arg, drop);
}

/* The number of a split, or of a shrinking, does not come again; nor does a team that shares memory
 * with other processes, which have been told of it. */
static bool is_numbered(const hd_meeting_t *m) {
    return m->key.kind == HD_MEET_SPLIT || m->key.kind == HD_MEET_SHRINK ||
           (m->key.scope && m->subject[MEMORY].made);
}

/* A meeting that is never completed (a participant gave up) leaves the table with its last
 * reference: others may try the same again. But whoever still comes to a number is told. */
void hd_meeting_release(hd_meeting_t *m, bool early) {
    pthread_mutex_lock(&table_lock);
    bool open = arrived(m) < m->size;
    bool failed = hd_meeting_failed(m) != UCC_OK;
    if (open && (early || (failed && is_numbered(m)))) {
        m->gone++; /* it has been counted: the meeting must stay in the table for the others */
        subject_t subject[SUBJECTS] = {0};
        for (uint32_t i = 0; failed && m->refs == m->gone && i < SUBJECTS; i++) {
            subject[i] =
                m->subject[i]; /* of use to nobody: who comes later only learns of the failure */
            m->subject[i].object = NULL;
        }
        pthread_mutex_unlock(&table_lock);
        drop_all(subject);
        return;
    }
    bool last = --m->refs == m->gone;
    if (last && open) {
        hd_meeting_t **at = bucket_of(&m->key);
        while (*at != m) {
            at = &(*at)->next;
        }
        *at = m->next;
    }
    pthread_mutex_unlock(&table_lock);
    if (last) {
        free_meeting(m);
    }
}

void hd_meetings_end(uint64_t scope) {
    hd_meeting_t *ended = NULL;
    pthread_mutex_lock(&table_lock);
    for (uint32_t i = 0; i < N_BUCKETS; i++) {
        for (hd_meeting_t **at = &table[i]; *at;) {
            hd_meeting_t *m = *at;
            if (m->key.scope != scope || m->refs != m->gone) {
                at = &m->next;
                continue;
            }
            *at = m->next;
            m->next = ended;
            ended = m;
        }
    }
    pthread_mutex_unlock(&table_lock);
    while (ended) { /* not under the lock: what a meeting was about ends with it */
        hd_meeting_t *next = ended->next;
        free_meeting(ended);
        ended = next;
    }
}
