/* burst.c: see burst.h. Operation k is drawn from the seed and k alone: type, size, root, active
 * set, tag. Word w of what member i has for member j in it is word_of(k, i, j, w).
 */
#include "burst.h"
#include "deadline.h"
#include "random.h"

#include <heddle/heddle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WINDOW = 8,
    ROUNDS = 16, /* of posts and tests in a step, as long as something ends */
    PUT_ALIGN = 64,
    TAG = 7000
};

typedef enum how {
    BARRIER,
    BCAST,
    ALLREDUCE,
    QUICK_HOWS,
    FANIN = QUICK_HOWS,
    FANOUT,
    REDUCE,
    ALLGATHER,
    ALLTOALL,
    GATHER,
    SCATTER,
    SCAN,
    HOWS
} how_t;

static const ucc_coll_type_t coll_types[HOWS] = {
    [BARRIER] = UCC_COLL_TYPE_BARRIER,     [FANIN] = UCC_COLL_TYPE_FANIN,
    [FANOUT] = UCC_COLL_TYPE_FANOUT,       [BCAST] = UCC_COLL_TYPE_BCAST,
    [ALLREDUCE] = UCC_COLL_TYPE_ALLREDUCE, [REDUCE] = UCC_COLL_TYPE_REDUCE,
    [ALLGATHER] = UCC_COLL_TYPE_ALLGATHER, [ALLTOALL] = UCC_COLL_TYPE_ALLTOALL,
    [GATHER] = UCC_COLL_TYPE_GATHER,       [SCATTER] = UCC_COLL_TYPE_SCATTER,
    [SCAN] = UCC_COLL_TYPE_SCAN,
};

/* What all members agree on. */
typedef struct small {
    how_t how;
    uint64_t k;
    uint32_t words, root, n; /* members: all, or those of the set */
    bool in_set, in_tag, wide_tag, put;
    uint64_t start, tag;
    int64_t stride;
    size_t offset; /* in the symmetric memory */
} small_t;

/* An operation under way. */
typedef struct running {
    small_t small;
    ucc_coll_req_h request;
    uint64_t *src, *dst;
    uint32_t me; /* among the members */
    bool busy;
} running_t;

struct burst_part {
    burst_t burst;
    ucc_team_h team;
    ucc_context_h context;
    uint32_t me, window;
    unsigned char *memory;
    size_t put_at;
    uint64_t random, next, posted, counted, wrong;
    running_t running[WINDOW];
};

static bool chance(uint64_t *random, uint32_t percent) {
    return random_below(random, 100) < percent;
}

burst_t burst_draw(uint64_t *random, uint32_t n, uint64_t longest, size_t memory) {
    burst_t burst = {.n = n, .seed = random_next(random), .memory = memory};
    burst.length = random_below(random, 1 + random_below(random, longest + 1));
    if (chance(random, 30)) {
        burst.persistent = 1 + (uint32_t)random_below(random, WINDOW);
    }
    burst.quick = chance(random, 50);
    burst.sets = !burst.quick && chance(random, 40);
    return burst;
}

/* --- what operation k is ---------------------------------------------------------------------- */

static void draw_set(small_t *s, uint64_t *random) {
    uint64_t team = s->n, size = 1 + random_below(random, team);
    uint64_t most = size > 1 ? (team - 1) / (size - 1) : team;
    uint64_t stride = 1 + random_below(random, most), span = (size - 1) * stride;
    s->in_set = true;
    s->n = (uint32_t)size;
    s->start = random_below(random, team - span);
    s->stride = (int64_t)stride;
    if (chance(random, 30)) {
        s->start += span;
        s->stride = -s->stride;
    }
}

static uint32_t draw_words(uint64_t *random) {
    uint32_t kind = (uint32_t)random_below(random, 100);
    return 1 + (uint32_t)random_below(random, kind < 80 ? 6 : kind < 97 ? 40 : 500);
}

