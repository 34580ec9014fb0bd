/*
 * What ThreadSanitizer of a user's program is told, by a library that was built without it; and
 * what AddressSanitizer may look at.
 *
 * Such a library's stores and loads are invisible to it, and so is the order that a collective
 * makes among its callers: everything that is separated by a barrier would be reported as a race.
 * Where the sanitizer's runtime is in the process (its symbols are weak here), we say so:
 *
 *     post        release(group)     what this thread did before it posted ...
 *     completion  acquire(group)     ... comes before what another does after it has completed
 *                 release(request)   ... and a third that finds it complete
 *     a user's    acquire(callbacks)
 *     callback    release(callbacks) the library calls these in turn, on any thread
 *
 * and take no part otherwise: the library's memcpy, which the sanitizer would intercept, becomes
 * the C library's own (copies between users' buffers are the collective's business, not the
 * caller's).
 *
 * In a process without the sanitizer nothing of this costs anything: the hooks stand where those of
 * the trace do, behind its switch, which also turns off the express. A library that is itself built
 * with the sanitizer needs none of it, but for the order that is made in assembly, which the
 * sanitizer does not look into: of that it is told by the last two functions, which are nothing in
 * any other build.
 */
#ifndef HD_CORE_SANITIZER_H
#define HD_CORE_SANITIZER_H

#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#define HD_BUILT_FOR_TSAN 1
#elif defined(__has_feature)
#define HD_BUILT_FOR_TSAN __has_feature(thread_sanitizer)
#else
#define HD_BUILT_FOR_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HD_BUILT_FOR_ASAN 1
#elif defined(__has_feature)
#define HD_BUILT_FOR_ASAN __has_feature(address_sanitizer)
#else
#define HD_BUILT_FOR_ASAN 0
#endif

/* Whether the runtime of ThreadSanitizer is in this process, and this library is built without. Set
 * when the library is loaded. */
extern bool hd_sanitizer_watches;

/* Whether the runtime of AddressSanitizer is in this process, and this library is built without: it
 * checks what memcpy is given then. Set when the library is loaded. */
extern bool hd_sanitizer_checks_copies;

/* Both do nothing where nobody watches. */
void hd_sanitizer_acquire(const void *object);
void hd_sanitizer_release(const void *object);

/* Around every call of a user's reduction, pack or unpack function. */
void hd_sanitizer_enter_callback(void);
void hd_sanitizer_leave_callback(void);

/* The object of all callbacks: posts release it, completions acquire it, beside the group. */
extern const char hd_sanitizer_callbacks;

#if HD_BUILT_FOR_TSAN
void __tsan_acquire(void *object);
void __tsan_release(void *object);
#endif

/* Everything before this comes before whatever follows the other of another thread on this object.
 */
static inline void hd_sanitizer_before_assembly(void *object) {
#if HD_BUILT_FOR_TSAN
    __tsan_release(object);
#else
    (void)object;
#endif
}

static inline void hd_sanitizer_after_assembly(void *object) {
#if HD_BUILT_FOR_TSAN
    __tsan_acquire(object);
#else
    (void)object;
#endif
}

#endif
