/* test_work.c: how the work of a direct exchange is cut, without an engine: every member cuts it
 * alike, and all units of all slices, done once each, in any order and by anybody, are the
 * collective. */
#include "../support/random.h"
#include "shm/internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 70, ROUNDS = 60 };

typedef struct fixture {
    hd_group_t *group;
    hd_op_t *op[MOST]; /* by member */
    hd_work_t work;
    uint32_t n;
    uint64_t random;
} fixture_t;

static void setup_reducer(hd_call_t *call, uint32_t n) {
    cr_assert_eq(hd_reducer_init(&call->reducer, UCC_DT_UINT64, UCC_OP_SUM, n), UCC_OK);
    call->element = sizeof(uint64_t);
}

/* n members that each call this with so many bytes in a block. */
static void make(fixture_t *f, uint8_t type, uint32_t n, size_t bytes, uint64_t seed) {
    memset(f, 0, sizeof(*f));
    f->n = n;
    f->random = seed;
    f->group = hd_alloc(HD_LINE_PAIR, sizeof(*f->group));
    f->group->two_sided = true; /* at any size the engine works */
    f->group->chunk = (size_t)4096 << random_below(&f->random, 8);
    f->group->plain_most = 0; /* all kinds of stores */
    f->group->streaming_min = random_below(&f->random, 2) ? 0 : SIZE_MAX;
    f->group->streaming = random_below(&f->random, 2) ? HD_STORES_STREAMING : HD_STORES_PAGES;
    f->group->string_end = random_below(&f->random, 2) ? 0 : SIZE_MAX;
    f->work.slice = hd_alloc(HD_LINE_PAIR, MOST * sizeof(hd_slice_t));
    f->work.src = hd_alloc(HD_LINE, MOST * sizeof(void *));
    f->work.dst = hd_alloc(HD_LINE, MOST * sizeof(void *));
    f->work.call = hd_alloc(HD_LINE, MOST * sizeof(void *));
    for (uint32_t i = 0; i < n; i++) {
        hd_op_t *op = f->op[i] = hd_alloc(HD_LINE_PAIR, sizeof(*op));
        op->group = f->group;
        op->place.me = i;
        op->place.n = n;
        op->call.type = type;
        op->call.bytes = bytes;
        op->call.element = 1;
        op->call.root = n / 2;
        if (hd_work_rows[type].reducing) {
            setup_reducer(&op->call, n);
        }
        op->plan = hd_plan_here(op->group, &op->call, &op->place);
        f->work.call[i] = &op->call;
    }
}

static void lay_out(fixture_t *f) {
    for (uint32_t s = 0; s < f->op[0]->plan.slices; s++) {
        hd_op_t *owner = f->op[s % f->n];
        owner->plan.row->layout(owner, s, &f->work.slice[s]);
    }
}

static void unmake(fixture_t *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        free((void *)f->work.src[i]);
        free(f->work.dst[i]);
        hd_free(f->op[i]);
    }
    hd_free(f->work.slice);
    hd_free((void *)f->work.src);
    hd_free(f->work.dst);
    hd_free((void *)f->work.call);
    hd_free(f->group);
}

static const uint8_t windowed[] = {HD_BCAST, HD_REDUCE, HD_ALLREDUCE, HD_SCAN, HD_EXSCAN, HD_MCAST};
static const uint8_t even[] = {HD_BCAST,    HD_REDUCE,        HD_ALLREDUCE, HD_SCAN,
                               HD_EXSCAN,   HD_ALLGATHER,     HD_GATHER,    HD_SCATTER,
                               HD_ALLTOALL, HD_REDUCE_SCATTER};

static uint32_t some_n(uint64_t *random) {
    return 1 + (uint32_t)random_below(random, random_below(random, 4) ? 9 : MOST);
}

/* Whole elements of 8 bytes. */
static size_t some_bytes(uint64_t *random) {
    return 8 + random_below(random, (uint64_t)1 << (4 + random_below(random, 14))) / 8 * 8;
}

