/* explorer.c: breadth-first search over the states of a model.
 *
 * States lie in blocks, numbered in the order of their discovery; beside each lie its parent's
 * number and the move that led here. A hash table of numbers tells known states from new ones.
 */
#include "explorer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK_STATES = 1 << 14, MAX_BLOCKS = 1 << 10, NONE = 0 };

typedef struct origin {
    uint32_t parent;
    uint16_t actor, choice;
} origin_t;

typedef struct search {
    const model_t *model;
    size_t stride; /* of a state, rounded up for the hash */
    uint8_t *block[MAX_BLOCKS];
    origin_t *origin[MAX_BLOCKS];
    uint32_t n;      /* states known */
    uint32_t *table; /* number + 1, or NONE; a power of two of them */
    uint32_t mask;
    uint64_t steps;
} search_t;

static bool telling;
static const char *violation;

void model_violation(const char *what) {
    if (!violation) {
        violation = what;
    }
}

void model_say(const char *format, ...) {
    if (telling) {
        va_list args;
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
    }
}

static void *must_alloc(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "no memory for the states of a model\n");
        exit(2);
    }
    return memory;
}

static uint8_t *state_at(const search_t *s, uint32_t i) {
    return s->block[i / BLOCK_STATES] + (size_t)(i % BLOCK_STATES) * s->stride;
}

static origin_t *origin_at(const search_t *s, uint32_t i) {
    return &s->origin[i / BLOCK_STATES][i % BLOCK_STATES];
}

static uint32_t hash(const uint8_t *state, size_t stride) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < stride; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, state + at, sizeof(word));
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

static void grow_table(search_t *s) {
    uint32_t size = s->table ? 2 * (s->mask + 1) : 1 << 16;
    free(s->table);
    s->table = must_alloc(size * sizeof(*s->table));
    s->mask = size - 1;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t at = hash(state_at(s, i), s->stride) & s->mask;
        while (s->table[at] != NONE) {
            at = (at + 1) & s->mask;
        }
        s->table[at] = i + 1;
    }
}

/* Adds a state unless it is known. */
static void add(search_t *s, const uint8_t *state, origin_t origin) {
    if (!s->table || s->n > s->mask / 2) {
        grow_table(s);
    }
    uint32_t at = hash(state, s->stride) & s->mask;
    for (; s->table[at] != NONE; at = (at + 1) & s->mask) {
        if (memcmp(state_at(s, s->table[at] - 1), state, s->stride) == 0) {
            return;
        }
    }
    uint32_t block = s->n / BLOCK_STATES;
    if (block == MAX_BLOCKS) {
        fprintf(stderr, "%s: more than %u states\n", s->model->name, s->n);
        exit(2);
    }
    if (!s->block[block]) {
        s->block[block] = must_alloc(BLOCK_STATES * s->stride);
        s->origin[block] = must_alloc(BLOCK_STATES * sizeof(origin_t));
    }
    memcpy(state_at(s, s->n), state, s->stride);
    *origin_at(s, s->n) = origin;
    s->table[at] = ++s->n;
}

static void close_search(search_t *s) {
    for (uint32_t i = 0; i < MAX_BLOCKS && s->block[i]; i++) {
        free(s->block[i]);
        free(s->origin[i]);
    }
    free(s->table);
}

/* Tries all moves from state i; false if one of them, or having none, violates a property: then
 * *last is the violating move, or has actor == actors. */
static bool expand(search_t *s, uint32_t i, uint8_t *scratch, origin_t *last) {
    const model_t *m = s->model;
    bool any = false;
    for (uint32_t actor = 0; actor < m->actors; actor++) {
        for (uint32_t choice = 0; choice < m->choices; choice++) {
            memcpy(scratch, state_at(s, i), s->stride);
            *last = (origin_t){i, (uint16_t)actor, (uint16_t)choice};
            if (!m->step(scratch, actor, choice)) {
                continue;
            }
            any = true;
            s->steps++;
            if (violation) {
                return false;
            }
            add(s, scratch, *last);
        }
    }
    *last = (origin_t){i, (uint16_t)m->actors, 0};
    if (!any) {
        violation = m->end(state_at(s, i));
    }
    return !violation;
}

