/* ucc.h: the UCC interface, release 1.8: libraries, contexts, teams, collectives, events.
 *
 * Order of use: ucc_lib_config_read, ucc_init, ucc_context_config_read, ucc_context_create,
 * ucc_team_create_post, ucc_team_create_test until it is no longer UCC_INPROGRESS; then for each
 * operation ucc_collective_init, _post, _test with ucc_context_progress in between, _finalize; and
 * destroy in the opposite order.
 *
 * Conventions:
 * - A structure with a mask member has a field valid only if the field's bit is set in it; fields
 *   without a bit must always be filled in. In get_attr calls the mask says what is asked for.
 * - Counts and displacements are in elements of the datatype beside them; lengths and sizes are in
 *   bytes; times in seconds.
 * - Parameter structures are read during the call and may be changed or freed once it has returned;
 *   the exceptions (buffers, counts and displacements arrays of a collective) are named.
 * - Calls return UCC_OK or a negative status unless their text says otherwise. After an error
 *   nothing was created, and output arguments must not be used, unless their text says otherwise.
 * - An endpoint is one participant of a team: a process, thread or task; n is the team's size.
 */
#ifndef UCC_H_
#define UCC_H_

#include <ucc/api/ucc_def.h>
#include <ucc/api/ucc_status.h>
#include <ucc/api/ucc_version.h>
#include <stdio.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

BEGIN_C_DECLS

/* ------------------------------------------------------------------------------------------------
 * Operations, memory and datatypes
 * ---------------------------------------------------------------------------------------------- */

/** The collective operations, as bits so that sets of them fit in a mask. The amounts of data in
 *  src and dst are given here as (src; dst), where c is what one endpoint contributes to or
 *  receives from one other. */
typedef enum {
    UCC_COLL_TYPE_ALLGATHER = UCC_BIT(0),        /**< all get all blocks, in order (c; n*c) */
    UCC_COLL_TYPE_ALLGATHERV = UCC_BIT(1),       /**< the same, blocks of any size (info; info_v) */
    UCC_COLL_TYPE_ALLREDUCE = UCC_BIT(2),        /**< all get the reduction (c; c) */
    UCC_COLL_TYPE_ALLTOALL = UCC_BIT(3),         /**< a block for each other endpoint (n*c; n*c) */
    UCC_COLL_TYPE_ALLTOALLV = UCC_BIT(4),        /**< the same, any size (info_v; info_v) */
    UCC_COLL_TYPE_BARRIER = UCC_BIT(5),          /**< none leaves before all have come; no data */
    UCC_COLL_TYPE_BCAST = UCC_BIT(6),            /**< the root's data to all (c; none): src only */
    UCC_COLL_TYPE_FANIN = UCC_BIT(7),            /**< the root waits for all; no data */
    UCC_COLL_TYPE_FANOUT = UCC_BIT(8),           /**< all wait for the root; no data */
    UCC_COLL_TYPE_GATHER = UCC_BIT(9),           /**< the root gets all blocks (c; root: n*c) */
    UCC_COLL_TYPE_GATHERV = UCC_BIT(10),         /**< the same, any size (info; root: info_v) */
    UCC_COLL_TYPE_REDUCE = UCC_BIT(11),          /**< the root gets the reduction (c; root: c) */
    UCC_COLL_TYPE_REDUCE_SCATTER = UCC_BIT(12),  /**< each a block of the reduction (n*c; c) */
    UCC_COLL_TYPE_REDUCE_SCATTERV = UCC_BIT(13), /**< the same, sizes in dst.info_v.counts */
    UCC_COLL_TYPE_SCATTER = UCC_BIT(14),         /**< the root's blocks, one each (root: n*c; c) */
    UCC_COLL_TYPE_SCATTERV = UCC_BIT(15),        /**< the same, any size (root: info_v; info) */
    UCC_COLL_TYPE_LAST
} ucc_coll_type_t;

/** Where a buffer lies. */
typedef enum ucc_memory_type {
    UCC_MEMORY_TYPE_HOST,         /**< ordinary memory of the process */
    UCC_MEMORY_TYPE_CUDA,         /**< memory of a CUDA device */
    UCC_MEMORY_TYPE_CUDA_MANAGED, /**< CUDA memory that migrates between host and device */
    UCC_MEMORY_TYPE_ROCM,         /**< memory of a ROCm device */
    UCC_MEMORY_TYPE_ROCM_MANAGED, /**< ROCm memory that migrates between host and device */
    UCC_MEMORY_TYPE_LAST,
    UCC_MEMORY_TYPE_UNKNOWN = UCC_MEMORY_TYPE_LAST /**< the library finds out */
} ucc_memory_type_t;

/** A datatype: one of the values below, or what ucc_dt_create_generic() made. Reductions on
 *  predefined types use ucc_reduction_op_t; on generic types, the type's own callback. */
typedef uint64_t ucc_datatype_t;

