/* test_drafts_later.c: programs written to the later draft of UCC. What both drafts share is tested
 * here; see test_drafts_earlier.c for what only the earlier one has.
 */
#define HEDDLE_DRAFT 2
#include "drafts_world.h"

#include "core/mem.h"

static void quiet(void) {
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(drafts_later, .timeout = 120, .init = quiet);

enum { N = 5 };

/* --- the header ------------------------------------------------------------------------------- */

_Static_assert(UCC_OP_MAX == UCC_BIT(0) && UCC_OP_SUM == UCC_BIT(2) && UCC_OP_MINLOC == UCC_BIT(14),
               "operations are bits");
_Static_assert(UCC_OP_LAST_PREDEFINED == UCC_BIT(15) && UCC_OP_UNSUPPORTED == UCC_BIT(16), "ends");
_Static_assert(UCC_DT_INT8 == 0 && UCC_DT_UINT8 == 5 && UCC_DT_FLOAT64 == 12, "datatypes");
_Static_assert(UCC_DT_LAST_PREDEFINED == 13 && UCC_DT_UNSUPPORTED == 14, "ends");
_Static_assert(UCC_BARRIER == UCC_BIT(0) && UCC_FANOUT == UCC_BIT(10), "collectives are bits");
_Static_assert(UCC_COLL_LAST == UCC_BIT(11), "end");
_Static_assert(UCC_COLL_TYPES == UCC_BIT(1) && UCC_REDUCTION_TYPES == UCC_BIT(3) &&
                   UCC_SYNC_TYPE == UCC_BIT(4),
               "a library's mask");
_Static_assert(UCC_COLL_SYNC_TYPE == UCC_BIT(1) && UCC_COLL_OOB == UCC_BIT(2), "a context's");

#define IS(call, ...)                                                                              \
    _Static_assert(_Generic(&call, __VA_ARGS__ : 1, default : 0), "type of " #call)
IS(ucc_init, ucc_status_t (*)(const ucc_lib_params_t *, const ucc_lib_config_h *, ucc_lib_h *));
IS(ucc_lib_get_attribs, ucc_status_t (*)(ucc_lib_h, ucc_lib_attrib_t *));
IS(ucc_lib_config_read, ucc_status_t (*)(const char *, const char *, ucc_lib_config_h **));
IS(ucc_lib_config_release, void (*)(ucc_lib_config_h *));
IS(ucc_lib_config_modify, ucc_status_t (*)(ucc_lib_config_h *, const char *, const char *));
IS(ucc_context_create, ucc_status_t (*)(ucc_lib_h, const ucc_context_params_t *,
                                        const ucc_context_config_t *, ucc_context_h *));
IS(ucc_context_get_attribs, ucc_status_t (*)(ucc_context_h, ucc_context_attrib_t *));
IS(ucc_team_create_post,
   ucc_status_t (*)(ucc_context_h *, uint32_t, ucc_team_params_t, ucc_team_h *));
IS(ucc_team_create_from_parent, ucc_status_t (*)(uint64_t, bool, ucc_team_h, ucc_team_h *));
IS(ucc_team_get_attribs, ucc_status_t (*)(ucc_team_h, ucc_team_attrib_t *));
IS(ucc_team_get_size, ucc_status_t (*)(ucc_team_h, uint32_t *));
IS(ucc_team_get_my_ep, ucc_status_t (*)(ucc_team_h, uint64_t *));
IS(ucc_team_get_all_eps, ucc_status_t (*)(ucc_team_h, uint64_t **, uint64_t *));
IS(ucc_create_team_from_eps, ucc_status_t (*)(ucc_team_h, uint64_t **, uint64_t, ucc_team_h *));
IS(ucc_collective_init, ucc_status_t (*)(ucc_coll_op_args_t *, ucc_coll_req_h *, ucc_team_h));
IS(ucc_collective_init_and_post,
   ucc_status_t (*)(ucc_coll_op_args_t *, ucc_coll_req_h *, ucc_team_h));

/* --- libraries and contexts ------------------------------------------------------------------- */

Test(drafts_later, a_library_tells_what_it_was_asked_for_in_the_drafts_values) {
    ucc_lib_params_t params = {.mask = UCC_THREAD_MODE | UCC_COLL_TYPES | UCC_REDUCTION_TYPES |
                                       UCC_SYNC_TYPE,
                               .thread_mode = UCC_LIB_THREAD_FUNNELED,
                               .coll_types = UCC_BARRIER | UCC_MCAST | UCC_FANOUT,
                               .reduction_op_types = UCC_OP_MIN | UCC_OP_LXOR,
                               .sync_type = UCC_SYNC_COLLECTIVES};
    ucc_lib_h lib;
    ucc_lib_attribs_t attribs = {0};
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    must(ucc_lib_get_attribs(lib, &attribs), "ucc_lib_get_attribs");
    cr_expect_eq(attribs.mask, params.mask);
    cr_expect_eq(attribs.thread_mode, UCC_LIB_THREAD_FUNNELED);
    cr_expect_eq(attribs.provided_coll_types, UCC_BARRIER | UCC_MCAST | UCC_FANOUT);
    cr_expect_eq(attribs.provided_reduction_types, UCC_OP_MIN | UCC_OP_LXOR);
    cr_expect_eq(attribs.sync_type, UCC_SYNC_COLLECTIVES);
    must(ucc_finalize(lib), "ucc_finalize");
}

Test(drafts_later, a_library_that_was_asked_for_nothing_has_everything) {
    ucc_lib_params_t params;
    memset(&params, 0xee, sizeof(params));
    params.mask = 0;
    ucc_lib_h lib;
    ucc_lib_attribs_t attribs = {0};
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    must(ucc_lib_get_attribs(lib, &attribs), "ucc_lib_get_attribs");
    cr_expect_eq(attribs.provided_coll_types, UCC_COLL_LAST - 1);
    cr_expect_eq(attribs.provided_reduction_types, UCC_OP_LAST_PREDEFINED - 1);
    must(ucc_finalize(lib), "ucc_finalize");
}

Test(drafts_later, a_prefix_stands_behind_ucc_in_the_names_of_variables) {
    ucc_lib_config_h *config;
    hd_log_capture(drafts_keep, NULL);
    setenv("UCC_DEMO_STALL", "77", 1);
    setenv("UCC_STALL", "66", 1);
    static const char *const prefixes[] = {"DEMO", "DEMO_", NULL};
    static const char *const expected[] = {"STALL=77", "STALL=77", "STALL=66"};
    for (int i = 0; i < 3; i++) {
        char *text = NULL;
        size_t size;
        must(ucc_lib_config_read(prefixes[i], NULL, &config), "ucc_lib_config_read");
        FILE *stream = open_memstream(&text, &size);
        ucc_lib_config_print(config, stream, NULL, UCC_CONFIG_PRINT_CONFIG);
        fclose(stream);
        cr_expect(strstr(text, expected[i]) != NULL, "%s in %s", expected[i], text);
        free(text);
        ucc_lib_config_release(config);
    }
}

static int drafts_warnings;

static void count_warnings(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    drafts_warnings += level == HD_LOG_WARN && strstr(line, "UCC_DEMO_") != NULL;
    drafts_warnings += 100 * (level == HD_LOG_WARN && strstr(line, "UCC_DEMO_SHTALL") != NULL);
}

Test(drafts_later, variables_with_the_prefix_are_known) {
    ucc_lib_config_h *config;
    ucc_lib_params_t params = {.mask = 0};
    ucc_lib_h lib;
    setenv("UCC_DEMO_STALL", "77", 1);
    setenv("UCC_DEMO_SHTALL", "77", 1);
    hd_log_capture(count_warnings, NULL);
    hd_log_set_level(HD_LOG_WARN);
    must(ucc_lib_config_read("DEMO", NULL, &config), "ucc_lib_config_read");
    must(ucc_lib_config_modify(config, "LOG_LEVEL", "warn"), "ucc_lib_config_modify");
    must(ucc_init(&params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    cr_expect_eq(drafts_warnings, 101, "the misspelt one only: %d", drafts_warnings);
    must(ucc_finalize(lib), "ucc_finalize");
}

Test(drafts_later, a_context_tells_what_it_was_asked_for) {
    ucc_lib_h lib = drafts_lib(UCC_LIB_THREAD_SINGLE);
    ucc_context_params_t params = {.mask = UCC_CONTEXT_TYPE | UCC_COLL_SYNC_TYPE,
                                   .ctx_type = UCC_CONTEXT_SHARED,
                                   .sync_type = UCC_SYNC_COLLECTIVES};
    ucc_context_attribs_t attribs = {0};
    ucc_context_h context;
    must(ucc_context_create(lib, &params, NULL, &context), "ucc_context_create");
    must(ucc_context_get_attribs(context, &attribs), "ucc_context_get_attribs");
    cr_expect(attribs.ctx_type == UCC_CONTEXT_SHARED && attribs.sync_type == UCC_SYNC_COLLECTIVES);
    must(ucc_context_destroy(context), "ucc_context_destroy");
    must(ucc_finalize(lib), "ucc_finalize");
}

/* --- teams ------------------------------------------------------------------------------------ */

/* Every endpoint's label, in the order in which an allgather puts its block. */
static void expect_order(drafts_t *d, const uint64_t *labels) {
    ucc_coll_op_args_t args[DRAFTS_MAX] = {0};
    uint64_t mine[DRAFTS_MAX], all[DRAFTS_MAX][DRAFTS_MAX], n, *eps;
    for (uint32_t i = 0; i < d->n; i++) {
        must(ucc_team_get_my_ep(d->teams[i], &mine[i]), "ucc_team_get_my_ep");
        args[i].coll_type = UCC_ALLGATHER;
        args[i].ext_args.buffer_info = (ucc_coll_buffer_info_t){.src_buffer = &mine[i],
                                                                .dst_buffer = all[i],
                                                                .size = sizeof(mine[i]),
                                                                .src_datatype = UCC_DT_UINT64,
                                                                .dst_datatype = UCC_DT_UINT64};
    }
    drafts_run(d, args);
    for (uint32_t i = 0; i < d->n; i++) {
        must(ucc_team_get_all_eps(d->teams[i], &eps, &n), "ucc_team_get_all_eps");
        cr_assert_eq(n, d->n);
        for (uint32_t j = 0; j < d->n; j++) {
            cr_expect_eq(all[i][j], labels[j], "block %u at endpoint %u is %llu's", j, i,
                         (unsigned long long)all[i][j]);
            cr_expect_eq(eps[j], labels[j]);
        }
    }
}

Test(drafts_later, endpoints_have_the_numbers_that_they_give) {
    drafts_t d = drafts_ready(N);
    expect_order(&d, (const uint64_t[]){0, 1, 2, 3, 4});
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_attrib_t attribs = {0};
        must(ucc_team_get_attribs(d.teams[i], &attribs), "ucc_team_get_attribs");
        cr_expect(attribs.ep == i && attribs.ep_range == UCC_COLLECTIVE_EP_RANGE_CONTIG);
    }
    drafts_close(&d);
}

Test(drafts_later, endpoints_that_give_none_are_numbered_by_their_places) {
    drafts_t d = drafts_open(N);
    ucc_team_params_t params[N] = {0};
    drafts_form(&d, params);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t ep;
        must(ucc_team_get_my_ep(d.teams[i], &ep), "ucc_team_get_my_ep");
        cr_expect_eq(ep, N - 1 - i);
    }
    expect_order(&d, (const uint64_t[]){0, 1, 2, 3, 4});
    drafts_close(&d);
}

/* As thread numbers would be. */
static drafts_t labelled(void) {
    drafts_t d = drafts_open(N);
    ucc_team_params_t params[N] = {
        {.ep = 70}, {.ep = 1}, {.ep = 1u << 31}, {.ep = 4}, {.ep = 1ull << 40}};
    drafts_form(&d, params);
    return d;
}

Test(drafts_later, endpoints_of_any_numbers_are_ordered_by_them) {
    drafts_t d = labelled();
    ucc_team_attrib_t attribs = {0};
    expect_order(&d, (const uint64_t[]){1, 4, 70, 1u << 31, 1ull << 40});
    must(ucc_team_get_attribs(d.teams[0], &attribs), "ucc_team_get_attribs");
    cr_expect(attribs.ep == 70 && attribs.ep_range == UCC_COLLECTIVE_EP_RANGE_NONCONTIG);
    drafts_close(&d);
}

Test(drafts_later, roots_are_endpoints_as_the_program_numbers_them) {
    drafts_t d = labelled();
    ucc_coll_op_args_t args[N] = {0};
    uint32_t value[N] = {0};
    value[3] = 12345; /* endpoint 4, whose number among the five is 1; endpoint 1 is number 0 */
    for (uint32_t i = 0; i < N; i++) {
        args[i].coll_type = UCC_BCAST;
        args[i].ext_args.buffer_info.src_buffer = &value[i];
        args[i].ext_args.buffer_info.size = sizeof(value[i]);
        args[i].ext_args.root = 4;
    }
    drafts_run(&d, args);
    for (uint32_t i = 0; i < N; i++) {
        cr_expect_eq(value[i], 12345, "endpoint %u", i);
    }
    args[0].ext_args.root = 2;
    cr_expect_eq(ucc_collective_init(&args[0], &d.requests[0], d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "root") != NULL, "%s", drafts_line);
    drafts_close(&d);
}

Test(drafts_later, teams_are_made_of_endpoints_as_the_program_numbers_them) {
    drafts_t d = labelled();
    uint64_t list[] = {1ull << 40, 1, 70}, *eps = list;
    const uint32_t who[] = {4, 1, 0};
    ucc_team_h teams[3];
    ucc_status_t statuses[3];
    for (uint32_t i = 0; i < 3; i++) {
        must(ucc_create_team_from_eps(d.teams[who[i]], &eps, 3, &teams[i]), "from_eps");
    }
    drafts_settle(3, teams, statuses);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t ep;
        cr_assert_eq(statuses[i], UCC_OK);
        must(ucc_team_get_my_ep(teams[i], &ep), "ucc_team_get_my_ep");
        cr_expect_eq(ep, i);
        cr_expect_eq(ucc_team_destroy(teams[i]), UCC_OK);
    }
    list[1] = 0; /* nobody's label */
    cr_expect_eq(ucc_create_team_from_eps(d.teams[4], &eps, 3, &teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "ep[1] is 0") != NULL, "%s", drafts_line);
    cr_expect_eq(ucc_create_team_from_eps(d.teams[4], &eps, N + 1, &teams[0]),
                 UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "num_eps") != NULL, "%s", drafts_line);
    cr_expect_eq(ucc_create_team_from_eps(d.teams[4], NULL, 1, &teams[0]), UCC_ERR_INVALID_PARAM);
    drafts_close(&d);
}

