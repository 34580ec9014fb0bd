/*
 * Memory: aligned, zeroed blocks, and large blocks on a chosen NUMA node or where they are used.
 *
 * Everything that the library allocates and that a peer may touch comes from here, so one hook can
 * make the n-th allocation fail. Running out of memory is an error return, never an abort.
 */
#ifndef HD_CORE_MEM_H
#define HD_CORE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Two neighbouring 64-byte lines: adjacent-line prefetchers couple them, so lines with different
 * writers stand this far apart. */
enum { HD_LINE = 64, HD_LINE_PAIR = 128 };
_Static_assert(HD_LINE_PAIR == 2 * HD_LINE, "a pair of lines is two lines");

/* Zeroed, aligned to `align` (a power of two) and padded to a multiple of it, so that nothing else
 * shares the last line. NULL when memory is short or bytes is 0. Freed by hd_free. */
void *hd_alloc(size_t align, size_t bytes);
void hd_free(void *block);

/* A large block whose pages lie on that NUMA node. With one node, no NUMA support, node < 0, or a
 * small block, it is page-aligned memory whose pages are placed by whoever touches them first: it
 * is not touched here. Reads as zero. Freed by hd_free_local. */
void *hd_alloc_local(size_t bytes, int numa_node);
/* Loads libnuma, before any block is allocated on a node. core/topo.c calls it once, if the machine
 * has several nodes: not later, as the library ends the process where it finds no memory. */
void hd_alloc_find_nodes(void);
void hd_free_local(void *block);

/* The part of a team's memory that one endpoint has: reads as zero, aligned to HD_LINE_PAIR at
 * least. Of a large one no page is touched here: that memory costs nothing before it is used, and
 * lies where its user runs. Freed by hd_free_part with the same bytes. */
void *hd_alloc_part(size_t bytes);
void hd_free_part(void *block, size_t bytes);

#ifdef HD_TEST
/* The next n allocations of any thread succeed and all later ones fail; negative: none fails. */
void hd_alloc_fail_after(long n);
/* Pages have so many bytes from now on (a multiple of the system's); 0: the system's. */
void hd_pages_are(size_t bytes);
#endif

#endif
