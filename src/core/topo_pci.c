/* topo_pci.c: what of the machine devices are attached to, and what is near to what: see topo.h. */
#include "core/topo_internal.h"

#include "core/log.h"
#include "core/mem.h"

#include <stdio.h>
#include <string.h>

/* Forgets each level of `where` in which `other` lies elsewhere. */
static void keep_common(hd_locality_t *where, const hd_locality_t *other) {
    where->package = where->package == other->package ? where->package : -1;
    where->numa = where->numa == other->numa ? where->numa : -1;
    where->l3 = where->l3 == other->l3 ? where->l3 : -1;
    where->core = where->core == other->core ? where->core : -1;
    where->pu = where->pu == other->pu ? where->pu : -1;
}

void hd_topo_add_common(hd_topo_common_t *common, const hd_topo_pu_t *pu) {
    if (common->any) {
        keep_common(&common->where, &pu->where);
    } else {
        common->where = pu->where;
        common->any = true;
    }
}

hd_locality_t hd_topo_end_common(const hd_topo_common_t *common) {
    hd_locality_t where = common->any ? common->where : hd_locality_unknown();
    where.trusted = common->any;
    return where;
}

/* Devices are in a topology only if it is a description that has some. */
ucc_status_t hd_topo_note_devices(hd_topo_t *topo, hwloc_topology_t hw) {
    int n = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PCI_DEVICE);
    if (n <= 0) {
        return UCC_OK;
    }
    topo->pci = hd_alloc(HD_LINE, (size_t)n * sizeof(*topo->pci));
    if (topo->pci == NULL) {
        return UCC_ERR_NO_MEMORY;
    }
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(hw, o)) != NULL;) {
        const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;
        hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(hw, o);
        hd_topo_common_t common = {.any = false};
        for (uint32_t i = 0; i < topo->n_pus; i++) {
            if (hwloc_bitmap_isset(near->cpuset, (unsigned)topo->pu[i].os_index)) {
                hd_topo_add_common(&common, &topo->pu[i]);
            }
        }
        topo->pci[topo->n_pci++] =
            (hd_topo_pci_t){.address = {pci->domain, pci->bus, pci->dev, pci->func},
                            .where = hd_topo_end_common(&common)};
    }
    return UCC_OK;
}

/* What Linux says of the NUMA node that a device is attached to, which is also what hwloc goes by:
 * -1 is unknown. hwloc itself would have to look at all devices each time that a machine is
 * discovered. */
static int32_t node_of_pci(const hd_topo_t *topo, const unsigned address[4], const char *folder) {
    char path[256];
    int os = -1;

    snprintf(path, sizeof(path), "%s/%04x:%02x:%02x.%x/numa_node",
             folder ? folder : "/sys/bus/pci/devices", address[0], address[1], address[2],
             address[3]);
    FILE *file = fopen(path, "re");
    if (!file) {
        return -1;
    }
    if (fscanf(file, "%d", &os) != 1) {
        os = -1;
    }
    fclose(file);
    for (uint32_t i = 0; os >= 0 && i < topo->n_nodes; i++) {
        if (topo->node_os[i] == os) {
            return (int32_t)i;
        }
    }
    return os < 0 && topo->n_nodes == 1 ? 0 : -1; /* where there is one, Linux may not say so */
}

void hd_topo_locate_pci(const hd_topo_t *topo, const char *bus, const char *folder,
                        hd_locality_t *out) {
    hd_topo_common_t common = {.any = false};
    unsigned address[4];

    *out = hd_locality_unknown();
    if (sscanf(bus, "%x:%x:%x.%x", &address[0], &address[1], &address[2], &address[3]) != 4) {
        return;
    }
    for (uint32_t i = 0; i < topo->n_pci; i++) {
        if (memcmp(topo->pci[i].address, address, sizeof(address)) == 0) {
            *out = topo->pci[i].where;
        }
    }
    int32_t node = topo->this_machine ? node_of_pci(topo, address, folder) : -1;
    for (uint32_t i = 0; node >= 0 && i < topo->n_pus; i++) {
        if (topo->pu[i].where.numa == node) {
            hd_topo_add_common(&common, &topo->pu[i]);
        }
    }
    if (common.any) {
        *out = hd_topo_end_common(&common);
    }
}

int hd_topo_nearness(const hd_topo_t *topo, const hd_locality_t *a, const hd_locality_t *b) {
    for (int level = HD_TOPO_PU; level >= HD_TOPO_PACKAGE; level--) {
        int32_t domain = hd_locality_domain(a, (hd_topo_level_t)level);
        if (topo->divides[level] && domain >= 0 &&
            domain == hd_locality_domain(b, (hd_topo_level_t)level)) {
            return level + 1;
        }
    }
    return 0;
}
