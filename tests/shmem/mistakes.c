/* mistakes.c: an OpenSHMEM program that makes the mistake whose name is its argument, and then says
 * that it has got through. */
#include <pthread.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long flags[2], lock;

static void before_init(const char *mistake, int me) {
    if (!strcmp(mistake, "fails-before-init") && me == 1) {
        exit(3);
    }
    if (!strcmp(mistake, "returns-before-init") && me == 1) {
        exit(0);
    }
    if (!strcmp(mistake, "barrier-before-init")) {
        shmem_barrier_all();
    }
    if (!strcmp(mistake, "finalize-at-exit")) {
        atexit(shmem_finalize);
    }
}

static void read_in_vain(void) {
    int ends[2];
    if (pipe(ends) == 0) {
        (void)fgetc(fdopen(ends[0], "r"));
    }
}

static void in_between(const char *mistake, int me) {
    long private = 0;
    shmem_team_t first;
    if (!strcmp(mistake, "no-context")) {
        shmem_ctx_long_p(SHMEM_CTX_INVALID, &flags[0], 1, 0);
    }
    if (!strcmp(mistake, "not-in-the-team")) {
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 0, &first);
        shmem_long_sum_reduce(first, flags, flags, 1);
    }
    if (!strcmp(mistake, "clears-a-free-lock") && me == 0) {
        shmem_clear_lock(&lock);
    }
    if (!strcmp(mistake, "waits-for-its-own")) {
        shmem_long_wait_until_all(&private, 1, NULL, SHMEM_CMP_EQ, 1);
    }
    if (!strcmp(mistake, "waits-for-ever") && me == 1) {
        shmem_long_wait_until(&flags[1], SHMEM_CMP_EQ, 7);
    }
    if (!strcmp(mistake, "waits-for-all-for-ever") && me == 2) {
        shmem_long_wait_until_all(flags, 2, NULL, SHMEM_CMP_EQ, 7);
    }
    if (!strcmp(mistake, "waits-for-a-signal-for-ever") && me == 0) {
        static uint64_t signal;
        shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 7);
    }
    if (!strcmp(mistake, "waits-for-a-lock-for-ever")) {
        if (me == 0) {
            shmem_set_lock(&lock);
        }
        shmem_barrier_all();
        if (me == 2) {
            shmem_set_lock(&lock);
        }
    }
    if (!strncmp(mistake, "waits-for-", 10) && !strstr(mistake, "its-own")) {
        sleep(60); /* the others: the end comes from the one that waits */
    }
    if (!strcmp(mistake, "fills-the-heap")) {
        for (int i = 0; i < 3; i++) {
            if (shmem_malloc((size_t)1 << 40) || shmem_calloc(4, (size_t)1 << 30)) {
                printf("got it\n");
            }
        }
    }
    if (!strcmp(mistake, "exits-while-another-reads")) {
        if (me == 0) {
            read_in_vain();
        }
        sleep(1);
        printf("printed\n");
        shmem_global_exit(4);
    }
}

/* No mistakes either: other ways to end a PE, while the others wait in shmem_finalize. */
static void end(const char *how, int me) {
    if (!strcmp(how, "ends-by-exit") && me == 1) {
        exit(0);
    }
    if (!strcmp(how, "ends-by-pthread_exit") && me == 1) {
        pthread_exit(NULL);
    }
}

static void after_finalize(const char *mistake) {
    if (!strcmp(mistake, "barrier-after-finalize")) {
        shmem_barrier_all();
    }
    if (!strcmp(mistake, "init-after-finalize")) {
        shmem_init();
    }
}

static long work[2][SHMEM_BARRIER_SYNC_SIZE];

/* Of sets of this PE alone, whose strides differ. */
static void *barriers(void *half) {
    for (int i = 0; i < 2000000; i++) {
        shmem_barrier(shmem_my_pe(), i % 15 + (half ? 15 : 0), 1, work[half ? 1 : 0]);
    }
    return NULL;
}

/* No mistake: two threads of a PE, each with active sets of its own. */
static void use_active_sets(void) {
    pthread_t other;
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    pthread_create(&other, NULL, barriers, work);
    barriers(NULL);
    pthread_join(other, NULL);
}

int main(int argc, char **argv) {
    const char *mistake = argc > 1 ? argv[1] : "";
    int me = shmem_my_pe();
    before_init(mistake, me);
    if (!strcmp(mistake, "active-sets-of-threads")) {
        use_active_sets();
    }
    shmem_init();
    in_between(mistake, me);
    end(mistake, me);
    shmem_finalize();
    after_finalize(mistake);
    printf("through\n");
    return 0;
}
