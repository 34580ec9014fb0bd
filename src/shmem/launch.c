/* launch.c: what shmemrun does: it runs a program as N PEs, threads of this process.
 *
 * The program is a shared module with a main. Each PE gets a copy of the file, loaded on its own,
 * so that globals are private to the PE; those of the same name have the same offset from where the
 * copy begins. The names shmem_* that the module needs are this library's, which shmemrun has
 * loaded already. With several N, a process for each, one after the other.
 *     A program's threads belong to the PE that started them, and exit() ends its PE only: so
 *     pthread_create(),
 * thrd_create() and exit() are defined here. The loader looks for a module's names in shmemrun
 * first and then in the libraries that it needs, in their order: this one comes before the C
 * library.
 */
#include "launcher.h"
#include "pe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

typedef int main_t(int argc, char **argv, char **environment);

/* A PE's thread. */
typedef struct runner {
    pe_t *pe;
    main_t *main;
    int argc;
    char **argv; /* its own copy */
    int status;
    jmp_buf end; /* where exit() goes */
    pthread_t thread;
} runner_t;

static _Thread_local runner_t *this_runner;

_Noreturn static void complain(const char *what, const char *why) {
    fprintf(stderr, "shmemrun: %s: %s\n", what, why);
    exit(2);
}

/* ---- what modules find here instead of in the C library ---- */

typedef struct start {
    void *(*work)(void *);
    void *argument;
    pe_t *pe;
} start_t;

static void *work_for_pe(void *argument) {
    start_t start = *(start_t *)argument;
    free(argument);
    this_pe = start.pe;
    return start.work(start.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*work)(void *), void *argument) {
    typedef int create_t(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create_t *create = (create_t *)dlsym(RTLD_NEXT, "pthread_create");
    start_t *start = malloc(sizeof(*start));
    if (!create || !start) {
        free(start);
        return EAGAIN;
    }
    *start = (start_t){work, argument, this_pe};
    int error = create(thread, attributes, work_for_pe, start);
    if (error) {
        free(start);
    }
    return error;
}

typedef struct c11_start {
    thrd_start_t work;
    void *argument;
} c11_start_t;

/* thrd_join() finds the int in the pointer. */
static void *work_of_c11(void *argument) {
    c11_start_t start = *(c11_start_t *)argument;
    free(argument);
    return (void *)(intptr_t)start.work(start.argument);
}

__attribute__((visibility("default"))) int thrd_create(thrd_t *thread, thrd_start_t work,
                                                       void *argument) {
    c11_start_t *start = malloc(sizeof(*start));
    if (!start) {
        return thrd_nomem;
    }
    *start = (c11_start_t){work, argument};
    if (pthread_create(thread, NULL, work_of_c11, start) != 0) {
        free(start);
        return thrd_error;
    }
    return thrd_success;
}

/* A PE that fails before shmem_finalize leaves others waiting, in shmem_init for one: then all end.
 */
static void leave(runner_t *runner, int status) {
    if (status != 0 && !runner->pe->finalized) {
        shmem_global_exit(status);
    }
    if (!runner->pe->initialized) {
        never_comes(runner->pe);
    }
    shmem_finalize();
    runner->status = status;
}

__attribute__((visibility("default"))) _Noreturn void exit(int status) {
    if (this_runner) {
        leave(this_runner, status);
        longjmp(this_runner->end, 1); /* pthread_exit() would unwind: C++ ends the program then */
    }
    if (this_pe) { /* a thread that a PE has started */
        shmem_global_exit(status);
    }
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "exit");
    real(status);
    abort(); /* not reached; the compiler cannot know */
}

/* ---- copies ---- */

/* The file's contents in memory; dlopen takes files with different numbers for different modules.
 */
static int copy_file(const char *path) {
    struct stat state;
    char name[128]; /* which debuggers show: the path's end, since its length is limited */
    size_t length = strlen(path);
    snprintf(name, sizeof(name), "%s",
             path + (length < sizeof(name) ? 0 : length + 1 - sizeof(name)));
    int file = open(path, O_RDONLY | O_CLOEXEC), copy = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || copy < 0 || fstat(file, &state) != 0 || ftruncate(copy, state.st_size) != 0) {
        complain(path, strerror(errno));
    }
    size_t bytes = (size_t)state.st_size;
    void *from = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    void *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
    if (from == MAP_FAILED || to == MAP_FAILED) {
        complain(path, strerror(errno));
    }
    memcpy(to, from, bytes);
    munmap(from, bytes);
    munmap(to, bytes);
    close(file);
    return copy;
}

/* Where the module that begins at `base` lies. */
typedef struct image {
    uintptr_t base;
    uintptr_t first;
    uintptr_t end;
} image_t;

static int find_image(struct dl_phdr_info *info, size_t size, void *argument) {
    image_t *image = argument;
    (void)size;
    if (info->dlpi_addr != image->base) {
        return 0;
    }
    image->first = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t first = image->base + segment->p_vaddr, end = first + segment->p_memsz;
        if (segment->p_type == PT_LOAD) {
            image->first = first < image->first ? first : image->first;
            image->end = end > image->end ? end : image->end;
        }
    }
    return 1;
}

/* Copies stay open: their names, which the loader compares, must differ. */
static main_t *load(const char *path, pe_t *pe) {
    char name[64];
    snprintf(name, sizeof(name), "/proc/%ld/fd/%d", (long)getpid(), copy_file(path));
    void *module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        complain(path, dlerror());
    }
    main_t *const *linked = dlsym(module, "heddle_shmem_program"); /* run/start.c */
    main_t *program = linked ? *linked : (main_t *)dlsym(module, "main");
    struct link_map *map;
    if (!program || dlinfo(module, RTLD_DI_LINKMAP, &map) != 0) {
        complain(path, dlerror());
    }
    image_t image = {.base = map->l_addr};
    dl_iterate_phdr(find_image, &image);
    pe->image = (char *)image.first;
    the_world.image_bytes = image.end - image.first;
    return program;
}

