/* device.h: collectives on buffers in memory of devices: what those may call who make operations of
 * requests, post them, and end them. internal.h says how they work.
 */
#ifndef HD_DEVICE_DEVICE_H
#define HD_DEVICE_DEVICE_H

#include "gpu/device.h"
#include "gpu/gpu.h"
#include "team/team.h"

typedef struct hd_devices hd_devices_t;

struct hd_gpu_places;
/* Says for each member of the group which GPU it should use (near.c). UCC_INPROGRESS: not all
 * members have joined. UCC_ERR_NOT_FOUND: there is no GPU (logged). */
ucc_status_t hd_device_share_out(ucc_team_h team, struct hd_gpu_places *gpus, uint8_t *device);
/* Returns whether memory of which nothing is said is the host's. */
bool hd_device_finds_host(const void *buffer);
/* Returns whether this memory is the host's. */
static inline bool hd_is_host(ucc_memory_type_t type, const void *buffer) {
    return __builtin_expect(type == UCC_MEMORY_TYPE_HOST, 1) ||
           (type == UCC_MEMORY_TYPE_UNKNOWN && hd_device_finds_host(buffer));
}

/* --- handles --------------------------------------------------------------------------------- */

/* Returns the devices of the handle, which it has from now on. NULL: there are none (logged). */
hd_devices_t *hd_team_devices(ucc_team_h team);
/* Returns a reference to the process's devices. NULL: there are none (logged). */
hd_devices_t *hd_devices_open(void);
/* Gives a reference back, if there is one: devices may be NULL. */
void hd_devices_close(hd_devices_t *devices);
/* When a library handle ends: gives back what graphs have let go of since the last team. */
void hd_devices_sweep(void);
ucc_status_t hd_device_stream_of(hd_devices_t *devices, void *handle, hd_gpu_stream_t *stream);
/* When the operation's handle ends: frees what devices have to know of it. */
void hd_device_forget(hd_op_t *op);

/* --- a call is prepared ---------------------------------------------------------------------- */

/* Finds out whose memory a significant buffer is, of which so many bytes matter, and which is not
 * said to be the host's. If it is a device's, so is the call from now on, and if devices are given
 * the buffer as it is, it must be as large as the call says. field: "src" or "dst".
 * UCC_INPROGRESS: the call was none of devices so far (only from hd_args_repeat). */
ucc_status_t hd_device_look(hd_op_t *op, const char *field, ucc_memory_type_t type,
                            const void *buffer, size_t bytes);
/* Does that for the blocks of a vector with displacements, which have so many bytes in all. */
ucc_status_t hd_device_look_at_blocks(hd_op_t *op, const char *field,
                                      const ucc_coll_buffer_info_v_t *info, const hd_vector_t *v,
                                      size_t bytes);
/* Makes the call one of devices; none of its buffers is known yet. */
ucc_status_t hd_device_become(hd_op_t *op);
/* Refuses a call that devices can't do, when all of it is known (logged). */
ucc_status_t hd_device_settle(hd_op_t *op);
/* Makes the plan of a call of devices out of that by which the host would do it. */
void hd_device_plan(const hd_op_t *op, hd_plan_t *plan);
/* Sets the frame of an operation, and op->start if the host's is not the one, as op->plan says. */
void hd_device_follow(hd_op_t *op);
/* The operation leaves the order of its stream, if it is in one: it is over, or its launch has
 * failed. The `drop` of a frame of devices, also of one that is not decided yet. */
void hd_device_drop(hd_op_t *op);

/* For people: adds what devices do by this plan, besides or instead of what the host does. */
struct hd_phases;
void hd_device_phases(const hd_plan_t *plan, struct hd_phases *phases);

/* --- posts in the order of a stream (order.c) ------------------------------------------------ */

/* When a post's request is over. On an error it has not been posted, or is over with that error. */
typedef enum hd_on {
    HD_ON_WAITS,    /* when all is enqueued; the poster waits for that: hd_device_join_thread */
    HD_ON_POSTED,   /* when all is enqueued; the poster goes on before */
    HD_ON_TRIGGERED /* when the call is complete; the stream is in order when the post returns */
} hd_on_t;

/* A post in the order of a stream, as its poster knows it: the request may be over by now, and
 * another post's. */
typedef struct hd_device_post {
    /* the poster says */
    const hd_gpu_stream_t *known; /* the stream; NULL: it is that of `handle` */
    void *handle;
    hd_on_t on;
    /* in whose progress a triggered post is until engine_ends is called; NULL: another post */
    ucc_ee_h engine;
    void (*engine_ends)(ucc_ee_h engine);
    /* hd_device_arm says */
    hd_devices_t *devices;
    struct hd_device_order *order;
    hd_gpu_stream_t stream;
    hd_gpu_event_t *joined;
    uint64_t capture, number;
    hd_group_t *group;
    struct hd_device_gate *gate; /* the poster's; NULL: there is none, or it has been used */
} hd_device_post_t;

/* Logs why the call can't be in the order of a stream, and returns UCC_ERR_NOT_SUPPORTED. */
ucc_status_t hd_device_refuse_order(const hd_op_t *op, const char *why);
/* Returns whether the call would need stand-ins, as far as is known before the post. */
bool hd_device_stages(const hd_op_t *op);
/* Returns whether there is not a byte to be moved at this endpoint. */
bool hd_device_moves_nothing(const hd_op_t *op);
/* Prepares the post of a call of devices: takes down what its start has to know, and records the
 * stream's event. */
ucc_status_t hd_device_arm(hd_op_t *op, hd_device_post_t *post);
/* After a triggered post: returns whether its stream has still to be brought in order. */
bool hd_device_post_is_open(const hd_device_post_t *post);
/* Lets the stream wait at post->gate, unless it is in order by now. False: it can't be told to. */
bool hd_device_post_gate(hd_device_post_t *post);
/* The post is in order, but for a stream by thread: that comes after the lines from now on. */
ucc_status_t hd_device_post_join(const hd_device_post_t *post);
/* Ends each post that was armed. posted: it has not failed. */
void hd_device_post_end(hd_device_post_t *post, bool posted);
/* Lets the stream of the calling thread come after a request in its order. The caller has waited
 * for that request. */
ucc_status_t hd_device_join_thread(const hd_op_t *op);

/* --- show.c ---------------------------------------------------------------------------------- */

/* For heddle_info: prints which way calls of n endpoints take, if their buffers are on the GPUs
 * that near.c proposes. */
ucc_status_t hd_device_print_plans(ucc_lib_h lib, uint32_t n, FILE *out);

#endif
