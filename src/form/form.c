/* form.c: how endpoints become a team. All ways end in the same: a group that every endpoint has
 * joined (shm/group.c).
 *
 *   OOB      an allgather of a record per endpoint; then endpoints meet by the first record (oob.c)
 *   EP_MAP   contexts that were created by one exchange meet by the list of members (meet.c)
 *   ID       no exchange at all: endpoints meet by the team's id and size (meet.c)
 *
 * hd_team_create begins, and never blocks; hd_team_create_test drives, one step after the other
 * (hd_form_step_t).
 *
 * An endpoint that fails, or is destroyed before the team is complete, says so where the others
 * look: in the group, in the meeting, in its notice. So all of them fail, each with a status that
 * stays.
 */
#include "form/internal.h"
#include "span/span.h"

#include "core/fork.h"

#include <sched.h>

/* --- create ----------------------------------------------------------------------------------- */

/* Takes the endpoint's part of the team's memory from the parameters, or allocates it. */
static ucc_status_t take_memory(ucc_team_h team, const heddle_team_params_t *extra) {
    hd_forming_t *f = team->forming;
    uint64_t wants = team->given.constraints = extra->memory.constraints;
    team->given.hints = extra->memory.hints;
    size_t asked = wants & HEDDLE_MEM_ALIGN128  ? 128
                   : wants & HEDDLE_MEM_ALIGN64 ? 64
                   : wants & HEDDLE_MEM_ALIGN32 ? 32
                                                : 1;
    f->memory = extra->memory.address;
    f->bytes = extra->memory.bytes;
    if (f->memory && (uintptr_t)f->memory % asked) {
        hd_error("memory.address is not a multiple of the %zu bytes that its constraints ask for",
                 asked);
        return UCC_ERR_INVALID_PARAM;
    }
    if (!f->memory && f->bytes) {
        f->memory = hd_alloc_part(f->bytes); /* as strictly aligned as a client can ask for */
        f->owns_memory = true;
        if (!f->memory) {
            hd_error("no memory for an endpoint's part of %zu bytes", f->bytes);
            return UCC_ERR_NO_MEMORY;
        }
    }
    return UCC_OK;
}

