/* group.c: the memory that the endpoints of one team share within this process.
 *
 * One reference per endpoint, one for the creator while forming, and one per sleeper that is
 * enlisted on its bell; the last one frees it. Nothing outside the group points into it once no
 * reference is left, and no endpoint's memory that a peer may touch lies anywhere else.
 */
#include "shm/far.h"
#include "shm/outer.h"
#include "shm/parts.h"
#include "shm/reach.h"

#include "core/config.h"
#include "core/hash.h"
#include "threads/meet.h"

#include <heddle/heddle_version.h>
#include <pthread.h>
#include <unistd.h>

/* Does this process alone have the array of parts of the team's memory? */
static bool has_regions(const hd_group_t *group) {
    return !group->mapping.first && (!hd_group_is_mapped(group) || hd_group_spans_processes(group));
}

static void dismantle(hd_group_t *group) {
    bool mapped = hd_group_is_mapped(group), first = !group->mapping.first;
    hd_outer_memory_t *const above[] = {group->outside, group->kin};
    for (uint32_t i = 0; i < 2; i++) {
        if (above[i] && above[i]->ends) {
            above[i]->ends(above[i]);
        }
    }
    hd_match_destroy(group->match);
    if (group->board) {
        hd_board_destroy(group->board);
    }
    if (group->by_topology && group->by_topology != group->canonical) {
        hd_tree_destroy(group->by_topology);
    }
    if (group->canonical) {
        hd_tree_destroy(group->canonical);
    }
    for (uint32_t i = 0; first && group->region && i < group->n; i++) {
        if (group->region[i].owned) {
            hd_part_free(group->region[i].address, group->region[i].bytes);
        }
    }
    for (uint32_t i = 0; i < 2; i++) { /* last: what the boards' flights use */
        if (above[i]) {
            above[i]->release(above[i]);
        }
    }
    if (has_regions(group)) {
        hd_free(group->region);
    }
    hd_free(group->mapping.half);
    hd_waits_free(group);
    hd_reach_destroy(group->reach);
    if (mapped) {
        hd_mapping_end(group);
        return;
    }
    hd_free(group->labels);
    hd_free(group->locality);
    hd_free(hd_common(group));
}

/* One that two endpoints share ends. */
static void forget_half(hd_group_t *group) {
    hd_mapping_t *m = &group->mapping.first->mapping;
    hd_group_t **half = &m->half[group->mapping.number - 1];
    hd_lock(&m->lock);
    *half = *half == group ? NULL : *half;
    hd_unlock(&m->lock);
}

static void release(hd_home_t *home) {
    hd_group_t *group = (hd_group_t *)home;
    hd_checked(hd_group_check(group));
    hd_fork_forget(&group->fork_hook);
    if (!group->mapping.first) {
        hd_meetings_end(group->serial);
    } else if (group->mapping.first->config.pairs) {
        forget_half(group);
    }
    dismantle(group);
}

static bool choose_trees(hd_group_t *group) {
    bool flat = !group->spanning &&
                (group->arrival == HD_CFG_ARRIVAL_FLAT || group->n == 1 ||
                 (group->arrival == HD_CFG_ARRIVAL_AUTO && hd_plan_is_flat(group, group->n)));
    return flat || hd_tree_by_number(group->n, &group->canonical) == UCC_OK;
}

/* Where the parts of a group lie in a mapping. */
typedef struct places {
    size_t board, locality, region, labels, homes, match, births, who, readers, far, reach, yields,
        end;
} places_t;

static places_t places_of(const hd_group_t *group, uint32_t mappings) {
    size_t at = hd_mapping_first(mappings), n = group->n, page = (size_t)sysconf(_SC_PAGESIZE);
    places_t p;
    size_t board = hd_board_bytes(group, group->n, group->depth, 0, NULL, NULL);
    p.board = hd_mapping_place(&at, board, 4096);
    p.locality = hd_mapping_place(&at, n * sizeof(*group->locality), HD_LINE);
    p.region = hd_mapping_place(&at, n * sizeof(*group->region), HD_LINE);
    p.labels = hd_mapping_place(&at, n * sizeof(*group->labels), HD_LINE);
    p.homes = hd_mapping_place(&at, n * sizeof(*group->home_of), HD_LINE);
    p.match = hd_mapping_place(&at, hd_match_bytes(group->n), HD_LINE_PAIR);
    p.births = hd_mapping_place(&at, hd_births_bytes(), HD_LINE_PAIR);
    p.who = hd_mapping_place(&at, group->apart ? hd_who_bytes(mappings) : 0, HD_LINE_PAIR);
    p.readers = hd_mapping_place(&at, group->apart ? hd_pull_bytes(mappings) : 0, HD_LINE_PAIR);
    size_t far = group->apart ? hd_far_bytes(group->n, mappings) : 0;
    p.far = hd_mapping_place(&at, far, 4096);
    p.reach = hd_mapping_place(&at, group->apart ? hd_reach_bytes() : 0, 4096);
    p.yields = hd_mapping_place(&at, group->apart ? hd_processors_bytes() : 0, page);
    p.end = hd_mapping_place(&at, 0, 4096);
    return p;
}

