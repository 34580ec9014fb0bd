/* device.h: collectives on buffers in memory of devices: what those may call who make operations of requests, post them, and
 * end them. internal.h says how they work.
 */
#ifndef HD_DEVICE_DEVICE_H
#define HD_DEVICE_DEVICE_H

#include "gpu/device.h"
#include "gpu/gpu.h"
#include "team/team.h"

typedef struct hd_devices hd_devices_t;

/* When a library handle ends: gives back what graphs have let go of since the last team. */
void hd_devices_sweep(void);
/* By member of the group, whose GPU each should be (device/near.c). UCC_INPROGRESS: not all have joined. UCC_ERR_NOT_FOUND:
 * there is none (logged). */
struct hd_gpu_places;
ucc_status_t hd_device_share_out(ucc_team_h team, struct hd_gpu_places *gpus, uint8_t *device);
/* Of memory of which nothing is said: false if it is a device's (device.c). */
bool hd_device_finds_host(const void *buffer);
/* Memory of the host. */
static inline bool hd_is_host(ucc_memory_type_t type, const void *buffer) {
    return __builtin_expect(type == UCC_MEMORY_TYPE_HOST, 1) ||
           (type == UCC_MEMORY_TYPE_UNKNOWN && hd_device_finds_host(buffer));
}

/* --- handles ------------------------------------------------------------------------------------------------- */

/* The handle's, from its first call on devices on. NULL: there are none (logged). */
hd_devices_t *hd_team_devices(ucc_team_h team);
/* One more reference, of somebody who has one. */
hd_devices_t *hd_devices_share(hd_devices_t *devices);
void hd_devices_close(hd_devices_t *devices);
ucc_status_t hd_device_stream_of(hd_devices_t *devices, void *handle, hd_gpu_stream_t *stream);
/* By the handle's end: what devices have to know of the operation. */
void hd_device_forget(hd_op_t *op);

/* --- a call is prepared ---------------------------------------------------------------------------------------- */

/* Whose memory a significant buffer is, of which so many bytes matter, and which is not said to be the host's: if it is a
 * device's, so is the call from now on. field: "src" or "dst". UCC_INPROGRESS: so far it was not (only from
 * hd_args_repeat_vector). */
ucc_status_t hd_device_look(hd_op_t *op, const char *field, ucc_memory_type_t type,
                            const void *buffer, size_t bytes);
/* After that: is there so much memory as it says? For a device's, and what else is given to devices as it is. Of a vector with
 * displacements, each block. UCC_ERR_INVALID_PARAM: no (logged). */
ucc_status_t hd_device_fits(const hd_op_t *op, const char *field, const void *buffer, size_t bytes);
ucc_status_t hd_device_blocks_fit(const hd_op_t *op, const char *field, const hd_vector_t *v,
                                  void *buffer, size_t element);
/* The call is one of devices; none of its buffers is known yet. */
ucc_status_t hd_device_become(hd_op_t *op);
/* Such a call is known: decides how it runs. */
ucc_status_t hd_device_settle(hd_op_t *op);
/* In a team that spans processes: it is known how the host would do it (op->start, op->plan). */
void hd_device_span_choose(hd_op_t *op);

/* --- posts in the order of a stream (order.c) ------------------------------------------------------------------- */

/* On an error the request has not been posted, or is over with it. */
typedef enum hd_on {
    HD_ON_WAITS, /* over when everything is enqueued; the poster waits for that, and calls hd_request_join */
    HD_ON_POSTED,   /* likewise, without the latter */
    HD_ON_TRIGGERED /* over when it is complete; on return the stream is in order */
} hd_on_t;

/* How a post is in the order of a stream. */
typedef struct hd_device_posting {
    const hd_gpu_stream_t *known; /* the stream; NULL: that of `handle` */
    void *handle;
    hd_on_t on;
    ucc_ee_h
        engine; /* of a triggered post, in progress until engine_ends is called; NULL: of another */
    void (*engine_ends)(ucc_ee_h engine);
} hd_device_posting_t;

/* Such a post, as its poster remembers it: the request may be over, and another one's. */
typedef struct hd_device_post {
    hd_devices_t *devices;
    struct hd_device_order *order;
    hd_gpu_stream_t stream;
    hd_gpu_event_t *joined;
    ucc_ee_h engine;
    void (*engine_ends)(ucc_ee_h engine);
    uint64_t capture;
    uint64_t number;
    hd_group_t *group;
    struct hd_device_gate *gate; /* the poster's; NULL: there may be none */
} hd_device_post_t;

/* Logs why the call can't be in the order of a stream: UCC_ERR_NOT_SUPPORTED. */
ucc_status_t hd_device_refuse_order(const hd_op_t *op, const char *why);
/* Would it need stand-ins, as far as is known before the post? */
bool hd_device_stages(const hd_op_t *op);
/* Is there not a byte at this endpoint? */
bool hd_device_moves_nothing(const hd_op_t *op);
/* Before the post of a call of devices, which nobody else knows yet: what the next post has to know. */
ucc_status_t hd_device_arm(hd_op_t *op, const hd_device_posting_t *how, hd_device_post_t *post);
/* After a triggered post: has its stream still to be brought in order? */
bool hd_device_post_is_open(const hd_device_post_t *post);
/* The stream waits at a gate from now on, or need not any more. False: there is no gate, or the stream can't be told to. */
bool hd_device_post_gate(hd_device_post_t *post);
/* It is in order: but for a stream by thread, which comes after the lines from now on. */
ucc_status_t hd_device_post_join(const hd_device_post_t *post);
/* At the end of each post that was armed. posted: it was not refused, and has not failed. */
void hd_device_post_end(hd_device_post_t *post, bool posted);
/* By who has waited for a request in the order of its thread's stream. */
ucc_status_t hd_device_join_thread(const hd_op_t *op);

/* --- show.c ------------------------------------------------------------------------------------------------------ */

/* For heddle_info: which way calls of n endpoints take, if their buffers are on the GPUs that near.h proposes. */
ucc_status_t hd_device_print_plans(ucc_lib_h lib, uint32_t n, FILE *out);

#endif
