/* team.c: the functions on a team handle that need nothing of the folders above: how its group is
 * configured (called by form/), and who still needs the handle (called before it is destroyed). */
#include "team/team.h"

#include "net/net.h"
#include "threads/callback.h"

void hd_context_keep(ucc_context_h context) {
    /* relaxed, here and below: a count for ucc_context_destroy, which the client, or what keeps the
     * context, orders after all of its teams */
    atomic_fetch_add_explicit(&context->teams, 1, memory_order_relaxed);
    if (context->keep) {
        context->keep(context->kept_by, true);
    }
}

static void let_go(void *arg) {
    ucc_context_h context = arg;
    context->keep(context->kept_by, false);
}

void hd_context_let_go(ucc_context_h context) {
    bool kept = context->keep != NULL; /* before: the client may destroy its own after */
    atomic_fetch_sub_explicit(&context->teams, 1, memory_order_relaxed);
    if (kept && !hd_callback_defer(&context->runner, let_go, context)) {
        let_go(context);
    }
}

hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type, uint32_t n) {
    const hd_config_t *c = lib->config;
    return (hd_group_config_t){
        .depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_RING),
        .persistent_depth = (uint32_t)hd_config_uint(c, HD_CFG_LIB_PERSISTENT_RING),
        .flat_max = (uint32_t)hd_config_uint(c, HD_CFG_LIB_FLAT_MAX),
        .lines_max = hd_config_size(c, HD_CFG_LIB_LINES_MAX),
        .staged_max = hd_config_size(c, HD_CFG_LIB_STAGED_MAX),
        .direct_above = hd_config_size(c, HD_CFG_LIB_DIRECT_ABOVE),
        .chunk = hd_config_size(c, HD_CFG_LIB_CHUNK),
        .streaming_min = hd_config_size(c, HD_CFG_LIB_NONTEMPORAL_MIN),
        .pull_min = hd_config_size(c, HD_CFG_LIB_PULL_MIN),
        .crossovers = hd_profile_crossovers(hd_profile_of(&lib->profile)),
        .two_sided = sync_type == UCC_SYNC_COLLECTIVES || lib->check,
        .check = lib->check,
        .arrival = hd_config_choice(c, HD_CFG_LIB_ARRIVAL),
        .tree = hd_config_choice(c, HD_CFG_LIB_TREE),
        .xpmem = (uint8_t)hd_config_choice(c, HD_CFG_LIB_XPMEM),
        .stall = lib->stall,
        .timeout = lib->timeout,
        .mappings = lib->mappings != HD_CFG_MAPPINGS_ONE && n > 1 ? n : 0,
        .apart = lib->mappings >= HD_CFG_MAPPINGS_FAR && n > 1 && n < HD_FAR_MOST,
        .pairs = lib->mappings == HD_CFG_MAPPINGS_PAIRS,
        .asked = hd_config_bool(c, HD_CFG_LIB_NET_ASK),
    };
}

hd_group_config_t hd_team_span_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type) {
    enum {
        DEPTH = HD_SWAP_SLOTS,
        SLICES = 128
    }; /* so many exchanges and slices must be under way at once, because a round trip takes long */
    hd_group_config_t config = hd_team_group_config(lib, sync_type, 1);
    config.spanning = true;
    config.depth = DEPTH; /* a swap has the place of its number in as many (net/swap.c) */
    config.slices = SLICES;
    /* a staging slot must hold a member's contribution to a swap */
    config.staging_min = HD_SWAP_LONG;
    return config;
}

bool hd_team_is_needed(ucc_team_h team) {
    hd_lock(&team->lock);
    uint32_t engines = team->n_engines, tasks = team->n_held;
    hd_unlock(&team->lock);
    if (engines) {
        hd_error("team destroyed before %u of its execution engines at endpoint %u", engines,
                 team->ep);
    }
    if (tasks) {
        hd_error("team destroyed before %u collectives of schedules, triggered posts, or "
                 "agreements, that run at endpoint %u",
                 tasks, team->ep);
    }
    return engines != 0 || tasks != 0;
}

void hd_team_hold(ucc_team_h team, bool holds) {
    hd_lock(&team->lock);
    team->n_held += holds ? 1 : UINT32_MAX; /* minus one */
    hd_unlock(&team->lock);
}