/* The second of three members runs out of memory after so many allocations. True if it did not. */
static bool teams_of_eps_with_memory_for(drafts_t *d, long allocations) {
    uint64_t list[] = {1ull << 40, 1, 70}, *eps = list;
    ucc_team_h teams[3];
    ucc_status_t statuses[3];
    uint32_t n = 0;
    must(ucc_create_team_from_eps(d->teams[4], &eps, 3, &teams[n++]), "from_eps");
    hd_alloc_fail_after(allocations);
    ucc_status_t status = ucc_create_team_from_eps(d->teams[1], &eps, 3, &teams[n]);
    hd_alloc_fail_after(-1);
    cr_assert(status == UCC_OK || status == UCC_ERR_NO_MEMORY);
    n += status == UCC_OK;
    n += ucc_create_team_from_eps(d->teams[0], &eps, 3, &teams[n]) == UCC_OK;
    drafts_settle(n, teams, statuses);
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_eq(statuses[i], status, "%ld: %d", allocations, (int)statuses[i]);
        cr_expect_eq(ucc_team_destroy(teams[i]), UCC_OK);
    }
    return status == UCC_OK;
}

Test(drafts_later, nobody_waits_for_a_listed_endpoint_that_ran_out_of_memory) {
    drafts_t d = labelled();
    long allocations = 0;
    while (!teams_of_eps_with_memory_for(&d, allocations)) {
        allocations++;
    }
    cr_expect_gt(allocations, 2);
    drafts_close(&d);
}

