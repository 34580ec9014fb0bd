/*
 * The machine: packages, NUMA nodes, shared last-level caches, cores, hardware threads.
 *
 * A topology is immutable once created, so any number of threads may read it. It covers only what
 * this process may use: the CPUs that the container and the process's affinity leave. Domains are
 * numbered per level in the machine's order ("logical" numbers, with gaps where an affinity leaves
 * some out), which are not the operating system's numbers; hd_topo_node_os maps NUMA nodes for the
 * allocator.
 *
 * A level that the machine does not describe (a virtual machine without packages, say) has one
 * domain that covers everything, so locality is always comparable.
 */
#ifndef HD_CORE_TOPO_H
#define HD_CORE_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <ucc/api/ucc_status.h>

typedef struct hd_topo hd_topo_t;

/* From the outside in. hd_locality_t's fields stand in the same order. */
typedef enum hd_topo_level {
    HD_TOPO_PACKAGE,
    HD_TOPO_NUMA,
    HD_TOPO_L3, /* the last cache level that several cores share */
    HD_TOPO_CORE,
    HD_TOPO_PU, /* one hardware thread */
    HD_TOPO_N_LEVELS
} hd_topo_level_t;

/*
 * Where an endpoint runs: the domain of each level that contains it, or -1 where it is not confined
 * to one domain of that level. Plain data without pointers: it travels in the team's OOB exchange.
 * trusted says that the thread is really held there: see hd_topo_locate_thread.
 */
typedef struct hd_locality {
    int32_t package;
    int32_t numa;
    int32_t l3;
    int32_t core;
    int32_t pu;
    bool trusted;
} hd_locality_t;

_Static_assert(offsetof(hd_locality_t, package) == HD_TOPO_PACKAGE * sizeof(int32_t) &&
                   offsetof(hd_locality_t, numa) == HD_TOPO_NUMA * sizeof(int32_t) &&
                   offsetof(hd_locality_t, l3) == HD_TOPO_L3 * sizeof(int32_t) &&
                   offsetof(hd_locality_t, core) == HD_TOPO_CORE * sizeof(int32_t) &&
                   offsetof(hd_locality_t, pu) == HD_TOPO_PU * sizeof(int32_t),
               "the fields of a locality stand in the order of the levels");

/* The process's topology, discovered on the first call (tens of milliseconds) and never freed.
 * HEDDLE_TOPOLOGY (or UCC_TOPOLOGY) replaces the machine by an hwloc synthetic description or an
 * XML file. Never NULL: when discovery fails it describes one core. */
const hd_topo_t *hd_topo_get(void);

/* A topology of one's own, for tests and tools. description: as in HEDDLE_TOPOLOGY; NULL or "":
 * this machine. UCC_ERR_INVALID_PARAM: the description can't be read. */
ucc_status_t hd_topo_create(const char *description, hd_topo_t **out);
void hd_topo_destroy(hd_topo_t *topo);

/* False when the topology is a description rather than the machine we run on. */
bool hd_topo_is_this_machine(const hd_topo_t *topo);

/* Hardware threads this process may use; at least 1. */
uint32_t hd_topo_n_pus(const hd_topo_t *topo);
/* Domains of that level among them; at least 1. */
uint32_t hd_topo_n_domains(const hd_topo_t *topo, hd_topo_level_t level);
/* A set of hardware threads, by the system's numbers: what several processes may use together, each
 * of which may be held on others. Its size is the largest that Linux can be built for. */
enum { HD_TOPO_SET_WORDS = 8192 / 64 };
typedef struct hd_topo_set {
    uint64_t word[HD_TOPO_SET_WORDS];
} hd_topo_set_t;
/* Adds those this process may use. */
void hd_topo_add_usable(const hd_topo_t *topo, hd_topo_set_t *set);
uint32_t hd_topo_set_size(const hd_topo_set_t *set);
/* How many of a domain are in the set. */
uint32_t hd_topo_n_set_in(const hd_topo_t *topo, const hd_topo_set_t *set, hd_topo_level_t level,
                          int32_t domain);
/* Bytes of one cache of level 1, 2 or 3 (data or unified); 0 when unknown. */
size_t hd_topo_cache_size(const hd_topo_t *topo, int level);
/* The operating system's number of a NUMA node, for hd_alloc_local; -1 for numa < 0 or unknown. */
int hd_topo_node_os(const hd_topo_t *topo, int32_t numa);
/* What of the machine a device on the PCI bus is attached to, "0000:65:00.0": the domain of each
 * level that contains all processors that it is nearest to. -1 in all: unknown. Linux is asked
 * (`folder` has a folder for each device, like /sys/bus/pci/devices, which NULL means); in a
 * topology that is a description, the description. */
void hd_topo_locate_pci(const hd_topo_t *topo, const char *bus, const char *folder,
                        hd_locality_t *out);
/* How near the two are: the deepest level that has several domains and of which both are in the
 * same one, and one more; 0: none, as far as is known. */
int hd_topo_nearness(const hd_topo_t *topo, const hd_locality_t *a, const hd_locality_t *b);

/*
 * Where the calling thread is confined to, from its affinity mask: a level is set only if the whole
 * mask lies inside one domain of it. Trusted if that says something: the mask lies inside one
 * domain (of any level) that is smaller than what the process may use, or inside one core. A
 * thread whose mask covers the whole machine is trusted nowhere. On a one-core machine every thread
 * is trusted, rightly: there is only one place. A described topology trusts nobody.
 */
void hd_topo_locate_thread(const hd_topo_t *topo, hd_locality_t *out);

/* Where the i-th of n endpoints goes when they are placed compactly: neighbours in number are
 * neighbours in the machine, every core gets one before any gets a second, and beyond n_pus they
 * wrap in equal shares. Trusted. Requires i < n. */
void hd_topo_place(const hd_topo_t *topo, uint32_t i, uint32_t n, hd_locality_t *out);

/* Confines the calling thread to the smallest domain that `where` names. UCC_ERR_NOT_SUPPORTED on a
 * described topology. */
ucc_status_t hd_topo_bind_thread(const hd_topo_t *topo, const hd_locality_t *where);

/* The processor with that number of the operating system's; false: the process may not use it.
 * Trusted. */
bool hd_topo_find(const hd_topo_t *topo, int os_index, hd_locality_t *out);

/* The calling thread's affinity, as it was before a bind, and back to it. */
typedef struct hd_affinity {
    unsigned long word[128];
} hd_affinity_t;
bool hd_topo_get_affinity(hd_affinity_t *affinity);
void hd_topo_set_affinity(const hd_affinity_t *affinity);

void hd_topo_print(const hd_topo_t *topo, FILE *out);

static inline hd_locality_t hd_locality_unknown(void) {
    return (hd_locality_t){-1, -1, -1, -1, -1, false};
}

static inline int32_t hd_locality_domain(const hd_locality_t *where, hd_topo_level_t level) {
    switch (level) {
    case HD_TOPO_PACKAGE:
        return where->package;
    case HD_TOPO_NUMA:
        return where->numa;
    case HD_TOPO_L3:
        return where->l3;
    case HD_TOPO_CORE:
        return where->core;
    case HD_TOPO_PU:
        return where->pu;
    case HD_TOPO_N_LEVELS:
        break;
    }
    return -1;
}

#endif
