// heap.cpp: a call on host memory allocates its request, and nothing else.
#include "allocations.hpp"

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
    EXPECT(count(times, [&] {
               ccl::group_start();
               ccl::barrier(comm);
               ccl::allreduce(x, y, 8, sum, comm);
               ccl::group_end();
           }) == 2 * times);
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
