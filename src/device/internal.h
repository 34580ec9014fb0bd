/* internal.h: collectives on buffers in memory of devices, among the endpoints of one process. (In teams that span processes,
 * the host does them on pinned memory: span.c.)
 *
 * A call has a device's buffer at every endpoint, or at none: that is part of what must agree. Its operation is one of the
 * engine (shm/engine.c), with a row whose units move no data: they ENQUEUE, on a device each, what devices do. So two ends
 * are told apart here, in code and in words:
 *
 *     enqueued   all units are finished: everything is on streams. The board is left, and the slot of the exchange is
 *                the next one's: who posts many collectives is not kept by the device.
 *     complete   the devices have done it. Until then the request is in progress, and its context steps it (HD_OP_ENQUEUED).
 *
 *     member    hd_device_look, hd_device_settle   at init: whose memory it is, and that devices can do this
 *               start              stand-ins for memory of the host; publishes; any claimer may now read its part
 *     claimer   run (slice s)      takes the s-th working device: describes its share of the work as one launch, and
 *                                  enqueues it on a line; notes the ticket with the exchange's slot
 *     member    finish             all slices are finished: takes the tickets, leaves the board
 *               step_enqueued      looks whether the lines have reached the tickets
 *
 * WORKING DEVICES are those of the members' buffers, the root's first, then by the lowest member. There are as many slices as the
 * process has devices, or members if these are fewer, so that everybody knows their number without knowing whose buffers are
 * where; slice s is that of the s-th working device, and those that have none do nothing.
 *
 * LINES. A line is an internal stream of a device, and a word in pinned memory that the stream sets to the ticket of each piece
 * of work once it has done it. Whoever enqueues holds the line's lock, so that tickets grow as the stream goes on. A member
 * waits for its tickets by plain loads; of all that wait for a line, one at a time asks the driver now and then whether
 * the device has failed. A team uses one line of each device.
 *
 * ORDER OF STREAMS (order.c). A member's part may be in the order of a stream of the user's: heddle_*_on, triggered
 * posts. Then
 *
 *     ready      an event that the member records on its stream in the post: what devices do waits for it
 *     done[s]    an event behind what the claimer of slice s has enqueued, with the exchange's slot
 *     join       each member, in finish, lets its own stream wait for every done[s]
 *
 * Nobody touches another member's stream. Who claims a slice of the device that its own stream is on enqueues there, and
 * needs no line; else on the line. Members with and without a stream may meet: the former wait by events, the latter
 * by tickets, and a claimer looks at all parts to see which are wanted. In a capture nobody waits by tickets, and lines of
 * their own (HD_DEVICE_CAPTURES) take the place of those of all days, because they belong to the capture until it ends.
 *
 * Among processes there is no done[s]: each member's own work is behind part->own, which its stream waits for.
 *
 * NO WAIT IS FOR WHAT IS NOT ENQUEUED. A plain post promises that its data is ready, so its work waits for no other stream,
 * and the host waits for tickets whose work has been enqueued before. `ready` is recorded before the member publishes, and
 * done[s] before slice s is finished, which is before anybody joins. Where devices don't reach each other's memory, one stream
 * waits for another, and all of that is enqueued by one claimer, in the order of the data (windows.c); likewise where
 * devices combine what others have reduced (partials.c).
 *
 * CANCELLING ends with closed slices, as always. What has been enqueued by then can't be taken back: who fails waits for its
 * tickets as well, so that buffers are nobody's when the error is told; up to HD_DEVICE_DRAIN_SECONDS, and then the log says that
 * devices may still use them, and what belongs to the lines is never used again. A device that is lost uses nothing any more:
 * only the others are waited for.
 */
#ifndef HD_DEVICE_INTERNAL_H
#define HD_DEVICE_INTERNAL_H

#include "device/device.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"
#include "shm/outer.h"

#include <pthread.h>

enum {
    HD_DEVICE_SHARED_ABOVE = 64 * 1024, /* bytes of an endpoint: up to it one device does all */
    HD_DEVICE_LINES = 4,                /* of each device */
    HD_DEVICE_CAPTURES = HD_GPU_STREAMS - HD_DEVICE_LINES, /* likewise, for what is captured */
    HD_DEVICE_REACH = 256,       /* allocations of which it is remembered who reaches them */
    HD_DEVICE_DRAIN_SECONDS = 10 /* as long as anybody waits for what can't be taken back */
};

