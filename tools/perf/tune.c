/* tune.c: good values of the variables that choose regimes, by trying (--tune).
 *
 * For each variable and each of its candidates this program runs itself, with the candidate in the
 * environment, on the collectives and sizes that the variable decides about, and reads the results
 * back from the JSON file. Candidates take turns over several rounds; a point's time is its least
 * median, since whatever else the machine does only adds to it. Each round begins and ends with the
 * default: by how much these two differ is what the machine can't tell apart. The value with the
 * least geometric mean of time over the default's wins if it is better by more than that, and by
 * more than a threshold. Variables are tuned one after another, each with the earlier ones at their
 * new values. Those the library does not know are left out.
 *
 * Before all of them comes the machine's profile, which the library measures in 45 ms where it has
 * none built in: here it has seconds. It has a file of its own, which HEDDLE_PROFILE names.
 */
#include "tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { K = 1 << 10, M = 1 << 20 };
enum { MOST_ROUNDS = 5, BUDGET_SECONDS = 140, PROFILE_SECONDS = 5 };

static const perf_variable_t variables[] = {
    {"LINES_MAX",
     "bytes up to which data travels in lines that carry their own sequence number",
     {"64", "128", "256", "512", "1k", "2k"},
     {"allreduce", "bcast", "allgather", "alltoall"},
     64,
     4 * K,
     2,
     0.01},
    {"STAGED_MAX",
     "bytes up to which data is copied through the source's staging ring",
     {"2k", "4k", "8k", "16k", "32k", "64k", "128k"},
     {"allreduce", "bcast", "allgather", "alltoall"},
     2 * K,
     256 * K,
     2,
     0.01},
    {"DIRECT_ABOVE",
     "the same where every endpoint has a processor of its own",
     {"512", "1k", "2k", "4k", "8k", "16k"},
     {"allreduce", "bcast", "allgather", "alltoall"},
     512,
     32 * K,
     2,
     0.01},
    {"CHUNK",
     "bytes that one piece of a large collective's work may touch",
     {"64k", "128k", "256k", "512k", "1m", "2m", "4m"},
     {"allreduce", "bcast", "allgather", "alltoall"},
     256 * K,
     16 * M,
     4,
     0.03},
    {"NONTEMPORAL_MIN",
     "bytes received per endpoint from which stores bypass the caches",
     {"256k", "512k", "1m", "2m", "4m", "8m", "16m", "64m"},
     {"allreduce", "bcast", "allgather", "alltoall"},
     256 * K,
     16 * M,
     4,
     0.03},
};
enum { N_VARIABLES = sizeof(variables) / sizeof(variables[0]) };

static FILE *say; /* where progress is told: not where the file goes */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------------------------
 * What the library knows
 * ---------------------------------------------------------------------------------------------- */

/* The library's configuration as text, in lines UCC_NAME=value; NULL when that failed. */
static char *configuration(void) {
    ucc_lib_config_h config;
    char *text = NULL;
    size_t length = 0;
    if (ucc_lib_config_read(NULL, NULL, &config) != UCC_OK) {
        return NULL;
    }
    FILE *stream = open_memstream(&text, &length);
    if (stream != NULL) {
        ucc_lib_config_print(config, stream, "", UCC_CONFIG_PRINT_CONFIG | UCC_CONFIG_PRINT_HIDDEN);
        fclose(stream);
    }
    ucc_lib_config_release(config);
    return text;
}

/* The present value of a variable; false if there is no such variable. */
static bool find_value(const char *text, const char *name, char *value, size_t capacity) {
    char key[64];
    snprintf(key, sizeof(key), "UCC_%s=", name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) == 0) {
            line += strlen(key);
            snprintf(value, capacity, "%.*s", (int)strcspn(line, "\n"), line);
            return true;
        }
    }
    return false;
}

static bool is_accepted(const char *name, const char *value) {
    ucc_lib_config_h config;
    if (ucc_lib_config_read(NULL, NULL, &config) != UCC_OK) {
        return false;
    }
    bool accepted = ucc_lib_config_modify(config, name, value) == UCC_OK;
    ucc_lib_config_release(config);
    return accepted;
}

