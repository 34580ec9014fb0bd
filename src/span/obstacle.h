/* obstacle.h: why two processes of a team share no memory, for people: written where it is decided
 * (form/roll.c, form/span.c), and kept with the team's crossing.
 */
#ifndef HD_SPAN_OBSTACLE_H
#define HD_SPAN_OBSTACLE_H

#include "node/node.h"
#include "threads/stall.h"

typedef enum hd_obstacle_kind {
    HD_OBSTACLE_NONE = 0,  /* they share memory */
    HD_OBSTACLE_UNWANTED,  /* one of them has NODE=n */
    HD_OBSTACLE_HOST,      /* they live on different hosts */
    HD_OBSTACLE_DEBUG,     /* DEBUG_NODES says so */
    HD_OBSTACLE_CONTEXTS,  /* contexts of several hosts share none */
    HD_OBSTACLE_PLACEMENT, /* REPRODUCIBLE=placement, on several hosts */
    HD_OBSTACLE_DOOR,      /* process `by` could not open its door */
    HD_OBSTACLE_MEMORY,    /* process `by` could not get the memory: `whom` was in this state */
    HD_OBSTACLE_MANY,      /* they are too many */
    HD_OBSTACLE_OTHERS,    /* members of a team made this one, and another process could not */
    HD_OBSTACLE_PARENT     /* they share some, but the team is made of one that uses the network */
} hd_obstacle_kind_t;

typedef struct hd_obstacle {
    uint8_t kind;
    uint8_t state;     /* hd_node_state_t */
    uint32_t by, whom; /* processes of the team, or of that whose memory it would have been */
} hd_obstacle_t;

/* "they live on different hosts" */
void hd_obstacle_say(const hd_obstacle_t *obstacle, hd_text_t *text);

#endif
