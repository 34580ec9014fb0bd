/* test_kernels.c: reductions and scans by the bodies of device kernels have the bits of the host's.
 *
 * Every type and operation, many numbers of sources, all ways in which addresses agree or not, in
 * place or not, grids and orders of threads drawn at random: the kernel works in an arena, core's
 * functions in its twin.
 */
#include "core/dtype.h"
#include "core/log.h"
#include "core/reduce.h"
#include "gpu/kernel.h"
#include "support/arena.h"
#include "support/run.h"

#include "support/random.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(kernels, .timeout = 300);

enum { MAX_K = 130, MAX_COUNT = 300, MAX_ELEMENT = 16, ARENA = 4 << 20 };

static const uint64_t types[] = {
    UCC_DT_INT8,
    UCC_DT_INT16,
    UCC_DT_INT32,
    UCC_DT_INT64,
    UCC_DT_INT128,
    UCC_DT_UINT8,
    UCC_DT_UINT16,
    UCC_DT_UINT32,
    UCC_DT_UINT64,
    UCC_DT_UINT128,
    UCC_DT_FLOAT16,
    UCC_DT_FLOAT32,
    UCC_DT_FLOAT64,
    UCC_DT_BFLOAT16,
    UCC_DT_FLOAT32_COMPLEX,
    UCC_DT_FLOAT64_COMPLEX,
    HEDDLE_DT_FLOAT32_INT32,
    HEDDLE_DT_FLOAT64_INT32,
    HEDDLE_DT_INT16_INT32,
    HEDDLE_DT_INT32_INT32,
    HEDDLE_DT_INT64_INT32,
    HEDDLE_DT_FLOAT32_INT64,
    HEDDLE_DT_FLOAT64_INT64,
    HEDDLE_DT_INT64_INT64,
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* All from 1 to 20, and where a level of the tree is full, or one operand begins another. */
static const uint32_t many[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                13, 14, 15, 16, 17, 18, 19, 20, 63, 64, 65, 130};
enum { N_MANY = sizeof(many) / sizeof(many[0]) };

/* ---- values ---- */

/* Bits of a float: any, or special, or an ordinary number. */
static uint64_t float_bits(uint64_t *seed, uint32_t size, ucc_datatype_t dt) {
    const uint32_t fraction = size == 8 ? 52 : size == 4 ? 23 : dt == UCC_DT_FLOAT16 ? 10 : 7;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1), quiet = UINT64_C(1) << (fraction - 1);
    const uint64_t infinity = (sign - 1) >> fraction << fraction;
    uint64_t random = random_next(seed), bits;
    switch (random_below(seed, 10)) {
    case 0:
        bits = 0;
        break;
    case 1:
        bits = infinity;
        break;
    case 2: /* a quiet NaN with a payload */
        bits = infinity | quiet | (random & (quiet - 1));
        break;
    case 3: /* a signalling one */
        bits = infinity | 1 | (random & (quiet - 1));
        break;
    case 4: /* subnormal */
        bits = random & ((UINT64_C(1) << fraction) - 1);
        break;
    case 5: /* the largest, and those near it */
        bits = infinity - 1 - random % 3;
        break;
    case 6: /* any */
        bits = random & (sign - 1);
        break;
    default: /* about 1 */
        bits = infinity / 2 + random % (infinity / 16);
        break;
    }
    return random >> 63 ? bits | sign : bits;
}

/* Mostly ordinary: where every operand is drawn from all, each result is a NaN. */
static uint64_t tame_bits(uint64_t *seed, uint32_t size, ucc_datatype_t dt) {
    const uint32_t fraction = size == 8 ? 52 : size == 4 ? 23 : dt == UCC_DT_FLOAT16 ? 10 : 7;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    const uint64_t infinity = (sign - 1) >> fraction << fraction;
    uint64_t random = random_next(seed);
    uint64_t bits = (infinity / 2 - infinity / 8 + random % (infinity / 4));
    return random >> 63 ? bits | sign : bits;
}

static uint64_t integer_bits(uint64_t *seed) {
    uint64_t random = random_next(seed);
    switch (random_below(seed, 5)) {
    case 0:
        return 0;
    case 1:
        return random % 3 - 1;
    case 2: /* the ends of each width */
        return UINT64_C(0x8000000080008080) - random % 2;
    default:
        return random;
    }
}

