/* info.c: heddle_info_print, heddle_team_print: what this library is, sees, and would do. */
#include "api/api.h"
#include "form/kin.h"

#include "gpu/gpu.h"
#include "net/ask.h"
#include "net/net.h"
#include "device/device.h"
#include "core/who.h"
#include "span/internal.h"

#include <string.h>

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

/* A call of this type in which every member gives as many bytes (allgather, gather: one block of so
 * many); of member 1, or of whoever has the data. Blocks are even. */
static hd_call_t call_of(uint8_t type, uint32_t n, size_t bytes, const uint32_t *counts) {
    const hd_coll_t *coll = &hd_coll[type];
    bool divided = coll->source == HD_BLOCKS || coll->source == HD_VECTOR;
    size_t block = coll->moves_data ? (divided ? bytes / n : bytes) : 0;
    return (hd_call_t){.type = type,
                       .is_root = coll->flow == HD_FROM_ROOT,
                       .element = coll->reducing ? 1 : block, /* of which counts are numbers */
                       .send_element = block,
                       .bytes = block,
                       .total = bytes,
                       .send = {.counts = counts},
                       .receive = {.counts = counts}};
}

/* "inline*", "direct 64K>": a plan in 13 characters. */
static void print_plan(FILE *out, const hd_plan_t *plan) {
    char text[32];
    int used = snprintf(text, sizeof(text), "%s", hd_plan_name(plan));
    if (plan->regime == HD_REGIME_DIRECT) {
        bool kib = plan->window >= 10 * 1024;
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %zu%s",
                         kib ? plan->window / 1024 : plan->window, kib ? "K" : "");
    }
    static const char mark[] = {[HD_STORES_PLAIN] = ' ',
                                [HD_STORES_STRING] = '=',
                                [HD_STORES_STREAMING] = '>',
                                [HD_STORES_PAGES] = '>'};
    fprintf(out, "%12s%c", text, plan->slices ? mark[plan->stores] : plan->express ? '*' : ' ');
}

static void print_plans_of(FILE *out, const hd_group_t *group, const uint32_t *counts) {
    static const size_t size[] = {8, 48, 256, 1024, 4096, 16384, 65536, 1048576};
    enum { SIZES = sizeof(size) / sizeof(size[0]) };
    hd_place_t place = {.me = group->n > 1 ? 1 : 0, .n = group->n};
    fprintf(
        out,
        "plans for %u endpoints, %s, by the bytes that one endpoint gives in all (allgather, "
        "gather: one block; v types: blocks of one size). *: over within its post if all come at "
        "once. direct: with the bytes of a unit of work; =: by string instructions, >: by "
        "streaming stores\n%-16s",
        group->n,
        group->dedicated ? "each held on a processor of its own"
                         : "which may share processors or move among them",
        "");
    for (size_t i = 0; i < SIZES; i++) {
        fprintf(out, "%13zu", size[i]);
    }
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        fprintf(out, "\n%-16s", hd_type_name(type));
        for (size_t i = 0; i < SIZES; i++) {
            hd_call_t call = call_of(type, group->n, size[i], counts);
            hd_plan_t plan = hd_plan_here(group, &call, &place);
            print_plan(out, &plan);
        }
    }
    fputs("\n\n", out);
}

/* As endpoints that heddle_run places, or as endpoints of which nothing is known. */
static ucc_status_t print_plans_where(FILE *out, uint32_t n, const hd_group_config_t *config,
                                      bool placed, const uint32_t *counts) {
    hd_group_t *group = hd_group_create(n, config);
    if (!group) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; placed && i < n; i++) {
        hd_topo_place(hd_topo_get(), i, n, &group->locality[i]);
        group->locality[i].trusted = true;
    }
    ucc_status_t status = hd_group_seal(group);
    if (status == UCC_OK && group->dedicated == placed) {
        print_plans_of(out, group, counts);
    }
    hd_home_unpin(&group->home);
    return status;
}

static ucc_status_t print_plans(ucc_lib_h lib, FILE *out, uint32_t n) {
    hd_group_config_t config = hd_team_group_config(lib, UCC_NO_SYNC_COLLECTIVES, 1);
    uint32_t *counts = hd_alloc(HD_LINE, n * sizeof(*counts)); /* an element for each */
    ucc_status_t status = counts ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint32_t i = 0; counts && i < n; i++) {
        counts[i] = 1;
    }
    if (status == UCC_OK) {
        status = print_plans_where(out, n, &config, true, counts);
    }
    if (status == UCC_OK) {
        status = print_plans_where(out, n, &config, false, counts);
    }
    hd_free(counts);
    return status;
}

static ucc_status_t print_profile(ucc_lib_h lib, FILE *out, uint32_t n) {
    (void)n;
    hd_profile_print(hd_profile_of(&lib->profile), out);
    fputc('\n', out);
    return UCC_OK;
}

/* Among so many processes. */
static ucc_status_t print_net(ucc_lib_h lib, FILE *out, uint32_t n) {
    hd_net_print_plans(lib->config, n, out);
    hd_flight_print_cuts(out);
    return UCC_OK;
}

