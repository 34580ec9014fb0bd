/* test_processes.c: real processes that fetch a segment from one of them, and what becomes of the
 * others when one dies, wherever it stands. Nobody spins: all sleep on their node's descriptor,
 * which so has to be enough.
 */
#include "../support/forbidden.h"
#include "two.h"

#include "core/log.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MOST = 16 };

TestSuite(processes, .timeout = 240);

/* Shared by all of a test, from before they are forked. */
typedef struct area {
    hd_node_address_t address[MOST];
    _Atomic uint32_t here, over; /* processes whose address is there; that have ended their part */
    _Atomic uint32_t result[MOST];
} area_t;

static area_t *shared_area(void) {
    area_t *area =
        mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(area, MAP_FAILED);
    return area;
}

static void wait_for(_Atomic uint32_t *count, uint32_t n) {
    deadline_t deadline = deadline_start("other processes");
    while (atomic_load(count) < n) {
        sched_yield();
        deadline_poll(&deadline);
    }
}

/* The caller's node; all processes know all addresses. */
static hd_node_t *join(area_t *area, uint32_t me, uint32_t n) {
    hd_node_t *node;
    must(hd_node_enter(LAYOUT, NULL, &node), "hd_node_enter");
    area->address[me] = *hd_node_address(node);
    atomic_fetch_add(&area->here, 1);
    wait_for(&area->here, n);
    return node;
}

static void sleep_and_work(hd_node_t *node) {
    struct pollfd at = {.fd = hd_node_fd(node), .events = POLLIN};
    if (poll(&at, 1, 60000) == 0) {
        fprintf(stderr, "HANG: a process sleeps and nobody wakes it\n");
        abort();
    }
    hd_node_progress(node);
}

static hd_node_state_t await_fetch(hd_node_t *node, const hd_node_fetch_t *fetch) {
    while (hd_node_fetch_state(fetch) == HD_NODE_PENDING) {
        sleep_and_work(node);
    }
    return hd_node_fetch_state(fetch);
}

static ucc_status_t await_offer(hd_node_t *node, hd_node_offer_t *offer) {
    while (hd_node_offer_test(offer) == UCC_INPROGRESS) {
        sleep_and_work(node);
    }
    return hd_node_offer_test(offer);
}

/* Offers a segment to all others of n. */
static hd_node_offer_t *offer_all(hd_node_t *node, const area_t *area, uint32_t me, uint32_t n,
                                  void **where) {
    uint64_t doors[MOST][2];
    uint32_t others = 0;
    hd_node_segment_t segment;
    hd_node_offer_t *offer;
    for (uint32_t i = 0; i < n; i++) {
        if (i != me) {
            memcpy(doors[others++], area->address[i].door, sizeof(doors[0]));
        }
    }
    must(hd_segment_create(BYTES, &segment), "hd_segment_create");
    must(hd_segment_map(&segment, NULL, where), "hd_segment_map");
    must(hd_node_offer(node, name, &segment, (const uint64_t(*)[2])doors, others, &offer),
         "hd_node_offer");
    return offer;
}

static pid_t forked(void) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    return child;
}

