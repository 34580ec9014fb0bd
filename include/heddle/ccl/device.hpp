/* ccl/device.hpp: communicators of ranks that exchange memory of devices, in the order of streams.
 */
#ifndef HEDDLE_CCL_DEVICE_HPP_
#define HEDDLE_CCL_DEVICE_HPP_

#include <heddle/ccl/communicator.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

namespace heddle {
namespace ccl {

/** Collectives on memory of devices (managed and pinned memory, too), in the order of a stream:
 *  after what has been enqueued there, and after the events; what is enqueued there later comes
 *  after the call. A call returns when it is enqueued: threads of the host meet, nobody waits for a
 *  device. One with a match_id returns at once, and nothing else may be enqueued on its stream
 *  before request::wait_enqueued(), get_event() or wait(): calls that come in different orders at
 *  different ranks have a stream each. */
class device_communicator : public communicator_base {
  public:
    /** Not for programs: see create_device_communicators(). */
    explicit device_communicator(detail::member_ref member) noexcept
        : communicator_base(std::move(member)) {
    }

    /** As communicator::split(). */
    device_communicator split(std::int64_t color, std::int64_t key) const {
        return device_communicator(split_member(color, key));
    }
    device_communicator split(const comm_split_attr &attr) const {
        return split(attr.get<comm_split_attr_id::color>(), 0);
    }

