/* mismatch.c: endpoints whose calls disagree: finding out who calls what, and saying it.
 *
 * A lane carries 32 bits of what must agree, a hash of the call's terms: its signature. What a
 * signature stands for is kept in a table of the process, written when a call is prepared;
 * repetitions of a call find their entry there, or don't even look. So when two lanes differ,
 * whoever finds it looks up both and names the field. The table belongs to nobody: a peer's request
 * may be gone, its signature still says what it was. It holds the last two thousand different terms
 * or so; of those that were pushed out, the message says less.
 *
 * Who may call: anybody at any time; hd_op_mismatch and hd_op_sizes_differ for an operation that is
 * published and not yet over, so that the lanes of its number stay as they are.
 */
#include "shm/internal.h"

#include "core/dtype.h"

#include <stdarg.h>
#include <stdio.h>

enum { SETS = 256, WAYS = 8, TEXT = 256, TYPE_SHIFT = 27 };

/* --- signatures ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 0x9e3779b97f4a7c15u ^ hash >> 29;
}

uint32_t hd_terms_signature(const hd_terms_t *call) {
    uint64_t hash = mix(0x51ed270b, call->rooted ? (uint64_t)call->root + 1 : 0);
    if (call->reducing) {
        hash = mix(hash, call->user ? call->element : call->dt);
        hash = mix(hash, call->user ? 99 : (uint64_t)call->op);
    }
    hash = mix(hash, call->bytes);
    hash = mix(hash, call->counts);
    hash = mix(hash,
               (uint64_t)call->in_place | (uint64_t)call->empty << 1 | (uint64_t)call->device << 2);
    hash = mix(hash, call->one_sided ? call->offset + 1 : 0);
    return (uint32_t)call->type << TYPE_SHIFT | (uint32_t)(hash >> 37);
}

/* --- the table -------------------------------------------------------------------------------- */

/* signature and dt are also read without the lock: to see that there is nothing to be written. */
typedef struct entry {
    _Atomic uint32_t signature; /* 0: none */
    _Atomic uint64_t dt;        /* HD_TERMS_ANY_DT: calls with several datatypes have it */
    hd_terms_t call;
} entry_t;

typedef struct set {
    alignas(HD_LINE) hd_lock_t lock;
    uint32_t oldest;
    entry_t way[WAYS];
} set_t;

static set_t table[SETS];

void hd_terms_unlock(void) {
    for (uint32_t i = 0; i < SETS; i++) {
        hd_lock_forget(&table[i].lock);
    }
}

static set_t *set_of(uint32_t signature) {
    return &table[signature * 0x9e3779b9u >> 24];
}

static entry_t *find(set_t *set, uint32_t signature) {
    for (uint32_t i = 0; i < WAYS; i++) {
        /* relaxed: whoever reads more than this and dt holds the lock */
        if (atomic_load_explicit(&set->way[i].signature, memory_order_relaxed) == signature) {
            return &set->way[i];
        }
    }
    return NULL;
}

static bool is_known(set_t *set, uint32_t signature, uint64_t dt) {
    const entry_t *entry = find(set, signature);
    /* relaxed: only compared; at worst an entry is written once more, or not while another takes
     * its way */
    uint64_t known = entry ? atomic_load_explicit(&entry->dt, memory_order_relaxed) : 0;
    return entry && (known == dt || known == HD_TERMS_ANY_DT);
}

void hd_terms_note(const hd_terms_t *call, uint32_t signature) {
    set_t *set = set_of(signature);
    if (is_known(set, signature, call->dt)) {
        return;
    }
    hd_lock(&set->lock);
    entry_t *entry = find(set, signature); /* another thread's, perhaps, of this very call */
    uint64_t dt = entry && entry->call.dt != call->dt ? HD_TERMS_ANY_DT : call->dt;
    if (!entry) {
        entry = &set->way[set->oldest];
        set->oldest = (set->oldest + 1) % WAYS;
        entry->call = *call;
    }
    entry->call.dt = dt;
    atomic_store_explicit(&entry->dt, dt, memory_order_relaxed);               /* see is_known */
    atomic_store_explicit(&entry->signature, signature, memory_order_relaxed); /* see find */
    hd_unlock(&set->lock);
}

static bool look_up(uint32_t signature, hd_terms_t *call) {
    set_t *set = set_of(signature);
    hd_lock(&set->lock);
    const entry_t *entry = find(set, signature);
    if (entry) {
        *call = entry->call;
    }
    hd_unlock(&set->lock);
    return entry != NULL;
}

uint32_t hd_terms_captured(uint32_t signature, uint64_t capture) {
    hd_terms_t call;
    uint32_t type = signature >> TYPE_SHIFT << TYPE_SHIFT;
    uint32_t captured = type | (uint32_t)(mix(signature, capture + 1) >> 37);
    if (look_up(signature, &call)) { /* else the message says less */
        call.capture = capture;
        hd_terms_note(&call, captured);
    }
    return captured;
}

