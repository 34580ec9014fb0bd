/* test_shapes.c: which buffers init accepts, what it logs of those that it refuses, and what an
 * operation gets of a call. Two tables: the texts about buffers that do not fit each other, each by
 * its words; and a sweep of all pairs of states of src and dst, whose outcomes (status and text, or
 * all that the operation got) are pinned by a hash. Whoever changes one of them on purpose sees
 * with SHAPES_SAY=1 all outcomes, a line each, to be compared with those of before.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/small.h"
#include "core/log.h"
#include "request/request.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(shapes, .timeout = 120);

enum { MOST_N = 3, ROOM = 64 };

static char last_line[512];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

static int64_t src[ROOM], dst[ROOM];
static ucc_datatype_t packed;

/* --- calls ------------------------------------------------------------------------------------ */

/* What is asked of an endpoint, but for the states of its buffers. */
typedef struct asked {
    uint8_t type;
    uint32_t n, me, root;
    bool in_place, wide_counts, wide_displacements;
} asked_t;

/* A vector's arrays, as wide as the call says. */
typedef struct arrays {
    uint64_t counts[MOST_N], displacements[MOST_N];
} arrays_t;

static arrays_t arrays[2]; /* src, dst */

static void set(uint64_t *array, uint32_t i, uint64_t value, bool wide) {
    if (wide) {
        array[i] = value;
    } else {
        ((uint32_t *)(void *)array)[i] = (uint32_t)value;
    }
}

/* The states of a plain buffer: those of a vector are as many. */
static const struct {
    const char *name;
    ucc_datatype_t dt;
    uint64_t add, times, by_n; /* count: (fitting + add + by_n * n) * times, or 1 */
} plain_states[] = {{"fits", UCC_DT_INT32, 0, 1, 0},
                    {"null", UCC_DT_INT32, 0, 1, 0},
                    {"mark", UCC_DT_INT32, 0, 1, 0},
                    {"cuda", UCC_DT_INT32, 0, 1, 0},
                    {"empty", UCC_DT_INT32, 0, 0, 0},
                    {"one in all", UCC_DT_INT32, 0, 1, 0},
                    {"one more", UCC_DT_INT32, 1, 1, 0},
                    {"one less", UCC_DT_INT32, UINT64_MAX, 1, 0},
                    {"one more each", UCC_DT_INT32, 0, 1, 1},
                    {"twice", UCC_DT_INT32, 0, 2, 0},
                    {"huge", UCC_DT_INT32, 0, (uint64_t)1 << 60, 0},
                    {"float32", UCC_DT_FLOAT32, 0, 1, 0},
                    {"int64", UCC_DT_INT64, 0, 1, 0},
                    {"int16", UCC_DT_INT16, 0, 1, 0},
                    {"int16 twice", UCC_DT_INT16, 0, 2, 0},
                    {"no datatype", 2, 0, 1, 0},
                    {"packed", 0, 0, 1, 0}};
static const char *const vector_states[] = {
    "fits",        "null",  "mark",     "cuda",        "dense",   "null, dense",
    "null counts", "zeros", "one more", "one less",    "float32", "one in all",
    "int64",       "int16", "huge",     "no datatype", "packed"};
enum { STATES = sizeof(plain_states) / sizeof(plain_states[0]) };
_Static_assert(STATES == sizeof(vector_states) / sizeof(vector_states[0]), "one loop for both");

static bool is(const char *state, const char *name) {
    return strcmp(state, name) == 0;
}

static void *buffer_in(const char *state, void *buffer) {
    return strstr(state, "null") == state && !is(state, "null counts") ? NULL
           : is(state, "mark")                                         ? HEDDLE_IN_PLACE
                                                                       : buffer;
}

static ucc_memory_type_t memory_in(const char *state) {
    return is(state, "cuda") ? UCC_MEMORY_TYPE_CUDA : UCC_MEMORY_TYPE_HOST;
}

