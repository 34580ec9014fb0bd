/*
 * The machine: see topo.h.
 *
 * hwloc is asked once, at creation. What remains of its answer is one entry per hardware thread
 * (its operating system's number, its domains, whether this process may use it) in the machine's
 * order; every question is answered from that array, without hwloc and without locks.
 *
 * What the process may use: hwloc leaves out what the container forbids. A process bound by taskset
 * or a launcher is recognised by the masks of all its threads together, since one thread's mask may
 * be that thread's own pinning. Where an OpenMP runtime binds threads (OMP_PROC_BIND and the like)
 * it may have bound the only thread that exists so far, so masks say nothing and are ignored.
 */
#define _GNU_SOURCE
#include "core/topo_internal.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "core/log.h"
#include "core/mem.h"

enum { MAX_CPUS = HD_TOPO_SET_WORDS * 64 };

typedef struct cpu_mask {
    cpu_set_t set[MAX_CPUS / CPU_SETSIZE];
} cpu_mask_t;

/* What remains if the machine can't be discovered. */
static const hd_topo_t one_core = {
    .n_pus = 1,
    .n_usable = 1,
    .n_domains = {1, 1, 1, 1, 1},
    .pu = {{.where = {.trusted = true}, .usable = true}},
};

static bool mask_has(const cpu_mask_t *mask, int cpu) {
    return cpu >= 0 && cpu < MAX_CPUS && CPU_ISSET_S((size_t)cpu, sizeof(*mask), mask->set);
}

static bool thread_mask(pid_t thread, cpu_mask_t *mask) {
    memset(mask, 0, sizeof(*mask));
    return sched_getaffinity(thread, sizeof(*mask), mask->set) == 0;
}

/* An OpenMP runtime was asked to bind threads. */
static bool openmp_binds(void) {
    static const char *const names[] = {"OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    const char *bind = getenv("OMP_PROC_BIND");

    if (bind != NULL) {
        return strcasecmp(bind, "false") != 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (getenv(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The CPUs that any thread of this process may use now. False if that can't be known. */
static bool process_mask(cpu_mask_t *mask) {
    DIR *tasks = openmp_binds() ? NULL : opendir("/proc/self/task");
    bool known = false;

    memset(mask, 0, sizeof(*mask));
    if (tasks == NULL) {
        return false;
    }
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        cpu_mask_t one;

        if (entry->d_name[0] != '.' && thread_mask((pid_t)atol(entry->d_name), &one)) {
            CPU_OR_S(sizeof(*mask), mask->set, mask->set, one.set);
            known = true;
        }
    }
    closedir(tasks);
    return known;
}

/* Gives the objects of one level dense numbers in the order in which they are first seen. */
typedef struct numbering {
    const void **seen;
    int32_t n;
} numbering_t;

static int32_t number_of(numbering_t *numbering, const void *object) {
    /* from the end: hardware threads of a domain are neighbours, so it is nearly always the last */
    for (int32_t i = numbering->n - 1; i >= 0; i--) {
        if (numbering->seen[i] == object) {
            return i;
        }
    }
    numbering->seen[numbering->n] = object;
    return numbering->n++;
}

static uint32_t n_cores_of(hwloc_topology_t hw, hwloc_obj_t object) {
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(hw, object->cpuset, HWLOC_OBJ_CORE);
    return n > 0 ? (uint32_t)n : 0;
}

/* The outermost cache above a hardware thread that several cores share; NULL if none is. */
static hwloc_obj_t shared_cache_of(hwloc_topology_t hw, hwloc_obj_t pu) {
    hwloc_obj_t shared = NULL;

    for (hwloc_obj_t o = pu->parent; o != NULL; o = o->parent) {
        if (hwloc_obj_type_is_dcache(o->type) && n_cores_of(hw, o) > 1) {
            shared = o;
        }
    }
    return shared;
}

/* The nearest NUMA node with this hardware thread: of nodes that cover different sets (memory on a
 * shared bus beside local memory) the one that covers least. */
static hwloc_obj_t node_of(hwloc_topology_t hw, hwloc_obj_t pu) {
    hwloc_obj_t nearest = NULL;

    for (hwloc_obj_t node = NULL;
         (node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node)) != NULL;) {
        if (hwloc_bitmap_isset(node->cpuset, pu->os_index) &&
            (nearest == NULL ||
             hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(nearest->cpuset))) {
            nearest = node;
        }
    }
    return nearest;
}

static void note_node(hd_topo_t *topo, int32_t numa, hwloc_obj_t node) {
    if ((uint32_t)numa >= topo->n_nodes) {
        topo->n_nodes = (uint32_t)numa + 1;
        topo->node_os[numa] = node != NULL ? (int32_t)node->os_index : -1;
    }
}

static void describe_pus(hd_topo_t *topo, hwloc_topology_t hw, numbering_t numbering[]) {
    hwloc_obj_t object = NULL;

    for (uint32_t i = 0; i < topo->n_pus; i++) {
        object = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PU, object);
        hwloc_obj_t node = node_of(hw, object);
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_CORE, object);
        hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, object);
        hwloc_obj_t cache = shared_cache_of(hw, object);

        topo->pu[i].os_index = (int)object->os_index;
        topo->pu[i].where = (hd_locality_t){
            .package = number_of(&numbering[HD_TOPO_PACKAGE], package),
            .numa = number_of(&numbering[HD_TOPO_NUMA], node),
            .l3 = number_of(&numbering[HD_TOPO_L3], cache),
            .core = number_of(&numbering[HD_TOPO_CORE], core != NULL ? core : object),
            .pu = (int32_t)i,
            .trusted = true,
        };
        note_node(topo, topo->pu[i].where.numa, node);
    }
    for (int level = 0; level < HD_TOPO_N_LEVELS; level++) {
        topo->divides[level] = level == HD_TOPO_PU ? topo->n_pus > 1 : numbering[level].n > 1;
    }
}

