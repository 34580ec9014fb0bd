/* reach.c: see reach.h. */
#include "shm/reach.h"

#include "shm/internal.h"

#include <string.h>

/* Shared. Entries are written once, by a process of whose heap it is. */
typedef struct table {
    alignas(HD_LINE) _Atomic uint32_t n; /* slots that are taken; slot 0 is nobody's */
    struct {
        _Atomic uint32_t is_there; /* 1: what follows is written */
        uint32_t process;
        uint64_t name[2];
        uint64_t bytes;
    } slot[HD_REACH_SLOTS];
} table_t;

struct hd_reach {
    /* by hd_reach_give, and by who takes a slot for a heap of this process; read by all */
    alignas(HD_LINE) _Atomic uint64_t reached;
    uint8_t *base[HD_REACH_SLOTS]; /* where those are reached lie */
    size_t bytes[HD_REACH_SLOTS];
    _Atomic uint8_t of_heap[HD_HEAPS]; /* slots of this process's heaps; 0: none yet */
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

static void add(hd_reach_t *reach, uint32_t slot, uint8_t *base, size_t bytes) {
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

/* Under the lock: for a heap of this process that has none. */
static uint32_t take_slot(hd_reach_t *reach, uint32_t heap) {
    table_t *table = reach->table;
    uint32_t slot = reach->is_full ? 0 : next_slot(table);
    if (!slot) {
        reach->is_full = true;
        return 0;
    }
    table->slot[slot].process = reach->number;
    hd_heap_name(heap, table->slot[slot].name);
    table->slot[slot].bytes = hd_heaps.at[heap].bytes;
    /* release: the entry; pairs with hd_reach_take */
    atomic_store_explicit(&table->slot[slot].is_there, 1, memory_order_release);
    add(reach, slot, (uint8_t *)hd_heaps.at[heap].base, hd_heaps.at[heap].bytes);
    /* release: pairs with slot_of */
    atomic_store_explicit(&reach->of_heap[heap], (uint8_t)slot, memory_order_release);
    return slot;
}

static __attribute__((noinline, cold)) uint32_t new_slot(hd_reach_t *reach, uint32_t heap) {
    hd_lock(&reach->lock);
    /* relaxed: under the lock */
    uint32_t slot = atomic_load_explicit(&reach->of_heap[heap], memory_order_relaxed);
    slot = slot ? slot : take_slot(reach, heap);
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
    return reach->base[slot] + offset_of(word);
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
    if (!i || !atomic_load_explicit(&reach->table->slot[i].is_there, memory_order_acquire)) {
        return false;
    }
    slot->slot = i;
    slot->process = reach->table->slot[i].process;
    memcpy(slot->name, reach->table->slot[i].name, sizeof(slot->name));
    slot->bytes = (size_t)reach->table->slot[i].bytes;
    return true;
}

void hd_reach_give(hd_reach_t *reach, uint32_t slot, hd_heap_view_t *view) {
    hd_assert(slot > 0 && slot < HD_REACH_SLOTS && !reach->view[slot]);
    if (view) {
        reach->view[slot] = view;
        add(reach, slot, view->base, view->bytes);
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

void hd_reach_say(const hd_reach_t *reach, uint32_t process, hd_text_t *text) {
    uint64_t reached = hd_reach_slots(reach);
    uint32_t met = 0, mapped = 0;
    const char *why = NULL;
    for (uint32_t i = 1; i < HD_REACH_SLOTS; i++) {
        /* acquire: the entry; pairs with take_slot */
        if (!atomic_load_explicit(&reach->table->slot[i].is_there, memory_order_acquire) ||
            reach->table->slot[i].process != process) {
            continue;
        }
        const char *missed = atomic_load_explicit(&reach->why[i], memory_order_relaxed);
        met++;
        mapped += (uint32_t)(reached >> i & 1);
        why = missed ? missed : why;
    }
    if (why) {
        hd_text_add(text, "not near: a heap of it can't be mapped: it %s", why);
    } else if (met == 0) {
        hd_text_add(text, "near where all buffers lie in heaps (none of it so far)");
    } else {
        hd_text_add(text, "near where all buffers lie in heaps (%u of its %u mapped)", mapped, met);
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
