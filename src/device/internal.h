/* internal.h: collectives on buffers in memory of devices, among the endpoints of one process. (In
 * teams that span processes, the host does them on pinned memory, span.c; of large ones a device
 * does what belongs to its process, pipeline.c.)
 *
 * A call has a device's buffer at every endpoint, or at none: that is part of what must agree. Its
 * operation is one of the engine (shm/engine.c), with a row whose units move no data: they ENQUEUE,
 * on a device each, what devices do. So two ends are told apart: ENQUEUED, when all units are
 * finished and the board is left; and COMPLETE, when the devices have done it. Until then the
 * request is in progress, and its context steps it (HD_PHASE_COPY_OUT).
 *
 *     member    at init          finds out whose memory it is, and that devices can do this
 *               enter, publish   takes stand-ins for memory of the host, and publishes; any claimer
 *                                may read its part from then on
 *     claimer   run (slice s)    takes the s-th working device: describes its share of the work as
 *                                one launch, enqueues it, and notes the end in the exchange's slot
 *     member    finish           takes the tickets, and leaves the board
 *               complete         looks whether the lines have reached the tickets
 *
 * WORKING DEVICES are those of the members' buffers: the root's first, then by the lowest member.
 * There are as many slices as the process has devices, or as there are members if these are fewer,
 * so that everybody knows their number without knowing whose buffers are where. Slice s is that of
 * the s-th working device; slices beyond the last one do nothing.
 *
 * LINES. A line is an internal stream of a device, and a word in pinned memory that the stream sets
 * to the ticket of each piece of work once it has done that. Whoever enqueues holds the line's
 * lock, so that tickets grow as the stream goes on. A member waits for tickets by plain loads. A
 * team uses one line of each device.
 *
 * ORDER OF STREAMS (order.c). A member's part may be in the order of a stream of the user's:
 *
 *     ready      is an event that the member records on its stream in the post: what devices do
 *                waits for it
 *     done[s]    is an event behind what the claimer of slice s has enqueued, kept with the
 *                exchange's slot; among processes it is part->own, of each member's own work
 *     join       is what each member does in finish: it lets its own stream wait for every done[s]
 *
 * Nobody touches another member's stream. Whoever claims a slice of the device that its own stream
 * is on enqueues there; all others enqueue on the line. Members with and without a stream may meet:
 * the former wait by events, the latter by tickets. In a capture nobody waits by tickets, and lines
 * of their own (HD_DEVICE_CAPTURES) take the place of the others, because they belong to the
 * capture until it ends.
 *
 * NO WAIT IS FOR WHAT IS NOT ENQUEUED. A plain post promises that its data is ready, so its work
 * waits for no other stream, and the host waits for tickets whose work has been enqueued before.
 * `ready` is recorded before the member publishes, and done[s] before slice s is finished, which is
 * before anybody joins. Where one device's stream waits for another's (windows.c, partials.c), one
 * claimer enqueues all of that, in the order of the data.
 *
 * CANCELLING can't take back what has been enqueued: a member that fails waits for its tickets as
 * well, so that nobody uses its buffers any more when it is told of the error. After
 * HD_DEVICE_DRAIN_SECONDS the log says that devices may still use the buffers, and what belongs to
 * the lines is never used again. A device that is lost uses nothing any more.
 *
 * FILES call downward only. The sections below are in that order, from the bottom up.
 */
#ifndef HD_DEVICE_INTERNAL_H
#define HD_DEVICE_INTERNAL_H

#include "core/debug.h"
#include "device/device.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"
#include "shm/outer.h"

#include <pthread.h>

/* What an operation waits for in COPY_IN and COPY_OUT. */
#define HD_DEVICE_NEEDS "its devices to complete what is enqueued"

enum {
    HD_DEVICE_SHARED_ABOVE = 64 * 1024, /* bytes of an endpoint: up to it one device does all */
    HD_DEVICE_LINES = 4,                /* lines of each device, but for those of captures */
    HD_DEVICE_CAPTURES = HD_GPU_STREAMS - HD_DEVICE_LINES, /* lines for what is captured */
    HD_DEVICE_REACH = 256,       /* allocations of which it is remembered who reaches them */
    HD_DEVICE_DRAIN_SECONDS = 10 /* as long as anybody waits for what can't be taken back */
};

/* --- what is there --------------------------------------------------------------------------- */

/* Words of a launch that are too many for its arguments (table.c). */
typedef struct hd_device_table {
    hd_gpu_block_t *host;   /* pinned: the host writes the words here */
    hd_gpu_block_t *device; /* the stream copies them here, where the kernel reads them */
    uint32_t capacity;      /* words */
    uint64_t ticket; /* of the work that reads the table: once reached, it may be written again */
    struct hd_device_table *next; /* of the same line */
} hd_device_table_t;

