/* ferry_rounds.c: what the rounds of a ferry (ferry.h) bring: which bytes a member puts into its
 * slot, what is combined, what the leg gives and takes, and which bytes a member takes.
 *
 *   WHOLE     the root's slot has the data. On its node the others take it from there; elsewhere
 *             the leg, a bcast, brings it to the area's result
 *   REDUCED   slots have operands. Members combine shares of them in the canonical order; the leg
 *             combines the nodes' partial results in theirs. A reduce_scatter is an allreduce of
 *             which each takes its own block: the same bits
 *   OPERANDS  slots have operands, which the leg gathers in all nodes. Each member combines them:
 *             a prefix from the left; else each node's, and then what came of these, so that the
 *             bits are those of REDUCED
 *   BLOCKED   slots have blocks, which the leg gathers; those of others come to the area's result,
 *             by endpoint
 *   PAIRS     slots have a block for each endpoint, and the result has, for each endpoint, one for
 *             each member here
 *
 * Before the blocks, a slot has two tables: how many bytes of this round the member gives to each
 * endpoint (BLOCKED, OPERANDS: the first entry), and how many it expects of each. The carrier goes
 * by these, since it can't read the calls of other processes.
 */
#include "span/ferry.h"

#include "core/copy.h"

#include <string.h>

/* --- memory ----------------------------------------------------------------------------------- */

static size_t up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static size_t down_to_lines(size_t bytes) {
    return bytes / HD_LINE * HD_LINE;
}

/* Bytes of a block in a round in which each endpoint has one. */
static size_t block_chunk(uint32_t n) {
    size_t bytes = down_to_lines(HD_FERRY_BLOCKS / n);
    return bytes < HD_LINE ? HD_LINE : bytes < HD_FERRY_SLOT ? bytes : HD_FERRY_SLOT;
}

static size_t slot_bytes(uint32_t team_n) {
    size_t least = (size_t)team_n * HD_LINE; /* a line for each endpoint */
    return least < HD_FERRY_SLOT ? HD_FERRY_SLOT : least;
}

hd_ferry_layout_t hd_ferry_lay_out(const hd_group_t *group) {
    size_t n = group->n, all = group->team_n, page = 4096;
    size_t slot = slot_bytes(group->team_n), table = up(2 * all * sizeof(uint32_t), HD_LINE);
    size_t blocks = all * block_chunk(group->team_n), result = n * slot;
    result = result < HD_FERRY_BLOCKS ? HD_FERRY_BLOCKS : result;
    result = result < blocks ? blocks : result;
    hd_ferry_layout_t at = {.slot = slot};
    at.tables = up(sizeof(hd_ferry_area_t) + n * sizeof(hd_ferry_member_t), page);
    at.slots = up(at.tables + n * table, page);
    at.partial = at.slots + n * slot;
    at.result = at.partial + slot;
    at.stride = up(at.result + result - at.tables, page);
    at.bytes = at.tables + HD_FERRY_DEPTH * at.stride;
    return at;
}

static uint8_t *place(const hd_ferry_view_t *v, size_t at, uint32_t round) {
    return (uint8_t *)v->area + at + round % HD_FERRY_DEPTH * v->at.stride;
}

static uint8_t *slot_of(const hd_ferry_view_t *v, uint32_t i, uint32_t round) {
    return place(v, v->at.slots, round) + i * v->at.slot;
}

static uint8_t *partial_of(const hd_ferry_view_t *v, uint32_t round) {
    return v->n == 1 ? slot_of(v, 0, round) : place(v, v->at.partial, round);
}

static uint8_t *result_of(const hd_ferry_view_t *v, uint32_t round) {
    return place(v, v->at.result, round);
}

/* What member i gives to each endpoint in this round, and behind that, what it expects. */
static uint32_t *gives_of(const hd_ferry_view_t *v, uint32_t i, uint32_t round) {
    size_t table = up(2 * (size_t)v->op->group->team_n * sizeof(uint32_t), HD_LINE);
    return (uint32_t *)(void *)(place(v, v->at.tables, round) + i * table);
}

static uint32_t *takes_of(const hd_ferry_view_t *v, uint32_t i, uint32_t round) {
    return gives_of(v, i, round) + v->op->group->team_n;
}

/* --- what there is ---------------------------------------------------------------------------- */

static const hd_coll_t *coll_of(const hd_op_t *op) {
    return &hd_coll[op->call.type];
}

