/* show.c: what heddle_info says of calls on devices. It decides nothing: for each type and size it
 * has the work of an exchange enqueued by those who always do it (hd_device_run), on devices that
 * are like those of the process, by a driver that only counts.
 *
 * That driver's streams do everything at once, so that words are set and tables are free. Its
 * buffers are addresses that nobody looks at. Pinned memory is real, because tables are written
 * there.
 */
#include "device/internal.h"

#include "core/fork.h"
#include "gpu/near.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 256 /* endpoints */ };

/* --- a driver that counts -------------------------------------------------------------------- */

typedef struct counts {
    uint32_t launches, copies, tables;
    uint32_t on_lines; /* of these, so many are on internal streams */
} counts_t;

/* Guards what follows, up to the blank line: drivers have no self. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const hd_gpu_driver_t *real;
static counts_t counts;
static uint8_t home[MOST]; /* device of each endpoint's buffers */

/* Addresses say whose buffer it is: far apart, and never looked at. */
enum { BUFFER_SHIFT = 40 };

static uint8_t *buffer_of(uint32_t member, int side) {
    return (uint8_t *)(uintptr_t)((uint64_t)(1 + 2 * member + (uint32_t)side) << BUFFER_SHIFT);
}
/* The addresses behind them are memory of the library's own. */
static uint8_t *memory_on(int device) {
    return buffer_of(MOST + (uint32_t)device, HD_SIDE_SRC);
}
static int device_at(const void *pointer) {
    uint64_t number = (((uint64_t)(uintptr_t)pointer >> BUFFER_SHIFT) - 1) / 2;
    return number < MOST ? home[number] : (int)(number - MOST);
}

static ucc_status_t count_info(int device, hd_gpu_info_t *info) {
    return real->info(device, info);
}
static bool count_lost(int device) {
    (void)device;
    return false;
}
static ucc_status_t count_reachable(int device, const void *pointer, bool *yes) {
    hd_gpu_info_t info;
    int of = device_at(pointer);
    ucc_status_t status = real->info(device, &info);
    *yes = of == device || (info.peers >> of & 1) != 0;
    return status;
}

static ucc_status_t count_take(int device, hd_gpu_kind_t kind, size_t bytes,
                               hd_gpu_block_t **block) {
    *block = malloc(sizeof(**block));
    void *memory = kind == HD_GPU_DEVICE ? memory_on(device) : malloc(bytes);
    if (!*block || !memory) {
        if (kind != HD_GPU_DEVICE) {
            free(memory);
        }
        free(*block);
        hd_error("no memory for the plans of device %d", device);
        return UCC_ERR_NO_MEMORY;
    }
    **block = (hd_gpu_block_t){.memory = memory, .bytes = bytes, .device = device, .kind = kind};
    return UCC_OK;
}
static void count_put(hd_gpu_block_t *block) {
    if (block->kind != HD_GPU_DEVICE) {
        free(block->memory);
    }
    free(block);
}

/* Makes a line's stream: those of members have a handle. */
static ucc_status_t count_stream(int device, uint32_t i, hd_gpu_stream_t *stream) {
    (void)i;
    *stream = (hd_gpu_stream_t){.device = device};
    return UCC_OK;
}

static ucc_status_t count_event_take(int device, hd_gpu_event_t **event) {
    static char any;
    (void)device;
    *event = (hd_gpu_event_t *)(void *)&any;
    return UCC_OK;
}
static void count_event_put(hd_gpu_event_t *event) {
    (void)event;
}
static ucc_status_t count_record(hd_gpu_stream_t stream, hd_gpu_event_t *event) {
    (void)stream, (void)event;
    return UCC_OK;
}
static ucc_status_t count_wait(hd_gpu_stream_t stream, hd_gpu_event_t *event, hd_gpu_site_t site) {
    (void)stream, (void)event, (void)site;
    return UCC_OK;
}
static ucc_status_t count_query(hd_gpu_event_t *event, hd_gpu_site_t site) {
    (void)event, (void)site;
    return UCC_OK;
}

