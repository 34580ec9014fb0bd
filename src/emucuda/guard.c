/* guard.c: a host that touches device memory ends as it would with a real device, but is told what
 * it touched. */
#include "emu.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sigaction before;
static bool installed;

/* Without the lock, which this thread may hold: what it reads may be changing, and only the line
 * suffers. */
static void tell(uint64_t address) {
    char line[256];
    for (int d = 0; d < emu.config.devices; d++) {
        const emu_arena_t *arena = &emu.device[d].arena;
        if (!emu_arena_has(arena, address)) {
            continue;
        }
        const emu_allocation_t *allocation = emu_allocation_at(address);
        int length = allocation ? snprintf(line, sizeof(line),
                                           "emucuda: the host touches 0x%llx, %llu bytes into an "
                                           "allocation of %llu on device %d\n",
                                           (unsigned long long)address,
                                           (unsigned long long)(address - allocation->base),
                                           (unsigned long long)allocation->bytes, d)
                                : snprintf(line, sizeof(line),
                                           "emucuda: the host touches 0x%llx, memory of device %d "
                                           "that is not allocated\n",
                                           (unsigned long long)address, d);
        ssize_t written = length > 0 ? write(STDERR_FILENO, line, (size_t)length) : 0;
        (void)written;
    }
}

static void touched(int signal, siginfo_t *info, void *context) {
    tell((uintptr_t)info->si_addr);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        sigaction(SIGSEGV, &before, NULL); /* and the access is tried again */
    } else {
        before.sa_handler(signal);
    }
}

void emu_guard_begin(void) {
    struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    installed = sigaction(SIGSEGV, &action, &before) == 0;
}

void emu_guard_end(void) {
    struct sigaction now;
    if (installed && sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == touched) {
        sigaction(SIGSEGV, &before, NULL);
    }
    installed = false;
}