static int ended(pid_t child) {
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

/* --- all goes well ---------------------------------------------------------------------------- */

static int fetch_and_write(area_t *area, uint32_t me, uint32_t n) {
    hd_node_t *node = join(area, me, n);
    hd_node_fetch_t *fetch;
    hd_node_segment_t segment;
    void *where;
    must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
    if (await_fetch(node, fetch) != HD_NODE_DONE) {
        return 1;
    }
    must(hd_node_fetch_test(fetch, &segment), "hd_node_fetch_test");
    must(hd_segment_map(&segment, NULL, &where), "hd_segment_map");
    hd_segment_close(&segment);
    atomic_fetch_add((_Atomic uint32_t *)where, me);
    ((uint32_t *)where)[me] = 100 + me;
    hd_node_fetch_end(fetch);
    atomic_fetch_add(&area->over, 1);
    hd_node_leave(node);
    return 0;
}

Test(processes, eight_fetch_one_segment_and_write_into_it) {
    enum { N = 8 };
    for (int round = 0; round < 10; round++) {
        area_t *area = shared_area();
        pid_t child[N];
        void *where;
        for (uint32_t i = 1; i < N; i++) {
            if ((child[i] = forked()) == 0) {
                _exit(fetch_and_write(area, i, N));
            }
        }
        hd_node_t *node = join(area, 0, N);
        hd_node_offer_t *offer = offer_all(node, area, 0, N, &where);
        cr_expect_eq(await_offer(node, offer), UCC_OK);
        hd_node_offer_end(offer);
        for (uint32_t i = 1; i < N; i++) {
            cr_expect_eq(ended(child[i]), 0);
            cr_expect_eq(((uint32_t *)where)[i], 100 + i);
        }
        cr_expect_eq(*(uint32_t *)where, N * (N - 1) / 2);
        munmap(where, BYTES);
        hd_node_leave(node);
        munmap(area, sizeof(*area));
    }
}

/* --- one dies --------------------------------------------------------------------------------- */

/* What a process may do before it dies: so many looks, at which something has mostly come. */
static void look(hd_node_t *node, int looks) {
    for (int i = 0; i < looks; i++) {
        struct pollfd at = {.fd = hd_node_fd(node), .events = POLLIN};
        (void)poll(&at, 1, 100);
        hd_node_progress(node);
    }
}

static void die(void) {
    raise(SIGKILL);
}

static int lead_and_die(area_t *area, uint32_t n, int before, int after) {
    void *where;
    hd_node_t *node = join(area, 0, n);
    look(node, before);
    (void)offer_all(node, area, 0, n, &where);
    look(node, after);
    die();
    return 1;
}

static int fetch_of_the_doomed(area_t *area, uint32_t me, uint32_t n) {
    hd_node_t *node = join(area, me, n);
    hd_node_fetch_t *fetch;
    hd_node_peer_t *peer;
    must(hd_node_meet(node, &area->address[0], true, &peer), "hd_node_meet");
    must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
    hd_node_state_t state = await_fetch(node, fetch);
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    hd_node_state_t end = hd_node_peer_state(peer);
    bool fine =
        (end == HD_NODE_DIED || end == HD_NODE_ABSENT) && (state == HD_NODE_DONE || state == end);
    hd_node_fetch_end(fetch);
    hd_node_part(peer);
    hd_node_leave(node);
    return fine ? 0 : 1;
}

Test(processes, members_of_a_leader_that_dies_at_any_step_are_told) {
    enum { N = 3 };
    for (int step = 0; step < 12; step++) {
        area_t *area = shared_area();
        pid_t child[N];
        for (uint32_t i = 0; i < N; i++) {
            if ((child[i] = forked()) == 0) {
                _exit(i ? fetch_of_the_doomed(area, i, N)
                        : lead_and_die(area, N, step % 3, step / 3));
            }
        }
        cr_expect_eq(ended(child[0]), SIGKILL);
        for (uint32_t i = 1; i < N; i++) {
            cr_expect_eq(ended(child[i]), 0, "step %d", step);
        }
        munmap(area, sizeof(*area));
    }
}

/* step -1: before it has asked. */
static int fetch_and_die(area_t *area, uint32_t me, uint32_t n, int step) {
    hd_node_t *node = join(area, me, n);
    hd_node_fetch_t *fetch;
    if (step >= 0) {
        must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
        look(node, step);
    }
    die();
    return 1;
}

Test(processes, a_leader_whose_member_dies_at_any_step_is_told_and_others_are_served) {
    enum { N = 3 };
    for (int step = -1; step < 3; step++) {
        area_t *area = shared_area();
        pid_t child[N];
        void *where;
        for (uint32_t i = 1; i < N; i++) {
            if ((child[i] = forked()) == 0) {
                _exit(i == 1 ? fetch_and_die(area, i, N, step) : fetch_and_write(area, i, N));
            }
        }
        hd_node_t *node = join(area, 0, N);
        hd_node_offer_t *offer = offer_all(node, area, 0, N, &where);
        ucc_status_t status = await_offer(node, offer);
        hd_node_state_t dead = hd_node_offer_state(offer, 0);
        cr_expect(dead == HD_NODE_DIED || dead == HD_NODE_ABSENT ||
                      (step > 0 && dead == HD_NODE_DONE),
                  "step %d: %s", step, hd_node_describe(dead));
        cr_expect_eq(status, hd_node_status(dead));
        cr_expect_eq(hd_node_offer_state(offer, 1), HD_NODE_DONE);
        cr_expect_eq(ended(child[1]), SIGKILL);
        cr_expect_eq(ended(child[2]), 0);
        hd_node_offer_end(offer);
        hd_node_leave(node);
        munmap(area, sizeof(*area));
    }
}

/* Its socket lives on in a child of its own, for which nobody may take the dead one. */
Test(processes, a_process_is_dead_though_its_child_lives) {
    area_t *area = shared_area();
    int hold[2];
    cr_assert_eq(pipe(hold), 0);
    pid_t child = forked();
    if (child == 0) {
        hd_node_t *node = join(area, 1, 2);
        hd_node_peer_t *peer;
        must(hd_node_meet(node, &area->address[0], true, &peer), "hd_node_meet");
        while (hd_node_peer_state(peer) != HD_NODE_DONE) {
            sleep_and_work(node);
        }
        if (fork() == 0) {
            char byte;
            close(hold[1]);
            _exit((int)read(hold[0], &byte, 1)); /* until the test's end */
        }
        die();
    }
    hd_node_t *node = join(area, 0, 2);
    hd_node_peer_t *peer;
    must(hd_node_meet(node, &area->address[1], false, &peer), "hd_node_meet");
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    cr_expect(hd_node_peer_state(peer) == HD_NODE_DIED);
    cr_expect_eq(ended(child), SIGKILL);
    hd_node_part(peer);
    hd_node_leave(node);
}

/* The peer's process is killed, or has been: that is heard, and nothing else is asked of it. */
static void expect_death(hd_node_t *node, hd_node_peer_t *peer, pid_t child) {
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DIED);
    cr_expect_eq(ended(child), SIGKILL);
    hd_node_part(peer);
    hd_node_leave(node);
}

