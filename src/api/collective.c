/* collective.c: init, post, finalize, and waiting: the hot path's entry. */
#include "api/api.h"
#include "threads/callback.h"

/* Kept out of the way of ordinary requests. */
static __attribute__((noinline, cold)) hd_request_t *hooked(hd_request_t *r, const char *caller) {
    if (r && r->op.task.magic == HD_TASK_HOOKED) {
        if (hd_task_status(&r->op.task) != UCC_INPROGRESS) {
            hd_request_unhook(r);
        }
        return r;
    }
    hd_error("%s: not a live request", caller);
    return NULL;
}

hd_request_t *hd_api_request(ucc_coll_req_h request, const char *caller) {
    hd_request_t *r = (hd_request_t *)(void *)request;
    return __builtin_expect(r && r->op.task.magic == HD_TASK_LIVE, 1) ? r : hooked(r, caller);
}

static ucc_status_t init(ucc_coll_args_t *args, const uint64_t *tag, ucc_coll_req_h *request,
                         ucc_team_h team, const char *caller) {
    if (!hd_api_active_team(team, caller) || !hd_api_pointer(args, "coll_args", caller) ||
        !hd_api_pointer(request, "request", caller)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_request_t *r = NULL;
    ucc_status_t status = hd_request_init(team, args, tag, &r);
    if (status == UCC_OK) {
        *request = &r->op.task.req;
    }
    return status;
}

ucc_status_t ucc_collective_init(ucc_coll_args_t *coll_args, ucc_coll_req_h *request,
                                 ucc_team_h team) {
    return init(coll_args, NULL, request, team, __func__);
}

ucc_status_t heddle_collective_init_tagged(ucc_coll_args_t *args, uint64_t tag,
                                           ucc_coll_req_h *request, ucc_team_h team) {
    return init(args, &tag, request, team, __func__);
}

ucc_status_t ucc_collective_post(ucc_coll_req_h request) {
    hd_request_t *r = hd_api_request(request, __func__);
    return r ? hd_request_post(r) : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_collective_init_and_post(ucc_coll_args_t *coll_args, ucc_coll_req_h *request,
                                          ucc_team_h team) {
    ucc_status_t status = init(coll_args, NULL, request, team, __func__);
    return status == UCC_OK ? ucc_collective_post(*request) : status;
}

ucc_status_t ucc_collective_finalize(ucc_coll_req_h request) {
    hd_request_t *r = hd_api_request(request, __func__);
    return r ? hd_request_finalize(r) : UCC_ERR_INVALID_PARAM;
}

__attribute__((noinline, cold)) void hd_api_remember_failure(ucc_team_h team, ucc_status_t status) {
    int32_t none = UCC_OK;
    if (!team || team->magic != HD_TEAM_MAGIC) { /* that is what failed */
        return;
    }
    /* relaxed: read by the endpoint's own thread, or by one that has joined it */
    atomic_compare_exchange_strong_explicit(&team->unnoticed, &none, (int32_t)status,
                                            memory_order_relaxed, memory_order_relaxed);
}

ucc_status_t hd_api_start(ucc_coll_args_t *args, ucc_team_h team, ucc_coll_req_h *request,
                          const char *caller) {
    ucc_status_t status = init(args, NULL, request, team, caller);
    if (status != UCC_OK) {
        if (request) {
            *request = NULL;
        }
        hd_api_remember_failure(team, status);
        return status;
    }
    hd_request_t *r = (hd_request_t *)(void *)*request;
    status = hd_request_post(r);
    if (status != UCC_OK) { /* over already, with this status */
        hd_api_remember_failure(team, status);
        hd_request_finalize(r);
        *request = NULL;
    }
    return status;
}

/* A handle's operations are spread over its contexts, and one may wait for another in a second
 * context: all are progressed. Sleeps are short naps, since no bell rings for several contexts. */
static ucc_status_t wait_over_contexts(hd_request_t *r, double timeout) {
    enum { NAP_US = 100 };
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

/* Waits in the request's own context, and now and then looks after the group's others: one thread may drive
 * endpoints on several, and what is awaited may depend on them. Seldom, as a rule other threads do that, and
 * more so where none has joined twice; at once again where there was something to do. */
static ucc_status_t wait_with_kin(hd_request_t *r, double timeout) {
    static const double SHORTEST = 50e-6, ALONE = 2e-3, LONGEST = 20e-3;
    heddle_group_t *kin = r->op.team->kin;
    hd_context_t *context = r->op.task.context;
    uint64_t began = hd_ticks();
    for (double slice = hd_api_group_is_shared(kin) ? SHORTEST : ALONE;;) {
        double passed = hd_ticks_to_seconds(hd_ticks() - began);
        bool last = timeout >= 0 && timeout - passed <= slice;
        double left = timeout > passed ? timeout - passed : 0;
        ucc_status_t status = hd_runner_wait(&context->runner, &r->op.task, last ? left : slice,
                                             context->lib->may_park, context->lib->park_after_us);
        if (status != UCC_INPROGRESS) {
            return status;
        }
        bool any = hd_api_progress_group(kin);
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
    if (r->op.team->kin && timeout != 0) { /* a test costs no round over the whole group */
        return wait_with_kin(r, timeout);
    }
    hd_context_t *context = r->op.task.context;
    return hd_runner_wait(&context->runner, &r->op.task, timeout, context->lib->may_park,
                          context->lib->park_after_us);
}

/* A call that is over without a wait has progressed nothing. Who only makes blocking calls (and tests
 * for completion) must still see the rest of what it has outstanding end. */
static void progress_others(ucc_team_h team) {
    for (uint32_t i = 0; i < team->n_contexts; i++) {
        if (!hd_runner_is_empty(&team->contexts[i]->runner)) {
            hd_api_look_at(team->contexts[i]);
        }
    }
}

ucc_status_t hd_api_run(ucc_coll_args_t *args, ucc_team_h team, uint64_t published) {
    ucc_coll_req_h request;
    /* an endpoint's own team and arguments are in order: bad ones come from here only */
    ucc_status_t status = init(args, NULL, &request, team, "heddle_collective");
    if (status != UCC_OK) {
        if (published) {
            hd_group_poison(team->group, status); /* the others have seen me come */
        }
        hd_api_remember_failure(team, status);
        return status;
    }
    hd_request_t *r = (hd_request_t *)(void *)request;
    if (published) {
        hd_request_resume(r, published);
    } else {
        status = hd_request_post(r);
    }
    if (status == UCC_OK && hd_task_status(&r->op.task) != UCC_INPROGRESS) {
        progress_others(team);
        status = hd_api_seen(r);
    } else if (status == UCC_OK) {
        status = heddle_wait(request, -1);
    }
    if (status != UCC_OK) {
        hd_api_remember_failure(team, status);
    } else if (!published && r->teaches) {
        hd_team_learn(r);
    }
    hd_request_finalize(r);
    return status;
}

ucc_status_t heddle_collective(ucc_coll_args_t *args, ucc_team_h team) {
    return hd_api_run(args, team, 0);
}
