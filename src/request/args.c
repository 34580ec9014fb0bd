/* args.c: from ucc_coll_args_t to what an operation needs. request.c calls this at init
 * (algorithm.c, if the handle has algorithms). A call that is like the request's last one only
 * gives it new addresses (hd_args_repeat); any other goes through hd_args_prepare.
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

static ucc_coll_callback_t callback_of(const ucc_coll_args_t *a) {
    return a->mask & UCC_COLL_ARGS_FIELD_CB ? a->cb : (ucc_coll_callback_t){0};
}

static bool has_set(const ucc_coll_args_t *a) {
    return (a->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET) != 0;
}

/* Returns whether dst has fewer elements than there are members, and there is nothing to send: dst
 * is divided among the members, and what is left over belongs to nobody. Returns false where bytes
 * are divided (pack.c), where src has something for which dst has no room, and for an active set
 * larger than the team: all these are looked at as usual. */
static bool is_left_over(const hd_request_t *r, const ucc_coll_args_t *a) {
    uint64_t n = has_set(a) ? a->active_set.size : r->op.team->n;
    return a->dst.info.count < n && n <= r->op.team->n &&
           (r->args.flags & UCC_COLL_ARGS_FLAG_IN_PLACE || a->src.info.count == 0) &&
           hd_dt_is_contiguous(a->dst.info.datatype);
}

/* Returns whether the call has zero bytes. Such a call is over inside post, before any other check,
 * and takes part in nothing, unless HEDDLE_CHECK is set. */
static bool is_empty(const hd_request_t *r, const ucc_coll_args_t *a) {
    const hd_coll_t *coll = &hd_coll[r->op.call.type];
    bool in_place = (r->args.flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    if (!coll->empty_is_over) {
        return false;
    }
    if (hd_coll_goes_by_src(coll, r->op.call.is_root, in_place)) {
        return a->src.info.count == 0;
    }
    return a->dst.info.count == 0 || (coll->result == HD_BLOCKS && is_left_over(r, a));
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
static ucc_status_t take_reducer(hd_op_t *op, const ucc_coll_args_t *args) {
    ucc_datatype_t dt = hd_args_datatype(op, args);
    hd_reducer_t *reducer = &op->call.reducer;
    ucc_status_t status = hd_reducer_take(reducer, dt, args->op, op->n);
    if (status != UCC_OK) {
        hd_reducer_explain(dt, args->op, hd_type_name(op->call.type), op->team_ep);
        return status;
    }
    op->call.exclusive = hd_reducer_is_user(reducer);
    if (!op->call.exclusive && args->op == UCC_OP_AVG && hd_coll[op->call.type].prefix) {
        return hd_op_refuse(op, UCC_ERR_NOT_SUPPORTED,
                            "op: an average of a prefix is not supported");
    }
    op->call.element = reducer->element_size;
    return UCC_OK;
}

/* Of the user's reductions: others have small elements. */
static ucc_status_t check_element(const hd_op_t *op) {
    const hd_crossing_t *crossing = op->team->crossing;
    size_t most = crossing && crossing->nodes ? hd_ferry_most(crossing)
                                              : hd_far_most(op->group, &op->call, op->n);
    return op->call.element <= most
               ? UCC_OK
               : hd_op_refuse(op, UCC_ERR_NOT_SUPPORTED,
                              "datatype: elements of %zu bytes can't be reduced among processes, "
                              "only such of at most %zu",
                              op->call.element, most);
}

/* Returns whether all members' counts must agree, so that they are part of the signature. They must
 * where blocks are reduced, since whoever reduces a block goes by its own counts. */
static bool signs_counts(const hd_coll_t *coll) {
    return coll->reducing && coll->vector;
}

static uint64_t hash_of_counts(const hd_op_t *op) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < op->n; i++) {
        uint64_t bytes = hd_vector_count(&op->call.receive, i) * op->call.element;
        hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    }
    return hash;
}

/* Signs what must agree across endpoints: block bytes for movements (but not for v types, where
 * only a pair must agree); datatype, operation and count for reductions; the root; in place, where
 * it changes what peers do; and where the buffer lies, for the one-sided variant. */
