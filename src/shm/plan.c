/* plan.c: how a call runs among the endpoints of one process: the one place that compares sizes and
 * numbers of members with thresholds. Slow path: a plan is made when a call is prepared and kept
 * while it is repeated, but for the v types, whose counts each post reads. What those decide is
 * worked out by functions that are compiled for each of the v types, with nothing left in them that
 * its type settles.
 *
 * What decides, collective by collective (two-sided operation makes all data DIRECT, so that all
 * enter and leave together):
 *
 *   barrier                  lanes of a flat group, else its tree; two-sided, so do fanin and
 *                            fanout
 *   fanin                    the root looks at all lanes where members are fixed: nobody else may
 *                            be kept
 *   bcast, mcast             by what the root sends; over several domains of a machine, down lines
 *                            of release
 *   reduce, allreduce        by one operand; in a tree only what fits its records
 *   reduce_scatter(v)        by a whole operand, and only among few: each reads them all
 *   scan, exscan             by one operand, and not among many: each reads those before it
 *   allgather, gather        by one block
 *   allgatherv               by the largest block, which all know; each lane then by its own block
 *   alltoall, scatter        by all blocks that one member sends
 *   gatherv, scatterv, alltoallv   each source by its own total: nobody knows the others'
 *   user's reductions        the engine: it keeps the user's function to one thread at a time
 *
 * How the engine's work is cut goes by the row of its table (work.c), or by that of an outer stage.
 * A unit touches at most about group->chunk bytes over all its sources and destinations, and, where
 * all members know the size, is at most half of a member's share, unless that is small. Results
 * that would not stay in their readers' caches are written past them, by streaming stores:
 * docs/performance.md has the figures.
 *
 * A group's thresholds, and those that others ask for as well, are in thresholds.c, below those
 * others.
 */
#include "shm/internal.h"

enum {
    PREFIX_READERS = 64,     /* members up to which each reads the lanes of those before it */
    MAX_SHARES = 64,         /* slices of one block that all work on */
    UNSHARED = 32 * 1024,    /* a member's share of so many bytes is one unit */
    UNSHARED_PULL = 4 * 1024 /* less in a scatter, whose root is soon done with its own block */
};

/* --- regimes ---------------------------------------------------------------------------------- */

/* Of what one member publishes, how much does each peer read? Uneven blocks count as even ones:
 * the same at all. */
static size_t read_by_peers(const hd_coll_t *coll, uint32_t n, size_t bytes) {
    return coll->source == HD_BLOCKS ? bytes / n * (n - 1) : bytes;
}

/* Where one member publishes so many bytes, and nobody needs the others' arrival. */
static inline hd_regime_t regime_by_size(const hd_group_t *group, const hd_coll_t *coll, uint32_t n,
                                         size_t bytes) {
    if (bytes <= HD_INLINE_MAX) {
        return HD_REGIME_INLINE;
    }
    /* where everybody writes lines and looks at the others', they are in each other's way sooner */
    if (bytes <= (coll->bcast ? group->lines_max : group->lines_max / 2)) {
        return HD_REGIME_LINES;
    }
    return bytes <= group->lines_max || (bytes <= group->staged_slot &&
                                         read_by_peers(coll, n, bytes) <= group->staged_max)
               ? HD_REGIME_STAGED
               : HD_REGIME_DIRECT;
}

static hd_regime_t regime_for(const hd_group_t *group, const hd_coll_t *coll, uint32_t n,
                              size_t bytes) {
    return group->two_sided ? HD_REGIME_DIRECT : regime_by_size(group, coll, n, bytes);
}

const char *hd_regime_name(hd_regime_t regime) {
    static const char *const name[] = {"none", "inline", "lines", "staged", "direct"};
    _Static_assert(HD_REGIME_NONE == 0 && HD_REGIME_DIRECT + 1 == sizeof(name) / sizeof(name[0]),
                   "names stand in the order of hd_regime_t");
    return name[regime];
}

/* --- what a plan is made from ----------------------------------------------------------------- */

/* Compiled into each caller: for a caller that knows the type, without what does not concern it. */
#define KNOWN_TYPE inline __attribute__((always_inline))