typedef struct layout {
    bool is_float, pair;
    uint32_t scalar;          /* bytes of a number; of a pair's value */
    uint32_t index_at, index; /* of a pair's index */
} layout_t;

static layout_t layout_of(ucc_datatype_t dt) {
    switch (dt) {
    case UCC_DT_FLOAT16:
    case UCC_DT_BFLOAT16:
        return (layout_t){true, false, 2, 0, 0};
    case UCC_DT_FLOAT32:
    case UCC_DT_FLOAT32_COMPLEX:
        return (layout_t){true, false, 4, 0, 0};
    case UCC_DT_FLOAT64:
    case UCC_DT_FLOAT64_COMPLEX:
        return (layout_t){true, false, 8, 0, 0};
    case HEDDLE_DT_FLOAT32_INT32:
        return (layout_t){true, true, 4, 4, 4};
    case HEDDLE_DT_FLOAT64_INT32:
        return (layout_t){true, true, 8, 8, 4};
    case HEDDLE_DT_INT16_INT32:
        return (layout_t){false, true, 2, 4, 4};
    case HEDDLE_DT_INT32_INT32:
        return (layout_t){false, true, 4, 4, 4};
    case HEDDLE_DT_INT64_INT32:
        return (layout_t){false, true, 8, 8, 4};
    case HEDDLE_DT_FLOAT32_INT64:
        return (layout_t){true, true, 4, 8, 8};
    case HEDDLE_DT_FLOAT64_INT64:
        return (layout_t){true, true, 8, 8, 8};
    case HEDDLE_DT_INT64_INT64:
        return (layout_t){false, true, 8, 8, 8};
    default:
        return (layout_t){false, false, (uint32_t)hd_dt_size(dt), 0, 0};
    }
}

static void fill_number(uint8_t *at, ucc_datatype_t dt, layout_t layout, bool tame,
                        uint64_t *seed) {
    uint64_t half[2];
    half[0] = !layout.is_float ? integer_bits(seed)
              : tame           ? tame_bits(seed, layout.scalar, dt)
                               : float_bits(seed, layout.scalar, dt);
    half[1] = integer_bits(seed);
    memcpy(at, half, layout.scalar);
}

/* Padding of pairs keeps the random bytes that the arena had. */
static void fill(void *buffer, ucc_datatype_t dt, size_t count, bool tame, uint64_t *seed) {
    layout_t layout = layout_of(dt);
    size_t element = hd_dt_size(dt), step = layout.pair ? element : layout.scalar;
    for (size_t at = 0; at < count * element; at += step) {
        fill_number((uint8_t *)buffer + at, dt, layout, tame, seed);
        if (layout.pair) { /* few values, so that indices decide */
            uint64_t index = random_below(seed, 4) ? random_below(seed, 5) - 2 : random_next(seed);
            uint64_t value = random_below(seed, 3);
            if (random_below(seed, 3)) {
                float f = (float)value;
                double d = (double)value;
                memcpy((uint8_t *)buffer + at,
                       !layout.is_float     ? (void *)&value
                       : layout.scalar == 4 ? (void *)&f
                                            : (void *)&d,
                       layout.scalar);
            }
            memcpy((uint8_t *)buffer + at + layout.index_at, &index, layout.index);
        }
    }
}

/* ---- one case ---- */

typedef struct test_case {
    ucc_datatype_t dt;
    ucc_reduction_op_t op;
    uint32_t k, m;
    size_t element, first, count;
    void *src[MAX_K], *dst[MAX_K];
    hd_gpu_table_t table;
    hd_gpu_width_t width;
    run_grid_t grid;
} test_case_t;

static arena_t arena;
enum { WORDS = 2 * MAX_K };
static uint64_t *words;

/* Addresses: all the same modulo 16; or each aligned as its type wants it; or anywhere. */
static size_t draw_phase(const test_case_t *c, int kind, size_t common, uint64_t *seed) {
    layout_t layout = layout_of(c->dt);
    size_t natural = layout.scalar > 8 ? 8 : layout.scalar;
    if (layout.pair && layout.index > natural) {
        natural = layout.index;
    }
    if (kind == 0) {
        return common / natural * natural % 16;
    }
    return kind == 1 ? random_below(seed, 16) / natural * natural % 16 : random_below(seed, 16);
}

