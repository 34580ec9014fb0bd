/* one_sided.c: see one_sided.h. What is sent is worked out from the seed, so everybody knows what
 * everybody else does. */
#include "one_sided.h"

#include "deadline.h"
#include "heaps.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* --- teams ------------------------------------------------------------------------------------ */

static void progress(one_sided_t *w) {
    for (uint32_t k = 0; k < w->n; k++) {
        ucc_context_progress(w->end[k].context);
    }
}

static void finish(one_sided_t *w, ucc_coll_req_h *requests, ucc_status_t *status) {
    deadline_t deadline = deadline_start("one-sided collective");
    for (uint32_t k = 0; k < w->n; k++) {
        while (requests[k] && (status[k] = ucc_collective_test(requests[k])) == UCC_INPROGRESS) {
            progress(w);
            deadline_poll(&deadline);
        }
    }
}

/* Memory is known to the context only for the length of the call: the array of segments is the
 * caller's. */
static void make_context(one_sided_t *w, one_sided_end_t *e) {
    ucc_mem_map_t segments[3] = {
        {e->work, ONE_SIDED_WORK}, {e->src, ONE_SIDED_BYTES}, {e->dst, ONE_SIDED_BYTES}};
    ucc_lib_params_t lib = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                            .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t params = {
        .mask = w->params.memory == MAPPED_BY_CONTEXT ? UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS : 0,
        .mem_params = {.segments = segments, .n_segments = 3}};
    ucc_lib_config_h lib_config;
    ucc_context_config_h config;
    must(ucc_lib_config_read(NULL, NULL, &lib_config), "ucc_lib_config_read");
    must(ucc_init(&lib, lib_config, &e->lib), "ucc_init");
    ucc_lib_config_release(lib_config);
    must(ucc_context_config_read(e->lib, NULL, &config), "ucc_context_config_read");
    must(ucc_context_create(e->lib, &params, config, &e->context), "ucc_context_create");
    ucc_context_config_release(config);
    memset(segments, 0xA5, sizeof(segments));
}

static void make_teams(one_sided_t *w) {
    deadline_t deadline = deadline_start("teams of one-sided collectives");
    for (uint32_t k = 0; k < w->n; k++) {
        one_sided_end_t *e = &w->end[k];
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP |
                                            UCC_TEAM_PARAM_FIELD_EP_RANGE |
                                            UCC_TEAM_PARAM_FIELD_FLAGS,
                                    .ep = e->index,
                                    .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                    .flags = UCC_TEAM_FLAG_COLL_WORK_BUFFER};
        params.oob = w->params.process ? process_oob(w->params.process, 0, e->index)
                                       : oob_endpoint(w->board, e->index);
        must(ucc_team_create_post(&e->context, 1, &params, &e->team), "ucc_team_create_post");
    }
    for (uint32_t left = w->n; left > 0;) {
        left = 0;
        for (uint32_t k = 0; k < w->n; k++) {
            ucc_status_t status = ucc_team_create_test(w->end[k].team);
            left += status == UCC_INPROGRESS;
            must(status == UCC_INPROGRESS ? UCC_OK : status, "ucc_team_create_test");
        }
        progress(w);
        deadline_poll(&deadline);
    }
}

static void run_all(one_sided_t *w, ucc_coll_args_t *args, const char *what) {
    ucc_status_t status[ONE_SIDED_MOST];
    one_sided_statuses(w, args, status);
    for (uint32_t k = 0; k < w->n; k++) {
        must(status[k], what);
    }
}

