/* kin.h: the processes of a team that live on one node, and so share the memory of its group: how
 * they get it, and who notices if one of them dies. roll.h has when this is tried, and what comes
 * of it: if one of them can't, all of them go by the network.
 *
 *     hd_kin_open_door     a process's door (node/) is open; its number goes to the others
 *     hd_kin_begin         one of them, the LEADER, makes the group and offers its segment; the
 *                          others fetch that; each watches each (node.h). Those of a team that
 *                          is made of members of another group whose memory is shared, its SCOPE,
 *                          tell each other there (shm/births.c), without an exchange
 *     hd_kin_test          until it has the group, or can't have it
 *     hd_kin_found         all can: the group is the caller's, and the kin hangs on it
 *     hd_kin_drop          nobody asks for more
 *
 * From the first success of hd_kin_test on, a thread of the process waits for ends of others. If a
 * process ends whose endpoints have not left the team, it poisons the group, which all look at
 * that wait. It sleeps otherwise, and there is one for all teams.
 */
#ifndef HD_FORM_KIN_H
#define HD_FORM_KIN_H

#include "node/node.h"
#include "shm/shm.h"
#include "span/span.h"

typedef struct hd_kin hd_kin_t;

/* One process of a team. */
typedef struct hd_kin_process {
    uint64_t identity[2]; /* hd_process_identity */
    uint32_t door;        /* number of its door */
    uint32_t number;      /* of the process in the team */
} hd_kin_process_t;

typedef struct hd_kin_params {
    const hd_span_t *span;           /* which endpoints live in which process; copied */
    const hd_kin_process_t *process; /* by the span's numbers; copied */
    const hd_group_config_t *config; /* of a group inside one process; copied */
    uint64_t wire;                   /* names the team, the same in all of its processes */
    hd_group_t *scope;               /* NULL: whoever begins tells the others how it ends */
    uint64_t
        over;   /* with a scope: nobody comes any more when that is over (shm.h); 0: nothing is */
    bool ahead; /* with a scope: no process waits until the others have the group, too */
    /* with a scope: this process does not want it, and only says so, that the others do without */
    bool declines;
    /* The span is that of one node of a team of several, whose endpoints have numbers of their own
     * there: the group gets a crossing, too, and the team's processes are known by that. */
    bool of_node;
} hd_kin_params_t;

/* Opens this process's door, for as long as there is one who has opened it, and sets its number,
 * which is never 0. An error is logged at level info. */
ucc_status_t hd_kin_open_door(hd_node_t **door, uint32_t *number);
void hd_kin_close_door(hd_node_t *door);

/* Serves other processes. Whoever waits for them does so. */
void hd_kin_progress(hd_node_t *door);
/* This process has no memory for that team: whoever would have it from here is told. */
void hd_kin_refuse(hd_node_t *door, uint64_t wire);

/* Begins; the door is open. NULL: no memory. Everything else that goes wrong, hd_kin_test says. */
hd_kin_t *hd_kin_begin(const hd_kin_params_t *params);
/* Never blocks. UCC_INPROGRESS: the caller comes again. UCC_OK: this process has the group; with a
 * scope, all have it, unless the team goes ahead. An error: it can't have it (logged at level
 * info). Any thread; also after the end, so that other processes get on. */
ucc_status_t hd_kin_test(hd_kin_t *kin);
/* For people, while it is UCC_INPROGRESS: for which processes this one waits. */
void hd_kin_awaits(hd_kin_t *kin, hd_text_t *text);
/* When this process has the group: are there some that have not come to it? */
bool hd_kin_has_late(hd_kin_t *kin);
/* After an error, for people: "; " and whose fault it was, as far as this process knows. */
void hd_kin_say_why(hd_kin_t *kin, hd_text_t *text);
/* After an error, with a scope: do all of the others hear that there will be no group, before they
 * count on it? Then they can do without, together. */
