/* order.c: collectives in the order of streams of the user's: internal.h says what is recorded, and
 * who waits for it.
 *
 * What is particular to a post is done before it, in the poster's thread (hd_device_arm): it looks
 * at the stream and records `ready`. A request of heddle_*_on is then over when everything is
 * enqueued. One of a triggered post is over when the devices are, but its stream has to be in order
 * before the post returns: the poster (request/stream.c) progresses until its operation is
 * enqueued; or if peers let it wait, and HEDDLE_GPU_GATE=memop asks for it (docs/gpu.md), it puts a
 * gate on the stream, which the host opens at completion.
 *
 * A gate is the only wait for something that is not enqueued yet. Nothing that may come after a
 * gate may be enqueued in front of what opens it: two collectives of one team are enqueued in any
 * order, on the same line. So while any gate of the process is closed (gates.c), posts on streams
 * are HELD: they publish when the host has seen their stream come to them (streams may wait for
 * each other by the user's events, hence all of them). What lines wait for is then never behind a
 * gate: a post that was not held has recorded `ready` before any gate that is closed was put, and
 * one that was held is ready.
 *
 * A stream "by thread" is another one in each thread. Its poster alone records and waits there: the
 * others' work ends on a line, behind which `joined` is recorded, and the poster lets its stream
 * wait for that when it comes back.
 */
#include "device/internal.h"

static hd_device_order_t *order_of(const hd_op_t *op) {
    return &hd_device_part_of(op)->order;
}

static bool same(hd_gpu_stream_t a, hd_gpu_stream_t b) {
    return a.handle == b.handle && a.device == b.device;
}

/* Makes the word of hd_device_order.meet: the post's number, and how far the post has come. */
static uint64_t meeting(uint64_t number, uint64_t state) {
    return number * HD_MEET_STATES + state;
}

/* --- what is enqueued ------------------------------------------------------------------------ */

ucc_status_t hd_device_await_own(const hd_op_t *op, hd_gpu_stream_t stream) {
    const hd_device_order_t *order = order_of(op);
    bool waits = order->is && !order->held && !same(order->stream, stream);
    return waits ? op->team->devices->driver->wait(stream, order->ready, HD_GPU_SITE_READY)
                 : UCC_OK;
}

ucc_status_t hd_device_await_ready(const hd_device_view_t *v, hd_gpu_stream_t stream) {
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < v->op->place.n && status == UCC_OK; i++) {
        status = hd_device_await_own(hd_device_op(v, i), stream);
    }
    return status;
}

/* Makes sure that there is an event, and that it is of this device: one of another is replaced. */
static ucc_status_t event_of(const hd_gpu_driver_t *driver, int device, hd_gpu_event_t **event,
                             int *of) {
    if (*event && *of != device) {
        driver->event_put(*event);
        *event = NULL;
    }
    *of = device;
    return *event ? UCC_OK : driver->event_take(device, event);
}

ucc_status_t hd_device_record(const hd_op_t *op, struct hd_device_done *done,
                              hd_gpu_stream_t stream) {
    const hd_gpu_driver_t *driver = op->team->devices->driver;
    ucc_status_t status = event_of(driver, stream.device, &done->event, &done->event_of);
    if (status == UCC_OK) {
        status = driver->record(stream, done->event);
    }
    done->key = hd_outer_key(op);
    done->stream = stream;
    done->recorded = status == UCC_OK;
    return status;
}

bool hd_device_captured_since(const hd_op_t *op) {
    const hd_device_order_t *order = order_of(op);
    hd_gpu_capture_t now = {.id = 0};
    return order->posted && !order->capture &&
           op->team->devices->driver->capture(order->stream, &now) == UCC_OK &&
           (now.active || now.broken);
}

/* --- members join ---------------------------------------------------------------------------- */

/* Lets the host wait, because a stream could not be told to. */
static void await_here(hd_devices_t *devices, hd_gpu_event_t *event, int device) {
    if (hd_device_await_event(devices->driver, event, HD_GPU_SITE_NOT_JOINED) != UCC_OK) {
        hd_devices_abandon(devices, device);
    }
}

/* Lets the stream wait for those of the n that are of the operation's exchange. NULL: the host
 * does. */
