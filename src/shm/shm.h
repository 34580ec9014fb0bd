/* shm.h: collectives among the endpoints of one process, through shared memory: what those may call
 * who make operations of requests. types.h has the data structures, and how it works.
 */
#ifndef HD_SHM_H
#define HD_SHM_H

#include "core/who.h"
#include "node/segment.h"
#include "shm/types.h"
#include "threads/stall.h"

/* --- group.c ---------------------------------------------------------------------------------- */

/* One reference, for the creator. */
hd_group_t *hd_group_create(uint32_t n, const hd_group_config_t *config);
/* The same group in another mapping, of this number, from 1 to config.mappings: for endpoints that
 * join by it, and use nothing else of the group. One reference. NULL: no memory (logged). */
hd_group_t *hd_group_again(hd_group_t *group, uint32_t number);
/* The same for an endpoint of a group of this process alone: with its number, or, if two share a
 * mapping, with the other one. */
hd_group_t *hd_group_again_for(hd_group_t *group, uint32_t ep);
static inline bool hd_group_is_mapped(const hd_group_t *group) {
    return group->mapping.base != NULL;
}
/* The same group of n endpoints as another process has in this segment, in the mapping of this
 * process's number there. Takes of config what is each process's own, and in how many there are.
 * One reference. NULL: no memory, or it is no such group's (logged). */
hd_group_t *hd_group_of(const hd_node_segment_t *segment, uint32_t n,
                        const hd_group_config_t *config);
/* Once, by the creator of a group of several processes: its segment, whose descriptor is the
 * caller's. */
hd_node_segment_t hd_group_take_segment(hd_group_t *group);
/* What must be the same in processes that share a group's memory. */
uint64_t hd_group_layout(void);
static inline bool hd_group_spans_processes(const hd_group_t *group) {
    return group->config.processes > 1;
}
/* Of all mappings of this process the same one, which has what they don't share with other
 * processes, but with each other. */
static inline hd_group_t *hd_group_first(hd_group_t *group) {
    return group->mapping.first ? group->mapping.first : group;
}
/* What this process keeps with the slot of an operation's exchange. NULL: no memory. */
_Atomic(hd_outer_memory_t *) *hd_op_flight(const hd_op_t *op);
/* What follows from where the endpoints run (group->locality): trees, who combines arrivals,
 * thresholds. By the last one to join, or for a group that nobody will use (heddle_info). */
ucc_status_t hd_group_seal(hd_group_t *group);
/* Of a group of several processes, before another one has it: endpoint ep lives in that one. */
void hd_group_set_home(hd_group_t *group, uint32_t ep, uint32_t process);
/* Endpoint ep takes its place: its member on the main board, its locality (NULL: unknown).
 * Concurrently for different endpoints; the last one decides on trees and arrival. */
ucc_status_t hd_group_join(hd_group_t *group, uint32_t ep, const hd_locality_t *where);
/* All have joined, and what follows from that is decided: operations may begin. If something hangs
 * on the group (group->outside), it is only sealed then, and complete when that is ready, too,
 * which may be first. */
/* For hd_group_is_complete; not inlined there: posts would save one register more. */
bool hd_group_settles(hd_group_t *group) __attribute__((noinline));
static inline bool hd_group_is_complete(hd_group_t *group) {
    /* acquire: pairs with the release in complete */
    return __builtin_expect(atomic_load_explicit(&group->complete, memory_order_acquire) != 0, 1) ||
           hd_group_settles(group);
}
bool hd_group_is_sealed(const hd_group_t *group);
void hd_group_ready(hd_group_t *group);
/* The same, but for the deciding, which may be under way. */
bool hd_group_all_joined(const hd_group_t *group);
/* By an endpoint that has joined and goes: the group will never be complete, and is poisoned. False
 * if all have joined: then it can only be left. */
bool hd_group_abandon(hd_group_t *group, ucc_status_t why);

/* --- births.c: teams that the endpoints of a group of several processes form ------------------ */

