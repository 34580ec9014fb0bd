/* show.c: what heddle_info says of calls on devices: which way each would go, by the decision that
 * claimers make (hd_device_decide). It asks about calls whose endpoints have their buffers on the
 * GPUs that near.c proposes. Nothing is enqueued, and the buffers are addresses that nobody looks
 * at.
 */
#include "device/internal.h"

#include "gpu/near.h"

enum { MOST = 256 /* endpoints */ };

typedef struct show {
    const hd_gpu_driver_t *driver;
    uint32_t n;
    uint8_t home[MOST];    /* device of each endpoint's buffers */
    hd_devices_t *devices; /* of which only the number of closed gates is read */
    struct ucc_team team;
    hd_group_t *group;
    uint64_t counts[MOST], displacements[MOST]; /* of v types, with all blocks of one size */
    hd_op_t op[MOST];
    hd_device_part_t part[MOST];
    const void *src[MOST];
    void *dst[MOST];
    const hd_call_t *call[MOST];
} show_t;

/* Addresses are far apart, one for each buffer. */
enum { BUFFER_SHIFT = 40 };

static uint8_t *buffer_of(uint32_t member, int side) {
    return (uint8_t *)(uintptr_t)((uint64_t)(1 + 2 * member + (uint32_t)side) << BUFFER_SHIFT);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Describes a call in which each endpoint gives so many bytes in all. False: that is nothing to a
 * type that divides them. */
static bool describe(show_t *s, uint8_t type, size_t bytes, hd_call_t *call) {
    const hd_coll_t *coll = &hd_coll[type];
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    size_t element = coll->reducing ? sizeof(float) : 1;
    size_t block = (divided ? bytes / s->n : bytes) / element * element;
    for (uint32_t i = 0; i < s->n; i++) {
        s->counts[i] = block / element;
        s->displacements[i] = i * (block / element);
    }
    hd_vector_t blocks = {s->counts, s->displacements, true, true};
    *call = (hd_call_t){.type = type,
                        .device = true,
                        .element = element,
                        .send_element = element,
                        .bytes = block,
                        .count = block / element,
                        .total = divided ? block * s->n : block,
                        .send = blocks,
                        .receive = blocks};
    return block > 0 && (!coll->reducing || hd_reducer_init(&call->reducer, UCC_DT_FLOAT32,
                                                            UCC_OP_SUM, s->n) == UCC_OK);
}

/* Fills in the operations and parts, as if the members had posted in the order of streams. */
static void post(show_t *s, const hd_call_t *call) {
    for (uint32_t i = 0; i < s->n; i++) {
        hd_device_part_t *part = &s->part[i];
        hd_op_t *op = &s->op[i];
        op->device = part;
        op->n = s->n;
        op->me = i;
        op->team = &s->team;
        op->group = s->group;
        op->place = (hd_place_t){.board = s->group->board, .me = i, .n = s->n, .k = 1};
        op->team_ep = i;
        op->call = *call;
        op->call.is_root = hd_coll[call->type].rooted && i == call->root;
        op->call.src = buffer_of(i, HD_SIDE_SRC);
        op->call.dst = buffer_of(i, HD_SIDE_DST);
        hd_device_buffers_of(op, &s->src[i], &s->dst[i]);
        s->call[i] = &op->call;
        *part = (hd_device_part_t){.device = s->home[i]};
        part->order.is = true;
        part->order.stream = (hd_gpu_stream_t){.device = s->home[i], .handle = op};
        for (int side = 0; side < HD_SIDES; side++) {
            part->side[side] = (hd_device_side_t){.memory = {.kind = HD_GPU_DEVICE,
                                                             .device = s->home[i],
                                                             .base = (uintptr_t)buffer_of(i, side),
                                                             .bytes = (size_t)1 << BUFFER_SHIFT},
                                                  .at = buffer_of(i, side)};
        }
    }
}

/* Returns whether all GPUs where endpoints have buffers reach each other's memory. */
static ucc_status_t all_reach(const show_t *s, bool *yes) {
    uint64_t used = 0;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < s->n; i++) {
        used |= UINT64_C(1) << s->home[i];
    }
    *yes = true;
    for (uint32_t d = 0; d < s->driver->devices && status == UCC_OK; d++) {
        hd_gpu_info_t info = {.peers = 0};
        status = s->driver->info((int)d, &info);
        *yes = *yes && (!(used >> d & 1) || (used & ~(info.peers | UINT64_C(1) << d)) == 0);
    }
    return status;
}

