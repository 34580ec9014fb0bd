/* parts.h: what loop.c, options.c and contents.c have in common beyond loop.h. */
#ifndef BENCH_PARTS_H_
#define BENCH_PARTS_H_

#include "loop.h"

/** Names in the order of the enumerations; kinds: tight, touch; roots: fixed, alternating. */
extern const char *const bench_kinds[], *const bench_forms[], *const bench_roots[];

/** Reads the command line; exits with 2 and the usage where it cannot. */
void bench_parse(bench_options_t *o, int argc, char **argv);
_Noreturn void bench_misuse(const char *option, const char *value);

/** Before a call that is verified: the participant's own source, and no numbers in the destination.
 */
void bench_fill(bench_case_t *c);
/** Elements of this participant's result that are wrong after a call with that root. */
uint64_t bench_check(const bench_case_t *c, uint32_t root);
/** Where block b of participant r begins. */
uint64_t bench_position(const bench_case_t *c, uint32_t r, uint32_t b);
/** Whether this participant's source, or result, matters with that root. */
bool bench_sends(const bench_case_t *c, uint32_t root);
bool bench_receives(const bench_case_t *c, uint32_t root);
/** Where the result is, and how much of it. */
unsigned char *bench_result(const bench_case_t *c, uint64_t *elements);

#endif