Test(drafts_later, an_endpoint_that_is_given_twice_fails_the_team) {
    drafts_t d = drafts_open(3);
    ucc_team_params_t params[3] = {{.ep = 5}, {.ep = 6}, {.ep = 5}};
    ucc_status_t statuses[3];
    drafts_post_teams(&d, params);
    drafts_settle(3, d.teams, statuses);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(statuses[i], UCC_ERR_INVALID_PARAM, "endpoint %u: %d", i, (int)statuses[i]);
    }
    cr_expect(strstr(drafts_line, "ep 5 is taken twice") != NULL, "%s", drafts_line);
    drafts_close(&d);
}

/* Returns what another participant gave in every place. */
static int wrong_allgather(void *src, void *recv, size_t size, void *info, void **request) {
    (void)info;
    memset(recv, 0, 2 * size);
    *request = src;
    return 0;
}

static ucc_status_t done(void *request) {
    (void)request;
    return UCC_OK;
}

Test(drafts_later, an_allgather_that_loses_the_callers_part_is_found_out) {
    drafts_t d = drafts_open(1);
    ucc_team_params_t params = {
        .oob_collective = {
            .allgather = wrong_allgather, .reg_test = done, .req_free = done, .participants = 2}};
    ucc_context_params_t context = {.mask = UCC_COLL_OOB, .oob_func = params.oob_collective};
    ucc_context_h another = NULL;
    must(ucc_team_create_post(d.contexts, 1, params, &d.teams[0]), "ucc_team_create_post");
    cr_expect_eq(ucc_team_create_test(d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "oob.allgather") != NULL, "%s", drafts_line);
    cr_expect_eq(ucc_context_create(d.lib, &context, NULL, &another), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "oob allgather") != NULL, "%s", drafts_line);
    drafts_close(&d);
}

