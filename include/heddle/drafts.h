/* drafts.h: the two drafts from which UCC 1.x came. A program that was written to one of them
 * includes this file in place of the draft's header, and runs.
 *
 *     #define HEDDLE_DRAFT 1        the earlier draft: UCC_SUCCESS, ucc_op_t, requested_coll_types,
 *                                   ...
 *     #define HEDDLE_DRAFT 2        the later one: UCC_OK, ucc_reduction_op_t, coll_types, ...; the
 *                                   default
 *     #include <heddle/drafts.h>
 *
 * All types, fields, values and calls have the draft's names, and the values that it gives them.
 * Where 1.x uses a name of the draft for something else, the name means the draft's from this
 * include on; so this file comes after all others that include UCC's or Heddle's headers. What
 * differs from the drafts' text is in docs/ucc.md. HEDDLE_NO_UNPREFIXED leaves out what has no
 * prefix: LOCAL, SYMMETRIC, REMOTE_ATOMICS and their like.
 *
 * What the drafts leave open is settled so:
 * - Masks. Only ucc_lib_params_t and ucc_context_params_t have bits with names; there, fields
 *   outside the mask are not read. Elsewhere the mask is not read: zero a structure, and set what
 *   is wanted. The attribute calls fill in every field.
 * - buffer_info.size is in bytes, as in the out-of-band allgather; reduction_info.count and the
 *   counts and displacements are in elements. size is one block: what an endpoint gives to, or gets
 *   from, one other; in bcast and mcast, the whole buffer. It is a multiple of both datatypes'
 *   sizes. Reductions take count and datatype from reduction_info, and no size.
 * - Blocks of different sizes: allgather and gather with dst_counts, scatter with scounts, alltoall
 *   with both. Whoever of the team gives such an array, all do, with an entry for each endpoint;
 *   size is then not read. Displacements may be NULL: the blocks lie one behind the other.
 * - bcast and mcast read src_buffer at the root and write dst_buffer elsewhere; the other one of
 *   the two is used where that is NULL. The root's dst_buffer is not written.
 * - buffer_info.flags: UCC_COLL_ARGS_FLAG_IN_PLACE, UCC_COLL_ARGS_FLAG_PERSISTENT (without it, a
 *   request is posted once), HEDDLE_COLL_FLAG_SYMMETRIC, HEDDLE_COLL_FLAG_PERSISTENT_BUFFER and
 *   HEDDLE_COLL_FLAG_READY are the four that the drafts list without names. Not read for barrier,
 *   fanin and fanout, of whose ext_args only root and tag are.
 * - ucc_collective_test() looks, and moves nothing: that is ucc_context_progress().
 * - tag is read on unordered teams only: there every operation has one. root is an endpoint.
 * - Endpoints. All the same `ep` (such as 0): the library numbers the endpoints, by their places in
 *   the out-of-band allgather. Else each needs one of its own; collectives order blocks by it.
 *   ep_range is not read: the library sees for itself, and says so in the attributes. A team
 *   without an out-of-band allgather has all contexts of its context's out-of-band allgather as
 *   members.
 *
 * heddle.h's collectives take datatypes and operations by 1.x's values, not by the draft's: here,
 * they are out of reach. A file that needs both defines HEDDLE_DRAFT_KEEP_1X: then no name changes
 * its meaning, and the draft's types and calls are those beginning with heddle_draft_ below, its
 * values HEDDLE_DRAFT_*.
 */
#ifndef HEDDLE_DRAFTS_H_
#define HEDDLE_DRAFTS_H_

#ifndef HEDDLE_DRAFT
#define HEDDLE_DRAFT 2
#elif HEDDLE_DRAFT != 1 && HEDDLE_DRAFT != 2
#error "HEDDLE_DRAFT is 1 (the earlier draft) or 2 (the later one)"
#endif

#include <heddle/drafts_names.h>
#include <heddle/heddle.h>
#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is `first` in the earlier draft and `second` in the later one. */
#if HEDDLE_DRAFT == 1
#define HEDDLE_DRAFT_EITHER(first, second) first
#else
#define HEDDLE_DRAFT_EITHER(first, second) second
#endif

/* ------------------------------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------------------------- */

/** Collectives, as bits. The earlier draft names them in its text only, as it does the two aliases.
 */
typedef enum heddle_draft_coll_type {
    UCC_BARRIER = UCC_BIT(0),
    UCC_BCAST = UCC_BIT(1),
    UCC_ALLREDUCE = UCC_BIT(2),
    UCC_REDUCE = UCC_BIT(3),
    UCC_ALLTOALL = UCC_BIT(4),
    UCC_ALLGATHER = UCC_BIT(5),
    UCC_GATHER = UCC_BIT(6),
    UCC_SCATTER = UCC_BIT(7),
    UCC_MCAST = UCC_BIT(8),
    UCC_FANIN = UCC_BIT(9),
    UCC_FANOUT = UCC_BIT(10),
    UCC_COLL_LAST = UCC_BIT(11),
    UCC_BROADCAST = UCC_BCAST,
    UCC_MULTICAST = UCC_MCAST
} heddle_draft_coll_type_t;

/** Number n of the drafts' list of operations: n itself in the earlier draft, bit n in the later
 * one. */
#define HEDDLE_DRAFT_OP(n) HEDDLE_DRAFT_EITHER(n, UCC_BIT(n))

/** Reduction operations. AND, OR and XOR are BAND, BOR and BXOR. A set of them (reduction_op_types)
 *  has bit n for number n, in both drafts. */
