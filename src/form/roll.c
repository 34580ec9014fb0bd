/* roll.c: exchanges, and how members of several processes learn who lives where, and how each
 * process is reached (roll.h). It has no state of its own, but for a few pieces of memory that are
 * used when the heap has none.
 */
#include "form/form.h"
#include "form/roll.h"

#include "core/hash.h"

#include <poll.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 2048, /* there is memory for addresses of so many bytes, to begin with */
    MOST_BYTES = 1 << 20
};

/* --- memory to say that there is none --------------------------------------------------------- */

/* There are pieces for eight members, since threads of one process may wait for each other in one
 * exchange: each takes three at most. */
enum { SPARES = 24, SPARE_BYTES = 1 << 17 };
static alignas(HD_LINE_PAIR) uint8_t spare[SPARES][SPARE_BYTES];
static atomic_flag taken[SPARES];

void *hd_roll_room(size_t bytes, int32_t *trouble) {
    void *room = hd_alloc(HD_LINE_PAIR, bytes);
    if (room || !trouble) {
        return room;
    }
    *trouble = UCC_ERR_NO_MEMORY;
    for (uint32_t i = 0; !room && bytes <= SPARE_BYTES && i < SPARES; i++) {
        /* acquire; pairs with the release below: the user before has written its last */
        if (!atomic_flag_test_and_set_explicit(&taken[i], memory_order_acquire)) {
            room = memset(spare[i], 0, bytes);
        }
    }
    if (!room) {
        hd_error("no memory to tell the others of an exchange that this one lacks it");
    }
    return room;
}

void hd_roll_end_room(void *room) {
    for (uint32_t i = 0; i < SPARES; i++) {
        if (room == spare[i]) {
            atomic_flag_clear_explicit(&taken[i], memory_order_release);
            return;
        }
    }
    hd_free(room);
}

/* --- exchanges -------------------------------------------------------------------------------- */

ucc_status_t hd_roll_begin(hd_roll_t *roll, const ucc_oob_coll_t *oob, const char *who,
                           const hd_config_t *config) {
    uint32_t n = oob->n_oob_eps;
    roll->oob = *oob;
    roll->who = who;
    roll->config = config;
    hd_record_sign(&roll->mine, config);
    roll->all = hd_roll_room(n * (sizeof(*roll->all) + sizeof(*roll->told)),
                             n > 1 ? &roll->mine.trouble : NULL);
    if (!roll->all || roll->mine.trouble == UCC_ERR_NO_MEMORY) {
        hd_error("no memory for an exchange of %s %u of %u", who, oob->oob_ep, n);
    }
    if (!roll->all) {
        return UCC_ERR_NO_MEMORY;
    }
    roll->told = (hd_account_t *)(void *)(roll->all + n);
    return UCC_OK;
}

/* Returns the status of a call of the OOB's; an error is logged. */
static ucc_status_t check_call(const hd_roll_t *roll, const char *call, ucc_status_t status) {
    if (status >= 0) {
        return UCC_OK;
    }
    hd_error("%s of %s %u of %u failed: %s", call, roll->who, roll->oob.oob_ep, roll->oob.n_oob_eps,
             ucc_status_string(status));
    return status;
}

ucc_status_t hd_roll_give(hd_roll_t *roll, void *mine, void *all, size_t bytes) {
    const ucc_oob_coll_t *oob = &roll->oob;
    hd_assert(!roll->request); /* one at a time */
    roll->waited = (hd_stall_t){0};
    if (oob->n_oob_eps == 1) {
        memcpy(all, mine, bytes); /* there is nobody to exchange with */
        return UCC_OK;
    }
    ucc_status_t status = oob->allgather(mine, all, bytes, oob->coll_info, &roll->request);
    if (status < 0) {
        roll->request = NULL; /* whatever was written there, nothing is outstanding */
    }
    return check_call(roll, "oob.allgather", status);
}

