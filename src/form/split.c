/* split.c: teams that all endpoints of a parent make together, each saying whether it takes part;
 * here only the part that a parent of several processes needs. form.c and derive.c call it.
 *
 * The parent's endpoints in this process meet (threads/meet.h). Then each process tells the others
 * which of its endpoints take part: a SPLIT, an allgather among the processes on the parent's own
 * network team. The endpoint that completes the meeting here, or fails it, starts the split. So all
 * know the new team: its span, and a wire id that follows from the parent's and the number of the
 * split. Those who take part leave the parent's meeting for one of their own, and from there on the
 * team forms as any other.
 *
 * The endpoint that completes the meeting drives the exchange, even if it takes no part in the
 * team: its handle is being formed until its process has told and heard all. (Messages go from each
 * process to each: none depends on a third.) If the handle is destroyed before, it stays for a
 * while (hd_form_split_lingers), and the parent's group stays for as long as the exchange takes. If
 * after that nobody here is left to go on, the parent fails (hd_form_fail_parent).
 */
#include "form/internal.h"

#include "core/hash.h"

#include "core/fork.h"

/* One such exchange. It belongs to the meeting, and to its leg while that is under way. */
typedef struct hd_split {
    hd_leg_t leg;            /* must stay first */
    hd_crossing_t *crossing; /* the parent's; its group is kept while the leg is under way */
    _Atomic uint32_t refs;   /* one for the meeting, one for the leg */
    _Atomic int32_t status;  /* UCC_INPROGRESS; then how the exchange ended */
    /* endpoints of this process that it has told the others of, and that have not given up */
    _Atomic uint32_t promised;
    size_t words;          /* of each process: its status, then a bit for each of its endpoints */
    uint64_t *word;        /* the first word of process 0; the others' follow */
    hd_net_piece_t *piece; /* by process: its words, as one piece of data */
    hd_net_data_t *data;   /* by process: its piece */
} hd_split_t;

_Static_assert(offsetof(hd_split_t, leg) == 0, "a leg is known as its split");

/* --- its memory ------------------------------------------------------------------------------- */

static void unref(hd_split_t *split) {
    /* acq_rel: what the holder of either reference did happens before the end */
    uint32_t refs = atomic_fetch_sub_explicit(&split->refs, 1, memory_order_acq_rel);
    hd_assert(refs == 1 || refs == 2);
    if (refs == 1) {
        hd_free(split);
    }
}

/* The meeting gives its reference back. */
static void drop_split(void *object) {
    unref(object);
}

/* Allocates a split with all its arrays in one block. NULL: no memory. */
static hd_split_t *allocate(const hd_span_t *span) {
    uint32_t n = span->processes, most = 0;
    for (uint32_t p = 0; p < n; p++) {
        most = hd_span_count(span, p) > most ? hd_span_count(span, p) : most;
    }
    size_t words = 1 + (most + 63) / 64, bytes = words * sizeof(uint64_t);
    hd_split_t *split = hd_alloc(
        HD_LINE, sizeof(*split) + n * (sizeof(*split->data) + sizeof(*split->piece) + bytes));
    if (!split) {
        return NULL;
    }
    split->words = words;
    split->data = (hd_net_data_t *)(void *)(split + 1);
    split->piece = (hd_net_piece_t *)(void *)(split->data + n);
    split->word = (uint64_t *)(void *)(split->piece + n);
    for (uint32_t p = 0; p < n; p++) {
        split->piece[p] = (hd_net_piece_t){split->word + p * words, bytes};
        split->data[p] = (hd_net_data_t){.piece = &split->piece[p], .n = 1, .bytes = bytes};
    }
    return split;
}

/* --- the exchange ----------------------------------------------------------------------------- */

/* The leg's step, under its lane's lock: true when the leg is over, and may be gone. */
static bool step_split(hd_leg_t *leg) {
    hd_split_t *split = (hd_split_t *)(void *)leg;
    hd_crossing_t *crossing = split->crossing;
    ucc_status_t failed = hd_group_poisoned(crossing->group);
    ucc_status_t status = failed == UCC_OK ? hd_leg_go(leg) : hd_leg_cancel(leg, failed);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    /* release: what has come; pairs with the acquire in hd_form_split */
    atomic_store_explicit(&split->status, (int32_t)status, memory_order_release);
    unref(split);
    hd_span_defer_unref(crossing);
    return true;
}

typedef struct starting {
    ucc_team_h team;
    /* what this process tells of itself; unless UCC_OK, none of its endpoints takes part */
    ucc_status_t status;
} starting_t;

