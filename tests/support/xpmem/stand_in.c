/* stand_in.c: a library that stands for libxpmem.so.0 where the kernel has no XPMEM. What is
 * attached is mapped here when it is first touched, as there; but only memory that its owner has
 * mapped shared, from a file of which it has a descriptor (a memfd, for one). All else is a SIGBUS,
 * and so is all that belonged to a process that has ended, which a thread waits for.
 *
 * It does not hear of what an owner unmaps: stand_in_forget() does that for the caller.
 *
 * The environment says in STAND_IN what does not work: "make", "get", "attach", "version", once the
 * library has been loaded.
 */
#include "stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 64, FILES = 1024, VERSION = 0x26005, OLD_VERSION = 0x25000 };

typedef struct address {
    int64_t apid;
    off_t offset;
} address_t;

typedef struct attachment {
    uint8_t *base; /* NULL: not used */
    size_t bytes;
    pid_t owner;
    uint64_t at; /* in its owner */
    bool vanished;
} attachment_t;

static attachment_t attachments[MOST];
static atomic_flag busy = ATOMIC_FLAG_INIT; /* a lock that a handler may take: see lock() */
static struct sigaction before;

int xpmem_version(void);
int64_t xpmem_make(void *, size_t, int, void *);
int xpmem_remove(int64_t);
int64_t xpmem_get(int64_t, int, int, void *);
int xpmem_release(int64_t);
void *xpmem_attach(address_t, size_t, void *);
int xpmem_detach(void *);

/* Nothing under it touches what is attached. */
static void lock(void) {
    while (atomic_flag_test_and_set(&busy)) {
        sched_yield();
    }
}

static void unlock(void) {
    atomic_flag_clear(&busy);
}

static bool fails(const char *what) {
    const char *list = getenv("STAND_IN");
    return list && strstr(list, what);
}

/* --- faults ----------------------------------------------------------------------------------- */

typedef struct line {
    uint64_t first, end, offset, inode;
    dev_t device;
    bool shared;
} line_t;

/* The owner's mapping of that address; false: there is none that others could have. */
static bool find(pid_t owner, uint64_t at, line_t *line) {
    static char text[1 << 16]; /* under the lock */
    char path[64], mode[5];
    unsigned major, minor;
    snprintf(path, sizeof(path), "/proc/%d/maps", owner);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got;
    bool found = false;
    while (fd >= 0 && (got = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        char *next = text, *end;
        for (; !found && (end = strchr(next, '\n')); next = end + 1) {
            found = sscanf(next, "%lx-%lx %4s %lx %x:%x %lu", &line->first, &line->end, mode,
                           &line->offset, &major, &minor, &line->inode) == 7 &&
                    at >= line->first && at < line->end;
        }
        used -= (size_t)(next - text);
        memmove(text, next, used);
    }
    if (fd >= 0) {
        close(fd);
    }
    line->device = found ? makedev(major, minor) : 0;
    line->shared = found && mode[3] == 's' && mode[1] == 'w';
    return found;
}

/* The file that the mapping is of, by one of its owner's descriptors. */
static int open_file(pid_t owner, const line_t *line) {
    for (int i = 0; i < FILES; i++) {
        char path[64];
        struct stat is;
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", owner, i);
        if (stat(path, &is) == 0 && is.st_ino == line->inode && is.st_dev == line->device) {
            return open(path, O_RDWR | O_CLOEXEC);
        }
    }
    return -1;
}

/* Under the lock. */
static bool fill(const attachment_t *a, const uint8_t *touched) {
    line_t line;
    uint64_t at = a->at + (uint64_t)(touched - a->base), end = a->at + a->bytes;
    if (a->vanished || !find(a->owner, at, &line) || !line.shared) {
        return false;
    }
    int fd = open_file(a->owner, &line);
    uint64_t first = line.first > a->at ? line.first : a->at;
    end = line.end < end ? line.end : end;
    void *got = fd < 0
                    ? MAP_FAILED
                    : mmap(a->base + (first - a->at), end - first, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED, fd, (off_t)(line.offset + first - line.first));
    if (fd >= 0) {
        close(fd);
    }
    return got != MAP_FAILED;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const uint8_t *touched = info->si_addr;
    bool ours = false, filled = false;
    int error = errno;
    lock();
    for (uint32_t i = 0; i < MOST && !ours; i++) {
        const attachment_t *a = &attachments[i];
        ours = a->base && touched >= a->base && touched < a->base + a->bytes;
        filled = ours && fill(a, touched);
    }
    unlock();
    errno = error;
    if (!ours && before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (!ours) {
        signal(number, SIG_DFL); /* it comes again */
    } else if (!filled) {
        siginfo_t gone = {.si_signo = SIGBUS, .si_code = BUS_ADRERR};
        gone.si_addr = info->si_addr;
        syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &gone);
    }
}

static void begin(void) {
    struct sigaction mine = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &mine, &before);
}

