/* algorithm.c: algorithms that users register for a team's collectives.
 *
 * Registering puts an OFFER on the team handle's list (or on its context's, from which new handles
 * take theirs). A call that no kept plan fits looks through the offers (hd_algorithm_prepare,
 * called by request.c). The first algorithm that takes the call makes a schedule, and the request
 * becomes the schedule's face: it takes no number of the team, posting it starts a RUN of the
 * schedule in the handle's first context, and the end of the run completes it.
 *
 * The library has an algorithm of its own, for calls whose arguments mean something else
 * (api/one_sided.c). It is asked before the arguments are looked at; it runs the call, or the call
 * is refused.
 *
 * Calls with a tag or an active set are never offered: they are what algorithms are made of. Each
 * run has 65536 tags of its own. Which ones, follows from the order of the posts (or of the inits,
 * for a persistent request or a team that orders those), in which all endpoints agree.
 *
 * A run that fails poisons the group, so that nobody waits for what this endpoint will not do; and
 * a group that is poisoned cancels its runs. Inner operations that are in progress then may belong
 * to other groups, where they wait for peers that have been canceled, too: those groups are
 * poisoned as well (api/request_task.c).
 *
 * Lifetimes. An algorithm has references from its offers and its requests, so that these go on
 * after it was unregistered.
 */
#include "request/algorithm.h"
#include "request/internal.h"
#include "threads/trace.h"

#include <stdio.h>
#include <string.h>

/* DEEPEST: so many runs may be inside each other; more are a mistake that would never end */
enum { ALGORITHM_MAGIC = 0xa190417bu, NAME = 64, DEEPEST = 15 };

struct heddle_algorithm {
    uint32_t magic;
    _Atomic uint32_t refs;
    _Atomic bool gone;     /* unregistered */
    ucc_context_h context; /* whose list its offer is on; NULL: a team's */
    heddle_algorithm_params_t params;
    hd_algorithm_redefines_fn redefines; /* NULL: it is a user's */
    char name[NAME];
};

/* An algorithm on a list. */
typedef struct hd_offer {
    heddle_algorithm_t *algorithm;
    /* params.join has been called for the team (if there is one); team_data is what it said */
    bool joined;
    void *team_data;
    struct hd_offer *next;
} hd_offer_t;

/* What a request keeps if an algorithm runs its calls. */
struct hd_run {
    hd_request_t *r;
    heddle_algorithm_t *algorithm;
    hd_schedule_t *schedule;
    void *self;
    uint64_t number;     /* its tags follow from this; 0: a number is drawn at each post */
    uint32_t occurrence; /* posts so far, of a persistent request */
    bool from_outside;   /* the team has failed for another reason, which was logged */
    char title[160];
};

/* --- registering ------------------------------------------------------------------------------ */

static void ref(heddle_algorithm_t *a) {
    /* relaxed: the caller has a reference, or has just made the algorithm */
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
}

static void unref(heddle_algorithm_t *a) {
    /* acq_rel: every user's use happens before the end */
    uint32_t refs = atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel);
    hd_assert_lt(0, refs);
    if (refs == 1) {
        a->magic = HD_DEAD_MAGIC;
        hd_free(a);
    }
}

/* Returns an offer with a reference to its algorithm. NULL: no memory. */
static hd_offer_t *make_offer(heddle_algorithm_t *a) {
    hd_offer_t *offer = hd_alloc(HD_LINE, sizeof(*offer));
    if (offer) {
        ref(a);
        offer->algorithm = a;
    }
    return offer;
}

void hd_algorithms_end(hd_offer_t *offers) {
    while (offers) {
        hd_offer_t *next = offers->next;
        heddle_algorithm_t *a = offers->algorithm;
        if (offers->joined && a->params.leave) {
            a->params.leave(offers->team_data);
        }
        unref(a);
        hd_free(offers);
        offers = next;
    }
}

