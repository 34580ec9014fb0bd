/* fake_ucx.h: a network without UCX.
 *
 * fake_ucx.c stands in for src/net/ucx.c: a message that a target puts in comes to the lane at its
 * next progress; what the lane sends, or receives of a rendezvous, ends when and how the target
 * says. Whatever the library does wrong with it ends the program: a rendezvous that is ended twice,
 * or never, a receive that has not the bytes of its message.
 */
#ifndef TESTS_FUZZ_FAKE_UCX_H_
#define TESTS_FUZZ_FAKE_UCX_H_

#include "net/ucx.h"

/* Comes at the next progress. data: of a message that is not a rendezvous; a copy is taken of all.
 */
void fake_ucx_put(const void *header, size_t header_bytes, const void *data, size_t bytes,
                  bool rendezvous);
/* What becomes of sends and receives: a status, or UCC_INPROGRESS: until fake_ucx_end. */
void fake_ucx_decide(ucc_status_t status);
/* Ends one request that is under way, if there is any: the i-th, modulo their number. False: there
 * is none. */
bool fake_ucx_end(uint32_t i, ucc_status_t status);
/* Rendezvous that the library has kept, and has neither received nor released. */
uint32_t fake_ucx_kept(void);

/* Peers that were lost in an earlier input are there again, and no team and no news are remembered.
 */
void fake_ucx_renew(hd_net_t *net);

#endif
