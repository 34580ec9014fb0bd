/* test_kin.c: what processes that share memory have besides it, and what of that is left when their
 * teams have ended, or one of them has died.
 */
#define _GNU_SOURCE
#include "../support/deadline.h"
#include "../support/forbidden.h"
#include "../support/holdings.h"
#include "../support/late.h"
#include "../support/processes.h"
#include "../support/sweeps.h"

#include "api/api.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <heddle/heddle.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(kin, .timeout = 180);

enum { SECONDS = 100 };

/* --- no network ------------------------------------------------------------------------------- */

/* Teams of all forms, with collectives of all sizes. */
static int work_without_network(const process_t *process, void *arg) {
    uint64_t wrong = 0;
    uint32_t found = 0;
    (void)arg;
    for (int form = 0; form < WORLD_FORMS; form++) {
        batch_params_t params = {
            .world = {.size = process->size, .form = (world_form_t)form, .process = process}};
        if (form == WORLD_ID) {
            continue; /* nobody outside the process can find it */
        }
        wrong += sweep_random(&params, 60, 7 + (uint64_t)form);
        holdings_t h = holdings_now();
        found += h.internet + h.ucx;
        world_t *world = world_create(&params.world);
        h = holdings_now(); /* while there is a team */
        found += h.internet + h.ucx + (h.sockets == 0) + (h.memfds == 0);
        process_barrier(process);
        world_destroy(world);
    }
    process_expect(wrong == 0 && found == 0, "%llu wrong, %u found", (unsigned long long)wrong,
                   found);
    return 0;
}

Test(kin, on_one_node_load_no_network_and_open_no_socket_of_one) {
    shape_t shape = shape_even(3, 2);
    cr_assert(processes_run(&shape, SECONDS, work_without_network, NULL).ok);
}

/* --- processors ------------------------------------------------------------------------------- */

/* On the processor with so many before it in the set. */
static void hold_on(const cpu_set_t *all, uint32_t before) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, all) && before-- == 0) {
            CPU_SET(i, &one);
        }
    }
    sched_setaffinity(0, sizeof(one), &one);
}

/* As a launcher of MPI programs holds processes: each on a processor of its own, or all on one. */
static int work_held(const process_t *process, void *arg) {
    const bool *apart = arg;
    cpu_set_t all;
    sched_getaffinity(0, sizeof(all), &all);
    hold_on(&all, *apart ? process->me : 0);
    heddle_group_t *group;
    heddle_ep_t *ep;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    const hd_group_t *team = ep->team->group;
    process_expect(hd_group_n_processors(team) == (*apart ? process->size : 1) &&
                       team->dedicated == *apart,
                   "%u processors, %d", hd_group_n_processors(team), team->dedicated);
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return 0;
}

Test(kin, processes_held_on_processors_of_their_own_have_enough) {
    shape_t shape = shape_even(2, 1);
    cpu_set_t all;
    cr_assert(sched_getaffinity(0, sizeof(all), &all) == 0);
    for (int apart = 0; apart <= (CPU_COUNT(&all) > 1); apart++) {
        cr_assert(processes_run(&shape, SECONDS, work_held, &(bool){apart}).ok);
    }
}

/* --- nothing is left -------------------------------------------------------------------------- */

static int come_and_go(const process_t *process, void *arg) {
    enum { ROUNDS = 12 };
    holdings_t before = {0}, after = {0};
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        batch_params_t params = {
            .world = {.size = process->size, .form = WORLD_PARENT, .process = process}};
        if (sweep_random(&params, 10, 3 + (uint64_t)round) != 0) {
            return 1;
        }
        process_barrier(process);
        after = holdings_now();
        before = round == 0 ? after : before; /* what the process keeps, it has by now */
    }
    process_expect(after.descriptors <= before.descriptors && after.memfds <= before.memfds,
                   "%u descriptors, then %u; %u mappings, then %u", before.descriptors,
                   after.descriptors, before.memfds, after.memfds);
    return 0;
}

Test(kin, teams_that_have_ended_leave_nothing) {
    shape_t shape = shape_even(3, 1);
    cr_assert(processes_run(&shape, SECONDS, come_and_go, NULL).ok);
}

typedef struct deaths {
    uint32_t victim;
    uint32_t no_pids; /* processes that may not watch others by their pids, a bit each */
} deaths_t;

/* Survivors of one that is killed in the midst of collectives go on as a smaller team. */
static int survive(const process_t *process, void *arg) {
    holdings_t before = holdings_now(), after;
    heddle_group_t *group;
    heddle_ep_t *ep, *left = NULL;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    static char data[1 << 20];
    ucc_status_t status = UCC_OK;
    const deaths_t *d = arg;
    if (d->no_pids >> process->me & 1) {
        forbid_call(SYS_pidfd_open, EPERM); /* without filters there is nothing to see here */
    }
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    for (uint32_t i = 0; status == UCC_OK; i++) {
        if (process->me == d->victim && i == 40) {
            kill(getpid(), SIGKILL);
        }
        status = heddle_bcast(ep, data, i % 2 ? sizeof(data) : 64, UCC_DT_INT8, i % process->size);
    }
    must(status == UCC_ERR_IO_ERROR ? UCC_OK : status, "a collective of a dead process");
    for (uint64_t good = 0, n_failed; !good;) { /* as docs/processes.md has it */
        if (left) {
            must(heddle_leave(left), "heddle_leave");
        }
        good = heddle_shrink(ep, &left) == UCC_OK && heddle_barrier(left) == UCC_OK;
        must(heddle_agree(ep, &good, NULL, &n_failed), "heddle_agree");
    }
    process_expect(heddle_ep_size(left) == process->size - 1, "%u are left", heddle_ep_size(left));
    must(heddle_leave(left), "heddle_leave");
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    after = holdings_now();
    process_expect(after.descriptors == before.descriptors && after.memfds == before.memfds,
                   "%u descriptors, then %u; %u mappings, then %u", before.descriptors,
                   after.descriptors, before.memfds, after.memfds);
    return 0;
}