#define UCC_DT_INT8             UCC_PREDEFINED_DT(0)
#define UCC_DT_INT16            UCC_PREDEFINED_DT(1)
#define UCC_DT_INT32            UCC_PREDEFINED_DT(2)
#define UCC_DT_INT64            UCC_PREDEFINED_DT(3)
#define UCC_DT_INT128           UCC_PREDEFINED_DT(4)
#define UCC_DT_UINT8            UCC_PREDEFINED_DT(5)
#define UCC_DT_UINT16           UCC_PREDEFINED_DT(6)
#define UCC_DT_UINT32           UCC_PREDEFINED_DT(7)
#define UCC_DT_UINT64           UCC_PREDEFINED_DT(8)
#define UCC_DT_UINT128          UCC_PREDEFINED_DT(9)
#define UCC_DT_FLOAT16          UCC_PREDEFINED_DT(10)
#define UCC_DT_FLOAT32          UCC_PREDEFINED_DT(11)
#define UCC_DT_FLOAT64          UCC_PREDEFINED_DT(12)
#define UCC_DT_BFLOAT16         UCC_PREDEFINED_DT(13)
#define UCC_DT_FLOAT128         UCC_PREDEFINED_DT(14)
#define UCC_DT_FLOAT32_COMPLEX  UCC_PREDEFINED_DT(15)
#define UCC_DT_FLOAT64_COMPLEX  UCC_PREDEFINED_DT(16)
#define UCC_DT_FLOAT128_COMPLEX UCC_PREDEFINED_DT(17)
#define UCC_DT_PREDEFINED_LAST  18

/** How elements are combined; the same on all endpoints of an operation. */
typedef enum {
    UCC_OP_SUM,
    UCC_OP_PROD,
    UCC_OP_MAX,
    UCC_OP_MIN,
    UCC_OP_LAND, /**< logical: nonzero is true, the result is 0 or 1 */
    UCC_OP_LOR,
    UCC_OP_LXOR,
    UCC_OP_BAND, /**< bit by bit */
    UCC_OP_BOR,
    UCC_OP_BXOR,
    UCC_OP_MAXLOC, /**< on pairs of a value and an index */
    UCC_OP_MINLOC,
    UCC_OP_AVG, /**< the sum divided by n; of integers up to 64 bits, truncated toward zero */
    UCC_OP_LAST
} ucc_reduction_op_t;

/** Mask bits of ucc_generic_dt_ops_t. */
enum ucc_generic_dt_ops_field { UCC_GENERIC_DT_OPS_FIELD_FLAGS = UCC_BIT(0) };

/** Values of ucc_generic_dt_ops::flags. */
typedef enum {
    /** An element is contig_size bytes in a row; the pack and unpack callbacks are not needed. */
    UCC_GENERIC_DT_OPS_FLAG_CONTIG = UCC_BIT(0),
    /** reduce.cb is set: the type may be used in reductions, which call it and ignore op. */
    UCC_GENERIC_DT_OPS_FLAG_REDUCE = UCC_BIT(1)
} ucc_generic_dt_ops_flags_t;

/** What a generic type's reduction callback gets: for every i below count,
 *  dst[i] = src1[i] + v(0)[i] + ... + v(n_vectors - 1)[i], where + is the user's operation and v(j)
 *  starts at src2 + j * stride bytes. dst may be src1. */
typedef struct ucc_reduce_cb_params {
    uint64_t mask; /**< reserved */
    void *src1;
    void *src2;
    void *dst;
    size_t n_vectors; /**< vectors at src2 */
    size_t count;     /**< elements in each vector */
    size_t stride;    /**< bytes from one vector at src2 to the next */
    ucc_dt_generic_t *dt;
    void *cb_ctx; /**< ucc_generic_dt_ops::reduce.cb_ctx */
} ucc_reduce_cb_params_t;

/** Describes a user-defined datatype to ucc_dt_create_generic(). Packing turns count elements into
 *  a stream of bytes, in pieces; unpacking turns such a stream back. Callbacks may run on any
 *  thread that posts, progresses or waits.
 *
 *  They must return, on the thread and stack that called them, and may not call the library but
 *  for ucc_collective_test(), ucc_status_string() and heddle_ep_index() and its like: post,
 *  progress, and all that waits log a line and return UCC_ERR_INVALID_PARAM there. A callback that
 *  ends its thread or throws (through frames of C) fails its team: all operations on it end with
 *  UCC_ERR_NO_MESSAGE; so does one that is left by longjmp(), but only once its thread calls the
 *  library again: until then, nobody's user-defined reductions go on. Completion callbacks
 *  (ucc_coll_callback_t) are free to call what they like. */
typedef struct ucc_generic_dt_ops {
    uint64_t mask;      /**< of ucc_generic_dt_ops_field */
    uint64_t flags;     /**< of ucc_generic_dt_ops_flags_t */
    size_t contig_size; /**< bytes of one element; with UCC_GENERIC_DT_OPS_FLAG_CONTIG */

    /** Begin to pack count elements at buffer. context is what the type was created with. Returns a
     *  state for the calls below, which finish() ends. */
    void *(*start_pack)(void *context, const void *buffer, size_t count);

    /** Begin to unpack count elements into buffer; otherwise like start_pack. */
    void *(*start_unpack)(void *context, void *buffer, size_t count);

    /** The length of the whole stream, in bytes. */
    size_t (*packed_size)(void *state);

    /** Write up to max_length bytes of the stream, from byte offset on, to dest; returns how many
     *  bytes were written. */
    size_t (*pack)(void *state, size_t offset, void *dest, size_t max_length);

    /** Take length bytes at src as the stream's bytes from offset on. An error fails the
     * collective.
     */
    ucc_status_t (*unpack)(void *state, size_t offset, const void *src, size_t length);

    /** Ends packing or unpacking and frees state. */
    void (*finish)(void *state);

    /** The type's own reduction; with UCC_GENERIC_DT_OPS_FLAG_REDUCE. It must be associative; an
     *  error fails the collective. */
    struct {
        ucc_status_t (*cb)(const ucc_reduce_cb_params_t *params);
        void *cb_ctx;
    } reduce;
} ucc_generic_dt_ops_t;