/* Joins as the second of two; then does as it is told. */
static pid_t a_second(area_t *area, void (*then)(area_t *area, hd_node_t *node)) {
    pid_t child = forked();
    if (child == 0) {
        then(area, join(area, 1, 2));
        _exit(0);
    }
    return child;
}

/* Its child has its socket, and knows nothing of it: nobody has closed that there. */
static void leave_a_copy(area_t *area, hd_node_t *node) {
    hd_node_peer_t *peer;
    must(hd_node_watch(node, &area->address[0], true, &peer), "hd_node_watch");
    hd_node_fetch_t *fetch;
    must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
    (void)await_fetch(node, fetch);
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
        wait_for(&area->over, 1);
        _exit(0);
    }
    die();
}

Test(processes, a_process_is_dead_though_what_it_has_cloned_lives) {
    area_t *area = shared_area();
    void *where;
    hd_node_peer_t *peer;
    pid_t child = a_second(area, leave_a_copy);
    hd_node_t *node = join(area, 0, 2);
    must(hd_node_watch(node, &area->address[1], false, &peer), "hd_node_watch");
    hd_node_offer_t *offer = offer_all(node, area, 0, 2, &where);
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DIED);
    cr_expect_eq(ended(child), SIGKILL);
    atomic_store(&area->over, 1);
    hd_node_offer_end(offer);
    hd_node_part(peer);
    hd_node_leave(node);
}

