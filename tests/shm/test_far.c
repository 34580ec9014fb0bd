/* test_far.c: what goes through windows where endpoints don't reach each other's buffers, and what
 * does not (DEBUG_MAPPINGS).
 */
#include "shm/far.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>

TestSuite(far, .timeout = 120);

enum { N = 4, LARGE = 100000, ROOT = 2 };

typedef struct run {
    uint64_t count[N]; /* each endpoint's share */
    bool far[N];       /* whether its process should take part in exchanges by windows */
    bool wrong[N], unexpected[N];
} run_t;

/* Has the endpoint's process ever made ready for windows? */
static bool has_gone_far(heddle_ep_t *ep) {
    const hd_board_t *board = heddle_ep_team(ep)->group->board;
    bool found = false;
    for (uint32_t slot = 0; slot < board->depth; slot++) {
        hd_far_t *far = atomic_load(&board->slot[slot].far);
        found = found || (far && atomic_load(&far->prepared) != 0);
    }
    return found;
}

static uint64_t value(uint32_t from, uint32_t to, uint64_t at) {
    return from * 1000003u + to * 101u + at;
}

static uint64_t offset_of(const run_t *run, uint32_t e) {
    return e > 0 ? offset_of(run, e - 1) + run->count[e - 1] : 0;
}

static bool is_right(const uint64_t *x, uint64_t count, uint32_t from, uint32_t to) {
    bool right = true;
    for (uint64_t i = 0; i < count; i++) {
        right = right && x[i] == value(from, to, i);
    }
    return right;
}

/* Sources of a gatherv may be done before others of their process begin. */
static void expect(heddle_ep_t *ep, run_t *run, bool right) {
    uint32_t me = heddle_ep_index(ep);
    run->wrong[me] = !right;
    run->unexpected[me] = heddle_barrier(ep) != UCC_OK || has_gone_far(ep) != run->far[me];
    heddle_barrier(ep);
}

static void gather_vectors(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    uint64_t offset[N], *src = malloc((run->count[me] + 1) * sizeof(*src));
    uint64_t *dst = calloc(offset_of(run, N) + 1, sizeof(*dst));
    for (uint64_t i = 0; i < run->count[me]; i++) {
        src[i] = value(me, 0, i);
    }
    for (uint32_t e = 0; e < N; e++) {
        offset[e] = offset_of(run, e);
    }
    bool right = heddle_gatherv(ep, src, run->count[me], dst, run->count, offset, UCC_DT_UINT64,
                                ROOT) == UCC_OK;
    for (uint32_t e = 0; me == ROOT && e < N; e++) {
        right = right && is_right(dst + offset[e], run->count[e], e, 0);
    }
    expect(ep, run, right);
    free(src);
    free(dst);
}

static void scatter_vectors(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    uint64_t offset[N], *dst = calloc(run->count[me] + 1, sizeof(*dst));
    uint64_t *src = malloc((offset_of(run, N) + 1) * sizeof(*src));
    for (uint32_t e = 0; e < N; e++) {
        offset[e] = offset_of(run, e);
        for (uint64_t i = 0; i < run->count[e]; i++) {
            src[offset[e] + i] = value(0, e, i);
        }
    }
    bool right = heddle_scatterv(ep, src, run->count, offset, dst, run->count[me], UCC_DT_UINT64,
                                 ROOT) == UCC_OK;
    expect(ep, run, right && is_right(dst, run->count[me], 0, me));
    free(src);
    free(dst);
}

/* Each sends all others as much as its own share is. */
static void exchange_vectors(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    uint64_t offset[N], all = run->count[me], sent[N] = {all, all, all, all};
    uint64_t to[N] = {0, all, 2 * all, 3 * all};
    uint64_t *src = malloc((N * all + 1) * sizeof(*src));
    uint64_t *dst = calloc(offset_of(run, N) + 1, sizeof(*dst));
    for (uint32_t e = 0; e < N; e++) {
        offset[e] = offset_of(run, e);
        for (uint64_t i = 0; i < all; i++) {
            src[to[e] + i] = value(me, e, i);
        }
    }
    bool right =
        heddle_alltoallv(ep, src, sent, to, dst, run->count, offset, UCC_DT_UINT64) == UCC_OK;
    for (uint32_t e = 0; e < N; e++) {
        right = right && is_right(dst + offset[e], run->count[e], e, me);
    }
    expect(ep, run, right);
    free(src);
    free(dst);
}

static void check(const char *how, void (*body)(heddle_ep_t *ep, void *arg), run_t run) {
    setenv("HEDDLE_DEBUG_MAPPINGS", how, 1);
    cr_assert_eq(heddle_run(N, body, &run), UCC_OK);
    for (uint32_t e = 0; e < N; e++) {
        cr_assert_not(run.wrong[e], "endpoint %u has other data", e);
        cr_assert_not(run.unexpected[e], "far is %d at endpoint %u", !run.far[e], e);
    }
}

Test(far, v_types_of_few_data_go_by_lanes) {
    static const char *const how[] = {"far", "pairs"};
    static const run_t inline_and_lines = {.count = {1, 20, 0, 3}};
    static const run_t staged = {.count = {200, 1, 150, 0}};
    for (int i = 0; i < 2; i++) {
        check(how[i], gather_vectors, inline_and_lines);
        check(how[i], gather_vectors, staged);
        check(how[i], scatter_vectors, inline_and_lines);
        check(how[i], scatter_vectors, staged);
        check(how[i], exchange_vectors, inline_and_lines);
        check(how[i], exchange_vectors, staged);
    }
}

