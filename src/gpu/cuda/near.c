/* near.c: pinned memory lies at the NUMA node of the device that it is for.
 *
 * The driver takes the pages within cuMemHostAlloc, in the calling thread, so that thread's memory
 * policy decides where they lie. Pages bound by mbind and registered (cuMemHostRegister) would lie
 * there as well, but need not have the same address on all devices, which blocks promise. Who has
 * set a policy, by numactl say, has decided where memory lies; and where policies are forbidden, as
 * in some containers, it lies where it would have lain.
 */
#define _GNU_SOURCE
#include "gpu/cuda/cuda.h"

#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/mempolicy.h. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1 };

enum { NODES = 1024, LONG_BITS = 8 * sizeof(unsigned long) };

void hd_cuda_near(const hd_cuda_device_t *d, bool *changed) {
    unsigned long nodes[NODES / LONG_BITS] = {0};
    int policy = -1;
    *changed = false;
    if (d->node < 0 || d->node >= NODES ||
        syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) != 0 || policy != POLICY_DEFAULT) {
        return;
    }
    nodes[(size_t)d->node / LONG_BITS] |= 1ul << ((size_t)d->node % LONG_BITS);
    *changed = syscall(SYS_set_mempolicy, POLICY_PREFERRED, nodes, (unsigned long)NODES) == 0;
}

void hd_cuda_near_end(bool changed) {
    if (changed) {
        (void)syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0ul);
    }
}
