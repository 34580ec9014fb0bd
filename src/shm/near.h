/* near.h: the DIRECT regime among members of several processes whose buffers all of them reach,
 * for far.c, which does without where they don't. */
#ifndef HD_SHM_NEAR_H
#define HD_SHM_NEAR_H

#include "shm/far.h"

/* Before publishing, when far->work has my buffers: shows where they are, and opens my slices, if
 * the exchange may be near. UCC_ERR_NO_MEMORY. */
ucc_status_t hd_near_register(hd_op_t *op, hd_far_t *far);
/* All have arrived: is the exchange near? The same at all members. UCC_OK: it is; op's plan is what
 * the engine would do, and hd_near_work is to be its step. UCC_INPROGRESS: it is not. An error: it
 * is, and this process can't take part; the group has failed. */
ucc_status_t hd_near_begins(hd_op_t *op, hd_far_t *far);
ucc_status_t hd_near_work(hd_op_t *op);
#ifdef HD_TEST
/* How often members of this process have found an exchange near. */
extern _Atomic uint64_t hd_near_found;
#endif
/* Who cancels: nobody begins to work on op's buffers any more. False: somebody still does. */
bool hd_near_is_quiet(const hd_op_t *op);

#endif