static uint32_t block_words(const small_t *s, bool of_src) {
    bool blocks = s->how == ALLTOALL ||
                  (of_src ? s->how == SCATTER : s->how == ALLGATHER || s->how == GATHER);
    return blocks ? s->words * s->n : s->words;
}

/* Each lands where no other of the burst does: the next one may be written before this one was
 * read. */
static void draw_put(burst_part_t *part, small_t *s) {
    size_t bytes = (size_t)block_words(s, false) * sizeof(uint64_t);
    bytes = (bytes + PUT_ALIGN - 1) / PUT_ALIGN * PUT_ALIGN;
    s->put = part->put_at + bytes <= part->burst.memory;
    s->offset = part->put_at;
    part->put_at += s->put ? bytes : 0;
}

static small_t draw(burst_part_t *part, uint64_t k) {
    const burst_t *b = &part->burst;
    uint64_t kind = b->persistent ? k % b->persistent : k;
    uint64_t random = b->seed ^ (kind * 0xD1B54A32D192ED03u);
    small_t s = {.k = k, .n = b->n};
    s.how = (how_t)random_below(&random, b->quick ? QUICK_HOWS : HOWS);
    s.words = b->quick ? 1 + (uint32_t)random_below(&random, 6) : draw_words(&random);
    if (b->sets && chance(&random, 15)) {
        draw_set(&s, &random);
    }
    s.root = (uint32_t)random_below(&random, s.n);
    /* persistent ones of a set match by the order of their posts unless they have a tag */
    s.in_tag = (!b->quick && chance(&random, 8)) || (b->persistent && s.in_set);
    s.wide_tag = chance(&random, 50);
    s.tag = TAG + kind % 1000;
    bool puts = s.how == BCAST || s.how == ALLGATHER || s.how == ALLTOALL;
    if (puts && !b->persistent && !s.in_set && chance(&random, 50)) {
        draw_put(part, &s);
    }
    return s;
}

static bool is_member(const small_t *s, uint32_t endpoint, uint32_t *me) {
    *me = endpoint;
    if (!s->in_set) {
        return true;
    }
    int64_t by = (int64_t)endpoint - (int64_t)s->start;
    *me = (uint32_t)(by / s->stride);
    return by % s->stride == 0 && by / s->stride >= 0 && by / s->stride < (int64_t)s->n;
}

/* --- values ----------------------------------------------------------------------------------- */

static uint64_t word_of(const burst_part_t *part, uint64_t k, uint64_t from, uint64_t to,
                        uint64_t w) {
    uint64_t base = (part->burst.seed + k) * 0x9E3779B97F4A7C15u;
    return base + (from << 40) + (to << 20) + w;
}

static uint64_t src_word(const burst_part_t *part, const running_t *r, uint32_t x) {
    const small_t *s = &r->small;
    bool blocks = s->how == ALLTOALL || s->how == SCATTER;
    return word_of(part, s->k, r->me, blocks ? x / s->words : 0, blocks ? x % s->words : x);
}

static uint64_t sum_of_first(const burst_part_t *part, const small_t *s, uint32_t n, uint32_t x) {
    uint64_t pairs = (uint64_t)n * (n - 1) / 2;
    return n * word_of(part, s->k, 0, 0, x) + (pairs << 40);
}

static uint64_t dst_word(const burst_part_t *part, const running_t *r, uint32_t x) {
    const small_t *s = &r->small;
    switch (s->how) {
    case BCAST:
        return word_of(part, s->k, s->root, 0, x);
    case ALLREDUCE:
    case REDUCE:
        return sum_of_first(part, s, s->n, x);
    case SCAN:
        return sum_of_first(part, s, r->me + 1, x);
    case ALLTOALL:
        return word_of(part, s->k, x / s->words, r->me, x % s->words);
    case SCATTER:
        return word_of(part, s->k, s->root, r->me, x);
    default:
        return word_of(part, s->k, x / s->words, 0, x % s->words);
    }
}