hd_ferry_kind_t hd_ferry_kind(const hd_call_t *call) {
    const hd_coll_t *coll = &hd_coll[call->type];
    if (call->empty || !coll->moves_data) {
        return HD_FERRY_NOTHING;
    }
    if (coll->bcast) {
        return HD_FERRY_WHOLE;
    }
    if (coll->reducing) {
        return coll->prefix || call->exclusive ? HD_FERRY_OPERANDS : HD_FERRY_REDUCED;
    }
    return coll->pairwise || coll->flow == HD_FROM_ROOT ? HD_FERRY_PAIRS : HD_FERRY_BLOCKED;
}

/* Not every member knows all blocks' sizes. */
static bool has_sizes(const hd_op_t *op) {
    const hd_coll_t *coll = coll_of(op);
    return coll->vector && !coll->reducing && !op->call.empty &&
           (coll->pairwise || coll->flow != HD_AMONG_ALL);
}

size_t hd_ferry_chunk(const hd_op_t *op) {
    size_t slot = slot_bytes(op->group->team_n), element = op->call.element;
    switch (hd_ferry_kind(&op->call)) {
    case HD_FERRY_NOTHING:
        break;
    case HD_FERRY_WHOLE:
        return slot;
    case HD_FERRY_REDUCED:
        return slot / element * element;
    case HD_FERRY_OPERANDS:
        return block_chunk(op->n) / element * element;
    case HD_FERRY_BLOCKED:
        return block_chunk(op->n);
    case HD_FERRY_PAIRS:
        return down_to_lines(slot / op->n);
    }
    return 0;
}

size_t hd_ferry_most(const hd_crossing_t *crossing) {
    return block_chunk(crossing->span->n);
}

