/* net.h: exchanges among processes, through UCX: what span/ and form/ may call. It knows processes,
 * plain memory and reducers, and nothing of endpoints, boards or requests.
 *
 *   NET    the process's part in the network: one, made when the first team with a second process
 *          is formed
 *   LANE   a UCP worker, its try-lock, and the legs that it drives. The lock owns all network state
 *          of its legs
 *   PEER   another process, by its identity and address; shared by all teams that both are in
 *   TEAM   the processes of a team (hd_net_team_t): a wire id, which is the same in all of them and
 *          never used again, and a peer each
 *   LEG    one collective among processes, of one exchange or of one segment of it: a state machine
 *          that its starter steps and that sends and receives
 *   SWAP   an exchange of few bytes among few processes, without a leg
 *
 * A leg is stepped by whoever holds its lane's lock, and by nobody else. It is handed to its lane
 * by hd_leg_start, from any thread; from then until its step returns true it is the lane's. A leg's
 * own step (hd_leg_t.step) is its starter's: it waits for what the leg needs from inside the
 * process, calls hd_leg_go, which is the algorithm, and does what follows. No step waits: it
 * returns false, and is called again at the next pump.
 *
 * Messages are matched by (wire id, key, segment, step, source), so legs begin and messages come in
 * any order: what comes early is parked, in memory of the net's; a rendezvous' data stays at the
 * sender until the leg is there.
 *
 * The end. A leg ends when its algorithm has ended (all it has received is in place) and all its
 * sends have been handed over: then no request of it is under way, and UCX touches no buffer of it
 * any more. A leg that is cancelled ends likewise, with the cause, as soon as no request of it is
 * under way.
 */
#ifndef HD_NET_NET_H
#define HD_NET_NET_H

#include "core/coll.h"
#include "core/config.h"
#include "threads/stall.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>

typedef struct hd_net hd_net_t;
typedef struct hd_net_team hd_net_team_t;
typedef struct hd_leg hd_leg_t;
struct hd_net_lane;
struct hd_net_family_row;

/* --- the process's network (net.c) ------------------------------------------------------------ */

/* Why there is none: this build has no UCX, or it can't be loaded, or the configuration says so
 * (logged once), or is wrong. UCC_OK: *net, with a reference for the caller. UCC_INPROGRESS:
 * another thread is making it; call again. far: processes of other hosts shall reach this one, too:
 * until somebody asks for that, it listens at the loopback address alone. Any thread. */
ucc_status_t hd_net_open(const hd_config_t *config, bool far, hd_net_t **net);
void hd_net_close(hd_net_t *net);
/* The network devices to use from then on, if no net is open, instead of the configuration's: a
 * context has named them. UCC_ERR_NO_MEMORY (logged). */
ucc_status_t hd_net_name_devices(const char *devices);
/* What other processes need to reach this one: plain bytes, the net's, the same until it is closed.
 * far: those of other hosts, too; the caller has opened it so. */
const void *hd_net_address(const hd_net_t *net, bool far, size_t *bytes);
/* Tells hosts apart that share no loopback address: machines, and network namespaces of one. */
uint64_t hd_net_host(void);
/* The net that is open now, without a reference; NULL: none. For whoever shows or pumps what there
 * is. */
hd_net_t *hd_net_opened(void);

/* What the process has sent and received since it began. Counted where a message is handed to UCX,
 * and where it comes; credits and aborts are `told`. */
typedef struct hd_net_traffic {
    uint64_t messages_sent, bytes_sent, told, messages_received, bytes_received;
} hd_net_traffic_t;
hd_net_traffic_t hd_net_traffic(void);

/* --- a team ----------------------------------------------------------------------------------- */

typedef struct hd_net_process {
    uint64_t identity[2]; /* hd_process_identity of the process */
    const void *address;  /* its hd_net_address; copied */
    size_t bytes;
} hd_net_process_t;

typedef struct hd_net_team_params {
    uint64_t wire; /* the same in all processes; never of another team */
    uint32_t n, me;
    /* n of them; entry `me` may have no address, nor those that another team has had since the net
     * was opened */
    const hd_net_process_t *process;
    const hd_config_t
        *config; /* which algorithms to use: the same in all processes; NULL: no word of that */
    /* There are swaps in it: all have said so. */
    bool swaps;
    /* Parts of others may be waited for before hd_net_swap is called: hd_net_swap_has_part. */
    bool early;
    /* Processes that were lost before are left out, instead of refusing: for who has nothing but an
     * abort to tell. */
    bool despite_losses;
    /* While it forms: once that is agreed on (gossip.c), no process comes that has not come yet. 0:
     * nothing is. */
    uint64_t over;
    /* The team is lost: a peer is gone, or says that it has failed. Called at most once, under a
     * lane's lock, by any thread that pumps; it must not call the net, but hd_leg_cancel later is
     * what ends the legs. */
    void (*failed)(void *arg, ucc_status_t why);
    /* All parts of a swap are there: whoever sleeps may go on. Again and again, as `failed`. */
    void (*swapped)(void *arg);
    void *arg;
} hd_net_team_params_t;