/* Marks what the process may use, and counts it. `scratch` holds n_pus flags. */
static void count_usable(hd_topo_t *topo, bool *scratch) {
    cpu_mask_t mask;
    bool bound = topo->this_machine && process_mask(&mask);

    for (uint32_t i = 0; i < topo->n_pus; i++) {
        topo->pu[i].usable = !bound || mask_has(&mask, topo->pu[i].os_index);
        topo->n_usable += topo->pu[i].usable;
    }
    for (uint32_t i = 0; i < topo->n_pus && topo->n_usable == 0; i++) {
        topo->pu[i].usable = true; /* the masks and hwloc contradict each other: believe hwloc */
    }
    topo->n_usable = topo->n_usable == 0 ? topo->n_pus : topo->n_usable;

    for (int level = 0; level < HD_TOPO_N_LEVELS; level++) {
        memset(scratch, 0, topo->n_pus * sizeof(*scratch));
        for (uint32_t i = 0; i < topo->n_pus; i++) {
            int32_t domain = hd_locality_domain(&topo->pu[i].where, (hd_topo_level_t)level);
            if (topo->pu[i].usable && !scratch[domain]) {
                scratch[domain] = true;
                topo->n_domains[level]++;
            }
        }
    }
    for (uint32_t i = 1; i < topo->n_pus; i++) {
        const hd_topo_pu_t *before = &topo->pu[i - 1];
        topo->pu[i].sibling =
            before->where.core == topo->pu[i].where.core ? before->sibling + before->usable : 0;
    }
}

static void read_caches(hd_topo_t *topo, hwloc_topology_t hw) {
    static const hwloc_obj_type_t types[HD_TOPO_CACHES] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                                           HWLOC_OBJ_L3CACHE};

    for (int i = 0; i < HD_TOPO_CACHES; i++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(hw, types[i], 0);
        topo->cache_size[i] = cache != NULL ? (size_t)cache->attr->cache.size : 0;
    }
}

/* Copies what we keep out of a loaded hwloc topology. */
static ucc_status_t extract(hwloc_topology_t hw, hd_topo_t **out) {
    int n = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PU);
    uint32_t n_pus = n > 0 ? (uint32_t)n : 0;
    numbering_t numbering[HD_TOPO_N_LEVELS] = {{0}};
    ucc_status_t status = UCC_ERR_NO_MEMORY;

    if (n_pus == 0) {
        hd_error("the topology has no processors");
        return UCC_ERR_INVALID_PARAM;
    }
    hd_topo_t *topo = hd_alloc(HD_LINE, sizeof(*topo) + n_pus * sizeof(topo->pu[0]));
    int32_t *nodes = hd_alloc(HD_LINE, n_pus * sizeof(*nodes));
    const void **seen = hd_alloc(HD_LINE, HD_TOPO_N_LEVELS * (size_t)n_pus * sizeof(*seen));
    if (topo == NULL || nodes == NULL || seen == NULL) {
        hd_error("no memory for a topology of %" PRIu32 " processors", n_pus);
        goto fail;
    }
    for (size_t level = 0; level < HD_TOPO_N_LEVELS; level++) {
        numbering[level].seen = seen + level * n_pus;
    }
    topo->n_pus = n_pus;
    topo->node_os = nodes;
    topo->this_machine = hwloc_topology_is_thissystem(hw) != 0;
    describe_pus(topo, hw, numbering);
    if (hd_topo_note_devices(topo, hw) != UCC_OK) {
        hd_error("no memory for the devices of a topology");
        goto fail;
    }
    count_usable(topo, (bool *)seen); /* the numbering is done with it */
    read_caches(topo, hw);
    hd_free(seen);
    *out = topo;
    return UCC_OK;
