/* fuzz_api.c: random calls of every public function.
 *
 *     fuzz_api [calls] [seed]        defaults: 10,000,000 calls, a tenth under ThreadSanitizer; the
 *                                    seed is printed
 *
 * The drafts' calls are among them. Arguments come from a grammar: NULL, garbage numbers, random
 * masks, flags, counts, datatypes, operations, roots and sizes. Handles are NULL or alive (a stale
 * one is undefined by contract); buffers are NULL or as large as any count that is drawn can say.
 * One thread drives all endpoints, all operations carry timeouts and blocking calls are made only
 * where nobody can be missed, so nothing hangs. Every team of a world fails sooner or later: worlds
 * are made anew all the time. Nothing is checked but that the library survives (run it under
 * AddressSanitizer and UBSan), that statuses exist, and that everything can be destroyed in the
 * end.
 */
#include "stress.h"

#include "../support/random.h"

#define HEDDLE_DRAFT_KEEP_1X
#include <heddle/drafts.h>
#include <heddle/heddle.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_EPS = 4,
    MAX_REQUESTS = 24,
    MAX_TEAMS = 8,    /* further handles of a world: splits, lists, teams that never come about */
    MAX_COUNT = 5000, /* elements of a buffer, in all */
    ELEMENT = 32,     /* bytes of the largest datatype */
    ARENA = MAX_COUNT * ELEMENT * 2,
    CALLS_PER_WORLD = 120
};

typedef struct world_state {
    uint32_t n;
    ucc_lib_h libs[MAX_EPS];
    ucc_context_h contexts[MAX_EPS];
    ucc_team_h teams[MAX_EPS]; /* active */
    heddle_ep_t *eps[MAX_EPS]; /* where the world is a group's */
    heddle_group_t *group;
    ucc_ee_h ees[MAX_EPS];      /* of teams, or NULL */
    ucc_team_h more[MAX_TEAMS]; /* forming, failed or active */
    ucc_coll_req_h requests[MAX_REQUESTS];
} world_state_t;

static uint64_t state;
static uint64_t calls, completed; /* completed: collectives that ended well */
static world_state_t w;
static FILE *sink;

/* What one request may use while it lives; nobody else's memory. */
typedef struct slot {
    uint64_t counts[2 * MAX_EPS], displacements[2 * MAX_EPS];
    uint8_t *src, *dst;
} slot_t;

static slot_t slots[MAX_REQUESTS + 1]; /* the last one: for blocking calls */
static ucc_datatype_t user_dt, packed_dt;
/* --- numbers ---------------------------------------------------------------------------------- */

static uint64_t below(uint64_t limit) {
    return random_below(&state, limit);
}

/* Tame arguments are what a correct program passes: else every call would be refused. */
static bool tame, tame_world; /* in a tame world all collectives are */

static bool chance(uint64_t one_in) {
    return !tame && below(one_in) == 0;
}

static uint64_t garbage(void) {
    static const uint64_t odd[] = {0,          1,        UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                   UINT32_MAX, 1u << 31, 77};
    return chance(2) ? odd[below(8)] : random_next(&state);
}

/* Every call goes through here: it has to return a status that exists. */
static ucc_status_t called(ucc_status_t status) {
    calls++;
    if (status > UCC_OPERATION_INITIALIZED || status < UCC_ERR_LAST) {
        fprintf(stderr, "WRONG: status %d\n", (int)status);
        abort();
    }
    return status;
}

/* --- handles ---------------------------------------------------------------------------------- */

static ucc_lib_h any_lib(void) {
    return chance(12) ? NULL : w.libs[below(w.n)];
}

static ucc_context_h any_context(void) {
    return chance(12) ? NULL : w.contexts[below(w.n)];
}

static ucc_team_h any_team(void) {
    if (chance(16)) {
        return NULL;
    }
    ucc_team_h more = w.more[below(MAX_TEAMS)];
    return more && chance(8) ? more : w.teams[below(w.n)];
}

static heddle_ep_t *any_ep(void) {
    return chance(12) ? NULL : w.eps[below(w.n)];
}

static ucc_team_h *free_team(void) {
    for (uint32_t i = 0; i < MAX_TEAMS; i++) {
        if (!w.more[i]) {
            return &w.more[i];
        }
    }
    return NULL;
}

static int free_request(void) {
    for (int i = 0; i < MAX_REQUESTS; i++) {
        if (!w.requests[i]) {
            return i;
        }
    }
    return -1;
}

static int any_request(void) {
    uint32_t from = (uint32_t)below(MAX_REQUESTS);
    for (uint32_t i = 0; i < MAX_REQUESTS; i++) {
        uint32_t at = (from + i) % MAX_REQUESTS;
        if (w.requests[at]) {
            return (int)at;
        }
    }
    return -1;
}

/* --- arguments of collectives ----------------------------------------------------------------- */

static ucc_datatype_t any_datatype(void) {
    switch (tame ? 6 + below(8) : below(16)) {
    case 0:
        return UCC_PREDEFINED_DT(below(64));
    case 1:
        return (garbage() & ~(uint64_t)UCC_DATATYPE_CLASS_MASK) |
               (2 + below(6)); /* classes that don't exist; a forged generic handle is undefined */
    case 2:
        return user_dt;
    case 3:
        return packed_dt;
    case 4:
    case 5:
        return UCC_PREDEFINED_DT(below(UCC_DT_PREDEFINED_LAST));
    default:
        return UCC_DT_INT32;
    }
}

static uint64_t any_count(void) {
    static const uint64_t usual[] = {0, 1, 2, 4, 12, 12, 48, 120, 600, 4800};
    return chance(24) ? garbage() : usual[below(10)];
}

/* What a count may make the library touch has to exist: with a real buffer, too large a count may
 * only be one that can't be meant. */
