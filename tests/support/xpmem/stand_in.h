/* stand_in.h: see stand_in.c. Found by dlsym(): the library loads it, not the test. */
#ifndef TESTS_STAND_IN_H_
#define TESTS_STAND_IN_H_

#include <stdbool.h>
#include <stdint.h>

/* What is attached here is looked up again when it is touched; or, if it vanishes, is a SIGBUS, as
 * if its owners had ended. Returns how many attachments there are. */
uint32_t stand_in_forget(bool vanishes);
typedef uint32_t stand_in_forget_fn(bool vanishes);

#endif
