/* ccl/functions.hpp: oneCCL's free functions, over the same plans as the methods.
 *
 * Each collective is there with and without a stream, and with and without a datatype. Without a
 * stream, or with one that is none (create_stream()), buffers are the host's. attr and deps come
 * last. All return an event.
 */
#ifndef HEDDLE_CCL_FUNCTIONS_HPP_
#define HEDDLE_CCL_FUNCTIONS_HPP_

#include <heddle/ccl/device.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

#include <set> // programs have this and the next from oneCCL's header
#include <sstream>

namespace heddle {
namespace ccl {

/** A call, or a CUDA event of the program's; can be moved. One that has been moved from, or was
 *  made by nobody, is complete. One that is destroyed waits, as request does; between
 *  group_start() and group_end() the group keeps it. */
class event {
  public:
    event() noexcept = default;
    explicit event(request_t request) noexcept : request_(std::move(request)) {
    }
    explicit event(event_t native) noexcept : native_(native) {
    }
    event(event &&) noexcept = default;
    event &operator=(event &&other) {
        release();
        request_ = std::move(other.request_);
        native_ = std::exchange(other.native_, event_t());
        return *this;
    }
    ~event() {
        release();
    }

    void wait() const {
        if (request_) {
            request_->wait();
        } else if (native_.get_native()) {
            detail::wait_for(native_.get_native());
        }
    }
    bool test() const {
        if (request_ || !native_.get_native()) {
            return !request_ || request_->test();
        }
        return detail::is_reached(native_.get_native());
    }
    explicit operator bool() const {
        return test();
    }
    /** Whether there is nothing left that could go on. */
    bool cancel() const noexcept {
        return !request_ && !native_.get_native();
    }
    /** Of a call on a stream: the CUDA event of its end. */
    event_t get_native() const {
        return request_ ? request_->get_event() : native_;
    }
    /** Returns when a call on a stream is enqueued: see request::wait_enqueued(). */
    void wait_enqueued() const {
        if (request_) {
            request_->wait_enqueued();
        }
    }

    /** Not for programs: what stream does later comes after this. */
    void before(const stream &later) const {
        if (request_ && !request_->on_device()) {
            request_->wait();
        } else if (request_ || native_.get_native()) {
            detail::wait_before(later.get_native(), get_native());
        }
    }

  private:
    void release() noexcept {
        detail::group &group = detail::group::current();
        if (request_ && group.depth > 0) {
            group.keep(std::move(request_));
        }
    }

