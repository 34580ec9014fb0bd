/* kin.c: see kin.h. A kin belongs to those who form its team, who drop it, and to the group, once
 * it is found: whoever is last frees it.
 */
#include "form/kin.h"

#include "core/hash.h"
#include "form/form.h"
#include "form/heaps.h"
#include "form/told.h"
#include "node/node.h"
#include "shm/parts.h"

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
    ucc_status_t status;  /* UCC_INPROGRESS, or how it has ended */
    hd_node_t *node;
    hd_node_offer_t *offer; /* of the leader */
    hd_node_fetch_t *fetch; /* of the others */
    hd_group_config_t config;
    bool found, ahead, watched, of_node;
    hd_processors_use_t processors; /* as shared with its other processes, */
    uint64_t yields;                /* by this name; 0: they don't know each other's yields */
    hd_obstacle_t obstacle;         /* when it has failed; `culprit` is the process that it names */
    uint32_t culprit;
    _Atomic bool is_scope; /* nobody joins its group: others are formed there */
    uint32_t leader;       /* from whom it is fetched */
    hd_birth_t *birth;     /* in the scope; NULL: there is none (any more) */
    bool said;
    bool late;         /* it has failed when others may count on the group, or without a birth */
    hd_group_t *group; /* until it ends */
    /* constant once the group is there */
    hd_span_t *span;
    hd_kin_process_t *process;   /* by process */
    hd_node_peer_t **peer;       /* likewise; NULL: this one */
    uint64_t wire, since;        /* since: ticks when it began */
    uint64_t over;               /* see hd_kin_params_t */
    hd_origin_t *_Atomic origin; /* a reference; NULL: not asked for yet */
    hd_origin_t *agreements;     /* under the origin's lock */
    uint64_t *in_origin;
    hd_group_t *scope; /* a reference; NULL: it has none, and is that of its own descendants */
    /* of the watch, under its lock */
    bool *gone; /* by process: its end has been seen */
    hd_heap_fetches_t heaps;
    hd_node_address_t owner; /* see owner_of */
    bool listens;            /* others may fail at its birth, after this process has gone ahead */
    hd_kin_t *next, **at;    /* at is NULL: it is in no list */
};

_Static_assert(offsetof(hd_kin_t, memory) == 0, "what hangs on the group is known as the kin");

static hd_kin_t *kin_of(const hd_group_t *group) {
    return (hd_kin_t *)(void *)group->kin;
}

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

enum { FIRST_ASKER = 2, WATCHED = FIRST_ASKER + 1 + HD_ASKERS }; /* descriptors */

