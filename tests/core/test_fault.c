/* test_fault.c: work on memory that vanishes ends, and nothing else about SIGBUS is different. */
#include "core/fault.h"

#include <criterion/criterion.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fault, .timeout = 60);

enum { BYTES = 1 << 16 };

/* Memory of a file that has become too short. */
static uint8_t *vanished(void) {
    int fd = memfd_create("vanishes", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, BYTES), 0);
    uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(memory, MAP_FAILED);
    cr_assert_eq(ftruncate(fd, 0), 0);
    close(fd);
    return memory;
}

typedef struct touch {
    volatile uint8_t *at;
    uint32_t reached;
} touch_t;

static void touch(void *arg) {
    touch_t *t = arg;
    t->reached++;
    *t->at = 1;
    t->reached++;
}

Test(fault, work_on_memory_that_is_not_there_ends) {
    uint8_t *memory = vanished();
    touch_t t = {.at = memory + 5000};
    cr_assert(hd_fault_install());
    cr_assert(hd_fault_add(memory, BYTES));
    for (uint32_t i = 1; i < 4; i++) {
        cr_expect_not(hd_fault_run(touch, &t));
        cr_expect_eq(t.reached, i);
    }
}

Test(fault, work_on_other_memory_ends_as_it_does) {
    uint8_t byte = 0;
    touch_t t = {.at = &byte};
    cr_assert(hd_fault_install());
    cr_expect(hd_fault_run(touch, &t));
    cr_expect_eq(t.reached, 2);
    cr_expect_eq(byte, 1);
}

Test(fault, a_thread_that_blocks_all_signals_gets_this_one_inside_and_its_mask_back) {
    sigset_t all, mask, now;
    uint8_t *memory = vanished();
    touch_t t = {.at = memory};
    cr_assert(hd_fault_install());
    cr_assert(hd_fault_add(memory, BYTES));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    hd_fault_enter(&mask);
    cr_expect_not(hd_fault_run(touch, &t));
    hd_fault_leave(&mask);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    cr_expect(sigismember(&now, SIGBUS) == 1 && sigismember(&now, SIGUSR1) == 1);
}

static sigjmp_buf back;
static volatile int handled;

static void handle(int number) {
    handled = number;
    siglongjmp(back, 1);
}

Test(fault, the_programs_own_handler_gets_what_happens_elsewhere) {
    cr_assert(signal(SIGBUS, handle) != SIG_ERR);
    cr_assert(hd_fault_install());
    uint8_t *memory = vanished();
    if (!sigsetjmp(back, 1)) {
        *(volatile uint8_t *)memory = 1;
    }
    cr_expect_eq(handled, SIGBUS);
}

/* Memory of the program's own, which work touches, or a handler of its that comes in between. */
Test(fault, the_programs_own_memory_is_its_own_also_inside) {
    cr_assert(signal(SIGBUS, handle) != SIG_ERR);
    cr_assert(hd_fault_install());
    uint8_t *other = vanished(), *memory = vanished();
    const touch_t at[] = {{.at = memory}, {.at = memory + BYTES - 1}};
    cr_assert(hd_fault_add(other, BYTES));
    for (uint32_t i = 0; i < 2; i++) {
        touch_t t = at[i];
        handled = 0;
        if (!sigsetjmp(back, 1)) {
            (void)hd_fault_run(touch, &t);
            cr_assert_fail("it was caught");
        }
        cr_expect_eq(handled, SIGBUS);
    }
    cr_assert(hd_fault_add(memory, BYTES)); /* what is added, and no more when it is removed */
    touch_t t = at[1];
    cr_expect_not(hd_fault_run(touch, &t));
    hd_fault_remove(memory);
    handled = 0;
    if (!sigsetjmp(back, 1)) {
        (void)hd_fault_run(touch, &t);
        cr_assert_fail("it was caught");
    }
    cr_expect_eq(handled, SIGBUS);
}

Test(fault, memory_is_noted_as_far_as_there_is_room) {
    uint32_t n = 0;
    while (n < 100000 && hd_fault_add((void *)(uintptr_t)(4096 * (n + 1)), 4096)) {
        n++;
    }
    cr_assert(n >= 64 && n < 100000, "%u", n);
    hd_fault_remove((void *)(uintptr_t)(4096 * 7));
    cr_assert(hd_fault_add((void *)(uintptr_t)4096, 4096));
    cr_assert_not(hd_fault_add((void *)(uintptr_t)4096, 4096));
}

static void send(void *arg) {
    raise(SIGBUS);
    *(int *)arg = 1;
}

Test(fault, a_signal_that_somebody_sends_is_no_fault_inside_either) {
    int sent = 0;
    cr_assert(signal(SIGBUS, SIG_IGN) != SIG_ERR);
    cr_assert(hd_fault_install());
    cr_expect(hd_fault_run(send, &sent));
    cr_expect_eq(sent, 1);
}

Test(fault, who_has_no_handler_ends_by_the_signal) {
    cr_assert(signal(SIGBUS, SIG_DFL) != SIG_ERR);
    cr_assert(hd_fault_install());
    uint8_t *memory = vanished();
    for (uint32_t i = 0; i < 2; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) {
            if (i == 0) {
                *(volatile uint8_t *)memory = 1;
            }
            raise(SIGBUS);
            _exit(0);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "way %u", i);
    }
}

Test(fault, a_handler_that_comes_later_is_left_alone) {
    cr_assert(hd_fault_install());
    cr_expect(hd_fault_catches());
    cr_assert(signal(SIGBUS, handle) != SIG_ERR);
    cr_expect_not(hd_fault_catches());
    cr_expect_not(hd_fault_install());
}
