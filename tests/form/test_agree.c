/* test_agree.c: all endpoints that are left agree on bits, and on who has failed. */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/ucx_losses.h"
#include "../support/world.h"
#include "net/internal.h"
#include "span/span.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

TestSuite(agree, .timeout = 200);

enum { MOST = 16, SECONDS = 40, VICTIM = 1, CALLS = 4096 };

/* What an endpoint has got. */
typedef struct verdict {
    uint64_t bits, failed; /* a bit for each endpoint */
} verdict_t;

static world_t *open_world(const process_t *process) {
    return world_create(
        &(world_params_t){.size = process->size, .form = WORLD_OOB, .process = process});
}

static verdict_t verdict_of(uint64_t bits, const uint64_t *failed, uint64_t n_failed) {
    verdict_t v = {.bits = bits};
    for (uint64_t i = 0; i < n_failed; i++) {
        v.failed |= UINT64_C(1) << failed[i];
    }
    return v;
}

/* The bits of endpoint e in agreement k: who takes part is seen in the result. */
static uint64_t bits_of(uint32_t e, uint32_t k) {
    return ~(UINT64_C(1) << e) ^ (uint64_t)k << 32;
}

/* What happens to a process while it agrees. */
typedef enum trouble {
    NONE,
    FAILS,   /* the first attempt fails when it is locked on a decision */
    IS_DEAF, /* and it does not hear that others have returned it */
    IS_LATE  /* as FAILS, of this process's time-out, when it has heard that others have returned */
} trouble_t;

static trouble_t make_trouble(const world_t *world, trouble_t trouble) {
    hd_net_t *net = hd_net_opened();
    hd_net_team_t *attempt = NULL;
    uint64_t wire = world->teams[world_endpoint(world, 0)]->crossing->wire;
    bool locked = false;
    hd_lock(&net->lock);
    for (hd_net_decision_t *d = net->decisions; d; d = d->next) {
        locked |= d->name != 0;
        d->name = trouble == IS_DEAF ? 0 : d->name;
        d->agreed |= trouble == IS_LATE && d->name != 0;
    }
    for (uint32_t i = 0; i < HD_NET_TABLE; i++) {
        for (hd_net_team_t *team = net->table[i]; team; team = team->next) {
            attempt = team->wire != wire ? team : attempt;
        }
    }
    hd_unlock(&net->lock);
    if (locked && attempt) {
        hd_net_team_fail(attempt, trouble == IS_LATE ? UCC_ERR_TIMED_OUT : UCC_ERR_IO_ERROR);
        return trouble == IS_DEAF ? trouble : NONE;
    }
    return trouble;
}

/* One thread drives all endpoints of mine. */
static ucc_status_t agree_in(trouble_t trouble, const world_t *world, uint32_t k, verdict_t *got) {
    uint32_t n = world_count(world), left = n;
    heddle_agreement_t *agreement[MOST];
    ucc_status_t result = UCC_OK;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = world_endpoint(world, i);
        must(heddle_agree_post(world->teams[e], bits_of(e, k), &agreement[i]), "heddle_agree_post");
    }
    deadline_t deadline = deadline_start("an agreement");
    for (bool over[MOST] = {false}; left > 0; deadline_poll(&deadline)) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t bits = 0, failed[MOST], n_failed = 0;
            ucc_status_t status = over[i]
                                      ? UCC_INPROGRESS
                                      : heddle_agree_test(agreement[i], &bits, failed, &n_failed);
            if (status != UCC_INPROGRESS) {
                over[i] = true;
                left--;
                result = result == UCC_OK ? status : result;
                got[i] = verdict_of(bits, failed, n_failed);
                must(heddle_agree_free(agreement[i]), "heddle_agree_free");
            }
        }
        trouble = trouble && left > 0 ? make_trouble(world, trouble) : NONE;
    }
    return result;
}

static ucc_status_t agree(const world_t *world, uint32_t k, verdict_t *got) {
    return agree_in(NONE, world, k, got);
}

static uint64_t endpoints_of(const process_t *process, uint32_t p) {
    uint64_t mask = 0;
    for (uint32_t e = 0; e < process->size; e++) {
        mask |= (uint64_t)(process->process_of[e] == p) << e;
    }
    return mask;
}

static bool is_whole(const process_t *process, const verdict_t *v, uint32_t k) {
    uint64_t all = (UINT64_C(1) << process->size) - 1;
    return v->failed == 0 && v->bits == (~all ^ (uint64_t)k << 32);
}

