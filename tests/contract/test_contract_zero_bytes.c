/* test_contract_zero_bytes.c: collectives without data, and callbacks that fire inside post. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>

TestSuite(contract_zero_bytes, .timeout = 120);

enum { N = 3, ROOT = 1 };

/* Arguments of zero bytes; buffers are NULL, op and root garbage unless asked for. */
static ucc_coll_args_t empty(ucc_coll_type_t type, bool valid_rest) {
    ucc_coll_args_t args = small_args(type);
    args.src.info = small_info(NULL, 0);
    args.dst.info = small_info(NULL, 0);
    if (valid_rest) {
        args.op = UCC_OP_SUM;
        args.root = ROOT;
    }
    return args;
}

static ucc_coll_type_t local_types[] = {
    UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_BCAST,
    UCC_COLL_TYPE_GATHER,    UCC_COLL_TYPE_REDUCE,    UCC_COLL_TYPE_SCATTER};
enum { N_LOCAL_TYPES = sizeof(local_types) / sizeof(local_types[0]) };

Test(contract_zero_bytes, complete_inside_post_without_synchronization) {
    world_t *world = small_world(N);
    for (int t = 0; t < N_LOCAL_TYPES; t++) {
        for (uint32_t i = 0; i < N; i++) { /* nobody else calls */
            ucc_coll_args_t args = empty(local_types[t], true);
            ucc_coll_req_h request = small_start(world, i, &args);
            cr_assert_eq(ucc_collective_test(request), UCC_OK, "%s at %u",
                         reference_coll_name(local_types[t]), i);
            cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
        }
    }
    world_destroy(world);
}

Test(contract_zero_bytes, take_no_sequence_number) {
    world_t *world = small_world(N);
    for (int t = 0; t < N_LOCAL_TYPES; t++) {
        ucc_coll_args_t args = empty(local_types[t], true);
        ucc_coll_req_h request = small_start(world, 2, &args); /* endpoint 2 only */
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
        cr_assert(small_team_works(world), "out of step after %s",
                  reference_coll_name(local_types[t]));
    }
    world_destroy(world);
}

Test(contract_zero_bytes, may_be_posted_again_when_persistent_and_only_then) {
    world_t *world = small_world(N);
    for (int persistent = 1; persistent >= 0; persistent--) { /* the second reuses the request */
        ucc_coll_args_t args = empty(UCC_COLL_TYPE_ALLREDUCE, true);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = persistent ? UCC_COLL_ARGS_FLAG_PERSISTENT : 0;
        ucc_coll_req_h request = small_start(world, 0, &args);
        cr_assert_eq(ucc_collective_post(request), persistent ? UCC_OK : UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_collective_test(request), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    }
    world_destroy(world);
}

Test(contract_zero_bytes, come_before_any_other_check) {
    world_t *world = small_world(N);
    for (int t = 0; t < N_LOCAL_TYPES; t++) {
        ucc_coll_args_t args = empty(local_types[t], false); /* op and root are garbage */
        ucc_coll_req_h request = small_start(world, 0, &args);
        cr_assert_eq(ucc_collective_test(request), UCC_OK, "%s",
                     reference_coll_name(local_types[t]));
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    }
    world_destroy(world);
}

Test(contract_zero_bytes, reduce_scatter_and_the_v_types_take_part) {
    static const ucc_coll_type_t types[] = {
        UCC_COLL_TYPE_REDUCE_SCATTER, UCC_COLL_TYPE_REDUCE_SCATTERV, UCC_COLL_TYPE_ALLGATHERV,
        UCC_COLL_TYPE_ALLTOALLV,      UCC_COLL_TYPE_GATHERV,         UCC_COLL_TYPE_SCATTERV};
    static uint32_t zeros[N];
    world_t *world = small_world(N);
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            args[i] = empty(types[t], true);
            if (types[t] == UCC_COLL_TYPE_ALLTOALLV || types[t] == UCC_COLL_TYPE_SCATTERV) {
                args[i].src.info_v = small_info_v(NULL, zeros, zeros);
            }
            if (types[t] != UCC_COLL_TYPE_SCATTERV && types[t] != UCC_COLL_TYPE_REDUCE_SCATTER) {
                args[i].dst.info_v = small_info_v(NULL, zeros, zeros);
            }
        }
        small_run(world, args, reference_coll_name(types[t]));
        cr_assert(small_team_works(world), "out of step after %s", reference_coll_name(types[t]));
    }
    world_destroy(world);
}

