/* destroy.c: the end of a team handle, as its user asks for it: also while the team is forming, or
 * while others still use what this endpoint has. In these cases hd_team_destroy may return
 * UCC_INPROGRESS, and the user calls again.
 */
#include "form/internal.h"
#include "span/span.h"

ucc_status_t hd_team_destroy(ucc_team_h team) {
    if (team->forming && team->forming->request) {
        hd_error("team destroyed while its oob allgather is outstanding at endpoint %u",
                 team->forming->oob.oob_ep);
        return UCC_ERR_INVALID_PARAM;
    }
    for (hd_request_t *r = team->all; r; r = r->all) {
        if (r->op.task.magic != HD_TASK_FREE && hd_task_status(&r->op.task) == UCC_INPROGRESS) {
            hd_error("team destroyed while %s is in progress at endpoint %u",
                     hd_op_type_name(&r->op), team->ep);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    if (hd_team_is_needed(team)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (team->state == HD_TEAM_FORMING && team->forming->parent) {
        if (hd_form_split_lingers(team)) {
            return UCC_INPROGRESS;
        }
        team->state = team->forming->excluded ? HD_TEAM_EXCLUDED : HD_TEAM_FORMING;
    }
    if (team->state == HD_TEAM_FORMING) {
        if (!team->group || hd_group_abandon(team->group, UCC_ERR_NOT_FOUND)) {
            hd_warn("team destroyed at endpoint %u before it was formed: the others will fail",
                    team->ep);
            hd_form_give_up(team, UCC_ERR_NOT_FOUND);
        }
        /* the failure is told once, even if this function is called again */
        team->state = HD_TEAM_FAILED;
        team->failure = UCC_ERR_NOT_FOUND;
    }
    if (team->member) {
        hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    }
    hd_form_settle();
    if (team->crossing && hd_crossing_lingers(team->crossing)) {
        return UCC_INPROGRESS;
    }
    if (team->group && hd_put_lingers(team->group)) {
        /* the user may free this endpoint's part of the team's memory after this */
        return UCC_INPROGRESS;
    }
    bool crosses = team->crossing != NULL;
    hd_team_free(team);
    if (crosses) {
        hd_span_drain(); /* as its network team ended, legs of other teams may have ended, too */
    }
    return UCC_OK;
}
