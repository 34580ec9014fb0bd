/*
 * Configuration values and names as text: see config_parse.h.
 */
#include "core/config_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"

char *hd_config_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = hd_alloc(sizeof(void *), bytes);

    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

static bool parse_bool(const char *text, uint64_t *out) {
    static const char *const yes[] = {"y", "yes", "on", "true", "1"};
    static const char *const no[] = {"n", "no", "off", "false", "0"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *out = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

/* Position in the machine's powers of 1024 of a size's unit ("k", "KB", "b", ""), or -1. */
static int unit_exponent(const char *unit) {
    static const char letters[] = "kmgt";

    if (unit[0] == '\0' || strcasecmp(unit, "b") == 0) {
        return 0;
    }
    const char *letter = strchr(letters, tolower((unsigned char)unit[0]));
    if (letter == NULL || (unit[1] != '\0' && strcasecmp(unit + 1, "b") != 0)) {
        return -1;
    }
    return (int)(letter - letters) + 1;
}

/* Decimal digits, then a unit if allowed. "inf" and "auto" are for the caller. */
static bool parse_number(const char *text, bool units, uint64_t *out) {
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return false; /* strtoull would take a sign and blanks */
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    int exponent = units ? unit_exponent(end) : (*end == '\0' ? 0 : -1);
    if (errno != 0 || exponent < 0 || number > ((HD_CFG_AUTO - 1) >> (10 * exponent))) {
        return false;
    }
    *out = (uint64_t)number << (10 * exponent);
    return true;
}

static bool within_bounds(const hd_config_variable_t *variable, uint64_t number) {
    if (number < variable->min || (variable->max != 0 && number > variable->max)) {
        return false;
    }
    return !variable->power_of_two || (number != 0 && (number & (number - 1)) == 0);
}

/* Whether "inf" and "auto" mean anything: not where there is an upper bound. */
static bool parse_unbounded(const hd_config_variable_t *variable, const char *text, uint64_t *out) {
    if (variable->max == 0 && strcasecmp(text, "inf") == 0) {
        *out = HD_CFG_INF;
        return true;
    }
    if (variable->max == 0 && strcasecmp(text, "auto") == 0) {
        *out = HD_CFG_AUTO;
        return true;
    }
    return false;
}

static bool parse_choice(const char *words, const char *text, uint64_t *out) {
    size_t length = strlen(text);

    *out = 0;
    for (const char *word = words; length > 0; (*out)++) {
        size_t n = strcspn(word, ",");
        if (n == length && strncasecmp(word, text, n) == 0) {
            return true;
        }
        if (word[n] == '\0') {
            break;
        }
        word += n + 1;
    }
    return false;
}

static bool parse_double(const char *text, double *out) {
    char *end;

    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= 0; /* no number is not, either */
}

bool hd_config_parse(const hd_config_variable_t *variable, const char *text,
                     hd_config_parsed_t *out) {
    *out = (hd_config_parsed_t){0};
    switch (variable->type) {
    case HD_CFG_STRING:
        return true;
    case HD_CFG_BOOL:
        return parse_bool(text, &out->number);
    case HD_CFG_UINT:
    case HD_CFG_SIZE:
        return parse_unbounded(variable, text, &out->number) ||
               (parse_number(text, variable->type == HD_CFG_SIZE, &out->number) &&
                within_bounds(variable, out->number));
    case HD_CFG_DOUBLE:
        return parse_double(text, &out->real);
    case HD_CFG_CHOICE:
        return parse_choice(variable->words, text, &out->number);
    }
    return false;
}

void hd_config_expected(const hd_config_variable_t *variable, char *out, size_t size) {
    const char *kind = variable->power_of_two ? "a power of two" : "a number";
    unsigned long long min = variable->min, max = variable->max;

    switch (variable->type) {
    case HD_CFG_STRING:
        snprintf(out, size, "a text");
        return;
    case HD_CFG_BOOL:
        snprintf(out, size, "y or n");
        return;
    case HD_CFG_DOUBLE:
        snprintf(out, size, "a number, 0 or more");
        return;
    case HD_CFG_CHOICE:
        snprintf(out, size, "one of %s", variable->words);
        return;
    case HD_CFG_SIZE:
        kind = "bytes, as 4096, 4k or 1m,";
        break;
    case HD_CFG_UINT:
        break;
    }
    if (max != 0) {
        snprintf(out, size, "%s from %llu to %llu", kind, min, max);
    } else if (min != 0) {
        snprintf(out, size, "%s from %llu on, inf or auto", kind, min);
    } else {
        snprintf(out, size, "%s%s inf or auto", kind, variable->type == HD_CFG_SIZE ? "" : ",");
    }
}

void hd_config_component_name(const char *component, char *out, size_t size) {
    size_t i = 0;

    for (; i + 1 < size && component[i] != '\0'; i++) {
        out[i] = component[i] == '/' ? '_' : (char)toupper((unsigned char)component[i]);
    }
    out[i] = '\0';
}

void hd_config_full_name(const hd_config_variable_t *variable, const char *prefix, char *out,
                         size_t size) {
    char component[64] = "";

    if (variable->component != NULL) {
        hd_config_component_name(variable->component, component, sizeof(component));
    }
    snprintf(out, size, "%s%s%s%s", prefix, component, component[0] != '\0' ? "_" : "",
             variable->name);
}
