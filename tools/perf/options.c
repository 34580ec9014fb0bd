/* options.c: the command line of heddle_perf. */
#include "perf.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_TASKS = 256,
    OPTION_DRIVERS,
    OPTION_IN_PLACE,
    OPTION_ROOT,
    OPTION_PERSISTENT,
    OPTION_API,
    OPTION_BIND,
    OPTION_WARMUP,
    OPTION_SECONDS,
    OPTION_NO_VERIFY,
    OPTION_UNEVEN,
    OPTION_JSON,
    OPTION_QUICK,
    OPTION_NO_REFERENCE,
    OPTION_LIST,
    OPTION_TOUCH,
    OPTION_LIMITS,
    OPTION_OVERLAP,
    OPTION_INTERVAL,
    OPTION_BACK_TO_BACK,
    OPTION_CSV,
    OPTION_TUNE,
    OPTION_VARIABLES,
    OPTION_PROCESSES,
    OPTION_RANK,
    OPTION_ADDRESS,
    OPTION_KEY_FILE,
    OPTION_MESSAGES,
    OPTION_MEM,
    OPTION_DEVICE,
    OPTION_STREAM
};

enum { MOST_ENDPOINTS = 1 << 20 };

static const struct option long_options[] = {
    {"threads", required_argument, NULL, 'n'},
    {"tasks", required_argument, NULL, OPTION_TASKS},
    {"drivers", required_argument, NULL, OPTION_DRIVERS},
    {"min", required_argument, NULL, 'b'},
    {"max", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"iterations", required_argument, NULL, 'i'},
    {"in-place", no_argument, NULL, OPTION_IN_PLACE},
    {"root", required_argument, NULL, OPTION_ROOT},
    {"persistent", no_argument, NULL, OPTION_PERSISTENT},
    {"api", required_argument, NULL, OPTION_API},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"no-verify", no_argument, NULL, OPTION_NO_VERIFY},
    {"uneven", no_argument, NULL, OPTION_UNEVEN},
    {"json", required_argument, NULL, OPTION_JSON},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"no-reference", no_argument, NULL, OPTION_NO_REFERENCE},
    {"list", no_argument, NULL, OPTION_LIST},
    {"touch", no_argument, NULL, OPTION_TOUCH},
    {"limits", no_argument, NULL, OPTION_LIMITS},
    {"overlap", no_argument, NULL, OPTION_OVERLAP},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"back-to-back", no_argument, NULL, OPTION_BACK_TO_BACK},
    {"csv", required_argument, NULL, OPTION_CSV},
    {"tune", optional_argument, NULL, OPTION_TUNE},
    {"variables", required_argument, NULL, OPTION_VARIABLES},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"rank", required_argument, NULL, OPTION_RANK},
    {"address", required_argument, NULL, OPTION_ADDRESS},
    {"key-file", required_argument, NULL, OPTION_KEY_FILE},
    {"messages", no_argument, NULL, OPTION_MESSAGES},
    {"mem", required_argument, NULL, OPTION_MEM},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"stream", no_argument, NULL, OPTION_STREAM},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void list(void) {
    printf("collectives:");
    for (size_t i = 0; i < perf_n_colls; i++) {
        printf(" %s", perf_colls[i].name);
    }
    printf("\ndatatypes:  ");
    perf_datatypes_print(stdout);
    printf("\noperations: ");
    perf_operations_print(stdout);
    printf("\n");
}

