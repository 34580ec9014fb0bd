/* show.c: what heddle_info says of calls on devices: which way each would go, by the decision that
 * claimers make (hd_device_decide). It asks about calls whose endpoints have their buffers on the
 * GPUs that near.c proposes. Nothing is enqueued, and the buffers are addresses that nobody looks
 * at.
 */
#include "device/internal.h"

#include "gpu/near.h"

enum { MOST = 256 /* endpoints */, BUFFER_SHIFT = 40 /* addresses of buffers are far apart */ };

/* Endpoints, as if each had posted a call in the order of a stream of its own. */
typedef struct show {
    hd_devices_t *devices; /* of which only the driver and the number of closed gates are read */
    uint32_t n;
    bool reached;       /* the GPUs where endpoints have buffers reach each other's memory */
    uint8_t home[MOST]; /* device of each endpoint's buffers */
    struct ucc_team team;
    uint64_t counts[MOST], displacements[MOST]; /* of v types, with all blocks of one size */
    hd_op_t op[MOST];
    hd_device_part_t part[MOST];
    const void *src[MOST];
    void *dst[MOST];
    const hd_call_t *call[MOST];
} show_t;

/* Says whose the buffers of an endpoint are, which does not depend on the call. */
static void enter(show_t *s, uint32_t i) {
    hd_device_part_t *part = &s->part[i];
    hd_op_t *op = &s->op[i];
    op->device = part;
    op->team = &s->team;
    op->n = op->place.n = s->n;
    part->device = s->home[i];
    part->order.is = true;
    part->order.stream = (hd_gpu_stream_t){.device = s->home[i], .handle = op};
    for (uint32_t side = 0; side < HD_SIDES; side++) {
        uintptr_t at = (uintptr_t)(1 + HD_SIDES * i + side) << BUFFER_SHIFT;
        part->side[side].at = (const void *)at; // NOLINT(performance-no-int-to-ptr)
        part->side[side].memory = (hd_gpu_memory_t){.kind = HD_GPU_DEVICE,
                                                    .device = s->home[i],
                                                    .base = at,
                                                    .bytes = (size_t)1 << BUFFER_SHIFT};
    }
}

static ucc_status_t place_endpoints(show_t *s) {
    const hd_gpu_driver_t *driver = s->devices->driver;
    hd_gpu_places_t gpus;
    hd_locality_t where[MOST];
    uint64_t used = 0;
    ucc_status_t status = hd_gpu_locate(driver, &gpus);
    for (uint32_t i = 0; i < s->n; i++) {
        hd_topo_place(hd_topo_get(), i, s->n, &where[i]);
    }
    if (status == UCC_OK) {
        status = hd_gpu_share_out(&gpus, where, s->n, (hd_gpu_crowd_t){0}, s->home);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        enter(s, i);
        used |= UINT64_C(1) << s->home[i];
    }
    s->reached = true;
    for (uint32_t d = 0; d < driver->devices && status == UCC_OK; d++) {
        hd_gpu_info_t info = {.peers = 0};
        status = driver->info((int)d, &info);
        bool all = (used & ~(info.peers | UINT64_C(1) << d)) == 0;
        s->reached = s->reached && (all || !(used >> d & 1));
    }
    return status;
}

/* Lets all endpoints post a call in which each gives so many bytes in all. False: that is nothing
 * to a type that divides them. */
static bool post(show_t *s, uint8_t type, size_t bytes) {
    const hd_coll_t *coll = &hd_coll[type];
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    size_t element = coll->reducing ? sizeof(float) : 1;
    size_t count = (divided ? bytes / s->n : bytes) / element;
    hd_vector_t blocks = {s->counts, s->displacements, true, true};
    hd_call_t call = {.type = type,
                      .device = true,
                      .element = element,
                      .send_element = element,
                      .bytes = count * element,
                      .count = count,
                      .total = count * element * (divided ? s->n : 1),
                      .send = blocks,
                      .receive = blocks};
    if (count == 0 || (coll->reducing && hd_reducer_init(&call.reducer, UCC_DT_FLOAT32, UCC_OP_SUM,
                                                         s->n) != UCC_OK)) {
        return false;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        hd_op_t *op = &s->op[i];
        s->counts[i] = count;
        s->displacements[i] = i * count;
        call.is_root = coll->rooted && i == call.root;
        call.src = s->part[i].side[HD_SIDE_SRC].at;
        call.dst = (void *)(uintptr_t)s->part[i].side[HD_SIDE_DST].at;
        op->call = call;
        hd_device_buffers_of(op, &s->src[i], &s->dst[i]);
        s->call[i] = &op->call;
    }
    return true;
}

