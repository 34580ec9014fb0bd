/* shrink.c: a team of those that are left of a team of several processes. No exchange is needed,
 * nor possible, on the team that has failed: every process knows which others are lost
 * (net/news.c), and what all know sooner or later is the same. So each makes the team of those that
 * it believes to be left, under a wire id that follows from who they are. Who believes the same
 * meets in the greeting. Who is mistaken greets one that is gone, or waits for processes that know
 * better, until it hears of the loss too: then it fails, and its caller comes again.
 *
 * One who dies in the greeting leaves some with a team that they believe to be good, and others who
 * come again. The former find it broken and shrink it: ids must be the same then, whether a team
 * was left by the first loss or by the second. So every team that was made here knows its ORIGIN,
 * the team that all of them come from, and an id follows from the origin's and the origin's
 * endpoints that are left. If nobody is lost, it follows from the team itself.
 *
 * Endpoints of one process must believe the same at their k-th call: the first of them decides (a
 * VERDICT), and if one of them fails at its k-th call, so do the others at theirs, whenever they
 * come: numbers do not part.
 */
#include "form/internal.h"

#include "core/hash.h"

#include "span/internal.h"

#include <string.h>

struct hd_verdict {
    struct hd_verdict *next;
    uint64_t number; /* of the call, from 1 */
    uint32_t passed; /* endpoints of this process that are through with it: all of them take part */
    uint32_t n;
    uint64_t left[]; /* endpoints of the team, ascending */
};

static bool is_left(const hd_crossing_t *crossing, uint32_t process) {
    return process == crossing->span->mine || !hd_net_team_has_lost(crossing->team, process);
}

/* Under the lock. NULL: no memory. */
static hd_verdict_t *decide(hd_crossing_t *crossing, uint64_t number) {
    const hd_span_t *span = crossing->span;
    hd_verdict_t *verdict =
        hd_alloc(HD_LINE, sizeof(*verdict) + span->n * sizeof(verdict->left[0]));
    if (!verdict) {
        hd_error("no memory to shrink a team of %u", span->n);
        return NULL;
    }
    verdict->number = number;
    for (uint32_t i = 0; i < span->n; i++) {
        if (is_left(crossing, span->process_of[i])) {
            verdict->left[verdict->n++] = i;
        }
    }
    verdict->next = crossing->verdicts;
    crossing->verdicts = verdict;
    return verdict;
}

static uint32_t count_mine(const hd_crossing_t *crossing) {
    return hd_span_count(crossing->span, crossing->span->mine);
}

/* By each endpoint, once. */
static void pass(hd_crossing_t *crossing, hd_verdict_t *verdict) {
    hd_lock(&crossing->judging);
    bool last = ++verdict->passed == count_mine(crossing);
    hd_assert_le(verdict->passed, count_mine(crossing));
    for (hd_verdict_t **at = &crossing->verdicts; last; at = &(*at)->next) {
        if (*at == verdict) {
            *at = verdict->next;
            break;
        }
    }
    hd_unlock(&crossing->judging);
    if (last) {
        hd_free(verdict);
    }
}

/* At a crossing's end. */
static void end_verdicts(hd_crossing_t *crossing) {
    while (crossing->verdicts) {
        hd_verdict_t *next = crossing->verdicts->next;
        hd_free(crossing->verdicts);
        crossing->verdicts = next;
    }
}

static hd_verdict_t *verdict_of(hd_crossing_t *crossing, uint64_t number) {
    hd_lock(&crossing->judging);
    hd_verdict_t *verdict = crossing->verdicts;
    while (verdict && verdict->number != number) {
        verdict = verdict->next;
    }
    crossing->end_verdicts = end_verdicts;
    verdict = verdict ? verdict : decide(crossing, number);
    hd_unlock(&crossing->judging);
    return verdict;
}

