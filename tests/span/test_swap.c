/* test_swap.c: barriers and small allreduces of few processes: parts of an exchange, each in a
 * message of its own (src/net/swap.c, src/span/swap.c). Random mixes of these with all else are in
 * tests/stress/span.c.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/processes.h"
#include "../support/random.h"
#include "../support/world.h"
#include "core/log.h"
#include "net/internal.h"
#include "request/request.h"
#include "span/span.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(swap, .init = processes_use_network, .timeout = 120);

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

/* Makes a barrier, and comes back when all processes have: otherwise one that fails the team right
 * afterwards may fail the barrier of one that has not heard from everybody yet. */
static void meet_first(const process_t *process, ucc_team_h team) {
    must(ended(posted(team, barrier_args())), "the first barrier");
    process_barrier(process);
}

/* --- what comes out --------------------------------------------------------------------------- */

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
    atomic_store(&member->shared->consumed, start);
    atomic_store(&s.team->group->board->head->floor, start);
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

/* --- a part whose place is taken -------------------------------------------------------------- */

/* So many exchanges may be begun and not ended. An exchange ends only when so many before it are
 * known to be over for the others, or to be in such a window. */
enum { AHEAD = HD_SWAP_SLOTS / 2, LAG = 12, ENDS = AHEAD + LAG };

/* Process 1 gives its part of the first allreduce, and does not look for the other's. Process 0
 * goes on, with bcasts of 1 and then bcasts of its own, until its part of an allreduce comes where
 * the first one's still lies. */
static int comes_late(const process_t *process, void *arg) {
    enum { MOST_NUMBERS = 512 };
    static uint64_t first[MOST_NUMBERS], last[MOST_NUMBERS], sums[2][MOST_NUMBERS];
    seat_t s = sit(process, 0), other = sit(process, 1);
    ucc_coll_req_h request[HD_SWAP_SLOTS + 1];
    uint64_t data[HD_SWAP_SLOTS], n = *(const uint32_t *)arg;
    bool ahead = process->me == 0;
    bool ok = true;
    for (uint64_t i = 0; i < n; i++) {
        first[i] = process->me + 1 + i;
        last[i] = 10 * first[i];
    }
    if (ahead) {
        process_barrier(process); /* process 1 has posted what it may */
    }
    for (uint32_t k = 0; k <= HD_SWAP_SLOTS; k++) {
        data[k % HD_SWAP_SLOTS] = ahead == (k >= AHEAD) ? 1000 + k : 0;
        ucc_coll_args_t args = bcast_args(&data[k % HD_SWAP_SLOTS], 8, k >= AHEAD ? 0 : 1);
        if (k == 0 || k == HD_SWAP_SLOTS) {
            args = allreduce_args(k ? last : first, sums[k > 0], n, UCC_DT_UINT64, UCC_OP_SUM);
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
            ok &= k >= ENDS || ended(request[k]) == UCC_OK;
        }
    }
    if (ahead) {
        must(ended(posted(other.team, barrier_args())), "the others' barrier");
    }
    for (uint32_t k = ahead ? ENDS : AHEAD; k <= HD_SWAP_SLOTS; k++) {
        ok &= ended(request[k]) == UCC_OK;
    }
    for (uint64_t i = 0; i < n; i++) {
        ok &= sums[0][i] == 3 + 2 * i && sums[1][i] == 10 * (3 + 2 * i);
    }
    stand(&s);
    stand(&other);
    return !ok;
}

/* In the line of its place, behind it, and as long as may be. */
Test(swap, a_part_waits_until_that_of_an_older_exchange_has_been_read) {
    static const uint32_t numbers[] = {1, 7, 512};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t n = numbers[i];
        cr_assert(runs(2, comes_late, &n), "%u numbers", n);
    }
}

