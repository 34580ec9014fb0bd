/* ccl/collectives.hpp: the collectives as arguments of the C library: what host and device
 * variants, templates and `void *` overloads, methods and free functions have in common.
 *
 * A plan is a call's arguments, checked. begin() makes its request: the one allocation, which has
 * room for the counts, since the caller's vectors may end before the call is complete.
 */
#ifndef HEDDLE_CCL_COLLECTIVES_HPP_
#define HEDDLE_CCL_COLLECTIVES_HPP_

#include <heddle/ccl/request.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

namespace heddle {
namespace ccl {
namespace detail {

/** A communicator's member, unless it has been moved from. */
inline const member &use(const member_ref &of, const char *call) {
    require(of.get() != nullptr, call, "a communicator that has been moved from");
    return *of.get();
}

inline ucc_reduction_op_t operation_of(reduction op, const char *call) {
    switch (op) {
    case reduction::sum:
        return UCC_OP_SUM;
    case reduction::prod:
        return UCC_OP_PROD;
    case reduction::min:
        return UCC_OP_MIN;
    case reduction::max:
        return UCC_OP_MAX;
    case reduction::avg:
        return UCC_OP_AVG;
    default:
        refuse(call, "no such reduction");
    }
}

/** Counts of a call with blocks of different sizes; NULL: it has none. */
struct counts {
    const std::vector<std::size_t> *send = nullptr, *receive = nullptr;
    std::size_t scale = 1; // of the C library's elements, per element
};

class plan {
  public:
    plan(const member_ref &of, ucc_coll_type_t type, const char *call)
        : of_(of), member_(use(of, call)), call_(call) {
        begin_call();
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.coll_type = type;
    }

    ucc_coll_args_t args = {};
    counts blocks;
    std::uint64_t tag = 0; // 0: none of its own

    const detail::member &member() const noexcept {
        return member_;
    }
    const member_ref &holder() const noexcept {
        return of_;
    }
    const char *call() const noexcept {
        return call_;
    }

    void root(std::size_t rank) {
        require(rank < member_.size(), call_, "a root that is no rank", rank, member_.size());
        args.root = rank;
    }
    void reduce(reduction op, datatype dtype, reduction_fn fn) {
        if (op == reduction::custom) {
            require(fn != nullptr, call_, "a custom reduction without reduction_fn");
            element_ = element_of(dtype, call_);
            element_.type = registry::instance().reduction_of(dtype, element_.size, fn);
            element_.scale = 1;
        } else {
            require(static_cast<int>(dtype) < predefined, call_,
                    "a datatype that only custom reductions reduce");
            element_ = element_of(dtype, call_);
            args.op = operation_of(op, call_);
        }
    }
    void move(datatype dtype) {
        element_ = element_of(dtype, call_);
    }
    void in_place(bool is) {
        args.flags |= is ? static_cast<std::uint64_t>(UCC_COLL_ARGS_FLAG_IN_PLACE) : 0;
    }

    /** times: blocks of count elements. */
    void source(const void *buffer, std::size_t count, std::size_t times = 1) {
        args.src.info = info(buffer, count, times);
    }
    void result(void *buffer, std::size_t count, std::size_t times = 1) {
        args.dst.info = info(buffer, count, times);
    }
    /** Returns how many elements there are before the caller's block. */
    std::size_t source(const void *buffer, const std::vector<std::size_t> &of) {
        blocks.send = &of;
        return vector(args.src.info_v, buffer, of);
    }
    std::size_t result(void *buffer, const std::vector<std::size_t> &of) {
        blocks.receive = &of;
        return vector(args.dst.info_v, buffer, of);
    }
    /** Buffers may be a device's. */
    void find_memory() {
        (blocks.send ? args.src.info_v.mem_type : args.src.info.mem_type) = UCC_MEMORY_TYPE_UNKNOWN;
        (blocks.receive ? args.dst.info_v.mem_type : args.dst.info.mem_type) =
            UCC_MEMORY_TYPE_UNKNOWN;
    }
    std::size_t bytes() const noexcept { // of an element
        return element_.size;
    }
    /** Whether a buffer begins so many elements behind another one. The sum may be beyond all
     *  memory: then the call is refused later, but no pointer may overflow before. */
    bool is_behind(const void *buffer, const void *begin, std::size_t elements) const noexcept {
        return buffer && reinterpret_cast<std::uintptr_t>(buffer) ==
                             reinterpret_cast<std::uintptr_t>(begin) + elements * element_.size;
    }

