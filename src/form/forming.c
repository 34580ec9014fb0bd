/* forming.c: what all ways of forming a team use: the state of an endpoint that forms one
 * (team->forming), from its beginning to its end, and the exchanges and meetings that it waits for.
 * One exchange is outstanding at a time. Only files of form/ call these functions.
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
    if (f->pinned) {
        hd_home_unpin(f->pinned);
    }
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
    hd_free(f->all);
    hd_free(f->seen);
    hd_free(f);
    team->forming = NULL;
}

ucc_status_t hd_form_exchange(ucc_team_h team, void *mine, void *all, size_t bytes) {
    hd_forming_t *f = team->forming;
    hd_assert(!f->request); /* one at a time */
    ucc_status_t status = f->oob.allgather(mine, all, bytes, f->oob.coll_info, &f->request);
    if (status < 0) {
        hd_error("oob.allgather failed: %s", ucc_status_string(status));
    }
    return status < 0 ? status : UCC_OK;
}

ucc_status_t hd_form_exchanged(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_assert(f->step <= STEP_ADDRESSES);
    ucc_status_t status = f->oob.req_test(f->request);
    if (status == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    ucc_status_t freed = f->oob.req_free(f->request);
    f->request = NULL;
    if (status < 0 || freed < 0) {
        status = status < 0 ? status : freed;
        hd_error("oob allgather of the team failed at endpoint %u: %s", f->oob.oob_ep,
                 ucc_status_string(status));
        return status;
    }
    return UCC_OK;
}

void *hd_form_make_nothing(void *arg) {
    (void)arg;
    return NULL;
}

void hd_form_drop_group(void *object) {
    hd_home_unpin(&((hd_group_t *)object)->home);
}

ucc_status_t hd_form_meeting_status(ucc_team_h team) {
    ucc_status_t failed = hd_meeting_failed(team->forming->meeting);
    if (failed != UCC_OK) {
        hd_error("endpoint %u: another endpoint has failed to form the team: %s", team->ep,
                 ucc_status_string(failed));
    }
    return failed;
}
