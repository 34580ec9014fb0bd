/* fork.c: fork, for code whose stack is a large block, as some coroutines' are. The child lacks the
 * heap until memory.c's handler has run there, and a handler needs a stack: so this fork is done on
 * another one, in private memory. By then the caller's stack rests, and is copied as it is.
 */
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 64 * 1024 };

typedef struct side {
    ucontext_t caller, own;
    pid_t child;
    int error;
    uint8_t stack[STACK];
} side_t;

static pid_t (*next_fork)(void); /* set when the library is initialised */

static __attribute__((constructor)) void find_fork(void) {
    *(void **)&next_fork = dlsym(RTLD_NEXT, "fork");
}

static void fork_there(unsigned high, unsigned low) {
    side_t *side = (side_t *)((uintptr_t)high << 32 | low); /* makecontext passes ints */
    side->child = next_fork();
    side->error = errno;
}

static pid_t fork_aside(void) {
    void *got =
        mmap(NULL, sizeof(side_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        return -1;
    }
    side_t *side = got;
    side->child = -1;
    side->error = EAGAIN;
    if (getcontext(&side->own) == 0) {
        side->own.uc_stack.ss_sp = side->stack;
        side->own.uc_stack.ss_size = STACK;
        side->own.uc_link = &side->caller;
        uint64_t address = (uintptr_t)side;
        makecontext(&side->own, (void (*)(void))fork_there, 2, (unsigned)(address >> 32),
                    (unsigned)address);
        (void)swapcontext(&side->caller, &side->own);
    }
    pid_t child = side->child;
    int error = side->error;
    munmap(got, sizeof(side_t));
    errno = child < 0 ? error : errno;
    return child;
}

__attribute__((visibility("default"))) pid_t fork(void) {
    if (!next_fork) {
        errno = ENOSYS;
        return -1;
    }
    return hd_memory_has(__builtin_frame_address(0)) ? fork_aside() : next_fork();
}
