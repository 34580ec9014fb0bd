/* form_processes.c: the group of a heddle_group that spans processes. One thread of each process comes here and takes
 * part in an exchange among the processes, blocking, as it may by contract; the endpoints join later, without one.
 *
 * Three exchanges, all of which every process takes part in whatever has happened to it, so that nobody waits in vain:
 * what each process is and brings; how it got on with the network (roll.h, each process being one member there); and
 * the addresses. Then each makes its group; they greet each other when all endpoints have joined.
 */
#include "team/roll.h"

#include "threads/stall.h"

#include <heddle/heddle_version.h>
#include <sched.h>
#include <string.h>

/* What a process says of itself; of the same size in all versions. */
typedef struct record {
    alignas(64) uint32_t version;
    uint32_t endpoints, sync_type, ordering;
    uint64_t process[2], serial;
    uint32_t check;
} record_t;

_Static_assert(sizeof(record_t) == 64, "all versions have records of one size");

typedef struct meeting {
    const ucc_oob_coll_t *oob;
    ucc_lib_h lib;
    record_t mine, *all;
    hd_account_t *told;
    hd_roll_t roll;
} meeting_t;

static ucc_status_t exchange(const meeting_t *m, void *mine, void *all, size_t bytes) {
    const ucc_oob_coll_t *oob = m->oob;
    void *request = NULL;
    hd_stall_t stall = {0};
    ucc_status_t status = oob->allgather(mine, all, bytes, oob->coll_info, &request);
    if (status >= 0) {
        while ((status = oob->req_test(request)) == UCC_INPROGRESS) {
            uint64_t now = hd_ticks();
            if (hd_stall_is_due(&stall, now, m->lib->stall)) {
                hd_stall_line("heddle_group_create: process %u of %u has waited %.1f s for its "
                              "oob allgather, which not all may have called",
                              oob->oob_ep, oob->n_oob_eps, hd_stall_seconds(&stall, now));
            }
            sched_yield(); /* blocking by contract; the others may need the processor */
        }
        ucc_status_t freed = oob->req_free(request);
        status = status < 0 ? status : freed;
    }
    if (status < 0) {
        hd_error("heddle_group_create: oob allgather failed: %s", ucc_status_string(status));
    }
    return status < 0 ? status : UCC_OK;
}

