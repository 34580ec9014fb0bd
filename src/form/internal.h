/* internal.h: between the files that form teams: form.c (parameters and driving), oob.c, meet.c,
 * and handle.c.
 */
#ifndef HD_FORM_INTERNAL_H
#define HD_FORM_INTERNAL_H

#include "form/form.h"
#include "form/roll.h"
#include "request/request.h"
#include "threads/meet.h"

enum {
    HD_AGREED = 16
}; /* variables of the configuration by which processes have to agree, at most */

/* What an endpoint says of itself in the exchange. No addresses: who holds this may come late, or
 * be another process, of another version of the library even: it begins with that, and has the same
 * size in all. Small: teams of hundreds keep hundreds of each other's. */
typedef struct hd_record {
    alignas(64) uint32_t version;
    uint32_t number; /* endpoint number */
    uint64_t process[2], host;
    uint64_t label;
    uint64_t notice;    /* serial number of the endpoint's notice (threads/meet.h) */
    uint64_t variables; /* a few bits of the value of each that must agree (span.c), */
    uint32_t agreed;    /* and a hash of all of them */
    uint8_t sync_type;
    int8_t trouble; /* UCC_OK, or why this endpoint can't form the team: then nobody does */
} hd_record_t;

_Static_assert(sizeof(hd_record_t) == 64, "all versions have records of one size");
_Static_assert((int)UCC_ERR_LAST >= INT8_MIN, "every status is in a record's range");

typedef enum hd_form_step {
    STEP_GATHER,
    STEP_OPEN,      /* several processes: the net */
    STEP_ACCOUNTS,  /* exchange of how that went */
    STEP_ADDRESSES, /* exchange of the processes' addresses */
    STEP_FIND,
    STEP_MEET,
    STEP_JOIN,
    STEP_COMPLETE
} hd_form_step_t;

struct hd_forming {
    hd_form_step_t step;
    ucc_oob_coll_t oob;
    void *request;
    hd_record_t mine, *all;
    uint64_t *seen; /* a bit per number, for check_records */
    /* several processes: by an exchange, `told` lies behind `all`; without, the roll has a span and
       a net alone. Who makes the group gives those two away */
    hd_roll_t roll;
    hd_net_process_t *process; /* then, at whoever makes the group */
    uint64_t wire;             /* then, likewise */
    hd_origin_t origin;        /* then, likewise, of a team that is left by another */
    bool ahead; /* then, likewise: the team does not wait for other processes (span.h) */
    ucc_status_t
        refused;     /* then: why there is none; UCC_OK: there is, or another endpoint makes it */
    uint32_t leader; /* number of the lowest endpoint of this process, who makes the group */
    hd_notice_t notice; /* up while this endpoint is forming by an exchange */
    hd_home_t *pinned;  /* the group, found by a notice */
    hd_meeting_t *meeting;
    uint32_t split_of;  /* a split: endpoints of the parent; else 0 */
    hd_group_t *parent; /* a split of a team of several processes: the parent's, pinned */
    uint64_t split;     /* likewise: its number, */
    uint32_t parent_ep; /* and mine in the parent */
    uint64_t since;     /* ticks; 0, or when this endpoint first wanted to go (split.c) */
    uint32_t meets;     /* so many meet */
    bool excluded;      /* takes no part in the team that a split makes */
    bool sort_labels;   /* numbers are the ranks of the labels */
    bool unplaced;      /* number and label follow from the records */
    hd_group_t *group;  /* found; referenced by the meeting, or pinned */
    uint32_t forks;     /* hd_forks() at the beginning */
    bool checked;       /* the records, by hd_form_find */
    uint32_t looks;     /* in vain, for the rest to join */
    uint32_t watched;   /* whose notice is looked at next */
    hd_stall_t stall;
    hd_locality_t locality;
    void *memory;
    size_t bytes;
    bool owns_memory;
};

/* forming.c */
ucc_status_t hd_form_begin(ucc_team_h team);
/* Lets go of everything that only forming needed. */
void hd_form_drop(ucc_team_h team);
/* Starts an allgather of the team's OOB; and looks whether it is over: then it is freed. */
ucc_status_t hd_form_exchange(ucc_team_h team, void *mine, void *all, size_t bytes);
ucc_status_t hd_form_exchanged(ucc_team_h team);
/* What a meeting does with a group at its end. */
void hd_form_drop_group(void *group);
/* UCC_OK, or why those whom I meet will never be complete (logged). */
ucc_status_t hd_form_meeting_status(ucc_team_h team);

/* form.c */
/* The team can't become complete without me: those who join it, or have, must not wait for that. */
void hd_form_give_up(ucc_team_h team, ucc_status_t why);

