/* test_contract_recounts.c: counts and displacements of v types belong to the client between posts:
 * each post goes by what they hold then, whatever they held at init or at the post before.
 *
 * Where the interface lets a persistent request grow (a plain src or dst has the count of init):
 * all blocks of alltoallv, of allgatherv and reduce_scatterv in place, the root's own block of
 * gatherv and scatterv in place.
 */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_recounts, .timeout = 120);

enum { MOST_N = 10, ROOT = 1, FIXED = 5, LARGEST = 40000, SHARED_THREADS = 2 };

/* Elements per block, post by post: up and down through all regimes. */
static const uint32_t sizes[] = {2, 40, 900, 0, LARGEST, 3, LARGEST, 900, 30, 300, LARGEST, 1};
enum { POSTS = sizeof(sizes) / sizeof(sizes[0]) };

typedef struct scene {
    world_t *world;
    ucc_coll_type_t type;
    uint32_t n;
    bool in_place, dense;
    uint32_t send[MOST_N][MOST_N], receive[MOST_N][MOST_N]; /* counts, as given to the library */
    uint32_t from[MOST_N][MOST_N], to[MOST_N][MOST_N];      /* displacements, NULL if dense */
    int32_t *src[MOST_N], *dst[MOST_N];
    ucc_coll_req_h request[MOST_N];
} scene_t;

static int32_t value(uint32_t from, uint32_t to, uint32_t element) {
    return (int32_t)(from * 1000003 + to * 10007 + element * 3);
}

/* Blocks one behind the other, or, with displacements, in reverse order with holes. */
static void lay_out(const scene_t *s, const uint32_t *counts, uint32_t *at) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t i = s->dense ? k : s->n - 1 - k;
        at[i] = sum;
        sum += counts[i] + (s->dense ? 0 : 7);
    }
}

static void set_counts(scene_t *s, uint32_t size) {
    bool rooted = s->type == UCC_COLL_TYPE_GATHERV || s->type == UCC_COLL_TYPE_SCATTERV;
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t j = 0; j < s->n; j++) {
            uint32_t odd = size == 0 ? 0 : s->in_place ? (i + j) % 3 : (i + 2 * j) % 3;
            bool whole = s->type != UCC_COLL_TYPE_ALLTOALLV; /* all have the same vector */
            s->send[i][j] = rooted && j != ROOT ? FIXED : whole ? size + j % 2 : size + odd;
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t j = 0; j < s->n; j++) {
            s->receive[i][j] = s->type == UCC_COLL_TYPE_ALLTOALLV ? s->send[j][i] : s->send[i][j];
        }
        lay_out(s, s->send[i], s->from[i]);
        lay_out(s, s->receive[i], s->to[i]);
    }
}

/* --- what is in the buffers before a post, and must be after it --- */

static void fill(scene_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        bool in_dst = s->in_place && s->type != UCC_COLL_TYPE_SCATTERV;
        int32_t *buffer = in_dst ? s->dst[i] : s->src[i];
        const uint32_t *at = in_dst ? s->to[i] : s->from[i];
        const uint32_t *counts = in_dst ? s->receive[i] : s->send[i];
        bool plain = s->type == UCC_COLL_TYPE_GATHERV && i != ROOT; /* src is one block */
        for (uint32_t j = 0; j < s->n; j++) {
            for (uint32_t e = 0; e < (plain ? 0 : counts[j]); e++) {
                buffer[at[j] + e] = value(i, j, e);
            }
        }
        for (uint32_t e = 0; plain && e < FIXED; e++) {
            s->src[i][e] = value(i, i, e);
        }
    }
}

static uint32_t differences(const int32_t *got, uint32_t count, uint32_t from, uint32_t to) {
    uint32_t wrong = 0;
    for (uint32_t e = 0; e < count; e++) {
        wrong += got[e] != value(from, to, e);
    }
    return wrong;
}

static uint32_t wrong_sums(const int32_t *got, uint32_t count, uint32_t n, uint32_t block) {
    uint32_t wrong = 0;
    for (uint32_t e = 0; e < count; e++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += (uint32_t)value(i, block, e);
        }
        wrong += (uint32_t)got[e] != sum;
    }
    return wrong;
}