/* A block that a request has left behind: it is put back when the line has come to the ticket. */
typedef struct hd_device_late {
    hd_gpu_block_t *block;
    uint64_t ticket;
    struct hd_device_late *next;
} hd_device_late_t;

/* Memory that hangs on a line from when it is first needed until the line's end: windows.c and
 * partials.c have a structure each, which begins with this. */
typedef struct hd_line_memory hd_line_memory_t;
typedef void hd_line_memory_fn(hd_devices_t *devices, hd_line_memory_t *self);
struct hd_line_memory {
    hd_line_memory_fn *put; /* gives back all of it */
};

enum { HD_LINE_BOUNCE, HD_LINE_PARTIALS, HD_LINE_MEMORIES };

typedef struct hd_line {
    /* Held by whoever enqueues; guards what is not atomic. A claimer of windows holds it, and uses
     * the streams of other lines besides. */
    pthread_mutex_t lock;
    pthread_mutex_t making; /* held by whoever makes the line ready; taken last */
    _Atomic bool ready;     /* stream, info, word and ask are there, and stay as they are */
    _Atomic bool broken;    /* it is not known any more what is enqueued */
    hd_gpu_stream_t stream;
    hd_gpu_info_t info;
    hd_gpu_flag_t *word; /* the last ticket that the stream has come to */
    uint64_t ticket;     /* the last one given */
    hd_gpu_event_t *ask; /* recorded and queried now and then: says whether the device has failed */
    _Atomic bool asked;  /* `ask` is recorded, and has not been seen to be reached */
    _Atomic uint64_t ask_due; /* ticks: nobody asks before */
    hd_device_table_t *table; /* as many as launches with tables were ever under way at a time */
    hd_line_memory_t *memory[HD_LINE_MEMORIES]; /* NULL: not needed so far */
    hd_device_late_t *late, *late_last;         /* the oldest first; NULL: none */
} hd_line_t;

/* What this process has on devices, shared by the handles that have had a call on devices. */
struct hd_devices {
    const hd_gpu_driver_t *driver;
    /* Some work never became complete: what it may use is never given back. */
    _Atomic bool abandoned;
    hd_lock_t reach_lock; /* guards reach[] */
    struct {
        uint64_t id;         /* of an allocation */
        uint64_t asked, yes; /* devices that were asked for, and that reach it, by bit */
    } reach[HD_DEVICE_REACH];
    _Atomic uint32_t gates;      /* closed gates: what is behind them may not go on yet */
    struct hd_device_gate *gate; /* open ones that are kept; under the lock of gates.c */
    struct hd_device_left *left; /* under the lock of device.c */
    _Atomic uint32_t graphs;     /* graphs that keep something of these devices */
    struct hd_device_kept *_Atomic returned; /* what graphs have let go of, and is to be put back */
    hd_line_t line[]; /* HD_GPU_STREAMS of each device: its lines, and then those for captures */
};

/* A buffer of a member. */
typedef struct hd_device_side {
    hd_gpu_memory_t memory; /* HD_GPU_HOST: devices are given a stand-in. device -1: no device's */
    const void *at;         /* where the buffer was looked at */
    bool found;             /* said to be the host's, but found to be pinned in the last post */
    hd_gpu_block_t *stand_in; /* pinned; `enter` takes it; put back when the request ends */
    size_t bytes;             /* of the stand-in */
    uint64_t *dense;          /* displacements of blocks that lie one after the other there */
} hd_device_side_t;

enum { HD_SIDE_SRC, HD_SIDE_DST, HD_SIDES };

struct hd_device_wait {
    hd_line_t *line;
    uint64_t ticket;
    bool others; /* the ticket comes after work of other devices, too */
};

/* What the claimer of a slice has enqueued, for those who wait for its end. */
struct hd_device_done {
    uint64_t key; /* of the exchange in which it was enqueued; for others it says nothing */
    struct hd_device_wait wait; /* line NULL: there is no ticket */
    bool recorded;              /* there is an event */
    bool own;                   /* it is on a member's own stream, and in no capture */
    hd_gpu_stream_t stream;     /* on which the event was recorded */
    hd_gpu_event_t *event;      /* of device event_of; kept for the next exchange */
    int event_of;
    void *scratch; /* for descriptions; kept for the next exchange */
    size_t scratch_bytes;
};

/* How far a post in the order of a stream has come. Each has a number (above the lowest two bits),
 * so that whoever looks late at a request that is another post's by now sees that. The word is only
 * ever changed by CAS, or by the only one who may:
 *
 *     OVER --- its poster arms it ---------------------> OPEN
 *     OPEN --- finish: the stream waits for done[] ----> JOINED --- complete ------> OVER
 *       \--- poster: the stream waits for a gate -----> GATED --- its gate opens --> OVER
 *
 * A post whose gate the driver refuses goes back from GATED to OPEN; one that fails, from OPEN to
 * OVER. */
