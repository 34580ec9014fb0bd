/* internal.h: the state of an endpoint that forms a team, and what the files of form/ call of each
 * other. Nobody outside form/ includes this: others call what form.h declares.
 *
 * The files, bottom up; each calls only those above it in this list:
 *
 *     record.c         what a member of an exchange says of itself (roll.h)
 *     roll.c           exchanges, and addresses of processes (roll.h)
 *     context_group.c  contexts that know each other
 *     handle.c         team handles as memory: made, attached to a group, freed (form.h); begin and
 *                      end of the state below
 *     span.c           who lives where, and the group of several processes
 *     meet.c           the meeting of a team's endpoints in this process
 *     split.c          a team from a parent of several processes, by all of its endpoints
 *     oob.c            the exchange before that meeting
 *     processes.c      the group of a heddle_group that spans processes (form.h)
 *     shrink.c         a team of those that are left of one
 *     form.c           create, the steps of an endpoint until its team is complete, and the end of
 *                      a handle (form.h)
 *     derive.c         every kind of team from a parent (form.h)
 *
 * The sections below stand in this order; files without a section are called through the header
 * that the list names.
 */
#ifndef HD_FORM_INTERNAL_H
#define HD_FORM_INTERNAL_H

#include "form/form.h"
#include "form/roll.h"
#include "request/request.h"
#include "threads/meet.h"

/* What the next call of hd_team_create_test does. By an exchange: GATHER, then ROLL if there are
 * several processes, MEET, COMPLETE. A split of a team of several processes: SPLIT, MEET, ...;
 * all others begin with MEET. */
typedef enum hd_form_step {
    STEP_GATHER,  /* waits for the exchange of records */
    STEP_ROLL,    /* waits for the exchanges of the roll */
    STEP_SPLIT,   /* waits for the parent's endpoints, and for the other processes' */
    STEP_MEET,    /* waits for the meeting, and joins its group */
    STEP_COMPLETE /* waits until all have joined */
} hd_form_step_t;

/* The state of an endpoint that forms a team: from hd_form_begin to hd_form_drop. Only the handle's
 * user touches it, but for the notice, which others find (threads/meet.h). */
struct hd_forming {
    hd_form_step_t step;
    /* Without an exchange, only the label, span and net of the roll are set, and `all` is NULL. A
     * team in one process has no span. Whoever makes the group gives span and net to its
     * crossing. */
    hd_roll_t roll;
    /* These are set for several processes: */
    hd_net_process_t *process; /* the processes, as the net knows them */
    uint64_t wire;             /* names the team on the network */
    hd_origin_t origin;        /* of a team that was left by another one */
    bool ahead;                /* the team does not wait for other processes (span.h) */
    /* The rest is for any number of processes. */
    ucc_status_t refused; /* why it could not make the group; UCC_OK: it has not failed to */
    hd_notice_t notice;   /* up while this endpoint is forming by an exchange */
    hd_meeting_t *meeting;
    uint32_t meets, participant; /* participants of the meeting; which of them this one is */
    uint32_t split_of;           /* how many endpoints the parent has; 0: the team is no split */
    bool uncounted;     /* it has come to no meeting yet, or there was no memory for the last one */
    hd_group_t *parent; /* of a split: the parent's, pinned */
    uint64_t split;     /* of a split: its number */
    uint32_t parent_ep; /* of a split: this endpoint's number in the parent */
    /* ticks at which this endpoint first wanted to go (split.c); 0: it has not */
    uint64_t since;
    /* The meeting only had to count this endpoint, which takes no part in the team that a split
     * makes; or whose team is active ahead of the others (hd_team_form_ahead). */
    bool excluded;
    bool sort_labels; /* numbers are the ranks of the labels */
    bool unplaced;    /* number and label follow from the records */
    uint32_t forks;   /* hd_forks() at the beginning */
    uint32_t looks;   /* calls of hd_form_watch */
    uint32_t watched; /* index in `all` of the record whose notice is looked at next */
    hd_stall_t stall;
    hd_locality_t locality;
    void *memory; /* the endpoint's part of the team's memory */
    size_t bytes;
    bool owns_memory;
};

