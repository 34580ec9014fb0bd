/* kin.c: see kin.h. A kin belongs to those who form its team, who drop it, and to the group, once
 * it is found: whoever is last frees it.
 */
#include "form/kin.h"

#include "form/form.h"
#include "node/node.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct hd_kin {
    hd_outer_memory_t memory; /* what hangs on the group; must stay first */
    _Atomic uint32_t refs;
    pthread_mutex_t lock; /* guards what follows, while the group is not there */
    ucc_status_t status; /* UCC_INPROGRESS, or how it has ended */
    hd_node_t *node;
    hd_node_offer_t *offer; /* of the leader */
    hd_node_fetch_t *fetch; /* of the others */
    hd_group_config_t config;
    bool found;
    /* constant once the group is there */
    hd_group_t *group;
    hd_span_t *span;
    hd_node_peer_t **peer; /* by process; NULL: this one */
    /* of the watch, under its lock */
    bool *gone;      /* by process: its end has been seen */
    hd_kin_t *next, **at; /* at is NULL: it is not watched */
};

_Static_assert(offsetof(hd_kin_t, memory) == 0, "what hangs on the group is known as the kin");

/* --- doors ------------------------------------------------------------------------------------ */

static void name_door(uint64_t door[2], const uint64_t identity[2], uint32_t number) {
    door[0] = identity[0];
    door[1] = identity[1] + number;
}

ucc_status_t hd_kin_open_door(hd_node_t **door, uint32_t *number) {
    static _Atomic uint32_t doors; /* relaxed: a count; another name for each door */
    uint64_t identity[2], name[2];
    uint32_t next;
    while ((next = atomic_fetch_add_explicit(&doors, 1, memory_order_relaxed) + 1) == 0) {
    }
    hd_process_identity(identity);
    name_door(name, identity, next);
    ucc_status_t status = hd_node_enter(hd_group_layout(), name, door);
    if (status == UCC_OK) {
        *number = (uint32_t)(hd_node_address(*door)->door[1] - identity[1]);
    }
    return status;
}

void hd_kin_close_door(hd_node_t *door) {
    hd_node_leave(door);
}

/* --- the watch -------------------------------------------------------------------------------- */

/* The thread is there while something is watched. */
static struct {
    pthread_mutex_t starting; /* guards `watched` and the thread's life */
    uint32_t watched;
    pthread_t thread;
    int event; /* readable: it is to end */
    hd_node_t *node;
    pthread_mutex_t lock; /* guards the list, and what is said of processes that are gone */
    hd_kin_t *list;
    uint32_t losses; /* hd_node_losses at the last look */
    bool knows_forks;
    hd_fork_hook_t fork_hook;
} watch = {.starting = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The child of a fork has its parent's copies, and no such thread. */
static void inherited(hd_fork_hook_t *self) {
    (void)self;
    if (watch.watched) {
        close(watch.event);
    }
    for (hd_kin_t *kin = watch.list; kin; kin = kin->next) {
        kin->at = NULL;
    }
    pthread_mutex_init(&watch.starting, NULL);
    pthread_mutex_init(&watch.lock, NULL);
    watch.list = NULL;
    watch.watched = 0;
}

/* A process whose endpoints have all left may end. */
static bool has_left(const hd_kin_t *kin, uint32_t p) {
    bool left = true;
    for (uint32_t i = 0; left && i < hd_span_count(kin->span, p); i++) {
        left = hd_group_has_left(kin->group, hd_span_endpoint(kin->span, p, i));
    }
    return left;
}

/* Under the watch's lock. */
static void look_at(hd_kin_t *kin) {
    for (uint32_t p = 0; p < kin->span->processes; p++) {
        hd_node_state_t state = kin->peer[p] ? hd_node_peer_state(kin->peer[p]) : HD_NODE_DONE;
        if (state < HD_NODE_FIRST_FAILURE || kin->gone[p]) {
            continue;
        }
        kin->gone[p] = true;
        if (!has_left(kin, p)) {
            if (hd_group_poisoned(kin->group) == UCC_OK) {
                hd_error("team of %u: the process of endpoint %u, and %u more, %s", kin->span->n,
                         hd_span_endpoint(kin->span, p, 0), hd_span_count(kin->span, p) - 1,
                         hd_node_describe(state));
            }
            hd_group_poison(kin->group, UCC_ERR_IO_ERROR);
        }
    }
}

/* Lets the node do what it can, and tells the teams of those that are gone. */
static void progress(hd_node_t *node) {
    (void)hd_node_progress(node);
    uint32_t losses = hd_node_losses(node);
    pthread_mutex_lock(&watch.lock);
    if (losses != watch.losses) {
        watch.losses = losses;
        for (hd_kin_t *kin = watch.list; kin; kin = kin->next) {
            look_at(kin);
        }
    }
    pthread_mutex_unlock(&watch.lock);
}

static void *keep_watch(void *arg) {
    hd_node_t *node = arg;
    struct pollfd on[] = {{.fd = hd_node_fd(node), .events = POLLIN},
                          {.fd = watch.event, .events = POLLIN}};
    (void)pthread_setname_np(pthread_self(), "heddle-kin");
    for (;;) {
        int n = poll(on, 2, -1);
        if (n > 0 && on[1].revents) {
            return NULL;
        }
        if (n > 0) {
            progress(node);
        }
    }
}

/* Under watch.starting. */
static ucc_status_t start(hd_node_t *node) {
    if (!watch.knows_forks) {
        hd_fork_watch(&watch.fork_hook, inherited);
        watch.knows_forks = true;
    }
    watch.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch.event < 0) {
        return UCC_ERR_NO_RESOURCE;
    }
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&watch.thread, NULL, keep_watch, node);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        close(watch.event);
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

