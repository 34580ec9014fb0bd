/* split.c: teams that all endpoints of a parent make together, each saying whether it takes part;
 * here only the part that a parent of several processes needs. form.c and derive.c call it.
 *
 * The parent's endpoints in this process meet (threads/meet.h). Then each process tells the others
 * which of its endpoints take part: a SPLIT, an allgather among the processes on the parent's own
 * network team. Whoever completes the meeting here, or fails it, starts the split, even if it takes
 * no part in the team. So all know the new team: its span, and a wire id that follows from the
 * parent's and the number of the split. From there on the team forms as any other, by the same
 * meeting.
 *
 * Handles are being formed until their process has told and heard all. (Messages go from each
 * process to each: none depends on a third.) If a handle is destroyed before, it stays for a while
 * (hd_form_split_lingers), and the parent's group stays for as long as the exchange takes. If after
 * that nobody here is left to go on, the parent fails (hd_form_fail_parent).
 */
#include "form/internal.h"

#include "core/fork.h"
#include "core/hash.h"

/* One such exchange. It belongs to the meeting, and to its leg while that is under way. */
typedef struct hd_split {
    hd_leg_t leg;            /* must stay first */
    hd_crossing_t *crossing; /* the parent's; its group is kept while the leg is under way */
    _Atomic uint32_t refs;   /* one for the meeting, one for the leg */
    _Atomic int32_t status;  /* UCC_INPROGRESS; then how the exchange ended */
    /* endpoints of this process that it has told the others of, and that have not given up */
    _Atomic uint32_t promised;
    size_t words;          /* of each process: its status, then a bit for each endpoint */
    uint64_t *word;        /* the first word of process 0; the others' follow */
    hd_net_piece_t *piece; /* by process: its words, as one piece of data */
    hd_net_data_t *data;   /* by process: its piece */
} hd_split_t;

_Static_assert(offsetof(hd_split_t, leg) == 0, "a leg is known as its split");

/* --- the exchange ----------------------------------------------------------------------------- */

static void unref(void *object) {
    hd_split_t *split = object;
    /* acq_rel: what the holder of either reference did happens before the end */
    uint32_t refs = atomic_fetch_sub_explicit(&split->refs, 1, memory_order_acq_rel);
    hd_assert(refs == 1 || refs == 2);
    if (refs == 1) {
        hd_free(split);
    }
}

/* Allocates a split with all its arrays in one block. NULL: no memory. */
static hd_split_t *allocate(const hd_span_t *span) {
    uint32_t n = span->processes;
    size_t words = 1 + (span->n + 63) / 64, bytes = words * sizeof(uint64_t);
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

/* The leg's step, under its lane's lock. */
static bool step_split(hd_leg_t *leg) {
    hd_split_t *split = (hd_split_t *)(void *)leg;
    hd_crossing_t *crossing = split->crossing;
    ucc_status_t failed = hd_group_poisoned(crossing->group);
    ucc_status_t status = failed == UCC_OK ? hd_leg_go(leg) : hd_leg_cancel(leg, failed);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    /* release: what has come; pairs with the acquire in status_of */
    atomic_store_explicit(&split->status, (int32_t)status, memory_order_release);
    unref(split);
    hd_span_defer_unref(crossing);
    return true;
}

/* Writes which endpoints of this process take part: none, if their meeting has failed. */
static void fill(hd_split_t *split, const hd_meeting_t *meeting) {
    const hd_span_t *span = split->crossing->span;
    uint64_t *word = split->word + span->mine * split->words;
    uint32_t promised = 0;
    bool complete = hd_meeting_is_complete(meeting);
    word[0] = (uint64_t)(int64_t)(complete ? UCC_OK : hd_meeting_failed(meeting));
    for (uint32_t i = 0; complete && i < hd_span_count(span, span->mine); i++) {
        uint32_t endpoint = hd_span_endpoint(span, span->mine, i);
        bool included = hd_meeting_included(meeting, i);
        word[1 + endpoint / 64] |= (uint64_t)included << (endpoint % 64);
        promised += included;
    }
    /* relaxed: the meeting's lock hands it on */
    atomic_store_explicit(&split->promised, promised, memory_order_relaxed);
}

/* Makes the split and starts its exchange: once per meeting. NULL: no memory. */
static void *make_split(void *forming) {
    const hd_forming_t *f = forming;
    hd_crossing_t *crossing = hd_group_crossing(f->parent);
    hd_split_t *split = allocate(crossing->span);
    if (!split) {
        return NULL;
    }
    hd_leg_t *leg = &split->leg;
    split->crossing = crossing;
    fill(split, f->meeting);
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
    hd_crossing_hold(crossing);
    hd_leg_start(leg);
    return split;
}

/* Returns the split of a meeting that is complete, or has failed. NULL: no memory; then the parent
 * has failed. */
static hd_split_t *split_of(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_split_t *split = hd_meeting_prelude(f->meeting, make_split, f, unref);
    if (!split) {
        hd_form_fail_parent(team, UCC_ERR_NO_MEMORY);
    }
    return split;
}

/* Drives the exchange on, and returns how it stands. */
static ucc_status_t drive(const hd_split_t *split) {
    hd_net_pump(split->crossing->net);
    /* acquire: pairs with the release in step_split */
    ucc_status_t status = (ucc_status_t)atomic_load_explicit(&split->status, memory_order_acquire);
    hd_span_drain();
    return status;
}

static bool has_not_said(const void *birth, uint32_t i) {
    return !hd_birth_hears(birth, i);
}

bool hd_form_split_awaits(const ucc_team_h team, hd_text_t *text) {
    hd_forming_t *f = team->forming;
    if (f->birth) {
        bool any = hd_text_numbers(text, f->parent->n, has_not_said, f->birth) > 0;
        hd_group_say_processes(f->parent, text, has_not_said, f->birth);
        return any;
    }
    hd_split_t *split = hd_meeting_is_complete(f->meeting)
                            ? hd_meeting_prelude(f->meeting, make_split, f, unref)
                            : NULL;
    return split && hd_net_leg_awaits(split->crossing->team, &split->leg, text);
}

/* --- the team --------------------------------------------------------------------------------- */

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

/* Names the team of a split. */
static uint64_t name_of(uint64_t parent, uint64_t split) {
    return hd_hash_mix(hd_hash_mix(parent, 0x5b17), split);
}

/* Takes the list of those who take part. */
static ucc_status_t take_members(ucc_team_h team, const hd_split_t *split) {
    hd_forming_t *f = team->forming;
    const hd_crossing_t *crossing = split->crossing;
    const hd_span_t *span = crossing->span;
    uint64_t *endpoint = hd_alloc(HD_LINE, span->n * sizeof(*endpoint));
    uint32_t n = 0, me = 0;
    if (!endpoint) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < span->n; i++) {
        const uint64_t *word = split->word + span->process_of[i] * split->words;
        me = i == team->ep ? n : me;
        if (word[1 + i / 64] >> (i % 64) & 1) {
            endpoint[n++] = i;
        }
    }
    hd_list_t list = hd_list_of(endpoint, n);
    hd_reach_t reach = hd_form_reach_of(f->parent);
    f->wire = name_of(crossing->wire, f->split);
    ucc_status_t status = hd_form_take_list(team, &reach, &list, me);
    hd_free(endpoint);
    return status;
}

