/* test_form.c: how teams come about, in every way there is, and how that fails: with a status, at
 * every endpoint, without a leak (run it under AddressSanitizer), and never by waiting for ever.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "core/log.h"
#include "core/mem.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quiet(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(form, .timeout = 120, .init = quiet);

enum { MAX = 9 };

/* Libraries and contexts for n endpoints, and handles to be made. */
typedef struct stage {
    uint32_t n;
    ucc_lib_h libs[MAX];
    ucc_context_h contexts[MAX];
    ucc_team_h teams[MAX];
    oob_board_t *board;
} stage_t;

static stage_t stage_open(uint32_t n, bool contexts_with_oob) {
    stage_t s = {.n = n, .board = oob_board_create(n)};
    for (uint32_t i = 0; i < n; i++) {
        s.libs[i] = world_lib(UCC_THREAD_MULTIPLE);
    }
    if (contexts_with_oob) {
        ucc_oob_coll_t oobs[MAX];
        for (uint32_t i = 0; i < n; i++) {
            oobs[i] = oob_endpoint(s.board, i);
        }
        world_contexts_with_oob(n, s.libs, oobs, s.contexts);
        return s;
    }
    for (uint32_t i = 0; i < n; i++) {
        s.contexts[i] = world_new_context(s.libs[i], UCC_CONTEXT_SHARED, NULL);
    }
    return s;
}

static void stage_close(stage_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->teams[i]) {
            cr_assert_eq(ucc_team_destroy(s->teams[i]), UCC_OK);
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        cr_assert_eq(ucc_context_destroy(s->contexts[i]), UCC_OK);
        cr_assert_eq(ucc_finalize(s->libs[i]), UCC_OK);
    }
    oob_board_destroy(s->board);
}

static void stage_destroy_teams(stage_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        cr_assert_eq(ucc_team_destroy(s->teams[i]), UCC_OK);
        s->teams[i] = NULL;
    }
}

static ucc_team_params_t by_oob(stage_t *s, uint32_t i) {
    return (ucc_team_params_t){.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = oob_endpoint(s->board, i)};
}

static ucc_team_params_t by_id(uint64_t id, uint64_t ep, uint64_t size) {
    return (ucc_team_params_t){.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                       UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                               .id = id,
                               .ep = ep,
                               .team_size = size};
}

static ucc_status_t post(stage_t *s, uint32_t i, const ucc_team_params_t *params) {
    return ucc_team_create_post(&s->contexts[i], 1, params, &s->teams[i]);
}

/* Drives all handles until each has said something final. */
static void settle(stage_t *s, ucc_status_t *statuses) {
    deadline_t deadline = deadline_start("a team that forms or fails");
    uint32_t left = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        statuses[i] = UCC_INPROGRESS;
    }
    while (left > 0) {
        for (uint32_t i = 0; i < s->n; i++) {
            if (statuses[i] == UCC_INPROGRESS) {
                statuses[i] = ucc_team_create_test(s->teams[i]);
                left -= statuses[i] != UCC_INPROGRESS;
            }
        }
        deadline_poll(&deadline);
    }
}

static void all_work(stage_t *s) {
    ucc_status_t statuses[MAX];
    settle(s, statuses);
    for (uint32_t i = 0; i < s->n; i++) {
        cr_assert_eq(statuses[i], UCC_OK, "endpoint %u: %d", i, (int)statuses[i]);
    }
    cr_assert(small_teams_work(s->teams, s->contexts, s->n));
}

static void all_fail(stage_t *s) {
    ucc_status_t statuses[MAX];
    settle(s, statuses);
    for (uint32_t i = 0; i < s->n; i++) {
        cr_assert_lt(statuses[i], 0, "endpoint %u: %d", i, (int)statuses[i]);
        cr_assert_lt(ucc_team_create_test(s->teams[i]), 0, "it stays failed");
    }
}

/* --- ways ------------------------------------------------------------------------------------- */

Test(form, all_ways_make_a_team_that_works) {
    static const uint32_t sizes[] = {1, 2, 8, 9, 33};
    for (uint32_t k = 0; k < 5; k++) {
        for (int form = 0; form < WORLD_FORMS; form++) {
            world_t *world =
                world_create(&(world_params_t){.size = sizes[k], .form = (world_form_t)form});
            cr_assert(small_team_works(world), "%s", world_form_name((world_form_t)form));
            world_destroy(world);
        }
    }
}

Test(form, endpoints_may_choose_their_numbers) {
    stage_t s = stage_open(3, false);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_team_params_t p = by_oob(&s, i);
        p.mask |= UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
        p.ep = (i + 1) % 3;
        p.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
        must(post(&s, i, &p), "post");
    }
    ucc_status_t statuses[MAX];
    settle(&s, statuses);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t ep;
        cr_assert_eq(statuses[i], UCC_OK);
        cr_assert_eq(ucc_team_get_my_ep(s.teams[i], &ep), UCC_OK);
        cr_assert_eq(ep, (i + 1) % 3);
    }
    stage_close(&s);
}

