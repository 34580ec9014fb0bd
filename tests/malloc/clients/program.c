/* program.c: a program that knows nothing of Heddle; what it does is its first argument. It ends
 * with 0 if its memory was its own all the time, and says on one line where not. To be run with
 * libheddle_malloc preloaded, and without.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { LARGE = 1 << 20, BLOCKS = 64 };

#define MUST(_condition)                                                                           \
    do {                                                                                           \
        if (!(_condition)) {                                                                       \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #_condition, errno);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static uint64_t random_state = 88172645463325252u;

static size_t draw(size_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % below);
}

static bool all_are(const void *memory, size_t bytes, int value) {
    const uint8_t *byte = memory;
    return bytes == 0 || (byte[0] == (uint8_t)value && memcmp(byte, byte + 1, bytes - 1) == 0);
}

/* As the compiler must see it: it is read afterwards. */
static void keep(const void *memory) {
    __asm__ volatile("" ::"r"(memory) : "memory");
}

static void *filled(size_t bytes, int value) {
    void *memory = malloc(bytes);
    MUST(memory);
    memset(memory, value, bytes);
    keep(memory);
    return memory;
}

static int end_of(pid_t child) {
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* --- the functions ---------------------------------------------------------------------------- */

static void functions(void) {
    void *p = NULL;
    MUST(posix_memalign(&p, 3, LARGE) == EINVAL && posix_memalign(&p, 4, LARGE) == EINVAL && !p);
    for (size_t alignment = 8; alignment <= 8 << 20; alignment *= 2) {
        MUST(posix_memalign(&p, alignment, LARGE + 1) == 0 && (uintptr_t)p % alignment == 0);
        void *q = memalign(alignment, LARGE), *r = aligned_alloc(alignment, alignment);
        MUST(q && (uintptr_t)q % alignment == 0 && r && (uintptr_t)r % alignment == 0);
        memset(p, 1, LARGE + 1);
        memset(q, 2, LARGE);
        MUST(all_are(p, LARGE + 1, 1) && malloc_usable_size(p) >= LARGE + 1);
        free(r);
        free(p);
        free(q);
    }
    MUST((p = valloc(20000)) && (uintptr_t)p % 4096 == 0);
    free(p);
    MUST((p = pvalloc(20001)) && malloc_usable_size(p) >= 20480);
    free(p);
    volatile size_t many = SIZE_MAX / 2; /* which the compiler must not know */
    errno = 0;
    MUST(!calloc(many, 3) && errno == ENOMEM);
    errno = 0;
    MUST(!malloc(many + 10) && errno == ENOMEM);
    MUST(!pvalloc(SIZE_MAX - 1 + (many - many)));
    MUST((p = filled(LARGE, 5)) && !realloc(p, many + 10) && all_are(p, LARGE, 5));
    MUST(!reallocarray(p, many, 3) && (p = reallocarray(p, 2, LARGE)) && all_are(p, LARGE, 5));
    free(p);
    free(NULL);
    MUST(malloc_usable_size(NULL) == 0 && (p = realloc(NULL, LARGE)));
    errno = 77;
    free(p);
    MUST(errno == 77);
}

/* Whatever has been there before. Large blocks that nobody touches cost nothing. */
static void zeros(void) {
    for (int round = 0; round < 300; round++) {
        size_t bytes = 1 + draw(draw(2) ? 100000 : 4 * LARGE);
        uint8_t *memory = calloc(1, bytes);
        MUST(memory && all_are(memory, bytes, 0));
        memset(memory, 255, bytes);
        keep(memory);
        free(memory);
    }
    free(filled(200 * LARGE, 1)); /* more than is kept */
    uint8_t *memory = calloc(1, 200 * (size_t)LARGE);
    MUST(memory && all_are(memory, 200 * (size_t)LARGE, 0));
    free(memory);
    struct rusage use;
    void *vast = calloc(1, (size_t)2 << 30);
    MUST(vast && getrusage(RUSAGE_SELF, &use) == 0 && use.ru_maxrss < 1000000);
    free(vast);
}

static uint8_t *block[BLOCKS];
static size_t bytes_of[BLOCKS];

static void step(size_t i) {
    if (block[i]) {
        MUST(all_are(block[i], bytes_of[i], (int)i));
    }
    size_t bytes = 1 + draw(draw(8) ? 60000 : 3 * LARGE), kind = draw(4);
    if (block[i] && kind == 0) {
        free(block[i]);
        block[i] = NULL;
        return;
    }
    if (block[i] && kind < 3) {
        size_t had = bytes_of[i] < bytes ? bytes_of[i] : bytes;
        block[i] = realloc(block[i], bytes);
        MUST(block[i] && all_are(block[i], had, (int)i));
    } else {
        free(block[i]);
        block[i] = malloc(bytes);
        MUST(block[i]);
    }
    bytes_of[i] = bytes;
    memset(block[i], (int)i, bytes);
}

static void steps(int n) {
    while (n-- > 0) {
        step(draw(BLOCKS));
    }
}

static void check_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        MUST(!block[i] || all_are(block[i], bytes_of[i], (int)i));
    }
}

