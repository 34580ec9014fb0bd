/* endpoints.c: heddle_group, heddle_join, heddle_leave, heddle_run: teams of threads and tasks
 * without any exchange: whoever creates the group makes its memory, endpoints just take their
 * places.
 */
#include "api/api.h"
#include "form/kin.h"
#include "request/engine.h"
#include "shm/parts.h"
#include "span/span.h"
#include "threads/callback.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_MAGIC = 0x6e0d9a11u };

struct heddle_group {
    uint32_t magic;
    _Atomic uint32_t refs; /* the creator, each endpoint that has joined, and each team */
    ucc_lib_h lib;
    hd_group_t *group;
    heddle_group_params_t params;
    ucc_context_h *contexts; /* params.contexts of them; NULL: one per endpoint */
    _Atomic uint64_t *taken; /* a bit per endpoint that has joined */
    _Atomic int32_t *joiner; /* by endpoint: the number of the thread that joined; 0: none yet */
    _Atomic bool shared;     /* some thread has joined as several endpoints */
    _Atomic int32_t failure; /* the first of which an endpoint that has left took no note */
    hd_lock_t lock;          /* guards the next three, and the references in `own` */
    hd_own_context_t **own;  /* by endpoint, where each has a context of its own; else NULL */
    heddle_ep_t *left;       /* those of the group that have left */
    heddle_ep_t *spare;      /* those of sub-teams, of which there may be any number: used again */
    /* the progress thread, if there is one, holds a reference */
    bool has_thread,
        orphaned; /* orphaned: it has dropped the last other reference itself, in a callback */
    pthread_t thread;
    _Atomic bool stop;
    hd_fork_hook_t fork_hook; /* a child finds its copy unlocked, and without the thread */
};

static void free_eps(heddle_ep_t *list) {
    while (list) {
        heddle_ep_t *next = list->next;
        hd_free(list);
        list = next;
    }
}

/* One that drives a schedule yet (logged) is nobody's from now on. */
static void end_context(ucc_context_h context) {
    if (ucc_context_destroy(context) != UCC_OK) {
        context->keep = NULL;
    }
}

static void free_group(heddle_group_t *g) {
    g->magic = HD_DEAD_MAGIC;
    hd_fork_forget(&g->fork_hook);
    for (uint32_t i = 0; g->contexts && i < g->params.contexts; i++) {
        if (g->contexts[i]) {
            end_context(g->contexts[i]);
        }
    }
    if (g->group) {
        hd_home_unpin(&g->group->home);
    }
    if (g->lib) {
        ucc_finalize(g->lib);
    }
    free_eps(g->left);
    free_eps(g->spare);
    hd_free(g->contexts);
    hd_free(g->own);
    hd_free(g->taken);
    hd_free(g->joiner);
    hd_free(g);
}

static void release_group(heddle_group_t *g) {
    bool has_thread = g->has_thread; /* before: who is not the last may find the group gone after */
    /* acq_rel: everybody's use happens before the end */
    uint32_t left = atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) - 1;
    if (left == 1 && has_thread) { /* nobody else is left, nor will come */
        g->orphaned = pthread_equal(g->thread, pthread_self()) != 0;
        /* release: pairs with the acquire in keep_progressing, for `orphaned` */
        atomic_store_explicit(&g->stop, true, memory_order_release);
        if (g->orphaned) {
            return;
        }
        pthread_join(g->thread, NULL);
        left = 0;
    }
    if (left == 0) {
        free_group(g);
    }
}

/* --- progress of all contexts ----------------------------------------------------------------- */

static void release_context(hd_own_context_t *own) {
    heddle_group_t *g = own->group;
    hd_lock(&g->lock);
    bool last = --own->refs == 0;
    if (last) {
        g->own[own->index] = NULL;
    }
    hd_unlock(&g->lock);
    if (last) {
        end_context(own->context);
        hd_free(own);
    }
}

/* A team of a context, which the program may have made, and keep when all endpoints have left, has
 * a reference to the group, and to the context where that is one endpoint's. */
static void keep_group(void *group, bool one_more) {
    heddle_group_t *g = group;
    if (one_more) {
        /* relaxed: the caller has one */
        atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    } else {
        release_group(g);
    }
}

static void keep_context(void *context, bool one_more) {
    hd_own_context_t *own = context;
    heddle_group_t *g = own->group;
    if (one_more) {
        hd_lock(&g->lock);
        own->refs++;
        hd_unlock(&g->lock);
    } else {
        release_context(own);
    }
    keep_group(g, one_more);
}

