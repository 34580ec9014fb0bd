#include "outer_net.h"

#include "core/config.h"
#include "core/copy.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 * 1024, PAYLOAD_MAX = 4096, MESSAGE = 1, REQUEST = 2 };
enum { LOCAL, REQUESTS, SPREAD, KINDS };

/* What one side keeps with the slot of an exchange; under the net's lock. */
typedef struct flight {
    hd_outer_memory_t memory;
    uint64_t key;
    hd_exchange_ref_t ticket;
    bool has_arrived, has_message, is_closed, is_over;
    ucc_status_t mine, theirs;
    uint8_t payload[NET_SIDES][PAYLOAD_MAX];
    uint8_t result[PAYLOAD_MAX];
    hd_call_t call; /* as the completer's */
    uint32_t shape;
    uint8_t *partial; /* of the segments that I own */
    size_t partial_bytes;
    uint8_t stage[NET_MOST_SEGMENTS]; /* how far a segment is */
} flight_t;

/* A message, or one side's half of a request. */
struct net_item {
    net_item_t *next;
    int kind;
    uint32_t from;
    uint64_t key;
    ucc_status_t status;
    uint8_t payload[PAYLOAD_MAX];
    /* requests: a transfer from `from`'s buffer to the other's */
    uint32_t slice, unit;
    bool sends;
    uint8_t *buffer;
    size_t bytes;
    net_item_t *other; /* queued: the receiver's half */
};

static side_t *side_of(const hd_op_t *op) {
    return (side_t *)(void *)op->outer;
}

/* --- flights ---------------------------------------------------------------------------------- */

static void free_flight(hd_outer_memory_t *memory) {
    flight_t *f = (flight_t *)(void *)memory;
    free(f->partial);
    free(f);
}

/* The flight of side s for this key, begun anew if the slot had an older one that is over. NULL: it
 * is not over, or the slot has a younger one. */
static flight_t *flight_of(net_t *net, uint32_t s, uint64_t key, bool by_hook) {
    hd_board_t *board = net->side[s].group->board;
    hd_slot_t *slot = &board->slot[key & board->mask];
    flight_t *f = (flight_t *)(void *)atomic_load(&slot->flight);
    if (!f) {
        f = calloc(1, sizeof(*f));
        f->memory.release = free_flight;
        atomic_store(&slot->flight, &f->memory);
    }
    bool over = by_hook || !f->has_arrived || f->is_over;
    if (f->key < key && over) {
        if (f->has_arrived) {
            net->old[s] = f->ticket;
        }
        f->key = key;
        f->has_arrived = f->has_message = f->is_closed = f->is_over = false;
        memset(f->stage, 0, sizeof(f->stage));
    }
    return f->key == key ? f : NULL;
}

static void twice(net_t *net, bool accepted) {
    atomic_fetch_add(accepted ? &net->accepted : &net->refused, 1);
}

/* Acts for an exchange that is over. */
static void act_late(net_t *net, uint32_t s) {
    hd_exchange_ref_t t = net->old[s];
    uint32_t unit;
    if (t.board) {
        double x = 666;
        twice(net, hd_outer_release(&t, UCC_OK, &x, sizeof(x)));
        twice(net, t.slices && hd_outer_ready(&t, 0, 1));
        twice(net, t.slices && hd_outer_claim(&t, t.slices / KINDS, &unit));
        twice(net, t.slices && hd_outer_finish(&t, t.slices / KINDS, 0, UCC_OK));
    }
}

/* --- the wire --------------------------------------------------------------------------------- */

static void queue(net_t *net, net_item_t *item) {
    item->next = net->queue;
    net->queue = item;
}

static void send_message(net_t *net, const flight_t *f, uint32_t from, ucc_status_t status) {
    net_item_t *item = calloc(1, sizeof(*item));
    item->kind = MESSAGE;
    item->from = from;
    item->key = f->key;
    item->status = status;
    memcpy(item->payload, f->payload[from], PAYLOAD_MAX);
    queue(net, item);
}