bool hd_kin_all_lack(const hd_kin_t *kin);
/* After an error: who was in which state then, for people. kin: NULL if there was no memory. */
hd_obstacle_t hd_kin_obstacle(const hd_kin_t *kin);
/* After UCC_OK, once: all processes have it. Returns the group with a reference. The kin keeps its
 * scope, unless that is one node's of a team of several: this team's own node is as good to its
 * descendants, and the processes of the other team hear when that is left. */
hd_group_t *hd_kin_found(hd_kin_t *kin);
/* Before that: nobody joins the group, and ends of processes do not matter to it. */
void hd_kin_is_scope(hd_kin_t *kin);
/* The team can't be formed, if it has not been found; tells those who have the group. */
void hd_kin_fail(hd_kin_t *kin, ucc_status_t why);
/* By the one who has begun, or its meeting (threads/meet.h): a kin, of which what was not found
 * ends. */
void hd_kin_drop(void *kin);

/* The name of a team's segment, and of its birth in its scope. */
void hd_kin_name(uint64_t wire, uint64_t name[2]);

/* Of a group: which endpoints live in which process; NULL: all live in this one, or the group is
 * not shared, or one node's of a team of several. */
const hd_span_t *hd_kin_span(const hd_group_t *group);
/* Of such a group, whose team may have gone ahead: UCC_INPROGRESS while other processes have not
 * come to it. Who ended it now would be missed by them. */
ucc_status_t hd_kin_birth_status(const hd_group_t *group);
/* Such a group's team, as its processes call it. */
uint64_t hd_kin_wire(const hd_group_t *group);
/* Those processes, by the span's numbers. */
const hd_kin_process_t *hd_kin_processes(const hd_group_t *group);
/* What a group is made of, if it is made of those that are left of another one (form/shrink.c): by
 * whoever has found it, which gives the array and a reference to the origin. */
void hd_kin_descend(hd_group_t *group, hd_origin_t *origin, uint64_t *in_origin);
/* Such a group's, or its own, which is made at the first call (NULL: no memory, logged); its
 * endpoints' numbers there, NULL: the same; and the group in whose memory the teams with this
 * origin are formed. The kin's, all of them. */
hd_origin_t *hd_kin_origin(hd_group_t *group);
const uint64_t *hd_kin_in_origin(const hd_group_t *group);
hd_group_t *hd_kin_scope(hd_group_t *group);
/* As hd_crossing_origin. */
hd_origin_t *hd_kin_agreement(hd_group_t *group, uint64_t number);
/* Has an endpoint of this process left such a group's team, or that of a node's group? Have all? */
bool hd_kin_lacks_endpoint(const hd_group_t *group);
bool hd_kin_lacks_all(const hd_group_t *group);

/* Of a group and its span: have all endpoints of process p left? Then it may end. */
static inline bool hd_kin_process_has_left(const hd_group_t *group, const hd_span_t *span,
                                           uint32_t p) {
    bool left = true;
    for (uint32_t i = 0; left && i < hd_span_count(span, p); i++) {
        left = hd_group_has_left(group, hd_span_endpoint(span, p, i));
    }
    return left;
}

/* Of a group: which endpoints of its team live in which process; NULL: all live in this one. */
static inline const hd_span_t *hd_form_span(const hd_group_t *group) {
    const hd_crossing_t *crossing = hd_group_crossing(group);
    return crossing ? crossing->span : hd_kin_span(group);
}
/* Of a group whose team has several processes: hears what can be known of losses. As far as it is
 * known: is process p gone, without having left it? Has it
 * left? */
void hd_form_look_for_losses(const hd_group_t *group);
bool hd_form_has_lost(const hd_group_t *group, uint32_t p);
bool hd_form_has_left(const hd_group_t *group, uint32_t p);
/* Is there a group in this process that was made with that params.over, and has not failed? */
bool hd_kin_has_survivors(uint64_t over);
/* The number in the team of a process's i-th endpoint. */
static inline uint32_t hd_form_number(const hd_group_t *group, uint32_t i) {
    const hd_span_t *span = hd_form_span(group);
    return span ? hd_span_endpoint(span, span->mine, i) : i;
}

#endif
