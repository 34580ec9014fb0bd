/* cases.c: properties of the types; buffers of a case, what they must hold afterwards, and the
 * comparison. See cases.h.
 */
#include "blocks.h"
#include "deadline.h"
#include "heaps.h"
#include "processes.h"
#include "random.h"

#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

const case_memory_t *case_memory;

#define COLL_BIT(name) ((uint64_t)UCC_COLL_TYPE_##name)

static bool among(ucc_coll_type_t type, uint64_t set) {
    return ((uint64_t)type & set) != 0;
}

bool coll_is_rooted(ucc_coll_type_t type) {
    return among(type, COLL_BIT(BCAST) | COLL_BIT(FANIN) | COLL_BIT(FANOUT) | COLL_BIT(GATHER) |
                           COLL_BIT(GATHERV) | COLL_BIT(REDUCE) | COLL_BIT(SCATTER) |
                           COLL_BIT(SCATTERV) | COLL_BIT(MCAST));
}

bool coll_is_reduction(ucc_coll_type_t type) {
    return coll_is_scan(type) ||
           among(type, COLL_BIT(ALLREDUCE) | COLL_BIT(REDUCE) | COLL_BIT(REDUCE_SCATTER) |
                           COLL_BIT(REDUCE_SCATTERV));
}

bool coll_is_scan(ucc_coll_type_t type) {
    return among(type, COLL_BIT(SCAN) | COLL_BIT(EXSCAN));
}

bool coll_is_v(ucc_coll_type_t type) {
    return among(type, COLL_BIT(ALLGATHERV) | COLL_BIT(ALLTOALLV) | COLL_BIT(GATHERV) |
                           COLL_BIT(SCATTERV) | COLL_BIT(REDUCE_SCATTERV));
}

bool coll_moves_data(ucc_coll_type_t type) {
    return !among(type, COLL_BIT(BARRIER) | COLL_BIT(FANIN) | COLL_BIT(FANOUT));
}

bool coll_has_blocks(ucc_coll_type_t type) {
    return coll_moves_data(type) && !coll_is_scan(type) &&
           !among(type, COLL_BIT(BCAST) | COLL_BIT(MCAST) | COLL_BIT(REDUCE) | COLL_BIT(ALLREDUCE));
}

ucc_coll_type_t coll_type_at(uint32_t i) {
    return (ucc_coll_type_t)UCC_BIT(i);
}

static void make_name(prepared_t *p) {
    char set[64] = "";
    static const char *const in_place[IN_PLACES] = {"", " in-place", " in-place-everywhere"};
    static const char *const layouts[LAYOUTS] = {"", " random", " zeros", " gaps", " shuffled"};
    const coll_case_t *c = &p->c;
    if (c->set.n > 0) {
        snprintf(set, sizeof(set), " set=%u%+d", c->set.start, c->set.stride);
    }
    snprintf(p->name, sizeof(p->name),
             "%s size=%u root=%u count=%llu %s %s%s%s%s%s%s%s%s seed=%llu",
             reference_coll_name(c->type), c->size, c->root, (unsigned long long)c->count,
             c->dt->name, coll_is_reduction(c->type) ? reference_op_name(c->op) : "",
             in_place[c->in_place], layouts[c->layout], c->counts64 ? " counts64" : "",
             c->displacements64 ? " displacements64" : "", c->tagged ? " tagged" : "",
             c->times > 0 ? " persistent" : "", set, (unsigned long long)c->seed);
}

/* --- buffers --- */

/* Filled from guard to guard, so that nothing that stays unwritten goes unnoticed. The data starts
 * at varying distances from a cache line, but naturally aligned. Floating-point operands need
 * values without NaN; for everything else random bits are as good and faster to make. */