/* Plans that the handle has kept do not ask for algorithms: forgets them all. */
static void forget_plans(ucc_team_h team) {
    hd_lock(&team->lock);
    for (hd_request_t *r = team->all; r; r = r->all) {
        r->shape.type = 0;
    }
    hd_unlock(&team->lock);
    hd_team_clear_call_cache(team);
}

ucc_status_t hd_algorithm_register(ucc_team_h team, ucc_context_h context,
                                   const heddle_algorithm_params_t *params,
                                   hd_algorithm_redefines_fn redefines, heddle_algorithm_t **out) {
    heddle_algorithm_t *a = hd_alloc(HD_LINE, sizeof(*a));
    hd_offer_t *offer = a ? make_offer(a) : NULL;
    if (!offer) {
        hd_error("no memory for an algorithm");
        hd_free(a);
        return UCC_ERR_NO_MEMORY;
    }
    a->magic = ALGORITHM_MAGIC;
    a->context = context;
    a->params = *params;
    a->redefines = redefines;
    snprintf(a->name, sizeof(a->name), "%s", params->name ? params->name : "without a name");
    a->params.name = a->name;
    if (team) {
        offer->next = team->offers;
        team->offers = offer;
        forget_plans(team);
    } else {
        hd_lock(&context->offers_lock);
        offer->next = context->offers;
        context->offers = offer;
        hd_unlock(&context->offers_lock);
    }
    *out = a;
    return UCC_OK;
}

bool hd_algorithm_is_live(const heddle_algorithm_t *a) {
    return a && a->magic == ALGORITHM_MAGIC;
}

/* The offers of teams stay where they are, for params.leave. The context's is of no more use. */
ucc_status_t hd_algorithm_unregister(heddle_algorithm_t *a) {
    ucc_context_h context = a->context;
    /* relaxed: the caller keeps inits of the handles concerned apart */
    if (atomic_exchange_explicit(&a->gone, true, memory_order_relaxed)) {
        hd_error("the algorithm \"%s\" is unregistered twice", a->name);
        return UCC_ERR_INVALID_PARAM;
    }
    if (!context) {
        return UCC_OK;
    }
    hd_lock(&context->offers_lock);
    hd_offer_t **at = &context->offers;
    while ((*at)->algorithm != a) {
        at = &(*at)->next;
    }
    hd_offer_t *offer = *at;
    *at = offer->next;
    hd_unlock(&context->offers_lock);
    offer->next = NULL;
    hd_algorithms_end(offer);
    return UCC_OK;
}

ucc_status_t hd_algorithms_inherit(ucc_team_h team, ucc_context_h context) {
    ucc_status_t status = UCC_OK;
    hd_offer_t **at = &team->offers;
    hd_lock(&context->offers_lock);
    for (hd_offer_t *o = context->offers; o && status == UCC_OK; o = o->next) {
        *at = make_offer(o->algorithm);
        if (*at) {
            at = &(*at)->next;
        } else {
            status = UCC_ERR_NO_MEMORY;
        }
    }
    hd_unlock(&context->offers_lock);
    if (status != UCC_OK) {
        hd_error("no memory for a team's algorithms");
        hd_algorithms_end(team->offers);
        team->offers = NULL;
    }
    return status;
}

/* --- init ------------------------------------------------------------------------------------- */

static void over(void *arg, ucc_status_t status);

bool hd_algorithm_has(const hd_schedule_t *schedule) {
    return schedule->done == over;
}

/* Returns why a schedule can't be a request's until it ends; NULL: it can. */
static const char *what_is_wrong_with(const hd_schedule_t *schedule) {
    if (!schedule) {
        return "has made no schedule";
    }
    if (!hd_schedule_is_in_place(schedule)) {
        return "has made a schedule that was never initialised, or has moved";
    }
    if (hd_algorithm_has(schedule)) {
        return "has made a schedule that is another request's";
    }
    if (schedule->super.schedule || hd_schedule_result(schedule) == UCC_INPROGRESS) {
        return "has made a schedule that runs already, or is part of another";
    }
    return NULL;
}