/** Create a datatype. ops is copied; context is handed to its callbacks and stays the caller's.
 *  End the type with ucc_dt_destroy(). */
ucc_status_t ucc_dt_create_generic(const ucc_generic_dt_ops_t *ops, void *context,
                                   ucc_datatype_t *datatype_p);

/** Destroy a generic datatype. No operation that uses it may be outstanding; predefined types are
 *  left alone. */
void ucc_dt_destroy(ucc_datatype_t datatype);

/* ------------------------------------------------------------------------------------------------
 * The library
 * ---------------------------------------------------------------------------------------------- */

/** Which threads call the library. */
typedef enum {
    UCC_THREAD_SINGLE = 0,   /**< the program has one thread */
    UCC_THREAD_FUNNELED = 1, /**< always the same one of the program's threads */
    UCC_THREAD_MULTIPLE = 2  /**< any thread, at any time */
} ucc_thread_mode_t;

/** Whether collectives synchronize. */
typedef enum {
    UCC_NO_SYNC_COLLECTIVES =
        0,                   /**< an endpoint may start and complete as soon as its data allows */
    UCC_SYNC_COLLECTIVES = 1 /**< none starts before all have entered, none completes before all
                                      are done */
} ucc_coll_sync_type_t;

/** Mask bits of ucc_lib_params_t. */
enum ucc_lib_params_field {
    UCC_LIB_PARAM_FIELD_THREAD_MODE = UCC_BIT(0),
    UCC_LIB_PARAM_FIELD_COLL_TYPES = UCC_BIT(1),
    UCC_LIB_PARAM_FIELD_REDUCTION_TYPES = UCC_BIT(2),
    UCC_LIB_PARAM_FIELD_SYNC_TYPE = UCC_BIT(3)
};

/** Mask bits of ucc_lib_attr_t. */
enum ucc_lib_attr_field {
    UCC_LIB_ATTR_FIELD_THREAD_MODE = UCC_BIT(0),
    UCC_LIB_ATTR_FIELD_COLL_TYPES = UCC_BIT(1),
    UCC_LIB_ATTR_FIELD_REDUCTION_TYPES = UCC_BIT(2),
    UCC_LIB_ATTR_FIELD_SYNC_TYPE = UCC_BIT(3)
};

/** What the program asks of the library. */
typedef struct ucc_lib_params {
    uint64_t mask;
    ucc_thread_mode_t thread_mode;
    uint64_t coll_types;      /**< the ucc_coll_type_t values it will use, or-ed: a hint */
    uint64_t reduction_types; /**< UCC_BIT(op) of the operations it will use, or-ed: a hint */
    ucc_coll_sync_type_t sync_type;
} ucc_lib_params_t;

/** What the library offers. Fields as in ucc_lib_params_t. */
typedef struct ucc_lib_attr {
    uint64_t mask;
    ucc_thread_mode_t thread_mode;
    uint64_t coll_types;
    uint64_t reduction_types;
    ucc_coll_sync_type_t sync_type;
} ucc_lib_attr_t;

/** Read the library's configuration: defaults, over them the file filename (ignored if NULL or
 *  missing), over it the environment's UCC_* variables, over them, if env_prefix P is not NULL,
 *  those named P_UCC_*. End it with ucc_lib_config_release(). */
ucc_status_t ucc_lib_config_read(const char *env_prefix, const char *filename,
                                 ucc_lib_config_h *config);

/** Free a configuration. Libraries made with it do not depend on it. */
void ucc_lib_config_release(ucc_lib_config_h config);

/** Write a configuration to stream. title may be NULL. */
void ucc_lib_config_print(const ucc_lib_config_h config, FILE *stream, const char *title,
                          ucc_config_print_flags_t print_flags);

/** Set variable name (without prefix) to value. Both are copied. UCC_ERR_NOT_FOUND: no such
 *  variable; UCC_ERR_INVALID_PARAM: not a value of that variable. */
ucc_status_t ucc_lib_config_modify(ucc_lib_config_h config, const char *name, const char *value);

/** The release of the interface that the running library follows. */
void ucc_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number);

/** The same as text, "major.minor.release"; static storage. */
const char *ucc_get_version_string(void);

/** What ucc_init() expands to: the first two arguments tell the library which headers the program
 *  was compiled with. Call ucc_init() instead. */
ucc_status_t ucc_init_version(unsigned api_major_version, unsigned api_minor_version,
                              const ucc_lib_params_t *params, const ucc_lib_config_h config,
                              ucc_lib_h *lib_p);

/** Create a library. Local: no other participant needs to call it at the same time. params and
 *  config are copied. UCC_ERR_NOT_SUPPORTED: the thread mode or release cannot be served. */
static inline ucc_status_t ucc_init(const ucc_lib_params_t *params, const ucc_lib_config_h config,
                                    ucc_lib_h *lib_p) {
    return ucc_init_version(UCC_API_MAJOR, UCC_API_MINOR, params, config, lib_p);
}

/** Destroy a library. Its contexts must have been destroyed. */
ucc_status_t ucc_finalize(ucc_lib_h lib_p);

/** Fill the fields of lib_attr that its mask asks for. */
ucc_status_t ucc_lib_get_attr(ucc_lib_h lib_p, ucc_lib_attr_t *lib_attr);

