/* launch.c: how shmemrun begins and ends a program, which is this one: as one PE it runs shmemrun
 * again, with 2 PEs, which do what the argument says.
 */
#include "verify.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The status of `shmemrun -n 2 PROGRAM what`, with such a heap. Its input is a pipe in which
 * nothing comes. */
static int run(const char *program, const char *what, const char *heap) {
    int input[2], state;
    VERIFY(pipe(input) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(input[0], STDIN_FILENO);
        setenv("SHMEM_SYMMETRIC_SIZE", heap, 1);
        alarm(60); /* instead of for ever */
        execl("/proc/self/exe", "shmemrun", "-n", "2", program, what, (char *)NULL);
        _exit(127);
    }
    VERIFY(child > 0 && waitpid(child, &state, 0) == child);
    close(input[0]);
    close(input[1]);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static void expect(const char *program, const char *what, const char *heap, int status) {
    int got = run(program, what, heap);
    if (got != status) {
        fprintf(stderr, "%s, with a heap of \"%s\": status %d\n", what, heap, got);
        shmem_global_exit(1);
    }
}

/* In a run of its own. */
static int do_what(const char *what) {
    if (strcmp(what, "fail-early") == 0 && shmem_my_pe() == 1) {
        return 3; /* while the other one waits in shmem_init */
    }
    shmem_init();
    if (strcmp(what, "end-all") == 0) {
        shmem_barrier_all();
        if (shmem_my_pe() == 1) {
            usleep(100000);
            shmem_global_exit(4);
        }
        getchar(); /* with a lock of the C library's */
    } else if (strcmp(what, "take-1M") == 0) {
        return shmem_malloc(1 << 20) == NULL || shmem_malloc(1 << 20) != NULL;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        return do_what(argv[1]);
    }
    shmem_init();
    if (shmem_n_pes() == 1) {
        static const char *const right[] = {"1M", "1m", "1024k", "1048576", "0.0009765625G"};
        static const char *const wrong[] = {"", "M", "many", "1 M", "1Mb", "1x", "-1", "1e30"};
        for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
            expect(argv[0], "take-1M", right[i], 0);
        }
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            expect(argv[0], "nothing", wrong[i], 2);
        }
        expect(argv[0], "fail-early", "1M", 3);
        expect(argv[0], "end-all", "1M", 4);
    }
    verified("launch");
    return 0;
}
