/* processes.c: the group of a heddle_group that spans processes. One thread of each process comes
 * here (api/endpoints.c) and takes part in exchanges among the processes, blocking, as it may by
 * contract; the endpoints join later, without an exchange.
 *
 * The exchanges tell, in this order: what each process is and brings, or why it can't; how it got
 * on with the network (roll.h; each process is one member there); the addresses; and whether it has
 * made its group. Nobody waits in vain: a process in trouble says so in the next exchange, and then
 * all leave. The processes greet each other when all endpoints have joined.
 */
#include "core/hash.h"
#include "form/internal.h"

#include <heddle/heddle_version.h>
#include <sched.h>

enum { RECORD = 128, BEFORE_AGREED = 40, BEFORE_UNUSED = 76 };

/* What a process says of itself. It has one size in all versions of the library. */
typedef struct record {
    uint32_t version, endpoints, sync_type, ordering;
    uint64_t process[2], serial;
    uint16_t agreed[HD_AGREED];
    int32_t trouble; /* UCC_OK, or why it makes no group: then nobody does */
    uint8_t unused[RECORD - BEFORE_UNUSED];
} record_t;

_Static_assert(offsetof(record_t, agreed) == BEFORE_AGREED &&
                   offsetof(record_t, unused) == BEFORE_UNUSED && sizeof(record_t) == RECORD,
               "all versions have records of one size");
static const char taker[] = "heddle_group_create: process"; /* for log lines */

/* One call of hd_team_join_processes. */
typedef struct meeting {
    const ucc_oob_coll_t *oob;
    ucc_lib_h lib;
    record_t mine, *all;
    hd_account_t *told;
    hd_roll_t roll;
} meeting_t;

static ucc_status_t exchange(const meeting_t *m, void *mine, void *all, size_t bytes) {
    return hd_roll_exchange(m->oob, taker, m->lib->stall, mine, all, bytes);
}

/* Checks the records, and adds up all endpoints. Logs the first process that differs in what must
 * agree, or can't take part: all processes find the same one. */
static ucc_status_t check(const meeting_t *m, uint64_t *endpoints) {
    *endpoints = 0;
    for (uint32_t p = 0; p < m->oob->n_oob_eps; p++) {
        const record_t *r = &m->all[p], *first = &m->all[0];
        if (r->version == first->version && r->trouble != UCC_OK) {
            ucc_status_t why = r->trouble < 0 ? (ucc_status_t)r->trouble : UCC_ERR_INVALID_PARAM;
            hd_error("heddle_group_create: process %u can't take part: %s", p,
                     ucc_status_string(why));
            return why;
        }
        const char *what = r->version != first->version       ? "version of Heddle"
                           : r->sync_type != first->sync_type ? "sync_type"
                           : r->ordering != first->ordering
                               ? "ordering"
                               : hd_form_disagreed(r->agreed, first->agreed);
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

/* Exchanges accounts until all have room for all addresses, or one is in trouble. */
static ucc_status_t settle_accounts(meeting_t *m) {
    ucc_status_t status;
    uint32_t number;
    do {
        status = exchange(m, &m->roll.mine, m->told, sizeof(m->roll.mine));
        if (status != UCC_OK) {
            return status;
        }
        status = hd_roll_heard(&m->roll, &number);
    } while (status == UCC_INPROGRESS);
    if (status != UCC_OK) {
        hd_error("heddle_group_create: process %u can't take part: %s", number,
                 status == UCC_ERR_NOT_SUPPORTED ? "it has no network" : ucc_status_string(status));
    }
    return status;
}

/* Calls the roll, with each process as one member. */
static ucc_status_t call_roll(meeting_t *m) {
    uint32_t n = m->oob->n_oob_eps;
    hd_called_t *called = hd_alloc(HD_LINE, n * sizeof(*called));
    for (uint32_t p = 0; called && p < n; p++) {
        called[p] = (hd_called_t){{m->all[p].process[0], m->all[p].process[1]}, p, p};
    }
    m->roll.told = m->told;
    hd_roll_take(&m->roll, called, n, m->oob->oob_ep);
    hd_free(called);
    if (m->roll.span && m->roll.span->processes != n) {
        hd_error(
            "heddle_group_create: %u take part in the oob, of %u processes only: each is to do "
            "so once",
            n, m->roll.span->processes);
        m->roll.trouble = UCC_ERR_INVALID_PARAM;
    }
    while (hd_roll_open(&m->roll, m->lib->config) == UCC_INPROGRESS) {
        sched_yield();
    }
    ucc_status_t status = settle_accounts(m);
    return status == UCC_OK ? exchange(m, m->roll.my_slice, m->roll.slices, m->roll.slice) : status;
}

/* Returns the span in which each process's endpoints follow each other, in the order of the
 * exchange. NULL: no memory. */
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

/* Returns the wire id, which follows from the record of the first process. */
static uint64_t wire_of(const record_t *first) {
    return hd_hash_mix(hd_hash_mix(first->serial, first->process[0]), first->process[1]);
}

/* Frees a group that nobody has joined, nor any other process has greeted. */
static void drop(hd_group_t *group) {
    if (group) {
        hd_home_unpin(&group->home);
    }
}

/* Makes this process's group with its crossing. NULL: logged. */
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
                                    hd_form_terms(m->mine.agreed, group->two_sided, endpoints),
                                    (hd_origin_t){0}, m->lib->config);
    }
    hd_free(process);
    if (status == UCC_OK) {
        m->roll.net = NULL; /* it is the crossing's now */
        return group;
    }
    hd_error("heddle_group_create: no memory for a team of %u endpoints", endpoints);
    hd_free(span);
    hd_free(labels);
    drop(group);
    return NULL;
}

