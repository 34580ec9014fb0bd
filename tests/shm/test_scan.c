/* test_scan.c: what the conformance tables do not reach of scan and exscan: many endpoints,
 * elements larger than a window, who waits for whom, and the bits of floating-point prefixes.
 */
#include "../support/deadline.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(scan, .timeout = 60);

typedef struct team {
    uint32_t n;
    heddle_group_t *group;
    heddle_ep_t **ep;
    ucc_coll_req_h *request;
} team_t;

static team_t open_team(uint32_t n) {
    team_t t = {
        .n = n, .ep = must_alloc(n, sizeof(*t.ep)), .request = must_alloc(n, sizeof(*t.request))};
    heddle_group_params_t params = {.endpoints = n, .contexts = 1};
    must(heddle_group_create(&params, &t.group), "heddle_group_create");
    for (uint32_t i = 0; i < n; i++) {
        must(heddle_join(t.group, i, &t.ep[i]), "heddle_join");
    }
    return t;
}

static void close_team(team_t *t) {
    for (uint32_t i = 0; i < t->n; i++) {
        must(heddle_leave(t->ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(t->group), "heddle_group_destroy");
    free(t->ep);
    free(t->request);
}

/* Endpoints come in reverse order. in_place: dst holds the sources. */
static void run(team_t *t, ucc_coll_type_t type, bool in_place, const void *src, void *dst,
                size_t bytes, uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op) {
    for (uint32_t i = t->n; i-- > 0;) {
        const void *from = in_place ? HEDDLE_IN_PLACE : (const uint8_t *)src + i * bytes;
        void *to = (uint8_t *)dst + i * bytes;
        must(type == UCC_COLL_TYPE_SCAN
                 ? heddle_iscan(t->ep[i], from, to, count, dt, op, &t->request[i])
                 : heddle_iexscan(t->ep[i], from, to, count, dt, op, &t->request[i]),
             "start");
    }
    cr_assert_eq(heddle_wait_all(t->request, t->n, 50), UCC_OK);
    for (uint32_t i = 0; i < t->n; i++) {
        must(heddle_request_free(&t->request[i]), "heddle_request_free");
    }
}

/* 1, 2, 3, ... elements: prefixes are known in closed form. */
static void check_sums(uint32_t n, uint64_t count, bool in_place) {
    team_t t = open_team(n);
    int64_t *src = must_alloc(n * count, sizeof(*src)), *dst = must_alloc(n * count, sizeof(*dst));
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        for (uint64_t e = 0; e < n * count; e++) {
            src[e] = (int64_t)(e / count + e % count);
            dst[e] = in_place ? src[e] : -1;
        }
        run(&t, exclusive ? UCC_COLL_TYPE_EXSCAN : UCC_COLL_TYPE_SCAN, in_place, src, dst,
            count * sizeof(*src), count, UCC_DT_INT64, UCC_OP_SUM);
        for (uint64_t e = 0; e < n * count; e++) {
            int64_t operands = (int64_t)(e / count) + 1 - exclusive, at = (int64_t)(e % count);
            int64_t want = operands * (operands - 1) / 2 + operands * at;
            if (operands == 0) { /* the first of an exscan: untouched */
                want = in_place ? at : -1;
            }
            cr_assert_eq(dst[e], want, "%u endpoints, element %llu: %lld instead of %lld", n,
                         (unsigned long long)e, (long long)dst[e], (long long)want);
        }
    }
    free(src);
    free(dst);
    close_team(&t);
}

Test(scan, up_to_the_most_endpoints_that_read_each_other) {
    check_sums(64, 1, false);
    check_sums(64, 5, true);
    check_sums(64, 30, false);
}

Test(scan, beyond_them_one_takes_the_prefix_through_all) {
    check_sums(65, 1, false);
    check_sums(200, 7, true);
    check_sums(300, 1, true);
}

Test(scan, large_sources) {
    check_sums(3, 100000, false);
    check_sums(5, 100001, true);
    check_sums(12, 30000, true);
}

/* --- elements larger than a window ------------------------------------------------------------ */

enum { WORDS = 3000 };

typedef struct element {
    uint64_t word[WORDS];
} element_t;

/* Composes the maps x -> a x + b: not commutative. */
static ucc_status_t compose(const ucc_reduce_cb_params_t *params) {
    const element_t *a = params->src1, *b = params->src2;
    element_t *to = params->dst;
    for (uint64_t e = 0; e < params->count * params->n_vectors; e++) {
        for (uint32_t i = 0; i < WORDS; i += 2) {
            uint64_t slope = a[e].word[i] * b[e].word[i];
            to[e].word[i + 1] = a[e].word[i + 1] * b[e].word[i] + b[e].word[i + 1];
            to[e].word[i] = slope;
        }
    }
    return UCC_OK;
}

static void check_elements(bool in_place, ucc_coll_type_t type) {
    enum { N = 5, COUNT = 2 };
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = sizeof(element_t),
                                .reduce = {.cb = compose}};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "ucc_dt_create_generic");
    team_t t = open_team(N);
    element_t *src = must_alloc(N * COUNT, sizeof(*src)),
              *dst = must_alloc(N * COUNT, sizeof(*dst));
    for (uint32_t e = 0; e < N * COUNT; e++) {
        for (uint32_t i = 0; i < WORDS; i++) {
            src[e].word[i] = 3 + 7 * (uint64_t)e + i;
        }
    }
    memcpy(dst, src, N * COUNT * sizeof(*src));
    run(&t, type, in_place, src, dst, COUNT * sizeof(*src), COUNT, dt, UCC_OP_SUM);
    uint32_t behind = type == UCC_COLL_TYPE_EXSCAN;
    for (uint32_t e = 0; e < COUNT; e++) {
        element_t want = src[e];
        for (uint32_t i = behind; i < N; i++) {
            if (i > behind) {
                ucc_reduce_cb_params_t next = {.src1 = &want,
                                               .src2 = &src[(i - behind) * COUNT + e],
                                               .dst = &want,
                                               .n_vectors = 1,
                                               .count = 1};
                compose(&next);
            }
            cr_assert_eq(memcmp(&want, &dst[i * COUNT + e], sizeof(want)), 0, "endpoint %u", i);
        }
        cr_assert(!behind || memcmp(&src[e], &dst[e], sizeof(want)) == 0);
    }
    free(src);
    free(dst);
    close_team(&t);
    ucc_dt_destroy(dt);
}

