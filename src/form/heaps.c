/* heaps.c: see heaps.h. A heap that can't be had is one in which buffers stay far. */
#include "form/heaps.h"

#include "core/log.h"
#include "core/mem.h"

struct hd_heap_fetch {
    hd_reach_slot_t slot;
    hd_node_fetch_t *fetch;
    hd_heap_fetch_t *next;
};

/* False: it can't be asked for. */
static bool ask(hd_heap_fetches_t *fetches, const hd_reach_slot_t *slot, hd_node_t *node,
                const hd_node_address_t *owner) {
    hd_heap_fetch_t *asked = owner ? hd_alloc(HD_LINE, sizeof(*asked)) : NULL;
    if (!asked || hd_node_fetch(node, owner, slot->name, &asked->fetch) != UCC_OK) {
        hd_free(asked);
        return false;
    }
    asked->slot = *slot;
    asked->next = fetches->list;
    fetches->list = asked;
    return true;
}

/* Of one that has come, or failed: NULL. */
static hd_heap_view_t *take(hd_reach_t *reach, const hd_heap_fetch_t *asked,
                            hd_node_segment_t *segment) {
    const char *why = "has no proper segment, or there is no room for it here";
    hd_heap_view_t *view = NULL;
    if (segment->fd < 0) {
        why = hd_node_describe(hd_node_fetch_state(asked->fetch));
        hd_info("buffers in a heap of %zu bytes stay far: it %s", asked->slot.bytes, why);
    } else if (segment->bytes == asked->slot.bytes) {
        view = hd_heap_view_map(asked->slot.name, segment);
    }
    hd_segment_close(segment);
    if (!view) {
        hd_reach_miss(reach, asked->slot.slot, why);
    }
    return view;
}

static void look(hd_heap_fetches_t *fetches, hd_reach_t *reach) {
    for (hd_heap_fetch_t **at = &fetches->list; *at;) {
        hd_heap_fetch_t *asked = *at;
        hd_node_segment_t segment;
        if (hd_node_fetch_test(asked->fetch, &segment) == UCC_INPROGRESS) {
            at = &asked->next;
            continue;
        }
        hd_reach_give(reach, asked->slot.slot, take(reach, asked, &segment));
        hd_node_fetch_end(asked->fetch);
        *at = asked->next;
        hd_free(asked);
    }
}

/* A block of another process's addresses: its name is all that it takes. */
static void attach(hd_reach_t *reach, const hd_reach_slot_t *slot) {
    const char *why = "it is not wanted here";
    hd_heap_view_t *view =
        hd_reach_has_blocks(reach) ? hd_heap_view_attach(slot->name, slot->bytes, &why) : NULL;
    if (!view) {
        hd_info("buffers of another process stay far: by XPMEM, %s", why);
        hd_reach_miss(reach, slot->slot, why);
    }
    hd_reach_give(reach, slot->slot, view);
}

bool hd_heaps_fetch(hd_heap_fetches_t *fetches, hd_reach_t *reach, hd_node_t *node,
                    hd_heap_owner_fn owner, void *arg) {
    hd_reach_slot_t slot;
    while (hd_reach_take(reach, &slot)) {
        if (slot.is_block) {
            attach(reach, &slot);
            continue;
        }
        hd_heap_view_t *view = hd_heap_view_find(slot.name); /* another team may have it */
        if (view || !ask(fetches, &slot, node, owner(arg, slot.process))) {
            if (!view) {
                hd_reach_miss(reach, slot.slot, "can't be asked for");
            }
            hd_reach_give(reach, slot.slot, view);
        }
    }
    look(fetches, reach);
    return fetches->list != NULL;
}

void hd_heaps_end(hd_heap_fetches_t *fetches) {
    while (fetches->list) {
        hd_heap_fetch_t *asked = fetches->list;
        fetches->list = asked->next;
        hd_node_fetch_end(asked->fetch);
        hd_free(asked);
    }
}