/* A process that does not run is there. */
Test(processes, a_process_that_is_stopped_is_waited_for) {
    area_t *area = shared_area();
    void *where;
    pid_t child = forked();
    if (child == 0) {
        hd_node_t *node = join(area, 1, 2);
        raise(SIGSTOP);
        hd_node_fetch_t *fetch;
        must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
        _exit(await_fetch(node, fetch) == HD_NODE_DONE ? 0 : 1);
    }
    hd_node_t *node = join(area, 0, 2);
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_assert(WIFSTOPPED(status));
    hd_node_offer_t *offer = offer_all(node, area, 0, 2, &where);
    while (lines_of(node) == 0) { /* it connects itself, and is not answered */
        sleep_and_work(node);
    }
    settle(node, node);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_PENDING);
    kill(child, SIGCONT);
    while (hd_node_offer_test(offer) == UCC_INPROGRESS) {
        sleep_and_work(node);
    }
    hd_node_state_t state = hd_node_offer_state(offer, 0);
    cr_expect_eq(state, HD_NODE_DONE, "%s", hd_node_describe(state));
    cr_expect_eq(ended(child), 0);
    hd_node_offer_end(offer);
    hd_node_leave(node);
}

/* --- watched by their pids -------------------------------------------------------------------- */

static void stay(area_t *area, hd_node_t *node) {
    (void)area;
    (void)node;
    pause();
}

static void go(area_t *area, hd_node_t *node) {
    (void)area;
    hd_node_leave(node);
}

static hd_node_peer_t *watch(hd_node_t *node, const area_t *area) {
    hd_node_peer_t *peer;
    must(hd_node_watch(node, &area->address[1], false, &peer), "hd_node_watch");
    return peer;
}

Test(processes, a_process_that_is_watched_need_not_answer_and_its_end_is_seen) {
    area_t *area = shared_area();
    pid_t child = a_second(area, stay);
    hd_node_t *node = join(area, 0, 2);
    uint32_t before = descriptors();
    hd_node_peer_t *peer = watch(node, area), *again = watch(node, area);
    cr_expect_eq(peer, again);
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DONE);
    cr_expect_null(peer->line);
    cr_expect_eq(descriptors(), before + 1);
    hd_node_part(again);
    cr_expect_eq(descriptors(), before + 1);
    hd_node_part(peer);
    cr_expect_eq(descriptors(), before);
    cr_expect_null(node->peers);
    peer = watch(node, area);
    kill(child, SIGKILL);
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DIED);
    cr_expect_eq(descriptors(), before);
    cr_expect_eq(ended(child), SIGKILL);
    hd_node_part(peer);
    cr_expect_null(node->peers);
    hd_node_leave(node);
}

Test(processes, one_that_has_ended_before_is_not_there) {
    for (int reaped = 0; reaped < 2; reaped++) {
        area_t *area = shared_area();
        pid_t child = a_second(area, go);
        siginfo_t info;
        hd_node_t *node = join(area, 0, 2);
        cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | (reaped ? 0 : WNOWAIT)), 0);
        hd_node_peer_t *peer = watch(node, area);
        while (hd_node_losses(node) == 0) {
            sleep_and_work(node);
        }
        cr_expect_eq(hd_node_peer_state(peer), reaped ? HD_NODE_ABSENT : HD_NODE_DIED);
        hd_node_part(peer);
        hd_node_leave(node);
        munmap(area, sizeof(*area));
    }
}

static void fetch_and_go(area_t *area, hd_node_t *node) {
    hd_node_fetch_t *fetch;
    must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
    while (atomic_load(&area->over) == 0) {
        hd_node_progress(node);
    }
    if (await_fetch(node, fetch) != HD_NODE_DONE) {
        _exit(1);
    }
    hd_node_fetch_end(fetch);
    hd_node_leave(node);
}