/* --- nobody is lost --------------------------------------------------------------------------- */

static int agree_often(const process_t *process, void *arg) {
    world_t *world = world_create(&(world_params_t){.size = process->size,
                                                    .form = WORLD_OOB,
                                                    .ordering = *(ucc_post_ordering_t *)arg,
                                                    .process = process});
    verdict_t got[MOST];
    int bad = 0;
    for (uint32_t k = 0; k < 20 && !bad; k++) {
        bad = agree(world, k, got) != UCC_OK;
        for (uint32_t i = 0; i < world_count(world); i++) {
            bad |= !is_whole(process, &got[i], k);
        }
        if (process->me == k % process->shape->processes) {
            usleep(2000);
        }
    }
    world_destroy(world);
    return bad;
}

Test(agree, all_that_live_get_the_and_of_their_bits_again_and_again) {
    ucc_post_ordering_t ordering = UCC_COLLECTIVE_POST_ORDERED;
    shape_t shapes[] = {
        shape_even(2, 1),
        {.processes = 3, .endpoints = {2, 1, 3}, .numbering = NUMBERING_INTERLEAVED}};
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, agree_often, &ordering).ok);
    }
}

Test(agree, endpoints_of_one_process_agree_too) {
    ucc_post_ordering_t ordering = UCC_COLLECTIVE_POST_ORDERED;
    shape_t shape = shape_even(1, 3);
    cr_assert(processes_run(&shape, SECONDS, agree_often, &ordering).ok);
}

Test(agree, so_do_those_of_unordered_teams) {
    ucc_post_ordering_t ordering = UCC_COLLECTIVE_INIT_AND_POST_UNORDERED;
    for (uint32_t n = 1; n <= 2; n++) {
        shape_t shape = shape_even(n, 2);
        cr_assert(processes_run(&shape, SECONDS, agree_often, &ordering).ok);
    }
}