/* Exchanges whether each process has made its group. All processes get the same answer. */
static ucc_status_t confirm(meeting_t *m, ucc_status_t mine) {
    hd_account_t account = {.status = (int32_t)mine};
    ucc_status_t status = exchange(m, &account, m->told, sizeof(account));
    for (uint32_t p = 0; status == UCC_OK && p < m->oob->n_oob_eps; p++) {
        if (m->told[p].status != UCC_OK) {
            hd_error("heddle_group_create: process %u could not make its part of the group", p);
            status = m->told[p].status < 0 ? (ucc_status_t)m->told[p].status : UCC_ERR_NO_MESSAGE;
        }
    }
    return status;
}

void hd_team_refuse_processes(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why) {
    record_t mine = {.version = HEDDLE_VERSION, .trouble = (int32_t)why};
    hd_process_identity(mine.process);
    hd_roll_refuse(oob, taker, stall, &mine, sizeof(mine));
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
                        .serial = hd_serial()};
    hd_form_agree(lib->config, m.mine.agreed);
    hd_process_identity(m.mine.process);
    m.all = hd_alloc(HD_LINE, n * (sizeof(*m.all) + sizeof(*m.told)));
    if (!m.all) {
        hd_error("heddle_group_create: no memory for an exchange among %u processes", n);
        hd_team_refuse_processes(oob, lib->stall, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    m.told = (hd_account_t *)(void *)(m.all + n);
    ucc_status_t status = exchange(&m, &m.mine, m.all, sizeof(m.mine));
    status = status == UCC_OK ? check(&m, &endpoints) : status;
    status = status == UCC_OK ? call_roll(&m) : status;
    hd_group_t *group = status == UCC_OK ? make_group(&m, (uint32_t)endpoints) : NULL;
    if (status == UCC_OK && (status = confirm(&m, group ? UCC_OK : UCC_ERR_NO_MEMORY)) != UCC_OK) {
        drop(group);
        group = NULL;
    }
    hd_roll_end(&m.roll);
    hd_free(m.all);
    *out = group;
    return status;
}
