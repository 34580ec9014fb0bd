/*
 * The machine: described topologies, placement, and this machine's threads.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/topo.h"
#include "support/machine.h"

static void ignore(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)line;
    (void)arg;
}

static hd_topo_t *create(const char *description) {
    hd_topo_t *topo = NULL;

    cr_assert_eq(hd_topo_create(description, &topo), UCC_OK, "%s", description);
    return topo;
}

Test(topo, described_machines_are_counted) {
    static const struct {
        const char *description;
        uint32_t packages, nodes, l3s, cores, pus;
    } cases[] = {
        {"pu:1", 1, 1, 1, 1, 1},
        {"core:1 pu:1", 1, 1, 1, 1, 1},
        {"numa:2 core:4 pu:1", 1, 2, 1, 8, 8},
        {"pack:1 l3:8 core:8 pu:1", 1, 1, 8, 64, 64},
        {"pack:2 numa:4 core:16 pu:2", 2, 8, 1, 128, 256},
        {"pack:2 numa:2 l3:2 core:4 pu:2", 2, 4, 8, 32, 64},
        {"pack:2 l3:1 core:1 pu:2", 2, 1, 1, 2, 4},   /* a private L3 is not shared */
        {"pack:2 l2:4 core:2 pu:1", 2, 1, 8, 16, 16}, /* the last shared cache may be an L2 */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hd_topo_t *topo = create(cases[i].description);

        cr_assert_not(hd_topo_is_this_machine(topo));
        cr_assert_eq(hd_topo_n_domains(topo, HD_TOPO_PACKAGE), cases[i].packages, "%s",
                     cases[i].description);
        cr_assert_eq(hd_topo_n_domains(topo, HD_TOPO_NUMA), cases[i].nodes, "%s",
                     cases[i].description);
        cr_assert_eq(hd_topo_n_domains(topo, HD_TOPO_L3), cases[i].l3s, "%s", cases[i].description);
        cr_assert_eq(hd_topo_n_domains(topo, HD_TOPO_CORE), cases[i].cores, "%s",
                     cases[i].description);
        cr_assert_eq(hd_topo_n_pus(topo), cases[i].pus, "%s", cases[i].description);
        hd_topo_destroy(topo);
    }
}

Test(topo, cache_sizes_and_node_numbers_are_told) {
    hd_topo_t *topo = create("pack:2 numa:1 l3:1(size=33554432) l2:4(size=1048576) "
                             "l1d:1(size=32768) core:1 pu:1");

    cr_assert_eq(hd_topo_cache_size(topo, 1), 32768);
    cr_assert_eq(hd_topo_cache_size(topo, 2), 1048576);
    cr_assert_eq(hd_topo_cache_size(topo, 3), 33554432);
    cr_assert_eq(hd_topo_cache_size(topo, 0), 0);
    cr_assert_eq(hd_topo_cache_size(topo, 4), 0);
    cr_assert_eq(hd_topo_node_os(topo, 0), 0);
    cr_assert_eq(hd_topo_node_os(topo, 1), 1);
    cr_assert_eq(hd_topo_node_os(topo, 2), -1);
    cr_assert_eq(hd_topo_node_os(topo, -1), -1);
    hd_topo_destroy(topo);
}

static void write_node(const char *folder, const char *bus, const char *text) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, bus);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/%s/numa_node", folder, bus);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static int32_t node_of(const hd_topo_t *topo, const char *bus, const char *folder) {
    hd_locality_t where;
    hd_topo_locate_pci(topo, bus, folder, &where);
    return where.numa;
}

