/* profile_file.c: a profile as a file, for people and for the next process: see profile.h.
 *
 *     heddle profile 3
 *     machine GenuineIntel 6 85, L1 32K, L2 1024K
 *     each pushed 812 2420 9210 38100
 *     ... and so on: row_name
 *
 * Kept in $XDG_CACHE_HOME/heddle, or ~/.cache/heddle, by machine. A file is written beside its
 * place and moved there, so that whoever reads it finds a whole one. The folder is locked (flock)
 * while a process measures: others wait for the file a moment, and then measure for themselves.
 */
#define _GNU_SOURCE /* secure_getenv */
#include "core/log.h"
#include "core/topo.h"
#include "shm/profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = HD_PROFILE_TEXT + 16,
    PATIENCE_MS = 100 /* for another process that measures */
};

static const char first_line[] = "heddle profile 3";
static const char *const row_name[HD_PROFILE_ROWS] = {
    "each pushed",   "each pulled",      "same pushed", "same pulled",
    "far windows",   "far long windows", "far kernel",  "copied plainly",
    "copied string", "copied streaming", "copied pages"};

/* --- the text --------------------------------------------------------------------------------- */

static bool read_line(FILE *in, char line[LINE]) {
    char *end = fgets(line, LINE, in) ? strchr(line, '\n') : NULL;
    if (end) {
        *end = '\0';
    }
    return end != NULL;
}

/* What stands behind that word; NULL: another word. */
static const char *behind(const char *line, const char *word) {
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

/* So many numbers, none of which is 0, and nothing else. */
static bool read_numbers(const char *text, uint32_t number[HD_PROFILE_SIZES]) {
    for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
        char *end = NULL;
        errno = 0;
        unsigned long value = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
        char expected = i + 1 < HD_PROFILE_SIZES ? ' ' : '\0';
        if (value == 0 || errno || value > UINT32_MAX || *end != expected) {
            return false;
        }
        number[i] = (uint32_t)value;
        text = end + 1;
    }
    return true;
}

static bool parse(FILE *in, const char *machine, hd_profile_t *out, const char **why) {
    char line[LINE];
    *why = "it is no profile: its first line is not \"heddle profile 3\"";
    if (!read_line(in, line) || strcmp(line, first_line) != 0) {
        return false;
    }
    *why = "its second line is not \"machine\" and a machine";
    const char *of = read_line(in, line) ? behind(line, "machine") : NULL;
    if (!of || !*of || strlen(of) >= sizeof(out->machine)) {
        return false;
    }
    if (*machine && strcmp(of, machine) != 0) {
        *why = "it is for another machine";
        return false;
    }
    memcpy(out->machine, of, strlen(of) + 1);
    for (uint32_t row = 0; row < HD_PROFILE_ROWS; row++) {
        const char *numbers = read_line(in, line) ? behind(line, row_name[row]) : NULL;
        if (!numbers || !read_numbers(numbers, out->ns[row])) {
            *why = "not four times in ns stand behind each of \"each pushed\", \"each pulled\", "
                   "\"same pushed\", \"same pulled\", \"far windows\", \"far long windows\", \"far "
                   "kernel\", \"copied plainly\", \"copied string\", \"copied streaming\", "
                   "\"copied pages\"";
            return false;
        }
    }
    out->origin = "file";
    return true;
}

bool hd_profile_read(const char *path, const char *machine, hd_profile_t *out, const char **why) {
    *why = "it can't be read";
    /* a pipe that nobody writes to is not waited for */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "re");
    if (!in) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    bool whole = parse(in, machine, out, why);
    fclose(in);
    return whole;
}

static bool write_text(int fd, const hd_profile_t *profile) {
    char text[HD_PROFILE_TEXT * 2 + HD_PROFILE_ROWS * (32 + HD_PROFILE_SIZES * 11)];
    struct rlimit limit; /* beyond which a write ends the process by SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < sizeof(text)) {
        errno = EFBIG;
        return false;
    }
    int used = snprintf(text, sizeof(text), "%s\nmachine %s\n", first_line, profile->machine);
    for (uint32_t row = 0; row < HD_PROFILE_ROWS; row++) {
        const uint32_t *ns = profile->ns[row];
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "%s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", row_name[row],
                         ns[0], ns[1], ns[2], ns[3]);
    }
    return write(fd, text, (size_t)used) == used;
}

bool hd_profile_write(const char *path, const hd_profile_t *profile) {
    char beside[PATH_MAX];
    int length = snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    errno = length < PATH_MAX ? 0 : ENAMETOOLONG;
    int fd =
        errno == 0 ? open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    bool written = fd >= 0 && write_text(fd, profile);
    int why = errno;
    if (fd >= 0 && close(fd) != 0) {
        why = written ? errno : why;
        written = false;
    }
    if (written && rename(beside, path) != 0) {
        why = errno;
        written = false;
    }
    if (fd >= 0 && !written) {
        (void)unlink(beside);
    }
    errno = why;
    return written;
}

/* --- the user's folder ------------------------------------------------------------------------ */

/* False: there is none, or its name is too long. */
static bool name_folder(char path[PATH_MAX]) {
    /* secure: a program that runs for another user writes nothing there */
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    bool own = cache && *cache == '/';
    if (!own && !(home && *home == '/')) {
        return false;
    }
    int length =
        snprintf(path, PATH_MAX, own ? "%s/heddle" : "%s/.cache/heddle", own ? cache : home);
    return length < PATH_MAX - 2 * HD_PROFILE_TEXT; /* there is room for files' names */
}

/* And the one above it. */
static int open_folder(char path[PATH_MAX]) {
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
    (void)mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* folder/machine, where all but letters and digits are dashes. */
static void name_file(const char *folder, const char *machine, char path[PATH_MAX]) {
    int at = snprintf(path, PATH_MAX, "%s/profile-", folder);
    while (*machine && at < PATH_MAX - 1) {
        path[at++] = (char)(isalnum((unsigned char)*machine) ? *machine : '-');
        machine++;
    }
    path[at] = '\0';
}

/* Locks the folder, or finds that another process has measured meanwhile. */
static bool claim(int folder, const char *path, hd_profile_t *out, bool *have) {
    const char *why;
    *have = false;
    for (uint32_t ms = 0; ms < PATIENCE_MS; ms++) {
        bool claimed = flock(folder, LOCK_EX | LOCK_NB) == 0;
        *have = hd_profile_read(path, out->machine, out, &why);
        if (claimed || *have || errno == ENOSYS) {
            return claimed;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

bool hd_profile_keep(hd_profile_t *out, bool (*measure)(hd_profile_t *out)) {
    char folder[PATH_MAX], path[PATH_MAX];
    const char *why;
    if (!hd_topo_is_this_machine(hd_topo_get()) || !name_folder(folder)) {
        return measure(out);
    }
    name_file(folder, out->machine, path);
    if (hd_profile_read(path, out->machine, out, &why)) {
        return true;
    }
    bool have = false;
    int fd = open_folder(folder);
    bool claimed = fd >= 0 && claim(fd, path, out, &have);
    if (!have) {
        have = measure(out);
        if (have && claimed && !hd_profile_write(path, out)) {
            hd_debug("profile of this machine is not kept: %s: %s", path, strerror(errno));
        }
    }
    if (fd >= 0) {
        close(fd); /* and with it the lock */
    }
    return have;
}
