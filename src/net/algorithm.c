/* algorithm.c: the words for algorithms, and which family of algorithms each type of collective is
 * of. Constant tables; anybody may ask.
 */
#include "net/internal.h"

#include <string.h>

const uint8_t hd_net_family_of[HD_N_TYPES] = {[HD_BARRIER] = HD_NET_OF_BARRIER,
                                              [HD_FANIN] = HD_NET_OF_BARRIER,
                                              [HD_FANOUT] = HD_NET_OF_BARRIER,
                                              [HD_BCAST] = HD_NET_OF_BCAST,
                                              [HD_MCAST] = HD_NET_OF_BCAST,
                                              [HD_ALLGATHER] = HD_NET_OF_ALLGATHER,
                                              [HD_ALLGATHERV] = HD_NET_OF_ALLGATHER,
                                              [HD_ALLTOALL] = HD_NET_OF_ALLTOALL,
                                              [HD_ALLTOALLV] = HD_NET_OF_ALLTOALL,
                                              [HD_GATHER] = HD_NET_OF_GATHER,
                                              [HD_GATHERV] = HD_NET_OF_GATHER,
                                              [HD_SCATTER] = HD_NET_OF_SCATTER,
                                              [HD_SCATTERV] = HD_NET_OF_SCATTER,
                                              [HD_ALLREDUCE] = HD_NET_OF_ALLREDUCE,
                                              [HD_REDUCE] = HD_NET_OF_REDUCE,
                                              [HD_REDUCE_SCATTER] = HD_NET_OF_REDUCE_SCATTER,
                                              [HD_REDUCE_SCATTERV] = HD_NET_OF_REDUCE_SCATTER,
                                              [HD_SCAN] = HD_NET_OF_NONE,
                                              [HD_EXSCAN] = HD_NET_OF_NONE};

/* The word for people, and the configuration's. */
static const struct {
    const char *name, *word;
} words[] = {[HD_NET_NOTHING] = {"-", ""},
             [HD_NET_DIRECT] = {"direct", "direct"},
             [HD_NET_DISSEMINATION] = {"dissemination", "dissemination"},
             [HD_NET_TREE] = {"tree", "tree"},
             [HD_NET_CHAIN] = {"chain", "chain"},
             [HD_NET_SCATTER_ALLGATHER] = {"scatter+allgather", "scatter_allgather"},
             [HD_NET_BRUCK] = {"bruck", "bruck"},
             [HD_NET_RING] = {"ring", "ring"},
             [HD_NET_PAIRWISE] = {"pairwise", "pairwise"},
             [HD_NET_EXCHANGE] = {"exchange", "exchange"},
             [HD_NET_REDUCE_ALLGATHER] = {"reduce+allgather", "reduce_allgather"}};

const char *hd_net_plan_name(const hd_net_plan_t *plan) {
    return words[plan->algorithm].name;
}

uint32_t hd_net_plan_radix(const hd_net_plan_t *plan) {
    bool has = plan->algorithm == HD_NET_TREE || plan->algorithm == HD_NET_EXCHANGE ||
               plan->algorithm == HD_NET_DISSEMINATION;
    return has ? plan->radix : 0;
}

hd_net_algorithm_t hd_net_algorithm_named(const char *word) {
    size_t a = sizeof(words) / sizeof(words[0]) - 1;
    while (a > HD_NET_NOTHING && strcmp(word, words[a].word) != 0) {
        a--;
    }
    return (hd_net_algorithm_t)a;
}