static void end_request(net_t *net, net_item_t *item, uint32_t s, ucc_status_t status) {
    flight_t *f = flight_of(net, s, item->key, false);
    hd_exchange_ref_t t = f->ticket;
    if (status == UCC_OK && !f->is_closed) {
        uint32_t segments = t.slices / KINDS, j = item->slice - segments;
        bool own = j % NET_SIDES == s;
        /* what follows is made ready before the unit that it follows is finished: that pins the
         * exchange */
        if (!item->sends && !own) {
            (void)hd_outer_ready(&t, SPREAD * segments + j, UINT32_MAX);
        } else if (!item->sends) {
            f->stage[j] |= 2;
        }
    }
    if (!hd_outer_finish(&t, item->slice, item->unit, status)) {
        twice(net, true);
    }
    if (net->twice) {
        twice(net, hd_outer_finish(&t, item->slice, item->unit, UCC_OK));
    }
    free(item);
}

/* One side's half of a transfer: queued when both are there. */
static void post_request(net_t *net, net_item_t *item, uint32_t s) {
    for (net_item_t **at = &net->posted[1 - s]; *at; at = &(*at)->next) {
        net_item_t *o = *at;
        if (o->key == item->key && o->slice == item->slice && o->sends != item->sends) {
            *at = o->next;
            net_item_t *sender = item->sends ? item : o, *receiver = item->sends ? o : item;
            sender->other = receiver;
            queue(net, sender);
            return;
        }
    }
    item->next = net->posted[s];
    net->posted[s] = item;
}

static void try_release(net_t *net, flight_t *f) {
    if (!f->has_arrived || !f->has_message || f->ticket.slices) {
        return;
    }
    ucc_status_t status = f->mine != UCC_OK ? f->mine : f->theirs;
    bool brings = f->shape & HD_OUTER_BRINGS;
    if (status == UCC_OK && net->fail_status != UCC_OK) {
        status = net->fail_status;
    }
    if (status == UCC_OK && (f->shape & HD_OUTER_REDUCES)) {
        const void *source[NET_SIDES] = {f->payload[0], f->payload[1]};
        status = hd_reduce_block(&f->call.reducer, NET_SIDES, source, f->result,
                                 f->call.bytes / f->call.element, true);
    } else { /* what comes next may come before it has been read where it is */
        memcpy(f->result, f->payload[0], PAYLOAD_MAX);
    }
    hd_exchange_ref_t t = f->ticket;
    f->is_over = true;
    (void)hd_outer_release(&t, status, f->result, brings ? f->call.bytes : 0);
    if (net->twice) {
        double x = 666;
        twice(net, hd_outer_release(&t, UCC_OK, &x, sizeof(x)));
    }
}

static void deliver(net_t *net, net_item_t *item) {
    uint32_t to = 1 - item->from;
    if (item->kind == REQUEST) {
        net_item_t *receiver = item->other;
        ucc_status_t status = UCC_OK;
        if (++net->requests == net->fail_request) {
            status = net->fail_requests_with;
        } else {
            memcpy(receiver->buffer, item->buffer, item->bytes);
        }
        end_request(net, receiver, to, status);
        end_request(net, item, item->from, status);
        return;
    }
    flight_t *f = flight_of(net, to, item->key, false);
    if (item->status != UCC_OK) {
        hd_group_poison(net->side[to].group, item->status);
    } else if (!f) { /* the slot's last exchange is not over there: later */
        queue(net, item);
        return;
    }
    if (f && !f->is_closed && !f->has_message) {
        f->has_message = true;
        f->theirs = item->status;
        memcpy(f->payload[item->from], item->payload, PAYLOAD_MAX);
        try_release(net, f);
    }
    free(item);
}

/* Some of what is queued, in any order. */
static void deliver_some(net_t *net) {
    uint32_t waiting = 0;
    for (net_item_t *i = net->queue; i; i = i->next) {
        waiting++;
    }
    if (net->mute || !waiting || random_below(&net->random, 3) == 0) {
        return;
    }
    net_item_t **at = &net->queue;
    for (uint64_t skip = random_below(&net->random, waiting); skip; skip--) {
        at = &(*at)->next;
    }
    net_item_t *item = *at;
    *at = item->next;
    deliver(net, item);
}

