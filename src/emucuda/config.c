/* config.c: the string that says which devices there are, and how they behave. */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number up to max that fills the text, with a suffix K, M or G where that is allowed. */
static bool number(const char *text, bool suffix, uint64_t max, uint64_t *value) {
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    *value = strtoull(text, &end, 0);
    if (suffix && *end) {
        const char *units = "KMG", *unit = strchr(units, *end);
        if (!unit || *value > UINT64_MAX >> 30) {
            return false;
        }
        *value <<= 10 * (unit - units + 1);
        end++;
    }
    return *end == '\0' && *value <= max;
}

static bool policy(const char *text, emu_policy_t *value) {
    static const char *const name[] = {"random", "lazy", "starve", "newest"};
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        if (strcmp(text, name[i]) == 0) {
            *value = (emu_policy_t)i;
            return true;
        }
    }
    return false;
}

static bool small(const char *text, uint64_t max, uint32_t *value) {
    uint64_t wide;
    if (!number(text, false, max, &wide)) {
        return false;
    }
    *value = (uint32_t)wide;
    return true;
}

/* One word after the number of devices. */
static bool take(char *word, emu_config_t *config) {
    if (strcmp(word, "nopeer") == 0) {
        config->peers = false;
        return true;
    }
    char *value = strchr(word, '=');
    if (!value) {
        return false;
    }
    *value++ = '\0';
    if (strcmp(word, "seed") == 0) {
        return number(value, false, UINT64_MAX, &config->seed);
    }
    if (strcmp(word, "channels") == 0) {
        return small(value, 1024, &config->channels);
    }
    if (strcmp(word, "policy") == 0) {
        return policy(value, &config->policy);
    }
    if (strcmp(word, "window") == 0) {
        return small(value, UINT32_MAX, &config->window) && config->window > 0;
    }
    if (strcmp(word, "memory") == 0) {
        return number(value, true, (uint64_t)1 << 40, &config->memory) && config->memory > 0;
    }
    if (strcmp(word, "host") == 0) {
        config->threads = strcmp(value, "threads") == 0;
        return config->threads || strcmp(value, "one") == 0;
    }
    if (strcmp(word, "patience") == 0) {
        return small(value, 3600000, &config->patience);
    }
    if (strcmp(word, "idle") == 0) {
        return small(value, 3600000, &config->idle);
    }
    return false;
}

int emu_config_parse(const char *text, emu_config_t *config) {
    *config = (emu_config_t){.devices = 1,
                             .peers = true,
                             .seed = 1,
                             .window = 16,
                             .memory = (uint64_t)4 << 30,
                             .patience = 2000,
                             .idle = 5};
    char *copy = strdup(text), *rest = copy;
    bool first = true, good = copy != NULL;
    for (char *word; good && (word = strsep(&rest, ",")) != NULL; first = false) {
        uint64_t devices;
        if (first && number(word, false, EMU_DEVICES, &devices)) {
            config->devices = (int)devices;
        } else if ((!first || *word) && !take(word, config)) {
            good = false;
        }
    }
    free(copy);
    if (!good) {
        fprintf(stderr, "emucuda: don't understand the configuration \"%s\"\n", text);
    }
    return good ? 0 : -1;
}