Test(form, labels_need_not_be_contiguous) {
    static const uint64_t labels[] = {900, 7, 40000000000};
    for (int with_oob = 0; with_oob < 2; with_oob++) {
        stage_t s = stage_open(3, false);
        for (uint32_t i = 0; i < 3; i++) {
            ucc_team_params_t p = with_oob ? by_oob(&s, i) : by_id(5, 0, 3);
            p.mask |= UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
            p.ep = labels[i];
            p.ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
            must(post(&s, i, &p), "post");
        }
        all_work(&s);
        for (uint32_t i = 0; i < 3; i++) {
            uint64_t ep, *eps, n;
            cr_assert_eq(ucc_team_get_my_ep(s.teams[i], &ep), UCC_OK);
            cr_assert_eq(ep, labels[i]);
            cr_assert_eq(ucc_team_get_all_eps(s.teams[i], &eps, &n), UCC_OK);
            cr_assert_eq(n, 3);
            cr_assert_eq(eps[0] + eps[1] + eps[2], labels[0] + labels[1] + labels[2]);
        }
        stage_close(&s);
    }
}

Test(form, without_an_ep_numbers_are_generated) {
    stage_t s = stage_open(4, false);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 4; i++) {
        ucc_team_params_t p = by_id(6, 2, 4);
        if (i != 0) { /* endpoint 0 asks for number 2; the others take what is free */
            p.mask &= ~(uint64_t)UCC_TEAM_PARAM_FIELD_EP;
        }
        must(post(&s, i, &p), "post");
    }
    ucc_status_t statuses[MAX];
    settle(&s, statuses);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ep;
        cr_assert_eq(statuses[i], UCC_OK);
        must(ucc_team_get_my_ep(s.teams[i], &ep), "my_ep");
        seen |= 1u << ep;
    }
    cr_assert_eq(seen, 0xfu, "every number once: %x", seen);
    stage_close(&s);
}

Test(form, several_contexts_share_the_work_of_a_team) {
    stage_t s = stage_open(2, false);
    ucc_context_h second[2];
    for (uint32_t i = 0; i < 2; i++) {
        second[i] = world_new_context(s.libs[i], UCC_CONTEXT_SHARED, NULL);
        ucc_context_h both[2] = {s.contexts[i], second[i]};
        ucc_team_params_t p = by_oob(&s, i);
        must(ucc_team_create_post(both, 2, &p, &s.teams[i]), "post");
    }
    ucc_status_t statuses[MAX];
    settle(&s, statuses);
    deadline_t deadline = deadline_start("barriers over two contexts");
    for (int k = 0; k < 20; k++) {
        ucc_coll_req_h requests[2];
        for (uint32_t i = 0; i < 2; i++) {
            ucc_coll_args_t args = small_barrier();
            must(ucc_collective_init_and_post(&args, &requests[i], s.teams[i]), "post");
        }
        for (uint32_t i = 0; i < 2; i++) {
            while (ucc_collective_test(requests[i]) == UCC_INPROGRESS) {
                ucc_context_progress(s.contexts[0]);
                ucc_context_progress(s.contexts[1]);
                ucc_context_progress(second[0]);
                ucc_context_progress(second[1]);
                deadline_poll(&deadline);
            }
            must(ucc_collective_test(requests[i]), "barrier");
            must(ucc_collective_finalize(requests[i]), "finalize");
        }
    }
    stage_destroy_teams(&s);
    must(ucc_context_destroy(second[0]), "ucc_context_destroy");
    must(ucc_context_destroy(second[1]), "ucc_context_destroy");
    stage_close(&s);
}

/* --- maps ------------------------------------------------------------------------------------- */

static uint64_t reversed(uint64_t ep, void *arg) {
    return *(uint64_t *)arg - 1 - ep;
}

static ucc_team_params_t by_map(ucc_ep_map_t map) {
    return (ucc_team_params_t){.mask = UCC_TEAM_PARAM_FIELD_EP_MAP, .ep_map = map};
}