/* Words of a launch that are too many for its arguments: written by the host, copied by the line, read by the kernel. */
typedef struct hd_device_table {
    hd_gpu_block_t *host; /* pinned */
    hd_gpu_block_t *device;
    uint32_t capacity; /* words */
    uint64_t ticket;   /* of the work that reads it; it may be written again once that is reached */
    struct hd_device_table *next; /* of the line's */
} hd_device_table_t;

/* Pinned memory through which devices pass on what they don't reach of each other's (windows.c). */
typedef struct hd_bounce hd_bounce_t;
/* Memory of devices for what blocks of operands come to (partials.c). */
typedef struct hd_partials hd_partials_t;
/* Pinned memory that a process's endpoints have in common with the network (flight.c). */
typedef struct hd_device_relay hd_device_relay_t;

/* A block that is put back when its line has done what uses it: a request that is over when all is enqueued leaves it. */
typedef struct hd_device_late {
    hd_gpu_block_t *block;
    uint64_t ticket;
    struct hd_device_late *next;
} hd_device_late_t;

/* An event on a stream of the user's, behind work that nobody waited for when its team ended. */
typedef struct hd_device_left {
    hd_gpu_event_t *event;
    int device;
    struct hd_device_left *next;
} hd_device_left_t;

typedef struct hd_line {
    pthread_mutex_t
        lock; /* who enqueues; one of windows holds it and uses other lines' streams besides */
    pthread_mutex_t making;     /* who makes it ready: taken last */
    _Atomic bool ready, broken; /* broken: what is enqueued is not known any more */
    hd_gpu_stream_t stream;
    hd_gpu_info_t info;
    hd_gpu_flag_t *word;
    uint64_t ticket; /* the last one given; under the lock */
    hd_gpu_event_t
        *ask; /* recorded and queried now and then: that tells whether the device has failed */
    hd_device_table_t *table; /* as many as there ever were launches with tables under way */
    hd_bounce_t *bounce;      /* NULL before it is first needed; under the lock */
    hd_partials_t *partials;  /* likewise */
    hd_device_late_t *late, *late_last; /* oldest first; NULL: none; likewise */
    _Atomic uint64_t ask_due;           /* ticks */
    _Atomic bool asked;                 /* recorded, and not seen to have been reached */
} hd_line_t;

/* What this process has on devices: one, shared by the handles that have had a call on devices. */
struct hd_devices {
    const hd_gpu_driver_t *driver;
    _Atomic bool
        abandoned; /* some work never became complete: nothing that it may use is given back */
    hd_lock_t reach_lock;
    struct {
        uint64_t id, asked, yes; /* bits by device */
    } reach[HD_DEVICE_REACH];
    _Atomic uint32_t gates;                  /* that may not be open yet */
    struct hd_device_gate *gate;             /* those that are kept */
    hd_device_left_t *left;                  /* under the lock of all handles */
    _Atomic uint32_t graphs;                 /* that keep something of these devices */
    struct hd_device_kept *_Atomic returned; /* what graphs have let go of, to be put back */
    hd_line_t line[]; /* HD_GPU_STREAMS of each device: its lines, and then those for captures */
};

/* A buffer of a member. */
typedef struct hd_device_side {
    hd_gpu_memory_t
        memory; /* kind HOST: devices are given a stand-in. device -1: there is nothing, or the host's */
    const void *at;           /* where it was looked at */
    bool found;               /* said to be the host's; pinned when it was last posted */
    hd_gpu_block_t *stand_in; /* pinned; taken by start, put back when the request ends */
    size_t bytes;             /* of that */
} hd_device_side_t;

enum { HD_SIDE_SRC, HD_SIDE_DST, HD_SIDES };

/* What a call said before it named stand-ins (span.c). */
struct hd_device_users {
    bool kept;
    const uint8_t *src;
    uint8_t *dst;
    hd_vector_t send, receive;
};

struct hd_device_wait {
    hd_line_t *line;
    uint64_t ticket;
    bool others; /* it is that of other devices' work, too */
};

