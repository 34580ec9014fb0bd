/* test_collectives.c: every collective among 2 to 9 processes, by every algorithm that there is for
 * it, against what it is defined to give. */
#include "../support/deadline.h"
#include "../support/dose.h"
#include "../support/nodes.h"
#include "../support/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(net_collectives, .timeout = 300);

static const char *const shm[] = {NULL};
static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};
static const char *const two_lanes[] = {"NET_LANES", "2", NULL};

enum { BARS = 2048 }; /* pieces that a buffer is cut into, at most */

/* What rank r has for rank q at byte i of round k. */
static uint8_t byte_of(uint64_t k, uint32_t r, uint32_t q, size_t i) {
    uint64_t x = k * 1000003 + r * 10007 + q * 101 + i * 7 + (i >> 8) * 13;
    return (uint8_t)(x ^ (x >> 7));
}

/* Memory for so many bytes, in one piece or in several of uneven sizes with gaps. */
typedef struct buffer {
    uint8_t *memory;
    hd_net_piece_t *piece;
    hd_net_data_t data;
} buffer_t;

static buffer_t buffer_make(size_t bytes, bool several) {
    buffer_t b = {.memory = must_alloc(1, 2 * bytes + BARS),
                  .piece = must_alloc(BARS, sizeof(*b.piece))};
    uint32_t n = 0;
    uint8_t *at = b.memory;
    for (size_t done = 0; done < bytes;) {
        size_t left = bytes - done;
        size_t mine = several && n < 7 ? left / 3 + n % 2 : left;
        mine = mine < left ? mine : left;
        b.piece[n++] = (hd_net_piece_t){at, mine};
        at += mine + (mine < bytes ? 3 : 0);
        done += mine;
    }
    b.data = (hd_net_data_t){b.piece, n, bytes};
    return b;
}

static void buffer_free(buffer_t *b) {
    free(b->memory);
    free(b->piece);
}

static void buffer_fill(buffer_t *b, uint64_t k, uint32_t r, uint32_t q) {
    size_t i = 0;
    for (uint32_t p = 0; p < b->data.n; p++) {
        for (size_t j = 0; j < b->piece[p].bytes; j++) {
            ((uint8_t *)b->piece[p].at)[j] = byte_of(k, r, q, i++);
        }
    }
}

static bool buffer_holds(const buffer_t *b, uint64_t k, uint32_t r, uint32_t q) {
    size_t i = 0;
    for (uint32_t p = 0; p < b->data.n; p++) {
        for (size_t j = 0; j < b->piece[p].bytes; j++) {
            if (((uint8_t *)b->piece[p].at)[j] != byte_of(k, r, q, i++)) {
                return false;
            }
        }
    }
    return true;
}

/* --- one collective --------------------------------------------------------------------------- */

typedef struct shape {
    uint8_t type, algorithm;
    uint32_t radix, root;
    size_t bytes; /* of a block; v types: about */
    bool several; /* pieces */
    uint32_t delays;
} shape_of_t;

static uint64_t number = 1; /* of the exchange: the same in all processes */

static bool is_vector(uint8_t type) {
    return hd_coll[type].vector;
}

/* Bytes of the block from r to q. */
static size_t block(const shape_of_t *s, uint32_t r, uint32_t q) {
    return is_vector(s->type) ? s->bytes * ((r * 3 + q * 5) % 4) / 2 : s->bytes;
}

static void name_it(run_t *run, const shape_of_t *s) {
    run->leg.key = (hd_net_key_t){.number = number, .class = HD_NET_NUMBERED};
    run->leg.segment = (uint32_t)(number % 3); /* as if it were one of several */
    run->leg.call.root = s->root;
    run->delays = s->delays;
    number++;
}

static void finish(run_t *run, const shape_of_t *s) {
    char what[128];
    snprintf(what, sizeof(what), "%s, algorithm %u/%u, %zu bytes, root %u%s", hd_type_name(s->type),
             s->algorithm, s->radix, s->bytes, s->root, s->several ? ", in pieces" : "");
    hd_leg_start(&run->leg);
    ucc_status_t status = run_wait(run, what);
    node_check(run->node, status == UCC_OK, "%s: %d", what, status);
}

#define WHAT "%s, algorithm %u/%u, %zu bytes, root %u, from %u"
#define WHAT_OF(_s, _r)                                                                            \
    hd_type_name((_s)->type), (_s)->algorithm, (_s)->radix, (_s)->bytes, (_s)->root, (_r)

