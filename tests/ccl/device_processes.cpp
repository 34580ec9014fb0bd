// device_processes.cpp: device communicators whose ranks are threads of two processes, two of each, on emulated devices: every
// overload and order, some types; dependencies; sub-communicators.
#include "device_side.hpp"
#include "second.hpp"

namespace {

using kvs_t = std::shared_ptr<ccl::kvs>;
using rank_list = std::vector<int>;

// A thread for each rank of this process.
void run_mine(const rank_list &mine, const kvs_t &kvs,
              const std::function<void(device_side &side)> &work) {
    run_ranks(static_cast<int>(mine.size()), [&](int i) {
        auto comm = ccl::create_device_communicator(4, mine[static_cast<std::size_t>(i)], kvs);
        device_side side(comm);
        work(side);
    });
}

// Producer, collective and consumer on three streams.
void check_events(device_side &side) {
    enum { COUNT = 700 };
    auto *from = static_cast<std::int32_t *>(side.take(COUNT * 4));
    auto *to = static_cast<std::int32_t *>(side.take(COUNT * 4));
    auto *kept = static_cast<std::int32_t *>(side.take(COUNT * 4));
    std::int32_t content[COUNT];
    void *produced;
    {
        current here(side.device);
        MUST(cuEventCreate(&produced, 2));
        MUST(cuMemsetD32Async(side.at(from), static_cast<unsigned>(side.comm.rank()), COUNT,
                              side.streams[1]));
        MUST(cuEventRecord(produced, side.streams[1]));
    }
    auto request = side.comm.allreduce(from, to, COUNT, ccl::reduction::sum, side.stream(0),
                                       {ccl::event_t(produced)});
    {
        current here(side.device);
        MUST(cuStreamWaitEvent(side.streams[2], request->get_event().get_native(), 0));
        MUST(cuMemcpyDtoDAsync_v2(side.at(kept), side.at(to), COUNT * 4, side.streams[2]));
        MUST(cuStreamSynchronize(side.streams[2]));
        MUST(cuEventDestroy_v2(produced));
    }
    side.get(content, kept, sizeof(content));
    EXPECT(content[0] == 6 && content[COUNT - 1] == 6);
}

void check_process(int process, const kvs_t &kvs) {
    begin_phase("two processes of two ranks, in a row");
    run_mine(process ? rank_list{2, 3} : rank_list{0, 1}, kvs, [](device_side &side) {
        check_events(side);
        run_type<std::int32_t>(side, 6);
        run_type<double>(side, 300);
        run_type<bfloat16>(side, 6);
    });
    begin_phase("in turn");
    run_mine(process ? rank_list{1, 3} : rank_list{0, 2}, kvs, [](device_side &side) {
        run_type<float>(side, 300);
        auto half = side.comm.split(side.comm.rank() / 2, 0);
        auto *buffer = static_cast<int *>(side.take(4));
        int value = 1 + side.comm.rank();
        side.put(buffer, &value, 4);
        half.allreduce(buffer, buffer, 1, ccl::reduction::sum, side.stream(0))->wait();
        side.get(&value, buffer, 4);
        EXPECT(value == (side.comm.rank() < 2 ? 3 : 7));
        ccl::barrier(side.comm, side.stream(1)).wait();
    });
}

} // namespace

int main(int argc, char **argv) {
    setenv("HEDDLE_GPU", "emulated:2,seed=5", 1);
    begin_test(240);
    if (argc > 1) {
        check_process(1, ccl::create_kvs(address_of(argv[1])));
        expect_clean();
        return end_test("ccl/device_processes, the second");
    }
    auto kvs = ccl::create_main_kvs();
    pid_t child = start_second(argv[0], kvs);
    check_process(0, kvs);
    expect_clean();
    EXPECT(ends_well(child));
    return end_test("ccl/device_processes");
}