/* The same, and the part that is kept is not looked for before one comes that lies where it
 * belongs. */
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
        for (; ahead && over <= k && (over % HD_SWAP_SLOTS < ENDS || swap); over++) {
            ok &= ended(request[over]) == UCC_OK;
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

/* --- arguments that differ -------------------------------------------------------------------- */

typedef struct difference {
    uint32_t which; /* what process 1 does; the others: an allreduce of 8 bytes */
    uint32_t late;  /* the process that comes later */
} difference_t;

static int differs(const process_t *process, void *arg) {
    const difference_t *d = arg;
    static uint8_t src[LARGE], dst[LARGE];
    seat_t s = sit(process, 0);
    ucc_coll_args_t args = allreduce_args(src, dst, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
    meet_first(process, s.team);
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

/* --- failing ---------------------------------------------------------------------------------- */

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

/* --- the express ------------------------------------------------------------------------------ */

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

/* --- several endpoints in a process ----------------------------------------------------------- */

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

/* How they have ended: all alike, or UCC_ERR_LAST. args: of each endpoint; the first n of them
 * post. */
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

/* --- endpoints that pack what others do not --------------------------------------------------- */

typedef struct loose {
    int32_t number;
    double value; /* after a hole */
} loose_t;

typedef struct tight {
    int32_t number;
    double value;
} __attribute__((packed)) tight_t;

static bool all_pack(const row_t *r, const process_t *process, ucc_datatype_t loose_dt,
                     uint32_t root) {
    loose_t loose[MOST] = {{0}};
    tight_t tight[MOST] = {{0}};
    ucc_coll_args_t args[MOST];
    for (uint32_t e = 0; e < r->n; e++) {
        uint32_t me = process->endpoint[e];
        bool packs = me % 2;
        if (me == root) {
            loose[e] = (loose_t){(int32_t)root + 7, 0.5 + root};
            tight[e] = (tight_t){(int32_t)root + 7, 0.5 + root};
        }
        args[e] = bcast_args(&tight[e], sizeof(tight[e]), root);
        if (packs) {
            args[e].src.info =
                (ucc_coll_buffer_info_t){&loose[e], 1, loose_dt, UCC_MEMORY_TYPE_HOST};
        }
    }
    bool ok = results_of(r, r->n, args) == UCC_OK;
    for (uint32_t e = 0; e < r->n && ok; e++) {
        bool packs = process->endpoint[e] % 2;
        int32_t number = packs ? loose[e].number : tight[e].number;
        double value = packs ? loose[e].value : tight[e].value;
        ok = number == (int32_t)root + 7 && value == 0.5 + root;
    }
    return ok;
}

static int packs_are_right(const process_t *process, void *arg) {
    row_t r = sit_down(process);
    reference_dt_t dt = generic_packed();
    bool ok = all_meet(&r);
    (void)arg;
    for (uint32_t i = 0; i < 100 && ok; i++) {
        ok = all_pack(&r, process, dt.handle, i % process->size);
    }
    stand_up(&r);
    generic_destroy(&dt);
    return !ok;
}

Test(swap, endpoints_that_pack_and_those_that_do_not_agree) {
    shape_t shapes[] = {
        shape_even(2, 1), shape_even(2, 2), {.processes = 3, .endpoints = {1, 2, 4}}};
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, packs_are_right, NULL).ok, "shape %u", i);
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
    process_barrier(process);
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

/* Reductions without a byte keep processes together, too: whoever is far ahead has numbers that
 * can't be told apart. */
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
    process_barrier(process);
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

/* --- all kinds -------------------------------------------------------------------------------- */

static const ucc_coll_type_t kinds[] = {
    UCC_COLL_TYPE_BARRIER,  UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_REDUCE,
    UCC_COLL_TYPE_BCAST,    UCC_COLL_TYPE_MCAST,     UCC_COLL_TYPE_ALLGATHER,
    UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_GATHER,    UCC_COLL_TYPE_SCATTER};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), TELL = 6 };

static bool from_root(ucc_coll_type_t type) {
    return type == UCC_COLL_TYPE_BCAST || type == UCC_COLL_TYPE_MCAST ||
           type == UCC_COLL_TYPE_SCATTER;
}

static uint32_t most_members(const shape_t *shape) {
    uint32_t most = 0;
    for (uint32_t p = 0; p < shape->processes; p++) {
        most = shape->endpoints[p] > most ? shape->endpoints[p] : most;
    }
    return most;
}

/* Bytes of the largest block (of one endpoint for one, or for all) with which it is a swap. */
static uint32_t limit_of(const shape_t *shape, ucc_coll_type_t type) {
    uint32_t part = shape->processes == 2 ? 4096 : 2 * 4096 / shape->processes / 64 * 64;
    uint32_t n = shape_size(shape), members = most_members(shape);
    switch (type) {
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_GATHER:
        return part / members;
    case UCC_COLL_TYPE_SCATTER:
        return part / n;
    case UCC_COLL_TYPE_ALLTOALL:
        return part / (members * members > n ? members * members : n);
    default:
        return part;
    }
}

