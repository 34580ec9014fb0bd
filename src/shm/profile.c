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
      {{{1302, 2995, 11894, 55784}, {921, 2024, 6994, 26444}},
       {{1512, 3777, 15411, 92448}, {1062, 2635, 9579, 39169}}}}},
};

static const hd_profile_t none = {"any", "none", {{{0}}}};

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

static void find(void) {
    hd_profile_t *mine = &found.measured;
    hd_profile_machine(mine->machine, sizeof(mine->machine));
    found.profile = find_machine(mine->machine);
    if (!found.profile) {
        found.profile = hd_profile_keep(mine, hd_profile_measure) ? mine : &none;
    }
    hd_debug("profile of %s: %s", mine->machine, found.profile->origin);
}

static void measure(void) {
    hd_profile_t *mine = &measured.measured;
    hd_profile_machine(mine->machine, sizeof(mine->machine));
    measured.profile = hd_profile_measure(mine) ? mine : &none;
}

const hd_profile_t *hd_profile_get(bool again) {
    struct mine *mine = again ? &measured : &found;
    pthread_once(&mine->once, again ? measure : find);
    return mine->profile;
}

static ucc_status_t read_file(const char *path, const hd_profile_t **out) {
    const char *why = "no memory";
    hd_profile_t *profile = hd_alloc(HD_LINE, sizeof(*profile));
    if (!profile || !hd_profile_read(path, "", profile, &why)) {
        hd_error("HEDDLE_PROFILE: %s: %s", path, why);
        hd_free(profile);
        return UCC_ERR_INVALID_PARAM;
    }
    *out = profile;
    return UCC_OK;
}

ucc_status_t hd_profile_parse(const char *text, const hd_profile_t **out, bool *owned) {
    *out = NULL;
    *owned = strchr(text, '/') != NULL;
    if (*owned) {
        ucc_status_t status = read_file(text, out);
        *owned = status == UCC_OK;
        return status;
    }
    if (strcmp(text, "auto") == 0 || strcmp(text, "measure") == 0) {
        return UCC_OK;
    }
    if (strcmp(text, "none") == 0) {
        *out = &none;
        return UCC_OK;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, text) == 0) {
            *out = &known[i].profile;
            return UCC_OK;
        }
    }
    hd_error("HEDDLE_PROFILE is \"%s\": not auto, measure, none, a built-in profile (heddle_info "
             "--profile lists them), or a file's path with a slash",
             text);
    return UCC_ERR_INVALID_PARAM;
}

/* --- what follows ----------------------------------------------------------------------------- */

static size_t crossover(const uint32_t ns[HD_DIRECTIONS][HD_PROFILE_SIZES]) {
    /* a size by whose pulling nothing is gained is not worth being different */
    static const double worth = 1.05;
    double gain = 1, most = worth;
    size_t from = 0;
    for (uint32_t i = HD_PROFILE_SIZES; i-- > 0 && ns[HD_PULLED][i];) {
        gain *= (double)ns[HD_PUSHED][i] / ns[HD_PULLED][i];
        if (gain > most) {
            most = gain;
            from = i ? hd_profile_size(i) : 1;
        }
    }
    return from;
}

hd_crossovers_t hd_profile_crossovers(const hd_profile_t *profile) {
    return (hd_crossovers_t){.each = crossover(profile->ns[HD_PATTERN_EACH]),
                             .same = crossover(profile->ns[HD_PATTERN_SAME])};
}

static void print_crossover(FILE *out, const char *what, size_t from) {
    if (from == 0) {
        fprintf(out, "  %s: pushed\n", what);
    } else if (from == 1) {
        fprintf(out, "  %s: pulled\n", what);
    } else {
        fprintf(out, "  %s: pulled from blocks of %zu KiB\n", what, from >> 10);
    }
}

void hd_profile_print(const hd_profile_t *profile, FILE *out) {
    static const char *const pattern[HD_PATTERNS] = {"each to the other", "each to both"};
    static const char *const direction[HD_DIRECTIONS] = {"pushed", "pulled"};
    char machine[HD_PROFILE_TEXT];
    hd_profile_machine(machine, sizeof(machine));
    fprintf(out, "profile: %s, for %s\n  this machine: %s\n  built in:", profile->origin,
            profile->machine, machine);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        fprintf(out, " %s", known[i].name);
    }
    fprintf(out, "\n  %-26s", "ns of blocks of");
    for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
        fprintf(out, " %5zu KiB", hd_profile_size(i) >> 10);
    }
    fputc('\n', out);
    for (uint32_t p = 0; p < HD_PATTERNS; p++) {
        for (uint32_t d = 0; d < HD_DIRECTIONS; d++) {
            fprintf(out, "  %-18s %s ", pattern[p], direction[d]);
            for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
                fprintf(out, " %9" PRIu32, profile->ns[p][d][i]);
            }
            fputc('\n', out);
        }
    }
    hd_crossovers_t from = hd_profile_crossovers(profile);
    print_crossover(out, "large alltoall(v)", from.each);
    print_crossover(out, "large allgather(v)", from.same);
}