/* The moves from the first state to the violation, replayed aloud. */
static void tell(search_t *s, origin_t last, uint8_t *scratch) {
    uint32_t length = 0, i;
    for (i = last.parent; i != 0; i = origin_at(s, i)->parent) {
        length++;
    }
    origin_t *move = must_alloc((length + 1) * sizeof(*move));
    move[length] = last;
    i = last.parent;
    for (uint32_t at = length; at-- > 0;) {
        move[at] = *origin_at(s, i);
        i = move[at].parent;
    }
    memcpy(scratch, state_at(s, 0), s->stride);
    telling = true;
    for (uint32_t at = 0; at <= length; at++) {
        if (move[at].actor < s->model->actors) {
            printf("  %3u. [%u] ", at + 1, move[at].actor);
            s->model->step(scratch, move[at].actor, move[at].choice);
            printf("\n");
        }
    }
    telling = false;
    printf("  violated: %s\n", violation);
    free(move);
}

/* True if no counterexample exists; `aloud` prints one that does. */
static bool explore(const model_t *model, uint32_t variant, uint32_t bug, bool aloud) {
    search_t s = {.model = model, .stride = (model->bytes + 7) / 8 * 8};
    uint8_t *scratch = must_alloc(s.stride);
    origin_t last = {0};
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    violation = NULL;
    model->start(scratch, variant, bug);
    add(&s, scratch, last);
    bool good = true;
    for (uint32_t i = 0; good && i < s.n; i++) {
        good = expand(&s, i, scratch, &last);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    const char *found = violation ? violation : "no counterexample";
    printf("%s, %s, %s: %u states, %llu steps, %.1f s: %s\n", model->name, model->variants[variant],
           bug ? model->bugs[bug].name : "as built", s.n, (unsigned long long)s.steps,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9,
           found);
    if (!good && aloud) {
        tell(&s, last, scratch);
    }
    fflush(stdout);
    close_search(&s);
    free(scratch);
    return good;
}

static int self_test(const model_t *model) {
    bool good = true;
    for (uint32_t v = 0; model->variants[v]; v++) {
        good = explore(model, v, 0, true) && good;
    }
    for (uint32_t b = 1; model->bugs[b].name; b++) {
        if (explore(model, model->bugs[b].variant, b, false)) {
            printf("%s: the planted bug %s was not found (%s)\n", model->name, model->bugs[b].name,
                   model->bugs[b].what);
            good = false;
        }
    }
    printf("%s: %s\n", model->name, good ? "passed" : "FAILED");
    return good ? 0 : 1;
}

static int usage(const model_t *model) {
    printf("usage: %s_model [--self-test | --variant NAME | --bug NAME]\nvariants:", model->name);
    for (uint32_t v = 0; model->variants[v]; v++) {
        printf(" %s", model->variants[v]);
    }
    printf("\nbugs:\n");
    for (uint32_t b = 1; model->bugs[b].name; b++) {
        printf("  %-24s %s\n", model->bugs[b].name, model->bugs[b].what);
    }
    return 2;
}

int model_main(const model_t *model, int argc, char **argv) {
    if (argc == 1 || (argc == 2 && strcmp(argv[1], "--self-test") == 0)) {
        return self_test(model);
    }
    for (uint32_t v = 0; argc == 3 && strcmp(argv[1], "--variant") == 0 && model->variants[v];
         v++) {
        if (strcmp(argv[2], model->variants[v]) == 0) {
            return explore(model, v, 0, true) ? 0 : 1;
        }
    }
    for (uint32_t b = 1; argc == 3 && strcmp(argv[1], "--bug") == 0 && model->bugs[b].name; b++) {
        if (strcmp(argv[2], model->bugs[b].name) == 0) {
            return explore(model, model->bugs[b].variant, b, true) ? 0 : 1;
        }
    }
    return usage(model);
}