/* What this process gives to another one: false: nothing. */
static bool gives(const process_t *process, const coll_case_t *c, uint32_t other, uint64_t *bytes) {
    uint32_t mine = process->n, theirs = process->shape->endpoints[other];
    bool rooted = coll_is_rooted(c->type), root = process->process_of[c->root] == process->me;
    bool blocks = c->type == UCC_COLL_TYPE_SCATTER || c->type == UCC_COLL_TYPE_ALLTOALL;
    bool gathers = c->type == UCC_COLL_TYPE_ALLGATHER || c->type == UCC_COLL_TYPE_GATHER ||
                   c->type == UCC_COLL_TYPE_ALLTOALL;
    *bytes = c->count * c->dt->extent * (blocks ? theirs : 1) * (gathers ? mine : 1);
    *bytes = coll_moves_data(c->type) ? *bytes : 0;
    if (!rooted) {
        return true;
    }
    return from_root(c->type) ? root : other == process->process_of[c->root];
}

/* Some collectives like this one: are they right, and were there no more messages than it takes? */
static bool are_right_and_few(world_t *world, coll_case_t c, bool counts) {
    enum { TIMES = TELL + 2 };
    const process_t *process = world->params.process;
    prepared_t *prepared[TIMES];
    job_t job[TIMES];
    uint64_t bytes, messages = 0, data = 0, silent = 0;
    bool ok = true;
    for (uint32_t i = 0; i < TIMES; i++) {
        if (coll_is_reduction(c.type) && c.count % 8 == 0 && i % 2) { /* the others: of bytes */
            coll_case_t d = c;
            d.count = c.count / 8;
            d.dt = reference_datatype(UCC_DT_FLOAT64);
            d.op = i % 4 == 1 ? UCC_OP_AVG : UCC_OP_SUM;
            prepared[i] = case_prepare(&d);
        } else {
            prepared[i] = case_prepare(&c);
        }
        job[i] = case_job(prepared[i]);
        c.seed++;
    }
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        bool some = p != process->me && gives(process, &c, p, &bytes);
        messages += some ? TIMES : 0;
        data += some ? TIMES * bytes : 0;
        silent += p != process->me && !some;
    }
    hd_net_traffic_t before = hd_net_traffic();
    driver_run(world, DRIVER_ONE, job, TIMES);
    hd_net_traffic_t after = hd_net_traffic();
    uint64_t sent = after.messages_sent - before.messages_sent;
    for (uint32_t i = 0; i < TIMES; i++) {
        ok = case_check(prepared[i]) && ok;
    }
    uint64_t told = after.told - before.told, most = silent * (TIMES / TELL + 1);
    if (counts &&
        (sent != messages || told > most || after.bytes_sent - before.bytes_sent != data)) {
        fprintf(
            stderr,
            "%s: process %u has sent %u messages with %u bytes and %u empty parts, not %u with %u "
            "and at most %u\n",
            prepared[0]->name, process->me, (uint32_t)sent,
            (uint32_t)(after.bytes_sent - before.bytes_sent), (uint32_t)told, (uint32_t)messages,
            (uint32_t)data, (uint32_t)most);
        ok = false;
    }
    for (uint32_t i = 0; i < TIMES; i++) {
        case_free(prepared[i]);
    }
    return ok;
}

/* Of one kind and size, in place or not, to all roots, or some. */
static bool is_right_of(world_t *world, ucc_coll_type_t type, uint64_t bytes, bool counts) {
    coll_case_t c = {.type = type,
                     .size = world->size,
                     .count = bytes,
                     .dt = reference_datatype(UCC_DT_UINT8),
                     .op = UCC_OP_SUM,
                     .seed = 1 + bytes * 1000,
                     .process_of = world->process_of,
                     .process = world->params.process->me};
    bool rooted = coll_is_rooted(type), ok = true;
    bool buffer = type == UCC_COLL_TYPE_BCAST || type == UCC_COLL_TYPE_MCAST;
    uint32_t places = !coll_moves_data(type) || buffer ? 1 : rooted ? 3 : 2;
    for (uint32_t place = 0; place < places; place++) {
        c.in_place = (in_place_t)(rooted || !place ? place : IN_PLACE_EVERYWHERE);
        for (c.root = 0; c.root<(rooted ? c.size : 1); c.root += c.size> 6 ? 3 : 1) {
            ok = are_right_and_few(world, c, counts) && ok;
        }
    }
    return ok;
}

