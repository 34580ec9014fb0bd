/* said.h: lines of the log, for tests that look whether something was said. The last 64 are kept.
 */
#ifndef TESTS_GPU_SAID_H_
#define TESTS_GPU_SAID_H_

#include <stdbool.h>

/* From now on. */
void said_listen(void);
void said_forget(void);
/* Since then; and one of them that is kept: "" for those that there are not. */
unsigned said_lines(void);
const char *said_line(unsigned i);
bool was_said(const char *words);

#endif
