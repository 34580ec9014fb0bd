/* ferry.c: how the operations of teams with nodes live (ferry.h): areas, the steps of their
 * members, and the legs that carry rounds. What is in a round, ferry_rounds.c knows.
 *
 * AREAS are taken from a table of the group's, in the memory that its processes share; one that is
 * used for the first time gets memory then. Member 0 of an exchange takes one when all have
 * arrived, and tells the others in the exchange; the last member to leave gives it back. In a group
 * that fails they stay taken: nobody uses them again.
 *
 * Nodes take them in orders of their own, and an exchange gives its area back only when the other
 * nodes have one for it, too. So there are many: of operations with tags, which each node may begin
 * in another order, as many may be under way as a node has areas. Of others, each node begins the
 * same few first.
 *
 * A LEG lies in memory of its process, one set for each area. Whoever of the process finds that a
 * round can be carried starts its leg, under the set's lock; then it is its lane's. Its last step
 * says so in the area, and touches neither area nor leg after that: the slot's next round may have
 * them. It keeps the group until then (hd_span_defer_unref).
 */
#include "shm/phases.h"
#include "span/ferry.h"

#include <string.h>

/* --- areas ------------------------------------------------------------------------------------ */

enum { KEY_SHIFT = 16, WORDS = HD_FERRY_AREAS / 64 };

/* Shared. */
typedef struct table {
    alignas(HD_LINE) _Atomic uint64_t taken[WORDS]; /* a bit per area: an exchange has it */
    _Atomic uint64_t at[HD_FERRY_AREAS]; /* where each lies; 0: it has not been used yet */
} table_t;

_Static_assert(HD_FERRY_AREAS % 64 == 0 && HD_FERRY_AREAS < 1 << KEY_SHIFT,
               "whole words; an exchange's word has room for an area's number");

/* Places are counted from the beginning of the mapping; in private memory they are addresses. */
static void *at_place(const hd_group_t *group, uint64_t place) {
    return (void *)((uintptr_t)group->mapping.base + (uintptr_t)place);
}

/* Memory that is zero, for good; 0: there is none. */
static uint64_t give_place(hd_group_t *group, size_t bytes) {
    if (!group->mapping.base) {
        hd_crossing_t *crossing = hd_group_crossing(group);
        hd_ferry_block_t *block = hd_alloc_local(sizeof(*block) + bytes, -1);
        if (block) {
            /* relaxed: looked at when the crossing ends */
            block->next = atomic_load_explicit(&crossing->ferry_blocks, memory_order_relaxed);
            while (!atomic_compare_exchange_weak_explicit(&crossing->ferry_blocks, &block->next,
                                                          block, memory_order_relaxed,
                                                          memory_order_relaxed)) {
            }
        }
        return block ? (uintptr_t)(block + 1) : 0;
    }
    uint8_t *at = hd_mapping_give(group, bytes);
    return at ? (uint64_t)(at - group->mapping.base) : 0;
}

/* Returns the group's table, made at the first call. NULL: no memory. */
static table_t *table_of(hd_group_t *group) {
    _Atomic uint64_t *where = &hd_common(group)->ferries;
    /* acquire: the table's zeros; pairs with the swap below */
    uint64_t place = atomic_load_explicit(where, memory_order_acquire);
    uint64_t made = place ? 0 : give_place(group, sizeof(table_t));
    if (!place && !made) {
        return NULL;
    }
    /* acq_rel: publishes it, or takes another member's */
    if (!place && atomic_compare_exchange_strong_explicit(where, &place, made, memory_order_acq_rel,
                                                          memory_order_acquire)) {
        place = made;
    }
    return at_place(group, place);
}

