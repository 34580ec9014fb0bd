/* test_sites.c: every wait of collectives on devices, left out: the emulator's race detector has to find something then, and
 * nothing when all are there. The loop is over gpu/site.h: a site without a scenario fails.
 */
#include "gpu/site.h"
#include "support/device_cases.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

TestSuite(sites, .timeout = 120);

enum { UNKNOWN_ERROR = 999, MANY = 3 * 1024 * 1024, MOST_CALLS = 300 };

static uint64_t found;

static void count_finding(heddle_emucuda_finding_t kind, const char *text, void *arg) {
    (void)kind, (void)text, (void)arg;
    found++;
}

static coll_case_t a_case(ucc_coll_type_t type, uint32_t size, uint64_t count) {
    return (coll_case_t){.type = type,
                         .size = size,
                         .count = count,
                         .dt = reference_datatype(UCC_DT_INT32),
                         .op = UCC_OP_SUM,
                         .seed = 1};
}

/* Runs it, and looks at all buffers, as whoever is told that it is complete may do. */
static bool run(const coll_case_t *c) {
    trial_t t;
    trial_open(&t, c, 0);
    bool well = trial_run(&t);
    heddle_emucuda_fail_call(0, 0);
    (void)trial_check(&t); /* without a wait, it may be wrong */
    trial_close(&t);
    return well;
}

/* --- scenarios --- */

/* Windows enough that each slot is used again. Where results go to other devices, which fill slots again only when they have
 * got theirs, a slot is free before anybody waits for that; so is it not where they only send. */
static void send_in_windows(hd_gpu_site_t site) {
    (void)site;
    coll_case_t c = a_case(UCC_COLL_TYPE_REDUCE, 3, MANY);
    run(&c);
}

static void reduce_in_windows(hd_gpu_site_t site) {
    (void)site;
    coll_case_t c = a_case(UCC_COLL_TYPE_ALLREDUCE, 3, MANY);
    run(&c);
}

/* Each driver call fails, until it was the one by which a line tells that it is done: then the host waits in its place. */
static void fail_until_waited(hd_gpu_site_t site) {
    coll_case_t c = a_case(UCC_COLL_TYPE_ALLREDUCE, 3, 100);
    for (uint64_t n = 1; n < MOST_CALLS; n++) {
        trial_t t;
        trial_open(&t, &c, 0);
        heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
        bool well = trial_run(&t);
        heddle_emucuda_fail_call(0, 0);
        (void)trial_check(&t);
        trial_close(&t);
        if (well && heddle_emucuda_site_count((uint32_t)site) > 0) {
            return;
        }
    }
}

typedef struct scenario {
    const char *config;
    void (*run)(hd_gpu_site_t site);
} scenario_t;

static const scenario_t scenarios[HD_GPU_SITES] = {
    [HD_GPU_SITE_FREE] = {"3,nopeer", send_in_windows},
    [HD_GPU_SITE_FILLED] = {"3,nopeer", reduce_in_windows},
    [HD_GPU_SITE_END] = {"3,nopeer", reduce_in_windows},
    [HD_GPU_SITE_DRAINED] = {"1", fail_until_waited},
};

/* --- all of them --- */

typedef struct site_case {
    int site;
    bool dropped;
} site_case_t;

ParameterizedTestParameters(sites, each) {
    enum { FIRST = HD_GPU_SITE_NONE + 1 };
    static site_case_t cases[2 * (HD_GPU_SITES - FIRST)];
    for (int i = 0; i < 2 * (HD_GPU_SITES - FIRST); i++) {
        cases[i] = (site_case_t){FIRST + i / 2, i % 2 == 1};
    }
    return cr_make_param_array(site_case_t, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(site_case_t *c, sites, each) {
    const scenario_t *scenario = &scenarios[c->site];
    cr_assert_not_null(scenario->run, "site %d of gpu/site.h has no scenario here", c->site);
    device_cases_begin(scenario->config, DEVICE_CASES_PLAIN);
    heddle_emucuda_on_finding(count_finding, NULL);
    heddle_emucuda_drop_site(c->dropped ? (uint32_t)c->site : 0);
    scenario->run((hd_gpu_site_t)c->site);
    cr_assert_gt(heddle_emucuda_site_count((uint32_t)c->site), 0, "site %d is not met", c->site);
    if (c->dropped) {
        cr_assert_gt(found, 0, "nobody notices that the waits of site %d are left out", c->site);
    } else {
        cr_assert_eq(found, 0, "site %d", c->site);
        device_cases_end();
    }
}