enum { HD_MEET_OVER, HD_MEET_OPEN, HD_MEET_JOINED, HD_MEET_GATED, HD_MEET_STATES };

/* A word that streams wait for, and that the host opens (gates.c). */
typedef struct hd_device_gate {
    struct hd_devices *devices;
    int device; /* whose streams wait at the gate, and near which its word is */
    hd_gpu_flag_t *word;
    uint64_t value;         /* that opens it; the next one is greater */
    hd_gpu_event_t *passed; /* recorded behind the gate if `passes` */
    bool passes;            /* `passed` was recorded at least once */
    /* of the last post that closed it */
    hd_group_t *group;
    const struct hd_device_order *order;
    uint64_t number;
    bool closed; /* until its request is over */
    bool put;    /* its poster is back from the driver */
    struct hd_device_gate *next;
} hd_device_gate_t;

/* In the order of which stream a member's part is: as its poster says, unless a field does. */
typedef struct hd_device_order {
    _Atomic uint64_t meet; /* number of the post, HD_MEET_* */
    bool is;     /* the part is in the order of `stream`; else its data is ready. `enter` says */
    bool held;   /* the member publishes only when the stream has come to the post */
    bool tells;  /* the host is told of completion all the same: a triggered post */
    bool posted; /* its poster goes on before the work is enqueued: heddle_post_on */
    ucc_ee_h engine; /* in whose progress a triggered post is; NULL: it is another post */
    void (*engine_ends)(ucc_ee_h engine); /* the poster's, which is told of the operation's end */
    hd_gpu_stream_t stream;
    uint64_t capture;       /* of which the stream is part; 0: of none */
    hd_gpu_event_t *ready;  /* of the stream's device: recorded in the post */
    hd_gpu_event_t *joined; /* recorded on a line: what a stream by_thread has still to wait for */
    int events_of;          /* device of both events; says nothing while they are NULL */
} hd_device_order_t;

/* Pinned memory that the endpoints of a process have in common with the network (pipeline.c). It is
 * taken for one exchange, each member drops it when it has no work on the device any more, and the
 * last one gives it back (stage.c). */
typedef struct hd_device_relay {
    /* Must stay first. block: as many bytes as the call has, at the same places. ticket: of what
     * was enqueued last, or 0 for nothing; under the line's lock until all slices are finished. */
    hd_device_late_t late;
    _Atomic uint32_t users; /* members that may still have work of their exchange on the device */
    hd_devices_t *devices;
    hd_line_t *line;
    bool ordered; /* the line has waited for the members' streams; guarded as late.ticket is */
    bool lost;    /* the device may use the block for ever; guarded as late.ticket is */
    /* By segment: the ticket of its LOCAL. 0: that has enqueued nothing, or nothing yet. */
    _Atomic uint64_t filled[];
} hd_device_relay_t;

/* A member's part: hangs on its request. Its owner writes it before it publishes; while the
 * exchange is pinned, claimers read it by way of the call that the member has exposed. What comes
 * after `device` is its owner's alone, but for `order`. */
typedef struct hd_device_part {
    hd_device_side_t side[HD_SIDES];
    int device; /* where its buffers are; -1: it has none */
    bool held;  /* among processes: its stream has not come to the post, and nothing is copied */
    struct hd_device_done own; /* behind its last work: what its stream comes after */
    bool renamed;    /* op->call may name stand-ins, and its signature may tell a capture */
    hd_call_t users; /* op->call as it was before that */
    hd_device_relay_t *relay; /* which it has to drop; NULL: none */
    hd_device_order_t order;
    /* from when everything is enqueued */
    ucc_status_t outcome;
    uint64_t drained_by; /* ticks: it has failed, and waits no longer; 0: it has not failed */
    uint32_t waits;      /* tickets that are not seen to be reached: wait[0] to wait[waits - 1] */
    struct hd_device_wait wait[HD_GPU_DEVICES];
} hd_device_part_t;

/* What lies with an exchange's slot (hd_slot.flight). The claimer of slice s writes done[s];
 * after all slices are finished, every member may read all of them until it has left the board. */
typedef struct hd_device_slot {
    hd_outer_memory_t memory;
    hd_devices_t *devices; /* a reference */
    uint32_t slices;
    struct hd_device_done done[];
} hd_device_slot_t;

/* How the devices of an exchange go about it (enqueue.c decides). */
typedef enum hd_device_way {
    HD_DEVICE_FUSED,    /* one launch for each share */
    HD_DEVICE_PARTIALS, /* each device first reduces what lies there (partials.c) */
    HD_DEVICE_COPIES,   /* copies among devices, and a launch for the rest (moves.c) */
    HD_DEVICE_WINDOWS   /* not all buffers are reached: by pinned memory (windows.c) */
} hd_device_way_t;