static void reset_area(hd_ferry_area_t *area, uint32_t n) {
    /* relaxed, all: published with the exchange's word */
    area->use++;
    atomic_store_explicit(&area->left, n, memory_order_relaxed);
    for (uint32_t d = 0; d < HD_FERRY_DEPTH; d++) {
        atomic_store_explicit(&area->done[d], 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < n; i++) {
        atomic_store_explicit(&area->member[i].filled, 0, memory_order_relaxed);
        atomic_store_explicit(&area->member[i].combined, 0, memory_order_relaxed);
        atomic_store_explicit(&area->member[i].taken, 0, memory_order_relaxed);
    }
}

/* This one may be another exchange's. */
static void let_go(table_t *table, uint32_t a) {
    /* release: what has been done there; pairs with hold */
    atomic_fetch_and_explicit(&table->taken[a / 64], ~(UINT64_C(1) << a % 64),
                              memory_order_release);
}

/* False: an exchange has it. */
static bool hold(table_t *table, uint32_t a) {
    uint64_t bit = UINT64_C(1) << a % 64;
    /* relaxed: a guess; acquire: who had it has done with it; pairs with let_go */
    return !(atomic_load_explicit(&table->taken[a / 64], memory_order_relaxed) & bit) &&
           !(atomic_fetch_or_explicit(&table->taken[a / 64], bit, memory_order_acquire) & bit);
}

/* By whoever has area a: where it lies; 0: nowhere, and there is no memory to spare for it. */
static uint64_t place_of(hd_group_t *group, table_t *table, uint32_t a) {
    /* relaxed, both: whoever has the area; the swap of `taken` orders them */
    uint64_t at = atomic_load_explicit(&table->at[a], memory_order_relaxed);
    size_t bytes = hd_ferry_lay_out(group).bytes;
    if (!at && (a == 0 || !group->mapping.base || hd_mapping_spares(group, bytes))) {
        at = give_place(group, bytes);
        atomic_store_explicit(&table->at[a], at, memory_order_relaxed);
    }
    return at;
}

/* Takes an area that no exchange has, and sets its number and where it lies. UCC_INPROGRESS: all
 * are taken, or there is no memory for more. UCC_ERR_NO_MEMORY: there is none for the first one. */
static ucc_status_t find_area(hd_group_t *group, table_t *table, uint32_t *number, uint64_t *at) {
    bool more = true; /* there may be memory for one that has none */
    for (uint32_t a = 0; a < HD_FERRY_AREAS; a++) {
        /* relaxed: a guess */
        if (!(more || atomic_load_explicit(&table->at[a], memory_order_relaxed)) ||
            !hold(table, a)) {
            continue;
        }
        *number = a;
        *at = place_of(group, table, a);
        if (*at) {
            return UCC_OK;
        }
        let_go(table, a);
        if (a == 0) {
            return UCC_ERR_NO_MEMORY;
        }
        more = false;
    }
    return UCC_INPROGRESS;
}

/* By member 0: takes an area for its exchange. UCC_INPROGRESS: there is none now. */
static ucc_status_t take_area(const hd_op_t *op) {
    hd_group_t *group = op->group;
    table_t *table = table_of(group);
    uint64_t at;
    uint32_t a;
    ucc_status_t status = table ? find_area(group, table, &a, &at) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        reset_area(at_place(group, at), op->place.n);
        /* release: the area; pairs with area_of */
        atomic_store_explicit(&op->exchange->ferry, hd_outer_key(op) << KEY_SHIFT | (a + 1),
                              memory_order_release);
        hd_bell_ring(&group->home.bell);
    } else if (status < 0) {
        hd_error("%s: no memory for what crosses nodes", hd_op_type_name(op));
    }
    return status;
}

/* Returns the number of the exchange's area; HD_FERRY_AREAS: it has none yet. */
static uint32_t area_of(const hd_op_t *op) {
    /* acquire: pairs with take_area */
    uint64_t word = atomic_load_explicit(&op->exchange->ferry, memory_order_acquire);
    return word >> KEY_SHIFT == hd_outer_key(op) ? (uint32_t)(word & 0xffff) - 1 : HD_FERRY_AREAS;
}

