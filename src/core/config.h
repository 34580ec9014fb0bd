/*
 * Configuration: one table of variables, and objects that hold a value for each.
 *
 * The table (config_table.c) has one row per variable: scope, name, default, type, meaning. An
 * object holds the values of one scope, already parsed: reading one is an array access, so values
 * may be fetched anywhere but on the hot path, where they are copied to the object that needs them.
 *
 * A value comes from, best first:
 *   1. hd_config_modify
 *   2. <PREFIX>_UCC_NAME in the environment, if the program gave a prefix (UCC_<PREFIX>_NAME in a
 *      program that was written to a draft of UCC; api/config_calls.c and api/drafts.c put the
 *      names' beginning together)
 *   3. HEDDLE_NAME, then UCC_NAME in the environment
 *   4. a file: the given one, else the one that HEDDLE_CONFIG_FILE or UCC_CONFIG_FILE names
 *   5. the default
 * A malformed value from 2 to 4, or one out of its bounds, is reported, once per variable, and the
 * next source is used: a typing error in the environment must not stop a program. In a file the
 * last line about a variable counts; keys are UCC_NAME, HEDDLE_NAME, <PREFIX>_UCC_NAME or NAME.
 * Variables of a component carry its name: NPOLLS of tl/ucp is UCC_TL_UCP_NPOLLS.
 *
 * An object belongs to one owner; it may be read by several threads while nobody modifies it.
 */
#ifndef HD_CORE_CONFIG_H
#define HD_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <ucc/api/ucc_def.h>
#include <ucc/api/ucc_status.h>

typedef enum hd_cfg_scope { HD_CFG_SCOPE_LIB, HD_CFG_SCOPE_CONTEXT } hd_cfg_scope_t;

typedef enum hd_cfg_type {
    HD_CFG_STRING,
    HD_CFG_BOOL,   /* y yes on true 1, n no off false 0 */
    HD_CFG_UINT,   /* decimal, "inf", "auto" */
    HD_CFG_SIZE,   /* bytes: 4096, 4k, 1m, 2g, "inf", "auto" */
    HD_CFG_DOUBLE, /* 0 or more */
    HD_CFG_CHOICE, /* one of the row's words */
} hd_cfg_type_t;

/* What "inf" and "auto" give for HD_CFG_UINT and HD_CFG_SIZE. */
#define HD_CFG_INF  (UINT64_MAX)
#define HD_CFG_AUTO (UINT64_MAX - 1)

