/* strangers.h: who else uses the processors that our threads yield. threads.h has what others than
 * threads/ need of it.
 */
#ifndef HD_THREADS_STRANGERS_H
#define HD_THREADS_STRANGERS_H

#include "threads/threads.h"

/* Do strangers use the calling thread's processor at `now`, as far as yields have shown? */
bool hd_processor_has_strangers(uint64_t now);
/* The calling thread is about to yield, or to sleep; and after a yield from `began` to `now`. */
void hd_processor_yields(uint64_t now);
void hd_processor_came_back(uint64_t began, uint64_t now);

#endif
