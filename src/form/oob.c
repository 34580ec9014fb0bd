/* oob.c: forming a team by one out-of-band allgather. Each endpoint puts up a notice
 * (threads/meet.h) and contributes a record with its number. If there are several processes, the
 * roll is called (roll.h). Then the endpoints of each process meet, as those of other teams do
 * (meet.c): they know each other by the record of number 0.
 *
 * The exchange may fail at some endpoints only, or an endpoint may fail after it. Then its notice
 * carries the failure, or is taken down; an endpoint that waits for the others looks at their
 * notices now and then (meet.c). An endpoint that lacks memory before the exchange enters it all
 * the same, and its record says why nobody will have the team.
 *
 * form.c calls these functions, step by step.
 */
#include "form/internal.h"

#include <stdlib.h>

/* The number in the record of an endpoint that does not know its number yet. */
#define UNPLACED UINT32_MAX

/* Fills in what this endpoint says to the others. */
static void introduce(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool contiguous = (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                      params->ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG;
    hd_record_t *mine = &f->roll.mine;
    f->roll.oob = team->given.oob = params->oob;
    team->n = params->oob.n_oob_eps;
    mine->label = has_ep ? params->ep : params->oob.oob_ep;
    uint64_t number = has_ep && contiguous ? params->ep : params->oob.oob_ep;
    mine->number = number < UNPLACED ? (uint32_t)number : UNPLACED;
    if (f->unplaced) {
        mine->number = UNPLACED;
        f->roll.oob.oob_ep = (uint32_t)params->ep; /* for log lines */
    }
    mine->sync_type = (uint8_t)team->sync_type;
    hd_record_sign(mine, team->lib->config);
}

ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    introduce(team, params);
    if (!f->unplaced && f->roll.mine.number >= team->n) {
        hd_error("ep %llu is not below the team's size %u", (unsigned long long)params->ep,
                 team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_roll_begin(&f->roll, &f->roll.oob, "endpoint", team->lib->stall);
    if (status == UCC_OK) {
        hd_notice_put_up(&f->notice);
        f->roll.mine.serial = f->notice.serial;
    }
    return status;
}

ucc_status_t hd_form_enter_oob(ucc_team_h team) {
    hd_roll_t *roll = &team->forming->roll;
    team->forming->step = STEP_GATHER;
    if (team->n == 1) {
        roll->all[0] = roll->mine; /* there is nobody to exchange with */
        return UCC_OK;
    }
    return hd_roll_give(roll, &roll->mine, roll->all, sizeof(roll->mine));
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
    team->forming->roll.who = "endpoint";
    team->forming->roll.all = r->all;
    team->forming->roll.mine.trouble = UCC_ERR_NO_MEMORY;
    introduce(team, params);
    return team;
}

/* --- endpoints whose places nobody has told --------------------------------------------------- */

static int compare_labels(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Numbers all endpoints by the ranks of their labels, which must all be different. */
static ucc_status_t number_by_rank(ucc_team_h team) {
    hd_record_t *all = team->forming->roll.all;
    uint64_t *sorted = hd_roll_words(&team->forming->roll);
    for (uint32_t i = 0; i < team->n; i++) {
        sorted[i] = all[i].label;
    }
    qsort(sorted, team->n, sizeof(*sorted), compare_labels);
    for (uint32_t i = 0; i < team->n; i++) {
        if (i > 0 && sorted[i] == sorted[i - 1]) {
            hd_error("ep %llu is taken twice", (unsigned long long)sorted[i]);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    for (uint32_t i = 0; i < team->n; i++) {
        const uint64_t *at =
            bsearch(&all[i].label, sorted, team->n, sizeof(*sorted), compare_labels);
        all[i].number = (uint32_t)(at - sorted);
    }
    return UCC_OK;
}

/* If all endpoints have the same label, nobody has given one: then the places are the labels. */
static void give_labels(ucc_team_h team) {
    hd_record_t *all = team->forming->roll.all;
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
    hd_roll_t *roll = &team->forming->roll;
    uint32_t me = 0;
    while (me < team->n && (roll->all[me].serial != roll->mine.serial ||
                            !hd_record_same_process(&roll->all[me], &roll->mine))) {
        me++;
    }
    for (uint32_t i = 0; i < team->n; i++) {
        if (me == team->n || roll->all[i].number != UNPLACED) {
            hd_error("oob.allgather has returned %s at endpoint %u of %u",
                     me == team->n ? "others' records, and not the caller's own"
                                   : "a record that was not given to it, or not by a draft's call",
                     roll->oob.oob_ep, team->n);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    give_labels(team);
    ucc_status_t status = number_by_rank(team);
    roll->mine.number = roll->all[me].number;
    roll->mine.label = roll->all[me].label;
    team->ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    for (uint32_t i = 0; i < team->n; i++) {
        if (roll->all[i].number != roll->all[i].label) {
            team->ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
        }
    }
    return status;
}

/* --- the records ------------------------------------------------------------------------------ */

/* Returns why some endpoint can't form the team (logged); UCC_OK: all can. An endpoint is named by
 * its place, which is the same at all. */
static ucc_status_t look_for_refusals(const ucc_team_h team) {
    const hd_roll_t *roll = &team->forming->roll;
    uint32_t place;
    if (roll->mine.trouble != UCC_OK) {
        return (ucc_status_t)roll->mine.trouble;
    }
    ucc_status_t status = hd_roll_refusal(roll, &place);
    if (status != UCC_OK) {
        hd_error("team of %u: endpoint %u of its oob can't take part: %s", team->n, place,
                 ucc_status_string(status));
    }
    return status;
}

/* Logs in what two records differ, and must not. UCC_OK: in nothing. */
static ucc_status_t compare(const hd_record_t *r, const hd_record_t *first) {
    if (r->version != first->version) {
        hd_error("version of Heddle: %u at one endpoint of the team, %u at another", first->version,
                 r->version);
        return UCC_ERR_INVALID_PARAM;
    }
    const char *name = hd_record_same_process(r, first) ? NULL : hd_record_disagreed(r, first);
    if (name) {
        hd_error("configuration: %s differs between processes of the team", name);
    }
    return name ? UCC_ERR_INVALID_PARAM : UCC_OK;
}

/* Checks the records: all have the same version and configuration, every number is there once, and
 * all want the same kind of team. */
static ucc_status_t check_records(const ucc_team_h team) {
    hd_roll_t *roll = &team->forming->roll;
    const hd_record_t *mine = &roll->mine;
    uint64_t *seen = hd_roll_words(roll);
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        status = compare(&roll->all[i], &roll->all[0]);
    }
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        const hd_record_t *r = &roll->all[i];
        if (r->number >= team->n || seen[r->number]++) {
            hd_error("ep %u is out of range or taken twice", r->number);
            status = UCC_ERR_INVALID_PARAM;
        } else if (r->sync_type != mine->sync_type) {
            hd_error("sync_type: endpoint %u has %u, endpoint %u has %u", mine->number,
                     mine->sync_type, r->number, r->sync_type);
            status = UCC_ERR_INVALID_PARAM;
        }
    }
    return status;
}

/* Returns the record of number 0, by which the team is known. The records have been checked. */
static const hd_record_t *first_of(const hd_roll_t *roll) {
    const hd_record_t *r = roll->all;
    while (r->number != 0) {
        r++;
    }
    return r;
}

/* The records are good: enters the meeting of this process's endpoints. If there are several
 * processes, and this fails, the roll's next exchange tells the others. */
static ucc_status_t meet(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    const hd_record_t *first = first_of(&f->roll);
    hd_meet_key_t key = {.kind = HD_MEET_LIST,
                         .id = first->serial,
                         .list = {{first->process[0], first->process[1]}}};
    uint32_t i = 0;
    team->ep = f->roll.mine.number;
    while (i < team->n && hd_record_same_process(&f->roll.all[i], &f->roll.mine)) {
        i++;
    }
    if (i == team->n) {
        return hd_form_meet_members(team, &key);
    }
    hd_roll_take(&f->roll);
    if (f->roll.trouble == UCC_OK) {
        f->roll.trouble = hd_form_meet_members(team, &key);
    }
    f->step = STEP_ROLL;
    return UCC_OK;
}

ucc_status_t hd_form_gather(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = team->n > 1 ? hd_roll_taken(&f->roll) : UCC_OK;
    status = status == UCC_OK ? look_for_refusals(team) : status;
    status = status == UCC_OK && f->unplaced ? find_places(team) : status;
    status = status == UCC_OK ? check_records(team) : status;
    return status == UCC_OK ? meet(team) : status;
}

/* --- several processes ------------------------------------------------------------------------ */

static uint32_t count_hosts(const hd_roll_t *roll) {
    uint32_t hosts = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint64_t mine = roll->all[roll->place_of[hd_span_endpoint(roll->span, p, 0)]].host;
        uint32_t q = 0;
        while (roll->all[roll->place_of[hd_span_endpoint(roll->span, q, 0)]].host != mine) {
            q++;
        }
        hosts += q == p;
    }
    return hosts;
}

ucc_status_t hd_form_call_roll(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = hd_roll_call(&f->roll, team->lib->config);
    if (status < 0 && f->roll.blames) {
        hd_error("team of %u in several processes: endpoint %u can't take part: %s", team->n,
                 f->roll.culprit,
                 status == UCC_ERR_NOT_SUPPORTED ? "its process has no network"
                                                 : ucc_status_string(status));
    }
    if (status != UCC_OK) {
        return status;
    }
    f->wire = hd_roll_serial(first_of(&f->roll));
    f->process = hd_roll_processes(&f->roll);
    f->step = STEP_MEET;
    if (f->participant == 0) {
        hd_debug("team of %u endpoints in %u processes on %u hosts", team->n,
                 f->roll.span->processes, count_hosts(&f->roll));
    }
    return UCC_OK;
}
