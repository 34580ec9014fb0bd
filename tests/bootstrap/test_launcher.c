/* test_launcher.c: what the environment of a launcher means, and real launchers. */
#include "bootstrap/bootstrap.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(bootstrap_launcher, .timeout = 120);

static const char *const variables[] = {"HEDDLE_BOOTSTRAP_RANK",
                                        "HEDDLE_BOOTSTRAP_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "PMIX_SIZE",
                                        "PMIX_NAMESPACE",
                                        "PMI_JOBID",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_JOB_NODELIST",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};

static char logged[1000];

static void keep(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    strncat(logged, line, sizeof(logged) - strlen(logged) - 1);
}

/* "NAME=VALUE NAME=VALUE", and no other of the variables. */
static void set(const char *text) {
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
    char copy[400];
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    logged[0] = '\0';
    hd_log_capture(keep, NULL);
}

Test(bootstrap_launcher, rank_and_size_come_from_the_nearest_launcher) {
    static const struct {
        const char *variables;
        uint32_t rank, size;
    } rows[] = {
        {"HEDDLE_BOOTSTRAP_RANK=3 HEDDLE_BOOTSTRAP_SIZE=4 PMI_RANK=0 PMI_SIZE=1", 3, 4},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=1 SLURM_NTASKS=9", 1, 2},
        {"PMI_RANK=5 PMI_SIZE=6 SLURM_PROCID=0 SLURM_NTASKS=1", 5, 6},
        {"PMIX_RANK=7 SLURM_PROCID=7 SLURM_NTASKS=8", 7, 8},
        {"PMIX_RANK=7 PMIX_SIZE=9 SLURM_NTASKS=8", 7, 9},
        {"SLURM_PROCID=0 SLURM_NTASKS=1", 0, 1},
        {"PMI_RANK=65534 PMI_SIZE=65535", 65534, 65535},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t rank = 99, size = 99;
        set(rows[i].variables);
        cr_expect_eq(hd_launcher_place(&rank, &size), UCC_OK, "%s: %s", rows[i].variables, logged);
        cr_expect(rank == rows[i].rank && size == rows[i].size, "%s: %u of %u", rows[i].variables,
                  rank, size);
    }
}

Test(bootstrap_launcher, the_launcher_that_tells_the_rank_also_names_the_job) {
    static const struct {
        const char *variables, *job;
        bool by_launcher;
    } rows[] = {
        {"HEDDLE_BOOTSTRAP_RANK=3 HEDDLE_BOOTSTRAP_SIZE=4 PMIX_NAMESPACE=x SLURM_JOB_ID=5", "",
         false},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=12 SLURM_JOB_ID=5", "12",
         true},
        {"PMI_RANK=5 PMI_SIZE=6 PMI_JOBID=7.1", "7.1", true},
        {"PMI_RANK=5 PMI_SIZE=6", "", true},
        {"PMIX_RANK=7 PMIX_NAMESPACE=prterun-host-9@1", "prterun-host-9@1", true},
        {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=5 SLURM_STEP_ID=2", "5.2", true},
        {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=5", "5", true},
        {"", "", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char job[64];
        set(rows[i].variables);
        cr_expect_eq(hd_launcher_job(job, sizeof(job)), rows[i].by_launcher, "%s",
                     rows[i].variables);
        cr_expect_str_eq(job, rows[i].job);
    }
}

Test(bootstrap_launcher, what_is_missing_or_no_number_is_named) {
    static const struct {
        const char *variables;
        ucc_status_t status;
        const char *text;
    } rows[] = {
        {"", UCC_ERR_NOT_FOUND, "none of HEDDLE_BOOTSTRAP_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK"},
        {"SLURM_NTASKS=4", UCC_ERR_NOT_FOUND, "SLURM_PROCID is set"},
        {"PMI_RANK=1", UCC_ERR_INVALID_PARAM, "PMI_RANK is set, but PMI_SIZE is not"},
        {"OMPI_COMM_WORLD_SIZE=1", UCC_ERR_INVALID_PARAM, "but OMPI_COMM_WORLD_RANK is not"},
        {"PMIX_RANK=1", UCC_ERR_INVALID_PARAM, "PMIX_RANK is set, but PMIX_SIZE is not"},
        {"PMI_RANK=one PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "PMI_RANK=one is no number"},
        {"PMI_RANK=1 PMI_SIZE=-2", UCC_ERR_INVALID_PARAM, "PMI_SIZE=-2 is no number"},
        {"PMI_RANK= PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "PMI_RANK= is no number"},
        {"PMI_RANK=0x1 PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "PMI_RANK=0x1 is no number"},
        {"PMI_RANK=4294967297 PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "is no number"},
        {"PMI_RANK=99999999999999999999999 PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "is no number"},
        {"PMI_RANK=2 PMI_SIZE=2", UCC_ERR_INVALID_PARAM, "PMI_RANK=2 is not below PMI_SIZE=2"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t rank, size;
        heddle_bootstrap_t *b = (heddle_bootstrap_t *)&rank;
        set(rows[i].variables);
        cr_expect_eq(hd_launcher_place(&rank, &size), rows[i].status, "%s", rows[i].variables);
        cr_expect(strstr(logged, rows[i].text), "%s: %s", rows[i].variables, logged);
        cr_expect_eq(heddle_bootstrap_env(NULL, &b), rows[i].status);
        cr_expect_null(b);
    }
}

Test(bootstrap_launcher, the_first_host_of_a_node_list) {
    static const char *const rows[][2] = {
        {"node1", "node1"},  {"node[003-010,12],other", "node003"},
        {"a,b,c", "a"},      {"rack[2,4]-n[01-16].site,login", "rack2-n01.site"},
        {"n[7]", "n7"},      {"", NULL},
        {",a", NULL},        {"n[", NULL},
        {"n[]", NULL},       {"n[x]", NULL},
        {"n[1", NULL},       {"a b", NULL},
        {"$(reboot)", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char host[32];
        bool found = hd_launcher_first_host(rows[i][0], host, sizeof(host));
        cr_expect_eq(found, rows[i][1] != NULL, "'%s'", rows[i][0]);
        if (found && rows[i][1]) {
            cr_expect_str_eq(host, rows[i][1]);
        }
    }
    char small[4];
    cr_expect(!hd_launcher_first_host("toolong", small, sizeof(small)));
    cr_expect(hd_launcher_first_host("abc", small, sizeof(small)));
}

Test(bootstrap_launcher, a_step_of_slurm_has_an_address_and_steps_have_different_ones) {
    char one[100], other[100];
    set("SLURM_PROCID=0 SLURM_JOB_ID=1234567 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[3-4]");
    cr_expect(hd_launcher_address(one, sizeof(one)));
    cr_expect_eq(strncmp(one, "n3:2", 4), 0, "%s", one);
    setenv("SLURM_STEP_NODELIST", "n4", 1);
    setenv("SLURM_STEP_ID", "1", 1);
    cr_expect(hd_launcher_address(other, sizeof(other)));
    cr_expect_eq(strncmp(other, "n4:2", 4), 0, "%s", other);
    cr_expect_str_neq(one + 2, other + 2);
    setenv("SLURM_JOB_ID", "x", 1);
    cr_expect(!hd_launcher_address(other, sizeof(other)));
    set("SLURM_JOB_NODELIST=n1 SLURM_JOB_ID=1");
    cr_expect(!hd_launcher_address(other, sizeof(other)), "this process is no task of a step");
}

Test(bootstrap_launcher, addresses_have_a_port_and_perhaps_a_host) {
    static const char *const rows[][3] = {
        {"host:1", "host", "1"},   {":5000", "127.0.0.1", "5000"},
        {"[::1]:80", "::1", "80"}, {"0.0.0.0:0", "0.0.0.0", "0"},
        {"host", NULL, NULL},      {"host:", NULL, NULL},
        {"host:x", NULL, NULL},    {"host:65536", NULL, NULL},
        {"::1:80", NULL, NULL},    {"[::1:80", NULL, NULL},
        {"[]:80", NULL, NULL},     {"host:-1", NULL, NULL},
        {"", NULL, NULL},          {"host:+1", NULL, NULL},
        {"host: 1", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char host[32], port[8];
        bool fits = hd_address_split(rows[i][0], host, sizeof(host), port, sizeof(port));
        cr_expect_eq(fits, rows[i][1] != NULL, "'%s'", rows[i][0]);
        if (fits && rows[i][1]) {
            cr_expect_str_eq(host, rows[i][1]);
            cr_expect_str_eq(port, rows[i][2]);
        }
    }
}
