/* shell.h: lines of shell that start programs by shmemrun, for tests. */
#ifndef SHMEM_SHELL_H_
#define SHMEM_SHELL_H_

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The exit status of a line of shell, 128 after a signal; `words` are in what it prints. */
static inline int shell(const char *line, const char *words) {
    char text[1 << 14];
    size_t used = 0, got;
    setenv("SHMEMRUN", SHMEMRUN, 1);
    setenv("MISTAKES", MISTAKES, 1);
    setenv("EXITS", EXITS, 1);
    setenv("PROCESSES", PROCESSES, 1);
    FILE *pipe = popen(line, "r");
    cr_assert_not_null(pipe);
    while ((got = fread(text + used, 1, sizeof(text) - 1 - used, pipe)) > 0) {
        used += got;
    }
    text[used] = '\0';
    int status = pclose(pipe);
    cr_expect_not_null(strstr(text, words), "%s: \"%s\" is not in: %s", line, words, text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#endif
