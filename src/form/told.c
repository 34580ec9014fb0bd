/* told.c: see told.h. Each process answers for itself alone; of the others of its teams it says how
 * they are asked. Keeps nothing.
 */
#include "form/told.h"

#include "form/form.h"

#include "core/hash.h"
#include "core/who.h"

#include <string.h>

enum { MOST_KNOWN = 1024, FEW = 4 };

typedef struct teller {
    hd_report_t report; /* must stay first: say_line has its address */
    hd_askers_t *askers;
    hd_asker_t *asker;
    const hd_told_team_t *all, *team; /* and which of them is being told */
    uint32_t n;
} teller_t;

static void deliver(void *to, const hd_mail_t *mail) {
    const teller_t *t = to;
    hd_askers_hand(t->askers, t->asker, mail);
}

/* A process's name in answers; its identity itself goes only to those of its job. */
static void token_of(const uint64_t identity[2], uint64_t token[2]) {
    static const char purpose[] = "heddle: a process in answers";
    hd_keyed_hash(identity, purpose, sizeof(purpose), token);
}

/* --- a process -------------------------------------------------------------------------------- */

static hd_node_state_t state_of(const hd_told_team_t *team, uint32_t p) {
    return team->peer[p] ? hd_node_peer_state(team->peer[p]) : HD_NODE_DONE;
}

/* Have all endpoints of that process left all teams that are told? */
static bool has_left(const teller_t *t, const uint64_t identity[2]) {
    bool left = false;
    for (uint32_t i = 0; i < t->n; i++) {
        const hd_told_team_t *team = &t->all[i];
        for (uint32_t p = 0; !team->is_scope && p < team->span->processes; p++) {
            if (memcmp(team->process[p].identity, identity, 2 * sizeof(*identity)) != 0) {
                continue;
            }
            left = hd_kin_process_has_left(team->group, team->span, p);
            if (!left) {
                return false;
            }
        }
    }
    return left;
}

/* Nothing will come of it: so it is not asked. */
static bool is_gone(hd_node_state_t state) {
    return state == HD_NODE_DIED || state == HD_NODE_LEFT || state == HD_NODE_ABSENT;
}

static bool is_beside(const hd_who_t *who) {
    hd_who_t mine = hd_who_am_i();
    return hd_who_is_beside(who, &mine);
}

/* What is known of it, beyond that it is there. False: nothing is. */
static bool say_state(hd_text_t *text, const hd_who_t *who, hd_node_state_t state) {
    bool looks = who->pid && !is_gone(state) && is_beside(who);
    const char *runs = looks ? hd_process_state((int32_t)who->pid) : NULL;
    bool stopped = runs && strcmp(runs, "is stopped") == 0;
    if (stopped) {
        hd_text_add(text, ", which is stopped");
    } else if (state == HD_NODE_PENDING) {
        hd_text_add(text, ", which has not answered");
    } else if (state == HD_NODE_DIED) {
        hd_text_add(text, ", which has ended");
    } else if (state != HD_NODE_DONE) {
        hd_text_add(text, ", which %s", hd_node_describe(state));
    }
    return stopped || state != HD_NODE_DONE;
}

void hd_told_say_process(hd_text_t *text, uint32_t number, const hd_who_t *who,
                         hd_node_state_t state) {
    hd_text_add(text, "process %u", number);
    if (!who) {
        hd_text_add(text, ", which has not come");
        return;
    }
    hd_text_add(text, " (host %s", who->host);
    if (who->pid) {
        hd_text_add(text, ", pid %u", who->pid);
    }
    hd_text_add(text, ")");
    if (!say_state(text, who, state)) {
        hd_text_add(text, ", which is there");
    }
}

/* Process p of the team, as that knows it, or another one. False: it has come to none. */
static bool find_who(const teller_t *t, const hd_told_team_t *team, uint32_t p, hd_who_t *who) {
    const uint64_t *identity = team->process[p].identity;
    uint32_t number;
    bool known = hd_who_of(team->group, p, who, &number);
    for (uint32_t i = 0; i < t->n && !known; i++) {
        const hd_told_team_t *other = &t->all[i];
        for (uint32_t q = 0; q < other->span->processes && !known; q++) {
            known = memcmp(other->process[q].identity, identity,
                           sizeof(other->process[q].identity)) == 0 &&
                    hd_who_of(other->group, q, who, &number);
        }
    }
    return known;
}