/* An exchange, as a claimer sees it who describes a device's share. */
typedef struct hd_device_view {
    const hd_op_t *op;
    const hd_work_t *work;
    struct hd_device_done *done; /* of this slice */
    hd_devices_t *devices;
    int device;             /* that is to work */
    uint32_t share, shares; /* this is the share-th of so many */
    uint64_t workers;       /* devices that work, by bit */
    hd_device_way_t way;
    uint32_t rows;      /* COPIES: what is left to the launch */
    bool ordered, told; /* some members wait by events; some by tickets */
    uint64_t capture;   /* of all members; 0: none */
} hd_device_view_t;

static inline hd_device_part_t *hd_device_part_of(const hd_op_t *op) {
    return op->device;
}

/* Member i's operation, by the call that it has exposed. */
static inline const hd_op_t *hd_device_op(const hd_device_view_t *v, uint32_t i) {
    const char *call = (const char *)v->work->call[i];
    return (const hd_op_t *)(const void *)(call - offsetof(hd_op_t, call));
}

/* The thresholds by which all claimers decide alike: those of member 0's library. */
static inline ucc_lib_h hd_device_settings(const hd_device_view_t *v) {
    return hd_device_op(v, 0)->team->lib;
}

static inline const hd_device_part_t *hd_device_part(const hd_device_view_t *v, uint32_t i) {
    return hd_device_op(v, i)->device;
}

/* The side that says where a member's source or result lies: one does for both in place, and of a
 * bcast. */
static inline const hd_device_side_t *hd_device_side_of(const hd_device_view_t *v, uint32_t i,
                                                        int which) {
    const hd_device_side_t *side = hd_device_part(v, i)->side;
    bool known = side[which].stand_in || side[which].memory.kind != HD_GPU_HOST;
    return &side[known ? which : 1 - which];
}

/* Does this share do what belongs to members of that device, or, the first share, of none (-1)? */
static inline bool hd_device_is_mine(const hd_device_view_t *v, int device) {
    return v->shares == 1 || device == v->device || (device < 0 && v->share == 0);
}

/* Is the operation over when everything is enqueued? */
static inline bool hd_device_is_told_by_stream(const hd_device_part_t *part) {
    return part->order.is && !part->order.tells;
}

/* A copy from one device to another. */
typedef struct hd_device_copy {
    void *to;
    const void *from;
    size_t bytes;
    int to_device, from_device;
} hd_device_copy_t;

/* Copies, and then a launch, that are being described. */
typedef struct hd_device_job {
    hd_gpu_launch_t launch;
    hd_gpu_width_t width;
    hd_gpu_table_t table;
    hd_device_table_t *kept; /* whose words `table` has; NULL: there is none, or it is a graph's */
    const hd_device_copy_t *copy; /* in the slice's scratch */
    uint32_t copies;
} hd_device_job_t;

/* --- check.c: walks, for builds with HD_DEBUG=2 (core/debug.h) and for tests ----------------- */

/* Aborts if what hangs on the line, which is locked, breaks what is said of it above. */
void hd_line_check(const hd_line_t *line);
/* The same for the part of an operation that the caller has started. */
void hd_device_check_part(const hd_op_t *op);

/* --- share.c: where shares begin, memory to describe them in, rows --------------------------- */

/* Elements at whose multiples ranges are cut, so that they begin at lines of memory, if buffers
 * do. */
static inline size_t hd_device_grain(size_t element) {
    enum { BYTES = 256 };
    return BYTES % element == 0 ? BYTES / element : 1;
}
typedef struct hd_device_range {
    size_t first, count;
} hd_device_range_t;
/* Returns the share-th share of `count` elements of so many bytes each. */
hd_device_range_t hd_device_range(size_t count, size_t element, uint32_t share, uint32_t shares);

/* Returns memory of the slice for a description, which the next call for the slice may give away.
 * NULL: there is none (logged). */
void *hd_device_scratch(const hd_device_view_t *v, size_t bytes);

/* Returns what hangs on the line under this number (HD_LINE_*). When that is first needed, it is
 * made: so many bytes, all zero but for `put`. NULL: there is no memory (logged). The caller holds
 * the line's lock. */
void *hd_line_memory(const hd_op_t *op, hd_line_t *line, int which, size_t bytes,
                     hd_line_memory_fn *put);

/* Rows for one device, in launches that need no table. */
enum { HD_DEVICE_ROWS = HD_GPU_WORDS / HD_GPU_ROW_WORDS /* of a launch */ };
typedef struct hd_device_rows {
    const hd_gpu_driver_t *driver;
    const hd_line_t *line;
    uint32_t n, launches;
    ucc_status_t status; /* the first error: nothing is enqueued after it */
    hd_gpu_row_t row[HD_DEVICE_ROWS];
} hd_device_rows_t;
/* Adds a row. Rows that follow each other become one; those that fill a launch are enqueued. */
void hd_device_add_row(hd_device_rows_t *rows, hd_gpu_row_t row);
/* Enqueues the rows that there are. */
void hd_device_launch_rows(hd_device_rows_t *rows);

