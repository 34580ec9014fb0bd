/* match.c: finding the exchange of a collective that is not matched by its number: tagged ones,
 * those of INIT_* ordered teams, persistent ones, and active sets.
 *
 * A table of open exchanges, sharded by key, each shard under a tiny lock. Exchanges with equal keys
 * form a queue; a member joins the oldest that it has not joined yet, so its j-th operation with a
 * key meets everybody's j-th. When all have joined, the exchange leaves the table; when all have
 * left, its board goes back to the pool. Boards and entries are only freed with the group.
 *
 * Any thread may call join and leave at any time while it holds a reference to the group.
 */
#include "shm/shm.h"

#include <stdio.h>
#include <string.h>

enum { N_SHARDS = 64 };

typedef struct hd_match_entry {
    hd_match_class_t class;
    uint64_t key;
    uint32_t n_joined;
    hd_board_t *board;
    struct hd_match_entry *next; /* open exchanges of the shard, oldest first */
    struct hd_match_entry *all;  /* every board ever made */
    uint64_t joined[];           /* bit per member */
} entry_t;

typedef struct shard {
    alignas(HD_LINE_PAIR) hd_lock_t lock;
    entry_t *head, **tail;
} shard_t;

struct hd_match {
    shard_t shard[N_SHARDS];
    alignas(HD_LINE_PAIR) hd_lock_t lock; /* guards all below, and free lists */
    hd_board_t *free, *free_persistent;
    hd_subset_t *subsets;
    entry_t *all;
};

hd_match_t *hd_match_create(void) {
    hd_match_t *match = hd_alloc(HD_LINE_PAIR, sizeof(*match));
    for (uint32_t i = 0; match && i < N_SHARDS; i++) {
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
    while (match->subsets) {
        hd_subset_t *subset = match->subsets;
        match->subsets = subset->next;
        hd_free(subset);
    }
    hd_free(match);
}

hd_subset_t *hd_match_subset(hd_group_t *group, uint64_t start, int64_t stride, uint32_t n) {
    hd_match_t *match = group->match;
    hd_lock(&match->lock);
    hd_subset_t *subset = match->subsets;
    while (subset && (subset->start != start || subset->stride != stride || subset->n != n)) {
        subset = subset->next;
    }
    if (!subset && (subset = hd_alloc(HD_LINE, sizeof(*subset)))) {
        subset->start = start;
        subset->stride = stride;
        subset->n = n;
        subset->next = match->subsets;
        match->subsets = subset;
    }
    hd_unlock(&match->lock);
    return subset;
}

static hd_board_t **free_list(hd_match_t *match, hd_subset_t *subset, uint32_t depth) {
    return subset ? &subset->free : depth > 1 ? &match->free_persistent : &match->free;
}

static hd_board_t *make_board(hd_group_t *group, hd_subset_t *subset, uint32_t depth) {
    uint32_t n = subset ? subset->n : group->n;
    const hd_tree_t *by_n = group->board->tree[0], *by_topology = group->board->tree[1];
    hd_tree_t *own = NULL;
    if (subset) {
        if (n > group->flat_max && hd_tree_by_number(n, &own) != UCC_OK) {
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
    board->subset = subset;
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
    hd_board_t **list = free_list(match, board->subset, board->depth);
    board->next_free = *list;
    *list = board;
    hd_unlock(&match->lock);
}

/* A board nobody uses, ready for its next use. Under no lock: it may have to be made. */
static hd_board_t *take_board(hd_group_t *group, hd_subset_t *subset, uint32_t depth) {
    hd_match_t *match = group->match;
    hd_lock(&match->lock);
    hd_board_t **list = free_list(match, subset, depth);
    hd_board_t *board = *list;
    if (board) {
        *list = board->next_free;
    }
    hd_unlock(&match->lock);
    if (!board) {
        board = make_board(group, subset, depth);
    }
    if (!board) {
        hd_error("no memory for an exchange of %u endpoints", subset ? subset->n : group->n);
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

static shard_t *shard_of(hd_match_t *match, hd_match_class_t class, uint64_t key,
                         const hd_subset_t *subset) {
    uint64_t mix = (key + (uint64_t) class * 0x9e3779b97f4a7c15u) ^ ((uintptr_t)subset >> 6);
    mix *= 0x9e3779b97f4a7c15u;
    return &match->shard[mix >> 58];
}

static hd_board_t *join_locked(shard_t *shard, entry_t **at, uint32_t me) {
    entry_t *entry = *at;
    entry->joined[me / 64] |= (uint64_t)1 << (me % 64);
    if (++entry->n_joined == entry->board->n) {
        *at = entry->next;
        if (!*at) {
            shard->tail = at;
        }
    }
    return entry->board;
}

/* Under the shard's lock: the oldest exchange with this key that `me` has not joined, or the end. */
static entry_t **find(shard_t *shard, hd_match_class_t class, uint64_t key,
                      const hd_subset_t *subset, uint32_t me) {
    entry_t **at = &shard->head;
    while (*at && ((*at)->class != class || (*at)->key != key || (*at)->board->subset != subset ||
                   has_joined(*at, me))) {
        at = &(*at)->next;
    }
    return at;
}

hd_board_t *hd_match_join(hd_group_t *group, hd_subset_t *subset, hd_match_class_t class,
                          uint64_t key, uint32_t me) {
    shard_t *shard = shard_of(group->match, class, key, subset);
    hd_lock(&shard->lock);
    entry_t **at = find(shard, class, key, subset, me);
    if (*at) {
        hd_board_t *board = join_locked(shard, at, me);
        hd_unlock(&shard->lock);
        return board;
    }
    hd_unlock(&shard->lock);
    hd_board_t *spare =
        take_board(group, subset, class == HD_MATCH_PERSISTENT ? group->persistent_depth : 1);
    if (!spare) {
        return NULL;
    }
    spare->entry->class = class;
    spare->entry->key = key;
    hd_lock(&shard->lock);
    at = find(shard, class, key, subset, me); /* somebody may have opened it meanwhile */
    hd_board_t *unused = *at ? spare : NULL;
    if (!*at) {
        *shard->tail = spare->entry;
        at = shard->tail;
        shard->tail = &spare->entry->next;
    }
    hd_board_t *board = join_locked(shard, at, me);
    hd_unlock(&shard->lock);
    if (unused) {
        put_back(group->match, unused);
    }
    return board;
}

void hd_match_leave(hd_board_t *board) {
    hd_match_t *match = board->group->match;
    /* acq_rel: everybody's use of the board happens before its next use */
    if (atomic_fetch_sub_explicit(&board->to_leave, 1, memory_order_acq_rel) != 1) {
        return;
    }
    put_back(match, board);
}

void hd_match_title(const hd_board_t *board, uint64_t k, const char *type, char *text,
                    size_t size) {
    const hd_subset_t *set = board->subset;
    unsigned long long key = board->entry->key, number = k;
    char of[96] = "";
    if (set) {
        snprintf(of, sizeof(of), " of active set {start %llu, stride %lld, size %u}",
                 (unsigned long long)set->start, (long long)set->stride, set->n);
    }
    switch (board->entry->class) {
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
    }
}