static int agree_after_abort(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h left = NULL;
    uint64_t bits = 6 + process->me, failed[MOST], n_failed = 9;
    process_barrier(process); /* the other one's team has formed, too */
    heddle_team_abort(world->teams[process->me]);
    int bad = heddle_team_agree(world->teams[process->me], &bits, failed, &n_failed) != UCC_OK;
    bad |= bits != 6 || n_failed != 0;
    /* what follows meets no attempt of the agreement's */
    must(heddle_team_shrink(world->teams[process->me], &left), "heddle_team_shrink");
    ucc_status_t status;
    deadline_t deadline = deadline_start("a team");
    while ((status = ucc_team_create_test(left)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    bad |= status != UCC_OK;
    process_barrier(process);
    world_destroy_team(left);
    world_destroy(world);
    return bad;
}

Test(agree, a_team_that_was_aborted_can_agree) {
    shape_t shape = shape_even(2, 1);
    cr_assert(processes_run(&shape, SECONDS, agree_after_abort, NULL).ok);
}

static int agree_as_group(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = world_create(
        &(world_params_t){.size = process->size, .form = WORLD_GROUP, .process = process});
    heddle_ep_t *ep = world->endpoints[world_endpoint(world, 0)];
    uint64_t bits = 12 + process->me, n_failed = 9;
    int bad = heddle_agree(ep, &bits, NULL, &n_failed) != UCC_OK || bits != 12 || n_failed != 0;
    bad |= heddle_agree(ep, &bits, NULL, NULL) != UCC_OK || bits != 12;
    bad |= heddle_agree(NULL, &bits, NULL, NULL) != UCC_ERR_INVALID_PARAM;
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, endpoints_of_groups_agree_in_one_call) {
    shape_t shape = shape_even(2, 1);
    cr_assert(processes_run(&shape, SECONDS, agree_as_group, NULL).ok);
}

/* --- a process is killed ---------------------------------------------------------------------- */

static int lose_one_before(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    verdict_t got[MOST];
    int bad = agree(world, 0, got) != UCC_OK;
    process_barrier(process);
    if (process->me == VICTIM) {
        kill(getpid(), SIGKILL);
    }
    uint64_t gone = endpoints_of(process, VICTIM), all = (UINT64_C(1) << process->size) - 1;
    for (uint32_t k = 1; k < 4; k++) {
        bad |= agree(world, k, got) != UCC_OK;
        for (uint32_t i = 0; i < world_count(world); i++) {
            bad |= got[i].failed != gone || got[i].bits != (~(all & ~gone) ^ (uint64_t)k << 32);
        }
    }
    uint64_t failed[MOST], n_failed;
    ucc_team_h team = world->teams[world_endpoint(world, 0)];
    bad |= heddle_team_failed(team, failed, &n_failed) != UCC_OK;
    /* others may have left meanwhile */
    bad |= (verdict_of(0, failed, n_failed).failed & gone) != gone;
    bad |= heddle_team_failed(team, NULL, &n_failed) != UCC_OK || n_failed == 0;
    world_destroy(world);
    return bad;
}

Test(agree, who_was_killed_is_in_the_set_at_all) {
    shape_t shapes[] = {{.processes = 2, .endpoints = {2, 1}},
                        {.processes = 4, .endpoints = {1, 2, 3, 1}}};
    for (uint32_t i = 0; i < 2; i++) {
        shapes[i].doomed = 1 << VICTIM;
        shapes[i].numbering = i ? NUMBERING_INTERLEAVED : NUMBERING_CONSECUTIVE;
        cr_assert(processes_run(&shapes[i], SECONDS, lose_one_before, NULL).ok);
    }
}

/* What endpoints have returned, those that died included, in memory that all processes share. */
typedef struct record {
    uint32_t run;
    uint32_t calls[MOST];
    verdict_t got[MOST][CALLS];
} record_t;

static void die(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* At a random moment. */
static void be_doomed(const process_t *process, uint32_t run) {
    uint32_t random = run * 2654435761u + process->me * 40503u;
    struct itimerval timer = {.it_value.tv_usec = 1 + (random >> 8) % 20000};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int agree_until_losses_are_known(const process_t *process, void *arg) {
    record_t *record = arg;
    setenv("HEDDLE_NET_SHM", "n", 1); /* a kill may cost two processes otherwise (processes.md) */
    world_t *world = open_world(process);
    uint64_t gone = 0, seen = 0;
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        gone |= process->shape->doomed >> p & 1 ? endpoints_of(process, p) : 0;
    }
    process_barrier(process);
    if (process->shape->doomed >> process->me & 1) {
        be_doomed(process, record->run);
    }
    int bad = 0;
    for (uint32_t k = 0, after = 0; k < CALLS && !bad && after < 2; k++) {
        verdict_t got[MOST];
        bad = agree(world, k, got) != UCC_OK;
        for (uint32_t i = 0; i < world_count(world); i++) {
            uint32_t e = world_endpoint(world, i);
            record->got[e][k] = got[i];
            __atomic_store_n(&record->calls[e], k + 1, __ATOMIC_RELEASE);
            bad |= (seen & ~got[i].failed) != 0; /* nobody comes back */
        }
        seen = got[0].failed;
        after += seen == gone;
    }
    bad |= seen != gone;
    world_destroy(world);
    return bad;
}

static bool is_uniform(const record_t *record, uint32_t size) {
    uint64_t all = (UINT64_C(1) << size) - 1;
    for (uint32_t k = 0; k < CALLS; k++) {
        const verdict_t *first = NULL;
        for (uint32_t e = 0; e < size; e++) {
            const verdict_t *v = &record->got[e][k];
            if (k >= record->calls[e]) {
                continue;
            }
            first = first ? first : v;
            uint64_t took_part = ~(v->bits ^ (uint64_t)k << 32);
            if (v->bits != first->bits || v->failed != first->failed ||
                (took_part | v->failed) != all || took_part & v->failed) {
                return false;
            }
        }
    }
    return true;
}

static record_t *share_record(void) {
    record_t *record =
        mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(record != MAP_FAILED);
    return record;
}

static void lose_while_agreeing(shape_t *shape, uint32_t runs) {
    record_t *record = share_record();
    for (uint32_t run = 0; run < runs; run++) {
        memset(record, 0, sizeof(*record));
        record->run = run;
        bool ok = processes_run(shape, SECONDS, agree_until_losses_are_known, record).ok;
        cr_assert(ok, "run %u of %s", run, shape_name(shape));
        cr_assert(is_uniform(record, shape_size(shape)), "run %u", run);
    }
    munmap(record, sizeof(*record));
}

Test(agree, who_is_killed_at_any_moment_has_returned_what_all_others_do) {
    shape_t shape = {.processes = 3, .endpoints = {1, 1, 2}, .doomed = 1 << VICTIM};
    lose_while_agreeing(&shape, 12);
}

Test(agree, so_have_two) {
    shape_t shape = {.processes = 5, .endpoints = {1, 1, 2, 1, 1}, .doomed = 1 << 1 | 1 << 4};
    lose_while_agreeing(&shape, 8);
}

/* --- attempts fail ---------------------------------------------------------------------------- */

static int agree_in_spite_of_failures(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    verdict_t got[MOST];
    int bad = 0;
    for (uint32_t k = 0; k < 40 && !bad; k++) {
        bool mine = process->me == k % process->shape->processes;
        bad = agree_in(mine ? FAILS : NONE, world, k, got) != UCC_OK;
        for (uint32_t i = 0; i < world_count(world); i++) {
            bad |= !is_whole(process, &got[i], k);
        }
    }
    world_destroy(world);
    return bad;
}

Test(agree, who_fails_when_others_have_returned_hears_that_they_have) {
    processes_use_network();
    shape_t shapes[] = {shape_even(2, 1), {.processes = 3, .endpoints = {2, 1, 2}}};
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, agree_in_spite_of_failures, NULL).ok);
    }
}