/* Some endpoints with nothing to give are no reason to leave the others out of step. */
Test(contract_zero_bytes, v_types_with_nothing_at_some_endpoints) {
    static uint32_t counts[N] = {0, 3, 0}, displacements[N] = {0, 0, 3};
    world_t *world = small_world(N);
    int32_t src[3] = {7, 8, 9}, dst[N][3];
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLGATHERV);
        args[i].src.info = small_info(i == 1 ? src : NULL, counts[i]);
        args[i].dst.info_v = small_info_v(dst[i], counts, displacements);
    }
    small_run(world, args, "allgatherv with one source");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(dst[i], src, sizeof(src));
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* --- callbacks --- */

typedef struct seen {
    ucc_coll_req_h request; /* finalized in the callback if not NULL */
    int calls;
    ucc_status_t status, status_in_request, finalized;
} seen_t;

static void on_complete(void *data, ucc_status_t status) {
    seen_t *seen = data;
    seen->calls++;
    seen->status = status;
    if (seen->request != NULL) {
        seen->status_in_request = ucc_collective_test(seen->request);
        seen->finalized = ucc_collective_finalize(seen->request);
    }
}

static void set_callback(ucc_coll_args_t *args, seen_t *seen) {
    args->mask |= UCC_COLL_ARGS_FIELD_CB;
    args->cb.cb = on_complete;
    args->cb.data = seen;
}

Test(contract_zero_bytes, callbacks_may_fire_inside_post) {
    world_t *world = small_world(N);
    seen_t seen = {.status = UCC_ERR_LAST};
    ucc_coll_args_t args = empty(UCC_COLL_TYPE_ALLREDUCE, true);
    set_callback(&args, &seen);
    ucc_coll_req_h request = small_start(world, 0, &args);
    cr_assert_eq(seen.calls, 1);
    cr_assert_eq(seen.status, UCC_OK);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    cr_assert_eq(seen.calls, 1);
    world_destroy(world);
}

/* "and the client may finalize in the callback: post must not touch the request afterwards" */
Test(contract_zero_bytes, client_may_finalize_in_the_callback_inside_post) {
    world_t *world = small_world(N);
    for (int t = 0; t < N_LOCAL_TYPES; t++) {
        seen_t seen = {.status = UCC_ERR_LAST};
        ucc_coll_args_t args = empty(local_types[t], true);
        set_callback(&args, &seen);
        seen.request = small_init(world, 0, &args);
        cr_assert_eq(ucc_collective_post(seen.request), UCC_OK);
        cr_assert_eq(seen.calls, 1);
        cr_assert_eq(seen.status_in_request, UCC_OK);
        cr_assert_eq(seen.finalized, UCC_OK);
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* The last arriver completes inside its post; the others in a progress call. */
Test(contract_zero_bytes, client_may_finalize_in_the_callback_of_any_collective) {
    world_t *world = small_world(N);
    for (uint64_t count = 1; count <= 40000; count *= 200) {
        int32_t *src = must_alloc(count, sizeof(*src));
        int32_t *dst = must_alloc(count * N, sizeof(*dst));
        seen_t seen[N];
        ucc_coll_args_t args;
        for (uint32_t i = 0; i < N; i++) {
            seen[i] = (seen_t){.status = UCC_ERR_LAST};
            args = small_allreduce(src, dst + i * count, count);
            set_callback(&args, &seen[i]);
            seen[i].request = small_init(world, i, &args);
        }
        deadline_t deadline = deadline_start("callbacks that finalize");
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(ucc_collective_post(seen[i].request), UCC_OK);
        }
        while (seen[0].calls + seen[1].calls + seen[2].calls < N) {
            small_idle(world);
            deadline_poll(&deadline);
        }
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(seen[i].calls, 1);
            cr_assert_eq(seen[i].status, UCC_OK);
            cr_assert_eq(seen[i].status_in_request, UCC_OK);
            cr_assert_eq(seen[i].finalized, UCC_OK);
        }
        free(src);
        free(dst);
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}
