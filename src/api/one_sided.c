/* one_sided.c: the alltoallv that UCC's clients ask for by TUNE, "alltoallv:0-inf:@onesided", with
 * a global work buffer and buffers in mapped memory.
 *
 * There dst.displacements[p] says where in endpoint p's memory my block for it goes, and what
 * dst.counts say is of no interest: only senders know. As in UCC, the place is given as an address
 * of mine, dst.buffer plus displacement: what it is in one of my segments, the place is in p's
 * segment of the same number. Segments are those of the context, in order, and that of dst_memh. So
 * a dst that lies alike at all endpoints is all that clients think of.
 *
 * Here it is an algorithm of two steps (request/algorithm.c): an alltoall of PLACEs, by which all
 * say to each other what goes where, and an alltoallv of the usual meaning, whose displacements
 * each receiver has worked out from what it was told. No byte goes anywhere but into a segment of
 * its receiver. As in UCC, it is over at an endpoint when all blocks for it have come.
 * global_work_buffer is not touched.
 */
#include "api/api.h"
#include "core/coll.h"
#include "core/dtype.h"
#include "core/tune.h"
#include "request/algorithm.h"

#include <heddle/schedule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What goes where, in the receiver's segment. */
typedef struct place {
    uint64_t segment; /* the context's, by number; or that of dst_memh */
    uint64_t offset, bytes;
} place_t;

enum { WORDS = sizeof(place_t) / sizeof(uint64_t) };
#define OF_HANDLE UINT64_MAX

/* What a request keeps. */
typedef struct one_sided {
    ucc_schedule_t schedule;
    heddle_request_task_t tell, move;
    ucc_team_h team;
    uint32_t n;
    ucc_coll_buffer_info_v_t src, dst; /* as given: the arrays may change between posts */
    uint64_t flags;
    ucc_mem_map_t of_handle; /* NULL: there is none */
    void *from;              /* where `move` counts its displacements from */
    place_t *told, *heard;   /* [n] */
    /* [n], of the second step, in bytes; receive_at from `from` on */
    uint64_t *send_bytes, *send_at, *receive_bytes, *receive_at;
} one_sided_t;

/* --- memory ----------------------------------------------------------------------------------- */

static bool find_segment(const one_sided_t *o, uint64_t number, ucc_mem_map_t *segment) {
    const ucc_mem_map_params_t *mapped = &o->team->contexts[0]->mem_params;
    if (number == OF_HANDLE) {
        *segment = o->of_handle;
        return o->of_handle.address != NULL;
    }
    if (number >= mapped->n_segments) {
        return false;
    }
    *segment = mapped->segments[number];
    return true;
}

static bool holds(const ucc_mem_map_t *segment, uintptr_t address, place_t *place) {
    place->offset = address - (uintptr_t)segment->address;
    return address >= (uintptr_t)segment->address && place->offset < segment->len;
}

/* Where an address of mine is. */
static bool find_place(const one_sided_t *o, uintptr_t address, place_t *place) {
    const ucc_mem_map_params_t *mapped = &o->team->contexts[0]->mem_params;
    for (place->segment = 0; place->segment < mapped->n_segments; place->segment++) {
        if (holds(&mapped->segments[place->segment], address, place)) {
            return true;
        }
    }
    place->segment = OF_HANDLE;
    return o->of_handle.address && holds(&o->of_handle, address, place);
}

/* The beginning of the segment that has dst.buffer: from there, no displacement is negative if all
 * blocks lie in that segment. So what they reach is known, and if the segment is memory of a heap,
 * others write there directly (shm/near.c). */
static void *find_base(const one_sided_t *o) {
    place_t place;
    ucc_mem_map_t segment;
    bool known =
        find_place(o, (uintptr_t)o->dst.buffer, &place) && find_segment(o, place.segment, &segment);
    return known ? segment.address : o->dst.buffer;
}

/* --- the two steps ---------------------------------------------------------------------------- */

static const char name[] = "alltoallv";

