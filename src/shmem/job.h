/* job.h: what the processes of a job share beside the PEs' memory (memory.h). A job is a program
 * that shmemrun runs in one or more processes of their own (processes.h); a program that shmemrun
 * runs in its own process has a job, too, which is private.
 */
#ifndef SHMEM_JOB_H_
#define SHMEM_JOB_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
    JOB_PROCESSES = 256, /* at most: as many share memory in Heddle */
    EXCHANGE_BYTES = 32  /* of a round: what Heddle exchanges takes one or two */
};

/** What a process writes. */
typedef struct job_process {
    alignas(128) _Atomic bool over; /**< all its PEs have ended in order */
    _Atomic bool leaves;            /**< it is counted by job_t::leaving */
    char block[EXCHANGE_BYTES];     /**< see exchange.c */
} job_process_t;

/** Of all PEs. */
typedef struct job {
    uint32_t processes;
    _Atomic uint32_t coming; /**< whether a PE has come to shmem_init, and who never will: init.c */
    _Atomic uint32_t end; /**< JOB_ENDS + the status of who was the first to end all; 0: nobody */
    _Atomic uint32_t leaving; /**< processes that have nothing left to do but to end; one that is
                                 gone before counts as all */
    _Atomic bool is_full;     /**< an allocation has failed, and a line said so */
    alignas(128) _Atomic uint32_t arrived; /**< see exchange.c */
    job_process_t process[];
} job_t;

#define JOB_ENDS ((uint32_t)1 << 31)

extern job_t *the_job;
extern int job_number; /**< this process's */

/** By shmemrun, before there are processes. False: errno says why not. */
bool job_make(int processes);
void job_unmake(void);
/** A process begins. Returns a descriptor that can be read when all shall end. */
int job_enter(int number);
/** All its PEs have ended in order. */
void job_over(void);

/** Says with which status all end, if nobody has yet. A child that a PE has forked says nothing. */
void job_end(int status);
bool job_ends(void);
int job_status(void);
/** After that, when all is done but _exit(): waits until the others are as far, for about half a
 *  second at most. Else they would take this process for one that has died, and say so. */
void job_leave(void);
void job_count_leaving(uint32_t n);

/** After an error of a collective: if that comes from a process that is gone, shmemrun says so, and
 *  ends this process meanwhile. */
void job_heed(void);

/** Sleeps while it is `seen`, a tenth of a second at most; another process may wake who sleeps. */
void job_sleep(_Atomic uint32_t *word, uint32_t seen);
void job_wake(_Atomic uint32_t *word);

/** Since some time in the past. */
static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