fail:
    hd_free(seen);
    hd_free(nodes);
    hd_free(topo);
    return status;
}

/* Has this process no other thread? False if that is not known. */
static bool is_alone(void) {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded;
#else
    return false;
#endif
}

/* Points hwloc at a description instead of the machine. */
static int use_description(hwloc_topology_t hw, const char *description) {
    if (description[0] == '<') {
        return hwloc_topology_set_xmlbuffer(hw, description, (int)strlen(description) + 1);
    }
    if (access(description, R_OK) == 0) {
        return hwloc_topology_set_xml(hw, description);
    }
    return hwloc_topology_set_synthetic(hw, description);
}

/* Asks only those who know something that we keep: devices are none of it, and the processor's own
 * account (x86), for which hwloc visits every processor, says what the kernel says, too. Most of
 * the time goes there. */
static void ask_few(hwloc_topology_t hw) {
    static const char *const unused[] = {"x86", "pci", "opencl", "cuda", "nvml", "rsmi", "gl"};

    for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++) {
        /* fails for those that this hwloc does not have */
        (void)hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            unused[i]);
    }
}

/* As hwloc begins, it loads its plugins with all that these need (X11, OpenCL), though we ask none
 * of them: ten times the time of all the rest. Only the environment keeps it from that, and may be
 * changed only while there is no other thread that could look at it. */
static int begin(hwloc_topology_t *hw, bool few) {
    static const char path[] = "HWLOC_PLUGINS_PATH";
    bool forbids = few && is_alone() && !getenv(path) && setenv(path, "/nowhere", 0) == 0;
    int failed = hwloc_topology_init(hw);
    if (forbids) {
        unsetenv(path);
    }
    return failed;
}

static ucc_status_t read_topology(const char *description, bool few, hd_topo_t **out) {
    hwloc_topology_t hw;
    ucc_status_t status;

    if (begin(&hw, few) != 0) {
        hd_error("hwloc does not start");
        return UCC_ERR_NO_MEMORY;
    }
    if (few) {
        ask_few(hw);
    } else if (description) { /* its devices cost nothing */
        (void)hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_ALL);
    }
    if ((description && use_description(hw, description) != 0) || hwloc_topology_load(hw) != 0) {
        hd_error("can't read the topology %s", description ? description : "of this machine");
        status = UCC_ERR_INVALID_PARAM;
    } else {
        status = extract(hw, out);
    }
    hwloc_topology_destroy(hw);
    return status;
}

ucc_status_t hd_topo_create(const char *description, hd_topo_t **out) {
    hd_topo_t *topo = NULL;

    if (description != NULL && description[0] != '\0') {
        return read_topology(description, false, out);
    }
    ucc_status_t status = read_topology(NULL, true, &topo);
    if (status == UCC_OK &&
        topo->cache_size[0] == 0) { /* a kernel that does not say what we need */
        hd_topo_destroy(topo);
        status = read_topology(NULL, false, &topo);
    }
    if (status == UCC_OK) {
        *out = topo;
    }
    return status;
}

void hd_topo_destroy(hd_topo_t *topo) {
    if (topo != NULL) {
        hd_free(topo->node_os);
        hd_free(topo->pci);
        hd_free(topo);
    }
}

static pthread_once_t get_once = PTHREAD_ONCE_INIT;
static const hd_topo_t *process_topo = &one_core; /* written under get_once only */

