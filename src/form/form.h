/* form.h: how teams are formed, and how they end: what api/ calls.
 */
#ifndef HD_FORM_FORM_H
#define HD_FORM_FORM_H

#include "team/team.h"

/* --- teams (form.c, handle.c, derive.c), contexts, groups of processes ------------------------ */

/* Makes a handle and begins to form its team; never blocks. extra: NULL, or parameters beyond
 * UCC's. unplaced: oob_ep and the range of ep are not known; the exchange tells them (oob.c). */
ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            bool unplaced, ucc_team_h *out);
/* Drives a team that is forming. Returns UCC_INPROGRESS; UCC_OK, when the team is active or
 * excludes this endpoint; or why it has failed. */
ucc_status_t hd_team_create_test(ucc_team_h team);
/* Ends a handle. UCC_INPROGRESS: others still use what this endpoint has; the caller comes again.
 * UCC_ERR_INVALID_PARAM: something is in progress on the handle, or needs it (logged). */
ucc_status_t hd_team_destroy(ucc_team_h team);
/* Returns a new handle that belongs to no group yet. NULL: no memory (logged). */
ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts);
/* Fills in a handle in zeroed memory, whose `contexts` has room for them. */
void hd_team_init(ucc_team_h team, ucc_context_h *contexts, uint32_t n_contexts);
/* Makes a handle that of endpoint ep of a group, and joins the group. The handle's state is the
 * caller's business. */
ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where);
/* Frees a handle with all that it keeps, and leaves its group. Nothing is in progress on it. */
void hd_team_free(ucc_team_h team);
/* As hd_team_free, for a handle that may have been in use: if its team has failed while the
 * processes greeted, that ends, too. */
void hd_team_leave(ucc_team_h team);
/* Begins a team that all endpoints of the parent make together. included: the caller takes part in
 * it. */
ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out);
/* Begins a team of those that are left of a parent in several processes (shrink.c). */
ucc_status_t hd_team_shrink(ucc_team_h parent, ucc_team_h *out);
/* Begins a team of the parent's endpoints `eps`, of which the caller is one. */
ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n, ucc_team_h *out);
/* Returns the i-th entry of a list. */
typedef uint64_t hd_entry_fn(const void *list, uint32_t i);
/* That of a list of 64-bit numbers. */
uint64_t hd_wide_entry(const void *list, uint32_t i);
/* Called instead of hd_team_from_list, for want of memory: the parent's endpoint does not come to
 * the team of the n on the list, and the others need not wait. */
void hd_team_refuse_list(ucc_team_h parent, hd_entry_fn *at, const void *list, uint32_t n);
/* Makes a handle from hd_team_from_list or hd_team_shrink ACTIVE at once: its operations wait until
 * all members have come, as after heddle_join. */
ucc_status_t hd_team_form_ahead(ucc_team_h team);
/* Called by ucc_context_create: finds the other contexts of the exchange. Blocks, by contract.
 * unplaced: oob_ep is not known; the context's place among them is where its own record is. */
ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced);
/* Called instead of hd_context_meet, if a context can't be created, for this reason:
 * enters the exchange, so that the others get an error instead of waiting. oob is valid. */
void hd_context_refuse(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* Called when a context ends: the context is no part of the others' any more. */
void hd_context_part(ucc_context_h context);
/* Writes 128 random bits that name this process. They are drawn once per process, and again after a
 * fork. */
void hd_process_identity(uint64_t identity[2]);
/* Called by one thread of each process, and blocks: makes the group of this process, in the team
 * that these processes make together (processes.c). The caller gets a reference to it. */
ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **group);
/* Called instead by a process that can't make its group, for this reason: the others get an error
 * instead of waiting. */
void hd_team_refuse_processes(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* Returns a number that all processes of this host get, since it was started. */
uint64_t hd_host_identity(void);

#endif
