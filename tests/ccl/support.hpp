// support.hpp: what the tests of <heddle/ccl.hpp> share: expectations that are counted, ranks as threads, a watchdog.
#ifndef TESTS_CCL_SUPPORT_HPP_
#define TESTS_CCL_SUPPORT_HPP_

#include <heddle/ccl.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <unistd.h>

namespace ccl = heddle::ccl;

inline std::atomic<int> errors{0};
inline std::atomic<const char *> phase{""};

inline void expect_at(bool condition, const char *what, const char *file, int line) {
    if (!condition && errors.fetch_add(1) < 20) {
        std::fprintf(stderr, "%s:%d: %s: not true: %s\n", file, line, phase.load(), what);
    }
}
#define EXPECT(...) expect_at((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// The exception's status; UCC_OK: none came, UCC_ERR_LAST: one that is not ccl::exception.
template <class Call> ucc_status_t status_of(Call &&call) {
    try {
        call();
    } catch (const ccl::exception &e) {
        EXPECT(e.what()[0] != 0);
        return e.status();
    } catch (...) {
        return UCC_ERR_LAST;
    }
    return UCC_OK;
}

// Each rank in a thread of its own; what leaves one is an error.
inline void run_ranks(int n, const std::function<void(int rank)> &work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n; rank++) {
        threads.emplace_back([&, rank] {
            try {
                work(rank);
            } catch (const std::exception &e) {
                expect_at(false, e.what(), "a rank", rank);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

// The same with a communicator each.
inline void run_communicators(int n, const std::function<void(ccl::communicator &comm)> &work) {
    auto kvs = ccl::create_main_kvs();
    run_ranks(n, [&](int rank) {
        auto comm = ccl::create_communicator(n, rank, kvs);
        work(comm);
    });
}

// A hang ends the program, and says where.
inline void begin_test(unsigned seconds) {
    const char *slowdown = std::getenv("HEDDLE_TEST_SLOWDOWN");
    double factor = slowdown ? std::atof(slowdown) : 1;
    std::thread([seconds, factor] {
        std::this_thread::sleep_for(
            std::chrono::duration<double>(seconds * (factor > 0 ? factor : 1)));
        std::fprintf(stderr, "hangs: %s\n", phase.load());
        std::abort();
    }).detach();
}

inline void begin_phase(const char *name) {
    phase = name;
}

inline int end_test(const char *name) {
    std::printf("%s: %d errors\n", name, errors.load());
    std::fflush(stdout);
    return errors ? 1 : 0;
}

#endif
