// host.cpp: the collectives of communicators on host memory: every type, overload and order, 1 to 8 ranks as threads of
// one process; in place; custom datatypes and reductions; ranks of one thread; sub-communicators.
#include "cases.hpp"

namespace {

void check_types() {
    begin_phase("all types");
    for (int n : {2, 3, 5, 8, 1}) {
        for (std::size_t count : {6U, 3000U}) {
            run_communicators(n, [&](ccl::communicator &comm) {
                host_side side{comm};
                run_types(side, count);
            });
        }
    }
}

void check_in_place() {
    begin_phase("in place");
    run_communicators(3, [](ccl::communicator &comm) {
        int me = comm.rank();
        int one = me, block[3] = {me, 10 + me, 20 + me}, all[3] = {-1, -1, -1};
        comm.allreduce(&one, &one, 1, ccl::reduction::sum)->wait();
        EXPECT(one == 3);
        all[me] = me;
        comm.allgatherv(&all[me], 1, all, {1, 1, 1})->wait();
        EXPECT(all[0] == 0 && all[1] == 1 && all[2] == 2);
        comm.allgather(&all[me], all, 1)->wait();
        EXPECT(all[0] == 0 && all[1] == 1 && all[2] == 2);
        comm.alltoall(block, block, 1)->wait();
        EXPECT(block[0] == 10 * me && block[1] == 10 * me + 1 && block[2] == 10 * me + 2);
        comm.alltoallv(block, {1, 1, 1}, block, {1, 1, 1})->wait();
        EXPECT(block[0] == me && block[1] == 10 + me && block[2] == 20 + me);
        comm.reduce_scatter(block, &block[me], 1, ccl::reduction::max)->wait();
        EXPECT(block[me] == 10 * me + 2);
        one = me;
        comm.reduce(&one, &one, 1, ccl::reduction::sum, 1)->wait();
        EXPECT(one == (me == 1 ? 3 : me));
    });
}

struct point {
    float x, y, z;
};

void add_points(const void *in, std::size_t in_count, void *inout, std::size_t *out_count,
                ccl::datatype dtype, const ccl::fn_context *context) {
    EXPECT(ccl::get_datatype_size(dtype) == sizeof(point) && *out_count == in_count);
    EXPECT(context != nullptr && context->offset == 0);
    const point *from = static_cast<const point *>(in);
    point *to = static_cast<point *>(inout);
    for (std::size_t i = 0; i < in_count; i++) {
        to[i] = {to[i].x + from[i].x, to[i].y + from[i].y, to[i].z + from[i].z};
    }
}

void first_of_two(const void *, std::size_t, void *, std::size_t *, ccl::datatype,
                  const ccl::fn_context *) {
}

void throwing(const void *, std::size_t, void *, std::size_t *, ccl::datatype,
              const ccl::fn_context *) {
    throw 1;
}

void check_custom() {
    begin_phase("custom datatypes and reductions");
    run_communicators(4, [](ccl::communicator &comm) {
        constexpr std::size_t count = 500;
        auto size = ccl::attr_val<ccl::datatype_attr_id::size>(sizeof(point));
        ccl::datatype points = ccl::register_datatype(ccl::create_datatype_attr(size));
        float me = static_cast<float>(comm.rank());
        std::vector<point> from(4 * count, {me, 1, -me}), to(4 * count);
        ccl::allreduce_attr_t all;
        ccl::reduce_attr_t one;
        ccl::reduce_scatter_attr_t blocks;
        all.set<ccl::allreduce_attr_id::reduction_fn>(add_points);
        one.set<ccl::reduce_attr_id::reduction_fn>(add_points);
        blocks.set<ccl::reduce_scatter_attr_id::reduction_fn>(add_points);
        EXPECT(all.get<ccl::allreduce_attr_id::reduction_fn>() == &add_points);
        auto right = [&] { return to[count - 1].x == 6 && to[0].y == 4 && to[7].z == -6; };
        comm.allreduce(from.data(), to.data(), count, ccl::reduction::custom, points, all)->wait();
        EXPECT(right());
        to.assign(4 * count, {});
        comm.reduce(from.data(), to.data(), count, points, ccl::reduction::custom, 2, one)->wait();
        EXPECT(right() == (comm.rank() == 2));
        comm.reduce_scatter(from.data(), to.data(), count, points, ccl::reduction::custom, blocks)
            ->wait();
        EXPECT(right());
        comm.alltoall(from.data(), to.data(), count, points)->wait();
        EXPECT(to[0].x == 0 && to[4 * count - 1].x == 3);
        comm.allgatherv(from.data(), count, to.data(), {count, count, count, count}, points)
            ->wait();
        EXPECT(to[count].x == 1 && to[2 * count].z == -2);
        comm.bcast(from.data(), count, points, 3)->wait();
        EXPECT(from[count - 1].x == 3);
        // The lower ranks' part is on the left; and a predefined datatype has a custom reduction, too.
        int mine = 10 + comm.rank(), left = 0;
        all.set<ccl::allreduce_attr_id::reduction_fn>(first_of_two);
        comm.allreduce(&mine, &left, 1, ccl::reduction::custom, all)->wait();
        EXPECT(left == 10);
        EXPECT(status_of([&] {
                   comm.allreduce(from.data(), to.data(), 1, ccl::reduction::sum, points);
               }) == UCC_ERR_INVALID_PARAM);
        comm.barrier()->wait();
        ccl::deregister_datatype(points);
        EXPECT(status_of([&] { comm.bcast(from.data(), 1, points, 0); }) == UCC_ERR_INVALID_PARAM);
    });
    run_communicators(2, [](ccl::communicator &comm) {
        int mine = 1, result;
        ccl::allreduce_attr_t attr;
        attr.set<ccl::allreduce_attr_id::reduction_fn>(throwing);
        EXPECT(status_of([&] {
                   comm.allreduce(&mine, &result, 1, ccl::reduction::custom, attr)->wait();
               }) < 0);
    });
}

void check_average() {
    begin_phase("average");
    run_communicators(4, [](ccl::communicator &comm) {
        double mine = comm.rank(), mean = 0;
        comm.allreduce(&mine, &mean, 1, ccl::reduction::avg)->wait();
        EXPECT(mean == 1.5);
    });
}

// One thread has all ranks: it starts for each, and waits for one after the other.
void check_one_thread() {
    begin_phase("several ranks of one thread");
    auto comms = ccl::create_communicators(4, {2, 0, 3, 1}, ccl::create_main_kvs());
    std::vector<int> mine(4), sum(4);
    for (int round = 0; round < 50; round++) {
        std::vector<ccl::request_t> requests;
        for (auto &comm : comms) {
            auto i = static_cast<std::size_t>(comm.rank());
            mine[i] = comm.rank() + round;
            requests.push_back(comm.allreduce(&mine[i], &sum[i], 1, ccl::reduction::sum));
        }
        for (auto &request : requests) {
            request->wait();
        }
        EXPECT(sum[0] == 6 + 4 * round && sum[3] == sum[0] && sum[1] == sum[0]);
    }
    EXPECT(comms[0].rank() == 2 && comms[1].rank() == 0 && comms[3].size() == 4);
}

// Some ranks of a thread, some alone; each drives its own.
void check_mixed_threads() {
    begin_phase("some ranks together, some alone");
    auto kvs = ccl::create_main_kvs();
    ccl::comm_attr attr;
    attr.set<ccl::comm_attr_id::thread_mode>(UCC_THREAD_MULTIPLE);
    run_ranks(3, [&](int thread) {
        auto comms = ccl::create_communicators(
            4, thread == 0 ? std::vector<int>{0, 3} : std::vector<int>{thread},
            ccl::create_kvs(kvs->get_address()), attr);
        std::vector<ccl::request_t> requests;
        for (auto &comm : comms) {
            requests.push_back(comm.barrier());
        }
        for (auto &request : requests) {
            request->wait();
        }
    });
}

void check_split() {
    begin_phase("split");
    run_communicators(5, [](ccl::communicator &comm) {
        auto half = comm.split(comm.rank() % 2, -comm.rank());
        int mine = comm.rank(), sum = 0;
        EXPECT(half.size() == (comm.rank() % 2 ? 2 : 3));
        EXPECT(half.rank() == half.size() - 1 - comm.rank() / 2);
        half.allreduce(&mine, &sum, 1, ccl::reduction::sum)->wait();
        EXPECT(sum == (comm.rank() % 2 ? 4 : 6));
        comm.barrier()->wait();
    });
}

void check_single_mode() {
    begin_phase("thread mode single, and several communicators of one store");
    auto kvs = ccl::create_main_kvs();
    ccl::comm_attr attr;
    attr.set<ccl::comm_attr_id::thread_mode>(UCC_THREAD_SINGLE);
    run_ranks(3, [&](int rank) {
        for (int round = 0; round < 10; round++) {
            auto comm = ccl::create_communicator(3, 2 - rank, kvs, attr);
            int one = 1, sum = 0;
            comm.allreduce(&one, &sum, 1, ccl::reduction::sum)->wait();
            EXPECT(sum == 3 && comm.rank() == 2 - rank);
        }
    });
}

void check_store() {
    begin_phase("values in stores");
    auto kvs = ccl::create_main_kvs();
    std::thread other([&] { ccl::create_kvs(kvs->get_address())->set("key", {'a', 'b'}); });
    EXPECT(kvs->get("key") == std::vector<char>{'a', 'b'});
    other.join();
}

void check_attributes() {
    begin_phase("attributes");
    ccl::allreduce_attr_t attr;
    EXPECT(attr.get<ccl::operation_attr_id::match_id>().empty());
    EXPECT(!attr.get<ccl::operation_attr_id::synchronous>() &&
           !attr.get<ccl::operation_attr_id::to_cache>());
    attr.set<ccl::operation_attr_id::match_id>(
        "a text that is longer than what a string keeps in itself");
    attr.set<ccl::operation_attr_id::priority>(7);
    EXPECT(attr.get<ccl::operation_attr_id::match_id>().size() == 56);
    EXPECT(attr.get<ccl::operation_attr_id::priority>() == 7);
    EXPECT(attr.get<ccl::operation_attr_id::version>().update == HEDDLE_VERSION_PATCH);
    std::vector<ccl::datatype> types;
    for (std::size_t size = 1; size <= 5000; size++) {
        types.push_back(ccl::register_datatype(
            ccl::create_datatype_attr(ccl::attr_val<ccl::datatype_attr_id::size>(size))));
        EXPECT(ccl::get_datatype_size(types.back()) == size);
    }
    for (ccl::datatype type : types) {
        ccl::deregister_datatype(type);
    }
    EXPECT(ccl::get_datatype_size(ccl::datatype::bfloat16) == 2);
}

} // namespace

int main() {
    begin_test(240);
    check_attributes();
    check_store();
    check_in_place();
    check_custom();
    check_average();
    check_one_thread();
    check_mixed_threads();
    check_split();
    check_single_mode();
    check_types();
    return end_test("ccl/host");
}
