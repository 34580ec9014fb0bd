/* thresholds.c: the sizes and numbers of members that decide how a call runs, without the deciding:
 * what the configuration and the machine make of a group's thresholds when the group is created,
 * and what plans, matching and the engine's rows (plan.c, match.c, work.c) ask alike. A group's
 * thresholds are written by its creator and once more by whoever seals the group (group.c), before
 * any call is planned, and are constant from then on. The other functions keep nothing, and any
 * thread may call them.
 */
#include "core/config.h"
#include "core/topo.h"
#include "shm/far.h"

enum {
    SMALL_BATCH = 64 * 1024, /* bytes of small blocks taken by one claim */
    BUFFERS = 2,             /* of an endpoint: source and result */
    /* where processors lack: bytes of a block that the kernel copies, at least; most processes that
     * do so, since each tries it with each */
    LACKING_PULL = 64 * 1024,
    LACKING_PROCESSES = 16
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Bytes up to which a member stages its data. Where members are apart, the other way is one of two
 * copies, too, and of many steps: so few of them stage more each, in all no more than EIGHT do. */
static size_t staged_by(uint32_t n, const hd_group_config_t *config) {
    enum { EIGHT = 8, MOST = 4 };
    size_t times = config->apart && n < EIGHT ? EIGHT / n : 1;
    return config->staged_max * least(times, MOST);
}

/* What a core copies is found in its own caches up to `plain` bytes; and of much more, reading what
 * is overwritten is no longer what takes the time. */
static void take_stores(hd_group_t *group, const hd_crossovers_t *from, size_t plain) {
    enum { MUCH = 4 };
    bool known = from->string != 0;
    group->streaming = from->in_order ? HD_STORES_STREAMING : HD_STORES_PAGES;
    group->string_min = known ? from->string : plain + 1;
    group->string_end = known ? from->string_end : MUCH * plain;
    size_t least_other = least(group->string_min, group->streaming_min);
    group->plain_most = (uint32_t)(least_other ? least(least_other - 1, UINT32_MAX) : 0);
}

static size_t own_cache(const hd_topo_t *topo) {
    size_t own = hd_topo_cache_size(topo, 2);
    return own ? own : (size_t)1 << 20;
}

/* One of two processes lets the kernel copy half as many bytes (far.c). */
static size_t pulled_from(const hd_crossovers_t *from) {
    return from->kernel ? 2 * from->kernel : SIZE_MAX;
}

/* Larger groups stage less per endpoint: staging is O(n * depth), and n readers of one endpoint's
 * staging gain less from it. */
void hd_plan_thresholds(hd_group_t *group, const hd_group_config_t *config) {
    size_t staged = staged_by(group->n, config);
    size_t room = ((size_t)1 << 20) / group->n;
    if (staged > room) {
        staged = room > 256 ? room : 256;
    }
    staged = least(staged, (size_t)1 << 26); /* a lane's byte count has 28 bits */
    size_t lines = group->n <= 64 ? least(config->lines_max, HD_LINES_LIMIT) : 0;
    group->flat_max = config->flat_max;
    group->lines_max = (uint32_t)lines;
    group->lines_per_slot = (uint32_t)hd_lines_for(lines);
    group->staged_slot = (uint32_t)(staged < 64 ? 64 : (staged + 63) / 64 * 64);
    group->staged_max = group->staged_slot;
    /* never less than lines carry: what came in lines, a relay of a bcast hands on through its
     * slot */
    lines = (lines + HD_LINE - 1) / HD_LINE * HD_LINE;
    group->staging_slot = group->staged_slot > lines ? group->staged_slot : (uint32_t)lines;
    if (group->staging_slot < config->staging_min) {
        group->staging_slot = config->staging_min;
    }
    group->direct_above = config->direct_above;
    group->crossovers = config->crossovers;
    group->crossovers.piece = config->crossovers.piece > HD_FAR_SHORT ? HD_FAR_LONG : HD_FAR_SHORT;
    group->pull_min = config->pull_min == (size_t)HD_CFG_AUTO ? pulled_from(&config->crossovers)
                                                              : config->pull_min;
    group->pull_end = SIZE_MAX;
    group->near_above = (uint32_t)least(config->staged_max, staged);
    group->chunk = config->chunk < 4096 ? 4096 : config->chunk;
    bool automatic = config->streaming_min == (size_t)HD_CFG_AUTO;
    const hd_topo_t *topo = hd_topo_get();
    size_t outgrown = hd_plan_streaming_min(topo, group->n), found = config->crossovers.streaming;
    group->streaming_min = !automatic ? config->streaming_min
                           : found    ? least(found, outgrown)
                                      : outgrown;
    take_stores(group, &config->crossovers, own_cache(topo) / BUFFERS);
}

size_t hd_plan_streaming_min(const hd_topo_t *topo, uint32_t n) {
    size_t own = own_cache(topo), shared = hd_topo_cache_size(topo, 3);
    uint32_t caches = hd_topo_n_domains(topo, HD_TOPO_L3), sharers = (n + caches - 1) / caches;
    shared /= BUFFERS * (size_t)sharers;
    return shared > own ? shared : own;
}

void hd_plan_ruled(hd_group_t *group, const hd_ruling_t *ruling) {
    if (ruling->dedicated) { /* waiting for all costs little: not worth a copy, if that saves one */
        group->near_above = (uint32_t)least(group->near_above, group->direct_above);
        if (!group->apart) {
            group->staged_max = (uint32_t)least(group->staged_slot, group->direct_above);
        }
    }
    /* Windows take several turns at the processors, and the kernel one: where those are few, it
     * wins on machines, too, on which it copies more slowly, but not over streaming stores. */
    bool automatic = group->config.pull_min == (size_t)HD_CFG_AUTO;
    bool few = group->mapping.n <= LACKING_PROCESSES;
    if (automatic && ruling->lacking && few && group->pull_min > LACKING_PULL) {
        group->pull_min = LACKING_PULL;
        group->pull_end = group->streaming_min;
    }
}

bool hd_plan_is_flat(const hd_group_t *group, uint32_t n) {
    return !group->spanning && n <= group->flat_max;
}

uint32_t hd_plan_batch(size_t block) {
    return (uint32_t)(SMALL_BATCH / (block + 64) + 1);
}

size_t hd_plan_push(size_t element) {
    return element < HD_PUSH_WINDOW ? HD_PUSH_WINDOW - HD_PUSH_WINDOW % element : element;
}

/* A piece is short enough to be found in a cache, and long enough to be worth its window; where the
 * data are short, they are so many pieces that all have work. */
size_t hd_far_window(const hd_group_t *group, const hd_call_t *call, uint32_t n) {
    const hd_coll_t *coll = &hd_coll[call->type];
    size_t piece = group->crossovers.piece;
    if (hd_far_is_by_pairs(coll)) {
        piece = least(piece, hd_far_pair_bytes(group->mapping.n));
    }
    size_t element = coll->reducing ? call->element : 1;
    size_t grain = HD_LINE % element ? element : HD_LINE, most = coll->prefix ? piece / n : piece;
    size_t share = coll->vector ? most : call->bytes / (2 * (size_t)n);
    size_t window = share < HD_FAR_LEAST ? HD_FAR_LEAST : share;
    window = window < most ? window : most;
    if (coll->prefix && grain > HD_FAR_LARGEST / n) { /* of so many, each has less than a line */
        grain = element;
    }
    window -= window % grain;
    return window ? window : grain;
}

size_t hd_far_most(const hd_group_t *group, const hd_call_t *call, uint32_t n) {
    return !group->apart ? SIZE_MAX : HD_FAR_LARGEST / (hd_coll[call->type].prefix ? n : 1);
}
