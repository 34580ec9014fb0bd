/* stall.c: what is said of endpoints that are waited for too long: who they are and what they do,
 * as far as shared memory tells.
 *
 * Who may call: whoever waits, for a wait of its own. Nothing here is on a path that is taken
 * before STALL seconds have passed without a result. Peers may go on at any moment, so what is read
 * of them is read atomically, and may be old when it is printed; nothing is decided by it.
 */
#include "shm/internal.h"
#include "shm/outer.h"
#include "shm/phases.h"

/* What peers see of endpoint e on the main board; NULL: e has not joined. */
static hd_shared_t *shared_of(const hd_group_t *group, uint32_t e) {
    return hd_board_peer(group->board, e);
}

static bool is_absent(const void *arg, uint32_t e) {
    return !shared_of(arg, e);
}

/* The same, asked by a number in the team: is it one of this process's? */
static bool is_absent_number(const void *arg, uint32_t number) {
    const hd_group_t *group = arg;
    uint32_t e = hd_group_member(group, number);
    return e < group->n && is_absent(group, e);
}

/* The mapping in which a member of a group lives; of one whose memory is private, 0. */
static uint32_t home_of(const hd_group_t *group, uint32_t e) {
    return group->home_of ? group->home_of[e] : 0;
}

void hd_group_say_processes(const hd_group_t *group, hd_text_t *text,
                            bool (*in)(const void *arg, uint32_t e), const void *arg) {
    bool has[HD_FAR_MOST] = {false};
    uint32_t n = hd_group_spans_processes(group) ? group->mapping.n : 0, count = 0, number,
             last = 0;
    for (uint32_t e = 0; n && e < group->n; e++) {
        uint32_t home = home_of(group, e);
        if (home < n && !has[home] && in(arg, e)) {
            has[home] = true;
            count++;
            last = home;
        }
    }
    if (count == 1) {
        hd_text_add(text, " of ");
        hd_who_say(group, last, text);
        hd_text_add(text, ")");
    }
    /* on a node of a team of several, numbers need not follow each other */
    for (uint32_t p = 0, run = 0, before = 0; count > 1 && p <= n; p++) {
        bool is = p < n && has[p] && hd_who_number(group, p, &number);
        bool follows = is && run && number == before + 1;
        if (run > 1 && !follows && (is || p == n)) {
            hd_text_add(text, "-%u", before);
        }
        if (is && !follows) {
            hd_text_add(text, run ? ", %u" : " of processes %u", number);
        }
        run = follows ? run + 1 : is ? 1 : run;
        before = is ? number : before;
    }
}

void hd_group_stalled(const hd_group_t *group, hd_stall_t *stall, uint64_t now, uint32_t me) {
    hd_text_t text = {0};
    if (!hd_stall_is_due(stall, now, group->stall)) {
        return;
    }
    if (hd_text_numbers(&text, group->team_n, is_absent_number, group) == 0) {
        hd_text_add(&text, "the last endpoint to finish joining");
    } else {
        hd_group_say_processes(group, &text, is_absent, group);
    }
    hd_stall_line("team of %u: endpoint %u has waited %.1f s for %s to join", group->team_n, me,
                  hd_stall_seconds(stall, now), text.line);
}

/* --- whom an operation waits for -------------------------------------------------------------- */

/* What is missing, and from which members of the operation's board. */
typedef struct need {
    const hd_op_t *op;
    bool (*from)(const struct need *need, uint32_t i); /* NULL: from no other endpoint */
    const char *what; /* follows the members' names; NULL: the outer stage knows for whom */
} need_t;

static uint64_t consumed_of(const hd_shared_t *shared) {
    return atomic_load_explicit(&shared->consumed, memory_order_relaxed); /* only told */
}

static bool has_not_joined(const need_t *need, uint32_t i) {
    return is_absent(need->op->group, i);
}

static bool has_not_arrived(const need_t *need, uint32_t i) {
    const hd_op_t *op = need->op;
    return i != op->place.me &&
           !hd_lane_is_there(hd_board_lane(op->place.board, i, op->place.k), op->place.k);
}

static bool is_root(const need_t *need, uint32_t i) {
    return i == need->op->call.root;
}

static bool owes_a_line(const need_t *need, uint32_t i) {
    return hd_arrive_owes(need->op, i);
}

static bool has_not_arrived_below(const need_t *need, uint32_t i) {
    return hd_arrive_is_mine(need->op, i) && has_not_arrived(need, i);
}

static bool owes_a_line_below(const need_t *need, uint32_t i) {
    return hd_arrive_is_mine(need->op, i) && owes_a_line(need, i);
}

