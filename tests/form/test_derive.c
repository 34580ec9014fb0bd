/* test_derive.c: teams that are made of members of a team with several nodes share memory node by
 * node, as that does; or use the network, where they can't; or fail at all of them alike. One
 * thread drives each process's endpoints.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/ucx_losses.h"
#include "../support/world.h"
#include "core/log.h"
#include "form/internal.h"
#include "net/internal.h"
#include "span/span.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(derive, .timeout = 120);

enum { MOST = 16, SECONDS = 60, VICTIM = 2 };

/* --- teams ------------------------------------------------------------------------------------ */

/* This process's endpoints of a team that is made of members of another one: k-th of the parent's,
 * NULL where that takes no part. */
typedef struct made {
    ucc_team_h team[MOST];
    uint32_t size;
} made_t;

static void use_nodes(void) {
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    setenv("HEDDLE_NET_TLS", "tcp,self", 1); /* UCX's shared memory is a file, too */
    unsetenv("HEDDLE_NET");
}

static world_t *open_world(const process_t *process) {
    use_nodes();
    return world_create(
        &(world_params_t){.size = process->size, .form = WORLD_OOB, .process = process});
}

static made_t all_of(const world_t *world) {
    made_t made = {.size = world->size};
    for (uint32_t k = 0; k < world_count(world); k++) {
        made.team[k] = world->teams[world_endpoint(world, k)];
    }
    return made;
}

/* How members make a team: all of the parent say whether they take part; or only they call. */
typedef enum by { BY_PARENT, BY_LIST, WAYS } by_t;
static by_t by;

/* An endpoint of the parent's team begins, or takes no part (*team is NULL then). */
static ucc_status_t begin_one(ucc_team_h parent, uint32_t included, ucc_team_h *team) {
    uint64_t list[32], *entries = list, n = 0;
    for (uint32_t i = 0; i < 32; i++) {
        list[n] = i;
        n += included >> i & 1;
    }
    *team = NULL;
    if (by == BY_PARENT) {
        return ucc_team_create_from_parent(parent->ep, included >> parent->ep & 1, parent, team);
    }
    bool in = included >> parent->ep & 1;
    return in ? ucc_create_team_from_eps(parent, &entries, n, team) : UCC_OK;
}

/* Those of the parent's members whose bits are set, by their numbers there, begin a team. */
static made_t begin(const world_t *world, const made_t *parent, uint32_t included) {
    made_t made = {.size = (uint32_t)__builtin_popcount(included)};
    for (uint32_t k = 0; k < world_count(world); k++) {
        if (parent->team[k]) {
            must(begin_one(parent->team[k], included, &made.team[k]), "a team of members");
        }
    }
    return made;
}

/* Drives one until all of mine have formed, or have failed: the first failure. */
static ucc_status_t drive(const world_t *world, made_t *made) {
    ucc_status_t status[MOST] = {0}, result = UCC_OK;
    deadline_t deadline = deadline_start("a team of members to form");
    for (uint32_t left = 1; left > 0;) {
        left = 0;
        for (uint32_t k = 0; k < world_count(world); k++) {
            status[k] = made->team[k] ? ucc_team_create_test(made->team[k]) : UCC_OK;
            left += status[k] == UCC_INPROGRESS;
        }
        deadline_poll(&deadline);
    }
    for (uint32_t k = 0; k < world_count(world); k++) {
        result = result == UCC_OK ? status[k] : result;
        if (made->team[k] && made->team[k]->state == HD_TEAM_EXCLUDED) {
            world_destroy_team(made->team[k]);
            made->team[k] = NULL;
        }
    }
    return result;
}

static void destroy(const world_t *world, made_t *made) {
    for (uint32_t k = 0; k < world_count(world); k++) {
        if (made->team[k]) {
            world_destroy_team(made->team[k]);
        }
    }
}

static ucc_team_h one_of(const world_t *world, const made_t *made) {
    ucc_team_h team = NULL;
    for (uint32_t k = 0; k < world_count(world); k++) {
        team = made->team[k] ? made->team[k] : team;
    }
    return team;
}