Test(form, every_kind_of_map_makes_a_team) {
    stage_t s = stage_open(4, true);
    uint64_t n = 4, wide[] = {2, 0, 3, 1};
    uint32_t narrow[] = {3, 1, 0, 2};
    const ucc_ep_map_t maps[] = {
        {.type = UCC_EP_MAP_FULL, .ep_num = 4},
        {.type = UCC_EP_MAP_STRIDED, .ep_num = 4, .strided = {.start = 3, .stride = -1}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 4, .array = {.map = wide, .elem_size = 8}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 4, .array = {.map = narrow, .elem_size = 4}},
        {.type = UCC_EP_MAP_CB, .ep_num = 4, .cb = {.cb = reversed, .cb_ctx = &n}}};
    for (uint32_t m = 0; m < 5; m++) {
        for (uint32_t i = 0; i < 4; i++) {
            ucc_team_params_t p = by_map(maps[m]);
            must(post(&s, i, &p), "post");
        }
        ucc_status_t statuses[MAX];
        settle(&s, statuses);
        for (uint32_t i = 0; i < 4; i++) {
            cr_assert_eq(statuses[i], UCC_OK);
        }
        stage_destroy_teams(&s);
    }
    stage_close(&s);
}

Test(form, maps_that_are_wrong_are_refused_at_once) {
    stage_t s = stage_open(3, true);
    uint64_t twice[] = {0, 1, 1}, outside[] = {0, 1, 3}, others[] = {1, 2};
    const ucc_ep_map_t maps[] = {
        {.type = UCC_EP_MAP_FULL, .ep_num = 0},
        {.type = UCC_EP_MAP_FULL, .ep_num = 4},
        {.type = UCC_EP_MAP_STRIDED, .ep_num = 3, .strided = {.start = 0, .stride = 0}},
        {.type = UCC_EP_MAP_STRIDED, .ep_num = 2, .strided = {.start = 0, .stride = -1}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 3, .array = {.map = twice, .elem_size = 8}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 3, .array = {.map = outside, .elem_size = 8}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 2, .array = {.map = others, .elem_size = 8}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 2, .array = {.map = others, .elem_size = 2}},
        {.type = UCC_EP_MAP_ARRAY, .ep_num = 2, .array = {.map = NULL, .elem_size = 8}},
        {.type = UCC_EP_MAP_CB, .ep_num = 2, .cb = {.cb = NULL}},
        {.type = (ucc_ep_map_type_t)77, .ep_num = 2}};
    for (uint32_t m = 0; m < sizeof(maps) / sizeof(maps[0]); m++) {
        ucc_team_params_t p = by_map(maps[m]);
        cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "map %u", m);
    }
    stage_close(&s);
    s = stage_open(1, false); /* a map leads to nobody without an exchange of contexts */
    ucc_team_params_t p = by_map(maps[1]);
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM);
    stage_close(&s);
}

/* --- what can be seen by one endpoint alone --------------------------------------------------- */