/* Messages for it are welcome from now on. Keeps the net. An error has been logged:
 * UCC_ERR_NO_MEMORY, also if an address is malformed; UCC_ERR_IO_ERROR: a process of it was lost
 * before; UCC_ERR_NO_RESOURCE: there is a team of that wire id. *team is NULL then. */
ucc_status_t hd_net_team_create(hd_net_t *net, const hd_net_team_params_t *params,
                                hd_net_team_t **team);
/* Is there one in this process with that params.over, which has not failed? */
bool hd_net_has_survivors(hd_net_t *net, uint64_t over);
/* Is there one of that wire id in this process, which is not destroyed? */
bool hd_net_has_team(hd_net_t *net, uint64_t wire);
/* For people: `tell` calls `line` for each line of what the team's endpoints here do. From now on
 * it is called, with params.arg, under lane 0's lock, and must not wait; NULL: nobody is in it any
 * more. */
void hd_net_team_tells(hd_net_team_t *team,
                       void (*tell)(void *arg, void (*line)(void *to, const char *text), void *to));
/* None of its legs is under way. Never waits. What comes for it later is dropped. */
void hd_net_team_destroy(hd_net_team_t *team);
/* Before that, of a team that all have formed: this process leaves it after numbered exchange
 * `last`. What others start beyond that, and what they start by other keys, fails there with
 * UCC_ERR_NOT_FOUND. */
void hd_net_team_leave(hd_net_team_t *team, uint64_t last);
/* Those that this process has to watch are watched, as far as they can be. From a leg's step, in
 * lane 0. */
bool hd_net_team_is_watched(hd_net_team_t *team);
/* Legs of so many segments are driven apart. */
uint32_t hd_net_team_lanes(const hd_net_team_t *team);
/* What UCX has asked the other end of a way: nothing, as far as is known; something, which may not
 * be answered yet; all that it ever asks. */
typedef enum hd_warmth { HD_COLD, HD_WARMING, HD_WARM } hd_warmth_t;
/* So the team's ways in that lane are, but for those that are warm. From a leg's step in that
 * lane. */
void hd_net_team_warms(hd_net_team_t *team, uint32_t lane, hd_warmth_t warmth);
/* Is it on this host, as far as this process knows? */
bool hd_net_team_is_beside(const hd_net_team_t *team, uint32_t process);
/* Is it known to be gone? */
bool hd_net_team_has_lost(const hd_net_team_t *team, uint32_t process);
/* Is it known to have left the team? */
bool hd_net_team_has_left(const hd_net_team_t *team, uint32_t process);
/* It is known to be gone. If it is, for it has closed its network, which only those hear who watch
 * it, the others are told. */
void hd_net_team_tell_loss(const hd_net_team_t *team, uint32_t process);
/* Tells all other processes that the team has failed; theirs is lost then. Once is enough. Any
 * thread; who destroys the team at once tells them all the same. */
void hd_net_team_abort(hd_net_team_t *team, ucc_status_t why);
/* Tells all that the watch reaches that there will be no team of that wire id. */
void hd_net_refuse(hd_net_t *net, uint64_t wire, ucc_status_t why);

/* --- decisions (gossip.c) --------------------------------------------------------------------- */

/* What somebody here may decide together with others, and has to hear of if they have: they tell it
 * by its name. */
typedef struct hd_net_decision {
    uint64_t name;      /* the same in all processes, and of nothing else; 0: none yet */
    bool agreed, known; /* somebody says that it holds; the net has it in its list */
    struct hd_net_decision *next;
} hd_net_decision_t;

/* Can all processes of the team, the dead ones included, have connections to each other by which
 * words come? Not if one has no watch, nor if there are two hosts to which no other can connect. */
bool hd_net_team_has_watch(const hd_net_team_t *team);
/* That name is awaited from now on, and no other one by this entry; that it holds may have been
 * heard lately. Any thread. */
