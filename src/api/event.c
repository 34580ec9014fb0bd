/* event.c: execution engines and triggered posts. */
#include "api/api.h"
#include "request/engine.h"

static bool is_ee(ucc_ee_h ee, const char *caller) {
    if (hd_ee_is_live(ee)) {
        return true;
    }
    hd_error("%s: ee is not a live execution engine", caller);
    return false;
}

ucc_status_t ucc_ee_create(ucc_team_h team, const ucc_ee_params_t *params, ucc_ee_h *ee) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(params, "params", __func__) ||
        !hd_api_pointer(ee, "ee", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (params->ee_type == UCC_EE_CPU_THREAD) {
        return hd_ee_create(team, ee);
    }
    if (params->ee_type == UCC_EE_CUDA_STREAM) {
        return hd_ee_create_of_stream(team, params->ee_context, ee);
    }
    if ((unsigned)params->ee_type >= (unsigned)UCC_EE_LAST) {
        hd_error("%s: params.ee_type %d does not exist", __func__, (int)params->ee_type);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_error("%s: params.ee_type: streams of ROCM are not supported", __func__);
    return UCC_ERR_NOT_SUPPORTED;
}

ucc_status_t ucc_ee_destroy(ucc_ee_h ee) {
    return is_ee(ee, __func__) ? hd_ee_destroy(ee) : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev) {
    return is_ee(ee, __func__) && hd_api_pointer(ev, "ev", __func__) ? hd_ee_get_event(ee, ev)
                                                                     : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_ack_event(ucc_ee_h ee, ucc_ev_t *ev) {
    if (!is_ee(ee, __func__) || !hd_api_pointer(ev, "ev", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_ee_ack_event(ee, ev);
    if (status != UCC_OK) {
        hd_error("%s: ev is not an event that this engine gave out", __func__);
    }
    return status;
}

/* Of an event of the client's: the only kind that starts anything. */
static ucc_status_t check_type(const ucc_ev_t *ev, const char *caller) {
    if (ev->ev_type == UCC_EVENT_COMPUTE_COMPLETE) {
        return UCC_OK;
    }
    hd_error("%s: ev_type is %d, not COMPUTE_COMPLETE", caller, (int)ev->ev_type);
    return UCC_ERR_NOT_IMPLEMENTED; /* as released UCC says */
}

ucc_status_t ucc_ee_set_event(ucc_ee_h ee, ucc_ev_t *ev) {
    if (!is_ee(ee, __func__) || !hd_api_pointer(ev, "ev", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = check_type(ev, __func__);
    if (status == UCC_OK) {
        hd_ee_set_event(ee);
    }
    return status;
}

ucc_status_t ucc_ee_wait(ucc_ee_h ee, ucc_ev_t *ev) {
    return is_ee(ee, __func__) && hd_api_pointer(ev, "ev", __func__) ? hd_ee_wait(ee, ev)
                                                                     : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_collective_triggered_post(ucc_ee_h ee, ucc_ev_t *ee_event) {
    if (!is_ee(ee, __func__) || !hd_api_pointer(ee_event, "ee_event", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = check_type(ee_event, __func__);
    if (status != UCC_OK) {
        return status;
    }
    hd_request_t *r = hd_api_request(ee_event->req, __func__);
    if (!r) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (r->op.team != ee->team) {
        hd_error("%s: ee_event.req is of another team than the engine", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    if (!hd_request_may_post(r)) {
        hd_error("%s: posted with status %s", __func__,
                 ucc_status_string(hd_task_status(&r->op.task)));
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_request_post_triggered(r, ee);
}
