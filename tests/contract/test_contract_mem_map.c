/* test_contract_mem_map.c: ucc_mem_map and ucc_mem_unmap as clients use them. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_mem_map, .timeout = 60);

enum { N = 3 };

static ucc_mem_map_mem_h UNTOUCHED = (void *)(intptr_t)0x1234;

static ucc_mem_map_mem_h export_memory(ucc_context_h context, void *address, size_t len,
                                       size_t *size) {
    ucc_mem_map_t segment = {.address = address, .len = len};
    ucc_mem_map_params_t params = {.segments = &segment, .n_segments = 1};
    ucc_mem_map_mem_h memh = NULL;
    must(ucc_mem_map(context, UCC_MEM_MAP_MODE_EXPORT, &params, size, &memh), "ucc_mem_map");
    return memh;
}

/* "Exactly one segment, else UCC_ERR_INVALID_PARAM with *memh untouched." */
Test(contract_mem_map, exactly_one_segment_else_invalid_param_with_memh_untouched) {
    world_t *world = small_world(1);
    char memory[2][64];
    ucc_mem_map_t segments[2] = {{memory[0], 64}, {memory[1], 64}};
    for (uint64_t n = 0; n <= 2; n += 2) {
        ucc_mem_map_params_t params = {.segments = segments, .n_segments = n};
        ucc_mem_map_mem_h memh = UNTOUCHED;
        size_t size = 77;
        cr_assert_eq(
            ucc_mem_map(world->contexts[0], UCC_MEM_MAP_MODE_EXPORT, &params, &size, &memh),
            UCC_ERR_INVALID_PARAM, "%d segments", (int)n);
        cr_assert_eq(memh, UNTOUCHED);
    }
    world_destroy(world);
}

Test(contract_mem_map, null_params_memh_and_content_of_memh_are_errors) {
    world_t *world = small_world(1);
    ucc_context_h context = world->contexts[0];
    char memory[64];
    ucc_mem_map_t segment = {memory, 64};
    ucc_mem_map_params_t params = {&segment, 1};
    ucc_mem_map_mem_h memh = NULL;
    size_t size = 0;
    cr_assert_lt(ucc_mem_map(context, UCC_MEM_MAP_MODE_EXPORT, NULL, &size, &memh), 0);
    cr_assert_lt(ucc_mem_map(context, UCC_MEM_MAP_MODE_EXPORT, &params, &size, NULL), 0);
    cr_assert_lt(ucc_mem_map(context, UCC_MEM_MAP_MODE_IMPORT, NULL, &size, &memh), 0);
    cr_assert_lt(ucc_mem_map(context, UCC_MEM_MAP_MODE_IMPORT, &params, &size, NULL), 0);
    cr_assert_lt(ucc_mem_map(context, UCC_MEM_MAP_MODE_IMPORT, &params, &size, &memh), 0,
                 "*memh is NULL");
    cr_assert_lt(ucc_mem_unmap(NULL), 0);
    cr_assert_lt(ucc_mem_unmap(&memh), 0, "*memh is NULL");
    world_destroy(world);
}

Test(contract_mem_map, export_gives_memh_size_bytes_and_unmap_nulls) {
    world_t *world = small_world(1);
    char memory[256];
    size_t size = 0;
    ucc_mem_map_mem_h memh = export_memory(world->contexts[0], memory, sizeof(memory), &size);
    cr_assert_neq(memh, NULL);
    cr_assert_gt(size, 0);
    volatile unsigned char sum = 0;
    for (size_t b = 0; b < size; b++) { /* readable to its end: AddressSanitizer looks */
        sum = (unsigned char)(sum + ((unsigned char *)memh)[b]);
    }
    cr_assert_eq(ucc_mem_unmap(&memh), UCC_OK);
    cr_assert_eq(memh, NULL);
    world_destroy(world);
}

/* "a flat blob, which clients memcpy, pad and send: no self-pointers in it"; the copy outlives the
 * address the blob had. */
