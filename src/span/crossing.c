/* crossing.c: what a team of several processes has beside its group (span.h), from its greeting on.
 *
 * Processes greet each other before the team may be used: a barrier among them, by a leg of the
 * net's. Whoever has passed it knows that all processes welcome messages of this team. Any endpoint
 * that forms the team pumps it. It lies in the crossing, so the group must not end while it is
 * under way: endpoints that are destroyed earlier make it end first (hd_crossing_lingers). A team
 * that is AHEAD does not wait for it, only its operations do, and a process may be through with the
 * team before others have formed it: there, the greeting keeps the group.
 *
 * Warming. Before the first large message on a way UCX asks the other end for a number. Up to
 * version 1.13 it ends the process if the way breaks while that question or its answer waits for a
 * connection, or behind data (wireup_ep.c, "pending_count == 0"; ucp_request.c, "got REP message").
 * So few processes have this behind them before their team is used: in each lane, when a barrier
 * has made all connections and nothing else is on them, they exchange a word each to each by
 * rendezvous. Among more, and in teams that are ahead, ways are made when they are needed.
 *
 * Failing. A group that fails tells the other processes, unless it failed because they have told
 * it.
 */
#include "span/internal.h"
#include "core/log.h"
#include "threads/trace.h"

enum { WARM_PROCESSES = 8, LANES = 8 }; /* most of a team whose ways are made before it is used */

/* --- greeting --------------------------------------------------------------------------------- */

/* Everybody is watched before a process says hello: so what happens to those who have passed the
 * greeting is noticed. Who can't be watched soon is not waited for. */
static bool may_greet(const hd_crossing_t *crossing) {
    enum { PATIENCE_MS = 1000 };
    return hd_net_team_is_watched(crossing->team) ||
           hd_ticks() - crossing->since > PATIENCE_MS * 1000 * hd_ticks_per_us;
}

/* What goes each to each when ways are warmed: first what is given, then what is taken. Nobody
 * reads it, and it may come when the team is gone: so it stays, for all teams. In a lane one thread
 * at a time takes it. */
static uint64_t word[LANES][2 * WARM_PROCESSES];

typedef struct hd_words {
    hd_net_piece_t piece[2 * WARM_PROCESSES];
    hd_net_data_t data[2 * WARM_PROCESSES];
} hd_words_t;

static void set_words(hd_words_t *words, uint32_t lane) {
    for (uint32_t i = 0; i < 2 * WARM_PROCESSES; i++) {
        words->piece[i] = (hd_net_piece_t){&word[lane % LANES][i], sizeof(word[0][0])};
        words->data[i] = (hd_net_data_t){&words->piece[i], 1, sizeof(word[0][0])};
    }
}

static bool step_hello(hd_leg_t *leg);

/* The next of: the greeting, in lane 0; then in each lane a barrier, but for lane 0, and words.
 * False: all was. */
static bool begin_next(hd_crossing_t *crossing) {
    hd_leg_t *leg = &crossing->hello;
    uint32_t n = crossing->span->processes, i = crossing->hellos++, lane = i / 2;
    if (i && (n > WARM_PROCESSES || lane >= hd_net_team_lanes(crossing->team) || crossing->ahead)) {
        return false; /* ahead: a process may be through with the team, and not there to answer */
    }
    *leg = (hd_leg_t){.team = crossing->team,
                      .key = {.class = i ? HD_NET_WARMING : HD_NET_FORMING,
                              .number = i,
                              .ordinal = !i && crossing->origin.endpoint},
                      .segment = lane,
                      .call = {.type = HD_BARRIER,
                               .n = n,
                               .me = crossing->span->mine,
                               .signature = crossing->terms,
                               .scratch = crossing->hello_scratch},
                      .step = step_hello,
                      .owner = crossing};
    leg->plan = i ? (hd_net_plan_t){.algorithm = HD_NET_DIRECT}
                  : hd_net_plan_of(crossing->team, &leg->call, 0);
    if (i % 2) {
        set_words(crossing->words, lane);
        leg->call.type = HD_ALLTOALL;
        leg->call.give = crossing->words->data;
        leg->call.take = crossing->words->data + WARM_PROCESSES;
    }
    hd_leg_start(leg); /* another thread may have it at once */
    return true;
}

static bool step_hello(hd_leg_t *leg) {
    hd_crossing_t *crossing = leg->owner;
    /* relaxed: who steps the leg is ordered behind who has started it by the lane */
    hd_assert_eq(atomic_load_explicit(&crossing->greeted, memory_order_relaxed), HD_GREETING);
    hd_assert(leg == &crossing->hello && crossing->hellos > 0);
    ucc_status_t failed = hd_group_poisoned(crossing->group);
    if (failed == UCC_OK && crossing->hellos == 1 && leg->phase == 0 && leg->round == 0 &&
        !may_greet(crossing)) {
        return false;
    }
    if (crossing->span->processes <= WARM_PROCESSES) {
        hd_net_team_warms(crossing->team, leg->lane, false);
    }
    ucc_status_t status = failed == UCC_OK ? hd_leg_go(leg) : hd_leg_cancel(leg, failed);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    if (status == UCC_OK && leg->key.class == HD_NET_WARMING && leg->key.number % 2) {
        hd_net_team_warms(crossing->team, leg->lane, true);
    }
    if (status == UCC_OK && begin_next(crossing)) {
        return true;
    }
    if (status < 0) {
        hd_group_poison(crossing->group, status);
    } else {
        hd_group_ready(crossing->group);
    }
    bool ahead = crossing->ahead;
    /* release: the leg is out of use; pairs with the acquires below. The crossing may be gone after
       this, if the leg does not keep it */
    atomic_store_explicit(&crossing->greeted, HD_GREETED, memory_order_release);
    if (ahead) {
        hd_span_defer_unref(crossing);
    }
    return true;
}

