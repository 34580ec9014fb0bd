/* test_form_span.c: teams whose endpoints live in several processes form, and fail to form, at all
 * of them alike. Each process drives its endpoints by one thread, but where a test says something
 * else.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/ucx_losses.h"
#include "../support/world.h"
#include "core/log.h"
#include "net/internal.h"
#include "form/internal.h"
#include "span/span.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(form_span, .timeout = 120);

enum { MOST = 16, SECONDS = 40 };

/* Endpoints of this process: a library and a context each. */
typedef struct stage {
    const process_t *process;
    uint32_t n;
    ucc_lib_h libs[MOST];
    ucc_context_h contexts[MOST];
} stage_t;

static stage_t stage_open(const process_t *process, bool with_oob) {
    stage_t s = {.process = process, .n = process->n};
    ucc_oob_coll_t oobs[MOST];
    for (uint32_t k = 0; k < s.n; k++) {
        s.libs[k] = world_lib(UCC_THREAD_MULTIPLE);
        oobs[k] = process_oob(process, 0, process->endpoint[k]);
    }
    if (with_oob) {
        world_contexts_with_oob(s.n, s.libs, oobs, s.contexts);
        return s;
    }
    for (uint32_t k = 0; k < s.n; k++) {
        s.contexts[k] = world_new_context(s.libs[k], UCC_CONTEXT_SHARED, NULL);
    }
    return s;
}

/* False: something of the stage is still in use. */
static bool stage_close(stage_t *s) {
    bool ok = true;
    for (uint32_t k = 0; k < s->n; k++) {
        ok &= ucc_context_destroy(s->contexts[k]) == UCC_OK;
        ok &= ucc_finalize(s->libs[k]) == UCC_OK;
    }
    return ok && !hd_net_opened();
}

static void post(stage_t *s, uint32_t k, uint32_t board, ucc_team_h *team) {
    uint32_t endpoint = s->process->endpoint[k];
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP |
                                        UCC_TEAM_PARAM_FIELD_EP_RANGE,
                                .oob = process_oob(s->process, board, endpoint),
                                .ep = endpoint,
                                .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
    must(ucc_team_create_post(&s->contexts[k], 1, &params, team), "ucc_team_create_post");
}

/* Drives n teams until each has formed or failed. */
static void drive(ucc_team_h *teams, uint32_t n, ucc_status_t *statuses) {
    deadline_t deadline = deadline_start("teams to form");
    for (uint32_t left = n; left > 0;) {
        left = 0;
        for (uint32_t k = 0; k < n; k++) {
            statuses[k] = ucc_team_create_test(teams[k]);
            left += statuses[k] == UCC_INPROGRESS;
        }
        deadline_poll(&deadline);
    }
}

static void destroy(ucc_team_h *teams, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        world_destroy_team(teams[k]);
    }
}

/* All of mine end with this status. */
static bool all_are(const ucc_status_t *statuses, uint32_t n, ucc_status_t expected) {
    for (uint32_t k = 0; k < n; k++) {
        if (statuses[k] != expected) {
            fprintf(stderr, "endpoint %u of mine: %s\n", k, ucc_status_string(statuses[k]));
            return false;
        }
    }
    return true;
}

static bool runs(const shape_t *shape, int (*work)(const process_t *, void *), void *arg) {
    return processes_run(shape, SECONDS, work, arg).ok;
}

/* --- by an exchange --------------------------------------------------------------------------- */

/* Processes that share memory have none. */
static void look_at_network(void) {
    if (hd_net_opened()) {
        hd_net_pump(hd_net_opened());
    }
}

/* NULL: all of them live in one process. */
static const hd_span_t *span_of(ucc_team_h team) {
    return team->crossing ? team->crossing->span : hd_kin_span(team->group);
}

static bool is_as_it_should(const process_t *process, uint32_t k, ucc_team_h team) {
    uint64_t eps[MOST];
    ucc_team_attr_t attr = {.mask = UCC_TEAM_ATTR_FIELD_SIZE | UCC_TEAM_ATTR_FIELD_EP |
                                    UCC_TEAM_ATTR_FIELD_EPS,
                            .eps = eps};
    must(ucc_team_get_attr(team, &attr), "ucc_team_get_attr");
    bool right = attr.size == process->size && attr.ep == process->endpoint[k];
    for (uint32_t i = 0; i < process->size; i++) {
        right &= eps[i] == i;
    }
    const hd_span_t *span = span_of(team);
    for (uint32_t i = 0; i < process->size; i++) {
        bool mine = process->process_of[i] == process->me;
        right &= mine == (span->process_of[i] == span->mine);
    }
    const hd_nodes_t *nodes = team->crossing ? team->crossing->nodes : NULL;
    uint32_t here = nodes            ? hd_span_count(nodes->span, nodes->span->mine)
                    : team->crossing ? process->n
                                     : process->size;
    return right && team->group->n == here && span->processes == process->shape->processes;
}

static int forms(const process_t *process, void *arg) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    bool ok = true;
    (void)arg;
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &teams[k]);
    }
    drive(teams, s.n, statuses);
    ok &= all_are(statuses, s.n, UCC_OK);
    for (uint32_t k = 0; k < s.n && ok; k++) {
        ok &= is_as_it_should(process, k, teams[k]);
    }
    destroy(teams, s.n);
    return !(stage_close(&s) && ok);
}

Test(form_span, endpoints_of_two_processes_become_one_team) {
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, forms, NULL));
}

Test(form_span, so_do_those_of_three_with_uneven_numbers_that_interleave) {
    shape_t shape = {.processes = 3, .endpoints = {1, 2, 4}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, forms, NULL));
}

Test(form_span, so_do_those_of_two_that_are_numbered_at_random) {
    shape_t shape = {
        .processes = 2, .endpoints = {5, 3}, .numbering = NUMBERING_RANDOM, .seed = 11};
    cr_assert(runs(&shape, forms, NULL));
}

Test(form_span, so_do_processes_with_one_endpoint_each) {
    shape_t shape = shape_even(3, 1);
    cr_assert(runs(&shape, forms, NULL));
}

/* --- by nodes --------------------------------------------------------------------------------- */

/* As many nodes as arg says have several processes; NULL: each process is a node. */
static int forms_by_nodes(const process_t *process, void *arg) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    const uint32_t *wanted = arg;
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    unsetenv("HEDDLE_NET");
    stage_t s = stage_open(process, false);
    bool ok = true;
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &teams[k]);
    }
    drive(teams, s.n, statuses);
    ok &= all_are(statuses, s.n, UCC_OK);
    for (uint32_t k = 0; k < s.n && ok; k++) {
        const hd_nodes_t *nodes = teams[k]->crossing->nodes;
        uint32_t several = 0;
        ok &= is_as_it_should(process, k, teams[k]) && (nodes != NULL) == (wanted != NULL);
        for (uint32_t node = 0; ok && nodes && node < nodes->span->processes; node++) {
            several += nodes->first[node + 1] - nodes->first[node] > 1;
            for (uint32_t number = 0; number < 4; number++) { /* each carries its own node's */
                uint32_t p = hd_nodes_carrier(nodes, node, number);
                uint32_t e = hd_span_endpoint(teams[k]->crossing->span, p, 0);
                ok &= nodes->span->process_of[e] == node;
            }
        }
        ok &= !wanted || several == *wanted;
    }
    destroy(teams, s.n);
    return !(stage_close(&s) && ok);
}

