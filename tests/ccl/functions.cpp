// functions.cpp: oneCCL's free functions, as its examples for processors call them: a program of theirs needs another way to get
// a communicator, and nothing else. Send and receive, groups, custom datatypes, priorities, unordered calls.
#include "support.hpp"

#include <list>
#include <string>

namespace {

void check_collectives() {
    begin_phase("every function");
    auto kvs = ccl::create_main_kvs();
    run_ranks(4, [&](int me) {
        ccl::init();
        auto comm =
            ccl::create_communicator(4, me, ccl::create_device(), ccl::create_context(), kvs);
        auto stream = ccl::create_stream();
        int rank = comm.rank(), size = comm.size();
        const std::size_t count = 100;
        std::vector<int> send(4 * count, rank + 1), recv(4 * count, 0);
        std::vector<std::size_t> counts(4, count);
        void *from = send.data(), *to = recv.data();
        auto type = ccl::datatype::int32;
        auto sum = ccl::reduction::sum;
        auto all = [&](int value) {
            bool right = recv[0] == value && recv[count - 1] == value;
            recv.assign(4 * count, 0);
            return right;
        };
        ccl::allreduce(send.data(), recv.data(), count, sum, comm).wait();
        EXPECT(all(size * (size + 1) / 2));
        ccl::allreduce(from, to, count, type, sum, comm, stream).wait();
        EXPECT(all(10));
        ccl::allreduce(send.data(), recv.data(), count, ccl::reduction::max, comm, stream).wait();
        EXPECT(all(4));
        ccl::allreduce(from, to, count, type, ccl::reduction::min, comm).wait();
        EXPECT(all(1));
        ccl::reduce(send.data(), recv.data(), count, sum, 2, comm).wait();
        EXPECT(all(rank == 2 ? 10 : 0));
        ccl::reduce(from, to, count, type, sum, 2, comm).wait();
        EXPECT(all(rank == 2 ? 10 : 0));
        ccl::reduce_scatter(send.data(), recv.data(), count, sum, comm).wait();
        EXPECT(all(10));
        ccl::reduce_scatter(from, to, count, type, sum, comm).wait();
        EXPECT(all(10));
        ccl::allgatherv(send.data(), count, recv.data(), counts, comm).wait();
        EXPECT(recv[3 * count] == 4 && all(1));
        ccl::allgatherv(from, count, to, counts, type, comm, stream).wait();
        EXPECT(recv[2 * count] == 3 && all(1));
        ccl::allgather(send.data(), recv.data(), count, comm).wait();
        EXPECT(recv[4 * count - 1] == 4 && all(1));
        ccl::allgather(from, to, count, type, comm).wait();
        EXPECT(recv[count] == 2 && all(1));
        ccl::alltoall(send.data(), recv.data(), count, comm).wait();
        EXPECT(recv[3 * count] == 4 && all(1));
        ccl::alltoall(from, to, count, type, comm).wait();
        EXPECT(recv[3 * count] == 4 && all(1));
        ccl::alltoallv(send.data(), counts, recv.data(), counts, comm).wait();
        EXPECT(recv[3 * count] == 4 && all(1));
        ccl::alltoallv(from, counts, to, counts, type, comm).wait();
        EXPECT(recv[3 * count] == 4 && all(1));
        recv.assign(count, rank);
        ccl::broadcast(recv.data(), count, 3, comm).wait();
        EXPECT(recv[count - 1] == 3);
        recv.assign(count, rank);
        ccl::bcast(recv.data(), count, type, 1, comm).wait();
        EXPECT(recv[count - 1] == 1);
        recv.assign(count, 9);
        ccl::broadcast(rank == 2 ? send.data() : nullptr, recv.data(), count, 2, comm).wait();
        EXPECT(recv[0] == 3 && recv[count - 1] == 3);
        recv.assign(count, 9);
        ccl::broadcast(from, recv.data(), count, type, 0, comm, stream).wait();
        EXPECT(recv[0] == 1 && recv[count - 1] == 1 && send[0] == rank + 1);
        if (rank == 1) {
            void *none = nullptr;
            auto wrong = [&](void *a, void *b, std::size_t n, int root) {
                return status_of([&] { ccl::broadcast(a, b, n, type, root, comm); });
            };
            EXPECT(wrong(from, to, 1, 4) == UCC_ERR_INVALID_PARAM);
            EXPECT(wrong(none, to, 1, 1) == UCC_ERR_INVALID_PARAM);
            EXPECT(wrong(from, none, 1, 1) == UCC_ERR_INVALID_PARAM);
            EXPECT(wrong(from, to, SIZE_MAX / 4 + 2, 1) == UCC_ERR_INVALID_PARAM);
        }
        ccl::barrier(comm);
        ccl::barrier(comm, stream);
        auto half = ccl::split_communicator(comm, rank % 2, rank);
        EXPECT(half.size() == 2 && half.rank() == rank / 2);
        EXPECT(ccl::comm_split(comm, 0).size() == 4);
        auto by_color =
            ccl::create_comm_split_attr(ccl::attr_val<ccl::comm_split_attr_id::color>(rank % 2));
        auto other = comm.split(by_color);
        EXPECT(other.size() == 2 && other.rank() == rank / 2);
    });
}

// Each rank starts where it likes; results are looked for as they come.
void check_unordered() {
    begin_phase("unordered calls that are polled");
    auto kvs = ccl::create_main_kvs();
    run_ranks(4, [&](int me) {
        auto comm = ccl::create_communicator(4, me, kvs);
        std::list<std::pair<ccl::event, std::size_t>> active;
        std::vector<std::vector<float>> send, recv;
        auto attr = ccl::create_operation_attr<ccl::allreduce_attr>();
        attr.set<ccl::operation_attr_id::to_cache>(true);
        for (std::size_t i = 0; i < 4; i++) {
            send.emplace_back(1024, static_cast<float>(i + 1));
            recv.emplace_back(1024, 0.0F);
        }
        for (unsigned iteration = 0; iteration < 20; iteration++) {
            for (std::size_t k = 0; k < 4; k++) {
                std::size_t i = (k + static_cast<std::size_t>(me) * iteration) % 4;
                attr.set<ccl::operation_attr_id::match_id>("match_id_" + std::to_string(i));
                attr.set<ccl::operation_attr_id::priority>(iteration * 4 + k);
                active.emplace_back(ccl::allreduce(send[i].data(), recv[i].data(), 1024,
                                                   ccl::reduction::sum, comm, attr),
                                    i);
            }
            while (!active.empty()) {
                for (auto it = active.begin(); it != active.end();) {
                    if (it->first.test()) {
                        EXPECT(recv[it->second][1023] == static_cast<float>(4 * (it->second + 1)));
                        it = active.erase(it);
                    } else {
                        ++it;
                    }
                }
            }
        }
        ccl::barrier(comm);
    });
}

void add_floats(const void *in, std::size_t in_count, void *inout, std::size_t *, ccl::datatype,
                const ccl::fn_context *) {
    for (std::size_t i = 0; i < in_count; i++) {
        static_cast<float *>(inout)[i] += static_cast<const float *>(in)[i];
    }
}

void check_datatypes() {
    begin_phase("many datatypes of the user's, outstanding together");
    auto kvs = ccl::create_main_kvs();
    run_ranks(3, [&](int me) {
        auto comm = ccl::create_communicator(3, me, kvs);
        const std::size_t n = 40, count = 300;
        auto dt_attr =
            ccl::create_datatype_attr(ccl::attr_val<ccl::datatype_attr_id::size>(sizeof(float)));
        auto attr = ccl::create_operation_attr<ccl::allreduce_attr>();
        attr.set<ccl::allreduce_attr_id::reduction_fn>(static_cast<ccl::reduction_fn>(add_floats));
        std::vector<ccl::datatype> types(n);
        std::vector<ccl::event> events(n);
        std::vector<std::vector<float>> send(n), recv(n);
        for (std::size_t i = 0; i < n; i++) {
            types[i] = ccl::register_datatype(dt_attr);
            send[i].resize(count, static_cast<float>(comm.rank() + 1));
            recv[i].resize(count, 0);
        }
        for (std::size_t i = 0; i < n; i++) {
            events[i] = ccl::allreduce(send[i].data(), recv[i].data(), count, types[i],
                                       ccl::reduction::custom, comm, attr);
        }
        for (std::size_t i = 0; i < n; i++) {
            events[i].wait();
            EXPECT(recv[i][0] == 6 && recv[i][count - 1] == 6);
            ccl::deregister_datatype(types[i]);
        }
    });
}

void check_pairs() {
    begin_phase("send and receive");
    auto kvs = ccl::create_main_kvs();
    run_ranks(3, [&](int me) {
        auto comm = ccl::create_communicator(3, me, kvs);
        int right = (me + 1) % 3, left = (me + 2) % 3;
        double mine[2] = {1.0 * me, -1.0 * me}, from_left[2] = {9, 9}, from_right[2] = {9, 9};
        for (int round = 0; round < 20; round++) {
            ccl::group_start();
            ccl::send(mine, 2, right, comm);
            ccl::recv(from_left, 2, left, comm);
            ccl::send(static_cast<void *>(mine), 2, ccl::datatype::float64, left, comm);
            ccl::recv(static_cast<void *>(from_right), 2, ccl::datatype::float64, right, comm);
            ccl::group_end();
            EXPECT(from_left[0] == left && from_left[1] == -left);
            EXPECT(from_right[0] == right && from_right[1] == -right);
        }
        // Everybody sends first, and keeps the event.
        auto sent = ccl::send(mine, 2, right, comm);
        ccl::recv(from_left, 2, left, comm).wait();
        sent.wait();
        // By match_id in another order at each end, beside one without.
        ccl::pt2pt_attr a, b;
        a.set<ccl::operation_attr_id::match_id>("a");
        b.set<ccl::operation_attr_id::match_id>("b");
        double x = 1, y = 2;
        if (me == 0) {
            auto first = ccl::send(&x, 1, 1, comm, a), second = ccl::send(&y, 1, 1, comm, b);
            first.wait();
            second.wait();
        } else if (me == 1) {
            auto second = ccl::recv(&x, 1, 0, comm, b), first = ccl::recv(&y, 1, 0, comm, a);
            first.wait();
            second.wait();
            EXPECT(x == 2 && y == 1);
        }
        EXPECT(status_of([&] { ccl::send(&x, 1, 3, comm); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([&] { ccl::send(&x, 1, -1, comm); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([&] { ccl::recv(&x, 1, me, comm); }) == UCC_ERR_INVALID_PARAM);
        EXPECT(status_of([] { ccl::group_end(); }) == UCC_ERR_INVALID_PARAM);
        ccl::barrier(comm);
    });
}

void check_events() {
    begin_phase("events, dependencies, environment");
    std::stringstream text; // whose header programs have from oneCCL's, as <set>
    std::set<int> numbers = {1};
    text << *numbers.begin();
    EXPECT(text.str() == "1");
    ccl::event none;
    EXPECT(none.test() && none.cancel());
    none.wait();
    auto &env = ccl::environment::instance();
    auto kvs = env.create_main_kvs();
    run_ranks(2, [&](int me) {
        auto comm = env.create_communicator(2, me, env.create_kvs(kvs->get_address()));
        int x = me, y = 0, z = 0;
        std::vector<ccl::event> deps;
        deps.push_back(ccl::allreduce(&x, &y, 1, ccl::reduction::sum, comm));
        auto second =
            ccl::allreduce(&y, &z, 1, ccl::reduction::sum, comm, ccl::allreduce_attr(), deps);
        auto moved = std::move(second);
        moved.wait();
        EXPECT(z == 2 && deps[0].test() && moved && second.test());
        EXPECT(!moved.cancel());
        EXPECT(ccl::get_library_version().full != nullptr);
    });
    std::map<int, ccl::device> devices = {{0, ccl::create_device()}, {1, ccl::create_device()}};
    auto comms =
        ccl::create_communicators(2, devices, ccl::create_context(), ccl::create_main_kvs());
    EXPECT(comms.size() == 2 && comms[1].rank() == 1);
}

// One thread has both ranks: whatever event waits inside the group waits for ever.
void check_groups() {
    begin_phase("events from before a group that end in it");
    auto comms = ccl::create_communicators(2, std::vector<int>{0, 1}, ccl::create_main_kvs());
    for (int round = 0; round < 3; round++) {
        int mine[2] = {1, 2}, sum[2] = {0, 0};
        std::vector<ccl::event> before;
        for (std::size_t i : {0U, 1U}) {
            before.push_back(ccl::barrier(comms[i]));
        }
        ccl::group_start();
        ccl::event first = ccl::allreduce(&mine[0], &sum[0], 1, ccl::reduction::sum, comms[0]);
        before.clear();
        first = ccl::event();
        ccl::allreduce(&mine[1], &sum[1], 1, ccl::reduction::sum, comms[1]);
        ccl::group_end();
        EXPECT(sum[0] == 3 && sum[1] == 3);
    }
}

} // namespace

int main() {
    begin_test(120);
    check_collectives();
    check_unordered();
    check_datatypes();
    check_pairs();
    check_events();
    check_groups();
    return end_test("ccl/functions");
}