    request_t allgatherv(const void *send_buf, std::size_t send_count, void *recv_buf,
                         const vector_class<std::size_t> &recv_counts, datatype dtype,
                         const stream_t &stream, const vector_class<event_t> &deps = {},
                         const allgatherv_attr_t &attr = allgatherv_attr_t()) const {
        auto plan =
            detail::plan_allgatherv(holder(), send_buf, send_count, recv_buf, recv_counts, dtype);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allgatherv(const BufferType *send_buf, std::size_t send_count, BufferType *recv_buf,
                         const vector_class<std::size_t> &recv_counts, const stream_t &stream,
                         const vector_class<event_t> &deps = {},
                         const allgatherv_attr_t &attr = allgatherv_attr_t()) const {
        return allgatherv(send_buf, send_count, recv_buf, recv_counts, detail::inferred<BufferType>,
                          stream, deps, attr);
    }

    request_t allgather(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                        const stream_t &stream, const vector_class<event_t> &deps = {},
                        const allgather_attr_t &attr = allgather_attr_t()) const {
        auto plan = detail::plan_allgather(holder(), send_buf, recv_buf, count, dtype);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allgather(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                        const stream_t &stream, const vector_class<event_t> &deps = {},
                        const allgather_attr_t &attr = allgather_attr_t()) const {
        return allgather(send_buf, recv_buf, count, detail::inferred<BufferType>, stream, deps,
                         attr);
    }

    request_t allreduce(const void *send_buf, void *recv_buf, std::size_t count, reduction op,
                        datatype dtype, const stream_t &stream,
                        const vector_class<event_t> &deps = {},
                        const allreduce_attr_t &attr = allreduce_attr_t()) const {
        auto plan = detail::plan_allreduce(holder(), send_buf, recv_buf, count, dtype, op,
                                           attr.operation().fn);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allreduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                        reduction op, const stream_t &stream,
                        const vector_class<event_t> &deps = {},
                        const allreduce_attr_t &attr = allreduce_attr_t()) const {
        return allreduce(send_buf, recv_buf, count, op, detail::inferred<BufferType>, stream, deps,
                         attr);
    }

    request_t alltoall(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       const stream_t &stream, const vector_class<event_t> &deps = {},
                       const alltoall_attr_t &attr = alltoall_attr_t()) const {
        auto plan = detail::plan_alltoall(holder(), send_buf, recv_buf, count, dtype);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t alltoall(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       const stream_t &stream, const vector_class<event_t> &deps = {},
                       const alltoall_attr_t &attr = alltoall_attr_t()) const {
        return alltoall(send_buf, recv_buf, count, detail::inferred<BufferType>, stream, deps,
                        attr);
    }

    request_t alltoallv(const void *send_buf, const vector_class<std::size_t> &send_counts,
                        void *recv_buf, const vector_class<std::size_t> &recv_counts,
                        datatype dtype, const stream_t &stream,
                        const vector_class<event_t> &deps = {},
                        const alltoallv_attr_t &attr = alltoallv_attr_t()) const {
        auto plan =
            detail::plan_alltoallv(holder(), send_buf, send_counts, recv_buf, recv_counts, dtype);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t alltoallv(const BufferType *send_buf, const vector_class<std::size_t> &send_counts,
                        BufferType *recv_buf, const vector_class<std::size_t> &recv_counts,
                        const stream_t &stream, const vector_class<event_t> &deps = {},
                        const alltoallv_attr_t &attr = alltoallv_attr_t()) const {
        return alltoallv(send_buf, send_counts, recv_buf, recv_counts, detail::inferred<BufferType>,
                         stream, deps, attr);
    }

    request_t barrier(const stream_t &stream, const vector_class<event_t> &deps = {},
                      const barrier_attr_t &attr = barrier_attr_t()) const {
        auto plan = detail::plan_barrier(holder());
        return detail::start_on(plan, attr.operation(), stream, deps);
    }

    request_t bcast(void *buf, std::size_t count, datatype dtype, std::size_t root,
                    const stream_t &stream, const vector_class<event_t> &deps = {},
                    const bcast_attr_t &attr = bcast_attr_t()) const {
        auto plan = detail::plan_bcast(holder(), buf, count, dtype, root);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t bcast(BufferType *buf, std::size_t count, std::size_t root, const stream_t &stream,
                    const vector_class<event_t> &deps = {},
                    const bcast_attr_t &attr = bcast_attr_t()) const {
        return bcast(buf, count, detail::inferred<BufferType>, root, stream, deps, attr);
    }

    /** recv_buf is the root's; ignored at the others. */
    request_t reduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                     reduction op, std::size_t root, const stream_t &stream,
                     const vector_class<event_t> &deps = {},
                     const reduce_attr_t &attr = reduce_attr_t()) const {
        auto plan = detail::plan_reduce(holder(), send_buf, recv_buf, count, dtype, op, root,
                                        attr.operation().fn);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t reduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                     reduction op, std::size_t root, const stream_t &stream,
                     const vector_class<event_t> &deps = {},
                     const reduce_attr_t &attr = reduce_attr_t()) const {
        return reduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, root, stream,
                      deps, attr);
    }

    request_t reduce_scatter(const void *send_buf, void *recv_buf, std::size_t recv_count,
                             datatype dtype, reduction op, const stream_t &stream,
                             const vector_class<event_t> &deps = {},
                             const reduce_scatter_attr_t &attr = reduce_scatter_attr_t()) const {
        auto plan = detail::plan_reduce_scatter(holder(), send_buf, recv_buf, recv_count, dtype, op,
                                                attr.operation().fn);
        return detail::start_on(plan, attr.operation(), stream, deps);
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t reduce_scatter(const BufferType *send_buf, BufferType *recv_buf,
                             std::size_t recv_count, reduction op, const stream_t &stream,
                             const vector_class<event_t> &deps = {},
                             const reduce_scatter_attr_t &attr = reduce_scatter_attr_t()) const {
        return reduce_scatter(send_buf, recv_buf, recv_count, detail::inferred<BufferType>, op,
                              stream, deps, attr);
    }
};

/** As create_communicators(). Devices are the program's to choose (heddle_team_gpu() proposes):
 *  buffers and streams say where a call is. */
inline vector_class<device_communicator>
create_device_communicators(int size, const vector_class<pair_class<int, device>> &mine,
                            const shared_ptr_class<kvs> &of, const comm_attr &attr = comm_attr()) {
    return detail::make<device_communicator>(size, detail::ranks_of(mine), of, attr);
}

inline device_communicator create_device_communicator(int size, int rank,
                                                      const shared_ptr_class<kvs> &of,
                                                      const comm_attr &attr = comm_attr()) {
    return std::move(detail::make<device_communicator>(size, {rank}, of, attr).front());
}

} // namespace ccl
} // namespace heddle

#endif

#endif