/* --- table.c --------------------------------------------------------------------------------- */

/* Finds or makes a table of at least so many words for the job, if a launch's arguments don't hold
 * them. Then the caller holds the line's lock. */
ucc_status_t hd_line_table(hd_devices_t *devices, hd_line_t *line, uint32_t words,
                           hd_device_job_t *job);
/* The same for a launch in the graph that stream is captured into: while the graph is there, so are
 * the table and the devices. */
ucc_status_t hd_devices_keep(hd_devices_t *devices, hd_gpu_stream_t stream, uint32_t words,
                             hd_gpu_table_t *out);
/* Enqueues the job's copies and then its launch, if there is one, behind its table. If that is a
 * line's, the caller holds the lock: the work of the next ticket reads the table. */
ucc_status_t hd_device_launch(hd_devices_t *devices, hd_gpu_stream_t stream, hd_line_t *line,
                              const hd_device_job_t *job);
/* Frees the line's tables at its end, and gives back their memory unless that is to be
 * forgotten. */
void hd_line_put_tables(hd_devices_t *devices, hd_line_t *line, bool forget);
/* Gives back what graphs have let go of. */
void hd_devices_collect(hd_devices_t *devices);

/* --- line.c ---------------------------------------------------------------------------------- */

/* Waits, asleep, for what the event was last recorded behind. UCC_ERR_TIMED_OUT (not logged): that
 * has not come for HD_DEVICE_DRAIN_SECONDS. */
ucc_status_t hd_device_await_event(const hd_gpu_driver_t *driver, hd_gpu_event_t *event,
                                   hd_gpu_site_t site);
/* What was enqueued on the device may never end: what it uses is never given back (logged). */
void hd_devices_abandon(hd_devices_t *devices, int device);

/* Returns the line of a device that this group uses, made ready. NULL: it can't be (logged). */
hd_line_t *hd_devices_line(hd_devices_t *devices, int device, const hd_group_t *group);
/* Finds the group's line, which is not broken, and locks it; or, for what becomes part of a capture
 * (0: none), a line for that. On an error there is no such line (logged). */
ucc_status_t hd_devices_lock_line(hd_devices_t *devices, int device, const hd_group_t *group,
                                  uint64_t capture, hd_line_t **line);

static inline void hd_line_lock(hd_line_t *line) {
    pthread_mutex_lock(&line->lock);
    hd_gpu_taken_over(line);
    hd_checked(hd_line_check(line));
}

static inline void hd_line_unlock(hd_line_t *line) {
    hd_checked(hd_line_check(line));
    hd_gpu_handed_over(line);
    pthread_mutex_unlock(&line->lock);
}

/* Returns whether anybody holds the line's lock (for asserts). */
static inline bool hd_line_is_locked(hd_line_t *line) {
    bool held = pthread_mutex_trylock(&line->lock) != 0;
    if (!held) {
        pthread_mutex_unlock(&line->lock);
    }
    return held;
}

/* Returns whether it is unknown what is enqueued there: nothing more is then. */
static inline bool hd_line_is_broken(const hd_line_t *line) {
    /* relaxed: a later call may still be tried, and fails then; nothing is read because of it */
    return atomic_load_explicit(&line->broken, memory_order_relaxed);
}

static inline void hd_line_break(hd_line_t *line) {
    /* relaxed: see hd_line_is_broken */
    atomic_store_explicit(&line->broken, true, memory_order_relaxed);
}

/* Gives a ticket for all that has been enqueued, line->ticket; on an error the line is broken. The
 * caller holds the line's lock. */
ucc_status_t hd_line_signal(hd_devices_t *devices, hd_line_t *line);
/* Has the line come to the ticket? */
bool hd_line_reached(const struct hd_device_wait *wait);
/* Has the device of this line failed? Whoever waits for the line asks this now and then. */
bool hd_line_has_failed(hd_devices_t *devices, hd_line_t *line);
/* Waits for all that has been enqueued, because something has failed. If that fails, too, the line
 * is broken (logged), and what belongs to it is never used again. */
ucc_status_t hd_line_drain(hd_devices_t *devices, hd_line_t *line);
/* Drains the group's lines of the other devices, because a line is lost that was to tell of their
 * work. They need not be locked: if two drain them at a time, each waits for what it has to, or for
 * more. */
void hd_devices_drain_others(hd_devices_t *devices, const hd_group_t *group, const hd_line_t *lost);
/* Puts the block back when the line has reached its ticket, and frees `late`. The caller does not
 * hold the line's lock. */