static test_case_t draw_case(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, uint64_t *seed) {
    static const size_t edges[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257};
    test_case_t c = {.dt = dt, .op = op, .k = k, .element = hd_dt_size(dt)};
    int kind = (int)random_below(seed, 4) % 3; /* the first one twice */
    size_t common = random_below(seed, 16);
    bool tame = random_below(seed, 3) > 0;
    c.count = edges[random_below(seed, sizeof(edges) / sizeof(edges[0]))];
    c.first = random_below(seed, 2) * random_below(seed, 20);
    c.width = (hd_gpu_width_t){1 + (uint32_t)random_below(seed, 8), random_below(seed, 2)};
    arena_clear(&arena, seed);
    for (uint32_t i = 0; i < k; i++) {
        size_t count = c.first + c.count;
        c.src[i] = arena_take(&arena, count * c.element, draw_phase(&c, kind, common, seed));
        fill(c.src[i], dt, count, tame, seed);
    }
    c.table = (hd_gpu_table_t){(uint64_t)(uintptr_t)words, words, WORDS, 0};
    if (random_below(seed, 2)) { /* not what the launch says */
        c.grid.blocks = 1 + (uint32_t)random_below(seed, 4);
        c.grid.threads = 1 + (uint32_t)random_below(seed, 40);
    }
    return c;
}

/* m destinations: new ones, or, in place, sources. */
static void draw_destinations(test_case_t *c, uint32_t m, size_t count, bool in_place,
                              uint64_t *seed) {
    int kind = (int)random_below(seed, 3);
    c->m = m;
    for (uint32_t j = 0; j < m; j++) {
        size_t phase = ((uintptr_t)c->src[0] + (kind ? 0 : random_below(seed, 16))) % 16;
        c->dst[j] = in_place ? c->src[j] : arena_take(&arena, count * c->element, phase);
    }
}

static hd_gpu_reduction_t reduction_of(test_case_t *c) {
    return (hd_gpu_reduction_t){.dt = c->dt,
                                .op = c->op,
                                .n = c->k,
                                .k = c->k,
                                .m = c->m,
                                .form = HD_GPU_TO_ALL,
                                .src = (const void *const *)c->src,
                                .dst = c->dst,
                                .first = c->first,
                                .count = c->count};
}

static void check(const test_case_t *c, const char *what) {
    size_t at = arena_compare(&arena);
    if (at == arena.used) {
        return;
    }
    for (uint32_t j = 0; j < c->k; j++) {
        cr_log_error("source %u at %td", j, (uint8_t *)c->src[j] - arena.memory);
    }
    cr_assert_fail(
        "%s, %s of %s, %u sources, %u destinations, elements %zu + %zu: byte %zu is %02x "
        "instead of %02x",
        what, hd_reduction_name(c->op), hd_dt_name(c->dt), c->k, c->m, c->first, c->count, at,
        arena.memory[at], arena.twin[at]);
}

static bool supported(ucc_datatype_t dt, ucc_reduction_op_t op) {
    hd_reducer_t reducer;
    return hd_reducer_init(&reducer, dt, op, 2) == UCC_OK;
}

static void in_twin(const test_case_t *c, const void *src[MAX_K], void *dst[MAX_K]) {
    for (uint32_t i = 0; i < c->k; i++) {
        src[i] = arena_twin(&arena, c->src[i]);
    }
    for (uint32_t j = 0; j < c->m; j++) {
        dst[j] = arena_twin(&arena, c->dst[j]);
    }
}

static void no_log(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level == HD_LOG_FATAL) {
        fprintf(stderr, "%s\n", line);
    }
}

static void set_up(void) {
    arena = arena_make(ARENA);
    words = run_memory(WORDS * sizeof(*words));
    run_watch(arena.memory, arena.bytes);
    hd_log_capture(no_log, NULL);
}

static void tear_down(void) {
    hd_log_capture(NULL, NULL);
    arena_free(&arena);
    run_memory_free(words);
}

/* ---- reductions ---- */

static void reduce_case(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, uint64_t *seed) {
    test_case_t c = draw_case(dt, op, k, seed);
    uint32_t m = random_below(seed, 2) ? k : 1 + (uint32_t)random_below(seed, k < 4 ? k : 4);
    draw_destinations(&c, m, c.first + c.count, random_below(seed, 2), seed);
    arena_copy(&arena);

    const void *src[MAX_K];
    void *dst[MAX_K];
    hd_reducer_t reducer;
    in_twin(&c, src, dst);
    cr_assert_eq(hd_reducer_init(&reducer, dt, op, k), UCC_OK);
    cr_assert_eq(hd_reduce_tree(&reducer, k, src, c.first * c.element, m, dst, c.first * c.element,
                                c.count, HD_STORES_PLAIN),
                 UCC_OK);

    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = reduction_of(&c);
    cr_assert_eq(hd_gpu_reduce(&launch, &what, c.width, &c.table), UCC_OK);
    cr_assert_eq(c.table.used, hd_gpu_reduce_words(&what) && c.count ? k + m : 0);
    run_launch(&launch, c.grid, seed);
    check(&c, "reduction");
}

