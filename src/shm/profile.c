/* profile.c: which profile is this process's, and what follows from it: see profile.h.
 *
 * The process's own profiles are written once, under pthread_once, which a fork in the middle of it
 * leaves to be done again by the child.
 */
#include "shm/profile.h"

#include "core/log.h"
#include "core/mem.h"
#include "core/topo.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* --- machines --------------------------------------------------------------------------------- */

/* Measured on quiet machines: the least of some runs of HEDDLE_PROFILE=measure. */
static const struct {
    const char *name;
    hd_profile_t profile;
} known[] = {
    {"epyc-milan",
     {"AuthenticAMD 25 1, L1 32K, L2 512K",
      "built in: epyc-milan",
      {{250, 831, 3196, 13301},
       {210, 661, 2324, 10687},
       {370, 1201, 4910, 20704},
       {290, 982, 4297, 20733},
       {1803, 5701, 25542, 125055},
       {1793, 5711, 24029, 107599},
       {3757, 9529, 32175, 143262},
       {1382, 5972, 40903, 218445},
       {1462, 5811, 37967, 184135},
       {6473, 28728, 80995, 393753},
       {9669, 40332, 114743, 460159}}}},
};

static const hd_profile_t none = {"any", "none", {{0}}};

#if defined(__x86_64__)
static void add_processor(char *text, size_t size) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    char maker[13] = "unknown";
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(maker, &b, 4);
        memcpy(maker + 4, &d, 4);
        memcpy(maker + 8, &c, 4);
        maker[12] = '\0';
    }
    a = 0;
    (void)__get_cpuid(1, &a, &b, &c, &d);
    uint32_t family = a >> 8 & 0xf, model = a >> 4 & 0xf;
    if (family == 6 || family == 15) {
        model += (a >> 16 & 0xf) << 4;
    }
    if (family == 15) {
        family += a >> 20 & 0xff;
    }
    snprintf(text, size, "%s %" PRIu32 " %" PRIu32, maker, family, model);
}
#else
static void add_processor(char *text, size_t size) {
    snprintf(text, size, "unknown");
}
#endif

void hd_profile_machine(char *text, size_t size) {
    const hd_topo_t *topo = hd_topo_get();
    add_processor(text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, ", L1 %zuK, L2 %zuK", hd_topo_cache_size(topo, 1) >> 10,
             hd_topo_cache_size(topo, 2) >> 10);
}

static const hd_profile_t *find_machine(const char *machine) {
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].profile.machine, machine) == 0) {
            return &known[i].profile;
        }
    }
    return NULL;
}

/* --- this process's --------------------------------------------------------------------------- */

static struct mine {
    pthread_once_t once;
    hd_profile_t measured;
    const hd_profile_t *profile;
} found = {.once = PTHREAD_ONCE_INIT}, measured = {.once = PTHREAD_ONCE_INIT};

/* While a team waits for it. */
static bool measure_soon(hd_profile_t *out) {
    return hd_profile_measure(out, 0.022);
}

static void find(void) {
    hd_profile_t *mine = &found.measured;
    hd_profile_machine(mine->machine, sizeof(mine->machine));
    found.profile = find_machine(mine->machine);
    if (!found.profile) {
        found.profile = hd_profile_keep(mine, measure_soon) ? mine : &none;
    }
    hd_debug("profile of %s: %s", mine->machine, found.profile->origin);
}

static void measure(void) {
    hd_profile_t *mine = &measured.measured;
    hd_profile_machine(mine->machine, sizeof(mine->machine));
    measured.profile = measure_soon(mine) ? mine : &none;
}

const hd_profile_t *hd_profile_of(const hd_profile_choice_t *choice) {
    struct mine *mine = choice->again ? &measured : &found;
    if (choice->profile) {
        return choice->profile;
    }
    pthread_once(&mine->once, choice->again ? measure : find);
    return mine->profile;
}

static ucc_status_t read_file(const char *path, hd_profile_choice_t *out) {
    const char *why = "no memory";
    hd_profile_t *profile = hd_alloc(HD_LINE, sizeof(*profile));
    if (!profile || !hd_profile_read(path, "", profile, &why)) {
        hd_error("HEDDLE_PROFILE: %s: %s", path, why);
        hd_free(profile);
        return UCC_ERR_INVALID_PARAM;
    }
    out->profile = out->owned = profile;
    return UCC_OK;
}

