/* call_log.c: what COLL_TRACE logs: a line per collective, at init and at post. Off, it costs one load of
 * a flag in each caller.
 */
#include "request/internal.h"
#include "threads/trace.h"

/* The pure function again, not what the request keeps: that may not be decided yet. */
static hd_plan_t plan_of(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    return op->start && hd_group_is_complete(op->group)
               ? hd_plan_of(op->group, &op->call, &op->place)
               : (hd_plan_t){.path = HD_PATH_NOTHING};
}

/* args: at init; NULL at post, when they may be gone. */
void hd_request_log(const hd_request_t *r, const ucc_coll_args_t *args) {
    static const char *const order[] = {"over at once",          "numbered",   "matched by tag",
                                        "matched by init order", "persistent", "active set"};
    _Static_assert(HD_ROUTE_NOTHING == 0 && HD_ROUTE_NUMBER == 1 && HD_ROUTE_TAG == 2 &&
                       HD_ROUTE_INIT == 3 && HD_ROUTE_PERSISTENT == 4 && HD_ROUTE_ACTIVE_SET == 5,
                   "names stand in the order of hd_route");
    static const char *const arrival[] = {"flat", "by counter", "static"};
    const hd_op_t *op = &r->op;
    if (hd_trace_level() < (args ? HD_LOG_INFO : HD_LOG_DEBUG)) {
        return; /* called for another reason: see hd_trace_attend */
    }
    const char *level_name = hd_config_string(op->team->lib->config, HD_CFG_LIB_COLL_TRACE);
    int level = args ? HD_LOG_INFO : HD_LOG_DEBUG, wanted = hd_log_level_parse(level_name);
    if (wanted < level || (r->op.me != 0 && wanted < HD_LOG_TRACE)) {
        return;
    }
    hd_plan_t plan = plan_of(r);
    bool undecided = op->start && plan.path == HD_PATH_NOTHING; /* not all have joined */
    hd_trace_call_t call = {.event = args ? "init" : "post",
                            .name = hd_op_type_name(op),
                            .ep = op->team_ep,
                            .n = r->op.n,
                            .root = hd_coll[op->call.type].rooted ? op->call.root : UINT32_MAX,
                            .bytes = op->call.bytes ? op->call.bytes : op->call.total,
                            .regime = undecided ? "undecided" : hd_plan_name(&plan),
                            .arrival = undecided ? "undecided" : arrival[plan.arrival],
                            .window = plan.regime == HD_REGIME_DIRECT ? plan.window : 0,
                            .stores = hd_stores_name(plan.stores),
                            .order = r->run ? "by an algorithm of the user's" : order[r->route]};
    if (args && args->mask & UCC_COLL_ARGS_FIELD_FLAGS) {
        call.flags = args->flags;
    }
    if (args && op->start && hd_coll[op->call.type].moves_data) {
        call.datatype = hd_dt_name(hd_args_datatype(op, args));
        call.op = !hd_coll[op->call.type].reducing ? NULL
                  : op->call.reducer.user          ? "user's"
                                                   : hd_reduction_name(args->op);
    }
    hd_trace_log_call(level, &call);
}