static void set_buffer(void **buffer, uint64_t *count, uint8_t *arena) {
    *buffer = chance(16) ? NULL : arena + below(2) * 64;
    if (*count > MAX_COUNT && *count <= INT64_MAX) {
        *count = 4;
    }
}

static ucc_coll_buffer_info_t any_info(uint8_t *arena, uint64_t count, ucc_datatype_t dt) {
    ucc_coll_buffer_info_t info = {.count = count, .datatype = dt};
    info.mem_type = chance(30) ? (ucc_memory_type_t)below(9) : UCC_MEMORY_TYPE_HOST;
    set_buffer(&info.buffer, &info.count, arena);
    return info;
}

static ucc_coll_buffer_info_v_t any_info_v(slot_t *slot, uint8_t *arena, ucc_datatype_t dt) {
    ucc_coll_buffer_info_v_t info = {.datatype = dt, .mem_type = UCC_MEMORY_TYPE_HOST};
    info.counts = chance(20) ? NULL : slot->counts;
    info.displacements = chance(3) ? NULL : slot->displacements;
    /* with displacements, NULL is a base for addresses, and these are none */
    info.buffer = !info.displacements && chance(5) ? NULL : arena;
    return info;
}

/* Read as 32-bit entries, they are as harmless. */
static void any_vectors(slot_t *slot) {
    uint64_t same = below(6) * 100, large = chance(8) ? 1200 : same;
    for (uint32_t i = 0; i < 2 * MAX_EPS; i++) {
        slot->counts[i] = chance(6) ? below(7) : large;
        slot->displacements[i] = i % MAX_EPS * 1200;
    }
}

#define SRC_V (UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_SCATTERV)
#define DST_V                                                                                      \
    (UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_ALLGATHERV | UCC_COLL_TYPE_GATHERV |                  \
     UCC_COLL_TYPE_REDUCE_SCATTERV)

static uint64_t block_count(uint64_t c, bool whole) {
    return whole && c <= MAX_COUNT / MAX_EPS && !chance(16) ? c * w.n : c;
}

static void set_data(ucc_coll_args_t *a, slot_t *slot) {
    uint64_t type = (uint64_t)a->coll_type, c = any_count();
    ucc_datatype_t dt = any_datatype(), other = chance(24) ? any_datatype() : dt;
    bool src_whole =
        type & (UCC_COLL_TYPE_ALLTOALL | UCC_COLL_TYPE_SCATTER | UCC_COLL_TYPE_REDUCE_SCATTER);
    bool dst_whole =
        type & (UCC_COLL_TYPE_ALLTOALL | UCC_COLL_TYPE_ALLGATHER | UCC_COLL_TYPE_GATHER);
    bool in_place =
        (a->mask & UCC_COLL_ARGS_FIELD_FLAGS) && (a->flags & UCC_COLL_ARGS_FLAG_IN_PLACE);
    if (in_place && type == UCC_COLL_TYPE_REDUCE_SCATTER) {
        dst_whole = true;
    }
    a->src.info = any_info(slot->src, block_count(c, src_whole), dt);
    a->dst.info = any_info(slot->dst, block_count(c, dst_whole), other);
    any_vectors(slot);
    if (type & SRC_V) {
        a->src.info_v = any_info_v(slot, slot->src, dt);
    }
    if (type & DST_V) {
        a->dst.info_v = any_info_v(slot, slot->dst, dt);
    }
    if (type & (UCC_COLL_TYPE_GATHERV | UCC_COLL_TYPE_ALLGATHERV | UCC_COLL_TYPE_SCATTERV) &&
        !chance(4)) {
        ucc_coll_buffer_info_t *own = type & UCC_COLL_TYPE_SCATTERV ? &a->dst.info : &a->src.info;
        own->count = slot->counts[below(MAX_EPS)];
    }
    if (type == UCC_COLL_TYPE_REDUCE_SCATTERV && !chance(4)) {
        a->src.info.count = w.n * slot->counts[0];
    }
}

static void callback(void *data, ucc_status_t status) {
    *(uint64_t *)data += status == UCC_OK;
}

