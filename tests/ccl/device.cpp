// device.cpp: the collectives of device communicators, on emulated devices: every type, overload and order, 1 to 8 ranks;
// dependencies and completion events, with nobody waiting in between, so that the emulator's race detector sees each order
// that is missing; functions; groups; errors.
#include "device_side.hpp"

namespace {

void run_devices(int n, const std::function<void(device_side &side)> &work) {
    auto kvs = ccl::create_main_kvs();
    run_ranks(n, [&](int rank) {
        auto comm = ccl::create_device_communicator(n, rank, kvs);
        device_side side(comm);
        work(side);
    });
}

void check_types() {
    begin_phase("all types");
    for (int n : {2, 3, 8, 1}) {
        for (std::size_t count : {6U, 300U}) {
            run_devices(n, [&](device_side &side) { run_types(side, count); });
        }
    }
}

// Producer, collective and consumer on three streams: events alone order them.
void check_events() {
    begin_phase("dependencies and completion events");
    run_devices(3, [](device_side &side) {
        enum { COUNT = 700, ROUNDS = 6 };
        auto *from = static_cast<std::int32_t *>(side.take(COUNT * 4));
        auto *to = static_cast<std::int32_t *>(side.take(COUNT * 4));
        auto *kept = static_cast<std::int32_t *>(side.take(ROUNDS * COUNT * 4));
        void *produced;
        {
            current here(side.device);
            MUST(cuEventCreate(&produced, 2));
        }
        for (int round = 0; round < ROUNDS; round++) {
            current here(side.device);
            MUST(cuMemsetD32Async(side.at(from), static_cast<unsigned>(side.comm.rank() + round),
                                  COUNT, side.streams[1]));
            MUST(cuEventRecord(produced, side.streams[1]));
            auto request = side.comm.allreduce(from, to, COUNT, ccl::reduction::sum, side.stream(0),
                                               {ccl::event_t(produced)});
            ccl::event_t done = request->get_event();
            EXPECT(done.get_native() != nullptr && request->on_device());
            MUST(cuStreamWaitEvent(side.streams[2], done.get_native(), 0));
            MUST(cuStreamWaitEvent(side.streams[1], done.get_native(), 0));
            MUST(cuMemcpyDtoDAsync_v2(side.at(kept + round * COUNT), side.at(to), COUNT * 4,
                                      side.streams[2]));
            // The next round's producer waits for this round; its collective for this round's consumer.
            MUST(cuEventRecord(produced, side.streams[2]));
            MUST(cuStreamWaitEvent(side.streams[1], produced, 0));
        }
        {
            current here(side.device);
            MUST(cuStreamSynchronize(side.streams[2]));
            MUST(cuEventDestroy_v2(produced));
        }
        std::vector<std::int32_t> content(ROUNDS * COUNT);
        side.get(content.data(), kept, ROUNDS * COUNT * 4);
        for (int round = 0; round < ROUNDS; round++) {
            EXPECT(content[static_cast<std::size_t>(round * COUNT + COUNT - 1)] == 3 + 3 * round);
        }
    });
}

void check_functions() {
    begin_phase("functions and groups on streams");
    auto kvs = ccl::create_main_kvs();
    run_ranks(2, [&](int rank) {
        auto comm = ccl::create_communicator(2, rank, kvs);
        auto other = ccl::create_device_communicator(2, rank, kvs);
        device_side side(other);
        auto *buffer = static_cast<float *>(side.take(64));
        float mine[4] = {1, 2, 3, static_cast<float>(rank)}, came[4];
        side.put(buffer, mine, sizeof(mine));
        auto first =
            ccl::allreduce(buffer, buffer + 4, 4, ccl::reduction::sum, comm, side.stream(0));
        std::vector<ccl::event> deps;
        deps.push_back(std::move(first));
        auto second =
            ccl::broadcast(buffer + 4, 4, 1, comm, side.stream(1), ccl::broadcast_attr(), deps);
        second.wait();
        EXPECT(second.test() && deps[0].test());
        side.get(came, buffer + 4, sizeof(came));
        EXPECT(came[0] == 2 && came[2] == 6 && came[3] == 1);
        ccl::allreduce(buffer, buffer, 4, ccl::reduction::sum, comm, side.stream(0)).wait();
        ccl::broadcast(rank == 1 ? buffer : nullptr, buffer + 4, 4, 1, comm, side.stream(0)).wait();
        side.get(came, buffer + 4, sizeof(came));
        EXPECT(came[0] == 2 && came[2] == 6 && came[3] == 1);
        side.put(buffer, mine, sizeof(mine));
        ccl::barrier(comm, side.stream(0)).wait();
        ccl::group_start();
        ccl::send(buffer, 4, 1 - rank, comm, side.stream(0));
        ccl::recv(buffer + 8, 4, 1 - rank, comm, side.stream(1));
        ccl::group_end();
        for (unsigned i : {0U, 1U}) {
            current here(side.device);
            MUST(cuStreamSynchronize(side.streams[i]));
        }
        side.get(came, buffer + 8, sizeof(came));
        EXPECT(came[1] == 2 && came[3] == static_cast<float>(1 - rank));
    });
}

// One thread has all ranks: calls of a group don't wait for each other.
void check_one_thread() {
    begin_phase("several ranks of one thread, in a group");
    auto comms = ccl::create_communicators(
        2, {{0, ccl::create_device(0)}, {1, ccl::create_device(1)}}, ccl::create_main_kvs());
    auto others = ccl::create_device_communicators(
        2, {{0, ccl::create_device(0)}, {1, ccl::create_device(1)}}, ccl::create_main_kvs());
    device_side a(others[0]), b(others[1]);
    device_side *sides[] = {&a, &b};
    int *buffers[2], value = 21, came;
    for (int i : {0, 1}) {
        buffers[i] = static_cast<int *>(sides[i]->take(4));
        sides[i]->put(buffers[i], &value, 4);
    }
    std::vector<ccl::event> events;
    ccl::group_start();
    for (std::size_t i : {0U, 1U}) {
        events.push_back(ccl::allreduce(buffers[i], buffers[i], 1, ccl::reduction::sum, comms[i],
                                        sides[i]->stream(0)));
    }
    ccl::group_end();
    for (std::size_t i : {0U, 1U}) {
        events[i].wait();
        sides[i]->get(&came, buffers[i], 4);
        EXPECT(came == 42);
    }
}

// A stream that has no context of its own: it is the one of the context of the call, whichever is current later.
void check_null_stream() {
    begin_phase("the NULL stream, waited for with another device's context");
    run_devices(2, [](device_side &side) {
        auto *buffer = static_cast<int *>(side.take(4));
        int value = 21, came = 0;
        side.put(buffer, &value, 4);
        auto attr = ccl::create_operation_attr<ccl::allreduce_attr>(
            ccl::attr_val<ccl::operation_attr_id::match_id>(std::string("null")));
        ccl::request_t request;
        {
            current here(side.device);
            request = side.comm.allreduce(buffer, buffer, 1, ccl::reduction::sum,
                                          ccl::stream(nullptr), {}, attr);
        }
        {
            current elsewhere(1 - side.device);
            request->wait();
        }
        side.get(&came, buffer, 4);
        EXPECT(came == 42);
    });
}

void never(const void *, std::size_t, void *, std::size_t *, ccl::datatype,
           const ccl::fn_context *) {
    expect_at(false, "a custom reduction is called with memory of a device", __FILE__, __LINE__);
}

// Each way to make such a call, at all ranks or at one of them; whoever has been refused goes on with the next call.
void check_custom() {
    begin_phase("custom reductions are refused");
    run_devices(2, [](device_side &side) {
        auto points = ccl::register_datatype(
            ccl::create_datatype_attr(ccl::attr_val<ccl::datatype_attr_id::size>(12)));
        void *from = side.take(240), *to = side.take(240);
        std::int32_t one = 1, sum = 0;
        auto on = side.stream(0);
        const ccl::device_communicator &comm = side.comm;
        auto custom = ccl::reduction::custom;
        ccl::allreduce_attr all, named;
        ccl::reduce_attr rooted;
        ccl::reduce_scatter_attr blocks;
        all.set<ccl::allreduce_attr_id::reduction_fn>(never);
        named.set<ccl::allreduce_attr_id::reduction_fn>(never);
        named.set<ccl::operation_attr_id::match_id>("named");
        rooted.set<ccl::reduce_attr_id::reduction_fn>(never);
        blocks.set<ccl::reduce_scatter_attr_id::reduction_fn>(never);
        auto refused = [](auto call) { return status_of(call) == UCC_ERR_NOT_SUPPORTED; };
        side.put(from, &one, sizeof(one));
        for (auto type : {points, ccl::datatype::int32}) {
            for (bool alone : {false, true}) {
                if (!alone || comm.rank() == 1) {
                    EXPECT(
                        refused([&] { comm.allreduce(from, to, 9, custom, type, on, {}, all); }));
                    EXPECT(refused(
                        [&] { comm.allreduce(from, to, 9, custom, type, on, {}, named)->wait(); }));
                    EXPECT(refused(
                        [&] { comm.reduce(from, to, 9, type, custom, 0, on, {}, rooted); }));
                    EXPECT(refused(
                        [&] { comm.reduce_scatter(from, to, 9, type, custom, on, {}, blocks); }));
                    EXPECT(refused(
                        [&] { ccl::allreduce(from, to, 9, type, custom, comm, on, all).wait(); }));
                }
                comm.allreduce(from, to, 1, ccl::reduction::sum, ccl::datatype::int32, on)->wait();
                side.get(&sum, to, sizeof(sum));
                EXPECT(sum == 2);
            }
        }
        ccl::deregister_datatype(points);
    });
}

void check_errors() {
    begin_phase("errors on devices");
    run_devices(2, [](device_side &side) {
        auto *buffer = static_cast<int *>(side.take(64));
        int *none = nullptr;
        auto refused = [](auto call) { return status_of(call) == UCC_ERR_INVALID_PARAM; };
        EXPECT(refused([&] { side.comm.bcast(buffer, 1, 0, ccl::create_stream()); }));
        EXPECT(refused([&] { side.comm.bcast(none, 1, 0, side.stream(0)); }));
        EXPECT(refused([&] { side.comm.bcast(buffer, 1, 2, side.stream(0)); }));
        auto request = side.comm.barrier(side.stream(0));
        request->wait();
        request->wait();
        EXPECT(request->test() && !request->cancel());
        auto half = side.comm.split(side.comm.rank(), 0);
        EXPECT(half.size() == 1);
        half.bcast(buffer, 4, 0, side.stream(0))->wait();
    });
    auto comm = ccl::create_communicator(1, 0, ccl::create_main_kvs());
    EXPECT(status_of([&] { comm.barrier()->get_event(); }) == UCC_ERR_NOT_SUPPORTED);
}

} // namespace

int main() {
    setenv("HEDDLE_GPU", "emulated:2,seed=5", 1);
    begin_test(240);
    check_events();
    check_functions();
    check_one_thread();
    check_null_stream();
    check_custom();
    check_errors();
    check_types();
    expect_clean();
    return end_test("ccl/device");
}