static ucc_status_t begin_watch(hd_kin_t *kin) {
    pthread_mutex_lock(&watch.starting);
    ucc_status_t status = watch.watched ? UCC_OK : start(kin->node);
    if (status == UCC_OK) {
        watch.watched++;
        pthread_mutex_lock(&watch.lock);
        kin->next = watch.list;
        kin->at = &watch.list;
        if (kin->next) {
            kin->next->at = &kin->next;
        }
        watch.list = kin;
        look_at(kin); /* what has been counted before is not looked at again */
        pthread_mutex_unlock(&watch.lock);
    }
    pthread_mutex_unlock(&watch.starting);
    return status;
}

static void end_watch(hd_kin_t *kin) {
    if (!kin->at) {
        return;
    }
    pthread_mutex_lock(&watch.starting);
    pthread_mutex_lock(&watch.lock);
    *kin->at = kin->next;
    if (kin->next) {
        kin->next->at = kin->at;
    }
    kin->at = NULL;
    pthread_mutex_unlock(&watch.lock);
    if (--watch.watched == 0) {
        uint64_t one = 1;
        ssize_t written = write(watch.event, &one, sizeof(one));
        hd_assert_eq(written, (ssize_t)sizeof(one));
        (void)written;
        pthread_join(watch.thread, NULL);
        close(watch.event);
    }
    pthread_mutex_unlock(&watch.starting);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void unref(hd_kin_t *kin) {
    /* acq_rel: what the holder of either reference did happens before the end */
    if (atomic_fetch_sub_explicit(&kin->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (uint32_t p = 0; kin->span && kin->peer && p < kin->span->processes; p++) {
        if (kin->peer[p]) {
            hd_node_part(kin->peer[p]);
        }
    }
    if (kin->node) {
        hd_node_leave(kin->node);
    }
    pthread_mutex_destroy(&kin->lock);
    hd_free(kin->span);
    hd_free((void *)kin->peer);
    hd_free(kin->gone);
    hd_free(kin);
}

static void group_ends(hd_outer_memory_t *memory) {
    end_watch((hd_kin_t *)(void *)memory);
}

static void group_has_ended(hd_outer_memory_t *memory) {
    unref((hd_kin_t *)(void *)memory);
}

/* Nobody comes to it any more: its descriptors are closed. */
static void end_sharing(hd_kin_t *kin) {
    if (kin->offer) {
        hd_node_offer_end(kin->offer);
    }
    if (kin->fetch) {
        hd_node_fetch_end(kin->fetch);
    }
    kin->offer = NULL;
    kin->fetch = NULL;
}

void hd_kin_drop(hd_kin_t *kin) {
    if (!kin) {
        return;
    }
    end_sharing(kin);
    if (kin->group && !kin->found) { /* nobody has joined it */
        end_watch(kin);
        hd_home_unpin(&kin->group->home);
    }
    unref(kin);
}

/* --- sharing ---------------------------------------------------------------------------------- */

/* Returns the address of a process, whose door is of this node. */
static hd_node_address_t address_of(const hd_kin_t *kin, const hd_kin_process_t *process) {
    hd_node_address_t address = *hd_node_address(kin->node);
    name_door(address.door, process->identity, process->door);
    address.pid = 0; /* not known */
    return address;
}

static ucc_status_t offer(hd_kin_t *kin, const hd_kin_params_t *params) {
    uint32_t others = kin->span->processes - 1;
    uint64_t(*door)[2] = hd_alloc(HD_LINE, others * sizeof(*door));
    kin->group = door ? hd_group_create(kin->span->n, &kin->config) : NULL;
    ucc_status_t status = kin->group ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint32_t p = 0; status == UCC_OK && p < others; p++) {
        name_door(door[p], params->process[p + 1].identity, params->process[p + 1].door);
    }
    if (status == UCC_OK) {
        hd_node_segment_t segment = hd_group_take_segment(kin->group);
        status = hd_node_offer(kin->node, params->name, &segment, (const uint64_t(*)[2])door,
                               others, &kin->offer);
        if (status != UCC_OK) {
            hd_segment_close(&segment);
        }
    }
    hd_free(door);
    return status;
}

static ucc_status_t meet(hd_kin_t *kin, const hd_kin_params_t *params) {
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; status == UCC_OK && p < kin->span->processes; p++) {
        hd_node_address_t address = address_of(kin, &params->process[p]);
        if (p != kin->span->mine) {
            status = hd_node_meet(kin->node, &address, p < kin->span->mine, &kin->peer[p]);
        }
    }
    return status;
}

static ucc_status_t begin(hd_kin_t *kin, const hd_kin_params_t *params) {
    uint32_t n = kin->span->processes, door;
    if (n > HD_FAR_MOST) {
        hd_info("%u processes are too many to share memory (at most %d)", n, HD_FAR_MOST);
        return UCC_ERR_NOT_SUPPORTED;
    }
    kin->config.mappings = 0;
    kin->config.processes = n;
    kin->config.apart = true;
    kin->config.pairs = false;
    ucc_status_t status = hd_kin_open_door(&kin->node, &door);
    status = status == UCC_OK ? meet(kin, params) : status;
    if (status == UCC_OK && kin->span->mine == 0) {
        status = offer(kin, params);
    } else if (status == UCC_OK) {
        hd_node_address_t leader = address_of(kin, &params->process[0]);
        status = hd_node_fetch(kin->node, &leader, params->name, &kin->fetch);
    }
    return status == UCC_OK ? UCC_INPROGRESS : status;
}

hd_kin_t *hd_kin_begin(const hd_kin_params_t *params) {
    const hd_span_t *span = params->span;
    hd_kin_t *kin = hd_alloc(HD_LINE, sizeof(*kin));
    if (!kin) {
        return NULL;
    }
    atomic_store_explicit(&kin->refs, 1, memory_order_relaxed); /* nobody else knows it */
    pthread_mutex_init(&kin->lock, NULL);
    kin->memory = (hd_outer_memory_t){.release = group_has_ended, .ends = group_ends};
    kin->config = *params->config;
    kin->span = hd_span_create(span->n, span->process_of, hd_span_endpoint(span, span->mine, 0));
    kin->peer = hd_alloc(HD_LINE, span->processes * sizeof(hd_node_peer_t *));
    kin->gone = hd_alloc(HD_LINE, span->processes * sizeof(*kin->gone));
    if (!kin->span || !kin->peer || !kin->gone) {
        unref(kin);
        return NULL;
    }
    kin->status = begin(kin, params);
    return kin;
}

/* Is each of the others connected to this process? */
static ucc_status_t connected(const hd_kin_t *kin) {
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; p < kin->span->processes; p++) {
        hd_node_state_t state = kin->peer[p] ? hd_node_peer_state(kin->peer[p]) : HD_NODE_DONE;
        if (state >= HD_NODE_FIRST_FAILURE) {
            hd_info("no memory is shared with the process of endpoint %u of %u, which %s",
                    hd_span_endpoint(kin->span, p, 0), kin->span->n, hd_node_describe(state));
            return hd_node_status(state);
        }
        status = state == HD_NODE_PENDING ? UCC_INPROGRESS : status;
    }
    return status;
}

