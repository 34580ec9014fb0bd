/* seam.h: what libheddle asks libheddle_malloc, when it is preloaded: where its heap lies. The two
 * are found by the name of this function (dlsym), and need not be of one version.
 */
#ifndef HD_MALLOC_SEAM_H
#define HD_MALLOC_SEAM_H

#include <stddef.h>
#include <stdint.h>

enum { HD_MALLOC_VERSION = 1 }; /* of this answer */
#define HD_MALLOC_ASK "heddle_malloc_heap"

/* It stays where it is until the process ends. In the child of a fork there is another one, at the
 * same place. */
typedef struct hd_malloc_heap {
    void *base;
    size_t bytes;
    int fd; /* a sealed memfd, all of it at base; it stays libheddle_malloc's */
} hd_malloc_heap_t;

/* 0: *heap is filled in; the heap is made if there was none. Else there is none to be had, or none
 * that is told about in this version. Any thread. */
typedef int hd_malloc_ask_fn(uint32_t version, hd_malloc_heap_t *heap);

#endif