/* What is said to endpoint p. */
static ucc_status_t say(one_sided_t *o, const hd_vector_t *send, const hd_vector_t *receive,
                        uint32_t p) {
    size_t element = hd_dt_size(o->src.datatype);
    place_t *place = &o->told[p];
    uintptr_t address = (uintptr_t)o->dst.buffer + (uintptr_t)(hd_vector_displacement(receive, p) *
                                                               hd_dt_size(o->dst.datatype));
    if (__builtin_mul_overflow(hd_vector_count(send, p), element, &place->bytes)) {
        hd_error("%s at endpoint %u: src.counts[%u] is beyond the address space", name, o->team->ep,
                 p);
        return UCC_ERR_INVALID_PARAM;
    }
    o->send_bytes[p] = place->bytes;
    o->send_at[p] = hd_vector_displacement(send, p) * element;
    if (place->bytes == 0) {
        place->segment = place->offset = 0;
    } else if (!find_place(o, address, place)) {
        hd_error("%s at endpoint %u: dst.displacements[%u]: address %p is in no segment of the "
                 "context's mem_params, nor of dst_memh",
                 name, o->team->ep, p, (void *)address);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* By post. */
static ucc_status_t start(void *self, uint64_t tag) {
    one_sided_t *o = self;
    bool wide_counts = (o->flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT) != 0;
    bool wide_displacements = (o->flags & UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT) != 0;
    hd_vector_t send = {.counts = o->src.counts,
                        .displacements = o->src.displacements,
                        .wide_counts = wide_counts,
                        .wide_displacements = wide_displacements};
    hd_vector_t receive = {.displacements = o->dst.displacements,
                           .wide_displacements = wide_displacements};
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; p < o->n && status == UCC_OK; p++) {
        status = say(o, &send, &receive, p);
    }
    o->tell.tag = tag;
    o->move.tag = tag + 1;
    return status;
}

/* What endpoint p has said: any value may come from other processes. */
static ucc_status_t hear(one_sided_t *o, uint32_t p) {
    const place_t *place = &o->heard[p];
    ucc_mem_map_t segment;
    o->receive_bytes[p] = place->bytes;
    o->receive_at[p] = 0;
    if (place->bytes == 0) {
        return UCC_OK;
    }
    if (!find_segment(o, place->segment, &segment)) {
        hd_error("%s at endpoint %u: endpoint %u has a block for a segment that is not mapped here",
                 name, o->team->ep, p);
        return UCC_ERR_INVALID_PARAM;
    }
    if (place->offset > segment.len || place->bytes > segment.len - place->offset) {
        hd_error(
            "%s at endpoint %u: endpoint %u has %llu bytes for offset %llu of a segment of %zu "
            "bytes",
            name, o->team->ep, p, (unsigned long long)place->bytes,
            (unsigned long long)place->offset, segment.len);
        return UCC_ERR_INVALID_PARAM;
    }
    o->receive_at[p] = (uint64_t)((uintptr_t)segment.address + place->offset - (uintptr_t)o->from);
    return UCC_OK;
}

/* All have been heard: the second step begins. */
static void begin_to_move(ucc_coll_task_t *task) {
    one_sided_t *o = (one_sided_t *)(void *)((char *)task - offsetof(one_sided_t, move));
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; p < o->n && status == UCC_OK; p++) {
        status = hear(o, p);
    }
    if (status == UCC_OK) {
        task->state = UCC_TASK_STATE_INPROGRESS;
    } else {
        (void)heddle_coll_task_end(task, status);
    }
}

/* --- init and finalize ------------------------------------------------------------------------ */

static void finalize(void *self) {
    one_sided_t *o = self;
    (void)heddle_schedule_destroy(&o->schedule);
    (void)heddle_coll_task_destroy(&o->tell.super);
    (void)heddle_coll_task_destroy(&o->move.super);
    free(o->told);
    free(o);
}

static ucc_status_t take_handle(one_sided_t *o, const ucc_coll_args_t *args) {
    if (!(args->mask & UCC_COLL_ARGS_FIELD_MEM_MAP_DST_MEMH)) {
        return UCC_OK;
    }
    bool of_all = (o->flags & UCC_COLL_ARGS_FLAG_DST_MEMH_GLOBAL) != 0;
    ucc_mem_map_mem_h handle = !of_all ? args->dst_memh.local_memh
                               : args->dst_memh.global_memh
                                   ? args->dst_memh.global_memh[o->team->ep]
                                   : NULL;
    if (!hd_api_mapping(handle, &o->of_handle)) {
        hd_error("%s at endpoint %u: dst_memh.%s is no handle of memory of this process", name,
                 o->team->ep, of_all ? "global_memh[endpoint]" : "local_memh");
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static bool take_arrays(one_sided_t *o) {
    size_t n = o->n;
    o->told = calloc(n, 2 * sizeof(place_t) + 4 * sizeof(uint64_t));
    if (!o->told) {
        return false;
    }
    o->heard = o->told + n;
    o->send_bytes = (uint64_t *)(o->heard + n);
    o->send_at = o->send_bytes + n;
    o->receive_bytes = o->send_at + n;
    o->receive_at = o->receive_bytes + n;
    return true;
}

static ucc_coll_args_t args_to_tell(const one_sided_t *o) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLTOALL};
    args.src.info = (ucc_coll_buffer_info_t){o->told, (uint64_t)o->n * WORDS, UCC_DT_UINT64,
                                             UCC_MEMORY_TYPE_HOST};
    args.dst.info = args.src.info;
    args.dst.info.buffer = o->heard;
    return args;
}

