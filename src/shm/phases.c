/* phases.c: an operation's phases, from its plan and its outer stage, and how they are printed
 * (phases.h). Pure; any thread that may read the operation.
 */
#include "shm/outer.h"
#include "shm/phases.h"
#include "threads/trace.h"

static void add_arrival(const hd_plan_t *plan, hd_phases_t *phases) {
    static const char *const arrival[] = {"flat", "by counter", "static", "butterfly"};
    _Static_assert(HD_ARRIVAL_COUNTER == 1 && HD_ARRIVAL_BUTTERFLY + 1 == 4,
                   "names stand in the order of hd_arrival_t");
    hd_phases_add(phases,
                  (hd_phase_t){.kind = HD_PHASE_ARRIVE, .algorithm = arrival[plan->arrival]});
}

/* Of members that are apart, whether all reach all buffers is known when they have arrived. */
static bool is_open(const hd_op_t *op, const hd_plan_t *plan) {
    return plan->path == HD_PATH_FAR && (plan != &op->plan || op->phase != HD_PHASE_LOCAL);
}

static void add_local(const hd_op_t *op, const hd_plan_t *plan, hd_phases_t *phases) {
    bool open = is_open(op, plan);
    bool cut = plan->regime == HD_REGIME_DIRECT && plan->window > 0 && !open;
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_LOCAL,
                                       .algorithm = open ? "near or far" : hd_plan_name(plan),
                                       .unit = cut ? plan->window : 0,
                                       .stores = hd_stores_name(plan->stores)});
}

hd_phases_t hd_op_phases(const hd_op_t *op, const hd_plan_t *plan) {
    hd_phases_t phases = {0};
    if (plan->path == HD_PATH_NOTHING || !hd_group_is_complete(op->group)) {
        return phases;
    }
    if (op->place.n > 1 || !op->outer) {
        add_arrival(plan, &phases);
        add_local(op, plan, &phases);
    }
    if (op->outer) {
        op->outer->phases(op, plan, &phases);
    }
    return phases;
}

static void print_network(const hd_phase_t *p, hd_text_t *text) {
    if (p->segments > 1) {
        hd_text_add(text, "%u segments of %zu bytes, each ", p->segments, p->segment);
    }
    if (p->type) {
        hd_text_add(text, "%s among %u processes by %s", p->type, p->processes, p->algorithm);
    } else {
        hd_text_add(text, "%s among %u processes", p->algorithm, p->processes);
    }
    if (p->radix) {
        hd_text_add(text, "/%u", p->radix);
    }
}

/* What the endpoints of a process do, and how they know of each other: the second is said last. */
static void print_local(const hd_phase_t *p, const hd_phase_t *arrive, hd_text_t *text) {
    hd_text_add(text, "%s", p->algorithm);
    if (p->unit) {
        hd_text_add(text, " in windows of %zu bytes by %s stores", p->unit, p->stores);
    }
    hd_text_add(text, ", arrival %s", arrive->algorithm);
}

void hd_phases_print(const hd_phases_t *phases, hd_text_t *text) {
    const hd_phase_t *arrive = NULL;
    for (uint32_t i = 0; i < phases->n; i++) {
        const hd_phase_t *p = &phases->phase[i];
        hd_text_add(text, "%s", i > 0 && p[-1].kind != HD_PHASE_ARRIVE ? ", " : "");
        switch ((hd_phase_kind_t)p->kind) {
        case HD_PHASE_ARRIVE:
            arrive = p;
            break;
        case HD_PHASE_LOCAL:
            print_local(p, arrive, text);
            break;
        case HD_PHASE_NETWORK:
            print_network(p, text);
            break;
        case HD_PHASE_COPY_IN:
        case HD_PHASE_COPY_OUT:
            hd_text_add(text, "%s", p->algorithm);
            break;
        case HD_PHASE_MATCH:
        case HD_PHASE_KINDS:
            break;
        }
    }
}

const char *hd_op_plan_to_trace(const hd_op_t *op) {
    hd_text_t text = {0};
    hd_phases_t phases = hd_op_phases(op, &op->plan);
    hd_phases_print(&phases, &text);
    return hd_trace_keep(text.line);
}

__attribute__((noinline, cold)) void hd_op_trace_decided(const hd_op_t *op) {
    if (hd_trace_records()) {
        hd_trace_decided(op, hd_op_plan_to_trace(op));
    }
}
