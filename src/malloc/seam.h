/* seam.h: what libheddle asks libheddle_malloc, when it is preloaded: where its heap lies. The two
 * are found by the name of this function (dlsym), and need not be of one version. libheddle_shmem
 * answers likewise, of the symmetric memory of PEs in several processes; where both are there,
 * libheddle hears of libheddle_malloc's alone.
 */
#ifndef HD_MALLOC_SEAM_H
#define HD_MALLOC_SEAM_H

#include <stddef.h>
#include <stdint.h>

enum { HD_MALLOC_VERSION = 1 }; /* of this answer */
#define HD_MALLOC_ASK "heddle_malloc_heap"

/* It stays where it is until the process ends. In the child of a fork there is another one, or
 * libheddle_shmem's is the parent's, at the same place. */
typedef struct hd_malloc_heap {
    void *base;
    size_t bytes;
    int fd; /* a sealed memfd, all of it at base; it stays that library's */
} hd_malloc_heap_t;

/* 0: *heap is filled in; the heap is made if there was none. Else there is none to be had, or none
 * that is told about in this version. Any thread. */
typedef int hd_malloc_ask_fn(uint32_t version, hd_malloc_heap_t *heap);

#endif