static uint64_t draw_number(ucc_team_h team, bool persistent) {
    hd_lock(&team->lock);
    uint64_t number = persistent ? ++team->persistent_runs : ++team->runs;
    hd_unlock(&team->lock);
    return number;
}

/* The frame of a request that an algorithm runs: finalize looks whether there is one. */
static const hd_frame_t face = {0};

/* An algorithm has made this schedule for the call, which the request becomes the face of. */
static void become_face(hd_request_t *r, struct hd_run *run, hd_schedule_t *schedule) {
    ucc_team_h team = r->op.team;
    heddle_algorithm_t *a = run->algorithm;
    ref(a);
    run->r = r;
    run->schedule = schedule;
    schedule->done = over;
    schedule->arg = run;
    snprintf(run->title, sizeof(run->title), "%s at endpoint %u of %u, by the algorithm \"%s\"",
             hd_type_name(r->op.call.type), team->ep, team->n, a->name);
    hd_pack_release(r); /* the algorithm packs for itself */
    r->op.prepare = NULL;
    r->op.frame = &face;
    r->route = HD_ROUTE_NOTHING;
    r->express = NULL;
    r->run = run;
    if (r->op.call.persistent || hd_team_orders_inits(team)) {
        run->number = draw_number(team, r->op.call.persistent);
    }
}

/* Lets the algorithm make a schedule for a call that it takes, and makes this the request's run. */
static ucc_status_t make_run(hd_request_t *r, heddle_algorithm_t *a,
                             const heddle_algorithm_call_t *call) {
    const char *name = hd_type_name(r->op.call.type);
    ucc_schedule_t *schedule = NULL;
    struct hd_run *run = hd_alloc(HD_LINE, sizeof(*run));
    if (!run) {
        hd_error("%s: no memory for a run of \"%s\"", name, a->name);
        return UCC_ERR_NO_MEMORY;
    }
    run->algorithm = a;
    ucc_status_t status = a->params.init(call, a->params.arg, &schedule, &run->self);
    const char *wrong = status == UCC_OK ? what_is_wrong_with((hd_schedule_t *)schedule) : NULL;
    if (wrong) {
        hd_error("%s: the algorithm \"%s\" %s", name, a->name, wrong);
        a->params.finalize(run->self);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status != UCC_OK && status != UCC_ERR_NOT_SUPPORTED && !wrong) {
        hd_error("%s: init of the algorithm \"%s\" returned %s", name, a->name,
                 ucc_status_string(status));
        status = status > 0 ? UCC_ERR_INVALID_PARAM : status;
    }
    if (status == UCC_OK) {
        become_face(r, run, (hd_schedule_t *)schedule);
    } else {
        hd_free(run);
    }
    return status;
}

/* Lets an algorithm run the call. UCC_ERR_NOT_SUPPORTED: it does not take the call. Else it runs
 * the call, or has failed to. */
static ucc_status_t try_offer(hd_request_t *r, hd_offer_t *offer, heddle_algorithm_call_t *call) {
    const heddle_algorithm_params_t *p = &offer->algorithm->params;
    ucc_team_h team = r->op.team;
    /* relaxed: see hd_algorithm_unregister */
    if (atomic_load_explicit(&offer->algorithm->gone, memory_order_relaxed) ||
        !(p->coll_types & (uint64_t)call->args->coll_type)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!offer->joined && p->join) {
        ucc_status_t status = p->join(team, p->arg, &offer->team_data);
        if (status != UCC_OK) {
            hd_op_refuse(&r->op, status, "the algorithm \"%s\" could not join the team: %s",
                         p->name, ucc_status_string(status));
            return status == UCC_ERR_NOT_SUPPORTED || status > 0 ? UCC_ERR_NO_MESSAGE : status;
        }
    }
    offer->joined = true;
    call->team_data = offer->team_data;
    return p->matches && !p->matches(call, p->arg) ? UCC_ERR_NOT_SUPPORTED
                                                   : make_run(r, offer->algorithm, call);
}