static ucc_status_t count_word_take(int device, hd_gpu_flag_t **word) {
    (void)device;
    *word = calloc(1, sizeof(**word));
    return *word ? UCC_OK : UCC_ERR_NO_MEMORY;
}
static void count_word_put(int device, hd_gpu_flag_t *word) {
    (void)device;
    free(word);
}
static ucc_status_t count_signal(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value) {
    (void)stream;
    atomic_store_explicit(word, value, memory_order_relaxed); /* this thread alone reads it */
    return UCC_OK;
}

static ucc_status_t count_launch(hd_gpu_stream_t stream, const struct hd_gpu_launch *launch) {
    (void)launch;
    counts.launches++;
    counts.on_lines += !stream.handle;
    return UCC_OK;
}
/* A copy that comes from the host is a table. */
static ucc_status_t count_copy(hd_gpu_stream_t stream, void *to, int to_device, const void *from,
                               int from_device, size_t bytes) {
    (void)to, (void)to_device, (void)from, (void)bytes;
    counts.copies += from_device >= 0;
    counts.tables += from_device < 0;
    counts.on_lines += !stream.handle;
    return UCC_OK;
}

static const hd_gpu_driver_t counting = {
    .info = count_info,
    .lost = count_lost,
    .reachable = count_reachable,
    .take = count_take,
    .put = count_put,
    .stream = count_stream,
    .event_take = count_event_take,
    .event_put = count_event_put,
    .record = count_record,
    .wait = count_wait,
    .event_query = count_query,
    .event_await = count_query,
    .word_take = count_word_take,
    .word_put = count_word_put,
    .signal = count_signal,
    .launch = count_launch,
    .copy = count_copy,
};

/* --- an exchange that nobody waits for ------------------------------------------------------- */

typedef struct show {
    uint32_t n;
    hd_gpu_driver_t driver;
    hd_devices_t *devices;
    uint32_t claimer[HD_GPU_DEVICES]; /* by share */
    struct ucc_team team;
    hd_group_t *group;
    struct hd_device_done done[HD_GPU_DEVICES];
    uint64_t counts[MOST], displacements[MOST]; /* of v types, with all blocks of one size */
    hd_op_t op[MOST];
    hd_device_part_t part[MOST];
    const void *src[MOST];
    void *dst[MOST];
    const hd_call_t *call[MOST];
} show_t;

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

/* Fills in the operations and parts, as if the members had posted. */
static void post(show_t *s, const hd_call_t *call, bool on_streams) {
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
        *part = (hd_device_part_t){.device = home[i], .send = call->send, .receive = call->receive};
        part->order.is = on_streams;
        part->order.stream = (hd_gpu_stream_t){.device = home[i], .handle = op};
        for (int side = 0; side < HD_SIDES; side++) {
            part->side[side] = (hd_device_side_t){.memory = {.kind = HD_GPU_DEVICE,
                                                             .device = home[i],
                                                             .base = (uintptr_t)buffer_of(i, side),
                                                             .bytes = (size_t)1 << BUFFER_SHIFT},
                                                  .at = buffer_of(i, side)};
        }
    }
}

/* Returns an endpoint whose buffers are on the device. */
static uint32_t find_claimer(const show_t *s, int device) {
    uint32_t i = s->n - 1;
    while (i > 0 && home[i] != device) {
        i--;
    }
    return i;
}

/* Enqueues all shares. *view is how the first of them was done. They are claimed by those who were
 * found the last time. */
