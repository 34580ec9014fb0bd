// first_store.cpp: where the process's stores can't be made, the caller hears of it, and nobody waits for ever.
#include "support.hpp"

#include <new>

namespace {

thread_local bool fails = false;

// What comes of a first store, without memory for what all stores share.
bool is_refused() {
    fails = true;
    try {
        ccl::create_main_kvs();
    } catch (const std::bad_alloc &) {
        fails = false;
        return true;
    }
    fails = false;
    return false;
}

} // namespace

// Without memory for objects of that type alone: what throws is inside of the C library's call.
__attribute__((noinline)) void *operator new(std::size_t bytes) {
    if (fails && bytes == sizeof(ccl::detail::stores)) {
        throw std::bad_alloc();
    }
    if (void *block = std::malloc(bytes)) {
        return block;
    }
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *block) noexcept {
    std::free(block);
}
__attribute__((noinline)) void operator delete(void *block, std::size_t) noexcept {
    std::free(block);
}

int main() {
    begin_test(30);
    begin_phase("no memory for the stores");
    EXPECT(is_refused());
    begin_phase("another try");
    std::thread([] {
        auto kvs = ccl::create_main_kvs();
        EXPECT(ccl::create_communicator(1, 0, kvs).size() == 1);
    }).join();
    return end_test("ccl/first_store");
}