static ucc_coll_args_t args_to_move(const one_sided_t *o) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .coll_type = UCC_COLL_TYPE_ALLTOALLV,
                            .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                     UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT};
    args.src.info_v = (ucc_coll_buffer_info_v_t){o->src.buffer, o->send_bytes, o->send_at,
                                                 UCC_DT_UINT8, o->src.mem_type};
    args.dst.info_v = (ucc_coll_buffer_info_v_t){o->from, o->receive_bytes, o->receive_at,
                                                 UCC_DT_UINT8, o->dst.mem_type};
    return args;
}

static ucc_status_t make_schedule(one_sided_t *o) {
    const uint64_t tag = 0; /* comes with each post */
    ucc_coll_args_t tell = args_to_tell(o), move = args_to_move(o);
    (void)ucc_schedule_init(&o->schedule); /* these three take what is there, and no memory */
    (void)heddle_collective_task_init(&o->tell, o->team, &tell, &tag);
    (void)heddle_collective_task_init(&o->move, o->team, &move, &tag);
    o->move.super.handlers[UCC_EVENT_COMPLETED] = begin_to_move;
    ucc_status_t status =
        ucc_event_manager_subscribe(&o->tell.super.em, UCC_EVENT_COMPLETED, &o->move.super);
    if (status == UCC_OK) {
        status = ucc_schedule_add_task(&o->schedule, &o->tell.super);
    }
    return status == UCC_OK ? ucc_schedule_add_task(&o->schedule, &o->move.super) : status;
}

static ucc_status_t init(const heddle_algorithm_call_t *call, void *arg, ucc_schedule_t **schedule,
                         void **self) {
    const ucc_coll_args_t *args = call->args;
    one_sided_t *o = calloc(1, sizeof(*o));
    (void)arg;
    if (!o) {
        hd_error("%s at endpoint %u: no memory", name, call->endpoint);
        return UCC_ERR_NO_MEMORY;
    }
    o->team = call->team;
    o->n = call->size;
    o->src = args->src.info_v;
    o->dst = args->dst.info_v;
    o->flags = args->mask & UCC_COLL_ARGS_FIELD_FLAGS ? args->flags : 0;
    ucc_status_t status = take_handle(o, args);
    if (status == UCC_OK && !o->dst.displacements) {
        hd_error("%s at endpoint %u: dst.displacements is NULL", name, call->endpoint);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status == UCC_OK && !take_arrays(o)) {
        hd_error("%s at endpoint %u: no memory for %u places", name, call->endpoint, o->n);
        status = UCC_ERR_NO_MEMORY;
    }
    if (status != UCC_OK) {
        free(o->told);
        free(o);
        return status;
    }
    o->from = find_base(o);
    status = make_schedule(o);
    if (status != UCC_OK) {
        finalize(o);
        return status;
    }
    *schedule = &o->schedule;
    *self = o;
    return UCC_OK;
}

/* --- what TUNE says --------------------------------------------------------------------------- */

/* By its name, or by UCC's number for it; and in an entry that UCC understands. */
static bool is_one_sided(const hd_tune_t *tune, uint64_t coll_type) {
    return tune->wrong.length == 0 && (tune->coll_types & coll_type) && !tune->disables &&
           (hd_piece_is(tune->algorithm, "onesided") || hd_piece_is(tune->algorithm, "2"));
}

static bool takes_memory(const hd_tune_t *tune, const ucc_coll_buffer_info_v_t *info) {
    const uint32_t of_host = 1u << UCC_MEMORY_TYPE_HOST;
    return !tune->mem_types ||
           (hd_is_host(info->mem_type, info->buffer) ? tune->mem_types & of_host
                                                     : tune->mem_types & ~of_host);
}

/* Where UCC takes this algorithm. Where it takes the next one, displacements have their usual
 * meaning. */
