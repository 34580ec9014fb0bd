/* engine.h: execution engines of processor threads, and of streams (engine.c). */
#ifndef HD_REQUEST_ENGINE_H
#define HD_REQUEST_ENGINE_H

#include "gpu/device.h"
#include "request/request.h"
#include "threads/stall.h"

/* A wait for something that no bell announces, in all contexts of a handle: begins with what the
 * lines about it say. */
typedef struct hd_team_waiting {
    const char *what, *awaited;
    uint64_t vain;
    hd_stall_t stall;
} hd_team_waiting_t;

void hd_team_progress(ucc_team_h team, hd_team_waiting_t *waiting);
/* Has been in vain: says so in time, and naps if there has been nothing to do for long. */
void hd_team_rest(ucc_team_h team, hd_team_waiting_t *waiting);

ucc_status_t hd_ee_create(ucc_team_h team, ucc_ee_h *out);
/* Loads the driver, if nobody has. */
ucc_status_t hd_ee_create_of_stream(ucc_team_h team, void *stream, ucc_ee_h *out);
/* Refuses while a triggered operation is outstanding. */
ucc_status_t hd_ee_destroy(ucc_ee_h ee);
bool hd_ee_is_live(ucc_ee_h ee);
ucc_team_h hd_ee_team(ucc_ee_h ee);
/* The oldest event for the client; UCC_ERR_NOT_FOUND: none. It ends with ack, which knows its
 * events. */
ucc_status_t hd_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev);
ucc_status_t hd_ee_ack_event(ucc_ee_h ee, const ucc_ev_t *ev);
/* Starts the operation that has waited longest, or the next one. */
void hd_ee_set_event(ucc_ee_h ee);
/* Progresses until there is an event; takes it, acknowledged. */
ucc_status_t hd_ee_wait(ucc_ee_h ee, ucc_ev_t *out);
/* Its stream; NULL: it is a thread's. */
const hd_gpu_stream_t *hd_ee_stream(ucc_ee_h ee);
/* A reference, for who posts on it: its client may destroy it in a callback meanwhile. */
void hd_ee_keep(ucc_ee_h ee);
void hd_ee_let_go(ucc_ee_h ee);
/* Queues COLLECTIVE_POST for its client. */
void hd_ee_posted(ucc_ee_h ee, ucc_coll_req_h req);
/* Of a stream: an operation that was posted on it is over when all it has done with the engine is.
 */
void hd_ee_begin(ucc_ee_h ee);
void hd_ee_end(ucc_ee_h ee);
/* A triggered post on a thread's engine. The request may be posted, and is of the engine's team. */
ucc_status_t hd_trigger_post(hd_request_t *r, ucc_ee_h ee);
/* The same on any engine (stream.c). */
ucc_status_t hd_request_post_triggered(hd_request_t *r, ucc_ee_h ee);

#endif
