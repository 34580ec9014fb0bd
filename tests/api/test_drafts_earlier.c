/* test_drafts_earlier.c: what only the earlier draft of UCC has, or spells otherwise; see
 * test_drafts_later.c for the rest.
 */
#define HEDDLE_DRAFT 1
#include "drafts_world.h"

static void quiet(void) {
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(drafts_earlier, .timeout = 120, .init = quiet);

_Static_assert(UCC_SUCCESS == 0 && UCS_BIT(5) == 32, "values");
_Static_assert(UCC_OP_MAX == 0 && UCC_OP_SUM == 2 && UCC_OP_MINLOC == 14, "operations are numbers");
_Static_assert(UCC_OP_LAST_PREDEFINED == 15 && UCC_OP_UNSUPPORTED == 16, "ends");
_Static_assert(UCC_COLL_OP_SUM == UCC_OP_SUM && UCC_COLL_OP_MINLOC == UCC_OP_MINLOC, "both lists");
_Static_assert(UCC_DT_INT8 == 0 && UCC_DT_FLOAT64 == 12 && UCC_DT_UNSUPPORTED == 14, "datatypes");
_Static_assert(UCC_COLL_TYPES == UCS_BIT(3) && UCC_REDUCTION_TYPES == UCS_BIT(4) &&
                   UCC_SYNC_TYPE == UCS_BIT(5),
               "a library's mask");
_Static_assert(UCC_COLL_SYNC_TYPE == UCS_BIT(2) && UCC_COLL_OOB == UCS_BIT(3), "a context's");
_Static_assert(LOCAL == 0 && GLOBAL == 1, "types of error");

#define IS(call, ...)                                                                              \
    _Static_assert(_Generic(&call, __VA_ARGS__ : 1, default : 0), "type of " #call)
IS(ucc_init, ucc_status_t (*)(const ucc_lib_params_t *, const ucc_lib_config_t *, ucc_lib_h *));
IS(ucc_get_team_attribs, ucc_status_t (*)(ucc_team_h, ucc_team_attrib_t *));
IS(ucc_get_team_size, ucc_status_t (*)(ucc_team_h, uint32_t *));
IS(ucc_get_team_my_ep, ucc_status_t (*)(ucc_team_h, uint64_t *));
IS(ucc_get_team_all_eps, ucc_status_t (*)(ucc_team_h, uint64_t **, uint64_t *));
IS(ucc_team_create_post,
   ucc_status_t (*)(ucc_context_h *, uint32_t, ucc_team_params_t, ucc_team_handle_h *));
IS(ucc_collective_init, ucc_status_t (*)(ucc_coll_op_args_t *, ucc_coll_req_h *, ucc_team_h));

Test(drafts_earlier, a_library_and_a_context_tell_what_they_were_asked_for) {
    ucc_lib_params_t params = {.mask = UCC_THREAD_MODE | UCC_CONTEXT_PARAMS | UCC_TEAM_PARAMS |
                                       UCC_COLL_TYPES | UCC_REDUCTION_TYPES | UCC_SYNC_TYPE,
                               .thread_mode = UCC_LIB_THREAD_SINGLE,
                               .requested_coll_types = UCC_BROADCAST | UCC_MULTICAST,
                               .requested_reduction_op_types =
                                   (ucc_reduction_op_t)(UCS_BIT(UCC_OP_SUM)),
                               .requested_sync_type = UCC_SYNC_COLLECTIVES};
    ucc_lib_h lib;
    ucc_lib_attribs_t attribs = {0};
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    must(ucc_lib_get_attribs(lib, &attribs), "ucc_lib_get_attribs");
    cr_expect_eq(attribs.provided_coll_types, UCC_BCAST | UCC_MCAST);
    cr_expect_eq((int)attribs.provided_reduction_types, 1 << UCC_OP_SUM);
    cr_expect_eq(attribs.provided_sync_type, UCC_SYNC_COLLECTIVES);

    ucc_context_params_t wanted = {.mask = UCC_CONTEXT_TYPE | UCC_COLL_USAGE_TYPE,
                                   .ctx_type = UCC_CONTEXT_SHARED};
    ucc_context_attrib_t provided = {0};
    ucc_context_h context;
    memset(&wanted.oob_func, 0xee, sizeof(wanted.oob_func)); /* not given */
    must(ucc_context_create(lib, &wanted, NULL, &context), "ucc_context_create");
    must(ucc_context_get_attribs(context, &provided), "ucc_context_get_attribs");
    cr_expect_eq(provided.provided_ctx_type, UCC_CONTEXT_SHARED);
    cr_expect_eq(provided.provided_sync_type, UCC_SYNC_COLLECTIVES);
    must(ucc_context_destroy(context), "ucc_context_destroy");
    must(ucc_finalize(lib), "ucc_finalize");
}

Test(drafts_earlier, a_team_tells_what_it_was_asked_for) {
    static char memory[2][64];
    drafts_t d = drafts_open(2);
    ucc_team_params_t params[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        params[i].thread_model = i ? UCC_TEAM_THREAD_MULTIPLE : UCC_TEAM_THREAD_SINGLE;
        params[i].ordering = UCC_COLLECTIVE_POST_UNORDERED;
        params[i].outstanding_colls = 3;
        params[i].ep = i;
        params[i].mem_params.address = memory[i];
        params[i].mem_params.len = sizeof(memory[i]);
        params[i].mem_params.hints = REMOTE_ATOMICS;
        params[i].mem_params.constraints = PERSISTENT;
    }
    drafts_form(&d, params);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_attrib_t a = {0};
        must(ucc_get_team_attribs(d.teams[i], &a), "ucc_get_team_attribs");
        cr_expect_eq(a.prov_thread_model, params[i].thread_model);
        cr_expect(a.prov_ordering == UCC_COLLECTIVE_POST_UNORDERED &&
                  a.prov_outstanding_colls == 3 && a.prov_ep == i &&
                  a.prov_sync_type == UCC_NO_SYNC_COLLECTIVES);
        cr_expect(a.prov_oob_collectives.participants == 2 &&
                  a.prov_oob_collectives.allgather == params[i].oob_collectives.allgather &&
                  a.prov_oob_collectives.req_test == params[i].oob_collectives.req_test &&
                  a.prov_oob_collectives.req_free == params[i].oob_collectives.req_free &&
                  a.prov_oob_collectives.coll_info == params[i].oob_collectives.coll_info);
        cr_expect(a.prov_mem_params.address == memory[i] && a.prov_mem_params.len == 64 &&
                  a.prov_mem_params.hints == REMOTE_ATOMICS &&
                  a.prov_mem_params.constraints == PERSISTENT);
    }
    drafts_close(&d);
}

Test(drafts_earlier, the_library_bounds_the_threads_of_its_teams) {
    ucc_lib_h lib = drafts_lib(UCC_LIB_THREAD_SINGLE);
    drafts_t d = {.n = 1, .lib = lib, .board = oob_board_create(1)};
    ucc_context_params_t wanted = {.mask = 0};
    ucc_team_params_t params = {.thread_model = UCC_TEAM_THREAD_MULTIPLE};
    ucc_team_attrib_t a = {0};
    hd_log_capture(drafts_keep, NULL);
    must(ucc_context_create(lib, &wanted, NULL, &d.contexts[0]), "ucc_context_create");
    drafts_form(&d, &params);
    must(ucc_get_team_attribs(d.teams[0], &a), "ucc_get_team_attribs");
    cr_expect_eq(a.prov_thread_model, UCC_TEAM_THREAD_SINGLE);
    params.thread_model = (ucc_thread_mode_t)9;
    cr_expect_eq(ucc_team_create_post(d.contexts, 1, params, &d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "thread_mode") != NULL, "%s", drafts_line);
    drafts_close(&d);
}

Test(drafts_earlier, a_team_tells_its_size_and_its_endpoints_by_the_earlier_names) {
    drafts_t d = drafts_ready(3);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t size = 0;
        uint64_t ep = 9, n = 0, *eps = NULL;
        must(ucc_get_team_size(d.teams[i], &size), "ucc_get_team_size");
        must(ucc_get_team_my_ep(d.teams[i], &ep), "ucc_get_team_my_ep");
        must(ucc_get_team_all_eps(d.teams[i], &eps, &n), "ucc_get_team_all_eps");
        cr_expect(size == 3 && ep == i && n == 3);
        cr_expect(eps && eps[0] == 0 && eps[1] == 1 && eps[2] == 2);
        cr_expect_eq(ucc_get_team_size(d.teams[i], NULL), UCC_ERR_INVALID_PARAM);
    }
    drafts_close(&d);
}

