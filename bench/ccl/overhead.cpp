// overhead.cpp: what <heddle/ccl.hpp> adds to a call of the C library.
//
// usage: overhead [ranks [rounds]]      (default 1 and 200; ranks are pinned to processors 0, 1, ...)
//
// Small barriers and allreduces of 8 bytes, in C (heddle_i..., heddle_wait, heddle_request_free) and by the communicator (call,
// wait, the request's end), in turn in one run: 1000 calls of one, then 1000 of the other. Prints each way's median of all rounds
// in nanoseconds, and that of the differences within rounds. Under callgrind, the four functions tell their instructions.
#include <heddle/ccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>
#include <thread>

namespace ccl = heddle::ccl;

namespace {

constexpr int calls = 1000;

void must(ucc_status_t status) {
    if (status != UCC_OK) {
        std::fprintf(stderr, "overhead: %s\n", ucc_status_string(status));
        std::exit(1);
    }
}

__attribute__((noinline)) void barrier_c(const ccl::communicator &comm) {
    for (int i = 0; i < calls; i++) {
        ucc_coll_req_h request;
        must(heddle_ibarrier(comm.native(), &request));
        must(heddle_wait(request, -1));
        must(heddle_request_free(&request));
    }
}

__attribute__((noinline)) void barrier_ccl(const ccl::communicator &comm) {
    for (int i = 0; i < calls; i++) {
        comm.barrier()->wait();
    }
}

__attribute__((noinline)) void allreduce_c(const ccl::communicator &comm) {
    double x = 1, sum;
    for (int i = 0; i < calls; i++) {
        ucc_coll_req_h request;
        must(heddle_iallreduce(comm.native(), &x, &sum, 1, UCC_DT_FLOAT64, UCC_OP_SUM, &request));
        must(heddle_wait(request, -1));
        must(heddle_request_free(&request));
    }
}

__attribute__((noinline)) void allreduce_ccl(const ccl::communicator &comm) {
    double x = 1, sum;
    for (int i = 0; i < calls; i++) {
        comm.allreduce(&x, &sum, 1, ccl::reduction::sum)->wait();
    }
}

double time_of(void (*what)(const ccl::communicator &), const ccl::communicator &comm) {
    must(heddle_barrier(comm.native()));
    auto begin = std::chrono::steady_clock::now();
    what(comm);
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / calls;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

void compare(const char *name, void (*in_c)(const ccl::communicator &),
             void (*by_ccl)(const ccl::communicator &), const ccl::communicator &comm, int rounds) {
    std::vector<double> c, cpp, difference;
    for (int round = 0; round < rounds + 10; round++) {
        bool first = round % 2 == 0; // who begins
        double one = first ? time_of(in_c, comm) : 0, two = time_of(by_ccl, comm);
        one = first ? one : time_of(in_c, comm);
        if (round >= 10) {
            c.push_back(one);
            cpp.push_back(two);
            difference.push_back(two - one);
        }
    }
    if (comm.rank() == 0) {
        std::printf("%-10s ranks %d   C %7.1f ns   ccl %7.1f ns   difference %6.1f ns\n", name,
                    comm.size(), median(c), median(cpp), median(difference));
    }
}

void pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(processor), &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

} // namespace

int main(int argc, char **argv) {
    int ranks = argc > 1 ? std::atoi(argv[1]) : 1, rounds = argc > 2 ? std::atoi(argv[2]) : 200;
    auto kvs = ccl::create_main_kvs();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) {
        threads.emplace_back([&, rank] {
            pin(rank);
            auto comm = ccl::create_communicator(ranks, rank, kvs);
            compare("barrier", barrier_c, barrier_ccl, comm, rounds);
            compare("allreduce", allreduce_c, allreduce_ccl, comm, rounds);
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    return 0;
}
