/* arena.h: memory in which buffers lie at any address, between guards, and a twin of it.
 *
 * A kernel works on the one, a reference on the other, at the same places; then both must be the
 * same to the last byte. So what lies beside the buffers is checked like what lies in them.
 */
#ifndef TESTS_GPU_ARENA_H_
#define TESTS_GPU_ARENA_H_

#include <stddef.h>
#include <stdint.h>

typedef struct arena {
    uint8_t *memory, *twin; /* aligned to 64 */
    size_t bytes, used;
} arena_t;

arena_t arena_make(size_t bytes);
void arena_free(arena_t *arena);

/* Forgets all buffers; what lies there is drawn anew. */
void arena_clear(arena_t *arena, uint64_t *seed);

/* `bytes` behind what was taken before and a gap, at an address that is `phase` modulo 16. */
void *arena_take(arena_t *arena, size_t bytes, size_t phase);

/* Now the twin is a copy. */
void arena_copy(arena_t *arena);

/* The same place in the twin. */
void *arena_twin(const arena_t *arena, const void *pointer);

/* The first place where the two differ; arena->used if none. */
size_t arena_compare(const arena_t *arena);

#endif
