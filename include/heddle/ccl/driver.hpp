/* ccl/driver.hpp: streams and events, and the few functions of the CUDA driver that they take.
 *
 * No header of CUDA is needed: a stream is the pointer that CUstream and cudaStream_t are, an event
 * the one that CUevent and cudaEvent_t are. The driver is the one that the process has: one that it
 * is linked with, the emulated one that the C library has loaded, or NVIDIA's. It is looked for
 * when a call on a device first needs it.
 */
#ifndef HEDDLE_CCL_DRIVER_HPP_
#define HEDDLE_CCL_DRIVER_HPP_

#include <heddle/ccl/types.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

#include <dlfcn.h>

namespace heddle {
namespace ccl {

/** A device, by the driver's number; none: the host. */
class device {
  public:
    device() noexcept = default;
    explicit device(int number) noexcept : number_(number) {
    }
    int number() const noexcept {
        return number_;
    }

  private:
    int number_ = -1;
};

/** For signatures that have one: devices' primary contexts are what is used. */
class context {};

/** A CUDA stream of the program's, which outlives the calls on it; or none: host memory. */
class stream {
  public:
    stream() noexcept = default;
    explicit stream(void *native) noexcept : native_(native), on_device_(true) {
    }
    bool on_device() const noexcept {
        return on_device_;
    }
    void *get_native() const noexcept {
        return native_;
    }

  private:
    void *native_ = nullptr;
    bool on_device_ = false;
};

using stream_t = stream;

/** A CUDA event of the program's, or of a request: then valid as long as that. */
class event_t {
  public:
    event_t() noexcept = default;
    template <class Native> explicit event_t(Native *native) noexcept : native_(native) {
    }
    void *get_native() const noexcept {
        return native_;
    }

  private:
    void *native_ = nullptr;
};

namespace detail {

struct driver {
    int (*stream_get_context)(void *stream, void **context);
    int (*stream_wait_event)(void *stream, void *event, unsigned flags);
    int (*copy_async)(std::uint64_t to, std::uint64_t from, std::size_t bytes, void *stream);
    int (*device_get_count)(int *count);
    int (*primary_get_state)(int device, unsigned *flags, int *active);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*context_get)(void **context);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_synchronize)(void *event);
    int (*event_destroy)(void *event);

    static constexpr unsigned no_timing = 2;
    static constexpr int not_ready = 600;

    /** Throws where there is none. */
    static const driver &instance() {
        static const driver found = load();
        return found;
    }

    static void must(int result, const char *call) {
        if (result != 0) {
            throw exception(std::string(call) + ": CUDA error " + std::to_string(result),
                            UCC_ERR_IO_ERROR);
        }
    }

  private:
    static void *library() {
        std::string emulated = "libheddle_emucuda.so." + std::to_string(HEDDLE_VERSION_MAJOR);
        void *handle = nullptr;
        if (dlsym(RTLD_DEFAULT, "cuEventRecord")) {
            return RTLD_DEFAULT;
        }
        handle = dlopen(emulated.c_str(), RTLD_NOW | RTLD_NOLOAD);
        handle = handle ? handle : dlopen("libcuda.so.1", RTLD_NOW);
        if (!handle) {
            throw unsupported("a call on a device: there is no CUDA driver");
        }
        return handle;
    }

    template <class Function>
    static void find(Function &function, void *library, const char *name) {
        void *found = dlsym(library, name);
        if (!found) {
            throw unsupported(std::string("the CUDA driver has no ") + name);
        }
        std::memcpy(&function, &found, sizeof(found));
    }

    static driver load() {
        driver d;
        void *from = library();
        find(d.stream_get_context, from, "cuStreamGetCtx");
        find(d.stream_wait_event, from, "cuStreamWaitEvent");
        find(d.copy_async, from, "cuMemcpyAsync");
        find(d.device_get_count, from, "cuDeviceGetCount");
        find(d.primary_get_state, from, "cuDevicePrimaryCtxGetState");
        find(d.primary_retain, from, "cuDevicePrimaryCtxRetain");
        find(d.primary_release, from, "cuDevicePrimaryCtxRelease_v2");
        find(d.context_get, from, "cuCtxGetCurrent");
        find(d.context_push, from, "cuCtxPushCurrent_v2");
        find(d.context_pop, from, "cuCtxPopCurrent_v2");
        find(d.event_create, from, "cuEventCreate");
        find(d.event_record, from, "cuEventRecord");
        find(d.event_query, from, "cuEventQuery");
        find(d.event_synchronize, from, "cuEventSynchronize");
        find(d.event_destroy, from, "cuEventDestroy_v2");
        return d;
    }
};

/** A context is current while it lives: the given one, or else, where none is, any primary one that
 *  is there. A driver may want one before it answers. */
class current_context {
  public:
    explicit current_context(void *context = nullptr) : cuda_(driver::instance()) {
        void *now = nullptr;
        if (!context && cuda_.context_get(&now) == 0 && now) {
            return;
        }
        context = context ? context : any();
        driver::must(cuda_.context_push(context), "cuCtxPushCurrent");
        pushed_ = true;
    }
    current_context(const current_context &) = delete;
    current_context &operator=(const current_context &) = delete;
    ~current_context() {
        void *popped;
        if (pushed_) {
            (void)cuda_.context_pop(&popped);
        }
    }