Test(work, every_member_cuts_it_alike) {
    uint64_t random = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fixture_t f;
        uint8_t type = even[random_below(&random, sizeof(even))];
        make(&f, type, some_n(&random), some_bytes(&random), random);
        for (uint32_t i = 1; i < f.n; i++) {
            cr_assert_eq(f.op[i]->plan.window, f.op[0]->plan.window);
            cr_assert_eq(f.op[i]->plan.slices, f.op[0]->plan.slices);
            cr_assert_eq(f.op[i]->plan.stores, f.op[0]->plan.stores);
        }
        unmake(&f);
    }
}

Test(work, every_slice_has_a_unit_and_a_batch) {
    uint64_t random = 2;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fixture_t f;
        uint8_t type = even[random_below(&random, sizeof(even))];
        make(&f, type, some_n(&random), some_bytes(&random), random);
        lay_out(&f);
        for (uint32_t s = 0; s < f.op[0]->plan.slices; s++) {
            cr_assert_gt(f.work.slice[s].units, 0);
            cr_assert_gt(f.work.slice[s].batch, 0);
            cr_assert_gt(f.work.slice[s].parts, 0);
        }
        unmake(&f);
    }
}

Test(work, windows_of_a_block_are_shared_out_evenly) {
    uint64_t random = 3;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fixture_t f;
        uint8_t type = windowed[random_below(&random, sizeof(windowed))];
        size_t bytes = some_bytes(&random), all = 0, least = SIZE_MAX, most = 0;
        make(&f, type, some_n(&random), bytes, random);
        lay_out(&f);
        size_t windows = (bytes + f.op[0]->plan.window - 1) / f.op[0]->plan.window;
        for (uint32_t s = 0; s < f.op[0]->plan.slices; s++) {
            size_t units = f.work.slice[s].units;
            all += units;
            least = units < least ? units : least;
            most = units > most ? units : most;
        }
        if (windows >= f.op[0]->plan.slices) { /* else some have an empty one */
            cr_assert_eq(all, windows);
            cr_assert_leq(most - least, 1);
        }
        unmake(&f);
    }
}

Test(work, a_unit_of_elements_that_fit_into_no_line_is_whole_elements) {
    hd_group_t group = {.two_sided = true, .chunk = 100000, .streaming_min = SIZE_MAX};
    hd_op_t op = {.group = &group,
                  .place = {.n = 3},
                  .call = {.type = HD_ALLREDUCE, .element = 24, .bytes = 24 * 5000}};
    op.plan = hd_plan_here(&group, &op.call, &op.place);
    cr_assert_eq(op.plan.window % 24, 0);
    op.call.element = 100001; /* more than a chunk */
    op.call.bytes = 3 * (size_t)op.call.element;
    op.plan = hd_plan_here(&group, &op.call, &op.place);
    cr_assert_eq(op.plan.window, op.call.element);
}

Test(work, there_are_no_more_shares_of_a_block_than_are_of_use) {
    hd_group_t group = {.two_sided = true, .chunk = 1 << 20, .streaming_min = SIZE_MAX};
    hd_op_t op = {.group = &group,
                  .place = {.n = 1000},
                  .call = {.type = HD_BCAST, .element = 1, .bytes = 1 << 20}};
    op.plan = hd_plan_here(&group, &op.call, &op.place);
    cr_assert_eq(op.plan.slices, 64);
    op.call.exclusive = true;
    op.plan = hd_plan_here(&group, &op.call, &op.place);
    cr_assert_eq(op.plan.slices, 1);
}

/* --- all units are the collective ------------------------------------------------------------- */

static uint64_t word_of(uint32_t from, uint32_t to, size_t w) {
    return ((uint64_t)from << 40) + ((uint64_t)to << 24) + w * 3 + 1;
}

static bool has_blocks_of_all(uint8_t type, bool of_src) {
    return type == HD_ALLTOALL || (of_src ? type == HD_SCATTER || type == HD_REDUCE_SCATTER
                                          : type == HD_ALLGATHER || type == HD_GATHER);
}

