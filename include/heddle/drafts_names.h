/* drafts_names.h: what the drafts of UCC 1.x had, 1.x dropped, and a program of 1.x may still want,
 * beside everything that 1.x itself has.
 *
 * heddle.h includes this file unless HEDDLE_NO_DRAFTS is defined. REMOTE_ATOMICS and
 * REMOTE_COUNTERS, which have no prefix, are left out where HEDDLE_NO_UNPREFIXED is. A program that
 * was written to a draft includes drafts.h, for which these names are part of the draft.
 */
#ifndef HEDDLE_DRAFTS_NAMES_H_
#define HEDDLE_DRAFTS_NAMES_H_

#include <ucc/api/ucc.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/** AND, OR and XOR: bit by bit, on integers. */
#define UCC_OP_AND UCC_OP_BAND
#define UCC_OP_OR  UCC_OP_BOR
#define UCC_OP_XOR UCC_OP_BXOR

/** Memory constraints (bit mask): heddle_team_params_t::memory, HEDDLE_MEM_*. */
typedef enum {
    UCC_MEM_SYMMETRIC = UCC_BIT(0),  /**< same length on every endpoint of the team */
    UCC_MEM_PERSISTENT = UCC_BIT(1), /**< stays valid until the team is destroyed */
    UCC_MEM_ALIGN32 = UCC_BIT(2),    /**< address is a multiple of 32 bytes */
    UCC_MEM_ALIGN64 = UCC_BIT(3),    /**< address is a multiple of 64 bytes */
    UCC_MEM_ALIGN128 = UCC_BIT(4)    /**< address is a multiple of 128 bytes */
} ucc_mem_constraints_t;

/** Memory hints (bit mask, so that both may be given); accepted and reported, no behaviour depends
 *  on them. */
typedef enum {
    UCC_REMOTE_ATOMICS = UCC_BIT(0),
    UCC_REMOTE_COUNTERS = UCC_BIT(1),
#ifndef HEDDLE_NO_UNPREFIXED
    REMOTE_ATOMICS = UCC_REMOTE_ATOMICS,
    REMOTE_COUNTERS = UCC_REMOTE_COUNTERS
#endif
} ucc_mem_hints_t;

/** Number of endpoints. */
ucc_status_t ucc_team_get_size(ucc_team_h team, uint32_t *size);
/** The caller's endpoint: the label given in ucc_team_params_t::ep, else its number. */
ucc_status_t ucc_team_get_my_ep(ucc_team_h team, uint64_t *ep);
/** All labels by endpoint number. The array belongs to the team handle, lives as long as it, and is
 *  not to be freed or written. */
ucc_status_t ucc_team_get_all_eps(ucc_team_h team, uint64_t **eps, uint64_t *num_eps);
/** A new team of those endpoints of `parent` (numbers) that are listed; called by the members only,
 *  each with the same list; member i of the list becomes endpoint i. Nonblocking: drive with
 *  ucc_team_create_test(). `eps` points to the list's address, as in the drafts; it is copied. */
ucc_status_t ucc_create_team_from_eps(ucc_team_h parent, uint64_t **eps, uint64_t num_eps,
                                      ucc_team_h *team);
/** The first three by their names in the earlier draft. */
ucc_status_t ucc_get_team_size(ucc_team_h team, uint32_t *size);
ucc_status_t ucc_get_team_my_ep(ucc_team_h team, uint64_t *ep);
ucc_status_t ucc_get_team_all_eps(ucc_team_h team, uint64_t **eps, uint64_t *num_eps);

/** ucc_lib_get_attr(), ucc_context_get_attr() and ucc_team_get_attr() by other names, of 1.x's
 *  structures and masks. (Where drafts.h is included, of the draft's.) */
typedef ucc_lib_attr_t ucc_lib_attrib_t;
typedef ucc_context_attr_t ucc_context_attrib_t;
typedef ucc_team_attr_t ucc_team_attrib_t;
ucc_status_t ucc_lib_get_attribs(ucc_lib_h lib, ucc_lib_attrib_t *attr);
ucc_status_t ucc_context_get_attribs(ucc_context_h context, ucc_context_attrib_t *attr);
ucc_status_t ucc_team_get_attribs(ucc_team_h team, ucc_team_attrib_t *attr);
ucc_status_t ucc_get_team_attribs(ucc_team_h team, ucc_team_attrib_t *attr);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif /* HEDDLE_DRAFTS_NAMES_H_ */