/* --- context_group.c -------------------------------------------------------------------------- */

/* What a process knows of the contexts of one out-of-band exchange over several processes. It is
 * found out once, and shared by all contexts of that exchange in this process. Nothing changes
 * after it was made. */
typedef struct hd_context_group {
    /* which contexts live in which process; contexts are numbered by rank */
    hd_span_t *span;
    hd_net_t *net;             /* a reference; NULL: there is no network */
    hd_net_process_t *process; /* by the span's numbers; NULL: there is no network */
    hd_meeting_t *meeting;     /* of those contexts, each of which has a reference */
    uint32_t forks;            /* hd_forks() when made */
} hd_context_group_t;

/* --- handle.c --------------------------------------------------------------------------------- */

/* Allocates team->forming. UCC_ERR_NO_MEMORY: logged. */
ucc_status_t hd_form_begin(ucc_team_h team);
/* Lets go of everything that only forming needed, and of team->forming. */
void hd_form_drop(ucc_team_h team);

/* --- span.c ----------------------------------------------------------------------------------- */

/* Sets the team's size, this endpoint's number and, if they live in several processes, the span of
 * the n members of a list, of which the caller is the me-th. The list has their numbers in `of`;
 * NULL: all of these live in this process. */
ucc_status_t hd_form_take_list(ucc_team_h team, const hd_span_t *of, const uint64_t *list,
                               uint32_t n, uint32_t me);
/* Gives a team that has a span of a list the rest that its crossing needs: a reference to the
 * network, and its processes. These are known by their numbers in `of`, as the net knows them, or
 * by their identities alone, if the net knows their addresses already. */
ucc_status_t hd_form_cross(ucc_team_h team, const hd_span_t *of, const uint64_t *list,
                           const hd_net_process_t *process, uint64_t (*identity)[2]);
/* Makes this process's group of a team in several processes, with its crossing, to which the roll's
 * span and net, and the origin, belong then. names: the records with the user's names for the
 * endpoints; NULL: they are called by their numbers. */
ucc_status_t hd_form_make_crossing(ucc_team_h team, const hd_record_t *names, hd_group_t **out);
/* Tells the other processes that there will be no group here. Only an endpoint that could have made
 * the group calls this. */
void hd_form_refuse(const ucc_team_h team, ucc_status_t why);
/* Other processes count on endpoints of this one that will not come to the new team, and can't be
 * told otherwise: fails the parent, which who forms a team of it looks at
 * (hd_form_meeting_status). */
void hd_form_fail_parent(const ucc_team_h team, ucc_status_t why);

/* --- meet.c ----------------------------------------------------------------------------------- */

/* A set whose members make teams of lists of themselves. */
typedef struct hd_known {
    const hd_span_t *span; /* NULL: all of its members live in this process */
    /* see hd_form_cross; both NULL: there is no network */
    const hd_net_process_t *process;
    uint64_t (*identity)[2];
    uint64_t origin;      /* names the set, the same in all processes */
    hd_lock_t *lock;      /* guards `lists` */
    hd_ordinals_t *lists; /* by list: how many teams were made of it */
} hd_known_t;

/* Returns how often this list has been counted in the set, with this time; 0: no memory (logged).
 */
uint64_t hd_form_count_list(const hd_known_t *known, hd_fingerprint_t list);
/* Sets *me to the place of `own` in the list, or to HD_MEET_ANY if it is not there. Checks that all
 * entries are below limit, and none comes twice (logged). */
ucc_status_t hd_form_check_list(const uint64_t *list, uint64_t n, uint64_t limit, uint64_t own,
                                uint32_t *me);
/* Enters a meeting of `size` endpoints of this process as participant `me`. On success, the next
 * step is STEP_MEET, and team->ep is the participant's number. */
ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included);
/* Enters the meeting of those of the team's members that live in this process. The team's span, its
 * size and this endpoint's number are known. */