/* Its connection says what its pid can't. */
Test(processes, one_that_is_watched_fetches_and_leaves) {
    area_t *area = shared_area();
    void *where;
    pid_t child = a_second(area, fetch_and_go);
    hd_node_t *node = join(area, 0, 2);
    uint32_t before = descriptors();
    hd_node_peer_t *peer = watch(node, area);
    while (!peer->line) {
        sleep_and_work(node);
    }
    cr_expect_eq(descriptors(), before + 2);
    hd_node_offer_t *offer = offer_all(node, area, 0, 2, &where);
    atomic_store(&area->over, 1);
    cr_expect_eq(await_offer(node, offer), UCC_OK);
    hd_node_offer_end(offer);
    while (hd_node_losses(node) == 0) {
        sleep_and_work(node);
    }
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_LEFT);
    cr_expect_eq(ended(child), 0);
    cr_expect_eq(descriptors(), before);
    hd_node_part(peer);
    hd_node_leave(node);
}

/* No more than there are. */
static bool end_descriptors(struct rlimit *before) {
    int top = dup(0);
    close(top);
    getrlimit(RLIMIT_NOFILE, before);
    struct rlimit none = {(rlim_t)top, (rlim_t)top};
    return setrlimit(RLIMIT_NOFILE, &none) == 0;
}

Test(processes, one_that_is_watched_is_there_though_no_connection_can_be_had) {
    area_t *area = shared_area();
    hd_node_segment_t segment;
    hd_node_fetch_t *fetch;
    pid_t child = a_second(area, stay);
    hd_node_t *node = join(area, 0, 2);
    hd_node_peer_t *peer = watch(node, area);
    for (int round = 0; round < 2; round++) {
        struct rlimit before;
        if (!end_descriptors(&before)) {
            cr_skip_test("no limit can be set");
        }
        must(hd_node_fetch(node, &area->address[1], name, &fetch), "hd_node_fetch");
        cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_NO_DESCRIPTOR);
        cr_expect_eq(hd_node_fetch_test(fetch, &segment), UCC_ERR_NO_RESOURCE);
        hd_node_fetch_end(fetch);
        cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DONE);
        cr_expect_eq(hd_node_losses(node), 0);
        if (setrlimit(RLIMIT_NOFILE, &before) != 0) {
            break; /* only root can take that back */
        }
    }
    kill(child, SIGKILL);
    expect_death(node, peer, child);
}

enum { ALL_OVER = 1000 };

/* Holds process 0, and so would keep its connection, until all have what they want. */
static int fetch_and_stay(area_t *area, uint32_t me, uint32_t n) {
    hd_node_t *node = join(area, me, n);
    hd_node_fetch_t *fetch;
    hd_node_peer_t *peer;
    must(hd_node_watch(node, &area->address[0], true, &peer), "hd_node_watch");
    must(hd_node_fetch(node, &area->address[0], name, &fetch), "hd_node_fetch");
    bool done = await_fetch(node, fetch) == HD_NODE_DONE;
    hd_node_fetch_end(fetch);
    atomic_fetch_add(&area->over, 1);
    while (atomic_load(&area->over) < ALL_OVER) {
        hd_node_progress(node);
        sched_yield();
    }
    done = done && hd_node_peer_state(peer) == HD_NODE_DONE && hd_node_losses(node) == 0;
    hd_node_part(peer);
    hd_node_leave(node);
    return !done;
}