/* Memory for what its endpoints share, or, in a mapping, the places where that is; false: there is
 * none. */
static bool furnish(hd_group_t *group) {
    size_t n = group->n;
    uint8_t *base = group->mapping.base;
    if (base) {
        places_t p = places_of(group, group->mapping.n);
        group->locality = (hd_locality_t *)(void *)(base + p.locality);
        group->region = hd_group_spans_processes(group)
                            ? hd_alloc(HD_LINE, n * sizeof(*group->region))
                            : (struct hd_region *)(void *)(base + p.region);
        group->part =
            hd_group_spans_processes(group) ? (hd_part_t *)(void *)(base + p.region) : NULL;
        group->labels = (uint64_t *)(void *)(base + p.labels);
        group->home_of = (uint32_t *)(void *)(base + p.homes);
        group->match = hd_match_create(group, base + p.match);
        group->births = (hd_births_t *)(void *)(base + p.births);
        group->far = group->apart ? base + p.far : NULL;
        group->who = base + p.who;
        group->readers = base + p.readers;
        group->yields = base + p.yields;
        group->windows = p.far;
        group->windows_end = p.reach;
        group->reach = group->apart ? hd_reach_create(group, base + p.reach) : NULL;
        base += p.board;
        if (group->apart) {
            hd_who_write(group);
            hd_pull_open(group);
        }
    } else {
        group->locality = hd_alloc(HD_LINE, n * sizeof(*group->locality));
        group->region = hd_alloc(HD_LINE, n * sizeof(*group->region));
        group->labels = hd_alloc(HD_LINE, n * sizeof(*group->labels));
        group->match = hd_match_create(group, NULL);
    }
    bool reaches = !group->apart || group->reach;
    if (choose_trees(group) && reaches && group->match && group->locality && group->region &&
        group->labels) {
        group->board = hd_board_create(group, group->n, group->depth, 0, group->canonical,
                                       group->canonical, base);
    }
    return group->board;
}

/* Before the group has any memory: what the configuration says. */
static void configure(hd_group_t *group, uint32_t n, const hd_group_config_t *config) {
    group->config = *config;
    group->apart = config->apart;
    group->n = group->team_n = n;
    group->depth = config->depth;
    group->persistent_depth = config->persistent_depth;
    group->two_sided = config->two_sided;
    group->check = config->check;
    group->stall = config->stall;
    group->timeout = config->timeout;
    group->slices = config->slices;
    group->spanning = config->spanning;
    group->arrival = config->arrival;
    memset(group->arrives_by, HD_ARRIVAL_COUNTER, sizeof(group->arrives_by));
    group->tree_choice = config->tree;
    hd_plan_thresholds(group, config);
}

static void begin(hd_group_t *group) {
    group->home.release = release;
    group->home.awaits = hd_op_awaits;
    /* relaxed: nobody else knows the group yet */
    atomic_store_explicit(&group->home.refs, 1, memory_order_relaxed);
}

static uint32_t mappings_of(const hd_group_config_t *config) {
    return config->processes > 1 ? config->processes : config->mappings ? config->mappings + 1 : 0;
}

static hd_group_t *allocate(uint32_t n, const hd_group_config_t *config) {
    uint32_t mappings = mappings_of(config);
    hd_assert(!mappings || !config->spanning);
    if (!mappings) {
        hd_common_t *common = hd_alloc(HD_LINE_PAIR, sizeof(*common) + sizeof(hd_group_t));
        return common ? (hd_group_t *)(void *)(common + 1) : NULL;
    }
    hd_group_t of_so_many = {.n = 0};
    configure(&of_so_many, n, config);
    places_t p = places_of(&of_so_many, mappings);
    hd_group_t *group = hd_mapping_create(mappings, config->processes > 1 ? config->process : 0,
                                          config->processes > 1, p.end);
    if (group) {
        /* relaxed: nobody else knows the group yet */
        atomic_store_explicit(&hd_common(group)->given_away, p.end, memory_order_relaxed);
    }
    return group;
}

