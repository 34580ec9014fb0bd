/* ucx_losses.h: included by a program whose connections by UCX fail: what UCX loses then is no leak
 * of ours.
 *
 * UCX 1.13 loses four of its own allocations when it connects to a process that has closed
 * meanwhile. Some of their stacks are known no further than to its allocator; so nothing that it
 * has allocated is looked for in such a program.
 */
#ifndef TESTS_UCX_LOSSES_H_
#define TESTS_UCX_LOSSES_H_

const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void) {
    return "leak:libuct.so\nleak:^ucs_malloc$\nleak:^ucs_calloc$\n";
}

#endif
