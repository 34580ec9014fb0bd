/* form.h: between the files that form teams: form.c (parameters and driving), form_oob.c, form_meet.c,
 * and handle.c.
 */
#ifndef HD_TEAM_FORM_H
#define HD_TEAM_FORM_H

#include "team/team.h"
#include "threads/meet.h"

/* What an endpoint says of itself in the exchange. No addresses: who holds this may come late, or be
 * another process. */
typedef struct hd_record {
    uint64_t process[2];
    uint64_t number; /* endpoint number */
    uint64_t label;
    uint64_t notice; /* serial number of the endpoint's notice (threads/meet.h) */
    uint32_t sync_type;
    hd_locality_t locality;
} hd_record_t;

typedef enum hd_form_step {
    STEP_GATHER,
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
    uint64_t *seen;     /* a bit per number, for check_records */
    hd_notice_t notice; /* up while this endpoint is forming by an exchange */
    hd_home_t *pinned;  /* the group, found by a notice */
    hd_meeting_t *meeting;
    uint32_t split_of; /* a split: endpoints of the parent; else 0 */
    bool excluded;     /* takes no part in the team that a split makes */
    bool sort_labels;  /* numbers are the ranks of the labels */
    bool unplaced;     /* number and label follow from the records */
    hd_group_t *group; /* found; referenced by the meeting, or pinned */
    uint32_t forks;    /* hd_forks() at the beginning */
    bool checked;      /* the records, by hd_form_find */
    uint32_t looks;    /* in vain, for the rest to join */
    uint32_t watched;  /* whose notice is looked at next */
    hd_stall_t stall;
    hd_locality_t locality;
    void *memory;
    size_t bytes;
    bool owns_memory;
};

ucc_status_t hd_form_begin(ucc_team_h team);
/* Lets go of everything that only forming needed. */
void hd_form_drop(ucc_team_h team);
/* The team can't become complete without me: those who join it, or have, must not wait for that. */
void hd_form_give_up(ucc_team_h team, ucc_status_t why);

/* form_oob.c */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_find(ucc_team_h team);
/* Now and then, while the rest have not joined: have they given up? UCC_OK: not that I know. */
ucc_status_t hd_form_watch(ucc_team_h team);

/* form_meet.c */
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_meet(ucc_team_h team);
/* The caller's team has been waiting in this step for long: says for whom. */
void hd_form_stalled_meeting(ucc_team_h team, uint64_t now);
/* UCC_OK, or why those whom I meet will never be complete (logged). */
ucc_status_t hd_form_meeting_status(ucc_team_h team);

#endif
