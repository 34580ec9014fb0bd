/*
 * Configuration objects: see config.h.
 *
 * Values are kept as text, for printing, and parsed, for reading. A value is only ever replaced by
 * one that parsed. Sources are asked from the best to the worst until one gives a value that
 * parses; a default that does not is a fault of the table, which the tests find.
 */
#include "core/config.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_parse.h"
#include "core/log.h"
#include "core/mem.h"

enum { NAME_MAX_BYTES = 256 };

static const uint32_t config_magic = 0x48644366;
static const uint32_t released_magic = 0x64656164;

typedef struct value {
    char *text;   /* NULL: the variable belongs to the other scope */
    char *origin; /* where the value came from, for people; NULL: it is the default */
    hd_config_parsed_t parsed;
} value_t;

struct hd_config {
    uint32_t magic;
    hd_cfg_scope_t scope;
    char *own_prefix; /* never NULL */
    value_t value[HD_CFG_N_IDS];
};

/* Variables whose malformed value was reported: once per process, not once per context. */
static atomic_bool malformed_reported[HD_CFG_N_IDS];

static void release_value(value_t *value) {
    hd_free(value->text);
    hd_free(value->origin);
}

static ucc_status_t set_value(hd_config_t *cfg, size_t id, const char *text, const char *origin) {
    hd_config_parsed_t parsed;

    if (!hd_config_parse(hd_config_variable(id), text, &parsed)) {
        return UCC_ERR_INVALID_PARAM;
    }
    value_t value = {hd_config_strdup(text), origin != NULL ? hd_config_strdup(origin) : NULL,
                     parsed};
    if (value.text == NULL || (origin != NULL && value.origin == NULL)) {
        release_value(&value);
        return UCC_ERR_NO_MEMORY;
    }
    release_value(&cfg->value[id]);
    cfg->value[id] = value;
    return UCC_OK;
}

/* Takes a value from outside the program: the variable `name` of the environment or of a file.
 * NOT_FOUND: there is none, ask the next source. */
static ucc_status_t try_source(hd_config_t *cfg, size_t id, const char *file, const char *name,
                               const char *text) {
    char origin[2 * NAME_MAX_BYTES + 64];
    if (text == NULL) {
        return UCC_ERR_NOT_FOUND;
    }
    snprintf(origin, sizeof(origin), "%s %s", file != NULL ? "file" : "environment",
             file != NULL ? file : name);

    ucc_status_t status = set_value(cfg, id, text, origin);
    if (status == UCC_ERR_INVALID_PARAM) {
        /* relaxed: which of two threads reports does not matter */
        if (!atomic_exchange_explicit(&malformed_reported[id], true, memory_order_relaxed)) {
            char expected[NAME_MAX_BYTES];
            hd_config_expected(hd_config_variable(id), expected, sizeof(expected));
            hd_warn("%s=%s%s%s is not allowed and ignored: expected %s", name, text,
                    file != NULL ? " in " : "", file != NULL ? file : "", expected);
        }
        status = UCC_ERR_NOT_FOUND;
    }
    return status;
}

static ucc_status_t read_environment(hd_config_t *cfg, size_t id) {
    const char *prefixes[3] = {cfg->own_prefix, "HEDDLE_", "UCC_"};
    char name[2 * NAME_MAX_BYTES];
    ucc_status_t status = UCC_ERR_NOT_FOUND;

    for (int i = 0; i < 3 && status == UCC_ERR_NOT_FOUND; i++) {
        if (prefixes[i][0] != '\0') {
            hd_config_full_name(hd_config_variable(id), prefixes[i], name, sizeof(name));
            status = try_source(cfg, id, NULL, name, secure_getenv(name));
        }
    }
    return status;
}

static ucc_status_t fill(hd_config_t *cfg, const hd_config_file_t *file) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);

        if (variable->scope != cfg->scope) {
            continue;
        }
        ucc_status_t status = read_environment(cfg, id);
        if (status == UCC_ERR_NOT_FOUND) {
            status = try_source(cfg, id, file->name, variable->name, file->text[id]);
        }
        if (status == UCC_ERR_NOT_FOUND) {
            status = set_value(cfg, id, variable->value, NULL);
        }
        if (status != UCC_OK) {
            hd_error("can't set the configuration variable %s", variable->name);
            return status;
        }
    }
    return UCC_OK;
}

