/* ends_model.c: parts that both ends copy, and a reader that cancels, src/shm/ends.c.
 *
 * A reader takes parts and reads them; a source, of another process, takes parts and writes them to
 * the reader's buffer, and may die before any of its steps, as the reader's watch sees some time
 * later. The reader ends when all parts are taken, and those of the source written; or it cancels,
 * at any time: it closes the word, and reports when what the source has taken is written, or the
 * source is lost.
 *
 * Properties: when the reader has ended, each part is copied, once; when it has ended or reported,
 * nobody writes any more; who cancels does not wait for ever.
 */
#include "explorer.h"

#include <string.h>

enum { PARTS = 3 };
enum { READER, SOURCE, CANCELLER, WATCH, ACTORS };

/* where an end is */
enum { TAKE, SWAP, COPY, COUNT, LATE_COPY, NONE_LEFT, DONE, DEAD };
/* where the canceller is */
enum { BEFORE, CLOSE, LOOK, REPORTED };

/* planted bugs */
enum {
    NO_BUG,
    REPORTS_AT_ONCE,    /* who cancels closes the word, and does not look what is under way */
    COUNTS_FIRST,       /* the source counts a part before it has written it */
    TAKES_WHEN_CLOSED,  /* the source does not mind that the word was closed */
    TAKES_BLINDLY,      /* the source adds to the word that it has seen some time ago */
    ENDS_WHEN_TAKEN,    /* the reader ends when all are taken */
    WAITS_FOR_THE_DEAD, /* who cancels waits for a source that is lost */
    LOOKS_BEFORE        /* who cancels looks what is under way, and then closes the word */
};

typedef struct state {
    uint8_t taken, sources, closed;  /* the word */
    uint8_t written;                 /* the count */
    uint8_t reader, source;          /* where they are */
    uint8_t seen[2], seen_closed[2]; /* what they have seen of the word */
    uint8_t part[2];
    uint8_t copied[PARTS];
    uint8_t canceller, lost;
} state_t;

enum { ALL_LIVE, SOURCE_DIES };
static const char *const variant_names[] = {"all-live", "source-dies", NULL};
static uint32_t variant, bug;

static void start(void *state, uint32_t which, uint32_t planted) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    variant = which;
    bug = planted;
    s->canceller = bug == LOOKS_BEFORE ? LOOK : BEFORE;
}

static bool is_over(const state_t *s) {
    return s->reader == DONE || s->canceller == REPORTED;
}

static void copy(state_t *s, uint32_t end) {
    if (end == 1 && is_over(s)) {
        model_violation("the source writes after the reader has ended or reported");
    }
    if (s->copied[s->part[end]]++) {
        model_violation("a part is copied twice");
    }
}

static bool take(state_t *s, uint8_t *at, uint32_t end) {
    bool blind = end == 1 && bug == TAKES_BLINDLY;
    bool heedless = end == 1 && bug == TAKES_WHEN_CLOSED;
    if (*at == TAKE) {
        s->seen[end] = s->taken;
        s->seen_closed[end] = s->closed;
        model_say("hd_ends_take: %u are taken%s", s->taken, s->closed ? ", closed" : "");
        *at = (s->closed && !heedless) || s->taken >= PARTS ? NONE_LEFT : SWAP;
        return true;
    }
    bool fits =
        (s->seen[end] == s->taken || blind) && (s->seen_closed[end] == s->closed || heedless);
    model_say("hd_ends_take: part %u%s", s->seen[end], fits ? "" : " is not mine");
    if (fits) {
        s->part[end] = s->seen[end];
        s->taken = (uint8_t)(s->seen[end] + 1);
        s->sources = (uint8_t)(s->sources + end);
    }
    *at = fits ? COPY : TAKE;
    return true;
}

static bool step_reader(state_t *s) {
    switch (s->reader) {
    case TAKE:
    case SWAP:
        return s->canceller != REPORTED && take(s, &s->reader, 0);
    case COPY: /* its own process's: a canceller waits for that elsewhere (claim_model.c) */
        model_say("hd_pull");
        copy(s, 0);
        s->reader = TAKE;
        return true;
    case NONE_LEFT:
        model_say("hd_ends_are_done: %u of %u are written", s->written, s->sources);
        if (s->taken < PARTS || (s->written != s->sources && bug != ENDS_WHEN_TAKEN)) {
            return false;
        }
        for (uint32_t i = 0; i < PARTS; i++) {
            if (s->copied[i] != 1 && s->canceller < CLOSE) {
                model_violation("the reader ends before all parts are copied");
            }
        }
        s->reader = DONE;
        return true;
    default:
        return false;
    }
}

static bool step_source(state_t *s) {
    switch (s->source) {
    case TAKE:
    case SWAP:
        return take(s, &s->source, 1);
    case COPY:
        if (bug != COUNTS_FIRST) {
            model_say("hd_push");
            copy(s, 1);
            s->source = COUNT;
            return true;
        }
        s->written++;
        model_say("hd_ends_wrote: %u are", s->written);
        s->source = LATE_COPY;
        return true;
    case COUNT:
        s->written++;
        model_say("hd_ends_wrote: %u are", s->written);
        s->source = TAKE;
        return true;
    case LATE_COPY:
        model_say("hd_push");
        copy(s, 1);
        s->source = TAKE;
        return true;
    default:
        return false;
    }
}

static bool step_canceller(state_t *s) {
    switch (s->canceller) {
    case BEFORE:
        model_say("hd_group_poison");
        s->canceller = CLOSE;
        return true;
    case CLOSE:
        s->closed = 1;
        model_say("hd_ends_close");
        s->canceller = bug == REPORTS_AT_ONCE || bug == LOOKS_BEFORE ? REPORTED : LOOK;
        return true;
    case LOOK:
        model_say("hd_ends_close: %u of %u are written", s->written, s->sources);
        if (s->written != s->sources && (!s->lost || bug == WAITS_FOR_THE_DEAD)) {
            return false;
        }
        s->canceller = bug == LOOKS_BEFORE ? CLOSE : REPORTED;
        return true;
    default:
        return false;
    }
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    switch (actor) {
    case READER:
        return choice == 0 && step_reader(s);
    case SOURCE:
        if (choice == 1) {
            model_say("the process dies");
            bool dies = variant == SOURCE_DIES && s->source != DEAD;
            s->source = DEAD;
            return dies;
        }
        return step_source(s);
    case CANCELLER:
        return choice == 0 && s->reader != DONE && step_canceller(s);
    default: {
        model_say("hd_reach_lose");
        bool sees = choice == 0 && s->source == DEAD && !s->lost;
        s->lost = 1;
        return sees;
    }
    }
}

static const char *end(const void *state) {
    return is_over(state) ? NULL : "the reader waits for ever";
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"reports-at-once", ALL_LIVE, "who cancels does not look what is under way"},
    {"counts-first", ALL_LIVE, "the source counts a part before it has written it"},
    {"takes-when-closed", ALL_LIVE, "the source takes a part though the word was closed"},
    {"takes-blindly", ALL_LIVE, "the source takes a part that was free some time ago"},
    {"ends-when-taken", ALL_LIVE, "the reader ends when all parts are taken"},
    {"waits-for-the-dead", SOURCE_DIES, "who cancels waits for what the dead have taken"},
    {"looks-before", ALL_LIVE, "who cancels closes the word after it has looked"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "ends",
    .bytes = sizeof(state_t),
    .actors = ACTORS,
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
