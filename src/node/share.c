/* share.c: segments, offered and fetched, and what is said of them over open lines.
 *
 *     leader's slot:   PENDING --SEGMENT sent--> PENDING, with its request's number --TAKEN--> DONE
 *                      or a failure: of the peer, by TAKEN, or WITHDRAWN
 *     member's fetch:  PENDING, asked on a line --SEGMENT--> DONE, owes TAKEN
 *                      or a failure: of the peer, by REFUSE, or by what has come
 *
 * A peer's failure is read where it stands, in the peer: nobody carries it to fetches and offers.
 * But that of a line to one that is watched by its life is no failure of the peer's.
 */
#include "node/heap.h"
#include "node/internal.h"

#include "core/descriptors.h"
#include "core/log.h"
#include "core/mem.h"

#include <string.h>
#include <unistd.h>

static hd_node_state_t load(const hd_node_word_t *state) {
    /* acquire: pairs with set: a segment is there when its fetch is DONE */
    return (hd_node_state_t)atomic_load_explicit(state, memory_order_acquire);
}

static void set(hd_node_word_t *state, hd_node_state_t to) {
    atomic_store_explicit(state, (uint32_t)to, memory_order_release); /* see load */
}

/* Or its peer's failure, while it is pending itself. */
static hd_node_state_t state_of(const hd_node_word_t *own, const hd_node_peer_t *peer) {
    hd_node_state_t failure = hd_node_peer_state(peer); /* first: DONE may come before its end */
    hd_node_state_t state = load(own);
    return state == HD_NODE_PENDING && failure >= HD_NODE_FIRST_FAILURE ? failure : state;
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool send_of(hd_node_peer_t *peer, hd_node_kind_t kind, const uint64_t name[2],
                    uint64_t number, uint32_t code) {
    hd_node_message_t m = hd_node_write(kind);
    memcpy(m.name, name, sizeof(m.name));
    m.number = number;
    m.code = code;
    return hd_node_line_send(peer->node, peer->line, &m, -1);
}

static hd_node_slot_t *slot_of(hd_node_offer_t *offer, const hd_node_peer_t *peer) {
    for (uint32_t i = 0; i < offer->n; i++) {
        if (offer->slot[i].peer == peer) {
            return &offer->slot[i];
        }
    }
    return NULL;
}

static bool is_free(const hd_node_slot_t *slot) {
    return load(&slot->state) == HD_NODE_PENDING && slot->number == 0;
}

static bool send_segment(hd_node_peer_t *peer, const hd_node_request_t *request,
                         const hd_node_segment_t *segment) {
    hd_node_message_t m = hd_node_write(HD_NODE_SEGMENT);
    memcpy(m.name, request->name, sizeof(m.name));
    m.number = request->number;
    m.word = segment->bytes;
    return hd_node_line_send(peer->node, peer->line, &m, segment->fd);
}

/* False: not now. */
static bool answer(hd_node_peer_t *peer, hd_node_request_t *request) {
    hd_node_offer_t *offer = request->offer;
    hd_node_segment_t heap;
    if (!offer &&
        hd_heap_segment(request->name, &heap)) { /* whoever is let in, as often as asked */
        return send_segment(peer, request, &heap);
    }
    hd_node_slot_t *slot = offer ? slot_of(offer, peer) : NULL;
    if (!slot || !is_free(slot)) {
        hd_node_state_t why = request->refusal ? request->refusal : HD_NODE_UNEXPECTED;
        return send_of(peer, HD_NODE_REFUSE, request->name, request->number, why);
    }
    if (!send_segment(peer, request, &offer->segment)) {
        return false;
    }
    slot->number = request->number;
    return true;
}

static void answer_requests(hd_node_peer_t *peer) {
    for (hd_node_request_t **at = &peer->requests; *at;) {
        hd_node_segment_t heap;
        if (!(*at)->offer && !(*at)->refusal && !hd_heap_segment((*at)->name, &heap)) {
            at = &(*at)->next; /* it waits for the offer */
        } else if (answer(peer, *at)) {
            hd_node_peer_remove_request(peer, at);
        } else {
            return;
        }
    }
}

/* One that was asked on an earlier line is asked again. */
static void pay(hd_node_peer_t *peer, hd_node_fetch_t *fetch) {
    if (fetch->asked_on != peer->line->serial) {
        bool asks = !fetch->ended && load(&fetch->state) == HD_NODE_PENDING;
        if (asks && send_of(peer, HD_NODE_FETCH, fetch->name, fetch->number, 0)) {
            fetch->asked_on = peer->line->serial;
        }
    } else if (fetch->debt != HD_NODE_OWES_NOTHING) {
        bool taken = fetch->debt == HD_NODE_OWES_TAKEN;
        if (send_of(peer, taken ? HD_NODE_TAKEN : HD_NODE_CANCEL, fetch->name, fetch->number,
                    taken ? load(&fetch->state) : 0)) {
            fetch->debt = HD_NODE_OWES_NOTHING;
        }
    }
}

/* Of those that were ended: what can't be paid any more is not owed. serial: of the line; 0: there
 * is none. */
static void free_fetches(hd_node_peer_t *peer, uint32_t serial) {
    for (hd_node_fetch_t **at = &peer->fetches; *at;) {
        hd_node_fetch_t *fetch = *at;
        bool owes = fetch->debt != HD_NODE_OWES_NOTHING && serial && fetch->asked_on == serial;
        if (fetch->ended && !owes) {
            *at = fetch->next;
            hd_free(fetch);
            peer->uses--;
        } else {
            at = &fetch->next;
        }
    }
}

void hd_node_share_pump(hd_node_peer_t *peer) {
    if (peer->line) {
        answer_requests(peer);
        for (hd_node_fetch_t *fetch = peer->fetches; fetch; fetch = fetch->next) {
            pay(peer, fetch); /* behind a HELLO, too: whoever is let in has its answer at once */
        }
    }
    free_fetches(peer, peer->line ? peer->line->serial : 0);
    hd_node_peer_settle(peer);
}

void hd_node_share_forget(hd_node_peer_t *peer) {
    while (peer->requests) {
        hd_node_peer_remove_request(peer, &peer->requests);
    }
    free_fetches(peer, 0);
    hd_node_peer_settle(peer);
}

bool hd_node_share_awaits(const hd_node_peer_t *peer) {
    bool awaits = false;
    for (const hd_node_fetch_t *fetch = peer->fetches; fetch; fetch = fetch->next) {
        awaits = awaits || (!fetch->ended && load(&fetch->state) == HD_NODE_PENDING);
    }
    return awaits;
}

/* Something is on its way over the line of that peer, or owed to it. */
static bool is_in_use(const hd_node_peer_t *peer) {
    bool in_use = hd_node_share_awaits(peer);
    for (const hd_node_fetch_t *fetch = peer->fetches; fetch; fetch = fetch->next) {
        in_use = in_use || fetch->debt != HD_NODE_OWES_NOTHING;
    }
    for (hd_node_offer_t *offer = peer->node->offers; offer; offer = offer->next) {
        const hd_node_slot_t *slot = slot_of(offer, peer);
        in_use = in_use || (slot && slot->number && load(&slot->state) == HD_NODE_PENDING);
    }
    return in_use;
}

/* Those of peers that are watched by their lives; if need be, one by which somebody waits for an
 * offer, who asks again. The oldest one first: it has had its turn. */
bool hd_node_share_spare_line(hd_node_t *node) {
    hd_node_peer_t *least = NULL;
    for (hd_node_peer_t *peer = node->peers; peer; peer = peer->next) {
        if (!peer->line || peer->line->stage != HD_NODE_AT_OPEN || !peer->life || is_in_use(peer)) {
            continue;
        }
        bool waits = peer->requests != NULL, least_waits = least && least->requests != NULL;
        if (!least || waits < least_waits ||
            (waits == least_waits && peer->line->serial < least->line->serial)) {
            least = peer;
        }
    }
    if (!least || !hd_node_peer_end_line(least, HD_NODE_NO_ROOM)) {
        return false;
    }
    hd_node_share_forget(least);
    return true;
}

/* --- offers ----------------------------------------------------------------------------------- */

static hd_node_offer_t *find_offer(hd_node_t *node, const uint64_t name[2]) {
    hd_node_offer_t *offer = node->offers;
    while (offer && !hd_node_is_same(offer->name, name)) {
        offer = offer->next;
    }
    return offer;
}

static bool was_withdrawn(const hd_node_t *node, const uint64_t name[2]) {
    for (uint32_t i = 0; i < HD_NODE_ENDED; i++) {
        if (hd_node_is_same(node->ended[i], name)) {
            return true;
        }
    }
    return false;
}

/* Decides how the request is answered; it waits if its segment may yet be offered. */
static void decide(hd_node_peer_t *peer, hd_node_request_t *request) {
    hd_node_offer_t *offer = find_offer(peer->node, request->name);
    hd_node_slot_t *slot = offer ? slot_of(offer, peer) : NULL;
    if (slot && is_free(slot)) {
        request->offer = offer;
    } else if (was_withdrawn(peer->node, request->name)) {
        request->refusal = HD_NODE_WITHDRAWN;
    } else if (offer) {
        request->refusal = HD_NODE_UNEXPECTED;
    }
}

/* Those of that name: decides anew, or refuses all. */
static void decide_all(hd_node_t *node, const uint64_t name[2], bool withdrawn) {
    for (hd_node_peer_t *peer = node->peers, *next; peer; peer = next) {
        bool found = false;
        next = peer->next;
        for (hd_node_request_t *r = peer->requests; r; r = r->next) {
            if (!hd_node_is_same(r->name, name)) {
                continue;
            }
            found = true;
            if (withdrawn) {
                r->offer = NULL;
                r->refusal = HD_NODE_WITHDRAWN;
            } else {
                decide(peer, r);
            }
        }
        if (found) {
            hd_node_share_pump(peer);
        }
    }
}

static void withdraw(hd_node_t *node, const uint64_t name[2]) {
    hd_node_offer_t *offer = find_offer(node, name);
    for (uint32_t i = 0; offer && i < offer->n; i++) {
        if (is_free(&offer->slot[i])) { /* others have it, or it is on its way */
            set(&offer->slot[i].state, HD_NODE_WITHDRAWN);
        }
    }
    if (offer) {
        hd_segment_close(&offer->segment);
    }
    if (!was_withdrawn(node, name)) {
        memcpy(node->ended[node->n_ended++ % HD_NODE_ENDED], name, sizeof(node->ended[0]));
    }
    decide_all(node, name, true);
}

static void free_offer(hd_node_offer_t *offer) {
    for (uint32_t i = 0; i < offer->n; i++) {
        hd_node_peer_drop(offer->slot[i].peer);
    }
    hd_free(offer);
}

static ucc_status_t fill_slots(hd_node_offer_t *offer, const uint64_t (*doors)[2], uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (hd_node_is_same(doors[i], offer->node->address.door)) {
            return UCC_ERR_INVALID_PARAM;
        }
        hd_node_peer_t *peer = hd_node_peer_use(offer->node, doors[i], false);
        if (!peer) {
            return UCC_ERR_NO_MEMORY;
        }
        bool twice = slot_of(offer, peer) != NULL;
        offer->slot[offer->n++].peer = peer;
        if (twice) {
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

static ucc_status_t make_offer(hd_node_t *node, const uint64_t name[2], hd_node_segment_t *segment,
                               const uint64_t (*doors)[2], uint32_t n, hd_node_offer_t **made) {
    if ((name[0] | name[1]) == 0 || node->inherited || find_offer(node, name) ||
        was_withdrawn(node, name)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_node_offer_t *offer = hd_alloc(64, sizeof(*offer) + n * sizeof(offer->slot[0]));
    if (!offer) {
        return UCC_ERR_NO_MEMORY;
    }
    offer->node = node;
    ucc_status_t status = fill_slots(offer, doors, n);
    if (status != UCC_OK) {
        free_offer(offer);
        return status;
    }
    memcpy(offer->name, name, sizeof(offer->name));
    offer->segment = *segment;
    segment->fd = -1;
    offer->next = node->offers;
    node->offers = offer;
    decide_all(node, name, false);
    *made = offer;
    return UCC_OK;
}

ucc_status_t hd_node_offer(hd_node_t *node, const uint64_t name[2], hd_node_segment_t *segment,
                           const uint64_t (*doors)[2], uint32_t n, hd_node_offer_t **offer) {
    *offer = NULL;
    hd_node_lock();
    ucc_status_t status = make_offer(node, name, segment, doors, n, offer);
    hd_node_unlock();
    if (status != UCC_OK) {
        hd_warn("a segment of %zu bytes can't be offered to %u processes: %s", segment->bytes, n,
                ucc_status_string(status));
    }
    return status;
}

hd_node_state_t hd_node_offer_state(const hd_node_offer_t *offer, uint32_t i) {
    return state_of(&offer->slot[i].state, offer->slot[i].peer);
}

/* PENDING; or DONE, if all are; or the first failure. */
static hd_node_state_t state_of_all(const hd_node_offer_t *offer) {
    hd_node_state_t all = HD_NODE_DONE;
    for (uint32_t i = 0; i < offer->n; i++) {
        hd_node_state_t state = hd_node_offer_state(offer, i);
        if (state == HD_NODE_PENDING) {
            return state;
        }
        all = all == HD_NODE_DONE ? state : all;
    }
    return all;
}

/* Nobody may fetch it any more. */
static void close_if_over(hd_node_offer_t *offer) {
    if (state_of_all(offer) != HD_NODE_PENDING) {
        hd_segment_close(&offer->segment);
    }
}

ucc_status_t hd_node_offer_test(hd_node_offer_t *offer) {
    hd_node_state_t state = state_of_all(offer);
    if (state != HD_NODE_PENDING) {
        hd_node_lock(); /* some may have failed with their peers */
        close_if_over(offer);
        hd_node_unlock();
    }
    return hd_node_status(state);
}

void hd_node_offer_end(hd_node_offer_t *offer) {
    hd_node_t *node = offer->node;
    hd_node_lock();
    if (state_of_all(offer) == HD_NODE_PENDING) {
        withdraw(node, offer->name);
    } else {
        decide_all(node, offer->name, true);
    }
    hd_segment_close(&offer->segment);
    hd_node_offer_t **at = &node->offers;
    while (*at != offer) {
        at = &(*at)->next;
    }
    *at = offer->next;
    free_offer(offer);
    hd_node_unlock();
}

void hd_node_withdraw(hd_node_t *node, const uint64_t name[2]) {
    hd_node_lock();
    if (!node->inherited) {
        withdraw(node, name);
    }
    hd_node_unlock();
}

/* --- fetches ---------------------------------------------------------------------------------- */

static hd_node_fetch_t *begin_fetch(hd_node_t *node, const hd_node_address_t *leader,
                                    const uint64_t name[2]) {
    hd_node_fetch_t *fetch = hd_alloc(64, sizeof(*fetch));
    hd_node_peer_t *peer = fetch ? hd_node_peer_hold(node, leader->door) : NULL;
    if (!peer) {
        hd_free(fetch);
        return NULL;
    }
    peer->pid = leader->pid;
    fetch->peer = peer;
    memcpy(fetch->name, name, sizeof(fetch->name));
    fetch->number = ++node->numbers;
    fetch->segment.fd = -1;
    fetch->next = peer->fetches;
    peer->fetches = fetch; /* before there is a line, or there is none for it */
    hd_node_peer_want_line(peer, true);
    hd_node_share_pump(peer);
    return fetch;
}

/* For a line, and for the segment, which is lost if it finds none on its way. */
static void make_room(hd_node_t *node) {
    enum { NEEDED = 2 };
    for (int i = 0; i < NEEDED && !hd_descriptors_reserve(NEEDED); i++) {
        (void)hd_node_share_spare_line(node);
    }
}

ucc_status_t hd_node_fetch(hd_node_t *node, const hd_node_address_t *leader, const uint64_t name[2],
                           hd_node_fetch_t **fetch) {
    *fetch = NULL;
    if (node->inherited || (name[0] | name[1]) == 0 || !hd_node_may_reach(&node->address, leader) ||
        hd_node_is_same(leader->door, node->address.door)) {
        hd_warn("process %u is none that this process can fetch from", leader->pid);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_node_lock();
    make_room(node);
    *fetch = begin_fetch(node, leader, name);
    hd_node_unlock();
    if (!*fetch) {
        hd_warn("no memory to fetch a segment");
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

hd_node_state_t hd_node_fetch_state(const hd_node_fetch_t *fetch) {
    return state_of(&fetch->state, fetch->peer);
}

ucc_status_t hd_node_fetch_test(hd_node_fetch_t *fetch, hd_node_segment_t *segment) {
    hd_node_state_t state = hd_node_fetch_state(fetch);
    segment->fd = -1;
    if (state == HD_NODE_DONE) {
        *segment = fetch->segment;
        fetch->segment.fd = -1;
    }
    return hd_node_status(state);
}

void hd_node_fetch_end(hd_node_fetch_t *fetch) {
    hd_node_lock();
    hd_segment_close(&fetch->segment);
    fetch->ended = true;
    if (load(&fetch->state) == HD_NODE_PENDING) {
        fetch->debt = HD_NODE_OWES_CANCEL; /* if it was asked, on this line */
    }
    hd_node_share_pump(fetch->peer);
    hd_node_unlock();
}

/* --- what comes ------------------------------------------------------------------------------- */

static const char *take_fetch(hd_node_peer_t *peer, const hd_node_message_t *m) {
    hd_node_t *node = peer->node;
    bool crowded =
        node->n_requests >= HD_NODE_REQUESTS || peer->n_requests >= HD_NODE_REQUESTS_OF_ONE;
    hd_node_request_t *request = crowded ? NULL : hd_alloc(64, sizeof(*request));
    if (!request) {
        hd_node_state_t why = crowded ? HD_NODE_CROWDED : HD_NODE_NO_MEMORY;
        return send_of(peer, HD_NODE_REFUSE, m->name, m->number, why)
                   ? NULL
                   : "asks for more than it reads answers";
    }
    memcpy(request->name, m->name, sizeof(request->name));
    request->number = m->number;
    request->next = peer->requests;
    peer->requests = request;
    peer->n_requests++;
    node->n_requests++;
    decide(peer, request);
    return NULL;
}

static void take_cancel(hd_node_peer_t *peer, const hd_node_message_t *m) {
    hd_node_request_t **at = &peer->requests;
    while (*at && (*at)->number != m->number) {
        at = &(*at)->next;
    }
    if (*at) {
        hd_node_peer_remove_request(peer, at);
        return;
    }
    hd_node_offer_t *offer = find_offer(peer->node, m->name);
    hd_node_slot_t *slot = offer ? slot_of(offer, peer) : NULL;
    if (slot && slot->number == m->number && load(&slot->state) == HD_NODE_PENDING) {
        slot->number = 0; /* it may ask again */
        if (offer->segment.fd < 0) {
            set(&slot->state, HD_NODE_WITHDRAWN);
        }
    }
}

static void take_taken(hd_node_peer_t *peer, const hd_node_message_t *m) {
    hd_node_offer_t *offer = find_offer(peer->node, m->name);
    hd_node_slot_t *slot = offer ? slot_of(offer, peer) : NULL;
    if (slot && slot->number == m->number && load(&slot->state) == HD_NODE_PENDING) {
        set(&slot->state, (hd_node_state_t)m->code);
        close_if_over(offer);
    }
}

/* One that has been ended may still be answered: then there is none. */
static hd_node_fetch_t *find_fetch(hd_node_peer_t *peer, const hd_node_message_t *m) {
    hd_node_fetch_t *fetch = peer->fetches;
    while (fetch && fetch->number != m->number) {
        fetch = fetch->next;
    }
    bool waits = fetch && !fetch->ended && hd_node_is_same(fetch->name, m->name) &&
                 fetch->asked_on == peer->line->serial && load(&fetch->state) == HD_NODE_PENDING;
    return waits ? fetch : NULL;
}

static void take_segment(hd_node_peer_t *peer, const hd_node_message_t *m, int fd) {
    hd_node_fetch_t *fetch = find_fetch(peer, m);
    if (!fetch) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    hd_node_state_t state = HD_NODE_DONE;
    if (fd < 0) {
        hd_warn("no descriptor for a segment of %llu bytes of process %u: raise the limit of open "
                "files (ulimit -n)",
                (unsigned long long)m->word, peer->pid);
        state = HD_NODE_NO_DESCRIPTOR;
    } else if (hd_segment_adopt(fd, (size_t)m->word, &fetch->segment) != UCC_OK) {
        state = HD_NODE_BAD_SEGMENT;
    }
    fetch->debt = HD_NODE_OWES_TAKEN;
    set(&fetch->state, state);
}

static void take_refusal(hd_node_peer_t *peer, const hd_node_message_t *m) {
    hd_node_fetch_t *fetch = find_fetch(peer, m);
    if (fetch) {
        set(&fetch->state, (hd_node_state_t)m->code);
    }
}

const char *hd_node_share_take(hd_node_peer_t *peer, const hd_node_message_t *m, int fd) {
    switch ((hd_node_kind_t)m->kind) {
    case HD_NODE_HOLD:
    case HD_NODE_RELEASE:
        peer->line->is_told = m->kind == HD_NODE_HOLD;
        return NULL;
    case HD_NODE_FETCH:
        return take_fetch(peer, m);
    case HD_NODE_CANCEL:
        take_cancel(peer, m);
        return NULL;
    case HD_NODE_SEGMENT:
        take_segment(peer, m, fd);
        return NULL;
    case HD_NODE_REFUSE:
        take_refusal(peer, m);
        return NULL;
    case HD_NODE_TAKEN:
        take_taken(peer, m);
        return NULL;
    default:
        return "has sent a message that does not belong there";
    }
}