static hd_config_t *config_new(hd_cfg_scope_t scope, const char *own_prefix) {
    hd_config_t *cfg = hd_alloc(HD_LINE, sizeof(*cfg));
    char *prefix = hd_config_strdup(own_prefix != NULL ? own_prefix : "");

    if (cfg == NULL || prefix == NULL) {
        hd_error("no memory for a configuration");
        hd_free(cfg);
        hd_free(prefix);
        return NULL;
    }
    cfg->magic = config_magic;
    cfg->scope = scope;
    cfg->own_prefix = prefix;
    return cfg;
}

ucc_status_t hd_config_read(hd_cfg_scope_t scope, const char *own_prefix, const char *filename,
                            hd_config_t **out) {
    hd_config_file_t file = {0};
    hd_config_t *cfg;
    ucc_status_t status;

    if (own_prefix != NULL && strlen(own_prefix) >= NAME_MAX_BYTES) {
        hd_error("variables that begin with %zu bytes of prefix", strlen(own_prefix));
        return UCC_ERR_INVALID_PARAM;
    }
    cfg = config_new(scope, own_prefix);
    if (cfg == NULL) {
        return UCC_ERR_NO_MEMORY;
    }
    status = hd_config_file_read(filename, cfg->own_prefix, &file);
    if (status == UCC_OK) {
        status = fill(cfg, &file);
    }
    hd_config_file_free(&file);
    if (status != UCC_OK) {
        hd_config_release(cfg);
        return status;
    }
    *out = cfg;
    return UCC_OK;
}

hd_config_t *hd_config_copy(const hd_config_t *cfg) {
    hd_config_t *copy = config_new(cfg->scope, cfg->own_prefix);

    for (size_t id = 0; copy != NULL && id < HD_CFG_N_IDS; id++) {
        const value_t *value = &cfg->value[id];
        if (value->text != NULL && set_value(copy, id, value->text, value->origin) != UCC_OK) {
            hd_error("no memory for a copy of the configuration");
            hd_config_release(copy);
            copy = NULL;
        }
    }
    return copy;
}

void hd_config_release(hd_config_t *cfg) {
    if (cfg == NULL) {
        return;
    }
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        release_value(&cfg->value[id]);
    }
    hd_free(cfg->own_prefix);
    cfg->magic = released_magic;
    hd_free(cfg);
}

bool hd_config_valid(const hd_config_t *cfg, hd_cfg_scope_t scope) {
    return cfg != NULL && cfg->magic == config_magic && cfg->scope == scope;
}

const char *hd_config_own_prefix(const hd_config_t *cfg) {
    return cfg->own_prefix;
}

/* `name` without UCC_ or HEDDLE_. */
static const char *bare_name(const char *name) {
    if (strncmp(name, "UCC_", 4) == 0) {
        return name + 4;
    }
    return strncmp(name, "HEDDLE_", 7) == 0 ? name + 7 : name;
}

/* The component is the first `length` bytes of the string; NULL: the scope's own variables. */
static bool of_component(const hd_config_variable_t *variable, const char *component,
                         size_t length) {
    if (component == NULL || variable->component == NULL) {
        return component == NULL && variable->component == NULL;
    }
    return strncmp(variable->component, component, length) == 0 &&
           variable->component[length] == '\0';
}

static bool component_exists(const hd_config_t *cfg, const char *component, size_t length) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);
        if (variable->scope == cfg->scope && of_component(variable, component, length)) {
            return true;
        }
    }
    return false;
}

/* Id of the variable, or HD_CFG_N_IDS. */
static size_t find_variable(const hd_config_t *cfg, const char *component, size_t length,
                            const char *name) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);
        if (variable->scope == cfg->scope && of_component(variable, component, length) &&
            strcmp(variable->name, name) == 0) {
            return id;
        }
    }
    return HD_CFG_N_IDS;
}

/* The ids that (component list, name) means. */
typedef struct targets {
    size_t id[HD_CFG_N_IDS];
    size_t n;
} targets_t;