Test(form, parameters_that_are_wrong_are_refused_at_once) {
    stage_t s = stage_open(2, false);
    ucc_team_params_t p = by_id(9, 0, 2);
    p.mask &= ~(uint64_t)UCC_TEAM_PARAM_FIELD_ID;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "no id");
    p = by_id(9, 0, 0);
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "size 0");
    p = by_id(9, 2, 2);
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "ep 2 of 2");
    p = by_oob(&s, 0);
    p.oob.oob_ep = 2;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "oob_ep 2 of 2");
    p = by_oob(&s, 0);
    p.oob.req_test = NULL;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "a NULL function");
    p = by_oob(&s, 0);
    p.mask |= UCC_TEAM_PARAM_FIELD_TEAM_SIZE;
    p.team_size = 3;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "team_size 3, n_oob_eps 2");
    p = by_oob(&s, 0);
    p.mask |= UCC_TEAM_PARAM_FIELD_ORDERING;
    p.ordering = (ucc_post_ordering_t)6;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "ordering");
    p = by_oob(&s, 0);
    p.mask |= UCC_TEAM_PARAM_FIELD_SYNC_TYPE;
    p.sync_type = (ucc_coll_sync_type_t)2;
    cr_assert_eq(post(&s, 0, &p), UCC_ERR_INVALID_PARAM, "sync_type");
    p = by_oob(&s, 0);
    cr_assert_eq(ucc_team_create_post(&s.contexts[0], 0, &p, &s.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_team_create_post(NULL, 1, &p, &s.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_team_create_post(&s.contexts[0], 1, NULL, &s.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_team_create_post(&s.contexts[0], 1, &p, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_null(s.teams[0]);
    stage_close(&s);
}

/* --- what only shows when all have come: then all fail ---------------------------------------- */

Test(form, a_number_taken_twice_fails_at_all_endpoints) {
    for (uint32_t dup = 0; dup < 2; dup++) { /* number 0 makes the group: it matters most */
        stage_t s = stage_open(3, false);
        for (uint32_t i = 0; i < 3; i++) {
            ucc_team_params_t p = by_oob(&s, i);
            p.mask |= UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
            p.ep = i == 2 ? dup : i;
            p.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
            must(post(&s, i, &p), "post");
        }
        all_fail(&s);
        stage_close(&s);
    }
}

Test(form, a_label_taken_twice_fails_at_all_endpoints) {
    stage_t s = stage_open(3, false);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_team_params_t p = by_id(11, i == 2 ? 500 : 500 + i, 3);
        p.mask |= UCC_TEAM_PARAM_FIELD_EP_RANGE;
        p.ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
        must(post(&s, i, &p), "post");
    }
    all_fail(&s);
    stage_close(&s);
}

Test(form, different_sync_types_fail_at_all_endpoints) {
    for (int way = 0; way < 2; way++) {
        for (uint32_t odd = 0; odd < 3; odd++) {
            stage_t s = stage_open(3, false);
            for (uint32_t i = 0; i < 3; i++) {
                ucc_team_params_t p = way ? by_id(13, i, 3) : by_oob(&s, i);
                p.mask |= UCC_TEAM_PARAM_FIELD_SYNC_TYPE;
                p.sync_type = i == odd ? UCC_SYNC_COLLECTIVES : UCC_NO_SYNC_COLLECTIVES;
                must(post(&s, i, &p), "post");
            }
            all_fail(&s);
            stage_close(&s);
        }
    }
}

/* The call has had no effect, so the others go on waiting. */
Test(form, whoever_is_refused_by_a_number_out_of_range_may_come_with_another) {
    stage_t s = stage_open(3, false);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_team_params_t p = by_id(37, 3, 3);
        cr_assert_eq(post(&s, i, &p), UCC_ERR_INVALID_PARAM);
        p.ep = i;
        must(post(&s, i, &p), "post");
    }
    all_work(&s);
    stage_close(&s);
}

/* Who contradicts is refused at once; those who came before learn it when they test. */
Test(form, contradictions_over_an_id_fail_at_all_endpoints) {
    static const struct {
        uint64_t ep[3], size[3];
        ucc_ep_range_type_t range[3];
    } cases[] = {
        {{0, 1, 2}, {2, 3, 3}, {0}}, /* sizes differ */
        {{0, 1, 2}, {3, 3, 4}, {0}}, /* only the last one differs */
        {{0, 1, 1}, {3, 3, 3}, {0}}, /* an ep is taken twice */
        {{0, 0, 1}, {3, 3, 3}, {0}}, /* the first one's */
        {{0, 1, 2}, {3, 3, 3}, {0, UCC_COLLECTIVE_EP_RANGE_NONCONTIG, 0}},
    };
    for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        stage_t s = stage_open(3, false);
        uint32_t refused = 0;
        for (uint32_t i = 0; i < 3; i++) {
            ucc_team_params_t p = by_id(31, cases[c].ep[i], cases[c].size[i]);
            p.mask |= UCC_TEAM_PARAM_FIELD_EP_RANGE;
            p.ep_range = cases[c].range[i];
            ucc_status_t status = post(&s, i, &p);
            cr_assert(status == UCC_OK || status == UCC_ERR_INVALID_PARAM);
            refused += status != UCC_OK;
        }
        cr_assert_geq(refused, 1, "case %u", c);
        for (uint32_t i = 0; i < 3; i++) {
            cr_assert(!s.teams[i] || ucc_team_create_test(s.teams[i]) == UCC_ERR_INVALID_PARAM,
                      "endpoint %u in case %u", i, c);
        }
        stage_close(&s);
    }
}

static ucc_status_t failing_allgather(void *src, void *dst, size_t bytes, void *arg,
                                      void **request) {
    (void)src, (void)dst, (void)bytes, (void)arg, (void)request;
    return UCC_ERR_NO_MESSAGE;
}

Test(form, a_failing_allgather_fails_create_post) {
    stage_t s = stage_open(2, false);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_params_t p = by_oob(&s, i);
        p.oob.allgather = failing_allgather;
        cr_assert_eq(post(&s, i, &p), UCC_ERR_NO_MESSAGE);
    }
    stage_close(&s);
}

Test(form, a_team_is_not_destroyed_under_its_outstanding_allgather) {
    stage_t s = stage_open(2, false);
    ucc_team_params_t p = by_oob(&s, 0);
    must(post(&s, 0, &p), "post");
    cr_assert_eq(ucc_team_create_test(s.teams[0]), UCC_INPROGRESS);
    cr_assert_eq(ucc_team_destroy(s.teams[0]), UCC_ERR_INVALID_PARAM);
    p = by_oob(&s, 1);
    must(post(&s, 1, &p), "post");
    all_work(&s);
    stage_close(&s);
}

static world_t *parent(uint32_t n) {
    return world_create(&(world_params_t){.size = n, .form = WORLD_GROUP});
}

/* --- whoever waits says for whom -------------------------------------------------------------- */

static char last_line[512];

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static void must_say(ucc_team_h team, const char *text) {
    deadline_t deadline = deadline_start("a line that says who is waited for");
    last_line[0] = '\0';
    while (!strstr(last_line, text)) {
        cr_assert_eq(ucc_team_create_test(team), UCC_INPROGRESS);
        deadline_poll(&deadline);
    }
}

