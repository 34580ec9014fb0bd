/* fabric.c: the network that is made up: see simulate.h.
 *
 * A message is known by its receiver, its sender and its step. It is SENT and EXPECTED in either
 * order, and over when its data is in place; a sender's memory may be read until its send has
 * ended. What happens:
 *
 *     sent --> ARRIVES at the receiver; if it is small, or expected, its data is taken; else it is
 *              large: ASKED for, as soon as it is expected; then its data LEAVES the sender, and
 *              COMES
 *     send ENDS at the sender: at once, if it is small
 */
#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_t *sim_now;
sim_process_t *sim_turn;

typedef enum happening { ARRIVES, ASKED, COMES, ENDS, WAKES, BEGINS } happening_t;

struct sim_message {
    uint64_t key; /* receiver, sender, step */
    uint32_t to, from, step;
    bool sent, expected, arrived, over;
    bool large, read_late; /* read_late: from the sender's memory, when it is taken */
    bool asked;
    hd_net_piece_t own[2]; /* of the sender, and the receiver, where it is one piece */
    hd_net_data_t source, target;
    uint8_t *copy, *news; /* news: of whom its sender had heard */
    /* in a process's list */
    sim_message_t *next;
    happening_t what;
};

/* --- messages, by what they are known by ------------------------------------------------------ */

enum { BLOCK = 4096 };

typedef struct event {
    double at;
    uint64_t order;
    happening_t what;
    sim_message_t *message;
    sim_process_t *process;
} event_t;

struct sim_queue {
    event_t *heap;
    size_t n, room;
    uint64_t order;
    sim_message_t **table;
    size_t slots, used;
    sim_message_t *block; /* the one that messages are taken from; its first knows the one before */
    uint32_t in_block;
};

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "simulation: no memory\n");
        exit(2);
    }
    return memory;
}

static uint64_t key_of(uint32_t to, uint32_t from, uint32_t step) {
    return (uint64_t)to << 40 | (uint64_t)from << 16 | (step & 0xffff);
}

static size_t slot_of(const struct sim_queue *q, uint64_t key) {
    size_t at = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (q->slots - 1);
    while (q->table[at] && q->table[at]->key != key) {
        at = (at + 1) & (q->slots - 1);
    }
    return at;
}

static void widen(struct sim_queue *q) {
    sim_message_t **old = q->table;
    size_t slots = q->slots;
    q->slots = slots ? 2 * slots : 1024;
    q->table = must(calloc(q->slots, sizeof(sim_message_t *)));
    for (size_t i = 0; i < slots; i++) {
        if (old[i]) {
            q->table[slot_of(q, old[i]->key)] = old[i];
        }
    }
    free(old);
}

static sim_message_t *new_message(struct sim_queue *q) {
    if (!q->block || q->in_block == BLOCK) {
        sim_message_t *block = must(calloc(BLOCK, sizeof(*block)));
        block->next = q->block;
        q->block = block;
        q->in_block = 1;
    }
    return &q->block[q->in_block++];
}

static sim_message_t *message_of(sim_t *sim, uint32_t to, uint32_t from, uint32_t step) {
    struct sim_queue *q = sim->queue;
    if (q->used * 2 >= q->slots) {
        widen(q);
    }
    size_t slot = slot_of(q, key_of(to, from, step));
    if (!q->table[slot]) {
        sim_message_t *m = new_message(q);
        *m = (sim_message_t){.key = key_of(to, from, step), .to = to, .from = from, .step = step};
        q->table[slot] = m;
        q->used++;
    }
    return q->table[slot];
}

/* --- events ----------------------------------------------------------------------------------- */

