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

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MIN_SHARDS = 64, MAX_SHARDS = 4096, MOST_SEATS = 1 << 20, CHUNKS = 31 };

typedef hd_match_label_t label_t;

/* Boards are known by their numbers, from 1 on; 0: none. */
typedef struct hd_match_entry {
    label_t label;
    uint32_t n_joined;
    uint32_t next;      /* open exchanges of the shard, oldest first */
    uint32_t next_free; /* boards in the pool */
    uint64_t joined[];  /* bit per member */
} entry_t;

/* A lock of this process; or of several, one of whom may die while it holds it. */
typedef union guard {
    hd_lock_t lock;
    pthread_mutex_t mutex;
} guard_t;

typedef struct shard {
    alignas(HD_LINE_PAIR) guard_t guard;
    uint32_t head, tail;
} shard_t;

/* In a mapping: where a board lies there, and what it is. */
typedef struct seat {
    uint64_t at;
    uint32_t of_set, depth; /* of_set: members of an active set's; 0: all endpoints */
} seat_t;

/* What all mappings share. */
typedef struct table {
    alignas(HD_LINE_PAIR) guard_t guard; /* guards what follows, and the entries' next_free */
    uint32_t n_boards;
    uint32_t free, free_persistent;
    uint32_t free_of_size[]; /* entry i: of active sets with i + 1 members */
} table_t;

struct hd_match {
    hd_group_t *group;
    table_t *table;
    shard_t *shard;
    uint32_t n_shards;       /* a power of two */
    hd_ordinals_t *ordinals; /* by shard, under its guard; of spanning groups, else NULL */
    seat_t *seat;            /* by number; NULL: not in a mapping */
    hd_lock_t lock;    /* guards the making of boards of this mapping from their seats, and `own` */
    hd_ordinals_t own; /* in a mapping of a group with something outside: see name_here */
    /* this mapping's boards: number b is in chunk c, which has 2^c of them, at b - 2^c */
    _Atomic(_Atomic(hd_board_t *) *) chunk[CHUNKS];
};

/* --- memory ----------------------------------------------------------------------------------- */

static uint32_t shards_for(uint32_t n) {
    uint32_t shards = MIN_SHARDS;
    while (shards < n && shards < MAX_SHARDS) {
        shards *= 2;
    }
    return shards;
}

typedef struct layout {
    size_t table, shard, seat, bytes;
} layout_t;

static layout_t lay_out(uint32_t n) {
    size_t at = 0;
    layout_t l;
    l.table = hd_mapping_place(&at, sizeof(table_t) + n * sizeof(uint32_t), HD_LINE_PAIR);
    l.shard = hd_mapping_place(&at, shards_for(n) * sizeof(shard_t), HD_LINE_PAIR);
    l.seat = hd_mapping_place(&at, (MOST_SEATS + (size_t)1) * sizeof(seat_t), HD_LINE_PAIR);
    l.bytes = at;
    return l;
}

size_t hd_match_bytes(uint32_t n) {
    return lay_out(n).bytes;
}

/* By who has made the mapping, or is alone with a copy of it. */
static void init_mutexes(hd_match_t *match) {
    hd_mapping_init_mutex(&match->table->guard.mutex);
    for (uint32_t i = 0; i < match->n_shards; i++) {
        hd_mapping_init_mutex(&match->shard[i].guard.mutex);
    }
}