static bool same_value(const char *a, const char *b) {
    uint64_t x, y;
    return strcmp(a, b) == 0 || (perf_parse_bytes(a, &x) && perf_parse_bytes(b, &y) && x == y);
}

static void add_candidate(perf_tuned_t *t, const char *value) {
    snprintf(t->candidates[t->n_candidates].value, sizeof(t->candidates[0].value), "%s", value);
    t->n_candidates++;
}

/* False if the library does not know the variable. */
static bool collect(perf_tuned_t *t, const char *configured) {
    const perf_variable_t *v = t->variable;
    char value[32];
    if (!find_value(configured, v->name, value, sizeof(value))) {
        fprintf(say, "# %s: not known to this library, left out\n", v->name);
        return false;
    }
    add_candidate(t, value);
    t->control = t->candidates[0];
    t->noise = 1.0;
    for (size_t i = 0; i < PERF_TUNE_CANDIDATES && v->candidates[i] != NULL; i++) {
        if (!same_value(v->candidates[i], value) && is_accepted(v->name, v->candidates[i])) {
            add_candidate(t, v->candidates[i]);
        }
    }
    return true;
}

static void set_variable(const char *name, const char *value) {
    char full[64];
    snprintf(full, sizeof(full), "HEDDLE_%s", name);
    if (value != NULL) {
        setenv(full, value, 1);
        return;
    }
    unsetenv(full);
    snprintf(full, sizeof(full), "UCC_%s", name);
    unsetenv(full);
}

/* ------------------------------------------------------------------------------------------------
 * One run of this program
 * ---------------------------------------------------------------------------------------------- */

typedef struct command {
    char text[6][24];
    char *arguments[24 + PERF_TUNE_COLLECTIVES];
    size_t n;
} command_t;

static void add_argument(command_t *command, const char *argument) {
    command->arguments[command->n++] =
        (char *)(uintptr_t)argument; /* exec does not write to them */
}

bool perf_tune_chosen(const perf_options_t *o, const char *collective) {
    for (size_t i = 0; i < o->n_chosen; i++) {
        if (strcmp(o->chosen[i]->name, collective) == 0) {
            return true;
        }
    }
    return o->n_chosen == 0;
}

static void make_command(const perf_options_t *o, const perf_variable_t *v, const char *json,
                         command_t *command) {
    static const char *const fixed[] = {"heddle_perf", "--touch", "--no-verify", "--no-reference"};
    command->n = 0;
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        add_argument(command, fixed[i]);
    }
    snprintf(command->text[0], sizeof(command->text[0]), "-n%u", o->endpoints);
    snprintf(command->text[1], sizeof(command->text[1]), "-b%llu",
             (unsigned long long)v->bytes_min);
    snprintf(command->text[2], sizeof(command->text[2]), "-e%llu",
             (unsigned long long)v->bytes_max);
    snprintf(command->text[3], sizeof(command->text[3]), "-f%llu", (unsigned long long)v->factor);
    snprintf(command->text[4], sizeof(command->text[4]), "%.6f",
             o->tune_seconds > 0.0 ? o->tune_seconds : v->seconds);
    for (size_t i = 0; i < 4; i++) {
        add_argument(command, command->text[i]);
    }
    add_argument(command, "--seconds");
    add_argument(command, command->text[4]);
    add_argument(command, "--json");
    add_argument(command, json);
    for (size_t i = 0; i < PERF_TUNE_COLLECTIVES && v->collectives[i] != NULL; i++) {
        if (perf_tune_chosen(o, v->collectives[i])) {
            add_argument(command, v->collectives[i]);
        }
    }
    command->arguments[command->n] = NULL;
}

