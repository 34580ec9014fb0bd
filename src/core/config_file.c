/*
 * Configuration files: see config.h for what they may say and how they rank.
 *
 * Lines read NAME = value; blanks around either are dropped, '#' starts a comment line. Lines under
 * a [section] are tuning rules of the released library, for machines and team sizes: they describe
 * its algorithms and are skipped.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/config_parse.h"
#include "core/log.h"
#include "core/mem.h"

/* Unknown keys are reported by the first reading of a file that has some, not by every context; so
 * is a file that can't be read. */
static atomic_bool unknown_reported, unreadable_reported;

typedef struct reader {
    hd_config_file_t *file;
    const char *name;
    const char *own_prefix;
    bool report_unknown;
    bool has_unknown;
} reader_t;

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

/* The key without its prefix. */
static const char *bare_key(const reader_t *reader, const char *key) {
    size_t length = strlen(reader->own_prefix);

    if (length > 0 && strncmp(key, reader->own_prefix, length) == 0) {
        return key + length;
    }
    if (strncmp(key, "UCC_", 4) == 0) {
        return key + 4;
    }
    return strncmp(key, "HEDDLE_", 7) == 0 ? key + 7 : key;
}

static ucc_status_t store(reader_t *reader, const char *key, const char *value) {
    const char *bare = bare_key(reader, key);
    char name[256];
    bool known = false;

    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        hd_config_full_name(hd_config_variable(id), "", name, sizeof(name));
        if (strcmp(name, bare) != 0) {
            continue;
        }
        char *copy = hd_config_strdup(value);
        if (copy == NULL) {
            return UCC_ERR_NO_MEMORY;
        }
        hd_free(reader->file->text[id]);
        reader->file->text[id] = copy;
        known = true;
    }
    if (known || hd_config_known(bare)) {
        return UCC_OK;
    }
    if (reader->report_unknown && hd_config_nearest(bare, name, sizeof(name))) {
        hd_warn("%s: unknown variable %s: did you mean %s?", reader->name, key, name);
    } else if (reader->report_unknown) {
        hd_warn("%s: unknown variable %s", reader->name, key);
    }
    reader->has_unknown = true;
    return UCC_OK;
}

static ucc_status_t read_lines(reader_t *reader, FILE *stream) {
    ucc_status_t status = UCC_OK;
    char *line = NULL;
    size_t capacity = 0;

    while (status == UCC_OK && getline(&line, &capacity, stream) >= 0) {
        char *text = trim(line);
        char *equals = strchr(text, '=');

        if (text[0] == '[') {
            break; /* sections last until the end of the file */
        }
        if (text[0] == '#' || text[0] == ';' || text[0] == '\0') {
            continue;
        }
        if (equals == NULL) {
            hd_warn("%s: not NAME = value: %s", reader->name, text);
            continue;
        }
        *equals = '\0';
        status = store(reader, trim(text), trim(equals + 1));
    }
    free(line);
    return status;
}

static const char *environment_file(const char *own_prefix) {
    char own[512];
    const char *name = NULL;

    if (own_prefix[0] != '\0') {
        snprintf(own, sizeof(own), "%sCONFIG_FILE", own_prefix);
        name = secure_getenv(own);
    }
    if (name == NULL) {
        name = secure_getenv("HEDDLE_CONFIG_FILE");
    }
    return name != NULL ? name : secure_getenv("UCC_CONFIG_FILE");
}

ucc_status_t hd_config_file_read(const char *filename, const char *own_prefix,
                                 hd_config_file_t *file) {
    const char *name = filename != NULL ? filename : environment_file(own_prefix);
    /* relaxed: at worst two threads report the same keys */
    bool reported = atomic_load_explicit(&unknown_reported, memory_order_relaxed);
    reader_t reader = {file, name, own_prefix, !reported, false};
    ucc_status_t status;

    /* "auto" is the released library's word for its own places, where it may find nothing either.
     */
    if (name == NULL || name[0] == '\0' || strcasecmp(name, "auto") == 0) {
        return UCC_OK;
    }
    FILE *stream = fopen(name, "re");
    if (stream == NULL) {
        /* relaxed: which of two threads reports does not matter */
        if (!atomic_exchange_explicit(&unreadable_reported, true, memory_order_relaxed)) {
            hd_warn("the configuration file %s is ignored: %s", name, strerror(errno));
        }
        return UCC_OK;
    }
    file->name = hd_config_strdup(name);
    status = file->name != NULL ? read_lines(&reader, stream) : UCC_ERR_NO_MEMORY;
    fclose(stream);
    if (reader.has_unknown) {
        atomic_store_explicit(&unknown_reported, true, memory_order_relaxed);
    }
    if (status != UCC_OK) {
        hd_error("no memory to read the configuration file %s", name);
    }
    return status;
}

void hd_config_file_free(hd_config_file_t *file) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        hd_free(file->text[id]);
    }
    hd_free(file->name);
}