/* The participant comes to the birth of that name, as all `expected` of them do, once each: at most
 * as many as the group has members. NULL: no memory (logged). */
hd_birth_t *hd_birth_come(hd_group_t *group, const uint64_t name[2], uint32_t expected);
/* Which participant leads: the first one that asks. */
uint32_t hd_birth_leader(hd_birth_t *birth, uint32_t me);
/* Participant `me` takes part or does not, or can't, for this reason. */
void hd_birth_say(const hd_group_t *group, hd_birth_t *birth, uint32_t me, ucc_status_t status,
                  bool in);
/* Also after that: nothing can come of it, since participant `me` can't go on. False: too late: all have said that they take part, and
 * some may have read that. (Where another participant has failed first, that is the other's
 * matter.) */
bool hd_birth_fail(hd_birth_t *birth, uint32_t me, ucc_status_t why);
/* For people: whose failure was the first; UINT32_MAX: nobody's, or it has not said so yet. */
uint32_t hd_birth_culprit(const hd_birth_t *birth);
/* UCC_INPROGRESS: not all have said so yet; UCC_OK: all have; else the first failure. */
ucc_status_t hd_birth_status(const hd_birth_t *birth);
/* After UCC_OK: does participant i take part? */
bool hd_birth_has(const hd_group_t *group, const hd_birth_t *birth, uint32_t i);
/* For people: has participant i said something? */
bool hd_birth_hears(const hd_birth_t *birth, uint32_t i);
/* Participant `me`, which has said so, looks no more. */
void hd_birth_leave(hd_group_t *group, hd_birth_t *birth, uint32_t me);

/* What the endpoints of such a group have agreed on (api/agree.c), one decision after the other:
 * the one with this name is final. Nobody begins the agreement after the next one before all that
 * live know that. */
enum { HD_AGREEMENTS = 4 };
void hd_group_tell_agreed(hd_group_t *group, uint64_t number, uint64_t name);
bool hd_group_is_agreed(const hd_group_t *group, uint64_t number, uint64_t name);

/* What is over in such a group, by names that are used once: the last HD_OVER are remembered. */
enum { HD_OVER = 64 };
void hd_group_tell_over(hd_group_t *group, uint64_t name);
bool hd_group_is_over(const hd_group_t *group, uint64_t name);

/* --- board.c: members and endpoints ----------------------------------------------------------- */

/* Which member the team's endpoint of this number is; group->n: it lives in another process. */
uint32_t hd_group_member(const hd_group_t *group, uint32_t number);
/* The other way round. */
static inline uint32_t hd_group_number(const hd_group_t *group, uint32_t member) {
    return group->numbers ? group->numbers[member] : member;
}
/* Processors that its processes may use together, as far as they have mapped its memory. */
uint32_t hd_group_n_processors(const hd_group_t *group);
/* Have n endpoints of its processes fewer processors than they are, or the `here` of this one? */
bool hd_group_lacks_processors(const hd_group_t *group, uint32_t n, uint32_t here);

/* --- poison.c: whether a group may still be used ---------------------------------------------- */

/* All its operations, outstanding and later, end with this status, or with that of an earlier call.
 */
void hd_group_poison(hd_group_t *group, ucc_status_t status);
/* Before that, if the reason is that a process of those that share its memory is lost: whoever sees
 * the poison knows which. */
void hd_group_lose(hd_group_t *group, uint32_t process);
bool hd_group_has_lost(const hd_group_t *group, uint32_t process);
static inline ucc_status_t hd_group_poisoned(const hd_group_t *group) {
    /* acquire: pairs with hd_group_poison, though only the value matters */
    return (ucc_status_t)atomic_load_explicit(&hd_common(group)->poison, memory_order_acquire);
}
/* Whoever finds out that the group has failed calls this, for what waits where nobody looks; if
 * that has been so before, it is called now. The same for all who ask; it takes no lock but its
 * own. */
void hd_group_on_poison(hd_group_t *group, void (*does)(const hd_group_t *group));
/* The caller is in the child of a fork, and this is the copy of a group of its parent; and one line
 * that says so. */
