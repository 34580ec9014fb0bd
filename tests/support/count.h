/* count.h: how many collectives were run and compared with the reference.
 *
 * Criterion runs every test in a process of its own, so counts are added up in the file that
 * HEDDLE_TEST_COUNT_FILE names, if it is set (tests/conformance sets it).
 */
#ifndef TESTS_COUNT_H_
#define TESTS_COUNT_H_

#include <stdint.h>

void count_checked(uint64_t collectives);
uint64_t count_of_process(void);
/* Sum over the processes that wrote into the file. */
uint64_t count_of_file(const char *path);

#endif