/* ------------------------------------------------------------------------------------------------
 * Contexts
 * ---------------------------------------------------------------------------------------------- */

/** Whether several threads may use the context's teams at once. */
typedef enum {
    UCC_CONTEXT_EXCLUSIVE = 0, /**< one thread at a time */
    UCC_CONTEXT_SHARED
} ucc_context_type_t;

/** Mask bits of ucc_context_params_t. */
enum ucc_context_params_field {
    UCC_CONTEXT_PARAM_FIELD_TYPE = UCC_BIT(0),
    UCC_CONTEXT_PARAM_FIELD_SYNC_TYPE = UCC_BIT(1),
    UCC_CONTEXT_PARAM_FIELD_OOB = UCC_BIT(2),
    UCC_CONTEXT_PARAM_FIELD_ID = UCC_BIT(3),
    UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS = UCC_BIT(4)
};

/** Mask bits of ucc_context_attr_t. */
enum ucc_context_attr_field {
    UCC_CONTEXT_ATTR_FIELD_TYPE = UCC_BIT(0),
    UCC_CONTEXT_ATTR_FIELD_SYNC_TYPE = UCC_BIT(1),
    UCC_CONTEXT_ATTR_FIELD_CTX_ADDR = UCC_BIT(2),
    UCC_CONTEXT_ATTR_FIELD_CTX_ADDR_LEN = UCC_BIT(3),
    UCC_CONTEXT_ATTR_FIELD_WORK_BUFFER_SIZE = UCC_BIT(4)
};

/** An allgather that the program lends to the library ("out of band"), to get to know the other
 *  participants. The library has at most one request outstanding per endpoint, tests it until it is
 *  no longer UCC_INPROGRESS, and then frees it with req_free. */
typedef struct ucc_oob_coll {
    /** Start to gather size bytes from each participant: src_buf of participant i arrives at byte i
     *  * size of everyone's recv_buf. Must not block. allgather_info is coll_info. Both buffers are
     *  the library's and stay untouched until the request is done. */
    ucc_status_t (*allgather)(void *src_buf, void *recv_buf, size_t size, void *allgather_info,
                              void **request);
    ucc_status_t (*req_test)(void *request); /**< UCC_OK when done; may also make progress */
    ucc_status_t (*req_free)(void *request);
    void *coll_info;
    uint32_t n_oob_eps; /**< how many participants */
    uint32_t oob_ep;    /**< which of them the caller is: 0 to n_oob_eps - 1 */
} ucc_oob_coll_t;

typedef ucc_oob_coll_t ucc_context_oob_coll_t;
typedef ucc_oob_coll_t ucc_team_oob_coll_t;

/** A piece of the caller's memory. */
typedef struct ucc_mem_map {
    void *address;
    size_t len; /**< bytes */
} ucc_mem_map_t;

/** Several pieces; the array is the caller's. */
typedef struct ucc_mem_map_params {
    ucc_mem_map_t *segments;
    uint64_t n_segments;
} ucc_mem_map_params_t;

/** What ucc_context_create() is asked for. */
typedef struct ucc_context_params {
    uint64_t mask;
    ucc_context_type_t type;
    ucc_coll_sync_type_t sync_type;
    ucc_context_oob_coll_t oob; /**< makes creation collective, and teams by ep_map possible */
    uint64_t ctx_id;
    ucc_mem_map_params_t mem_params; /**< memory that one-sided collectives may use */
} ucc_context_params_t;

/** What a context is. */
typedef struct ucc_context_attr {
    uint64_t mask;
    ucc_context_type_t type;
    ucc_coll_sync_type_t sync_type;
    ucc_context_addr_h ctx_addr; /**< the library's; valid until the context is destroyed */
    ucc_context_addr_len_t ctx_addr_len;
    uint64_t global_work_buffer_size; /**< bytes to provide as ucc_coll_args::global_work_buffer */
} ucc_context_attr_t;

/** Read a context's configuration, from the sources (and with the prefix) described at
 *  ucc_lib_config_read(). End it with ucc_context_config_release(). */
ucc_status_t ucc_context_config_read(ucc_lib_h lib_handle, const char *filename,
                                     ucc_context_config_h *config);

/** Free a configuration. Contexts made with it do not depend on it. */
void ucc_context_config_release(ucc_context_config_h config);

/** Write a configuration to stream. title may be NULL. */
void ucc_context_config_print(const ucc_context_config_h config, FILE *stream, const char *title,
                              ucc_config_print_flags_t print_flags);

/** Set variable name of component ("tl/ucp", for example; NULL: of the context itself) to value.
 *  Errors as in ucc_lib_config_modify(). */
ucc_status_t ucc_context_config_modify(ucc_context_config_h config, const char *component,
                                       const char *name, const char *value);

/** Create a context. Local without UCC_CONTEXT_PARAM_FIELD_OOB; with it, all participants of the
 *  OOB must call, and the call may block until they have. The OOB must stay usable until the
 *  context is destroyed. */
ucc_status_t ucc_context_create(ucc_lib_h lib_handle, const ucc_context_params_t *params,
                                const ucc_context_config_h config, ucc_context_h *context);

/** Move the context's outstanding operations forward. Waits for no other endpoint; where other
 *  programs want the processor, a call that finds nothing to do may doze for half a millisecond. */
ucc_status_t ucc_context_progress(ucc_context_h context);

/** Destroy a context. Its teams must have been destroyed and its mapped memory unmapped. */
ucc_status_t ucc_context_destroy(ucc_context_h context);