/* Returns the offer that gives these arguments their meaning; NULL: it is the usual one. */
static const hd_offer_t *find_redefining(ucc_team_h team, const ucc_coll_args_t *args,
                                         ucc_coll_args_t *checked) {
    for (const hd_offer_t *o = team->offers; o; o = o->next) {
        const heddle_algorithm_t *a = o->algorithm;
        if (a->redefines && a->redefines(team, args, a->params.arg, checked)) {
            return o;
        }
    }
    return NULL;
}

/* Returns why no algorithm can run a call; NULL: one can. */
static const char *what_excludes(ucc_team_h team, const ucc_coll_args_t *args, bool tagged) {
    if (args->mask & UCC_COLL_ARGS_FIELD_ACTIVE_SET) {
        return "has an active set";
    }
    if (tagged || (args->mask & UCC_COLL_ARGS_FIELD_TAG)) {
        return "has a tag";
    }
    return hd_team_is_unordered(team) ? "is on an unordered team" : NULL;
}

/* Asks the algorithm that redefines the call; if there is none, those of users, one after the
 * other, until one takes the call. UCC_ERR_NOT_SUPPORTED: none does. */
static ucc_status_t ask_offers(hd_request_t *r, const ucc_coll_args_t *args,
                               const hd_offer_t *redefining) {
    ucc_team_h team = r->op.team;
    ucc_status_t status = UCC_ERR_NOT_SUPPORTED;
    heddle_algorithm_call_t call = {
        .args = args,
        .team = team,
        .context = team->contexts[0],
        .endpoint = team->ep,
        .size = team->n,
        .bytes = hd_coll[r->op.call.type].vector ? 0 : r->op.call.bytes,
    };
    if (hd_schedule_depth >= DEEPEST) {
        return hd_op_refuse(&r->op, UCC_ERR_INVALID_PARAM,
                            "algorithms run inside each other %d deep: the collectives that one "
                            "runs on its own team need tags",
                            (int)DEEPEST);
    }
    hd_schedule_depth++; /* what the algorithm initialises itself is inside of it */
    for (hd_offer_t *o = team->offers; o && status == UCC_ERR_NOT_SUPPORTED; o = o->next) {
        if (redefining ? o == redefining : !o->algorithm->redefines) {
            status = try_offer(r, o, &call);
        }
    }
    hd_schedule_depth--;
    return status;
}

