/* derive.c: teams from teams: those that all endpoints of a parent make together (split.c), those
 * of a list, and those that are left of a team of several processes (shrink.c). A handle is made
 * that inherits from the parent's, and its endpoint enters a meeting (meet.c).
 */
#include "form/internal.h"
#include "span/span.h"

/* Returns a handle that has the parent's properties, and begins to form. NULL: no memory
 * (logged). */
static ucc_team_h heir(ucc_team_h parent) {
    ucc_team_h team = hd_form_begin(parent->contexts, parent->n_contexts, false);
    if (!team) {
        return NULL;
    }
    team->ordering = parent->ordering;
    team->sync_type = parent->sync_type;
    team->outstanding_colls = parent->outstanding_colls;
    team->thread_mode = parent->thread_mode;
    team->locked = parent->locked;
    team->mem_params = parent->mem_params;
    team->forming->locality = parent->group->locality[hd_group_member(parent->group, parent->ep)];
    return team;
}

/* Returns whether the parent was inherited by the child of a fork, and logs that: its other
 * endpoints are in another process. */
static bool is_inherited(ucc_team_h parent) {
    if (!hd_group_is_inherited(parent->group)) {
        return false;
    }
    hd_group_say_inherited(parent->group);
    return true;
}

/* Nobody knows of the call: it may be tried again, and the others wait at this number. */
static void uncount_split(ucc_team_h parent, uint64_t number) {
    hd_lock(&parent->lock);
    parent->splits -= parent->splits == number;
    hd_unlock(&parent->lock);
}

ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out) {
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_team_h team = heir(parent);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_group_t *group = parent->group;
    hd_lock(&parent->lock);
    uint64_t number = ++parent->splits;
    hd_unlock(&parent->lock);
    hd_meet_key_t key = {.kind = HD_MEET_SPLIT, .scope = group->serial, .id = number};
    hd_forming_t *f = team->forming;
    team->n = parent->n;
    team->ep = parent->ep;
    f->parent = group;
    f->split = key.id;
    hd_home_pin(&group->home);
    if (hd_kin_span(group)) {
        ucc_status_t came = hd_form_come_to_split(team, included);
        if (came != UCC_OK) {
            uncount_split(parent, number);
        }
        return hd_form_give_out(team, came, out);
    }
    const hd_span_t *span = parent->crossing ? parent->crossing->span : NULL;
    uint32_t here = span ? hd_span_count(span, span->mine) : group->n;
    uint32_t me = span ? span->local_of[parent->ep] : parent->ep;
    ucc_status_t status = hd_form_start_meeting(team, &key, here, me, included);
    if (status != UCC_OK) {
        if (!f->counted) {
            uncount_split(parent, number);
        }
        return hd_form_give_out(team, status, out);
    }
    f->excluded = !included;
    f->step = parent->crossing ? STEP_SPLIT : STEP_MEET;
    if (parent->crossing && hd_meeting_is_complete(f->meeting)) {
        /* the last endpoint here starts the exchange among the processes, and drives it */
        status = hd_form_split(team);
        if (status < 0) {
            hd_form_fail(team, status); /* create_test will tell */
        }
    } else if (f->excluded) {
        hd_form_drop(team); /* the endpoint has been counted, and takes no further part */
        team->state = HD_TEAM_EXCLUDED;
    }
    *out = team;
    return UCC_OK;
}

ucc_status_t hd_team_shrink(ucc_team_h parent, hd_origin_t *origin, ucc_team_h *out) {
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!parent->crossing && !hd_kin_span(parent->group)) {
        hd_error("a team inside one process has nobody to lose");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_team_h team = heir(parent);
    return hd_form_give_out(team, hd_form_start_shrink(parent, origin, team), out);
}

ucc_status_t hd_team_from_list(ucc_team_h parent, const hd_list_t *list, ucc_team_h *out) {
    uint32_t me;
    hd_known_t known = {.scope = parent->group->serial,
                        .reach = hd_form_reach_of(parent->group),
                        .lock = &parent->lock,
                        .lists = &parent->lists};
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = hd_form_check_list(list, parent->n, parent->ep, &me);
    if (status == UCC_ERR_INVALID_PARAM) {
        return status;
    }
    if (parent->crossing) {
        known.net = parent->crossing->net;
        known.origin = parent->crossing->wire;
    } else if (known.reach.scope) {
        known.origin = hd_kin_wire(parent->group);
    }
    ucc_team_h team = status == UCC_OK ? heir(parent) : NULL;
    status = hd_form_start_by_list(team, &known, list, me);
    return hd_form_give_out(team, status, out);
}
