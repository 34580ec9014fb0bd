/* args.c: from ucc_coll_args_t to what an operation needs. request.c calls this at init
 * (algorithm.c, if the handle has algorithms). A call that is like the request's last one only
 * gives it new addresses (hd_args_repeat and its like, at the end of this file); any other goes
 * through hd_args_prepare, which decides how the call runs.
 *
 * Only the fields that are significant for the collective at this endpoint are looked at: all
 * others may be garbage (ucc-contract: an in-place source, a non-root destination, anything outside
 * the mask). What is wrong is logged by the name of its field.
 *
 * What an operation gets: bytes = one block (bcast, reduce, allreduce: everything); total = all
 * that this member gives; src, dst as the family's file says.
 */
#include "device/device.h"
#include "request/internal.h"
#include "span/span.h"

enum { MAX_TIMEOUT_S = 1000000000 };

static uint64_t flags_of(const ucc_coll_args_t *a) {
    return a->mask & UCC_COLL_ARGS_FIELD_FLAGS ? a->flags : 0;
}

/* Returns whether dst has fewer elements than there are members, and there is nothing to send: dst
 * is divided among the members, and what is left over belongs to nobody. Returns false where bytes
 * are divided (pack.c), where src has something for which dst has no room, and for an active set
 * larger than the team: all these are looked at as usual. */
static bool is_left_over(const hd_intake_t *c) {
    const ucc_coll_args_t *a = c->args;
    bool subset = (a->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET) != 0;
    uint64_t n = subset ? a->active_set.size : c->team->n;
    return a->dst.info.count < n && n <= c->team->n &&
           (c->flags & UCC_COLL_ARGS_FLAG_IN_PLACE || a->src.info.count == 0) &&
           hd_dt_valid(a->dst.info.datatype) && hd_dt_is_contiguous(a->dst.info.datatype);
}

/* Returns whether the call has zero bytes. Such a call is over inside post, before any other check,
 * and takes part in nothing, unless HEDDLE_CHECK is set. */
static bool is_empty(const hd_intake_t *c) {
    const ucc_coll_args_t *a = c->args;
    const hd_coll_t *coll = &hd_coll[c->op->call.type];
    if (!coll->empty_is_over) {
        return false;
    }
    bool in_place = (c->flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    if (hd_coll_goes_by_src(coll, c->op->call.is_root, in_place)) {
        return a->src.info.count == 0;
    }
    return a->dst.info.count == 0 || (coll->result == HD_BLOCKS && is_left_over(c));
}

static ucc_datatype_t source_datatype(const hd_coll_t *coll, const ucc_coll_args_t *a) {
    return coll->source == HD_VECTOR ? a->src.info_v.datatype : a->src.info.datatype;
}

static ucc_datatype_t result_datatype(const hd_coll_t *coll, const ucc_coll_args_t *a) {
    return coll->result == HD_VECTOR ? a->dst.info_v.datatype : a->dst.info.datatype;
}

ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args) {
    const hd_coll_t *coll = &hd_coll[hd_call_asked(&op->call)];
    return hd_coll_goes_by_src(coll, op->call.is_root, op->call.in_place)
               ? source_datatype(coll, args)
               : result_datatype(coll, args);
}

/* Takes datatype and operation of a reduction into the call. */
static ucc_status_t prepare_operation(hd_intake_t *c) {
    hd_op_t *op = c->op;
    ucc_datatype_t dt = hd_args_datatype(op, c->args);
    ucc_status_t status = hd_reducer_take(&op->call.reducer, dt, c->args->op, c->n);
    if (status != UCC_OK) {
        hd_reducer_explain(dt, c->args->op, hd_type_name(op->call.type), c->team->ep);
        return status;
    }
    if (!hd_reducer_is_user(&op->call.reducer) && c->args->op == UCC_OP_AVG &&
        hd_coll[op->call.type].prefix) {
        hd_error("%s at endpoint %u: op: an average of a prefix is not supported",
                 hd_type_name(op->call.type), c->team->ep);
        return UCC_ERR_NOT_SUPPORTED;
    }
    op->call.element = op->call.reducer.element_size;
    op->call.exclusive = hd_reducer_is_user(&op->call.reducer);
    return UCC_OK;
}