ucc_status_t hd_algorithm_prepare(ucc_team_h team, const ucc_coll_args_t *args, bool tagged,
                                  hd_request_t *r) {
    ucc_coll_args_t checked;
    const hd_offer_t *redefining = find_redefining(team, args, &checked);
    const char *never = what_excludes(team, args, tagged);
    if (redefining && never) {
        hd_error("%s at endpoint %u: its arguments ask for the algorithm \"%s\", which can't run "
                 "one that %s",
                 hd_type_name(hd_type_of((uint64_t)args->coll_type)), team->ep,
                 redefining->algorithm->name, never);
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = hd_args_prepare(team, redefining ? &checked : args, r);
    if (status != UCC_OK || never || (!redefining && (!r->op.start || r->op.call.empty))) {
        return status;
    }
    status = ask_offers(r, args, redefining);
    return status == UCC_ERR_NOT_SUPPORTED && !redefining ? UCC_OK : status;
}

const char *hd_algorithm_name(const hd_request_t *r) {
    return r->run->algorithm->name;
}

hd_task_t *hd_algorithm_carrier(const hd_request_t *r) {
    return &r->run->schedule->carrier;
}

void hd_algorithm_release(hd_request_t *r) {
    struct hd_run *run = r->run;
    r->run = NULL;
    /* the schedule is the program's own again, which may keep it */
    run->schedule->name = NULL;
    run->schedule->watch = NULL;
    run->schedule->done = NULL;
    run->schedule->arg = NULL;
    run->schedule->aborts = run->schedule->aborted = false;
    run->schedule->carrier.home = NULL;
    run->schedule->carrier.deadline = 0;
    run->algorithm->params.finalize(run->self);
    unref(run->algorithm);
    hd_free(run);
}

/* --- post ------------------------------------------------------------------------------------- */

enum { TAG_BITS = 16, OCCURRENCE_BITS = 24, NUMBER_BITS = 22 };

/* Returns the first tag of a run that starts now. The highest bit says that a tag is a run's, the
 * next one that it is a persistent request's. */
static uint64_t next_tag(ucc_team_h team, struct hd_run *run) {
    if (run->r->op.call.persistent) {
        uint64_t number = run->number & (((uint64_t)1 << NUMBER_BITS) - 1);
        uint64_t occurrence = ++run->occurrence & (((uint64_t)1 << OCCURRENCE_BITS) - 1);
        return (uint64_t)3 << 62 | number << (OCCURRENCE_BITS + TAG_BITS) | occurrence << TAG_BITS;
    }
    uint64_t number = run->number ? run->number : draw_number(team, false);
    return (uint64_t)1 << 63 | (number << (TAG_BITS + 2)) >> 2;
}

/* schedule->watch: the run is canceled if the team has failed, or the time is up. */
static ucc_status_t watch(void *arg) {
    struct hd_run *run = arg;
    ucc_status_t status = hd_group_poisoned(run->r->op.group);
    uint64_t deadline = run->schedule->carrier.deadline;
    if (status != UCC_OK) {
        run->from_outside = true;
        return status;
    }
    return deadline && hd_ticks() > deadline ? UCC_ERR_TIMED_OUT : UCC_OK;
}

static void fail_team(const struct hd_run *run, ucc_status_t status) {
    hd_error("%s: failed: %s; so does the team", run->title, ucc_status_string(status));
    hd_group_poison(run->r->op.group, status);
}

/* schedule->done: the run's result is published. */
static void over(void *arg, ucc_status_t status) {
    struct hd_run *run = arg;
    hd_task_t *task = &run->r->op.task;
    hd_assert(run->r->run == run && task->queued);
    bool by_others = !run->schedule->aborted && hd_group_poisoned(run->r->op.group) != UCC_OK;
    if (status != UCC_OK && !run->from_outside && !by_others) {
        fail_team(run, status);
    }
    task->queued = false;
    if (hd_trace_is_on()) {
        hd_trace_done(run->r, status);
    }
    hd_task_complete(task, status); /* request and run may be gone now */
}

/* Sets up the schedule for a run in the handle's first context. */
static void attach(struct hd_run *run) {
    hd_schedule_t *s = run->schedule;
    hd_request_t *r = run->r;
    ucc_team_h team = r->op.team;
    uint64_t limit = team->group->timeout;
    hd_schedule_attach(s, &team->contexts[0]->runner, &team->group->home);
    s->name = run->title;
    s->watch = watch;
    s->aborts = true;
    s->aborted = false;
    s->patience = team->lib->stall;
    s->carrier.deadline = hd_request_deadline(r);
    if (!s->carrier.deadline && limit) {
        s->carrier.deadline = hd_ticks() + limit;
    }
    run->from_outside = false;
}

ucc_status_t hd_algorithm_post(hd_request_t *r) {
    struct hd_run *run = r->run;
    ucc_team_h team = r->op.team;
    const heddle_algorithm_params_t *p = &run->algorithm->params;
    uint64_t tag = next_tag(team, run);
    ucc_status_t status = hd_group_poisoned(r->op.group);
    if (status != UCC_OK) {
        hd_group_say_inherited(r->op.group);
        hd_error("%s: the team has failed: %s", run->title, ucc_status_string(status));
        return status;
    }
    attach(run);
    status = p->start ? p->start(run->self, tag) : UCC_OK;
    if (status == UCC_OK) {
        r->op.task.context = team->contexts[0];
        r->op.task.queued = true; /* the schedule's carrier is in the list instead */
        status = hd_schedule_start(run->schedule);
        if (status == UCC_OK) {
            return UCC_INPROGRESS;
        }
        r->op.task.queued = false;
    }
    status = status > 0 ? UCC_ERR_INVALID_PARAM : status;
    fail_team(run, status);
    return status;
}
