/* test_form_faults.c: exchanges that fail at some endpoints only, and endpoints that are destroyed
 * before their team is formed. Nobody is left waiting, everybody gets a status that stays and a
 * line, and nothing is leaked or used after its end (run it under AddressSanitizer).
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint32_t lines;

static void count_line(hd_log_level_t level, const char *line, void *arg) {
    (void)line, (void)arg;
    lines += level <= HD_LOG_WARN;
}

static void watch_log(void) {
    hd_log_capture(count_line, NULL);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(form_faults, .timeout = 120, .init = watch_log);

/* --- an allgather with faults ----------------------------------------------------------------- */

enum { MOST = 4 };

/* What goes wrong at an endpoint. Its data reaches the others all the same. */
typedef enum fault { NONE, POST, TEST, FREE, DESTROY, FAULTS } fault_t;

typedef struct exchange {
    pthread_mutex_t lock;
    uint32_t n, entered;
    size_t bytes;
    uint8_t data[MOST][256];
} exchange_t;

typedef struct seat {
    exchange_t *exchange;
    uint32_t index;
    fault_t fault;
    void *destination;
} seat_t;

static ucc_status_t gather_post(void *src, void *dst, size_t bytes, void *arg, void **request) {
    seat_t *seat = arg;
    exchange_t *x = seat->exchange;
    cr_assert_leq(bytes, sizeof(x->data[0]));
    pthread_mutex_lock(&x->lock);
    memcpy(x->data[seat->index], src, bytes);
    x->bytes = bytes;
    x->entered++;
    pthread_mutex_unlock(&x->lock);
    seat->destination = dst;
    *request = seat;
    return seat->fault == POST ? UCC_ERR_IO_ERROR : UCC_OK;
}

static ucc_status_t gather_test(void *request) {
    seat_t *seat = request;
    exchange_t *x = seat->exchange;
    pthread_mutex_lock(&x->lock);
    bool all = x->entered == x->n;
    for (uint32_t i = 0; all && i < x->n; i++) {
        memcpy((uint8_t *)seat->destination + i * x->bytes, x->data[i], x->bytes);
    }
    pthread_mutex_unlock(&x->lock);
    return !all ? UCC_INPROGRESS : seat->fault == TEST ? UCC_ERR_IO_ERROR : UCC_OK;
}

static ucc_status_t gather_free(void *request) {
    return ((seat_t *)request)->fault == FREE ? UCC_ERR_IO_ERROR : UCC_OK;
}

static void exchange_open(exchange_t *x, seat_t *seats, uint32_t n) {
    *x = (exchange_t){.n = n};
    pthread_mutex_init(&x->lock, NULL);
    for (uint32_t i = 0; i < n; i++) {
        seats[i] = (seat_t){.exchange = x, .index = i};
    }
}

static ucc_oob_coll_t oob_of(seat_t *seat) {
    return (ucc_oob_coll_t){.allgather = gather_post,
                            .req_test = gather_test,
                            .req_free = gather_free,
                            .coll_info = seat,
                            .n_oob_eps = seat->exchange->n,
                            .oob_ep = seat->index};
}

/* --- teams ------------------------------------------------------------------------------------ */

typedef struct trial {
    uint32_t n;
    seat_t seats[MOST];
    ucc_team_h teams[MOST];
    ucc_status_t statuses[MOST];
    bool gone[MOST]; /* destroyed before it was formed */
} trial_t;

static void post_all(trial_t *t, ucc_context_h *contexts, bool backwards) {
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t i = backwards ? t->n - 1 - k : k;
        ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = oob_of(&t->seats[i])};
        t->statuses[i] = ucc_team_create_post(&contexts[i], 1, &p, &t->teams[i]);
        if (t->statuses[i] == UCC_OK) {
            t->statuses[i] = UCC_INPROGRESS;
        }
    }
}

/* True if endpoint i still has to be driven. */
static bool drive(trial_t *t, uint32_t i) {
    if (t->statuses[i] != UCC_INPROGRESS || t->gone[i]) {
        return false;
    }
    t->statuses[i] = ucc_team_create_test(t->teams[i]);
    if (t->statuses[i] == UCC_INPROGRESS && t->seats[i].fault == DESTROY &&
        ucc_team_destroy(t->teams[i]) == UCC_OK) { /* refused while the exchange is outstanding */
        t->gone[i] = true;
        t->teams[i] = NULL;
    }
    return true;
}