hd_match_t *hd_match_create(hd_group_t *group, uint8_t *at) {
    uint32_t n = group->n, n_shards = shards_for(n);
    hd_match_t *match = hd_alloc(HD_LINE_PAIR, sizeof(*match));
    if (!match) {
        return NULL;
    }
    match->group = group;
    match->n_shards = n_shards;
    if (at) {
        layout_t l = lay_out(n);
        match->table = (table_t *)(void *)(at + l.table);
        match->shard = (shard_t *)(void *)(at + l.shard);
        match->seat = (seat_t *)(void *)(at + l.seat);
        if (group->mapping.made) {
            init_mutexes(match);
        }
        return match;
    }
    match->table = hd_alloc(HD_LINE_PAIR, sizeof(table_t) + n * sizeof(uint32_t));
    match->shard = hd_alloc(HD_LINE_PAIR, n_shards * sizeof(*match->shard));
    match->ordinals =
        group->spanning ? hd_alloc(HD_LINE, n_shards * sizeof(*match->ordinals)) : NULL;
    if (!match->table || !match->shard || (group->spanning && !match->ordinals)) {
        hd_match_destroy(match);
        return NULL;
    }
    return match;
}

/* --- guards ----------------------------------------------------------------------------------- */

/* False: a process has died while it held it, and what is guarded may be half written: the team has
 * failed. */
static bool enter(hd_match_t *match, guard_t *guard) {
    if (!match->seat) {
        hd_lock(&guard->lock);
        return true;
    }
    int error = pthread_mutex_lock(&guard->mutex);
    if (error == EOWNERDEAD) { /* it is left inconsistent: nobody enters any more */
        pthread_mutex_unlock(&guard->mutex);
        error = ENOTRECOVERABLE;
    }
    if (error) {
        hd_group_poison(match->group, UCC_ERR_NO_RESOURCE);
    }
    return error == 0;
}

static void leave(const hd_match_t *match, guard_t *guard) {
    if (match->seat) {
        pthread_mutex_unlock(&guard->mutex);
    } else {
        hd_unlock(&guard->lock);
    }
}

/* --- boards by number ------------------------------------------------------------------------- */

static size_t entry_bytes(uint32_t n) {
    return sizeof(entry_t) + (n + 63) / 64 * sizeof(uint64_t);
}

static uint32_t chunk_of(uint32_t number) {
    return 31 - (uint32_t)__builtin_clz(number);
}

/* Where this mapping keeps the board of a number; NULL: nowhere yet. */
static _Atomic(hd_board_t *) *slot_of(const hd_match_t *match, uint32_t number) {
    uint32_t c = chunk_of(number);
    /* acquire: pairs with the release in keep */
    _Atomic(hd_board_t *) *chunk = atomic_load_explicit(&match->chunk[c], memory_order_acquire);
    return chunk ? &chunk[number - (UINT32_C(1) << c)] : NULL;
}

static hd_board_t *known(const hd_match_t *match, uint32_t number) {
    _Atomic(hd_board_t *) *slot = slot_of(match, number);
    /* acquire: pairs with the release in keep */
    return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

/* Room to keep the board of this number. False: no memory. Any thread, under no lock. */
static bool make_chunk(hd_match_t *match, uint32_t number) {
    uint32_t c = chunk_of(number);
    if (c >= CHUNKS || slot_of(match, number)) {
        return c < CHUNKS;
    }
    _Atomic(hd_board_t *) *none = NULL;
    _Atomic(hd_board_t *) *chunk = hd_alloc(HD_LINE, sizeof(hd_board_t *) << c);
    /* release: the zeroes; another thread's are as good */
    if (chunk && !atomic_compare_exchange_strong_explicit(
                     &match->chunk[c], &none, chunk, memory_order_release, memory_order_relaxed)) {
        hd_free((void *)chunk);
    }
    return slot_of(match, number) != NULL;
}

/* Under match->lock, or the table's guard where there is one mapping. */
static void keep(hd_match_t *match, uint32_t number, hd_board_t *board) {
    board->id = number;
    /* release: the board; pairs with known */
    atomic_store_explicit(slot_of(match, number), board, memory_order_release);
}

/* By who is alone: each board that this mapping has. */
static void for_each(const hd_match_t *match, void (*does)(hd_board_t *board)) {
    for (uint32_t c = 0; c < CHUNKS; c++) {
        /* relaxed, both: see above */
        _Atomic(hd_board_t *) *chunk = atomic_load_explicit(&match->chunk[c], memory_order_relaxed);
        for (uint32_t i = 0; chunk && i < UINT32_C(1) << c; i++) {
            hd_board_t *board = atomic_load_explicit(&chunk[i], memory_order_relaxed);
            if (board) {
                does(board);
            }
        }
    }
}

void hd_match_destroy(hd_match_t *match) {
    if (!match) {
        return;
    }
    for_each(match, hd_board_destroy);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        /* relaxed: the last reference */
        hd_free((void *)atomic_load_explicit(&match->chunk[c], memory_order_relaxed));
    }
    for (uint32_t i = 0; match->ordinals && i < match->n_shards; i++) {
        hd_ordinals_end(&match->ordinals[i]);
    }
    if (!match->seat) {
        hd_free(match->table);
        hd_free(match->shard);
    }
    hd_ordinals_end(&match->own);
    hd_free(match->ordinals);
    hd_free(match);
}

