/* ucc_def.h: handles, scalar types and bit helpers of the UCC interface.
 *
 * Every handle is a pointer to a structure that only the library can see, except the request, whose
 * first member is public so that testing it costs one load. A handle belongs to the library
 * instance that made it and becomes invalid in its destroy, release or finalize call.
 */
#ifndef UCC_DEF_H_
#define UCC_DEF_H_

#include <ucc/api/ucc_status.h>
#include <stddef.h>
#include <stdint.h>

BEGIN_C_DECLS

/** Bit number i, and the mask of all bits below it, as unsigned long. */
#define UCC_BIT(i)  (1ul << (i))
#define UCC_MASK(i) (UCC_BIT(i) - 1)

/** The library: global configuration, and the root of everything else. ucc_init to ucc_finalize. */
typedef struct ucc_lib_info *ucc_lib_h;

/** Variables read for a library, and for a context; *_config_read to *_config_release. */
typedef struct ucc_lib_config *ucc_lib_config_h;
typedef struct ucc_context_config *ucc_context_config_h;

/** The resources that one participant brings, and the unit of progress. */
typedef struct ucc_context *ucc_context_h;

/** One participant's view of a team: an ordered set of endpoints that run collectives together. */
typedef struct ucc_team *ucc_team_h;

/** An execution engine: a queue of events that starts collectives. */
typedef struct ucc_ee *ucc_ee_h;

/** Reserved by the interface; no call takes one. See ucc_mem_map_mem_h for mapped memory. */
typedef struct ucc_mem_handle *ucc_mem_h;

/** One collective operation of one participant. */
typedef struct ucc_coll_req *ucc_coll_req_h;

/** The public head of a request. The library writes status, from any thread; read it with
 *  ucc_collective_test(). */
typedef struct ucc_coll_req {
    ucc_status_t status;
} ucc_coll_req_t;

/** Called once, when the operation completes or fails, with its final status; possibly from inside
 *  the post and on any thread that progresses. Of this interface it may only call
 *  ucc_collective_finalize(). */
typedef struct ucc_coll_callback {
    void (*cb)(void *data, ucc_status_t status);
    void *data; /**< handed to cb as it is */
} ucc_coll_callback_t;

/** An entry of a counts array, in elements: 64 bits wide with UCC_COLL_ARGS_FLAG_COUNT_64BIT;
 *  without that flag the array really consists of uint32_t. */
typedef uint64_t ucc_count_t;

/** An entry of a displacements array, in elements: 64 bits wide with
 *  UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT; without that flag the array consists of uint32_t. */
typedef uint64_t ucc_aint_t;

/** Matches the same operation on all participants when they issue operations in different orders.
 */
typedef uint16_t ucc_coll_id_t;

/** Point-to-point connection data, meaningful to the caller of the library only. */
typedef void *ucc_p2p_conn_t;

/** A context's address: an opaque string of bytes, and its length in bytes. */
typedef void *ucc_context_addr_h;
typedef size_t ucc_context_addr_len_t;

/** What the *_config_print calls write; or the bits together. */
typedef enum {
    UCC_CONFIG_PRINT_CONFIG = UCC_BIT(0), /**< NAME=value lines */
    UCC_CONFIG_PRINT_HEADER = UCC_BIT(1), /**< the title, as a comment */
    UCC_CONFIG_PRINT_DOC = UCC_BIT(2),    /**< each variable's meaning, as a comment */
    UCC_CONFIG_PRINT_HIDDEN = UCC_BIT(3)  /**< variables that are not for everyday use as well */
} ucc_config_print_flags_t;

/** The library's object behind a user-defined datatype. */
typedef struct ucc_dt_generic ucc_dt_generic_t;

/** How a ucc_datatype_t is built: its class in the lowest UCC_DATATYPE_SHIFT bits; above them the
 *  number of a predefined type, or together with them the address of a generic one. */
typedef enum {
    UCC_DATATYPE_PREDEFINED = 0,
    UCC_DATATYPE_GENERIC = UCC_BIT(0),
    UCC_DATATYPE_SHIFT = 3,
    UCC_DATATYPE_CLASS_MASK = UCC_MASK(UCC_DATATYPE_SHIFT)
} ucc_dt_type_t;

/** The ucc_datatype_t of predefined type number _id. */
#define UCC_PREDEFINED_DT(_id)                                                                     \
    ((ucc_datatype_t)(((uint64_t)(_id) << UCC_DATATYPE_SHIFT) | UCC_DATATYPE_PREDEFINED))

END_C_DECLS

#endif /* UCC_DEF_H_ */
