/* burst.h: a long sequence of small collectives, several at a time, each with values of its own, so
 * that every endpoint checks its results by itself. Made for rates of a million a second, and for
 * teams that end right after it: what an operation has used is freed as soon as it may be.
 *
 *     burst_part_t *part = burst_begin(&burst, team, context, me, memory, &random);
 *     while (!burst_step(part)) { ... other endpoints ... }
 *     burst_end(part);
 */
#ifndef TESTS_BURST_H_
#define TESTS_BURST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

/* What all endpoints agree on. */
typedef struct burst {
    uint64_t seed, length; /* operations */
    uint32_t n;            /* endpoints of the team */
    uint32_t persistent;   /* 0, or so many requests are posted in turn, again and again */
    bool quick;            /* barriers, bcasts and allreduces of a few words, and nothing else */
    bool sets;             /* some run among active sets */
    size_t memory;         /* 0, or bytes of symmetric memory for some that are one-sided */
} burst_t;

typedef struct burst_part burst_part_t;

/* A random one of up to `longest` operations. */
burst_t burst_draw(uint64_t *random, uint32_t n, uint64_t longest, size_t memory);

/* `memory`: the endpoint's own part of the symmetric memory, zeroed when the team was made.
 * `random` is for what endpoints need not agree on; it is copied. */
burst_part_t *burst_begin(const burst_t *burst, ucc_team_h team, ucc_context_h context, uint32_t me,
                          void *memory, uint64_t random);

/* Some posts, tests and one progress, without a wait. True when all is over. */
bool burst_step(burst_part_t *part);

/* How many operations it has posted so far. */
uint64_t burst_posted(const burst_part_t *part);

/* Frees the part. The number of operations, each counted at one of its members; *wrong (added to)
 * results differed, or ended badly: the first of them have been printed. */
uint64_t burst_end(burst_part_t *part, uint64_t *wrong);

#endif