ucc_status_t hd_roll_taken(hd_roll_t *roll) {
    if (roll->oob.n_oob_eps == 1) {
        return UCC_OK;
    }
    ucc_status_t status = roll->oob.req_test(roll->request);
    if (status == UCC_INPROGRESS) {
        return status;
    }
    ucc_status_t freed = roll->oob.req_free(roll->request);
    roll->request = NULL;
    return check_call(roll, "oob allgather", status < 0 ? status : freed);
}

void hd_roll_awaits(const hd_roll_t *roll, hd_text_t *text) {
    bool shares = roll->step == HD_ROLL_SHARE;
    if (roll->step == HD_ROLL_OPEN) {
        hd_text_add(text, "the network to be opened");
        return;
    }
    if (!shares) {
        hd_text_add(text, "its oob allgather, which not all may have called");
        if (roll->step != HD_ROLL_SHARED || !roll->kin || !hd_kin_has_late(roll->kin)) {
            return;
        }
        hd_text_add(text, "; and for ");
    }
    if (roll->kin) {
        hd_kin_awaits(roll->kin, text);
    } else {
        hd_text_add(text, "other processes of its machine");
    }
    hd_text_add(text, ", to share memory with");
}

/* The others may need the processor. What other processes of the node owe to this one comes to its
 * door. */
static void give_way(const hd_roll_t *roll, uint32_t looks) {
    enum { YIELDS = 4, MOST_MS = 1 };
    struct pollfd door = {.events = POLLIN};
    bool sleeps = false;
    if (roll->step == HD_ROLL_SHARE && looks > YIELDS) {
        int cancelling; /* others wait for what this thread holds */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
        door.fd = hd_node_fd(roll->door);
        sleeps = poll(&door, 1, MOST_MS) <= 0; /* another thread may take what comes */
        pthread_setcancelstate(cancelling, NULL);
    }
    if (!sleeps) {
        sched_yield();
    }
}

/* Calls a function until it is over: blocks, by contract. Logs a wait that is long. */
static ucc_status_t wait_for(hd_roll_t *roll, ucc_status_t (*next)(hd_roll_t *roll)) {
    ucc_status_t status;
    for (uint32_t looks = 1; (status = next(roll)) == UCC_INPROGRESS; looks++) {
        uint64_t now = hd_ticks();
        if (hd_stall_is_due(&roll->waited, now, roll->stall)) {
            hd_text_t what = {0};
            hd_roll_awaits(roll, &what);
            hd_stall_line("%s %u of %u has waited %.1f s for %s", roll->who, roll->oob.oob_ep,
                          roll->oob.n_oob_eps, hd_stall_seconds(&roll->waited, now), what.line);
        }
        give_way(roll, looks);
    }
    return status;
}

ucc_status_t hd_roll_exchange(hd_roll_t *roll, void *mine, void *all, size_t bytes) {
    ucc_status_t status = hd_roll_give(roll, mine, all, bytes);
    return status == UCC_OK ? wait_for(roll, hd_roll_taken) : status;
}

ucc_status_t hd_roll_blame(const hd_roll_t *roll, uint32_t member, int32_t told) {
    ucc_status_t why = told < 0 ? (ucc_status_t)told : UCC_ERR_INVALID_PARAM;
    bool lonely = roll->span && why == UCC_ERR_NOT_SUPPORTED;
    hd_error("oob allgather: %s %u of %u can't take part: %s", roll->who, member,
             roll->oob.n_oob_eps, lonely ? "its process has no network" : ucc_status_string(why));
    return why;
}

ucc_status_t hd_roll_refusal(const hd_roll_t *roll) {
    if (roll->mine.trouble != UCC_OK) {
        return (ucc_status_t)roll->mine.trouble;
    }
    for (uint32_t i = 0; i < roll->oob.n_oob_eps; i++) {
        const hd_record_t *r = &roll->all[i];
        if (r->version == roll->mine.version && r->trouble != UCC_OK) {
            return hd_roll_blame(roll, i, r->trouble);
        }
    }
    return UCC_OK;
}

