/* table.c: the table of open exchanges (shm/match.c) beside one of ck_ht. Both have a shard of
 * their own lock for each of 64 hashes; in a shard ours is a list, oldest first, and Concurrency
 * Kit's a hash table that grows, whose entries are queues of exchanges with equal labels. An
 * operation opens an exchange by the join of one member, and closes it by that of another, while
 * others are open all the time.
 */
#include "structures.h"
#include "threads/lock.h"

#include <ck_ht.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 64, MOST_OPEN = 16384 };

/* As match.c's: 40 bytes without padding, so that they can be compared and hashed as such. */
typedef struct label {
    uint64_t class, key, start, stride, n;
} label_t;

typedef struct exchange exchange_t;
struct exchange {
    label_t label;
    exchange_t *next;
    uint32_t n_joined;
    uint64_t joined;
};

typedef struct shard {
    alignas(128) hd_lock_t lock;
    exchange_t *head, **tail; /* ours */
    ck_ht_t table;            /* Concurrency Kit's */
    uint64_t removed;         /* since it was made */
} shard_t;

typedef struct tables {
    shard_t shard[SHARDS];
    exchange_t *open, spare[MAX_THREADS][2];
} tables_t;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const label_t *label) {
    uint64_t hash = mix(label->key, label->class);
    if (label->n) {
        hash = mix(mix(hash, label->start), label->stride);
    }
    return hash;
}

static bool has_joined(const exchange_t *x, uint32_t me) {
    return x->joined >> me & 1;
}

/* True if it is full. */
static bool join_exchange(exchange_t *x, uint32_t me) {
    x->joined |= (uint64_t)1 << me;
    return ++x->n_joined == 2;
}

/* --- ours ------------------------------------------------------------------------------------- */

static bool same(const label_t *a, const label_t *b) {
    return a->class == b->class && a->key == b->key && a->n == b->n && a->start == b->start &&
           a->stride == b->stride;
}

static void join_ours(tables_t *t, const label_t *label, uint32_t me, exchange_t *spare) {
    shard_t *shard = &t->shard[hash_of(label) % SHARDS];
    hd_lock(&shard->lock);
    exchange_t **at = &shard->head;
    while (*at && (!same(&(*at)->label, label) || has_joined(*at, me))) {
        at = &(*at)->next;
    }
    if (!*at) {
        *spare = (exchange_t){.label = *label};
        *shard->tail = spare;
        at = shard->tail;
        shard->tail = &spare->next;
    }
    exchange_t *x = *at;
    if (join_exchange(x, me)) {
        *at = x->next;
        if (!*at) {
            shard->tail = at;
        }
    }
    hd_unlock(&shard->lock);
}

/* --- Concurrency Kit's ------------------------------------------------------------------------ */

static void *allocate(size_t bytes) {
    return malloc(bytes);
}

static void give_back(void *memory, size_t bytes, bool deferred) {
    (void)bytes;
    (void)deferred; /* all readers hold the shard's lock */
    free(memory);
}

static struct ck_malloc allocator = {.malloc = allocate, .free = give_back};

static void hash_label(ck_ht_hash_t *hash, const void *key, size_t bytes, uint64_t seed) {
    (void)bytes;
    (void)seed;
    hash->value = hash_of(key) >> 6; /* the lowest bits have chosen the shard */
}

static void must(bool done) {
    if (!done) {
        fprintf(stderr, "bench_structures: ck_ht failed\n");
        abort();
    }
}

static void init_ck(ck_ht_t *table, uint64_t entries) {
    enum { LEAST = 32 };
    must(ck_ht_init(table, CK_HT_MODE_BYTESTRING | CK_HT_WORKLOAD_DELETE, hash_label, &allocator,
                    entries > LEAST ? entries : LEAST, 0));
}

static void put_ck(shard_t *shard, ck_ht_hash_t hash, exchange_t *x) {
    ck_ht_entry_t entry;
    ck_ht_entry_set(&entry, hash, &x->label, sizeof(x->label), x);
    must(ck_ht_put_spmc(&shard->table, hash, &entry));
}

/* What is removed leaves its place marked for ever, and what is looked for in vain passes by all
 * marks: now and then the table has to be made anew. */