/* As ucc_perftest does it: handles are exchanged as bytes, and imported, one's own, too. */
static void exchange_handles(one_sided_t *w) {
    ucc_coll_args_t args[ONE_SIDED_MOST];
    char *blobs[ONE_SIDED_MOST];
    size_t bytes = 0;
    for (uint32_t k = 0; k < w->n; k++) {
        one_sided_end_t *e = &w->end[k];
        ucc_mem_map_t segment = {e->dst, ONE_SIDED_BYTES};
        ucc_mem_map_params_t params = {&segment, 1};
        must(ucc_mem_map(e->context, UCC_MEM_MAP_MODE_EXPORT, &params, &bytes, &e->own), "export");
        blobs[k] = must_alloc(w->size, bytes);
        memset(&args[k], 0, sizeof(args[k]));
        args[k].coll_type = UCC_COLL_TYPE_ALLGATHER;
        args[k].src.info =
            (ucc_coll_buffer_info_t){e->own, bytes, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
        args[k].dst.info =
            (ucc_coll_buffer_info_t){blobs[k], bytes * w->size, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
    }
    run_all(w, args, "allgather of handles");
    for (uint32_t k = 0; k < w->n; k++) {
        one_sided_end_t *e = &w->end[k];
        e->all = must_alloc(w->size, sizeof(*e->all));
        for (uint32_t p = 0; p < w->size; p++) {
            ucc_mem_map_t segment = {e->dst, ONE_SIDED_BYTES};
            ucc_mem_map_params_t params = {&segment, 1};
            size_t size = bytes;
            e->all[p] = must_alloc(1, bytes);
            memcpy(e->all[p], blobs[k] + p * bytes, bytes);
            must(ucc_mem_map(e->context, UCC_MEM_MAP_MODE_IMPORT, &params, &size, &e->all[p]),
                 "import");
        }
        free(blobs[k]);
    }
}

one_sided_t *one_sided_open(const one_sided_params_t *params) {
    one_sided_t *w = must_alloc(1, sizeof(*w));
    w->params = *params;
    w->size = params->size;
    w->n = params->process ? params->process->n : params->board ? 1 : params->size;
    w->board = params->process || params->board ? params->board : oob_board_create(params->size);
    if (params->tune) {
        setenv("UCC_TL_UCP_TUNE", params->tune, 1);
    }
    for (uint32_t k = 0; k < w->n; k++) {
        one_sided_end_t *e = &w->end[k];
        e->index = params->process ? params->process->endpoint[k]
                   : params->board ? params->endpoint
                                   : k;
        e->src = heaps_alloc(ONE_SIDED_BYTES, e->index % 2 == 0);
        e->dst = heaps_alloc(ONE_SIDED_BYTES, e->index % 2 == 0);
        memset(e->src, 0, ONE_SIDED_BYTES); /* tests see what has arrived */
        memset(e->dst, 0, ONE_SIDED_BYTES);
        e->work = must_alloc(1, ONE_SIDED_WORK);
        make_context(w, e);
    }
    if (params->tune) {
        unsetenv("UCC_TL_UCP_TUNE"); /* as there: later contexts are not concerned */
    }
    make_teams(w);
    if (params->memory == MAPPED_BY_ALL_HANDLES || params->memory == MAPPED_BY_OWN_HANDLE) {
        exchange_handles(w);
    }
    return w;
}

void one_sided_close(one_sided_t *w) {
    for (uint32_t k = 0; k < w->n; k++) {
        while (ucc_team_destroy(w->end[k].team) == UCC_INPROGRESS) {
        }
    }
    for (uint32_t k = 0; k < w->n; k++) {
        one_sided_end_t *e = &w->end[k];
        for (uint32_t p = 0; e->all && p < w->size; p++) {
            must(ucc_mem_unmap(&e->all[p]), "ucc_mem_unmap");
        }
        if (e->own) {
            must(ucc_mem_unmap(&e->own), "ucc_mem_unmap");
        }
        free(e->all);
        must(ucc_context_destroy(e->context), "ucc_context_destroy");
        must(ucc_finalize(e->lib), "ucc_finalize");
        heaps_free(e->src);
        heaps_free(e->dst);
        free(e->work);
    }
    if (w->board && !w->params.board) {
        oob_board_destroy(w->board);
    }
    free(w);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void set_memory(one_sided_t *w, const one_sided_end_t *e, ucc_coll_args_t *args) {
    if (w->params.memory == MAPPED_BY_ALL_HANDLES) {
        args->mask |= UCC_COLL_ARGS_FIELD_MEM_MAP_DST_MEMH;
        args->flags |= UCC_COLL_ARGS_FLAG_DST_MEMH_GLOBAL;
        args->dst_memh.global_memh = e->all;
    } else if (w->params.memory == MAPPED_BY_OWN_HANDLE) {
        args->mask |= UCC_COLL_ARGS_FIELD_MEM_MAP_DST_MEMH;
        args->dst_memh.local_memh = e->own;
    }
}

static ucc_coll_args_t common_args(one_sided_t *w, const one_sided_end_t *e, ucc_coll_type_t type) {
    ucc_coll_args_t args;
    memset(&args, 0x5C, sizeof(args)); /* nobody looks at what the mask does not name */
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER;
    args.flags = UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS | UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER |
                 UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER;
    args.coll_type = type;
    args.error_type = UCC_ERR_TYPE_LOCAL;
    args.global_work_buffer = e->work;
    set_memory(w, e, &args);
    return args;
}

ucc_coll_args_t one_sided_args(one_sided_t *w, uint32_t k, uint32_t *counts,
                               uint32_t *src_displacements, uint32_t *dst_displacements) {
    one_sided_end_t *e = &w->end[k];
    ucc_coll_args_t args = common_args(w, e, UCC_COLL_TYPE_ALLTOALLV);
    args.src.info_v =
        (ucc_coll_buffer_info_v_t){e->src, (ucc_count_t *)counts, (ucc_aint_t *)src_displacements,
                                   UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    args.dst.info_v =
        (ucc_coll_buffer_info_v_t){e->dst, (ucc_count_t *)counts, (ucc_aint_t *)dst_displacements,
                                   UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    return args;
}

void one_sided_statuses(one_sided_t *w, ucc_coll_args_t *args, ucc_status_t *status) {
    ucc_coll_req_h requests[ONE_SIDED_MOST] = {NULL};
    for (uint32_t k = 0; k < w->n; k++) {
        status[k] = ucc_collective_init(&args[k], &requests[k], w->end[k].team);
        if (status[k] != UCC_OK) {
            requests[k] = NULL;
            continue;
        }
        (void)ucc_collective_post(requests[k]);
    }
    finish(w, requests, status);
    for (uint32_t k = 0; k < w->n; k++) {
        if (requests[k]) {
            ucc_collective_finalize(requests[k]);
        }
    }
}

/* --- cases ------------------------------------------------------------------------------------ */

enum { SHIFT = 4096 }; /* bytes before dst, where blocks have gaps */

/* Elements from endpoint i to j: between half of `most` and all of it, as in ucc_test_mpi, or none.
 */
static uint64_t block(const one_sided_case_t *c, uint32_t i, uint32_t j) {
    uint64_t state = c->seed ^ ((uint64_t)i << 32 | (uint64_t)j << 8);
    random_next(&state);
    if (!c->vector) {
        return c->most;
    }
    return c->seed % 3 == 0 && random_below(&state, 4) == 0
               ? 0
               : c->most / 2 + random_below(&state, c->most - c->most / 2 + 1);
}

/* Where i's block is in j's dst, in elements, in the post-th post: blocks come in an order that
 * turns. */
static uint64_t place(const one_sided_case_t *c, uint32_t size, uint32_t i, uint32_t j,
                      uint32_t post) {
    uint64_t at = 0;
    for (uint32_t k = 0; k < size; k++) {
        uint32_t source = (k + (c->gaps ? j : 0) + post) % size;
        if (source == i) {
            break;
        }
        at += block(c, source, j) + (c->gaps ? 1 + source % 3 : 0);
    }
    return at;
}

static unsigned char content(const one_sided_case_t *c, uint32_t i, uint32_t j, uint64_t byte,
                             uint32_t post) {
    return (unsigned char)(c->seed + 31 * i + 7 * j + 131 * post + byte * 13 + (byte >> 8));
}

typedef union numbers {
    uint32_t narrow[ONE_SIDED_MOST];
    uint64_t wide[ONE_SIDED_MOST];
} numbers_t;

static void put(numbers_t *numbers, bool wide, uint32_t at, uint64_t value) {
    if (wide) {
        numbers->wide[at] = value;
    } else {
        numbers->narrow[at] = (uint32_t)value;
    }
}

typedef struct arrays {
    numbers_t src_counts, src_displacements, dst_counts, dst_displacements;
} arrays_t;

/* What endpoint e gives and says; its dst holds nothing but marks. */
static void fill(one_sided_t *w, const one_sided_case_t *c, one_sided_end_t *e, arrays_t *a,
                 uint32_t post) {
    uint64_t at = 0;
    memset(e->dst, 0xEE, ONE_SIDED_BYTES);
    for (uint32_t p = 0; p < w->size; p++) {
        uint64_t count = block(c, e->index, p);
        for (uint64_t b = 0; b < count * c->element; b++) {
            e->src[at * c->element + b] = content(c, e->index, p, b, post);
        }
        put(&a->src_counts, c->wide_counts, p, count);
        put(&a->src_displacements, c->wide_displacements, p, at);
        put(&a->dst_counts, c->wide_counts, p, c->no_counts ? UINT32_MAX : block(c, p, e->index));
        put(&a->dst_displacements, c->wide_displacements, p, place(c, w->size, e->index, p, post));
        at += count;
    }
}

static ucc_coll_args_t args_of(one_sided_t *w, const one_sided_case_t *c, one_sided_end_t *e,
                               arrays_t *a) {
    ucc_coll_args_t args =
        common_args(w, e, c->vector ? UCC_COLL_TYPE_ALLTOALLV : UCC_COLL_TYPE_ALLTOALL);
    args.flags |= (c->wide_counts ? UCC_COLL_ARGS_FLAG_COUNT_64BIT : 0) |
                  (c->wide_displacements ? UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT : 0) |
                  (c->posts > 1 ? UCC_COLL_ARGS_FLAG_PERSISTENT : 0);
    if (!c->vector) {
        args.src.info =
            (ucc_coll_buffer_info_t){e->src, c->most * w->size, c->datatype, UCC_MEMORY_TYPE_HOST};
        args.dst.info =
            (ucc_coll_buffer_info_t){e->dst, c->most * w->size, c->datatype, UCC_MEMORY_TYPE_HOST};
        return args;
    }
    args.src.info_v = (ucc_coll_buffer_info_v_t){e->src, (ucc_count_t *)&a->src_counts,
                                                 (ucc_aint_t *)&a->src_displacements, c->datatype,
                                                 UCC_MEMORY_TYPE_HOST};
    args.dst.info_v = (ucc_coll_buffer_info_v_t){
        e->dst + (c->gaps ? SHIFT : 0), (ucc_count_t *)&a->dst_counts,
        (ucc_aint_t *)&a->dst_displacements, c->datatype, UCC_MEMORY_TYPE_HOST};
    return args;
}

/* All of dst: blocks where they belong, marks everywhere else, and the work buffer as it was. */
static bool is_right(one_sided_t *w, const one_sided_case_t *c, one_sided_end_t *e,
                     unsigned char *expected, uint32_t post) {
    static const char zeros[ONE_SIDED_WORK];
    memset(expected, 0xEE, ONE_SIDED_BYTES);
    for (uint32_t p = 0; p < w->size; p++) {
        uint64_t at = c->vector ? place(c, w->size, p, e->index, post) : p * c->most;
        unsigned char *to = expected + (c->vector && c->gaps ? SHIFT : 0) + at * c->element;
        for (uint64_t b = 0; b < block(c, p, e->index) * c->element; b++) {
            to[b] = content(c, p, e->index, b, post);
        }
    }
    return memcmp(expected, e->dst, ONE_SIDED_BYTES) == 0 &&
           memcmp(e->work, zeros, sizeof(zeros)) == 0;
}

/* Nobody may write into a dst that is still being looked at. */
static void barrier(one_sided_t *w) {
    ucc_coll_args_t args[ONE_SIDED_MOST];
    for (uint32_t k = 0; k < w->n; k++) {
        memset(&args[k], 0, sizeof(args[k]));
        args[k].coll_type = UCC_COLL_TYPE_BARRIER;
    }
    run_all(w, args, "barrier");
}

uint64_t one_sided_run(one_sided_t *w, const one_sided_case_t *c) {
    arrays_t *arrays = must_alloc(w->n, sizeof(*arrays));
    unsigned char *expected = must_alloc(1, ONE_SIDED_BYTES);
    ucc_coll_req_h requests[ONE_SIDED_MOST];
    ucc_status_t status[ONE_SIDED_MOST];
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < w->n; k++) {
        fill(w, c, &w->end[k], &arrays[k], 0);
        ucc_coll_args_t args = args_of(w, c, &w->end[k], &arrays[k]);
        must(ucc_collective_init(&args, &requests[k], w->end[k].team), "ucc_collective_init");
    }
    for (uint32_t post = 0; post < c->posts; post++) {
        for (uint32_t k = 0; post > 0 && k < w->n; k++) {
            fill(w, c, &w->end[k], &arrays[k], post);
        }
        barrier(w);
        for (uint32_t k = 0; k < w->n; k++) {
            must(ucc_collective_post(requests[k]), "ucc_collective_post");
        }
        finish(w, requests, status);
        for (uint32_t k = 0; k < w->n; k++) {
            must(status[k], "one-sided collective");
            wrong += !is_right(w, c, &w->end[k], expected, post);
        }
        barrier(w);
    }
    for (uint32_t k = 0; k < w->n; k++) {
        must(ucc_collective_finalize(requests[k]), "ucc_collective_finalize");
    }
    free(expected);
    free(arrays);
    return wrong;
}

uint64_t one_sided_sweep(one_sided_t *w, uint64_t *checked) {
    static const struct {
        ucc_datatype_t datatype;
        size_t size;
    } datatypes[] = {{UCC_DT_INT16, 2}, {UCC_DT_FLOAT64, 8}, {UCC_DT_FLOAT64_COMPLEX, 16}};
    static const uint64_t bytes[] = {32, 64, 512, 4096, 32768};
    uint64_t wrong = 0, seed = 0;
    for (uint32_t v = 0; v < 64; v++) {
        for (size_t s = 0; s < sizeof(bytes) / sizeof(bytes[0]); s++) {
            one_sided_case_t c = {.vector = v & 1,
                                  .wide_counts = v & 2,
                                  .wide_displacements = v & 4,
                                  .gaps = v & 8,
                                  .no_counts = v & 16,
                                  .posts = v & 32 ? 3 : 1,
                                  .seed = ++seed};
            size_t d = (v + s) % 3;
            c.datatype = datatypes[d].datatype;
            c.element = datatypes[d].size;
            c.most = bytes[s] / c.element;
            if (!c.vector && v & 30) {
                continue; /* nothing of that has a meaning there */
            }
            wrong += one_sided_run(w, &c);
            if (checked) {
                *checked += c.posts;
            }
        }
    }
    return wrong;
}