Test(topo, a_device_on_the_pci_bus_is_nearest_to_the_node_that_linux_says) {
    char folder[] = "/tmp/heddle_pci_XXXXXX", command[64];
    hd_topo_t *described = NULL;
    const hd_topo_t *topo = hd_topo_get();
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof(command), "%d\n", hd_topo_node_os(topo, 0));
    write_node(folder, "0000:65:00.0", command);
    write_node(folder, "0001:af:1f.7", "4095\n");
    write_node(folder, "0000:01:00.0", "nowhere\n");
    cr_assert_eq(node_of(topo, "0000:65:00.0", folder), 0);
    cr_assert_eq(node_of(topo, "00000000:65:00.0", folder), 0);
    cr_assert_eq(node_of(topo, "0001:AF:1F.7", folder), -1);
    cr_assert_eq(node_of(topo, "0000:99:00.0", folder), -1);
    cr_assert_eq(node_of(topo, "", folder), -1);
    cr_assert_eq(node_of(topo, "0000:01:00.0", folder),
                 hd_topo_n_domains(topo, HD_TOPO_NUMA) == 1 ? 0 : -1);
    cr_assert_eq(hd_topo_create("numa:2 core:2 pu:1", &described), UCC_OK);
    cr_assert_eq(node_of(described, "0000:65:00.0", folder), -1);
    hd_topo_destroy(described);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

Test(topo, devices_are_where_a_description_has_them) {
    static const char *const bus[] = {"2", "16"};
    hd_topo_t *topo = create(machine_describe(bus, 2, 3));
    hd_locality_t where, same;
    hd_topo_locate_pci(topo, "0000:06:00.0", NULL, &where);
    cr_assert_eq(where.package, 1);
    cr_assert_eq(where.numa, 1);
    cr_assert_eq(where.core, -1);
    cr_assert(where.trusted);
    hd_topo_locate_pci(topo, "0000:01:00.0", NULL, &same);
    cr_assert_eq(hd_topo_nearness(topo, &where, &same), HD_TOPO_NUMA + 1);
    hd_topo_locate_pci(topo, "0000:02:00.0", NULL, &same);
    cr_assert_eq(same.numa, 0);
    cr_assert_eq(hd_topo_nearness(topo, &where, &same), 0);
    hd_topo_locate_pci(topo, "0000:03:00.0", NULL, &same);
    cr_assert_not(same.trusted);
    cr_assert_eq(hd_topo_nearness(topo, &where, &same), 0);
    hd_topo_destroy(topo);
}

Test(topo, nonsense_is_refused) {
    hd_topo_t *topo = NULL;

    hd_log_capture(ignore, NULL);
    cr_assert_eq(hd_topo_create("three potatoes", &topo), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_topo_create("/nonexistent.xml", &topo), UCC_ERR_INVALID_PARAM);
    cr_assert_null(topo);
}

Test(topo, placement_gives_every_core_one_before_any_gets_two) {
    hd_topo_t *topo = create("pack:2 core:4 pu:2");

    for (uint32_t n = 1; n <= 40; n++) {
        int on_core[8] = {0}, on_pu[16] = {0}, most = 0, least = 1 << 20;
        hd_locality_t before = {0};

        for (uint32_t i = 0; i < n; i++) {
            hd_locality_t where;
            hd_topo_place(topo, i, n, &where);
            cr_assert(where.trusted && where.core >= 0 && where.core < 8);
            cr_assert(where.pu >= 0 && where.pu < 16 && where.pu / 2 == where.core);
            cr_assert(i == 0 || where.pu >= before.pu, "neighbours in number are neighbours");
            on_core[where.core]++;
            on_pu[where.pu]++;
            before = where;
        }
        for (int core = 0; core < 8; core++) {
            most = on_core[core] > most ? on_core[core] : most;
            least = on_core[core] < least ? on_core[core] : least;
        }
        if (n <= 8) {
            cr_assert_eq(most, 1);
            cr_assert_eq(on_core[n - 1], 1, "compact: the first n cores");
        } else {
            cr_assert_geq(least, 1);
        }
        for (int pu = 0; pu < 16; pu++) {
            cr_assert_leq(on_pu[pu], (int)(n + 15) / 16);
        }
    }
    hd_topo_destroy(topo);
}

Test(topo, a_described_machine_locates_and_binds_nobody) {
    hd_topo_t *topo = create("pack:2 core:4 pu:2");
    hd_locality_t where;

    hd_topo_locate_thread(topo, &where);
    cr_assert(where.package == -1 && where.core == -1 && !where.trusted);
    hd_topo_place(topo, 0, 1, &where);
    cr_assert_eq(hd_topo_bind_thread(topo, &where), UCC_ERR_NOT_SUPPORTED);
    hd_topo_destroy(topo);
}