/* All know who takes part: goes on to the making of the group. */
static ucc_status_t go_on(ucc_team_h team, const hd_split_t *split) {
    hd_forming_t *f = team->forming;
    f->step = STEP_MEET;
    ucc_status_t status = take_members(team, split);
    if (status != UCC_OK) {
        hd_form_fail_parent(team, status);
    } else if (f->scope) {
        f->step = STEP_SHARE;
    }
    return status;
}

/* --- of a parent whose processes share memory ------------------------------------------------- */

static void leave_birth(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_birth_leave(f->parent, f->birth, f->in_parent);
    f->birth = NULL;
}

/* It takes no part, and has said so; but the caller may now end the parent, and if that has gone
 * ahead of other processes, they would not find what it has said. */
static ucc_status_t split_without(ucc_team_h team) {
    if (hd_kin_birth_status(team->forming->parent) == UCC_INPROGRESS && !hd_form_has_waited(team)) {
        return UCC_INPROGRESS;
    }
    leave_birth(team);
    hd_form_drop(team);
    team->state = HD_TEAM_EXCLUDED;
    return UCC_OK;
}

ucc_status_t hd_form_come_to_split(ucc_team_h team, bool included) {
    hd_forming_t *f = team->forming;
    const uint64_t name[2] = {0x5b17, f->split};
    hd_birth_t *birth = hd_birth_come(f->parent, name, f->parent->n);
    if (!birth) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_birth_say(f->parent, birth, team->ep, UCC_OK, included);
    f->birth = birth;
    f->in_parent = team->ep;
    f->excluded = !included;
    f->step = STEP_SPLIT;
    if (!included) {
        (void)split_without(team); /* create_test goes on with it */
    }
    return UCC_OK;
}

/* All have said whether they take part. */
static ucc_status_t take_those_born(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_reach_t reach = hd_form_reach_of(f->parent);
    uint64_t *endpoint = hd_alloc(HD_LINE, f->parent->n * sizeof(*endpoint));
    uint32_t n = 0, me = 0, here = 0, local = 0;
    for (uint32_t i = 0; endpoint && i < f->parent->n; i++) {
        bool in = hd_birth_has(f->parent, f->birth, i);
        me = i == team->ep ? n : me;
        local = i == team->ep ? here : local;
        here += in && reach.span->process_of[i] == reach.span->mine;
        endpoint[n] = i;
        n += in;
    }
    hd_list_t list = hd_list_of(endpoint, n);
    hd_meet_key_t key = {.kind = HD_MEET_SPLIT, .scope = f->parent->serial, .id = f->split};
    f->wire = name_of(hd_kin_wire(f->parent), f->split);
    ucc_status_t status = endpoint ? hd_form_take_list(team, &reach, &list, me) : UCC_ERR_NO_MEMORY;
    hd_free(endpoint);
    status = status == UCC_OK ? hd_form_start_meeting(team, &key, here, local, true) : status;
    if (status == UCC_OK && f->scope) {
        f->step = STEP_SHARE;
    }
    return status;
}

