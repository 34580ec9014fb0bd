/* internal.h: the state of an endpoint that forms a team, and what the files of form/ call of each
 * other. Nobody outside form/ includes this: others call what form.h declares.
 *
 * Each file calls only those before it in this list: record.c, kin.c (kin.h), roll.c (roll.h),
 * context_group.c, handle.c, span.c, meet.c, share.c, split.c, oob.c, processes.c, form.c,
 * shrink.c, derive.c. The sections below stand in this order.
 */
#ifndef HD_FORM_INTERNAL_H
#define HD_FORM_INTERNAL_H

#include "form/form.h"
#include "form/roll.h"
#include "request/request.h"
#include "threads/meet.h"

/* What the next call of hd_team_create_test does. By an exchange: GATHER, ROLL if there are several
 * processes, MEET, COMPLETE. In a split of a team of several processes: SPLIT, SHARE if these share
 * memory, MEET, COMPLETE. Of members of a set: SHARE likewise, MEET, COMPLETE. All others begin
 * with MEET. */
typedef enum hd_form_step {
    STEP_GATHER,  /* waits for the exchange of records */
    STEP_ROLL,    /* waits for the exchanges of the roll */
    STEP_SPLIT,   /* waits for the parent's endpoints, and for the other processes' */
    STEP_SHARE,   /* waits for the memory that the team's processes share */
    STEP_MEET,    /* waits for the meeting, and joins its group */
    STEP_COMPLETE /* waits until all have joined */
} hd_form_step_t;

/* The state of an endpoint that forms a team, which only the handle's user touches, but for the
 * notice (threads/meet.h). */
struct hd_forming {
    hd_form_step_t step;
    /* Without an exchange, only the label, span, net and nodes of the roll are set, and `all` is
     * NULL. A team in one process has no span. Whoever makes the group gives span and net to its
     * crossing. */
    hd_roll_t roll;
    hd_group_config_t group_config; /* the roll's */
    /* as the net knows them; NULL: all live in this process, or in processes that share memory */
    hd_net_process_t *process;
    /* By process, where they use the network: why they share no memory with this one. NULL: not
     * known yet, or no memory. */
    hd_obstacle_t *obstacle;
    uint64_t wire; /* names a team of several processes */
    /* Of a team in several processes that share memory, or of which some do, made of members of a
     * set: a reference to the group in whose memory it is formed, and its processes. NULL, both: it
     * is none of these. */
    hd_group_t *scope;
    hd_kin_process_t *kin_process;
    /* Likewise, if the set has several nodes: the span of those of this process's, by their numbers
     * there, NULL: all are; and the name of the memory that they share. The roll has the nodes,
     * and the processes tell each other which of them share memory as they greet (span.h). */
    hd_span_t *node_span;
    uint64_t node_wire;
    hd_obstacle_t not_shared; /* why those don't */
    /* STEP_SPLIT of a parent whose processes share memory: to which this endpoint came, and by what
     * number */
    hd_birth_t *birth;
    uint32_t in_parent;
    /* Of a team that is made of the survivors of another one: a reference, and its endpoints'
     * numbers there, which live as long as the meeting. NULL, both: it is not. */
    hd_origin_t *origin;
    const uint64_t *in_origin;
    uint64_t over;      /* likewise: as hd_origin_ref_t has it */
    bool joins_ahead;   /* its memory is shared; hd_team_form_ahead */
    bool ahead;         /* the team does not wait for other processes (span.h) */
    hd_notice_t notice; /* up while this endpoint is forming by an exchange */
    hd_meeting_t *meeting;
    uint32_t meets, participant; /* participants of the meeting; which of them this one is */
    bool counted;       /* the others of its meeting know that it has come, or has failed */
    hd_group_t *parent; /* of a split: the parent's, pinned */
    uint64_t split;     /* of a split: its number */
    uint64_t since;     /* ticks when this endpoint first wanted to go (split.c); 0: it has not */
    /* The meeting only had to count this endpoint, which takes no part in the team that a split
     * makes; or whose team is active ahead of the others (hd_team_form_ahead). */
    bool excluded;
    bool sort_labels; /* numbers are the ranks of the labels */
    uint32_t forks;   /* hd_forks() at the beginning */
    uint64_t looks;   /* calls of hd_form_watch */
    hd_stall_t stall;
    hd_locality_t locality;
    void *memory; /* the endpoint's part of the team's memory */
    size_t bytes;
    bool owns_memory;
};

/* What a process knows of the contexts of one out-of-band exchange over several processes: shared
 * by those of them that live in this process, and never changed (context_group.c). */
