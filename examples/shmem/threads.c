/* threads.c: several threads of each PE at a time: collectives of active sets of their own, puts
 * and atomics. */
#include "verify.h"

#include <pthread.h>
#ifndef __SANITIZE_THREAD__ /* which does not know C11's threads */
#include <threads.h>
#endif

enum { ROUNDS = 5000, SETS = 4 };

static long psync[SETS][SHMEM_SYNC_SIZE];
static int from[SETS], sum[SETS], work[SETS], arrived;

/* A set's PEs wait for each other; now and then they add up their numbers of the round. */
static void turn(int set, int round, int start, int log_stride, int size) {
    if (round % 100) {
        shmem_sync(start, log_stride, size, psync[set]);
    } else {
        from[set] = round;
        shmem_int_sum_to_all(&sum[set], &from[set], 1, start, log_stride, size, &work[set],
                             psync[set]);
        VERIFY(sum[set] == round * size);
    }
}

static void *with_all(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        turn(0, i, 0, 0, shmem_n_pes());
    }
    return NULL;
}

/* With every second PE, and alone: two sets, of which the library has to find the other one each
 * time. */
static void *with_half(void *argument) {
    int me = shmem_my_pe(), first = me % 2;
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        turn(1, i, first, 1, (shmem_n_pes() + 1 - first) / 2);
        for (int k = 0; k < 20; k++) {
            turn(2 + k % 2, i, me, k % 2, 1);
        }
    }
    return NULL;
}

/* A thread that C11's call has started is its PE's as well. */
static int tell(void *argument) {
    (void)argument;
    shmem_atomic_inc(&arrived, (shmem_my_pe() + 1) % shmem_n_pes());
    return 7;
}

int main(void) {
    pthread_t thread[2];
    int provided;
    VERIFY(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    VERIFY(provided == SHMEM_THREAD_MULTIPLE);
    VERIFY(pthread_create(&thread[0], NULL, with_all, NULL) == 0);
    VERIFY(pthread_create(&thread[1], NULL, with_half, NULL) == 0);
    int result = 7;
#ifdef __SANITIZE_THREAD__
    (void)tell(NULL);
#else
    thrd_t other;
    VERIFY(thrd_create(&other, tell, NULL) == thrd_success);
    VERIFY(thrd_join(other, &result) == thrd_success);
#endif
    VERIFY(result == 7);
    shmem_wait_until(&arrived, SHMEM_CMP_EQ, 1);
    VERIFY(pthread_join(thread[0], NULL) == 0 && pthread_join(thread[1], NULL) == 0);
    verified("threads");
    return 0;
}
