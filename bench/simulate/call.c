/* call.c: the calls of all processes, their data, and what must come of them: see simulate.h.
 *
 * Bytes that are moved tell where they come from. What is combined are numbers, by a function that
 * is neither commutative nor associative: a result is right only if it was made by the canonical
 * tree (core/reduce.h), and finished once.
 */
#include "simulate.h"

#include "core/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD = 32, WORD = sizeof(uint64_t) };
#define GUARD_BYTE 0xEE

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "simulation: no memory\n");
        exit(2);
    }
    return memory;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ b * UINT64_C(0x9E3779B97F4A7C15)) + UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ x >> 29;
}

/* --- plans ------------------------------------------------------------------------------------ */

const uint8_t *sim_algorithms(uint8_t type) {
    static const uint8_t barrier[] = {HD_NET_DIRECT, HD_NET_DISSEMINATION, 0},
                         fan[] = {HD_NET_DIRECT, HD_NET_TREE, 0},
                         bcast[] = {HD_NET_DIRECT, HD_NET_TREE, HD_NET_CHAIN,
                                    HD_NET_SCATTER_ALLGATHER, 0},
                         allgather[] = {HD_NET_DIRECT, HD_NET_BRUCK, HD_NET_RING, 0},
                         allgatherv[] = {HD_NET_DIRECT, HD_NET_RING, 0},
                         alltoall[] = {HD_NET_DIRECT, HD_NET_PAIRWISE, 0},
                         blocks[] = {HD_NET_DIRECT, HD_NET_TREE, 0}, direct[] = {HD_NET_DIRECT, 0},
                         allreduce[] = {HD_NET_DIRECT, HD_NET_EXCHANGE, HD_NET_REDUCE_ALLGATHER, 0},
                         reduce[] = {HD_NET_DIRECT, HD_NET_TREE, HD_NET_REDUCE_ALLGATHER, 0};
    switch ((enum hd_type)type) {
    case HD_BARRIER:
        return barrier;
    case HD_FANIN:
    case HD_FANOUT:
        return fan;
    case HD_BCAST:
    case HD_MCAST:
        return bcast;
    case HD_ALLGATHER:
        return allgather;
    case HD_ALLGATHERV:
        return allgatherv;
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
        return alltoall;
    case HD_GATHER:
    case HD_SCATTER:
        return blocks;
    case HD_ALLREDUCE:
        return allreduce;
    case HD_REDUCE:
        return reduce;
    default:
        return direct;
    }
}

const char *sim_algorithm_name(uint8_t algorithm) {
    static const char *const names[] = {
        "nothing", "direct", "dissemination", "tree",     "chain",           "scatter_allgather",
        "bruck",   "ring",   "pairwise",      "exchange", "reduce_allgather"};
    return algorithm < sizeof(names) / sizeof(names[0]) ? names[algorithm] : "?";
}

static hd_net_plan_t plan_of(const sim_call_t *c, const hd_net_call_t *call) {
    uint8_t choice[HD_NET_FAMILIES];
    memset(choice, c->choice, sizeof(choice));
    hd_net_plan_t plan = hd_net_plan_with(choice, call, hd_coll[c->type].vector ? 0 : c->bytes);
    plan.radix = c->radix ? c->radix : plan.radix;
    return plan;
}

static hd_net_call_t base_of(const sim_call_t *c, uint32_t me) {
    return (hd_net_call_t){.type = c->type,
                           .n = c->n,
                           .me = me,
                           .root = c->root,
                           .count = hd_coll[c->type].reducing ? c->bytes / WORD : 0,
                           .element = hd_coll[c->type].reducing ? WORD : 0,
                           .parallel = c->parallel};
}

hd_net_plan_t sim_plan(const sim_call_t *call) {
    hd_net_call_t base = base_of(call, 0);
    return plan_of(call, &base);
}

/* --- combining -------------------------------------------------------------------------------- */