Test(form_span, processes_of_two_nodes_share_memory_node_by_node) {
    static uint32_t two = 2;
    shape_t shape = {.processes = 4, .endpoints = {2, 1, 1, 3}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, forms_by_nodes, &two));
}

Test(form_span, so_they_do_if_one_of_them_is_a_node) {
    static uint32_t one = 1;
    shape_t shape = shape_even(3, 2);
    cr_assert(runs(&shape, forms_by_nodes, &one));
}

Test(form_span, they_do_not_where_sums_must_not_depend_on_nodes) {
    shape_t shape = shape_even(4, 1);
    setenv("HEDDLE_REPRODUCIBLE", "placement", 1);
    cr_assert(runs(&shape, forms_by_nodes, NULL));
}

/* The process that would make its node's memory can't. */
static int forms_without_a_segment(const process_t *process, void *arg) {
    setenv("HEDDLE_NET_TLS", "tcp,self", 1); /* UCX's shared memory is a file, too */
    if (process->me == 0) {
        process_limit_files(4096);
    }
    return forms_by_nodes(process, arg);
}

/* UCX's shared memory is a file, too. */
static int forms_with_short_files(const process_t *process, void *arg) {
    struct rlimit limit = {1 << 20, 1 << 20};
    const char *shared = arg;
    setenv("HEDDLE_NET_SHM", shared, 1);
    setenv("HEDDLE_NODE", "n", 1);
    unsetenv("HEDDLE_NET");
    must(process->me == 0 && setrlimit(RLIMIT_FSIZE, &limit) ? UCC_ERR_NO_MESSAGE : UCC_OK,
         "setrlimit");
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &teams[k]);
    }
    drive(teams, s.n, statuses);
    /* another UCX may find another way */
    bool ok = all_are(statuses, s.n, UCC_OK) ||
              (*shared == 'y' && all_are(statuses, s.n, UCC_ERR_NO_RESOURCE));
    destroy(teams, s.n);
    return !(stage_close(&s) && ok);
}

Test(form_span, where_files_must_be_short_that_is_an_error_at_most_and_no_signal) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, forms_with_short_files, (void *)"y"));
    cr_assert(runs(&shape, forms_with_short_files, (void *)"n"));
}

Test(form_span, a_node_of_which_one_can_not_parts_and_the_others_go_on) {
    static uint32_t one = 1;
    shape_t shape = shape_even(4, 1);
    cr_assert(runs(&shape, forms_without_a_segment, &one));
}

/* --- over contexts ---------------------------------------------------------------------------- */

static uint32_t place_in(const uint64_t *list, uint32_t n, uint64_t rank) {
    uint32_t i = 0;
    while (i < n && list[i] != rank) {
        i++;
    }
    return i;
}

/* The team of the listed ranks, by those of mine that are in it: forms, and is what it should be.
 */
static bool forms_of_list(stage_t *s, const uint64_t *list, uint32_t n, uint32_t processes) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    uint32_t place[MOST], mine = 0;
    ucc_ep_map_t map = {
        .type = UCC_EP_MAP_ARRAY, .ep_num = n, .array = {(void *)(uintptr_t)list, sizeof(*list)}};
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP, .ep_map = map};
    for (uint32_t k = 0; k < s->n; k++) {
        place[mine] = place_in(list, n, s->process->endpoint[k]);
        if (place[mine] < n) {
            must(ucc_team_create_post(&s->contexts[k], 1, &params, &teams[mine]), "create_post");
            mine++;
        }
    }
    drive(teams, mine, statuses);
    bool ok = all_are(statuses, mine, UCC_OK);
    for (uint32_t i = 0; i < mine && ok; i++) {
        const hd_span_t *span = span_of(teams[i]);
        uint32_t here = teams[i]->crossing ? mine : n;
        ok = teams[i]->ep == place[i] && teams[i]->n == n && teams[i]->group->n == here &&
             (span ? span->processes : 1) == processes;
    }
    destroy(teams, mine);
    return ok;
}

static int forms_by_map(const process_t *process, void *arg) {
    static const uint64_t all[] = {0, 1, 2, 3, 4}, some[] = {4, 0, 3}, alone[] = {1, 3};
    stage_t s = stage_open(process, true);
    bool ok = true;
    (void)arg;
    for (uint32_t i = 0; i < 3; i++) { /* 0, 2, 4 live in process 0, 1 and 3 in process 1 */
        ok = ok && forms_of_list(&s, all, 5, 2);
        ok = ok && forms_of_list(&s, some, 3, 2);
        ok = ok && (process->me == 0 || forms_of_list(&s, alone, 2, 1));
        ok = ok && forms_of_list(&s, some, 3, 2);
    }
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, contexts_of_two_processes_make_teams_of_lists_without_an_exchange) {
    shape_t shape = {.processes = 2, .endpoints = {3, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, forms_by_map, NULL));
}

static int has_no_network_for_a_map(const process_t *process, void *arg) {
    static const uint64_t all[] = {0, 1, 2, 3}, mine[2][2] = {{0, 1}, {2, 3}};
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    if (process->me == 1) {
        setenv("HEDDLE_NET", "n", 1);
    }
    stage_t s = stage_open(process, true);
    ucc_team_h team;
    ucc_ep_map_t map = {
        .type = UCC_EP_MAP_ARRAY, .ep_num = 4, .array = {(void *)(uintptr_t)all, sizeof(*all)}};
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP, .ep_map = map};
    bool ok = ucc_team_create_post(&s.contexts[0], 1, &params, &team) == UCC_ERR_NOT_SUPPORTED;
    ok = ok && forms_of_list(&s, mine[process->me], 2, 1);
    return !(stage_close(&s) && ok);
}

Test(form_span, without_a_network_contexts_are_good_for_teams_inside_their_processes) {
    processes_use_network();
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, has_no_network_for_a_map, NULL));
}

/* --- from teams ------------------------------------------------------------------------------- */

static bool forms_from(const stage_t *s, ucc_team_h *parents, uint64_t *list, uint32_t n,
                       uint32_t processes) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    uint32_t mine = 0;
    for (uint32_t k = 0; k < s->n; k++) {
        if (place_in(list, n, s->process->endpoint[k]) < n) {
            must(ucc_create_team_from_eps(parents[k], &list, n, &teams[mine++]), "from_eps");
        }
    }
    drive(teams, mine, statuses);
    bool ok = all_are(statuses, mine, UCC_OK);
    for (uint32_t i = 0; i < mine && ok; i++) {
        const hd_span_t *span = span_of(teams[i]);
        ok = teams[i]->n == n && (span ? span->processes : 1) == processes;
    }
    destroy(teams, mine);
    return ok;
}

static int forms_from_lists(const process_t *process, void *arg) {
    static uint64_t some[] = {5, 0, 3}, others[] = {1, 2, 4}, alone[] = {6, 4};
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    (void)arg;
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &teams[k]);
    }
    drive(teams, s.n, statuses);
    bool ok = all_are(statuses, s.n, UCC_OK);
    for (uint32_t i = 0; i < 3 && ok; i++) { /* processes: 0, 1 1, 2 2 2 2 */
        ok = forms_from(&s, teams, some, 3, 2) && forms_from(&s, teams, others, 3, 2) &&
             forms_from(&s, teams, alone, 2, 1);
    }
    destroy(teams, s.n);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, members_of_a_list_make_a_team_of_one_in_three_processes) {
    shape_t shape = {.processes = 3, .endpoints = {1, 2, 4}};
    cr_assert(runs(&shape, forms_from_lists, NULL));
}

