/* near.c: which GPU an endpoint should use: see near.h. */
#include "gpu/near.h"

#include "core/log.h"
#include "core/mem.h"

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

/* Endpoints that have the same GPUs nearest, of those with room. */
typedef struct sharers {
    uint64_t gpus; /* bits by device */
    uint32_t n;
    uint32_t
        order[HD_GPU_DEVICES]; /* those GPUs, as they are given out; the current one is at `at` */
    uint32_t quota[HD_GPU_DEVICES]; /* by device: so many are still to get it */
    uint32_t at, left;              /* left: of all quotas */
} sharers_t;

/* At each level, each GPU may be in a domain of its own, and there is the set of all. */
enum { MOST_SETS = HD_TOPO_N_LEVELS * HD_GPU_DEVICES + 1 };

#define NOWHERE UINT8_MAX
_Static_assert(HD_GPU_DEVICES <= NOWHERE, "no device has that number");

typedef struct sharing {
    const hd_gpu_places_t *gpus;
    uint64_t open;                 /* GPUs that have room */
    uint32_t room[HD_GPU_DEVICES]; /* for so many endpoints more */
    uint32_t sets;
    sharers_t set[MOST_SETS];
    /* of the endpoint that was asked about last; the next is at the same place, mostly */
    hd_locality_t where;
    sharers_t *last; /* NULL: there was none */
} sharing_t;

static uint64_t nearest_gpus(const sharing_t *s, const hd_locality_t *where) {
    uint64_t nearest = 0;
    int best = 0;
    for (uint32_t d = 0; d < s->gpus->n; d++) {
        uint64_t bit = s->open & UINT64_C(1) << d;
        int nearness = hd_topo_nearness(s->gpus->topo, where, &s->gpus->where[d]);
        if (bit && nearness > best) {
            best = nearness;
            nearest = 0;
        }
        nearest |= nearness == best ? bit : 0;
    }
    return nearest;
}

static bool is_same_place(const hd_locality_t *a, const hd_locality_t *b) {
    return a->package == b->package && a->numa == b->numa && a->l3 == b->l3 && a->core == b->core &&
           a->pu == b->pu;
}

static sharers_t *sharers_of(sharing_t *s, const hd_locality_t *where) {
    if (s->last && is_same_place(where, &s->where)) {
        return s->last;
    }
    uint64_t gpus = nearest_gpus(s, where);
    uint32_t i = 0;
    while (i < s->sets && s->set[i].gpus != gpus) {
        i++;
    }
    if (i == s->sets) {
        s->set[s->sets++] = (sharers_t){.gpus = gpus};
    }
    s->where = *where;
    s->last = &s->set[i];
    return s->last;
}

/* Few endpoints don't always begin with the first GPU. */
static void set_order(sharers_t *set, uint32_t before) {
    uint32_t c = (uint32_t)__builtin_popcountll(set->gpus), first = set->n < c ? before % c : 0;
    uint64_t gpus = set->gpus;
    for (uint32_t i = 0; i < c; i++, gpus &= gpus - 1) {
        set->order[(i + c - first) % c] = (uint32_t)__builtin_ctzll(gpus);
    }
}

/* Even ones, as far as there is room. */
static void set_quotas(sharing_t *s, sharers_t *set) {
    uint32_t c = (uint32_t)__builtin_popcountll(set->gpus);
    for (uint32_t open = c; open && set->left < set->n;) {
        uint32_t more = (set->n - set->left) / open; /* for each that has so much room */
        more = more ? more : 1;
        open = 0;
        for (uint32_t i = 0; i < c && set->left < set->n; i++) {
            uint32_t d = set->order[i], takes = s->room[d] < more ? s->room[d] : more;
            s->room[d] -= takes;
            set->quota[d] += takes;
            set->left += takes;
            open += s->room[d] > 0;
        }
    }
}

/* Those with the fewest GPUs choose first. */
static void set_all_quotas(sharing_t *s, uint32_t before) {
    for (uint32_t choice = 1; choice <= s->gpus->n; choice++) {
        for (uint32_t i = 0; i < s->sets; i++) {
            if ((uint32_t)__builtin_popcountll(s->set[i].gpus) == choice) {
                set_order(&s->set[i], before);
                set_quotas(s, &s->set[i]);
            }
        }
    }
}

static uint8_t take_gpu(sharers_t *set) {
    if (set->left == 0) {
        return NOWHERE;
    }
    while (set->quota[set->order[set->at]] == 0) {
        set->at++;
    }
    set->quota[set->order[set->at]]--;
    set->left--;
    return (uint8_t)set->order[set->at];
}

static void find_open(sharing_t *s) {
    s->open = 0;
    for (uint32_t d = 0; d < s->gpus->n; d++) {
        s->open |= s->room[d] ? UINT64_C(1) << d : 0;
    }
}

/* For endpoints that have nothing yet; true: some still have nothing, because what they wanted is
 * full. */
static bool share_out_once(sharing_t *s, const hd_locality_t *where, uint32_t n, uint32_t before,
                           uint8_t *device) {
    bool more = false;
    find_open(s);
    s->sets = 0;
    s->last = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (device[i] == NOWHERE) {
            sharers_of(s, &where[i])->n++;
        }
    }
    set_all_quotas(s, before);
    for (uint32_t i = 0; i < n; i++) {
        if (device[i] == NOWHERE) {
            device[i] = take_gpu(sharers_of(s, &where[i]));
            more = more || device[i] == NOWHERE;
        }
    }
    return more;
}

ucc_status_t hd_gpu_share_out(const hd_gpu_places_t *gpus, const hd_locality_t *where, uint32_t n,
                              hd_gpu_crowd_t crowd, uint8_t *device) {
    sharing_t *s = hd_alloc(HD_LINE, sizeof(*s));
    uint32_t all = crowd.all > n ? crowd.all : n;
    if (!s) {
        hd_error("no memory to share out %u GPUs among %u endpoints", gpus->n, n);
        return UCC_ERR_NO_MEMORY;
    }
    s->gpus = gpus;
    for (uint32_t d = 0; d < gpus->n; d++) {
        s->room[d] = all / gpus->n + (all % gpus->n != 0);
    }
    memset(device, NOWHERE, n);
    while (share_out_once(s, where, n, crowd.before, device)) { /* each time another GPU is full */
    }
    hd_free(s);
    return UCC_OK;
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