/* The others may have to return its failure: nobody has told them. */
static int agree_too_late(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    verdict_t got[MOST];
    bool mine = process->me == 0;
    ucc_status_t status = agree_in(mine ? IS_LATE : NONE, world, 0, got);
    int bad = mine && (status != UCC_OK || !is_whole(process, &got[0], 0));
    world_destroy(world);
    return bad;
}

Test(agree, who_has_heard_that_others_have_returned_returns_what_they_have_in_spite_of_a_time_out) {
    processes_use_network();
    shape_t shape = shape_even(2, 1);
    for (uint32_t run = 0; run < 10; run++) {
        cr_assert(processes_run(&shape, SECONDS, agree_too_late, NULL).ok, "run %u", run);
    }
}

/* One returns, and dies. The other one has not, and nobody tells it. */
static int stay_alone(const process_t *process, void *arg) {
    record_t *record = arg;
    world_t *world = open_world(process);
    process_barrier(process);
    bool stays = process->me != VICTIM;
    verdict_t got[MOST];
    int bad = agree_in(stays ? IS_DEAF : NONE, world, 0, got) != UCC_OK;
    record->got[process->me][0] = got[0];
    __atomic_store_n(&record->calls[process->me], 1, __ATOMIC_RELEASE);
    if (!stays) {
        kill(getpid(), SIGKILL);
    }
    world_destroy(world);
    return bad;
}

Test(agree, what_one_has_returned_and_died_another_one_returns_though_it_is_left_alone) {
    processes_use_network();
    shape_t shape = {.processes = 2, .endpoints = {1, 1}, .doomed = 1 << VICTIM};
    record_t *record = share_record();
    for (uint32_t run = 0; run < 10; run++) {
        memset(record, 0, sizeof(*record));
        cr_assert(processes_run(&shape, SECONDS, stay_alone, record).ok, "run %u", run);
        cr_assert(is_uniform(record, 2), "run %u", run);
    }
    munmap(record, sizeof(*record));
}

/* --- beside shrinking ------------------------------------------------------------------------- */

/* Makes a team of those that are left, and destroys it again. Returns its size; 0: it failed. */
static uint32_t shrink_once(ucc_team_h team) {
    deadline_t deadline = deadline_start("what is left to form a team");
    ucc_team_h left = NULL;
    ucc_status_t status = heddle_team_shrink(team, &left);
    uint32_t n = 0;
    if (status == UCC_OK) {
        while ((status = ucc_team_create_test(left)) == UCC_INPROGRESS) {
            deadline_poll(&deadline);
        }
        n = status == UCC_OK ? left->n : 0;
        world_destroy_team(left);
    }
    return n;
}

/* Process 1 gives up its first attempt, and agrees; process 0 is then at its second one. */
static int wait_for_one_that_agrees(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h team = world->teams[world_endpoint(world, 0)], left = NULL;
    uint64_t good = 0, n_failed = 9;
    int bad = 0;
    if (process->me == 1) {
        must(heddle_team_shrink(team, &left), "heddle_team_shrink");
        world_destroy_team(left);
    } else {
        for (int i = 0; i < 2; i++) { /* the second would wait for ever */
            bad |= shrink_once(team) != 0;
        }
    }
    bad |= heddle_team_agree(team, &good, NULL, &n_failed) != UCC_OK || good || n_failed;
    bad |= shrink_once(team) != 2; /* now both are at the same attempt */
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, who_waits_in_vain_for_one_that_agrees_is_told_and_meets_it_afterwards) {
    shape_t shape = shape_even(2, 1);
    for (int way = 0; way < 2; way++) {
        cr_assert(processes_run(&shape, SECONDS, wait_for_one_that_agrees, NULL).ok, "%d", way);
        processes_use_network();
    }
}