static void region_create(prepared_t *p, region_t *region, uint64_t elements, bool operand) {
    const reference_dt_t *dt = p->c.dt;
    if (elements == 0) {
        return;
    }
    size_t skew = dt->alignment * random_below(&p->random, 5);
    region->elements = elements;
    region->offset = GUARD + skew;
    region->memory_bytes = (region->offset + elements * dt->extent + GUARD + 63) / 64 * 64;
    region->memory = heaps_alloc(region->memory_bytes, p->random % 16 != 0);
    must(region->memory != NULL ? UCC_OK : UCC_ERR_NO_MEMORY, "memory of a buffer");
    region->data = region->memory + region->offset;
    random_fill(&p->random, region->memory, region->memory_bytes);
    for (uint64_t e = 0; operand && e < elements; e++) {
        reference_random_element(dt, p->c.op, region->data + e * dt->extent, random_next,
                                 &p->random);
    }
}

static void make_buffers(prepared_t *p) {
    const coll_case_t *c = &p->c;
    for (uint32_t i = 0; coll_moves_data(c->type) && i < c->size; i++) {
        bool reduces = coll_is_reduction(c->type);
        region_create(p, &p->src[i], blocks_src_elements(c, p->blocks, i), reduces);
        region_create(p, &p->dst[i], blocks_dst_elements(c, p->blocks, i),
                      reduces && case_in_place_at(c, i));
    }
}

/* Every endpoint says of its buffers what they are, of those without elements, too. */
static void region_mirror(prepared_t *p, region_t *region, bool may_stay, uint32_t i) {
    region->type = UCC_MEMORY_TYPE_CUDA;
    if (region->memory != NULL) {
        region->mirror =
            case_memory->take(i, region->memory_bytes, may_stay, &p->random, &region->type);
    }
    if (region->mirror != NULL) {
        case_memory->to(region->mirror, region->memory, region->memory_bytes);
    }
}

static void make_mirrors(prepared_t *p) {
    for (uint32_t i = 0; case_memory != NULL && i < p->c.size; i++) {
        /* one of two that matter may stay */
        bool two = p->src[i].memory != NULL && p->dst[i].memory != NULL &&
                   !case_in_place_at(&p->c, i) && !(p->c.type == UCC_COLL_TYPE_EXSCAN && i == 0);
        region_mirror(p, &p->src[i], two, i);
        region_mirror(p, &p->dst[i], two && p->src[i].mirror != NULL, i);
    }
}

static unsigned char *copy_of(const region_t *region) {
    unsigned char *copy = must_alloc(region->memory_bytes, 1);
    memcpy(copy, region->memory, region->memory_bytes);
    return copy;
}

static void region_remember(region_t *region, bool again) {
    if (region->memory != NULL) {
        region->wanted = copy_of(region);
        region->given = again ? copy_of(region) : NULL;
    }
}

bool case_is_mine(const prepared_t *p, uint32_t i) {
    return p->process_of == NULL || p->process_of[i] == p->c.process;
}

static bool has_set(const char *name, const char *value) {
    const char *set = getenv(name);
    return set != NULL && strcmp(set, value) == 0;
}

/* How many nodes the processes of this machine count as. */
static uint32_t nodes(void) {
    const char *set = getenv("HEDDLE_DEBUG_NODES");
    return set != NULL ? (uint32_t)strtoul(set, NULL, 10) : 1;
}

/* Are its bits to be those of one process? Or is the whole program run so? */
static bool is_as_one_process(const coll_case_t *c) {
    return c->placement || has_set("HEDDLE_REPRODUCIBLE", "placement") ||
           (processes_share_memory() && nodes() == 1 && c->host == NULL);
}

