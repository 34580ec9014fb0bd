/* span.c: the group of a team whose endpoints live in several processes.
 *
 * By an exchange (oob.c), the records have told so. All endpoints have the same records, so all go
 * the same way together: more exchanges call the roll (roll.h). Then in each process its lowest
 * endpoint, the leader, makes the group of this process with its crossing (span/crossing.c), for
 * the other endpoints here to find. From then on a process that fails says so through the network.
 *
 * Teams that form without an exchange, over contexts or from a team, use the last two sections:
 * there the processes and their addresses are known already (meet.c, split.c, shrink.c, derive.c).
 * processes.c uses the first section only.
 */
#include "form/internal.h"

#include "core/hash.h"

#include <heddle/heddle_version.h>
#include <stdlib.h>
#include <string.h>

/* --- what must agree -------------------------------------------------------------------------- */

/* The variables that decide how an exchange among processes goes. */
static const hd_cfg_id_t agreed[] = {HD_CFG_LIB_REPRODUCIBLE,       HD_CFG_LIB_CHECK,
                                     HD_CFG_LIB_NET_BARRIER,        HD_CFG_LIB_NET_BCAST,
                                     HD_CFG_LIB_NET_ALLGATHER,      HD_CFG_LIB_NET_ALLTOALL,
                                     HD_CFG_LIB_NET_GATHER,         HD_CFG_LIB_NET_SCATTER,
                                     HD_CFG_LIB_NET_ALLREDUCE,      HD_CFG_LIB_NET_REDUCE,
                                     HD_CFG_LIB_NET_REDUCE_SCATTER, HD_CFG_LIB_NET_SWAP_MAX};
enum { N_AGREED = sizeof(agreed) / sizeof(agreed[0]) };
_Static_assert((int)N_AGREED <= (int)HD_AGREED, "a record has room for each");

static uint16_t hash_of(const hd_config_t *config, hd_cfg_id_t id) {
    if (hd_config_variable(id)->type == HD_CFG_BOOL) {
        return hd_config_bool(config, id); /* a value has several spellings */
    }
    if (hd_config_variable(id)->type == HD_CFG_UINT) {
        return (uint16_t)hd_config_uint(config, id); /* a value has several spellings */
    }
    uint64_t hash = 0;
    for (const char *text = hd_config_string(config, id); *text; text++) {
        hash = hd_hash_mix(hash, (uint8_t)*text);
    }
    return (uint16_t)(hash >> 16);
}

void hd_form_agree(const hd_config_t *config, uint16_t hashes[HD_AGREED]) {
    for (uint32_t i = 0; i < HD_AGREED; i++) {
        hashes[i] = i < N_AGREED ? hash_of(config, agreed[i]) : 0;
    }
}

const char *hd_form_disagreed(const uint16_t one[HD_AGREED], const uint16_t other[HD_AGREED]) {
    for (uint32_t i = 0; i < N_AGREED; i++) {
        if (one[i] != other[i]) {
            return hd_config_variable(agreed[i])->name;
        }
    }
    return NULL;
}

uint32_t hd_form_terms(const uint16_t hashes[HD_AGREED], bool two_sided, uint32_t n) {
    uint64_t hash = hd_hash_mix(two_sided, n);
    for (uint32_t i = 0; i < N_AGREED; i++) {
        hash = hd_hash_mix(hash, hashes[i]);
    }
    return (uint32_t)(hash >> 32);
}

/* So many bits of hd_record_t.variables are each variable's. */
enum { BITS = 64 / N_AGREED };

static uint64_t bits_of(uint32_t i) {
    return ((UINT64_C(1) << BITS) - 1) << i * BITS;
}

void hd_form_sign(ucc_team_h team) {
    hd_record_t *mine = &team->forming->mine;
    uint16_t hashes[HD_AGREED];
    hd_form_agree(team->lib->config, hashes);
    mine->version = HEDDLE_VERSION;
    mine->host = hd_host_identity();
    mine->agreed = hd_form_terms(hashes, false, 0);
    mine->variables = 0;
    for (uint32_t i = 0; i < N_AGREED; i++) {
        mine->variables |= hd_hash_mix(0, hashes[i]) & bits_of(i);
    }
}

/* Returns the name of the variable in which two records differ; hardly ever it can't tell which one
 * it is. NULL: they agree. */
static const char *disagreed(const hd_record_t *one, const hd_record_t *other) {
    for (uint32_t i = 0; i < N_AGREED; i++) {
        if ((one->variables ^ other->variables) & bits_of(i)) {
            return hd_config_variable(agreed[i])->name;
        }
    }
    return one->agreed == other->agreed ? NULL : "a variable of those for several processes";
}