static void reduce_all(uint64_t first_seed, int rounds) {
    uint64_t seed = first_seed;
    set_up();
    for (uint32_t t = 0; t < N_TYPES; t++) {
        for (ucc_reduction_op_t op = 0; op < UCC_OP_LAST; op++) {
            for (uint32_t i = 0; i < N_MANY * (unsigned)rounds && supported(types[t], op); i++) {
                reduce_case(types[t], op, many[i % N_MANY], &seed);
            }
        }
    }
    tear_down();
}

Test(kernels, reductions_have_the_bits_of_the_hosts) {
    reduce_all(1, 6);
}

/* Block p of m, or part p, which may be any run of elements. */
static void parts_case(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, bool rows,
                       uint64_t *seed) {
    test_case_t c = draw_case(dt, op, k, seed);
    uint32_t m = 1 + (uint32_t)random_below(seed, 6);
    hd_gpu_part_t part[6];
    size_t whole = c.first + c.count, block = whole / m, used = 0;
    size_t first = rows ? 0 : random_below(seed, block + 1);
    size_t count = rows ? 0 : random_below(seed, block - first + 1);
    draw_destinations(&c, m, whole, false, seed);
    for (uint32_t p = 0; p < m; p++) {
        size_t gap = random_below(seed, 3), left = whole - used;
        gap = gap < left ? gap : left;
        part[p] = (hd_gpu_part_t){c.dst[p], used + gap, random_below(seed, left - gap + 1)};
        used += gap + part[p].count;
    }
    arena_copy(&arena);

    const void *src[MAX_K];
    void *dst[MAX_K];
    hd_reducer_t reducer;
    in_twin(&c, src, dst);
    cr_assert_eq(hd_reducer_init(&reducer, dt, op, k), UCC_OK);
    for (uint32_t p = 0; p < m; p++) {
        size_t from = rows ? part[p].first : p * block + first, to = rows ? 0 : first;
        cr_assert_eq(hd_reduce_tree(&reducer, k, src, from * c.element, 1, &dst[p], to * c.element,
                                    rows ? part[p].count : count, HD_STORES_PLAIN),
                     UCC_OK);
    }

    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = reduction_of(&c);
    what.form = rows ? HD_GPU_PARTS : HD_GPU_BLOCKS;
    what.part = part;
    what.block = block;
    what.first = rows ? 77 : first; /* of no meaning with parts */
    what.count = rows ? 0 : count;
    cr_assert_eq(hd_gpu_reduce(&launch, &what, c.width, &c.table), UCC_OK);
    run_launch(&launch, c.grid, seed);
    check(&c, rows ? "parts" : "blocks");
}

Test(kernels, blocks_and_parts_go_to_their_destinations) {
    uint64_t seed = 2;
    set_up();
    for (uint32_t t = 0; t < N_TYPES; t++) {
        for (ucc_reduction_op_t op = 0; op < UCC_OP_LAST; op++) {
            for (uint32_t i = 0; i < 2 * N_MANY && supported(types[t], op); i++) {
                parts_case(types[t], op, many[i % N_MANY], i % 2, &seed);
            }
        }
    }
    tear_down();
}

/* Nodes of the tree by themselves, with n = 0, and then the root of them: as several devices share
 * the work. */