static ucc_status_t create_context(ucc_lib_h lib, void (*keep)(void *kept_by, bool one_more),
                                   void *kept_by, ucc_context_h *context) {
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE,
                                   .type = UCC_CONTEXT_SHARED};
    ucc_status_t status = hd_api_create_context(lib, &params, NULL, false, context);
    if (status == UCC_OK) {
        (*context)->keep = keep;
        (*context)->kept_by = kept_by;
    }
    return status;
}

static void release_pinned(void *own) {
    release_context(own);
}

/* Pinned: its endpoint may leave meanwhile. */
static hd_own_context_t *pin_context(heddle_group_t *g, uint32_t i) {
    hd_lock(&g->lock);
    hd_own_context_t *own = g->own[i];
    if (own) {
        own->refs++;
    }
    hd_unlock(&g->lock);
    return own;
}

static bool progress_context(ucc_context_h context) {
    /* "not empty" also while another thread is at work in it: that costs a look at its lock */
    if (hd_runner_is_empty(&context->runner)) {
        return false;
    }
    hd_stall_help(true);
    bool any = hd_api_look_at(context);
    hd_stall_help(false);
    return any;
}

bool hd_api_progress_group(heddle_group_t *g) {
    bool any = false;
    for (uint32_t i = 0; g->contexts && i < g->params.contexts; i++) {
        any |= progress_context(g->contexts[i]);
    }
    for (uint32_t i = 0; g->own && i < g->params.endpoints; i++) {
        hd_own_context_t *own = pin_context(g, i);
        if (own) {
            hd_callback_hold(release_pinned, own);
            any |= progress_context(own->context);
            hd_callback_hold(NULL, NULL);
            release_context(own);
        }
    }
    return any;
}

/* The progress thread. It sleeps by the clock: no bell rings for several contexts. */
static void *keep_progressing(void *arg) {
    enum { NAP_US = 50, LONG_NAP_US = 1000, NAPS = 100 };
    heddle_group_t *g = arg;
    /* acquire: pairs with release_group */
    for (uint32_t naps = 0; !atomic_load_explicit(&g->stop, memory_order_acquire);) {
        if (hd_api_progress_group(g)) {
            naps = 0;
            continue;
        }
        _Atomic uint32_t word = 0;
        uint64_t us = naps < NAPS ? NAP_US : LONG_NAP_US;
        hd_park_sleep(&word, 0, us * 1000u);
        naps++;
    }
    if (g->orphaned) {
        pthread_detach(pthread_self());
        free_group(g);
    }
    return NULL;
}