ucc_status_t hd_roll_disagreement(const hd_roll_t *roll) {
    const hd_record_t *first = &roll->all[0];
    for (uint32_t i = 0; i < roll->oob.n_oob_eps; i++) {
        const hd_record_t *r = &roll->all[i];
        const char *what = r->version != first->version        ? "the version of Heddle"
                           : r->sync_type != first->sync_type  ? "sync_type"
                           : r->ordering != first->ordering    ? "ordering"
                           : !hd_record_same_process(r, first) ? hd_record_disagreed(r, first)
                                                               : NULL;
        if (what) {
            hd_error("%s differs between %s %u and %s 0 of %u", what, roll->who, i, roll->who,
                     roll->oob.n_oob_eps);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

ucc_status_t hd_roll_introduce(hd_roll_t *roll, const ucc_oob_coll_t *oob, const char *who,
                               const hd_config_t *config) {
    ucc_status_t status = hd_roll_begin(roll, oob, who, config);
    if (status == UCC_OK) {
        status = hd_roll_exchange(roll, &roll->mine, roll->all, sizeof(roll->mine));
    }
    for (uint32_t i = 0; status == UCC_OK && i < oob->n_oob_eps; i++) {
        roll->all[i].number = i;
    }
    return status == UCC_OK ? hd_roll_refusal(roll) : status;
}

uint64_t *hd_roll_words(hd_roll_t *roll) {
    _Static_assert(sizeof(*roll->told) == sizeof(uint64_t), "a word has the room of an account");
    return memset(roll->told, 0, roll->oob.n_oob_eps * sizeof(*roll->told));
}

uint64_t hd_roll_serial(const hd_roll_t *roll) {
    const hd_record_t *first = &roll->all[0];
    return hd_hash_mix(hd_hash_mix(hd_hash_mix(1, first->process[0]), first->process[1]),
                       first->serial);
}

/* --- several processes ------------------------------------------------------------------------ */

static int by_process(const void *a, const void *b) {
    const hd_record_t *x = *(const hd_record_t *const *)a, *y = *(const hd_record_t *const *)b;
    int order = memcmp(x->process, y->process, sizeof(x->process));
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

const hd_record_t *hd_roll_first(const hd_roll_t *roll, uint32_t process) {
    return &roll->all[roll->place_of[hd_span_endpoint(roll->span, process, 0)]];
}

/* Returns the length of a process's address, as its lowest member told it. */
static uint32_t address_bytes(const hd_roll_t *roll, uint32_t process) {
    return roll->told[hd_roll_first(roll, process) - roll->all].bytes;
}

/* Returns the bytes of a slice: the fewest members of a process give an address of so many. */
static uint32_t slice_of(const hd_span_t *span, uint32_t bytes) {
    uint32_t least = span->n;
    for (uint32_t p = 0; p < span->processes; p++) {
        least = hd_span_count(span, p) < least ? hd_span_count(span, p) : least;
    }
    return (bytes + least - 1) / least;
}

static uint32_t debug_nodes(const hd_roll_t *roll) {
    return roll->config ? (uint32_t)hd_config_uint(roll->config, HD_CFG_LIB_DEBUG_NODES) : 1;
}

/* If members live on several nodes, may those of a node share memory? Reductions then have the bits
 * of that grouping. */
static bool may_share_in_part(const hd_roll_t *roll) {
    return roll->by_nodes &&
           hd_config_choice(roll->config, HD_CFG_LIB_REPRODUCIBLE) != HD_CFG_REPRODUCIBLE_PLACEMENT;
}

/* Is member i the lowest of its process? */
static bool is_lowest(const hd_roll_t *roll, uint32_t i) {
    const hd_record_t *all = roll->all;
    uint32_t j = 0;
    while (j < roll->oob.n_oob_eps &&
           (all[j].number >= all[i].number || !hd_record_same_process(&all[j], &all[i]))) {
        j++;
    }
    return j == roll->oob.n_oob_eps;
}

/* Returns the number of a member's process, for one that may have no span: slow, for tests. */
static uint32_t process_number(const hd_roll_t *roll, uint32_t i) {
    const hd_record_t *all = roll->all;
    uint32_t lowest = all[i].number, number = 0;
    for (uint32_t j = 0; j < roll->oob.n_oob_eps; j++) {
        bool lower = all[j].number < lowest && hd_record_same_process(&all[j], &all[i]);
        lowest = lower ? all[j].number : lowest;
    }
    for (uint32_t j = 0; j < roll->oob.n_oob_eps; j++) {
        number += all[j].number < lowest && is_lowest(roll, j);
    }
    return number;
}

/* Do two members live on one node, in different processes that would share memory? */
static bool are_neighbours(const hd_roll_t *roll, uint32_t i, uint32_t j) {
    const hd_record_t *one = &roll->all[i], *other = &roll->all[j];
    uint32_t nodes = debug_nodes(roll);
    return one->shares && other->shares && one->host == other->host &&
           !hd_record_same_process(one, other) &&
           (nodes == 1 || process_number(roll, i) % nodes == process_number(roll, j) % nodes);
}

/* Would members share memory, if they can: all of them, or in part? The same at all of them, also
 * at one that has no span. */
static bool may_share(const hd_roll_t *roll) {
    uint32_t n = roll->oob.n_oob_eps, i = 0;
    while (i < n && roll->all[i].shares && roll->all[i].host == roll->all[0].host) {
        i++;
    }
    bool share = i == n && debug_nodes(roll) == 1;
    for (i = 0; i < n && !share && may_share_in_part(roll); i++) {
        for (uint32_t j = 0; j < i && !share; j++) {
            share = are_neighbours(roll, i, j);
        }
    }
    return share;
}

/* Why don't two processes live on one node, as far as their records tell? HD_OBSTACLE_NONE: they
 * seem to. For tests (DEBUG_NODES), those of one host may live on several. */
static hd_obstacle_kind_t apart_by_records(const hd_roll_t *roll, uint32_t p, uint32_t q) {
    const hd_record_t *one = hd_roll_first(roll, p), *other = hd_roll_first(roll, q);
    uint32_t nodes = debug_nodes(roll);
    return one->host != other->host         ? HD_OBSTACLE_HOST
           : !one->shares || !other->shares ? HD_OBSTACLE_UNWANTED
           : p % nodes != q % nodes         ? HD_OBSTACLE_DEBUG
                                            : HD_OBSTACLE_NONE;
}

/* Nobody shares memory. */
static void part_all(hd_roll_t *roll) {
    hd_obstacle_t why = {.kind = roll->by_nodes ? HD_OBSTACLE_PLACEMENT : HD_OBSTACLE_CONTEXTS};
    roll->nodes = roll->span->processes;
    for (uint32_t p = 0; p < roll->nodes; p++) {
        roll->node_of[p] = p;
        roll->parted[p] = why;
    }
}

static void find_nodes(hd_roll_t *roll) {
    roll->nodes = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint32_t q = 0;
        while (q < p &&
               (roll->node_of[q] != q || apart_by_records(roll, p, q) != HD_OBSTACLE_NONE)) {
            q++;
        }
        roll->node_of[p] = q;
        roll->nodes += q == p;
    }
    if (roll->nodes > 1 && !may_share_in_part(roll)) {
        part_all(roll);
    }
}

/* Allocates all that is needed after the accounts, for addresses of so many bytes. */
static void make_room(hd_roll_t *roll, uint32_t bytes) {
    const hd_span_t *span = roll->span;
    hd_free(roll->slices);
    hd_free(roll->process);
    roll->room = bytes;
    roll->slices = hd_alloc(HD_LINE, (size_t)(span->n + 1) * slice_of(span, bytes));
    roll->process = hd_alloc(HD_LINE, span->processes * (sizeof(*roll->process) + bytes));
    if (!roll->slices || !roll->process) {
        hd_error("no memory for the addresses of %u processes", span->processes);
        roll->trouble = UCC_ERR_NO_MEMORY;
    }
}

void hd_roll_take(hd_roll_t *roll) {
    uint32_t n = roll->oob.n_oob_eps, lowest = 0;
    const hd_record_t **sorted = (const hd_record_t **)(void *)hd_roll_words(roll);
    uint32_t *process_of = roll->place_of =
        hd_alloc(HD_LINE, n * (2 * sizeof(*process_of) + sizeof(*roll->parted)));
    roll->node_of = process_of ? process_of + n : NULL;
    roll->parted = process_of ? (hd_obstacle_t *)(void *)(process_of + 2 * n) : NULL;
    roll->step = may_share(roll) ? HD_ROLL_DOOR : HD_ROLL_OPEN;
    roll->waited = (hd_stall_t){0};
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = &roll->all[i];
    }
    qsort(sorted, n, sizeof(*sorted), by_process);
    for (uint32_t i = 0; process_of && i < n; i++) { /* a process is known by its lowest member */
        bool same = i > 0 && hd_record_same_process(sorted[i], sorted[i - 1]);
        lowest = same ? lowest : sorted[i]->number;
        process_of[sorted[i]->number] = lowest;
    }
    roll->span = process_of ? hd_span_create(n, process_of, roll->mine.number) : NULL;
    if (!roll->span) {
        hd_error("no memory for an exchange among several processes");
        roll->trouble = UCC_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        roll->place_of[roll->all[i].number] = i;
    }
    find_nodes(roll);
    make_room(roll, ROOM);
}

static ucc_status_t tell(hd_roll_t *roll) {
    roll->account.status = (int32_t)roll->trouble;
    return hd_roll_give(roll, &roll->account, roll->told, sizeof(roll->account));
}

/* --- memory that is shared -------------------------------------------------------------------- */

static ucc_status_t tell_door(hd_roll_t *roll) {
    roll->account.bytes = 0;
    if (roll->trouble == UCC_OK && roll->group_config) {
        (void)hd_kin_open_door(&roll->door, &roll->account.bytes); /* 0: it can't be opened */
    }
    roll->step = HD_ROLL_DOORS;
    return tell(roll);
}

/* What a process that lacks the memory tells of it, instead of HD_ROLL_HAS, and what the others
 * read: which process was in which state when it failed. */
static uint32_t obstacle_to_tell(const hd_obstacle_t *o) {
    return (o->whom + 1) << 8 | o->state;
}

static hd_obstacle_t obstacle_told(const hd_roll_t *roll, uint32_t by, uint32_t word) {
    hd_obstacle_t o = {.by = by, .whom = (word >> 8) - 1};
    o.state = (uint8_t)((word & 0xff) < HD_NODE_STATES ? word & 0xff : HD_NODE_NO_MEMORY);
    o.kind = roll->step == HD_ROLL_DOORS       ? HD_OBSTACLE_DOOR
             : (word & 0xff) == HD_NODE_STATES ? HD_OBSTACLE_MANY
                                               : HD_OBSTACLE_MEMORY;
    return o;
}

/* The processes of that node become nodes of their own. What parts it first is why: others then
 * lack it, too. */
static void part_node(hd_roll_t *roll, uint32_t node, hd_obstacle_t why) {
    for (uint32_t p = node; p < roll->span->processes; p++) {
        if (roll->node_of[p] != node) {
            continue;
        }
        if (roll->parted[p].kind == HD_OBSTACLE_NONE) {
            roll->parted[p] = why;
        }
        if (p > node) {
            roll->node_of[p] = p;
            roll->nodes++;
        }
    }
}

/* All have told a number; one who lacks what the others count on parts the node of its process.
 * Returns UCC_OK, or why a member can't go on (logged). */
static ucc_status_t read_numbers(hd_roll_t *roll) {
    if (!roll->span) {
        return hd_roll_blame(roll, roll->mine.number, (int32_t)roll->trouble);
    }
    uint32_t nodes = roll->nodes;
    for (uint32_t i = 0; i < roll->span->n; i++) {
        const hd_account_t *told = &roll->told[roll->place_of[i]];
        if (told->status != UCC_OK) {
            return hd_roll_blame(roll, i, told->status);
        }
        bool lacks = roll->step == HD_ROLL_DOORS ? told->bytes == 0 : told->bytes != HD_ROLL_HAS;
        uint32_t p = roll->span->process_of[i];
        if (lacks) {
            part_node(roll, roll->node_of[p], obstacle_told(roll, p, told->bytes));
        }
    }
    if (roll->nodes > nodes) {
        hd_info("processes of one machine can't share memory: they use the network");
    }
    return UCC_OK;
}

static bool is_alone(const hd_roll_t *roll) {
    uint32_t mine = roll->node_of[roll->span->mine], here = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        here += roll->node_of[p] == mine;
    }
    return here == 1;
}

hd_span_t *hd_roll_node_span(const hd_roll_t *roll, const hd_span_t *all) {
    uint32_t *process_of = hd_alloc(HD_LINE, all->n * sizeof(*process_of)), n = 0, me = 0;
    for (uint32_t e = 0; process_of && e < all->n; e++) {
        uint32_t p = all->process_of[e];
        me = e == hd_span_endpoint(all, all->mine, 0) ? n : me;
        if (roll->node_of[p] == roll->node_of[all->mine]) {
            process_of[n++] = p;
        }
    }
    hd_span_t *span = process_of ? hd_span_create(n, process_of, me) : NULL;
    if (!process_of) {
        hd_error("no memory for a node of a team of %u", all->n);
    }
    hd_free(process_of);
    return span;
}

/* Names the memory of this process's node. */
static uint64_t name_of_node(const hd_roll_t *roll) {
    uint64_t serial = hd_roll_serial(roll);
    return roll->nodes == 1 ? serial : hd_hash_mix(serial, roll->node_of[roll->span->mine]);
}

/* For the meeting of this process's members, of which the first to come does it. NULL: no
 * memory. */
static void *begin_kin(void *arg) {
    const hd_roll_t *roll = arg;
    const hd_span_t *all = roll->of_endpoints ? roll->of_endpoints : roll->span;
    uint32_t n = roll->span->processes, mine = roll->node_of[roll->span->mine], of_node = 0;
    hd_kin_process_t *process = hd_alloc(HD_LINE, n * sizeof(*process));
    for (uint32_t p = 0; process && p < n; p++) {
        const hd_record_t *first = hd_roll_first(roll, p);
        if (roll->node_of[p] == mine) { /* they are numbered alike in the team and on the node */
            process[of_node++] =
                (hd_kin_process_t){.identity = {first->process[0], first->process[1]},
                                   .door = address_bytes(roll, p),
                                   .number = p};
        }
    }
    hd_span_t *part = of_node < n && process ? hd_roll_node_span(roll, all) : NULL;
    hd_kin_params_t params = {.span = part ? part : all,
                              .process = process,
                              .config = roll->group_config,
                              .wire = name_of_node(roll),
                              .of_node = part};
    hd_kin_t *kin = part || of_node == n ? hd_kin_begin(&params) : NULL;
    hd_free(part);
    hd_free(process);
    return kin;
}

static ucc_status_t share(hd_roll_t *roll) {
    if (is_alone(roll)) {
        roll->account.bytes = 0;
        roll->step = HD_ROLL_SHARED;
        return tell(roll);
    }
    if (!roll->kin) {
        roll->kin = roll->meeting ? hd_meeting_memory(roll->meeting, begin_kin, roll, hd_kin_drop)
                                  : begin_kin(roll);
    }
    ucc_status_t status = roll->kin ? hd_kin_test(roll->kin) : UCC_ERR_NO_MEMORY;
    if (status == UCC_INPROGRESS) {
        return status;
    }
    if (status < 0) { /* nobody waits for it */
        hd_kin_refuse(roll->door, name_of_node(roll));
    }
    hd_obstacle_t why = hd_kin_obstacle(roll->kin);
    why.state = why.kind == HD_OBSTACLE_MANY ? HD_NODE_STATES : why.state;
    roll->account.bytes = status == UCC_OK ? HD_ROLL_HAS : obstacle_to_tell(&why);
    roll->step = HD_ROLL_SHARED;
    return tell(roll);
}

/* The doors' numbers have come, or which nodes share memory: goes on. */
static ucc_status_t read_shares(hd_roll_t *roll) {
    ucc_status_t status = read_numbers(roll);
    if (status != UCC_OK) {
        return status;
    }
    if (roll->nodes == roll->span->processes) {
        roll->step = HD_ROLL_OPEN;
    } else if (roll->step == HD_ROLL_DOORS) {
        roll->step = HD_ROLL_SHARE;
    } else if (roll->nodes == 1) {
        roll->together = true;
        roll->step = HD_ROLL_OVER;
    } else {
        roll->step = HD_ROLL_OPEN;
    }
    return UCC_OK;
}

/* --- the network ------------------------------------------------------------------------------ */

/* Returns whether some member lives on another host: the same at all members. */
static bool spans_hosts(const hd_roll_t *roll) {
    uint32_t i = 0;
    while (i < roll->oob.n_oob_eps && roll->all[i].host == roll->mine.host) {
        i++;
    }
    return i < roll->oob.n_oob_eps;
}

static ucc_status_t open_network(hd_roll_t *roll) {
    size_t bytes = 0;
    ucc_status_t status = roll->trouble;
    roll->far = spans_hosts(roll);
    status = status == UCC_OK ? hd_net_open(roll->config, roll->far, &roll->net) : status;
    if (status == UCC_INPROGRESS) { /* another thread is opening it */
        return status;
    }
    if (status == UCC_OK) {
        hd_net_address(roll->net, roll->far, &bytes);
    }
    roll->trouble = status;
    roll->account.bytes = (uint32_t)bytes;
    roll->step = HD_ROLL_ACCOUNTS;
    return tell(roll);
}

/* Some member has no network. Those of the others that lack nothing else do without, too. */
static ucc_status_t do_without(hd_roll_t *roll) {
    hd_info("%ss in %u processes, without a network: no team of theirs can span processes",
            roll->who, roll->span->processes);
    if (roll->net) {
        hd_net_close(roll->net);
        roll->net = NULL;
    }
    roll->step = HD_ROLL_OVER;
    return roll->trouble == UCC_ERR_NOT_SUPPORTED ? UCC_OK : roll->trouble;
}

/* Gives this member's slice of its process's address. */
static ucc_status_t give_slice(hd_roll_t *roll, uint32_t longest) {
    const hd_span_t *span = roll->span;
    size_t bytes;
    const uint8_t *address = hd_net_address(roll->net, roll->far, &bytes);
    roll->slice = slice_of(span, longest);
    uint8_t *mine = roll->slices + (size_t)span->n * roll->slice;
    size_t at = (size_t)roll->slice * span->local_of[roll->mine.number];
    memset(mine, 0, roll->slice);
    if (at < bytes) {
        memcpy(mine, address + at, bytes - at < roll->slice ? bytes - at : roll->slice);
    }
    roll->step = HD_ROLL_SLICES;
    return hd_roll_give(roll, mine, roll->slices, roll->slice);
}

/* The accounts have come: goes on to the addresses, or, if some address is longer than the room for
 * it, to accounts once more. All members that have a span come to the same answer. */
static ucc_status_t read_accounts(hd_roll_t *roll) {
    uint32_t most = 0;
    if (!roll->span) {
        return hd_roll_blame(roll, roll->mine.number, (int32_t)roll->trouble);
    }
    for (uint32_t i = 0; i < roll->span->n; i++) {
        const hd_account_t *told = &roll->told[roll->place_of[i]];
        uint32_t expected = address_bytes(roll, roll->span->process_of[i]);
        if (told->status == UCC_ERR_NOT_SUPPORTED && roll->optional) {
            return do_without(roll);
        }
        if (told->status != UCC_OK || told->bytes == 0 || told->bytes > MOST_BYTES ||
            told->bytes != expected) {
            return hd_roll_blame(roll, i, told->status);
        }
        most = told->bytes > most ? told->bytes : most;
    }
    if (most > roll->room) {
        make_room(roll, most);
        return tell(roll);
    }
    return give_slice(roll, most);
}

/* An exchange is outstanding: goes on when it is over. */
static ucc_status_t go_on(hd_roll_t *roll) {
    ucc_status_t status = hd_roll_taken(roll);
    if (status != UCC_OK) {
        if (roll->step == HD_ROLL_SHARED && roll->door) {
            hd_kin_progress(roll->door); /* other processes may need this one */
        }
        return status;
    }
    switch (roll->step) {
    case HD_ROLL_DOORS:
    case HD_ROLL_SHARED:
        return read_shares(roll);
    case HD_ROLL_ACCOUNTS:
        return read_accounts(roll);
    default:
        roll->step = HD_ROLL_OVER;
        return UCC_OK;
    }
}

ucc_status_t hd_roll_call(hd_roll_t *roll) {
    ucc_status_t status = UCC_OK;
    while (status == UCC_OK && roll->step != HD_ROLL_OVER) {
        status = roll->step == HD_ROLL_DOOR    ? tell_door(roll)
                 : roll->step == HD_ROLL_SHARE ? share(roll)
                 : roll->step == HD_ROLL_OPEN  ? open_network(roll)
                                               : go_on(roll);
    }
    return status;
}

ucc_status_t hd_roll_call_through(hd_roll_t *roll) {
    return wait_for(roll, hd_roll_call);
}

hd_obstacle_t *hd_roll_obstacles(const hd_roll_t *roll) {
    const hd_span_t *span = roll->span;
    hd_obstacle_t *obstacle = hd_alloc(HD_LINE, span->processes * sizeof(*obstacle));
    for (uint32_t p = 0; obstacle && p < span->processes; p++) {
        obstacle[p].kind = (uint8_t)apart_by_records(roll, p, span->mine);
        if (obstacle[p].kind == HD_OBSTACLE_NONE && roll->node_of[p] != roll->node_of[span->mine]) {
            obstacle[p] = roll->parted[p];
        }
    }
    return obstacle;
}

bool hd_roll_has_node(const hd_roll_t *roll) {
    return hd_roll_is_mixed(roll) && !is_alone(roll);
}

hd_net_process_t *hd_roll_processes(hd_roll_t *roll) {
    const hd_span_t *span = roll->span;
    hd_net_process_t *process = roll->process;
    uint8_t *to = (uint8_t *)(process + span->processes);
    for (uint32_t p = 0; p < span->processes; p++) {
        const uint64_t *identity = hd_roll_first(roll, p)->process;
        uint32_t bytes = address_bytes(roll, p), i = 0;
        process[p] = (hd_net_process_t){
            .identity = {identity[0], identity[1]}, .address = to, .bytes = bytes};
        for (const uint8_t *end = to + bytes; to < end; i++) { /* puts its slices together */
            uint32_t place = roll->place_of[hd_span_endpoint(span, p, i)];
            size_t some = (size_t)(end - to) < roll->slice ? (size_t)(end - to) : roll->slice;
            memcpy(to, roll->slices + (size_t)place * roll->slice, some);
            to += some;
        }
    }
    roll->process = NULL;
    return process;
}

void hd_roll_end(hd_roll_t *roll) {
    if (roll->net) {
        hd_net_close(roll->net);
    }
    if (roll->kin && !roll->meeting) {
        hd_kin_drop(roll->kin);
    }
    if (roll->door) {
        hd_kin_close_door(roll->door);
    }
    hd_free(roll->of_endpoints);
    hd_free(roll->span);
    hd_free(roll->place_of);
    hd_roll_end_room(roll->all);
    hd_free(roll->slices);
    hd_free(roll->process);
    *roll = (hd_roll_t){0};
}

void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, ucc_status_t why) {
    hd_roll_t roll = {.stall = stall, .mine.trouble = (int32_t)why};
    (void)hd_roll_introduce(&roll, oob, who, NULL);
    hd_roll_end(&roll);
}