static bool redefines(ucc_team_h team, const ucc_coll_args_t *args, void *arg,
                      ucc_coll_args_t *checked) {
    const ucc_context_h context = arg;
    bool has_flags = (args->mask & UCC_COLL_ARGS_FIELD_FLAGS) != 0;
    uint64_t flags = has_flags ? args->flags : 0;
    if (args->coll_type != UCC_COLL_TYPE_ALLTOALLV ||
        !(args->mask & UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER) ||
        (has_flags && !(flags & UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS)) ||
        (flags & UCC_COLL_ARGS_FLAG_IN_PLACE) || hd_dt_is_generic(args->src.info_v.datatype) ||
        hd_dt_is_generic(args->dst.info_v.datatype)) {
        return false;
    }
    const char *at = context->tune;
    hd_tune_t tune;
    bool takes = false;
    while (!takes && hd_tune_next(&at, team->n, &tune)) {
        takes = is_one_sided(&tune, UCC_COLL_TYPE_ALLTOALLV) && tune.takes_size &&
                tune.takes_team && takes_memory(&tune, &args->dst.info_v);
    }
    /* clients of older headers have no more than that */
    memcpy(checked, args, offsetof(ucc_coll_args_t, src_memh));
    checked->dst.info_v = args->src.info_v;
    return takes;
}

static ucc_status_t offer(ucc_context_h context, const char *tune) {
    const heddle_algorithm_params_t params = {.name = "onesided",
                                              .coll_types = UCC_COLL_TYPE_ALLTOALLV,
                                              .arg = context,
                                              .init = init,
                                              .start = start,
                                              .finalize = finalize};
    heddle_algorithm_t *algorithm;
    context->tune = strdup(tune);
    if (!context->tune) {
        hd_error("ucc_context_create: no memory for TUNE");
        return UCC_ERR_NO_MEMORY;
    }
    return hd_algorithm_register(NULL, context, &params, redefines, &algorithm);
}

enum { LINE = 400 };

static void add(char line[LINE], hd_piece_t piece) {
    size_t used = strlen(line);
    int more =
        snprintf(line + used, LINE - used, "%s%.*s", used ? "#" : "", (int)piece.length, piece.at);
    if (more >= (int)(LINE - used)) {
        memcpy(line + LINE - sizeof("..."), "...", sizeof("..."));
    }
}

/* May there be a call that it decides on? What alltoall gives is the same by any algorithm; and
 * alltoallv counts as a message of 0 bytes. */
static bool counts(const hd_tune_t *tune) {
    const uint64_t alike = UCC_COLL_TYPE_ALLTOALL | UCC_COLL_TYPE_ALLTOALLV;
    return is_one_sided(tune, alike) && !(tune->coll_types & ~alike) &&
           (tune->takes_size || !(tune->coll_types & UCC_COLL_TYPE_ALLTOALLV));
}

/* Entries that are gone by, and others. */
static bool sort_entries(const char *text, const char *origin, bool tell, char rest[LINE]) {
    bool asked = false;
    hd_tune_t tune;
    while (hd_tune_next(&text, 0, &tune)) {
        asked |= is_one_sided(&tune, UCC_COLL_TYPE_ALLTOALLV) && tune.takes_size;
        if (tune.wrong.length && tell) {
            hd_warn("TUNE (%s): \"%.*s\" is not understood, and its entry \"%.*s\" ignored", origin,
                    (int)tune.wrong.length, tune.wrong.at, (int)tune.text.length, tune.text.at);
        } else if (!counts(&tune)) {
            add(rest, tune.text);
        }
    }
    return asked;
}

/* One line, if there is anything to say. */
static void tell_idle(const char *rest, const char *origin) {
    if (*rest) {
        hd_warn("TUNE (%s): \"%s\" has no effect: algorithms are chosen by size and team, see "
                "heddle_info --plans",
                origin, rest);
    }
}

ucc_status_t hd_api_tune(ucc_context_h context, const hd_config_t *config) {
    const char *text = hd_config_string(config, HD_CFG_CTX_TL_UCP_TUNE);
    const char *of_layer = hd_config_string(config, HD_CFG_CTX_CL_BASIC_TUNE);
    if (!*text && !*of_layer) {
        return UCC_OK;
    }
    const char *origin = hd_config_origin(config, HD_CFG_CTX_TL_UCP_TUNE);
    char rest[LINE] = "";
    /* relaxed: which of two threads tells does not matter */
    bool tell = !atomic_exchange_explicit(&context->lib->told_tunes, true, memory_order_relaxed);
    bool asked = sort_entries(text, origin, tell, rest);
    if (tell) {
        tell_idle(rest, origin);
        tell_idle(of_layer, hd_config_origin(config, HD_CFG_CTX_CL_BASIC_TUNE));
    }
    return asked ? offer(context, text) : UCC_OK;
}
