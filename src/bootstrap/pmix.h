/* pmix.h: what pmix.c needs of the PMIx standard. */
#ifndef HD_BOOTSTRAP_PMIX_H
#define HD_BOOTSTRAP_PMIX_H

#include <stdint.h>

enum {
    HD_PMIX_STRING = 3, /* types of values */
    HD_PMIX_INT = 6,
    HD_PMIX_UINT32 = 14,
    HD_PMIX_GLOBAL = 3, /* a scope: for all processes of the job */
    HD_PMIX_TIMED_OUT = -24
};
#define HD_PMIX_WILDCARD (UINT32_MAX - 1) /* a rank: the job itself */

typedef struct hd_pmix_proc {
    char job[256]; /* its namespace */
    uint32_t rank;
} hd_pmix_proc_t;

typedef struct hd_pmix_value {
    uint16_t type;
    union {
        char *string;
        int integer;
        uint32_t number;
        void *largest[3]; /* of the standard's members */
    } data;
} hd_pmix_value_t;

typedef struct hd_pmix_info {
    char key[512];
    uint32_t flags;
    hd_pmix_value_t value;
} hd_pmix_info_t;

#endif
