/* forming.c: what all ways of forming a team use: the state of an endpoint that forms one
 * (team->forming), from its beginning to its end, and how it learns that another endpoint of this
 * process has given up. That one has failed their meeting, or, if it never came there, its notice
 * says so, or is gone. Only files of form/ call these functions.
 */
#include "form/internal.h"

#include "core/fork.h"

ucc_status_t hd_form_begin(ucc_team_h team) {
    team->forming = hd_alloc(HD_LINE, sizeof(*team->forming));
    if (!team->forming) {
        hd_error("no memory to form a team");
        return UCC_ERR_NO_MEMORY;
    }
    team->forming->forks = hd_forks();
    return UCC_OK;
}

void hd_form_drop(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f) {
        return;
    }
    if (team->refuses) { /* such a handle has nothing else, and this is part of its own memory */
        team->forming = NULL;
        return;
    }
    hd_notice_take_down(&f->notice);
    if (f->meeting) {
        hd_meeting_release(f->meeting, f->excluded);
    }
    if (f->parent) {
        hd_home_unpin(&f->parent->home);
    }
    if (f->owns_memory) {
        hd_free_part(f->memory, f->bytes);
    }
    if (f->forks != hd_forks()) {
        f->roll.net = NULL; /* a forked child does not share its parent's references */
    }
    hd_roll_end(&f->roll);
    hd_free(f->process);
    hd_free(f->origin.endpoint);
    hd_free(f);
    team->forming = NULL;
}

/* Returns why the endpoint of a record will not come (logged); UCC_OK: not as far as is known.
 * Another process's notices aren't here; its failure comes by the network. */
static ucc_status_t look_at(const ucc_team_h team, const hd_record_t *r) {
    if (!hd_record_same_process(r, &team->forming->roll.mine)) {
        return UCC_OK;
    }
    ucc_status_t why = hd_notice_read(r->serial, NULL);
    /* An endpoint may take its notice down once all have joined. If it has done so, this endpoint
     * sees that all have joined, too, as it looks now. */
    if (why >= 0 || (team->group && hd_group_all_joined(team->group))) {
        return UCC_OK;
    }
    hd_error("team of %u: endpoint %u %s before all had joined: %s", team->n, r->number,
             why == UCC_ERR_NOT_FOUND ? "went" : "failed", ucc_status_string(why));
    return why;
}

ucc_status_t hd_form_look_around(ucc_team_h team) {
    const hd_record_t *all = team->forming->roll.all;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; all && i < team->n && status == UCC_OK; i++) {
        status = look_at(team, &all[i]);
    }
    return status;
}

ucc_status_t hd_form_meeting_status(ucc_team_h team) {
    ucc_status_t failed = hd_meeting_failed(team->forming->meeting);
    if (failed != UCC_OK && hd_form_look_around(team) == UCC_OK) { /* that could not say who */
        hd_error("endpoint %u: another endpoint has failed to form the team: %s", team->ep,
                 ucc_status_string(failed));
    }
    return failed;
}

ucc_status_t hd_form_watch(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t failed = hd_form_meeting_status(team);
    if (failed != UCC_OK || !f->roll.all || ++f->looks % HD_WATCH_EVERY != 0) {
        return failed;
    }
    const hd_record_t *r = &f->roll.all[f->watched];
    f->watched = f->watched + 1 < team->n ? f->watched + 1 : 0;
    return look_at(team, r);
}
