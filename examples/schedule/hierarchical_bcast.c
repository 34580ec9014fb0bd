/* hierarchical_bcast.c: a bcast over nodes and leaders as a schedule, after the example of "UCC
 * Schedule and Tasks", whose root need not be a leader.
 *
 * Every `node` endpoints form a sub-team, and their first ones another. In the root's node the data
 * first goes to all of the node, its leader included, then from that leader to the others; in the
 * other nodes, from their leader to the node. So the same two collectives are tasks everywhere, in
 * one order or the other, which the subscriptions say; who is no leader has one of them.
 *
 * usage: hierarchical_bcast [threads [node [count [rounds]]]]      (default 6, 3, 1000 and 3; every
 *        endpoint is the root once in each round)
 */
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct problem {
    uint32_t node;
    uint64_t count, rounds;
    _Atomic uint64_t wrong;
} problem_t;

typedef struct bcast {
    ucc_schedule_t super; /* must stay first */
    heddle_request_task_t in_node, among_leaders;
} bcast_t;

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "hierarchical_bcast: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

static void add(bcast_t *b, heddle_request_task_t *task, heddle_ep_t *ep, uint32_t root,
                int64_t *buffer, uint64_t count) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST, .root = root};
    args.src.info = (ucc_coll_buffer_info_t){.buffer = buffer,
                                             .count = count,
                                             .datatype = UCC_DT_INT64,
                                             .mem_type = UCC_MEMORY_TYPE_HOST};
    check(heddle_collective_task_init(task, heddle_ep_team(ep), &args, NULL), "task");
    check(ucc_schedule_add_task(&b->super, &task->super), "add_task");
}

/* leaders: NULL unless the caller is one. */
static void prepare(bcast_t *b, heddle_ep_t *ep, heddle_ep_t *node, heddle_ep_t *leaders,
                    uint32_t size, uint32_t root, int64_t *buffer, uint64_t count) {
    int is_roots_node = heddle_ep_index(ep) / size == root / size;
    check(ucc_schedule_init(&b->super), "ucc_schedule_init");
    add(b, &b->in_node, node, is_roots_node ? root % size : 0, buffer, count);
    if (leaders) {
        add(b, &b->among_leaders, leaders, root / size, buffer, count);
        heddle_request_task_t *first = is_roots_node ? &b->in_node : &b->among_leaders;
        heddle_request_task_t *second = is_roots_node ? &b->among_leaders : &b->in_node;
        check(ucc_event_manager_subscribe(&first->super.em, UCC_EVENT_COMPLETED, &second->super),
              "subscribe");
    }
    check(heddle_schedule_attach(&b->super, heddle_ep_context(ep)), "attach");
}

static void run(ucc_schedule_t *schedule) {
    ucc_status_t status;
    check(ucc_schedule_start(schedule), "start");
    do {
        status = ucc_schedule_progress(schedule);
    } while (status == UCC_INPROGRESS);
    check(status, "schedule");
}

static void work(heddle_ep_t *ep, void *arg) {
    problem_t *p = arg;
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    heddle_ep_t *node, *leaders;
    int64_t *buffer = malloc(p->count * sizeof(*buffer));
    check(heddle_split(ep, me / p->node, me, &node), "heddle_split");
    check(heddle_split(ep, me % p->node == 0 ? 0 : -1, me, &leaders), "heddle_split");
    if (!buffer) {
        exit(2);
    }
    for (uint64_t round = 0; round < p->rounds * n; round++) {
        uint32_t root = (uint32_t)(round % n);
        bcast_t b;
        for (uint64_t i = 0; i < p->count; i++) {
            buffer[i] = me == root ? (int64_t)(round * p->count + i) : -1;
        }
        prepare(&b, ep, node, leaders, p->node, root, buffer, p->count);
        run(&b.super);
        for (uint64_t i = 0; i < p->count; i++) {
            p->wrong += buffer[i] != (int64_t)(round * p->count + i);
        }
        check(heddle_schedule_destroy(&b.super), "heddle_schedule_destroy");
    }
    free(buffer);
    if (leaders) {
        check(heddle_leave(leaders), "heddle_leave");
    }
    check(heddle_leave(node), "heddle_leave");
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 6;
    problem_t p = {.node = argc > 2 && atoi(argv[2]) > 0 ? (uint32_t)atoi(argv[2]) : 3,
                   .count = argc > 3 ? (uint64_t)atoi(argv[3]) : 1000,
                   .rounds = argc > 4 ? (uint64_t)atoi(argv[4]) : 3};
    check(heddle_run(n, work, &p), "heddle_run");
    printf(
        "hierarchical bcast among %u threads in nodes of %u, each the root %llu times: %llu values "
        "are wrong\n",
        n, p.node, (unsigned long long)p.rounds, (unsigned long long)p.wrong);
    return p.wrong == 0 ? 0 : 1;
}