/* Returns an endpoint whose buffers are on the device. */
static uint32_t find_claimer(const show_t *s, int device) {
    uint32_t i = s->n - 1;
    while (i > 0 && s->home[i] != device) {
        i--;
    }
    return i;
}

/* --- for people ------------------------------------------------------------------------------ */

static const char *name_of(const hd_device_view_t *v) {
    switch (v->way) {
    case HD_DEVICE_COPIES:
        return "copies";
    case HD_DEVICE_WINDOWS:
        return "windows";
    case HD_DEVICE_PARTIALS:
        return "partials";
    case HD_DEVICE_FUSED:
        break;
    }
    return v->shares > 1 ? "shares" : "one";
}

/* Decides share `share` of a call whose members have posted. */
static ucc_status_t decide(show_t *s, const hd_work_t *work, uint32_t share, bool reached,
                           hd_device_view_t *v) {
    *v = (hd_device_view_t){
        .op = &s->op[0], .work = work, .devices = s->devices, .share = share, .ordered = true};
    ucc_status_t status = hd_device_decide(v, &reached);
    v->op = &s->op[find_claimer(s, v->device)];
    return status;
}

/* Prints a cell, such as "shares 2*", in 16 characters. */
static ucc_status_t print_cell(show_t *s, uint8_t type, size_t bytes, FILE *out) {
    hd_work_t work = {.src = s->src, .dst = s->dst, .call = s->call};
    hd_device_view_t v;
    hd_call_t call;
    char text[32];
    bool reached;
    if (!describe(s, type, bytes, &call)) {
        fprintf(out, "%15s ", "-");
        return UCC_OK;
    }
    post(s, &call);
    ucc_status_t status = all_reach(s, &reached);
    if (status == UCC_OK) {
        status = decide(s, &work, 0, reached, &v);
    }
    if (status != UCC_OK) {
        return status;
    }
    bool own = v.way == HD_DEVICE_FUSED || v.way == HD_DEVICE_COPIES;
    snprintf(text, sizeof(text), "%s %u", name_of(&v), v.shares);
    for (uint32_t share = 0; share < v.shares && own && status == UCC_OK; share++) {
        hd_device_view_t each;
        status = decide(s, &work, share, reached, &each);
        own = status == UCC_OK && hd_device_suits_own(&each);
    }
    fprintf(out, "%15s%c", text, own ? '*' : ' ');
    return status;
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
        if (hd_device_may_pipeline(type, s->n, s->driver->devices)) {
            fprintf(out, "%s%s", comma, hd_type_name(type));
            comma = ", ";
        }
    }
    fputs(*comma ? " by segments, through memory that the process's endpoints have in common\n\n"
                 : "data, too, in a process that sees several GPUs\n\n",
          out);
}

static ucc_status_t place_endpoints(show_t *s) {
    hd_gpu_places_t gpus;
    hd_locality_t where[MOST];
    ucc_status_t status = hd_gpu_locate(s->driver, &gpus);
    for (uint32_t i = 0; i < s->n; i++) {
        hd_topo_place(hd_topo_get(), i, s->n, &where[i]);
    }
    if (status == UCC_OK) {
        status = hd_gpu_share_out(&gpus, where, s->n, (hd_gpu_crowd_t){0}, s->home);
    }
    return status;
}

/* Takes what showing needs, prints all, and gives it back. */
static ucc_status_t show(ucc_lib_h lib, const hd_gpu_driver_t *driver, uint32_t n, FILE *out) {
    hd_group_config_t config = hd_team_group_config(lib, UCC_NO_SYNC_COLLECTIVES);
    show_t *s = hd_alloc(HD_LINE, sizeof(*s));
    if (!s) {
        return UCC_ERR_NO_MEMORY;
    }
    s->driver = driver;
    s->n = n < MOST ? n : MOST;
    s->team.lib = lib;
    s->devices = hd_devices_make(driver);
    s->group = s->devices ? hd_group_create(s->n, &config) : NULL;
    ucc_status_t status = s->group ? place_endpoints(s) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        status = print_table(s, out);
    }
    if (status == UCC_OK) {
        print_across(s, out);
    }
    if (s->group) {
        hd_home_unpin(&s->group->home);
    }
    if (s->devices) {
        hd_devices_unmake(s->devices);
    }
    hd_free(s);
    return status;
}

ucc_status_t hd_device_print_plans(ucc_lib_h lib, uint32_t n, FILE *out) {
    const hd_gpu_driver_t *driver;
    if (hd_gpu_peek(&driver) != UCC_OK) {
        return UCC_OK;
    }
    ucc_status_t status = driver->devices ? show(lib, driver, n, out) : UCC_OK;
    hd_gpu_close();
    return status;
}
