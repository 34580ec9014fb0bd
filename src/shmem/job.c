/* job.c: what the processes of a job tell each other (job.h). Below all other files. */
#include "job.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static job_t alone = {.processes = 1}; /* of a program in one process */
job_t *the_job = &alone;
int job_number;

static pid_t self; /* not what a program has forked */
static int bell;   /* the eventfd: it is readable when all shall end */

static size_t bytes_of(uint32_t processes) {
    return sizeof(job_t) + processes * sizeof(job_process_t);
}

bool job_make(int processes) {
    void *memory = mmap(NULL, bytes_of((uint32_t)processes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bell = eventfd(0, EFD_CLOEXEC);
    if (memory == MAP_FAILED || bell < 0) {
        return false;
    }
    the_job = memory;
    the_job->processes = (uint32_t)processes;
    self = getpid();
    return true;
}

void job_unmake(void) {
    munmap(the_job, bytes_of(the_job->processes));
    close(bell);
    the_job = &alone;
}

int job_enter(int number) {
    self = getpid();
    job_number = number;
    return bell;
}

static bool is_of_job(void) {
    return the_job != &alone && getpid() == self;
}

/* Neither is private to the process. */
void job_sleep(_Atomic uint32_t *word, uint32_t seen) {
    struct timespec most = {.tv_nsec = 100000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0);
}

void job_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void job_end(int status) {
    uint32_t none = 0, end = JOB_ENDS | ((uint32_t)status & 0xff);
    uint64_t one = 1;
    /* relaxed: nothing comes with it */
    if (is_of_job() &&
        atomic_compare_exchange_strong_explicit(&the_job->end, &none, end, memory_order_relaxed,
                                                memory_order_relaxed) &&
        write(bell, &one, sizeof(one)) < 0) {
        return; /* the others hear of it when this process has ended */
    }
}

bool job_ends(void) {
    return atomic_load_explicit(&the_job->end, memory_order_relaxed) != 0;
}

int job_status(void) {
    uint32_t end = atomic_load_explicit(&the_job->end, memory_order_relaxed);
    return (int)(end & ~JOB_ENDS);
}

void job_count_leaving(uint32_t n) {
    /* relaxed: nothing comes with it */
    atomic_fetch_add_explicit(&the_job->leaving, n, memory_order_relaxed);
    job_wake(&the_job->leaving);
}

static void leave_once(void) {
    /* relaxed: counts once */
    if (!atomic_exchange_explicit(&the_job->process[job_number].leaves, true,
                                  memory_order_relaxed)) {
        job_count_leaving(1);
    }
}

void job_over(void) {
    /* relaxed: shmemrun looks when the process has ended */
    atomic_store_explicit(&the_job->process[job_number].over, true, memory_order_relaxed);
    leave_once();
}

/* Not all can end at the same instant: what is said from here on, about who has, is not heard. */
static void fall_silent(void) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
}

void job_leave(void) {
    static const double most = 0.5;
    if (!is_of_job()) {
        return;
    }
    fall_silent();
    leave_once();
    for (double began = seconds(); seconds() - began < most;) {
        /* relaxed: nothing comes with it */
        uint32_t seen = atomic_load_explicit(&the_job->leaving, memory_order_relaxed);
        if (seen >= the_job->processes) {
            return;
        }
        job_sleep(&the_job->leaving, seen);
    }
}

void job_heed(void) {
    static const double most = 2;
    for (double began = seconds(); is_of_job() && seconds() - began < most;) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