static bool is_at_work(const need_t *need, uint32_t i) {
    /* relaxed: only told */
    return atomic_load_explicit(&need->op->place.board->shared[i]->at_work, memory_order_relaxed) !=
           0;
}

static bool is_writing(const need_t *need, uint32_t i) {
    const hd_shared_t *shared = shared_of(need->op->group, i);
    /* relaxed: only told */
    return shared && atomic_load_explicit(&shared->writing, memory_order_relaxed) != 0;
}

static bool holds_the_floor(const need_t *need, uint32_t i) {
    const hd_op_t *op = need->op;
    return consumed_of(op->place.board->shared[i]) + op->place.board->depth < op->place.k;
}

/* Who is asked: the members of the board, or, as long as there is none, the team's endpoints. */
static uint32_t n_asked(const hd_op_t *op) {
    return op->place.board ? op->place.n : op->group->n;
}

static bool any(const need_t *need) {
    uint32_t n = n_asked(need->op), i = 0;
    while (i < n && !need->from(need, i)) {
        i++;
    }
    return i < n;
}

static need_t of_joining(const hd_op_t *op) {
    return hd_group_is_sealed(op->group) ? (need_t){op, NULL, NULL}
                                         : (need_t){op, has_not_joined, " to join"};
}

static need_t of_queued(const hd_op_t *op) {
    uint64_t half = op->place.board->depth / 2;
    if (!hd_group_is_complete(op->group)) {
        return of_joining(op);
    }
    if (op->place.k - consumed_of(op->place.member->shared) > half) {
        return (need_t){op, NULL, "its own operations before it to end"};
    }
    return (need_t){op, holds_the_floor, " to end what came before"};
}

/* Has the data one source, for which alone this endpoint waits? */
static bool waits_for_root(const hd_op_t *op) {
    return hd_coll[op->call.type].flow == HD_FROM_ROOT && !op->call.is_root && !op->outer &&
           op->wait != hd_engine_step && op->wait != hd_arrived;
}

/* Does this endpoint only combine arrivals for others' sake, before it may end? (Nobody waits for
 * all in these, but their roots for what they are sent; root: in scatterv, it has come.) */
static bool only_combines(const hd_op_t *op) {
    if (!op->arriving || !op->group->static_arrival || op->wait == hd_engine_step) {
        return false;
    }
    const hd_coll_t *coll = &hd_coll[op->call.type];
    return coll->rooted && !op->plan.all_wait && !(coll->flow == HD_TO_ROOT && op->call.is_root);
}

static need_t of_launched(const hd_op_t *op) {
    need_t arrival = {op, has_not_arrived, ""};
    need_t chunk = {op, is_at_work, " to finish a chunk"};
    need_t line = {op, owes_a_line, " to hand on what has arrived"};
    bool beyond = op->phase == HD_PHASE_LOCAL || op->cancels;
    bool of_root = !beyond && waits_for_root(op);
    if (of_root && has_not_arrived(&arrival, op->call.root)) {
        return (need_t){op, is_root, ""};
    }
    if (!beyond && only_combines(op)) {
        of_root = false;
        arrival.from = has_not_arrived_below;
        line.from = owes_a_line_below;
    }
    if (!beyond && !of_root && any(&arrival)) {
        return arrival;
    }
    if (beyond && any(&chunk)) {
        return chunk;
    }
    if (!beyond && op->arriving && op->group->static_arrival && any(&line)) {
        return line;
    }
    return (need_t){op, NULL, op->outer ? NULL : "endpoints that have all arrived to go on"};
}

static need_t need_of(const hd_op_t *op) {
    if (op->phase == HD_PHASE_COPY_IN || op->phase == HD_PHASE_COPY_OUT) {
        return (need_t){op, NULL, op->frame->needs};
    }
    if (!op->start) { /* it stands for a triggered post (request/engine.c) */
        return (need_t){op, NULL, "its event"};
    }
    if (op->cancels && op->call.one_sided) { /* with or without a board */
        return (need_t){op, is_writing, " to finish its copy"};
    }
    if (!op->place.board) { /* posted before there was one to be matched on */
        return hd_group_is_complete(op->group)
                   ? (need_t){op, NULL, "its own operations before it to be matched"}
                   : of_joining(op);
    }
    return op->phase == HD_PHASE_MATCH ? of_queued(op) : of_launched(op);
}

/* --- what a peer does ------------------------------------------------------------------------- */

static const char *type_of(const hd_lane_t *lane) {
    return hd_type_name(hd_lane_type(lane));
}

