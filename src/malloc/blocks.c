/* blocks.c: see internal.h. A bin has the free extents of about one length; of the bins whose
 * extents are all long enough, the first that has one gives it. So nothing is searched for, and
 * what was never used, which is the longest, is cut last.
 */
#include "internal.h"

enum { FINE = 8 }; /* bins for each doubling */

/* In `length`. A block's or an extent's entry is never zero. */
#define USED   (UINT32_C(1) << 31)
#define BEGINS (UINT32_C(1) << 30) /* the first unit */
#define UNITS  (BEGINS - 1)

static uint32_t log_of(uint32_t units) {
    return 31 - (uint32_t)__builtin_clz(units);
}

/* The bin of an extent of that length. */
static uint32_t bin_of(uint32_t units) {
    if (units < FINE) {
        return units;
    }
    uint32_t log = log_of(units);
    return (log - 2) * FINE + (units >> (log - 3)) % FINE;
}

/* The first bin whose extents all have so many units. */
static uint32_t bin_for(uint32_t units) {
    return units < FINE ? units : bin_of(units + (UINT32_C(1) << (log_of(units) - 3)) - 1);
}

/* --- extents ---------------------------------------------------------------------------------- */

static void set(hd_blocks_t *b, uint32_t at, uint32_t units, uint32_t flags) {
    b->extent[at + units - 1].length = units | flags;
    b->extent[at].length = units | flags | BEGINS;
}

/* Before it becomes a part of another one. */
static void clear(hd_blocks_t *b, uint32_t at, uint32_t units) {
    b->extent[at].length = 0;
    b->extent[at + units - 1].length = 0;
}

static uint32_t units_of(const hd_blocks_t *b, uint32_t at) {
    return b->extent[at].length & UNITS;
}

static bool is_free(const hd_blocks_t *b, uint32_t at) {
    return !(b->extent[at].length & USED);
}

static void link(hd_blocks_t *b, uint32_t at, uint32_t units, uint32_t worn) {
    uint32_t bin = bin_of(units), first = b->bin[bin];
    set(b, at, units, 0);
    b->extent[at].worn = worn;
    b->extent[at].prev = HD_NO_BLOCK;
    b->extent[at].next = first;
    if (first != HD_NO_BLOCK) {
        b->extent[first].prev = at;
    }
    b->bin[bin] = at;
    b->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

/* Takes it out of its bin, and returns its `worn`, which is still counted. */
static uint32_t unlink(hd_blocks_t *b, uint32_t at) {
    hd_extent_t *e = &b->extent[at];
    uint32_t units = units_of(b, at), bin = bin_of(units);
    if (e->prev != HD_NO_BLOCK) {
        b->extent[e->prev].next = e->next;
    } else {
        b->bin[bin] = e->next;
    }
    if (e->next != HD_NO_BLOCK) {
        b->extent[e->next].prev = e->prev;
    }
    if (b->bin[bin] == HD_NO_BLOCK) {
        b->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
    clear(b, at, units);
    return e->worn;
}

static void use(hd_blocks_t *b, uint32_t at, uint32_t units) {
    set(b, at, units, USED);
    b->fresh = b->fresh > at + units ? b->fresh : at + units;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* A free extent of so many units; HD_NO_BLOCK: there is none. */
static uint32_t find(const hd_blocks_t *b, uint32_t units) {
    if (units > b->n) {
        return HD_NO_BLOCK;
    }
    for (uint32_t bin = bin_for(units), w = bin / 64; w < HD_BINS / 64; w++) {
        uint64_t filled = b->filled[w] & (w == bin / 64 ? UINT64_MAX << bin % 64 : UINT64_MAX);
        if (filled) {
            return b->bin[w * 64 + (uint32_t)__builtin_ctzll(filled)];
        }
    }
    uint32_t at = b->bin[bin_of(units)]; /* the heap is nearly full: some of these have as many */
    while (at != HD_NO_BLOCK && units_of(b, at) < units) {
        at = b->extent[at].next;
    }
    return at;
}

/* --- blocks ----------------------------------------------------------------------------------- */

void hd_blocks_init(hd_blocks_t *b, hd_extent_t *extent, uint32_t n) {
    *b = (hd_blocks_t){.extent = extent, .n = n};
    for (uint32_t bin = 0; bin < HD_BINS; bin++) {
        b->bin[bin] = HD_NO_BLOCK;
    }
    link(b, 0, n, 0);
}

uint32_t hd_blocks_take(hd_blocks_t *b, uint32_t units, uint32_t align) {
    uint32_t from = units > b->n || align > b->n ? HD_NO_BLOCK : find(b, units + align - 1);
    if (from == HD_NO_BLOCK) {
        return HD_NO_BLOCK;
    }
    uint32_t end = from + units_of(b, from), at = (from + align - 1) / align * align;
    uint32_t worn = unlink(b, from), before = least(worn, at - from);
    uint32_t mine = least(worn - before, units), behind = worn - before - mine;
    b->kept -= mine;
    if (at > from) {
        link(b, from, at - from, before);
    }
    if (end > at + units) {
        link(b, at + units, end - at - units, behind);
    }
    use(b, at, units);
    return at;
}

uint32_t hd_blocks_units(const hd_blocks_t *b, uint32_t at) {
    uint32_t length = at < b->n ? b->extent[at].length : 0;
    return (length & USED) && (length & BEGINS) ? length & UNITS : 0;
}

bool hd_blocks_lengthen(hd_blocks_t *b, uint32_t at, uint32_t units) {
    uint32_t had = units_of(b, at), next = at + had, more = units - had;
    if (next >= b->n || !is_free(b, next) || units_of(b, next) < more) {
        return false;
    }
    uint32_t left = units_of(b, next) - more, worn = unlink(b, next), mine = least(worn, more);
    b->kept -= mine;
    clear(b, at, had);
    if (left > 0) {
        link(b, next + more, left, worn - mine);
    }
    use(b, at, units);
    return true;
}

void hd_blocks_cut(hd_blocks_t *b, uint32_t at, uint32_t units) {
    uint32_t had = units_of(b, at);
    clear(b, at, had);
    use(b, at + units, had - units);
    use(b, at, units);
}

hd_run_t hd_blocks_give(hd_blocks_t *b, uint32_t at) {
    uint32_t begin = at, end = at + units_of(b, at), worn = end - at;
    hd_run_t back = {0, 0};
    b->kept += worn;
    clear(b, at, end - at);
    if (begin > 0 && is_free(b, begin - 1)) {
        begin -= units_of(b, begin - 1);
        worn += unlink(b, begin);
    }
    if (end < b->n && is_free(b, end)) {
        uint32_t units = units_of(b, end);
        worn += unlink(b, end);
        end += units;
    }
    if (b->kept > HD_KEPT && worn >= HD_WORTH) {
        b->kept -= worn;
        worn = 0;
        back = (hd_run_t){begin, least(end, b->fresh)};
    }
    link(b, begin, end - begin, worn);
    return back;
}

hd_run_t hd_blocks_used(const hd_blocks_t *b, uint32_t from) {
    hd_run_t run;
    while (from < b->n && is_free(b, from)) {
        from += units_of(b, from);
    }
    for (run.begin = run.end = from; run.end < b->n && !is_free(b, run.end);) {
        run.end += units_of(b, run.end);
    }
    return run;
}
