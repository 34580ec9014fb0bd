/* context_group.c: what contexts that were created by one out-of-band exchange know of each other:
 * how many they are, in which processes they live, and a number by which teams over them meet.
 * ucc_context_create calls hd_context_meet, which blocks; what it learns is in context->peers.
 *
 * The exchange carries process identities and serial numbers; all contexts take rank 0's. These are
 * plain numbers, so nothing in them can be gone when the others read it. Identities tell a process
 * from its child after a fork, too.
 *
 * If the contexts live in several processes, more exchanges tell how each process is reached
 * (roll.h), so that teams over these contexts need no exchange. A process keeps that once for all
 * its contexts of the exchange (context_group.h).
 */
#include "form/internal.h"
#include "form/context_group.h"

#include "core/hash.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct record {
    uint64_t process[2];
    uint64_t serial;
    int32_t trouble; /* UCC_OK, or why this context can't be created: then none is, anywhere */
    uint32_t by_id;  /* 1: teams have to be told apart by their ids */
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
    /* relaxed: a thread that finds none works out the same */
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
    /* containers of one host have names of their own */
    if (gethostname(text, sizeof(text) - 1) == 0) {
        identity = hash_text(identity, text);
    }
    identity |= 1; /* 0: not known yet */
    atomic_store_explicit(&known, identity, memory_order_relaxed);
    return identity;
}

static ucc_status_t exchange(ucc_context_h context, const ucc_oob_coll_t *oob, void *mine,
                             void *all, size_t bytes) {
    return hd_roll_exchange(oob, "context", context->lib->stall, mine, all, bytes);
}

/* --- contexts in several processes ------------------------------------------------------------ */

static pthread_mutex_t groups_lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards all_groups, and all refs */
static hd_context_group_t *all_groups;

static void free_group(hd_context_group_t *group) {
    /* a forked child does not share its parent's references */
    if (group->net && group->forks == hd_forks()) {
        hd_net_close(group->net);
    }
    hd_free(group->process);
    hd_free(group->span);
    hd_free(group);
}

void hd_context_part(ucc_context_h context) {
    hd_context_group_t *group = context->peers.group;
    hd_ordinals_end(&context->peers.lists);
    if (!group) {
        return;
    }
    context->peers.group = NULL;
    pthread_mutex_lock(&groups_lock);
    hd_assert_lt(0, group->refs);
    bool last = --group->refs == 0;
    for (hd_context_group_t **at = &all_groups; last && *at; at = &(*at)->next) {
        if (*at == group) {
            *at = group->next;
            break;
        }
    }
    pthread_mutex_unlock(&groups_lock);
    if (last) {
        free_group(group);
    }
}

/* Returns the group that another context of the exchange in this process has made, or `mine` if
 * there is none, with a reference. Frees `mine` if it is not needed. */
static hd_context_group_t *share(hd_context_group_t *mine) {
    hd_fork_guard(&groups_lock);
    pthread_mutex_lock(&groups_lock);
    hd_context_group_t *group = all_groups;
    while (group && (group->serial != mine->serial || group->forks != mine->forks)) {
        group = group->next;
    }
    if (!group) {
        mine->next = all_groups;
        all_groups = group = mine;
    }
    group->refs++;
    pthread_mutex_unlock(&groups_lock);
    if (group != mine) {
        free_group(mine);
    }
    return group;
}

/* Exchanges accounts until all have room for all addresses, or one is in trouble. */
static ucc_status_t settle_accounts(ucc_context_h context, const ucc_oob_coll_t *oob,
                                    hd_roll_t *roll, uint32_t *number) {
    ucc_status_t status;
    *number = context->rank;
    do {
        status = exchange(context, oob, &roll->mine, roll->told, sizeof(roll->mine));
        if (status != UCC_OK) {
            return status;
        }
        status = hd_roll_heard(roll, number);
    } while (status == UCC_INPROGRESS);
    return status;
}

/* Calls the roll; all contexts of the exchange do so together. Moves what it says into `group`. If
 * there is no network, the contexts are good for teams inside their processes. */
static ucc_status_t call_roll(ucc_context_h context, const ucc_oob_coll_t *oob, hd_roll_t *roll,
                              hd_context_group_t *group) {
    uint32_t number;
    while (hd_roll_open(roll, context->lib->config) == UCC_INPROGRESS) {
        sched_yield(); /* another thread is opening the network */
    }
    ucc_status_t status = settle_accounts(context, oob, roll, &number);
    if (status == UCC_ERR_NOT_SUPPORTED && roll->span) {
        hd_info("contexts in %u processes, without a network: no team of theirs can span processes",
                roll->span->processes);
        status = group ? UCC_OK : UCC_ERR_NO_MEMORY;
    } else if (status != UCC_OK) {
        hd_error("oob allgather: context %u of %u can't take part: %s", number, oob->n_oob_eps,
                 ucc_status_string(status));
    } else {
        status = exchange(context, oob, roll->my_slice, roll->slices, roll->slice);
        if (status == UCC_OK) {
            group->process = hd_roll_processes(roll);
            group->net = roll->net;
            roll->net = NULL;
        }
    }
    if (status == UCC_OK) {
        group->span = roll->span;
        roll->span = NULL;
    }
    return status;
}