/* The first process that differs in what must agree: all find the same one. */
static ucc_status_t check(const meeting_t *m, uint64_t *endpoints) {
    *endpoints = 0;
    for (uint32_t p = 0; p < m->oob->n_oob_eps; p++) {
        const record_t *r = &m->all[p], *first = &m->all[0];
        const char *what = r->version != first->version       ? "version of Heddle"
                           : r->sync_type != first->sync_type ? "sync_type"
                           : r->ordering != first->ordering   ? "ordering"
                           : r->check != first->check         ? "CHECK"
                                                              : NULL;
        if (what) {
            hd_error("heddle_group_create: %s differs between process %u and process 0", what, p);
            return UCC_ERR_INVALID_PARAM;
        }
        *endpoints += r->endpoints;
    }
    if (*endpoints > UINT32_MAX / 2) {
        hd_error("heddle_group_create: endpoints: %llu in all are too many",
                 (unsigned long long)*endpoints);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* Each process is one member of the roll. */
static ucc_status_t call_roll(meeting_t *m) {
    uint32_t n = m->oob->n_oob_eps, number;
    hd_called_t *called = hd_alloc(HD_LINE, n * sizeof(*called));
    for (uint32_t p = 0; called && p < n; p++) {
        called[p] = (hd_called_t){{m->all[p].process[0], m->all[p].process[1]}, p, p};
    }
    hd_roll_take(&m->roll, called, n, m->oob->oob_ep);
    hd_free(called);
    if (m->roll.span && m->roll.span->processes != n) {
        hd_error("heddle_group_create: a process takes part in its oob twice");
        m->roll.trouble = UCC_ERR_INVALID_PARAM;
    }
    while (hd_roll_open(&m->roll, m->lib->config) == UCC_INPROGRESS) {
        sched_yield();
    }
    m->roll.told = m->told;
    ucc_status_t status = exchange(m, &m->roll.mine, m->told, sizeof(m->roll.mine));
    if (status == UCC_OK && (status = hd_roll_trouble(&m->roll, &number)) != UCC_OK) {
        hd_error("heddle_group_create: process %u can't take part: %s", number,
                 status == UCC_ERR_NOT_SUPPORTED ? "it has no network" : ucc_status_string(status));
    }
    if (status == UCC_OK) {
        status = hd_roll_slice(&m->roll, m->oob->oob_ep);
    }
    return status == UCC_OK ? exchange(m, m->roll.my_slice, m->roll.slices, m->roll.slice) : status;
}

/* Each process's endpoints one after the other, in the order of the exchange. */
static hd_span_t *make_span(const meeting_t *m, uint32_t endpoints) {
    uint32_t *process_of = hd_alloc(HD_LINE, endpoints * sizeof(*process_of)), at = 0, mine = 0;
    for (uint32_t p = 0; process_of && p < m->oob->n_oob_eps; p++) {
        mine = p == m->oob->oob_ep ? at : mine;
        for (uint32_t i = 0; i < m->all[p].endpoints; i++) {
            process_of[at++] = p;
        }
    }
    hd_span_t *span = process_of ? hd_span_create(endpoints, process_of, mine) : NULL;
    hd_free(process_of);
    return span;
}

static uint64_t wire_of(const record_t *first) {
    uint64_t hash = first->serial;
    for (int i = 0; i < 2; i++) {
        hash = (hash ^ first->process[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static hd_group_t *make_group(meeting_t *m, uint32_t endpoints) {
    hd_group_config_t config = hd_team_span_config(m->lib, (ucc_coll_sync_type_t)m->mine.sync_type);
    hd_group_t *group = hd_group_create(m->mine.endpoints, &config);
    hd_span_t *span = make_span(m, endpoints);
    hd_net_process_t *process = hd_roll_processes(&m->roll);
    uint64_t *labels = hd_alloc(HD_LINE, endpoints * sizeof(*labels));
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    for (uint32_t i = 0; labels && i < endpoints; i++) {
        labels[i] = i;
    }
    if (group && span && process && labels) {
        status = hd_crossing_create(group, span, m->roll.net, wire_of(&m->all[0]), process, labels,
                                    m->mine.sync_type << 1 | m->mine.check);
    }
    hd_free(process);
    if (status == UCC_OK) {
        m->roll.net = NULL; /* the crossing's */
        return group;
    }
    hd_error("heddle_group_create: no memory for a team of %u endpoints", endpoints);
    hd_free(span);
    hd_free(labels);
    if (group) {
        hd_home_unpin(&group->home);
    }
    return NULL;
}

ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **out) {
    uint32_t n = oob->n_oob_eps;
    uint64_t endpoints;
    meeting_t m = {.oob = oob, .lib = lib};
    m.mine = (record_t){.version = HEDDLE_VERSION,
                        .endpoints = params->endpoints,
                        .sync_type = (uint32_t)params->sync_type,
                        .ordering = (uint32_t)params->ordering,
                        .serial = hd_serial(),
                        .check = lib->check};
    hd_process_identity(m.mine.process);
    m.all = hd_alloc(HD_LINE, n * (sizeof(*m.all) + sizeof(*m.told)));
    if (!m.all) {
        hd_error("heddle_group_create: no memory for an exchange among %u processes", n);
        return UCC_ERR_NO_MEMORY;
    }
    m.told = (hd_account_t *)(void *)(m.all + n);
    ucc_status_t status = exchange(&m, &m.mine, m.all, sizeof(m.mine));
    status = status == UCC_OK ? check(&m, &endpoints) : status;
    status = status == UCC_OK ? call_roll(&m) : status;
    hd_group_t *group = status == UCC_OK ? make_group(&m, (uint32_t)endpoints) : NULL;
    hd_roll_end(&m.roll);
    hd_free(m.all);
    *out = group;
    return status == UCC_OK && !group ? UCC_ERR_NO_MEMORY : status;
}