typedef struct facts {
    const hd_group_t *group;
    const hd_call_t *call;
    const hd_coll_t *coll;
    uint8_t type;
    uint32_t me, n;
    bool of_set; /* the board is an active set's */
    bool flat;   /* the board has no tree */
    bool few;    /* flat, and one block of a reduction */
    bool relays; /* of a bcast: the board's tree has lines of release, and members to write them */
    bool publishes; /* this member's lane has data, unless that is DIRECT */
    bool awaits;    /* this member waits for others' data */
} facts_t;

static bool has_relays(const hd_group_t *group, const hd_place_t *place) {
    const hd_tree_t *tree = place->of_set ? NULL : group->by_topology;
    return group->static_arrival && tree && tree->n_lines > 0;
}

/* type is the call's; see KNOWN_TYPE. */
static KNOWN_TYPE facts_t facts_of(uint8_t type, const hd_group_t *group, const hd_call_t *call,
                                   const hd_place_t *place) {
    const hd_coll_t *coll = &hd_coll[type];
    facts_t f = {
        .group = group, .call = call, .coll = coll, .type = type, .me = place->me, .n = place->n};
    f.of_set = place->of_set;
    f.flat = place->of_set ? hd_plan_is_flat(group, place->n) : !group->canonical;
    f.few = f.flat && place->n <= HD_REDUCE_BLOCK;
    f.relays = coll->bcast && has_relays(group, place);
    switch ((hd_flow_t)coll->flow) {
    case HD_FROM_ROOT:
        f.publishes = call->is_root;
        f.awaits = !call->is_root;
        break;
    case HD_TO_ROOT: /* the root's operand is published, its own block of a gather is not */
        f.publishes = !call->is_root || coll->reducing;
        f.awaits = call->is_root;
        break;
    case HD_AMONG_ALL:
        f.publishes = true;
        f.awaits = !coll->prefix || place->me > 0;
        break;
    }
    return f;
}

static size_t largest_block(const facts_t *f) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        uint64_t count = hd_vector_count(&f->call->receive, i);
        most = count > most ? count : most;
    }
    return (size_t)most * f->call->element;
}

/* Bytes that decide on the path, the same at all members. */
static KNOWN_TYPE size_t deciding_bytes(const facts_t *f) {
    if (f->type == HD_ALLGATHERV) {
        return largest_block(f);
    }
    if (f->coll->source != HD_BLOCKS) {
        return f->call->bytes;
    }
    return f->coll->vector ? f->call->total : f->call->bytes * f->n;
}

/* --- the engine's work ------------------------------------------------------------------------ */

/* About as many bytes as one member receives. For v types each knows its own; only who copies
 * minds. */
static size_t received(const hd_work_row_t *row, const hd_call_t *call, uint32_t n) {
    switch ((hd_work_receives_t)row->receives) {
    case HD_WORK_ALL_BLOCKS:
        return call->bytes * n;
    case HD_WORK_TOTAL:
        return call->total;
    case HD_WORK_OWN_BLOCK:
        break;
    }
    return call->bytes;
}

/* Bytes that a core copies, of all that is copied for all. */
static size_t copied(const hd_coll_t *coll, size_t bytes, uint32_t n) {
    return coll->flow == HD_TO_ROOT ? bytes / n : coll->bcast ? bytes / n * (n - 1) : bytes;
}

static uint8_t stores_of(const hd_group_t *group, const hd_work_row_t *row, const hd_call_t *call,
                         uint32_t n) {
    const hd_coll_t *coll = &hd_coll[call->type];
    size_t bytes = received(row, call, n);
    if (bytes <= group->plain_most) {
        return HD_STORES_PLAIN;
    }
    /* of a bcast, each has one buffer, not two: they still fit at twice the size */
    if ((coll->bcast ? (bytes - 1) / 2 : bytes) >= group->streaming_min) {
        return group->streaming;
    }
    /* reductions are written by vectors, in windows that stay in the first cache level */
    size_t each = copied(coll, bytes, n);
    return !row->reducing && each >= group->string_min && each < group->string_end
               ? HD_STORES_STRING
               : HD_STORES_PLAIN;
}

