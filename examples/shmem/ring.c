/* ring.c: a block goes round the ring of PEs; each adds its number to every element and passes it
 * on together with a signal, which tells the next PE that the block is there.
 */
#include "verify.h"

enum { ELEMENTS = 1000, ROUNDS = 20 };

static long block[ELEMENTS]; /* a global is symmetric */
static uint64_t signals;     /* how often a block has come */

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    static long mine[ELEMENTS];
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (me != 0 || round > 1) { /* PE 0 begins with zeros */
            uint64_t wanted = me == 0 ? round - 1 : round;
            VERIFY(shmem_signal_wait_until(&signals, SHMEM_CMP_GE, wanted) == wanted);
        }
        for (int i = 0; i < ELEMENTS; i++) {
            mine[i] = block[i] + me + 1;
        }
        shmem_put_signal(block, mine, ELEMENTS, &signals, 1, SHMEM_SIGNAL_ADD, (me + 1) % n);
    }
    if (me == 0) {
        shmem_signal_wait_until(&signals, SHMEM_CMP_EQ, ROUNDS);
        for (int i = 0; i < ELEMENTS; i++) {
            VERIFY(block[i] == (long)ROUNDS * n * (n + 1) / 2);
        }
    }
    verified("ring");
    return 0;
}