static bool has_data(const small_t *s) {
    return s->how != BARRIER && s->how != FANIN && s->how != FANOUT;
}

static bool has_src(const running_t *r) {
    const small_t *s = &r->small;
    return has_data(s) && s->how != BCAST && (s->how != SCATTER || r->me == s->root);
}

static bool has_dst(const running_t *r) {
    const small_t *s = &r->small;
    return has_data(s) && ((s->how != REDUCE && s->how != GATHER) || r->me == s->root);
}

/* What is to be sent; and in what is to be received, something else, but where peers may have
 * written. */
static void fill(const burst_part_t *part, running_t *r) {
    const small_t *s = &r->small;
    for (uint32_t x = 0; r->src && x < block_words(s, true); x++) {
        r->src[x] = src_word(part, r, x);
    }
    bool sends = s->how == BCAST && r->me == s->root;
    for (uint32_t x = 0; r->dst && (sends || !s->put) && x < block_words(s, false); x++) {
        r->dst[x] = sends ? dst_word(part, r, x) : ~(uint64_t)0;
    }
}

static void complain(burst_part_t *part, const running_t *r, const char *what, uint64_t got) {
    enum { MOST = 5 };
    if (part->wrong++ < MOST) {
        const small_t *s = &r->small;
        fprintf(stderr,
                "WRONG: burst seed=%" PRIu64 " k=%" PRIu64
                " type=%#x words=%u root=%u n=%u set=%d put=%d "
                "persistent=%u: member %u: %s %" PRIx64 "\n",
                part->burst.seed, s->k, (unsigned)coll_types[s->how], s->words, s->root, s->n,
                s->in_set, s->put, part->burst.persistent, r->me, what, got);
    }
}

static void check(burst_part_t *part, const running_t *r) {
    const small_t *s = &r->small;
    for (uint32_t x = 0; r->dst && x < block_words(s, false); x++) {
        if (r->dst[x] != dst_word(part, r, x)) {
            complain(part, r, "a word is", r->dst[x]);
            return;
        }
    }
}

/* --- one operation ---------------------------------------------------------------------------- */