Test(scan, elements_of_the_user_larger_than_a_window) {
    check_elements(false, UCC_COLL_TYPE_SCAN);
    check_elements(true, UCC_COLL_TYPE_SCAN);
    check_elements(false, UCC_COLL_TYPE_EXSCAN);
    check_elements(true, UCC_COLL_TYPE_EXSCAN);
}

/* --- bits, waiting, refusals ------------------------------------------------------------------ */

/* Numbers whose sum depends on the order. */
static float number(uint32_t i, uint64_t e) {
    return (i % 3 == 0 ? 1e8f : i % 3 == 1 ? -1e8f : 1.0f) + (float)(e % 7) * 0.37f + (float)i;
}

Test(scan, prefixes_have_the_same_bits_in_every_regime_and_are_made_from_the_left) {
    static const uint64_t counts[] = {1, 12, 100, 3000, 60000};
    static const uint32_t sizes[] = {5, 11, 70};
    for (uint32_t s = 0; s < 3; s++) {
        team_t t = open_team(sizes[s]);
        for (uint32_t c = 0; c < 5; c++) {
            uint64_t n = counts[c];
            float *src = must_alloc(t.n * n, sizeof(*src)),
                  *dst = must_alloc(t.n * n, sizeof(*dst));
            for (uint64_t e = 0; e < t.n * n; e++) {
                src[e] = number((uint32_t)(e / n), e % n);
            }
            run(&t, UCC_COLL_TYPE_SCAN, false, src, dst, n * sizeof(*src), n, UCC_DT_FLOAT32,
                UCC_OP_SUM);
            for (uint64_t e = 0; e < n; e++) {
                volatile float sum = src[e];
                for (uint32_t i = 1; i < t.n; i++) {
                    sum = sum + src[i * n + e];
                    float got = dst[i * n + e], want = sum;
                    cr_assert_eq(memcmp(&got, &want, sizeof(got)), 0, "%u endpoints, %u: %g, %g",
                                 t.n, i, (double)got, (double)want);
                }
            }
            free(src);
            free(dst);
        }
        close_team(&t);
    }
}

Test(scan, a_small_one_waits_for_nobody_behind) {
    team_t t = open_team(12);
    int32_t one = 1, sum[12];
    for (uint32_t i = 0; i < 12; i++) {
        ucc_coll_req_h request;
        must(heddle_iscan(t.ep[i], &one, &sum[i], 1, UCC_DT_INT32, UCC_OP_SUM, &request), "iscan");
        cr_assert_eq(ucc_collective_test(request), UCC_OK, "endpoint %u", i);
        cr_assert_eq(sum[i], (int32_t)i + 1);
        must(heddle_request_free(&request), "heddle_request_free");
    }
    close_team(&t);
}

static char last_line[512];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

Test(scan, there_is_no_average_of_a_prefix) {
    team_t t = open_team(2);
    float x = 1, y;
    hd_log_capture(capture, NULL);
    cr_assert_eq(heddle_scan(t.ep[0], &x, &y, 1, UCC_DT_FLOAT32, UCC_OP_AVG),
                 UCC_ERR_NOT_SUPPORTED);
    cr_assert(strstr(last_line, "op"), "%s", last_line);
    cr_assert_eq(heddle_exscan(t.ep[0], &x, &y, 1, UCC_DT_FLOAT32, UCC_OP_BAND),
                 UCC_ERR_NOT_SUPPORTED);
    cr_assert_eq(heddle_scan(t.ep[1], &x, NULL, 1, UCC_DT_FLOAT32, UCC_OP_SUM),
                 UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "dst"), "%s", last_line);
    hd_log_capture(NULL, NULL);
    close_team(&t);
}
