/* internal.h: the state of an endpoint that forms a team, and what the files of form/ call of each
 * other. Nobody outside form/ includes this: others call what form.h declares.
 *
 * The files, bottom up; each calls only those above it in this list:
 *
 *     roll.c           addresses of processes, by exchanges (roll.h)
 *     context_group.c  contexts that know each other (context_group.h)
 *     forming.c        begin and end of the state below; the outstanding exchange
 *     handle.c         team handles as memory: made, attached to a group, freed (form.h)
 *     span.c           the group of a team of several processes
 *     split.c          a team from a parent of several processes, by all of its endpoints
 *     meet.c           teams whose endpoints meet without an exchange
 *     oob.c            teams that form by an exchange
 *     processes.c      the group of a heddle_group that spans processes (form.h)
 *     shrink.c         a team of those that are left of one
 *     derive.c         every kind of team from a parent (form.h)
 *     form.c           create, and the steps of an endpoint until its team is complete (form.h)
 *     destroy.c        the end of a handle (form.h)
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

/* Processes have to agree in the values of at most so many configuration variables. */
enum { HD_AGREED = 16 };

/* What an endpoint says of itself in the exchange. It holds no addresses: its reader may come when
 * the writer is gone, or live in another process, even one with another version of the library. So
 * it begins with the version and has one size in all versions. It is small, because each endpoint
 * of a team of hundreds keeps hundreds of them. */
typedef struct hd_record {
    alignas(64) uint32_t version;
    uint32_t number; /* endpoint number */
    uint64_t process[2], host;
    uint64_t label;     /* the user's name for the endpoint */
    uint64_t notice;    /* serial number of the endpoint's notice (threads/meet.h) */
    uint64_t variables; /* a few bits of the value of each variable that must agree (span.c) */
    uint32_t agreed;    /* a hash of all those values */
    uint8_t sync_type;
    int8_t trouble; /* UCC_OK, or why this endpoint can't form the team: then nobody does */
} hd_record_t;

_Static_assert(sizeof(hd_record_t) == 64, "all versions have records of one size");
_Static_assert((int)UCC_ERR_LAST >= INT8_MIN, "every status is in a record's range");

/* What the next call of hd_team_create_test does. By an exchange: GATHER, then OPEN to ADDRESSES if
 * there are several processes, FIND, JOIN, COMPLETE. Without one: MEET, JOIN, COMPLETE. */
typedef enum hd_form_step {
    STEP_GATHER,    /* waits for the exchange of records */
    STEP_OPEN,      /* waits for the process's network */
    STEP_ACCOUNTS,  /* waits for the exchange of how that went */
    STEP_ADDRESSES, /* waits for the exchange of the processes' addresses */
    STEP_FIND,      /* makes the group, or waits for the leader's notice of it */
    STEP_MEET,      /* waits for the meeting */
    STEP_JOIN,      /* joins the group that was found */
    STEP_COMPLETE   /* waits until all have joined */
} hd_form_step_t;

/* The state of an endpoint that forms a team: from hd_form_begin to hd_form_drop. Only the handle's
 * user touches it, but for the notice, which others find (threads/meet.h). */
struct hd_forming {
    hd_form_step_t step;
    ucc_oob_coll_t oob;
    void *request; /* of the outstanding allgather; NULL: there is none */
    hd_record_t mine, *all;
    uint64_t *seen; /* a bit for each endpoint number, for check_records */
    /* For several processes. With an exchange, roll.told lies in the memory of `all`; without one,
     * only the roll's span and net are set. Whoever makes the group gives span and net to its
     * crossing. */
    hd_roll_t roll;
    /* These are set for several processes, at whoever may make the group: */
    hd_net_process_t *process; /* the processes, as the net knows them */
    uint64_t wire;             /* names the team on the network */
    hd_origin_t origin;        /* of a team that was left by another one */
    bool ahead;                /* the team does not wait for other processes (span.h) */
    ucc_status_t refused;      /* why it could not make the group; UCC_OK: it has not failed to */
    /* The rest is for any number of processes. */
    uint32_t leader;    /* number of this process's lowest endpoint, which makes the group */
    hd_notice_t notice; /* up while this endpoint is forming by an exchange */
    hd_home_t *pinned;  /* the group that a notice has told of; a reference */
    hd_meeting_t *meeting;
    uint32_t split_of;  /* how many endpoints the parent has; 0: the team is no split */
    hd_group_t *parent; /* of a split of a team of several processes: the parent's, pinned */
    uint64_t split;     /* of such a split: its number */
    uint32_t parent_ep; /* of such a split: this endpoint's number in the parent */
    /* ticks at which this endpoint first wanted to go (split.c); 0: it has not */
    uint64_t since;
    uint32_t meets; /* participants of the meeting */
    /* The meeting only had to count this endpoint, which takes no part in the team that a split
     * makes; or whose team is active ahead of the others (hd_team_form_ahead). */
    bool excluded;
    bool sort_labels;  /* numbers are the ranks of the labels */
    bool unplaced;     /* number and label follow from the records */
    hd_group_t *group; /* the group that was found; the meeting, or `pinned`, has the reference */
    uint32_t forks;    /* hd_forks() at the beginning */
    bool checked;      /* hd_form_find has been called; `watched` was the leader's record then */
    uint32_t looks;    /* calls of hd_form_watch */
    uint32_t watched;  /* index in `all` of the record whose notice is looked at next */
    hd_stall_t stall;
    hd_locality_t locality;
    void *memory; /* the endpoint's part of the team's memory */
    size_t bytes;
    bool owns_memory;
};