static ucc_status_t fetch(hd_kin_t *kin) {
    hd_node_segment_t segment;
    ucc_status_t status = kin->group ? UCC_OK : hd_node_fetch_test(kin->fetch, &segment);
    if (kin->group || status == UCC_INPROGRESS) {
        return status;
    }
    if (status != UCC_OK) {
        hd_info("no memory is shared by a team of %u: its segment %s", kin->span->n,
                hd_node_describe(hd_node_fetch_state(kin->fetch)));
        return status;
    }
    kin->group = hd_group_of(&segment, kin->span->mine, &kin->config);
    hd_segment_close(&segment);
    return kin->group ? UCC_OK : UCC_ERR_NO_MEMORY;
}

ucc_status_t hd_kin_test(hd_kin_t *kin) {
    if (kin->node) {
        progress(kin->node);
    }
    pthread_mutex_lock(&kin->lock);
    if (kin->status == UCC_INPROGRESS) {
        ucc_status_t here = fetch(kin), there = here < 0 ? here : connected(kin);
        kin->status = there == UCC_OK ? here : there;
        if (kin->status == UCC_OK) {
            kin->status = begin_watch(kin);
        }
    }
    ucc_status_t status = kin->status;
    pthread_mutex_unlock(&kin->lock);
    return status;
}

hd_group_t *hd_kin_found(hd_kin_t *kin) {
    hd_assert(kin->status == UCC_OK && !kin->found);
    kin->found = true;
    atomic_fetch_add_explicit(&kin->refs, 1, memory_order_relaxed); /* the caller has one */
    kin->group->kin = &kin->memory;
    return kin->group;
}

void hd_kin_fail(hd_kin_t *kin, ucc_status_t why) {
    pthread_mutex_lock(&kin->lock);
    if (kin->group) {
        hd_group_poison(kin->group, why);
    }
    pthread_mutex_unlock(&kin->lock);
}

const hd_span_t *hd_kin_span(const hd_group_t *group) {
    return group->kin ? ((const hd_kin_t *)(const void *)group->kin)->span : NULL;
}
