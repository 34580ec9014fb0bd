/* probe.h: what this build can do, found out in a process that is forked for it, so that the caller
 * can go on forking. */
#ifndef TESTS_PROBE_H_
#define TESTS_PROBE_H_

#include <stdbool.h>

/* Can a team span processes? */
bool probe_network(void);
/* Is there a variable of the library's configuration with this name (without prefix), and does it
 * take the value? */
bool probe_setting(const char *name, const char *value);

#endif
