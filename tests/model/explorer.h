/* explorer.h: visits every state that a small model of a protocol can reach.
 *
 * A model is a few ACTORS (threads) over one STATE, a struct of uint8_t fields only, so that equal
 * states have equal bytes. step() executes one actor's next step: at most one access to what others
 * read or write, as the code has between two points where another thread may come in. An actor that
 * can go on in several ways (a time-out may or may not strike, a store may or may not have left its
 * buffer) has several CHOICES. The explorer tries all choices of all actors in all states, breadth
 * first, so a counterexample is as short as can be.
 *
 * What is found: a step that calls model_violation(); a state in which no actor can step although
 * end() says that it is not a proper end (a deadlock, a lost wake-up). Loops that wait are
 * therefore written as steps that can't be taken while what they wait for is not so. What is not
 * found: missing acquire or release (steps are sequentially consistent; ThreadSanitizer is for
 * that), but a model may hold store buffers of its own, see park_model.c.
 *
 * A model has VARIANTS (sizes, modes), each of which must be free of counterexamples, and planted
 * BUGS, each of which must have one: a model that can't tell a wrong protocol proves nothing.
 */
#ifndef HD_MODEL_EXPLORER_H
#define HD_MODEL_EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct model_bug {
    const char *name;
    uint32_t variant; /* in which it shows */
    const char *what;
} model_bug_t;

typedef struct model {
    const char *name;
    size_t bytes; /* of a state */
    uint32_t actors, choices;
    const char *const *variants; /* names, NULL at the end */
    const model_bug_t *bugs;     /* [0] stands for none; name NULL at the end */
    /* Remembers variant and bug (an index) and fills the first state, which is zeroed. */
    void (*start)(void *state, uint32_t variant, uint32_t bug);
    /* False if this actor can't take this choice now; what it did to the state is forgotten. */
    bool (*step)(void *state, uint32_t actor, uint32_t choice);
    /* Nobody can step: NULL if that is a proper end, else what is wrong. */
    const char *(*end)(const void *state);
} model_t;

/* From step: the property that was violated. The first one counts. */
void model_violation(const char *what);
/* From step: what it does, for traces; starts with the function of src/ that it stands for. */
__attribute__((format(printf, 1, 2))) void model_say(const char *format, ...);

/* Usage of a model's program: no argument or --self-test: every variant passes, every bug is found.
 * --bug NAME: shows the counterexample, exit status 1. --variant NAME: that variant only. */
int model_main(const model_t *model, int argc, char **argv);

#endif