uint32_t net_waiting(net_t *net) {
    uint32_t waiting = 0;
    pthread_mutex_lock(&net->lock);
    for (net_item_t *i = net->queue; i; i = i->next) {
        waiting++;
    }
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        for (net_item_t *i = net->posted[s]; i; i = i->next) {
            waiting++;
        }
    }
    pthread_mutex_unlock(&net->lock);
    return waiting;
}

/* --- the large allreduce ---------------------------------------------------------------------- */

static uint32_t segments_of(const hd_op_t *op) {
    size_t n = (op->call.bytes + side_of(op)->net->segment - 1) / side_of(op)->net->segment;
    return n < NET_MOST_SEGMENTS ? (uint32_t)n : NET_MOST_SEGMENTS;
}

typedef struct range {
    size_t at, bytes;
} range_t;

static range_t segment_of(const hd_op_t *op, uint32_t j) {
    size_t elements = op->call.bytes / op->call.element;
    uint32_t segments = segments_of(op);
    size_t first = elements * j / segments, end = elements * (j + 1) / segments;
    return (range_t){first * op->call.element, (end - first) * op->call.element};
}

static uint32_t slices(const hd_op_t *op) {
    return KINDS * segments_of(op);
}

static void layout(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    uint32_t segments = segments_of(op);
    size_t bytes = segment_of(op, s % segments).bytes;
    uint32_t windows = (uint32_t)((bytes + WINDOW - 1) / WINDOW);
    windows = windows ? windows : 1;
    switch (s / segments) {
    case LOCAL:
        hd_slice_set(slice, windows, 1, 1);
        break;
    case REQUESTS:
        hd_slice_outer(slice, 2, op->place.k);
        break;
    default:
        hd_slice_later(slice, windows, 1, 0);
    }
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    side_t *side = side_of(op);
    uint32_t segments = segments_of(op), j = s % segments;
    range_t segment = segment_of(op, j);
    size_t skip = (size_t)unit * WINDOW;
    size_t bytes = skip >= segment.bytes ? 0 : segment.bytes - skip;
    bytes = bytes < WINDOW ? bytes : WINDOW;
    size_t at = segment.at + skip, count = bytes / op->call.element;
    if (s / segments == LOCAL) {
        return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, at, 1, &work->dst[0], at,
                              count, HD_STORES_PLAIN);
    }
    if (j % NET_SIDES != side->me) {
        for (uint32_t i = 1; i < op->place.n && bytes; i++) {
            hd_copy((uint8_t *)work->dst[i] + at, (uint8_t *)work->dst[0] + at, bytes,
                    HD_STORES_PLAIN);
        }
        return UCC_OK;
    }
    hd_reducer_t two = op->call.reducer;
    two.n = NET_SIDES;
    flight_t *f = (flight_t *)(void *)atomic_load(&op->slot->flight);
    const void *own = (uint8_t *)work->dst[0] + at, *theirs = f->partial + at;
    const void *source[NET_SIDES] = {side->me == 0 ? own : theirs, side->me == 0 ? theirs : own};
    void *to[64];
    for (uint32_t i = 0; i < op->place.n; i++) {
        to[i] = (uint8_t *)work->dst[i] + at;
    }
    return hd_reduce_tree(&two, NET_SIDES, source, 0, op->place.n, to, 0, count, HD_STORES_PLAIN);
}

static void start_request(net_t *net, flight_t *f, uint32_t s, uint32_t j, bool sends,
                          uint8_t *buffer, size_t bytes) {
    net_item_t *item = calloc(1, sizeof(*item));
    hd_exchange_ref_t t = f->ticket;
    item->kind = REQUEST;
    item->from = s;
    item->key = f->key;
    item->slice = t.slices / KINDS + j;
    item->sends = sends;
    item->buffer = buffer;
    item->bytes = bytes;
    if (!hd_outer_claim(&t, item->slice, &item->unit)) {
        free(item); /* closed: nothing is started */
        return;
    }
    post_request(net, item, s);
}

