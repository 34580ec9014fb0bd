/* late.h: a processor that strangers had. */
#ifndef TESTS_LATE_H_
#define TESTS_LATE_H_

#include "threads/strangers.h"

/* As if the caller's processor had come back late from a yield, several times in a row. */
static inline void late_return(void) {
    enum { TIMES = 3, LATE_US = 4000 };
    uint64_t began = hd_ticks();
    for (int i = 0; i < TIMES; i++) {
        hd_processor_came_back(began, began + LATE_US * hd_ticks_per_us);
        began += LATE_US * hd_ticks_per_us;
    }
}

#endif