static int kinds_are_right(const process_t *process, void *arg) {
    static const uint32_t sizes[] = {1, 8, 48, 49, 512};
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool ok = true;
    (void)arg;
    for (uint32_t t = 0; t < KINDS; t++) { /* the first is a barrier, after which all is formed */
        uint32_t limit = limit_of(process->shape, kinds[t]);
        process_note(process, "type %x", kinds[t]);
        for (uint32_t i = 0; i < 5 && coll_moves_data(kinds[t]); i++) {
            ok = (sizes[i] > limit || is_right_of(world, kinds[t], sizes[i], true)) && ok;
        }
        ok = is_right_of(world, kinds[t], limit, t > 0) && ok;
    }
    for (uint32_t t = 1; t < KINDS; t++) { /* by legs, and then swaps again */
        ok = is_right_of(world, kinds[t], limit_of(process->shape, kinds[t]) + 1, false) && ok;
        ok = is_right_of(world, kinds[t], 8, false) && ok;
    }
    world_destroy(world);
    return !ok;
}

Test(swap, every_small_collective_takes_a_message_to_each_process_that_needs_something) {
    shape_t shapes[] = {shape_even(2, 1),
                        shape_even(3, 1),
                        shape_even(2, 2),
                        {.processes = 3, .endpoints = {1, 2, 3}}};
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, kinds_are_right, NULL).ok, "%s",
                  shape_name(&shapes[i]));
    }
}

Test(swap, so_it_does_among_as_many_processes_as_have_swaps) {
    cr_assert(runs(HD_SWAP_PROCESSES, kinds_are_right, NULL));
}

/* --- who waits for nobody --------------------------------------------------------------------- */

/* Of one kind with root 0: process `runs` posts many, and process 2 comes only when that has gone
 * as far as it can. */
typedef struct run {
    ucc_coll_type_t type;
    uint32_t runs;
    uint32_t bytes;
} run_t;

enum { RUNS = 100, RUN_BYTES = 600 };

