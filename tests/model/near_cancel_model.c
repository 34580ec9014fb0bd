/* near_cancel_model.c: cancelling an exchange on which several processes work, src/shm/near.c, while
 * one of them dies.
 *
 * A canceller has given up. Two workers, each of a process of its own, claim units of one slice, as
 * long as there are some: each says that it is inside, claims, runs the unit, counts it as
 * finished, and says that it is not inside any more. The first one's process may die before any of
 * its steps; the watch sees that some time later. The canceller closes the slice, and then reports
 * when all claimed units are finished, or when nobody is inside whose process lives.
 *
 * What is common to this and to threads of one process is in claim_model.c.
 *
 * Properties: when the canceller has reported, no living worker runs a unit, nor will; it does not
 * wait for ever.
 */
#include "explorer.h"

#include <string.h>

enum { WORKERS = 2, UNITS = 2, CANCELLER = WORKERS, WATCH };

/* where a worker is */
enum { ENTER, CLAIM, SWAP, LATE_ENTER, RUN, FINISH, LEAVE, GONE, DEAD };
/* where the canceller is */
enum { BEFORE, CLOSE, COUNT, LOOK, REPORTED };

/* planted bugs */
enum {
    NO_BUG,
    WAITS_FOR_DEAD,    /* who is inside counts, whether its process lives or not */
    WAITS_FOR_NOBODY,  /* units that are not finished are taken for those of the dead */
    ENTERS_LATE,       /* a worker is inside from its claim on */
    LEAVES_EARLY,      /* a worker is not inside any more when it runs its unit */
    LOOKS_BEFORE,      /* the canceller looks who is inside, and then closes */
    CLAIMS_WHEN_CLOSED /* a claim does not mind that the slice was closed meanwhile */
};

typedef struct worker {
    uint8_t at, seen, inside;
} worker_t;

typedef struct state {
    worker_t w[WORKERS];
    uint8_t next, closed, finished; /* of the slice */
    uint8_t at, claimed, looked;    /* of the canceller */
    uint8_t lost;                   /* the first worker's process, as the watch has seen */
} state_t;

enum { ALL_LIVE, ONE_DIES };
static const char *const variant_names[] = {"all-live", "one-dies", NULL};
static uint32_t variant, bug;

static void start(void *state, uint32_t which, uint32_t planted) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    variant = which;
    bug = planted;
    s->at = bug == LOOKS_BEFORE ? LOOK : BEFORE;
}

/* --- workers ---------------------------------------------------------------------------------- */

static bool claim(state_t *s, worker_t *w) {
    if (w->at == CLAIM) {
        w->seen = s->next;
        model_say("hd_slice_claim: %u are taken%s", s->next, s->closed ? ", closed" : "");
        w->at = s->closed || s->next == UNITS ? LEAVE : SWAP;
        return true;
    }
    bool fits = s->next == w->seen && (!s->closed || bug == CLAIMS_WHEN_CLOSED);
    model_say("hd_slice_claim: unit %u%s", w->seen, fits ? "" : " is not mine");
    if (fits) {
        s->next++;
    }
    w->at = !fits ? CLAIM : bug == ENTERS_LATE ? LATE_ENTER : RUN;
    w->seen = 0;
    return true;
}

static bool step_worker(state_t *s, uint32_t i) {
    worker_t *w = &s->w[i];
    switch (w->at) {
    case ENTER:
    case LATE_ENTER:
        w->inside = bug != ENTERS_LATE || w->at == LATE_ENTER;
        model_say("enter");
        w->at = w->at == ENTER ? CLAIM : RUN;
        return true;
    case CLAIM:
    case SWAP:
        return claim(s, w);
    case RUN:
        if (bug == LEAVES_EARLY) {
            w->inside = 0;
        }
        if (s->at == REPORTED) {
            model_violation("a unit is run after the canceller has reported");
        }
        model_say("hd_work_run");
        w->at = FINISH;
        return true;
    case FINISH: /* up to here its accesses may linger */
        if (s->at == REPORTED) {
            model_violation("a unit is under way when the canceller reports");
        }
        s->finished++;
        model_say("finish: %u are", s->finished);
        w->at = LEAVE;
        return true;
    case LEAVE:
        w->inside = 0;
        model_say("leave");
        w->at = s->closed || s->next == UNITS ? GONE : ENTER;
        return true;
    default:
        return false;
    }
}

/* --- the canceller ---------------------------------------------------------------------------- */

static bool is_inside(const state_t *s, uint32_t i) {
    bool lives = i != 0 || !s->lost || bug == WAITS_FOR_DEAD;
    return s->w[i].inside && lives && bug != WAITS_FOR_NOBODY;
}

static bool step_canceller(state_t *s, uint32_t choice) {
    switch (s->at) {
    case BEFORE:
        model_say("hd_group_poison");
        s->at = CLOSE;
        return choice == 0;
    case CLOSE:
        s->closed = 1;
        s->claimed = s->next;
        model_say("hd_slice_close: %u were claimed", s->claimed);
        s->at = bug == LOOKS_BEFORE ? REPORTED : COUNT;
        return choice == 0;
    case COUNT:
        model_say("hd_near_is_quiet: %u of %u are finished", s->finished, s->claimed);
        s->at = s->finished == s->claimed ? REPORTED : LOOK;
        return choice == 0;
    case LOOK:
        if (choice == 1) { /* its next step begins anew, if that makes a difference */
            model_say("hd_near_is_quiet: again");
            s->at = COUNT;
            s->looked = 0;
            return bug != LOOKS_BEFORE && s->finished == s->claimed;
        }
        if (is_inside(s, s->looked)) {
            return false;
        }
        model_say("somebody_is_inside: not worker %u", s->looked);
        s->looked++;
        if (s->looked == WORKERS) {
            s->at = bug == LOOKS_BEFORE ? CLOSE : REPORTED;
            s->looked = 0;
        }
        return true;
    default:
        return false;
    }
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    if (actor == CANCELLER) {
        return step_canceller(s, choice);
    }
    if (actor == WATCH) {
        model_say("hd_reach_lose");
        bool sees = choice == 0 && s->w[0].at == DEAD && !s->lost;
        s->lost = 1;
        return sees;
    }
    if (choice == 1) {
        bool dies = variant == ONE_DIES && actor == 0 && s->w[0].at < GONE;
        model_say("the process dies");
        s->w[0].at = DEAD;
        s->w[0].seen = 0;
        return dies;
    }
    return step_worker(s, actor);
}

static const char *end(const void *state) {
    const state_t *s = state;
    return s->at == REPORTED ? NULL : "the canceller waits for ever";
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"waits-for-dead", ONE_DIES, "the canceller waits for units that the dead have claimed"},
    {"waits-for-nobody", ALL_LIVE, "units that are not finished are taken for those of the dead"},
    {"enters-late", ALL_LIVE, "a worker says that it is inside after its claim"},
    {"leaves-early", ALL_LIVE, "a worker says that it is not inside before its unit is finished"},
    {"looks-before", ALL_LIVE, "the canceller closes the slice after it has looked"},
    {"claims-when-closed", ALL_LIVE, "a claim succeeds in a slice that was closed meanwhile"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "near_cancel",
    .bytes = sizeof(state_t),
    .actors = WORKERS + 2,
    .choices = 2,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
