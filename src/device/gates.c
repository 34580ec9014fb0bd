/* gates.c: gates of triggered posts (order.c): words that streams wait for, and that the host
 * opens.
 *
 * A gate is closed from before its stream is told to wait until its request ends
 * (hd_device_gate_end): whoever ends the request opens it. But the endpoint's own thread may be
 * inside the driver, waiting for that very stream. So when the group fails, whoever finds that out
 * opens all gates of the group: each is a store.
 *
 * Gates belong to no request. A gate is its poster's until it is closed, and then the list's below;
 * when it is open, and its poster has come back from the driver, it is kept for whoever needs one.
 * A gate's values only grow, so it may be closed again while a stream has yet to pass it; only
 * before the words are given back, that is waited for.
 */
#include "device/internal.h"

static hd_lock_t lock;           /* guards what follows, and hd_devices.gate */
static hd_device_gate_t *closed; /* of all groups of the process */

void hd_device_gates_inherit(void) {
    hd_lock_forget(&lock);
}

/* Keeps the gate, which may be closed again. The caller holds the lock. */
static void keep(hd_device_gate_t *gate) {
    gate->next = gate->devices->gate;
    gate->devices->gate = gate;
}

/* Takes the gate out of the list: nothing waits for it any more. The caller holds the lock. */
static void unlist(hd_device_gate_t *gate) {
    hd_device_gate_t **at = &closed;
    while (*at != gate) {
        hd_assert(*at);
        at = &(*at)->next;
    }
    *at = gate->next;
    gate->closed = false;
    /* release: whoever finds no gate comes after the opening; pairs with hd_device_arm */
    uint32_t before = atomic_fetch_sub_explicit(&gate->devices->gates, 1, memory_order_release);
    hd_assert_lt(0, before);
    (void)before;
}

/* Opens the gates of a group that has failed, so that no stream waits for requests that may never
 * end. */
static void open_all(const hd_group_t *group) {
    hd_lock(&lock);
    for (const hd_device_gate_t *gate = closed; gate; gate = gate->next) {
        if (hd_group_first(gate->group) == group) {
            hd_gpu_word_open(gate->word, gate->value);
        }
    }
    hd_unlock(&lock);
}

/* --- one ------------------------------------------------------------------------------------- */

static void put(hd_device_gate_t *gate) {
    const hd_gpu_driver_t *driver = gate->devices->driver;
    if (gate->word) {
        driver->word_put(gate->device, gate->word);
    }
    if (gate->passed) {
        driver->event_put(gate->passed);
    }
    hd_free(gate);
}

hd_device_gate_t *hd_device_gate_take(hd_devices_t *devices, int device) {
    const hd_gpu_driver_t *driver = devices->driver;
    hd_lock(&lock);
    hd_device_gate_t **at = &devices->gate;
    while (*at && (*at)->device != device) {
        at = &(*at)->next;
    }
    hd_device_gate_t *gate = *at;
    *at = gate ? gate->next : NULL;
    hd_unlock(&lock);
    if (gate || !(gate = hd_alloc(HD_LINE, sizeof(*gate)))) {
        return gate;
    }
    gate->devices = devices;
    gate->device = device;
    if (driver->word_take(device, &gate->word) != UCC_OK ||
        driver->event_take(device, &gate->passed) != UCC_OK) {
        put(gate);
        return NULL;
    }
    return gate;
}

void hd_device_gate_close(hd_device_gate_t *gate, const hd_device_post_t *post) {
    /* relaxed: what this thread enqueues behind the gate, or hands to another thread, comes after
     * it */
    atomic_fetch_add_explicit(&gate->devices->gates, 1, memory_order_relaxed);
    hd_lock(&lock);
    gate->value++;
    /* Nobody has opened it for this post. */
    hd_assert(!hd_gpu_word_reached(gate->word, gate->value));
    gate->group = post->group;
    gate->order = post->order;
    gate->number = post->number;
    gate->put = false;
    gate->closed = true;
    gate->next = closed;
    closed = gate;
    hd_unlock(&lock);
    hd_group_on_poison(post->group, open_all);
}

void hd_device_gate_leave(hd_device_gate_t *gate, bool waits) {
    hd_lock(&lock);
    hd_assert(!waits || !gate->put);
    if (gate->closed && !waits) {
        unlist(gate);
    }
    gate->put = true;
    if (!gate->closed) {
        keep(gate);
    }
    hd_unlock(&lock);
}

void hd_device_gate_end(const hd_device_order_t *order, uint64_t number) {
    hd_lock(&lock);
    hd_device_gate_t *gate = closed;
    while (gate->order != order || gate->number != number) {
        gate = gate->next;
        hd_assert(gate); /* whoever ends a post that is gated finds its gate */
    }
    hd_gpu_word_open(gate->word, gate->value);
    unlist(gate);
    if (gate->put) {
        keep(gate);
    }
    hd_unlock(&lock);
}

/* --- the end --------------------------------------------------------------------------------- */

void hd_device_gates_await(hd_devices_t *devices) {
    for (hd_device_gate_t *gate = devices->gate; gate; gate = gate->next) {
        if (gate->passes &&
            hd_device_await_event(devices->driver, gate->passed, HD_GPU_SITE_NONE) != UCC_OK) {
            hd_devices_abandon(devices, gate->device);
            return;
        }
    }
}

void hd_device_gates_put(hd_devices_t *devices, bool forget) {
    /* relaxed: every user is gone */
    hd_assert(forget || atomic_load_explicit(&devices->gates, memory_order_relaxed) == 0);
    while (devices->gate) {
        hd_device_gate_t *gate = devices->gate;
        devices->gate = gate->next;
        if (forget) {
            hd_free(gate);
        } else {
            put(gate);
        }
    }
}