static int failing_allgather(void *src, void *recv, size_t size, void *info, void **request) {
    (void)src, (void)recv, (void)size, (void)info, (void)request;
    return UCC_ERR_IO_ERROR;
}

Test(drafts_later, an_allgather_that_fails_fails_the_team) {
    drafts_t d = drafts_open(1);
    ucc_team_params_t params = {
        .oob_collective = {
            .allgather = failing_allgather, .reg_test = done, .req_free = done, .participants = 2}};
    cr_expect_eq(ucc_team_create_post(d.contexts, 1, params, &d.teams[0]), UCC_ERR_IO_ERROR);
    params.oob_collective.reg_test = NULL;
    cr_expect_eq(ucc_team_create_post(d.contexts, 1, params, &d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "oob") != NULL, "%s", drafts_line);
    d.teams[0] = NULL;
    drafts_close(&d);
}

Test(drafts_later, without_any_allgather_nobody_can_tell_who_takes_part) {
    drafts_t d = drafts_open(1);
    ucc_team_params_t params = {0};
    cr_expect_eq(ucc_team_create_post(d.contexts, 1, params, &d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "oob") != NULL, "%s", drafts_line);
    cr_expect_eq(drafts_lines, 1);
    d.teams[0] = NULL;
    drafts_close(&d);
}

typedef struct opener {
    drafts_t *d;
    uint32_t place;
    pthread_t thread;
} opener_t;

static void *open_context(void *arg) {
    opener_t *o = arg;
    ucc_context_params_t params = {.mask = UCC_CONTEXT_TYPE | UCC_COLL_OOB,
                                   .ctx_type = UCC_CONTEXT_SHARED,
                                   .oob_func = drafts_oob(o->d, o->place)};
    must(ucc_context_create(o->d->lib, &params, NULL, &o->d->contexts[o->place]), "context");
    return NULL;
}

Test(drafts_later, a_team_without_an_allgather_is_made_of_all_contexts_that_had_one) {
    drafts_t d = {.n = N, .lib = drafts_lib(UCC_LIB_THREAD_MULTIPLE), .board = oob_board_create(N)};
    opener_t openers[N];
    ucc_status_t statuses[N];
    hd_log_capture(drafts_keep, NULL);
    for (uint32_t i = 0; i < N; i++) {
        openers[i] = (opener_t){.d = &d, .place = i};
        cr_assert_eq(pthread_create(&openers[i].thread, NULL, open_context, &openers[i]), 0);
    }
    for (uint32_t i = 0; i < N; i++) {
        pthread_join(openers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_params_t params = {.ep = i % 2 ? i : 0}; /* given, or not */
        must(ucc_team_create_post(&d.contexts[i], 1, params, &d.teams[i]), "create_post");
    }
    drafts_settle(N, d.teams, statuses);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(statuses[i], UCC_OK);
    }
    expect_order(&d, (const uint64_t[]){0, 1, 2, 3, 4});
    ucc_team_params_t params = {.ep = 3};
    ucc_team_h team;
    cr_expect_eq(ucc_team_create_post(&d.contexts[1], 1, params, &team), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "ep is 3") != NULL, "%s", drafts_line);
    drafts_close(&d);
}

Test(drafts_later, attributes_are_what_was_asked_for) {
    static _Alignas(128) char memory[2][256];
    drafts_t d = drafts_open(2);
    ucc_team_params_t params[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        params[i].ordering = UCC_COLLECTIVE_POST_UNORDERED;
        params[i].outstanding_colls = 7;
        params[i].ep = 1 - i;
        params[i].sync_type = UCC_SYNC_COLLECTIVES;
        params[i].mem_params =
            (ucc_mem_map_params_t){.address = memory[i],
                                   .len = sizeof(memory[i]),
                                   .hints = REMOTE_COUNTERS,
                                   .constraints = UCC_MEM_SYMMETRIC | UCC_MEM_ALIGN64};
    }
    drafts_form(&d, params);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_attrib_t a = {0};
        must(ucc_team_get_attribs(d.teams[i], &a), "ucc_team_get_attribs");
        cr_expect(a.ordering == UCC_COLLECTIVE_POST_UNORDERED && a.outstanding_colls == 7 &&
                  a.ep == 1 - i && a.sync_type == UCC_SYNC_COLLECTIVES);
        cr_expect(a.mem_params.address == memory[i] && a.mem_params.len == sizeof(memory[i]) &&
                  a.mem_params.hints == REMOTE_COUNTERS &&
                  a.mem_params.constraints == (UCC_MEM_SYMMETRIC | UCC_MEM_ALIGN64));
    }
    ucc_team_h team;
    params[0].mem_params.address = memory[0] + 32;
    cr_expect_eq(ucc_team_create_post(d.contexts, 1, params[0], &team), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "memory.address") != NULL, "%s", drafts_line);
    cr_expect_eq(ucc_team_get_attribs(d.teams[0], NULL), UCC_ERR_INVALID_PARAM);
    drafts_close(&d);
}

Test(drafts_later, whoever_is_included_is_a_truth_value) {
    drafts_t d = drafts_ready(2);
    ucc_team_h teams[2];
    ucc_status_t statuses[2];
    const uint64_t flags = 1ull << 40; /* of which 32 bits would keep nothing */
    for (uint32_t i = 0; i < 2; i++) {
        must(ucc_team_create_from_parent(i, flags, d.teams[i], &teams[i]), "from_parent");
    }
    drafts_settle(2, teams, statuses);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t size;
        must(ucc_team_get_size(teams[i], &size), "ucc_team_get_size");
        cr_expect_eq(size, 2);
        cr_expect_eq(ucc_team_destroy(teams[i]), UCC_OK);
    }
    drafts_close(&d);
}