/* All of a parent take part in making the team of those whose bits are set. */
static bool forms_by_split(const stage_t *s, ucc_team_h *parents, uint32_t included, bool at_once) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    bool ok = true;
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t endpoint = s->process->endpoint[k];
        must(ucc_team_create_from_parent(endpoint, included >> endpoint & 1, parents[k], &teams[k]),
             "from_parent");
        if (at_once && !(included >> endpoint & 1)) { /* without another look */
            world_destroy_team(teams[k]);
            teams[k] = NULL;
        }
    }
    uint32_t mine = 0;
    for (uint32_t k = 0; k < s->n; k++) {
        teams[mine] = teams[k];
        mine += teams[k] != NULL;
    }
    drive(teams, mine, statuses);
    ok = all_are(statuses, mine, UCC_OK);
    uint32_t in = 0;
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t endpoint = s->process->endpoint[k];
        if (included >> endpoint & 1) {
            ucc_team_h team = teams[in++];
            ok &= team->state == HD_TEAM_ACTIVE &&
                  team->n == (uint32_t)__builtin_popcount(included) &&
                  team->ep == (uint32_t)__builtin_popcount(included & ((1u << endpoint) - 1));
        } else if (!at_once) {
            ok &= teams[in++]->state == HD_TEAM_EXCLUDED;
        }
    }
    destroy(teams, mine);
    return ok;
}

static bool form_parents(stage_t *s, ucc_team_h *parents) {
    ucc_status_t statuses[MOST];
    for (uint32_t k = 0; k < s->n; k++) {
        post(s, k, 0, &parents[k]);
    }
    drive(parents, s->n, statuses);
    return all_are(statuses, s->n, UCC_OK);
}

static int forms_from_parent(const process_t *process, void *arg) {
    /* processes: 0 3 5, 1 4, 2; the third has only one process, the fourth leaves one out */
    static const uint32_t included[] = {0x3f, 0x2b, 0x29, 0x1b, 0x02, 0x24};
    ucc_team_h parents[MOST];
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, parents), at_once = arg != NULL;
    for (uint32_t i = 0; i < sizeof(included) / sizeof(included[0]) && ok; i++) {
        ok = forms_by_split(&s, parents, included[i], at_once);
    }
    destroy(parents, s.n);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, endpoints_of_a_parent_make_a_team_of_those_who_want) {
    shape_t shape = {.processes = 3, .endpoints = {3, 2, 1}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, forms_from_parent, NULL));
}

Test(form_span, who_takes_no_part_in_the_team_may_go_at_once) {
    shape_t shape = {.processes = 3, .endpoints = {3, 2, 1}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, forms_from_parent, "at once"));
}

/* The parent goes before the team has formed. */
static int outlives_its_parent(const process_t *process, void *arg) {
    ucc_team_h parents[MOST], teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, parents);
    (void)arg;
    for (uint32_t k = 0; k < s.n; k++) {
        must(ucc_team_create_from_parent(process->endpoint[k], process->endpoint[k] != 1,
                                         parents[k], &teams[k]),
             "from_parent");
    }
    destroy(parents, s.n);
    drive(teams, s.n, statuses);
    ok = ok && all_are(statuses, s.n, UCC_OK);
    destroy(teams, s.n);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, a_team_outlives_the_parent_that_it_was_made_from) {
    shape_t shape = {.processes = 3, .endpoints = {2, 1, 2}};
    cr_assert(runs(&shape, outlives_its_parent, NULL));
}

/* Endpoint 1 of process 1 goes instead of finding out who takes part. */
static int goes_during_a_split(const process_t *process, void *arg) {
    ucc_team_h parents[MOST], teams[MOST];
    ucc_status_t statuses[MOST];
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, parents);
    (void)arg;
    uint32_t here = s.n;
    for (uint32_t k = 0; k < s.n; k++) {
        ucc_status_t status =
            ucc_team_create_from_parent(process->endpoint[k], 1, parents[k], &teams[k]);
        ok &= status == UCC_OK || (process->me == 1 && k == 1 && status < 0);
        if (process->me == 1 && k == 0) {
            world_destroy_team(teams[0]);
            here = 0;
        } else if (status == UCC_OK && process->me == 1) {
            world_destroy_team(teams[k]);
        }
    }
    drive(teams, here, statuses);
    ok &= all_are(statuses, here, UCC_ERR_NOT_FOUND);
    destroy(teams, here);
    process_barrier(process);
    destroy(parents, s.n);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, who_goes_during_a_split_fails_it_everywhere) {
    shape_t shape = {.processes = 3, .endpoints = {2, 2, 1}};
    cr_assert(runs(&shape, goes_during_a_split, NULL));
}

/* --- how that fails --------------------------------------------------------------------------- */

/* Statuses of my endpoints, driven to the end; those that have failed are destroyed. */
static int ends_with(const process_t *process, ucc_status_t expected) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &teams[k]);
    }
    drive(teams, s.n, statuses);
    bool ok = all_are(statuses, s.n, expected);
    destroy(teams, s.n);
    return !(stage_close(&s) && ok);
}

static int ends_without_check_in_one(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_CHECK", process->me == 1 ? "y" : "n", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    return ends_with(process, UCC_ERR_INVALID_PARAM);
}

Test(form_span, configurations_that_differ_fail_at_all) {
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, ends_without_check_in_one, NULL));
}

/* An exchange that makes process 1 another version. */

/* What an endpoint's exchange does by itself. */
static ucc_oob_coll_t truly;

/* Begins a team whose endpoint of process 1 exchanges by that allgather. */
static ucc_team_h post_with(const process_t *process, stage_t *s,
                            __typeof__(truly.allgather) allgather) {
    ucc_team_h team;
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                .oob = process_oob(process, 0, process->endpoint[0])};
    truly = params.oob;
    if (process->me == 1) {
        params.oob.allgather = allgather;
    }
    must(ucc_team_create_post(&s->contexts[0], 1, &params, &team), "ucc_team_create_post");
    return team;
}

static ucc_status_t gather_as_another_version(void *src, void *dst, size_t bytes, void *info,
                                              void **request) {
    if (bytes == sizeof(hd_record_t)) {
        ((hd_record_t *)src)->version += 100;
    }
    return truly.allgather(src, dst, bytes, info, request);
}

static int is_another_version(const process_t *process, void *arg) {
    ucc_status_t status;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    ucc_team_h team = post_with(process, &s, gather_as_another_version);
    (void)arg;
    drive(&team, 1, &status);
    destroy(&team, 1);
    return !(stage_close(&s) && status == UCC_ERR_INVALID_PARAM);
}

Test(form_span, versions_that_differ_fail_at_all) {
    shape_t shape = shape_even(3, 1);
    cr_assert(runs(&shape, is_another_version, NULL));
}

/* An exchange whose third allgather fails as it begins, although it leaves an address for a
 * request, and the others get its data. */
static ucc_status_t gather_twice(void *src, void *dst, size_t bytes, void *info, void **request) {
    static uint32_t gathered;
    ucc_status_t status = truly.allgather(src, dst, bytes, info, request);
    if (++gathered < 3) {
        return status;
    }
    while (truly.req_test(*request) == UCC_INPROGRESS) {
    }
    truly.req_free(*request);
    return UCC_ERR_IO_ERROR;
}