typedef enum heddle_draft_reduction_op
#ifdef __cplusplus
    : uint32_t /* in the earlier draft, sets of operations are more than their numbers' bits hold */
#endif
{ HEDDLE_DRAFT_OP_MAX = HEDDLE_DRAFT_OP(0),
  HEDDLE_DRAFT_OP_MIN = HEDDLE_DRAFT_OP(1),
  HEDDLE_DRAFT_OP_SUM = HEDDLE_DRAFT_OP(2),
  HEDDLE_DRAFT_OP_PROD = HEDDLE_DRAFT_OP(3),
  HEDDLE_DRAFT_OP_AND = HEDDLE_DRAFT_OP(4),
  HEDDLE_DRAFT_OP_OR = HEDDLE_DRAFT_OP(5),
  HEDDLE_DRAFT_OP_XOR = HEDDLE_DRAFT_OP(6),
  HEDDLE_DRAFT_OP_LAND = HEDDLE_DRAFT_OP(7),
  HEDDLE_DRAFT_OP_LOR = HEDDLE_DRAFT_OP(8),
  HEDDLE_DRAFT_OP_LXOR = HEDDLE_DRAFT_OP(9),
  HEDDLE_DRAFT_OP_BAND = HEDDLE_DRAFT_OP(10),
  HEDDLE_DRAFT_OP_BOR = HEDDLE_DRAFT_OP(11),
  HEDDLE_DRAFT_OP_BXOR = HEDDLE_DRAFT_OP(12),
  HEDDLE_DRAFT_OP_MAXLOC = HEDDLE_DRAFT_OP(13), /**< on the pair datatypes of heddle_dt.h */
  HEDDLE_DRAFT_OP_MINLOC = HEDDLE_DRAFT_OP(14),
  UCC_OP_LAST_PREDEFINED = HEDDLE_DRAFT_OP(15), /**< no operation, as the next */
  UCC_OP_UNSUPPORTED = HEDDLE_DRAFT_OP(16) } heddle_draft_reduction_op_t;

/** Datatypes, numbered in a row. A field of this type takes the pair datatypes of heddle_dt.h and
 *  those that only 1.x has, too. */
typedef enum heddle_draft_datatype
#ifdef __cplusplus
    : uint32_t
#endif
{ HEDDLE_DRAFT_DT_INT8 = 0,
  HEDDLE_DRAFT_DT_INT16,
  HEDDLE_DRAFT_DT_INT32,
  HEDDLE_DRAFT_DT_INT64,
  HEDDLE_DRAFT_DT_INT128,
  HEDDLE_DRAFT_DT_UINT8,
  HEDDLE_DRAFT_DT_UINT16,
  HEDDLE_DRAFT_DT_UINT32,
  HEDDLE_DRAFT_DT_UINT64,
  HEDDLE_DRAFT_DT_UINT128,
  HEDDLE_DRAFT_DT_FLOAT16,
  HEDDLE_DRAFT_DT_FLOAT32,
  HEDDLE_DRAFT_DT_FLOAT64,
  UCC_DT_LAST_PREDEFINED, /**< no datatype, as the next */
  UCC_DT_UNSUPPORTED } heddle_draft_datatype_t;

/** Memory constraints, and who learns of a failure: 1.x's and drafts_names.h's, but for the earlier
 *  draft's names. That numbers the constraints; here they are bits, so that none, or several, can
 *  be said as well. */
#if HEDDLE_DRAFT == 1 && !defined(HEDDLE_NO_UNPREFIXED)
typedef enum heddle_draft_mem_constraints {
    SYMMETRIC = UCC_MEM_SYMMETRIC,
    PERSISTENT = UCC_MEM_PERSISTENT,
    ALIGN32 = UCC_MEM_ALIGN32,
    ALIGN64 = UCC_MEM_ALIGN64,
    ALIGN128 = UCC_MEM_ALIGN128
} heddle_draft_mem_constraints_t;
typedef enum heddle_draft_error_type {
    LOCAL = UCC_ERR_TYPE_LOCAL,
    GLOBAL = UCC_ERR_TYPE_GLOBAL
} heddle_draft_error_type_t;
#else
typedef ucc_mem_constraints_t heddle_draft_mem_constraints_t;
typedef ucc_error_type_t heddle_draft_error_type_t;
#endif

/** Mask bits of ucc_lib_params_t and ucc_lib_attribs_t. The first two without a field are the
 *  earlier draft's, and mean nothing. */
typedef enum ucc_lib_params_mask {
    UCC_THREAD_MODE = UCC_BIT(0),
#if HEDDLE_DRAFT == 1
    UCC_CONTEXT_PARAMS = UCC_BIT(1),
    UCC_TEAM_PARAMS = UCC_BIT(2),
#endif
    UCC_COLL_TYPES = HEDDLE_DRAFT_EITHER(UCC_BIT(3), UCC_BIT(1)),
    UCC_REDUCTION_TYPES = HEDDLE_DRAFT_EITHER(UCC_BIT(4), UCC_BIT(3)),
    UCC_SYNC_TYPE = HEDDLE_DRAFT_EITHER(UCC_BIT(5), UCC_BIT(4))
} ucc_lib_params_mask_t;

/** Mask bits of ucc_context_params_t and ucc_context_attribs_t. */
enum heddle_draft_context_params_field {
    UCC_CONTEXT_TYPE = UCC_BIT(0),
    UCC_COLL_SYNC_TYPE = HEDDLE_DRAFT_EITHER(UCC_BIT(2), UCC_BIT(1)),
    UCC_COLL_OOB = HEDDLE_DRAFT_EITHER(UCC_BIT(3), UCC_BIT(2)),
#if HEDDLE_DRAFT == 1
    /** Has no field. The draft gives it UCC_COLL_OOB's bit, by which a field that was never set
     *  would be read. */
    UCC_COLL_USAGE_TYPE = UCC_BIT(1)
#endif
};

