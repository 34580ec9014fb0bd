/* near.c: which GPU an endpoint should use: see near.h. */
#include "gpu/near.h"

#include <string.h>

ucc_status_t hd_gpu_locate(const hd_gpu_driver_t *driver, hd_gpu_places_t *gpus) {
    hd_gpu_info_t info;
    gpus->topo = hd_topo_get();
    gpus->n = driver->devices;
    for (uint32_t d = 0; d < driver->devices; d++) {
        ucc_status_t status = driver->info((int)d, &info);
        if (status != UCC_OK) {
            return status;
        }
        hd_topo_locate_pci(gpus->topo, info.bus, NULL, &gpus->where[d]);
    }
    return UCC_OK;
}

/* Endpoints that share the same GPUs. */
typedef struct sharers {
    uint64_t gpus; /* bits by device */
    uint32_t n, next;
} sharers_t;

/* At each level, each GPU may be in a domain of its own, and there is the set of all. */
enum { MOST_SETS = HD_TOPO_N_LEVELS * HD_GPU_DEVICES + 1 };

typedef struct sets {
    const hd_gpu_places_t *gpus;
    uint32_t n;
    sharers_t set[MOST_SETS];
    /* of the endpoint that was asked about last; the next is at the same place, mostly */
    hd_locality_t where;
    sharers_t *last; /* NULL: there was none */
} sets_t;

static uint64_t nearest_gpus(const hd_gpu_places_t *gpus, const hd_locality_t *where) {
    uint64_t nearest = 0;
    int best = 0;
    for (uint32_t d = 0; d < gpus->n; d++) {
        int nearness = hd_topo_nearness(gpus->topo, where, &gpus->where[d]);
        if (nearness > best) {
            best = nearness;
            nearest = 0;
        }
        nearest |= nearness == best ? UINT64_C(1) << d : 0;
    }
    return nearest;
}

static bool is_same_place(const hd_locality_t *a, const hd_locality_t *b) {
    return a->package == b->package && a->numa == b->numa && a->l3 == b->l3 && a->core == b->core &&
           a->pu == b->pu;
}

static sharers_t *sharers_of(sets_t *sets, const hd_locality_t *where) {
    if (sets->last && is_same_place(where, &sets->where)) {
        return sets->last;
    }
    uint64_t gpus = nearest_gpus(sets->gpus, where);
    uint32_t i = 0;
    while (i < sets->n && sets->set[i].gpus != gpus) {
        i++;
    }
    if (i == sets->n) {
        sets->set[sets->n++] = (sharers_t){.gpus = gpus};
    }
    sets->where = *where;
    sets->last = &sets->set[i];
    return sets->last;
}

/* The k-th of them. */
static uint8_t pick(uint64_t gpus, uint32_t k) {
    for (; k > 0; k--) {
        gpus &= gpus - 1;
    }
    return (uint8_t)__builtin_ctzll(gpus);
}

void hd_gpu_share_out(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                      uint32_t before, uint8_t *device) {
    sets_t sets = {.gpus = gpus};
    for (uint32_t i = 0; i < n; i++) {
        sharers_of(&sets, &where[i])->n++;
    }
    for (uint32_t i = 0; i < n; i++) {
        sharers_t *s = sharers_of(&sets, &where[i]);
        uint32_t all = (uint32_t)__builtin_popcountll(s->gpus), mine = s->next++;
        uint32_t k = s->n > all ? (uint32_t)((uint64_t)mine * all / s->n) : (before + mine) % all;
        device[i] = pick(s->gpus, k);
    }
}

/* ---- for people ---- */

static void print_node(const hd_locality_t *where, FILE *out) {
    if (where->numa >= 0) {
        fprintf(out, " at NUMA node %d", where->numa);
    }
}

void hd_gpu_print_shares(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                         const uint8_t *device, FILE *out) {
    for (uint32_t first = 0, end; first < n; first = end) {
        for (end = first + 1;
             end < n && device[end] == device[first] && where[end].numa == where[first].numa;) {
            end++;
        }
        fprintf(out, end - first > 1 ? "  endpoints %u-%u" : "  endpoint %u", first, end - 1);
        print_node(&where[first], out);
        fprintf(out, ": GPU %u", device[first]);
        print_node(&gpus->where[device[first]], out);
        fputc('\n', out);
    }
}
