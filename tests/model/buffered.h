/* buffered.h: memory with store buffers, for models (x86-TSO): a store goes into its thread's
 * buffer and reaches memory later, in order; a thread reads its own buffer first. Cells and values are
 * uint8_t, as all of a state is (explorer.h).
 */
#ifndef HD_MODEL_BUFFERED_H
#define HD_MODEL_BUFFERED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MODEL_BUFFER = 5 }; /* stores; a model may say that its buffers are full before */

typedef struct model_buffer {
    uint8_t n;
    struct {
        uint8_t cell, value;
    } store[MODEL_BUFFER];
} model_buffer_t;

static inline uint8_t model_load(const uint8_t *memory, const model_buffer_t *buffer,
                                 uint8_t cell) {
    for (uint8_t i = buffer->n; i-- > 0;) {
        if (buffer->store[i].cell == cell) {
            return buffer->store[i].value;
        }
    }
    return memory[cell];
}

static inline void model_store(model_buffer_t *buffer, uint8_t cell, uint8_t value) {
    buffer->store[buffer->n].cell = cell;
    buffer->store[buffer->n++].value = value;
}

/* The oldest store reaches memory. False: there is none. */
static inline bool model_drain(uint8_t *memory, model_buffer_t *buffer) {
    if (!buffer->n) {
        return false;
    }
    memory[buffer->store[0].cell] = buffer->store[0].value;
    memmove(buffer->store, buffer->store + 1, sizeof(buffer->store) - sizeof(buffer->store[0]));
    buffer->n--;
    memset(&buffer->store[buffer->n], 0, sizeof(buffer->store[0])); /* equal states, equal bytes */
    return true;
}

#endif
