/* meet.c: the table of meetings (meet.h), under one mutex. */
#include "threads/meet.h"

#include "core/mem.h"
#include "threads/threads.h"

#include <pthread.h>
#include <string.h>

struct hd_meeting {
    hd_meet_key_t key;
    uint32_t size, arrived, refs;
    uint32_t gone; /* references of participants that did not wait for the rest */
    bool made;     /* object is what make returned */
    void *object;
    void (*drop)(void *object);
    uint64_t *label;
    uint8_t *state; /* per participant: 0 absent, 1 excluded, 2 included */
    hd_meeting_t *next;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static hd_meeting_t *table; /* oldest first; under table_lock, like every meeting in it */

static bool same(const hd_meet_key_t *a, const hd_meet_key_t *b) {
    return a->kind == b->kind && a->scope == b->scope && a->id == b->id && a->n_list == b->n_list &&
           (!a->n_list || memcmp(a->list, b->list, a->n_list * sizeof(*a->list)) == 0);
}

static void free_meeting(hd_meeting_t *m) {
    if (m->object && m->drop) {
        m->drop(m->object);
    }
    hd_free((void *)(uintptr_t)m->key.list);
    hd_free(m->label);
    hd_free(m->state);
    hd_free(m);
}

static hd_meeting_t *make_meeting(const hd_meet_key_t *key, uint32_t size) {
    hd_meeting_t *m = hd_alloc(64, sizeof(*m));
    if (!m) {
        return NULL;
    }
    m->key = *key;
    m->key.list = NULL;
    m->size = size;
    m->label = hd_alloc(64, size * sizeof(*m->label));
    m->state = hd_alloc(64, size);
    uint64_t *list = key->n_list ? hd_alloc(64, key->n_list * sizeof(*list)) : NULL;
    if (!m->label || !m->state || (key->n_list && !list)) {
        hd_free(list);
        free_meeting(m);
        return NULL;
    }
    if (list) {
        memcpy(list, key->list, key->n_list * sizeof(*list));
        m->key.list = list;
    }
    return m;
}

hd_meeting_t *hd_meet(const hd_meet_key_t *key, uint32_t size, uint32_t *me, uint64_t label,
                      bool included) {
    pthread_mutex_lock(&table_lock);
    hd_meeting_t **at = &table;
    while (*at && (!same(&(*at)->key, key) || (*at)->size != size ||
                   (*me != HD_MEET_ANY && (*at)->state[*me]))) {
        at = &(*at)->next;
    }
    if (!*at) {
        *at = make_meeting(key, size);
    }
    hd_meeting_t *m = *at;
    if (m) {
        if (*me == HD_MEET_ANY) { /* the order of arrival, unless others chose their numbers */
            for (*me = m->arrived; m->state[*me]; *me = *me + 1 < size ? *me + 1 : 0) {
            }
        }
        m->label[*me] = label;
        m->state[*me] = included ? 2 : 1;
        m->refs++;
        if (++m->arrived == size) {
            *at = m->next;
            m->refs -= m->gone; /* at least the caller's is left */
            m->gone = 0;
        }
    }
    pthread_mutex_unlock(&table_lock);
    return m;
}

uint64_t hd_serial(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) +
           1; /* only uniqueness counts */
}

bool hd_meeting_is_complete(hd_meeting_t *m) {
    pthread_mutex_lock(&table_lock);
    bool complete = m->arrived == m->size;
    pthread_mutex_unlock(&table_lock);
    return complete;
}

uint64_t hd_meeting_label(const hd_meeting_t *m, uint32_t i) {
    return m->label[i];
}

bool hd_meeting_included(const hd_meeting_t *m, uint32_t i) {
    return m->state[i] == 2;
}

void *hd_meeting_object(hd_meeting_t *m, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object)) {
    pthread_mutex_lock(&table_lock);
    if (!m->made) { /* once only: if it can't be made, all participants learn that */
        m->made = true;
        m->object = make(arg);
        m->drop = drop;
    }
    void *object = m->object;
    pthread_mutex_unlock(&table_lock);
    return object;
}

/* A meeting that is never completed (a participant gave up) leaves the table with its last
 * reference. */
void hd_meeting_release(hd_meeting_t *m, bool early) {
    pthread_mutex_lock(&table_lock);
    if (early && m->arrived < m->size) {
        m->gone++; /* it has been counted: the meeting must stay in the table for the others */
        pthread_mutex_unlock(&table_lock);
        return;
    }
    bool last = --m->refs == m->gone;
    if (last && m->arrived < m->size) {
        hd_meeting_t **at = &table;
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