Test(drafts_later, whoever_is_not_included_may_forget_the_handle) {
    drafts_t d = drafts_ready(3);
    ucc_team_h teams[3];
    ucc_status_t statuses[3];
    uint32_t size;
    for (uint32_t i = 0; i < 3; i++) {
        must(ucc_team_create_from_parent(i, i == 1, d.teams[i], &teams[i]), "from_parent");
    }
    drafts_settle(3, teams, statuses);
    cr_expect(statuses[0] == UCC_OK && statuses[1] == UCC_OK && statuses[2] == UCC_OK);
    must(ucc_team_get_size(teams[1], &size), "ucc_team_get_size");
    cr_expect_eq(size, 1);
    cr_expect_eq(ucc_team_get_size(teams[0], &size), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_team_destroy(teams[0]), UCC_OK);
    cr_expect_eq(ucc_team_destroy(teams[1]), UCC_OK);
    drafts_close(&d); /* teams[2] holds no context */
}

/* --- collectives ------------------------------------------------------------------------------ */

/* What endpoint `from` has for endpoint `to`, element k. */
static uint32_t element(uint32_t from, uint32_t to, uint32_t k) {
    return 10000 * from + 100 * to + k + 1;
}

enum { K = 3, ROOT = 2, ROOM = N * (K + N) };

typedef struct buffers {
    uint32_t src[N][ROOM], dst[N][ROOM];
} buffers_t;

static void reset(buffers_t *b) {
    memset(b, 0xff, sizeof(*b));
}

static ucc_coll_op_args_t with(ucc_coll_type_t type, void *src, void *dst) {
    return (ucc_coll_op_args_t){
        .mask = UINT64_MAX, /* means nothing */
        .coll_type = type,
        .ext_args = {.buffer_info = {.src_buffer = src,
                                     .dst_buffer = dst,
                                     .size = K * sizeof(uint32_t),
                                     .src_datatype = UCC_DT_UINT32,
                                     .dst_datatype = UCC_DT_UINT32},
                     .reduction_info = {.dt = UCC_DT_UINT32, .op = UCC_OP_SUM, .count = K},
                     .tag = 99,
                     .root = ROOT}};
}

Test(drafts_later, collectives_without_data_look_at_type_and_root_only) {
    drafts_t d = drafts_ready(N);
    static const ucc_coll_type_t types[] = {UCC_BARRIER, UCC_FANIN, UCC_FANOUT};
    for (int t = 0; t < 3; t++) {
        ucc_coll_op_args_t args[N];
        memset(args, 0xab, sizeof(args));
        for (uint32_t i = 0; i < N; i++) {
            args[i].coll_type = types[t];
            args[i].ext_args.root = ROOT;
        }
        drafts_run(&d, args);
    }
    drafts_close(&d);
}

static void run_rooted_sends(bool at_src) {
    static const ucc_coll_type_t types[] = {UCC_BCAST, UCC_MCAST};
    drafts_t d = drafts_ready(N);
    buffers_t *b = malloc(sizeof(*b));
    for (int t = 0; t < 2; t++) {
        ucc_coll_op_args_t args[N];
        reset(b);
        for (uint32_t i = 0; i < N; i++) {
            args[i] = with(types[t], b->src[i], at_src ? NULL : b->dst[i]);
            for (uint32_t k = 0; k < K; k++) {
                b->src[i][k] = element(i, 0, k);
            }
        }
        drafts_run(&d, args);
        for (uint32_t i = 0; i < N; i++) {
            for (uint32_t k = 0; k < K; k++) {
                uint32_t got = at_src || i == ROOT ? b->src[i][k] : b->dst[i][k];
                cr_expect_eq(got, element(ROOT, 0, k), "endpoint %u", i);
            }
            cr_expect_eq(b->dst[ROOT][0], UINT32_MAX, "the root's result is not written");
        }
    }
    free(b);
    drafts_close(&d);
}

Test(drafts_later, bcast_and_mcast_write_the_result_buffer) {
    run_rooted_sends(false);
}

Test(drafts_later, bcast_and_mcast_take_one_buffer_for_both) {
    run_rooted_sends(true);
}

Test(drafts_later, reductions_go_by_reduction_info) {
    static const struct {
        ucc_reduction_op_t op;
        uint32_t expected;
    } cases[] = {{UCC_OP_MAX, 16}, {UCC_OP_MIN, 1},  {UCC_OP_SUM, 31}, {UCC_OP_PROD, 1024},
                 {UCC_OP_AND, 0},  {UCC_OP_OR, 31},  {UCC_OP_XOR, 31}, {UCC_OP_LAND, 1},
                 {UCC_OP_LOR, 1},  {UCC_OP_LXOR, 1}, {UCC_OP_BAND, 0}, {UCC_OP_BOR, 31},
                 {UCC_OP_BXOR, 31}};
    drafts_t d = drafts_ready(N);
    buffers_t *b = malloc(sizeof(*b));
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (int all = 0; all < 2; all++) {
            ucc_coll_op_args_t args[N];
            reset(b);
            for (uint32_t i = 0; i < N; i++) {
                args[i] = with(all ? UCC_ALLREDUCE : UCC_REDUCE, b->src[i], b->dst[i]);
                args[i].ext_args.reduction_info.op = cases[c].op;
                b->src[i][0] = b->src[i][K - 1] = 1u << i;
            }
            drafts_run(&d, args);
            for (uint32_t i = 0; i < N; i++) {
                uint32_t expected = all || i == ROOT ? cases[c].expected : UINT32_MAX;
                cr_expect_eq(b->dst[i][0], expected, "case %zu endpoint %u: %u", c, i,
                             b->dst[i][0]);
                cr_expect_eq(b->dst[i][K - 1], expected);
                cr_expect_eq(b->dst[i][K], UINT32_MAX);
            }
        }
    }
    free(b);
    drafts_close(&d);
}