static int fails_at_the_addresses(const process_t *process, void *arg) {
    ucc_status_t status = UCC_OK;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    ucc_team_h team = post_with(process, &s, gather_twice);
    (void)arg;
    if (process->me == 1) {
        drive(&team, 1, &status);
        destroy(&team, 1);
    }
    deadline_t deadline = deadline_start("the other process's part of the exchange");
    ucc_status_t seen = UCC_INPROGRESS;
    while (process->me == 0 && seen == UCC_INPROGRESS && team->forming->step != STEP_COMPLETE) {
        seen = ucc_team_create_test(team);
        deadline_poll(&deadline);
    }
    /* where memory is shared, it may find that the other process has gone */
    bool ok = seen == UCC_INPROGRESS || (processes_share_memory() && seen == UCC_ERR_IO_ERROR);
    process_barrier(process);
    if (process->me == 0) { /* by the network, it does not hear of that */
        destroy(&team, 1);
    }
    return !(stage_close(&s) && ok && status == (process->me == 1 ? UCC_ERR_IO_ERROR : UCC_OK));
}

Test(form_span, an_endpoint_whose_exchange_fails_as_it_begins_can_go) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, fails_at_the_addresses, NULL));
}

static int has_no_network_in_one(const process_t *process, void *arg) {
    (void)arg;
    if (process->me == 1) {
        setenv("HEDDLE_NET", "n", 1);
    }
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    return ends_with(process, UCC_ERR_NOT_SUPPORTED);
}

Test(form_span, a_process_without_a_network_fails_all) {
    processes_use_network();
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, has_no_network_in_one, NULL));
}

/* An exchange that hides the end of the third call while it is held: then the endpoint has given
 * all that it has to give, and does not know of the others. */
typedef struct held {
    ucc_oob_coll_t oob;
    _Atomic bool *hold;
    void *request;
    uint32_t calls;
} held_t;

static ucc_status_t held_gather(void *src, void *dst, size_t bytes, void *info, void **request) {
    held_t *held = info;
    held->calls++;
    *request = held;
    return held->oob.allgather(src, dst, bytes, held->oob.coll_info, &held->request);
}

static ucc_status_t held_test(void *request) {
    held_t *held = request;
    ucc_status_t status = held->oob.req_test(held->request);
    return held->calls == 3 && atomic_load(held->hold) ? UCC_INPROGRESS : status;
}

static ucc_status_t held_free(void *request) {
    held_t *held = request;
    return held->oob.req_free(held->request);
}

static void post_held(stage_t *s, uint32_t k, held_t *held, _Atomic bool *hold, ucc_team_h *team) {
    *held = (held_t){.oob = process_oob(s->process, 0, s->process->endpoint[k]), .hold = hold};
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                .oob = {.allgather = held_gather,
                                        .req_test = held_test,
                                        .req_free = held_free,
                                        .coll_info = held,
                                        .n_oob_eps = s->process->size,
                                        .oob_ep = s->process->endpoint[k]}};
    must(ucc_team_create_post(&s->contexts[k], 1, &params, team), "ucc_team_create_post");
}

/* Endpoint 1 of process 1 is held: so endpoint 0 there waits for it in the group, and process 0 for
 * a greeting. */
static int goes_before_it_has_formed(const process_t *process, void *arg) {
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    held_t held[MOST];
    _Atomic bool hold = process->me == 1, free_to_go = false;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    (void)arg;
    for (uint32_t k = 0; k < s.n; k++) {
        post_held(&s, k, &held[k], k == 1 ? &hold : &free_to_go, &teams[k]);
    }
    deadline_t deadline = deadline_start("an endpoint to join");
    while (process->me == 1 && teams[0]->forming->step != STEP_COMPLETE) {
        for (uint32_t k = 0; k < s.n; k++) {
            must(ucc_team_create_test(teams[k]) < 0 ? UCC_ERR_NO_MESSAGE : UCC_OK, "test");
        }
        deadline_poll(&deadline);
    }
    uint32_t gone = process->me == 1;
    destroy(teams, gone);
    atomic_store(&hold, false);
    drive(teams + gone, s.n - gone, statuses);
    bool ok = all_are(statuses, s.n - gone, UCC_ERR_NOT_FOUND);
    destroy(teams + gone, s.n - gone);
    return !(stage_close(&s) && ok);
}

Test(form_span, an_endpoint_that_goes_before_it_has_formed_fails_all) {
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, goes_before_it_has_formed, NULL));
}

/* Process 1 does not come before process 0 has given up. */
static int gives_up(const process_t *process, void *arg) {
    _Atomic bool *hold = arg, never = false;
    ucc_team_h team;
    ucc_status_t status;
    held_t held;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_TIMEOUT", process->me == 0 ? "0.1" : "0", 1);
    stage_t s = stage_open(process, false);
    post_held(&s, 0, &held, process->me == 1 ? hold : &never, &team);
    drive(&team, 1, &status);
    if (process->me == 0) {
        atomic_store(hold, false);
    }
    deadline_t deadline = deadline_start("the other process to hear of it");
    while (process->me == 0 && !atomic_load(hold + 1)) { /* it is told while we are there */
        look_at_network();
        deadline_poll(&deadline);
    }
    atomic_store(hold + 1, process->me == 1);
    destroy(&team, 1);
    return !(stage_close(&s) && status == UCC_ERR_TIMED_OUT);
}

Test(form_span, forming_ends_with_the_time_out_and_the_others_hear_of_it) {
    shape_t shape = shape_even(2, 1);
    _Atomic bool *hold =
        mmap(NULL, 2 * sizeof(*hold), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(hold, true);
    cr_assert(runs(&shape, gives_up, (void *)hold));
    munmap((void *)hold, 2 * sizeof(*hold));
}

/* Process 1 gives up a team that process 0 comes to only then. */
static int gives_up_before_others_come(const process_t *process, void *arg) {
    static uint64_t both[] = {0, 1}, *list = both;
    ucc_team_h parent, team;
    ucc_status_t status = UCC_ERR_NOT_FOUND;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, &parent);
    (void)arg;
    if (process->me == 1) {
        must(ucc_create_team_from_eps(parent, &list, 2, &team), "from_eps");
        world_destroy_team(team);
    }
    process_barrier(process);
    if (process->me == 0) {
        for (int i = 0; i < 100; i++) { /* most likely it hears of it now */
            look_at_network();
        }
        must(ucc_create_team_from_eps(parent, &list, 2, &team), "from_eps");
        drive(&team, 1, &status);
        world_destroy_team(team);
    }
    process_barrier(process);
    world_destroy_team(parent);
    return !(stage_close(&s) && ok && status == UCC_ERR_NOT_FOUND);
}

Test(form_span, who_comes_to_a_team_that_another_process_has_given_up_hears_of_it) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, gives_up_before_others_come, NULL));
}

/* Process 1 aborts a team in which process 0 does nothing but look. */
static int aborts(const process_t *process, void *arg) {
    ucc_team_h team;
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, &team);
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    process_barrier(process);
    if (process->me == 1) {
        must(heddle_team_abort(team), "heddle_team_abort");
    }
    deadline_t deadline = deadline_start("to hear of the abort");
    while (hd_group_poisoned(team->group) == UCC_OK) {
        look_at_network();
        deadline_poll(&deadline);
    }
    ok &= hd_group_poisoned(team->group) == HEDDLE_ERR_ABORTED;
    process_barrier(process);
    world_destroy_team(team);
    return !(stage_close(&s) && ok);
}