size_t hd_ferry_bytes(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    size_t most = 0;
    switch (hd_ferry_kind(call)) {
    case HD_FERRY_NOTHING:
        return 0;
    case HD_FERRY_REDUCED:
    case HD_FERRY_OPERANDS:
        return call->total;
    default:
        break;
    }
    if (has_sizes(op) || !coll_of(op)->vector) {
        return has_sizes(op) ? 0 : call->bytes;
    }
    for (uint32_t e = 0; e < op->n; e++) { /* allgatherv */
        size_t bytes = hd_vector_count(&call->receive, e) * call->element;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint32_t data_rounds(const hd_ferry_view_t *v) {
    return v->chunk ? (uint32_t)((v->bytes + v->chunk - 1) / v->chunk) : 0;
}

/* The exit makes all wait for all: where that is asked for, and where there is nothing else. */
void hd_ferry_count(hd_ferry_view_t *v) {
    /* acquire: the sizes; pairs with the leg that has brought them */
    bool known = !v->sizes || atomic_load_explicit(&v->area->done[0], memory_order_acquire) > 0;
    if (!known) {
        v->rounds = 1;
        return;
    }
    v->bytes = v->sizes ? v->area->most : v->bytes;
    uint32_t data = data_rounds(v);
    v->rounds = v->sizes + data + (v->op->group->two_sided || (!v->sizes && !data));
}

void hd_ferry_look(hd_ferry_view_t *v, const hd_op_t *op, hd_ferry_area_t *area) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = coll_of(op);
    *v = (hd_ferry_view_t){.op = op,
                           .crossing = hd_group_crossing(op->group),
                           .span = op->span,
                           .area = area,
                           .at = hd_ferry_lay_out(op->group),
                           .kind = hd_ferry_kind(call),
                           .sizes = has_sizes(op),
                           .n = op->place.n,
                           .me = op->place.me,
                           .chunk = op->plan.segment,
                           .bytes = op->plan.window};
    v->src[0] = coll->source == HD_WHOLE && !coll->bcast ? hd_call_operand(call) : call->src;
    v->dst[0] = call->dst;
    v->call[0] = call;
    v->work = (hd_work_t){.src = v->src, .dst = v->dst, .call = v->call};
    hd_ferry_count(v);
}

hd_ferry_round_t hd_ferry_round(const hd_ferry_view_t *v, uint32_t round) {
    return v->sizes && round == 0              ? HD_FERRY_SIZES
           : round - v->sizes < data_rounds(v) ? HD_FERRY_DATA
                                               : HD_FERRY_EXIT;
}

/* The part of so many bytes that belongs to a round of data. */
static hd_range_t part_of(const hd_ferry_view_t *v, size_t bytes, uint32_t round) {
    size_t at = (size_t)(round - v->sizes) * v->chunk, left = at < bytes ? bytes - at : 0;
    return (hd_range_t){left ? at : 0, left < v->chunk ? left : v->chunk};
}

static bool is_rooted_here(const hd_ferry_view_t *v) {
    return v->span->process_of[v->op->call.root] == v->span->mine;
}

static bool gives(const hd_ferry_view_t *v) {
    return coll_of(v->op)->flow != HD_FROM_ROOT || v->op->call.is_root;
}

/* Does this member take data? A root in place has its own block of a scatter. */
static bool takes(const hd_ferry_view_t *v) {
    const hd_call_t *call = &v->op->call;
    switch ((hd_flow_t)coll_of(v->op)->flow) {
    case HD_TO_ROOT:
        return call->is_root;
    case HD_FROM_ROOT:
        return !call->is_root || (v->kind == HD_FERRY_PAIRS && !call->in_place);
    case HD_AMONG_ALL:
        break;
    }
    return true;
}

/* What this member gives to endpoint e, and takes of it, in all rounds. The root's counts say how
 * large its own block is. */
static hd_data_t given(const hd_ferry_view_t *v, uint32_t e) {
    const hd_op_t *op = v->op;
    if (v->kind == HD_FERRY_OPERANDS) {
        return (hd_data_t){(uint8_t *)(uintptr_t)v->src[0], v->bytes};
    }
    hd_data_t data = hd_work_given(&v->work, 0, e);
    if (coll_of(op)->flow == HD_TO_ROOT && op->call.is_root) {
        data.bytes = hd_work_taken(&v->work, 0, op->me).bytes;
    }
    return data;
}

static hd_data_t taken(const hd_ferry_view_t *v, uint32_t e) {
    const hd_op_t *op = v->op;
    if (v->kind == HD_FERRY_OPERANDS) {
        return (hd_data_t){NULL, v->bytes};
    }
    hd_data_t data = hd_work_taken(&v->work, 0, e);
    if (coll_of(op)->flow == HD_FROM_ROOT && op->call.is_root) {
        data.bytes = hd_work_given(&v->work, 0, op->me).bytes;
    }
    return data;
}

/* Of whom a member takes blocks, and to whom it gives them, by endpoint. */
static hd_members_t sources(const hd_ferry_view_t *v) {
    uint32_t root = v->op->call.root;
    return coll_of(v->op)->flow == HD_FROM_ROOT ? (hd_members_t){root, root + 1}
                                                : (hd_members_t){0, v->span->n};
}

/* --- fill ------------------------------------------------------------------------------------- */

static void fill_sizes(const hd_ferry_view_t *v) {
    hd_ferry_member_t *mine = &v->area->member[v->me];
    hd_members_t from = sources(v);
    uint64_t most = 0;
    uint32_t to = v->kind == HD_FERRY_PAIRS ? v->span->n : 1;
    for (uint32_t e = 0; gives(v) && e < to; e++) {
        size_t bytes = given(v, e).bytes;
        most = bytes > most ? bytes : most;
    }
    for (uint32_t e = from.first; takes(v) && e < from.end; e++) {
        size_t bytes = taken(v, e).bytes;
        most = bytes > most ? bytes : most;
    }
    mine->most = most;
}

static void copy_part(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes && to != from) {
        hd_copy(to, from, bytes, HD_STORES_PLAIN);
    }
}

static void fill_whole(const hd_ferry_view_t *v, uint32_t round) {
    hd_range_t r = part_of(v, v->bytes, round);
    copy_part(slot_of(v, v->me, round), (const uint8_t *)v->src[0] + r.at, r.bytes);
}

static void fill_blocks(const hd_ferry_view_t *v, uint32_t round) {
    uint32_t *to = gives_of(v, v->me, round), *of = takes_of(v, v->me, round);
    uint32_t blocks = v->kind == HD_FERRY_PAIRS ? v->span->n : 1;
    uint8_t *slot = slot_of(v, v->me, round);
    hd_members_t from = sources(v);
    memset(to, 0, blocks * sizeof(*to));
    memset(of, 0, v->span->n * sizeof(*of));
    for (uint32_t e = 0; gives(v) && e < blocks; e++) {
        hd_data_t data = given(v, e);
        hd_range_t r = part_of(v, data.bytes, round);
        copy_part(slot + e * v->chunk, data.at + r.at, r.bytes);
        to[e] = (uint32_t)r.bytes;
    }
    for (uint32_t e = from.first; (takes(v) || v->kind == HD_FERRY_OPERANDS) && e < from.end; e++) {
        of[e] = (uint32_t)part_of(v, taken(v, e).bytes, round).bytes;
    }
}