/* Without a timeout nothing ends an operation that its peers never join. */
static void set_flags(ucc_coll_args_t *a) {
    static uint64_t called_back;
    a->mask = UCC_COLL_ARGS_FIELD_FLAGS;
    a->flags = UCC_COLL_ARGS_FLAG_TIMEOUT | UCC_COLL_ARGS_FLAG_COUNT_64BIT |
               UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
    a->timeout = tame ? 0.05 : chance(40) ? -1.0 : 1e-6 * (double)below(2000);
    if (chance(5)) {
        a->flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
    if (chance(8)) {
        a->flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    if (chance(12)) {
        a->flags |= (garbage() & ~(uint64_t)(UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                             UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT));
    }
    if (chance(16)) { /* 32-bit views of the arrays: zeros in between */
        a->flags &= ~(uint64_t)UCC_COLL_ARGS_FLAG_COUNT_64BIT;
    }
    if (chance(16)) {
        a->flags &= ~(uint64_t)UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
    }
    if (chance(5)) {
        a->mask |= UCC_COLL_ARGS_FIELD_CB;
        a->cb = (ucc_coll_callback_t){chance(4) ? NULL : callback, &called_back};
    }
    if (chance(6)) {
        a->mask |= UCC_COLL_ARGS_FIELD_TAG;
    }
    if (chance(8)) {
        a->mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        a->active_set.start = chance(8) ? garbage() : below(w.n);
        a->active_set.stride = (int64_t)(chance(8) ? garbage() : below(5) - 2);
        a->active_set.size = chance(8) ? garbage() : below(w.n + 1);
    }
    if (chance(30)) {
        a->mask |= garbage() & ~(uint64_t)(UCC_COLL_ARGS_FIELD_CB | UCC_COLL_ARGS_FIELD_TAG |
                                           UCC_COLL_ARGS_FIELD_ACTIVE_SET);
    }
}

static ucc_coll_args_t any_args(slot_t *slot) {
    ucc_coll_args_t a;
    tame = tame_world || below(3) != 0;
    memset(&a, (int)below(256), sizeof(a));
    a.coll_type = (ucc_coll_type_t)(uint32_t)(chance(40) ? garbage() : UCC_BIT(below(17)));
    a.op = chance(4) ? (ucc_reduction_op_t)(uint32_t)(chance(8) ? garbage() : below(UCC_OP_LAST))
                     : UCC_OP_SUM;
    a.root = chance(24) ? garbage() : below(w.n);
    a.error_type =
        chance(30) ? (ucc_error_type_t)(uint32_t)garbage() : (ucc_error_type_t)below(2) * chance(8);
    a.tag = (ucc_coll_id_t)below(3);
    set_flags(&a);
    set_data(&a, slot);
    tame = false;
    return a;
}

/* The same arguments with another slot's memory. */
static ucc_coll_args_t move_args(ucc_coll_args_t a, const slot_t *from, slot_t *to) {
    uint64_t type = (uint64_t)a.coll_type;
    memcpy(to->counts, from->counts, sizeof(to->counts));
    memcpy(to->displacements, from->displacements, sizeof(to->displacements));
    if (a.src.info.buffer) {
        a.src.info.buffer = to->src + ((uint8_t *)a.src.info.buffer - from->src);
    }
    if (a.dst.info.buffer) {
        a.dst.info.buffer = to->dst + ((uint8_t *)a.dst.info.buffer - from->dst);
    }
    if (type & SRC_V) {
        a.src.info_v.counts = a.src.info_v.counts ? to->counts : NULL;
        a.src.info_v.displacements = a.src.info_v.displacements ? to->displacements : NULL;
    }
    if (type & DST_V) {
        a.dst.info_v.counts = a.dst.info_v.counts ? to->counts : NULL;
        a.dst.info_v.displacements = a.dst.info_v.displacements ? to->displacements : NULL;
    }
    return a;
}

/* --- collectives of the drafts ---------------------------------------------------------------- */

static heddle_draft_datatype_t any_draft_datatype(void) {
    return (heddle_draft_datatype_t)(uint32_t)(chance(6)   ? garbage()
                                               : chance(6) ? any_datatype()
                                                           : below(UCC_DT_UNSUPPORTED));
}

/* What they may touch has to exist, as above. */
static uint64_t any_room(void) {
    uint64_t count = any_count();
    return count > MAX_COUNT && count <= INT64_MAX ? 4 : count;
}

static heddle_draft_coll_op_args_t any_draft_args(slot_t *slot) {
    static const uint64_t flags[] = {0,
                                     0,
                                     0,
                                     UCC_COLL_ARGS_FLAG_IN_PLACE,
                                     UCC_COLL_ARGS_FLAG_PERSISTENT,
                                     HEDDLE_COLL_FLAG_SYMMETRIC};
    heddle_draft_coll_op_args_t a;
    heddle_draft_coll_buffer_info_t *b = &a.ext_args.buffer_info;
    any_vectors(slot);
    memset(&a, (int)below(256), sizeof(a));
    a.coll_type = (heddle_draft_coll_type_t)(uint32_t)(chance(20) ? garbage() : UCC_BIT(below(12)));
    a.ext_args.root = chance(12) ? garbage() : below(w.n);
    a.ext_args.tag = below(3);
    a.ext_args.error_type = (ucc_error_type_t)below(2);
    b->src_buffer = chance(16) ? NULL : slot->src;
    b->dst_buffer = chance(16) ? NULL : slot->dst;
    b->scounts = chance(4) ? (uint32_t *)(void *)slot->counts : NULL;
    b->dst_counts = chance(4) ? (uint32_t *)(void *)slot->counts : NULL;
    b->src_displacements = chance(2) ? (uint32_t *)(void *)slot->displacements : NULL;
    b->dst_displacements = chance(2) ? (uint32_t *)(void *)slot->displacements : NULL;
    b->size = any_room();
    b->src_datatype = chance(4) ? any_draft_datatype() : HEDDLE_DRAFT_DT_INT8;
    b->dst_datatype = chance(4) ? any_draft_datatype() : HEDDLE_DRAFT_DT_INT8;
    b->flags = chance(16) ? garbage() & ~(uint64_t)(UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                                    UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT)
                          : flags[below(6)];
    a.ext_args.reduction_info.dt = any_draft_datatype();
    a.ext_args.reduction_info.op =
        (heddle_draft_reduction_op_t)(uint32_t)(chance(8) ? garbage() : UCC_BIT(below(17)));
    a.ext_args.reduction_info.count = any_room();
    return a;
}

static ucc_status_t start_by_draft(slot_t *slot, ucc_coll_req_h *request, ucc_team_h team) {
    heddle_draft_coll_op_args_t a = any_draft_args(slot);
    return called(heddle_draft_start(1 + (uint32_t)below(2), chance(30) ? NULL : &a, below(2),
                                     chance(30) ? NULL : request, team));
}

/* --- collectives ------------------------------------------------------------------------------ */

static void progress_all(void) {
    for (uint32_t i = 0; i < w.n; i++) {
        called(ucc_context_progress(w.contexts[i]));
    }
}

static void init_one(void) {
    int slot = free_request();
    if (slot < 0) {
        return;
    }
    ucc_coll_args_t a = any_args(&slots[slot]);
    ucc_coll_req_h request = NULL;
    ucc_team_h team = any_team();
    if (chance(30)) {
        called(ucc_collective_init(chance(2) ? NULL : &a, NULL, team));
        return;
    }
    ucc_status_t status;
    switch (below(4)) {
    case 0:
        status = called(ucc_collective_init(&a, &request, team));
        break;
    case 3:
        status = start_by_draft(&slots[slot], &request, team);
        break;
    case 1:
        status = called(heddle_collective_init_tagged(&a, below(3), &request, team));
        break;
    default:
        status = called(ucc_collective_init_and_post(&a, &request, team));
        break;
    }
    if (status == UCC_OK) {
        w.requests[slot] = request;
    } /* after a failed init_and_post there is no request */
}

/* The same call at all endpoints, as programs do it: most of them work. */
static void init_everywhere(void) {
    slot_t *model = &slots[MAX_REQUESTS];
    ucc_coll_args_t a = any_args(model);
    a.mask &= ~(uint64_t)UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    for (uint32_t i = 0; i < w.n; i++) {
        int slot = free_request();
        ucc_coll_req_h request;
        if (slot < 0) {
            return;
        }
        ucc_coll_args_t own = move_args(a, model, &slots[slot]);
        if (called(ucc_collective_init(&own, &request, w.teams[i])) == UCC_OK) {
            w.requests[slot] = request;
            ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request};
            called(w.ees[i] && !chance(4) ? ucc_collective_triggered_post(w.ees[i], &event)
                                          : ucc_collective_post(request));
            if (w.ees[i]) {
                called(ucc_ee_set_event(w.ees[i], &event));
            }
        }
    }
}

static void touch_request(void) {
    int i = any_request();
    if (i < 0) {
        called(ucc_collective_post(NULL));
        called(ucc_collective_finalize(NULL));
        called(heddle_wait(NULL, 0));
        return;
    }
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = w.requests[i]};
    switch (below(4)) {
    case 0:
        called(ucc_collective_post(w.requests[i]));
        called(ucc_collective_triggered_post(w.ees[below(w.n)], &event));
        break;
    case 1:
        called(heddle_wait(w.requests[i], chance(2) ? 0 : 1e-5));
        break;
    default:
        completed += ucc_collective_test(w.requests[i]) == UCC_OK;
        if (called(ucc_collective_finalize(w.requests[i])) == UCC_OK) {
            w.requests[i] = NULL;
        }
    }
}

