/* form_oob.c: forming a team by one out-of-band allgather. Each endpoint contributes a record; the record
 * of number 0 points to a seed, in which number 0 leaves the group for the others to find.
 */
#include "team/form.h"

#include <string.h>

/* --- the seed ------------------------------------------------------------------------------------ */

void hd_form_release_seed(hd_seed_t *seed) {
    /* acq_rel: all have read it before it goes */
    if (atomic_fetch_sub_explicit(&seed->refs, 1, memory_order_acq_rel) == 1) {
        /* relaxed: the last reference */
        hd_group_t *group = atomic_load_explicit(&seed->group, memory_order_relaxed);
        if (group) {
            hd_home_unpin(&group->home);
        }
        hd_free(seed);
    }
}

/* --- out of band --------------------------------------------------------------------------------- */

ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params) {
    hd_forming_t *f = team->forming;
    bool has_ep = (params->mask & UCC_TEAM_PARAM_FIELD_EP) != 0;
    bool contiguous = (params->mask & UCC_TEAM_PARAM_FIELD_EP_RANGE) &&
                      params->ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG;
    f->oob = params->oob;
    team->n = f->oob.n_oob_eps;
    f->mine.number = has_ep && contiguous ? params->ep : f->oob.oob_ep;
    f->mine.label = has_ep ? params->ep : f->oob.oob_ep;
    f->mine.sync_type = (uint32_t)team->sync_type;
    f->mine.locality = f->locality;
    hd_process_identity(f->mine.process);
    if (f->mine.number >= team->n) {
        hd_error("ep %llu is not below the team's size %u", (unsigned long long)f->mine.number,
                 team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    if (f->mine.number == 0) {
        f->seed = hd_alloc(HD_LINE, sizeof(*f->seed));
        if (!f->seed) {
            return UCC_ERR_NO_MEMORY;
        }
        atomic_store_explicit(&f->seed->refs, 1, memory_order_relaxed); /* not shared yet */
        f->mine.seed = (uint64_t)(uintptr_t)f->seed;
    }
    f->all = hd_alloc(HD_LINE, team->n * sizeof(hd_record_t));
    f->seen = hd_alloc(HD_LINE, (team->n + 63) / 64 * sizeof(*f->seen));
    if (!f->all || !f->seen) {
        hd_error("no memory for an exchange among %u endpoints", team->n);
        return UCC_ERR_NO_MEMORY;
    }
    f->step = STEP_GATHER;
    if (team->n == 1) {
        f->all[0] = f->mine; /* no exchange with oneself */
        f->step = STEP_SEED;
        return UCC_OK;
    }
    if (f->seed) {
        atomic_store_explicit(&f->seed->refs, team->n, memory_order_relaxed); /* still not shared */
    }
    ucc_status_t status =
        f->oob.allgather(&f->mine, f->all, sizeof(f->mine), f->oob.coll_info, &f->request);
    if (status < 0) {
        if (f->seed) { /* nobody will hear of it */
            atomic_store_explicit(&f->seed->refs, 1, memory_order_relaxed); /* mine alone */
        }
        hd_error("oob.allgather failed: %s", ucc_status_string(status));
    }
    return status < 0 ? status : UCC_OK;
}

/* All records are here: one process? every number once? the same kind of team? */
static ucc_status_t check_records(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    uint64_t *seen = f->seen;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < team->n && status == UCC_OK; i++) {
        const hd_record_t *r = &f->all[i];
        if (memcmp(r->process, f->mine.process, sizeof(r->process)) != 0) {
            hd_error("team of several processes: this build joins threads of one process");
            status = UCC_ERR_NOT_SUPPORTED;
        } else if (r->number >= team->n || seen[r->number / 64] >> (r->number % 64) & 1) {
            hd_error("ep %llu is out of range or taken twice", (unsigned long long)r->number);
            status = UCC_ERR_INVALID_PARAM;
        } else if (r->sync_type != f->mine.sync_type) {
            hd_error("sync_type differs between endpoints");
            status = UCC_ERR_INVALID_PARAM;
        } else {
            seen[r->number / 64] |= (uint64_t)1 << (r->number % 64);
        }
    }
    return status;
}

/* No team will come of these records (all endpoints find the same): nobody will take a seed up, so
 * everybody lets go of all of them; of its own one in hd_form_drop. */
static void release_other_seeds(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    for (uint32_t i = 0; i < team->n; i++) {
        hd_seed_t *seed = (hd_seed_t *)(uintptr_t)f->all[i].seed;
        if (seed && seed != f->seed &&
            memcmp(f->all[i].process, f->mine.process, sizeof(f->mine.process)) == 0) {
            hd_form_release_seed(seed);
        }
    }
}

ucc_status_t hd_form_gather(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = f->oob.req_test(f->request);
    if (status == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    ucc_status_t freed = f->oob.req_free(f->request);
    f->request = NULL;
    if (status < 0 || freed < 0) {
        hd_error("oob allgather of the team failed");
        return status < 0 ? status : freed;
    }
    f->step = STEP_SEED;
    return UCC_OK;
}

/* By number 0: makes the group, or says that there will be none. */
static ucc_status_t plant(ucc_team_h team, ucc_status_t status) {
    hd_forming_t *f = team->forming;
    hd_group_config_t config = hd_team_group_config(team->lib, team->sync_type);
    hd_group_t *group = status == UCC_OK ? hd_group_create(team->n, &config) : NULL;
    for (uint32_t i = 0; group && i < team->n; i++) {
        group->labels[f->all[i].number] = f->all[i].label;
    }
    if (status == UCC_OK && !group) {
        status = UCC_ERR_NO_MEMORY;
    }
    /* relaxed: the release below publishes it */
    atomic_store_explicit(&f->seed->status, (int32_t)status, memory_order_relaxed);
    /* release: the group; pairs with the acquire in hd_form_seed */
    atomic_store_explicit(&f->seed->group, group, memory_order_release);
    return status;
}

/* The records are here, looked at once: number 0 plants the seed, the others find it. */
static ucc_status_t find_seed(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = check_records(team);
    if (status != UCC_OK) {
        release_other_seeds(team);
    }
    if (f->mine.number == 0) {
        return plant(team, status);
    }
    for (uint32_t i = 0; status == UCC_OK && i < team->n; i++) {
        if (f->all[i].number == 0) {
            f->seed = (hd_seed_t *)(uintptr_t)f->all[i].seed;
        }
    }
    return status;
}

ucc_status_t hd_form_seed(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    if (!f->seed ||
        f->mine.number == 0) { /* number 0 has its seed from the start, and is done at once */
        ucc_status_t status = find_seed(team);
        if (status != UCC_OK) {
            return status;
        }
    }
    /* acquire: pairs with number 0's release */
    f->group = atomic_load_explicit(&f->seed->group, memory_order_acquire);
    if (!f->group) {
        /* relaxed: number 0 wrote it before it gave up for good, and has logged why */
        return atomic_load_explicit(&f->seed->status, memory_order_relaxed) < 0
                   ? UCC_ERR_NO_RESOURCE
                   : UCC_INPROGRESS;
    }
    team->ep = (uint32_t)f->mine.number;
    f->step = STEP_JOIN;
    return UCC_OK;
}