/* Returns whether all members' counts must agree, so that they are part of the signature. They must
 * where blocks are reduced, since whoever reduces a block goes by its own counts. */
static bool signs_counts(const hd_coll_t *coll) {
    return coll->reducing && coll->vector;
}

static uint64_t hash_of_counts(const hd_intake_t *c) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t bytes = hd_vector_count(&c->op->call.receive, i) * c->op->call.element;
        hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    }
    return hash;
}

/* Returns what must agree across endpoints: block bytes for movements (but not for v types, where
 * only a pair must agree); datatype, operation and count for reductions; the root; in place, where
 * it changes what peers do; and where the buffer lies, for the one-sided variant. */
static hd_terms_t terms_of(const hd_intake_t *c) {
    const hd_op_t *op = c->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    ucc_datatype_t dt = 0;
    if (coll->moves_data) {
        dt = coll->reducing ? op->call.reducer.dt : hd_args_datatype(op, c->args);
    }
    hd_terms_t terms = {
        .type = hd_call_asked(&op->call),
        .uneven = op->call.uneven,
        .rooted = coll->rooted,
        .reducing = coll->reducing,
        .user = op->call.exclusive,
        .root = coll->rooted ? op->call.root : 0,
        .op = coll->reducing && !op->call.exclusive ? op->call.reducer.op : 0,
        .dt = hd_dt_is_generic(dt) ? HD_TERMS_ANY_DT : dt,
        .element = op->call.exclusive ? op->call.element : 0,
        .bytes = op->call.uneven ? op->call.total
                 : coll->vector  ? 0
                                 : op->call.bytes,
        .counts = signs_counts(coll) ? hash_of_counts(c) : 0,
        .in_place = op->call.in_place && coll->pairwise,
        .device = op->call.device,
        .one_sided = op->call.one_sided,
        .offset = op->call.one_sided ? hd_put_offset(op, op->call.dst) : 0,
    };
    return terms;
}

static uint32_t signature_of(const hd_intake_t *c) {
    hd_terms_t terms = terms_of(c);
    uint32_t signature = hd_terms_signature(&terms);
    hd_terms_note(&terms, signature);
    return signature;
}