/* The thread is there while something is watched. */
static struct {
    pthread_mutex_t starting; /* guards `watched` and the thread's life */
    uint32_t watched;
    pthread_t thread;
    int event; /* readable: there is something new to listen to, or it is to end */
    bool ends;
    pthread_mutex_t lock; /* guards the list, and what is said of processes that are gone */
    hd_kin_t *list;
    uint32_t losses;    /* hd_node_losses at the last look */
    hd_askers_t askers; /* the thread's */
    bool knows_forks;
    hd_fork_hook_t fork_hook;
} watch = {.starting = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The child of a fork has its parent's copies, and no such thread. */
static void inherited(hd_fork_hook_t *self) {
    (void)self;
    if (watch.watched) {
        hd_askers_abandon(&watch.askers);
        close(watch.event);
        watch.event = -1; /* inherited groups still wake the thread that is not there */
    }
    for (hd_kin_t *kin = watch.list; kin; kin = kin->next) {
        kin->at = NULL;
        pthread_mutex_init(&kin->lock, NULL); /* the watch may have held it */
    }
    pthread_mutex_init(&watch.starting, NULL);
    pthread_mutex_init(&watch.lock, NULL);
    watch.list = NULL;
    watch.watched = 0;
}

static bool has_left(const hd_kin_t *kin, uint32_t p) {
    return hd_kin_process_has_left(kin->group, kin->span, p);
}

/* Nobody of a process does anything in a team any more. (One that says what nobody says, or can't
 * be connected to, may still be there.) */
static bool has_ended(hd_node_state_t state) {
    return state == HD_NODE_DIED || state == HD_NODE_LEFT || state == HD_NODE_ABSENT;
}

/* One that leaves while the team forms has given that up over another's failure, and says so. */
static void say_gone(const hd_kin_t *kin, uint32_t p, hd_node_state_t state) {
    bool gives_up = state == HD_NODE_LEFT && !hd_group_is_complete(kin->group);
    uint32_t n = hd_span_count(kin->span, p);
    hd_text_t more = {0};
    if (n > 1) {
        hd_text_add(&more, ", and of %u more,", n - 1);
    }
    hd_log(gives_up ? HD_LOG_INFO : HD_LOG_ERROR, "team of %u: the process of endpoint %u%s %s",
           kin->group->team_n, hd_group_number(kin->group, hd_span_endpoint(kin->span, p, 0)),
           more.line, hd_node_describe(state));
}

/* Under the watch's lock. */
static void look_at(hd_kin_t *kin) {
    for (uint32_t p = 0; p < kin->span->processes; p++) {
        hd_node_state_t state = kin->peer[p] ? hd_node_peer_state(kin->peer[p]) : HD_NODE_DONE;
        if (state < HD_NODE_FIRST_FAILURE || kin->gone[p]) {
            continue;
        }
        kin->gone[p] = true;
        if (has_ended(state)) {
            hd_reach_lose(kin->group->reach, p);
        }
        /* relaxed: set before anybody uses the group */
        if (!atomic_load_explicit(&kin->is_scope, memory_order_relaxed) && !has_left(kin, p)) {
            if (hd_group_poisoned(kin->group) == UCC_OK) {
                say_gone(kin, p, state);
            }
            hd_group_lose(kin->group, p);
            hd_group_poison(kin->group, UCC_ERR_IO_ERROR);
        }
    }
}

/* Tells the teams of those that are gone, too. */
void hd_kin_progress(hd_node_t *node) {
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

/* How all have got on, who tell each other in the scope. Whoever says that no more come to teams
 * like this one has seen all that had come, so that is looked at first. */
static ucc_status_t see_birth(const hd_kin_t *kin) {
    bool over = kin->over && hd_group_is_over(kin->scope, kin->over);
    ucc_status_t status = hd_birth_status(kin->birth);
    if (!over || status != UCC_INPROGRESS) {
        return status;
    }
    hd_error("a team of %u can't be made of those that are left: others agree without it",
             kin->span->n);
    (void)hd_birth_fail(kin->birth, kin->span->mine, UCC_ERR_NOT_FOUND);
    return hd_birth_status(kin->birth);
}

/* Of teams that have gone ahead: tells those of which a process could not come; and gets on with
 * those whose endpoints wait for each other's parts, for they may sleep. True: there are some that
 * still wait for others. */
static bool listen(void) {
    bool some = false;
    pthread_mutex_lock(&watch.lock);
    for (hd_kin_t *kin = watch.list; kin; kin = kin->next) {
        some |= hd_parts_are_awaited(kin->group) && !hd_group_is_complete(kin->group);
        /* The lock is taken in the other order elsewhere: then the next time is soon enough. */
        if (!kin->listens || pthread_mutex_trylock(&kin->lock) != 0) {
            some = some || kin->listens;
            continue;
        }
        ucc_status_t status = kin->birth ? see_birth(kin) : UCC_OK;
        kin->listens = status == UCC_INPROGRESS;
        if (status < 0) {
            hd_group_poison(kin->group, status);
        }
        some = some || kin->listens;
        pthread_mutex_unlock(&kin->lock);
    }
    pthread_mutex_unlock(&watch.lock);
    return some;
}

static hd_node_address_t address_of(const hd_kin_t *kin, uint32_t p);

static const hd_node_address_t *owner_of(void *arg, uint32_t p) {
    hd_kin_t *kin = arg;
    if (p >= kin->span->processes || p == kin->span->mine) {
        return NULL;
    }
    kin->owner = address_of(kin, p);
    return &kin->owner;
}

/* Fetches what is wanted. True: something is on its way. */
static bool fetch_heaps(void) {
    bool some = false;
    pthread_mutex_lock(&watch.lock);
    for (hd_kin_t *kin = watch.list; kin; kin = kin->next) {
        some |= hd_heaps_fetch(&kin->heaps, kin->group->reach, kin->node, owner_of, kin);
    }
    pthread_mutex_unlock(&watch.lock);
    return some;
}

static void find_late(hd_kin_t *kin, hd_told_team_t *team) {
    /* the lock is taken in the other order elsewhere: then nothing is said of that */
    if (pthread_mutex_trylock(&kin->lock) == 0) {
        team->forms = kin->birth && !kin->ahead;
        for (uint32_t p = 0; team->forms && p < kin->span->processes; p++) {
            bool late = p != kin->span->mine && !hd_birth_hears(kin->birth, p);
            team->late[p / 64] |= (uint64_t)late << (p % 64);
        }
        pthread_mutex_unlock(&kin->lock);
    }
}

/* Answers who asks. */
static void tell(void *arg, hd_asker_t *asker) {
    hd_told_team_t team[HD_TOLD_TEAMS];
    uint32_t n = 0;
    (void)arg;
    pthread_mutex_lock(&watch.lock);
    for (hd_kin_t *kin = watch.list; kin && n < HD_TOLD_TEAMS; kin = kin->next, n++) {
        team[n] = (hd_told_team_t){.group = kin->group,
                                   .span = kin->span,
                                   .process = kin->process,
                                   .peer = kin->peer,
                                   .of_node = kin->of_node,
                                   /* relaxed: see look_at */
                                   .is_scope =
                                       atomic_load_explicit(&kin->is_scope, memory_order_relaxed)};
        find_late(kin, &team[n]);
    }
    hd_told_answer(&watch.askers, asker, team, n);
    pthread_mutex_unlock(&watch.lock);
}

static bool is_to_end(void) {
    uint64_t word;
    (void)!read(watch.event, &word, sizeof(word)); /* there may be none */
    pthread_mutex_lock(&watch.lock);
    bool ends = watch.ends;
    pthread_mutex_unlock(&watch.lock);
    return ends;
}

/* Writes to what the watch listens: the node, its own event, and who asks. Returns how many. */
static uint32_t find_all(hd_node_t *node, struct pollfd on[WATCHED]) {
    const hd_askers_t *askers = &watch.askers;
    uint32_t n = 0;
    on[n++] = (struct pollfd){.fd = hd_node_fd(node), .events = POLLIN};
    on[n++] = (struct pollfd){.fd = watch.event, .events = POLLIN};
    on[n++] = (struct pollfd){.fd = askers->listener, .events = POLLIN}; /* -1: passed over */
    for (uint32_t i = 0; i < HD_ASKERS; i++) { /* epoll's events are poll's */
        on[n++] =
            (struct pollfd){.fd = askers->asker[i].fd, .events = (short)askers->asker[i].events};
    }
    return n;
}

static void *keep_watch(void *arg) {
    enum { LISTEN_MS = 10, FETCH_MS = 1 };
    hd_node_t *node = arg;
    (void)pthread_setname_np(pthread_self(), "heddle-kin");
    while (!is_to_end()) {
        int patience = listen() ? LISTEN_MS : -1;
        struct pollfd on[WATCHED];
        uint32_t n = find_all(node, on);
        if (poll(on, n, fetch_heaps() ? FETCH_MS : patience) > 0) {
            bool asked = false;
            for (uint32_t i = FIRST_ASKER; i < n; i++) {
                asked = asked || on[i].revents;
            }
            hd_kin_progress(node);
            if (asked) {
                hd_askers_look(&watch.askers);
            }
        }
    }
    return NULL;
}

static void wake_watch(void) {
    uint64_t one = 1;
    (void)!write(watch.event, &one, sizeof(one)); /* if it is full, it is awake */
}

static void serve_heaps(void *arg) {
    (void)arg;
    wake_watch();
}

/* Under watch.starting. */
static ucc_status_t start(hd_node_t *node, bool asked) {
    if (!watch.knows_forks) {
        hd_fork_watch(&watch.fork_hook, inherited);
        watch.knows_forks = true;
    }
    watch.ends = false;
    watch.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch.event < 0) {
        return UCC_ERR_NO_RESOURCE;
    }
    hd_askers_clear(&watch.askers);
    watch.askers.answer = tell;
    if (asked) {
        hd_askers_open(&watch.askers, HD_ASK_NODE);
    }
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&watch.thread, NULL, keep_watch, node);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        hd_askers_close(&watch.askers);
        close(watch.event);
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

static ucc_status_t begin_watch(hd_kin_t *kin) {
    pthread_mutex_lock(&watch.starting);
    ucc_status_t status = watch.watched ? UCC_OK : start(kin->node, kin->config.asked);
    if (status == UCC_OK) {
        watch.watched++;
        pthread_mutex_lock(&watch.lock);
        kin->next = watch.list;
        kin->at = &watch.list;
        if (kin->next) {
            kin->next->at = &kin->next;
        }
        watch.list = kin;
        kin->listens = kin->ahead;
        hd_reach_serve_by(kin->group->reach, serve_heaps, NULL);
        look_at(kin); /* what has been counted before is not looked at again */
        pthread_mutex_unlock(&watch.lock);
        if (kin->ahead) {
            wake_watch();
        }
    }
    pthread_mutex_unlock(&watch.starting);
    kin->watched = status == UCC_OK;
    return status;
}

static void end_watch(hd_kin_t *kin) {
    if (!kin->watched) {
        return;
    }
    pthread_mutex_lock(&watch.starting);
    pthread_mutex_lock(&watch.lock);
    if (!kin->at) { /* in the child of a fork */
        hd_heaps_end(&kin->heaps);
        pthread_mutex_unlock(&watch.lock);
        pthread_mutex_unlock(&watch.starting);
        return;
    }
    *kin->at = kin->next;
    if (kin->next) {
        kin->next->at = kin->at;
    }
    kin->at = NULL;
    pthread_mutex_unlock(&watch.lock);
    hd_heaps_end(&kin->heaps);
    if (--watch.watched == 0) {
        pthread_mutex_lock(&watch.lock);
        watch.ends = true;
        pthread_mutex_unlock(&watch.lock);
        wake_watch();
        pthread_join(watch.thread, NULL);
        hd_askers_close(&watch.askers);
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
    hd_processors_part(&kin->processors);
    pthread_mutex_destroy(&kin->lock);
    hd_origin_drop(kin->origin);
    hd_origins_drop(kin->agreements);
    if (kin->scope) {
        hd_home_unpin(&kin->scope->home);
    }
    hd_free(kin->in_origin);
    hd_free(kin->process);
    hd_free(kin->span);
    hd_free((void *)kin->peer);
    hd_free(kin->gone);
    hd_free(kin);
}

/* The last word of this process. */
static void end_birth(hd_kin_t *kin, ucc_status_t status) {
    if (!kin->said) {
        hd_birth_say(kin->scope, kin->birth, kin->span->mine, status, true);
    } else if (status != UCC_OK) {
        kin->late |= !hd_birth_fail(kin->birth, kin->span->mine, status);
    }
    kin->said = true;
    hd_birth_leave(kin->scope, kin->birth, kin->span->mine);
    kin->birth = NULL;
}

/* Whoever forms the team has a reference to it, too. */
static void leave_scope(hd_kin_t *kin) {
    hd_group_t *scope = kin->scope;
    pthread_mutex_lock(&kin->lock); /* who names the late ones reads it */
    kin->scope = NULL;
    pthread_mutex_unlock(&kin->lock);
    hd_home_unpin(&scope->home);
}

/* Nobody comes to it any more: its descriptors are closed. */
static void end_sharing(hd_kin_t *kin) {
    pthread_mutex_lock(&kin->lock);
    hd_node_offer_t *given = kin->offer;
    hd_node_fetch_t *taken = kin->fetch;
    kin->offer = NULL;
    kin->fetch = NULL;
    pthread_mutex_unlock(&kin->lock);
    if (given) {
        hd_node_offer_end(given);
    }
    if (taken) {
        hd_node_fetch_end(taken);
    }
}

static void group_ends(hd_outer_memory_t *memory) {
    hd_kin_t *kin = (hd_kin_t *)(void *)memory;
    end_watch(kin);
    if (kin->birth) { /* of a team that went ahead: who comes later hears of the end */
        ucc_status_t failed = hd_group_poisoned(kin->group), all = hd_birth_status(kin->birth);
        end_birth(kin, all == UCC_INPROGRESS ? (failed ? failed : UCC_ERR_NOT_FOUND) : UCC_OK);
    }
    end_sharing(kin); /* after that: who asks, and is refused, finds why */
    pthread_mutex_lock(&kin->lock);
    kin->group = NULL; /* a meeting may keep the kin, and somebody fail it yet */
    pthread_mutex_unlock(&kin->lock);
}

static void group_has_ended(hd_outer_memory_t *memory) {
    unref((hd_kin_t *)(void *)memory);
}

void hd_kin_drop(void *dropped) {
    hd_kin_t *kin = dropped;
    bool goes_on = kin->ahead && kin->found; /* others may still fetch it: until the group's end */
    if (kin->birth && !goes_on) {
        pthread_mutex_lock(&kin->lock); /* see find_late */
        end_birth(kin, UCC_ERR_NOT_FOUND);
        pthread_mutex_unlock(&kin->lock);
    }
    if (!goes_on) {
        end_sharing(kin);
    }
    if (kin->group && !kin->found) { /* nobody has joined it */
        end_watch(kin);
        hd_home_unpin(&kin->group->home);
    }
    unref(kin);
}

/* --- sharing ---------------------------------------------------------------------------------- */

/* Returns the address of a process, whose door is of this node. */
static hd_node_address_t address_of(const hd_kin_t *kin, uint32_t p) {
    hd_node_address_t address = *hd_node_address(kin->node);
    name_door(address.door, kin->process[p].identity, kin->process[p].door);
    address.pid = hd_process_pid(kin->process[p].identity);
    return address;
}

void hd_kin_name(uint64_t wire, uint64_t name[2]) {
    name[0] = wire;
    name[1] = hd_hash_mix(wire, 1) | 1;
}

static ucc_status_t offer(hd_kin_t *kin) {
    uint32_t others = kin->span->processes - 1;
    uint64_t(*door)[2] = hd_alloc(HD_LINE, others * sizeof(*door)), name[2];
    kin->group = door ? hd_group_create(kin->span->n, &kin->config) : NULL;
    ucc_status_t status = kin->group ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint32_t e = 0; kin->group && e < kin->span->n; e++) {
        hd_group_set_home(kin->group, e, kin->span->process_of[e]);
    }
    for (uint32_t i = 0; door && i < others; i++) {
        const hd_kin_process_t *other = &kin->process[i + (i >= kin->span->mine)];
        name_door(door[i], other->identity, other->door);
    }
    if (status == UCC_OK) {
        hd_node_segment_t segment = hd_group_take_segment(kin->group);
        hd_kin_name(kin->wire, name);
        status = hd_node_offer(kin->node, name, &segment, (const uint64_t(*)[2])door, others,
                               &kin->offer);
        if (status != UCC_OK) {
            hd_segment_close(&segment);
        }
    }
    hd_free(door);
    return status;
}

/* Notes why this process can't get the memory. p: in the span, whom it would have got it from, or
 * watched; who is short of descriptors is this one. */
static void note_obstacle(hd_kin_t *kin, uint32_t p, hd_node_state_t state) {
    p = state == HD_NODE_NO_DESCRIPTOR ? kin->span->mine : p;
    kin->obstacle = (hd_obstacle_t){
        .kind = HD_OBSTACLE_MEMORY, .state = (uint8_t)state, .whom = kin->process[p].number};
    kin->culprit = p;
}

static ucc_status_t meet(hd_kin_t *kin) {
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; status == UCC_OK && p < kin->span->processes; p++) {
        hd_node_address_t address = address_of(kin, p);
        if (p != kin->span->mine) {
            status = hd_node_watch(kin->node, &address, p < kin->span->mine, &kin->peer[p]);
        }
    }
    return status;
}

