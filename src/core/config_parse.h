/*
 * Inside configuration only: text to values, variable names, files, and printing. See config.h.
 */
#ifndef HD_CORE_CONFIG_PARSE_H
#define HD_CORE_CONFIG_PARSE_H

#include "core/config.h"

typedef struct hd_config_parsed {
    uint64_t number; /* HD_CFG_UINT, SIZE, BOOL (0 or 1), CHOICE (index) */
    double real;     /* HD_CFG_DOUBLE */
} hd_config_parsed_t;

/* False if the text is malformed or out of the variable's bounds. */
bool hd_config_parse(const hd_config_variable_t *variable, const char *text,
                     hd_config_parsed_t *out);

/* What a well-formed value of this variable looks like, with its bounds, for messages. */
void hd_config_expected(const hd_config_variable_t *variable, char *out, size_t size);

/* "UCC_" + "TL_UCP_" + "NPOLLS" */
void hd_config_full_name(const hd_config_variable_t *variable, const char *prefix, char *out,
                         size_t size);

/* "tl/ucp" as "TL_UCP" */
void hd_config_component_name(const char *component, char *out, size_t size);

/* Whether a name without its prefix is a row of the table, or is read by the released library or by
 * this project's checks. */
bool hd_config_known(const char *bare);

/* The row's name that is spelt most like this one; false if none comes near. */
bool hd_config_nearest(const char *bare, char *out, size_t size);

/* A copy for hd_free; NULL when memory is short. */
char *hd_config_strdup(const char *text);

/* The values a file gives, by variable; NULL where it says nothing. Zero-initialized: no file. */
typedef struct hd_config_file {
    char *text[HD_CFG_N_IDS];
    char *name; /* the file's; NULL if none was read */
} hd_config_file_t;

/* filename NULL: the file named in the environment, if any. Only memory can run out: a file that
 * can't be read is reported, and skipped. */
ucc_status_t hd_config_file_read(const char *filename, const char *own_prefix,
                                 hd_config_file_t *file);
void hd_config_file_free(hd_config_file_t *file);

#endif