/* --- the library ------------------------------------------------------------------------------ */

int xpmem_version(void) {
    return fails("version") ? OLD_VERSION : VERSION;
}

int64_t xpmem_make(void *at, size_t bytes, int by, void *mode) {
    static _Atomic int64_t made;
    if (fails("make") || at || bytes != SIZE_MAX || by != 1 || mode != (void *)0600) {
        return -1;
    }
    return (atomic_fetch_add(&made, 1) + 1) << 32 | getpid();
}

int xpmem_remove(int64_t segid) {
    return (pid_t)segid == getpid() ? 0 : -1;
}

int64_t xpmem_get(int64_t segid, int flags, int by, void *mode) {
    bool right = flags == 2 && by == 1 && !mode && segid >> 32 > 0;
    return fails("get") || !right || kill((pid_t)segid, 0) != 0 ? -1 : segid;
}

int xpmem_release(int64_t apid) {
    (void)apid;
    return 0;
}

/* Under the lock. */
static void empty(attachment_t *a, bool vanishes) {
    mmap(a->base, a->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    madvise(a->base, a->bytes, MADV_DONTFORK);
    a->vanished = vanishes;
}

static void *wait_for_end(void *arg) {
    pid_t owner = (pid_t)(intptr_t)arg;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, owner, 0), .events = POLLIN};
    while (end.fd >= 0 && poll(&end, 1, -1) < 0) {
    }
    lock();
    for (uint32_t i = 0; i < MOST; i++) {
        if (attachments[i].base && attachments[i].owner == owner) {
            empty(&attachments[i], true);
        }
    }
    unlock();
    if (end.fd >= 0) {
        close(end.fd);
    }
    return NULL;
}

static void watch(pid_t owner) {
    pthread_t thread;
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    if (pthread_create(&thread, NULL, wait_for_end, (void *)(intptr_t)owner) == 0) {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void *xpmem_attach(address_t at, size_t bytes, void *where) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *base = MAP_FAILED;
    pthread_once(&once, begin);
    if ((pid_t)at.apid != getpid()) {
        watch((pid_t)at.apid);
    }
    lock();
    for (uint32_t i = 0; i < MOST && !where && !fails("attach"); i++) {
        if (!attachments[i].base) {
            base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (base != MAP_FAILED) {
                madvise(base, bytes, MADV_DONTFORK);
                attachments[i] =
                    (attachment_t){base, bytes, (pid_t)at.apid, (uint64_t)at.offset, false};
            }
            break;
        }
    }
    unlock();
    return base;
}

int xpmem_detach(void *base) {
    int status = -1;
    lock();
    for (uint32_t i = 0; i < MOST; i++) {
        if (attachments[i].base == base) {
            status = munmap(base, attachments[i].bytes);
            attachments[i].base = NULL;
        }
    }
    unlock();
    return status;
}

/* --- for tests -------------------------------------------------------------------------------- */

uint32_t stand_in_forget(bool vanishes) {
    uint32_t n = 0;
    lock();
    for (uint32_t i = 0; i < MOST; i++) {
        if (attachments[i].base) {
            empty(&attachments[i], vanishes);
            n++;
        }
    }
    unlock();
    return n;
}
