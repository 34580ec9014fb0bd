/* derive.c: teams from teams: those that all endpoints of a parent make together (split.c), those
 * of a list, and those that are left of a team of several processes (shrink.c). A handle is made
 * that inherits from the parent's, and its endpoint enters a meeting (meet.c). From there on it is
 * driven as any other team is. Only api/ calls these functions.
 */
#include "form/internal.h"
#include "span/span.h"

/* Returns a handle that has the parent's properties, and begins to form. NULL: no memory
 * (logged). */
static ucc_team_h heir(ucc_team_h parent) {
    ucc_team_h team = hd_team_alloc(parent->contexts, parent->n_contexts);
    if (!team || hd_form_begin(team) != UCC_OK) {
        if (team) {
            hd_team_free(team);
        }
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

ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out) {
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_team_h team = heir(parent);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_lock(&parent->lock);
    uint64_t number = ++parent->splits;
    hd_unlock(&parent->lock);
    hd_meet_key_t key = {.kind = HD_MEET_SPLIT, .scope = parent->group->serial, .id = number};
    hd_forming_t *f = team->forming;
    if (parent->crossing) {
        f->parent = parent->group;
        f->parent_ep = parent->ep;
        f->split = number;
        hd_home_pin(&f->parent->home);
    }
    ucc_status_t status = hd_form_start_meeting(
        team, &key, parent->group->n, hd_group_member(parent->group, parent->ep), included);
    f->split_of = parent->n;
    f->excluded = status == UCC_OK && !included;
    if (status == UCC_OK && parent->crossing && hd_meeting_is_complete(f->meeting)) {
        /* The last endpoint here starts the exchange among the processes, and drives it.
         * create_test will tell how that ends. */
        (void)hd_form_split(team);
    } else if (f->excluded) {
        hd_form_drop(team); /* the endpoint has been counted, and takes no further part */
        team->state = HD_TEAM_EXCLUDED;
    }
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}

void hd_team_refuse_list(ucc_team_h parent, hd_fingerprint_t list, uint32_t n, uint32_t me) {
    hd_meet_key_t key = {.kind = HD_MEET_LIST, .scope = parent->group->serial, .list = list};
    hd_form_refuse_meeting(&key, n, me, UCC_ERR_NO_MEMORY);
    /* The others may meet as those members who live here instead (cross_from_list): refuse that
     * meeting, too. Other processes have their time-outs. */
    if (parent->crossing) {
        hd_lock(&parent->lock);
        key.id = hd_form_count_list(&parent->lists, list);
        hd_unlock(&parent->lock);
        hd_form_refuse_meeting(&key, n, me, UCC_ERR_NO_MEMORY);
    }
}

/* The members of the list live in several processes of the parent. Takes the span. */
static ucc_status_t cross_from_list(ucc_team_h parent, ucc_team_h team, hd_span_t *span,
                                    const uint64_t *eps, const hd_meet_key_t *key, uint32_t me) {
    const hd_crossing_t *crossing = parent->crossing;
    hd_lock(&parent->lock);
    uint64_t ordinal = hd_form_count_list(&parent->lists, key->list);
    hd_unlock(&parent->lock);
    if (!ordinal) {
        hd_free(span);
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = hd_form_cross_from(team, span, crossing, eps);
    return status == UCC_OK ? hd_form_start_crossing(team, key, ordinal, crossing->wire, me)
                            : status;
}

/* Enters the meeting of the list's members, of which the caller is the me-th. */
static ucc_status_t start_from_list(ucc_team_h parent, ucc_team_h team, const uint64_t *eps,
                                    hd_fingerprint_t list, uint32_t me) {
    hd_meet_key_t key = {.kind = HD_MEET_LIST, .scope = parent->group->serial, .list = list};
    hd_span_t *span = NULL;
    if (parent->crossing &&
        !(span = hd_form_span_of_list(parent->crossing->span, eps, team->n, me))) {
        return UCC_ERR_NO_MEMORY;
    }
    if (span && span->processes > 1) {
        return cross_from_list(parent, team, span, eps, &key, me);
    }
    hd_free(span);
    return hd_form_start_meeting(team, &key, team->n, me, true);
}

ucc_status_t hd_team_shrink(ucc_team_h parent, ucc_team_h *out) {
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!parent->crossing) {
        hd_error("a team inside one process has nobody to lose");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_team_h team = heir(parent);
    if (!team) {
        hd_form_refuse_shrink(parent);
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = hd_form_start_shrink(parent, team);
    if (team->forming) {
        team->forming->mine.label = team->ep;
    }
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}

ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n,
                               ucc_team_h *out) {
    uint32_t me = HD_MEET_ANY;
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (n > parent->n) {
        hd_error("num_eps %llu is more than the parent's %u", (unsigned long long)n, parent->n);
        return UCC_ERR_INVALID_PARAM;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (eps[i] == parent->ep) {
            me = i;
        }
    }
    hd_fingerprint_t fingerprint = hd_fingerprint(eps, (uint32_t)n);
    ucc_status_t status = hd_form_check_list(eps, n, parent->n);
    if (status == UCC_ERR_NO_MEMORY && me != HD_MEET_ANY) {
        hd_team_refuse_list(parent, fingerprint, (uint32_t)n, me);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (me == HD_MEET_ANY) {
        hd_error("the list of endpoints does not contain the caller's %u", parent->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_team_h team = heir(parent);
    if (!team) {
        hd_team_refuse_list(parent, fingerprint, (uint32_t)n, me);
        return UCC_ERR_NO_MEMORY;
    }
    team->n = (uint32_t)n;
    status = start_from_list(parent, team, eps, fingerprint, me);
    team->forming->mine.label = team->ep;
    if (status != UCC_OK) {
        hd_team_free(team);
        return status;
    }
    *out = team;
    return UCC_OK;
}