static void give_up(stage_t *s, uint32_t i) {
    cr_assert_eq(ucc_team_destroy(s->teams[i]), UCC_OK);
    s->teams[i] = NULL;
}

Test(form, endpoint_that_is_missing_is_named_after_a_while) {
    setenv("HEDDLE_STALL", "0.02", 1);
    setenv("HEDDLE_LOG_LEVEL", "warn", 1);
    hd_log_capture(keep_line, NULL);
    stage_t s = stage_open(3, true);
    ucc_team_params_t p;
    for (uint32_t i = 0; i < 3; i += 2) { /* by id: who is there takes its place at once */
        p = by_id(41, i, 3);
        must(post(&s, i, &p), "post");
        cr_assert_eq(ucc_team_create_test(s.teams[i]), UCC_INPROGRESS);
    }
    must_say(s.teams[2], "endpoint 2 has waited");
    must_say(s.teams[2], "for endpoint 1 to join");
    give_up(&s, 0);
    give_up(&s, 2);
    for (uint32_t i = 0; i < 3; i++) { /* by an exchange, which two do not see end */
        p = by_oob(&s, i);
        must(post(&s, i, &p), "post");
        if (i == 0) {
            must_say(s.teams[0], "endpoint 0 has waited");
            must_say(s.teams[0], "for its oob allgather");
        }
    }
    must_say(s.teams[1], "endpoint 1 has waited");
    must_say(s.teams[1], "for endpoints 0 and 2 to join");
    all_work(&s);
    stage_destroy_teams(&s);
    p = by_id(42, 900, 3); /* by label: the numbers come when all are there */
    p.mask |= UCC_TEAM_PARAM_FIELD_EP_RANGE;
    p.ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
    must(post(&s, 0, &p), "post");
    must_say(s.teams[0], "endpoint 900 has waited");
    must_say(s.teams[0], "for 2 more endpoints to come");
    give_up(&s, 0);
    stage_close(&s);
    world_t *world = parent(3);
    ucc_team_h team;
    must(ucc_team_create_from_parent(1, 1, world->teams[1], &team), "split");
    must_say(team, "for endpoints 0 and 2 to come");
    cr_assert_eq(ucc_team_destroy(team), UCC_OK);
    world_destroy(world);
}

/* --- what is known of a team ------------------------------------------------------------------ */

Test(form, endpoints_are_listed_in_the_callers_array) {
    static const uint64_t labels[] = {900, 7, 40000000000};
    stage_t s = stage_open(3, false);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_team_params_t p = by_oob(&s, i);
        p.mask |= UCC_TEAM_PARAM_FIELD_EP;
        p.ep = labels[i];
        must(post(&s, i, &p), "post");
    }
    all_work(&s);
    uint64_t eps[3] = {1, 1, 1};
    ucc_team_attr_t attr = {.mask = UCC_TEAM_ATTR_FIELD_EPS, .eps = eps};
    cr_assert_eq(ucc_team_get_attr(s.teams[1], &attr), UCC_OK);
    cr_assert_eq(attr.eps, eps, "the pointer stays the caller's");
    cr_assert_arr_eq(eps, labels, sizeof(eps));
    attr.eps = NULL;
    cr_assert_eq(ucc_team_get_attr(s.teams[1], &attr), UCC_ERR_INVALID_PARAM);
    stage_close(&s);
}

Test(form, own_memory_is_known_before_all_have_joined) {
    heddle_group_params_t params = {.endpoints = 2, .symmetric_bytes = 100};
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    void *address = NULL;
    size_t bytes = 0;
    must(heddle_group_create(&params, &group), "group");
    must(heddle_join(group, 1, &ep[1]), "join");
    cr_assert_eq(heddle_team_memory(heddle_ep_team(ep[1]), 1, &address, &bytes), UCC_OK);
    cr_assert_not_null(address);
    cr_assert_eq(bytes, 100);
    cr_assert_eq(heddle_team_memory(heddle_ep_team(ep[1]), 0, &address, &bytes), UCC_ERR_NOT_FOUND);
    must(heddle_join(group, 0, &ep[0]), "join");
    cr_assert_eq(heddle_team_memory(heddle_ep_team(ep[1]), 0, &address, &bytes), UCC_OK);
    must(heddle_group_destroy(group), "group");
    must(heddle_leave(ep[0]), "leave");
    must(heddle_leave(ep[1]), "leave");
}