static void comes_and_goes(void) {
    steps(20000);
    check_all();
}

/* --- forks ------------------------------------------------------------------------------------ */

static void wait_for(int fd) {
    char byte;
    MUST(read(fd, &byte, 1) == 1);
}

static void tell(int fd) {
    MUST(write(fd, "", 1) == 1);
}

static void check_apart(int depth);

static void be_the_child(uint8_t *mine, int in, int out, int depth) {
    MUST(all_are(mine, 3 * LARGE, 1));
    check_all();
    wait_for(in); /* the parent has written, and taken and freed blocks */
    MUST(all_are(mine, 3 * LARGE, 1));
    check_all();
    memset(mine, 3, 3 * LARGE);
    steps(500);
    tell(out);
    wait_for(in);
    MUST(all_are(mine, 3 * LARGE, 3));
    check_all();
    if (depth > 0) {
        check_apart(depth - 1);
    }
    free(mine);
    steps(100);
    _exit(0);
}

/* Parent and child write, in turn, and neither sees the other; nor do what they take and free meet.
 */
static void check_apart(int depth) {
    int go[2], back[2];
    uint8_t *mine = filled(3 * LARGE, 1);
    steps(300);
    MUST(pipe(go) == 0 && pipe(back) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    close(go[child != 0 ? 0 : 1]); /* so that the end of one is seen by the other */
    close(back[child != 0 ? 1 : 0]);
    if (child == 0) {
        be_the_child(mine, go[0], back[1], depth);
    }
    memset(mine, 2, 3 * LARGE);
    random_state ^= 12345;
    steps(500);
    tell(go[1]);
    wait_for(back[0]);
    MUST(all_are(mine, 3 * LARGE, 2));
    check_all();
    memset(mine, 4, 3 * LARGE);
    tell(go[1]);
    MUST(end_of(child) == 0 && all_are(mine, 3 * LARGE, 4));
    check_all();
    free(mine);
    close(go[1]);
    close(back[0]);
}

static void forks(void) {
    check_apart(2);
}

/* Whatever the program did to descriptors before. */
static void forks_without_descriptors(void) {
    int last = 0;
    steps(300);
    while ((last = dup(0)) >= 0 || errno != EMFILE) {
        MUST(last >= 0);
    }
    uint8_t *mine = filled(LARGE, 1);
    pid_t child = fork();
    if (child == 0) {
        MUST(all_are(mine, LARGE, 1));
        memset(mine, 2, LARGE);
        steps(1000);
        check_all();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            steps(1000);
            MUST(all_are(mine, LARGE, 2));
            check_all();
            _exit(0);
        }
        MUST(end_of(grandchild) == 0);
        free(mine);
        _exit(0);
    }
    steps(1000);
    MUST(end_of(child) == 0 && all_are(mine, LARGE, 1));
}

/* As daemons do; and other files have the numbers then, and stay as they are. */
static void forks_after_closing_all(void) {
    char name[] = "/tmp/heddle-malloc-XXXXXX", text[] = "0123456789";
    steps(300);
    for (int fd = 3; fd < 2000; fd++) {
        close(fd);
    }
    int fd = mkstemp(name);
    MUST(fd >= 0 && unlink(name) == 0 && write(fd, text, sizeof(text)) == sizeof(text));
    for (int i = fd + 1; i < 1020; i++) {
        MUST(dup2(fd, i) == i);
    }
    free(filled(100 * LARGE, 1)); /* is given back */
    for (int i = fd + 1; i < 1020; i++) {
        close(i);
    }
    check_apart(1);
    MUST(pread(fd, text, sizeof(text), 0) == sizeof(text) && strcmp(text, "0123456789") == 0);
}

static void forks_with_no_files_allowed(void) {
    steps(300);
    MUST(setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) == 0);
    check_apart(1);
}

/* Guard pages, and a block that is mostly untouched. */
static void forks_with_closed_pages(void) {
    struct rusage use;
    uint8_t *guarded = aligned_alloc(4096, LARGE), *vast = malloc((size_t)2 << 30);
    MUST(guarded && vast);
    memset(guarded, 6, LARGE);
    vast[(size_t)1 << 30] = 7;
    MUST(mprotect(guarded, 4096, PROT_NONE) == 0);
    pid_t child = fork();
    if (child == 0) {
        MUST(all_are(guarded + 4096, LARGE - 4096, 6));
        MUST(vast[(size_t)1 << 30] == 7);
        _exit(0);
    }
    MUST(end_of(child) == 0 && getrusage(RUSAGE_SELF, &use) == 0 && use.ru_maxrss < 1000000);
    MUST(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0 && all_are(guarded, LARGE, 6));
    free(guarded);
    free(vast);
}

