/* info.c: heddle_info_print: what this library is, sees, and would do. */
#include "api/api.h"

static void print_build(FILE *out) {
    fprintf(out, "heddle %s, UCC API %s\n", heddle_version_string(), UCC_VERSION_STRING);
    fprintf(out, "  compiler    %s\n", __VERSION__);
    fprintf(out, "  reductions  %s kernels\n", hd_reduce_isa_name());
    fprintf(out, "  sleeping    %s\n",
            hd_park_has_membarrier ? "futex with membarrier" : "futex with full fences");
    fprintf(out, "  ticks       %llu per us\n\n", (unsigned long long)hd_ticks_per_us);
}

static void print_trees(FILE *out, uint32_t n) {
    const hd_topo_t *topo = hd_topo_get();
    hd_locality_t *where = hd_alloc(HD_LINE, n * sizeof(*where));
    hd_tree_t *canonical = NULL, *by_topology = NULL;
    for (uint32_t i = 0; where && i < n; i++) {
        hd_topo_place(topo, i, n, &where[i]);
    }
    if (where && hd_tree_by_number(n, &canonical) == UCC_OK &&
        hd_tree_by_topology(n, where, HD_TREE_FANIN, &by_topology) == UCC_OK) {
        fprintf(out, "arrival tree of %u endpoints placed by topology:\n", n);
        hd_tree_print(by_topology, where, out);
        fprintf(out, "canonical tree of reductions:\n");
        hd_tree_print(canonical, NULL, out);
        fputc('\n', out);
    }
    if (by_topology) {
        hd_tree_destroy(by_topology);
    }
    if (canonical) {
        hd_tree_destroy(canonical);
    }
    hd_free(where);
}

/* What runs for a collective whose deciding size (see the table's head) is `bytes`. */
static const char *plan_of(const hd_group_t *group, uint8_t type, size_t bytes) {
    bool flat = !group->canonical;
    hd_regime_t regime = hd_regime_for(group, type, group->n, bytes);
    switch (type) {
    case HD_BARRIER:
    case HD_FANIN:
        return flat ? "flat" : "tree";
    case HD_FANOUT:
        return "root's line";
    case HD_REDUCE:
    case HD_ALLREDUCE:
        return !flat && regime == HD_REGIME_INLINE ? "tree"
               : !flat                             ? "direct"
                                                   : hd_regime_name(regime);
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return flat ? hd_regime_name(regime) : "direct";
    case HD_SCAN:
    case HD_EXSCAN:
        return hd_regime_name(hd_scan_regime(group, type, group->n, bytes, false));
    case HD_ALLTOALLV:
    case HD_SCATTERV:
        return bytes + (group->n + 1) * sizeof(uint32_t) <= group->staged_max && !group->two_sided
                   ? "staged"
                   : "direct";
    default:
        return hd_regime_name(regime);
    }
}

static ucc_status_t print_plans(FILE *out, uint32_t n) {
    static const size_t size[] = {8, 48, 256, 1024, 4096, 16384, 65536, 1048576};
    ucc_lib_params_t params = {0};
    ucc_lib_h lib;
    ucc_status_t status = ucc_init(&params, NULL, &lib);
    if (status != UCC_OK) {
        return status;
    }
    hd_group_config_t config = hd_team_group_config(lib, UCC_NO_SYNC_COLLECTIVES);
    hd_group_t *group = hd_group_create(n, &config);
    if (group) {
        fprintf(
            out,
            "plans for %u endpoints (each on a processor of its own: direct above DIRECT_ABOVE), "
            "by the bytes that one endpoint gives in all (allgather, "
            "gather: one block)\n%-16s",
            n, "");
        for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
            fprintf(out, "%12zu", size[i]);
        }
        for (uint8_t type = 0; type < HD_N_TYPES; type++) {
            fprintf(out, "\n%-16s", hd_type_name(type));
            for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
                fprintf(out, "%12s", plan_of(group, type, size[i]));
            }
        }
        fputs("\n\n", out);
        hd_home_unpin(&group->home);
    }
    ucc_finalize(lib);
    return group ? UCC_OK : UCC_ERR_NO_MEMORY;
}

ucc_status_t heddle_info_print(FILE *stream, uint64_t flags, uint32_t endpoints) {
    if (!hd_api_pointer(stream, "stream", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (endpoints > 1u << 20) {
        hd_error("%s: endpoints is %u", __func__, endpoints);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_clock_init();
    hd_park_init();
    uint32_t n = endpoints ? endpoints : hd_topo_n_pus(hd_topo_get());
    if (flags & HEDDLE_INFO_BUILD) {
        print_build(stream);
    }
    if (flags & HEDDLE_INFO_TOPOLOGY) {
        hd_topo_print(hd_topo_get(), stream);
        fputc('\n', stream);
    }
    if (flags & HEDDLE_INFO_TREES) {
        print_trees(stream, n);
    }
    if (flags & HEDDLE_INFO_CONFIG) {
        hd_config_check_environment("");
        ucc_status_t status = hd_config_describe(stream);
        if (status != UCC_OK) {
            return status;
        }
        fputc('\n', stream);
    }
    return flags & HEDDLE_INFO_PLANS ? print_plans(stream, n) : UCC_OK;
}
