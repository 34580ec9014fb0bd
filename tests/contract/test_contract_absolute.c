/* test_contract_absolute.c: v types with a NULL buffer and absolute addresses for displacements (of
 * UINT8, 64 bits wide), as PyTorch's backend calls them: in place and not, small and large, by one
 * driver and many.
 */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_absolute, .timeout = 120);

enum { MAX_N = 9, ROOT = 1 };

static const size_t sizes[] = {5, 300, 3000, 70000};

/* What the n endpoints give each other, blocks of `bytes`, no two of them adjacent in order. */
typedef struct absolute {
    ucc_coll_type_t type;
    uint32_t n;
    size_t bytes;
    bool in_place;
    uint8_t *give,
        *take; /* n * n blocks: of endpoint i for j at give, at endpoint i from j at take */
    uint64_t counts[MAX_N], from[MAX_N][MAX_N], to[MAX_N][MAX_N];
    ucc_coll_args_t args[MAX_N];
} absolute_t;

static uint8_t *block(const absolute_t *a, uint8_t *memory, uint32_t i, uint32_t j) {
    return memory + (i * a->n + (a->n - 1 - j)) * a->bytes; /* backwards: not dense */
}

static uint8_t value(uint32_t from, uint32_t to) {
    return (uint8_t)(1 + from * 11 + to);
}

static bool is_alltoallv(const absolute_t *a) {
    return a->type == UCC_COLL_TYPE_ALLTOALLV;
}

static ucc_coll_buffer_info_v_t vector(absolute_t *a, uint64_t *addresses) {
    return (ucc_coll_buffer_info_v_t){.buffer = NULL,
                                      .counts = (ucc_count_t *)a->counts,
                                      .displacements = (ucc_aint_t *)addresses,
                                      .datatype = UCC_DT_UINT8,
                                      .mem_type = UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_t plain(const absolute_t *a, uint8_t *at) {
    return (ucc_coll_buffer_info_t){at, a->bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
}

static void fill(absolute_t *a, uint32_t i) {
    bool gathers = a->type == UCC_COLL_TYPE_ALLGATHERV || a->type == UCC_COLL_TYPE_GATHERV;
    a->counts[i] = a->bytes;
    for (uint32_t j = 0; j < a->n; j++) {
        a->from[i][j] = (uintptr_t)block(a, a->give, i, j);
        a->to[i][j] = (uintptr_t)block(a, a->take, i, j);
        memset(block(a, a->give, i, j), value(i, gathers ? 0 : j), a->bytes);
        memset(block(a, a->take, i, j), a->in_place && is_alltoallv(a) ? value(i, j) : 0, a->bytes);
    }
    if (a->in_place && gathers) {
        memset(block(a, a->take, i, i), value(i, 0), a->bytes);
    }
}

static void prepare(absolute_t *a, uint32_t i) {
    ucc_coll_args_t *args = &a->args[i];
    fill(a, i);
    *args = small_args(a->type);
    args->root = ROOT;
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT |
                  (a->in_place ? UCC_COLL_ARGS_FLAG_IN_PLACE : 0);
    args->src.info = plain(a, block(a, a->give, i, 0));
    args->dst.info_v = vector(a, a->to[i]);
    if (is_alltoallv(a) || a->type == UCC_COLL_TYPE_SCATTERV) {
        args->src.info_v = vector(a, a->from[i]);
    }
    if (a->type == UCC_COLL_TYPE_SCATTERV) {
        args->dst.info = plain(a, block(a, a->take, i, ROOT));
    }
}

static void verify(const absolute_t *a, uint32_t i) {
    for (uint32_t j = 0; j < a->n; j++) {
        uint8_t *got = block(a, a->take, i, j), want = value(j, is_alltoallv(a) ? i : 0);
        if (a->type == UCC_COLL_TYPE_SCATTERV) {
            want = value(ROOT, i);
            got = a->in_place && i == ROOT ? block(a, a->give, i, i) : got;
        }
        if ((a->type == UCC_COLL_TYPE_GATHERV && i != ROOT) ||
            (a->type == UCC_COLL_TYPE_SCATTERV && j != ROOT)) {
            continue;
        }
        for (size_t b = 0; b < a->bytes; b++) {
            cr_assert_eq(got[b], want, "%s of %zu bytes among %u%s: byte %zu at %u from %u",
                         reference_coll_name(a->type), a->bytes, a->n,
                         a->in_place ? " in place" : "", b, i, j);
        }
    }
}

static void run_case(world_t *world, driver_t driver, ucc_coll_type_t type, size_t bytes,
                     bool in_place) {
    static absolute_t a;
    size_t all = (size_t)world->size * world->size * bytes;
    a.type = type;
    a.n = world->size;
    a.bytes = bytes;
    a.in_place = in_place;
    a.give = must_alloc(all, 1);
    a.take = must_alloc(all, 1);
    for (uint32_t i = 0; i < a.n; i++) {
        prepare(&a, i);
    }
    ucc_status_t statuses[MAX_N];
    job_t job = {.args = a.args, .statuses = statuses, .name = reference_coll_name(type)};
    driver_run(world, driver, &job, 1);
    for (uint32_t i = 0; i < a.n; i++) {
        cr_assert_eq(statuses[i], UCC_OK, "%s at %u", job.name, i);
        verify(&a, i);
    }
    free(a.give);
    free(a.take);
}

static void run_all(driver_t driver, uint32_t n) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_ALLGATHERV, UCC_COLL_TYPE_ALLTOALLV,
                                            UCC_COLL_TYPE_GATHERV, UCC_COLL_TYPE_SCATTERV};
    world_t *world = small_world(n);
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            run_case(world, driver, types[t], sizes[s], false);
            run_case(world, driver, types[t], sizes[s], true);
        }
    }
    world_destroy(world);
}

Test(contract_absolute, addresses_are_displacements_from_null_for_one_driver) {
    run_all(DRIVER_ONE, 3);
    run_all(DRIVER_ONE, MAX_N);
}

Test(contract_absolute, addresses_are_displacements_from_null_for_a_thread_per_endpoint) {
    run_all(DRIVER_THREADS, 3);
}
