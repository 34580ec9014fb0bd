/* partials.c: reductions of large data over several devices that reach each other's memory: the
 * operands of a whole node of the canonical tree (core/reduce.h) that lie on one device come to a
 * partial there, which the others read instead of them.
 *
 * A node has 8 operands, or 64 or more if all nodes of that size lie on one device each. Over each
 * piece of the operands, as large as there is memory for partials:
 *
 *     make      each device reduces the nodes that lie there, the whole piece of them, to memory of
 *               its own; and of nodes that lie on several devices its share of the piece, which
 *               nobody else reads
 *     combine   each device takes its share of the piece through the rest of the tree, whose
 *               operands the partials are, and writes it to all results
 *
 * A node's value is rounded to its type where the tree does that, so the bits are those of one
 * launch. One claimer enqueues all of it (trip.c), under the locks of all lines that it uses, which
 * it takes by number of device, so that no two claimers wait for each other. Before partials are
 * written, all who have combined those that were there are waited for (USED); before they are
 * combined, and results written that may be operands, all who have made some (MADE).
 *
 * Memory of partials is that of the lowest device's line. It is of a few sizes, all kept, so that
 * none is given back while it is in use. Where a device has none left, the same is done without
 * partials: shares of the whole tree. Captures don't come here: their graphs would have to keep
 * that memory.
 */
#include "device/internal.h"

#include <string.h>

enum {
    LEAST = 256 * 1024, /* bytes of a device's partials */
    SIZES = 9,          /* of such memory: LEAST, twice that, ... 64 MiB */
    EMULATED_SIZES = 3  /* so that tests have many pieces */
};

typedef struct scratch {
    hd_gpu_block_t *block; /* NULL: never needed */
    uint64_t reached;      /* devices that are known to reach it, by bit */
} scratch_t;

typedef struct partials {
    hd_line_memory_t memory; /* must stay first */
    scratch_t scratch[HD_GPU_DEVICES][SIZES];
    /* By device: tells when it has made partials, or combined some, the last time. */
    hd_mark_t made[HD_GPU_DEVICES], combined[HD_GPU_DEVICES];
    bool refused; /* there was no memory: nobody asks again */
} partials_t;

_Static_assert(offsetof(partials_t, memory) == 0, "a line knows it by that, and frees it");

typedef struct node {
    int owner;      /* the working device on which it lies; -1: several */
    uint32_t place; /* number of the partial, among those of its owner or of the shared */
} node_t;

/* A collective that is being enqueued. */
typedef struct making {
    hd_trip_t trip;
    const hd_device_view_t *v;
    partials_t *kept;
    uint32_t size, nodes; /* operands of a node; how many nodes there are */
    /* Nodes that have partials: by device; on each device. */
    uint32_t owned[HD_GPU_DEVICES], shared;
    uint32_t which;                    /* scratch of each device */
    size_t region;                     /* bytes of a partial there */
    size_t first, count;               /* elements of this piece */
    uint64_t made;                     /* devices that have made partials of this piece, by bit */
    hd_line_t *locked[HD_GPU_DEVICES]; /* by device: lines that are locked besides trip.line */
    /* the slice's scratch */
    const void **src;    /* of nodes, as a device combines them */
    hd_gpu_part_t *part; /* of members */
    node_t *node;
} making_t;

/* --- nodes ----------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static int device_of_source(const hd_device_view_t *v, uint32_t i) {
    const hd_device_side_t *side = hd_device_side_of(v, i, HD_SIDE_SRC);
    return side->stand_in || side->memory.kind != HD_GPU_DEVICE ? -1 : side->memory.device;
}

/* Returns the working device on which the operands of the node lie that begins with `first`, as far
 * as there are some. -1: they lie on several, or on none that works. */
static int owner_of(const hd_device_view_t *v, uint32_t first, uint32_t size) {
    uint32_t end = least(first + size, v->op->place.n);
    int owner = device_of_source(v, first);
    for (uint32_t i = first + 1; i < end; i++) {
        owner = device_of_source(v, i) == owner ? owner : -1;
    }
    return owner >= 0 && (v->workers >> owner & 1) ? owner : -1;
}

