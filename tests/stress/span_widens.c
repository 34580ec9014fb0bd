/* span_widens.c: who can be reached from where. The processes of a host form a team, and listen at
 * the loopback address alone; then, while that team lasts, those of all hosts form one, and only
 * then each is reached from outside. Both go on side by side, with messages of all sizes. On one
 * host, or, by scripts/netns run 3 -- test_stress_span_widens, on three.
 */
#include "stress.h"

#include "../support/listeners.h"
#include "../support/processes.h"

#include <heddle/heddle.h>

enum { BESIDE = 2, SLOT = 16384, MOST = 1 << 20, ROUNDS = 80 };

/* The exchange among the processes of a host: all processes take part in one, and each looks at
 * those beside it. */
typedef struct beside {
    ucc_oob_coll_t all;
    uint32_t first;
    uint8_t mine[SLOT], *slots;
    void *to;
    size_t bytes;
} beside_t;

static ucc_status_t give(void *from, void *to, size_t bytes, void *info, void **request) {
    beside_t *b = info;
    process_expect(bytes <= SLOT, "%zu bytes", bytes);
    memset(b->mine, 0, SLOT);
    memcpy(b->mine, from, bytes);
    b->to = to;
    b->bytes = bytes;
    ucc_status_t status = b->all.allgather(b->mine, b->slots, SLOT, b->all.coll_info, request);
    return status;
}

static beside_t *the_exchange;

static ucc_status_t test(void *request) {
    beside_t *b = the_exchange;
    ucc_status_t status = b->all.req_test(request);
    for (uint32_t i = 0; status == UCC_OK && i < BESIDE; i++) {
        memcpy((uint8_t *)b->to + i * b->bytes, b->slots + (size_t)(b->first + i) * SLOT, b->bytes);
    }
    return status;
}

static ucc_oob_coll_t among_those_beside(const process_t *process) {
    beside_t *b = the_exchange = calloc(1, sizeof(*b));
    b->all = process_group_oob(process, 0);
    b->slots = calloc(process->shape->processes, SLOT);
    b->first = process->me / BESIDE * BESIDE;
    return (ucc_oob_coll_t){.allgather = give,
                            .req_test = test,
                            .req_free = b->all.req_free,
                            .coll_info = b,
                            .n_oob_eps = BESIDE,
                            .oob_ep = process->me - b->first};
}

typedef struct team {
    heddle_group_t *group;
    heddle_ep_t *ep;
} team_t;

static team_t form(const ucc_oob_coll_t *oob) {
    team_t team;
    heddle_group_params_t params = {.endpoints = 1, .oob = oob};
    ucc_status_t status = heddle_group_create(&params, &team.group);
    process_expect(status == UCC_OK, "a group: %s", ucc_status_string(status));
    status = heddle_join(team.group, 0, &team.ep);
    process_expect(status == UCC_OK, "an endpoint: %s", ucc_status_string(status));
    return team;
}

static void sum(team_t *team, uint32_t n, uint32_t round) {
    static float from[MOST / sizeof(float)], to[MOST / sizeof(float)];
    size_t count = round % 8 == 7 ? MOST / sizeof(float) : (size_t)1 << round % 8 * 2;
    for (size_t i = 0; i < count; i++) {
        from[i] = (float)(heddle_ep_index(team->ep) + i % 64 + round);
    }
    ucc_status_t status = heddle_allreduce(team->ep, from, to, count, UCC_DT_FLOAT32, UCC_OP_SUM);
    process_expect(status == UCC_OK, "round %u: %s", round, ucc_status_string(status));
    for (size_t i = 0; i < count; i++) {
        float expected = (float)(n * (n - 1) / 2) + (float)n * (float)(i % 64 + round);
        process_expect(to[i] == expected, "round %u: element %zu is %f, not %f", round, i,
                       (double)to[i], (double)expected);
    }
}

static void end(team_t *team) {
    process_expect(heddle_leave(team->ep) == UCC_OK, "leave");
    process_expect(heddle_group_destroy(team->group) == UCC_OK, "destroy");
}

/* wide_first: the other way round, in which nothing has to be widened. */
static int work(const process_t *process, void *arg) {
    bool wide_first = *(bool *)arg, hosts = process->shape->host[0] > 0;
    ucc_oob_coll_t near_oob = among_those_beside(process), all_oob = process_group_oob(process, 1);
    team_t near, all;
    uint32_t n = process->shape->processes;
    if (wide_first) {
        all = form(&all_oob);
        near = form(&near_oob);
    } else {
        near = form(&near_oob);
        sum(&near, BESIDE, 0);
        process_expect(listeners_outside() == 0, "it listens outside its host");
        all = form(&all_oob);
    }
    process_expect((listeners_outside() > 0) == hosts, "%u listeners", listeners_outside());
    for (uint32_t i = 0; i < ROUNDS; i++) {
        sum(i % 2 ? &near : &all, i % 2 ? BESIDE : n, i / 2);
    }
    process_barrier(process);
    end(&all);
    for (uint32_t i = 0; i < ROUNDS; i++) { /* what is left goes on */
        sum(&near, BESIDE, i);
    }
    end(&near);
    return 0;
}

int main(int argc, char **argv) {
    const char *why;
    stress_begin_alone(argc, argv);
    uint32_t hosts = processes_hosts(&why), failed = 0;
    shape_t shape = shape_even(BESIDE * (hosts ? hosts : 2), 1);
    for (uint32_t p = 0; p < shape.processes; p++) {
        shape.host[p] = hosts ? p / BESIDE + 1 : 0;
    }
    for (uint32_t k = 0; k < 4; k++) {
        bool wide_first = k % 2;
        failed += !processes_run(&shape, 120, work, &wide_first).ok;
    }
    printf("%s: %u of 4 runs failed\n", shape_name(&shape), failed);
    return failed > 0;
}