/* stage: bit 0: the first request is started; 1: the other side's partial is here (owner); 2:
 * SPREAD is ready (owner); 3: the second request is started. */
static void go_on(net_t *net, hd_op_t *op, flight_t *f, uint32_t s) {
    uint32_t segments = f->ticket.slices / KINDS;
    const hd_work_t *work = atomic_load(&op->slot->work);
    uint8_t *dst = work->dst[0];
    for (uint32_t j = 0; j < segments; j++) {
        range_t r = segment_of(op, j);
        uint8_t *stage = &f->stage[j];
        bool own = j % NET_SIDES == s;
        if (!(*stage & 1) && (own || hd_outer_is_finished(op, LOCAL * segments + j))) {
            *stage |= 1;
            start_request(net, f, s, j, !own, own ? f->partial + r.at : dst + r.at, r.bytes);
            /* the result may come as soon as the partial has been sent: one after the other */
            if (!own) {
                *stage |= 8;
                start_request(net, f, s, j, false, dst + r.at, r.bytes);
            }
        }
        if (own && (*stage & 6) == 2 && hd_outer_is_finished(op, LOCAL * segments + j)) {
            *stage |= 4;
            (void)hd_outer_ready(&f->ticket, SPREAD * segments + j, UINT32_MAX);
        }
        if (own && !(*stage & 8) && hd_outer_is_finished(op, SPREAD * segments + j)) {
            *stage |= 8;
            start_request(net, f, s, j, true, dst + r.at, r.bytes);
        }
    }
}

/* --- the stage -------------------------------------------------------------------------------- */

static void arrived(hd_op_t *op, const hd_exchange_ref_t *ticket, ucc_status_t status,
                    const void *payload) {
    side_t *side = side_of(op);
    net_t *net = side->net;
    atomic_fetch_add(&side->arrived, 1);
    pthread_mutex_lock(&net->lock);
    flight_t *f = flight_of(net, side->me, ticket->key, true);
    f->ticket = *ticket;
    f->mine = status;
    f->call = op->call;
    f->shape = op->outer_shape;
    f->call.reducer.n = NET_SIDES;
    if (payload) {
        memcpy(f->payload[side->me], payload, op->call.bytes);
    } else if (side->me == 0 && op->call.type == HD_BCAST && status == UCC_OK) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, 0, op->place.k);
        memcpy(f->payload[0], op->place.me == 0 ? op->call.src : lane->direct.src, op->call.bytes);
    }
    if (ticket->slices && f->partial_bytes < op->call.bytes) {
        free(f->partial);
        f->partial = malloc(op->call.bytes);
        f->partial_bytes = op->call.bytes;
    }
    f->has_arrived = true;
    if (!ticket->slices) {
        send_message(net, f, side->me, status);
        try_release(net, f);
    } else if (status != UCC_OK) {
        send_message(net, f, side->me, status);
    }
    if (ticket->slices) {
        (void)hd_outer_release(ticket, status, NULL, 0);
    }
    pthread_mutex_unlock(&net->lock);
}

static uint8_t pump(hd_op_t *op) {
    side_t *side = side_of(op);
    net_t *net = side->net;
    if (pthread_mutex_trylock(&net->lock) != 0) {
        return HD_IMPATIENT;
    }
    flight_t *f = flight_of(net, side->me, hd_outer_key(op), false);
    if (f && f->has_arrived && !f->is_closed && f->ticket.slices) {
        go_on(net, op, f, side->me);
    }
    deliver_some(net);
    if (net->twice) {
        act_late(net, side->me);
    }
    bool rings = !net->queue;
    pthread_mutex_unlock(&net->lock);
    return rings ? 0 : HD_IMPATIENT;
}

