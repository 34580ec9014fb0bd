/* processes.c: an OpenSHMEM program for several processes. It does what its first argument says. */
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 100000 };

static long zero[LARGE], given[LARGE] = {1, 2, 3}, sum[2], flag, lock;
static pid_t process;
static int *const pointer = (int[]){7}; /* read-only after it was set right */
const long constant[2] = {8, 9};
static long made; /* by a constructor, before anybody else can see it */

__attribute__((constructor)) static void make(void) {
    made = 5;
}

static void must_be(int holds, const char *what) {
    if (!holds) {
        printf("PE %d: %s\n", shmem_my_pe(), what);
        shmem_global_exit(1);
    }
}

static long *local(void) {
    static long of_function = 4;
    return &of_function;
}

/* Each PE has its own globals, with the values that they were given, and reaches all others'. */
static void use_globals(void) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    must_be(given[2] == 3 && zero[LARGE - 1] == 0 && made == 5 && *local() == 4, "values");
    must_be(*pointer == 7 && constant[1] == 9, "constants");
    shmem_barrier_all();
    for (int pe = 0; pe < n; pe++) {
        must_be(shmem_long_g(&given[2], pe) == 3 && shmem_long_g(&made, pe) == 5, "others' values");
        must_be(shmem_long_g(&constant[1], pe) == 9, "others' constants");
        shmem_long_p(&zero[LARGE - 1 - me], me + 1, pe);
        shmem_long_atomic_add(local(), 1, pe);
        shmem_long_p(&given[LARGE / 2 + me], me + 1, pe);
    }
    shmem_barrier_all();
    for (int pe = 0; pe < n; pe++) {
        must_be(zero[LARGE - 1 - pe] == pe + 1 && given[LARGE / 2 + pe] == pe + 1, "what was put");
        must_be(*(long *)shmem_ptr(&zero[LARGE - 1 - pe], me) == pe + 1, "shmem_ptr");
        must_be(*(long *)shmem_ptr(&zero[LARGE - 1 - pe], pe) == pe + 1, "shmem_ptr of others");
    }
    must_be(*local() == 4 + n, "what was added");
    sum[0] = me + 1;
    must_be(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum[1], &sum[0], 1) == 0, "the sum");
    must_be(sum[1] == (long)n * (n + 1) / 2, "the sum's value");
    for (int i = 0; i < 100; i++) {
        shmem_set_lock(&lock);
        long now = shmem_long_g(&flag, n - 1);
        shmem_long_p(&flag, now + 1, n - 1);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    must_be(shmem_long_g(&flag, n - 1) == 100L * n, "what was counted under the lock");
}

/* How many processes there are, and in which order PEs are in them. */
static void count_processes(void) {
    int me = shmem_my_pe(), n = 1;
    process = getpid();
    shmem_barrier_all();
    for (int pe = 1; pe < shmem_n_pes(); pe++) {
        n += shmem_int_g(&process, pe) != shmem_int_g(&process, pe - 1);
    }
    if (me == 0) {
        printf("processes: %d\n", n);
    }
}

/* Large blocks of the heap, by those collectives that move them differently. */
static void use_heap(void) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    long *from = shmem_malloc(LARGE * sizeof(long)), *to = shmem_calloc(LARGE, sizeof(long));
    long *wide = shmem_align(1 << 20, 4096);
    must_be(from && to && (uintptr_t)wide % (1 << 20) == 0, "memory");
    for (int i = 0; i < LARGE; i++) {
        from[i] = i * (me + 1L);
    }
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, to, from, LARGE);
    must_be(to[LARGE - 1] == (LARGE - 1L) * n * (n + 1) / 2, "a sum");
    shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, LARGE, n - 1);
    must_be(to[LARGE - 1] == (LARGE - 1L) * n, "a broadcast");
    shmem_barrier_all();
    shmem_long_put(to, from, LARGE, (me + 1) % n);
    shmem_barrier_all();
    must_be(to[LARGE - 1] == (LARGE - 1L) * ((me + n - 1) % n + 1), "a put");
    shmem_long_get(to, from, LARGE, (me + 1) % n);
    must_be(to[LARGE - 1] == (LARGE - 1L) * ((me + 1) % n + 1), "a get");
    shmem_free(wide);
    shmem_free(to);
    shmem_free(from);
}

static void wait_for_what_never_comes(void) {
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, -1);
}

/* The process of PE 1 is gone, or stopped, while the others do what `how` says. */
static void lose_one(const char *how, int signal) {
    if (shmem_my_pe() == 1) {
        usleep(100000);
        raise(signal);
    }
    if (!strcmp(how, "wait")) {
        wait_for_what_never_comes();
    } else if (!strcmp(how, "compute")) {
        for (volatile long i = 0; i >= 0; i++) {
        }
    }
    shmem_barrier_all();
}

/* A child of a PE's is not the PE, whose globals it shares. */
static void have_a_child(void) {
    for (int status = 0; status < 4; status++) {
        int state = 0;
        pid_t child = fork();
        if (child == 0 && status < 3) {
            exit(status);
        }
        if (child == 0) {
            flag = 11;
            shmem_global_exit(status);
        }
        must_be(waitpid(child, &state, 0) == child && WIFEXITED(state) &&
                    WEXITSTATUS(state) == status,
                "a child's status");
    }
    must_be(flag == (getenv("ALONE") ? 0 : 11), "what a child has written");
}

static int do_what(const char *what, const char *how) {
    int me = shmem_my_pe();
    if (!strcmp(what, "globals")) {
        use_globals();
        count_processes();
    } else if (!strcmp(what, "heap")) {
        use_heap();
    } else if (!strcmp(what, "killed")) {
        lose_one(how, SIGKILL);
    } else if (!strcmp(what, "stopped")) {
        if (me == 0) {
            usleep(300000);
            printf("printed\n");
            shmem_global_exit(6);
        }
        lose_one(how, SIGSTOP);
    } else if (!strcmp(what, "ends-all")) {
        printf("PE %d has printed\n", me); /* not written yet: it is no terminal */
        shmem_barrier_all();
        if (me == 1) {
            shmem_global_exit(4);
        }
        lose_one(how, SIGCONT);
    } else if (!strcmp(what, "without-a-word") && me == 1) {
        _exit(9);
    } else if (!strcmp(what, "kills-shmemrun") && me == 0) {
        kill(getppid(), SIGKILL);
        wait_for_what_never_comes();
    } else if (!strcmp(what, "child")) {
        have_a_child();
    } else if (!strcmp(what, "status")) {
        shmem_finalize();
        usleep(me * 100000);
        printf("PE %d ends\n", me);
        return me;
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "comes-late") && shmem_my_pe() == 1) {
        sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
    }
    shmem_init();
    int status = do_what(what, argc > 2 ? argv[2] : "");
    shmem_finalize();
    if (shmem_my_pe() == 0 && status == 0) {
        printf("through\n");
    }
    return status;
}