static ucc_coll_buffer_info_t plain_in(uint32_t state, void *buffer, uint64_t fitting, uint32_t n) {
    const char *name = plain_states[state].name;
    uint64_t count = fitting + plain_states[state].add + plain_states[state].by_n * n;
    return (ucc_coll_buffer_info_t){
        .buffer = buffer_in(name, buffer),
        .count = is(name, "one in all") ? 1 : count * plain_states[state].times,
        .datatype = is(name, "packed") ? packed : plain_states[state].dt,
        .mem_type = memory_in(name)};
}

static ucc_datatype_t datatype_in(const char *state) {
    return is(state, "float32")       ? UCC_DT_FLOAT32
           : is(state, "int64")       ? UCC_DT_INT64
           : is(state, "int16")       ? UCC_DT_INT16
           : is(state, "no datatype") ? 2
           : is(state, "packed")      ? packed
                                      : UCC_DT_INT32;
}

/* Two elements for each; displacements leave one free between blocks. */
static ucc_coll_buffer_info_v_t vector_in(const asked_t *a, const char *state, void *buffer,
                                          arrays_t *with) {
    for (uint32_t i = 0; i < a->n; i++) {
        bool own = i == a->me;
        uint64_t count = is(state, "zeros")             ? 0
                         : is(state, "one more") && own ? 3
                         : is(state, "one less") && own ? 1
                         : is(state, "one in all")      ? i == 0
                         : is(state, "huge")            ? (uint64_t)1 << 60
                                                        : 2;
        set(with->counts, i, count, a->wide_counts);
        set(with->displacements, i, 3 * (uint64_t)i, a->wide_displacements);
    }
    bool dense = strstr(state, "dense") != NULL;
    return (ucc_coll_buffer_info_v_t){
        .buffer = buffer_in(state, buffer),
        .counts = is(state, "null counts") ? NULL : (ucc_count_t *)(void *)with->counts,
        .displacements = dense ? NULL : (ucc_aint_t *)(void *)with->displacements,
        .datatype = datatype_in(state),
        .mem_type = memory_in(state)};
}

/* Returns the count with which a plain buffer fits; two elements are a block. */
static uint64_t fitting_count(const asked_t *a, uint8_t extent) {
    return extent == HD_BLOCKS ? 2 * (uint64_t)a->n : 2;
}

static ucc_coll_args_t args_of(const asked_t *a, uint32_t src_state, uint32_t dst_state) {
    const hd_coll_t *coll = &hd_coll[a->type];
    ucc_coll_args_t args = small_args(coll->bit);
    args.root = a->root;
    args.op = UCC_OP_SUM;
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = (a->in_place ? UCC_COLL_ARGS_FLAG_IN_PLACE : 0) |
                 (a->wide_counts ? UCC_COLL_ARGS_FLAG_COUNT_64BIT : 0) |
                 (a->wide_displacements ? UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT : 0);
    /* in place, the buffer that stays holds all blocks */
    uint8_t result = a->in_place && coll->result == HD_BLOCK ? HD_BLOCKS : coll->result;
    if (coll->source == HD_VECTOR) {
        args.src.info_v = vector_in(a, vector_states[src_state], src, &arrays[0]);
    } else {
        args.src.info = plain_in(src_state, src, fitting_count(a, coll->source), a->n);
    }
    if (coll->result == HD_VECTOR) {
        args.dst.info_v = vector_in(a, vector_states[dst_state], dst, &arrays[1]);
    } else {
        args.dst.info = plain_in(dst_state, dst, fitting_count(a, result), a->n);
    }
    return args;
}

/* --- outcomes --------------------------------------------------------------------------------- */

typedef struct text {
    char at[1024];
    size_t length;
} text_t;

static void add(text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text_t *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int more = vsnprintf(text->at + text->length, sizeof(text->at) - text->length, format, list);
    va_end(list);
    text->length += (size_t)more;
    cr_assert_lt(text->length, sizeof(text->at));
}