/* What has been enqueued for an exchange by one who has done so, as those see it who wait for its end. */
struct hd_device_done {
    uint64_t
        key; /* of the exchange in which it was enqueued (hd_outer_key); of others it means nothing */
    struct hd_device_wait wait; /* line NULL: there is no ticket */
    bool recorded;              /* there is an event */
    bool own;                   /* on a member's own stream, and in no capture */
    hd_gpu_stream_t stream;     /* that it was recorded on */
    hd_gpu_event_t *event;      /* of event_of; kept */
    int event_of;
    /* kept for descriptions */
    void *scratch;
    size_t scratch_bytes;
};

/* Whether a triggered post has brought order to its stream. Each post has a number (above the lowest two bits), so that who
 * looks late at a request that is another one's by now sees that. Only ever changed by CAS or by the only one who may:
 *
 *     OPEN ---finish: the stream waits for done[]---> JOINED ---complete---> OVER
 *       \---the poster: the stream waits for a gate---> GATED ---complete: opens it---> OVER
 */
enum { HD_MEET_OVER, HD_MEET_OPEN, HD_MEET_JOINED, HD_MEET_GATED, HD_MEET_STATES };

/* gates.c says whose it is when. */
typedef struct hd_device_gate {
    struct hd_devices *devices;
    int device; /* that its word is near, and that its streams are on */
    hd_gpu_flag_t *word;
    uint64_t value;         /* that opens it; the next one is greater */
    hd_gpu_event_t *passed; /* recorded behind it, if anything ever was (passes) */
    bool passes;
    /* of the last post that closed it */
    hd_group_t *group;
    const struct hd_device_order *order;
    uint64_t number;
    bool put, open; /* its poster is back from the driver; its request is over */
    struct hd_device_gate *next;
} hd_device_gate_t;

/* In the order of which stream a member's part is. Written by its poster before it posts, but for what is said. */
typedef struct hd_device_order {
    bool armed;      /* for the next start */
    bool is;         /* it is in the order of `stream`; else its data is ready */
    bool held;       /* it publishes only when the stream has come to the post */
    bool tells;      /* the host is told of completion all the same: a triggered post */
    bool posted;     /* its poster goes on before it is enqueued: heddle_post_on */
    ucc_ee_h engine; /* of a triggered post: that it is in progress of; NULL: another post */
    void (*engine_ends)(ucc_ee_h engine); /* the poster's, which is told of the operation's end */
    hd_gpu_stream_t stream;
    uint64_t capture;       /* that the stream is part of; 0: none */
    uint32_t signature;     /* of the call, without the capture; the starter's */
    hd_gpu_event_t *ready;  /* of the stream's device */
    hd_gpu_event_t *joined; /* likewise, on a line: what a stream by_thread has to wait for yet */
    int events_of;          /* device of both; meaningless while they are NULL */
    _Atomic uint64_t meet;  /* number of the post, HD_MEET_* */
} hd_device_order_t;

/* A member's part: hangs on its request, written by its owner before it publishes; read by claimers, while the exchange is
 * pinned, by way of the call that the member has exposed. The rest is its owner's. */
typedef struct hd_device_part {
    hd_device_side_t side[HD_SIDES];
    int device;                /* where its buffers are; -1: it has none */
    hd_vector_t send, receive; /* the call's; of a stand-in, densely packed */
    uint64_t *dense;           /* those displacements */
    uint32_t dense_entries;
    /* among processes: how the operation begins once what it sends has been copied, or of a flight, once it may */
    ucc_status_t (*start)(hd_op_t *op);
    ucc_status_t (*come)(hd_op_t *op); /* of one that is held: its stream has come to the post */
    struct hd_device_done own;         /* behind its last work: what its stream comes after */
    struct hd_device_users users;
    ucc_status_t (*wait_inner)(hd_op_t *op); /* of a flight (flight.c) */
    hd_device_relay_t *relay;                /* whose user it is; NULL: of none */
    const void *src;                         /* what it publishes */
    void *dst;
    hd_device_order_t order;
    /* once enqueued */
    ucc_status_t outcome;
    uint64_t drained_by; /* ticks: it has failed, and waits no longer than that; 0: it has not */
    uint32_t waits;
    struct hd_device_wait wait[HD_GPU_DEVICES];
} hd_device_part_t;