static ucc_status_t come(hd_kin_t *kin, hd_group_t *scope) {
    uint64_t name[2];
    hd_kin_name(kin->wire, name);
    kin->scope = scope;
    hd_home_pin(&scope->home);
    kin->birth = hd_birth_come(scope, name, kin->span->processes);
    kin->late = !kin->birth;
    if (!kin->birth) {
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

static ucc_status_t begin(hd_kin_t *kin, hd_group_t *scope, bool declines) {
    uint32_t n = kin->span->processes, mine = kin->span->mine, door;
    uint64_t name[2];
    kin->config.mappings = 0;
    kin->config.processes = n;
    kin->config.process = mine;
    kin->config.number = kin->process[mine].number;
    kin->config.apart = true;
    kin->config.pairs = false;
    if (n > HD_FAR_MOST) {
        hd_info("%u processes are too many to share memory (at most %d)", n, HD_FAR_MOST);
        kin->obstacle.kind = HD_OBSTACLE_MANY;
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = scope ? come(kin, scope) : UCC_OK;
    if (status == UCC_OK && declines) {
        kin->obstacle.kind = HD_OBSTACLE_PARENT;
        return UCC_ERR_NOT_SUPPORTED;
    }
    status = status == UCC_OK ? hd_kin_open_door(&kin->node, &door) : status;
    status = status == UCC_OK ? meet(kin) : status;
    if (status == UCC_OK && kin->birth && hd_birth_status(kin->birth) < 0) {
        return UCC_INPROGRESS; /* see hear */
    }
    uint32_t leader = kin->birth ? hd_birth_leader(kin->birth, mine) : 0;
    if (status == UCC_OK && leader == mine) {
        status = offer(kin);
    } else if (status == UCC_OK) {
        hd_node_address_t address = address_of(kin, leader);
        kin->leader = leader;
        hd_kin_name(kin->wire, name);
        status = hd_node_fetch(kin->node, &address, name, &kin->fetch);
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
    kin->wire = params->wire;
    kin->over = params->over;
    kin->since = hd_ticks();
    kin->ahead = params->ahead;
    kin->of_node = params->of_node;
    kin->span = hd_span_create(span->n, span->process_of, hd_span_endpoint(span, span->mine, 0));
    kin->process = hd_alloc(HD_LINE, span->processes * sizeof(*kin->process));
    kin->peer = hd_alloc(HD_LINE, span->processes * sizeof(hd_node_peer_t *));
    kin->gone = hd_alloc(HD_LINE, span->processes * sizeof(*kin->gone));
    if (!kin->span || !kin->process || !kin->peer || !kin->gone) {
        unref(kin);
        return NULL;
    }
    memcpy(kin->process, params->process, span->processes * sizeof(*kin->process));
    kin->status = begin(kin, params->scope, params->declines);
    if (kin->status < 0 && kin->birth) {
        end_birth(kin, kin->status);
    }
    if (params->declines && kin->scope) {
        leave_scope(kin);
    }
    return kin;
}

/* Does this process hear of the end of each of the others? */
static ucc_status_t connected(hd_kin_t *kin) {
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; p < kin->span->processes; p++) {
        hd_node_state_t state = kin->peer[p] ? hd_node_peer_state(kin->peer[p]) : HD_NODE_DONE;
        if (state >= HD_NODE_FIRST_FAILURE) {
            hd_info("no memory is shared with the process of endpoint %u of %u, which %s",
                    hd_span_endpoint(kin->span, p, 0), kin->span->n, hd_node_describe(state));
            note_obstacle(kin, p, state);
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
        note_obstacle(kin, kin->leader, hd_node_fetch_state(kin->fetch));
        return status;
    }
    kin->group = hd_group_of(&segment, kin->span->n, &kin->config);
    hd_segment_close(&segment);
    return kin->group ? UCC_OK : UCC_ERR_NO_MEMORY;
}

/* Gets on with it, as far as it depends on this process. */
static ucc_status_t get(hd_kin_t *kin) {
    ucc_status_t here = fetch(kin), there = here < 0 ? here : connected(kin);
    if (there == UCC_OK && here == UCC_OK && !kin->watched) {
        return begin_watch(kin);
    }
    return there == UCC_OK ? here : there;
}

/* A team that goes ahead has failed before this process has come: it is a team all the same, whose
 * operations say so. */
static ucc_status_t stand_in(hd_kin_t *kin, ucc_status_t why) {
    kin->group = kin->group ? kin->group : hd_group_create(kin->span->n, &kin->config);
    if (!kin->group) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_node_segment_t segment = hd_group_take_segment(kin->group);
    hd_segment_close(&segment);
    hd_group_poison(kin->group, why);
    return UCC_OK;
}

/* Says how this process has got on, and hears how the others of the scope have. */
static ucc_status_t hear(hd_kin_t *kin) {
    ucc_status_t all = see_birth(kin);
    ucc_status_t status = all < 0 ? all : get(kin);
    if (kin->ahead && status < 0 && (all = hd_birth_status(kin->birth)) < 0) {
        status = stand_in(kin, all);
    }
    if (status == UCC_OK && !kin->said) {
        hd_birth_say(kin->scope, kin->birth, kin->span->mine, status, true);
        kin->said = true;
    }
    if (status == UCC_OK && !kin->ahead) {
        status = hd_birth_status(kin->birth);
    }
    if (status < 0 && hd_birth_status(kin->birth) < 0 && kin->obstacle.kind == HD_OBSTACLE_NONE) {
        kin->obstacle.kind = HD_OBSTACLE_OTHERS;
        kin->culprit = hd_birth_culprit(kin->birth);
    }
    if (status < 0 || (status == UCC_OK && !kin->ahead)) {
        end_birth(kin, status);
    }
    return status;
}

void hd_kin_refuse(hd_node_t *door, uint64_t wire) {
    uint64_t name[2];
    hd_kin_name(wire, name);
    hd_node_withdraw(door, name);
}

/* The first process that has not answered; or who has, but has not sent the segment. */
static void note_silence(hd_kin_t *kin) {
    uint32_t silent = kin->leader;
    for (uint32_t p = kin->span->processes; p-- > 0;) {
        bool answers = !kin->peer[p] || hd_node_peer_state(kin->peer[p]) != HD_NODE_PENDING;
        silent = answers ? silent : p;
    }
    note_obstacle(kin, silent, HD_NODE_PENDING);
}

/* Without a scope, all come at about the same time, and a process that does not answer may lack the
 * memory for that: in the end, they do without. */
static ucc_status_t lose_patience(hd_kin_t *kin) {
    enum { PATIENCE_MS = 5000 };
    if (kin->birth || hd_ticks() - kin->since < PATIENCE_MS * 1000 * hd_ticks_per_us) {
        return UCC_INPROGRESS;
    }
    hd_info("no memory is shared by a team of %u: a process has not answered for %d s",
            kin->span->n, PATIENCE_MS / 1000);
    note_silence(kin);
    return UCC_ERR_TIMED_OUT;
}

/* Process p: as the scope knows it; without one, of this host, by its name or by what the kernel
 * says of its connection. */
static hd_who_t who_of(const hd_kin_t *kin, uint32_t p) {
    hd_who_t who = hd_who_am_i();
    const hd_kin_t *scope = kin->scope ? kin_of(kin->scope) : NULL;
    uint32_t q = 0, number;
    who.pid = hd_node_peer_pid(kin->peer[p]);
    while (scope && q < scope->span->processes &&
           memcmp(scope->process[q].identity, kin->process[p].identity,
                  sizeof(scope->process[q].identity)) != 0) {
        q++;
    }
    if (scope && q < scope->span->processes) {
        (void)hd_who_of(kin->scope, q, &who, &number);
    }
    return who;
}

static void say_process(const hd_kin_t *kin, uint32_t p, hd_node_state_t state, hd_text_t *text) {
    hd_who_t who = who_of(kin, p);
    hd_told_say_process(text, kin->process[p].number, &who, state);
}

/* Who has not come: in a scope, who has not said so; else who has not mapped the memory; while this
 * process has not either, its leader, if that does not answer. */
static bool is_late(const hd_kin_t *kin, uint32_t p) {
    hd_who_t who;
    uint32_t number;
    if (!kin->peer[p] || kin->birth) {
        return kin->peer[p] && !hd_birth_hears(kin->birth, p);
    }
    if (kin->group) {
        return !hd_who_of(kin->group, p, &who, &number);
    }
    return p == kin->leader ? !hd_node_peer_has_answered(kin->peer[p])
                            : hd_node_peer_state(kin->peer[p]) == HD_NODE_PENDING;
}

/* Of one that is late, for people: a life says only that it is there. */
static hd_node_state_t state_of_late(const hd_kin_t *kin, uint32_t p) {
    hd_node_state_t state = hd_node_peer_state(kin->peer[p]);
    return kin->birth || state >= HD_NODE_FIRST_FAILURE ? state : HD_NODE_PENDING;
}

bool hd_kin_has_late(hd_kin_t *kin) {
    bool has = false;
    pthread_mutex_lock(&kin->lock);
    bool waits = kin->group && kin->status == UCC_OK; /* else others may wait for this one */
    for (uint32_t p = 0; waits && !has && p < kin->span->processes; p++) {
        has = is_late(kin, p);
    }
    pthread_mutex_unlock(&kin->lock);
    return has;
}

void hd_kin_awaits(hd_kin_t *kin, hd_text_t *text) {
    enum { FEW = 4 };
    uint32_t late = 0, said = 0, n = kin->span->processes;
    pthread_mutex_lock(&kin->lock);
    for (uint32_t p = 0; p < n; p++) {
        late += is_late(kin, p);
    }
    for (uint32_t p = 0; p < n && said < FEW; p++) {
        if (is_late(kin, p)) {
            hd_text_add(text, "%s", said++ ? ", and " : "");
            say_process(kin, p, state_of_late(kin, p), text);
        }
    }
    if (late > said) {
        hd_text_add(text, ", and %u more processes", late - said);
    } else if (late == 0 && kin->peer[kin->leader]) {
        say_process(kin, kin->leader, hd_node_peer_state(kin->peer[kin->leader]), text);
    } else if (late == 0) {
        hd_text_add(text, "other processes of its machine");
    }
    pthread_mutex_unlock(&kin->lock);
}

ucc_status_t hd_kin_test(hd_kin_t *kin) {
    if (kin->node) {
        hd_kin_progress(kin->node);
    }
    pthread_mutex_lock(&kin->lock);
    if (kin->status == UCC_INPROGRESS) {
        kin->status = kin->birth ? hear(kin) : get(kin);
        kin->status = kin->status == UCC_INPROGRESS ? lose_patience(kin) : kin->status;
    }
    ucc_status_t status = kin->status;
    pthread_mutex_unlock(&kin->lock);
    return status;
}

hd_obstacle_t hd_kin_obstacle(const hd_kin_t *kin) {
    hd_obstacle_t none = {.kind = HD_OBSTACLE_MEMORY, .state = HD_NODE_NO_MEMORY};
    return kin && kin->obstacle.kind ? kin->obstacle : none;
}

void hd_kin_say_why(hd_kin_t *kin, hd_text_t *text) {
    uint32_t p = kin->culprit;
    pthread_mutex_lock(&kin->lock);
    bool memory = kin->obstacle.kind == HD_OBSTACLE_MEMORY;
    bool known = memory || kin->obstacle.kind == HD_OBSTACLE_OTHERS;
    if (memory && p == kin->span->mine) {
        hd_text_add(text, "; this process %s",
                    hd_node_describe((hd_node_state_t)kin->obstacle.state));
    } else if (known && p < kin->span->processes && kin->peer[p]) {
        hd_who_t who = who_of(kin, p);
        hd_text_add(text, "; process %u (host %s, pid %u) %s", kin->process[p].number, who.host,
                    who.pid,
                    memory ? hd_node_describe((hd_node_state_t)kin->obstacle.state)
                           : "could not, and says why");
    }
    pthread_mutex_unlock(&kin->lock);
}

bool hd_kin_all_lack(const hd_kin_t *kin) {
    return !kin->late;
}

/* Its processes know each other's yields as those of the scope do. */
static void share_processors(hd_kin_t *kin) {
    /* all have mapped the scope's memory, but perhaps not yet that of a team that is ahead */
    bool lacks = hd_group_lacks_processors(kin->scope ? kin->scope : kin->group, kin->span->n,
                                           hd_span_count(kin->span, kin->span->mine));
    uint64_t name = kin->scope ? kin_of(kin->scope)->yields : kin->group->serial;
    kin->processors = hd_processors_share(kin->scope ? NULL : kin->group->yields, name, lacks);
    kin->yields = kin->processors.by_table ? name : 0;
}

hd_group_t *hd_kin_found(hd_kin_t *kin) {
    hd_assert(kin->status == UCC_OK && !kin->found);
    kin->found = true;
    share_processors(kin);
    if (kin->scope && !kin->birth && kin_of(kin->scope)->of_node) {
        leave_scope(kin);
    }
    atomic_fetch_add_explicit(&kin->refs, 1, memory_order_relaxed); /* the caller has one */
    kin->group->kin = &kin->memory;
    return kin->group;
}

void hd_kin_fail(hd_kin_t *kin, ucc_status_t why) {
    pthread_mutex_lock(&kin->lock);
    if (kin->group) {
        hd_group_poison(kin->group, why);
    }
    if (kin->birth) {
        end_birth(kin, why);
    }
    kin->status = kin->status == UCC_INPROGRESS ? why : kin->status;
    pthread_mutex_unlock(&kin->lock);
}

/* --- of a group ------------------------------------------------------------------------------- */

void hd_kin_is_scope(hd_kin_t *kin) {
    atomic_store_explicit(&kin->is_scope, true, memory_order_relaxed); /* see look_at */
}

const hd_span_t *hd_kin_span(const hd_group_t *group) {
    return group->kin && !kin_of(group)->of_node ? kin_of(group)->span : NULL;
}

ucc_status_t hd_kin_birth_status(const hd_group_t *group) {
    hd_kin_t *kin = kin_of(group);
    pthread_mutex_lock(&kin->lock);
    ucc_status_t status = kin->birth ? hd_birth_status(kin->birth) : UCC_OK;
    pthread_mutex_unlock(&kin->lock);
    return status;
}

uint64_t hd_kin_wire(const hd_group_t *group) {
    return kin_of(group)->wire;
}

const hd_kin_process_t *hd_kin_processes(const hd_group_t *group) {
    return kin_of(group)->process;
}

bool hd_form_has_left(const hd_group_t *group, uint32_t p) {
    const hd_crossing_t *crossing = hd_group_crossing(group);
    return crossing ? hd_net_team_has_left(crossing->team, p) : has_left(kin_of(group), p);
}

/* Process p of the kin: has this process lost it, or one of the others, which has said so before it
 * poisoned the group? Who has seen the poison must not count on the dead, as the others don't. */
static bool has_lost(const hd_kin_t *kin, uint32_t p) {
    return kin->peer[p] &&
           (hd_node_peer_state(kin->peer[p]) >= HD_NODE_FIRST_FAILURE ||
            hd_group_has_lost(kin->group, p)) &&
           !has_left(kin, p);
}

void hd_form_look_for_losses(const hd_group_t *group) {
    const hd_crossing_t *crossing = hd_group_crossing(group);
    if (crossing) {
        hd_net_look(crossing->net);
        hd_span_drain();
    }
    if (group->kin) {
        hd_kin_progress(kin_of(group)->node);
    }
}

bool hd_form_has_lost(const hd_group_t *group, uint32_t p) {
    const hd_crossing_t *crossing = hd_group_crossing(group);
    const hd_nodes_t *nodes = crossing ? crossing->nodes : NULL;
    if (crossing && hd_net_team_has_lost(crossing->team, p)) {
        return true;
    }
    for (uint32_t i = 0; nodes && group->kin && i < kin_of(group)->span->processes; i++) {
        if (nodes->process[nodes->first[nodes->span->mine] + i] == p) {
            return has_lost(kin_of(group), i);
        }
    }
    return !crossing && has_lost(kin_of(group), p);
}

bool hd_kin_has_survivors(uint64_t over) {
    bool has = false;
    pthread_mutex_lock(&watch.lock);
    for (const hd_kin_t *kin = watch.list; kin && !has; kin = kin->next) {
        has = kin->over == over && hd_group_poisoned(kin->group) == UCC_OK;
    }
    pthread_mutex_unlock(&watch.lock);
    return has;
}

void hd_kin_descend(hd_group_t *group, hd_origin_t *origin, uint64_t *in_origin) {
    hd_kin_t *kin = kin_of(group);
    /* relaxed: nobody else knows the group yet */
    atomic_store_explicit(&kin->origin, origin, memory_order_relaxed);
    kin->in_origin = in_origin;
}

hd_origin_t *hd_kin_origin(hd_group_t *group) {
    hd_kin_t *kin = kin_of(group);
    /* acquire: pairs with the swap below */
    hd_origin_t *origin = atomic_load_explicit(&kin->origin, memory_order_acquire);
    hd_origin_t *made = origin ? NULL : hd_origin_create(kin->wire, kin->span);
    if (!made) {
        return origin;
    }
    /* acq_rel: publishes it, or takes another thread's */
    if (atomic_compare_exchange_strong_explicit(&kin->origin, &origin, made, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return made;
    }
    hd_origin_drop(made);
    return origin;
}

const uint64_t *hd_kin_in_origin(const hd_group_t *group) {
    return kin_of(group)->in_origin;
}

hd_group_t *hd_kin_scope(hd_group_t *group) {
    hd_group_t *scope = kin_of(group)->scope;
    return scope ? scope : group;
}

hd_origin_t *hd_kin_agreement(hd_group_t *group, uint64_t number) {
    hd_kin_t *kin = kin_of(group);
    hd_origin_t *origin = hd_kin_origin(group);
    return origin ? hd_origin_of_agreement(origin, &kin->agreements, kin->wire, kin->span, number)
                  : NULL;
}

bool hd_kin_lacks_endpoint(const hd_group_t *group) {
    const hd_span_t *span = kin_of(group)->span;
    bool lacks = false;
    for (uint32_t i = 0; !lacks && i < hd_span_count(span, span->mine); i++) {
        lacks = hd_group_has_left(group, hd_span_endpoint(span, span->mine, i));
    }
    return lacks;
}

bool hd_kin_lacks_all(const hd_group_t *group) {
    return has_left(kin_of(group), kin_of(group)->span->mine);
}