void hd_ferry_fill(const hd_ferry_view_t *v, uint32_t round) {
    hd_ferry_round_t what = hd_ferry_round(v, round);
    if (what == HD_FERRY_SIZES) {
        fill_sizes(v);
    } else if (what == HD_FERRY_DATA && v->kind == HD_FERRY_WHOLE) {
        if (v->op->call.is_root) {
            fill_whole(v, round);
        }
    } else if (what == HD_FERRY_DATA && v->kind == HD_FERRY_REDUCED) {
        fill_whole(v, round);
    } else if (what == HD_FERRY_DATA) {
        fill_blocks(v, round);
    }
}

/* --- combine ---------------------------------------------------------------------------------- */

/* Makes a reducer of all operands; partial: of some, which are not divided where it is an average.
 * Datatype and operation have been checked with the call's own. */
static hd_reducer_t reducer_of(const hd_op_t *op, bool partial) {
    hd_reducer_t reducer;
    ucc_status_t status =
        hd_reducer_init(&reducer, op->call.reducer.dt, op->call.reducer.op, op->n);
    hd_assert_eq(status, UCC_OK);
    (void)status;
    if (partial && reducer.root != reducer.inner) {
        reducer.root = reducer.inner;
        reducer.stream = NULL;
    }
    return reducer;
}

ucc_status_t hd_ferry_combine(const hd_ferry_view_t *v, uint32_t round) {
    if (v->n == 1 || hd_ferry_round(v, round) != HD_FERRY_DATA) {
        return UCC_OK;
    }
    size_t element = v->op->call.element, count = part_of(v, v->bytes, round).bytes / element;
    size_t from = count * v->me / v->n, end = count * (v->me + 1) / v->n;
    const void *few[HD_REDUCE_BLOCK], **operand = few;
    if (from == end) {
        return UCC_OK;
    }
    if (v->n > HD_REDUCE_BLOCK) {
        operand = hd_alloc(HD_LINE, v->n * sizeof(*operand));
        if (!operand) {
            hd_error("no memory to combine %u operands", v->n);
            return UCC_ERR_NO_MEMORY;
        }
    }
    for (uint32_t i = 0; i < v->n; i++) {
        operand[i] = slot_of(v, i, round);
    }
    hd_reducer_t reducer = reducer_of(v->op, true);
    void *to = partial_of(v, round);
    ucc_status_t status = hd_reduce_tree(&reducer, v->n, operand, from * element, 1, &to,
                                         from * element, end - from, HD_STORES_PLAIN);
    if (operand != few) {
        hd_free((void *)operand);
    }
    return status;
}

/* --- take ------------------------------------------------------------------------------------- */

/* Hands this member what it has of these bytes of the reduction's result. */
static void take_reduced(const hd_ferry_view_t *v, const uint8_t *result, hd_range_t r) {
    const hd_op_t *op = v->op;
    const hd_call_t *call = &op->call;
    if (!takes(v)) {
        return;
    }
    if (coll_of(op)->source == HD_WHOLE) {
        copy_part(call->dst + r.at, result, r.bytes);
        return;
    }
    bool vector = coll_of(op)->vector;
    size_t at = vector ? hd_vector_displacement(&call->receive, op->me) * call->element
                       : op->me * call->bytes;
    size_t end =
        at + (vector ? hd_vector_count(&call->receive, op->me) * call->element : call->bytes);
    size_t first = at > r.at ? at : r.at, last = end < r.at + r.bytes ? end : r.at + r.bytes;
    if (first < last) {
        copy_part(call->dst + (first - at), result + (first - r.at), last - first);
    }
}

/* Where endpoint e's block of this round lies: in a member's slot, or where the leg has brought
 * it. */