/* An address that somebody kept may not come to mean another context. */
Test(form, address_of_a_context_is_never_used_again) {
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    uint8_t address[2][64];
    size_t length = 0;
    for (uint32_t i = 0; i < 2; i++) {
        ucc_context_h context = world_new_context(lib, UCC_CONTEXT_SHARED, NULL);
        ucc_context_attr_t attr = {.mask = UCC_CONTEXT_ATTR_FIELD_CTX_ADDR |
                                           UCC_CONTEXT_ATTR_FIELD_CTX_ADDR_LEN};
        must(ucc_context_get_attr(context, &attr), "attr");
        length = attr.ctx_addr_len;
        cr_assert_leq(length, sizeof(address[i]));
        memcpy(address[i], attr.ctx_addr, length);
        for (size_t at = 0; at + sizeof(context) <= length; at++) {
            cr_assert_neq(memcmp(address[i] + at, &context, sizeof(context)), 0, "it is a pointer");
        }
        must(ucc_context_destroy(context), "destroy");
    }
    cr_assert_neq(memcmp(address[0], address[1], length), 0);
    must(ucc_finalize(lib), "finalize");
}

/* --- teams from teams ------------------------------------------------------------------------- */

Test(form, create_from_parent_leaves_out_who_is_not_included) {
    static const uint32_t masks[] = {0x1ff, 0x001, 0x155, 0x100, 0x0fe, 0};
    world_t *world = parent(MAX);
    for (uint32_t m = 0; m < 6; m++) {
        ucc_team_h teams[MAX], members[MAX];
        ucc_context_h contexts[MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < MAX; i++) {
            cr_assert_eq(
                ucc_team_create_from_parent(i, masks[m] >> i & 1, world->teams[i], &teams[i]),
                UCC_OK);
        }
        world_finish_teams(MAX, teams);
        for (uint32_t i = 0; i < MAX; i++) {
            uint32_t size;
            if (masks[m] >> i & 1) {
                uint64_t ep;
                cr_assert_eq(ucc_team_get_my_ep(teams[i], &ep), UCC_OK);
                cr_assert_eq(ep, n, "the parent's order stays");
                contexts[n] = world->contexts[i];
                members[n++] = teams[i];
            } else {
                cr_assert_eq(ucc_team_get_size(teams[i], &size), UCC_ERR_INVALID_PARAM);
            }
        }
        cr_assert(n == 0 || small_teams_work(members, contexts, n));
        for (uint32_t i = 0; i < MAX; i++) {
            cr_assert_eq(ucc_team_destroy(teams[i]), UCC_OK);
        }
    }
    ucc_team_h team;
    cr_assert_eq(ucc_team_create_from_parent(1, 1, world->teams[0], &team), UCC_ERR_INVALID_PARAM,
                 "endpoint 0 is not 1");
    cr_assert_eq(ucc_team_create_from_parent(0, 1, world->teams[0], NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_team_create_from_parent(0, 1, NULL, &team), UCC_ERR_INVALID_PARAM);
    world_destroy(world);
}

Test(form, create_from_eps_is_called_by_the_members_only) {
    world_t *world = parent(5);
    uint64_t list[] = {4, 0, 2}, *eps = list;
    ucc_team_h teams[3];
    ucc_context_h contexts[3];
    for (uint32_t i = 0; i < 3; i++) {
        must(ucc_create_team_from_eps(world->teams[list[i]], &eps, 3, &teams[i]), "from_eps");
        contexts[i] = world->contexts[list[i]];
    }
    world_finish_teams(3, teams);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t ep;
        cr_assert_eq(ucc_team_get_my_ep(teams[i], &ep), UCC_OK);
        cr_assert_eq(ep, i, "member i of the list becomes endpoint i");
    }
    cr_assert(small_teams_work(teams, contexts, 3));
    for (uint32_t i = 0; i < 3; i++) {
        must(ucc_team_destroy(teams[i]), "ucc_team_destroy");
    }
    world_destroy(world);
}

Test(form, lists_that_are_wrong_are_refused_at_once) {
    world_t *world = parent(3);
    uint64_t twice[] = {0, 1, 0}, outside[] = {0, 3}, others[] = {1, 2}, *eps = twice;
    ucc_team_h team = NULL;
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, 3, &team), UCC_ERR_INVALID_PARAM);
    eps = outside;
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, 2, &team), UCC_ERR_INVALID_PARAM);
    eps = others;
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, 2, &team), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, 0, &team), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, UINT64_MAX, &team),
                 UCC_ERR_INVALID_PARAM);
    eps = NULL;
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], &eps, 1, &team), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_create_team_from_eps(world->teams[0], NULL, 1, &team), UCC_ERR_INVALID_PARAM);
    cr_assert_null(team);
    world_destroy(world);
}

/* --- extensions ------------------------------------------------------------------------------- */

