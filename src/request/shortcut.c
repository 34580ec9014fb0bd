/* shortcut.c: which calls may take the express (shm/express.c, or span/swap.c among processes), and
 * with what.
 *
 * A request knows from its preparation whether it may. Then its post publishes and looks, and only
 * if a peer is late an operation is launched for the rest. A blocking call does not even need a
 * request: the first call of its kind runs with one, which checks everything, and what that was
 * prepared to is remembered in the handle for the next call with the same arguments.
 *
 * Whatever is out of the ordinary (a failed or incomplete team, tracing, more runnable threads than
 * processors) goes the ordinary way.
 */
#include "device/device.h"
#include "request/internal.h"
#include "span/span.h"
#include "threads/trace.h"

enum { BLOCKING_LOOKS = 2000, POST_LOOKS = 512, LONGEST_PENALTY = 1023 };

static inline __attribute__((always_inline)) bool is_ordinary(const ucc_team_h team) {
    return hd_group_poisoned(team->group) == UCC_OK && !hd_trace_is_on() &&
           !hd_trace_logs_calls(HD_LOG_INFO) &&
           !hd_idle_is_crowded(&team->contexts[0]->runner.idle);
}

/* --- plans ------------------------------------------------------------------------------------ */

void hd_request_plan_express(hd_request_t *r) {
    hd_op_t *op = &r->op;
    const ucc_team_h team = op->team;
    bool numbered = r->route == HD_ROUTE_NUMBER || r->route == HD_ROUTE_PERSISTENT;
    bool swaps = op->plan.network == HD_NETWORK_SWAP;
    const hd_family_t *family = &hd_family[op->call.type];
    if (!(op->plan.express && numbered && !op->prepare && r->timeout == 0 && !team->debug_order)) {
        return;
    }
    hd_assert(!r->run && !op->frame && !op->call.empty);
    r->express = swaps ? hd_swap_express : family->express;
    r->resumed = swaps ? hd_swap_wait : family->wait;
    op->call.count = op->call.bytes / op->call.element;
    /* for a persistent request, the board is found at its first post */
    if (r->route == HD_ROUTE_NUMBER) {
        op->place.board = op->group->board;
        op->place.member = team->member;
    }
}

/* --- posts ------------------------------------------------------------------------------------ */

/* Returns how often to look. When all endpoints come at about the same time, the last line is in
 * flight while post would hand the task over: looking for it a hundred nanoseconds more ends the
 * collective here. But the peers of a handle may come later, or be driven by this very thread. Such
 * a handle soon stops looking: each look in vain doubles the number of posts that don't. */
static uint32_t looks_of(ucc_team_h team) {
    /* relaxed, here and below: see linger_skip in team.h */
    uint32_t skip = atomic_load_explicit(&team->linger_skip, memory_order_relaxed);
    if (skip > 0) {
        atomic_store_explicit(&team->linger_skip, skip - 1, memory_order_relaxed);
        return 0;
    }
    return POST_LOOKS;
}

/* Notes how the looks of a post have ended, for looks_of. */
static void note_looks(ucc_team_h team, bool in_vain) {
    uint32_t penalty = 0;
    if (in_vain) {
        penalty = 2 * atomic_load_explicit(&team->linger_penalty, memory_order_relaxed) + 1;
        penalty = penalty < LONGEST_PENALTY ? penalty : LONGEST_PENALTY;
        atomic_store_explicit(&team->linger_skip, penalty, memory_order_relaxed);
    }
    atomic_store_explicit(&team->linger_penalty, penalty, memory_order_relaxed);
}

ucc_status_t hd_request_linger(hd_request_t *r) {
    hd_task_t *task = &r->op.task;
    ucc_team_h team = r->op.team;
    ucc_status_t status = UCC_INPROGRESS;
    uint32_t looks = 0;
    if (task->awaited && !hd_idle_is_crowded(&task->context->runner.idle)) {
        looks = looks_of(team);
    }
    if (looks == 0) {
        return status;
    }
    while (status == UCC_INPROGRESS && task->awaited && hd_task_look(task, looks)) {
        status = hd_op_look(&r->op);
    }
    note_looks(team, status == UCC_INPROGRESS);
    return status;
}

