/* heaps.h: buffers of programs that processes of a node run. TEST_HEAPS in the environment: "all" are
 * in heaps, which the others reach; "some", which no two processes need to agree on.
 */
#ifndef TESTS_SUPPORT_HEAPS_H_
#define TESTS_SUPPORT_HEAPS_H_

#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

/* `one`: is it one of some? Freed by heddle_free(), in any case. */
static inline void *heaps_alloc(size_t bytes, bool one) {
    const char *heaps = getenv("TEST_HEAPS");
    bool all = heaps != NULL && strcmp(heaps, "all") == 0;
    bool some = heaps != NULL && strcmp(heaps, "some") == 0;
    return all || (some && one) ? heddle_alloc(bytes, HEDDLE_ALLOC_NEAR) : aligned_alloc(64, bytes);
}

#endif