static bool run_command(const command_t *command) {
    fflush(NULL); /* or the child would have it to write, too */
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0) {
            execv("/proc/self/exe", command->arguments);
        }
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Reads the points in the order in which they were measured, and keeps the lesser times. */
static size_t read_points(const char *json, perf_candidate_t *candidate) {
    static const char key[] = "\"median_us\": ";
    char line[1024];
    size_t n = 0;
    FILE *stream = fopen(json, "r");
    while (stream != NULL && n < PERF_TUNE_POINTS && fgets(line, sizeof(line), stream) != NULL) {
        const char *at = strstr(line, key);
        double seconds = at != NULL ? strtod(at + sizeof(key) - 1, NULL) * 1e-6 : 0.0;
        if (seconds <= 0.0) {
            continue;
        }
        double *best = &candidate->seconds[n];
        *best = *best <= 0.0 || seconds < *best ? seconds : *best;
        candidate->latest[n++] = seconds;
    }
    if (stream != NULL) {
        fclose(stream);
    }
    return n;
}

static bool measure(const perf_options_t *o, perf_tuned_t *t, perf_candidate_t *c,
                    const char *json) {
    command_t command;
    make_command(o, t->variable, json, &command);
    set_variable(t->variable->name, c->value);
    size_t points = run_command(&command) ? read_points(json, c) : 0;
    if (points == 0 || (t->n_points != 0 && points != t->n_points)) {
        fprintf(stderr, "heddle_perf: measuring with HEDDLE_%s=%s failed\n", t->variable->name,
                c->value);
        return false;
    }
    t->n_points = points;
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * One variable
 * ---------------------------------------------------------------------------------------------- */

static void tell(perf_tuned_t *t) {
    perf_tune_judge(t);
    fprintf(say, "#   equal settings differed by up to %.1f %%\n", 100.0 * (t->noise - 1.0));
    for (size_t i = 0; i < t->n_candidates; i++) {
        const perf_candidate_t *c = &t->candidates[i];
        fprintf(say, "#   %-8s %.3f%s\n", c->value, c->ratio, i == 0 ? " (default)" : "");
    }
    const char *verdict = t->best == 0 ? "kept" : "chosen";
    fprintf(say, "#   %s %s\n", t->candidates[t->best].value, verdict);
}

/* Rounds over all candidates until the time is over: one at least, a few at most. */
static bool tune(const perf_options_t *o, perf_tuned_t *t, const char *json, double budget) {
    double begin = now(), round = 0.0;
    fprintf(say, "# %s: %s\n", t->variable->name, t->variable->meaning);
    for (t->rounds = 0; t->rounds < MOST_ROUNDS; t->rounds++) {
        double left = budget - (now() - begin);
        if (t->rounds > 0 && round > left) {
            break;
        }
        round = now();
        for (size_t i = 0; i < t->n_candidates; i++) {
            if (!measure(o, t, &t->candidates[i], json)) {
                return false;
            }
        }
        if (!measure(o, t, &t->control, json)) {
            return false;
        }
        perf_tune_note_noise(t);
        round = now() - round;
        fprintf(say, "#   round %zu: %zu values, %zu points each, %.1f s\n", t->rounds + 1,
                t->n_candidates, t->n_points, round);
        fflush(say);
    }
    tell(t);
    set_variable(t->variable->name, t->candidates[t->best].value);
    return true;
}

/* Whether the comma-separated list names the variable, with or without its prefix. */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        at += strncmp(at, "HEDDLE_", 7) == 0 ? 7 : 0;
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return list == NULL;
}

static bool is_wanted(const perf_options_t *o, const perf_variable_t *v) {
    bool decides = false;
    for (size_t i = 0; i < PERF_TUNE_COLLECTIVES && v->collectives[i] != NULL; i++) {
        decides = decides || perf_tune_chosen(o, v->collectives[i]);
    }
    return decides && is_listed(o->variables, v->name);
}

/* ------------------------------------------------------------------------------------------------
 * The profile
 * ---------------------------------------------------------------------------------------------- */

static const char profile_name[] = "PROFILE";

/* FILE.profile, as an absolute path. */
static bool name_profile(const char *file, char path[PERF_TUNE_PATH]) {
    char here[PERF_TUNE_PATH] = "";
    bool absolute = *file == '/';
    if (!absolute && getcwd(here, sizeof(here)) == NULL) {
        return false;
    }
    int length = snprintf(path, PERF_TUNE_PATH, "%s%s%s.profile", here, absolute ? "" : "/", file);
    return length > 0 && length < PERF_TUNE_PATH;
}

