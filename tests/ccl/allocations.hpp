// allocations.hpp: allocators of our own in front of the C library's, which count. For one source file of a program.
#ifndef TESTS_CCL_ALLOCATIONS_HPP_
#define TESTS_CCL_ALLOCATIONS_HPP_

#include "support.hpp"

#include <link.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> blocks{0};

// The code of a library whose blocks are not counted; all of it from before counting on.
struct code {
    const void *of;
    std::uintptr_t from, to;
};
code excluded = {};

int look_at(dl_phdr_info *info, std::size_t, void *data) {
    auto *wanted = static_cast<code *>(data);
    auto address = reinterpret_cast<std::uintptr_t>(wanted->of);
    std::uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            std::uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            from = std::min(from, begin);
            to = std::max(to, begin + info->dlpi_phdr[i].p_memsz);
        }
    }
    if (address < from || address >= to) {
        return 0;
    }
    wanted->from = from;
    wanted->to = to;
    return 1;
}

// What the shared library with this function allocates is not counted. True: there is one.
[[maybe_unused]] bool exclude_library_of(const void *function) {
    excluded.of = function;
    return dl_iterate_phdr(look_at, &excluded) == 1;
}

void note(const void *caller) {
    auto at = reinterpret_cast<std::uintptr_t>(caller);
    // relaxed: read after the threads that are counted have done all of it
    if (counting.load(std::memory_order_relaxed) && (at < excluded.from || at >= excluded.to)) {
        blocks.fetch_add(1, std::memory_order_relaxed);
    }
}

} // namespace

#ifndef SANITIZED
extern "C" {
void *__libc_malloc(std::size_t bytes);
void *__libc_calloc(std::size_t n, std::size_t bytes);
void *__libc_realloc(void *old, std::size_t bytes);

void *malloc(std::size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}
void *calloc(std::size_t n, std::size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, std::size_t bytes) {
    note(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}
}
#endif

#endif