static void sign(hd_op_t *op, const ucc_coll_args_t *args) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    ucc_datatype_t dt = coll->reducing     ? call->reducer.dt
                        : coll->moves_data ? hd_args_datatype(op, args)
                                           : 0;
    hd_terms_t terms = {
        .type = hd_call_asked(call),
        .uneven = call->uneven,
        .rooted = coll->rooted,
        .reducing = coll->reducing,
        .user = call->exclusive,
        .root = call->root,
        .op = coll->reducing && !call->exclusive ? call->reducer.op : 0,
        .dt = hd_dt_is_generic(dt) ? HD_TERMS_ANY_DT : dt,
        .element = call->exclusive ? call->element : 0,
        .bytes = call->uneven   ? call->total
                 : coll->vector ? 0
                                : call->bytes,
        .counts = signs_counts(coll) ? hash_of_counts(op) : 0,
        .in_place = call->in_place && coll->pairwise,
        .device = call->device,
        .one_sided = call->one_sided,
        .offset = call->one_sided ? hd_put_offset(op, call->dst) : 0,
    };
    if (call->empty) { /* nothing but the type: a peer that has data finds that */
        terms = (hd_terms_t){.type = call->type, .dt = HD_TERMS_ANY_DT, .empty = true};
    }
    op->call.signature = hd_terms_signature(&terms);
    hd_terms_note(&terms, op->call.signature);
}

/* Returns the number in the set that this endpoint of the team has; -1: it has none. */
static int64_t number_in_set(const hd_subset_t *set, uint32_t ep) {
    int64_t offset = (int64_t)ep - (int64_t)set->start, number = offset / set->stride;
    return offset % set->stride == 0 && number >= 0 && number < set->n ? number : -1;
}

/* Sets the operation's n and me: those of the active set if there is one, else those of the team.
 * root is a number in the team, and becomes one in the active set. */
static ucc_status_t take_members(hd_request_t *r, const ucc_coll_args_t *a, uint64_t root) {
    hd_op_t *op = &r->op;
    ucc_team_h team = op->team;
    bool rooted = hd_coll[op->call.type].rooted;
    op->call.root = (uint32_t)root;
    if (!has_set(a) && root >= team->n) {
        return hd_op_refuse(op, UCC_ERR_INVALID_PARAM,
                            "root %llu is not an endpoint of the team, which has %u",
                            (unsigned long long)root, team->n);
    }
    if (has_set(a)) {
        uint64_t start = a->active_set.start, size = a->active_set.size;
        /* the stride of one member means nothing, and must not keep members apart */
        int64_t stride = size == 1 ? 1 : a->active_set.stride;
        __int128 last = (__int128)start + (__int128)stride * (__int128)(size - 1);
        if (size == 0 || size > team->n || start >= team->n || last < 0 || last >= team->n ||
            stride == 0) {
            return hd_args_bad(r, "active_set", "has members outside the team");
        }
        r->active_set = (hd_subset_t){start, stride, (uint32_t)size, (uint32_t)size};
        r->subset = &r->active_set;
        int64_t me = number_in_set(r->subset, team->ep), its_root = 0;
        if (rooted) { /* which may be garbage */
            its_root = root < team->n ? number_in_set(r->subset, (uint32_t)root) : -1;
        }
        if (me < 0) {
            return hd_args_bad(r, "active_set", "does not contain the caller");
        }
        if (its_root < 0) {
            return hd_args_bad(r, "root", "is not a member of the active set");
        }
        op->me = op->place.me = (uint32_t)me;
        op->n = op->place.n = (uint32_t)size;
        op->call.root = (uint32_t)its_root;
        op->place.of_set = true;
    }
    op->call.is_root = rooted && op->call.root == op->me;
    return UCC_OK;
}

static ucc_status_t take_timeout(hd_request_t *r, double timeout) {
    r->timeout = 0;
    if (r->args.flags & UCC_COLL_ARGS_FLAG_TIMEOUT) {
        if (!(timeout >= 0)) {
            return hd_args_bad(r, "timeout", "is negative or not a number");
        }
        /* at most so much that ticks fit 64 bits */
        r->timeout = timeout < 1e-6 ? 1e-6 : timeout < MAX_TIMEOUT_S ? timeout : MAX_TIMEOUT_S;
    }
    return UCC_OK;
}