ucc_status_t hd_form_meet_members(ucc_team_h team, const hd_meet_key_t *key);
/* Starts a team of n members of the set, whom the list gives by their numbers in it; the caller is
 * the me-th. Those of this process meet by the key, in which key->list stands for the list; the
 * processes meet by their greeting. */
ucc_status_t hd_form_start_by_list(ucc_team_h team, const hd_known_t *known,
                                   const hd_meet_key_t *key, const uint64_t *list, uint32_t n,
                                   uint32_t me);
/* Fails the meeting of the list, for its me-th member, who has not come for want of memory.
 * key->id: as of which time the list was counted; 0: it was not. */
void hd_form_refuse_list(const hd_known_t *known, const hd_meet_key_t *key, hd_entry_fn *at,
                         const void *list, uint32_t n, uint32_t me);
/* Fails a meeting of n, for participant `me`, who can't take part in it: so the others do not
 * wait. Returns false if there is no memory even for that, and nobody knows of it. */
bool hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me, ucc_status_t why);
/* Check the parameters, and start the meeting that these ask for. */
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params);
/* STEP_MEET. */
ucc_status_t hd_form_meet(ucc_team_h team);
/* Returns the group of the endpoint's meeting, if it has been made; if not, none will be. */
hd_group_t *hd_form_made_group(hd_meeting_t *meeting);
/* Returns why the endpoint's meeting has failed (logged), or the parent of a split in several
 * processes; UCC_OK: neither has. */
ucc_status_t hd_form_meeting_status(ucc_team_h team);
/* Called again and again while not all endpoints have joined: returns what the above does, and
 * looks now and then whether one of the others has given up before it came there. Returns why
 * (logged); UCC_OK: not as far as is known. */
ucc_status_t hd_form_watch(ucc_team_h team);
/* Logs for whom the team has been waiting in STEP_MEET; the wait has been long. */
void hd_form_stalled_meeting(ucc_team_h team, uint64_t now);

/* --- split.c: only for a split of a team of several processes --------------------------------- */

/* STEP_SPLIT: tells the other processes who takes part, and goes on to the meeting of
 * those. */
ucc_status_t hd_form_split(ucc_team_h team);
/* Called by an endpoint that has failed in STEP_SPLIT, and has failed the parent's meeting. Tells
 * the other processes `why`, if nothing has been told yet; if they have been told that this
 * endpoint comes, goes on to the meeting of those who take part, which is to be failed, too. If
 * nobody here can go on, the parent fails. */
void hd_form_give_up_split(ucc_team_h team, ucc_status_t why);
/* Called by an endpoint that is destroyed: returns whether its process has not yet told and heard
 * all, and the endpoint has to come again. It returns false after two seconds in any case. */
bool hd_form_split_lingers(ucc_team_h team);

/* --- oob.c ------------------------------------------------------------------------------------ */

/* Prepares everything for the exchange, and checks the parameters. */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params);
/* Enters the exchange of records; the next step is STEP_GATHER. */
ucc_status_t hd_form_enter_oob(ucc_team_h team);
/* Returns a handle for an endpoint that lacks the memory to form a team: the handle only enters the
 * exchange, to say so there, and fails. NULL: there is no memory for that either (logged). */
ucc_team_h hd_form_refuse_oob(ucc_context_h context, const ucc_team_params_t *params,
                              bool unplaced);
/* STEP_GATHER and STEP_ROLL. */
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_call_roll(ucc_team_h team);

/* --- shrink.c: in a team of several processes ------------------------------------------------- */

/* Decides who is left of the parent, and enters the meeting of this process's endpoints. On an
 * error, the others of this process do not wait for this endpoint, unless there was no memory even
 * for the meeting. UCC_OK with a handle in the state FAILED: another endpoint of this process has
 * given up before. */
ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team);
/* Called instead, by an endpoint without the memory for a handle: the others of its process do not
 * wait. */
void hd_form_refuse_shrink(ucc_team_h parent);

/* --- form.c ----------------------------------------------------------------------------------- */

/* The team can't become complete without this endpoint, for this reason: tells all who have joined
 * it, or meet for it, and those who come later. */
void hd_form_fail(ucc_team_h team, ucc_status_t why);

#endif
