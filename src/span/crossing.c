/* crossing.c: the life of a crossing (span.h): its making and end, greeting and warming, spans of
 * active sets, failing, and references to its group. form/ calls it while teams form and end, the
 * stages of flights and swaps while members wait.
 *
 * Greeting. Processes greet each other before the team may be used: a barrier among them, by a leg
 * of the net's. A process that has passed it knows that all processes accept messages of this team.
 * Any endpoint that forms the team pumps the leg. The leg lies in the crossing, so the greeting
 * keeps the group while it is under way. Endpoints that are destroyed earlier make it end first
 * (hd_crossing_lingers). A team that is AHEAD is used by its endpoints before the greeting is over,
 * and only its operations wait for that. Such a process may be through with the team before others
 * have formed it, so there the greeting goes on when all endpoints have gone.
 *
 * Of a team that members of another one have made, processes that could share a node's memory may
 * have failed to, which the other nodes can't know (form/share.c). Then the greeting is no barrier,
 * but each process tells each whether it has that memory (hd_tally_t). So all processes hear the
 * same, and come to the same nodes; those of one of which a process lacks it are nodes of their
 * own.
 *
 * Warming. Before the first large message on a way UCX asks the other end for a number. Up to
 * version 1.13 it ends the process if the way breaks while that question or its answer waits for a
 * connection, or behind data (wireup_ep.c, "pending_count == 0"; ucp_request.c, "got REP message").
 * A few processes therefore do this before their team is used: in each lane, when a barrier has
 * made all connections and nothing else is on them, each sends a word to each by rendezvous. Among
 * more processes, and in teams that are ahead, ways are made when they are needed.
 *
 * Legs keep the group while they are under way (hd_crossing_hold). Where a team has failed they may
 * outlive its operations, until the network gives their messages up, which it does while somebody
 * pumps it. So the last endpoint here that leaves pumps until they are over, or some time has gone
 * by (hd_crossing_lingers, hd_crossing_see_off): less than after which the ways to a process that
 * does not react are cut, on which healthy teams may count. Where an endpoint has never joined, or
 * what is under way takes longer, a failed team stays until somebody pumps for others.
 *
 * References that are given up later. The end of a group destroys a team of the net's, which a leg
 * that ends under its lane's lock must not do. So the leg notes its reference with the crossing
 * (hd_span_defer_unref), and whoever has pumped the network and holds no lock any more gives it up
 * (hd_span_drain). Any thread may call both.
 */
#include "span/span.h"

#include "core/fork.h"
#include "core/hash.h"
#include "threads/trace.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

/* --- references that are given up later ------------------------------------------------------- */

void hd_crossing_hold(hd_crossing_t *crossing) {
    /* relaxed: looked at by who is the last here to leave */
    atomic_fetch_add_explicit(&crossing->legs, 1, memory_order_relaxed);
    hd_home_pin(&crossing->group->home);
}

/* The lock guards the list of crossings, and their `unrefs` and `next_deferred`. */
static hd_lock_t deferred_lock;
static _Atomic(hd_crossing_t *) deferred;

/* Counts one reference to give up; the first one puts the crossing on the list. */
void hd_span_defer_unref(hd_crossing_t *crossing) {
    hd_lock(&deferred_lock);
    if (crossing->unrefs++ == 0) {
        /* relaxed, both: the lock hands on */
        crossing->next_deferred = atomic_load_explicit(&deferred, memory_order_relaxed);
        atomic_store_explicit(&deferred, crossing, memory_order_relaxed);
    }
    hd_unlock(&deferred_lock);
}

void hd_span_drain(void) {
    /* relaxed: one that is missed is settled by the next who pumps */
    while (atomic_load_explicit(&deferred, memory_order_relaxed)) {
        hd_group_t *group = NULL; /* its end is that of the crossing, too */
        uint32_t unrefs = 0;
        hd_lock(&deferred_lock);
        hd_crossing_t *crossing = atomic_load_explicit(&deferred, memory_order_relaxed);
        if (crossing) {
            atomic_store_explicit(&deferred, crossing->next_deferred, memory_order_relaxed);
            group = crossing->group;
            unrefs = crossing->unrefs;
            crossing->unrefs = 0;
        }
        hd_unlock(&deferred_lock);
        hd_assert(!group || unrefs > 0);
        if (group) {
            /* relaxed: as in hd_crossing_hold */
            uint32_t before =
                atomic_fetch_sub_explicit(&crossing->legs, unrefs, memory_order_relaxed);
            hd_assert_le(unrefs, before);
            (void)before;
        }
        for (; unrefs; unrefs--) {
            hd_home_unpin(&group->home);
        }
    }
}