/* --- collectives ------------------------------------------------------------------------------ */

/* What each collective gives: `count` numbers for each of the team's endpoints, or one lot. */
typedef struct coll {
    ucc_coll_type_t type;
    bool gives_each, takes_each;
    uint64_t (*wanted)(uint64_t from, uint64_t me, uint64_t size, uint64_t i);
} coll_t;

static uint64_t given(uint64_t from, uint64_t to, uint64_t i) {
    return (from + 1) * 1000003 + to * 10007 + i;
}

static uint64_t gathered(uint64_t from, uint64_t me, uint64_t size, uint64_t i) {
    (void)me;
    (void)size;
    return given(from, 0, i);
}

static uint64_t swapped(uint64_t from, uint64_t me, uint64_t size, uint64_t i) {
    (void)size;
    return given(from, me, i);
}

static uint64_t of_last(uint64_t from, uint64_t me, uint64_t size, uint64_t i) {
    (void)from;
    (void)me;
    return given(size - 1, 0, i);
}

static uint64_t summed(uint64_t from, uint64_t me, uint64_t size, uint64_t i) {
    uint64_t sum = 0;
    (void)from;
    (void)me;
    for (uint64_t e = 0; e < size; e++) {
        sum += given(e, 0, i);
    }
    return sum;
}

static const coll_t colls[] = {{UCC_COLL_TYPE_ALLREDUCE, false, false, summed},
                               {UCC_COLL_TYPE_ALLGATHER, false, true, gathered},
                               {UCC_COLL_TYPE_BCAST, false, false, of_last},
                               {UCC_COLL_TYPE_ALLTOALL, true, true, swapped}};

typedef struct running {
    ucc_coll_req_h request;
    uint64_t *src, *dst, ep;
} running_t;