/* --- words ------------------------------------------------------------------------------------ */

static const hd_subset_t *set_of_board(const hd_op_t *op) {
    return op->place.board && op->place.board->head->subset.n ? &op->place.board->head->subset
                                                              : NULL;
}

static bool has_endpoint(const hd_subset_t *set, uint32_t number) {
    int64_t offset = (int64_t)number - (int64_t)set->start;
    return offset % set->stride == 0 && offset / set->stride >= 0 &&
           offset / set->stride < (int64_t)set->n;
}

uint32_t hd_set_member(const hd_group_t *group, const hd_subset_t *set, uint32_t i) {
    if (!set->n) {
        return i;
    }
    if (!group->numbers) {
        return (uint32_t)((int64_t)set->start + (int64_t)i * set->stride);
    }
    for (uint32_t m = 0, seen = 0; m < group->n;
         m++) { /* in the order of the set, as numbers are */
        uint32_t member = set->stride > 0 ? m : group->n - 1 - m;
        if (has_endpoint(set, group->numbers[member]) && seen++ == i) {
            return member;
        }
    }
    hd_assert(!"a set's board has a member for each of its endpoints in this process");
    return 0;
}

uint32_t hd_op_member(const hd_op_t *op, uint32_t i) {
    const hd_subset_t *set = set_of_board(op);
    return set ? hd_set_member(op->group, set, i) : i;
}

uint64_t hd_op_endpoint(const hd_op_t *op, uint32_t i) {
    uint32_t member = hd_op_member(op, i);
    return op->group->numbers ? op->group->numbers[member] : member;
}

/* Roots are numbers in the active set, or in the team. */
static uint64_t endpoint_of_root(const hd_op_t *op, uint32_t root) {
    const hd_subset_t *set = set_of_board(op);
    return set ? (uint64_t)((int64_t)set->start + (int64_t)root * set->stride) : root;
}

const char *hd_op_title(const hd_op_t *op, const char *type, char *text, size_t size) {
    if (op->place.board && op->place.board->entry) {
        hd_match_title(op->place.board, op->place.k, type, text, size);
    } else {
        snprintf(text, size, "%s %llu", type, (unsigned long long)op->place.k);
    }
    return text;
}

typedef struct words {
    size_t used;
    char text[TEXT];
} words_t;

