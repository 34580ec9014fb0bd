/* histogram.c: bins are spread over the PEs; each PE counts its own samples into whichever PE's bin
 * by atomic adds. A second table keeps the largest sample of each bin, by compare and swap.
 */
#include "verify.h"

enum { BINS = 64, SAMPLES = 20000 }; /* of each PE */

static unsigned long counts[BINS];
static unsigned int largest[BINS];

static unsigned int next_sample(unsigned int *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void raise_to(unsigned int *bin, unsigned int sample, int pe) {
    unsigned int seen = shmem_atomic_fetch(bin, pe);
    while (seen < sample) {
        unsigned int before = shmem_atomic_compare_swap(bin, seen, sample, pe);
        if (before == seen) {
            return;
        }
        seen = before;
    }
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    unsigned int state = (unsigned int)me;
    for (int i = 0; i < SAMPLES; i++) {
        unsigned int sample = next_sample(&state), bin = sample % (unsigned int)(BINS * n);
        shmem_atomic_inc(&counts[bin % BINS], (int)(bin / BINS));
        raise_to(&largest[bin % BINS], sample, (int)(bin / BINS));
    }
    shmem_barrier_all();

    /* Everybody counts again, alone, what belongs to the own bins. */
    unsigned long count[BINS] = {0};
    unsigned int most[BINS] = {0};
    for (int pe = 0; pe < n; pe++) {
        state = (unsigned int)pe;
        for (int i = 0; i < SAMPLES; i++) {
            unsigned int sample = next_sample(&state), bin = sample % (unsigned int)(BINS * n);
            if (bin / BINS == (unsigned int)me) {
                count[bin % BINS]++;
                most[bin % BINS] = sample > most[bin % BINS] ? sample : most[bin % BINS];
            }
        }
    }
    for (int i = 0; i < BINS; i++) {
        VERIFY(counts[i] == count[i] && largest[i] == most[i]);
    }
    verified("histogram");
    return 0;
}
