/* test_swap.c: barriers and small allreduces of few processes: parts of an exchange, each in a message of its own
 * (src/net/swap.c, src/team/swap.c). Random mixes of these with all else are in tests/stress/span.c.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/world.h"
#include "net/internal.h"
#include "team/span.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(swap, .timeout = 120);

enum { SECONDS = 40, LARGE = 64 << 10 };

/* This process's endpoint of a team of all. */
typedef struct seat {
    ucc_lib_h lib;
    ucc_context_h context;
    ucc_team_h team;
} seat_t;

static seat_t sit(const process_t *process, uint32_t board) {
    seat_t s = {.lib = world_lib(UCC_THREAD_MULTIPLE)};
    s.context = world_new_context(s.lib, UCC_CONTEXT_SHARED, NULL);
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                .oob = process_oob(process, board, process->endpoint[0])};
    must(ucc_team_create_post(&s.context, 1, &params, &s.team), "ucc_team_create_post");
    world_finish_teams(1, &s.team);
    return s;
}

static void stand(seat_t *s) {
    world_destroy_team(s->team);
    must(ucc_context_destroy(s->context), "ucc_context_destroy");
    must(ucc_finalize(s->lib), "ucc_finalize");
}

static bool runs(uint32_t processes, int (*work)(const process_t *, void *), void *arg) {
    shape_t shape = shape_even(processes, 1);
    return processes_run(&shape, SECONDS, work, arg).ok;
}

static void nap(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static ucc_coll_args_t barrier_args(void) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BARRIER};
}

static ucc_coll_args_t allreduce_args(const void *src, void *dst, uint64_t count, ucc_datatype_t dt,
                                      ucc_reduction_op_t op) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE,
                             .op = op,
                             .src.info = {(void *)(uintptr_t)src, count, dt, UCC_MEMORY_TYPE_HOST},
                             .dst.info = {dst, count, dt, UCC_MEMORY_TYPE_HOST}};
}

static ucc_coll_args_t bcast_args(void *buffer, uint64_t bytes, uint64_t root) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BCAST,
                             .root = root,
                             .src.info = {buffer, bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST}};
}

static ucc_coll_req_h posted(ucc_team_h team, ucc_coll_args_t args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, team), "ucc_collective_init");
    must(ucc_collective_post(request), "ucc_collective_post");
    return request;
}

static ucc_status_t ended(ucc_coll_req_h request) {
    ucc_status_t status = heddle_wait(request, 30);
    if (status != UCC_INPROGRESS) {
        must(ucc_collective_finalize(request), "ucc_collective_finalize");
    }
    return status;
}

/* Also of one that is refused, since the team has failed. */
static ucc_status_t result_of(ucc_team_h team, ucc_coll_args_t args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, team), "ucc_collective_init");
    ucc_status_t status = ucc_collective_post(request), end = ended(request);
    return status == UCC_OK ? end : status;
}

/* --- what comes out ------------------------------------------------------------------------------------- */

static bool averages(const seat_t *s, uint32_t n, uint32_t me, uint32_t round) {
    double mine[6], all[6];
    for (uint32_t i = 0; i < 6; i++) {
        mine[i] = me + i + round;
    }
    ucc_coll_args_t args = allreduce_args(mine, all, 6, UCC_DT_FLOAT64, UCC_OP_AVG);
    bool ok = ended(posted(s->team, args)) == UCC_OK;
    for (uint32_t i = 0; i < 6; i++) {
        ok = ok && all[i] == (double)(n - 1) / 2 + i + round;
    }
    return ok;
}

static bool adds_in_place(const seat_t *s, uint32_t n, uint32_t me, uint32_t round) {
    int32_t x = (int32_t)(me + round);
    ucc_coll_args_t args = allreduce_args(NULL, &x, 1, UCC_DT_INT32, UCC_OP_SUM);
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    return ended(posted(s->team, args)) == UCC_OK && x == (int32_t)(n * (n - 1) / 2 + n * round);
}