/* The same in one call each, which go ahead. */
static int wait_ahead(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = world_create(
        &(world_params_t){.size = process->size, .form = WORLD_GROUP, .process = process});
    heddle_ep_t *ep = world->endpoints[world_endpoint(world, 0)], *left = NULL;
    uint64_t good = 0;
    int bad = 0;
    for (uint32_t i = 0; i < (process->me ? 1 : 2); i++) {
        ucc_status_t status = heddle_shrink(ep, &left);
        if (process->me == 1) {
            must(heddle_team_abort(heddle_ep_team(left)), "heddle_team_abort");
        } else {
            bad |= status == UCC_OK && heddle_barrier(left) == UCC_OK;
        }
        if (status == UCC_OK) {
            heddle_leave(left);
        }
    }
    bad |= heddle_agree(ep, &good, NULL, NULL) != UCC_OK || good;
    /* a team that stands may be agreed on before all have come to it */
    for (uint32_t i = 0; i < 20 && !bad; i++) {
        usleep(process->me == i % 2 ? 1000 : 0);
        bad = heddle_shrink(ep, &left) != UCC_OK;
        good = !bad;
        bad |= heddle_agree(ep, &good, NULL, NULL) != UCC_OK || !good;
        bad = bad || heddle_barrier(left) != UCC_OK;
        heddle_leave(left);
    }
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, so_does_who_waits_in_a_barrier_of_a_team_that_goes_ahead) {
    shape_t shape = shape_even(2, 1);
    for (int way = 0; way < 2; way++) {
        cr_assert(processes_run(&shape, SECONDS, wait_ahead, NULL).ok, "%d", way);
        processes_use_network();
    }
}

/* --- mistakes --------------------------------------------------------------------------------- */