/* Names an address by the buffer in which it lies, or, if it is NULL or near it, as a number. */
static void add_address(text_t *text, const char *name, const void *at, const hd_request_t *r) {
    const struct {
        const char *name;
        const void *base;
        size_t bytes;
    } known[] = {{"src", src, sizeof(src)},
                 {"dst", dst, sizeof(dst)},
                 {"packed src", r->pack_src.copy, 64},
                 {"packed dst", r->pack_dst.copy, 64}};
    uintptr_t a = (uintptr_t)at;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uintptr_t base = (uintptr_t)known[i].base;
        if (base && a >= base && a < base + known[i].bytes) {
            add(text, " %s=%s+%zu", name, known[i].name, (size_t)(a - base));
            return;
        }
    }
    bool small = a < sizeof(src) || a + sizeof(src) < a;
    add(text, small ? " %s=%zd" : " %s=elsewhere", name, (ssize_t)a);
}

static void add_vector(text_t *text, const char *name, const hd_vector_t *v, uint32_t n) {
    add(text, " %s:", name);
    for (uint32_t i = 0; i < n; i++) {
        add(text, " %llu@%llu", (unsigned long long)hd_vector_count(v, i),
            (unsigned long long)hd_vector_displacement(v, i));
    }
}

/* Adds all that an operation got that has a meaning for it. */
static void add_call(text_t *text, const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    if (!op->start) {
        add(text, " nothing to do");
        return;
    }
    bool has_src, has_dst;
    hd_coll_buffers(coll, call->is_root, op->me, call->in_place, &has_src, &has_dst);
    bool gives = has_src || hd_holds(coll->source_at, call->is_root, op->me);
    bool gets = has_dst || hd_holds(coll->result_at, call->is_root, op->me);
    add(text, " %s%s%s bytes=%zu total=%zu elements=%zu,%zu signature=%x", hd_type_name(call->type),
        call->in_place ? " in place" : "", call->uneven ? " uneven" : "", call->bytes, call->total,
        call->element, call->send_element, call->signature);
    if (gives) {
        add_address(text, "src", call->src, r);
    }
    if (gets) {
        add_address(text, "dst", call->dst, r);
    }
    if (has_src && coll->source == HD_VECTOR) {
        add_vector(text, "sends", &call->send, op->n);
    }
    if (has_dst && coll->result == HD_VECTOR) {
        add_vector(text, "receives", &call->receive, op->n);
    }
}

typedef struct outcomes {
    uint32_t accepted, refused;
    uint64_t hash;
} outcomes_t;

/* Returns the last line that was logged, without the handle of a datatype, which is an address. */
static const char *logged(void) {
    char handle[32];
    snprintf(handle, sizeof(handle), "0x%llx", (unsigned long long)packed);
    char *at = strstr(last_line, handle);
    if (at) {
        memset(at, '*', strlen(handle));
        memmove(at + 1, at + strlen(handle), strlen(at + strlen(handle)) + 1);
    }
    return last_line;
}

static void note_outcome(ucc_team_h team, const asked_t *a, uint32_t src_state, uint32_t dst_state,
                         outcomes_t *all) {
    const hd_coll_t *coll = &hd_coll[a->type];
    ucc_coll_args_t args = args_of(a, src_state, dst_state);
    ucc_coll_req_h request = NULL;
    text_t text = {.length = 0};
    last_line[0] = '\0';
    add(&text, "%s of %u at %u, root %u%s%s%s, src %s, dst %s:", coll->name, a->n, a->me, a->root,
        a->in_place ? ", in place" : "", a->wide_counts ? ", wide counts" : "",
        a->wide_displacements ? ", wide displacements" : "",
        coll->source == HD_VECTOR ? vector_states[src_state] : plain_states[src_state].name,
        coll->result == HD_VECTOR ? vector_states[dst_state] : plain_states[dst_state].name);
    ucc_status_t status = ucc_collective_init(&args, &request, team);
    if (status == UCC_OK) {
        all->accepted++;
        add_call(&text, (hd_request_t *)(void *)request);
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    } else {
        all->refused++;
        add(&text, " %d %s", (int)status, logged());
    }
    for (size_t i = 0; i < text.length; i++) {
        all->hash = (all->hash ^ (uint8_t)text.at[i]) * UINT64_C(0x100000001b3);
    }
    if (getenv("SHAPES_SAY")) {
        fprintf(stderr, "%s\n", text.at);
    }
}