bool hd_device_find_partials(const hd_device_view_t *v) {
    const hd_op_t *op = v->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    if (v->shares < 2 || v->capture || !coll->reducing || coll->prefix ||
        hd_device_source_of(op).bytes < hd_device_settings(v)->gpu_partial_min) {
        return false;
    }
    bool any = false;
    for (uint32_t first = 0; first + 1 < op->place.n && !any; first += HD_GPU_BLOCK) {
        any = owner_of(v, first, HD_GPU_BLOCK) >= 0;
    }
    return any;
}

static bool all_owned(const hd_device_view_t *v, uint32_t size) {
    bool all = true;
    for (uint32_t first = 0; first < v->op->place.n && all; first += size) {
        all = owner_of(v, first, size) >= 0;
    }
    return all;
}

static uint32_t operands_of(const making_t *m, uint32_t node) {
    return least(m->size, m->v->op->place.n - node * m->size);
}

/* Returns whether the device makes a partial of the node. A node of one operand is that operand. */
static bool makes(const making_t *m, uint32_t node, int device) {
    int owner = m->node[node].owner;
    return operands_of(m, node) > 1 && (owner == device || owner < 0);
}

static void choose_nodes(making_t *m) {
    uint32_t n = m->v->op->place.n;
    m->size = HD_GPU_BLOCK;
    while (m->size * HD_GPU_BLOCK < n && all_owned(m->v, m->size * HD_GPU_BLOCK)) {
        m->size *= HD_GPU_BLOCK;
    }
    m->nodes = (n + m->size - 1) / m->size;
    for (uint32_t i = 0; i < m->nodes; i++) {
        int owner = owner_of(m->v, i * m->size, m->size);
        m->node[i].owner = owner;
        if (operands_of(m, i) > 1) {
            m->node[i].place = owner < 0 ? m->shared++ : m->owned[owner]++;
        }
    }
}

/* Makes each operand a node: then there are no partials. */
static void leave_whole(making_t *m) {
    m->size = 1;
    m->nodes = m->v->op->place.n;
    m->shared = 0;
    memset(m->owned, 0, sizeof(m->owned));
}

/* --- memory ---------------------------------------------------------------------------------- */

static bool is_worker(const making_t *m, int device) {
    return m->v->workers >> device & 1;
}

static ucc_status_t take_lists(making_t *m) {
    uint32_t n = m->v->op->place.n;
    m->src = hd_device_scratch(m->v, n * (sizeof(*m->src) + sizeof(*m->part) + sizeof(*m->node)));
    if (!m->src) {
        return UCC_ERR_NO_MEMORY;
    }
    m->part = (hd_gpu_part_t *)(void *)(m->src + n);
    m->node = (node_t *)(void *)(m->part + n);
    return UCC_OK;
}

/* Returns how many partials a device makes. */
static uint32_t made_by(const making_t *m, int device) {
    return is_worker(m, device) ? m->owned[device] + m->shared : 0;
}

static bool take_scratch(const making_t *m, int device) {
    const hd_gpu_driver_t *driver = m->v->devices->driver;
    scratch_t *scratch = &m->kept->scratch[device][m->which];
    bool yes = scratch->block || driver->take(device, HD_GPU_DEVICE, (size_t)LEAST << m->which,
                                              &scratch->block) == UCC_OK;
    for (int d = 0; d < (int)driver->devices && yes; d++) {
        if (d != device && is_worker(m, d) && !(scratch->reached >> d & 1)) {
            yes = driver->reachable(d, scratch->block->memory, &yes) == UCC_OK && yes;
            scratch->reached |= (uint64_t)yes << d;
        }
    }
    return yes;
}

/* Finds memory for partials of all elements, or of as many as there is memory for. False: there is
 * none. */
