/* form.h: forming teams, and their end: what api/ calls. */
#ifndef HD_FORM_FORM_H
#define HD_FORM_FORM_H

#include "team/team.h"

/* --- forming (form.c, form/meet.c, form/oob.c, handle.c) -------------------------------------- */

/* unplaced: oob_ep is not known, and the range of ep not either (form/oob.c finds them out). */
ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            bool unplaced, ucc_team_h *out);
ucc_status_t hd_team_create_test(ucc_team_h team);
ucc_status_t hd_team_destroy(ucc_team_h team);
/* A handle for endpoint ep of a group, ACTIVE as soon as the group is complete. */
ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts);
/* The same in zeroed memory, whose `contexts` has room for them. */
void hd_team_init(ucc_team_h team, ucc_context_h *contexts, uint32_t n_contexts);
ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where);
void hd_team_free(ucc_team_h team);
ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out);
/* Of those that are left (form/shrink.c). */
ucc_status_t hd_team_shrink(ucc_team_h parent, ucc_team_h *out);
ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n, ucc_team_h *out);
/* Instead of it, for want of memory: member `me` of the list does not come, and the others need not
 * wait. */
void hd_team_refuse_list(ucc_team_h parent, hd_fingerprint_t list, uint32_t n, uint32_t me);
/* A handle from hd_team_from_list becomes ACTIVE at once: operations wait until all members have
 * come, as after heddle_join. */
ucc_status_t hd_team_form_ahead(ucc_team_h team);
/* By ucc_context_create: finds the other contexts of the exchange. Blocks, by contract. unplaced:
 * oob_ep is not known; its place among them is where its own record is. */
ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced);
/* By who can't create one, for this reason: enters the exchange, so that the others get an error
 * instead of waiting. oob is valid. */
void hd_context_refuse(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* At its end: it is no part of them any more. */
void hd_context_part(ucc_context_h context);
/* 128 random bits, drawn once per process and again after a fork. */
void hd_process_identity(uint64_t identity[2]);
/* By one thread of each process, blocking: the group of this process, of the team that those make
 * together (form/processes.c). A reference, for the caller. */
ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **group);
/* Instead of it, by who can't make one, for this reason: the others get an error instead of
 * waiting. */
void hd_team_refuse_processes(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* The same in all processes of this host since it was started. */
uint64_t hd_host_identity(void);

#endif
