/* trial.c: see trial.h. */
#include "trial.h"

#include "device_cases.h"
#include "emucuda/calls.h"
#include "support/deadline.h"

#include <stdlib.h>

/* Which endpoint of the team is the case's i-th. */
static uint32_t endpoint_of(const trial_t *t, uint32_t i) {
    const job_set_t *set = &t->prepared->c.set;
    return set->n == 0 ? i : (uint32_t)(set->start + (int64_t)i * set->stride);
}

void trial_open(trial_t *t, const coll_case_t *c, uint32_t team) {
    world_params_t params = {.size = team > 0 ? team : c->size, .form = WORLD_OOB};
    t->world = world_create(&params);
    t->prepared = case_prepare(c);
    t->request = must_alloc(c->size, sizeof(*t->request));
    t->stream = NULL;
}

void trial_use_streams(trial_t *t) {
    uint32_t n = t->prepared->c.size;
    t->stream = must_alloc(n, sizeof(*t->stream));
    for (uint32_t i = 0; i < n; i++) {
        t->stream[i] = device_stream(device_cases_device(i));
    }
}

/* Of a lost device, there is nothing to wait for. */
void trial_await(const trial_t *t) {
    for (uint32_t i = 0; t->stream && i < t->prepared->c.size; i++) {
        device_enter(device_cases_device(i));
        (void)cuStreamSynchronize(t->stream[i]);
        device_leave();
    }
}

static void begin(trial_t *t, uint32_t i) {
    prepared_t *p = t->prepared;
    ucc_team_h team = t->world->teams[endpoint_of(t, i)];
    ucc_status_t status = ucc_collective_init(&p->args[i], &t->request[i], team);
    if (status == UCC_OK) {
        status = t->stream ? heddle_post_on(t->request[i], t->stream[i])
                           : ucc_collective_post(t->request[i]);
        if (status != UCC_OK) {
            ucc_collective_finalize(t->request[i]);
        }
    }
    p->statuses[i] = status;
    if (status != UCC_OK) {
        t->request[i] = NULL;
        (void)heddle_team_abort(team);
    }
}

/* True: all have ended. */
static bool look(trial_t *t) {
    bool all = true;
    for (uint32_t i = 0; i < t->prepared->c.size; i++) {
        ucc_status_t status =
            t->request[i] ? ucc_collective_test(t->request[i]) : t->prepared->statuses[i];
        if (t->request[i] && status != UCC_INPROGRESS) {
            ucc_collective_finalize(t->request[i]);
            t->request[i] = NULL;
        }
        t->prepared->statuses[i] = status;
        all = all && !t->request[i];
    }
    return all;
}

bool trial_run(trial_t *t) {
    deadline_t deadline = deadline_start(t->prepared->name);
    bool well = true;
    for (uint32_t i = 0; i < t->prepared->c.size; i++) {
        begin(t, i);
    }
    while (!look(t)) {
        for (uint32_t k = 0; k < t->world->n_contexts; k++) {
            ucc_context_progress(t->world->contexts[k]);
        }
        deadline_poll(&deadline);
    }
    for (uint32_t i = 0; i < t->prepared->c.size; i++) {
        well = well && t->prepared->statuses[i] == UCC_OK;
    }
    return well;
}

bool trial_check(const trial_t *t) {
    bool right = true;
    trial_await(t);
    for (uint32_t i = 0; i < t->prepared->c.size; i++) {
        right = (t->prepared->statuses[i] != UCC_OK || case_check_member(t->prepared, i)) && right;
    }
    return right;
}

void trial_close(trial_t *t) {
    trial_await(t);
    for (uint32_t i = 0; t->stream && i < t->prepared->c.size; i++) {
        device_enter(device_cases_device(i));
        device_stream_end(t->stream[i]);
        device_leave();
    }
    free(t->stream);
    case_free(t->prepared);
    world_destroy(t->world);
    free(t->request);
}