static void sweep_states(ucc_team_h team, const asked_t *a, outcomes_t *all) {
    const hd_coll_t *coll = &hd_coll[a->type];
    uint32_t src_states = coll->source == HD_NOTHING ? 1 : STATES;
    uint32_t dst_states = coll->result == HD_NOTHING || coll->bcast ? 1 : STATES;
    for (uint32_t s = 0; s < src_states; s++) {
        for (uint32_t d = 0; d < dst_states; d++) {
            note_outcome(team, a, s, d, all);
        }
    }
}

/* Member 0 is the one without a result in an exscan. */
static void sweep(world_t *world, uint8_t type, outcomes_t *all) {
    uint32_t widths = hd_coll[type].vector ? 4 : 1;
    for (uint32_t i = 0; i < 2 * 2 * 2 * widths; i++) {
        asked_t a = {.type = type,
                     .n = world->size,
                     .me = i & 1,
                     .root = i >> 1 & 1,
                     .in_place = i >> 2 & 1,
                     .wide_counts = i >> 3 & 1,
                     .wide_displacements = i >> 4 & 1};
        sweep_states(world->teams[a.me], &a, all);
    }
}

static world_t *worlds[2]; /* of two endpoints, and of three */

static void open_worlds(void) {
    setenv("HEDDLE_GPU", "n", 1); /* whatever the machine has */
    worlds[0] = small_world(2);
    worlds[1] = small_world(MOST_N);
    packed = generic_hollow(12);
    hd_log_capture(capture, NULL);
}

static void close_worlds(void) {
    hd_log_capture(NULL, NULL);
    ucc_dt_destroy(packed);
    world_destroy(worlds[0]);
    world_destroy(worlds[1]);
}

/* By type. */
static const outcomes_t pinned[HD_N_TYPES] = {
    [HD_ALLGATHER] = {1988, 2636, UINT64_C(0xd27e33cff57ba751)},
    [HD_ALLGATHERV] = {6512, 11984, UINT64_C(0xb355e59325e9f7f5)},
    [HD_ALLREDUCE] = {2176, 2448, UINT64_C(0xa45d28196428f285)},
    [HD_ALLTOALL] = {2000, 2624, UINT64_C(0xb6742f9ef02d9c05)},
    [HD_ALLTOALLV] = {9248, 9248, UINT64_C(0x3b886bcfe513451d)},
    [HD_BARRIER] = {16, 0, UINT64_C(0x7411799975223025)},
    [HD_BCAST] = {192, 80, UINT64_C(0x2f3632717190e3f7)},
    [HD_FANIN] = {16, 0, UINT64_C(0x83d2f1da44875615)},
    [HD_FANOUT] = {16, 0, UINT64_C(0x10e0f04a7cabf4cd)},
    [HD_GATHER] = {2626, 1998, UINT64_C(0x33cb63efafab5284)},
    [HD_GATHERV] = {9240, 9256, UINT64_C(0x800835ec4ea288d5)},
    [HD_REDUCE] = {2584, 2040, UINT64_C(0x4580656d3e3c7721)},
    [HD_REDUCE_SCATTER] = {1564, 3060, UINT64_C(0x8d7393dbe1f1b839)},
    [HD_REDUCE_SCATTERV] = {5472, 13024, UINT64_C(0x1723f7d2411f4ae5)},
    [HD_SCATTER] = {2496, 2128, UINT64_C(0x13460c84677e8247)},
    [HD_SCATTERV] = {9240, 9256, UINT64_C(0xce48953bb2d238b1)},
    [HD_MCAST] = {192, 80, UINT64_C(0x440fc61ceacc6933)},
    [HD_SCAN] = {1736, 2888, UINT64_C(0xcf42499247c08e71)},
    [HD_EXSCAN] = {2364, 2260, UINT64_C(0x62a5ea4795f4f071)},
};