static void renew_ck(shard_t *shard) {
    ck_ht_t anew;
    ck_ht_iterator_t at = CK_HT_ITERATOR_INITIALIZER;
    ck_ht_entry_t *entry;
    shard->removed = 0;
    init_ck(&anew, 2 * ck_ht_count(&shard->table));
    while (ck_ht_next(&shard->table, &at, &entry)) {
        ck_ht_entry_t copy = *entry;
        must(ck_ht_put_spmc(&anew, (ck_ht_hash_t){entry->hash}, &copy));
    }
    ck_ht_destroy(&shard->table);
    shard->table = anew;
}

static void remove_ck(shard_t *shard, ck_ht_hash_t hash, const exchange_t *x) {
    ck_ht_entry_t entry;
    ck_ht_entry_key_set(&entry, &x->label, sizeof(x->label));
    must(ck_ht_remove_spmc(&shard->table, hash, &entry));
    if (++shard->removed > 8 + ck_ht_count(&shard->table)) {
        renew_ck(shard);
    }
}

static void join_ck(tables_t *t, const label_t *label, uint32_t me, exchange_t *spare) {
    shard_t *shard = &t->shard[hash_of(label) % SHARDS];
    ck_ht_hash_t hash;
    ck_ht_entry_t entry;
    hash_label(&hash, label, sizeof(*label), 0);
    ck_ht_entry_key_set(&entry, label, sizeof(*label));
    hd_lock(&shard->lock);
    bool is_known = ck_ht_get_spmc(&shard->table, hash, &entry);
    exchange_t *first = is_known ? ck_ht_entry_value(&entry) : NULL, **at = &first;
    while (*at && has_joined(*at, me)) {
        at = &(*at)->next;
    }
    if (!*at) {
        *spare = (exchange_t){.label = *label};
        *at = spare;
        if (!is_known) {
            put_ck(shard, hash, spare);
        }
    }
    exchange_t *x = *at;
    if (join_exchange(x, me)) {
        bool was_first = at == &first;
        if (was_first) { /* its key goes with it */
            remove_ck(shard, hash, x);
        }
        *at = x->next;
        if (was_first && x->next) {
            put_ck(shard, hash, x->next);
        }
    }
    hd_unlock(&shard->lock);
}

/* --- both ------------------------------------------------------------------------------------- */

typedef void join_fn_t(tables_t *, const label_t *, uint32_t me, exchange_t *spare);

static void *create(join_fn_t *join, uint32_t open) {
    tables_t *t = zeroed(sizeof(*t));
    for (uint32_t i = 0; i < SHARDS; i++) {
        t->shard[i].tail = &t->shard[i].head;
        init_ck(&t->shard[i].table, 0);
    }
    t->open = zeroed((open + 1) * sizeof(exchange_t));
    for (uint32_t i = 0; i < open; i++) {
        join(t, &(label_t){.class = 1, .key = i}, 0, &t->open[i]);
    }
    return t;
}

static void destroy(void *shared) {
    tables_t *t = shared;
    for (uint32_t i = 0; i < SHARDS; i++) {
        ck_ht_destroy(&t->shard[i].table);
    }
    free(t->open);
    free(t);
}

static inline __attribute__((always_inline)) void work(tables_t *t, uint32_t thread,
                                                       uint64_t operations, join_fn_t *join) {
    for (uint64_t i = 0; i < operations; i++) {
        label_t label = {.class = 0, .key = (uint64_t)thread << 40 | i};
        join(t, &label, 0, &t->spare[thread][i % 2]);
        join(t, &label, 1, NULL);
    }
}

static void with_ours(void *shared, uint32_t thread, uint64_t operations) {
    work(shared, thread, operations, join_ours);
}

static void with_ck(void *shared, uint32_t thread, uint64_t operations) {
    work(shared, thread, operations, join_ck);
}

#define CREATE(open)                                                                               \
    static void *ours_##open(uint32_t threads) {                                                   \
        (void)threads;                                                                             \
        return create(join_ours, open);                                                            \
    }                                                                                              \
    static void *ck_##open(uint32_t threads) {                                                     \
        (void)threads;                                                                             \
        return create(join_ck, open);                                                              \
    }
CREATE(0)
CREATE(64)
CREATE(1024)
CREATE(16384)

#define CONTEST(open, most)                                                                        \
    {                                                                                              \
        "match table, " #open " others open", "two joins", {ours_##open, destroy, with_ours},      \
            {ck_##open, destroy, with_ck}, most                                                    \
    }

const contest_t table_contests[] = {CONTEST(0, MAX_THREADS),
                                    CONTEST(64, MAX_THREADS),
                                    CONTEST(1024, MAX_THREADS),
                                    CONTEST(16384, 1),
                                    {0}};