static ucc_status_t await_ends(const hd_op_t *op, const struct hd_device_done *end, uint32_t n,
                               const hd_gpu_stream_t *stream, hd_gpu_site_t site) {
    hd_devices_t *devices = op->team->devices;
    ucc_status_t status = UCC_OK;
    for (const struct hd_device_done *done = end; done < end + n && status == UCC_OK; done++) {
        if (done->key != hd_outer_key(op) || !done->recorded) {
            continue;
        }
        if (!stream) {
            await_here(devices, done->event, done->stream.device);
        } else if (!same(*stream, done->stream)) {
            status = devices->driver->wait(*stream, done->event, site);
        }
    }
    return status;
}

/* Lets a line wait for the ends, and records `joined` behind that, for a stream by thread. */
static ucc_status_t join_late(const hd_op_t *op, const struct hd_device_done *end, uint32_t n) {
    const hd_device_order_t *order = order_of(op);
    hd_devices_t *devices = op->team->devices;
    hd_line_t *line;
    ucc_status_t status =
        hd_devices_lock_line(devices, order->stream.device, op->group, order->capture, &line);
    if (status != UCC_OK) {
        return status;
    }
    status = await_ends(op, end, n, &line->stream, HD_GPU_SITE_LATE);
    if (status == UCC_OK) {
        status = devices->driver->record(line->stream, order->joined);
    }
    hd_line_unlock(line);
    return status;
}

static ucc_status_t join(const hd_op_t *op, const struct hd_device_done *end, uint32_t n) {
    const hd_device_order_t *order = order_of(op);
    if (hd_device_captured_since(op)) {
        return hd_op_refuse(op, UCC_ERR_INVALID_PARAM,
                            "a capture of its stream was begun after the post, before all was "
                            "enqueued: what it captures can't come after the collective");
    }
    return order->stream.by_thread ? join_late(op, end, n)
                                   : await_ends(op, end, n, &order->stream, HD_GPU_SITE_DONE);
}

ucc_status_t hd_device_join(hd_op_t *op, const struct hd_device_done *done, uint32_t n) {
    hd_device_order_t *order = order_of(op);
    /* acquire: the gate, which I may be about to open; pairs with change */
    uint64_t word = atomic_load_explicit(&order->meet, memory_order_acquire);
    hd_assert(order->is && word % HD_MEET_STATES != HD_MEET_JOINED); /* a post is joined once */
    if (word % HD_MEET_STATES == HD_MEET_GATED) {
        return UCC_OK;
    }
    ucc_status_t status = join(op, done, n);
    if (status != UCC_OK && !order->capture) {
        (void)await_ends(op, done, n, NULL, HD_GPU_SITE_NONE);
    }
    uint64_t open = meeting(word / HD_MEET_STATES, HD_MEET_OPEN);
    hd_gpu_handed_over(order);
    /* release: what I have enqueued; pairs with hd_device_post_is_open. If a gate came first, that
     * will do, too */
    atomic_compare_exchange_strong_explicit(&order->meet, &open,
                                            meeting(word / HD_MEET_STATES, HD_MEET_JOINED),
                                            memory_order_release, memory_order_relaxed);
    return status;
}

/* --- from the launch to the end -------------------------------------------------------------- */

void hd_device_begin_part(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_device_order_t *order = &part->order;
    /* relaxed: its poster has published it with the operation; another post's is over */
    uint64_t word = atomic_load_explicit(&order->meet, memory_order_relaxed);
    order->is = word % HD_MEET_STATES != HD_MEET_OVER;
    hd_assert(!part->renamed);
    part->renamed = true;
    part->users = op->call;
    if (order->is && order->capture) {
        op->call.signature = hd_terms_captured(op->call.signature, order->capture);
    }
    part->outcome = UCC_OK;
    part->drained_by = 0;
    part->waits = 0;
}

ucc_status_t hd_device_hold(const hd_op_t *op) {
    return order_of(op)->is && order_of(op)->held ? UCC_INPROGRESS : UCC_OK;
}

ucc_status_t hd_device_ready(hd_op_t *op) {
    return op->team->devices->driver->event_query(order_of(op)->ready, HD_GPU_SITE_HELD);
}

