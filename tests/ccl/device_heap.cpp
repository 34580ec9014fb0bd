// device_heap.cpp: a call on memory of devices allocates its request, and nothing else; what the emulated driver allocates is not
// counted.
#include "allocations.hpp"

#include <heddle_emucuda.h>

extern "C" {
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuMemAlloc_v2(std::uint64_t *memory, std::size_t bytes);
int cuMemFree_v2(std::uint64_t memory);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
}

namespace {

enum { RANKS = 2 };
constexpr std::size_t times = 100;
constexpr std::size_t few = 8; // a device that is late may have the library's pools grow once

void must(int result) {
    if (result != 0) {
        std::fprintf(stderr, "CUDA: %d\n", result);
        std::abort();
    }
}

// All ranks stand still when one of them reads or sets what is counted.
class gate {
  public:
    void pass(const std::function<void()> &alone) {
        std::unique_lock<std::mutex> lock(mutex_);
        unsigned round = round_;
        if (++here_ == RANKS) {
            alone();
            here_ = 0;
            round_++;
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return round_ != round; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int here_ = 0;
    unsigned round_ = 0;
};

// A rank on a device of its own.
struct side {
    ccl::device_communicator comm;
    std::uint64_t memory = 0;
    void *native[2] = {};
    std::vector<ccl::event> deps = std::vector<ccl::event>(1);

    explicit side(ccl::device_communicator &&of) : comm(std::move(of)) {
        void *context;
        must(cuDevicePrimaryCtxRetain(&context, comm.rank()));
        must(cuCtxPushCurrent_v2(context)); // of a thread that ends
        must(cuMemAlloc_v2(&memory, 4096));
        for (void *&stream : native) {
            must(cuStreamCreate(&stream, 1));
        }
    }
    ~side() {
        for (void *stream : native) {
            must(cuStreamDestroy_v2(stream));
        }
        must(cuMemFree_v2(memory));
    }
    side(const side &) = delete;
    side &operator=(const side &) = delete;
};

struct counted {
    const char *name;
    std::size_t requests; // of one turn
    std::function<void()> turn;
};

// Each twice: as a method where there is one, and as a function.
std::vector<counted> calls_of(side &s) {
    auto *x = reinterpret_cast<float *>(s.memory), *y = x + 512;
    auto *comm = &s.comm;
    auto *deps = &s.deps;
    ccl::stream on(s.native[0]), other(s.native[1]);
    std::vector<std::size_t> each(RANKS, 8);
    int peer = 1 - s.comm.rank();
    ccl::allreduce_attr plain, named;
    named.set<ccl::operation_attr_id::match_id>("longer than what a string keeps in itself");
    auto sum = ccl::reduction::sum;
    return {
        {"barrier", 1, [=] { comm->barrier(on)->wait(); }},
        {"allreduce", 1, [=] { comm->allreduce(x, y, 8, sum, on)->wait(); }},
        {"allreduce by name", 1, [=] { comm->allreduce(x, y, 8, sum, on, {}, named)->wait(); }},
        {"large allreduce", 1, [=] { comm->allreduce(x, y, 512, sum, on)->wait(); }},
        {"reduce", 1, [=] { comm->reduce(x, y, 8, sum, 0, on)->wait(); }},
        {"reduce_scatter", 1, [=] { comm->reduce_scatter(x, y, 8, sum, on)->wait(); }},
        {"alltoall", 1, [=] { comm->alltoall(x, y, 8, on)->wait(); }},
        {"alltoallv", 1, [=] { comm->alltoallv(x, each, y, each, on)->wait(); }},
        {"allgather", 1, [=] { comm->allgather(x, y, 8, on)->wait(); }},
        {"allgatherv", 1, [=] { comm->allgatherv(x, 8, y, each, on)->wait(); }},
        {"bcast", 1, [=] { comm->bcast(x, 8, 1, on)->wait(); }},
        {"functions", 3,
         [=] {
             ccl::allreduce(x, y, 8, sum, *comm, on).wait();
             ccl::allgatherv(x, 8, y, each, *comm, on).wait();
             ccl::alltoallv(x, each, y, each, *comm, on).wait();
         }},
        {"an event that is polled", 1,
         [=] {
             auto event = ccl::allreduce(x, y, 8, sum, *comm, on);
             while (!event.test()) {
             }
         }},
        {"a call behind another's event", 2,
         [=] {
             (*deps)[0] = ccl::allreduce(x, y, 8, sum, *comm, on);
             ccl::allreduce(y, x, 8, sum, *comm, other, plain, *deps).wait();
             (*deps)[0].wait();
         }},
        {"a group", 2,
         [=] {
             ccl::group_start();
             ccl::send(x, 8, peer, *comm, on);
             ccl::recv(y, 8, peer, *comm, other);
             ccl::group_end();
         }},
    };
}

} // namespace

int main() {
#ifdef SANITIZED
    return 77; // allocators are the sanitizer's
#endif
    setenv("HEDDLE_GPU", "emulated:2,seed=5", 1);
    begin_test(120);
    EXPECT(exclude_library_of(reinterpret_cast<const void *>(&heddle_emucuda_report)));
    auto kvs = ccl::create_main_kvs();
    gate all;
    run_ranks(RANKS, [&](int rank) {
        side s(ccl::create_device_communicator(RANKS, rank, kvs));
        for (counted &one : calls_of(s)) {
            for (std::size_t i = 0; i < 2 * times; i++) {
                one.turn();
            }
            all.pass([] {
                blocks = 0;
                counting = true;
            });
            for (std::size_t i = 0; i < times; i++) {
                one.turn();
            }
            all.pass([&] {
                counting = false;
                std::size_t requests = one.requests * RANKS * times;
                if (blocks < requests || blocks > requests + few) {
                    std::fprintf(stderr, "%s: %zu blocks, %zu requests\n", one.name, blocks.load(),
                                 requests);
                    errors++;
                }
            });
        }
    });
    return end_test("ccl/device_heap");
}
