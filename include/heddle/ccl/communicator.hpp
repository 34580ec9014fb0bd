/* ccl/communicator.hpp: communicators of ranks that exchange host memory, and how they are made. */
#ifndef HEDDLE_CCL_COMMUNICATOR_HPP_
#define HEDDLE_CCL_COMMUNICATOR_HPP_

#include <heddle/ccl/collectives.hpp>
#include <heddle/ccl/kvs.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

namespace heddle {
namespace ccl {

/** How a communicator is split: by color. */
enum class comm_split_attr_id : int { version, color };

class comm_split_attr {
  public:
    template <auto id> void set(int color) {
        static_assert(id == comm_split_attr_id::color, "no such attribute");
        color_ = color;
    }
    template <auto id> int get() const {
        static_assert(id == comm_split_attr_id::color, "no such attribute");
        return color_;
    }

  private:
    int color_ = 0;
};

/** What host and device communicators have in common. One thread at a time uses one
 *  (comm_attr_id::thread_mode). It can be moved; one that has been moved from throws. Destroyed
 *  while requests are outstanding, it goes on to exist for those. The other ranks' later calls fail
 *  then. */
class communicator_base {
  public:
    int rank() const {
        return static_cast<int>(detail::use(member_, "rank").rank());
    }
    int size() const {
        return static_cast<int>(detail::use(member_, "size").size());
    }
    /** The endpoint, for all other calls of <heddle/heddle.h>; the communicator's. */
    heddle_ep_t *native() const {
        return detail::use(member_, "native").ep();
    }
    /** Not for programs. */
    const detail::member_ref &holder() const noexcept {
        return member_;
    }

  protected:
    explicit communicator_base(detail::member_ref member) noexcept : member_(std::move(member)) {
    }
    communicator_base(communicator_base &&) noexcept = default;
    communicator_base &operator=(communicator_base &&) noexcept = default;
    communicator_base(const communicator_base &) = delete;
    communicator_base &operator=(const communicator_base &) = delete;
    ~communicator_base() = default;

    /** The member of a sub-communicator: ranks of equal color, by key. Every rank calls. */
    detail::member_ref split_member(std::int64_t color, std::int64_t key) const {
        detail::begin_call();
        detail::require(color >= 0, "split", "a color below 0");
        heddle_ep_t *ep = nullptr;
        detail::check(heddle_split(detail::use(member_, "split").ep(), color, key, &ep), "split");
        return detail::adopt(ep);
    }

  private:
    detail::member_ref member_;
};

/** Collectives on memory of the host. Each returns a request; buffers are the library's until that
 *  is complete. Where a buffer's type says what its elements are, `datatype` is left out. */
class communicator : public communicator_base {
  public:
    /** Not for programs: see create_communicator(). */
    explicit communicator(detail::member_ref member) noexcept
        : communicator_base(std::move(member)) {
    }

    /** Ranks of equal color become a communicator, in the order of key, and of rank where keys are
     *  equal. Every rank calls, in turn with its other calls; color is 0 or more. */
    communicator split(std::int64_t color, std::int64_t key) const {
        return communicator(split_member(color, key));
    }
    /** In the order of ranks. */
    communicator split(const comm_split_attr &attr) const {
        return split(attr.get<comm_split_attr_id::color>(), 0);
    }

