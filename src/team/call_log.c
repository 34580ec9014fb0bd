/* call_log.c: what COLL_TRACE logs: a line per collective, at init and at post. Off, it costs one load of
 * a flag in each caller.
 */
#include "team/args.h"
#include "threads/trace.h"

/* How a member with data will publish it, as far as one member can tell. */
static const char *expected_regime(const hd_op_t *op, bool flat) {
    size_t bytes = op->call.total;
    bool windowed = false;
    if (!hd_coll[op->call.type].moves_data) {
        return "no data";
    }
    switch (op->call.type) {
    case HD_SCATTER:
    case HD_ALLTOALL:
        bytes = op->call.bytes * op->place.n;
        break;
    case HD_REDUCE:
    case HD_ALLREDUCE:
        windowed = true;
        bytes = op->call.bytes;
        break;
    case HD_SCATTERV:
    case HD_ALLTOALLV: /* a table of offsets comes first */
        bytes += (op->place.n + 1) * sizeof(uint32_t);
        bool staged = !op->group->two_sided && bytes <= op->group->staged_max;
        return hd_regime_name(staged ? HD_REGIME_STAGED : HD_REGIME_DIRECT);
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        break;
    case HD_SCAN:
    case HD_EXSCAN:
        return hd_regime_name(hd_scan_regime(op->group, op->call.type, op->place.n, op->call.bytes,
                                             op->call.exclusive));
    default:
        bytes = op->call.bytes;
    }
    hd_regime_t regime = hd_regime_for(op->group, op->call.type, op->place.n, bytes);
    if (hd_coll[op->call.type].reducing &&
        (op->call.exclusive || (!flat && (!windowed || regime != HD_REGIME_INLINE)))) {
        regime = HD_REGIME_DIRECT;
    }
    return op->start == hd_put_start ? "put" : hd_regime_name(regime);
}

static const char *expected_arrival(const hd_op_t *op, bool flat) {
    if (flat || !hd_group_is_complete(op->group)) { /* the last to join decides who combines */
        return flat ? "flat" : "by tree";
    }
    return op->group->static_arrival ? "static" : "by counter";
}

/* args: at init; NULL at post, when they may be gone. */
void hd_request_log(const hd_request_t *r, const ucc_coll_args_t *args) {
    static const char *const order[] = {"over at once",          "numbered",   "matched by tag",
                                        "matched by init order", "persistent", "active set"};
    _Static_assert(HD_ROUTE_NOTHING == 0 && HD_ROUTE_NUMBER == 1 && HD_ROUTE_TAG == 2 &&
                       HD_ROUTE_INIT == 3 && HD_ROUTE_PERSISTENT == 4 && HD_ROUTE_ACTIVE_SET == 5,
                   "names stand in the order of hd_route");
    const hd_op_t *op = &r->op;
    if (hd_trace_level() < (args ? HD_LOG_INFO : HD_LOG_DEBUG)) {
        return; /* called for another reason: see hd_trace_attend */
    }
    const char *level_name = hd_config_string(op->team->lib->config, HD_CFG_LIB_COLL_TRACE);
    int level = args ? HD_LOG_INFO : HD_LOG_DEBUG, wanted = hd_log_level_parse(level_name);
    if (wanted < level || (op->place.me != 0 && wanted < HD_LOG_TRACE)) {
        return;
    }
    bool whole = op->place.n == op->group->n && hd_group_is_complete(op->group);
    bool flat = whole ? !op->group->canonical : op->place.n <= op->group->flat_max;
    hd_trace_call_t call = {.event = args ? "init" : "post",
                            .name = hd_op_type_name(op),
                            .ep = op->team_ep,
                            .n = op->place.n,
                            .root = hd_coll[op->call.type].rooted ? op->call.root : UINT32_MAX,
                            .bytes = op->call.bytes ? op->call.bytes : op->call.total,
                            .regime = op->start ? expected_regime(op, flat) : "nothing to do",
                            .arrival = expected_arrival(op, flat),
                            .order = r->run ? "by an algorithm of the user's" : order[r->route]};
    if (args && args->mask & UCC_COLL_ARGS_FIELD_FLAGS) {
        call.flags = args->flags;
    }
    if (args && op->start && hd_coll[op->call.type].moves_data) {
        call.datatype = hd_dt_name(hd_args_datatype(op, args));
        call.op = !hd_coll[op->call.type].reducing ? NULL
                  : op->call.reducer.user          ? "user's"
                                                   : hd_op_name(args->op);
    }
    hd_trace_log_call(level, &call);
}
