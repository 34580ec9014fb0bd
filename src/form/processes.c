/* processes.c: the group of a heddle_group that spans processes. One thread of each process comes
 * here (api/endpoints.c) and takes part in exchanges among the processes, blocking, as it may by
 * contract; the endpoints join later, without an exchange.
 *
 * The exchanges tell, in this order: what each process is and brings, or why it can't; how it got
 * on with the network (roll.h; each process is one member there); the addresses; and whether it has
 * made its group. Nobody waits in vain: a process in trouble says so in the next exchange, and then
 * all leave. The processes greet each other when all endpoints have joined.
 */
#include "form/internal.h"

static const char taker[] = "heddle_group_create: process"; /* for log lines */

/* Returns why a process can't take part (logged), or that a process differs from the first one in
 * what must agree; UCC_OK: neither. Adds up all endpoints. All processes find the same one. */
static ucc_status_t check(const hd_roll_t *roll, uint64_t *endpoints) {
    const hd_record_t *first = &roll->all[0];
    uint32_t place;
    ucc_status_t status = hd_roll_refusal(roll, &place);
    if (status != UCC_OK) {
        hd_error("%s %u can't take part: %s", taker, place, ucc_status_string(status));
    }
    *endpoints = 0;
    for (uint32_t p = 0; p < roll->oob.n_oob_eps && status == UCC_OK; p++) {
        const hd_record_t *r = &roll->all[p];
        const char *what = r->version != first->version       ? "version of Heddle"
                           : r->sync_type != first->sync_type ? "sync_type"
                           : r->ordering != first->ordering   ? "ordering"
                                                              : hd_record_disagreed(r, first);
        *endpoints += r->label < UINT32_MAX ? r->label : UINT32_MAX; /* no sum overflows */
        if (what) {
            hd_error("heddle_group_create: %s differs between process %u and process 0", what, p);
            status = UCC_ERR_INVALID_PARAM;
        }
    }
    if (status == UCC_OK && *endpoints > UINT32_MAX / 2) {
        hd_error("heddle_group_create: endpoints: %llu in all are too many",
                 (unsigned long long)*endpoints);
        status = UCC_ERR_INVALID_PARAM;
    }
    return status;
}

/* Calls the roll, with each process as one member. */
static ucc_status_t call_roll(hd_roll_t *roll, const hd_config_t *config) {
    uint32_t n = roll->oob.n_oob_eps;
    for (uint32_t p = 0; p < n; p++) {
        roll->all[p].number = p;
    }
    hd_roll_take(roll);
    if (roll->span && roll->span->processes != n) {
        hd_error(
            "heddle_group_create: %u take part in the oob, of %u processes only: each is to do "
            "so once",
            n, roll->span->processes);
        roll->trouble = UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_roll_call_through(roll, config);
    if (status != UCC_OK && roll->blames) {
        hd_error("%s %u can't take part: %s", taker, roll->culprit,
                 status == UCC_ERR_NOT_SUPPORTED ? "it has no network" : ucc_status_string(status));
    }
    return status;
}

/* Returns the span in which each process's endpoints follow each other, in the order of the
 * exchange. NULL: no memory. */
static hd_span_t *make_span(const hd_roll_t *roll, uint32_t endpoints) {
    uint32_t *process_of = hd_alloc(HD_LINE, endpoints * sizeof(*process_of)), at = 0, mine = 0;
    for (uint32_t p = 0; process_of && p < roll->oob.n_oob_eps; p++) {
        mine = p == roll->mine.number ? at : mine;
        for (uint32_t i = 0; i < roll->all[p].label; i++) {
            process_of[at++] = p;
        }
    }
    hd_span_t *span = process_of ? hd_span_create(endpoints, process_of, mine) : NULL;
    hd_free(process_of);
    return span;
}

/* Makes this process's group with its crossing. The team's handle only says what is wanted. NULL:
 * no memory (logged). */
static hd_group_t *make_group(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = NULL;
    f->process = hd_roll_processes(&f->roll);
    f->wire = hd_roll_serial(&f->roll.all[0]);
    hd_free(f->roll.span); /* its members are processes */
    f->roll.span = make_span(&f->roll, team->n);
    if (!f->roll.span || hd_form_make_crossing(team, NULL, &group) != UCC_OK) {
        hd_error("heddle_group_create: no memory for a team of %u endpoints", team->n);
    }
    return group;
}

/* Exchanges whether each process has made its group. All processes get the same answer. */
static ucc_status_t confirm(hd_roll_t *roll, ucc_status_t mine) {
    hd_account_t account = {.status = (int32_t)mine};
    ucc_status_t status = hd_roll_exchange(roll, &account, roll->told, sizeof(account));
    for (uint32_t p = 0; status == UCC_OK && p < roll->oob.n_oob_eps; p++) {
        const hd_account_t *told = &roll->told[p];
        if (told->status != UCC_OK) {
            hd_error("heddle_group_create: process %u could not make its part of the group", p);
            status = told->status < 0 ? (ucc_status_t)told->status : UCC_ERR_NO_MESSAGE;
        }
    }
    return status;
}

void hd_team_refuse_processes(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why) {
    hd_roll_refuse(oob, taker, stall, why);
}

ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **out) {
    uint64_t endpoints;
    hd_forming_t f = {.roll.mine = {.number = oob->oob_ep,
                                    .label = params->endpoints,
                                    .serial = hd_serial(),
                                    .sync_type = (uint8_t)params->sync_type,
                                    .ordering = (uint8_t)params->ordering}};
    struct ucc_team team = {.lib = lib, .sync_type = params->sync_type, .forming = &f};
    hd_roll_t *roll = &f.roll;
    *out = NULL;
    hd_record_sign(&roll->mine, lib->config);
    if (hd_roll_begin(roll, oob, taker, lib->stall) != UCC_OK) {
        hd_team_refuse_processes(oob, lib->stall, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = hd_roll_exchange(roll, &roll->mine, roll->all, sizeof(roll->mine));
    status = status == UCC_OK ? check(roll, &endpoints) : status;
    status = status == UCC_OK ? call_roll(roll, lib->config) : status;
    if (status == UCC_OK) {
        team.n = (uint32_t)endpoints;
        hd_group_t *group = make_group(&team);
        status = confirm(roll, group ? UCC_OK : UCC_ERR_NO_MEMORY);
        if (status == UCC_OK) {
            *out = group;
        } else if (group) { /* nobody has joined it, nor has any other process greeted it */
            hd_home_unpin(&group->home);
        }
    }
    hd_free(f.process);
    hd_roll_end(roll);
    return status;
}