static bool find_memory(making_t *m) {
    const hd_gpu_driver_t *driver = m->v->devices->driver;
    uint32_t most = 0, sizes = driver->emulated ? EMULATED_SIZES : SIZES;
    for (int d = 0; d < (int)driver->devices; d++) {
        most = made_by(m, d) > most ? made_by(m, d) : most;
    }
    size_t bytes = m->count * m->v->op->call.element;
    while (m->which + 1 < sizes && ((size_t)LEAST << m->which) / most < bytes) {
        m->which++;
    }
    size_t grain = hd_device_grain(m->v->op->call.element) * m->v->op->call.element;
    m->region = ((size_t)LEAST << m->which) / most / grain * grain;
    bool there = m->region > 0 && !m->kept->refused;
    for (int d = 0; d < (int)driver->devices && there; d++) {
        there = made_by(m, d) == 0 || take_scratch(m, d);
    }
    m->kept->refused = !there;
    return there;
}

/* Returns where the first element of all would be in a node's partial, which has those of this
 * piece. */
static void *partial_at(const making_t *m, uint32_t node, int device) {
    const node_t *of = &m->node[node];
    int at = of->owner < 0 ? device : of->owner;
    size_t i = of->place + (of->owner < 0 ? m->owned[device] : 0);
    hd_assert_le((i + 1) * m->region, (size_t)LEAST << m->which);
    uintptr_t memory = (uintptr_t)m->kept->scratch[at][m->which].block->memory;
    return (void *)(memory + i * m->region - m->first * m->v->op->call.element); // NOLINT
}

/* --- a piece --------------------------------------------------------------------------------- */

/* Returns the elements of this piece that a working device combines. */
static hd_device_range_t share_of(const making_t *m, int device) {
    uint32_t share = 0;
    for (int d = 0; d < device; d++) {
        share += is_worker(m, d);
    }
    hd_device_range_t range =
        hd_device_range(m->count, m->v->op->call.element, share, m->v->shares);
    range.first += m->first;
    return range;
}

static hd_gpu_width_t width_of(const making_t *m, const hd_line_t *line) {
    size_t bytes = hd_device_source_of(m->v->op).bytes * m->v->op->place.n;
    return (hd_gpu_width_t){.blocks = line->info.width,
                            .streaming = bytes > line->info.l2_bytes / 2};
}

static void make(making_t *m, int device) {
    const hd_call_t *call = &m->v->op->call;
    hd_line_t *line = hd_trip_line(&m->trip, device);
    hd_device_range_t piece = {m->first, m->count}, share = share_of(m, device);
    if (!line || made_by(m, device) == 0) {
        return;
    }
    hd_trip_await(&m->trip, line, m->kept->combined, UINT64_MAX, HD_GPU_SITE_USED);
    for (uint32_t node = 0; node < m->nodes; node++) {
        hd_device_range_t range = m->node[node].owner < 0 ? share : piece;
        hd_gpu_reduction_t what = hd_device_reduction(call, range.first, range.count);
        void *dst = makes(m, node, device) ? partial_at(m, node, device) : NULL;
        what.src = &m->v->work->src[node * m->size];
        what.dst = &dst;
        what.k = operands_of(m, node);
        what.m = 1;
        /* A single node is the root: it divides here, as what combines one node does not. */
        what.n = m->nodes == 1 ? what.k : 0;
        if (dst) {
            hd_trip_reduce(&m->trip, line, &what, width_of(m, line));
        }
    }
    if (m->owned[device]) {
        hd_trip_mark(&m->trip, &m->kept->made[device], line);
        m->made |= UINT64_C(1) << device;
    }
}

static void list_nodes(making_t *m, int device, hd_gpu_reduction_t *what) {
    for (uint32_t node = 0; node < m->nodes; node++) {
        m->src[node] = operands_of(m, node) > 1 ? partial_at(m, node, device)
                                                : m->v->work->src[node * m->size];
    }
    what->src = m->src;
    what->k = m->nodes;
}

