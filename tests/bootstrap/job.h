/* job.h: processes on this host that find each other by the TCP bootstrap, for tests.
 *
 *     job_t *job = job_open(3);
 *     for (uint32_t i = 0; i < 3; i++) {
 *         job_start(job, i, run);         ... run(job, i) in a child; its return value is
 *                                         report[i].status
 *     }
 *     job_wait(job);
 *     ... job->report[i] ...
 *
 * A job lasts as long as its process, which runs one test. Children do not fail asserts: they
 * return a status, and what they logged is in their report. A child that hangs is killed by an
 * alarm, and its report says UCC_INPROGRESS, as that of any child that did not return. One that
 * leaks says UCC_ERR_NO_MEMORY, where AddressSanitizer is there to tell.
 */
#ifndef TESTS_BOOTSTRAP_JOB_H_
#define TESTS_BOOTSTRAP_JOB_H_

#include <heddle/bootstrap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { JOB_LOG = 8192, JOB_SECONDS = 60 };

typedef struct report {
    pid_t pid;
    ucc_status_t status;
    double seconds;    /* whatever the child measured */
    double ended;      /* test_now() when the child's function returned */
    int ready;         /* for children and test to wait for each other */
    char log[JOB_LOG]; /* warnings and errors, a line each */
} report_t;

typedef struct job {
    uint32_t size;
    int listener; /* of rank 0, made before any child is started: nobody has to try again */
    uint16_t port;
    char address[64];  /* of the listener */
    void *arg;         /* the test's */
    bool keeps_memory; /* children do, by setenv or in UCX: they are not asked for leaks */
    struct job *next;
    report_t *report; /* in memory that all share; twice as many as processes */
} job_t;

typedef ucc_status_t job_run_t(job_t *job, uint32_t i);

job_t *job_open(uint32_t size);
void job_start(job_t *job, uint32_t i, job_run_t *run);
/* All that were started. */
void job_wait(job_t *job);
/* Starts `size` of them, and waits. */
void job_all(job_t *job, job_run_t *run);

/* What processes of the job give to heddle_bootstrap_tcp: rank 0 gets the listener. Time-out 20 s.
 */
heddle_bootstrap_params_t job_params(const job_t *job, uint32_t rank);
ucc_status_t job_form(const job_t *job, uint32_t rank, heddle_bootstrap_t **bootstrap);
/* A port at which nobody listens, and which the system gives to nobody while this process, which
 * runs one test, lives. Processes of a job may listen there. */
uint16_t job_free_port(void);

/* The port at which a process listens; waits until it does. */
uint16_t job_listening_port(pid_t pid);

/* One allgather of blocks of n bytes, all of which are checked. UCC_ERR_NO_MESSAGE: a byte is
 * wrong. */
ucc_status_t job_gather(heddle_bootstrap_t *bootstrap, size_t n, uint64_t seed);
/* Ends it (NULL: nothing). status, or how ending went if that is UCC_OK. */
ucc_status_t job_end(heddle_bootstrap_t *bootstrap, ucc_status_t status);
/* What status a call to the exchange gives in the end; buffers as in the call. */
ucc_status_t job_exchange(const ucc_oob_coll_t *oob, void *src, void *dst, size_t n);

bool job_logged(const job_t *job, uint32_t i, const char *text);

#endif