uint64_t hd_request_express(hd_request_t *r) {
    hd_op_t *op = &r->op;
    if (!op->place.board || !is_ordinary(op->team)) {
        return 0;
    }
    uint32_t looks = looks_of(op->team);
    uint64_t k = r->express(&op->place, &op->call, looks);
    if (looks) {
        note_looks(op->team, k != 0 && k != HD_EXPRESS_OVER);
    }
    return k;
}

/* --- blocking calls --------------------------------------------------------------------------- */

const hd_call_cache_t hd_no_cached_calls;

/* Returns whether nothing is outstanding in the caller's context. What is outstanding needs the
 * progress that the ordinary way makes, and a client that only makes blocking calls makes no other.
 * The context is the caller's alone, as the handle is (hd_team_cache_call). */
static inline bool is_alone(const ucc_team_h team) {
    const hd_runner_t *runner = &team->contexts[0]->runner;
    return !runner->active &&
           /* relaxed: only the caller pushes */
           !atomic_load_explicit(&runner->incoming, memory_order_relaxed) && is_ordinary(team);
}

static inline bool may_take(const ucc_team_h team, const hd_cached_call_t *entry) {
    return entry->known && is_alone(team);
}

uint64_t hd_team_barrier(ucc_team_h team) {
    const hd_call_cache_t *cache = team->call_cache;
    const hd_cached_call_t *entry = &cache->entry[HD_CACHED_BARRIER];
    if (!may_take(team, entry)) {
        return 0;
    }
    return hd_express_barrier(&cache->place, &entry->call, BLOCKING_LOOKS);
}

uint64_t hd_team_bcast(ucc_team_h team, void *buffer, uint64_t count, ucc_datatype_t dt,
                       uint32_t root) {
    const hd_call_cache_t *cache = team->call_cache;
    const hd_cached_call_t *entry = &cache->entry[HD_CACHED_BCAST + root % HD_REDUCE_BLOCK];
    if (entry->count != count || entry->dt != dt || entry->call.root != root ||
        !hd_is_address(buffer) || !may_take(team, entry)) {
        return 0;
    }
    return hd_express_bcast_of(&cache->place, &entry->call, buffer, BLOCKING_LOOKS);
}

uint64_t hd_team_allreduce(ucc_team_h team, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op) {
    const hd_call_cache_t *cache = team->call_cache;
    const hd_cached_call_t *entry = &cache->entry[HD_CACHED_ALLREDUCE];
    if (entry->count != count || entry->dt != dt || entry->op != op || !src ||
        !hd_is_address(dst) || !may_take(team, entry)) {
        return 0;
    }
    const void *operand = src == HEDDLE_IN_PLACE ? dst : src;
    return hd_express_allreduce_of(&cache->place, &entry->call, operand, dst, BLOCKING_LOOKS);
}

/* src has a meaning only at the root. */
uint64_t hd_team_scatter(ucc_team_h team, const void *src, void *dst, uint64_t count,
                         ucc_datatype_t dt, uint32_t root) {
    const hd_call_cache_t *cache = team->call_cache;
    const hd_cached_call_t *entry = &cache->entry[HD_CACHED_SCATTER + root % HD_REDUCE_BLOCK];
    if (entry->count != count || entry->dt != dt || entry->call.root != root ||
        !hd_is_address(dst) || (entry->call.is_root && !hd_is_address(src)) || !entry->known ||
        !is_alone(team)) {
        return 0;
    }
    return hd_express_scatter_of(&cache->place, &entry->call, src, dst, BLOCKING_LOOKS);
}

/* Returns where in the cache calls of this type with this root are; HD_N_CACHED: nowhere. (A mcast
 * is not remembered as a bcast, since their signatures differ.) */