/* ------------------------------------------------------------------------------------------------
 * Structures
 * ---------------------------------------------------------------------------------------------- */

/** A library's configuration, of which programs have pointers: what 1.x calls ucc_lib_config_h is a
 *  pointer to this. So the calls for it are 1.x's. Likewise a context's. */
typedef struct ucc_lib_config heddle_draft_lib_config_t;
typedef struct ucc_context_config heddle_draft_context_config_t;

/** What the program asks of the library. */
typedef struct heddle_draft_lib_params {
    uint64_t mask; /**< of ucc_lib_params_mask_t */
    ucc_thread_mode_t thread_mode;
    heddle_draft_coll_type_t HEDDLE_DRAFT_EITHER(requested_coll_types, coll_types); /**< or-ed */
    heddle_draft_reduction_op_t HEDDLE_DRAFT_EITHER(requested_reduction_op_types,
                                                    reduction_op_types); /**< a set */
    ucc_coll_sync_type_t HEDDLE_DRAFT_EITHER(requested_sync_type, sync_type);
} heddle_draft_lib_params_t;

/** What the library offers. */
typedef struct heddle_draft_lib_attribs {
    uint64_t mask; /**< out: of ucc_lib_params_mask_t */
    ucc_thread_mode_t thread_mode;
    heddle_draft_coll_type_t provided_coll_types;
    heddle_draft_reduction_op_t provided_reduction_types;
    ucc_coll_sync_type_t HEDDLE_DRAFT_EITHER(provided_sync_type, sync_type);
} heddle_draft_lib_attribs_t;

/** An allgather that the program lends to the library; as ucc_oob_coll_t, but that it does not say
 *  which of the participants the caller is: the library finds out. allgather returns a negative
 *  number if it fails. The later draft writes reg_test; the earlier one does not show the
 *  structure. */
typedef struct heddle_draft_oob_coll {
    int (*allgather)(void *src_buf, void *recv_buf, size_t size, void *allgather_info,
                     void **request);
    union {
        ucc_status_t (*reg_test)(void *request);
        ucc_status_t (*req_test)(void *request);
    };
    ucc_status_t (*req_free)(void *request);
    uint32_t participants; /**< of a team, 0: there is no allgather */
    void *coll_info;
} heddle_draft_oob_coll_t;

/** What a context is asked for, and what it is. */
typedef struct heddle_draft_context_params {
    uint64_t mask; /**< of UCC_CONTEXT_TYPE, UCC_COLL_SYNC_TYPE, UCC_COLL_OOB */
    ucc_context_type_t ctx_type;
    ucc_coll_sync_type_t sync_type;
    heddle_draft_oob_coll_t oob_func;
} heddle_draft_context_params_t;

typedef struct heddle_draft_context_attribs {
    uint64_t mask; /**< out */
    ucc_context_type_t HEDDLE_DRAFT_EITHER(provided_ctx_type, ctx_type);
    ucc_coll_sync_type_t HEDDLE_DRAFT_EITHER(provided_sync_type, sync_type);
} heddle_draft_context_attribs_t;

/** The caller's part of a team's memory: none if address and len are 0; the library allocates len
 *  bytes if only address is. */
typedef struct heddle_draft_mem_map_params {
    void *address;
    size_t len;                                 /**< bytes */
    ucc_mem_hints_t hints;                      /**< or-ed */
    heddle_draft_mem_constraints_t constraints; /**< or-ed */
} heddle_draft_mem_map_params_t;

/** What a team is asked for. */
typedef struct heddle_draft_team_params {
    uint64_t mask; /**< not read */
#if HEDDLE_DRAFT == 1
    ucc_thread_mode_t
        thread_model; /**< UCC_TEAM_THREAD_SINGLE: one thread at a time on this endpoint */
#endif
    ucc_post_ordering_t ordering;
    uint64_t outstanding_colls;
    uint64_t ep;
    ucc_ep_range_type_t ep_range; /**< not read */
    ucc_coll_sync_type_t sync_type;
    heddle_draft_oob_coll_t HEDDLE_DRAFT_EITHER(oob_collectives, oob_collective);
    heddle_draft_mem_map_params_t mem_params;
} heddle_draft_team_params_t;

/** What a team is. */
typedef struct heddle_draft_team_attribs {
    uint64_t mask; /**< not read, nor written */
#if HEDDLE_DRAFT == 1
    ucc_thread_mode_t prov_thread_model;
#endif
    ucc_post_ordering_t HEDDLE_DRAFT_EITHER(prov_ordering, ordering);
    uint64_t HEDDLE_DRAFT_EITHER(prov_outstanding_colls, outstanding_colls);
    uint64_t HEDDLE_DRAFT_EITHER(prov_ep, ep);
    ucc_ep_range_type_t HEDDLE_DRAFT_EITHER(prov_ep_range, ep_range);
    ucc_coll_sync_type_t HEDDLE_DRAFT_EITHER(prov_sync_type, sync_type);
#if HEDDLE_DRAFT == 1
    heddle_draft_oob_coll_t prov_oob_collectives; /**< as given; participants is 0 if none was */
#endif
    heddle_draft_mem_map_params_t HEDDLE_DRAFT_EITHER(prov_mem_params, mem_params);
} heddle_draft_team_attribs_t;

