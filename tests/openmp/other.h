/* other.h: what another file of the program, in C++, does with <heddle/omp.h>. */
#ifndef TESTS_OPENMP_OTHER_H_
#define TESTS_OPENMP_OTHER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* By every thread of a region: the sum of all x; -1: it went wrong. */
int64_t other_sum(int64_t x);

#ifdef __cplusplus
}
#endif

#endif
