/* listeners.h: where this process listens. */
#ifndef TESTS_LISTENERS_H_
#define TESTS_LISTENERS_H_

#include <stdint.h>

/* TCP sockets of this process that listen at other addresses than loopback ones. */
uint32_t listeners_outside(void);

#endif