void hd_device_drop(hd_op_t *op) {
    hd_device_order_t *order = order_of(op);
    ucc_ee_h engine = order->engine; /* read now: when this post is over, it is the next one's */
    /* relaxed: likewise */
    uint64_t word = atomic_load_explicit(&order->meet, memory_order_relaxed);
    uint64_t number = word / HD_MEET_STATES, over = meeting(number, HD_MEET_OVER);
    if (word == over) {
        return; /* the post is in no order */
    }
    hd_assert_lt(0, number); /* posts are counted from 1 */
    order->is = false;
    /* acq_rel: the gate, if there is one; and what I have done comes before what the poster sees
     * over */
    word = atomic_exchange_explicit(&order->meet, over, memory_order_acq_rel);
    if (word % HD_MEET_STATES == HD_MEET_GATED) {
        hd_device_gate_end(order, number);
    }
    if (engine && word != over) {
        order->engine_ends(engine);
    }
}

/* --- before the post ------------------------------------------------------------------------- */

ucc_status_t hd_device_refuse_order(const hd_op_t *op, const char *why) {
    return hd_op_refuse(op, UCC_ERR_NOT_SUPPORTED, "in the order of a stream: %s", why);
}

/* Checks whether the call may be in the order of a stream that is captured like this. */
static ucc_status_t check_capture(hd_op_t *op, const hd_gpu_capture_t *capture) {
    if (capture->broken) {
        (void)hd_device_refuse_order(op, "the capture that it is part of has been broken");
        return UCC_ERR_INVALID_PARAM;
    }
    if (capture->active && hd_device_crosses(op)) {
        ucc_status_t status =
            hd_device_refuse_order(op, "it is being captured, and what crosses processes can't be");
        hd_device_span_fail(op, status); /* the others may wait for it */
        return status;
    }
    return UCC_OK;
}

static ucc_status_t take_stream(hd_op_t *op, const hd_device_post_t *post) {
    hd_device_order_t *order = order_of(op);
    const hd_gpu_driver_t *driver = op->team->devices->driver;
    hd_gpu_capture_t capture = {.id = 0};
    hd_gpu_stream_t stream = post->known ? *post->known : (hd_gpu_stream_t){.device = -1};
    ucc_status_t status = post->known ? UCC_OK : driver->stream_of(post->handle, &stream);
    if (status == UCC_OK) {
        status = driver->capture(stream, &capture);
    }
    if (status == UCC_OK) {
        status = check_capture(op, &capture);
    }
    int of = order->events_of; /* until `ready` is of the stream's device, too */
    if (status == UCC_OK) {
        status = event_of(driver, stream.device, &order->joined, &of);
    }
    if (status == UCC_OK) {
        status = event_of(driver, stream.device, &order->ready, &order->events_of);
    }
    if (status == UCC_OK) {
        status = driver->record(stream, order->ready);
    }
    order->stream = status == UCC_OK ? stream : (hd_gpu_stream_t){.device = -1};
    order->capture = capture.id;
    if (status == UCC_ERR_IO_ERROR) {
        /* it is no mistake of the caller's, and the others wait for the call */
        hd_group_poison(op->group, status);
    }
    return status;
}

/* Takes a gate before a triggered post, in case it will be needed. NULL: there may be none. */
static hd_device_gate_t *take_gate(const hd_op_t *op) {
    const hd_device_order_t *order = order_of(op);
    hd_devices_t *devices = op->team->devices;
    hd_gpu_info_t info;
    int device = order->stream.device;
    bool may = !order->capture && op->team->lib->gpu_gate == HD_CFG_GATE_MEMOP &&
               devices->driver->info(device, &info) == UCC_OK && info.words;
    return may ? hd_device_gate_take(devices, device) : NULL;
}