static ucc_status_t take_params(ucc_team_h team, const ucc_team_params_t *p) {
    uint64_t mask = p->mask;
    hd_locality_t *where = &team->forming->locality;
    *where = team->contexts[0]->locality;
    if (!where->trusted) {
        hd_topo_locate_thread(hd_topo_get(), where);
    }
    team->ordering = mask & UCC_TEAM_PARAM_FIELD_ORDERING ? p->ordering : 0;
    team->sync_type = mask & UCC_TEAM_PARAM_FIELD_SYNC_TYPE ? p->sync_type : 0;
    team->ep_range = mask & UCC_TEAM_PARAM_FIELD_EP_RANGE ? p->ep_range : 0;
    team->id = mask & UCC_TEAM_PARAM_FIELD_ID ? p->id : 0;
    team->outstanding_colls =
        mask & UCC_TEAM_PARAM_FIELD_OUTSTANDING_COLLS ? p->outstanding_colls : 0;
    if (mask & UCC_TEAM_PARAM_FIELD_MEM_PARAMS) {
        team->mem_params = p->mem_params;
    }
    if ((unsigned)team->ordering > UCC_COLLECTIVE_INIT_AND_POST_UNORDERED ||
        (unsigned)team->sync_type > UCC_SYNC_COLLECTIVES ||
        (unsigned)team->ep_range > UCC_COLLECTIVE_EP_RANGE_NONCONTIG) {
        hd_error("ucc_team_create_post: there is no ordering %d, sync_type %d, or ep_range %d",
                 (int)team->ordering, (int)team->sync_type, (int)team->ep_range);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t take_extra(ucc_team_h team, const heddle_team_params_t *extra) {
    if (extra->mask & HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE) {
        if ((unsigned)extra->thread_mode > (unsigned)team->lib->params.thread_mode) {
            hd_error("thread_mode of the team (%d) is none, or more than the library's (%d)",
                     (int)extra->thread_mode, (int)team->lib->params.thread_mode);
            return UCC_ERR_INVALID_PARAM;
        }
        /* The handle keeps its locks: the promise is about calls on this endpoint, and other
         * threads may still progress the context it shares. */
        team->thread_mode = extra->thread_mode;
    }
    if (extra->mask & HEDDLE_TEAM_PARAM_FIELD_LOCALITY) {
        team->forming->locality = (hd_locality_t){.package = extra->locality.package,
                                                  .numa = extra->locality.numa,
                                                  .l3 = extra->locality.l3,
                                                  .core = extra->locality.core,
                                                  .pu = -1,
                                                  .trusted = true};
    }
    return extra->mask & HEDDLE_TEAM_PARAM_FIELD_MEMORY ? take_memory(team, extra) : UCC_OK;
}

/* Arguments that are refused have no effect, so the client can call again. But a client that lacks
 * memory is not expected to, so its endpoint tells the others of its exchange (roll.h), or of its
 * map. */
ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            bool unplaced, ucc_team_h *out) {
    bool by_oob = params->mask & UCC_TEAM_PARAM_FIELD_OOB;
    bool maps = params->mask & (UCC_TEAM_PARAM_FIELD_EP_MAP | UCC_TEAM_PARAM_FIELD_EP_LIST);
    bool tells = by_oob && params->oob.n_oob_eps > 1;
    ucc_team_h team = hd_form_begin(contexts, n_contexts, tells);
    ucc_status_t status = team ? take_params(team, params) : UCC_ERR_NO_MEMORY;
    status = status == UCC_OK && extra ? take_extra(team, extra) : status;
    if (team && status == UCC_ERR_NO_MEMORY && tells) {
        team->forming->roll.mine.trouble = (int32_t)status;
        status = UCC_OK;
    }
    if (status == UCC_OK && by_oob) {
        status = hd_form_start_oob(team, params, unplaced);
    } else if ((status == UCC_OK || status == UCC_ERR_NO_MEMORY) && maps && !by_oob) {
        status = hd_form_start_by_map(status == UCC_OK ? team : NULL, contexts[0], params);
    } else if (status == UCC_OK) {
        status = hd_form_start_by_id(team, params);
    }
    return hd_form_give_out(team, status, out);
}

/* --- driving ---------------------------------------------------------------------------------- */

/* The endpoint waits for those of other processes. */
static ucc_status_t check_time(ucc_team_h team) {
    if (!hd_form_has_waited(team)) {
        return UCC_OK;
    }
    hd_error("team of %u: endpoint %u has waited for endpoints of other processes until the "
             "time-out (TIMEOUT)",
             team->n, team->ep);
    return UCC_ERR_TIMED_OUT;
}

/* STEP_COMPLETE: waits until all endpoints have joined and all processes have greeted, unless the
 * team goes ahead of other processes. */
static ucc_status_t step_complete(ucc_team_h team) {
    ucc_status_t failed = hd_group_poisoned(team->group);
    /* others went ahead, and have ended their part: it is a team, whose operations say that */
    bool ahead = failed == UCC_ERR_NOT_FOUND && team->forming->ahead;
    if (failed != UCC_OK && !ahead) {
        return failed;
    }
    if (!ahead && !hd_group_is_complete(team->group)) {
        failed = hd_form_watch(team);
        if (failed == UCC_OK && team->crossing && hd_group_is_sealed(team->group)) {
            failed = hd_crossing_greet(team->crossing);
            ahead = failed == UCC_INPROGRESS && team->crossing->ahead;
        } else if (failed == UCC_OK && team->forming->roll.together) {
            /* the others of this process must find the meeting */
            ahead = team->forming->ahead && hd_meeting_is_complete(team->forming->meeting);
            failed = ahead ? UCC_OK : check_time(team);
        }
        if (!ahead) {
            return failed == UCC_OK && !hd_group_is_complete(team->group) ? UCC_INPROGRESS : failed;
        }
    }
    hd_assert(team->member && team->state == HD_TEAM_FORMING);
    hd_form_drop(team);
    team->state = HD_TEAM_ACTIVE;
    return UCC_OK;
}

static ucc_status_t step(ucc_team_h team) {
    if (team->forming->forks != hd_forks()) {
        hd_error("the endpoint was inherited through a fork: its team can't be formed here");
        return UCC_ERR_NOT_SUPPORTED;
    }
    static ucc_status_t (*const next[])(ucc_team_h team) = {
        [STEP_GATHER] = hd_form_gather, [STEP_ROLL] = hd_form_call_roll,
        [STEP_SPLIT] = hd_form_split,   [STEP_SHARE] = hd_form_share,
        [STEP_MEET] = hd_form_meet,     [STEP_COMPLETE] = step_complete};
    return next[team->forming->step](team);
}

/* Tells all who have joined the team, or meet for it, and those who come later. */
static void give_up(ucc_team_h team, ucc_status_t why) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = team->group;
    if (f->forks != hd_forks()) {
        return; /* all of them are in another process */
    }
    hd_notice_change(&f->notice, why);
    if (f->meeting) {
        hd_meeting_fail(f->meeting, why);
    }
    if (f->step == STEP_SPLIT) {
        hd_form_give_up_split(team, why);
    }
    if (f->scope && f->meeting && !f->roll.together) {
        hd_form_give_up_sharing(team, why);
    }
    if (!group && f->meeting && f->step == STEP_MEET) {
        group = hd_form_made_group(f->meeting); /* that of those who have come */
    }
    if (!group && f->roll.together) {
        hd_kin_fail(f->roll.kin, why);
    } else if (!group && f->process) {
        hd_form_refuse(team, why);
    } else if (group) {
        hd_group_poison(group, why);
        if (hd_group_crossing(group)) {
            hd_crossing_abort(hd_group_crossing(group), why);
            hd_net_pump(hd_group_crossing(group)->net); /* the caller may not look again */
        }
    }
}