static uint32_t entry_of(uint64_t coll_type, uint64_t root) {
    switch (coll_type) {
    case UCC_COLL_TYPE_BARRIER:
        return HD_CACHED_BARRIER;
    case UCC_COLL_TYPE_ALLREDUCE:
        return HD_CACHED_ALLREDUCE;
    case UCC_COLL_TYPE_BCAST:
        return HD_CACHED_BCAST + root % HD_REDUCE_BLOCK;
    case UCC_COLL_TYPE_SCATTER:
        return HD_CACHED_SCATTER + root % HD_REDUCE_BLOCK;
    default:
        return HD_N_CACHED;
    }
}

uint64_t hd_team_swap(ucc_team_h team, const ucc_coll_args_t *args) {
    const hd_call_cache_t *cache = team->call_cache;
    uint32_t i = entry_of((uint64_t)args->coll_type, args->root);
    if (i >= HD_CACHED_SCATTER || !cache->entry[i].swaps || !is_alone(team)) {
        return 0;
    }
    const hd_cached_call_t *entry = &cache->entry[i];
    const hd_coll_t *coll = &hd_coll[entry->call.type];
    const ucc_coll_buffer_info_t *info = coll->bcast ? &args->src.info : &args->dst.info;
    const void *src = args->src.info.buffer; /* nobody looks at a barrier's */
    void *dst = info->buffer;
    if (coll->moves_data && (entry->count != info->count || entry->dt != info->datatype || !src ||
                             !hd_is_address(dst) || (coll->reducing && entry->op != args->op) ||
                             (coll->rooted && entry->call.root != args->root))) {
        return 0;
    }
    return hd_swap_express_of(&cache->place, &entry->call, src == HEDDLE_IN_PLACE ? dst : src, dst,
                              BLOCKING_LOOKS);
}

/* Returns the handle's own cache, which the first call to be remembered allocates: many endpoints
 * make no blocking calls. NULL: no memory, and nothing is remembered. */
static hd_call_cache_t *own_call_cache(const hd_op_t *op) {
    struct ucc_team *team = op->team;
    if (team->call_cache != &hd_no_cached_calls) {
        return (hd_call_cache_t *)(uintptr_t)team->call_cache;
    }
    hd_call_cache_t *cache = hd_alloc(HD_LINE, sizeof(*cache));
    if (cache) {
        cache->place = op->place;
        cache->place.board = op->group->board;
        cache->place.member = team->member;
        team->call_cache = cache;
    }
    return cache;
}

void hd_team_clear_call_cache(ucc_team_h team) {
    if (team->call_cache != &hd_no_cached_calls) {
        hd_free((void *)(uintptr_t)team->call_cache);
        team->call_cache = &hd_no_cached_calls;
    }
}

void hd_team_cache_call(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    /* A shape is noted only for calls that are neither matched, packed, nor in symmetric memory.
     * The cache has one reader and writer, so a handle with locks has none. */
    if (r->shape.type == 0 || op->place.locked || op->team->n_contexts > 1) {
        return;
    }
    uint32_t i = entry_of((uint64_t)hd_coll[op->call.type].bit, op->call.root);
    hd_call_cache_t *cache = i < HD_N_CACHED ? own_call_cache(op) : NULL;
    hd_cached_call_t *entry = cache ? &cache->entry[i] : NULL;
    bool by_src = hd_coll[op->call.type].bcast; /* the others go by dst */
    uint64_t count = by_src ? r->shape.src_count : r->shape.dst_count;
    ucc_datatype_t dt = (ucc_datatype_t)(by_src ? r->shape.src_dt : r->shape.dst_dt);
    bool swaps = r->express == hd_swap_express;
    if (!entry ||
        ((swaps ? entry->swaps : entry->known) && entry->call.signature == op->call.signature &&
         entry->count == count && entry->dt == dt)) {
        return;
    }
    *entry = (hd_cached_call_t){
        .known = !swaps,
        .swaps = swaps,
        .count = count,
        .dt = dt,
        .op = (ucc_reduction_op_t)r->shape.op,
        .call = op->call,
    };
}