/* name in every component that has it. */
static void find_everywhere(const hd_config_t *cfg, const char *name, targets_t *targets) {
    for (size_t id = 0; id < HD_CFG_N_IDS; id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);
        if (variable->scope == cfg->scope && variable->component != NULL &&
            strcmp(variable->name, name) == 0) {
            targets->id[targets->n++] = id;
        }
    }
}

/* name in each component of a list. False, and logged, if one does not exist; a component without
 * such a variable leaves no targets. */
static bool find_in_list(const hd_config_t *cfg, const char *list, const char *name,
                         targets_t *targets) {
    size_t length;

    for (const char *at = list;; at += length + 1) {
        length = strcspn(at, ",");
        if (!component_exists(cfg, at, length)) {
            hd_error("invalid component name %.*s: failed to modify %s", (int)length, at, name);
            targets->n = 0;
            return false;
        }
        size_t id = find_variable(cfg, at, length, name);
        if (id == HD_CFG_N_IDS || targets->n == HD_CFG_N_IDS) {
            targets->n = 0;
            return true;
        }
        targets->id[targets->n++] = id;
        if (at[length] == '\0') {
            return true;
        }
    }
}

static ucc_status_t find_targets(const hd_config_t *cfg, const char *components, const char *name,
                                 targets_t *targets) {
    if (components == NULL) {
        targets->id[0] = find_variable(cfg, NULL, 0, name);
        targets->n = targets->id[0] != HD_CFG_N_IDS;
    } else if (strcmp(components, "all") == 0) {
        find_everywhere(cfg, name, targets);
    } else if (!find_in_list(cfg, components, name, targets)) {
        return UCC_ERR_NOT_FOUND;
    }
    if (targets->n == 0) {
        hd_error("failed to modify the configuration: no variable %s%s%s", name,
                 components != NULL ? " of " : "", components != NULL ? components : "");
        return UCC_ERR_NOT_FOUND;
    }
    return UCC_OK;
}

ucc_status_t hd_config_modify(hd_config_t *cfg, const char *component, const char *name,
                              const char *value) {
    targets_t targets = {.n = 0};
    ucc_status_t status = find_targets(cfg, component, bare_name(name), &targets);

    for (size_t i = 0; i < targets.n; i++) {
        hd_config_parsed_t parsed;
        const hd_config_variable_t *variable = hd_config_variable(targets.id[i]);

        if (!hd_config_parse(variable, value, &parsed)) {
            char expected[NAME_MAX_BYTES];
            hd_config_expected(variable, expected, sizeof(expected));
            hd_error("failed to modify the configuration: %s=%s, expected %s", name, value,
                     expected);
            return UCC_ERR_INVALID_PARAM; /* before the first is changed */
        }
    }
    for (size_t i = 0; i < targets.n && status == UCC_OK; i++) {
        status = set_value(cfg, targets.id[i], value, "the program");
        if (status != UCC_OK) {
            hd_error("no memory for %s=%s", name, value);
        }
    }
    return status;
}

static const value_t *get_value(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(id < HD_CFG_N_IDS && cfg->value[id].text != NULL);
    return &cfg->value[id];
}

uint64_t hd_config_uint(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(hd_config_variable(id)->type == HD_CFG_UINT);
    return get_value(cfg, id)->parsed.number;
}

size_t hd_config_size(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(hd_config_variable(id)->type == HD_CFG_SIZE);
    uint64_t number = get_value(cfg, id)->parsed.number;
    return number > SIZE_MAX ? SIZE_MAX : (size_t)number;
}

bool hd_config_bool(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(hd_config_variable(id)->type == HD_CFG_BOOL);
    return get_value(cfg, id)->parsed.number != 0;
}

double hd_config_double(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(hd_config_variable(id)->type == HD_CFG_DOUBLE);
    return get_value(cfg, id)->parsed.real;
}

int hd_config_choice(const hd_config_t *cfg, hd_cfg_id_t id) {
    assert(hd_config_variable(id)->type == HD_CFG_CHOICE);
    return (int)get_value(cfg, id)->parsed.number;
}

const char *hd_config_string(const hd_config_t *cfg, hd_cfg_id_t id) {
    return get_value(cfg, id)->text;
}

const char *hd_config_origin(const hd_config_t *cfg, hd_cfg_id_t id) {
    const value_t *value = get_value(cfg, id);
    return value->origin != NULL ? value->origin : "default";
}