/* What lies with an exchange's slot (hd_exchange.flight). Entry s of each is the claimer's of slice s; after all slices are
 * finished, everybody's to read until it has left the board. */
typedef struct hd_device_flight {
    hd_outer_memory_t memory;
    hd_devices_t *devices; /* a reference */
    uint32_t slices;
    struct hd_device_done done[];
} hd_device_flight_t;

/* How the devices of an exchange go about it (op.c decides). */
typedef enum hd_device_way {
    HD_DEVICE_FUSED, /* one launch for each share */
    HD_DEVICE_PARTIALS, /* the same, of what blocks of operands come to on the devices where they are (partials.c) */
    HD_DEVICE_COPIES, /* copies from device to device, and a launch for the rest of the share (copies.c) */
    HD_DEVICE_WINDOWS /* they don't reach each other's memory: the first one does all (windows.c) */
} hd_device_way_t;

/* An exchange, as a claimer sees it who describes a device's share. */
typedef struct hd_device_view {
    const hd_op_t *op;
    const hd_work_t *work;
    struct hd_device_done *done; /* of this slice */
    hd_devices_t *devices;
    int device;             /* that is to work */
    uint32_t share, shares; /* this is the share-th of so many */
    uint64_t workers;       /* bits by device: those that work */
    hd_device_way_t way;
    uint32_t rows;      /* COPIES: what is left to the launch */
    bool ordered, told; /* some members wait by events; some by tickets */
    uint64_t capture;   /* of all; 0: none */
} hd_device_view_t;

static inline const hd_device_part_t *hd_device_part(const hd_device_view_t *v, uint32_t i) {
    const char *call = (const char *)v->work->call[i];
    return ((const hd_op_t *)(const void *)(call - offsetof(hd_op_t, call)))->device;
}

/* That a member's source (result) lies in: HD_SIDE_*. In place, and of a bcast, only one side says where. */
static inline const hd_device_side_t *hd_device_side_of(const hd_device_view_t *v, uint32_t i,
                                                        int which) {
    const hd_device_side_t *side = hd_device_part(v, i)->side;
    bool known = side[which].stand_in || side[which].memory.kind != HD_GPU_HOST;
    return &side[known ? which : 1 - which];
}

/* Of what belongs to the members of a device; -1: to those that have none. */
static inline bool hd_device_is_mine(const hd_device_view_t *v, int device) {
    return v->shares == 1 || device == v->device || (device < 0 && v->share == 0);
}

/* From one device to another. */
typedef struct hd_device_copy {
    void *to;
    const void *from;
    size_t bytes;
    int to_device, from_device;
    uint32_t sender;
} hd_device_copy_t;

/* Copies, and then a launch, that are being described. */
typedef struct hd_device_job {
    hd_gpu_launch_t launch;
    hd_gpu_width_t width;
    hd_gpu_table_t table;
    const hd_device_copy_t *copy; /* the slice's scratch */
    uint32_t copies,
        first_copy; /* they are enqueued from the first one on, and then those before it */
} hd_device_job_t;

/* --- device.c ----------------------------------------------------------------------------------------- */

/* The lines of a driver's devices, without anything yet; NULL: no memory (logged). And what has been made for them goes. */
hd_devices_t *hd_devices_make(const hd_gpu_driver_t *driver);
void hd_devices_unmake(hd_devices_t *devices);
/* A reference, for the handle. NULL: there are none (logged). */
hd_devices_t *hd_devices_open(void);
/* The line of a device that this group uses; made ready. NULL: it can't be (logged). */
hd_line_t *hd_devices_line(hd_devices_t *devices, int device, const hd_group_t *group);
/* The same, locked; capture: one for what becomes part of that, 0: none. UCC_ERR_IO_ERROR, UCC_ERR_NO_RESOURCE: logged. */
ucc_status_t hd_devices_lock_line(hd_devices_t *devices, int device, const hd_group_t *group,
                                  uint64_t capture, hd_line_t **line);
/* May kernels of the device reach this memory, at this address? */
ucc_status_t hd_devices_reach(hd_devices_t *devices, int device, const hd_gpu_memory_t *memory,
                              const void *pointer, bool *yes);