Test(drafts_later, every_datatype_of_the_draft_is_reduced) {
    drafts_t d = drafts_ready(2);
    static const size_t bytes[] = {1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 2, 4, 8};
    for (ucc_datatype_t dt = UCC_DT_INT8; dt < UCC_DT_LAST_PREDEFINED; dt++) {
        _Alignas(16) unsigned char zero[2][16] = {{0}}, result[2][17];
        ucc_coll_op_args_t args[2];
        memset(result, 0xff, sizeof(result));
        for (uint32_t i = 0; i < 2; i++) {
            args[i] = with(UCC_ALLREDUCE, zero[i], result[i]);
            args[i].ext_args.reduction_info = (ucc_reduction_info_t){dt, UCC_OP_SUM, 1};
        }
        drafts_run(&d, args);
        for (size_t k = 0; k <= bytes[dt]; k++) {
            cr_expect_eq(result[1][k], k < bytes[dt] ? 0 : 0xff, "datatype %d byte %zu", (int)dt,
                         k);
        }
    }
    drafts_close(&d);
}

Test(drafts_later, a_reduction_of_no_elements_is_over_at_once) {
    drafts_t d = drafts_ready(2);
    ucc_coll_op_args_t args = {.coll_type = UCC_ALLREDUCE};
    args.ext_args.reduction_info.op = UCC_OP_SUM;
    must(ucc_collective_init_and_post(&args, &d.requests[0], d.teams[0]), "init_and_post");
    cr_expect_eq(ucc_collective_test(d.requests[0]), UCC_OK);
    must(ucc_collective_finalize(d.requests[0]), "ucc_collective_finalize");
    drafts_close(&d);
}

Test(drafts_later, a_request_whose_post_failed_is_not_handed_out) {
    drafts_t d = drafts_ready(2);
    uint32_t src[2] = {0}, dst[2];
    for (uint32_t i = 0; i < 2; i++) { /* the counts differ, and that is the end of the team */
        ucc_coll_op_args_t args = with(UCC_ALLREDUCE, src, dst);
        args.ext_args.reduction_info = (ucc_reduction_info_t){UCC_DT_INT32, UCC_OP_SUM, 1 + i};
        must(ucc_collective_init_and_post(&args, &d.requests[i], d.teams[i]), "init_and_post");
    }
    deadline_t deadline = deadline_start("collectives that do not match");
    for (uint32_t i = 0; i < 2; i++) {
        while (ucc_collective_test(d.requests[i]) == UCC_INPROGRESS) {
            ucc_context_progress(d.contexts[0]);
            ucc_context_progress(d.contexts[1]);
            deadline_poll(&deadline);
        }
        must(ucc_collective_finalize(d.requests[i]), "ucc_collective_finalize");
    }
    ucc_coll_op_args_t args = {.coll_type = UCC_BARRIER};
    cr_expect_eq(ucc_collective_init_and_post(&args, &d.requests[0], d.teams[0]),
                 UCC_ERR_INVALID_PARAM);
    cr_expect_null(d.requests[0]);
    drafts_close(&d);
}

Test(drafts_later, pairs_are_reduced_by_maxloc_and_minloc) {
    drafts_t d = drafts_ready(3);
    heddle_float64_int32_t pair[3] = {{1.5, 0}, {7.5, 1}, {-2.0, 2}}, result[3];
    for (int least = 0; least < 2; least++) {
        ucc_coll_op_args_t args[3];
        for (uint32_t i = 0; i < 3; i++) {
            args[i] = with(UCC_ALLREDUCE, &pair[i], &result[i]);
            args[i].ext_args.reduction_info.dt = (ucc_datatype_t)HEDDLE_DT_FLOAT64_INT32;
            args[i].ext_args.reduction_info.op = least ? UCC_OP_MINLOC : UCC_OP_MAXLOC;
            args[i].ext_args.reduction_info.count = 1;
        }
        drafts_run(&d, args);
        cr_expect(result[2].index == (least ? 2 : 1));
    }
    drafts_close(&d);
}

/* One block of K elements from each to each; both buffers hold N of them. */
static void run_blocks(ucc_coll_type_t type, uint64_t flags) {
    drafts_t d = drafts_ready(N);
    buffers_t *b = malloc(sizeof(*b));
    ucc_coll_op_args_t args[N];
    reset(b);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t *own = flags ? &b->dst[i][i * K] : b->src[i];
        args[i] = with(type, b->src[i], b->dst[i]);
        args[i].ext_args.buffer_info.flags = flags;
        for (uint32_t j = 0; j < N; j++) {
            for (uint32_t k = 0; k < K; k++) {
                if (type == UCC_ALLTOALL || type == UCC_SCATTER) {
                    b->src[i][j * K + k] = element(i, j, k);
                } else if (j == 0) {
                    own[k] = element(i, 0, k);
                }
            }
        }
    }
    drafts_run(&d, args);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            for (uint32_t k = 0; k < K; k++) {
                uint32_t got = b->dst[i][j * K + k];
                uint32_t expected = type == UCC_ALLTOALL  ? element(j, i, k)
                                    : type == UCC_SCATTER ? element(ROOT, i, k)
                                                          : element(j, 0, k);
                if (type == UCC_SCATTER ? j == 0 : type != UCC_GATHER || i == ROOT) {
                    cr_expect_eq(got, expected, "endpoint %u block %u: %u", i, j, got);
                } else {
                    cr_expect(got == UINT32_MAX || (flags && i == j));
                }
            }
        }
    }
    free(b);
    drafts_close(&d);
}