static int is_right(const process_t *process, void *arg) {
    seat_t s = sit(process, 0);
    uint32_t n = process->size, me = process->endpoint[0];
    (void)arg;
    must(ended(posted(s.team, barrier_args())), "the first barrier");
    uint64_t before = hd_net_traffic().messages_sent;
    bool ok = hd_net_may_swap(s.team->crossing->team, HD_BARRIER);
    for (uint32_t i = 0; i < 300 && ok; i++) {
        ok = averages(&s, n, me, i) && adds_in_place(&s, n, me, i) &&
             ended(posted(s.team, barrier_args())) == UCC_OK;
    }
    ok &= hd_net_traffic().messages_sent - before == 3 * 300 * (n - 1);
    stand(&s);
    return !ok;
}

Test(swap, small_allreduces_and_barriers_take_a_message_to_each_other_process) {
    cr_assert(runs(2, is_right, NULL));
    cr_assert(runs(3, is_right, NULL));
}

/* As if so many collectives had been made: numbers travel with their lowest bits. */
static int goes_past_the_bits(const process_t *process, void *arg) {
    const uint64_t start = (UINT64_C(1) << HD_WIRE_SWAP_BITS) - 7;
    seat_t s = sit(process, 0);
    hd_member_t *member = s.team->group->board->member[0];
    bool ok = true;
    (void)arg;
    member->taken = member->floor = start;
    atomic_store(&member->consumed, start);
    atomic_store(&s.team->group->board->floor, start);
    s.team->crossing->team->swaps->latest = start;
    process_barrier(process);
    for (uint32_t i = 0; i < 100 && ok; i++) {
        ok = adds_in_place(&s, process->size, process->endpoint[0], i);
    }
    stand(&s);
    return !ok;
}

Test(swap, numbers_may_grow_beyond_what_travels_of_them) {
    cr_assert(runs(2, goes_past_the_bits, NULL));
}

/* --- a part whose place is taken -------------------------------------------------------------------------- */

enum { AHEAD = HD_SWAP_SLOTS / 2 };

/* Process 1 gives its part of the first allreduce, and does not look for the other's. Process 0 goes on, with bcasts of 1
 * and then bcasts of its own, until its part of an allreduce comes where the first one's still lies. */
static int comes_late(const process_t *process, void *arg) {
    seat_t s = sit(process, 0), other = sit(process, 1);
    ucc_coll_req_h request[HD_SWAP_SLOTS + 1];
    uint64_t first = process->me + 1, last = 10 * first, sums[2] = {0, 0}, data[HD_SWAP_SLOTS];
    bool ahead = process->me == 0;
    bool ok = true;
    (void)arg;
    if (ahead) {
        process_barrier(process); /* process 1 has posted what it may */
    }
    for (uint32_t k = 0; k <= HD_SWAP_SLOTS; k++) {
        data[k % HD_SWAP_SLOTS] = ahead == (k >= AHEAD) ? 1000 + k : 0;
        ucc_coll_args_t args = bcast_args(&data[k % HD_SWAP_SLOTS], 8, k >= AHEAD ? 0 : 1);
        if (k == 0 || k == HD_SWAP_SLOTS) {
            args = allreduce_args(k ? &last : &first, &sums[k > 0], 1, UCC_DT_UINT64, UCC_OP_SUM);
        }
        if (!ahead &&
            k == AHEAD) { /* what has been posted fills its window; the rest comes later */
            process_barrier(process);
            must(ended(posted(other.team, barrier_args())), "the others' barrier");
            const hd_net_swaps_t *swaps = s.team->crossing->team->swaps;
            ok &= atomic_load(&swaps->n_late) == 1;
            for (uint32_t i = 0; i < k; i++) {
                ok &= ended(request[i]) == UCC_OK;
            }
        }
        request[k] = posted(s.team, args);
        if (ahead) {
            ok &= k == HD_SWAP_SLOTS || ended(request[k]) == UCC_OK;
        }
    }
    if (ahead) {
        must(ended(posted(other.team, barrier_args())), "the others' barrier");
    }
    for (uint32_t k = ahead ? HD_SWAP_SLOTS : AHEAD; k <= HD_SWAP_SLOTS; k++) {
        ok &= ended(request[k]) == UCC_OK;
    }
    ok &= sums[0] == 3 && sums[1] == 30;
    stand(&s);
    stand(&other);
    return !ok;
}

