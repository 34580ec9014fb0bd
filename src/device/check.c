/* check.c: what internal.h says of a line and of a member's part, checked over all that hangs on
 * them, in builds for that (HD_DEBUG=2) and by tests. Devices are at work meanwhile, and set words:
 * only what they may not do is checked.
 */
#include "device/internal.h"

#if HD_DEBUG >= 2 || defined(HD_TEST)

static void check_table(const hd_line_t *line, const hd_device_table_t *table) {
    hd_always(!table->host == !table->device);
    hd_always(!table->host == (table->capacity == 0));
    /* At most, the work that is being enqueued reads it. */
    hd_always_le(table->ticket, line->ticket + 1);
    hd_always(!table->host || table->host->bytes >= table->capacity * sizeof(uint64_t));
}

void hd_line_check(const hd_line_t *line) {
    /* relaxed: whoever holds the lock has seen it made ready */
    hd_always(atomic_load_explicit(&line->ready, memory_order_relaxed));
    hd_always(line->word && line->ask);
    /* The device never sets a ticket that nobody has given. */
    hd_always(hd_line_is_broken(line) || !hd_gpu_word_reached(line->word, line->ticket + 1));
    for (const hd_device_table_t *table = line->table; table; table = table->next) {
        check_table(line, table);
    }
    for (const hd_device_late_t *late = line->late; late; late = late->next) {
        hd_always(late->block);
        hd_always_le(late->ticket, line->ticket);
        hd_always(late->next || late == line->late_last);
    }
    for (int i = 0; i < HD_LINE_MEMORIES; i++) {
        hd_always(!line->memory[i] || line->memory[i]->put);
    }
}

/* A stand-in is for the host's memory among the endpoints of a process, and for a device's among
 * processes. */
static void check_side(const hd_op_t *op, const hd_device_side_t *side) {
    bool host = side->memory.kind == HD_GPU_HOST;
    hd_always(!side->found || !host);
    if (side->stand_in) {
        hd_always(host || hd_device_crosses(op));
        hd_always(side->memory.kind != HD_GPU_PINNED && side->bytes > 0);
        hd_always_eq(side->stand_in->kind, HD_GPU_PINNED);
        hd_always_le(side->bytes, side->stand_in->bytes);
    }
}

static void check_order(const hd_device_order_t *order) {
    if (order->is) {
        hd_always(order->ready && order->joined);
        hd_always_eq(order->events_of, order->stream.device);
        hd_always(!order->engine || order->engine_ends);
        hd_always(!order->tells || (order->engine && !order->capture));
        /* Nothing that is captured waits for the host. */
        hd_always(!order->held || !order->capture);
    }
}

/* Tickets are of lines of these devices, and none of them is captured. */
static void check_wait(const hd_devices_t *devices, const struct hd_device_wait *wait) {
    size_t number = (size_t)(wait->line - devices->line);
    hd_always_lt(number, (size_t)devices->driver->devices * HD_GPU_STREAMS);
    hd_always_lt(number % HD_GPU_STREAMS, HD_DEVICE_LINES);
    hd_always_lt(0, wait->ticket);
}

void hd_device_check_part(const hd_op_t *op) {
    const hd_device_part_t *part = hd_device_part_of(op);
    const hd_devices_t *devices = op->team->devices;
    hd_always(part->device < (int)devices->driver->devices);
    for (int i = 0; i < HD_SIDES; i++) {
        check_side(op, &part->side[i]);
    }
    check_order(&part->order);
    hd_always_le(part->waits, HD_GPU_DEVICES);
    for (uint32_t i = 0; i < part->waits; i++) {
        check_wait(devices, &part->wait[i]);
    }
    hd_always(!part->drained_by || part->outcome != UCC_OK);
    /* relaxed: I am one of them */
    hd_always(!part->relay || atomic_load_explicit(&part->relay->users, memory_order_relaxed) > 0);
}

#else
typedef int hd_no_check_t; /* an empty file is not C */
#endif