static uint32_t wrong_elements(const scene_t *s) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        switch (s->type) {
        case UCC_COLL_TYPE_REDUCE_SCATTERV:
            wrong += wrong_sums(s->dst[i] + s->to[i][i], s->receive[i][i], s->n, i);
            continue;
        case UCC_COLL_TYPE_SCATTERV:
            wrong += i == ROOT ? 0 : differences(s->dst[i], FIXED, ROOT, i);
            continue;
        case UCC_COLL_TYPE_GATHERV:
            if (i != ROOT) {
                continue;
            }
            break;
        default:
            break;
        }
        for (uint32_t j = 0; j < s->n; j++) {
            uint32_t to = s->type == UCC_COLL_TYPE_ALLTOALLV ? i : j;
            wrong += differences(s->dst[i] + s->to[i][j], s->receive[i][j], j, to);
        }
    }
    return wrong;
}

/* --- posting, in the ways of the drivers --- */

static void post_and_wait(void *arg, uint32_t i) {
    scene_t *s = arg;
    deadline_t deadline = deadline_start("a recounted collective");
    must(ucc_collective_post(s->request[i]), "ucc_collective_post");
    while (ucc_collective_test(s->request[i]) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(s->world, i));
        deadline_poll(&deadline);
    }
}

static void post_some_and_wait(void *arg, uint32_t thread) {
    scene_t *s = arg;
    deadline_t deadline = deadline_start("a recounted collective");
    for (uint32_t i = thread; i < s->n; i += SHARED_THREADS) {
        must(ucc_collective_post(s->request[i]), "ucc_collective_post");
    }
    for (uint32_t i = thread; i < s->n; i += SHARED_THREADS) {
        while (ucc_collective_test(s->request[i]) == UCC_INPROGRESS) {
            ucc_context_progress(world_context(s->world, i));
            deadline_poll(&deadline);
        }
    }
}

static void post_once(scene_t *s, driver_t driver) {
    switch (driver) {
    case DRIVER_THREADS:
        driver_threads(s->n, post_and_wait, s);
        break;
    case DRIVER_SHARED:
        driver_threads(SHARED_THREADS, post_some_and_wait, s);
        break;
    default:
        for (uint32_t i = 0; i < s->n; i++) {
            must(ucc_collective_post(s->request[i]), "ucc_collective_post");
        }
        small_wait(s->world, s->request, s->n);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        must(ucc_collective_test(s->request[i]), "a recounted collective");
    }
}

/* --- scenes --- */

static ucc_coll_args_t args_of(scene_t *s, uint32_t i, bool persistent) {
    ucc_coll_args_t args = small_args(s->type);
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = (s->in_place ? UCC_COLL_ARGS_FLAG_IN_PLACE : 0) |
                 (persistent ? UCC_COLL_ARGS_FLAG_PERSISTENT : 0);
    args.root = ROOT;
    args.op = UCC_OP_SUM;
    args.src.info_v = small_info_v(s->src[i], s->send[i], s->dense ? NULL : s->from[i]);
    args.dst.info_v = small_info_v(s->dst[i], s->receive[i], s->dense ? NULL : s->to[i]);
    if (s->type == UCC_COLL_TYPE_GATHERV) {
        args.src.info = small_info(s->src[i], FIXED);
    }
    if (s->type == UCC_COLL_TYPE_SCATTERV) {
        args.dst.info = small_info(s->dst[i], FIXED);
    }
    return args;
}

static scene_t *open_scene(uint32_t n, ucc_coll_type_t type, bool in_place, bool dense,
                           driver_t driver) {
    scene_t *s = must_alloc(1, sizeof(*s));
    s->n = n;
    s->type = type;
    s->in_place = in_place;
    s->dense = dense;
    s->world = world_create(&(world_params_t){
        .size = n, .form = WORLD_OOB, .shared_context = driver_wants_shared_context(driver)});
    for (uint32_t i = 0; i < n; i++) {
        s->src[i] = must_alloc((size_t)n * (LARGEST + 16), sizeof(int32_t));
        s->dst[i] = must_alloc((size_t)n * (LARGEST + 16), sizeof(int32_t));
    }
    return s;
}

static void close_scene(scene_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        must(ucc_collective_finalize(s->request[i]), "ucc_collective_finalize");
        free(s->src[i]);
        free(s->dst[i]);
    }
    world_destroy(s->world);
    free(s);
}

static void init_all(scene_t *s, bool persistent) {
    for (uint32_t i = 0; i < s->n; i++) {
        ucc_coll_args_t args = args_of(s, i, persistent);
        s->request[i] = small_init(s->world, i, &args);
    }
}

