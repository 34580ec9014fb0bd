/* waiting.c: testing and waiting, for one request and for several, which may belong to several
 * contexts.
 *
 * A caller that hands over a request vouches for its context: the requests of one call are driven
 * by one thread at a time, so all their contexts may be progressed here, without a lock.
 */
#include "api/api.h"
#include "threads/callback.h"

enum { NAP_US = 100, MAX_CONTEXTS = 64 };

/* --- one request ------------------------------------------------------------------------------ */

/* A handle's operations are spread over its contexts, and one may wait for another in a second
 * context: all are progressed. Sleeps are short naps, since no bell rings for several contexts. */
static ucc_status_t wait_over_contexts(hd_request_t *r, double timeout) {
    ucc_team_h team = r->op.team;
    uint64_t began = hd_ticks(), vain = 0;
    uint64_t may_spin = team->lib->park_after_us * hd_ticks_per_us;
    for (;;) {
        for (uint32_t i = 0; i < team->n_contexts; i++) {
            if (hd_runner_progress(&team->contexts[i]->runner, &vain)) {
                vain = 0;
            }
        }
        ucc_status_t status = hd_task_status(&r->op.task);
        if (status != UCC_INPROGRESS) {
            return hd_api_seen(r);
        }
        if (hd_callback_refuses("heddle_wait")) {
            return UCC_ERR_INVALID_PARAM;
        }
        double passed = hd_ticks_to_seconds(hd_ticks() - began);
        if (timeout >= 0 && passed >= timeout) {
            return UCC_INPROGRESS;
        }
        if (team->lib->may_park && vain >= may_spin) {
            _Atomic uint32_t word = 0;
            hd_park_sleep(&word, 0, NAP_US * 1000u);
        }
    }
}

/* Waits in the request's own context, and now and then looks after the group's others: one thread
 * may drive endpoints on several, and what is awaited may depend on them. Seldom, as a rule other
 * threads do that, and more so where none has joined twice; at once again where there was something
 * to do. */
static ucc_status_t wait_and_help(hd_request_t *r, double timeout) {
    static const double SHORTEST = 50e-6, ALONE = 2e-3, LONGEST = 20e-3;
    heddle_group_t *helped = r->op.team->helped;
    hd_context_t *context = r->op.task.context;
    uint64_t began = hd_ticks();
    for (double slice = hd_api_group_is_shared(helped) ? SHORTEST : ALONE;;) {
        double passed = hd_ticks_to_seconds(hd_ticks() - began);
        bool last = timeout >= 0 && timeout - passed <= slice;
        double left = timeout > passed ? timeout - passed : 0;
        ucc_status_t status = hd_runner_wait(&context->runner, &r->op.task, last ? left : slice,
                                             context->lib->may_park, context->lib->park_after_us);
        if (status != UCC_INPROGRESS) {
            return status;
        }
        bool any = hd_api_progress_group(helped);
        if (last) {
            return hd_task_status(&r->op.task) == UCC_INPROGRESS ? UCC_INPROGRESS : hd_api_seen(r);
        }
        slice = any ? 0 : slice < SHORTEST ? SHORTEST : slice < LONGEST / 2 ? 2 * slice : LONGEST;
    }
}