/** Fill the fields of context_attr that its mask asks for. */
ucc_status_t ucc_context_get_attr(ucc_context_h context, ucc_context_attr_t *context_attr);

/* ------------------------------------------------------------------------------------------------
 * Teams
 * ---------------------------------------------------------------------------------------------- */

/** Mask bits of ucc_team_params_t. */
enum ucc_team_params_field {
    UCC_TEAM_PARAM_FIELD_ORDERING = UCC_BIT(0),
    UCC_TEAM_PARAM_FIELD_OUTSTANDING_COLLS = UCC_BIT(1),
    UCC_TEAM_PARAM_FIELD_EP = UCC_BIT(2),
    UCC_TEAM_PARAM_FIELD_EP_LIST = UCC_BIT(3),
    UCC_TEAM_PARAM_FIELD_EP_RANGE = UCC_BIT(4),
    UCC_TEAM_PARAM_FIELD_TEAM_SIZE = UCC_BIT(5),
    UCC_TEAM_PARAM_FIELD_SYNC_TYPE = UCC_BIT(6),
    UCC_TEAM_PARAM_FIELD_OOB = UCC_BIT(7),
    UCC_TEAM_PARAM_FIELD_P2P_CONN = UCC_BIT(8),
    UCC_TEAM_PARAM_FIELD_MEM_PARAMS = UCC_BIT(9),
    UCC_TEAM_PARAM_FIELD_EP_MAP = UCC_BIT(10),
    UCC_TEAM_PARAM_FIELD_ID = UCC_BIT(11),
    UCC_TEAM_PARAM_FIELD_FLAGS = UCC_BIT(12)
};

/** Mask bits of ucc_team_attr_t. */
enum ucc_team_attr_field {
    UCC_TEAM_ATTR_FIELD_POST_ORDERING = UCC_BIT(0),
    UCC_TEAM_ATTR_FIELD_OUTSTANDING_CALLS = UCC_BIT(1),
    UCC_TEAM_ATTR_FIELD_EP = UCC_BIT(2),
    UCC_TEAM_ATTR_FIELD_EP_RANGE = UCC_BIT(3),
    UCC_TEAM_ATTR_FIELD_SYNC_TYPE = UCC_BIT(4),
    UCC_TEAM_ATTR_FIELD_MEM_PARAMS = UCC_BIT(5),
    UCC_TEAM_ATTR_FIELD_SIZE = UCC_BIT(6),
    UCC_TEAM_ATTR_FIELD_EPS = UCC_BIT(7)
};

/** Values of ucc_team_params::flags. */
enum ucc_team_flags {
    UCC_TEAM_FLAG_COLL_WORK_BUFFER = UCC_BIT(0) /**< operations bring a global_work_buffer */
};

/** How the program would tell the library about point-to-point connections. */
typedef struct ucc_team_p2p_conn {
    int (*conn_info_lookup)(void *conn_ctx, uint64_t ep, ucc_p2p_conn_t **conn_info, void *request);
    int (*conn_info_release)(ucc_p2p_conn_t *conn_info);
    void *conn_ctx;
    ucc_status_t (*req_test)(void *request);
    ucc_status_t (*req_free)(void *request);
} ucc_team_p2p_conn_t;

/** What all endpoints of the team promise about the order of their calls. Operations that may come
 *  in any order are matched by tag. Whatever is promised, persistent requests are matched by the
 *  order of their inits (and may then be posted in any order), and untagged operations of one
 *  active set by the order of their posts: as in released UCC, whose clients rely on it. */
typedef enum {
    UCC_COLLECTIVE_POST_ORDERED = 0, /**< posts come in the same order everywhere */
    UCC_COLLECTIVE_POST_UNORDERED = 1,
    UCC_COLLECTIVE_INIT_ORDERED = 2, /**< inits do */
    UCC_COLLECTIVE_INIT_UNORDERED = 3,
    UCC_COLLECTIVE_INIT_AND_POST_ORDERED = 4, /**< both do */
    UCC_COLLECTIVE_INIT_AND_POST_UNORDERED = 5
} ucc_post_ordering_t;

/** Whether the endpoint numbers of a team are exactly 0 to n - 1. */
typedef enum {
    UCC_COLLECTIVE_EP_RANGE_CONTIG = 0,
    UCC_COLLECTIVE_EP_RANGE_NONCONTIG = 1
} ucc_ep_range_type_t;

/** Endpoint i of the team is number start + i * stride of the context. */
struct ucc_ep_map_strided {
    uint64_t start;
    int64_t stride;
};

/** Endpoint i of the team is number map[i] of the context. */
struct ucc_ep_map_array {
    void *map;        /**< the caller's */
    size_t elem_size; /**< bytes of an entry: 4 or 8 */
};

/** Endpoint i of the team is number cb(i, cb_ctx) of the context. */
struct ucc_ep_map_cb {
    uint64_t (*cb)(uint64_t ep, void *cb_ctx);
    void *cb_ctx;
};

/** Which member of ucc_ep_map_t's union holds the map. */
typedef enum {
    UCC_EP_MAP_FULL = 1, /**< none: all participants of the context, in its order */
    UCC_EP_MAP_STRIDED = 2,
    UCC_EP_MAP_ARRAY = 3,
    UCC_EP_MAP_CB = 4
} ucc_ep_map_type_t;

