/* test_segment.c: memfds as segments: what is made, and what is taken of others. Tests change their
 * process's limits: each has its own.
 */
#include "../support/resident.h"
#include "node/segment.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

static hd_node_segment_t made(size_t bytes) {
    hd_node_segment_t segment;
    cr_assert_eq(hd_segment_create(bytes, &segment), UCC_OK);
    return segment;
}

Test(segment, it_is_zero_and_shared_by_its_mappings) {
    hd_node_segment_t segment = made(BYTES);
    void *a, *b;
    cr_assert_eq(hd_segment_map(&segment, NULL, &a), UCC_OK);
    cr_assert_eq(hd_segment_map(&segment, NULL, &b), UCC_OK);
    hd_segment_close(&segment);
    cr_expect_eq(segment.fd, -1);
    cr_expect_neq(a, b);
    for (size_t i = 0; i < BYTES; i++) {
        cr_expect_eq(((char *)a)[i], 0);
    }
    strcpy((char *)a + BYTES - 10, "both");
    cr_expect_str_eq((char *)b + BYTES - 10, "both");
}

Test(segment, it_is_mapped_where_the_caller_has_room) {
    hd_node_segment_t segment = made(BYTES);
    void *room = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *where;
    cr_assert_eq(hd_segment_map(&segment, room, &where), UCC_OK);
    cr_expect_eq(where, room);
    *(char *)where = 1;
}

Test(segment, it_can_neither_shrink_nor_grow_nor_be_executed_nor_inherited) {
    hd_node_segment_t segment = made(BYTES);
    cr_expect_neq(ftruncate(segment.fd, BYTES - 1), 0);
    cr_expect_neq(ftruncate(segment.fd, BYTES + 1), 0);
    cr_expect_neq(fcntl(segment.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    cr_expect(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC);
    struct stat stat;
    cr_assert_eq(fstat(segment.fd, &stat), 0);
    cr_expect_eq(stat.st_size, BYTES);
    if (memfd_create("test", 0x0008U) >= 0) { /* MFD_NOEXEC_SEAL: not all systems know it */
        cr_expect_eq(stat.st_mode & 0111, 0);
    }
}

Test(segment, it_may_be_larger_than_the_memory_that_there_is) {
    hd_node_segment_t segment = made((size_t)1 << 44);
    void *where;
    cr_assert_eq(hd_segment_map(&segment, NULL, &where), UCC_OK);
    ((char *)where)[((size_t)1 << 44) - 1] = 1;
    struct stat stat;
    cr_assert_eq(fstat(segment.fd, &stat), 0);
    cr_expect_lt(stat.st_blocks, 10000);
}

Test(segment, what_cannot_be_had_is_an_error) {
    hd_node_segment_t segment;
    cr_expect_eq(hd_segment_create(0, &segment), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(segment.fd, -1);
    cr_expect_eq(hd_segment_create(SIZE_MAX, &segment), UCC_ERR_NO_MEMORY);
    cr_expect_eq(segment.fd, -1);
}

Test(segment, the_limit_of_a_file_s_size_is_an_error_and_no_signal) {
    struct rlimit limit = {BYTES, BYTES};
    hd_node_segment_t segment;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(hd_segment_create(BYTES + 1, &segment), UCC_ERR_NO_RESOURCE);
    cr_expect_eq(hd_segment_create(BYTES, &segment), UCC_OK);
}

Test(segment, without_a_descriptor_there_is_none) {
    int fd = dup(0);
    struct rlimit limit = {(rlim_t)fd, (rlim_t)fd};
    close(fd);
    hd_node_segment_t segment;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(hd_segment_create(BYTES, &segment), UCC_ERR_NO_RESOURCE);
    cr_expect_eq(segment.fd, -1);
}

Test(segment, the_soft_limit_of_descriptors_is_raised) {
    int fd = dup(0);
    struct rlimit limit = {(rlim_t)fd, (rlim_t)fd + 10};
    close(fd);
    hd_node_segment_t segment;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(hd_segment_create(BYTES, &segment), UCC_OK);
}

Test(segment, of_a_program_that_locks_its_memory_only_what_is_used_is_there) {
    enum { LARGE = 256 << 20 };
    hd_node_segment_t segment;
    void *where;
    if (mlockall(MCL_FUTURE) != 0) {
        cr_skip_test("no memory can be locked");
    }
    size_t before = resident_bytes();
    cr_assert_eq(hd_segment_create(LARGE, &segment), UCC_OK);
    if (hd_segment_map(&segment, NULL, &where) != UCC_OK) {
        cr_skip_test("no such memory can be locked");
    }
    memset(where, 1, BYTES);
    cr_expect_lt(resident_bytes() - before, LARGE / 4);
    munmap(where, LARGE);
    hd_segment_close(&segment);
}

/* --- adopting --------------------------------------------------------------------------------- */

static int with_seals(int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, BYTES), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

enum { FIXED = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static int without_seals(void) {
    return with_seals(0);
}

static int that_shrinks(void) {
    return with_seals(F_SEAL_GROW | F_SEAL_SEAL);
}

static int that_grows(void) {
    return with_seals(F_SEAL_SHRINK | F_SEAL_SEAL);
}

static int that_may_be_sealed_more(void) {
    return with_seals(F_SEAL_SHRINK | F_SEAL_GROW);
}

static int that_cannot_be_written(void) {
    return with_seals(FIXED | F_SEAL_WRITE);
}

static int opened_for_reading(void) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", with_seals(FIXED));
    return open(path, O_RDONLY);
}

static int of_a_file_system(void) {
    char path[] = "/tmp/test_segment_XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    cr_assert_eq(ftruncate(fd, BYTES), 0);
    return fd;
}

static int of_a_pipe(void) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    return ends[0];
}

static int of_nothing(void) {
    return 1000;
}

Test(segment, nothing_but_a_sealed_memfd_of_its_size_is_adopted) {
    int (*const make[])(void) = {without_seals, that_shrinks,           that_grows,
                                 of_a_pipe,     that_cannot_be_written, opened_for_reading,
                                 of_nothing,    of_a_file_system,       that_may_be_sealed_more};
    hd_node_segment_t segment;
    for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
        int fd = make[i]();
        cr_expect_eq(hd_segment_adopt(fd, BYTES, &segment), UCC_ERR_INVALID_PARAM, "case %zu", i);
        cr_expect_eq(segment.fd, -1);
        cr_expect_lt(fcntl(fd, F_GETFD), 0, "case %zu stays open", i);
    }
    const size_t wrong[] = {0, BYTES - 1, BYTES + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = with_seals(FIXED);
        cr_expect_eq(hd_segment_adopt(fd, wrong[i], &segment), UCC_ERR_INVALID_PARAM);
        cr_expect_lt(fcntl(fd, F_GETFD), 0);
    }
    cr_expect_eq(hd_segment_adopt(with_seals(FIXED), BYTES, &segment), UCC_OK);
    hd_node_segment_t own = made(BYTES);
    cr_expect_eq(hd_segment_adopt(own.fd, BYTES, &segment), UCC_OK);
    cr_expect_eq(segment.bytes, BYTES);
}