/* ---- PEs ---- */

static void leave_by_pthread_exit(void *runner) {
    leave(runner, 0);
}

static void *run_pe(void *argument) {
    runner_t *runner = argument;
    this_pe = runner->pe;
    this_runner = runner;
    pthread_cleanup_push(leave_by_pthread_exit, runner);
    if (setjmp(runner->end) == 0) {
        leave(runner, runner->main(runner->argc, runner->argv, environ));
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* Programs may change their arguments. */
static char **copy_arguments(int argc, char **argv) {
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; copy && i < argc; i++) {
        copy[i] = strdup(argv[i]);
    }
    return copy;
}

static void free_arguments(char **argv) {
    for (int i = 0; argv[i]; i++) {
        free(argv[i]);
    }
    free(argv);
}

static size_t heap_bytes(void) {
    const char *text = getenv("SHMEM_SYMMETRIC_SIZE");
    text = text ? text : getenv("SMA_SYMMETRIC_SIZE");
    text = text ? text : "64M";
    static const char units[] = "KkMmGgTt";
    char *rest;
    double bytes = strtod(text, &rest);
    bool is_number = rest != text;
    const char *unit = is_number && *rest ? strchr(units, *rest) : NULL;
    if (unit) {
        bytes *= (double)((int64_t)1024 << (unit - units) / 2 * 10);
        rest++;
    }
    if (!(is_number && *rest == '\0' && bytes >= 0 && bytes < (double)(SIZE_MAX >> 8))) {
        complain("SHMEM_SYMMETRIC_SIZE", text);
    }
    size_t granule = 4096;
    return ((size_t)bytes + granule) & ~(granule - 1);
}

static void make_world(int n) {
    the_world.size = n;
    the_world.heap_bytes = heap_bytes();
    the_world.spins = n <= sysconf(_SC_NPROCESSORS_ONLN) ? 1000 : 10;
    the_world.pes = aligned_alloc(alignof(pe_t), (size_t)n * sizeof(pe_t));
    if (!the_world.pes) {
        complain("PEs", "no memory");
    }
    memset(the_world.pes, 0, (size_t)n * sizeof(pe_t));
    for (int i = 0; i < n; i++) {
        the_world.pes[i].number = i;
        pthread_mutex_init(&the_world.pes[i].lock, NULL);
    }
    SHMEM_CTX_DEFAULT->size = n;
}

/* The first status that is not 0 is the program's. */
static int run(int n, int argc, char **argv) {
    int status = 0;
    runner_t *runners = calloc((size_t)n, sizeof(*runners));
    make_world(n);
    for (int i = 0; i < n; i++) {
        runners[i] = (runner_t){.pe = &the_world.pes[i], .argc = argc};
        runners[i].argv = copy_arguments(argc, argv);
        runners[i].main = load(argv[0], runners[i].pe);
    }
    for (int i = 0; i < n; i++) {
        int error = pthread_create(&runners[i].thread, NULL, run_pe, &runners[i]);
        if (error) {
            complain("thread", strerror(error));
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(runners[i].thread, NULL);
        free_arguments(runners[i].argv);
        status = status ? status : runners[i].status;
    }
    if (the_world.group) {
        heddle_group_destroy(the_world.group);
    }
    free(the_world.pes);
    free(runners);
    return status;
}

static int run_apart(int n, int argc, char **argv) {
    int state;
    pid_t child = fork();
    if (child == 0) {
        exit(run(n, argc, argv));
    }
    if (child < 0 || waitpid(child, &state, 0) != child) {
        complain("fork", strerror(errno));
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static const char usage[] = "shmemrun [-n N[,N...]] PROGRAM [ARGUMENT...]";

static void help(void) {
    printf(
        "shmemrun: runs an OpenSHMEM program whose PEs are threads of one process\n"
        "\n"
        "usage: %s\n"
        "\n"
        "  -n, -np N[,N...]    number of PEs (default: one per processor); with several, one run\n"
        "                      after the other, until one fails\n"
        "  -h, --help\n"
        "\n"
        "PROGRAM is what oshcc or oshc++ has linked. SHMEM_SYMMETRIC_SIZE is the size of each\n"
        "PE's symmetric heap in bytes, or with K, M, G or T (default: 64M).\n",
        usage);
}

__attribute__((visibility("default"))) int heddle_shmem_launch(int argc, char **argv) {
    const char *counts = "";
    int first = 1;
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        help();
        return 0;
    }
    if (argc > 2 && (strcmp(argv[1], "-n") == 0 || strcmp(argv[1], "-np") == 0)) {
        counts = argv[2];
        first = 3;
    }
    if (first >= argc || argv[first][0] == '-') {
        complain("usage", usage);
    }
    bool several = strchr(counts, ',') != NULL;
    int status = 0;
    do {
        char *end;
        long n = *counts ? strtol(counts, &end, 10) : sysconf(_SC_NPROCESSORS_ONLN);
        if (n < 1 || n > 1 << 16 || (*counts && *end && *end != ',')) {
            complain("-n", counts);
        }
        counts = *counts && *end ? end + 1 : "";
        status = several ? run_apart((int)n, argc - first, argv + first)
                         : run((int)n, argc - first, argv + first);
    } while (status == 0 && *counts);
    return status;
}
