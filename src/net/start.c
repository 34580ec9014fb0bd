/* start.c: a leg comes to its lane. hd_leg_start, which any thread calls, finds the row of the
 * leg's family and hands the leg to its lane as an item; whoever turns the lane next takes the leg
 * in, and messages find it from then on.
 */
#include "net/internal.h"

static void take_leg(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_leg_t *leg = (hd_leg_t *)(void *)((char *)item - offsetof(hd_leg_t, item));
    leg->next = NULL;
    *lane->last = leg;
    lane->last = &leg->next;
    if (hd_trace_is_on()) {
        hd_trace_leg(leg, hd_type_name(leg->call.type), hd_net_plan_name(&leg->plan),
                     leg->key.number, leg->segment, lane->number);
    }
    hd_net_match_open(leg);
}

void hd_leg_start(hd_leg_t *leg) {
    hd_net_team_t *team = leg->team;
    leg->lane = leg->segment % team->lanes;
    leg->family = &hd_net_families[hd_net_family_of[leg->call.type]];
    leg->item.take = take_leg;
    hd_net_lane_hand(&team->net->lane[leg->lane], &leg->item);
}
