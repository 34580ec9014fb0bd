/* far.c: the DIRECT regime among members whose memory is not mapped alike: members of one process
 * reach each other's buffers (they are NEAR), and nobody else does.
 *
 * What crosses is read by the kernel (pull.c), where that is worth it, or goes through WINDOWS,
 * which all processes have mapped: pieces of a few KiB, so that what one core has written another
 * one finds in a cache. Windows stand in rings, of which each has
 * one writer and is filled in an order that its readers know; whose turn it is says a count of
 * fills and one of emptyings per window. There are three kinds:
 *
 *     in    one for each member: pieces of its operand, for who reduces them
 *     out   one for each process: pieces of what is the same for all others
 *     pair  one for each ordered pair of processes: pieces of what one member has for one other
 *
 * Where data are PULLED, a ring's first window tells where they are, and units of DRAIN read them
 * there. Nothing is fed then, but where a member is near. Data are pulled that others have for one,
 * or for all, but for those that are swapped in place: reductions go through windows, where many
 * operands are read at once.
 *
 * Where one process has data for one other, both ends copy (ends.c): the reader tells in the ring's
 * second window where it wants them, and the source writes units of PUSH there. A unit of DRAIN or
 * PUSH is then whichever part is the next, or none; the reader's last one waits for the source's.
 *
 * The work of a process is three slices of units, which its own members claim as in engine.c, in
 * the slice's order, as soon as the next unit is ready (its windows are filled, or empty):
 *
 *     by rounds   (bcast, allgather(v); reductions; scans) FEED fills `in` windows; EXECUTE makes
 *                 one piece of the result, out of near operands and `in` windows, writes it to near
 *                 buffers and to an `out` window; DRAIN copies from others' `out` windows
 *     by pairs    (alltoall(v), gather(v), scatter(v)) FEED fills windows of pairs; DRAIN empties
 *                 those of others; NEAR copies, or swaps, where both members are near
 *
 * On the path MIXED, lanes say whose data go this way: those of DIRECT ones; whoever works here has
 * seen all lanes, so all have the same parts in their rings. A source of a gatherv whose lane has
 * its data takes no part, nor does a process that has no other members.
 *
 * Rounds: the pieces are counted through rounds of positions. A position has one executor, a
 * process; for windowed types there is one position for each process, or one for all, of the
 * root's; else one for each member's block, whose process executes it. So where a piece stands in
 * which ring follows from its number. Reductions apply the operation to all operands at once, in
 * the canonical order: the same bits wherever members live.
 *
 * No deadlock: a drain waits for nothing but its window's filling; who executes waits for that, and
 * for an `out` window to be drained; who feeds waits for `in` windows to be used. So take the unit
 * that is the least in the order of rounds among all that are not done: it is ready. In place, a
 * pair's part is drained only when its own counterpart has been fed; both directions of a pair of
 * processes have their parts in the same order, so the least part is always fed.
 *
 * The exchange is over when all slices of all processes are finished: the last one of them writes
 * the end line, as in trees. Nobody but members of a process ever touches that process's buffers,
 * unless the kernel reads them: so cancelling is a matter of its own slices alone, whoever else has
 * died; but where both ends copy, a reader waits until a source that lives has written its part.
 * As in engine.c, a near member's call and buffers are read after a claim, and by who prepares,
 * which pins the exchange, too: before that, no slice of the process can be finished.
 *
 * A SET of windows belongs to one exchange at a time. Whoever finds all arrived takes a free one
 * for the exchange (exchange->far); the last to finish a slice gives it back. There are as many as
 * exchanges are under way at once, up to 64: beyond, one waits for another one to end.
 */
#include "shm/claim.h"
#include "shm/far.h"
#include "shm/near.h"
#include "shm/phases.h"
#include "shm/reach.h"

#include "core/copy.h"
#include "threads/callback.h"
#include "threads/trace.h"

enum {
    CHUNKS_PER_STEP = 64,
    CHUNKS_PER_RING = 16 /* see work */
};

/* The kinds of slices. EXECUTE of pairs is NEAR. */
enum { FEED = 0, EXECUTE, DRAIN, PUSH };

/* --- what crosses ----------------------------------------------------------------------------- */

static const hd_coll_t *coll_of(const hd_op_t *op) {
    return &hd_coll[op->call.type];
}

static bool by_pairs(const hd_op_t *op) {
    return hd_far_is_by_pairs(coll_of(op));
}

/* By rounds: a piece of one position. */
typedef struct piece {
    uint32_t round, position;
    size_t at, bytes; /* in the block, or in all of it where there are none */
} piece_t;

/* By rounds: from one member to all, each of whom has a place for each member's block. */
static bool gathers(const hd_op_t *op) {
    return !coll_of(op)->reducing && !coll_of(op)->bcast;
}

/* Bytes of the block of a position, as this member's call has it. */
static size_t block_of(const hd_op_t *op, uint32_t position) {
    return coll_of(op)->vector ? hd_vector_count(&op->call.receive, position) * op->call.element
                               : op->call.bytes;
}

/* One position for each process, and the data in one piece; else one for each member's block. */
static bool is_windowed(const hd_op_t *op) {
    return op->plan.row->windowed;
}

static piece_t piece_of(const hd_op_t *op, const hd_far_t *far, uint32_t round, uint32_t position) {
    size_t window = far->piece;
    size_t number = is_windowed(op) ? (size_t)round * far->positions + position : round;
    size_t block = is_windowed(op) ? op->call.bytes : block_of(op, position);
    piece_t p = {round, position, number * window, 0};
    if (p.at < block) {
        p.bytes = block - p.at < window ? block - p.at : window;
    }
    return p;
}

static uint32_t pieces(size_t bytes, size_t piece) {
    return (uint32_t)((bytes + piece - 1) / piece);
}

/* Does all that crosses come from the root, or go there? */
static bool has_root(const hd_op_t *op) {
    return coll_of(op)->bcast || coll_of(op)->flow == HD_FROM_ROOT ||
           coll_of(op)->flow == HD_TO_ROOT;
}

/* Whose the result of a position's pieces is. */
typedef enum audience { TO_ALL, TO_ROOT, TO_OWNER } audience_t;

static audience_t audience_of(const hd_op_t *op) {
    switch (op->call.type) {
    case HD_REDUCE:
        return TO_ROOT;
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return TO_OWNER;
    default:
        return TO_ALL;
    }
}

/* Does a position's piece go to this near member? */
static bool receives(const hd_op_t *op, uint32_t position, uint32_t m) {
    switch (audience_of(op)) {
    case TO_ROOT:
        return m == op->call.root;
    case TO_OWNER:
        return m == position;
    case TO_ALL:
        break;
    }
    return op->call.type != HD_EXSCAN || m > 0;
}

/* Processes that read the `out` windows of this executor. */
static uint32_t readers_of(const hd_op_t *op, const hd_far_t *far, uint32_t executor) {
    switch (audience_of(op)) {
    case TO_ROOT:
        return far->process[op->call.root] != executor;
    case TO_OWNER:
        return 0;
    case TO_ALL:
        break;
    }
    return far->processes - 1;
}

/* Does this process read others' `out` windows? */
static bool drains(const hd_op_t *op, const hd_far_t *far) {
    audience_t audience = audience_of(op);
    return audience == TO_ALL || (audience == TO_ROOT && far->process[op->call.root] == far->mine);
}

/* Where member m, a near one, wants a piece; of what is gathered, in its place for that block. */
static uint8_t *wanted_at(const hd_op_t *op, const hd_far_t *far, piece_t p, uint32_t m) {
    void *at = gathers(op) ? hd_work_taken(&far->work, m, p.position).at : far->work.dst[m];
    return hd_at(at, p.at);
}

