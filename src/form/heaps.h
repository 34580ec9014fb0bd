/* heaps.h: heaps of a team's other processes, on their way to this one. What the team's members
 * want (shm/reach.h) is fetched over the node's connections and mapped, by the thread that watches
 * them (kin.c), while whoever wanted it goes on without. */
#ifndef HD_FORM_HEAPS_H
#define HD_FORM_HEAPS_H

#include "node/node.h"
#include "shm/reach.h"

typedef struct hd_heap_fetch hd_heap_fetch_t;

typedef struct hd_heap_fetches {
    hd_heap_fetch_t *list; /* under way */
} hd_heap_fetches_t;

/* Where process p of the team is; NULL: there is none. */
typedef const hd_node_address_t *(*hd_heap_owner_fn)(void *arg, uint32_t p);

/* Asks for what is newly wanted, and maps what has come. Never blocks. True: some are under way. */
bool hd_heaps_fetch(hd_heap_fetches_t *fetches, hd_reach_t *reach, hd_node_t *node,
                    hd_heap_owner_fn owner, void *arg);
/* Nobody wants anything any more. */
void hd_heaps_end(hd_heap_fetches_t *fetches);

#endif
