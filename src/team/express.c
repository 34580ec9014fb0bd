/* express.c: which blocking calls may take the express (shm/express.c), and with what.
 *
 * The first call of a kind runs with a request, which checks everything; if it was one that the express
 * understands, its signature and reducer are remembered in the handle. A call with the same arguments
 * then needs no request: it publishes and looks. Whatever is out of the ordinary (several users of the
 * handle, a failed or incomplete team, tracing, more runnable threads than processors) goes the ordinary
 * way, as do the calls whose peers are late, after a short look.
 */
#include "team/team.h"
#include "threads/trace.h"

static bool may_take(const ucc_team_h team, const hd_lesson_t *lesson) {
    return lesson->known && hd_group_poisoned(team->group) == UCC_OK && !hd_trace_is_on() &&
           !hd_trace_logs_calls(HD_LOG_INFO) &&
           !hd_idle_is_crowded(&team->contexts[0]->runner.idle);
}

ucc_status_t hd_team_barrier(ucc_team_h team, uint64_t *k) {
    const hd_lesson_t *lesson = &team->lesson.barrier;
    *k = 0;
    if (!may_take(team, lesson)) {
        return UCC_INPROGRESS;
    }
    return hd_express_barrier(team->group->board, team->member, &lesson->express, k);
}

ucc_status_t hd_team_bcast(ucc_team_h team, void *buffer, uint64_t count, ucc_datatype_t dt,
                           uint32_t root, uint64_t *k) {
    const hd_lesson_t *lesson = &team->lesson.bcast[root % HD_REDUCE_BLOCK];
    const hd_express_t *x = &lesson->express;
    *k = 0;
    if (x->count != count || lesson->dt != dt || x->root != root || !buffer ||
        !may_take(team, lesson)) {
        return UCC_INPROGRESS;
    }
    return hd_express_bcast(team->group->board, team->member, x, root == team->ep, buffer, k);
}

ucc_status_t hd_team_allreduce(ucc_team_h team, const void *src, void *dst, uint64_t count,
                               ucc_datatype_t dt, ucc_reduction_op_t op, uint64_t *k) {
    const hd_lesson_t *lesson = &team->lesson.allreduce;
    const hd_express_t *x = &lesson->express;
    *k = 0;
    if (x->count != count || lesson->dt != dt || lesson->op != op || !src || !dst ||
        !may_take(team, lesson)) {
        return UCC_INPROGRESS;
    }
    const void *operand = src == HEDDLE_IN_PLACE ? dst : src;
    return hd_express_allreduce(team->group->board, team->member, x, &team->lesson.reducer, operand,
                                dst, k);
}

/* The shape of the call is known to be plain: not matched, not packed, not in symmetric memory. */
static bool suits(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    const ucc_team_h team = op->team;
    return r->shape.type != 0 && !team->locked && !team->debug_order && team->n_contexts == 1 &&
           hd_op_is_flat(op) && op->n <= HD_REDUCE_BLOCK && !op->group->two_sided &&
           !op->exclusive && op->bytes <= HD_INLINE_MAX;
}

void hd_team_learn(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    struct ucc_team *team = op->team;
    hd_lesson_t *lesson = op->type == HD_BARRIER     ? &team->lesson.barrier
                          : op->type == HD_ALLREDUCE ? &team->lesson.allreduce
                          : op->type == HD_BCAST ? &team->lesson.bcast[op->root % HD_REDUCE_BLOCK]
                                                 : NULL;
    bool reduces = op->type == HD_ALLREDUCE;
    size_t count = reduces ? r->shape.dst_count : r->shape.src_count;
    if (!lesson ||
        (lesson->known && lesson->express.signature == op->signature &&
         lesson->express.count == count) ||
        !suits(r)) {
        return;
    }
    *lesson = (hd_lesson_t){
        .known = true,
        .dt = (ucc_datatype_t)(reduces ? r->shape.dst_dt : r->shape.src_dt),
        .op = (ucc_reduction_op_t)r->shape.op,
        .express = {op->signature, op->root, op->bytes, count},
    };
    if (reduces) {
        team->lesson.reducer = op->reducer;
    }
}