static void settle(trial_t *t, bool backwards) {
    deadline_t deadline = deadline_start("a team whose exchange fails in parts");
    bool any = true;
    while (any) {
        any = false;
        for (uint32_t k = 0; k < t->n; k++) {
            any = drive(t, backwards ? t->n - 1 - k : k) || any;
        }
        deadline_poll(&deadline);
    }
}

/* faults: a digit per endpoint. */
static void try_faults(ucc_context_h *contexts, uint32_t n, uint32_t faults, bool backwards) {
    trial_t t = {.n = n};
    exchange_t x;
    exchange_open(&x, t.seats, n);
    for (uint32_t i = 0, rest = faults; i < n; i++, rest /= FAULTS) {
        t.seats[i].fault = (fault_t)(rest % FAULTS);
    }
    lines = 0;
    post_all(&t, contexts, backwards);
    settle(&t, backwards);
    bool failed = false;
    for (uint32_t i = 0; i < n; i++) {
        failed = failed || t.gone[i] || t.statuses[i] < 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool own = t.seats[i].fault == POST || t.seats[i].fault == TEST || t.seats[i].fault == FREE;
        cr_assert(!own || t.statuses[i] == UCC_ERR_IO_ERROR, "the cause is reported");
        cr_assert(t.gone[i] || (t.statuses[i] < 0) == failed, "endpoint %u of %u, faults %u: %d", i,
                  n, faults, (int)t.statuses[i]);
        cr_assert(!failed || t.gone[i] || lines > 0);
        if (t.teams[i]) {
            cr_assert_eq(ucc_team_create_test(t.teams[i]), t.statuses[i], "the status stays");
            cr_assert_eq(ucc_team_destroy(t.teams[i]), UCC_OK);
        }
    }
    cr_assert(!failed || lines > 0);
    pthread_mutex_destroy(&x.lock);
}

Test(form_faults, every_combination_of_faults_ends_with_a_status_everywhere) {
    ucc_lib_h lib = world_lib(UCC_THREAD_MULTIPLE);
    ucc_context_h contexts[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        contexts[i] = world_new_context(lib, UCC_CONTEXT_SHARED, NULL);
    }
    for (uint32_t n = 2, most = FAULTS * FAULTS; n <= MOST; n++, most *= FAULTS) {
        for (uint32_t faults = 0; faults < most; faults++) {
            try_faults(contexts, n, faults, false);
            try_faults(contexts, n, faults, true);
        }
    }
    for (uint32_t i = 0; i < MOST; i++) {
        cr_assert_eq(ucc_context_destroy(contexts[i]), UCC_OK);
    }
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* Destroyed before the others have come, in the ways that need no exchange. */
Test(form_faults, who_is_destroyed_while_forming_fails_those_who_met_it) {
    ucc_lib_h lib = world_lib(UCC_THREAD_MULTIPLE);
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_SHARED, NULL);
    for (uint32_t tests = 0; tests < 2; tests++) { /* it has joined the group, or not yet */
        ucc_team_h teams[3];
        for (uint32_t i = 0; i < 3; i++) {
            ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                           UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                                   .id = 77,
                                   .ep = i,
                                   .team_size = 3};
            if (i == 2) { /* the last one comes when the first has gone */
                if (tests) {
                    cr_assert_eq(ucc_team_create_test(teams[0]), UCC_INPROGRESS);
                }
                cr_assert_eq(ucc_team_create_test(teams[1]), UCC_INPROGRESS);
                cr_assert_eq(ucc_team_destroy(teams[0]), UCC_OK);
                cr_assert_eq(ucc_team_create_test(teams[1]), UCC_ERR_NOT_FOUND);
                cr_assert_eq(ucc_team_create_post(&context, 1, &p, &teams[i]), UCC_ERR_NOT_FOUND);
                break;
            }
            cr_assert_eq(ucc_team_create_post(&context, 1, &p, &teams[i]), UCC_OK);
        }
        cr_assert_eq(ucc_team_destroy(teams[1]), UCC_OK);
    }
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* All others have come and gone; then the next split is as good as any. */
Test(form_faults, who_comes_late_to_a_split_learns_that_it_has_failed) {
    enum { N = 3 };
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_OOB});
    ucc_team_h subs[N];
    for (uint32_t i = 0; i + 1 < N; i++) {
        cr_assert_eq(ucc_team_create_from_parent(i, 1, world->teams[i], &subs[i]), UCC_OK);
        cr_assert_eq(ucc_team_create_test(subs[i]), UCC_INPROGRESS);
    }
    for (uint32_t i = 0; i + 1 < N; i++) {
        cr_assert_eq(ucc_team_destroy(subs[i]), UCC_OK);
    }
    cr_assert_eq(ucc_team_create_from_parent(N - 1, 1, world->teams[N - 1], &subs[N - 1]),
                 UCC_ERR_NOT_FOUND);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_team_create_from_parent(i, 1, world->teams[i], &subs[i]), UCC_OK);
    }
    world_finish_teams(N, subs);
    cr_assert(small_teams_work(subs, world->contexts, N));
    for (uint32_t i = 0; i < N; i++) {
        world_destroy_team(subs[i]);
    }
    world_destroy(world);
}