/* Writes which endpoints of this process take part: none, if something is wrong. */
static void fill(hd_split_t *split, const starting_t *starting) {
    const hd_span_t *span = split->crossing->span;
    const hd_meeting_t *meeting = starting->team->forming->meeting;
    uint64_t *word = split->word + span->mine * split->words;
    uint32_t promised = 0;
    word[0] = (uint64_t)(int64_t)starting->status;
    for (uint32_t i = 0; starting->status == UCC_OK && i < hd_span_count(span, span->mine); i++) {
        bool included = hd_meeting_included(meeting, i);
        word[1 + i / 64] |= (uint64_t)included << (i % 64);
        promised += included;
    }
    /* relaxed: the meeting's lock hands it on */
    atomic_store_explicit(&split->promised, promised, memory_order_relaxed);
}

/* Makes the split and starts its exchange: once per meeting (hd_meeting_object). NULL: no
 * memory. */
static void *make_split(void *arg) {
    const starting_t *starting = arg;
    const hd_forming_t *f = starting->team->forming;
    hd_crossing_t *crossing = hd_group_crossing(f->parent);
    hd_split_t *split = allocate(crossing->span);
    if (!split) {
        return NULL;
    }
    hd_leg_t *leg = &split->leg;
    split->crossing = crossing;
    fill(split, starting);
    leg->team = crossing->team;
    leg->key = (hd_net_key_t){.class = HD_NET_FORMING, .number = f->split};
    leg->call = (hd_net_call_t){.type = HD_ALLGATHERV,
                                .n = crossing->span->processes,
                                .me = crossing->span->mine,
                                .give = &split->data[crossing->span->mine],
                                .take = split->data};
    leg->plan = (hd_net_plan_t){.algorithm = HD_NET_DIRECT};
    hd_assert_eq(hd_net_scratch(&leg->call, &leg->plan), 0);
    leg->step = step_split;
    leg->owner = split;
    /* relaxed, both: hd_leg_start, and the meeting's lock, hand them on */
    atomic_store_explicit(&split->refs, 2, memory_order_relaxed);
    atomic_store_explicit(&split->status, UCC_INPROGRESS, memory_order_relaxed);
    hd_home_pin(&f->parent->home);
    hd_leg_start(leg);
    return split;
}

/* Returns the split of a meeting that is complete, or has failed with `status`. NULL: no memory;
 * then the parent has failed. */
static hd_split_t *split_of(ucc_team_h team, ucc_status_t status) {
    hd_forming_t *f = team->forming;
    starting_t starting = {team, status};
    hd_split_t *split = hd_meeting_object(f->meeting, make_split, &starting, drop_split);
    if (!split) {
        hd_form_fail_parent(team, UCC_ERR_NO_MEMORY);
    }
    return split;
}

/* --- the team --------------------------------------------------------------------------------- */

/* Returns whether an endpoint of the parent takes part. */
static bool is_in(const hd_split_t *split, uint32_t endpoint) {
    const hd_span_t *span = split->crossing->span;
    uint32_t local = span->local_of[endpoint];
    const uint64_t *word = split->word + span->process_of[endpoint] * split->words;
    return word[1 + local / 64] >> (local % 64) & 1;
}