Test(drafts_later, size_is_one_block_of_allgather) {
    run_blocks(UCC_ALLGATHER, 0);
}

Test(drafts_later, size_is_one_block_of_gather) {
    run_blocks(UCC_GATHER, 0);
}

Test(drafts_later, size_is_one_block_of_scatter) {
    run_blocks(UCC_SCATTER, 0);
}

Test(drafts_later, size_is_one_block_of_alltoall) {
    run_blocks(UCC_ALLTOALL, 0);
}

Test(drafts_later, an_allgather_may_be_in_place) {
    run_blocks(UCC_ALLGATHER, UCC_COLL_ARGS_FLAG_IN_PLACE);
}

/* Endpoint i has i + 1 elements for, or from, everybody; one element lies between blocks. */
static void run_vectors(ucc_coll_type_t type, bool with_displacements) {
    drafts_t d = drafts_ready(N);
    buffers_t *b = malloc(sizeof(*b));
    ucc_coll_op_args_t args[N];
    uint32_t counts[N], same[N][N], displacements[N], same_displacements[N][N];
    reset(b);
    for (uint32_t i = 0, at = 0; i < N; i++) {
        counts[i] = i + 1;
        displacements[i] = at;
        at += counts[i] + with_displacements;
        for (uint32_t j = 0; j < N; j++) {
            same[i][j] = i + 1;
            same_displacements[i][j] = j * (i + 1 + with_displacements);
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_buffer_info_t *info = &args[i].ext_args.buffer_info;
        args[i] = with(type, b->src[i], b->dst[i]);
        info->size = 17; /* not read */
        if (type == UCC_SCATTER || type == UCC_ALLTOALL) {
            info->scounts = type == UCC_SCATTER ? counts : same[i];
            info->src_displacements = !with_displacements   ? NULL
                                      : type == UCC_SCATTER ? displacements
                                                            : same_displacements[i];
        }
        if (type != UCC_SCATTER) {
            info->dst_counts = counts;
            info->dst_displacements = with_displacements ? displacements : NULL;
        }
        for (uint32_t j = 0; j < N; j++) {
            uint32_t n = type == UCC_SCATTER ? counts[j] : counts[i];
            uint32_t at = type == UCC_SCATTER    ? displacements[j]
                          : type == UCC_ALLTOALL ? same_displacements[i][j]
                                                 : 0;
            for (uint32_t k = 0; k < n; k++) {
                b->src[i][at + k] =
                    element(i, type == UCC_SCATTER || type == UCC_ALLTOALL ? j : 0, k);
            }
        }
    }
    drafts_run(&d, args);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            if (type == UCC_GATHER && i != ROOT) {
                continue;
            }
            uint32_t from = type == UCC_SCATTER ? ROOT : j;
            uint32_t to = type == UCC_SCATTER || type == UCC_ALLTOALL ? i : 0;
            uint32_t at = type == UCC_SCATTER ? 0 : displacements[j];
            for (uint32_t k = 0; k < counts[type == UCC_SCATTER ? i : j]; k++) {
                cr_expect_eq(b->dst[i][at + k], element(from, to, k), "endpoint %u block %u: %u", i,
                             j, b->dst[i][at + k]);
            }
        }
    }
    free(b);
    drafts_close(&d);
}

Test(drafts_later, blocks_of_an_allgather_may_differ) {
    run_vectors(UCC_ALLGATHER, false);
    run_vectors(UCC_ALLGATHER, true);
}

Test(drafts_later, blocks_of_a_gather_may_differ) {
    run_vectors(UCC_GATHER, false);
    run_vectors(UCC_GATHER, true);
}

Test(drafts_later, blocks_of_a_scatter_may_differ) {
    run_vectors(UCC_SCATTER, false);
    run_vectors(UCC_SCATTER, true);
}

Test(drafts_later, blocks_of_an_alltoall_may_differ) {
    run_vectors(UCC_ALLTOALL, false);
    run_vectors(UCC_ALLTOALL, true);
}

Test(drafts_later, a_persistent_request_is_posted_again_and_again) {
    drafts_t d = drafts_ready(N);
    uint32_t value[N], sum[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_op_args_t args = with(UCC_ALLREDUCE, &value[i], &sum[i]);
        args.ext_args.reduction_info.count = 1;
        args.ext_args.buffer_info.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        must(ucc_collective_init(&args, &d.requests[i], d.teams[i]), "ucc_collective_init");
    }
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < N; i++) {
            value[i] = round + i;
        }
        for (uint32_t i = 0; i < N; i++) {
            must(ucc_collective_post(d.requests[i]), "ucc_collective_post");
        }
        drafts_end(&d);
        for (uint32_t i = 0; i < N; i++) {
            cr_expect_eq(sum[i], N * round + 10);
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        must(ucc_collective_finalize(d.requests[i]), "ucc_collective_finalize");
    }
    drafts_close(&d);
}

Test(drafts_later, on_unordered_teams_tags_of_64_bits_find_each_other) {
    enum { TAGS = 3 };
    static const ucc_coll_tag_t tags[TAGS] = {0, 1, 1ull << 32}; /* all but one alike in 16 bits */
    drafts_t d = drafts_open(2);
    ucc_team_params_t params[2] = {{.ep = 0, .ordering = UCC_COLLECTIVE_POST_UNORDERED},
                                   {.ep = 1, .ordering = UCC_COLLECTIVE_POST_UNORDERED}};
    uint32_t value[2][TAGS], sum[2][TAGS];
    ucc_coll_req_h requests[2][TAGS];
    drafts_form(&d, params);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t t = 0; t < TAGS; t++) {
            uint32_t which = i ? TAGS - 1 - t : t;
            ucc_coll_op_args_t args = with(UCC_ALLREDUCE, &value[i][which], &sum[i][which]);
            args.ext_args.reduction_info.count = 1;
            args.ext_args.tag = tags[which];
            value[i][which] = 100 * which + i;
            must(ucc_collective_init_and_post(&args, &requests[i][which], d.teams[i]), "post");
        }
    }
    for (uint32_t t = 0; t < TAGS; t++) {
        d.requests[0] = requests[0][t];
        d.requests[1] = requests[1][t];
        drafts_end(&d);
        cr_expect_eq(sum[0][t], 200 * t + 1);
        cr_expect_eq(sum[1][t], 200 * t + 1);
        must(ucc_collective_finalize(requests[0][t]), "ucc_collective_finalize");
        must(ucc_collective_finalize(requests[1][t]), "ucc_collective_finalize");
    }
    drafts_close(&d);
}