static ucc_status_t check_symmetric(hd_request_t *r) {
    hd_op_t *op = &r->op;
    bool bcast = hd_coll[op->call.type].bcast;
    size_t bytes = bcast ? op->call.bytes : op->call.bytes * op->n;
    if (op->call.one_sided && !hd_put_fits(op, op->call.dst, bytes)) {
        return hd_args_bad(r, bcast ? "src" : "dst", "does not lie in the team's symmetric memory");
    }
    return UCC_OK;
}

/* op->prepare of a call that would be one-sided, by an endpoint that did not know at init whether
 * parts of other processes are in reach. */
static ucc_status_t choose_late(hd_op_t *op) {
    hd_request_t *r = (hd_request_t *)op;
    op->call.one_sided = hd_put_reaches(op->group);
    op->call.may_be_one_sided = false;
    op->start = hd_request_start_late; /* the plan may have been made between the two */
    ucc_status_t status = check_symmetric(r);
    if (status == UCC_OK) {
        sign(op, &r->args);
    }
    return status;
}

/* Chooses the one-sided variant, if the collective has one, the engine does not move the data by
 * devices, and both flags of the drafts on symmetric memory are set. All of that is the same at all
 * endpoints, since it is part of the signature. */
static ucc_status_t choose_one_sided(hd_request_t *r) {
    const uint64_t both = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY;
    hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    op->call.one_sided = coll->one_sided && (r->args.flags & both) == both && !op->call.in_place &&
                         !op->call.device && !op->prepare && !r->subset && !op->group->two_sided &&
                         !op->team->crossing;
    if (!op->call.one_sided) {
        return UCC_OK;
    }
    bool known = !op->group->apart || hd_group_is_complete(op->group);
    op->prepare = known ? NULL : choose_late;
    op->call.may_be_one_sided = !known;
    op->call.one_sided = known && hd_put_reaches(op->group);
    return check_symmetric(r);
}

/* op->prepare of v types. Their counts and displacements are the client's until the post, and again
 * from completion on: what init summed may be out of date at the post. So before every launch the
 * call's buffers are worked out again, by the same function as at init (hd_prepare), and nothing is
 * staged, registered, signed or sent to other processes by old totals. A blocking call that only
 * has to lay them out needs none of this: nobody changes its counts between the two. */
static ucc_status_t recount(hd_op_t *op) {
    return hd_prepare((hd_request_t *)op);
}

/* op->prepare of a v type that reduces, or crosses processes. */
static ucc_status_t recount_and_replan(hd_op_t *op) {
    if (op->call.exclusive) {
        hd_op_calls_user(op);
    }
    ucc_status_t status = recount(op);
    if (status == UCC_OK && signs_counts(&hd_coll[op->call.type])) {
        sign(op, &((hd_request_t *)op)->args);
    }
    if (status == UCC_OK && op->span) {
        hd_request_replan(op);
    }
    return status;
}