/* Blocks: only where no peer can be missed. */
static void blocking_calls(void) {
    slot_t *slot = &slots[MAX_REQUESTS];
    uint64_t a = any_count() % 600, root = chance(4) ? garbage() : 0;
    heddle_ep_t *ep = w.n == 1 ? any_ep() : NULL;
    ucc_datatype_t dt = any_datatype();
    ucc_reduction_op_t op = (ucc_reduction_op_t)below(UCC_OP_LAST + 1);
    void *src = chance(8) ? NULL : chance(4) ? HEDDLE_IN_PLACE : slot->src;
    void *dst = chance(8) ? NULL : slot->dst;
    uint64_t *counts = chance(8) ? NULL : slot->counts,
             *at = chance(2) ? NULL : slot->displacements;
    any_vectors(slot);
    if (!src || !dst) {
        at = NULL; /* with displacements, NULL is a base for addresses, and these are none */
    }
    called(heddle_barrier(ep));
    called(heddle_fanin(ep, (uint32_t)root));
    called(heddle_fanout(ep, (uint32_t)root));
    called(heddle_bcast(ep, dst, a, dt, (uint32_t)root));
    called(heddle_mcast(ep, dst, a, dt, (uint32_t)root));
    called(heddle_reduce(ep, src, dst, a, dt, op, (uint32_t)root));
    called(heddle_allreduce(ep, src, dst, a, dt, op));
    called(heddle_reduce_scatter(ep, src, dst, a, dt, op));
    called(heddle_reduce_scatterv(ep, src, dst, counts, dt, op));
    called(heddle_allgather(ep, src, dst, a, dt));
    called(heddle_allgatherv(ep, src, a, dst, counts, at, dt));
    called(heddle_gather(ep, src, dst, a, dt, (uint32_t)root));
    called(heddle_gatherv(ep, src, a, dst, counts, at, dt, (uint32_t)root));
    called(
        heddle_scatter(ep, src == HEDDLE_IN_PLACE ? slot->src : src, dst, a, dt, (uint32_t)root));
    called(heddle_scatterv(ep, src == HEDDLE_IN_PLACE ? slot->src : src, counts, at, dst, a, dt,
                           (uint32_t)root));
    called(heddle_alltoall(ep, src, dst, a, dt));
    called(heddle_alltoallv(ep, src, counts, at, dst, counts, at, dt));
    ucc_coll_args_t args = any_args(slot);
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 1e-5;
    called(heddle_collective(chance(10) ? NULL : &args, chance(10) ? NULL : w.teams[0]));
}

/* --- everything else -------------------------------------------------------------------------- */

static const char *any_name(void) {
    static const char *const names[] = {
        "CLS",      "TLS",     "LOG_LEVEL",         "CHECK", "RING",   "STAGED_MAX",
        "FLAT_MAX", "ARRIVAL", "ESTIMATED_NUM_EPS", "",      "NPOLLS", "a name of nothing",
        "CHUNK",    "TREE",    "LINES_MAX"};
    return chance(20) ? NULL : names[below(15)];
}

static const char *any_value(void) {
    static const char *const values[] = {
        "1",     "0", "y",       "fatal", "-1", "", "auto", "4k", "inf", "99999999999999999999",
        "basic", "8", "counter", "64m"};
    return chance(20) ? NULL : values[below(14)];
}