ucc_status_t heddle_wait(ucc_coll_req_h request, double timeout) {
    hd_request_t *r = hd_api_request(request, __func__);
    if (!r) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_task_status(&r->op.task);
    if (status == UCC_OPERATION_INITIALIZED) {
        hd_error("%s: the request was never posted", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    if (status != UCC_INPROGRESS) {
        return hd_api_seen(r);
    }
    if (r->op.team->n_contexts > 1) {
        return wait_over_contexts(r, timeout);
    }
    if (r->op.team->helped && timeout != 0) { /* a test costs no round over the whole group */
        return wait_and_help(r, timeout);
    }
    hd_context_t *context = r->op.task.context;
    return hd_runner_wait(&context->runner, &r->op.task, timeout, context->lib->may_park,
                          context->lib->park_after_us);
}

/* --- several requests ------------------------------------------------------------------------- */

/* The contexts that one call progresses, each once per round as long as there is room to remember
 * them. */
typedef struct rounds {
    const ucc_coll_req_h *request;
    size_t n, first; /* those before `first` are over */
    uint32_t n_contexts;
    bool many; /* more than fit */
    ucc_context_h context[MAX_CONTEXTS];
    uint64_t began, vain, may_spin, limit;
    bool may_park;
} rounds_t;

static hd_request_t *request_at(const rounds_t *w, size_t i) {
    return (hd_request_t *)(void *)w->request[i];
}

static void remember(rounds_t *w, ucc_context_h context) {
    for (uint32_t i = 0; i < w->n_contexts; i++) {
        if (w->context[i] == context) {
            return;
        }
    }
    if (w->n_contexts == MAX_CONTEXTS) {
        w->many = true;
        return;
    }
    w->context[w->n_contexts++] = context;
}

static ucc_status_t check(const rounds_t *w, const char *caller) {
    for (size_t i = 0; i < w->n; i++) {
        if (!w->request[i]) {
            continue;
        }
        const hd_request_t *r = hd_api_request(w->request[i], caller);
        if (!r) {
            return UCC_ERR_INVALID_PARAM;
        }
        if (hd_task_status(&r->op.task) == UCC_OPERATION_INITIALIZED) {
            hd_error("%s: request %zu was never posted", caller, i);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

static void begin(rounds_t *w, double timeout) {
    w->began = hd_ticks();
    w->limit = UINT64_MAX;
    if (timeout >= 0 && timeout < 1e9) {
        w->limit = hd_seconds_to_ticks(timeout);
    }
    for (size_t i = 0; i < w->n; i++) {
        const hd_request_t *r = request_at(w, i);
        if (!r || hd_task_status(&r->op.task) != UCC_INPROGRESS) {
            continue;
        }
        ucc_team_h team = r->op.team;
        for (uint32_t c = 0; c < team->n_contexts; c++) {
            remember(w, team->contexts[c]);
        }
        w->may_park = team->lib->may_park;
        w->may_spin = team->lib->park_after_us * hd_ticks_per_us;
    }
}

static void progress(rounds_t *w, ucc_context_h context) {
    if (hd_runner_progress(&context->runner, &w->vain)) {
        w->vain = 0;
    }
}

/* What a request awaits may depend on endpoints of its group on other contexts: one round over the
 * groups of those in progress. Requests of one group are neighbours as a rule, so one group is
 * remembered. */
static bool progress_helped(const rounds_t *w) {
    const heddle_group_t *last = NULL;
    bool any = false;
    for (size_t i = w->first; i < w->n; i++) {
        const hd_request_t *r = request_at(w, i);
        if (!r || hd_task_status(&r->op.task) != UCC_INPROGRESS) {
            continue;
        }
        heddle_group_t *helped = r->op.team->helped;
        if (helped && helped != last) {
            any |= hd_api_progress_group(helped);
            last = helped;
        }
    }
    return any;
}

/* One round; a nap if there was nothing to do for long. */
static void round_of(rounds_t *w) {
    for (uint32_t i = 0; i < w->n_contexts; i++) {
        progress(w, w->context[i]);
    }
    for (size_t i = w->first; w->many && i < w->n; i++) {
        const hd_request_t *r = request_at(w, i);
        if (r && hd_task_status(&r->op.task) == UCC_INPROGRESS) {
            progress(w, r->op.task.context);
        }
    }
    if (w->vain < w->may_spin) {
        return;
    }
    if (w->limit == 0) { /* the call only looks, and it has */
        if (w->vain >= HD_IDLE_SLEEP) {
            hd_give_way();
        }
    } else if (progress_helped(w)) {
        w->vain = 0;
    } else if (w->may_park) {
        _Atomic uint32_t word = 0; /* no bell rings for several contexts */
        hd_park_sleep(&word, 0, NAP_US * 1000u);
    }
}

static bool is_late(const rounds_t *w) {
    return w->limit != UINT64_MAX && hd_ticks() - w->began >= w->limit;
}

/* *at: the first at or behind it that is over; n: none. Says whether any is in progress. */
static bool find_over(const rounds_t *w, size_t *at) {
    bool waiting = false;
    for (; *at < w->n; ++*at) {
        const hd_request_t *r = request_at(w, *at);
        if (r && hd_task_status(&r->op.task) != UCC_INPROGRESS) {
            break;
        }
        waiting |= r != NULL;
    }
    return waiting;
}

/* Is every request over? */
static bool all_over(rounds_t *w) {
    for (; w->first < w->n; w->first++) {
        const hd_request_t *r = request_at(w, w->first);
        if (r && hd_task_status(&r->op.task) == UCC_INPROGRESS) {
            return false;
        }
    }
    return true;
}

static ucc_status_t first_failure(const rounds_t *w) {
    ucc_status_t status = UCC_OK;
    for (size_t i = 0; i < w->n; i++) {
        const hd_request_t *r = request_at(w, i);
        ucc_status_t one = r ? hd_api_seen(r) : UCC_OK;
        status = status == UCC_OK ? one : status;
    }
    return status;
}

ucc_status_t heddle_wait_all(const ucc_coll_req_h *requests, size_t n, double timeout) {
    rounds_t w = {.request = requests, .n = n};
    if (n && !hd_api_pointer(requests, "requests", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = check(&w, __func__);
    if (status != UCC_OK) {
        return status;
    }
    begin(&w, timeout);
    while (!all_over(&w)) {
        if (w.n_contexts == 1 && w.limit == UINT64_MAX) { /* it can sleep until something rings */
            heddle_wait(requests[w.first], timeout);
        } else {
            round_of(&w);
        }
        if (!all_over(&w)) {
            if (hd_callback_refuses(__func__)) {
                return UCC_ERR_INVALID_PARAM;
            }
            if (is_late(&w)) {
                return UCC_INPROGRESS;
            }
        }
    }
    return first_failure(&w);
}

ucc_status_t heddle_wait_any(const ucc_coll_req_h *requests, size_t n, size_t *index,
                             double timeout) {
    rounds_t w = {.request = requests, .n = n};
    if ((n && !hd_api_pointer(requests, "requests", __func__)) ||
        !hd_api_pointer(index, "index", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *index = n;
    ucc_status_t status = check(&w, __func__);
    if (status != UCC_OK) {
        return status;
    }
    begin(&w, timeout);
    for (bool looked = false, late = false;;) {
        size_t at = 0;
        bool waiting = find_over(&w, &at);
        if (at < n || !waiting) {
            *index = at;
            return at < n ? hd_api_seen(request_at(&w, at)) : UCC_OK;
        }
        if (looked && hd_callback_refuses(__func__)) {
            return UCC_ERR_INVALID_PARAM;
        }
        if (late) {
            return UCC_INPROGRESS;
        }
        round_of(&w);
        looked = true;
        late = is_late(&w);
    }
}

ucc_status_t heddle_test(ucc_coll_req_h request) {
    const hd_request_t *r = hd_api_request(request, __func__);
    if (!r) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_task_status(&r->op.task) == UCC_OPERATION_INITIALIZED) {
        hd_error("%s: the request was never posted", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return heddle_wait(request, 0);
}

ucc_status_t heddle_request_free(ucc_coll_req_h *request) {
    if (!hd_api_pointer(request, "request", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (!*request) {
        return UCC_OK;
    }
    hd_request_t *r = hd_api_request(*request, __func__);
    ucc_status_t status = r ? hd_request_finalize(r) : UCC_ERR_INVALID_PARAM;
    if (status == UCC_OK) {
        *request = NULL;
    }
    return status;
}

ucc_status_t heddle_progress(heddle_ep_t *ep) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_runner_poll(&ep->context->runner);
}
