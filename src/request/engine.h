/* engine.h: execution engines of processor threads, and of streams (engine.c). api/ calls most of
 * this; stream.c calls what an engine has to know of posts on its stream.
 */
#ifndef HD_REQUEST_ENGINE_H
#define HD_REQUEST_ENGINE_H

#include "gpu/device.h"
#include "request/request.h"
#include "threads/stall.h"

/* A wait for something that no bell announces, in all contexts of a handle. The caller sets `what`
 * and `awaited`, for the lines about the wait. */
typedef struct hd_team_waiting {
    const char *what, *awaited;
    /* ticks for which progress has been in vain */
    uint64_t vain;
    hd_stall_t stall;
} hd_team_waiting_t;

/* Progresses all contexts of the handle once. */
void hd_team_progress(ucc_team_h team, hd_team_waiting_t *waiting);
/* Called after progress: logs a wait that has been long, and naps if there has been nothing to do
 * for long. */
void hd_team_rest(ucc_team_h team, hd_team_waiting_t *waiting);

/* Makes an engine of a processor thread. */
ucc_status_t hd_ee_create(ucc_team_h team, ucc_ee_h *out);
/* Makes an engine of a stream. Loads the GPU driver, if nobody has. */
ucc_status_t hd_ee_create_of_stream(ucc_team_h team, void *stream, ucc_ee_h *out);
/* Ends an engine. UCC_ERR_INVALID_PARAM: triggered operations are outstanding (logged). */
ucc_status_t hd_ee_destroy(ucc_ee_h ee);
bool hd_ee_is_live(ucc_ee_h ee);
/* Returns the engine's team; NULL: the team has ended. */
ucc_team_h hd_ee_team(ucc_ee_h ee);
/* Hands the oldest event to the client. UCC_ERR_NOT_FOUND: there is none. The event lives until
 * hd_ee_ack_event, which accepts only events that the client has. */
ucc_status_t hd_ee_get_event(ucc_ee_h ee, ucc_ev_t **ev);
ucc_status_t hd_ee_ack_event(ucc_ee_h ee, const ucc_ev_t *ev);
/* Takes an event of the client: it starts the operation that has waited longest, or, if none waits,
 * the next one. On an engine of a stream it does nothing. */
void hd_ee_set_event(ucc_ee_h ee);
/* Progresses until there is an event; copies it to *out, and acknowledges it. */
ucc_status_t hd_ee_wait(ucc_ee_h ee, ucc_ev_t *out);
/* Returns the engine's stream; NULL: it is an engine of a thread. */
const hd_gpu_stream_t *hd_ee_stream(ucc_ee_h ee);
/* Takes a reference for a caller that posts on the engine, and gives it back: the client may
 * destroy the engine in a callback meanwhile. */
void hd_ee_keep(ucc_ee_h ee);
void hd_ee_let_go(ucc_ee_h ee);
/* Queues the event COLLECTIVE_POST for the client. */
void hd_ee_posted(ucc_ee_h ee, ucc_coll_req_h req);
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
