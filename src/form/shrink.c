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
 * here knows its ORIGIN, the team that all of them come from.
 *
 * Nor need anybody be lost: a team may fail because somebody aborts it, or lacks memory. So
 * processes count their attempts to make a team of the same survivors of one origin, and the wire
 * id says which one it is. An attempt that fails in one process fails in all: it tells them, and
 * one that comes later finds that it was told. So whoever is behind catches up, and all meet. It
 * makes no difference from which of the teams with this origin each of them comes; so a quorum,
 * too, is one of the origin's endpoints.
 *
 * Neither does it inside a process. Its endpoints meet at their k-th call for any of these teams,
 * of all of which they are members. The first of them decides who the survivors are, and if one of
 * them fails at its k-th call, the others fail at theirs, whenever they come.
 *
 * An agreement of endpoints in a team (api/agree.c), such as whether all have the new one, begins
 * a new ERA of that team's origin in each of them. The wire ids say which era it is; in each,
 * attempts are counted anew, and whoever the agreement has found failed is left out. So all who
 * have returned from it, and have lost the same processes, meet at once. Otherwise their teams
 * differ, and one of these has a member that is dead: it fails. Who had come to it may go on to
 * the next agreement, and must not be waited for in another team. So whoever begins an agreement
 * says that the era before is OVER, if the team that it had come to has failed. Then a team of
 * that era fails, too, if not all have come to it. One to which all have come does not need who
 * agrees, or hears that it has failed. So nobody waits for ever who shrinks, makes a barrier, and
 * agrees, until all agree that both were good.
 *
 * Teams of an agreement have an origin of their own, in which endpoints have their
 * numbers in the team that agrees: who goes on from there does not meet those who still agree.
 */
#include "form/internal.h"

#include "core/hash.h"

/* Who is left, as the endpoints of this process believe at one of their calls. */
typedef struct survivors {
    uint64_t wire; /* of the team that they make */
    uint64_t over; /* as hd_origin_ref_t has it */
    bool is_over;
    uint32_t n;
    uint64_t left[]; /* those that are left, by their numbers in the origin, ascending */
} survivors_t;

/* From which team endpoints come, and what it was made of. */
typedef struct source {
    hd_group_t *group;
    const hd_crossing_t *crossing; /* NULL: its processes share memory */
    const hd_span_t *span;
    hd_origin_t *own;          /* of the team; NULL: no memory */
    const uint64_t *in_origin; /* its endpoints' numbers there; NULL: the same */
    hd_origin_t *origin;       /* the team's own, or an agreement's */
    uint64_t era;              /* the calling endpoint's, there */
} source_t;

static source_t source_of(ucc_team_h parent, hd_origin_t *origin) {
    hd_crossing_t *crossing = parent->crossing;
    hd_group_t *group = parent->group;
    source_t source = {.group = group, .crossing = crossing};
    source.span = hd_form_span(group);
    source.own = crossing ? crossing->origin : hd_kin_origin(group);
    source.in_origin = crossing ? crossing->in_origin : hd_kin_in_origin(group);
    source.origin = origin ? origin : source.own;
    return source;
}

/* The name under which processes say that they come to no more teams of the era. */
static uint64_t name_over(const hd_origin_t *origin, uint64_t era) {
    static const uint64_t over = 0x6f766572;
    return hd_hash_mix(hd_hash_mix(hd_hash_mix(origin->wire, over), era), over) | 1;
}

/* The survivors, for those that come from one of the teams. */
typedef struct view {
    const survivors_t *survivors;
    const source_t *source;
} view_t;

static uint64_t in_origin(const source_t *source, uint32_t endpoint) {
    return source->origin == source->own && source->in_origin ? source->in_origin[endpoint]
                                                              : endpoint;
}

/* Returns the number in the team of survivor i; an endpoint that is not there: n. */
static uint64_t member_at(const void *entries, uint32_t i) {
    const view_t *view = entries;
    uint64_t wanted = view->survivors->left[i];
    uint32_t n = view->source->span->n, low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool below = in_origin(view->source, middle) < wanted;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return low < n && in_origin(view->source, low) == wanted ? low : n;
}

/* Counts one more attempt to make a team of these survivors in that era, and returns its wire
 * id. */