static uint64_t combine_words(uint64_t *word, uint32_t k) {
    while (k > 1) {
        uint32_t blocks = 0;
        for (uint32_t i = 0; i < k; i += HD_REDUCE_BLOCK, blocks++) {
            uint64_t x = word[i];
            for (uint32_t j = i + 1; j < k && j < i + HD_REDUCE_BLOCK; j++) {
                x = mix(x + j - i, word[j]);
            }
            word[blocks] = x;
        }
        k = blocks;
    }
    return word[0];
}

static uint64_t finish(uint64_t x) {
    return mix(x, 0x1a57);
}

static uint64_t operand_word(uint32_t rank, size_t element) {
    return mix(rank + 1, element + 77);
}

static ucc_status_t combine(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last) {
    sim_process_t *p = sim_process_of(leg);
    if (sim_now->model) {
        p->seat->cpu += sim_now->model->combine * (double)(k * count * WORD);
        return UCC_OK;
    }
    if (p->not_yet > 0) {
        p->not_yet--;
        sim_wake(sim_now, p);
        return UCC_INPROGRESS;
    }
    p->not_yet = (uint32_t)(sim_random(sim_now) % 3);
    if (p->combined++ > 0 && leg->call.parallel) {
        sim_complain(sim_now, "a second combination that is shared out", leg->call.me, 0, 0);
    }
    uint64_t *word = must(malloc(k * WORD));
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < k; j++) {
            memcpy(&word[j], (const char *)operand[j] + i * WORD, WORD);
        }
        uint64_t x = combine_words(word, k);
        x = last ? finish(x) : x;
        memcpy((char *)dst + i * WORD, &x, WORD);
    }
    free(word);
    if (!hd_coll[leg->call.type].vector && last && first + count > leg->call.count &&
        leg->call.type != HD_REDUCE_SCATTER) {
        sim_complain(sim_now, "a combination beyond the end", leg->call.me, 0, 0);
    }
    return UCC_OK;
}

/* The linker puts these before those of shape.c. */
void __real_hd_net_pack(const hd_net_data_t *data, void *to);
void __real_hd_net_unpack(const hd_net_data_t *data, const void *from);
void __wrap_hd_net_pack(const hd_net_data_t *data, void *to);
void __wrap_hd_net_unpack(const hd_net_data_t *data, const void *from);

void __wrap_hd_net_pack(const hd_net_data_t *data, void *to) {
    if (sim_now->model) {
        sim_turn->seat->cpu += sim_now->model->copy * (double)data->bytes;
    } else {
        __real_hd_net_pack(data, to);
    }
}

void __wrap_hd_net_unpack(const hd_net_data_t *data, const void *from) {
    if (sim_now->model) {
        sim_turn->seat->cpu += sim_now->model->copy * (double)data->bytes;
    } else {
        __real_hd_net_unpack(data, from);
    }
}

/* --- data of a chaotic run -------------------------------------------------------------------- */

/* What a process has; of each buffer, GUARD bytes after it must stay as they are. */
typedef struct holding {
    hd_net_data_t *give, *take;
    hd_net_piece_t *piece;
    uint32_t pieces;
    uint8_t *src, *dst, *scratch;
    size_t src_bytes, dst_bytes, scratch_bytes;
    bool in_front; /* reduce_scatter in place: the result goes where the first block was */
} holding_t;

/* Bytes of the block that `from` gives to `to`. */
static size_t size_of(const sim_call_t *c, uint32_t from, uint32_t to) {
    size_t unit = hd_coll[c->type].reducing ? WORD : 1;
    if (!hd_coll[c->type].vector) {
        return c->bytes;
    }
    uint64_t x = mix(mix(c->random, from), to);
    return x % 4 == 0 ? 0 : (size_t)(x / 4 % (2 * c->bytes / unit + 2)) * unit;
}

static uint8_t *guarded(size_t bytes) {
    uint8_t *at = must(aligned_alloc(HD_LINE, (bytes + GUARD + HD_LINE - 1) / HD_LINE * HD_LINE));
    memset(at, 0xAB, bytes);
    memset(at + bytes, GUARD_BYTE, GUARD);
    return at;
}