/* The lane of the highest number that this member of a board has published; NULL: none yet. */
static const hd_lane_t *last_lane(const hd_board_t *board, const hd_shared_t *shared,
                                  uint64_t *last) {
    const hd_lane_t *lane = NULL;
    *last = 0;
    for (uint32_t d = 0; d < board->depth; d++) {
        /* acquire: the lane's signature is that of this number, or of a later one */
        uint64_t k = atomic_load_explicit(&shared->lane[d].seq, memory_order_acquire);
        if (k > *last) {
            *last = k;
            lane = &shared->lane[d];
        }
    }
    return lane;
}

/* The collectives of the team's main order: where a peer stands among them. */
static void add_position(hd_text_t *text, const hd_board_t *main, const hd_shared_t *peer) {
    uint64_t last, first = consumed_of(peer) + 1;
    const hd_lane_t *lane = last_lane(main, peer, &last);
    if (!lane) {
        hd_text_add(text, "in no collective yet");
    } else if (first > last) {
        hd_text_add(text, "last in %s %llu", type_of(lane), (unsigned long long)last);
    } else {
        lane = &peer->lane[first & main->mask];
        hd_text_add(text, "still in %s %llu", type_of(lane), (unsigned long long)first);
    }
}

static const char *state_of(const hd_group_t *group, uint32_t e, int32_t thread) {
    return hd_who_thread_state(group, home_of(group, e), thread);
}

/* What is known of member e's thread. Whoever joined it need not be who uses it. answers: the
 * caller does not wait itself, but answers who asks. */
static void add_thread(hd_text_t *text, const hd_group_t *group, uint32_t e, bool answers) {
    /* relaxed: only told */
    int32_t thread = atomic_load_explicit(&shared_of(group, e)->thread, memory_order_relaxed);
    bool joined = thread < 0, here = hd_who_is_here(group, home_of(group, e));
    thread = joined ? -thread : thread;
    const char *state = thread ? state_of(group, e, thread) : NULL;
    if (state && here && thread == hd_thread_number()) {
        hd_text_add(text, "; %s",
                    answers  ? (joined ? "joined by the thread that answers" : "its thread answers")
                    : joined ? "joined by the caller's thread"
                             : "its thread is the caller's");
    } else if (state) {
        hd_text_add(text, "; %s %s", joined ? "the thread that joined it" : "its thread", state);
    }
}

/* " (", or " of process 1 (host node7, pid 4711; " where member e lives in another one. */
static void add_home(hd_text_t *text, const hd_group_t *group, uint32_t e) {
    if (hd_who_is_here(group, home_of(group, e))) {
        hd_text_add(text, " (");
        return;
    }
    hd_text_add(text, " of ");
    hd_who_say(group, home_of(group, e), text);
    hd_text_add(text, "; ");
}

/* " (last in allreduce 16; its thread sleeps)" */
static void add_peer(hd_text_t *text, const hd_op_t *op, uint32_t i) {
    const hd_group_t *group = op->group;
    uint32_t e = hd_op_member(op, i);
    const hd_shared_t *peer = shared_of(group, e);
    add_home(text, group, e);
    if (!peer) {
        hd_text_add(text, "has not joined)");
        return;
    }
    const hd_lane_t *lane = op->place.board ? hd_board_lane(op->place.board, i, op->place.k) : NULL;
    /* relaxed: only told */
    bool left = atomic_load_explicit(&peer->left, memory_order_relaxed) != 0;
    hd_text_add(text, "%s", left ? "has left; " : "");
    if (lane && op->phase != HD_PHASE_MATCH && hd_lane_is_there(lane, op->place.k)) {
        hd_text_add(text, "in %s", type_of(lane));
    } else {
        add_position(text, group->board, peer);
    }
    add_thread(text, group, e, false);
    hd_text_add(text, ")");
}

/* hd_text_numbers asks by the team's numbers. */
static bool is_needed(const void *arg, uint32_t e) {
    const need_t *need = arg;
    const hd_op_t *op = need->op;
    if (!op->place.board) {
        e = hd_group_member(op->group, e);
        return e < op->group->n && need->from(need, e);
    }
    if (!op->place.board->head->subset.n && !op->group->numbers) {
        return need->from(need, e);
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        if (hd_op_endpoint(op, i) == e) {
            return need->from(need, i);
        }
    }
    return false;
}

/* The same by numbers of the group's members. */
static bool is_needed_member(const void *arg, uint32_t e) {
    const need_t *need = arg;
    return is_needed(need, hd_group_number(need->op->group, e));
}