/** The buffers of a collective. */
typedef struct heddle_draft_coll_buffer_info {
    uint64_t mask; /**< not read */
    void *src_buffer;
    uint32_t *scounts; /**< elements; here and below, an entry for each endpoint */
    uint32_t *src_displacements;
    void *dst_buffer;
    uint32_t *dst_counts;
    uint32_t *dst_displacements;
    size_t size; /**< bytes of a block */
    heddle_draft_datatype_t src_datatype;
    heddle_draft_datatype_t dst_datatype;
    uint64_t flags;
} heddle_draft_coll_buffer_info_t;

/** What reduce and allreduce do with them. */
typedef struct heddle_draft_reduction_info {
    heddle_draft_datatype_t dt;
    heddle_draft_reduction_op_t op;
    size_t count; /**< elements */
} heddle_draft_reduction_info_t;

/** A tag. The drafts name this type in a table, call it an unsigned 64-bit integer in their text,
 *  and give their structure one of 16 bits (ucc_coll_id_t), which fits. */
typedef uint64_t ucc_coll_tag_t;

typedef struct heddle_draft_coll_ext_op_args {
    heddle_draft_coll_buffer_info_t buffer_info;
    heddle_draft_reduction_info_t reduction_info;
    heddle_draft_error_type_t error_type;
    ucc_coll_tag_t tag;
    uint64_t root;
} heddle_draft_coll_ext_op_args_t;

/** A collective. In the earlier draft nothing leads from here to the rest; here, ext_args does in
 * both. */
typedef struct heddle_draft_coll_op_args {
    uint64_t mask; /**< not read */
    heddle_draft_coll_type_t coll_type;
    heddle_draft_coll_ext_op_args_t ext_args;
} heddle_draft_coll_op_args_t;

/* ------------------------------------------------------------------------------------------------
 * What the calls below are made of: in the library, and not for programs
 * ---------------------------------------------------------------------------------------------- */

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

uint64_t heddle_draft_types_to_1x(uint64_t types);
uint64_t heddle_draft_types_from_1x(uint64_t types);
uint64_t heddle_draft_ops_to_1x(uint64_t ops);
uint64_t heddle_draft_ops_from_1x(uint64_t ops);
ucc_status_t heddle_draft_config(const char *env_prefix, const char *filename,
                                 heddle_draft_lib_config_t **config);
/* oob_ep is not read. */
ucc_status_t heddle_draft_context(ucc_lib_h lib, const ucc_context_params_t *params,
                                  const heddle_draft_context_config_t *config,
                                  ucc_context_h *context);
ucc_status_t heddle_draft_team(ucc_context_h *contexts, uint32_t n_contexts,
                               const ucc_team_params_t *params, const heddle_team_params_t *extra,
                               ucc_team_h *team);
ucc_status_t heddle_draft_team_given(ucc_team_h team, heddle_team_params_t *extra,
                                     ucc_oob_coll_t *oob);
ucc_status_t heddle_draft_team_of_parent(uint64_t my_ep, bool included, ucc_team_h parent,
                                         ucc_team_h *team);
ucc_status_t heddle_draft_team_of_eps(ucc_team_h parent, uint64_t **eps, uint64_t num_eps,
                                      ucc_team_h *team);
/* draft: whose values the operation's are. */
ucc_status_t heddle_draft_start(uint32_t draft, const heddle_draft_coll_op_args_t *args, bool post,
                                ucc_coll_req_h *request, ucc_team_h team);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

typedef ucc_status_t (*heddle_draft_allgather_fn)(void *, void *, size_t, void *, void **);

static inline ucc_oob_coll_t heddle_draft_oob_to_1x(const heddle_draft_oob_coll_t *oob) {
    ucc_oob_coll_t o;
    o.allgather = (heddle_draft_allgather_fn)(void (*)(void))oob->allgather;
    o.req_test = oob->req_test;
    o.req_free = oob->req_free;
    o.coll_info = oob->coll_info;
    o.n_oob_eps = oob->participants;
    o.oob_ep = 0;
    return o;
}

/* ------------------------------------------------------------------------------------------------
 * Calls. Those that are not here are 1.x's: ucc_finalize, ucc_lib_config_modify and _release,
 * ucc_context_destroy and _progress, ucc_team_create_test, ucc_collective_post, _test and
 * _finalize, and those of drafts_names.h.
 * ---------------------------------------------------------------------------------------------- */

/** env_prefix: variables UCC_<env_prefix>_X come before UCC_X. */
static inline ucc_status_t heddle_draft_lib_config_read(const char *env_prefix,
                                                        const char *filename,
                                                        heddle_draft_lib_config_t **config) {
    return heddle_draft_config(env_prefix, filename, config);
}

/** config may be NULL: the environment decides. */
static inline ucc_status_t heddle_draft_init(const heddle_draft_lib_params_t *params,
                                             const heddle_draft_lib_config_t *config,
                                             ucc_lib_h *lib) {
    ucc_lib_config_h c = (ucc_lib_config_h)(uintptr_t)config;
    ucc_lib_params_t p;
    if (!params) {
        return ucc_init(NULL, c, lib);
    }
    p.mask = 0;
    if (params->mask & UCC_THREAD_MODE) {
        p.mask |= UCC_LIB_PARAM_FIELD_THREAD_MODE;
        p.thread_mode = params->thread_mode;
    }
    if (params->mask & UCC_COLL_TYPES) {
        p.mask |= UCC_LIB_PARAM_FIELD_COLL_TYPES;
        p.coll_types = heddle_draft_types_to_1x(
            (uint64_t)params->HEDDLE_DRAFT_EITHER(requested_coll_types, coll_types));
    }
    if (params->mask & UCC_REDUCTION_TYPES) {
        p.mask |= UCC_LIB_PARAM_FIELD_REDUCTION_TYPES;
        p.reduction_types = heddle_draft_ops_to_1x((uint64_t)params->HEDDLE_DRAFT_EITHER(
            requested_reduction_op_types, reduction_op_types));
    }
    if (params->mask & UCC_SYNC_TYPE) {
        p.mask |= UCC_LIB_PARAM_FIELD_SYNC_TYPE;
        p.sync_type = params->HEDDLE_DRAFT_EITHER(requested_sync_type, sync_type);
    }
    return ucc_init(&p, c, lib);
}

