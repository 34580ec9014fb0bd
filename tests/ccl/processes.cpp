// processes.cpp: communicators whose ranks are threads of two processes: every type, overload and order; ranks in a row and in
// turn; several ranks of one thread; several communicators of one store; a rank that is nowhere.
//
// The program starts itself a second time, with the store's address as an argument.
#include "cases.hpp"
#include "second.hpp"

namespace {

thread_local bool subset_fails = false;

extern "C" {
ucc_status_t __real_heddle_subset(heddle_ep_t *ep, const std::uint32_t *list, std::uint32_t n,
                                  heddle_ep_t **sub);
// The library's, but for a thread where it fails: the program is linked that way.
ucc_status_t __wrap_heddle_subset(heddle_ep_t *ep, const std::uint32_t *list, std::uint32_t n,
                                  heddle_ep_t **sub) {
    return subset_fails ? UCC_ERR_NO_MEMORY : __real_heddle_subset(ep, list, n, sub);
}
}

using kvs_t = std::shared_ptr<ccl::kvs>;
using rank_list = std::vector<int>;

// A thread for each rank of this process.
void run_mine(const rank_list &mine, int size, const kvs_t &kvs,
              const std::function<void(ccl::communicator &comm)> &work) {
    run_ranks(static_cast<int>(mine.size()), [&](int i) {
        int rank = mine[static_cast<std::size_t>(i)];
        auto comm = ccl::create_communicator(size, rank, ccl::create_kvs(kvs->get_address()));
        EXPECT(comm.rank() == rank && comm.size() == size);
        work(comm);
    });
}

// The last step of one rank fails, in a process whose ranks are not in a row: all ranks hear of it.
void check_late_failure(int process, const kvs_t &kvs) {
    begin_phase("a rank that can't join");
    rank_list mine = process ? rank_list{1, 3} : rank_list{0, 2};
    run_ranks(2, [&](int i) {
        int rank = mine[static_cast<std::size_t>(i)];
        subset_fails = rank == 3;
        ucc_status_t status = status_of([&] {
            auto comm = ccl::create_communicator(4, rank, kvs);
            comm.barrier()->wait();
        });
        EXPECT(status == (rank == 3 ? UCC_ERR_NO_MEMORY : UCC_ERR_NOT_FOUND));
    });
    EXPECT(status_of([&] { ccl::create_communicator(4, mine[0], kvs); }) == UCC_ERR_NOT_FOUND);
}

void check_process(int process, const kvs_t &kvs) {
    begin_phase("two processes of two ranks, in a row");
    run_mine(process ? rank_list{2, 3} : rank_list{0, 1}, 4, kvs, [](ccl::communicator &comm) {
        host_side side{comm};
        run_types(side, 6);
        run_type<float>(side, 3000);
    });
    begin_phase("in turn");
    run_mine(process ? rank_list{1, 3} : rank_list{0, 2}, 4, kvs, [](ccl::communicator &comm) {
        host_side side{comm};
        run_type<std::int32_t>(side, 6);
        run_type<double>(side, 500);
        auto half = comm.split(comm.rank() / 2, comm.rank());
        EXPECT(half.size() == 2 && half.rank() == comm.rank() % 2);
        int mine = 1 + comm.rank(), sum = 0;
        half.allreduce(&mine, &sum, 1, ccl::reduction::sum)->wait();
        EXPECT(sum == (comm.rank() < 2 ? 3 : 7));
    });
    begin_phase("one thread has all ranks of its process");
    auto comms = ccl::create_communicators(5, process ? rank_list{4, 1} : rank_list{0, 3, 2}, kvs);
    std::vector<ccl::request_t> requests;
    std::vector<int> mine(comms.size()), sum(comms.size());
    for (std::size_t i = 0; i < comms.size(); i++) {
        mine[i] = comms[i].rank();
        requests.push_back(comms[i].allreduce(&mine[i], &sum[i], 1, ccl::reduction::sum));
    }
    for (auto &request : requests) {
        request->wait();
    }
    EXPECT(sum[0] == 10 && sum.back() == 10);
    if (process) {
        begin_phase("rank 0 where the store was not made");
        EXPECT(status_of([&] { ccl::create_communicator(2, 0, kvs); }) == UCC_ERR_INVALID_PARAM);
    }
    check_late_failure(process, kvs);
}

void check_alone() {
    begin_phase("one rank, and a store that others could find");
    auto kvs = ccl::create_main_kvs();
    (void)kvs->get_address();
    auto comm = ccl::create_communicator(1, 0, kvs);
    int one = 1, sum = 0;
    comm.allreduce(&one, &sum, 1, ccl::reduction::sum)->wait();
    EXPECT(sum == 1);
}

// One child has the store by inheritance, another one by its address.
void check_forks() {
    begin_phase("children of a fork");
    auto kvs = ccl::create_main_kvs();
    auto address = kvs->get_address();
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            alarm(60);
            int sum = 0, mine = i + 1;
            auto own = ccl::create_main_kvs();
            EXPECT(own->get_address() != address);
            EXPECT(status_of([&] { ccl::create_communicator(3, 0, kvs); }) ==
                   UCC_ERR_INVALID_PARAM);
            auto comm = ccl::create_communicator(3, i + 1, i ? ccl::create_kvs(address) : kvs);
            comm.allreduce(&mine, &sum, 1, ccl::reduction::sum)->wait();
            EXPECT(sum == 3);
            _exit(errors != 0);
        }
    }
    int sum = 0, mine = 0;
    auto comm = ccl::create_communicator(3, 0, kvs);
    comm.allreduce(&mine, &sum, 1, ccl::reduction::sum)->wait();
    EXPECT(sum == 3);
    for (pid_t child : children) {
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
}

// A rank that can't take part, since another process has it: this process's others hear of it.
void check_failing() {
    begin_phase("two of one rank, and a third that waits for them");
    auto kvs = ccl::create_main_kvs();
    (void)kvs->get_address();
    std::atomic<int> failed{0};
    run_ranks(3, [&](int rank) {
        try {
            ccl::create_communicator(3, rank == 2 ? 1 : rank, kvs);
        } catch (const ccl::exception &e) {
            failed++; // and says what the exchange has found out
            EXPECT(std::string(e.what()).find("bootstrap") != std::string::npos);
        }
    });
    EXPECT(failed == 3);
    EXPECT(status_of([&] { ccl::create_communicator(1, 0, kvs); }) == UCC_ERR_NOT_FOUND);
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 1) {
        alarm(240); // children have no thread that watches
        check_forks();
        alarm(0);
    }
    begin_test(240);
    if (argc > 1) {
        check_process(1, ccl::create_kvs(address_of(argv[1])));
        return end_test("ccl/processes, the second");
    }
    check_alone();
    check_failing();
    auto kvs = ccl::create_main_kvs();
    pid_t child = start_second(argv[0], kvs);
    check_process(0, kvs);
    EXPECT(ends_well(child));
    return end_test("ccl/processes");
}