static const uint8_t *block_at(const hd_ferry_view_t *v, uint32_t e, uint32_t round) {
    const hd_span_t *span = v->span;
    bool pairs = v->kind == HD_FERRY_PAIRS;
    if (span->process_of[e] == span->mine) {
        return slot_of(v, span->local_of[e], round) + (pairs ? v->op->me * v->chunk : 0);
    }
    return result_of(v, round) + (pairs ? (size_t)e * v->n + v->me : e) * v->chunk;
}

static ucc_status_t take_blocks(const hd_ferry_view_t *v, uint32_t round) {
    const hd_span_t *span = v->span;
    hd_members_t from = sources(v);
    for (uint32_t e = from.first; takes(v) && e < from.end; e++) {
        hd_data_t to = taken(v, e);
        hd_range_t r = part_of(v, to.bytes, round);
        if (span->process_of[e] == span->mine) {
            uint32_t i = span->local_of[e];
            size_t sent = gives_of(v, i, round)[v->kind == HD_FERRY_PAIRS ? v->op->me : 0];
            if (sent != r.bytes) {
                return hd_op_say_sizes(v->op, i, v->me, sent, r.bytes);
            }
        }
        copy_part(to.at + r.at, block_at(v, e, round), r.bytes);
    }
    return UCC_OK;
}

/* The prefix of the operands up to this member's own, or before it. scratch: room for two. */
static ucc_status_t make_prefix(const hd_ferry_view_t *v, uint32_t round, hd_range_t r,
                                uint8_t *scratch, const uint8_t **prefix) {
    const hd_op_t *op = v->op;
    hd_reducer_t reducer = reducer_of(op, false);
    uint32_t end = op->me + (coll_of(op)->result_at == HD_EVERYBODY);
    ucc_status_t status = UCC_OK;
    *prefix = end ? block_at(v, 0, round) : NULL;
    for (uint32_t e = 1; e < end && status == UCC_OK; e++) {
        const void *source[2] = {*prefix, block_at(v, e, round)};
        uint8_t *to = scratch + e % 2 * r.bytes;
        status = hd_reduce_block(&reducer, 2, source, to, r.bytes / op->call.element, true);
        *prefix = to;
    }
    return status;
}

/* All operands, node by node, and then the nodes'. scratch: room for one of each node, and one. */
static ucc_status_t make_sum(const hd_ferry_view_t *v, uint32_t round, hd_range_t r,
                             uint8_t *scratch, const void **operand, const uint8_t **sum) {
    const hd_op_t *op = v->op;
    const hd_span_t *span = v->span;
    hd_reducer_t partial = reducer_of(op, true), whole = reducer_of(op, false);
    size_t count = r.bytes / op->call.element;
    ucc_status_t status = UCC_OK;
    for (uint32_t node = 0; node < span->processes && status == UCC_OK; node++) {
        void *to = scratch + node * r.bytes;
        for (uint32_t i = 0; i < hd_span_count(span, node); i++) {
            operand[i] = block_at(v, hd_span_endpoint(span, node, i), round);
        }
        status = hd_reduce_tree(&partial, hd_span_count(span, node), operand, 0, 1, &to, 0, count,
                                HD_STORES_PLAIN);
    }
    for (uint32_t node = 0; node < span->processes; node++) {
        operand[node] = scratch + node * r.bytes;
    }
    void *to = scratch + span->processes * r.bytes;
    *sum = to;
    return status == UCC_OK ? hd_reduce_tree(&whole, span->processes, operand, 0, 1, &to, 0, count,
                                             HD_STORES_PLAIN)
                            : status;
}

static ucc_status_t take_operands(const hd_ferry_view_t *v, uint32_t round) {
    const hd_op_t *op = v->op;
    hd_range_t r = part_of(v, v->bytes, round);
    size_t list = v->span->n * sizeof(void *), rooms = v->span->processes + 2;
    const uint8_t *result = NULL;
    if (!takes(v)) {
        return UCC_OK;
    }
    uint8_t *memory = hd_alloc(HD_LINE, up(list, HD_LINE) + rooms * r.bytes);
    if (!memory) {
        hd_error("%s: no memory for operands of %zu bytes", hd_type_name(op->call.type), r.bytes);
        return UCC_ERR_NO_MEMORY;
    }
    uint8_t *scratch = memory + up(list, HD_LINE);
    ucc_status_t status = coll_of(op)->prefix ? make_prefix(v, round, r, scratch, &result)
                                              : make_sum(v, round, r, scratch,
                                                         (const void **)(void *)memory, &result);
    if (status == UCC_OK && result) {
        take_reduced(v, result, r);
    }
    hd_free(memory);
    return status;
}

