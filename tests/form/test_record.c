/* test_record.c: what records say of configurations: two that differ name the variable in which
 * they do, whatever its values.
 */
#include "core/config.h"
#include "form/form.h"
#include "form/roll.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A variable whose values the processes of a team must agree on, and some or all of them. */
static const struct {
    const char *name, *values[8];
} must_agree[] = {
    {"REPRODUCIBLE", {"layout", "placement"}},
    {"CHECK", {"n", "y"}},
    {"NET_BARRIER", {"auto", "direct", "dissemination", "tree"}},
    {"NET_BCAST", {"auto", "direct", "tree", "chain", "scatter_allgather"}},
    {"NET_ALLGATHER", {"auto", "direct", "bruck", "ring"}},
    {"NET_ALLTOALL", {"auto", "direct", "pairwise"}},
    {"NET_GATHER", {"auto", "direct", "tree"}},
    {"NET_SCATTER", {"auto", "direct", "tree"}},
    {"NET_ALLREDUCE", {"auto", "direct", "exchange", "reduce_allgather"}},
    {"NET_REDUCE", {"auto", "direct", "tree", "reduce_allgather"}},
    {"NET_REDUCE_SCATTER", {"auto", "direct"}},
    {"NET_SWAP_MAX", {"0", "1", "16", "4080", "4095", "4096"}},
};
enum { N = sizeof(must_agree) / sizeof(must_agree[0]) };

/* Returns the record of a process in which a variable has this value, and all others their
 * defaults. */
static hd_record_t record_with(const char *name, const char *value) {
    hd_config_t *config;
    hd_record_t record = {0};
    cr_assert_eq(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), UCC_OK);
    cr_assert_eq(hd_config_modify(config, NULL, name, value), UCC_OK, "%s=%s", name, value);
    hd_record_sign(&record, config);
    hd_config_release(config);
    return record;
}

static void compare(const char *name, const char *one, const char *other) {
    hd_record_t left = record_with(name, one), right = record_with(name, other);
    const char *differs = hd_record_disagreed(&left, &right);
    if (one == other) {
        cr_expect_null(differs, "%s=%s: %s differs", name, one, differs ? differs : "");
    } else {
        cr_expect(differs && strcmp(differs, name) == 0, "%s=%s and %s: %s differs", name, one,
                  other, differs ? differs : "nothing");
    }
}

Test(record, names_the_variable_that_differs) {
    for (uint32_t i = 0; i < N; i++) {
        const char *const *value = must_agree[i].values;
        for (uint32_t a = 0; value[a]; a++) {
            for (uint32_t b = 0; value[b]; b++) {
                compare(must_agree[i].name, value[a], value[b]);
            }
        }
    }
}

Test(record, the_name_of_a_process_has_its_pid_where_that_means_it) {
    uint64_t mine[2], child[2], elsewhere[2];
    int told[2];
    hd_process_identity(mine);
    cr_expect_eq(hd_process_pid(mine), (uint32_t)getpid());
    cr_assert_eq(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        hd_process_identity(child);
        _exit(write(told[1], child, sizeof(child)) == (ssize_t)sizeof(child) ? 0 : 1);
    }
    cr_assert_eq(read(told[0], child, sizeof(child)), (ssize_t)sizeof(child));
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_expect_eq(hd_process_pid(child), (uint32_t)pid);
    cr_expect_neq(child[0], mine[0]);
    memcpy(elsewhere, mine, sizeof(mine));
    elsewhere[1] ^= UINT64_C(1) << 30; /* another namespace */
    cr_expect_eq(hd_process_pid(elsewhere), 0);
    elsewhere[1] &= ~UINT64_C(0) << 54; /* one that does not know its own */
    cr_expect_eq(hd_process_pid(elsewhere), 0);
}

Test(record, spellings_of_a_value_agree) {
    hd_record_t yes = record_with("CHECK", "y"), one = record_with("CHECK", "1");
    cr_assert_null(hd_record_disagreed(&yes, &one));
    hd_record_t number = record_with("NET_SWAP_MAX", "1024"),
                k = record_with("NET_SWAP_MAX", "01024");
    cr_assert_null(hd_record_disagreed(&number, &k));
}

Test(record, terms_differ_with_each_variable) {
    for (uint32_t i = 0; i < N; i++) {
        hd_config_t *config;
        uint32_t before = 0;
        for (uint32_t a = 0; a < 2; a++) {
            cr_assert_eq(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), UCC_OK);
            cr_assert_eq(
                hd_config_modify(config, NULL, must_agree[i].name, must_agree[i].values[a]),
                UCC_OK);
            uint32_t terms = hd_record_terms(config, false, 4);
            cr_expect(a == 0 || terms != before, "%s", must_agree[i].name);
            before = terms;
            hd_config_release(config);
        }
    }
}
