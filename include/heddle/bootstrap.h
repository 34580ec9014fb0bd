/* bootstrap.h: ready-made out-of-band exchanges among processes.
 *
 * A team of several processes is formed by an allgather that the program lends to the library
 * (ucc_oob_coll_t). These calls make one, for programs that have none: over TCP, with rank and size
 * from the program or from its launcher's environment. Programs that use MPI include
 * <heddle/bootstrap_mpi.h> instead, and need no library for it.
 *
 *     heddle_bootstrap_t *bootstrap;
 *     ucc_oob_coll_t oob;
 *     if (heddle_bootstrap_env(NULL, &bootstrap) == UCC_OK) {
 *         heddle_bootstrap_oob(bootstrap, &oob);
 *         ... contexts, teams or groups with &oob, one participant per process ...
 *         heddle_bootstrap_end(bootstrap);
 *     }
 *
 * They are in a library of their own, libheddle_bootstrap (pkg-config heddle-bootstrap, CMake
 * heddle::bootstrap), which is independent of libheddle: the exchange serves any UCC.
 *
 * All come to one TCP address, where rank 0 listens, and connect from there to up to five others,
 * in a tree; in jobs of up to five processes, to rank 0 alone. Every connection has to
 * prove that it knows the job's key before anything else is read from it, and so has rank 0 to the
 * others; after that every message is authenticated (HMAC-SHA256 under a key of that connection,
 * with direction and sequence number). Nothing is encrypted: what is exchanged can be read on the
 * way, but not changed, repeated or forged.
 *
 * Variables, each used where the parameter of its name is not set:
 *
 *     HEDDLE_BOOTSTRAP_ADDRESS   host:port of rank 0
 *     HEDDLE_BOOTSTRAP_KEY       the job's key, as text
 *     HEDDLE_BOOTSTRAP_KEY_FILE  a file with the key, where HEDDLE_BOOTSTRAP_KEY is not set
 *     HEDDLE_BOOTSTRAP_TIMEOUT   seconds
 *     HEDDLE_BOOTSTRAP_JOB       the job's name
 *     HEDDLE_BOOTSTRAP_FANOUT    at rank 0: how many processes connect to one, at most; 4. As many
 *                                as there are: all to rank 0, which then has to send everything
 *     HEDDLE_BOOTSTRAP_RANK, HEDDLE_BOOTSTRAP_SIZE   for heddle_bootstrap_env()
 *
 * All calls return UCC_OK or a negative ucc_status_t, and a failing call has logged one line that
 * names the culprit. One thread at a time may use a bootstrap and its exchange. No call raises
 * SIGPIPE, and programs that are executed, and children of a fork, inherit no connection.
 */
#ifndef HEDDLE_BOOTSTRAP_H_
#define HEDDLE_BOOTSTRAP_H_

#include <ucc/api/ucc.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/** The processes of a job that have found each other; opaque. */
typedef struct heddle_bootstrap heddle_bootstrap_t;

/** How processes find each other. What is zero has the default that its field names. */
typedef struct heddle_bootstrap_params {
    /** This process, and how many there are: 0 <= rank < size, 1 <= size <= 65,536; each rank is
     *  one process. heddle_bootstrap_env() does not read them. A size of 1 needs nothing else, and
     *  opens no socket. */
    uint32_t rank;
    uint32_t size;
    /** Rank 0's TCP address, "host:port", "[IPv6 address]:port", or ":port" for 127.0.0.1. Rank 0
     *  binds to exactly this address (a name: to the first of its addresses that this host has), so
     *  nobody beyond this host can connect unless the address says so; "0.0.0.0:port" is all of the
     *  host's. The others connect to it, and may be given another one that leads there. NULL:
     *  HEDDLE_BOOTSTRAP_ADDRESS. */
    const char *address;
    /** Rank 0: a listening TCP socket to be used instead of binding to the address, for programs
     *  that start their processes themselves. It becomes non-blocking and close-on-exec, and stays
     *  the caller's. 0: none. */
    int listener;
    /** The key that the job's processes share, and nobody else knows: at least 1 byte; 32 random
     *  ones are good. Copied; never logged, and wiped by heddle_bootstrap_end(). NULL: key_file. */
    const void *key;
    size_t key_bytes;
    /** A regular file whose content is the key, without the newline at its end if it has one; at
     *  most 4,096 bytes. One that others may read is used, with a warning. NULL: the variables. An
     *  environment can be read by the user's other processes, and a command line by everybody. */
    const char *key_file;
    /** The job's name, which only its own processes have: those of another job that happen to use
     *  its key and address are sent away, with a line. NULL: HEDDLE_BOOTSTRAP_JOB, or for
     *  heddle_bootstrap_env() what the launcher calls the job; else "". */
    const char *job;
    /** Seconds until forming gives up; negative: never. 0: HEDDLE_BOOTSTRAP_TIMEOUT, or else 60. */
    double timeout;
    /** Seconds from the call of an allgather until it gives up; negative: never. 0: as timeout.
     *  Must be more than the time by which processes may come to it one after the other. */
    double exchange_timeout;
} heddle_bootstrap_params_t;