/** A team as a selection from the participants of a context that was created with an OOB. */
typedef struct ucc_ep_map_t {
    ucc_ep_map_type_t type;
    uint64_t ep_num; /**< the team's size */
    union {
        struct ucc_ep_map_strided strided;
        struct ucc_ep_map_array array;
        struct ucc_ep_map_cb cb;
    };
} ucc_ep_map_t;

/** What ucc_team_create_post() is asked for. The library must be able to tell the members and the
 *  caller's place among them: from oob, from ep_map on contexts created with an OOB, or from
 *  team_size, ep and id. */
typedef struct ucc_team_params {
    uint64_t mask;
    uint64_t flags; /**< of enum ucc_team_flags */
    ucc_post_ordering_t ordering;
    uint64_t outstanding_colls; /**< most operations in flight at once; no limit if not given */
    uint64_t ep;                /**< the caller's number; oob.oob_ep if not given */
    uint64_t *ep_list;          /**< the members' numbers, team_size of them; the caller's array */
    ucc_ep_range_type_t ep_range;
    uint64_t team_size; /**< n; equals oob.n_oob_eps if both are given */
    ucc_coll_sync_type_t sync_type;
    ucc_team_oob_coll_t oob; /**< must stay usable until the creation has completed */
    ucc_team_p2p_conn_t p2p_conn;
    ucc_mem_map_params_t mem_params; /**< memory to attach to the team */
    ucc_ep_map_t ep_map;
    uint64_t id; /**< differs from that of any other live team that shares a member with this one */
} ucc_team_params_t;

/** What a team is. */
typedef struct ucc_team_attr {
    uint64_t mask;
    ucc_post_ordering_t ordering;
    uint64_t outstanding_colls;
    uint64_t ep; /**< the caller's number */
    ucc_ep_range_type_t ep_range;
    ucc_coll_sync_type_t sync_type;
    ucc_mem_map_params_t mem_params;
    uint32_t size; /**< n */
    uint64_t *eps; /**< in: room for n entries, the caller's; out: the members' numbers */
} ucc_team_attr_t;

/** Begin to create a team: collective over its members, and never blocks. The handle may be used
 *  only with ucc_team_create_test() until that returns UCC_OK. One creation at a time per
 *  context. */
ucc_status_t ucc_team_create_post(ucc_context_h *contexts, uint32_t num_contexts,
                                  const ucc_team_params_t *team_params, ucc_team_h *new_team);

/** Move a creation forward: UCC_INPROGRESS until it is done. Never blocks. After an error the team
 *  is unusable and must still be destroyed. */
ucc_status_t ucc_team_create_test(ucc_team_h team);

/** Destroy a team; UCC_INPROGRESS asks to call again. Its operations must have been finalized, its
 *  execution engines destroyed, and its creation must not be in progress. */
ucc_status_t ucc_team_destroy(ucc_team_h team);

/** Fill the fields of team_attr that its mask asks for. */
ucc_status_t ucc_team_get_attr(ucc_team_h team, ucc_team_attr_t *team_attr);

/** Begin to create a team from the endpoints of parent_team that pass included = 1, in the parent's
 *  order: collective over the whole parent. my_ep is the caller's number in the parent. Continue
 *  with ucc_team_create_test(), also where included is 0. */
ucc_status_t ucc_team_create_from_parent(uint64_t my_ep, uint32_t included, ucc_team_h parent_team,
                                         ucc_team_h *new_team);

/* ------------------------------------------------------------------------------------------------
 * Collectives
 * ---------------------------------------------------------------------------------------------- */

/** Values of ucc_coll_args::flags; valid with UCC_COLL_ARGS_FIELD_FLAGS. */
typedef enum {
    /** The input is already in dst, where the result will be; src is ignored. Allgather and gather:
     *  the own block in its place; reduce_scatter: the whole input, the result in the own block's
     *  place. Ignored by operations and endpoints for which it means nothing. */
    UCC_COLL_ARGS_FLAG_IN_PLACE = UCC_BIT(0),
    /** The request may be posted again whenever it has completed. */
    UCC_COLL_ARGS_FLAG_PERSISTENT = UCC_BIT(1),
    /** counts arrays have entries of 64 bits instead of 32. */
    UCC_COLL_ARGS_FLAG_COUNT_64BIT = UCC_BIT(2),
    /** displacements arrays have entries of 64 bits instead of 32. */
    UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT = UCC_BIT(3),
    /** The blocks in src lie one behind the other. */
    UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER = UCC_BIT(4),
    /** The blocks in dst lie one behind the other. */
    UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER = UCC_BIT(5),
    /** The operation fails with UCC_ERR_TIMED_OUT when it has not completed ucc_coll_args::timeout
     *  seconds after the post. This says nothing about the other endpoints. */
    UCC_COLL_ARGS_FLAG_TIMEOUT = UCC_BIT(6),
    /** Both buffers lie in mapped memory. */
    UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS = UCC_BIT(7),
    /** src_memh.global_memh is set, not local_memh. */
    UCC_COLL_ARGS_FLAG_SRC_MEMH_GLOBAL = UCC_BIT(8),
    /** dst_memh.global_memh is set, not local_memh. */
    UCC_COLL_ARGS_FLAG_DST_MEMH_GLOBAL = UCC_BIT(9)
} ucc_coll_args_flags_t;

