/* descriptors.h: room for file descriptors. A process may have more of them than its soft limit
 * (RLIMIT_NOFILE) says: that is raised, up to the hard one, when what is needed does not fit. */
#ifndef HD_CORE_DESCRIPTORS_H
#define HD_CORE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes room for so many more descriptors. False: there are too few, also under the hard limit.
 * Any thread. */
bool hd_descriptors_reserve(uint32_t more);

#endif