Test(form_span, an_abort_is_heard_in_other_processes) {
    shape_t shape = shape_even(3, 1);
    cr_assert(runs(&shape, aborts, NULL));
}

static int ends_with_another_algorithm_in_one(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_BCAST", process->me == 1 ? "chain" : "tree", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    return ends_with(process, UCC_ERR_INVALID_PARAM);
}

Test(form_span, algorithms_that_differ_fail_at_all) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, ends_with_another_algorithm_in_one, NULL));
}

static int ends_with_other_bits_in_one(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_REPRODUCIBLE", process->me == 1 ? "placement" : "layout", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    return ends_with(process, UCC_ERR_INVALID_PARAM);
}

Test(form_span, where_bits_are_the_same_is_agreed_on) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, ends_with_other_bits_in_one, NULL));
}

/* A heddle_group of the processes. */
static ucc_status_t create_group(const process_t *process, ucc_oob_coll_t oob) {
    heddle_group_params_t params = {
        .endpoints = process->n, .thread_mode = UCC_THREAD_SINGLE, .oob = &oob};
    heddle_group_t *group = NULL;
    ucc_status_t status = heddle_group_create(&params, &group);
    if (status == UCC_OK) {
        heddle_group_destroy(group);
    }
    return status;
}

static int groups_with_another_algorithm_in_one(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_BCAST", process->me == 1 ? "chain" : "tree", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    return create_group(process, process_group_oob(process, 0)) != UCC_ERR_INVALID_PARAM;
}

Test(form_span, groups_of_processes_with_other_algorithms_fail_at_all) {
    shape_t shape = shape_even(3, 2);
    cr_assert(runs(&shape, groups_with_another_algorithm_in_one, NULL));
}

static int forms_with_long_addresses(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_LANES", process->me == 0 ? "8" : "7", 1);
    return ends_with(process, UCC_OK) ||
           create_group(process, process_group_oob(process, 1)) != UCC_OK;
}

Test(form_span, addresses_may_be_longer_than_expected) {
    shape_t shape = {.processes = 2, .endpoints = {1, 2}};
    cr_assert(runs(&shape, forms_with_long_addresses, NULL));
}

/* An exchange of process 1's that takes its memory away in the first call, and gives it back in a
 * later one. */
typedef struct thief {
    ucc_oob_coll_t oob;
    long left;
    uint32_t calls, until; /* until: 0: never */
} thief_t;

static ucc_status_t stealing_gather(void *src, void *dst, size_t bytes, void *info,
                                    void **request) {
    thief_t *thief = info;
    thief->calls++;
    if (thief->calls == 1 || thief->calls == thief->until) {
        hd_alloc_fail_after(thief->calls == 1 ? thief->left : -1);
    }
    return thief->oob.allgather(src, dst, bytes, thief->oob.coll_info, request);
}

static ucc_oob_coll_t steal(const process_t *process, thief_t *thief, ucc_oob_coll_t oob, long left,
                            uint32_t until) {
    *thief = (thief_t){.oob = oob, .left = left, .until = until};
    if (process->me == 1) {
        oob.allgather = stealing_gather;
        oob.coll_info = thief;
    }
    return oob;
}

static ucc_status_t group_for(const process_t *process, stage_t *s, long left) {
    thief_t thief;
    (void)s;
    return create_group(process, steal(process, &thief, process_group_oob(process, 0), left, 0));
}

static ucc_status_t context_for(const process_t *process, stage_t *s, long left) {
    thief_t thief;
    ucc_context_params_t params = {
        .mask = UCC_CONTEXT_PARAM_FIELD_OOB,
        .oob = steal(process, &thief, process_oob(process, 1, process->endpoint[0]), left, 0)};
    ucc_context_config_h config;
    ucc_context_h context;
    must(ucc_context_config_read(s->libs[0], NULL, &config), "ucc_context_config_read");
    ucc_status_t status = ucc_context_create(s->libs[0], &params, config, &context);
    hd_alloc_fail_after(-1);
    ucc_context_config_release(config);
    return status == UCC_OK ? ucc_context_destroy(context) : status;
}

/* Makes the team of an exchange, with memory again when it has formed or failed. */
static ucc_status_t form_by(const process_t *process, stage_t *s, ucc_oob_coll_t oob) {
    ucc_team_h team;
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP |
                                        UCC_TEAM_PARAM_FIELD_EP_RANGE,
                                .ep = process->endpoint[0],
                                .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                .oob = oob};
    ucc_status_t status;
    must(ucc_team_create_post(&s->contexts[0], 1, &params, &team), "ucc_team_create_post");
    drive(&team, 1, &status);
    hd_alloc_fail_after(-1);
    destroy(&team, 1);
    return status;
}

/* What a process lacks after the last exchange, it says by the network, if it has memory for that.
 */
static ucc_status_t team_for(const process_t *process, stage_t *s, long left) {
    thief_t thief;
    ucc_oob_coll_t oob = process_oob(process, 2, process->endpoint[0]);
    return form_by(process, s, steal(process, &thief, oob, left, 3));
}

typedef struct theft {
    ucc_status_t (*form)(const process_t *process, stage_t *s, long left);
    _Atomic bool formed;
} theft_t;

/* Again and again, with memory for one allocation more each time: everybody always gets an answer.
 */
static int forms_with_ever_more_memory(const process_t *process, void *arg) {
    theft_t *theft = arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    long left = 0;
    for (; left < 300 && !atomic_load(&theft->formed); left++) {
        process_note(process, "%ld allocations", left);
        ucc_status_t status = theft->form(process, &s, left);
        hd_alloc_fail_after(-1);
        process_barrier(process);
        if (process->me == 1 && status == UCC_OK) {
            atomic_store(&theft->formed, true);
        }
        process_barrier(process);
    }
    return !(stage_close(&s) && atomic_load(&theft->formed) && left > 4);
}

