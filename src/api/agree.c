/* agree.c: agreements: all endpoints of a team that are left get the same bits, and the same set of
 * endpoints that have failed, also if processes die meanwhile.
 *
 * An agreement is a row of ATTEMPTS. Each makes a team of those that are left (form/shrink.c), and
 * on it does three collectives:
 *
 *   WHO      is anybody locked on a decision, and who was last? This is a new round, too
 *   WHAT     if somebody is, he who was last gives his decision to all; else a new one is made: the
 *            AND of all bits, and the endpoints that are not in the attempt's team. All are LOCKED
 *            on it then
 *   BARRIER  who has passed it returns the decision
 *
 * If any of that fails, another attempt follows, with the lock. Who has passed the barrier knows
 * that all were locked in this round, so whatever is decided later is the same: of all locks in a
 * later attempt the last one has this decision. That is why all that return return the same, also
 * those that die as they do.
 *
 * Who has returned takes part in no more attempts. So it tells all, before, that its decision is
 * AGREED on (net/gossip.c). Whoever is still trying is locked on it, for it was in that barrier's
 * team, and returns it, too. Decisions have names, so nobody takes one for another.
 *
 * Two parts of a network that have given up each other may decide differently, as they may both
 * have teams: NET_QUORUM prevents both.
 *
 * A team inside one process has nobody to lose: a plain allreduce does.
 */
#include "api/calls.h"
#include "core/hash.h"
#include "form/kin.h"
#include "span/span.h"
#include "threads/callback.h"

#include <string.h>

typedef enum step { NEXT, FORM, WHO, WHAT, BARRIER, ALONE, CLOSE, OVER } step_t;

/* What is decided: `failed` has a bit for each endpoint of the team. */
typedef struct verdict {
    uint64_t bits, name, failed[];
} verdict_t;

struct heddle_agreement {
    step_t step;
    ucc_status_t result; /* UCC_INPROGRESS: there is none yet */
    ucc_team_h team;
    uint32_t n;             /* its size; the team may be gone before the agreement */
    ucc_team_h left;        /* the attempt's; NULL: none */
    ucc_coll_req_h request; /* NULL: none */
    hd_origin_t *origin;    /* of all attempts' teams; NULL: the team is inside this process */
    uint64_t over;          /* what is to be told (hd_team_tell_over); 0: nothing (any more) */
    uint32_t leavers;       /* processes that had left the team when the attempt began */
    uint64_t bits;          /* the caller's */
    uint64_t round, locked; /* the last that this endpoint knows of; in which it was locked, or 0 */
    uint64_t who[2];        /* WHO: the last lock and its holder; the last round */
    hd_net_decision_t agreed;
    uint64_t number;         /* of this agreement in its team, from 1 */
    uint32_t words;          /* in verdict_t.failed */
    verdict_t *lock, *draft; /* what it is locked on; what an attempt is about to decide */
};

/* --- collectives of an attempt ---------------------------------------------------------------- */

/* On the agreement's own team it has a tag, as that one may be unordered. */
static ucc_status_t start(heddle_agreement_t *a, ucc_coll_args_t *args, ucc_team_h team) {
    static const uint64_t tag = UINT64_C(0x8061677265650001); /* none that a program would use */
    ucc_status_t status =
        hd_api_init(args, team == a->team ? &tag : NULL, &a->request, team, "heddle_team_agree");
    if (status == UCC_OK) {
        status = hd_request_post((hd_request_t *)(void *)a->request);
    } else {
        a->request = NULL;
    }
    return status;
}

static ucc_status_t reduce(heddle_agreement_t *a, ucc_team_h team, uint64_t *values, uint64_t n,
                           ucc_reduction_op_t op) {
    ucc_coll_args_t args;
    hd_reduce_call(&args, UCC_COLL_TYPE_ALLREDUCE, HEDDLE_IN_PLACE, values, n, UCC_DT_UINT64, op);
    return start(a, &args, team);
}

static ucc_status_t start_who(heddle_agreement_t *a) {
    a->who[0] = a->locked ? a->locked << 32 | (a->left->ep + 1) : 0;
    a->who[1] = a->round;
    return reduce(a, a->left, a->who, 2, UCC_OP_MAX);
}

/* The number in the agreement's team of endpoint i of the attempt's. */
static uint64_t number_of(const heddle_agreement_t *a, uint32_t i) {
    if (a->left->crossing) {
        return a->left->crossing->in_origin[i];
    }
    if (hd_kin_span(a->left->group)) {
        return hd_kin_in_origin(a->left->group)[i];
    }
    const hd_span_t *span = hd_form_span(a->team->group);
    return hd_span_endpoint(span, span->mine, i); /* only they are left */
}