void hd_line_put_later(hd_devices_t *devices, hd_line_t *line, hd_device_late_t *late);
/* Ends the line, and gives back all that hangs on it; or forgets that, because the device may go on
 * to use it, and frees only the process's own memory. */
void hd_line_put(hd_devices_t *devices, hd_line_t *line, bool forget);

/* --- gates.c --------------------------------------------------------------------------------- */

/* Takes a gate for streams of the device: it is the caller's until it leaves it. NULL: none. */
hd_device_gate_t *hd_device_gate_take(hd_devices_t *devices, int device);
/* Closes it, before the stream is told to wait: hd_device_gate_end opens it, and so does a failure
 * of the group. */
void hd_device_gate_close(hd_device_gate_t *gate, const hd_device_post_t *post);
/* The gate's poster is done with it. waits: its stream waits there until hd_device_gate_end; else
 * nothing does, nor will the post have such an end. */
void hd_device_gate_leave(hd_device_gate_t *gate, bool waits);
/* Opens the gate that this post of the order's has closed. */
void hd_device_gate_end(const hd_device_order_t *order, uint64_t number);
/* The end of devices: waits until streams have passed the gates that are kept; and gives these
 * back, or forgets them. */
void hd_device_gates_await(hd_devices_t *devices);
void hd_device_gates_put(hd_devices_t *devices, bool forget);
/* The child of a fork takes over the gates: whoever held their lock is not there. */
void hd_device_gates_inherit(void);

/* --- device.c -------------------------------------------------------------------------------- */

/* Makes the lines of a driver's devices, on which nothing hangs yet. NULL: no memory (logged). */
hd_devices_t *hd_devices_make(const hd_gpu_driver_t *driver);
/* Ends all lines, as hd_line_put does. */
void hd_devices_unmake(hd_devices_t *devices, bool forget);
/* Leaves an event on a stream of the user's, to be put back, or waited for by the end of
 * devices. */
void hd_devices_leave(hd_devices_t *devices, int device, hd_gpu_event_t *event);
/* May kernels of the device reach this memory, at this address? */
ucc_status_t hd_devices_reach(hd_devices_t *devices, int device, const hd_gpu_memory_t *memory,
                              const void *pointer, bool *yes);
/* Does the device of this pinned memory have it at its address? Else it is as good as pageable. */
bool hd_devices_have_pinned(hd_devices_t *devices, const hd_gpu_memory_t *memory,
                            const void *pointer);

/* --- look.c ---------------------------------------------------------------------------------- */

/* Does the allocation go that far, as far as is known? */
bool hd_device_holds(const hd_gpu_memory_t *memory, const void *at, size_t bytes);

/* --- stage.c --------------------------------------------------------------------------------- */

/* One side of a call: so many bytes at a place, or the blocks of a vector. */
typedef struct hd_device_extent {
    uint8_t *at;
    size_t bytes;
    uint32_t blocks;           /* 1 without a vector */
    const hd_vector_t *vector; /* of the call; NULL: it is plain */
    size_t element;
} hd_device_extent_t;
hd_device_extent_t hd_device_source_of(const hd_op_t *op);
hd_device_extent_t hd_device_result_of(const hd_op_t *op);
hd_data_t hd_device_block(const hd_device_extent_t *side, uint32_t i);

/* The call is again what it was before `enter`. */
void hd_device_restore_users(hd_op_t *op);
/* Has the operation's team endpoints in other processes? Then stand-ins cross (span.c). */
static inline bool hd_device_crosses(const hd_op_t *op) {
    return op->team->crossing || hd_group_spans_processes(op->team->group);
}
/* Among processes, the operation fails while it is in no exchange: the others learn of it now,
 * though nobody here may pump the network for a while. */
void hd_device_span_fail(hd_op_t *op, ucc_status_t why);
/* Gives the call's vector, if the side has one, displacements by which its blocks lie one after the
 * other: hd_device_side.dense. */
ucc_status_t hd_device_make_dense(hd_op_t *op, const hd_device_extent_t *side);

/* Takes a stand-in of so many bytes for a side. */
ucc_status_t hd_device_take_stand_in(hd_op_t *op, hd_device_side_t *side, int device, size_t bytes);
/* Takes stand-ins for memory of the host before the member publishes, copies what is sent, and lets
 * the call name them. */
ucc_status_t hd_device_stand_in(hd_op_t *op);
/* Copies results to the host's memory, when the operation is complete. */
void hd_device_copy_out(hd_op_t *op);
/* Puts back the stand-ins, which nobody uses any more, and drops the relay. */
void hd_device_put_stand_ins(hd_op_t *op);
/* Leaves the stand-ins to be put back once the line has reached this ticket. False: there is no
 * memory to remember that by, and some of them are still the part's. */