static void configuration(void) {
    ucc_lib_config_h lib = NULL;
    ucc_context_config_h context = NULL;
    const char *prefix = chance(2) ? NULL : "OMPI", *file = chance(8) ? "/nonexistent" : NULL;
    called(ucc_lib_config_read(prefix, file, chance(10) ? NULL : &lib));
    called(ucc_lib_config_modify(lib, any_name(), any_value()));
    called(ucc_lib_config_modify(lib, any_name(), any_value()));
    if (chance(40)) {
        ucc_lib_config_print(lib, chance(8) ? NULL : sink, chance(2) ? NULL : "title",
                             (ucc_config_print_flags_t)below(16));
    }
    ucc_lib_params_t params = {.mask = garbage(),
                               .thread_mode = (ucc_thread_mode_t)below(5),
                               .coll_types = garbage(),
                               .reduction_types = garbage(),
                               .sync_type = (ucc_coll_sync_type_t)below(3)};
    ucc_lib_h other = NULL;
    if (called(ucc_init_version(chance(8) ? (unsigned)garbage() : UCC_API_MAJOR,
                                (unsigned)garbage(), chance(20) ? NULL : &params, lib,
                                chance(20) ? NULL : &other)) == UCC_OK) {
        called(ucc_context_config_read(other, file, &context));
        called(ucc_context_config_modify(context, chance(2) ? NULL : "tl/ucp", any_name(),
                                         any_value()));
        if (chance(40)) {
            ucc_context_config_print(context, chance(8) ? NULL : sink, "title",
                                     (ucc_config_print_flags_t)below(16));
        }
        called(ucc_finalize(other));
    }
    ucc_lib_config_release(lib);
    ucc_context_config_release(context);
    calls += 4;
}

static void attributes(void) {
    ucc_lib_attr_t lib = {.mask = garbage()};
    ucc_context_attr_t context = {.mask = garbage()};
    ucc_team_attr_t team = {.mask = garbage()};
    heddle_draft_lib_attribs_t draft_lib;
    heddle_draft_context_attribs_t draft_context;
    heddle_draft_team_attribs_t draft_team;
    uint32_t size;
    uint64_t ep, *eps, n;
    void *address;
    size_t bytes;
    int device;
    ucc_thread_mode_t mode;
    bool null = chance(10);
    unsigned major, minor, release;
    called(ucc_lib_get_attr(any_lib(), null ? NULL : &lib));
    called(ucc_lib_get_attribs(any_lib(), null ? NULL : &lib));
    called(ucc_context_get_attr(any_context(), null ? NULL : &context));
    called(ucc_context_get_attribs(any_context(), null ? NULL : &context));
    called(ucc_team_get_attr(any_team(), null ? NULL : &team));
    called(ucc_team_get_attribs(any_team(), null ? NULL : &team));
    called(ucc_get_team_attribs(any_team(), null ? NULL : &team));
    called(heddle_draft_lib_get_attribs(any_lib(), null ? NULL : &draft_lib));
    called(heddle_draft_context_get_attribs(any_context(), null ? NULL : &draft_context));
    called(heddle_draft_team_get_attribs(any_team(), null ? NULL : &draft_team));
    called(ucc_team_get_size(any_team(), null ? NULL : &size));
    called(ucc_get_team_size(any_team(), null ? NULL : &size));
    called(ucc_team_get_my_ep(any_team(), null ? NULL : &ep));
    called(ucc_get_team_my_ep(any_team(), null ? NULL : &ep));
    called(ucc_team_get_all_eps(any_team(), null ? NULL : &eps, &n));
    called(ucc_get_team_all_eps(any_team(), &eps, null ? NULL : &n));
    called(heddle_team_get_thread_mode(any_team(), null ? NULL : &mode));
    called(heddle_team_memory(any_team(), chance(4) ? garbage() : below(w.n),
                              null ? NULL : &address, &bytes));
    called(heddle_team_gpu(any_team(), chance(4) ? garbage() : below(w.n), null ? NULL : &device));
    ucc_get_version(&major, null ? NULL : &minor, &release);
    ucc_get_version_string();
    ucc_status_string((ucc_status_t)(int32_t)garbage());
    (void)heddle_ep_index(any_ep());
    (void)heddle_ep_size(any_ep());
    (void)heddle_ep_team(any_ep());
    (void)heddle_ep_context(any_ep());
    calls += 7;
}

static void engines(void) {
    ucc_ee_params_t params = {.ee_type = (ucc_ee_type_t)below(5)};
    uint32_t i = (uint32_t)below(w.n);
    ucc_ev_t event = {.ev_type = (ucc_event_type_t)below(16)}, *p = NULL;
    if (!w.ees[i] && called(ucc_ee_create(chance(4) ? NULL : w.teams[i], chance(4) ? NULL : &params,
                                          &w.ees[i])) != UCC_OK) {
        w.ees[i] = NULL;
    }
    ucc_ee_h ee = chance(4) ? NULL : w.ees[i];
    called(ucc_ee_create(any_team(), &params, NULL));
    called(ucc_ee_wait(NULL, &event));
    called(ucc_ee_ack_event(ee, &event));
    called(ucc_ee_set_event(ee, chance(4) ? NULL : &event));
    if (called(ucc_ee_get_event(ee, chance(4) ? NULL : &p)) == UCC_OK && p && !chance(4)) {
        called(ucc_ee_ack_event(ee, p));
    }
    if (chance(4) && called(ucc_ee_destroy(ee)) == UCC_OK) {
        w.ees[i] = NULL;
    }
}

