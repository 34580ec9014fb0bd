/* ucx_losses.h: what UCX loses, and is no leak of ours, in programs whose processes talk by it.
 *
 * UCX 1.13 loses four of its own allocations when it connects to a process that has closed
 * meanwhile. Some of their stacks are known no further than to its allocator. Weak: whoever uses
 * nodes and processes has it once all the same.
 */
#ifndef TESTS_UCX_LOSSES_H_
#define TESTS_UCX_LOSSES_H_

const char *__lsan_default_suppressions(void);

__attribute__((weak)) const char *__lsan_default_suppressions(void) {
    return "leak:libuct.so\nleak:^ucs_malloc$\nleak:^ucs_calloc$\n";
}

#endif