/* The trees of a board: those of the group, or of an active set's boards one of their own, which is
 * NULL if they are flat. */
typedef struct trees {
    const hd_tree_t *by_number, *by_topology;
    hd_tree_t *own;
} trees_t;

/* of_set: members of a board for active sets; 0: it is for all endpoints. False: no memory. */
static bool find_trees(const hd_group_t *group, uint32_t of_set, trees_t *trees) {
    *trees = (trees_t){group->board->tree[0], group->board->tree[1], NULL};
    if (!of_set) {
        return true;
    }
    ucc_status_t status =
        hd_plan_is_flat(group, of_set) ? UCC_OK : hd_tree_by_number(of_set, &trees->own);
    trees->by_number = trees->by_topology = trees->own;
    return status == UCC_OK;
}

/* Takes over the trees' own one. at: see hd_board_create. NULL: no memory. */
static hd_board_t *make_board(hd_group_t *group, uint32_t of_set, uint32_t depth, uint8_t *at,
                              const trees_t *trees) {
    uint32_t n = of_set ? of_set : group->n;
    hd_board_t *board =
        hd_board_create(group, n, depth, entry_bytes(n), trees->by_number, trees->by_topology, at);
    if (!board) {
        if (trees->own) {
            hd_tree_destroy(trees->own);
        }
        return NULL;
    }
    board->own_tree = trees->own;
    for (uint32_t i = 0; i < n; i++) {
        /* In a mapping, of this one's endpoints; of a set, those are others with each use. */
        bool mine = !at || of_set || group->board->member[i];
        if (mine && !hd_board_add_member(board, i)) {
            hd_board_destroy(board);
            return NULL;
        }
    }
    return board;
}

/* The board that lies at a seat, in this mapping. */
static hd_board_t *sit_down(hd_group_t *group, seat_t seat) {
    trees_t trees;
    return find_trees(group, seat.of_set, &trees)
               ? make_board(group, seat.of_set, seat.depth, group->mapping.base + seat.at, &trees)
               : NULL;
}

/* NULL: no memory (logged). */
static hd_board_t *board_of(hd_match_t *match, uint32_t number) {
    hd_board_t *board = known(match, number);
    if (board) {
        return board;
    }
    hd_assert(match->seat);
    hd_board_t *mine =
        make_chunk(match, number) ? sit_down(match->group, match->seat[number]) : NULL;
    if (!mine) {
        hd_error("no memory for an exchange that others have opened");
        return NULL;
    }
    hd_lock(&match->lock);
    board = known(match, number); /* another thread may have been first */
    if (!board) {
        keep(match, number, mine);
    }
    hd_unlock(&match->lock);
    if (board) {
        hd_board_destroy(mine);
    }
    return board ? board : mine;
}

/* For looking at it only: its board need not be known in this mapping. */
static entry_t *entry_of(const hd_match_t *match, uint32_t number) {
    hd_board_t *board = known(match, number);
    if (board) {
        return board->entry;
    }
    /* the entry's place does not depend on what comes after it: see lay_out in board.c */
    size_t at = sizeof(hd_head_t);
    return (entry_t *)(void *)(match->group->mapping.base + match->seat[number].at +
                               hd_mapping_place(&at, 0, HD_LINE_PAIR));
}

