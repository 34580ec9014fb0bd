/* match.c: finding the exchange of a collective that is not matched by its number: tagged ones,
 * those of INIT_* ordered teams, persistent ones, and active sets.
 *
 * A table of open exchanges, sharded by key, each shard under a tiny lock. Exchanges with equal
 * keys form a queue; a member joins the oldest that it has not joined yet, so its j-th operation
 * with a key meets everybody's j-th. When all have joined, the exchange leaves the table; when all
 * have left, its board goes back to the pool. Boards and entries are only freed with the group.
 *
 * Active sets leave nothing behind: a set is part of the key, and boards are shared by all sets of
 * a size, so there are as many as were ever in use at once. There are about as many shards as
 * endpoints.
 *
 * A spanning group counts, for each tag and each active set, how many exchanges it has opened, also
 * after they have left the table: so the processes of a team agree on what each is called
 * (ordinals.c).
 *
 * Any thread may call join and leave at any time while it holds a reference to the group.
 */
#include "shm/internal.h"

#include <stdio.h>
#include <string.h>

enum { MIN_SHARDS = 64, MAX_SHARDS = 4096 };

typedef hd_match_label_t label_t;

typedef struct hd_match_entry {
    label_t label;
    uint32_t n_joined;
    hd_board_t *board;
    struct hd_match_entry *next; /* open exchanges of the shard, oldest first */
    struct hd_match_entry *all;  /* every board ever made */
    uint64_t joined[];           /* bit per member */
} entry_t;

typedef struct shard {
    alignas(HD_LINE_PAIR) hd_lock_t lock;
    entry_t *head, **tail;
    hd_ordinals_t ordinals; /* of spanning groups */
} shard_t;

struct hd_match {
    shard_t *shard;
    uint32_t n_shards;                    /* a power of two */
    alignas(HD_LINE_PAIR) hd_lock_t lock; /* guards all below */
    hd_board_t *free, *free_persistent;
    hd_board_t **free_of_size; /* entry i: of active sets with i + 1 members */
    entry_t *all;
};

hd_match_t *hd_match_create(uint32_t n) {
    hd_match_t *match = hd_alloc(HD_LINE_PAIR, sizeof(*match));
    if (!match) {
        return NULL;
    }
    match->n_shards = MIN_SHARDS;
    while (match->n_shards < n && match->n_shards < MAX_SHARDS) {
        match->n_shards *= 2;
    }
    match->shard = hd_alloc(HD_LINE_PAIR, match->n_shards * sizeof(*match->shard));
    match->free_of_size = hd_alloc(HD_LINE, n * sizeof(hd_board_t *));
    if (!match->shard || !match->free_of_size) {
        hd_match_destroy(match);
        return NULL;
    }
    for (uint32_t i = 0; i < match->n_shards; i++) {
        match->shard[i].tail = &match->shard[i].head;
    }
    return match;
}

void hd_match_destroy(hd_match_t *match) {
    if (!match) {
        return;
    }
    while (match->all) {
        entry_t *entry = match->all;
        match->all = entry->all;
        hd_board_destroy(entry->board);
        hd_free(entry);
    }
    for (uint32_t i = 0; match->shard && i < match->n_shards; i++) {
        hd_ordinals_end(&match->shard[i].ordinals);
    }
    hd_free(match->free_of_size);
    hd_free(match->shard);
    hd_free(match);
}

/* n: members of an active set in this process; 0: all endpoints. */
static hd_board_t **free_list(hd_match_t *match, uint32_t n, uint32_t depth) {
    return n ? &match->free_of_size[n - 1] : depth > 1 ? &match->free_persistent : &match->free;
}

