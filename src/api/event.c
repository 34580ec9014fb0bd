/* event.c: execution engines and triggered posts belong to the device stage, which this build does not
 * have: every call checks its arguments, then refuses with a logged reason. */
#include "api/api.h"

static ucc_status_t refuse(const char *caller) {
    hd_error("%s: execution engines and triggered posts are not supported by this build", caller);
    return UCC_ERR_NOT_SUPPORTED;
}

ucc_status_t ucc_ee_create(ucc_team_h team, const ucc_ee_params_t *params, ucc_ee_h *ee) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(params, "params", __func__) ||
        !hd_api_pointer(ee, "ee", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return refuse(__func__);
}

ucc_status_t ucc_ee_destroy(ucc_ee_h ee) {
    return hd_api_pointer(ee, "ee", __func__) ? refuse(__func__) : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev) {
    return hd_api_pointer(ee, "ee", __func__) && hd_api_pointer(ev, "ev", __func__)
               ? refuse(__func__)
               : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_ack_event(ucc_ee_h ee, ucc_ev_t *ev) {
    return hd_api_pointer(ee, "ee", __func__) && hd_api_pointer(ev, "ev", __func__)
               ? refuse(__func__)
               : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_set_event(ucc_ee_h ee, ucc_ev_t *ev) {
    return hd_api_pointer(ee, "ee", __func__) && hd_api_pointer(ev, "ev", __func__)
               ? refuse(__func__)
               : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_ee_wait(ucc_ee_h ee, ucc_ev_t *ev) {
    return hd_api_pointer(ee, "ee", __func__) && hd_api_pointer(ev, "ev", __func__)
               ? refuse(__func__)
               : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_collective_triggered_post(ucc_ee_h ee, ucc_ev_t *ee_event) {
    return hd_api_pointer(ee, "ee", __func__) && hd_api_pointer(ee_event, "ee_event", __func__)
               ? refuse(__func__)
               : UCC_ERR_INVALID_PARAM;
}