/* The failed endpoints of a new decision, and its name: the attempts' teams differ, or the rounds
 * do. */
static void draft(heddle_agreement_t *a) {
    verdict_t *v = a->draft;
    memset(v->failed, 0, a->words * sizeof(v->failed[0]));
    for (uint32_t i = 0; i < a->n; i++) {
        v->failed[i / 64] |= UINT64_C(1) << i % 64;
    }
    for (uint32_t i = 0; i < a->left->n; i++) {
        uint64_t ep = number_of(a, i);
        v->failed[ep / 64] &= ~(UINT64_C(1) << ep % 64);
    }
    hd_fingerprint_t failed = hd_fingerprint(v->failed, a->words);
    uint64_t set = hd_hash_mix(hd_hash_mix(a->origin->wire, failed.word[0]), failed.word[1]);
    v->name = hd_hash_mix(set, a->round);
    v->bits = a->bits;
}

static ucc_status_t start_what(heddle_agreement_t *a) {
    a->round = a->who[1] + 1;
    if (a->who[0] == 0) {
        draft(a);
        return reduce(a, a->left, &a->draft->bits, 1, UCC_OP_BAND);
    }
    size_t words = sizeof(verdict_t) / sizeof(uint64_t) + a->words;
    uint32_t root = (uint32_t)a->who[0] - 1;
    ucc_coll_args_t args;
    if (root == a->left->ep) {
        memcpy(a->draft, a->lock, words * sizeof(uint64_t));
    }
    hd_bcast_call(&args, UCC_COLL_TYPE_BCAST, a->draft, words, UCC_DT_UINT64, root);
    return start(a, &args, a->left);
}

/* From now on this endpoint brings that decision to later attempts, and hears when others return
 * it. */
static void take_lock(heddle_agreement_t *a) {
    verdict_t *old = a->lock;
    a->lock = a->draft;
    a->draft = old;
    a->locked = a->round;
    if (a->origin && a->team->crossing) {
        hd_net_await(a->team->crossing->net, &a->agreed, a->lock->name);
    }
}

static ucc_status_t start_barrier(heddle_agreement_t *a) {
    ucc_coll_args_t args;
    take_lock(a);
    hd_call_of(&args, UCC_COLL_TYPE_BARRIER, NULL);
    return start(a, &args, a->left);
}

/* --- steps ------------------------------------------------------------------------------------ */

static ucc_status_t finish(heddle_agreement_t *a, ucc_status_t result) {
    a->result = result;
    a->step = CLOSE;
    return UCC_OK;
}

static bool others_have(heddle_agreement_t *a) {
    return a->team->crossing ? hd_net_is_agreed(a->team->crossing->net, &a->agreed)
                             : hd_group_is_agreed(a->team->group, a->number, a->lock->name);
}

/* An attempt has failed. If it may be for a process that is gone, or since another one gave up this
 * attempt, another one follows. */
static ucc_status_t fail(heddle_agreement_t *a, ucc_status_t why) {
    if (a->origin && others_have(a)) {
        return finish(a, UCC_OK);
    }
    bool again = why == UCC_ERR_IO_ERROR || why == HEDDLE_ERR_ABORTED || why == UCC_ERR_NOT_FOUND;
    if (a->left && a->left->group) {
        hd_group_poison(a->left->group, why); /* the others must not wait for me */
    }
    return finish(a, again ? UCC_INPROGRESS : why);
}

static uint32_t count_leavers(const heddle_agreement_t *a) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < hd_form_span(a->team->group)->processes; p++) {
        n += hd_form_has_left(a->team->group, p);
    }
    return n;
}

/* Have endpoints of this process left the team? */
static bool has_lost_endpoint(const heddle_agreement_t *a) {
    const hd_group_t *group = a->team->group; /* one with a kin has others' endpoints, too */
    return group->kin ? hd_kin_lacks_endpoint(group) : hd_group_has_leavers(group);
}

/* The endpoints of a process take part together, so one that has left the team is waited for in
 * vain. */
static bool lacks_endpoint(const heddle_agreement_t *a) {
    bool lacks = has_lost_endpoint(a);
    if (lacks) {
        hd_error("heddle_team_agree: endpoints of this process have left the team, endpoint %u "
                 "waits in vain",
                 a->team->ep);
    }
    return lacks;
}

/* Those who wait in a team that was made of those left must not wait for who agrees. */
static void tell_over(heddle_agreement_t *a) {
    if (a->over && hd_team_tell_over(a->team, a->over)) {
        a->over = 0;
    }
}