static void grow_and_shrink(ucc_coll_type_t type, bool in_place) {
    for (driver_t driver = DRIVER_ONE; driver < DRIVERS; driver++) {
        uint32_t n = driver == DRIVER_DEEP ? MOST_N : 3; /* beyond 8, with a tree */
        bool may_gap = type != UCC_COLL_TYPE_REDUCE_SCATTERV;
        for (int dense = may_gap ? 0 : 1; dense < 2; dense++) {
            scene_t *s = open_scene(n, type, in_place, dense, driver);
            set_counts(s, sizes[0]);
            init_all(s, true);
            for (int k = 0; k < POSTS; k++) {
                set_counts(s, sizes[k]);
                fill(s);
                post_once(s, driver);
                cr_assert_eq(wrong_elements(s), 0, "%s, dense %d, post %d", driver_name(driver),
                             dense, k);
            }
            close_scene(s);
        }
    }
}

Test(contract_recounts, persistent_alltoallv_grows_and_shrinks) {
    grow_and_shrink(UCC_COLL_TYPE_ALLTOALLV, false);
}

Test(contract_recounts, persistent_alltoallv_in_place_grows_and_shrinks) {
    grow_and_shrink(UCC_COLL_TYPE_ALLTOALLV, true);
}

Test(contract_recounts, persistent_allgatherv_in_place_grows_and_shrinks) {
    grow_and_shrink(UCC_COLL_TYPE_ALLGATHERV, true);
}

Test(contract_recounts, persistent_gatherv_in_place_follows_the_roots_block) {
    grow_and_shrink(UCC_COLL_TYPE_GATHERV, true);
}

Test(contract_recounts, persistent_scatterv_in_place_follows_the_roots_block) {
    grow_and_shrink(UCC_COLL_TYPE_SCATTERV, true);
}

Test(contract_recounts, persistent_reduce_scatterv_in_place_grows_and_shrinks) {
    grow_and_shrink(UCC_COLL_TYPE_REDUCE_SCATTERV, true);
}

/* Not persistent, and with the counts of one endpoint alone: what init saw is out of date at post.
 */
Test(contract_recounts, counts_written_between_init_and_post_are_those_that_count) {
    scene_t *s = open_scene(3, UCC_COLL_TYPE_ALLTOALLV, false, true, DRIVER_ONE);
    set_counts(s, 1);
    init_all(s, false);
    set_counts(s, LARGEST);
    fill(s);
    post_once(s, DRIVER_ONE);
    cr_assert_eq(wrong_elements(s), 0);
    close_scene(s);
}

Test(contract_recounts, counts_may_be_freed_between_completion_and_finalize) {
    scene_t *s = open_scene(2, UCC_COLL_TYPE_ALLTOALLV, false, true, DRIVER_ONE);
    set_counts(s, 100);
    uint32_t *counts[2];
    for (uint32_t i = 0; i < 2; i++) {
        counts[i] = must_alloc(4, sizeof(uint32_t));
        memcpy(counts[i], s->send[i], 2 * sizeof(uint32_t));
        memcpy(counts[i] + 2, s->receive[i], 2 * sizeof(uint32_t));
        ucc_coll_args_t args = args_of(s, i, false);
        args.src.info_v.counts = (ucc_count_t *)(void *)counts[i];
        args.dst.info_v.counts = (ucc_count_t *)(void *)(counts[i] + 2);
        s->request[i] = small_init(s->world, i, &args);
    }
    fill(s);
    post_once(s, DRIVER_ONE);
    cr_assert_eq(wrong_elements(s), 0);
    free(counts[0]);
    free(counts[1]);
    close_scene(s);
}