static int make_mistakes(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h team = world->teams[world_endpoint(world, 0)];
    heddle_agreement_t *a = NULL;
    uint64_t bits = 1, n;
    int bad = heddle_agree_post(NULL, 1, &a) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_agree_post(team, 1, NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_team_agree(team, NULL, NULL, NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_team_agree(NULL, &bits, NULL, NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_agree_test(NULL, &bits, NULL, NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_agree_free(NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_team_failed(NULL, NULL, &n) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_team_failed(team, NULL, NULL) != UCC_ERR_INVALID_PARAM;
    must(heddle_agree_post(team, 1, &a), "heddle_agree_post");
    bad |= heddle_agree_free(a) != UCC_ERR_INVALID_PARAM;
    bad |= ucc_team_destroy(team) != UCC_ERR_INVALID_PARAM;
    deadline_t deadline = deadline_start("an agreement");
    while (heddle_agree_test(a, NULL, NULL, NULL) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    bad |= heddle_agree_test(a, &bits, NULL, NULL) != UCC_OK || bits != 1;
    bad |= heddle_agree_free(a) != UCC_OK;
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, bad_arguments_and_an_early_end_are_refused) {
    for (uint32_t n = 1; n <= 2; n++) {
        shape_t shape = shape_even(n, 1);
        cr_assert(processes_run(&shape, SECONDS, make_mistakes, NULL).ok);
    }
}

static void leave(world_t *world, uint32_t i) {
    uint32_t e = world_endpoint(world, i);
    world_destroy_team(world->teams[e]);
    world->teams[e] = NULL;
}

static void fail_team(const process_t *process, const world_t *world) {
    deadline_t deadline = deadline_start("an abort to come");
    process_barrier(process); /* all have formed the team */
    if (process->me == 0) {
        must(heddle_team_abort(world->teams[world_endpoint(world, 0)]), "heddle_team_abort");
    }
    ucc_team_h team = world->teams[world_endpoint(world, 0)];
    while (hd_group_poisoned(team->group) == UCC_OK) {
        ucc_context_progress(team->contexts[0]);
        deadline_poll(&deadline);
    }
    process_barrier(process);
}

/* The last process has left the team before the others agree, and lives. If it has two endpoints,
 * one of them only finds out that the other one has left. */
static int agree_without_one(const process_t *process, void *arg) {
    world_t *world = open_world(process);
    if (arg) { /* the team has failed everywhere before that */
        fail_team(process, world);
    }
    uint32_t last = process->shape->processes - 1;
    uint64_t bits = bits_of(process->me, 7), failed[MOST], n_failed = 0;
    int bad = 0;
    if (process->me == last) {
        heddle_agreement_t *a = NULL;
        for (int i = 0; i < 1000 && process->n > 1; i++) { /* it waits for its sibling */
            must(a ? UCC_OK : heddle_agree_post(world->teams[world_endpoint(world, 0)], bits, &a),
                 "heddle_agree_post");
            bad |= heddle_agree_test(a, NULL, NULL, NULL) != UCC_INPROGRESS;
        }
        leave(world, process->n - 1);
        if (a) {
            while (heddle_agree_test(a, NULL, NULL, NULL) == UCC_INPROGRESS) {
            }
            bad |= heddle_agree_test(a, NULL, NULL, NULL) != UCC_ERR_NOT_FOUND;
            must(heddle_agree_free(a), "heddle_agree_free");
            leave(world, 0);
        }
        process_set(process, 0, 1);
        while (process_get(process, 0, 0) + process_get(process, 1, 0) < 2) {
            ucc_context_progress(world_context(world, process->endpoint[0]));
        }
    } else {
        ucc_team_h team = world->teams[world_endpoint(world, 0)];
        bad |= heddle_team_agree(team, &bits, failed, &n_failed) != UCC_OK;
        verdict_t got = verdict_of(bits, failed, n_failed);
        bad |= got.bits != (bits_of(0, 7) & bits_of(1, 7));
        bad |= got.failed != endpoints_of(process, last);
        bad |= shrink_once(team) != 2; /* nor is it a survivor any more */
        process_set(process, 0, 1);
    }
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, an_endpoint_that_has_left_the_team_is_not_waited_for) {
    shape_t shapes[] = {shape_even(3, 1), {.processes = 3, .endpoints = {1, 1, 2}}};
    static bool failed = true;
    for (uint32_t i = 0; i < 8; i++) {
        void *arg = i % 2 ? &failed : NULL;
        if (i == 4) {
            processes_use_network();
        }
        bool ok = processes_run(&shapes[i / 2 % 2], SECONDS, agree_without_one, arg).ok;
        cr_assert(ok, "case %u", i);
    }
}

static int agree_unwatched(const process_t *process, void *arg) {
    (void)arg;
    if (process->me == 0) {
        setenv("HEDDLE_NET_WATCH", "n", 1);
    }
    world_t *world = open_world(process);
    heddle_agreement_t *a = NULL;
    int bad = heddle_agree_post(world->teams[process->me], 1, &a) != UCC_ERR_NOT_SUPPORTED;
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, processes_that_nobody_watches_agree_on_nothing) {
    processes_use_network();
    shape_t shape = shape_even(2, 1);
    cr_assert(processes_run(&shape, SECONDS, agree_unwatched, NULL).ok);
}

/* The addresses of processes say that nobody connects to them, or that they are of other hosts. */
static void hide(const world_t *world, uint32_t hidden) {
    const hd_net_team_t *team = world->teams[world_endpoint(world, 0)]->crossing->team;
    for (uint32_t p = 0; p < team->n; p++) {
        size_t bytes;
        const void *address = p == team->me ? hd_watch_address(team->net->watch, &bytes)
                                            : team->peer[p]->watch_address;
        hd_watch_record_t *record = (hd_watch_record_t *)(uintptr_t)address;
        if (hidden >> p & 1) {
            record->host = p + 1;
            record->wide = 0;
        }
    }
}

static int agree_apart(const process_t *process, void *arg) {
    uint32_t hidden = *(const uint32_t *)arg;
    world_t *world = open_world(process);
    size_t bytes;
    const hd_watch_record_t *mine = hd_watch_address(hd_net_opened()->watch, &bytes);
    bool has_devices = mine->n, several = hidden & (hidden - 1);
    verdict_t got[MOST];
    hide(world, hidden);
    ucc_team_h team = world->teams[world_endpoint(world, 0)];
    int bad = 0;
    if (several) {
        uint64_t bits = 1;
        bad = heddle_team_agree(team, &bits, NULL, NULL) != UCC_ERR_NOT_SUPPORTED;
    } else if (has_devices) {
        bad = agree(world, 0, got) != UCC_OK;
    }
    process_barrier(process);
    world_destroy(world);
    return bad;
}

Test(agree, so_do_two_hosts_to_neither_of_which_the_other_can_connect) {
    processes_use_network();
    shape_t shape = shape_even(3, 1);
    for (uint32_t hidden = 1; hidden < 8; hidden++) {
        cr_assert(processes_run(&shape, SECONDS, agree_apart, &hidden).ok, "%u", hidden);
    }
}