/* --- preparing -------------------------------------------------------------------------------- */

/* Do its own data go this way? On the path MIXED, its lane may have taken them along. */
static bool is_direct(const hd_op_t *op, uint32_t m) {
    return hd_lane_regime(hd_board_lane(op->place.board, m, op->place.k)) == HD_REGIME_DIRECT;
}

/* A source of a gatherv whose lane has its data is done. */
static bool takes_part(const hd_op_t *op, const hd_far_t *far, uint32_t m) {
    return far->direct[m] || coll_of(op)->flow != HD_TO_ROOT || m == op->call.root;
}

/* Which member lives where, of those who take part. */
static void find_processes(const hd_op_t *op, hd_far_t *far) {
    far->processes = far->near = 0;
    for (uint32_t i = 0; i < far->n; i++) {
        far->direct[i] = is_direct(op, i);
        far->process[i] = HD_FAR_NONE;
        if (!takes_part(op, far, i)) {
            continue;
        }
        uint32_t number = far->number[i] = hd_op_member(op, i);
        uint32_t mapping = op->group->home_of[number], p = 0;
        while (p < far->processes && far->mapping[p] != mapping) {
            p++;
        }
        far->mapping[p] = mapping;
        far->processes += p == far->processes;
        far->process[i] = p;
    }
    far->mine = far->process[op->place.me];
    for (uint32_t i = 0; i < far->n; i++) {
        if (far->process[i] == far->mine) {
            far->member[far->near++] = i;
        }
    }
}

/* Does the root's process make all that there is? Of few processes it reduces alone: a result that
 * another one makes takes two copies more. */
static bool by_root(const hd_op_t *op, const hd_far_t *far) {
    enum { FEW = 4 };
    return coll_of(op)->bcast || (op->call.type == HD_REDUCE && far->processes <= FEW);
}

static uint32_t executor_of(const hd_op_t *op, const hd_far_t *far, uint32_t position) {
    return by_root(op, far)  ? far->process[op->call.root]
           : is_windowed(op) ? position
                             : far->process[position];
}

/* Do all processes read others' buffers? */
static bool all_read(const hd_op_t *op, const hd_far_t *far) {
    bool all = true;
    for (uint32_t p = 0; p < far->processes; p++) {
        all &= hd_pull_reads(op->group, far->mapping[p]);
    }
    return all;
}

/* Is a block so large that the member which receives it has more than the kernel is good at? */
static bool is_past_pulling(const hd_op_t *op, const hd_far_t *far, size_t block) {
    size_t blocks = coll_of(op)->bcast || coll_of(op)->flow == HD_FROM_ROOT ? 1 : far->n;
    return block >= op->group->pull_end / blocks;
}

/* Bytes that one unit of this process pulls: each of its members has some of them. */
static size_t pull_piece(const hd_far_t *far, size_t block) {
    size_t share = (block / far->near + HD_FAR_LEAST - 1) / HD_FAR_LEAST * HD_FAR_LEAST;
    return share < HD_FAR_LEAST ? HD_FAR_LEAST : share < HD_FAR_PULL ? share : HD_FAR_PULL;
}

/* Data are pulled, of blocks of so many bytes: do both ends copy? Both find the same. */
static void find_ends(const hd_op_t *op, hd_far_t *far, size_t block) {
    enum { EIGHT = 8 };
    uint32_t root = has_root(op) ? far->process[op->call.root] : far->mine, source;
    far->is_source = (root == far->mine) == (coll_of(op)->flow != HD_TO_ROOT);
    source = far->mapping[far->is_source ? far->mine : !far->mine];
    far->shared = far->processes == 2 && has_root(op) && hd_pull_writes(op->group, source);
    size_t share = block / EIGHT / HD_FAR_SHARED * HD_FAR_SHARED;
    share = share < HD_FAR_SHARED ? HD_FAR_SHARED : share < HD_FAR_PULL ? share : HD_FAR_PULL;
    far->piece = far->shared ? share : far->piece;
}