Test(shapes, all_pairs_of_states_of_src_and_dst_have_the_outcomes_that_they_had,
     .init = open_worlds, .fini = close_worlds) {
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        outcomes_t all = {.hash = UINT64_C(0xcbf29ce484222325)};
        sweep(worlds[0], type, &all);
        sweep(worlds[1], type, &all);
        cr_expect(all.accepted == pinned[type].accepted && all.refused == pinned[type].refused &&
                      all.hash == pinned[type].hash,
                  "%s: {%u, %u, UINT64_C(0x%016llx)}; compare with SHAPES_SAY=1",
                  hd_coll[type].name, all.accepted, all.refused, (unsigned long long)all.hash);
    }
}

/* --- texts ------------------------------------------------------------------------------------ */

static uint32_t state_named(const char *name, bool vector) {
    for (uint32_t i = 0; i < STATES; i++) {
        if (is(vector ? vector_states[i] : plain_states[i].name, name)) {
            return i;
        }
    }
    cr_assert_fail("no state is called %s", name);
    return 0;
}

Test(shapes, buffers_that_do_not_fit_each_other_are_named, .init = open_worlds,
     .fini = close_worlds) {
    static const struct {
        uint8_t type;
        const char *src, *dst, *says;
    } rows[] = {
        {HD_ALLGATHER, "one more", "fits", "dst.count is not src.count times the team's size"},
        {HD_GATHER, "one more", "fits", "dst.count is not src.count times the team's size"},
        {HD_ALLGATHERV, "one more", "fits",
         "src.count differs from dst.counts at the own endpoint"},
        {HD_GATHERV, "one more", "fits", "src.count differs from dst.counts at the root"},
        {HD_SCATTER, "one more", "fits", "src.count is not a multiple of the team's size"},
        {HD_SCATTER, "fits", "one more", "src.count is not dst.count times the team's size"},
        {HD_SCATTERV, "fits", "one more", "dst.count differs from src.counts at the root"},
        {HD_ALLREDUCE, "int64", "fits", "dst.datatype differs in size from src.datatype"},
        {HD_REDUCE, "int64", "fits", "dst.datatype differs in size from src.datatype"},
        {HD_SCAN, "one more", "fits", "dst.count differs from src.count"},
        {HD_SCAN, "float32", "fits", "dst.datatype differs from src.datatype"},
        {HD_EXSCAN, "one more", "fits", "dst.count differs from src.count"},
        {HD_REDUCE_SCATTER, "float32", "fits", "dst.datatype differs from src.datatype"},
        {HD_REDUCE_SCATTER, "one more", "fits", "src.count is not dst.count times the team's size"},
        {HD_REDUCE_SCATTERV, "float32", "fits", "dst.datatype differs from src.datatype"},
        {HD_REDUCE_SCATTERV, "one more", "fits", "src.count is not the sum of dst.counts"},
        {HD_ALLTOALL, "one more each", "fits", "src.count and dst.count differ"},
        {HD_ALLTOALL, "one in all", "one in all",
         "dst.count is less than an element for each endpoint"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const hd_coll_t *coll = &hd_coll[rows[i].type];
        asked_t a = {.type = rows[i].type, .n = MOST_N, .me = 1, .root = 1};
        ucc_coll_args_t args = args_of(&a, state_named(rows[i].src, coll->source == HD_VECTOR),
                                       state_named(rows[i].dst, coll->result == HD_VECTOR));
        ucc_coll_req_h request = NULL;
        char wanted[256];
        snprintf(wanted, sizeof(wanted), "%s at endpoint 1: %s", coll->name, rows[i].says);
        last_line[0] = '\0';
        cr_assert_eq(ucc_collective_init(&args, &request, worlds[1]->teams[1]),
                     UCC_ERR_INVALID_PARAM, "%s", wanted);
        const char *at = strstr(last_line, wanted);
        cr_assert(at && is(at, wanted), "'%s' instead of '%s'", last_line, wanted);
    }
}