static inline void hd_line_lock(hd_line_t *line) {
    pthread_mutex_lock(&line->lock);
    hd_gpu_taken_over(line);
}
static inline void hd_line_unlock(hd_line_t *line) {
    hd_gpu_handed_over(line);
    pthread_mutex_unlock(&line->lock);
}
/* What is enqueued there is not known any more: nothing more is. */
static inline bool hd_line_is_broken(const hd_line_t *line) {
    /* relaxed: a later call may still be tried, and fails then; nothing is read because of it */
    return atomic_load_explicit(&line->broken, memory_order_relaxed);
}
static inline void hd_line_break(hd_line_t *line) {
    /* relaxed: as above */
    atomic_store_explicit(&line->broken, true, memory_order_relaxed);
}
/* Under the line's lock: a table of at least so many words, or none for 0. */
ucc_status_t hd_line_table(hd_devices_t *devices, hd_line_t *line, uint32_t words,
                           hd_gpu_table_t *out, hd_device_table_t **kept);
/* Likewise: copies such a table's first words to the device, for the work of the next ticket. */
ucc_status_t hd_line_fill(hd_devices_t *devices, hd_line_t *line, hd_device_table_t *table,
                          uint32_t words);
/* Likewise, where something has failed: waits for all that has been enqueued. If that fails, too, the line is broken
 * (logged), and what belongs to it is never used again. */
ucc_status_t hd_line_drain(hd_devices_t *devices, hd_line_t *line);
/* A line is lost, which others' work was to be told of by: the same for those of the other devices that the group uses. They
 * need not be locked: with two who wait, each waits for as much as it has to, or more. */
void hd_devices_drain_others(hd_devices_t *devices, const hd_group_t *group, const hd_line_t *lost);
/* For who has locked it: a ticket for all that has been enqueued, line->ticket; or the line is broken. */
ucc_status_t hd_line_signal(hd_devices_t *devices, hd_line_t *line);
/* Has it got so far? */
bool hd_line_reached(const struct hd_device_wait *wait);
/* For a launch in the graph that stream is captured into: as long as the graph is there, so are the devices, and a table of at
 * least so many words, if they are too many for a launch's arguments. */
ucc_status_t hd_devices_keep(hd_devices_t *devices, hd_gpu_stream_t stream, uint32_t words,
                             hd_gpu_table_t *out);
/* Pinned memory of the user's: does the device that it is of have it at its address? Else it is as good as pageable. */
bool hd_devices_have_pinned(hd_devices_t *devices, const hd_gpu_memory_t *memory,
                            const void *pointer);
/* Waits, asleep, for what event was last recorded behind: UCC_OK, an error of the driver's, or UCC_ERR_TIMED_OUT, without a
 * line, after HD_DEVICE_DRAIN_SECONDS: what its stream waits for may be the caller's to do. */
ucc_status_t hd_device_await_event(const hd_gpu_driver_t *driver, hd_gpu_event_t *event,
                                   hd_gpu_site_t site);
/* By the last user of an event on a stream of the user's: it is put back, or waited for by the end of devices. */
void hd_devices_leave(hd_devices_t *devices, int device, hd_gpu_event_t *event);
/* Nothing that was enqueued there is known to end: what it may use is never given back (logged). */
void hd_devices_abandon(hd_devices_t *devices, int device);
/* By whoever is the last to use it, but for what was enqueued there up to its ticket: it is put back after that, and `late`,
 * of hd_alloc, is freed. Not under the line's lock. */
void hd_line_put_later(hd_devices_t *devices, hd_line_t *line, hd_device_late_t *late);
/* The device of this line has failed: by whoever waits for it, now and then. */
bool hd_line_has_failed(hd_devices_t *devices, hd_line_t *line);

/* --- reduce.c, moves.c, copies.c: what a device does in which collective ---------- */

/* Most words of a table that the description may need. */
uint32_t hd_device_words(const hd_device_view_t *v);
/* launch.blocks is 0, and copies is, if this share is empty. UCC_ERR_INVALID_PARAM: blocks of a v type don't agree (logged). */
ucc_status_t hd_device_describe(const hd_device_view_t *v, hd_device_job_t *job);