static hd_board_t *make_board(hd_group_t *group, uint32_t of_set, uint32_t depth) {
    uint32_t n = of_set ? of_set : group->n;
    const hd_tree_t *by_n = group->board->tree[0], *by_topology = group->board->tree[1];
    hd_tree_t *own = NULL;
    if (of_set) {
        if (!hd_plan_is_flat(group, n) && hd_tree_by_number(n, &own) != UCC_OK) {
            return NULL;
        }
        by_n = by_topology = own;
    }
    hd_board_t *board = hd_board_create(group, n, depth, by_n, by_topology);
    entry_t *entry = hd_alloc(HD_LINE, sizeof(*entry) + (n + 63) / 64 * sizeof(entry->joined[0]));
    bool complete = board && entry;
    for (uint32_t i = 0; complete && i < n; i++) {
        complete = hd_board_add_member(board, i) != NULL;
    }
    if (!complete) {
        hd_free(entry);
        if (board) {
            hd_board_destroy(board);
        }
        if (own) {
            hd_tree_destroy(own);
        }
        return NULL;
    }
    board->own_tree = own;
    board->entry = entry;
    entry->board = board;
    hd_lock(&group->match->lock);
    entry->all = group->match->all;
    group->match->all = entry;
    hd_unlock(&group->match->lock);
    return board;
}

static void put_back(hd_match_t *match, hd_board_t *board) {
    hd_lock(&match->lock);
    hd_board_t **list = free_list(match, board->subset.local, board->depth);
    board->next_free = *list;
    *list = board;
    hd_unlock(&match->lock);
}

/* A board nobody uses, ready for its next use. Under no lock: it may have to be made. */
static hd_board_t *take_board(hd_group_t *group, uint32_t of_set, uint32_t depth) {
    hd_match_t *match = group->match;
    hd_lock(&match->lock);
    hd_board_t **list = free_list(match, of_set, depth);
    hd_board_t *board = *list;
    if (board) {
        *list = board->next_free;
    }
    hd_unlock(&match->lock);
    if (!board) {
        board = make_board(group, of_set, depth);
    }
    if (!board) {
        hd_error("no memory for an exchange of %u endpoints", of_set ? of_set : group->n);
        return NULL;
    }
    if (depth > 1 && board->use) {
        hd_board_reset(board);
    }
    board->use++;
    /* relaxed: handed on by the shard's lock */
    atomic_store_explicit(&board->to_leave, board->n, memory_order_relaxed);
    memset(board->entry->joined, 0, (board->n + 63) / 64 * sizeof(uint64_t));
    board->entry->n_joined = 0;
    board->entry->next = NULL;
    return board;
}

static bool has_joined(const entry_t *entry, uint32_t me) {
    return entry->joined[me / 64] >> (me % 64) & 1;
}

static shard_t *shard_of(hd_match_t *match, const label_t *label) {
    return &match->shard[hd_match_hash(label) & (match->n_shards - 1)];
}

static hd_board_t *join_locked(shard_t *shard, entry_t **at, uint32_t me) {
    entry_t *entry = *at;
    hd_assert(!has_joined(entry, me));
    hd_assert_lt(entry->n_joined, entry->board->n);
    entry->joined[me / 64] |= (uint64_t)1 << (me % 64);
    if (++entry->n_joined == entry->board->n) {
        *at = entry->next;
        if (!*at) {
            shard->tail = at;
        }
    }
    return entry->board;
}

/* Under the shard's lock: the oldest exchange with this label that `me` has not joined, or the end.
 */
static entry_t **find(shard_t *shard, const label_t *label, uint32_t me) {
    entry_t **at = &shard->head;
    while (*at && (!hd_match_same(&(*at)->label, label) || has_joined(*at, me))) {
        at = &(*at)->next;
    }
    return at;
}

/* Under the shard's lock: an exchange that nobody else has opened. It is not in the table yet. */
static bool name_exchange(shard_t *shard, const label_t *label, hd_board_t *board) {
    bool recurs = label->class == HD_MATCH_TAG || label->class == HD_MATCH_ACTIVE_SET;
    board->ordinal = recurs ? hd_ordinals_next(&shard->ordinals, label) : 1;
    return board->ordinal != 0;
}