/* Of many, only how many are in which state. */
static void add_summary(hd_text_t *text, const need_t *need) {
    enum { MOST_THREADS = 64 }; /* each costs a look into /proc */
    uint32_t absent = 0, ended = 0, looks = 0;
    for (uint32_t i = 0; i < n_asked(need->op); i++) {
        if (!need->from(need, i)) {
            continue;
        }
        uint32_t e = hd_op_member(need->op, i);
        const hd_shared_t *peer = shared_of(need->op->group, e);
        absent += !peer;
        /* relaxed: only told */
        int32_t thread = peer ? atomic_load_explicit(&peer->thread, memory_order_relaxed) : 0;
        thread = thread < 0 ? -thread : thread;
        const char *state =
            thread && looks++ < MOST_THREADS ? state_of(need->op->group, e, thread) : NULL;
        ended += state && strcmp(state, "has ended") == 0;
    }
    if (absent) {
        hd_text_add(text, " (%u have not joined)", absent);
    }
    if (ended) {
        hd_text_add(text, " (the threads last seen at %u have ended)", ended);
    }
}

static void add_awaited(const hd_op_t *op, hd_text_t *text) {
    enum { FEW = 4 };
    need_t need = need_of(op);
    uint32_t n = n_asked(op), count = 0;
    if (!need.from && !need.what) {
        if (op->outer) {
            op->outer->awaits(op, text);
        } else {
            hd_text_add(text, "other processes to form the team");
        }
        return;
    }
    for (uint32_t i = 0; need.from && i < n; i++) {
        count += need.from(&need, i);
    }
    if (count == 0) { /* nobody, or they have come just now */
        hd_text_add(text, "%s", need.from ? "endpoints that are just coming" : need.what);
        return;
    }
    if (count > FEW) {
        hd_text_numbers(text, op->group->team_n, is_needed, &need);
        hd_group_say_processes(op->group, text, is_needed_member, &need);
        add_summary(text, &need);
    }
    for (uint32_t i = 0, said = 0; count <= FEW && i < n; i++) {
        if (need.from(&need, i)) {
            const char *before = said == 0 ? "" : said + 1 == count ? " and " : ", ";
            hd_text_add(text, "%sendpoint %llu", before, (unsigned long long)hd_op_endpoint(op, i));
            add_peer(text, op, i);
            said++;
        }
    }
    hd_text_add(text, "%s", need.what);
}

/* --- lines ------------------------------------------------------------------------------------ */

enum { TITLE = 192, ALL_SPEAK = 8 /* endpoints, of which each speaks for itself */ };

/* One that was posted before there was a board to be matched on has no other name than its type. */
static const char *title(const hd_op_t *op, char *text, size_t size) {
    const char *type = hd_op_type_name(op);
    return op->place.board ? hd_op_title(op, type, text, size) : type;
}

/* In a large team one endpoint speaks for all that wait in the same exchange for as long. */
static bool may_speak(const hd_op_t *op, const hd_stall_t *stall) {
    hd_board_t *board = op->place.board ? op->place.board : op->group->board;
    if (op->group->n <= ALL_SPEAK) {
        return true;
    }
    uint32_t times = 0;
    for (uint64_t after = stall->after; after > op->group->stall; after /= 2) {
        times++;
    }
    uint64_t mine = op->place.k * 64 + times % 64;
    /* relaxed: only decides who speaks */
    return atomic_exchange_explicit(&board->head->said, mine, memory_order_relaxed) != mine;
}

/* What crosses processes waits in phases that differ by its size: says which. */
static void add_plan(const hd_op_t *op, hd_text_t *text) {
    bool launched = op->phase == HD_PHASE_ARRIVE || op->phase == HD_PHASE_LOCAL;
    hd_phases_t phases = {0};
    if ((op->outer || hd_group_spans_processes(op->group)) && launched) {
        phases = hd_op_phases(op, &op->plan);
    }
    if (phases.n > 0) {
        hd_text_add(text, " (it runs as: ");
        hd_phases_print(&phases, text);
        hd_text_add(text, ")");
    }
}

static void say(const hd_op_t *op, const hd_stall_t *stall, uint64_t now) {
    hd_text_t awaited = {0};
    char name[TITLE];
    add_awaited(op, &awaited);
    add_plan(op, &awaited);
    hd_stall_line("%s: endpoint %u of %u has waited %.1f s for %s", title(op, name, sizeof(name)),
                  op->team_ep, op->group->team_n, hd_stall_seconds(stall, now), awaited.line);
}