static ucc_status_t start_thread(heddle_group_t *g) {
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed); /* not shared yet */
    g->has_thread = true;
    int failed = pthread_create(&g->thread, NULL, keep_progressing, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        g->has_thread = false;
        atomic_fetch_sub_explicit(&g->refs, 1, memory_order_relaxed); /* likewise */
        hd_error("heddle_group_create: no progress thread: %s", strerror(failed));
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

/* More is a mistake, and would take all memory before anything fails. */
enum { MOST_ENDPOINTS = 1 << 24 };

static ucc_status_t check_params(const heddle_group_params_t *p) {
    if (p->endpoints == 0 || p->endpoints > MOST_ENDPOINTS) {
        hd_error("heddle_group_create: endpoints is %u, and may be 1 to %d", p->endpoints,
                 MOST_ENDPOINTS);
        return UCC_ERR_INVALID_PARAM;
    }
    if (p->contexts > p->endpoints) {
        hd_error("heddle_group_create: contexts %u is more than endpoints %u", p->contexts,
                 p->endpoints);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((unsigned)p->ordering > UCC_COLLECTIVE_INIT_AND_POST_UNORDERED ||
        (unsigned)p->sync_type > UCC_SYNC_COLLECTIVES) {
        hd_error("heddle_group_create: there is no ordering %d, or no sync_type %d",
                 (int)p->ordering, (int)p->sync_type);
        return UCC_ERR_INVALID_PARAM;
    }
    if (p->oob && (p->oob->n_oob_eps == 0 || p->oob->oob_ep >= p->oob->n_oob_eps)) {
        hd_error("heddle_group_create: oob.oob_ep %u of oob.n_oob_eps %u", p->oob->oob_ep,
                 p->oob->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    if (p->oob && p->oob->n_oob_eps > 1) {
        if (!p->oob->allgather || !p->oob->req_test || !p->oob->req_free) {
            hd_error("heddle_group_create: oob.%s is NULL", !p->oob->allgather  ? "allgather"
                                                            : !p->oob->req_test ? "req_test"
                                                                                : "req_free");
            return UCC_ERR_INVALID_PARAM;
        }
        if (p->symmetric_bytes && !hd_api_shares()) {
            hd_error("heddle_group_create: symmetric_bytes: there is no symmetric memory of "
                     "several processes with HEDDLE_NODE=n");
            return UCC_ERR_NOT_SUPPORTED;
        }
    }
    return UCC_OK;
}

/* There is no group here: the other processes must not wait for this one. If its oob is so wrong
 * that this can't be said there, they do. */
static void refuse(const heddle_group_params_t *p, ucc_status_t why) {
    const ucc_oob_coll_t *oob = p->oob;
    if (oob && oob->oob_ep < oob->n_oob_eps && oob->allgather && oob->req_test && oob->req_free) {
        hd_clock_init(); /* there may be no library, nor its configuration */
        double stall = strtod(hd_config_variable(HD_CFG_LIB_STALL)->value, NULL);
        hd_roll_refuse(oob, "process", hd_stall_ticks(stall), why);
    }
}

/* Aligned as strictly as symmetric_constraints can ask for. */
static ucc_status_t give_memory(heddle_group_t *g) {
    bool spans = g->params.oob && g->params.oob->n_oob_eps > 1;
    /* A node's group, with a crossing, is not enough: its processes would be given what those of
     * another node, where one lives alone, are refused. */
    bool shares = hd_group_spans_processes(g->group) && !hd_group_crossing(g->group);
    if (g->params.symmetric_bytes && spans && !shares) {
        hd_error("heddle_group_create: symmetric_bytes: the processes don't share memory");
        return UCC_ERR_NOT_SUPPORTED; /* alike at all */
    }
    for (uint32_t i = 0; g->params.symmetric_bytes && i < g->params.endpoints; i++) {
        uint32_t member = hd_group_member(g->group, hd_form_number(g->group, i));
        struct hd_region *region = &g->group->region[member];
        region->address = hd_part_alloc(g->group, g->params.symmetric_bytes);
        region->bytes = g->params.symmetric_bytes;
        region->owned = true;
        if (!region->address) {
            hd_error("heddle_group_create: no memory for symmetric_bytes");
            return UCC_ERR_NO_MEMORY;
        }
        hd_part_show(g->group, member);
    }
    return UCC_OK;
}

static ucc_status_t make_lists(heddle_group_t *g) {
    g->taken = hd_alloc(HD_LINE, (g->params.endpoints + 63) / 64 * sizeof(uint64_t));
    if (g->params.contexts) {
        g->contexts = hd_alloc(HD_LINE, g->params.contexts * sizeof(ucc_context_h));
    } else {
        g->own = hd_alloc(HD_LINE, g->params.endpoints * sizeof(hd_own_context_t *));
    }
    g->joiner = hd_alloc(HD_LINE, g->params.endpoints * sizeof(int32_t));
    return g->taken && g->joiner && (g->contexts || g->own) ? UCC_OK : UCC_ERR_NO_MEMORY;
}

/* What only this process's part of the group needs. */
static ucc_status_t furnish(heddle_group_t *g) {
    ucc_status_t status = make_lists(g);
    for (uint32_t i = 0; i < g->params.contexts && status == UCC_OK; i++) {
        status = create_context(g->lib, keep_group, g, &g->contexts[i]);
    }
    status = status == UCC_OK ? give_memory(g) : status;
    return status == UCC_OK && g->params.progress_thread ? start_thread(g) : status;
}

static ucc_status_t build(heddle_group_t *g) {
    ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = g->params.thread_mode};
    ucc_status_t status = ucc_init(&lib_params, NULL, &g->lib);
    if (status != UCC_OK) {
        refuse(&g->params, status);
        return status;
    }
    if (g->params.oob && g->params.oob->n_oob_eps > 1) {
        status = hd_team_join_processes(g->lib, g->params.oob, &g->params, &g->group);
    } else {
        hd_group_config_t config =
            hd_team_group_config(g->lib, g->params.sync_type, g->params.endpoints);
        g->group = hd_group_create(g->params.endpoints, &config);
    }
    if (!g->group) {
        return status == UCC_OK ? UCC_ERR_NO_MEMORY : status;
    }
    status = furnish(g);
    if (status != UCC_OK && hd_group_crossing(g->group)) { /* the other processes have theirs */
        hd_crossing_abort(hd_group_crossing(g->group), status);
    } else if (status != UCC_OK) { /* and those that share memory with this one */
        hd_group_poison(g->group, status);
    }
    return status;
}

/* In the child of a fork, where the progress thread is not, unless it has forked itself. */
static void inherited(hd_fork_hook_t *self) {
    heddle_group_t *g =
        (heddle_group_t *)(void *)((char *)self - offsetof(heddle_group_t, fork_hook));
    hd_lock_forget(&g->lock);
    if (g->has_thread && !pthread_equal(g->thread, pthread_self())) {
        g->has_thread = false;
        atomic_fetch_sub_explicit(&g->refs, 1,
                                  memory_order_relaxed); /* its own; the child is alone */
    }
}

ucc_status_t heddle_group_create(const heddle_group_params_t *params, heddle_group_t **group) {
    if (!hd_api_pointer(params, "params", __func__) || !hd_api_pointer(group, "group", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = check_params(params);
    if (status != UCC_OK) {
        refuse(params, status);
        return status;
    }
    heddle_group_t *g = hd_alloc(HD_LINE, sizeof(*g));
    if (!g) {
        hd_error("%s: no memory", __func__);
        refuse(params, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    g->magic = GROUP_MAGIC;
    g->params = *params;
    if (params->progress_thread) {
        g->params.thread_mode = UCC_THREAD_MULTIPLE;
    }
    atomic_store_explicit(&g->refs, 1, memory_order_relaxed); /* not shared yet */
    hd_fork_watch(&g->fork_hook, inherited);
    status = build(g);
    g->params.oob = NULL; /* the caller's */
    if (status != UCC_OK) {
        release_group(g);
        return status;
    }
    *group = g;
    return UCC_OK;
}

static bool is_group(const heddle_group_t *g, const char *caller) {
    if (!g || g->magic != GROUP_MAGIC) {
        hd_error("%s: not a group", caller);
        return false;
    }
    return true;
}

/* Whoever has not joined can't any more: those who have must not wait for it. */
static void dismiss(const heddle_group_t *g) {
    uint32_t joined = 0, n = g->params.endpoints, missing = 0;
    for (uint32_t i = 0; i < n; i++) {
        /* relaxed: the caller has waited for all joins */
        bool has = atomic_load_explicit(&g->taken[i / 64], memory_order_relaxed) >> (i % 64) & 1;
        missing = has ? missing : i;
        joined += has;
    }
    if (joined == n) {
        return;
    }
    if (joined > 0 && hd_group_poisoned(g->group) == UCC_OK) {
        hd_error(
            "heddle_group_destroy: %u of %u endpoints have not joined, such as endpoint %u: the "
            "team fails",
            n - joined, n, missing);
    }
    hd_group_poison(g->group, UCC_ERR_NOT_FOUND);
}

/* A context that goes can't drive a schedule to its end. */
static bool drives_schedules(ucc_context_h context, const char *caller) {
    /* relaxed: the caller's own, or of threads that it knows to be gone */
    uint32_t n = atomic_load_explicit(&context->runner.schedules, memory_order_relaxed);
    if (n) {
        hd_error("%s: %u schedules are running in the context that goes with it", caller, n);
    }
    return n != 0;
}

/* Would this group's contexts go with so many references of the caller's, though schedules run in
 * them? */
static bool is_needed(const heddle_group_t *g, uint32_t refs, const char *caller) {
    bool any = false;
    /* relaxed: who else would give up the last one at this moment, is told by the context */
    if (atomic_load_explicit(&g->refs, memory_order_relaxed) > refs + g->has_thread) {
        return false;
    }
    for (uint32_t i = 0; g->contexts && i < g->params.contexts && !any; i++) {
        any = drives_schedules(g->contexts[i], caller);
    }
    return any;
}

ucc_status_t heddle_group_destroy(heddle_group_t *group) {
    if (!is_group(group, __func__) || is_needed(group, 1, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    dismiss(group);
    release_group(group);
    return UCC_OK;
}

/* --- endpoints -------------------------------------------------------------------------------- */

static hd_own_context_t *make_context(heddle_group_t *g, uint32_t index) {
    hd_own_context_t *own = hd_alloc(HD_LINE, sizeof(*own));
    if (!own) {
        hd_error("heddle_join: no memory for a context");
        return NULL;
    }
    own->group = g;
    own->index = index;
    own->refs = 1;
    if (create_context(g->lib, keep_context, own, &own->context) != UCC_OK) {
        hd_free(own);
        return NULL;
    }
    hd_lock(&g->lock);
    g->own[index] = own;
    hd_unlock(&g->lock);
    return own;
}

/* Its context is its own, and the caller has a reference to it for this endpoint. */
static void enlist(heddle_ep_t *ep) {
    hd_own_context_t *own = ep->own;
    hd_lock(&ep->group->lock);
    ep->at = &own->eps;
    ep->next = own->eps;
    if (ep->next) {
        ep->next->at = &ep->next;
    }
    own->eps = ep;
    hd_unlock(&ep->group->lock);
}

static void delist(heddle_ep_t *ep) {
    hd_lock(&ep->group->lock);
    *ep->at = ep->next;
    if (ep->next) {
        ep->next->at = ep->at;
    }
    hd_unlock(&ep->group->lock);
}

static void retire_ep(heddle_ep_t *ep) {
    heddle_group_t *g = ep->group;
    heddle_ep_t **list = ep->is_sub ? &g->spare : &g->left;
    ep->magic = HD_EP_LEFT;
    if (ep->team) {
        ep->index = ep->team->ep;
        hd_team_see_off(ep->team);
        hd_team_free(ep->team);
        ep->team = NULL;
    }
    if (ep->own) {
        delist(ep);
        release_context(ep->own);
        ep->own = NULL;
    }
    hd_lock(&g->lock);
    ep->next = *list;
    *list = ep;
    hd_unlock(&g->lock);
}

static ucc_status_t take_place(heddle_group_t *g, uint32_t index, const hd_locality_t *where,
                               heddle_ep_t *ep) {
    if (g->contexts) {
        ep->context = g->contexts[(uint64_t)index * g->params.contexts / g->params.endpoints];
    } else {
        ep->own = make_context(g, index);
        if (!ep->own) {
            return UCC_ERR_NO_MEMORY;
        }
        ep->context = ep->own->context;
        enlist(ep);
    }
    ucc_team_h team = hd_team_alloc(&ep->context, 1, NULL);
    if (!team) {
        return UCC_ERR_NO_MEMORY;
    }
    ep->team = team;
    team->state = HD_TEAM_ACTIVE; /* operations wait until all have joined */
    team->owned_by_ep = true;
    bool helps = g->params.contexts != 1 && g->params.endpoints > 1;
    team->helped = helps && g->params.thread_mode == UCC_THREAD_MULTIPLE ? g : NULL;
    team->ordering = g->params.ordering;
    team->sync_type = g->params.sync_type;
    team->outstanding_colls = g->params.outstanding_colls;
    return hd_team_attach(team, g->group, hd_form_number(g->group, index), where);
}

/* A thread that joins twice may be the one that drives both endpoints. */
static void note_joiner(heddle_group_t *g, uint32_t index) {
    int32_t me = hd_thread_number();
    /* relaxed, all: what a thread has written itself it sees, and nothing follows from the others'
     * numbers */
    bool shared = atomic_load_explicit(&g->shared, memory_order_relaxed);
    for (uint32_t i = 0; i < g->params.endpoints && !shared; i++) {
        shared = atomic_load_explicit(&g->joiner[i], memory_order_relaxed) == me;
    }
    if (shared) {
        atomic_store_explicit(&g->shared, true, memory_order_relaxed);
    }
    atomic_store_explicit(&g->joiner[index], me, memory_order_relaxed);
}

bool hd_api_group_is_shared(heddle_group_t *g) {
    /* relaxed: only how soon to look */
    return atomic_load_explicit(&g->shared, memory_order_relaxed);
}

static ucc_status_t join(heddle_group_t *g, uint32_t index, const hd_locality_t *where,
                         heddle_ep_t **out) {
    if (index >= g->params.endpoints) {
        hd_error("heddle_join: index %u of %u", index, g->params.endpoints);
        return UCC_ERR_INVALID_PARAM;
    }
    uint64_t bit = (uint64_t)1 << (index % 64);
    /* relaxed: only this bit matters, and only one caller may find it clear */
    if (atomic_fetch_or_explicit(&g->taken[index / 64], bit, memory_order_relaxed) & bit) {
        hd_error("heddle_join: index %u has joined already", index);
        return UCC_ERR_INVALID_PARAM;
    }
    heddle_ep_t *ep = hd_alloc(HD_LINE, sizeof(*ep));
    if (!ep) {
        hd_error("heddle_join: no memory");
        hd_group_poison(g->group, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    ep->magic = HD_EP_LOCAL;
    ep->group = g;
    ucc_status_t status = take_place(g, index, where, ep);
    if (status != UCC_OK) {
        hd_group_poison(g->group, status); /* the team will never be complete */
        retire_ep(ep);
        return status;
    }
    ep->magic = ep->team->crossing ? HD_EP_WIDE : HD_EP_LOCAL;
    note_joiner(g, index);
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed); /* the caller holds the group */
    *out = ep;
    return UCC_OK;
}

ucc_status_t heddle_join_at(heddle_group_t *group, uint32_t index, const heddle_locality_t *where,
                            heddle_ep_t **ep) {
    if (!is_group(group, __func__) || !hd_api_pointer(ep, "ep", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_locality_t locality = hd_locality_unknown();
    if (where) {
        locality = (hd_locality_t){.package = where->package,
                                   .numa = where->numa,
                                   .l3 = where->l3,
                                   .core = where->core,
                                   .pu = -1,
                                   .trusted = where->package >= 0 || where->numa >= 0 ||
                                              where->l3 >= 0 || where->core >= 0};
    } else {
        hd_topo_locate_thread(hd_topo_get(), &locality);
    }
    return join(group, index, &locality, ep);
}

ucc_status_t heddle_join(heddle_group_t *group, uint32_t index, heddle_ep_t **ep) {
    return heddle_join_at(group, index, NULL, ep);
}

/* The first failure of which nobody took note: of a call, or else of the team, which has `failed`
 * or is UCC_OK. */
static ucc_status_t unnoticed_failure(const heddle_ep_t *ep, ucc_status_t failed) {
    /* relaxed, here and below: see hd_api_remember_failure */
    int32_t status = atomic_load_explicit(&ep->team->unnoticed, memory_order_relaxed);
    bool noticed = atomic_load_explicit(&ep->team->noticed, memory_order_relaxed);
    return status != UCC_OK || noticed ? (ucc_status_t)status : failed;
}

ucc_status_t heddle_ep_failure(heddle_ep_t *ep) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t failed = hd_group_poisoned(ep->team->group); /* once: it may fail meanwhile */
    ucc_status_t status = unnoticed_failure(ep, failed);
    atomic_store_explicit(&ep->team->unnoticed, UCC_OK, memory_order_relaxed);
    if (failed != UCC_OK) {
        atomic_store_explicit(&ep->team->noticed, true, memory_order_relaxed);
    }
    return status;
}

static void take_leave(heddle_ep_t *ep) {
    heddle_group_t *group = ep->group;
    ucc_status_t failed = hd_group_poisoned(ep->team->group);
    int32_t none = UCC_OK, status = (int32_t)unnoticed_failure(ep, failed);
    atomic_compare_exchange_strong_explicit(&group->failure, &none, status, memory_order_relaxed,
                                            memory_order_relaxed);
    retire_ep(ep);
    release_group(group);
}

/* The first that is in progress, from this one of a handle's requests on; NULL: none. */
static hd_request_t *next_in_progress(hd_request_t *r) {
    while (r &&
           (r->op.task.magic == HD_TASK_FREE || hd_task_status(&r->op.task) != UCC_INPROGRESS)) {
        r = r->all;
    }
    return r;
}

static const hd_request_t *find_in_progress(const heddle_ep_t *ep) {
    return next_in_progress(ep->team->all);
}

/* The last that uses its context, which is no group's. */
static bool is_alone(const heddle_ep_t *ep) {
    hd_lock(&ep->group->lock);
    bool alone = ep->own && ep->own->eps == ep && !ep->next;
    hd_unlock(&ep->group->lock);
    return alone;
}

ucc_status_t heddle_leave(heddle_ep_t *ep) {
    if (!hd_api_is_ep(ep)) {
        if (ep && ep->magic == HD_EP_LEFT) {
            hd_error("%s: endpoint %u has left already", __func__, ep->index);
        } else {
            hd_error("%s: not an endpoint", __func__);
        }
        return UCC_ERR_INVALID_PARAM;
    }
    enum { REFS = 2 }; /* its own, and its team's */
    const hd_request_t *r = find_in_progress(ep);
    if (r && !hd_callback_refuses(__func__) && hd_group_poisoned(ep->team->group) != UCC_OK) {
        /* of a callback that left a blocking call, nobody else may ever look at what it left behind
         */
        hd_api_look_at(ep->context);
        r = find_in_progress(ep);
    }
    if (r) {
        hd_error("%s: %s is in progress at endpoint %u", __func__, hd_op_type_name(&r->op),
                 ep->team->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_team_is_needed(ep->team) || (is_alone(ep) && drives_schedules(ep->context, __func__)) ||
        is_needed(ep->group, REFS, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    take_leave(ep);
    return UCC_OK;
}

static heddle_ep_t *take_spare(heddle_group_t *g) {
    hd_lock(&g->lock);
    heddle_ep_t *ep = g->spare;
    if (ep) {
        g->spare = ep->next;
    }
    hd_unlock(&g->lock);
    return ep;
}

heddle_ep_t *hd_api_sub_ep(heddle_ep_t *parent, ucc_team_h team) {
    heddle_ep_t *ep = take_spare(parent->group);
    ep = ep ? ep : hd_alloc(HD_LINE, sizeof(*ep));
    if (!ep) {
        hd_error("no memory for an endpoint");
        return NULL;
    }
    ep->magic = team->crossing ? HD_EP_WIDE : HD_EP_LOCAL;
    ep->group = parent->group;
    ep->team = team;
    ep->context = parent->context;
    ep->own = parent->own;
    ep->is_sub = true;
    team->owned_by_ep = true;
    team->helped = parent->team->helped;
    /* relaxed: the parent holds a reference */
    atomic_fetch_add_explicit(&ep->group->refs, 1, memory_order_relaxed);
    if (ep->own) {
        hd_lock(&ep->group->lock);
        ep->own->refs++;
        hd_unlock(&ep->group->lock);
        enlist(ep);
    }
    return ep;
}

uint32_t heddle_ep_index(const heddle_ep_t *ep) {
    return hd_api_is_ep(ep) ? ep->team->ep : 0;
}

uint32_t heddle_ep_size(const heddle_ep_t *ep) {
    return hd_api_is_ep(ep) ? ep->team->n : 0;
}

ucc_team_h heddle_ep_team(const heddle_ep_t *ep) {
    return hd_api_is_ep(ep) ? ep->team : NULL;
}

ucc_context_h heddle_ep_context(const heddle_ep_t *ep) {
    return hd_api_is_ep(ep) ? ep->context : NULL;
}

/* --- heddle_run ------------------------------------------------------------------------------- */

/* Where the threads of one heddle_run are bound, by HEDDLE_PIN. */
typedef struct pinning {
    enum { PIN_AUTO, PIN_ALWAYS, PIN_NONE, PIN_LIST } kind;
    uint32_t n;           /* PIN_LIST: entries of `where` */
    hd_locality_t *where; /* PIN_LIST */
} pinning_t;

typedef struct runner_arg {
    heddle_group_t *group;
    uint32_t index, n;
    const pinning_t *pinning;
    void (*work)(heddle_ep_t *ep, void *arg);
    void *arg;
    heddle_ep_t *ep;
    ucc_status_t status;
} runner_arg_t;

static ucc_status_t bad_pin(const char *text, const char *why) {
    hd_error("heddle_run: PIN is \"%s\": %s", text, why);
    return UCC_ERR_INVALID_PARAM;
}

/* "0,2,8-11" */
static ucc_status_t read_processors(const char *text, pinning_t *pinning) {
    const hd_topo_t *topo = hd_topo_get();
    enum { MOST = 1 << 16 };
    uint32_t room = 0;
    for (const char *at = text; *at;) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at || *at < '0' || *at > '9') {
            return bad_pin(text, "neither auto, always or none, nor numbers of processors");
        }
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
        }
        if (end == at || (*end && *end != ',') || last < first || last > MOST) {
            return bad_pin(text, "not a list like 0,2,8-11");
        }
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            hd_locality_t where;
            if (!hd_topo_find(topo, (int)cpu, &where)) {
                return bad_pin(text, "this process may not use all of these processors");
            }
            if (pinning->n == room) {
                room = room ? 2 * room : 16;
                hd_locality_t *more = realloc(pinning->where, room * sizeof(*more));
                if (!more) {
                    return UCC_ERR_NO_MEMORY;
                }
                pinning->where = more;
            }
            pinning->where[pinning->n++] = where;
        }
        at = *end ? end + 1 : end;
    }
    return UCC_OK;
}

static ucc_status_t read_pinning(ucc_lib_h lib, uint32_t n, pinning_t *pinning) {
    const char *text = hd_config_string(lib->config, HD_CFG_LIB_PIN);
    *pinning = (pinning_t){.kind = PIN_AUTO};
    if (strcmp(text, "none") == 0) {
        pinning->kind = PIN_NONE;
    } else if (strcmp(text, "always") == 0) {
        pinning->kind = PIN_ALWAYS;
    } else if (*text && strcmp(text, "auto") != 0) {
        pinning->kind = PIN_LIST;
        return read_processors(text, pinning);
    }
    if (pinning->kind == PIN_AUTO && n > hd_topo_n_pus(hd_topo_get())) {
        pinning->kind = PIN_NONE;
    }
    return UCC_OK;
}

/* Binds the calling thread; false: it stays, or goes back to, where it was. */
static bool bind(const pinning_t *pinning, uint32_t index, uint32_t n, hd_locality_t *where) {
    const hd_topo_t *topo = hd_topo_get();
    hd_affinity_t before;
    if (pinning->kind == PIN_NONE) {
        return false;
    }
    if (pinning->kind == PIN_LIST) {
        *where = pinning->where[index % pinning->n];
    } else {
        hd_topo_place(topo, index, n, where);
    }
    bool known = hd_topo_get_affinity(&before);
    if (hd_topo_bind_thread(topo, where) != UCC_OK) {
        return false;
    }
    if (pinning->kind != PIN_AUTO || !known || !hd_processor_is_shared()) {
        return true;
    }
    /* another program that was placed by the same rule, say: free threads go where there is room */
    hd_info("heddle_run: endpoint %u is not bound: its processor is used by others", index);
    hd_topo_set_affinity(&before);
    return false;
}

/* From the beginning each time: callbacks may leave, too. */
static const heddle_ep_t *find_busy(const hd_own_context_t *own) {
    const heddle_ep_t *ep = own->eps;
    while (ep && !find_in_progress(ep)) {
        ep = ep->next;
    }
    return ep;
}

/* Their buffers may lie where this thread's stack is being used for something else by now. */
static void disown_requests(ucc_team_h team) {
    for (hd_request_t *r = next_in_progress(team->all); r; r = next_in_progress(r->all)) {
        hd_group_poison(team->group, UCC_ERR_NOT_FOUND);
        hd_op_disown(&r->op);
    }
}

/* By pthread_exit or cancellation: the endpoint leaves all the same, and so do those of sub-teams
 * that were made from it. What they have in progress works on the thread's stack: nobody may touch
 * that any more when this returns. The thread was their only user: nobody else changes the list, or
 * ends their engines. */
static void ended_in_work(void *arg) {
    runner_arg_t *r = arg;
    hd_error("heddle_run: the thread of endpoint %u has ended in work instead of returning from it",
             r->index);
    r->status = UCC_ERR_NO_MESSAGE;
    hd_own_context_t *own = pin_context(r->group, r->index);
    if (!own) {
        return; /* all of them have left */
    }
    for (const heddle_ep_t *ep = own->eps; ep; ep = ep->next) {
        disown_requests(ep->team);
    }
    for (const heddle_ep_t *ep; (ep = find_busy(own)) != NULL;) {
        hd_group_poison(ep->team->group, UCC_ERR_NOT_FOUND); /* by a callback since */
        hd_runner_progress(&own->context->runner, NULL);
    }
    while (own->eps) {
        ucc_team_h team = own->eps->team;
        while (team->engines && hd_ee_destroy(team->engines) == UCC_OK) {
            /* the client can't do this any more */
        }
        take_leave(own->eps);
    }
    release_context(own);
}

static void *run_one(void *arg) {
    runner_arg_t *r = arg;
    hd_locality_t where;
    r->status = bind(r->pinning, r->index, r->n, &where) ? join(r->group, r->index, &where, &r->ep)
                                                         : heddle_join(r->group, r->index, &r->ep);
    if (r->status == UCC_OK) {
        pthread_cleanup_push(ended_in_work, r);
        r->work(r->ep, r->arg);
        pthread_cleanup_pop(0);
        r->status = heddle_leave(r->ep);
    }
    return NULL;
}

ucc_status_t heddle_run(uint32_t n, void (*work)(heddle_ep_t *ep, void *arg), void *arg) {
    if (!work) {
        hd_error("%s: work is NULL", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    n = n ? n : hd_topo_n_domains(hd_topo_get(), HD_TOPO_CORE);
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = n};
    ucc_status_t status = heddle_group_create(&params, &group);
    if (status != UCC_OK) {
        return status;
    }
    pinning_t pinning;
    status = read_pinning(group->lib, n, &pinning);
    pthread_t *thread = hd_alloc(HD_LINE, n * sizeof(*thread));
    runner_arg_t *one = hd_alloc(HD_LINE, n * sizeof(*one));
    uint32_t started = 0;
    status = status != UCC_OK ? status : thread && one ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (; started < n && status == UCC_OK; started++) {
        one[started] = (runner_arg_t){.group = group,
                                      .index = started,
                                      .n = n,
                                      .pinning = &pinning,
                                      .work = work,
                                      .arg = arg};
        if (pthread_create(&thread[started], NULL, run_one, &one[started]) != 0) {
            hd_error("%s: no more threads after %u of %u", __func__, started, n);
            hd_group_poison(group->group, UCC_ERR_NO_RESOURCE); /* those started must not wait */
            status = UCC_ERR_NO_RESOURCE;
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        status = status == UCC_OK ? one[i].status : status;
    }
    if (status == UCC_OK) { /* relaxed: all have been joined */
        status = (ucc_status_t)atomic_load_explicit(&group->failure, memory_order_relaxed);
    }
    hd_free(thread);
    hd_free(one);
    free(pinning.where);
    heddle_group_destroy(group);
    return status;
}
