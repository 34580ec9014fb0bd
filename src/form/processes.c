/* processes.c: the group of a heddle_group that spans processes. One thread of each process comes
 * here (api/endpoints.c) and takes part in exchanges among the processes; the endpoints join later,
 * without an exchange, and when all have, the processes greet each other.
 *
 * The exchanges tell, in this order: what each process is and brings, or why it can't; what the
 * roll has to find out (roll.h; each process is one member there); and whether each has its
 * group.
 */
#include "form/internal.h"

/* Adds up the endpoints of all processes. UCC_ERR_INVALID_PARAM: there are too many (logged). */
static ucc_status_t count(const hd_roll_t *roll, uint32_t *endpoints) {
    *endpoints = 0;
    for (uint32_t p = 0; p < roll->oob.n_oob_eps; p++) {
        if (roll->all[p].label > UINT32_MAX / 2 - *endpoints) {
            hd_error("heddle_group_create: endpoints: %llu more than %u are too many",
                     (unsigned long long)roll->all[p].label, *endpoints);
            return UCC_ERR_INVALID_PARAM;
        }
        *endpoints += (uint32_t)roll->all[p].label;
    }
    return UCC_OK;
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

/* Calls the roll, with each process as one member. */
static ucc_status_t call_roll(hd_roll_t *roll, uint32_t endpoints) {
    uint32_t n = roll->oob.n_oob_eps;
    hd_roll_take(roll);
    roll->of_endpoints = make_span(roll, endpoints);
    if (!roll->of_endpoints) {
        hd_error("heddle_group_create: no memory for a team of %u endpoints", endpoints);
        roll->trouble = UCC_ERR_NO_MEMORY;
    }
    if (roll->span && roll->span->processes != n) {
        hd_error("heddle_group_create: %u take part in the oob, of %u processes only: each is to "
                 "do so once",
                 n, roll->span->processes);
        roll->trouble = UCC_ERR_INVALID_PARAM;
    }
    return hd_roll_call_through(roll);
}

/* Makes this process's group with its crossing. The team's handle only says what is wanted. NULL:
 * no memory (logged). */
static hd_group_t *make_group(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_group_t *group = NULL;
    if (f->roll.together) {
        return hd_kin_found(f->roll.kin);
    }
    f->obstacle = hd_roll_obstacles(&f->roll);
    f->process = hd_roll_processes(&f->roll);
    f->wire = hd_roll_serial(&f->roll);
    hd_free(f->roll.span); /* its members are processes */
    f->roll.span = f->roll.of_endpoints;
    f->roll.of_endpoints = NULL;
    if (hd_form_make_crossing(team, NULL, &group) != UCC_OK) {
        hd_error("heddle_group_create: no memory for a team of %u endpoints", team->n);
    }
    return group;
}

/* Exchanges whether each process has made its group. All processes get the same answer. */
static ucc_status_t confirm(hd_roll_t *roll, ucc_status_t mine) {
    hd_account_t account = {.status = (int32_t)mine};
    ucc_status_t status = hd_roll_exchange(roll, &account, roll->told, sizeof(account));
    for (uint32_t p = 0; status == UCC_OK && p < roll->oob.n_oob_eps; p++) {
        if (roll->told[p].status != UCC_OK) {
            status = hd_roll_blame(roll, p, roll->told[p].status);
        }
    }
    return status;
}

ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **out) {
    hd_forming_t f = {.roll.stall = lib->stall,
                      .roll.mine = {.number = oob->oob_ep,
                                    .label = params->endpoints,
                                    .serial = hd_serial(),
                                    .sync_type = (uint8_t)params->sync_type,
                                    .ordering = (uint8_t)params->ordering}};
    struct ucc_team team = {.lib = lib, .sync_type = params->sync_type, .forming = &f};
    hd_roll_t *roll = &f.roll;
    *out = NULL;
    ucc_status_t status = hd_roll_introduce(roll, oob, "process", lib->config);
    status = status == UCC_OK ? hd_roll_disagreement(roll) : status;
    status = status == UCC_OK ? count(roll, &team.n) : status;
    hd_group_config_t config = hd_team_group_config(lib, params->sync_type, team.n);
    roll->group_config = &config;
    roll->by_nodes = true;
    status = status == UCC_OK ? call_roll(roll, team.n) : status;
    if (status == UCC_OK) {
        hd_group_t *group = make_group(&team);
        status = confirm(roll, group ? UCC_OK : UCC_ERR_NO_MEMORY);
        if (status == UCC_OK) {
            *out = group;
        } else if (group) { /* nobody has joined it, nor has any other process greeted it */
            hd_home_unpin(&group->home);
        }
    }
    hd_free(f.obstacle);
    hd_free(f.process);
    hd_roll_end(roll);
    return status;
}