typedef enum hd_cfg_id {
    /* library: understood as in the released library, or accepted for its clients' sake */
    HD_CFG_LIB_CLS,
    HD_CFG_LIB_TLS,
    HD_CFG_LIB_LOG_LEVEL, /* choice; its text is for hd_log_level_parse */
    HD_CFG_LIB_LOG_FILE,
    HD_CFG_LIB_CONFIG_FILE,
    HD_CFG_LIB_COLL_TRACE, /* choice; its text is for hd_log_level_parse */
    HD_CFG_LIB_PROFILE_MODE,
    HD_CFG_LIB_PROFILE_FILE,
    HD_CFG_LIB_CHECK_ASYMMETRIC_DT,
    /* library: Heddle's own */
    HD_CFG_LIB_CHECK,            /* bool: two-sided checking */
    HD_CFG_LIB_ARRIVAL,          /* choice: hd_cfg_arrival_t */
    HD_CFG_LIB_FLAT_MAX,         /* uint: endpoints up to which everybody reads everybody */
    HD_CFG_LIB_TREE,             /* choice: hd_cfg_tree_t */
    HD_CFG_LIB_LINES_MAX,        /* size */
    HD_CFG_LIB_STAGED_MAX,       /* size */
    HD_CFG_LIB_DIRECT_ABOVE,     /* size */
    HD_CFG_LIB_CHUNK,            /* size: bytes touched by one chunk */
    HD_CFG_LIB_NONTEMPORAL_MIN,  /* size or auto */
    HD_CFG_LIB_PULL_MIN,         /* size or inf */
    HD_CFG_LIB_PROFILE,          /* string: see shm/profile.h */
    HD_CFG_LIB_RING,             /* uint: lanes per endpoint, power of two 4..64 */
    HD_CFG_LIB_PERSISTENT_RING,  /* uint: exchanges of one persistent request, power of two 2..16 */
    HD_CFG_LIB_SPIN_POLLS,       /* uint: polls of the awaited line per progress call */
    HD_CFG_LIB_YIELD_MAX_US,     /* uint */
    HD_CFG_LIB_PARK,             /* bool */
    HD_CFG_LIB_PARK_SPIN_US,     /* uint */
    HD_CFG_LIB_TOPOLOGY,         /* string: see hd_topo_create */
    HD_CFG_LIB_PIN,              /* string: auto, always, none, or processors */
    HD_CFG_LIB_STRICT_EXCLUSIVE, /* bool */
    HD_CFG_LIB_DEBUG_ORDER,      /* bool */
    HD_CFG_LIB_DEBUG_MAPPINGS,   /* choice: hd_cfg_mappings_t */
    HD_CFG_LIB_DEBUG_NODES,      /* uint: so many nodes of one machine */
    HD_CFG_LIB_TRACE,            /* string: file */
    HD_CFG_LIB_STALL,            /* double: seconds; 0: off */
    HD_CFG_LIB_TIMEOUT,          /* double: seconds; 0: off */
    HD_CFG_LIB_REPRODUCIBLE,     /* choice: hd_cfg_reproducible_t */
    HD_CFG_LIB_TEAM_IDS,         /* choice: hd_cfg_team_ids_t */
    HD_CFG_LIB_NODE,             /* bool */
    HD_CFG_LIB_XPMEM,            /* choice: hd_cfg_xpmem_t */
    HD_CFG_LIB_NET,              /* bool */
    HD_CFG_LIB_NET_LIBRARY,      /* string: file, or empty */
    HD_CFG_LIB_NET_SHM,          /* bool */
    HD_CFG_LIB_NET_SURVIVE,      /* bool */
    HD_CFG_LIB_NET_TLS,          /* string: for UCX, or empty */
    HD_CFG_LIB_NET_DEVICES,      /* string: names, or all */
    HD_CFG_LIB_NET_LANES,        /* uint: 1..8 */
    HD_CFG_LIB_NET_SWAP_MAX,     /* uint: 0..4096 */
    HD_CFG_LIB_NET_WATCH,        /* bool */
    HD_CFG_LIB_NET_ASK,          /* bool */
    HD_CFG_LIB_NET_WATCH_DEVICES, /* string: names, or empty */
    HD_CFG_LIB_NET_LOST_AFTER,    /* double: seconds */
    HD_CFG_LIB_NET_GRACE,         /* double: seconds */
    HD_CFG_LIB_NET_CUT_OFF,       /* double: seconds; 0: never */
    HD_CFG_LIB_NET_QUORUM,        /* bool */
    /* choices: words that net/algorithm.c knows; in the order of hd_net_family_t */
    HD_CFG_LIB_NET_BARRIER,
    HD_CFG_LIB_NET_BCAST,
    HD_CFG_LIB_NET_ALLGATHER,
    HD_CFG_LIB_NET_ALLTOALL,
    HD_CFG_LIB_NET_GATHER,
    HD_CFG_LIB_NET_SCATTER,
    HD_CFG_LIB_NET_ALLREDUCE,
    HD_CFG_LIB_NET_REDUCE,
    HD_CFG_LIB_NET_REDUCE_SCATTER,
    HD_CFG_LIB_GPU,             /* string: see gpu/gpu.h */
    HD_CFG_LIB_GPU_LIBRARY,     /* string: file, or empty */
    HD_CFG_LIB_GPU_GATE,        /* choice: hd_cfg_gate_t */
    HD_CFG_LIB_GPU_COPY_MIN,    /* size */
    HD_CFG_LIB_GPU_PARTIAL_MIN, /* size */
    /* context */
    HD_CFG_CTX_ESTIMATED_NUM_EPS,    /* uint */
    HD_CFG_CTX_ESTIMATED_NUM_PPN,    /* uint */
    HD_CFG_CTX_NODE_LOCAL_ID,        /* uint or auto */
    HD_CFG_CTX_TEAM_IDS_POOL_SIZE,   /* uint */
    HD_CFG_CTX_INTERNAL_OOB,         /* uint: 0 off, 1 try, 2 force */
    HD_CFG_CTX_LOCK_FREE_PROGRESS_Q, /* uint: 0 or 1 */
    HD_CFG_CTX_THROTTLE_PROGRESS,    /* uint */
    HD_CFG_CTX_NET_DEVICES,          /* string */
    HD_CFG_CTX_CL_BASIC_TUNE,        /* string, component cl/basic */
    HD_CFG_CTX_TL_UCP_NPOLLS,        /* uint, component tl/ucp */
    HD_CFG_CTX_TL_UCP_TUNE,          /* string, component tl/ucp */
    HD_CFG_N_IDS
} hd_cfg_id_t;

typedef enum hd_cfg_mappings {
    HD_CFG_MAPPINGS_ONE,
    HD_CFG_MAPPINGS_NEAR,
    HD_CFG_MAPPINGS_FAR,
    HD_CFG_MAPPINGS_PAIRS
} hd_cfg_mappings_t;

typedef enum hd_cfg_arrival {
    HD_CFG_ARRIVAL_AUTO,
    HD_CFG_ARRIVAL_FLAT,
    HD_CFG_ARRIVAL_STATIC,
    HD_CFG_ARRIVAL_COUNTER,
    HD_CFG_ARRIVAL_BUTTERFLY
} hd_cfg_arrival_t;