static running_t post(const coll_t *coll, ucc_team_h team, uint64_t size, uint64_t count) {
    running_t r = {.ep = team->ep};
    uint64_t gives = coll->gives_each ? size : 1, takes = coll->takes_each ? size : 1;
    r.src = calloc(gives * count, sizeof(*r.src));
    r.dst = calloc(takes * count, sizeof(*r.dst));
    for (uint64_t to = 0; to < gives; to++) {
        for (uint64_t i = 0; i < count; i++) {
            r.src[to * count + i] = given(r.ep, to, i);
        }
    }
    bool bcast = coll->type == UCC_COLL_TYPE_BCAST;
    if (bcast && r.ep == size - 1) {
        memcpy(r.dst, r.src, count * sizeof(*r.dst));
    }
    ucc_coll_args_t args = {
        .coll_type = coll->type,
        .src.info = {bcast ? r.dst : r.src, gives * count, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
        .dst.info = {r.dst, takes * count, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
        .op = UCC_OP_SUM,
        .root = size - 1};
    must(ucc_collective_init(&args, &r.request, team), "ucc_collective_init");
    must(ucc_collective_post(r.request), "ucc_collective_post");
    return r;
}

static bool is_right(const coll_t *coll, const running_t *r, uint64_t size, uint64_t count) {
    bool right = true;
    for (uint64_t from = 0; from < (coll->takes_each ? size : 1); from++) {
        for (uint64_t i = 0; i < count; i++) {
            right &= r->dst[from * count + i] == coll->wanted(from, r->ep, size, i);
        }
    }
    return right;
}

static bool runs_one(const world_t *world, const made_t *made, const coll_t *coll, uint64_t count) {
    running_t running[MOST] = {0};
    bool right = true;
    for (uint32_t k = 0; k < world_count(world); k++) {
        if (made->team[k]) {
            running[k] = post(coll, made->team[k], made->size, count);
        }
    }
    deadline_t deadline = deadline_start("a collective of members");
    for (bool all = false; !all;) {
        all = true;
        for (uint32_t k = 0; k < world_count(world); k++) {
            if (made->team[k]) {
                ucc_context_progress(world_context(world, world_endpoint(world, k)));
                ucc_status_t status = ucc_collective_test(running[k].request);
                must(status < 0 ? status : UCC_OK, "a collective");
                all = all && status == UCC_OK;
            }
        }
        deadline_poll(&deadline);
    }
    for (uint32_t k = 0; k < world_count(world); k++) {
        if (made->team[k]) {
            right &= is_right(coll, &running[k], made->size, count);
            must(ucc_collective_finalize(running[k].request), "ucc_collective_finalize");
            free(running[k].src);
            free(running[k].dst);
        }
    }
    return right;
}

/* All collectives, small ones and large ones, bring what they should. */
static bool works(const world_t *world, const made_t *made) {
    static const uint64_t counts[] = {1, 700, 40000};
    bool right = true;
    for (size_t c = 0; c < sizeof(colls) / sizeof(colls[0]); c++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            right &= runs_one(world, made, &colls[c], counts[i]);
        }
    }
    return right;
}

/* --- what is shared --------------------------------------------------------------------------- */

/* Returns how many nodes the team has, each process of its own counted as one; 0: all of it shares
 * memory, or lives in this process. */
static uint32_t nodes_of(const world_t *world, const made_t *made) {
    ucc_team_h team = one_of(world, made);
    const hd_crossing_t *crossing = team ? team->crossing : NULL;
    const hd_nodes_t *nodes = crossing ? crossing->nodes : NULL;
    return nodes ? nodes->span->processes : crossing ? crossing->span->processes : 0;
}

/* One team after the other, each checked: with so many nodes. */
typedef struct step {
    uint32_t included, nodes;
} step_t;

static int make_some(const process_t *process, void *arg) {
    const step_t *step = arg;
    world_t *world = open_world(process);
    made_t parent = all_of(world);
    bool ok = true;
    for (uint32_t i = 0; step[i].included && ok; i++) {
        made_t made = begin(world, &parent, step[i].included);
        ok = drive(world, &made) == UCC_OK;
        ok = ok && works(world, &made);
        ok = ok && (!one_of(world, &made) || nodes_of(world, &made) == step[i].nodes);
        if (!ok) {
            fprintf(stderr, "process %u, team %#x: %u nodes\n", process->me, step[i].included,
                    nodes_of(world, &made));
        }
        destroy(world, &made);
    }
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

/* In all ways. */
static bool runs(const shape_t *shape, int (*work)(const process_t *, void *), void *arg) {
    bool ok = true;
    for (by = BY_PARENT; ok && by < WAYS; by++) {
        ok = processes_run(shape, SECONDS, work, arg).ok;
        if (!ok) {
            fprintf(stderr, "by %s\n", by == BY_PARENT ? "a parent" : "a list");
        }
    }
    return ok;
}

Test(derive, members_of_a_team_with_nodes_share_memory_node_by_node) {
    /* processes 0 and 2 are a node: endpoints 0, 4 and 2, 6 */
    static step_t steps[] = {{0xff, 2}, {0x7e, 2}, {0x0f, 2}, {0x0d, 2}, {0}};
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_some, steps));
}

Test(derive, those_of_one_node_need_no_network) {
    static step_t steps[] = {{0x55, 0}, {0x05, 0}, {0xaa, 0}, {0x11, 0}, {0x44, 0}, {0}};
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_some, steps));
}

Test(derive, those_of_which_each_is_alone_on_its_node_use_the_network) {
    static step_t steps[] = {{0x33, 2}, {0x12, 2}, {0xcc, 2}, {0}};
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_some, steps));
}

Test(derive, so_do_all_where_sums_must_not_depend_on_nodes) {
    static step_t steps[] = {{0xff, 4}, {0x55, 2}, {0}};
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    setenv("HEDDLE_REPRODUCIBLE", "placement", 1);
    cr_assert(runs(&shape, make_some, steps));
}

Test(derive, uneven_processes_in_any_order_are_no_different) {
    static step_t steps[] = {{0xfff, 2}, {0xf0f, 2}, {0x3de, 2}, {0xfff, 2}, {0}};
    shape_t shape = {
        .processes = 5, .endpoints = {3, 1, 4, 2, 2}, .numbering = NUMBERING_CONSECUTIVE};
    cr_assert(runs(&shape, make_some, steps));
}