ucc_status_t hd_profile_parse(const char *text, hd_profile_choice_t *out) {
    *out = (hd_profile_choice_t){.again = strcmp(text, "measure") == 0};
    if (strchr(text, '/')) {
        return read_file(text, out);
    }
    if (out->again || strcmp(text, "auto") == 0) {
        return UCC_OK;
    }
    if (strcmp(text, "none") == 0) {
        out->profile = &none;
        return UCC_OK;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, text) == 0) {
            out->profile = &known[i].profile;
            return UCC_OK;
        }
    }
    hd_error("HEDDLE_PROFILE is \"%s\": not auto, measure, none, a built-in profile (heddle_info "
             "--profile lists them), or a file's path with a slash",
             text);
    return UCC_ERR_INVALID_PARAM;
}

void hd_profile_forget(hd_profile_choice_t *choice) {
    hd_free(choice->owned);
    *choice = (hd_profile_choice_t){.profile = NULL};
}

/* --- what follows ----------------------------------------------------------------------------- */

/* A way by which nothing is gained is not worth being different. */
static const double worth = 1.05;

/* The size from which `other` takes the least time, of those from the first one on; if that is of
 * all sizes, 1. 0: never. */
static size_t crossover(const hd_profile_t *profile, hd_profile_row_t usual, hd_profile_row_t other,
                        uint32_t first) {
    const uint32_t *from = profile->ns[usual], *to = profile->ns[other];
    double gain = 1, most = worth;
    size_t size = 0;
    for (uint32_t i = HD_PROFILE_SIZES; i-- > first && to[i];) {
        gain *= (double)from[i] / to[i];
        if (gain > most) {
            most = gain;
            size = i ? hd_profile_size(other, i) : 1;
        }
    }
    return size;
}

/* Of shorter blocks than were measured nothing is known. */
static size_t no_shorter(size_t from, hd_profile_row_t row) {
    size_t least = hd_profile_size(row, 0);
    return from && from < least ? least : from;
}

/* The sizes in a row at which string instructions gain most over plain stores, in all. */
static void find_string(const hd_profile_t *profile, hd_crossovers_t *out) {
    const uint32_t *plain = profile->ns[HD_COPIED_PLAINLY],
                   *string = profile->ns[HD_COPIED_BY_STRING];
    double most = worth;
    out->string = out->string_end = plain[0] ? HD_NEVER : 0;
    for (uint32_t first = 0; first < HD_PROFILE_SIZES && string[0]; first++) {
        double gain = 1;
        for (uint32_t i = first; i < HD_PROFILE_SIZES; i++) {
            gain *= (double)plain[i] / string[i];
            if (gain > most) {
                bool is_last = i + 1 == HD_PROFILE_SIZES;
                most = gain;
                out->string = hd_profile_size(HD_COPIED_BY_STRING, first);
                out->string_end = is_last ? HD_NEVER : hd_profile_size(HD_COPIED_BY_STRING, i + 1);
            }
        }
    }
}

/* By the largest blocks, which are most like those that are streamed. */
static bool streams_in_order(const hd_profile_t *profile) {
    enum { LARGE = HD_PROFILE_SIZES - 2 };
    const uint32_t *in_order = profile->ns[HD_COPIED_BY_STREAMING];
    const uint32_t *pages = profile->ns[HD_COPIED_BY_PAGES];
    return (double)in_order[LARGE] * in_order[LARGE + 1] < (double)pages[LARGE] * pages[LARGE + 1];
}

/* Where streaming stores win over both others. */
static size_t streaming_from(const hd_profile_t *profile) {
    bool in_order = streams_in_order(profile);
    hd_profile_row_t streaming = in_order ? HD_COPIED_BY_STREAMING : HD_COPIED_BY_PAGES;
    size_t by_plain = crossover(profile, HD_COPIED_PLAINLY, streaming, 0);
    size_t by_string = crossover(profile, HD_COPIED_BY_STRING, streaming, 0);
    size_t from = by_plain > by_string ? by_plain : by_string;
    return by_plain == 0 || by_string == 0 ? 0 : no_shorter(from, streaming);
}

