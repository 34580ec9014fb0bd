/* form.h: between the files that form teams: form.c (parameters and driving), form_oob.c, form_meet.c,
 * and handle.c.
 */
#ifndef HD_TEAM_FORM_H
#define HD_TEAM_FORM_H

#include "team/team.h"
#include "threads/meet.h"

/* Left by number 0 for the others; each endpoint holds one of its n references. */
typedef struct hd_seed {
    _Atomic(hd_group_t *) group; /* holds a reference to it */
    _Atomic int32_t status;
    _Atomic uint32_t refs;
} hd_seed_t;

typedef struct hd_record {
    uint64_t process[2];
    uint64_t number; /* endpoint number */
    uint64_t label;
    uint64_t seed;
    uint32_t sync_type;
    hd_locality_t locality;
} hd_record_t;

typedef enum hd_form_step {
    STEP_GATHER,
    STEP_SEED,
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
    hd_seed_t *seed;
    hd_meeting_t *meeting;
    uint32_t split_of; /* a split: endpoints of the parent; else 0 */
    bool excluded;     /* takes no part in the team that a split makes */
    bool sort_labels;  /* numbers are the ranks of the labels */
    hd_group_t *group; /* found; referenced */
    hd_locality_t locality;
    void *memory;
    size_t bytes;
    bool owns_memory;
};

ucc_status_t hd_form_begin(ucc_team_h team);
/* Lets go of everything that only forming needed. */
void hd_form_drop(ucc_team_h team);

/* form_oob.c */
ucc_status_t hd_form_start_oob(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_gather(ucc_team_h team);
ucc_status_t hd_form_seed(ucc_team_h team);
void hd_form_release_seed(hd_seed_t *seed);

/* form_meet.c */
ucc_status_t hd_form_start_by_id(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_start_by_map(ucc_team_h team, const ucc_team_params_t *params);
ucc_status_t hd_form_meet(ucc_team_h team);
/* The group that this meeting is about; made by the first who asks. */
hd_group_t *hd_form_meeting_group(ucc_team_h team);

#endif