static void find_positions(const hd_op_t *op, hd_far_t *far) {
    size_t most = 0;
    far->positions = by_root(op, far) ? 1 : is_windowed(op) ? far->processes : far->n;
    far->n_own = far->n_other = 0;
    for (uint32_t p = 0; p < far->processes; p++) {
        far->share[p] = 0;
    }
    for (uint32_t i = 0; i < far->positions; i++) {
        uint32_t executor = far->executor[i] = executor_of(op, far, i);
        far->rank[i] = far->share[executor]++;
        if (executor == far->mine) {
            far->own[far->n_own++] = i;
        } else {
            far->other[far->n_other++] = i;
        }
        size_t block = is_windowed(op) ? 0 : block_of(op, i);
        most = block > most ? block : most;
    }
    most = coll_of(op)->bcast ? op->call.bytes : most;
    /* several at once that read from one hinder each other in the kernel */
    far->pulls = !coll_of(op)->reducing && far->processes == 2 && most >= op->group->pull_min &&
                 !is_past_pulling(op, far, most) && far->positions <= HD_FAR_SOURCES &&
                 all_read(op, far);
    far->piece = far->pulls ? pull_piece(far, most) : op->plan.window;
    far->shared = false;
    if (far->pulls && coll_of(op)->bcast) {
        bool is_root = far->process[op->call.root] == far->mine;
        if ((is_root ? far->n - far->near : far->near) == 1) { /* who reads has no copies to make */
            find_ends(op, far, most);
        }
    }
    uint32_t all = pieces(is_windowed(op) ? op->call.bytes : most, far->piece);
    far->rounds = is_windowed(op) ? (all + far->positions - 1) / far->positions : all;
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* Does member s have anything for member d? */
static bool gives(const hd_op_t *op, const hd_far_t *far, uint32_t s, uint32_t d) {
    if (!far->direct[s]) {
        return false;
    }
    switch ((hd_flow_t)coll_of(op)->flow) {
    case HD_FROM_ROOT:
        return s == op->call.root;
    case HD_TO_ROOT:
        return d == op->call.root;
    case HD_AMONG_ALL:
        break;
    }
    return true;
}

/* Each pair has a part, if an empty one: it tells how many bytes it has. */
static uint32_t parts_of(size_t bytes, size_t piece) {
    uint32_t parts = pieces(bytes, piece);
    return parts ? parts : 1;
}

/* One part of what member s gives member d, of which one is near. */
typedef struct part {
    uint32_t s, d, number;
} part_t;

/* What the near member of a pair gives, if `fed`, or takes. */
static hd_data_t near_data(const hd_far_t *far, uint32_t s, uint32_t d, bool fed) {
    return fed ? hd_work_given(&far->work, s, d) : hd_work_taken(&far->work, d, s);
}

/* Bytes of a part between a near member and one of process q. */
static size_t part_size(const hd_op_t *op, const hd_far_t *far, uint32_t q, bool fed) {
    bool pulled = q != far->mine && (fed ? far->pulled[q] : far->pulling[q]);
    return pulled ? far->piece : op->plan.window;
}

/* Is a block of so many bytes, of one member for one other? */
static bool is_worth_pulling(const hd_op_t *op, const hd_far_t *far, size_t block) {
    size_t least = op->group->pull_min;
    if (is_past_pulling(op, far, block)) {
        return false;
    }
    if (far->processes == 2) { /* they have the kernel to themselves */
        return block >= least / 2;
    }
    /* one that reads from many is slower at that than they are at feeding it */
    return block / (coll_of(op)->flow == HD_TO_ROOT ? 8 : 1) >= least;
}

/* Is what members of process q have for mine, or mine for its, read by the kernel? Both processes
 * find the same: of the pairs that have anything, one has as much as that takes (*largest). */
static bool is_pulled(const hd_op_t *op, const hd_far_t *far, uint32_t q, bool fed,
                      size_t *largest) {
    bool swaps = coll_of(op)->pairwise && op->call.in_place;
    uint32_t pairs = 0;
    size_t most = 0;
    for (uint32_t i = 0; !swaps && i < far->near; i++) {
        for (uint32_t j = 0; j < far->n; j++) {
            uint32_t me = far->member[i], s = fed ? me : j, d = fed ? j : me;
            if (far->process[j] == q && gives(op, far, s, d)) {
                size_t bytes = near_data(far, s, d, fed).bytes;
                most = bytes > most ? bytes : most;
                pairs++;
            }
        }
    }
    *largest = most;
    return pairs && pairs <= HD_FAR_SOURCES && is_worth_pulling(op, far, most) &&
           hd_pull_reads(op->group, far->mapping[fed ? q : far->mine]);
}

static void find_pulled(const hd_op_t *op, hd_far_t *far) {
    size_t given = 0, taken = 0; /* by two processes, of which one has data for the other */
    far->piece = HD_FAR_PULL;
    far->shared = false;
    for (uint32_t q = 0; q < far->processes; q++) {
        bool other = q != far->mine;
        far->pulled[q] = other && is_pulled(op, far, q, true, &given);
        far->pulling[q] = other && is_pulled(op, far, q, false, &taken);
        if (far->pulled[q] || far->pulling[q]) {
            find_ends(op, far, far->pulled[q] ? given : taken);
        }
    }
}

/* Appends a pair to the last ring that is listed. */
static void list_pair(const hd_op_t *op, hd_far_t *far, hd_far_ring_t *ring, uint32_t s, uint32_t d,
                      bool fed) {
    if (gives(op, far, s, d)) {
        uint32_t other = fed ? far->process[d] : far->process[s];
        far->pairs[ring->first + ring->pairs++] = (hd_far_pair_t){s, d, ring->parts};
        ring->parts += parts_of(near_data(far, s, d, fed).bytes, part_size(op, far, other, fed));
    }
}

/* Pairs of a near member and one of process q, in the order that both directions have: by the
 * member of the lesser process, then by the other. */
static void list_ring(const hd_op_t *op, hd_far_t *far, hd_far_ring_t *ring, uint32_t q, bool fed) {
    bool by_mine = far->mine < q;
    for (uint32_t x = 0; x < (by_mine ? far->near : far->n); x++) {
        for (uint32_t y = 0; y < (by_mine ? far->n : far->near); y++) {
            uint32_t mine = far->member[by_mine ? x : y], theirs = by_mine ? y : x;
            if (far->process[theirs] == q) {
                list_pair(op, far, ring, fed ? mine : theirs, fed ? theirs : mine, fed);
            }
        }
    }
}

/* Pairs of near members, each once; in place, a part swaps. */
static void list_near(const hd_op_t *op, hd_far_t *far, hd_far_ring_t *ring) {
    bool swaps = coll_of(op)->pairwise && op->call.in_place;
    for (uint32_t i = 0; i < far->near; i++) {
        for (uint32_t j = swaps ? i + 1 : 0; j < far->near; j++) {
            list_pair(op, far, ring, far->member[i], far->member[j], true);
        }
    }
}

/* Makes room for the lists. False: no memory. */
static bool make_lists(hd_far_t *far) {
    size_t pairs = HD_FAR_KINDS * (size_t)far->n * far->near, rings = HD_FAR_KINDS * (size_t)far->n;
    if (far->near <= far->room) {
        return true;
    }
    hd_free(far->pairs); /* of an active set, other members may be near each time */
    far->pairs = hd_alloc(HD_LINE, pairs * sizeof(*far->pairs) + rings * sizeof(hd_far_ring_t));
    far->room = far->pairs ? far->near : 0;
    for (uint32_t kind = 0; far->pairs && kind < HD_FAR_KINDS; kind++) {
        far->ring[kind] = (hd_far_ring_t *)(void *)(far->pairs + pairs) + kind * (size_t)far->n;
    }
    return far->pairs;
}

/* Lists all pairs with a near member and counts their parts, so that nobody has to look at calls
 * before a claim. False: no memory. */
static bool list_pairs(const hd_op_t *op, hd_far_t *far) {
    uint32_t first = 0;
    if (!make_lists(far)) {
        return false;
    }
    for (uint32_t kind = 0; kind < HD_FAR_KINDS; kind++) {
        for (uint32_t q = 0; q < far->processes; q++) {
            hd_far_ring_t *ring = &far->ring[kind][q];
            *ring = (hd_far_ring_t){.first = first};
            if (kind == EXECUTE && q == far->mine) {
                list_near(op, far, ring);
            } else if ((kind == FEED || kind == DRAIN) && q != far->mine) {
                list_ring(op, far, ring, q, kind == FEED);
            }
            first += ring->pairs;
        }
    }
    return true;
}

/* The part of a ring that has this number; *pair: the number there of its pair. s is HD_FAR_NONE:
 * there is none. */
static part_t find_part(const hd_far_t *far, uint32_t kind, uint32_t q, uint32_t number,
                        uint32_t *pair) {
    const hd_far_ring_t *ring = &far->ring[kind][q];
    const hd_far_pair_t *list = far->pairs + ring->first;
    uint32_t low = 0, high = ring->pairs;
    if (number >= ring->parts) {
        return (part_t){.s = HD_FAR_NONE};
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *pair = low;
    return (part_t){list[low].s, list[low].d, number - list[low].first};
}

/* Units of FEED and DRAIN take the other processes in turn: as many rounds as the longest ring. */
static uint32_t pair_units(const hd_far_t *far, bool fed) {
    uint32_t most = 0;
    for (uint32_t q = 0; q < far->processes; q++) {
        uint32_t parts = far->ring[fed ? FEED : DRAIN][q].parts;
        parts = fed && far->pulled[q] ? 1 : parts;
        most = parts > most ? parts : most;
    }
    return most * (far->processes - 1);
}

/* --- units by pairs --------------------------------------------------------------------------- */

/* The part that a unit of FEED or DRAIN is: of the ring to or from process *q, which has it for its
 * use of this number. False: that ring has no more; where data are pulled, one window says all. */
static bool part_of_unit(const hd_far_t *far, uint32_t unit, bool fed, part_t *part, uint32_t *q,
                         uint32_t *use) {
    uint32_t others = far->processes - 1, pair;
    *use = unit / others;
    *q = (far->mine + 1 + unit % others) % far->processes;
    *part = find_part(far, fed ? FEED : DRAIN, *q, *use, &pair);
    return part->s != HD_FAR_NONE && !(fed && far->pulled[*q] && *use > 0);
}

/* Which bytes of the pair's data, where a part has so many. */
static size_t part_bytes(size_t window, const part_t *part, size_t all, size_t *at) {
    *at = part->number * window;
    size_t left = *at < all ? all - *at : 0;
    return left < window ? left : window;
}

static bool pair_is_ready(const hd_op_t *op, const hd_far_t *far, uint32_t kind, uint32_t unit) {
    part_t part;
    uint32_t q, use;
    if (kind == EXECUTE || !part_of_unit(far, unit, kind == FEED, &part, &q, &use)) {
        return true;
    }
    if (kind == FEED) {
        return hd_far_is_empty(far, hd_far_pair_window(op, far, far->mine, q, use), use, 1);
    }
    bool swaps = coll_of(op)->pairwise && op->call.in_place;
    use = far->pulling[q] ? 0 : use;
    return hd_far_is_filled(far, hd_far_pair_window(op, far, q, far->mine, use), use) &&
           (!swaps || hd_far_is_filled(far, hd_far_pair_window(op, far, far->mine, q, use), use));
}

/* Tells process q where everything lies that mine have for its members, in the order of its
 * ring. */
static void tell_pairs(const hd_far_t *far, uint32_t q, hd_window_place_t to) {
    hd_far_source_t *source = (hd_far_source_t *)(void *)to.data;
    const hd_far_ring_t *ring = &far->ring[FEED][q];
    for (uint32_t i = 0; i < ring->pairs; i++) {
        const hd_far_pair_t *pair = &far->pairs[ring->first + i];
        hd_data_t from = near_data(far, pair->s, pair->d, true);
        source[i] = (hd_far_source_t){(uintptr_t)from.at, from.bytes};
    }
    to.word->tells = true;
    hd_far_fill(far, to, 0);
}

/* What process q's window must be: one that tells where data are, or has some. */
static ucc_status_t check_window(const hd_op_t *op, hd_window_place_t window, bool tells) {
    if (window.word->tells == tells) {
        return UCC_OK;
    }
    hd_error("%s: two endpoints expect blocks of different sizes of each other",
             hd_op_type_name(op));
    return UCC_ERR_INVALID_PARAM;
}

static ucc_status_t pull_pair(const hd_op_t *op, const hd_far_t *far, uint32_t q, uint32_t use) {
    hd_window_place_t from = hd_far_pair_window(op, far, q, far->mine, 0);
    const hd_far_source_t *source = (const hd_far_source_t *)(const void *)from.data;
    uint32_t pair = 0;
    part_t part = find_part(far, DRAIN, q, use, &pair);
    hd_data_t to = near_data(far, part.s, part.d, false);
    size_t at, bytes = part_bytes(far->piece, &part, to.bytes, &at);
    ucc_status_t status = check_window(op, from, true);
    if (status != UCC_OK) {
        return status;
    }
    if (source[pair].bytes != to.bytes) {
        return hd_op_say_sizes(op, part.s, part.d, source[pair].bytes, to.bytes);
    }
    return hd_pull(op, far->mapping[q], to.at + at, source[pair].at + at, bytes);
}

static ucc_status_t feed_pair(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    part_t part;
    uint32_t q, use;
    size_t at;
    if (!part_of_unit(far, unit, true, &part, &q, &use)) {
        return UCC_OK;
    }
    hd_window_place_t to = hd_far_pair_window(op, far, far->mine, q, use);
    if (far->pulled[q]) {
        tell_pairs(far, q, to);
        return UCC_OK;
    }
    hd_data_t from = near_data(far, part.s, part.d, true);
    size_t bytes = part_bytes(op->plan.window, &part, from.bytes, &at);
    to.word->tells = false;
    to.word->block = from.bytes;
    if (bytes) {
        hd_copy(to.data, from.at + at, bytes, HD_STORES_PLAIN);
    }
    hd_far_fill(far, to, use);
    return UCC_OK;
}

static ucc_status_t drain_pair(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    part_t part;
    uint32_t q, use;
    size_t at;
    if (!part_of_unit(far, unit, false, &part, &q, &use)) {
        return UCC_OK;
    }
    if (far->pulling[q]) {
        return pull_pair(op, far, q, use);
    }
    hd_window_place_t from = hd_far_pair_window(op, far, q, far->mine, use);
    hd_data_t to = near_data(far, part.s, part.d, false);
    size_t bytes = part_bytes(op->plan.window, &part, to.bytes, &at);
    ucc_status_t status = check_window(op, from, false);
    if (status != UCC_OK) {
        return status;
    }
    if (from.word->block != to.bytes) {
        return hd_op_say_sizes(op, part.s, part.d, from.word->block, to.bytes);
    }
    if (bytes) {
        hd_copy(to.at + at, from.data, bytes, op->plan.stores);
    }
    hd_far_empty(far, from);
    return UCC_OK;
}

static ucc_status_t copy_near(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    uint32_t pair = 0;
    part_t part = find_part(far, EXECUTE, far->mine, unit, &pair);
    hd_data_t from = near_data(far, part.s, part.d, true);
    hd_data_t to = near_data(far, part.s, part.d, false);
    size_t at, bytes = part_bytes(op->plan.window, &part, from.bytes, &at);
    bool own = part.s == part.d, rooted = coll_of(op)->flow != HD_AMONG_ALL;
    if (own && rooted && far->work.call[part.s]->in_place) {
        return UCC_OK; /* it lies where it belongs */
    }
    if (to.bytes != from.bytes) {
        return hd_op_say_sizes(op, part.s, part.d, from.bytes, to.bytes);
    }
    if (!bytes || to.at == from.at) {
        return UCC_OK;
    }
    if (coll_of(op)->pairwise && op->call.in_place) {
        hd_work_swap(to.at + at, from.at + at, bytes);
    } else {
        hd_copy(to.at + at, from.at + at, bytes, op->plan.stores);
    }
    return UCC_OK;
}

/* --- units by rounds -------------------------------------------------------------------------- */

/* How many pieces this one's operands, of a member of process p, come after in their ring. */
static uint32_t in_use_of(const hd_far_t *far, uint32_t p, uint32_t round, uint32_t position) {
    uint32_t executed = 0; /* positions before this one that p executes itself */
    for (uint32_t i = 0; i < position; i++) {
        executed += far->executor[i] == p;
    }
    return round * (far->positions - far->share[p]) + position - executed;
}

static uint32_t out_use_of(const hd_far_t *far, uint32_t round, uint32_t position) {
    return round * far->share[far->executor[position]] + far->rank[position];
}

static bool execution_is_ready(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    uint32_t round = unit / far->n_own, position = far->own[unit % far->n_own];
    uint32_t readers = readers_of(op, far, far->mine);
    for (uint32_t m = 0; coll_of(op)->reducing && m < far->n; m++) {
        if (far->process[m] != far->mine) {
            uint32_t use = in_use_of(far, far->process[m], round, position);
            if (!hd_far_is_filled(far, hd_far_in_window(far, m, use), use)) {
                return false;
            }
        }
    }
    return !readers || far->pulls ||
           hd_far_is_empty(far, hd_far_out_window(op, far, far->mine, unit), unit, readers);
}

static bool round_is_ready(const hd_op_t *op, const hd_far_t *far, uint32_t kind, uint32_t unit) {
    if (kind == FEED) {
        uint32_t use = unit / far->near;
        return hd_far_is_empty(far, hd_far_in_window(far, far->member[unit % far->near], use), use,
                               1);
    }
    if (kind == EXECUTE) {
        return execution_is_ready(op, far, unit);
    }
    uint32_t position = far->other[unit % far->n_other];
    uint32_t use = far->pulls ? 0 : out_use_of(far, unit / far->n_other, position);
    return hd_far_is_filled(far, hd_far_out_window(op, far, far->executor[position], use), use);
}

/* Where a near member's operand of a piece begins. */
static const uint8_t *operand_at(const hd_op_t *op, const hd_far_t *far, piece_t p, uint32_t m) {
    const hd_vector_t *blocks = &op->call.receive;
    size_t before = is_windowed(op) ? 0
                    : coll_of(op)->vector
                        ? hd_vector_displacement(blocks, p.position) * op->call.element
                        : p.position * op->call.bytes;
    return hd_at(far->work.src[m], before + p.at);
}

static ucc_status_t feed(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    uint32_t use = unit / far->near, m = far->member[unit % far->near];
    piece_t p = piece_of(op, far, use / far->n_other, far->other[use % far->n_other]);
    hd_window_place_t to = hd_far_in_window(far, m, use);
    if (p.bytes) {
        hd_copy(to.data, operand_at(op, far, p, m), p.bytes, HD_STORES_PLAIN);
    }
    hd_far_fill(far, to, use);
    return UCC_OK;
}

/* The window that has a far member's operand of a piece. */
static hd_window_place_t fed_by(const hd_far_t *far, uint32_t m, uint32_t round,
                                uint32_t position) {
    return hd_far_in_window(far, m, in_use_of(far, far->process[m], round, position));
}

/* Operands of a piece: those of near members, and `in` windows. */
static const void **operands(const hd_op_t *op, const hd_far_t *far, piece_t p) {
    const void **source = (const void **)far->scratch[op->place.me];
    for (uint32_t m = 0; m < far->n; m++) {
        source[m] = far->process[m] == far->mine ? operand_at(op, far, p, m)
                                                 : fed_by(far, m, p.round, p.position).data;
    }
    return source;
}

/* Everybody's prefix of a piece: to near members, and, member by member, to the `out` window. */
static ucc_status_t execute_scan(const hd_op_t *op, const hd_far_t *far, piece_t p,
                                 hd_window_place_t out) {
    void **target = far->scratch[op->place.me] + far->n;
    for (uint32_t m = 0; m < far->n; m++) {
        target[m] = far->process[m] == far->mine ? hd_at(far->work.dst[m], p.at)
                                                 : out.data + m * op->plan.window;
    }
    hd_work_t work = {.src = operands(op, far, p), .dst = target};
    return hd_work_scan(op, &work, p.bytes);
}

/* Reduces where it is read next: in the `out` window, or, if nobody else wants it, at its first
 * near place. */
static ucc_status_t execute_reduction(const hd_op_t *op, const hd_far_t *far, piece_t p,
                                      hd_window_place_t out, bool goes_out) {
    const void **source = operands(op, far, p);
    size_t count = p.bytes / op->call.element;
    void **target = far->scratch[op->place.me] + far->n;
    uint32_t near = 0;
    for (uint32_t i = 0; i < far->near; i++) {
        uint32_t m = far->member[i];
        if (receives(op, p.position, m)) {
            target[near++] = wanted_at(op, far, p, m);
        }
    }
    if (!goes_out) {
        return hd_reduce_tree(&op->call.reducer, far->n, source, 0, near, target, 0, count,
                              op->plan.stores);
    }
    void *window = out.data;
    ucc_status_t status =
        hd_reduce_tree(&op->call.reducer, far->n, source, 0, 1, &window, 0, count, HD_STORES_PLAIN);
    if (status == UCC_OK && near) {
        hd_copy_to_many(near, target, 0, window, p.bytes, op->plan.stores);
    }
    return status;
}

/* Do all near members expect so many bytes in a block that is gathered? */
static ucc_status_t check_block(const hd_op_t *op, const hd_far_t *far, uint32_t position,
                                size_t block) {
    for (uint32_t i = 0; i < far->near; i++) {
        size_t expected = hd_work_taken(&far->work, far->member[i], position).bytes;
        if (expected != block) {
            return hd_op_say_sizes(op, position, far->member[i], block, expected);
        }
    }
    return UCC_OK;
}

/* Whose the data of a position are that are not reduced. */
static uint32_t source_of(const hd_op_t *op, uint32_t position) {
    return gathers(op) ? position : op->call.root;
}

/* Tells all others where the blocks lie that near members have for all, in the order of ranks. */
static void tell_all(const hd_op_t *op, const hd_far_t *far) {
    hd_window_place_t to = hd_far_out_window(op, far, far->mine, 0);
    hd_far_source_t *source = (hd_far_source_t *)(void *)to.data;
    for (uint32_t i = 0; i < far->n_own; i++) {
        uint32_t from = source_of(op, far->own[i]);
        source[i] = (hd_far_source_t){(uintptr_t)far->work.src[from], far->work.call[from]->bytes};
    }
    to.word->tells = true;
    hd_far_fill(far, to, 0);
}

/* What one member has for all. */
static ucc_status_t execute_copy(const hd_op_t *op, const hd_far_t *far, piece_t p,
                                 hd_window_place_t out, bool goes_out) {
    uint32_t from = source_of(op, p.position);
    const uint8_t *src = (const uint8_t *)far->work.src[from] + p.at;
    size_t block = far->work.call[from]->bytes;
    ucc_status_t status = gathers(op) ? check_block(op, far, from, block) : UCC_OK;
    for (uint32_t i = 0; status == UCC_OK && p.bytes && i < far->near; i++) {
        uint8_t *dst = wanted_at(op, far, p, far->member[i]);
        if (dst != src) {
            hd_copy(dst, src, p.bytes, op->plan.stores);
        }
    }
    if (status == UCC_OK && goes_out) {
        out.word->tells = false;
        out.word->block = block;
        out.word->rounds = far->rounds;
        if (p.bytes) {
            hd_copy(out.data, src, p.bytes, HD_STORES_PLAIN);
        }
    }
    return status;
}

static ucc_status_t execute(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    uint32_t round = unit / far->n_own, position = far->own[unit % far->n_own];
    piece_t p = piece_of(op, far, round, position);
    bool goes_out = readers_of(op, far, far->mine) > 0 && !far->pulls;
    hd_window_place_t out = {0};
    if (far->pulls && unit == 0) {
        tell_all(op, far);
    }
    if (goes_out) {
        out = hd_far_out_window(op, far, far->mine, unit);
    }
    const hd_coll_t *coll = coll_of(op);
    ucc_status_t status = UCC_OK;
    if (!coll->reducing) {
        status = execute_copy(op, far, p, out, goes_out);
    } else if (coll->prefix) {
        status = p.bytes ? execute_scan(op, far, p, out) : UCC_OK;
    } else {
        status = p.bytes ? execute_reduction(op, far, p, out, goes_out) : UCC_OK;
    }
    for (uint32_t m = 0; coll->reducing && m < far->n; m++) {
        if (far->process[m] != far->mine) {
            hd_far_empty(far, fed_by(far, m, round, position));
        }
    }
    if (goes_out) {
        hd_far_fill(far, out, unit);
    }
    return status;
}

/* Reads it to the first near member that wants it, from where the others have it. */
static ucc_status_t pull_round(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    uint32_t position = far->other[unit % far->n_other], executor = far->executor[position];
    piece_t p = piece_of(op, far, unit / far->n_other, position);
    hd_window_place_t from = hd_far_out_window(op, far, executor, 0);
    ucc_status_t status = check_window(op, from, true);
    if (status != UCC_OK) {
        return status;
    }
    hd_far_source_t source =
        ((const hd_far_source_t *)(const void *)from.data)[far->rank[position]];
    status = gathers(op) ? check_block(op, far, position, source.bytes) : UCC_OK;
    const uint8_t *first = NULL;
    for (uint32_t i = 0; status == UCC_OK && p.bytes && i < far->near; i++) {
        uint8_t *to = wanted_at(op, far, p, far->member[i]);
        if (first) {
            hd_copy(to, first, p.bytes, op->plan.stores);
        } else {
            status = hd_pull(op, far->mapping[executor], to, source.at + p.at, p.bytes);
            first = to;
        }
    }
    return status;
}

static ucc_status_t drain(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    if (far->pulls) {
        return pull_round(op, far, unit);
    }
    uint32_t round = unit / far->n_other, position = far->other[unit % far->n_other];
    uint32_t use = out_use_of(far, round, position);
    const hd_coll_t *coll = coll_of(op);
    piece_t p = piece_of(op, far, round, position);
    hd_window_place_t from = hd_far_out_window(op, far, far->executor[position], use);
    if (gathers(op) && (from.word->tells || from.word->rounds != far->rounds)) {
        hd_error("%s: endpoints of several processes expect blocks of different sizes",
                 hd_op_type_name(op));
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = gathers(op) ? check_block(op, far, position, from.word->block) : UCC_OK;
    if (status != UCC_OK) {
        return status;
    }
    for (uint32_t i = 0; p.bytes && i < far->near; i++) {
        uint32_t m = far->member[i];
        const uint8_t *piece = coll->prefix ? from.data + m * op->plan.window : from.data;
        if (receives(op, position, m)) {
            hd_copy(wanted_at(op, far, p, m), piece, p.bytes, op->plan.stores);
        }
    }
    hd_far_empty(far, from);
    return UCC_OK;
}

/* --- units that both ends take ---------------------------------------------------------------- */

static uint32_t ends_parts(const hd_op_t *op, const hd_far_t *far) {
    return by_pairs(op) ? far->ring[far->is_source ? FEED : DRAIN][!far->mine].parts : far->rounds;
}

/* Where the source tells what it has (0), and the reader where it wants that (1). The first one's
 * word says who has which part. */
static hd_window_place_t ends_window(const hd_op_t *op, const hd_far_t *far, uint32_t use) {
    uint32_t source = far->is_source ? far->mine : !far->mine;
    return by_pairs(op) ? hd_far_pair_window(op, far, source, !source, use)
                        : hd_far_out_window(op, far, source, use);
}

/* Units that are not those of other exchanges. */
static bool is_of_ends(const hd_far_t *far, uint32_t kind) {
    return far->shared && (kind == PUSH || (!far->is_source && kind != EXECUTE));
}

static uint32_t ends_units(const hd_op_t *op, const hd_far_t *far, uint32_t kind) {
    uint32_t parts = ends_parts(op, far);
    return kind == FEED ? 1 : kind == DRAIN ? parts + 1 : far->is_source ? parts : 0;
}

static bool end_is_ready(const hd_op_t *op, const hd_far_t *far, uint32_t kind, uint32_t unit) {
    hd_window_place_t window = ends_window(op, far, 0);
    uint32_t parts = ends_parts(op, far);
    return kind == PUSH                   ? hd_far_is_filled(far, ends_window(op, far, 1), 1)
           : kind == FEED || unit < parts ? hd_far_is_filled(far, window, 0)
                                          : hd_ends_are_done(far, window.word, parts);
}

static hd_data_t target_of(const hd_op_t *op, const hd_far_t *far, uint32_t pair) {
    if (!by_pairs(op)) {
        uint32_t me = far->member[0];
        return (hd_data_t){far->work.dst[me], far->work.call[me]->bytes};
    }
    const hd_far_pair_t *p = &far->pairs[far->ring[DRAIN][!far->mine].first + pair];
    return near_data(far, p->s, p->d, false);
}

/* By who prepares, in the reader. */
static void open_end(const hd_op_t *op, hd_far_t *far) {
    uint32_t pairs = by_pairs(op) ? far->ring[DRAIN][!far->mine].pairs : 1;
    hd_ends_open(far, ends_window(op, far, 0).word);
    far->open = true;
    for (uint32_t i = 0; i < pairs && far->open; i++) {
        hd_data_t target = target_of(op, far, i);
        far->open = hd_pull_is_open(target.at, target.bytes);
    }
}

/* Tells the source where my members want what it has, in the order in which it tells of that. All
 * sizes must be the same at both ends: else parts of one number may not be the same data, and each
 * end may take only such as look right. If one of them can't be written to, the source has nothing
 * to do: the window does not tell, then. */
static ucc_status_t tell_targets(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    hd_window_place_t to = ends_window(op, far, 1), from = ends_window(op, far, 0);
    const hd_far_source_t *source = (const hd_far_source_t *)(const void *)from.data;
    ucc_status_t status = check_window(op, from, true);
    (void)unit;
    if (status != UCC_OK) {
        return status;
    }
    hd_far_source_t *target = (hd_far_source_t *)(void *)to.data;
    uint32_t pairs = by_pairs(op) ? far->ring[DRAIN][!far->mine].pairs : 1;
    for (uint32_t i = 0; i < pairs; i++) {
        hd_data_t data = target_of(op, far, i);
        if (by_pairs(op) && source[i].bytes != data.bytes) {
            const hd_far_pair_t *p = &far->pairs[far->ring[DRAIN][!far->mine].first + i];
            return hd_op_say_sizes(op, p->s, p->d, source[i].bytes, data.bytes);
        }
        target[i] = (hd_far_source_t){(uintptr_t)data.at, data.bytes};
    }
    to.word->tells = far->open;
    hd_far_fill(far, to, 1);
    return UCC_OK;
}

static ucc_status_t drain_end(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    hd_window_t *word = ends_window(op, far, 0).word;
    uint32_t part;
    (void)unit;
    if (!hd_ends_take(far, word, ends_parts(op, far), false, &part)) {
        return UCC_OK;
    }
    return by_pairs(op) ? pull_pair(op, far, !far->mine, part) : pull_round(op, far, part);
}

/* Writes a part to where the reader has told that it wants it. */
static ucc_status_t push_part(const hd_op_t *op, const hd_far_t *far, uint32_t number) {
    const hd_far_source_t *target =
        (const hd_far_source_t *)(const void *)ends_window(op, far, 1).data;
    uint32_t pair = 0, root = op->call.root;
    part_t part = {root, 0, number};
    while (far->process[part.d] == far->mine) { /* of a bcast, for messages: the one who reads */
        part.d++;
    }
    hd_data_t from = {(uint8_t *)(uintptr_t)far->work.src[root], op->call.bytes};
    if (by_pairs(op)) {
        part = find_part(far, FEED, !far->mine, number, &pair);
        from = near_data(far, part.s, part.d, true);
    }
    if (target[pair].bytes != from.bytes) {
        return hd_op_say_sizes(op, part.s, part.d, from.bytes, (size_t)target[pair].bytes);
    }
    size_t at, bytes = part_bytes(far->piece, &part, from.bytes, &at);
    return hd_push(op, far->mapping[!far->mine], target[pair].at + at, from.at + at, bytes);
}

static ucc_status_t push_end(const hd_op_t *op, const hd_far_t *far, uint32_t unit) {
    hd_window_t *word = ends_window(op, far, 0).word;
    ucc_status_t status = UCC_OK;
    uint32_t part;
    (void)unit;
    if (ends_window(op, far, 1).word->tells &&
        hd_ends_take(far, word, ends_parts(op, far), true, &part)) {
        status = push_part(op, far, part);
        hd_ends_wrote(far, word);
    }
    return status;
}

/* --- slices ----------------------------------------------------------------------------------- */

typedef ucc_status_t (*run_fn)(const hd_op_t *op, const hd_far_t *far, uint32_t unit);

static const run_fn by_round[HD_FAR_KINDS] = {feed, execute, drain, NULL};
static const run_fn by_pair[HD_FAR_KINDS] = {feed_pair, copy_near, drain_pair, NULL};
static const run_fn of_ends[HD_FAR_KINDS] = {tell_targets, NULL, drain_end, push_end};

static ucc_status_t run(const hd_op_t *op, const hd_far_t *far, uint32_t kind, uint32_t unit) {
    const run_fn *row = is_of_ends(far, kind) ? of_ends : by_pairs(op) ? by_pair : by_round;
    return row[kind](op, far, unit);
}

static uint64_t count_units(const hd_op_t *op, const hd_far_t *far, uint32_t kind) {
    if (is_of_ends(far, kind) || kind == PUSH) {
        return is_of_ends(far, kind) ? ends_units(op, far, kind) : 0;
    }
    if (by_pairs(op)) {
        return kind == EXECUTE ? far->ring[EXECUTE][far->mine].parts
                               : pair_units(far, kind == FEED);
    }
    switch (kind) {
    case FEED:
        return coll_of(op)->reducing ? (uint64_t)far->rounds * far->n_other * far->near : 0;
    case EXECUTE:
        return (uint64_t)far->rounds * far->n_own;
    default:
        return drains(op, far) ? (uint64_t)far->rounds * far->n_other : 0;
    }
}

/* All have arrived, and this is the first member of its process to find that. UCC_INPROGRESS: no
 * set of windows is free. */
static ucc_status_t prepare_locked(const hd_op_t *op, hd_far_t *far) {
    find_processes(op, far);
    if (far->processes > 1 && !hd_far_take_set(op, far)) {
        return UCC_INPROGRESS;
    }
    if (!by_pairs(op)) {
        find_positions(op, far);
    } else {
        find_pulled(op, far);
    }
    if (by_pairs(op) && !list_pairs(op, far)) {
        hd_error("%s: no memory for the parts of %u endpoints", hd_op_type_name(op), far->n);
        return UCC_ERR_NO_MEMORY;
    }
    far->shared = far->shared && ends_parts(op, far) <= HD_ENDS_MOST;
    if (far->shared && !far->is_source) {
        open_end(op, far);
    }
    for (uint32_t kind = 0; kind < HD_FAR_KINDS; kind++) {
        hd_slice_t *slice = &far->slice[kind];
        uint64_t units = count_units(op, far, kind);
        if (units >= HD_CLAIM_NEXT) {
            hd_error("%s: too much for so small pieces", hd_op_type_name(op));
            return UCC_ERR_NOT_SUPPORTED;
        }
        slice->units = (uint32_t)units;
        /* relaxed, both: published with `prepared` */
        atomic_store_explicit(&slice->finished, hd_generation(op->place.k), memory_order_relaxed);
        atomic_store_explicit(&slice->claim, hd_generation(op->place.k), memory_order_relaxed);
    }
    return UCC_OK;
}

static void slice_is_done(hd_op_t *op, const hd_far_t *far) {
    if (hd_engine_count_slice(op->exchange, HD_FAR_KINDS * far->processes)) {
        if (far->processes > 1) {
            hd_far_give_set(op, far);
        }
        hd_engine_end(op->group, op->exchange, op->place.k);
    }
}

static bool is_prepared(const hd_op_t *op, const hd_far_t *far) {
    /* acquire: pairs with the release below */
    return atomic_load_explicit(&far->prepared, memory_order_acquire) == hd_far_key(op);
}

/* UCC_INPROGRESS: not now. */
static ucc_status_t prepare(hd_op_t *op, hd_far_t *far) {
    uint32_t idle = 0; /* slices without work */
    ucc_status_t status = UCC_INPROGRESS;
    if (is_prepared(op, far)) {
        return UCC_OK;
    }
    hd_lock(&far->lock);
    bool first = !is_prepared(op, far);
    if (first && far->closed != hd_far_key(op)) {
        status = prepare_locked(op, far);
    }
    for (uint32_t kind = 0; status == UCC_OK && kind < HD_FAR_KINDS; kind++) {
        idle += far->slice[kind].units == 0;
    }
    if (status == UCC_OK) {
        /* release: all of it */
        atomic_store_explicit(&far->prepared, hd_far_key(op), memory_order_release);
    }
    hd_unlock(&far->lock);
    while (idle-- > 0) {
        slice_is_done(op, far);
    }
    return first ? status : UCC_OK;
}

static bool is_ready(const hd_op_t *op, const hd_far_t *far, uint32_t kind, uint32_t unit) {
    return is_of_ends(far, kind) ? end_is_ready(op, far, kind, unit)
           : by_pairs(op)        ? pair_is_ready(op, far, kind, unit)
                                 : round_is_ready(op, far, kind, unit);
}

/* The slice's next unit, if it is there and ready. */
static uint32_t claim(const hd_op_t *op, hd_far_t *far, uint32_t kind) {
    hd_slice_t *slice = &far->slice[kind];
    uint64_t gen = hd_generation(op->place.k);
    /* acquire: if we go on to claim, the CAS repeats it */
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_acquire);
    for (;;) {
        uint32_t next = (uint32_t)(word & HD_CLAIM_NEXT);
        if (!hd_is_generation(word, gen) || (word & HD_CLAIM_CLOSED) || next >= slice->units ||
            !is_ready(op, far, kind, next)) {
            return HD_FAR_NONE;
        }
        hd_delay_point();
        /* acq_rel: after this the exchange is pinned, and near members' calls are readable */
        if (atomic_compare_exchange_weak_explicit(&slice->claim, &word, word + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            return next;
        }
    }
}

static void finish(hd_op_t *op, hd_far_t *far, uint32_t kind) {
    hd_slice_t *slice = &far->slice[kind];
    uint32_t units = slice->units; /* while it is pinned */
    hd_delay_point();
    /* acq_rel: hands on this unit's results; the last takes in all of the slice's */
    uint64_t before = atomic_fetch_add_explicit(&slice->finished, 1, memory_order_acq_rel);
    if (before + 1 == (hd_generation(op->place.k) | units)) {
        slice_is_done(op, far);
    }
}

static void note(const hd_op_t *op, ucc_status_t status) {
    if (status != UCC_OK) { /* rings may have lost their order: nobody goes on */
        hd_engine_note_failure(op->exchange, op->place.k, status);
        hd_group_poison(op->group, status);
    }
}

static bool work_on_claimed(hd_op_t *op, hd_far_t *far, uint32_t kind) {
    uint32_t unit = claim(op, far, kind);
    if (unit == HD_FAR_NONE) {
        return false;
    }
    /* relaxed, both: only told to those who wait too long */
    atomic_store_explicit(&op->place.member->shared->at_work, 1, memory_order_relaxed);
    note(op, run(op, far, kind, unit));
    if (hd_stores_stream(op->plan.stores)) {
        hd_copy_fence(); /* before anybody is told that the unit is finished */
    }
    atomic_store_explicit(&op->place.member->shared->at_work, 0, memory_order_relaxed);
    finish(op, far, kind);
    return true;
}

/* --- the user's reduction --------------------------------------------------------------------- */

typedef struct turn {
    hd_op_t *op;
    hd_far_t *far;
    bool worked;
} turn_t;

static void take_turn(void *arg) {
    turn_t *turn = arg;
    turn->worked = work_on_claimed(turn->op, turn->far, EXECUTE);
}

/* The user's reduction did not return: its unit counts as finished, and failed. */
static void abandon_turn(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    note(op, UCC_ERR_NO_MESSAGE);
    /* relaxed: see work_on_claimed */
    atomic_store_explicit(&op->place.member->shared->at_work, 0, memory_order_relaxed);
    finish(op, hd_far_of(op), EXECUTE);
    hd_engine_end_turn(op);
}

static __attribute__((noinline)) bool work_exclusively(hd_op_t *op, hd_far_t *far) {
    const hd_slice_t *slice = &far->slice[EXECUTE];
    /* acquire: only a look; the claim repeats it */
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_acquire);
    uint32_t next = (uint32_t)(word & HD_CLAIM_NEXT);
    if (hd_group_poisoned(op->group) != UCC_OK || (word & HD_CLAIM_CLOSED) ||
        next >= slice->units || !is_ready(op, far, EXECUTE, next) ||
        !hd_lock_try(&op->exchange->turn)) {
        return false;
    }
    turn_t turn = {.op = op, .far = far};
    hd_callback_run(&op->task, take_turn, &turn, abandon_turn);
    hd_engine_end_turn(op);
    return turn.worked;
}

/* --- operations ------------------------------------------------------------------------------- */

static bool work_on(hd_op_t *op, hd_far_t *far, uint32_t kind) {
    return kind == EXECUTE && op->call.exclusive ? work_exclusively(op, far)
                                                 : work_on_claimed(op, far, kind);
}

/* First what lets others go on; where both ends copy, what the other one can't do. */
static bool work_on_first(hd_op_t *op, hd_far_t *far) {
    static const uint8_t usual[HD_FAR_KINDS] = {DRAIN, FEED, EXECUTE, PUSH},
                         of_both[HD_FAR_KINDS] = {FEED, EXECUTE, DRAIN, PUSH};
    const uint8_t *kind = far->shared ? of_both : usual;
    return work_on(op, far, kind[0]) || work_on(op, far, kind[1]) || work_on(op, far, kind[2]) ||
           work_on(op, far, kind[3]);
}

/* Others who wait for a window, or for all chunks, may sleep. Where endpoints outnumber processors,
 * all of them do, and waking them for each unit costs more than its copy: they are woken for the
 * first one, which may be what lets them begin, then for some at once, and at the latest when there
 * is nothing to do any more. */
static ucc_status_t work(hd_op_t *op) {
    hd_far_t *far = hd_far_of(op);
    ucc_status_t status = prepare(op, far);
    uint32_t chunks = 0; /* bounded: others use this context, too */
    while (status == UCC_OK && chunks < CHUNKS_PER_STEP && work_on_first(op, far)) {
        if (++chunks % CHUNKS_PER_RING == 1) {
            hd_bell_ring(&op->group->home.bell);
        }
    }
    if (chunks % CHUNKS_PER_RING != 1 && chunks > 0) {
        hd_bell_ring(&op->group->home.bell);
    }
    if (status < 0) {
        hd_group_poison(op->group, status); /* nobody can finish it */
        return status;
    }
    if (hd_engine_has_ended(op, &status)) {
        op->exposed = false;
        return status;
    }
    op->task.awaited = NULL; /* units may become ready before the end does */
    return UCC_INPROGRESS;
}

/* All lanes are there: a member that sends its data with its lane counts other bytes. */
static ucc_status_t check_lanes(hd_op_t *op) {
    for (uint32_t i = 0; i < op->place.n; i++) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
        if (i != op->place.me && hd_lane_regime(lane) != HD_REGIME_DIRECT) {
            return hd_op_sizes_differ(op, i, hd_lane_bytes(lane), op->call.bytes);
        }
    }
    return UCC_OK;
}

/* All have arrived. */
static ucc_status_t begin(hd_op_t *op) {
    ucc_status_t near = hd_near_begins(op, hd_far_of(op));
    if (near < 0) {
        return near;
    }
    op->phase = HD_PHASE_LOCAL;
    op->wait = near == UCC_OK ? hd_near_work : work;
    if (hd_trace_is_on()) {
        hd_op_trace_decided(op);
    }
    return op->wait(op);
}

static ucc_status_t wait(hd_op_t *op) {
    ucc_status_t status = hd_far_of(op)->arrived(op);
    status = status == UCC_OK ? check_lanes(op) : status;
    return status == UCC_OK ? begin(op) : status;
}

ucc_status_t hd_far_step(hd_op_t *op) {
    ucc_status_t status = hd_far_of(op)->arrived(op);
    return status == UCC_OK ? begin(op) : status;
}

ucc_status_t hd_far_after_lanes(hd_op_t *op, hd_take_fn take) {
    ucc_status_t status = hd_op_take_lanes(op, take);
    if (status != UCC_OK) {
        return status;
    }
    if (!op->any_direct) {
        op->exposed = false; /* nobody has work on my buffers */
        return UCC_OK;
    }
    return begin(op);
}

/* Which buffers the others of this process read, and write: as families tell the engine. */
static void expose(const hd_op_t *op, hd_far_t *far) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = coll_of(op);
    /* in place, a reduce_scatter's call has its operand as the source already */
    bool operand = coll->pairwise || (coll->reducing && coll->source == HD_WHOLE);
    uint32_t me = op->place.me;
    far->work.src[me] = operand ? hd_call_operand(call) : call->src;
    /* a bcast's buffer is its source, at all */
    far->work.dst[me] = coll->bcast ? (void *)(uintptr_t)call->src : call->dst;
    far->work.call[me] = call;
}

