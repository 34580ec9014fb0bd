/* wire.h: a cable among the hosts of HEDDLE_TEST_HOSTS that delays what goes over it, for kernels
 * without tc netem.
 *
 * Each host gets a tap device, tap0, in place of its net0, with the same address. A process of its
 * own carries frames from one to the other, each a random time later, but in the order in which its
 * host sent them, and drops some if there are too many. wire_end puts things back.
 */
#ifndef TESTS_WIRE_H_
#define TESTS_WIRE_H_

#include <stdbool.h>
#include <stdint.h>

/* Delays from 0 to that many microseconds. The caller has one thread, and goes on without the wire
 * if the result is false: *why then says in a few words why there is none. */
bool wire_begin(uint32_t microseconds, const char **why);
void wire_end(void);

#endif