void hd_net_await(hd_net_t *net, hd_net_decision_t *decision, uint64_t name);
/* Nothing is, any more. */
void hd_net_await_no_more(hd_net_t *net, hd_net_decision_t *decision);
bool hd_net_is_agreed(hd_net_t *net, const hd_net_decision_t *decision);
/* Tells all that the watch reaches, and who awaits it here, that the decision holds. Without a word
 * to others, if they know that. */
void hd_net_tell_agreed(hd_net_t *net, uint64_t name);

/* --- swaps (swap.c) --------------------------------------------------------------------------- */

enum {
    HD_SWAP_BYTES = 48,  /* of a part that travels, and is kept, with what it belongs to */
    HD_SWAP_LONG = 4096, /* of any part */
    HD_SWAP_PROCESSES = 8,
    HD_SWAP_SLOTS = 32
};

/* Of a part in a team of so many processes: all that one of them keeps is about as much, however
 * many they are. */
static inline size_t hd_net_swap_most(uint32_t processes) {
    enum { LINE = 64 };
    return processes <= 2 ? HD_SWAP_LONG : 2 * HD_SWAP_LONG / processes / LINE * LINE;
}

/* What a process has to do with an exchange. */
typedef struct hd_net_swap {
    uint64_t k; /* its number */
    uint32_t signature;
    uint8_t to, from; /* bit p: process p is given bytes; its part is needed */
    bool same;        /* all are given the same ones */
    /* by process, what is given to it; `same`: all find it in the first */
    uint32_t bytes[HD_SWAP_PROCESSES];
} hd_net_swap_t;

/* Are its bytes in memory that must be reserved? */
static inline bool hd_net_swap_is_long(const hd_net_swap_t *swap) {
    return !swap->same || swap->bytes[0] > HD_SWAP_BYTES;
}
/* May collectives of this type be swaps? The same in all processes of the team. */
bool hd_net_may_swap(const hd_net_team_t *team, uint8_t type);
/* Before the first swap that is long. UCC_ERR_NO_MEMORY (logged). Any thread. */
ucc_status_t hd_net_swap_reserve(hd_net_team_t *team);
/* Where the caller writes what `to` is given in k, before it goes out; stays as it is until the
 * exchange is over. is_long: it was reserved, and takes hd_net_swap_most; else `to` does not
 * matter, and it takes HD_SWAP_BYTES. */
void *hd_net_swap_room(const hd_net_team_t *team, uint64_t k, uint32_t to, bool is_long);
/* Where the caller says what there is to do in k, before it begins; stays as it is likewise. */
hd_net_swap_t *hd_net_swap_of(const hd_net_team_t *team, uint64_t k);
/* This process's parts of k go out. Nobody gives parts twice, or of k before all exchanges up to k
 * - HD_SWAP_SLOTS are over here. Then so many turns are taken at most to look for the others'
 * parts: is all there that is needed? Any thread. */
bool hd_net_swap(hd_net_team_t *team, uint64_t k, uint32_t looks);
/* Pumps: is it now? A process that is gone fails the team. */
bool hd_net_swap_is_there(hd_net_team_t *team, uint64_t k);
/* Has that process's part come? */
bool hd_net_swap_has_part(const hd_net_team_t *team, uint64_t k, uint32_t process);
/* It has. Is it of that signature and size? */
bool hd_net_swap_fits(const hd_net_team_t *team, uint64_t k, uint32_t process, uint32_t signature,
                      size_t bytes);
/* Its data, until the exchange is over. */
const void *hd_net_swap_part(const hd_net_team_t *team, uint64_t k, uint32_t process);
/* This process has what it needs of it. For traces. */
void hd_net_swap_done(hd_net_team_t *team, uint64_t k);
/* Nobody here looks at its parts any more. */
void hd_net_swap_over(hd_net_team_t *team, uint64_t k);

/* --- legs ------------------------------------------------------------------------------------- */

/* How the exchange that a leg belongs to is named: the same in all processes of the team. */
typedef enum hd_net_class {
    /* Among processes that are just forming the team; may come before the team is known. The number
     * of the greeting is 0. */
    HD_NET_FORMING,
    HD_NET_NUMBERED,   /* number: of the main board; ordinal: 1 */
    HD_NET_TAG,        /* number: the tag; ordinal: how-manieth of it */
    HD_NET_INIT,       /* number: of the init */
    HD_NET_PERSISTENT, /* number: of the init; ordinal: occurrence */
    HD_NET_ACTIVE_SET, /* ordinal: how-manieth of this set */
    HD_NET_WARMING,    /* before a team is used: messages with bytes are never sent eagerly */
    HD_NET_N_CLASSES
} hd_net_class_t;

