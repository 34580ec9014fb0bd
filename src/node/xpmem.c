/* xpmem.c: see xpmem.h. The library's functions, types and constants are those of its <xpmem.h>,
 * which need not be there when this is compiled.
 */
#include "node/xpmem.h"

#include "core/fault.h"
#include "core/fork.h"
#include "core/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

enum { READ_WRITE = 2, BY_MODE = 1, MODE = 0600 };
/* From this version of the module on (2.6), attachments follow what their owner maps. */
enum { LEAST_VERSION = 0x26000 };
/* Addresses of programs have so many bits; the last page of those may not be attachable. */
enum { ADDRESS_BITS = 48, LAST_BITS = 47, LAST_PAGE = 64 * 1024 };
enum { BLOCK_BITS = ADDRESS_BITS - HD_XPMEM_SHIFT }; /* of a block's number */

typedef struct address {
    int64_t permit;
    off_t offset;
} address_t;

/* Under the lock, but for the functions, which are constant once it is open. */
static struct {
    pthread_mutex_t lock;
    bool loaded, asked;
    uint32_t forks; /* hd_forks() when it was asked */
    const char *why;
    int64_t segid;
    uint64_t nonce; /* the module gives another process with this one's pid the same segid */
    int (*version)(void);
    int64_t (*make)(void *, size_t, int, void *);
    int64_t (*get)(int64_t, int, int, void *);
    int (*release)(int64_t);
    void *(*attach)(address_t, size_t, void *);
    int (*detach)(void *);
} xpmem = {.lock = PTHREAD_MUTEX_INITIALIZER};

#ifdef HD_TEST
const char *hd_xpmem_library = "libxpmem.so.0", *hd_xpmem_device = "/dev/xpmem";
#else
static const char *const hd_xpmem_library = "libxpmem.so.0", *const hd_xpmem_device = "/dev/xpmem";
#endif

static const char *load(void) {
    if (access(hd_xpmem_device, R_OK | W_OK) != 0) {
        return "there is no /dev/xpmem for this process";
    }
    void *library = dlopen(hd_xpmem_library, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return "libxpmem.so.0 can't be loaded";
    }
    *(void **)&xpmem.version = dlsym(library, "xpmem_version");
    *(void **)&xpmem.make = dlsym(library, "xpmem_make");
    *(void **)&xpmem.get = dlsym(library, "xpmem_get");
    *(void **)&xpmem.release = dlsym(library, "xpmem_release");
    *(void **)&xpmem.attach = dlsym(library, "xpmem_attach");
    *(void **)&xpmem.detach = dlsym(library, "xpmem_detach");
    if (!xpmem.version || !xpmem.make || !xpmem.get || !xpmem.release || !xpmem.attach ||
        !xpmem.detach) {
        return "libxpmem.so.0 is not what it should be";
    }
    xpmem.loaded = true;
    return NULL;
}

/* Under the lock. */
static const char *make(void) {
    const char *why = xpmem.loaded ? NULL : load();
    if (why) {
        return why;
    }
    if (xpmem.version() < LEAST_VERSION) {
        return "XPMEM's version is before 2.6, or unknown";
    }
    if (getrandom(&xpmem.nonce, sizeof(xpmem.nonce), 0) != sizeof(xpmem.nonce)) {
        return "there are no random numbers";
    }
    xpmem.segid = xpmem.make(NULL, SIZE_MAX, BY_MODE, (void *)(intptr_t)MODE);
    return xpmem.segid > 0 ? NULL : "XPMEM refuses this process's memory";
}

static void guard(void) {
    hd_fork_guard(&xpmem.lock);
}

const char *hd_xpmem_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard);
    pthread_mutex_lock(&xpmem.lock);
    bool asks = !xpmem.asked || xpmem.forks != hd_forks();
    if (asks) {
        xpmem.why = make();
        xpmem.asked = true;
        xpmem.forks = hd_forks();
    }
    const char *why = xpmem.why;
    pthread_mutex_unlock(&xpmem.lock);
    if (asks) {
        hd_debug("XPMEM: %s", why ? why : "other processes can attach this one");
    }
    return why;
}

size_t hd_xpmem_bytes(uint64_t block) {
    const uint64_t last = (UINT64_C(1) << LAST_BITS >> HD_XPMEM_SHIFT) - 1;
    size_t bytes = (size_t)1 << HD_XPMEM_SHIFT;
    return block >> BLOCK_BITS ? 0 : block == last ? bytes - LAST_PAGE : bytes;
}

void hd_xpmem_name(uint64_t block, uint64_t name[2]) {
    name[0] = (uint64_t)xpmem.segid; /* constant since it is open, as the nonce is */
    name[1] = xpmem.nonce << BLOCK_BITS | block;
}

const char *hd_xpmem_attach(const uint64_t name[2], size_t bytes, hd_xpmem_t *attached) {
    const char *why = hd_xpmem_open();
    if (why) {
        return why;
    }
    uint64_t block = name[1] & ((UINT64_C(1) << BLOCK_BITS) - 1);
    if (name[0] == 0 || name[0] > INT64_MAX || bytes != hd_xpmem_bytes(block)) {
        return "it is no memory of a process";
    }
    if (!hd_fault_install()) {
        return "the program has SIGBUS for itself";
    }
    address_t at = {.permit = xpmem.get((int64_t)name[0], READ_WRITE, BY_MODE, NULL),
                    .offset = (off_t)(block << HD_XPMEM_SHIFT)};
    if (at.permit <= 0) {
        return "XPMEM does not let this process have it";
    }
    void *base = xpmem.attach(at, bytes, NULL);
    if (base == (void *)-1 || !base) {
        xpmem.release(at.permit);
        return "it can't be attached";
    }
    *attached = (hd_xpmem_t){.base = base, .permit = at.permit};
    if (!hd_fault_add(base, bytes)) {
        xpmem.detach(base);
        xpmem.release(at.permit);
        return "too much is attached";
    }
    return NULL;
}

void hd_xpmem_detach(const hd_xpmem_t *attached) {
    hd_fault_remove(attached->base);
    xpmem.detach(attached->base);
    xpmem.release(attached->permit);
}