typedef struct hd_context_group {
    hd_span_t *span;           /* which contexts live in which process, by rank */
    hd_net_t *net;             /* a reference; NULL: there is no network */
    hd_net_process_t *process; /* by the span's numbers; NULL: there is no network */
    /* its processes share memory: a group in which nobody joins, for teams to be formed in; a
     * reference. NULL: they don't */
    hd_group_t *scope;
    hd_obstacle_t *obstacle; /* likewise: why they share no memory with this one; NULL: not known */
    uint64_t serial;         /* its teams meet by it */
    hd_meeting_t *meeting;   /* of those contexts, each of which has a reference */
    uint32_t forks;          /* hd_forks() when made */
} hd_context_group_t;

/* --- handle.c --------------------------------------------------------------------------------- */

/* Returns a new handle that forms its team. tells: if there is no memory for that, the handle only
 * tells the others of its exchange. NULL: no memory (logged). */
ucc_team_h hd_form_begin(ucc_context_h *contexts, uint32_t n_contexts, bool tells);
/* Hands a handle to the caller, or frees it, if there is one, as its team can't be begun. */
ucc_status_t hd_form_give_out(ucc_team_h team, ucc_status_t status, ucc_team_h *out);
/* Lets go of everything that only forming needed, and of team->forming. */
void hd_form_drop(ucc_team_h team);
/* The endpoint, which is a member of the team's group, posts nothing more. */
void hd_form_leave(ucc_team_h team);

/* --- span.c ----------------------------------------------------------------------------------- */

/* A set of endpoints or contexts: in which processes they live, and how these reach each other. */
typedef struct hd_reach {
    const hd_span_t *span; /* NULL: all of them live in this process */
    /* By the span's numbers, as the net knows them; by their identities alone, if the net knows
     * their addresses already. NULL: there is no network. */
    const hd_net_process_t *process;
    /* Likewise, if they share memory; and the group in whose memory teams are formed. */
    const hd_kin_process_t *kin;
    hd_group_t *scope;
    const hd_obstacle_t *obstacle; /* likewise, if they don't: why not; NULL: not known */
    /* If some share memory: the nodes. Then kin and scope are those of this process's node, by its
     * numbers. NULL: there are none. */
    const hd_nodes_t *nodes;
} hd_reach_t;

hd_reach_t hd_form_reach_of(const hd_group_t *group);
/* Sets the team's size, this endpoint's number and label, and, if the members of a list live in
 * several processes, all that its crossing needs: the span, a reference to the network, and the
 * processes; or what it needs to share memory (f->scope is set then, and the next step after the
 * meeting is STEP_SHARE). f->wire is set. The caller is the me-th; the list has their numbers in
 * `of`. */
ucc_status_t hd_form_take_list(ucc_team_h team, const hd_reach_t *of, const hd_list_t *list,
                               uint32_t me);
/* A process in which no endpoint has got so far that it shares memory can't take part in a team:
 * tells the others. */
typedef struct hd_refusal {
    hd_group_t *scope;
    uint64_t wire;            /* or the name of what the processes of a node share */
    uint32_t processes, mine; /* of the team, or of its node; this one's number */
    ucc_status_t why;
} hd_refusal_t;
void hd_form_refuse_sharing(const hd_refusal_t *refusal);
/* Makes this process's group of a team in several processes, with its crossing, to which the roll's
 * span and net belong then. names: records with the user's names for the
 * endpoints; NULL: they have none. */
ucc_status_t hd_form_make_crossing(ucc_team_h team, const hd_record_t *names, hd_group_t **out);
/* Tells the other processes that there will be no group here. Only who could have made it does. */
void hd_form_refuse(const ucc_team_h team, ucc_status_t why);
/* Fails the parent of a split, which those who split look at: other processes count on endpoints of
 * this one that will not come, and can't be told otherwise. */
void hd_form_fail_parent(const ucc_team_h team, ucc_status_t why);

/* --- meet.c ----------------------------------------------------------------------------------- */

/* Enters a meeting of `size` endpoints of this process as participant `me`. On success, the next
 * step is STEP_MEET. */
ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included);
/* Fails a meeting of n, for participant `me`, who can't take part in it. refusal: NULL, or what
 * other processes have to hear, if nobody of this one has told them. Returns false if there is no
 * memory even for that, and nobody knows of it. */
bool hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me,
                            const hd_refusal_t *refusal, ucc_status_t why);

/* Tells the other processes of a team, unless somebody of this one, which has that meeting, has. */
void hd_form_tell_refusal(hd_meeting_t *meeting, const hd_refusal_t *refusal);
/* Sets which processes share memory among the members of a list, how many they are, and the number
 * of this one among them. wire: the team's. */
void hd_form_find_sharers(const hd_reach_t *of, const hd_list_t *list, uint64_t wire,
                          hd_refusal_t *refusal);

/* Is the team used before all of its members have come? */
static inline bool hd_form_goes_ahead(const hd_forming_t *f) {
    return f->ahead || f->joins_ahead;
}

