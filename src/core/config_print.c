/*
 * Showing configurations: see config.h.
 *
 * The output can be fed back as a configuration file or, without its comments, as an environment:
 * titles and meanings are comments, values are NAME=value lines under the name that the program's
 * own prefix gives them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/config_parse.h"

static void print_title(FILE *stream, const char *title) {
    fprintf(stream, "#\n# %s\n#\n\n", title);
}

/* Text as comment lines. */
static void print_comment(FILE *stream, const char *text) {
    size_t column = 0;

    fputs("#", stream);
    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column + word > 90 && column > 0) {
            fputs("\n#", stream);
            column = 0;
        }
        fprintf(stream, " %.*s", (int)word, text);
        column += word + 1;
        text += word + (text[word] == ' ');
    }
    fputc('\n', stream);
}

static void print_variable(FILE *stream, const hd_config_variable_t *variable, const char *prefix,
                           const char *value, unsigned flags) {
    char name[512];

    if (variable->hidden && !(flags & UCC_CONFIG_PRINT_HIDDEN)) {
        return;
    }
    if (flags & UCC_CONFIG_PRINT_DOC) {
        print_comment(stream, variable->meaning);
        if (variable->words != NULL) {
            print_comment(stream, variable->words);
        }
    }
    if (flags & UCC_CONFIG_PRINT_CONFIG) {
        hd_config_full_name(variable, prefix, name, sizeof(name));
        fprintf(stream, "%s=%s\n", name, value);
    }
    if (flags & UCC_CONFIG_PRINT_DOC) {
        fputc('\n', stream);
    }
}

static bool same_component(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void print_section(const hd_config_t *cfg, FILE *stream, hd_cfg_scope_t scope,
                          const char *component, const char *prefix, unsigned flags) {
    for (size_t id = 0; id < hd_config_count(); id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);

        if (variable->scope == scope && same_component(variable->component, component)) {
            print_variable(stream, variable, prefix,
                           cfg != NULL ? hd_config_string(cfg, (hd_cfg_id_t)id) : variable->value,
                           flags);
        }
    }
}

/* The sections of a context's configuration: its own variables, then each component's. */
static void print_context_sections(const hd_config_t *cfg, FILE *stream, const char *prefix,
                                   unsigned flags) {
    const char *previous = NULL;

    print_title(stream, "CORE");
    print_section(cfg, stream, HD_CFG_SCOPE_CONTEXT, NULL, prefix, flags);
    /* rows of one component are neighbours in the table */
    for (size_t id = 0; id < hd_config_count(); id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);
        char title[64];

        if (variable->component == NULL || same_component(variable->component, previous)) {
            continue;
        }
        previous = variable->component;
        hd_config_component_name(previous, title, sizeof(title));
        fputc('\n', stream);
        print_title(stream, title);
        print_section(cfg, stream, HD_CFG_SCOPE_CONTEXT, previous, prefix, flags);
    }
}

void hd_config_print(const hd_config_t *cfg, FILE *stream, const char *title,
                     ucc_config_print_flags_t flags) {
    const char *env_prefix = hd_config_env_prefix(cfg);
    char prefix[300];

    snprintf(prefix, sizeof(prefix), "%s%sUCC_", env_prefix, env_prefix[0] != '\0' ? "_" : "");
    if ((flags & UCC_CONFIG_PRINT_HEADER) && title != NULL) {
        print_title(stream, title);
    }
    if (hd_config_valid(cfg, HD_CFG_SCOPE_LIB)) {
        print_section(cfg, stream, HD_CFG_SCOPE_LIB, NULL, prefix, (unsigned)flags);
    } else {
        print_context_sections(cfg, stream, prefix, (unsigned)flags);
    }
}

void hd_config_describe(FILE *stream) {
    unsigned flags = UCC_CONFIG_PRINT_CONFIG | UCC_CONFIG_PRINT_DOC | UCC_CONFIG_PRINT_HIDDEN;

    print_title(stream, "LIBRARY");
    print_section(NULL, stream, HD_CFG_SCOPE_LIB, NULL, "HEDDLE_", flags);
    print_context_sections(NULL, stream, "HEDDLE_", flags);
}
