/* strangers.c: more threads than processors yield while the memory in which processes know each
 * other's yields comes and goes, as teams do: whoever still looks there finds some memory. And
 * children are forked meanwhile.
 */
#include "threads/strangers.h"

#include "stress.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 20000, ROUNDS_PER_YIELD = 16, FORKS = 500 };

static _Atomic bool ends;

static void *yield_on(void *arg) {
    while (!atomic_load(&ends)) {
        uint64_t began = hd_ticks();
        (void)hd_processor_has_strangers(began);
        hd_processor_yields(began);
        sched_yield();
        hd_processor_came_back(began, hd_ticks());
    }
    return arg;
}

/* A team's life: its memory goes before the last of those that descend from it. */
static void come_and_go(uint64_t round) {
    void *memory = mmap(NULL, hd_processors_bytes(), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        stress_error("no memory in round %llu", (unsigned long long)round);
        return;
    }
    hd_processors_use_t first = hd_processors_share(memory, round + 1, true);
    hd_processors_use_t second = hd_processors_share(NULL, round + 1, true);
    if (!first.by_table || !second.by_table) {
        stress_error("round %llu: not shared", (unsigned long long)round);
    }
    hd_processors_part(&first);
    munmap(memory, hd_processors_bytes());
    if (round % ROUNDS_PER_YIELD == 0) {
        sched_yield();
    }
    hd_processors_part(&second);
}

static void *come_and_go_on(void *arg) {
    while (!atomic_load(&ends)) {
        hd_processors_use_t use = hd_processors_share(NULL, 0, true);
        hd_processors_part(&use);
    }
    return arg;
}

/* A child finds the lock free, whoever held it, and has teams of its own. */
static void fork_meanwhile(void) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        come_and_go(1);
        _exit(atomic_load(&stress.errors) == 0 ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        stress_error("a child ended with %d", status);
    }
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS + 1];
    stress_begin(argc, argv);
    hd_clock_init();
    stress_phase("memory comes and goes", 120);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, yield_on, NULL) != 0) {
            return 1;
        }
    }
    for (uint64_t i = 0; i < stress_scaled(ROUNDS); i++) {
        come_and_go(i);
    }
    stress_phase("forks", 120);
    if (pthread_create(&thread[THREADS], NULL, come_and_go_on, NULL) != 0) {
        return 1;
    }
    for (uint64_t i = 0; i < stress_scaled(FORKS); i++) {
        fork_meanwhile();
    }
    atomic_store(&ends, true);
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    return stress_end();
}