/* --- forming.c -------------------------------------------------------------------------------- */

/* Allocates team->forming. UCC_ERR_NO_MEMORY: logged. */
ucc_status_t hd_form_begin(ucc_team_h team);
/* Lets go of everything that only forming needed, and of team->forming. */
void hd_form_drop(ucc_team_h team);
/* Starts an allgather of the team's OOB. None may be outstanding. */
ucc_status_t hd_form_exchange(ucc_team_h team, void *mine, void *all, size_t bytes);
/* Returns UCC_INPROGRESS while that allgather is outstanding; else frees it and returns how it
 * ended. */
ucc_status_t hd_form_exchanged(ucc_team_h team);
/* For who only asks which group a meeting has: makes none. */
void *hd_form_make_nothing(void *arg);
/* Gives back a meeting's reference to the group that the meeting was about. */
void hd_form_drop_group(void *group);
/* Returns why the endpoint's meeting has failed (logged); UCC_OK: it has not. */
ucc_status_t hd_form_meeting_status(ucc_team_h team);

/* --- span.c: what must agree ------------------------------------------------------------------ */

/* Writes hashes of the values in which processes have to agree. */
void hd_form_agree(const hd_config_t *config, uint16_t hashes[HD_AGREED]);
/* Returns the name of the first variable in which two processes differ; NULL: they agree. */
const char *hd_form_disagreed(const uint16_t one[HD_AGREED], const uint16_t other[HD_AGREED]);
/* Returns one number for all that processes have to agree on; they compare it as they greet each
 * other. */
uint32_t hd_form_terms(const uint16_t hashes[HD_AGREED], bool two_sided, uint32_t n);
/* Writes version, host and those values into this endpoint's record, before the exchange. */
void hd_form_sign(ucc_team_h team);
/* Checks that all records agree in what a team needs. UCC_ERR_INVALID_PARAM: logs what differs. */
ucc_status_t hd_form_check_signs(const ucc_team_h team);

/* --- span.c: several processes, by an exchange ------------------------------------------------ */

/* The records are good, and come from several processes: makes the span, and sets the leader. If
 * that fails, the roll's next exchange tells the others. */
void hd_form_span(ucc_team_h team);
/* STEP_OPEN, STEP_ACCOUNTS and STEP_ADDRESSES. */
ucc_status_t hd_form_open(ucc_team_h team);
ucc_status_t hd_form_accounts(ucc_team_h team);
ucc_status_t hd_form_addresses(ucc_team_h team);

/* --- span.c: several processes, without an exchange ------------------------------------------- */

/* Returns the span of n members. The list has their numbers in `of`; entry `me` is the caller's.
 * NULL: no memory (logged). */
hd_span_t *hd_form_span_of_list(const hd_span_t *of, const uint64_t *list, uint32_t n, uint32_t me);
/* Gives the forming team what its crossing needs: the span, a reference to the network, and its
 * processes. `process` has these by their numbers in `of`. The span belongs to the team afterwards,
 * whatever is returned. */
ucc_status_t hd_form_cross(ucc_team_h team, hd_span_t *span, const hd_span_t *of,
                           const uint64_t *list, const hd_net_process_t *process);
