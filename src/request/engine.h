/* engine.h: execution engines of processor threads, and of streams (engine.c). api/ calls most of
 * this; stream.c calls what an engine has to know of posts on its stream.
 */
#ifndef HD_REQUEST_ENGINE_H
#define HD_REQUEST_ENGINE_H

#include "gpu/device.h"
#include "request/request.h"
#include "threads/stall.h"

/* An event for the client. */
typedef struct hd_event {
    ucc_ev_t ev; /* must stay first: the client has its address */
    struct hd_event *next;
} hd_event_t;

_Static_assert(offsetof(hd_event_t, ev) == 0, "the client has the address of the event");

struct ucc_ee {
    uint32_t magic;
    ucc_team_h team; /* NULL: it has ended */
    hd_lock_t lock;  /* guards the rest */
    /* one each for the client, a start or post under way, and each operation on its stream */
    uint32_t refs;
    uint32_t posted;          /* operations that were posted on its stream, and are not over */
    uint64_t ready;           /* events of the client's that have started nothing yet */
    uint32_t waiting;         /* triggers that have taken no event */
    uint64_t oldest;          /* of them: its number */
    bool starting;            /* one has taken an event, and is not posted yet */
    hd_event_t *first, *last; /* queued for the client, oldest first */
    uint32_t queued;
    hd_event_t *taken; /* taken by the client, and not acknowledged */
    bool lost, told;   /* lost: events had no place in the queue; told: the client has `overflow` */
    hd_event_t overflow;
    hd_trigger_t *armed;        /* triggers that are not idle */
    struct hd_devices *devices; /* of an engine of a stream: a reference; else NULL */
    hd_gpu_stream_t stream;
    ucc_ee_h next;            /* in the list of the team's engines, under the team's lock */
    hd_fork_hook_t fork_hook; /* a child finds its copy unlocked */
};

/* A wait for something that no bell announces, in all contexts of a handle. The caller sets `what`
 * and `awaited`, for the lines about the wait. */
typedef struct hd_team_waiting {
    const char *what, *awaited;
    /* ticks for which progress has been in vain */
    uint64_t vain;
    hd_stall_t stall;
} hd_team_waiting_t;

/* Progresses all contexts of the handle once. Then logs a wait that has been long, and naps if
 * there has been nothing to do for long. */
void hd_team_wait(ucc_team_h team, hd_team_waiting_t *waiting);

/* Makes an engine of a processor thread. */
ucc_status_t hd_ee_create(ucc_team_h team, ucc_ee_h *out);
/* Makes an engine of a stream. Loads the GPU driver, if nobody has. */
ucc_status_t hd_ee_create_of_stream(ucc_team_h team, void *stream, ucc_ee_h *out);
/* Ends an engine. UCC_ERR_INVALID_PARAM: triggered operations are outstanding (logged). */
ucc_status_t hd_ee_destroy(ucc_ee_h ee);
bool hd_ee_is_live(ucc_ee_h ee);
/* Hands the oldest event to the client. UCC_ERR_NOT_FOUND: there is none. The event lives until
 * hd_ee_ack_event, which accepts only events that the client has. */
ucc_status_t hd_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev);
ucc_status_t hd_ee_ack_event(ucc_ee_h ee, const ucc_ev_t *ev);
/* Takes an event of the client: it starts the operation that has waited longest, or, if none waits,
 * the next one. On an engine of a stream it does nothing. */
void hd_ee_set_event(ucc_ee_h ee);
/* Progresses until there is an event; copies it to *out, and acknowledges it. */
ucc_status_t hd_ee_wait(ucc_ee_h ee, ucc_ev_t *out);
/* Takes a reference for a caller that posts on the engine, and gives it back: the client may
 * destroy the engine in a callback meanwhile. */
void hd_ee_keep(ucc_ee_h ee);
void hd_ee_let_go(ucc_ee_h ee);
/* Queues an event for the client. If there is no place for it, the event is lost; OVERFLOW tells
 * the client so when the queue is empty. */
void hd_ee_put_event(ucc_ee_h ee, ucc_event_type_t type, ucc_coll_req_h req);
/* Only for engines of streams: an operation is posted on the stream; and the operation has done all
 * that it does with the engine. */
void hd_ee_begin(ucc_ee_h ee);
void hd_ee_end(ucc_ee_h ee);
/* Makes a triggered post on a thread's engine. The request may be posted, and is of the engine's
 * team. */
ucc_status_t hd_trigger_post(hd_request_t *r, ucc_ee_h ee);
/* Makes a triggered post on any engine (stream.c). */
ucc_status_t hd_request_post_triggered(hd_request_t *r, ucc_ee_h ee);

#endif