/* --- several, and of several levels ----------------------------------------------------------- */

static int make_at_once(const process_t *process, void *arg) {
    static const uint32_t included[] = {0xff, 0x5f, 0x55, 0xf0, 0xfe, 0x3c};
    enum { TEAMS = sizeof(included) / sizeof(included[0]) };
    world_t *world = open_world(process);
    made_t parent = all_of(world), made[TEAMS];
    bool ok = true;
    (void)arg;
    for (uint32_t i = 0; i < TEAMS; i++) {
        made[i] = begin(world, &parent, included[i]);
    }
    for (uint32_t i = TEAMS; i-- > 0;) { /* the last one first */
        ok &= drive(world, &made[i]) == UCC_OK;
    }
    for (uint32_t i = 0; i < TEAMS; i++) {
        ok = ok && works(world, &made[i]);
        destroy(world, &made[i]);
    }
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

Test(derive, several_that_form_at_once_do_not_meet) {
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_at_once, NULL));
}

/* Each without the last endpoint of the one before; those before it go meanwhile. */
static int make_of_made(const process_t *process, void *arg) {
    world_t *world = open_world(process);
    made_t made = all_of(world);
    bool ok = true, first = true;
    (void)arg;
    while (ok && made.size > 1) {
        made_t next = begin(world, &made, (1u << (made.size - 1)) - 1);
        if (!first) {
            destroy(world, &made);
        }
        ok = drive(world, &next) == UCC_OK && works(world, &next);
        made = next;
        first = false;
    }
    destroy(world, &made);
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

Test(derive, those_that_were_made_make_others_and_may_go_before_them) {
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_of_made, NULL));
}

/* Of those of one node, and of what is left of them when one is killed. */
static int make_of_one_node(const process_t *process, void *arg) {
    world_t *world = open_world(process);
    made_t parent = all_of(world), node = begin(world, &parent, 0x15);
    bool ok = drive(world, &node) == UCC_OK && works(world, &node);
    (void)arg;
    if (one_of(world, &node)) {
        made_t some = begin(world, &node, 6), left = {.size = 2};
        ok = ok && drive(world, &some) == UCC_OK && works(world, &some);
        destroy(world, &some);
        ok = ok && nodes_of(world, &node) == 0 && works(world, &node);
        setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
        if (process->me == 4) {
            kill(getpid(), SIGKILL);
        }
        deadline_t deadline = deadline_start("the loss to be known");
        while (hd_group_poisoned(node.team[0]->group) == UCC_OK) {
            deadline_poll(&deadline);
        }
        must(heddle_team_shrink(node.team[0], &left.team[0]), "heddle_team_shrink");
        ok = ok && drive(world, &left) == UCC_OK && works(world, &left);
        destroy(world, &left);
        destroy(world, &node);
    }
    world_destroy(world);
    return !ok;
}

Test(derive, those_of_one_node_make_others_and_lose_one_as_if_there_were_no_other_node) {
    shape_t shape = shape_even(5, 1);
    shape.doomed = 1u << 4;
    cr_assert(runs(&shape, make_of_one_node, NULL));
}

