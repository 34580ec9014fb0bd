/* xpmem.h: the whole memory of this process for others of its node, and theirs for it, by XPMEM: a
 * module of the kernel (/dev/xpmem) and a library, which is loaded if both are there. Without
 * them, what is said here can't be had, and nothing else is different.
 *
 * Addresses of a process are cut into BLOCKS, aligned and far larger than what is in them, so that
 * a process has a few. A block has a name: what XPMEM calls the process's memory (a segid), and
 * the block's number with random bits of the process's. Whoever attaches it finds each page when
 * it first touches that, as the owner has it mapped then: also if the owner maps others there
 * later, since the module drops a page for all when its owner unmaps it (MMU notifiers). Where the
 * owner has nothing, where it has memory that the kernel does not let others have, and once it has
 * ended, a touch is a SIGBUS: core/fault.h.
 *
 * In the child of a fork, what was attached is not there, and its own memory has another name.
 */
#ifndef HD_NODE_XPMEM_H
#define HD_NODE_XPMEM_H

#include <stddef.h>
#include <stdint.h>

enum { HD_XPMEM_SHIFT = 36 }; /* bits of an address in its block */

/* Makes this process's memory attachable, once, for as long as it lives. Returns NULL, or why it
 * can't be, for people; a constant. */
const char *hd_xpmem_open(void);

static inline uint64_t hd_xpmem_block(uint64_t address) {
    return address >> HD_XPMEM_SHIFT;
}
/* Bytes that can be attached of that block. 0: no memory is there. */
size_t hd_xpmem_bytes(uint64_t block);
/* Of a block of this process, which is open. */
void hd_xpmem_name(uint64_t block, uint64_t name[2]);

/* One that is attached here. */
typedef struct hd_xpmem {
    uint8_t *base;
    int64_t permit;
} hd_xpmem_t;

/* Attaches so many bytes of the block of that name. Returns NULL, or why it can't be had; a
 * constant. */
const char *hd_xpmem_attach(const uint64_t name[2], size_t bytes, hd_xpmem_t *xpmem);
void hd_xpmem_detach(const hd_xpmem_t *xpmem);

#ifdef HD_TEST
/* What is loaded, and which file must be there, before the first call. */
extern const char *hd_xpmem_library, *hd_xpmem_device;
#endif

#endif
