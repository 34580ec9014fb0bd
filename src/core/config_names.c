/*
 * Names that nobody reads: see config_parse.h.
 *
 * A variable that is spelt wrong does nothing, and says nothing by itself. So the environment is
 * searched once for names under our prefixes that the table lacks, and each is told, with the name
 * that was probably meant. What the released library reads and we have no use for is no mistake,
 * nor is what build systems and scripts call the place where it is installed.
 */
#include <stdatomic.h>
#include <string.h>

#include "core/config_parse.h"
#include "core/log.h"

extern char **environ;

enum { NAME_BYTES = 128 };

/* Names and beginnings (ending in '_') of the released library's variables that the table lacks,
 * and of those that this project's own checks and libheddle_bootstrap read. */
static const char *const elsewhere[] = {
    "CL_",
    "TL_",
    "EC_",
    "MC_",
    "SYSINFO_",
    "PROFILE_",
    "GTEST_",
    "TEST_",
    "STRESS_",
    "PERFTEST_",
    "LOG_BUFFER",
    "LOG_DATA_SIZE",
    "LOG_FILE_",
    "LOG_LEVEL_",
    "LOG_PRINT_",
    "MODULES",
    "MODULE_",
    "DEBUGGER_WAIT",
    "HANDLE_ERRORS",
    "COMPONENT_",
    "BOOTSTRAP_ADDRESS",
    "BOOTSTRAP_KEY",
    "BOOTSTRAP_KEY_FILE",
    "BOOTSTRAP_RANK",
    "BOOTSTRAP_SIZE",
    "BOOTSTRAP_TIMEOUT",
    "EMUCUDA",
};

/* Last words of names that say where something lies, or how it was built. */
static const char *const places[] = {"DIR",     "HOME", "ROOT", "PATH",   "PREFIX",  "INSTALL",
                                     "VERSION", "LIB",  "LIBS", "CFLAGS", "LDFLAGS", "INCLUDE",
                                     "SRC",     "URL",  "TAG",  "BRANCH", "COMMIT",  "BUILD"};

static bool read_elsewhere(const char *bare) {
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        size_t length = strlen(elsewhere[i]);
        bool beginning = elsewhere[i][length - 1] == '_';
        if (beginning ? strncmp(bare, elsewhere[i], length) == 0
                      : strcmp(bare, elsewhere[i]) == 0) {
            return true;
        }
    }
    const char *underscore = strrchr(bare, '_');
    const char *last = underscore != NULL ? underscore + 1 : bare;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(last, places[i]) == 0) {
            return true;
        }
    }
    return false;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Letters to insert, drop, replace, or exchange with their neighbour to make b out of a; both are
 * shorter than NAME_BYTES. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][NAME_BYTES], *before = rows[0], *above = rows[1], *row = rows[2];
    size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++) {
        before[j] = above[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(replaced, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = smaller(row[j], before[j - 2] + 1);
            }
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[n];
}

/* Whether a and b share a whole word, as STAGED and STAGED_MAX do. */
static bool begins(const char *name, const char *beginning) {
    size_t length = strlen(beginning);
    return length >= 3 && strncmp(name, beginning, length) == 0 && name[length] == '_';
}

bool hd_config_nearest(const char *bare, char *out, size_t size) {
    size_t best = strlen(bare) / 4 + 2; /* so many mistakes are another name */
    bool found = false;

    if (strlen(bare) >= NAME_BYTES) {
        return false;
    }
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        char name[NAME_BYTES];
        hd_config_full_name(hd_config_variable(id), "", name, sizeof(name));
        size_t mistakes = distance(bare, name);
        if (mistakes >= best && begins(name, bare) && !found) {
            mistakes = best - 1;
        }
        if (mistakes < best) {
            best = mistakes;
            found = true;
            snprintf(out, size, "%s", name);
        }
    }
    return found;
}

bool hd_config_known(const char *bare) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        char name[NAME_BYTES];
        hd_config_full_name(hd_config_variable(id), "", name, sizeof(name));
        if (strcmp(name, bare) == 0) {
            return true;
        }
    }
    return read_elsewhere(bare);
}

/* Tells each variable under the prefix that nobody reads, but for those under another one. */
static void check_prefix(const char *prefix, const char *other) {
    size_t length = strlen(prefix), longer = strlen(other);

    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        char bare[NAME_BYTES], near[NAME_BYTES];
        size_t n = strcspn(*entry, "=");

        if (n <= length || n - length >= sizeof(bare) || strncmp(*entry, prefix, length) != 0) {
            continue;
        }
        if (longer > length && strncmp(*entry, other, longer) == 0) {
            continue;
        }
        memcpy(bare, *entry + length, n - length);
        bare[n - length] = '\0';
        if (hd_config_known(bare)) {
            continue;
        }
        if (hd_config_nearest(bare, near, sizeof(near))) {
            hd_warn("%s%s in the environment is unknown and ignored: did you mean %s%s?", prefix,
                    bare, prefix, near);
        } else {
            hd_warn("%s%s in the environment is unknown and ignored: heddle_info --config lists "
                    "every variable",
                    prefix, bare);
        }
    }
}

void hd_config_check_environment(const char *own_prefix) {
    static atomic_bool checked, checked_own;
    /* relaxed, both: which of two threads tells does not matter */
    if (!atomic_exchange_explicit(&checked, true, memory_order_relaxed)) {
        check_prefix("HEDDLE_", "");
        check_prefix("UCC_", own_prefix);
    }
    if (own_prefix[0] != '\0' &&
        !atomic_exchange_explicit(&checked_own, true, memory_order_relaxed)) {
        check_prefix(own_prefix, "");
    }
}