/* Others hear that a process has left the parent, although a team of its members is still there. */
static int leave_the_parent(const process_t *process, void *arg) {
    world_t *world = open_world(process);
    made_t parent = all_of(world), made = begin(world, &parent, 0xf);
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request;
    ucc_status_t status = UCC_ERR_NOT_FOUND;
    (void)arg;
    bool ok = drive(world, &made) == UCC_OK && works(world, &made);
    process_barrier(process);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    if (process->me > 0) {
        world_destroy_team(parent.team[0]);
        world->teams[world_endpoint(world, 0)] = NULL;
    } else {
        must(ucc_collective_init(&args, &request, parent.team[0]), "ucc_collective_init");
        status = ucc_collective_post(request);
        deadline_t deadline = deadline_start("what others have left to fail");
        while (status >= 0 && (status = ucc_collective_test(request)) == UCC_INPROGRESS) {
            ucc_context_progress(world_context(world, world_endpoint(world, 0)));
            deadline_poll(&deadline);
        }
        ucc_collective_finalize(request);
    }
    process_barrier(process);
    ok = ok && status == UCC_ERR_NOT_FOUND && works(world, &made);
    destroy(world, &made);
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

Test(derive, who_leaves_the_parent_is_not_kept_there_by_its_members) {
    shape_t shape = shape_even(4, 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert(runs(&shape, leave_the_parent, NULL));
}

/* --- ahead of others -------------------------------------------------------------------------- */

/* Teams that are used before all have come use the network, and wait for nobody to be made: process
 * me comes to all of them before it uses one, the last ones first if it is odd. */
static int go_ahead(const process_t *process, void *arg) {
    static const uint32_t list[][4] = {{0, 1, 2, 3}, {3, 1, 2, 0}, {0, 2, 0, 0}, {1, 3, 0, 0}};
    static const uint32_t n[] = {4, 4, 2, 2};
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    heddle_group_t *group;
    heddle_ep_t *ep, *sub[4] = {NULL};
    bool ok = true;
    (void)arg;
    use_nodes();
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t i = process->me % 2 ? 3 - k : k;
        bool in = n[i] == 4 || list[i][0] == process->me || list[i][1] == process->me;
        must(in ? heddle_subset(ep, list[i], n[i], &sub[i]) : UCC_OK, "heddle_subset");
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t one[300], sum[300] = {0};
        for (uint32_t j = 0; j < 300; j++) {
            one[j] = j + process->me;
        }
        if (sub[i]) {
            must(heddle_allreduce(sub[i], one, sum, 300, UCC_DT_UINT64, UCC_OP_SUM), "allreduce");
            uint64_t all = n[i] == 4 ? 6 : list[i][0] + list[i][1];
            for (uint32_t j = 0; j < 300; j++) {
                ok &= sum[j] == (uint64_t)j * n[i] + all;
            }
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        must(sub[i] ? heddle_leave(sub[i]) : UCC_OK, "heddle_leave");
    }
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return !ok;
}

Test(derive, teams_that_are_used_before_all_have_come_do_without_shared_memory) {
    shape_t shape = shape_even(4, 1);
    cr_assert(processes_run(&shape, SECONDS, go_ahead, NULL).ok);
}

/* --- one that can't share --------------------------------------------------------------------- */

/* The processes whose bits are in arg can make no segments; and no team is anything but right. */
static int make_without(const process_t *process, void *arg) {
    static const uint32_t included[] = {0xff, 0x55, 0xf7, 0xaa};
    uint32_t lack = *(const uint32_t *)arg;
    world_t *world = open_world(process);
    made_t parent = all_of(world);
    bool ok = true, one_lacks = (lack & 5) == 5, other_lacks = (lack & 10) == 10;
    if (lack >> process->me & 1) {
        process_limit_files(4096);
    }
    for (uint32_t i = 0; ok && i < 4; i++) {
        made_t made = begin(world, &parent, included[i]);
        ok = drive(world, &made) == UCC_OK && works(world, &made);
        uint32_t nodes = nodes_of(world, &made);
        uint32_t wanted = included[i] == 0x55   ? one_lacks ? 2 : 0
                          : included[i] == 0xaa ? other_lacks ? 2 : 0
                                                : 2u + one_lacks + other_lacks;
        bool sure = lack == 0 || one_lacks; /* else it depends on who comes first */
        ok = ok && (!one_of(world, &made) || !sure || nodes == wanted);
        destroy(world, &made);
    }
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

Test(derive, processes_of_a_node_that_can_not_share_use_the_network_and_the_others_go_on) {
    static uint32_t node = 5;
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_without, &node));
}

Test(derive, if_one_of_them_can_not_both_find_out_alike) {
    static uint32_t one = 1;
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_without, &one));
}

Test(derive, if_no_node_can_all_use_the_network) {
    static uint32_t all = 15;
    shape_t shape = {.processes = 4, .endpoints = {2, 2, 2, 2}, .numbering = NUMBERING_INTERLEAVED};
    cr_assert(runs(&shape, make_without, &all));
}