static void add_process(hd_text_t *text, const teller_t *t, uint32_t p) {
    const hd_told_team_t *team = t->team;
    hd_who_t who;
    bool known = find_who(t, team, p, &who);
    hd_told_say_process(text, team->process[p].number, known ? &who : NULL, state_of(team, p));
}

/* --- whom this process waits for -------------------------------------------------------------- */

typedef struct of_process {
    const hd_group_t *group;
    const bool *awaited;
    uint32_t p;
} of_process_t;

static bool is_of(const void *arg, uint32_t number) {
    const of_process_t *of = arg;
    uint32_t e = hd_group_member(of->group, number);
    return e < of->group->n && of->awaited[e] && of->group->home_of[e] == of->p;
}

/* Of one wait: who is `awaited`, by process, after what says so of each. */
static void say_awaited(teller_t *t, const bool awaited[HD_FAR_MOST], const char *title,
                        const hd_group_wait_t *wait, const char *what) {
    const hd_told_team_t *team = t->team;
    const hd_span_t *span = team->span;
    uint32_t said = 0, more = 0;
    hd_text_t text = {0};
    for (uint32_t p = 0; p < span->processes; p++) {
        if (!awaited[p] || said == FEW) {
            more += awaited[p];
            continue;
        }
        hd_text_add(&text, "%s", said++ ? ", and for " : "");
        if (wait) {
            const of_process_t of = {team->group, wait->awaited, p};
            (void)hd_text_numbers(&text, team->group->team_n, is_of, &of);
            hd_text_add(&text, " of ");
        }
        if (p == span->mine) {
            hd_text_add(&text, "this process");
        } else {
            add_process(&text, t, p);
        }
    }
    if (more) {
        hd_text_add(&text, ", and for %u more processes", more);
    }
    hd_report_say(&t->report, "T   %s waits for %s%s\n", title, text.line, what);
    for (uint32_t p = 0; p < span->processes; p++) {
        uint64_t token[2];
        if (awaited[p] && p != span->mine) {
            token_of(team->process[p].identity, token);
            hd_report_say(&t->report, "W %016llx%016llx\n", (unsigned long long)token[0],
                          (unsigned long long)token[1]);
        }
    }
}

static void say_wait(void *to, const hd_group_wait_t *wait) {
    teller_t *t = to;
    const hd_told_team_t *team = t->team;
    bool awaited[HD_FAR_MOST] = {false};
    for (uint32_t e = 0; e < team->group->n; e++) {
        uint32_t p = team->group->home_of[e]; /* read in memory that others write */
        if (wait->awaited[e] && p < team->span->processes) {
            awaited[p] = true;
        }
    }
    say_awaited(t, awaited, wait->title, wait, wait->what);
}

/* Its endpoints wait until all processes have come. */
static void say_late(teller_t *t) {
    bool awaited[HD_FAR_MOST] = {false}, any = false;
    for (uint32_t p = 0; p < t->team->span->processes; p++) {
        awaited[p] = t->team->late[p / 64] >> (p % 64) & 1;
        any = any || awaited[p];
    }
    if (any) {
        say_awaited(t, awaited, "forming", NULL, ", to come");
    }
}

static void say_line(void *to, const char *text) {
    hd_report_say(to, "T   %s\n", text);
}

static void say_team(teller_t *t, const hd_told_team_t *team) {
    ucc_status_t failure = hd_group_poisoned(team->group);
    uint32_t n = team->span->processes, number = team->process[team->span->mine].number;
    t->team = team;
    hd_report_say(&t->report,
                  team->of_node
                      ? "T %u processes of a team that share memory, this one is process %u%s%s\n"
                      : "T team of %u processes, this one is process %u%s%s\n",
                  n, number, failure == UCC_OK ? "" : "; it has failed: ",
                  failure == UCC_OK ? "" : ucc_status_string(failure));
    hd_group_tell(team->group, true, say_line, &t->report);
    if (failure == UCC_OK && team->forms) {
        say_late(t);
    } else if (failure == UCC_OK) {
        hd_group_waits(team->group, say_wait, t);
    }
}

