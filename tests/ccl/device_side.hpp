// device_side.hpp: buffers and streams of a rank on an emulated device, for the batches of cases.hpp.
#ifndef TESTS_CCL_DEVICE_SIDE_HPP_
#define TESTS_CCL_DEVICE_SIDE_HPP_

#include "cases.hpp"

#include <heddle_emucuda.h>

extern "C" {
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(std::uint64_t *memory, std::size_t bytes);
int cuMemFree_v2(std::uint64_t memory);
int cuMemcpyHtoD_v2(std::uint64_t to, const void *from, std::size_t bytes);
int cuMemcpyDtoH_v2(void *to, std::uint64_t from, std::size_t bytes);
int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void *stream);
int cuMemsetD32Async(std::uint64_t memory, unsigned value, std::size_t count, void *stream);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventDestroy_v2(void *event);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
}

namespace {

enum { DEVICES = 2, MOST = 24 };
struct native_stream; // a program with CUDA's headers has its own

void must(int result, const char *call) {
    if (result != 0) {
        std::fprintf(stderr, "%s: %d\n", call, result);
        std::abort();
    }
}
#define MUST(call) must((call), #call)

// A device's context is the thread's while it lives.
class current {
  public:
    explicit current(int device) {
        static std::mutex mutex;
        static void *contexts[DEVICES];
        std::lock_guard<std::mutex> lock(mutex);
        if (!contexts[device]) {
            MUST(cuDevicePrimaryCtxRetain(&contexts[device], device));
        }
        MUST(cuCtxPushCurrent_v2(contexts[device]));
    }
    ~current() {
        void *popped;
        MUST(cuCtxPopCurrent_v2(&popped));
    }
    current(const current &) = delete;
    current &operator=(const current &) = delete;
};

// Buffers and streams on a rank's device.
struct device_side {
    ccl::device_communicator &comm;
    int device;
    std::vector<std::uint64_t> memory{};
    void *streams[MOST]{};
    unsigned next = 0;

    explicit device_side(ccl::device_communicator &of) : comm(of), device(of.rank() % DEVICES) {
        current here(device);
        for (void *&stream : streams) {
            MUST(cuStreamCreate(&stream, 1));
        }
    }
    ~device_side() {
        drop();
        current here(device);
        for (void *stream : streams) {
            MUST(cuStreamSynchronize(stream));
            MUST(cuStreamDestroy_v2(stream));
        }
    }
    device_side(const device_side &) = delete;
    device_side &operator=(const device_side &) = delete;

    void *take(std::size_t bytes) {
        current here(device);
        std::uint64_t pointer;
        MUST(cuMemAlloc_v2(&pointer, bytes + 16));
        memory.push_back(pointer);
        return reinterpret_cast<void *>(pointer);
    }
    void drop() {
        current here(device);
        for (std::uint64_t pointer : memory) {
            MUST(cuMemFree_v2(pointer));
        }
        memory.clear();
    }
    static std::uint64_t at(const void *pointer) {
        return reinterpret_cast<std::uint64_t>(pointer);
    }
    void put(void *to, const void *from, std::size_t bytes) {
        current here(device);
        if (bytes > 0) {
            MUST(cuMemcpyHtoD_v2(at(to), from, bytes));
            MUST(cuCtxSynchronize());
        }
    }
    void get(void *to, const void *from, std::size_t bytes) {
        current here(device);
        if (bytes > 0) {
            MUST(cuMemcpyDtoH_v2(to, at(from), bytes));
        }
    }
    ccl::stream stream(unsigned i) {
        auto *native = static_cast<native_stream *>(streams[i]);
        return ccl::create_stream(native);
    }
    // Calls that come in another order elsewhere have a stream each.
    template <class Attr, class Call> ccl::request_t call(const Attr &attr, Call &&call) {
        bool ordered = attr.template get<ccl::operation_attr_id::match_id>().empty();
        return call(stream(ordered ? 0 : next++ % MOST), std::vector<ccl::event_t>(), attr);
    }
};

// The emulator has seen no race, and nothing of its own is left over.
inline void expect_clean() {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    EXPECT(report.races == 0 && report.faults == 0 && report.deadlocks == 0 && report.leaks == 0);
}

} // namespace

#endif