/* Whole elements, whole lines where elements fit into lines. */
static size_t window_of(const facts_t *f, const hd_work_row_t *row) {
    size_t element = f->call->element;
    /* only reductions agree on the element; blocks of data may be cut anywhere */
    size_t grain = row->reducing && HD_LINE % element != 0 ? element : HD_LINE;
    size_t streams = (size_t)row->streams_each * f->n + row->streams_more;
    size_t bytes = f->group->chunk / streams;
    if (!row->vector) {
        size_t share = row->windowed ? f->call->bytes / f->n : f->call->bytes;
        /* so that who is done first can take from who is not */
        if (share > UNSHARED) {
            share /= row->pulled ? 4 : 2;
        } else if (share > UNSHARED_PULL && row->pulled) {
            share /= 2;
        }
        share += grain - 1; /* a remainder is not worth a unit of its own */
        bytes = bytes < share ? bytes : share;
    }
    bytes -= bytes % grain;
    return bytes ? bytes : grain;
}

static uint32_t slices_of(const facts_t *f, const hd_work_row_t *row) {
    if (f->call->exclusive) {
        return 1; /* one claim word: one chunk of the user's operation at a time */
    }
    return row->windowed && f->n > MAX_SHARES ? MAX_SHARES : f->n;
}

static hd_naming_t naming_of(const facts_t *f) {
    if (!f->few) {
        return HD_NAMED_IN_ARRAYS;
    }
    return f->coll->vector ? HD_NAMED_IN_SLICES : HD_NAMED_IN_LANES;
}

/* By which way: who has the data writes them, or, from so large blocks on, who gets them reads
 * them. All members know it alike: their group's crossovers, and the block's size; where nobody
 * knows that, it is one large enough to matter. */
static __attribute__((noinline)) const hd_work_row_t *row_of(const facts_t *f) {
    enum { UNKNOWN = 64 * 1024 };
    const hd_work_row_t *row = &hd_work_rows[f->type];
    const hd_crossovers_t *from = &f->group->crossovers;
    const hd_work_row_t *other = from->each | from->same ? hd_work_by_destination(f->call) : NULL;
    if (!other) {
        return row;
    }
    size_t least = f->coll->pairwise ? from->each : from->same;
    size_t block = !f->coll->vector    ? f->call->bytes
                   : f->coll->pairwise ? UNKNOWN
                                       : largest_block(f);
    /* where results outgrow the shared caches, sources are there no more, either: what is given to
     * all is fetched by whom it belongs to, once */
    bool fetched = !f->coll->pairwise && block >= f->group->streaming_min / f->n;
    return least && block >= least && !fetched ? other : row;
}

static void cut_work(const facts_t *f, const hd_work_row_t *row, hd_plan_t *plan) {
    plan->row = row;
    plan->naming = (uint8_t)naming_of(f);
    plan->stores = stores_of(f->group, row, f->call, f->n);
    plan->slices = slices_of(f, row);
    plan->window = window_of(f, row);
}

const char *hd_stores_name(uint8_t stores) {
    static const char *const name[] = {"plain", "string", "streaming", "pages"};
    _Static_assert(HD_STORES_PAGES + 1 == sizeof(name) / sizeof(name[0]), "a name for each");
    return name[stores];
}

/* --- paths ------------------------------------------------------------------------------------ */

/* set: how many members an active set has, or 0. Apart, so that few members' v types, which are
 * planned at each post, pay nothing for it. */
static __attribute__((noinline)) uint8_t arrival_of_many(const hd_group_t *group, uint32_t set,
                                                         bool all_wait, bool reducing) {
    if (set && all_wait && group->butterfly) {
        return hd_group_climbs(group, set) ? HD_ARRIVAL_BUTTERFLY : HD_ARRIVAL_STATIC;
    }
    return group->arrives_by[all_wait][reducing];
}

/* reducing: what arrives is combined with it. */
static uint8_t arrival_of(const facts_t *f, bool all_wait, bool reducing) {
    return f->flat ? HD_ARRIVAL_FLAT
                   : arrival_of_many(f->group, f->of_set ? f->n : 0, all_wait, reducing);
}

/* Apart from all that is compiled for a type. row NULL: the collective's. */
static __attribute__((noinline)) hd_plan_t plan_of_engine(const hd_group_t *group,
                                                          const hd_call_t *call,
                                                          const hd_place_t *place,
                                                          const hd_work_row_t *row) {
    facts_t f = facts_of(call->type, group, call, place);
    bool meets = !row; /* an outer stage's work begins when that lets it */
    row = row ? row : row_of(&f);
    hd_plan_t plan = {.path = HD_PATH_ENGINE,
                      .arrival = arrival_of(&f, meets, false),
                      .all_wait = true,
                      .regime = HD_REGIME_DIRECT,
                      .data = HD_REGIME_DIRECT};
    cut_work(&f, row, &plan);
    return plan;
}