/* The exchange is over. Returns UCC_OK, or why a process could not take part. */
static ucc_status_t read_words(const hd_split_t *split) {
    for (uint32_t p = 0; p < split->crossing->span->processes; p++) {
        ucc_status_t status = (ucc_status_t)(int64_t)split->word[p * split->words];
        if (status != UCC_OK) {
            return status < 0 ? status : UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

/* Sets this endpoint's number, the team's size, and, if the team has several processes, what it
 * needs to cross them. */
static ucc_status_t take_members(ucc_team_h team, const hd_split_t *split) {
    hd_forming_t *f = team->forming;
    const hd_crossing_t *crossing = split->crossing;
    uint64_t *list = hd_alloc(HD_LINE, crossing->span->n * sizeof(*list));
    uint32_t n = 0, me = 0;
    if (!list) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < crossing->span->n; i++) {
        me = i == f->parent_ep ? n : me;
        if (is_in(split, i)) {
            list[n++] = i;
        }
    }
    ucc_status_t status = hd_form_take_list(team, crossing->span, list, n, me);
    if (status == UCC_OK && f->roll.span) {
        f->wire = hd_hash_mix(hd_hash_mix(crossing->wire, 0x5b17), f->split);
        status = hd_form_cross(team, crossing->span, list, NULL, crossing->identity);
    }
    f->roll.mine.label = me;
    hd_free(list);
    return status;
}

/* Leaves the parent's meeting for that of the endpoints of this process that take part. An endpoint
 * that fails to enter the latter has failed the former before it tries again: whoever is in the
 * latter by then finds either that the former has failed, or the endpoint there. */
static ucc_status_t go_on(ucc_team_h team, const hd_split_t *split) {
    hd_forming_t *f = team->forming;
    hd_meeting_t *before = f->meeting;
    uint32_t n = 0, me = 0;
    for (uint32_t i = 0; i < f->meets; i++) {
        me = i == f->participant ? n : me;
        n += hd_meeting_included(before, i);
    }
    hd_meet_key_t key = {
        .kind = HD_MEET_SPLIT, .scope = f->parent->serial, .id = f->split, .list = {{n, 1}}};
    ucc_status_t status = hd_form_start_meeting(team, &key, n, me, true);
    if (status != UCC_OK) {
        return status;
    }
    status = take_members(team, split);
    if (status != UCC_OK) {
        hd_form_fail_parent(team, status);
    }
    f->split_of = 0;
    /* seq_cst: pairs with that in hd_form_give_up_split */
    atomic_thread_fence(memory_order_seq_cst);
    if (hd_meeting_failed(before) != UCC_OK) {
        hd_meeting_fail(f->meeting, hd_meeting_failed(before));
    }
    hd_meeting_release(before, false);
    return status;
}

ucc_status_t hd_form_split(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!hd_meeting_is_complete(f->meeting)) {
        ucc_status_t failed = hd_form_meeting_status(team);
        return failed == UCC_OK ? UCC_INPROGRESS : failed;
    }
    /* From now on the other processes may hear that this process's endpoints come. So whatever
     * becomes of the meeting, the endpoints here go on to the next one, where they learn of it and
     * can tell the other processes. */
    hd_split_t *split = split_of(team, UCC_OK);
    if (!split) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_net_pump(split->crossing->net);
    /* acquire: pairs with the release in step_split */
    ucc_status_t status = (ucc_status_t)atomic_load_explicit(&split->status, memory_order_acquire);
    hd_span_drain();
    if (f->excluded && status != UCC_INPROGRESS) {
        hd_form_drop(team);
        team->state = HD_TEAM_EXCLUDED;
        return UCC_OK;
    }
    if (status == UCC_OK && (status = read_words(split)) != UCC_OK) {
        hd_error("team from a parent: another endpoint has failed to take part: %s",
                 ucc_status_string(status));
    }
    return status == UCC_OK ? go_on(team, split) : status;
}

void hd_form_give_up_split(ucc_team_h team, ucc_status_t why) {
    hd_forming_t *f = team->forming;
    if (f->forks != hd_forks()) {
        return;
    }
    hd_split_t *split = split_of(team, why);
    if (!split || f->excluded) {
        return;
    }
    /* seq_cst: either this endpoint sees that the exchange is over, or one that goes on sees that
     * the meeting has failed; pairs with the fence in go_on */
    atomic_thread_fence(memory_order_seq_cst);
    /* acquire: pairs with the release in step_split */
    ucc_status_t status = (ucc_status_t)atomic_load_explicit(&split->status, memory_order_acquire);
    bool told = true;
    if (status == UCC_INPROGRESS) { /* one that goes on finds the meeting failed, and tells */
        /* relaxed, both: only the count matters */
        told = atomic_load_explicit(&split->promised, memory_order_relaxed) == 0 ||
               atomic_fetch_sub_explicit(&split->promised, 1, memory_order_relaxed) > 1;
    } else if (status == UCC_OK && read_words(split) == UCC_OK) {
        /* the others believe that this endpoint comes; whoever has failed the next meeting, which
         * it may have found out already, has told them */
        told = !f->uncounted || go_on(team, split) == UCC_OK || !f->uncounted;
    }
    if (!told) {
        hd_form_fail_parent(team, why);
    }
}

bool hd_form_split_lingers(ucc_team_h team) {
    enum { PATIENCE_MS = 2000 };
    hd_forming_t *f = team->forming;
    if (f->forks != hd_forks()) {
        return false;
    }
    ucc_status_t why = hd_meeting_is_complete(f->meeting) ? UCC_OK : UCC_ERR_NOT_FOUND;
    if (why != UCC_OK) {
        hd_meeting_fail(f->meeting, why);
    }
    hd_split_t *split = split_of(team, why);
    uint64_t now = hd_ticks();
    f->since = f->since ? f->since : now;
    if (split) {
        hd_net_pump(split->crossing->net);
    }
    /* relaxed: nothing is read that it publishes */
    bool lingers = split &&
                   atomic_load_explicit(&split->status, memory_order_relaxed) == UCC_INPROGRESS &&
                   now - f->since < PATIENCE_MS * 1000 * hd_ticks_per_us;
    hd_span_drain();
    return lingers;
}