/** Fills in every field. */
static inline ucc_status_t heddle_draft_lib_get_attribs(ucc_lib_h lib,
                                                        heddle_draft_lib_attribs_t *attribs) {
    ucc_lib_attr_t a;
    ucc_status_t status;
    a.mask = UCC_LIB_ATTR_FIELD_THREAD_MODE | UCC_LIB_ATTR_FIELD_COLL_TYPES |
             UCC_LIB_ATTR_FIELD_REDUCTION_TYPES | UCC_LIB_ATTR_FIELD_SYNC_TYPE;
    status = ucc_lib_get_attr(lib, attribs ? &a : NULL);
    if (status == UCC_OK) {
        attribs->mask = UCC_THREAD_MODE | UCC_COLL_TYPES | UCC_REDUCTION_TYPES | UCC_SYNC_TYPE;
        attribs->thread_mode = a.thread_mode;
        attribs->provided_coll_types =
            (heddle_draft_coll_type_t)heddle_draft_types_from_1x(a.coll_types);
        attribs->provided_reduction_types =
            (heddle_draft_reduction_op_t)heddle_draft_ops_from_1x(a.reduction_types);
        attribs->HEDDLE_DRAFT_EITHER(provided_sync_type, sync_type) = a.sync_type;
    }
    return status;
}

/** With UCC_COLL_OOB, all participants call, and each waits for the others. */
static inline ucc_status_t heddle_draft_context_create(ucc_lib_h lib,
                                                       const heddle_draft_context_params_t *params,
                                                       const heddle_draft_context_config_t *config,
                                                       ucc_context_h *context) {
    ucc_context_params_t p;
    if (!params) {
        return heddle_draft_context(lib, NULL, config, context);
    }
    p.mask = 0;
    if (params->mask & UCC_CONTEXT_TYPE) {
        p.mask |= UCC_CONTEXT_PARAM_FIELD_TYPE;
        p.type = params->ctx_type;
    }
    if (params->mask & UCC_COLL_SYNC_TYPE) {
        p.mask |= UCC_CONTEXT_PARAM_FIELD_SYNC_TYPE;
        p.sync_type = params->sync_type;
    }
    if (params->mask & UCC_COLL_OOB) {
        p.mask |= UCC_CONTEXT_PARAM_FIELD_OOB;
        p.oob = heddle_draft_oob_to_1x(&params->oob_func);
    }
    return heddle_draft_context(lib, &p, config, context);
}

/** Fills in every field. */
static inline ucc_status_t
heddle_draft_context_get_attribs(ucc_context_h context, heddle_draft_context_attribs_t *attribs) {
    ucc_context_attr_t a;
    ucc_status_t status;
    a.mask = UCC_CONTEXT_ATTR_FIELD_TYPE | UCC_CONTEXT_ATTR_FIELD_SYNC_TYPE;
    status = ucc_context_get_attr(context, attribs ? &a : NULL);
    if (status == UCC_OK) {
        attribs->mask = UCC_CONTEXT_TYPE | UCC_COLL_SYNC_TYPE;
        attribs->HEDDLE_DRAFT_EITHER(provided_ctx_type, ctx_type) = a.type;
        attribs->HEDDLE_DRAFT_EITHER(provided_sync_type, sync_type) = a.sync_type;
    }
    return status;
}

/** Begins to form a team; ucc_team_create_test() goes on with it. */
static inline ucc_status_t heddle_draft_team_create_post(ucc_context_h *contexts,
                                                         uint32_t num_contexts,
                                                         heddle_draft_team_params_t team_params,
                                                         ucc_team_h *new_team) {
    ucc_team_params_t p;
    heddle_team_params_t extra;
    p.mask = UCC_TEAM_PARAM_FIELD_ORDERING | UCC_TEAM_PARAM_FIELD_OUTSTANDING_COLLS |
             UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_SYNC_TYPE;
    p.ordering = team_params.ordering;
    p.outstanding_colls = team_params.outstanding_colls;
    p.ep = team_params.ep;
    p.sync_type = team_params.sync_type;
    p.oob =
        heddle_draft_oob_to_1x(&team_params.HEDDLE_DRAFT_EITHER(oob_collectives, oob_collective));
    if (p.oob.n_oob_eps > 0) {
        p.mask |= UCC_TEAM_PARAM_FIELD_OOB;
    }
    extra.mask = 0;
#if HEDDLE_DRAFT == 1
    extra.mask |= HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE;
    extra.thread_mode = team_params.thread_model;
#endif
    if (team_params.mem_params.address || team_params.mem_params.len) {
        extra.mask |= HEDDLE_TEAM_PARAM_FIELD_MEMORY;
        extra.memory.address = team_params.mem_params.address;
        extra.memory.bytes = team_params.mem_params.len;
        extra.memory.hints = (uint64_t)team_params.mem_params.hints;
        extra.memory.constraints = (uint64_t)team_params.mem_params.constraints;
    }
    return heddle_draft_team(contexts, num_contexts, &p, &extra, new_team);
}