static void take_tree(const facts_t *f, hd_plan_t *plan, bool all_wait) {
    plan->path = f->flat ? HD_PATH_LANES : HD_PATH_TREE;
    plan->arrival = arrival_of(f, all_wait, f->coll->reducing);
    plan->all_wait = all_wait;
}

/* Blocks of one source to all, of which `kept` bytes don't travel; their offsets come before
 * them. */
static inline hd_regime_t regime_of_blocks(const hd_group_t *group, const hd_coll_t *coll,
                                           const hd_call_t *call, uint32_t n, size_t kept) {
    size_t bytes = hd_plan_table_bytes(n) + call->total;
    return bytes > group->staged_max ? HD_REGIME_DIRECT
                                     : regime_by_size(group, coll, n, bytes - kept);
}

/* What follows from this member's counts where each source decides for itself. (A root's own
 * block of a gatherv does not travel.) */
static KNOWN_TYPE void plan_own_part(uint8_t type, const hd_group_t *group, const hd_call_t *call,
                                     uint32_t n, uint32_t me, hd_plan_t *plan) {
    const hd_coll_t *coll = &hd_coll[type];
    hd_regime_t regime = HD_REGIME_NONE;
    if (type == HD_ALLTOALLV) {
        size_t kept = hd_vector_count(&call->send, me) * call->send_element;
        regime = regime_of_blocks(group, coll, call, n, kept);
    } else if (type == HD_SCATTERV && call->is_root) {
        regime = regime_of_blocks(group, coll, call, n, 0);
    } else if (type == HD_GATHERV && !call->is_root) {
        regime = regime_by_size(group, coll, n, call->bytes);
    }
    plan->regime = (uint8_t)regime;
    plan->stores = stores_of(group, &hd_work_rows[type], call, n);
}

/* Each source decides for itself, where it may. */
bool hd_plan_is_mixed(uint8_t type) {
    return type == HD_GATHERV || type == HD_SCATTERV || type == HD_ALLTOALLV;
}

static hd_plan_t plan_mixed(const hd_group_t *group, const hd_call_t *call,
                            const hd_place_t *place) {
    facts_t f = facts_of(call->type, group, call, place);
    /* in place, what is received lands where unsent blocks lie: only swapping by the engine is
     * safe */
    if (group->two_sided || (f.coll->pairwise && call->in_place)) {
        return plan_of_engine(group, call, place, NULL);
    }
    hd_plan_t plan = {.path = HD_PATH_MIXED, .arrival = arrival_of(&f, false, false)};
    cut_work(&f, row_of(&f), &plan);
    plan_own_part(call->type, group, call, f.n, f.me, &plan);
    return plan;
}

static KNOWN_TYPE bool needs_engine(const facts_t *f, hd_regime_t regime) {
    if (regime == HD_REGIME_DIRECT || f->call->exclusive) {
        return true;
    }
    switch (f->type) {
    case HD_REDUCE:
    case HD_ALLREDUCE:
        return !f->few && (f->flat || regime != HD_REGIME_INLINE);
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return !f->few;
    case HD_SCAN:
    case HD_EXSCAN:
        return f->n > PREFIX_READERS;
    default:
        return false;
    }
}

static KNOWN_TYPE bool has_express(const facts_t *f, const hd_plan_t *plan, hd_regime_t regime) {
    switch (f->type) {
    case HD_BARRIER:
    case HD_BCAST:
    case HD_MCAST:
    case HD_ALLREDUCE:
    case HD_SCATTER:
        return plan->path == HD_PATH_LANES && f->few && !f->group->two_sided &&
               regime <= HD_REGIME_LINES && (f->call->bytes > 0 || !f->coll->moves_data);
    default:
        return false;
    }
}

/* Barrier, fanin, fanout, and a member that has no data but takes part. */
static hd_plan_t plan_without_data(const facts_t *f) {
    hd_plan_t plan = {.path = HD_PATH_LANES};
    if (f->coll->all_wait || f->group->two_sided || f->call->empty) {
        take_tree(f, &plan, true);
    } else if (f->coll->flow == HD_TO_ROOT && !f->group->static_arrival) {
        take_tree(f, &plan, false);
    }
    plan.express = has_express(f, &plan, HD_REGIME_NONE) && !f->call->empty;
    return plan;
}

