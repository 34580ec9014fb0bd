/* case_args.c: the arguments of a case, as UCC clients fill them. See cases.h.
 *
 * The whole struct is garbage first; each type then sets exactly the fields that mean something at
 * that endpoint.
 */
#include "blocks.h"
#include "deadline.h"
#include "random.h"

#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

enum { GARBAGE = 0xA5 };

static ucc_memory_type_t some_mem_type(prepared_t *p, const region_t *region) {
    if (case_memory != NULL) {
        return region->type;
    }
    return random_next(&p->random) % 4 == 0 ? UCC_MEMORY_TYPE_UNKNOWN : UCC_MEMORY_TYPE_HOST;
}

/* Of a region without elements clients pass any address, or none. */
static void *address(prepared_t *p, const region_t *region) {
    if (region->mirror != NULL) {
        return (char *)region->mirror + region->offset;
    }
    if (region->data != NULL) {
        return region->data;
    }
    return random_next(&p->random) % 2 == 0 ? NULL : (void *)&p->random;
}

static void set_info(prepared_t *p, ucc_coll_buffer_info_t *info, const region_t *region,
                     uint64_t count) {
    info->buffer = address(p, region);
    info->count = count;
    info->datatype = p->c.dt->handle;
    info->mem_type = some_mem_type(p, region);
}

/* n entries of a row or column, 32 or 64 bits wide, allocated to the byte. */
static void *make_array(prepared_t *p, const uint64_t *values, size_t stride, bool wide) {
    uint32_t n = p->c.size;
    size_t width = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    char *array = must_alloc(n, width);
    for (uint32_t j = 0; j < n; j++) {
        uint64_t value = values[j * stride];
        uint32_t narrow = (uint32_t)value;
        memcpy(array + j * width, wide ? (void *)&value : (void *)&narrow, width);
    }
    p->arrays[p->n_arrays++] = array;
    return array;
}

static void set_info_v(prepared_t *p, ucc_coll_buffer_info_v_t *info, const region_t *region,
                       const uint64_t *counts, size_t stride, const uint64_t *displacements) {
    info->buffer = address(p, region);
    info->counts = make_array(p, counts, stride, p->c.counts64);
    info->displacements =
        displacements != NULL ? make_array(p, displacements, 1, p->c.displacements64) : NULL;
    info->datatype = p->c.dt->handle;
    info->mem_type = some_mem_type(p, region);
}

/* In place, src is garbage; these are the values seen in clients. */
static void set_garbage_src(prepared_t *p, ucc_coll_args_t *args) {
    if (random_next(&p->random) % 2 == 0) {
        args->src.info = (ucc_coll_buffer_info_t){.buffer = (void *)(intptr_t)-1,
                                                  .count = SIZE_MAX,
                                                  .datatype = (ucc_datatype_t)-1,
                                                  .mem_type = UCC_MEMORY_TYPE_UNKNOWN};
    }
}

static void set_reduction(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    const coll_case_t *c = &p->c;
    bool in_place = case_in_place_at(c, i);
    uint64_t total = blocks_total(c, p->blocks);
    bool scatters = coll_has_blocks(c->type);
    if (c->dt->kind != REFERENCE_USER) {
        args->op = c->op;
    }
    set_info(p, &args->src.info, &p->src[i], scatters ? total : p->blocks->counts[0]);
    if (c->type == UCC_COLL_TYPE_REDUCE_SCATTERV) {
        set_info_v(p, &args->dst.info_v, &p->dst[i], p->blocks->counts, 1, NULL);
    } else if (c->type == UCC_COLL_TYPE_REDUCE_SCATTER) {
        set_info(p, &args->dst.info, &p->dst[i], in_place ? total : p->blocks->counts[i]);
    } else if (coll_is_scan(c->type)) {
        bool ignored = c->type == UCC_COLL_TYPE_EXSCAN && i == 0 && !in_place;
        if (!ignored) {
            set_info(p, &args->dst.info, &p->dst[i], p->blocks->counts[0]);
        }
    } else if (c->type == UCC_COLL_TYPE_ALLREDUCE || i == c->root) {
        set_info(p, &args->dst.info, &p->dst[i], p->blocks->counts[0]);
    }
}

static void set_gather(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    const coll_case_t *c = &p->c;
    const blocks_t *b = p->blocks;
    set_info(p, &args->src.info, &p->src[i], b->counts[i]);
    if (coll_is_rooted(c->type) && i != c->root) {
        return;
    }
    if (coll_is_v(c->type)) {
        set_info_v(p, &args->dst.info_v, &p->dst[i], b->counts, 1,
                   b->dst_displacements + (size_t)i * c->size);
    } else {
        set_info(p, &args->dst.info, &p->dst[i], c->count * c->size);
    }
}