static _Atomic bool is_over;

static void *take_and_free(void *arg) {
    uint8_t *mine[8] = {0};
    for (uint32_t i = (uint32_t)(uintptr_t)arg; !atomic_load(&is_over); i++) {
        uint32_t k = i % 8;
        size_t bytes = 16384 + i * 7919 % 200000;
        MUST(!mine[k] || all_are(mine[k], 16384, (int)k));
        free(mine[k]);
        mine[k] = malloc(bytes);
        MUST(mine[k]);
        memset(mine[k], (int)k, 16384);
    }
    return NULL;
}

/* What the forking thread has is whole in the child, whatever others do. */
static void forks_with_threads(void) {
    pthread_t thread[3];
    for (uintptr_t i = 0; i < 3; i++) {
        MUST(pthread_create(&thread[i], NULL, take_and_free, (void *)(i * 1000)) == 0);
    }
    for (int round = 0; round < 15; round++) {
        steps(20);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            check_all();
            steps(60);
            check_all();
            _exit(0);
        }
        steps(20);
        MUST(end_of(child) == 0);
        check_all();
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++) {
        MUST(pthread_join(thread[i], NULL) == 0);
    }
}

/* A child that no handler runs in has no large blocks, and can't spoil its parent's. */
static void copies_without_handlers(void) {
    volatile uint8_t *mine = filled(LARGE, 1);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        MUST(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
        mine[LARGE / 2] = 2;
        _exit(0);
    }
    int status = end_of(child);
    MUST(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : status == 0);
    MUST(all_are((const void *)mine, LARGE, 1));
}

static void starts_others(void) {
    extern char **environ;
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit 3", NULL};
    uint8_t *mine = filled(LARGE, 1);
    pid_t child;
    MUST(system("true | (cat; exit 0)") == 0);
    MUST(posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0);
    MUST(WEXITSTATUS(end_of(child)) == 3);
    FILE *file = popen("echo 5", "r");
    int n = 0;
    MUST(file && fscanf(file, "%d", &n) == 1 && n == 5 && pclose(file) == 0);
    MUST(all_are(mine, LARGE, 1));
}

/* --- where it runs ---------------------------------------------------------------------------- */

static ucontext_t caller, coroutine;

static void fork_here(void) {
    volatile int local = 1;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        local = 2;
        _exit(local == 2 ? 0 : 1);
    }
    MUST(end_of(child) == 0 && local == 1);
}

static void forks_on_a_stack_of_its_own(void) {
    MUST(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_size = LARGE;
    coroutine.uc_stack.ss_sp = filled(LARGE, 0);
    coroutine.uc_link = &caller;
    makecontext(&coroutine, fork_here, 0);
    MUST(swapcontext(&caller, &coroutine) == 0);
}

static void few_addresses(void) {
    MUST(setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)400 << 20, (rlim_t)400 << 20}) == 0);
    steps(3000);
    for (int i = 0; i < 1000; i++) { /* until there is no more */
        void *memory = malloc(10 * LARGE);
        if (!memory) {
            check_all();
            return;
        }
        memset(memory, 1, 10 * LARGE);
    }
    _exit(1); /* there is no end */
}

static void locks_all(void) {
    struct rusage use;
    uint8_t *mine = filled(LARGE, 1);
    if (mlockall(MCL_CURRENT) != 0) {
        return; /* it may not */
    }
    MUST(getrusage(RUSAGE_SELF, &use) == 0 && use.ru_maxrss < 500000);
    free(filled(200 * LARGE, 2));
    uint8_t *zero = calloc(1, 100 * LARGE);
    MUST(zero && all_are(zero, 100 * LARGE, 0) && all_are(mine, LARGE, 1));
}

static void frees_what_is_none(void) {
    uint8_t *mine = filled(LARGE, 1);
    MUST(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    free(mine + 4096 * (size_t)(1 + draw(3)));
}

static const struct {
    const char *name;
    void (*run)(void);
} all[] = {
    {"functions", functions},
    {"zeros", zeros},
    {"comes_and_goes", comes_and_goes},
    {"forks", forks},
    {"forks_without_descriptors", forks_without_descriptors},
    {"forks_after_closing_all", forks_after_closing_all},
    {"forks_with_no_files_allowed", forks_with_no_files_allowed},
    {"forks_with_closed_pages", forks_with_closed_pages},
    {"forks_with_threads", forks_with_threads},
    {"forks_on_a_stack_of_its_own", forks_on_a_stack_of_its_own},
    {"copies_without_handlers", copies_without_handlers},
    {"starts_others", starts_others},
    {"few_addresses", few_addresses},
    {"locks_all", locks_all},
    {"frees_what_is_none", frees_what_is_none},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, argv[1]) == 0) {
            all[i].run();
            return 0;
        }
    }
    return 2;
}