Test(form, a_team_may_promise_fewer_threads_than_its_library) {
    stage_t s = stage_open(2, false);
    heddle_team_params_t extra = {.mask = HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCC_THREAD_SINGLE};
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_params_t p = by_oob(&s, i);
        must(heddle_team_create_post(&s.contexts[i], 1, &p, &extra, &s.teams[i]), "post");
    }
    all_work(&s);
    ucc_thread_mode_t mode;
    cr_assert_eq(heddle_team_get_thread_mode(s.teams[0], &mode), UCC_OK);
    cr_assert_eq(mode, UCC_THREAD_SINGLE);
    stage_close(&s);

    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_EXCLUSIVE, NULL);
    ucc_team_params_t p = by_id(17, 0, 1);
    ucc_team_h team = NULL;
    extra.thread_mode = UCC_THREAD_MULTIPLE;
    cr_assert_eq(heddle_team_create_post(&context, 1, &p, &extra, &team), UCC_ERR_INVALID_PARAM);
    extra.thread_mode = (ucc_thread_mode_t)9;
    cr_assert_eq(heddle_team_create_post(&context, 1, &p, &extra, &team), UCC_ERR_INVALID_PARAM);
    must(ucc_context_destroy(context), "ucc_context_destroy");
    must(ucc_finalize(lib), "ucc_finalize");
}

Test(form, a_team_shows_everybodys_memory_to_everybody) {
    stage_t s = stage_open(3, false);
    _Alignas(128) static uint8_t mine[256];
    heddle_team_params_t extra[3] = {{.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY},
                                     {.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY},
                                     {.mask = 0}};
    extra[0].memory.address = mine;
    extra[0].memory.bytes = sizeof(mine);
    extra[0].memory.constraints = UCC_MEM_ALIGN128;
    extra[1].memory.bytes = 100; /* the library's */
    for (uint32_t i = 0; i < 3; i++) {
        ucc_team_params_t p = by_oob(&s, i);
        must(heddle_team_create_post(&s.contexts[i], 1, &p, &extra[i], &s.teams[i]), "post");
    }
    all_work(&s);
    for (uint32_t i = 0; i < 3; i++) {
        void *address;
        size_t bytes;
        cr_assert_eq(heddle_team_memory(s.teams[i], 0, &address, &bytes), UCC_OK);
        cr_assert(address == mine && bytes == sizeof(mine));
        cr_assert_eq(heddle_team_memory(s.teams[i], 1, &address, &bytes), UCC_OK);
        cr_assert_eq(bytes, 100);
        memset(address, (int)i, bytes);
        cr_assert_eq(heddle_team_memory(s.teams[i], 2, &address, &bytes), UCC_ERR_NOT_FOUND);
        cr_assert_eq(heddle_team_memory(s.teams[i], 3, &address, &bytes), UCC_ERR_INVALID_PARAM);
    }
    ucc_team_params_t p = by_id(19, 0, 1);
    ucc_team_h team = NULL;
    extra[0].memory.address = mine + 32;
    cr_assert_eq(heddle_team_create_post(&s.contexts[0], 1, &p, &extra[0], &team),
                 UCC_ERR_INVALID_PARAM, "the address breaks a constraint");
    stage_close(&s);
}

/* --- no memory -------------------------------------------------------------------------------- */

typedef enum way { WAY_OOB, WAY_ID, WAY_LABELS, WAY_MAP, WAYS } way_t;

static ucc_team_params_t params_of(way_t way, stage_t *s, uint32_t i, uint64_t id) {
    switch (way) {
    case WAY_OOB:
        return by_oob(s, i);
    case WAY_ID:
        return by_id(id, i, s->n);
    case WAY_LABELS: {
        ucc_team_params_t p = by_id(id, 10 * i, s->n);
        p.mask |= UCC_TEAM_PARAM_FIELD_EP_RANGE;
        p.ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
        return p;
    }
    default:
        return by_map((ucc_ep_map_t){.type = UCC_EP_MAP_FULL, .ep_num = s->n});
    }
}

/* Forms a team while every allocation after the n-th fails. True once it succeeded: then n is as
 * many as forming takes. create_post may fail on some endpoints; the others then can't be told, as
 * the interface has it, and are destroyed; with oob that has to wait for the exchange, so all post
 * before memory runs out. */
static bool form_with(way_t way, long n) {
    static uint64_t id = 1000;
    stage_t s = stage_open(3, way == WAY_MAP);
    bool posted = true;
    id++;
    if (way != WAY_OOB) {
        hd_alloc_fail_after(n);
    }
    for (uint32_t i = 0; i < s.n; i++) {
        ucc_team_params_t p = params_of(way, &s, i, id);
        ucc_status_t status = post(&s, i, &p);
        cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY, "%d", (int)status);
        posted = posted && status == UCC_OK;
    }
    if (way == WAY_OOB) {
        hd_alloc_fail_after(n);
    }
    bool formed = posted;
    if (posted) {
        ucc_status_t statuses[MAX];
        settle(&s, statuses);
        uint32_t ok = 0;
        for (uint32_t i = 0; i < s.n; i++) {
            cr_assert(statuses[i] <= UCC_OK);
            ok += statuses[i] == UCC_OK;
        }
        formed = ok == s.n;
        cr_assert(ok == 0 || formed, "%u of %u endpoints have a team", ok, s.n);
    }
    hd_alloc_fail_after(-1);
    if (formed) {
        cr_assert(small_teams_work(s.teams, s.contexts, s.n));
    }
    stage_close(&s);
    return formed;
}