/* A fork waits for a thread that reads the topology: hwloc keeps a lock meanwhile, which nobody
 * would ever give up in the child. Not for its own: what hwloc loads may fork. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool reads;

static void before_fork(void) {
    if (!reads) {
        pthread_mutex_lock(&reading);
    }
}

static void after_fork(void) {
    if (!reads) {
        pthread_mutex_unlock(&reading);
    }
}

static void discover(void) {
    const char *description = secure_getenv("HEDDLE_TOPOLOGY");
    hd_topo_t *topo = NULL;
    static bool watches; /* once: a child that was born before the end reads again */

    watches = watches || pthread_atfork(before_fork, after_fork, after_fork) == 0;
    pthread_mutex_lock(&reading);
    reads = true;
    if (description == NULL) {
        description = secure_getenv("UCC_TOPOLOGY");
    }
    if (hd_topo_create(description, &topo) != UCC_OK && description != NULL) {
        hd_warn("using this machine's topology instead");
        hd_topo_create(NULL, &topo);
    }
    if (topo != NULL) {
        process_topo = topo;
    }
    if (topo != NULL && topo->this_machine && topo->n_nodes > 1) {
        hd_alloc_find_nodes();
    }
    reads = false;
    pthread_mutex_unlock(&reading);
}

const hd_topo_t *hd_topo_get(void) {
    pthread_once(&get_once, discover);
    return process_topo;
}

bool hd_topo_is_this_machine(const hd_topo_t *topo) {
    return topo->this_machine;
}

uint32_t hd_topo_n_pus(const hd_topo_t *topo) {
    return topo->n_usable;
}

uint32_t hd_topo_n_domains(const hd_topo_t *topo, hd_topo_level_t level) {
    return (unsigned)level < HD_TOPO_N_LEVELS ? topo->n_domains[level] : 0;
}

/* Those whose number is not known go by their place. */
static uint32_t bit_of(const hd_topo_t *topo, uint32_t i) {
    int number = topo->pu[i].os_index;
    return (number >= 0 ? (uint32_t)number : i) % (HD_TOPO_SET_WORDS * 64);
}

void hd_topo_add_usable(const hd_topo_t *topo, hd_topo_set_t *set) {
    for (uint32_t i = 0; i < topo->n_pus; i++) {
        uint32_t bit = bit_of(topo, i);
        set->word[bit / 64] |= (uint64_t)topo->pu[i].usable << bit % 64;
    }
}

uint32_t hd_topo_set_size(const hd_topo_set_t *set) {
    uint32_t n = 0;

    for (uint32_t w = 0; w < HD_TOPO_SET_WORDS; w++) {
        n += (uint32_t)__builtin_popcountll(set->word[w]);
    }
    return n;
}

uint32_t hd_topo_n_set_in(const hd_topo_t *topo, const hd_topo_set_t *set, hd_topo_level_t level,
                          int32_t domain) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < topo->n_pus; i++) {
        uint32_t bit = bit_of(topo, i);
        n += set->word[bit / 64] >> bit % 64 & 1 &&
             hd_locality_domain(&topo->pu[i].where, level) == domain;
    }
    return n;
}

size_t hd_topo_cache_size(const hd_topo_t *topo, int level) {
    return level >= 1 && level <= HD_TOPO_CACHES ? topo->cache_size[level - 1] : 0;
}

int hd_topo_node_os(const hd_topo_t *topo, int32_t numa) {
    return numa >= 0 && (uint32_t)numa < topo->n_nodes ? topo->node_os[numa] : -1;
}

/* The smallest level at which `where` names a domain; HD_TOPO_N_LEVELS if it names none. */
static hd_topo_level_t smallest_level(const hd_locality_t *where) {
    for (int level = HD_TOPO_PU; level >= HD_TOPO_PACKAGE; level--) {
        if (hd_locality_domain(where, (hd_topo_level_t)level) >= 0) {
            return (hd_topo_level_t)level;
        }
    }
    return HD_TOPO_N_LEVELS;
}

void hd_topo_locate_thread(const hd_topo_t *topo, hd_locality_t *out) {
    hd_topo_common_t common = {.any = false};
    cpu_mask_t mask;

    if (topo->this_machine && thread_mask(0, &mask)) {
        for (uint32_t i = 0; i < topo->n_pus; i++) {
            if (mask_has(&mask, topo->pu[i].os_index)) {
                hd_topo_add_common(&common, &topo->pu[i]);
            }
        }
    }
    hd_locality_t where = hd_topo_end_common(&common);
    where.trusted = where.core >= 0;
    for (int level = HD_TOPO_PACKAGE; level < HD_TOPO_CORE; level++) {
        where.trusted |=
            hd_locality_domain(&where, (hd_topo_level_t)level) >= 0 && topo->n_domains[level] > 1;
    }
    *out = where;
}