Test(swap, a_part_waits_until_that_of_an_older_exchange_has_been_read) {
    cr_assert(runs(2, comes_late, NULL));
}

/* The same, and the part that is kept is not looked for before one comes that lies where it belongs. */
static int comes_very_late(const process_t *process, void *arg) {
    seat_t s = sit(process, 0), other = sit(process, 1);
    enum { TIMES = 2, LAST = TIMES * HD_SWAP_SLOTS };
    ucc_coll_req_h request[LAST + 1];
    uint64_t one = 1, sum[LAST + 1] = {0}, data = 7;
    bool ahead = process->me == 0, ok = true;
    uint32_t over = 0;
    (void)arg;
    if (ahead) {
        process_barrier(process); /* process 1 has given its part of the first */
    }
    for (uint32_t k = 0; k <= LAST; k++) {
        bool swap = k % HD_SWAP_SLOTS == 0;
        ucc_coll_args_t args = swap ? allreduce_args(&one, &sum[k], 1, UCC_DT_UINT64, UCC_OP_SUM)
                                    : bcast_args(&data, 8, k % HD_SWAP_SLOTS < AHEAD ? 1 : 0);
        if (!ahead && k % HD_SWAP_SLOTS ==
                          AHEAD) { /* brings what the other has sent, and looks at nothing of it */
            if (k < HD_SWAP_SLOTS) {
                process_barrier(process);
            }
            must(ended(posted(other.team, barrier_args())), "the others' barrier");
            for (; over < k; over++) {
                ok &= ended(request[over]) == UCC_OK;
            }
        }
        request[k] = posted(s.team, args);
        if (ahead && swap && k) {
            must(ended(posted(other.team, barrier_args())), "the others' barrier");
        }
        if (ahead) {
            ok &= ended(request[over++]) == UCC_OK;
        }
    }
    for (; over <= LAST; over++) {
        ok &= ended(request[over]) == UCC_OK;
    }
    for (uint32_t k = 0; k <= LAST; k += HD_SWAP_SLOTS) {
        ok &= sum[k] == 2;
    }
    stand(&s);
    stand(&other);
    return !ok;
}

Test(swap, a_part_that_waits_is_not_overtaken) {
    cr_assert(runs(2, comes_very_late, NULL));
}

/* --- arguments that differ ---------------------------------------------------------------------------------- */

typedef struct difference {
    uint32_t which; /* what process 1 does; the others: an allreduce of 8 bytes */
    uint32_t late;  /* the process that comes later */
} difference_t;