/* --- whom it knows ---------------------------------------------------------------------------- */

static bool is_among(const uint64_t (*known)[2], uint32_t n, const uint64_t identity[2]) {
    uint32_t i = 0;
    while (i < n && (known[i][0] != identity[0] || known[i][1] != identity[1])) {
        i++;
    }
    return i < n;
}

/* numbered: by the team that gives all their numbers. */
static void say_known(teller_t *t, const hd_told_team_t *team, uint32_t p, bool numbered) {
    hd_node_state_t state = state_of(team, p);
    hd_who_t who = {.host = "?"};
    hd_text_t clause = {0};
    uint64_t token[2];
    if (state == HD_NODE_DONE && has_left(t, team->process[p].identity)) { /* it may be there */
        state = HD_NODE_LEFT;
    }
    bool known = find_who(t, team, p, &who), beside = known && is_beside(&who);
    if (!known) {
        hd_text_add(&clause, ", which has not come");
    } else if (!say_state(&clause, &who, state) && !beside) {
        hd_text_add(&clause, ", which counts pids otherwise and has to be asked there");
    }
    token_of(team->process[p].identity, token);
    hd_report_say(&t->report, "%c %016llx%016llx %d %u %s %d%s\n", beside ? 'N' : 'K',
                  (unsigned long long)token[0], (unsigned long long)token[1],
                  numbered ? (int)team->process[p].number : -1, who.pid, who.host, is_gone(state),
                  clause.line);
}

/* Those of the largest team come first, so that they have its numbers. */
static void say_all_known(teller_t *t, const hd_told_team_t *team, uint32_t n, uint32_t largest) {
    uint64_t(*known)[2] = hd_alloc(HD_LINE, MOST_KNOWN * sizeof(*known));
    uint32_t n_known = 0;
    for (uint32_t i = 0; known && i < n; i++) {
        uint32_t at = i == 0 ? largest : i <= largest ? i - 1 : i;
        const hd_span_t *span = team[at].span;
        for (uint32_t p = 0; p < span->processes && n_known < MOST_KNOWN; p++) {
            const uint64_t *identity = team[at].process[p].identity;
            if (p != span->mine && !is_among((const uint64_t(*)[2])known, n_known, identity)) {
                memcpy(known[n_known++], identity, sizeof(known[0]));
                say_known(t, &team[at], p, i == 0 && !team[at].is_scope);
            }
        }
    }
    hd_free(known);
}

static uint32_t find_largest(const hd_told_team_t *team, uint32_t n) {
    uint32_t largest = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = team[i].is_scope || team[i].forms ? 0 : team[i].of_node ? 1 : 2;
        uint32_t size = rank * (HD_FAR_MOST + 1) + team[i].span->processes;
        largest = size > most ? i : largest;
        most = size > most ? size : most;
    }
    return largest;
}

void hd_told_answer(hd_askers_t *askers, hd_asker_t *asker, const hd_told_team_t *team,
                    uint32_t n) {
    teller_t t = {.report = {.mail = {.ask = asker->ask}, .deliver = deliver, .to = &t},
                  .askers = askers,
                  .asker = asker,
                  .all = team,
                  .n = n};
    hd_who_t who = hd_who_am_i();
    uint32_t largest = find_largest(team, n);
    const hd_told_team_t *first = n ? &team[largest] : NULL;
    bool numbered = first && !first->is_scope;
    uint64_t identity[2];
    hd_process_identity(identity);
    token_of(identity, t.report.mail.by);
    hd_report_say(&t.report, "P %d %u %u %s\n",
                  numbered ? (int)first->process[first->span->mine].number : -1,
                  numbered ? first->span->processes : 0, who.pid, who.host);
    say_all_known(&t, team, n, largest);
    for (uint32_t i = 0; i < n; i++) {
        if (!team[i].is_scope) {
            say_team(&t, &team[i]);
        }
    }
    hd_report_end(&t.report);
}