/* The k-th, in the machine's order, of the hardware threads that n <= n_usable endpoints take: all
 * those with few siblings before them, and as many of the next kind as are still needed. */
static const hd_topo_pu_t *pu_of_compact_set(const hd_topo_t *topo, uint32_t k, uint32_t n) {
    uint32_t sibling = 0, taken = 0, of_this_kind = 0;

    for (;; sibling++) {
        of_this_kind = 0;
        for (uint32_t i = 0; i < topo->n_pus; i++) {
            of_this_kind += topo->pu[i].usable && topo->pu[i].sibling == sibling;
        }
        if (taken + of_this_kind >= n) {
            break;
        }
        taken += of_this_kind;
    }
    for (uint32_t i = 0, last = n - taken;; i++) {
        const hd_topo_pu_t *pu = &topo->pu[i];

        if (!pu->usable || pu->sibling > sibling || (pu->sibling == sibling && last == 0)) {
            continue;
        }
        last -= pu->sibling == sibling;
        if (k-- == 0) {
            return pu;
        }
    }
}

void hd_topo_place(const hd_topo_t *topo, uint32_t i, uint32_t n, hd_locality_t *out) {
    if (n > topo->n_usable) {
        i = (uint32_t)((uint64_t)i * topo->n_usable / n);
        n = topo->n_usable;
    }
    *out = pu_of_compact_set(topo, i, n)->where;
}

ucc_status_t hd_topo_bind_thread(const hd_topo_t *topo, const hd_locality_t *where) {
    hd_topo_level_t level = smallest_level(where);
    cpu_mask_t mask = {0};
    bool any = false;

    if (!topo->this_machine) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (level == HD_TOPO_N_LEVELS) {
        hd_error("can't bind a thread to no domain");
        return UCC_ERR_INVALID_PARAM;
    }
    for (uint32_t i = 0; i < topo->n_pus; i++) {
        const hd_topo_pu_t *pu = &topo->pu[i];
        if (pu->usable && pu->os_index < MAX_CPUS &&
            hd_locality_domain(&pu->where, level) == hd_locality_domain(where, level)) {
            CPU_SET_S((size_t)pu->os_index, sizeof(mask), mask.set);
            any = true;
        }
    }
    if (!any || sched_setaffinity(0, sizeof(mask), mask.set) != 0) {
        hd_error("can't bind a thread to domain %d of level %d", hd_locality_domain(where, level),
                 (int)level);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

bool hd_topo_find(const hd_topo_t *topo, int os_index, hd_locality_t *out) {
    for (uint32_t i = 0; i < topo->n_pus; i++) {
        if (topo->pu[i].usable && topo->pu[i].os_index == os_index) {
            *out = topo->pu[i].where;
            return true;
        }
    }
    return false;
}

_Static_assert(sizeof(hd_affinity_t) == sizeof(cpu_mask_t), "an affinity is a mask of MAX_CPUS");

bool hd_topo_get_affinity(hd_affinity_t *affinity) {
    memset(affinity, 0, sizeof(*affinity));
    return sched_getaffinity(0, sizeof(*affinity), (cpu_set_t *)(void *)affinity) == 0;
}

void hd_topo_set_affinity(const hd_affinity_t *affinity) {
    if (sched_setaffinity(0, sizeof(*affinity), (const cpu_set_t *)(const void *)affinity) != 0) {
        hd_warn("can't give a thread back its affinity");
    }
}

void hd_topo_print(const hd_topo_t *topo, FILE *out) {
    fprintf(out,
            "topology%s: %" PRIu32 " packages, %" PRIu32 " NUMA nodes, %" PRIu32
            " shared caches, %" PRIu32 " cores, %" PRIu32 " hardware threads\n",
            topo->this_machine ? "" : " (described)", topo->n_domains[HD_TOPO_PACKAGE],
            topo->n_domains[HD_TOPO_NUMA], topo->n_domains[HD_TOPO_L3],
            topo->n_domains[HD_TOPO_CORE], topo->n_usable);
    fprintf(out, "  caches: L1 %zu, L2 %zu, L3 %zu bytes\n", topo->cache_size[0],
            topo->cache_size[1], topo->cache_size[2]);
    for (uint32_t i = 0; i < topo->n_pus; i++) {
        const hd_topo_pu_t *pu = &topo->pu[i];
        if (pu->usable) {
            fprintf(out, "  cpu %d: package %d, node %d, cache %d, core %d\n", pu->os_index,
                    pu->where.package, pu->where.numa, pu->where.l3, pu->where.core);
        }
    }
}