Test(topo, the_process_has_one_topology_that_respects_its_affinity) {
    const hd_topo_t *topo = hd_topo_get();
    cpu_set_t mask;

    cr_assert_eq(sched_getaffinity(0, sizeof(mask), &mask), 0);
    cr_assert_eq(topo, hd_topo_get());
    cr_assert(hd_topo_is_this_machine(topo));
    cr_assert_eq(hd_topo_n_pus(topo), (uint32_t)CPU_COUNT(&mask));
}

/* Runs in a process with one thread: binds it to one CPU and looks. Returns what is wrong, or 0. */
static int look_from_a_bound_process(uint32_t cpus_before) {
    hd_locality_t where;
    cpu_set_t one;
    size_t cpu = (size_t)sched_getcpu();

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
        return 1;
    }
    unsetenv("OMP_PROC_BIND");
    unsetenv("OMP_PLACES");
    unsetenv("GOMP_CPU_AFFINITY");
    unsetenv("KMP_AFFINITY");
    hd_topo_t *topo = create(NULL);
    hd_topo_locate_thread(topo, &where);
    if (hd_topo_n_pus(topo) != 1 || !where.trusted) {
        return 2;
    }
    hd_topo_destroy(topo);
    setenv("OMP_PROC_BIND", "close", 1); /* then a thread's mask tells nothing of the process */
    topo = create(NULL);
    int wrong = hd_topo_n_pus(topo) < cpus_before ? 3 : 0;
    hd_topo_destroy(topo);
    return wrong;
}

Test(topo, a_process_bound_to_one_cpu_has_one_and_every_thread_is_trusted) {
    cpu_set_t mask;
    int status;

    cr_assert_eq(sched_getaffinity(0, sizeof(mask), &mask), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(look_from_a_bound_process((uint32_t)CPU_COUNT(&mask)));
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "fault %d", WEXITSTATUS(status));
}

Test(topo, a_bound_thread_is_located_where_it_was_bound) {
    const hd_topo_t *topo = hd_topo_get();
    uint32_t n = hd_topo_n_pus(topo);
    hd_locality_t where, found;

    hd_topo_locate_thread(topo, &found);
    if (n > 1 && hd_topo_n_domains(topo, HD_TOPO_CORE) > 1 &&
        hd_topo_n_domains(topo, HD_TOPO_L3) == 1 && hd_topo_n_domains(topo, HD_TOPO_NUMA) == 1) {
        cr_assert_not(found.trusted, "nobody has bound this thread");
    }
    for (uint32_t i = 0; i < n; i++) {
        hd_topo_place(topo, i, n, &where);
        cr_assert_eq(hd_topo_bind_thread(topo, &where), UCC_OK);
        hd_topo_locate_thread(topo, &found);
        cr_assert(found.trusted);
        cr_assert_eq(found.pu, where.pu);
        cr_assert_eq(found.numa, where.numa);
    }
    where = hd_locality_unknown();
    hd_log_capture(ignore, NULL);
    cr_assert_eq(hd_topo_bind_thread(topo, &where), UCC_ERR_INVALID_PARAM);
}

Test(topo, the_environment_can_replace_the_machine) {
    setenv("HEDDLE_TOPOLOGY", "pack:2 numa:4 core:16 pu:2", 1);
    cr_assert_eq(hd_topo_n_pus(hd_topo_get()), 256);
}

Test(topo, a_bad_replacement_falls_back_to_the_machine) {
    hd_log_capture(ignore, NULL);
    setenv("HEDDLE_TOPOLOGY", "nonsense", 1);
    cr_assert(hd_topo_is_this_machine(hd_topo_get()));
}

Test(topo, without_memory_there_is_one_core) {
    hd_locality_t where;

    hd_log_capture(ignore, NULL);
    hd_alloc_fail_after(0);
    const hd_topo_t *topo = hd_topo_get();
    hd_alloc_fail_after(-1);
    cr_assert_eq(hd_topo_n_pus(topo), 1);
    hd_topo_place(topo, 5, 8, &where);
    cr_assert_eq(where.core, 0);
    cr_assert_eq(hd_topo_node_os(topo, 0), -1);
}