typedef struct hd_net_key {
    uint64_t number, ordinal;
    uint64_t subset; /* of an active set: all of it, hashed; 0: the whole team */
    uint8_t class;   /* hd_net_class_t */
} hd_net_key_t;

/* Memory of a message's: its bytes are those of its pieces, one after the other. */
typedef struct hd_net_piece {
    void *at;
    size_t bytes;
} hd_net_piece_t;

typedef struct hd_net_data {
    const hd_net_piece_t *piece; /* stay as they are while the leg lasts */
    uint32_t n;                  /* pieces; 0: no bytes */
    size_t bytes;                /* of all pieces */
} hd_net_data_t;

/* A reduction in which ranks have several operands each, which are combined one by one: what all
 * have, in an order of theirs. Stays as it is while the leg lasts. */
typedef struct hd_net_several {
    uint32_t n;              /* operands of all ranks */
    const uint32_t *first;   /* by rank, and one more: where its operands begin in `place` */
    const uint32_t *place;   /* which place each has in the order */
    const void *const *mine; /* this rank's operands ... */
    size_t at;               /* ... begin so many bytes behind these */
} hd_net_several_t;

/* What is asked of a leg: a collective among n processes. Ranks are numbers among those n.
 *
 *   barrier, fanin, fanout   no data
 *   bcast, mcast             give[0] at the root, take[0] elsewhere
 *   allgather(v)             give[0], and take[r] of each other rank r
 *   alltoall(v)              give[r] and take[r] of each other rank r
 *   gather(v), scatter(v)    at the root take[r] or give[r] of each other rank r; elsewhere give[0]
 *                            or take[0]
 *   allreduce, reduce        `count` elements: operand (mine) and, for an allreduce and at a
 *                            reduce's root, result, which may be the operand
 *   reduce_scatter(v)        give[r] is my operand of rank r's block, in one piece, also for
 *                            r = me; the result is combined from operands of take[0].bytes each
 * A v type's sizes must agree between the two of a pair, all others among all. */
typedef struct hd_net_call {
    uint8_t type; /* enum hd_type */
    uint32_t n, me, root;
    const uint32_t *process; /* by rank: its number in the team, in any order; NULL: the same */
    uint32_t signature;      /* what must agree, hashed */
    const hd_net_data_t *give, *take;
    const void *operand;
    void *result;
    /* Reductions: NULL: each rank has one operand; else `operand` is the first of mine (of a
     * reduce_scatter, too: give[] says then where in the first one the blocks lie). Combined all at
     * once. */
    const hd_net_several_t *several;
    size_t count, element; /* elements; bytes of one */
    /* a combination is shared out among threads: it comes once in a leg, and is the last */
    bool parallel;
    /* Combines k operands of `count` elements each, the ranks' in their order: dst may be one of
     * them. last: this makes elements [first, first + count) of the result, which then goes to dst.
     * UCC_INPROGRESS: not yet; will be called again, with the same arguments, until it says
     * more. */
    ucc_status_t (*combine)(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last);
    /* At least hd_net_scratch bytes, aligned to a line; NULL if that is 0. */
    void *scratch;
} hd_net_call_t;

/* How a leg runs: chosen by plan.c alone, from what all processes agree on. */
typedef struct hd_net_plan {
    uint8_t algorithm; /* hd_net_algorithm_t */
    uint32_t radix;    /* of trees and exchanges; else how many messages are received at a time */
} hd_net_plan_t;

typedef enum hd_net_algorithm {
    HD_NET_NOTHING = 0,   /* one process */
    HD_NET_DIRECT,        /* each to each, or the root to and from each */
    HD_NET_DISSEMINATION, /* barrier: log_radix rounds */
    HD_NET_TREE,          /* of plan.radix */
    HD_NET_CHAIN,
    HD_NET_SCATTER_ALLGATHER,
    HD_NET_BRUCK,
    HD_NET_RING,
    HD_NET_PAIRWISE,        /* rotated, with a window */
    HD_NET_EXCHANGE,        /* allreduce: partials in blocks of radix */
    HD_NET_REDUCE_ALLGATHER /* allreduce: reduce-scatter, then allgather; reduce: then gather */
} hd_net_algorithm_t;

/* For a call whose type, n, count, element and agreed bytes are set. bytes: of the whole for a
 * bcast or a reduction, of a rank's block or pair else; 0 for v types. Pure. */