  private:
    void *any() const {
        int count = 0, active = 0;
        unsigned flags;
        void *found = nullptr;
        driver::must(cuda_.device_get_count(&count), "cuDeviceGetCount");
        for (int i = 0; i < count; i++) {
            if (cuda_.primary_get_state(i, &flags, &active) == 0 && active) {
                driver::must(cuda_.primary_retain(&found, i), "cuDevicePrimaryCtxRetain");
                (void)cuda_.primary_release(i); // it stays: somebody else has retained it
                return found;
            }
        }
        throw invalid_argument("a stream or event of a device that has no primary context");
    }

    const driver &cuda_;
    bool pushed_ = false;
};

/** What stream does later comes after the event. */
inline void wait_before(void *stream, const event_t &event) {
    if (event.get_native()) {
        current_context some;
        driver::must(driver::instance().stream_wait_event(stream, event.get_native(), 0),
                     "cuStreamWaitEvent");
    }
}

/** From and to memory of any kind that the driver knows. */
inline void copy_on(void *stream, void *to, const void *from, std::size_t bytes) {
    const driver &cuda = driver::instance();
    void *context = nullptr;
    {
        current_context some;
        driver::must(cuda.stream_get_context(stream, &context), "cuStreamGetCtx");
    }
    current_context its(context);
    driver::must(cuda.copy_async(reinterpret_cast<std::uintptr_t>(to),
                                 reinterpret_cast<std::uintptr_t>(from), bytes, stream),
                 "cuMemcpyAsync");
}

inline void wait_for(void *event) {
    current_context some;
    driver::must(driver::instance().event_synchronize(event), "cuEventSynchronize");
}

inline bool is_reached(void *event) {
    current_context some;
    int result = driver::instance().event_query(event);
    driver::must(result == driver::not_ready ? 0 : result, "cuEventQuery");
    return result == 0;
}

struct pooled_event {
    void *context = nullptr;
    void *event = nullptr; // NULL: none
};

/** The stream may be the NULL stream of the event's context, while another one is current. */
inline void record(const pooled_event &event, void *stream) {
    current_context its(event.context);
    driver::must(driver::instance().event_record(event.event, stream), "cuEventRecord");
}

/** Events that requests have given back, so that a call makes none in the long run. */
class event_pool {
  public:
    event_pool() = default;
    event_pool(const event_pool &) = delete;
    event_pool &operator=(const event_pool &) = delete;
    ~event_pool() {
        for (const pooled_event &e : free_) {
            if (driver::instance().context_push(e.context) == 0) {
                void *popped;
                (void)driver::instance().event_destroy(e.event);
                (void)driver::instance().context_pop(&popped);
            }
        }
    }

    /** One of the stream's context. */
    pooled_event take(void *stream) {
        const driver &cuda = driver::instance();
        pooled_event taken;
        {
            current_context some;
            driver::must(cuda.stream_get_context(stream, &taken.context), "cuStreamGetCtx");
        }
        std::lock_guard<std::mutex> lock(mutex_);
        for (std::size_t i = free_.size(); i-- > 0;) {
            if (free_[i].context == taken.context) {
                std::swap(taken, free_[i]);
                std::swap(free_[i], free_.back());
                free_.pop_back();
                return taken;
            }
        }
        free_.reserve(++made_); // so that put() needs no memory
        current_context its(taken.context);
        driver::must(cuda.event_create(&taken.event, driver::no_timing), "cuEventCreate");
        return taken;
    }
    void put(const pooled_event &taken) noexcept {
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(taken);
    }

  private:
    std::mutex mutex_;
    std::vector<pooled_event> free_;
    std::size_t made_ = 0;
};

} // namespace detail

inline device create_device() {
    return device();
}
inline device create_device(int number) {
    return device(number);
}
inline context create_context() {
    return context();
}
/** None: calls with it are on host memory. */
inline stream create_stream() {
    return stream();
}
/** Of a CUstream or cudaStream_t. */
template <class Native> stream create_stream(Native *native) {
    return stream(native);
}

} // namespace ccl
} // namespace heddle

#endif

#endif
