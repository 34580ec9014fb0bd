/* heaps.h: buffers of programs that processes of a node run. TEST_HEAPS in the environment: "all"
 * are in heaps, which the others reach; "some", which no two processes need to agree on; "shared":
 * none is, but all are in memory that others attach by a stand-in for XPMEM (xpmem/stand_in.c), if
 * TEST_XPMEM names that library.
 */
#ifndef TESTS_SUPPORT_HEAPS_H_
#define TESTS_SUPPORT_HEAPS_H_

#include <stdbool.h>
#include <stddef.h>

/* `one`: is it one of some? */
void *heaps_alloc(size_t bytes, bool one);
void heaps_free(void *memory);

#endif