static ucc_status_t take_type(hd_intake_t *c) {
    c->op->call.type = hd_type_of((uint64_t)c->args->coll_type);
    if (c->op->call.type == HD_N_TYPES) {
        hd_error("coll_type %llu at endpoint %u is not a collective",
                 (unsigned long long)c->args->coll_type, c->team->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* Sets n and me: those of the active set if there is one, else those of the team. *root is a number
 * in the team before, and one in the active set afterwards. */
static ucc_status_t take_members(hd_intake_t *c, uint64_t *root) {
    hd_request_t *r = c->r;
    c->n = c->team->n;
    c->me = c->team->ep;
    r->subset = NULL;
    c->op->place.of_set = false;
    if (!(c->args->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET)) {
        return UCC_OK;
    }
    uint64_t start = c->args->active_set.start, size = c->args->active_set.size;
    int64_t stride = c->args->active_set.stride;
    __int128 last = (__int128)start + (__int128)stride * (__int128)(size - 1);
    if (size == 0 || size > c->team->n || start >= c->team->n || last < 0 || last >= c->team->n ||
        (stride == 0 && size > 1)) {
        return hd_args_bad(c, "active_set", "has members outside the team");
    }
    if (size == 1) {
        stride = 1; /* the stride of one member means nothing, and must not keep members apart */
    }
    int64_t offset = (int64_t)c->team->ep - (int64_t)start;
    if (offset % stride || offset / stride < 0 || (uint64_t)(offset / stride) >= size) {
        return hd_args_bad(c, "active_set", "does not contain the caller");
    }
    bool root_fits = *root < c->team->n; /* a garbage root must not overflow below */
    offset = root_fits ? (int64_t)*root - (int64_t)start : 0;
    root_fits = root_fits && offset % stride == 0 && offset / stride >= 0 &&
                (uint64_t)(offset / stride) < size;
    if (hd_coll[c->op->call.type].rooted && !root_fits) {
        return hd_args_bad(c, "root", "is not a member of the active set");
    }
    /* from its number in the team to its number in the set */
    *root = hd_coll[c->op->call.type].rooted ? (uint64_t)(offset / stride) : 0;
    c->me = (uint32_t)(((int64_t)c->team->ep - (int64_t)start) / stride);
    c->n = (uint32_t)size;
    r->active_set = (hd_subset_t){start, stride, c->n, c->n};
    r->subset = &r->active_set;
    c->op->place.of_set = true;
    return UCC_OK;
}

static ucc_status_t take_timeout(hd_intake_t *c) {
    c->r->timeout = 0;
    if (c->flags & UCC_COLL_ARGS_FLAG_TIMEOUT) {
        if (!(c->args->timeout >= 0)) {
            return hd_args_bad(c, "timeout", "is negative or not a number");
        }
        c->r->timeout = c->args->timeout > 1e-6 ? c->args->timeout : 1e-6;
        if (c->r->timeout > MAX_TIMEOUT_S) {
            c->r->timeout = MAX_TIMEOUT_S; /* so that ticks fit 64 bits */
        }
    }
    return UCC_OK;
}

/* The team has several processes: the caller's place becomes its place in this process's group. */
static __attribute__((noinline)) ucc_status_t cross(hd_intake_t *c) {
    hd_crossing_t *crossing = c->team->crossing;
    hd_request_t *r = c->r;
    const hd_span_t *span = crossing->span;
    if (r->subset) {
        span = hd_crossing_set(crossing, r->subset);
        if (!span) {
            return UCC_ERR_NO_MEMORY;
        }
        r->active_set.local = span->set.local;
    }
    c->op->place.me = span->local_of[r->op.me];
    c->op->place.n = hd_span_count(span, span->mine);
    c->op->span = span;
    hd_assert(span->n == c->n && c->op->place.me < c->op->place.n);
    return UCC_OK;
}

/* The call is known, and there is something to do: plan.c decides how it runs. */
static ucc_status_t settle(hd_intake_t *c) {
    hd_assert(c->op->n == c->n && c->op->me == c->me && c->me < c->n);
    hd_assert_lt(c->op->call.type, HD_N_TYPES);
    c->op->start = hd_request_start_late;
    ucc_status_t status = c->team->crossing ? cross(c) : UCC_OK;
    if (status == UCC_OK && __builtin_expect(c->op->call.device, 0)) {
        status = hd_device_settle(c->op);
    }
    return status;
}

/* Prepares a call of zero bytes if HEDDLE_CHECK is set: the endpoint takes part with nothing but
 * the type, so that a peer that has data finds it. The root and all else may be garbage. */
static ucc_status_t prepare_empty(hd_intake_t *c) {
    hd_op_t *op = c->op;
    uint64_t root = c->args->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET ? c->args->active_set.start : 0;
    ucc_status_t status = take_members(c, &root);
    if (status == UCC_OK) {
        status = take_timeout(c);
    }
    hd_terms_t terms = {.type = op->call.type, .dt = HD_TERMS_ANY_DT, .empty = true};
    op->call.signature = hd_terms_signature(&terms);
    hd_terms_note(&terms, op->call.signature);
    op->place.me = c->r->op.me = c->me;
    op->place.n = c->r->op.n = c->n;
    op->call.root = 0;
    op->call.is_root = op->call.in_place = op->call.exclusive = op->call.global_errors = false;
    op->call.element = op->call.send_element = 1;
    op->call.src = NULL;
    op->call.dst = NULL;
    op->call.empty = true;
    return status == UCC_OK ? settle(c) : status;
}

/* Chooses the one-sided variant, if the collective has one and both flags of the drafts on
 * symmetric memory are set. These are flags that all endpoints give alike, since they are part of
 * the signature. */
static ucc_status_t choose_one_sided(hd_intake_t *c) {
    const uint64_t both = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY;
    hd_op_t *op = c->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    op->call.one_sided = (c->flags & both) == both && !op->call.in_place && !op->prepare &&
                         !c->r->subset && !c->team->group->two_sided && !c->team->crossing &&
                         coll->one_sided;
    if (!op->call.one_sided) {
        return UCC_OK;
    }
    return hd_put_fits(op, op->call.dst, coll->bcast ? op->call.bytes : op->call.bytes * c->n)
               ? UCC_OK
               : hd_args_bad(c, coll->bcast ? "src" : "dst",
                             "does not lie in the team's symmetric memory");
}

/* --- v types ---------------------------------------------------------------------------------- */

/* Counts and displacements of a v type are the client's until the post, and again from completion
 * on: what init summed may be out of date at the post. So before every launch the call's buffers
 * are worked out again, by the same function as at init (hd_prepare), and nothing is staged,
 * registered or signed by old totals. */
static ucc_status_t recount_by(hd_intake_t *c) {
    if (c->op->call.exclusive) {
        hd_op_calls_user(c->op);
    }
    return hd_prepare(c);
}

static inline hd_intake_t intake_of(hd_op_t *op) {
    hd_request_t *r = (hd_request_t *)op;
    return (hd_intake_t){.team = op->team,
                         .args = &r->vectors,
                         .r = r,
                         .op = op,
                         .flags = r->vectors.flags,
                         .n = r->op.n,
                         .me = r->op.me};
}

/* op->prepare of the other v types. */
static ucc_status_t recount(hd_op_t *op) {
    hd_intake_t c = intake_of(op);
    return recount_by(&c);
}

/* op->prepare of a v type whose counts are signed. */
static ucc_status_t recount_and_sign(hd_op_t *op) {
    hd_intake_t c = intake_of(op);
    ucc_status_t status = recount_by(&c);
    if (status == UCC_OK) {
        op->call.signature = signature_of(&c);
    }
    return status;
}

/* op->prepare of a v type in a team of several processes. */
static ucc_status_t recount_and_replan(hd_op_t *op) {
    ucc_status_t status =
        signs_counts(&hd_coll[op->call.type]) ? recount_and_sign(op) : recount(op);
    if (status == UCC_OK) {
        hd_request_replan(op);
    }
    return status;
}

/* Keeps what recount reads. */
static void keep_vectors(const hd_intake_t *c) {
    c->r->vectors.coll_type = c->args->coll_type;
    c->r->vectors.flags = c->flags;
    c->r->vectors.src = c->args->src;
    c->r->vectors.dst = c->args->dst;
}

ucc_status_t hd_args_become_device(hd_request_t *r) {
    hd_intake_t c = intake_of(&r->op);
    ucc_status_t status = hd_device_become(c.op);
    if (status == UCC_OK && !r->op.call.empty) {
        r->op.call.signature = signature_of(&c);
    }
    r->shape.type = r->shape.vector = 0; /* the plan that the request keeps fits no other call */
    r->express = NULL;
    return status == UCC_OK ? hd_device_settle(c.op) : status;
}

ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r) {
    hd_op_t *op = &r->op;
    uint64_t root = 0;
    hd_intake_t c = {.team = team, .args = args, .r = r, .op = op};
    c.flags = flags_of(args);
    ucc_status_t status = take_type(&c);
    if (status != UCC_OK) {
        return status;
    }
    const hd_coll_t *coll = &hd_coll[op->call.type];
    if (coll->rooted) {
        root = args->root;
    }
    /* post, finalize and the logs read these of every request, even of an empty one */
    op->start = NULL;
    op->prepare = NULL;
    op->frame = NULL;
    op->calls_user = op->apart = false;
    op->call.persistent = (c.flags & UCC_COLL_ARGS_FLAG_PERSISTENT) != 0;
    op->place.me = r->op.me = team->ep;
    op->place.n = r->op.n = team->n;
    op->call.bytes = op->call.total = 0;
    op->call.uneven = false;
    op->call.one_sided = op->call.empty = op->call.device = false;
    op->task.callback = args->mask & UCC_COLL_ARGS_FIELD_CB ? args->cb : (ucc_coll_callback_t){0};
    op->call.is_root = coll->rooted && root == team->ep;
    if (is_empty(&c)) {
        if (team->group->check) {
            return prepare_empty(&c);
        }
        r->subset = NULL;
        return take_timeout(
            &c); /* start stays NULL: there is nothing to do, but a trigger may wait */
    }
    status = take_members(&c, &root);
    if (status != UCC_OK) {
        return status;
    }
    op->call.root = root < c.n ? (uint32_t)root : UINT32_MAX;
    op->place.me = r->op.me = c.me;
    op->place.n = r->op.n = c.n;
    op->call.is_root = coll->rooted && op->call.root == c.me;
    op->call.in_place = (c.flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    op->call.exclusive = false;
    /* the arguments of a barrier may be garbage but for type and mask */
    op->call.global_errors = coll->moves_data && args->error_type == UCC_ERR_TYPE_GLOBAL;
    op->call.element = op->call.send_element = 1;
    op->call.src = NULL;
    op->call.dst = NULL;
    if (root >= c.n) {
        hd_error("%s at endpoint %u: root %llu is not an endpoint of the team, which has %u",
                 hd_type_name(op->call.type), team->ep, (unsigned long long)root, c.n);
        return UCC_ERR_INVALID_PARAM;
    }
    status = take_timeout(&c);
    if (status != UCC_OK) {
        return status;
    }
    if (coll->reducing) {
        status = prepare_operation(&c);
    } else {
        status = hd_pack_setup(team, args, r);
    }
    if (status == UCC_OK && !op->prepare) {
        status = coll->moves_data ? hd_prepare(&c) : UCC_OK;
    }
    if (op->call.exclusive && !op->prepare) {
        op->prepare = hd_op_calls_user;
    }
    if (status == UCC_OK) {
        status = choose_one_sided(&c);
    }
    op->call.signature = status == UCC_OK ? signature_of(&c) : 0;
    if (coll->vector) {
        keep_vectors(&c);
        op->prepare = team->crossing       ? recount_and_replan
                      : signs_counts(coll) ? recount_and_sign
                                           : recount;
    }
    return status == UCC_OK ? settle(&c) : status;
}

/* --- the plan of the call before -------------------------------------------------------------- */

/* Returns whether the arguments are plain. Only hd_args_prepare understands the others: those for
 * matching, symmetric memory and persistence. */
static bool is_plain(const ucc_coll_args_t *a, uint64_t flags) {
    return (a->mask & ~(uint64_t)(UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_CB)) == 0 &&
           (flags & ~(uint64_t)UCC_COLL_ARGS_FLAG_IN_PLACE) == 0;
}

/* --- the same for v types: each call's counts and addresses are taken anew -------------------- */

/* Returns whether the arguments are plain but for the widths of counts and displacements. */
static bool is_plain_vector(const ucc_coll_args_t *a, uint64_t flags) {
    return is_plain(a, flags & ~(uint64_t)(UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                           UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT));
}

/* Notes the shape of a v type's call, if the call is plain, not in place, and without a user's
 * reduction. What else is significant depends on the root alone. Counts that are signed are not
 * noted: each post signs them. */
static void note_vector(hd_request_t *r, const ucc_coll_args_t *a, uint64_t flags) {
    const hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool src, dst;
    if (!coll->vector || op->call.device || op->call.exclusive || op->call.in_place ||
        r->route != HD_ROUTE_NUMBER || op->plan.path == HD_PATH_NOTHING ||
        (flags & UCC_COLL_ARGS_FLAG_IN_PLACE) || !is_plain_vector(a, flags)) {
        return;
    }
    hd_coll_buffers(coll, op->call.is_root, r->op.me, false, &src, &dst);
    r->shape = (hd_shape_t){
        .vector = (uint64_t)a->coll_type,
        .flags = flags,
        .op = coll->reducing ? (uint64_t)a->op : 0,
        .op_mask = coll->reducing ? UINT64_MAX : 0,
        .root = coll->rooted ? a->root : 0,
        .src_dt = src ? source_datatype(coll, a) : 0,
        .dst_dt = dst ? result_datatype(coll, a) : 0,
        .root_mask = coll->rooted ? UINT64_MAX : 0,
        .src_mask = src ? UINT64_MAX : 0,
        .dst_mask = dst ? UINT64_MAX : 0,
    };
}

bool hd_args_repeat_vector(hd_request_t *r, const ucc_coll_args_t *a, ucc_status_t *status) {
    const hd_shape_t *s = &r->shape;
    hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    uint64_t flags = flags_of(a);
    if (s->vector == 0 || (uint64_t)a->coll_type != s->vector || flags != s->flags ||
        !is_plain_vector(a, flags) || (a->root & s->root_mask) != s->root ||
        ((uint64_t)a->op & s->op_mask) != s->op ||
        (source_datatype(coll, a) & s->src_mask) != s->src_dt ||
        (result_datatype(coll, a) & s->dst_mask) != s->dst_dt) {
        return false;
    }
    hd_intake_t c = {.args = a, .r = r, .op = op, .flags = flags};
    keep_vectors(&c);
    op->call.global_errors = a->error_type == UCC_ERR_TYPE_GLOBAL;
    op->task.callback = a->mask & UCC_COLL_ARGS_FIELD_CB ? a->cb : (ucc_coll_callback_t){0};
    *status = recount(op);
    return true;
}

/* --- and for all others ----------------------------------------------------------------------- */

void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *a) {
    const hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    uint64_t flags = flags_of(a);
    /* calls in place are kept only if the source is a whole buffer */
    bool src, dst, in_place = (flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    note_vector(r, a, flags);
    hd_coll_buffers(coll, op->call.is_root, r->op.me, in_place, &src, &dst);
    if (r->shape.vector || r->route != HD_ROUTE_NUMBER || op->call.empty ||
        op->plan.path == HD_PATH_NOTHING || !is_plain(a, flags) || op->prepare || coll->vector ||
        op->call.device || (in_place && coll->source != HD_WHOLE) ||
        (src && hd_dt_is_generic(a->src.info.datatype)) ||
        (dst && hd_dt_is_generic(a->dst.info.datatype))) {
        return;
    }
    bool reducing = coll->reducing, rooted = coll->rooted;
    r->shape = (hd_shape_t){
        .type = (uint64_t)a->coll_type,
        .flags = flags,
        .op = reducing ? (uint64_t)a->op : 0,
        .root = rooted ? a->root : 0,
        .src_count = src ? a->src.info.count : 0,
        .src_dt = src ? a->src.info.datatype : 0,
        .dst_count = dst ? a->dst.info.count : 0,
        .dst_dt = dst ? a->dst.info.datatype : 0,
        .op_mask = reducing ? UINT64_MAX : 0,
        .root_mask = rooted ? UINT64_MAX : 0,
        .src_mask = src ? UINT64_MAX : 0,
        .dst_mask = dst ? UINT64_MAX : 0,
    };
}

bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *a, bool tagged) {
    const hd_shape_t *s = &r->shape;
    const hd_coll_t *coll = &hd_coll[r->op.call.type];
    uint64_t type = (uint64_t)a->coll_type, flags = flags_of(a);
    if (tagged || !is_plain_vector(a, flags)) {
        return s->type == 0 && s->vector == 0;
    }
    /* from the second line on, coll is also that of the arguments */
    return (s->type || s->vector) && (s->type == type || s->vector == type) && flags == s->flags &&
           (a->root & s->root_mask) == s->root && ((uint64_t)a->op & s->op_mask) == s->op &&
           (source_datatype(coll, a) & s->src_mask) == s->src_dt &&
           (result_datatype(coll, a) & s->dst_mask) == s->dst_dt &&
           (s->vector || ((a->src.info.count & s->src_mask) == s->src_count &&
                          (a->dst.info.count & s->dst_mask) == s->dst_count));
}

/* hd_args_repeat; compiled into that, which is fast, and into hd_args_repeat_unknown. */
static inline __attribute__((always_inline)) bool repeat(hd_request_t *r,
                                                         const ucc_coll_args_t *a) {
    const hd_shape_t *s = &r->shape;
    hd_op_t *op = &r->op;
    uint64_t flags = flags_of(a);
    if (s->type == 0 || (uint64_t)a->coll_type != s->type || flags != s->flags ||
        !is_plain(a, flags) || (a->root & s->root_mask) != s->root) {
        return false;
    }
    const ucc_coll_buffer_info_t *src = &a->src.info, *dst = &a->dst.info;
    uint64_t differs =
        (((uint64_t)a->op & s->op_mask) ^ s->op) | ((src->count & s->src_mask) ^ s->src_count) |
        ((src->datatype & s->src_mask) ^ s->src_dt) | ((dst->count & s->dst_mask) ^ s->dst_count) |
        ((dst->datatype & s->dst_mask) ^ s->dst_dt);
    bool usable =
        (!s->src_mask || (hd_is_address(src->buffer) && src->mem_type == UCC_MEMORY_TYPE_HOST)) &&
        (!s->dst_mask || (hd_is_address(dst->buffer) && dst->mem_type == UCC_MEMORY_TYPE_HOST));
    if (differs || !usable) {
        return false;
    }
    if (s->src_mask) {
        op->call.src = src->buffer;
        /* right for a bcast; if a member has no result, nobody looks at its dst */
        op->call.dst = src->buffer;
    }
    if (s->dst_mask) {
        op->call.dst = dst->buffer;
    }
    if (s->src_mask | s->dst_mask) {
        op->call.global_errors = a->error_type == UCC_ERR_TYPE_GLOBAL;
    }
    op->task.callback = a->mask & UCC_COLL_ARGS_FIELD_CB ? a->cb : (ucc_coll_callback_t){0};
    return true;
}

bool hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *a) {
    return repeat(r, a);
}

/* --- memory of which nothing is said ---------------------------------------------------------- */

/* Sets a significant buffer's memory type, if nothing is said of it and the memory is the host's.
 * mask: 0 if the buffer is not significant. */
static void find_host(ucc_coll_buffer_info_t *info, uint64_t mask) {
    if (mask && info->mem_type == UCC_MEMORY_TYPE_UNKNOWN && hd_device_finds_host(info->buffer)) {
        info->mem_type = UCC_MEMORY_TYPE_HOST;
    }
}

bool hd_args_repeat_unknown(hd_request_t *r, const ucc_coll_args_t *a) {
    const hd_shape_t *s = &r->shape;
    if (s->type == 0 || (uint64_t)a->coll_type != s->type) {
        return false;
    }
    ucc_coll_args_t host = *a;
    find_host(&host.src.info, s->src_mask);
    find_host(&host.dst.info, s->dst_mask);
    return repeat(r, &host);
}
