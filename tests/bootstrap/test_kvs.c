/* test_kvs.c: an address and a key from the launcher, with libraries that stand for those of
 * launchers (clients/); test_mpi.c has a real one.
 */
#include "bootstrap/pmix.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_PMIX_H
#include <pmix.h>

#define SAME_PLACE(ours, our, theirs, their)                                                       \
    _Static_assert(offsetof(ours, our) == offsetof(theirs, their), #their)
SAME_PLACE(hd_pmix_proc_t, rank, pmix_proc_t, rank);
SAME_PLACE(hd_pmix_value_t, data, pmix_value_t, data);
SAME_PLACE(hd_pmix_info_t, flags, pmix_info_t, flags);
SAME_PLACE(hd_pmix_info_t, value, pmix_info_t, value);
_Static_assert(sizeof(hd_pmix_proc_t) == sizeof(pmix_proc_t), "");
_Static_assert(sizeof(hd_pmix_value_t) == sizeof(pmix_value_t), "");
_Static_assert(sizeof(hd_pmix_info_t) == sizeof(pmix_info_t), "");
_Static_assert(HD_PMIX_STRING == PMIX_STRING && HD_PMIX_INT == PMIX_INT &&
                   HD_PMIX_UINT32 == PMIX_UINT32 && HD_PMIX_GLOBAL == PMIX_GLOBAL &&
                   HD_PMIX_TIMED_OUT == PMIX_ERR_TIMEOUT && HD_PMIX_WILDCARD == PMIX_RANK_WILDCARD,
               "");
#endif

TestSuite(bootstrap_kvs, .timeout = 180);

static bool shell(const char *command) {
    char line[2000];
    setenv("CLIENT", BOOTSTRAP_CLIENT, 1);
    setenv("FAKE_PMI2", FAKE_PMI2, 1);
    setenv("FAKE_PMIX", FAKE_PMIX, 1);
    snprintf(line, sizeof(line),
             "bash -uc 'unset ${!HEDDLE_BOOTSTRAP_*} ${!SLURM_*} ${!PMI*} ${!OMPI_*}; "
             "d=$(mktemp -d); trap \"rm -rf $d\" EXIT; %s'",
             command);
    return system(line) == 0;
}

/* Three processes as srun --mpi=pmi2 starts them; their lines in $d/out. */
#define THREE                                                                                      \
    "for r in 0 1 2; do "                                                                          \
    "    PMI_FD=9 PMI_RANK=$r PMI_SIZE=3 PMI_JOBID=17.0 PMI2_FOLDER=$d "                           \
    "        LD_LIBRARY_PATH=$FAKE_PMI2 timeout 60 $CLIENT >>$d/out 2>&1 & "                       \
    "done; wait; "

Test(bootstrap_kvs, pmi2_carries_address_and_key) {
    cr_expect(shell("export SLURM_STEP_NUM_NODES=1; " THREE
                    "test \"$(sort $d/out)\" = \"$(printf \"rank %d of 3\\n\" 0 1 2)\" && "
                    "grep -q 127.0.0.1: $d/heddle.bootstrap.00 || { cat $d/*; exit 1; }"));
}

Test(bootstrap_kvs, of_several_hosts_rank_0_listens_where_all_reach_it) {
    cr_expect(shell("export SLURM_STEP_NUM_NODES=2; " THREE
                    "test \"$(sort $d/out)\" = \"$(printf \"rank %d of 3\\n\" 0 1 2)\" && "
                    "grep -q \"$(hostname):\" $d/heddle.bootstrap.00 || { cat $d/*; exit 1; }"));
}

Test(bootstrap_kvs, an_address_of_the_users_counts_and_the_launcher_carries_the_key) {
    cr_expect(shell("export HEDDLE_BOOTSTRAP_ADDRESS=:$((20000 + $$ % 12000)); " THREE
                    "test \"$(sort $d/out)\" = \"$(printf \"rank %d of 3\\n\" 0 1 2)\" && "
                    "! grep -q : $d/heddle.bootstrap.00 || { cat $d/*; exit 1; }"));
}

Test(bootstrap_kvs, where_rank_0_cannot_listen_all_fail_at_once_and_meet_the_next_time) {
    cr_expect(shell("export SLURM_STEP_NUM_NODES=1 FIRST_LISTEN_FAILS=1; " THREE
                    "test $(grep -c \"rank 0 has left no key\" $d/out) = 2 && "
                    "test $(grep -c \"^rank . of 3\" $d/out) = 3 || { cat $d/*; exit 1; }"));
}

Test(bootstrap_kvs, a_call_that_fails_is_named) {
    cr_expect(shell("for call in PMI2_Init PMI2_KVS_Put PMI2_KVS_Fence; do "
                    "    export PMI2_FAILS=$call; rm -f $d/*; " THREE
                    "    grep -q \"$call, by which the launcher.*has failed: 14\" $d/out || "
                    "        { cat $d/out; exit 1; }; "
                    "done"));
}

Test(bootstrap_kvs, a_launcher_that_does_not_answer_and_a_library_that_is_missing_are_told) {
    cr_expect(shell("export PMIX_NAMESPACE=a.job PMIX_RANK=0 PMIX_SIZE=2; "
                    "LD_LIBRARY_PATH=$FAKE_PMIX timeout 60 $CLIENT >$d/out 2>&1; "
                    "grep -q \"PMIx_Init, by which.*has failed: -25\" $d/out || "
                    "    { cat $d/out; exit 1; }"));
    cr_expect(shell("export PMI_FD=9 PMI_RANK=0 PMI_SIZE=2; mkdir $d/empty; "
                    "LD_LIBRARY_PATH=$d/empty timeout 60 $CLIENT >$d/out 2>&1; "
                    "grep -q \"speaks libpmi2.so.0, which cannot be loaded\" $d/out || "
                    "    { cat $d/out; exit 1; }"));
}

Test(bootstrap_kvs, without_a_key_the_line_says_which_launchers_carry_one) {
    cr_expect(shell("export SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n1; "
                    "timeout 60 $CLIENT >$d/out 2>&1; "
                    "grep -q \"no key: .*srun --mpi=pmi2\" $d/out || { cat $d/out; exit 1; }"));
}