/* Calls hd_form_cross for a team from a parent, with the processes that the parent's crossing
 * knows. It takes the span, too: if it fails before that, it frees it. */
ucc_status_t hd_form_cross_from(ucc_team_h team, hd_span_t *span, const hd_crossing_t *crossing,
                                const uint64_t *list);

/* --- span.c: the group of several processes --------------------------------------------------- */

/* Makes this process's group with its crossing; one endpoint of the process calls this. NULL:
 * logged, and the other processes, and the meeting if there is one, have been told. */
hd_group_t *hd_form_make_spanning(ucc_team_h team);
/* Returns why no group was made, to an endpoint that has asked for one in vain. */
ucc_status_t hd_form_why_no_group(const ucc_team_h team);
/* Tells the other processes that there will be no group here. Only an endpoint that could have made
 * the group calls this. */
void hd_form_refuse(const ucc_team_h team, ucc_status_t why);

/* --- split.c: only for a split of a team of several processes (f->parent is set) -------------- */

/* STEP_MEET of a split: tells the other processes who takes part, and finds the group. */
ucc_status_t hd_form_split(ucc_team_h team);
/* Called by an endpoint that has failed before it had a group. Tells the other processes `why`, if
 * nothing has been told yet; from now on no endpoint of this process makes the group. Returns the
 * group, not pinned, if it has been made; else NULL. */
hd_group_t *hd_form_give_up_split(ucc_team_h team, ucc_status_t why);
/* Called by an endpoint that is destroyed: returns whether its process has not yet told and heard
 * all, and the endpoint has to come again. It returns false after two seconds in any case. */
bool hd_form_split_lingers(ucc_team_h team);
/* Lets go of splits whose exchanges ended under a lane's lock, where groups can't end. The caller
 * holds no lock. */
void hd_form_settle(void);

/* --- meet.c ----------------------------------------------------------------------------------- */

/* Returns how often this list has been counted, with this time; 0: no memory (logged). The caller
 * holds the lock that guards `lists`. */
uint64_t hd_form_count_list(hd_ordinals_t *lists, hd_fingerprint_t list);
/* Checks that all entries are below limit, and none comes twice (logged). */
ucc_status_t hd_form_check_list(const uint64_t *list, uint64_t n, uint64_t limit);
/* Enters a meeting of `size` endpoints of this process as participant `me`. On success, the next
 * step is STEP_MEET, and team->ep is the participant's number. */
ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included);
/* Starts a team of a list whose members live in several processes. Those of this process meet; the
 * processes meet by their greeting. key: the meeting's, if all members lived here. ordinal: how
 * often the list has been counted. origin: names what the list's entries count, the same number in
 * all processes. */
ucc_status_t hd_form_start_crossing(ucc_team_h team, const hd_meet_key_t *key, uint64_t ordinal,
                                    uint64_t origin, uint32_t me);
/* Fails a meeting of n, for participant `me`, who can't take part in it: so the others do not
 * wait. */
void hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me, ucc_status_t why);
/* Check the parameters, and start the meeting that these ask for. */
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params);
/* STEP_MEET. */
ucc_status_t hd_form_meet(ucc_team_h team);
/* Logs for whom the team has been waiting in STEP_MEET; the wait has been long. */
void hd_form_stalled_meeting(ucc_team_h team, uint64_t now);

/* --- oob.c ------------------------------------------------------------------------------------ */

/* Prepares everything for the exchange, and checks the parameters. */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params);
/* Enters the exchange of records; the next step is STEP_GATHER. */
ucc_status_t hd_form_enter_oob(ucc_team_h team);
/* Returns a handle for an endpoint that lacks the memory to form a team: the handle only enters the
 * exchange, to say so there, and fails. NULL: there is no memory for that either (logged). */
ucc_team_h hd_form_refuse_oob(ucc_context_h context, const ucc_team_params_t *params,
                              bool unplaced);
/* STEP_GATHER and STEP_FIND. */
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_find(ucc_team_h team);
/* Called again and again while not all endpoints have joined: looks now and then whether one of the
 * others has given up. Returns why (logged); UCC_OK: not as far as is known. */
ucc_status_t hd_form_watch(ucc_team_h team);

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

/* The team can't become complete without this endpoint: tells all who have joined it, or meet for
 * it, and those who come later. */
void hd_form_give_up(ucc_team_h team, ucc_status_t why);

#endif