static bool is_before(const event_t *a, const event_t *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void push(sim_t *sim, double at, happening_t what, sim_message_t *message,
                 sim_process_t *process) {
    struct sim_queue *q = sim->queue;
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 1024;
        q->heap = must(realloc(q->heap, q->room * sizeof(event_t)));
    }
    event_t event = {at, q->order++, what, message, process};
    size_t i = q->n++;
    while (i > 0 && is_before(&event, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = event;
}

static event_t pop(struct sim_queue *q) {
    event_t first = q->heap[0], last = q->heap[--q->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= q->n) {
            break;
        }
        child += child + 1 < q->n && is_before(&q->heap[child + 1], &q->heap[child]);
        if (!is_before(&q->heap[child], &last)) {
            break;
        }
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = last;
    return first;
}

uint64_t sim_random(sim_t *sim) {
    uint64_t x = sim->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Mostly soon, sometimes much later. */
static double some_time(sim_t *sim) {
    uint64_t x = sim_random(sim);
    return (double)(1 + x % 100) * (x >> 32 & 15 ? 1 : 30);
}

void sim_complain(sim_t *sim, const char *what, uint32_t at, uint32_t with, uint32_t step) {
    if (!sim->wrong) {
        sim->wrong = what;
        sim->wrong_at = at;
        sim->wrong_with = with;
        sim->wrong_step = step;
    }
}

/* --- the model -------------------------------------------------------------------------------- */

static uint32_t host_of(const sim_t *sim, const sim_process_t *p) {
    return p->place / sim->model->per_host;
}

static const sim_path_t *path_of(const sim_t *sim, const sim_message_t *m) {
    return host_of(sim, &sim->process[m->from]) == host_of(sim, &sim->process[m->to])
               ? &sim->model->inside
               : &sim->model->between;
}

/* Through the ports of both: when it is there. */
static double travel(sim_t *sim, const sim_message_t *m, size_t bytes) {
    sim_process_t *from = &sim->process[m->from], *to = &sim->process[m->to];
    const sim_path_t *path = path_of(sim, m);
    bool between = path == &sim->model->between && sim->model->per_host > 1;
    double *out = between ? &sim->host_out[host_of(sim, from)] : &from->seat->out;
    double *in = between ? &sim->host_in[host_of(sim, to)] : &to->seat->in;
    double keeps = path->G * (double)bytes, start = from->seat->cpu > *out ? from->seat->cpu : *out;
    *out = start + (keeps > path->g ? keeps : path->g);
    double comes = start + path->L > *in ? start + path->L : *in;
    *in = comes + (keeps > path->g ? keeps : path->g);
    return comes + keeps;
}

static double handling(const sim_path_t *path, size_t bytes) {
    return path->o + path->O * (double)bytes;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void copy_pieces(const hd_net_data_t *data, uint8_t *bytes, bool out) {
    for (uint32_t i = 0; i < data->n; i++) {
        if (data->piece[i].bytes) {
            memcpy(out ? (void *)bytes : data->piece[i].at,
                   out ? data->piece[i].at : (const void *)bytes, data->piece[i].bytes);
            bytes += data->piece[i].bytes;
        }
    }
}

static void take_copy(sim_message_t *m) {
    if (!m->copy && m->source.bytes) {
        m->copy = must(malloc(m->source.bytes));
        copy_pieces(&m->source, m->copy, true);
    }
}

static void send_timed(sim_t *sim, sim_process_t *p, sim_message_t *m) {
    const sim_path_t *path = path_of(sim, m);
    m->large = m->source.bytes > sim->model->rendezvous;
    p->seat->cpu += handling(path, m->large ? 0 : m->source.bytes);
    p->leg.under_way -= !m->large;
    push(sim, travel(sim, m, m->large ? 0 : m->source.bytes), ARRIVES, m, &sim->process[m->to]);
}

static void send_anyhow(sim_t *sim, sim_process_t *p, sim_message_t *m) {
    uint64_t how = sim_random(sim);
    double arrives = p->seat->cpu + some_time(sim);
    if (p->heard) {
        m->news = must(malloc(sim->n));
        memcpy(m->news, p->heard, sim->n);
    }
    m->large = how & 1;
    m->read_late = m->large || how & 2;
    if (!m->read_late) {
        take_copy(m);
    }
    if (!m->read_late && how & 4) {
        p->leg.under_way--;
    } else if (!m->large) { /* its data is read when it arrives at the latest */
        push(sim, arrives + some_time(sim), ENDS, m, p);
    }
    push(sim, arrives, ARRIVES, m, &sim->process[m->to]);
}

/* Messages find a process by its number in the team, and stay in their segment. */
static uint32_t find(const sim_t *sim, const hd_leg_t *leg, uint32_t rank) {
    return rank < sim->n ? leg->segment * sim->n + sim->rank_of[hd_leg_number_of(leg, rank)]
                         : UINT32_MAX;
}

static void send_data(hd_leg_t *leg, uint32_t step, uint32_t rank, const hd_net_data_t *data,
                      bool copied) {
    sim_t *sim = sim_now;
    sim_process_t *p = sim_process_of(leg);
    uint32_t from = leg->segment * sim->n + leg->call.me, to = find(sim, leg, rank);
    if (to == UINT32_MAX || to == from || step > 0xffff) {
        sim_complain(sim, "a message to nobody, to oneself, or at a step beyond 16 bits", from, to,
                     step);
        return;
    }
    sim_message_t *m = message_of(sim, to, from, step);
    if (m->sent) {
        sim_complain(sim, "two messages of one step", from, to, step);
        return;
    }
    m->sent = true;
    m->source = *data;
    if (copied) {
        m->own[0] = data->piece[0];
        m->source.piece = &m->own[0];
    }
    p->messages++;
    p->bytes += data->bytes;
    leg->under_way++;
    if (sim->model) {
        send_timed(sim, p, m);
    } else {
        send_anyhow(sim, p, m);
    }
}

void hd_leg_send(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_data_t *data) {
    send_data(leg, step, to, data, false);
}

void hd_leg_send_bytes(hd_leg_t *leg, uint32_t step, uint32_t to, const void *at, size_t bytes) {
    hd_net_piece_t piece = {(void *)(uintptr_t)at, bytes};
    hd_net_data_t data = {&piece, 1, bytes};
    send_data(leg, step, to, &data, true);
}

/* --- receiving -------------------------------------------------------------------------------- */

/* It is in place. */
static void end_message(sim_t *sim, sim_message_t *m) {
    sim_process_t *p = &sim->process[m->to];
    if (m->source.bytes != m->target.bytes) {
        sim_complain(sim, "a message of another size than is expected", m->to, m->from, m->step);
    } else if (!sim->model && m->source.bytes) {
        take_copy(m);
        copy_pieces(&m->target, m->copy, false);
    }
    for (uint32_t r = 0; m->news && r < sim->n; r++) {
        p->heard[r] |= m->news[r];
    }
    free(m->copy);
    free(m->news);
    m->copy = m->news = NULL;
    m->over = true;
    p->received++;
    p->leg.receiving--;
    p->leg.under_way -= m->large; /* a receive that is under way */
}

/* It has arrived, and is expected. */
static void match(sim_t *sim, sim_message_t *m) {
    sim_process_t *p = &sim->process[m->to], *sender = &sim->process[m->from];
    if (!m->large) {
        end_message(sim, m);
        return;
    }
    m->asked = true;
    p->leg.under_way++;
    if (!sim->model) {
        push(sim, p->seat->cpu + some_time(sim), COMES, m, p);
        return;
    }
    const sim_path_t *path = path_of(sim, m);
    p->seat->cpu += path->o;
    push(sim, p->seat->cpu + path->L, ASKED, m, sender);
}

static void expect(hd_leg_t *leg, uint32_t step, uint32_t rank, const hd_net_data_t *data,
                   bool copied) {
    sim_t *sim = sim_now;
    uint32_t me = leg->segment * sim->n + leg->call.me, from = find(sim, leg, rank);
    if (from == UINT32_MAX || from == me || step > 0xffff) {
        sim_complain(sim, "a message is expected of nobody, or of oneself", me, from, step);
        return;
    }
    sim_message_t *m = message_of(sim, me, from, step);
    if (m->expected) {
        sim_complain(sim, "two messages of one step are expected", me, from, step);
        return;
    }
    m->expected = true;
    m->target = *data;
    if (copied) {
        m->own[1] = data->piece[0];
        m->target.piece = &m->own[1];
    }
    leg->receiving++;
    if (m->arrived) {
        sim_process_of(leg)->parked--;
        match(sim, m);
    }
}

void hd_leg_receive(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_data_t *data) {
    expect(leg, step, from, data, false);
}

void hd_leg_receive_bytes(hd_leg_t *leg, uint32_t step, uint32_t from, void *at, size_t bytes) {
    hd_net_piece_t piece = {at, bytes};
    hd_net_data_t data = {&piece, 1, bytes};
    expect(leg, step, from, &data, true);
}

/* --- a process's turns ------------------------------------------------------------------------ */

static ucc_status_t go(hd_leg_t *leg) {
    bool nothing = leg->plan.algorithm == HD_NET_NOTHING && !hd_coll[leg->call.type].reducing;
    return nothing ? UCC_OK : hd_net_families[hd_net_family_of[leg->call.type]].step(leg);
}

/* As hd_leg_go does. */
static void go_on(sim_t *sim, sim_process_t *p) {
    hd_leg_t *leg = &p->leg;
    if (p->over || p->begins_late) {
        return;
    }
    if (!p->begun) {
        sim_turn = p;
        ucc_status_t status = go(leg);
        p->begun = status == UCC_OK;
        if (status < 0) {
            sim_complain(sim, "an algorithm failed", leg->call.me, 0, 0);
        }
    }
    if (p->begun && !leg->receiving && !leg->under_way) {
        p->over = true;
        p->ended = p->seat->cpu;
    }
}

static void handle(sim_t *sim, sim_process_t *p, sim_message_t *m, happening_t what) {
    const sim_path_t *path = sim->model ? path_of(sim, m) : NULL;
    size_t bytes = m->source.bytes;
    switch (what) {
    case ARRIVES:
        p->seat->cpu += path ? handling(path, m->large ? 0 : bytes) : 0;
        m->arrived = true;
        if (!m->large && m->read_late) {
            take_copy(m);
        }
        if (m->expected) {
            match(sim, m);
        } else if (++p->parked > p->most_parked) {
            p->most_parked = p->parked;
        }
        break;
    case ASKED: /* at the sender */
        p->seat->cpu += handling(path, bytes);
        push(sim, travel(sim, m, bytes), COMES, m, &sim->process[m->to]);
        push(sim, p->seat->cpu + path->G * (double)bytes, ENDS, m, p);
        break;
    case COMES:
        p->seat->cpu += path ? handling(path, bytes) : 0;
        end_message(sim, m);
        if (!path) {
            push(sim, p->seat->cpu + some_time(sim), ENDS, m, &sim->process[m->from]);
        }
        break;
    case ENDS: /* at the sender */
        p->leg.under_way--;
        break;
    case WAKES:
    case BEGINS:
        break;
    }
}

/* All that has happened to it, then its leg; what happens meanwhile waits. */
static void turn(sim_t *sim, sim_process_t *p, double at) {
    sim_message_t *m = p->waiting;
    p->seat->cpu = p->seat->cpu > at ? p->seat->cpu : at;
    p->waiting = NULL;
    p->last = &p->waiting;
    while (m) {
        sim_message_t *next = m->next;
        handle(sim, p, m, m->what);
        m = next;
    }
    go_on(sim, p);
}

static void happen(sim_t *sim, const event_t *e) {
    sim_process_t *p = e->process;
    if (e->what == WAKES) {
        p->waking = false;
        turn(sim, p, e->at);
        return;
    }
    if (e->what == BEGINS) {
        p->begins_late = false;
        p->began = e->at;
        turn(sim, p, e->at);
        return;
    }
    /* A message is in one list at most: what happens to it next is caused by this, but for the end
     * of its send. */
    if (e->what == ENDS) {
        p->seat->cpu = p->seat->cpu > e->at ? p->seat->cpu : e->at;
        handle(sim, p, e->message, ENDS);
        go_on(sim, p);
        return;
    }
    e->message->what = e->what;
    e->message->next = NULL;
    *p->last = e->message;
    p->last = &e->message->next;
    if (p->seat->cpu <= e->at) {
        turn(sim, p, e->at);
    } else if (!p->waking) {
        p->waking = true;
        push(sim, p->seat->cpu, WAKES, NULL, p);
    }
}

static void look_for_leftovers(sim_t *sim) {
    const struct sim_queue *q = sim->queue;
    for (size_t i = 0; i < q->slots && !sim->wrong; i++) {
        const sim_message_t *m = q->table[i];
        if (m && !m->over) {
            sim_complain(sim,
                         m->sent ? "nobody expects a message" : "nobody sends what is expected",
                         m->to, m->from, m->step);
        }
    }
    for (uint32_t r = 0; r < sim->n * sim->segments; r++) {
        if (!sim->process[r].over) {
            sim_complain(sim, "a process does not end", r, 0, 0);
        }
    }
}

sim_result_t sim_run(sim_t *sim) {
    sim_result_t result = {0};
    sim_now = sim;
    for (uint32_t r = 0; r < sim->n * sim->segments; r++) {
        sim_process_t *p = &sim->process[r];
        p->begins_late = true;
        push(sim, sim->model ? 0 : some_time(sim), BEGINS, NULL, p);
    }
    while (sim->queue->n > 0 && !sim->wrong) {
        event_t e = pop(sim->queue);
        sim->events++;
        happen(sim, &e);
    }
    look_for_leftovers(sim);
    for (uint32_t r = 0; r < sim->n * sim->segments; r++) {
        const sim_process_t *p = &sim->process[r];
        result.ns = p->ended > result.ns ? p->ended : result.ns;
        result.messages += p->messages;
        result.bytes += p->bytes;
        result.most_messages =
            p->messages > result.most_messages ? p->messages : result.most_messages;
        result.most_bytes = p->bytes > result.most_bytes ? p->bytes : result.most_bytes;
        result.most_received =
            p->received > result.most_received ? p->received : result.most_received;
        result.most_parked =
            p->most_parked > result.most_parked ? p->most_parked : result.most_parked;
    }
    result.right = !sim->wrong;
    return result;
}

void sim_wake(sim_t *sim, sim_process_t *p) {
    push(sim, p->seat->cpu + some_time(sim), WAKES, NULL, p);
}

/* --- a run's memory --------------------------------------------------------------------------- */

sim_t *sim_create(const sim_model_t *model, uint64_t random, uint32_t n, const uint32_t *place_of,
                  uint32_t places, uint32_t segments) {
    sim_t *sim = must(calloc(1, sizeof(*sim)));
    sim->model = model;
    sim->random = random;
    sim->n = n;
    sim->places = places;
    sim->segments = segments;
    sim->process = must(calloc((size_t)n * segments, sizeof(*sim->process)));
    sim->seat = must(calloc(n, sizeof(*sim->seat)));
    sim->queue = must(calloc(1, sizeof(*sim->queue)));
    sim->rank_of = must(malloc(places * sizeof(*sim->rank_of)));
    memset(sim->rank_of, 0xff, places * sizeof(*sim->rank_of));
    for (uint32_t i = 0; i < n * segments; i++) {
        sim_process_t *p = &sim->process[i];
        p->place = place_of ? place_of[i % n] : i % n;
        p->seat = &sim->seat[model && model->processors ? i % n % model->processors : i % n];
        p->leg.segment = i / n;
        p->last = &p->waiting;
        sim->rank_of[p->place] = i % n;
    }
    if (model) {
        uint32_t hosts = places / model->per_host + 1;
        sim->host_out = must(calloc(hosts, sizeof(double)));
        sim->host_in = must(calloc(hosts, sizeof(double)));
    }
    return sim;
}

void sim_destroy(sim_t *sim) {
    struct sim_queue *q = sim->queue;
    for (size_t i = 0; i < q->slots; i++) {
        if (q->table[i]) {
            free(q->table[i]->copy);
            free(q->table[i]->news);
        }
    }
    for (sim_message_t *next, *block = q->block; block; block = next) {
        next = block->next;
        free(block);
    }
    free(q->heap);
    free(q->table);
    free(q);
    free(sim->process);
    free(sim->seat);
    free(sim->rank_of);
    free(sim->host_out);
    free(sim->host_in);
    free(sim);
}