/* --- for people ------------------------------------------------------------------------------ */

/* Prints a cell, such as "shares 2*", in 16 characters. */
static ucc_status_t print_cell(show_t *s, uint8_t type, size_t bytes, FILE *out) {
    static const char *const way[] = {[HD_DEVICE_COPIES] = "copies",
                                      [HD_DEVICE_WINDOWS] = "windows",
                                      [HD_DEVICE_PARTIALS] = "partials"};
    const hd_work_t work = {.src = s->src, .dst = s->dst, .call = s->call};
    hd_device_view_t v;
    char text[32];
    uint32_t share = 0, claimer = 0;
    bool own = true;
    if (!post(s, type, bytes)) {
        fprintf(out, "%15s ", "-");
        return UCC_OK;
    }
    do {
        v = (hd_device_view_t){
            .op = s->op, .work = &work, .devices = s->devices, .share = share, .ordered = true};
        ucc_status_t status = hd_device_decide(&v, &s->reached);
        if (status != UCC_OK) {
            return status;
        }
        for (claimer = 0; s->home[claimer] != v.device; claimer++) {
        }
        v.op = &s->op[claimer];
        own = own && hd_device_suits_own(&v);
    } while (++share < v.shares);
    const char *fused = v.shares > 1 ? "shares" : "one";
    snprintf(text, sizeof(text), "%s %u", v.way == HD_DEVICE_FUSED ? fused : way[v.way], v.shares);
    fprintf(out, "%15s%c", text, own ? '*' : ' ');
    return UCC_OK;
}

static ucc_status_t print_table(show_t *s, FILE *out) {
    static const size_t size[] = {8, 4096, 65536, 262144, 1048576, 16777216};
    enum { SIZES = sizeof(size) / sizeof(size[0]) };
    ucc_status_t status = UCC_OK;
    fprintf(out,
            "plans on GPUs of %u endpoints, each with its buffers on the GPU above, by the bytes "
            "that one endpoint gives in all. one: a GPU does all; shares: each GPU does a share; "
            "partials: a GPU first reduces what is there of whole blocks of 8 endpoints; "
            "copies: large blocks go by copy engines; windows: by pinned memory, where GPUs don't "
            "reach each other's. With the number of GPUs that work. *: in the order of streams, "
            "nothing but the endpoints' own\n%-16s",
            s->n, "");
    for (size_t i = 0; i < SIZES; i++) {
        fprintf(out, "%15zu ", size[i]);
    }
    for (uint8_t type = 0; type < HD_N_TYPES && status == UCC_OK; type++) {
        if (!hd_coll[type].moves_data) {
            continue;
        }
        fprintf(out, "\n%-16s", hd_type_name(type));
        for (size_t i = 0; i < SIZES && status == UCC_OK; i++) {
            status = print_cell(s, type, size[i], out);
        }
    }
    fputc('\n', out);
    return status;
}

static void print_across(const show_t *s, FILE *out) {
    const char *comma = "";
    fputs(
        "among processes by way of pinned memory that stands in for each buffer, and the plans of "
        "the network; large ",
        out);
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        if (hd_device_may_pipeline(type, s->n, s->devices->driver->devices)) {
            fprintf(out, "%s%s", comma, hd_type_name(type));
            comma = ", ";
        }
    }
    fputs(*comma ? " by segments, through memory that the process's endpoints have in common\n\n"
                 : "data, too, in a process that sees several GPUs\n\n",
          out);
}

static ucc_status_t print_all(show_t *s, FILE *out) {
    ucc_status_t status = place_endpoints(s);
    if (status == UCC_OK) {
        status = print_table(s, out);
    }
    if (status == UCC_OK) {
        print_across(s, out);
    }
    return status;
}

ucc_status_t hd_device_print_plans(ucc_lib_h lib, uint32_t n, FILE *out) {
    const hd_gpu_driver_t *driver;
    ucc_status_t status = UCC_OK;
    if (hd_gpu_peek(&driver) != UCC_OK) {
        return UCC_OK;
    }
    if (driver->devices) {
        show_t *s = hd_alloc(HD_LINE, sizeof(*s));
        hd_devices_t *devices = s ? hd_devices_make(driver) : NULL;
        status = UCC_ERR_NO_MEMORY;
        if (devices) {
            s->devices = devices;
            s->n = n < MOST ? n : MOST;
            s->team.lib = lib;
            status = print_all(s, out);
            hd_devices_unmake(devices, false);
        }
        hd_free(s);
    }
    hd_gpu_close();
    return status;
}
