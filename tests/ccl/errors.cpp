// errors.cpp: what is refused, with which exception, and that nobody hangs or leaks when a rank fails.
#include "support.hpp"

namespace {

void check_arguments() {
    begin_phase("arguments");
    run_communicators(2, [](ccl::communicator &comm) {
        int x[4] = {}, y[4] = {};
        int *none = nullptr;
        auto refused = [](auto call) { return status_of(call) == UCC_ERR_INVALID_PARAM; };
        EXPECT(refused([&] { comm.allreduce(none, y, 1, ccl::reduction::sum); }));
        EXPECT(refused([&] { comm.allreduce(x, none, 1, ccl::reduction::sum); }));
        EXPECT(refused([&] { comm.allreduce(x, y, 1, ccl::reduction::custom); }));
        EXPECT(refused([&] { comm.allreduce(x, y, 1, ccl::reduction::last_value); }));
        EXPECT(refused([&] { comm.allreduce(x, y, SIZE_MAX, ccl::reduction::sum); }));
        EXPECT(refused(
            [&] { comm.allreduce(x, y, 1, ccl::reduction::sum, static_cast<ccl::datatype>(77)); }));
        EXPECT(refused([&] { comm.bcast(none, 1, 0); }));
        EXPECT(refused([&] { comm.bcast(x, 1, 2); }));
        EXPECT(refused([&] { comm.reduce(x, y, 1, ccl::reduction::sum, 2); }));
        EXPECT(refused([&] { comm.alltoall(x, y, SIZE_MAX / 2); }));
        EXPECT(refused([&] { comm.allgatherv(x, 1, y, {1}); }));
        EXPECT(refused([&] { comm.allgatherv(x, 2, y, {1, 1}); }));
        EXPECT(refused([&] { comm.allgatherv(x, 1, y, {1, 1, 1}); }));
        EXPECT(refused([&] { comm.alltoallv(x, {1, 1}, y, {1, 1, 1}); }));
        EXPECT(refused([&] { comm.alltoallv(x, {2, 2}, y, {1, 1}); }));
        EXPECT(refused([&] { comm.alltoallv(x, {SIZE_MAX, 2}, y, {1, 1}); }));
        EXPECT(refused([&] { comm.split(-1, 0); }));
        // Nothing of that was started: the next calls match.
        comm.allreduce(x, y, 4, ccl::reduction::sum)->wait();
        comm.reduce(x, comm.rank() == 1 ? y : none, 1, ccl::reduction::sum, 1)->wait();
        comm.allreduce(none, none, 0, ccl::reduction::sum)->wait();
    });
}

// what() ends with the log's line, at the rank whose thread has found the mistake.
void check_words() {
    begin_phase("words");
    std::atomic<int> told{0};
    run_communicators(2, [&](ccl::communicator &comm) {
        int x[2] = {}, y[2] = {};
        std::string why;
        try {
            comm.allreduce(x, y, 1 + static_cast<std::size_t>(comm.rank()), ccl::reduction::sum)
                ->wait();
        } catch (const ccl::exception &e) {
            why = e.what();
        }
        EXPECT(why.find("invalid parameter") != std::string::npos);
        told += why.find("invalid parameter: allreduce 1: endpoint") != std::string::npos;
        EXPECT(*heddle_last_error() == '\0');
    });
    EXPECT(told >= 1);
}

// A line in the log, of a call that has nothing to do with any communicator.
void make_foreign_line() {
    EXPECT(heddle_barrier(nullptr) == UCC_ERR_INVALID_PARAM);
    EXPECT(std::string(heddle_last_error()).find("not an endpoint") != std::string::npos);
}

template <class Call> std::string words_of(Call &&call) {
    try {
        call();
    } catch (const ccl::exception &e) {
        return e.what();
    }
    return "";
}

// What a call throws has no line that the thread has logged before it.
void check_foreign_words() {
    begin_phase("another call's words");
    auto comms = ccl::create_communicators(2, std::vector<int>{0, 1}, ccl::create_main_kvs());
    auto request = comms[0].barrier(), tested = comms[0].barrier();
    std::thread([&] { // the one that knows why
        (void)heddle_team_abort(heddle_ep_team(comms[1].native()));
    })
        .join();
    auto is_own = [](const std::string &words) {
        return words.find("abort") != std::string::npos &&
               words.find("not an endpoint") == std::string::npos;
    };
    make_foreign_line();
    EXPECT(is_own(words_of([&] { request->wait(); })));
    make_foreign_line();
    EXPECT(is_own(words_of([&] { request->wait(); })));
    make_foreign_line();
    EXPECT(is_own(words_of([&] {
        while (!tested->test()) {
        }
    })));
    make_foreign_line();
    EXPECT(is_own(words_of([&] { comms[0].barrier(); })));
    make_foreign_line();
    EXPECT(is_own(words_of([&] { comms[0].split(0, 0); })));
}

// What is refused before it comes to the library is told with its value.
void check_values() {
    begin_phase("values that are refused");
    auto has = [](const std::string &words, const char *part) {
        return words.find(part) != std::string::npos;
    };
    auto comms = ccl::create_communicators(2, std::vector<int>{0, 1}, ccl::create_main_kvs());
    int x[2] = {}, y[2] = {};
    EXPECT(has(words_of([&] { comms[0].reduce(x, y, 1, ccl::reduction::sum, 7); }),
               "a root that is no rank: 7 of 2"));
    EXPECT(has(words_of([&] {
                   ccl::create_communicators(2, std::vector<int>{0, 5}, ccl::create_main_kvs());
               }),
               "a rank that is not below the size: 5 of 2"));
    EXPECT(has(words_of([&] {
                   ccl::create_communicators(2, std::vector<int>{1, 1}, ccl::create_main_kvs());
               }),
               "two of one rank: 1"));
}

void keep_one(const void *, std::size_t, void *, std::size_t *, ccl::datatype,
              const ccl::fn_context *) {
}

// Elements whose bytes, times ranks and count, are 2^64: no call may take that for nothing.
void check_sizes() {
    begin_phase("elements of huge sizes");
    auto type_of_size = [](std::size_t size) {
        return ccl::register_datatype(
            ccl::create_datatype_attr(ccl::attr_val<ccl::datatype_attr_id::size>(size)));
    };
    EXPECT(status_of([&] { type_of_size(0); }) == UCC_ERR_INVALID_PARAM);
    EXPECT(status_of([&] { type_of_size(std::size_t{1} << 60); }) == UCC_ERR_INVALID_PARAM);
    EXPECT(status_of([&] { type_of_size(SIZE_MAX); }) == UCC_ERR_INVALID_PARAM);
    constexpr std::size_t largest_bytes = ccl::detail::largest_element;
    ccl::datatype largest = type_of_size(largest_bytes);
    ccl::datatype huge = type_of_size(std::size_t{1} << 39);
    auto kvs = ccl::create_main_kvs();
    auto comms = ccl::create_communicators(2, std::vector<int>{0, 1}, kvs);
    const ccl::communicator &comm = comms[0];
    char x = 0, y = 0;
    void *from = &x, *to = &y;
    auto refused = [](auto call) { return status_of(call) == UCC_ERR_INVALID_PARAM; };
    std::size_t many = std::size_t{1} << 24;
    EXPECT(refused([&] { comm.alltoall(from, to, many, huge); }));
    EXPECT(refused([&] { comm.allgather(from, to, many, huge); }));
    EXPECT(refused([&] { comm.allgatherv(from, many, to, {many, many}, huge); }));
    EXPECT(refused([&] { comm.bcast(to, 2 * many, huge, 0); }));
    EXPECT(refused([&] { comm.bcast(to, SIZE_MAX, largest, 0); }));
    ccl::allreduce_attr all;
    ccl::reduce_scatter_attr blocks;
    all.set<ccl::allreduce_attr_id::reduction_fn>(keep_one);
    blocks.set<ccl::reduce_scatter_attr_id::reduction_fn>(keep_one);
    EXPECT(refused([&] { comm.allreduce(from, to, 2 * many, ccl::reduction::custom, huge, all); }));
    for (int rank : {0, 1}) { // the own block's address is beyond all memory
        EXPECT(refused([&] {
            comms[static_cast<std::size_t>(rank)].reduce_scatter(from, to, many, huge,
                                                                 ccl::reduction::custom, blocks);
        }));
        EXPECT(refused([&] {
            comms[static_cast<std::size_t>(rank)].reduce_scatter(
                from, to, SIZE_MAX / largest_bytes, largest, ccl::reduction::custom, blocks);
        }));
    }
    ccl::deregister_datatype(largest);
    ccl::deregister_datatype(huge);
}

// Numbers that no datatype has, the least one included.
void check_datatypes() {
    begin_phase("datatypes that are none");
    for (int number : {INT32_MIN, -1, 3, 1000, INT32_MAX}) {
        auto dtype = static_cast<ccl::datatype>(number);
        EXPECT(status_of([&] { ccl::deregister_datatype(dtype); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(number == 3 ||
               status_of([&] { ccl::get_datatype_size(dtype); }) == UCC_ERR_INVALID_PARAM);
    }
}

void check_creation() {
    begin_phase("creation");
    auto one = [](int size, int rank) {
        auto kvs = ccl::create_main_kvs();
        return status_of([&] { ccl::create_communicator(size, rank, kvs); });
    };
    EXPECT(one(0, 0) == UCC_ERR_INVALID_PARAM);
    EXPECT(one(-1, 0) == UCC_ERR_INVALID_PARAM);
    EXPECT(one(2, 2) == UCC_ERR_INVALID_PARAM);
    EXPECT(one(2, -1) == UCC_ERR_INVALID_PARAM);
    EXPECT(one(1, 0) == UCC_OK);
    EXPECT(status_of([] { ccl::create_communicator(1, 0, nullptr); }) == UCC_ERR_INVALID_PARAM);
    EXPECT(status_of([] {
               ccl::create_communicators(2, std::vector<int>(), ccl::create_main_kvs());
           }) == UCC_ERR_INVALID_PARAM);
    EXPECT(status_of([] {
               ccl::create_communicators(2, {1, 1}, ccl::create_main_kvs());
           }) == UCC_ERR_INVALID_PARAM);
    EXPECT(status_of([] { ccl::create_kvs(ccl::kvs::address_type{}); }) == UCC_ERR_NOT_SUPPORTED);
}

// The last of three makes a mistake, or the first: all of them hear of it, and the store is of no more use.
void check_failing_creation() {
    begin_phase("a rank that fails while a communicator is made");
    for (int mistake = 0; mistake < 3; mistake++) {
        for (bool early : {false, true}) {
            auto kvs = ccl::create_main_kvs();
            std::atomic<int> failed{0};
            run_ranks(3, [&](int rank) {
                bool wrong = rank == 2;
                int size = wrong && mistake == 0 ? 4 : 3;
                int number = !wrong ? rank : mistake == 1 ? 3 : mistake == 2 ? 1 : 2;
                if (wrong != early) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                }
                failed += status_of([&] { ccl::create_communicator(size, number, kvs); }) != UCC_OK;
            });
            EXPECT(failed == 3);
            EXPECT(status_of([&] { ccl::create_communicator(1, 0, kvs); }) == UCC_ERR_NOT_FOUND);
        }
    }
}

// What is logged meanwhile: on stderr, which is a file for that long.
std::string logged(const std::function<void()> &work) {
    std::FILE *file = std::tmpfile();
    int before = dup(STDERR_FILENO);
    EXPECT(file && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
    work();
    dup2(before, STDERR_FILENO);
    close(before);
    std::string text;
    std::rewind(file);
    for (int c; (c = std::fgetc(file)) != EOF;) {
        text += static_cast<char>(c);
    }
    std::fclose(file);
    return text;
}

// A rank that never comes, and a value that nobody sets: the wait is logged, and ends.
void check_long_waits() {
    begin_phase("waits in vain");
    setenv("HEDDLE_STALL", "0.02", 1);
    setenv("HEDDLE_TIMEOUT", "1", 1); // both ranks must have come, and waited, before it is over
    auto kvs = ccl::create_main_kvs();
    std::atomic<int> timed_out{0}, failed{0};
    std::string text = logged([&] {
        run_ranks(2, [&](int rank) {
            ucc_status_t status = status_of([&] { ccl::create_communicator(3, rank, kvs); });
            timed_out += status == UCC_ERR_TIMED_OUT;
            failed += status == UCC_ERR_NOT_FOUND; // since another one has timed out
        });
    });
    EXPECT(timed_out >= 1 && timed_out + failed == 2);
    EXPECT(text.find("stall: create_communicators of 3: rank ") != std::string::npos);
    EXPECT(text.find(" s for rank 2") != std::string::npos);
    EXPECT(text.find("time-out: create_communicators of 3: rank ") != std::string::npos);
    text = logged([&] { EXPECT(status_of([&] { kvs->get("never set"); }) == UCC_ERR_TIMED_OUT); });
    EXPECT(text.find("stall: get of a store has waited") != std::string::npos);
    EXPECT(text.find("for the value of 'never set'") != std::string::npos);
    unsetenv("HEDDLE_STALL");
    unsetenv("HEDDLE_TIMEOUT");
    kvs->set("never set", {'x'});
    EXPECT(kvs->get("never set").size() == 1);
}

void check_moved() {
    begin_phase("use after move");
    auto comm = ccl::create_communicator(1, 0, ccl::create_main_kvs());
    int x = 3;
    {
        auto other = std::move(comm);
        EXPECT(status_of([&] { comm.rank(); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([&] { comm.barrier(); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([&] { comm.bcast(&x, 1, 0); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([&] { comm.split(0, 0); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(other.size() == 1);
        comm = std::move(other);
    }
    EXPECT(comm.size() == 1);
}

void check_requests() {
    begin_phase("wait twice, cancel, requests that outlive their communicator");
    run_communicators(2, [](ccl::communicator &comm) {
        ccl::barrier_attr_t attr;
        attr.set<ccl::operation_attr_id::match_id>("held");
        auto request = comm.rank() == 0 ? comm.barrier(attr) : nullptr;
        if (request) {
            EXPECT(!request->test());
            EXPECT(!request->cancel());
        }
        comm.barrier()->wait();
        if (!request) {
            request = comm.barrier(attr);
        }
        request->wait();
        request->wait();
        EXPECT(request->test());
        EXPECT(!request->cancel());
    });
    auto kvs = ccl::create_main_kvs();
    run_ranks(2, [&](int rank) {
        ccl::request_t request;
        {
            auto comm = ccl::create_communicator(2, rank, kvs);
            request = comm.barrier();
        }
        request->wait();
    });
    run_communicators(2, [](ccl::communicator &comm) {
        int x[1000] = {}, y[1000];
        comm.allreduce(x, y, 1000, ccl::reduction::sum); // waits for its end
        EXPECT(y[999] == 0);
    });
}

// A rank that leaves: the others' calls fail. A rank whose call an exception ends: the others' end with that.
void check_failing_ranks() {
    begin_phase("a rank that leaves");
    auto kvs = ccl::create_main_kvs();
    run_ranks(3, [&](int rank) {
        auto comm = ccl::create_communicator(3, rank, kvs);
        comm.barrier()->wait();
        if (rank == 1) {
            return;
        }
        ccl::request_t request; // none, if it was known by then that rank 1 has left
        auto call = [&] {
            request = comm.barrier();
            request->wait();
        };
        EXPECT(status_of(call) == UCC_ERR_NOT_FOUND);
        EXPECT(!request || status_of([&] { request->wait(); }) == UCC_ERR_NOT_FOUND);
        EXPECT(status_of(call) == UCC_ERR_NOT_FOUND);
    });
    begin_phase("a rank that throws");
    run_communicators(3, [](ccl::communicator &comm) {
        int x = 1, y = 0;
        ccl::allreduce_attr_t attr;
        attr.set<ccl::operation_attr_id::match_id>("never matched");
        if (comm.rank() == 1) {
            try {
                auto request = comm.allreduce(&x, &y, 1, ccl::reduction::sum, attr);
                throw 1;
            } catch (int) {
            }
        } else {
            EXPECT(status_of([&] { comm.barrier()->wait(); }) == HEDDLE_ERR_ABORTED);
        }
        EXPECT(status_of([&] { comm.barrier()->wait(); }) == HEDDLE_ERR_ABORTED);
    });
}

// Rank 1 comes late, so that rank 0's requests are destroyed before they are complete.
struct barriers_at_end {
    ~barriers_at_end() {
        if (comm.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        EXPECT(status_of([&] {
                   comm.barrier();
                   comm.barrier()->wait();
               }) == UCC_OK);
    }
    ccl::communicator &comm;
};

void check_unwinding() {
    begin_phase("requests made and destroyed by a destructor, while an exception is under way");
    run_communicators(2, [](ccl::communicator &comm) {
        try {
            barriers_at_end end{comm};
            throw 1;
        } catch (int) {
        }
    });
}

// What must agree does not: an exception at every rank that waits.
void check_mismatch() {
    begin_phase("arguments that do not agree");
    run_communicators(2, [](ccl::communicator &comm) {
        int x[2] = {}, y[2];
        std::size_t count = comm.rank() == 0 ? 1 : 2;
        EXPECT(status_of([&] { comm.allreduce(x, y, count, ccl::reduction::sum)->wait(); }) ==
               UCC_ERR_INVALID_PARAM);
    });
}

} // namespace

int main() {
    begin_test(120);
    check_arguments();
    check_words();
    check_foreign_words();
    check_values();
    check_sizes();
    check_datatypes();
    check_creation();
    check_failing_creation();
    check_long_waits();
    check_moved();
    check_requests();
    check_failing_ranks();
    check_unwinding();
    check_mismatch();
    return end_test("ccl/errors");
}