Test(contract_mem_map, import_works_on_a_padded_copy_at_another_address) {
    world_t *world = small_world(1);
    char memory[256];
    size_t size = 0;
    ucc_mem_map_mem_h memh = export_memory(world->contexts[0], memory, sizeof(memory), &size);
    char *copy = must_alloc(1, size + 100);
    ucc_mem_map_mem_h handle = copy;
    ucc_mem_map_t segment = {memory, sizeof(memory)};
    ucc_mem_map_params_t params = {&segment, 1};
    memset(copy, 0xA5, size + 100);
    memcpy(copy, memh, size);
    cr_assert_eq(ucc_mem_unmap(&memh), UCC_OK);
    size_t import_size = size + 100;
    cr_assert_eq(
        ucc_mem_map(world->contexts[0], UCC_MEM_MAP_MODE_IMPORT, &params, &import_size, &handle),
        UCC_OK);
    cr_assert_eq(handle, copy, "import works on the user-allocated copy in place");
    cr_assert_eq(import_size, 0, "and sets *memh_size to 0");
    cr_assert_eq(ucc_mem_unmap(&handle), UCC_OK); /* with free(): AddressSanitizer sees a leak */
    cr_assert_eq(handle, NULL);
    world_destroy(world);
}

Test(contract_mem_map, import_of_something_else_is_an_error) {
    world_t *world = small_world(1);
    char memory[64], not_a_blob[512];
    ucc_mem_map_t segment = {memory, sizeof(memory)};
    ucc_mem_map_params_t params = {&segment, 1};
    ucc_mem_map_mem_h handle = not_a_blob;
    size_t size = sizeof(not_a_blob);
    memset(not_a_blob, 0x5C, sizeof(not_a_blob));
    cr_assert_lt(ucc_mem_map(world->contexts[0], UCC_MEM_MAP_MODE_IMPORT, &params, &size, &handle),
                 0);
    cr_assert_lt(ucc_mem_map(world->contexts[0], UCC_MEM_MAP_MODE_LAST, &params, &size, &handle),
                 0);
    world_destroy(world);
}

/* "global_memh is an array of n handles" */
Test(contract_mem_map, global_memh_is_an_array_of_n_handles) {
    world_t *world = small_world(N);
    int32_t src[N][N], dst[N][N];
    ucc_mem_map_mem_h exported[N][2], imported[N][2][N]; /* [endpoint][src or dst][peer] */
    size_t sizes[N][2];
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        exported[i][0] = export_memory(world->contexts[i], src[i], sizeof(src[i]), &sizes[i][0]);
        exported[i][1] = export_memory(world->contexts[i], dst[i], sizeof(dst[i]), &sizes[i][1]);
    }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            src[i][j] = (int32_t)(10 * i + j);
            for (uint32_t b = 0; b < 2; b++) {
                ucc_mem_map_t segment = {b == 0 ? src[j] : dst[j], sizeof(src[j])};
                ucc_mem_map_params_t params = {&segment, 1};
                size_t size = sizes[j][b];
                imported[i][b][j] = must_alloc(1, size);
                memcpy(imported[i][b][j], exported[j][b], size);
                must(ucc_mem_map(world->contexts[i], UCC_MEM_MAP_MODE_IMPORT, &params, &size,
                                 &imported[i][b][j]),
                     "import");
            }
        }
        args[i] = small_args(UCC_COLL_TYPE_ALLTOALL);
        args[i].src.info = small_info(src[i], N);
        args[i].dst.info = small_info(dst[i], N);
        args[i].mask = UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_MEM_MAP_SRC_MEMH |
                       UCC_COLL_ARGS_FIELD_MEM_MAP_DST_MEMH;
        args[i].flags = UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS | UCC_COLL_ARGS_FLAG_SRC_MEMH_GLOBAL |
                        UCC_COLL_ARGS_FLAG_DST_MEMH_GLOBAL;
        args[i].src_memh.global_memh = imported[i][0];
        args[i].dst_memh.global_memh = imported[i][1];
    }
    small_run(world, args, "alltoall on mapped memory");
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            cr_assert_eq(dst[i][j], (int32_t)(10 * j + i));
            cr_assert_eq(ucc_mem_unmap(&imported[i][0][j]), UCC_OK);
            cr_assert_eq(ucc_mem_unmap(&imported[i][1][j]), UCC_OK);
        }
        cr_assert_eq(ucc_mem_unmap(&exported[i][0]), UCC_OK);
        cr_assert_eq(ucc_mem_unmap(&exported[i][1]), UCC_OK);
    }
    world_destroy(world);
}
