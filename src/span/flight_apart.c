/* flight_apart.c: reductions whose operands cross one by one. They must have the bits of one
 * process wherever endpoints live, and their endpoints live so that combining them process by
 * process would give other bits (hd_span_t). What crosses is one operand for each block of
 * `together` endpoints, which is a level of the canonical tree and lives in one process; if
 * `together` is 1, that is each endpoint's own operand. A process that makes a part of the result
 * combines this part of all operands, in the order of the endpoints.
 *
 * The lists lie at the beginning of the flight's `own` memory: by process, where its operands
 * begin; by operand, which block it is; and the addresses of this process's operands. The passages
 * call this file while the completer prepares legs, and rows in LOCAL.
 */
#include "span/internal.h"

/* How many operands this process makes. */
static uint32_t mine(const hd_span_t *span) {
    return hd_span_blocks(span, span->mine);
}

/* How many numbers the lists have in front of the addresses. */
static size_t numbers(const hd_span_t *span) {
    /* rounded up so that the addresses behind are aligned */
    return ((size_t)span->processes + 1 + span->blocks + 1) & ~(size_t)1;
}

size_t hd_apart_bytes(const hd_span_t *span) {
    size_t bytes = numbers(span) * sizeof(uint32_t) + mine(span) * sizeof(void *);
    return (bytes + HD_LINE - 1) & ~(size_t)(HD_LINE - 1);
}

const void **hd_apart_mine(const hd_flight_t *f, uint32_t i) {
    return (const void **)(void *)(f->own.at + numbers(f->span) * sizeof(uint32_t)) + i;
}

uint32_t hd_apart_members(const hd_flight_t *f, uint32_t i, uint32_t *first) {
    *first = i * f->span->together;
    return f->n - *first < f->span->together ? f->n - *first : f->span->together;
}

hd_net_several_t hd_apart_list(const hd_flight_t *f) {
    const hd_span_t *span = f->span;
    uint32_t *first = (uint32_t *)(void *)f->own.at, *place = first + span->processes + 1, n = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        first[p] = n;
        for (uint32_t i = 0; i < hd_span_blocks(span, p); i++) {
            place[n++] = hd_span_endpoint(span, p, i * span->together) / span->together;
        }
    }
    first[span->processes] = n;
    return (hd_net_several_t){.n = n, .first = first, .place = place, .mine = hd_apart_mine(f, 0)};
}
