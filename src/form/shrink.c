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

#include "span/internal.h"

#include <string.h>

/* Who is left, as the endpoints of this process believe at their call of this number. In the list
 * of its crossing until all of them have passed. */
struct hd_survivors {
    struct hd_survivors *next;
    uint64_t number; /* number of the call, from 1 */
    /* how many endpoints of this process are through with it; all of them take part */
    uint32_t passed;
    uint32_t n;
    uint64_t left[]; /* those that are left, by their numbers in the team, ascending */
};

static bool is_left(const hd_crossing_t *crossing, uint32_t process) {
    return process == crossing->span->mine || !hd_net_team_has_lost(crossing->team, process);
}

/* Decides who is left, and puts that on the crossing's list. The caller holds crossing->judging.
 * NULL: no memory (logged). */
static hd_survivors_t *decide(hd_crossing_t *crossing, uint64_t number) {
    const hd_span_t *span = crossing->span;
    hd_survivors_t *survivors =
        hd_alloc(HD_LINE, sizeof(*survivors) + span->n * sizeof(survivors->left[0]));
    if (!survivors) {
        hd_error("no memory to shrink a team of %u", span->n);
        return NULL;
    }
    survivors->number = number;
    for (uint32_t i = 0; i < span->n; i++) {
        if (is_left(crossing, span->process_of[i])) {
            survivors->left[survivors->n++] = i;
        }
    }
    survivors->next = crossing->survivor_sets;
    crossing->survivor_sets = survivors;
    return survivors;
}

/* Returns how many endpoints of the team live in this process. */
static uint32_t count_mine(const hd_crossing_t *crossing) {
    return hd_span_count(crossing->span, crossing->span->mine);
}

/* Each endpoint calls this once; the last one frees the survivors. */
static void pass(hd_crossing_t *crossing, hd_survivors_t *survivors) {
    hd_lock(&crossing->judging);
    bool last = ++survivors->passed == count_mine(crossing);
    hd_assert_le(survivors->passed, count_mine(crossing));
    for (hd_survivors_t **at = &crossing->survivor_sets; last; at = &(*at)->next) {
        if (*at == survivors) {
            *at = survivors->next;
            break;
        }
    }
    hd_unlock(&crossing->judging);
    if (last) {
        hd_free(survivors);
    }
}

/* crossing->end_survivor_sets: called when the crossing ends. */
static void end_survivor_sets(hd_crossing_t *crossing) {
    while (crossing->survivor_sets) {
        hd_survivors_t *next = crossing->survivor_sets->next;
        hd_free(crossing->survivor_sets);
        crossing->survivor_sets = next;
    }
}

/* Returns the survivors of this call; the first caller decides. NULL: no memory (logged). */
static hd_survivors_t *survivors_of(hd_crossing_t *crossing, uint64_t number) {
    hd_lock(&crossing->judging);
    hd_survivors_t *survivors = crossing->survivor_sets;
    while (survivors && survivors->number != number) {
        survivors = survivors->next;
    }
    crossing->end_survivor_sets = end_survivor_sets;
    survivors = survivors ? survivors : decide(crossing, number);
    hd_unlock(&crossing->judging);
    return survivors;
}

/* Returns the endpoints that are left, by their numbers in the origin. NULL: no memory (logged). */
static uint64_t *origin_of(const hd_crossing_t *crossing, const hd_survivors_t *survivors) {
    uint64_t *endpoint = hd_alloc(HD_LINE, survivors->n * sizeof(*endpoint));
    for (uint32_t i = 0; endpoint && i < survivors->n; i++) {
        uint64_t here = survivors->left[i];
        endpoint[i] = crossing->origin.endpoint ? crossing->origin.endpoint[here] : here;
    }
    if (!endpoint) {
        hd_error("no memory to shrink a team of %u", crossing->span->n);
    }
    return endpoint;
}

/* Returns the wire id of the new team. endpoint: those that are left, by their numbers in the
 * origin. */
static uint64_t wire_of(const hd_crossing_t *crossing, const hd_survivors_t *survivors,
                        const uint64_t *endpoint) {
    if (survivors->n == crossing->span->n) {
        return hd_hash_mix(crossing->wire, 0x5a3e);
    }
    hd_fingerprint_t list = hd_fingerprint(endpoint, survivors->n);
    uint64_t origin =
        crossing->origin.endpoint ? crossing->origin.wire : hd_hash_mix(crossing->wire, 0x0716);
    return hd_hash_mix(hd_hash_mix(origin, list.word[0]), list.word[1]);
}

/* The new team has several processes: gives it what its crossing needs, and its origin. Takes the
 * span. */
static ucc_status_t cross(ucc_team_h parent, ucc_team_h team, hd_span_t *span,
                          const hd_survivors_t *survivors) {
    const hd_crossing_t *crossing = parent->crossing;
    hd_forming_t *f = team->forming;
    f->origin.endpoint = origin_of(crossing, survivors);
    if (!f->origin.endpoint) {
        hd_free(span);
        return UCC_ERR_NO_MEMORY;
    }
    f->origin.wire =
        crossing->origin.endpoint ? crossing->origin.wire : hd_hash_mix(crossing->wire, 0x0716);
    f->wire = wire_of(crossing, survivors, f->origin.endpoint);
    return hd_form_cross_from(team, span, crossing, survivors->left);
}

/* Counts one more call of this endpoint; returns the key of the meeting of this process's endpoints
 * at it. */
static hd_meet_key_t next_key(ucc_team_h parent) {
    hd_lock(&parent->lock);
    uint64_t number = ++parent->shrinks;
    hd_unlock(&parent->lock);
    return (hd_meet_key_t){.kind = HD_MEET_SHRINK, .scope = parent->group->serial, .id = number};
}

/* Sets the new team's size, this endpoint's number in it, and what it needs to cross processes:
 * everything but the meeting. */
static ucc_status_t choose(ucc_team_h parent, ucc_team_h team, const hd_survivors_t *survivors) {
    uint32_t me = 0;
    while (survivors->left[me] != parent->ep) { /* the caller's process is always left */
        me++;
    }
    team->n = survivors->n;
    team->ep = me;
    hd_span_t *span =
        hd_form_span_of_list(parent->crossing->span, survivors->left, survivors->n, me);
    if (!span) {
        return UCC_ERR_NO_MEMORY;
    }
    if (span->processes > 1) {
        return cross(parent, team, span, survivors);
    }
    hd_free(span);
    return UCC_OK;
}

ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team) {
    hd_crossing_t *crossing = parent->crossing;
    hd_net_look(crossing->net); /* hear what can be known of losses */
    hd_span_drain();
    hd_meet_key_t key = next_key(parent);
    uint32_t here = count_mine(crossing), local = crossing->span->local_of[parent->ep];
    hd_survivors_t *survivors = survivors_of(crossing, key.id);
    ucc_status_t status = survivors ? choose(parent, team, survivors) : UCC_ERR_NO_MEMORY;
    if (survivors) {
        pass(crossing, survivors);
    }
    if (status != UCC_OK) {
        hd_form_refuse_meeting(&key, here, local, status);
        return status;
    }
    uint32_t me = team->ep;
    status = hd_form_start_meeting(team, &key, here, local, true);
    team->ep = me;
    if (status != UCC_OK && status != UCC_ERR_NO_MEMORY) {
        /* Another endpoint of this process has given up. So this team has failed to form, as it has
         * for those who came before. */
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
