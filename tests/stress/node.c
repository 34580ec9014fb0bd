/* node.c: threads of one process that share its nodes (src/node): each offers, fetches, meets and
 * ends for itself, all work for all, and one forks. Any data race, deadlock, wrong segment or
 * descriptor that is left ends the program.
 */
#include "node/node.h"
#include "support/deadline.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, NODES = 3, BYTES = 4096, ROUNDS = 50, FORKS = 5 };

static hd_node_t *node[NODES];
static unsigned round_now;

static void check(bool fine, const char *what) {
    if (!fine) {
        fprintf(stderr, "FATAL: %s\n", what);
        abort();
    }
}

static void work(deadline_t *deadline) {
    for (uint32_t i = 0; i < NODES; i++) {
        hd_node_progress(node[i]);
    }
    sched_yield();
    deadline_poll(deadline);
}

/* From one node to another, under a name that nobody else has. */
static void pass(uint64_t number, hd_node_t *from, hd_node_t *to, bool early) {
    const uint64_t name[2] = {number, round_now + 1};
    uint64_t door[1][2];
    hd_node_segment_t segment, got;
    hd_node_fetch_t *fetch = NULL;
    hd_node_offer_t *offer;
    hd_node_peer_t *peer;
    void *mine, *theirs;
    deadline_t deadline = deadline_start("a segment");
    memcpy(door[0], hd_node_address(to)->door, sizeof(door[0]));
    must(hd_segment_create(BYTES, &segment), "hd_segment_create");
    must(hd_segment_map(&segment, NULL, &mine), "hd_segment_map");
    must(hd_node_meet(from, hd_node_address(to), number % 2, &peer), "hd_node_meet");
    if (early) {
        must(hd_node_fetch(to, hd_node_address(from), name, &fetch), "hd_node_fetch");
        work(&deadline);
    }
    must(hd_node_offer(from, name, &segment, (const uint64_t(*)[2])door, 1, &offer),
         "hd_node_offer");
    if (!early) {
        must(hd_node_fetch(to, hd_node_address(from), name, &fetch), "hd_node_fetch");
    }
    while (hd_node_offer_test(offer) == UCC_INPROGRESS) {
        work(&deadline);
    }
    must(hd_node_offer_test(offer), "hd_node_offer_test");
    must(hd_node_fetch_test(fetch, &got), "hd_node_fetch_test");
    must(hd_segment_map(&got, NULL, &theirs), "hd_segment_map");
    *(uint64_t *)mine = number;
    check(*(uint64_t *)theirs == number, "another segment");
    hd_segment_close(&got);
    hd_node_fetch_end(fetch);
    hd_node_offer_end(offer);
    hd_node_part(peer);
    munmap(mine, BYTES);
    munmap(theirs, BYTES);
}

static void *run(void *arg) {
    uint64_t me = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t from = (me + i) % NODES, to = (from + 1 + i % 2) % NODES;
        pass(1 + me * ROUNDS + i, node[from], node[to], (me + i) % 3 == 0);
        if (me == 0 && i % (ROUNDS / FORKS) == 0) {
            pid_t child = fork();
            check(child >= 0, "no fork");
            if (child == 0) {
                _exit(hd_node_progress(node[0]) ? 1 : 0);
            }
            int status;
            check(waitpid(child, &status, 0) == child && status == 0,
                  "a child works for its parent");
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    double end = test_now() + (argc > 1 ? atof(argv[1]) : 2);
    int before = dup(0);
    close(before);
    do {
        pthread_t thread[THREADS];
        for (uint32_t i = 0; i < NODES; i++) {
            must(hd_node_open(1, NULL, &node[i]), "hd_node_open");
        }
        for (uint64_t i = 0; i < THREADS; i++) {
            check(pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i) == 0, "no thread");
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            hd_node_close(node[i]);
        }
        int after = dup(0);
        close(after);
        check(after == before, "descriptors are left open");
        round_now++;
    } while (test_now() < end);
    printf("%u segments, each between two of %d nodes by %d threads\n",
           round_now * THREADS * ROUNDS, NODES, THREADS);
    return 0;
}