/* When teams of the same contexts are told apart by the ids that clients give them. */
typedef enum hd_cfg_team_ids {
    HD_CFG_TEAM_IDS_AUTO, /* where several threads may form teams at once */
    HD_CFG_TEAM_IDS_ALWAYS,
    HD_CFG_TEAM_IDS_NEVER
} hd_cfg_team_ids_t;

/* What the bits of a reduction among processes depend on, besides its operands. */
typedef enum hd_cfg_reproducible {
    HD_CFG_REPRODUCIBLE_LAYOUT,   /* which endpoints share a process */
    HD_CFG_REPRODUCIBLE_PLACEMENT /* nothing */
} hd_cfg_reproducible_t;

typedef enum hd_cfg_gate { HD_CFG_GATE_AUTO, HD_CFG_GATE_MEMOP, HD_CFG_GATE_MEET } hd_cfg_gate_t;

typedef enum hd_cfg_tree {
    HD_CFG_TREE_AUTO,
    HD_CFG_TREE_NUMBER,
    HD_CFG_TREE_TOPOLOGY
} hd_cfg_tree_t;

typedef enum hd_cfg_xpmem { HD_CFG_XPMEM_AUTO, HD_CFG_XPMEM_YES, HD_CFG_XPMEM_NO } hd_cfg_xpmem_t;

/* One row of the table. */
typedef struct hd_config_variable {
    hd_cfg_scope_t scope;
    hd_cfg_type_t type;
    bool hidden;           /* accepted, has no effect here: printed only on request */
    const char *component; /* "tl/ucp", or NULL */
    const char *name;
    const char *value; /* default, as text */
    const char *meaning;
    const char *words; /* HD_CFG_CHOICE: the accepted words, separated by commas */
    /* HD_CFG_UINT and HD_CFG_SIZE. max 0: no upper bound, and "inf" and "auto" are values. */
    uint64_t min, max;
    bool power_of_two;
} hd_config_variable_t;

typedef struct hd_config hd_config_t;

/* own_prefix: all that the names of the program's own variables begin with ("OMPI_UCC_"). It and
 * filename may be NULL. A file that does not exist or can't be read is no error: it is reported,
 * and ignored. */
ucc_status_t hd_config_read(hd_cfg_scope_t scope, const char *own_prefix, const char *filename,
                            hd_config_t **out);
/* NULL when memory is short. */
hd_config_t *hd_config_copy(const hd_config_t *cfg);
/* NULL is allowed. */
void hd_config_release(hd_config_t *cfg);

/* False for NULL and for anything that is not a live configuration of that scope, as far as a magic
 * number can tell. */
bool hd_config_valid(const hd_config_t *cfg, hd_cfg_scope_t scope);
/* The prefix given at hd_config_read, "" if none. */
const char *hd_config_own_prefix(const hd_config_t *cfg);

/*
 * component: NULL for the scope's own variables, one name ("tl/ucp"), several separated by commas,
 * or "all" for every component that has the variable. name may carry the UCC_ or HEDDLE_ prefix.
 * Unknown component or name: UCC_ERR_NOT_FOUND. Malformed value: UCC_ERR_INVALID_PARAM. Both are
 * logged and change nothing.
 */
ucc_status_t hd_config_modify(hd_config_t *cfg, const char *component, const char *name,
                              const char *value);

void hd_config_print(const hd_config_t *cfg, FILE *stream, const char *title,
                     ucc_config_print_flags_t flags);

/* The value of a variable of this object's scope. The type must fit the variable's; HD_CFG_SIZE
 * values beyond SIZE_MAX read as SIZE_MAX. */
uint64_t hd_config_uint(const hd_config_t *cfg, hd_cfg_id_t id);
size_t hd_config_size(const hd_config_t *cfg, hd_cfg_id_t id);
bool hd_config_bool(const hd_config_t *cfg, hd_cfg_id_t id);
double hd_config_double(const hd_config_t *cfg, hd_cfg_id_t id);
/* Any type, as text; lives as long as the object and is replaced by hd_config_modify. */
const char *hd_config_string(const hd_config_t *cfg, hd_cfg_id_t id);
/* Where the value came from, for people: "default", "environment HEDDLE_RING", "file NAME", or "the
 * program" (hd_config_modify). Lives as long as the string. */
const char *hd_config_origin(const hd_config_t *cfg, hd_cfg_id_t id);
/* Index into the row's words. */
int hd_config_choice(const hd_config_t *cfg, hd_cfg_id_t id);

/* The table, in the order of hd_cfg_id_t. */
size_t hd_config_count(void);
const hd_config_variable_t *hd_config_variable(size_t i);
/* Every variable with its meaning, its default, the value that a program without an environment
 * prefix would get now, and where that value comes from. */
ucc_status_t hd_config_describe(FILE *stream);

/* Warns of each variable under HEDDLE_, UCC_ and the program's own prefix in the environment that
 * nobody reads, and names the one that was probably meant; once per process. The prefix may be
 * "". */
void hd_config_check_environment(const char *own_prefix);

#endif