static ucc_coll_args_t run_args(const run_t *r, uint8_t *src, uint8_t *dst) {
    ucc_coll_args_t args = {.coll_type = r->type,
                            .op = UCC_OP_MAX,
                            .src.info = {src, r->bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
                            .dst.info = {dst, r->bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST}};
    if (r->type == UCC_COLL_TYPE_SCATTER) {
        args.src.info.count *= 3;
    }
    if (r->type == UCC_COLL_TYPE_GATHER) {
        args.dst.info.count *= 3;
    }
    return args;
}

/* What the root has got of a leaf, or a leaf of the root, in the i-th. */
static bool run_is_right(const run_t *r, uint32_t me, uint32_t i, const uint8_t *src,
                         const uint8_t *dst) {
    const uint8_t *at = r->type == UCC_COLL_TYPE_BCAST ? src : dst;
    bool ok = true;
    for (uint32_t b = 0; b < r->bytes; b++) {
        if (r->type == UCC_COLL_TYPE_GATHER) {
            ok = ok &&
                 (me || (at[b] == i && at[r->bytes + b] == i + 1 && at[2 * r->bytes + b] == i + 2));
        } else if (r->type == UCC_COLL_TYPE_REDUCE) {
            ok = ok && (me || at[b] == i + 2);
        } else {
            ok = ok && at[b] == i + (r->type == UCC_COLL_TYPE_SCATTER ? me : 0);
        }
    }
    return ok;
}

static int runs_as_far_as_it_may(const process_t *process, void *arg) {
    static uint8_t src[RUNS][3 * RUN_BYTES], dst[RUNS][3 * RUN_BYTES];
    const run_t *r = arg;
    seat_t s = sit(process, 0);
    ucc_coll_req_h request[RUNS];
    uint32_t me = process->me, over = 0;
    bool ok = ended(posted(s.team, barrier_args())) == UCC_OK;
    for (uint32_t i = 0; i < RUNS; i++) {
        bool blocks = r->type == UCC_COLL_TYPE_SCATTER;
        for (uint32_t b = 0; b < 3 * r->bytes; b++) {
            src[i][b] = (uint8_t)(i + (blocks ? b / r->bytes : me));
        }
    }
    if (me == 2) {
        process_barrier(process);
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        request[i] = posted(s.team, run_args(r, src[i], dst[i]));
    }
    if (me == r->runs) { /* so many numbers after the barrier, in which process 2 was */
        while (over < LAG && heddle_wait(request[over], 30) == UCC_OK) {
            over++;
        }
        ok &= over == LAG && heddle_wait(request[over], 0.3) == UCC_INPROGRESS;
    }
    if (me != 2) {
        process_barrier(process);
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        ok &= ended(request[i]) == UCC_OK && run_is_right(r, me, i, src[i], dst[i]);
    }
    if (!ok) {
        fprintf(stderr, "process %u has ended %u\n", me, over);
    }
    stand(&s);
    return !ok;
}

Test(swap, who_needs_nothing_runs_ahead_of_one_that_does_not_come_but_not_far) {
    static const run_t run[] = {
        {UCC_COLL_TYPE_BCAST, 0, 8},    {UCC_COLL_TYPE_BCAST, 0, 600},
        {UCC_COLL_TYPE_SCATTER, 0, 8},  {UCC_COLL_TYPE_GATHER, 1, 8},
        {UCC_COLL_TYPE_GATHER, 1, 600}, {UCC_COLL_TYPE_REDUCE, 1, 600},
    };
    for (uint32_t i = 0; i < sizeof(run) / sizeof(run[0]); i++) {
        run_t r = run[i];
        cr_assert(runs(3, runs_as_far_as_it_may, &r), "run %u", i);
    }
}

/* --- roots and sizes that differ -------------------------------------------------------------- */

/* Of n processes, one comes later, and one has more bytes. */
typedef struct disagreement {
    ucc_coll_type_t type;
    uint32_t n;
    uint32_t roots; /* of process p: bits 2 p and 2 p + 1 */
    uint32_t late, longer;
    uint32_t bytes, more;
    bool
        pumps; /* the late one progresses meanwhile: so it has the others' parts before it begins */
} disagreement_t;

static int disagrees(const process_t *process, void *arg) {
    const disagreement_t *d = arg;
    static uint8_t src[LARGE], dst[LARGE];
    seat_t s = sit(process, 0);
    uint32_t me = process->me, n = process->size;
    uint32_t bytes = d->bytes + (me == d->longer ? d->more : 0);
    bool sends_all = d->type == UCC_COLL_TYPE_SCATTER || d->type == UCC_COLL_TYPE_ALLTOALL;
    bool takes_all = d->type == UCC_COLL_TYPE_GATHER || d->type == UCC_COLL_TYPE_ALLGATHER ||
                     d->type == UCC_COLL_TYPE_ALLTOALL;
    ucc_coll_args_t args = {
        .coll_type = d->type,
        .root = d->roots >> (2 * me) & 3,
        .op = UCC_OP_SUM,
        .src.info = {src, bytes * (sends_all ? n : 1), UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
        .dst.info = {dst, bytes * (takes_all ? n : 1), UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST}};
    meet_first(process, s.team);
    for (uint32_t ms = 0; me == d->late && ms < 30; ms++) {
        nap(1);
        if (d->pumps) {
            (void)hd_net_pump(s.team->crossing->net);
        }
    }
    ucc_status_t status = result_of(s.team, args);
    bool ok = status == UCC_OK || status == UCC_ERR_INVALID_PARAM;
    if (status == UCC_OK) { /* it was through before it heard of it */
        status = result_of(s.team, barrier_args());
    }
    ok = ok && status == UCC_ERR_INVALID_PARAM;
    if (!ok) {
        fprintf(stderr, "process %u: %s\n", me, ucc_status_string(status));
    }
    stand(&s);
    return !ok;
}

static bool all_fail(const disagreement_t *wanted) {
    disagreement_t d = *wanted;
    bool ok = true;
    for (uint32_t i = 0; i < 2 * d.n; i++) {
        d.late = i / 2;
        d.pumps = i % 2;
        bool fails = runs(d.n, disagrees, &d);
        ok = ok && fails;
        if (!fails) {
            fprintf(stderr, "type %x, %u processes, roots %x, process %u is late%s\n", d.type, d.n,
                    d.roots, d.late, d.pumps ? ", but looks" : "");
        }
    }
    return ok;
}

/* Somebody gives something to one that needs nothing. Where those who differ all wait for each
 * other, nobody gives anything, and they wait until somebody has said for how long (HEDDLE_STALL,
 * HEDDLE_TIMEOUT), here as anywhere among processes. */
Test(swap, processes_that_name_different_roots_fail_whoever_comes_first) {
    static const struct {
        uint32_t n, roots; /* of process p: bits 2 p and 2 p + 1 */
    } down[] = {{2, 0 | 1 << 2}, {3, 0 | 1 << 2 | 0 << 4}, {3, 0 | 2 << 2 | 0 << 4}},
      up[] = {{2, 1 | 0 << 2}, {3, 0 | 2 << 2 | 0 << 4}, {3, 1 | 2 << 2 | 0 << 4}};
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (uint32_t i = 0; i < 3 * KINDS; i++) {
        ucc_coll_type_t type = kinds[i / 3];
        disagreement_t d = {.type = type, .bytes = i % 2 ? 8 : 600};
        d.n = from_root(type) ? down[i % 3].n : up[i % 3].n;
        d.roots = from_root(type) ? down[i % 3].roots : up[i % 3].roots;
        cr_expect(!coll_is_rooted(type) || all_fail(&d));
    }
}

Test(swap, processes_of_which_one_thinks_it_too_large_for_a_swap_fail_whoever_comes_first) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    shape_t two = shape_even(2, 1), three = shape_even(3, 1);
    for (uint32_t t = 1; t < KINDS; t++) {
        disagreement_t d = {.type = kinds[t], .n = 2, .more = 1};
        d.bytes = limit_of(&two, kinds[t]);
        bool ok = all_fail(&d);
        d.longer = 1;
        ok = all_fail(&d) && ok;
        d.n = 3;
        d.bytes = limit_of(&three, kinds[t]);
        ok = all_fail(&d) && ok;
        cr_expect(ok, "%u", t);
    }
}

/* --- before all of a process have come -------------------------------------------------------- */

/* Of the endpoints of process 1, the last one comes when the others are through with several. root:
 * an endpoint. */
typedef struct early {
    ucc_coll_type_t type;
    uint32_t root, bytes;
} early_t;

static ucc_coll_args_t early_args(const early_t *e, uint32_t size, uint8_t *src, uint8_t *dst) {
    bool blocks = e->type == UCC_COLL_TYPE_SCATTER;
    return (ucc_coll_args_t){
        .coll_type = e->type,
        .root = e->root,
        .src.info = {src, blocks ? e->bytes * size : e->bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
        .dst.info = {dst, e->bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST}};
}

static int comes_last(const process_t *process, void *arg) {
    enum { BYTES = 300, ROUNDS = 8, AT_ONCE = 10 };
    static uint8_t src[AT_ONCE][MOST][4 * BYTES], dst[AT_ONCE][MOST][BYTES];
    const early_t *e = arg;
    row_t r = sit_down(process);
    bool ok = all_meet(&r), blocks = e->type == UCC_COLL_TYPE_SCATTER;
    for (uint32_t t = 0; t < ROUNDS * AT_ONCE && ok; t += AT_ONCE) {
        ucc_coll_req_h request[MOST][AT_ONCE];
        for (uint32_t i = 0; i < r.n; i++) {
            bool last = process->me == 1 && i == r.n - 1;
            for (uint32_t j = 0; last && j < i * AT_ONCE; j++) {
                ok = heddle_wait(request[j / AT_ONCE][j % AT_ONCE], 30) == UCC_OK && ok;
            }
            for (uint32_t k = 0; k < AT_ONCE; k++) {
                for (uint32_t b = 0; b < process->size * e->bytes; b++) {
                    uint8_t given = (uint8_t)(t + k + b / e->bytes);
                    src[k][i][b] = process->endpoint[i] == e->root ? given : (uint8_t)0;
                }
                request[i][k] =
                    posted(r.team[i], early_args(e, process->size, src[k][i], dst[k][i]));
            }
        }
        for (uint32_t j = 0; j < r.n * AT_ONCE; j++) {
            uint32_t i = j / AT_ONCE, k = j % AT_ONCE;
            const uint8_t *got = blocks ? dst[k][i] : src[k][i];
            ok = ended(request[i][k]) == UCC_OK && ok;
            for (uint32_t b = 0; b < e->bytes; b++) {
                ok = ok && got[b] == (uint8_t)(t + k + (blocks ? process->endpoint[i] : 0));
            }
        }
    }
    stand_up(&r);
    return !ok;
}

Test(swap, an_endpoint_takes_what_comes_from_a_root_before_its_siblings_have_come) {
    static const early_t early[] = {{UCC_COLL_TYPE_BCAST, 0, 8},   {UCC_COLL_TYPE_BCAST, 0, 300},
                                    {UCC_COLL_TYPE_SCATTER, 0, 8}, {UCC_COLL_TYPE_SCATTER, 0, 300},
                                    {UCC_COLL_TYPE_BCAST, 1, 8},   {UCC_COLL_TYPE_BCAST, 1, 300},
                                    {UCC_COLL_TYPE_SCATTER, 1, 8}, {UCC_COLL_TYPE_SCATTER, 1, 300}};
    shape_t shape = {.processes = 2, .endpoints = {1, 3}};
    for (uint32_t i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
        early_t e = early[i];
        cr_assert(processes_run(&shape, SECONDS, comes_last, &e).ok, "%u", i);
    }
}

/* --- many ------------------------------------------------------------------------------------- */

/* A mixture that all processes draw alike; each of them pauses now and then. */
typedef struct drawn {
    ucc_coll_type_t type;
    uint32_t root, bytes;
    bool tagged;
    uint8_t tag;
} drawn_t;

enum { MIXED = 6000, MIX_WINDOW = 40, MIX_BYTES = 20000, MIX_PROCESSES = 3 };

/* One process is the root for some time, mostly. */
static drawn_t draw(uint64_t *random, uint64_t i) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_BCAST, UCC_COLL_TYPE_SCATTER,
                                            UCC_COLL_TYPE_GATHER, UCC_COLL_TYPE_REDUCE};
    static const uint32_t sizes[] = {1, 8, 48, 49, 100, 300, 800, MIX_BYTES};
    bool calm = i / 128 % 2; /* of small ones from a root */
    drawn_t d = {.type = types[random_below(random, calm ? 2 : 4)],
                 .root = (uint32_t)random_below(random, MIX_PROCESSES),
                 .bytes = sizes[random_below(random, calm ? 7 : 8)],
                 .tagged = random_below(random, 16) == 0 && !calm,
                 .tag = (uint8_t)random_below(random, 4)};
    d.root = calm ? (uint32_t)(i / 256 % MIX_PROCESSES) : d.root;
    return d;
}