/* Types that move blocks: gives[q] and takes[r] say which I have. */
static void move(node_t *node, const shape_of_t *s) {
    uint32_t n = node->n, me = node->me;
    run_t *run = must_alloc(1, sizeof(*run));
    buffer_t give[NODES_MOST], take[NODES_MOST];
    hd_net_data_t gives[NODES_MOST] = {{0}}, takes[NODES_MOST] = {{0}};
    uint64_t k = number;
    bool to_root = hd_coll[s->type].flow == HD_TO_ROOT,
         from_root = hd_coll[s->type].flow == HD_FROM_ROOT;
    bool bcast = s->type == HD_BCAST || s->type == HD_MCAST;
    bool gather_all = s->type == HD_ALLGATHER || s->type == HD_ALLGATHERV;
    bool is_root = me == s->root;
    run_init(run, node, s->type);
    name_it(run, s);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t q = bcast || gather_all || to_root ? 0 : r; /* the same for all, or one for each */
        give[r] = buffer_make(block(s, me, q), s->several);
        buffer_fill(&give[r], k, me, q);
        gives[r] = give[r].data;
        uint32_t mine = bcast || gather_all || to_root ? 0 : me;
        uint32_t from = from_root && !is_root ? s->root : r;
        take[r] = buffer_make(block(s, from, mine), s->several && r % 2 == 0);
        takes[r] = take[r].data;
    }
    run->leg.call.give = gives;
    run->leg.call.take = takes;
    run_plan(run, s->algorithm, s->radix, is_vector(s->type) ? 0 : s->bytes);
    finish(run, s);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t mine = bcast || gather_all || to_root ? 0 : me;
        bool gets = from_root ? !is_root && r == 0 : to_root ? is_root && r != me : r != me;
        uint32_t from = from_root ? s->root : r;
        if (gets) {
            node_check(node, buffer_holds(&take[r], k, from, mine), WHAT, WHAT_OF(s, r));
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        buffer_free(&give[r]);
        buffer_free(&take[r]);
    }
    free(run);
}

/* Operand of rank r: numbers whose sum depends on the order. */
static double number_of(uint64_t k, uint32_t r, size_t i) {
    uint64_t x = k * 7919 + r * 104729 + i * 31;
    return (double)(x % 1009) * (r % 3 == 0 ? 1e-7 : r % 3 == 1 ? 1e9 : -1e9) + 0.1;
}

static void reference(uint32_t n, uint64_t k, size_t first, size_t count, ucc_reduction_op_t op,
                      double *out) {
    hd_reducer_t reducer;
    const void *src[NODES_MOST];
    void *dst = out;
    must(hd_reducer_init(&reducer, UCC_DT_FLOAT64, op, n), "reducer");
    for (uint32_t r = 0; r < n; r++) {
        double *x = must_alloc(count + 1, sizeof(*x));
        for (size_t i = 0; i < count; i++) {
            x[i] = number_of(k, r, first + i);
        }
        src[r] = x;
    }
    must(hd_reduce_tree(&reducer, n, src, 0, 1, &dst, 0, count, HD_STORES_PLAIN), "tree");
    for (uint32_t r = 0; r < n; r++) {
        free((void *)(uintptr_t)src[r]);
    }
}

static void check_bits(node_t *node, const shape_of_t *s, uint64_t k, size_t first, size_t count,
                       ucc_reduction_op_t op, const double *got) {
    double *expected = must_alloc(count + 1, sizeof(*expected));
    reference(node->n, k, first, count, op, expected);
    for (size_t i = 0; i < count; i++) {
        node_check(node, memcmp(&got[i], &expected[i], sizeof(double)) == 0,
                   WHAT ": element %zu is %.17g, not %.17g", WHAT_OF(s, node->me), i, got[i],
                   expected[i]);
    }
    free(expected);
}

static void reduce(node_t *node, const shape_of_t *s, bool in_place) {
    size_t count = s->bytes / sizeof(double);
    run_t *run = must_alloc(1, sizeof(*run));
    double *operand = must_alloc(count + 1, sizeof(double)),
           *result = must_alloc(count + 1, sizeof(double));
    uint64_t k = number;
    ucc_reduction_op_t op = k % 2 ? UCC_OP_AVG : UCC_OP_SUM;
    for (size_t i = 0; i < count; i++) {
        operand[i] = number_of(k, node->me, i);
    }
    run_init(run, node, s->type);
    name_it(run, s);
    must(hd_reducer_init(&run->reducer, UCC_DT_FLOAT64, op, node->n), "reducer");
    run->leg.call.operand = operand;
    run->leg.call.result = in_place ? operand : result;
    run->leg.call.count = count;
    run->leg.call.element = sizeof(double);
    run_plan(run, s->algorithm, s->radix, s->bytes);
    finish(run, s);
    if (s->type == HD_ALLREDUCE || node->me == s->root) {
        check_bits(node, s, k, 0, count, op, in_place ? operand : result);
    }
    if (!in_place) {
        for (size_t i = 0; i < count; i++) {
            node_check(node, operand[i] == number_of(k, node->me, i),
                       WHAT ": my operand was changed", WHAT_OF(s, node->me));
        }
    }
    free(operand);
    free(result);
    free(run);
}