    request_t allgatherv(const void *send_buf, std::size_t send_count, void *recv_buf,
                         const vector_class<std::size_t> &recv_counts, datatype dtype,
                         const allgatherv_attr_t &attr = allgatherv_attr_t()) const {
        auto plan =
            detail::plan_allgatherv(holder(), send_buf, send_count, recv_buf, recv_counts, dtype);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allgatherv(const BufferType *send_buf, std::size_t send_count, BufferType *recv_buf,
                         const vector_class<std::size_t> &recv_counts,
                         const allgatherv_attr_t &attr = allgatherv_attr_t()) const {
        return allgatherv(send_buf, send_count, recv_buf, recv_counts, detail::inferred<BufferType>,
                          attr);
    }

    request_t allgather(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                        const allgather_attr_t &attr = allgather_attr_t()) const {
        auto plan = detail::plan_allgather(holder(), send_buf, recv_buf, count, dtype);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allgather(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                        const allgather_attr_t &attr = allgather_attr_t()) const {
        return allgather(send_buf, recv_buf, count, detail::inferred<BufferType>, attr);
    }

    request_t allreduce(const void *send_buf, void *recv_buf, std::size_t count, reduction op,
                        datatype dtype, const allreduce_attr_t &attr = allreduce_attr_t()) const {
        auto plan = detail::plan_allreduce(holder(), send_buf, recv_buf, count, dtype, op,
                                           attr.operation().fn);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t allreduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                        reduction op, const allreduce_attr_t &attr = allreduce_attr_t()) const {
        return allreduce(send_buf, recv_buf, count, op, detail::inferred<BufferType>, attr);
    }

    request_t alltoall(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                       const alltoall_attr_t &attr = alltoall_attr_t()) const {
        auto plan = detail::plan_alltoall(holder(), send_buf, recv_buf, count, dtype);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t alltoall(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                       const alltoall_attr_t &attr = alltoall_attr_t()) const {
        return alltoall(send_buf, recv_buf, count, detail::inferred<BufferType>, attr);
    }

    request_t alltoallv(const void *send_buf, const vector_class<std::size_t> &send_counts,
                        void *recv_buf, const vector_class<std::size_t> &recv_counts,
                        datatype dtype, const alltoallv_attr_t &attr = alltoallv_attr_t()) const {
        auto plan =
            detail::plan_alltoallv(holder(), send_buf, send_counts, recv_buf, recv_counts, dtype);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t alltoallv(const BufferType *send_buf, const vector_class<std::size_t> &send_counts,
                        BufferType *recv_buf, const vector_class<std::size_t> &recv_counts,
                        const alltoallv_attr_t &attr = alltoallv_attr_t()) const {
        return alltoallv(send_buf, send_counts, recv_buf, recv_counts, detail::inferred<BufferType>,
                         attr);
    }

    request_t barrier(const barrier_attr_t &attr = barrier_attr_t()) const {
        auto plan = detail::plan_barrier(holder());
        return detail::start(plan, attr.operation());
    }

    request_t bcast(void *buf, std::size_t count, datatype dtype, std::size_t root,
                    const bcast_attr_t &attr = bcast_attr_t()) const {
        auto plan = detail::plan_bcast(holder(), buf, count, dtype, root);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t bcast(BufferType *buf, std::size_t count, std::size_t root,
                    const bcast_attr_t &attr = bcast_attr_t()) const {
        return bcast(buf, count, detail::inferred<BufferType>, root, attr);
    }

    /** recv_buf is the root's; ignored at the others. */
    request_t reduce(const void *send_buf, void *recv_buf, std::size_t count, datatype dtype,
                     reduction op, std::size_t root,
                     const reduce_attr_t &attr = reduce_attr_t()) const {
        auto plan = detail::plan_reduce(holder(), send_buf, recv_buf, count, dtype, op, root,
                                        attr.operation().fn);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t reduce(const BufferType *send_buf, BufferType *recv_buf, std::size_t count,
                     reduction op, std::size_t root,
                     const reduce_attr_t &attr = reduce_attr_t()) const {
        return reduce(send_buf, recv_buf, count, detail::inferred<BufferType>, op, root, attr);
    }

    request_t reduce_scatter(const void *send_buf, void *recv_buf, std::size_t recv_count,
                             datatype dtype, reduction op,
                             const reduce_scatter_attr_t &attr = reduce_scatter_attr_t()) const {
        auto plan = detail::plan_reduce_scatter(holder(), send_buf, recv_buf, recv_count, dtype, op,
                                                attr.operation().fn);
        return detail::start(plan, attr.operation());
    }
    template <class BufferType, class = detail::for_element<BufferType>>
    request_t reduce_scatter(const BufferType *send_buf, BufferType *recv_buf,
                             std::size_t recv_count, reduction op,
                             const reduce_scatter_attr_t &attr = reduce_scatter_attr_t()) const {
        return reduce_scatter(send_buf, recv_buf, recv_count, detail::inferred<BufferType>, op,
                              attr);
    }
};

/* ------------------------------------------------------------------------------------------------
 * Making them
 * ---------------------------------------------------------------------------------------------- */

namespace detail {

inline store &store_of(const shared_ptr_class<kvs> &of) {
    require(of != nullptr, "create_communicators", "no store");
    return of->shared();
}

inline std::vector<int> ranks_of(const std::vector<std::pair<int, device>> &mine) {
    std::vector<int> numbers;
    for (const auto &one : mine) {
        numbers.push_back(one.first);
    }
    return numbers;
}

/** Some ranks' communicators of the given kind. */
template <class Communicator>
std::vector<Communicator> make(int size, const std::vector<int> &mine,
                               const shared_ptr_class<kvs> &of, const comm_attr &attr) {
    ranks numbers;
    begin_call();
    for (int rank : mine) { // one below 0 is beyond every size
        numbers.push_back(static_cast<std::size_t>(rank));
    }
    members made = store_of(of).meet(size < 0 ? 0 : static_cast<std::size_t>(size), numbers, attr);
    std::vector<Communicator> communicators;
    communicators.reserve(made.size());
    for (member_ref &one : made) {
        communicators.emplace_back(std::move(one));
    }
    return communicators;
}

} // namespace detail

/** The communicator of one rank; every rank calls, a thread each. Returns when all have. Ranks of
 *  one process share its store (create_main_kvs()), and each rank makes its communicators of a
 *  store in the same order. */
inline communicator create_communicator(int size, int rank, const shared_ptr_class<kvs> &of,
                                        const comm_attr &attr = comm_attr()) {
    return std::move(detail::make<communicator>(size, {rank}, of, attr).front());
}

/** The communicators of several ranks of the caller's, in the list's order. */
inline vector_class<communicator> create_communicators(int size, const vector_class<int> &mine,
                                                       const shared_ptr_class<kvs> &of,
                                                       const comm_attr &attr = comm_attr()) {
    return detail::make<communicator>(size, mine, of, attr);
}

/** The same with devices, which only say that there are some: streams and buffers say where a call
 * is. */
inline vector_class<communicator>
create_communicators(int size, const vector_class<pair_class<int, device>> &mine,
                     const shared_ptr_class<kvs> &of, const comm_attr &attr = comm_attr()) {
    return detail::make<communicator>(size, detail::ranks_of(mine), of, attr);
}

} // namespace ccl
} // namespace heddle

#endif

#endif
