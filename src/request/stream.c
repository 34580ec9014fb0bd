/* stream.c: posts in the order of a stream of the user's: heddle_*_on, heddle_post_on, and
 * triggered posts on an engine of a stream. api/ calls these. What devices have to know is recorded
 * before the post (device/order.c). After a triggered post, the caller progresses its handle's
 * contexts until the operation is enqueued, or a gate keeps its stream in order (HEDDLE_GPU_GATE).
 */
#include "device/device.h"
#include "request/engine.h"
#include "request/internal.h"

enum { LINGER_US = 100 };

/* Makes a call without a byte one of devices. Refuses a call that no device can do in the order of
 * a stream (logged). */
static ucc_status_t check_kind(hd_request_t *r) {
    const hd_op_t *op = &r->op;
    if (r->run) {
        return hd_device_refuse_order(op,
                                      "an algorithm of the user's runs it, which knows no streams");
    }
    if (op->call.device) {
        return hd_device_stages(op)
                   ? hd_device_refuse_order(op,
                                            "a buffer is in memory of the host that is not pinned")
                   : UCC_OK;
    }
    if (!hd_device_moves_nothing(op)) {
        return hd_device_refuse_order(op, hd_gpu_inherited()
                                              ? "the child of a fork has no memory of devices"
                                              : "no buffer is in memory of a device");
    }
    ucc_status_t status = hd_args_become_device(r);
    return status == UCC_OK ? hd_request_decide(r) : status;
}

/* Progresses until the stream is in order: the operation is enqueued, or a gate keeps the stream
 * waiting for it. */
static ucc_status_t meet(ucc_team_h team, hd_device_post_t *post) {
    uint64_t until = hd_ticks() + LINGER_US * hd_ticks_per_us;
    hd_team_waiting_t waiting = {.what = "a triggered post", .awaited = "the others to post"};
    while (hd_device_post_is_open(post)) {
        hd_team_wait(team, &waiting);
        if (post->gate && hd_ticks() > until && hd_device_post_gate(post)) {
            return UCC_OK;
        }
    }
    return hd_device_post_join(post);
}

ucc_status_t hd_request_post_on(hd_request_t *r, ucc_ee_h ee, void *handle, hd_on_t on) {
    bool nothing = r->route == HD_ROUTE_NOTHING && !r->run; /* zero bytes */
    ucc_team_h team = r->op.team;
    hd_device_post_t post = {.known = ee && ee->devices ? &ee->stream : NULL,
                             .handle = handle,
                             .on = on,
                             .engine = ee,
                             .engine_ends = hd_ee_end};
    if (nothing || !hd_request_may_post(r)) {
        return hd_request_post(r); /* which logs why it may not be posted */
    }
    ucc_status_t status = check_kind(r);
    if (status == UCC_OK) {
        status = hd_device_arm(&r->op, &post);
    }
    if (status != UCC_OK) {
        return status;
    }
    if (ee) {
        hd_ee_begin(ee);
    }
    status = hd_request_post(r); /* after this, the request may be over, and another post's */
    bool posted = status == UCC_OK;
    if (posted && on == HD_ON_TRIGGERED) {
        status = meet(team, &post);
    }
    hd_device_post_end(&post, posted);
    return status;
}

/* On an engine of a stream, COLLECTIVE_POST is queued whenever the post succeeds: the client takes
 * an event as soon as the call returns, and would take another one for the next post. */
ucc_status_t hd_request_post_triggered(hd_request_t *r, ucc_ee_h ee) {
    if (!ee->devices) {
        return hd_trigger_post(r, ee);
    }
    ucc_coll_req_h request = &r->op.task.req;
    ucc_team_h team = ee->team;
    hd_ee_keep(ee);
    /* the client may destroy the engine in a callback, but not the team */
    hd_team_hold(team, true);
    ucc_status_t status = hd_request_post_on(r, ee, NULL, HD_ON_TRIGGERED);
    hd_team_hold(team, false);
    if (status == UCC_OK) {
        hd_ee_put_event(ee, UCC_EVENT_COLLECTIVE_POST, request);
    }
    hd_ee_let_go(ee);
    return status;
}