typedef struct mixed {
    drawn_t what;
    uint64_t i;
    ucc_coll_req_h request;
    uint8_t src[MIX_PROCESSES * MIX_BYTES], dst[MIX_PROCESSES * MIX_BYTES];
} mixed_t;

/* Byte b of what process p gives in the i-th. */
static uint8_t mix_byte(uint64_t i, uint32_t p, uint32_t b) {
    return (uint8_t)(i * 7 + p * 31 + b);
}

static void post_mixed(const seat_t *s, mixed_t *m, uint32_t me) {
    const drawn_t *d = &m->what;
    bool scatters = d->type == UCC_COLL_TYPE_SCATTER, gathers = d->type == UCC_COLL_TYPE_GATHER;
    ucc_coll_args_t args = {.mask = d->tagged ? UCC_COLL_ARGS_FIELD_TAG : 0,
                            .coll_type = d->type,
                            .tag = d->tag,
                            .root = d->root,
                            .op = UCC_OP_BXOR,
                            .src.info = {m->src, d->bytes * (scatters ? MIX_PROCESSES : 1),
                                         UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST},
                            .dst.info = {m->dst, d->bytes * (gathers ? MIX_PROCESSES : 1),
                                         UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST}};
    bool gives =
        d->type == UCC_COLL_TYPE_GATHER || d->type == UCC_COLL_TYPE_REDUCE || me == d->root;
    for (uint32_t b = 0; b < d->bytes * MIX_PROCESSES; b++) {
        m->src[b] = gives ? mix_byte(m->i, me, b) : 0;
        m->dst[b] = 0;
    }
    m->request = posted(s->team, args);
}

