/* calls.c: one call on all endpoints of a worker, with the interface that was asked for. */
#include "device.h"
#include "run.h"

void perf_next_turn(perf_worker_t *w) {
    const perf_options_t *o = w->run->options;
    const perf_case_t *c = &w->run->now;
    bool changes = o->alternate && perf_is_rooted(w->run);
    if (!changes && c->sets == 1) {
        return;
    }
    uint64_t turn = w->turns++;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        if (c->sets > 1) {
            perf_set_choose(c, e, turn % c->sets);
        }
        if (changes) {
            perf_root_set(c, e, (uint32_t)(turn % o->endpoints));
        }
    }
}

/* What an unmodified UCC program does: test, and progress while it is not complete. */
static void complete(perf_worker_t *w, ucc_coll_req_h request, ucc_context_h context) {
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    perf_require(status, w->run->now.coll->name);
}

void perf_start(perf_worker_t *w) {
    bool persistent = w->run->options->persistent;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        if (!persistent) {
            perf_require(ucc_collective_init(&e->args, &e->request, e->team),
                         "ucc_collective_init");
        }
        perf_require(ucc_collective_post(e->request), "ucc_collective_post");
    }
}

void perf_finish(perf_worker_t *w) {
    bool persistent = w->run->options->persistent;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        complete(w, e->request, e->context);
        if (!persistent) {
            perf_require(ucc_collective_finalize(e->request), "ucc_collective_finalize");
        }
    }
}

void perf_call(perf_worker_t *w) {
    if (w->run->options->stream) {
        perf_endpoint_t *e = &w->endpoints[0];
        perf_require(heddle_collective_on(&e->args, e->team, e->stream), w->run->now.coll->name);
        return;
    }
    if (w->run->options->api == PERF_API_UCC) {
        perf_start(w);
        perf_finish(w);
    } else {
        perf_require(perf_call_blocking(&w->run->now, &w->endpoints[0]), w->run->now.coll->name);
    }
}

void perf_settle(perf_worker_t *w) {
    if (w->run->options->stream) {
        perf_device_stream_await(w->endpoints[0].index, w->endpoints[0].stream);
    }
}

void perf_align(perf_worker_t *w) {
    if (w->run->options->api == PERF_API_HEDDLE) {
        perf_require(heddle_barrier(w->endpoints[0].handle), "heddle_barrier");
        return;
    }
    ucc_coll_args_t args;
    args.mask = 0;
    args.coll_type = UCC_COLL_TYPE_BARRIER;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        perf_require(ucc_collective_init(&args, &e->align, e->team), "ucc_collective_init");
        perf_require(ucc_collective_post(e->align), "ucc_collective_post");
    }
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        perf_endpoint_t *e = &w->endpoints[i];
        complete(w, e->align, e->context);
        perf_require(ucc_collective_finalize(e->align), "ucc_collective_finalize");
    }
}