static size_t words_of(const fixture_t *f, bool of_src) {
    const hd_call_t *call = &f->op[0]->call;
    return call->bytes / 8 * (has_blocks_of_all(call->type, of_src) ? f->n : 1);
}

enum { GUARDS = 8 };

static void make_buffers(fixture_t *f) {
    size_t src_words = words_of(f, true), dst_words = words_of(f, false);
    size_t block = f->op[0]->call.bytes / 8;
    for (uint32_t i = 0; i < f->n; i++) {
        uint64_t *src = malloc((src_words + GUARDS) * 8), *dst = malloc((dst_words + GUARDS) * 8);
        for (size_t w = 0; w < src_words; w++) {
            src[w] = word_of(i, (uint32_t)(w / block), w % block);
        }
        memset(dst, 0xee, (dst_words + GUARDS) * 8);
        f->work.src[i] = src;
        f->work.dst[i] = dst;
    }
}

/* All units, in an order that mixes slices, each by a member drawn at random. */
static void run_all(fixture_t *f) {
    uint32_t slices = f->op[0]->plan.slices, left = slices, next[MOST] = {0};
    while (left) {
        uint32_t s = (uint32_t)random_below(&f->random, slices);
        const hd_op_t *op = f->op[random_below(&f->random, f->n)];
        if (next[s] == f->work.slice[s].units) {
            continue;
        }
        cr_assert_eq(hd_work_run(op, &f->work, s, next[s]++), UCC_OK);
        left -= next[s] == f->work.slice[s].units;
    }
}

static uint64_t sum_of(uint32_t n, uint32_t to, size_t w) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += word_of(i, to, w);
    }
    return sum;
}

static uint64_t untouched(void) {
    uint64_t word;
    memset(&word, 0xee, sizeof(word));
    return word;
}

static uint64_t wanted(const fixture_t *f, uint32_t me, size_t w) {
    const hd_call_t *call = &f->op[me]->call;
    size_t block = call->bytes / 8;
    switch (call->type) {
    case HD_BCAST:
        return word_of(call->root, 0, w);
    case HD_REDUCE:
        return me == call->root ? sum_of(f->n, 0, w) : untouched();
    case HD_ALLREDUCE:
        return sum_of(f->n, 0, w);
    case HD_SCAN:
        return sum_of(me + 1, 0, w);
    case HD_EXSCAN:
        return me ? sum_of(me, 0, w) : untouched();
    case HD_ALLGATHER:
        return word_of((uint32_t)(w / block), 0, w % block);
    case HD_GATHER:
        return me == call->root ? word_of((uint32_t)(w / block), 0, w % block) : untouched();
    case HD_SCATTER:
        return word_of(call->root, me, w);
    case HD_REDUCE_SCATTER:
        return sum_of(f->n, me, w);
    default:
        return word_of((uint32_t)(w / block), me, w % block);
    }
}

static void assert_result(const fixture_t *f) {
    size_t words = words_of(f, false);
    for (uint32_t i = 0; i < f->n; i++) {
        const uint64_t *dst = f->work.dst[i];
        for (size_t w = 0; w < words; w++) {
            cr_assert_eq(dst[w], wanted(f, i, w), "type %u of %u: member %u, word %zu of %zu",
                         f->op[i]->call.type, f->n, i, w, words);
        }
        for (size_t w = words; w < words + GUARDS; w++) {
            cr_assert_eq(dst[w], untouched());
        }
    }
}

static void run_some(uint8_t type, uint64_t seed) {
    uint64_t random = seed;
    for (uint32_t round = 0; round < 12; round++) {
        fixture_t f;
        uint32_t n = some_n(&random) % 24 + 1;
        make(&f, type, n, some_bytes(&random) % 20000 / 8 * 8 + 8, random);
        lay_out(&f);
        make_buffers(&f);
        run_all(&f);
        assert_result(&f);
        unmake(&f);
    }
}

Test(work, all_units_together_are_the_collective) {
    for (uint32_t t = 0; t < sizeof(even); t++) {
        run_some(even[t], 100 + t);
    }
}