uint32_t hd_device_reduce_words(const hd_device_view_t *v);
ucc_status_t hd_device_reduce(const hd_device_view_t *v, hd_device_job_t *job);
uint32_t hd_device_move_words(const hd_device_view_t *v);
ucc_status_t hd_device_move(const hd_device_view_t *v, hd_device_job_t *job);
/* A block that one member sends to another; swap: the two change places. */
typedef struct hd_device_move {
    uint32_t from, to;
    const void *src;
    void *dst;
    size_t bytes;
    bool swap;
} hd_device_move_t;

typedef void hd_device_each_fn(void *arg, const hd_device_move_t *move);
/* Those of a collective that moves data, by sender, but for what is in its place already. UCC_ERR_INVALID_PARAM: as
 * hd_device_describe. */
ucc_status_t hd_device_each_move(const hd_device_view_t *v, hd_device_each_fn *each, void *arg);
/* Do devices copy to each other? Then this share has so many rows besides. UCC_ERR_INVALID_PARAM: as above. */
ucc_status_t hd_device_find_copies(const hd_device_view_t *v, bool *yes, uint32_t *rows);
ucc_status_t hd_device_copies(const hd_device_view_t *v, hd_device_job_t *job);
/* Rows for one device, in launches that need no table. */
enum { HD_DEVICE_ROWS = HD_GPU_WORDS / HD_GPU_ROW_WORDS /* of a launch */ };
typedef struct hd_device_rows {
    const hd_line_t *line;
    uint32_t n, launches;
    ucc_status_t status; /* the first error: nothing is enqueued after it */
    hd_gpu_row_t row[HD_DEVICE_ROWS];
} hd_device_rows_t;
/* Enqueues those that there are. */
void hd_device_launch_rows(const hd_gpu_driver_t *driver, hd_device_rows_t *rows);
/* Is there a kernel for this reduction? Else UCC_ERR_NOT_SUPPORTED (logged). */
ucc_status_t hd_device_can_reduce(const hd_call_t *call);
/* Elements at whose multiples ranges are cut, so that they begin at lines of memory, if buffers do. */
static inline size_t hd_device_grain(size_t element) {
    enum { BYTES = 256 };
    return BYTES % element == 0 ? BYTES / element : 1;
}
/* Memory of the slice for a description; NULL: there is none (logged). */
void *hd_device_scratch(const hd_device_view_t *v, size_t bytes);
typedef struct hd_device_range {
    size_t first, count;
} hd_device_range_t;
/* A share of `count` elements of so many bytes each. */
hd_device_range_t hd_device_range(size_t count, size_t element, uint32_t share, uint32_t shares);
/* So many of `count` things come before the share-th of shares, cut at multiples of grain. */
size_t hd_device_cut(size_t count, size_t grain, uint32_t share, uint32_t shares);

/* --- look.c ------------------------------------------------------------------------------------------- */

/* Does the allocation go that far, as far as is known? */
bool hd_device_holds(const hd_gpu_memory_t *memory, const void *at, size_t bytes);

/* --- stage.c --------------------------------------------------------------------------------------- */

/* One side of a call: so many bytes at a place, or the blocks of a vector. */
typedef struct hd_device_extent {
    uint8_t *at;
    size_t bytes;
    const hd_vector_t *vector; /* of the call; NULL: it is plain */
    size_t element;
} hd_device_extent_t;
hd_device_extent_t hd_device_source_of(const hd_op_t *op);
hd_device_extent_t hd_device_result_of(const hd_op_t *op);
/* From now on the blocks of a vector lie one after the other, by displacements of the part's. which: HD_SIDE_*. */
ucc_status_t hd_device_make_dense(const hd_op_t *op, hd_vector_t *vector, int which);

/* Before publishing: takes stand-ins for memory of the host, copies what is sent, and says where devices find it all. */
ucc_status_t hd_device_stand_in(hd_op_t *op, const void **src, void **dst);
/* Complete: copies results to the host's memory. */
void hd_device_copy_out(hd_op_t *op);
/* Nobody uses them any more, nor a relay. */
void hd_device_put_stand_ins(hd_op_t *op);
/* The same, but for the device up to this ticket. False: there is no memory to remember that by. */
bool hd_device_leave_stand_ins(hd_op_t *op, const struct hd_device_wait *until);
/* Nobody knows when its device is done with them: they are given to nobody any more. */
void hd_device_lose_stand_ins(hd_device_part_t *part);

