/* families.c: the one place that names all families of algorithms. A leg gets the row of its call's
 * type when it is started (start.c), and goes on by the row's step; plan.c asks a row how much
 * scratch memory its algorithms need.
 */
#include "net/internal.h"

const hd_net_family_row_t hd_net_families[HD_NET_FAMILIES + 1] = {
    [HD_NET_OF_BARRIER] = {hd_net_barrier, NULL},
    [HD_NET_OF_BCAST] = {hd_net_bcast, hd_net_bcast_scratch},
    [HD_NET_OF_ALLGATHER] = {hd_net_allgather, hd_net_allgather_scratch},
    [HD_NET_OF_ALLTOALL] = {hd_net_alltoall, NULL},
    [HD_NET_OF_GATHER] = {hd_net_gather, hd_net_gather_scratch},
    [HD_NET_OF_SCATTER] = {hd_net_scatter, hd_net_scatter_scratch},
    [HD_NET_OF_ALLREDUCE] = {hd_net_allreduce, hd_net_allreduce_scratch},
    [HD_NET_OF_REDUCE] = {hd_net_reduce, hd_net_reduce_scratch},
    [HD_NET_OF_REDUCE_SCATTER] = {hd_net_reduce_scatter, hd_net_reduce_scatter_scratch},
    [HD_NET_OF_NONE] = {NULL, NULL}, /* leg.c refuses it */
};