static KNOWN_TYPE hd_plan_t plan_with_data(uint8_t type, const hd_group_t *group,
                                           const hd_call_t *call, const hd_place_t *place) {
    facts_t f = facts_of(type, group, call, place);
    size_t bytes = deciding_bytes(&f);
    hd_regime_t regime = regime_for(group, f.coll, f.n, bytes);
    if (needs_engine(&f, regime)) {
        return plan_of_engine(group, call, place, NULL);
    }
    hd_plan_t plan = {.path = HD_PATH_LANES, .data = (uint8_t)regime};
    if (f.relays) {
        plan.path = HD_PATH_TREE;
        plan.arrival = arrival_of(&f, false, false);
    } else if (f.coll->reducing && !f.coll->prefix) {
        f.flat = f.flat || (type != HD_REDUCE && type != HD_ALLREDUCE); /* others are, here */
        take_tree(&f, &plan, f.coll->all_wait);
    } else {
        plan.all_wait = f.coll->all_wait;
    }
    bool same = type != HD_ALLGATHERV; /* all lanes with data carry as much */
    if (f.publishes) {
        plan.regime = (uint8_t)(same ? regime : regime_for(group, f.coll, f.n, call->bytes));
    }
    if (f.awaits && same && regime == HD_REGIME_LINES) {
        plan.lines = (uint8_t)hd_lines_for(bytes);
    }
    plan.express = has_express(&f, &plan, regime);
    return plan;
}

hd_plan_t hd_plan_of_device(const hd_op_t *op, const hd_work_row_t *row) {
    facts_t f = facts_of(op->call.type, op->group, &op->call, &op->place);
    return (hd_plan_t){.path = HD_PATH_DEVICE,
                       .arrival = arrival_of(&f, false, false),
                       .all_wait = true,
                       .regime = HD_REGIME_DIRECT,
                       .data = HD_REGIME_DIRECT,
                       .naming = (uint8_t)naming_of(&f),
                       .slices = row->slices(op),
                       .row = row};
}

/* Of what would be done if all reached all buffers. */
static hd_plan_t plan_apart(const hd_group_t *group, const hd_plan_t *near, const hd_call_t *call,
                            uint32_t n) {
    hd_plan_t plan = *near;
    if (plan.path == HD_PATH_ENGINE) {
        plan.path = HD_PATH_FAR;
    }
    if (plan.path == HD_PATH_FAR || plan.path == HD_PATH_MIXED) {
        plan.window = hd_far_window(group, call, n);
        plan.slices = 0; /* each process counts its own */
    }
    return plan;
}

bool hd_plan_leans(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                   const hd_plan_t *plan) {
    if (!group->apart || plan->data != HD_REGIME_STAGED || plan->path == HD_PATH_MIXED) {
        return false;
    }
    facts_t f = facts_of(call->type, group, call, place);
    return read_by_peers(f.coll, f.n, deciding_bytes(&f)) > group->near_above;
}

hd_plan_t hd_plan_direct(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place) {
    hd_plan_t plan = plan_of_engine(group, call, place, NULL);
    return plan_apart(group, &plan, call, place->n);
}

void hd_plan_cut_near(const hd_op_t *op, size_t *window, uint32_t *slices) {
    facts_t f = facts_of(op->call.type, op->group, &op->call, &op->place);
    *window = window_of(&f, op->plan.row);
    *slices = slices_of(&f, op->plan.row);
}

bool hd_plan_leans_alone(const hd_group_t *group, const hd_call_t *call, const hd_plan_t *plan) {
    size_t bytes = call->type == HD_GATHERV ? call->bytes : call->total;
    return plan->regime == HD_REGIME_STAGED && bytes > group->near_above;
}

static hd_plan_t plan_near(const hd_group_t *group, const hd_call_t *call,
                           const hd_place_t *place) {
    return hd_plan_is_mixed(call->type) ? plan_mixed(group, call, place)
                                        : plan_with_data(call->type, group, call, place);
}

hd_plan_t hd_plan_here(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place) {
    if (call->one_sided) {
        return (hd_plan_t){.path = HD_PATH_PUT};
    }
    if (!hd_coll[call->type].moves_data || call->empty) {
        facts_t f = facts_of(call->type, group, call, place);
        return plan_without_data(&f);
    }
    hd_plan_t plan = plan_near(group, call, place);
    return group->apart ? plan_apart(group, &plan, call, place->n) : plan;
}