/* --- trip.c ------------------------------------------------------------------------------------------- */

typedef struct hd_mark {
    hd_gpu_event_t *event; /* of one device; NULL: never needed */
    bool recorded;
} hd_mark_t;

/* One collective that a claimer enqueues on several devices' lines. */
typedef struct hd_trip {
    const hd_device_view_t *v;
    const hd_gpu_driver_t *driver;
    hd_line_t *line; /* that of v->device, locked: comes after all others in the end */
    hd_mark_t *end;  /* by device: what it comes after */
    hd_mark_t *left
        [2]; /* by device, NULL: none: what tells later ones of all that was enqueued, if this fails */
    uint64_t used;       /* devices on which something has been enqueued */
    uint64_t ready;      /* devices that wait for the members' streams */
    ucc_status_t status; /* the first error: nothing is enqueued after it */
    /* of windows alone */
    hd_bounce_t *bounce;
    uint32_t slot;
    uint64_t fills, drains; /* devices that do so in this window */
} hd_trip_t;

hd_trip_t hd_trip_begin(const hd_device_view_t *v, hd_line_t *line, hd_mark_t *end);
void hd_trip_note(hd_trip_t *t, ucc_status_t status);
/* The line of a device, behind the members' streams; NULL: that is noted. */
hd_line_t *hd_trip_line(hd_trip_t *t, int device);
/* Unless something has failed: records it there. */
void hd_trip_mark(hd_trip_t *t, hd_mark_t *mark, const hd_line_t *line);
/* Likewise: enqueues it there. Of more words than a launch has, under that line's lock. */
void hd_trip_reduce(hd_trip_t *t, hd_line_t *line, const hd_gpu_reduction_t *what,
                    hd_gpu_width_t width);
/* The line comes after all that was enqueued elsewhere, also if something has failed. Returns t->status. */
ucc_status_t hd_trip_join(hd_trip_t *t);
void hd_marks_put(const hd_gpu_driver_t *driver, hd_mark_t *mark, size_t n);

/* --- partials.c --------------------------------------------------------------------------------------- */

/* Is it worth it to reduce whole blocks of operands where they are? v->workers reach each other's memory. */
bool hd_device_find_partials(const hd_device_view_t *v);
/* The whole collective then; under the lock of the line, that of v->device, the lowest of the workers. On an error, too: as
 * hd_device_enqueue_windows. */
ucc_status_t hd_device_enqueue_partials(const hd_device_view_t *v, hd_line_t *line);
/* By the end of the line. */
void hd_partials_put(hd_devices_t *devices, hd_partials_t *partials);

/* --- windows.c ---------------------------------------------------------------------------------------- */

/* The whole collective, where not all devices reach all buffers; under the lock of the line, that of v->device. On any error,
 * too: what it has enqueued on other streams comes before what the line is given next. */
ucc_status_t hd_device_enqueue_windows(const hd_device_view_t *v, hd_line_t *line);
/* By the end of the line. */
void hd_bounce_put(hd_devices_t *devices, hd_bounce_t *bounce);

/* --- order.c ------------------------------------------------------------------------------------- */

/* By a claimer: what is enqueued on stream from now on comes after what the members' streams had before their posts. */
ucc_status_t hd_device_await_ready(const hd_device_view_t *v, hd_gpu_stream_t stream);
/* Likewise: an event behind what it has enqueued there, for those who join. */
ucc_status_t hd_device_record_done(const hd_device_view_t *v, hd_gpu_stream_t stream);
/* Likewise, on its own stream, where that has failed: waits until all of it is done. */
void hd_device_drain(const hd_device_view_t *v, hd_gpu_stream_t stream);
/* Among processes, by a member: the same for its own stream, and its own work, which part->own tells of then. */
ucc_status_t hd_device_await_own(const hd_op_t *op, hd_gpu_stream_t stream);
ucc_status_t hd_device_record_own(hd_op_t *op, hd_gpu_stream_t stream);
/* Has a capture of its stream begun since the post? Then nothing may be done to that stream. */
bool hd_device_captured_since(const hd_op_t *op);
/* By a member that is held: has its stream come to its post? UCC_OK, UCC_INPROGRESS, or an error. */
ucc_status_t hd_device_ready(hd_op_t *op);
/* By a member, when all has been enqueued: its stream comes after these n, as far as they are of its exchange; or a gate is
 * there already. */