/* Measures it, for what is measured afterwards, too. False, and said: it can't be written. */
static bool tune_profile(const perf_options_t *o, perf_tuned_profile_t *profile) {
    *profile->path = '\0';
    profile->seconds = PROFILE_SECONDS;
    if (!is_listed(o->variables, profile_name)) {
        return true;
    }
    set_variable(profile_name, NULL); /* an earlier tuning's */
    if (o->tune_file == NULL) {
        fprintf(say, "# %s: needs a file, left out: --tune FILE\n", profile_name);
        return true;
    }
    if (!name_profile(o->tune_file, profile->path)) {
        fprintf(stderr, "heddle_perf: the path of '%s' is too long\n", o->tune_file);
        return false;
    }
    fprintf(say, "# %s: how cores exchange large data, %.0f s\n", profile_name, profile->seconds);
    fflush(say);
    ucc_status_t status = heddle_profile_measure(profile->path, profile->seconds);
    if (status == UCC_OK) {
        set_variable(profile_name, profile->path);
        fprintf(say, "#   %s\n", profile->path);
        return true;
    }
    *profile->path = '\0';
    return status == UCC_ERR_NOT_SUPPORTED; /* and why has been said */
}

/* ------------------------------------------------------------------------------------------------
 * All of them
 * ---------------------------------------------------------------------------------------------- */

/* False, and said, if the list of variables names one that can't be tuned. */
static bool check_names(const char *list) {
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        char name[64];
        at += *at == ',';
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        bool known = is_listed(name, profile_name);
        for (size_t i = 0; i < N_VARIABLES; i++) {
            known = known || is_listed(name, variables[i].name);
        }
        if (!known) {
            fprintf(stderr, "heddle_perf: '%s' cannot be tuned; what can: %s", name, profile_name);
            for (size_t i = 0; i < N_VARIABLES; i++) {
                fprintf(stderr, " %s", variables[i].name);
            }
            fprintf(stderr, "\n");
            return false;
        }
    }
    return true;
}

static size_t collect_all(const perf_options_t *o, perf_tuned_t *tuned) {
    /* defaults are the library's own, not those of an earlier tuning */
    unsetenv("HEDDLE_CONFIG_FILE");
    unsetenv("UCC_CONFIG_FILE");
    for (size_t i = 0; i < N_VARIABLES; i++) {
        if (is_wanted(o, &variables[i])) {
            set_variable(variables[i].name, NULL);
        }
    }
    char *configured = configuration();
    size_t n = 0;
    for (size_t i = 0; configured != NULL && i < N_VARIABLES; i++) {
        tuned[n].variable = &variables[i];
        if (is_wanted(o, &variables[i]) && collect(&tuned[n], configured)) {
            n++;
        }
    }
    free(configured);
    return n;
}

int perf_tune(const perf_options_t *o) {
    static perf_tuned_t tuned[N_VARIABLES];
    perf_tuned_profile_t profile;
    say = o->tune_file == NULL ? stderr : stdout;
    if (!check_names(o->variables)) {
        return 2;
    }
    size_t n = collect_all(o, tuned);
    if (!tune_profile(o, &profile)) {
        return 1;
    }
    if (n == 0 && !*profile.path) {
        fprintf(stderr, "heddle_perf: nothing to tune\n");
        return 1;
    }
    char json[] = "/tmp/heddle_perf.XXXXXX";
    int descriptor = mkstemp(json);
    if (descriptor < 0) {
        fprintf(stderr, "heddle_perf: no temporary file: %s\n", strerror(errno));
        return 1;
    }
    close(descriptor);
    const double end = now() + (double)BUDGET_SECONDS * (double)n / N_VARIABLES;
    if (n > 0) {
        fprintf(say, "# %u threads, some %.0f s at most; times are relative to the default's\n",
                o->endpoints, end - now());
    }
    fflush(say);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        good = tune(o, &tuned[i], json, (end - now()) / (double)(n - i));
    }
    unlink(json);
    return good && perf_tune_write(o, &profile, tuned, n) ? 0 : 1;
}