/* --- mistakes --------------------------------------------------------------------------------- */

typedef struct mistake {
    const char *field;
    void (*make)(ucc_coll_op_args_t *args);
} mistake_t;

static void no_type(ucc_coll_op_args_t *args) {
    args->coll_type = (ucc_coll_type_t)0;
}
static void two_types(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_BCAST | UCC_REDUCE;
}
static void last_type(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_COLL_LAST;
}
static void odd_size(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_ALLGATHER;
    args->ext_args.buffer_info.size = 10;
}
static void huge_size(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_ALLGATHER;
    args->ext_args.buffer_info.size = SIZE_MAX / 2 + 1;
}
static void source_type(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_ALLTOALL;
    args->ext_args.buffer_info.src_datatype = UCC_DT_UNSUPPORTED;
}
static void result_type(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_GATHER;
    args->ext_args.buffer_info.dst_datatype = (ucc_datatype_t)65; /* 1.x: a program's own */
}
static void no_operation(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.op = (ucc_reduction_op_t)0;
}
static void two_operations(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.op = UCC_OP_SUM | UCC_OP_MAX;
}
static void last_operation(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.op = UCC_OP_LAST_PREDEFINED;
}
static void reduced_type(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.dt = UCC_DT_LAST_PREDEFINED;
}
static void value_of_1x(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.dt = (ucc_datatype_t)UCC_PREDEFINED_DT(2);
}
static void no_base(ucc_coll_op_args_t *args) {
    static uint32_t counts[2] = {0, 1}, displacements[2];
    args->coll_type = UCC_GATHER;
    args->ext_args.buffer_info.dst_buffer = NULL;
    args->ext_args.buffer_info.dst_counts = counts;
    args->ext_args.buffer_info.dst_displacements = displacements;
}
static void count_as_size(ucc_coll_op_args_t *args) {
    args->ext_args.reduction_info.count = 0;
}
static void flag_without_field(ucc_coll_op_args_t *args) {
    args->ext_args.buffer_info.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
}
static void root_outside(ucc_coll_op_args_t *args) {
    args->coll_type = UCC_FANIN;
    args->ext_args.root = 3;
}
static void no_counts(ucc_coll_op_args_t *args) {
    static uint32_t counts[2];
    args->coll_type = UCC_ALLTOALL;
    args->ext_args.buffer_info.scounts = counts;
}

Test(drafts_later, mistakes_are_told_in_one_line_that_names_the_field) {
    static const mistake_t mistakes[] = {{"coll_type", no_type},
                                         {"coll_type", two_types},
                                         {"coll_type", last_type},
                                         {"buffer_info.size", odd_size},
                                         {"buffer_info.size", huge_size},
                                         {"buffer_info.src_datatype", source_type},
                                         {"buffer_info.dst_datatype", result_type},
                                         {"reduction_info.op", no_operation},
                                         {"reduction_info.op", two_operations},
                                         {"reduction_info.op", last_operation},
                                         {"reduction_info.dt", reduced_type},
                                         {"reduction_info.dt", value_of_1x},
                                         {"reduction_info.count", count_as_size},
                                         {"buffer_info.dst_buffer", no_base},
                                         {"buffer_info.flags", flag_without_field},
                                         {"root", root_outside},
                                         {"counts", no_counts}};
    drafts_t d = drafts_ready(2);
    uint32_t src[8], dst[8];
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        ucc_coll_op_args_t args = with(UCC_ALLREDUCE, src, dst);
        ucc_coll_req_h request = NULL;
        args.ext_args.root = 0;
        mistakes[i].make(&args);
        drafts_lines = 0;
        cr_expect_eq(ucc_collective_init(&args, &request, d.teams[0]), UCC_ERR_INVALID_PARAM,
                     "%s, number %zu", mistakes[i].field, i);
        cr_expect_eq(drafts_lines, 1, "%s, number %zu: %d lines", mistakes[i].field, i,
                     drafts_lines);
        cr_expect(strstr(drafts_line, mistakes[i].field) != NULL, "number %zu: %s", i, drafts_line);
        cr_expect_null(request);
    }
    drafts_close(&d);
}

Test(drafts_later, null_pointers_are_refused) {
    drafts_t d = drafts_ready(1);
    ucc_coll_op_args_t args = {.coll_type = UCC_BARRIER};
    ucc_coll_req_h request;
    ucc_lib_h lib;
    ucc_context_h context;
    ucc_team_params_t params = {0};
    ucc_team_h team;
    cr_expect_eq(ucc_init(NULL, NULL, &lib), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_lib_get_attribs(d.lib, NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_lib_config_read("DEMO", NULL, NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_context_create(d.lib, NULL, NULL, &context), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_context_get_attribs(d.contexts[0], NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_team_create_post(NULL, 1, params, &team), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_team_create_post(d.contexts, 0, params, &team), UCC_ERR_INVALID_PARAM);
    context = NULL;
    drafts_lines = 0;
    cr_expect_eq(ucc_team_create_post(&context, 1, params, &team), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(drafts_lines, 1);
    cr_expect_eq(ucc_team_get_attribs(NULL, NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_collective_init(NULL, &request, d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_collective_init(&args, NULL, d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_collective_init_and_post(&args, &request, NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(ucc_team_destroy(NULL), UCC_ERR_INVALID_PARAM);
    drafts_close(&d);
}