/* They count on this endpoint, which can't even tell them. */
static void refuse_those_born(ucc_team_h team, ucc_status_t why) {
    hd_error("a team of %u can't be split as its other endpoints expect: %s; so it fails itself",
             team->forming->parent->n, ucc_status_string(why));
    hd_group_poison(team->forming->parent, why);
}

/* They may count on this endpoint, which can't come any more: it goes on so far that it can say so.
 */
static void tell_those_born(ucc_team_h team, ucc_status_t why) {
    ucc_status_t status = take_those_born(team);
    if (status == UCC_OK) {
        hd_meeting_fail(team->forming->meeting, why);
    } else if (!team->forming->counted) {
        refuse_those_born(team, status);
    }
}

/* UINT32_MAX: which endpoint's, is not known. */
static void say_failure(uint32_t culprit, ucc_status_t status) {
    if (culprit == UINT32_MAX) {
        hd_error("team from a parent: another endpoint has failed to take part: %s",
                 ucc_status_string(status));
    } else {
        hd_error("team from a parent: endpoint %u of the parent's has failed to take part: %s",
                 culprit, ucc_status_string(status));
    }
}

static ucc_status_t split_by_birth(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    /* in this order: of a process that ended with the parent, the parent's failure counts */
    ucc_status_t status = hd_birth_status(f->birth), failed = hd_group_poisoned(f->parent);
    if (failed == UCC_OK && status == UCC_INPROGRESS) {
        if (!hd_form_has_waited(team)) {
            return status;
        }
        hd_error("team from a parent: not all endpoints have come within the time-out, which each "
                 "of the parent's %u has to, to take part or not",
                 f->parent->n);
        status = UCC_ERR_TIMED_OUT;
        if (!hd_birth_fail(f->birth, f->in_parent,
                           status)) { /* they have meanwhile, and some may count on me */
            tell_those_born(team, status);
        }
    } else if (status < 0) {
        say_failure(hd_birth_culprit(f->birth), status);
    }
    status = failed != UCC_OK ? failed : status;
    if (status == UCC_OK) {
        f->since = 0; /* another wait begins */
        status = take_those_born(team);
        if (status != UCC_OK && !f->counted) {
            refuse_those_born(team, status);
        }
    }
    if (status != UCC_OK) {
        (void)hd_birth_fail(f->birth, f->in_parent, status);
    }
    leave_birth(team);
    return status;
}

ucc_status_t hd_form_split(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (f->birth) {
        return f->excluded ? split_without(team) : split_by_birth(team);
    }
    if (!hd_meeting_is_complete(f->meeting)) {
        ucc_status_t failed = hd_form_meeting_status(team);
        return failed == UCC_OK ? UCC_INPROGRESS : failed;
    }
    /* From now on the other processes may hear that this process's endpoints come. So whatever
     * becomes of the meeting, the endpoints here go on to STEP_MEET, where they learn of it and can
     * tell the other processes. */
    hd_split_t *split = split_of(team);
    if (!split) {
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = drive(split);
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
    if (hd_kin_span(f->parent)) {
        if (f->birth && !f->excluded && !hd_birth_fail(f->birth, f->in_parent, why)) {
            tell_those_born(team, why);
        }
        if (f->birth) {
            leave_birth(team);
        }
        return;
    }
    hd_split_t *split = split_of(team);
    if (!split || f->excluded) {
        return;
    }
    /* acquire: pairs with the release in step_split */
    ucc_status_t status = (ucc_status_t)atomic_load_explicit(&split->status, memory_order_acquire);
    if (status == UCC_INPROGRESS) {
        /* Of those that the others have been told of, one that goes on finds the meeting failed,
         * and tells them. relaxed, both: only the count matters */
        if (atomic_load_explicit(&split->promised, memory_order_relaxed) > 0 &&
            atomic_fetch_sub_explicit(&split->promised, 1, memory_order_relaxed) == 1) {
            hd_form_fail_parent(team, why);
        }
    } else if (status == UCC_OK && read_words(split) == UCC_OK) {
        (void)go_on(team, split); /* the others believe that this endpoint comes: it can tell now */
    }
}

bool hd_form_split_lingers(ucc_team_h team) {
    enum { PATIENCE_MS = 2000 };
    hd_forming_t *f = team->forming;
    uint64_t now = hd_ticks();
    f->since = f->since ? f->since : now;
    bool patient = now - f->since < PATIENCE_MS * 1000 * hd_ticks_per_us;
    if (f->forks != hd_forks() || (f->birth && !f->excluded)) {
        return false;
    }
    if (f->birth) {
        bool lingers = patient && hd_kin_birth_status(f->parent) == UCC_INPROGRESS;
        if (!lingers) {
            leave_birth(team);
        }
        return lingers;
    }
    if (!hd_meeting_is_complete(f->meeting)) {
        hd_meeting_fail(f->meeting, UCC_ERR_NOT_FOUND);
    }
    hd_split_t *split = split_of(team);
    return split && drive(split) == UCC_INPROGRESS && patient;
}