/* Called in the child of a fork. A thread that held the lock does not exist here. References that
 * were noted are given up here, too, so that those groups end; groups whose flights were under way
 * stay. */
static void inherit_deferred(hd_fork_hook_t *self) {
    (void)self;
    hd_lock_forget(&deferred_lock);
}

static void watch_forks(void) {
    static hd_fork_hook_t fork_hook;
    hd_fork_watch(&fork_hook, inherit_deferred);
}

/* --- origins ---------------------------------------------------------------------------------- */

hd_origin_t *hd_origin_create(uint64_t wire, const hd_span_t *span) {
    uint32_t here = hd_span_count(span, span->mine);
    size_t bytes = sizeof(hd_origin_t) + here * sizeof(hd_origin_member_t);
    size_t failed_bytes = (span->n + 63) / 64 * sizeof(uint64_t);
    hd_origin_t *origin = hd_alloc(HD_LINE, bytes + failed_bytes);
    if (origin) {
        origin->failed = (uint64_t *)(void *)((char *)origin + bytes);
        atomic_init(&origin->refs, 1);
        origin->wire = wire;
        origin->n = span->n;
        origin->serial = hd_serial();
    }
    return origin;
}

void hd_origin_keep(hd_origin_t *origin) {
    /* relaxed: the caller has a reference, or a crossing with one */
    atomic_fetch_add_explicit(&origin->refs, 1, memory_order_relaxed);
}

void hd_origin_drop(hd_origin_t *origin) {
    /* acq_rel: whoever frees it comes behind what the others have done with it */
    if (origin && atomic_fetch_sub_explicit(&origin->refs, 1, memory_order_acq_rel) == 1) {
        hd_meetings_end(origin->serial);
        hd_free(origin);
    }
}

/* Takes those of earlier agreements off the list that nobody else has a reference to. Under the
 * lock of the team's origin, without which nobody gets one. */
static hd_origin_t *take_over(hd_origin_t **list, uint64_t number) {
    hd_origin_t *over = NULL;
    for (hd_origin_t **at = list; *at;) {
        hd_origin_t *origin = *at;
        /* relaxed: hd_origin_drop orders what others have done */
        bool is_over = origin->number < number &&
                       atomic_load_explicit(&origin->refs, memory_order_relaxed) == 1;
        if (is_over) {
            *at = origin->next;
            origin->next = over;
            over = origin;
        } else {
            at = &origin->next;
        }
    }
    return over;
}

void hd_origins_drop(hd_origin_t *origins) {
    for (hd_origin_t *next; origins; origins = next) {
        next = origins->next;
        hd_origin_drop(origins);
    }
}

hd_origin_t *hd_origin_of_agreement(hd_origin_t *team, hd_origin_t **agreements, uint64_t wire,
                                    const hd_span_t *span, uint64_t number) {
    static const uint64_t apart = 0x6167726565; /* wire ids of others have no such word */
    hd_origin_t *made = hd_origin_create(hd_hash_mix(hd_hash_mix(wire, apart), number), span);
    if (!made) {
        hd_error("no memory for an agreement of %u processes", span->processes);
        return NULL;
    }
    made->n = team->n; /* a quorum is one of that team's endpoints */
    made->number = number;
    hd_lock(&team->lock);
    hd_origin_t *over = take_over(agreements, number), *origin = *agreements;
    while (origin && origin->number != number) {
        origin = origin->next;
    }
    if (!origin) {
        origin = made;
        made = NULL;
        origin->next = *agreements;
        *agreements = origin;
    }
    hd_origin_keep(origin);
    hd_unlock(&team->lock);
    hd_origin_drop(made);
    hd_origins_drop(over);
    return origin;
}