/** Returns when the team's memory may be freed: no peer is still reading there. Local otherwise. */
static inline ucc_status_t heddle_draft_team_destroy(ucc_team_h team) {
    ucc_status_t status;
    do {
        status = ucc_team_destroy(team);
    } while (status == UCC_INPROGRESS);
    return status;
}

/** All endpoints of the parent call. Those that are not included get a handle that may be tested
 *  and destroyed, and need not be. */
static inline ucc_status_t heddle_draft_team_create_from_parent(uint64_t my_ep, bool included,
                                                                ucc_team_h parent_team,
                                                                ucc_team_h *new_ucc_team) {
    return heddle_draft_team_of_parent(my_ep, included, parent_team, new_ucc_team);
}

/** Fills in every field. */
static inline ucc_status_t heddle_draft_team_get_attribs(ucc_team_h team,
                                                         heddle_draft_team_attribs_t *attribs) {
    ucc_team_attr_t a;
    ucc_oob_coll_t oob;
    heddle_team_params_t extra;
    ucc_status_t status;
    memset(&a, 0, sizeof(a)); /* a compiler doesn't see that what is asked for is written */
    a.mask = UCC_TEAM_ATTR_FIELD_POST_ORDERING | UCC_TEAM_ATTR_FIELD_OUTSTANDING_CALLS |
             UCC_TEAM_ATTR_FIELD_EP | UCC_TEAM_ATTR_FIELD_EP_RANGE | UCC_TEAM_ATTR_FIELD_SYNC_TYPE;
    status = ucc_team_get_attr(team, attribs ? &a : NULL);
    if (status == UCC_OK) {
        status = heddle_draft_team_given(team, &extra, &oob);
    }
    if (status == UCC_OK) {
        heddle_draft_mem_map_params_t *memory =
            &attribs->HEDDLE_DRAFT_EITHER(prov_mem_params, mem_params);
        attribs->HEDDLE_DRAFT_EITHER(prov_ordering, ordering) = a.ordering;
        attribs->HEDDLE_DRAFT_EITHER(prov_outstanding_colls, outstanding_colls) =
            a.outstanding_colls;
        attribs->HEDDLE_DRAFT_EITHER(prov_ep, ep) = a.ep;
        attribs->HEDDLE_DRAFT_EITHER(prov_ep_range, ep_range) = a.ep_range;
        attribs->HEDDLE_DRAFT_EITHER(prov_sync_type, sync_type) = a.sync_type;
        memory->address = extra.memory.address;
        memory->len = extra.memory.bytes;
        memory->hints = (ucc_mem_hints_t)extra.memory.hints;
        memory->constraints = (heddle_draft_mem_constraints_t)extra.memory.constraints;
#if HEDDLE_DRAFT == 1
        attribs->prov_thread_model = extra.thread_mode;
        attribs->prov_oob_collectives.allgather =
            (int (*)(void *, void *, size_t, void *, void **))(void (*)(void))oob.allgather;
        attribs->prov_oob_collectives.req_test = oob.req_test;
        attribs->prov_oob_collectives.req_free = oob.req_free;
        attribs->prov_oob_collectives.participants = oob.n_oob_eps;
        attribs->prov_oob_collectives.coll_info = oob.coll_info;
#endif
    }
    return status;
}

/** A new team of the parent's endpoints that are listed, as ucc_team_get_all_eps() names them. Only
 *  these call, each with the same list; member i of it becomes endpoint i. */
static inline ucc_status_t heddle_draft_create_team_from_eps(ucc_team_h parent_ucc_team,
                                                             uint64_t **ep, uint64_t num_eps,
                                                             ucc_team_h *new_team) {
    return heddle_draft_team_of_eps(parent_ucc_team, ep, num_eps, new_team);
}

static inline ucc_status_t heddle_draft_collective_init(heddle_draft_coll_op_args_t *coll_args,
                                                        ucc_coll_req_h *request, ucc_team_h team) {
    return heddle_draft_start(HEDDLE_DRAFT, coll_args, false, request, team);
}

/** After an error there is no request. */
static inline ucc_status_t
heddle_draft_collective_init_and_post(heddle_draft_coll_op_args_t *coll_args,
                                      ucc_coll_req_h *request, ucc_team_h team) {
    return heddle_draft_start(HEDDLE_DRAFT, coll_args, true, request, team);
}

#ifdef __cplusplus
}

