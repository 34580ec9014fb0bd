/* generic.c: see generic.h. */
#include "generic.h"
#include "deadline.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t started, finished, packed_bytes, unpacked_bytes, reductions;

static void count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed); // read when all is over
}

generic_counts_t generic_counts(void) {
    return (generic_counts_t){.started = started,
                              .finished = finished,
                              .reductions = reductions,
                              .packed_bytes = packed_bytes,
                              .unpacked_bytes = unpacked_bytes};
}

/* --- the contiguous one --- */

typedef struct affine {
    uint32_t a, b, c;
} affine_t;

/* acc = acc followed by x: a non-commutative composition. */
static void affine_combine(void *acc, const void *x) {
    affine_t f, g;
    memcpy(&f, acc, sizeof(f));
    memcpy(&g, x, sizeof(g));
    affine_t both = {.a = f.a * g.a, .b = g.a * f.b + g.b, .c = f.c + g.c};
    memcpy(acc, &both, sizeof(both));
}

static ucc_status_t affine_reduce(const ucc_reduce_cb_params_t *params) {
    count(&reductions, 1);
    if (params->cb_ctx != &reductions) {
        return UCC_ERR_INVALID_PARAM;
    }
    for (size_t e = 0; e < params->count; e++) {
        affine_t acc;
        memcpy(&acc, (const char *)params->src1 + e * sizeof(acc), sizeof(acc));
        for (size_t v = 0; v < params->n_vectors; v++) {
            const char *vector = (const char *)params->src2 + v * params->stride;
            affine_combine(&acc, vector + e * sizeof(acc));
        }
        memcpy((char *)params->dst + e * sizeof(acc), &acc, sizeof(acc));
    }
    return UCC_OK;
}

reference_dt_t generic_contiguous(void) {
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .contig_size = sizeof(affine_t),
        .reduce = {.cb = affine_reduce, .cb_ctx = &reductions},
    };
    reference_dt_t dt = {.name = "generic contiguous",
                         .kind = REFERENCE_USER,
                         .extent = sizeof(affine_t),
                         .alignment = _Alignof(affine_t),
                         .combine = affine_combine};
    must(ucc_dt_create_generic(&ops, NULL, &dt.handle), "ucc_dt_create_generic");
    return dt;
}

/* --- the packed one --- */

enum { EXTENT = 16, PACKED = 12 };

/* Which bytes of an element travel. */
static const unsigned char packed_moved[EXTENT] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};

typedef struct pack_state {
    unsigned char *buffer;
    size_t count;
} pack_state_t;

/* Address of byte number `offset` of the packed stream. */
static unsigned char *stream_byte(const pack_state_t *state, size_t offset) {
    size_t in_element = offset % PACKED;
    return state->buffer + offset / PACKED * EXTENT +
           (in_element < 4 ? in_element : in_element + 4);
}

static void *start(const void *buffer, size_t n) {
    pack_state_t *state = must_alloc(1, sizeof(*state));
    *state = (pack_state_t){.buffer = (unsigned char *)(uintptr_t)buffer, .count = n};
    count(&started, 1);
    return state;
}

static void *start_pack(void *context, const void *buffer, size_t n) {
    must(context == &started ? UCC_OK : UCC_ERR_LAST, "start_pack's context");
    return start(buffer, n);
}

static void *start_unpack(void *context, void *buffer, size_t n) {
    must(context == &started ? UCC_OK : UCC_ERR_LAST, "start_unpack's context");
    return start(buffer, n);
}

static size_t packed_size(void *state) {
    return ((pack_state_t *)state)->count * PACKED;
}

static size_t pack(void *state, size_t offset, void *dest, size_t max_length) {
    size_t total = packed_size(state);
    size_t length = offset >= total ? 0 : total - offset < max_length ? total - offset : max_length;
    for (size_t i = 0; i < length; i++) {
        ((unsigned char *)dest)[i] = *stream_byte(state, offset + i);
    }
    count(&packed_bytes, length);
    return length;
}

static ucc_status_t unpack(void *state, size_t offset, const void *src, size_t length) {
    if (offset + length > packed_size(state)) {
        return UCC_ERR_INVALID_PARAM;
    }
    for (size_t i = 0; i < length; i++) {
        *stream_byte(state, offset + i) = ((const unsigned char *)src)[i];
    }
    count(&unpacked_bytes, length);
    return UCC_OK;
}

static void finish(void *state) {
    count(&finished, 1);
    free(state);
}

reference_dt_t generic_packed(void) {
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = 0,
        .start_pack = start_pack,
        .start_unpack = start_unpack,
        .packed_size = packed_size,
        .pack = pack,
        .unpack = unpack,
        .finish = finish,
    };
    reference_dt_t dt = {.name = "generic packed",
                         .kind = REFERENCE_USER,
                         .extent = EXTENT,
                         .alignment = 8,
                         .moved = packed_moved};
    must(ucc_dt_create_generic(&ops, &started, &dt.handle), "ucc_dt_create_generic");
    return dt;
}

/* --- hollow: the context and every state are the size ----------------------------------------- */

static void *hollow_state(void *context, const void *buffer, size_t count) {
    (void)buffer, (void)count;
    return context;
}

static void *hollow_unpack_state(void *context, void *buffer, size_t count) {
    return hollow_state(context, buffer, count);
}

static size_t hollow_size(void *state) {
    return (size_t)(uintptr_t)state;
}

static size_t hollow_pack(void *state, size_t offset, void *to, size_t length) {
    (void)state, (void)offset;
    memset(to, 0, length);
    return length;
}

static ucc_status_t hollow_unpack(void *state, size_t offset, const void *from, size_t length) {
    (void)state, (void)offset, (void)from, (void)length;
    return UCC_OK;
}

static void hollow_finish(void *state) {
    (void)state;
}

ucc_datatype_t generic_hollow(size_t bytes) {
    ucc_generic_dt_ops_t ops = {.start_pack = hollow_state,
                                .start_unpack = hollow_unpack_state,
                                .packed_size = hollow_size,
                                .pack = hollow_pack,
                                .unpack = hollow_unpack,
                                .finish = hollow_finish};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, (void *)(uintptr_t)bytes, &dt), "ucc_dt_create_generic");
    return dt;
}

void generic_destroy(reference_dt_t *dt) {
    ucc_dt_destroy(dt->handle);
    dt->handle = 0;
}