static void two_steps(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, uint64_t *seed) {
    test_case_t c = draw_case(dt, op, k, seed);
    uint32_t nodes = (k + 7) / 8;
    void *node[MAX_K], *result = arena_take(&arena, c.count * c.element, 0);
    for (uint32_t i = 0; i < nodes; i++) {
        node[i] = arena_take(&arena, c.count * c.element, 0);
    }
    arena_copy(&arena);
    const void *src[MAX_K];
    void *dst[1] = {arena_twin(&arena, result)}, *first_dst[MAX_K];
    hd_reducer_t reducer;
    in_twin(&c, src, first_dst);
    cr_assert_eq(hd_reducer_init(&reducer, dt, op, k), UCC_OK);
    cr_assert_eq(hd_reduce_tree(&reducer, k, src, 0, 1, dst, 0, c.count, HD_STORES_PLAIN), UCC_OK);

    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = reduction_of(&c);
    what.first = 0;
    what.m = 1;
    for (uint32_t i = 0; i < nodes; i++) {
        what.n = 0;
        what.k = k - 8 * i < 8 ? k - 8 * i : 8;
        what.src = (const void *const *)c.src + 8 * i;
        what.dst = &node[i];
        cr_assert_eq(hd_gpu_reduce(&launch, &what, c.width, &c.table), UCC_OK);
        run_launch(&launch, c.grid, seed);
    }
    what.n = k;
    what.k = nodes;
    what.src = (const void *const *)node;
    what.dst = &result;
    cr_assert_eq(hd_gpu_reduce(&launch, &what, c.width, &c.table), UCC_OK);
    run_launch(&launch, c.grid, seed);
    cr_assert_eq(memcmp(result, dst[0], c.count * c.element), 0, "%s of %s, %u sources",
                 hd_reduction_name(op), hd_dt_name(dt), k);
}

Test(kernels, a_tree_in_two_launches_is_the_same_tree) {
    uint64_t seed = 3;
    set_up();
    for (uint32_t t = 0; t < N_TYPES; t++) {
        for (ucc_reduction_op_t op = 0; op < UCC_OP_LAST; op++) {
            for (uint32_t i = 0; i < N_MANY && supported(types[t], op); i++) {
                if (many[i] > 8) { /* else the first step is the root */
                    two_steps(types[t], op, many[i], &seed);
                }
            }
        }
    }
    tear_down();
}

/* ---- scans ---- */

/* As shm/work.c does it: a step is a reduction of two. */
static void scan_on_host(const test_case_t *c, bool exclusive) {
    static uint8_t prefix[(MAX_COUNT + 20) * MAX_ELEMENT], next[sizeof(prefix)];
    size_t at = c->first * c->element, bytes = c->count * c->element;
    const void *src[MAX_K];
    void *dst[MAX_K];
    hd_reducer_t reducer;
    in_twin(c, src, dst);
    cr_assert_eq(hd_reducer_init(&reducer, c->dt, c->op, c->k), UCC_OK);
    memcpy(prefix, (const uint8_t *)src[0] + at, bytes);
    if (!exclusive) {
        memmove((uint8_t *)dst[0] + at, prefix, bytes);
    }
    for (uint32_t i = 1; i < c->k; i++) {
        const void *operands[] = {prefix, (const uint8_t *)src[i] + at};
        cr_assert_eq(hd_reduce_block(&reducer, 2, operands, next, c->count, true), UCC_OK);
        memcpy((uint8_t *)dst[i] + at, exclusive ? prefix : next, bytes);
        memcpy(prefix, next, bytes);
    }
}

static void scan_case(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, uint64_t *seed) {
    test_case_t c = draw_case(dt, op, k, seed);
    bool exclusive = random_below(seed, 2);
    draw_destinations(&c, k, c.first + c.count, random_below(seed, 2), seed);
    arena_copy(&arena);
    scan_on_host(&c, exclusive);

    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = reduction_of(&c);
    cr_assert_eq(hd_gpu_scan(&launch, &what, exclusive, c.width, &c.table), UCC_OK);
    run_launch(&launch, c.grid, seed);
    check(&c, exclusive ? "exclusive scan" : "scan");
}

Test(kernels, scans_have_the_bits_of_the_hosts) {
    uint64_t seed = 4;
    set_up();
    for (uint32_t t = 0; t < N_TYPES; t++) {
        for (ucc_reduction_op_t op = 0; op < UCC_OP_LAST; op++) {
            for (uint32_t i = 0; i < 3 * N_MANY && supported(types[t], op); i++) {
                if (op != UCC_OP_AVG) {
                    scan_case(types[t], op, many[i % N_MANY], &seed);
                }
            }
        }
    }
    tear_down();
}

/* ---- 16 bits: all of them ---- */

/* Every value x of the type, with each of a few others: x op y. On the host, the vector units
 * convert. */