static bool mixed_is_right(const mixed_t *m, uint32_t me) {
    const drawn_t *d = &m->what;
    bool ok = true;
    for (uint32_t b = 0; b < d->bytes && ok; b++) {
        switch (d->type) {
        case UCC_COLL_TYPE_BCAST:
            ok = m->src[b] == mix_byte(m->i, d->root, b);
            break;
        case UCC_COLL_TYPE_SCATTER:
            ok = m->dst[b] == mix_byte(m->i, d->root, me * d->bytes + b);
            break;
        case UCC_COLL_TYPE_GATHER:
            for (uint32_t p = 0; p < MIX_PROCESSES && me == d->root; p++) {
                ok = ok && m->dst[p * d->bytes + b] == mix_byte(m->i, p, b);
            }
            break;
        default:
            ok = me != d->root ||
                 m->dst[b] == (mix_byte(m->i, 0, b) ^ mix_byte(m->i, 1, b) ^ mix_byte(m->i, 2, b));
            break;
        }
    }
    return ok;
}

static int mixes(const process_t *process, void *arg) {
    static mixed_t mixed[MIX_WINDOW];
    seat_t s = sit(process, 0);
    const hd_net_swaps_t *swaps = s.team->crossing->team->swaps;
    uint64_t random = 7, pauses = process->me + 1, late = 0, over = 0;
    bool ok = true;
    (void)arg;
    for (uint64_t i = 0; (i < MIXED || over < i) && ok; i++) {
        if (i >= MIX_WINDOW || i >= MIXED) {
            mixed_t *m = &mixed[over % MIX_WINDOW];
            ok = ended(m->request) == UCC_OK && mixed_is_right(m, process->me);
            over++;
        }
        if (i < MIXED) {
            mixed_t *m = &mixed[i % MIX_WINDOW];
            m->what = draw(&random, i);
            m->i = i;
            post_mixed(&s, m, process->me);
        } else {
            i--;
        }
        uint32_t n = atomic_load(&swaps->n_late);
        late = n > late ? n : late;
        if (random_below(&pauses, 100) == 0) {
            nap((long)random_below(&pauses, 10));
        }
    }
    /* another one is half of the slots' numbers ahead of what it has heard, and that as much of
     * what this one has ended */
    ok &= late <= (MIX_PROCESSES - 1) * AHEAD && over == MIXED;
    if (!ok) {
        fprintf(stderr, "process %u: %u are over, at most %u parts were late\n", process->me,
                (uint32_t)over, (uint32_t)late);
    }
    stand(&s);
    return !ok;
}

