/* triggered.c: per endpoint, one thread posts triggered collectives, a second sets their events, a
 * third progresses and takes what the engine tells: with requests finalized and engines destroyed
 * as early as the interface allows.
 *
 * usage: triggered [ROUNDS]
 */
#include "../support/deadline.h"
#include "../support/small.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2, ROLES = 3, OPERATIONS = 64 };

static world_t *world;
static ucc_ee_h ee[N];

static void post_and_finalize(uint32_t i) {
    for (uint32_t k = 0; k < OPERATIONS; k++) {
        uint64_t count = k % 7 == 0 ? 30000 : 1 + k % 5;
        int32_t *buffer = must_alloc(2 * count, sizeof(int32_t));
        buffer[0] = (int32_t)(i + k);
        ucc_coll_args_t args = small_allreduce(buffer, buffer + count, count);
        ucc_coll_req_h request = small_init(world, i, &args);
        ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request};
        must(ucc_collective_triggered_post(ee[i], &event), "ucc_collective_triggered_post");
        deadline_t deadline = deadline_start("a triggered collective");
        while (ucc_collective_test(request) == UCC_INPROGRESS) {
            sched_yield(); /* others progress */
            deadline_poll(&deadline);
        }
        must(ucc_collective_test(request), "a triggered collective");
        must(buffer[count] == (int32_t)(2 * k + 1) ? UCC_OK : UCC_ERR_LAST, "the sum");
        must(ucc_collective_finalize(request), "ucc_collective_finalize");
        free(buffer);
    }
}

static void set_all(uint32_t i) {
    for (uint32_t k = 0; k < OPERATIONS; k++) {
        ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE};
        must(ucc_ee_set_event(ee[i], &event), "ucc_ee_set_event");
        if (k % 3 == 0) {
            sched_yield();
        }
    }
}

static void take_all(uint32_t i) {
    for (uint32_t k = 0; k < 2 * OPERATIONS; k++) {
        ucc_ev_t event;
        must(ucc_ee_wait(ee[i], &event), "ucc_ee_wait");
        ucc_event_type_t want = k % 2 ? UCC_EVENT_COLLECTIVE_COMPLETE : UCC_EVENT_COLLECTIVE_POST;
        must(event.ev_type == want ? UCC_OK : UCC_ERR_LAST, "the type of an event");
    }
}

static void play(void *arg, uint32_t index) {
    static void (*const role[ROLES])(uint32_t) = {post_and_finalize, set_all, take_all};
    (void)arg;
    role[index / N](index % N);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    world = world_create(&(world_params_t){.size = N, .form = WORLD_OOB, .shared_context = true});
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < N; i++) {
            ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
            must(ucc_ee_create(world->teams[i], &params, &ee[i]), "ucc_ee_create");
        }
        driver_threads(N * ROLES, play, NULL);
        for (uint32_t i = 0; i < N; i++) {
            must(ucc_ee_destroy(ee[i]), "ucc_ee_destroy");
        }
    }
    world_destroy(world);
    printf("%d rounds of %d triggered collectives\n", rounds, OPERATIONS);
    return 0;
}
