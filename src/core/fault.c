/* fault.c: see fault.h. */
#include "core/fault.h"

#include "core/fork.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>

/* Read by the handler, which waits for nobody; written under the lock. */
enum { MOST = 1024 };
static struct {
    _Atomic uintptr_t base; /* 0: nothing */
    _Atomic size_t bytes;
} vanishing[MOST];
static _Atomic uint32_t used; /* of these */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The calling thread's; NULL: it runs no such work. initial-exec: a handler reads it, which must
 * not allocate. */
static _Thread_local __attribute__((tls_model("initial-exec"))) sigjmp_buf *volatile way_out;
static struct sigaction before; /* constant once the handler is there */
static bool installed;

static void guard(void) {
    hd_fork_guard(&lock);
}

bool hd_fault_add(const void *base, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard);
    pthread_mutex_lock(&lock);
    /* relaxed, all of them: under the lock */
    uint32_t i = 0, n = atomic_load_explicit(&used, memory_order_relaxed);
    while (i < n && atomic_load_explicit(&vanishing[i].base, memory_order_relaxed)) {
        i++;
    }
    if (i < MOST) {
        atomic_store_explicit(&vanishing[i].bytes, bytes, memory_order_relaxed);
        /* release: with its size; pairs with is_vanishing */
        atomic_store_explicit(&vanishing[i].base, (uintptr_t)base, memory_order_release);
        /* release: likewise */
        atomic_store_explicit(&used, i == n ? n + 1 : n, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return i < MOST;
}

void hd_fault_remove(const void *base) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MOST; i++) {
        /* relaxed, both: under the lock, and nobody works there any more */
        if (atomic_load_explicit(&vanishing[i].base, memory_order_relaxed) == (uintptr_t)base) {
            atomic_store_explicit(&vanishing[i].base, 0, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&lock);
}

static bool is_vanishing(uintptr_t at) {
    bool is = false;
    /* acquire, both: pair with hd_fault_add */
    uint32_t n = atomic_load_explicit(&used, memory_order_acquire);
    for (uint32_t i = 0; i < n && !is; i++) {
        uintptr_t base = atomic_load_explicit(&vanishing[i].base, memory_order_acquire);
        is = base && at - base < atomic_load_explicit(&vanishing[i].bytes, memory_order_relaxed);
    }
    return is;
}

/* As if there were no handler of ours. */
static void pass_on(int number, siginfo_t *info, void *context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else if (before.sa_handler == SIG_DFL || info->si_code > 0) { /* a fault is not ignored */
        struct sigaction end = {.sa_handler = SIG_DFL};
        sigaction(number, &end, NULL);
        if (info->si_code <= 0) { /* sent by somebody: a fault comes again by itself */
            raise(number);
        }
    }
}

static void take(int number, siginfo_t *info, void *context) {
    sigjmp_buf *out = way_out;
    /* Not where memory is broken (BUS_MCEERR_AR): that page is lost, whosever it is. */
    if (!out || info->si_code != BUS_ADRERR || !is_vanishing((uintptr_t)info->si_addr)) {
        pass_on(number, info, context);
        return;
    }
    way_out = NULL;
    siglongjmp(*out, 1);
}

static void install(void) {
    struct sigaction mine = {.sa_sigaction = take,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};
    Dl_info module; /* which stays, as the handler does; a program itself needs no keeping */
    if (dladdr((void *)take, &module) && module.dli_fname) {
        (void)dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
    sigemptyset(&mine.sa_mask);
    installed = sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &mine, NULL) == 0;
}

bool hd_fault_install(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    return installed && hd_fault_catches();
}

bool hd_fault_catches(void) {
    struct sigaction now;
    return sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == take;
}

void hd_fault_enter(sigset_t *mask) {
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &fault, mask);
}

void hd_fault_leave(const sigset_t *mask) {
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* A function of its own: nothing of its caller's lives in registers that a jump would restore. */
__attribute__((noinline)) bool hd_fault_run(void (*work)(void *arg), void *arg) {
    sigjmp_buf out;
    if (sigsetjmp(out, 0)) {
        return false;
    }
    way_out = &out;
    /* both: the handler, on this thread, must find work between them */
    atomic_signal_fence(memory_order_seq_cst);
    work(arg);
    atomic_signal_fence(memory_order_seq_cst);
    way_out = NULL;
    return true;
}
