/* resident.h: how much of this process's memory is there. */
#ifndef TESTS_SUPPORT_RESIDENT_H_
#define TESTS_SUPPORT_RESIDENT_H_

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static inline size_t resident_bytes(void) {
    size_t all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%zu %zu", &all, &pages) == 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