/* --- contexts --------------------------------------------------------------------------------- */

typedef struct creation {
    ucc_lib_h lib;
    seat_t *seat;
    ucc_context_h context;
    ucc_status_t status;
} creation_t;

static void *create_context(void *arg) {
    creation_t *c = arg;
    ucc_context_params_t p = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE | UCC_CONTEXT_PARAM_FIELD_OOB,
                              .type = UCC_CONTEXT_SHARED,
                              .oob = oob_of(c->seat)};
    c->status = ucc_context_create(c->lib, &p, NULL, &c->context);
    return NULL;
}

/* Those whose context was made can form teams among themselves, whoever is missing. */
static void team_of_survivors(creation_t *all, uint32_t n, uint32_t missing) {
    uint64_t list[MOST];
    uint32_t m = 0;
    ucc_team_h teams[MOST];
    ucc_context_h contexts[MOST];
    for (uint32_t i = 0; i < n; i++) {
        if (i != missing) {
            list[m] = i;
            contexts[m++] = all[i].context;
        }
    }
    ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP,
                           .ep_map = {.type = UCC_EP_MAP_ARRAY,
                                      .ep_num = m,
                                      .array = {.map = list, .elem_size = sizeof(list[0])}}};
    for (uint32_t i = 0; i < m; i++) {
        cr_assert_eq(ucc_team_create_post(&contexts[i], 1, &p, &teams[i]), UCC_OK);
    }
    world_finish_teams(m, teams);
    cr_assert(small_teams_work(teams, contexts, m));
    for (uint32_t i = 0; i < m; i++) {
        world_destroy_team(teams[i]);
    }
}

Test(form_faults, context_whose_exchange_fails_at_one_rank_only_serves_the_others) {
    for (uint32_t odd = 0; odd < 3; odd++) {
        for (fault_t fault = POST; fault <= FREE; fault++) {
            exchange_t x;
            seat_t seats[3];
            creation_t all[3];
            pthread_t threads[3];
            exchange_open(&x, seats, 3);
            seats[odd].fault = fault;
            for (uint32_t i = 0; i < 3; i++) {
                all[i] = (creation_t){.lib = world_lib(UCC_THREAD_MULTIPLE), .seat = &seats[i]};
                cr_assert_eq(pthread_create(&threads[i], NULL, create_context, &all[i]), 0);
            }
            for (uint32_t i = 0; i < 3; i++) {
                pthread_join(threads[i], NULL);
                cr_assert_eq(all[i].status, i == odd ? UCC_ERR_IO_ERROR : UCC_OK);
            }
            team_of_survivors(all, 3, odd);
            for (uint32_t i = 0; i < 3; i++) {
                cr_assert(i == odd || ucc_context_destroy(all[i].context) == UCC_OK);
                cr_assert_eq(ucc_finalize(all[i].lib), UCC_OK);
            }
            pthread_mutex_destroy(&x.lock);
        }
    }
}