static void forms_in_the_end(ucc_status_t (*form)(const process_t *, stage_t *, long)) {
    shape_t shape = shape_even(3, 1);
    theft_t *theft =
        mmap(NULL, sizeof(*theft), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    theft->form = form;
    cr_assert(runs(&shape, forms_with_ever_more_memory, theft));
    munmap(theft, sizeof(*theft));
}

Test(form_span, a_process_without_memory_leaves_nobody_waiting_for_a_group) {
    forms_in_the_end(group_for);
}
Test(form_span, a_process_without_memory_leaves_nobody_waiting_for_a_context) {
    forms_in_the_end(context_for);
}
Test(form_span, a_process_without_memory_leaves_nobody_waiting_for_a_team) {
    forms_in_the_end(team_for);
}

/* Nodes of several processes: records, doors, memory, accounts, slices. Memory is gone from the
 * last exchange on, until the team has failed. */
static ucc_status_t late_gather(void *src, void *dst, size_t bytes, void *info, void **request) {
    enum { LAST = 5 };
    thief_t *thief = info;
    if (++thief->calls == LAST) {
        hd_alloc_fail_after(thief->left);
    }
    return thief->oob.allgather(src, dst, bytes, thief->oob.coll_info, request);
}

static ucc_status_t team_of_nodes_for(const process_t *process, stage_t *s, long left) {
    thief_t thief = {.oob = process_oob(process, 2, process->endpoint[0]), .left = left};
    ucc_oob_coll_t oob = thief.oob;
    if (process->me == 1) {
        oob.allgather = late_gather;
        oob.coll_info = &thief;
    }
    return form_by(process, s, oob);
}

/* Its node's group is made before it finds that it can't cross nodes. */
static int forms_nodes_without_memory(const process_t *process, void *arg) {
    enum { ALLOCATIONS = 14 };
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = true;
    for (long left = 0; left < ALLOCATIONS; left++) {
        process_note(process, "%ld allocations", left);
        ucc_status_t status = team_of_nodes_for(process, &s, left);
        ok &= status < 0;
        process_barrier(process);
    }
    return !(stage_close(&s) && ok);
}

Test(form_span, a_process_without_memory_fails_the_team_of_nodes) {
    shape_t shape = shape_even(4, 1);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    setenv("HEDDLE_TIMEOUT", "1", 1);
    unsetenv("HEDDLE_NET");
    cr_assert(runs(&shape, forms_nodes_without_memory, NULL));
}

typedef ucc_status_t (*derive_t)(uint32_t endpoint, ucc_team_h parent, ucc_team_h *team);

typedef struct scarcity {
    derive_t derive;
    /* memory runs out only when the endpoints wait for each other: a split tells nobody before */
    bool late;
    long allocations;
    _Atomic bool refused; /* it has failed, and may have had no memory to tell the other */
} scarcity_t;

/* Process 1 has memory for so many allocations only. */
static int forms_without_memory(const process_t *process, void *arg) {
    scarcity_t *scarcity = arg;
    ucc_team_h parents[MOST], teams[MOST] = {NULL};
    uint32_t formed = 0, over = 0;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, parents);
    process_barrier(process);
    long allocations = process->me == 1 ? scarcity->allocations : -1;
    hd_alloc_fail_after(scarcity->late ? -1 : allocations);
    for (uint32_t k = 0; k < s.n; k++) {
        if (scarcity->derive(process->endpoint[k], parents[k], &teams[k]) != UCC_OK) {
            atomic_store(&scarcity->refused, true);
            teams[k] = NULL;
        }
    }
    hd_alloc_fail_after(allocations);
    deadline_t deadline = deadline_start("a team to form without memory");
    while (over < s.n && (scarcity->late || !atomic_load(&scarcity->refused))) {
        over = formed = 0;
        for (uint32_t k = 0; k < s.n; k++) {
            ucc_status_t status = ucc_team_create_test(teams[k]);
            over += status != UCC_INPROGRESS;
            formed += status == UCC_OK;
        }
        deadline_poll(&deadline);
    }
    hd_alloc_fail_after(-1);
    if (formed < s.n) {
        atomic_store(&scarcity->refused, true);
    }
    ok &= formed == s.n || formed == 0 || over < s.n;
    process_set(process, 0, formed == s.n);
    process_barrier(process);
    bool alone = formed == s.n && !process_get(process, 1 - process->me, 0);
    process_barrier(process);
    if (alone) { /* the other lacked memory for what follows the greeting, and says so */
        while (hd_group_poisoned(teams[0]->group) == UCC_OK) {
            ucc_context_progress(teams[0]->contexts[0]);
            deadline_poll(&deadline);
        }
        process_set(process, 0, 0);
    }
    for (uint32_t k = 0; k < s.n; k++) {
        if (teams[k]) {
            world_destroy_team(teams[k]);
        }
    }
    process_barrier(process);
    destroy(parents, s.n);
    return !(stage_close(&s) && ok);
}

static void form_in_all_or_none(uint32_t endpoints, derive_t derive, bool late) {
    shape_t shape = shape_even(2, endpoints);
    scarcity_t *scarcity =
        mmap(NULL, sizeof(*scarcity), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool formed = false;
    scarcity->derive = derive;
    scarcity->late = late;
    for (long n = 0; n < 300 && !formed; n += n < 24 * (long)endpoints ? 1 : 5) {
        scarcity->allocations = n;
        atomic_store(&scarcity->refused, false);
        outcome_t outcome = processes_run(&shape, SECONDS, forms_without_memory, scarcity);
        cr_assert(outcome.ok, "with %ld allocations", n);
        cr_assert_eq(outcome.value[0][0], outcome.value[1][0], "with %ld allocations", n);
        formed = outcome.value[0][0];
    }
    cr_assert(formed);
    munmap(scarcity, sizeof(*scarcity));
}

static ucc_status_t derive_by_list(uint32_t endpoint, ucc_team_h parent, ucc_team_h *team) {
    static uint64_t both[] = {0, 1}, *list = both;
    (void)endpoint;
    return ucc_create_team_from_eps(parent, &list, 2, team);
}

static ucc_status_t derive_by_split(uint32_t endpoint, ucc_team_h parent, ucc_team_h *team) {
    return ucc_team_create_from_parent(endpoint, 1, parent, team);
}

static ucc_status_t derive_by_shrink(uint32_t endpoint, ucc_team_h parent, ucc_team_h *team) {
    (void)endpoint;
    return heddle_team_shrink(parent, team);
}

Test(form_span, without_memory_in_one_process_a_team_forms_in_none) {
    form_in_all_or_none(1, derive_by_list, false);
}
Test(form_span, without_memory_in_one_process_a_split_forms_in_none) {
    form_in_all_or_none(2, derive_by_split, true);
}
Test(form_span, without_memory_in_one_process_survivors_form_a_team_in_none) {
    form_in_all_or_none(2, derive_by_shrink, false);
}

/* One endpoint of process 1 goes while its process waits for the other one, which has been told
 * that it comes. The endpoint beside it tells the other process. */
static int goes_in_a_split(const process_t *process, void *arg) {
    ucc_team_h parents[MOST], teams[MOST];
    ucc_status_t statuses[MOST];
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, parents);
    uint32_t gone = process->me;
    (void)arg;
    for (uint32_t me = 2; me-- > 0; process_barrier(process)) {
        for (uint32_t k = 0; k < s.n && process->me == me; k++) {
            must(ucc_team_create_from_parent(process->endpoint[k], 1, parents[k], &teams[k]),
                 "from_parent");
        }
        if (process->me == 1 && me == 1) {
            world_destroy_team(teams[0]);
            (void)ucc_team_create_test(teams[1]);
        }
    }
    drive(teams + gone, s.n - gone, statuses);
    ok &= all_are(statuses, s.n - gone, UCC_ERR_NOT_FOUND);
    ok &= hd_group_poisoned(parents[0]->group) == UCC_OK; /* only the new team has failed */
    destroy(teams + gone, s.n - gone);
    process_barrier(process);
    destroy(parents, s.n);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, an_endpoint_that_goes_in_a_split_leaves_no_process_waiting) {
    shape_t shape = shape_even(2, 2);
    cr_assert(runs(&shape, goes_in_a_split, NULL));
}

/* Process 1 has told that it comes, and fails before it has heard who else does: process 0, which
 * is in the new team by then, must not wait for it. how: "abort" of the parent, or "go" */
