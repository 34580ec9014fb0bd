/* sanitizer.c: see sanitizer.h. */
#define _GNU_SOURCE
#include "core/sanitizer.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

bool hd_sanitizer_watches, hd_sanitizer_checks_copies;
const char hd_sanitizer_callbacks = 0;

__attribute__((weak)) void __tsan_acquire(void *object);
__attribute__((weak)) void __tsan_release(void *object);
__attribute__((weak)) void __asan_init(void);

void hd_sanitizer_acquire(const void *object) {
    if (hd_sanitizer_watches) {
        __tsan_acquire((void *)(uintptr_t)object);
    }
}

void hd_sanitizer_release(const void *object) {
    if (hd_sanitizer_watches) {
        __tsan_release((void *)(uintptr_t)object);
    }
}

void hd_sanitizer_enter_callback(void) {
    hd_sanitizer_acquire(&hd_sanitizer_callbacks);
}

void hd_sanitizer_leave_callback(void) {
    hd_sanitizer_release(&hd_sanitizer_callbacks);
}

/* The linker gives the shared library these for memcpy, memmove and memset (--wrap): one jump, as
 * the procedure linkage table has it, through pointers that can be turned away from what is
 * intercepted. */
#ifdef HD_WRAP_COPIES
typedef void *copy_fn_t(void *, const void *, size_t);
typedef void *fill_fn_t(void *, int, size_t);

copy_fn_t __real_memcpy, __real_memmove, __wrap_memcpy, __wrap_memmove;
fill_fn_t __real_memset, __wrap_memset;

static copy_fn_t *copy = __real_memcpy, *move = __real_memmove;
static fill_fn_t *fill = __real_memset;

__attribute__((used)) void *__wrap_memcpy(void *dst, const void *src, size_t bytes) {
    return copy(dst, src, bytes);
}

__attribute__((used)) void *__wrap_memmove(void *dst, const void *src, size_t bytes) {
    return move(dst, src, bytes);
}

__attribute__((used)) void *__wrap_memset(void *dst, int value, size_t bytes) {
    return fill(dst, value, bytes);
}

/* The C library's own, whatever stands before it. */
static void turn_away(void) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (libc) {
        copy = (copy_fn_t *)dlsym(libc, "memcpy");
        move = (copy_fn_t *)dlsym(libc, "memmove");
        fill = (fill_fn_t *)dlsym(libc, "memset");
        dlclose(libc);
    }
}
#else
static void turn_away(void) {
}
#endif

__attribute__((constructor)) static void look(void) {
    if (!HD_BUILT_FOR_TSAN && __tsan_acquire && __tsan_release) {
        hd_sanitizer_watches = true;
        turn_away();
    }
    hd_sanitizer_checks_copies = !HD_BUILT_FOR_ASAN && __asan_init;
}