static __attribute__((format(printf, 2, 3))) void add(words_t *words, const char *format, ...) {
    va_list args;
    size_t room = TEXT - words->used;
    va_start(args, format);
    int n = vsnprintf(words->text + words->used, room, format, args);
    va_end(args);
    words->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static const char *and_or_nothing(const words_t *words) {
    return words->used ? " and " : "";
}

/* Blocks are what one endpoint gives to another. */
static bool has_blocks(uint8_t type) {
    const hd_coll_t *coll = &hd_coll[type];
    return !coll->vector && (coll->source == HD_BLOCKS || coll->result == HD_BLOCKS);
}

static void add_size(words_t *words, const hd_terms_t *call, bool in_elements) {
    const char *lead = and_or_nothing(words), *per = call->uneven             ? " in all"
                                                     : has_blocks(call->type) ? " per endpoint"
                                                                              : "";
    size_t element = in_elements ? hd_dt_size(call->dt) : 0;
    if (call->empty) {
        add(words, "%scount 0", lead);
    } else if (element) {
        add(words, "%scount %llu%s", lead, (unsigned long long)(call->bytes / element), per);
    } else {
        add(words, "%s%zu bytes%s", lead, call->bytes, per);
    }
}

/* What `call` has in the fields in which the two differ. */
static void add_differences(words_t *words, const hd_op_t *op, const hd_terms_t *call,
                            const hd_terms_t *other) {
    bool same_dt = call->dt == other->dt && call->dt != HD_TERMS_ANY_DT;
    if (call->root != other->root && call->rooted && !call->empty && !other->empty) {
        add(words, "root %llu", (unsigned long long)endpoint_of_root(op, call->root));
    }
    if (call->reducing && !same_dt && !call->empty && !other->empty) {
        add(words, "%sdatatype %s", and_or_nothing(words),
            call->dt == HD_TERMS_ANY_DT ? "generic" : hd_dt_name(call->dt));
    }
    if (call->reducing && call->op != other->op && !call->user && !other->user && !call->empty &&
        !other->empty) {
        add(words, "%soperation %s", and_or_nothing(words), hd_reduction_name(call->op));
    }
    if (call->bytes != other->bytes || call->empty != other->empty) {
        bool comparable = same_dt || call->reducing || other->empty;
        add_size(words, call, comparable && call->dt != HD_TERMS_ANY_DT);
    } else if (call->counts != other->counts) {
        add(words, "%sother dst.counts", and_or_nothing(words));
    }
    if (call->empty || other->empty) {
        return;
    }
    if (call->device != other->device) {
        add(words, "%smemory type %s", and_or_nothing(words), call->device ? "cuda" : "host");
    }
    if (call->capture != other->capture) {
        add(words, "%s%s", and_or_nothing(words),
            call->capture ? "a stream in a capture of its own" : "no stream in that capture");
    }
    if (call->in_place != other->in_place) {
        add(words, "%s%s", and_or_nothing(words),
            call->in_place ? "flag IN_PLACE" : "no flag IN_PLACE");
    }
    if (call->one_sided != other->one_sided) {
        add(words, "%s%s", and_or_nothing(words),
            call->one_sided ? "flags SYMMETRIC and READY" : "not both flags SYMMETRIC and READY");
    } else if (call->offset != other->offset) {
        add(words, "%soffset %zu in the symmetric memory", and_or_nothing(words), call->offset);
    }
}

/* --- reporting -------------------------------------------------------------------------------- */

/* Of a member other than me; 0: its lane is not out. */
static uint32_t signature_of(const hd_op_t *op, uint32_t i) {
    const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
    return hd_lane_is_there(lane, op->place.k) ? lane->signature : 0;
}

/* The first whose lane differs from mine; n: none. */
static uint32_t find_peer(const hd_op_t *op) {
    uint32_t i = 0;
    while (i < op->place.n) {
        uint32_t signature = i == op->place.me ? op->call.signature : signature_of(op, i);
        if (signature && signature != op->call.signature) {
            return i;
        }
        i++;
    }
    return i;
}

/* Is it rather me who calls something else than the others? Of two, the one with the higher number.
 */
static bool i_am_odd(const hd_op_t *op, uint32_t peer, uint32_t theirs) {
    uint32_t like_me = 1, like_peer = 0;
    for (uint32_t i = 0; i < op->place.n; i++) {
        uint32_t signature = i == op->place.me ? 0 : signature_of(op, i);
        like_me += signature == op->call.signature;
        like_peer += signature == theirs;
    }
    return like_me != like_peer ? like_me < like_peer : op->place.me > peer;
}

static void say(const hd_op_t *op, uint32_t peer) {
    char title[TEXT];
    const char *type = hd_op_type_name(op);
    if (peer == op->place.n) {
        hd_error("%s: the calls of its endpoints differ",
                 hd_op_title(op, type, title, sizeof(title)));
        return;
    }
    uint32_t signature[2] = {op->call.signature, signature_of(op, peer)};
    int odd = i_am_odd(op, peer, signature[1]) ? 0 : 1, usual = 1 - odd;
    unsigned long long endpoint[2] = {hd_op_endpoint(op, op->place.me), hd_op_endpoint(op, peer)};
    if (signature[0] >> TYPE_SHIFT != signature[1] >> TYPE_SHIFT) {
        hd_error("%s: endpoint %llu calls %s, endpoint %llu calls %s",
                 hd_op_title(op, "collective", title, sizeof(title)), endpoint[odd],
                 hd_type_name((uint8_t)(signature[odd] >> TYPE_SHIFT)), endpoint[usual],
                 hd_type_name((uint8_t)(signature[usual] >> TYPE_SHIFT)));
        return;
    }
    hd_terms_t call[2];
    words_t words[2] = {{0, ""}, {0, ""}};
    if (look_up(signature[0], &call[0]) && look_up(signature[1], &call[1])) {
        add_differences(&words[0], op, &call[0], &call[1]);
        add_differences(&words[1], op, &call[1], &call[0]);
    }
    hd_op_title(op, type, title, sizeof(title));
    if (words[0].used && words[1].used) {
        hd_error("%s: endpoint %llu has %s, endpoint %llu has %s", title, endpoint[odd],
                 words[odd].text, endpoint[usual], words[usual].text);
    } else {
        hd_error("%s: root, count, datatype or operation differ between endpoints %llu and %llu",
                 title, endpoint[odd], endpoint[usual]);
    }
}

ucc_status_t hd_op_mismatch(hd_op_t *op, uint32_t peer) {
    /* one line is enough. relaxed: whoever is second needs nothing of the first */
    if (hd_group_poisoned(op->group) == UCC_OK &&
        !atomic_exchange_explicit(&hd_common(op->group)->said_mismatch, true,
                                  memory_order_relaxed)) {
        say(op, peer == op->place.me ? find_peer(op) : peer);
    }
    hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
    return UCC_ERR_INVALID_PARAM;
}

ucc_status_t hd_op_say_sizes(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent,
                             size_t expected) {
    char title[TEXT];
    hd_error("%s: endpoint %llu sends %zu bytes, endpoint %llu expects %zu from it",
             hd_op_title(op, hd_op_type_name(op), title, sizeof(title)),
             (unsigned long long)hd_op_endpoint(op, from), sent,
             (unsigned long long)hd_op_endpoint(op, to), expected);
    return UCC_ERR_INVALID_PARAM;
}

ucc_status_t hd_op_sizes_differ(hd_op_t *op, uint32_t peer, size_t sent, size_t expected) {
    (void)hd_op_say_sizes(op, peer, op->place.me, sent, expected);
    hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
    return UCC_ERR_INVALID_PARAM;
}