Test(kin, survivors_have_nothing_left_of_the_dead) {
    static const deaths_t deaths[] = {{0, 0}, {1, 0}, {0, 15}, {2, 15}, {0, 2}, {1, 5}, {3, 9}};
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        shape_t shape = shape_even(4, 1);
        deaths_t d = deaths[i];
        shape.doomed = 1u << d.victim;
        cr_assert(processes_run(&shape, SECONDS, survive, &d).ok, "process %u dies; no pids: %x",
                  d.victim, d.no_pids);
    }
}

/* --- a shortage ------------------------------------------------------------------------------- */

/* Takes all descriptors, and gives them back. */
static int take_descriptors(int taken[], int most) {
    int n = 0;
    while (n < most && (taken[n] = dup(STDERR_FILENO)) >= 0) {
        n++;
    }
    return n;
}

/* A team of those processes that have no connection with each other. UCC_ERR_*: it has none. */
static ucc_status_t derive(const process_t *process, ucc_team_h parent, ucc_team_h *team) {
    deadline_t deadline = deadline_start("a team of a parent's endpoints");
    ucc_status_t status =
        ucc_team_create_from_parent(process->endpoint[0], process->me > 0, parent, team);
    while (status >= UCC_OK && (status = ucc_team_create_test(*team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    return status;
}

static int derive_short(const process_t *process, void *arg) {
    enum { MOST = 256 };
    static int taken[MOST];
    const struct rlimit few = {MOST, MOST};
    (void)arg;
    must(setrlimit(RLIMIT_NOFILE, &few) == 0 ? UCC_OK : UCC_ERR_NO_RESOURCE, "setrlimit");
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    ucc_team_h parent = world->teams[process->endpoint[0]], team;
    process_barrier(process);
    int n = process->me > 0 ? take_descriptors(taken, MOST) : 0;
    ucc_status_t status = derive(process, parent, &team);
    process_expect(process->me == 0 ? status >= 0 : status < 0, "%s", ucc_status_string(status));
    process_barrier(process);
    process_expect(hd_group_poisoned(parent->group) == UCC_OK, "the parent has failed");
    while (n > 0) {
        close(taken[--n]);
    }
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
    }
    process_barrier(process);
    status = derive(process, parent, &team); /* another time */
    process_expect(status >= 0, "%s", ucc_status_string(status));
    process_barrier(process);
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
    }
    process_barrier(process);
    world_destroy(world);
    return 0;
}

Test(kin, a_team_that_lacks_descriptors_leaves_its_parent_as_it_was) {
    shape_t shape = shape_even(3, 1);
    setenv("HEDDLE_NET", "n", 1);
    cr_assert(processes_run(&shape, SECONDS, derive_short, NULL).ok);
}

/* --- yields ----------------------------------------------------------------------------------- */

/* Would this process take for a stranger whoever has the first processor for long, while process 0
 * notes a yield there that is still to come, or none? */
static bool takes_others_for_strangers(const process_t *process, bool notes) {
    enum { CALM = 100 };
    cpu_set_t all;
    sched_getaffinity(0, sizeof(all), &all);
    hold_on(&all, 0);
    for (int i = 0; i < CALM; i++) { /* whoever was found before, while the team was formed */
        uint64_t now = hd_ticks();
        hd_processor_came_back(now, now);
    }
    process_barrier(process);
    if (process->me == 0 && notes) {
        hd_processor_yields(hd_ticks() + 1000000000 * hd_ticks_per_us);
    }
    process_barrier(process);
    if (process->me == 1) {
        late_return();
    }
    process_barrier(process);
    bool takes = hd_processor_has_strangers(hd_ticks());
    sched_setaffinity(0, sizeof(all), &all);
    process_barrier(process);
    return takes;
}

static int know_yields(const process_t *process, void *arg) {
    (void)arg;
    hd_clock_init();
    for (int form = 0; form < WORLD_FORMS; form++) {
        world_params_t params = {
            .size = process->size, .form = (world_form_t)form, .process = process};
        if (form == WORLD_ID) {
            continue; /* nobody outside the process can find it */
        }
        world_t *world = world_create(&params);
        process_expect(takes_others_for_strangers(process, false),
                       "form %d: what one finds, all know", form);
        world_destroy(world);
        world = world_create(&params);
        process_expect(!takes_others_for_strangers(process, true), "form %d: a yield that is noted",
                       form);
        world_t *second = world_create(&params);
        process_expect(!takes_others_for_strangers(process, false),
                       "form %d: two teams that know nothing of each other", form);
        world_destroy(world);
        world_destroy(second);
    }
    bool takes = takes_others_for_strangers(process, true);
    process_expect(takes == (process->me == 1), "without a team: %d", takes);
    return 0;
}

Test(kin, processes_that_lack_processors_are_no_strangers_to_each_other) {
    shape_t shape = shape_even(2, 1);
    shape.endpoints[0] = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    cr_assert(processes_run(&shape, SECONDS, know_yields, NULL).ok);
}