/* Takes this side's requests of the exchange off the wire. */
static net_item_t *withdraw(net_t *net, const flight_t *f, uint32_t s) {
    net_item_t *mine = NULL;
    for (net_item_t **at = &net->posted[s]; *at;) {
        net_item_t *i = *at;
        if (i->key == f->key) {
            *at = i->next;
            i->next = mine;
            mine = i;
        } else {
            at = &i->next;
        }
    }
    for (net_item_t **at = &net->queue; *at;) {
        net_item_t *i = *at;
        if (i->kind != REQUEST || i->key != f->key) {
            at = &i->next;
            continue;
        }
        *at = i->next;
        net_item_t *own = i->from == s ? i : i->other, *other = i->from == s ? i->other : i;
        own->next = mine;
        mine = own;
        other->other = NULL;
        other->next = net->posted[1 - s]; /* for ever, or until its side closes, too */
        net->posted[1 - s] = other;
    }
    return mine;
}

static void closed(hd_op_t *op, ucc_status_t why) {
    side_t *side = side_of(op);
    net_t *net = side->net;
    atomic_fetch_add(&side->closed, 1);
    pthread_mutex_lock(&net->lock);
    flight_t *f = flight_of(net, side->me, hd_outer_key(op), false);
    net_item_t *item = f && f->has_arrived ? withdraw(net, f, side->me) : NULL;
    if (f && !f->is_closed) {
        f->is_closed = true;
        send_message(net, f, side->me, why);
    }
    while (item) {
        net_item_t *next = item->next;
        end_request(net, item, side->me, UCC_ERR_NO_MESSAGE);
        item = next;
    }
    pthread_mutex_unlock(&net->lock);
}

net_t *net_create(uint32_t n, int arrival, uint32_t depth, size_t segment, uint64_t seed) {
    hd_group_config_t config = {.depth = depth,
                                .persistent_depth = 4,
                                .flat_max = 8,
                                .lines_max = 1024,
                                .staged_max = 16384,
                                .chunk = 1 << 20,
                                .streaming_min = SIZE_MAX,
                                .arrival = arrival,
                                .tree = HD_CFG_TREE_AUTO,
                                .slices = KINDS * NET_MOST_SEGMENTS,
                                .spanning = true};
    net_t *net = calloc(1, sizeof(*net));
    pthread_mutex_init(&net->lock, NULL);
    net->n = n;
    net->segment = segment;
    net->random = seed;
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        side_t *side = &net->side[s];
        side->stage = (hd_outer_t){.arrived = arrived, .pump = pump, .closed = closed};
        side->net = net;
        side->me = s;
        side->row =
            (hd_work_row_t){.slices = slices, .layout = layout, .run = run, .streams_each = 2};
        side->group = hd_group_create(n, &config);
        for (uint32_t i = 0; i < n; i++) {
            if (hd_group_join(side->group, i, NULL) != UCC_OK) {
                abort();
            }
        }
    }
    return net;
}

void net_destroy(net_t *net) {
    while (net->queue || net->posted[0] || net->posted[1]) {
        net_item_t **list = net->queue       ? &net->queue
                            : net->posted[0] ? &net->posted[0]
                                             : &net->posted[1];
        net_item_t *item = *list;
        *list = item->next;
        free(item->other);
        free(item);
    }
    for (uint32_t s = 0; s < NET_SIDES; s++) {
        hd_home_unpin(&net->side[s].group->home);
    }
    pthread_mutex_destroy(&net->lock);
    free(net);
}

/* --- endpoints -------------------------------------------------------------------------------- */

static uint32_t shape_of(const hd_op_t *op) {
    switch (op->call.type) {
    case HD_ALLREDUCE:
        return HD_OUTER_REDUCES | HD_OUTER_BRINGS | HD_OUTER_ALL_WAIT | HD_OUTER_TAKES;
    case HD_REDUCE:
        return HD_OUTER_REDUCES | HD_OUTER_BRINGS |
               (op->call.is_root ? HD_OUTER_TAKES : HD_OUTER_GOES);
    case HD_BCAST:
        return HD_OUTER_BRINGS | HD_OUTER_ALL_WAIT | HD_OUTER_TAKES;
    default:
        return HD_OUTER_ALL_WAIT;
    }
}