static bool is_intact(const uint8_t *at, size_t bytes) {
    for (size_t i = 0; at && i < GUARD; i++) {
        if (at[bytes + i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

static void write_bytes(uint8_t *at, size_t bytes, uint64_t what) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)mix(what, i);
    }
}

static bool are_bytes(const uint8_t *at, size_t bytes, uint64_t what) {
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != (uint8_t)mix(what, i)) {
            return false;
        }
    }
    return true;
}

/* In up to three pieces. */
static hd_net_data_t data_at(sim_t *sim, holding_t *h, uint8_t *at, size_t bytes, bool whole) {
    hd_net_data_t data = {h->piece + h->pieces, 0, bytes};
    hd_net_piece_t *piece = h->piece + h->pieces;
    uint32_t n = whole ? 1 : 1 + (uint32_t)(sim_random(sim) % 3);
    for (uint32_t i = 0; i < n && (bytes > 0 || sim_random(sim) % 2); i++) {
        size_t some = i + 1 < n ? sim_random(sim) % (bytes + 1) : bytes;
        piece[data.n++] = (hd_net_piece_t){at, some};
        at += some;
        bytes -= some;
    }
    h->pieces += data.n;
    return data;
}

typedef enum shape { NONE, ONE, EACH } shape_t; /* blocks: of none, one, or each */

static shape_t gives(const sim_call_t *c, uint32_t me) {
    switch ((enum hd_type)c->type) {
    case HD_BCAST:
    case HD_MCAST:
        return me == c->root ? ONE : NONE;
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return ONE;
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return EACH;
    case HD_GATHER:
    case HD_GATHERV:
        return me == c->root ? NONE : ONE;
    case HD_SCATTER:
    case HD_SCATTERV:
        return me == c->root ? EACH : NONE;
    default:
        return NONE;
    }
}

static shape_t takes(const sim_call_t *c, uint32_t me) {
    switch ((enum hd_type)c->type) {
    case HD_BCAST:
    case HD_MCAST:
    case HD_SCATTER:
    case HD_SCATTERV:
        return me == c->root ? NONE : ONE;
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
        return EACH;
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return ONE;
    case HD_GATHER:
    case HD_GATHERV:
        return me == c->root ? EACH : NONE;
    default:
        return NONE;
    }
}

/* Whose block it is that `me` gives to `other`, in terms of size_of; the bytes of a bcast are of
 * the root. */
static size_t given(const sim_call_t *c, uint32_t me, uint32_t other, shape_t shape,
                    uint64_t *what) {
    uint8_t type = c->type;
    bool pair = type == HD_ALLTOALL || type == HD_ALLTOALLV;
    bool by_receiver = type == HD_SCATTER || type == HD_SCATTERV || type == HD_REDUCE_SCATTER ||
                       type == HD_REDUCE_SCATTERV;
    uint32_t from = by_receiver ? 0 : me, to = pair || by_receiver ? other : 0;
    (void)shape;
    *what = mix(by_receiver ? c->root : me, to);
    return size_of(c, from, to);
}

static size_t first_element(const sim_call_t *c, uint32_t block) {
    size_t first = 0;
    uint64_t what;
    for (uint32_t r = 0; r < block; r++) {
        first += given(c, 0, r, EACH, &what) / WORD;
    }
    return first;
}