/* The reference runs on copies; an endpoint without elements still gets an address. */
static void make_wanted(prepared_t *p) {
    static unsigned char nothing[64];
    const coll_case_t *c = &p->c;
    unsigned char **src = must_alloc(c->size, sizeof(*src));
    unsigned char **dst = must_alloc(c->size, sizeof(*dst));
    for (uint32_t i = 0; i < c->size; i++) {
        bool again = (c->times > 0 || c->keeps) && case_is_mine(p, i);
        region_remember(&p->src[i], again);
        region_remember(&p->dst[i], again);
        src[i] = p->src[i].wanted != NULL ? p->src[i].wanted + p->src[i].offset : nothing;
        dst[i] = p->dst[i].wanted != NULL ? p->dst[i].wanted + p->dst[i].offset : nothing;
    }
    reference_coll_t coll = {.type = c->type,
                             .size = c->size,
                             .root = c->root,
                             .in_place = c->in_place != IN_PLACE_NO,
                             .op = c->op,
                             .dt = c->dt,
                             .process_of = is_as_one_process(c) ? NULL : p->node_of,
                             .counts = p->blocks->counts,
                             .src_displacements = p->blocks->src_displacements,
                             .dst_displacements = p->blocks->dst_displacements,
                             .src = src,
                             .dst = dst};
    reference_collective(&coll);
    free(src);
    free(dst);
}

static uint32_t process_at(const coll_case_t *c, uint32_t endpoint) {
    return c->process_of[c->turned ? c->turned - 1 - endpoint : endpoint];
}

/* The node of an endpoint's process: the library numbers processes by their lowest endpoints, and
 * deals them out in turn (DEBUG_NODES). */
static uint32_t node_of(const coll_case_t *c, int64_t endpoint) {
    const uint32_t *process_of = c->process_of;
    uint32_t number = 0;
    if (!c->by_nodes || !processes_share_memory()) {
        return process_of[endpoint];
    }
    if (c->host != NULL) {
        return c->host[process_of[endpoint]];
    }
    for (uint32_t e = 0; process_at(c, e) != process_of[endpoint]; e++) {
        uint32_t first = 0;
        while (process_at(c, first) != process_at(c, e)) {
            first++;
        }
        number += first == e;
    }
    return number % nodes();
}

static void take_processes(prepared_t *p) {
    const coll_case_t *c = &p->c;
    if (c->process_of == NULL) {
        return;
    }
    p->process_of = must_alloc(c->size, sizeof(*p->process_of));
    p->node_of = must_alloc(c->size, sizeof(*p->node_of));
    for (uint32_t k = 0; k < c->size; k++) {
        int64_t endpoint = c->set.n > 0 ? c->set.start + (int64_t)k * c->set.stride : k;
        p->process_of[k] = c->process_of[endpoint];
        p->node_of[k] = node_of(c, endpoint);
    }
}

prepared_t *case_prepare(const coll_case_t *c) {
    prepared_t *p = must_alloc(1, sizeof(*p));
    p->c = *c;
    if (coll_is_scan(c->type) && c->op == UCC_OP_AVG && c->dt->kind != REFERENCE_USER) {
        p->c.op = UCC_OP_SUM; /* there is no average of a prefix */
    }
    p->random = c->seed;
    p->args = must_alloc(c->size, sizeof(*p->args));
    p->statuses = must_alloc(c->size, sizeof(*p->statuses));
    p->src = must_alloc(c->size, sizeof(*p->src));
    p->dst = must_alloc(c->size, sizeof(*p->dst));
    p->blocks = must_alloc(1, sizeof(*p->blocks));
    p->arrays = must_alloc(4 * (size_t)c->size, sizeof(*p->arrays));
    *p->blocks = blocks_create(&p->c, &p->random);
    take_processes(p);
    make_name(p);
    make_buffers(p);
    make_wanted(p);
    make_mirrors(p);
    case_make_args(p);
    return p;
}

static void regions_free(region_t *regions, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (regions[i].mirror != NULL) {
            case_memory->put(regions[i].mirror);
        }
        heaps_free(regions[i].memory);
        free(regions[i].wanted);
        free(regions[i].given);
    }
    free(regions);
}

