/* verify.h: how the programs here tell whether they are right. */
#ifndef VERIFY_H_
#define VERIFY_H_

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

/** Ends all PEs if it does not hold. */
#define VERIFY(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: PE %d: not so: %s\n", __FILE__, __LINE__, shmem_my_pe(),       \
                    #condition);                                                                   \
            shmem_global_exit(1);                                                                  \
        }                                                                                          \
    } while (0)

/** The last line of a program, from PE 0 when all have come here. */
static inline void verified(const char *program) {
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs: verified\n", program, shmem_n_pes());
    }
    shmem_finalize();
}

#endif