static void make_blocks(sim_t *sim, const sim_call_t *c, holding_t *h, uint32_t me) {
    shape_t give = gives(c, me), take = takes(c, me);
    bool reduces = hd_coll[c->type].reducing;
    uint32_t n_give = give == EACH ? c->n : 1, n_take = take == EACH ? c->n : 1;
    uint64_t what;
    for (uint32_t r = 0; give != NONE && r < n_give; r++) {
        h->src_bytes += given(c, me, r, give, &what);
    }
    for (uint32_t r = 0; take != NONE && r < n_take; r++) {
        uint32_t from = take == EACH ? r : c->root;
        h->dst_bytes += reduces ? given(c, 0, me, EACH, &what) : given(c, from, me, take, &what);
    }
    h->src = guarded(h->src_bytes);
    h->dst = guarded(h->dst_bytes);
    h->give = must(calloc(n_give, sizeof(hd_net_data_t)));
    h->take = must(calloc(n_take, sizeof(hd_net_data_t)));
    h->piece = must(calloc(3 * ((size_t)n_give + n_take), sizeof(hd_net_piece_t)));
    h->in_front = c->random & 2;
    uint8_t *at = h->src;
    size_t element = 0;
    for (uint32_t r = 0; give != NONE && r < n_give; r++) {
        size_t bytes = given(c, me, r, give, &what);
        h->give[r] = data_at(sim, h, at, bytes, reduces);
        if (reduces) {
            for (size_t i = 0; i < bytes / WORD; i++, element++) {
                uint64_t x = operand_word(me, element);
                memcpy(at + i * WORD, &x, WORD);
            }
        } else {
            write_bytes(at, bytes, what);
        }
        at += bytes;
    }
    at = h->dst;
    for (uint32_t r = 0; take != NONE && r < n_take; r++) {
        uint32_t from = take == EACH ? r : c->root;
        size_t bytes = reduces ? given(c, 0, me, EACH, &what) : given(c, from, me, take, &what);
        h->take[r] = data_at(sim, h, at, bytes, false);
        at += bytes;
    }
    if (reduces && c->in_place && !h->in_front) { /* the result takes my own operand's place */
        h->take[0] = h->give[me];
    } else if (reduces && c->in_place) { /* or that of others, which may have to be sent */
        h->take[0] = (hd_net_data_t){h->piece + h->pieces, 1, h->dst_bytes};
        h->piece[h->pieces++] = (hd_net_piece_t){h->src, h->dst_bytes};
    }
}

static void make_operands(const sim_call_t *c, holding_t *h, uint32_t me) {
    bool has_result = c->type == HD_ALLREDUCE || me == c->root;
    h->src_bytes = c->bytes;
    h->dst_bytes = has_result && !c->in_place ? c->bytes : 0;
    h->src = guarded(h->src_bytes);
    h->dst = guarded(h->dst_bytes);
    for (size_t i = 0; i < c->bytes / WORD; i++) {
        uint64_t x = operand_word(me, i);
        memcpy(h->src + i * WORD, &x, WORD);
    }
}

static bool is_whole(uint8_t type) {
    return type == HD_ALLREDUCE || type == HD_REDUCE;
}

static void make(sim_t *sim, const sim_call_t *c, holding_t *h, uint32_t me) {
    hd_leg_t *leg = &sim->process[me].leg;
    bool moves = hd_coll[c->type].moves_data;
    if (is_whole(c->type)) {
        make_operands(c, h, me);
    } else if (moves) {
        make_blocks(sim, c, h, me);
    }
    leg->call = base_of(c, me);
    leg->call.give = h->give;
    leg->call.take = h->take;
    leg->call.operand = h->src;
    leg->call.result = c->in_place ? h->src : h->dst;
    leg->call.combine = combine;
    leg->plan = plan_of(c, &leg->call);
    if (memcmp(&leg->plan.algorithm, &sim->process[0].leg.plan.algorithm, 1) != 0 ||
        leg->plan.radix != sim->process[0].leg.plan.radix) {
        sim_complain(sim, "processes have different plans", 0, me, 0);
    }
    h->scratch_bytes = hd_net_scratch(&leg->call, &leg->plan);
    h->scratch = h->scratch_bytes ? guarded(h->scratch_bytes) : NULL;
    leg->call.scratch = h->scratch;
    sim->process[me].not_yet = (uint32_t)(sim_random(sim) % 3);
}

static void forget(holding_t *h) {
    free(h->give);
    free(h->take);
    free(h->piece);
    free(h->src);
    free(h->dst);
    free(h->scratch);
}

/* --- what must come of it --------------------------------------------------------------------- */