void case_free(prepared_t *p) {
    regions_free(p->src, p->c.size);
    regions_free(p->dst, p->c.size);
    for (uint32_t i = 0; i < p->n_arrays; i++) {
        free(p->arrays[i]);
    }
    blocks_free(p->blocks);
    free(p->blocks);
    free(p->process_of);
    free(p->node_of);
    free(p->arrays);
    free(p->args);
    free(p->statuses);
    free(p);
}

uint64_t case_bytes(const coll_case_t *c) {
    uint64_t blocks = coll_has_blocks(c->type) ? (uint64_t)c->size * c->size : c->size;
    return blocks * c->count * c->dt->extent;
}

/* --- verdict --- */

static bool region_check(const prepared_t *p, const region_t *region, const char *what,
                         uint32_t i) {
    if (region->memory == NULL) {
        return true;
    }
    if (region->mirror != NULL) {
        case_memory->from(region->memory, region->mirror, region->memory_bytes);
    }
    if (coll_is_reduction(p->c.type)) {
        reference_clear_padding(p->c.dt, region->data, region->elements);
        reference_clear_padding(p->c.dt, region->wanted + region->offset, region->elements);
    }
    if (memcmp(region->memory, region->wanted, region->memory_bytes) == 0) {
        return true;
    }
    size_t at = 0;
    while (region->memory[at] == region->wanted[at]) {
        at++;
    }
    long byte = (long)at - (long)region->offset;
    size_t extent = p->c.dt->extent;
    long element = byte >= 0 ? byte / (long)extent : -1;
    fprintf(stderr,
            "WRONG: %s: endpoint %u: %s byte %ld (element %ld of %llu): got %02x, want %02x\n",
            p->name, i, what, byte, element, (unsigned long long)region->elements,
            region->memory[at], region->wanted[at]);
    return false;
}

static bool member_check(const prepared_t *p, uint32_t i) {
    return region_check(p, &p->dst[i], "dst", i) && region_check(p, &p->src[i], "src", i);
}

static void member_restore(prepared_t *p, uint32_t i) {
    region_t *regions[] = {&p->src[i], &p->dst[i]};
    for (int k = 0; k < 2; k++) {
        if (regions[k]->memory != NULL) {
            memcpy(regions[k]->memory, regions[k]->given, regions[k]->memory_bytes);
            if (regions[k]->mirror != NULL) {
                case_memory->to(regions[k]->mirror, regions[k]->memory, regions[k]->memory_bytes);
            }
        }
    }
}

void case_restore(prepared_t *p) {
    for (uint32_t i = 0; i < p->c.size; i++) {
        if (case_is_mine(p, i)) {
            member_restore(p, i);
        }
    }
}

/* A persistent request's part has ended: looks at the result, and makes the buffers what they were.
 */
static bool again(void *arg, uint32_t i, uint32_t times) {
    prepared_t *p = arg;
    if (times == p->c.times) {
        return false;
    }
    if (!member_check(p, i)) {
        atomic_store(&p->wrong, true);
    }
    member_restore(p, i);
    return true;
}

job_t case_job(prepared_t *p) {
    return (job_t){.args = p->args,
                   .statuses = p->statuses,
                   .name = p->name,
                   .set = p->c.set.n > 0 ? &p->c.set : NULL,
                   .again = p->c.times > 0 ? again : NULL,
                   .arg = p};
}

bool case_check_member(const prepared_t *p, uint32_t i) {
    if (p->statuses[i] != UCC_OK) {
        fprintf(stderr, "WRONG: %s: endpoint %u: status %d\n", p->name, i, p->statuses[i]);
        return false;
    }
    return member_check(p, i);
}

bool case_check(const prepared_t *p) {
    bool ok = !atomic_load(&p->wrong);
    for (uint32_t i = 0; i < p->c.size && ok; i++) {
        ok = !case_is_mine(p, i) || case_check_member(p, i);
    }
    return ok;
}