/* --- one that goes ---------------------------------------------------------------------------- */

typedef enum way { KILLED_EARLY, KILLED, DESTROYED, ABORTED } way_t;

/* Process 0 waits before it shares memory with the victim, which therefore waits for it. */
static void hold(const process_t *process, ucc_team_h team) {
    deadline_t deadline = deadline_start("all to have said who takes part");
    while (process->me == 0 && team->forming->step == STEP_SPLIT) {
        ucc_status_t status = hd_form_split(team);
        must(status < 0 ? status : UCC_OK, "hd_form_split");
        deadline_poll(&deadline);
    }
    while (process->me == VICTIM && team->forming->step != STEP_SHARE) {
        ucc_status_t status = ucc_team_create_test(team);
        must(status == UCC_INPROGRESS ? UCC_OK : UCC_ERR_LAST, "the victim's team");
        deadline_poll(&deadline);
    }
    for (uint32_t i = 0; process->me == VICTIM && i < 10; i++) {
        must(ucc_team_create_test(team) == UCC_INPROGRESS ? UCC_OK : UCC_ERR_LAST, "it waits");
    }
}

static int lose_one(const process_t *process, void *arg) {
    way_t way = *(const way_t *)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    world_t *world = open_world(process);
    made_t parent = all_of(world);
    bool victim = process->me == VICTIM, dies = way == KILLED_EARLY || way == KILLED;
    process_barrier(process);
    if (victim && way == KILLED_EARLY) {
        kill(getpid(), SIGKILL);
    }
    made_t made = {.size = 4};
    ucc_status_t status = begin_one(parent.team[0], 0xf, made.team);
    must(status == UCC_OK || way == KILLED_EARLY ? UCC_OK : status, "a team of members");
    ucc_status_t wanted = way == DESTROYED  ? UCC_ERR_NOT_FOUND
                          : by == BY_PARENT ? HEDDLE_ERR_ABORTED
                                            : UCC_OK; /* a list's members need no parent */
    if (way != KILLED_EARLY) {
        hold(process, made.team[0]);
        process_barrier(process);
    }
    if (victim && dies) {
        kill(getpid(), SIGKILL);
    }
    if (victim && way == DESTROYED) {
        world_destroy_team(made.team[0]);
        made.team[0] = NULL;
    } else if (victim) {
        must(heddle_team_abort(parent.team[0]), "heddle_team_abort");
    }
    deadline_t deadline = deadline_start("the victim to go");
    process_set(process, 0, 1);
    while (process->me == 0 &&
           (dies ? process_dead(process) == 0 : process_get(process, VICTIM, 0) == 0)) {
        deadline_poll(&deadline);
    }
    status = made.team[0] ? drive(world, &made) : status < 0 ? status : wanted;
    bool ok = dies ? status < 0 : status == wanted;
    if (!ok) {
        fprintf(stderr, "process %u: %s\n", process->me, ucc_status_string(status));
    }
    destroy(world, &made);
    if (!dies) {
        process_barrier(process);
    }
    world_destroy(world);
    return !ok;
}

static bool loses(way_t way) {
    shape_t shape = shape_even(4, 1);
    shape.doomed = way == KILLED_EARLY || way == KILLED ? 1u << VICTIM : 0;
    return runs(&shape, lose_one, &way);
}

Test(derive, a_process_that_dies_before_it_comes_fails_all) {
    cr_assert(loses(KILLED_EARLY));
}

Test(derive, a_process_that_dies_while_it_shares_fails_all) {
    cr_assert(loses(KILLED));
}

Test(derive, an_endpoint_that_goes_while_it_shares_fails_all_and_they_hear_why) {
    cr_assert(loses(DESTROYED));
}

Test(derive, a_parent_that_fails_while_they_share_fails_all) {
    cr_assert(loses(ABORTED));
}

/* --- one that does not come ------------------------------------------------------------------- */

/* Of the parent, which lives: a team that forms, works, and ends. */
static bool makes_the_next(const process_t *process, const world_t *world, const made_t *parent,
                           uint32_t included) {
    made_t made = begin(world, parent, included);
    bool ok = drive(world, &made) == UCC_OK && works(world, &made);
    destroy(world, &made);
    process_barrier(process);
    return ok;
}