/* ------------------------------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    end += shift != 0;
    if (errno != 0 || *end != '\0' || number > (UINT64_MAX >> shift)) {
        return false;
    }
    *value = (uint64_t)number << shift;
    return *value >= least && *value <= most;
}

bool perf_parse_bytes(const char *text, uint64_t *bytes) {
    return parse_number(text, 0, UINT64_MAX, bytes);
}

static bool parse_u32(const char *text, uint64_t least, uint64_t most, uint32_t *value) {
    uint64_t wide = 0;
    if (!parse_number(text, least, most, &wide)) {
        return false;
    }
    *value = (uint32_t)wide;
    return true;
}

static bool parse_seconds(const char *text, double *value) {
    char *end = NULL;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value > 0.0 && *value <= 3600.0;
}

static bool parse_interval(const char *text, double *seconds) {
    double microseconds = 0.0;
    char *end = NULL;
    microseconds = strtod(text, &end);
    *seconds = microseconds * 1e-6;
    return end != text && *end == '\0' && microseconds > 0.0 && microseconds <= 1e9;
}

static bool parse_root(const char *text, perf_options_t *o) {
    o->alternate = strcmp(text, "alternate") == 0;
    return o->alternate || parse_u32(text, 0, MOST_ENDPOINTS, &o->root);
}

static bool parse_api(const char *text, perf_api_t *api) {
    *api = strcmp(text, "ucc") == 0 ? PERF_API_UCC : PERF_API_HEDDLE;
    return strcmp(text, "ucc") == 0 || strcmp(text, "heddle") == 0;
}

static bool parse_bind(const char *text, perf_bind_t *bind) {
    static const char *const names[] = {"auto", "none", "compact", "spread"};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *bind = (perf_bind_t)i;
            return true;
        }
    }
    return false;
}

static bool parse_memory(const char *text, ucc_memory_type_t *memory) {
    static const struct {
        const char *name;
        ucc_memory_type_t memory;
    } all[] = {{"host", UCC_MEMORY_TYPE_HOST},
               {"cuda", UCC_MEMORY_TYPE_CUDA},
               {"cuda-managed", UCC_MEMORY_TYPE_CUDA_MANAGED}};
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(text, all[i].name) == 0) {
            *memory = all[i].memory;
            return true;
        }
    }
    return false;
}

static bool parse_device(const char *text, int *device) {
    uint32_t number = 0;
    bool good = parse_u32(text, 0, 63, &number);
    *device = (int)number;
    return good;
}

static bool choose(perf_options_t *o, const char *name) {
    const perf_coll_t *coll = perf_coll_find(name);
    if (coll == NULL || o->n_chosen == PERF_MAX_CHOSEN) {
        fprintf(stderr, "heddle_perf: unknown collective '%s', see --list\n", name);
        return false;
    }
    o->chosen[o->n_chosen++] = coll;
    return true;
}

/* What the command line gave, before defaults. */
typedef struct given {
    bool threads, tasks, drivers, sizes, seconds, api;
    uint32_t n_drivers;
} given_t;

/* Which processes take part, how it is measured, and tuning. */
static bool take_manner(perf_options_t *o, int option) {
    switch (option) {
    case OPTION_PROCESSES:
        return parse_u32(optarg, 1, 65536, &o->processes);
    case OPTION_RANK:
        o->ranked = true;
        return parse_u32(optarg, 0, 65535, &o->rank);
    case OPTION_ADDRESS:
        o->address = optarg;
        return true;
    case OPTION_KEY_FILE:
        o->key_file = optarg;
        return true;
    case OPTION_MEM:
        return parse_memory(optarg, &o->memory);
    case OPTION_DEVICE:
        return parse_device(optarg, &o->device);
    case OPTION_STREAM:
        o->stream = true;
        return true;
    case OPTION_MESSAGES:
        o->messages = true;
        return true;
    case OPTION_TOUCH:
        o->touch = true;
        return true;
    case OPTION_LIMITS:
        o->limits = true;
        return true;
    case OPTION_OVERLAP:
        o->overlap = true;
        return true;
    case OPTION_INTERVAL:
        return parse_interval(optarg, &o->interval);
    case OPTION_BACK_TO_BACK:
        o->back_to_back = true;
        return true;
    case OPTION_TUNE:
        o->tune = true;
        o->tune_file = optarg;
        return true;
    case OPTION_VARIABLES:
        o->variables = optarg;
        return true;
    default:
        return false;
    }
}

