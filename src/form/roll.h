/* roll.h: what the members of an out-of-band exchange tell each other. Members are endpoints that
 * form a team, contexts, or processes. In a first exchange each gives a RECORD of itself
 * (record.c). If they live in several processes, they then find out who lives where, and how each
 * process is reached by the network: they call the ROLL (roll.c).
 *
 *      records   every member has the same records afterwards, and reads them the same way. So all
 *                members go the same way together from now on
 *      take      makes the span, and all memory that the rest needs
 *      doors     if several processes seem to live on one node, and would share memory: a second
 *                exchange, by which each learns the numbers of all processes' doors (kin.h)
 *      share     every process gets the memory that its node shares, or does not; a third exchange
 *                tells. Of a node of which a process has none, each process becomes a node of its
 *                own. If there is one node, the roll is over
 *      open      every member gets the process's network; the first member to come makes it. Each
 *                has a reference, so the address stays what it is until the last of them is done
 *      accounts  an exchange: how each member got on, and how long its process's address is.
 *                A member in trouble says so here, instead of leaving the others waiting for its
 *                part. If an address is longer than the memory, all members see that, make more
 *                room, and exchange accounts again
 *      slices    an exchange: the addresses, of which each member of a process gives a slice
 *
 * So a member that lacks memory, or anything else, tells the others before it leaves: nobody waits
 * for it in an exchange. If it lacks memory before the first exchange, it takes part in that one
 * all the same.
 *
 * A roll has one owner, who calls these functions. One exchange is outstanding at a time. All
 * errors are logged.
 */
#ifndef HD_FORM_ROLL_H
#define HD_FORM_ROLL_H

#include "form/kin.h"
#include "span/span.h"
#include "threads/stall.h"

/* --- record.c --------------------------------------------------------------------------------- */

/* What a member says of itself. It holds no addresses: its reader may come when the writer is gone,
 * or live in another process, even one with another version of the library. So it begins with the
 * version and has one size in all versions; a small one, as each member keeps all of them. */
typedef struct hd_record {
    alignas(64) uint32_t version;
    uint32_t number; /* endpoint number; of a context or a process, its place in the exchange */
    uint64_t process[2], host;
    uint64_t label;     /* the user's name for the endpoint; how many endpoints a process brings */
    uint64_t serial;    /* no other in the process has it: of an endpoint, its notice's */
    uint64_t variables; /* the value of each variable that must agree, in bits of its own */
    int32_t trouble;    /* UCC_OK, or why this member can't take part: then nobody does */
    uint8_t sync_type;
    uint8_t ordering; /* only of processes */
    uint8_t by_id;    /* only of contexts; 1: teams have to be told apart by their ids */
    uint8_t shares;   /* 1: it would share memory with other processes of its node (kin.h) */
} hd_record_t;

_Static_assert(sizeof(hd_record_t) == 64, "all versions have records of one size");

/* Writes what a record says of the version, this process, its host and, unless config is NULL, its
 * configuration. */
void hd_record_sign(hd_record_t *record, const hd_config_t *config);
static inline bool hd_record_same_process(const hd_record_t *one, const hd_record_t *other) {
    return one->process[0] == other->process[0] && one->process[1] == other->process[1];
}
/* Returns the name of the first variable in which two records differ, and must not. NULL: they
 * agree. */
const char *hd_record_disagreed(const hd_record_t *one, const hd_record_t *other);
/* Returns one number for all that the processes of a team of n have to agree on, to be compared as
 * they greet each other. */
uint32_t hd_record_terms(const hd_config_t *config, bool two_sided, uint32_t n);

/* --- roll.c: exchanges ------------------------------------------------------------------------ */

typedef struct hd_account {
    int32_t status;
    /* length of its process's address; number of its door, 0: it has none; or HD_ROLL_HAS: it has
     * the memory that its node shares, else why not (roll.c) */
    uint32_t bytes;
} hd_account_t;

enum { HD_ROLL_HAS = 1 };

/* What the next call of hd_roll_call does. */
typedef enum hd_roll_step {
    HD_ROLL_DOOR,     /* opens the process's door */
    HD_ROLL_DOORS,    /* waits for the numbers of doors */
    HD_ROLL_SHARE,    /* waits for the memory that is shared */
    HD_ROLL_SHARED,   /* waits to hear whether all have it */
    HD_ROLL_OPEN,     /* waits for the process's network */
    HD_ROLL_ACCOUNTS, /* waits for how the others got on */
    HD_ROLL_SLICES,   /* waits for the addresses */
    HD_ROLL_OVER
} hd_roll_step_t;