/* By one endpoint. */
static ucc_status_t start_hello(hd_crossing_t *crossing) {
    hd_net_call_t call = {
        .type = HD_BARRIER, .n = crossing->span->processes, .me = crossing->span->mine};
    hd_net_plan_t plan = hd_net_plan_of(crossing->team, &call, 0);
    size_t scratch = hd_net_scratch(&call, &plan);
    crossing->hello_scratch = scratch ? hd_alloc(HD_LINE, scratch) : NULL;
    crossing->words = hd_alloc(HD_LINE, sizeof(*crossing->words));
    if ((scratch && !crossing->hello_scratch) || !crossing->words) {
        hd_error("no memory to form a team of %u processes", crossing->span->processes);
        hd_group_poison(crossing->group, UCC_ERR_NO_MEMORY);
        /* release: as in step_hello */
        atomic_store_explicit(&crossing->greeted, HD_GREETED, memory_order_release);
        return UCC_ERR_NO_MEMORY;
    }
    if (crossing->ahead) {
        hd_home_pin(&crossing->group->home);
    }
    (void)begin_next(crossing);
    return UCC_OK;
}

static bool is_late(const hd_crossing_t *crossing) {
    const hd_group_t *group = crossing->group;
    return group->timeout && hd_ticks() - crossing->since > group->timeout;
}

ucc_status_t hd_crossing_greet(hd_crossing_t *crossing) {
    uint32_t greeted = HD_GREETED_NOT;
    /* acq_rel: one endpoint starts; pairs with the release in step_hello */
    if (atomic_compare_exchange_strong_explicit(&crossing->greeted, &greeted, HD_GREETING,
                                                memory_order_acq_rel, memory_order_acquire)) {
        ucc_status_t status = start_hello(crossing);
        if (status != UCC_OK) {
            return status;
        }
    }
    if (greeted != HD_GREETED) {
        hd_net_pump(crossing->net);
        hd_span_drain(); /* of other teams: legs of theirs may have ended */
        /* acquire: pairs with the release in step_hello */
        greeted = atomic_load_explicit(&crossing->greeted, memory_order_acquire);
    }
    ucc_status_t failed = hd_group_poisoned(crossing->group);
    if (greeted != HD_GREETED && failed == UCC_OK && is_late(crossing)) {
        hd_error("team of %u: not all of its %u processes have come within the time-out",
                 crossing->span->n, crossing->span->processes);
        hd_group_poison(crossing->group, UCC_ERR_TIMED_OUT);
        failed = UCC_ERR_TIMED_OUT;
    }
    if (failed != UCC_OK) {
        return failed;
    }
    return greeted == HD_GREETED ? UCC_OK : UCC_INPROGRESS;
}

void hd_crossing_glance(void) {
    hd_net_t *net = hd_net_opened();
    if (net) {
        hd_net_look(net);
        hd_span_drain();
    }
}

bool hd_crossing_pump(hd_crossing_t *crossing) {
    if (hd_group_is_sealed(crossing->group)) {
        (void)hd_crossing_greet(crossing);
    }
    return false;
}

bool hd_crossing_lingers(hd_crossing_t *crossing) {
    /* acquire: pairs with the release in step_hello */
    if (crossing->ahead ||
        atomic_load_explicit(&crossing->greeted, memory_order_acquire) != HD_GREETING ||
        hd_group_is_inherited(crossing->group)) {
        return false;
    }
    if (!hd_group_is_complete(crossing->group)) { /* else its step is just returning */
        hd_crossing_abort(crossing, UCC_ERR_NOT_FOUND);
        hd_group_poison(crossing->group, UCC_ERR_NOT_FOUND);
    }
    hd_net_pump(crossing->net);
    /* acquire: likewise */
    return atomic_load_explicit(&crossing->greeted, memory_order_acquire) == HD_GREETING;
}

/* --- active sets ------------------------------------------------------------------------------ */

static const hd_span_t *find_set(const hd_span_t *first, const hd_subset_t *set) {
    while (first && (first->set.start != set->start || first->set.stride != set->stride ||
                     first->set.n != set->n)) {
        first = first->next;
    }
    return first;
}

const hd_span_t *hd_crossing_set(hd_crossing_t *crossing, const hd_subset_t *set) {
    /* acquire: pairs with the release below; entries are immutable */
    hd_span_t *first = atomic_load_explicit(&crossing->sets, memory_order_acquire);
    const hd_span_t *found = find_set(first, set);
    if (found) {
        return found;
    }
    hd_span_t *span = hd_span_of_set(crossing->span, set);
    while (span && !found) {
        span->next = first;
        /* release: publishes the span; acquire: another one's, which may be the same */
        if (atomic_compare_exchange_weak_explicit(&crossing->sets, &first, span,
                                                  memory_order_release, memory_order_acquire)) {
            return span;
        }
        found = find_set(first, set);
    }
    hd_free(span);
    return found;
}

/* --- failing ---------------------------------------------------------------------------------- */

void hd_crossing_abort(hd_crossing_t *crossing, ucc_status_t why) {
    /* relaxed: only one is to tell; what it tells is not read here */
    if (atomic_exchange_explicit(&crossing->aborted, 1, memory_order_relaxed) == 0 &&
        !hd_group_is_inherited(crossing->group)) {
        hd_net_team_abort(crossing->team, why);
    }
}