ucc_status_t hd_far_register(hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op)) {
    hd_far_t *far = hd_far_install(op, arrived);
    if (!far) {
        hd_error("%s: no memory for the work of %u endpoints", hd_op_type_name(op), op->place.n);
        return UCC_ERR_NO_MEMORY;
    }
    expose(op, far);
    if (op->place.me == 0) {
        /* relaxed: who used it last has consumed that number */
        atomic_store_explicit(&op->exchange->slices_done, 0, memory_order_relaxed);
    }
    op->exposed = true;
    return hd_near_register(op, far);
}

/* Apart, so that what others make of hd_lane_expose does not depend on who is here. */
__attribute__((noinline)) ucc_status_t hd_far_expose(hd_op_t *op) {
    return hd_lane_expose(op);
}

ucc_status_t hd_far_start(hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op)) {
    ucc_status_t status = hd_far_register(op, arrived);
    if (status != UCC_OK) {
        return status;
    }
    hd_far_t *far = hd_far_of(op);
    hd_assert(!coll_of(op)->reducing || /* refused when the request was made */
              op->call.element <= hd_far_most(op->group, &op->call, op->place.n));
    void ***scratch = &far->scratch[op->place.me];
    if (!*scratch && !(*scratch = hd_alloc(HD_LINE, 2 * (size_t)far->n * sizeof(void *)))) {
        hd_error("%s: no memory for the work of %u endpoints", hd_op_type_name(op), op->place.n);
        return UCC_ERR_NO_MEMORY;
    }
    op->wait = wait;
    status = hd_far_expose(op);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

/* Does no other process write to this one's buffers any more? */
static bool is_left_alone(const hd_op_t *op, const hd_far_t *far) {
    return !far->shared || far->is_source || hd_ends_close(far, ends_window(op, far, 0).word) ||
           hd_reach_has_lost(op->group->reach, far->mapping[!far->mine]);
}

ucc_status_t hd_far_cancel(hd_op_t *op, ucc_status_t why) {
    hd_far_t *far = hd_far_of(op);
    hd_group_poison(op->group, why);
    if (hd_group_is_inherited(op->group)) { /* peers at work are at work in the parent */
        op->exposed = false;
        return why;
    }
    bool quiet = hd_near_is_quiet(op);
    hd_lock(&far->lock);
    if (!is_prepared(op, far)) {
        far->closed = hd_far_key(op);
    }
    for (uint32_t kind = 0; kind < HD_FAR_KINDS && is_prepared(op, far); kind++) {
        hd_slice_t *slice = &far->slice[kind];
        /* acq_rel: claims before it are known, claims after it fail */
        uint64_t word =
            atomic_fetch_or_explicit(&slice->claim, HD_CLAIM_CLOSED, memory_order_acq_rel);
        uint32_t claimed = (uint32_t)(word & HD_CLAIM_NEXT);
        /* acquire: pairs with the finisher; its accesses are over */
        quiet &= atomic_load_explicit(&slice->finished, memory_order_acquire) ==
                 (hd_generation(op->place.k) | claimed);
    }
    quiet &= !is_prepared(op, far) || is_left_alone(op, far);
    hd_unlock(&far->lock);
    if (!quiet) {
        return UCC_INPROGRESS;
    }
    op->exposed = false;
    return why;
}