/* Lists the members' blocks, as far as they lie in the range, as parts of the reduction. */
static void list_parts(making_t *m, hd_gpu_reduction_t *what) {
    const hd_call_t *call = &m->v->op->call;
    size_t end = what->first + what->count, before = 0;
    bool vector = hd_coll[call->type].vector;
    for (uint32_t i = 0; i < m->v->op->place.n; i++) {
        size_t count = vector ? hd_vector_count(&call->receive, i) : call->bytes / call->element;
        size_t first = before > what->first ? before : what->first;
        size_t last = before + count < end ? before + count : end;
        if (first < last) {
            uint8_t *dst = (uint8_t *)m->v->work->dst[i] + (first - before) * call->element;
            m->part[what->m++] = (hd_gpu_part_t){dst, first, last - first};
        }
        before += count;
    }
    what->form = HD_GPU_PARTS;
    what->part = m->part;
}

static void combine(making_t *m, int device) {
    const hd_op_t *op = m->v->op;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    hd_line_t *line = hd_trip_line(&m->trip, device);
    hd_device_range_t share = share_of(m, device);
    hd_gpu_reduction_t what = hd_device_reduction(&op->call, share.first, share.count);
    what.n = op->place.n;
    list_nodes(m, device, &what);
    if (coll->source == HD_WHOLE) {
        what.dst = m->v->work->dst + (coll->rooted ? op->call.root : 0);
        what.m = coll->rooted ? 1 : op->place.n;
    } else {
        list_parts(m, &what);
    }
    if (line) {
        hd_trip_await(&m->trip, line, m->kept->made, m->made, HD_GPU_SITE_MADE);
        hd_trip_reduce(&m->trip, line, &what, width_of(m, line));
        hd_trip_mark(&m->trip, &m->kept->combined[device], line);
    }
}

static void each_worker(making_t *m, void (*does)(making_t *m, int device)) {
    for (int d = 0; d < (int)m->trip.driver->devices && m->trip.status == UCC_OK; d++) {
        if (is_worker(m, d)) {
            does(m, d);
        }
    }
}

/* --- the whole ------------------------------------------------------------------------------- */

static void enqueue(making_t *m) {
    size_t count = m->count, step = count;
    if (find_memory(m)) {
        step = m->region / m->v->op->call.element;
    } else {
        leave_whole(m);
    }
    for (; m->first < count && m->trip.status == UCC_OK; m->first += step) {
        m->count = count - m->first < step ? count - m->first : step;
        m->made = 0;
        each_worker(m, make);
        each_worker(m, combine);
    }
}

static void lock_line(making_t *m, int device) {
    const hd_device_view_t *v = m->v;
    /* Locks are taken by number of device, from the trip's line on. */
    hd_assert_le(v->device, device);
    if (device != v->device) {
        hd_trip_note(&m->trip,
                     hd_devices_lock_line(v->devices, device, v->op->group, 0, &m->locked[device]));
    }
}

static void unlock_lines(making_t *m) {
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        if (m->locked[d]) {
            hd_line_unlock(m->locked[d]);
        }
    }
}

static void put_partials(hd_devices_t *devices, hd_line_memory_t *memory) {
    partials_t *partials = (partials_t *)(void *)memory;
    hd_marks_put(devices->driver, partials->made, HD_GPU_DEVICES);
    hd_marks_put(devices->driver, partials->combined, HD_GPU_DEVICES);
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        for (int i = 0; i < SIZES; i++) {
            if (partials->scratch[d][i].block) {
                devices->driver->put(partials->scratch[d][i].block);
            }
        }
    }
    hd_free(partials);
}

ucc_status_t hd_device_enqueue_partials(const hd_device_view_t *v, hd_line_t *line) {
    const hd_op_t *op = v->op;
    making_t m = {.v = v, .count = hd_device_source_of(op).bytes / op->call.element};
    m.kept = hd_line_memory(op, line, HD_LINE_PARTIALS, sizeof(*m.kept), put_partials);
    ucc_status_t status = m.kept ? take_lists(&m) : UCC_ERR_NO_MEMORY;
    if (status != UCC_OK) {
        return status;
    }
    choose_nodes(&m);
    m.trip = hd_trip_begin(v, line, m.kept->combined);
    m.trip.left[0] = m.kept->combined;
    each_worker(&m, lock_line);
    enqueue(&m);
    status = hd_trip_join(&m.trip);
    unlock_lines(&m);
    return status;
}
