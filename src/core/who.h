/* who.h: a process as people know it: what lines about others call it, and how they look it up.
 */
#ifndef HD_CORE_WHO_H
#define HD_CORE_WHO_H

#include <stdbool.h>
#include <stdint.h>

enum { HD_WHO_HOST = 40 };

/* As it travels in addresses, and lies in memory that processes share. */
typedef struct hd_who {
    uint32_t pid, space; /* space: tells pid namespaces of one host apart; 0: not known */
    char host[HD_WHO_HOST];
} hd_who_t;

_Static_assert(sizeof(hd_who_t) == 48, "without padding");

/* The calling process. A host's name that does not fit is cut off. */
hd_who_t hd_who_am_i(void);
/* Makes a host's name that has come from elsewhere one that can be printed. */
void hd_who_clean(hd_who_t *who);
/* Does that process, of this host, have its pid in the same namespace? */
static inline bool hd_who_is_beside(const hd_who_t *one, const hd_who_t *other) {
    return one->space && one->space == other->space;
}

#endif