static void memory(void) {
    ucc_mem_map_t segments[2] = {{slots[0].src, 64}, {slots[0].dst, 64}};
    ucc_mem_map_params_t params = {chance(10) ? NULL : segments, chance(4) ? below(3) : 1};
    ucc_mem_map_mem_h handle = NULL;
    size_t bytes = 0;
    called(ucc_mem_map(any_context(), (ucc_mem_map_mode_t)(uint32_t)(chance(4) ? garbage() : 0),
                       chance(20) ? NULL : &params, chance(20) ? NULL : &bytes,
                       chance(20) ? NULL : &handle));
    if (handle) {
        called(ucc_mem_map(any_context(), UCC_MEM_MAP_MODE_IMPORT, &params, &bytes, &handle));
    }
    called(ucc_mem_unmap(chance(20) ? NULL : &handle));
    if (handle) {
        called(ucc_mem_unmap(&handle));
    }
}

static void datatypes(void) {
    ucc_generic_dt_ops_t ops;
    ucc_datatype_t dt = UCC_DT_INT32;
    memset(&ops, 0, sizeof(ops));
    ops.mask = garbage();
    ops.flags = below(4);
    ops.contig_size = below(3) * 8;
    if (called(ucc_dt_create_generic(chance(10) ? NULL : &ops, NULL, chance(10) ? NULL : &dt)) ==
        UCC_OK) {
        ucc_dt_destroy(dt);
        calls++;
    }
}

static ucc_status_t no_allgather(void *src, void *dst, size_t bytes, void *arg, void **request) {
    (void)src, (void)dst, (void)bytes, (void)arg, (void)request;
    return UCC_ERR_NO_RESOURCE;
}

static ucc_status_t no_request(void *request) {
    (void)request;
    return UCC_ERR_NO_RESOURCE;
}

static ucc_team_params_t any_team_params(void) {
    static uint32_t map[4];
    ucc_team_params_t p;
    memset(&p, (int)below(256), sizeof(p));
    p.mask = garbage() | (chance(2) ? UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_TEAM_SIZE : 0);
    p.ordering = (ucc_post_ordering_t)below(8);
    p.outstanding_colls = garbage();
    p.ep = chance(4) ? garbage() : below(3);
    p.team_size = chance(8) ? garbage() % 300 : 1 + below(2);
    p.sync_type = (ucc_coll_sync_type_t)below(3);
    p.ep_range = (ucc_ep_range_type_t)below(3);
    p.id = below(4);
    p.oob = (ucc_oob_coll_t){.allgather = chance(8) ? NULL : no_allgather,
                             .req_test = no_request,
                             .req_free = no_request,
                             .n_oob_eps = (uint32_t)below(3),
                             .oob_ep = (uint32_t)below(3)};
    p.ep_map.type = (ucc_ep_map_type_t)(1 + below(5));
    p.ep_map.ep_num = chance(8) ? garbage() : below(5);
    if (p.ep_map.type == UCC_EP_MAP_STRIDED) {
        p.ep_map.strided.start = below(3);
        p.ep_map.strided.stride = (int64_t)below(5) - 2;
    } else if (p.ep_map.type == UCC_EP_MAP_ARRAY) {
        p.ep_map.array.map = chance(4) ? NULL : map;
        p.ep_map.array.elem_size = chance(4) ? garbage() : 4;
    } else {
        p.ep_map.cb.cb = NULL;
    }
    return p;
}

static int no_draft_allgather(void *src, void *dst, size_t bytes, void *arg, void **request) {
    return no_allgather(src, dst, bytes, arg, request);
}

static heddle_draft_team_params_t any_draft_team_params(void) {
    static uint8_t team_memory[256];
    heddle_draft_team_params_t p;
    memset(&p, (int)below(256), sizeof(p));
    p.ordering = (ucc_post_ordering_t)below(8);
    p.ep = chance(2) ? garbage() : below(3);
    p.sync_type = (ucc_coll_sync_type_t)below(3);
    p.oob_collective.allgather = chance(8) ? NULL : no_draft_allgather;
    p.oob_collective.req_test = no_request;
    p.oob_collective.req_free = no_request;
    p.oob_collective.participants = (uint32_t)below(3);
    p.mem_params.address = chance(2) ? NULL : team_memory + below(64);
    p.mem_params.len = below(100);
    p.mem_params.constraints = (ucc_mem_constraints_t)below(32);
    return p;
}

static void teams(void) {
    ucc_team_h *team = free_team();
    ucc_team_params_t p = any_team_params();
    static uint8_t team_memory[256];
    heddle_team_params_t extra = {.mask = garbage(),
                                  .thread_mode = (ucc_thread_mode_t)below(4),
                                  .locality = HEDDLE_LOCALITY_NONE};
    extra.memory.bytes = below(100);
    extra.memory.address = chance(2) ? NULL : team_memory + below(64);
    extra.memory.hints = garbage();
    extra.memory.constraints = below(32);
    if (!team) {
        return;
    }
    ucc_context_h contexts[2] = {any_context(), any_context()};
    uint32_t n = chance(10) ? (uint32_t)garbage() % 3 : 1;
    uint64_t list[4] = {below(w.n + 1), below(w.n), below(w.n), below(w.n)}, *lists = list;
    switch (below(7)) {
    case 4:
        called(heddle_draft_team_create_post(contexts, n, any_draft_team_params(), team));
        break;
    case 5:
        called(heddle_draft_team_create_from_parent(chance(4) ? garbage() : below(w.n),
                                                    below(3) != 0, any_team(), team));
        break;
    case 6:
        called(heddle_draft_create_team_from_eps(any_team(), chance(20) ? NULL : &lists,
                                                 below(w.n + 2), team));
        break;
    case 0:
        called(ucc_team_create_post(chance(20) ? NULL : contexts, n, chance(20) ? NULL : &p,
                                    chance(20) ? NULL : team));
        break;
    case 1:
        called(heddle_team_create_post(contexts, n, &p, chance(4) ? NULL : &extra, team));
        break;
    case 2:
        called(ucc_team_create_from_parent(chance(4) ? garbage() : below(w.n), (uint32_t)below(3),
                                           any_team(), team));
        break;
    default:
        called(
            ucc_create_team_from_eps(any_team(), chance(20) ? NULL : &lists, below(w.n + 2), team));
    }
}

