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

/* How a configuration is shown. */
typedef struct style {
    const char *prefix; /* of names */
    unsigned flags;     /* ucc_config_print_flags_t */
    bool origins;       /* with each default, and where the value came from */
} style_t;

static void print_variable(FILE *stream, const hd_config_t *cfg, hd_cfg_id_t id,
                           const style_t *style) {
    const hd_config_variable_t *variable = hd_config_variable(id);
    unsigned flags = style->flags;
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
    if (style->origins) {
        fprintf(stream, "# default: %s; value from: %s\n",
                variable->value[0] != '\0' ? variable->value : "nothing",
                hd_config_origin(cfg, id));
    }
    if (flags & UCC_CONFIG_PRINT_CONFIG) {
        hd_config_full_name(variable, style->prefix, name, sizeof(name));
        fprintf(stream, "%s=%s\n", name, hd_config_string(cfg, id));
    }
    if (flags & UCC_CONFIG_PRINT_DOC) {
        fputc('\n', stream);
    }
}

static bool same_component(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void print_section(const hd_config_t *cfg, FILE *stream, hd_cfg_scope_t scope,
                          const char *component, const style_t *style) {
    for (size_t id = 0; id < hd_config_count(); id++) {
        const hd_config_variable_t *variable = hd_config_variable(id);

        if (variable->scope == scope && same_component(variable->component, component)) {
            print_variable(stream, cfg, (hd_cfg_id_t)id, style);
        }
    }
}

/* The sections of a context's configuration: its own variables, then each component's. */
static void print_context_sections(const hd_config_t *cfg, FILE *stream, const style_t *style) {
    const char *previous = NULL;

    print_title(stream, "CORE");
    print_section(cfg, stream, HD_CFG_SCOPE_CONTEXT, NULL, style);
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
        print_section(cfg, stream, HD_CFG_SCOPE_CONTEXT, previous, style);
    }
}

void hd_config_print(const hd_config_t *cfg, FILE *stream, const char *title,
                     ucc_config_print_flags_t flags) {
    const char *own = hd_config_own_prefix(cfg);
    style_t style = {own[0] != '\0' ? own : "UCC_", (unsigned)flags, false};

    if ((flags & UCC_CONFIG_PRINT_HEADER) && title != NULL) {
        print_title(stream, title);
    }
    if (hd_config_valid(cfg, HD_CFG_SCOPE_LIB)) {
        print_section(cfg, stream, HD_CFG_SCOPE_LIB, NULL, &style);
    } else {
        print_context_sections(cfg, stream, &style);
    }
}

ucc_status_t hd_config_describe(FILE *stream) {
    const style_t style = {
        "HEDDLE_", UCC_CONFIG_PRINT_CONFIG | UCC_CONFIG_PRINT_DOC | UCC_CONFIG_PRINT_HIDDEN, true};
    hd_config_t *lib = NULL, *context = NULL;

    ucc_status_t status = hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &lib);
    if (status == UCC_OK) {
        status = hd_config_read(HD_CFG_SCOPE_CONTEXT, NULL, NULL, &context);
    }
    if (status == UCC_OK) {
        print_title(stream, "LIBRARY");
        print_section(lib, stream, HD_CFG_SCOPE_LIB, NULL, &style);
        print_context_sections(context, stream, &style);
    }
    hd_config_release(lib);
    hd_config_release(context);
    return status;
}
