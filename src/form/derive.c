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

/* Hands the handle to the caller, or frees it if it could not begin to form. */
static ucc_status_t give_out(ucc_team_h team, ucc_status_t status, ucc_team_h *out) {
    if (status == UCC_OK) {
        *out = team;
    } else {
        hd_team_free(team);
    }
    return status;
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
    f->parent = parent->group;
    f->parent_ep = parent->ep;
    f->split = number;
    hd_home_pin(&f->parent->home);
    ucc_status_t status = hd_form_start_meeting(
        team, &key, parent->group->n, hd_group_member(parent->group, parent->ep), included);
    if (status != UCC_OK) {
        if (f->uncounted) { /* it may be tried again, and the others wait at this number */
            hd_lock(&parent->lock);
            parent->splits -= parent->splits == number;
            hd_unlock(&parent->lock);
        }
        return give_out(team, status, out);
    }
    f->split_of = parent->n;
    f->uncounted = parent->crossing != NULL; /* it still has to come to the new team's meeting */
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

/* Returns what teams of lists of the parent's endpoints are made from. */
static hd_known_t known_of(ucc_team_h parent) {
    hd_known_t known = {.lock = &parent->lock, .lists = &parent->lists};
    if (parent->crossing) {
        known.span = parent->crossing->span;
        known.identity = parent->crossing->identity;
        known.origin = parent->crossing->wire;
    }
    return known;
}

/* Returns what the members of a list of the parent's endpoints meet by. */
static hd_meet_key_t key_of(const ucc_team_h parent, hd_fingerprint_t list) {
    return (hd_meet_key_t){.kind = HD_MEET_LIST, .scope = parent->group->serial, .list = list};
}

void hd_team_refuse_list(ucc_team_h parent, hd_entry_fn *at, const void *list, uint32_t n) {
    hd_fingerprint_t fingerprint = hd_fingerprint_begin(n);
    uint32_t me = n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ep = at(list, i);
        if (ep >= parent->n) {
            return; /* a list that is refused at all */
        }
        hd_fingerprint_add(&fingerprint, ep);
        me = ep == parent->ep ? i : me;
    }
    if (me < n) {
        hd_known_t known = known_of(parent);
        hd_meet_key_t key = key_of(parent, fingerprint);
        hd_form_refuse_list(&known, &key, at, list, n, me);
    }
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
    return give_out(team, status, out);
}

ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n,
                               ucc_team_h *out) {
    uint32_t me;
    if (is_inherited(parent)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (n > parent->n) {
        hd_error("num_eps %llu is more than the parent's %u", (unsigned long long)n, parent->n);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_form_check_list(eps, n, parent->n, parent->ep, &me);
    if (status == UCC_OK && me == HD_MEET_ANY) {
        hd_error("the list of endpoints does not contain the caller's %u", parent->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_team_h team = status == UCC_OK ? heir(parent) : NULL;
    if (!team) {
        status = status == UCC_OK ? UCC_ERR_NO_MEMORY : status;
        if (status == UCC_ERR_NO_MEMORY) {
            hd_team_refuse_list(parent, hd_wide_entry, eps, (uint32_t)n);
        }
        return status;
    }
    hd_known_t known = known_of(parent);
    hd_meet_key_t key = key_of(parent, hd_fingerprint(eps, (uint32_t)n));
    team->forming->roll.mine.label = me;
    status = hd_form_start_by_list(team, &known, &key, eps, (uint32_t)n, me);
    return give_out(team, status, out);
}
