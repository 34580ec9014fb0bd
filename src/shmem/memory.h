/* memory.h: the PEs' memory, where they live in several processes.
 *
 * Each PE has a block: its heap, and behind that a place for its copy of the program. All blocks
 * are mapped at the same addresses in all processes, since they are there before these. A copy lies
 * where the loader has put it; its pages that may be written are those of the block from then on,
 * mapped a second time, so that other processes find its globals there. What can't be written was
 * copied to the block.
 */
#ifndef SHMEM_MEMORY_H_
#define SHMEM_MEMORY_H_

#include "pe.h"

/** Blocks for all PEs, of the_world's sizes; those of a process are one file, which is sealed. */
void memory_make(void);
/** The calling process keeps its own file alone. */
void memory_keep(void);
void memory_unmake(void);

/** Of a PE, in all processes. */
char *memory_heap(int pe);
char *memory_image(int pe);

/** How many bytes a program takes that is in this file, from where it begins. 0: it is none. */
size_t image_span(const char *path);
/** Where the module lies that is loaded at base; NULL: it is not loaded. */
char *image_find(uintptr_t base, size_t *bytes);
/** Makes the copy that begins at `image` one with the PE's block. */
void image_share(char *image, int pe);

#endif