bool hd_group_is_inherited(const hd_group_t *group);
void hd_group_say_inherited(hd_group_t *group);

/* --- match.c: boards for collectives that are not matched by their number --------------------- */

typedef enum hd_match_class {
    HD_MATCH_TAG,        /* key: the user's tag */
    HD_MATCH_INIT,       /* key: how-manieth init of an INIT_* ordered team */
    HD_MATCH_PERSISTENT, /* the same for persistent requests */
    HD_MATCH_ACTIVE_SET, /* key: 0 */
    HD_MATCH_NUMBERED    /* not matched: of the main board; only in names (hd_exchange_name_t) */
} hd_match_class_t;

/* Joins the oldest exchange of (class, key, subset) that member `me` has not joined, or opens one.
 * subset NULL: all endpoints. Any thread. NULL: out of memory (logged). */
hd_board_t *hd_match_join(hd_group_t *group, const hd_subset_t *subset, hd_match_class_t class,
                          uint64_t key, uint32_t me);
/* The caller is done with the board; the last one gives it back to the pool. */
void hd_match_leave(hd_board_t *board);

/* What an exchange of a spanning group is called, the same in all processes of its team. */
typedef struct hd_exchange_name {
    hd_match_class_t class;
    uint64_t key; /* see hd_match_class_t; NUMBERED: the number */
    /* how-manieth exchange of that class, key and subset it is, from 1; of INIT and NUMBERED, whose
     * keys don't come again: 1 */
    uint64_t ordinal;
    const hd_subset_t *subset; /* NULL: all endpoints; the board's, as long as the exchange lasts */
} hd_exchange_name_t;

/* Of an operation whose board and number are known. */
hd_exchange_name_t hd_op_exchange_name(const hd_op_t *op);

/* --- queue.c: the order in which a member's operations are published -------------------------- */

typedef enum hd_turn {
    HD_TURN_NOW, /* the caller launches it */
    /* queued, and the caller puts its task into the context's list, if it is not there */
    HD_TURN_NEXT,
    HD_TURN_LATER /* queued behind others: it may already be somebody else's */
} hd_turn_t;

/* Gives the operation its place on this board and its number there. */
hd_turn_t hd_board_enter(hd_op_t *op, hd_board_t *board);
/* The step of an operation in a member's queue (op->match calls it). */
ucc_status_t hd_op_step_queued(hd_op_t *op);
/* An operation that was not launched in time: the others will miss it. Says so, and poisons the
 * group. */
void hd_op_time_out(const hd_op_t *op);

/* --- op.c: an operation under way ------------------------------------------------------------- */

/* Gives a prepared operation (group, board, member, k, me, n set) its first push. */
ucc_status_t hd_op_launch(hd_op_t *op);
/* The same for one that the express has put out, short of the first step: the caller has just
 * looked. wait: what is left of it (hd_family_t, or who has an express of its own). */
void hd_op_resume(hd_op_t *op, ucc_status_t (*wait)(hd_op_t *op));
/* From op->prepare of an operation that calls user's code (callback.h). */
ucc_status_t hd_op_calls_user(hd_op_t *op);
/* Its packing or unpacking did not return: the team fails, and the next step ends it. */
void hd_op_abandon(hd_task_t *task);
/* From the frame's `finish`: it needs its board no more, but is not over: COPY_OUT begins. */
void hd_op_leave(hd_op_t *op);
/* In progress, in a group that was poisoned, and its buffers are gone: its steps neither read nor
 * write them, and end it when no peer does. By the only user of its context. */
void hd_op_disown(hd_op_t *op);
/* In the child of a fork, of any operation: what it finds of a mapped group is of a later moment
 * than itself, so it leaves that alone, and ends. */
void hd_op_inherited(hd_op_t *op);
/* An operation that fails without having been launched. Its memory may be a peer's to write to all
 * the same (put.c): UCC_INPROGRESS until it is not, if the task is stepped on; then why. */