/* expected[i]: of the i-th element of all. */
static uint64_t *reference(const sim_call_t *c, size_t elements) {
    uint64_t *expected = must(malloc((elements + 1) * WORD)), *word = must(malloc(c->n * WORD));
    for (size_t i = 0; i < elements; i++) {
        for (uint32_t r = 0; r < c->n; r++) {
            word[r] = operand_word(r, i);
        }
        expected[i] = finish(combine_words(word, c->n));
    }
    free(word);
    return expected;
}

static void check_blocks(sim_t *sim, const sim_call_t *c, const holding_t *h, uint32_t me) {
    const uint8_t *at = h->dst;
    shape_t take = takes(c, me);
    for (uint32_t r = 0; take != NONE && r < (take == EACH ? c->n : 1); r++) {
        uint64_t what;
        uint32_t from = take == EACH ? r : c->root;
        size_t bytes = given(c, from, me, take, &what);
        if (from != me && !are_bytes(at, bytes, what)) {
            sim_complain(sim, "wrong bytes", me, from, 0);
        }
        at += bytes;
    }
}

static void check_holding(sim_t *sim, const sim_call_t *c, const holding_t *h, uint32_t me,
                          const uint64_t *expected) {
    if (!is_intact(h->src, h->src_bytes) || !is_intact(h->dst, h->dst_bytes) ||
        !is_intact(h->scratch, h->scratch_bytes)) {
        sim_complain(sim, "written beyond the end of a buffer", me, 0, 0);
    }
    if (!hd_coll[c->type].reducing) {
        if (hd_coll[c->type].moves_data) {
            check_blocks(sim, c, h, me);
        }
        return;
    }
    const uint8_t *result = c->in_place ? h->src : h->dst;
    size_t first = 0, elements = c->bytes / WORD;
    if (!is_whole(c->type)) {
        uint64_t what;
        first = first_element(c, me);
        elements = given(c, 0, me, EACH, &what) / WORD;
        result = !c->in_place ? h->dst : h->in_front ? h->src : h->src + first * WORD;
    } else if (c->type == HD_REDUCE && me != c->root) {
        return;
    }
    if (elements && memcmp(result, expected + first, elements * WORD) != 0) {
        sim_complain(sim, "a wrong result of a reduction", me, 0, 0);
    }
}

static bool keeps_account(const sim_call_t *c) {
    enum { MOST = 300 }; /* more would be a lot of memory */
    return !hd_coll[c->type].moves_data && c->n <= MOST;
}

/* Nobody ends before it has heard, at whatever hand, of those for whom it has to wait. */
static void check_news(sim_t *sim, const sim_call_t *c) {
    hd_flow_t flow = (hd_flow_t)hd_coll[c->type].flow;
    for (uint32_t me = 0; me < c->n; me++) {
        for (uint32_t r = 0; r < c->n; r++) {
            bool waits = flow == HD_AMONG_ALL || (flow == HD_TO_ROOT && me == c->root) ||
                         (flow == HD_FROM_ROOT && r == c->root);
            if (waits && !sim->process[me].heard[r]) {
                sim_complain(sim, "a process has not waited for another one", me, r, 0);
            }
        }
    }
}

static void say(const sim_t *sim, const sim_call_t *c, const hd_net_plan_t *plan) {
    fprintf(stderr,
            "FAILED: %s of %zu bytes by %s (radix %u), %u processes, root %u%s%s%s, seed %llu: %s "
            "(%u, %u, step %u)\n",
            hd_type_name(c->type), c->bytes, sim_algorithm_name(plan->algorithm), plan->radix, c->n,
            c->root, c->in_place ? ", in place" : "", c->parallel ? ", shared out" : "",
            c->scattered ? ", scattered" : "", (unsigned long long)c->random, sim->wrong,
            sim->wrong_at, sim->wrong_with, sim->wrong_step);
}