/* A set whose members make teams of lists of themselves. */
typedef struct hd_known {
    uint64_t scope; /* its serial number in this process */
    hd_reach_t reach;
    hd_net_t *net;        /* NULL: there is no network */
    uint64_t origin;      /* names the set, the same in all processes */
    const uint64_t *id;   /* tells teams of the same list apart; NULL: their order does */
    hd_lock_t *lock;      /* guards `lists` */
    hd_ordinals_t *lists; /* by list: how many teams were made of it */
} hd_known_t;

/* Sets *me to the place of `own` in the list. UCC_ERR_INVALID_PARAM: it is not there, an entry is
 * not below limit, or comes twice (logged). UCC_ERR_NO_MEMORY: the latter has not been checked
 * (logged). */
ucc_status_t hd_form_check_list(const hd_list_t *list, uint32_t limit, uint32_t own, uint32_t *me);
/* Starts a team of members of the set, whom the list gives by their numbers in it; the caller is
 * the me-th. Those of this process meet by the list, the processes by their greeting. For want of
 * memory, the others are told that this member does not come; team is NULL if that is known. */
ucc_status_t hd_form_start_by_list(ucc_team_h team, const hd_known_t *known, const hd_list_t *list,
                                   uint32_t me);
/* Both check the parameters, and start the meeting that these ask for. team: as above. */
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, ucc_context_h context,
                                  const ucc_team_params_t *params);
/* STEP_MEET. */
ucc_status_t hd_form_meet(ucc_team_h team);
/* Returns the group of the endpoint's meeting, if it has been made; if not, none will be. */
hd_group_t *hd_form_made_group(hd_meeting_t *meeting);
/* Returns why the endpoint's meeting has failed (logged), or the parent of a split in several
 * processes; UCC_OK: neither has. */
ucc_status_t hd_form_meeting_status(ucc_team_h team);
/* Returns the same, or, as it looks now and then, why an endpoint has given up before it came to
 * the meeting (logged). Called again and again while not all have joined. */
ucc_status_t hd_form_watch(ucc_team_h team);
/* Adds to a text who has not come to the meeting yet. */
void hd_form_name_missing(const ucc_team_h team, hd_text_t *text);

/* --- share.c ---------------------------------------------------------------------------------- */

/* STEP_SHARE: goes on when all of the team's processes have its memory. */
ucc_status_t hd_form_share(ucc_team_h team);
/* Has the endpoint waited for others until the time-out (TIMEOUT)? Counts from its first call, and
 * once more when it is known who takes part in a split. */
bool hd_form_has_waited(ucc_team_h team);
/* For people, while it waits for processes to share memory with: which those are. */
void hd_form_share_awaits(ucc_team_h team, hd_text_t *text);
/* An endpoint that has a scope gives up before STEP_MEET: tells the other processes. */
void hd_form_give_up_sharing(ucc_team_h team, ucc_status_t why);

/* --- split.c: only for a split of a team of several processes --------------------------------- */

/* STEP_SPLIT: tells the other processes who takes part, and goes on when all have. */
ucc_status_t hd_form_split(ucc_team_h team);
/* Instead of a meeting, if the parent's processes share memory: the endpoint says in the parent's
 * memory whether it takes part. On success, the next step is STEP_SPLIT, unless the team's state is
 * EXCLUDED. */
ucc_status_t hd_form_come_to_split(ucc_team_h team, bool included);
/* For people: adds for whom it waits. False: for none, or that can't be seen. */
bool hd_form_split_awaits(const ucc_team_h team, hd_text_t *text);
/* Called by an endpoint that has failed in STEP_SPLIT, and has failed the meeting: sees to it that
 * the other processes learn of that. If nobody here can tell them, the parent fails. */
void hd_form_give_up_split(ucc_team_h team, ucc_status_t why);
/* Called by an endpoint that is destroyed: returns whether it has to come again, since its process
 * has not yet told and heard all. It returns false after two seconds in any case. */
bool hd_form_split_lingers(ucc_team_h team);

/* --- oob.c ------------------------------------------------------------------------------------ */

/* Checks the parameters, and enters the exchange of records; the next step is STEP_GATHER. */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params, bool unplaced);
/* STEP_GATHER and STEP_ROLL. */
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_call_roll(ucc_team_h team);

/* --- form.c, shrink.c ------------------------------------------------------------------------- */

/* The team can't become complete without this endpoint, for this reason: tells all who have joined
 * it, or meet for it, and those who come later. */
void hd_form_fail(ucc_team_h team, ucc_status_t why);
/* Decides who is left of a parent in several processes, and enters the meeting of this process's
 * endpoints. origin: as hd_team_shrink has it. team: NULL if there was no memory for it. On an
 * error, the others of this process have been told, if there was memory for that. UCC_OK with a
 * handle in the state FAILED: another of them has given up before. */
ucc_status_t hd_form_start_shrink(ucc_team_h parent, hd_origin_t *origin, ucc_team_h team);

#endif
