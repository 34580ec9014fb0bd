/* test_contract_communicators.c: what the UCC component of an MPI library does, in several
 * processes of one endpoint each: one context for all, by an exchange; a team for each
 * communicator, by a map of its ranks and an id; progress from every idle loop; requests that are
 * finalized in their callbacks; teams that are destroyed without progress.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_communicators, .timeout = 120);

enum { SECONDS = 40, MOST = SHAPE_MOST_PROCESSES };

typedef struct client {
    const process_t *process;
    ucc_lib_h lib;
    ucc_context_h context;
} client_t;

typedef struct communicator {
    client_t *client;
    uint32_t n, me;
    uint32_t rank[MOST]; /* in the world */
    ucc_team_h team;
} communicator_t;

static client_t client_open(const process_t *process, ucc_thread_mode_t mode) {
    client_t c = {.process = process, .lib = world_lib(mode)};
    ucc_oob_coll_t oob = process_oob(process, 0, process->endpoint[0]);
    c.context = world_new_context(c.lib, UCC_CONTEXT_EXCLUSIVE, &oob);
    return c;
}

static bool client_close(client_t *c) {
    return ucc_context_destroy(c->context) == UCC_OK && ucc_finalize(c->lib) == UCC_OK;
}

/* --- communicators ---------------------------------------------------------------------------- */

static uint64_t world_rank(uint64_t rank, void *arg) {
    return ((const communicator_t *)arg)->rank[rank];
}

/* The ranks of `members`, a bit for each process, ascending or not. */
static communicator_t communicator_of(client_t *client, uint32_t members, bool reversed) {
    communicator_t c = {.client = client};
    uint32_t world = client->process->size;
    for (uint32_t i = 0; i < world; i++) {
        uint32_t r = reversed ? world - 1 - i : i;
        if (members >> r & 1) {
            c.me = r == client->process->endpoint[0] ? c.n : c.me;
            c.rank[c.n++] = r;
        }
    }
    return c;
}

static void communicator_post(communicator_t *c, uint64_t id) {
    ucc_team_params_t params;
    memset(&params, 0xA5, sizeof(params)); /* fields outside the mask are garbage */
    params.mask = UCC_TEAM_PARAM_FIELD_EP_MAP | UCC_TEAM_PARAM_FIELD_EP |
                  UCC_TEAM_PARAM_FIELD_EP_RANGE | UCC_TEAM_PARAM_FIELD_ID;
    params.ep_map.type = UCC_EP_MAP_CB;
    params.ep_map.ep_num = c->n;
    params.ep_map.cb.cb = world_rank;
    params.ep_map.cb.cb_ctx = c;
    params.ep = c->me;
    params.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    params.id = id;
    must(ucc_team_create_post(&c->client->context, 1, &params, &c->team), "ucc_team_create_post");
}

