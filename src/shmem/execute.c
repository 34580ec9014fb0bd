/* execute.c: a program for shmemrun that is executed by itself. */
#include "launcher.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Where shmemrun lies as seen from this library's folder: of lib, of lib/x86_64-linux-gnu, and in a
 * build. */
static const char *const launchers[] = {"../bin/shmemrun", "../../bin/shmemrun", "shmemrun"};

_Noreturn static void give_up(const char *program) {
    fprintf(stderr, "%s is an OpenSHMEM program: shmemrun -n N %s\n", program, program);
    _exit(127);
}

/* The shell has found a name without a slash in PATH, the kernel knows where. */
static char *find_program(char *name) {
    char *found = (char *)getauxval(AT_EXECFN);
    return strchr(name, '/') || !found ? name : found;
}

_Noreturn void heddle_shmem_execute(void **stack) {
    if (!stack) {
        give_up("This");
    }
    size_t argc = (size_t)(uintptr_t)stack[0];
    char **argv = (char **)(stack + 1), *program = find_program(argv[0]);
    char **words = calloc(argc + 4, sizeof(*words)), path[PATH_MAX];
    Dl_info library;
    if (!words || dladdr((void *)(uintptr_t)heddle_shmem_execute, &library) == 0) {
        give_up(program);
    }
    words[0] = "shmemrun";
    words[1] = "-n";
    words[2] = "1";
    words[3] = program;
    for (size_t i = 1; i < argc; i++) {
        words[3 + i] = argv[i];
    }
    const char *slash = strrchr(library.dli_fname, '/');
    int folder = slash ? (int)(slash - library.dli_fname) + 1 : 0;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        snprintf(path, sizeof(path), "%.*s%s", folder, library.dli_fname, launchers[i]);
        execv(path, words);
    }
    execvp("shmemrun", words);
    give_up(program);
}
