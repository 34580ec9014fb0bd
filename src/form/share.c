/* share.c: STEP_SHARE of a team that is made of members of a set whose processes share memory: its
 * processes get memory of their own (kin.h), and tell each other in that of the set's group (its
 * scope). The endpoints of each process have a meeting by then, and the first of them begins.
 *
 * If the set has several nodes, those of the team's processes that share one do so, and each node
 * for itself: its processes hear alike whether they all have the memory. If they don't, they go on
 * without, by the network, and tell the other nodes as all of the team's processes greet each other
 * (span/crossing.c).
 */
#include "form/internal.h"

/* Of those processes of the team that share memory, or would: all, or a node's. */
static const hd_span_t *sharers(const hd_forming_t *f) {
    return f->node_span ? f->node_span : f->roll.span;
}

/* For the meeting of this process's endpoints, of which the first to come does it. */
static void *begin_kin(void *arg) {
    const hd_forming_t *f = arg;
    const hd_span_t *span = sharers(f);
    bool ahead = hd_form_goes_ahead(f);
    hd_kin_params_t params = {.span = span,
                              .process = f->kin_process,
                              .config = &f->group_config,
                              .wire = f->node_wire,
                              .scope = f->scope,
                              .over = f->over,
                              .ahead = ahead && !f->process,
                              .declines = ahead && f->process,
                              .of_node = f->node_span};
    hd_kin_t *kin = hd_kin_begin(&params);
    if (!kin) {
        hd_refusal_t refusal = {f->scope, f->node_wire, span->processes, span->mine,
                                UCC_ERR_NO_MEMORY};
        hd_error("no memory for a team in %u processes", f->roll.span->processes);
        hd_form_refuse_sharing(&refusal);
    }
    return kin;
}

bool hd_form_has_waited(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    uint64_t now = hd_ticks();
    f->since = f->since ? f->since : now;
    return team->lib->timeout && now - f->since >= team->lib->timeout;
}

/* The kin has failed. If all of the node's processes hear that, they are nodes of their own, as
 * they tell when they greet; if there is no other node, there is nobody else to tell. */
static bool does_without(hd_forming_t *f, const hd_kin_t *kin) {
    if (!f->process || !kin || !hd_kin_all_lack(kin)) {
        return false;
    }
    if (hd_form_goes_ahead(f)) { /* it may form for long, and keeps nothing of the parent's */
        hd_home_unpin(&f->scope->home);
        f->scope = NULL;
    } else { /* who goes ahead has not tried */
        hd_info("%u processes of one machine can't share memory: they use the network",
                sharers(f)->processes);
    }
    f->not_shared = hd_kin_obstacle(kin);
    f->roll.nodes = f->node_span ? f->roll.nodes : f->roll.span->processes;
    f->step = STEP_MEET;
    return true;
}

ucc_status_t hd_form_share(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_text_t why = {0};
    ucc_status_t failed = hd_form_meeting_status(team);
    if (failed != UCC_OK) {
        return failed;
    }
    hd_kin_t *kin = hd_meeting_memory(f->meeting, begin_kin, f, hd_kin_drop);
    ucc_status_t status = kin ? hd_kin_test(kin) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        f->roll.kin = kin;
        f->roll.meeting = f->meeting; /* whose it is */
        f->roll.together = !f->node_span;
        f->step = STEP_MEET;
    } else if (status == UCC_INPROGRESS && hd_form_has_waited(team)) {
        hd_text_add(&why, "; not yet by ");
        hd_kin_awaits(kin, &why);
        hd_kin_fail(kin, UCC_ERR_TIMED_OUT);
        status = UCC_ERR_TIMED_OUT;
    } else if (status < 0 && kin) {
        hd_kin_say_why(kin, &why);
    }
    if (status < 0) {
        failed = hd_form_meeting_status(team); /* of which another process may have heard first */
        if (failed == UCC_OK && status != UCC_ERR_TIMED_OUT && does_without(f, kin)) {
            return UCC_OK;
        }
        status = failed != UCC_OK ? failed : status;
        hd_error("a team of %u in several processes can't be made here: %s%s", team->n,
                 ucc_status_string(status), why.line);
    }
    return status;
}

void hd_form_share_awaits(ucc_team_h team, hd_text_t *text) {
    hd_forming_t *f = team->forming;
    hd_kin_t *kin = hd_meeting_memory(f->meeting, begin_kin, f, hd_kin_drop);
    if (kin) {
        hd_kin_awaits(kin, text);
    } else {
        hd_text_add(text, "other processes of its machine");
    }
    hd_text_add(text, ", to share memory with");
}

void hd_form_give_up_sharing(ucc_team_h team, ucc_status_t why) {
    hd_forming_t *f = team->forming;
    hd_kin_t *kin = hd_meeting_memory(f->meeting, begin_kin, f, hd_kin_drop);
    if (kin) {
        hd_kin_fail(kin, why);
    }
}
