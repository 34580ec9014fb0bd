/* waits.c: for whom members of this process wait, of a group that several processes share, for who
 * asks. In shared memory stands who has published which number, and so who is missing: that is
 * looked at when somebody asks, by whatever thread, whether those that wait are awake or not.
 *
 * What does not stand there, whoever waits for long notes when it looks after its operations
 * (stall.c): the one member that has the data, an exchange's name beside the main board, and a post
 * for which there is no place yet. A note counts for a while only, as nobody takes it back.
 */
#include "shm/internal.h"

#include <string.h>

enum { NOTES = 16, TITLE = 192, MOST = 16 };

typedef struct note {
    const hd_board_t *board; /* NULL: there is none */
    uint64_t k;
    uint64_t seen;   /* ticks: when it was last so */
    uint32_t member; /* that waits, of the group */
    uint32_t me;     /* the same, of the board */
    uint32_t root;   /* the one of the board that it waits for; UINT32_MAX: for all */
    bool queued;     /* it has no place in the ring yet */
    hd_subset_t set; /* whose members the board's are; n is 0: the group's */
    char title[TITLE];
} note_t;

struct hd_waits {
    note_t note[NOTES];
};

/* --- noting ----------------------------------------------------------------------------------- */

/* Under the lock: the operation's own note, or the oldest one. */
static note_t *note_of(hd_waits_t *waits, const hd_place_t *place) {
    note_t *oldest = &waits->note[0];
    for (uint32_t i = 0; i < NOTES; i++) {
        note_t *note = &waits->note[i];
        if (note->board == place->board && note->k == place->k && note->me == place->me) {
            return note;
        }
        oldest = note->seen < oldest->seen ? note : oldest;
    }
    return oldest;
}

void hd_waits_note(const hd_op_t *op, uint32_t root, uint64_t now) {
    hd_group_t *group = op->group;
    const hd_place_t *place = &op->place;
    bool queued = op->phase == HD_PHASE_MATCH;
    if (!hd_group_spans_processes(group) || !place->board || op->cancels ||
        (!queued && op->phase != HD_PHASE_ARRIVE && op->phase != HD_PHASE_LOCAL)) {
        return;
    }
    note_t note = {.board = place->board,
                   .k = place->k,
                   .seen = now,
                   .member = hd_op_own_member(op),
                   .me = place->me,
                   .root = root,
                   .queued = queued,
                   .set = place->board->head->subset};
    (void)hd_op_title(op, hd_op_type_name(op), note.title, sizeof(note.title));
    hd_waits_t *waits = NULL;
    /* acquire: its zeroes; pairs with the exchange below */
    if (!atomic_load_explicit(&group->waits, memory_order_acquire)) {
        hd_waits_t *made = hd_alloc(HD_LINE, sizeof(*made));
        /* release: the zeroes; another thread's are as good */
        if (made && !atomic_compare_exchange_strong_explicit(
                        &group->waits, &waits, made, memory_order_release, memory_order_relaxed)) {
            hd_free(made);
        }
    }
    waits = atomic_load_explicit(&group->waits, memory_order_acquire); /* as above */
    if (waits) {
        hd_lock(&group->waits_lock);
        *note_of(waits, place) = note;
        hd_unlock(&group->waits_lock);
    }
}

void hd_waits_unlock(hd_group_t *group) {
    hd_lock_forget(&group->waits_lock);
}

void hd_waits_free(hd_group_t *group) {
    hd_free(atomic_load_explicit(&group->waits, memory_order_relaxed)); /* the last reference */
}

/* --- telling ---------------------------------------------------------------------------------- */

typedef struct teller {
    const hd_group_t *group;
    hd_waits_t notes; /* a copy, of what counts */
    bool *awaited;    /* by member of the group */
    hd_group_wait_fn say;
    void *to;
} teller_t;

static void copy_notes(teller_t *t) {
    enum { SLACK_MS = 500 };
    hd_group_t *group = (hd_group_t *)(uintptr_t)t->group; /* whose lock is taken */
    /* acquire: pairs with hd_waits_note */
    hd_waits_t *waits = atomic_load_explicit(&group->waits, memory_order_acquire);
    uint64_t every = group->stall ? group->stall : group->timeout, now = hd_ticks();
    uint64_t old = every / 8 + SLACK_MS * 1000 * hd_ticks_per_us; /* looks are twice as often */
    t->notes = (hd_waits_t){0};
    if (waits) {
        hd_lock(&group->waits_lock);
        t->notes = *waits;
        hd_unlock(&group->waits_lock);
    }
    for (uint32_t i = 0; i < NOTES; i++) {
        note_t *note = &t->notes.note[i];
        note->board = now > note->seen && now - note->seen > old ? NULL : note->board;
    }
}

static bool is_here(const hd_group_t *group, uint32_t e) {
    return group->home_of[e] == group->mapping.number;
}

static uint64_t consumed_of(const hd_board_t *board, uint32_t i) {
    /* relaxed: only told */
    return atomic_load_explicit(&board->shared[i]->consumed, memory_order_relaxed);
}

/* Has member i published number k, or a later one in its place? */
static bool has_come(const hd_board_t *board, uint32_t i, uint64_t k) {
    /* relaxed: only told */
    return atomic_load_explicit(&hd_board_lane(board, i, k)->seq, memory_order_relaxed) >= k;
}

static void await(const teller_t *t, const hd_subset_t *set, uint32_t i) {
    uint32_t e = hd_set_member(t->group, set, i);
    if (e < t->group->n) {
        t->awaited[e] = true;
    }
}