static void all_halves(ucc_datatype_t dt, ucc_reduction_op_t op) {
    static const uint16_t others[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3f80,
                                      0x3c01, 0x7bff, 0x7f7f, 0xfbff, 0x7c00, 0x7f80, 0xff80,
                                      0x7e01, 0x7fc1, 0x5640, 0x1234, 0xb555};
    enum { ALL = 1 << 16 };
    static uint16_t hosts[ALL];
    uint16_t *x = run_memory(ALL * sizeof(*x)), *y = run_memory(ALL * sizeof(*y));
    uint16_t *mine = run_memory(ALL * sizeof(*mine));
    hd_reducer_t reducer;
    uint64_t seed = 5;
    cr_assert_eq(hd_reducer_init(&reducer, dt, op, 2), UCC_OK);
    for (size_t o = 0; o < sizeof(others) / sizeof(others[0]); o++) {
        for (uint32_t i = 0; i < ALL; i++) {
            x[i] = (uint16_t)i;
            y[i] = others[o];
        }
        const void *src[] = {x, y};
        void *dst[] = {mine};
        hd_gpu_reduction_t what = {
            .dt = dt, .op = op, .n = 2, .k = 2, .m = 1, .src = src, .dst = dst, .count = ALL};
        hd_gpu_launch_t launch;
        cr_assert_eq(hd_gpu_reduce(&launch, &what, (hd_gpu_width_t){1, false}, NULL), UCC_OK);
        run_watch(mine, ALL * sizeof(*mine));
        run_launch(&launch, (run_grid_t){0, 0}, &seed);
        cr_assert_eq(hd_reduce_block(&reducer, 2, src, hosts, ALL, true), UCC_OK);
        for (uint32_t i = 0; i < ALL; i++) {
            cr_assert_eq(mine[i], hosts[i], "%s of %s: %04x and %04x give %04x instead of %04x",
                         hd_reduction_name(op), hd_dt_name(dt), i, others[o], mine[i], hosts[i]);
        }
    }
    run_memory_free(x);
    run_memory_free(y);
    run_memory_free(mine);
}

Test(kernels, every_half_is_converted_as_on_the_host) {
    static const ucc_reduction_op_t ops[] = {UCC_OP_SUM, UCC_OP_PROD, UCC_OP_MAX, UCC_OP_MIN,
                                             UCC_OP_AVG};
    for (int i = 0; i < 5; i++) {
        all_halves(UCC_DT_FLOAT16, ops[i]);
        all_halves(UCC_DT_BFLOAT16, ops[i]);
    }
}

/* ---- what is launched ---- */

static hd_gpu_reduction_t plain(ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t k, uint32_t m,
                                const void *const *src, void *const *dst) {
    return (hd_gpu_reduction_t){
        .dt = dt, .op = op, .n = k, .k = k, .m = m, .src = src, .dst = dst, .count = 1000};
}

Test(kernels, few_operands_of_common_types_have_kernels_of_their_own) {
    static uint64_t data[2000];
    const void *src[40];
    void *dst[40];
    for (int i = 0; i < 40; i++) {
        src[i] = data;
        dst[i] = data + 1000;
    }
    static const struct {
        ucc_datatype_t dt;
        ucc_reduction_op_t op;
        uint32_t k, m;
        const char *name;
    } expected[] = {
        {UCC_DT_FLOAT32, UCC_OP_SUM, 2, 2, "hd_reduce_sum_f32_2"},
        {UCC_DT_FLOAT64, UCC_OP_SUM, 4, 4, "hd_reduce_sum_f64_4"},
        {UCC_DT_FLOAT16, UCC_OP_SUM, 8, 8, "hd_reduce_sum_f16_8"},
        {UCC_DT_BFLOAT16, UCC_OP_SUM, 8, 1, "hd_reduce_sum_bf16_8"},
        {UCC_DT_INT32, UCC_OP_SUM, 2, 1, "hd_reduce_sum_u32_2"},
        {UCC_DT_UINT64, UCC_OP_SUM, 8, 8, "hd_reduce_sum_u64_8"},
        {UCC_DT_FLOAT32_COMPLEX, UCC_OP_SUM, 4, 1, "hd_reduce_sum_f32_4"},
        {UCC_DT_FLOAT32, UCC_OP_SUM, 3, 3, "hd_reduce_sum_f32"},
        {UCC_DT_FLOAT32, UCC_OP_SUM, 8, 9, "hd_reduce_sum_f32"}, /* more words than it has */
        {UCC_DT_FLOAT32, UCC_OP_SUM, 16, 16, "hd_reduce_sum_f32"},
        {UCC_DT_FLOAT32, UCC_OP_AVG, 2, 2, "hd_reduce_avg_f32"},
        {UCC_DT_INT8, UCC_OP_SUM, 2, 2, "hd_reduce_sum_u8"},
        {UCC_DT_INT8, UCC_OP_MAX, 2, 2, "hd_reduce_max_i8"},
        {UCC_DT_INT8, UCC_OP_AVG, 2, 2, "hd_reduce_avg_i8"},
        {UCC_DT_UINT128, UCC_OP_BXOR, 2, 2, "hd_reduce_bxor_u128"},
        {UCC_DT_FLOAT64_COMPLEX, UCC_OP_PROD, 2, 2, "hd_reduce_prod_c64"},
        {HEDDLE_DT_INT16_INT32, UCC_OP_MINLOC, 2, 2, "hd_reduce_minloc_int16_int32"},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        hd_gpu_reduction_t what =
            plain(expected[i].dt, expected[i].op, expected[i].k, expected[i].m, src, dst);
        hd_gpu_launch_t launch;
        cr_assert_eq(hd_gpu_reduce(&launch, &what, (hd_gpu_width_t){100, false}, NULL), UCC_OK);
        cr_expect_str_eq(hd_gpu_kernel[launch.kernel].name, expected[i].name);
    }
}

