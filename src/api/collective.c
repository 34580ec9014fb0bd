/* collective.c: init, post and finalize: the hot path's entry. Each checks its handles and hands on
 * to request/. A request is used by one thread at a time; waiting.c waits for it.
 */
#include "api/api.h"

ucc_status_t hd_api_init(ucc_coll_args_t *args, const uint64_t *tag, ucc_coll_req_h *request,
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
    return hd_api_init(coll_args, NULL, request, team, __func__);
}

ucc_status_t heddle_collective_init_tagged(ucc_coll_args_t *args, uint64_t tag,
                                           ucc_coll_req_h *request, ucc_team_h team) {
    return hd_api_init(args, &tag, request, team, __func__);
}

ucc_status_t ucc_collective_post(ucc_coll_req_h request) {
    hd_request_t *r = hd_api_request(request, __func__);
    return r ? hd_request_post(r) : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_collective_init_and_post(ucc_coll_args_t *coll_args, ucc_coll_req_h *request,
                                          ucc_team_h team) {
    ucc_status_t status = hd_api_init(coll_args, NULL, request, team, __func__);
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
    ucc_status_t status = hd_api_init(args, NULL, request, team, caller);
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