/* Begins anew with those that are awaited. */
static void clear(const teller_t *t) {
    memset(t->awaited, 0, t->group->n * sizeof(*t->awaited));
}

static bool say(const teller_t *t, const char *title, const char *what) {
    bool any = memchr(t->awaited, true, t->group->n * sizeof(*t->awaited));
    if (any) {
        const hd_group_wait_t wait = {title, what, t->awaited};
        t->say(t->to, &wait);
    }
    return any;
}

/* Is a member of this process there, and one not? Then all wait for that. */
static bool say_forming(const teller_t *t) {
    const hd_group_t *group = t->group;
    bool here = false, lacks = false;
    clear(t);
    for (uint32_t e = 0; e < group->n; e++) {
        bool joined = hd_board_peer(group->board, e);
        here = here || (joined && is_here(group, e));
        lacks = lacks || !joined;
        t->awaited[e] = !joined;
    }
    if (lacks && here) {
        (void)say(t, "forming", ", to join");
    }
    return lacks;
}

/* The oldest number that member e has published and is not through with; 0: there is none. */
static uint64_t number_of(const hd_board_t *main, uint32_t e) {
    uint64_t k = consumed_of(main, e) + 1;
    return hd_lane_is_there(hd_board_lane(main, e, k), k) ? k : 0;
}

/* The one member that has the data for member e in number k; UINT32_MAX: all count. */
static uint32_t root_of(const teller_t *t, uint64_t k, uint32_t e) {
    for (uint32_t i = 0; i < NOTES; i++) {
        const note_t *note = &t->notes.note[i];
        if (note->board == t->group->board && note->k == k && note->member == e && !note->queued) {
            return note->root;
        }
    }
    return UINT32_MAX;
}

/* All have come: who works on it yet? */
static void await_workers(const teller_t *t) {
    const hd_board_t *main = t->group->board;
    for (uint32_t i = 0; i < t->group->n; i++) {
        /* relaxed: only told */
        t->awaited[i] = atomic_load_explicit(&main->shared[i]->at_work, memory_order_relaxed) != 0;
    }
}

/* Number k of the main board, for all of this process's that are in it. */
static void say_number(const teller_t *t, uint64_t k) {
    const hd_group_t *group = t->group;
    const hd_board_t *main = group->board;
    char title[TITLE];
    uint8_t type = HD_N_TYPES;
    clear(t);
    for (uint32_t e = 0; e < group->n; e++) {
        if (!is_here(group, e) || number_of(main, e) != k) {
            continue;
        }
        uint32_t root = root_of(t, k, e);
        type = hd_lane_type(hd_board_lane(main, e, k));
        for (uint32_t i = 0; i < group->n; i++) {
            bool counts = root == UINT32_MAX || root == i;
            t->awaited[i] |= i != e && counts && !has_come(main, i, k);
        }
        if (root == UINT32_MAX) { /* so it is for all others */
            break;
        }
    }
    if (type < HD_N_TYPES) {
        snprintf(title, sizeof(title), "%s %llu", hd_type_name(type), (unsigned long long)k);
        if (!say(t, title, "")) {
            await_workers(t);
            (void)say(t, title, ", to finish a chunk");
        }
    }
}

static void say_numbers(const teller_t *t) {
    const hd_group_t *group = t->group;
    uint64_t said[MOST];
    uint32_t n = 0;
    for (uint32_t e = 0; e < group->n && n < MOST; e++) {
        uint64_t k = is_here(group, e) ? number_of(group->board, e) : 0;
        uint32_t i = 0;
        while (i < n && said[i] != k) {
            i++;
        }
        if (k && i == n) {
            said[n++] = k;
            say_number(t, k);
        }
    }
}

static void await_of(const teller_t *t, const note_t *note) {
    const hd_board_t *board = note->board;
    for (uint32_t i = 0; i < board->n; i++) {
        bool counts = i != note->me && (note->root == UINT32_MAX || note->root == i);
        bool late = note->queued ? consumed_of(board, i) + board->depth < note->k
                                 : !has_come(board, i, note->k);
        if (counts && late) {
            await(t, &note->set, i);
        }
    }
}

/* What the main board does not show: each exchange once, however many members have noted it. */
static void say_notes(const teller_t *t) {
    const note_t *all = t->notes.note;
    for (uint32_t i = 0; i < NOTES; i++) {
        bool shown = all[i].board == t->group->board && !all[i].queued;
        for (uint32_t j = 0; j < i && !shown; j++) {
            shown = all[j].board == all[i].board && all[j].k == all[i].k;
        }
        if (!all[i].board || shown) {
            continue;
        }
        clear(t);
        for (uint32_t j = i; j < NOTES; j++) {
            if (all[j].board == all[i].board && all[j].k == all[i].k) {
                await_of(t, &all[j]);
            }
        }
        (void)say(t, all[i].title, all[i].queued ? ", to end what came before" : "");
    }
}

void hd_group_waits(const hd_group_t *group, hd_group_wait_fn say_one, void *to) {
    teller_t t = {.group = group, .say = say_one, .to = to};
    t.awaited = hd_alloc(HD_LINE, group->n * sizeof(*t.awaited));
    if (!t.awaited) {
        return;
    }
    copy_notes(&t);
    if (!say_forming(&t)) {
        say_numbers(&t);
        say_notes(&t);
    }
    hd_free(t.awaited);
}
