/* message.c: a lane's messages: their pool, how they go out and come in, and their end.
 *
 * Whoever sends or receives gets a message from the lane's pool, says whose it is and who is told
 * of its end (`over`), sets its pieces and its header or wire, and hands it on: hd_message_send,
 * hd_message_send_wire or hd_message_receive. From then on the message is in lane->under_way and
 * UCX's. When UCX touches no buffer of it any more, maybe before the call returns, `over` is
 * called, and the message goes back to the pool.
 *
 * All of it under the lane's lock.
 */
#include "net/internal.h"

#include "core/hash.h"

/* --- the pool --------------------------------------------------------------------------------- */

static void on_done(hd_ucx_request_t *ucx, ucc_status_t status);

hd_message_t *hd_message_get(hd_net_lane_t *lane) {
    hd_message_t *message = lane->free_messages;
    if (message) {
        lane->free_messages = message->next;
    } else {
        message = hd_alloc(HD_LINE, sizeof(*message));
        if (!message) {
            return NULL;
        }
        message->ucx.done = on_done;
        message->lane = lane;
    }
    message->next = NULL;
    message->at = NULL;
    message->over = NULL;
    message->leg = NULL;
    message->swap = NULL;
    message->peer = NULL;
    message->kept = NULL;
    message->receives = false;
    return message;
}

void hd_message_put(hd_message_t *message) {
    if (message->kept) {
        message->release(message->kept);
    }
    message->next = message->lane->free_messages;
    message->lane->free_messages = message;
}

void hd_message_clear(hd_net_lane_t *lane) {
    for (hd_message_t *next, *message = lane->under_way; message; message = next) {
        next = message->next; /* abandoned: UCX does not call it any more */
        hd_message_put(message);
    }
    lane->under_way = NULL;
    for (hd_message_t *next, *message = lane->free_messages; message; message = next) {
        next = message->next;
        hd_free(message);
    }
    lane->free_messages = NULL;
}

/* --- lists ------------------------------------------------------------------------------------ */

void hd_message_link(hd_message_t **list, hd_message_t *message) {
    message->next = *list;
    message->at = list;
    if (message->next) {
        message->next->at = &message->next;
    }
    *list = message;
}

void hd_message_unlink(hd_message_t *message) {
    *message->at = message->next;
    if (message->next) {
        message->next->at = message->at;
    }
}

/* --- a message's way -------------------------------------------------------------------------- */

void hd_message_end(hd_message_t *message, ucc_status_t status) {
    message->lane->moved = true;
    if (message->over) {
        message->over(message, status);
    }
    hd_message_put(message);
}

static void on_done(hd_ucx_request_t *ucx, ucc_status_t status) {
    hd_message_t *message = (hd_message_t *)ucx;
    hd_message_unlink(message);
    hd_message_end(message, status);
}

uint64_t hd_message_id(const hd_wire_t *wire, uint32_t to) {
    const uint64_t named[] = {wire->number,  wire->ordinal,
                              wire->subset,  (uint64_t)wire->class << 32 | wire->step,
                              wire->segment, (uint64_t)wire->source << 32 | to};
    uint64_t id = wire->team;
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        id = hd_hash_mix(id, named[i]);
    }
    return id;
}

void hd_message_send(hd_message_t *message, const hd_ucx_link_t *link, size_t header_bytes,
                     hd_ucx_way_t way) {
    hd_message_link(&message->lane->under_way, message);
    message->lane->moved = true; /* UCX may keep it: who sleeps for the lane arms anew */
    ucc_status_t status = hd_ucx_send(link, message->header, header_bytes, message->piece,
                                      message->n, way, &message->ucx);
    if (status != UCC_INPROGRESS) { /* else it may be over and gone */
        on_done(&message->ucx, status);
    }
}

void hd_message_send_wire(hd_net_team_lane_t *tl, hd_message_t *message, hd_ucx_way_t way) {
    const hd_wire_t *wire = &message->wire;
    hd_net_lane_t *lane = message->lane;
    hd_wire_write(wire, message->header);
    const hd_ucx_link_t *link = hd_peer_link(tl->team->peer[message->to], lane);
    if (!link) {
        hd_message_end(message, UCC_ERR_IO_ERROR);
        return;
    }
    if (wire->kind == HD_WIRE_DATA) {
        hd_net_add_up(&lane->traffic.messages_sent, 1);
        hd_net_add_up(&lane->traffic.bytes_sent, wire->bytes);
    } else {
        hd_net_add_up(&lane->traffic.told, 1);
    }
    if (hd_trace_is_on() && message->leg) { /* before: it may be over and gone when UCX has it */
        hd_trace_sent(message->leg, hd_ticks(), hd_message_id(wire, message->to), wire->bytes,
                      message->to);
    }
    hd_message_send(message, link, HD_WIRE_BYTES, way);
}

void hd_message_receive(hd_message_t *message, void *data) {
    hd_net_lane_t *lane = message->lane;
    hd_message_link(&lane->under_way, message);
    ucc_status_t status =
        hd_ucx_receive(&lane->port, data, message->piece, message->n, &message->ucx);
    if (status != UCC_INPROGRESS) {
        on_done(&message->ucx, status);
    }
}

void hd_message_tell(hd_net_team_lane_t *tl, uint32_t to, const hd_wire_t *wire) {
    hd_message_t *message = hd_message_get(hd_net_team_lane_of(tl));
    if (!message) {
        return; /* credits are told again; an abort that is lost is found out in other ways */
    }
    message->wire = *wire;
    message->wire.team = tl->team->wire;
    message->wire.source = tl->team->me;
    message->to = to;
    message->n = 0;
    hd_message_send_wire(tl, message, HD_UCX_EITHER);
}