Test(form, without_memory_a_team_fails_at_all_endpoints) {
    for (int way = 0; way < WAYS; way++) {
        long n = 0;
        while (!form_with((way_t)way, n)) {
            n++;
            cr_assert_lt(n, 1000);
        }
        printf("way %d needs %ld allocations\n", way, n);
        cr_assert_gt(n, 3);
    }
}

Test(form, without_memory_a_group_fails) {
    for (long n = 0;; n++) {
        heddle_group_params_t params = {
            .endpoints = 9, .contexts = n % 2 ? 3 : 0, .symmetric_bytes = 100};
        heddle_group_t *group = NULL;
        heddle_ep_t *ep[9] = {NULL};
        hd_alloc_fail_after(n);
        ucc_status_t status = heddle_group_create(&params, &group);
        cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY);
        uint32_t joined = 0;
        for (uint32_t i = 0; group && i < 9; i++) {
            status = heddle_join(group, i, &ep[i]);
            cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY);
            joined += status == UCC_OK;
        }
        hd_alloc_fail_after(-1);
        for (uint32_t i = 0; i < 9; i++) {
            if (ep[i] && joined < 9) { /* those who joined are not left waiting */
                cr_assert_eq(heddle_barrier(ep[i]), UCC_ERR_NO_MEMORY);
            }
        }
        for (uint32_t i = 0; i < 9; i++) {
            if (ep[i]) {
                cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
            }
        }
        if (group) {
            cr_assert_eq(heddle_group_destroy(group), UCC_OK);
        }
        if (joined == 9) {
            printf("a group of 9 needs %ld allocations\n", n);
            break;
        }
        cr_assert_lt(n, 2000);
    }
}

/* Nobody has heard of a call that had no memory, so the same endpoint may call again. */
Test(form, a_split_that_failed_for_want_of_memory_may_be_tried_again) {
    world_t *world = parent(2);
    ucc_team_h teams[2];
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    long n = 0;
    for (; status == UCC_ERR_NO_MEMORY; n++) {
        hd_alloc_fail_after(n);
        status = ucc_team_create_from_parent(0, 1, world->teams[0], &teams[0]);
        hd_alloc_fail_after(-1);
    }
    cr_assert_eq(status, UCC_OK);
    cr_assert_gt(n, 4);
    must(ucc_team_create_from_parent(1, 1, world->teams[1], &teams[1]), "from_parent");
    deadline_t deadline = deadline_start("a split that was tried again");
    for (uint32_t formed = 0; formed < 2;) {
        formed = (ucc_team_create_test(teams[0]) == UCC_OK);
        formed += (ucc_team_create_test(teams[1]) == UCC_OK);
        deadline_poll(&deadline);
    }
    for (uint32_t i = 0; i < 2; i++) {
        must(ucc_team_destroy(teams[i]), "ucc_team_destroy");
    }
    world_destroy(world);
}

static bool split_with(long n) {
    world_t *world = parent(3);
    ucc_team_h teams[3] = {NULL};
    bool posted = true, formed = false;
    hd_alloc_fail_after(n);
    for (uint32_t i = 0; i < 3; i++) {
        posted =
            ucc_team_create_from_parent(i, i != 1, world->teams[i], &teams[i]) == UCC_OK && posted;
    }
    if (posted) {
        deadline_t deadline = deadline_start("a split without memory");
        ucc_status_t status[3] = {UCC_INPROGRESS, UCC_OK, UCC_INPROGRESS};
        while (status[0] == UCC_INPROGRESS || status[2] == UCC_INPROGRESS) {
            status[0] = ucc_team_create_test(teams[0]);
            status[2] = ucc_team_create_test(teams[2]);
            deadline_poll(&deadline);
        }
        cr_assert_eq(status[0] == UCC_OK, status[2] == UCC_OK);
        formed = status[0] == UCC_OK;
    }
    hd_alloc_fail_after(-1);
    for (uint32_t i = 0; i < 3; i++) {
        if (teams[i]) {
            cr_assert_eq(ucc_team_destroy(teams[i]), UCC_OK);
        }
    }
    world_destroy(world);
    return formed;
}

Test(form, without_memory_a_split_fails_at_all_endpoints) {
    long n = 0;
    while (!split_with(n)) {
        n++;
        cr_assert_lt(n, 1000);
    }
    cr_assert_gt(n, 3);
}