static size_t count_of(const shape_of_t *s, uint32_t r) {
    size_t count = s->bytes / sizeof(double);
    return is_vector(s->type) ? count * (r % 3) : count;
}

static void reduce_scatter(node_t *node, const shape_of_t *s) {
    uint32_t n = node->n;
    run_t *run = must_alloc(1, sizeof(*run));
    uint64_t k = number;
    ucc_reduction_op_t op = k % 2 ? UCC_OP_SUM : UCC_OP_AVG;
    hd_net_piece_t piece[NODES_MOST];
    hd_net_data_t gives[NODES_MOST];
    size_t total = 0, first[NODES_MOST];
    for (uint32_t r = 0; r < n; r++) {
        first[r] = total;
        total += count_of(s, r);
    }
    double *x = must_alloc(total + 1, sizeof(*x));
    size_t mine = count_of(s, node->me);
    buffer_t take = buffer_make(mine * sizeof(double), s->several);
    for (size_t i = 0; i < total; i++) {
        x[i] = number_of(k, node->me, i);
    }
    for (uint32_t r = 0; r < n; r++) {
        piece[r] = (hd_net_piece_t){x + first[r], count_of(s, r) * sizeof(double)};
        gives[r] = (hd_net_data_t){&piece[r], 1, piece[r].bytes};
    }
    run_init(run, node, s->type);
    name_it(run, s);
    must(hd_reducer_init(&run->reducer, UCC_DT_FLOAT64, op, n), "reducer");
    run->leg.call.give = gives;
    run->leg.call.take = &take.data;
    run->leg.call.element = sizeof(double);
    run->leg.call.count = mine;
    run_plan(run, s->algorithm, s->radix, is_vector(s->type) ? 0 : total * sizeof(double));
    finish(run, s);
    double *got = must_alloc(mine + 1, sizeof(*got));
    size_t at = 0;
    for (uint32_t p = 0; p < take.data.n; p++) {
        memcpy((char *)got + at, take.piece[p].at, take.piece[p].bytes);
        at += take.piece[p].bytes;
    }
    check_bits(node, s, k, first[node->me], mine, op, got);
    free(got);
    free(x);
    buffer_free(&take);
    free(run);
}

static void signal_only(node_t *node, const shape_of_t *s) {
    run_t *run = must_alloc(1, sizeof(*run));
    run_init(run, node, s->type);
    uint32_t w = (uint32_t)(number % 8);
    name_it(run, s);
    run_plan(run, s->algorithm, s->radix, 0);
    atomic_fetch_add(node_word(node, w), 1);
    finish(run, s);
    uint64_t here = atomic_load(node_word(node, w));
    bool waits_for_all = s->type == HD_BARRIER || (s->type == HD_FANIN && node->me == s->root);
    node_check(node, !waits_for_all || here % node->n == 0 || here >= node->n,
               "%llu of %u were there", (unsigned long long)here, node->n);
    free(run);
}

static void collective(node_t *node, const shape_of_t *s) {
    switch ((enum hd_type)s->type) {
    case HD_BARRIER:
    case HD_FANIN:
    case HD_FANOUT:
        signal_only(node, s);
        break;
    case HD_ALLREDUCE:
    case HD_REDUCE:
        reduce(node, s, number % 3 == 0);
        break;
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        reduce_scatter(node, s);
        break;
    default:
        move(node, s);
    }
}

/* --- all of them ------------------------------------------------------------------------------ */

typedef struct way {
    uint8_t type, algorithm;
    uint32_t radix;
} way_t;

