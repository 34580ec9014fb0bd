/* context.c: what contexts that were created by one out-of-band exchange know of each other: how many
 * they are, whether they live in one process, and an object by which teams over them meet.
 *
 * The exchange carries process identities and, from rank 0, the address of the shared object, which
 * holds one reference per rank. Identity tells processes apart after a fork, too.
 */
#include "team/team.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct hd_context_group {
    _Atomic uint32_t refs;
    uint32_t n;
    uint64_t serial;
    bool spans_processes;
};

typedef struct record {
    uint64_t process[2];
    uint64_t object;
} record_t;

static pthread_mutex_t identity_lock = PTHREAD_MUTEX_INITIALIZER;
static bool identity_drawn;

/* In the child of a fork: it is another process, whatever its pid, and alone. */
static void forget_identity(void) {
    identity_drawn = false;
    pthread_mutex_init(&identity_lock, NULL);
}

void hd_process_identity(uint64_t identity[2]) {
    static uint64_t drawn[2];
    static bool watched;
    pthread_mutex_lock(&identity_lock);
    if (!watched) {
        watched = pthread_atfork(NULL, NULL, forget_identity) == 0;
    }
    if (!identity_drawn) {
        if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) {
            struct timespec t;
            clock_gettime(CLOCK_REALTIME, &t);
            drawn[0] = (uint64_t)t.tv_sec ^ (uint64_t)t.tv_nsec << 32;
            drawn[1] = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&t;
        }
        identity_drawn = true;
    }
    identity[0] = drawn[0];
    identity[1] = drawn[1];
    pthread_mutex_unlock(&identity_lock);
}

static hd_context_group_t *make_group(uint32_t n) {
    hd_context_group_t *group = hd_alloc(HD_LINE, sizeof(*group));
    if (group) {
        atomic_store_explicit(&group->refs, n, memory_order_relaxed); /* not shared yet */
        group->n = n;
        group->serial = hd_serial();
    }
    return group;
}

static void release_group(hd_context_group_t *group) {
    /* acq_rel: all are done with it before it goes */
    if (group && atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) == 1) {
        hd_free(group);
    }
}

static ucc_status_t exchange(const ucc_oob_coll_t *oob, record_t *mine, record_t *all) {
    void *request = NULL;
    ucc_status_t status = oob->allgather(mine, all, sizeof(*mine), oob->coll_info, &request);
    if (status < 0) {
        return status;
    }
    while ((status = oob->req_test(request)) == UCC_INPROGRESS) {
        sched_yield(); /* blocking by contract; the others may need the processor */
    }
    ucc_status_t freed = oob->req_free(request);
    return status < 0 ? status : freed;
}

ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob) {
    uint32_t n = oob->n_oob_eps;
    context->rank = oob->oob_ep;
    if (n == 1) {
        context->peers = make_group(1);
        return context->peers ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    record_t mine = {{0}, 0}, *all = hd_alloc(HD_LINE, n * sizeof(*all));
    hd_context_group_t *made = oob->oob_ep == 0 ? make_group(n) : NULL;
    if (!all || (oob->oob_ep == 0 && !made)) {
        hd_free(all);
        hd_free(made);
        hd_error("no memory for an exchange among %u contexts", n);
        return UCC_ERR_NO_MEMORY;
    }
    hd_process_identity(mine.process);
    mine.object = (uint64_t)(uintptr_t)made;
    ucc_status_t status = exchange(oob, &mine, all);
    if (status < 0) {
        hd_error("oob allgather of the context failed: %s", ucc_status_string(status));
        hd_free(all);
        hd_free(made);
        return status;
    }
    bool one_process = true;
    for (uint32_t i = 0; i < n; i++) {
        one_process = one_process && !memcmp(all[i].process, mine.process, sizeof(mine.process));
    }
    if (one_process) {
        context->peers = (hd_context_group_t *)(uintptr_t)all[0].object;
    } else {
        hd_free(made);
        context->peers = make_group(1);
        if (context->peers) {
            context->peers->n = n;
            context->peers->spans_processes = true;
        }
    }
    hd_free(all);
    return context->peers ? UCC_OK : UCC_ERR_NO_MEMORY;
}

void hd_context_part(ucc_context_h context) {
    release_group(context->peers);
    context->peers = NULL;
}

uint32_t hd_context_world(ucc_context_h context) {
    return context->peers ? context->peers->n : 0;
}

bool hd_context_spans_processes(ucc_context_h context) {
    return context->peers && context->peers->spans_processes;
}

uint64_t hd_context_serial(ucc_context_h context) {
    return context->peers->serial;
}