static int fails_when_it_has_told(const process_t *process, void *arg) {
    const char *how = arg;
    ucc_team_h parent, team;
    ucc_status_t status = UCC_ERR_LAST, expected = UCC_ERR_NOT_FOUND;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, &parent);
    for (uint32_t me = 2; me-- > 0; process_barrier(process)) {
        if (process->me == me) {
            must(ucc_team_create_from_parent(me, 1, parent, &team), "from_parent");
        }
        if (process->me == me && me == 0) {
            deadline_t deadline = deadline_start("to hear from process 1");
            while (team->forming->step == STEP_SPLIT) {
                (void)ucc_team_create_test(team);
                deadline_poll(&deadline);
            }
        }
    }
    if (strcmp(how, "abort") == 0) {
        expected = HEDDLE_ERR_ABORTED;
        if (process->me == 1) {
            must(heddle_team_abort(parent), "heddle_team_abort");
        }
    }
    if (process->me == 0 || expected != UCC_ERR_NOT_FOUND) {
        drive(&team, 1, &status);
        ok &= status == expected;
    }
    destroy(&team, 1);
    destroy(&parent, 1);
    process_barrier(process);
    return !(stage_close(&s) && ok);
}

Test(form_span, a_parent_that_fails_fails_what_is_being_split_off_it) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, fails_when_it_has_told, "abort"));
}
Test(form_span, who_goes_when_it_has_told_that_it_comes_leaves_nobody_waiting) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, fails_when_it_has_told, "go"));
}

/* Process 1 goes before process 0 has begun to split. */
static int goes_before_a_split(const process_t *process, void *arg) {
    ucc_team_h parent, team;
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    bool ok = form_parents(&s, &parent);
    if (process->me == 1) {
        must(ucc_team_create_from_parent(1, 1, parent, &team), "from_parent");
        destroy(&team, 1); /* which waits two seconds for process 0 */
    }
    process_barrier(process);
    if (process->me == 0) {
        ucc_status_t status = ucc_team_create_from_parent(0, 1, parent, &team);
        if (status == UCC_OK) {
            drive(&team, 1, &status);
            destroy(&team, 1);
        }
        ok &= status == UCC_ERR_NOT_FOUND;
    }
    process_barrier(process);
    destroy(&parent, 1);
    return !(stage_close(&s) && ok);
}

Test(form_span, who_goes_before_others_have_begun_to_split_leaves_nobody_waiting) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, goes_before_a_split, NULL));
}

/* The last endpoint of process 1 has memory for so many allocations only; if it has another one,
 * that has come to a list of all already. */
typedef struct shortage {
    long allocations;
    bool maps;    /* the list is an ep_map over contexts, not of a parent's endpoints */
    size_t bytes; /* of the endpoint's part of the team's memory */
} shortage_t;

static ucc_status_t post_list(const shortage_t *shortage, ucc_context_h context, ucc_team_h parent,
                              ucc_team_h *team) {
    uint64_t all[] = {0, 1, 2, 3}, *list = all;
    uint64_t n = parent ? parent->n : context->peers.n;
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP,
                                .ep_map = {.type = UCC_EP_MAP_FULL, .ep_num = n}};
    heddle_team_params_t extra = {.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY,
                                  .memory = {.bytes = shortage->bytes}};
    return shortage->maps ? heddle_team_create_post(&context, 1, &params, &extra, team)
                          : ucc_create_team_from_eps(parent, &list, n, team);
}

static void count_errors(hd_log_level_t level, const char *line, void *arg) {
    (void)line;
    *(_Atomic uint32_t *)arg += level == HD_LOG_ERROR;
}

static int last_lacks_memory(const process_t *process, void *arg) {
    const shortage_t *shortage = arg;
    ucc_team_h parents[2] = {NULL}, teams[2];
    ucc_status_t statuses[2];
    uint32_t n = process->n;
    _Atomic uint32_t lines = 0;
    hd_log_capture(count_errors, &lines);
    stage_t s = stage_open(process, shortage->maps);
    bool ok = shortage->maps || form_parents(&s, parents), formed = false;
    for (uint32_t round = 0; round < 2; round++) { /* in the second, it has counted this list */
        uint32_t here = 0;
        for (uint32_t k = 0; k < n; k++) {
            bool lacks = round && process->me && k + 1 == n;
            lines = 0;
            hd_alloc_fail_after(lacks ? shortage->allocations : -1);
            ucc_status_t status = post_list(shortage, s.contexts[k], parents[k], &teams[k]);
            hd_alloc_fail_after(-1);
            here += status == UCC_OK;
            bool may_fail = lacks ? lines > 0 : here > 0; /* it may have been heard of by then */
            ok &= status == UCC_OK || (round && may_fail && status == UCC_ERR_NO_MEMORY);
            if (here) {
                (void)ucc_team_create_test(teams[0]);
            }
        }
        drive(teams, here, statuses);
        formed = here == n && statuses[n - 1] == UCC_OK;
        ok &= all_are(statuses, here, formed ? UCC_OK : UCC_ERR_NO_MEMORY);
        destroy(teams, here);
    }
    process_set(process, 0, formed);
    process_barrier(process);
    destroy(parents, shortage->maps ? 0 : n);
    return !(stage_close(&s) && ok);
}

static void form_with_more_and_more(shape_t shape, shortage_t shortage) {
    bool formed = false;
    for (; shortage.allocations < 100 && !formed; shortage.allocations++) {
        outcome_t outcome = processes_run(&shape, SECONDS, last_lacks_memory, &shortage);
        cr_assert(outcome.ok, "with %ld allocations", shortage.allocations);
        formed = outcome.value[0][0];
    }
    cr_assert(formed && shortage.allocations > 4);
}

Test(form_span, who_lacks_memory_for_a_list_tells_those_who_have_come) {
    form_with_more_and_more(shape_even(2, 2), (shortage_t){.maps = false});
}
Test(form_span, so_does_who_is_alone_in_its_process) {
    form_with_more_and_more(shape_even(2, 1), (shortage_t){.maps = false});
}
Test(form_span, who_lacks_memory_for_a_map_tells_those_who_have_come) {
    form_with_more_and_more(shape_even(2, 2), (shortage_t){.maps = true, .bytes = 64});
}
Test(form_span, so_does_who_has_a_map_alone_in_its_process) {
    form_with_more_and_more(shape_even(2, 1), (shortage_t){.maps = true, .bytes = 64});
}

/* --- endpoints that leave --------------------------------------------------------------------- */

/* Process 0 makes a team of both, waits for process 1 with a time-out, and leaves: the greeting
 * ends with the team, whoever may still hold it. */
static int leaves_in_the_greeting(const process_t *process, void *arg) {
    static const uint32_t both[] = {0, 1};
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    heddle_group_t *group;
    heddle_ep_t *ep, *sub;
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    bool ok = true;
    for (uint32_t me = 0; me < 2; me++, process_barrier(process)) {
        if (process->me == me) {
            ucc_coll_req_h request;
            ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                    .flags = UCC_COLL_ARGS_FLAG_TIMEOUT,
                                    .coll_type = UCC_COLL_TYPE_BARRIER,
                                    .timeout = me ? 60 : 0.05};
            must(heddle_subset(ep, both, 2, &sub), "heddle_subset");
            must(ucc_collective_init(&args, &request, heddle_ep_team(sub)), "init");
            ucc_status_t posted = ucc_collective_post(request); /* which may know by now */
            ok &= (posted == UCC_OK ? heddle_wait(request, 60) : posted) == UCC_ERR_TIMED_OUT;
            must(ucc_collective_finalize(request), "finalize");
            must(heddle_leave(sub), "heddle_leave");
        }
    }
    ok &= heddle_barrier(ep) == UCC_OK;
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return !(ok && !hd_net_opened());
}