/** Finds the other processes over TCP. Blocks until all have come: rank 0 listens, the others try
 *  again until it does. A connection that does not prove within 5 seconds (or half the time-out, if
 *  that is less) that it knows the key is closed, and disturbs nobody. @param [in]  params
 *  copied @param [out] bootstrap  released by heddle_bootstrap_end(); NULL after an error @return
 *  UCC_ERR_INVALID_PARAM: a parameter, an empty key, another key than rank 0's; two processes of
 *  one rank,
 *          different sizes or versions (at both, and then at all others); UCC_ERR_TIMED_OUT:
 *          somebody has not come (rank 0 names who); UCC_ERR_NOT_FOUND: no such host at rank 0, no
 *          such key file; UCC_ERR_NO_RESOURCE: address in use, no descriptor left;
 *          UCC_ERR_IO_ERROR: a process has gone meanwhile; UCC_ERR_NO_MEMORY;
 *          UCC_ERR_NOT_SUPPORTED: no source of random numbers */
ucc_status_t heddle_bootstrap_tcp(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap);

/** heddle_bootstrap_tcp() with rank and size from the environment, as launchers set it; the first
 *  pair of variables of which one is set counts:
 *
 *      HEDDLE_BOOTSTRAP_RANK, HEDDLE_BOOTSTRAP_SIZE      by hand
 *      OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE        mpiexec of Open MPI, prterun
 *      PMI_RANK, PMI_SIZE                                mpiexec of MPICH (hydra) and Intel MPI
 *      PMIX_RANK, PMIX_SIZE or SLURM_NTASKS              PMIx, srun --mpi=pmix
 *      SLURM_PROCID, SLURM_NTASKS                        srun
 *
 *  Where a key or an address is missing, and the launcher has set PMIX_NAMESPACE or PMI_FD, rank 0
 *  leaves what is missing with PMIx (libpmix.so.2) or PMI-2 (libpmi2.so.0), which are loaded then:
 *  a key of its own, and its host's name with a port. All processes must be given the same of both;
 *  PMIx is waited for until the time-out, PMI-2 without one. One call at a time
 *  in a process; the connection with the launcher ends by exit().
 *  A step of SLURM that has a key, but no address, uses the first host of SLURM_STEP_NODELIST or
 *  SLURM_JOB_NODELIST else, and a port from 20000 to 29999 that is derived from SLURM_JOB_ID and
 *  SLURM_STEP_ID.
 *  @param [in]  params     as above, without rank and size; NULL: everything from the environment
 *  @param [out] bootstrap  as above
 *  @return as above; UCC_ERR_NOT_FOUND: no such variable is set (all are named);
 *          UCC_ERR_INVALID_PARAM: one of a pair is missing or no number (it is named);
 *          UCC_ERR_NOT_SUPPORTED: the launcher's library is not to be loaded;
 *          UCC_ERR_IO_ERROR: one of its calls has failed (it is named) */
ucc_status_t heddle_bootstrap_env(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap);

/** Fills in an allgather among the job's processes, one participant each: n_oob_eps is size, oob_ep
 *  is rank. One call may be outstanding at a process. Blocks of any size, the same at all
 *  processes, go from and into the given buffers. It does not block; somebody has to call req_test
 *  until it is done. An error is UCC_ERR_INVALID_PARAM (sizes differ), UCC_ERR_TIMED_OUT or
 *  UCC_ERR_IO_ERROR (a process has gone); it reaches all processes at the latest half a second
 *  after their own time-outs, and every later exchange fails with it. Stays valid until
 *  heddle_bootstrap_end(). Several contexts and teams may use it, one after the other. */
void heddle_bootstrap_oob(heddle_bootstrap_t *bootstrap, ucc_oob_coll_t *oob);

/** This process's number, and how many processes there are. NULL gives 0. */
uint32_t heddle_bootstrap_rank(const heddle_bootstrap_t *bootstrap);
uint32_t heddle_bootstrap_size(const heddle_bootstrap_t *bootstrap);

/** Closes the connections and frees everything. Local: waits for nobody. The exchange may not be
 *  used any more, by this process; with others it fails. UCC_ERR_INVALID_PARAM, and nothing is
 *  done, while a request of the exchange has not been freed; NULL is UCC_OK. */
ucc_status_t heddle_bootstrap_end(heddle_bootstrap_t *bootstrap);

/** The line that says why: the last of level ERROR that the calling thread has logged, by these
 *  calls or in an exchange of theirs, since heddle_bootstrap_forget_error(), without its first
 *  word, cut to some hundred characters; "" if there is none, or errors are not logged
 *  (HEDDLE_LOG_LEVEL). Valid until the thread's next error. heddle_last_error() does not know
 *  it. */
const char *heddle_bootstrap_last_error(void);
void heddle_bootstrap_forget_error(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