/* Process 1 comes when all others have given up: it hears so, and they have the next team. */
static int come_late(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_TIMEOUT", "0.5", 1);
    world_t *world = world_create(
        &(world_params_t){.size = process->size, .form = WORLD_OOB, .process = process});
    made_t parent = all_of(world);
    for (uint32_t p = 0; process->me == 1 && p < process->shape->processes; p++) {
        deadline_t deadline = deadline_start("the others to give up");
        while (p != 1 && !process_get(process, p, 0)) {
            deadline_poll(&deadline);
        }
    }
    made_t made = {.size = process->size};
    ucc_status_t status = begin_one(parent.team[0], 0x7, &made.team[0]);
    status = status == UCC_OK ? drive(world, &made) : status;
    bool ok = status == UCC_ERR_TIMED_OUT;
    process_set(process, 0, 1);
    destroy(world, &made);
    process_barrier(process);
    ok = makes_the_next(process, world, &parent, 0x7) && ok;
    world_destroy(world);
    return !ok;
}

Test(derive, who_waits_for_one_that_does_not_come_times_out_and_the_parent_lives) {
    shape_t shape = shape_even(3, 1);
    cr_assert(processes_run(&shape, SECONDS, come_late, NULL).ok);
}

/* One that goes ahead of other processes. */
static ucc_team_h map_all(const process_t *process, const world_t *world, uint16_t id) {
    ucc_context_h context = world_context(world, world_endpoint(world, 0));
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE |
                                        UCC_TEAM_PARAM_FIELD_EP_MAP | UCC_TEAM_PARAM_FIELD_ID,
                                .ep = process->me,
                                .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                .ep_map = {.type = UCC_EP_MAP_FULL, .ep_num = process->size},
                                .id = id};
    made_t made = {.size = process->size};
    must(ucc_team_create_post(&context, 1, &params, &made.team[0]), "ucc_team_create_post");
    must(drive(world, &made), "a team by a map");
    return made.team[0];
}

/* Process 0 takes no part. It ends the parent as soon as its handle says that it may, or as soon as
 * it has destroyed that handle. The others come to the parent only when it has begun with that. */
static int end_a_parent_ahead(const process_t *process, void *arg) {
    enum { ROUNDS = 10, LATE_US = 3000 };
    bool drives = *(const bool *)arg, ok = true;
    world_t *world = world_create(
        &(world_params_t){.size = process->size, .form = WORLD_EP_MAP, .process = process});
    for (uint16_t round = 0; ok && round < ROUNDS; round++) {
        deadline_t deadline = deadline_start("process 0 to go ahead");
        while (process->me != 0 && process_get(process, 0, 0) <= round) {
            deadline_poll(&deadline);
        }
        usleep(process->me * LATE_US);
        made_t parent = {.size = process->size}, made = {.size = process->size - 1};
        parent.team[0] = map_all(process, world, (uint16_t)(round + 100));
        must(begin_one(parent.team[0], ~1u, &made.team[0]), "a team of members");
        process_set(process, 0, (uint64_t)round + 1);
        if (process->me == 0 && !drives) {
            destroy(world, &made);
            made.team[0] = NULL;
        }
        ok = drive(world, &made) == UCC_OK;
        destroy(world, &parent);
        ok = ok && (process->me == 0 || works(world, &made));
        destroy(world, &made);
        process_barrier(process);
    }
    world_destroy(world);
    return !ok;
}

Test(derive, who_takes_no_part_does_not_end_a_parent_before_others_have_found_it) {
    shape_t shape = shape_even(3, 1);
    bool drives = true;
    cr_assert(processes_run(&shape, SECONDS, end_a_parent_ahead, &drives).ok);
    drives = false;
    cr_assert(processes_run(&shape, SECONDS, end_a_parent_ahead, &drives).ok);
}

/* Process 0's endpoint goes when all have said that they come: those of its process and of
 * others. */