ucc_status_t hd_form_check_signs(const ucc_team_h team) {
    const hd_record_t *all = team->forming->all;
    for (uint32_t i = 1; i < team->n; i++) {
        if (all[i].version != all[0].version) {
            hd_error("version of Heddle: %u at one endpoint of the team, %u at another",
                     all[0].version, all[i].version);
            return UCC_ERR_INVALID_PARAM;
        }
        bool same_process = memcmp(all[i].process, all[0].process, sizeof(all[0].process)) == 0;
        const char *name = same_process ? NULL : disagreed(&all[i], &all[0]);
        if (name) {
            hd_error("configuration: %s differs between processes of the team", name);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

/* --- the exchanges ---------------------------------------------------------------------------- */

void hd_form_span(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    hd_called_t *called = hd_alloc(HD_LINE, team->n * sizeof(*called));
    for (uint32_t i = 0; called && i < team->n; i++) {
        const hd_record_t *r = &f->all[i];
        called[i] = (hd_called_t){{r->process[0], r->process[1]}, r->number, i};
    }
    hd_roll_take(&f->roll, called, team->n, f->mine.number);
    hd_free(called);
    if (f->roll.trouble == UCC_OK) {
        f->leader = hd_span_endpoint(f->roll.span, f->roll.span->mine, 0);
        hd_assert_le(f->leader, f->mine.number);
    }
}

ucc_status_t hd_form_open(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = hd_roll_open(&f->roll, team->lib->config);
    if (status == UCC_INPROGRESS) {
        return status;
    }
    f->step = STEP_ACCOUNTS;
    return hd_form_exchange(team, &f->roll.mine, f->roll.told, sizeof(f->roll.mine));
}

static void say_trouble(const ucc_team_h team, uint32_t number, ucc_status_t why) {
    hd_error("team of %u in several processes: endpoint %u can't take part: %s", team->n, number,
             why == UCC_ERR_NOT_SUPPORTED ? "its process has no network" : ucc_status_string(why));
}

ucc_status_t hd_form_accounts(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    uint32_t number;
    ucc_status_t status = hd_form_exchanged(team);
    if (status != UCC_OK) {
        return status;
    }
    status = hd_roll_heard(&f->roll, &number);
    if (status == UCC_INPROGRESS) { /* some address is longer than the room for it */
        return hd_form_exchange(team, &f->roll.mine, f->roll.told, sizeof(f->roll.mine));
    }
    if (status != UCC_OK) {
        say_trouble(team, number, status);
        return status;
    }
    f->step = STEP_ADDRESSES;
    return hd_form_exchange(team, f->roll.my_slice, f->roll.slices, f->roll.slice);
}

static uint32_t count_hosts(const hd_forming_t *f) {
    const hd_roll_t *roll = &f->roll;
    uint32_t hosts = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint64_t mine = f->all[roll->place_of[hd_span_endpoint(roll->span, p, 0)]].host;
        uint32_t q = 0;
        while (f->all[roll->place_of[hd_span_endpoint(roll->span, q, 0)]].host != mine) {
            q++;
        }
        hosts += q == p;
    }
    return hosts;
}

ucc_status_t hd_form_addresses(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    ucc_status_t status = hd_form_exchanged(team);
    if (status != UCC_OK) {
        return status;
    }
    f->step = STEP_FIND;
    if (f->mine.number != f->leader) {
        return UCC_OK;
    }
    const hd_record_t *first = &f->all[f->roll.place_of[0]];
    f->wire =
        hd_hash_mix(hd_hash_mix(hd_hash_mix(HD_NET_FORMING, first->process[0]), first->process[1]),
                    first->notice);
    f->process = hd_roll_processes(&f->roll);
    hd_debug("team of %u endpoints in %u processes on %u hosts", team->n, f->roll.span->processes,
             count_hosts(f));
    return UCC_OK;
}

/* --- without an exchange ---------------------------------------------------------------------- */

hd_span_t *hd_form_span_of_list(const hd_span_t *of, const uint64_t *list, uint32_t n,
                                uint32_t me) {
    uint32_t *process_of = hd_alloc(HD_LINE, n * sizeof(*process_of));
    for (uint32_t i = 0; process_of && i < n; i++) {
        process_of[i] = of->process_of[list[i]];
    }
    hd_span_t *span = process_of ? hd_span_create(n, process_of, me) : NULL;
    if (!process_of) {
        hd_error("no memory for a list of %u members", n);
    }
    hd_free(process_of);
    return span;
}

ucc_status_t hd_form_cross(ucc_team_h team, hd_span_t *span, const hd_span_t *of,
                           const uint64_t *list, const hd_net_process_t *process) {
    hd_forming_t *f = team->forming;
    f->roll.span = span;
    ucc_status_t status = hd_net_open(team->lib->config, &f->roll.net);
    /* UCC_INPROGRESS can't be: the parent, or the contexts, have the network open */
    if (status != UCC_OK) {
        hd_error("the network can't be had for a team in %u processes", span->processes);
        return status < 0 ? status : UCC_ERR_NO_RESOURCE;
    }
    f->process = hd_alloc(HD_LINE, span->processes * sizeof(*f->process));
    if (!f->process) {
        hd_error("no memory for a team in %u processes", span->processes);
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t p = 0; p < span->processes; p++) {
        f->process[p] = process[of->process_of[list[hd_span_endpoint(span, p, 0)]]];
    }
    return UCC_OK;
}

/* Returns the crossing's processes by their identities; the net knows their addresses already.
 * NULL: no memory (logged). */
static hd_net_process_t *processes_of(const hd_crossing_t *crossing) {
    uint32_t n = crossing->span->processes;
    hd_net_process_t *process = hd_alloc(HD_LINE, n * sizeof(*process));
    for (uint32_t p = 0; process && p < n; p++) {
        process[p] =
            (hd_net_process_t){.identity = {crossing->identity[p][0], crossing->identity[p][1]}};
    }
    if (!process) {
        hd_error("no memory for a team in %u processes", n);
    }
    return process;
}

ucc_status_t hd_form_cross_from(ucc_team_h team, hd_span_t *span, const hd_crossing_t *crossing,
                                const uint64_t *list) {
    hd_net_process_t *process = processes_of(crossing);
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (process) {
        status = hd_form_cross(team, span, crossing->span, list, process);
    } else {
        hd_free(span);
    }
    hd_free(process);
    return status;
}

/* --- the group -------------------------------------------------------------------------------- */

/* hd_form_refuse: the other processes wait for a greeting that won't come, so a network team that
 * nobody uses tells them. Its own failure is of no interest. */
static void ignore(void *arg, ucc_status_t why) {
    (void)arg;
    (void)why;
}

void hd_form_refuse(const ucc_team_h team, ucc_status_t why) {
    const hd_forming_t *f = team->forming;
    hd_net_team_params_t params = {.wire = f->wire,
                                   .n = f->roll.span->processes,
                                   .me = f->roll.span->mine,
                                   .process = f->process,
                                   .despite_losses = true,
                                   .failed = ignore};
    hd_net_team_t *refused;
    if (hd_net_team_create(f->roll.net, &params, &refused) == UCC_OK) {
        hd_net_team_abort(refused, why);
        hd_net_pump(f->roll.net);
        hd_net_team_destroy(refused);
    }
}

/* Returns the hash of what must be the same in all processes, besides the span. */
static uint32_t terms_of(const ucc_team_h team, const hd_group_t *group) {
    uint16_t hashes[HD_AGREED];
    hd_form_agree(team->lib->config, hashes);
    return hd_form_terms(hashes, group->two_sided, team->n);
}

/* Makes the group with its crossing. On success, span, net, origin and labels belong to the
 * crossing. */
static ucc_status_t make(ucc_team_h team, uint64_t *labels, hd_group_t **out) {
    hd_forming_t *f = team->forming;
    hd_group_config_t config = hd_team_span_config(team->lib, team->sync_type);
    hd_group_t *group = hd_group_create(hd_span_count(f->roll.span, f->roll.span->mine), &config);
    if (!group) {
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status =
        hd_crossing_create(group, f->roll.span, f->roll.net, f->wire, f->process, labels,
                           terms_of(team, group), f->origin, team->lib->config);
    if (status != UCC_OK) {
        hd_home_unpin(&group->home);
        return status;
    }
    hd_group_crossing(group)->ahead = f->ahead;
    hd_assert(hd_group_crossing(group)->net == f->roll.net);
    f->origin.endpoint = NULL;
    f->roll.net = NULL; /* they are the crossing's now, as the labels and the origin are */
    f->roll.span = NULL;
    *out = group;
    return UCC_OK;
}

ucc_status_t hd_form_why_no_group(const ucc_team_h team) {
    const hd_forming_t *f = team->forming;
    ucc_status_t why = f->refused;
    if (why == UCC_OK && f->meeting) {
        why = hd_meeting_failed(f->meeting);
    }
    return why == UCC_OK ? UCC_ERR_NO_MEMORY : why;
}

hd_group_t *hd_form_make_spanning(ucc_team_h team) {
    hd_forming_t *f = team->forming;
    uint64_t *labels = hd_alloc(HD_LINE, team->n * sizeof(*labels));
    for (uint32_t i = 0; labels && i < team->n; i++) {
        if (f->all) {
            labels[f->all[i].number] = f->all[i].label;
        } else {
            labels[i] = i;
        }
    }
    hd_group_t *group = NULL;
    f->refused = labels ? make(team, labels, &group) : UCC_ERR_NO_MEMORY;
    if (!group) {
        hd_error("a team of %u in several processes can't be made here: %s", team->n,
                 ucc_status_string(f->refused));
        hd_form_refuse(team, f->refused);
        if (f->meeting) { /* the others of this process learn why */
            hd_meeting_fail(f->meeting, f->refused);
        }
        hd_free(labels);
    }
    return group;
}