static uint64_t name(hd_origin_t *origin, uint64_t era, const survivors_t *s) {
    static const uint64_t shrunk = 0x7368727565;
    hd_fingerprint_t left = hd_fingerprint(s->left, s->n);
    hd_lock(&origin->lock);
    bool again = left.word[0] == origin->left.word[0] && left.word[1] == origin->left.word[1] &&
                 era == origin->era;
    uint64_t attempt = origin->attempts = again ? origin->attempts + 1 : 1;
    origin->left = left;
    origin->era = era;
    hd_unlock(&origin->lock);
    uint64_t apart = hd_hash_mix(origin->wire, shrunk); /* from teams of lists, named likewise */
    uint64_t list = hd_hash_mix(hd_hash_mix(apart, left.word[0]), left.word[1]);
    return hd_hash_mix(era ? hd_hash_mix(list, era) : list, attempt);
}

/* Has an agreement found the endpoint failed? It is given by its number in the team. */
static bool has_failed(const source_t *source, uint32_t endpoint) {
    uint64_t i = source->in_origin ? source->in_origin[endpoint] : endpoint;
    hd_lock(&source->own->lock);
    bool failed = source->own->failed[i / 64] >> i % 64 & 1;
    hd_unlock(&source->own->lock);
    return failed;
}

/* Decides who is left. NULL: no memory (logged). */
static void *decide(void *arg) {
    const source_t *source = arg;
    const hd_span_t *span = source->span;
    survivors_t *s = hd_alloc(HD_LINE, sizeof(*s) + span->n * sizeof(s->left[0]));
    /* Who has left the team may come from another one of the same origin, unless all have agreed
     * that it does not, but has no part in an agreement of this one. */
    bool agrees = source->origin != source->own;
    if (!s) {
        hd_error("no memory to shrink a team of %u", span->n);
        return NULL;
    }
    for (uint32_t i = 0; i < span->n; i++) {
        uint32_t p = span->process_of[i];
        bool mine = p == span->mine, lost = !mine && hd_form_has_lost(source->group, p);
        if (lost && source->crossing) {
            hd_net_team_tell_loss(source->crossing->team, p);
        } else if (!lost && (agrees ? !hd_form_has_left(source->group, p)
                                    : mine || !has_failed(source, i))) {
            s->left[s->n++] = in_origin(source, i);
        }
    }
    s->wire = name(source->origin, source->era, s);
    s->over = agrees ? 0 : name_over(source->origin, source->era);
    s->is_over =
        s->over && !source->crossing && hd_group_is_over(hd_kin_scope(source->group), s->over);
    return s;
}

/* Finds the caller among the survivors. UCC_ERR_IO_ERROR: some of them are not in its team. */
static ucc_status_t find_me(const view_t *view, uint64_t ep, uint32_t *me) {
    bool found = false;
    for (uint32_t i = 0; i < view->survivors->n; i++) {
        uint64_t member = member_at(view, i);
        if (member == view->source->span->n) {
            hd_error("endpoint %llu is not in a team that its process shrinks, and was lost before",
                     (unsigned long long)view->survivors->left[i]);
            return UCC_ERR_IO_ERROR;
        }
        *me = member == ep ? i : *me;
        found = found || member == ep;
    }
    hd_assert(found); /* the caller's process is always left */
    return UCC_OK;
}

/* Sets the new team's size, this endpoint's number in it, and what it needs to cross processes. The
 * first to come to the meeting decides who is left. */
static ucc_status_t choose(ucc_team_h parent, source_t *source, ucc_team_h team) {
    hd_origin_t *origin = source->origin;
    hd_forming_t *f = team->forming;
    const survivors_t *s = hd_meeting_prelude(f->meeting, decide, source, hd_free);
    const view_t view = {.survivors = s, .source = source};
    uint32_t me = 0;
    if (!s) {
        return UCC_ERR_NO_MEMORY;
    }
    if (s->is_over) { /* who waits for this process knows it, too */
        return UCC_ERR_NOT_FOUND;
    }
    ucc_status_t status = find_me(&view, parent->ep, &me);
    if (hd_config_bool(parent->lib->config, HD_CFG_LIB_NET_QUORUM) &&
        2 * (uint64_t)s->n <= origin->n) {
        hd_error("%u of %u endpoints of a team are left: no more than half, so they form none "
                 "(NET_QUORUM=y)",
                 s->n, origin->n);
        status = UCC_ERR_NO_RESOURCE;
    }
    if (status == UCC_OK) {
        const hd_list_t list = {member_at, &view, s->n};
        f->wire = s->wire;
        f->in_origin = s->left;
        f->over = s->over;
        f->origin = origin;
        hd_origin_keep(origin);
        hd_reach_t reach = hd_form_reach_of(source->group);
        reach.scope = source->crossing ? NULL : hd_kin_scope(source->group);
        reach.nodes = NULL;
        status = hd_form_take_list(team, &reach, &list, me);
    }
    if (f->scope) {
        f->step = STEP_SHARE;
    }
    if (status != UCC_OK && !source->crossing) {
        const hd_list_t list = {member_at, &view, s->n};
        hd_refusal_t refusal = {.scope = hd_kin_scope(source->group), .why = status};
        const hd_reach_t reach = {.span = source->span};
        hd_form_find_sharers(&reach, &list, s->wire, &refusal);
        hd_form_tell_refusal(f->meeting, &refusal);
    }
    if (status != UCC_OK && s->n > f->meets && source->crossing) {
        hd_net_refuse(source->crossing->net, s->wire, status);
    }
    return status;
}