Test(kernels, grids_are_as_wide_as_there_is_work_and_as_allowed) {
    static uint8_t data[1];
    const void *src[] = {data, data};
    void *dst[] = {data};
    hd_gpu_reduction_t what = plain(UCC_DT_FLOAT32, UCC_OP_SUM, 2, 1, src, dst);
    static const struct {
        size_t count;
        uint32_t width, blocks, threads;
    } expected[] = {
        {0, 10, 0, 0},         {1, 10, 1, 32},        {4 * 32, 10, 1, 32},    {4 * 33, 10, 1, 64},
        {4 * 256, 10, 1, 256}, {4 * 257, 10, 2, 256}, {4 << 20, 10, 10, 256},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        hd_gpu_launch_t launch;
        what.count = expected[i].count;
        cr_assert_eq(
            hd_gpu_reduce(&launch, &what, (hd_gpu_width_t){expected[i].width, false}, NULL),
            UCC_OK);
        cr_expect_eq(launch.blocks, expected[i].blocks, "%zu elements: %u blocks", what.count,
                     launch.blocks);
        cr_expect(launch.blocks == 0 || launch.threads == expected[i].threads,
                  "%zu elements: %u threads", what.count, launch.threads);
    }
}

/* ---- what is refused ---- */

static char last_line[256];

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static void expect_refusal(ucc_status_t got, ucc_status_t wanted, const char *word) {
    cr_expect_eq(got, wanted, "status %d instead of %d", (int)got, (int)wanted);
    cr_expect(strstr(last_line, word) != NULL, "the log does not say %s: %s", word, last_line);
    last_line[0] = 0;
}

Test(kernels, what_devices_have_no_kernel_for_is_refused_with_a_word) {
    static uint8_t data[64];
    const void *src[300];
    void *dst[300];
    for (int i = 0; i < 300; i++) {
        src[i] = dst[i] = data;
    }
    hd_gpu_width_t width = {1, false};
    hd_gpu_launch_t launch;
    hd_gpu_reduction_t what = plain(UCC_DT_FLOAT128, UCC_OP_SUM, 2, 1, src, dst);
    hd_log_capture(keep_line, NULL);
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NOT_SUPPORTED, "float128");
    what.dt = UCC_DT_FLOAT128_COMPLEX;
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NOT_SUPPORTED,
                   "float128_complex");
    what.dt = HEDDLE_DT_FLOAT128_INT32;
    what.op = UCC_OP_MAXLOC;
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NOT_SUPPORTED,
                   "float128_int32");
    what.dt = UCC_DT_FLOAT32;
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NOT_SUPPORTED, "maxloc");
    what.op = UCC_OP_AVG;
    expect_refusal(hd_gpu_scan(&launch, &what, false, width, NULL), UCC_ERR_NOT_SUPPORTED,
                   "prefix");
    what.op = UCC_OP_SUM;
    what.k = HD_GPU_OPERANDS + 1;
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NOT_SUPPORTED, "sources");
    what.k = 128;
    expect_refusal(hd_gpu_reduce(&launch, &what, width, NULL), UCC_ERR_NO_RESOURCE, "129 words");
    hd_gpu_table_t table = {(uint64_t)(uintptr_t)words, words, 128, 0};
    expect_refusal(hd_gpu_reduce(&launch, &what, width, &table), UCC_ERR_NO_RESOURCE, "one of 128");
    hd_log_capture(NULL, NULL);
}