  private:
    ucc_coll_buffer_info_t info(const void *buffer, std::size_t count, std::size_t times) {
        std::size_t all;
        require(!__builtin_mul_overflow(count, times * element_.scale, &all), call_,
                "a count beyond all memory");
        require(buffer != nullptr || all == 0, call_, "a buffer that is NULL");
        return {const_cast<void *>(buffer), all, element_.type, UCC_MEMORY_TYPE_HOST};
    }
    std::size_t vector(ucc_coll_buffer_info_v_t &info, const void *buffer,
                       const std::vector<std::size_t> &of) {
        require(of.size() == member_.size(), call_, "counts of another number than the ranks'");
        std::size_t all = 0, before = 0, scaled;
        for (std::size_t i = 0; i < of.size(); i++) {
            before = i == member_.rank() ? all : before;
            require(!__builtin_add_overflow(all, of[i], &all), call_, "counts beyond all memory");
        }
        require(!__builtin_mul_overflow(all, element_.scale, &scaled), call_,
                "counts beyond all memory");
        require(buffer != nullptr || all == 0, call_, "a buffer that is NULL");
        args.flags |= UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
        blocks.scale = element_.scale;
        info = {const_cast<void *>(buffer), nullptr, nullptr, element_.type, UCC_MEMORY_TYPE_HOST};
        return before;
    }

