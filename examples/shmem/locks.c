/* locks.c: a counter and a longer record at PE 0 that PEs change under a lock, by plain gets and
 * puts. */
#include "verify.h"

enum { TURNS = 200, RECORD = 100 };

static long lock;
static long counter;
static int record[RECORD];

static void change(void) {
    int mine[RECORD];
    shmem_get(mine, record, RECORD, 0);
    for (int i = 0, before = mine[0]; i < RECORD; i++) {
        VERIFY(mine[i] == before); /* nobody is in the middle of it */
        mine[i]++;
    }
    shmem_put(record, mine, RECORD, 0);
    shmem_p(&counter, shmem_g(&counter, 0) + 1, 0);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    for (int i = 0; i < TURNS; i++) {
        if (i % 2) {
            shmem_set_lock(&lock);
        } else {
            while (shmem_test_lock(&lock)) {
            }
        }
        change();
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    VERIFY(shmem_g(&counter, 0) == (long)TURNS * n);
    VERIFY(shmem_g(&record[RECORD - 1], 0) == TURNS * n);
    VERIFY(shmem_g(&lock, 0) == 0);
    VERIFY(me == 0 || counter == 0);
    verified("locks");
    return 0;
}