/* Sets of C's enumerators are integers, which C++ does not take for an enumeration. */
constexpr heddle_draft_coll_type_t operator|(heddle_draft_coll_type_t a,
                                             heddle_draft_coll_type_t b) {
    return static_cast<heddle_draft_coll_type_t>(static_cast<unsigned>(a) |
                                                 static_cast<unsigned>(b));
}
constexpr heddle_draft_mem_constraints_t operator|(heddle_draft_mem_constraints_t a,
                                                   heddle_draft_mem_constraints_t b) {
    return static_cast<heddle_draft_mem_constraints_t>(static_cast<unsigned>(a) |
                                                       static_cast<unsigned>(b));
}
constexpr ucc_mem_hints_t operator|(ucc_mem_hints_t a, ucc_mem_hints_t b) {
    return static_cast<ucc_mem_hints_t>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
#if HEDDLE_DRAFT == 2
constexpr heddle_draft_reduction_op_t operator|(heddle_draft_reduction_op_t a,
                                                heddle_draft_reduction_op_t b) {
    return static_cast<heddle_draft_reduction_op_t>(static_cast<unsigned>(a) |
                                                    static_cast<unsigned>(b));
}
#endif
#endif

/* ------------------------------------------------------------------------------------------------
 * Names that 1.x has no other use for
 * ---------------------------------------------------------------------------------------------- */

typedef ucc_team_h ucc_team_handle_h;
typedef ucc_thread_mode_t ucc_team_thread_type_t;
typedef ucc_coll_sync_type_t ucc_coll_sync_t;
typedef ucc_ep_range_type_t ucc_ep_type_t;
typedef heddle_draft_reduction_op_t ucc_op_t;
typedef heddle_draft_datatype_t ucc_dt_t;
typedef heddle_draft_lib_config_t ucc_lib_config_t;
typedef heddle_draft_context_config_t ucc_context_config_t;
typedef heddle_draft_lib_attribs_t ucc_lib_attribs_t;
typedef heddle_draft_context_attribs_t ucc_context_attribs_t;
typedef heddle_draft_team_attribs_t ucc_team_attribs_t;
typedef heddle_draft_oob_coll_t ucc_oob_context_t, ucc_oob_team_t, ucc_oob_team_coll_t;
typedef heddle_draft_oob_coll_t ucc_context_oob_t, ucc_team_oob_t;
typedef heddle_draft_reduction_info_t ucc_reduction_info_t;
typedef heddle_draft_coll_ext_op_args_t ucc_coll_ext_op_args_t;
typedef heddle_draft_coll_op_args_t ucc_coll_op_args_t;

#define UCC_LIB_THREAD_SINGLE    UCC_THREAD_SINGLE
#define UCC_LIB_THREAD_FUNNELED  UCC_THREAD_FUNNELED
#define UCC_LIB_THREAD_MULTIPLE  UCC_THREAD_MULTIPLE
#define UCC_TEAM_THREAD_SINGLE   UCC_THREAD_SINGLE
#define UCC_TEAM_THREAD_SHARED   UCC_THREAD_MULTIPLE
#define UCC_TEAM_THREAD_MULTIPLE UCC_THREAD_MULTIPLE

#if HEDDLE_DRAFT == 1
#define UCC_SUCCESS UCC_OK
/* A second list of operations, of the same type as the first. */
#define UCC_COLL_OP_MAX    HEDDLE_DRAFT_OP_MAX
#define UCC_COLL_OP_MIN    HEDDLE_DRAFT_OP_MIN
#define UCC_COLL_OP_SUM    HEDDLE_DRAFT_OP_SUM
#define UCC_COLL_OP_PROD   HEDDLE_DRAFT_OP_PROD
#define UCC_COLL_OP_AND    HEDDLE_DRAFT_OP_AND
#define UCC_COLL_OP_OR     HEDDLE_DRAFT_OP_OR
#define UCC_COLL_OP_XOR    HEDDLE_DRAFT_OP_XOR
#define UCC_COLL_OP_LAND   HEDDLE_DRAFT_OP_LAND
#define UCC_COLL_OP_LOR    HEDDLE_DRAFT_OP_LOR
#define UCC_COLL_OP_LXOR   HEDDLE_DRAFT_OP_LXOR
#define UCC_COLL_OP_MAXLOC HEDDLE_DRAFT_OP_MAXLOC
#define UCC_COLL_OP_MINLOC HEDDLE_DRAFT_OP_MINLOC
#ifndef HEDDLE_NO_UNPREFIXED
typedef ucc_thread_mode_t ucs_thread_mode_t;
#ifndef UCS_BIT
#define UCS_BIT(i) UCC_BIT(i)
#endif
#endif
#endif

/* ------------------------------------------------------------------------------------------------
 * Names that mean something else in 1.x, structures' tags among them. Nothing may stand behind
 * these lines that is in 1.x's words.
 * ---------------------------------------------------------------------------------------------- */

#ifndef HEDDLE_DRAFT_KEEP_1X

#define ucc_coll_type_t           heddle_draft_coll_type_t
#define ucc_reduction_op_t        heddle_draft_reduction_op_t
#define ucc_datatype_t            heddle_draft_datatype_t
#define ucc_dt_type_t             heddle_draft_datatype_t
#define ucc_lib_config_h          heddle_draft_lib_config_t
#define ucc_lib_params_t          heddle_draft_lib_params_t
#define ucc_lib_params            heddle_draft_lib_params
#define ucc_lib_attrib_t          heddle_draft_lib_attribs_t
#define ucc_lib_attribs           heddle_draft_lib_attribs
#define ucc_context_params_t      heddle_draft_context_params_t
#define ucc_context_params        heddle_draft_context_params
#define ucc_context_params_field  heddle_draft_context_params_field
#define ucc_context_attribs_field heddle_draft_context_params_field
#define ucc_context_attrib_t      heddle_draft_context_attribs_t
#define ucc_context_attribs       heddle_draft_context_attribs
#define ucc_team_oob_coll_t       heddle_draft_oob_coll_t
#define ucc_team_oob_coll         heddle_draft_oob_coll
#define ucc_team_params_t         heddle_draft_team_params_t
#define ucc_team_params           heddle_draft_team_params
#define ucc_team_attrib_t         heddle_draft_team_attribs_t
#define ucc_team_attrib           heddle_draft_team_attribs
#define ucc_mem_constraints_t     heddle_draft_mem_constraints_t
#define ucc_error_type_t          heddle_draft_error_type_t
#define ucc_mem_map_params_t      heddle_draft_mem_map_params_t
#define ucc_mem_map_params        heddle_draft_mem_map_params
#define ucc_coll_buffer_info_t    heddle_draft_coll_buffer_info_t
#define ucc_coll_buffer_info      heddle_draft_coll_buffer_info
#define ucc_reduction_info        heddle_draft_reduction_info
#define ucc_reduce_info           heddle_draft_reduction_info
#define ucc_coll_ext_op_args      heddle_draft_coll_ext_op_args
#define ucc_coll_op_args          heddle_draft_coll_op_args

#define ucc_lib_config_read          heddle_draft_lib_config_read
#define ucc_config_read              heddle_draft_lib_config_read
#define ucc_init                     heddle_draft_init
#define ucc_lib_get_attribs          heddle_draft_lib_get_attribs
#define ucc_context_create           heddle_draft_context_create
#define ucc_context_get_attribs      heddle_draft_context_get_attribs
#define ucc_team_create_post         heddle_draft_team_create_post
#define ucc_create_post              heddle_draft_team_create_post
#define ucc_team_destroy             heddle_draft_team_destroy
#define ucc_team_create_from_parent  heddle_draft_team_create_from_parent
#define ucc_team_get_attribs         heddle_draft_team_get_attribs
#define ucc_get_team_attribs         heddle_draft_team_get_attribs
#define ucc_create_team_from_eps     heddle_draft_create_team_from_eps
#define ucc_collective_init          heddle_draft_collective_init
#define ucc_collective_init_and_post heddle_draft_collective_init_and_post

#define UCC_OP_MAX  HEDDLE_DRAFT_OP_MAX
#define UCC_OP_MIN  HEDDLE_DRAFT_OP_MIN
#define UCC_OP_SUM  HEDDLE_DRAFT_OP_SUM
#define UCC_OP_PROD HEDDLE_DRAFT_OP_PROD
#undef UCC_OP_AND
#define UCC_OP_AND HEDDLE_DRAFT_OP_AND
#undef UCC_OP_OR
#define UCC_OP_OR HEDDLE_DRAFT_OP_OR
#undef UCC_OP_XOR
#define UCC_OP_XOR    HEDDLE_DRAFT_OP_XOR
#define UCC_OP_LAND   HEDDLE_DRAFT_OP_LAND
#define UCC_OP_LOR    HEDDLE_DRAFT_OP_LOR
#define UCC_OP_LXOR   HEDDLE_DRAFT_OP_LXOR
#define UCC_OP_BAND   HEDDLE_DRAFT_OP_BAND
#define UCC_OP_BOR    HEDDLE_DRAFT_OP_BOR
#define UCC_OP_BXOR   HEDDLE_DRAFT_OP_BXOR
#define UCC_OP_MAXLOC HEDDLE_DRAFT_OP_MAXLOC
#define UCC_OP_MINLOC HEDDLE_DRAFT_OP_MINLOC

#undef UCC_DT_INT8
#undef UCC_DT_INT16
#undef UCC_DT_INT32
#undef UCC_DT_INT64
#undef UCC_DT_INT128
#undef UCC_DT_UINT8
#undef UCC_DT_UINT16
#undef UCC_DT_UINT32
#undef UCC_DT_UINT64
#undef UCC_DT_UINT128
#undef UCC_DT_FLOAT16
#undef UCC_DT_FLOAT32
#undef UCC_DT_FLOAT64
#define UCC_DT_INT8    HEDDLE_DRAFT_DT_INT8
#define UCC_DT_INT16   HEDDLE_DRAFT_DT_INT16
#define UCC_DT_INT32   HEDDLE_DRAFT_DT_INT32
#define UCC_DT_INT64   HEDDLE_DRAFT_DT_INT64
#define UCC_DT_INT128  HEDDLE_DRAFT_DT_INT128
#define UCC_DT_UINT8   HEDDLE_DRAFT_DT_UINT8
#define UCC_DT_UINT16  HEDDLE_DRAFT_DT_UINT16
#define UCC_DT_UINT32  HEDDLE_DRAFT_DT_UINT32
#define UCC_DT_UINT64  HEDDLE_DRAFT_DT_UINT64
#define UCC_DT_UINT128 HEDDLE_DRAFT_DT_UINT128
#define UCC_DT_FLOAT16 HEDDLE_DRAFT_DT_FLOAT16
#define UCC_DT_FLOAT32 HEDDLE_DRAFT_DT_FLOAT32
#define UCC_DT_FLOAT64 HEDDLE_DRAFT_DT_FLOAT64

/* These would take the draft's datatypes and operations for others of 1.x, and say nothing. */
#if defined(__GNUC__)
#pragma GCC poison heddle_bcast heddle_mcast heddle_reduce heddle_allreduce heddle_scan
#pragma GCC poison heddle_exscan heddle_reduce_scatter heddle_reduce_scatterv heddle_allgather
#pragma GCC poison heddle_allgatherv heddle_gather heddle_gatherv heddle_scatter heddle_scatterv
#pragma GCC poison heddle_alltoall heddle_alltoallv heddle_ibcast heddle_imcast heddle_ireduce
#pragma GCC poison heddle_iallreduce heddle_iscan heddle_iexscan heddle_ireduce_scatter
#pragma GCC poison heddle_ireduce_scatterv heddle_iallgather heddle_iallgatherv heddle_igather
#pragma GCC poison heddle_igatherv heddle_iscatter heddle_iscatterv heddle_ialltoall
#pragma GCC poison heddle_ialltoallv heddle_collective heddle_collective_init_tagged
#endif

#endif /* HEDDLE_DRAFT_KEEP_1X */
#endif /* HEDDLE_DRAFTS_H_ */