static void drive_teams(void) {
    for (uint32_t i = 0; i < MAX_TEAMS; i++) {
        if (w.more[i]) {
            called(ucc_team_create_test(w.more[i]));
        }
    }
    called(ucc_team_create_test(NULL));
    called(ucc_team_create_test(any_team()));
}

static void destroy_something(void) {
    uint32_t i = (uint32_t)below(MAX_TEAMS);
    bool used = false;
    for (uint32_t k = 0; k < MAX_REQUESTS; k++) {
        used = used || w.requests[k]; /* a request of a destroyed team would be a stale handle */
    }
    if (!w.group) {
        called(ucc_finalize(w.libs[0])); /* refused: contexts are alive */
    }
    called(ucc_context_destroy(w.contexts[0])); /* refused: teams are alive */
    called(ucc_team_destroy(NULL));
    called(ucc_finalize(NULL));
    called(ucc_context_destroy(NULL));
    if (!used && w.more[i] && called(ucc_team_destroy(w.more[i])) == UCC_OK) {
        w.more[i] = NULL;
    }
}

static void nothing(heddle_ep_t *ep, void *arg) {
    (void)ep;
    *(uint64_t *)arg = 1;
}

static void groups(void) {
    heddle_group_params_t p = {.endpoints = chance(4) ? 0 : 1 + (uint32_t)below(3)};
    heddle_group_t *group = NULL;
    heddle_ep_t *ep[3] = {NULL};
    heddle_locality_t where = {(int32_t)below(3) - 1, 0, -1, (int32_t)garbage()};
    uint64_t ran = 0;
    p.contexts = (uint32_t)below(5);
    p.thread_mode = (ucc_thread_mode_t)below(4);
    p.ordering = (ucc_post_ordering_t)below(8);
    p.sync_type = (ucc_coll_sync_type_t)below(3);
    p.symmetric_bytes = below(2) * below(300);
    p.symmetric_constraints = garbage();
    called(heddle_group_create(chance(20) ? NULL : &p, chance(20) ? NULL : &group));
    for (uint32_t i = 0; group && i < 3; i++) {
        uint32_t index = (uint32_t)below(4);
        called(chance(2) ? heddle_join(group, index, &ep[i])
                         : heddle_join_at(group, index, chance(2) ? NULL : &where, &ep[i]));
    }
    called(heddle_join(group, 0, NULL));
    called(heddle_group_destroy(group));
    for (uint32_t i = 0; i < 3; i++) {
        called(heddle_leave(ep[i]));
    }
    if (chance(50)) {
        called(heddle_run(1, chance(4) ? NULL : nothing, &ran));
    }
    if (chance(50)) {
        called(heddle_info_print(chance(4) ? NULL : sink, garbage(), (uint32_t)below(40)));
    }
}

/* --- worlds ----------------------------------------------------------------------------------- */

static void make_group_world(void) {
    heddle_group_params_t p = {.endpoints = w.n,
                               .thread_mode = (ucc_thread_mode_t)below(3),
                               .ordering = chance(3) ? (ucc_post_ordering_t)below(6) : 0,
                               .sync_type = (ucc_coll_sync_type_t)chance(4),
                               .symmetric_bytes = 256 * below(2)};
    must(heddle_group_create(&p, &w.group), "heddle_group_create");
    for (uint32_t i = 0; i < w.n; i++) {
        must(heddle_join(w.group, i, &w.eps[i]), "heddle_join");
        w.teams[i] = heddle_ep_team(w.eps[i]);
        w.contexts[i] = heddle_ep_context(w.eps[i]);
    }
    ucc_lib_params_t params = {.mask = 0};
    for (uint32_t i = 0; i < w.n; i++) {
        must(ucc_init(&params, NULL, &w.libs[i]), "ucc_init");
    }
}

static void make_ucc_world(void) {
    static uint64_t id = 1000;
    id++;
    for (uint32_t i = 0; i < w.n; i++) {
        ucc_lib_params_t lib = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = (ucc_thread_mode_t)(id % 3)};
        ucc_context_params_t context = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE,
                                        .type = UCC_CONTEXT_SHARED};
        ucc_team_params_t team = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_TEAM_SIZE |
                                          UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ORDERING,
                                  .ep = i,
                                  .team_size = w.n,
                                  .ordering = (ucc_post_ordering_t)(id % 6),
                                  .id = id};
        must(ucc_init(&lib, NULL, &w.libs[i]), "ucc_init");
        must(ucc_context_create(w.libs[i], &context, NULL, &w.contexts[i]), "ucc_context_create");
        must(ucc_team_create_post(&w.contexts[i], 1, &team, &w.teams[i]), "ucc_team_create_post");
    }
    deadline_t deadline = deadline_start("forming a team");
    for (uint32_t i = 0; i < w.n; i++) {
        while (ucc_team_create_test(w.teams[i]) == UCC_INPROGRESS) {
            ucc_team_create_test(w.teams[below(w.n)]);
            deadline_poll(&deadline);
        }
    }
}

/* All end: by success, timeout, or the team's abort. Those posted without a timeout (a mask without
 * FLAGS) need the last. */