/* This member looks at the area no more. */
static void leave_area(hd_group_t *group, hd_ferry_area_t *area, uint32_t a) {
    /* acq_rel: what all have done there happens before its next use */
    if (atomic_fetch_sub_explicit(&area->left, 1, memory_order_acq_rel) == 1) {
        let_go(table_of(group), a);
        hd_bell_ring(&group->home.bell); /* somebody may wait for an area */
    }
}

/* --- legs ------------------------------------------------------------------------------------- */

typedef struct hd_ferry hd_ferry_t;

/* The leg of the rounds that have one slot of an area. */
typedef struct ferry_leg {
    hd_leg_t leg; /* must stay first */
    hd_ferry_t *ferry;
    hd_ferry_area_t *area;
    uint32_t round;
    bool sizes; /* it combines numbers: the largest */
    hd_reducer_t reducer;
    hd_ferry_lists_t lists;
    uint32_t *process; /* by node: who carries this round */
    hd_scratch_t memory, scratch;
} ferry_leg_t;

_Static_assert(offsetof(ferry_leg_t, leg) == 0, "the network knows it as its leg");

/* What a process keeps for an area. */
struct hd_ferry {
    hd_outer_memory_t memory; /* must stay first: what the crossing knows of it */
    hd_lock_t lock;           /* guards what follows; a leg that is started is its lane's */
    uint64_t use;             /* which use of the area `next` is for */
    uint32_t next;            /* the next round that is looked at */
    hd_crossing_t *crossing;
    ferry_leg_t leg[HD_FERRY_DEPTH];
};

static void free_ferry(hd_outer_memory_t *memory) {
    hd_ferry_t *ferry = (hd_ferry_t *)(void *)memory;
    for (uint32_t d = 0; d < HD_FERRY_DEPTH; d++) {
        hd_free(ferry->leg[d].memory.at);
        hd_free(ferry->leg[d].scratch.at);
    }
    hd_free(ferry);
}