static int differs(const process_t *process, void *arg) {
    const difference_t *d = arg;
    static uint8_t src[LARGE], dst[LARGE];
    seat_t s = sit(process, 0);
    ucc_coll_args_t args = allreduce_args(src, dst, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
    must(ended(posted(s.team, barrier_args())), "the first barrier");
    if (process->me == 1) {
        ucc_coll_args_t other[] = {
            barrier_args(),
            allreduce_args(src, dst, 1, UCC_DT_INT64, UCC_OP_SUM),
            allreduce_args(src, dst, LARGE, UCC_DT_UINT8, UCC_OP_SUM),
            bcast_args(src, 8, 1),
            bcast_args(src, 8, 0),
        };
        args = other[d->which];
    }
    if (process->me == d->late) {
        nap(60);
    }
    ucc_status_t status = result_of(s.team, args);
    /* a bcast's root may be through before it hears of it */
    bool root = process->me == 1 && d->which == 3;
    bool ok = status == UCC_ERR_INVALID_PARAM || (root && status == UCC_OK);
    if (!ok) {
        fprintf(stderr, "process %u, difference %u: %s\n", process->me, d->which,
                ucc_status_string(status));
    }
    stand(&s);
    return !ok;
}

Test(swap, calls_that_differ_fail_whoever_comes_first) {
    for (uint32_t i = 0; i < 10; i++) {
        difference_t d = {.which = i / 2, .late = i % 2};
        cr_assert(runs(2, differs, &d), "difference %u, process %u is late", d.which, d.late);
    }
}

/* --- failing ---------------------------------------------------------------------------------------------------- */

static int times_out(const process_t *process, void *arg) {
    seat_t s = sit(process, 0);
    ucc_coll_args_t args = barrier_args();
    (void)arg;
    if (process->me == 1) {
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = 0.1;
    }
    if (process->me == 0) {
        process_barrier(process);
    }
    ucc_status_t status = result_of(s.team, args);
    if (process->me == 0 &&
        status == UCC_OK) { /* the other's part had come: so the next one fails */
        status = result_of(s.team, args);
    }
    if (status != UCC_ERR_TIMED_OUT) {
        fprintf(stderr, "process %u: %s\n", process->me, ucc_status_string(status));
    }
    if (process->me == 1) {
        process_barrier(process);
    }
    stand(&s);
    return status != UCC_ERR_TIMED_OUT;
}

Test(swap, one_that_times_out_fails_the_team_everywhere) {
    cr_assert(runs(2, times_out, NULL));
}

/* Its part is there before it goes. */
static int goes_early(const process_t *process, void *arg) {
    seat_t s = sit(process, 0);
    (void)arg;
    must(ended(posted(s.team, barrier_args())), "the first barrier");
    ucc_coll_req_h request = posted(s.team, barrier_args());
    if (process->me == 0) {
        must(ended(request), "the barrier");
        process_barrier(process);
        stand(&s);
        return 0;
    }
    ucc_status_t status = ended(request);
    process_barrier(process);
    if (process->me == 1) {
        nap(500); /* process 0 has gone */
    }
    stand(&s);
    return status != UCC_OK;
}

Test(swap, who_is_through_may_go_at_once) {
    cr_assert(runs(3, goes_early, NULL));
}

/* --- the express -------------------------------------------------------------------------------------------------- */

/* An endpoint may call before the others have come: what it prepared then is not kept. */
static int takes_the_express(const process_t *process, void *arg) {
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .thread_mode = UCC_THREAD_SINGLE, .oob = &oob};
    heddle_group_t *group;
    heddle_ep_t *ep;
    (void)arg;
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    bool ok = true;
    for (uint32_t i = 0; i < 3; i++) {
        ok &= heddle_barrier(ep) == UCC_OK;
    }
    const hd_request_t *r = atomic_load(&heddle_ep_team(ep)->cached);
    ok &= r && r->express == hd_swap_express;
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return !ok;
}

Test(swap, blocking_calls_take_the_express_from_the_second_on) {
    cr_assert(runs(2, takes_the_express, NULL));
}

/* --- several endpoints in a process ------------------------------------------------------------------------------- */

enum { MOST = 4 };

/* This process's endpoints of a team of all, driven by one thread. */
typedef struct row {
    uint32_t n;
    ucc_lib_h lib;
    ucc_context_h context[MOST];
    ucc_team_h team[MOST];
} row_t;

static row_t sit_down(const process_t *process) {
    row_t r = {.n = process->n, .lib = world_lib(UCC_THREAD_MULTIPLE)};
    for (uint32_t i = 0; i < r.n; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                    .oob = process_oob(process, 0, process->endpoint[i])};
        r.context[i] = world_new_context(r.lib, UCC_CONTEXT_SHARED, NULL);
        must(ucc_team_create_post(&r.context[i], 1, &params, &r.team[i]), "ucc_team_create_post");
    }
    world_finish_teams(r.n, r.team);
    return r;
}

