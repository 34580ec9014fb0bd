/* print.c: what heddle_info says of GPUs. */
#include "gpu/gpu.h"

#include "core/topo.h"

static void print_device(const hd_gpu_driver_t *driver, int device, FILE *out) {
    hd_gpu_info_t info;
    if (driver->info(device, &info) != UCC_OK) {
        return;
    }
    fprintf(out, "  GPU %-2d  %s, compute capability %d.%d, %u multiprocessors, %.1f GiB, on %s",
            device, info.name, info.major, info.minor, info.multiprocessors,
            (double)info.bytes / (1 << 30), info.bus);
    int32_t node = hd_topo_node_of_pci(hd_topo_get(), info.bus, NULL);
    if (node >= 0) {
        fprintf(out, ", at NUMA node %d", node);
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

void hd_gpu_print(FILE *out) {
    const hd_gpu_driver_t *driver;
    if (hd_gpu_peek(&driver) != UCC_OK) {
        fprintf(out, "GPUs: none in use (HEDDLE_GPU=cuda looks for those of CUDA)\n\n");
        return;
    }
    fprintf(out, "GPUs: %u%s\n", driver->devices, driver->emulated ? ", emulated" : "");
    for (uint32_t d = 0; d < driver->devices; d++) {
        print_device(driver, (int)d, out);
    }
    if (driver->devices > 1) {
        print_peers(driver, out);
    }
    fputc('\n', out);
    hd_gpu_close();
}
