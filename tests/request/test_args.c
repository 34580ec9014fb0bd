/* test_args.c: what ucc_collective_init refuses: the status, and a log line that names the field.
 * Only what is significant at the endpoint is looked at: the rest is garbage here.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/small.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(args, .timeout = 60);

enum { N = 3, ME = 1 };

static char last_line[512];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

static world_t *world;
static int32_t src[64], dst[64];
static uint32_t counts[N], displacements[N];

static void open_world(void) {
    setenv("HEDDLE_GPU", "n", 1); /* whatever the machine has */
    world = small_world(N);
    for (uint32_t i = 0; i < N; i++) {
        counts[i] = 2;
        displacements[i] = 2 * i;
    }
    hd_log_capture(capture, NULL);
}

static void close_world(void) {
    hd_log_capture(NULL, NULL);
    world_destroy(world);
}

/* init at endpoint ME gives this status, and the line it logs holds these words. */
static void refused(ucc_coll_args_t args, ucc_status_t status, const char *field,
                    const char *what) {
    ucc_coll_req_h request = NULL;
    last_line[0] = '\0';
    ucc_status_t got = ucc_collective_init(&args, &request, world->teams[ME]);
    cr_assert_eq(got, status, "%s %s: %d instead of %d (%s)", field, what, (int)got, (int)status,
                 last_line);
    cr_assert_null(request);
    cr_assert(strstr(last_line, field) && strstr(last_line, what), "'%s' lacks '%s' or '%s'",
              last_line, field, what);
}

static void accepted(ucc_coll_args_t args) {
    ucc_coll_req_h request = NULL;
    cr_assert_eq(ucc_collective_init(&args, &request, world->teams[ME]), UCC_OK, "%s", last_line);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
}

/* A good call of each type at endpoint ME, which is the root of rooted ones. */
static ucc_coll_args_t good(ucc_coll_type_t type) {
    ucc_coll_args_t a = small_args(type);
    a.root = ME;
    a.op = UCC_OP_SUM;
    bool src_whole = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_SCATTER ||
                     type == UCC_COLL_TYPE_REDUCE_SCATTER || type == UCC_COLL_TYPE_REDUCE_SCATTERV;
    bool dst_whole = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_ALLGATHER ||
                     type == UCC_COLL_TYPE_GATHER;
    a.src.info = small_info(src, src_whole ? 2 * N : 2);
    a.dst.info = small_info(dst, dst_whole ? 2 * N : 2);
    if (type == UCC_COLL_TYPE_ALLTOALLV || type == UCC_COLL_TYPE_SCATTERV) {
        a.src.info_v = small_info_v(src, counts, displacements);
    }
    if (type == UCC_COLL_TYPE_ALLTOALLV || type == UCC_COLL_TYPE_ALLGATHERV ||
        type == UCC_COLL_TYPE_GATHERV || type == UCC_COLL_TYPE_REDUCE_SCATTERV) {
        a.dst.info_v = small_info_v(dst, counts, displacements);
    }
    return a;
}

static bool reads_src(ucc_coll_type_t type) {
    return type != UCC_COLL_TYPE_BARRIER && type != UCC_COLL_TYPE_FANIN &&
           type != UCC_COLL_TYPE_FANOUT;
}

static bool reads_dst(ucc_coll_type_t type) {
    return reads_src(type) && type != UCC_COLL_TYPE_BCAST && type != UCC_COLL_TYPE_MCAST;
}

static bool has_src_vector(ucc_coll_type_t type) {
    return type == UCC_COLL_TYPE_ALLTOALLV || type == UCC_COLL_TYPE_SCATTERV;
}

static bool has_dst_vector(ucc_coll_type_t type) {
    return coll_is_v(type) && type != UCC_COLL_TYPE_SCATTERV;
}

#define FOR_TYPES(_type)                                                                           \
    for (uint32_t t_ = 0; t_ < COLL_TYPES; t_++)                                                   \
        for (ucc_coll_type_t _type = coll_type_at(t_), once_ = (ucc_coll_type_t)1; once_;          \
             once_ = (ucc_coll_type_t)0)

Test(args, good_calls_are_accepted, .init = open_world, .fini = close_world) {
    FOR_TYPES(type) {
        accepted(good(type));
    }
}

Test(args, types_that_are_none_or_several, .init = open_world, .fini = close_world) {
    refused(small_args((ucc_coll_type_t)0), UCC_ERR_INVALID_PARAM, "coll_type", "not a collective");
    refused(small_args((ucc_coll_type_t)3), UCC_ERR_INVALID_PARAM, "coll_type", "not a collective");
    refused(small_args((ucc_coll_type_t)UCC_BIT(19)), UCC_ERR_INVALID_PARAM, "coll_type",
            "not a collective");
    refused(small_args((ucc_coll_type_t)UINT_MAX), UCC_ERR_INVALID_PARAM, "coll_type",
            "not a collective");
}