    request_t request_;
    event_t native_;
};

/** Of a CUevent or cudaEvent_t, which outlives it. */
template <class Native> event create_event(Native *native) {
    return event(event_t(native));
}

namespace detail {

inline void come_after(const std::vector<event> &deps, const stream &on) {
    for (const event &one : deps) {
        if (on.on_device()) {
            one.before(on);
        } else {
            one.wait();
        }
    }
}

inline event launch(plan p, const operation &how, const stream &on,
                    const std::vector<event> &deps) {
    group &current = group::current();
    if (current.depth > 0) {
        current.expect();
    }
    come_after(deps, on);
    return event(on.on_device() ? start_on(p, how, on, {}) : start(p, how));
}

/** A bcast out of place. The root's own copy is made here, when the plan has been found right. */
inline plan plan_broadcast(const member_ref &of, const void *send, void *receive, std::size_t count,
                           datatype dtype, std::size_t root, const stream &on,
                           const std::vector<event> &deps) {
    plan p = plan_bcast(of, receive, count, dtype, root);
    if (p.member().rank() == root && send != receive) {
        std::size_t bytes;
        require(!__builtin_mul_overflow(count, p.bytes(), &bytes), "broadcast",
                "a count beyond all memory");
        require(send != nullptr || count == 0, "broadcast", "a buffer that is NULL");
        come_after(deps, on);
        if (bytes > 0 && on.on_device()) {
            copy_on(on.get_native(), receive, send, bytes);
        } else if (bytes > 0) {
            std::memcpy(receive, send, bytes);
        }
    }
    return p;
}

} // namespace detail

/* ------------------------------------------------------------------------------------------------
 * The library, communicators
 * ---------------------------------------------------------------------------------------------- */

/** The library needs no beginning. */
inline void init(const init_attr & = init_attr()) {
}

template <class... Values> init_attr create_init_attr(Values &&...) {
    return init_attr();
}
template <class... Values> kvs_attr create_kvs_attr(Values &&...) {
    return kvs_attr();
}
template <class... Values> comm_attr create_comm_attr(Values &&...values) {
    return detail::attr_with<comm_attr>(std::forward<Values>(values)...);
}

inline communicator create_communicator(int size, int rank, const device &, const context &,
                                        const shared_ptr_class<kvs> &of,
                                        const comm_attr &attr = comm_attr()) {
    return create_communicator(size, rank, of, attr);
}
inline vector_class<communicator>
create_communicators(int size, const vector_class<pair_class<int, device>> &mine, const context &,
                     const shared_ptr_class<kvs> &of, const comm_attr &attr = comm_attr()) {
    return create_communicators(size, mine, of, attr);
}
inline vector_class<communicator> create_communicators(int size, const map_class<int, device> &mine,
                                                       const context &,
                                                       const shared_ptr_class<kvs> &of,
                                                       const comm_attr &attr = comm_attr()) {
    return create_communicators(
        size, vector_class<pair_class<int, device>>(mine.begin(), mine.end()), of, attr);
}

/** communicator::split(). */
inline communicator split_communicator(const communicator &comm, std::int64_t color,
                                       std::int64_t key = 0) {
    return comm.split(color, key);
}
inline communicator comm_split(const communicator &comm, std::int64_t color, std::int64_t key = 0) {
    return comm.split(color, key);
}

template <class... Values> comm_split_attr create_comm_split_attr(Values &&...values) {
    return detail::attr_with<comm_split_attr>(std::forward<Values>(values)...);
}

/** Where older programs have it. */
namespace preview {
using ccl::create_comm_split_attr;
}

/** The same as an object. */
class environment {
  public:
    static environment &instance() {
        static environment one;
        return one;
    }
    shared_ptr_class<kvs> create_main_kvs() const {
        return ccl::create_main_kvs();
    }
    shared_ptr_class<kvs> create_kvs(const kvs::address_type &address) const {
        return ccl::create_kvs(address);
    }
    communicator create_communicator(int size, int rank, const shared_ptr_class<kvs> &of) const {
        return ccl::create_communicator(size, rank, of);
    }
    template <class Native> stream create_stream(Native *native) const {
        return ccl::create_stream(native);
    }
    stream create_stream() const {
        return ccl::create_stream();
    }
    template <class Attr, class... Values> Attr create_operation_attr(Values &&...values) const {
        return ccl::create_operation_attr<Attr>(std::forward<Values>(values)...);
    }
    library_version get_library_version() const {
        return ccl::get_library_version();
    }
};

/* ------------------------------------------------------------------------------------------------
 * Groups: calls whose events are not kept are waited for at the end (on a stream: until they are
 * enqueued). On streams, each call of a group has a stream of its own.
 * ---------------------------------------------------------------------------------------------- */

inline void group_start() {
    detail::group::current().depth++;
}

inline void group_end() {
    detail::group &group = detail::group::current();
    detail::require(group.depth > 0, "group_end", "no group_start");
    if (--group.depth == 0) {
        std::vector<request_t> calls = std::move(group.calls);
        group.calls.clear();
        group.made = 0;
        for (request_t &call : calls) {
            call->wait_enqueued();
        }
        calls.clear();
        group.calls = std::move(calls); // whose memory is the next group's
    }
}

/* ------------------------------------------------------------------------------------------------
 * Collectives
 * ---------------------------------------------------------------------------------------------- */

inline event allgather(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       const communicator_base &comm, const stream &stream,
                       const allgather_attr &attr = allgather_attr(),
                       const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_allgather(comm.holder(), send_buf, recv_buf, count, dtype),
                          attr.operation(), stream, deps);
}

inline event allgather(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       const communicator_base &comm, const allgather_attr &attr = allgather_attr(),
                       const vector_class<event> &deps = {}) {
    return allgather(send_buf, recv_buf, count, dtype, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allgather(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       const communicator_base &comm, const stream &stream,
                       const allgather_attr &attr = allgather_attr(),
                       const vector_class<event> &deps = {}) {
    return allgather(send_buf, recv_buf, count, detail::inferred<BufferType>, comm, stream, attr,
                     deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allgather(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       const communicator_base &comm, const allgather_attr &attr = allgather_attr(),
                       const vector_class<event> &deps = {}) {
    return allgather(send_buf, recv_buf, count, detail::inferred<BufferType>, comm, stream(), attr,
                     deps);
}

inline event allgatherv(const void *send_buf, std::size_t send_count, void *recv_buf,
                        const vector_class<std::size_t> &recv_counts, datatype dtype,
                        const communicator_base &comm, const stream &stream,
                        const allgatherv_attr &attr = allgatherv_attr(),
                        const vector_class<event> &deps = {}) {
    return detail::launch(
        detail::plan_allgatherv(comm.holder(), send_buf, send_count, recv_buf, recv_counts, dtype),
        attr.operation(), stream, deps);
}

inline event allgatherv(const void *send_buf, std::size_t send_count, void *recv_buf,
                        const vector_class<std::size_t> &recv_counts, datatype dtype,
                        const communicator_base &comm,
                        const allgatherv_attr &attr = allgatherv_attr(),
                        const vector_class<event> &deps = {}) {
    return allgatherv(send_buf, send_count, recv_buf, recv_counts, dtype, comm, stream(), attr,
                      deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allgatherv(const BufferType *send_buf, std::size_t send_count, BufferType *recv_buf,
                        const vector_class<std::size_t> &recv_counts, const communicator_base &comm,
                        const stream &stream, const allgatherv_attr &attr = allgatherv_attr(),
                        const vector_class<event> &deps = {}) {
    return allgatherv(send_buf, send_count, recv_buf, recv_counts, detail::inferred<BufferType>,
                      comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allgatherv(const BufferType *send_buf, std::size_t send_count, BufferType *recv_buf,
                        const vector_class<std::size_t> &recv_counts, const communicator_base &comm,
                        const allgatherv_attr &attr = allgatherv_attr(),
                        const vector_class<event> &deps = {}) {
    return allgatherv(send_buf, send_count, recv_buf, recv_counts, detail::inferred<BufferType>,
                      comm, stream(), attr, deps);
}

inline event allreduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       reduction op, const communicator_base &comm, const stream &stream,
                       const allreduce_attr &attr = allreduce_attr(),
                       const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_allreduce(comm.holder(), send_buf, recv_buf, count, dtype,
                                                 op, attr.operation().fn),
                          attr.operation(), stream, deps);
}

inline event allreduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       reduction op, const communicator_base &comm,
                       const allreduce_attr &attr = allreduce_attr(),
                       const vector_class<event> &deps = {}) {
    return allreduce(send_buf, recv_buf, count, dtype, op, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allreduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       reduction op, const communicator_base &comm, const stream &stream,
                       const allreduce_attr &attr = allreduce_attr(),
                       const vector_class<event> &deps = {}) {
    return allreduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, comm, stream,
                     attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event allreduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       reduction op, const communicator_base &comm,
                       const allreduce_attr &attr = allreduce_attr(),
                       const vector_class<event> &deps = {}) {
    return allreduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, comm, stream(),
                     attr, deps);
}

inline event alltoall(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                      const communicator_base &comm, const stream &stream,
                      const alltoall_attr &attr = alltoall_attr(),
                      const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_alltoall(comm.holder(), send_buf, recv_buf, count, dtype),
                          attr.operation(), stream, deps);
}

inline event alltoall(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                      const communicator_base &comm, const alltoall_attr &attr = alltoall_attr(),
                      const vector_class<event> &deps = {}) {
    return alltoall(send_buf, recv_buf, count, dtype, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event alltoall(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                      const communicator_base &comm, const stream &stream,
                      const alltoall_attr &attr = alltoall_attr(),
                      const vector_class<event> &deps = {}) {
    return alltoall(send_buf, recv_buf, count, detail::inferred<BufferType>, comm, stream, attr,
                    deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event alltoall(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                      const communicator_base &comm, const alltoall_attr &attr = alltoall_attr(),
                      const vector_class<event> &deps = {}) {
    return alltoall(send_buf, recv_buf, count, detail::inferred<BufferType>, comm, stream(), attr,
                    deps);
}

inline event alltoallv(const void *send_buf, const vector_class<std::size_t> &send_counts,
                       void *recv_buf, const vector_class<std::size_t> &recv_counts, datatype dtype,
                       const communicator_base &comm, const stream &stream,
                       const alltoallv_attr &attr = alltoallv_attr(),
                       const vector_class<event> &deps = {}) {
    return detail::launch(
        detail::plan_alltoallv(comm.holder(), send_buf, send_counts, recv_buf, recv_counts, dtype),
        attr.operation(), stream, deps);
}

inline event alltoallv(const void *send_buf, const vector_class<std::size_t> &send_counts,
                       void *recv_buf, const vector_class<std::size_t> &recv_counts, datatype dtype,
                       const communicator_base &comm, const alltoallv_attr &attr = alltoallv_attr(),
                       const vector_class<event> &deps = {}) {
    return alltoallv(send_buf, send_counts, recv_buf, recv_counts, dtype, comm, stream(), attr,
                     deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event alltoallv(const BufferType *send_buf, const vector_class<std::size_t> &send_counts,
                       BufferType *recv_buf, const vector_class<std::size_t> &recv_counts,
                       const communicator_base &comm, const stream &stream,
                       const alltoallv_attr &attr = alltoallv_attr(),
                       const vector_class<event> &deps = {}) {
    return alltoallv(send_buf, send_counts, recv_buf, recv_counts, detail::inferred<BufferType>,
                     comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event alltoallv(const BufferType *send_buf, const vector_class<std::size_t> &send_counts,
                       BufferType *recv_buf, const vector_class<std::size_t> &recv_counts,
                       const communicator_base &comm, const alltoallv_attr &attr = alltoallv_attr(),
                       const vector_class<event> &deps = {}) {
    return alltoallv(send_buf, send_counts, recv_buf, recv_counts, detail::inferred<BufferType>,
                     comm, stream(), attr, deps);
}

inline event barrier(const communicator_base &comm, const stream &stream,
                     const barrier_attr &attr = barrier_attr(),
                     const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_barrier(comm.holder()), attr.operation(), stream, deps);
}

inline event barrier(const communicator_base &comm, const barrier_attr &attr = barrier_attr(),
                     const vector_class<event> &deps = {}) {
    return barrier(comm, stream(), attr, deps);
}

inline event bcast(void *buf, std::size_t count, datatype dtype, int root,
                   const communicator_base &comm, const stream &stream,
                   const broadcast_attr &attr = broadcast_attr(),
                   const vector_class<event> &deps = {}) {
    return detail::launch(
        detail::plan_bcast(comm.holder(), buf, count, dtype, static_cast<std::size_t>(root)),
        attr.operation(), stream, deps);
}

inline event bcast(void *buf, std::size_t count, datatype dtype, int root,
                   const communicator_base &comm, const broadcast_attr &attr = broadcast_attr(),
                   const vector_class<event> &deps = {}) {
    return bcast(buf, count, dtype, root, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event bcast(BufferType *buf, std::size_t count, int root, const communicator_base &comm,
                   const stream &stream, const broadcast_attr &attr = broadcast_attr(),
                   const vector_class<event> &deps = {}) {
    return bcast(buf, count, detail::inferred<BufferType>, root, comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event bcast(BufferType *buf, std::size_t count, int root, const communicator_base &comm,
                   const broadcast_attr &attr = broadcast_attr(),
                   const vector_class<event> &deps = {}) {
    return bcast(buf, count, detail::inferred<BufferType>, root, comm, stream(), attr, deps);
}

inline event broadcast(void *buf, std::size_t count, datatype dtype, int root,
                       const communicator_base &comm, const stream &stream,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return detail::launch(
        detail::plan_bcast(comm.holder(), buf, count, dtype, static_cast<std::size_t>(root)),
        attr.operation(), stream, deps);
}

inline event broadcast(void *buf, std::size_t count, datatype dtype, int root,
                       const communicator_base &comm, const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(buf, count, dtype, root, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event broadcast(BufferType *buf, std::size_t count, int root, const communicator_base &comm,
                       const stream &stream, const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(buf, count, detail::inferred<BufferType>, root, comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event broadcast(BufferType *buf, std::size_t count, int root, const communicator_base &comm,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(buf, count, detail::inferred<BufferType>, root, comm, stream(), attr, deps);
}

/** From send_buf, which only the root has, to everybody's recv_buf, the root's included. */
inline event broadcast(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       int root, const communicator_base &comm, const stream &stream,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_broadcast(comm.holder(), send_buf, recv_buf, count, dtype,
                                                 static_cast<std::size_t>(root), stream, deps),
                          attr.operation(), stream, deps);
}

inline event broadcast(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       int root, const communicator_base &comm,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(send_buf, recv_buf, count, dtype, root, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event broadcast(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       int root, const communicator_base &comm, const stream &stream,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(send_buf, recv_buf, count, detail::inferred<BufferType>, root, comm, stream,
                     attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event broadcast(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       int root, const communicator_base &comm,
                       const broadcast_attr &attr = broadcast_attr(),
                       const vector_class<event> &deps = {}) {
    return broadcast(send_buf, recv_buf, count, detail::inferred<BufferType>, root, comm, stream(),
                     attr, deps);
}

inline event reduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                    reduction op, int root, const communicator_base &comm, const stream &stream,
                    const reduce_attr &attr = reduce_attr(), const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_reduce(comm.holder(), send_buf, recv_buf, count, dtype, op,
                                              static_cast<std::size_t>(root), attr.operation().fn),
                          attr.operation(), stream, deps);
}

inline event reduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                    reduction op, int root, const communicator_base &comm,
                    const reduce_attr &attr = reduce_attr(), const vector_class<event> &deps = {}) {
    return reduce(send_buf, recv_buf, count, dtype, op, root, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event reduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                    reduction op, int root, const communicator_base &comm, const stream &stream,
                    const reduce_attr &attr = reduce_attr(), const vector_class<event> &deps = {}) {
    return reduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, root, comm, stream,
                  attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event reduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                    reduction op, int root, const communicator_base &comm,
                    const reduce_attr &attr = reduce_attr(), const vector_class<event> &deps = {}) {
    return reduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, root, comm, stream(),
                  attr, deps);
}

inline event reduce_scatter(const void *send_buf, void *recv_buf, std::size_t recv_count,
                            datatype dtype, reduction op, const communicator_base &comm,
                            const stream &stream,
                            const reduce_scatter_attr &attr = reduce_scatter_attr(),
                            const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_reduce_scatter(comm.holder(), send_buf, recv_buf, recv_count,
                                                      dtype, op, attr.operation().fn),
                          attr.operation(), stream, deps);
}

inline event reduce_scatter(const void *send_buf, void *recv_buf, std::size_t recv_count,
                            datatype dtype, reduction op, const communicator_base &comm,
                            const reduce_scatter_attr &attr = reduce_scatter_attr(),
                            const vector_class<event> &deps = {}) {
    return reduce_scatter(send_buf, recv_buf, recv_count, dtype, op, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event reduce_scatter(const BufferType *send_buf, BufferType *recv_buf,
                            std::size_t recv_count, reduction op, const communicator_base &comm,
                            const stream &stream,
                            const reduce_scatter_attr &attr = reduce_scatter_attr(),
                            const vector_class<event> &deps = {}) {
    return reduce_scatter(send_buf, recv_buf, recv_count, detail::inferred<BufferType>, op, comm,
                          stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event reduce_scatter(const BufferType *send_buf, BufferType *recv_buf,
                            std::size_t recv_count, reduction op, const communicator_base &comm,
                            const reduce_scatter_attr &attr = reduce_scatter_attr(),
                            const vector_class<event> &deps = {}) {
    return reduce_scatter(send_buf, recv_buf, recv_count, detail::inferred<BufferType>, op, comm,
                          stream(), attr, deps);
}

inline event send(const void *buf, std::size_t count, datatype dtype, int peer,
                  const communicator_base &comm, const stream &stream,
                  const pt2pt_attr &attr = pt2pt_attr(), const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_pair(comm.holder(),
                                            const_cast<void *>(static_cast<const void *>(buf)),
                                            count, dtype, detail::use(comm.holder(), "send").rank(),
                                            static_cast<std::size_t>(peer), "send"),
                          attr.operation(), stream, deps);
}

inline event send(const void *buf, std::size_t count, datatype dtype, int peer,
                  const communicator_base &comm, const pt2pt_attr &attr = pt2pt_attr(),
                  const vector_class<event> &deps = {}) {
    return send(buf, count, dtype, peer, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event send(const BufferType *buf, std::size_t count, int peer, const communicator_base &comm,
                  const stream &stream, const pt2pt_attr &attr = pt2pt_attr(),
                  const vector_class<event> &deps = {}) {
    return send(buf, count, detail::inferred<BufferType>, peer, comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event send(const BufferType *buf, std::size_t count, int peer, const communicator_base &comm,
                  const pt2pt_attr &attr = pt2pt_attr(), const vector_class<event> &deps = {}) {
    return send(buf, count, detail::inferred<BufferType>, peer, comm, stream(), attr, deps);
}

inline event recv(void *buf, std::size_t count, datatype dtype, int peer,
                  const communicator_base &comm, const stream &stream,
                  const pt2pt_attr &attr = pt2pt_attr(), const vector_class<event> &deps = {}) {
    return detail::launch(detail::plan_pair(comm.holder(), buf, count, dtype,
                                            static_cast<std::size_t>(peer),
                                            detail::use(comm.holder(), "recv").rank(), "recv"),
                          attr.operation(), stream, deps);
}

inline event recv(void *buf, std::size_t count, datatype dtype, int peer,
                  const communicator_base &comm, const pt2pt_attr &attr = pt2pt_attr(),
                  const vector_class<event> &deps = {}) {
    return recv(buf, count, dtype, peer, comm, stream(), attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event recv(BufferType *buf, std::size_t count, int peer, const communicator_base &comm,
                  const stream &stream, const pt2pt_attr &attr = pt2pt_attr(),
                  const vector_class<event> &deps = {}) {
    return recv(buf, count, detail::inferred<BufferType>, peer, comm, stream, attr, deps);
}

template <class BufferType, class = detail::for_element<BufferType>>
inline event recv(BufferType *buf, std::size_t count, int peer, const communicator_base &comm,
                  const pt2pt_attr &attr = pt2pt_attr(), const vector_class<event> &deps = {}) {
    return recv(buf, count, detail::inferred<BufferType>, peer, comm, stream(), attr, deps);
}

} // namespace ccl
} // namespace heddle

#endif

#endif
