/* oob.c: forming a team by one out-of-band allgather. Each endpoint puts up a notice
 * (threads/meet.h) and contributes a record with its number. Number 0 makes the group and hangs it
 * on its notice, where the others find it. The notice stays there until number 0 has seen the team
 * complete, so all have found the group by then. If there are several processes, each has a group,
 * which its lowest number makes (span.c has what comes before that).
 *
 * The exchange may fail at some endpoints only, or an endpoint may fail after it. Then its notice
 * carries the failure, or is taken down; an endpoint that waits for the others looks at their
 * notices now and then. An endpoint that lacks memory before the exchange enters it all the same,
 * and its record says why nobody will have the team.
 *
 * form.c calls these functions, step by step.
 */
#include "form/internal.h"

#include <stdlib.h>
#include <string.h>

/* The number in the record of an endpoint that does not know its number yet. */
#define UNPLACED UINT32_MAX

/* An entry of the table in which labels are sorted. */
typedef struct named {
    uint64_t label;
    uint32_t place;
} named_t;

/* Returns the memory for that table, which lies behind the records and accounts. */
static named_t *sorting_room(const ucc_team_h team) {
    return (named_t *)(void *)(team->forming->roll.told + team->n);
}

/* Fills in what this endpoint says to the others. */
static void introduce(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool contiguous = (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                      params->ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG;
    f->oob = team->given.oob = params->oob;
    team->n = f->oob.n_oob_eps;
    f->mine.label = has_ep ? params->ep : f->oob.oob_ep;
    uint64_t number = has_ep && contiguous ? params->ep : f->oob.oob_ep;
    f->mine.number = number < UNPLACED ? (uint32_t)number : UNPLACED;
    if (f->unplaced) {
        f->mine.number = UNPLACED;
        f->oob.oob_ep = (uint32_t)params->ep; /* for log lines */
    }
    f->mine.sync_type = (uint8_t)team->sync_type;
    hd_process_identity(f->mine.process);
    hd_form_sign(team);
}

ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    introduce(team, params);
    if (!f->unplaced && f->mine.number >= team->n) {
        hd_error("ep %llu is not below the team's size %u", (unsigned long long)params->ep,
                 team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    /* allocate all that may be needed before the second exchange, so that nobody has to leave the
     * others there */
    size_t sorting = f->unplaced ? sizeof(named_t) : 0;
    f->all =
        hd_alloc(HD_LINE_PAIR, team->n * (sizeof(hd_record_t) + sizeof(hd_account_t) + sorting));
    f->seen = hd_alloc(HD_LINE, (team->n + 63) / 64 * sizeof(*f->seen));
    if (!f->all || !f->seen) {
        hd_error("no memory for an exchange among %u endpoints", team->n);
        return UCC_ERR_NO_MEMORY;
    }
    f->roll.told = (hd_account_t *)(void *)(f->all + team->n);
    hd_notice_put_up(&f->notice);
    f->mine.notice = f->notice.serial;
    return UCC_OK;
}

ucc_status_t hd_form_enter_oob(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    f->step = STEP_GATHER;
    if (team->n == 1) {
        f->all[0] = f->mine; /* there is nobody to exchange with */
        return UCC_OK;
    }
    return hd_form_exchange(team, &f->mine, f->all, sizeof(f->mine));
}

/* All that a handle has that only refuses, in one piece of memory. */
typedef struct refusal {
    struct ucc_team team;
    hd_forming_t forming;
    hd_record_t all[];
} refusal_t;

ucc_team_h hd_form_refuse_oob(ucc_context_h context, const ucc_team_params_t *params,
                              bool unplaced) {
    refusal_t *r = hd_roll_room(sizeof(*r) + params->oob.n_oob_eps * sizeof(r->all[0]));
    if (!r) {
        return NULL;
    }
    ucc_team_h team = &r->team;
    team->refuses = true;
    team->contexts = &team->context;
    hd_team_init(team, &context, 1);
    team->forming = &r->forming;
    team->forming->forks = hd_forks();
    team->forming->unplaced = unplaced;
    team->forming->all = r->all;
    team->forming->mine.trouble = UCC_ERR_NO_MEMORY;
    introduce(team, params);
    return team;
}

/* --- endpoints whose places nobody has told --------------------------------------------------- */

static int compare_labels(const void *a, const void *b) {
    uint64_t left = ((const named_t *)a)->label, right = ((const named_t *)b)->label;
    return left < right ? -1 : left > right;
}

/* Numbers all endpoints by the ranks of their labels, which must all be different. */
static ucc_status_t number_by_rank(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    named_t *sorted = sorting_room(team);
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < team->n; i++) {
        sorted[i] = (named_t){f->all[i].label, i};
    }
    qsort(sorted, team->n, sizeof(*sorted), compare_labels);
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        if (i > 0 && sorted[i].label == sorted[i - 1].label) {
            hd_error("ep %llu is taken twice", (unsigned long long)sorted[i].label);
            status = UCC_ERR_INVALID_PARAM;
        }
        f->all[sorted[i].place].number = i;
    }
    return status;
}

