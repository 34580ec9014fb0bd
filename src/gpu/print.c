/* print.c: what heddle_info says of GPUs. */
#include "gpu/gpu.h"

#include "core/mem.h"
#include "gpu/near.h"

static void print_device(const hd_gpu_driver_t *driver, int device, FILE *out) {
    hd_gpu_info_t info;
    if (driver->info(device, &info) != UCC_OK) {
        return;
    }
    fprintf(out, "  GPU %-2d  %s, compute capability %d.%d, %u multiprocessors, %.1f GiB, on %s",
            device, info.name, info.major, info.minor, info.multiprocessors,
            (double)info.bytes / (1 << 30), info.bus);
    hd_locality_t where;
    hd_topo_locate_pci(hd_topo_get(), info.bus, NULL, &where);
    if (where.numa >= 0) {
        fprintf(out, ", at NUMA node %d", where.numa);
    }
    fputs(driver->lost(device) ? "; lost\n" : "\n", out);
}

static void print_peers(const hd_gpu_driver_t *driver, FILE *out) {
    hd_gpu_info_t info;
    fprintf(out, "  whose kernels may reach whose memory (row: kernels)\n        ");
    for (uint32_t p = 0; p < driver->devices; p++) {
        fprintf(out, "%3u", p);
    }
    for (uint32_t d = 0; d < driver->devices && driver->info((int)d, &info) == UCC_OK; d++) {
        fprintf(out, "\n  GPU %-2u", d);
        for (uint32_t p = 0; p < driver->devices; p++) {
            fprintf(out, "  %c", p == d ? '.' : (info.peers >> p & 1) != 0 ? 'y' : 'n');
        }
    }
    fputc('\n', out);
}

/* Of endpoints that are placed by topology. */
static ucc_status_t print_mapping(const hd_gpu_driver_t *driver, uint32_t n, FILE *out) {
    hd_gpu_places_t gpus;
    hd_locality_t *where = hd_alloc(HD_LINE, n * sizeof(*where));
    uint8_t *device = hd_alloc(HD_LINE, n);
    ucc_status_t status = where && device ? hd_gpu_locate(driver, &gpus) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        for (uint32_t i = 0; i < n; i++) {
            hd_topo_place(hd_topo_get(), i, n, &where[i]);
        }
        status = hd_gpu_share_out(&gpus, where, n, (hd_gpu_crowd_t){0}, device);
    }
    if (status == UCC_OK) {
        fprintf(out,
                "which of them heddle_team_gpu() proposes to %u endpoints placed by topology\n", n);
        hd_gpu_print_shares(&gpus, where, n, device, out);
    }
    hd_free(where);
    hd_free(device);
    return status;
}

ucc_status_t hd_gpu_print(FILE *out, uint32_t n) {
    const hd_gpu_driver_t *driver;
    if (hd_gpu_peek(&driver) != UCC_OK) {
        fprintf(out, "GPUs: none in use (HEDDLE_GPU=cuda looks for those of CUDA)\n\n");
        return UCC_OK;
    }
    fprintf(out, "GPUs: %u%s\n", driver->devices, driver->emulated ? ", emulated" : "");
    for (uint32_t d = 0; d < driver->devices; d++) {
        print_device(driver, (int)d, out);
    }
    if (driver->devices > 1) {
        print_peers(driver, out);
    }
    ucc_status_t status = driver->devices ? print_mapping(driver, n, out) : UCC_OK;
    fputc('\n', out);
    hd_gpu_close();
    return status;
}