hd_board_t *hd_match_same_board(hd_group_t *group, const hd_board_t *board) {
    return board->entry ? board_of(group->match, board->id) : group->board;
}

/* --- the pool --------------------------------------------------------------------------------- */

/* Gives a new board the next number, by which all mappings know its seat. False: no memory, or no
 * number is left. */
static bool number_board(hd_match_t *match, hd_board_t *board, seat_t seat) {
    uint32_t number = 0;
    for (bool kept = false; !kept;) {
        /* relaxed: a guess, so that nothing is allocated under the guard */
        uint32_t next = __atomic_load_n(&match->table->n_boards, __ATOMIC_RELAXED) + 1;
        if ((match->seat && next > MOST_SEATS) || !make_chunk(match, next) ||
            !enter(match, &match->table->guard)) {
            return false;
        }
        number = match->table->n_boards + 1;
        kept = number == next;
        if (kept) {
            keep(match, number, board);
            __atomic_store_n(&match->table->n_boards, number, __ATOMIC_RELAXED); /* as above */
        }
        if (kept && match->seat) {
            match->seat[number] = seat;
        }
        leave(match, &match->table->guard);
    }
    return true;
}

/* Room for a new board in the mapping, if there is one. False: it has none left. */
static bool find_seat(hd_group_t *group, const trees_t *trees, seat_t *seat, uint8_t **at) {
    uint32_t n = seat->of_set ? seat->of_set : group->n;
    *at = NULL;
    if (!group->match->seat) {
        return true;
    }
    *at = hd_mapping_give(group, hd_board_bytes(group, n, seat->depth, entry_bytes(n),
                                                trees->by_number, trees->by_topology));
    seat->at = *at ? (uint64_t)(*at - group->mapping.base) : 0;
    return *at;
}

/* A new board, with its number. */
static hd_board_t *add_board(hd_group_t *group, uint32_t of_set, uint32_t depth) {
    seat_t seat = {.of_set = of_set, .depth = depth};
    trees_t trees;
    uint8_t *at;
    if (!find_trees(group, of_set, &trees)) {
        return NULL;
    }
    if (!find_seat(group, &trees, &seat, &at)) {
        if (trees.own) {
            hd_tree_destroy(trees.own);
        }
        return NULL;
    }
    hd_board_t *board = make_board(group, of_set, depth, at, &trees);
    if (board && !number_board(group->match, board, seat)) {
        hd_board_destroy(board);
        board = NULL;
    }
    return board;
}

/* n: members of an active set in this process; 0: all endpoints. */
static uint32_t *free_list(table_t *table, uint32_t n, uint32_t depth) {
    return n ? &table->free_of_size[n - 1] : depth > 1 ? &table->free_persistent : &table->free;
}

static void put_back(hd_match_t *match, hd_board_t *board) {
    if (!enter(match, &match->table->guard)) {
        return; /* lost, with the team */
    }
    uint32_t *list = free_list(match->table, board->head->subset.local, board->depth);
    board->entry->next_free = *list;
    *list = board->id;
    leave(match, &match->table->guard);
}

static hd_board_t *take_free(hd_match_t *match, uint32_t of_set, uint32_t depth) {
    if (!enter(match, &match->table->guard)) {
        return NULL;
    }
    uint32_t *list = free_list(match->table, of_set, depth), number = *list;
    hd_board_t *board = number ? board_of(match, number) : NULL;
    if (board) {
        *list = board->entry->next_free;
    }
    leave(match, &match->table->guard);
    return board;
}

