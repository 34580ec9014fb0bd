/* memory.c: ucc_mem_map and ucc_mem_unmap.
 *
 * Nothing is registered anywhere: a handle says where memory is, and in which process. All that it
 * is used for is to find an endpoint's own (one_sided.c), so handles of other processes' memory are
 * taken for what they say.
 *
 * A handle is one flat malloc'd record without pointers into itself: clients copy it, pad it, send
 * it. Export makes one for exactly one segment. Import turns the client's own malloc'd copy into a
 * handle in place. Unmap frees either with free(), as the released library does, and clears the
 * client's pointer.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

enum { EXPORTED = 0x6d656d65u, IMPORTED = 0x6d656d69u };

typedef struct mapping {
    uint32_t kind;
    uint32_t reserved;
    uint64_t process[2];
    uint64_t address;
    uint64_t bytes;
} mapping_t;

static ucc_status_t export(const ucc_mem_map_params_t *params, size_t *memh_size,
                           ucc_mem_map_mem_h *memh) {
    if (!params->segments || params->n_segments != 1) {
        hd_error("ucc_mem_map: n_segments is %llu, must be 1",
                 (unsigned long long)params->n_segments);
        return UCC_ERR_INVALID_PARAM;
    }
    mapping_t *m = calloc(1, sizeof(*m));
    if (!m) {
        hd_error("ucc_mem_map: no memory");
        return UCC_ERR_NO_MEMORY;
    }
    m->kind = EXPORTED;
    m->address = (uint64_t)(uintptr_t)params->segments[0].address;
    m->bytes = params->segments[0].len;
    hd_process_identity(m->process);
    *memh_size = sizeof(*m);
    *memh = m;
    return UCC_OK;
}

static ucc_status_t import(size_t *memh_size, ucc_mem_map_mem_h *memh) {
    mapping_t *m = *memh;
    if (!m || (m->kind != EXPORTED && m->kind != IMPORTED)) {
        hd_error("ucc_mem_map: *memh is not an exported handle");
        return UCC_ERR_INVALID_PARAM;
    }
    m->kind = IMPORTED;
    *memh_size = 0;
    return UCC_OK;
}

bool hd_api_mapping(ucc_mem_map_mem_h memh, ucc_mem_map_t *segment) {
    const mapping_t *m = memh;
    uint64_t mine[2];
    if (!m || (m->kind != EXPORTED && m->kind != IMPORTED)) {
        return false;
    }
    hd_process_identity(mine);
    *segment = (ucc_mem_map_t){(void *)(uintptr_t)m->address, m->bytes};
    return memcmp(mine, m->process, sizeof(mine)) == 0;
}

ucc_status_t ucc_mem_map(ucc_context_h context, ucc_mem_map_mode_t mode,
                         const ucc_mem_map_params_t *params, size_t *memh_size,
                         ucc_mem_map_mem_h *memh) {
    if (!hd_api_context(context, __func__) || !hd_api_pointer(params, "params", __func__) ||
        !hd_api_pointer(memh_size, "memh_size", __func__) ||
        !hd_api_pointer(memh, "memh", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    switch ((int)mode) {
    case UCC_MEM_MAP_MODE_EXPORT:
        return export(params, memh_size, memh);
    case UCC_MEM_MAP_MODE_IMPORT:
        return import(memh_size, memh);
    case UCC_MEM_MAP_MODE_EXPORT_OFFLOAD:
    case UCC_MEM_MAP_MODE_IMPORT_OFFLOAD:
        hd_error("%s: there is no offload device", __func__);
        return UCC_ERR_NOT_SUPPORTED;
    default:
        hd_error("%s: mode %d does not exist", __func__, (int)mode);
        return UCC_ERR_INVALID_PARAM;
    }
}

ucc_status_t ucc_mem_unmap(ucc_mem_map_mem_h *memh) {
    if (!hd_api_pointer(memh, "memh", __func__) || !hd_api_pointer(*memh, "*memh", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    mapping_t *m = *memh;
    if (m->kind != EXPORTED && m->kind != IMPORTED) {
        hd_error("%s: *memh is not a memory handle", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    m->kind = 0;
    free(m);
    *memh = NULL;
    return UCC_OK;
}