/* By each process, when it maps the group's memory. */
static void add_processors(hd_group_t *group) {
    hd_topo_set_t mine = {{0}};
    hd_topo_add_usable(hd_topo_get(), &mine);
    for (uint32_t w = 0; w < HD_TOPO_SET_WORDS; w++) {
        if (mine.word[w]) {
            /* relaxed: whoever joins hands it on */
            atomic_fetch_or_explicit(&group->charter->processors[w], mine.word[w],
                                     memory_order_relaxed);
        }
    }
}

/* What the group's processes may use together, as far as they have mapped its memory. */
static hd_topo_set_t processors_of(const hd_group_t *group) {
    hd_topo_set_t set = {{0}};
    if (!group->charter) {
        hd_topo_add_usable(hd_topo_get(), &set);
        return set;
    }
    for (uint32_t w = 0; w < HD_TOPO_SET_WORDS; w++) {
        /* relaxed: see add_processors */
        set.word[w] = atomic_load_explicit(&group->charter->processors[w], memory_order_relaxed);
    }
    return set;
}

uint32_t hd_group_n_processors(const hd_group_t *group) {
    hd_topo_set_t set = processors_of(group);
    return hd_topo_set_size(&set);
}

bool hd_group_lacks_processors(const hd_group_t *group, uint32_t n, uint32_t here) {
    return n > hd_group_n_processors(group) || here > hd_topo_n_pus(hd_topo_get());
}

/* What the other mappings need to know. */
static void write_charter(hd_group_t *group) {
    hd_charter_t *charter = group->charter;
    hd_births_init(group->births);
    charter->n = group->n;
    charter->mappings = group->mapping.n;
    charter->config = group->config;
    charter->config.streaming_min = group->streaming_min; /* of this process's machine */
    add_processors(group);
}

hd_group_t *hd_group_create(uint32_t n, const hd_group_config_t *config) {
    hd_group_t *group = allocate(n, config);
    if (!group && config->processes > 1) { /* and why has been said */
        hd_info("no memory that %u processes share for a team of %u endpoints", config->processes,
                n);
        return NULL;
    }
    if (!group) {
        hd_error("no memory for a team of %u endpoints", n);
        return NULL;
    }
    begin(group);
    group->serial = hd_serial();
    configure(group, n, config);
    if (!furnish(group)) {
        hd_error("no memory for a team of %u endpoints", n);
        dismantle(group);
        return NULL;
    }
    hd_group_watch_forks(group);
    for (uint32_t i = 0; i < n; i++) {
        group->locality[i] = hd_locality_unknown();
        group->labels[i] = i;
    }
    if (group->charter) {
        write_charter(group);
    }
    return group;
}

/* Raised whenever members do something else with memory that has the same layout. */
enum { PROTOCOL = 2 };

/* Of so many members that a board has all that it can have. */
static size_t board_bytes_of_many(void) {
    static const hd_group_t group = {.lines_per_slot = 1, .staging_slot = HD_LINE};
    return hd_board_bytes(&group, 64, 8, 0, NULL, NULL);
}

uint64_t hd_group_layout(void) {
    const uint64_t part[] = {HEDDLE_VERSION,
                             sizeof(hd_charter_t),
                             sizeof(hd_group_config_t),
                             sizeof(hd_far_bell_t),
                             sizeof(hd_group_t),
                             sizeof(hd_shared_t),
                             sizeof(hd_exchange_t),
                             sizeof(hd_head_t),
                             sizeof(hd_locality_t),
                             sizeof(hd_common_t),
                             sizeof(pthread_mutex_t),
                             hd_births_bytes(),
                             hd_birth_bytes(),
                             hd_match_bytes(1),
                             hd_far_bytes(2, 2),
                             hd_who_bytes(1),
                             hd_pull_bytes(1),
                             hd_reach_bytes(),
                             hd_processors_bytes(),
                             board_bytes_of_many(),
                             PROTOCOL,
                             (uint64_t)sysconf(_SC_PAGESIZE),
                             HD_FAR_KINDS};
    uint64_t layout = 1;
    for (uint32_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        layout = hd_hash_mix(layout, part[i]);
    }
    return layout;
}

hd_node_segment_t hd_group_take_segment(hd_group_t *group) {
    hd_node_segment_t segment = {.fd = group->mapping.fd, .bytes = group->mapping.bytes};
    group->mapping.fd = -1;
    return segment;
}