    const member_ref &of_;
    const detail::member &member_;
    const char *call_;
    element element_ = {UCC_DT_UINT8, 1, 1};
};

/** The call's request, with the counts behind it; not started. */
inline request_t begin(plan &p) {
    std::size_t n = p.member().size();
    std::size_t vectors = (p.blocks.send ? 1U : 0U) + (p.blocks.receive ? 1U : 0U);
    request_t r(new (words{vectors * n}) request(p.holder()));
    std::uint64_t *at = r->behind();
    auto keep = [&](const std::vector<std::size_t> *counts, ucc_coll_buffer_info_v_t &info) {
        if (counts) {
            info.counts = at;
            for (std::size_t i = 0; i < n; i++) {
                *at++ = (*counts)[i] * p.blocks.scale;
            }
        }
    };
    keep(p.blocks.send, p.args.src.info_v);
    keep(p.blocks.receive, p.args.dst.info_v);
    return r;
}

/** NULL: in the order of calls. */
inline const std::uint64_t *tag_for(plan &p, const operation &how) {
    if (!how.match_id.empty()) {
        p.tag = how.tag ^ p.tag;
        return &p.tag;
    }
    return p.tag != 0 ? &p.tag : nullptr;
}

inline request_t start(plan &p, const operation &how) {
    request_t r = begin(p);
    r->start(p.args, tag_for(p, how));
    if (how.synchronous) {
        r->wait();
    }
    return r;
}

/** On a stream, behind the events. */
inline request_t start_on(plan &p, const operation &how, const stream &on,
                          const std::vector<event_t> &deps) {
    require(on.on_device(), p.call(), "a stream that is none");
    request_t r = begin(p);
    p.find_memory();
    for (const event_t &event : deps) {
        wait_before(on.get_native(), event);
    }
    r->start_on(p.args, tag_for(p, how), on.get_native(), group::current().depth > 0);
    if (how.synchronous) {
        r->wait();
    }
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * The plans. In place is what its address says: the result where the source is (reduce_scatter and
 * allgather: where the own block is).
 * ---------------------------------------------------------------------------------------------- */

inline plan plan_barrier(const member_ref &of) {
    return plan(of, UCC_COLL_TYPE_BARRIER, "barrier");
}

inline plan plan_bcast(const member_ref &of, void *buffer, std::size_t count, datatype dtype,
                       std::size_t root) {
    plan p(of, UCC_COLL_TYPE_BCAST, "bcast");
    p.root(root);
    p.move(dtype);
    p.source(buffer, count);
    return p;
}

/** From one rank to another: a bcast among two. Each direction has tags of its own, so that two
 *  that send to each other, and receive then, match. */
inline plan plan_pair(const member_ref &of, void *buffer, std::size_t count, datatype dtype,
                      std::size_t from, std::size_t to, const char *call) {
    plan p(of, UCC_COLL_TYPE_BCAST, call);
    require(from < p.member().size(), call, "a peer that is no rank", from, p.member().size());
    require(to < p.member().size(), call, "a peer that is no rank", to, p.member().size());
    require(from != to, call, "a peer that is the caller");
    std::size_t lower = from < to ? from : to;
    p.root(from);
    p.move(dtype);
    p.source(buffer, count);
    p.tag = from < to ? 1 : 2;
    p.args.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    p.args.active_set.start = lower;
    p.args.active_set.stride = static_cast<std::int64_t>(from + to - 2 * lower);
    p.args.active_set.size = 2;
    return p;
}

inline plan plan_allreduce(const member_ref &of, const void *send, void *receive, std::size_t count,
                           datatype dtype, reduction op, reduction_fn fn) {
    plan p(of, UCC_COLL_TYPE_ALLREDUCE, "allreduce");
    p.reduce(op, dtype, fn);
    p.in_place(send == receive);
    p.source(send, count);
    p.result(receive, count);
    return p;
}

inline plan plan_reduce(const member_ref &of, const void *send, void *receive, std::size_t count,
                        datatype dtype, reduction op, std::size_t root, reduction_fn fn) {
    plan p(of, UCC_COLL_TYPE_REDUCE, "reduce");
    p.root(root);
    p.reduce(op, dtype, fn);
    p.source(send, count);
    if (p.member().rank() == root) {
        p.in_place(send == receive);
        p.result(receive, count);
    }
    return p;
}

inline plan plan_reduce_scatter(const member_ref &of, const void *send, void *receive,
                                std::size_t count, datatype dtype, reduction op, reduction_fn fn) {
    plan p(of, UCC_COLL_TYPE_REDUCE_SCATTER, "reduce_scatter");
    std::size_t n = p.member().size();
    p.reduce(op, dtype, fn);
    p.source(send, count, n);
    bool in_place = p.is_behind(receive, send, p.member().rank() * count);
    p.in_place(in_place && n > 1);
    if (in_place && n > 1) {
        p.result(const_cast<void *>(send), count, n);
    } else {
        p.in_place(send == receive && n == 1);
        p.result(receive, count);
    }
    return p;
}

inline plan plan_allgather(const member_ref &of, const void *send, void *receive, std::size_t count,
                           datatype dtype) {
    plan p(of, UCC_COLL_TYPE_ALLGATHER, "allgather");
    p.move(dtype);
    p.source(send, count);
    p.result(receive, count, p.member().size());
    p.in_place(p.is_behind(send, receive, p.member().rank() * count));
    return p;
}

inline plan plan_allgatherv(const member_ref &of, const void *send, std::size_t count,
                            void *receive, const std::vector<std::size_t> &counts, datatype dtype) {
    plan p(of, UCC_COLL_TYPE_ALLGATHERV, "allgatherv");
    p.move(dtype);
    p.source(send, count);
    std::size_t before = p.result(receive, counts);
    require(counts[p.member().rank()] == count, "allgatherv",
            "a send_count that is not the rank's in recv_counts");
    p.in_place(p.is_behind(send, receive, before));
    return p;
}

inline plan plan_alltoall(const member_ref &of, const void *send, void *receive, std::size_t count,
                          datatype dtype) {
    plan p(of, UCC_COLL_TYPE_ALLTOALL, "alltoall");
    p.move(dtype);
    p.in_place(send == receive);
    p.source(send, count, p.member().size());
    p.result(receive, count, p.member().size());
    return p;
}

inline plan plan_alltoallv(const member_ref &of, const void *send,
                           const std::vector<std::size_t> &send_counts, void *receive,
                           const std::vector<std::size_t> &receive_counts, datatype dtype) {
    plan p(of, UCC_COLL_TYPE_ALLTOALLV, "alltoallv");
    p.move(dtype);
    p.in_place(send && send == receive);
    p.source(send, send_counts);
    p.result(receive, receive_counts);
    require(send_counts[p.member().rank()] == receive_counts[p.member().rank()], "alltoallv",
            "counts of the own block that differ");
    return p;
}

} // namespace detail
} // namespace ccl
} // namespace heddle

#endif

#endif