/* Takes what the arguments of a call that is not empty say, besides who its members are. */
static ucc_status_t take_call(hd_request_t *r, const ucc_coll_args_t *args) {
    hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    op->call.in_place = (r->args.flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    /* the arguments of a barrier may be garbage but for type and mask */
    op->call.global_errors = coll->moves_data && args->error_type == UCC_ERR_TYPE_GLOBAL;
    ucc_status_t status = coll->reducing ? take_reducer(op, args) : hd_pack_setup(r);
    if (status == UCC_OK && coll->moves_data) {
        status = hd_prepare(r);
    }
    if (op->call.exclusive) {
        op->prepare = hd_op_calls_user;
        status = status == UCC_OK ? check_element(op) : status;
    }
    if (status == UCC_OK) {
        status = choose_one_sided(r);
    }
    bool stay = (r->args.flags & HD_ARGS_COUNTS_STAY) && !op->call.persistent;
    if (coll->vector && (coll->reducing || op->team->crossing)) {
        op->prepare = recount_and_replan;
    } else if (coll->vector && !stay) {
        op->prepare = recount;
    }
    return status;
}

/* The team has several processes: the caller's place becomes its place in this process's group. */
static __attribute__((noinline)) ucc_status_t cross(hd_request_t *r) {
    hd_op_t *op = &r->op;
    hd_crossing_t *crossing = op->team->crossing;
    const hd_nodes_t *nodes = crossing->nodes;
    if (nodes && r->subset) {
        nodes = hd_crossing_node_set(crossing, r->subset);
        op->span = nodes ? nodes->span : NULL;
    } else if (nodes) {
        op->span = nodes->span;
    } else {
        op->span = r->subset ? hd_crossing_set(crossing, r->subset) : crossing->span;
    }
    if (!op->span) {
        return UCC_ERR_NO_MEMORY;
    }
    r->active_set.local = op->span->set.local; /* if there is one */
    op->place.me = op->span->local_of[op->me];
    op->place.n = hd_span_count(op->span, op->span->mine);
    hd_assert(op->span->n == op->n && op->place.me < op->place.n);
    return UCC_OK;
}

/* The call is known, and there is something to do: plan.c decides how it runs. */
static ucc_status_t settle(hd_request_t *r) {
    hd_op_t *op = &r->op;
    hd_assert(op->me < op->n);
    op->start = hd_request_start_late;
    ucc_status_t status = op->team->crossing ? cross(r) : UCC_OK;
    return status == UCC_OK && op->call.device ? hd_device_settle(op) : status;
}

ucc_status_t hd_args_become_device(hd_request_t *r) {
    ucc_status_t status = hd_device_become(&r->op);
    if (status == UCC_OK) {
        sign(&r->op, &r->args);
    }
    r->shape.type = 0; /* the plan that the request keeps fits no other call */
    r->express = NULL;
    return status == UCC_OK ? hd_device_settle(&r->op) : status;
}

ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r) {
    hd_op_t *op = &r->op;
    uint8_t type = hd_type_of((uint64_t)args->coll_type);
    if (type == HD_N_TYPES) {
        hd_error("coll_type %llu at endpoint %u is not a collective",
                 (unsigned long long)args->coll_type, team->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    uint64_t root = hd_coll[type].rooted ? args->root : 0;
    /* post, finalize and the logs read these of every request, even of an empty one */
    op->start = NULL;
    op->prepare = NULL;
    op->frame = NULL;
    op->calls_user = op->apart = false;
    r->subset = NULL;
    op->place.of_set = false;
    op->me = op->place.me = team->ep;
    op->n = op->place.n = team->n;
    op->task.callback = callback_of(args);
    r->args.flags = flags_of(args);
    r->args.src = args->src;
    r->args.dst = args->dst;
    op->call = (hd_call_t){
        .type = type,
        .persistent = (r->args.flags & UCC_COLL_ARGS_FLAG_PERSISTENT) != 0,
        .is_root = hd_coll[type].rooted && root == team->ep,
        .element = 1,
        .send_element = 1,
    };
    bool empty = is_empty(r, args);
    if (empty && !team->group->check) { /* start stays NULL, but a trigger may wait */
        return take_timeout(r, args->timeout);
    }
    op->call.empty = empty;
    if (empty) { /* the root and all else may be garbage */
        root = has_set(args) ? args->active_set.start : 0;
    }
    ucc_status_t status = take_members(r, args, root);
    if (status == UCC_OK) {
        status = take_timeout(r, args->timeout);
    }
    if (empty) {
        op->call.is_root = false;
    } else if (status == UCC_OK) {
        status = take_call(r, args);
    }
    if (status == UCC_OK) {
        sign(op, args);
        status = settle(r);
    }
    return status;
}

/* --- the plan of the call before -------------------------------------------------------------- */

/* Returns whether a plan for these arguments may be kept: they say nothing of matching, symmetric
 * memory or persistence, which only hd_args_prepare understands. */
static bool is_plain(const ucc_coll_args_t *a, uint64_t flags) {
    return (a->mask & ~(uint64_t)(UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_CB)) == 0 &&
           (flags & ~(uint64_t)(UCC_COLL_ARGS_FLAG_IN_PLACE | UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT | HD_ARGS_COUNTS_STAY)) == 0;
}

/* Calls in place are kept only if the source is a whole buffer. Of v types that is none, nor are
 * those with a user's reduction kept; what else decides their plan depends on the root alone, and
 * each post signs counts that are signed. The size of a generic datatype decides the plan of any
 * other call, and such a datatype may be gone by the next one. */
void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *a) {
    const hd_op_t *op = &r->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    uint64_t flags = flags_of(a);
    bool src, dst, in_place = (flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    hd_coll_buffers(coll, op->call.is_root, op->me, in_place, &src, &dst);
    bool generic = coll->vector ? op->call.exclusive
                                : (src && hd_dt_is_generic(a->src.info.datatype)) ||
                                      (dst && hd_dt_is_generic(a->dst.info.datatype));
    if (r->route != HD_ROUTE_NUMBER || op->plan.path == HD_PATH_NOTHING || op->call.empty ||
        op->call.device || generic || !is_plain(a, flags) ||
        (in_place && coll->source != HD_WHOLE)) {
        return;
    }
    hd_assert(coll->vector || !op->prepare);
    hd_shape_t *s = &r->shape;
    *s = (hd_shape_t){
        .type = ~(uint64_t)a->coll_type,
        .vector = coll->vector,
        .flags = flags,
        .op_mask = coll->reducing ? UINT64_MAX : 0,
        .root_mask = coll->rooted ? UINT64_MAX : 0,
        .src_mask = src ? UINT64_MAX : 0,
        .dst_mask = dst ? UINT64_MAX : 0,
    };
    s->op = (uint64_t)a->op & s->op_mask;
    s->root = a->root & s->root_mask;
    s->src_count = a->src.info.count & s->src_mask;
    s->src_dt = source_datatype(coll, a) & s->src_mask;
    s->dst_count = a->dst.info.count & s->dst_mask;
    s->dst_dt = result_datatype(coll, a) & s->dst_mask;
}

/* Returns whether the call has the shape that r keeps. */
static inline __attribute__((always_inline)) bool has_shape(const hd_request_t *r,
                                                            const ucc_coll_args_t *a) {
    const hd_shape_t *s = &r->shape;
    if (~(uint64_t)a->coll_type != s->type || flags_of(a) != s->flags || !is_plain(a, 0) ||
        (a->root & s->root_mask) != s->root) {
        return false;
    }
    uint64_t differs = ((uint64_t)a->op & s->op_mask) ^ s->op;
    if (s->vector) {
        const hd_coll_t *coll = &hd_coll[r->op.call.type];
        differs |= ((source_datatype(coll, a) & s->src_mask) ^ s->src_dt) |
                   ((result_datatype(coll, a) & s->dst_mask) ^ s->dst_dt);
    } else {
        const ucc_coll_buffer_info_t *src = &a->src.info, *dst = &a->dst.info;
        differs |= ((src->count & s->src_mask) ^ s->src_count) |
                   ((src->datatype & s->src_mask) ^ s->src_dt) |
                   ((dst->count & s->dst_mask) ^ s->dst_count) |
                   ((dst->datatype & s->dst_mask) ^ s->dst_dt);
    }
    return !differs;
}

bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *a, bool tagged) {
    return tagged || !is_plain(a, flags_of(a)) ? r->shape.type == 0 : has_shape(r, a);
}

/* hd_args_repeat of a v type. */
static __attribute__((noinline)) ucc_status_t repeat_vector(hd_request_t *r,
                                                            const ucc_coll_args_t *a) {
    r->op.call.global_errors = a->error_type == UCC_ERR_TYPE_GLOBAL;
    r->op.task.callback = callback_of(a);
    r->args.src = a->src;
    r->args.dst = a->dst;
    return hd_prepare(r);
}

static bool is_usable(const ucc_coll_buffer_info_t *info) {
    return hd_is_address(info->buffer) && hd_is_host(info->mem_type, info->buffer);
}

/* Returns whether the significant buffers are in the host's memory, though that is not said of
 * all. */
static __attribute__((noinline, cold)) bool are_usable(const hd_shape_t *s,
                                                       const ucc_coll_args_t *a) {
    return (!s->src_mask || is_usable(&a->src.info)) && (!s->dst_mask || is_usable(&a->dst.info));
}

ucc_status_t hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *a) {
    const hd_shape_t *s = &r->shape;
    const ucc_coll_buffer_info_t *src = &a->src.info, *dst = &a->dst.info;
    hd_op_t *op = &r->op;
    if (!has_shape(r, a)) {
        return UCC_INPROGRESS;
    }
    if (s->vector) {
        return repeat_vector(r, a);
    }
    bool usable =
        (!s->src_mask || (hd_is_address(src->buffer) && src->mem_type == UCC_MEMORY_TYPE_HOST)) &&
        (!s->dst_mask || (hd_is_address(dst->buffer) && dst->mem_type == UCC_MEMORY_TYPE_HOST));
    if (!usable && !are_usable(s, a)) {
        return UCC_INPROGRESS;
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
    op->task.callback = callback_of(a);
    return UCC_OK;
}