static void communicator_form(communicator_t *c, uint64_t id) {
    deadline_t deadline = deadline_start("a communicator to form");
    ucc_status_t status;
    communicator_post(c, id);
    while ((status = ucc_team_create_test(c->team)) == UCC_INPROGRESS) {
        must(ucc_context_progress(c->client->context), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    must(status, "ucc_team_create_test");
}

static communicator_t world_of(client_t *client) {
    communicator_t world =
        communicator_of(client, (UINT32_C(1) << client->process->size) - 1, false);
    communicator_form(&world, 0);
    return world;
}

/* --- collectives ------------------------------------------------------------------------------ */

typedef struct pending {
    ucc_coll_req_h request;
    bool over;
} pending_t;

static void completed(void *arg, ucc_status_t status) {
    pending_t *pending = arg;
    must(status, "a collective");
    must(ucc_collective_finalize(pending->request), "ucc_collective_finalize");
    pending->over = true;
}

/* A sum over the members of a number of mine, with nothing but a callback to end it; false: it is
 * wrong. */
static bool adds_up(communicator_t *c, int64_t of) {
    int64_t mine = of * (c->me + 1), sum = -1, expected = of * c->n * (c->n + 1) / 2;
    pending_t pending = {.over = false};
    ucc_coll_args_t args;
    memset(&args, 0xA5, sizeof(args));
    args.mask = UCC_COLL_ARGS_FIELD_CB;
    args.coll_type = UCC_COLL_TYPE_ALLREDUCE;
    args.src.info = (ucc_coll_buffer_info_t){&mine, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_UNKNOWN};
    args.dst.info = (ucc_coll_buffer_info_t){&sum, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_UNKNOWN};
    args.op = UCC_OP_SUM;
    args.cb.cb = completed;
    args.cb.data = &pending;
    must(ucc_collective_init(&args, &pending.request, c->team), "ucc_collective_init");
    must(ucc_collective_post(pending.request), "ucc_collective_post");
    deadline_t deadline = deadline_start("an allreduce");
    while (!pending.over) {
        must(ucc_context_progress(c->client->context), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    if (sum != expected) {
        fprintf(stderr, "rank %u of %u: %lld instead of %lld\n", c->me, c->n, (long long)sum,
                (long long)expected);
    }
    return sum == expected;
}

static bool runs(uint32_t processes, int (*work)(const process_t *, void *)) {
    shape_t shape = shape_even(processes, 1);
    return processes_run(&shape, SECONDS, work, NULL).ok;
}

/* --- one thread ------------------------------------------------------------------------------- */

static int splits_and_dups(const process_t *process, void *arg) {
    static const uint32_t odd_ones[] = {0xA, 0x5, 0xE, 0x9, 0xF};
    (void)arg;
    setenv("HEDDLE_TEAM_IDS", "auto", 1);
    client_t client = client_open(process, UCC_THREAD_SINGLE);
    communicator_t world = world_of(&client), all[10];
    uint32_t n = 0;
    bool ok = adds_up(&world, 7);
    for (uint32_t k = 0; k < 10; k++) {
        uint32_t members = odd_ones[k % 5];
        if (members >> process->me & 1) {
            all[n] = communicator_of(&client, members, k >= 5);
            communicator_form(&all[n], process->me + n); /* indices of each process's own */
            n++;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        ok &= adds_up(&all[k], 1 + (int64_t)all[k].n);
    }
    for (uint32_t k = 0; k < n; k++) {
        world_destroy_team(all[k].team);
    }
    ok &= adds_up(&world, 9);
    world_destroy_team(world.team);
    return !(client_close(&client) && ok);
}

Test(contract_communicators, may_be_any_part_of_the_world_under_ids_that_do_not_count) {
    cr_assert(runs(4, splits_and_dups));
}

static int makes_many(const process_t *process, void *arg) {
    enum { MANY = 200, STEP = 77 };
    static communicator_t all[MANY];
    (void)arg;
    client_t client = client_open(process, UCC_THREAD_SINGLE);
    communicator_t world = world_of(&client);
    bool ok = true;
    for (uint32_t k = 0; k < MANY; k++) {
        all[k] = communicator_of(&client, 3, k % 2);
        communicator_form(&all[k], k);
    }
    for (uint32_t k = 0; k < MANY; k++) {
        ok &= adds_up(&all[k * STEP % MANY], k);
    }
    for (uint32_t k = 0; k < MANY; k++) { /* not as they were made, and with others in use */
        world_destroy_team(all[k * STEP % MANY].team);
        ok &= k % 20 != 0 || adds_up(&world, k);
    }
    world_destroy_team(world.team);
    return !(client_close(&client) && ok);
}

Test(contract_communicators, two_hundred_live_at_once_and_end_in_any_order) {
    cr_assert(runs(2, makes_many));
}

/* --- several threads -------------------------------------------------------------------------- */

/* As if two threads made one each, and the MPI library let them do so one after the other. */
static int cross(const process_t *process, ucc_thread_mode_t mode) {
    client_t client = client_open(process, mode);
    communicator_t world = world_of(&client), pair[2];
    bool ok = true;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t id = k ^ process->me;
        pair[id] = communicator_of(&client, 3, false);
        communicator_form(&pair[id], 5 + id);
    }
    ok &= adds_up(&pair[0], 10);
    ok &= adds_up(&pair[1], 1000);
    world_destroy_team(pair[0].team);
    world_destroy_team(pair[1].team);
    world_destroy_team(world.team);
    return !(client_close(&client) && ok);
}

static int crosses(const process_t *process, void *arg) {
    (void)arg;
    return cross(process, UCC_THREAD_MULTIPLE);
}

Test(contract_communicators, of_the_same_processes_may_form_in_different_orders) {
    cr_assert(runs(2, crosses));
}

static int crosses_in_one_thread(const process_t *process, void *arg) {
    (void)arg;
    return cross(process, UCC_THREAD_SINGLE);
}

Test(contract_communicators, of_one_thread_may_form_in_different_orders) {
    cr_assert(runs(2, crosses_in_one_thread));
}

static int differs(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_TEAM_IDS", "never", 1);
    client_t client = client_open(process, UCC_THREAD_MULTIPLE);
    communicator_t pair = communicator_of(&client, 3, false);
    communicator_form(&pair, process->me);
    bool ok = adds_up(&pair, 3);
    world_destroy_team(pair.team);
    return !(client_close(&client) && ok);
}

Test(contract_communicators, of_several_threads_may_have_ids_that_differ_if_they_never_count) {
    cr_assert(runs(2, differs));
}

static int frees_early(const process_t *process, void *arg) {
    (void)arg;
    client_t client = client_open(process, UCC_THREAD_MULTIPLE);
    communicator_t world = world_of(&client), unused = communicator_of(&client, 7, false);
    for (uint32_t p = 0; p < process->size; p++) { /* one process after the other */
        if (p == process->me) {
            communicator_form(&unused, 5);
            world_destroy_team(unused.team);
        }
        process_barrier(process);
    }
    communicator_t again = communicator_of(&client, 7, false);
    communicator_form(&again, 5); /* of the same name */
    bool ok = adds_up(&again, 3) && adds_up(&world, 4);
    world_destroy_team(again.team);
    world_destroy_team(world.team);
    return !(client_close(&client) && ok);
}

Test(contract_communicators, may_end_in_one_process_before_another_has_formed_them) {
    cr_assert(runs(3, frees_early));
}