Test(mem, blocks_are_zero_aligned_and_padded) {
    unsigned char *block = hd_alloc(HD_LINE_PAIR, 1);

    cr_assert_eq((uintptr_t)block % HD_LINE_PAIR, 0);
    for (int i = 0; i < HD_LINE_PAIR; i++) {
        cr_assert_eq(block[i], 0);
        block[i] = 1; /* the padding belongs to the block */
    }
    hd_free(block);
    cr_assert_null(hd_alloc(HD_LINE, 0));
    cr_assert_null(hd_alloc(HD_LINE, SIZE_MAX - 3));
    hd_free(NULL);
}

/* The kernel places whole pages, and some machines' have 16 or 64 KiB: header and block keep to
 * them. */
Test(topo, local_blocks_keep_to_the_systems_pages) {
    enum { PAGE = 65536 };
    hd_pages_are(PAGE);
    char *block = hd_alloc_local(PAGE + 1, 0);
    cr_assert_not_null(block);
    memset(block, 1, PAGE + 1);
    memset(block - PAGE, 0, 1); /* the page before belongs to the header */
    cr_assert_eq(block[2 * PAGE - 1], 0);
    hd_free_local(block);
    hd_pages_are(0);
}

Test(mem, local_blocks_are_zero_and_page_aligned_on_any_node) {
    static const size_t sizes[] = {1, 4096, 65536, 1 << 22};

    hd_alloc_find_nodes();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int node = -1; node <= 1; node++) {
            unsigned char *block = hd_alloc_local(sizes[i], node);

            cr_assert_not_null(block);
            cr_assert_eq((uintptr_t)block % 4096, 0);
            cr_assert_eq(block[0] | block[sizes[i] - 1], 0);
            memset(block, 1, sizes[i]);
            hd_free_local(block);
        }
    }
    cr_assert_null(hd_alloc_local(0, 0));
    cr_assert_null(hd_alloc_local(SIZE_MAX - 5000, 0));
    hd_free_local(NULL);
}

/* Of symmetric memory a program may ask for much more than it uses. */
Test(mem, a_large_part_of_a_teams_memory_is_zero_and_not_touched_before_its_user_does) {
    static const size_t sizes[] = {1, 200, 65535, 65536, 1 << 22};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *block = hd_alloc_part(sizes[i]);
        unsigned char resident = 0;
        cr_assert_not_null(block);
        cr_assert_eq((uintptr_t)block % HD_LINE_PAIR, 0);
        if (sizes[i] >= 65536) {
            cr_assert_eq(mincore(block + sizes[i] - 4096, 4096, &resident), 0);
            cr_assert_eq(resident & 1, 0, "%zu bytes", sizes[i]);
        }
        cr_assert_eq(block[0] | block[sizes[i] - 1], 0);
        hd_free_part(block, sizes[i]);
    }
    hd_free_part(NULL, 1 << 22);
}

Test(mem, the_nth_allocation_can_be_made_to_fail) {
    hd_alloc_fail_after(1);
    void *first = hd_alloc(HD_LINE, 8);
    cr_assert_not_null(first);
    cr_assert_null(hd_alloc(HD_LINE, 8));
    cr_assert_null(hd_alloc_local(8, -1));
    hd_alloc_fail_after(-1);
    hd_free(first);
}

/* --- plugins of hwloc ------------------------------------------------------------------------- */

Test(topo, of_the_machine_leaves_the_environment_as_it_is) {
    static const char path[] = "HWLOC_PLUGINS_PATH";
    hd_topo_t *topo = NULL;
    unsetenv(path);
    cr_assert_eq(hd_topo_create(NULL, &topo), UCC_OK);
    hd_topo_destroy(topo);
    cr_expect_null(getenv(path));
    setenv(path, "/some/where", 1);
    cr_assert_eq(hd_topo_create(NULL, &topo), UCC_OK);
    hd_topo_destroy(topo);
    cr_expect_str_eq(getenv(path), "/some/where");
}