Test(args, null_buffers, .init = open_world, .fini = close_world) {
    FOR_TYPES(type) {
        ucc_coll_args_t a = good(type);
        if (reads_src(type)) {
            a.src.info.buffer = NULL;   /* the same place in info_v */
            if (has_src_vector(type)) { /* displacements may be absolute addresses */
                accepted(a);
                a.src.info_v.displacements = NULL;
            }
            refused(a, UCC_ERR_INVALID_PARAM, "src", "NULL buffer");
        }
        a = good(type);
        if (reads_dst(type)) {
            a.dst.info.buffer = NULL;
            if (has_dst_vector(type) && type != UCC_COLL_TYPE_REDUCE_SCATTERV) {
                accepted(a);
                a.dst.info_v.displacements = NULL;
            }
            refused(a, UCC_ERR_INVALID_PARAM, "dst", "NULL buffer");
        }
    }
}

Test(args, null_counts, .init = open_world, .fini = close_world) {
    FOR_TYPES(type) {
        ucc_coll_args_t a = good(type);
        if (has_src_vector(type)) {
            a.src.info_v.counts = NULL;
            refused(a, UCC_ERR_INVALID_PARAM, "src", "NULL counts");
        }
        a = good(type);
        if (has_dst_vector(type)) {
            a.dst.info_v.counts = NULL;
            refused(a, UCC_ERR_INVALID_PARAM, "dst", "NULL counts");
        }
    }
}

Test(args, counts_beyond_the_address_space, .init = open_world, .fini = close_world) {
    static const uint64_t huge[] = {UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 62,
                                    ((uint64_t)1 << 61) + 1};
    uint64_t wide[N] = {(uint64_t)1 << 60, (uint64_t)1 << 60, 1};
    for (uint32_t h = 0; h < 4; h++) {
        FOR_TYPES(type) {
            ucc_coll_args_t a = good(type);
            bool by_dst = type == UCC_COLL_TYPE_ALLREDUCE || type == UCC_COLL_TYPE_REDUCE;
            if (reads_src(type) && !has_src_vector(type) && !by_dst) {
                a.src.info.count = huge[h];
                refused(a, UCC_ERR_INVALID_PARAM, "src", "beyond the address space");
            }
            a = good(type);
            if (reads_dst(type) && !has_dst_vector(type)) {
                a.dst.info.count = huge[h];
                refused(a, UCC_ERR_INVALID_PARAM, "dst", "beyond the address space");
            }
        }
    }
    FOR_TYPES(type) {
        ucc_coll_args_t a = good(type);
        if (has_dst_vector(type)) { /* the sum: 2^61 elements of 4 bytes, and one */
            a.mask = UCC_COLL_ARGS_FIELD_FLAGS;
            a.flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT;
            a.dst.info_v.counts = wide;
            refused(a, UCC_ERR_INVALID_PARAM, "dst", "beyond the address space");
        }
    }
}

/* As if dst.count were the number of elements from each endpoint, as in MPI. */
Test(args, less_than_an_element_for_each_though_there_is_something_to_send, .init = open_world,
     .fini = close_world) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_ALLTOALL,
                                            UCC_COLL_TYPE_GATHER};
    for (uint32_t t = 0; t < 3; t++) {
        ucc_coll_args_t a = good(types[t]);
        a.src.info.count = a.dst.info.count = N - 1;
        refused(a, UCC_ERR_INVALID_PARAM, "dst.count", "is");
        a.src.info.count = 0; /* nothing, and what is left over */
        accepted(a);
        a.dst.info.datatype = 2;
        refused(a, UCC_ERR_INVALID_PARAM, "dst", "datatype");
    }
}

Test(args, active_sets_larger_than_the_team_and_its_counts, .init = open_world,
     .fini = close_world) {
    FOR_TYPES(type) {
        ucc_coll_args_t a = good(type);
        a.mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        a.active_set.start = 0;
        a.active_set.stride = 1;
        a.active_set.size = 1000;
        refused(a, UCC_ERR_INVALID_PARAM, "active_set", "outside the team");
    }
}

Test(args, datatypes_that_do_not_exist, .init = open_world, .fini = close_world) {
    static const ucc_datatype_t bad[] = {UCC_PREDEFINED_DT(UCC_DT_PREDEFINED_LAST + 40), 2, 7,
                                         UCC_PREDEFINED_DT(1u << 20)};
    for (uint32_t i = 0; i < 4; i++) {
        FOR_TYPES(type) {
            ucc_coll_args_t a = good(type);
            if (has_src_vector(type)) {
                a.src.info_v.datatype = bad[i];
            } else {
                a.src.info.datatype = bad[i];
            }
            if (has_dst_vector(type)) {
                a.dst.info_v.datatype = bad[i];
            } else {
                a.dst.info.datatype = bad[i];
            }
            if (reads_src(type)) {
                refused(a, UCC_ERR_INVALID_PARAM, "datatype", "not");
            }
        }
    }
}