/* A board nobody uses, ready for its next use. Under no lock: it may have to be made. */
static hd_board_t *take_board(hd_group_t *group, uint32_t of_set, uint32_t depth) {
    hd_board_t *board = take_free(group->match, of_set, depth);
    if (!board) {
        board = add_board(group, of_set, depth);
    }
    if (!board) {
        hd_error("no memory for an exchange of %u endpoints", of_set ? of_set : group->n);
        return NULL;
    }
    if (depth > 1 && board->head->use) {
        hd_board_reset(board);
    }
    board->head->use++;
    /* relaxed: handed on by the shard's lock */
    atomic_store_explicit(&board->head->to_leave, board->n, memory_order_relaxed);
    memset(board->entry->joined, 0, (board->n + 63) / 64 * sizeof(uint64_t));
    board->entry->n_joined = 0;
    board->entry->next = 0;
    return board;
}

/* --- joining ---------------------------------------------------------------------------------- */

static bool has_joined(const entry_t *entry, uint32_t me) {
    return entry->joined[me / 64] >> (me % 64) & 1;
}

static uint32_t shard_number(const hd_match_t *match, const label_t *label) {
    return (uint32_t)hd_match_hash(label) & (match->n_shards - 1);
}

/* Under the shard's lock: the oldest exchange with this label that `me` has not joined, and which
 * one comes before it; 0, both: there is none. */
typedef struct found {
    uint32_t number, before;
} found_t;

static found_t find(const hd_match_t *match, const shard_t *shard, const label_t *label,
                    uint32_t me) {
    found_t found = {shard->head, 0};
    while (found.number) {
        const entry_t *entry = entry_of(match, found.number);
        if (hd_match_same(&entry->label, label) && !has_joined(entry, me)) {
            return found;
        }
        found = (found_t){entry->next, found.number};
    }
    return found;
}

static void take_out(hd_match_t *match, shard_t *shard, found_t found) {
    uint32_t next = entry_of(match, found.number)->next;
    if (found.before) {
        entry_of(match, found.before)->next = next;
    } else {
        shard->head = next;
    }
    if (!next) {
        shard->tail = found.before;
    }
}

static bool recurs(const label_t *label) {
    return label->class == HD_MATCH_TAG || label->class == HD_MATCH_ACTIVE_SET;
}

/* By a member that is about to join, where several processes share the board and others are told
 * its exchange's name. Each process counts the uses that it takes part in: an exchange has members
 * in all the processes that tell its name, and each joins those of one label in their order, so
 * that all come to the same numbers. False: no memory (logged). */
static bool name_here(hd_match_t *match, hd_board_t *board) {
    const label_t *label = &board->entry->label;
    if (!match->group->outside || !recurs(label)) {
        return true;
    }
    hd_lock(&match->lock);
    if (board->named != board->head->use) {
        board->named = board->head->use;
        board->ordinal = hd_ordinals_next(&match->own, label);
    }
    bool named = board->ordinal != 0;
    hd_unlock(&match->lock);
    return named;
}

/* Under the shard's lock. NULL: no memory. */
static hd_board_t *join_locked(hd_match_t *match, shard_t *shard, found_t found, uint32_t me) {
    hd_board_t *board = board_of(match, found.number);
    if (!board || (match->seat && !name_here(match, board))) {
        return NULL;
    }
    entry_t *entry = board->entry;
    hd_assert(!has_joined(entry, me));
    hd_assert_lt(entry->n_joined, board->n);
    entry->joined[me / 64] |= (uint64_t)1 << (me % 64);
    if (++entry->n_joined == board->n) {
        take_out(match, shard, found);
    }
    if (match->seat && board->depth > 1) { /* whoever took the board knows only its own members */
        hd_board_reset_member(board, me);
    }
    return board;
}

/* Under the shard's lock: an exchange that nobody else has opened. It is not in the table yet. */
static bool name_exchange(hd_match_t *match, uint32_t shard, const label_t *label,
                          hd_board_t *board) {
    board->head->ordinal = recurs(label) ? hd_ordinals_next(&match->ordinals[shard], label) : 1;
    return board->head->ordinal != 0;
}