/* One option; false when its value is not acceptable. */
static bool take(perf_options_t *o, given_t *given, int option) {
    const uint64_t most_bytes = UINT64_C(1) << 40;
    switch (option) {
    case 'n':
        given->threads = true;
        return parse_u32(optarg, 1, 65536, &o->endpoints);
    case OPTION_TASKS:
        given->tasks = true;
        o->tasks = true;
        return parse_u32(optarg, 1, MOST_ENDPOINTS, &o->endpoints);
    case OPTION_DRIVERS:
        given->drivers = true;
        return parse_u32(optarg, 1, 65536, &given->n_drivers);
    case 'b':
        given->sizes = true;
        return parse_number(optarg, 1, most_bytes, &o->bytes_min);
    case 'e':
        given->sizes = true;
        return parse_number(optarg, 1, most_bytes, &o->bytes_max);
    case 'f':
        given->sizes = true;
        return parse_number(optarg, 2, 1U << 20, &o->factor);
    case 'd':
        o->datatype = perf_datatype_find(optarg);
        return o->datatype != NULL;
    case 'o':
        o->operation = perf_operation_find(optarg);
        return o->operation != NULL;
    case 'i':
        return parse_number(optarg, 1, 100000000, &o->iterations);
    case OPTION_IN_PLACE:
        o->in_place = true;
        return true;
    case OPTION_ROOT:
        return parse_root(optarg, o);
    case OPTION_PERSISTENT:
        o->persistent = true;
        return true;
    case OPTION_API:
        given->api = true;
        return parse_api(optarg, &o->api);
    case OPTION_BIND:
        return parse_bind(optarg, &o->bind);
    case OPTION_WARMUP:
        return parse_number(optarg, 0, 100000000, &o->warmup);
    case OPTION_SECONDS:
        given->seconds = true;
        return parse_seconds(optarg, &o->seconds);
    case OPTION_NO_VERIFY:
        o->verify = false;
        return true;
    case OPTION_UNEVEN:
        o->uneven = true;
        return true;
    case OPTION_JSON:
        o->json = optarg;
        return true;
    case OPTION_CSV:
        o->csv = optarg;
        return true;
    case OPTION_QUICK:
        o->quick = true;
        return true;
    case OPTION_NO_REFERENCE:
        o->reference = false;
        return true;
    default:
        return take_manner(o, option);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Defaults and contradictions
 * ---------------------------------------------------------------------------------------------- */

static void apply_quick(perf_options_t *o, const given_t *given) {
    static const char *const names[] = {"barrier", "bcast", "allreduce", "alltoall"};
    if (!given->sizes) {
        o->bytes_max = 256 << 10;
        o->factor = 32;
    }
    if (!given->seconds) {
        o->seconds = 0.05;
    }
    if (o->n_chosen == 0) {
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            o->chosen[o->n_chosen++] = perf_coll_find(names[i]);
        }
    }
}

static const char *contradiction_in_manner(const perf_options_t *o) {
    if (o->overlap && (o->touch || o->limits || o->back_to_back)) {
        return "--overlap has a loop of its own: not with --touch, --limits or --back-to-back";
    }
    if (o->messages && (o->overlap || o->touch || o->limits || o->back_to_back)) {
        return "--messages counts and does not measure: not with --touch, --limits, --overlap or "
               "--back-to-back";
    }
    if (o->memory != UCC_MEMORY_TYPE_HOST && (o->touch || o->tune || o->processes > 1)) {
        return "--mem is for one process, without --touch and --tune";
    }
    if (o->stream &&
        (o->memory == UCC_MEMORY_TYPE_HOST || o->tasks || o->persistent || o->overlap)) {
        return "--stream needs --mem, and threads: not with --tasks, --persistent or --overlap";
    }
    if (o->device >= 0 && o->memory == UCC_MEMORY_TYPE_HOST) {
        return "--device needs --mem";
    }
    if (o->ranked && o->rank >= o->processes) {
        return "--rank R needs --processes N, with R below N";
    }
    if (o->address != NULL && !o->ranked && o->processes > 0) {
        return "--address is for processes that find each other: not with --processes alone, which "
               "starts them";
    }
    if (o->tune && o->processes > 1) {
        return "--tune is for the threads of one process";
    }
    if (o->interval > 0.0 && !o->overlap) {
        return "--interval needs --overlap";
    }
    if (o->touch && o->back_to_back) {
        return "--touch and --back-to-back exclude each other";
    }
    if (o->alternate && o->persistent) {
        return "--root alternate and --persistent exclude each other: a persistent request keeps "
               "its root";
    }
    if (o->tune && (o->tasks || o->overlap || o->limits || o->json != NULL || o->csv != NULL)) {
        return "--tune takes --threads, --seconds, --variables and collectives only";
    }
    return o->variables != NULL && !o->tune ? "--variables needs --tune" : NULL;
}

static const char *contradiction(const perf_options_t *o, const given_t *given) {
    if (given->threads && given->tasks) {
        return "--threads and --tasks exclude each other";
    }
    if (given->drivers && !given->tasks) {
        return "--drivers needs --tasks";
    }
    if (given->api && o->api == PERF_API_HEDDLE && (o->tasks || o->persistent || o->overlap)) {
        return "--tasks, --persistent and --overlap need --api ucc: a blocking call cannot serve "
               "them";
    }
    if (given->api && o->api == PERF_API_HEDDLE && o->memory != UCC_MEMORY_TYPE_HOST) {
        return "--mem needs --api ucc: blocking calls take memory of the host";
    }
    if (o->bytes_min > o->bytes_max) {
        return "--min is larger than --max";
    }
    return contradiction_in_manner(o);
}

bool perf_options_fit(const perf_options_t *o) {
    const char *problem = NULL;
    if (o->root >= o->endpoints) {
        problem = "--root is not an endpoint";
    } else if (o->limits && o->processes == 1 && o->workers < 2 &&
               o->memory == UCC_MEMORY_TYPE_HOST) {
        problem = "--limits needs two threads or more";
    } else if (o->messages && o->processes == 1) {
        problem = "--messages needs several processes";
    }
    if (problem != NULL && o->process == 0) {
        fprintf(stderr, "heddle_perf: %s\n", problem);
    }
    return problem == NULL;
}

static bool finish(perf_options_t *o, const given_t *given) {
    uint32_t processors = perf_processors();
    if (o->endpoints == 0 && o->processes > 1) {
        o->endpoints = processors > o->processes ? processors / o->processes : 1;
    }
    if (o->endpoints == 0) {
        o->endpoints = processors < 2 ? 2 : processors;
    }
    const char *problem = contradiction(o, given);
    if (problem != NULL) {
        fprintf(stderr, "heddle_perf: %s\n", problem);
        return false;
    }
    o->workers = o->endpoints;
    if (o->tasks) {
        o->workers = given->drivers ? given->n_drivers : processors;
        o->workers = o->workers > o->endpoints ? o->endpoints : o->workers;
    }
    if (o->tasks || o->persistent || o->overlap || o->memory != UCC_MEMORY_TYPE_HOST) {
        o->api = PERF_API_UCC;
    }
    o->reference = o->reference && !o->limits && !o->overlap &&
                   !o->messages && /* --limits measures it in between */
                   o->memory == UCC_MEMORY_TYPE_HOST;
    if (o->tune) {
        o->tune_seconds = given->seconds ? o->seconds : 0.0;
        return true; /* the variables say which collectives decide */
    }
    if (o->quick) {
        apply_quick(o, given);
    } else if (o->n_chosen == 0) {
        for (size_t i = 0; i < perf_n_colls; i++) {
            o->chosen[o->n_chosen++] = &perf_colls[i];
        }
    }
    return true;
}

bool perf_options_parse(int argc, char **argv, perf_options_t *o, int *exit_status) {
    given_t given = {0};
    *o = (perf_options_t){.bytes_min = 8,
                          .bytes_max = 1 << 20,
                          .factor = 4,
                          .datatype = perf_datatype_find("float32"),
                          .operation = perf_operation_find("sum"),
                          .verify = true,
                          .reference = true,
                          .memory = UCC_MEMORY_TYPE_HOST,
                          .device = -1,
                          .warmup = 10,
                          .seconds = 0.1};
    *exit_status = 2;
    int option;
    while ((option = getopt_long(argc, argv, "n:b:e:f:d:o:i:h", long_options, NULL)) != -1) {
        if (option == 'h' || option == OPTION_LIST) {
            option == 'h' ? perf_help() : list();
            *exit_status = 0;
            return false;
        }
        if (option == '?') {
            fprintf(stderr, "Try heddle_perf --help.\n");
            return false;
        }
        if (!take(o, &given, option)) {
            fprintf(stderr, "heddle_perf: '%s' is not a possible value here, see --help\n", optarg);
            return false;
        }
        /* --tune FILE as two words, where the second one cannot be anything else */
        if (option == OPTION_TUNE && optarg == NULL && optind < argc && argv[optind][0] != '-' &&
            perf_coll_find(argv[optind]) == NULL) {
            o->tune_file = argv[optind++];
        }
    }
    for (; optind < argc; optind++) {
        if (!choose(o, argv[optind])) {
            return false;
        }
    }
    return finish(o, &given);
}
