/* reach.c: see reach.h. */
#include "shm/reach.h"

#include "core/config.h"
#include "core/fault.h"
#include "shm/internal.h"

#include <string.h>

enum {
    BLOCKS = 8,   /* of this process that have slots */
    SLOT_BITS = 8 /* of an entry of reach->block */
};
_Static_assert(HD_REACH_SLOTS <= 1 << SLOT_BITS && (int)HD_XPMEM_SHIFT < (int)HD_REACH_SHIFT,
               "a slot has room in an entry, and an offset in a word");

/* What lies behind a slot. */
typedef enum kind { NOTHING_YET, A_HEAP, A_BLOCK } kind_t;

/* Shared. Entries are written once, by a process of whose heap it is. */
typedef struct table {
    alignas(HD_LINE) _Atomic uint32_t n; /* slots that are taken; slot 0 is nobody's */
    struct {
        _Atomic uint32_t kind; /* kind_t; not NOTHING_YET: what follows is written */
        uint32_t process;
        uint64_t name[2];
        uint64_t bytes;
    } slot[HD_REACH_SLOTS];
} table_t;

struct hd_reach {
    /* by hd_reach_give, and by who takes a slot for a heap of this process; read by all */
    alignas(HD_LINE) _Atomic uint64_t reached;
    uintptr_t base[HD_REACH_SLOTS]; /* where those are reached lie */
    size_t bytes[HD_REACH_SLOTS];
    _Atomic uint8_t of_heap[HD_HEAPS]; /* slots of this process's heaps; 0: none yet */
    /* (number + 1 | slot:8) of this process's blocks, those that are there first; 0: none yet */
    _Atomic uint64_t block[BLOCKS];
    _Atomic uint64_t attached; /* slots of others' blocks, as bits; set before `reached` */
    /* why there are no blocks, for people; NULL: there may be some */
    const char *_Atomic no_blocks;
    table_t *table;
    bool by_processes;
    uint32_t number;         /* of this mapping */
    hd_lock_t lock;          /* guards what follows, and taking slots */
    _Atomic uint64_t wanted; /* slots, as bits; looked at without the lock, too */
    uint64_t taken;
    bool is_full; /* no slot was left */
    hd_heap_view_t *view[HD_REACH_SLOTS];
    const char *_Atomic why[HD_REACH_SLOTS]; /* it can't be had, for people; NULL: it may be */
    void (*serve)(void *arg);
    void *arg;
    _Atomic uint64_t lost[(HD_FAR_MOST + 63) / 64]; /* processes, as bits */
};

size_t hd_reach_bytes(void) {
    return sizeof(table_t);
}

hd_reach_t *hd_reach_create(const hd_group_t *group, uint8_t *at) {
    hd_reach_t *reach = hd_alloc(HD_LINE_PAIR, sizeof(*reach));
    if (!reach) {
        return NULL;
    }
    reach->table = (table_t *)(void *)at;
    reach->by_processes = hd_group_spans_processes(group);
    atomic_store_explicit(&reach->no_blocks, "not tried yet", memory_order_relaxed);
    reach->number = group->mapping.number;
    /* relaxed: nobody else knows it yet. Slot 0 is always reached */
    atomic_store_explicit(&reach->reached, 1, memory_order_relaxed);
    return reach;
}

void hd_reach_destroy(hd_reach_t *reach) {
    for (uint32_t i = 0; reach && i < HD_REACH_SLOTS; i++) {
        if (reach->view[i]) {
            hd_heap_view_drop(reach->view[i]);
        }
    }
    hd_free(reach);
}

/* --- slots ------------------------------------------------------------------------------------ */

static void add(hd_reach_t *reach, uint32_t slot, uintptr_t base, size_t bytes) {
    reach->base[slot] = base;
    reach->bytes[slot] = bytes;
    /* release: where it lies; pairs with hd_reach_slots */
    atomic_fetch_or_explicit(&reach->reached, UINT64_C(1) << slot, memory_order_release);
}