/* oob.c */
/* Gets ready for the exchange; and enters it. */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_enter_oob(ucc_team_h team);
/* A handle for who has no memory to get ready: it enters the exchange to say so there, and fails.
 * NULL: no memory for that either (logged). */
ucc_team_h hd_form_refuse_oob(ucc_context_h context, const ucc_team_params_t *params,
                              bool unplaced);
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_find(ucc_team_h team);
/* Now and then, while the rest have not joined: have they given up? UCC_OK: not that I know. */
ucc_status_t hd_form_watch(ucc_team_h team);

/* span.c: by what processes have to agree: hashes of the values, */
void hd_form_agree(const hd_config_t *config, uint16_t hashes[HD_AGREED]);
/* the name of the first variable in which two differ (NULL: none), */
const char *hd_form_disagreed(const uint16_t one[HD_AGREED], const uint16_t other[HD_AGREED]);
/* and one number for all that, which processes compare as they greet each other. */
uint32_t hd_form_terms(const uint16_t hashes[HD_AGREED], bool two_sided, uint32_t n);

/* span.c: what comes between finding the records and the group, if endpoints live in several
 * processes */
/* Into my record, before the exchange. */
void hd_form_sign(ucc_team_h team);
/* Do all agree in what a team of several processes needs? Logs what differs. */
ucc_status_t hd_form_check_signs(const ucc_team_h team);
/* The records are good, and from several processes. */
void hd_form_span(ucc_team_h team);
ucc_status_t hd_form_open(ucc_team_h team);
ucc_status_t hd_form_accounts(ucc_team_h team);
ucc_status_t hd_form_addresses(ucc_team_h team);
/* The group with its crossing, by one endpoint of the process. NULL: logged, and the others know.
 */
hd_group_t *hd_form_make_spanning(ucc_team_h team);
/* To who has asked for a group, and got none. */
ucc_status_t hd_form_why_no_group(const ucc_team_h team);
/* There will be no group here: tells the other processes. By who would have made it. */
void hd_form_refuse(const ucc_team_h team, ucc_status_t why);

/* What a team needs to cross processes, by whoever may make its group: the span of members whom a
 * list names by their numbers in `of`, the me-th of which is the caller's (NULL: no memory,
 * logged); and the rest, of processes that `process` names by their numbers there, or as a crossing
 * knows them. Both take the span, whatever comes of it. */
hd_span_t *hd_form_span_of_list(const hd_span_t *of, const uint64_t *list, uint32_t n, uint32_t me);
ucc_status_t hd_form_cross(ucc_team_h team, hd_span_t *span, const hd_span_t *of,
                           const uint64_t *list, const hd_net_process_t *process);
ucc_status_t hd_form_cross_from(ucc_team_h team, hd_span_t *span, const hd_crossing_t *crossing,
                                const uint64_t *list);

/* split.c: in a team of several processes, f->parent */
ucc_status_t hd_form_split(ucc_team_h team);
/* Instead of a group that this endpoint needs: tells whoever has to know. The group, if there is
 * one. */
hd_group_t *hd_form_give_up_split(ucc_team_h team, ucc_status_t why);
/* By an endpoint that goes: its process has not told and heard all. Not for ever. */
bool hd_form_split_lingers(ucc_team_h team);
/* Lets go of what has ended under a lane's lock. Under none. */
void hd_form_settle(void);

/* shrink.c: in a team of several processes. */
ucc_status_t hd_form_start_shrink(ucc_team_h parent, ucc_team_h team);
/* Instead of it, for want of memory: the others of this process need not wait. */
void hd_form_refuse_shrink(ucc_team_h parent);

/* meet.c */
/* As one of `size` endpoints of this process; team->ep is `me` then. */
ucc_status_t hd_form_start_meeting(ucc_team_h team, const hd_meet_key_t *key, uint32_t size,
                                   uint32_t me, bool included);
/* Instead of it: participant `me` does not come, and the others need not wait. */
void hd_form_refuse_meeting(const hd_meet_key_t *key, uint32_t n, uint32_t me, ucc_status_t why);
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_meet(ucc_team_h team);
/* The caller's team has been waiting in this step for long: says for whom. */
void hd_form_stalled_meeting(ucc_team_h team, uint64_t now);
/* How often this list has been counted; 0: no memory (logged). Under the lock that guards the
 * counts. */
uint64_t hd_form_count_list(hd_ordinals_t *lists, hd_fingerprint_t list);
/* Its entries are below limit, and none comes twice. */
ucc_status_t hd_form_check_list(const uint64_t *list, uint64_t n, uint64_t limit);
/* The members of the list who live here meet; the others are met by the greeting. key: as if all
 * lived here. */
ucc_status_t hd_form_start_crossing(ucc_team_h team, const hd_meet_key_t *key, uint64_t ordinal,
                                    uint64_t origin, uint32_t me);

#endif
