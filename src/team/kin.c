/* kin.c: what contexts that were created by one out-of-band exchange know of each other: how many
 * they are, whether they live in one process, and a number by which teams over them meet.
 *
 * The exchange carries process identities and serial numbers, of which all take rank 0's: nothing that
 * could be gone when the others hear of it. Identity tells processes apart after a fork, too.
 */
#include "team/team.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct record {
    uint64_t process[2];
    uint64_t serial;
} record_t;

static pthread_mutex_t identity_lock = PTHREAD_MUTEX_INITIALIZER;

void hd_process_identity(uint64_t identity[2]) {
    static uint64_t drawn[2];
    static uint32_t forks; /* the child of a fork is another process, whatever its pid */
    static bool is_drawn;
    hd_fork_guard(&identity_lock);
    pthread_mutex_lock(&identity_lock);
    if (!is_drawn || forks != hd_forks()) {
        if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) {
            struct timespec t;
            clock_gettime(CLOCK_REALTIME, &t);
            drawn[0] = (uint64_t)t.tv_sec ^ (uint64_t)t.tv_nsec << 32;
            drawn[1] = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&t;
        }
        is_drawn = true;
        forks = hd_forks();
    }
    identity[0] = drawn[0];
    identity[1] = drawn[1];
    pthread_mutex_unlock(&identity_lock);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text; text++) {
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    }
    return hash;
}

uint64_t hd_host_identity(void) {
    static _Atomic uint64_t known;
    /* relaxed: who finds none works out the same */
    uint64_t identity = atomic_load_explicit(&known, memory_order_relaxed);
    if (identity) {
        return identity;
    }
    char text[256] = "";
    identity = 0xcbf29ce484222325u;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fgets(text, sizeof(text), file)) {
            identity = hash_text(identity, text);
        }
        fclose(file);
    }
    if (gethostname(text, sizeof(text) - 1) == 0) { /* containers of one host have their own */
        identity = hash_text(identity, text);
    }
    identity |= 1; /* 0: not known yet */
    atomic_store_explicit(&known, identity, memory_order_relaxed);
    return identity;
}

static ucc_status_t exchange(ucc_context_h context, const ucc_oob_coll_t *oob, record_t *mine,
                             record_t *all) {
    void *request = NULL;
    hd_stall_t stall = {0};
    ucc_status_t status = oob->allgather(mine, all, sizeof(*mine), oob->coll_info, &request);
    if (status < 0) {
        return status;
    }
    while ((status = oob->req_test(request)) == UCC_INPROGRESS) {
        uint64_t now = hd_ticks();
        if (hd_stall_is_due(&stall, now, context->lib->stall)) {
            hd_stall_line(
                "context %u of %u has waited %.1f s for its out-of-band allgather, which not "
                "all may have called",
                oob->oob_ep, oob->n_oob_eps, hd_stall_seconds(&stall, now));
        }
        sched_yield(); /* blocking by contract; the others may need the processor */
    }
    ucc_status_t freed = oob->req_free(request);
    return status < 0 ? status : freed;
}

static bool is_same(const record_t *a, const record_t *b) {
    return a->serial == b->serial && memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced) {
    uint32_t n = oob->n_oob_eps, places = 0;
    context->rank = unplaced ? 0 : oob->oob_ep;
    context->peers.n = n;
    record_t mine = {.serial = hd_serial()};
    if (n == 1) {
        context->peers.serial = mine.serial;
        return UCC_OK;
    }
    record_t *all = hd_alloc(HD_LINE, n * sizeof(*all));
    if (!all) {
        hd_error("no memory for an exchange among %u contexts", n);
        return UCC_ERR_NO_MEMORY;
    }
    hd_process_identity(mine.process);
    ucc_status_t status = exchange(context, oob, &mine, all);
    if (status < 0) {
        hd_error("oob allgather of the context failed: %s", ucc_status_string(status));
        hd_free(all);
        return status;
    }
    context->peers.serial = all[0].serial;
    for (uint32_t i = 0; i < n; i++) {
        if (memcmp(all[i].process, mine.process, sizeof(mine.process)) != 0) {
            context->peers.spans_processes = true;
        }
        if (unplaced && is_same(&all[i], &mine)) {
            context->rank = i;
            places++;
        }
    }
    hd_free(all);
    if (unplaced && places != 1) {
        hd_error("oob allgather of the context: the caller's own record is there %u times", places);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}
