/* crossing.c: the life of a crossing (span.h) from its greeting on: greeting and warming, spans of
 * active sets, failing. form/ calls it while teams form and end, the stages of flights and swaps
 * while members wait.
 *
 * Greeting. Processes greet each other before the team may be used: a barrier among them, by a leg
 * of the net's. A process that has passed it knows that all processes accept messages of this team.
 * Any endpoint that forms the team pumps the leg. The leg lies in the crossing, so the greeting
 * keeps the group while it is under way. Endpoints that are destroyed earlier make it end first
 * (hd_crossing_lingers). A team that is AHEAD is used by its endpoints before the greeting is over,
 * and only its operations wait for that. Such a process may be through with the team before others
 * have formed it, so there the greeting goes on when all endpoints have gone.
 *
 * Warming. Before the first large message on a way UCX asks the other end for a number. Up to
 * version 1.13 it ends the process if the way breaks while that question or its answer waits for a
 * connection, or behind data (wireup_ep.c, "pending_count == 0"; ucp_request.c, "got REP message").
 * A few processes therefore do this before their team is used: in each lane, when a barrier has
 * made all connections and nothing else is on them, each sends a word to each by rendezvous. Among
 * more processes, and in teams that are ahead, ways are made when they are needed.
 *
 * Failing. A group that fails tells the other processes, unless it failed because they have told
 * it.
 */
#include "span/internal.h"
#include "core/log.h"
#include "threads/trace.h"

/* WARM_PROCESSES: most processes of a team whose ways are warmed; LANES: rows of `word` */
enum { WARM_PROCESSES = 8, LANES = 8 };

/* --- greeting --------------------------------------------------------------------------------- */

/* May this process begin to greet? Not before it watches all processes that it has to watch, so
 * that the loss of a process that has passed the greeting is noticed. A process that can't be
 * watched soon is waited for no longer than PATIENCE_MS. */
static bool may_greet(const hd_crossing_t *crossing) {
    enum { PATIENCE_MS = 1000 };
    return hd_net_team_is_watched(crossing->team) ||
           hd_ticks() - crossing->since > PATIENCE_MS * 1000 * hd_ticks_per_us;
}

/* The words that are exchanged when ways are warmed: in each row first what is given, then what is
 * taken. Nobody reads them. A message may come when its team is gone, so this memory is static and
 * serves all teams. In each lane one thread at a time uses it. */
static uint64_t word[LANES][2 * WARM_PROCESSES];

typedef struct hd_words {
    hd_net_piece_t piece[2 * WARM_PROCESSES];
    hd_net_data_t data[2 * WARM_PROCESSES];
} hd_words_t;

/* Sets the pieces of a lane's words: entry i gives, entry WARM_PROCESSES + i takes. */
static void set_words(hd_words_t *words, uint32_t lane) {
    for (uint32_t i = 0; i < 2 * WARM_PROCESSES; i++) {
        words->piece[i] = (hd_net_piece_t){&word[lane % LANES][i], sizeof(word[0][0])};
        words->data[i] = (hd_net_data_t){&words->piece[i], 1, sizeof(word[0][0])};
    }
}

static bool step_hello(hd_leg_t *leg);

/* Begins the next leg of this sequence: the greeting in lane 0, the words in lane 0, and then in
 * each further lane a barrier and the words. Returns false if there is none left. */
static bool begin_next(hd_crossing_t *crossing) {
    hd_leg_t *leg = &crossing->hello;
    uint32_t n = crossing->span->processes, i = crossing->hellos++, lane = i / 2;
    if (i && (n > WARM_PROCESSES || lane >= hd_net_team_lanes(crossing->team) || crossing->ahead)) {
        /* in a team that is ahead, a process may be through with the team and not answer */
        return false;
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
    hd_leg_start(leg); /* another thread may step it at once */
    return true;
}

/* The step of the greeting's and the warming's legs, under the lane's lock. When the last of them
 * has ended, or one has failed, the group is made ready or poisoned, and the greeting is over. */
static bool step_hello(hd_leg_t *leg) {
    hd_crossing_t *crossing = leg->owner;
    /* relaxed: the lane orders who steps the leg behind who has started it */
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
    /* release: the leg is out of use; pairs with the acquires below */
    atomic_store_explicit(&crossing->greeted, HD_GREETED, memory_order_release);
    hd_span_defer_unref(crossing);
    return true;
}

/* Begins the greeting, which keeps the group until it is over: endpoints may leave meanwhile.
 * Called by one endpoint only. UCC_ERR_NO_MEMORY: the team has failed (logged). */
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
    hd_home_pin(&crossing->group->home);
    (void)begin_next(crossing);
    return UCC_OK;
}

/* Has the greeting lasted longer than the group's time-out? */
static bool is_late(const hd_crossing_t *crossing) {
    const hd_group_t *group = crossing->group;
    return group->timeout && hd_ticks() - crossing->since > group->timeout;
}

ucc_status_t hd_crossing_greet(hd_crossing_t *crossing) {
    uint32_t greeted = HD_GREETED_NOT;
    /* acq_rel: one endpoint starts the greeting; pairs with the release in step_hello */
    if (atomic_compare_exchange_strong_explicit(&crossing->greeted, &greeted, HD_GREETING,
                                                memory_order_acq_rel, memory_order_acquire)) {
        ucc_status_t status = start_hello(crossing);
        if (status != UCC_OK) {
            return status;
        }
    }
    if (greeted != HD_GREETED) {
        hd_net_pump(crossing->net);
        hd_span_drain(); /* legs of other teams may have ended as well */
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

void hd_crossing_pump(hd_crossing_t *crossing) {
    if (hd_group_is_sealed(crossing->group)) {
        (void)hd_crossing_greet(crossing);
    }
}

bool hd_crossing_lingers(hd_crossing_t *crossing) {
    /* acquire: pairs with the release in step_hello */
    if (crossing->ahead ||
        atomic_load_explicit(&crossing->greeted, memory_order_acquire) != HD_GREETING ||
        hd_group_is_inherited(crossing->group)) {
        return false;
    }
    /* else step_hello is about to say that it is over */
    if (!hd_group_is_complete(crossing->group)) {
        hd_crossing_abort(crossing, UCC_ERR_NOT_FOUND);
        hd_group_poison(crossing->group, UCC_ERR_NOT_FOUND);
    }
    hd_net_pump(crossing->net);
    /* acquire: pairs with the release in step_hello, as above */
    return atomic_load_explicit(&crossing->greeted, memory_order_acquire) == HD_GREETING;
}

/* --- active sets ------------------------------------------------------------------------------ */

/* Returns the span of this set in the list; NULL: it is not there. */
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
        /* release: publishes the span; acquire: another thread's span has come first, and may be of
         * the same set */
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
    /* relaxed: it only has to be one thread that tells; what it tells is not read here */
    if (atomic_exchange_explicit(&crossing->aborted, 1, memory_order_relaxed) == 0 &&
        !hd_group_is_inherited(crossing->group)) {
        hd_net_team_abort(crossing->team, why);
    }
}