static int go_when_all_come(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    world_t *world = world_create(
        &(world_params_t){.size = process->size, .form = WORLD_OOB, .process = process});
    made_t parent = all_of(world), made = begin(world, &parent, 0x3f);
    deadline_t deadline = deadline_start("all to say that they come");
    while (process->me == 0 && hd_birth_status(made.team[0]->forming->birth) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    if (process->me == 0) {
        world_destroy_team(made.team[0]);
        made.team[0] = NULL;
    }
    bool ok = drive(world, &made) == UCC_ERR_NOT_FOUND;
    destroy(world, &made);
    process_barrier(process);
    ok = works(world, &parent) && ok; /* which lives */
    ok = makes_the_next(process, world, &parent, 0x3f) && ok;
    world_destroy(world);
    return !ok;
}

Test(derive, an_endpoint_that_goes_when_all_count_on_it_fails_the_new_team_alone) {
    shape_t shape = shape_even(3, 2);
    cr_assert(processes_run(&shape, SECONDS, go_when_all_come, NULL).ok);
}

/* --- without memory --------------------------------------------------------------------------- */

/* Who could not begin may not have been able to tell the others, who then need not wait. */
static ucc_status_t drive_unless_refused(const process_t *process, const world_t *world,
                                         made_t *made) {
    ucc_status_t result = UCC_INPROGRESS;
    deadline_t deadline = deadline_start("a team of members to form with little memory");
    while (result == UCC_INPROGRESS && !process_get(process, VICTIM, 2)) {
        result = UCC_OK;
        for (uint32_t k = 0; k < world_count(world); k++) {
            ucc_status_t status = made->team[k] ? ucc_team_create_test(made->team[k]) : UCC_OK;
            result = status != UCC_OK && result >= 0 ? status : result;
        }
        deadline_poll(&deadline);
    }
    return result;
}

/* The victim has memory for so many allocations more. All have the team, or none; or somebody who
 * has it hears that it has failed. */
static int make_with_little(const process_t *process, void *arg) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    world_t *world = open_world(process);
    made_t parent = all_of(world), made = {.size = 5};
    bool victim = process->me == VICTIM, all = true, early = by == BY_LIST;
    ucc_status_t status = UCC_OK, began = UCC_OK;
    hd_alloc_fail_after(victim && early ? *(const long *)arg : -1);
    for (uint32_t k = 0; k < world_count(world); k++) {
        status = begin_one(parent.team[k], 0x1f, &made.team[k]);
        began = status == UCC_OK ? began : status;
    }
    if (victim && !early) { /* who can't even begin may try again: others wait */
        hd_alloc_fail_after(*(const long *)arg);
    }
    process_set(process, 2, began != UCC_OK);
    status = drive_unless_refused(process, world, &made);
    status = began == UCC_OK ? status : began;
    hd_alloc_fail_after(-1);
    process_set(process, 0, status == UCC_OK);
    process_barrier(process);
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        all = all && process_get(process, p, 0);
    }
    deadline_t deadline = deadline_start("who has the team to hear that others don't");
    while (!all && status == UCC_OK && hd_group_poisoned(made.team[0]->group) == UCC_OK) {
        ucc_context_progress(world_context(world, world_endpoint(world, 0)));
        deadline_poll(&deadline);
    }
    bool ok = !all || works(world, &made);
    process_set(process, 1, all);
    destroy(world, &made);
    process_barrier(process);
    world_destroy(world);
    return !ok;
}

Test(derive, with_little_memory_in_one_process_all_have_the_team_or_none) {
    shape_t shape = {.processes = 4, .endpoints = {1, 1, 2, 1}};
    for (by = BY_PARENT; by < WAYS; by++) {
        uint32_t formed = 0;
        for (long n = by == BY_LIST; n < 200 && formed < 2; n += n < 24 ? 1 : 7) {
            outcome_t outcome = processes_run(&shape, SECONDS, make_with_little, &n);
            cr_assert(outcome.ok, "with %ld allocations, by %d", n, (int)by);
            formed += outcome.value[0][1] != 0;
        }
        cr_assert_gt(formed, 0);
    }
}