Test(args, operations_without_meaning_are_named_with_their_datatype, .init = open_world,
     .fini = close_world) {
    static const struct {
        ucc_datatype_t dt;
        ucc_reduction_op_t op;
        const char *dt_name, *op_name;
    } pairs[] = {{UCC_DT_FLOAT32, UCC_OP_BAND, "float32", "band"},
                 {UCC_DT_FLOAT64, UCC_OP_LXOR, "float64", "lxor"},
                 {UCC_DT_FLOAT32_COMPLEX, UCC_OP_MAX, "float32_complex", "max"},
                 {UCC_DT_INT32, UCC_OP_MAXLOC, "int32", "maxloc"},
                 {UCC_DT_INT128, UCC_OP_AVG, "int128", "avg"},
                 {UCC_DT_INT32, UCC_OP_LAST, "int32", "invalid"},
                 {UCC_DT_INT32, (ucc_reduction_op_t)UINT_MAX, "int32", "invalid"}};
    for (uint32_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        FOR_TYPES(type) {
            ucc_coll_args_t a = good(type);
            a.op = pairs[i].op;
            a.src.info.datatype = pairs[i].dt;
            if (has_dst_vector(type)) {
                a.dst.info_v.datatype = pairs[i].dt;
            } else {
                a.dst.info.datatype = pairs[i].dt;
            }
            if (coll_is_reduction(type)) {
                refused(a,
                        pairs[i].op < UCC_OP_LAST ? UCC_ERR_NOT_SUPPORTED : UCC_ERR_INVALID_PARAM,
                        pairs[i].op_name, pairs[i].dt_name);
            }
        }
    }
}

Test(args, roots_outside_the_team, .init = open_world, .fini = close_world) {
    static const uint64_t roots[] = {N, UINT32_MAX, (uint64_t)1 << 32, UINT64_MAX,
                                     (uint64_t)1 << 63};
    for (uint32_t r = 0; r < 5; r++) {
        FOR_TYPES(type) {
            ucc_coll_args_t a = good(type);
            a.root = roots[r];
            if (coll_is_rooted(type)) {
                refused(a, UCC_ERR_INVALID_PARAM, "root", "not an endpoint");
            } else {
                accepted(a); /* garbage that means nothing */
            }
        }
    }
}

Test(args, sizes_of_src_and_dst_that_do_not_fit, .init = open_world, .fini = close_world) {
    FOR_TYPES(type) {
        ucc_coll_args_t a = good(type);
        if (!reads_dst(type) || type == UCC_COLL_TYPE_ALLREDUCE || type == UCC_COLL_TYPE_REDUCE) {
            continue; /* in the last two, dst says how much there is */
        }
        if (has_src_vector(type)) {
            if (type == UCC_COLL_TYPE_SCATTERV) {
                a.dst.info.count = 3;
                refused(a, UCC_ERR_INVALID_PARAM, "dst", "counts");
            }
            continue;
        }
        a.src.info.count += N; /* one more for each, where it is a total */
        refused(a, UCC_ERR_INVALID_PARAM, "count", "endpoint 1");
    }
    ucc_coll_args_t a = good(UCC_COLL_TYPE_ALLREDUCE);
    a.dst.info.datatype = UCC_DT_FLOAT64;
    refused(a, UCC_ERR_INVALID_PARAM, "dst.datatype", "differs");
    a.dst.info.datatype =
        UCC_DT_FLOAT32; /* of the same size: whose bits is the client's business */
    accepted(a);
    a = good(UCC_COLL_TYPE_ALLTOALLV);
    a.src.info_v.datatype = UCC_DT_INT64; /* what must agree is a pair's bytes: seen at copy time */
    accepted(a);
    a = good(UCC_COLL_TYPE_REDUCE_SCATTER);
    a.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    a.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    a.dst.info.count = 7; /* three for the first, two for the others */
    accepted(a);
}

Test(args, device_memory_needs_a_driver, .init = open_world, .fini = close_world) {
    FOR_TYPES(type) {
        if (!reads_src(type)) {
            continue;
        }
        for (ucc_memory_type_t m = UCC_MEMORY_TYPE_CUDA; m < UCC_MEMORY_TYPE_LAST; m++) {
            ucc_coll_args_t a = good(type);
            if (has_src_vector(type)) {
                a.src.info_v.mem_type = m;
            } else {
                a.src.info.mem_type = m;
            }
            refused(a, UCC_ERR_NOT_SUPPORTED, "src.mem_type", "device memory");
        }
        ucc_coll_args_t a = good(type);
        if (has_src_vector(type)) {
            a.src.info_v.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
        } else {
            a.src.info.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
        }
        accepted(a);
        a.src.info.mem_type = (ucc_memory_type_t)99;
        if (!has_src_vector(type)) {
            refused(a, UCC_ERR_INVALID_PARAM, "src", "does not exist");
        }
    }
}

