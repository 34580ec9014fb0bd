/* graph.c: graphs, and how they run.
 *
 * An executable graph has its nodes in lanes, which are streams of its own: a node goes behind one
 * that it depends on, or behind one that comes before it anyway. Edges between lanes are records
 * and waits. So branches run, and are checked for races, as streams do. Launches of the same graph
 * follow each other.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* Graphs ------------------------------------------------------------------------------------------
 */

CUgraph emu_graph_new(void) {
    return emu_object_new(EMU_GRAPH, sizeof(struct CUgraph_st));
}

CUgraphNode emu_graph_add(CUgraph graph, emu_op_t *op, CUcontext context,
                          const CUgraphNode *dependency, size_t dependencies) {
    CUgraphNode node = emu_object_new(EMU_NODE, sizeof(*node));
    node->graph = graph;
    node->index = graph->nodes;
    node->op = op;
    node->context = context;
    node->dependency = emu_alloc(dependencies, sizeof(*node->dependency));
    if (dependencies > 0) {
        memcpy(node->dependency, dependency, dependencies * sizeof(*node->dependency));
    }
    node->dependencies = dependencies;
    graph->node =
        emu_grow(graph->node, &graph->capacity, (uint32_t)graph->nodes + 1, sizeof(*graph->node));
    graph->node[graph->nodes++] = node;
    return node;
}

