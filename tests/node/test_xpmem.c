/* test_xpmem.c: memory of one process that another one attaches, by a stand-in for the library and
 * the module (support/xpmem/stand_in.c).
 */
#include "node/heap.h"
#include "node/xpmem.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(xpmem, .timeout = 60);

static void stand_in(void) {
    hd_xpmem_library = STAND_IN;
    hd_xpmem_device = "/dev/null";
}

Test(xpmem, without_the_device_nothing_is_loaded) {
    hd_xpmem_library = STAND_IN;
    hd_xpmem_device = "/nonexistent";
    cr_expect_str_eq(hd_xpmem_open(), "there is no /dev/xpmem for this process");
}

Test(xpmem, without_the_library_there_is_none) {
    hd_xpmem_library = "libnobody.so.0";
    hd_xpmem_device = "/dev/null";
    cr_expect_str_eq(hd_xpmem_open(), "libxpmem.so.0 can't be loaded");
}

Test(xpmem, another_library_of_that_name_is_none) {
    hd_xpmem_library = "libm.so.6";
    hd_xpmem_device = "/dev/null";
    cr_expect_str_eq(hd_xpmem_open(), "libxpmem.so.0 is not what it should be");
}

Test(xpmem, a_version_whose_attachments_do_not_follow_is_not_used) {
    stand_in();
    setenv("STAND_IN", "version", 1);
    cr_expect_str_eq(hd_xpmem_open(), "XPMEM's version is before 2.6, or unknown");
}

Test(xpmem, what_is_refused_is_not_asked_for_again) {
    stand_in();
    setenv("STAND_IN", "make", 1);
    cr_expect_str_eq(hd_xpmem_open(), "XPMEM refuses this process's memory");
    unsetenv("STAND_IN");
    cr_expect_not_null(hd_xpmem_open());
}

static uint8_t *shared_byte(uint8_t value) {
    int fd = memfd_create("shared", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(memory, MAP_FAILED);
    *memory = value;
    return memory;
}

static uint8_t *at(const hd_heap_view_t *view, const uint8_t *memory) {
    return view->base + ((uintptr_t)memory & ((UINT64_C(1) << HD_XPMEM_SHIFT) - 1));
}

/* The attached block of that memory; views of a block are one. */
static hd_heap_view_t *attach(const uint8_t *memory, const uint64_t name[2]) {
    const char *why = "";
    hd_heap_view_t *view =
        hd_heap_view_attach(name, hd_xpmem_bytes(hd_xpmem_block((uintptr_t)memory)), &why);
    return view;
}

Test(xpmem, another_process_reads_and_writes_what_it_attaches) {
    uint64_t name[2];
    int status;
    stand_in();
    uint8_t *memory = shared_byte(7);
    cr_assert_null(hd_xpmem_open());
    hd_xpmem_name(hd_xpmem_block((uintptr_t)memory), name);
    pid_t child = fork();
    if (child == 0) {
        munmap(memory, 4096); /* inherited */
        hd_heap_view_t *view = attach(memory, name), *again = attach(memory, name);
        if (!view || view != again || *at(view, memory) != 7) {
            _exit(1);
        }
        *at(view, memory) = 8;
        hd_heap_view_drop(again);
        bool still = *at(view, memory) == 8;
        hd_heap_view_drop(view);
        _exit(still ? 0 : 2);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_expect_eq(*memory, 8);
}

Test(xpmem, the_child_of_a_fork_has_a_name_of_its_own_and_no_view_of_its_parents) {
    uint64_t name[2], its[2];
    int status;
    stand_in();
    uint8_t *memory = shared_byte(3);
    cr_assert_null(hd_xpmem_open());
    hd_xpmem_name(hd_xpmem_block((uintptr_t)memory), name);
    hd_heap_view_t *view = attach(memory, name); /* its own */
    cr_assert_not_null(view);
    pid_t child = fork();
    if (child == 0) {
        const char *why = hd_xpmem_open();
        hd_xpmem_name(hd_xpmem_block((uintptr_t)memory), its);
        bool gone = !view->base && !hd_heap_view_find(name);
        hd_heap_view_drop(view);
        hd_heap_view_t *mine = attach(memory, name);
        bool reads = mine && *at(mine, memory) == 3;
        _exit(!why && its[0] != name[0] && gone && reads ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    hd_heap_view_drop(view);
}

Test(xpmem, names_that_are_no_blocks_are_refused) {
    hd_xpmem_t attached;
    uint64_t name[2];
    stand_in();
    cr_assert_null(hd_xpmem_open());
    hd_xpmem_name(0, name);
    size_t bytes = hd_xpmem_bytes(0);
    cr_expect_not_null(hd_xpmem_attach((const uint64_t[]){0, 0}, bytes, &attached));
    cr_expect_not_null(hd_xpmem_attach((const uint64_t[]){UINT64_MAX, 0}, bytes, &attached));
    cr_expect_not_null(hd_xpmem_attach((const uint64_t[]){name[0], UINT64_MAX}, 0, &attached));
    cr_expect_not_null(hd_xpmem_attach(name, bytes + 1, &attached));
    cr_expect_not_null(hd_xpmem_attach(name, 0, &attached));
    cr_expect_eq(hd_xpmem_bytes(hd_xpmem_block(UINT64_MAX)), 0);
}

Test(xpmem, the_last_addresses_of_a_program_are_in_no_block) {
    int here;
    uint64_t top = hd_xpmem_block((UINT64_C(1) << 47) - 1);
    cr_expect_lt(hd_xpmem_bytes(top), hd_xpmem_bytes(0));
    cr_expect_eq(hd_xpmem_bytes(hd_xpmem_block((uintptr_t)&here)) == 0, false);
}