bool hd_ferry_takes_turns(const hd_ferry_view_t *v) {
    return v->op->call.exclusive && v->kind == HD_FERRY_OPERANDS;
}

ucc_status_t hd_ferry_take(const hd_ferry_view_t *v, uint32_t round) {
    const hd_call_t *call = &v->op->call;
    hd_range_t r = part_of(v, v->bytes, round);
    if (hd_ferry_round(v, round) != HD_FERRY_DATA) {
        return UCC_OK;
    }
    switch (v->kind) {
    case HD_FERRY_NOTHING:
        break;
    case HD_FERRY_WHOLE:
        if (!call->is_root) {
            copy_part(call->dst + r.at,
                      is_rooted_here(v) ? slot_of(v, v->span->local_of[call->root], round)
                                        : result_of(v, round),
                      r.bytes);
        }
        break;
    case HD_FERRY_REDUCED:
        take_reduced(v, result_of(v, round), r);
        break;
    case HD_FERRY_OPERANDS:
        return take_operands(v, round);
    case HD_FERRY_BLOCKED:
    case HD_FERRY_PAIRS:
        return take_blocks(v, round);
    }
    return UCC_OK;
}

/* --- the leg ---------------------------------------------------------------------------------- */

size_t hd_ferry_pieces(const hd_ferry_view_t *v) {
    size_t n = v->span->n;
    return v->kind == HD_FERRY_PAIRS ? 2 * n * v->n : n + v->n + 2;
}

static void begin(hd_ferry_lists_t *lists, hd_net_data_t *data) {
    *data = (hd_net_data_t){.piece = lists->next};
}

static void add(hd_ferry_lists_t *lists, hd_net_data_t *data, const uint8_t *at, size_t bytes) {
    if (bytes) {
        *lists->next++ = (hd_net_piece_t){(void *)(uintptr_t)at, bytes};
        data->n++;
        data->bytes += bytes;
    }
}

/* To a node: what the members here give to its endpoints. */
static void give_pairs(const hd_ferry_view_t *v, uint32_t round, uint32_t node,
                       hd_ferry_lists_t *lists, hd_net_data_t *data) {
    const hd_span_t *span = v->span;
    hd_members_t from = hd_span_givers(span, &v->op->call, span->mine);
    begin(lists, data);
    for (uint32_t i = from.first; i < from.end; i++) {
        const uint32_t *to = gives_of(v, i, round);
        for (uint32_t j = 0; j < hd_span_count(span, node); j++) {
            uint32_t e = hd_span_endpoint(span, node, j);
            add(lists, data, slot_of(v, i, round) + e * v->chunk, to[e]);
        }
    }
}

static void take_pairs(const hd_ferry_view_t *v, uint32_t round, uint32_t node,
                       hd_ferry_lists_t *lists, hd_net_data_t *data) {
    const hd_span_t *span = v->span;
    hd_members_t from = hd_span_givers(span, &v->op->call, node);
    begin(lists, data);
    for (uint32_t j = from.first; j < from.end; j++) {
        uint32_t e = hd_span_endpoint(span, node, j);
        for (uint32_t i = 0; i < v->n; i++) {
            add(lists, data, result_of(v, round) + ((size_t)e * v->n + i) * v->chunk,
                takes_of(v, i, round)[e]);
        }
    }
}

static void give_blocks(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                        hd_net_data_t *data) {
    begin(lists, data);
    for (uint32_t i = 0; i < v->n; i++) {
        add(lists, data, slot_of(v, i, round), gives_of(v, i, round)[0]);
    }
}

/* taker: a member here that knows the sizes. */
static void take_blocks_of(const hd_ferry_view_t *v, uint32_t round, uint32_t node, uint32_t taker,
                           hd_ferry_lists_t *lists, hd_net_data_t *data) {
    const hd_span_t *span = v->span;
    begin(lists, data);
    for (uint32_t j = 0; j < hd_span_count(span, node); j++) {
        uint32_t e = hd_span_endpoint(span, node, j);
        add(lists, data, result_of(v, round) + e * v->chunk, takes_of(v, taker, round)[e]);
    }
}

