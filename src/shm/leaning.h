/* leaning.h: among members that are apart, data of a middle size are staged, though they would
 * better be DIRECT if all reached all buffers (near.c). Whether they do is known only when all
 * have arrived, and who publishes has to know which way all others go. So all go by what is over:
 *
 *     A member LEANS to near for number k of a board if the last exchange up to k - depth / 2 that
 *     went by far.c was near.
 *
 * All exchanges up to there are over for whoever publishes k (types.h, the window), and were near
 * or not for all members alike: so all lean alike. Now and then, by k, all lean to near without a
 * reason, to find out. On the path MIXED each source decides for itself, by what it saw last.
 */
#ifndef HD_SHM_LEANING_H
#define HD_SHM_LEANING_H

#include "shm/types.h"

/* A member's own: what it has seen of this board's exchanges. */
struct hd_leaning {
    _Atomic bool here;     /* path MIXED: the last one was near */
    _Atomic uint64_t base; /* the last exchange that is in the ring no more: k * 2 + was it near */
    _Atomic uint64_t ring[]; /* likewise, by k & mask; 0: none yet */
};

/* Does op's member lean to near? On boards without numbers, never. */
bool hd_leaning_is_near(const hd_op_t *op);
bool hd_leaning_is_near_here(const hd_op_t *op);
/* Before op is published that goes by far.c; false: no memory. */
bool hd_leaning_prepare(const hd_op_t *op);
/* All have arrived: it is near, or is not. */
void hd_leaning_note(const hd_op_t *op, bool near);
/* NULL, too: numbers begin anew. */
void hd_leaning_reset(hd_leaning_t *leaning, uint32_t depth);

#endif