static void set_scatter(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    const coll_case_t *c = &p->c;
    const blocks_t *b = p->blocks;
    if (!case_in_place_at(c, i)) {
        set_info(p, &args->dst.info, &p->dst[i], b->counts[i]);
    }
    if (i == c->root && coll_is_v(c->type)) {
        set_info_v(p, &args->src.info_v, &p->src[i], b->counts, 1,
                   b->src_displacements + (size_t)i * c->size);
    } else if (i == c->root) {
        set_info(p, &args->src.info, &p->src[i], c->count * c->size);
    }
}

static void set_alltoall(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    const coll_case_t *c = &p->c;
    const blocks_t *b = p->blocks;
    size_t row = (size_t)i * c->size;
    if (coll_is_v(c->type)) {
        set_info_v(p, &args->src.info_v, &p->src[i], b->counts + row, 1,
                   b->src_displacements + row);
        set_info_v(p, &args->dst.info_v, &p->dst[i], b->counts + i, c->size,
                   b->dst_displacements + row);
    } else {
        set_info(p, &args->src.info, &p->src[i], c->count * c->size);
        set_info(p, &args->dst.info, &p->dst[i], c->count * c->size);
    }
}

static void set_buffers(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    switch ((uint64_t)p->c.type) {
    case UCC_COLL_TYPE_BCAST:
    case (uint64_t)UCC_COLL_TYPE_MCAST:
        set_info(p, &args->src.info, &p->dst[i], p->blocks->counts[0]);
        break;
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_ALLGATHERV:
        set_gather(p, args, i);
        break;
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        set_scatter(p, args, i);
        break;
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        set_alltoall(p, args, i);
        break;
    default:
        if (coll_is_reduction(p->c.type)) {
            set_reduction(p, args, i);
        }
        break;
    }
}

static void set_flags(prepared_t *p, ucc_coll_args_t *args, uint32_t i) {
    const coll_case_t *c = &p->c;
    uint64_t flags = 0;
    bool everywhere = c->in_place == IN_PLACE_EVERYWHERE && coll_moves_data(c->type);
    if (everywhere || case_in_place_at(c, i)) {
        flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
    if (coll_is_v(c->type)) {
        flags |= c->counts64 ? UCC_COLL_ARGS_FLAG_COUNT_64BIT : 0;
        flags |= c->displacements64 ? UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT : 0;
    }
    if (flags != 0) {
        args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args->flags = flags;
    }
}

static void set_args(prepared_t *p, uint32_t i) {
    const coll_case_t *c = &p->c;
    ucc_coll_args_t *args = &p->args[i];
    memset(args, GARBAGE, sizeof(*args));
    args->mask = 0;
    args->coll_type = c->type;
    if (c->type == UCC_COLL_TYPE_BARRIER) {
        return; /* may be garbage but for these two */
    }
    args->error_type = UCC_ERR_TYPE_LOCAL;
    if (coll_is_rooted(c->type)) {
        args->root =
            c->set.n == 0 ? c->root : (uint64_t)(c->set.start + (int64_t)c->root * c->set.stride);
    }
    set_buffers(p, args, i);
    set_flags(p, args, i);
    bool scatter = c->type == UCC_COLL_TYPE_SCATTER || c->type == UCC_COLL_TYPE_SCATTERV;
    if (case_in_place_at(c, i) && !scatter) {
        memset(&args->src, GARBAGE, sizeof(args->src));
        set_garbage_src(p, args);
    }
}

/* What every type may have. */
static void set_manner(const coll_case_t *c, ucc_coll_args_t *args) {
    if (c->tagged) {
        args->mask |= UCC_COLL_ARGS_FIELD_TAG;
        args->tag = c->tag;
    }
    if (c->set.n > 0) {
        args->mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        args->active_set.start = c->set.start;
        args->active_set.stride = c->set.stride;
        args->active_set.size = c->set.n;
    }
    if (c->times > 0) {
        args->flags = UCC_COLL_ARGS_FLAG_PERSISTENT |
                      (args->mask & UCC_COLL_ARGS_FIELD_FLAGS ? args->flags : 0);
        args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    }
}

void case_make_args(prepared_t *p) {
    for (uint32_t i = 0; i < p->c.size; i++) {
        set_args(p, i);
        set_manner(&p->c, &p->args[i]);
    }
}