void hd_form_fail(ucc_team_h team, ucc_status_t why) {
    give_up(team, why);
    team->state = HD_TEAM_FAILED;
    team->failure = why;
}

/* Called after a look in vain: logs for whom the team waits, if it has done so for long. */
static void note_wait(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    uint64_t now = hd_ticks();
    hd_text_t what = {0};
    if (f->step == STEP_COMPLETE && !hd_group_is_sealed(team->group)) {
        hd_group_stalled(team->group, &f->stall, now, team->ep);
        return;
    }
    if (!hd_stall_is_due(&f->stall, now, team->lib->stall)) {
        return;
    }
    if (f->step == STEP_SPLIT && hd_form_split_awaits(team, &what)) {
        hd_text_add(&what, ", to come");
    } else if (f->step == STEP_SHARE) {
        hd_form_share_awaits(team, &what);
    } else if (f->step == STEP_SPLIT || f->step == STEP_MEET) {
        hd_form_name_missing(team, &what);
    } else if (f->step == STEP_COMPLETE && team->crossing) {
        hd_crossing_awaits(team->crossing, &what);
    } else if (f->step == STEP_COMPLETE) {
        hd_text_add(&what, "the last endpoint to finish joining");
    } else {
        hd_roll_awaits(&f->roll, &what);
    }
    hd_stall_line("%s of %u: endpoint %llu has waited %.1f s for %s",
                  f->parent ? "team from a parent" : "team", team->n,
                  f->sort_labels ? (unsigned long long)f->roll.mine.label : team->ep,
                  hd_stall_seconds(&f->stall, now), what.line);
}

ucc_status_t hd_team_create_test(ucc_team_h team) {
    while (team->state == HD_TEAM_FORMING) {
        ucc_status_t status = step(team);
        if (status == UCC_INPROGRESS) {
            note_wait(team);
            return UCC_INPROGRESS;
        }
        if (status < 0) {
            hd_form_fail(team, status);
        }
    }
    return team->state == HD_TEAM_FAILED ? team->failure : UCC_OK;
}

/* If the team has been aborted meanwhile, its operations say so: it is a team all the same. */
ucc_status_t hd_team_form_ahead(ucc_team_h team) {
    ucc_status_t status = UCC_OK;
    if (team->state == HD_TEAM_FAILED) {
        return team->failure;
    }
    team->forming->joins_ahead = true;
    while (status >= 0 && team->forming->step != STEP_COMPLETE) {
        /* These teams meet without a wait, but for memory that another process makes, and hands
         * over whatever its own threads do. */
        hd_assert(status != UCC_INPROGRESS || team->forming->step == STEP_SHARE);
        status = step(team);
        if (status == UCC_INPROGRESS) {
            sched_yield();
        }
    }
    if (status != UCC_OK) {
        hd_form_fail(team, status);
    } else {
        team->state = HD_TEAM_ACTIVE;
    }
    if (status == UCC_OK && hd_group_is_complete(team->group)) {
        hd_form_drop(team);
    } else { /* it has been counted: should it leave early, the others still meet, or are told */
        team->forming->excluded = true;
    }
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

ucc_status_t hd_team_destroy(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (f && f->roll.request) {
        hd_error("team destroyed while its oob allgather is outstanding at endpoint %u",
                 f->roll.oob.oob_ep);
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
    if (team->state == HD_TEAM_FORMING && f->step == STEP_SPLIT) {
        if (hd_form_split_lingers(team)) {
            return UCC_INPROGRESS;
        }
        team->state = f->excluded ? HD_TEAM_EXCLUDED : HD_TEAM_FORMING;
    }
    if (team->state == HD_TEAM_FORMING) {
        if (!team->group || hd_group_abandon(team->group, UCC_ERR_NOT_FOUND)) {
            hd_warn("team destroyed at endpoint %u before it was formed: the others will fail",
                    team->ep);
            give_up(team, UCC_ERR_NOT_FOUND);
        }
        /* the failure is told once, even if this function is called again */
        team->state = HD_TEAM_FAILED;
        team->failure = UCC_ERR_NOT_FOUND;
    }
    hd_form_leave(team);
    hd_span_drain();
    /* puts: the user may free this endpoint's part of the team's memory after this */
    if ((team->crossing && hd_crossing_lingers(team->crossing)) ||
        (team->group && hd_put_lingers(team->group))) {
        return UCC_INPROGRESS;
    }
    hd_team_free(team);
    return UCC_OK;
}