static ucc_status_t step_next(heddle_agreement_t *a) {
    if (others_have(a)) {
        return finish(a, UCC_OK);
    }
    if (lacks_endpoint(a)) {
        return finish(a, others_have(a) ? UCC_OK : UCC_ERR_NOT_FOUND); /* it may have returned */
    }
    a->leavers = count_leavers(a);
    ucc_status_t status = hd_team_shrink(a->team, a->origin, &a->left);
    if (status != UCC_OK) {
        a->left = NULL;
        return fail(a, status);
    }
    a->left->ordering = UCC_COLLECTIVE_POST_ORDERED; /* whatever the parent's is */
    a->step = FORM;
    return UCC_OK;
}

static ucc_status_t step_form(heddle_agreement_t *a) {
    ucc_status_t status = hd_team_create_test(a->left);
    tell_over(a);
    if (status == UCC_INPROGRESS && others_have(a)) { /* they don't come to this team */
        return finish(a, UCC_OK);
    }
    if (status == UCC_INPROGRESS && (count_leavers(a) != a->leavers || has_lost_endpoint(a))) {
        status = UCC_ERR_NOT_FOUND; /* to another attempt, without who has left, or to the end */
    }
    if (status == UCC_OK) {
        a->step = WHO;
        status = start_who(a);
    }
    return status < 0 ? fail(a, status) : status;
}

static void tell_agreed(heddle_agreement_t *a) {
    if (a->team->crossing) {
        hd_net_tell_agreed(a->team->crossing->net, a->lock->name);
    } else {
        hd_group_tell_agreed(a->team->group, a->number, a->lock->name);
    }
}

