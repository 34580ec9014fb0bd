/* shrink.c: a team of those that are left of a team of several processes. derive.c calls this. On
 * the team that has failed, no exchange is possible, and none is needed: every process knows which
 * others are lost (net/news.c), and sooner or later all know the same. So each process makes the
 * team of those that it believes to be left (the SURVIVORS), under a wire id that follows from who
 * they are. Processes that believe the same meet in the greeting. A process that is mistaken greets
 * one that is gone, or waits for processes that know better, until it hears of the loss too: then
 * its team fails, and its caller comes again.
 *
 * If a process dies in the greeting, some processes have a team that they believe to be good, and
 * others come again. The former find their team broken and shrink it. The wire ids must be the same
 * then, whether a team was left by the first loss or by the second. So every team that was made
 * here knows its ORIGIN, the team that all of them come from, and the wire id follows from the
 * origin's, and from which of the origin's endpoints are left. If nobody is lost, the wire id
 * follows from the team itself.
 *
 * Endpoints of one process must believe the same at their k-th call. So the first of them decides
 * who the survivors are, and if one of them fails at its k-th call, the others fail at theirs,
 * whenever they come: otherwise their numbers of calls would differ from then on.
 */
#include "form/internal.h"

#include "core/hash.h"

/* Who is left, as the endpoints of this process believe at one of their calls. */
typedef struct survivors {
    uint32_t n;
    uint64_t left[]; /* those that are left, by their numbers in the team, ascending */
} survivors_t;

/* Decides who is left. NULL: no memory (logged). */
static void *decide(void *arg) {
    const hd_crossing_t *crossing = arg;
    const hd_span_t *span = crossing->span;
    survivors_t *s = hd_alloc(HD_LINE, sizeof(*s) + span->n * sizeof(s->left[0]));
    if (!s) {
        hd_error("no memory to shrink a team of %u", span->n);
        return NULL;
    }
    for (uint32_t i = 0; i < span->n; i++) {
        uint32_t p = span->process_of[i];
        if (p == span->mine || !hd_net_team_has_lost(crossing->team, p)) {
            s->left[s->n++] = i;
        } else {
            hd_net_team_tell_loss(crossing->team, p);
        }
    }
    return s;
}

/* Gives a new team of several processes its origin, and a wire id. */
static ucc_status_t name(hd_forming_t *f, const hd_crossing_t *crossing, const survivors_t *s) {
    const hd_origin_t *origin = &crossing->origin;
    uint64_t *endpoint = hd_alloc(HD_LINE, s->n * sizeof(*endpoint));
    if (!endpoint) {
        hd_error("no memory to shrink a team of %u", crossing->span->n);
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        endpoint[i] = origin->endpoint ? origin->endpoint[s->left[i]] : s->left[i];
    }
    f->origin.endpoint = endpoint;
    f->origin.wire = origin->endpoint ? origin->wire : hd_hash_mix(crossing->wire, 0x0716);
    hd_fingerprint_t list = hd_fingerprint(endpoint, s->n);
    f->wire = s->n == crossing->span->n
                  ? hd_hash_mix(crossing->wire, 0x5a3e)
                  : hd_hash_mix(hd_hash_mix(f->origin.wire, list.word[0]), list.word[1]);
    return UCC_OK;
}

/* Sets the new team's size, this endpoint's number in it, and what it needs to cross processes. The
 * first to come to the meeting decides who is left. */
static ucc_status_t choose(ucc_team_h parent, ucc_team_h team) {
    hd_crossing_t *crossing = parent->crossing;
    hd_forming_t *f = team->forming;
    const survivors_t *s = hd_meeting_prelude(f->meeting, decide, crossing, hd_free);
    uint32_t me = 0;
    if (!s) {
        return UCC_ERR_NO_MEMORY;
    }
    if (hd_config_bool(parent->lib->config, HD_CFG_LIB_NET_QUORUM) &&
        2 * (uint64_t)s->n <= crossing->span->n) {
        hd_error("%u of %u endpoints of a team are left: no more than half, so they form none "
                 "(NET_QUORUM=y)",
                 s->n, crossing->span->n);
        return UCC_ERR_NO_RESOURCE;
    }
    while (s->left[me] != parent->ep) { /* the caller's process is always left */
        me++;
    }
    hd_list_t list = hd_list_of(s->left, s->n);
    ucc_status_t status = s->n > f->meets ? name(f, crossing, s) : UCC_OK;
    return status == UCC_OK ? hd_form_take_list(team, crossing->span, crossing->process, &list, me)
                            : status;
}

ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team) {
    const hd_span_t *span = parent->crossing->span;
    uint32_t n = hd_span_count(span, span->mine), me = span->local_of[parent->ep];
    hd_meet_key_t key = hd_form_count_call(parent, HD_MEET_SHRINK);
    hd_net_look(parent->crossing->net); /* hear what can be known of losses */
    hd_span_drain();
    ucc_status_t status = team ? hd_form_start_meeting(team, &key, n, me, true) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        status = choose(parent, team);
        if (status != UCC_OK) {
            hd_form_fail(team, status);
        }
    } else if (!team || !team->forming->counted) {
        if (!hd_form_refuse_meeting(&key, n, me, status)) {
            hd_form_uncount_call(parent, &key);
        }
    } else if (status != UCC_ERR_NO_MEMORY) {
        /* Another endpoint of this process has given up. So this team has failed to form, as it has
         * for those who came before. */
        hd_form_drop(team);
        team->state = HD_TEAM_FAILED;
        team->failure = status;
        return UCC_OK;
    }
    return status;
}