/* Process 1 leaves a team and lives on; what process 0 starts there after that fails, and with it
 * the team, but no other one. how: 0: a small collective; 1: a large one; 2: one by tag. */
static int starts_after_the_other_has_left(const process_t *process, void *arg) {
    static const uint32_t both[] = {0, 1};
    static uint8_t src[1 << 20], dst[1 << 20];
    const int how = *(const int *)arg;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    heddle_group_t *group;
    heddle_ep_t *ep, *sub;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_subset(ep, both, 2, &sub), "heddle_subset");
    must(heddle_allreduce(sub, src, dst, 8, UCC_DT_UINT8, UCC_OP_SUM), "heddle_allreduce");
    must(heddle_barrier(ep), "heddle_barrier");
    bool ok = true;
    if (process->me == 1) {
        must(heddle_leave(sub), "heddle_leave");
        process_barrier(process);
    } else {
        ucc_coll_req_h request;
        ucc_coll_args_t args = {
            .mask = how == 2 ? UCC_COLL_ARGS_FIELD_TAG : 0,
            .tag = 7,
            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
            .src.info = {src, how == 1 ? sizeof(src) : 8, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
            .dst.info = {dst, how == 1 ? sizeof(src) : 8, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
            .op = UCC_OP_SUM};
        process_barrier(process);
        must(ucc_collective_init(&args, &request, heddle_ep_team(sub)), "init");
        ucc_status_t posted = ucc_collective_post(request); /* which may know by now */
        ok &= (posted == UCC_OK ? heddle_wait(request, 30) : posted) == UCC_ERR_NOT_FOUND;
        must(ucc_collective_finalize(request), "finalize");
        must(heddle_leave(sub), "heddle_leave");
    }
    ok &= heddle_barrier(ep) == UCC_OK;
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return !ok;
}

Test(form_span, what_is_started_after_another_process_has_left_fails) {
    shape_t shape = shape_even(2, 1);
    for (int how = 0; how < 3; how++) {
        cr_expect(runs(&shape, starts_after_the_other_has_left, &how), "%d", how);
    }
}

Test(form_span, who_leaves_before_others_have_come_leaves_nothing_behind) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, leaves_in_the_greeting, NULL));
}

/* --- many ------------------------------------------------------------------------------------- */

/* Process 0's ways to the last one have broken, which lives, and nobody else knows. */
static int forms_with_one_that_is_lost(const process_t *process, void *arg) {
    ucc_team_h old[MOST], teams[MOST];
    ucc_status_t statuses[MOST];
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stage_t s = stage_open(process, false);
    for (uint32_t k = 0; k < s.n; k++) {
        post(&s, k, 0, &old[k]);
    }
    drive(old, s.n, statuses);
    bool ok = all_are(statuses, s.n, UCC_OK);
    process_barrier(process);
    if (process->me == 0) {
        const hd_net_team_t *team = old[0]->crossing->team;
        hd_peer_lose(team->peer[team->n - 1], "a test says so");
    }
    process_barrier(process);
    bool together = false;
    for (uint32_t attempt = 0; attempt < 20 && !together;
         attempt++) { /* the other hears of it late */
        for (uint32_t k = 0; k < s.n; k++) {
            post(&s, k, 1, &teams[k]);
        }
        drive(teams, s.n, statuses);
        process_set(process, 0, all_are(statuses, s.n, UCC_OK));
        process_barrier(process);
        together = true;
        for (uint32_t p = 0; p < process->shape->processes; p++) {
            together = together && process_get(process, p, 0);
        }
        destroy(teams, s.n);
        process_barrier(process);
    }
    ok &= together;
    destroy(old, s.n);
    return !(stage_close(&s) && ok);
}

Test(form_span, a_process_to_which_the_ways_have_broken_has_new_ones_in_the_next_team) {
    processes_use_network();
    shape_t shape = shape_even(3, 2);
    cr_assert(runs(&shape, forms_with_one_that_is_lost, NULL));
}

static int forms_again_and_again(const process_t *process, void *arg) {
    enum { ROUNDS = 120, WARM = 40 };
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    stage_t s = stage_open(process, false);
    size_t before = 0;
    bool ok = true;
    (void)arg;
    for (uint32_t round = 0; round < ROUNDS && ok; round++) {
        if (round == WARM) {
            before = mallinfo2().uordblks;
        }
        for (uint32_t k = 0; k < s.n; k++) {
            post(&s, k, 0, &teams[k]);
        }
        drive(teams, s.n, statuses);
        ok = all_are(statuses, s.n, UCC_OK);
        destroy(teams, s.n);
    }
    size_t after = mallinfo2().uordblks, grown = after > before ? after - before : 0;
    process_barrier(process);
    if (grown > 256 << 10) { /* a team of these takes more than that */
        fprintf(stderr, "%zu bytes more after %d teams\n", grown, ROUNDS - WARM);
        ok = false;
    }
    return !(stage_close(&s) && ok);
}

Test(form_span, teams_one_after_the_other_take_no_more_memory) {
    shape_t shape = shape_even(2, 1);
    cr_assert(runs(&shape, forms_again_and_again, NULL));
}

typedef struct job {
    stage_t *stage;
    uint32_t k, board;
    ucc_status_t status;
} job_t;

static void *form_one(void *arg) {
    job_t *job = arg;
    ucc_team_h team;
    post(job->stage, job->k, job->board, &team);
    drive(&team, 1, &job->status);
    world_destroy_team(team);
    return NULL;
}

static int forms_at_once(const process_t *process, void *arg) {
    enum { TEAMS = 4 };
    pthread_t threads[TEAMS * MOST];
    job_t jobs[TEAMS * MOST];
    stage_t s = stage_open(process, false);
    bool ok = true;
    (void)arg;
    for (uint32_t i = 0; i < TEAMS * s.n; i++) {
        jobs[i] = (job_t){.stage = &s, .k = i % s.n, .board = i / s.n};
        pthread_create(&threads[i], NULL, form_one, &jobs[i]);
    }
    for (uint32_t i = 0; i < TEAMS * s.n; i++) {
        pthread_join(threads[i], NULL);
        ok &= jobs[i].status == UCC_OK;
    }
    return !(stage_close(&s) && ok);
}

Test(form_span, several_teams_form_at_once_by_threads_of_their_own) {
    shape_t shape = {.processes = 2, .endpoints = {2, 3}};
    cr_assert(runs(&shape, forms_at_once, NULL));
}

/* --- idle contexts ---------------------------------------------------------------------------- */

/* Process 0 aborts the team; the others have nothing under way, and only progress their contexts.
 */
static int hears_while_idle(const process_t *process, void *arg) {
    ucc_team_h team;
    ucc_status_t status;
    stage_t s = stage_open(process, false);
    (void)arg;
    post(&s, 0, 0, &team);
    drive(&team, 1, &status);
    bool ok = status == UCC_OK;
    process_barrier(process);
    if (process->me == 0) {
        must(heddle_team_abort(team), "heddle_team_abort");
    }
    deadline_t deadline = deadline_start("idle processes to hear of an abort");
    while (hd_group_poisoned(team->group) == UCC_OK) {
        must(ucc_context_progress(s.contexts[0]), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    process_barrier(process);
    destroy(&team, 1);
    return !(stage_close(&s) && ok);
}

Test(form_span, an_idle_process_hears_that_its_team_has_failed) {
    shape_t shape = shape_even(3, 1);
    cr_assert(runs(&shape, hears_while_idle, NULL));
}