static void end_requests(void) {
    deadline_t deadline = deadline_start("the end of all requests");
    for (uint32_t i = 0; i < w.n; i++) {
        called(heddle_team_abort(w.teams[i]));
    }
    for (uint32_t i = 0; i < MAX_TEAMS; i++) {
        if (w.more[i]) {
            called(heddle_team_abort(w.more[i])); /* refused unless it is active */
        }
    }
    for (uint32_t k = 0; k < MAX_REQUESTS; k++) {
        while (w.requests[k] && ucc_collective_test(w.requests[k]) == UCC_INPROGRESS) {
            progress_all();
            deadline_poll(&deadline);
        }
        if (w.requests[k]) {
            must(called(ucc_collective_finalize(w.requests[k])), "ucc_collective_finalize");
        }
    }
}

static void end_world(void) {
    end_requests();
    for (uint32_t i = 0; i < MAX_TEAMS; i++) {
        if (w.more[i]) {
            must(called(ucc_team_destroy(w.more[i])), "ucc_team_destroy");
        }
    }
    for (uint32_t i = 0; i < w.n; i++) {
        if (w.ees[i]) {
            must(called(ucc_ee_destroy(w.ees[i])), "ucc_ee_destroy");
        }
        if (w.eps[i]) {
            must(called(heddle_leave(w.eps[i])), "heddle_leave");
        } else {
            must(called(ucc_team_destroy(w.teams[i])), "ucc_team_destroy");
            must(called(ucc_context_destroy(w.contexts[i])), "ucc_context_destroy");
        }
        must(called(ucc_finalize(w.libs[i])), "ucc_finalize");
    }
    if (w.group) {
        must(called(heddle_group_destroy(w.group)), "heddle_group_destroy");
    }
}

static void one_call(void) {
    switch (below(64)) {
    case 0:
        configuration();
        break;
    case 1:
        attributes();
        break;
    case 3:
        engines();
        break;
    case 4:
        memory();
        break;
    case 5:
        datatypes();
        break;
    case 6:
    case 7:
        teams();
        break;
    case 8:
    case 9:
        drive_teams();
        break;
    case 10:
        destroy_something();
        break;
    case 11:
        if (chance(4)) {
            groups();
        }
        break;
    case 12:
        blocking_calls();
        break;
    case 14:
        if (chance(100)) {
            called(heddle_team_abort(any_team()));
        }
        break;
    default:
        switch (below(12)) {
        case 0:
            if (!tame_world) {
                init_one();
            }
            break;
        case 1:
        case 2:
        case 3:
            init_everywhere();
            break;
        case 4:
        case 5:
        case 6:
            progress_all();
            break;
        default:
            touch_request();
        }
    }
}

static void *start_pack(void *context, const void *buffer, size_t count) {
    (void)context;
    size_t *s = must_alloc(2, sizeof(*s));
    s[0] = count * 4;
    s[1] = (size_t)(uintptr_t)buffer;
    return s;
}

static void *start_unpack(void *context, void *buffer, size_t count) {
    return start_pack(context, buffer, count);
}

static size_t packed_size(void *s) {
    return ((size_t *)s)[0] <= MAX_COUNT * 4 ? ((size_t *)s)[0] : 0;
}

static size_t pack(void *s, size_t offset, void *dst, size_t length) {
    memcpy(dst, (uint8_t *)(uintptr_t)((size_t *)s)[1] + offset, length);
    return length;
}

static ucc_status_t unpack(void *s, size_t offset, const void *src, size_t length) {
    memcpy((uint8_t *)(uintptr_t)((size_t *)s)[1] + offset, src, length);
    return UCC_OK;
}

static ucc_status_t reduce(const ucc_reduce_cb_params_t *p) {
    memmove(p->dst, p->src1, p->count * 8);
    return chance(50) ? UCC_ERR_NO_RESOURCE : UCC_OK;
}

static void make_datatypes(void) {
    ucc_generic_dt_ops_t user = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                 .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG |
                                          UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                 .contig_size = 8,
                                 .reduce.cb = reduce};
    ucc_generic_dt_ops_t packed = {.start_pack = start_pack,
                                   .start_unpack = start_unpack,
                                   .packed_size = packed_size,
                                   .pack = pack,
                                   .unpack = unpack,
                                   .finish = free};
    must(ucc_dt_create_generic(&user, NULL, &user_dt), "ucc_dt_create_generic");
    must(ucc_dt_create_generic(&packed, NULL, &packed_dt), "ucc_dt_create_generic");
}

int main(int argc, char **argv) {
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : STRESS_TSAN ? 1000000 : 10000000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 20;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.5", 0);
    sink = fopen("/dev/null", "w");
    for (uint32_t i = 0; i <= MAX_REQUESTS; i++) {
        slots[i].src = must_alloc(ARENA, 1);
        slots[i].dst = must_alloc(ARENA, 1);
    }
    make_datatypes();
    printf("fuzz_api: %llu calls from seed %llu\n", (unsigned long long)wanted,
           (unsigned long long)seed);
    fflush(stdout);
    uint64_t worlds = 0;
    while (calls < wanted) {
        state = seed * 1000003 + worlds; /* so that `calls` 1 and this seed repeat one world */
        memset(&w, 0, sizeof(w));
        w.n = 1 + (uint32_t)below(MAX_EPS);
        tame_world = chance(2);
        if (chance(2)) {
            make_group_world();
        } else {
            make_ucc_world();
        }
        for (uint32_t i = 0; i < CALLS_PER_WORLD; i++) {
            one_call();
        }
        end_world();
        worlds++;
    }
    ucc_dt_destroy(user_dt);
    ucc_dt_destroy(packed_dt);
    fclose(sink);
    for (uint32_t i = 0; i <= MAX_REQUESTS; i++) {
        free(slots[i].src);
        free(slots[i].dst);
    }
    printf("fuzz_api: %llu calls in %llu worlds, %llu collectives ended well\n",
           (unsigned long long)calls, (unsigned long long)worlds, (unsigned long long)completed);
    return 0;
}
