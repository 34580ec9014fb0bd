/* exchange.h: an allgather among the processes of the job, for Heddle. */
#ifndef SHMEM_EXCHANGE_H_
#define SHMEM_EXCHANGE_H_

#include <heddle/heddle.h>

void exchange_begin(ucc_oob_coll_t *oob);

#endif