Test(far, in_a_gatherv_only_the_root_and_who_has_much_go_far) {
    check("far", gather_vectors,
          (run_t){.count = {LARGE, 1, 20, 0}, .far = {true, false, true, false}});
    check("far", gather_vectors,
          (run_t){.count = {3, LARGE, 0, LARGE + 1}, .far = {false, true, true, true}});
    check("far", gather_vectors,
          (run_t){.count = {3, 5, LARGE, 7}, .far = {false}}); /* the root's own */
}

Test(far, in_a_gatherv_neighbours_of_who_goes_far_do_not_take_part) {
    /* 0 and 1 share a mapping, and so do 2, the root, and 3 */
    check("pairs", gather_vectors,
          (run_t){.count = {LARGE, 1, 2, 3}, .far = {true, true, true, true}});
    check("pairs", gather_vectors,
          (run_t){.count = {1, 2, 3, LARGE}, .far = {false, false, true, true}});
}

Test(far, in_a_scatterv_all_go_far_if_the_root_has_much) {
    check("far", scatter_vectors,
          (run_t){.count = {1, LARGE, 0, 3}, .far = {true, true, true, true}});
    check("pairs", scatter_vectors,
          (run_t){.count = {1, LARGE, 0, 3}, .far = {true, true, true, true}});
}

Test(far, in_an_alltoallv_all_go_far_for_those_who_have_much) {
    check("far", exchange_vectors,
          (run_t){.count = {1, LARGE, 0, 3}, .far = {true, true, true, true}});
    check("far", exchange_vectors,
          (run_t){.count = {LARGE, 1, LARGE + 1, 0}, .far = {true, true, true, true}});
    check("pairs", exchange_vectors,
          (run_t){.count = {1, LARGE, 0, 3}, .far = {true, true, true, true}});
}

/* --- large elements --------------------------------------------------------------------------- */

typedef struct limits {
    ucc_status_t beyond; /* what becomes of larger ones than windows take */
    bool wrong[N];
} limits_t;

/* An element is numbers, cb_ctx bytes of them. */
static ucc_status_t add(const ucc_reduce_cb_params_t *p) {
    const uint64_t *a = p->src1, *b = p->src2;
    uint64_t *dst = p->dst;
    for (size_t i = 0; i < (uintptr_t)p->cb_ctx / sizeof(*dst); i++) {
        dst[i] = a[i] + b[i];
    }
    return UCC_OK;
}

/* What init says of a reduction of one element of so many bytes; if that is good, it has to have
 * the right result. */
static ucc_status_t reduce(heddle_ep_t *ep, ucc_coll_type_t type, size_t bytes) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = bytes,
                                .reduce = {.cb = add, .cb_ctx = (void *)(uintptr_t)bytes}};
    ucc_datatype_t dt;
    uint64_t *x = calloc(1, bytes), *last = x + bytes / sizeof(*x) - 1;
    uint64_t expected = type == UCC_COLL_TYPE_SCAN ? heddle_ep_index(ep) + 1 : N;
    ucc_coll_req_h request;
    ucc_status_t status = ucc_dt_create_generic(&ops, NULL, &dt);
    if (status != UCC_OK) {
        free(x);
        return status;
    }
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = type,
                            .dst.info = {x, 1, dt, UCC_MEMORY_TYPE_HOST}};
    *last = 1;
    status = ucc_collective_init(&args, &request, heddle_ep_team(ep));
    if (status == UCC_OK) {
        bool right = ucc_collective_post(request) == UCC_OK && heddle_wait(request, -1) == UCC_OK;
        right = ucc_collective_finalize(request) == UCC_OK && right && *last == expected;
        status = right ? UCC_OK : UCC_ERR_NO_MESSAGE;
    }
    ucc_dt_destroy(dt);
    free(x);
    return status;
}

static void reduce_within_limits(heddle_ep_t *ep, void *arg) {
    limits_t *limits = arg;
    size_t most = HD_FAR_LARGEST;
    bool right = reduce(ep, UCC_COLL_TYPE_ALLREDUCE, most) == UCC_OK &&
                 reduce(ep, UCC_COLL_TYPE_ALLREDUCE, most + 8) == limits->beyond &&
                 reduce(ep, UCC_COLL_TYPE_SCAN, most / N) == UCC_OK &&
                 reduce(ep, UCC_COLL_TYPE_SCAN, most / N + 8) == limits->beyond &&
                 reduce(ep, UCC_COLL_TYPE_ALLREDUCE, 8) == UCC_OK; /* the team is as it was */
    limits->wrong[heddle_ep_index(ep)] = !right;
}

Test(far, elements_that_no_window_takes_are_refused_at_init) {
    static const char *const how[] = {"one", "near", "far", "pairs"};
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (int i = 0; i < 4; i++) {
        limits_t limits = {.beyond = i < 2 ? UCC_OK : UCC_ERR_NOT_SUPPORTED};
        setenv("HEDDLE_DEBUG_MAPPINGS", how[i], 1);
        cr_assert_eq(heddle_run(N, reduce_within_limits, &limits), UCC_OK);
        for (uint32_t e = 0; e < N; e++) {
            cr_assert_not(limits.wrong[e], "%s: endpoint %u", how[i], e);
        }
    }
}