hd_net_plan_t hd_net_plan_of(const hd_net_team_t *team, const hd_net_call_t *call, size_t bytes);
/* Its algorithm, in a word. */
const char *hd_net_plan_name(const hd_net_plan_t *plan);
/* Of its trees or exchanges; 0: it has none. */
uint32_t hd_net_plan_radix(const hd_net_plan_t *plan);
/* Scratch that a leg with this call, which is complete but for that, and plan needs, in bytes. */
size_t hd_net_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);

/* What is on its way to a lane. */
typedef struct hd_net_item {
    struct ck_stack_entry *next; /* first: it is one */
    /* Under the lane's lock, once: the item may be gone then. Set by whoever hands it. */
    void (*take)(struct hd_net_lane *lane, struct hd_net_item *item);
} hd_net_item_t;

/* Fields above the line are the starter's; those below are net's. */
struct hd_leg {
    hd_net_team_t *team;
    hd_net_key_t key;
    uint32_t segment;
    hd_net_call_t call;
    hd_net_plan_t plan;
    /* By the holder of the lane's lock, again and again: true when the leg is over and the lane has
     * to forget it. The leg may be gone when it returns true. */
    bool (*step)(hd_leg_t *leg);
    void *owner;
    /* ------------------------------------------------------------------------------------- */
    hd_net_item_t item;
    const struct hd_net_family_row *family; /* of its type: set by hd_leg_start */
    hd_leg_t *next, *next_open;             /* of the lane's legs; of those that messages find */
    uint32_t lane;
    struct hd_peer *bereft; /* the process that a message of it was lost with; NULL: none */
    bool opened;            /* known to its team: messages find it */
    bool over;              /* the algorithm has ended, as `failure` says */
    /* Counts that hd_leg_go compares do not lie side by side: compilers would load two of them at
     * once, and such a load waits until the stores to each have left the processor, and with them
     * the message that was just sent. */
    uint32_t under_way;    /* sends and receives that UCX has, or that are held back */
    ucc_status_t failure;  /* the first; UCC_OK: none */
    uint32_t receiving;    /* messages that are expected and not in place */
    uint32_t round, phase; /* the algorithm's */
    /* ns: since when it has waited for what is under way, with a failure; 0: it has not */
    uint64_t failing;
    struct hd_expected *expected;
    struct hd_parked *parked;
};

/* Hands a leg to its lane. What is above the line is set, the rest is 0. Any thread. */
void hd_leg_start(hd_leg_t *leg);
/* The algorithm: goes on as far as possible now. UCC_INPROGRESS, or how it ended: then nothing of
 * it is under way. From the leg's step. */
ucc_status_t hd_leg_go(hd_leg_t *leg);
/* From the leg's step, instead of hd_leg_go, again and again: nothing more is begun, and what is
 * under way is brought to an end. UCC_INPROGRESS until that is so, then `why`. */
ucc_status_t hd_leg_cancel(hd_leg_t *leg, ucc_status_t why);

/* --- pumping ---------------------------------------------------------------------------------- */

/* Whoever waits drives all lanes, each by a try-lock: moves messages, steps legs, until nothing
 * moves. True if every lane was entered. Never waits. Any thread. */
bool hd_net_pump(hd_net_t *net);
/* Pumps, and looks at once for processes that are gone, which pumping does now and then. */
void hd_net_look(hd_net_t *net);
/* What threads sleep on who wait for legs (threads/fd_waiter.h): the process's, for ever. NULL: it
 * has no descriptor. */
struct hd_fd_waiter *hd_net_fd_waiter(void);

/* --- for people (show.c) ---------------------------------------------------------------------- */

/* Adds for which processes the leg, or swap k, which has begun, waits, and what is known of those.
 * Nothing of the leg is read unless a lane has it. False: that can't be seen. Any thread that is in
 * no lane. */
bool hd_net_leg_awaits(const hd_net_team_t *team, const hd_leg_t *leg, hd_text_t *text);
bool hd_net_swap_awaits(const hd_net_team_t *team, uint64_t k, hd_text_t *text);
/* Adds another process of the team, and what is known of it. Any thread. */
void hd_net_process_say(const hd_net_team_t *team, uint32_t process, hd_text_t *text);

/* The lanes, and for each other process what UCX has selected for each lane's way to it. Any
 * thread; waits for the lanes' locks. */
void hd_net_print_team(hd_net_team_t *team, FILE *out);
/* What plan.c decides for every collective and some sizes, among n processes, with this
 * configuration. Opens nothing. */
void hd_net_print_plans(const hd_config_t *config, uint32_t n, FILE *out);

#endif