hd_board_t *hd_match_join(hd_group_t *group, const hd_subset_t *subset, hd_match_class_t class,
                          uint64_t key, uint32_t me) {
    label_t label = {.class = class, .key = key};
    if (subset) {
        label.subset = *subset;
    }
    shard_t *shard = shard_of(group->match, &label);
    hd_lock(&shard->lock);
    entry_t **at = find(shard, &label, me);
    if (*at) {
        hd_board_t *board = join_locked(shard, at, me);
        hd_unlock(&shard->lock);
        return board;
    }
    hd_unlock(&shard->lock);
    hd_board_t *spare = take_board(group, label.subset.local,
                                   class == HD_MATCH_PERSISTENT ? group->persistent_depth : 1);
    if (!spare) {
        return NULL;
    }
    spare->entry->label = label;
    spare->subset = label.subset;
    hd_lock(&shard->lock);
    at = find(shard, &label, me); /* somebody may have opened it meanwhile */
    hd_board_t *unused = *at ? spare : NULL, *board = NULL;
    if (!*at && (!group->spanning || name_exchange(shard, &label, spare))) {
        *shard->tail = spare->entry;
        at = shard->tail;
        shard->tail = &spare->entry->next;
    }
    if (*at) {
        board = join_locked(shard, at, me);
    } else {
        unused = spare;
    }
    hd_unlock(&shard->lock);
    if (unused) {
        put_back(group->match, unused);
    }
    return board;
}

bool hd_match_has_joined(const hd_board_t *board, uint32_t i) {
    const entry_t *entry = board->entry;
    shard_t *shard = shard_of(board->group->match, &entry->label);
    hd_lock(&shard->lock);
    bool joined = has_joined(entry, i);
    hd_unlock(&shard->lock);
    return joined;
}

void hd_match_unlock(hd_match_t *match) {
    for (uint32_t i = 0; i < match->n_shards; i++) {
        hd_lock_forget(&match->shard[i].lock);
    }
    hd_lock_forget(&match->lock);
    for (entry_t *entry = match->all; entry; entry = entry->all) {
        hd_board_unlock(entry->board);
    }
}

void hd_match_leave(hd_board_t *board) {
    hd_match_t *match = board->group->match;
    /* acq_rel: everybody's use of the board happens before its next use */
    uint32_t before = atomic_fetch_sub_explicit(&board->to_leave, 1, memory_order_acq_rel);
    hd_assert(before > 0 && before <= board->n);
    if (before == 1) {
        hd_assert_eq(board->entry->n_joined, board->n); /* who has not joined can't leave */
        put_back(match, board);
    }
}

void hd_match_title(const hd_board_t *board, uint64_t k, const char *type, char *text,
                    size_t size) {
    const hd_subset_t *set = &board->subset;
    unsigned long long key = board->entry->label.key, number = k;
    char of[96] = "";
    if (set->n) {
        snprintf(of, sizeof(of), " of active set {start %llu, stride %lld, size %u}",
                 (unsigned long long)set->start, (long long)set->stride, set->n);
    }
    switch (board->entry->label.class) {
    case HD_MATCH_TAG:
        snprintf(text, size, "%s with tag %llu%s", type, key, of);
        break;
    case HD_MATCH_INIT:
        snprintf(text, size, "%s %llu in the order of init%s", type, key, of);
        break;
    case HD_MATCH_PERSISTENT:
        snprintf(text, size, "persistent %s %llu, start %llu%s", type, key, number, of);
        break;
    case HD_MATCH_ACTIVE_SET:
        snprintf(text, size, "%s%s", type, of);
        break;
    case HD_MATCH_NUMBERED: /* no entry has this class */
        break;
    }
}

hd_exchange_name_t hd_op_exchange_name(const hd_op_t *op) {
    const hd_board_t *board = op->place.board;
    if (!board->entry) {
        return (hd_exchange_name_t){HD_MATCH_NUMBERED, op->place.k, 1, NULL};
    }
    const label_t *label = &board->entry->label;
    uint64_t ordinal = label->class == HD_MATCH_PERSISTENT ? op->place.k : board->ordinal;
    return (hd_exchange_name_t){label->class, label->key, ordinal,
                                board->subset.n ? &board->subset : NULL};
}
