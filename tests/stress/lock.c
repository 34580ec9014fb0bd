/* lock.c: the one-word lock among more threads than processors. What it guards are plain counters:
 * a section that is not ordered after the one before loses counts, and ThreadSanitizer reports it.
 * Some sections are entered by trying, some hold the processor's next user up. Ends with the child
 * of a fork, which takes what a thread of its parent held.
 */
#include "threads/lock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, SECTIONS = 20000, COUNTERS = 4, SECTIONS_PER_YIELD = 97 };

static hd_lock_t lock;
static uint64_t counter[COUNTERS];

static void *run(void *arg) {
    uint64_t refused = 0;
    for (uint32_t i = 0; i < SECTIONS; i++) {
        if (i % 2) {
            hd_lock(&lock);
        } else {
            while (!hd_lock_try(&lock)) {
                refused++;
                sched_yield();
            }
        }
        for (uint32_t c = 0; c < COUNTERS; c++) {
            counter[c]++;
        }
        if (i % SECTIONS_PER_YIELD == 0) {
            sched_yield(); /* as if it were preempted */
        }
        hd_unlock(&lock);
    }
    *(uint64_t *)arg = refused;
    return NULL;
}

static int check_counts(void) {
    pthread_t thread[THREADS];
    uint64_t refused[THREADS], all = 0;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, run, &refused[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        all += refused[i];
    }
    for (int c = 0; c < COUNTERS; c++) {
        if (counter[c] != (uint64_t)THREADS * SECTIONS) {
            fprintf(stderr, "lock: counted %llu instead of %llu\n", (unsigned long long)counter[c],
                    (unsigned long long)THREADS * SECTIONS);
            return 1;
        }
    }
    printf("lock: %d sections, %llu tries refused\n", THREADS * SECTIONS, (unsigned long long)all);
    return 0;
}

/* As if another thread held the lock at the time of the fork. */
static int check_fork(void) {
    int status = 1;
    hd_lock(&lock);
    pid_t child = fork();
    if (child == 0) {
        hd_lock_forget(&lock);
        bool taken = hd_lock_try(&lock), again = hd_lock_try(&lock);
        _exit(taken && !again ? 0 : 1);
    }
    hd_unlock(&lock);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "lock: a child of a fork could not take what it forgot\n");
        return 1;
    }
    return 0;
}

int main(void) {
    hd_clock_init();
    return check_counts() || check_fork() ? EXIT_FAILURE : EXIT_SUCCESS;
}