Test(drafts_earlier, configurations_and_teams_are_made_by_their_other_names_as_well) {
    ucc_lib_config_h *config = NULL;
    must(ucc_config_read("DEMO", NULL, &config), "ucc_config_read");
    cr_assert(config != NULL);
    ucc_lib_config_release(config);

    drafts_t d = drafts_open(1);
    ucc_team_params_t params = {.oob_collectives = drafts_oob(&d, 0)};
    ucc_status_t status;
    must(ucc_create_post(&d.contexts[0], 1, params, &d.teams[0]), "ucc_create_post");
    drafts_settle(1, d.teams, &status);
    cr_expect_eq(status, UCC_OK);
    drafts_close(&d);
}

Test(drafts_earlier, operations_are_numbers) {
    static const struct {
        ucc_op_t op;
        int expected;
    } cases[] = {{UCC_OP_MAX, 4},   {UCC_OP_MIN, 2},      {UCC_OP_SUM, 9},
                 {UCC_OP_PROD, 24}, {UCC_COLL_OP_SUM, 9}, {UCC_COLL_OP_XOR, 5}};
    drafts_t d = drafts_ready(3);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        ucc_coll_op_args_t args[3] = {0};
        int value[3] = {2, 3, 4}, result[3] = {0};
        for (uint32_t i = 0; i < 3; i++) {
            ucc_reduction_info_t reduction = {.dt = UCC_DT_INT32, .op = cases[c].op, .count = 1};
            args[i].coll_type = UCC_ALLREDUCE;
            args[i].ext_args.buffer_info.src_buffer = &value[i];
            args[i].ext_args.buffer_info.dst_buffer = &result[i];
            args[i].ext_args.reduction_info = reduction;
            args[i].ext_args.error_type = LOCAL;
        }
        drafts_run(&d, args);
        cr_expect_eq(result[1], cases[c].expected, "case %zu: %d", c, result[1]);
    }
    ucc_coll_op_args_t args = {.coll_type = UCC_ALLREDUCE};
    args.ext_args.reduction_info.op = UCC_OP_LAST_PREDEFINED;
    cr_expect_eq(ucc_collective_init(&args, &d.requests[0], d.teams[0]), UCC_ERR_INVALID_PARAM);
    cr_expect(strstr(drafts_line, "reduction_info.op is 15") != NULL, "%s", drafts_line);
    drafts_close(&d);
}