static void open_exchange(hd_match_t *match, shard_t *shard, const hd_board_t *board) {
    if (shard->tail) {
        entry_of(match, shard->tail)->next = board->id;
    } else {
        shard->head = board->id;
    }
    shard->tail = board->id;
}

/* There was none when the caller looked. */
static hd_board_t *join_or_open(hd_match_t *match, const label_t *label, uint32_t me,
                                hd_board_t *spare) {
    uint32_t number = shard_number(match, label);
    shard_t *shard = &match->shard[number];
    hd_board_t *unused = spare, *board = NULL;
    spare->entry->label = *label;
    spare->head->subset = label->subset;
    if (enter(match, &shard->guard)) {
        found_t found = find(match, shard, label, me); /* somebody may have opened it meanwhile */
        if (!found.number && (!match->ordinals || name_exchange(match, number, label, spare))) {
            found = (found_t){spare->id, shard->tail};
            open_exchange(match, shard, spare);
            unused = NULL;
        }
        board = found.number ? join_locked(match, shard, found, me) : NULL;
        leave(match, &shard->guard);
    }
    if (unused) {
        put_back(match, unused);
    }
    return board;
}

hd_board_t *hd_match_join(hd_group_t *group, const hd_subset_t *subset, hd_match_class_t class,
                          uint64_t key, uint32_t me) {
    label_t label = {.class = class, .key = key};
    hd_match_t *match = group->match;
    if (subset) {
        label.subset = *subset;
    }
    shard_t *shard = &match->shard[shard_number(match, &label)];
    if (!enter(match, &shard->guard)) {
        return NULL;
    }
    found_t found = find(match, shard, &label, me);
    hd_board_t *board = found.number ? join_locked(match, shard, found, me) : NULL;
    leave(match, &shard->guard);
    if (found.number) {
        return board;
    }
    hd_board_t *spare = take_board(group, label.subset.local,
                                   class == HD_MATCH_PERSISTENT ? group->persistent_depth : 1);
    return spare ? join_or_open(match, &label, me, spare) : NULL;
}

bool hd_match_has_joined(const hd_board_t *board, uint32_t i) {
    const entry_t *entry = board->entry;
    hd_match_t *match = board->group->match;
    shard_t *shard = &match->shard[shard_number(match, &entry->label)];
    bool inside = enter(match, &shard->guard), joined = has_joined(entry, i);
    if (inside) {
        leave(match, &shard->guard);
    }
    return joined;
}

void hd_match_unlock(hd_match_t *match) {
    for (uint32_t i = 0; i < match->n_shards && !match->seat; i++) {
        hd_lock_forget(&match->shard[i].guard.lock);
    }
    if (match->seat) {
        init_mutexes(match);
    } else {
        hd_lock_forget(&match->table->guard.lock);
    }
    hd_lock_forget(&match->lock);
    for_each(match, hd_board_unlock);
}

void hd_match_leave(hd_board_t *board) {
    hd_match_t *match = board->group->match;
    /* acq_rel: everybody's use of the board happens before its next use */
    uint32_t before = atomic_fetch_sub_explicit(&board->head->to_leave, 1, memory_order_acq_rel);
    /* a child's copy of a mapping is empty */
    hd_assert((before > 0 && before <= board->n) || hd_group_is_inherited(board->group));
    if (before == 1) {
        hd_assert_eq(board->entry->n_joined, board->n); /* who has not joined can't leave */
        put_back(match, board);
    }
}

void hd_match_title(const hd_board_t *board, uint64_t k, const char *type, char *text,
                    size_t size) {
    const hd_subset_t *set = &board->head->subset;
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
    bool here = board->group->match->seat && board->group->outside; /* see name_here */
    uint64_t counted = !here ? board->head->ordinal : recurs(label) ? board->ordinal : 1;
    uint64_t ordinal = label->class == HD_MATCH_PERSISTENT ? op->place.k : counted;
    return (hd_exchange_name_t){label->class, label->key, ordinal,
                                board->head->subset.n ? &board->head->subset : NULL};
}
