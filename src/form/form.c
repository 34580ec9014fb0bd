/* form.c: how endpoints become a team. All ways end in the same: a group that every endpoint has
 * joined (shm/group.c).
 *
 *   OOB      one allgather of a record per endpoint; then endpoints meet by the record of number 0
 *            (oob.c)
 *   EP_MAP   contexts that were created by one exchange meet by the list of members (meet.c)
 *   ID       no exchange at all: endpoints meet by the team's id and size (meet.c)
 *
 * hd_team_create begins, and never blocks; hd_team_create_test drives, one step after the other
 * (hd_form_step_t). One call of the OOB is outstanding at a time. api/ calls both.
 *
 * An endpoint that fails, or is destroyed before the team is complete, says so where the others
 * look: in the group, in the meeting, in its notice. So all of them fail, each with a status that
 * stays. hd_team_destroy may return UCC_INPROGRESS, and the user calls again, while the team is
 * forming, or while others still use what this endpoint has.
 */
#include "form/internal.h"
#include "span/span.h"

#include "core/fork.h"

#include <sched.h>

/* --- the team's memory ------------------------------------------------------------------------ */

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
        return f->memory ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

/* --- create ----------------------------------------------------------------------------------- */

static ucc_status_t take_params(ucc_team_h team, const ucc_team_params_t *p) {
    uint64_t mask = p->mask;
    team->ordering = mask & UCC_TEAM_PARAM_FIELD_ORDERING ? p->ordering : 0;
    team->sync_type = mask & UCC_TEAM_PARAM_FIELD_SYNC_TYPE ? p->sync_type : 0;
    team->ep_range = mask & UCC_TEAM_PARAM_FIELD_EP_RANGE ? p->ep_range : 0;
    team->id = mask & UCC_TEAM_PARAM_FIELD_ID ? p->id : 0;
    team->outstanding_colls =
        mask & UCC_TEAM_PARAM_FIELD_OUTSTANDING_COLLS ? p->outstanding_colls : 0;
    if (mask & UCC_TEAM_PARAM_FIELD_MEM_PARAMS) {
        team->mem_params = p->mem_params;
    }
    if ((unsigned)team->ordering > UCC_COLLECTIVE_INIT_AND_POST_UNORDERED) {
        hd_error("ordering %d does not exist", (int)team->ordering);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((unsigned)team->sync_type > UCC_SYNC_COLLECTIVES ||
        (unsigned)team->ep_range > UCC_COLLECTIVE_EP_RANGE_NONCONTIG) {
        hd_error("ucc_team_create_post: there is no sync_type %d, or no ep_range %d",
                 (int)team->sync_type, (int)team->ep_range);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t take_extra(ucc_team_h team, const heddle_team_params_t *extra) {
    if (extra->mask & HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE) {
        if ((unsigned)extra->thread_mode > UCC_THREAD_MULTIPLE ||
            extra->thread_mode > team->lib->params.thread_mode) {
            hd_error(
                "thread_mode of the team (%d) is none, or more than the library was initialised "
                "with (%d)",
                (int)extra->thread_mode, (int)team->lib->params.thread_mode);
            return UCC_ERR_INVALID_PARAM;
        }
        /* The handle keeps its locks: the promise is about calls on this endpoint, and other
           threads may still progress the context it shares. */
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

static ucc_status_t check_oob(const ucc_oob_coll_t *oob, const ucc_team_params_t *p,
                              bool unplaced) {
    if (!oob->allgather || !oob->req_test || !oob->req_free) {
        if (oob->n_oob_eps != 1) {
            hd_error("ucc_team_create_post: oob.%s is NULL", !oob->allgather  ? "allgather"
                                                             : !oob->req_test ? "req_test"
                                                                              : "req_free");
            return UCC_ERR_INVALID_PARAM;
        }
    }
    if (oob->n_oob_eps == 0 || (!unplaced && oob->oob_ep >= oob->n_oob_eps)) {
        hd_error("oob.oob_ep %u of oob.n_oob_eps %u", oob->oob_ep, oob->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((p->mask & UCC_TEAM_PARAM_FIELD_TEAM_SIZE) && p->team_size != oob->n_oob_eps) {
        hd_error("team_size %llu differs from oob.n_oob_eps %u", (unsigned long long)p->team_size,
                 oob->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* Does all of hd_team_create up to the exchange. Without an exchange, enters the meeting. */
static ucc_status_t begin(ucc_team_h team, const ucc_team_params_t *params,
                          const heddle_team_params_t *extra, bool unplaced) {
    ucc_status_t status = hd_form_begin(team);
    if (status == UCC_OK) {
        team->forming->locality = team->contexts[0]->locality;
        if (!team->forming->locality.trusted) {
            hd_topo_locate_thread(hd_topo_get(), &team->forming->locality);
        }
        status = take_params(team, params);
    }
    if (status == UCC_OK && extra) {
        status = take_extra(team, extra);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (params->mask & UCC_TEAM_PARAM_FIELD_OOB) {
        team->forming->unplaced = unplaced;
        status = check_oob(&params->oob, params, unplaced);
        return status == UCC_OK ? hd_form_start_oob(team, params) : status;
    }
    if (params->mask & (UCC_TEAM_PARAM_FIELD_EP_MAP | UCC_TEAM_PARAM_FIELD_EP_LIST)) {
        return hd_form_start_by_map(team, params);
    }
    return hd_form_start_by_id(team, params);
}

/* Arguments that are refused have no effect, so the client can call again. But a client that lacks
 * memory is not expected to, so the others of its exchange must be told. Returns a handle that
 * tells them; NULL: nobody has to be told, or it can't be done. */
static ucc_team_h refuse(ucc_context_h context, const ucc_team_params_t *params, bool unplaced) {
    bool must_tell = (params->mask & UCC_TEAM_PARAM_FIELD_OOB) && params->oob.n_oob_eps > 1 &&
                     check_oob(&params->oob, params, unplaced) == UCC_OK;
    return must_tell ? hd_form_refuse_oob(context, params, unplaced) : NULL;
}

ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            bool unplaced, ucc_team_h *out) {
    ucc_team_h team = hd_team_alloc(contexts, n_contexts);
    ucc_status_t status = team ? begin(team, params, extra, unplaced) : UCC_ERR_NO_MEMORY;
    if (status == UCC_ERR_NO_MEMORY) {
        if (team) {
            hd_team_free(team);
        }
        team = refuse(contexts[0], params, unplaced);
        status = team ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    if (status == UCC_OK && (params->mask & UCC_TEAM_PARAM_FIELD_OOB)) {
        status = hd_form_enter_oob(team);
    }
    if (status == UCC_OK) {
        *out = team;
    } else if (team) {
        hd_team_free(team);
    }
    return status;
}

/* --- driving ---------------------------------------------------------------------------------- */

/* STEP_COMPLETE: waits until all endpoints have joined and all processes have greeted, unless the
 * team goes ahead of other processes. */
static ucc_status_t step_complete(ucc_team_h team) {
    ucc_status_t failed = hd_group_poisoned(team->group);
    if (failed != UCC_OK) {
        return failed;
    }
    if (!hd_group_is_complete(team->group)) {
        failed = hd_form_watch(team);
        if (failed == UCC_OK && team->crossing && hd_group_is_sealed(team->group)) {
            failed = hd_crossing_greet(team->crossing);
        }
        if (failed != UCC_INPROGRESS || !team->crossing->ahead) {
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
    switch (team->forming->step) {
    case STEP_GATHER:
        return hd_form_gather(team);
    case STEP_ROLL:
        return hd_form_call_roll(team);
    case STEP_SPLIT:
        return hd_form_split(team);
    case STEP_MEET:
        return hd_form_meet(team);
    case STEP_COMPLETE:
        break;
    }
    return step_complete(team);
}

/* Tells all who have joined the team, or meet for it, and those who come later. */
static void give_up(ucc_team_h team, ucc_status_t why) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = team->group;
    if (f->notice.serial) {
        hd_notice_change(&f->notice, why);
    }
    if (f->meeting) {
        hd_meeting_fail(f->meeting, why);
    }
    if (f->step == STEP_SPLIT) {
        hd_form_give_up_split(team, why);
        hd_meeting_fail(f->meeting, why); /* it may be another one now */
    }
    if (!group && f->meeting && f->step == STEP_MEET && f->forks == hd_forks()) {
        group = hd_form_made_group(f->meeting); /* that of those who have come */
    }
    if (group) {
        hd_group_poison(group, why);
    }
    if (group && hd_group_crossing(group)) {
        hd_crossing_abort(hd_group_crossing(group), why);
    } else if (!group && f->process && f->roll.net && f->refused == UCC_OK &&
               f->forks == hd_forks()) {
        hd_form_refuse(team, why);
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
    if (f->step == STEP_COMPLETE && hd_group_is_sealed(team->group)) {
        if (hd_stall_is_due(&f->stall, now, team->lib->stall)) {
            hd_stall_line(
                "team of %u: endpoint %u has waited %.1f s for other processes to form it", team->n,
                team->ep, hd_stall_seconds(&f->stall, now));
        }
    } else if (f->step == STEP_COMPLETE) {
        hd_group_stalled(team->group, &f->stall, now, team->ep);
    } else if (hd_stall_is_due(&f->stall, now, team->lib->stall)) {
        double seconds = hd_stall_seconds(&f->stall, now);
        if (f->step == STEP_SPLIT || f->step == STEP_MEET) {
            hd_form_stalled_meeting(team, now);
        } else {
            bool opens = f->step == STEP_ROLL && f->roll.step == HD_ROLL_OPEN;
            hd_stall_line("team of %u: endpoint %u has waited %.1f s for %s", team->n,
                          f->roll.oob.oob_ep, seconds,
                          opens ? "the network to be opened" : "its oob allgather");
        }
    }
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
    /* patience with endpoints that still have an earlier team of the same wire id (shrink.c) */
    enum { PATIENCE_US = 5000 };
    ucc_status_t status = UCC_OK;
    uint64_t since = hd_ticks();
    if (team->state == HD_TEAM_FAILED) {
        return team->failure;
    }
    while (status == UCC_OK && team->forming->step != STEP_COMPLETE) {
        status = step(team);
        if (status == UCC_INPROGRESS) {
            sched_yield(); /* those endpoints' threads may need this processor */
            status = hd_ticks() - since < PATIENCE_US * hd_ticks_per_us ? UCC_OK : UCC_ERR_IO_ERROR;
        }
    }
    if (status != UCC_OK) {
        hd_form_fail(team, status);
        team->forming->excluded = true; /* counted: whoever comes to the meeting later is told */
        return status;
    }
    if (hd_group_is_complete(team->group)) {
        hd_form_drop(team);
    } else {
        /* this endpoint has been counted: should it leave early, the others still meet */
        team->forming->excluded = true;
    }
    team->state = HD_TEAM_ACTIVE;
    return UCC_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

ucc_status_t hd_team_destroy(ucc_team_h team) {
    if (team->forming && team->forming->roll.request) {
        hd_error("team destroyed while its oob allgather is outstanding at endpoint %u",
                 team->forming->roll.oob.oob_ep);
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
    if (team->state == HD_TEAM_FORMING && team->forming->step == STEP_SPLIT) {
        if (hd_form_split_lingers(team)) {
            return UCC_INPROGRESS;
        }
        team->state = team->forming->excluded ? HD_TEAM_EXCLUDED : HD_TEAM_FORMING;
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
    if (team->member) {
        hd_group_leave(team->group, hd_group_member(team->group, team->ep));
    }
    hd_span_drain();
    if (team->crossing && hd_crossing_lingers(team->crossing)) {
        return UCC_INPROGRESS;
    }
    if (team->group && hd_put_lingers(team->group)) {
        /* the user may free this endpoint's part of the team's memory after this */
        return UCC_INPROGRESS;
    }
    hd_team_leave(team);
    return UCC_OK;
}

void hd_team_leave(ucc_team_h team) {
    bool crosses = team->crossing && !hd_group_is_inherited(team->group);
    if (crosses) {
        hd_net_pump(team->crossing->net); /* a greeting that has failed ends here */
    }
    hd_team_free(team);
    if (crosses) {
        hd_span_drain(); /* as its network team ended, legs of other teams may have ended, too */
    }
}