void emu_graph_free(CUgraph graph) {
    for (size_t i = 0; i < graph->nodes; i++) {
        emu_op_free(graph->node[i]->op);
        free(graph->node[i]->dependency);
        emu_object_kill(graph->node[i]);
    }
    emu_held_drop(graph->held, graph->held_count);
    free(graph->held);
    free(graph->node);
    emu_object_kill(graph);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!graph || flags != 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *graph = emu_graph_new();
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphDestroy(CUgraph graph) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(graph, EMU_GRAPH) || graph->captured) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu_graph_free(graph);
    return emu_leave(planted);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(graph, EMU_GRAPH) || !count) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = i < graph->nodes ? graph->node[i] : NULL;
    }
    *count = !nodes || graph->nodes < *count ? graph->nodes : *count;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    static const CUgraphNodeType types[] = {[EMU_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
                                            [EMU_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
                                            [EMU_OP_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
                                            [EMU_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                            [EMU_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                                            [EMU_OP_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                            [EMU_OP_WAIT_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                            [EMU_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
                                            [EMU_OP_NOTHING] = CU_GRAPH_NODE_TYPE_EMPTY};
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(node, EMU_NODE) || !type) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *type = types[node->op->kind];
    return emu_leave(CUDA_SUCCESS);
}

/* Lanes -------------------------------------------------------------------------------------------
 */

typedef struct plan {
    CUgraphExec exec;
    uint64_t *before; /* bit j of row i: step j comes before step i */
    size_t words;     /* of a row */
    size_t *tail;     /* of each lane: its last step */
} plan_t;

static bool comes_before(const plan_t *plan, size_t j, size_t i) {
    return (plan->before[i * plan->words + j / 64] >> j % 64 & 1) != 0;
}

static void note_before(plan_t *plan, size_t i) {
    const emu_step_t *step = &plan->exec->step[i];
    uint64_t *row = &plan->before[i * plan->words];
    for (size_t d = 0; d < step->depends; d++) {
        size_t j = step->depend[d];
        for (size_t w = 0; w < plan->words; w++) {
            row[w] |= plan->before[j * plan->words + w];
        }
        row[j / 64] |= (uint64_t)1 << j % 64;
    }
}

/* A lane of the step's context whose last step comes before it, else a new one. */
static void choose_lane(plan_t *plan, size_t i) {
    CUgraphExec exec = plan->exec;
    emu_step_t *step = &exec->step[i];
    uint32_t lane = 0;
    while (lane < exec->lanes && !(exec->lane[lane]->context == step->context &&
                                   comes_before(plan, plan->tail[lane], i))) {
        lane++;
    }
    if (lane == exec->lanes) {
        exec->lane[exec->lanes++] = emu_stream_new(step->context, CU_STREAM_NON_BLOCKING, true);
        step->first = true;
    }
    step->lane = lane;
    plan->tail[lane] = i;
}

static void copy_node(emu_step_t *step, const struct CUgraphNode_st *node) {
    step->op = emu_op_copy(node->op);
    step->context = node->context;
    step->last = true;
    step->depends = node->dependencies;
    step->depend = emu_alloc(node->dependencies, sizeof(*step->depend));
    for (size_t d = 0; d < node->dependencies; d++) {
        step->depend[d] = node->dependency[d]->index;
    }
}

static void plan_lanes(CUgraphExec exec, CUgraph graph) {
    plan_t plan = {.exec = exec, .words = graph->nodes / 64 + 1};
    plan.before = emu_alloc(graph->nodes * plan.words, sizeof(*plan.before));
    plan.tail = emu_alloc(graph->nodes, sizeof(*plan.tail));
    for (size_t i = 0; i < graph->nodes; i++) {
        copy_node(&exec->step[i], graph->node[i]);
        note_before(&plan, i);
        choose_lane(&plan, i);
    }
    for (size_t i = 0; i < exec->steps; i++) {
        const emu_step_t *step = &exec->step[i];
        for (size_t d = 0; d < step->depends; d++) {
            emu_step_t *before = &exec->step[step->depend[d]];
            before->last = false;
            before->recorded = before->recorded || before->lane != step->lane;
        }
    }
    free(plan.before);
    free(plan.tail);
}

static void hold_all(CUgraphExec exec, CUgraph graph) {
    exec->held = emu_alloc(graph->held_count, sizeof(*exec->held));
    exec->held_count = graph->held_count;
    for (size_t i = 0; i < graph->held_count; i++) {
        exec->held[i] = (emu_held_t){.object = graph->held[i].object, .count = 1};
        graph->held[i].object->references++;
    }
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!exec || !emu_object_is(graph, EMU_GRAPH) || graph->captured || flags > 15) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *exec = emu_object_new(EMU_EXEC, sizeof(**exec));
    (*exec)->context = context;
    (*exec)->steps = graph->nodes;
    (*exec)->step = emu_alloc(graph->nodes, sizeof(emu_step_t));
    (*exec)->lane = emu_alloc(graph->nodes, sizeof(CUstream));
    plan_lanes(*exec, graph);
    hold_all(*exec, graph);
    return emu_leave(CUDA_SUCCESS);
}

/* Launches ----------------------------------------------------------------------------------------
 */

/* An event's recording, or a wait for one, at this launch. */
static bool bind_event(emu_op_t *op) {
    CUevent event = op->event;
    if (!event || !emu_object_is(event, EMU_EVENT)) {
        return !event;
    }
    if (op->kind == EMU_OP_RECORD) {
        op->record = emu_record_new();
        emu_record_hold(op->record);
        if (event->record) {
            emu_record_drop(event->record);
        }
        emu_event_uncapture(event);
        event->record = op->record;
        return true;
    }
    op->record = event->record;
    if (op->record) {
        emu_record_hold(op->record);
    }
    return op->record != NULL;
}

static void launch_step(CUgraphExec exec, emu_step_t *step, CUstream from, emu_record_t **record) {
    CUstream lane = exec->lane[step->lane];
    if (step->first) {
        emu_stream_follow(lane, from);
    }
    for (size_t d = 0; d < step->depends; d++) {
        if (exec->step[step->depend[d]].lane != step->lane) {
            emu_stream_wait(lane, record[step->depend[d]]);
        }
    }
    emu_op_t *op = emu_op_copy(step->op);
    if (!bind_event(op)) {
        op->kind = EMU_OP_NOTHING;
    }
    op->exec = exec;
    exec->running++;
    emu_stream_push(lane, op);
    if (step->recorded) {
        record[step - exec->step] = emu_stream_tail(lane);
    }
}

static bool functions_live(CUgraphExec exec) {
    for (size_t i = 0; i < exec->steps; i++) {
        const emu_op_t *op = exec->step[i].op;
        if (op->kind == EMU_OP_KERNEL && !emu_object_is(op->kernel.function, EMU_FUNCTION)) {
            return false;
        }
    }
    return true;
}

static CUresult launch(CUgraphExec exec, CUstream stream) {
    CUresult status = functions_live(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (status == CUDA_SUCCESS && exec->previous) {
        status = emu_stream_after(stream, exec->previous);
    }
    if (status == CUDA_SUCCESS) {
        status = emu_enqueue(stream, emu_op_new(EMU_OP_NOTHING, "a graph's launch"));
    }
    if (status != CUDA_SUCCESS) {
        return status;
    }
    emu_record_t **record = emu_alloc(exec->steps, sizeof(emu_record_t *));
    for (size_t i = 0; i < exec->steps; i++) {
        launch_step(exec, &exec->step[i], stream, record);
    }
    for (uint32_t i = 0; i < exec->lanes; i++) {
        emu_stream_follow(stream, exec->lane[i]);
    }
    for (size_t i = 0; i < exec->steps; i++) {
        if (record[i]) {
            emu_record_drop(record[i]);
        }
    }
    free(record);
    if (exec->previous) {
        emu_record_drop(exec->previous);
    }
    exec->previous = emu_stream_tail(stream);
    return CUDA_SUCCESS;
}

static CUresult enter_launch(CUgraphExec exec, CUstream handle, CUstream *stream) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS) {
        status = emu_stream(handle, context, stream);
        if (status == CUDA_SUCCESS && (!emu_object_is(exec, EMU_EXEC) || exec->destroyed)) {
            status = CUDA_ERROR_INVALID_VALUE;
        }
        if (status != CUDA_SUCCESS) {
            emu_leave(status);
        }
    }
    return status;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    CUstream stream;
    CUresult status = enter_launch(exec, handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (stream->capture) {
        emu_capture_invalidate(stream->capture);
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED); /* graphs in graphs */
    }
    status = stream->legacy ? emu_capture_legacy(stream->context) : CUDA_SUCCESS;
    return emu_leave(status == CUDA_SUCCESS ? launch(exec, stream) : status);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
    CUstream stream;
    CUresult status = enter_launch(exec, handle, &stream);
    return status == CUDA_SUCCESS ? emu_leave(CUDA_SUCCESS) : status;
}

/* The end -----------------------------------------------------------------------------------------
 */

void emu_exec_free(CUgraphExec exec) {
    for (size_t i = 0; i < exec->steps; i++) {
        emu_op_free(exec->step[i].op);
        free(exec->step[i].depend);
    }
    if (exec->previous) {
        emu_record_drop(exec->previous);
    }
    emu_held_drop(exec->held, exec->held_count);
    free(exec->held);
    free(exec->step);
    free(exec->lane);
    emu_object_kill(exec);
}

/* An operation of a launch is over. */
void emu_exec_drop(CUgraphExec exec) {
    exec->running--;
    if (exec->destroyed && exec->running == 0) {
        emu_exec_free(exec);
    }
}

void emu_exec_destroy(CUgraphExec exec) {
    exec->destroyed = true;
    for (uint32_t i = 0; i < exec->lanes; i++) {
        exec->lane[i]->destroyed = true;
        if (exec->lane[i]->pending == 0) {
            emu_stream_gone(exec->lane[i]);
        }
    }
    if (exec->running == 0) {
        emu_exec_free(exec);
    }
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(exec, EMU_EXEC) || exec->destroyed) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu_exec_destroy(exec);
    return emu_leave(planted);
}
