/* ccl/request.hpp: what a communicator is inside, and the requests of its calls.
 *
 * A member is one rank's end of a communicator: an endpoint of the C library. The communicator and its requests
 * hold it together; whoever is last leaves the team.
 */
#ifndef HEDDLE_CCL_REQUEST_HPP_
#define HEDDLE_CCL_REQUEST_HPP_

#include <heddle/ccl/types.hpp>

#include <exception>

namespace heddle {
namespace ccl {
namespace detail {

/** One rank of a communicator. */
class member {
  public:
    /** Takes the endpoint. The first holder is the caller. */
    explicit member(heddle_ep_t *ep)
        : ep_(ep), team_(heddle_ep_team(ep)), rank_(heddle_ep_index(ep)),
          size_(heddle_ep_size(ep)) {
    }
    member(const member &) = delete;
    member &operator=(const member &) = delete;

    heddle_ep_t *ep() const noexcept {
        return ep_;
    }
    ucc_team_h team() const noexcept {
        return team_;
    }
    std::size_t rank() const noexcept {
        return rank_;
    }
    std::size_t size() const noexcept {
        return size_;
    }

    void hold() noexcept {
        holders_.fetch_add(1, std::memory_order_relaxed); // by somebody who holds it
    }
    void drop() noexcept {
        // What each holder did comes before the last one's end.
        if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

  private:
    ~member() {
        (void)heddle_leave(ep_); // all requests have ended: each was a holder
    }

    heddle_ep_t *ep_;
    ucc_team_h team_;
    std::uint32_t rank_, size_;
    std::atomic<std::uint32_t> holders_{1};
};

/** Holds a member. */
class member_ref {
  public:
    member_ref() noexcept = default;
    explicit member_ref(member *taken) noexcept : member_(taken) {
    }
    member_ref(member_ref &&other) noexcept : member_(std::exchange(other.member_, nullptr)) {
    }
    member_ref(const member_ref &other) noexcept : member_(other.member_) {
        if (member_) {
            member_->hold();
        }
    }
    member_ref &operator=(member_ref other) noexcept {
        std::swap(member_, other.member_);
        return *this;
    }
    ~member_ref() {
        if (member_) {
            member_->drop();
        }
    }
    member *get() const noexcept {
        return member_;
    }

  private:
    member *member_ = nullptr;
};

/** Leaves the endpoint if there is no memory. */
inline member_ref adopt(heddle_ep_t *ep) {
    try {
        return member_ref(new member(ep));
    } catch (...) {
        (void)heddle_leave(ep);
        throw;
    }
}

/** How many words a request needs behind itself, for the counts of its call. */
struct words {
    std::size_t n;
};

} // namespace detail

/** A call that has been made. Its buffers are the library's until it is complete. One that is destroyed before waits
 *  until then; but where an exception destroys it, the communicator is aborted, so that nobody waits for
 *  ranks that will not come: all that is outstanding on it ends with HEDDLE_ERR_ABORTED, at every rank. */
class request {
  public:
    request(const request &) = delete;
    request &operator=(const request &) = delete;
    ~request() {
        if (handle_) {
            give_up();
        }
    }

    /** Returns when the call is complete; throws if it has failed. Again: the same at once. */
    void wait() {
        if (handle_) {
            end(heddle_wait(handle_, -1));
        }
        detail::check(status_, "wait");
    }

    /** Whether it is complete; throws if it has failed. Makes progress. */
    bool test() {
        if (handle_) {
            ucc_status_t status = heddle_test(handle_);
            if (status == UCC_INPROGRESS) {
                return false;
            }
            end(status);
        }
        detail::check(status_, "test");
        return true;
    }

    /** A call that has begun can't be taken back: false, and it goes on. */
    bool cancel() noexcept {
        return false;
    }

    /** Not for programs. */
    static void *operator new(std::size_t bytes, detail::words behind) {
        return ::operator new(bytes + behind.n * sizeof(std::uint64_t));
    }
    static void operator delete(void *memory) {
        ::operator delete(memory);
    }
    static void operator delete(void *memory, detail::words) {
        ::operator delete(memory);
    }
    explicit request(const detail::member_ref &of) noexcept : member_(of) {
    }
    std::uint64_t *behind() noexcept {
        return reinterpret_cast<std::uint64_t *>(this + 1);
    }
    /** Starts the operation, by its tag if it has a match_id. */
    void start(ucc_coll_args_t &args, const detail::operation &how) {
        ucc_coll_req_h handle = nullptr;
        detail::check(
            how.match_id.empty()
                ? ucc_collective_init(&args, &handle, member_.get()->team())
                : heddle_collective_init_tagged(&args, how.tag, &handle, member_.get()->team()),
            "collective");
        ucc_status_t status = ucc_collective_post(handle);
        if (status < 0) {
            (void)heddle_request_free(&handle);
            detail::fail(status, "collective");
        }
        handle_ = handle;
        if (how.synchronous) {
            wait();
        }
    }

  private:
    void end(ucc_status_t status) noexcept {
        status_ = status;
        (void)heddle_request_free(&handle_);
    }
    void give_up() noexcept {
        if (heddle_test(handle_) == UCC_INPROGRESS) {
            if (std::uncaught_exceptions() > 0) {
                (void)heddle_team_abort(member_.get()->team());
            }
            (void)heddle_wait(handle_, -1);
        }
        (void)heddle_request_free(&handle_);
    }

    detail::member_ref member_;
    ucc_coll_req_h handle_ = nullptr; // NULL: it is complete
    ucc_status_t status_ = UCC_OK;    // then
};

using request_t = unique_ptr_class<request>;

} // namespace ccl
} // namespace heddle

#endif
