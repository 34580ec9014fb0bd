#include "arena.h"

#include "run.h"
#include "support/deadline.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

arena_t arena_make(size_t bytes) {
    arena_t arena = {NULL, NULL, (bytes + ALIGN - 1) / ALIGN * ALIGN, 0};
    arena.memory = run_memory(arena.bytes);
    arena.twin = aligned_alloc(ALIGN, arena.bytes);
    if (arena.twin == NULL) {
        abort();
    }
    return arena;
}

void arena_free(arena_t *arena) {
    run_memory_free(arena->memory);
    free(arena->twin);
}

void arena_clear(arena_t *arena, uint64_t *seed) {
    size_t touched = (arena->used + ALIGN - 1) / ALIGN * ALIGN;
    random_fill(seed, arena->memory, touched);
    arena->used = 0;
}

void *arena_take(arena_t *arena, size_t bytes, size_t phase) {
    size_t at = (arena->used + 16 + 15) / 16 * 16 + phase;
    if (at + bytes + ALIGN > arena->bytes) {
        fprintf(stderr, "arena.c: %zu bytes are not enough\n", arena->bytes);
        abort();
    }
    arena->used = at + bytes;
    return arena->memory + at;
}

void arena_copy(arena_t *arena) {
    memcpy(arena->twin, arena->memory, arena->used + ALIGN);
}

void *arena_twin(const arena_t *arena, const void *pointer) {
    return arena->twin + ((const uint8_t *)pointer - arena->memory);
}

size_t arena_compare(const arena_t *arena) {
    size_t bytes = arena->used + ALIGN;
    if (memcmp(arena->memory, arena->twin, bytes) == 0) {
        return arena->used;
    }
    size_t at = 0;
    while (arena->memory[at] == arena->twin[at]) {
        at++;
    }
    return at;
}
