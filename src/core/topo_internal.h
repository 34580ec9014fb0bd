/* topo_internal.h: what the files of the topology have in common: topo.c, which reads it and
 * answers, and topo_pci.c, devices.
 */
#ifndef HD_CORE_TOPO_INTERNAL_H
#define HD_CORE_TOPO_INTERNAL_H

#include "core/topo.h"

#include <hwloc.h>

enum { HD_TOPO_CACHES = 3 };

typedef struct hd_topo_pu {
    hd_locality_t where;
    int os_index;
    uint32_t sibling; /* how many usable hardware threads of its core come before it */
    bool usable;
} hd_topo_pu_t;

/* A device on the PCI bus of a description. */
typedef struct hd_topo_pci {
    unsigned address[4]; /* domain, bus, device, function */
    hd_locality_t where;
} hd_topo_pci_t;

struct hd_topo {
    bool this_machine;
    uint32_t n_pus; /* entries of pu[], usable or not */
    uint32_t n_usable;
    uint32_t n_domains[HD_TOPO_N_LEVELS]; /* that hold a usable hardware thread */
    bool divides
        [HD_TOPO_N_LEVELS]; /* there are several, usable or not: the level tells places apart */
    size_t cache_size[HD_TOPO_CACHES];
    uint32_t n_nodes;
    int32_t *node_os; /* NUMA domain -> operating system's number */
    uint32_t n_pci;
    hd_topo_pci_t *pci; /* NULL: none are described */
    hd_topo_pu_t pu[];  /* in the machine's order: a domain's entries are neighbours */
};

/* What hardware threads have in common. */
typedef struct hd_topo_common {
    hd_locality_t where;
    bool any;
} hd_topo_common_t;

void hd_topo_add_common(hd_topo_common_t *common, const hd_topo_pu_t *pu);
/* Unknown if there was none; trusted otherwise. */
hd_locality_t hd_topo_end_common(const hd_topo_common_t *common);

/* topo_pci.c: the devices of a description; hwloc has no others. */
ucc_status_t hd_topo_note_devices(hd_topo_t *topo, hwloc_topology_t hw);

#endif
