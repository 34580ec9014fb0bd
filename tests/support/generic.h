/* generic.h: user-defined datatypes for tests.
 *
 * contiguous: 12 bytes {a, b, c}, with a reduction that is associative but not commutative: (a, b)
 *     is the map x -> a x + b modulo 2^32 and the reduction composes maps; c adds up. It tells
 *     whether operands were combined in the order of endpoints.
 * packed: 16 bytes of which 12 travel: an int32 and, after a hole of 4 bytes, a double. No
 *     reduction. Its pack and unpack accept any offset and length, as the interface demands.
 */
#ifndef TESTS_GENERIC_H_
#define TESTS_GENERIC_H_

#include "../reference.h"

/* Callback activity of this process; in the end as many states were finished as were started. */
typedef struct generic_counts {
    uint64_t started, finished, packed_bytes, unpacked_bytes, reductions;
} generic_counts_t;

reference_dt_t generic_contiguous(void);
reference_dt_t generic_packed(void);
/* A datatype that its user packs to so many bytes for any count, which are zeros: for tests of
 * calls that move nothing. The caller gives it to ucc_dt_destroy. */
ucc_datatype_t generic_hollow(size_t bytes);
void generic_destroy(reference_dt_t *dt);
generic_counts_t generic_counts(void);

#endif