/* Of a team of half as many more, in any order. */
static uint32_t *scatter_places(uint32_t n, uint32_t places, uint64_t random) {
    uint32_t *place = must(malloc(places * sizeof(*place)));
    for (uint32_t i = 0; i < places; i++) {
        place[i] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i + (uint32_t)(mix(random, i) % (places - i)), swapped = place[i];
        place[i] = place[j];
        place[j] = swapped;
    }
    return place;
}

bool sim_check(const sim_call_t *c) {
    uint32_t places = c->scattered ? c->n + c->n / 2 : c->n;
    uint32_t *place_of = c->scattered ? scatter_places(c->n, places, c->random) : NULL;
    sim_t *sim = sim_create(NULL, c->random, c->n, place_of, places, 1);
    holding_t *h = must(calloc(c->n, sizeof(*h)));
    uint64_t *expected = NULL;
    sim_now = sim;
    for (uint32_t r = 0; r < c->n; r++) {
        make(sim, c, &h[r], r);
        sim->process[r].leg.call.process = place_of;
        if (keeps_account(c)) {
            sim->process[r].heard = must(calloc(c->n, 1));
            sim->process[r].heard[r] = 1;
        }
    }
    if (hd_coll[c->type].reducing) {
        expected = reference(c, is_whole(c->type) ? c->bytes / WORD : first_element(c, c->n));
    }
    sim_run(sim);
    for (uint32_t r = 0; r < c->n && !sim->wrong; r++) {
        check_holding(sim, c, &h[r], r, expected);
    }
    if (!sim->wrong && keeps_account(c)) {
        check_news(sim, c);
    }
    bool right = !sim->wrong;
    if (!right) {
        say(sim, c, &sim->process[0].leg.plan);
    }
    for (uint32_t r = 0; r < c->n; r++) {
        forget(&h[r]);
        free(sim->process[r].heard);
    }
    free(h);
    free(expected);
    sim_destroy(sim);
    free(place_of);
    return right;
}

/* --- a timed run ------------------------------------------------------------------------------ */

sim_result_t sim_time(const sim_call_t *c, const sim_model_t *model) {
    /* No data is moved: one address serves for all, and data of several blocks has no pieces to be
     * packed. */
    static uint8_t nowhere[1];
    bool reduces = hd_coll[c->type].reducing, whole = c->type == HD_BCAST || c->type == HD_MCAST;
    size_t entries = (size_t)c->n * sizeof(hd_net_data_t), scratch = 0;
    hd_net_piece_t piece = {nowhere, c->bytes};
    hd_net_data_t *each = must(malloc(entries));
    for (uint32_t r = 0; r < c->n; r++) {
        each[r] = (hd_net_data_t){&piece, whole || reduces, c->bytes};
    }
    uint32_t legs = c->n * (c->segments ? c->segments : 1);
    sim_t *sim = sim_create(model, 0, c->n, NULL, c->n, legs / c->n);
    for (uint32_t r = 0; r < legs; r++) {
        hd_leg_t *leg = &sim->process[r].leg;
        leg->call = base_of(c, r % c->n);
        leg->call.give = leg->call.take = each;
        leg->call.operand = leg->call.result = nowhere;
        leg->call.combine = combine;
        leg->plan = plan_of(c, &leg->call);
        scratch += (hd_net_scratch(&leg->call, &leg->plan) + HD_LINE - 1) / HD_LINE * HD_LINE;
    }
    /* Operands' places are never touched, their tables are. */
    char *memory = scratch ? mmap(NULL, scratch, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                           : NULL;
    must(memory == MAP_FAILED ? NULL : nowhere);
    char *at = memory;
    for (uint32_t r = 0; r < legs; r++) {
        hd_leg_t *leg = &sim->process[r].leg;
        leg->call.scratch = at;
        at += (hd_net_scratch(&leg->call, &leg->plan) + HD_LINE - 1) / HD_LINE * HD_LINE;
    }
    sim_result_t result = sim_run(sim);
    if (!result.right) {
        say(sim, c, &sim->process[0].leg.plan);
    }
    if (scratch) {
        munmap(memory, scratch);
    }
    free(each);
    sim_destroy(sim);
    return result;
}
