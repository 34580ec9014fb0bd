/* launch.c: what shmemrun does: it runs a program as N PEs, threads of this process, or of several
 * (processes.h).
 *
 * The program is a shared module with a main. Each PE gets a copy of the file, loaded on its own,
 * so that globals are private to the PE; those of the same name have the same offset from where the
 * copy begins. The names shmem_* that the module needs are this library's, which shmemrun has
 * loaded already. With several N, one run after the other, in processes of their own.
 *     exit() ends its PE only, so it is defined here. The loader looks for a module's names in
 * shmemrun first and then in the libraries that it needs, in their order: this one comes before the
 * C library.
 */
#include "job.h"
#include "launcher.h"
#include "memory.h"
#include "pe.h"
#include "processes.h"

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
#include <unistd.h>

enum { MOST_PES = 1 << 16 };

typedef int main_t(int argc, char **argv, char **environment);

/* A PE's thread. */
typedef struct runner {
    pe_t *pe;
    main_t *main;
    int argc;
    char **argv; /* its own copy */
    int status;
    jmp_buf end; /* where exit() goes */
    pid_t process;
    pthread_t thread;
} runner_t;

static _Thread_local runner_t *this_runner;

/* ---- ends ---- */

static _Noreturn void exit_process(int status) {
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "exit");
    real(status);
    abort(); /* not reached; the compiler cannot know */
}

/* A PE that fails before shmem_finalize leaves others waiting, in shmem_init for one: then all end.
 */
static void leave(runner_t *runner, int status) {
    if (getpid() != runner->process) {
        exit_process(status); /* a child that the PE has forked is none */
    }
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
    exit_process(status);
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
    size_t bytes = 0;
    pe->image = image_find(map->l_addr, &bytes);
    if (the_world.processes > 1 && bytes != the_world.image_bytes) {
        complain(path, "is another program than before");
    }
    if (the_world.processes > 1) {
        image_share(pe->image, pe->number);
    }
    the_world.image_bytes = bytes;
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

static void make_world(int n, int processes) {
    the_world.size = the_world.here = n;
    the_world.processes = processes;
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

/* Where the PEs of other processes have theirs, and those of this one will. */
static void make_memory(const char *path) {
    the_world.image_bytes = image_span(path);
    if (the_world.image_bytes == 0) {
        complain(path, "can't be read, or is no program for shmemrun");
    }
    memory_make();
    for (int i = 0; i < the_world.size; i++) {
        the_world.pes[i].heap = memory_heap(i);
        the_world.pes[i].image = memory_image(i);
    }
}

typedef struct arguments {
    int argc;
    char **argv;
} arguments_t;

/* The PEs of this process. The first status that is not 0 is the program's. */
static int run(const arguments_t *arguments) {
    int status = 0, n = the_world.here;
    runner_t *runners = calloc((size_t)n, sizeof(*runners));
    if (!runners) {
        complain("PEs", "no memory");
    }
    for (int i = 0; i < n; i++) {
        runners[i] = (runner_t){.pe = &the_world.pes[the_world.first + i],
                                .argc = arguments->argc,
                                .process = getpid()};
        runners[i].pe->heap = NULL;
        runners[i].argv = copy_arguments(arguments->argc, arguments->argv);
        runners[i].main = load(arguments->argv[0], runners[i].pe);
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

/* In a process of its own. */
static void run_and_end(void *argument) {
    int status = run(argument);
    job_over();
    exit(status);
}

/* One of several runs, or one in several processes. */
static int run_apart(int n, int processes, arguments_t *arguments) {
    make_world(n, processes);
    if (processes > 1) {
        make_memory(arguments->argv[0]);
    }
    int status = run_processes(run_and_end, arguments);
    if (processes > 1) {
        memory_unmake();
    }
    free(the_world.pes);
    return status;
}

static const char usage[] = "shmemrun [-n N[,N...]] [-p P] PROGRAM [ARGUMENT...]";

static void help(void) {
    printf(
        "shmemrun: runs an OpenSHMEM program whose PEs are threads of one process, or of several\n"
        "\n"
        "usage: %s\n"
        "\n"
        "  -n, -np N[,N...]    number of PEs (default: one per processor); with several, one run\n"
        "                      after the other, until one fails\n"
        "  -p P                number of processes of this machine, among which PEs are divided\n"
        "                      (default: 1; no more than PEs)\n"
        "  -h, --help\n"
        "\n"
        "PROGRAM is what oshcc or oshc++ has linked. SHMEM_SYMMETRIC_SIZE is the size of each\n"
        "PE's symmetric heap in bytes, or with K, M, G or T (default: 64M).\n",
        usage);
}

/* What is given by numbers. */
typedef struct options {
    const char *counts; /* "": one PE per processor */
    long processes;
} options_t;

static long number(const char *option, const char *text, char **end, long most) {
    long n = strtol(text, end, 10);
    if (n < 1 || n > most || (**end && **end != ',')) {
        complain(option, text);
    }
    return n;
}

/* Of the first argument that is no option's. */
static int read_options(int argc, char **argv, options_t *options) {
    int i = 1;
    char *end;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "-n") == 0 || strcmp(argv[i], "-np") == 0) {
            options->counts = argv[i + 1];
        } else if (strcmp(argv[i], "-p") == 0) {
            options->processes = number("-p", argv[i + 1], &end, MOST_PES);
            if (*end) {
                complain("-p", argv[i + 1]);
            }
        } else {
            break;
        }
    }
    if (i >= argc || argv[i][0] == '-') {
        complain("usage", usage);
    }
    return i;
}

static int run_once(int n, const options_t *options, arguments_t *arguments, bool apart) {
    int processes = options->processes < n ? (int)options->processes : n;
    if (processes > JOB_PROCESSES) {
        complain("-p", "more processes than can share memory, which are 256");
    }
    if (processes > 1 || apart) {
        return run_apart(n, processes, arguments);
    }
    make_world(n, 1);
    return run(arguments);
}

__attribute__((visibility("default"))) int heddle_shmem_launch(int argc, char **argv) {
    options_t options = {.counts = "", .processes = 1};
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        help();
        return 0;
    }
    int first = read_options(argc, argv, &options), status = 0;
    arguments_t arguments = {argc - first, argv + first};
    const char *counts = options.counts;
    bool several = strchr(counts, ',') != NULL;
    do {
        char *end;
        long n = *counts ? number("-n", counts, &end, MOST_PES) : sysconf(_SC_NPROCESSORS_ONLN);
        counts = *counts && *end ? end + 1 : "";
        status = run_once((int)n, &options, &arguments, several);
    } while (status == 0 && *counts);
    return status;
}