static void stand_up(row_t *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        world_destroy_team(r->team[i]);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        must(ucc_context_destroy(r->context[i]), "ucc_context_destroy");
    }
    must(ucc_finalize(r->lib), "ucc_finalize");
}

/* How they have ended: all alike, or UCC_ERR_LAST. args: of each endpoint; the first n of them post. */
static ucc_status_t results_of(const row_t *r, uint32_t n, const ucc_coll_args_t *args) {
    ucc_coll_req_h request[MOST];
    ucc_status_t posted[MOST], all = UCC_OK;
    for (uint32_t i = 0; i < n; i++) {
        ucc_coll_args_t mine = args[i];
        must(ucc_collective_init(&mine, &request[i], r->team[i]), "ucc_collective_init");
        posted[i] = ucc_collective_post(request[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        ucc_status_t status = posted[i] == UCC_OK ? ended(request[i]) : posted[i];
        if (posted[i] != UCC_OK) {
            must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
        }
        all = i == 0 || all == status ? status : UCC_ERR_LAST;
    }
    return all;
}

static bool all_average(const row_t *r, const process_t *process, uint32_t round) {
    double mine[MOST][6], all[MOST][6];
    ucc_coll_args_t args[MOST];
    for (uint32_t e = 0; e < r->n; e++) {
        for (uint32_t i = 0; i < 6; i++) {
            mine[e][i] = process->endpoint[e] + i + round;
        }
        args[e] = allreduce_args(mine[e], all[e], 6, UCC_DT_FLOAT64, UCC_OP_AVG);
    }
    bool ok = results_of(r, r->n, args) == UCC_OK;
    for (uint32_t i = 0; i < r->n * 6 && ok; i++) {
        ok = all[i / 6][i % 6] == (double)(process->size - 1) / 2 + i % 6 + round;
    }
    return ok;
}

static bool all_add(const row_t *r, const process_t *process, uint32_t round) {
    int32_t x[MOST];
    uint32_t n = process->size;
    ucc_coll_args_t args[MOST];
    bool ok = true;
    for (uint32_t e = 0; e < r->n; e++) {
        x[e] = (int32_t)(process->endpoint[e] + round);
        args[e] = allreduce_args(NULL, &x[e], 1, UCC_DT_INT32, UCC_OP_SUM);
        args[e].mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args[e].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
    ok = results_of(r, r->n, args) == UCC_OK;
    for (uint32_t e = 0; e < r->n; e++) {
        ok = ok && x[e] == (int32_t)(n * (n - 1) / 2 + n * round);
    }
    return ok;
}

static bool all_meet(const row_t *r) {
    ucc_coll_args_t args[MOST] = {barrier_args(), barrier_args(), barrier_args(), barrier_args()};
    return results_of(r, r->n, args) == UCC_OK;
}

static int are_right_together(const process_t *process, void *arg) {
    row_t r = sit_down(process);
    uint32_t others = process->shape->processes - 1;
    (void)arg;
    bool ok = all_meet(&r);
    uint64_t before = hd_net_traffic().messages_sent;
    for (uint32_t i = 0; i < 300 && ok; i++) {
        ok = all_average(&r, process, i) && all_add(&r, process, i) && all_meet(&r);
    }
    ok &= hd_net_traffic().messages_sent - before == (uint64_t)3 * 300 * others;
    stand_up(&r);
    return !ok;
}

Test(swap, several_endpoints_in_a_process_send_one_part) {
    shape_t shapes[] = {
        shape_even(2, 2), shape_even(3, 3), {.processes = 3, .endpoints = {1, 2, 4}}};
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, are_right_together, NULL).ok, "shape %u", i);
    }
}

Test(swap, so_do_they_where_each_arrival_has_its_place) {
    shape_t shape = shape_even(2, 3);
    setenv("HEDDLE_ARRIVAL", "static", 1);
    cr_assert(processes_run(&shape, SECONDS, are_right_together, NULL).ok);
}

