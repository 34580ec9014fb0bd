/* processes.c: see processes.h.
 *
 * How all end: in each process a thread waits for that. Whoever ends all says so (job_end), by an
 * eventfd from which nobody reads, so that all see it; shmemrun does when a process has ended
 * before its time. A pipe that shmemrun alone could write to tells when shmemrun is gone. Then each
 * process writes out what the program has printed, and ends. Who has not ended a while later, such
 * as one that is stopped, is killed.
 */
#include "processes.h"

#include "job.h"
#include "memory.h"
#include "pe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What ends it: that shmemrun is gone, or what job_enter() has returned. */
static struct pollfd ends_by[2];

static void *wait_for_the_end(void *none) {
    (void)none;
    while (poll(ends_by, 2, -1) < 0 && errno == EINTR) {
    }
    shmem_global_exit(job_ends() ? job_status() : 1); /* else shmemrun is gone */
}

/* Signals are for the program's threads. */
static void start_waiting(void) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, wait_for_the_end, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        complain("thread", strerror(error));
    }
    pthread_detach(thread);
}

_Noreturn static void be_process(int number, int pipe_end, work_t *work, void *argument) {
    the_world.process = number;
    the_world.first = first_pe(number);
    the_world.here = first_pe(number + 1) - the_world.first;
    ends_by[0] = (struct pollfd){.fd = pipe_end, .events = POLLIN};
    ends_by[1] = (struct pollfd){.fd = job_enter(number), .events = POLLIN};
    start_waiting();
    prctl(PR_SET_PDEATHSIG, SIGCONT); /* one that is stopped sees that shmemrun is gone, too */
    if (the_world.processes > 1) {
        memory_keep();
    }
    work(argument);
    abort(); /* not reached */
}

/* ---- shmemrun ---- */

/* What it knows of its processes. */
typedef struct watch {
    pid_t *process; /* 0: it has ended */
    int *status;
    int left;
    bool ends;       /* all shall */
    int naps;        /* since then */
    int by_signal;   /* which has ended a process, not sent from here; 0: none */
    bool has_killed; /* those that did not end */
} watch_t;

static void end_all(watch_t *watch, int status) {
    job_end(status);
    if (!watch->ends) {
        job_count_leaving((uint32_t)the_world.processes);
    }
    watch->ends = true;
}

static void tell_signal(int number, int signal) {
    int first = first_pe(number), last = first_pe(number + 1) - 1;
    char pes[64];
    snprintf(pes, sizeof(pes), first < last ? "PEs %d to %d" : "PE %d", first, last);
    fprintf(stderr, "shmemrun: the process of %s was ended by signal %d (%s)%s\n", pes, signal,
            strsignal(signal), the_world.processes > 1 ? ": all end" : "");
}

static void note_signal(watch_t *watch, int number, int signal) {
    if (watch->by_signal == 0 && !watch->has_killed) {
        tell_signal(number, signal);
        watch->by_signal = signal;
    }
    end_all(watch, 128 + signal);
}

static void note(watch_t *watch, pid_t process, int state) {
    int i = 0;
    while (i < the_world.processes && watch->process[i] != process) {
        i++;
    }
    if (i == the_world.processes) {
        return; /* it was there before shmemrun, in the same process */
    }
    watch->process[i] = 0;
    watch->left--;
    if (WIFSIGNALED(state)) {
        note_signal(watch, i, WTERMSIG(state));
        return;
    }
    watch->status[i] = WEXITSTATUS(state);
    /* relaxed: the process has ended */
    if (!atomic_load_explicit(&the_job->process[i].over, memory_order_relaxed)) {
        end_all(watch, watch->status[i]);
    }
}

/* After the end was told: they have 2 seconds for what was printed (shmem_global_exit), and one
 * more. */
static void kill_late(watch_t *watch) {
    enum { NAPS = 600 };
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (++watch->naps < NAPS || watch->has_killed) {
        return;
    }
    watch->has_killed = true;
    for (int i = 0; i < the_world.processes; i++) {
        if (watch->process[i] > 0) {
            kill(watch->process[i], SIGKILL);
        }
    }
}

static int watch_all(watch_t *watch) {
    while (watch->left > 0) {
        int state;
        pid_t process = waitpid(-1, &state, watch->ends ? WNOHANG : 0);
        if (process > 0) {
            note(watch, process, state);
        } else if (process == 0) {
            kill_late(watch);
        } else if (errno != EINTR) {
            complain("waitpid", strerror(errno));
        }
    }
    if (watch->by_signal) {
        return 128 + watch->by_signal;
    }
    int status = job_ends() ? job_status() : 0;
    for (int i = 0; !job_ends() && status == 0 && i < the_world.processes; i++) {
        status = watch->status[i];
    }
    return status;
}

int run_processes(work_t *work, void *argument) {
    int n = the_world.processes, pipe_ends[2];
    watch_t watch = {.process = calloc((size_t)n, sizeof(pid_t)),
                     .status = calloc((size_t)n, sizeof(int)),
                     .left = n};
    signal(SIGCHLD, SIG_DFL); /* it may have been ignored, and processes would leave no status */
    if (!watch.process || !watch.status || !job_make(n) || pipe2(pipe_ends, O_CLOEXEC) != 0) {
        complain("processes", strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        watch.process[i] = fork();
        if (watch.process[i] == 0) {
            close(pipe_ends[1]);
            be_process(i, pipe_ends[0], work, argument);
        }
        if (watch.process[i] < 0) {
            complain("fork", strerror(errno)); /* those that there are end with this one */
        }
    }
    close(pipe_ends[0]);
    int status = watch_all(&watch);
    close(pipe_ends[1]);
    job_unmake();
    free(watch.process);
    free(watch.status);
    return status;
}