ucc_status_t hd_device_arm(hd_op_t *op, hd_device_post_t *post) {
    hd_device_order_t *order = order_of(op);
    hd_devices_t *devices = op->team->devices;
    ucc_status_t status = take_stream(op, post);
    if (status == UCC_OK && order->stream.by_thread && post->on == HD_ON_POSTED) {
        return hd_device_refuse_order(op, "only a call that waits can use the stream of a thread");
    }
    if (status != UCC_OK) {
        return status;
    }
    /* acquire: pairs with gates.c. A gate that comes later is put behind `ready`, in whatever
     * stream: its poster, if it is another thread, is ordered after this one by what makes its
     * stream depend on this one, or not at all. */
    order->held =
        !order->capture && atomic_load_explicit(&devices->gates, memory_order_acquire) != 0;
    order->tells = post->engine && !order->capture;
    order->posted = post->on == HD_ON_POSTED;
    order->engine = post->engine;
    order->engine_ends = post->engine_ends;
    /* relaxed, both: this request's last post is over; the next one publishes it */
    uint64_t last = atomic_load_explicit(&order->meet, memory_order_relaxed);
    hd_assert_eq(last % HD_MEET_STATES, HD_MEET_OVER);
    post->number = last / HD_MEET_STATES + 1;
    atomic_store_explicit(&order->meet, meeting(post->number, HD_MEET_OPEN), memory_order_relaxed);
    post->devices = devices;
    post->order = order;
    post->group = op->group;
    post->stream = order->stream;
    post->joined = order->joined;
    post->capture = order->capture;
    post->gate = post->on == HD_ON_TRIGGERED ? take_gate(op) : NULL;
    return UCC_OK;
}

/* --- after the post -------------------------------------------------------------------------- */

/* Lets the stream of a thread come after what lines have done for it. */
static ucc_status_t join_by_thread(hd_devices_t *devices, hd_gpu_stream_t stream,
                                   hd_gpu_event_t *joined, uint64_t capture) {
    if (!stream.by_thread) {
        return UCC_OK;
    }
    ucc_status_t status = devices->driver->wait(stream, joined, HD_GPU_SITE_BY_THREAD);
    if (status != UCC_OK && !capture) {
        await_here(devices, joined, stream.device);
    }
    return status;
}

ucc_status_t hd_device_join_thread(const hd_op_t *op) {
    const hd_device_order_t *order = op->device ? &op->device->order : NULL;
    hd_gpu_taken_over(op); /* what the host has done is before what comes now, too */
    return order ? join_by_thread(op->team->devices, order->stream, order->joined, order->capture)
                 : UCC_OK;
}

ucc_status_t hd_device_post_join(const hd_device_post_t *p) {
    hd_gpu_taken_over(p->order);
    return join_by_thread(p->devices, p->stream, p->joined, p->capture);
}

bool hd_device_post_is_open(const hd_device_post_t *p) {
    /* acquire: what the finisher has enqueued; pairs with hd_device_join */
    return atomic_load_explicit(&p->order->meet, memory_order_acquire) ==
           meeting(p->number, HD_MEET_OPEN);
}

/* Changes the state of the post: from OPEN to GATED or OVER, or from GATED back to OPEN. True: the
 * operation has not come so far as to join or end it, and will see the new state. False: it has. */
static bool change(const hd_device_post_t *p, uint64_t from, uint64_t to) {
    uint64_t word = meeting(p->number, from);
    hd_assert(from == HD_MEET_OPEN ? to == HD_MEET_GATED || to == HD_MEET_OVER
                                   : from == HD_MEET_GATED && to == HD_MEET_OPEN);
    /* release: the gate's word, for whoever opens it; pairs with hd_device_drop */
    return atomic_compare_exchange_strong_explicit(&p->order->meet, &word, meeting(p->number, to),
                                                   memory_order_release, memory_order_relaxed);
}

/* This looks at nothing but the gate and the post's number: as soon as a gate may be there, the
 * request may be over, and another post's. */
bool hd_device_post_gate(hd_device_post_t *p) {
    const hd_gpu_driver_t *driver = p->devices->driver;
    hd_device_gate_t *gate = p->gate;
    p->gate = NULL;
    hd_device_gate_close(gate, p);
    bool gated = change(p, HD_MEET_OPEN, HD_MEET_GATED);
    ucc_status_t status =
        gated ? driver->gate(p->stream, gate->word, gate->value, HD_GPU_SITE_GATE) : UCC_OK;
    bool refused = status != UCC_OK && change(p, HD_MEET_GATED, HD_MEET_OPEN);
    if (gated && status == UCC_OK && driver->record(p->stream, gate->passed) == UCC_OK) {
        gate->passes = true; /* without that, the gate's word is given back a little early */
    }
    hd_device_gate_leave(gate, gated && !refused);
    return !refused;
}

void hd_device_post_end(hd_device_post_t *p, bool posted) {
    if (!posted && change(p, HD_MEET_OPEN, HD_MEET_OVER) && p->engine) {
        p->engine_ends(p->engine);
    }
    if (p->gate) {
        hd_device_gate_leave(p->gate, false);
    }
}
