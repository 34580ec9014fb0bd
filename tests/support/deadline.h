/* deadline.h: a wait that does not end is a failure with a name, never a hung test run.
 *
 * Usage:
 *     deadline_t deadline = deadline_start("bcast, 5 endpoints");
 *     while (!done) { progress(); deadline_poll(&deadline); }
 *
 * A deadline belongs to one thread. Polling costs a counter; the clock is read now and then.
 */
#ifndef TESTS_DEADLINE_H_
#define TESTS_DEADLINE_H_

#include <ucc/api/ucc.h>

typedef struct deadline {
    const char *what; /* named when time runs out; must outlive the deadline */
    double end;       /* seconds of test_now() */
    unsigned polls;
} deadline_t;

/* Seconds of a monotonic clock. */
double test_now(void);

/* 60 s from now, times HEDDLE_TEST_SLOWDOWN (for sanitizers and emulators). */
deadline_t deadline_start(const char *what);

/* Prints what hung and aborts once time has run out. */
void deadline_poll(deadline_t *deadline);

/* Aborts with a message unless status is UCC_OK: for set-up steps that are not the test's subject.
 */
void must(ucc_status_t status, const char *what);

/* malloc of zeroed memory that never returns NULL. */
void *must_alloc(size_t n, size_t bytes);

#endif