static ucc_status_t run(show_t *s, hd_device_view_t *view) {
    hd_work_t work = {.src = s->src, .dst = s->dst, .call = s->call};
    ucc_status_t status = UCC_OK;
    memset(&counts, 0, sizeof(counts));
    for (uint32_t share = 0; share < s->driver.devices && status == UCC_OK; share++) {
        hd_device_view_t v = {.op = &s->op[s->claimer[share]],
                              .work = &work,
                              .devices = s->devices,
                              .done = &s->done[share],
                              .share = share};
        status = hd_device_run(&v);
        s->claimer[share] = find_claimer(s, v.device);
        *view = share == 0 ? v : *view;
    }
    return status;
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

/* Prints a cell, such as "shares 2*", in 16 characters. */
static ucc_status_t print_cell(show_t *s, uint8_t type, size_t bytes, FILE *out) {
    hd_device_view_t view;
    hd_call_t call;
    char text[32];
    if (!describe(s, type, bytes, &call)) {
        fprintf(out, "%15s ", "-");
        return UCC_OK;
    }
    post(s, &call, false);
    ucc_status_t status = run(s, &view);
    counts_t plain = counts;
    if (status == UCC_OK) {
        post(s, &call, true);
        status = run(s, &view);
    }
    int used = snprintf(text, sizeof(text), "%s ", name_of(&view));
    if (plain.copies) {
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%u+", plain.copies);
    }
    snprintf(text + used, sizeof(text) - (size_t)used, "%u%s", plain.launches,
             plain.tables ? "t" : "");
    fprintf(out, "%15s%c", text, counts.on_lines ? ' ' : '*');
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
            "reach each other's. With the number of launches, and before a + that of copies; t: "
            "their addresses take a table. *: in the order of streams, nothing but the endpoints' "
            "own\n%-16s",
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
        if (hd_device_may_pipeline(type, s->n, s->driver.devices)) {
            fprintf(out, "%s%s", comma, hd_type_name(type));
            comma = ", ";
        }
    }
    fputs(*comma ? " by segments, through memory that the process's endpoints have in common\n\n"
                 : "data, too, in a process that sees several GPUs\n\n",
          out);
}

static ucc_status_t place_endpoints(uint32_t n) {
    hd_gpu_places_t gpus;
    hd_locality_t where[MOST];
    ucc_status_t status = hd_gpu_locate(real, &gpus);
    for (uint32_t i = 0; i < n; i++) {
        hd_topo_place(hd_topo_get(), i, n, &where[i]);
    }
    if (status == UCC_OK) {
        status = hd_gpu_share_out(&gpus, where, n, (hd_gpu_crowd_t){0}, home);
    }
    return status;
}

static ucc_status_t print_all(show_t *s, FILE *out) {
    ucc_status_t status = place_endpoints(s->n);
    if (status == UCC_OK) {
        status = print_table(s, out);
    }
    if (status == UCC_OK) {
        print_across(s, out);
    }
    return status;
}

/* Takes what showing needs, prints all, and gives it back. */
static ucc_status_t show(ucc_lib_h lib, uint32_t n, FILE *out) {
    hd_group_config_t config = hd_team_group_config(lib, UCC_NO_SYNC_COLLECTIVES);
    show_t *s = hd_alloc(HD_LINE, sizeof(*s));
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (s) {
        s->n = n < MOST ? n : MOST;
        s->driver = counting;
        s->driver.devices = real->devices;
        s->driver.emulated = real->emulated;
        s->team.lib = lib;
        s->devices = s->team.devices = hd_devices_make(&s->driver);
        s->group = s->devices ? hd_group_create(s->n, &config) : NULL;
    }
    if (s && s->group) {
        status = print_all(s, out);
        hd_home_unpin(&s->group->home);
    }
    for (uint32_t d = 0; s && d < real->devices; d++) {
        hd_free(s->done[d].scratch);
    }
    if (s && s->devices) {
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
    hd_fork_guard(&lock);
    pthread_mutex_lock(&lock);
    real = driver;
    ucc_status_t status = driver->devices ? show(lib, n, out) : UCC_OK;
    pthread_mutex_unlock(&lock);
    hd_gpu_close();
    return status;
}