ucc_status_t hd_device_join(hd_op_t *op, const struct hd_device_done *done, uint32_t n);
/* Likewise, when the request is about to end: a gate is opened. */
void hd_device_end_order(hd_op_t *op);
void hd_device_forget_order(hd_devices_t *devices, hd_device_order_t *order);

/* --- gates.c ------------------------------------------------------------------------------------- */

/* A gate for streams of the device, the caller's until it drops or closes it; NULL: there is none. */
hd_device_gate_t *hd_device_gate_take(hd_devices_t *devices, int device);
void hd_device_gate_drop(hd_device_gate_t *gate);
/* Before the stream is told to wait for it: from now on it is opened when the group fails, and by gate_end. */
void hd_device_gate_close(hd_device_gate_t *gate, hd_group_t *group, const hd_device_order_t *order,
                          uint64_t number);
/* Nothing waits for it after all, nor will there be a gate_end. */
void hd_device_gate_withdraw(hd_device_gate_t *gate);
/* Its poster is through with it, and has recorded `passed`, or has not. */
void hd_device_gate_leave(hd_device_gate_t *gate, bool passes);
/* Opens the one that this post of the order's has closed. */
void hd_device_gate_end(const hd_device_order_t *order, uint64_t number);
/* By the end of devices: until streams have passed those that are kept; and gives these back, or only forgets them. */
void hd_device_gates_await(hd_devices_t *devices);
void hd_device_gates_put(hd_devices_t *devices, bool forget);
/* In the child of a fork. */
void hd_device_gates_inherit(void);

/* --- op.c ---------------------------------------------------------------------------------------- */

static inline hd_device_part_t *hd_device_part_of(const hd_op_t *op) {
    return op->device;
}
/* From op->start, first of all: what the poster has armed is this operation's. */
void hd_device_take_order(hd_op_t *op);
/* From op->start, where that fails. */
void hd_device_leave_order(hd_op_t *op);
/* Is it over when everything is enqueued? */
static inline bool hd_device_is_told_by_stream(const hd_device_part_t *part) {
    return part->order.is && !part->order.tells;
}
/* Does a slice: of v, there are op, work, done, devices and share, which is the slice's number; it finds out the rest. Which
 * devices work, and which way, is decided here. */
ucc_status_t hd_device_run(hd_device_view_t *v);
/* What claimers are given of an operation's buffers: as each family gives it to the engine. */
void hd_device_buffers_of(const hd_op_t *op, const void **src, void **dst);
/* From op->finish, with the part's tickets: leaves the board if they are not reached yet, and returns UCC_INPROGRESS;
 * then it ends with this status. */
ucc_status_t hd_device_await(hd_op_t *op, ucc_status_t status);

/* --- span.c -------------------------------------------------------------------------------------- */

/* One that fails while it is in no exchange: the others learn of it now, though nobody here may pump the network for a while. */
void hd_device_span_fail(hd_op_t *op, ucc_status_t why);
/* From op->start: nothing is published or enqueued before its stream has come to the post (hd_device_order.held). `come` goes on
 * then, as op->wait does. */
void hd_device_span_hold(hd_op_t *op, ucc_status_t (*come)(hd_op_t *op));

/* --- flight.c ------------------------------------------------------------------------------------ */

/* Is it one that goes by a relay instead of stand-ins? The same at all endpoints of this process. */
bool hd_device_flies(const hd_op_t *op);
/* Of those: op->start, op->finish. */
ucc_status_t hd_device_flight_start(hd_op_t *op);
ucc_status_t hd_device_flight_finish(hd_op_t *op, ucc_status_t status);
/* Of this type, among so many endpoints of a process that has so many devices, if the host would do it by segments? */
bool hd_device_may_fly(uint8_t type, uint32_t n, uint32_t devices);
/* By a member that has no work on the device any more. */
void hd_device_drop_relay(hd_device_relay_t *relay);

#endif
