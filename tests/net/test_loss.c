/* test_loss.c: a process is killed in the middle of something: whoever needs it gets an error, and nothing hangs. */
#include "../support/deadline.h"
#include "../support/nodes.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(net_loss, .timeout = 120);

static const char *const shm[] = {"LOG_LEVEL", "fatal", NULL};
static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};

enum { N = 3, VICTIM = 1 };

/* Allreduces until one fails; so many bytes each. */
static void work_until_it_fails(node_t *node, void *arg) {
    size_t count = *(const size_t *)arg / sizeof(double);
    double *x = must_alloc(count, sizeof(*x)), *y = must_alloc(count, sizeof(*y));
    ucc_status_t status = UCC_OK;
    double began = 0;
    for (uint64_t k = 1; status == UCC_OK; k++) {
        run_t *run = must_alloc(1, sizeof(*run));
        run_init(run, node, HD_ALLREDUCE);
        must(hd_reducer_init(&run->reducer, UCC_DT_FLOAT64, UCC_OP_SUM, node->n), "reducer");
        run->leg.key = (hd_net_key_t){.number = k, .class = HD_NET_NUMBERED};
        run->leg.call.operand = x;
        run->leg.call.result = y;
        run->leg.call.count = count;
        run->leg.call.element = sizeof(double);
        run_plan(run, 0, 0, count * sizeof(double));
        hd_leg_start(&run->leg);
        if (node->me == VICTIM && k == 20) {
            for (int i = 0; i < 5; i++) {
                hd_net_pump(node->net);
            }
            kill(getpid(), SIGKILL);
        }
        began = test_now();
        status = run_wait(run, "an allreduce with a process that was killed");
        free(run);
    }
    node_check(node, test_now() - began < 20, "it took %.1f s", test_now() - began);
    node_check(node, atomic_load(&node->failed) != UCC_OK, "the team was not told");
    hd_net_team_destroy(node->team);
    began = test_now();
    hd_net_close(node->net);
    node_check(node, test_now() - began < 10, "closing took %.1f s", test_now() - began);
    node->net = NULL;
    hd_config_release(node->config);
    free(x);
    free(y);
    exit(0);
}

static void lose_one(const char *const *settings, size_t bytes) {
    cr_assert_eq(nodes_run(N, settings, work_until_it_fails, &bytes), 1,
                 "not only the victim failed");
}

Test(net_loss, small_messages_by_shared_memory) {
    lose_one(shm, 8);
}
Test(net_loss, large_messages_by_shared_memory) {
    lose_one(shm, 1 << 20);
}
Test(net_loss, small_messages_by_tcp) {
    lose_one(tcp, 8);
}
Test(net_loss, large_messages_by_tcp) {
    lose_one(tcp, 1 << 20);
}
