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

static bool is_left(const hd_crossing_t *crossing, uint32_t process) {
    return process == crossing->span->mine || !hd_net_team_has_lost(crossing->team, process);
}

/* Decides who is left. NULL: no memory (logged). */
static void *decide(void *crossing) {
    const hd_span_t *span = ((hd_crossing_t *)crossing)->span;
    survivors_t *survivors =
        hd_alloc(HD_LINE, sizeof(*survivors) + span->n * sizeof(survivors->left[0]));
    if (!survivors) {
        hd_error("no memory to shrink a team of %u", span->n);
        return NULL;
    }
    for (uint32_t i = 0; i < span->n; i++) {
        if (is_left(crossing, span->process_of[i])) {
            survivors->left[survivors->n++] = i;
        }
    }
    return survivors;
}

/* Returns how many endpoints of the team live in this process. */
static uint32_t count_mine(const hd_crossing_t *crossing) {
    return hd_span_count(crossing->span, crossing->span->mine);
}

/* Returns the endpoints that are left, by their numbers in the origin. NULL: no memory (logged). */
static uint64_t *origin_of(const hd_crossing_t *crossing, const survivors_t *survivors) {
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

static uint64_t origin_wire(const hd_crossing_t *crossing) {
    return crossing->origin.endpoint ? crossing->origin.wire : hd_hash_mix(crossing->wire, 0x0716);
}

/* Returns the wire id of the new team. endpoint: those that are left, by their numbers in the
 * origin. */
static uint64_t wire_of(const hd_crossing_t *crossing, const survivors_t *survivors,
                        const uint64_t *endpoint) {
    if (survivors->n == crossing->span->n) {
        return hd_hash_mix(crossing->wire, 0x5a3e);
    }
    hd_fingerprint_t list = hd_fingerprint(endpoint, survivors->n);
    return hd_hash_mix(hd_hash_mix(origin_wire(crossing), list.word[0]), list.word[1]);
}

/* The new team has several processes: gives it its origin, and what its crossing needs. */
static ucc_status_t cross(ucc_team_h team, const hd_crossing_t *crossing,
                          const survivors_t *survivors) {
    hd_forming_t *f = team->forming;
    f->origin.endpoint = origin_of(crossing, survivors);
    if (!f->origin.endpoint) {
        return UCC_ERR_NO_MEMORY;
    }
    f->origin.wire = origin_wire(crossing);
    f->wire = wire_of(crossing, survivors, f->origin.endpoint);
    return hd_form_cross(team, crossing->span, survivors->left, NULL, crossing->identity);
}

/* Counts one more call of this endpoint; returns the key of the meeting of this process's endpoints
 * at it. */
static hd_meet_key_t next_key(ucc_team_h parent) {
    hd_lock(&parent->lock);
    uint64_t number = ++parent->shrinks;
    hd_unlock(&parent->lock);
    return (hd_meet_key_t){.kind = HD_MEET_SHRINK, .scope = parent->group->serial, .id = number};
}

/* Tells the endpoints of this process that this one does not come to the meeting of its last call.
 * If nobody can be told, and this endpoint has not been counted anywhere, the call has not been. */
static void refuse(ucc_team_h parent, const hd_meet_key_t *key, bool counted, ucc_status_t why) {
    const hd_crossing_t *crossing = parent->crossing;
    if (!hd_form_refuse_meeting(key, count_mine(crossing), crossing->span->local_of[parent->ep],
                                why) &&
        !counted) {
        hd_lock(&parent->lock);
        parent->shrinks -= parent->shrinks == key->id;
        hd_unlock(&parent->lock);
    }
}

/* Sets the new team's size, this endpoint's number in it, and what it needs to cross processes:
 * everything but the meeting. *counted: whether others may know of this call. The endpoints that
 * come to the call with this key have one more meeting for that, which none of them waits for: the
 * first to come decides who is left. */
static ucc_status_t choose(ucc_team_h parent, ucc_team_h team, hd_meet_key_t key, bool *counted) {
    hd_crossing_t *crossing = parent->crossing;
    uint32_t me = 0, local = crossing->span->local_of[parent->ep];
    hd_meeting_t *meeting;
    key.list.word[0] = 1;
    ucc_status_t status = hd_meet(&key, count_mine(crossing), &local, 0, true, &meeting);
    *counted = meeting;
    if (status != UCC_OK) {
        return status;
    }
    const survivors_t *survivors = hd_meeting_object(meeting, decide, crossing, hd_free);
    status = survivors ? UCC_OK : UCC_ERR_NO_MEMORY;
    if (survivors) {
        while (survivors->left[me] != parent->ep) { /* the caller's process is always left */
            me++;
        }
        team->forming->roll.mine.label = me;
        status = hd_form_take_list(team, crossing->span, survivors->left, survivors->n, me);
    }
    if (status == UCC_OK && team->forming->roll.span) {
        status = cross(team, crossing, survivors);
    }
    hd_meeting_release(meeting, true);
    return status;
}

ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team) {
    const hd_crossing_t *crossing = parent->crossing;
    hd_net_look(crossing->net); /* hear what can be known of losses */
    hd_span_drain();
    hd_meet_key_t key = next_key(parent);
    bool counted;
    ucc_status_t status = choose(parent, team, key, &counted);
    if (status != UCC_OK) {
        refuse(parent, &key, counted, status);
        return status;
    }
    status = hd_form_meet_members(team, &key);
    if (status == UCC_ERR_NO_MEMORY && team->forming->uncounted) {
        refuse(parent, &key, true, status);
    }
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
    hd_meet_key_t key = next_key(parent);
    refuse(parent, &key, false, UCC_ERR_NO_MEMORY);
}