/* If all endpoints have the same label, nobody has given one: then the places are the labels. */
static void give_labels(ucc_team_h team) {
    hd_record_t *all = team->forming->all;
    for (uint32_t i = 1; i < team->n; i++) {
        if (all[i].label != all[0].label) {
            return;
        }
    }
    for (uint32_t i = 0; i < team->n && team->n > 1; i++) {
        all[i].label = i;
    }
}

/* Finds this endpoint's record, and numbers all. Every endpoint comes to the same numbers, since
 * all have the same records in the same order. */
static ucc_status_t find_places(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    uint32_t me = 0;
    for (; me < team->n; me++) {
        const hd_record_t *r = &f->all[me];
        if (r->notice == f->mine.notice &&
            memcmp(r->process, f->mine.process, sizeof(r->process)) == 0) {
            break;
        }
    }
    for (uint32_t i = 0; i < team->n; i++) {
        if (me == team->n || f->all[i].number != UNPLACED) {
            hd_error("oob.allgather has returned %s at endpoint %u of %u",
                     me == team->n ? "others' records, and not the caller's own"
                                   : "a record that was not given to it, or not by a draft's call",
                     f->oob.oob_ep, team->n);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    give_labels(team);
    ucc_status_t status = number_by_rank(team);
    f->mine.number = f->all[me].number;
    f->mine.label = f->all[me].label;
    team->ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    for (uint32_t i = 0; i < team->n; i++) {
        if (f->all[i].number != f->all[i].label) {
            team->ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
        }
    }
    return status;
}

/* --- the records ------------------------------------------------------------------------------ */

static bool is_mine(const hd_forming_t *f, const hd_record_t *r) {
    return memcmp(r->process, f->mine.process, sizeof(r->process)) == 0;
}

/* Returns whether all records come from this process. They have been checked. */
static bool are_of_one_process(const ucc_team_h team) {
    uint32_t i = 0;
    while (i < team->n && is_mine(team->forming, &team->forming->all[i])) {
        i++;
    }
    return i == team->n;
}

/* Returns why some endpoint can't form the team (logged); UCC_OK: all can. An endpoint is named by
 * its place, which is the same at all. */
static ucc_status_t look_for_refusals(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    if (f->mine.trouble != UCC_OK) {
        return (ucc_status_t)f->mine.trouble;
    }
    for (uint32_t i = 0; i < team->n; i++) {
        const hd_record_t *r = &f->all[i];
        if (r->version == f->mine.version && r->trouble != UCC_OK) {
            ucc_status_t why = r->trouble < 0 ? (ucc_status_t)r->trouble : UCC_ERR_INVALID_PARAM;
            hd_error("team of %u: endpoint %u of its oob can't take part: %s", team->n, i,
                     ucc_status_string(why));
            return why;
        }
    }
    return UCC_OK;
}

/* Checks the records: every number is there once, and all want the same kind of team and have the
 * same version. */
static ucc_status_t check_records(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    uint64_t *seen = f->seen;
    ucc_status_t status = hd_form_check_signs(team);
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        const hd_record_t *r = &f->all[i];
        if (r->number >= team->n || seen[r->number / 64] >> (r->number % 64) & 1) {
            hd_error("ep %u is out of range or taken twice", r->number);
            status = UCC_ERR_INVALID_PARAM;
        } else if (r->sync_type != f->mine.sync_type) {
            hd_error("sync_type: endpoint %u has %u, endpoint %u has %u", f->mine.number,
                     f->mine.sync_type, r->number, r->sync_type);
            status = UCC_ERR_INVALID_PARAM;
        } else {
            seen[r->number / 64] |= (uint64_t)1 << (r->number % 64);
        }
    }
    return status;
}

ucc_status_t hd_form_gather(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = team->n > 1 ? hd_form_exchanged(team) : UCC_OK;
    if (status != UCC_OK) {
        return status;
    }
    status = look_for_refusals(team);
    if (status == UCC_OK && f->unplaced) {
        status = find_places(team);
    }
    if (status == UCC_OK) {
        status = check_records(team);
    }
    if (status != UCC_OK) {
        return status;
    }
    hd_assert_lt(f->mine.number, team->n);
    f->step = STEP_FIND;
    if (!are_of_one_process(team)) {
        hd_form_span(team);
        f->step = STEP_OPEN;
    }
    return UCC_OK;
}

/* Makes the group of a team in one process. NULL: no memory. */
static hd_group_t *make_local(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_group_config_t config = hd_team_group_config(team->lib, team->sync_type);
    hd_group_t *group = hd_group_create(team->n, &config);
    for (uint32_t i = 0; group && i < team->n; i++) {
        group->labels[f->all[i].number] = f->all[i].label;
    }
    return group;
}

/* Called by the leader only: makes the group, and hangs it on the notice. */
static ucc_status_t make_group(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = f->process ? hd_form_make_spanning(team) : make_local(team);
    if (!group) {
        return hd_form_why_no_group(team);
    }
    hd_notice_change(&f->notice, UCC_OK, &group->home);
    return UCC_OK;
}

/* Logs that an endpoint that is needed will not come, and returns why. */
static ucc_status_t missed(ucc_team_h team, uint64_t number, ucc_status_t why) {
    hd_error("team of %u: endpoint %llu %s before all had joined: %s", team->n,
             (unsigned long long)number, why == UCC_ERR_NOT_FOUND ? "went" : "failed",
             ucc_status_string(why));
    return why;
}

ucc_status_t hd_form_find(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f->checked) {
        f->checked = true;
        ucc_status_t status = f->mine.number == f->leader ? make_group(team) : UCC_OK;
        if (status != UCC_OK) {
            return status;
        }
        while (f->all[f->watched].number != f->leader) {
            f->watched++;
        }
    }
    ucc_status_t status = hd_notice_read(f->all[f->watched].notice, &f->pinned);
    if (status != UCC_OK) {
        return status == UCC_INPROGRESS ? status : missed(team, f->leader, status);
    }
    f->group = (hd_group_t *)f->pinned;
    hd_assert_eq(f->group->team_n, team->n);
    team->ep = f->mine.number;
    f->step = STEP_JOIN;
    return UCC_OK;
}

ucc_status_t hd_form_watch(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (f->meeting) {
        return hd_form_meeting_status(team);
    }
    if (++f->looks % HD_WATCH_EVERY != 0) {
        return UCC_OK;
    }
    const hd_record_t *r = &f->all[f->watched];
    f->watched = f->watched + 1 < team->n ? f->watched + 1 : 0;
    if (!is_mine(f, r)) {
        return UCC_OK; /* another process's notices aren't here; its failure comes by the network */
    }
    ucc_status_t status = hd_notice_read(r->notice, NULL);
    /* An endpoint may take its notice down once all have joined. If it has done so, this endpoint
     * sees that all have joined, too, as it looks now. */
    return status >= 0 || hd_group_all_joined(team->group) ? UCC_OK
                                                           : missed(team, r->number, status);
}