hd_crossovers_t hd_profile_crossovers(const hd_profile_t *profile) {
    static const size_t kernel = (size_t)64 << 10;
    enum { LONG_FROM = 2 }; /* of shorter blocks, both have the same windows */
    /* where the kernel refused it, it may be different another time: teams try that as well */
    uint32_t by_kernel = profile->ns[HD_FAR_BY_KERNEL][0];
    bool is_measured = by_kernel != 0 && by_kernel != UINT32_MAX;
    bool is_long = crossover(profile, HD_FAR_BY_SHORT, HD_FAR_BY_LONG, LONG_FROM) != 0;
    size_t from = kernel;
    if (is_measured) {
        from = crossover(profile, is_long ? HD_FAR_BY_LONG : HD_FAR_BY_SHORT, HD_FAR_BY_KERNEL, 0);
        from = no_shorter(from, HD_FAR_BY_KERNEL);
    }
    hd_crossovers_t out = {
        .each = crossover(profile, HD_EACH_PUSHED, HD_EACH_PULLED, 0),
        .same = crossover(profile, HD_SAME_PUSHED, HD_SAME_PULLED, 0),
        .kernel = from,
        .piece = is_long ? HD_FAR_LONG : HD_FAR_SHORT,
        .streaming = streaming_from(profile),
        .in_order = streams_in_order(profile),
    };
    find_string(profile, &out);
    return out;
}

static void print_crossover(FILE *out, const char *what, const char *usual, const char *other,
                            size_t from) {
    if (from <= 1) {
        fprintf(out, "  %s: %s\n", what, from ? other : usual);
    } else {
        fprintf(out, "  %s: %s from blocks of %zu KiB\n", what, other, from >> 10);
    }
}

static void print_stores(FILE *out, const hd_crossovers_t *from) {
    if (from->string == 0) {
        fprintf(out, "  large copies: by the caches' sizes\n");
        return;
    }
    if (from->string == HD_NEVER) {
        fprintf(out, "  large copies: plain stores");
    } else {
        fprintf(out, "  large copies: string instructions from %zu KiB", from->string >> 10);
    }
    if (from->string_end != HD_NEVER) {
        fprintf(out, " to %zu KiB", from->string_end >> 10);
    }
    fprintf(out, ", streaming stores");
    if (from->streaming) {
        fprintf(out, " from %zu KiB", from->streaming >> 10);
    } else {
        fprintf(out, " where they outgrow the shared cache");
    }
    fprintf(out, ", %s\n", from->in_order ? "in order" : "4 pages at once");
}

static void print_sizes(FILE *out, hd_profile_row_t row) {
    fprintf(out, "  %-26s", "ns of blocks of");
    for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
        fprintf(out, " %5zu KiB", hd_profile_size(row, i) >> 10);
    }
    fputc('\n', out);
}

void hd_profile_print(const hd_profile_t *profile, FILE *out) {
    static const char *const name[HD_PROFILE_ROWS] = {
        "each to the other, pushed", "each to the other, pulled", "each to both, pushed",
        "each to both, pulled",      "far, by windows",           "far, by longer windows",
        "far, by the kernel",        "copied by plain stores",    "by string instructions",
        "by streaming stores",       "by those, 4 pages at once"};
    char machine[HD_PROFILE_TEXT];
    hd_profile_machine(machine, sizeof(machine));
    fprintf(out, "profile: %s, for %s\n  this machine: %s\n  built in:", profile->origin,
            profile->machine, machine);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        fprintf(out, " %s", known[i].name);
    }
    fputc('\n', out);
    for (hd_profile_row_t row = 0; row < HD_PROFILE_ROWS; row++) {
        if (row == 0 || row == HD_FAR_BY_SHORT || row == HD_COPIED_PLAINLY) {
            print_sizes(out, row);
        }
        fprintf(out, "  %-26s", name[row]);
        for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
            fprintf(out, " %9" PRIu32, profile->ns[row][i]);
        }
        fputc('\n', out);
    }
    hd_crossovers_t from = hd_profile_crossovers(profile);
    print_crossover(out, "large alltoall(v)", "pushed", "pulled", from.each);
    print_crossover(out, "large allgather(v)", "pushed", "pulled", from.same);
    print_crossover(out, "between two processes", "by windows", "by the kernel", from.kernel);
    fprintf(out, "  windows between processes: up to %zu KiB\n", from.piece >> 10);
    print_stores(out, &from);
}