static int differ_together(const process_t *process, void *arg) {
    const difference_t *d = arg;
    static uint8_t src[LARGE], dst[MOST][LARGE];
    row_t r = sit_down(process);
    ucc_coll_args_t args[MOST];
    bool ok = all_meet(&r);
    for (uint32_t e = 0; e < r.n; e++) {
        ucc_coll_args_t other[] = {
            barrier_args(),
            allreduce_args(src, dst[e], 1, UCC_DT_INT64, UCC_OP_SUM),
            allreduce_args(src, dst[e], LARGE, UCC_DT_UINT8, UCC_OP_SUM),
            bcast_args(dst[e], 8, 0),
        };
        args[e] = process->me == 1 ? other[d->which]
                                   : allreduce_args(src, dst[e], 1, UCC_DT_FLOAT64, UCC_OP_SUM);
    }
    if (process->me == d->late) {
        nap(60);
    }
    ucc_status_t status = results_of(&r, r.n, args);
    ok &= status == UCC_ERR_INVALID_PARAM;
    if (!ok) {
        fprintf(stderr, "process %u, difference %u: %s\n", process->me, d->which,
                ucc_status_string(status));
    }
    stand_up(&r);
    return !ok;
}

Test(swap, processes_of_several_endpoints_that_differ_fail_whoever_comes_first) {
    shape_t shape = shape_even(2, 2);
    for (uint32_t i = 0; i < 8; i++) {
        difference_t d = {.which = i / 2, .late = i % 2};
        cr_assert(processes_run(&shape, SECONDS, differ_together, &d).ok,
                  "difference %u, process %u is late", d.which, d.late);
    }
}

/* Reductions without a byte keep processes together, too: whoever is far ahead has numbers that can't be told apart. */
static int runs_ahead(const process_t *process, void *arg) {
    row_t r = sit_down(process);
    ucc_coll_args_t args[MOST];
    double x = 0, y = 0;
    bool ok = all_meet(&r);
    (void)arg;
    for (uint32_t e = 0; e < r.n; e++) {
        args[e] = allreduce_args(&x, &y, 0, UCC_DT_FLOAT64, UCC_OP_SUM);
        args[e].coll_type = UCC_COLL_TYPE_REDUCE_SCATTER;
    }
    if (process->me == 1) {
        nap(300);
    }
    for (uint32_t i = 0; i < 5000 && ok; i++) {
        ok = results_of(&r, r.n, args) == UCC_OK;
    }
    ok &= all_meet(&r);
    stand_up(&r);
    return !ok;
}

Test(swap, nobody_runs_ahead_by_collectives_without_data) {
    shape_t alone = shape_even(2, 1), together = shape_even(2, 2);
    cr_assert(processes_run(&alone, SECONDS, runs_ahead, NULL).ok);
    cr_assert(processes_run(&together, SECONDS, runs_ahead, NULL).ok);
}

/* The last endpoint does not come. */
static int misses_one(const process_t *process, void *arg) {
    row_t r = sit_down(process);
    double x[MOST] = {0};
    ucc_coll_args_t args[MOST];
    (void)arg;
    bool ok = all_meet(&r);
    for (uint32_t e = 0; e < r.n; e++) {
        args[e] = allreduce_args(&x[e], &x[e], 1, UCC_DT_FLOAT64, UCC_OP_SUM);
        args[e].mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args[e].flags = UCC_COLL_ARGS_FLAG_IN_PLACE | UCC_COLL_ARGS_FLAG_TIMEOUT;
        args[e].timeout = process->me == 1 ? 0.1 : 30;
    }
    ucc_status_t status = results_of(&r, r.n - (process->me == 1), args);
    ok &= status == UCC_ERR_TIMED_OUT;
    if (!ok) {
        fprintf(stderr, "process %u: %s\n", process->me, ucc_status_string(status));
    }
    stand_up(&r);
    return !ok;
}

Test(swap, an_endpoint_that_does_not_come_fails_the_team_everywhere) {
    shape_t shape = shape_even(2, 2);
    cr_assert(processes_run(&shape, SECONDS, misses_one, NULL).ok);
}