/* The contexts live in several processes: calls the roll, and sets context->peers.group. trouble:
 * why this context can't go on, of which the others hear. */
static ucc_status_t meet_processes(ucc_context_h context, const ucc_oob_coll_t *oob,
                                   const record_t *all, hd_account_t *told, ucc_status_t trouble) {
    uint32_t n = oob->n_oob_eps;
    hd_roll_t roll = {.told = told};
    hd_called_t *called = hd_alloc(HD_LINE, n * sizeof(*called));
    hd_context_group_t *group = hd_alloc(HD_LINE, sizeof(*group));
    for (uint32_t i = 0; called && i < n; i++) {
        called[i] = (hd_called_t){{all[i].process[0], all[i].process[1]}, i, i};
    }
    /* rank 0's serial number is unique in its process only: the hash is one for all processes */
    uint64_t serial = hd_hash_mix(hd_hash_mix(1, all[0].process[0]), all[0].process[1]);
    serial = hd_hash_mix(serial, all[0].serial);
    context->peers.serial = serial;
    hd_roll_take(&roll, called, n, context->rank);
    if (!group) {
        hd_error("no memory for an exchange among %u contexts", n);
        roll.trouble = UCC_ERR_NO_MEMORY;
    } else {
        group->serial = serial;
        group->forks = hd_forks();
    }
    roll.trouble = trouble == UCC_OK ? roll.trouble : trouble;
    ucc_status_t status = call_roll(context, oob, &roll, group);
    if (status == UCC_OK) {
        context->peers.group = share(group);
    } else if (group) {
        free_group(group);
    }
    hd_free(called);
    hd_roll_end(&roll);
    return status;
}

/* --- contexts --------------------------------------------------------------------------------- */

static bool is_same(const record_t *a, const record_t *b) {
    return a->serial == b->serial && memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

/* Reads the records of the first exchange, and goes on to the others if there are several
 * processes. */
static ucc_status_t read_records(ucc_context_h context, const ucc_oob_coll_t *oob,
                                 const record_t *mine, const record_t *all, hd_account_t *told,
                                 bool unplaced) {
    bool spans_processes = false;
    uint32_t places = 0;
    ucc_status_t status = UCC_OK;
    context->peers.serial = all[0].serial;
    for (uint32_t i = 0; i < oob->n_oob_eps; i++) {
        if (all[i].trouble != UCC_OK) {
            status = all[i].trouble < 0 ? (ucc_status_t)all[i].trouble : UCC_ERR_INVALID_PARAM;
            hd_error("oob allgather: context %u of %u can't be created: %s", i, oob->n_oob_eps,
                     ucc_status_string(status));
            return status;
        }
        context->peers.by_id |= all[i].by_id != 0;
        if (memcmp(all[i].process, mine->process, sizeof(mine->process)) != 0) {
            spans_processes = true;
        }
        if (unplaced && is_same(&all[i], mine)) {
            context->rank = i;
            places++;
        }
    }
    if (unplaced && places != 1) {
        hd_error("oob allgather of the context: the caller's own record is there %u times", places);
        status = UCC_ERR_INVALID_PARAM;
    }
    return spans_processes ? meet_processes(context, oob, all, told, status) : status;
}

/* Returns whether different processes may make teams of the same members in different orders. */
static bool needs_ids(const ucc_lib_h lib) {
    int choice = hd_config_choice(lib->config, HD_CFG_LIB_TEAM_IDS);
    return choice == HD_CFG_TEAM_IDS_ALWAYS ||
           (choice == HD_CFG_TEAM_IDS_AUTO && lib->params.thread_mode == UCC_THREAD_MULTIPLE);
}

ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced) {
    uint32_t n = oob->n_oob_eps;
    context->rank = unplaced ? 0 : oob->oob_ep;
    context->peers.n = n;
    record_t mine = {.serial = hd_serial(), .by_id = needs_ids(context->lib)};
    if (n == 1) {
        context->peers.serial = mine.serial;
        return UCC_OK;
    }
    record_t *all = hd_alloc(HD_LINE, n * (sizeof(*all) + sizeof(hd_account_t)));
    if (!all) {
        hd_error("no memory for an exchange among %u contexts", n);
        hd_context_refuse(oob, context->lib->stall, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    hd_process_identity(mine.process);
    ucc_status_t status = exchange(context, oob, &mine, all, sizeof(mine));
    if (status == UCC_OK) {
        status =
            read_records(context, oob, &mine, all, (hd_account_t *)(void *)(all + n), unplaced);
    }
    hd_free(all);
    return status;
}

/* --- contexts that can't be created ----------------------------------------------------------- */

void hd_context_refuse(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why) {
    record_t mine = {.trouble = (int32_t)why};
    hd_process_identity(mine.process);
    hd_roll_refuse(oob, "context", stall, &mine, sizeof(mine));
}