hd_group_t *hd_group_of(const hd_node_segment_t *segment, uint32_t n,
                        const hd_group_config_t *config) {
    hd_group_t *group = hd_mapping_of(segment, config->processes, config->process);
    if (!group) {
        return NULL;
    }
    begin(group);
    group->serial = hd_serial();
    hd_group_config_t agreed = group->charter->config; /* once: it is another process's to write */
    bool fits = group->charter->n == n;
    agreed.stall = config->stall;
    agreed.timeout = config->timeout;
    agreed.xpmem = config->xpmem; /* each process's own */
    agreed.processes = config->processes;
    agreed.process = config->process;
    agreed.number = config->number;
    configure(group, n, &agreed);
    if (!fits || !agreed.apart || agreed.mappings || agreed.spanning ||
        !hd_mapping_has(group, places_of(group, group->mapping.n).end)) {
        hd_error("memory of another process is no team's");
        dismantle(group);
        return NULL;
    }
    if (!furnish(group)) {
        hd_error("no memory for a team of %u endpoints", group->n);
        dismantle(group);
        return NULL;
    }
    hd_group_watch_forks(group);
    add_processors(group);
    return group;
}

hd_group_t *hd_group_again(hd_group_t *of, uint32_t number) {
    hd_home_pin(&of->home);
    hd_group_t *group = hd_mapping_again(of, number);
    if (!group) {
        hd_home_unpin(&of->home);
        return NULL;
    }
    begin(group);
    group->serial = of->serial;
    configure(group, of->n, &of->config);
    if (!furnish(group)) {
        hd_error("no memory for a team of %u endpoints", group->n);
        dismantle(group);
        return NULL;
    }
    hd_group_watch_forks(group);
    return group;
}

