/* structures.h: what the program compares: a structure of ours, and Concurrency Kit's in its place.
 */
#ifndef BENCH_STRUCTURES_H
#define BENCH_STRUCTURES_H

#include <stdint.h>

enum { MAX_THREADS = 64 };

/* One way to do it. `create` makes what `threads` threads share; each of them calls `work` once a
 * round. */
typedef struct rival {
    void *(*create)(uint32_t threads);
    void (*destroy)(void *shared);
    void (*work)(void *shared, uint32_t thread, uint64_t operations);
} rival_t;

/* Both do the same operations in the same order. `most` is the largest number of threads it makes
 * sense for. */
typedef struct contest {
    const char *what, *unit;
    rival_t ours, ck;
    uint32_t most;
} contest_t;

extern const contest_t lock_contests[], stack_contests[],
    table_contests[]; /* end with what == NULL */

void *
zeroed(uint64_t bytes); /* aligned to two cache lines; ends the program if there is no memory */

#endif
