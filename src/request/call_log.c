/* call_log.c: what COLL_TRACE logs: a line per collective, at init and at post. request.c calls
 * hd_request_log there, after it has looked at a flag: if nothing is logged, that load is all it
 * costs.
 */
#include "device/device.h"
#include "request/algorithm.h"
#include "request/internal.h"
#include "shm/phases.h"
#include "threads/trace.h"

/* Prints how the call will run. */
static void print_plan(const hd_request_t *r, hd_text_t *text) {
    if (r->run) {
        hd_text_add(text, "algorithm \"%s\"", hd_algorithm_name(r));
        return;
    }
    bool known = r->op.start && hd_group_is_complete(r->op.group);
    hd_plan_t plan = known ? hd_plan_of(r) : (hd_plan_t){.path = HD_PATH_NOTHING};
    hd_phases_t phases = hd_op_phases(&r->op, &plan);
    if (!r->op.start || phases.n == 0) {
        /* undecided: not all endpoints have joined */
        hd_text_add(text, r->op.start ? "undecided" : "nothing to do");
        return;
    }
    if (r->op.call.device) {
        hd_device_phases(&plan, &phases);
    }
    hd_phases_print(&phases, text);
}

void hd_request_log(const hd_request_t *r, const ucc_coll_args_t *args) {
    static const char *const order[] = {
        [HD_ROUTE_NOTHING] = "over at once",  [HD_ROUTE_NUMBER] = "numbered",
        [HD_ROUTE_TAG] = "matched by tag",    [HD_ROUTE_INIT] = "matched by init order",
        [HD_ROUTE_PERSISTENT] = "persistent", [HD_ROUTE_ACTIVE_SET] = "active set",
    };
    const hd_op_t *op = &r->op;
    if (hd_trace_level() < (args ? HD_LOG_INFO : HD_LOG_DEBUG)) {
        return; /* the flag is set for another reason: see hd_trace_attend */
    }
    const char *level_name = hd_config_string(op->team->lib->config, HD_CFG_LIB_COLL_TRACE);
    int level = args ? HD_LOG_INFO : HD_LOG_DEBUG, wanted = hd_log_level_parse(level_name);
    if (wanted < level || (r->op.me != 0 && wanted < HD_LOG_TRACE)) {
        return;
    }
    hd_text_t plan = {0};
    print_plan(r, &plan);
    hd_trace_call_t call = {.event = args ? "init" : "post",
                            .name = hd_op_type_name(op),
                            .ep = op->team_ep,
                            .n = r->op.n,
                            .root = hd_coll[op->call.type].rooted ? op->call.root : UINT32_MAX,
                            .bytes = op->call.bytes ? op->call.bytes : op->call.total,
                            .plan = plan.line,
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