hd_origin_t *hd_crossing_origin(hd_crossing_t *crossing, uint64_t number) {
    return hd_origin_of_agreement(crossing->origin, &crossing->agreements, crossing->wire,
                                  crossing->span, number);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Makes the team's nodes. NULL: no memory (logged). */
static hd_nodes_t *make_nodes(const hd_span_t *span, const uint32_t *node_of) {
    uint32_t *of = hd_alloc(HD_LINE, span->n * sizeof(*of));
    for (uint32_t e = 0; of && e < span->n; e++) {
        of[e] = node_of[span->process_of[e]];
    }
    uint32_t me = hd_span_endpoint(span, span->mine, 0);
    hd_span_t *by_node = of ? hd_span_create(span->n, of, me) : NULL;
    hd_free(of);
    return by_node ? hd_nodes_create(span, by_node) : NULL;
}

static void free_tally(hd_tally_t *tally) {
    if (tally) {
        hd_nodes_free(tally->claimed);
        hd_free(tally);
    }
}

/* Returns what processes tell of their nodes, with all its arrays in one block. NULL: no memory. */
static hd_tally_t *make_tally(const hd_span_t *span, const hd_node_claim_t *claim) {
    uint32_t n = span->processes, here = 0;
    hd_tally_t *tally =
        hd_alloc(HD_LINE, sizeof(*tally) + n * (sizeof(*tally->data) + sizeof(*tally->piece) +
                                                sizeof(*tally->word) + sizeof(*tally->node_of)));
    if (!tally) {
        return NULL;
    }
    tally->data = (hd_net_data_t *)(void *)(tally + 1);
    tally->piece = (hd_net_piece_t *)(void *)(tally->data + n);
    tally->word = (uint64_t *)(void *)(tally->piece + n);
    tally->node_of = (uint32_t *)(void *)(tally->word + n);
    for (uint32_t p = 0; p < n; p++) {
        tally->piece[p] = (hd_net_piece_t){&tally->word[p], sizeof(tally->word[p])};
        tally->data[p] = (hd_net_data_t){&tally->piece[p], 1, sizeof(tally->word[p])};
        tally->node_of[p] = claim->node_of[p];
        here += claim->node_of[p] == claim->node_of[span->mine];
    }
    tally->has = claim->has;
    bool has = claim->has || here == 1; /* alone, it lacks nothing */
    tally->word[span->mine] = claim->vetoes ? HD_NODE_VETOES : has ? HD_NODE_HAS : HD_NODE_LACKS;
    tally->claimed = make_nodes(span, claim->node_of);
    if (!tally->claimed) {
        free_tally(tally);
        return NULL;
    }
    return tally;
}

/* Do all processes of this one's node have its memory, and does nobody veto that? */
static bool shares(const hd_tally_t *tally, uint32_t n, uint32_t p) {
    bool all = true;
    for (uint32_t q = 0; q < n && all; q++) {
        bool beside = tally->node_of[q] == tally->node_of[p];
        all = beside ? tally->word[q] == HD_NODE_HAS : tally->word[q] != HD_NODE_VETOES;
    }
    return all;
}

/* All have told: sets the team's nodes. */
static ucc_status_t settle_nodes(hd_crossing_t *crossing) {
    hd_tally_t *tally = crossing->tally;
    const hd_span_t *span = crossing->span;
    uint32_t n = span->processes, nodes = 0, parted = 0;
    uint32_t *node_of = hd_alloc(HD_LINE, n * sizeof(*node_of));
    if (!node_of) {
        hd_error("no memory for the nodes of a team of %u processes", n);
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t p = 0; p < n; p++) {
        bool first = true, together = shares(tally, n, p);
        for (uint32_t q = 0; q < p && together; q++) {
            first = first && tally->node_of[q] != tally->node_of[p];
        }
        node_of[p] = together ? tally->node_of[p] : n + p;
        nodes += first;
        parted += !together;
    }
    if (tally->has && node_of[span->mine] >= n) { /* its group is one of all of them */
        hd_error("process %u of %u shares memory with others that say they don't: have all members "
                 "made the team by the same call?",
                 span->mine, n);
        hd_free(node_of);
        return UCC_ERR_NO_RESOURCE;
    }
    if (nodes < n && parted == 0) {
        crossing->nodes = tally->claimed;
        tally->claimed = NULL;
    } else if (nodes < n) {
        crossing->nodes = make_nodes(span, node_of);
    }
    hd_free(node_of);
    return nodes == n || crossing->nodes ? UCC_OK : UCC_ERR_NO_MEMORY;
}

/* --- greeting --------------------------------------------------------------------------------- */

/* May this process begin to greet? Not before it watches all processes that it has to watch, so
 * that the loss of a process that has passed the greeting is noticed. A process that can't be
 * watched soon is waited for no longer than PATIENCE_MS. */
static bool may_greet(const hd_crossing_t *crossing) {
    enum { PATIENCE_MS = 1000 };
    return hd_net_team_is_watched(crossing->team) ||
           hd_ticks() - crossing->since > PATIENCE_MS * 1000 * hd_ticks_per_us;
}

static bool step_hello(hd_leg_t *leg);

/* Sets up leg i of this sequence: the greeting in lane 0, the words in lane 0, and then in each
 * further lane a barrier and the words. Nobody reads the words. A message may come when its team is
 * gone, so they are static and serve all teams; in each lane one thread at a time uses them. */
static void set_hello(hd_crossing_t *crossing, uint32_t i) {
    enum { LANES = 8, WORD = sizeof(uint64_t) };
    static struct { uint64_t given, taken; } words[LANES];
    hd_leg_t *leg = &crossing->hello;
    uint32_t lane = i / 2;
    crossing->given_word = (hd_net_piece_t){&words[lane % LANES].given, sizeof(uint64_t)};
    crossing->taken_word = (hd_net_piece_t){&words[lane % LANES].taken, sizeof(uint64_t)};
    for (uint32_t p = 0; p < HD_WARM_PROCESSES; p++) {
        crossing->give[p] = (hd_net_data_t){&crossing->given_word, 1, sizeof(uint64_t)};
        crossing->take[p] = (hd_net_data_t){&crossing->taken_word, 1, sizeof(uint64_t)};
    }
    *leg = (hd_leg_t){.team = crossing->team,
                      .key = {.class = i ? HD_NET_WARMING : HD_NET_FORMING, .number = i},
                      .segment = lane,
                      .call = {.type = i % 2 ? HD_ALLTOALL : HD_BARRIER,
                               .n = crossing->span->processes,
                               .me = crossing->span->mine,
                               .signature = crossing->terms,
                               .give = crossing->give,
                               .take = crossing->take,
                               .scratch = leg->call.scratch},
                      .step = step_hello,
                      .owner = crossing};
    if (i == 0 && crossing->tally) {
        leg->call.type = HD_ALLGATHER;
        leg->call.give = &crossing->tally->data[crossing->span->mine];
        leg->call.take = crossing->tally->data;
    }
    leg->plan = i ? (hd_net_plan_t){.algorithm = HD_NET_DIRECT}
                  : hd_net_plan_of(crossing->team, &leg->call, crossing->tally ? WORD : 0);
}

/* The greeting is over: the group is ready, or fails. */
static void end_hello(hd_crossing_t *crossing, ucc_status_t status) {
    if (status < 0) {
        hd_group_poison(crossing->group, status);
    } else {
        hd_group_ready(crossing->group);
    }
    /* release: the leg is out of use; pairs with the acquires below */
    atomic_store_explicit(&crossing->greeted, HD_GREETED, memory_order_release);
}

/* The step of the greeting's and the warming's legs, under the lane's lock. */
static bool step_hello(hd_leg_t *leg) {
    hd_crossing_t *crossing = leg->owner;
    bool warms = crossing->span->processes <= HD_WARM_PROCESSES;
    uint32_t i = (uint32_t)leg->key.number, lane = leg->lane;
    /* relaxed: the lane orders who steps the leg behind who has started it */
    hd_assert_eq(atomic_load_explicit(&crossing->greeted, memory_order_relaxed), HD_GREETING);
    hd_assert(leg == &crossing->hello);
    ucc_status_t failed = hd_group_poisoned(crossing->group);
    if (failed == UCC_OK && i == 0 && leg->phase == 0 && leg->round == 0 && !may_greet(crossing)) {
        return false;
    }
    if (warms) {
        hd_net_team_warms(crossing->team, lane, HD_WARMING);
    }
    ucc_status_t status = failed == UCC_OK ? hd_leg_go(leg) : hd_leg_cancel(leg, failed);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    if (status == UCC_OK && i == 0 && crossing->tally) {
        status = settle_nodes(crossing);
    }
    if (warms && status == UCC_OK && (i % 2 || crossing->ahead)) {
        hd_net_team_warms(crossing->team, lane, i % 2 ? HD_WARM : HD_COLD);
    }
    /* in a team that is ahead, a process may be through with the team and not answer the words */
    if (status == UCC_OK && warms && !crossing->ahead &&
        (i + 1) / 2 < hd_net_team_lanes(crossing->team)) {
        set_hello(crossing, i + 1);
        hd_leg_start(leg); /* another thread may step it at once */
        return true;
    }
    end_hello(crossing, status);
    hd_span_defer_unref(crossing);
    return true;
}

/* Begins the greeting, which keeps the group until it is over: endpoints may leave meanwhile.
 * Called by one endpoint only. Without memory the team fails (logged). */
static void start_hello(hd_crossing_t *crossing) {
    hd_leg_t *leg = &crossing->hello;
    set_hello(crossing, 0);
    size_t scratch = hd_net_scratch(&leg->call, &leg->plan);
    leg->call.scratch = hd_alloc(HD_LINE, scratch);
    if (scratch && !leg->call.scratch) {
        hd_error("no memory to form a team of %u processes", crossing->span->processes);
        end_hello(crossing, UCC_ERR_NO_MEMORY);
        return;
    }
    hd_crossing_hold(crossing);
    hd_leg_start(leg);
}

ucc_status_t hd_crossing_greet(hd_crossing_t *crossing) {
    const hd_group_t *group = crossing->group;
    uint32_t greeted = HD_GREETED_NOT;
    /* acq_rel: one endpoint starts the greeting; pairs with the release in end_hello */
    if (atomic_compare_exchange_strong_explicit(&crossing->greeted, &greeted, HD_GREETING,
                                                memory_order_acq_rel, memory_order_acquire)) {
        start_hello(crossing);
    }
    if (greeted != HD_GREETED) {
        hd_net_pump(crossing->net);
        hd_span_drain(); /* legs of other teams may have ended as well */
        /* acquire: pairs with the release in end_hello */
        greeted = atomic_load_explicit(&crossing->greeted, memory_order_acquire);
    }
    ucc_status_t failed = hd_group_poisoned(group);
    if (greeted != HD_GREETED && failed == UCC_OK && group->timeout &&
        hd_ticks() - crossing->since > group->timeout) {
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

void hd_crossing_awaits(const hd_crossing_t *crossing, hd_text_t *text) {
    /* acquire: pairs with the release in end_hello */
    bool greets = atomic_load_explicit(&crossing->greeted, memory_order_acquire) == HD_GREETING;
    if (!greets || !hd_net_leg_awaits(crossing->team, &crossing->hello, text)) {
        hd_text_add(text, "other processes");
    }
    hd_text_add(text, ", to form the team");
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

/* Nobody here will begin anything more. */
static bool all_have_left(const hd_crossing_t *crossing) {
    const hd_span_t *span = crossing->span;
    for (uint32_t e = 0; e < span->n; e++) {
        if (span->process_of[e] == span->mine &&
            !hd_group_has_left(crossing->group, hd_group_member(crossing->group, e))) {
            return false;
        }
    }
    return true;
}

/* Has the team failed, and are legs under way that nobody here waits for any more? Not for ever: a
 * process that does not react may keep a message. Legs of a team that has not failed end without
 * help, but others may be long in coming. */
static bool legs_linger(hd_crossing_t *crossing) {
    enum { PATIENCE_MS = 1500 };
    /* relaxed: who is the last here to leave has seen its own, and the others' as they left */
    if (atomic_load_explicit(&crossing->legs, memory_order_relaxed) == 0 ||
        hd_group_poisoned(crossing->group) == UCC_OK || !all_have_left(crossing)) {
        return false;
    }
    uint64_t now = hd_ticks(), since = 0;
    /* relaxed, both: only the time matters; whoever comes first sets it */
    (void)atomic_compare_exchange_strong_explicit(&crossing->parting, &since, now,
                                                  memory_order_relaxed, memory_order_relaxed);
    hd_net_pump(crossing->net);
    hd_span_drain();
    /* relaxed: as above */
    return atomic_load_explicit(&crossing->legs, memory_order_relaxed) != 0 &&
           now < (since ? since : now) + PATIENCE_MS * 1000 * hd_ticks_per_us;
}

void hd_crossing_see_off(hd_crossing_t *crossing) {
    while (!hd_group_is_inherited(crossing->group) && legs_linger(crossing)) {
        sched_yield(); /* other processes may have to give up what we have sent */
    }
}

bool hd_crossing_lingers(hd_crossing_t *crossing) {
    if (hd_group_is_inherited(crossing->group)) {
        return false;
    }
    /* acquire: pairs with the release in end_hello */
    if (crossing->ahead ||
        atomic_load_explicit(&crossing->greeted, memory_order_acquire) != HD_GREETING) {
        return legs_linger(crossing);
    }
    /* else end_hello is about to say that it is over */
    if (!hd_group_is_complete(crossing->group)) {
        hd_group_poison(crossing->group, UCC_ERR_NOT_FOUND);
    }
    hd_net_pump(crossing->net);
    /* acquire: pairs with the release in end_hello, as above */
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
    hd_span_t *span = found ? NULL : hd_span_of_set(crossing->span, set);
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

const hd_nodes_t *hd_crossing_node_set(hd_crossing_t *crossing, const hd_subset_t *set) {
    /* acquire: pairs with the release below; entries are immutable */
    hd_nodes_t *first = atomic_load_explicit(&crossing->node_sets, memory_order_acquire);
    const hd_span_t *processes = hd_crossing_set(crossing, set);
    hd_nodes_t *made = NULL;
    for (const hd_nodes_t *n = first; n; n = n->next) {
        if (find_set(n->span, set) == n->span) {
            return n;
        }
    }
    hd_span_t *span = processes ? hd_span_of_set(crossing->nodes->span, set) : NULL;
    made = span ? hd_nodes_create(processes, span) : NULL;
    if (!made) {
        return NULL;
    }
    do { /* another thread's of the same set is as good: then one is kept that nobody finds */
        made->next = first;
        /* release: publishes the nodes */
    } while (!atomic_compare_exchange_weak_explicit(&crossing->node_sets, &first, made,
                                                    memory_order_release, memory_order_acquire));
    return made;
}

/* --- failing ---------------------------------------------------------------------------------- */

void hd_crossing_abort(hd_crossing_t *crossing, ucc_status_t why) {
    /* relaxed: it only has to be one thread that tells; what it tells is not read here */
    if (atomic_exchange_explicit(&crossing->aborted, 1, memory_order_relaxed) == 0 &&
        !hd_group_is_inherited(crossing->group)) {
        hd_net_team_abort(crossing->team, why);
    }
}

void hd_crossing_leave(hd_crossing_t *crossing, uint64_t last) {
    /* relaxed, all: read by whoever gives up the last reference to the group */
    uint64_t before = atomic_load_explicit(&crossing->last, memory_order_relaxed);
    while (before < last &&
           !atomic_compare_exchange_weak_explicit(&crossing->last, &before, last,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* --- making and end --------------------------------------------------------------------------- */

/* The net's `failed`: the team is lost, because other processes have said so or can't be reached.
 * They need not be told. Called under a lane's lock. */
static void lost(void *arg, ucc_status_t why) {
    hd_crossing_t *crossing = arg;
    /* relaxed: the flag says nothing else */
    atomic_store_explicit(&crossing->aborted, 1, memory_order_relaxed);
    hd_group_poison(crossing->group, why);
}

/* The net's `swapped`: all parts of a swap are there; wakes who waits for them. Called under a
 * lane's lock. */
static void swapped(void *arg) {
    const hd_crossing_t *crossing = arg;
    hd_bell_ring(&crossing->group->home.bell);
}

/* The net's `tell`. Called under a lane's lock; the crossing and its group are there meanwhile. */
static void say(void *arg, void (*line)(void *to, const char *text), void *to) {
    hd_group_tell(((const hd_crossing_t *)arg)->group, false, line, to);
}

/* What hangs on the group is told that the group has failed in this process. */
static void tell(hd_outer_memory_t *memory, ucc_status_t why) {
    hd_crossing_abort(hd_crossing_of(memory), why);
}

/* What is asked for a process's teams is not told of this one any more. */
static void hush(hd_outer_memory_t *memory) {
    hd_net_team_tells(hd_crossing_of(memory)->team, NULL);
}

static void free_nodes(hd_crossing_t *crossing) {
    hd_free((void *)crossing->ferry);
    hd_nodes_free(crossing->nodes);
    free_tally(crossing->tally);
}

/* Frees the crossing; called when the last reference to its group has been given up. */
static void release(hd_outer_memory_t *memory) {
    hd_crossing_t *crossing = hd_crossing_of(memory);
    /* relaxed: this is the last user */
    hd_span_t *set = atomic_load_explicit(&crossing->sets, memory_order_relaxed);
    /* relaxed: as above; the greeting has kept the group to its end */
    hd_assert(atomic_load_explicit(&crossing->greeted, memory_order_relaxed) != HD_GREETING ||
              hd_group_is_inherited(crossing->group));
    /* relaxed: this is the last user */
    if (atomic_load_explicit(&crossing->greeted, memory_order_relaxed) == HD_GREETED) {
        hd_net_team_leave(crossing->team,
                          atomic_load_explicit(&crossing->last, memory_order_relaxed));
    }
    hd_net_team_destroy(crossing->team);
    hd_processors_part(&crossing->processors);
    /* in the child of a fork, the parent's reference does not count */
    if (!hd_group_is_inherited(crossing->group)) {
        hd_net_close(crossing->net);
    }
    for (hd_span_t *next; set; set = next) {
        next = set->next;
        hd_free(set);
    }
    hd_nodes_t *nodes = atomic_load_explicit(&crossing->node_sets, memory_order_relaxed);
    for (hd_nodes_t *next; nodes; nodes = next) {
        next = nodes->next;
        hd_nodes_free(nodes);
    }
    for (uint32_t a = 0; crossing->ferry && a < HD_FERRY_AREAS; a++) {
        /* relaxed: as above */
        hd_outer_memory_t *ferry = atomic_load_explicit(&crossing->ferry[a], memory_order_relaxed);
        if (ferry) {
            ferry->release(ferry);
        }
    }
    free_nodes(crossing);
    /* relaxed: as above */
    hd_ferry_block_t *block = atomic_load_explicit(&crossing->ferry_blocks, memory_order_relaxed);
    for (hd_ferry_block_t *next; block; block = next) {
        next = block->next;
        hd_free_local(block);
    }
    hd_free(crossing->labels);
    hd_origins_drop(crossing->agreements);
    hd_origin_drop(crossing->origin);
    hd_free(crossing->in_origin);
    hd_free(crossing->hello.call.scratch);
    for (uint32_t i = 0; i < crossing->pool.n; i++) { /* all legs are over */
        hd_free(crossing->pool.block[i].at);
    }
    /* relaxed: as above */
    hd_free_local(atomic_load_explicit(&crossing->swap_results, memory_order_relaxed));
    hd_free(crossing->obstacle);
    hd_free(crossing->span);
    hd_free(crossing);
}

static void look_who_is_here(hd_crossing_t *crossing) {
    const hd_span_t *span = crossing->span;
    uint32_t here = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        here += hd_net_team_is_beside(crossing->team, p) ? hd_span_count(span, p) : 0;
    }
    bool apart = here > crossing->group->n;
    crossing->crowded =
        apart ? here > hd_topo_n_pus(hd_topo_get())
              : hd_group_lacks_processors(crossing->group, here, hd_span_count(span, span->mine));
    if (apart) { /* more than those that share memory */
        crossing->processors = hd_processors_share(NULL, 0, crossing->crowded);
    }
}

/* The group gets to know which of the team's endpoints are its own, and their names. */
static void number_group(hd_group_t *group, hd_crossing_t *crossing, uint64_t *labels) {
    const hd_tally_t *tally = crossing->tally;
    const hd_nodes_t *nodes = tally && tally->has ? tally->claimed : crossing->nodes;
    const hd_span_t *span = nodes ? nodes->span : crossing->span;
    if (hd_group_is_mapped(group)) { /* its own lie in memory that it shares */
        crossing->labels = labels;
    } else {
        hd_free(group->labels);
    }
    group->labels = labels;
    group->numbers = span->endpoint + span->first[span->mine];
    group->team_n = span->n;
}

ucc_status_t hd_crossing_create(hd_group_t *group, hd_span_t *span, const hd_node_claim_t *claim,
                                hd_net_t *net, uint64_t wire, const hd_net_process_t *process,
                                uint64_t *labels, uint32_t terms, const hd_origin_ref_t *from,
                                const hd_config_t *config) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint32_t n = span->processes, here = hd_span_count(span, span->mine);
    size_t swap_most = (size_t)hd_config_uint(config, HD_CFG_LIB_NET_SWAP_MAX);
    const uint32_t *node_of = claim->node_of;
    bool tells = node_of && !claim->agreed; /* there may be no nodes in the end */
    bool swaps = n <= HD_SWAP_PROCESSES && !group->two_sided && swap_most > 0;
    swaps = swaps && (!node_of || tells);
    size_t places = swaps && here > 1 ? HD_SWAP_SLOTS : 0;
    size_t bytes = places * sizeof(hd_swap_place_t) + n * sizeof(*process);
    hd_crossing_t *crossing = hd_alloc(HD_LINE, sizeof(*crossing) + bytes);
    hd_origin_t *origin = from->origin;
    if (crossing && origin) {
        hd_origin_keep(origin);
    } else if (crossing) {
        origin = hd_origin_create(wire, span);
    }
    if (crossing && origin && node_of) {
        crossing->tally = tells ? make_tally(span, claim) : NULL;
        crossing->nodes = tells ? NULL : make_nodes(span, node_of);
        crossing->ferry = hd_alloc(HD_LINE, HD_FERRY_AREAS * sizeof(hd_outer_memory_t *));
    }
    if (!crossing || !origin ||
        (node_of && ((!crossing->nodes && !crossing->tally) || !crossing->ferry))) {
        hd_error("no memory for a team of %u processes", n);
        hd_origin_drop(origin);
        if (crossing) {
            free_nodes(crossing);
        }
        hd_free(crossing);
        return UCC_ERR_NO_MEMORY;
    }
    crossing->swap_most = swap_most < hd_net_swap_most(n) ? swap_most : hd_net_swap_most(n);
    crossing->memory = (hd_outer_memory_t){.release = release, .failed = tell, .ends = hush};
    crossing->group = group;
    crossing->span = span;
    crossing->net = net;
    crossing->placement =
        hd_config_choice(config, HD_CFG_LIB_REPRODUCIBLE) == HD_CFG_REPRODUCIBLE_PLACEMENT;
    crossing->wire = wire;
    crossing->since = hd_ticks();
    crossing->terms = terms;
    crossing->process = (hd_net_process_t *)(void *)(crossing->swap_place + places);
    for (uint32_t p = 0; p < n; p++) {
        memcpy(crossing->process[p].identity, process[p].identity, sizeof(process[p].identity));
    }
    crossing->origin = origin;
    crossing->in_origin = from->in_origin;
    pthread_once(&once, watch_forks);
    if (hd_trace_is_on()) {
        hd_trace_process(span->mine, n);
    }
    hd_net_team_params_t params = {.wire = wire,
                                   .n = n,
                                   .me = span->mine,
                                   .process = process,
                                   .config = config,
                                   .swaps = swaps,
                                   .early = here > 1,
                                   .over = from->over,
                                   .failed = lost,
                                   .swapped = swapped,
                                   .arg = crossing};
    ucc_status_t status = hd_net_team_create(net, &params, &crossing->team);
    if (status != UCC_OK) {
        hd_origin_drop(origin);
        free_nodes(crossing);
        hd_free(crossing);
        return status;
    }
    look_who_is_here(crossing);
    number_group(group, crossing, labels);
    group->outside = &crossing->memory;
    group->home.roomy = !crossing->crowded;
    group->home.fd_waiter = hd_net_fd_waiter();
    hd_net_team_tells(crossing->team, say); /* all that it reads is there */
    return UCC_OK;
}