/* Counts one more call of the endpoint's for a team with this origin, notes its era, and returns
 * the key of the meeting for it. */
static hd_meet_key_t count_call(source_t *source, uint32_t me) {
    hd_origin_t *origin = source->origin;
    hd_origin_member_t *mine = &origin->member[me];
    hd_lock(&origin->lock);
    uint64_t number = ++mine->calls;
    mine->has_shrunk = true;
    source->era = mine->era;
    hd_unlock(&origin->lock);
    return (hd_meet_key_t){.kind = HD_MEET_SHRINK, .scope = origin->serial, .id = number};
}

/* Takes that back: nobody knows of the call. */
static void uncount_call(hd_origin_t *origin, uint32_t me, const hd_meet_key_t *key) {
    hd_lock(&origin->lock);
    origin->member[me].calls -= origin->member[me].calls == key->id;
    hd_unlock(&origin->lock);
}

ucc_status_t hd_form_start_shrink(ucc_team_h parent, hd_origin_t *origin, ucc_team_h team) {
    source_t source = source_of(parent, origin);
    const hd_span_t *span = source.span;
    origin = source.origin;
    if (!origin) {
        return UCC_ERR_NO_MEMORY;
    }
    uint32_t n = hd_span_count(span, span->mine), me = span->local_of[parent->ep];
    hd_meet_key_t key = count_call(&source, me);
    hd_form_look_for_losses(source.group);
    ucc_status_t status = team ? hd_form_start_meeting(team, &key, n, me, true) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        status = choose(parent, &source, team);
        if (status != UCC_OK) {
            hd_form_fail(team, status);
        }
    } else if (!team || !team->forming->counted) {
        if (!hd_form_refuse_meeting(&key, n, me, NULL, status)) {
            uncount_call(origin, me, &key);
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

/* --- agreements ------------------------------------------------------------------------------- */

uint64_t hd_team_begin_era(ucc_team_h team, uint64_t number) {
    const source_t source = source_of(team, NULL);
    hd_origin_t *origin = source.own;
    if (!origin) {
        return 0; /* no memory (logged): so it has not shrunk, either */
    }
    hd_origin_member_t *mine = &origin->member[source.span->local_of[team->ep]];
    uint64_t wire = source.crossing ? source.crossing->wire : hd_kin_wire(source.group);
    hd_lock(&origin->lock);
    uint64_t over = mine->has_shrunk ? name_over(origin, mine->era) : 0;
    mine->has_shrunk = false;
    mine->era = hd_hash_mix(wire, number) | 1;
    hd_unlock(&origin->lock);
    return over;
}

bool hd_team_tell_over(ucc_team_h team, uint64_t over) {
    const hd_crossing_t *crossing = team->crossing;
    bool stands = crossing ? hd_net_has_survivors(crossing->net, over) : hd_kin_has_survivors(over);
    if (!stands && crossing) {
        hd_net_tell_agreed(crossing->net, over);
    } else if (!stands) {
        hd_group_tell_over(hd_kin_scope(team->group), over);
    }
    return !stands;
}

void hd_team_note_failed(ucc_team_h team, const uint64_t *failed) {
    const source_t source = source_of(team, NULL);
    hd_origin_t *origin = source.own;
    hd_assert(origin); /* the agreement has asked for it */
    hd_lock(&origin->lock);
    for (uint32_t e = 0; e < team->n; e++) {
        uint64_t i = source.in_origin ? source.in_origin[e] : e;
        origin->failed[i / 64] |= (failed[e / 64] >> e % 64 & 1) << i % 64;
    }
    hd_unlock(&origin->lock);
}