/* Every pair that the host's reducers take, but for float128, has a kernel, and no other has. */
Test(kernels, every_type_and_operation_of_the_host_has_a_kernel) {
    static uint8_t data[64];
    const void *src[] = {data, data};
    void *dst[] = {data, data};
    hd_log_capture(no_log, NULL);
    for (uint64_t number = 0; number < HEDDLE_DT_PAIR_LAST; number++) {
        for (ucc_reduction_op_t op = 0; op < UCC_OP_LAST; op++) {
            ucc_datatype_t dt = UCC_PREDEFINED_DT(number);
            hd_gpu_reduction_t what = plain(dt, op, 2, 1, src, dst);
            hd_gpu_launch_t launch;
            bool wide = dt == UCC_DT_FLOAT128 || dt == UCC_DT_FLOAT128_COMPLEX ||
                        dt == HEDDLE_DT_FLOAT128_INT32;
            bool has = hd_gpu_reduce(&launch, &what, (hd_gpu_width_t){1, false}, NULL) == UCC_OK;
            bool scans =
                hd_gpu_scan(&launch, &what, false, (hd_gpu_width_t){1, false}, NULL) == UCC_OK;
            cr_expect_eq(has, !wide && supported(dt, op), "%s of %s", hd_reduction_name(op),
                         hd_dt_name(dt));
            cr_expect_eq(scans, has && op != UCC_OP_AVG, "scan: %s of %s", hd_reduction_name(op),
                         hd_dt_name(dt));
        }
    }
    hd_log_capture(NULL, NULL);
}

/* ---- the module of the emulated driver ---- */

Test(kernels, the_module_has_every_kernel_once_under_its_name) {
    cr_assert_eq(memcmp(hd_gpu_host_module.magic, HEDDLE_EMUCUDA_MAGIC, 8), 0);
    cr_assert_eq(hd_gpu_host_module.version, HEDDLE_EMUCUDA_VERSION);
    cr_assert_eq(hd_gpu_host_module.kernels, HD_GPU_KERNELS);
    for (uint32_t i = 0; i < HD_GPU_KERNELS; i++) {
        const heddle_emucuda_kernel_t *kernel = &hd_gpu_host_module.kernel[i];
        cr_assert(hd_gpu_kernel[i].name != NULL && kernel->name != NULL, "kernel %u", i);
        cr_assert_str_eq(hd_gpu_kernel[i].name, kernel->name);
        cr_assert_eq(kernel->params, 1);
        cr_assert_eq(kernel->param_bytes[0], hd_gpu_kernel[i].args_bytes);
        cr_assert(kernel->run != NULL && kernel->ranges != NULL);
        for (uint32_t j = 0; j < i; j++) {
            cr_assert_str_neq(hd_gpu_kernel[j].name, kernel->name);
        }
    }
}

Test(kernels, the_module_runs_blocks_of_all_parts) {
    uint64_t seed = 6;
    set_up();
    for (int i = 0; i < 200; i++) {
        test_case_t c = draw_case(UCC_DT_FLOAT32, UCC_OP_SUM, 5, &seed);
        draw_destinations(&c, 3, c.first + c.count, false, &seed);
        arena_copy(&arena);
        const void *src[MAX_K];
        void *dst[MAX_K];
        hd_reducer_t reducer;
        in_twin(&c, src, dst);
        cr_assert_eq(hd_reducer_init(&reducer, c.dt, c.op, 5), UCC_OK);
        size_t block = c.count / 3;
        for (uint32_t p = 0; p < 3; p++) {
            cr_assert_eq(hd_reduce_tree(&reducer, 5, src, p * block * 4, 1, &dst[p], 0, block,
                                        HD_STORES_PLAIN),
                         UCC_OK);
        }
        hd_gpu_launch_t launch;
        hd_gpu_reduction_t what = reduction_of(&c);
        what.form = HD_GPU_BLOCKS;
        what.first = 0;
        what.count = what.block = block;
        cr_assert_eq(hd_gpu_reduce(&launch, &what, c.width, &c.table), UCC_OK);
        if (launch.blocks) {
            launch.blocks = 3;
            launch.threads = 8;
            run_module(&launch);
        }
        check(&c, "module");
    }
    tear_down();
}
