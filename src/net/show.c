/* show.c: the network, for people: heddle_info and heddle_team_print. */
#include "net/internal.h"
#include "threads/threads.h"

#include <stdlib.h>

/* What UCX says, written down while in the lane: a stream of the user's may block there, or run
 * code of his. */
static char *describe(hd_net_lane_t *lane, const hd_peer_t *peer) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) {
        return NULL;
    }
    while (!hd_net_lane_enter(lane)) {
        hd_give_way();
    }
    hd_ucx_describe(&peer->link[lane->number].ucx, stream, "    ");
    hd_net_lane_leave(lane);
    fclose(stream);
    return text;
}

static void print_peer(const hd_net_team_t *team, uint32_t process, FILE *out) {
    hd_peer_t *peer = team->peer[process];
    /* relaxed: for people */
    bool lost = atomic_load_explicit(&peer->lost, memory_order_relaxed);
    for (uint32_t l = 0; l < team->lanes; l++) {
        hd_net_lane_t *lane = &team->net->lane[l];
        fprintf(out, "  process %u, lane %u%s\n", process, l, lost ? ": lost" : "");
        char *text = lost ? NULL : describe(lane, peer);
        fputs(lost ? "" : text ? text : "    no memory\n", out);
        free(text);
    }
}

void hd_net_print_team(hd_net_team_t *team, FILE *out) {
    fprintf(out, "ways to other processes, over %u lane%s, and what UCX uses each for:\n",
            team->lanes, team->lanes == 1 ? "" : "s");
    for (uint32_t p = 0; p < team->n; p++) {
        if (p != team->me) {
            print_peer(team, p, out);
        }
    }
    hd_net_traffic_t sent = hd_net_traffic();
    fprintf(out, "sent by this process: %llu messages of %llu bytes, %llu credits\n",
            (unsigned long long)sent.messages_sent, (unsigned long long)sent.bytes_sent,
            (unsigned long long)sent.told);
}

/* Of a lane that another thread does not leave for long, nothing is said. */
static bool find_and_say(hd_net_lane_t *lane, const hd_leg_t *leg, hd_text_t *text) {
    enum { TRIES = 1000 };
    uint32_t tries = 0;
    bool any = false;
    while (tries < TRIES && !hd_net_lane_enter(lane)) {
        hd_give_way();
        tries++;
    }
    if (tries == TRIES) {
        return false;
    }
    for (const hd_leg_t *l = lane->legs; l && !any; l = l->next) {
        any = l == leg && hd_leg_say(leg, text, NULL);
    }
    hd_net_lane_leave(lane);
    return any;
}

bool hd_net_leg_awaits(const hd_net_team_t *team, const hd_leg_t *leg, hd_text_t *text) {
    bool any = false;
    for (uint32_t l = 0; l < team->lanes && !any; l++) {
        any = find_and_say(&team->net->lane[l], leg, text);
    }
    return any;
}

bool hd_net_swap_awaits(const hd_net_team_t *team, uint64_t k, hd_text_t *text) {
    return hd_swap_say(team, k, text, NULL);
}

void hd_net_print_plans(const hd_config_t *config, uint32_t n, FILE *out) {
    static const size_t size[] = {8, 1024, 8192, 16384, 65536, 262144, 1048576, 16777216};
    enum { SIZES = sizeof(size) / sizeof(size[0]) };
    uint8_t choice[HD_NET_FAMILIES];
    hd_net_read_choices(choice, config);
    size_t swaps_to = hd_net_swap_most(n), most = hd_config_uint(config, HD_CFG_LIB_NET_SWAP_MAX);
    swaps_to = swaps_to < most ? swaps_to : most;
    uint32_t swaps = n <= HD_SWAP_PROCESSES && most ? hd_net_swap_types(choice) : 0;
    fprintf(
        out,
        "plans across %u processes, by the bytes of the whole (bcast, reductions), or of what one "
        "process has for another or for all; radix of trees and exchanges\n%-16s",
        n, "");
    for (size_t i = 0; i < SIZES; i++) {
        fprintf(out, "%19zu", size[i]);
    }
    for (uint8_t type = 0; type < HD_N_TYPES; type++) {
        fprintf(out, "\n%-16s", hd_type_name(type));
        for (size_t i = 0; i < SIZES; i++) {
            hd_net_call_t call = {.type = type, .n = n, .count = size[i], .element = 1};
            /* scans take all operands to all */
            call.type = hd_coll[type].prefix ? HD_ALLGATHER : type;
            hd_net_plan_t plan =
                hd_net_plan_with(choice, &call, hd_coll[call.type].vector ? 0 : size[i]);
            bool has_radix = plan.algorithm == HD_NET_TREE || plan.algorithm == HD_NET_EXCHANGE ||
                             plan.algorithm == HD_NET_DISSEMINATION;
            char text[32];
            snprintf(text, sizeof(text), has_radix ? "%s/%u" : "%s", hd_net_plan_name(&plan),
                     plan.radix);
            bool swap = swaps >> type & 1 && (size[i] <= swaps_to || !hd_coll[type].moves_data);
            fprintf(out, "%19s", swap ? "swap" : text);
        }
    }
    fputs("\n\n", out);
}