/* Of the next slot of the table, which is mine now; 0: there is none. */
static uint32_t next_slot(table_t *table) {
    /* relaxed, both: whose it is, is all that counts */
    uint32_t n = atomic_load_explicit(&table->n, memory_order_relaxed);
    do {
        if (n >= HD_REACH_SLOTS - 1) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&table->n, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return n + 1;
}

/* Under the lock: for something of this process that has none. 0: there is none left. */
static uint32_t take_slot(hd_reach_t *reach, kind_t kind, const uint64_t name[2], uintptr_t base,
                          size_t bytes) {
    table_t *table = reach->table;
    uint32_t slot = reach->is_full ? 0 : next_slot(table);
    if (!slot) {
        reach->is_full = true;
        return 0;
    }
    table->slot[slot].process = reach->number;
    memcpy(table->slot[slot].name, name, sizeof(table->slot[slot].name));
    table->slot[slot].bytes = bytes;
    /* release: the entry; pairs with hd_reach_take */
    atomic_store_explicit(&table->slot[slot].kind, kind, memory_order_release);
    add(reach, slot, base, bytes);
    return slot;
}

/* Under the lock. */
static uint32_t take_slot_of_heap(hd_reach_t *reach, uint32_t heap) {
    uint64_t name[2];
    hd_heap_name(heap, name);
    uint32_t slot = take_slot(reach, A_HEAP, name, hd_heaps.at[heap].base, hd_heaps.at[heap].bytes);
    /* release: pairs with hd_reach_word */
    atomic_store_explicit(&reach->of_heap[heap], (uint8_t)slot, memory_order_release);
    return slot;
}

static __attribute__((noinline, cold)) uint32_t new_slot(hd_reach_t *reach, uint32_t heap) {
    hd_lock(&reach->lock);
    /* relaxed: under the lock */
    uint32_t slot = atomic_load_explicit(&reach->of_heap[heap], memory_order_relaxed);
    slot = slot ? slot : take_slot_of_heap(reach, heap);
    hd_unlock(&reach->lock);
    return slot;
}

uint64_t hd_reach_word(hd_reach_t *reach, const void *address, size_t bytes) {
    size_t offset;
    uint32_t heap = hd_heap_find(address, &offset);
    if (heap == HD_HEAP_NONE || bytes > hd_heaps.at[heap].bytes - offset) {
        return HD_REACH_FAR;
    }
    /* acquire: that this mapping reaches it */
    uint32_t slot = atomic_load_explicit(&reach->of_heap[heap], memory_order_acquire);
    if (!slot && !(slot = new_slot(reach, heap))) {
        return HD_REACH_FAR;
    }
    return (uint64_t)slot << HD_REACH_SHIFT | offset;
}

/* --- blocks of addresses ---------------------------------------------------------------------- */

void hd_reach_open(hd_reach_t *reach, int xpmem) {
    static _Atomic bool said;
    const char *why = !reach->by_processes       ? "its endpoints live in one process"
                      : xpmem == HD_CFG_XPMEM_NO ? "XPMEM=n"
                                                 : hd_xpmem_open();
    /* relaxed: once is enough */
    if (why && reach->by_processes && xpmem == HD_CFG_XPMEM_YES &&
        !atomic_exchange_explicit(&said, true, memory_order_relaxed)) {
        hd_warn("large data do not go by XPMEM: %s", why);
    }
    /* relaxed: a constant; members know it by the end of forming */
    atomic_store_explicit(&reach->no_blocks, why, memory_order_relaxed);
}

static const char *no_blocks(const hd_reach_t *reach) {
    return atomic_load_explicit(&reach->no_blocks, memory_order_relaxed); /* see hd_reach_open */
}

bool hd_reach_has_blocks(const hd_reach_t *reach) {
    return !no_blocks(reach);
}

/* The slot of that block, or its entry's place, where there is none yet; BLOCKS: no place is left.
 */
static uint32_t slot_of_block(const hd_reach_t *reach, uint64_t block, uint32_t *place) {
    for (*place = 0; *place < BLOCKS; ++*place) {
        /* acquire: that this mapping reaches it; pairs with new_block */
        uint64_t entry = atomic_load_explicit(&reach->block[*place], memory_order_acquire);
        if (entry == 0 || entry >> SLOT_BITS == block + 1) {
            return (uint32_t)(entry & ((1 << SLOT_BITS) - 1));
        }
    }
    return 0;
}

static __attribute__((noinline, cold)) uint32_t new_block(hd_reach_t *reach, uint64_t block) {
    uint64_t name[2];
    uint32_t place;
    hd_lock(&reach->lock);
    uint32_t slot = slot_of_block(reach, block, &place);
    if (!slot && place < BLOCKS) {
        hd_xpmem_name(block, name);
        slot = take_slot(reach, A_BLOCK, name, (uintptr_t)(block << HD_XPMEM_SHIFT),
                         hd_xpmem_bytes(block));
        /* release: pairs with slot_of_block */
        atomic_store_explicit(&reach->block[place], slot ? (block + 1) << SLOT_BITS | slot : 0,
                              memory_order_release);
    }
    hd_unlock(&reach->lock);
    return slot;
}

uint64_t hd_reach_word_of_block(hd_reach_t *reach, const void *address, size_t bytes) {
    uint64_t block = hd_xpmem_block((uintptr_t)address);
    uint64_t offset = (uintptr_t)address - (block << HD_XPMEM_SHIFT);
    size_t room = hd_xpmem_bytes(block);
    uint32_t place;
    if (no_blocks(reach) || offset >= room || bytes > room - offset) {
        return HD_REACH_FAR;
    }
    uint32_t slot = slot_of_block(reach, block, &place);
    if (!slot && !(slot = new_block(reach, block))) {
        return HD_REACH_FAR;
    }
    return (uint64_t)slot << HD_REACH_SHIFT | offset;
}

uint64_t hd_reach_attached(const hd_reach_t *reach) {
    /* relaxed: of slots that are known to be reached, by an acquire */
    return atomic_load_explicit(&reach->attached, memory_order_relaxed);
}

uint64_t hd_reach_usable(const hd_reach_t *reach) {
    uint64_t slots = hd_reach_slots(reach), attached = hd_reach_attached(reach);
    return attached && !hd_fault_catches() ? slots & ~attached : slots;
}

/* --- what is reached -------------------------------------------------------------------------- */

uint64_t hd_reach_slots(const hd_reach_t *reach) {
    /* acquire: pairs with add */
    return atomic_load_explicit(&reach->reached, memory_order_acquire);
}

static size_t offset_of(uint64_t word) {
    return (size_t)(word << (64 - HD_REACH_SHIFT) >> (64 - HD_REACH_SHIFT));
}

void *hd_reach_at(const hd_reach_t *reach, uint64_t word) {
    uint64_t slot = word >> HD_REACH_SHIFT;
    if (slot == 0 || slot >= HD_REACH_SLOTS || !(hd_reach_slots(reach) >> slot & 1) ||
        offset_of(word) >= reach->bytes[slot]) {
        return NULL;
    }
    return (void *)(reach->base[slot] + offset_of(word)); /* block 0 begins at no pointer */
}

bool hd_reach_has_failed(const hd_reach_t *reach, uint64_t word) {
    /* relaxed: a constant, with which nothing else comes */
    return atomic_load_explicit(&reach->why[(word >> HD_REACH_SHIFT) % HD_REACH_SLOTS],
                                memory_order_relaxed) != NULL;
}

bool hd_reach_holds(const hd_reach_t *reach, uint64_t word, size_t bytes) {
    return hd_reach_at(reach, word) &&
           bytes <= reach->bytes[word >> HD_REACH_SHIFT] - offset_of(word);
}

/* --- reaching --------------------------------------------------------------------------------- */

/* Of mappings in one process: the heap is this one's, too, and is mapped once more, so that it lies
 * elsewhere, as among processes. */
static hd_heap_view_t *map_here(const hd_reach_slot_t *slot) {
    hd_heap_view_t *view = hd_heap_view_find(slot->name);
    hd_node_segment_t segment;
    if (!view && hd_heap_segment(slot->name, &segment)) {
        view = hd_heap_view_map(slot->name, &segment);
    }
    return view;
}

void hd_reach_want(hd_reach_t *reach, uint64_t slots) {
    hd_reach_slot_t slot;
    /* relaxed, both: only who asks first goes on */
    if (!(slots & ~atomic_load_explicit(&reach->wanted, memory_order_relaxed)) ||
        !(slots & ~atomic_fetch_or_explicit(&reach->wanted, slots, memory_order_relaxed))) {
        return;
    }
    if (reach->serve) {
        reach->serve(reach->arg);
    }
    while (!reach->by_processes && hd_reach_take(reach, &slot)) {
        hd_reach_give(reach, slot.slot, map_here(&slot));
    }
}

void hd_reach_serve_by(hd_reach_t *reach, void (*serve)(void *arg), void *arg) {
    reach->serve = serve;
    reach->arg = arg;
}

bool hd_reach_take(hd_reach_t *reach, hd_reach_slot_t *slot) {
    hd_lock(&reach->lock);
    uint64_t wanted = atomic_load_explicit(&reach->wanted, memory_order_relaxed);
    uint64_t open = wanted & ~reach->taken & ~hd_reach_slots(reach) & ~UINT64_C(1);
    uint32_t i = open ? (uint32_t)__builtin_ctzll(open) : 0;
    reach->taken |= i ? UINT64_C(1) << i : 0;
    hd_unlock(&reach->lock);
    /* acquire: pairs with take_slot. It is another process's to write: whoever names a slot that is
       not there gets nothing */
    kind_t kind =
        i ? atomic_load_explicit(&reach->table->slot[i].kind, memory_order_acquire) : NOTHING_YET;
    if (kind == NOTHING_YET) {
        return false;
    }
    slot->slot = i;
    slot->is_block = kind == A_BLOCK;
    slot->process = reach->table->slot[i].process;
    memcpy(slot->name, reach->table->slot[i].name, sizeof(slot->name));
    slot->bytes = (size_t)reach->table->slot[i].bytes;
    return true;
}

void hd_reach_give(hd_reach_t *reach, uint32_t slot, hd_heap_view_t *view) {
    hd_assert(slot > 0 && slot < HD_REACH_SLOTS && !reach->view[slot]);
    if (view) {
        reach->view[slot] = view;
        if (view->permit) {
            /* relaxed: add() publishes it */
            atomic_fetch_or_explicit(&reach->attached, UINT64_C(1) << slot, memory_order_relaxed);
        }
        add(reach, slot, (uintptr_t)view->base, view->bytes);
    } else {
        const char *none = NULL; /* if nobody has said more */
        /* relaxed, both: see hd_reach_has_failed */
        atomic_compare_exchange_strong_explicit(&reach->why[slot], &none, "has no room here",
                                                memory_order_relaxed, memory_order_relaxed);
    }
}

void hd_reach_miss(hd_reach_t *reach, uint32_t slot, const char *why) {
    hd_assert(slot > 0 && slot < HD_REACH_SLOTS);
    atomic_store_explicit(&reach->why[slot], why, memory_order_relaxed); /* a constant */
}

/* What a process has of a kind, and how this one gets on with it. */
typedef struct met {
    uint32_t n, mapped;
    const char *why; /* one can't be had; NULL: they may be */
} met_t;

static met_t met_of(const hd_reach_t *reach, kind_t kind, uint32_t process) {
    uint64_t reached = hd_reach_slots(reach);
    met_t met = {0};
    for (uint32_t i = 1; i < HD_REACH_SLOTS; i++) {
        /* acquire: the entry; pairs with take_slot */
        if (atomic_load_explicit(&reach->table->slot[i].kind, memory_order_acquire) != kind ||
            reach->table->slot[i].process != process) {
            continue;
        }
        const char *missed = atomic_load_explicit(&reach->why[i], memory_order_relaxed);
        met.n++;
        met.mapped += (uint32_t)(reached >> i & 1);
        met.why = missed ? missed : met.why;
    }
    return met;
}

void hd_reach_say(const hd_reach_t *reach, uint32_t process, hd_text_t *text) {
    met_t met = met_of(reach, A_HEAP, process);
    if (met.why) {
        hd_text_add(text, "not near: a heap of it can't be mapped: it %s", met.why);
    } else if (met.n == 0) {
        hd_text_add(text, "near where all buffers lie in heaps (none of it so far)");
    } else {
        hd_text_add(text, "near where all buffers lie in heaps (%u of its %u mapped)", met.mapped,
                    met.n);
    }
}

void hd_reach_say_blocks(const hd_reach_t *reach, uint32_t process, hd_text_t *text) {
    met_t met = met_of(reach, A_BLOCK, process);
    if (no_blocks(reach)) {
        return;
    }
    if (met.why) {
        hd_text_add(text, "not by xpmem: %s; ", met.why);
    } else if (met.n == 0) {
        hd_text_add(text, "near: xpmem (none of its memory so far); ");
    } else {
        hd_text_add(text, "near: xpmem (%u of %u blocks of its memory attached); ", met.mapped,
                    met.n);
    }
}

void hd_reach_say_none(const hd_reach_t *reach, hd_text_t *text) {
    const char *why = no_blocks(reach);
    if (why && reach->by_processes) {
        hd_text_add(text, "; not by xpmem: %s", why);
    }
}

/* --- processes that are gone ------------------------------------------------------------------ */

void hd_reach_lose(hd_reach_t *reach, uint32_t process) {
    hd_assert_lt(process, HD_FAR_MOST);
    /* release: pairs with the acquire below; its last accesses are over */
    atomic_fetch_or_explicit(&reach->lost[process / 64], UINT64_C(1) << process % 64,
                             memory_order_release);
}

bool hd_reach_has_lost(const hd_reach_t *reach, uint32_t process) {
    /* acquire: see above */
    return process < HD_FAR_MOST &&
           (atomic_load_explicit(&reach->lost[process / 64], memory_order_acquire) >> process % 64 &
            1);
}