hd_regime_t hd_plan_release(size_t bytes) {
    return bytes <= HD_RESULT_MAX ? HD_REGIME_INLINE : HD_REGIME_STAGED;
}

hd_plan_t hd_plan_of_outer(const hd_op_t *op, bool reduces, bool brings, bool all_wait) {
    facts_t f = facts_of(op->call.type, op->group, &op->call, &op->place);
    hd_regime_t regime = reduces ? HD_REGIME_INLINE : HD_REGIME_NONE;
    hd_regime_t data = brings ? hd_plan_release(op->call.bytes) : HD_REGIME_NONE;
    return (hd_plan_t){.path = HD_PATH_TREE,
                       .arrival = arrival_of(&f, false, false),
                       .all_wait = all_wait,
                       .regime = (uint8_t)regime,
                       .data = (uint8_t)data};
}

hd_plan_t hd_plan_of_outer_giving(const hd_op_t *op, size_t bytes, bool all_wait) {
    hd_plan_t plan = hd_plan_of_outer(op, false, false, all_wait);
    hd_regime_t few = bytes ? HD_REGIME_INLINE : HD_REGIME_NONE;
    plan.regime = (uint8_t)(bytes > HD_INLINE_MAX ? HD_REGIME_STAGED : few);
    plan.data = HD_REGIME_STAGED; /* the release says where it is */
    return plan;
}

hd_plan_t hd_plan_of_outer_work(const hd_op_t *op, const hd_work_row_t *row) {
    hd_plan_t plan = plan_of_engine(op->group, &op->call, &op->place, row);
    plan.slices = row->slices ? row->slices(op) : 0;
    return plan;
}

const char *hd_plan_name(const hd_plan_t *plan) {
    static const char *const by_tree[] = {"tree", "inline tree", "lines tree", "staged tree"};
    switch ((hd_path_t)plan->path) {
    case HD_PATH_NOTHING:
        return "nothing to do";
    case HD_PATH_LANES:
        return plan->data == HD_REGIME_NONE ? "flat" : hd_regime_name((hd_regime_t)plan->data);
    case HD_PATH_TREE:
        return by_tree[plan->data];
    case HD_PATH_ENGINE:
        return plan->row && plan->row->by_destination ? "pulled" : "direct";
    case HD_PATH_FAR:
        return plan->slices ? "near" : "far"; /* see hd_near_begins */
    case HD_PATH_MIXED:
        return plan->regime == HD_REGIME_NONE ? "by source"
                                              : hd_regime_name((hd_regime_t)plan->regime);
    case HD_PATH_PUT:
        return "put";
    case HD_PATH_FERRY:
        return "ferry";
    case HD_PATH_DEVICE:
        return "device";
    }
    return "";
}
/* --- what a post of a v type decides anew ----------------------------------------------------- */

void hd_plan_post_allgatherv(const hd_group_t *group, const hd_call_t *call,
                             const hd_place_t *place, hd_plan_t *plan) {
    *plan = plan_with_data(HD_ALLGATHERV, group, call, place);
}

void hd_plan_post_reduce_scatterv(const hd_group_t *group, const hd_call_t *call,
                                  const hd_place_t *place, hd_plan_t *plan) {
    *plan = plan_with_data(HD_REDUCE_SCATTERV, group, call, place);
}

void hd_plan_post_alltoallv(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                            hd_plan_t *plan) {
    plan_own_part(HD_ALLTOALLV, group, call, place->n, place->me, plan);
}

void hd_plan_post_mixed(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                        hd_plan_t *plan) {
    plan_own_part(call->type, group, call, place->n, place->me, plan);
}

void hd_plan_post_gatherv(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                          hd_plan_t *plan) {
    plan_own_part(HD_GATHERV, group, call, place->n, place->me, plan);
}

void hd_plan_post_scatterv(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                           hd_plan_t *plan) {
    plan_own_part(HD_SCATTERV, group, call, place->n, place->me, plan);
}

void hd_plan_post_directly(const hd_group_t *group, const hd_call_t *call, const hd_place_t *place,
                           hd_plan_t *plan) {
    plan->stores = stores_of(group, plan->row, call, place->n);
}
