/* processes.h: how the processes of a job begin and end.
 *
 * shmemrun makes what is shared, and then the processes, which have it at the same addresses. It
 * runs no PE itself; it waits for the processes, and ends all when one of them ends before its
 * time. When shmemrun itself is gone, they end, too.
 */
#ifndef SHMEM_PROCESSES_H_
#define SHMEM_PROCESSES_H_

/** What a process does; it calls job_over() and exit() at its end. */
typedef void work_t(void *argument);

/** As many as the_world has. Returns the job's status: that of a PE that has ended all, or 128 +
 *  the number of a signal that has ended a process, or the first that is not 0. */
int run_processes(work_t *work, void *argument);

#endif