static size_t set_whole(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                        hd_net_call_t *call) {
    hd_range_t r = part_of(v, v->bytes, round);
    bool here = is_rooted_here(v);
    hd_net_data_t *data = here ? &lists->give[0] : &lists->take[0];
    begin(lists, data);
    add(lists, data,
        here ? slot_of(v, v->span->local_of[v->op->call.root], round) : result_of(v, round),
        r.bytes);
    call->type = HD_BCAST;
    return r.bytes;
}

static size_t set_reduced(const hd_ferry_view_t *v, uint32_t round, hd_net_call_t *call) {
    hd_range_t r = part_of(v, v->bytes, round);
    bool rooted = coll_of(v->op)->rooted;
    call->type = rooted ? HD_REDUCE : HD_ALLREDUCE;
    call->operand = partial_of(v, round);
    call->result = !rooted || is_rooted_here(v) ? result_of(v, round) : NULL;
    call->count = r.bytes / v->op->call.element;
    return r.bytes;
}

static void set_blocks(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                       hd_net_call_t *call) {
    const hd_span_t *span = v->span;
    uint32_t root = v->op->call.root, mine = span->mine;
    bool to_root = coll_of(v->op)->flow == HD_TO_ROOT && v->kind == HD_FERRY_BLOCKED;
    call->type = to_root ? HD_GATHERV : HD_ALLGATHERV;
    if (!to_root || !is_rooted_here(v)) {
        give_blocks(v, round, lists, &lists->give[0]);
    }
    for (uint32_t node = 0; node < span->processes && (!to_root || is_rooted_here(v)); node++) {
        if (node != mine) {
            take_blocks_of(v, round, node, to_root ? span->local_of[root] : 0, lists,
                           &lists->take[node]);
        }
    }
}

static void set_pairs(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                      hd_net_call_t *call) {
    const hd_span_t *span = v->span;
    bool from_root = coll_of(v->op)->flow == HD_FROM_ROOT;
    call->type = from_root ? HD_SCATTERV : HD_ALLTOALLV;
    for (uint32_t node = 0; node < span->processes; node++) {
        if (node == span->mine) {
            continue;
        }
        if (!from_root || is_rooted_here(v)) {
            give_pairs(v, round, node, lists, &lists->give[node]);
        }
        if (!from_root) {
            take_pairs(v, round, node, lists, &lists->take[node]);
        }
    }
    if (from_root && !is_rooted_here(v)) {
        take_pairs(v, round, span->process_of[v->op->call.root], lists, &lists->take[0]);
    }
}

/* All members have filled the round. */
static size_t set_sizes(const hd_ferry_view_t *v, hd_ferry_lists_t *lists, hd_net_call_t *call) {
    lists->most = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        uint64_t most = v->area->member[i].most;
        lists->most = most > lists->most ? most : lists->most;
    }
    call->type = HD_ALLREDUCE;
    call->operand = &lists->most;
    call->result = &v->area->most;
    call->count = 1;
    call->element = sizeof(lists->most);
    return sizeof(lists->most);
}

size_t hd_ferry_set_call(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                         hd_net_call_t *call) {
    const hd_op_t *op = v->op;
    bool rooted = coll_of(op)->rooted && v->kind != HD_FERRY_OPERANDS;
    lists->next = lists->piece;
    memset(lists->give, 0, lists->n * sizeof(*lists->give));
    memset(lists->take, 0, lists->n * sizeof(*lists->take));
    *call = (hd_net_call_t){.type = HD_BARRIER,
                            .n = v->span->processes,
                            .me = v->span->mine,
                            .signature = op->call.signature,
                            .element = op->call.element,
                            .give = lists->give,
                            .take = lists->take};
    hd_ferry_round_t what = hd_ferry_round(v, round);
    if (what == HD_FERRY_SIZES) {
        return set_sizes(v, lists, call);
    }
    if (what == HD_FERRY_EXIT) {
        return 0;
    }
    call->root = rooted ? v->span->process_of[op->call.root] : 0;
    switch (v->kind) {
    case HD_FERRY_NOTHING:
        break;
    case HD_FERRY_WHOLE:
        return set_whole(v, round, lists, call);
    case HD_FERRY_REDUCED:
        return set_reduced(v, round, call);
    case HD_FERRY_OPERANDS:
    case HD_FERRY_BLOCKED:
        set_blocks(v, round, lists, call);
        break;
    case HD_FERRY_PAIRS:
        set_pairs(v, round, lists, call);
        break;
    }
    return 0;
}