/* Waits for the collective that is under way, and begins what follows. */
static ucc_status_t step_collective(heddle_agreement_t *a) {
    hd_request_t *r = (hd_request_t *)(void *)a->request;
    ucc_status_t status = hd_task_status(&r->op.task);
    if (status == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    hd_request_finalize(r);
    a->request = NULL;
    step_t was = a->step;
    if (status == UCC_OK && (was == BARRIER || was == ALONE)) {
        if (was == BARRIER) {
            tell_agreed(a);
        } else {
            take_lock(a);
        }
        return finish(a, UCC_OK);
    }
    if (status == UCC_OK) {
        a->step = was == WHO ? WHAT : BARRIER;
        status = was == WHO ? start_what(a) : start_barrier(a);
    }
    if (status >= 0) {
        return UCC_OK;
    }
    return was == ALONE ? finish(a, status) : fail(a, status);
}

/* Ends the attempt's team. */
static ucc_status_t step_close(heddle_agreement_t *a) {
    if (a->request) { /* it could not be posted */
        hd_request_finalize((hd_request_t *)(void *)a->request);
        a->request = NULL;
    }
    if (a->left && hd_team_destroy(a->left) == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    a->left = NULL;
    if (a->result == UCC_INPROGRESS) {
        a->step = NEXT;
        return UCC_INPROGRESS; /* the caller may have more to do between attempts */
    }
    if (a->origin) {
        if (a->result == UCC_OK) {
            hd_team_note_failed(a->team, a->lock->failed);
        }
        if (a->team->crossing) {
            hd_net_await_no_more(a->team->crossing->net, &a->agreed);
        }
        hd_origin_drop(a->origin);
        a->origin = NULL;
    }
    hd_team_hold(a->team, false);
    a->step = OVER;
    return UCC_OK;
}

static ucc_status_t drive(heddle_agreement_t *a) {
    static ucc_status_t (*const step[])(heddle_agreement_t * a) = {
        [NEXT] = step_next,       [FORM] = step_form,          [WHO] = step_collective,
        [WHAT] = step_collective, [BARRIER] = step_collective, [ALONE] = step_collective,
        [CLOSE] = step_close};
    for (uint32_t i = 0; i < a->team->n_contexts; i++) {
        hd_api_look_at(a->team->contexts[i]);
    }
    while (a->step != OVER) {
        if (step[a->step](a) == UCC_INPROGRESS) {
            return UCC_INPROGRESS;
        }
    }
    return a->result;
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_inherited(ucc_team_h team) {
    if (!hd_group_is_inherited(team->group)) {
        return false;
    }
    hd_group_say_inherited(team->group);
    return true;
}

/* NULL: no memory (logged). */
static heddle_agreement_t *make(ucc_team_h team, uint64_t bits) {
    uint32_t words = (team->n + 63) / 64;
    size_t bytes = sizeof(verdict_t) + words * sizeof(uint64_t);
    heddle_agreement_t *a = hd_alloc(HD_LINE, sizeof(*a) + 2 * bytes);
    if (!a) {
        hd_error("no memory for an agreement of %u endpoints", team->n);
        return NULL;
    }
    a->team = team;
    a->n = team->n;
    a->bits = bits;
    a->result = UCC_INPROGRESS;
    a->words = words;
    a->lock = (verdict_t *)(void *)(a + 1);
    a->draft = (verdict_t *)(void *)((char *)(a + 1) + bytes);
    return a;
}

/* The endpoint's next agreement begins, in a team of one process or of several. */
static ucc_status_t begin(heddle_agreement_t *a) {
    ucc_team_h team = a->team;
    if (!hd_form_span(team->group)) {
        a->step = ALONE;
        a->draft->bits = a->bits;
        return reduce(a, team, &a->draft->bits, 1, UCC_OP_BAND);
    }
    if (team->crossing && !hd_net_team_has_watch(team->crossing->team)) {
        hd_error("heddle_team_agree: a process of the team has no connections to watch the others "
                 "(NET_WATCH), or two hosts can have none to each other (NET_WATCH_DEVICES)");
        return UCC_ERR_NOT_SUPPORTED;
    }
    a->number = team->agreements + 1;
    a->origin = team->crossing ? hd_crossing_origin(team->crossing, a->number)
                               : hd_kin_agreement(team->group, a->number);
    if (!a->origin) {
        return UCC_ERR_NO_MEMORY;
    }
    team->agreements++;
    a->over = hd_team_begin_era(team, a->number);
    tell_over(a);
    return UCC_OK;
}

static ucc_status_t post(ucc_team_h team, uint64_t bits, heddle_agreement_t **agreement) {
    if (is_inherited(team)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    heddle_agreement_t *a = make(team, bits);
    ucc_status_t status = a ? begin(a) : UCC_ERR_NO_MEMORY;
    if (status != UCC_OK) {
        if (a && a->request) {
            hd_request_finalize((hd_request_t *)(void *)a->request);
        }
        hd_free(a);
        return status;
    }
    hd_team_hold(team, true);
    *agreement = a;
    return UCC_OK;
}

ucc_status_t heddle_agree_post(ucc_team_h team, uint64_t bits, heddle_agreement_t **agreement) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(agreement, "agreement", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return post(team, bits, agreement);
}

ucc_status_t heddle_agree_test(heddle_agreement_t *a, uint64_t *bits, uint64_t *failed,
                               uint64_t *n_failed) {
    if (!hd_api_pointer(a, "agreement", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (a->step != OVER && is_inherited(a->team)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = a->step == OVER ? a->result : drive(a);
    if (status != UCC_OK) {
        return status;
    }
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->lock->failed[i / 64] >> i % 64 & 1) {
            if (failed) {
                failed[n] = i;
            }
            n++;
        }
    }
    if (bits) {
        *bits = a->lock->bits;
    }
    if (n_failed) {
        *n_failed = n;
    }
    return UCC_OK;
}

ucc_status_t heddle_agree_free(heddle_agreement_t *a) {
    if (!hd_api_pointer(a, "agreement", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (a->step != OVER) {
        hd_error("%s: the agreement is in progress: the others need this endpoint", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_free(a);
    return UCC_OK;
}

ucc_status_t heddle_team_agree(ucc_team_h team, uint64_t *bits, uint64_t *failed,
                               uint64_t *n_failed) {
    enum { SPINS = 200, NAP_NS = 50000 };
    heddle_agreement_t *a;
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(bits, "bits", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_callback_refuses(__func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = post(team, *bits, &a);
    if (status != UCC_OK) {
        return status;
    }
    /* What is awaited may be other processes' words, for which no bell rings here. */
    for (uint32_t vain = 0; (status = heddle_agree_test(a, bits, failed, n_failed)) > 0; vain++) {
        _Atomic uint32_t word = 0;
        if (vain >= SPINS) {
            hd_park_sleep(&word, 0, NAP_NS);
        }
    }
    hd_free(a);
    return status;
}

ucc_status_t heddle_agree(heddle_ep_t *ep, uint64_t *bits, uint64_t *failed, uint64_t *n_failed) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return heddle_team_agree(ep->team, bits, failed, n_failed);
}

ucc_status_t heddle_team_failed(ucc_team_h team, uint64_t *failed, uint64_t *n_failed) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(n_failed, "n_failed", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (is_inherited(team)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    *n_failed = 0;
    const hd_span_t *span = hd_form_span(team->group);
    if (span) {
        hd_form_look_for_losses(team->group);
    }
    for (uint32_t i = 0; span && i < team->n; i++) {
        if (hd_form_has_lost(team->group, span->process_of[i])) {
            if (failed) {
                failed[*n_failed] = i;
            }
            ++*n_failed;
        }
    }
    return UCC_OK;
}