static ucc_status_t print_gpus(ucc_lib_h lib, FILE *out, uint32_t n) {
    ucc_status_t status = hd_gpu_print(out, n);
    return status == UCC_OK ? hd_device_print_plans(lib, n, out) : status;
}

/* What a library finds where it is begun: its configuration, GPUs where HEDDLE_GPU says so. */
static ucc_status_t print_of_library(ucc_status_t (*print)(ucc_lib_h lib, FILE *out, uint32_t n),
                                     FILE *out, uint32_t n) {
    ucc_lib_params_t params = {0};
    ucc_lib_h lib;
    ucc_status_t status = ucc_init(&params, NULL, &lib);
    if (status == UCC_OK) {
        status = print(lib, out, n);
        ucc_finalize(lib);
    }
    return status;
}

/* By which way large data of process p come to this one. */
static void say_way(ucc_team_h team, uint32_t p, hd_text_t *text) {
    const hd_crossing_t *crossing = team->crossing;
    if (!hd_group_way(team->group, p, text)) {
        hd_text_add(text, "network");
        if (crossing && crossing->obstacle) {
            hd_text_add(text, ", as ");
            hd_obstacle_say(&crossing->obstacle[p], text);
        }
    }
}

ucc_status_t heddle_team_print_ways(FILE *stream, ucc_team_h team) {
    if (!hd_api_pointer(stream, "stream", __func__) || !hd_api_active_team(team, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    const hd_span_t *span = hd_form_span(team->group);
    uint32_t n = span ? span->processes : 1, first = 0;
    hd_who_t me = hd_who_am_i();
    for (uint32_t p = 0; span && p < n;) {
        hd_text_t text = {0}, next = {0};
        first = p;
        if (p == span->mine) {
            p++;
            continue;
        }
        say_way(team, p, &text);
        while (++p < n && p != span->mine) { /* those of which the same is to be said */
            next = (hd_text_t){0};
            say_way(team, p, &next);
            if (strcmp(text.line, next.line) != 0) {
                break;
            }
        }
        fprintf(stream, "large data to process %u (host %s, pid %u) from process", span->mine,
                me.host, me.pid);
        if (p - first > 1) {
            fprintf(stream, "es %u-%u: %s\n", first, p - 1, text.line);
        } else {
            fprintf(stream, " %u: %s\n", first, text.line);
        }
    }
    return UCC_OK;
}

ucc_status_t heddle_team_print(FILE *stream, ucc_team_h team) {
    if (!hd_api_pointer(stream, "stream", __func__) || !hd_api_active_team(team, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    const hd_crossing_t *crossing = team->crossing;
    const hd_span_t *span = hd_form_span(team->group);
    uint32_t here = span ? hd_span_count(span, span->mine) : team->group->n;
    fprintf(stream, "team of %u endpoints, %u of them in this process; the caller is endpoint %u\n",
            team->n, here, team->ep);
    if (!span) {
        fprintf(stream, "all in this process: nothing crosses\n");
        return UCC_OK;
    }
    for (uint32_t p = 0; p < span->processes; p++) {
        fprintf(stream, "  process %u%s: endpoints", p, p == span->mine ? ", this one" : "");
        for (uint32_t i = 0; i < hd_span_count(span, p); i++) {
            uint32_t first = hd_span_endpoint(span, p, i), last = first;
            while (i + 1 < hd_span_count(span, p) && hd_span_endpoint(span, p, i + 1) == last + 1) {
                last = hd_span_endpoint(span, p, ++i);
            }
            fprintf(stream, first == last ? " %u" : " %u-%u", first, last);
        }
        fputc('\n', stream);
    }
    if (!crossing) {
        fprintf(stream, "all processes share memory: nothing goes by the network\n");
        return heddle_team_print_ways(stream, team);
    }
    (void)heddle_team_print_ways(stream, team);
    hd_net_print_team(crossing->team, stream);
    return UCC_OK;
}

ucc_status_t heddle_net_traffic(heddle_net_traffic_t *traffic) {
    if (!hd_api_pointer(traffic, "traffic", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_net_traffic_t all = hd_net_traffic();
    *traffic = (heddle_net_traffic_t){.messages_sent = all.messages_sent,
                                      .bytes_sent = all.bytes_sent,
                                      .credits_sent = all.told,
                                      .messages_received = all.messages_received,
                                      .bytes_received = all.bytes_received};
    return UCC_OK;
}

ucc_status_t heddle_job_print(FILE *stream, uint32_t pid) {
    if (!hd_api_pointer(stream, "stream", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (pid == 0 || pid > INT32_MAX) {
        hd_error("%s: %u is no process", __func__, pid);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_job_print(stream, pid);
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
    ucc_status_t status = UCC_OK;
    if (flags & HEDDLE_INFO_PROFILE) {
        status = print_of_library(print_profile, stream, n);
    }
    if (status == UCC_OK && flags & HEDDLE_INFO_PLANS) {
        status = print_of_library(print_plans, stream, n);
    }
    if (status == UCC_OK && flags & HEDDLE_INFO_NET) {
        status = print_of_library(print_net, stream, endpoints ? endpoints : 2);
    }
    if (status == UCC_OK && flags & HEDDLE_INFO_GPUS) {
        status = print_of_library(print_gpus, stream, n);
    }
    return status;
}