typedef struct hd_roll {
    ucc_oob_coll_t oob;
    const char *who; /* what takes part, for the log ("context") */
    void *request;   /* of the outstanding allgather; NULL: there is none */
    uint64_t stall;  /* ticks after which a wait that blocks is logged */
    hd_stall_t waited;
    hd_record_t mine, *all; /* by place in the exchange */
    hd_account_t *told;     /* what all gave to an exchange of accounts; in the memory of `all` */
    /* The rest is for several processes. */
    const hd_config_t *config;
    hd_roll_step_t step;
    bool optional;        /* members can do without a network: then `net` is NULL in the end */
    hd_span_t *span;      /* who lives where; NULL: there was no memory */
    uint32_t *place_of;   /* by member's number: its place in the exchange */
    hd_net_t *net;        /* a reference */
    bool far;             /* some live on other hosts */
    ucc_status_t trouble; /* why this member can't go on; UCC_OK: it can */
    hd_account_t account; /* what this member gives to an exchange of accounts */
    /* Set by the owner, if memory may be shared: how the group is configured, if all lived in one
     * process; the meeting of the process's members, NULL: this is the only one; and, where members
     * are processes, the span of their endpoints, which is the roll's. */
    const hd_group_config_t *group_config;
    bool by_nodes; /* also if they live on several nodes: each shares what it can */
    hd_meeting_t *meeting;
    hd_span_t *of_endpoints;
    hd_node_t *door; /* open until the roll ends */
    hd_kin_t *kin;   /* what the process's members share; the meeting's, or this one's */
    bool together;   /* in the end: all processes share memory, and there is no network */
    /* By process: the lowest process of its node, as far as is known; behind the places. In the
     * end, `nodes` says how many there are; as many as processes: nobody shares memory. */
    uint32_t *node_of, nodes;
    hd_obstacle_t *parted;     /* by process: why its node is none any more; behind those */
    uint32_t room;             /* bytes of addresses that there is memory for, the same at all */
    uint32_t slice;            /* bytes of a slice */
    uint8_t *slices;           /* what all gave to the last exchange, by place; this member's */
    hd_net_process_t *process; /* room for what the slices say, with the addresses behind */
} hd_roll_t;

/* Returns zeroed memory to take part in an exchange with, aligned to HD_LINE_PAIR: from the heap,
 * or, if that has none, one of a few pieces that the library keeps to say so with, as *trouble does
 * then. NULL: those are in use, or too small, or trouble is NULL. */
void *hd_roll_room(size_t bytes, int32_t *trouble);
/* Gives back what hd_roll_room returned. */
void hd_roll_end_room(void *room);
/* Prepares the exchange of records: allocates `all` and `told`, and signs `mine`, the rest of which
 * is the caller's to fill in. */
ucc_status_t hd_roll_begin(hd_roll_t *roll, const ucc_oob_coll_t *oob, const char *who,
                           const hd_config_t *config);
/* Starts an allgather. */
ucc_status_t hd_roll_give(hd_roll_t *roll, void *mine, void *all, size_t bytes);
/* Returns UCC_INPROGRESS while that allgather is outstanding; else frees it and returns how it
 * ended. */
ucc_status_t hd_roll_taken(hd_roll_t *roll);
/* Both in one: blocks. */
ucc_status_t hd_roll_exchange(hd_roll_t *roll, void *mine, void *all, size_t bytes);
/* Logs that a member can't take part, and returns why, as it has told. */
ucc_status_t hd_roll_blame(const hd_roll_t *roll, uint32_t member, int32_t told);
/* Called after the first exchange: returns why some member can't take part; UCC_OK: all can. */
ucc_status_t hd_roll_refusal(const hd_roll_t *roll);
/* Returns UCC_ERR_INVALID_PARAM if the records differ in what must agree; UCC_OK: in nothing. */
ucc_status_t hd_roll_disagreement(const hd_roll_t *roll);
/* All of the first exchange, among members whose numbers are their places: blocks. For a member
 * that can't take part, see hd_roll_refuse (form.h). */
ucc_status_t hd_roll_introduce(hd_roll_t *roll, const ucc_oob_coll_t *oob, const char *who,
                               const hd_config_t *config);
/* Returns memory with a word of zeros for each member, to sort or check records with: it holds the
 * accounts later. */
uint64_t *hd_roll_words(hd_roll_t *roll);
/* Returns a number that is the same at all members, after the first exchange, and that no other
 * exchange has. */
uint64_t hd_roll_serial(const hd_roll_t *roll);

/* --- roll.c: several processes ---------------------------------------------------------------- */

/* Called when the records, and `mine`, have the right numbers. If anything is missing,
 * roll->trouble says so, and the next exchange tells the others; the caller may set trouble of its
 * own there. */
void hd_roll_take(hd_roll_t *roll);
/* Goes on from there. UCC_INPROGRESS: the caller comes again. All members get the same in the end,
 * but for one without a span, which gets its own trouble. */
ucc_status_t hd_roll_call(hd_roll_t *roll);
/* Does so to the end: blocks. */
ucc_status_t hd_roll_call_through(hd_roll_t *roll);
/* For people: for what this member waits, in an exchange or between two. */
void hd_roll_awaits(const hd_roll_t *roll, hd_text_t *text);
/* Returns the record of a process's lowest member. */
const hd_record_t *hd_roll_first(const hd_roll_t *roll, uint32_t process);
/* In the end: do some processes share memory, and others don't? */
static inline bool hd_roll_is_mixed(const hd_roll_t *roll) {
    return !roll->together && roll->nodes > 0 && roll->nodes < roll->span->processes;
}
/* And is this process one of the former? Then roll->kin has the group of its node. */
bool hd_roll_has_node(const hd_roll_t *roll);
/* Returns the span of the endpoints of this process's node, by their numbers there; all: that of
 * the team's. NULL: no memory (logged). */
hd_span_t *hd_roll_node_span(const hd_roll_t *roll, const hd_span_t *all);
/* Called in the end: returns, by process, why it shares no memory with this one. NULL: no
 * memory. */
hd_obstacle_t *hd_roll_obstacles(const hd_roll_t *roll);
/* Called in the end: returns the processes as the net knows them, by number, in one block with
 * their addresses, which is the caller's then (hd_free). */
hd_net_process_t *hd_roll_processes(hd_roll_t *roll);
/* Frees all that the roll still has. */
void hd_roll_end(hd_roll_t *roll);

#endif