/** Wishes, or-ed into ucc_coll_args::flags; they never change a result. */
typedef enum {
    UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_CPU = UCC_BIT(24), /**< leave the CPU to the program */
    UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_GPU = UCC_BIT(25), /**< leave the GPU to the program */
    UCC_COLL_ARGS_HINT_OPTIMIZE_LATENCY = UCC_BIT(26),     /**< complete as early as possible */
    UCC_COLL_ARGS_HINT_CONTIG_SRC_BUFFER = UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER,
    UCC_COLL_ARGS_HINT_CONTIG_DST_BUFFER = UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER
} ucc_coll_args_hints_t;

/** A buffer of n blocks, one for (or from) each endpoint. The arrays have n entries, belong to the
 *  caller, and must stay unchanged from post to completion: what they hold is read at each post. */
typedef struct ucc_coll_buffer_info_v {
    void *buffer;
    ucc_count_t *counts;       /**< elements of block i; entry width: see ucc_count_t */
    ucc_aint_t *displacements; /**< elements from buffer to block i; entry width: see ucc_aint_t */
    ucc_datatype_t datatype;
    ucc_memory_type_t mem_type;
} ucc_coll_buffer_info_v_t;

/** A buffer of one piece. */
typedef struct ucc_coll_buffer_info {
    void *buffer;
    ucc_count_t count; /**< elements in the whole buffer */
    ucc_datatype_t datatype;
    ucc_memory_type_t mem_type;
} ucc_coll_buffer_info_t;

/** Who learns of a failure. */
typedef enum {
    UCC_ERR_TYPE_LOCAL = 0, /**< the endpoint that it happened to */
    UCC_ERR_TYPE_GLOBAL = 1 /**< all endpoints */
} ucc_error_type_t;

/** Mask bits of ucc_coll_args_t. */
enum ucc_coll_args_field {
    UCC_COLL_ARGS_FIELD_FLAGS = UCC_BIT(0),
    UCC_COLL_ARGS_FIELD_TAG = UCC_BIT(1),
    UCC_COLL_ARGS_FIELD_CB = UCC_BIT(2),
    UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER = UCC_BIT(3),
    UCC_COLL_ARGS_FIELD_ACTIVE_SET = UCC_BIT(4),
    UCC_COLL_ARGS_FIELD_MEM_MAP_SRC_MEMH = UCC_BIT(5),
    UCC_COLL_ARGS_FIELD_MEM_MAP_DST_MEMH = UCC_BIT(6)
};

/** Memory that ucc_mem_map() has mapped: the start of a block of bytes that may be copied and sent.
 */
typedef void *ucc_mem_map_mem_h;

/** One endpoint's part in a collective. mask and coll_type are always read; src, dst, op and root
 *  where the operation needs them at this endpoint (ucc_coll_type_t says which member of src and
 *  dst); everything else by mask. The structure is copied at init; the buffers are the library's
 *  from post to completion. */
typedef struct ucc_coll_args {
    uint64_t mask;
    ucc_coll_type_t coll_type;
    union {
        ucc_coll_buffer_info_t info;
        ucc_coll_buffer_info_v_t info_v;
    } src;
    union {
        ucc_coll_buffer_info_t info;
        ucc_coll_buffer_info_v_t info_v;
    } dst;
    ucc_reduction_op_t op; /**< of reductions on predefined datatypes */
    uint64_t flags;        /**< of ucc_coll_args_flags_t and ucc_coll_args_hints_t */
    uint64_t root;         /**< endpoint, of bcast, fanin, fanout, gather(v), reduce, scatter(v) */
    ucc_error_type_t error_type;
    ucc_coll_id_t tag;        /**< matches this operation with those of the same tag elsewhere */
    void *global_work_buffer; /**< zeroed; ucc_context_attr::global_work_buffer_size bytes */
    ucc_coll_callback_t cb;
    double timeout; /**< seconds; with UCC_COLL_ARGS_FLAG_TIMEOUT */
    /** Only endpoints start, start + stride, ... (size of them) take part, and only they call. */
    struct {
        uint64_t start;
        int64_t stride;
        uint64_t size;
    } active_set;
    union {
        ucc_mem_map_mem_h local_memh;   /**< of the caller's own memory */
        ucc_mem_map_mem_h *global_memh; /**< of all n endpoints' memory; the caller's array */
    } src_memh;
    union {
        ucc_mem_map_mem_h local_memh;
        ucc_mem_map_mem_h *global_memh;
    } dst_memh;
} ucc_coll_args_t;

/** Prepare an operation on team. All its endpoints must do so with arguments that agree. */
ucc_status_t ucc_collective_init(ucc_coll_args_t *coll_args, ucc_coll_req_h *request,
                                 ucc_team_h team);

/** Start an operation: UCC_OK once it has started, whether or not it has completed. A completion
 *  callback may already run inside this call. After an error the request must still be
 *  finalized. */
ucc_status_t ucc_collective_post(ucc_coll_req_h request);

/** ucc_collective_init() and ucc_collective_post() in one call; after an error there is no request.
 */
ucc_status_t ucc_collective_init_and_post(ucc_coll_args_t *coll_args, ucc_coll_req_h *request,
                                          ucc_team_h team);

/** The state of an operation: UCC_OPERATION_INITIALIZED before its post, UCC_INPROGRESS, UCC_OK
 *  when complete, or an error. Makes no progress: that is ucc_context_progress(). Once it returns
 *  UCC_OK, the operation's results are visible to the calling thread. */
static inline ucc_status_t ucc_collective_test(ucc_coll_req_h request) {
    return __atomic_load_n(&request->status, __ATOMIC_ACQUIRE);
}