static ucc_status_t start_small(hd_op_t *op) {
    uint32_t shape = shape_of(op);
    if (op->call.type == HD_BCAST && op->call.is_root) {
        op->lane->direct.src =
            op->call.src; /* of use to the completer, with whatever is published */
    }
    op->plan = hd_plan_of_outer(op, shape & HD_OUTER_REDUCES, shape & HD_OUTER_BRINGS,
                                shape & HD_OUTER_ALL_WAIT);
    return hd_outer_start(op, shape);
}

static ucc_status_t start_large(hd_op_t *op) {
    op->plan = hd_plan_of_outer_work(op, &side_of(op)->row);
    return hd_outer_start_work(op, hd_call_operand(&op->call), op->call.dst);
}

void point_init(point_t *p, net_t *net, uint32_t side, uint32_t me) {
    hd_group_t *group = net->side[side].group;
    memset(p, 0, sizeof(*p));
    p->net = net;
    p->side = side;
    p->me = me;
    p->op.group = group;
    p->op.team_ep = me;
    p->op.task.home = &group->home;
    p->op.task.step = hd_op_step;
    p->op.outer = &net->side[side].stage;
    p->op.place = (hd_place_t){
        .board = group->board, .member = group->board->member[me], .me = me, .n = net->n};
}

static void prepare(point_t *p, uint8_t type, size_t bytes) {
    p->op.call = (hd_call_t){.type = type,
                             .bytes = bytes,
                             .total = bytes,
                             .element = sizeof(double),
                             .signature = (uint32_t)type << 27 | (uint32_t)(bytes & 0xffffff)};
    p->op.start = start_small;
    p->posted = p->over = false;
    p->op.task.deadline = 0;
    p->ticks = 0;
}

static void prepare_reduction(point_t *p, uint8_t type, const double *src, double *dst,
                              size_t count) {
    prepare(p, type, count * sizeof(double));
    p->op.call.in_place = !src;
    p->op.call.src = (const uint8_t *)src;
    p->op.call.dst = (uint8_t *)dst;
    if (hd_reducer_init(&p->op.call.reducer, UCC_DT_FLOAT64, UCC_OP_SUM, p->net->n) != UCC_OK) {
        abort();
    }
}

void point_allreduce(point_t *p, const double *src, double *dst, size_t count) {
    prepare_reduction(p, HD_ALLREDUCE, src, dst, count);
    p->op.start = p->op.call.bytes > HD_RESULT_MAX ? start_large : start_small;
}

void point_reduce(point_t *p, const double *src, double *dst, size_t count) {
    prepare_reduction(p, HD_REDUCE, src, dst, count);
    p->op.call.is_root = p->side == 0 && p->me == 0;
}

void point_barrier(point_t *p) {
    prepare(p, HD_BARRIER, 0);
}

void point_bcast(point_t *p, void *buffer, size_t bytes) {
    prepare(p, HD_BCAST, bytes);
    p->op.call.is_root = p->side == 0 && p->me == 0;
    p->op.call.src = p->op.call.dst = buffer;
}

bool point_step(point_t *p) {
    hd_op_t *op = &p->op;
    if (p->over) {
        return true;
    }
    if (!p->posted) {
        uint64_t k = op->place.member->taken + 1;
        if (hd_group_poisoned(op->group) != UCC_OK) {
            p->status = hd_group_poisoned(op->group);
            return p->over = true;
        }
        if (!hd_board_may_publish(op->place.board, op->place.member, k)) {
            return false;
        }
        op->place.member->taken = op->place.k = k;
        op->numbered = true;
        op->task.deadline = p->ticks ? hd_ticks() + p->ticks : 0;
        p->posted = true;
        p->status = hd_op_launch(op);
    } else {
        p->status = hd_op_step(&op->task);
    }
    return p->over = p->status != UCC_INPROGRESS;
}
