/* debug.c: the last line of a check that failed: see debug.h. */
#include "core/debug.h"

#if HD_DEBUG >= 1 || defined(HD_TEST)

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One write, past the log: its level and its destination may be anything, and this is not to be
 * missed. */
_Noreturn void hd_assert_failed(const char *file, int line, const char *expression, int n,
                                uint64_t left, uint64_t right) {
    char text[512], values[96] = "";
    if (n == 2) {
        snprintf(values, sizeof(values),
                 ": %" PRIu64 " (%#" PRIx64 ") and %" PRIu64 " (%#" PRIx64 ")", left, left, right,
                 right);
    }
    int bytes = snprintf(text, sizeof(text), "[heddle ASSERT] %s:%d: not %s%s\n", file, line,
                         expression, values);
    size_t size = bytes < 0 ? 0 : (size_t)bytes < sizeof(text) ? (size_t)bytes : sizeof(text) - 1;
    if (write(STDERR_FILENO, text, size) < 0) {
        /* nobody is there to be told */
    }
    abort();
}

#else
typedef int hd_no_debug_t; /* an empty file is not C */
#endif