/* A leaf of scatterv has the count of init: a root that grows for it fails, and harms nobody. */
Test(contract_recounts, a_root_that_sends_more_than_a_leaf_takes_fails_without_overflow) {
    scene_t *s = open_scene(3, UCC_COLL_TYPE_SCATTERV, true, true, DRIVER_ONE);
    set_counts(s, FIXED);
    init_all(s, true);
    fill(s);
    post_once(s, DRIVER_ONE);
    s->send[ROOT][2] = LARGEST;
    memset(s->dst[2], 0x55, LARGEST * sizeof(int32_t));
    for (uint32_t i = 0; i < 3; i++) {
        ucc_collective_post(s->request[i]);
    }
    small_wait(s->world, s->request, 3);
    cr_assert_eq(ucc_collective_test(s->request[2]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(s->dst[2][FIXED], 0x55555555);
    close_scene(s);
}

/* --- calls that are like the one before ------------------------------------------------------- */

enum { PAIR = 2, ROUNDS = 12, BLOCK = 40000 };

typedef struct call {
    int32_t src[PAIR][PAIR * BLOCK], dst[PAIR][PAIR * BLOCK];
    uint32_t counts[PAIR], displacements[PAIR];
    uint64_t wide_counts[PAIR], wide_displacements[PAIR];
} call_t;

/* Blocks lie BLOCK apart; all are of one size. */
static ucc_coll_args_t call_of(ucc_coll_type_t type, call_t *c, uint32_t i, bool wide) {
    ucc_coll_args_t args = small_args(type);
    void *counts = wide ? (void *)c->wide_counts : c->counts;
    void *at = wide ? (void *)c->wide_displacements : c->displacements;
    bool src_v = type == UCC_COLL_TYPE_ALLTOALLV || type == UCC_COLL_TYPE_SCATTERV;
    args.src.info = small_info(c->src[i], c->counts[i]);
    args.dst.info = small_info(c->dst[i], c->counts[i]);
    if (src_v) {
        args.src.info_v = small_info_v(c->src[i], counts, at);
    }
    if (type != UCC_COLL_TYPE_SCATTERV) {
        args.dst.info_v = small_info_v(c->dst[i], counts, at);
    }
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = wide ? UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT : 0;
    return args;
}

static void fill_call(call_t *c, uint32_t round) {
    for (uint32_t i = 0; i < PAIR; i++) {
        c->counts[i] = sizes[round % POSTS];
        c->displacements[i] = round % 3 ? i * BLOCK : (PAIR - 1 - i) * BLOCK;
        c->wide_counts[i] = c->counts[i];
        c->wide_displacements[i] = c->displacements[i];
        for (uint32_t e = 0; e < PAIR * BLOCK; e++) {
            c->src[i][e] = value(i + round, e / BLOCK, e % BLOCK);
            c->dst[i][e] = -1;
        }
    }
}

/* What endpoint i has of endpoint `from` in its block there. */
static uint32_t wrong_in(const call_t *c, ucc_coll_type_t type, uint32_t root, uint32_t i,
                         uint32_t round) {
    uint32_t wrong = 0, n = c->counts[0];
    for (uint32_t from = 0; from < PAIR; from++) {
        const int32_t *got = c->dst[i] + c->displacements[from];
        switch (type) {
        case UCC_COLL_TYPE_ALLTOALLV:
            wrong += differences(got, n, from + round, c->displacements[i] / BLOCK);
            break;
        case UCC_COLL_TYPE_SCATTERV:
            wrong += differences(c->dst[i], n, root + round, c->displacements[i] / BLOCK);
            break;
        default:
            wrong += type == UCC_COLL_TYPE_GATHERV && i != root
                         ? 0
                         : differences(got, n, from + round, 0);
        }
    }
    return wrong;
}

static void repeat(ucc_coll_type_t type) {
    world_t *world = small_world(PAIR);
    call_t *calls = must_alloc(2, sizeof(*calls));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        call_t *c = &calls[round % 2];
        ucc_coll_args_t args[PAIR];
        ucc_coll_req_h refused;
        uint32_t root = round % 4 == 3;
        fill_call(c, round);
        for (uint32_t i = 0; i < PAIR; i++) {
            args[i] = call_of(type, c, i, round >= ROUNDS / 2);
            args[i].root = root;
        }
        ucc_coll_args_t wrong = args[root];
        if (type == UCC_COLL_TYPE_SCATTERV) {
            wrong.src.info_v.counts = NULL;
        } else {
            wrong.dst.info_v.counts = NULL;
        }
        cr_assert_eq(ucc_collective_init(&wrong, &refused, world->teams[root]),
                     UCC_ERR_INVALID_PARAM);
        small_run(world, args, "a v type");
        small_run(world, args, "the same once more");
        for (uint32_t i = 0; i < PAIR; i++) {
            cr_assert_eq(wrong_in(c, type, root, i, round), 0, "round %u, endpoint %u", round, i);
        }
        cr_assert_eq(ucc_collective_init(&wrong, &refused, world->teams[root]),
                     UCC_ERR_INVALID_PARAM);
    }
    cr_assert(small_team_works(world));
    free(calls);
    world_destroy(world);
}

Test(contract_recounts, an_alltoallv_like_the_one_before_goes_by_its_own_arguments) {
    repeat(UCC_COLL_TYPE_ALLTOALLV);
}

Test(contract_recounts, so_does_an_allgatherv) {
    repeat(UCC_COLL_TYPE_ALLGATHERV);
}

Test(contract_recounts, so_does_a_gatherv) {
    repeat(UCC_COLL_TYPE_GATHERV);
}

Test(contract_recounts, so_does_a_scatterv) {
    repeat(UCC_COLL_TYPE_SCATTERV);
}
