/* obstacle.c: see obstacle.h. */
#include "span/obstacle.h"

void hd_obstacle_say(const hd_obstacle_t *o, hd_text_t *text) {
    static const char *const why[] = {
        [HD_OBSTACLE_NONE] = "they share memory",
        [HD_OBSTACLE_UNWANTED] = "NODE is n in one of them",
        [HD_OBSTACLE_HOST] =
            "they are on different hosts, or in containers with other networks or names",
        [HD_OBSTACLE_DEBUG] = "they count as different hosts (DEBUG_NODES)",
        [HD_OBSTACLE_CONTEXTS] = "the team is made of contexts of several hosts",
        [HD_OBSTACLE_PLACEMENT] = "REPRODUCIBLE=placement, and the team has several hosts",
        [HD_OBSTACLE_MANY] = "so many processes can't share memory",
        [HD_OBSTACLE_OTHERS] = "one of them could not, when members of another team made this one",
        [HD_OBSTACLE_PARENT] = "the team is made of members of one that uses the network",
    };
    switch ((hd_obstacle_kind_t)o->kind) {
    case HD_OBSTACLE_DOOR:
        hd_text_add(text, "process %u could open no socket for others of its host", o->by);
        break;
    case HD_OBSTACLE_MEMORY:
        hd_text_add(text, "process %u could not get the memory: ", o->by);
        if (o->state == HD_NODE_NO_MEMORY) {
            hd_text_add(text, "there was none");
        } else if (o->state == HD_NODE_PENDING) {
            hd_text_add(text, "process %u did not answer", o->whom);
        } else {
            hd_text_add(text, "process %u %s", o->whom,
                        hd_node_describe((hd_node_state_t)o->state));
        }
        break;
    default:
        hd_text_add(text, "%s", why[o->kind]);
        break;
    }
}
