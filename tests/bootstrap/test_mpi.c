/* test_mpi.c: the exchange from MPI, and rank and size from mpiexec, with each MPI library that is
 * there: Debian's MPICH and Open MPI, or whatever mpicc and mpiexec belong together.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(bootstrap_mpi, .timeout = 180);

typedef struct mpi {
    char name[16];    /* of the library, as the programs' suffix; "": of programs without one */
    char options[64]; /* of mpiexec */
} mpi_t;

static mpi_t libraries[] = {
    {".mpich", ""}, {".openmpi", "--allow-run-as-root --oversubscribe --bind-to none"}, {"", ""}};
enum { LIBRARIES = 3 };

static bool shell(const char *command) {
    char line[2000];
    snprintf(line, sizeof(line), "bash -euo pipefail -c '%s'", command);
    return system(line) == 0;
}

/* Puts `name`'s programs into the environment. False: they are not there, or another row has them.
 */
static bool choose(const mpi_t *mpi) {
    setenv("NAME", mpi->name, 1);
    setenv("OPTIONS", mpi->options, 1);
    setenv("SOURCE", HEDDLE_SOURCE, 1);
    setenv("CLIENT", BOOTSTRAP_CLIENT, 1);
    if (mpi->name[0] == '\0' && shell("type mpiexec.mpich || type mpiexec.openmpi")) {
        return false;
    }
    return shell("type mpicc$NAME mpiexec$NAME >/dev/null 2>&1");
}

ParameterizedTestParameters(bootstrap_mpi, a_communicator_gives_an_exchange_in_c_and_cxx) {
    return cr_make_param_array(mpi_t, libraries, LIBRARIES);
}

ParameterizedTest(mpi_t *mpi, bootstrap_mpi, a_communicator_gives_an_exchange_in_c_and_cxx) {
    if (!choose(mpi)) {
        cr_skip_test("no mpicc%s and mpiexec%s here, or known by another name", mpi->name,
                     mpi->name);
    }
    cr_expect(
        shell("d=$(mktemp -d); trap \"rm -rf $d\" EXIT; "
              "flags=\"-O1 -Wall -Wextra -Wconversion -Werror -I$SOURCE/include\"; "
              "mpicc$NAME -std=c11 $flags $SOURCE/tests/bootstrap/clients/mpi.c -o $d/c; "
              "programs=c; "
              "if type mpicxx$NAME >/dev/null 2>&1; then programs=\"c cxx\"; "
              "    mpicxx$NAME -std=c++17 -x c++ $flags -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX "
              "        $SOURCE/tests/bootstrap/clients/mpi.c -o $d/cxx; fi; "
              "for p in $programs; do for n in 1 3; do "
              "    timeout 60 mpiexec$NAME $OPTIONS -n $n $d/$p > $d/out 2>&1 </dev/null && "
              "        grep -q \"^$n processes: right\" $d/out || { cat $d/out; exit 1; }; "
              "done; done"),
        "mpi%s", mpi->name);
}

ParameterizedTestParameters(bootstrap_mpi, mpiexec_tells_rank_and_size) {
    return cr_make_param_array(mpi_t, libraries, LIBRARIES);
}

ParameterizedTest(mpi_t *mpi, bootstrap_mpi, mpiexec_tells_rank_and_size) {
    if (!choose(mpi) || access(BOOTSTRAP_CLIENT, X_OK) != 0) {
        cr_skip_test("no mpiexec%s here, or known by another name", mpi->name);
    }
    /* A port of the day: two of these tests at once have different ones, as a rule, and tell if
     * not. */
    char address[32];
    snprintf(address, sizeof(address), ":%d",
             20000 + (int)getpid() % 12000); /* below those that systems give out */
    setenv("HEDDLE_BOOTSTRAP_ADDRESS", address, 1);
    setenv("HEDDLE_BOOTSTRAP_KEY", "of a test, and of no use to anybody", 1);
    cr_expect(
        shell("out=$(timeout 60 mpiexec$NAME $OPTIONS -n 3 $CLIENT 2>&1 </dev/null | sort) && "
              "test \"$out\" = \"$(printf \"rank %d of 3\\n\" 0 1 2)\" || "
              "    { echo \"$out\"; exit 1; }"),
        "mpiexec%s", mpi->name);
}

Test(bootstrap_mpi, what_speaks_pmix_also_carries_address_and_key) {
    const mpi_t *mpi = &libraries[1];
    if (!choose(mpi) || access(BOOTSTRAP_CLIENT, X_OK) != 0) {
        cr_skip_test("no mpiexec%s here", mpi->name);
    }
    unsetenv("HEDDLE_BOOTSTRAP_ADDRESS");
    unsetenv("HEDDLE_BOOTSTRAP_KEY");
    /* With ranks and sizes of Open MPI's own, and as other launchers that speak PMIx leave them. */
    cr_expect(
        shell("run() { timeout 60 mpiexec$NAME $OPTIONS -n 7 \"$@\" 2>&1 </dev/null | sort; "
              "}; right=$(printf \"rank %d of 7\\n\" 0 1 2 3 4 5 6); "
              "out=$(run $CLIENT) && test \"$out\" = \"$right\" || { echo \"$out\"; exit 1; }; "
              "out=$(run env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE $CLIENT) && "
              "test \"$out\" = \"$right\" || { echo \"$out\"; exit 1; }"),
        "mpiexec%s", mpi->name);
}
