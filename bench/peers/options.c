/* options.c: the table of collectives, and the command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

static const bench_coll_t colls[] = {
    {"barrier", BENCH_BARRIER, 0, BENCH_NOTHING, BENCH_NOTHING},
    {"fanin", BENCH_FANIN, BENCH_ROOTED | BENCH_ROOT_RECEIVES, BENCH_NOTHING, BENCH_NOTHING},
    {"fanout", BENCH_FANOUT, BENCH_ROOTED | BENCH_ROOT_SENDS, BENCH_NOTHING, BENCH_NOTHING},
    {"bcast", BENCH_BCAST, BENCH_ROOTED | BENCH_WHOLE | BENCH_ROOT_SENDS, BENCH_BLOCK,
     BENCH_NOTHING},
    {"reduce", BENCH_REDUCE, BENCH_ROOTED | BENCH_WHOLE | BENCH_SUMS | BENCH_ROOT_RECEIVES,
     BENCH_BLOCK, BENCH_BLOCK},
    {"allreduce", BENCH_ALLREDUCE, BENCH_WHOLE | BENCH_SUMS, BENCH_BLOCK, BENCH_BLOCK},
    {"reduce_scatter", BENCH_REDUCE_SCATTER, BENCH_SUMS, BENCH_BLOCKS, BENCH_BLOCK},
    {"reduce_scatterv", BENCH_REDUCE_SCATTERV, BENCH_SUMS | BENCH_UNEVEN, BENCH_BLOCKS,
     BENCH_BLOCK},
    {"allgather", BENCH_ALLGATHER, 0, BENCH_BLOCK, BENCH_BLOCKS},
    {"allgatherv", BENCH_ALLGATHERV, BENCH_UNEVEN, BENCH_BLOCK, BENCH_BLOCKS},
    {"gather", BENCH_GATHER, BENCH_ROOTED | BENCH_ROOT_RECEIVES, BENCH_BLOCK, BENCH_BLOCKS},
    {"gatherv", BENCH_GATHERV, BENCH_ROOTED | BENCH_UNEVEN | BENCH_ROOT_RECEIVES, BENCH_BLOCK,
     BENCH_BLOCKS},
    {"scatter", BENCH_SCATTER, BENCH_ROOTED | BENCH_ROOT_SENDS, BENCH_BLOCKS, BENCH_BLOCK},
    {"scatterv", BENCH_SCATTERV, BENCH_ROOTED | BENCH_UNEVEN | BENCH_ROOT_SENDS, BENCH_BLOCKS,
     BENCH_BLOCK},
    {"alltoall", BENCH_ALLTOALL, 0, BENCH_BLOCKS, BENCH_BLOCKS},
    {"alltoallv", BENCH_ALLTOALLV, BENCH_UNEVEN, BENCH_BLOCKS, BENCH_BLOCKS},
    {"exchange", BENCH_EXCHANGE, 0, BENCH_NOTHING, BENCH_NOTHING},
    {"line", BENCH_LINE, 0, BENCH_NOTHING, BENCH_NOTHING},
    {"ring", BENCH_RING, 0, BENCH_NOTHING, BENCH_NOTHING},
    {"yield", BENCH_YIELD, 0, BENCH_NOTHING, BENCH_NOTHING},
    {"copy", BENCH_COPY, BENCH_WHOLE, BENCH_BLOCK, BENCH_BLOCK},
    {"stream", BENCH_STREAM, BENCH_WHOLE, BENCH_BLOCK, BENCH_BLOCK},
    {"read", BENCH_READ, BENCH_WHOLE, BENCH_BLOCK, BENCH_NOTHING},
};

static const char usage[] =
    "usage: PEER [--collective a,b] [--bytes a,b] [--threads n] [--kind tight|touch]\n"
    "            [--form blocking|nonblocking|persistent] [--root fixed|alternating]\n"
    "            [--seconds s] [--time-limit s] [--variant name] [--no-verify] [--unbound]\n"
    "Prints a line of JSON for each collective and size that the peer supports.\n";

_Noreturn void bench_misuse(const char *option, const char *value) {
    fprintf(stderr, "bench: %s: cannot use '%s'\n%s", option, value, usage);
    exit(2);
}

static const bench_coll_t *find_coll(const char *name) {
    for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++) {
        if (strcmp(colls[i].name, name) == 0) {
            return &colls[i];
        }
    }
    return NULL;
}

static uint64_t parse_number(const char *option, const char *text, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value > most) {
        bench_misuse(option, text);
    }
    return value;
}

static size_t parse_choice(const char *option, const char *value, const char *const *choices) {
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], value) == 0) {
            return i;
        }
    }
    bench_misuse(option, value);
}

const char *const bench_kinds[] = {"tight", "touch", NULL};
const char *const bench_forms[] = {"blocking", "nonblocking", "persistent", NULL};
const char *const bench_roots[] = {"fixed", "alternating", NULL};

static void parse_colls(bench_options_t *o, char *list) {
    o->n_colls = 0;
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        const bench_coll_t *coll = find_coll(name);
        if (coll == NULL || o->n_colls == BENCH_MAX_POINTS) {
            bench_misuse("--collective", name);
        }
        o->colls[o->n_colls++] = coll;
    }
}

static void parse_bytes(bench_options_t *o, char *list) {
    o->n_bytes = 0;
    for (char *item = strtok(list, ","); item != NULL; item = strtok(NULL, ",")) {
        if (o->n_bytes == BENCH_MAX_POINTS) {
            bench_misuse("--bytes", item);
        }
        o->bytes[o->n_bytes++] = parse_number("--bytes", item, UINT64_C(1) << 40);
    }
}

static void parse_option(bench_options_t *o, const char *option, char *value) {
    if (strcmp(option, "--collective") == 0) {
        parse_colls(o, value);
    } else if (strcmp(option, "--bytes") == 0) {
        parse_bytes(o, value);
    } else if (strcmp(option, "--threads") == 0) {
        o->participants = (uint32_t)parse_number(option, value, 4096);
    } else if (strcmp(option, "--kind") == 0) {
        o->touch = parse_choice(option, value, bench_kinds) == 1;
    } else if (strcmp(option, "--form") == 0) {
        o->form = (bench_form_t)parse_choice(option, value, bench_forms);
    } else if (strcmp(option, "--root") == 0) {
        o->alternating = parse_choice(option, value, bench_roots) == 1;
    } else if (strcmp(option, "--seconds") == 0) {
        char *end;
        o->seconds = strtod(value, &end);
        if (*end != '\0' || !(o->seconds > 0.0 && o->seconds < 3600.0)) {
            bench_misuse(option, value);
        }
    } else if (strcmp(option, "--time-limit") == 0) {
        o->time_limit = (unsigned)parse_number(option, value, 86400);
    } else if (strcmp(option, "--variant") == 0) {
        o->variant = value;
    } else {
        bench_misuse(option, value);
    }
}

void bench_parse(bench_options_t *o, int argc, char **argv) {
    *o = (bench_options_t){.participants = 2, .verify = true, .seconds = 0.1, .variant = ""};
    o->colls[o->n_colls++] = find_coll("barrier");
    o->bytes[o->n_bytes++] = 8;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (strcmp(argv[i], "--no-verify") == 0) {
            o->verify = false;
            continue;
        }
        if (strcmp(argv[i], "--unbound") == 0) {
            o->unbound = true;
            continue;
        }
        if (i + 1 == argc) {
            bench_misuse(argv[i], "nothing");
        }
        parse_option(o, argv[i], argv[i + 1]);
        i++;
    }
}
