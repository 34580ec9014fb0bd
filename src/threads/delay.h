/* delay.h: random delays at publication points, in test builds (HD_TEST) only. */
#ifndef HD_THREADS_DELAY_H
#define HD_THREADS_DELAY_H

#include <stdint.h>

#ifdef HD_TEST
void hd_delay_point(void);
/* Any non-zero seed switches delays on for all threads; 0 switches them off. */
void hd_delay_arm(uint32_t seed);
#else
static inline void hd_delay_point(void) {
}
#endif

#endif