/* Returns this process's part of an area, made at the first call. NULL: no memory. */
static hd_ferry_t *ferry_of(hd_crossing_t *crossing, uint32_t a) {
    /* acquire: pairs with the swap below */
    hd_outer_memory_t *known = atomic_load_explicit(&crossing->ferry[a], memory_order_acquire);
    hd_ferry_t *made = known ? NULL : hd_alloc(HD_LINE_PAIR, sizeof(*made));
    if (!made) {
        return (hd_ferry_t *)(void *)known;
    }
    made->memory.release = free_ferry;
    made->crossing = crossing;
    /* acq_rel: publishes it, or takes another thread's */
    if (atomic_compare_exchange_strong_explicit(&crossing->ferry[a], &known, &made->memory,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return made;
    }
    hd_free(made);
    return (hd_ferry_t *)(void *)known;
}

/* A leg's `combine` (net/net.h): the nodes' partial results. */
static ucc_status_t combine(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last) {
    const ferry_leg_t *l = (const ferry_leg_t *)(const void *)leg;
    (void)first; /* operands and dst begin there already */
    if (l->sizes) {
        uint64_t most = 0, value;
        for (uint32_t i = 0; i < k && count; i++) {
            memcpy(&value, operand[i], sizeof(value));
            most = value > most ? value : most;
        }
        memcpy(dst, &most, count * sizeof(most));
        return UCC_OK;
    }
    hd_reducer_t reducer = l->reducer;
    if (!last && reducer.root != reducer.inner) {
        reducer.root = reducer.inner;
        reducer.stream = NULL;
    }
    return hd_reduce_tree(&reducer, k, operand, 0, 1, &dst, 0, count, HD_STORES_PLAIN);
}

/* The step of a leg, under its lane's lock; true: it is over. */
static bool step(hd_leg_t *leg) {
    ferry_leg_t *l = (ferry_leg_t *)(void *)leg;
    hd_ferry_area_t *area = l->area;
    hd_crossing_t *crossing = l->ferry->crossing;
    hd_group_t *group = crossing->group;
    uint32_t round = l->round;
    ucc_status_t failed = hd_group_poisoned(group);
    ucc_status_t status = failed == UCC_OK ? hd_leg_go(leg) : hd_leg_cancel(leg, failed);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    if (status == UCC_OK) {
        hd_delay_point();
        /* release: what it has brought; and its memory and the area are another round's now */
        atomic_store_explicit(&area->done[round % HD_FERRY_DEPTH], round + 1, memory_order_release);
        hd_bell_ring(&group->home.bell);
    } else {
        hd_group_poison(group, status);
    }
    hd_span_defer_unref(crossing);
    return true;
}

/* Makes sure of so much memory, which stays with the leg. */
static ucc_status_t take_memory(hd_scratch_t *scratch, size_t bytes) {
    if (scratch->room >= bytes) {
        return UCC_OK;
    }
    hd_free(scratch->at);
    scratch->at = hd_alloc(HD_LINE_PAIR, bytes);
    scratch->room = scratch->at ? bytes : 0;
    return scratch->at ? UCC_OK : UCC_ERR_NO_MEMORY;
}

static size_t lines_of(size_t bytes) {
    return (bytes + HD_LINE - 1) / HD_LINE * HD_LINE;
}

static ucc_status_t take_lists(ferry_leg_t *l, const hd_ferry_view_t *v) {
    uint32_t nodes = v->span->processes;
    size_t process = lines_of(nodes * sizeof(*l->process));
    size_t data = lines_of(nodes * sizeof(hd_net_data_t));
    size_t bytes = process + 2 * data + hd_ferry_pieces(v) * sizeof(hd_net_piece_t);
    ucc_status_t status = take_memory(&l->memory, bytes);
    if (status == UCC_OK) {
        uint8_t *at = l->memory.at;
        l->process = (uint32_t *)(void *)at;
        l->lists.n = nodes;
        l->lists.give = (hd_net_data_t *)(void *)(at + process);
        l->lists.take = (hd_net_data_t *)(void *)(at + process + data);
        l->lists.piece = (hd_net_piece_t *)(void *)(at + process + 2 * data);
    }
    return status;
}

/* Returns the nodes of the operation's endpoints. */
static const hd_nodes_t *nodes_of(const hd_ferry_view_t *v) {
    const hd_nodes_t *nodes = v->crossing->nodes;
    return nodes->span == v->span
               ? nodes
               : hd_crossing_node_set((hd_crossing_t *)(uintptr_t)v->crossing, &v->span->set);
}

/* Each round has a leg. */
static hd_net_key_t key_of(const hd_op_t *op, uint32_t round) {
    hd_net_key_t key = hd_exchange_key(op, op->span);
    key.ordinal = key.ordinal << 32 | round;
    return key;
}

/* The number by which all nodes agree on carriers. */
static uint64_t number_of(const hd_op_t *op) {
    hd_exchange_name_t name = hd_op_exchange_name(op);
    return name.class == HD_MATCH_NUMBERED ? name.key : name.ordinal;
}

/* Starts the leg of a round, which all members here are ready for. Under the ferry's lock. */
static ucc_status_t start_leg(hd_ferry_t *ferry, const hd_ferry_view_t *v, const hd_nodes_t *nodes,
                              uint32_t round) {
    ferry_leg_t *l = &ferry->leg[round % HD_FERRY_DEPTH];
    hd_net_team_t *team = ferry->crossing->team;
    const hd_op_t *op = v->op;
    ucc_status_t status = take_lists(l, v);
    if (status != UCC_OK) {
        return status;
    }
    l->ferry = ferry;
    l->area = v->area;
    l->round = round;
    l->sizes = hd_ferry_round(v, round) == HD_FERRY_SIZES;
    l->leg = (hd_leg_t){.team = team, .key = key_of(op, round), .step = step};
    size_t bytes = hd_ferry_set_call(v, round, &l->lists, &l->leg.call);
    for (uint32_t node = 0; node < v->span->processes; node++) {
        l->process[node] = hd_nodes_carrier(nodes, node, number_of(op) + round);
    }
    l->leg.call.process = l->process;
    l->leg.call.combine = combine;
    if (v->kind == HD_FERRY_REDUCED) {
        status = hd_reducer_init(&l->reducer, op->call.reducer.dt, op->call.reducer.op, op->n);
    }
    l->leg.plan = hd_net_plan_of(team, &l->leg.call, bytes);
    size_t needs = hd_net_scratch(&l->leg.call, &l->leg.plan);
    status = status == UCC_OK ? take_memory(&l->scratch, needs) : status;
    if (status == UCC_OK) {
        l->leg.call.scratch = needs ? l->scratch.at : NULL;
        hd_crossing_hold(ferry->crossing);
        hd_leg_start(&l->leg);
    }
    return status;
}

/* --- members ---------------------------------------------------------------------------------- */

/* Have all members come further than this round with that count? */
static bool all_beyond(const hd_ferry_view_t *v, size_t count, uint32_t round) {
    for (uint32_t i = 0; i < v->n; i++) {
        const _Atomic uint32_t *word = (const void *)((const uint8_t *)&v->area->member[i] + count);
        /* acquire: what it has written, or read, before it counted */
        if (atomic_load_explicit(word, memory_order_acquire) <= round) {
            return false;
        }
    }
    return true;
}

static uint32_t own(const _Atomic uint32_t *count) {
    return atomic_load_explicit(count, memory_order_relaxed); /* mine to write */
}

/* One round more. */
static void count_on(const hd_ferry_view_t *v, _Atomic uint32_t *count) {
    hd_delay_point();
    /* release: what I have written in that round, or read; pairs with all_beyond */
    atomic_store_explicit(count, own(count) + 1, memory_order_release);
    hd_bell_ring(&v->op->group->home.bell);
}

static bool is_ready_to_go(const hd_ferry_view_t *v, uint32_t round) {
    size_t count = v->kind == HD_FERRY_REDUCED ? offsetof(hd_ferry_member_t, combined)
                                               : offsetof(hd_ferry_member_t, filled);
    return all_beyond(v, count, round);
}

/* Starts the legs that this process carries, of all rounds that are ready. */
static ucc_status_t carry(const hd_ferry_view_t *v, uint32_t a) {
    hd_crossing_t *crossing = (hd_crossing_t *)(uintptr_t)v->crossing;
    const hd_nodes_t *nodes = nodes_of(v);
    hd_ferry_t *ferry = nodes ? ferry_of(crossing, a) : NULL;
    if (!ferry) {
        hd_error("%s: no memory for what crosses nodes", hd_op_type_name(v->op));
        return UCC_ERR_NO_MEMORY;
    }
    if (!hd_lock_try(&ferry->lock)) {
        return UCC_OK; /* another member here looks */
    }
    ucc_status_t status = UCC_OK;
    ferry->next = ferry->use == v->area->use ? ferry->next : 0;
    ferry->use = v->area->use;
    while (status == UCC_OK && ferry->next < v->rounds && is_ready_to_go(v, ferry->next)) {
        uint32_t round = ferry->next++;
        if (hd_nodes_carrier(nodes, v->span->mine, number_of(v->op) + round) ==
            crossing->span->mine) {
            status = start_leg(ferry, v, nodes, round);
        }
    }
    hd_unlock(&ferry->lock);
    return status;
}

/* Those before this member take first, one after the other: they call the user's operation. */
static bool is_my_turn(const hd_ferry_view_t *v, uint32_t round) {
    for (uint32_t i = 0; i < v->me && hd_ferry_takes_turns(v); i++) {
        /* acquire: its calls are over */
        if (atomic_load_explicit(&v->area->member[i].taken, memory_order_acquire) <= round) {
            return false;
        }
    }
    return true;
}

/* Takes the next round, if it is there. */
static ucc_status_t take_next(hd_ferry_view_t *v, bool *moved) {
    hd_ferry_member_t *m = &v->area->member[v->me];
    uint32_t round = own(&m->taken);
    /* acquire: what the leg has brought; pairs with step */
    if (round >= v->rounds ||
        atomic_load_explicit(&v->area->done[round % HD_FERRY_DEPTH], memory_order_acquire) !=
            round + 1 ||
        !is_my_turn(v, round)) {
        return UCC_OK;
    }
    hd_ferry_count(v); /* that may have been the round of sizes */
    ucc_status_t status = hd_ferry_take(v, round);
    if (status == UCC_OK) {
        count_on(v, &m->taken);
        *moved = true;
    }
    return status;
}

/* Does what can be done now. */
static ucc_status_t advance(hd_ferry_view_t *v, uint32_t a) {
    hd_ferry_member_t *m = &v->area->member[v->me];
    ucc_status_t status = UCC_OK;
    bool moved = true;
    while (moved && status == UCC_OK) {
        moved = false;
        uint32_t round = own(&m->filled);
        if (round < v->rounds &&
            (round < HD_FERRY_DEPTH ||
             all_beyond(v, offsetof(hd_ferry_member_t, taken), round - HD_FERRY_DEPTH))) {
            hd_ferry_fill(v, round);
            count_on(v, &m->filled);
            moved = true;
        }
        round = own(&m->combined);
        if (v->kind == HD_FERRY_REDUCED && round < v->rounds &&
            all_beyond(v, offsetof(hd_ferry_member_t, filled), round)) {
            status = hd_ferry_combine(v, round);
            if (status == UCC_OK) {
                count_on(v, &m->combined);
                moved = true;
            }
        }
        status = status == UCC_OK ? carry(v, a) : status;
        status = status == UCC_OK ? take_next(v, &moved) : status;
    }
    return status;
}

static void pump(hd_op_t *op) {
    if (hd_group_poisoned(op->group) == UCC_OK) {
        op->task.impatient = hd_flight_pump(op);
    }
}

/* op->wait. */
static ucc_status_t wait(hd_op_t *op) {
    ucc_status_t status = UCC_OK;
    if (op->phase == HD_PHASE_ARRIVE) {
        status = hd_family[HD_BARRIER].wait(op); /* no more copies of it are to be compiled */
        op->task.awaited = NULL;
        op->task.impatient = HD_IMPATIENT;
        if (status != UCC_OK) {
            pump(op); /* others may wait for what this process does for them */
            return status;
        }
        op->phase = HD_PHASE_LOCAL;
    }
    uint32_t a = area_of(op);
    if (a == HD_FERRY_AREAS && op->place.me == 0) {
        status = take_area(op);
        a = area_of(op);
    }
    if (status < 0) {
        return status;
    }
    if (a == HD_FERRY_AREAS) {
        pump(op);
        return UCC_INPROGRESS;
    }
    hd_ferry_view_t v;
    /* relaxed: ordered by the exchange's word */
    uint64_t at = atomic_load_explicit(&table_of(op->group)->at[a], memory_order_relaxed);
    hd_ferry_look(&v, op, at_place(op->group, at));
    status = advance(&v, a);
    if (status == UCC_OK && own(&v.area->member[v.me].taken) < v.rounds) {
        pump(op);
        status = hd_group_poisoned(op->group) == UCC_OK ? advance(&v, a) : status;
    }
    if (status != UCC_OK) {
        return status;
    }
    if (own(&v.area->member[v.me].taken) < v.rounds) {
        return UCC_INPROGRESS;
    }
    leave_area(op->group, v.area, a);
    op->task.impatient = op->exposed = false;
    return UCC_OK;
}

/* --- the stage -------------------------------------------------------------------------------- */

/* The arrival ends as among endpoints alone: nothing is handed over there. */
static void arrived(hd_op_t *op, const hd_exchange_ref_t *ref, ucc_status_t status,
                    const void *payload) {
    (void)op;
    (void)ref;
    (void)status;
    (void)payload;
}

/* The group has failed: other nodes hear of it, also if who has failed it can't tell them. */
static void closed(hd_op_t *op, ucc_status_t why) {
    hd_crossing_abort(hd_group_crossing(op->group), why);
    (void)hd_flight_pump(op);
}

/* Says which process carries the round that this member waits for. False: it is not carried yet, or
 * is here already. */
static bool say_carrier(const hd_op_t *op, hd_ferry_area_t *area, hd_text_t *text) {
    hd_ferry_view_t v;
    hd_ferry_look(&v, op, area);
    uint32_t round = own(&area->member[v.me].taken);
    const hd_nodes_t *nodes = nodes_of(&v);
    if (!nodes || round >= v.rounds || !is_ready_to_go(&v, round) ||
        /* relaxed: only told */
        atomic_load_explicit(&area->done[round % HD_FERRY_DEPTH], memory_order_relaxed) ==
            round + 1) {
        return false;
    }
    uint32_t carrier = hd_nodes_carrier(nodes, v.span->mine, number_of(op) + round);
    if (carrier == v.crossing->span->mine) {
        return false;
    }
    hd_net_process_say(v.crossing->team, carrier, text);
    hd_text_add(text, ", to exchange data with other nodes");
    return true;
}

/* Says for whom the operation waits in its area: what the legs that are under way here wait for, or
 * who has one. */
static bool say_round(const hd_op_t *op, hd_text_t *text) {
    uint32_t a = area_of(op);
    if (a == HD_FERRY_AREAS) {
        return false;
    }
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    /* acquire: pairs with ferry_of */
    const hd_outer_memory_t *known =
        atomic_load_explicit(&crossing->ferry[a], memory_order_acquire);
    const hd_ferry_t *ferry = (const hd_ferry_t *)(const void *)known;
    bool said = false;
    for (uint32_t d = 0; ferry && d < HD_FERRY_DEPTH && !said; d++) {
        said = hd_net_leg_awaits(crossing->team, &ferry->leg[d].leg, text);
    }
    /* relaxed: ordered by the exchange's word */
    uint64_t at = atomic_load_explicit(&table_of(op->group)->at[a], memory_order_relaxed);
    return said || say_carrier(op, at_place(op->group, at), text);
}

static void awaits(const hd_op_t *op, hd_text_t *text) {
    if (!hd_group_is_complete(op->group)) {
        hd_crossing_awaits(hd_group_crossing(op->group), text);
    } else if (!op->place.board || op->phase != HD_PHASE_LOCAL || !say_round(op, text)) {
        hd_text_add(text, "other nodes, or processes of this one");
    }
}

static void phases(const hd_op_t *op, const hd_plan_t *plan, hd_phases_t *phases) {
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_NETWORK,
                                       .algorithm = "rounds by one process of each node",
                                       .processes = op->span->processes,
                                       .segment = plan->segment});
}

static const hd_outer_t stage = {.arrived = arrived,
                                 .pump = hd_flight_pump,
                                 .closed = closed,
                                 .awaits = awaits,
                                 .phases = phases};

/* op->start: publishes, and arrives as a barrier does. */
static ucc_status_t start(hd_op_t *op) {
    op->outer_shape = 0;
    op->completer = false;
    op->exposed = true; /* whoever fails cancels, and tells the other nodes */
    ucc_status_t status = hd_family[HD_BARRIER].start(op);
    op->wait = wait;
    return status;
}

hd_plan_t hd_ferry_plan(const hd_op_t *op) {
    const hd_call_t barrier = {.type = HD_BARRIER};
    hd_plan_t plan = hd_plan_here(op->group, &barrier, &op->place);
    plan.path = HD_PATH_FERRY;
    plan.express = false;
    plan.all_wait = true;
    plan.network = HD_NETWORK_LEGS;
    plan.segment = hd_ferry_chunk(op);
    plan.window = hd_ferry_bytes(op);
    return plan;
}

void hd_ferry_follow(hd_op_t *op) {
    op->outer = &stage;
    op->start = start;
}