/* Unless the last reference has just been dropped. */
static bool pins(hd_home_t *home) {
    /* relaxed, both: under the lock under which its end is noticed */
    uint32_t refs = atomic_load_explicit(&home->refs, memory_order_relaxed);
    while (refs && !atomic_compare_exchange_weak_explicit(
                       &home->refs, &refs, refs + 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    return refs != 0;
}

/* Whoever comes first makes it. */
static hd_group_t *again_with(hd_group_t *of, uint32_t ep) {
    hd_mapping_t *m = &of->mapping;
    hd_lock(&m->lock);
    m->half = m->half ? m->half : hd_alloc(HD_LINE, (of->n + 1) / 2 * sizeof(hd_group_t *));
    hd_group_t **half = m->half ? &m->half[ep / 2] : NULL, *group = NULL;
    if (half && *half && pins(&(*half)->home)) {
        group = *half;
    } else if (half) {
        group = *half = hd_group_again(of, ep / 2 + 1);
    }
    hd_unlock(&m->lock);
    return group;
}

hd_group_t *hd_group_again_for(hd_group_t *of, uint32_t ep) {
    return of->config.pairs ? again_with(of, ep) : hd_group_again(of, ep + 1);
}

/* Every endpoint said where it runs, and runs nowhere else; only then is the machine's tree not
 * fiction. */
static bool locality_is_known(const hd_group_t *group) {
    for (uint32_t i = 0; i < group->n; i++) {
        if (!group->locality[i].trusted) {
            return false;
        }
    }
    return true;
}

/* More endpoints are held in one domain of this level than it has of these processors. */
static bool is_overfull(const hd_group_t *group, const hd_topo_set_t *processors,
                        hd_topo_level_t level) {
    for (uint32_t i = 0; i < group->n; i++) {
        int32_t domain = hd_locality_domain(&group->locality[i], level);
        uint32_t held = 0;
        for (uint32_t j = 0; domain >= 0 && j < i + 1; j++) { /* the last one counts them all */
            held += hd_locality_domain(&group->locality[j], level) == domain;
        }
        if (held > 1 && held > hd_topo_n_set_in(hd_topo_get(), processors, level, domain)) {
            return true;
        }
    }
    return false;
}

/* More endpoints than processors, of all or of a domain, or two held on one: some of them can't be
 * running. */
static bool is_crowded(const hd_group_t *group) {
    hd_topo_set_t processors = processors_of(group);
    if (group->n > hd_topo_set_size(&processors)) {
        return true;
    }
    for (uint32_t i = 0; i < group->n; i++) {
        const hd_locality_t *a = &group->locality[i];
        for (uint32_t j = 0; j < i; j++) {
            const hd_locality_t *b = &group->locality[j];
            if (a->core >= 0 && a->core == b->core && (a->pu < 0 || a->pu == b->pu)) {
                return true;
            }
        }
    }
    return is_overfull(group, &processors, HD_TOPO_PACKAGE) ||
           is_overfull(group, &processors, HD_TOPO_NUMA) ||
           is_overfull(group, &processors, HD_TOPO_L3);
}

static bool spans_packages(const hd_group_t *group) {
    for (uint32_t i = 1; i < group->n; i++) {
        if (group->locality[i].package != group->locality[0].package) {
            return true;
        }
    }
    return false;
}

static hd_ruling_t rule(const hd_group_t *group) {
    bool known = locality_is_known(group);
    return (hd_ruling_t){.known = known,
                         .dedicated = known && !is_crowded(group),
                         .lacking = group->n > hd_group_n_processors(group)};
}

/* Does a butterfly that reduces nothing go by the tree that follows the machine? */
static bool climbs_by_topology(const hd_group_t *group) {
    const hd_tree_t *tree = group->by_topology, *canonical = group->canonical;
    if (tree == canonical || tree->n_levels > HD_STEPS_MOST ||
        hd_tree_readers(tree) > HD_STEP_READERS) {
        return false;
    }
    return !hd_group_climbs(group, group->n) ||
           hd_tree_climb(tree, group->locality) < hd_tree_climb(canonical, group->locality);
}

bool hd_group_climbs(const hd_group_t *group, uint32_t n) {
    bool at_once = group->at_once && n <= HD_STEPS_AT_ONCE * HD_TREE_FANIN;
    return group->butterfly && (at_once || hd_tree_readers_by_number(n) <= HD_STEP_READERS);
}

/* The trees are decided. */
static void choose_arrival(hd_group_t *group) {
    int wanted = group->arrival;
    bool settled = wanted == HD_CFG_ARRIVAL_AUTO && group->dedicated && group->n > 1;
    group->butterfly = group->canonical && group->canonical->n_levels <= HD_STEPS_MOST &&
                       (wanted == HD_CFG_ARRIVAL_BUTTERFLY || settled);
    group->static_arrival = group->butterfly || wanted == HD_CFG_ARRIVAL_STATIC || settled;
    memset(group->arrives_by, group->static_arrival ? HD_ARRIVAL_STATIC : HD_ARRIVAL_COUNTER,
           sizeof(group->arrives_by));
    /* across packages, fewer reads are worth more steps: bench/model */
    group->at_once = group->butterfly && !spans_packages(group);
    group->steps_by = group->butterfly && climbs_by_topology(group);
    if (hd_group_climbs(group, group->n)) {
        group->arrives_by[1][0] = group->arrives_by[1][1] = HD_ARRIVAL_BUTTERFLY;
    } else if (group->steps_by) {
        group->arrives_by[1][0] = HD_ARRIVAL_BUTTERFLY;
    }
}

ucc_status_t hd_group_seal(hd_group_t *group) {
    hd_ruling_t ruling = group->charter ? group->charter->ruling : rule(group);
    bool known = ruling.known;
    group->dedicated = ruling.dedicated;
    hd_plan_ruled(group, &ruling);
    group->by_topology = group->canonical;
    if (group->canonical && known && group->tree_choice != HD_CFG_TREE_NUMBER) {
        ucc_status_t status =
            hd_tree_by_topology(group->n, group->locality, HD_TREE_FANIN, &group->by_topology);
        if (status != UCC_OK) {
            group->by_topology = group->canonical;
            return status;
        }
    }
    if (group->apart) {
        hd_pull_try(group);
        hd_reach_open(group->reach, group->config.xpmem);
    }
    choose_arrival(group);
    return hd_board_set_topology(group->board, group->by_topology);
}

static void complete(hd_group_t *group) {
    /* release: what hd_group_seal wrote; pairs with hd_group_is_complete */
    atomic_store_explicit(&group->complete, 1, memory_order_release);
    hd_bell_ring(&group->home.bell);
}

/* All have joined. */
static ucc_status_t settle(hd_group_t *group) {
    ucc_status_t status = hd_group_seal(group);
    if (status != UCC_OK) {
        hd_group_poison(group, status);
        return status;
    }
    hd_checked(hd_group_check(group));
    if (!group->outside && !hd_parts_begin(group)) {
        complete(group);
    } else if (group->outside) {
        /* release: what hd_group_seal wrote; pairs with hd_group_is_sealed */
        atomic_store_explicit(&group->sealed, 1, memory_order_release);
        hd_group_ready(group);
    }
    return UCC_OK;
}

/* By an endpoint of this mapping, which finds that all have joined: the first one settles it. */
static ucc_status_t settle_once(hd_group_t *group) {
    /* acq_rel: one of them; what the others need comes with `complete` */
    bool settled = atomic_exchange_explicit(&group->mapping.settled, 1, memory_order_acq_rel);
    return settled ? UCC_OK : settle(group);
}

void hd_group_set_home(hd_group_t *group, uint32_t ep, uint32_t process) {
    group->home_of[ep] = process;
}

ucc_status_t hd_group_join(hd_group_t *group, uint32_t ep, const hd_locality_t *where) {
    hd_assert_lt(ep, group->n);
    hd_assert(!group->board->member[ep]); /* each joins once */
    if (where) {
        group->locality[ep] = *where;
    }
    if (!hd_board_add_member(group->board, ep)) {
        hd_error("no memory for endpoint %u of %u", ep, group->n);
        hd_group_poison(group, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    if (group->home_of) {
        group->home_of[ep] = group->mapping.number;
    }
    /* release: for those who look who has joined (hd_board_peer) */
    atomic_store_explicit(&group->board->shared[ep]->thread, -hd_thread_number(),
                          memory_order_release);
    /* acq_rel: hands on my member and locality; the last one takes in everybody's */
    uint32_t before = atomic_fetch_add_explicit(&hd_common(group)->joined, 1, memory_order_acq_rel);
    hd_assert_lt(before & ~HD_GROUP_ABANDONED, group->n);
    if (before + 1 != group->n) {
        return UCC_OK;
    }
    if (hd_group_is_mapped(group)) { /* processes may see different processors: one decides */
        group->charter->ruling = rule(group);
        /* release: pairs with hd_group_settles */
        atomic_store_explicit(&group->charter->is_ruled, 1, memory_order_release);
        hd_bell_alarm(&group->home.bell); /* those of other mappings may sleep */
        hd_bell_ring(&group->home.bell);
    }
    return settle_once(group);
}

void hd_group_ready(hd_group_t *group) {
    /* acq_rel: whoever comes second hands on what both have written */
    if (atomic_fetch_add_explicit(&group->halves, 1, memory_order_acq_rel) == 1) {
        complete(group);
    }
}

bool hd_group_is_sealed(const hd_group_t *group) {
    /* acquire: pairs with the release in hd_group_join */
    return atomic_load_explicit(&group->sealed, memory_order_acquire) != 0;
}

bool hd_group_abandon(hd_group_t *group, ucc_status_t why) {
    /* acq_rel: either all have joined before, or the last one to join finds no complete count */
    uint32_t before = atomic_fetch_or_explicit(&hd_common(group)->joined, HD_GROUP_ABANDONED,
                                               memory_order_acq_rel);
    if ((before & ~HD_GROUP_ABANDONED) == group->n) {
        return false;
    }
    hd_group_poison(group, why);
    return true;
}

bool hd_group_all_joined(const hd_group_t *group) {
    /* acquire: pairs with hd_group_join, though only the count matters */
    uint32_t joined = atomic_load_explicit(&hd_common(group)->joined, memory_order_acquire);
    return (joined & ~HD_GROUP_ABANDONED) == group->n;
}

/* Of a mapping that has not been settled: all may have joined, the last of them by another one. */
bool hd_group_settles(hd_group_t *group) {
    /* acquire: the ruling, and what each member wrote before it joined */
    if (!hd_group_is_mapped(group) ||
        atomic_load_explicit(&group->charter->is_ruled, memory_order_acquire) == 0) {
        return false;
    }
    (void)settle_once(group); /* a failure is the group's */
    if (hd_parts_are_awaited(group) && hd_parts_look(group)) {
        complete(group);
    }
    /* acquire: as in hd_group_is_complete; another thread may be settling it */
    return atomic_load_explicit(&group->complete, memory_order_acquire) != 0;
}

_Atomic(hd_outer_memory_t *) *hd_op_flight(const hd_op_t *op) {
    hd_group_t *first = op->group->mapping.first;
    if (!first) {
        return &op->slot->flight;
    }
    while (!hd_group_is_complete(first)) { /* its boards are laid out by the same trees */
        hd_give_way();                     /* another thread is settling it */
    }
    hd_board_t *board = hd_match_same_board(first, op->place.board);
    return board ? &board->slot[op->place.k & board->mask].flight : NULL;
}