bool hd_device_leave_stand_ins(hd_op_t *op, const struct hd_device_wait *until);
/* Nobody knows when the device is done with the stand-ins: they are given to nobody any more. */
void hd_device_lose_stand_ins(hd_device_part_t *part);

/* --- order.c --------------------------------------------------------------------------------- */

/* Lets what is enqueued on stream from now on come after what all members' streams, or the
 * operation's own, had before their posts. */
ucc_status_t hd_device_await_ready(const hd_device_view_t *v, hd_gpu_stream_t stream);
ucc_status_t hd_device_await_own(const hd_op_t *op, hd_gpu_stream_t stream);
/* Records an event behind what has been enqueued on stream, for those who join. */
ucc_status_t hd_device_record(const hd_op_t *op, struct hd_device_done *done,
                              hd_gpu_stream_t stream);
/* Has a capture of the operation's stream begun since the post? Then the stream is left alone. */
bool hd_device_captured_since(const hd_op_t *op);
/* Lets a member's stream come after those of these n that are of its exchange, when all has been
 * enqueued, unless a gate is there already. */
ucc_status_t hd_device_join(hd_op_t *op, const struct hd_device_done *done, uint32_t n);
/* The frame's `enter` calls this first of all: nothing is enqueued yet, and what the poster has
 * armed is this operation's order. */
void hd_device_begin_part(hd_op_t *op);
/* Returns UCC_INPROGRESS if it is held (hd_device_order), else UCC_OK. */
ucc_status_t hd_device_hold(const hd_op_t *op);
/* Has the stream of a member that is held come to its post? UCC_OK, UCC_INPROGRESS, or an error. */
ucc_status_t hd_device_ready(hd_op_t *op);

/* --- await.c --------------------------------------------------------------------------------- */

/* The frame's `finish` ends in this, when the part has its tickets. If they are not all reached,
 * the operation leaves the board, and ends with `status` later. */
ucc_status_t hd_device_await(hd_op_t *op, ucc_status_t status);
/* The frame's `copy_out`. */
ucc_status_t hd_device_complete(hd_op_t *op);

/* --- reduce.c, moves.c: what a device does in which collective ------------------------------- */

/* Each of these describes a share. launch.blocks is 0, and so is copies, if the share is empty.
 * UCC_ERR_INVALID_PARAM: blocks of a v type don't agree (logged). The words are the most that the
 * table of its launch may need. */
ucc_status_t hd_device_reduce(const hd_device_view_t *v, hd_device_job_t *job);
uint32_t hd_device_reduce_words(const hd_device_view_t *v);
ucc_status_t hd_device_move(const hd_device_view_t *v, hd_device_job_t *job);
uint32_t hd_device_move_words(const hd_device_view_t *v);

/* Returns what describes a reduction of these elements of the call's, but for operands and results;
 * and describes the launch of one. */
hd_gpu_reduction_t hd_device_reduction(const hd_call_t *call, size_t first, size_t count);
ucc_status_t hd_device_describe(const hd_call_t *call, const hd_gpu_reduction_t *what,
                                hd_gpu_launch_t *launch, hd_gpu_width_t width,
                                hd_gpu_table_t *table);
/* Is there a kernel for this reduction? Else UCC_ERR_NOT_SUPPORTED (logged). */
ucc_status_t hd_device_can_reduce(const hd_call_t *call);

/* A block that one member sends to another. swap: the two blocks change places. */
typedef struct hd_device_move {
    uint32_t from, to;
    const void *src;
    void *dst;
    size_t bytes;
    bool swap;
} hd_device_move_t;

typedef void hd_device_each_fn(void *arg, const hd_device_move_t *move);
/* Calls `each` for the blocks of a collective that moves data, but for what is in place already:
 * by sender, from the first member of v->device on. UCC_ERR_INVALID_PARAM: blocks of a v type don't
 * agree (logged). */
ucc_status_t hd_device_each_move(const hd_device_view_t *v, hd_device_each_fn *each, void *arg);

/* Do devices copy to each other? Then *rows says how many rows this share has besides.
 * UCC_ERR_INVALID_PARAM: blocks of a v type don't agree (logged). */
ucc_status_t hd_device_find_copies(const hd_device_view_t *v, bool *yes, uint32_t *rows);

/* --- trip.c ---------------------------------------------------------------------------------- */

/* An event of one device, and whether it was recorded. */
typedef struct hd_mark {
    hd_gpu_event_t *event; /* NULL: never needed */
    bool recorded;
} hd_mark_t;