static ucc_coll_args_t args_of(const burst_part_t *part, const running_t *r) {
    const small_t *s = &r->small;
    uint32_t src_words = block_words(s, true), dst_words = block_words(s, false);
    ucc_coll_args_t args = {.coll_type = coll_types[s->how],
                            .op = UCC_OP_SUM,
                            .root = s->in_set ? s->start + (uint64_t)(s->stride * (int64_t)s->root)
                                              : s->root};
    ucc_coll_buffer_info_t src = {r->src, src_words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    ucc_coll_buffer_info_t dst = {r->dst, dst_words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    args.src.info = s->how == BCAST ? dst : src;
    args.dst.info = dst;
    if (s->put || part->burst.persistent) {
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = s->put ? HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY
                            : UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    if (s->in_set) {
        args.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        args.active_set.start = s->start;
        args.active_set.stride = s->stride;
        args.active_set.size = s->n;
    }
    if (s->in_tag) {
        args.mask |= UCC_COLL_ARGS_FIELD_TAG;
        args.tag = (uint16_t)s->tag;
    }
    return args;
}

static void start(burst_part_t *part, running_t *r) {
    const small_t *s = &r->small;
    if (has_src(r)) {
        r->src = must_alloc(block_words(s, true), sizeof(uint64_t));
    }
    if (s->put) {
        r->dst = (uint64_t *)(void *)(part->memory + s->offset);
    } else if (has_dst(r)) {
        r->dst = must_alloc(block_words(s, false), sizeof(uint64_t));
    }
    ucc_coll_args_t args = args_of(part, r);
    if (s->in_tag && s->wide_tag) {
        must(heddle_collective_init_tagged(&args, s->tag << 20, &r->request, part->team),
             "heddle_collective_init_tagged");
    } else {
        must(ucc_collective_init(&args, &r->request, part->team), "ucc_collective_init");
    }
}

static void post(burst_part_t *part, running_t *r) {
    fill(part, r);
    r->busy = true;
    part->posted++;
    must(ucc_collective_post(r->request), "ucc_collective_post");
}

static void release(running_t *r) {
    must(ucc_collective_finalize(r->request), "ucc_collective_finalize");
    free(r->src);
    free(r->small.put ? NULL : r->dst);
    *r = (running_t){.busy = false};
}

static void finish(burst_part_t *part, running_t *r, ucc_status_t status) {
    if (status == UCC_OK) {
        check(part, r);
    } else {
        complain(part, r, "status", (uint64_t)(int64_t)status);
    }
    part->counted += r->me == 0;
    r->busy = false;
    if (!part->burst.persistent) {
        release(r);
    }
}

/* --- the sequence ----------------------------------------------------------------------------- */

burst_part_t *burst_begin(const burst_t *burst, ucc_team_h team, ucc_context_h context, uint32_t me,
                          void *memory, uint64_t random) {
    burst_part_t *part = must_alloc(1, sizeof(*part));
    *part = (burst_part_t){.burst = *burst,
                           .team = team,
                           .context = context,
                           .me = me,
                           .memory = memory,
                           .random = random};
    part->window = 1 + (uint32_t)random_below(&part->random, WINDOW);
    for (uint32_t i = 0; i < burst->persistent; i++) {
        running_t *r = &part->running[i];
        r->small = draw(part, i);
        if (is_member(&r->small, me, &r->me)) {
            start(part, r);
        }
    }
    return part;
}

/* Where operation `next` may run now, or NULL. */
static running_t *place_for_next(burst_part_t *part) {
    if (part->burst.persistent) {
        running_t *r = &part->running[part->next % part->burst.persistent];
        return r->busy ? NULL : r;
    }
    for (uint32_t i = 0; i < part->window; i++) {
        if (!part->running[i].busy) {
            return &part->running[i];
        }
    }
    return NULL;
}

static bool post_next(burst_part_t *part) {
    running_t *r = part->next < part->burst.length ? place_for_next(part) : NULL;
    if (!r) {
        return false;
    }
    if (part->burst.persistent) {
        r->small.k = part->next++;
        if (r->request) {
            post(part, r);
        }
        return true;
    }
    small_t s = draw(part, part->next++);
    uint32_t me;
    if (is_member(&s, part->me, &me)) {
        *r = (running_t){.small = s, .me = me};
        start(part, r);
        post(part, r);
    }
    return true;
}

static bool ended(burst_part_t *part, running_t *r) {
    ucc_status_t status = ucc_collective_test(r->request);
    if (status == UCC_INPROGRESS && random_below(&part->random, 1000) == 0) {
        status = heddle_wait(r->request, 1e-6 * (double)random_below(&part->random, 100));
    }
    if (status == UCC_INPROGRESS) {
        return false;
    }
    finish(part, r, status);
    return true;
}

bool burst_step(burst_part_t *part) {
    bool moves = true, busy = true;
    for (uint32_t round = 0; moves && round < ROUNDS; round++) {
        moves = busy = false;
        while (post_next(part)) {
        }
        must(ucc_context_progress(part->context), "ucc_context_progress");
        for (uint32_t i = 0; i < WINDOW; i++) {
            running_t *r = &part->running[i];
            moves = (r->busy && ended(part, r)) || moves;
            busy = r->busy || busy;
        }
    }
    return !busy && part->next == part->burst.length;
}

uint64_t burst_posted(const burst_part_t *part) {
    return part->posted;
}

uint64_t burst_end(burst_part_t *part, uint64_t *wrong) {
    for (uint32_t i = 0; i < part->burst.persistent; i++) {
        if (part->running[i].request) {
            release(&part->running[i]);
        }
    }
    uint64_t counted = part->counted;
    *wrong += part->wrong;
    free(part);
    return counted;
}