void hd_op_log_timeout(const hd_op_t *op) {
    hd_text_t awaited = {0};
    char name[TITLE];
    if (hd_log_enabled(HD_LOG_ERROR)) {
        add_awaited(op, &awaited);
        add_plan(op, &awaited);
        hd_log_line(HD_LOG_ERROR, __func__,
                    "time-out: %s: endpoint %u of %u has waited in vain for %s",
                    title(op, name, sizeof(name)), op->team_ep, op->group->team_n, awaited.line);
    }
}

/* The default time-out: the next step finds that the deadline has passed. */
static void expire(hd_op_t *op, uint64_t now) {
    hd_member_t *member = op->place.member;
    op->task.deadline = now;
    if (!op->place.board || op->phase != HD_PHASE_MATCH) {
        return;
    }
    if (op->place.locked) {
        hd_lock(&member->lock);
    }
    if (!member->queue_deadline || now < member->queue_deadline) {
        member->queue_deadline = now;
    }
    if (op->place.locked) {
        hd_unlock(&member->lock);
    }
}

uint64_t hd_op_look_after(hd_op_t *op, hd_op_waits_t *waits, uint64_t now) {
    const hd_group_t *group = op->group;
    hd_stall_t *stall = &waits->stall;
    uint64_t next = UINT64_MAX;
    uint64_t use = op->place.board ? op->place.board->head->use : 0;
    if (waits->k != op->place.k || waits->board != op->place.board ||
        waits->use != use) { /* another post */
        *waits = (hd_op_waits_t){.k = op->place.k, .board = op->place.board, .use = use};
    }
    if (op->place.board == group->board) {
        hd_shared_t *shared = op->place.member->shared;
        /* relaxed, both: only told */
        atomic_store_explicit(&shared->waits_since, stall->since, memory_order_relaxed);
        atomic_store_explicit(&shared->waits_for, op->place.k, memory_order_relaxed);
    }
    if (!hd_stall_is_helping()) {
        /* relaxed: only told; so is every use of it */
        atomic_store_explicit(&shared_of(group, hd_op_own_member(op))->thread, hd_thread_number(),
                              memory_order_relaxed);
    }
    hd_waits_note(op, waits_for_root(op) ? op->call.root : UINT32_MAX, now);
    if (hd_stall_is_due(stall, now, group->stall) && may_speak(op, stall)) {
        say(op, stall, now);
    }
    if (group->stall) {
        next = stall->since + stall->after;
    }
    if (group->timeout && !op->task.deadline) {
        uint64_t end = stall->since + group->timeout;
        if (now >= end) {
            expire(op, now);
        } else {
            next = end < next ? end : next;
        }
    }
    return next;
}

/* --- what endpoints do, for who asks ---------------------------------------------------------- */

static void add_since(hd_text_t *text, const hd_shared_t *shared, uint64_t now) {
    /* relaxed, both: only told */
    uint64_t k = atomic_load_explicit(&shared->waits_for, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&shared->waits_since, memory_order_relaxed);
    if (k > consumed_of(shared) && since && now > since) {
        hd_text_add(text, ", has waited %.1f s in %llu", hd_ticks_to_seconds(now - since),
                    (unsigned long long)k);
    }
}

void hd_group_tell(const hd_group_t *group, bool here, void (*line)(void *to, const char *text),
                   void *to) {
    enum { MOST = 32 };
    uint64_t now = hd_ticks();
    hd_text_t more = {0};
    uint32_t told = 0, left_out = 0;
    for (uint32_t e = 0; e < group->n; e++) {
        const hd_shared_t *shared = shared_of(group, e);
        bool mine = hd_who_is_here(group, home_of(group, e));
        hd_text_t text = {0};
        if ((here && !mine) || told == MOST) {
            left_out += mine || !here;
            continue;
        }
        told++;
        hd_text_add(&text, "endpoint %u", hd_group_number(group, e));
        if (!mine) {
            hd_text_add(&text, " of ");
            hd_who_say(group, home_of(group, e), &text);
            hd_text_add(&text, ")");
        }
        hd_text_add(&text, ": ");
        if (!shared) {
            hd_text_add(&text, "has not joined");
        } else {
            /* relaxed: only told */
            bool left = atomic_load_explicit(&shared->left, memory_order_relaxed) != 0;
            hd_text_add(&text, "%s", left ? "has left; " : "");
            if (group->n > 1) {
                add_position(&text, group->board, shared);
            } else { /* an only endpoint publishes no lane for swaps */
                hd_text_add(&text, "through with all collectives up to %llu",
                            (unsigned long long)consumed_of(shared));
            }
            add_since(&text, shared, now);
            add_thread(&text, group, e, true);
        }
        line(to, text.line);
    }
    if (left_out) {
        hd_text_add(&more, "and %u more endpoints", left_out);
        line(to, more.line);
    }
}
