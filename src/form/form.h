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
/* Returns a new handle that belongs to no group yet. NULL: no memory (logged). trouble: NULL, or
 * where to write so, for a handle that is only to say that (hd_roll_room). */
ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts, int32_t *trouble);
/* Makes a handle that of endpoint ep of a group, and joins the group. */
ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where);
/* Frees a handle, unless it is NULL, with all that it keeps, and leaves its group. Nothing is in
 * progress on it, but for a greeting that has failed, which ends here. */
void hd_team_free(ucc_team_h team);
/* By who may be kept waiting, before that: leaves the group, and waits for what a failed team has
 * on the network yet, for some seconds at most. */
void hd_team_see_off(ucc_team_h team);
/* Begins a team that all endpoints of the parent make; included: the caller takes part in it. */
ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out);
/* Begins a team of those that are left of a parent in several processes (shrink.c). origin: that of
 * an agreement; NULL: the parent's. */
ucc_status_t hd_team_shrink(ucc_team_h parent, hd_origin_t *origin, ucc_team_h *out);
/* The endpoint begins an agreement of that number in its team. Returns the name of what is over by
 * that: the making of teams of survivors, before; 0: the endpoint has made none. */
uint64_t hd_team_begin_era(ucc_team_h team, uint64_t number);
/* Tells all who still wait for such a team that none will come of it, if the one that this process
 * has come to has failed, or been left. False: it has not yet. */
bool hd_team_tell_over(ucc_team_h team, uint64_t over);
/* The agreement has found these endpoints failed, of which there is a bit for each: they are no
 * survivors any more. */
void hd_team_note_failed(ucc_team_h team, const uint64_t *failed);
/* Different members of a set: endpoints of a parent, or contexts. */
typedef struct hd_list {
    uint64_t (*at)(const void *entries, uint32_t i); /* returns the number of the i-th of them */
    const void *entries;
    uint32_t n;
} hd_list_t;
hd_list_t hd_list_of(const uint64_t *entries, uint32_t n);
/* Begins a team of the parent's endpoints on the list, of which the caller is one. For want of
 * memory, the others are told that it does not come. */
ucc_status_t hd_team_from_list(ucc_team_h parent, const hd_list_t *list, ucc_team_h *out);
/* Makes a handle from hd_team_from_list or hd_team_shrink ACTIVE at once: its operations wait until
 * all members have come, as after heddle_join. */
ucc_status_t hd_team_form_ahead(ucc_team_h team);
/* Called by ucc_context_create: finds the other contexts of the exchange. Blocks, by contract.
 * unplaced: oob_ep is not known; the context's place among them is where its own record is. */
ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced);
/* Called by one thread of each process, and blocks: makes the group of this process, in the team
 * that these processes make together (processes.c). The caller gets a reference to it. */
ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **group);
/* Called instead of hd_context_meet or hd_team_join_processes by who can't do that, for this reason
 * (`who`, for the log: context or process): takes part in the exchange of records, so that the
 * others get an error instead of waiting. oob is valid. Blocks. */
void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, ucc_status_t why);
/* Called when a context ends: the context is no part of the others' any more. */
void hd_context_part(ucc_context_h context);
/* Writes 128 bits that name this process: its pid, the namespace that has given it, and random
 * ones. They are drawn once per process, and again after a fork. */
void hd_process_identity(uint64_t identity[2]);
/* The pid of the process of that name, which is or was on this host, as this process sees it; 0: it
 * is not known. */
uint32_t hd_process_pid(const uint64_t identity[2]);

#endif