Test(swap, many_that_wait_for_nobody_among_large_ones_are_right_and_few_parts_are_kept) {
    shape_t shape = shape_even(MIX_PROCESSES, 1);
    cr_assert(processes_run(&shape, SECONDS, mixes, NULL).ok);
}

/* --- how long they may be --------------------------------------------------------------------- */

/* Blocks of so many bytes are swaps, and one byte more is none. */
static int are_so_long(const process_t *process, void *arg) {
    uint32_t most = *(const uint32_t *)arg;
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool ok = true;
    for (uint32_t t = 0; t < KINDS; t++) {
        if (most > 0 && coll_moves_data(kinds[t])) {
            ok = is_right_of(world, kinds[t], most / 2, true) && ok;
        }
        ok = is_right_of(world, kinds[t], most + 1, false) && ok;
        ok = is_right_of(world, kinds[t], 8, false) && ok;
    }
    const hd_net_swaps_t *swaps = world->teams[process->endpoint[0]]->crossing->team->swaps;
    ok &= (swaps == NULL) == (most == 0);
    world_destroy(world);
    return !ok;
}

Test(swap, how_long_they_may_be_is_configured) {
    static const struct {
        const char *value;
        uint32_t most;
    } set[] = {{"0", 0}, {"48", 48}};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t most = set[i].most;
        setenv("HEDDLE_NET_SWAP_MAX", set[i].value, 1);
        cr_assert(runs(2, are_so_long, &most), "%u", most);
    }
}

static bool named;

static void look_for_name(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    named = named || strstr(line, "NET_SWAP_MAX");
}

static int forms_none(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_SWAP_MAX", process->me == 1 ? "48" : "4096", 1);
    ucc_lib_h lib = world_lib(UCC_THREAD_MULTIPLE);
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_SHARED, NULL);
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                .oob = process_oob(process, 0, process->endpoint[0])};
    ucc_team_h team;
    hd_log_capture(look_for_name, NULL);
    must(ucc_team_create_post(&context, 1, &params, &team), "ucc_team_create_post");
    deadline_t deadline = deadline_start("a team that does not form");
    ucc_status_t status;
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        must(ucc_context_progress(context), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    world_destroy_team(team);
    hd_log_capture(NULL, NULL);
    must(ucc_context_destroy(context), "ucc_context_destroy");
    must(ucc_finalize(lib), "ucc_finalize");
    return status != UCC_ERR_INVALID_PARAM || !named;
}

Test(swap, processes_that_do_not_agree_how_long_form_no_team) {
    cr_assert(runs(2, forms_none, NULL));
}
