/* oob.c: forming a team by one out-of-band allgather. Each endpoint puts up a notice
 * (threads/meet.h) and contributes a record with its number. If there are several processes, the
 * roll is called (roll.h). Then the endpoints of each process meet (meet.c): they know each other
 * by the first record.
 *
 * The exchange may fail at some endpoints only, or an endpoint may fail after it. Then its notice
 * carries the failure, or is taken down; an endpoint that waits for the others looks at their
 * notices now and then (meet.c).
 */
#include "form/internal.h"

#include <stdlib.h>

/* The number in the record of an endpoint that does not know its number yet. */
#define UNPLACED UINT32_MAX

static ucc_status_t check(const ucc_team_params_t *p, bool unplaced) {
    const ucc_oob_coll_t *oob = &p->oob;
    if (oob->n_oob_eps != 1 && (!oob->allgather || !oob->req_test || !oob->req_free)) {
        hd_error("ucc_team_create_post: oob.%s is NULL", !oob->allgather  ? "allgather"
                                                         : !oob->req_test ? "req_test"
                                                                          : "req_free");
        return UCC_ERR_INVALID_PARAM;
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

ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params, bool unplaced) {
    hd_roll_t *roll = &team->forming->roll;
    hd_notice_t *notice = &team->forming->notice;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool contiguous = has_ep && (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                      params->ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG;
    uint64_t number = contiguous ? params->ep : params->oob.oob_ep;
    ucc_status_t status = check(params, unplaced);
    team->n = params->oob.n_oob_eps;
    team->given.oob = params->oob;
    if (status == UCC_OK && !unplaced && number >= team->n) {
        hd_error("ep %llu is not below the team's size %u", (unsigned long long)number, team->n);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status == UCC_OK) {
        status = hd_roll_begin(roll, &params->oob, "endpoint", team->lib->config);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (unplaced) {
        roll->oob.oob_ep = (uint32_t)params->ep; /* for log lines */
    }
    team->ep = roll->oob.oob_ep; /* until records are there */
    hd_notice_put_up(notice);
    roll->mine.number = unplaced ? UNPLACED : (uint32_t)number;
    roll->mine.label = has_ep ? params->ep : params->oob.oob_ep;
    roll->mine.serial = notice->serial;
    roll->mine.sync_type = (uint8_t)team->sync_type;
    team->forming->step = STEP_GATHER;
    return hd_roll_give(roll, &roll->mine, roll->all, sizeof(roll->mine));
}

/* --- endpoints whose places nobody has told --------------------------------------------------- */

static int compare_labels(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Numbers all endpoints by the ranks of their labels; equal labels get equal numbers. */
static void number_by_rank(hd_roll_t *roll) {
    uint32_t n = roll->oob.n_oob_eps;
    uint64_t *sorted = hd_roll_words(roll);
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = roll->all[i].label;
    }
    qsort(sorted, n, sizeof(*sorted), compare_labels);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *at =
            bsearch(&roll->all[i].label, sorted, n, sizeof(*sorted), compare_labels);
        roll->all[i].number = (uint32_t)(at - sorted);
    }
}

/* Finds this endpoint's record, and numbers all. Every endpoint comes to the same numbers, since
 * all have the same records in the same order. */
static ucc_status_t find_places(ucc_team_h team) {
    hd_roll_t *roll = &team->forming->roll;
    hd_record_t *all = roll->all;
    uint32_t me = team->n;
    bool same = team->n > 1, placed = false;
    for (uint32_t i = 0; i < team->n; i++) {
        bool mine = all[i].serial == roll->mine.serial;
        me = mine && hd_record_same_process(&all[i], &roll->mine) ? i : me;
        same &= all[i].label == all[0].label;
        placed |= all[i].number != UNPLACED;
    }
    if (me == team->n || placed) {
        hd_error("oob.allgather has returned %s at endpoint %u of %u",
                 placed ? "a record that was not given to it, or not by a draft's call"
                        : "others' records, and not the caller's own",
                 roll->oob.oob_ep, team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    for (uint32_t i = 0; same && i < team->n; i++) {
        all[i].label = i; /* nobody has given a label: then the places are the labels */
    }
    number_by_rank(roll);
    roll->mine.number = all[me].number;
    roll->mine.label = all[me].label;
    team->ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    for (uint32_t i = 0; i < team->n; i++) {
        if (all[i].number != all[i].label) {
            team->ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
        }
    }
    return UCC_OK;
}

/* --- the records ------------------------------------------------------------------------------ */

/* Checks that the records agree, and every number is there once. */
static ucc_status_t check_records(hd_roll_t *roll) {
    ucc_status_t status = hd_roll_disagreement(roll);
    uint64_t *seen = hd_roll_words(roll);
    for (uint32_t i = 0; i < roll->oob.n_oob_eps && status == UCC_OK; i++) {
        const hd_record_t *r = &roll->all[i];
        if (r->number >= roll->oob.n_oob_eps || seen[r->number]++) {
            hd_error("ep %llu is %s", (unsigned long long)r->label,
                     r->number < roll->oob.n_oob_eps ? "taken twice" : "out of range");
            status = UCC_ERR_INVALID_PARAM;
        }
    }
    return status;
}

/* The records are good: enters the meeting of this process's endpoints. If there are several
 * processes, and this fails, the roll's next exchange tells the others. */
static ucc_status_t meet(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    const hd_record_t *first = &f->roll.all[0];
    hd_meet_key_t key = {.kind = HD_MEET_LIST,
                         .id = first->serial,
                         .list = {{first->process[0], first->process[1]}}};
    uint32_t i = 0, me = team->ep = f->roll.mine.number;
    while (i < team->n && hd_record_same_process(&f->roll.all[i], &f->roll.mine)) {
        i++;
    }
    if (i == team->n) {
        return hd_form_start_meeting(team, &key, team->n, me, true);
    }
    f->group_config = hd_team_group_config(team->lib, team->sync_type, team->n);
    f->roll.group_config = &f->group_config;
    f->roll.by_nodes = true;
    hd_roll_take(&f->roll);
    if (f->roll.trouble == UCC_OK) {
        const hd_span_t *span = f->roll.span;
        f->roll.trouble = hd_form_start_meeting(team, &key, hd_span_count(span, span->mine),
                                                span->local_of[me], true);
        f->roll.meeting = f->meeting;
    }
    f->step = STEP_ROLL;
    return UCC_OK;
}

ucc_status_t hd_form_gather(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = hd_roll_taken(&f->roll);
    status = status == UCC_OK ? hd_roll_refusal(&f->roll) : status;
    status = status == UCC_OK && f->roll.mine.number == UNPLACED ? find_places(team) : status;
    status = status == UCC_OK ? check_records(&f->roll) : status;
    return status == UCC_OK ? meet(team) : status;
}

/* --- several processes ------------------------------------------------------------------------ */

static uint32_t count_hosts(const hd_roll_t *roll) {
    uint32_t hosts = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint32_t q = 0;
        while (hd_roll_first(roll, q)->host != hd_roll_first(roll, p)->host) {
            q++;
        }
        hosts += q == p;
    }
    return hosts;
}

ucc_status_t hd_form_call_roll(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = hd_roll_call(&f->roll);
    if (status != UCC_OK) {
        return status;
    }
    f->wire = hd_roll_serial(&f->roll);
    f->obstacle = f->roll.together ? NULL : hd_roll_obstacles(&f->roll);
    f->process = f->roll.together ? NULL : hd_roll_processes(&f->roll);
    f->step = STEP_MEET;
    if (f->participant == 0) {
        hd_debug("team of %u endpoints in %u processes on %u hosts%s", team->n,
                 f->roll.span->processes, count_hosts(&f->roll),
                 f->roll.together             ? ", which share memory"
                 : hd_roll_is_mixed(&f->roll) ? ", which share memory by nodes"
                                              : "");
    }
    return UCC_OK;
}