Test(processes, one_without_descriptors_lets_all_in_in_turn) {
    enum { N = 6 };
    for (int early = 0; early < 2; early++) { /* they ask before it offers */
        area_t *area = shared_area();
        pid_t child[N];
        hd_node_peer_t *peer[N];
        hd_node_offer_t *offer = NULL;
        struct rlimit before;
        void *where;
        for (uint32_t i = 1; i < N; i++) {
            if ((child[i] = forked()) == 0) {
                _exit(fetch_and_stay(area, i, N));
            }
        }
        hd_node_t *node = join(area, 0, N);
        for (uint32_t i = 1; i < N; i++) {
            must(hd_node_watch(node, &area->address[i], false, &peer[i]), "hd_node_watch");
        }
        if (!early) {
            offer = offer_all(node, area, 0, N, &where);
        }
        int for_segment = early ? dup(0) : -1;
        if (!end_descriptors(&before)) {
            cr_skip_test("no limit can be set");
        }
        if (early) {
            while (node->n_requests == 0) {
                sleep_and_work(node);
            }
            close(for_segment);
            offer = offer_all(node, area, 0, N, &where);
        }
        cr_expect_eq(await_offer(node, offer), UCC_OK);
        wait_for(&area->over, N - 1);
        cr_expect_eq(hd_node_losses(node), 0);
        hd_node_offer_end(offer);
        atomic_fetch_add(&area->over, ALL_OVER);
        for (uint32_t i = 1; i < N; i++) {
            cr_expect_eq(ended(child[i]), 0);
            hd_node_part(peer[i]);
        }
        hd_node_leave(node);
        if (setrlimit(RLIMIT_NOFILE, &before) != 0) {
            break; /* only root can take that back */
        }
    }
}

Test(processes, where_pids_can_not_be_watched_there_is_a_connection) {
    area_t *area = shared_area();
    if (!forbid_call(SYS_pidfd_open, EPERM)) {
        cr_skip_test("no seccomp");
    }
    pid_t child = forked();
    if (child == 0) {
        hd_node_t *node = join(area, 1, 2);
        for (;;) {
            sleep_and_work(node);
        }
    }
    hd_node_t *node = join(area, 0, 2);
    hd_node_peer_t *peer;
    must(hd_node_watch(node, &area->address[1], true, &peer), "hd_node_watch");
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_PENDING);
    while (hd_node_peer_state(peer) == HD_NODE_PENDING) {
        sleep_and_work(node);
    }
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DONE);
    kill(child, SIGKILL);
    expect_death(node, peer, child);
}

/* --- other users ------------------------------------------------------------------------------ */

static char line_of[512];

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    snprintf(line_of, sizeof(line_of), "%s", line);
}

/* Another user's process that has got hold of an address as if it were one of its own user's. */
static int intrude(area_t *area) {
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 77;
    }
    hd_node_t *node = join(area, 1, 2);
    hd_node_fetch_t *fetch;
    hd_node_address_t theirs = area->address[0];
    hd_node_message_t m = hello_to(node);
    if (hd_node_may_reach(&node->address, &theirs)) {
        return 2;
    }
    memcpy(theirs.identity, node->address.identity, sizeof(theirs.identity));
    theirs.uid = node->address.uid;
    must(hd_node_fetch(node, &theirs, name, &fetch), "hd_node_fetch");
    if (await_fetch(node, fetch) != HD_NODE_FOREIGN) {
        return 3;
    }
    /* It has not told the secret: now it does. */
    socklen_t bytes;
    struct sockaddr_un at = place_of(theirs.door, &bytes);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    memcpy(m.name, theirs.door, sizeof(m.name));
    if (connect(fd, (struct sockaddr *)&at, bytes) != 0) {
        return 4;
    }
    (void)send(fd, &m, sizeof(m), MSG_NOSIGNAL);
    ssize_t n = recv(fd, &m, sizeof(m), 0);
    atomic_fetch_add(&area->over, 1);
    return n > 0 ? 5 : 0;
}

Test(processes, those_of_another_user_are_refused) {
    if (geteuid() != 0) {
        cr_skip_test("only root can be somebody else");
    }
    area_t *area = shared_area();
    pid_t child = forked();
    if (child == 0) {
        _exit(intrude(area));
    }
    hd_node_t *node = join(area, 0, 2);
    hd_log_capture(keep_line, NULL);
    deadline_t deadline = deadline_start("an intruder");
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0) {
        hd_node_progress(node);
        deadline_poll(&deadline);
    }
    cr_expect_eq(status, 0);
    cr_expect(strstr(line_of, "of user 65534 is closed"), "%s", line_of);
    cr_expect_null(node->peers);
    hd_node_leave(node);
}