/* The endpoints that are left, by their numbers in the origin. NULL: no memory (logged). */
static uint64_t *origin_of(const hd_crossing_t *crossing, const hd_verdict_t *verdict) {
    uint64_t *endpoint = hd_alloc(HD_LINE, verdict->n * sizeof(*endpoint));
    for (uint32_t i = 0; endpoint && i < verdict->n; i++) {
        uint64_t here = verdict->left[i];
        endpoint[i] = crossing->origin.endpoint ? crossing->origin.endpoint[here] : here;
    }
    if (!endpoint) {
        hd_error("no memory to shrink a team of %u", crossing->span->n);
    }
    return endpoint;
}

static uint64_t wire_of(const hd_crossing_t *crossing, const hd_verdict_t *verdict,
                        const uint64_t *endpoint) {
    if (verdict->n == crossing->span->n) {
        return hd_hash_mix(crossing->wire, 0x5a3e);
    }
    hd_fingerprint_t list = hd_fingerprint(endpoint, verdict->n);
    uint64_t origin =
        crossing->origin.endpoint ? crossing->origin.wire : hd_hash_mix(crossing->wire, 0x0716);
    return hd_hash_mix(hd_hash_mix(origin, list.word[0]), list.word[1]);
}

/* What is left has several processes: f gets what a crossing needs. */
static ucc_status_t cross(ucc_team_h parent, ucc_team_h team, hd_span_t *span,
                          const hd_verdict_t *verdict) {
    const hd_crossing_t *crossing = parent->crossing;
    hd_forming_t *f = team->forming;
    f->origin.endpoint = origin_of(crossing, verdict);
    if (!f->origin.endpoint) {
        hd_free(span);
        return UCC_ERR_NO_MEMORY;
    }
    f->origin.wire =
        crossing->origin.endpoint ? crossing->origin.wire : hd_hash_mix(crossing->wire, 0x0716);
    f->wire = wire_of(crossing, verdict, f->origin.endpoint);
    return hd_form_cross_from(team, span, crossing, verdict->left);
}

static hd_meet_key_t next_key(ucc_team_h parent) {
    hd_lock(&parent->lock);
    uint64_t number = ++parent->shrinks;
    hd_unlock(&parent->lock);
    return (hd_meet_key_t){.kind = HD_MEET_SHRINK, .scope = parent->group->serial, .id = number};
}

/* Everything but the meeting. */
static ucc_status_t choose(ucc_team_h parent, ucc_team_h team, const hd_verdict_t *verdict) {
    uint32_t me = 0;
    while (verdict->left[me] != parent->ep) { /* my process is left */
        me++;
    }
    team->n = verdict->n;
    team->ep = me;
    hd_span_t *span = hd_form_span_of_list(parent->crossing->span, verdict->left, verdict->n, me);
    if (!span) {
        return UCC_ERR_NO_MEMORY;
    }
    if (span->processes > 1) {
        return cross(parent, team, span, verdict);
    }
    hd_free(span);
    return UCC_OK;
}

ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team) {
    hd_crossing_t *crossing = parent->crossing;
    hd_net_look(crossing->net); /* what can be known of losses */
    hd_span_drain();
    hd_meet_key_t key = next_key(parent);
    uint32_t here = count_mine(crossing), local = crossing->span->local_of[parent->ep];
    hd_verdict_t *verdict = verdict_of(crossing, key.id);
    ucc_status_t status = verdict ? choose(parent, team, verdict) : UCC_ERR_NO_MEMORY;
    if (verdict) {
        pass(crossing, verdict);
    }
    if (status != UCC_OK) {
        hd_form_refuse_meeting(&key, here, local, status);
        return status;
    }
    uint32_t me = team->ep;
    status = hd_form_start_meeting(team, &key, here, local, true);
    team->ep = me;
    if (status != UCC_OK && status != UCC_ERR_NO_MEMORY) {
        /* Another endpoint has given up: then this team has failed to form, as for those who had
         * come before. */
        hd_form_drop(team);
        team->state = HD_TEAM_FAILED;
        team->failure = status;
        return UCC_OK;
    }
    return status;
}

void hd_form_refuse_shrink(ucc_team_h parent) {
    const hd_crossing_t *crossing = parent->crossing;
    hd_meet_key_t key = next_key(parent);
    hd_form_refuse_meeting(&key, count_mine(crossing), crossing->span->local_of[parent->ep],
                           UCC_ERR_NO_MEMORY);
}
