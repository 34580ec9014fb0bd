/* test_teams.c: teams of several processes form by the exchange of a TCP bootstrap, as groups and
 * as UCC's teams. */
#include "../support/deadline.h"
#include "../support/listeners.h"
#include "job.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(bootstrap_teams, .timeout = 120);

enum { PROCESSES = 2, THREADS = 2, ENDPOINTS = PROCESSES * THREADS };

static void expect_all(job_t *job) {
    if (job->report[0].status == UCC_ERR_NOT_SUPPORTED) {
        cr_skip_test("this build spans no processes: %s", job->report[0].log);
    }
    for (uint32_t i = 0; i < job->size; i++) {
        cr_expect_eq(job->report[i].status, UCC_OK, "rank %u: %d\n%s", i, job->report[i].status,
                     job->report[i].log);
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

typedef struct worker {
    heddle_group_t *group;
    uint32_t index;
    ucc_status_t status;
} worker_t;

static void *work(void *arg) {
    worker_t *w = arg;
    heddle_ep_t *ep;
    double x, sum = 0;
    w->status = heddle_join(w->group, w->index, &ep);
    if (w->status != UCC_OK) {
        return NULL;
    }
    x = heddle_ep_index(ep) + 1;
    w->status = heddle_allreduce(ep, &x, &sum, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
    if (w->status == UCC_OK &&
        (heddle_ep_size(ep) != ENDPOINTS || (int)sum != ENDPOINTS * (ENDPOINTS + 1) / 2)) {
        w->status = UCC_ERR_NO_MESSAGE;
    }
    ucc_status_t left = heddle_leave(ep);
    w->status = w->status == UCC_OK ? left : w->status;
    return NULL;
}

static ucc_status_t form_group(heddle_bootstrap_t *b) {
    ucc_oob_coll_t oob;
    worker_t worker[THREADS];
    pthread_t thread[THREADS];
    heddle_group_t *group;
    heddle_bootstrap_oob(b, &oob);
    heddle_group_params_t params = {.endpoints = THREADS, .oob = &oob};
    ucc_status_t status = heddle_group_create(&params, &group);
    if (status != UCC_OK) {
        return status;
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        worker[i] = (worker_t){.group = group, .index = i};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        status = status == UCC_OK ? worker[i].status : status;
    }
    ucc_status_t destroyed = heddle_group_destroy(group);
    return status == UCC_OK ? destroyed : status;
}

static ucc_status_t groups(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    for (int k = 0; k < 2 && status == UCC_OK; k++) { /* one exchange serves several groups */
        status = form_group(b);
    }
    return job_end(b, status);
}

Test(bootstrap_teams, groups_of_several_processes_form_one_after_the_other) {
    job_t *job = job_open(PROCESSES);
    job->keeps_memory = true;
    job_all(job, groups);
    expect_all(job);
}

/* --- UCC's teams ------------------------------------------------------------------------------ */

static ucc_status_t allreduce(ucc_context_h context, ucc_team_h team, uint32_t rank, uint32_t n) {
    int64_t src = rank + 1, dst = 0;
    ucc_coll_args_t args = {
        .coll_type = UCC_COLL_TYPE_ALLREDUCE,
        .src.info = {&src, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
        .dst.info = {&dst, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
        .op = UCC_OP_SUM,
    };
    ucc_coll_req_h request;
    ucc_status_t status = ucc_collective_init(&args, &request, team);
    if (status != UCC_OK) {
        return status;
    }
    status = ucc_collective_post(request);
    while (status >= 0 && (status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    ucc_collective_finalize(request);
    return status == UCC_OK && dst != (int64_t)n * (n + 1) / 2 ? UCC_ERR_NO_MESSAGE : status;
}

static ucc_status_t team_on(ucc_context_h context, const ucc_oob_coll_t *oob) {
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = *oob};
    ucc_team_h team;
    ucc_status_t status = ucc_team_create_post(&context, 1, &params, &team);
    if (status < 0) {
        return status;
    }
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    status = status == UCC_OK ? allreduce(context, team, oob->oob_ep, oob->n_oob_eps) : status;
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
        continue;
    }
    return status;
}

/* What the program names for a context; NULL: nothing. */
static const char *devices_of_contexts;

static ucc_status_t contexts(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_oob_coll_t oob;
    ucc_lib_config_h config;
    ucc_lib_h lib;
    ucc_context_config_h context_config;
    ucc_context_h context;
    ucc_status_t status = job_form(job, i, &b);
    if (status != UCC_OK) {
        return status;
    }
    heddle_bootstrap_oob(b, &oob);
    ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = oob};
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    must(ucc_init(&lib_params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    must(ucc_context_config_read(lib, NULL, &context_config), "ucc_context_config_read");
    if (devices_of_contexts) {
        must(ucc_context_config_modify(context_config, NULL, "NET_DEVICES", devices_of_contexts),
             "NET_DEVICES");
    }
    status = ucc_context_create(lib, &params, context_config, &context);
    ucc_context_config_release(context_config);
    if (status == UCC_OK) {
        status = team_on(context, &oob);
        job->report[i].seconds = listeners_outside();
        ucc_context_destroy(context);
    }
    ucc_finalize(lib);
    return job_end(b, status);
}

Test(bootstrap_teams, contexts_and_teams_of_ucc_share_one_exchange) {
    job_t *job = job_open(3);
    job->keeps_memory = true;
    job_all(job, contexts);
    expect_all(job);
}

/* --- where they listen ------------------------------------------------------------------------ */

/* A device by which UCX can reach other hosts. False: this machine has none. */
static bool find_device(char name[IF_NAMESIZE]) {
    struct ifaddrs *all = NULL;
    name[0] = 0;
    for (struct ifaddrs *i = getifaddrs(&all) == 0 ? all : NULL; i; i = i->ifa_next) {
        bool up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
        if (up && !(i->ifa_flags & IFF_LOOPBACK) && i->ifa_addr &&
            i->ifa_addr->sa_family == AF_INET) {
            snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
        }
    }
    freeifaddrs(all);
    return name[0];
}

/* Each has a network, so that it can say where it listens. */
static job_t *contexts_with(const char *devices) {
    job_t *job = job_open(2);
    job->keeps_memory = true;
    devices_of_contexts = devices;
    job_all(job, contexts);
    return job;
}

Test(bootstrap_teams, a_job_of_one_host_listens_at_the_loopback_address_alone) {
    job_t *job = contexts_with(NULL);
    expect_all(job);
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq((int)job->report[i].seconds, 0, "rank %u listens outside", i);
    }
}

Test(bootstrap_teams, the_network_uses_the_devices_that_are_named) {
    char name[IF_NAMESIZE];
    if (!find_device(name)) {
        cr_skip_test("there is no device but the loopback one");
    }
    setenv("HEDDLE_NODE", "n", 1);
    setenv("HEDDLE_NET_DEVICES", name, 1);
    job_t *job = contexts_with(NULL); /* for the process, by the environment */
    expect_all(job);
    cr_expect_eq((int)job->report[0].seconds, 1);
    job = contexts_with("lo"); /* the program's word counts more */
    expect_all(job);
    cr_expect_eq((int)job->report[0].seconds, 0);
    unsetenv("HEDDLE_NET_DEVICES");
    job = contexts_with(name);
    expect_all(job);
    cr_expect_eq((int)job->report[1].seconds, 1);
}

Test(bootstrap_teams, devices_that_are_not_there_are_refused_by_name) {
    setenv("HEDDLE_NODE", "n", 1);
    job_t *job = contexts_with("lo,nosuch0");
    for (uint32_t i = 0; i < 2; i++) {
        const report_t *report = &job->report[i];
        cr_expect_eq(report->status, UCC_ERR_INVALID_PARAM, "%d\n%s", report->status, report->log);
        cr_expect(strstr(report->log, "NET_DEVICES=lo,nosuch0: there is no network device "
                                      "\"nosuch0\" that is up; there are lo"),
                  "%s", report->log);
    }
}