Test(args, packed_datatypes, .init = open_world, .fini = close_world) {
    ucc_datatype_t dt = generic_hollow(4);
    ucc_coll_args_t a = good(UCC_COLL_TYPE_ALLREDUCE);
    a.src.info.datatype = a.dst.info.datatype = dt;
    refused(a, UCC_ERR_NOT_SUPPORTED, "generic datatype", "without a reduction");
    a = good(UCC_COLL_TYPE_ALLTOALLV);
    a.src.info_v.datatype = a.dst.info_v.datatype = dt;
    refused(a, UCC_ERR_NOT_SUPPORTED, "dst", "packed");
    a = good(UCC_COLL_TYPE_BCAST);
    a.src.info.datatype = dt;
    accepted(a);
    a.src.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    refused(a, UCC_ERR_NOT_SUPPORTED, "src.mem_type", "device memory");
    a = good(UCC_COLL_TYPE_BCAST);
    a.src.info.datatype = dt;
    a.src.info.buffer = NULL;
    refused(a, UCC_ERR_INVALID_PARAM, "src", "buffer");
    ucc_dt_destroy(dt);
}

static ucc_coll_args_t active(uint64_t start, int64_t stride, uint64_t size) {
    ucc_coll_args_t a = good(UCC_COLL_TYPE_BCAST);
    a.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    a.active_set.start = start;
    a.active_set.stride = stride;
    a.active_set.size = size;
    return a;
}

Test(args, active_sets_that_are_not_in_the_team, .init = open_world, .fini = close_world) {
    refused(active(0, 1, 0), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(0, 1, N + 1), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(0, 2, 3), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(1, -1, 3), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(N, 1, 1), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(1, 0, 2), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(UINT64_MAX, INT64_MIN, UINT64_MAX), UCC_ERR_INVALID_PARAM, "active_set",
            "outside");
    refused(active(0, INT64_MAX, 2), UCC_ERR_INVALID_PARAM, "active_set", "outside");
    refused(active(0, 2, 2), UCC_ERR_INVALID_PARAM, "active_set", "contain the caller");
    refused(active(2, 1, 1), UCC_ERR_INVALID_PARAM, "active_set", "contain the caller");
    ucc_coll_args_t a = active(1, 1, 2);
    a.root = 0;
    refused(a, UCC_ERR_INVALID_PARAM, "root", "active set");
    a.root = UINT64_MAX;
    refused(a, UCC_ERR_INVALID_PARAM, "root", "active set");
    a.root = (uint64_t)1 << 63;
    refused(a, UCC_ERR_INVALID_PARAM, "root", "active set");
    accepted(active(1, 1, 2));
    accepted(active(2, -1, 3));
    accepted(active(1, INT64_MIN, 1)); /* the stride of a single member means nothing */
}

Test(args, timeouts_that_are_no_time, .init = open_world, .fini = close_world) {
    static const double bad[] = {-1.0, -1e-9, 0.0 / 0.0};
    for (uint32_t i = 0; i < 3; i++) {
        ucc_coll_args_t a = good(UCC_COLL_TYPE_BARRIER);
        a.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        a.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
        a.timeout = bad[i];
        refused(a, UCC_ERR_INVALID_PARAM, "timeout", "negative");
        a.flags = 0;
        accepted(a); /* not significant */
    }
}

Test(args, an_unordered_team_needs_tags) {
    world = world_create(
        &(world_params_t){.size = N, .form = WORLD_OOB, .ordering = UCC_COLLECTIVE_POST_UNORDERED});
    hd_log_capture(capture, NULL);
    ucc_coll_args_t a = good(UCC_COLL_TYPE_BARRIER);
    refused(a, UCC_ERR_INVALID_PARAM, "tag", "unordered");
    a.mask = UCC_COLL_ARGS_FIELD_TAG;
    accepted(a);
    close_world();
}

Test(args, null_arguments, .init = open_world, .fini = close_world) {
    ucc_coll_args_t a = good(UCC_COLL_TYPE_BARRIER);
    ucc_coll_req_h request;
    cr_assert_eq(ucc_collective_init(NULL, &request, world->teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "coll_args"));
    cr_assert_eq(ucc_collective_init(&a, NULL, world->teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "request"));
    cr_assert_eq(ucc_collective_init(&a, &request, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "team"));
    cr_assert_eq(ucc_collective_post(NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_collective_finalize(NULL), UCC_ERR_INVALID_PARAM);
}
