/* delay.c: test builds only: seeded random delays at every publication point, to widen the windows
 * in which a wrong ordering or a missed hand-over shows. Off until armed; costs nothing in the
 * product.
 */
#include "threads/delay.h"

#ifdef HD_TEST

#include "threads/clock.h"

#include <sched.h>
#include <stdatomic.h>

static _Atomic uint64_t state; /* 0: off; shared by all threads, so that their delays interleave */

void hd_delay_arm(uint32_t seed) {
    atomic_store_explicit(&state, seed, memory_order_relaxed); /* only a source of numbers */
}

void hd_delay_point(void) {
    uint64_t seed = atomic_load_explicit(&state, memory_order_relaxed); /* see above */
    if (__builtin_expect(seed == 0, 1)) {
        return;
    }
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    atomic_store_explicit(&state, seed, memory_order_relaxed); /* a lost update is as random */
    if (seed % 64 == 0) {
        sched_yield();
    } else if (seed % 4 == 0) {
        for (uint64_t i = seed >> 8 & 255; i; i--) {
            hd_relax();
        }
    }
}

#else

typedef int hd_delay_is_for_tests; /* ISO C wants a declaration in every file */

#endif