/* One collective that a claimer enqueues on several devices' lines. */
typedef struct hd_trip {
    const hd_device_view_t *v;
    const hd_gpu_driver_t *driver;
    hd_line_t *line; /* that of v->device, locked: comes after all others in the end */
    hd_mark_t *end;  /* by device: what the line comes after */
    /* by device; NULL: none. If it fails, they tell later ones of all that it has enqueued */
    hd_mark_t *left[2];
    uint64_t used;       /* devices on which something has been enqueued, by bit */
    uint64_t ready;      /* devices that wait for the members' streams, by bit */
    ucc_status_t status; /* the first error: nothing is enqueued after it */
} hd_trip_t;

hd_trip_t hd_trip_begin(const hd_device_view_t *v, hd_line_t *line, hd_mark_t *end);
/* Takes down a status, if there has been no error before. */
void hd_trip_note(hd_trip_t *t, ucc_status_t status);
/* Returns the line of a device, behind the members' streams. NULL: there is none (noted). */
hd_line_t *hd_trip_line(hd_trip_t *t, int device);
/* Records the mark on the line, unless something has failed. */
void hd_trip_mark(hd_trip_t *t, hd_mark_t *mark, const hd_line_t *line);
/* Lets the line come after the marks of these devices (by bit), as far as they are recorded; its
 * own device's counts as one that is not. */
void hd_trip_await(hd_trip_t *t, const hd_line_t *line, const hd_mark_t *mark, uint64_t of,
                   hd_gpu_site_t site);
/* Enqueues the reduction, unless something has failed. The line is locked if there is a table. */
void hd_trip_reduce(hd_trip_t *t, hd_line_t *line, const hd_gpu_reduction_t *what,
                    hd_gpu_width_t width);
/* Lets t->line come after all that was enqueued elsewhere, in any case. Returns t->status. */
ucc_status_t hd_trip_join(hd_trip_t *t);
void hd_marks_put(const hd_gpu_driver_t *driver, hd_mark_t *mark, size_t n);

/* --- partials.c ------------------------------------------------------------------------------ */

/* Is it worth it to reduce whole blocks of operands where they are? v->workers reach each other's
 * memory. */
bool hd_device_find_partials(const hd_device_view_t *v);
/* Enqueues the whole collective that way. The caller holds the lock of the line, which is that of
 * v->device, the lowest of the workers. On an error, too, what this has enqueued on other streams
 * comes before what the line is given next. */
ucc_status_t hd_device_enqueue_partials(const hd_device_view_t *v, hd_line_t *line);

/* --- windows.c ------------------------------------------------------------------------------- */

/* Enqueues the whole collective where not all devices reach all buffers. The caller holds the lock
 * of the line, which is that of v->device. On an error, too, what this has enqueued on other
 * streams comes before what the line is given next. */
ucc_status_t hd_device_enqueue_windows(const hd_device_view_t *v, hd_line_t *line);

/* --- enqueue.c ------------------------------------------------------------------------------- */

/* Decides which devices work, and which way the exchange goes: the same for each of its claimers.
 * The caller gives op, work, devices and share, else zeroes; shares is 0 if nothing is left for
 * that share. known: whether all workers reach all buffers; NULL: the devices are asked. */
ucc_status_t hd_device_decide(hd_device_view_t *v, const bool *known);
/* Returns whether the claimer's own stream will do for its share: then nobody changes streams. */
bool hd_device_suits_own(const hd_device_view_t *v);
/* Does slice v->share. The caller gives that, op, work, done and devices. */
ucc_status_t hd_device_run(hd_device_view_t *v);

/* --- op.c ------------------------------------------------------------------------------------ */

/* What claimers are given of an operation's buffers: as each family gives it to the engine. */
void hd_device_buffers_of(const hd_op_t *op, const void **src, void **dst);
/* The frame's `enter`, where claimers find the member's buffers by its part; and op->start there,
 * which publishes the buffers that the call names by now. */
ucc_status_t hd_device_enter(hd_op_t *op);
ucc_status_t hd_device_publish(hd_op_t *op);
/* hd_device_plan for a team that lives in this process, and what is particular to its `finish`. */
void hd_device_plan_here(const hd_op_t *op, hd_plan_t *plan);
ucc_status_t hd_device_finish_here(hd_op_t *op, ucc_status_t status);

/* --- pipeline.c ------------------------------------------------------------------------------ */

/* Makes the plan of an operation that goes by a relay instead of stand-ins. False, at all endpoints
 * of this process: this one does not, if that is the plan of the host. */
bool hd_device_plan_pipeline(const hd_op_t *op, hd_plan_t *plan);
ucc_status_t hd_device_finish_pipeline(hd_op_t *op, ucc_status_t status);
/* May calls of this type go by a relay, among so many endpoints of a process that has so many
 * devices, if the host would do them by segments? */
bool hd_device_may_pipeline(uint8_t type, uint32_t n, uint32_t devices);

/* --- span.c, near.c, show.c: device.h -------------------------------------------------------- */

#endif
