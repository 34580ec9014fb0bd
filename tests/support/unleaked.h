/* unleaked.h: included by a program whose forked processes are not searched for leaks.
 *
 * LeakSanitizer looks at the threads that the parent had (Criterion's), which are not there in the
 * child: it says that they were not suspended, and, where glibc has given their stacks back
 * meanwhile, crashes. What belongs to devices, the emulator counts.
 */
#ifndef TESTS_UNLEAKED_H_
#define TESTS_UNLEAKED_H_

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);

const char *__asan_default_options(void) {
    return "detect_leaks=0";
}
#endif

#endif