ucc_status_t hd_op_fail_unlaunched(hd_op_t *op, ucc_status_t why);
/* task.step of every operation, in all its phases; set by whoever makes one. */
ucc_status_t hd_op_step(hd_task_t *task);
/* The same by the poster of an operation that awaits a word, before its context has it. */
ucc_status_t hd_op_look(hd_op_t *op);
/* As the caller calls it: a reduce_scatter in place, of uneven blocks, runs as a reduce_scatterv.
 */
static inline const char *hd_op_type_name(const hd_op_t *op) {
    return hd_type_name(hd_call_asked(&op->call));
}
/* Logs an error, behind the operation's type and endpoint. Returns `status`. */
ucc_status_t hd_op_refuse(const hd_op_t *op, ucc_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* --- express.c: small collectives of few endpoints -------------------------------------------- */

/* HD_EXPRESS_OVER: it is over. 0: nothing has happened. Else the number whose lane is out, to be
 * gone on with by an operation. looks: how often one lane that is awaited is looked at again. The
 * place's number is not looked at. */
#define HD_EXPRESS_OVER UINT64_MAX
uint64_t hd_express_barrier(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_bcast(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_scatter(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_allreduce(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
/* The same for a call that is repeated with these addresses instead of its own. */
uint64_t hd_express_bcast_of(const hd_place_t *at, const hd_call_t *call, void *buffer,
                             uint32_t looks);
uint64_t hd_express_scatter_of(const hd_place_t *at, const hd_call_t *call, const void *src,
                               void *dst, uint32_t looks);
uint64_t hd_express_allreduce_of(const hd_place_t *at, const hd_call_t *call, const void *src,
                                 void *dst, uint32_t looks);
/* The end of one that goes on outside the group, where all have taken part: the member has consumed
 * its exchange. */
uint64_t hd_express_end(const hd_place_t *at, uint64_t k);

/* --- family.c: who carries a collective out --------------------------------------------------- */

typedef struct hd_family {
    ucc_status_t (*start)(hd_op_t *op); /* publishes, and sets op->wait */
    /* all of it, if it is small and the others are there; NULL: it has no such way */
    uint64_t (*express)(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
    ucc_status_t (*wait)(hd_op_t *op); /* what is left of it once that has put the lane out */
    ucc_status_t (*start_staged)(hd_op_t *op); /* if STAGED is the regime; NULL: as start */
} hd_family_t;

extern const hd_family_t hd_family[HD_N_TYPES];

/* --- mismatch.c: what must agree -------------------------------------------------------------- */

/* What all endpoints of a collective must call alike; fields without a meaning for it are 0. */
typedef struct hd_terms {
    uint8_t type;
    bool rooted, reducing; /* as the type is */
    bool user;             /* the reduction is the user's: its element's size must agree, no more */
    bool in_place;         /* where it changes what peers do */
    bool device;           /* a buffer is in a device's memory */
    bool one_sided;        /* put.c; offset: of the buffer in its owner's part of the memory */
    bool uneven;   /* reduce_scatter in place with a remainder: bytes are those of all blocks */
    bool empty;    /* zero bytes at this endpoint, which takes part for the sake of CHECK */
    uint32_t root; /* member number */
    ucc_reduction_op_t op;
    uint64_t dt; /* agrees only in reductions; else for messages */
    size_t element, bytes, offset;
    uint64_t counts;  /* reduce_scatterv: all of them, hashed */
    uint64_t capture; /* that the streams are part of; 0: none */
} hd_terms_t;

#define HD_TERMS_ANY_DT UINT64_MAX /* generic, or not the same in all calls of these terms */

/* The type exactly, the rest hashed. */
uint32_t hd_terms_signature(const hd_terms_t *terms);
/* Remembers what this signature stands for, for the messages below. */
void hd_terms_note(const hd_terms_t *terms, uint32_t signature);

/* The signature of the same call in a capture; noted. */
uint32_t hd_terms_captured(uint32_t signature, uint64_t capture);

/* --- thresholds.c ----------------------------------------------------------------------------- */

/* Bytes of the largest elements with which such a reduction among n members is possible: a window
 * takes one of the results, or, of prefixes, everybody's. */
size_t hd_far_most(const hd_group_t *group, const hd_call_t *call, uint32_t n);

/* --- put.c: one-sided variants into symmetric memory ------------------------------------------ */

/* Does every member reach all parts of the memory? The same at all, from when the group is
 * complete. */
bool hd_put_reaches(const hd_group_t *group);
/* The buffer lies in every member's part of the memory. */
bool hd_put_fits(const hd_op_t *op, const uint8_t *buffer, size_t bytes);
/* How far from the beginning of my part my buffer lies; the same at all. */
size_t hd_put_offset(const hd_op_t *op, const uint8_t *buffer);
/* By whoever has poisoned the group, or left it: is a member still inside its copy? None enters any
 * more. */
bool hd_put_lingers(hd_group_t *group);

/* --- stall.c ---------------------------------------------------------------------------------- */

/* A look, now, whether all have joined was in vain: says who has not, if that is due
 * (threads/stall.h). */
void hd_group_stalled(const hd_group_t *group, hd_stall_t *stall, uint64_t now, uint32_t me);
/* How long a post has waited. Nothing is written at a post: another number, board or use of the
 * board (a persistent one's numbers begin anew with each) than these means that the wait is a new
 * one. */
typedef struct hd_op_waits {
    hd_stall_t stall;
    uint64_t k, use;
    const hd_board_t *board;
} hd_op_waits_t;

/* Of an operation in its context's list, between two steps: says whom it waits for, if that is due;
 * lets it time out. Returns when (ticks) to be called again at the latest. */
uint64_t hd_op_look_after(hd_op_t *op, hd_op_waits_t *waits, uint64_t now);

/* For people: calls `line` for each endpoint, with what it does; here: of this process's alone. Any
 * thread; never waits. */
void hd_group_tell(const hd_group_t *group, bool here, void (*line)(void *to, const char *text),
                   void *to);

/* Of a group of several processes, after numbers of endpoints: those of the processes of members
 * that are `in`. " of process 1 (host node7, pid 4711)", " of processes 0, 2-4". */
void hd_group_say_processes(const hd_group_t *group, hd_text_t *text,
                            bool (*in)(const void *arg, uint32_t e), const void *arg);

/* --- who.c ------------------------------------------------------------------------------------ */

/* Of a group of several processes: who has that mapping, and its number in the team. False: that
 * process has not mapped the group yet. */
bool hd_who_of(const hd_group_t *group, uint32_t mapping, hd_who_t *who, uint32_t *number);

/* --- waits.c ---------------------------------------------------------------------------------- */

/* What members of this process wait for in one exchange. */
typedef struct hd_group_wait {
    const char *title;   /* "barrier 17" */
    const char *what;    /* follows the names of those who are awaited: ", to join", or nothing */
    const bool *awaited; /* by member: for whom, of this process and of others */
} hd_group_wait_t;

typedef void (*hd_group_wait_fn)(void *to, const hd_group_wait_t *wait);

/* For people, of a group of several processes: calls `say` for each exchange that members of this
 * one wait in, as far as shared memory and those who wait for long have told. Any thread; never
 * waits. */
void hd_group_waits(const hd_group_t *group, hd_group_wait_fn say, void *to);

/* --- way.c ------------------------------------------------------------------------------------ */

/* For people: by which way large data of that process of the team come to this one, and why not by
 * a better one. False: they share no memory. Any thread. */
bool hd_group_way(const hd_group_t *group, uint32_t process, hd_text_t *text);

/* --- leave.c: endpoints that are gone --------------------------------------------------------- */

/* By endpoint ep, which has joined and has nothing in progress: it will post nothing more. Calling
 * this twice is harmless. Returns the number of the last exchange that it has taken part in. */
uint64_t hd_group_leave(hd_group_t *group, uint32_t ep);
bool hd_group_has_leavers(const hd_group_t *group);
/* Has endpoint ep joined, and left? */
bool hd_group_has_left(const hd_group_t *group, uint32_t ep);

#endif