/** End a request. UCC_ERR_INVALID_PARAM while the operation is in progress. With
 *  UCC_THREAD_MULTIPLE the caller sees to it that the completion callback has returned, unless it
 *  calls from inside it. */
ucc_status_t ucc_collective_finalize(ucc_coll_req_h request);

/* ------------------------------------------------------------------------------------------------
 * Events
 * ---------------------------------------------------------------------------------------------- */

/** What an event stands for. */
typedef enum ucc_event_type {
    UCC_EVENT_COLLECTIVE_POST = UCC_BIT(0),     /**< a triggered operation was posted */
    UCC_EVENT_COLLECTIVE_COMPLETE = UCC_BIT(1), /**< it has completed */
    UCC_EVENT_COMPUTE_COMPLETE = UCC_BIT(2),    /**< set by the program: its data is ready */
    UCC_EVENT_OVERFLOW = UCC_BIT(3)             /**< events were lost */
} ucc_event_type_t;

/** What an execution engine stands for. */
typedef enum ucc_ee_type {
    UCC_EE_FIRST = 0,
    UCC_EE_CUDA_STREAM = UCC_EE_FIRST,
    UCC_EE_CPU_THREAD,
    UCC_EE_ROCM_STREAM,
    UCC_EE_LAST,
    UCC_EE_UNKNOWN = UCC_EE_LAST
} ucc_ee_type_t;

/** An event. */
typedef struct ucc_event {
    ucc_event_type_t ev_type;
    void *ev_context;
    size_t ev_context_size; /**< bytes at ev_context */
    ucc_coll_req_h req;     /**< the operation that the event starts or reports */
} ucc_ev_t;

/** What ucc_ee_create() is asked for. */
typedef struct ucc_ee_params {
    ucc_ee_type_t ee_type;
    void *ee_context; /**< the stream of a stream engine */
    size_t ee_context_size;
} ucc_ee_params_t;

/** Create an execution engine of a team: of a processor thread (UCC_EE_CPU_THREAD), which ends
 *  before the team does; or of a stream (UCC_EE_CUDA_STREAM), which may end later. */
ucc_status_t ucc_ee_create(ucc_team_h team, const ucc_ee_params_t *params, ucc_ee_h *ee);

/** Destroy an engine and the events in its queue; on the thread that created it.
 *  UCC_ERR_INVALID_PARAM while a triggered operation is outstanding. */
ucc_status_t ucc_ee_destroy(ucc_ee_h ee);

/** Take the oldest event that the library has put into the queue; UCC_ERR_NOT_FOUND if there is
 *  none. The event is the library's and ends with ucc_ee_ack_event(). */
ucc_status_t ucc_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev);

/** Give an event back. It must no longer be used. */
ucc_status_t ucc_ee_ack_event(ucc_ee_h ee, ucc_ev_t *ev);

/** Tell the engine of an event of the program's, a UCC_EVENT_COMPUTE_COMPLETE, from any thread: the
 *  triggered operation that has waited longest, or else the next one, starts when the team's
 *  context is progressed. */
ucc_status_t ucc_ee_set_event(ucc_ee_h ee, ucc_ev_t *ev);

/** Progress the team's contexts until the library has put an event into the queue, and take it: *ev
 *  is a copy, which needs no acknowledgement. */
ucc_status_t ucc_ee_wait(ucc_ee_h ee, ucc_ev_t *ev);

/** Have ee_event->req start when the event occurs on the engine: on a stream, when what was
 *  enqueued there before is done; and what is enqueued there later comes after it. Until then, and
 *  while it runs, its status is UCC_INPROGRESS; UCC_EVENT_COLLECTIVE_POST says that it has
 *  started, UCC_EVENT_COLLECTIVE_COMPLETE that it is over, in error, too. After an error of this
 *  call the request must still be finalized. */
ucc_status_t ucc_collective_triggered_post(ucc_ee_h ee, ucc_ev_t *ee_event);

/* ------------------------------------------------------------------------------------------------
 * Mapped memory
 * ---------------------------------------------------------------------------------------------- */

/** What ucc_mem_map() does. */
typedef enum {
    UCC_MEM_MAP_MODE_EXPORT = 0,         /**< map own memory and describe it */
    UCC_MEM_MAP_MODE_IMPORT = 1,         /**< use another endpoint's description */
    UCC_MEM_MAP_MODE_EXPORT_OFFLOAD = 2, /**< as export, from an offload device */
    UCC_MEM_MAP_MODE_IMPORT_OFFLOAD = 3, /**< as import, on an offload device */
    UCC_MEM_MAP_MODE_LAST = 4
} ucc_mem_map_mode_t;

/** Export: map the one segment in params; *memh becomes a handle of *memh_size bytes, which may be
 *  copied and sent to other endpoints. Import: *memh is such a copy, in memory from malloc(); it
 *  becomes a handle in place, and *memh_size becomes 0. UCC_ERR_INVALID_PARAM: not exactly one
 *  segment, or a NULL argument; *memh is then unchanged. End both with ucc_mem_unmap(). */
ucc_status_t ucc_mem_map(ucc_context_h context, ucc_mem_map_mode_t mode,
                         const ucc_mem_map_params_t *params, size_t *memh_size,
                         ucc_mem_map_mem_h *memh);

/** Unmap, free the handle (an imported one with free()) and set *memh to NULL. */
ucc_status_t ucc_mem_unmap(ucc_mem_map_mem_h *memh);

END_C_DECLS

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* UCC_H_ */