static const way_t ways[] = {
    {HD_BARRIER, 0, 0},
    {HD_BARRIER, HD_NET_DIRECT, 0},
    {HD_BARRIER, HD_NET_DISSEMINATION, 2},
    {HD_BARRIER, HD_NET_DISSEMINATION, 4},
    {HD_FANIN, 0, 0},
    {HD_FANIN, HD_NET_DIRECT, 0},
    {HD_FANIN, HD_NET_TREE, 2},
    {HD_FANIN, HD_NET_TREE, 3},
    {HD_FANOUT, 0, 0},
    {HD_FANOUT, HD_NET_DIRECT, 0},
    {HD_FANOUT, HD_NET_TREE, 2},
    {HD_FANOUT, HD_NET_TREE, 3},
    {HD_BCAST, 0, 0},
    {HD_BCAST, HD_NET_DIRECT, 0},
    {HD_BCAST, HD_NET_TREE, 2},
    {HD_BCAST, HD_NET_TREE, 3},
    {HD_BCAST, HD_NET_TREE, 8},
    {HD_BCAST, HD_NET_CHAIN, 0},
    {HD_BCAST, HD_NET_SCATTER_ALLGATHER, 0},
    {HD_MCAST, 0, 0},
    {HD_ALLGATHER, 0, 0},
    {HD_ALLGATHER, HD_NET_DIRECT, 0},
    {HD_ALLGATHER, HD_NET_RING, 0},
    {HD_ALLGATHER, HD_NET_BRUCK, 0},
    {HD_ALLGATHERV, 0, 0},
    {HD_ALLGATHERV, HD_NET_DIRECT, 0},
    {HD_ALLGATHERV, HD_NET_RING, 0},
    {HD_ALLTOALL, 0, 0},
    {HD_ALLTOALL, HD_NET_DIRECT, 0},
    {HD_ALLTOALL, HD_NET_PAIRWISE, 1},
    {HD_ALLTOALL, HD_NET_PAIRWISE, 2},
    {HD_ALLTOALLV, 0, 0},
    {HD_ALLTOALLV, HD_NET_PAIRWISE, 2},
    {HD_GATHER, 0, 0},
    {HD_GATHER, HD_NET_DIRECT, 1},
    {HD_GATHER, HD_NET_DIRECT, 16},
    {HD_GATHER, HD_NET_TREE, 2},
    {HD_GATHER, HD_NET_TREE, 8},
    {HD_GATHERV, 0, 0},
    {HD_SCATTER, 0, 0},
    {HD_SCATTER, HD_NET_DIRECT, 1},
    {HD_SCATTER, HD_NET_DIRECT, 16},
    {HD_SCATTER, HD_NET_TREE, 2},
    {HD_SCATTER, HD_NET_TREE, 8},
    {HD_SCATTERV, 0, 0},
    {HD_ALLREDUCE, 0, 0},
    {HD_ALLREDUCE, HD_NET_DIRECT, 0},
    {HD_ALLREDUCE, HD_NET_EXCHANGE, 8},
    {HD_ALLREDUCE, HD_NET_REDUCE_ALLGATHER, 2},
    {HD_ALLREDUCE, HD_NET_REDUCE_ALLGATHER, 16},
    {HD_REDUCE, 0, 0},
    {HD_REDUCE, HD_NET_DIRECT, 0},
    {HD_REDUCE, HD_NET_TREE, 8},
    {HD_REDUCE, HD_NET_REDUCE_ALLGATHER, 16},
    {HD_REDUCE_SCATTER, 0, 0},
    {HD_REDUCE_SCATTER, HD_NET_DIRECT, 1},
    {HD_REDUCE_SCATTER, HD_NET_DIRECT, 16},
    {HD_REDUCE_SCATTERV, 0, 0},
};

static const size_t sizes[] = {0, 8, 256, 2056, 8192, 16392, 65544, 262152};

static void everything(node_t *node, void *arg) {
    size_t most = *(const size_t *)arg;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        for (size_t b = 0; b < sizeof(sizes) / sizeof(sizes[0]) && sizes[b] <= most; b++) {
            bool rooted = hd_coll[ways[w].type].rooted;
            for (uint32_t root = 0; root<(rooted ? node->n : 1); root += node->n> 4 ? 4 : 1) {
                shape_of_t s = {ways[w].type,
                                ways[w].algorithm,
                                ways[w].radix,
                                root,
                                sizes[b],
                                b % 2 == 1,
                                (uint32_t)(b % 3 == 2 ? 3 : 0)};
                collective(node, &s);
                s.several = !s.several;
                if (dose_step(1, 2) == 1) { /* else only with every other size */
                    collective(node, &s);
                }
            }
            if (!hd_coll[ways[w].type].moves_data) {
                break;
            }
        }
    }
}

static void run_everything(uint32_t n, const char *const *settings, size_t most) {
    cr_assert_eq(nodes_run(n, settings, everything, &most), 0);
}

Test(net_collectives, two_processes_by_shared_memory) {
    run_everything(2, shm, 1 << 20);
}
Test(net_collectives, two_processes_by_tcp) {
    run_everything(2, tcp, 1 << 20);
}
Test(net_collectives, three_processes_by_shared_memory) {
    run_everything(3, shm, 1 << 20);
}
Test(net_collectives, three_processes_by_tcp) {
    run_everything(3, tcp, 1 << 20);
}
Test(net_collectives, four_processes_in_two_lanes) {
    run_everything(4, two_lanes, 1 << 20);
}
Test(net_collectives, five_processes_by_shared_memory) {
    run_everything(5, shm, 100000);
}
Test(net_collectives, nine_processes_by_shared_memory) {
    run_everything(9, shm, 20000);
}
Test(net_collectives, nine_processes_by_tcp) {
    run_everything(9, tcp, 9000);
}
Test(net_collectives, eleven_processes_have_a_block_and_a_half) {
    run_everything(11, shm, 3000);
}
