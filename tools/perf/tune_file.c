/* tune_file.c: the configuration file that --tune leaves. HEDDLE_CONFIG_FILE makes the library read
 * it. */
#include "tune.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* The processor's name, as /proc/cpuinfo has it; the architecture where it has none. */
static void machine_name(char *name, size_t capacity) {
    static const char key[] = "model name";
    char line[256];
    struct utsname system;
    snprintf(name, capacity, "%s", uname(&system) == 0 ? system.machine : "unknown");
    FILE *stream = fopen("/proc/cpuinfo", "r");
    if (stream == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), stream) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof(key) - 1) == 0 && colon != NULL) {
            colon += strspn(colon, ": \t");
            snprintf(name, capacity, "%.*s", (int)strcspn(colon, "\n"), colon);
            break;
        }
    }
    fclose(stream);
}

static void write_head(FILE *to, const perf_options_t *o) {
    char machine[256], date[32] = "";
    time_t seconds = time(NULL);
    struct tm parts;
    machine_name(machine, sizeof(machine));
    if (gmtime_r(&seconds, &parts) != NULL) {
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &parts);
    }
    fprintf(to,
            "# Heddle's configuration for this machine, found by heddle_perf --tune.\n"
            "# To use it: HEDDLE_CONFIG_FILE=<this file>\n"
            "#\n"
            "# machine: %s, %u processors\n"
            "# date:    %s\n"
            "# threads: %u\n",
            machine, perf_processors(), date, o->endpoints);
}

static void write_variable(FILE *to, const perf_options_t *o, const perf_tuned_t *t) {
    const perf_variable_t *v = t->variable;
    fprintf(to, "\n# %s.\n# Measured:", v->meaning);
    for (size_t i = 0; i < PERF_TUNE_COLLECTIVES && v->collectives[i] != NULL; i++) {
        if (perf_tune_chosen(o, v->collectives[i])) {
            fprintf(to, " %s", v->collectives[i]);
        }
    }
    fprintf(to, ", %llu to %llu bytes, %zu points, %zu rounds.\n", (unsigned long long)v->bytes_min,
            (unsigned long long)v->bytes_max, t->n_points, t->rounds);
    fprintf(to, "# Time over the default's:");
    for (size_t i = 0; i < t->n_candidates; i++) {
        fprintf(to, " %s %.3f%s", t->candidates[i].value, t->candidates[i].ratio,
                i + 1 < t->n_candidates ? "," : "\n");
    }
    fprintf(to, "# Equal settings differed by up to %.1f %%.\n", 100.0 * (t->noise - 1.0));
    if (t->best == 0) {
        fprintf(to, "# The default stays:\n# HEDDLE_%s = %s\n", v->name, t->candidates[0].value);
    } else {
        fprintf(to, "HEDDLE_%s = %s\n", v->name, t->candidates[t->best].value);
    }
}

static void write_profile(FILE *to, const perf_tuned_profile_t *profile) {
    if (*profile->path) {
        fprintf(to,
                "\n# How the machine's cores exchange large data, measured in %.0f s.\n"
                "HEDDLE_PROFILE = %s\n",
                profile->seconds, profile->path);
    }
}

bool perf_tune_write(const perf_options_t *o, const perf_tuned_profile_t *profile,
                     const perf_tuned_t *tuned, size_t n) {
    FILE *to = o->tune_file == NULL ? stdout : fopen(o->tune_file, "w");
    if (to == NULL) {
        fprintf(stderr, "heddle_perf: cannot write '%s': %s\n", o->tune_file, strerror(errno));
        return false;
    }
    write_head(to, o);
    write_profile(to, profile);
    for (size_t i = 0; i < n; i++) {
        write_variable(to, o, &tuned[i]);
    }
    bool failed = fflush(to) != 0 || ferror(to) != 0;
    failed = (to != stdout && fclose(to) != 0) || failed;
    if (failed) {
        fprintf(stderr, "heddle_perf: the configuration could not be written in full\n");
    } else if (to != stdout) {
        printf("# written to %s\n", o->tune_file);
    }
    return !failed;
}
