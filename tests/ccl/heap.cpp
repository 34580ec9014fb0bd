// heap.cpp: a call on host memory allocates its request, and nothing else: counted by allocators of our own in front of the C
// library's.
#include "support.hpp"

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

void note() {
    // relaxed: read after the thread that counts has done all of it
    if (counting.load(std::memory_order_relaxed)) {
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
    note();
    return __libc_malloc(bytes);
}
void *calloc(std::size_t n, std::size_t bytes) {
    note();
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, std::size_t bytes) {
    note();
    return __libc_realloc(old, bytes);
}
}
#endif

namespace {

// How many blocks `times` calls take, when those before have warmed up.
template <class Call> std::size_t count(std::size_t times, Call &&call) {
    for (std::size_t i = 0; i < 2 * times; i++) {
        call();
    }
    blocks = 0;
    counting = true;
    for (std::size_t i = 0; i < times; i++) {
        call();
    }
    counting = false;
    return blocks;
}

void check_host() {
    constexpr std::size_t times = 500;
    auto comm = ccl::create_communicator(1, 0, ccl::create_main_kvs());
    auto comms = ccl::create_communicators(2, std::vector<int>{0, 1}, ccl::create_main_kvs());
    double x[8] = {}, y[8];
    std::vector<std::size_t> one = {1}, counts = {4, 4};
    std::vector<ccl::event> none;
    ccl::allreduce_attr_t attr;
    attr.set<ccl::operation_attr_id::match_id>(
        "a text that is longer than what a string keeps in itself");
    auto sum = ccl::reduction::sum;
    EXPECT(count(times, [&] { comm.barrier()->wait(); }) == times);
    EXPECT(count(times, [&] { comm.allreduce(x, y, 8, sum)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.allreduce(x, y, 8, sum, attr)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.reduce(x, y, 8, sum, 0)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.reduce_scatter(x, y, 8, sum)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.alltoall(x, y, 8)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.alltoallv(x, one, y, one)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.allgatherv(x, 1, y, one)->wait(); }) == times);
    EXPECT(count(times, [&] { comm.bcast(x, 8, 0)->wait(); }) == times);
    EXPECT(count(times, [&] { ccl::allreduce(x, y, 8, sum, comm, attr, none).wait(); }) == times);
    // Two ranks, whose calls do not complete inside their posts.
    EXPECT(count(times, [&] {
               auto a = comms[0].allgatherv(x, 4, y, counts, ccl::datatype::float64);
               auto b = comms[1].allgatherv(x, 4, y, counts, ccl::datatype::float64);
               a->wait();
               b->wait();
           }) == 2 * times);
}

} // namespace

int main() {
#ifdef SANITIZED
    return 77; // allocators are the sanitizer's
#endif
    begin_test(60);
    check_host();
    return end_test("ccl/heap");
}
