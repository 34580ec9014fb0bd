/* heap.c: the symmetric heap: blocks do not overlap, have the same offset at every PE and the
 * alignment that was asked for, keep their contents when they grow, and are one block again when
 * all are free.
 */
#include "verify.h"

#include <string.h>

enum { BLOCKS = 40, TURNS = 400 };

static char *base; /* where the heap's first block lay */

static size_t agreed;

/* All PEs have the block at the same offset. */
static void check_offset(const char *block) {
    size_t mine = (size_t)(block - base);
    agreed = mine;
    shmem_barrier_all();
    VERIFY(shmem_g(&agreed, 0) == mine);
}

static unsigned int draw(unsigned int *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 10;
}

static void check_contents(const char *block, size_t bytes, int turn) {
    for (size_t i = 0; i < bytes; i++) {
        VERIFY(block[i] == (char)(turn + shmem_my_pe()));
    }
}

/* Random sizes; every block is full of its own number. */
static void churn(void) {
    char *block[BLOCKS] = {NULL};
    size_t bytes[BLOCKS] = {0};
    int written[BLOCKS] = {0};
    unsigned int state = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned int slot = draw(&state) % BLOCKS;
        size_t wanted = 1 + draw(&state) % 3000;
        if (block[slot]) {
            check_contents(block[slot], bytes[slot], written[slot]);
        }
        if (draw(&state) % 2) {
            size_t kept = wanted < bytes[slot] ? wanted : bytes[slot];
            block[slot] = shmem_realloc(block[slot], wanted);
            check_contents(block[slot], kept, written[slot]);
        } else {
            size_t alignment = (size_t)8 << draw(&state) % 10;
            shmem_free(block[slot]);
            block[slot] = shmem_align(alignment, wanted);
            VERIFY((uintptr_t)block[slot] % alignment == 0);
        }
        VERIFY(block[slot]);
        bytes[slot] = wanted;
        written[slot] = turn;
        memset(block[slot], turn + shmem_my_pe(), wanted);
    }
    for (int slot = 0; slot < BLOCKS; slot++) {
        if (block[slot]) {
            check_contents(block[slot], bytes[slot], written[slot]);
        }
        shmem_free(block[slot]);
    }
}

int main(void) {
    shmem_init();
    VERIFY(shmem_malloc(0) == NULL);
    base = shmem_malloc(1);
    shmem_free(base);
    churn();
    char *most = shmem_malloc((size_t)32 << 20); /* half of a heap that nobody has set otherwise */
    VERIFY(most == base);
    shmem_free(most);
    char *one = shmem_malloc_with_hints(100, SHMEM_MALLOC_ATOMICS_REMOTE);
    VERIFY(one == base); /* nothing is left in the way */
    check_offset(one + 7);
    long *zeros = shmem_calloc(100, sizeof(long));
    VERIFY(zeros[0] == 0 && zeros[99] == 0);
    VERIFY(shmem_malloc((size_t)1 << 50) == NULL);
    VERIFY(shmem_realloc(one, (size_t)1 << 50) == NULL);
    shmem_free(one);
    shmem_free(zeros);
    verified("heap");
    return 0;
}
