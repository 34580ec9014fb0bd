/* events.c: event managers: who subscribed, and who is told next. See schedule.h; stage.c tells
 * them.
 *
 * Raising an event walks the listeners by index: entries are appended and marked as gone, and the
 * list is closed up only while nobody walks it. So handlers may subscribe, unsubscribe, raise
 * events here in turn, and end the manager itself. The lock is held between handlers only.
 */
#include "threads/schedule.h"

#include "core/log.h"
#include "core/mem.h"
#include "threads/schedule_internal.h"

#include <string.h>

/* So much of a stage's epoch is kept by a listener. */
enum { KEPT = (1 << 30) - 1 };

static uint32_t epoch_of(hd_stage_t *stage) {
    /* relaxed: a run's beginning and end are ordered with an event that belongs to it by the
     * client */
    return atomic_load_explicit(&stage->epoch, memory_order_relaxed) & KEPT;
}

void hd_events_init(hd_events_t *events, hd_stage_t *stage) {
    memset(events, 0, sizeof(*events));
    events->listener = events->own;
    events->room = HD_OWN_LISTENERS;
    events->stage = stage;
    hd_lock_init(&events->lock);
}

bool hd_events_are_in_place(hd_events_t *events) {
    hd_lock(&events->lock);
    bool in_place = events->room > HD_OWN_LISTENERS ||
                    (events->room == HD_OWN_LISTENERS && events->listener == events->own);
    hd_unlock(&events->lock);
    return in_place;
}

/* Under the lock, of one that ends: its stage does not wait for this manager any more, even if
 * it has met it in this run. */
static void await_no_more(const hd_listener_t *l) {
    hd_stage_t *stage = l->stage;
    if (l->event != HD_ON_COMPLETED) {
        return;
    }
    /* relaxed, both: the schedule of a stage that has been told orders its runs with the
     * teller's */
    if (l->told == epoch_of(stage)) {
        atomic_fetch_sub_explicit(&stage->met, 1, memory_order_relaxed);
    }
    /* release: who finds that it awaits one less finds that it has met one less; pairs with
     * is_ready */
    atomic_fetch_sub_explicit(&stage->awaits, 1, memory_order_release);
}

void hd_events_destroy(hd_events_t *events, bool in_use) {
    hd_lock(&events->lock);
    for (uint32_t i = 0; (in_use || events->walk) && i < events->n; i++) {
        if (events->listener[i].stage) {
            await_no_more(&events->listener[i]);
        }
    }
    for (hd_walk_t *walk = events->walk; walk; walk = walk->next) {
        walk->gone = true;
    }
    if (events->listener != events->own) {
        hd_free(events->listener);
    }
    events->listener = events->own;
    events->room = HD_OWN_LISTENERS;
    events->n = 0;
    events->walk = NULL;
    hd_unlock(&events->lock);
}

/* Under the lock: closes the gaps that unsubscribing left. */
static void close_up(hd_events_t *events) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < events->n; i++) {
        if (events->listener[i].stage) {
            events->listener[kept++] = events->listener[i];
        }
    }
    events->n = kept;
}

/* Under the lock. */
static bool make_room(hd_events_t *events) {
    if (events->n < events->room) {
        return true;
    }
    hd_listener_t *more = hd_alloc(HD_LINE, 2 * (size_t)events->room * sizeof(*more));
    if (!more) {
        return false;
    }
    memcpy(more, events->listener, events->n * sizeof(*more));
    if (events->listener != events->own) {
        hd_free(events->listener);
    }
    events->listener = more;
    events->room *= 2;
    return true;
}

ucc_status_t hd_events_subscribe(hd_events_t *events, hd_stage_event_t event, hd_stage_t *stage) {
    hd_lock(&events->lock);
    if (!events->walk) {
        close_up(events);
    }
    bool fits = make_room(events);
    if (fits) {
        _Static_assert(HD_ON_LAST <= 4, "an event has two bits in a listener");
        events->listener[events->n++] = (hd_listener_t){
            .stage = stage, .event = (uint32_t)event & 3u, .serial = events->serial++};
        if (event == HD_ON_COMPLETED) {
            /* relaxed: its schedule reads it after having been started, or in the handler that
             * called this */
            atomic_fetch_add_explicit(&stage->awaits, 1, memory_order_relaxed);
        }
    }
    hd_unlock(&events->lock);
    if (!fits) {
        hd_error("no memory for one listener more than %u", events->n);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

ucc_status_t hd_events_unsubscribe(hd_events_t *events, hd_stage_event_t event, hd_stage_t *stage) {
    ucc_status_t status = UCC_ERR_NOT_FOUND;
    hd_lock(&events->lock);
    for (uint32_t i = 0; i < events->n && status != UCC_OK; i++) {
        hd_listener_t *l = &events->listener[i];
        if (l->stage == stage && l->event == (uint32_t)event) {
            await_no_more(l);
            l->stage = NULL;
            status = UCC_OK;
        }
    }
    if (!events->walk) {
        close_up(events);
    }
    hd_unlock(&events->lock);
    return status;
}

bool hd_events_have(hd_events_t *events, hd_stage_event_t event) {
    bool any = false;
    hd_lock(&events->lock);
    for (uint32_t i = 0; i < events->n && !any; i++) {
        any = events->listener[i].stage && events->listener[i].event == (uint32_t)event;
    }
    hd_unlock(&events->lock);
    return any;
}

hd_stage_t *hd_events_next_listener(hd_events_t *events, uint32_t *at, uint32_t before,
                                    hd_stage_event_t event, bool *again, bool *vain) {
    hd_stage_t *found = NULL;
    hd_lock(&events->lock);
    while (!found && *at < events->n) {
        hd_listener_t *l = &events->listener[(*at)++];
        bool is_new = (int32_t)(l->serial - before) >= 0;
        *vain = event == HD_ON_CANCELED && l->event == HD_ON_COMPLETED;
        if (l->stage && !is_new && (l->event == (uint32_t)event || *vain)) {
            found = l->stage;
        }
        if (found && event == HD_ON_COMPLETED) {
            *again = l->told == epoch_of(found);
            l->told = epoch_of(found) & KEPT;
        }
    }
    hd_unlock(&events->lock);
    return found;
}

uint32_t hd_events_begin_walk(hd_events_t *events, hd_walk_t *walk) {
    hd_lock(&events->lock);
    uint32_t before = events->serial;
    walk->next = events->walk;
    events->walk = walk;
    hd_unlock(&events->lock);
    return before;
}

void hd_events_end_walk(hd_events_t *events, const hd_walk_t *walk) {
    hd_lock(&events->lock);
    for (hd_walk_t **w = &events->walk; *w; w = &(*w)->next) {
        if (*w == walk) {
            *w = walk->next;
            break;
        }
    }
    if (!events->walk) {
        close_up(events);
    }
    hd_unlock(&events->lock);
}
